// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-25 Threads.
 *
 * 8 threads each connect, exchange 1000 messages of 1 B to 1 MiB and close,
 * while one thread calls fi_getinfo and one fi_trywait on everything.  Then 4
 * threads send on one endpoint while 2 read its queue.  No message is lost or
 * corrupted, and each thread's order is kept.
 *
 * For race reports run a library built with -fsanitize=thread under a build
 * with SAN=thread; an uninstrumented library shows only what breaks.
 * Environment MESSAGES: messages per thread (default 1000).
 */
#include "../common.h"

#define THREADS 8

static int messages = 1000;
static _Atomic bool stop;

/* Queues that the trywait thread may touch. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ep *live[THREADS];

static void *infos(void *arg)
{
	struct opts o = OPTS_DEFAULT;
	unsigned n = 0;

	while (!stop) {
		struct fi_info *h = hints_new(&o), *info = NULL;
		int rc = fi_getinfo(T_API, "127.0.0.1", "7777", 0, h, &info);
		EXPECT(!rc && info, "fi_getinfo beside other threads: %d (%s)", rc, t_err(rc));
		fi_freeinfo(info);
		fi_freeinfo(h);
		n++;
		sleep_ms(1);
	}
	t_note("%u fi_getinfo calls", n);
	return NULL;
}

static void *trywaits(void *arg)
{
	unsigned n = 0;

	while (!stop) {
		pthread_mutex_lock(&lock);
		for (int i = 0; i < THREADS; i++)
			if (live[i]) {
				struct fid *f = &live[i]->cq->fid;
				int rc = fi_trywait(live[i]->fabric, &f, 1);
				EXPECT(rc == 0 || rc == -FI_EAGAIN, "fi_trywait: %d (%s)", rc, t_err(rc));
				n++;
			}
		pthread_mutex_unlock(&lock);
		sleep_ms(1);
	}
	t_note("%u fi_trywait calls", n);
	return NULL;
}

static uint64_t rnd(uint64_t *x)
{
	*x ^= *x << 13; *x ^= *x >> 7; *x ^= *x << 17;
	return *x;
}

static void *worker(void *arg)
{
	int id = (int)(intptr_t)arg;
	struct opts o = OPTS_DEFAULT;
	struct pair p;
	uint64_t x = 88172645463325252u + (uint64_t)id;

	o.cq_wait = FI_WAIT_FD;
	pair_open(&p, &o);
	pthread_mutex_lock(&lock);
	live[id] = &p.c;
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < messages; i++) {
		/* 1 B .. 1 MiB, small ones far more often */
		size_t n = 1 + rnd(&x) % ((size_t)1 << (rnd(&x) % 21));
		xfer(i & 1 ? &p.p : &p.c, i & 1 ? &p.c : &p.p, n, x);
	}
	pthread_mutex_lock(&lock);
	live[id] = NULL;
	pthread_mutex_unlock(&lock);
	pair_close(&p);
	return NULL;
}

/* ---- part 2: one endpoint, many threads ---- */
#define SENDERS 4
#define WINDOW  32
static struct pair q;
static _Atomic unsigned send_ok;

struct mail { uint32_t who, seq; unsigned char fill[504]; };

static void *sender(void *arg)
{
	uint32_t who = (uint32_t)(uintptr_t)arg;
	static struct mail m[SENDERS][4096];

	for (uint32_t i = 0; i < (uint32_t)messages && i < 4096; i++) {
		m[who][i].who = who;
		m[who][i].seq = i;
		memset(m[who][i].fill, (int)(who * 31 + i), sizeof(m[who][i].fill));
		ssize_t rc;
		while ((rc = fi_send(q.c.ep, &m[who][i], sizeof(struct mail), NULL, 0, &m[who][i])) == -FI_EAGAIN)
			sched_yield();
		if (rc)
			t_fail("fi_send from a thread: %zd (%s)", rc, t_err(rc));
	}
	return NULL;
}

static void *reader(void *arg)
{
	struct fi_cq_data_entry c[4];

	while (!stop) {
		ssize_t n = fi_cq_read(q.c.cq, c, 4);
		if (n > 0)
			send_ok += (unsigned)n;
		else if (n == -FI_EAGAIN)
			sched_yield();
		else
			t_fail("fi_cq_read beside other threads: %zd (%s)", n, t_err(n));
	}
	return NULL;
}

int main(void)
{
	const char *r = getenv("MESSAGES");
	pthread_t th[THREADS], ti, tw;

	t_begin("BUG-25", 58);
	if (r)
		messages = atoi(r);
	t_step("8 threads, own objects");
	pthread_create(&ti, NULL, infos, NULL);
	pthread_create(&tw, NULL, trywaits, NULL);
	for (intptr_t i = 0; i < THREADS; i++)
		pthread_create(&th[i], NULL, worker, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(th[i], NULL);
	stop = true;
	pthread_join(ti, NULL);
	pthread_join(tw, NULL);

	t_step("4 senders, 2 readers, one endpoint");
	struct opts o = OPTS_DEFAULT;
	static struct mail in[WINDOW];
	struct fi_cq_data_entry c;
	struct fi_cq_err_entry err;
	uint32_t next[SENDERS] = { 0 };
	unsigned total = SENDERS * (unsigned)(messages < 4096 ? messages : 4096), got = 0;

	stop = false;
	o.cq_size = 4096;
	pair_open(&q, &o);
	pump_drop_cq(q.c.cq);          /* the readers own this queue */
	for (int i = 0; i < WINDOW; i++)
		OK(post_recv(&q.p, &in[i], sizeof(in[i]), &in[i]));
	for (intptr_t i = 0; i < SENDERS; i++)
		pthread_create(&th[i], NULL, sender, (void *)i);
	for (int i = 0; i < 2; i++)
		pthread_create(&th[SENDERS + i], NULL, reader, NULL);
	while (got < total) {
		int rc = cq_next(q.p.cq, &c, &err, 10000);
		REQUIRE(rc == 1, "%u of %u messages arrived, then %s", got, total, rc ? "an error" : "nothing for 10 s");
		struct mail *m = c.op_context;
		EXPECT(c.len == sizeof(*m), "length %zu", c.len);
		REQUIRE(m->who < SENDERS, "corrupted message");
		EXPECT(m->seq == next[m->who], "order of one sending thread not kept");
		next[m->who] = m->seq + 1;
		for (size_t i = 0; i < sizeof(m->fill); i++)
			if (m->fill[i] != (unsigned char)(m->who * 31 + m->seq)) {
				t_bad("corrupted message");
				break;
			}
		got++;
		OK(post_recv(&q.p, m, sizeof(*m), m));
	}
	for (int i = 0; i < SENDERS; i++)
		pthread_join(th[i], NULL);
	for (double end = now_ms() + 5000; send_ok < total && now_ms() < end; )
		sleep_ms(1);
	stop = true;
	pthread_join(th[SENDERS], NULL);
	pthread_join(th[SENDERS + 1], NULL);
	EXPECT(send_ok == total, "%u send completions for %u sends", send_ok, total);
	pair_close(&q);
	t_end("%d messages in 8 threads and %u on a shared endpoint, all intact and in order", THREADS * messages, total);
}
