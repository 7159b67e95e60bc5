// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-27 The peer is killed.
 *
 * Receives, large sends and an RMA read are outstanding when the peer gets
 * SIGKILL.  Within 2 s the endpoint reports FI_SHUTDOWN or an error, each
 * operation completes exactly once, a later send fails cleanly, and another
 * connection of the same domain goes on.  Then shm: no fault, no hang.
 */
#include "../common.h"

#define N   8
#define BIG ((size_t)4 << 20)

/* A peer process: connects with its letter as private data. */
static void peer(struct srv *s, const struct opts *o, char letter)
{
	struct ep c;
	struct cm_event ev;
	struct fi_cq_data_entry ce;
	struct fi_cq_err_entry err;
	static char region[65536], buf[128];
	struct fid_mr *mr;

	cli_make(&c, s, o);
	if (o->caps & FI_RMA)
		OK(fi_mr_reg(c.domain, region, sizeof(region), FI_REMOTE_READ, 0, 5, 0, &mr, NULL));
	OK(cli_connect(&c, &letter, 1));
	eq_need(c.eq, FI_CONNECTED, &ev, 5000);
	if (letter == 'B')
		for (;;)
			pause();              /* never calls in again */
	for (;;) {                            /* echo */
		OK(post_recv(&c, buf, sizeof(buf), buf));
		if (cq_next(c.cq, &ce, &err, 30000) != 1)
			_exit(0);
		OK(post_send(&c, buf, ce.len, NULL));
		if (cq_next(c.cq, &ce, &err, 30000) != 1)
			_exit(0);
	}
}

static void echo(struct ep *e)
{
	char out[100], in[100];
	struct fi_cq_data_entry c;
	struct fi_cq_err_entry err;

	pattern_fill(out, sizeof(out), 3);
	OK(post_recv(e, in, sizeof(in), in));
	OK(post_send(e, out, sizeof(out), out));
	for (int i = 0; i < 2; i++) {
		int rc = cq_next(e->cq, &c, &err, 3000);
		REQUIRE(rc == 1, "the other connection: %s", rc ? fi_strerror(abs(err.err)) : "no completion");
	}
	EXPECT(!memcmp(in, out, sizeof(in)), "the other connection: bytes differ");
}

static void msg_part(void *arg)
{
	struct opts o = OPTS_DEFAULT;
	struct fi_info *h, *info = NULL;
	struct srv s;
	struct ep b = { 0 }, c = { 0 };
	struct fid_domain *dom;
	struct cm_event ev;
	struct fi_cq_data_entry ce;
	struct fi_cq_err_entry err;
	char *mem = calloc(N * 2 + 1, BIG);
	int seen[2 * N + 2] = { 0 }, ops = 2 * N, connected = 0;
	pid_t pid[2];

	o.caps = FI_MSG | FI_RMA;
	h = hints_new(&o);
	if (fi_getinfo(T_API, "127.0.0.1", NULL, FI_SOURCE, h, &info))
		o.caps = FI_MSG;
	fi_freeinfo(info);
	fi_freeinfo(h);
	srv_open(&s, &o);
	for (int i = 0; i < 2; i++) {
		pid[i] = t_fork(40);
		if (pid[i] == 0)
			peer(&s, &o, (char)('B' + i));
	}
	OK(fi_domain(s.fabric, s.info, &dom, NULL));
	t_step("connect two peers");
	while (connected < 2) {
		ssize_t n = eq_next(s.eq, &ev, 10000);
		REQUIRE(n >= 0, "waiting for the peers: %s", t_err(n));
		if (ev.event == FI_CONNECTED) {
			connected++;
			continue;
		}
		struct ep *e = ev.data[0] == 'B' ? &b : &c;
		ep_make(e, ev.e.info, &o, s.fabric, dom, s.eq);
		OK(fi_accept(e->ep, NULL, 0));
	}
	sleep_ms(200);
	echo(&c);

	t_step("post and kill");
	for (int i = 0; i < N; i++) {
		OK(post_recv(&b, mem + (size_t)i * BIG, BIG, (void *)(intptr_t)(i + 1)));
		OK(post_send(&b, mem + (size_t)(N + i) * BIG, BIG, (void *)(intptr_t)(N + i + 1)));
	}
	if (o.caps & FI_RMA) {
		uint64_t key = 5;
		ssize_t rc = fi_read(b.ep, mem + (size_t)2 * N * BIG, 1000, NULL, 0, 0, key, (void *)(intptr_t)(2 * N + 1));
		if (rc == 0)
			ops++;
	}
	pump_ms(300);
	kill(pid[0], SIGKILL);
	t_wait(pid[0], 2000);
	double t = now_ms();
	int events = 0, done = 0;
	double when = -1;
	while (now_ms() - t < 2500) {
		ssize_t n = eq_next(s.eq, &ev, 0);
		if (n == -FI_EAVAIL) {
			struct fi_eq_err_entry e;
			eq_error(s.eq, &e);
			EXPECT(e.fid == &b.ep->fid, "EQ error with the wrong fid");
			events++;
		} else if (n >= 0) {
			EXPECT(ev.event == FI_SHUTDOWN, "unexpected %s", ev_name(ev.event));
			EXPECT(ev.e.fid == &b.ep->fid, "FI_SHUTDOWN with the wrong fid");
			events++;
		}
		if (events && when < 0)
			when = now_ms() - t;
		int rc = cq_next(b.cq, &ce, &err, 1);
		if (rc) {
			intptr_t k = (intptr_t)(rc == 1 ? ce.op_context : err.op_context) - 1;
			REQUIRE(k >= 0 && k < ops, "completion with an unknown op_context");
			EXPECT(!seen[k], "an operation completed twice");
			seen[k] = 1;
			done++;
			if (k < N)
				EXPECT(rc < 0, "a receive from a silent peer completed with success");
		}
	}
	t_note("event after %.0f ms, %d events, %d of %d operations completed", when, events, done, ops);
	EXPECT(events >= 1, "no FI_SHUTDOWN and no EQ error within 2.5 s of the peer's death");
	EXPECT(events <= 1, "%d events for one dead peer", events);
	EXPECT(when < 2000, "the event came after more than 2 s");
	EXPECT(done == ops, "%d of %d operations never completed", ops - done, ops);

	t_step("send after death");
	ssize_t rc = fi_send(b.ep, mem, 10, NULL, 0, (void *)(intptr_t)1);
	t_note("send to the dead peer: %zd (%s)", rc, rc < 0 ? t_err(rc) : "accepted");
	if (rc == 0)
		EXPECT(cq_next(b.cq, &ce, &err, 1000) < 0, "a send to a dead peer: accepted and no error entry");
	t_step("the other connection");
	echo(&c);
	t = now_ms();
	ep_close(&b);
	EXPECT(now_ms() - t < 2000, "closing took more than 2 s");
	echo(&c);
	ep_close(&c);
	OK_SOFT(fi_close(&dom->fid));
	srv_close(&s);
	kill(pid[1], SIGKILL);
	t_wait(pid[1], 1000);
	free(mem);
}

static void account(int *seen, intptr_t k)
{
	REQUIRE(k >= 1 && k <= 2 * N, "shm: completion with an unknown op_context");
	EXPECT(!seen[k], "shm: an operation completed twice");
	seen[k] = 1;
}

struct names { char a[256], b[256]; volatile int a_ready, b_ready, go; };

static void shm_part(void *arg)
{
	struct names *n = mmap(NULL, sizeof(*n), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct rdm a;
	char *mem = calloc(2 * N, BIG);
	struct fi_cq_tagged_entry ce;
	struct fi_cq_err_entry err;
	char hello[16] = "hello", in[16];
	char node[32];

	snprintf(node, sizeof(node), "bug27-%d", getpid());
	t_step("shm: open");
	pid_t pid = t_fork(40);
	if (pid == 0) {
		struct rdm b;
		OK(rdm_open(&b, "shm", node, "2", FI_TAGGED));
		while (!n->a_ready)
			sleep_ms(1);
		strcpy(n->b, b.addr);
		n->b_ready = 1;
		fi_addr_t to = rdm_insert(&b, n->a);
		rdm_trecv(&b, in, sizeof(in), 1, 10000);
		rdm_tsend(&b, to, hello, sizeof(hello), 2, 10000);
		n->go = 1;
		for (;;)
			pause();
	}
	OK(rdm_open(&a, "shm", node, "1", FI_TAGGED));
	strcpy(n->a, a.addr);
	n->a_ready = 1;
	while (!n->b_ready)
		sleep_ms(1);
	fi_addr_t to = rdm_insert(&a, n->b);
	t_step("shm: first exchange");
	rdm_tsend(&a, to, hello, sizeof(hello), 1, 10000);
	rdm_trecv(&a, in, sizeof(in), 2, 10000);
	while (!n->go)
		sleep_ms(1);

	t_step("shm: post and kill");
	int sends = 0;
	for (int i = 0; i < N; i++) {
		OK(fi_trecv(a.ep, mem + (size_t)i * BIG, BIG, NULL, FI_ADDR_UNSPEC, 100 + i, 0, (void *)(intptr_t)(i + 1)));
		sends += !fi_tsend(a.ep, mem + (size_t)(N + i) * BIG, BIG, NULL, to, 200, (void *)(intptr_t)(N + i + 1));
	}
	pump_ms(100);
	kill(pid, SIGKILL);
	t_wait(pid, 2000);
	t_step("shm: poll for 5 s");
	int rc, seen[2 * N + 1] = { 0 };
	for (double end = now_ms() + 5000; now_ms() < end; sleep_ms(1))
		while ((rc = rdm_next(&a, &ce, &err, 0)))
			account(seen, (intptr_t)(rc == 1 ? ce.op_context : err.op_context));
	t_step("shm: cancel");
	for (int i = 0; i < N; i++)
		(void)fi_cancel(&a.ep->fid, (void *)(intptr_t)(i + 1));
	int cancelled = 0;
	while ((rc = rdm_next(&a, &ce, &err, 100)))
		account(seen, (intptr_t)(rc == 1 ? ce.op_context : err.op_context));
	for (int k = 1; k <= N; k++)
		cancelled += seen[k];
	t_note("shm: %d sends accepted, %d of %d receives completed after fi_cancel", sends, cancelled, N);
	EXPECT(cancelled == N, "shm: only %d of %d cancelled receives completed", cancelled, N);
	t_step("shm: close");
	double t = now_ms();
	rdm_close(&a);
	EXPECT(now_ms() - t < 2000, "shm: closing took %.0f ms", now_ms() - t);
	shm_clean(node);                      /* the killed peer's region */
	free(mem);
}

int main(void)
{
	t_begin("BUG-27", 58);
	signal(SIGPIPE, SIG_DFL);
	t_isolated(t_prov(), 25, msg_part, NULL);
	t_isolated("shm", 25, shm_part, NULL);
	t_end("one event, each operation once, others untouched; shm: no fault, no hang");
}
