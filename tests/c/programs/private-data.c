// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Private data of every size up to FI_OPT_CM_DATA_SIZE, in connect, accept and
 * reject, arrives unchanged; one byte more is refused by the call, and nothing
 * is sent (D1).
 */
#include "../common.h"

static size_t limit;

/* The bytes, and no more than padding behind them. */
static void same(const char *what, const void *got, size_t len, const void *sent, size_t n)
{
	EXPECT(len >= n && len <= n + 7, "%s: %zu bytes arrive of %zu", what, len, n);
	EXPECT(!memcmp(got, sent, n), "%s: %zu bytes differ", what, n);
}

static void accepted(struct srv *s, size_t n, const unsigned char *up, const unsigned char *down)
{
	struct opts o = OPTS_DEFAULT;
	struct ep c, p;
	struct cm_event ev;

	t_step("accept, %zu bytes", n);
	cli_make(&c, s, &o);
	OK(cli_connect(&c, up, n));
	srv_take(s, &ev, 5000);
	same("connect", ev.data, CM_DATA_LEN(&ev), up, n);
	srv_accept(s, &ev, &p, &o, down, n);
	eq_need(s->eq, FI_CONNECTED, &ev, 5000);
	EXPECT(ev.len == sizeof(ev.e), "the accepting side's FI_CONNECTED has %zu bytes of data", CM_DATA_LEN(&ev));
	eq_need(c.eq, FI_CONNECTED, &ev, 5000);
	same("accept", ev.data, CM_DATA_LEN(&ev), down, n);
	ep_close(&c);
	ep_close(&p);
}

static void rejected(struct srv *s, size_t n, const unsigned char *down)
{
	struct opts o = OPTS_DEFAULT;
	struct ep c;
	struct cm_event ev;
	struct fi_eq_err_entry err = { 0 };

	t_step("reject, %zu bytes", n);
	cli_make(&c, s, &o);
	OK(cli_connect(&c, NULL, 0));
	srv_take(s, &ev, 5000);
	OK(fi_reject(s->pep, ev.e.info->handle, down, n));
	fi_freeinfo(ev.e.info);
	ssize_t rc = eq_next(c.eq, &ev, 5000);
	REQUIRE(rc == -FI_EAVAIL, "a rejected client reads %zd", rc);
	REQUIRE(eq_error(c.eq, &err) > 0, "no error entry");
	EXPECT(err.err == FI_ECONNREFUSED, "a rejected client gets error %d", err.err);
	EXPECT(err.fid == &c.ep->fid, "the error is not of the client's endpoint");
	if (n)
		same("reject", err.err_data, err.err_data_size, down, n);
	else
		EXPECT(!err.err_data_size, "%zu bytes of data without any", err.err_data_size);
	ep_close(&c);
}

static void too_long(struct srv *s, const unsigned char *data)
{
	struct opts o = OPTS_DEFAULT;
	struct ep c, p;
	struct cm_event ev;
	int rc;

	t_step("one byte too many");
	cli_make(&c, s, &o);
	rc = cli_connect(&c, data, limit + 1);
	EXPECT(rc == -FI_EINVAL, "fi_connect with %zu bytes: %d", limit + 1, rc);
	/* stock does not look at these lengths, so it must not be given more */
	if (t_stock()) {
		t_note("fi_accept and fi_reject with %zu bytes: not tried on stock", limit + 1);
		ep_close(&c);
		return;
	}
	OK(cli_connect(&c, NULL, 0));
	srv_take(s, &ev, 5000);
	ep_make(&p, ev.e.info, &o, s->fabric, NULL, s->eq);
	rc = fi_accept(p.ep, data, limit + 1);
	EXPECT(rc == -FI_EINVAL, "fi_accept with %zu bytes: %d", limit + 1, rc);
	OK(fi_accept(p.ep, NULL, 0));
	eq_need(s->eq, FI_CONNECTED, &ev, 5000);
	eq_need(c.eq, FI_CONNECTED, &ev, 5000);
	ep_close(&c);
	ep_close(&p);
	cli_make(&c, s, &o);
	OK(cli_connect(&c, NULL, 0));
	srv_take(s, &ev, 5000);
	rc = fi_reject(s->pep, ev.e.info->handle, data, limit + 1);
	EXPECT(rc == -FI_EINVAL, "fi_reject with %zu bytes: %d", limit + 1, rc);
	OK(fi_reject(s->pep, ev.e.info->handle, NULL, 0));
	fi_freeinfo(ev.e.info);
	EXPECT(eq_next(c.eq, &ev, 5000) == -FI_EAVAIL, "the client was not rejected");
	ep_close(&c);
}

int main(void)
{
	struct opts o = OPTS_DEFAULT;
	struct srv s;
	struct ep c;
	size_t len = sizeof(limit), of_pep;
	unsigned char up[1025], down[1025];

	t_begin("private-data", 50);
	srv_open(&s, &o);
	cli_make(&c, &s, &o);
	OK(fi_getopt(&c.ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &limit, &len));
	OK(fi_getopt(&s.pep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &of_pep, &len));
	EXPECT(of_pep == limit, "the passive endpoint allows %zu bytes, the endpoint %zu", of_pep, limit);
	REQUIRE(limit < sizeof(up), "FI_OPT_CM_DATA_SIZE is %zu", limit);
	ep_close(&c);
	for (size_t n = 0; n <= limit; n++) {
		pattern_fill(up, n, n);
		pattern_fill(down, n, n + 5000);
		accepted(&s, n, up, down);
		rejected(&s, n, down);
	}
	too_long(&s, up);
	srv_close(&s);
	t_end("0 to %zu bytes arrive unchanged, %zu are refused", limit, limit + 1);
}
