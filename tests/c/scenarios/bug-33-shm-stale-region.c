// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-33 Stale shm region after SIGKILL.
 *
 * A opens a named shm endpoint and is killed.  B opens the same name within
 * 1 s and talks to a peer.  While B lives, C cannot take the name, and B is not
 * disturbed: its partner goes on and a newcomer still finds it.  After clean
 * exits nothing is left in /dev/shm.  Then the same in
 * a second PID namespace: a live region is never stolen, although its owner's
 * pid means nothing there.
 */
#include "../common.h"
#include <sched.h>
#include <sys/mount.h>

static char node[32];

struct shared { char b_addr[256], p_addr[256], n_addr[256], c_addr[256]; volatile int b_ready, p_ready, again, again_done, quit, code; };
static struct shared *sh;

static void wait_flag(volatile int *f, const char *what)
{
	for (double end = now_ms() + 8000; !*f; sleep_ms(1)) {
		pump();
		REQUIRE(now_ms() < end, "%s: no answer from the other process", what);
	}
}

/* B: owner of the name; answers on demand. */
static void owner(void)
{
	struct rdm r;
	char in[3000], out[3000];

	double t = now_ms();
	int rc = rdm_open(&r, "shm", node, "1", FI_TAGGED);
	REQUIRE(!rc, "opening the name of a killed process: %d (%s)", rc, t_err(rc));
	EXPECT(now_ms() - t < 1000, "opening the name of a killed process took %.0f ms", now_ms() - t);
	strcpy(sh->b_addr, r.addr);
	sh->b_ready = 1;
	wait_flag(&sh->p_ready, "owner");
	fi_addr_t to = rdm_insert(&r, sh->p_addr);
	for (uint64_t i = 0; i < 3; i++) {
		rdm_trecv(&r, in, sizeof(in), i, 20000);
		if (i == 2)
			to = rdm_insert(&r, sh->n_addr);
		EXPECT(pattern_check(in, sizeof(in), i) < 0, "owner received wrong bytes");
		pattern_fill(out, sizeof(out), 100 + i);
		rdm_tsend(&r, to, out, sizeof(out), 50 + i, 15000);
	}
	wait_flag(&sh->quit, "owner");
	rdm_close(&r);
	exit(t_failures() ? 1 : 0);           /* normal exit, with destructors */
}

/* The peer that talks to B, before and after C's attempt. */
static void partner(void)
{
	struct rdm r;
	char in[3000], out[3000];

	OK(rdm_open(&r, "shm", node, "2", FI_TAGGED));
	strcpy(sh->p_addr, r.addr);
	wait_flag(&sh->b_ready, "partner");
	fi_addr_t to = rdm_insert(&r, sh->b_addr);
	sh->p_ready = 1;
	for (uint64_t i = 0; i < 2; i++) {
		if (i) {
			wait_flag(&sh->again, "partner");
		}
		pattern_fill(out, sizeof(out), i);
		rdm_tsend(&r, to, out, sizeof(out), i, 15000);
		rdm_trecv(&r, in, sizeof(in), 50 + i, 15000);
		EXPECT(pattern_check(in, sizeof(in), 100 + i) < 0, "partner received wrong bytes");
		if (!i)
			sh->again_done = 1;
	}
	rdm_close(&r);
	exit(t_failures() ? 1 : 0);
}

/* A process that meets B only after C's attempt. */
static void newcomer(void)
{
	struct rdm r;
	char in[3000], out[3000];

	OK(rdm_open(&r, "shm", node, "3", FI_TAGGED));
	strcpy(sh->n_addr, r.addr);
	t_step("newcomer addresses B");
	fi_addr_t to = rdm_insert(&r, sh->b_addr);
	pattern_fill(out, sizeof(out), 2);
	rdm_tsend(&r, to, out, sizeof(out), 2, 4000);
	rdm_trecv(&r, in, sizeof(in), 52, 4000);
	EXPECT(pattern_check(in, sizeof(in), 102) < 0, "newcomer received wrong bytes");
	rdm_close(&r);
	exit(t_failures() ? 1 : 0);
}

/* C: tries to take the name; result code to the shared page. */
static void thief(void)
{
	struct rdm r;
	int rc = rdm_open(&r, "shm", node, "1", FI_TAGGED);
	sh->code = rc;
	if (!rc) {
		snprintf(sh->c_addr, sizeof(sh->c_addr), "%s", r.addr);
		/* B's own region must not be cleaned up by C: just leave. */
		if (!strcmp(sh->c_addr, sh->b_addr))
			_exit(0);
		rdm_close(&r);
	}
	_exit(0);
}

/* In a new user + PID + mount namespace, /dev/shm stays shared. */
static void thief_elsewhere(void)
{
	char map[64];
	uid_t uid = getuid();

	sh->code = 1;                         /* "not run" */
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID))
		_exit(0);
	int fd = open("/proc/self/setgroups", O_WRONLY);
	if (fd >= 0) {
		if (write(fd, "deny", 4) < 0) { }
		close(fd);
	}
	fd = open("/proc/self/uid_map", O_WRONLY);
	int n = snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	if (fd < 0 || write(fd, map, (size_t)n) != n)
		_exit(0);
	close(fd);
	pid_t pid = fork();
	if (pid == 0) {
		if (mount("proc", "/proc", "proc", 0, NULL))
			_exit(0);
		alarm(10);
		thief();
	}
	int st;
	waitpid(pid, &st, 0);
	_exit(0);
}

static void attempt(const char *where, void (*who)(void))
{
	t_step("C with the live name, %s", where);
	sh->code = 2;
	pid_t pid = t_fork(12);
	if (pid == 0)
		who();
	int rc = t_wait(pid, 13000);
	EXPECT(rc == 0, "C: %s (%d)", rc == -1000 || rc == 91 ? "hang" : "crash", rc);
	if (sh->code == 1)
		t_note("%s: namespaces not available, part not run", where);
	else if (sh->code == 0)
		t_bad("opening a live name succeeded: %s", strcmp(sh->c_addr, sh->b_addr) ?
		      "C silently got another name" : "C took over B's region");
	else
		EXPECT(sh->code == -FI_EADDRINUSE || sh->code == -FI_EBUSY, "opening a live name: %d (%s), not -FI_EADDRINUSE",
		       sh->code, t_err(sh->code));
}

static void scene(void *arg)
{
	void (*who)(void) = arg;
	const char *where = who == thief ? "same namespace" : "second PID namespace";
	pid_t a, b, p;

	snprintf(node, sizeof(node), "bug33-%d", getpid());
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int before = shm_files(node);

	t_step("A is killed");
	a = t_fork(10);
	if (a == 0) {
		struct rdm r;
		OK(rdm_open(&r, "shm", node, "1", FI_TAGGED));
		sh->code = 7;
		for (;;)
			pause();
	}
	wait_flag(&sh->code, "A");
	kill(a, SIGKILL);
	t_wait(a, 2000);
	t_note("%d region(s) left by A", shm_files(node) - before);

	t_step("B and its partner");
	if ((b = t_fork(30)) == 0)
		owner();
	if ((p = t_fork(30)) == 0)
		partner();
	wait_flag(&sh->again_done, "B and its partner");
	attempt(where, who);
	t_step("B after C's attempt");
	sh->again = 1;
	int rp = t_wait(p, 18000);
	EXPECT(rp == 0, "B's partner after C's attempt: %s", rp == -1000 || rp == 91 ? "hang" : rp < 0 || rp == 90 ? "crash" : "failed, see notes");
	pid_t nc = t_fork(12);
	if (nc == 0)
		newcomer();
	int rn = t_wait(nc, 12000);
	EXPECT(rn == 0, "a newcomer cannot reach B after C's attempt: %s", rn == -1000 || rn == 91 ? "hang" : rn < 0 || rn == 90 ? "crash" : "failed, see notes");
	if (rn) {
		kill(b, SIGKILL);             /* B still waits for the newcomer */
		t_wait(b, 1000);
		shm_clean(node);
		return;
	}
	sh->quit = 1;
	int rb = t_wait(b, 10000);
	EXPECT(rb == 0, "B: %s", rb == -1000 || rb == 91 ? "hang" : rb < 0 || rb == 90 ? "crash" : "failed, see notes");
	EXPECT(shm_files(node) <= before, "%d region(s) left in /dev/shm after clean exits", shm_files(node) - before);
	shm_clean(node);
}

int main(void)
{
	struct fi_info *h = fi_allocinfo(), *info = NULL;

	t_begin("BUG-33", 58);
	h->fabric_attr->prov_name = strdup("shm");
	if (fi_getinfo(T_API, NULL, NULL, 0, h, &info))
		t_na("no shm provider");
	fi_freeinfo(info);
	fi_freeinfo(h);
	t_isolated("same namespace", 28, scene, (void *)thief);
	t_isolated("second PID namespace", 28, scene, (void *)thief_elsewhere);
	t_end("stale name taken over, live name protected, nothing left behind");
}
