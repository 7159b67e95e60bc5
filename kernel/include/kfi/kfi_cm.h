/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * kfi_cm.h - connection management
 *
 * server: kfi_passive_ep, kfi_pep_bind, kfi_listen, then for each KFI_CONNREQ event kfi_endpoint
 * with the event's info and kfi_accept, or kfi_reject client: kfi_endpoint, kfi_ep_bind,
 * kfi_connect both: a KFI_CONNECTED event, or an error entry; at the end one KFI_SHUTDOWN event,
 * the endpoint's last
 */
#ifndef _KFI_CM_H_
#define _KFI_CM_H_

#include "kfi_endpoint.h"

struct kfid_mc {
	struct kfid		fid;
	kfi_addr_t		addr;
};

struct kfi_ops_cm {
	size_t	size;
	int	(*setname)(kfid_t fid, void *addr, size_t addrlen);
	int	(*getname)(struct kfid *fid, void *addr, size_t *addrlen);
	int	(*getpeer)(struct kfid_ep *ep, void *addr, size_t *addrlen);
	int	(*connect)(struct kfid_ep *ep, const void *addr, const void *param,
			   size_t paramlen);
	int	(*listen)(struct kfid_pep *pep);
	int	(*accept)(struct kfid_ep *ep, const void *param, size_t paramlen);
	int	(*reject)(struct kfid_pep *pep, kfid_t handle, const void *param,
			  size_t paramlen);
	int	(*shutdown)(struct kfid_ep *ep, uint64_t flags);
	int	(*join)(struct kfid_ep *ep, const void *addr, uint64_t flags,
			struct kfid_mc **mc, void *context);
};

#ifndef KFABRIC_DIRECT

/* The operations of an object that has names, whichever of the two kinds it is; NULL for others. */
static inline struct kfi_ops_cm *kfi_cm_ops(struct kfid *fid)
{
	switch (fid->fclass) {
	case KFI_CLASS_PEP:
		return container_of(fid, struct kfid_pep, fid)->cm;
	case KFI_CLASS_EP:
	case KFI_CLASS_SEP:
	case KFI_CLASS_RX_CTX:
	case KFI_CLASS_SRX_CTX:
	case KFI_CLASS_TX_CTX:
		return container_of(fid, struct kfid_ep, fid)->cm;
	default:
		return NULL;
	}
}

/**
 * kfi_setname() - set the local address
 * @fid: of a passive endpoint or endpoint
 * @addr: the address; port 0 takes any
 * @addrlen: its size
 *
 * Context: Process context, may sleep.
 * Return: 0; -KFI_EOPBADSTATE once it listens or connects; -EINVAL; -EADDRINUSE, -EADDRNOTAVAIL.
 */
static inline int kfi_setname(struct kfid *fid, void *addr, size_t addrlen)
{
	struct kfi_ops_cm *cm = kfi_cm_ops(fid);

	return cm ? cm->setname(fid, addr, addrlen) : -EINVAL;
}

/**
 * kfi_getname() - the local address
 * @fid: of a passive endpoint or endpoint
 * @addr: where it goes
 * @addrlen: room there; afterwards the address's size
 *
 * Context: Process context, may sleep.
 * Return: 0; -KFI_ETOOSMALL when only the beginning had room; -EINVAL.
 */
static inline int kfi_getname(struct kfid *fid, void *addr, size_t *addrlen)
{
	struct kfi_ops_cm *cm = kfi_cm_ops(fid);

	return cm ? cm->getname(fid, addr, addrlen) : -EINVAL;
}

/**
 * kfi_getpeer() - the peer's address
 * @ep: the endpoint
 * @addr: where it goes
 * @addrlen: room there; afterwards the address's size
 *
 * Context: Process context, may sleep.
 * Return: 0; -ENOTCONN before the connection; -KFI_ETOOSMALL when only the beginning had room;
 * -EINVAL.
 */
static inline int kfi_getpeer(struct kfid_ep *ep, void *addr, size_t *addrlen)
{
	return ep->cm->getpeer(ep, addr, addrlen);
}

/**
 * kfi_listen() - listen for connection requests
 * @pep: a passive endpoint with an event queue
 *
 * Requests come as KFI_CONNREQ events. While the queue is full, none are taken in.
 *
 * Context: Process context, may sleep.
 * Return: 0; -KFI_ENOEQ without an event queue; -EINVAL when it listens already; -EADDRINUSE and
 * the like.
 */
static inline int kfi_listen(struct kfid_pep *pep)
{
	return pep->cm->listen(pep);
}

/**
 * kfi_connect() - begin a connection
 * @ep: an endpoint; it is enabled, if it was not
 * @addr: the listener's address, in the info's format, or NULL for that of the info
 * @param: private data for the listener, or NULL
 * @paramlen: its size, up to what KFI_OPT_CM_DATA_SIZE tells
 *
 * Context: Process context, may sleep, but does not wait for the connection.
 * Return: 0 when it has begun: the event queue tells how it went; -EINVAL for a second time, on an
 * endpoint made for a request, without any address, or with too much data; -KFI_ENOEQ, -KFI_ENOCQ
 * when a queue is missing; -KFI_EOPBADSTATE after a failed attempt.
 */
static inline int kfi_connect(struct kfid_ep *ep, const void *addr, const void *param,
			      size_t paramlen)
{
	return ep->cm->connect(ep, addr, param, paramlen);
}

/**
 * kfi_accept() - accept a connection request
 * @ep: an endpoint made with the request's info
 * @param: private data for the peer, or NULL
 * @paramlen: its size
 *
 * Context: Process context, may sleep.
 * Return: 0: KFI_CONNECTED or an error entry follows, and the request's handle is used up; -EINVAL
 * for a second time, on an endpoint not made for a request, or with too much data; -KFI_ENOEQ,
 * -KFI_ENOCQ. A failed call keeps the request: it can still be rejected.
 */
static inline int kfi_accept(struct kfid_ep *ep, const void *param, size_t paramlen)
{
	return ep->cm->accept(ep, param, paramlen);
}

/**
 * kfi_reject() - refuse a connection request
 * @pep: the passive endpoint that it came to
 * @connreq: the handle of the request's info
 * @param: private data for the peer, who finds it in the error entry
 * @paramlen: its size
 *
 * Context: Process context, may sleep.
 * Return: 0: the handle is used up; -EINVAL for a handle that is used up or none, or with too much
 * data.
 */
static inline int kfi_reject(struct kfid_pep *pep, kfid_t connreq, const void *param,
			     size_t paramlen)
{
	return pep->cm->reject(pep, connreq, param, paramlen);
}

/**
 * kfi_shutdown() - end a connection in order
 * @ep: a connected endpoint
 * @flags: 0
 *
 * What is queued is sent first; KFI_SHUTDOWN comes on both sides.
 *
 * Context: Process context, may sleep, but does not wait for the end.
 * Return: 0, also when called again; -ENOTCONN before the connection; -EINVAL with flags.
 */
static inline int kfi_shutdown(struct kfid_ep *ep, uint64_t flags)
{
	return ep->cm->shutdown(ep, flags);
}

/**
 * kfi_join() - join a multicast group
 * @ep: the endpoint
 * @addr: the group's
 * @flags: 0
 * @mc: where the membership goes
 * @context: the client's
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline int kfi_join(struct kfid_ep *ep, const void *addr, uint64_t flags,
			   struct kfid_mc **mc, void *context)
{
	if (!KFI_CHECK_OP(ep->cm, struct kfi_ops_cm, join))
		return -ENOSYS;
	return ep->cm->join(ep, addr, flags, mc, context);
}

/**
 * kfi_mc_addr() - a group's handle for operations
 * @mc: the membership
 *
 * Context: Any.
 * Return: the handle.
 */
static inline kfi_addr_t kfi_mc_addr(struct kfid_mc *mc)
{
	return mc->addr;
}

#else
#include <kfi_direct_cm.h>
#endif

#endif /* _KFI_CM_H_ */
