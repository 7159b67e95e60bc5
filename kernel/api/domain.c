// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Domains. */
#include "api.h"

static int domain_close(struct kfid *fid)
{
	struct kapi_domain *domain = container_of(fid, struct kapi_domain, pub.fid);
	int error;

	error = kapi_close_begin(fid);
	if (error)
		return error;
	error = kofi_domain_close(domain->handle);
	if (error) {
		kapi_close_failed(fid);
		return error;
	}
	domain->pub.ops = &kapi_no_ops_domain;
	domain->pub.mr = &kapi_no_ops_mr;
	kapi_retire(fid, domain);
	return 0;
}

static struct kfi_ops domain_fid_ops = {
	.size = sizeof(struct kfi_ops),
	.close = domain_close,
	.bind = kfi_no_bind,
	.control = kfi_no_control,
	.ops_open = kfi_no_ops_open,
};

static struct kfi_ops_domain domain_ops = {
	.size = sizeof(struct kfi_ops_domain),
	.av_open = kfi_no_av_open,
	.cq_open = kapi_cq_open,
	.endpoint = kapi_ep_open,
	.scalable_ep = kfi_no_scalable_ep,
	.cntr_open = kapi_cntr_open,
	.poll_open = kfi_no_poll_open,
	.stx_ctx = kfi_no_stx_ctx,
	.srx_ctx = kapi_srx_open,
	.query_atomic = kfi_no_query_atomic,
};

int kapi_domain_open(struct kfid_fabric *pub, struct kfi_info *info, struct kfid_domain **out,
		     void *context)
{
	struct kapi_fabric *fabric = container_of(pub, struct kapi_fabric, pub);
	struct kapi_domain *domain;
	struct kofi_info *record;
	int error;

	if (!info || !out)
		return -EINVAL;
	domain = kapi_alloc(sizeof(*domain));
	record = kapi_alloc(sizeof(*record));
	if (!domain || !record) {
		error = -ENOMEM;
		goto out;
	}
	kapi_init(&domain->pub.fid, KFI_CLASS_DOMAIN, &domain_fid_ops, context);
	domain->pub.ops = &domain_ops;
	domain->pub.mr = &kapi_mr_ops;
	domain->fabric = fabric;
	error = kapi_info_in(record, info);
	if (!error)
		error = kofi_domain_open(fabric->handle, record, &domain->handle);
	if (!error)
		*out = &domain->pub;
out:
	if (error)
		kapi_free(domain);
	kapi_free(record);
	return error;
}
