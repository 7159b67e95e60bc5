// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-09 Connect stampede.
 *
 * N clients call fi_connect inside 100 ms while the server sleeps 2 s after
 * fi_listen.  Each sends its number as private data.  Everyone is connected
 * within 15 s and the server sees each number exactly once.
 */
#include "../common.h"

#define MAXN 512

static void clients(struct srv *s, unsigned n, int go)
{
	static struct ep c[MAXN];
	struct opts o = OPTS_DEFAULT;
	struct fi_info *h = hints_new(&o), *info;
	struct fi_eq_attr eqa = { .size = MAXN * 2, .wait_obj = FI_WAIT_UNSPEC };
	struct fid_fabric *fab;
	struct fid_domain *dom;
	struct fid_eq *eq;
	struct cm_event ev;
	unsigned connected = 0;
	char byte;

	info = info_get(s->node, s->service, 0, h);
	OK(fi_fabric(info->fabric_attr, &fab, NULL));
	OK(fi_domain(fab, info, &dom, NULL));
	OK(fi_eq_open(fab, &eqa, &eq, NULL));
	o.cq_wait = FI_WAIT_NONE;
	o.cq_size = 16;
	for (unsigned i = 0; i < n; i++)
		ep_make(&c[i], fi_dupinfo(info), &o, fab, dom, eq);
	REQUIRE(read(go, &byte, 1) == 1, "start signal");
	double t = now_ms();
	for (uint32_t i = 0; i < n; i++) {
		int rc = cli_connect(&c[i], &i, sizeof(i));
		EXPECT(!rc, "fi_connect of client %u: %d (%s)", i, rc, t_err(rc));
	}
	t_note("%u fi_connect calls in %.0f ms", n, now_ms() - t);
	while (connected < n && now_ms() - t < 17000) {
		ssize_t rc = eq_next(eq, &ev, 100);
		if (rc == -FI_EAVAIL) {
			struct fi_eq_err_entry err;
			eq_error(eq, &err);
			t_bad("a client got an error instead of FI_CONNECTED: %d (%s)", err.err, fi_strerror(abs(err.err)));
		} else if (rc >= 0) {
			EXPECT(ev.event == FI_CONNECTED, "a client got %s", ev_name(ev.event));
			connected += ev.event == FI_CONNECTED;
		}
	}
	t = now_ms() - t;
	EXPECT(connected == n, "%u of %u clients connected", connected, n);
	EXPECT(t < 17000, "connecting %u clients took longer than 15 s after the server woke up", n);
	t_note("%u of %u connected after %.0f ms (2000 of them server sleep)", connected, n, t);
	/* stay until the server is done */
	REQUIRE(read(go, &byte, 1) >= 0, "end signal");
	t_child_exit();
}

static void stampede(unsigned n)
{
	static struct ep p[MAXN];
	static unsigned char seen[MAXN];
	struct opts o = OPTS_DEFAULT;
	struct srv s;
	struct cm_event ev;
	struct fid_domain *dom;
	unsigned got = 0, connected = 0;
	int go[2];

	t_step("%u clients", n);
	memset(seen, 0, sizeof(seen));
	o.cq_wait = FI_WAIT_NONE;
	o.cq_size = 16;
	/* srv_open, but with the backlog request before fi_listen */
	struct fi_info *h = hints_new(&o);
	struct fi_eq_attr eqa = { .size = MAXN * 2, .wait_obj = FI_WAIT_UNSPEC };
	memset(&s, 0, sizeof(s));
	s.info = info_get("127.0.0.1", NULL, FI_SOURCE, h);
	fi_freeinfo(h);
	OK(fi_fabric(s.info->fabric_attr, &s.fabric, NULL));
	OK(fi_passive_ep(s.fabric, s.info, &s.pep, NULL));
	OK(fi_eq_open(s.fabric, &eqa, &s.eq, NULL));
	OK(fi_pep_bind(s.pep, &s.eq->fid, 0));
	int backlog = 1024;
	int rc = fi_control(&s.pep->fid, FI_BACKLOG, &backlog);
	EXPECT(rc == 0 || rc == -FI_ENOSYS || rc == -FI_EOPNOTSUPP, "fi_control(FI_BACKLOG): %d (%s)", rc, t_err(rc));
	t_note("fi_control(FI_BACKLOG, 1024): %s", rc ? t_err(rc) : "accepted");
	OK(fi_listen(s.pep));
	s.addrlen = sizeof(s.addr);
	OK(fi_getname(&s.pep->fid, &s.addr, &s.addrlen));
	strcpy(s.node, "127.0.0.1");
	snprintf(s.service, sizeof(s.service), "%u", ntohs(((struct sockaddr_in *)&s.addr)->sin_port));
	OK(fi_domain(s.fabric, s.info, &dom, NULL));

	REQUIRE(!pipe(go), "pipe");
	pid_t pid = t_fork(30);
	if (pid == 0) {
		close(go[1]);
		clients(&s, n, go[0]);
	}
	close(go[0]);
	sleep_ms(300 + n);                /* let the clients open their endpoints */
	REQUIRE(write(go[1], "g", 1) == 1, "start signal");
	sleep_ms(2000);
	double t = now_ms();
	while ((got < n || connected < n) && now_ms() - t < 15000) {
		ssize_t len = fi_eq_sread(s.eq, &ev.event, &ev.e, sizeof(ev.e) + sizeof(ev.data), 100, 0);
		if (len == -FI_EAGAIN)
			continue;
		if (len == -FI_EAVAIL) {
			struct fi_eq_err_entry err;
			eq_error(s.eq, &err);
			t_bad("server: error entry %d (%s)", err.err, fi_strerror(abs(err.err)));
			continue;
		}
		REQUIRE(len >= 0, "fi_eq_sread: %zd (%s)", len, t_err(len));
		ev.len = len;
		if (ev.event == FI_CONNECTED) {
			connected++;
			continue;
		}
		if (ev.event != FI_CONNREQ) {
			t_bad("server: %s", ev_name(ev.event));
			continue;
		}
		uint32_t id = UINT32_MAX;
		if (CM_DATA_LEN(&ev) >= 4)
			memcpy(&id, ev.data, 4);
		if (id >= n) {
			t_bad("a FI_CONNREQ without a valid client number");
			fi_reject(s.pep, ev.e.info->handle, NULL, 0);
			fi_freeinfo(ev.e.info);
			continue;
		}
		EXPECT(!seen[id], "a client number was seen twice");
		seen[id] = 1;
		ep_make(&p[id], ev.e.info, &o, s.fabric, dom, s.eq);
		OK(fi_accept(p[id].ep, NULL, 0));
		got++;
	}
	EXPECT(got == n, "server saw %u of %u clients", got, n);
	EXPECT(connected == n, "server got %u FI_CONNECTED for %u clients", connected, n);
	sleep_ms(200);
	close(go[1]);
	rc = t_wait(pid, 15000);
	EXPECT(rc == 0, "clients: %s", rc == -1000 || rc == 91 ? "hang" : rc < 0 || rc == 90 ? "crash" : "see notes");
	for (unsigned i = 0; i < n; i++)
		if (p[i].ep)
			ep_close(&p[i]);
	OK_SOFT(fi_close(&dom->fid));
	OK_SOFT(fi_close(&s.pep->fid));
	OK_SOFT(fi_close(&s.eq->fid));
	OK_SOFT(fi_close(&s.fabric->fid));
	fi_freeinfo(s.info);
}

int main(void)
{
	struct rlimit rl;

	t_begin("BUG-09", 58);
	stampede(64);
	getrlimit(RLIMIT_NOFILE, &rl);
	rl.rlim_cur = rl.rlim_max < 4096 ? rl.rlim_max : 4096;
	setrlimit(RLIMIT_NOFILE, &rl);
	if (rl.rlim_cur >= 4096)
		stampede(512);
	else
		t_note("RLIMIT_NOFILE below 4096, 512 clients not run");
	t_end("all clients connected, each seen exactly once");
}
