// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-06 Private data, all sizes, small buffers.
 *
 * Connect and accept data of every interesting size arrive unchanged; the
 * reader's buffer is never overrun, whatever its size; FI_PEEK does not
 * consume.
 */
#include "../common.h"

enum mode { FULL, EXACT, PLUS10, PEEK };
static const char *const mode_name[] = { "full buffer", "buffer of sizeof(entry)", "buffer of sizeof(entry)+10", "peek then read" };

/* Wait until something is in the EQ without consuming it. */
static void wait_event(struct fid_eq *eq)
{
	struct cm_event ev;
	double end = now_ms() + 5000;
	ssize_t n;

	while ((n = fi_eq_read(eq, &ev.event, &ev.e, sizeof(ev.e) + sizeof(ev.data), FI_PEEK)) == -FI_EAGAIN) {
		if (now_ms() > end)
			t_fail("no event within 5 s");
		pump();
	}
}

/* Read one event in the given mode and check its n bytes of data. */
static void take(struct fid_eq *eq, enum mode m, uint32_t want, const unsigned char *data,
		 size_t n, size_t limit, struct cm_event *out)
{
	size_t room = m == EXACT ? 0 : m == PLUS10 ? 10 : limit;
	size_t len = sizeof(struct fi_eq_cm_entry) + room;
	struct fi_eq_cm_entry *e = NULL;
	/* The end of the buffer touches an unreadable page, so that even one
	 * byte too many is seen; alignment is kept for the entry. */
	size_t span = (len + 15) / 16 * 16;
	char *g = guard_alloc(span);
	char *buf = g + (span - len) / 8 * 8;   /* aligned; up to 7 spare bytes behind */
	size_t spare = (size_t)(g + span - (buf + len));
	uint32_t event = 0;
	ssize_t rc;

	wait_event(eq);
	memset(g, 0xEE, span);
	if (m == PEEK) {
		struct cm_event peeked = { .len = 0 };
		rc = fi_eq_read(eq, &peeked.event, &peeked.e, sizeof(peeked.e) + limit, FI_PEEK);
		EXPECT(rc >= (ssize_t)sizeof(*e), "peek returned %zd", rc);
		out->e = peeked.e;
		out->event = peeked.event;
	}
	rc = fi_eq_read(eq, &event, buf, len, 0);
	if (rc < 0)
		t_fail("%s, %zu bytes of data: fi_eq_read %zd (%s)", mode_name[m], n, rc, t_err(rc));
	e = (struct fi_eq_cm_entry *)buf;
	EXPECT(event == want, "%s: got %s, expected %s", mode_name[m], ev_name(event), ev_name(want));
	EXPECT((size_t)rc <= len, "%s, %zu bytes of data: returned length %zd is more than the buffer", mode_name[m], n, rc);
	EXPECT((size_t)rc >= sizeof(*e) + (n < room ? n : room),
	       "%s, %zu bytes of data: returned length only %zd", mode_name[m], n, rc);
	for (size_t i = 0; i < spare; i++)
		EXPECT(buf[len + i] == (char)0xEE, "%s: write past the buffer", mode_name[m]);
	size_t cmp = n < room ? n : room;
	EXPECT(!memcmp(buf + sizeof(*e), data, cmp), "%s: %zu bytes of private data differ", mode_name[m], cmp);
	if (m == PEEK) {
		EXPECT(out->event == event, "peek and read disagree on the event");
		EXPECT(out->e.fid == e->fid, "peek and read disagree on the fid");
		EXPECT(out->e.info == e->info, "peek and read disagree on the info");
	}
	out->event = event;
	out->e = *e;
	out->len = rc;
	guard_free(g, span);
}

static void one(struct srv *s, enum mode m, size_t n, size_t limit)
{
	struct opts o = OPTS_DEFAULT;
	struct ep c, p;
	struct cm_event ev = { .len = 0 };
	unsigned char up[1024], down[1024];

	t_step("%s, %zu bytes", mode_name[m], n);
	pattern_fill(up, sizeof(up), n + 1);
	pattern_fill(down, sizeof(down), n + 1000);
	cli_make(&c, s, &o);
	int rc = cli_connect(&c, up, n);
	REQUIRE(!rc, "fi_connect with %zu bytes of data: %d (%s)", n, rc, t_err(rc));
	take(s->eq, m, FI_CONNREQ, up, n, limit, &ev);
	REQUIRE(ev.e.info && ev.e.info->handle, "%s: FI_CONNREQ without info or handle", mode_name[m]);
	srv_accept(s, &ev, &p, &o, down, n);
	eq_need(s->eq, FI_CONNECTED, &ev, 5000);
	take(c.eq, m, FI_CONNECTED, down, n, limit, &ev);
	EXPECT(ev.e.fid == &c.ep->fid, "%s: FI_CONNECTED with the wrong fid", mode_name[m]);
	xfer(&c, &p, 33, n);
	ep_close(&c);
	ep_close(&p);
}

int main(void)
{
	struct opts o = OPTS_DEFAULT;
	struct srv s;
	struct ep c;
	size_t limit = 0, optlen = sizeof(limit);

	t_begin("BUG-06", 55);
	srv_open(&s, &o);
	cli_make(&c, &s, &o);
	OK(fi_getopt(&c.ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &limit, &optlen));
	EXPECT(optlen == sizeof(size_t), "FI_OPT_CM_DATA_SIZE has size %zu", optlen);
	REQUIRE(limit > 0 && limit <= 1024, "FI_OPT_CM_DATA_SIZE is %zu", limit);
	t_note("FI_OPT_CM_DATA_SIZE %zu", limit);
	optlen = 2;
	int rc = fi_getopt(&c.ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &limit, &optlen);
	EXPECT(rc == -FI_ETOOSMALL, "fi_getopt with a 2-byte buffer: %d (%s)", rc, t_err(rc));
	optlen = sizeof(limit);
	OK(fi_getopt(&c.ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &limit, &optlen));
	ep_close(&c);

	const size_t size[] = { 0, 1, 55, 56, 57, 255, limit };
	for (enum mode m = FULL; m <= PEEK; m++)
		for (unsigned i = 0; i < T_ARRAY(size); i++)
			if (size[i] <= limit)
				one(&s, m, size[i], limit);

	/* A buffer that cannot hold the fixed part: refused, not consumed. */
	t_step("buffer smaller than the entry");
	struct ep c2, p2;
	struct cm_event ev;
	unsigned char tiny[8];
	uint32_t event;
	cli_make(&c2, &s, &o);
	OK(cli_connect(&c2, NULL, 0));
	wait_event(s.eq);
	canary_fill(tiny, sizeof(tiny));
	ssize_t n = fi_eq_read(s.eq, &event, tiny, 4, 0);
	EXPECT(canary_check(tiny, 4) >= 0 || n < 0 || n == 4, "odd result for a 4-byte buffer: %zd", n);
	EXPECT(n <= 4, "4-byte buffer: returned length %zd", n);
	unsigned char fresh[8];
	canary_fill(fresh, sizeof(fresh));
	EXPECT(!memcmp(tiny + 4, fresh + 4, 4), "4-byte buffer overrun");
	t_note("fi_eq_read with a 4-byte buffer: %zd (%s)", n, n < 0 ? t_err(n) : "truncated");
	if (n < 0) {
		/* still there */
		srv_take(&s, &ev, 1000);
		srv_accept(&s, &ev, &p2, &o, NULL, 0);
		eq_need(s.eq, FI_CONNECTED, &ev, 5000);
		eq_need(c2.eq, FI_CONNECTED, &ev, 5000);
		ep_close(&p2);
	}
	ep_close(&c2);
	srv_close(&s);
	t_end("data of 0..%zu bytes intact both ways, no overrun, peek keeps the event", limit);
}
