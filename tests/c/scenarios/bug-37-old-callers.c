// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-37 Old callers, new library.
 *
 * Programs built long ago call old symbol versions and hand in smaller
 * structures.  The error entries of API 1.4 are followed by canary bytes that
 * the library must not write.
 */
#include "../common.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif
#include <dlfcn.h>
#include <gnu/lib-names.h>

/* Layouts of API 1.0 to 1.4, as old programs compiled them. */
struct eq_err_1_0 {
	fid_t fid;
	void *context;
	uint64_t data;
	int err, prov_errno;
	void *err_data;
};
struct cq_err_1_0 {
	void *op_context;
	uint64_t flags;
	size_t len;
	void *buf;
	uint64_t data, tag;
	size_t olen;
	int err, prov_errno;
	void *err_data;
};
/* An old structure with canaries behind it. */
#define OLD(type) struct { struct type e; unsigned char canary[128]; }

/* The leading part of fi_info is the same in all versions. */

typedef int (*getinfo_fn)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **);
typedef void (*freeinfo_fn)(struct fi_info *);
typedef struct fi_info *(*dupinfo_fn)(const struct fi_info *);

/* All symbols that stock 1.17 exports. */
static const struct { const char *sym, *ver; } map[] = {
	{ "fi_dupinfo", "FABRIC_1.0" }, { "fi_fabric", "FABRIC_1.0" }, { "fi_freeinfo", "FABRIC_1.0" },
	{ "fi_getinfo", "FABRIC_1.0" }, { "fi_strerror", "FABRIC_1.0" }, { "fi_tostr", "FABRIC_1.0" },
	{ "fi_version", "FABRIC_1.0" }, { "fi_log", "FABRIC_1.0" }, { "fi_log_enabled", "FABRIC_1.0" },
	{ "fi_param_define", "FABRIC_1.0" }, { "fi_param_get", "FABRIC_1.0" }, { "fi_getparams", "FABRIC_1.0" },
	{ "fi_freeparams", "FABRIC_1.0" }, { "fi_tostr_r", "FABRIC_1.4" }, { "fi_open", "FABRIC_1.5" },
	{ "fi_log_ready", "FABRIC_1.6" },
	{ "fi_dupinfo", "FABRIC_1.1" }, { "fi_fabric", "FABRIC_1.1" }, { "fi_freeinfo", "FABRIC_1.1" }, { "fi_getinfo", "FABRIC_1.1" },
	{ "fi_dupinfo", "FABRIC_1.2" }, { "fi_freeinfo", "FABRIC_1.2" }, { "fi_getinfo", "FABRIC_1.2" },
	{ "fi_dupinfo", "FABRIC_1.3" }, { "fi_freeinfo", "FABRIC_1.3" }, { "fi_getinfo", "FABRIC_1.3" },
};

static void *lib(void)
{
	Dl_info di;
	REQUIRE(dladdr((void *)(uintptr_t)fi_version, &di) && di.dli_fname, "dladdr");
	void *h = dlopen(di.dli_fname, RTLD_NOW | RTLD_NOLOAD);
	return h ? h : dlopen("libfabric.so.1", RTLD_NOW);
}

static void symbols(void *arg)
{
	void *h = lib();
	static const char *const ver[] = { "FABRIC_1.0", "FABRIC_1.1", "FABRIC_1.2", "FABRIC_1.3" };

	for (size_t i = 0; i < T_ARRAY(map); i++)
		EXPECT(dlvsym(h, map[i].sym, map[i].ver), "symbol %s@%s is missing", map[i].sym, map[i].ver);
	for (size_t i = 0; i < T_ARRAY(ver); i++) {
		getinfo_fn gi = (getinfo_fn)(uintptr_t)dlvsym(h, "fi_getinfo", ver[i]);
		freeinfo_fn fr = (freeinfo_fn)(uintptr_t)dlvsym(h, "fi_freeinfo", ver[i]);
		dupinfo_fn du = (dupinfo_fn)(uintptr_t)dlvsym(h, "fi_dupinfo", ver[i]);
		if (!gi || !fr || !du)
			continue;
		t_step("fi_getinfo@%s", ver[i]);
		struct fi_info *hints = du(NULL), *info = NULL;    /* fi_allocinfo of that time */
		REQUIRE(hints && hints->ep_attr && hints->fabric_attr, "fi_dupinfo(NULL)@%s gives no usable hints", ver[i]);
		hints->ep_attr->type = FI_EP_MSG;
		hints->caps = FI_MSG;
		hints->addr_format = FI_SOCKADDR_IN;
		hints->fabric_attr->prov_name = strdup(t_prov());
		int rc = gi(FI_VERSION(1, (unsigned)i), "127.0.0.1", "4711", 0, hints, &info);
		EXPECT(!rc && info, "fi_getinfo@%s with API 1.%zu: %d (%s)", ver[i], i, rc, t_err(rc));
		if (!rc) {
			EXPECT(info->dest_addr && ((struct sockaddr_in *)info->dest_addr)->sin_port == htons(4711), "fi_getinfo@%s: dest_addr wrong", ver[i]);
			EXPECT(info->fabric_attr && !strncmp(info->fabric_attr->prov_name, t_prov(), strlen(t_prov())), "fi_getinfo@%s: wrong provider", ver[i]);
			struct fi_info *copy = du(info);
			EXPECT(copy && copy->dest_addr && copy->dest_addr != info->dest_addr, "fi_dupinfo@%s", ver[i]);
			fr(copy);
		}
		fr(info);
		fr(hints);
	}
}

static struct fi_info *old_info(const char *service, uint64_t flags)
{
	struct fi_info *h = fi_allocinfo(), *info = NULL;

	h->ep_attr->type = FI_EP_MSG;
	h->caps = FI_MSG;
	h->addr_format = FI_SOCKADDR_IN;
	h->fabric_attr->prov_name = strdup(t_prov());
	int rc = fi_getinfo(FI_VERSION(1, 4), "127.0.0.1", service, flags, h, &info);
	REQUIRE(!rc && info, "fi_getinfo with API 1.4: %d (%s)", rc, t_err(rc));
	fi_freeinfo(h);
	EXPECT(!FI_VERSION_GE(info->fabric_attr->api_version, FI_VERSION(1, 5)), "api_version of the returned info is 0x%x",
	       info->fabric_attr->api_version);
	return info;
}

static void eq_entry(void *arg)
{
	struct opts o = OPTS_DEFAULT;
	struct ep c;
	struct cm_event ev;
	uint16_t dead;
	char service[16];
	ssize_t n;

	/* a connect that fails */
	t_step("EQ error entry of API 1.4");
	close(raw_listen(&dead));
	snprintf(service, sizeof(service), "%u", dead);
	ep_make(&c, old_info(service, 0), &o, NULL, NULL, NULL);
	if (cli_connect(&c, NULL, 0) == 0) {
		n = eq_next(c.eq, &ev, 3000);
		REQUIRE(n == -FI_EAVAIL, "connect to a dead port: %zd", n);
		OLD(eq_err_1_0) old = { .e = { .err = 0 } };
		canary_fill(old.canary, sizeof(old.canary));
		n = fi_eq_readerr(c.eq, (void *)&old, 0);
		EXPECT(n > 0, "fi_eq_readerr for API 1.4: %zd", n);
		EXPECT(old.e.err == FI_ECONNREFUSED && old.e.fid == &c.ep->fid, "old EQ error entry: err %d", old.e.err);
		EXPECT(canary_check(old.canary, sizeof(old.canary)) < 0,
		       "fi_eq_readerr wrote past the error entry of API 1.4");
	}
	ep_close(&c);
}

static void cq_entry(void *arg)
{
	struct opts o = OPTS_DEFAULT;
	struct ep c, p;
	struct srv s;
	struct fi_cq_data_entry ce;
	ssize_t n;

	/* a receive that is too short */
	t_step("CQ error entry of API 1.4");
	srv_listen(&s, old_info(NULL, FI_SOURCE), &o);
	ep_make(&c, old_info(s.service, 0), &o, NULL, NULL, NULL);
	pair_connect(&s, &c, &p, &o);
	xfer(&c, &p, 100, 1);
	static char in[16], out[100];
	OK(post_recv(&p, in, sizeof(in), in));
	OK(post_send(&c, out, sizeof(out), out));
	for (double end = now_ms() + 3000; (n = fi_cq_read(p.cq, &ce, 1)) == -FI_EAGAIN && now_ms() < end; )
		pump();
	REQUIRE(n == -FI_EAVAIL, "short receive: fi_cq_read %zd", n);
	OLD(cq_err_1_0) old = { .e = { .err = 0 } };
	canary_fill(old.canary, sizeof(old.canary));
	n = fi_cq_readerr(p.cq, (void *)&old, 0);
	EXPECT(n > 0, "fi_cq_readerr for API 1.4: %zd", n);
	EXPECT(old.e.err == FI_ETRUNC && old.e.op_context == in, "old CQ error entry: err %d", old.e.err);
	EXPECT(canary_check(old.canary, sizeof(old.canary)) < 0,
	       "fi_cq_readerr wrote past the error entry of API 1.4");
	ep_close(&c);
	ep_close(&p);
	srv_close(&s);
}

static void too_new(void *arg)
{
	struct opts o = OPTS_DEFAULT;
	struct fi_info *h = hints_new(&o), *const poison = (struct fi_info *)(uintptr_t)0xdead0001, *info = poison;

	int rc = fi_getinfo(FI_VERSION(9, 0), NULL, NULL, 0, h, &info);
	EXPECT(rc == -FI_ENOSYS, "fi_getinfo with API 9.0: %d (%s), not -FI_ENOSYS", rc, rc ? t_err(rc) : "success");
	EXPECT(info == poison || info == NULL, "fi_getinfo with API 9.0 left a list behind");
	fi_freeinfo(h);
}

/* A second copy of the library lists the same providers as the first. */
static void list(void *h, const char *what)
{
	getinfo_fn gi = (getinfo_fn)(uintptr_t)dlsym(h, "fi_getinfo");
	freeinfo_fn fr = (freeinfo_fn)(uintptr_t)dlsym(h, "fi_freeinfo");
	dupinfo_fn du = (dupinfo_fn)(uintptr_t)dlsym(h, "fi_dupinfo");
	struct fi_info *info = NULL;

	REQUIRE(gi && fr && du, "%s: symbols missing", what);
	struct fi_info *hints = du(NULL);
	hints->fabric_attr->prov_name = strdup(t_prov());
	hints->ep_attr->type = FI_EP_MSG;
	int rc = gi(T_API, "127.0.0.1", "4711", 0, hints, &info);
	EXPECT(!rc && info, "%s: fi_getinfo %d (%s)", what, rc, t_err(rc));
	fr(info);
	fr(hints);
}

static void two_copies(void *arg)
{
	Dl_info di;
	char path[T_PATH], buf[65536];
	ssize_t n;

	REQUIRE(dladdr((void *)(uintptr_t)fi_version, &di) && di.dli_fname, "dladdr");
	t_step("copy under another path, RTLD_LOCAL");
	int in = open(di.dli_fname, O_RDONLY), out = t_temp(path, "bug37");
	REQUIRE(in >= 0, "copying the library");
	while ((n = read(in, buf, sizeof(buf))) > 0)
		REQUIRE(write(out, buf, (size_t)n) == n, "copying the library");
	close(in);
	fchmod(out, 0755);
	close(out);
	void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	unlink(path);
	REQUIRE(h, "dlopen of a copy: %s", dlerror());
	REQUIRE(dlsym(h, "fi_getinfo") != (void *)(uintptr_t)fi_getinfo, "the copy is not a second copy");
	list(h, "second copy");
	list(lib(), "first copy");
	dlclose(h);
	list(lib(), "first copy after dlclose of the second");

	if (!strcmp((const char *)arg, "dlmopen")) {
		t_step("dlmopen");
		h = dlmopen(LM_ID_NEWLM, di.dli_fname, RTLD_NOW | RTLD_LOCAL);
		if (!h) {
			t_note("dlmopen: %s", dlerror());
			return;
		}
		list(h, "copy in a new namespace");
		list(lib(), "first copy beside a new namespace");
	}
}

int main(void)
{
	t_begin("BUG-37", 58);
	(void)fi_version();
	t_isolated("symbol versions", 10, symbols, NULL);
	t_isolated("old EQ error entry", 10, eq_entry, NULL);
	t_isolated("old CQ error entry", 10, cq_entry, NULL);
	t_isolated("too new", 5, too_new, NULL);
	/* a sanitizer and valgrind know one C library, and one copy of ours */
	if (SANITIZED)
		t_note("two copies: not run under a sanitizer");
	else
		t_isolated("two copies", 20, two_copies, "");
	if (getenv("SLOW"))
		t_note("two copies by dlmopen: not run under a sanitizer or valgrind");
	else
		t_isolated("two copies, dlmopen", 20, two_copies, "dlmopen");
	t_end("old symbols and layouts served, too new refused, two copies coexist");
}
