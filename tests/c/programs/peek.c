// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * fi_eq(3), FI_PEEK: "event data may be read but not removed": the same entry
 * again and again, by fi_eq_read, fi_eq_sread and fi_eq_readerr, until it is read.
 */
#include "../common.h"

#define TIMES 5

/* Until the queue has something, with progress on both sides. */
static void wait_event(struct fid_eq *eq)
{
	struct cm_event ev;

	for (double end = now_ms() + 5000; now_ms() < end; pump())
		if (fi_eq_read(eq, &ev.event, &ev.e, sizeof(ev.e), FI_PEEK) != -FI_EAGAIN)
			return;
	t_fail("the queue stays empty");
}

int main(void)
{
	struct opts o = OPTS_DEFAULT;
	struct srv s;
	struct ep c;
	struct cm_event ev, first = { .len = 0 };
	struct fi_eq_err_entry err;
	const char reason[] = "not today";
	ssize_t rc;

	t_begin("peek", 20);
	srv_open(&s, &o);
	cli_make(&c, &s, &o);
	rc = fi_eq_read(s.eq, &ev.event, &ev.e, sizeof(ev.e), FI_PEEK);
	EXPECT(rc == -FI_EAGAIN, "peek at an empty queue: %zd", rc);
	OK(cli_connect(&c, "hello", 5));

	t_step("an event");
	wait_event(s.eq);
	for (int i = 0; i < TIMES; i++) {
		memset(&ev, 0, sizeof(ev));
		rc = fi_eq_sread(s.eq, &ev.event, &ev.e, sizeof(ev.e) + sizeof(ev.data), 5000, FI_PEEK);
		REQUIRE(rc >= (ssize_t)sizeof(ev.e) + 5 && ev.event == FI_CONNREQ, "fi_eq_sread with FI_PEEK: %zd", rc);
		EXPECT(!memcmp(ev.data, "hello", 5), "private data under FI_PEEK");
		if (!i)
			first = ev;
		EXPECT(ev.e.info == first.e.info && ev.e.fid == &s.pep->fid, "peek %d gives another entry", i);
		rc = fi_eq_read(s.eq, &ev.event, &ev.e, sizeof(ev.e), FI_PEEK);
		EXPECT(rc == sizeof(ev.e) && ev.e.info == first.e.info, "fi_eq_read with FI_PEEK: %zd", rc);
	}
	srv_take(&s, &ev, 0);
	EXPECT(ev.e.info == first.e.info, "the entry read is not the one peeked at");
	rc = fi_eq_read(s.eq, &ev.event, &first.e, sizeof(first.e), FI_PEEK);
	EXPECT(rc == -FI_EAGAIN, "peek behind the only entry: %zd", rc);

	t_step("an error entry");
	OK(fi_reject(s.pep, ev.e.info->handle, reason, sizeof(reason)));
	fi_freeinfo(ev.e.info);
	wait_event(c.eq);
	for (int i = 0; i < TIMES; i++) {
		rc = fi_eq_sread(c.eq, &ev.event, &ev.e, sizeof(ev.e), 5000, i & 1 ? FI_PEEK : 0);
		EXPECT(rc == -FI_EAVAIL, "fi_eq_sread in front of an error entry: %zd", rc);
	}
	for (int i = 0; i <= TIMES; i++) {
		memset(&err, 0, sizeof(err));
		rc = fi_eq_readerr(c.eq, &err, i < TIMES ? FI_PEEK : 0);
		EXPECT(rc == sizeof(err) && err.err == FI_ECONNREFUSED && err.fid == &c.ep->fid, "error entry, time %d: %zd, %d", i, rc, err.err);
		EXPECT(err.err_data_size >= sizeof(reason) && !memcmp(err.err_data, reason, sizeof(reason)),
		       "error data, time %d: %zu bytes", i, err.err_data_size);
	}
	rc = fi_eq_readerr(c.eq, &err, 0);
	EXPECT(rc == -FI_EAGAIN, "fi_eq_readerr once the entry is read: %zd", rc);
	ep_close(&c);
	srv_close(&s);
	t_end("events and errors stay until they are read");
}
