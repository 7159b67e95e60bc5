// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-14 FI_SHUTDOWN exactly once, whoever leaves first.
 *
 * The remote endpoint gets exactly one FI_SHUTDOWN with the right fid.  The
 * side that called fi_shutdown may get one of its own (decision D4), never two.
 */
#include "../common.h"

struct count { int shutdown, err, other; };

static void watch(struct fid_eq *eq, struct fid *fid, struct count *n)
{
	struct cm_event ev;
	struct fi_eq_err_entry err;
	ssize_t rc;

	while ((rc = eq_next(eq, &ev, 0)) != -FI_EAGAIN) {
		if (rc == -FI_EAVAIL) {
			rc = eq_error(eq, &err);
			n->err++;
			EXPECT(err.fid == fid, "error entry with the wrong fid");
			if (rc <= 0)
				return;
		} else if (rc < 0) {
			t_bad("fi_eq_read: %zd (%s)", rc, t_err(rc));
			return;
		} else if (ev.event == FI_SHUTDOWN) {
			n->shutdown++;
			EXPECT(ev.e.fid == fid, "FI_SHUTDOWN with the wrong fid");
		} else {
			n->other++;
		}
	}
}

static void both(struct pair *p, struct count *c, struct count *s, unsigned ms)
{
	for (double end = now_ms() + ms; now_ms() < end; sleep_ms(1)) {
		if (p->c.eq)
			watch(p->c.eq, &p->c.ep->fid, c);
		watch(p->s.eq, &p->p.ep->fid, s);
		pump();
	}
}

static void scene(char which)
{
	struct opts o = OPTS_DEFAULT;
	struct pair p;
	struct count c = { 0 }, s = { 0 };
	int rc;

	t_step("(%c)", which);
	pair_open(&p, &o);
	xfer(&p.c, &p.p, 100, 1);
	switch (which) {
	case 'a':
		OK(fi_shutdown(p.c.ep, 0));
		break;
	case 'b':
		OK(fi_shutdown(p.p.ep, 0));
		break;
	case 'c':
		OK(fi_shutdown(p.c.ep, 0));
		rc = fi_shutdown(p.p.ep, 0);
		EXPECT(rc <= 0, "(c) second side's fi_shutdown returned %d", rc);
		break;
	case 'd':
		ep_close(&p.c);
		break;
	case 'f':
		OK(fi_shutdown(p.c.ep, 0));
		rc = fi_shutdown(p.c.ep, 0);
		EXPECT(rc <= 0, "(f) second fi_shutdown returned %d", rc);
		t_note("(f) second fi_shutdown: %d (%s)", rc, t_err(rc));
		both(&p, &c, &s, 100);
		rc = fi_shutdown(p.c.ep, 0);
		EXPECT(rc <= 0, "(f) third fi_shutdown returned %d", rc);
		break;
	}
	both(&p, &c, &s, 500);

	struct count *remote = which == 'b' ? &c : &s, *local = which == 'b' ? &s : &c;
	t_note("(%c) remote: %d FI_SHUTDOWN %d errors, local: %d FI_SHUTDOWN %d errors", which,
	       remote->shutdown, remote->err, local->shutdown, local->err);
	EXPECT(remote->shutdown == 1, "(%c) the remote endpoint got %d FI_SHUTDOWN, not one", which, remote->shutdown);
	if (which == 'c')
		EXPECT(local->shutdown == 1, "(c) the other endpoint got %d FI_SHUTDOWN, not one", local->shutdown);
	else
		EXPECT(local->shutdown <= 1, "(%c) the local endpoint got %d FI_SHUTDOWN", which, local->shutdown);
	EXPECT(!remote->err && !local->err, "(%c) error entries: remote %d, local %d", which, remote->err, local->err);
	EXPECT(!remote->other && !local->other, "(%c) other events", which);
	if (which != 'd')
		ep_close(&p.c);
	ep_close(&p.p);
	srv_close(&p.s);
}

/* Shutdown of an endpoint whose peer never answers. */
static void silent(void)
{
	struct opts o = OPTS_DEFAULT;
	struct srv raw = { .addrlen = sizeof(struct sockaddr_in) };
	struct ep c;
	struct count n = { 0 };

	t_step("(e) shutdown while connecting");
	int fd = raw_listen(&raw.port);
	strcpy(raw.node, "127.0.0.1");
	snprintf(raw.service, sizeof(raw.service), "%u", raw.port);
	cli_make(&c, &raw, &o);
	OK(cli_connect(&c, NULL, 0));
	pump_ms(100);
	double t = now_ms();
	int rc = fi_shutdown(c.ep, 0);
	t = now_ms() - t;
	EXPECT(rc <= 0, "(e) fi_shutdown while connecting returned %d", rc);
	EXPECT(t < 200, "(e) fi_shutdown while connecting took %.0f ms", t);
	for (double end = now_ms() + 500; now_ms() < end; sleep_ms(1))
		watch(c.eq, &c.ep->fid, &n);
	t_note("(e) fi_shutdown: %d (%s); then %d errors, %d FI_SHUTDOWN, %d others", rc, t_err(rc), n.err, n.shutdown, n.other);
	EXPECT(n.err <= 1, "(e) %d error entries", n.err);
	EXPECT(n.shutdown <= 1, "(e) %d FI_SHUTDOWN", n.shutdown);
	EXPECT(!n.other, "(e) other events: %d", n.other);
	t = now_ms();
	ep_close(&c);
	EXPECT(now_ms() - t < 1000, "(e) closing took longer than 1 s");
	close(fd);
}

int main(void)
{
	t_begin("BUG-14", 55);
	for (const char *w = "abcdf"; *w; w++)
		scene(*w);
	silent();
	t_end("one FI_SHUTDOWN for the remote side in every order, at most one locally");
}
