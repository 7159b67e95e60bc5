// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Inject and FI_SELECTIVE_COMPLETION, fi_endpoint(3), fi_msg(3): on a selective
 * queue successes are reported for operations with FI_COMPLETION only, of sends
 * and of receives; the endpoint's op_flags count for calls without flags; inject
 * reports no success, and its buffer is free at once; failures are always reported.
 */
#include "../common.h"

struct side { struct fid_domain *domain; struct fid_cq *cq; struct fid_ep *ep; };

static void side_open(struct side *s, struct fid_fabric *fabric, struct fi_info *info, struct fid_eq *eq)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_UNSPEC };

	OK(fi_domain(fabric, info, &s->domain, NULL));
	OK(fi_cq_open(s->domain, &attr, &s->cq, NULL));
	pump_add_cq(s->cq);
	OK(fi_endpoint(s->domain, info, &s->ep, NULL));
	OK(fi_ep_bind(s->ep, &eq->fid, 0));
	OK(fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION));
	OK(fi_enable(s->ep));
}

static void side_close(struct side *s)
{
	OK(fi_close(&s->ep->fid));
	pump_drop_cq(s->cq);
	OK(fi_close(&s->cq->fid));
	OK(fi_close(&s->domain->fid));
}

static bool by_default;
static void hints(struct fi_info *h)
{
	h->tx_attr->op_flags = h->rx_attr->op_flags = by_default ? FI_COMPLETION : 0;
}

/* The completions that come until the marker does. */
static unsigned until(struct side *s, void *marker)
{
	struct fi_cq_data_entry c;
	struct fi_cq_err_entry err;
	unsigned n = 0;

	for (;;) {
		REQUIRE(cq_next(s->cq, &c, &err, 5000) == 1, "no completion");
		if (c.op_context == marker)
			return n;
		n++;
	}
}

static void send_all(struct side *from, struct side *to, uint64_t flags, char *out)
{
	struct iovec v = { out, 20 }, room[8];
	struct fi_msg m = { .msg_iov = &v, .iov_count = 1, .context = out };
	static char in[8][32];
	ssize_t rc;

	/* eight receives, the last with FI_COMPLETION */
	for (int i = 0; i < 7; i++)
		OK(fi_recv(to->ep, in[i], 32, NULL, 0, in[i]));
	room[0] = (struct iovec){ in[7], 32 };
	struct fi_msg last = { .msg_iov = room, .iov_count = 1, .context = &in[7] };
	OK(fi_recvmsg(to->ep, &last, FI_COMPLETION));
	for (int i = 0; i < 2; i++)
		OK(fi_send(from->ep, out, 20, NULL, 0, out));
	for (int i = 0; i < 2; i++)
		OK(fi_sendmsg(from->ep, &m, flags));
	for (int i = 0; i < 3; i++) {
		memset(out, 'a' + i, 20);
		while ((rc = fi_inject(from->ep, out, 20, 0)) == -FI_EAGAIN)
			pump();
		OK(rc);
		memset(out, 0, 20);
	}
	m.context = &v;
	OK(fi_sendmsg(from->ep, &m, FI_COMPLETION));
	unsigned sent = until(from, &v), received = until(to, &in[7]);
	unsigned want = (by_default ? 2 : 0) + (flags & FI_COMPLETION ? 2 : 0);
	RULE("fi_endpoint(3): op_flags are for calls without flags", sent == want, "%u completions of 7 sends, op_flags %s, flags %s: not %u", sent, by_default ? "FI_COMPLETION" : "0",
	       flags ? "FI_COMPLETION" : "0", want);
	EXPECT(received == (by_default ? 7 : 0), "%u completions of 7 receives, op_flags %s", received, by_default ? "FI_COMPLETION" : "0");
	for (int i = 0; i < 3; i++)
		EXPECT(in[4 + i][0] == 'a' + i && in[4 + i][19] == 'a' + i, "inject sent what was in the buffer later");
}

static void scene(bool op_flags)
{
	struct opts o = OPTS_DEFAULT;
	struct fi_eq_attr eqa = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_info *h, *info;
	struct fid_fabric *fabric;
	struct fid_eq *eq;
	struct side c, p;
	struct srv s;
	struct cm_event ev;
	struct fi_cq_data_entry done;
	struct fi_cq_err_entry err;
	static char out[32], in[32];

	by_default = op_flags;
	o.hints = hints;
	srv_open(&s, &o);
	h = hints_new(&o);
	info = info_get(s.node, s.service, 0, h);
	fi_freeinfo(h);
	OK(fi_fabric(info->fabric_attr, &fabric, NULL));
	OK(fi_eq_open(fabric, &eqa, &eq, NULL));
	pump_add_eq(eq);
	side_open(&c, fabric, info, eq);
	OK(fi_connect(c.ep, info->dest_addr, NULL, 0));
	srv_take(&s, &ev, 5000);
	/* op_flags of the passive side are the request's own */
	ev.e.info->tx_attr->op_flags = ev.e.info->rx_attr->op_flags = op_flags ? FI_COMPLETION : 0;
	side_open(&p, s.fabric, ev.e.info, s.eq);
	fi_freeinfo(ev.e.info);
	OK(fi_accept(p.ep, NULL, 0));
	eq_need(s.eq, FI_CONNECTED, &ev, 5000);
	eq_need(eq, FI_CONNECTED, &ev, 5000);

	t_step("op_flags %d", op_flags);
	send_all(&c, &p, 0, out);
	send_all(&c, &p, FI_COMPLETION, out);
	t_step("a failure");
	OK(fi_recv(p.ep, in, sizeof(in), NULL, 0, in));
	OK(fi_cancel(&p.ep->fid, in));
	REQUIRE(cq_next(p.cq, &done, &err, 5000) == -FI_EAVAIL && err.err == FI_ECANCELED, "a failure is not reported");
	side_close(&c);
	side_close(&p);
	pump_drop_eq(eq);
	OK(fi_close(&eq->fid));
	OK(fi_close(&fabric->fid));
	fi_freeinfo(info);
	srv_close(&s);
}

int main(void)
{
	t_begin("selective", 30);
	scene(false);
	scene(true);
	t_end("completions are those that were asked for");
}
