// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-08 Lifetime of the FI_CONNREQ handle, in every order.
 *
 * Each order runs many rounds in its own child, with fi_freeinfo early and
 * late.  Afterwards descriptors and heap are back, and the listener accepts a
 * normal client.  Build with SAN=address for use-after-free and leak reports;
 * without it heap growth and crashes are the indicators.
 *
 * Environment ROUNDS: rounds per order (default 1000).
 */
#include "../common.h"

enum order {
	REJECT_ONLY,
	EP_REJECT_CLOSE,      /* fi_endpoint, fi_reject, fi_close(ep) */
	EP_CLOSE_REJECT,      /* fi_endpoint, fi_close(ep), fi_reject */
	EP_ENABLE_CLOSE,      /* neither accept nor reject */
	ACCEPT_CLOSE,         /* accept, close at once */
	CLIENT_DIES_ACCEPT,   /* client closed between FI_CONNREQ and accept */
	CLIENT_DIES_REJECT,
	N_ORDERS
};
static const char *const name[N_ORDERS] = {
	"reject only", "endpoint-reject-close", "endpoint-close-reject",
	"endpoint-enable-close", "accept-close", "client dies, accept", "client dies, reject",
};

static struct opts o;
static struct srv s;
static struct fid_domain *sdom;           /* the server's, shared by all rounds */
static struct fid_fabric *cfab;
static struct fid_domain *cdom;
static struct fi_info *cinfo;

/* What the client saw: error entries, FI_CONNECTED, FI_SHUTDOWN. */
struct seen { int err, connected, shutdown, other; };

static void watch(struct ep *c, struct seen *w, unsigned ms)
{
	struct cm_event ev;
	struct fi_eq_err_entry err;
	double end = now_ms() + ms;

	do {
		ssize_t n = eq_next(c->eq, &ev, 2);
		if (n == -FI_EAVAIL) {
			if (eq_error(c->eq, &err) > 0)
				w->err++;
		} else if (n >= 0) {
			if (ev.event == FI_CONNECTED) w->connected++;
			else if (ev.event == FI_SHUTDOWN) w->shutdown++;
			else w->other++;
		} else if (w->err || w->shutdown) {
			return;
		}
	} while (now_ms() < end);
}

static void drain_server(void)
{
	struct cm_event ev;
	struct fi_eq_err_entry err;
	ssize_t n;

	while ((n = eq_next(s.eq, &ev, 0)) != -FI_EAGAIN) {
		if (n == -FI_EAVAIL) {
			if (eq_error(s.eq, &err) <= 0)
				break;
		} else if (n < 0) {
			break;
		} else if (ev.event == FI_CONNREQ) {
			fi_reject(s.pep, ev.e.info->handle, NULL, 0);
			fi_freeinfo(ev.e.info);
		}
	}
}

static void round_trip(enum order k, bool early)
{
	struct ep c;
	struct fid_ep *ep = NULL;
	struct fid_cq *cq = NULL;
	struct fi_cq_attr cqa = { .size = 64, .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE };
	struct cm_event ev;
	struct seen w = { 0 };
	bool client_gone = false;
	int rc;

	ep_make(&c, fi_dupinfo(cinfo), &o, cfab, cdom, NULL);
	OK(cli_connect(&c, "abc", 3));
	srv_take(&s, &ev, 5000);
	struct fi_info *info = ev.e.info;
	fid_t handle = info->handle;

	if (k == CLIENT_DIES_ACCEPT || k == CLIENT_DIES_REJECT) {
		ep_close(&c);
		client_gone = true;
		pump();
	}
	if (k != REJECT_ONLY && k != CLIENT_DIES_REJECT) {
		OK(fi_endpoint(sdom, info, &ep, NULL));
		if (early) { fi_freeinfo(info); info = NULL; }
	} else if (early) {
		fi_freeinfo(info);
		info = NULL;
	}

	switch (k) {
	case REJECT_ONLY:
	case CLIENT_DIES_REJECT:
		rc = fi_reject(s.pep, handle, "no", 2);
		if (k == REJECT_ONLY)
			EXPECT(!rc, "%s: fi_reject %d (%s)", name[k], rc, t_err(rc));
		break;
	case EP_REJECT_CLOSE:
		OK_SOFT(fi_reject(s.pep, handle, "no", 2));
		OK_SOFT(fi_close(&ep->fid));
		ep = NULL;
		break;
	case EP_CLOSE_REJECT:
		OK_SOFT(fi_close(&ep->fid));
		ep = NULL;
		rc = fi_reject(s.pep, handle, "no", 2);
		EXPECT(rc == 0 || rc == -FI_EINVAL, "%s: fi_reject %d (%s)", name[k], rc, t_err(rc));
		break;
	default:
		OK(fi_cq_open(sdom, &cqa, &cq, NULL));
		OK(fi_ep_bind(ep, &s.eq->fid, 0));
		OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
		OK(fi_enable(ep));
		if (k == ACCEPT_CLOSE)
			OK_SOFT(fi_accept(ep, "yes", 3));
		else if (k == CLIENT_DIES_ACCEPT)
			(void)fi_accept(ep, "yes", 3);    /* may fail or not */
	}
	if (k == CLIENT_DIES_ACCEPT) {
		for (int i = 0; i < 3; i++)
			pump();
	}
	if (ep)
		OK_SOFT(fi_close(&ep->fid));
	if (cq)
		OK_SOFT(fi_close(&cq->fid));
	if (!early && info)
		fi_freeinfo(info);

	if (!client_gone) {
		watch(&c, &w, 2000);
		bool fine = (w.err == 1 && !w.connected && !w.shutdown) ||
			    (!w.err && w.connected == 1 && w.shutdown == 1);
		/* accepted and closed at once may also end as a connect error */
		EXPECT(fine && !w.other, "%s: client saw %d errors, %d FI_CONNECTED, %d FI_SHUTDOWN",
		       name[k], w.err, w.connected, w.shutdown);
		ep_close(&c);
	}
	drain_server();
}

static int cycle(enum order k, int rounds, double deadline)
{
	struct fi_info *h;
	int i;

	srv_open(&s, &o);
	OK(fi_domain(s.fabric, s.info, &sdom, NULL));
	h = hints_new(&o);
	cinfo = info_get(s.node, s.service, 0, h);
	fi_freeinfo(h);
	OK(fi_fabric(cinfo->fabric_attr, &cfab, NULL));
	OK(fi_domain(cfab, cinfo, &cdom, NULL));
	for (i = 0; i < rounds && now_ms() < deadline && t_failures() < 50; i++)
		round_trip(k, i & 1);
	pump_ms(50);
	drain_server();
	/* the listener still works */
	struct ep c, p;
	pair_join(&s, &c, &p, &o);
	xfer(&c, &p, 100, 1);
	ep_close(&c);
	ep_close(&p);
	OK_SOFT(fi_close(&sdom->fid));
	srv_close(&s);
	OK_SOFT(fi_close(&cdom->fid));
	OK_SOFT(fi_close(&cfab->fid));
	fi_freeinfo(cinfo);
	return i;
}

/* Everything is closed between the two measurements, so a library may keep
 * an unanswered handle until its passive endpoint is closed. */
static int rounds = 1000;

static void run(void *arg)
{
	enum order k = *(enum order *)arg;

	o = OPTS_DEFAULT;
	cycle(k, 20, now_ms() + 3000);
	size_t heap = heap_bytes();
	int fds = count_fds();
	int done = cycle(k, rounds, now_ms() + 7000);
	if (done < rounds)
		t_note("%s: stopped after %d rounds", name[k], done);
	long grown = (long)heap_bytes() - (long)heap;
	EXPECT(count_fds() <= fds + 2, "descriptors grew from %d to %d", fds, count_fds());
	EXPECT(grown < done * 16L + 4096, "%ld bytes a round leaked, also after closing the listener",
	       done ? grown / done : 0);
}

int main(void)
{
	const char *r = getenv("ROUNDS");

	if (r)
		rounds = atoi(r);
	t_begin("BUG-08", 58);
	for (enum order k = 0; k < N_ORDERS; k++) {
		double t = now_ms();
		t_step("%s", name[k]);
		t_isolated(name[k], 14, run, &k);
		t_note("%s: %.1f s", name[k], (now_ms() - t) / 1000);
	}
	t_end("every order: no crash, no leak, one answer for the client, listener works");
}
