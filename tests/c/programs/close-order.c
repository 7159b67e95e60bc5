// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * fi_close answers -FI_EBUSY while something needs the object, and changes
 * nothing then; passive endpoints, endpoints and memory regions always close.
 * Pending operations complete once with FI_ECANCELED (D2); a listener closes
 * with requests that nobody read, and with one that was read (D13).
 */
#include "../common.h"

static const struct opts o = { .caps = FI_MSG, .cq_wait = FI_WAIT_UNSPEC, .eq_wait = FI_WAIT_UNSPEC };

static void busy(const char *what, struct fid *fid)
{
	int rc = fi_close(fid);

	REQUIRE(rc == -FI_EBUSY, "fi_close of %s: %d", what, rc);
}

static void fabric_parent(void *arg)
{
	struct fi_wait_attr wa = { .wait_obj = FI_WAIT_UNSPEC };
	struct fid_wait *wait;
	struct srv s;

	srv_open(&s, &o);
	busy("a fabric with a passive endpoint and an event queue", &s.fabric->fid);
	OK(fi_wait_open(s.fabric, &wa, &wait));
	OK(fi_close(&s.pep->fid));
	busy("a fabric with an event queue", &s.fabric->fid);
	pump_drop_eq(s.eq);
	OK(fi_close(&s.eq->fid));
	busy("a fabric with a wait set", &s.fabric->fid);
	OK(fi_close(&wait->fid));
	OK(fi_close(&s.fabric->fid));
	fi_freeinfo(s.info);
}

static void domain_parent(void *arg)
{
	struct fi_cntr_attr cna = { .events = FI_CNTR_EVENTS_COMP };
	struct pair p;
	struct fid_domain *d;
	struct fid_cq *cq;
	struct fid_cntr *cntr;
	struct fid_mr *mr;
	struct fid_ep *ep;
	struct fi_cq_attr cqa = { .format = FI_CQ_FORMAT_DATA };
	char memory[64];

	pair_open(&p, &o);
	OK(fi_domain(p.c.fabric, p.c.info, &d, NULL));
	OK(fi_cq_open(d, &cqa, &cq, NULL));
	busy("a domain with a completion queue", &d->fid);
	OK(fi_close(&cq->fid));
	OK(fi_cntr_open(d, &cna, &cntr, NULL));
	busy("a domain with a counter", &d->fid);
	OK(fi_close(&cntr->fid));
	OK(fi_mr_reg(d, memory, sizeof(memory), FI_REMOTE_READ, 0, 1, 0, &mr, NULL));
	busy("a domain with a memory region", &d->fid);
	OK(fi_close(&mr->fid));
	OK(fi_endpoint(d, p.c.info, &ep, NULL));
	busy("a domain with an endpoint", &d->fid);
	OK(fi_close(&ep->fid));
	busy("a fabric with a domain", &p.c.fabric->fid);
	OK(fi_close(&d->fid));
	pair_close(&p);
}

/* Bound queues; stock takes parts of them down before it refuses. */
static void bound(void *arg)
{
	struct pair p;

	pair_open(&p, &o);
	busy("a completion queue of an endpoint", &p.c.cq->fid);
	busy("an event queue of an endpoint", &p.c.eq->fid);
	busy("an event queue of a passive endpoint", &p.s.eq->fid);
	t_step("traffic after refused closes");
	xfer(&p.c, &p.p, 1000, 1);
	xfer(&p.p, &p.c, 1000, 2);
	pair_close(&p);
}

static void pending(void *arg)
{
	struct pair p;
	struct fi_cq_data_entry done;
	struct fi_cq_err_entry err;
	char in[4][16];

	pair_open(&p, &o);
	for (int i = 0; i < 4; i++)
		OK(fi_recv(p.c.ep, in[i], 16, NULL, 0, in[i]));
	OK(fi_close(&p.c.ep->fid));
	p.c.ep = NULL;
	for (int i = 0; i < 4; i++) {
		ssize_t n = fi_cq_read(p.c.cq, &done, 1);
		REQUIRE(n == -FI_EAVAIL, "pending receive %d: %zd when fi_close has returned", i, n);
		memset(&err, 0, sizeof(err));
		REQUIRE(fi_cq_readerr(p.c.cq, &err, 0) == 1, "no error entry");
		EXPECT(err.err == FI_ECANCELED && err.op_context == in[i], "pending receive %d: error %d", i, err.err);
	}
	EXPECT(fi_cq_read(p.c.cq, &done, 1) == -FI_EAGAIN, "a fifth completion of four receives");
	pair_close(&p);
}

/* fi_close of an endpoint takes its events back. */
static void events(void *arg)
{
	struct cm_event ev;
	struct pair p;

	pair_open(&p, &o);
	OK(fi_shutdown(p.c.ep, 0));
	pump_ms(50);
	OK(fi_close(&p.p.ep->fid));
	p.p.ep = NULL;
	EXPECT(fi_eq_read(p.s.eq, &ev.event, &ev.e, sizeof(ev.e), 0) == -FI_EAGAIN, "%s of a closed endpoint", ev_name(ev.event));
	pair_close(&p);
}

static void listener_unread(void *arg)
{
	struct srv s;
	struct ep c;
	struct cm_event ev;

	srv_open(&s, &o);
	cli_make(&c, &s, &o);
	OK(cli_connect(&c, NULL, 0));
	for (double end = now_ms() + 5000; fi_eq_read(s.eq, &ev.event, &ev.e, sizeof(ev.e), FI_PEEK) == -FI_EAGAIN && now_ms() < end;)
		pump();
	OK(fi_close(&s.pep->fid));
	s.pep = NULL;
	ssize_t n = fi_eq_read(s.eq, &ev.event, &ev.e, sizeof(ev.e), FI_PEEK);
	EXPECT(n == -FI_EAGAIN, "a closed listener's %s is still there", ev_name(ev.event));
	n = eq_next(c.eq, &ev, 5000);
	EXPECT(n == -FI_EAVAIL, "the client is not told: %zd", n);
	ep_close(&c);
	srv_close(&s);
}

static void listener_read(void *arg)
{
	struct srv s;
	struct ep c, p;
	struct cm_event ev;

	srv_open(&s, &o);
	cli_make(&c, &s, &o);
	OK(cli_connect(&c, NULL, 0));
	srv_take(&s, &ev, 5000);
	OK(fi_close(&s.pep->fid));
	s.pep = NULL;
	srv_accept(&s, &ev, &p, &o, NULL, 0);
	eq_need(s.eq, FI_CONNECTED, &ev, 5000);
	eq_need(c.eq, FI_CONNECTED, &ev, 5000);
	xfer(&c, &p, 100, 1);
	ep_close(&c);
	ep_close(&p);
	srv_close(&s);
}

int main(void)
{
	t_begin("close-order", 60);
	t_isolated("fabric", 10, fabric_parent, NULL);
	t_isolated("domain", 10, domain_parent, NULL);
	t_isolated_rule("fi_eq(3), fi_cq(3): a refused close changes nothing", 10, bound, NULL);
	t_isolated("pending operations", 10, pending, NULL);
	t_isolated("events", 10, events, NULL);
	t_isolated_rule("D13: a listener takes its unread requests back", 10, listener_unread, NULL);
	t_isolated("request that was read", 10, listener_read, NULL);
	t_end("close order is checked, and harmless");
}
