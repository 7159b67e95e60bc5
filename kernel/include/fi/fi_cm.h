/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * fi_cm.h - connection management under its fi_* names, see kfi_cm.h
 */
#ifndef _FI_CM_H_
#define _FI_CM_H_

#include "fi_endpoint.h"
#include "../kfi/kfi_cm.h"

/* As kfi_setname(). */
static inline int fi_setname(struct fid *fid, void *addr, size_t addrlen)
{
	return kfi_setname(fid, addr, addrlen);
}

/* As kfi_getname(). */
static inline int fi_getname(struct fid *fid, void *addr, size_t *addrlen)
{
	return kfi_getname(fid, addr, addrlen);
}

/* As kfi_getpeer(). */
static inline int fi_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen)
{
	return kfi_getpeer(ep, addr, addrlen);
}

/* listen for connection requests (the deck's slides 2 and 8): as kfi_listen(). */
static inline int fi_listen(struct fid_pep *pep)
{
	return kfi_listen(pep);
}

/* As kfi_connect(). */
static inline int fi_connect(struct fid_ep *ep, const void *addr, const void *param,
			     size_t paramlen)
{
	return kfi_connect(ep, addr, param, paramlen);
}

/* As kfi_accept(). */
static inline int fi_accept(struct fid_ep *ep, const void *param, size_t paramlen)
{
	return kfi_accept(ep, param, paramlen);
}

/* As kfi_reject(). */
static inline int fi_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen)
{
	return kfi_reject(pep, handle, param, paramlen);
}

/* As kfi_shutdown(). */
static inline int fi_shutdown(struct fid_ep *ep, uint64_t flags)
{
	return kfi_shutdown(ep, flags);
}

#endif /* _FI_CM_H_ */
