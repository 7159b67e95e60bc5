// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * fi_cancel, fi_endpoint(3) and D10: the oldest receive with that context that
 * no message has met completes with FI_ECANCELED; 0, and nothing, when there is none;
 * the others are not disturbed, and the buffer is the caller's again.
 */
#include "../common.h"

static void gone(struct ep *e, void *context)
{
	struct fi_cq_data_entry c;
	struct fi_cq_err_entry err;
	int rc = cq_next(e->cq, &c, &err, 1000);

	REQUIRE(rc == -FI_EAVAIL, "no entry of the receive that was cancelled: %d", rc);
	EXPECT(err.err == FI_ECANCELED && err.op_context == context, "error %d, context %p, not %p", err.err, err.op_context, context);
}

int main(void)
{
	struct opts o = OPTS_DEFAULT;
	struct pair p;
	struct fi_cq_data_entry c;
	struct fi_cq_err_entry err;
	unsigned char in[5][16], other[16];
	ssize_t rc;

	t_begin("cancel", 20);
	pair_open(&p, &o);
	t_step("nothing to cancel");
	rc = fi_cancel(&p.p.ep->fid, in[0]);
	EXPECT(rc == 0, "fi_cancel: %zd", rc);

	t_step("one of five");
	canary_fill(in, sizeof(in));
	for (int i = 0; i < 5; i++)
		OK(fi_recv(p.p.ep, in[i], 16, NULL, 0, in[i]));
	OK(fi_cancel(&p.p.ep->fid, in[2]));
	gone(&p.p, in[2]);
	rc = fi_cancel(&p.p.ep->fid, in[2]);
	EXPECT(rc == 0, "fi_cancel again: %zd", rc);
	memset(in[2], 0x77, 16);
	for (int i = 0; i < 5; i++) {
		if (i == 2)
			continue;
		pattern_fill(other, 16, (uint64_t)i);
		OK(post_send(&p.c, other, 16, other));
		REQUIRE(cq_next(p.c.cq, &c, &err, 5000) == 1, "the send did not complete");
		REQUIRE(cq_next(p.p.cq, &c, &err, 5000) == 1 && c.op_context == in[i], "message %d is not in receive %d", i, i);
		EXPECT(pattern_check(in[i], 16, (uint64_t)i) < 0, "receive %d differs", i);
	}
	EXPECT(in[2][0] == 0x77 && in[2][15] == 0x77, "the buffer of a cancelled receive was written to");

	t_step("the same context twice");
	OK(fi_recv(p.p.ep, in[0], 16, NULL, 0, &p));
	OK(fi_recv(p.p.ep, in[1], 16, NULL, 0, &p));
	OK(fi_cancel(&p.p.ep->fid, &p));
	gone(&p.p, &p);
	pattern_fill(other, 16, 50);
	OK(post_send(&p.c, other, 16, other));
	REQUIRE(cq_next(p.p.cq, &c, &err, 5000) == 1 && c.op_context == &p, "the second receive is gone, too");
	EXPECT(pattern_check(in[1], 16, 50) < 0, "not the oldest receive was cancelled");
	pair_close(&p);
	t_end("receives are cancelled one by one, others stay");
}
