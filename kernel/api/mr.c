// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Memory regions. */
#include "api.h"

static int mr_close(struct kfid *fid)
{
	struct kapi_mr *mr = container_of(fid, struct kapi_mr, pub.fid);
	int error;

	error = kapi_close_begin(fid);
	if (error)
		return error;
	error = kofi_mr_close(mr->handle);
	if (error) {
		kapi_close_failed(fid);
		return error;
	}
	mr->pub.mem_desc = NULL;
	mr->pub.key = KFI_KEY_NOTAVAIL;
	kapi_retire(fid, mr);
	return 0;
}

static struct kfi_ops mr_fid_ops = {
	.size = sizeof(struct kfi_ops),
	.close = mr_close,
	.bind = kfi_no_bind,
	.control = kfi_no_control,
	.ops_open = kfi_no_ops_open,
};

static int mr_register(struct kfid *fid, const struct kofi_mr_attr *attr, uint64_t offset,
		       uint64_t flags, struct kfid_mr **out, void *context)
{
	struct kapi_domain *domain = container_of(fid, struct kapi_domain, pub.fid);
	struct kapi_mr *mr;
	int error;

	if (!out || offset)
		return -EINVAL;
	if (flags)
		return -KFI_EBADFLAGS;
	mr = kapi_alloc(sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	kapi_init(&mr->pub.fid, KFI_CLASS_MR, &mr_fid_ops, context);
	error = kofi_mr_reg(domain->handle, attr, &mr->handle);
	if (error) {
		kapi_free(mr);
		return error;
	}
	mr->pub.mem_desc = mr;
	mr->pub.key = kofi_mr_key(mr->handle);
	mr->pub.iova = kofi_mr_base(mr->handle);
	*out = &mr->pub;
	return 0;
}

static int mr_reg(struct kfid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
		  uint64_t requested_key, uint64_t flags, struct kfid_mr **mr, void *context)
{
	struct kofi_mr_attr attr = { .access = access, .requested_key = requested_key };
	struct kvec segment;
	int error = kapi_buffer_in(&attr.memory, &segment, buf, len);

	return error ?: mr_register(fid, &attr, offset, flags, mr, context);
}

static int mr_reg_pieces(struct kfid *fid, enum kfi_iov_type type, const void *pieces,
			 size_t count, uint64_t access, uint64_t offset, uint64_t requested_key,
			 uint64_t flags, struct kfid_mr **mr, void *context)
{
	struct kofi_mr_attr attr = { .access = access, .requested_key = requested_key };
	int error = kapi_memory_in(&attr.memory, type, pieces, count);

	return error ?: mr_register(fid, &attr, offset, flags, mr, context);
}

static int mr_regv(struct kfid *fid, const struct kvec *iov, size_t count, uint64_t access,
		   uint64_t offset, uint64_t requested_key, uint64_t flags, struct kfid_mr **mr,
		   void *context)
{
	return mr_reg_pieces(fid, KFI_KVEC, iov, count, access, offset, requested_key, flags, mr,
			     context);
}

static int mr_regbv(struct kfid *fid, const struct bio_vec *biov, size_t count, uint64_t access,
		    uint64_t offset, uint64_t requested_key, uint64_t flags, struct kfid_mr **mr,
		    void *context)
{
	return mr_reg_pieces(fid, KFI_BVEC, biov, count, access, offset, requested_key, flags, mr,
			     context);
}

static int mr_regattr(struct kfid *fid, const struct kfi_mr_attr *attr, uint64_t flags,
		      struct kfid_mr **mr)
{
	if (!attr)
		return -EINVAL;
	return mr_reg_pieces(fid, attr->type, attr->mr_iov, attr->iov_count, attr->access,
			     attr->offset, attr->requested_key, flags, mr, attr->context);
}

struct kfi_ops_mr kapi_mr_ops = {
	.size = sizeof(struct kfi_ops_mr),
	.reg = mr_reg,
	.regv = mr_regv,
	.regbv = mr_regbv,
	.regattr = mr_regattr,
	.regsgl = kfi_no_mr_regsgl,
};
