// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Wait sets. */
#include "api.h"

static int wait_close(struct kfid *fid)
{
	struct kapi_wait *set = container_of(fid, struct kapi_wait, pub.kfid);
	int error;

	error = kapi_close_begin(fid);
	if (error)
		return error;
	error = kofi_wait_close(set->handle);
	if (error) {
		kapi_close_failed(fid);
		return error;
	}
	set->pub.ops = &kapi_no_ops_wait;
	kapi_retire(fid, set);
	return 0;
}

static struct kfi_ops wait_fid_ops = {
	.size = sizeof(struct kfi_ops),
	.close = wait_close,
	.bind = kfi_no_bind,
	.control = kfi_no_control,
	.ops_open = kfi_no_ops_open,
};

static int wait_wait(struct kfid_wait *pub, int timeout)
{
	return kofi_wait(container_of(pub, struct kapi_wait, pub)->handle, timeout);
}

static struct kfi_ops_wait wait_ops = {
	.size = sizeof(struct kfi_ops_wait),
	.wait = wait_wait,
};

int kapi_wait_open(struct kfid_fabric *pub, struct kfi_wait_attr *attr, struct kfid_wait **out)
{
	struct kapi_fabric *fabric = container_of(pub, struct kapi_fabric, pub);
	struct kapi_wait *set;
	int error;

	if (!out)
		return -EINVAL;
	if (attr && attr->flags)
		return -KFI_EBADFLAGS;
	if (attr && attr->wait_obj != KFI_WAIT_UNSPEC)
		return attr->wait_obj == KFI_WAIT_QUEUE ? -ENOSYS : -EINVAL;
	set = kapi_alloc(sizeof(*set));
	if (!set)
		return -ENOMEM;
	kapi_init(&set->pub.kfid, KFI_CLASS_WAIT, &wait_fid_ops, NULL);
	set->pub.ops = &wait_ops;
	error = kofi_wait_open(fabric->handle, &set->handle);
	if (error) {
		kapi_free(set);
		return error;
	}
	*out = &set->pub;
	return 0;
}

/* Translates how a queue is waited on. */
int kapi_wait_in(u32 wait_obj, struct kfid_wait *pub, u32 *obj, struct kofi_wait_set **handle)
{
	if (wait_obj > KFI_WAIT_QUEUE)
		return -EINVAL;
	if (wait_obj == KFI_WAIT_QUEUE)
		return -ENOSYS;
	BUILD_BUG_ON((int)KFI_WAIT_NONE != KOFI_WAIT_NONE);
	BUILD_BUG_ON((int)KFI_WAIT_UNSPEC != KOFI_WAIT_UNSPEC);
	BUILD_BUG_ON((int)KFI_WAIT_SET != KOFI_WAIT_SET);
	*obj = wait_obj;
	if (!pub)
		return 0;
	if (!kapi_is(&pub->kfid, KFI_CLASS_WAIT, &wait_fid_ops))
		return -EINVAL;
	*handle = container_of(pub, struct kapi_wait, pub)->handle;
	return 0;
}
