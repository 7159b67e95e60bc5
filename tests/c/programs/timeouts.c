// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Timeouts of the blocking calls: the whole time and not much more (D16), 0
 * polls, -FI_EAGAIN of queues, -FI_ETIMEDOUT of counters and wait sets, also
 * when they were opened with zeroed attributes.  Units by FI_TIME_US and FI_TIME_MS (D17, the deck's).
 */
#include "../common.h"

#define FI_TIME_US (1ULL << 37)
#define FI_TIME_MS (1ULL << 38)
#define LATE 20.0
#define TRIES 20

static struct pair p;

/* Never early; late only if the machine was busy each time. */
#define TIMED(want, call, expected) do { \
	double took_ = 0; \
	for (int try_ = 0; try_ < TRIES; try_++) { \
		double begun_ = now_ms(); \
		ssize_t rc_ = (call); \
		took_ = now_ms() - begun_; \
		EXPECT(rc_ == (expected), #call ": %zd (%s)", rc_, t_err(rc_)); \
		EXPECT(took_ >= (want) - 1, #call ": back after %.1f ms", took_); \
		if (took_ <= (want) + LATE) \
			break; \
	} \
	EXPECT(took_ <= (want) + LATE, #call ": late %d times, at last back after %.1f ms", TRIES, took_); \
	} while (0)

static void queues(int ms)
{
	struct cm_event ev;
	struct fi_cq_data_entry c;

	TIMED(ms, fi_eq_sread(p.s.eq, &ev.event, &ev.e, sizeof(ev.e), ms, 0), -FI_EAGAIN);
	TIMED(ms, fi_cq_sread(p.c.cq, &c, 1, NULL, ms), -FI_EAGAIN);
	TIMED(ms, fi_cq_sreadfrom(p.c.cq, &c, 1, NULL, NULL, ms), -FI_EAGAIN);
}

static void counter(int ms)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC };
	struct fid_cntr *cntr;

	OK(fi_cntr_open(p.c.domain, &attr, &cntr, NULL));
	TIMED(ms, fi_cntr_wait(cntr, 1, ms), -FI_ETIMEDOUT);
	OK(fi_cntr_wait(cntr, 0, ms));
	OK(fi_close(&cntr->fid));
}

static void wait_set(int ms)
{
	struct fi_wait_attr attr = { .wait_obj = FI_WAIT_FD };
	struct fid_wait *wait;

	OK(fi_wait_open(p.c.fabric, &attr, &wait));
	TIMED(ms, fi_wait(wait, ms), -FI_ETIMEDOUT);
	OK(fi_close(&wait->fid));
}

static void zeroed(void *arg)
{
	struct fi_cq_attr cqa = { .format = FI_CQ_FORMAT_DATA };
	struct fi_cntr_attr cna = { .events = FI_CNTR_EVENTS_COMP };
	struct fi_cq_data_entry c;
	struct fid_cq *cq;
	struct fid_cntr *cntr;
	struct opts o = OPTS_DEFAULT;
	ssize_t rc;

	pair_open(&p, &o);
	t_step("fi_cq_sread with zeroed attributes");
	OK(fi_cq_open(p.c.domain, &cqa, &cq, NULL));
	rc = fi_cq_sread(cq, &c, 1, NULL, 10);
	EXPECT(rc == -FI_EAGAIN, "fi_cq_sread: %zd", rc);
	OK(fi_close(&cq->fid));
	t_step("fi_cntr_wait with zeroed attributes");
	OK(fi_cntr_open(p.c.domain, &cna, &cntr, NULL));
	rc = fi_cntr_wait(cntr, 1, 10);
	EXPECT(rc == -FI_ETIMEDOUT, "fi_cntr_wait: %zd", rc);
	OK(fi_close(&cntr->fid));
	pair_close(&p);
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
	pair_open(&p, &o);
	static const int ms[] = { 0, 1, 20, 300 };
	for (size_t i = 0; i < T_ARRAY(ms); i++) {
		t_step("%d ms", ms[i]);
		queues(ms[i]);
		counter(ms[i]);
		wait_set(ms[i]);
	}
	t_step("an event queue with zeroed attributes");
	OK(fi_eq_open(p.c.fabric, &eqa, &eq, NULL));
	rc = fi_eq_sread(eq, &ev.event, &ev.e, sizeof(ev.e), 10, 0);
	RULE("1.17's tcp: zeroed attributes can be waited on", rc == -FI_EAGAIN, "fi_eq_sread: %zd", rc);
	OK(fi_close(&eq->fid));

	t_step("units");
	TIMED(50, fi_eq_sread(p.s.eq, &ev.event, &ev.e, sizeof(ev.e), 50, FI_TIME_MS), -FI_EAGAIN);
	t = now_ms();
	for (int i = 0; i < 10; i++)
		fi_eq_sread(p.s.eq, &ev.event, &ev.e, sizeof(ev.e), 400, FI_TIME_US);
	t = now_ms() - t;
	RULE("the deck, slide 7: FI_TIME_US", t >= 3.9 && t < 2000, "ten times 400 us take %.1f ms", t);
	rc = fi_eq_sread(p.s.eq, &ev.event, &ev.e, sizeof(ev.e), 1, FI_TIME_US | FI_TIME_MS);
	RULE("D17: one unit", rc == -FI_EINVAL, "both units: %zd", rc);
	pair_close(&p);
	t_isolated_rule("1.17's tcp: zeroed attributes can be waited on", 10, zeroed, NULL);
	t_end("blocking calls take the time that they are given");
}
