// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-26 Idle costs nothing; wake-ups are never lost.
 *
 * (a) blocked readers of an idle connection use no CPU; (b) 10,000 ping-pongs
 * driven only by fi_trywait + poll(fd), then RMA of 1 MiB the same way;
 * (c) as (a) after the peer's fi_shutdown; (d) fi_cq_signal wakes a reader;
 * (e) a burst of completions behind one wake-up is read completely.
 */
#include "../common.h"

static void *block(void *arg)
{
	struct fid_cq *cq = arg;
	struct fi_cq_data_entry c;
	double end = now_ms() + 5000;

	/* one call of 5 s; the loop covers an early return */
	while (now_ms() < end - 2) {
		ssize_t n = fi_cq_sread(cq, &c, 1, NULL, (int)(end - now_ms()));
		if (n == -FI_EAVAIL) {
			struct fi_cq_err_entry err = { 0 };
			fi_cq_readerr(cq, &err, 0);
		} else if (n != -FI_EAGAIN) {
			t_bad("idle fi_cq_sread returned %zd", n);
			return NULL;
		}
	}
	return NULL;
}

static void idle(struct pair *p, const char *what)
{
	pthread_t th[2];
	double cpu = cpu_ms();

	t_step("%s", what);
	pthread_create(&th[0], NULL, block, p->c.cq);
	pthread_create(&th[1], NULL, block, p->p.cq);
	pthread_join(th[0], NULL);
	pthread_join(th[1], NULL);
	cpu = cpu_ms() - cpu;
	t_note("%s: %.1f ms CPU in 5 s", what, cpu);
	EXPECT(cpu < 50, "%s: %.0f ms CPU in 5 s", what, cpu);
}

/* One side of an event driven program: trywait, poll, read. */
struct side {
	struct ep *e;
	int fd;
	unsigned sleeps, lost;
};

static bool try_wait(struct side *s, int ms)
{
	struct fid *f = &s->e->cq->fid;
	struct pollfd pf = { s->fd, POLLIN, 0 };

	int rc = fi_trywait(s->e->fabric, &f, 1);
	if (rc == -FI_EAGAIN)
		return true;
	REQUIRE(!rc, "fi_trywait: %d (%s)", rc, t_err(rc));
	s->sleeps++;
	return poll(&pf, 1, ms) > 0;
}

/* Read n completions. */
static void need(struct side *s, unsigned n)
{
	struct fi_cq_data_entry c[8];

	while (n) {
		ssize_t k = fi_cq_read(s->e->cq, c, n < 8 ? n : 8);
		if (k > 0) {
			n -= (unsigned)k;
			continue;
		}
		if (k == -FI_EAVAIL) {
			struct fi_cq_err_entry err = { 0 };
			fi_cq_readerr(s->e->cq, &err, 0);
			t_fail("error completion %d (%s)", err.err, fi_strerror(abs(err.err)));
		}
		REQUIRE(k == -FI_EAGAIN, "fi_cq_read: %zd (%s)", k, t_err(k));
		if (!try_wait(s, 3000)) {
			k = fi_cq_read(s->e->cq, c, 1);
			if (k != 1)
				t_fail("nothing arrived within 3 s");
			t_bad("a wake-up was lost: poll slept 3 s, then work was there");
			n--;
		}
	}
}

#define PINGS 10000
static struct side sd[2];

static void *ping(void *arg)
{
	struct side *s = arg;
	bool first = s == &sd[0];
	char in[64], out[64] = "ping";

	for (int i = 0; i < PINGS; i++) {
		OK(post_recv(s->e, in, sizeof(in), NULL));
		if (first) {
			OK(post_send(s->e, out, sizeof(out), NULL));
			need(s, 2);
		} else {
			need(s, 1);
			OK(post_send(s->e, out, sizeof(out), NULL));
			need(s, 1);
		}
	}
	return NULL;
}

static _Atomic bool stop;
static void *serve(void *arg)
{
	struct side *s = arg;
	struct fi_cq_data_entry c;

	while (!stop) {
		ssize_t n = fi_cq_read(s->e->cq, &c, 1);
		if (n == -FI_EAGAIN)
			try_wait(s, 50);      /* 50 ms only to notice `stop` */
	}
	return NULL;
}

static void rma(struct pair *p)
{
	size_t n = 1 << 20;
	unsigned char *local = malloc(n), *remote = malloc(n);
	struct fid_mr *mr;
	pthread_t th;

	t_step("(b) 1 MiB RMA, event driven");
	OK(fi_mr_reg(p->p.domain, remote, n, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 5, 0, &mr, NULL));
	uint64_t addr = p->p.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)remote : 0;
	pthread_create(&th, NULL, serve, &sd[1]);
	double t = now_ms(), worst = 0;
	for (uint64_t i = 0; i < 50; i++) {
		double t0 = now_ms();
		pattern_fill(local, n, i);
		ssize_t rc;
		while ((rc = fi_write(p->c.ep, local, n, NULL, 0, addr, fi_mr_key(mr), NULL)) == -FI_EAGAIN)
			try_wait(&sd[0], 100);
		OK(rc);
		need(&sd[0], 1);
		memset(local, 0, n);
		while ((rc = fi_read(p->c.ep, local, n, NULL, 0, addr, fi_mr_key(mr), NULL)) == -FI_EAGAIN)
			try_wait(&sd[0], 100);
		OK(rc);
		need(&sd[0], 1);
		EXPECT(pattern_check(local, n, i) < 0, "RMA: bytes differ");
		if (now_ms() - t0 > worst)
			worst = now_ms() - t0;
	}
	stop = true;
	pthread_join(th, NULL);
	t_note("(b) 50 x write+read of 1 MiB in %.0f ms, worst %.1f ms", now_ms() - t, worst);
	/* the target wakes by itself, not only by the 50 ms tick */
	EXPECT(now_ms() - t < 2500, "(b) RMA runs at the pace of the target's poll timeout: no wake-up for remote operations");
	OK_SOFT(fi_close(&mr->fid));
	free(local);
	free(remote);
}

static void *signaller(void *arg)
{
	sleep_ms(300);
	int rc = fi_cq_signal(arg);
	if (rc)
		t_bad("(d) fi_cq_signal: %d (%s)", rc, t_err(rc));
	return NULL;
}

int main(void)
{
	struct opts o = OPTS_DEFAULT;
	struct pair p;
	struct fi_cq_data_entry c;
	struct fi_info *h, *info;
	pthread_t th[2];
	bool have_rma;

	t_begin("BUG-26", 58);

	/* (a) */
	pair_open(&p, &o);
	for (uint64_t i = 0; i < 100; i++)
		xfer(i & 1 ? &p.c : &p.p, i & 1 ? &p.p : &p.c, 200, i);
	idle(&p, "(a) idle connection");

	/* (d) */
	t_step("(d) fi_cq_signal");
	pthread_create(&th[0], NULL, signaller, p.c.cq);
	double t = now_ms();
	ssize_t n = fi_cq_sread(p.c.cq, &c, 1, NULL, 5000);
	t = now_ms() - t;
	pthread_join(th[0], NULL);
	t_note("(d) fi_cq_sread returned %zd (%s) %.0f ms after the signal", n, n < 0 ? t_err(n) : "", t - 300);
	EXPECT(t < 400, "(d) fi_cq_sread came back %.0f ms after fi_cq_signal", t - 300);
	EXPECT(n == -FI_EAGAIN || n == -FI_ECANCELED || n == 0, "(d) fi_cq_sread after fi_cq_signal: %zd", n);

	/* (c) */
	OK(fi_shutdown(p.c.ep, 0));
	pump_ms(100);
	idle(&p, "(c) idle after the peer's shutdown");
	pair_close(&p);

	/* (b) */
	o.caps = FI_MSG | FI_RMA;
	h = hints_new(&o);
	have_rma = !fi_getinfo(T_API, "127.0.0.1", NULL, FI_SOURCE, h, &info);
	if (have_rma)
		fi_freeinfo(info);
	else
		o.caps = FI_MSG;
	fi_freeinfo(h);
	o.cq_wait = FI_WAIT_FD;
	pair_open(&p, &o);
	sd[0].e = &p.c;
	sd[1].e = &p.p;
	for (int i = 0; i < 2; i++) {
		int rc = fi_control(&sd[i].e->cq->fid, FI_GETWAIT, &sd[i].fd);
		REQUIRE(!rc, "fi_control(FI_GETWAIT): %d (%s)", rc, t_err(rc));
	}
	t_step("(b) trywait on an idle endpoint");
	for (int i = 0; i < 200; i++) {
		struct fid *f = &p.c.cq->fid;
		struct pollfd pf = { sd[0].fd, POLLIN, 0 };
		fi_cq_read(p.c.cq, &c, 1);
		if (fi_trywait(p.c.fabric, &f, 1) == 0 && i > 20)
			EXPECT(poll(&pf, 1, 0) == 0, "(b) fi_trywait says FI_SUCCESS on an idle endpoint but the fd is readable");
	}
	t_step("(b) 10000 ping-pongs, event driven");
	t = now_ms();
	pthread_create(&th[0], NULL, ping, &sd[0]);
	pthread_create(&th[1], NULL, ping, &sd[1]);
	pthread_join(th[0], NULL);
	pthread_join(th[1], NULL);
	t_note("(b) %d ping-pongs in %.0f ms, %u and %u sleeps", PINGS, now_ms() - t, sd[0].sleeps, sd[1].sleeps);

	/* (e) */
	t_step("(e) burst");
	char in[3][64], out[64] = "burst";
	for (int i = 0; i < 3; i++)
		OK(post_recv(&p.p, in[i], sizeof(in[i]), in[i]));
	for (int i = 0; i < 3; i++)
		OK(post_send(&p.c, out, sizeof(out), NULL));
	need(&sd[0], 3);
	t = now_ms();
	need(&sd[1], 3);
	EXPECT(now_ms() - t < 1000, "(e) a burst of 3 took %.0f ms", now_ms() - t);
	if (have_rma)
		rma(&p);
	pair_close(&p);
	t_end("no CPU when idle, no lost wake-up, signal and burst handled");
}
