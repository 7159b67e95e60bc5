// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The provider tcp, and its fabrics. */
#include <linux/module.h>

#include "api.h"

static int fabric_close(struct kfid *fid)
{
	struct kapi_fabric *fabric = container_of(fid, struct kapi_fabric, pub.fid);
	int error;

	error = kapi_close_begin(fid);
	if (error)
		return error;
	error = kofi_fabric_close(fabric->handle);
	if (error) {
		kapi_close_failed(fid);
		return error;
	}
	kapi_requests_end(fabric);
	fabric->pub.ops = &kapi_no_ops_fabric;
	kapi_retire(fid, fabric);
	return 0;
}

static struct kfi_ops fabric_fid_ops = {
	.size = sizeof(struct kfi_ops),
	.close = fabric_close,
	.bind = kfi_no_bind,
	.control = kfi_no_control,
	.ops_open = kfi_no_ops_open,
};

static struct kfi_ops_fabric fabric_ops = {
	.size = sizeof(struct kfi_ops_fabric),
	.domain = kapi_domain_open,
	.passive_ep = kapi_pep_open,
	.eq_open = kapi_eq_open,
	.wait_open = kapi_wait_open,
};

static int tcp_fabric(struct kfi_fabric_attr *attr, struct kfid_fabric **out, void *context)
{
	struct kofi_fabric_attr *wanted;
	struct kapi_fabric *fabric;
	int error;

	fabric = kapi_alloc(sizeof(*fabric));
	wanted = kapi_alloc(sizeof(*wanted));
	if (!fabric || !wanted) {
		error = -ENOMEM;
		goto out;
	}
	mutex_init(&fabric->lock);
	INIT_LIST_HEAD(&fabric->requests);
	kapi_init(&fabric->pub.fid, KFI_CLASS_FABRIC, &fabric_fid_ops, context);
	fabric->pub.ops = &fabric_ops;
	fabric->pub.api_version = attr->api_version;
	error = kapi_fabric_attr_in(wanted, attr);
	if (!error)
		error = kofi_fabric_open(wanted, NULL, &fabric->handle);
	if (!error)
		*out = &fabric->pub;
out:
	if (error)
		kapi_free(fabric);
	kapi_free(wanted);
	return error;
}

/* Puts the records of a list into infos of kapi_info_new(). */
static int infos_out(struct kfi_info **tail, const struct kofi_info *record, kfid_t handle)
{
	for (; record; record = record->next) {
		*tail = kapi_info_new();
		if (!*tail)
			return -ENOMEM;
		kapi_info_fill(*tail, record);
		(*tail)->handle = handle;
		tail = &(*tail)->next;
	}
	return 0;
}

static int tcp_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		       struct kfi_info *hints, struct kfi_info **out)
{
	struct kofi_info *wanted = NULL, *list = NULL;
	struct kfi_info *infos = NULL;
	int error = 0;

	if (hints) {
		wanted = kapi_alloc(sizeof(*wanted));
		if (!wanted)
			return -ENOMEM;
		error = kapi_info_in(wanted, hints);
	}
	if (!error)
		error = kofi_getinfo(NULL, version ?: kfi_version(), node, service, flags, wanted,
				     &list);
	if (!error)
		error = infos_out(&infos, list, hints ? hints->handle : NULL);
	kofi_freeinfo(list);
	kapi_free(wanted);
	if (error) {
		kfi_freeinfo(infos);
		return error;
	}
	*out = infos;
	return 0;
}

struct kfi_provider kapi_tcp = {
	.version = KFI_VERSION(1, 0),
	.kfi_version = KFI_VERSION(KFI_MAJOR_VERSION, KFI_MINOR_VERSION),
	.name = "tcp",
	.kgetinfo = tcp_getinfo,
	.kfabric = tcp_fabric,
	.owner = THIS_MODULE,
};
