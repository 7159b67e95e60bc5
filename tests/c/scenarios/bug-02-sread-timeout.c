// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-02 Blocking reads honour the timeout exactly.
 *
 * fi_eq_sread and fi_cq_sread on an empty queue return -FI_EAGAIN after the
 * whole timeout, never earlier, at most 50 ms later, also while other traffic
 * wakes the same wait object: raw TCP clients that come and go at the
 * listener, and half a message that arrives at the endpoint.
 */
#include "../common.h"

#define ROUNDS 20
#define SLACK  50.0

static void timed(const char *what, bool eq, void *q, int timeout, int rounds)
{
	double worst = 0;

	lag_reset();
	for (int i = 0; i < rounds; i++) {
		struct cm_event ev;
		struct fi_cq_data_entry c;
		double t = now_ms();
		ssize_t rc = eq ? fi_eq_sread(q, &ev.event, &ev.e, sizeof(ev.e), timeout, 0)
				: fi_cq_sread(q, &c, 1, NULL, timeout);
		t = now_ms() - t;
		if (rc != -FI_EAGAIN) {
			t_bad("%s timeout %d: returned %zd (%s), not -FI_EAGAIN", what, timeout, rc,
			      rc < 0 ? t_err(rc) : "no error");
			if (rc == -FI_EAVAIL)
				return;
		}
		/* 1 ms for timers that count whole milliseconds */
		if (t + 1.0 < timeout)
			t_bad("%s timeout %d: returned early", what, timeout);
		if (t > worst)
			worst = t;
	}
	if (worst > timeout + SLACK + 2 * lag_ms())
		t_bad("%s timeout %d: one call took more than 50 ms too long", what, timeout);
	t_note("%s timeout %d: longest call %.1f ms (host lag %.1f ms)", what, timeout, worst, lag_ms());
}

struct noise { struct srv *s; _Atomic bool stop; unsigned n; };

static void *noise_main(void *arg)
{
	struct noise *n = arg;
	while (!n->stop) {
		int fd = raw_connect(n->s);
		if (fd >= 0) {
			n->n++;
			close(fd);
		}
		sleep_ms(3);
	}
	return NULL;
}

static void *trickle_main(void *arg)
{
	int fd = *(int *)arg;
	unsigned char m[16 + 60];
	raw_msg(m, 4096);                  /* announces 4096, sends fewer, slowly */
	raw_write(fd, m, 16);
	for (int i = 0; i < 60; i++) {
		sleep_ms(20);
		if (raw_write(fd, m + 16, 1))
			break;
	}
	return NULL;
}

int main(void)
{
	static const int timeout[] = { 0, 1, 100, 1000 };
	struct opts o = OPTS_DEFAULT;
	struct pair p;
	struct srv s;
	struct ep e;
	struct cm_event ev;
	pthread_t th;

	t_begin("BUG-02", 58);
	lag_start();
	pair_open(&p, &o);
	for (unsigned i = 0; i < T_ARRAY(timeout); i++) {
		int rounds = timeout[i] >= 1000 ? 5 : ROUNDS;   /* keeps the run short */
		t_step("quiet, timeout %d", timeout[i]);
		timed("EQ quiet", true, p.s.eq, timeout[i], rounds);
		timed("CQ quiet", false, p.c.cq, timeout[i], rounds);
	}
	pair_close(&p);

	t_step("EQ with raw clients that come and go");
	srv_open(&s, &o);
	struct noise n = { .s = &s };
	pthread_create(&th, NULL, noise_main, &n);
	for (unsigned i = 0; i < T_ARRAY(timeout); i++)
		timed("EQ noisy", true, s.eq, timeout[i], timeout[i] >= 1000 ? 3 : ROUNDS);
	n.stop = true;
	pthread_join(th, NULL);
	REQUIRE(n.n > 50, "the noise maker did not work");

	t_step("CQ with half a message");
	unsigned char resp[RAW_CM_LEN], *buf = calloc(1, 4096);
	int fd = raw_connect(&s);
	REQUIRE(fd >= 0, "raw connect");
	raw_request(fd, NULL, 0);
	srv_take(&s, &ev, 5000);
	srv_accept(&s, &ev, &e, &o, NULL, 0);
	eq_need(s.eq, FI_CONNECTED, &ev, 5000);
	REQUIRE(!raw_read(fd, resp, sizeof(resp), 5000), "raw peer got no response");
	OK(post_recv(&e, buf, 4096, NULL));
	pthread_create(&th, NULL, trickle_main, &fd);
	timed("CQ noisy", false, e.cq, 100, 5);
	timed("CQ noisy", false, e.cq, 1000, 1);
	pthread_join(th, NULL);
	close(fd);
	ep_close(&e);
	srv_close(&s);
	free(buf);
	t_end("-FI_EAGAIN after the whole timeout, quiet and noisy");
}
