// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Wait objects: FI_GETWAIT and FI_GETWAITOBJ, descriptors in poll(2) and epoll(7)
 * with fi_trywait(3) before each sleep, of event queues, completion queues and
 * counters.  Both sides sleep for all that they wait for; a wake-up that is lost
 * shows as a sleep that never ends.
 */
#include "../common.h"
#include <sys/epoll.h>

#define MESSAGES 2000
#define NEVER 10000

/* One side: what it sleeps on. */
struct side {
	struct fid_fabric *fabric;
	struct fid *fid[2];
	int fids;
	int epoll;
	unsigned sleeps;
};

static int descriptor(struct fid *fid)
{
	int fd = -1;

	OK(fi_control(fid, FI_GETWAIT, &fd));
	REQUIRE(fd >= 0 && fcntl(fd, F_GETFD) >= 0, "FI_GETWAIT gives descriptor %d", fd);
	return fd;
}

static void watch(struct side *s, struct fid_fabric *fabric, struct fid *a, struct fid *b)
{
	*s = (struct side){ .fabric = fabric, .fid = { a, b }, .epoll = epoll_create1(EPOLL_CLOEXEC) };
	for (; s->fids < 2 && s->fid[s->fids]; s->fids++) {
		struct epoll_event e = { .events = EPOLLIN };
		REQUIRE(!epoll_ctl(s->epoll, EPOLL_CTL_ADD, descriptor(s->fid[s->fids]), &e), "epoll_ctl: %s", strerror(errno));
	}
}

static void rest(struct side *s)
{
	struct epoll_event e;
	int rc = fi_trywait(s->fabric, s->fid, s->fids);

	if (rc == -FI_EAGAIN)
		return;
	REQUIRE(!rc, "fi_trywait: %d (%s)", rc, t_err(rc));
	s->sleeps++;
	REQUIRE(epoll_wait(s->epoll, &e, 1, NEVER) == 1, "slept for %d s", NEVER / 1000);
}

static void next_event(struct side *s, struct fid_eq *eq, uint32_t want, struct cm_event *ev)
{
	ssize_t n;

	while ((n = fi_eq_read(eq, &ev->event, &ev->e, sizeof(ev->e) + sizeof(ev->data), 0)) == -FI_EAGAIN)
		rest(s);
	REQUIRE(n > 0 && ev->event == want, "%s instead of %s (%zd)", ev_name(ev->event), ev_name(want), n);
	ev->len = n;
}

static void completions(struct side *s, struct fid_cq *cq, unsigned n)
{
	struct fi_cq_data_entry c[4];

	while (n) {
		ssize_t k = fi_cq_read(cq, c, n < 4 ? n : 4);
		if (k == -FI_EAGAIN)
			rest(s);
		else if (k > 0)
			n -= (unsigned)k;
		else
			t_fail("fi_cq_read: %zd (%s)", k, t_err(k));
	}
}

static void talk(struct side *s, struct ep *e, bool first)
{
	char in[64], out[64] = "x";

	for (int i = 0; i < MESSAGES; i++) {
		OK(fi_recv(e->ep, in, sizeof(in), NULL, 0, NULL));
		if (first)
			OK(fi_send(e->ep, out, sizeof(out), NULL, 0, NULL));
		completions(s, e->cq, first ? 2 : 1);
		if (!first) {
			OK(fi_send(e->ep, out, sizeof(out), NULL, 0, NULL));
			completions(s, e->cq, 1);
		}
	}
}

static struct opts o = { .caps = FI_MSG, .cq_wait = FI_WAIT_FD, .eq_wait = FI_WAIT_FD };
static struct srv server;

static void *client(void *arg)
{
	struct ep c;
	struct side s;
	struct cm_event ev;

	cli_make(&c, &server, &o);
	watch(&s, c.fabric, &c.eq->fid, &c.cq->fid);
	OK(cli_connect(&c, NULL, 0));
	next_event(&s, c.eq, FI_CONNECTED, &ev);
	talk(&s, &c, true);
	OK(fi_shutdown(c.ep, 0));
	next_event(&s, c.eq, FI_SHUTDOWN, &ev);
	t_note("client: %u sleeps", s.sleeps);
	close(s.epoll);
	ep_close(&c);
	return NULL;
}

static void serve(void)
{
	struct ep p;
	struct side s;
	struct cm_event ev;
	pthread_t th;

	t_step("two sides that sleep");
	srv_open(&server, &o);
	watch(&s, server.fabric, &server.eq->fid, NULL);
	pthread_create(&th, NULL, client, NULL);
	next_event(&s, server.eq, FI_CONNREQ, &ev);
	srv_accept(&server, &ev, &p, &o, NULL, 0);
	close(s.epoll);
	watch(&s, server.fabric, &server.eq->fid, &p.cq->fid);
	next_event(&s, server.eq, FI_CONNECTED, &ev);
	talk(&s, &p, false);
	next_event(&s, server.eq, FI_SHUTDOWN, &ev);
	pthread_join(th, NULL);
	t_note("server: %u sleeps", s.sleeps);
	close(s.epoll);
	ep_close(&p);
	srv_close(&server);
}

/* What FI_GETWAITOBJ says of each kind of wait object. */
static void kinds(void)
{
	struct pair p;
	struct fi_cq_attr cqa = { .format = FI_CQ_FORMAT_DATA };
	struct fid_cq *cq;
	enum fi_wait_obj kind;
	static const enum fi_wait_obj of[] = { FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_POLLFD, FI_WAIT_YIELD };

	t_step("FI_GETWAITOBJ");
	pair_open(&p, &o);
	for (size_t i = 0; i < T_ARRAY(of); i++) {
		cqa.wait_obj = of[i];
		int rc = fi_cq_open(p.c.domain, &cqa, &cq, NULL);
		RULE("fi_cq(3): FI_WAIT_YIELD", of[i] != FI_WAIT_YIELD || !rc, "fi_cq_open: %d", rc);
		EXPECT(!rc || of[i] == FI_WAIT_YIELD, "fi_cq_open with wait object %d: %d", of[i], rc);
		if (rc)
			continue;
		OK(fi_control(&cq->fid, FI_GETWAITOBJ, &kind));
		if (of[i] != FI_WAIT_UNSPEC)
			EXPECT(kind == of[i], "wait object %d is said to be %d", of[i], kind);
		else
			EXPECT(kind == FI_WAIT_FD || kind == FI_WAIT_POLLFD, "FI_WAIT_UNSPEC is said to be %d", kind);
		if (of[i] == FI_WAIT_POLLFD) {
			struct pollfd fds[16];
			struct fi_wait_pollfd w = { .nfds = 0 };
			rc = fi_control(&cq->fid, FI_GETWAIT, &w);
			EXPECT(rc == -FI_ETOOSMALL && w.nfds, "FI_GETWAIT without room for pollfds: %d, nfds %zu", rc, (size_t)w.nfds);
			REQUIRE(w.nfds <= T_ARRAY(fds), "%zu descriptors", (size_t)w.nfds);
			w.fd = fds;
			OK(fi_control(&cq->fid, FI_GETWAIT, &w));
			struct fid *fid = &cq->fid;
			int rc2 = fi_trywait(p.c.fabric, &fid, 1);
			int ready = poll(fds, w.nfds, 0);
			EXPECT(!rc2, "fi_trywait on an idle queue: %d", rc2);
			RULE("fi_trywait(3): 0 when it is safe to sleep", !ready, "an idle queue's descriptor is readable");
		}
		OK(fi_close(&cq->fid));
	}
	pair_close(&p);
}

static struct fid_cntr *received;
static void bind_counter(struct ep *e)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_FD };

	OK(fi_cntr_open(e->domain, &attr, &received, NULL));
	OK(fi_ep_bind(e->ep, &received->fid, FI_RECV));
}

/* A counter's descriptor wakes for what it counts. */
static void counter(void *arg)
{
	struct srv s;
	struct ep c, p;
	struct cm_event ev;
	struct opts with = o;
	char in[8];
	int sent;

	t_step("a counter's descriptor");
	srv_open(&s, &o);
	cli_make(&c, &s, &o);
	OK(cli_connect(&c, NULL, 0));
	srv_take(&s, &ev, 5000);
	with.bind = bind_counter;
	srv_accept(&s, &ev, &p, &with, NULL, 0);
	eq_need(s.eq, FI_CONNECTED, &ev, 5000);
	eq_need(c.eq, FI_CONNECTED, &ev, 5000);
	struct pollfd pf = { descriptor(&received->fid), POLLIN, 0 };
	struct fid *fid = &received->fid;
	for (uint64_t i = 1; i <= 20; i++) {
		OK(post_recv(&p, in, sizeof(in), in));
		OK(post_send(&c, "tick", 4, &sent));
		struct fi_cq_data_entry done;
		struct fi_cq_err_entry err;
		REQUIRE(cq_next(c.cq, &done, &err, 5000) == 1, "the send did not complete");
		while (fi_cntr_read(received) < i) {
			int rc = fi_trywait(p.fabric, &fid, 1);
			REQUIRE(!rc || rc == -FI_EAGAIN, "fi_trywait: %d", rc);
			REQUIRE(rc || poll(&pf, 1, NEVER) == 1, "slept for %d s", NEVER / 1000);
		}
		REQUIRE(cq_next(p.cq, &done, &err, 5000) == 1, "the receive did not complete");
	}
	OK(fi_close(&p.ep->fid));
	p.ep = NULL;
	OK(fi_close(&received->fid));
	ep_close(&p);
	ep_close(&c);
	srv_close(&s);
}

int main(void)
{
	t_begin("wait-objects", 60);
	kinds();
	serve();
	if (!t_stock()) {
		/* what they choose themselves has a descriptor, also when that is asked for late */
		o.cq_wait = o.eq_wait = FI_WAIT_UNSPEC;
		serve();
		o.cq_wait = o.eq_wait = FI_WAIT_FD;
	}
	t_isolated_rule("fi_cntr(3): FI_GETWAIT", 20, counter, NULL);
	t_end("descriptors wake for everything, fi_trywait says when sleeping is right");
}
