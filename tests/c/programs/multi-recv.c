// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * FI_MULTI_RECV, fi_msg(3): one buffer for many messages, one behind the other;
 * given back by FI_MULTI_RECV in the completion of its last, when less than
 * FI_OPT_MIN_MULTI_RECV is left.  A buffer that is cancelled comes back, too.
 */
#include "../common.h"

#define BUFFER 4096
#define MINIMUM 256

static const struct opts o = { .caps = FI_MSG | FI_MULTI_RECV, .cq_wait = FI_WAIT_UNSPEC, .eq_wait = FI_WAIT_UNSPEC };
static unsigned char buffer[2][BUFFER];

static void post(struct ep *e, void *b)
{
	struct iovec v = { b, BUFFER };
	struct fi_msg m = { .msg_iov = &v, .iov_count = 1, .context = b };

	OK(fi_recvmsg(e->ep, &m, FI_MULTI_RECV));
}

int main(void)
{
	struct pair p;
	struct fi_cq_data_entry c;
	struct fi_cq_err_entry err;
	unsigned char out[1000];
	size_t minimum = MINIMUM, len = sizeof(minimum), used = 0;
	unsigned returned = 0, k = 0;

	t_begin("multi-recv", 20);
	pair_open(&p, &o);
	OK(fi_setopt(&p.p.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &minimum, sizeof(minimum)));
	minimum = 0;
	OK(fi_getopt(&p.p.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &minimum, &len));
	EXPECT(minimum == MINIMUM, "FI_OPT_MIN_MULTI_RECV is %zu", minimum);
	post(&p.p, buffer[0]);
	post(&p.p, buffer[1]);
	t_step("messages");
	for (unsigned i = 0; i < 60; i++) {
		size_t n = 1 + i * 37 % 250;
		pattern_fill(out, n, i);
		OK(post_send(&p.c, out, n, out));
		REQUIRE(cq_next(p.c.cq, &c, &err, 5000) == 1, "send %u", i);
		REQUIRE(cq_next(p.p.cq, &c, &err, 5000) == 1, "receive %u", i);
		REQUIRE(c.op_context == buffer[k] && c.len == n, "message %u: %zu bytes, buffer %p", i, c.len, c.op_context);
		EXPECT(c.buf == buffer[k] + used, "message %u is at %td, not %zu", i, (unsigned char *)c.buf - buffer[k], used);
		EXPECT(pattern_check(c.buf, n, i) < 0, "message %u differs", i);
		used += n;
		EXPECT(!(c.flags & FI_MULTI_RECV) == (BUFFER - used >= MINIMUM), "message %u: FI_MULTI_RECV with %zu bytes left", i, BUFFER - used);
		if (c.flags & FI_MULTI_RECV) {
			returned++;
			post(&p.p, buffer[k]);
			k ^= 1;
			used = 0;
		}
	}
	EXPECT(returned >= 1, "no buffer came back");
	t_step("cancel");
	OK(fi_cancel(&p.p.ep->fid, buffer[k]));
	REQUIRE(cq_next(p.p.cq, &c, &err, 5000) == -FI_EAVAIL && err.op_context == buffer[k] && err.err == FI_ECANCELED, "cancel");
	EXPECT(err.flags & FI_MULTI_RECV, "a buffer that is cancelled comes back without FI_MULTI_RECV: 0x%jx", (uintmax_t)err.flags);
	pair_close(&p);
	t_end("60 messages in 2 buffers, %u given back", returned);
}
