// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Access checks: a read or write that a region does not allow changes no byte,
 * fails at its initiator, and ends that connection; others go on (docs/semantics.md,
 * section 4).
 */
#include "../common.h"

#define SIZE 4096
#define EDGE 64

enum access { GOOD, WRONG_KEY, BEFORE, BEHIND, ACROSS, WRAP, READ_ONLY, WRITE_ONLY, CLOSED, N };
static const char *const name[N] = { "allowed", "a key that is nobody's", "in front of the region", "behind the region",
	"across the region's end", "around the end of the address space", "write to a region for reads",
	"read of a region for writes", "a region that was closed" };

static const struct opts o = { .caps = FI_MSG | FI_RMA, .cq_wait = FI_WAIT_UNSPEC, .eq_wait = FI_WAIT_UNSPEC };

static void one(void *arg)
{
	enum access k = *(enum access *)arg;
	unsigned char *memory = malloc(SIZE + 2 * EDGE), local[256] = { 0 };
	struct pair p;
	struct fid_mr *mr = NULL;
	struct fi_cq_data_entry c;
	struct fi_cq_err_entry err;
	struct cm_event ev;
	bool read = k == WRITE_ONLY || k == BEHIND;
	uint64_t access = k == READ_ONLY ? FI_REMOTE_READ : k == WRITE_ONLY ? FI_REMOTE_WRITE : FI_REMOTE_READ | FI_REMOTE_WRITE;

	canary_fill(memory, SIZE + 2 * EDGE);
	pair_open(&p, &o);
	OK(fi_mr_reg(p.p.domain, memory + EDGE, SIZE, access, 0, 5, 0, &mr, NULL));
	uint64_t base = p.p.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)(memory + EDGE) : 0;
	uint64_t key = fi_mr_key(mr), at = base;
	switch (k) {
	case WRONG_KEY: key ^= 0x5a5a; break;
	case BEFORE:    at = base - 8; break;
	case BEHIND:    at = base + SIZE; break;
	case ACROSS:    at = base + SIZE - 100; break;
	case WRAP:      at = UINT64_MAX - 100; break;
	case CLOSED:    OK(fi_close(&mr->fid)); mr = NULL; break;
	default: break;
	}
	t_step("%s", name[k]);
	if (read)
		OK(fi_read(p.c.ep, local, sizeof(local), NULL, 0, at, key, local));
	else
		OK(fi_write(p.c.ep, local, sizeof(local), NULL, 0, at, key, local));
	int rc = 0;
	if (k == GOOD) {
		rc = cq_next(p.c.cq, &c, &err, 5000);
		EXPECT(rc == 1, "%s: %d", name[k], rc);
		xfer(&p.c, &p.p, 100, 1);
	} else {
		/* of a write the initiator may be told that it has left; what counts is the end */
		ssize_t n = eq_next(p.c.eq, &ev, 5000);
		EXPECT(n > 0 && ev.event == FI_SHUTDOWN, "%s: the connection goes on (%zd)", name[k], n);
		eq_need(p.s.eq, FI_SHUTDOWN, &ev, 5000);
		rc = cq_next(p.c.cq, &c, &err, 1000);
		EXPECT(!read || rc == -FI_EAVAIL, "%s: a read that is not allowed completes with %d", name[k], rc);
		EXPECT(rc == -FI_EAVAIL || rc == 1, "%s: no completion", name[k]);
		long changed = canary_check(memory, SIZE + 2 * EDGE);
		EXPECT(changed < 0, "%s: byte %ld was written", name[k], changed - EDGE);
		struct ep c2, p2;
		pair_join(&p.s, &c2, &p2, &o);
		xfer(&c2, &p2, 100, 2);
		ep_close(&c2);
		ep_close(&p2);
	}
	if (mr)
		OK(fi_close(&mr->fid));
	pair_close(&p);
	free(memory);
}

int main(void)
{
	t_begin("rma-access", 60);
	for (enum access k = 0; k < N; k++)
		t_isolated(name[k], 10, one, &k);
	t_end("what a region does not allow changes nothing and ends the connection");
}
