// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Endpoints: all but the transfer of data, which is in msg.c and rma.c. */
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/socket.h>

#include "api.h"

static struct kapi_ep *of(struct kfid *fid)
{
	return container_of(fid, struct kapi_ep, pub.fid);
}

static struct kapi_ep *ep_of(struct kfid_ep *pub)
{
	return container_of(pub, struct kapi_ep, pub);
}

static int ep_close(struct kfid *fid)
{
	struct kapi_ep *ep = of(fid);
	int error;

	error = kapi_close_begin(fid);
	if (error)
		return error;
	error = kofi_ep_close(ep->handle);
	if (error) {
		kapi_close_failed(fid);
		return error;
	}
	ep->pub.ops = &kapi_no_ops_ep;
	ep->pub.cm = &kapi_no_ops_cm;
	ep->pub.msg = &kapi_no_ops_msg;
	ep->pub.rma = &kapi_no_ops_rma;
	kapi_retire(fid, ep);
	return 0;
}

static int ep_bind(struct kfid *fid, struct kfid *bfid, uint64_t flags)
{
	struct kofi_ep *ep = of(fid)->handle;
	struct kofi_cntr *cntr;
	struct kofi_srx *srx;
	struct kofi_eq *eq;
	struct kofi_cq *cq;

	eq = kapi_eq_of(bfid);
	if (eq)
		return kofi_ep_bind_eq(ep, eq, flags);
	cq = kapi_cq_of(bfid);
	if (cq)
		return kofi_ep_bind_cq(ep, cq, flags);
	cntr = kapi_cntr_of(bfid);
	if (cntr)
		return kofi_ep_bind_cntr(ep, cntr, flags);
	srx = kapi_srx_of(bfid);
	if (srx)
		return kofi_ep_bind_srx(ep, srx, flags);
	return -EINVAL;
}

static int ep_control(struct kfid *fid, int command, void *arg)
{
	return command == KFI_ENABLE ? kofi_ep_enable(of(fid)->handle) : -ENOSYS;
}

static struct kfi_ops ep_fid_ops = {
	.size = sizeof(struct kfi_ops),
	.close = ep_close,
	.bind = ep_bind,
	.control = ep_control,
	.ops_open = kfi_no_ops_open,
};

static ssize_t ep_cancel(struct kfid *fid, void *context)
{
	return kofi_cancel(of(fid)->handle, (uintptr_t)context);
}

static int ep_getopt(struct kfid *fid, int level, int optname, void *optval, size_t *optlen)
{
	if (!optval || !optlen)
		return -EINVAL;
	return kofi_ep_getopt(of(fid)->handle, level, optname, optval, optlen);
}

static int ep_setopt(struct kfid *fid, int level, int optname, const void *optval, size_t optlen)
{
	if (!optval && optlen)
		return -EINVAL;
	return kofi_ep_setopt(of(fid)->handle, level, optname, optval, optlen);
}

static struct kfi_ops_ep ep_ops = {
	.size = sizeof(struct kfi_ops_ep),
	.cancel = ep_cancel,
	.getopt = ep_getopt,
	.setopt = ep_setopt,
	.tx_ctx = kfi_no_tx_ctx,
	.rx_ctx = kfi_no_rx_ctx,
};

static int ep_getname(struct kfid *fid, void *addr, size_t *addrlen)
{
	if (!addrlen || (!addr && *addrlen))
		return -EINVAL;
	return kofi_ep_getname(of(fid)->handle, addr, addrlen);
}

static int ep_getpeer(struct kfid_ep *ep, void *addr, size_t *addrlen)
{
	if (!addrlen || (!addr && *addrlen))
		return -EINVAL;
	return kofi_ep_getpeer(ep_of(ep)->handle, addr, addrlen);
}

static int ep_connect(struct kfid_ep *ep, const void *addr, const void *param, size_t paramlen)
{
	const struct sockaddr *name = addr;
	size_t addrlen = 0;

	if (!param && paramlen)
		return -EINVAL;
	if (name) {
		if (name->sa_family == AF_INET)
			addrlen = sizeof(struct sockaddr_in);
		else if (name->sa_family == AF_INET6)
			addrlen = sizeof(struct sockaddr_in6);
		else
			return -EINVAL;
	}
	return kofi_ep_connect(ep_of(ep)->handle, addr, addrlen, param, paramlen);
}

static int ep_accept(struct kfid_ep *pub, const void *param, size_t paramlen)
{
	struct kapi_ep *ep = ep_of(pub);
	int error;

	if (!param && paramlen)
		return -EINVAL;
	error = kofi_ep_accept(ep->handle, param, paramlen);
	if (!error)
		kapi_request_end(ep->fabric, ep->request);
	return error;
}

static int ep_shutdown(struct kfid_ep *ep, uint64_t flags)
{
	return kofi_ep_shutdown(ep_of(ep)->handle, flags);
}

static struct kfi_ops_cm ep_cm_ops = {
	.size = sizeof(struct kfi_ops_cm),
	.setname = kfi_no_setname,
	.getname = ep_getname,
	.getpeer = ep_getpeer,
	.connect = ep_connect,
	.listen = kfi_no_listen,
	.accept = ep_accept,
	.reject = kfi_no_reject,
	.shutdown = ep_shutdown,
	.join = kfi_no_join,
};

int kapi_ep_open(struct kfid_domain *pub, struct kfi_info *info, struct kfid_ep **out,
		 void *context)
{
	struct kapi_domain *domain = container_of(pub, struct kapi_domain, pub);
	struct kofi_info *record;
	struct kapi_ep *ep;
	int error;

	if (!info || !out)
		return -EINVAL;
	ep = kapi_alloc(sizeof(*ep));
	record = kapi_alloc(sizeof(*record));
	if (!ep || !record) {
		error = -ENOMEM;
		goto out;
	}
	kapi_init(&ep->pub.fid, KFI_CLASS_EP, &ep_fid_ops, context);
	ep->pub.ops = &ep_ops;
	ep->pub.cm = &ep_cm_ops;
	ep->pub.msg = &kapi_msg_ops;
	ep->pub.rma = &kapi_rma_ops;
	ep->pub.tagged = &kapi_no_ops_tagged;
	ep->pub.atomic = &kapi_no_ops_atomic;
	ep->fabric = domain->fabric;
	error = kapi_info_in(record, info);
	if (!error && info->handle) {
		ep->request = kapi_request_find(ep->fabric, info->handle);
		record->handle = ep->request;
		if (!ep->request)
			error = -EINVAL;
	}
	if (!error)
		error = kofi_ep_open(domain->handle, record, (uintptr_t)&ep->pub.fid, &ep->handle);
	if (!error)
		*out = &ep->pub;
out:
	if (error)
		kapi_free(ep);
	kapi_free(record);
	return error;
}
