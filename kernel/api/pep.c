// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Passive endpoints. */
#include <linux/string.h>

#include "api.h"

static struct kapi_pep *of(struct kfid *fid)
{
	return container_of(fid, struct kapi_pep, pub.fid);
}

static int pep_close(struct kfid *fid)
{
	struct kapi_pep *pep = of(fid);
	int error;

	error = kapi_close_begin(fid);
	if (error)
		return error;
	error = kofi_pep_close(pep->handle);
	if (error) {
		kapi_close_failed(fid);
		return error;
	}
	pep->pub.ops = &kapi_no_ops_ep;
	pep->pub.cm = &kapi_no_ops_cm;
	kapi_retire(fid, pep);
	return 0;
}

static int pep_bind(struct kfid *fid, struct kfid *bfid, uint64_t flags)
{
	struct kofi_eq *eq = kapi_eq_of(bfid);

	return eq ? kofi_pep_bind_eq(of(fid)->handle, eq, flags) : -EINVAL;
}

static int pep_control(struct kfid *fid, int command, void *arg)
{
	if (command != KFI_BACKLOG)
		return -ENOSYS;
	return arg ? kofi_pep_set_backlog(of(fid)->handle, *(int *)arg) : -EINVAL;
}

static struct kfi_ops pep_fid_ops = {
	.size = sizeof(struct kfi_ops),
	.close = pep_close,
	.bind = pep_bind,
	.control = pep_control,
	.ops_open = kfi_no_ops_open,
};

static int pep_getopt(struct kfid *fid, int level, int optname, void *optval, size_t *optlen)
{
	const size_t size = KOFI_CM_DATA_SIZE;
	size_t room;

	if (!optval || !optlen)
		return -EINVAL;
	if (level != KFI_OPT_ENDPOINT || optname != KFI_OPT_CM_DATA_SIZE)
		return -ENOPROTOOPT;
	room = *optlen;
	*optlen = sizeof(size);
	if (room < sizeof(size))
		return -KFI_ETOOSMALL;
	memcpy(optval, &size, sizeof(size));
	return 0;
}

static int pep_setopt(struct kfid *fid, int level, int optname, const void *optval, size_t optlen)
{
	return -ENOPROTOOPT;
}

static struct kfi_ops_ep pep_ops = {
	.size = sizeof(struct kfi_ops_ep),
	.cancel = kfi_no_cancel,
	.getopt = pep_getopt,
	.setopt = pep_setopt,
	.tx_ctx = kfi_no_tx_ctx,
	.rx_ctx = kfi_no_rx_ctx,
};

static int pep_setname(kfid_t fid, void *addr, size_t addrlen)
{
	return addr ? kofi_pep_setname(of(fid)->handle, addr, addrlen) : -EINVAL;
}

static int pep_getname(struct kfid *fid, void *addr, size_t *addrlen)
{
	if (!addrlen || (!addr && *addrlen))
		return -EINVAL;
	return kofi_pep_getname(of(fid)->handle, addr, addrlen);
}

static int pep_listen(struct kfid_pep *pub)
{
	return kofi_pep_listen(container_of(pub, struct kapi_pep, pub)->handle);
}

static int pep_reject(struct kfid_pep *pub, kfid_t fid, const void *param, size_t paramlen)
{
	struct kapi_pep *pep = container_of(pub, struct kapi_pep, pub);
	u64 handle = kapi_request_find(pep->fabric, fid);
	int error;

	if (!handle || (!param && paramlen))
		return -EINVAL;
	error = kofi_pep_reject(pep->handle, pep->fabric->handle, handle, param, paramlen);
	if (!error)
		kapi_request_end(pep->fabric, handle);
	return error;
}

static struct kfi_ops_cm pep_cm_ops = {
	.size = sizeof(struct kfi_ops_cm),
	.setname = pep_setname,
	.getname = pep_getname,
	.getpeer = kfi_no_getpeer,
	.connect = kfi_no_connect,
	.listen = pep_listen,
	.accept = kfi_no_accept,
	.reject = pep_reject,
	.shutdown = kfi_no_shutdown,
	.join = kfi_no_join,
};

int kapi_pep_open(struct kfid_fabric *pub, struct kfi_info *info, struct kfid_pep **out,
		  void *context)
{
	struct kapi_fabric *fabric = container_of(pub, struct kapi_fabric, pub);
	struct kofi_info *record;
	struct kapi_pep *pep;
	int error;

	if (!info || !out)
		return -EINVAL;
	pep = kapi_alloc(sizeof(*pep));
	record = kapi_alloc(sizeof(*record));
	if (!pep || !record) {
		error = -ENOMEM;
		goto out;
	}
	kapi_init(&pep->pub.fid, KFI_CLASS_PEP, &pep_fid_ops, context);
	pep->pub.ops = &pep_ops;
	pep->pub.cm = &pep_cm_ops;
	pep->fabric = fabric;
	error = kapi_info_in(record, info);
	if (!error)
		error = kofi_pep_open(fabric->handle, record, (uintptr_t)&pep->pub.fid,
				      &pep->handle);
	if (!error)
		*out = &pep->pub;
out:
	if (error)
		kapi_free(pep);
	kapi_free(record);
	return error;
}
