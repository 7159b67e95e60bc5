// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-31 Key rules of memory registration.
 *
 * Asks for mr_mode 0 and for all bits the program can bear, and follows what
 * the returned info says: with FI_MR_PROV_KEY the requested key is ignored,
 * without it a second remote region with the same key is -FI_ENOKEY.
 * Local-only regions never collide.
 */
#include "../common.h"

static char mem[2][4096];

static int reg(struct fid_domain *d, int i, uint64_t access, struct fid_mr **mr)
{
	*mr = NULL;
	return fi_mr_reg(d, mem[i], sizeof(mem[i]), access, 0, 7, 0, mr, NULL);
}

static void scene(int asked)
{
	const uint64_t remote = FI_REMOTE_READ | FI_REMOTE_WRITE, local = FI_SEND | FI_RECV;
	struct opts o = OPTS_DEFAULT;
	struct fi_info *h, *info;
	struct fid_fabric *fab;
	struct fid_domain *dom;
	struct fid_mr *a, *b;
	int rc;

	t_step("mr_mode 0x%x", (unsigned)asked);
	o.caps = FI_MSG | FI_RMA;
	h = hints_new(&o);
	h->domain_attr->mr_mode = asked;
	info = info_get("127.0.0.1", NULL, FI_SOURCE, h);
	fi_freeinfo(h);
	int mode = info->domain_attr->mr_mode;
	EXPECT((mode & ~asked) == 0, "mr_mode 0x%x asked, 0x%x returned: bits nobody asked for", asked, mode);
	bool prov_key = mode & FI_MR_PROV_KEY;
	t_note("asked 0x%x, returned 0x%x, mr_key_size %zu", asked, mode, info->domain_attr->mr_key_size);
	OK(fi_fabric(info->fabric_attr, &fab, NULL));
	OK(fi_domain(fab, info, &dom, NULL));

	/* both remote */
	OK(reg(dom, 0, remote, &a));
	if (!prov_key)
		EXPECT(fi_mr_key(a) == 7, "requested key 7, got %ju", (uintmax_t)fi_mr_key(a));
	rc = reg(dom, 1, remote, &b);
	if (prov_key) {
		EXPECT(!rc, "FI_MR_PROV_KEY: second region %d (%s)", rc, t_err(rc));
		if (!rc)
			EXPECT(fi_mr_key(a) != fi_mr_key(b), "FI_MR_PROV_KEY: the same key twice");
	} else {
		EXPECT(rc == -FI_ENOKEY, "second remote region with key 7: %d (%s), not -FI_ENOKEY", rc, rc ? t_err(rc) : "success");
	}
	if (!rc && b)
		OK_SOFT(fi_close(&b->fid));

	/* one remote, one local */
	rc = reg(dom, 1, local, &b);
	EXPECT(!rc, "local-only region beside a remote one with the same key: %d (%s)", rc, t_err(rc));
	if (!rc)
		OK_SOFT(fi_close(&b->fid));
	OK_SOFT(fi_close(&a->fid));

	/* re-use after close */
	rc = reg(dom, 1, remote, &b);
	EXPECT(!rc, "key 7 again after close: %d (%s)", rc, t_err(rc));
	if (!rc)
		OK_SOFT(fi_close(&b->fid));

	/* both local */
	OK(reg(dom, 0, local, &a));
	rc = reg(dom, 1, local, &b);
	EXPECT(!rc, "two local-only regions with the same key: %d (%s)", rc, t_err(rc));
	if (!rc)
		OK_SOFT(fi_close(&b->fid));
	/* local first, remote second */
	rc = reg(dom, 1, remote, &b);
	EXPECT(!rc, "remote region after a local-only one with the same key: %d (%s)", rc, t_err(rc));
	if (!rc)
		OK_SOFT(fi_close(&b->fid));
	OK_SOFT(fi_close(&a->fid));

	OK_SOFT(fi_close(&dom->fid));
	OK_SOFT(fi_close(&fab->fid));
	fi_freeinfo(info);
}

int main(void)
{
	t_begin("BUG-31", 30);
	scene(0);
	scene(FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT);
	t_end("keys follow the returned mr_mode, local-only regions never collide");
}
