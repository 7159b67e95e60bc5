// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * FI_MORE, fi_msg(3) and fi_rma(3): a hint that more is posted at once. All
 * arrives, in order, also when the last post had FI_MORE, too.
 */
#include "../common.h"

#define N 40

static const struct opts o = { .caps = FI_MSG | FI_RMA, .cq_wait = FI_WAIT_UNSPEC, .eq_wait = FI_WAIT_UNSPEC };

static void messages(struct pair *p, bool last_with)
{
	static unsigned char in[N][32], out[N][32];
	struct fi_cq_data_entry c;
	struct fi_cq_err_entry err;

	for (int i = 0; i < N; i++) {
		struct iovec v = { in[i], 32 };
		struct fi_msg m = { .msg_iov = &v, .iov_count = 1, .context = in[i] };
		OK(fi_recvmsg(p->p.ep, &m, i < N - 1 || last_with ? FI_MORE : 0));
	}
	for (int i = 0; i < N; i++) {
		pattern_fill(out[i], 32, (uint64_t)i);
		struct iovec v = { out[i], 32 };
		struct fi_msg m = { .msg_iov = &v, .iov_count = 1, .context = out[i] };
		OK(fi_sendmsg(p->c.ep, &m, FI_COMPLETION | (i < N - 1 || last_with ? FI_MORE : 0)));
	}
	for (int i = 0; i < N; i++) {
		REQUIRE(cq_next(p->p.cq, &c, &err, 5000) == 1 && c.op_context == in[i], "receive %d did not complete", i);
		EXPECT(pattern_check(in[i], 32, (uint64_t)i) < 0, "message %d differs", i);
		REQUIRE(cq_next(p->c.cq, &c, &err, 5000) == 1 && c.op_context == out[i], "send %d did not complete", i);
	}
}

int main(void)
{
	static unsigned char memory[N * 16], local[N * 16], in[16];
	struct pair p;
	struct fid_mr *mr;
	struct fi_cq_data_entry c;
	struct fi_cq_err_entry err;

	t_begin("more", 20);
	pair_open(&p, &o);
	messages(&p, false);
	messages(&p, true);
	t_step("writes, then a message");
	OK(fi_mr_reg(p.p.domain, memory, sizeof(memory), FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL));
	uint64_t addr = p.p.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)memory : 0;
	pattern_fill(local, sizeof(local), 3);
	OK(fi_recv(p.p.ep, in, sizeof(in), NULL, 0, in));
	for (int i = 0; i < N; i++) {
		struct iovec v = { local + 16 * i, 16 };
		struct fi_rma_iov r = { addr + 16 * (uint64_t)i, 16, fi_mr_key(mr) };
		struct fi_msg_rma m = { .msg_iov = &v, .iov_count = 1, .rma_iov = &r, .rma_iov_count = 1 };
		OK(fi_writemsg(p.c.ep, &m, FI_MORE | FI_COMPLETION));
	}
	OK(fi_send(p.c.ep, "done", 5, NULL, 0, NULL));
	REQUIRE(cq_next(p.p.cq, &c, &err, 5000) == 1 && c.op_context == in, "the message behind the writes");
	/* fi_endpoint(3), FI_ORDER_SAW: a send stays behind writes */
	EXPECT(pattern_check(memory, sizeof(memory), 3) < 0, "a message is ahead of writes");
	for (int i = 0; i <= N; i++)
		REQUIRE(cq_next(p.c.cq, &c, &err, 5000) == 1, "completion %d", i);
	OK(fi_close(&mr->fid));
	pair_close(&p);
	t_end("all that was posted with FI_MORE arrives, in order");
}
