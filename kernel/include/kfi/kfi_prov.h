/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * kfi_prov.h - for providers: registration, and reference counts of objects
 */
#ifndef _KFI_PROV_H_
#define _KFI_PROV_H_

#include <linux/completion.h>
#include <linux/export.h>
#include <linux/module.h>
#include <linux/types.h>

#include "kfabric.h"

/**
 * struct kfi_provider - what a provider registers
 * @version: the provider's own, KFI_VERSION(major, minor)
 * @kfi_version: the API's that it was compiled with, KFI_VERSION(KFI_MAJOR_VERSION,
 *	KFI_MINOR_VERSION)
 * @context: the core's
 * @name: for kfi_fabric_attr.prov_name
 * @kgetinfo: kfi_getinfo() for this provider; the hints may be NULL
 * @kfabric: kfi_fabric() for this provider
 * @cleanup: called by kfi_provider_deregister() when nothing uses the provider any more, or NULL
 * @comp: the core's
 * @ref_cnt: the core's: calls into the provider
 * @owner: the module that is kept from being removed while a fabric is open, and while the core
 *	calls into it. kfi_provider_register() fills it in. Not in kfabric, where it is each
 *	provider's own business
 */
struct kfi_provider {
	uint32_t		version;
	uint32_t		kfi_version;
	struct kfi_context	context;
	const char		*name;
	int			(*kgetinfo)(uint32_t version, const char *node,
					    const char *service, uint64_t flags,
					    struct kfi_info *hints, struct kfi_info **info);
	int			(*kfabric)(struct kfi_fabric_attr *attr,
					   struct kfid_fabric **fabric, void *context);
	void			(*cleanup)(void);
	struct completion	comp;
	atomic_t		ref_cnt;
	struct module		*owner;
};

/**
 * kfi_provider_register() - offer a provider to all clients
 * @provider: what it is; it stays the core's until it is deregistered
 *
 * Several providers can be registered, also several of one name: the newest of them is used for
 * what is opened from then on, the others go on with what they have.
 *
 * Context: Process context, may sleep; mostly from a module's init function.
 * Return: 0; -EINVAL when name or a function is missing; -ENOSYS for a provider of another major or
 * newer API; -EEXIST when one of this name is registered that is as new or newer; -ENOMEM.
 */
int kfi_provider_register(struct kfi_provider *provider);

/**
 * kfi_provider_deregister() - take a provider back
 * @provider: what was registered
 *
 * Context: Process context, waits for calls into the provider to end; mostly from a module's exit
 * function, which does not run while fabrics of the provider are open.
 * Return: 0; -EINVAL when it is not registered; -EBUSY when fabrics of it are open, which happens
 * to providers without owner only.
 */
int kfi_provider_deregister(struct kfi_provider *provider);

/* Names the module that registers, as other subsystems do. */
static inline struct kfi_provider *kfi_provider_owned(struct kfi_provider *provider,
						      struct module *owner)
{
	if (provider && !provider->owner)
		provider->owner = owner;
	return provider;
}

#define kfi_provider_register(provider)	\
	kfi_provider_register(kfi_provider_owned(provider, THIS_MODULE))

/**
 * kfi_ref_provider() - begin a use of a provider
 * @provider: the provider
 *
 * Context: Any.
 */
static inline void kfi_ref_provider(struct kfi_provider *provider)
{
	atomic_inc(&provider->ref_cnt);
}

/**
 * kfi_deref_provider() - end a use of a provider
 * @provider: the provider
 *
 * Context: Any.
 */
static inline void kfi_deref_provider(struct kfi_provider *provider)
{
	if (atomic_dec_and_test(&provider->ref_cnt))
		complete(&provider->comp);
}

/**
 * kfi_init_id() - prepare an object's reference count
 * @fid: the object, used once from now on
 *
 * Context: Any.
 */
static inline void kfi_init_id(struct kfid *fid)
{
	atomic_set(&fid->ref_cnt, 1);
	init_completion(&fid->comp);
}

/**
 * kfi_ref_id() - begin a use of an object
 * @fid: the object
 *
 * Context: Any.
 */
static inline void kfi_ref_id(struct kfid *fid)
{
	atomic_inc(&fid->ref_cnt);
}

/**
 * kfi_deref_id() - end a use of an object
 * @fid: the object
 *
 * Context: Any.
 */
static inline void kfi_deref_id(struct kfid *fid)
{
	if (atomic_dec_and_test(&fid->ref_cnt))
		complete(&fid->comp);
}

/**
 * kfi_close_id() - end the first use of an object, and wait for all others to end
 * @fid: the object
 *
 * This has no limit in time: providers that can refuse with -EBUSY had better do that.
 *
 * Context: Process context, sleeps.
 */
static inline void kfi_close_id(struct kfid *fid)
{
	kfi_deref_id(fid);
	wait_for_completion(&fid->comp);
}

#endif /* _KFI_PROV_H_ */
