// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-28 Connect/disconnect churn.
 *
 * 2000 cycles of connect, 64 bytes each way, shutdown from alternating sides,
 * close, with RLIMIT_NOFILE 256.  Descriptors, threads and memory must be
 * flat.  Environment CYCLES changes the number.
 */
#include "../common.h"

static void wait_shutdown(struct fid_eq *eq, struct fid *fid)
{
	struct cm_event ev;
	eq_need(eq, FI_SHUTDOWN, &ev, 5000);
	EXPECT(ev.e.fid == fid, "FI_SHUTDOWN with the wrong fid");
}

/* The side that called fi_shutdown may have one event too (D4). */
static void drain(struct fid_eq *eq)
{
	struct cm_event ev;
	while (eq_next(eq, &ev, 0) >= 0)
		EXPECT(ev.event == FI_SHUTDOWN, "left over event %s", ev_name(ev.event));
}

int main(void)
{
	const char *r = getenv("CYCLES");
	int cycles = r ? atoi(r) : 2000;
	struct opts o = OPTS_DEFAULT;
	struct rlimit rl = { 256, 256 };
	struct fid_fabric *fab;
	struct fid_domain *dom;
	struct fid_eq *eq;
	struct fi_eq_attr eqa = { .size = 64, .wait_obj = FI_WAIT_UNSPEC };
	struct srv s;
	int fds = 0, threads = 0;
	long rss = 0;

	t_begin("BUG-28", 58);
	setrlimit(RLIMIT_NOFILE, &rl);
	srv_open(&s, &o);
	struct fi_info *h = hints_new(&o), *info = info_get(s.node, s.service, 0, h);
	fi_freeinfo(h);
	OK(fi_fabric(info->fabric_attr, &fab, NULL));
	OK(fi_domain(fab, info, &dom, NULL));
	OK(fi_eq_open(fab, &eqa, &eq, NULL));
	pump_add_eq(eq);
	for (int i = 1; i <= cycles; i++) {
		struct ep c, p;
		struct cm_event ev;

		t_step("cycle %d", i);
		ep_make(&c, fi_dupinfo(info), &o, fab, dom, eq);
		OK(cli_connect(&c, NULL, 0));
		srv_take(&s, &ev, 5000);
		srv_accept(&s, &ev, &p, &o, NULL, 0);      /* own domain, as in the deck */
		eq_need(s.eq, FI_CONNECTED, &ev, 5000);
		eq_need(eq, FI_CONNECTED, &ev, 5000);
		xfer(&c, &p, 64, (uint64_t)i);
		xfer(&p, &c, 64, (uint64_t)i + 1);
		if (i & 1) {
			OK(fi_shutdown(c.ep, 0));
			wait_shutdown(s.eq, &p.ep->fid);
			drain(eq);
		} else {
			OK(fi_shutdown(p.ep, 0));
			wait_shutdown(eq, &c.ep->fid);
			drain(s.eq);
		}
		ep_close(&c);
		ep_close(&p);
		if (i == 100) {
			fds = count_fds();
			threads = count_threads();
		}
		if (i == cycles / 4)
			rss = rss_kb();
		if (i % 100 == 0 && i > 100) {
			EXPECT(count_fds() <= fds + 2, "descriptors grew from %d at cycle 100 to %d at cycle %d", fds, count_fds(), i);
			EXPECT(count_threads() <= threads, "threads grew from %d to %d", threads, count_threads());
			if (t_failures())
				break;
		}
	}
	long grown = rss_kb() - rss;
	t_note("descriptors %d -> %d, RSS growth from cycle %d on: %ld KiB", fds, count_fds(), cycles / 4, grown);
#if !defined(__SANITIZE_ADDRESS__)
	EXPECT(grown < 1024, "RSS grew by %ld KiB after cycle %d", grown, cycles / 4);
#endif
	OK_SOFT(fi_close(&dom->fid));
	pump_drop_eq(eq);
	OK_SOFT(fi_close(&eq->fid));
	OK_SOFT(fi_close(&fab->fid));
	fi_freeinfo(info);
	srv_close(&s);
	t_end("%d cycles, descriptors, threads and memory flat", cycles);
}
