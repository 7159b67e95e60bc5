// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Completion levels, fi_cq(3): an operation with FI_DELIVERY_COMPLETE completes
 * when it is in its receive, and not before; with FI_INJECT_COMPLETE and
 * FI_TRANSMIT_COMPLETE it may be earlier; all do. FI_FENCE costs nothing where
 * operations happen in order.
 */
#include "../common.h"

int main(void)
{
	struct opts o = OPTS_DEFAULT;
	struct pair p;
	static const struct { const char *name; uint64_t flag; } level[] = { { "none", 0 }, { "FI_INJECT", FI_INJECT },
		{ "FI_INJECT_COMPLETE", FI_INJECT_COMPLETE }, { "FI_TRANSMIT_COMPLETE", FI_TRANSMIT_COMPLETE },
		{ "FI_DELIVERY_COMPLETE", FI_DELIVERY_COMPLETE }, { "FI_COMMIT_COMPLETE", FI_COMMIT_COMPLETE }, { "FI_FENCE", FI_FENCE } };
	struct fi_cq_data_entry c;
	struct fi_cq_err_entry err;
	char out[64], in[64];

	t_begin("levels", 20);
	pair_open(&p, &o);
	for (size_t i = 0; i < T_ARRAY(level); i++) {
		t_step("%s", level[i].name);
		struct iovec v = { out, sizeof(out) };
		struct fi_msg m = { .msg_iov = &v, .iov_count = 1, .context = &m };
		pattern_fill(out, sizeof(out), i);
		OK(fi_sendmsg(p.c.ep, &m, FI_COMPLETION | level[i].flag));
		if (level[i].flag == FI_INJECT)
			memset(out, 0, sizeof(out));
		if (level[i].flag == FI_DELIVERY_COMPLETE)
			EXPECT(cq_next(p.c.cq, &c, &err, 50) == 0, "%s: complete before there is a receive", level[i].name);
		OK(fi_recv(p.p.ep, in, sizeof(in), NULL, 0, in));
		REQUIRE(cq_next(p.p.cq, &c, &err, 5000) == 1 && c.op_context == in, "%s: receive", level[i].name);
		REQUIRE(cq_next(p.c.cq, &c, &err, 5000) == 1 && c.op_context == &m, "%s: send", level[i].name);
		EXPECT(pattern_check(in, sizeof(in), i) < 0, "%s: bytes differ", level[i].name);
	}
	pair_close(&p);
	t_end("each level completes, and delivery not too early");
}
