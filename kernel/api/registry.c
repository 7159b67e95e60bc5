// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Providers: which there are, and who uses them.
 *
 * The core, not the provider, keeps a provider's module from being removed: during each call into
 * it, and while a fabric of it is open. For that an open fabric's table of operations is one of
 * ours, whose close comes here.
 */
#define pr_fmt(fmt) "kofi: " fmt

#include <linux/export.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/printk.h>
#include <linux/string.h>

#include "api.h"

struct entry {
	struct list_head	link;
	struct kfi_provider	*provider;
	unsigned int		fabrics;	/* under registry_lock */
};

/* The newest of a name comes before the others of that name. */
static LIST_HEAD(registry);
static DEFINE_MUTEX(registry_lock);

struct open_fabric {
	struct kfi_ops		ops;
	struct kfi_ops		*own;		/* the provider's */
	struct entry		*entry;
};

/* Begins a call into a provider. Under registry_lock. */
static bool enter(struct entry *entry)
{
	if (!try_module_get(entry->provider->owner))
		return false;
	kfi_ref_provider(entry->provider);
	return true;
}

static void leave(struct entry *entry, bool keep_module)
{
	struct module *owner = entry->provider->owner;

	kfi_deref_provider(entry->provider);
	/* The entry may be gone from here on. */
	if (!keep_module)
		module_put(owner);
}

/* The newest provider of a name. Under registry_lock. */
static struct entry *find(const char *name)
{
	struct entry *entry;

	list_for_each_entry(entry, &registry, link)
		if (!strcmp(entry->provider->name, name))
			return entry;
	return NULL;
}

static int check_version(uint32_t version)
{
	if (!version)
		return 0;
	if (KFI_MAJOR(version) != KFI_MAJOR_VERSION || KFI_VERSION_LT(kfi_version(), version))
		return -ENOSYS;
	return 0;
}

/* The providers to ask, entered. Their number, or an error. */
static int enter_all(const char *name, struct entry ***found)
{
	struct entry *entry, **all;
	int count = 0, n = 0;

	mutex_lock(&registry_lock);
	list_for_each_entry(entry, &registry, link)
		count++;
	all = kapi_alloc(max(count, 1) * sizeof(*all));
	if (!all) {
		mutex_unlock(&registry_lock);
		return -ENOMEM;
	}
	list_for_each_entry(entry, &registry, link) {
		if (name && strcmp(entry->provider->name, name))
			continue;
		if (entry == find(entry->provider->name) && enter(entry))
			all[n++] = entry;
	}
	mutex_unlock(&registry_lock);
	*found = all;
	return n;
}

int kfi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		struct kfi_info *hints, struct kfi_info **info)
{
	const char *name = hints && hints->fabric_attr ? hints->fabric_attr->prov_name : NULL;
	struct kfi_info **tail = info;
	struct entry **all;
	int error, count, i, failed = 0;

	if (!info)
		return -EINVAL;
	*info = NULL;
	error = check_version(version);
	if (error)
		return error;
	if (name && !*name)
		name = NULL;
	count = enter_all(name, &all);
	if (count < 0)
		return count;

	for (i = 0; i < count; i++) {
		struct kfi_info *some = NULL;

		error = all[i]->provider->kgetinfo(version, node, service, flags, hints, &some);
		if (!error) {
			for (*tail = some; *tail; tail = &(*tail)->next)
				;
		} else if (error != -ENODATA && !failed) {
			failed = error;
		}
		leave(all[i], false);
	}
	kapi_free(all);
	if (*info)
		return 0;
	if (name && !count)
		return -ENODEV;
	return failed ?: -ENODATA;
}
EXPORT_SYMBOL(kfi_getinfo);

static int fabric_close(struct kfid *fid)
{
	struct open_fabric *open = container_of(fid->ops, struct open_fabric, ops);
	struct entry *entry = open->entry;
	struct module *owner = entry->provider->owner;
	int error;

	error = open->own->close(fid);
	if (error)
		return error;
	/* The fabric is gone now. */
	kapi_free(open);
	mutex_lock(&registry_lock);
	entry->fabrics--;
	mutex_unlock(&registry_lock);
	module_put(owner);
	return 0;
}

int kfi_fabric(struct kfi_fabric_attr *attr, struct kfid_fabric **fabric, void *context)
{
	struct open_fabric *open;
	struct entry *entry;
	int error;

	if (!attr || !fabric || !attr->prov_name)
		return -EINVAL;
	*fabric = NULL;
	open = kapi_alloc(sizeof(*open));
	if (!open)
		return -ENOMEM;

	mutex_lock(&registry_lock);
	entry = find(attr->prov_name);
	if (entry && !enter(entry))
		entry = NULL;
	if (entry)
		entry->fabrics++;
	mutex_unlock(&registry_lock);
	if (!entry) {
		kapi_free(open);
		return -ENODEV;
	}

	error = entry->provider->kfabric(attr, fabric, context);
	if (!error) {
		open->entry = entry;
		open->own = (*fabric)->fid.ops;
		open->ops = *open->own;
		open->ops.close = fabric_close;
		(*fabric)->fid.ops = &open->ops;
	} else {
		*fabric = NULL;
		kapi_free(open);
		mutex_lock(&registry_lock);
		entry->fabrics--;
		mutex_unlock(&registry_lock);
	}
	leave(entry, !error);
	return error;
}
EXPORT_SYMBOL(kfi_fabric);

int (kfi_provider_register)(struct kfi_provider *provider)
{
	struct entry *entry, *other;

	if (!provider || !provider->name || !*provider->name || !provider->kgetinfo ||
	    !provider->kfabric)
		return -EINVAL;
	if (check_version(provider->kfi_version))
		return -ENOSYS;
	entry = kapi_alloc(sizeof(*entry));
	if (!entry)
		return -ENOMEM;
	entry->provider = provider;

	mutex_lock(&registry_lock);
	other = find(provider->name);
	if (other && !KFI_VERSION_LT(other->provider->version, provider->version)) {
		mutex_unlock(&registry_lock);
		kapi_free(entry);
		return -EEXIST;
	}
	init_completion(&provider->comp);
	atomic_set(&provider->ref_cnt, 1);
	/* Before the older one of its name, or behind all. */
	list_add_tail(&entry->link, other ? &other->link : &registry);
	mutex_unlock(&registry_lock);
	return 0;
}
EXPORT_SYMBOL(kfi_provider_register);

int kfi_provider_deregister(struct kfi_provider *provider)
{
	struct entry *entry;
	int error = -EINVAL;

	mutex_lock(&registry_lock);
	list_for_each_entry(entry, &registry, link) {
		if (entry->provider != provider)
			continue;
		error = entry->fabrics ? -EBUSY : 0;
		break;
	}
	if (!error)
		list_del(&entry->link);
	mutex_unlock(&registry_lock);
	if (error)
		return error;

	/* Calls that have begun; none begins any more. */
	kfi_deref_provider(provider);
	wait_for_completion(&provider->comp);
	kapi_free(entry);
	if (provider->cleanup)
		provider->cleanup();
	return 0;
}
EXPORT_SYMBOL(kfi_provider_deregister);

int kapi_registry_init(void)
{
	return kfi_provider_register(&kapi_tcp);
}

void kapi_registry_exit(void)
{
	struct entry *entry, *next;

	if (kfi_provider_deregister(&kapi_tcp))
		pr_warn("LEAK: fabrics of provider tcp are open\n");
	/* Providers' modules need this one: none can be left, if they deregister as they should. */
	list_for_each_entry_safe(entry, next, &registry, link) {
		pr_warn("LEAK: provider %s is registered\n", entry->provider->name);
		list_del(&entry->link);
		kapi_free(entry);
	}
}
