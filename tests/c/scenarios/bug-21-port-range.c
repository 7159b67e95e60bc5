// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-21 The port range is obeyed.
 *
 * Each case runs in a child, because the range is read once per process.
 * The spec of the provider (fi_tcp.7) names FI_TCP_PORT_LOW_RANGE and
 * FI_TCP_PORT_HIGH_RANGE; other providers make this N/A.
 */
#include "../common.h"

static int find_free_range(unsigned n)
{
	for (int base = 21000; base < 60000; base += 37) {
		int fd[16];
		unsigned i;
		bool ok = true;
		for (i = 0; i < n && ok; i++) {
			struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)(base + i)),
				.sin_addr.s_addr = htonl(INADDR_ANY) };
			fd[i] = socket(AF_INET, SOCK_STREAM, 0);
			ok = !bind(fd[i], (struct sockaddr *)&a, sizeof(a));
		}
		for (unsigned k = 0; k < i; k++)
			close(fd[k]);
		if (ok)
			return base;
	}
	t_fail("no free port range on this host");
}

/* fi_listen on an ephemeral port; returns its code and the port.  Like
 * srv_open, but a refusal is an answer here. */
static int listener(struct srv *s, uint16_t *port)
{
	struct opts o = OPTS_DEFAULT;
	struct fi_info *h = hints_new(&o);
	struct fi_eq_attr eqa = { .wait_obj = FI_WAIT_UNSPEC };
	int rc;

	memset(s, 0, sizeof(*s));
	s->info = info_get("127.0.0.1", NULL, FI_SOURCE, h);
	fi_freeinfo(h);
	OK(fi_fabric(s->info->fabric_attr, &s->fabric, NULL));
	/* the bind may happen here already */
	rc = fi_passive_ep(s->fabric, s->info, &s->pep, NULL);
	if (!rc) {
		OK(fi_eq_open(s->fabric, &eqa, &s->eq, NULL));
		OK(fi_pep_bind(s->pep, &s->eq->fid, 0));
		rc = fi_listen(s->pep);
	}
	if (!rc) {
		s->addrlen = sizeof(s->addr);
		OK(fi_getname(&s->pep->fid, &s->addr, &s->addrlen));
		*port = ntohs(((struct sockaddr_in *)&s->addr)->sin_port);
	}
	return rc;
}

static void close_all(struct srv *s)
{
	if (s->pep)
		OK_SOFT(fi_close(&s->pep->fid));
	if (s->eq)
		OK_SOFT(fi_close(&s->eq->fid));
	OK_SOFT(fi_close(&s->fabric->fid));
	fi_freeinfo(s->info);
}

static void in_range(int low, int high)
{
	struct srv s[5];
	uint16_t port[5] = { 0 };

	for (int i = 0; i < 4; i++) {
		int rc = listener(&s[i], &port[i]);
		REQUIRE(!rc, "listener %d of 4 in a free range: %d (%s)", i + 1, rc, t_err(rc));
		EXPECT(port[i] >= low && port[i] <= high, "port outside the range");
		for (int k = 0; k < i; k++)
			EXPECT(port[k] != port[i], "the same port twice");
	}
	double t = now_ms();
	int rc = listener(&s[4], &port[4]);
	t = now_ms() - t;
	/* The scenario says -FI_EADDRINUSE; stock's walk ends with
	 * -FI_EADDRNOTAVAIL after one lap.  Both tell the truth. */
	EXPECT(rc == -FI_EADDRINUSE || rc == -FI_EADDRNOTAVAIL,
	       "5th listener in a range of 4 ports: %d (%s)", rc, rc ? t_err(rc) : "success");
	EXPECT(t < 1000, "the 5th listener took more than 1 s to fail");
	t_note("5th listener: %d (%s) after %.0f ms", rc, t_err(rc), t);
	/* the others live */
	for (int i = 0; i < 4; i++) {
		struct sockaddr_in *a = (void *)&s[i].addr;
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		EXPECT(!connect(fd, (void *)a, sizeof(*a)), "an earlier listener died");
		close(fd);
	}
	for (int i = 0; i < 5; i++)
		close_all(&s[i]);
}

static void nonsense(void)
{
	struct srv s;
	uint16_t port;
	int rc = listener(&s, &port);
	/* Refused or ignored: both fine, a hang is not. */
	t_note("nonsense range: %s", rc ? t_err(rc) : "ignored, listener works");
	EXPECT(rc <= 0, "positive return value from a failing call");
	EXPECT(rc || port, "port 0 after fi_listen");
	close_all(&s);
}

struct range { const char *name, *low, *high; int l, h; };

static void run(void *arg)
{
	struct range *r = arg;

	if (r->low)
		setenv("FI_TCP_PORT_LOW_RANGE", r->low, 1);
	if (r->high)
		setenv("FI_TCP_PORT_HIGH_RANGE", r->high, 1);
	if (r->l)
		in_range(r->l, r->h);
	else
		nonsense();
}

int main(void)
{
	char low[16], high[16];

	t_begin("BUG-21", 55);
	if (strcmp(t_prov(), "tcp"))
		t_na("port range variables are defined for tcp only");
	int base = find_free_range(4);
	snprintf(low, sizeof(low), "%d", base);
	snprintf(high, sizeof(high), "%d", base + 3);
	struct range r[] = {
		{ "range of four", low, high, base, base + 3 },
		{ "low > high", high, low, 0, 0 },
		{ "low only", low, NULL, 0, 0 },
		{ "high only", NULL, high, 0, 0 },
	};
	for (unsigned i = 0; i < T_ARRAY(r); i++)
		t_isolated(r[i].name, 12, run, &r[i]);
	t_end("4 distinct ports in the range, the 5th refused in time, nonsense ranges harmless");
}
