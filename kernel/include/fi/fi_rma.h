/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * fi_rma.h - reading and writing a peer's memory under its fi_* names, see kfi_rma.h
 */
#ifndef _FI_RMA_H_
#define _FI_RMA_H_

#include "fi_endpoint.h"
#include "../kfi/kfi_rma.h"

#define fi_rma_iov		kfi_rma_iov
#define fi_msg_rma		kfi_msg_rma

/* As kfi_read(). */
static inline ssize_t fi_read(struct fid_ep *ep, void *buf, size_t len, void *desc,
			      fi_addr_t src_addr, uint64_t addr, uint64_t key, void *context)
{
	return kfi_read(ep, buf, len, desc, src_addr, addr, key, context);
}

/* As kfi_readmsg(). */
static inline ssize_t fi_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	return kfi_readmsg(ep, msg, flags);
}

/* As kfi_write(). */
static inline ssize_t fi_write(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			       fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	return kfi_write(ep, buf, len, desc, dest_addr, addr, key, context);
}

/* As kfi_writemsg(). */
static inline ssize_t fi_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	return kfi_writemsg(ep, msg, flags);
}

/* As kfi_writedata(). */
static inline ssize_t fi_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
				   uint64_t data, fi_addr_t dest_addr, uint64_t addr,
				   uint64_t key, void *context)
{
	return kfi_writedata(ep, buf, len, desc, data, dest_addr, addr, key, context);
}

/* As kfi_inject_write(). */
static inline ssize_t fi_inject_write(struct fid_ep *ep, const void *buf, size_t len,
				      fi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
	return kfi_inject_write(ep, buf, len, dest_addr, addr, key);
}

#endif /* _FI_RMA_H_ */
