// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Event queues. */

#include "api.h"

static int eq_close(struct kfid *fid)
{
	struct kapi_eq *eq = container_of(fid, struct kapi_eq, pub.fid);
	int error;

	error = kapi_close_begin(fid);
	if (error)
		return error;
	error = kofi_eq_close(eq->handle);
	if (error) {
		kapi_close_failed(fid);
		return error;
	}
	kapi_spare_free(eq->spare);
	eq->pub.ops = &kapi_no_ops_eq;
	kapi_retire(fid, eq);
	return 0;
}

static struct kfi_ops eq_fid_ops = {
	.size = sizeof(struct kfi_ops),
	.close = eq_close,
	.bind = kfi_no_bind,
	.control = kfi_no_control,
	.ops_open = kfi_no_ops_open,
};

struct kofi_eq *kapi_eq_of(struct kfid *fid)
{
	if (!kapi_is(fid, KFI_CLASS_EQ, &eq_fid_ops))
		return NULL;
	return container_of(fid, struct kapi_eq, pub.fid)->handle;
}

static void eq_event(void *context)
{
	struct kapi_eq *eq = context;

	eq->pub.event_handler(&eq->pub, eq->pub.fid.context);
}

static struct kfid *fid_of(u64 cookie)
{
	return (struct kfid *)(uintptr_t)cookie;
}

static ssize_t eq_next(struct kfid_eq *pub, uint32_t *event, void *buf, size_t len, bool wait,
		       int timeout, uint64_t flags)
{
	const size_t cm_size = sizeof(struct kfi_eq_cm_entry);
	struct kapi_eq *eq = container_of(pub, struct kapi_eq, pub);
	struct kofi_event next = {};
	struct kapi_spare *spare;
	ssize_t size;

	if (!event || !buf)
		return -EINVAL;
	/*
	 * What a connection request needs: once it has been read, it is too late to have no memory
	 * for it.
	 */
	spare = kapi_spare_get(eq);
	if (!spare)
		return -ENOMEM;
	if (wait)
		size = kofi_eq_sread(eq->handle, &next, buf, len, cm_size, timeout, flags);
	else
		size = kofi_eq_read(eq->handle, &next, buf, len, cm_size, flags);
	if (size >= 0) {
		*event = next.event;
		if (next.is_cm) {
			struct kfi_eq_cm_entry *entry = buf;

			entry->fid = fid_of(next.fid);
			entry->info = NULL;
			if (next.info) {
				entry->info = kapi_request_new(eq, spare, next.info);
				spare = NULL;
				kofi_freeinfo(next.info);
			}
		}
	}
	if (spare)
		kapi_spare_put(eq, spare);
	return size;
}

static ssize_t eq_read(struct kfid_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	return eq_next(eq, event, buf, len, false, 0, flags);
}

static ssize_t eq_sread(struct kfid_eq *eq, uint32_t *event, void *buf, size_t len, int timeout,
			uint64_t flags)
{
	return eq_next(eq, event, buf, len, true, timeout, flags);
}

static ssize_t eq_readerr(struct kfid_eq *pub, struct kfi_eq_err_entry *entry, uint64_t flags)
{
	struct kapi_eq *eq = container_of(pub, struct kapi_eq, pub);
	struct kofi_eq_error error = {};
	struct kfid *fid;
	ssize_t count;

	if (!entry || (entry->err_data_size && !entry->err_data))
		return -EINVAL;
	error.err_data = entry->err_data_size ? entry->err_data : NULL;
	error.err_data_size = entry->err_data_size;
	count = kofi_eq_readerr(eq->handle, &error, flags);
	if (count < 0)
		return count;
	fid = fid_of(error.fid);
	*entry = (struct kfi_eq_err_entry) {
		.fid = fid,
		.context = fid ? fid->context : NULL,
		.data = error.data,
		.err = error.err,
		.prov_errno = error.prov_errno,
		.err_data = error.err_data_size ? error.err_data : NULL,
		.err_data_size = error.err_data_size,
	};
	return sizeof(*entry);
}

static ssize_t eq_write(struct kfid_eq *pub, uint32_t event, const void *buf, size_t len,
			uint64_t flags)
{
	struct kapi_eq *eq = container_of(pub, struct kapi_eq, pub);

	if (!buf && len)
		return -EINVAL;
	return kofi_eq_write(eq->handle, event, 0, buf, len, flags);
}

static const char *eq_strerror(struct kfid_eq *pub, int prov_errno, const void *err_data,
			       char *buf, size_t len)
{
	struct kapi_eq *eq = container_of(pub, struct kapi_eq, pub);

	return kapi_text_in(buf, len, kofi_eq_strerror(eq->handle, prov_errno));
}

static struct kfi_ops_eq eq_ops = {
	.size = sizeof(struct kfi_ops_eq),
	.read = eq_read,
	.readerr = eq_readerr,
	.write = eq_write,
	.sread = eq_sread,
	.strerror = eq_strerror,
};

int kapi_eq_open(struct kfid_fabric *pub, struct kfi_eq_attr *attr, struct kfid_eq **out,
		 kfi_event_handler handler, void *context)
{
	struct kapi_fabric *fabric = container_of(pub, struct kapi_fabric, pub);
	struct kofi_eq_attr wanted = { .wait_obj = KOFI_WAIT_UNSPEC };
	struct kapi_eq *eq;
	int error;

	if (!out)
		return -EINVAL;
	if (attr) {
		wanted.size = attr->size;
		wanted.flags = attr->flags;
		wanted.signaling_vector = attr->signaling_vector;
		error = kapi_wait_in(attr->wait_obj, attr->wait_set, &wanted.wait_obj,
				     &wanted.wait_set);
		if (error)
			return error;
	}
	eq = kapi_alloc(sizeof(*eq));
	if (!eq)
		return -ENOMEM;
	kapi_init(&eq->pub.fid, KFI_CLASS_EQ, &eq_fid_ops, context);
	eq->pub.ops = &eq_ops;
	eq->pub.event_handler = handler;
	eq->fabric = fabric;
	wanted.handler = handler ? eq_event : NULL;
	wanted.handler_context = eq;
	error = kofi_eq_open(fabric->handle, &wanted, &eq->handle);
	if (error) {
		kapi_free(eq);
		return error;
	}
	*out = &eq->pub;
	return 0;
}
