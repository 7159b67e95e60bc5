// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-05 Reject carries its reason.
 *
 * The server rejects with 0, 1, 16 and 256 bytes.  The client reads the error
 * entry with err_data_size 0 (library memory), and with its own buffers of 8
 * and 256 bytes.  One error, no FI_CONNECTED, no FI_SHUTDOWN; afterwards the
 * listener accepts another client.
 */
#include "../common.h"

static unsigned settle = 50;   /* ms to wait for a surplus event */

static void one(struct srv *s, unsigned n, size_t own)
{
	struct opts o = OPTS_DEFAULT;
	struct ep c;
	struct cm_event ev;
	struct fi_eq_err_entry err;
	unsigned char data[256], buf[512];
	ssize_t rc;

	t_step("reject with %u bytes, own buffer %zu", n, own);
	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)(i * 3 + 1);
	cli_make(&c, s, &o);
	OK(cli_connect(&c, NULL, 0));
	srv_take(s, &ev, 5000);
	rc = fi_reject(s->pep, ev.e.info->handle, n ? data : NULL, n);
	EXPECT(rc == 0, "fi_reject with %u bytes: %zd (%s)", n, rc, t_err(rc));
	fi_freeinfo(ev.e.info);

	rc = eq_next(c.eq, &ev, 5000);
	if (rc != -FI_EAVAIL) {
		t_bad("reject with %u bytes: client got %s instead of an error entry", n,
		      rc >= 0 ? ev_name(ev.event) : t_err(rc));
		ep_close(&c);
		return;
	}
	memset(&err, 0, sizeof(err));
	canary_fill(buf, sizeof(buf));
	if (own) {
		err.err_data = buf;
		err.err_data_size = own;
	}
	rc = fi_eq_readerr(c.eq, &err, 0);
	EXPECT(rc > 0, "fi_eq_readerr: %zd (%s)", rc, t_err(rc));
	EXPECT(err.err == FI_ECONNREFUSED, "err is %d (%s), not FI_ECONNREFUSED", err.err, fi_strerror(abs(err.err)));
	EXPECT(err.fid == &c.ep->fid, "error entry names the wrong fid");
	if (!own) {
		/* Library memory, valid until the next EQ read.  Trailing bytes
		 * may be padding. */
		EXPECT(err.err_data_size >= n, "%u bytes sent, err_data_size %zu", n, err.err_data_size);
		if (n == 0)
			EXPECT(err.err_data_size == 0, "no reject data sent, err_data_size %zu", err.err_data_size);
		if (n && err.err_data_size >= n) {
			EXPECT(err.err_data != NULL, "err_data is NULL with err_data_size %zu", err.err_data_size);
			EXPECT(err.err_data && !memcmp(err.err_data, data, n), "reject data of %u bytes differs", n);
		}
	} else {
		size_t want = n < own ? n : own;
		unsigned char fresh[sizeof(buf)];
		canary_fill(fresh, sizeof(fresh));
		EXPECT(err.err_data == buf || n == 0, "own buffer of %zu bytes, %u bytes sent: err_data was replaced", own, n);
		EXPECT(err.err_data_size <= own, "own buffer of %zu bytes: err_data_size %zu", own, err.err_data_size);
		EXPECT(err.err_data_size >= want, "own buffer of %zu bytes, %u bytes sent: err_data_size %zu", own, n, err.err_data_size);
		EXPECT(!memcmp(buf, data, want), "own buffer of %zu bytes: reject data of %u bytes differs", own, n);
		EXPECT(!memcmp(buf + own, fresh + own, sizeof(buf) - own), "own buffer of %zu bytes overrun", own);
	}
	rc = eq_next(c.eq, &ev, settle);
	EXPECT(rc == -FI_EAGAIN, "a second entry after the reject: %s", rc >= 0 ? ev_name(ev.event) : t_err(rc));
	rc = eq_next(s->eq, &ev, 0);
	EXPECT(rc == -FI_EAGAIN, "the server got an event after its reject: %s", rc >= 0 ? ev_name(ev.event) : t_err(rc));
	ep_close(&c);
}

int main(void)
{
	static const unsigned size[] = { 0, 1, 16, 256 };
	static const size_t own[] = { 0, 8, 256 };
	struct opts o = OPTS_DEFAULT;
	struct srv s;
	struct ep c, p;

	t_begin("BUG-05", 55);
	srv_open(&s, &o);
	for (unsigned i = 0; i < T_ARRAY(size); i++)
		for (unsigned k = 0; k < T_ARRAY(own); k++)
			one(&s, size[i], own[k]);
	t_step("the listener still works");
	pair_join(&s, &c, &p, &o);
	xfer(&c, &p, 1000, 3);
	ep_close(&c);
	ep_close(&p);

	t_step("leaks");
	settle = 5;
	for (unsigned i = 0; i < 20; i++)
		one(&s, 16, 0);
	size_t heap = heap_bytes();
	int fds = count_fds();
	for (unsigned i = 0; i < 200; i++)
		one(&s, 16, 0);
	long grown = (long)heap_bytes() - (long)heap;
	EXPECT(count_fds() <= fds + 2, "descriptors grew from %d to %d over 200 rejects", fds, count_fds());
	EXPECT(grown < 200 * 64, "the heap grew by %ld bytes over 200 rejects", grown);
	srv_close(&s);
	t_end("reason delivered in all sizes, one error each, listener unharmed");
}
