// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The memory of objects, and what becomes of closed ones.
 *
 * Clients reach an object through tables that lie in it, so nothing can be checked once its memory
 * has been given to somebody else. Therefore the memory of the last closed objects is kept, with
 * tables in which nothing is there: who closes or uses one of them again gets an error.
 */
#include <linux/spinlock.h>
#include <linux/string.h>

#include "../shim/shim.h"
#include "api.h"

#define GRAVES 256

static DEFINE_SPINLOCK(graves_lock);
static void *graves[GRAVES];
static unsigned int next_grave;

/*
 * Zeroed memory of an object, or of what a call needs: the module's, with its account, and its
 * failures on demand.
 */
void *kapi_alloc(size_t size)
{
	void *memory = kofi_shim_alloc(size, __alignof__(u64));

	if (memory)
		memset(memory, 0, size);
	return memory;
}

void kapi_free(void *memory)
{
	if (memory)
		kofi_shim_free(memory, __alignof__(u64));
}

void kapi_init(struct kfid *fid, size_t fclass, struct kfi_ops *ops, void *context)
{
	fid->fclass = fclass;
	fid->context = context;
	fid->ops = ops;
	kfi_init_id(fid);
}

/* Whether it is an object of this class, and of ours. */
bool kapi_is(const struct kfid *fid, size_t fclass, const struct kfi_ops *ops)
{
	return fid && fid->fclass == fclass && fid->ops == ops;
}

static int closed_close(struct kfid *fid)
{
	return -EINVAL;
}

static int closed_bind(struct kfid *fid, struct kfid *bfid, uint64_t flags)
{
	return -EINVAL;
}

static int closed_control(struct kfid *fid, int command, void *arg)
{
	return -EINVAL;
}

static int closed_ops_open(struct kfid *fid, const char *name, uint64_t flags, void **ops,
			   void *context)
{
	return -EINVAL;
}

static struct kfi_ops closed_ops = {
	.size = sizeof(struct kfi_ops),
	.close = closed_close,
	.bind = closed_bind,
	.control = closed_control,
	.ops_open = closed_ops_open,
};

/* One close at a time: the others find it busy. */
int kapi_close_begin(struct kfid *fid)
{
	return atomic_cmpxchg(&fid->ref_cnt, 1, 0) == 1 ? 0 : -EBUSY;
}

void kapi_close_failed(struct kfid *fid)
{
	atomic_set(&fid->ref_cnt, 1);
}

/* The end of an object that was closed; the caller has put tables without operations into it. */
void kapi_retire(struct kfid *fid, void *memory)
{
	fid->fclass = KFI_CLASS_UNSPEC;
	fid->ops = &closed_ops;

	spin_lock(&graves_lock);
	swap(graves[next_grave], memory);
	next_grave = (next_grave + 1) % GRAVES;
	spin_unlock(&graves_lock);

	kapi_free(memory);
}

void kapi_objects_exit(void)
{
	unsigned int i;

	for (i = 0; i < GRAVES; i++) {
		kapi_free(graves[i]);
		graves[i] = NULL;
	}
}
