// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Connection requests: what the handle of a KFI_CONNREQ info points to.
 *
 * Clients hand these pointers back at any time, also when they are used up. So a pointer is only
 * compared with those of the fabric's requests, and never followed. Closing one
 * (kfi_close(info->handle)) refuses the request.
 */
#include "api.h"

static int request_close(struct kfid *fid)
{
	struct kapi_request *request = container_of(fid, struct kapi_request, fid);
	struct kapi_fabric *fabric = request->fabric;
	u64 handle = request->handle;

	/* A request that the Rust part knows no more has ended already. */
	kofi_pep_reject(NULL, fabric->handle, handle, NULL, 0);
	kapi_request_end(fabric, handle);
	return 0;
}

static struct kfi_ops request_ops = {
	.size = sizeof(struct kfi_ops),
	.close = request_close,
	.bind = kfi_no_bind,
	.control = kfi_no_control,
	.ops_open = kfi_no_ops_open,
};

struct kapi_spare *kapi_spare_get(struct kapi_eq *eq)
{
	struct kapi_spare *spare = xchg(&eq->spare, NULL);

	if (spare)
		return spare;
	spare = kapi_alloc(sizeof(*spare));
	if (!spare)
		return NULL;
	spare->request = kapi_alloc(sizeof(*spare->request));
	spare->info = kapi_info_new();
	if (!spare->request || !spare->info) {
		kapi_spare_free(spare);
		return NULL;
	}
	return spare;
}

void kapi_spare_put(struct kapi_eq *eq, struct kapi_spare *spare)
{
	kapi_spare_free(xchg(&eq->spare, spare));
}

void kapi_spare_free(struct kapi_spare *spare)
{
	if (!spare)
		return;
	kapi_free(spare->request);
	kfi_freeinfo(spare->info);
	kapi_free(spare);
}

/* Makes the client's info of a request's record. Uses up @spare; cannot fail. */
struct kfi_info *kapi_request_new(struct kapi_eq *eq, struct kapi_spare *spare,
				  const struct kofi_info *record)
{
	struct kapi_request *request = spare->request;
	struct kfi_info *info = spare->info;

	kapi_free(spare);
	kapi_init(&request->fid, KFI_CLASS_CONNREQ, &request_ops, NULL);
	request->handle = record->handle;
	request->fabric = eq->fabric;
	mutex_lock(&request->fabric->lock);
	list_add_tail(&request->link, &request->fabric->requests);
	mutex_unlock(&request->fabric->lock);

	kapi_info_fill(info, record);
	info->handle = &request->fid;
	return info;
}

/* The Rust part's name of a request, or 0 for a pointer to something else. */
u64 kapi_request_find(struct kapi_fabric *fabric, struct kfid *fid)
{
	struct kapi_request *request;
	u64 handle = 0;

	mutex_lock(&fabric->lock);
	list_for_each_entry(request, &fabric->requests, link)
		if (&request->fid == fid)
			handle = request->handle;
	mutex_unlock(&fabric->lock);
	return handle;
}

/* The request was accepted or rejected. */
void kapi_request_end(struct kapi_fabric *fabric, u64 handle)
{
	struct kapi_request *request, *next;

	mutex_lock(&fabric->lock);
	list_for_each_entry_safe(request, next, &fabric->requests, link) {
		if (request->handle != handle)
			continue;
		list_del(&request->link);
		kapi_retire(&request->fid, request);
	}
	mutex_unlock(&fabric->lock);
}

/* The fabric is closed: nothing can be done with any of its requests. */
void kapi_requests_end(struct kapi_fabric *fabric)
{
	struct kapi_request *request, *next;

	mutex_lock(&fabric->lock);
	list_for_each_entry_safe(request, next, &fabric->requests, link) {
		list_del(&request->link);
		kapi_retire(&request->fid, request);
	}
	mutex_unlock(&fabric->lock);
}
