// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Counters. */
#include "api.h"

static int cntr_close(struct kfid *fid)
{
	struct kapi_cntr *cntr = container_of(fid, struct kapi_cntr, pub.fid);
	int error;

	error = kapi_close_begin(fid);
	if (error)
		return error;
	error = kofi_cntr_close(cntr->handle);
	if (error) {
		kapi_close_failed(fid);
		return error;
	}
	cntr->pub.ops = &kapi_no_ops_cntr;
	kapi_retire(fid, cntr);
	return 0;
}

static struct kfi_ops cntr_fid_ops = {
	.size = sizeof(struct kfi_ops),
	.close = cntr_close,
	.bind = kfi_no_bind,
	.control = kfi_no_control,
	.ops_open = kfi_no_ops_open,
};

static struct kofi_cntr *handle(struct kfid_cntr *pub)
{
	return container_of(pub, struct kapi_cntr, pub)->handle;
}

struct kofi_cntr *kapi_cntr_of(struct kfid *fid)
{
	if (!kapi_is(fid, KFI_CLASS_CNTR, &cntr_fid_ops))
		return NULL;
	return handle(container_of(fid, struct kfid_cntr, fid));
}

static uint64_t cntr_read(struct kfid_cntr *cntr)
{
	return kofi_cntr_read(handle(cntr));
}

static uint64_t cntr_readerr(struct kfid_cntr *cntr)
{
	return kofi_cntr_readerr(handle(cntr));
}

static int cntr_add(struct kfid_cntr *cntr, uint64_t value)
{
	return kofi_cntr_add(handle(cntr), value);
}

static int cntr_set(struct kfid_cntr *cntr, uint64_t value)
{
	return kofi_cntr_set(handle(cntr), value);
}

static int cntr_wait(struct kfid_cntr *cntr, uint64_t threshold, int timeout)
{
	return kofi_cntr_wait(handle(cntr), threshold, timeout);
}

static int cntr_adderr(struct kfid_cntr *cntr, uint64_t value)
{
	return kofi_cntr_adderr(handle(cntr), value);
}

static int cntr_seterr(struct kfid_cntr *cntr, uint64_t value)
{
	return kofi_cntr_seterr(handle(cntr), value);
}

static struct kfi_ops_cntr cntr_ops = {
	.size = sizeof(struct kfi_ops_cntr),
	.read = cntr_read,
	.readerr = cntr_readerr,
	.add = cntr_add,
	.set = cntr_set,
	.wait = cntr_wait,
	.adderr = cntr_adderr,
	.seterr = cntr_seterr,
};

int kapi_cntr_open(struct kfid_domain *pub, struct kfi_cntr_attr *attr, struct kfid_cntr **out,
		   void *context)
{
	struct kapi_domain *domain = container_of(pub, struct kapi_domain, pub);
	struct kofi_wait_set *set = NULL;
	u32 wait_obj = KOFI_WAIT_UNSPEC;
	struct kapi_cntr *cntr;
	int error;

	if (!out)
		return -EINVAL;
	if (attr) {
		if (attr->events != KFI_CNTR_EVENTS_COMP)
			return -EINVAL;
		if (attr->flags)
			return -KFI_EBADFLAGS;
		error = kapi_wait_in(attr->wait_obj, attr->wait_set, &wait_obj, &set);
		if (error)
			return error;
		/* Sets are of queues. */
		if (wait_obj == KOFI_WAIT_SET || set)
			return -ENOSYS;
	}
	cntr = kapi_alloc(sizeof(*cntr));
	if (!cntr)
		return -ENOMEM;
	kapi_init(&cntr->pub.fid, KFI_CLASS_CNTR, &cntr_fid_ops, context);
	cntr->pub.ops = &cntr_ops;
	error = kofi_cntr_open(domain->handle, wait_obj, &cntr->handle);
	if (error) {
		kapi_free(cntr);
		return error;
	}
	*out = &cntr->pub;
	return 0;
}
