// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The peer ends its stream.  What it has sent before is received whenever
 * there are receives, also long after that, and FI_SHUTDOWN is told once.
 * A receive that is posted after the end is no error, since programs post
 * again what has completed before they look for FI_SHUTDOWN; it stays
 * until it is cancelled or the endpoint is closed.
 */
#include "../common.h"

#define MAX 100

/* FI_SHUTDOWN of the endpoint is among the events that are there. */
static unsigned shutdowns(struct ep *e)
{
	struct cm_event ev;
	unsigned n = 0;

	while (eq_next(e->eq, &ev, 0) > 0)
		n += ev.event == FI_SHUTDOWN && ev.e.fid == &e->ep->fid;
	return n;
}

struct load { const char *name; unsigned count; size_t len; bool half; };
static const struct load loads[] = {
	{ "one", 1, 100, false },
	{ "empty ones", 3, 0, false },
	{ "more than are kept", MAX, 64, false },
	{ "long ones", 5, 70000, false },
	{ "some received before", 20, 1000, true },
};

static void unread(void *arg)
{
	const struct load *load = arg;
	static unsigned char out[70000], in[MAX][70000];
	struct fi_cq_data_entry done;
	struct pair p;

	pair_open(&p, &OPTS_DEFAULT);
	t_step("send");
	for (unsigned i = 0; i < load->count; i++) {
		pattern_fill(out, load->len, i);
		OK(post_send(&p.c, out, load->len, NULL));
		REQUIRE(cq_next(p.c.cq, &done, NULL, 5000) == 1, "message %u is not sent", i);
	}
	unsigned got = 0;
	if (load->half) {
		for (; got < load->count / 2; got++) {
			OK(post_recv(&p.p, in[got], sizeof(in[got]), &in[got]));
			REQUIRE(cq_next(p.p.cq, &done, NULL, 5000) == 1, "message %u has not come", got);
		}
	}
	OK(fi_shutdown(p.c.ep, 0));
	/* ours tells within the limit that main sets, stock once all is received */
	pump_ms(600);
	unsigned told = shutdowns(&p.p);
	t_step("receive what is left");
	for (; got < load->count; got++) {
		OK(post_recv(&p.p, in[got], sizeof(in[got]), &in[got]));
		REQUIRE(cq_next(p.p.cq, &done, NULL, 5000) == 1, "message %u has not come", got);
		EXPECT(done.op_context == &in[got] && done.len == load->len, "message %u of %zu bytes", got, done.len);
		EXPECT(pattern_check(in[got], load->len, got) < 0, "contents of message %u", got);
	}
	pump_ms(100);
	told += shutdowns(&p.p);
	EXPECT(told == 1, "FI_SHUTDOWN was told %u times", told);
	pair_close(&p);
}

static void late(void *arg)
{
	static char in[8];
	struct fi_cq_data_entry done;
	struct fi_cq_err_entry err;
	struct cm_event ev;
	struct pair p;
	unsigned posted = 0;
	long rc;

	pair_open(&p, &OPTS_DEFAULT);
	OK(fi_shutdown(p.c.ep, 0));
	t_step("FI_SHUTDOWN");
	do
		REQUIRE(eq_next(p.p.eq, &ev, 5000) > 0, "no FI_SHUTDOWN");
	while (ev.event != FI_SHUTDOWN || ev.e.fid != &p.p.ep->fid);
	t_step("post receives after it");
	while (!(rc = fi_recv(p.p.ep, in, sizeof(in), NULL, 0, &in[posted % 8])) && posted < 100000)
		posted++;
	EXPECT(posted > 0, "no receive is taken after the end: %ld (%s)", rc, t_err(rc));
	RULE("fi_msg(3): -FI_EAGAIN when the queue is full", rc == -FI_EAGAIN && posted <= p.p.info->rx_attr->size,
	     "after %u receives: %ld (%s)", posted, rc, t_err(rc));
	int n = cq_next(p.p.cq, &done, &err, 100);
	EXPECT(n == 0, "a receive after the end completes: %d", n);
	OK(fi_cancel(&p.p.ep->fid, &in[0]));
	n = cq_next(p.p.cq, &done, &err, 1000);
	EXPECT(n == -FI_EAVAIL && err.err == FI_ECANCELED && err.op_context == &in[0], "fi_cancel: %d, err %d", n, err.err);
	t_step("close");
	OK(fi_close(&p.p.ep->fid));
	for (unsigned i = 1; i < posted; i++) {
		n = cq_next(p.p.cq, &done, &err, 1000);
		REQUIRE(n == -FI_EAVAIL && err.err == FI_ECANCELED, "receive %u at fi_close: %d, err %d", i, n, err.err);
	}
	n = cq_next(p.p.cq, &done, &err, 0);
	EXPECT(n == 0, "a receive completes twice");
	p.p.ep = NULL;
	pump_drop_cq(p.p.cq);
	OK(fi_close(&p.p.cq->fid));
	p.p.cq = NULL;
	t_child_exit();
}

int main(int argc, char **argv)
{
	setenv("KOFI_SHUTDOWN_TIMEOUT_MS", "200", 1);
	t_begin("after-end", 90);
	for (size_t i = 0; i < T_ARRAY(loads); i++)
		t_isolated(loads[i].name, 15, unread, (void *)(uintptr_t)&loads[i]);
	t_isolated("receives after the end", 15, late, NULL);
	t_end("messages of a peer that has ended are received late; receives after the end wait for fi_close");
}
