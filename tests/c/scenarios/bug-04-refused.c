// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-04 A refused connection tells the truth.
 *
 * 50 rounds: connect to a dead port, read the one error entry, check its
 * fields and texts; then start a server on that very port and connect a new
 * endpoint of the same domain.
 */
#include "../common.h"

#define ROUNDS 50

int main(void)
{
	struct opts o = OPTS_DEFAULT;
	struct fi_info *h;
	struct fid_fabric *fabric = NULL;
	struct fid_domain *domain = NULL;
	struct fi_eq_attr eqa = { .size = 64, .wait_obj = FI_WAIT_UNSPEC };
	char text[256], service[16];
	static int cookie;

	t_begin("BUG-04", 55);
	for (int round = 0; round < ROUNDS; round++) {
		struct ep c, c2, p;
		struct srv s;
		struct cm_event ev;
		struct fi_eq_err_entry err;
		struct fid_eq *eq;
		uint16_t port;
		ssize_t n;

		t_step("round %d", round);
		close(raw_listen(&port));           /* a dead port */
		snprintf(service, sizeof(service), "%u", port);
		h = hints_new(&o);
		struct fi_info *info = info_get("127.0.0.1", service, 0, h);
		fi_freeinfo(h);
		if (!fabric) {
			OK(fi_fabric(info->fabric_attr, &fabric, NULL));
			OK(fi_domain(fabric, info, &domain, NULL));
		}
		OK(fi_eq_open(fabric, &eqa, &eq, &cookie));
		ep_make(&c, info, &o, fabric, domain, eq);
		int rc = cli_connect(&c, NULL, 0);
		EXPECT(rc == 0 || rc == -FI_ECONNREFUSED, "fi_connect to a dead port: %d (%s)", rc, t_err(rc));
		if (rc == 0) {
			n = eq_next(eq, &ev, 2000);
			EXPECT(n == -FI_EAVAIL, "no error within 2 s: fi_eq_read gave %zd (%s)", n,
			       n >= 0 ? ev_name(ev.event) : t_err(n));
			if (n == -FI_EAVAIL) {
				n = eq_error(eq, &err);
				EXPECT(n > 0, "fi_eq_readerr returned %zd", n);
				EXPECT(err.err == FI_ECONNREFUSED, "err is %d (%s), not FI_ECONNREFUSED", err.err,
				       fi_strerror(abs(err.err)));
				EXPECT(err.fid == &c.ep->fid, "error entry names the wrong fid");
				EXPECT(err.context == &c || err.context == &cookie,
				       "error entry's context is %s, expected the endpoint's context",
				       err.context ? "unknown" : "NULL");
				if (err.context == &cookie)
					t_note("context is the event queue's, not the endpoint's");
				const char *str = fi_eq_strerror(eq, err.prov_errno, err.err_data, text, sizeof(text));
				EXPECT(str && *str, "fi_eq_strerror gives no text");
				if (str)
					EXPECT(strcasecmp(str, "success") && strcasecmp(text, "success"),
					       "fi_eq_strerror(prov_errno %d) says \"%s\"", err.prov_errno, str);
				EXPECT(strcasecmp(fi_strerror(err.err), "success"), "fi_strerror says Success");
			}
			/* exactly one */
			n = eq_next(eq, &ev, 30);
			EXPECT(n == -FI_EAGAIN, "a second entry after the refusal: %s",
			       n >= 0 ? ev_name(ev.event) : t_err(n));
		}

		/* now the server starts, same port */
		srv_open_at(&s, &o, "127.0.0.1", service);
		h = hints_new(&o);
		info = info_get(s.node, s.service, 0, h);
		fi_freeinfo(h);
		ep_make(&c2, info, &o, fabric, domain, NULL);
		OK(cli_connect(&c2, NULL, 0));
		srv_take(&s, &ev, 5000);
		srv_accept(&s, &ev, &p, &o, NULL, 0);
		eq_need(s.eq, FI_CONNECTED, &ev, 5000);
		eq_need(c2.eq, FI_CONNECTED, &ev, 5000);
		xfer(&c2, &p, 64, (uint64_t)round);
		ep_close(&c2);
		ep_close(&p);
		srv_close(&s);
		ep_close(&c);
		OK_SOFT(fi_close(&eq->fid));
	}
	OK_SOFT(fi_close(&domain->fid));
	OK_SOFT(fi_close(&fabric->fid));
	t_end("%d refusals reported once each with FI_ECONNREFUSED, new endpoint connects", ROUNDS);
}
