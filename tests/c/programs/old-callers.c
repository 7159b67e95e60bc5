// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Programs that were built for older libfabrics: every version of fi_getinfo,
 * fi_dupinfo, fi_freeinfo and fi_fabric by dlvsym(3), with hints in structures of
 * that version's size whose end touches an unreadable page, and the API version
 * of that time.  fi_fabric@FABRIC_1.0 with an attribute that ends in padding.
 */
#include "../common.h"
#include <dlfcn.h>

/* Sizes of the structures at each version, and the last API version that used it. */
static const struct layout {
	const char *version;
	unsigned api;
	size_t info, fabric, domain, ep, tx, rx;
} layouts[] = {
	{ "FABRIC_1.0", 4, 112, 32, 120, 80, 72, 64 }, { "FABRIC_1.1", 5, 112, 32, 184, 96, 72, 64 },
	{ "FABRIC_1.2", 8, 120, 32, 184, 96, 72, 64 }, { "FABRIC_1.3", 17, 120, 32, 192, 96, 80, 64 },
	{ "FABRIC_1.7", 20, 120, 32, 200, 96, 80, 64 }, { "FABRIC_1.8", 22, 120, 32, 208, 96, 80, 64 },
	{ "FABRIC_1.9", 22, 120, 32, 224, 96, 80, 64 }, { "FABRIC_1.10", 22, 120, 32, 232, 104, 80, 64 },
};

typedef int getinfo_fn(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **);
typedef struct fi_info *dupinfo_fn(const struct fi_info *);
typedef void freeinfo_fn(struct fi_info *);
typedef int fabric_fn(struct fi_fabric_attr *, struct fid_fabric **, void *);

static void *lib;
static void *old(const char *symbol, const char *version) { return dlvsym(lib, symbol, version); }

/* What a program of that time has filled in: n bytes in front of an unreadable page. */
static void *part(size_t n) { return memset(guard_alloc(n), 0, n); }

static void one(void *arg)
{
	const struct layout *l = arg;
	getinfo_fn *getinfo = (getinfo_fn *)old("fi_getinfo", l->version);
	dupinfo_fn *dupinfo = (dupinfo_fn *)old("fi_dupinfo", l->version);
	freeinfo_fn *freeinfo = (freeinfo_fn *)old("fi_freeinfo", l->version);
	struct fi_info *hints = part(l->info), *info = NULL, *copy;
	char name[16];
	int rc;

	snprintf(name, sizeof(name), "%s", t_prov());
	hints->caps = FI_MSG;
	hints->fabric_attr = part(l->fabric);
	hints->domain_attr = part(l->domain);
	hints->ep_attr = part(l->ep);
	hints->tx_attr = part(l->tx);
	hints->rx_attr = part(l->rx);
	hints->fabric_attr->prov_name = name;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->mr_mode = FI_MR_BASIC;
	hints->addr_format = FI_SOCKADDR_IN;

	t_step("fi_getinfo@%s", l->version);
	rc = getinfo(FI_VERSION(1, l->api), "127.0.0.1", "4711", 0, hints, &info);
	REQUIRE(!rc && info, "fi_getinfo@%s: %d (%s)", l->version, rc, t_err(rc));
	EXPECT(info->ep_attr->type == FI_EP_MSG && ((struct sockaddr_in *)info->dest_addr)->sin_port == htons(4711), "fi_getinfo@%s: another endpoint", l->version);
	t_step("fi_dupinfo@%s", l->version);
	copy = dupinfo(hints);
	REQUIRE(copy && copy != hints && copy->ep_attr != hints->ep_attr, "fi_dupinfo@%s", l->version);
	EXPECT(copy->caps == FI_MSG && !strcmp(copy->fabric_attr->prov_name, name) && copy->domain_attr->mr_mode == FI_MR_BASIC,
	       "fi_dupinfo@%s: other values", l->version);
	/* what this version does not have is nothing */
	EXPECT(!copy->nic && !copy->domain_attr->tclass && !copy->tx_attr->tclass, "fi_dupinfo@%s: read behind the structures", l->version);
	freeinfo(copy);
	copy = dupinfo(NULL);
	REQUIRE(copy && copy->ep_attr && copy->tx_attr && copy->rx_attr && copy->domain_attr && copy->fabric_attr, "fi_dupinfo@%s(NULL)", l->version);
	freeinfo(copy);
	t_step("fi_freeinfo@%s", l->version);
	/* programs put strings of their own there */
	free(info->fabric_attr->prov_name);
	info->fabric_attr->prov_name = strdup("mine");
	freeinfo(info);
}

static void fabric_1_0(void *arg)
{
	fabric_fn *fabric = (fabric_fn *)old("fi_fabric", "FABRIC_1.0");
	struct fi_info *h = hints_new(&OPTS_DEFAULT), *info = info_get("127.0.0.1", NULL, FI_SOURCE, h);
	struct fi_fabric_attr *attr = part(32);
	struct fid_fabric *f;

	REQUIRE(fabric, "there is none");
	fi_freeinfo(h);
	memcpy(attr, info->fabric_attr, 28);    /* the last four bytes were padding then */
	memset((char *)attr + 28, 0xEE, 4);
	OK(fabric(attr, &f, NULL));
	EXPECT(f->api_version == FI_VERSION(1, 0), "fi_fabric@FABRIC_1.0 opens API version 0x%x", f->api_version);
	OK(fi_close(&f->fid));
	fi_freeinfo(info);
}

int main(void)
{
	t_begin("old-callers", 30);
	fi_version();
	lib = dlopen("libfabric.so.1", RTLD_NOW | RTLD_NOLOAD);
	REQUIRE(lib, "%s", dlerror());
	unsigned n = 0;
	for (size_t i = 0; i < T_ARRAY(layouts); i++) {
		const char *v = layouts[i].version;
		if (!old("fi_getinfo", v) && t_stock()) {
			t_note("this stock libfabric is older than %s", v);
			continue;
		}
		EXPECT(old("fi_getinfo", v) && old("fi_dupinfo", v) && old("fi_freeinfo", v), "no fi_getinfo, fi_dupinfo, fi_freeinfo of %s", v);
		if (old("fi_getinfo", v) && ++n)
			t_isolated_rule("an old caller's structures end where they ended then", 10, one, (void *)(uintptr_t)&layouts[i]);
	}
	EXPECT(old("fi_fabric", "FABRIC_1.1"), "no fi_fabric@FABRIC_1.1");
	t_isolated("fi_fabric@FABRIC_1.0", 10, fabric_1_0, NULL);
	static const char *const once[][2] = { { "fi_version", "FABRIC_1.0" }, { "fi_strerror", "FABRIC_1.0" }, { "fi_tostr", "FABRIC_1.0" },
		{ "fi_log", "FABRIC_1.0" }, { "fi_log_enabled", "FABRIC_1.0" }, { "fi_param_define", "FABRIC_1.0" }, { "fi_param_get", "FABRIC_1.0" },
		{ "fi_getparams", "FABRIC_1.0" }, { "fi_freeparams", "FABRIC_1.0" }, { "fi_tostr_r", "FABRIC_1.4" }, { "fi_open", "FABRIC_1.5" },
		{ "fi_log_ready", "FABRIC_1.6" } };
	for (size_t i = 0; i < T_ARRAY(once); i++)
		EXPECT(old(once[i][0], once[i][1]) || t_stock(), "no %s@%s", once[i][0], once[i][1]);
	t_end("%u versions of fi_getinfo serve their callers", n);
}
