// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Shared receive contexts of FI_EP_MSG endpoints, fi_endpoint(3): three endpoints
 * take their receives from one context, in the order of messages; each completes
 * in its endpoint's queue; what is left is cancelled when the context closes.
 */
#include "../common.h"

#define N 3

static void hints(struct fi_info *h) { h->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT; }

int main(void)
{
	struct opts o = OPTS_DEFAULT, plain = OPTS_DEFAULT;
	struct fi_rx_attr attr = { .size = 64, .iov_limit = 1 };
	struct fi_cq_attr cqa = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_UNSPEC };
	struct srv s;
	struct ep c[N];
	struct cm_event ev;
	struct fid_domain *domain;
	struct fid_ep *srx, *ep[N];
	struct fid_cq *cq[N];
	struct fi_cq_data_entry done;
	struct fi_cq_err_entry err;
	static unsigned char in[12][32], out[32];

	t_begin("shared-receive", 20);
	o.hints = hints;
	srv_open(&s, &o);
	domain = NULL;
	srx = NULL;
	for (int i = 0; i < N; i++) {
		cli_make(&c[i], &s, &plain);
		OK(cli_connect(&c[i], NULL, 0));
		srv_take(&s, &ev, 5000);
		EXPECT(ev.e.info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT, "the request's rx_ctx_cnt is %zu", ev.e.info->ep_attr->rx_ctx_cnt);
		if (!domain) {
			OK(fi_domain(s.fabric, ev.e.info, &domain, NULL));
			OK(fi_srx_context(domain, &attr, &srx, NULL));
			for (int k = 0; k < 12; k++)
				OK(fi_recv(srx, in[k], 32, NULL, 0, in[k]));
		}
		OK(fi_cq_open(domain, &cqa, &cq[i], NULL));
		pump_add_cq(cq[i]);
		OK(fi_endpoint(domain, ev.e.info, &ep[i], NULL));
		OK(fi_ep_bind(ep[i], &s.eq->fid, 0));
		OK(fi_ep_bind(ep[i], &cq[i]->fid, FI_TRANSMIT | FI_RECV));
		OK(fi_ep_bind(ep[i], &srx->fid, 0));
		OK(fi_enable(ep[i]));
		fi_freeinfo(ev.e.info);
		OK(fi_accept(ep[i], NULL, 0));
		eq_need(s.eq, FI_CONNECTED, &ev, 5000);
		eq_need(c[i].eq, FI_CONNECTED, &ev, 5000);
	}
	t_step("messages");
	for (int k = 0; k < 9; k++) {
		int i = k * 2 % N;
		pattern_fill(out, sizeof(out), (uint64_t)k);
		OK(post_send(&c[i], out, sizeof(out), out));
		REQUIRE(cq_next(c[i].cq, &done, &err, 5000) == 1, "send %d", k);
		REQUIRE(cq_next(cq[i], &done, &err, 5000) == 1, "message %d did not arrive at endpoint %d", k, i);
		EXPECT(done.op_context == in[k], "message %d is not in the oldest receive", k);
		EXPECT(pattern_check(in[k], 32, (uint64_t)k) < 0, "message %d differs", k);
	}
	t_step("an endpoint that closes leaves the others' receives");
	OK(fi_close(&ep[0]->fid));
	for (int i = 0; i < N; i++)
		EXPECT(fi_cq_read(cq[i], &done, 1) == -FI_EAGAIN, "receives of others were cancelled");
	OK(post_send(&c[1], out, sizeof(out), out));
	REQUIRE(cq_next(cq[1], &done, &err, 5000) == 1 && done.op_context == in[9], "a message after that");
	t_step("cancel");
	ssize_t rc = fi_cancel(&srx->fid, out);
	EXPECT(rc == 0, "fi_cancel: %zd", rc);
	for (int i = 1; i < N; i++)
		OK(fi_close(&ep[i]->fid));
	OK(fi_close(&srx->fid));
	for (int i = 0; i < N; i++) {
		pump_drop_cq(cq[i]);
		OK(fi_close(&cq[i]->fid));
		ep_close(&c[i]);
	}
	OK(fi_close(&domain->fid));
	srv_close(&s);
	t_end("%d endpoints share receives in order", N);
}
