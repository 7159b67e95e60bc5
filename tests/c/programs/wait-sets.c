// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Wait sets and poll sets, fi_poll(3): one fi_wait for an event queue and two
 * completion queues; fi_poll gives the contexts of what has something to read;
 * a set with members is not closed.
 */
#include "../common.h"
#include <rdma/fi_ext.h>
#include <rdma/providers/fi_log.h>

static struct fid_wait *set;
static struct fid_eq *eq;
static struct fid_cq *cq;

/* fi_wait until the call gives something, with progress on the other side. */
#define UNTIL(call, result) do { \
	for (double end_ = now_ms() + 10000; ((result) = (call)) == -FI_EAGAIN; pump()) { \
		int rc_ = fi_wait(set, 5); \
		REQUIRE(!rc_ || rc_ == -FI_ETIMEDOUT || rc_ == -FI_EAGAIN, "fi_wait: %d (%s)", rc_, t_err(rc_)); \
		REQUIRE(now_ms() < end_, #call " gives nothing"); \
	} } while (0)

static void event(uint32_t want, struct cm_event *ev)
{
	ssize_t n;

	UNTIL(fi_eq_read(eq, &ev->event, &ev->e, sizeof(ev->e) + sizeof(ev->data), 0), n);
	REQUIRE(n > 0 && ev->event == want, "%s instead of %s (%zd)", ev_name(ev->event), ev_name(want), n);
}

static void members(struct srv *s)
{
	struct opts o = OPTS_DEFAULT;
	struct fi_wait_attr wa = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_eq_attr eqa = { .wait_obj = FI_WAIT_SET };

	srv_open(s, &o);
	OK(fi_wait_open(s->fabric, &wa, &eqa.wait_set));
	set = eqa.wait_set;
	OK(fi_eq_open(s->fabric, &eqa, &eq, NULL));
}

static void no_members(struct srv *s)
{
	OK(fi_close(&eq->fid));
	OK(fi_close(&set->fid));
	srv_close(s);
}

static void blocking_read(void *arg)
{
	struct srv s;
	struct cm_event ev;

	members(&s);
	double t = now_ms();
	ssize_t n = fi_eq_sread(eq, &ev.event, &ev.e, sizeof(ev.e), 30, 0);
	EXPECT(n == -FI_EAGAIN, "fi_eq_sread of a queue in a set: %zd", n);
	EXPECT(now_ms() - t >= 29, "fi_eq_sread of a queue in a set takes %.1f ms of 30", now_ms() - t);
	no_members(&s);
}

static void close_early(void *arg)
{
	struct srv s;

	members(&s);
	int rc = fi_close(&set->fid);
	EXPECT(rc == -FI_EBUSY, "fi_close: %d", rc);
	if (rc)
		no_members(&s);
}

static void poll_set(struct ep *a, struct ep *b)
{
	struct fi_poll_attr attr = { .flags = 0 };
	struct fi_cq_attr cqa = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE };
	struct fid_poll *polls;
	struct fid_cq *idle;
	void *context[4];
	char in[16], out[16] = "poll";
	int rc, n;

	t_step("poll set");
	OK(fi_cq_open(a->domain, &cqa, &idle, &idle));
	OK(fi_poll_open(a->domain, &attr, &polls));
	OK(fi_poll_add(polls, &a->cq->fid, 0));
	OK(fi_poll_add(polls, &idle->fid, 0));
	rc = fi_poll(polls, context, 4);
	EXPECT(rc == 0, "an idle poll set: %d", rc);
	OK(post_recv(a, in, sizeof(in), in));
	OK(post_send(b, out, sizeof(out), out));
	for (double end = now_ms() + 5000; !(n = fi_poll(polls, context, 4)) && now_ms() < end; pump()) { }
	EXPECT(n == 1 && context[0] == a->cq->fid.context, "fi_poll: %d", n);
	OK(fi_poll_del(polls, &a->cq->fid, 0));
	OK(fi_poll_del(polls, &idle->fid, 0));
	OK(fi_close(&polls->fid));
	OK(fi_close(&idle->fid));
}

static struct fid_poll *polled;
static struct fid_cq *member;
static unsigned from_log;

static int log_enabled(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
		       uint64_t flags)
{
	return 1;
}

static int log_ready(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
		     uint64_t flags, uint64_t *showtime)
{
	return 0;
}

/* The application's own log uses the set that is being looked at. */
static void log_line(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
		     const char *func, int line, const char *msg)
{
	if (!polled)
		return;
	struct fid_poll *set_ = polled;
	polled = NULL;
	OK(fi_poll_del(set_, &member->fid, 0));
	OK(fi_poll_add(set_, &member->fid, 0));
	from_log++;
}

/* An end that fi_poll finds out is told to the log; stock's tells nobody. */
static void poll_from_log(void *arg)
{
	static struct fi_ops_log ops = { .enabled = log_enabled, .ready = log_ready, .log = log_line };
	static struct fid_logging log = { .ops = &ops };
	struct fi_poll_attr attr = { 0 };
	struct fid_poll *polls;
	struct pair p;
	void *found[4];

	OK(fi_import_log(FI_VERSION(1, 13), 0, &log));
	pair_open(&p, &OPTS_DEFAULT);
	OK(fi_poll_open(p.p.domain, &attr, &polls));
	OK(fi_poll_add(polls, &p.p.cq->fid, 0));
	OK(fi_shutdown(p.c.ep, 0));
	member = p.p.cq;
	polled = polls;
	t_step("fi_poll, whose log uses the set");
	for (double end = now_ms() + (t_stock() ? 200 : 5000); !from_log && now_ms() < end; sleep_ms(1)) {
		(void)fi_cq_read(p.c.cq, NULL, 0);
		REQUIRE(fi_poll(polls, found, 4) >= 0, "fi_poll");
	}
	polled = NULL;
	EXPECT(from_log == 1 || t_stock(), "the log was called %u times", from_log);
	OK(fi_poll_del(polls, &p.p.cq->fid, 0));
	OK(fi_close(&polls->fid));
	OK(fi_close(&log.fid));
	pair_close(&p);
}

int main(void)
{
	struct opts o = OPTS_DEFAULT;
	struct fi_info *h, *info;
	struct fi_wait_attr wa = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_eq_attr eqa;
	struct fi_cq_attr cqa;
	struct fi_cq_data_entry done;
	struct fid_fabric *fabric;
	struct fid_pep *pep;
	struct fid_domain *domain;
	struct fid_ep *ep;
	struct cm_event ev;
	struct srv s = { 0 };
	struct ep c;
	char in[64], out[64] = "set";
	ssize_t n;
	int rc;

	t_begin("wait-sets", 40);
	h = hints_new(&o);
	info = info_get("127.0.0.1", NULL, FI_SOURCE, h);
	fi_freeinfo(h);
	OK(fi_fabric(info->fabric_attr, &fabric, NULL));
	OK(fi_wait_open(fabric, &wa, &set));
	eqa = (struct fi_eq_attr){ .wait_obj = FI_WAIT_SET };
	rc = fi_eq_open(fabric, &eqa, &eq, NULL);
	EXPECT(rc == -FI_EINVAL, "FI_WAIT_SET without a set: %d", rc);
	eqa.wait_set = set;
	OK(fi_eq_open(fabric, &eqa, &eq, NULL));
	rc = fi_wait(set, 0);
	EXPECT(rc == -FI_ETIMEDOUT || rc == -FI_EAGAIN, "fi_wait on a set that has nothing: %d", rc);

	t_step("connection");
	OK(fi_passive_ep(fabric, info, &pep, NULL));
	OK(fi_pep_bind(pep, &eq->fid, 0));
	OK(fi_listen(pep));
	s.addrlen = sizeof(s.addr);
	OK(fi_getname(&pep->fid, &s.addr, &s.addrlen));
	snprintf(s.node, sizeof(s.node), "127.0.0.1");
	snprintf(s.service, sizeof(s.service), "%u", ntohs(((struct sockaddr_in *)&s.addr)->sin_port));
	cli_make(&c, &s, &o);
	OK(cli_connect(&c, NULL, 0));
	event(FI_CONNREQ, &ev);
	OK(fi_domain(fabric, ev.e.info, &domain, NULL));
	cqa = (struct fi_cq_attr){ .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_SET, .wait_set = set };
	OK(fi_cq_open(domain, &cqa, &cq, NULL));
	OK(fi_endpoint(domain, ev.e.info, &ep, NULL));
	OK(fi_ep_bind(ep, &eq->fid, 0));
	OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_enable(ep));
	OK(fi_recv(ep, in, sizeof(in), NULL, 0, in));
	fi_freeinfo(ev.e.info);
	OK(fi_accept(ep, NULL, 0));
	event(FI_CONNECTED, &ev);
	eq_need(c.eq, FI_CONNECTED, &ev, 5000);

	t_step("messages");
	for (int i = 0; i < 100; i++) {
		OK(post_send(&c, out, sizeof(out), out));
		UNTIL(fi_cq_read(cq, &done, 1), n);
		REQUIRE(n == 1 && done.op_context == in, "receive: %zd", n);
		OK(fi_recv(ep, in, sizeof(in), NULL, 0, in));
		struct fi_cq_err_entry err;
		REQUIRE(cq_next(c.cq, &done, &err, 5000) == 1, "the send did not complete");
	}
	t_step("what is left");
	OK(fi_shutdown(c.ep, 0));
	event(FI_SHUTDOWN, &ev);
	ep_close(&c);
	OK(fi_close(&ep->fid));
	OK(fi_close(&cq->fid));
	OK(fi_close(&domain->fid));
	OK(fi_close(&pep->fid));
	OK(fi_close(&eq->fid));
	OK(fi_close(&set->fid));
	OK(fi_close(&fabric->fid));
	fi_freeinfo(info);

	struct pair p;
	pair_open(&p, &o);
	poll_set(&p.c, &p.p);
	pair_close(&p);
	t_isolated_rule("fi_poll(3): a wait set is closed after its members", 10, close_early, NULL);
	t_isolated_rule("D17: blocking reads work on queues of a set, too", 10, blocking_read, NULL);
	t_isolated("fi_poll calls nobody under a lock", 10, poll_from_log, NULL);
	t_end("one wait for several queues");
}
