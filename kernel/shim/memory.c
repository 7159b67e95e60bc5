// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Memory, and the account of it.
 *
 * All of it is asked for with GFP_NOIO: every allocation can happen under a domain's mutex, which a task that writes memory out over
 * this domain may wait for.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/bvec.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/uio.h>
#include "shim.h"

#ifdef CONFIG_HIGHMEM
#error "kofi needs all memory to have kernel addresses (CONFIG_HIGHMEM is set)"
#endif

static bool track_allocations;
module_param(track_allocations, bool, 0444);
MODULE_PARM_DESC(track_allocations, "remember who made each allocation, for the report of leaks");

/* Ahead of each allocation when these are tracked. */
struct kofi_block {
	struct list_head node;
	size_t size;
	unsigned long caller;
};

static atomic_long_t allocations = ATOMIC_LONG_INIT(0);
static atomic_long_t made = ATOMIC_LONG_INIT(0);
/* For tests: so many allocations until one fails; 0 or less: none will. */
static atomic_t until_failure = ATOMIC_INIT(0);
static bool has_failed;
static LIST_HEAD(blocks);
static DEFINE_SPINLOCK(blocks_lock);

static const char *const classes[] = {
	"fabric", "event queue", "passive endpoint", "domain", "endpoint", "completion queue", "counter", "memory region", "wait set",
	"connection request", "socket", "shared receive context",
};
static atomic_t objects[ARRAY_SIZE(classes)];

static size_t ahead(size_t align)
{
	return track_allocations ? max(sizeof(struct kofi_block), align) : 0;
}

void *kofi_shim_alloc(size_t size, size_t align)
{
	size_t front = ahead(align), all = size + front;
	void *memory;

	if (unlikely(atomic_read(&until_failure) > 0) && atomic_dec_return(&until_failure) == 0) {
		has_failed = true;
		return NULL;
	}
	if (all < size)
		return NULL;
	/* kmalloc aligns naturally only what has a power of two as size. */
	if (align > ARCH_KMALLOC_MINALIGN)
		all = roundup_pow_of_two(max(all, align));
	memory = kvmalloc(all, GFP_NOIO | __GFP_NOWARN);
	if (!memory)
		return NULL;
	atomic_long_inc(&allocations);
	atomic_long_inc(&made);
	if (front) {
		struct kofi_block *block = memory + front - sizeof(*block);

		block->size = size;
		block->caller = (unsigned long)__builtin_return_address(0);
		spin_lock(&blocks_lock);
		list_add(&block->node, &blocks);
		spin_unlock(&blocks_lock);
	}
	return memory + front;
}

void kofi_shim_free(void *memory, size_t align)
{
	size_t front = ahead(align);

	if (!memory)
		return;
	if (front) {
		struct kofi_block *block = memory - sizeof(*block);

		spin_lock(&blocks_lock);
		list_del(&block->node);
		spin_unlock(&blocks_lock);
	}
	atomic_long_dec(&allocations);
	kvfree(memory - front);
}

long kofi_shim_allocations(void)
{
	return atomic_long_read(&allocations);
}

long kofi_test_allocations_made(void)
{
	return atomic_long_read(&made);
}

bool kofi_test_fail_nth(unsigned int nth)
{
	bool failed = has_failed;

	atomic_set(&until_failure, nth);
	if (nth)
		has_failed = false;
	return failed;
}

void kofi_shim_count(unsigned int class, int by)
{
	if (class < ARRAY_SIZE(classes))
		atomic_add(by, &objects[class]);
}

long kofi_shim_report_leaks(void)
{
	long leaks = kofi_shim_allocations();
	struct kofi_block *block;
	unsigned int class;

	for (class = 0; class < ARRAY_SIZE(classes); class++) {
		int open = atomic_read(&objects[class]);

		if (open) {
			pr_err("LEAK: %d of class %s\n", open, classes[class]);
			leaks++;
		}
	}
	list_for_each_entry(block, &blocks, node)
		pr_err("LEAK: %zu bytes, allocated by %pS\n", block->size, (void *)block->caller);
	if (leaks)
		pr_err("LEAK: %ld allocations\n", kofi_shim_allocations());
	return leaks;
}

s64 kofi_shim_flatten(const struct kofi_memory *memory, struct kvec *out, u32 max)
{
	const struct bio_vec *pages = memory->segments;
	const struct kvec *pieces = memory->segments;
	u64 total = 0;
	u32 i;

	if (memory->count > max || (memory->count && !memory->segments))
		return -EINVAL;
	for (i = 0; i < memory->count; i++) {
		switch (memory->type) {
		case KOFI_KVEC:
			out[i] = pieces[i];
			break;
		case KOFI_BVEC:
			/* The pages of one bio_vec follow each other, so their addresses do. */
			out[i].iov_base = page_address(pages[i].bv_page) + pages[i].bv_offset;
			out[i].iov_len = pages[i].bv_len;
			break;
		default:
			return -EINVAL;
		}
		if (out[i].iov_len > S64_MAX - total || (out[i].iov_len && !out[i].iov_base))
			return -EINVAL;
		total += out[i].iov_len;
	}
	return total;
}
