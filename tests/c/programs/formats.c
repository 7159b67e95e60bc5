// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Completion queue formats, fi_cq(3): the entries of each have its size and its
 * fields; several come in one call, behind each other; fi_cq_readfrom.
 */
#include "../common.h"

static const size_t size[] = { [FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry), [FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
	[FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry), [FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry) };

static void format(enum fi_cq_format f, bool from)
{
	struct opts o = OPTS_DEFAULT;
	struct fi_cq_attr attr = { .format = f, .wait_obj = FI_WAIT_UNSPEC };
	struct srv s;
	struct ep c;
	struct cm_event ev;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_ep *ep;
	static char in[3][100], out[100];
	fi_addr_t source[3];
	size_t n = size[f];

	t_step("format %d", f);
	srv_open(&s, &o);
	cli_make(&c, &s, &o);
	OK(cli_connect(&c, NULL, 0));
	srv_take(&s, &ev, 5000);
	OK(fi_domain(s.fabric, ev.e.info, &domain, NULL));
	OK(fi_cq_open(domain, &attr, &cq, NULL));
	pump_add_cq(cq);
	OK(fi_endpoint(domain, ev.e.info, &ep, NULL));
	OK(fi_ep_bind(ep, &s.eq->fid, 0));
	OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_enable(ep));
	fi_freeinfo(ev.e.info);
	OK(fi_accept(ep, NULL, 0));
	eq_need(s.eq, FI_CONNECTED, &ev, 5000);
	eq_need(c.eq, FI_CONNECTED, &ev, 5000);
	for (int i = 0; i < 3; i++)
		OK(fi_recv(ep, in[i], 100, NULL, 0, in[i]));
	for (size_t i = 0; i < 3; i++) {
		struct fi_cq_data_entry d;
		struct fi_cq_err_entry err;
		OK(fi_senddata(c.ep, out, 10 + i, NULL, 1000 + i, 0, NULL));
		REQUIRE(cq_next(c.cq, &d, &err, 5000) == 1, "send");
	}
	/* the last byte that may be written is the last of its page */
	char *b = guard_alloc(4 * n);
	size_t got = 0;
	for (double end = now_ms() + 5000; got < 3 && now_ms() < end; pump()) {
		ssize_t k = from ? fi_cq_readfrom(cq, b + got * n, 3 - got, source) : fi_cq_read(cq, b + got * n, 3 - got);
		REQUIRE(k > 0 || k == -FI_EAGAIN, "fi_cq_read: %zd", k);
		got += k > 0 ? (size_t)k : 0;
		if (from && k > 0)
			RULE("fi_cq(3): FI_ADDR_NOTAVAIL where there is no source", source[0] == FI_ADDR_NOTAVAIL, "a connected peer's address is %ju", (uintmax_t)source[0]);
	}
	REQUIRE(got == 3, "%zu of 3 completions", got);
	for (size_t i = 0; i < 3; i++) {
		struct fi_cq_tagged_entry e = { 0 };
		memcpy(&e, b + i * n, n);
		EXPECT(e.op_context == in[i], "format %d, entry %zu: context", f, i);
		if (f >= FI_CQ_FORMAT_MSG)
			EXPECT(e.len == 10 + i && (e.flags & (FI_MSG | FI_RECV | FI_REMOTE_CQ_DATA)) == (FI_MSG | FI_RECV | FI_REMOTE_CQ_DATA),
			       "format %d, entry %zu: length %zu, flags 0x%jx", f, i, e.len, (uintmax_t)e.flags);
		if (f >= FI_CQ_FORMAT_DATA)
			EXPECT(e.data == 1000 + i, "format %d, entry %zu: data %ju", f, i, (uintmax_t)e.data);
	}
	guard_free(b, 4 * n);
	ep_close(&c);
	OK(fi_close(&ep->fid));
	pump_drop_cq(cq);
	OK(fi_close(&cq->fid));
	OK(fi_close(&domain->fid));
	srv_close(&s);
}

int main(void)
{
	t_begin("formats", 30);
	for (enum fi_cq_format f = FI_CQ_FORMAT_CONTEXT; f <= FI_CQ_FORMAT_TAGGED; f++) {
		format(f, false);
		format(f, true);
	}
	t_end("entries of all formats are complete");
}
