// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Reading and writing a peer's memory. */
#include <linux/uio.h>

#include "api.h"

typedef int (*post_fn)(struct kofi_ep *ep, const struct kofi_op *op);

static struct kofi_ep *handle(struct kfid_ep *ep)
{
	return container_of(ep, struct kapi_ep, pub)->handle;
}

static ssize_t post_buffer(struct kfid_ep *ep, post_fn post,
			   const void *buf, size_t len, uint64_t addr, uint64_t key,
			   uint64_t flags, uint64_t data, void *context)
{
	const struct kofi_rma_iov remote = { .addr = addr, .len = len, .key = key };
	struct kofi_op op = {
		.context = (uintptr_t)context,
		.flags = flags,
		.data = data,
		.remote = &remote,
		.remote_count = 1,
		.default_flags = 1,
	};
	struct kvec segment;
	int error = kapi_buffer_in(&op.memory, &segment, buf, len);

	return error ?: post(handle(ep), &op);
}

static ssize_t post_pieces(struct kfid_ep *ep, post_fn post,
			   enum kfi_iov_type type, const void *pieces, size_t count,
			   uint64_t addr, uint64_t key, void *context)
{
	struct kofi_rma_iov remote = { .addr = addr, .key = key };
	struct kofi_op op = {
		.context = (uintptr_t)context,
		.remote = &remote,
		.remote_count = 1,
		.default_flags = 1,
	};
	int error = kapi_memory_in(&op.memory, type, pieces, count);
	const struct kvec *iov = pieces;
	const struct bio_vec *biov = pieces;
	size_t i;

	if (error)
		return error;
	for (i = 0; i < count; i++)
		remote.len += type == KFI_KVEC ? iov[i].iov_len : biov[i].bv_len;
	return post(handle(ep), &op);
}

static ssize_t post_msg(struct kfid_ep *ep, post_fn post,
			const struct kfi_msg_rma *msg, uint64_t flags)
{
	struct kofi_op op = { .flags = flags };
	int error;

	if (!msg || (!msg->rma_iov && msg->rma_iov_count) || msg->rma_iov_count > U32_MAX)
		return -EINVAL;
	/* kfabric's number for that is another flag's of the Rust part. */
	if (flags & KFI_TAGGED_MULTI_RECV)
		return -KFI_EBADFLAGS;
	/* The two structures are the same. */
	BUILD_BUG_ON(sizeof(struct kfi_rma_iov) != sizeof(struct kofi_rma_iov) ||
		     offsetof(struct kfi_rma_iov, len) != offsetof(struct kofi_rma_iov, len) ||
		     offsetof(struct kfi_rma_iov, key) != offsetof(struct kofi_rma_iov, key));
	op.context = (uintptr_t)msg->context;
	op.data = msg->data;
	op.remote = (const void *)msg->rma_iov;
	op.remote_count = msg->rma_iov_count;
	error = kapi_memory_in(&op.memory, msg->type, msg->msg_iov, msg->iov_count);
	return error ?: post(handle(ep), &op);
}

static ssize_t rma_read(struct kfid_ep *ep, void *buf, size_t len, void *desc, kfi_addr_t src_addr,
			uint64_t addr, uint64_t key, void *context)
{
	return post_buffer(ep, kofi_read, buf, len, addr, key, 0, 0, context);
}

static ssize_t rma_readv(struct kfid_ep *ep, const struct kvec *iov, void **desc, size_t count,
			 kfi_addr_t src_addr, uint64_t addr, uint64_t key, void *context)
{
	return post_pieces(ep, kofi_read, KFI_KVEC, iov, count, addr, key, context);
}

static ssize_t rma_readbv(struct kfid_ep *ep, const struct bio_vec *biov, void **desc,
			  size_t count, kfi_addr_t src_addr, uint64_t addr, uint64_t key,
			  void *context)
{
	return post_pieces(ep, kofi_read, KFI_BVEC, biov, count, addr, key, context);
}

static ssize_t rma_readmsg(struct kfid_ep *ep, const struct kfi_msg_rma *msg, uint64_t flags)
{
	return post_msg(ep, kofi_read, msg, flags);
}

static ssize_t rma_write(struct kfid_ep *ep, const void *buf, size_t len, void *desc,
			 kfi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	return post_buffer(ep, kofi_write, buf, len, addr, key, 0, 0, context);
}

static ssize_t rma_writev(struct kfid_ep *ep, const struct kvec *iov, void **desc, size_t count,
			  kfi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	return post_pieces(ep, kofi_write, KFI_KVEC, iov, count, addr, key, context);
}

static ssize_t rma_writebv(struct kfid_ep *ep, const struct bio_vec *biov, void **desc,
			   size_t count, kfi_addr_t dest_addr, uint64_t addr, uint64_t key,
			   void *context)
{
	return post_pieces(ep, kofi_write, KFI_BVEC, biov, count, addr, key, context);
}

static ssize_t rma_writemsg(struct kfid_ep *ep, const struct kfi_msg_rma *msg, uint64_t flags)
{
	return post_msg(ep, kofi_write, msg, flags);
}

static ssize_t rma_inject(struct kfid_ep *ep, const void *buf, size_t len, kfi_addr_t dest_addr,
			  uint64_t addr, uint64_t key)
{
	if (!buf && len)
		return -EINVAL;
	return kofi_inject_write(handle(ep), buf, len, 0, 0, addr, key);
}

static ssize_t rma_writedata(struct kfid_ep *ep, const void *buf, size_t len, void *desc,
			     uint64_t data, kfi_addr_t dest_addr, uint64_t addr, uint64_t key,
			     void *context)
{
	return post_buffer(ep, kofi_write, buf, len, addr, key, KOFI_REMOTE_CQ_DATA, data,
			   context);
}

static ssize_t rma_injectdata(struct kfid_ep *ep, const void *buf, size_t len, uint64_t data,
			      kfi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
	if (!buf && len)
		return -EINVAL;
	return kofi_inject_write(handle(ep), buf, len, data, KOFI_REMOTE_CQ_DATA, addr, key);
}

struct kfi_ops_rma kapi_rma_ops = {
	.size = sizeof(struct kfi_ops_rma),
	.read = rma_read,
	.readv = rma_readv,
	.readbv = rma_readbv,
	.readmsg = rma_readmsg,
	.write = rma_write,
	.writev = rma_writev,
	.writebv = rma_writebv,
	.writemsg = rma_writemsg,
	.inject = rma_inject,
	.writedata = rma_writedata,
	.injectdata = rma_injectdata,
	.readsgl = kfi_no_rma_readsgl,
	.writesgl = kfi_no_rma_writesgl,
};
