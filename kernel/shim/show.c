// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * What is shown to who looks from outside: the tree of live objects in debugfs, and what dynamic debug tells.
 *
 * Without debugfs (CONFIG_DEBUG_FS, lockdown) nothing is shown, and all else works.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include "shim.h"

static struct dentry *root;

/* A directory, or a file of lines that walk() writes. */
struct kofi_shown {
	struct dentry *entry;
	kofi_walk walk;
	void *context;
};

static void *find(struct seq_file *file, loff_t *pos)
{
	struct kofi_shown *shown = file->private;
	u64 at = shown->walk(shown->context, *pos, NULL);

	if (at == U64_MAX)
		return NULL;
	*pos = at;
	return pos;
}

static void *next(struct seq_file *file, void *at, loff_t *pos)
{
	++*pos;
	return find(file, pos);
}

static void stop(struct seq_file *file, void *at)
{
}

static int show(struct seq_file *file, void *at)
{
	struct kofi_shown *shown = file->private;

	shown->walk(shown->context, *(loff_t *)at, file);
	return 0;
}

static const struct seq_operations lines = {
	.start = find,
	.next = next,
	.stop = stop,
	.show = show,
};

static int open_lines(struct inode *inode, struct file *file)
{
	int error = seq_open(file, &lines);

	if (!error)
		((struct seq_file *)file->private_data)->private = inode->i_private;
	return error;
}

/* debugfs lets no call into these begin once the file is removed, and waits for those that have begun. */
static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = open_lines,
	.read = seq_read,
	.llseek = seq_lseek,
	.release = seq_release,
};

struct kofi_shown *kofi_shim_show(struct kofi_shown *parent, const char *name, size_t len, kofi_walk walk, void *context)
{
	struct kofi_shown *shown = kofi_shim_alloc(sizeof(*shown), __alignof__(*shown));
	struct dentry *above = parent ? parent->entry : root;
	char text[32];
	unsigned int noio;

	if (!shown)
		return NULL;
	snprintf(text, sizeof(text), "%.*s", (int)len, name);
	shown->walk = walk;
	shown->context = context;
	/* As all memory of ours. */
	noio = memalloc_noio_save();
	/* A directory that could not be made must not have its files land in the root of debugfs. */
	if (IS_ERR_OR_NULL(above))
		shown->entry = ERR_PTR(-ENODEV);
	else if (walk)
		shown->entry = debugfs_create_file(text, 0400, above, shown, &operations);
	else
		shown->entry = debugfs_create_dir(text, above);
	memalloc_noio_restore(noio);
	return shown;
}

void kofi_shim_hide(struct kofi_shown *shown)
{
	debugfs_remove(shown->entry);
	kofi_shim_free(shown, __alignof__(*shown));
}

void kofi_shim_show_text(struct seq_file *file, const char *text, size_t len)
{
	seq_write(file, text, len);
}

/* The arguments of pr_debug are looked at only when somebody has switched it on. */

void kofi_shim_tell_connection(kofi_describe describe, void *context)
{
	char text[320];

	pr_debug("connection: %s\n", describe(context, text, sizeof(text)));
}

void kofi_shim_tell_refusal(kofi_describe describe, void *context)
{
	char text[320];

	pr_debug("refused: %s\n", describe(context, text, sizeof(text)));
}

void kofi_shim_show_init(void)
{
	root = debugfs_create_dir("kofi", NULL);
}

void kofi_shim_show_exit(void)
{
	debugfs_remove(root);
}
