// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Messages without bytes need no buffer: sends from NULL with length 0, and
 * receives into NULL, whatever length they are said to have, as programs post
 * them (libfabric's fi_shared_ctx does).
 */
#include "../common.h"

int main(void)
{
	struct opts o = OPTS_DEFAULT;
	struct pair p;
	struct fi_cq_data_entry c;
	struct fi_cq_err_entry err;
	struct iovec empty = { NULL, 0 };
	struct fi_msg m = { .msg_iov = &empty, .iov_count = 1, .context = &m }, none = { .context = &none };
	char in[8];

	t_begin("null-buffer", 20);
	pair_open(&p, &o);
	OK(fi_recv(p.p.ep, NULL, 0, NULL, 0, &p));
	OK(fi_recv(p.p.ep, NULL, 256, NULL, 0, &p));
	OK(fi_recvmsg(p.p.ep, &m, 0));
	OK(fi_recvmsg(p.p.ep, &none, 0));
	OK(fi_recv(p.p.ep, in, sizeof(in), NULL, 0, &p));
	OK(fi_send(p.c.ep, NULL, 0, NULL, 0, &p));
	OK(fi_sendmsg(p.c.ep, &m, FI_COMPLETION));
	OK(fi_sendmsg(p.c.ep, &none, FI_COMPLETION));
	OK(fi_senddata(p.c.ep, NULL, 0, NULL, 7, 0, &p));
	OK(fi_inject(p.c.ep, NULL, 0, 0));
	for (int i = 0; i < 5; i++) {
		REQUIRE(cq_next(p.p.cq, &c, &err, 5000) == 1, "receive %d", i);
		EXPECT(c.len == 0, "receive %d has %zu bytes", i, c.len);
		EXPECT(i != 3 || c.data == 7, "completion data of an empty message is %ju", (uintmax_t)c.data);
	}
	for (int i = 0; i < 4; i++)
		REQUIRE(cq_next(p.c.cq, &c, &err, 5000) == 1, "send %d", i);
	pair_close(&p);
	t_end("messages without bytes need no buffer");
}
