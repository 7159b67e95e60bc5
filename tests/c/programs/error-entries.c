// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Error entries and where their data goes: into the caller's buffer, cut to its
 * size (err_data_size set on input), or to memory of the library that is valid
 * until the next read (err_data_size 0).  fi_eq(3), fi_cq(3).
 */
#include "../common.h"

static struct srv s;

/* A client that is rejected with 100 bytes, up to its error entry. */
static void rejected(struct ep *c, unsigned char *reason)
{
	struct opts o = OPTS_DEFAULT;
	struct cm_event ev;

	cli_make(c, &s, &o);
	OK(cli_connect(c, NULL, 0));
	srv_take(&s, &ev, 5000);
	OK(fi_reject(s.pep, ev.e.info->handle, reason, 100));
	fi_freeinfo(ev.e.info);
	REQUIRE(eq_next(c->eq, &ev, 5000) == -FI_EAVAIL, "no error entry");
}

static void event_queue(void)
{
	static const size_t room[] = { 0, 1, 8, 99, 100, 256 };
	unsigned char reason[100], *mine;
	struct fi_eq_err_entry err;
	struct cm_event ev;
	struct ep c;

	pattern_fill(reason, sizeof(reason), 7);
	for (size_t i = 0; i < T_ARRAY(room); i++) {
		size_t n = room[i], want = n && n < 100 ? n : 100;

		t_step("event queue, buffer of %zu bytes", n);
		rejected(&c, reason);
		mine = guard_alloc(n ? n : 1);
		memset(&err, 0, sizeof(err));
		err.err_data = n ? mine : NULL;
		err.err_data_size = n;
		ssize_t rc = fi_eq_readerr(c.eq, &err, 0);
		EXPECT(rc == sizeof(err), "fi_eq_readerr: %zd", rc);
		EXPECT(err.err == FI_ECONNREFUSED && err.fid == &c.ep->fid && err.context == &c, "error %d", err.err);
		EXPECT(n ? err.err_data == mine : err.err_data && err.err_data != mine, "buffer of %zu bytes: data is elsewhere", n);
		EXPECT(err.err_data_size >= want && (!n || err.err_data_size <= n), "buffer of %zu bytes: %zu given", n, err.err_data_size);
		EXPECT(!memcmp(err.err_data, reason, want), "buffer of %zu bytes: data differs", n);
		EXPECT(fi_eq_strerror(c.eq, err.prov_errno, err.err_data, NULL, 0) != NULL, "fi_eq_strerror");
		rc = fi_eq_read(c.eq, &ev.event, &ev.e, sizeof(ev.e), 0);
		EXPECT(rc == -FI_EAGAIN, "behind the error entry: %zd", rc);
		guard_free(mine, n ? n : 1);
		ep_close(&c);
	}
}

static void completion_queue(void)
{
	struct opts o = OPTS_DEFAULT;
	struct ep c, p;
	struct fi_cq_data_entry done;
	struct fi_cq_err_entry err;
	unsigned char mine[32], in[64];
	char text[64];

	pair_join(&s, &c, &p, &o);
	for (int i = 0; i < 2; i++) {
		t_step("completion queue, %s buffer", i ? "own" : "no");
		OK(fi_recv(p.ep, in, sizeof(in), NULL, 0, in));
		OK(fi_cancel(&p.ep->fid, in));
		ssize_t rc = fi_cq_read(p.cq, &done, 1);
		EXPECT(rc == -FI_EAVAIL, "behind fi_cancel: %zd", rc);
		rc = fi_cq_read(p.cq, &done, 1);
		EXPECT(rc == -FI_EAVAIL, "an error entry that was not read is gone: %zd", rc);
		memset(&err, 0, sizeof(err));
		memset(mine, 0xEE, sizeof(mine));
		if (i) {
			err.err_data = mine;
			err.err_data_size = sizeof(mine);
		}
		rc = fi_cq_readerr(p.cq, &err, 0);
		EXPECT(rc == 1 && err.err == FI_ECANCELED && err.op_context == in, "fi_cq_readerr: %zd, error %d", rc, err.err);
		EXPECT(!(err.flags & ~(FI_MSG | FI_RECV)) && err.flags & FI_RECV, "flags 0x%jx", (uintmax_t)err.flags);
		EXPECT(!err.olen, "olen of a receive that was cancelled is %zu", err.olen);
		if (i)
			EXPECT(err.err_data == mine && err.err_data_size <= sizeof(mine), "own buffer: data is elsewhere");
		EXPECT(fi_cq_strerror(p.cq, err.prov_errno, err.err_data, text, sizeof(text)) != NULL, "fi_cq_strerror");
		rc = fi_cq_readerr(p.cq, &err, 0);
		EXPECT(rc == -FI_EAGAIN, "fi_cq_readerr without an entry: %zd", rc);
	}
	ep_close(&c);
	ep_close(&p);
}

/* fi_cq(3): errors come in the order of completions. */
static void order(void)
{
	struct opts o = OPTS_DEFAULT;
	struct ep c, p;
	struct fi_cq_data_entry done;
	struct fi_cq_err_entry err;
	unsigned char in[3][8];
	int sent;

	t_step("order");
	pair_join(&s, &c, &p, &o);
	for (int i = 0; i < 3; i++)
		OK(fi_recv(p.ep, in[i], 8, NULL, 0, in[i]));
	OK(post_send(&c, "first", 5, &sent));
	for (double end = now_ms() + 200; now_ms() < end; pump())
		fi_cq_read(c.cq, NULL, 0);
	OK(fi_cancel(&p.ep->fid, in[2]));
	REQUIRE(cq_next(p.cq, &done, &err, 5000) == 1 && done.op_context == in[0], "the completion behind an error comes first");
	REQUIRE(cq_next(p.cq, &done, &err, 5000) == -FI_EAVAIL && err.op_context == in[2], "no entry of the cancelled receive");
	OK(post_send(&c, "second", 6, &sent));
	REQUIRE(cq_next(p.cq, &done, &err, 5000) == 1 && done.op_context == in[1], "the receive behind an error is lost");
	ep_close(&c);
	ep_close(&p);
}

/* fi_cq(3): FI_ETRUNC, "olen: overflow length"; the connection goes on. */
static void truncated(void *arg)
{
	struct opts o = OPTS_DEFAULT;
	struct ep c, p;
	struct fi_cq_data_entry done;
	struct fi_cq_err_entry err = { 0 };
	unsigned char in[10], out[110];
	int sent;

	srv_open(&s, &o);
	pair_join(&s, &c, &p, &o);
	memset(out, 1, sizeof(out));
	t_step("a receive that is too short");
	OK(post_recv(&p, in, sizeof(in), in));
	OK(post_send(&c, out, sizeof(out), &sent));
	REQUIRE(cq_next(p.cq, &done, &err, 5000) == -FI_EAVAIL, "no error entry");
	EXPECT(err.err == FI_ETRUNC && err.op_context == in, "error %d", err.err);
	EXPECT(err.olen == 100, "olen is %zu", err.olen);
	REQUIRE(cq_next(c.cq, &done, &err, 5000) == 1, "the send did not complete");
	t_step("the next message");
	xfer(&c, &p, 100, 2);
	ep_close(&c);
	ep_close(&p);
	srv_close(&s);
}

int main(void)
{
	struct opts o = OPTS_DEFAULT;

	t_begin("error-entries", 40);
	srv_open(&s, &o);
	event_queue();
	completion_queue();
	order();
	srv_close(&s);
	/* in a child: stock ends the connection */
	t_isolated_rule("fi_cq(3): a message that is too long fails its receive, olen tells by how much", 15, truncated, NULL);
	t_end("error entries are complete, in order, and respect the caller's buffer");
}
