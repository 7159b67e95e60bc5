// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A server that takes its time: it reads the request, and accepts 12 seconds
 * later.  Its client waits for it, since programs for libfabric count on that.
 */
#include "../common.h"

int main(void)
{
	struct opts o = OPTS_DEFAULT;
	struct srv s;
	struct ep c, p;
	struct cm_event ev;

	t_begin("late-accept", 40);
	srv_open(&s, &o);
	cli_make(&c, &s, &o);
	OK(cli_connect(&c, "hello", 5));
	srv_take(&s, &ev, 5000);

	t_step("busy with something else");
	pump_ms(12000);
	srv_accept(&s, &ev, &p, &o, "welcome", 7);
	eq_need(c.eq, FI_CONNECTED, &ev, 5000);
	EXPECT(CM_DATA_LEN(&ev) == 7 && !memcmp(ev.data, "welcome", 7), "private data of the accept");
	eq_need(s.eq, FI_CONNECTED, &ev, 5000);
	xfer(&c, &p, 100, 1);
	ep_close(&c);
	ep_close(&p);
	srv_close(&s);
	t_end("the client waited");
}
