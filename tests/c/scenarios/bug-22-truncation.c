// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-22 Truncation is a message error, not a connection error.
 *
 * A message longer than the posted receive ends that receive with FI_ETRUNC
 * and nothing else: the sender completes, the next messages are intact, the
 * connection stays.  Receives are posted before the message arrives or after
 * it, as one buffer or as four pieces.
 */
#include "../common.h"

enum { BEFORE = 0, AFTER = 1, IOV = 2 };

/* A receive buffer with canaries in front, behind, and between pieces. */
struct rbuf {
	unsigned char *mem;
	size_t len;
	struct iovec iov[4];
	unsigned n;
};

#define GAP 64
static void rbuf_make(struct rbuf *b, size_t len, bool pieces)
{
	b->n = pieces ? 4 : 1;
	b->len = len;
	b->mem = malloc(len + GAP * 5);
	canary_fill(b->mem, len + GAP * 5);
	size_t at = GAP, left = len;
	for (unsigned i = 0; i < b->n; i++) {
		size_t part = i + 1 == b->n ? left : len / 4;
		b->iov[i].iov_base = b->mem + at;
		b->iov[i].iov_len = part;
		at += part + GAP;
		left -= part;
	}
}

/* The gaps must be untouched, and the first n bytes (in piece order) the
 * pattern if the whole message fitted. */
static void rbuf_check(struct rbuf *b, const char *what, size_t n, uint64_t seed, bool whole)
{
	unsigned char *flat = malloc(b->len + 1), *fresh = malloc(b->len + GAP * 5);
	size_t at = 0, total = b->len + GAP * 5;

	canary_fill(fresh, total);
	for (unsigned i = 0; i < b->n; i++) {
		memcpy(flat + at, b->iov[i].iov_base, b->iov[i].iov_len);
		at += b->iov[i].iov_len;
		/* blank the payload, what is left must be the canary */
		size_t off = (size_t)((unsigned char *)b->iov[i].iov_base - b->mem);
		memcpy(b->mem + off, fresh + off, b->iov[i].iov_len);
	}
	EXPECT(!memcmp(b->mem, fresh, total), "%s: a byte outside the receive buffer was written", what);
	/* the pattern of the whole message, cut at n; compare bytewise */
	unsigned char *want = malloc(n + 8);
	pattern_fill(want, (n + 7) / 8 * 8, seed);
	/* what a truncated buffer holds is not promised */
	EXPECT(!whole || !memcmp(flat, want, n), "%s: the received bytes are wrong", what);
	free(want);
	free(fresh);
	free(flat);
	free(b->mem);
}

static int post_rbuf(struct ep *e, struct rbuf *b)
{
	ssize_t rc;
	do {
		rc = b->n == 1 ? fi_recv(e->ep, b->iov[0].iov_base, b->iov[0].iov_len, NULL, 0, b)
			       : fi_recvv(e->ep, b->iov, NULL, b->n, 0, b);
		if (rc == -FI_EAGAIN)
			pump();
	} while (rc == -FI_EAGAIN);
	return (int)rc;
}

static void one_message(struct pair *p, size_t room, size_t n, int mode, uint64_t seed)
{
	struct fi_cq_data_entry c;
	struct fi_cq_err_entry err;
	struct rbuf b;
	char what[64];
	unsigned char *s = malloc(n + 8);
	int rc;

	snprintf(what, sizeof(what), "%zu bytes into %zu", n, room);
	t_step("%s", what);
	pattern_fill(s, (n + 7) / 8 * 8, seed);
	rbuf_make(&b, room, mode & IOV);
	if (!(mode & AFTER))
		OK(post_rbuf(&p->p, &b));
	rc = post_send(&p->c, s, n, s);
	REQUIRE(!rc, "%s: fi_send %d (%s)", what, rc, t_err(rc));
	if (mode & AFTER) {
		pump_ms(30);
		rc = post_rbuf(&p->p, &b);
		REQUIRE(!rc, "%s: fi_recv %d (%s)", what, rc, t_err(rc));
	}
	rc = cq_next(p->p.cq, &c, &err, 5000);
	REQUIRE(rc, "%s: no completion for the receive", what);
	if (n <= room) {
		REQUIRE(rc == 1, "%s: receive failed, err %d (%s)", what, err.err, fi_strerror(abs(err.err)));
		EXPECT(c.op_context == &b, "%s: wrong op_context", what);
		EXPECT(c.len == n, "%s: length %zu", what, c.len);
	} else if (rc == 1) {
		t_bad("%s: the receive completed with success", what);
	} else {
		EXPECT(err.err == FI_ETRUNC, "%s: err %d (%s), not FI_ETRUNC", what, err.err, fi_strerror(abs(err.err)));
		EXPECT(err.olen == n - room, "%s: olen %zu, not %zu", what, err.olen, n - room);
		EXPECT(err.op_context == &b, "%s: wrong op_context in the error", what);
	}
	rbuf_check(&b, what, n < room ? n : room, seed, n <= room);
	rc = cq_next(p->c.cq, &c, &err, 5000);
	if (rc != 1)
		t_bad("%s: the sender's completion is %s (err %d)", what, rc ? "an error" : "missing", rc ? err.err : 0);
	else
		EXPECT(c.op_context == s, "%s: wrong op_context at the sender", what);
	/* still connected, no event */
	struct cm_event ev;
	ssize_t e1 = eq_next(p->s.eq, &ev, 2), e2 = eq_next(p->c.eq, &ev, 2);
	REQUIRE(e1 == -FI_EAGAIN && e2 == -FI_EAGAIN, "%s: the connection was torn down", what);
	free(s);
}

static void scene(void *arg)
{
	int mode = *(int *)arg;
	struct opts o = OPTS_DEFAULT;
	struct pair p;

	pair_open(&p, &o);
	one_message(&p, 16, 100, mode, 1);
	one_message(&p, 100, 100, mode, 2);
	one_message(&p, 4096, 100, mode, 3);
	one_message(&p, 1000, 1 << 20, mode, 4);
	for (uint64_t i = 0; i < 5; i++)
		one_message(&p, 5000, 1000 + i, mode, 5 + i);
	xfer(&p.p, &p.c, 100, 9);
	pair_close(&p);
}

int main(void)
{
	static const char *const name[] = { "posted before", "posted after", "4 pieces, posted before", "4 pieces, posted after" };

	t_begin("BUG-22", 55);
	for (int mode = 0; mode < 4; mode++)
		t_isolated(name[mode], 25, scene, &mode);
	t_end("FI_ETRUNC for the short receive only, all else intact");
}
