// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Timeouts of the blocking calls: the whole time and not much more (D16), 0
 * polls, -FI_EAGAIN of queues, -FI_ETIMEDOUT of counters and wait sets; without
 * a wait object -FI_ENOSYS.  Units by FI_TIME_US and FI_TIME_MS (D17, the deck's).
 */
#include "../common.h"

#define FI_TIME_US (1ULL << 37)
#define FI_TIME_MS (1ULL << 38)
#define LATE 60.0

static struct pair p;

static void check(const char *what, double begun, double want, ssize_t rc, ssize_t expected)
{
	double took = now_ms() - begun;

	EXPECT(rc == expected, "%s: %zd (%s)", what, rc, t_err(rc));
	EXPECT(took >= want - 1, "%s: back after %.1f ms of %.0f", what, took, want);
	EXPECT(took <= want + LATE + 2 * lag_ms(), "%s: back after %.1f ms of %.0f", what, took, want);
}

static void queues(int ms)
{
	struct cm_event ev;
	struct fi_cq_data_entry c;
	double t;

	lag_reset();
	t = now_ms();
	check("fi_eq_sread", t, ms, fi_eq_sread(p.s.eq, &ev.event, &ev.e, sizeof(ev.e), ms, 0), -FI_EAGAIN);
	t = now_ms();
	check("fi_cq_sread", t, ms, fi_cq_sread(p.c.cq, &c, 1, NULL, ms), -FI_EAGAIN);
	t = now_ms();
	check("fi_cq_sreadfrom", t, ms, fi_cq_sreadfrom(p.c.cq, &c, 1, NULL, NULL, ms), -FI_EAGAIN);
}

static void counter(int ms)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC };
	struct fid_cntr *cntr;
	double t;

	lag_reset();
	OK(fi_cntr_open(p.c.domain, &attr, &cntr, NULL));
	t = now_ms();
	check("fi_cntr_wait", t, ms, fi_cntr_wait(cntr, 1, ms), -FI_ETIMEDOUT);
	OK(fi_cntr_wait(cntr, 0, ms));
	OK(fi_close(&cntr->fid));
}

static void wait_set(int ms)
{
	struct fi_wait_attr attr = { .wait_obj = FI_WAIT_FD };
	struct fid_wait *wait;
	double t;

	lag_reset();
	OK(fi_wait_open(p.c.fabric, &attr, &wait));
	t = now_ms();
	check("fi_wait", t, ms, fi_wait(wait, ms), -FI_ETIMEDOUT);
	OK(fi_close(&wait->fid));
}

static void no_wait_object(void *arg)
{
	struct fi_cq_attr cqa = { .format = FI_CQ_FORMAT_DATA };
	struct fi_cntr_attr cna = { .events = FI_CNTR_EVENTS_COMP };
	struct fi_cq_data_entry c;
	struct fid_cq *cq;
	struct fid_cntr *cntr;
	ssize_t rc;

	t_step("fi_cq_sread without a wait object");
	OK(fi_cq_open(p.c.domain, &cqa, &cq, NULL));
	rc = fi_cq_sread(cq, &c, 1, NULL, 10);
	EXPECT(rc == -FI_ENOSYS, "fi_cq_sread: %zd", rc);
	OK(fi_close(&cq->fid));
	t_step("fi_cntr_wait without a wait object");
	OK(fi_cntr_open(p.c.domain, &cna, &cntr, NULL));
	rc = fi_cntr_wait(cntr, 1, 10);
	EXPECT(rc == -FI_ENOSYS, "fi_cntr_wait: %zd", rc);
	OK(fi_close(&cntr->fid));
}

int main(void)
{
	struct opts o = OPTS_DEFAULT;
	struct fi_eq_attr eqa = { .wait_obj = FI_WAIT_NONE };
	struct cm_event ev;
	struct fid_eq *eq;
	ssize_t rc;
	double t;

	t_begin("timeouts", 40);
	lag_start();
	pair_open(&p, &o);
	static const int ms[] = { 0, 1, 20, 300 };
	for (size_t i = 0; i < T_ARRAY(ms); i++) {
		t_step("%d ms", ms[i]);
		queues(ms[i]);
		counter(ms[i]);
		wait_set(ms[i]);
	}
	t_step("an event queue without a wait object");
	OK(fi_eq_open(p.c.fabric, &eqa, &eq, NULL));
	rc = fi_eq_sread(eq, &ev.event, &ev.e, sizeof(ev.e), 10, 0);
	RULE("fi_eq(3): no blocking reads without a wait object", rc == -FI_ENOSYS, "fi_eq_sread: %zd", rc);
	OK(fi_close(&eq->fid));

	t_step("units");
	lag_reset();
	t = now_ms();
	check("FI_TIME_MS", t, 50, fi_eq_sread(p.s.eq, &ev.event, &ev.e, sizeof(ev.e), 50, FI_TIME_MS), -FI_EAGAIN);
	t = now_ms();
	rc = fi_eq_sread(p.s.eq, &ev.event, &ev.e, sizeof(ev.e), 400, FI_TIME_US);
	t = now_ms() - t;
	RULE("the deck, slide 7: FI_TIME_US", rc == -FI_EAGAIN && t >= 0.3 && t < 100 + 2 * lag_ms(), "400 us take %.1f ms", t);
	rc = fi_eq_sread(p.s.eq, &ev.event, &ev.e, sizeof(ev.e), 1, FI_TIME_US | FI_TIME_MS);
	RULE("D17: one unit", rc == -FI_EINVAL, "both units: %zd", rc);
	t_isolated_rule("fi_cq(3): no blocking reads without a wait object", 10, no_wait_object, NULL);
	pair_close(&p);
	t_end("blocking calls take the time that they are given");
}
