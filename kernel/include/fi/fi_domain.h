/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * fi_domain.h - domains and memory regions under their fi_* names, see kfi_domain.h
 */
#ifndef _FI_DOMAIN_H_
#define _FI_DOMAIN_H_

#include "fabric.h"
#include "fi_eq.h"
#include "../kfi/kfi_domain.h"

#define fi_mr_attr		kfi_mr_attr

/* As kfi_domain(). */
static inline int fi_domain(struct fid_fabric *fabric, struct fi_info *info,
			    struct fid_domain **domain, void *context)
{
	return kfi_domain(fabric, info, domain, context);
}

/* As kfi_mr_reg(). */
static inline int fi_mr_reg(struct fid_domain *domain, const void *buf, size_t len,
			    uint64_t access, uint64_t offset, uint64_t requested_key,
			    uint64_t flags, struct fid_mr **mr, void *context)
{
	return kfi_mr_reg(domain, buf, len, access, offset, requested_key, flags, mr, context);
}

/* As kfi_mr_regv(). */
static inline int fi_mr_regv(struct fid_domain *domain, const struct kvec *iov, size_t count,
			     uint64_t access, uint64_t offset, uint64_t requested_key,
			     uint64_t flags, struct fid_mr **mr, void *context)
{
	return kfi_mr_regv(domain, iov, count, access, offset, requested_key, flags, mr, context);
}

/* As kfi_mr_regattr(). */
static inline int fi_mr_regattr(struct fid_domain *domain, const struct fi_mr_attr *attr,
				uint64_t flags, struct fid_mr **mr)
{
	return kfi_mr_regattr(domain, attr, flags, mr);
}

/* As kfi_mr_desc(). */
static inline void *fi_mr_desc(struct fid_mr *mr)
{
	return kfi_mr_desc(mr);
}

/* As kfi_mr_key(). */
static inline uint64_t fi_mr_key(struct fid_mr *mr)
{
	return kfi_mr_key(mr);
}

#endif /* _FI_DOMAIN_H_ */
