// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Shared receive contexts. */
#include <linux/uio.h>

#include "api.h"

static struct kapi_srx *of(struct kfid *fid)
{
	return container_of(fid, struct kapi_srx, pub.fid);
}

static struct kofi_srx *handle(struct kfid_ep *ep)
{
	return container_of(ep, struct kapi_srx, pub)->handle;
}

static int srx_close(struct kfid *fid)
{
	struct kapi_srx *srx = of(fid);
	int error;

	error = kapi_close_begin(fid);
	if (error)
		return error;
	error = kofi_srx_close(srx->handle);
	if (error) {
		kapi_close_failed(fid);
		return error;
	}
	srx->pub.ops = &kapi_no_ops_ep;
	srx->pub.msg = &kapi_no_ops_msg;
	kapi_retire(fid, srx);
	return 0;
}

static int srx_bind(struct kfid *fid, struct kfid *bfid, uint64_t flags)
{
	struct kofi_cq *cq = kapi_cq_of(bfid);

	return cq ? kofi_srx_bind_cq(of(fid)->handle, cq, flags) : -EINVAL;
}

/* It receives from the start. */
static int srx_control(struct kfid *fid, int command, void *arg)
{
	return command == KFI_ENABLE ? 0 : -ENOSYS;
}

static struct kfi_ops srx_fid_ops = {
	.size = sizeof(struct kfi_ops),
	.close = srx_close,
	.bind = srx_bind,
	.control = srx_control,
	.ops_open = kfi_no_ops_open,
};

struct kofi_srx *kapi_srx_of(struct kfid *fid)
{
	return kapi_is(fid, KFI_CLASS_SRX_CTX, &srx_fid_ops) ? of(fid)->handle : NULL;
}

static ssize_t srx_cancel(struct kfid *fid, void *context)
{
	return kofi_srx_cancel(of(fid)->handle, (uintptr_t)context);
}

static int srx_getopt(struct kfid *fid, int level, int optname, void *optval, size_t *optlen)
{
	if (!optval || !optlen)
		return -EINVAL;
	return kofi_srx_getopt(of(fid)->handle, level, optname, optval, optlen);
}

static int srx_setopt(struct kfid *fid, int level, int optname, const void *optval, size_t optlen)
{
	if (!optval && optlen)
		return -EINVAL;
	return kofi_srx_setopt(of(fid)->handle, level, optname, optval, optlen);
}

static struct kfi_ops_ep srx_ops = {
	.size = sizeof(struct kfi_ops_ep),
	.cancel = srx_cancel,
	.getopt = srx_getopt,
	.setopt = srx_setopt,
	.tx_ctx = kfi_no_tx_ctx,
	.rx_ctx = kfi_no_rx_ctx,
};

static ssize_t srx_recv(struct kfid_ep *ep, void *buf, size_t len, void *desc, kfi_addr_t src_addr,
			void *context)
{
	struct kvec segment;
	struct kofi_op op;
	int error = kapi_op_buffer(&op, &segment, buf, len, context);

	return error ?: kofi_srx_recv(handle(ep), &op);
}

static ssize_t srx_recvv(struct kfid_ep *ep, const struct kvec *iov, void **desc, size_t count,
			 kfi_addr_t src_addr, void *context)
{
	struct kofi_op op;
	int error = kapi_op_pieces(&op, KFI_KVEC, iov, count, context);

	return error ?: kofi_srx_recv(handle(ep), &op);
}

static ssize_t srx_recvbv(struct kfid_ep *ep, const struct bio_vec *biov, void **desc,
			  size_t count, kfi_addr_t src_addr, void *context)
{
	struct kofi_op op;
	int error = kapi_op_pieces(&op, KFI_BVEC, biov, count, context);

	return error ?: kofi_srx_recv(handle(ep), &op);
}

static ssize_t srx_recvmsg(struct kfid_ep *ep, const struct kfi_msg *msg, uint64_t flags)
{
	struct kofi_op op;
	int error = kapi_op_msg(&op, msg, flags);

	return error ?: kofi_srx_recv(handle(ep), &op);
}

static struct kfi_ops_msg srx_msg_ops = {
	.size = sizeof(struct kfi_ops_msg),
	.recv = srx_recv,
	.recvv = srx_recvv,
	.recvbv = srx_recvbv,
	.recvmsg = srx_recvmsg,
	.send = kfi_no_msg_send,
	.sendv = kfi_no_msg_sendv,
	.sendbv = kfi_no_msg_sendbv,
	.sendmsg = kfi_no_msg_sendmsg,
	.inject = kfi_no_msg_inject,
	.senddata = kfi_no_msg_senddata,
	.injectdata = kfi_no_msg_injectdata,
	.recvsgl = kfi_no_msg_recvsgl,
	.sendsgl = kfi_no_msg_sendsgl,
};

int kapi_srx_open(struct kfid_domain *pub, struct kfi_rx_attr *attr, struct kfid_ep **out,
		  void *context)
{
	struct kapi_domain *domain = container_of(pub, struct kapi_domain, pub);
	struct kofi_rx_attr wanted = {};
	struct kapi_srx *srx;
	int error;

	if (!out)
		return -EINVAL;
	if (attr) {
		wanted.op_flags = attr->op_flags;
		wanted.size = attr->size;
		wanted.iov_limit = attr->iov_limit;
	}
	srx = kapi_alloc(sizeof(*srx));
	if (!srx)
		return -ENOMEM;
	kapi_init(&srx->pub.fid, KFI_CLASS_SRX_CTX, &srx_fid_ops, context);
	srx->pub.ops = &srx_ops;
	srx->pub.cm = &kapi_no_ops_cm;
	srx->pub.msg = &srx_msg_ops;
	srx->pub.rma = &kapi_no_ops_rma;
	srx->pub.tagged = &kapi_no_ops_tagged;
	srx->pub.atomic = &kapi_no_ops_atomic;
	error = kofi_srx_open(domain->handle, &wanted, &srx->handle);
	if (error) {
		kapi_free(srx);
		return error;
	}
	*out = &srx->pub;
	return 0;
}
