// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Memory regions, fi_mr(3): fi_mr_reg, _regv and _regattr; keys as requested or as
 * the provider makes them; pieces of fi_mr_regv are one range to peers; a key that
 * is taken is -FI_ENOKEY, unknown access bits are -FI_EBADFLAGS.
 */
#include "../common.h"

static bool basic;
static void hints(struct fi_info *h) { h->domain_attr->mr_mode = basic ? FI_MR_BASIC : 0; }

static const struct opts o = { .caps = FI_MSG | FI_RMA, .cq_wait = FI_WAIT_UNSPEC, .eq_wait = FI_WAIT_UNSPEC, .hints = hints };
static struct pair p;

/* What a peer reads of the region's first n bytes. */
static void reads(struct fid_mr *mr, const void *start, size_t n, uint64_t seed)
{
	unsigned char in[256];
	struct fi_cq_data_entry c;
	struct fi_cq_err_entry err;

	OK(fi_read(p.c.ep, in, n, NULL, 0, basic ? (uint64_t)(uintptr_t)start : 0, fi_mr_key(mr), in));
	REQUIRE(cq_next(p.c.cq, &c, &err, 5000) == 1, "read");
	EXPECT(pattern_check(in, n, seed) < 0, "a peer reads other bytes");
}

static void region(const char *what, struct fid_mr *mr, int rc)
{
	REQUIRE(!rc && mr && mr->fid.fclass == FI_CLASS_MR, "%s: %d (%s)", what, rc, t_err(rc));
}

static void scene(bool mode)
{
	unsigned char memory[256];
	struct fid_domain *d;
	struct fid_mr *mr = NULL, *other = NULL;
	struct iovec piece[2] = { { memory, 100 }, { memory + 100, 156 } };
	struct fi_mr_attr attr = { .mr_iov = piece, .iov_count = 1, .access = FI_REMOTE_READ, .requested_key = 77, .context = &attr };
	int rc;

	basic = mode;
	pair_open(&p, &o);
	d = p.p.domain;
	pattern_fill(memory, sizeof(memory), 9);

	t_step("fi_mr_reg");
	rc = fi_mr_reg(d, memory, sizeof(memory), FI_REMOTE_READ | FI_REMOTE_WRITE | FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0, 42, 0, &mr, &p);
	region("fi_mr_reg", mr, rc);
	EXPECT(mr->fid.context == &p, "the region's context");
	EXPECT(basic || fi_mr_key(mr) == 42, "key %ju instead of 42", (uintmax_t)fi_mr_key(mr));
	EXPECT(fi_mr_key(mr) != FI_KEY_NOTAVAIL, "no key");
	(void)fi_mr_desc(mr);
	reads(mr, memory, 256, 9);
	t_step("flags, an offset, and more than rights in access");
	rc = fi_mr_reg(d, memory, 10, FI_REMOTE_READ | FI_RMA, 8, 43, FI_RMA_EVENT | FI_RMA_PMEM, &other, NULL);
	EXPECT(rc == 0, "fi_mr_reg: %d", rc);
	if (!rc)
		OK(fi_close(&other->fid));
	rc = fi_mr_regattr(d, &attr, FI_RMA_PMEM, &other);
	EXPECT(rc == 0, "fi_mr_regattr: %d", rc);
	if (!rc)
		OK(fi_close(&other->fid));
	if (!basic) {
		t_step("a key that is taken");
		rc = fi_mr_reg(d, memory, 10, FI_REMOTE_READ, 0, 42, 0, &other, NULL);
		EXPECT(rc == -FI_ENOKEY, "a key that is taken: %d", rc);
		if (!rc)
			OK(fi_close(&other->fid));
	}
	OK(fi_close(&mr->fid));

	t_step("a key that is free again");
	rc = fi_mr_reg(d, memory, 10, FI_REMOTE_READ, 0, 42, 0, &mr, NULL);
	region("a key that is free again", mr, rc);
	OK(fi_close(&mr->fid));

	t_step("fi_mr_regattr");
	rc = fi_mr_regattr(d, &attr, 0, &mr);
	region("fi_mr_regattr", mr, rc);
	EXPECT(basic || fi_mr_key(mr) == 77, "key %ju instead of 77", (uintmax_t)fi_mr_key(mr));
	EXPECT(mr->fid.context == &attr, "the attributes' context");
	reads(mr, memory, 100, 9);
	OK(fi_close(&mr->fid));

	t_step("fi_mr_regv");
	rc = fi_mr_regv(d, piece, 1, FI_REMOTE_READ, 0, 78, 0, &mr, NULL);
	region("fi_mr_regv", mr, rc);
	reads(mr, memory, 100, 9);
	OK(fi_close(&mr->fid));
	size_t limit = p.p.info->domain_attr->mr_iov_limit;
	if (limit > 1) {
		t_step("fi_mr_regv of two pieces");
		rc = fi_mr_regv(d, piece, 2, FI_REMOTE_READ, 0, 79, 0, &mr, NULL);
		region("fi_mr_regv of two pieces", mr, rc);
		reads(mr, memory, 200, 9);
		OK(fi_close(&mr->fid));
	}
	t_step("wrong arguments");
	rc = fi_mr_reg(d, memory, 10, FI_REMOTE_READ, 0, 80, FI_MULTICAST, &mr, NULL);
	RULE("docs/semantics.md, in C: other flags are -FI_EBADFLAGS", rc == -FI_EBADFLAGS, "fi_mr_reg: %d", rc);
	if (!rc)
		OK(fi_close(&mr->fid));
	pair_close(&p);
}

int main(void)
{
	t_begin("regions", 20);
	scene(false);
	scene(true);
	t_end("regions are what was registered, with the keys that were agreed upon");
}
