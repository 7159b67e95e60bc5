// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-36 Signal dispositions are the application's.
 *
 * Listing providers and using tcp changes no disposition; after shm is closed
 * everything is as before; a handler the application installed before opening
 * shm runs, and the library does not end the process.  Threads of the library
 * block the signals an application handles.
 */
#include "../common.h"
#include <dirent.h>

static struct sigaction base[65];

static void record(struct sigaction *sa)
{
	for (int s = 1; s < 65; s++)
		if (sigaction(s, NULL, &sa[s]))
			memset(&sa[s], 0, sizeof(sa[s]));
}

static void compare(const char *when)
{
	struct sigaction now[65];

	record(now);
	for (int s = 1; s < 65; s++)
		if (now[s].sa_handler != base[s].sa_handler || now[s].sa_flags != base[s].sa_flags)
			t_bad("%s: %s changed", when, sigabbrev_np(s) ? sigabbrev_np(s) : "signal");
}

/* Threads other than ours must block the usual application signals. */
static void threads(const char *when)
{
	static const int sig[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD, SIGALRM };
	DIR *d = opendir("/proc/self/task");
	unsigned n = 0;

	for (struct dirent *e; d && (e = readdir(d)); ) {
		char path[300], line[256];
		unsigned long long blocked = 0;
		FILE *f;

		if (e->d_name[0] == '.' || atoi(e->d_name) == getpid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);
		if (!(f = fopen(path, "r")))
			continue;
		while (fgets(line, sizeof(line), f))
			sscanf(line, "SigBlk: %llx", &blocked);
		fclose(f);
		n++;
		for (size_t i = 0; i < T_ARRAY(sig); i++)
			EXPECT(blocked & (1ull << (sig[i] - 1)), "%s: a thread of the library does not block %s", when, strsignal(sig[i]));
	}
	if (d)
		closedir(d);
	t_note("%s: %u library threads", when, n);
}

static void listing(void *arg)
{
	struct fi_info *info = NULL;

	record(base);
	fi_getinfo(T_API, NULL, NULL, 0, NULL, &info);
	fi_freeinfo(info);
	compare("after fi_getinfo");
}

static void msg(void *arg)
{
	struct opts o = OPTS_DEFAULT;
	struct pair p;

	record(base);
	pair_open(&p, &o);
	xfer(&p.c, &p.p, 100, 1);
	compare("with an open connection");
	threads("with an open connection");
	pair_close(&p);
	compare("after closing the connection");
}

static void shm(void *arg)
{
	struct rdm r;
	char node[32];

	snprintf(node, sizeof(node), "bug36-%d", getpid());
	record(base);
	int rc = rdm_open(&r, "shm", node, "1", FI_MSG);
	REQUIRE(!rc, "opening shm: %d (%s)", rc, t_err(rc));
	threads("with shm open");
	rdm_close(&r);
	compare("after closing shm");
}

static volatile sig_atomic_t hits;
static void handler(int sig, siginfo_t *si, void *uc) { hits++; }

static void app_handler(void *arg)
{
	struct sigaction sa = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
	struct rdm r;
	char node[32];

	snprintf(node, sizeof(node), "bug36-%d", getpid());
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	record(base);
	int rc = rdm_open(&r, "shm", node, "1", FI_MSG);
	REQUIRE(!rc, "opening shm: %d (%s)", rc, t_err(rc));
	t_step("raise(SIGTERM) with shm open and an own handler");
	raise(SIGTERM);
	EXPECT(hits == 1, "the application's SIGTERM handler ran %d times", (int)hits);
	t_step("raise(SIGINT) with shm open and an own handler");
	raise(SIGINT);
	EXPECT(hits == 2, "the application's SIGINT handler ran %d times", (int)hits - 1);
	/* the endpoint still works: the library must not have cleaned it up */
	t_step("self send after the signals");
	fi_addr_t me = rdm_insert(&r, r.addr);
	struct fi_cq_tagged_entry c;
	struct fi_cq_err_entry err;
	char in[16], out[16] = "x";
	OK(fi_recv(r.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in));
	ssize_t n;
	for (double end = now_ms() + 3000; (n = fi_send(r.ep, out, sizeof(out), NULL, me, out)) == -FI_EAGAIN && now_ms() < end; )
		pump();
	EXPECT(!n, "send after the signals: %zd (%s)", n, t_err(n));
	for (int i = 0; i < 2 && !n; i++)
		EXPECT(rdm_next(&r, &c, &err, 2000) == 1, "completions after the signals");
	rdm_close(&r);
	compare("after closing shm");
}

int main(void)
{
	t_begin("BUG-36", 50);
	t_isolated("list providers", 10, listing, NULL);
	t_isolated("message endpoint", 10, msg, NULL);
	t_isolated("shm", 10, shm, NULL);
	t_isolated("shm with application handlers", 15, app_handler, NULL);
	t_end("no disposition changed, application handlers run, library threads block signals");
}
