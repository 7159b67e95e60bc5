// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A server that listens and then becomes a daemon: its parent ends after
 * fork(2), as in daemon(3), and the child goes on with the objects.  While the
 * parent lives they are its own.
 */
#include "../common.h"

static const struct opts o = { .caps = FI_MSG, .cq_wait = FI_WAIT_UNSPEC, .eq_wait = FI_WAIT_UNSPEC };

/* What is left of the server. */
static void daemon_part(struct srv *s)
{
	struct cm_event ev;
	struct ep p;
	char in[32] = "";
	struct fi_cq_data_entry done;
	struct fi_cq_err_entry err;

	alarm(20);
	srv_take(s, &ev, 10000);
	srv_accept(s, &ev, &p, &o, NULL, 0);
	eq_need(s->eq, FI_CONNECTED, &ev, 5000);
	OK(post_recv(&p, in, sizeof(in), in));
	REQUIRE(cq_next(p.cq, &done, &err, 5000) == 1 && !strcmp(in, "to a daemon"), "the daemon's receive");
	OK(post_send(&p, in, sizeof(in), in));
	REQUIRE(cq_next(p.cq, &done, &err, 5000) == 1, "the daemon's send");
	eq_need(s->eq, FI_SHUTDOWN, &ev, 5000);
	ep_close(&p);
	srv_close(s);
}

int main(void)
{
	struct srv s;
	struct ep c;
	struct cm_event ev;
	char out[32] = "to a daemon", in[32] = "";
	struct fi_cq_data_entry done;
	struct fi_cq_err_entry err;
	int port[2], end[2];
	char ok = 0;

	t_begin("daemon", 40);
	REQUIRE(!pipe(port) && !pipe(end), "pipe: %s", strerror(errno));
	t_step("a server whose parent ends");
	pid_t parent = t_fork(20);
	if (parent == 0) {
		srv_open(&s, &o);
		REQUIRE(write(port[1], &s, sizeof(s)) == sizeof(s), "write: %s", strerror(errno));
		if (fork() == 0) {
			daemon_part(&s);
			ok = 1;
			_exit(write(end[1], &ok, 1) != 1);
		}
		_exit(0);
	}
	REQUIRE(read(port[0], &s, sizeof(s)) == sizeof(s), "no server");
	int rc = t_wait(parent, 10000);
	EXPECT(rc == 0, "the parent: %d", rc);
	close(end[1]);
	cli_make(&c, &s, &o);
	OK(cli_connect(&c, NULL, 0));
	eq_need(c.eq, FI_CONNECTED, &ev, 10000);
	OK(post_recv(&c, in, sizeof(in), in));
	OK(post_send(&c, out, sizeof(out), out));
	for (int i = 0; i < 2; i++)
		REQUIRE(cq_next(c.cq, &done, &err, 5000) == 1, "a completion");
	EXPECT(!strcmp(in, out), "the daemon's answer: %s", in);
	OK(fi_shutdown(c.ep, 0));
	REQUIRE(read(end[0], &ok, 1) == 1 && ok, "the daemon failed");
	ep_close(&c);

	t_step("a child whose parent lives");
	srv_open(&s, &o);
	pid_t child = t_fork(20);
	if (child == 0) {
		ssize_t n = fi_eq_read(s.eq, &ev.event, &ev.e, sizeof(ev.e), 0);
		RULE("docs/semantics.md, in C: the parent's objects are its own", n == -FI_EOPBADSTATE, "fi_eq_read: %zd", n);
		t_child_exit();
	}
	rc = t_wait(child, 10000);
	EXPECT(rc == 0, "the child: %d", rc);
	srv_close(&s);
	t_end("daemons go on, parents are left alone");
}
