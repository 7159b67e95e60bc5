// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Sending and receiving. */
#include <linux/uio.h>

#include "api.h"

typedef int (*post_fn)(struct kofi_ep *ep, const struct kofi_op *op);

static struct kofi_ep *handle(struct kfid_ep *ep)
{
	return container_of(ep, struct kapi_ep, pub)->handle;
}

/* Names the pieces of an operation or region. */
int kapi_memory_in(struct kofi_memory *memory, enum kfi_iov_type type, const void *segments,
		   size_t count)
{
	BUILD_BUG_ON((int)KFI_KVEC != KOFI_KVEC || (int)KFI_BVEC != KOFI_BVEC);
	if (!count) {
		*memory = (struct kofi_memory) { .type = KOFI_KVEC };
		return 0;
	}
	/* What kfabric calls KFI_SGL. */
	if ((int)type == KFI_BVEC + 1)
		return -ENOSYS;
	if ((type != KFI_KVEC && type != KFI_BVEC) || !segments || count > U32_MAX)
		return -EINVAL;
	*memory = (struct kofi_memory) { .type = type, .count = count, .segments = segments };
	return 0;
}

/* The same for one piece, whose description is in @segment. */
int kapi_buffer_in(struct kofi_memory *memory, struct kvec *segment, const void *buf, size_t len)
{
	if (!buf && len)
		return -EINVAL;
	segment->iov_base = (void *)buf;
	segment->iov_len = len;
	return kapi_memory_in(memory, KFI_KVEC, segment, len ? 1 : 0);
}

/* What an operation is: bytes in one place, */
int kapi_op_buffer(struct kofi_op *op, struct kvec *segment, const void *buf, size_t len,
		   void *context)
{
	*op = (struct kofi_op) { .context = (uintptr_t)context, .default_flags = 1 };
	return kapi_buffer_in(&op->memory, segment, buf, len);
}

/* in several, */
int kapi_op_pieces(struct kofi_op *op, enum kfi_iov_type type, const void *pieces, size_t count,
		   void *context)
{
	*op = (struct kofi_op) { .context = (uintptr_t)context, .default_flags = 1 };
	return kapi_memory_in(&op->memory, type, pieces, count);
}

/* or as a message says, with flags of its own. */
int kapi_op_msg(struct kofi_op *op, const struct kfi_msg *msg, uint64_t flags)
{
	if (!msg)
		return -EINVAL;
	/* kfabric's number for that is another flag's of the Rust part. */
	if (flags & KFI_TAGGED_MULTI_RECV)
		return -KFI_EBADFLAGS;
	*op = (struct kofi_op) {
		.flags = flags, .context = (uintptr_t)msg->context, .data = msg->data,
	};
	return kapi_memory_in(&op->memory, msg->type, msg->msg_iov, msg->iov_count);
}

static ssize_t post_buffer(struct kfid_ep *ep, post_fn post,
			   const void *buf, size_t len, uint64_t flags, uint64_t data,
			   void *context)
{
	struct kvec segment;
	struct kofi_op op;
	int error = kapi_op_buffer(&op, &segment, buf, len, context);

	op.flags = flags;
	op.data = data;
	return error ?: post(handle(ep), &op);
}

static ssize_t post_pieces(struct kfid_ep *ep, post_fn post,
			   enum kfi_iov_type type, const void *pieces, size_t count, void *context)
{
	struct kofi_op op;
	int error = kapi_op_pieces(&op, type, pieces, count, context);

	return error ?: post(handle(ep), &op);
}

static ssize_t post_msg(struct kfid_ep *ep, post_fn post,
			const struct kfi_msg *msg, uint64_t flags)
{
	struct kofi_op op;
	int error = kapi_op_msg(&op, msg, flags);

	return error ?: post(handle(ep), &op);
}

static ssize_t msg_recv(struct kfid_ep *ep, void *buf, size_t len, void *desc, kfi_addr_t src_addr,
			void *context)
{
	return post_buffer(ep, kofi_recv, buf, len, 0, 0, context);
}

static ssize_t msg_recvv(struct kfid_ep *ep, const struct kvec *iov, void **desc, size_t count,
			 kfi_addr_t src_addr, void *context)
{
	return post_pieces(ep, kofi_recv, KFI_KVEC, iov, count, context);
}

static ssize_t msg_recvbv(struct kfid_ep *ep, const struct bio_vec *biov, void **desc,
			  size_t count, kfi_addr_t src_addr, void *context)
{
	return post_pieces(ep, kofi_recv, KFI_BVEC, biov, count, context);
}

static ssize_t msg_recvmsg(struct kfid_ep *ep, const struct kfi_msg *msg, uint64_t flags)
{
	return post_msg(ep, kofi_recv, msg, flags);
}

static ssize_t msg_send(struct kfid_ep *ep, const void *buf, size_t len, void *desc,
			kfi_addr_t dest_addr, void *context)
{
	return post_buffer(ep, kofi_send, buf, len, 0, 0, context);
}

static ssize_t msg_sendv(struct kfid_ep *ep, const struct kvec *iov, void **desc, size_t count,
			 kfi_addr_t dest_addr, void *context)
{
	return post_pieces(ep, kofi_send, KFI_KVEC, iov, count, context);
}

static ssize_t msg_sendbv(struct kfid_ep *ep, const struct bio_vec *biov, void **desc,
			  size_t count, kfi_addr_t dest_addr, void *context)
{
	return post_pieces(ep, kofi_send, KFI_BVEC, biov, count, context);
}

static ssize_t msg_sendmsg(struct kfid_ep *ep, const struct kfi_msg *msg, uint64_t flags)
{
	return post_msg(ep, kofi_send, msg, flags);
}

static ssize_t msg_inject(struct kfid_ep *ep, const void *buf, size_t len, kfi_addr_t dest_addr)
{
	return !buf && len ? -EINVAL : kofi_inject(handle(ep), buf, len, 0, 0);
}

static ssize_t msg_senddata(struct kfid_ep *ep, const void *buf, size_t len, void *desc,
			    uint64_t data, kfi_addr_t dest_addr, void *context)
{
	return post_buffer(ep, kofi_send, buf, len, KOFI_REMOTE_CQ_DATA, data, context);
}

static ssize_t msg_injectdata(struct kfid_ep *ep, const void *buf, size_t len, uint64_t data,
			      kfi_addr_t dest_addr)
{
	return !buf && len ? -EINVAL : kofi_inject(handle(ep), buf, len, data, KOFI_REMOTE_CQ_DATA);
}

struct kfi_ops_msg kapi_msg_ops = {
	.size = sizeof(struct kfi_ops_msg),
	.recv = msg_recv,
	.recvv = msg_recvv,
	.recvbv = msg_recvbv,
	.recvmsg = msg_recvmsg,
	.send = msg_send,
	.sendv = msg_sendv,
	.sendbv = msg_sendbv,
	.sendmsg = msg_sendmsg,
	.inject = msg_inject,
	.senddata = msg_senddata,
	.injectdata = msg_injectdata,
	.recvsgl = kfi_no_msg_recvsgl,
	.sendsgl = kfi_no_msg_sendsgl,
};
