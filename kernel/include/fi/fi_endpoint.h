/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * fi_endpoint.h - endpoints and messages under their fi_* names, see kfi_endpoint.h
 */
#ifndef _FI_ENDPOINT_H_
#define _FI_ENDPOINT_H_

#include "fi_domain.h"
#include "../kfi/kfi_endpoint.h"

#define fi_msg			kfi_msg

#define FI_OPT_ENDPOINT		KFI_OPT_ENDPOINT
#define FI_OPT_MIN_MULTI_RECV	KFI_OPT_MIN_MULTI_RECV
#define FI_OPT_CM_DATA_SIZE	KFI_OPT_CM_DATA_SIZE

/**
 * fi_passive_ep() - make a passive endpoint (the deck's slide 3)
 * @fabric: in which fabric
 * @info: the application's choice of fi_getinfo()'s
 * @pep: where the passive endpoint goes
 * @context: of the passive endpoint, to be found in its FI_CONNREQ events; also a number, as on
 *	slide 8
 *
 * Context: Process context, may sleep.
 * Return: as kfi_passive_ep().
 */
static inline int fi_passive_ep(struct fid_fabric *fabric, struct fi_info *info,
				struct fid_pep **pep, void *context)
{
	return kfi_passive_ep(fabric, info, pep, context);
}

/* Slide 8 gives 0xCafeBabe as context, which is no pointer. */
#define fi_passive_ep(fabric, info, pep, context)	\
	fi_passive_ep(fabric, info, pep, (void *)(uintptr_t)(context))

/* bind an event queue to a passive endpoint (the deck's slide 6): as kfi_pep_bind(). */
static inline int fi_pep_bind(struct fid_pep *pep, struct fid *fid, uint64_t flags)
{
	return kfi_pep_bind(pep, fid, flags);
}

/* As kfi_endpoint(). */
static inline int fi_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
			      void *context)
{
	return kfi_endpoint(domain, info, ep, context);
}

/* As kfi_srx_context(). */
static inline int fi_srx_context(struct fid_domain *domain, struct fi_rx_attr *attr,
				 struct fid_ep **rx_ep, void *context)
{
	return kfi_srx_context(domain, attr, rx_ep, context);
}

/* As kfi_ep_bind(). */
static inline int fi_ep_bind(struct fid_ep *ep, struct fid *bfid, uint64_t flags)
{
	return kfi_ep_bind(ep, bfid, flags);
}

/* As kfi_enable(). */
static inline int fi_enable(struct fid_ep *ep)
{
	return kfi_enable(ep);
}

/* As kfi_cancel(). */
static inline ssize_t fi_cancel(struct fid *fid, void *context)
{
	return kfi_cancel(fid, context);
}

/* As kfi_setopt(). */
static inline int fi_setopt(struct fid *fid, int level, int optname, const void *optval,
			    size_t optlen)
{
	return kfi_setopt(fid, level, optname, optval, optlen);
}

/* As kfi_getopt(). */
static inline int fi_getopt(struct fid *fid, int level, int optname, void *optval, size_t *optlen)
{
	return kfi_getopt(fid, level, optname, optval, optlen);
}

/* As kfi_recv(). */
static inline ssize_t fi_recv(struct fid_ep *ep, void *buf, size_t len, void *desc,
			      fi_addr_t src_addr, void *context)
{
	return kfi_recv(ep, buf, len, desc, src_addr, context);
}

/* As kfi_recvv(). */
static inline ssize_t fi_recvv(struct fid_ep *ep, const struct kvec *iov, void **desc,
			       size_t count, fi_addr_t src_addr, void *context)
{
	return kfi_recvv(ep, iov, desc, count, src_addr, context);
}

/* As kfi_recvmsg(). */
static inline ssize_t fi_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	return kfi_recvmsg(ep, msg, flags);
}

/* As kfi_send(). */
static inline ssize_t fi_send(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			      fi_addr_t dest_addr, void *context)
{
	return kfi_send(ep, buf, len, desc, dest_addr, context);
}

/* As kfi_sendv(). */
static inline ssize_t fi_sendv(struct fid_ep *ep, const struct kvec *iov, void **desc,
			       size_t count, fi_addr_t dest_addr, void *context)
{
	return kfi_sendv(ep, iov, desc, count, dest_addr, context);
}

/* As kfi_sendmsg(). */
static inline ssize_t fi_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	return kfi_sendmsg(ep, msg, flags);
}

/* As kfi_inject(). */
static inline ssize_t fi_inject(struct fid_ep *ep, const void *buf, size_t len,
				fi_addr_t dest_addr)
{
	return kfi_inject(ep, buf, len, dest_addr);
}

/* As kfi_senddata(). */
static inline ssize_t fi_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
				  uint64_t data, fi_addr_t dest_addr, void *context)
{
	return kfi_senddata(ep, buf, len, desc, data, dest_addr, context);
}

/* As kfi_injectdata(). */
static inline ssize_t fi_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
				    fi_addr_t dest_addr)
{
	return kfi_injectdata(ep, buf, len, data, dest_addr);
}

#endif /* _FI_ENDPOINT_H_ */
