// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Helpers of the C programs; see common.h. */
#include "common.h"
#include <dirent.h>
#include <malloc.h>
#include <sys/prctl.h>

/* ------------------------------------------------------------ verdicts */

static const char *g_id = "?";
static char     g_step[160] = "start";
static char     g_bad[24][280];
static unsigned g_nbad, g_fails;
static unsigned g_parts_run, g_parts_na;  /* of t_isolated */
static unsigned *g_broken;              /* rules that stock broke, shared with children */
static bool     g_child;
#define REPORT 512                      /* two texts of this size, shared with the parent */
static char    *g_report;
static pid_t    g_owner;

/* Only async-signal-safe calls below: used from signal handlers. */
static void put(const char *s) { if (write(STDOUT_FILENO, s, strlen(s)) < 0) { } }

static void on_fatal(int sig)
{
	if (g_child || getpid() != g_owner)
		_exit(90 + (sig == SIGALRM));
	put(g_id);
	if (sig == SIGALRM)
		put(" FAIL hang: watchdog, in step: ");
	else if (sig == SIGABRT)
		put(" FAIL crash: SIGABRT, in step: ");
	else if (sig == SIGBUS)
		put(" FAIL crash: SIGBUS, in step: ");
	else if (sig == SIGFPE || sig == SIGILL)
		put(" FAIL crash: SIGFPE/SIGILL, in step: ");
	else
		put(" FAIL crash: SIGSEGV, in step: ");
	put(g_step);
	if (g_nbad) {
		put("; before that: ");
		put(g_bad[0]);
	}
	put("\n");
	_exit(1);
}

/* Valgrind and sanitizers take their time. */
static unsigned slower(void) { return getenv("SLOW") ? 20 : 1; }

void t_begin(const char *id, unsigned seconds)
{
	static const int fatal[] = { SIGALRM, SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL };
	static char stack[64 * 1024];
	stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction sa = { .sa_handler = on_fatal, .sa_flags = SA_ONSTACK };

	g_id = id;
	g_owner = getpid();
	g_child = getenv("T_PEER") != NULL;
	g_broken = mmap(NULL, sizeof(*g_broken), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (g_broken == MAP_FAILED)
		t_fail("mmap: %s", strerror(errno));
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigaltstack(&ss, NULL);
	for (size_t i = 0; i < T_ARRAY(fatal); i++)
		sigaction(fatal[i], &sa, NULL);
	alarm(seconds * slower());
}

void t_step(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(g_step, sizeof(g_step), fmt, ap);
	va_end(ap);
	if (g_report)
		snprintf(g_report + REPORT, REPORT, "%s", g_step);
}

void t_note(const char *fmt, ...)
{
	va_list ap;
	fputs(g_child ? "# (child) " : "# ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

void t_bad(const char *fmt, ...)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	char text[sizeof(g_bad[0])];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&lock);
	g_fails++;
	for (unsigned i = 0; i < g_nbad; i++)
		if (!strcmp(g_bad[i], text)) {
			pthread_mutex_unlock(&lock);
			return;
		}
	if (g_nbad < T_ARRAY(g_bad)) {
		strcpy(g_bad[g_nbad++], text);
		t_note("%s", text);
		if (g_report) {
			size_t n = strlen(g_report);
			snprintf(g_report + n, REPORT - n, "%s%s", n ? ", " : "", text);
		}
	}
	pthread_mutex_unlock(&lock);
}

unsigned t_failures(void) { return g_fails; }

bool t_stock(void) { return getenv("STOCK") != NULL; }

void t_broken(const char *rule, const char *fmt, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!t_stock()) {
		t_bad("%s: %s", rule, text);
		return;
	}
	t_note("stock breaks \"%s\": %s", rule, text);
	__atomic_add_fetch(g_broken, 1, __ATOMIC_RELAXED);
}

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
static bool leaks(void) { return __lsan_do_recoverable_leak_check(); }
#else
static bool leaks(void) { return false; }
#endif

static _Noreturn void verdict(const char *word, int code, const char *text)
{
	alarm(0);
	if (g_child || getpid() != g_owner) {
		t_note("%s", text);
		_exit(code);
	}
	fflush(stderr);
	printf("%s %s %s\n", g_id, word, text);
	fflush(stdout);
	/* Not exit(): a broken library destructor must not change the verdict. */
	_exit(code);
}

static _Noreturn void fail_all(const char *extra)
{
	char text[1600];
	size_t n = 0;

	text[0] = 0;
	for (unsigned i = 0; i < g_nbad && i < 6; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", n ? "; " : "", g_bad[i]);
	if (extra && n < sizeof(text))
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", n ? "; " : "", extra);
	if (g_nbad > 6 && n < sizeof(text))
		snprintf(text + n, sizeof(text) - n, "; and %u more", g_nbad - 6);
	verdict("FAIL", 1, text);
}

void t_fail(const char *fmt, ...)
{
	char text[400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (g_child) {
		t_bad("%s", text);
		_exit(1);
	}
	fail_all(text);
}

void t_na(const char *fmt, ...)
{
	char text[400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	verdict("NA", 77, text);
}

void t_end(const char *fmt, ...)
{
	char text[400];
	va_list ap;
	if (g_fails)
		fail_all(NULL);
	if (g_parts_na && !g_parts_run)
		verdict("NA", 77, "no part of the scenario applies to this library");
	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* verdict() leaves without what exit() would do */
	if (leaks())
		verdict("FAIL", 1, "memory is lost, see the sanitizer's report");
	if (*g_broken && n >= 0 && (size_t)n < sizeof(text))
		snprintf(text + n, sizeof(text) - (size_t)n, " (stock breaks rules here: %u times, see notes)", *g_broken);
	verdict("PASS", 0, text);
}

const char *t_err(long rc) { return rc < 0 ? fi_strerror((int)-rc) : "not an error"; }

const char *t_prov(void)
{
	const char *p = getenv("PROV");
	return p && *p ? p : "tcp";
}

uint32_t t_lib_version(void) { return fi_version(); }

int t_temp(char path[T_PATH], const char *name)
{
	const char *dir = getenv("TMPDIR");
	int n = snprintf(path, T_PATH, "%s/%s-XXXXXX", dir && *dir ? dir : "/tmp", name);
	int fd = n < T_PATH ? mkstemp(path) : -1;

	if (fd < 0)
		t_fail("no file in %s: %s", path, strerror(n < T_PATH ? errno : ENAMETOOLONG));
	return fd;
}

/* -------------------------------------------------------- measurements */

double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

void sleep_ms(unsigned ms)
{
	struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };
	while (nanosleep(&t, &t) && errno == EINTR) { }
}

static int count_dir(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;
	if (!d)
		return -1;
	for (struct dirent *e; (e = readdir(d)); )
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

int count_fds(void) { return count_dir("/proc/self/fd") - 1; /* opendir's own */ }
int count_threads(void) { return count_dir("/proc/self/task"); }

long rss_kb(void)
{
	char line[256];
	long kb = -1;
	FILE *f = fopen("/proc/self/status", "r");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "VmRSS: %ld", &kb) == 1)
			break;
	fclose(f);
	return kb;
}

double cpu_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

size_t heap_bytes(void)
{
	struct mallinfo2 m = mallinfo2();
	return m.uordblks + m.hblkhd;
}

static _Atomic double g_lag;
static void *lag_main(void *arg)
{
	for (;;) {
		double t = now_ms();
		sleep_ms(5);
		t = now_ms() - t - 5;
		if (t > g_lag)
			g_lag = t;
	}
	return NULL;
}

void lag_start(void)
{
	pthread_t th;
	if (!pthread_create(&th, NULL, lag_main, NULL))
		pthread_detach(th);
}
void   lag_reset(void) { g_lag = 0; }
double lag_ms(void) { return g_lag; }

/* ------------------------------------------- buffers that notice writes */

static size_t guard_span(size_t size, size_t *page)
{
	*page = (size_t)sysconf(_SC_PAGESIZE);
	return (size + *page - 1) / *page * *page + *page;
}

void *guard_alloc(size_t size)
{
	size_t page, span = guard_span(size, &page);
	char *m = mmap(NULL, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED || mprotect(m + span - page, page, PROT_NONE))
		t_fail("guard_alloc(%zu): %s", size, strerror(errno));
	return m + span - page - size;
}

void guard_free(void *p, size_t size)
{
	size_t page, span = guard_span(size, &page);
	munmap((char *)p + size + page - span, span);
}

#define CANARY(i) ((unsigned char)(0xC3 ^ (i) * 7))
void canary_fill(void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((unsigned char *)p)[i] = CANARY(i);
}

long canary_check(const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (((const unsigned char *)p)[i] != CANARY(i))
			return (long)i;
	return -1;
}

static uint64_t pattern_word(uint64_t i, uint64_t seed)
{
	return (i + 1) * UINT64_C(0x9E3779B97F4A7C15) ^ seed * UINT64_C(0xD1B54A32D192ED03);
}

void pattern_fill(void *p, size_t n, uint64_t seed)
{
	unsigned char *b = p;
	size_t i;
	for (i = 0; i + 8 <= n; i += 8) {
		uint64_t w = pattern_word(i / 8, seed);
		memcpy(b + i, &w, 8);
	}
	if (i < n) {
		uint64_t w = pattern_word(i / 8, seed);
		memcpy(b + i, &w, n - i);
	}
}

long pattern_check(const void *p, size_t n, uint64_t seed)
{
	const unsigned char *b = p;
	for (size_t i = 0; i < n; i += 8) {
		uint64_t w = pattern_word(i / 8, seed);
		size_t k = n - i < 8 ? n - i : 8;
		if (memcmp(b + i, &w, k))
			return (long)i;
	}
	return -1;
}

/* ------------------------------------------------------------- children */

static void forget_queues(void);

pid_t t_fork(unsigned seconds)
{
	pid_t parent = getpid(), pid;

	fflush(stdout);
	fflush(stderr);
	pid = fork();
	if (pid < 0)
		t_fail("fork: %s", strerror(errno));
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(99);
		g_child = true;
		g_fails = g_nbad = 0;
		g_report = NULL;
		forget_queues();       /* the parent's queues are not ours to progress */
		alarm(seconds * slower());
	}
	return pid;
}

void t_child_exit(void) { _exit(g_fails ? 1 : 0); }

int t_wait(pid_t pid, unsigned ms)
{
	double end = now_ms() + (double)ms * slower();
	int st;

	while (waitpid(pid, &st, WNOHANG) == 0) {
		if (now_ms() > end) {
			kill(pid, SIGKILL);
			waitpid(pid, &st, 0);
			return -1000;
		}
		sleep_ms(2);
	}
	return WIFSIGNALED(st) ? -WTERMSIG(st) : WEXITSTATUS(st);
}

/* A failed check of the caller, or of a rule that stock is known to break. */
static void part_failed(const char *rule, const char *what, const char *how, const char *text)
{
	if (rule)
		t_broken(rule, "%s%.150s", how, text);
	else
		t_bad("%s: %s%.200s", what, how, text);
}

static bool part(const char *rule, const char *what, unsigned seconds, void (*body)(void *), void *arg)
{
	char *sh = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (sh == MAP_FAILED)
		t_fail("mmap: %s", strerror(errno));
	pid_t pid = t_fork(seconds);
	if (pid == 0) {
		g_report = sh;         /* t_bad and t_step leave their text there */
		body(arg);
#if defined(__SANITIZE_ADDRESS__)
		exit(g_fails ? 1 : 0); /* with the leak check */
#endif
		t_child_exit();
	}
	int rc = t_wait(pid, seconds * 1000 + 1000);
	sh[REPORT - 1] = sh[2 * REPORT - 1] = 0;
	if (rc == 77) {
		t_note("%s: not applicable, part not run", what);
		g_parts_na++;
		munmap(sh, 4096);
		return true;
	}
	g_parts_run++;
	if (rc == -1000 || rc == 91)
		part_failed(rule, what, "hang in step: ", sh + REPORT);
	else if (rc < 0 || rc == 90)
		part_failed(rule, what, "crash in step: ", sh + REPORT);
	else if (rc)
		part_failed(rule, what, "", sh[0] ? sh : "failed, see notes");
	munmap(sh, 4096);
	return rc == 0;
}

bool t_isolated(const char *what, unsigned seconds, void (*body)(void *), void *arg)
{
	return part(NULL, what, seconds, body, arg);
}

bool t_isolated_rule(const char *rule, unsigned seconds, void (*body)(void *), void *arg)
{
	return part(rule, rule, seconds, body, arg);
}

pid_t t_peer(unsigned seconds, ...)
{
	char *argv[16];
	const char *peer = getenv("PEER");
	int n = 0;
	va_list ap;

	argv[n++] = (char *)(uintptr_t)"peer";
	va_start(ap, seconds);
	do
		argv[n] = va_arg(ap, char *);
	while (argv[n] && ++n < (int)T_ARRAY(argv) - 1);
	argv[n] = NULL;
	va_end(ap);
	pid_t pid = t_fork(seconds);
	if (pid == 0) {
		setenv("T_PEER", "1", 1);
		if (peer)
			setenv("LD_LIBRARY_PATH", peer, 1);
		/* valgrind answers with the program where it is asked for the link, not where that is run */
		char self[4096];
		ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
		self[len > 0 ? len : 0] = 0;
		execv(self, argv);
		t_note("cannot run this program again: %s", strerror(errno));
		_exit(98);
	}
	return pid;
}

/* --------------------------------------------------- progress registry */

#define MAXQ 2048
static __thread struct fid_eq *r_eq[MAXQ];
static __thread struct fid_cq *r_cq[MAXQ];
static __thread unsigned n_eq, n_cq;

void pump_add_eq(struct fid_eq *q) { if (n_eq < MAXQ) r_eq[n_eq++] = q; }
void pump_add_cq(struct fid_cq *q) { if (n_cq < MAXQ) r_cq[n_cq++] = q; }
static void forget_queues(void) { n_eq = n_cq = 0; }
void pump_drop_eq(struct fid_eq *q)
{
	for (unsigned i = 0; i < n_eq; i++)
		if (r_eq[i] == q) { r_eq[i] = r_eq[--n_eq]; return; }
}
void pump_drop_cq(struct fid_cq *q)
{
	for (unsigned i = 0; i < n_cq; i++)
		if (r_cq[i] == q) { r_cq[i] = r_cq[--n_cq]; return; }
}

void pump(void)
{
	struct cm_event ev;
	uint32_t event;

	for (unsigned i = 0; i < n_eq; i++)
		(void)fi_eq_read(r_eq[i], &event, &ev.e, sizeof(ev.e) + sizeof(ev.data), FI_PEEK);
	for (unsigned i = 0; i < n_cq; i++)
		(void)fi_cq_read(r_cq[i], NULL, 0);
}

void pump_ms(unsigned ms)
{
	for (double end = now_ms() + ms; now_ms() < end; sleep_ms(1))
		pump();
}

ssize_t eq_next(struct fid_eq *eq, struct cm_event *ev, unsigned ms)
{
	double end = now_ms() + ms;

	for (unsigned spin = 0;; spin++) {
		memset(ev, 0, sizeof(*ev));
		ssize_t n = fi_eq_read(eq, &ev->event, &ev->e, sizeof(ev->e) + sizeof(ev->data), 0);
		ev->len = n;
		if (n != -FI_EAGAIN)
			return n;
		if (now_ms() >= end)
			return -FI_EAGAIN;
		pump();
		if (spin > 200)
			sleep_ms(1);
	}
}

ssize_t eq_error(struct fid_eq *eq, struct fi_eq_err_entry *err)
{
	memset(err, 0, sizeof(*err));
	return fi_eq_readerr(eq, err, 0);
}

void eq_need(struct fid_eq *eq, uint32_t want, struct cm_event *ev, unsigned ms)
{
	ssize_t n = eq_next(eq, ev, ms);

	if (n == -FI_EAVAIL) {
		struct fi_eq_err_entry err;
		eq_error(eq, &err);
		t_fail("expected %s, got an error entry: err %d (%s), prov_errno %d",
		       ev_name(want), err.err, fi_strerror(err.err), err.prov_errno);
	}
	if (n < 0)
		t_fail("expected %s, fi_eq_read says %zd (%s) after %u ms",
		       ev_name(want), n, t_err(n), ms);
	if (ev->event != want)
		t_fail("expected %s, got %s", ev_name(want), ev_name(ev->event));
}

/* entry: one of the queue's format */
static int cq_next_any(struct fid_cq *cq, void *entry, struct fi_cq_err_entry *err, unsigned ms)
{
	struct fi_cq_err_entry dummy;
	double end = now_ms() + ms;

	for (unsigned spin = 0;; spin++) {
		ssize_t n = fi_cq_read(cq, entry, 1);
		if (n == 1)
			return 1;
		if (n == -FI_EAVAIL) {
			if (!err)
				err = &dummy;
			memset(err, 0, sizeof(*err));
			n = fi_cq_readerr(cq, err, 0);
			if (n != 1)
				t_bad("fi_cq_read said -FI_EAVAIL but fi_cq_readerr returned %zd", n);
			return -FI_EAVAIL;
		}
		if (n != -FI_EAGAIN)
			t_fail("fi_cq_read returned %zd (%s)", n, t_err(n));
		if (now_ms() >= end)
			return 0;
		pump();
		if (spin > 2000)
			sleep_ms(1);
	}
}

int cq_next(struct fid_cq *cq, struct fi_cq_data_entry *c,
	    struct fi_cq_err_entry *err, unsigned ms)
{
	return cq_next_any(cq, c, err, ms);
}

int post_recv(struct ep *e, void *buf, size_t n, void *ctx)
{
	ssize_t rc;
	double end = now_ms() + 10000;
	while ((rc = fi_recv(e->ep, buf, n, NULL, FI_ADDR_UNSPEC, ctx)) == -FI_EAGAIN && now_ms() < end)
		pump();
	return (int)rc;
}

int post_send(struct ep *e, const void *buf, size_t n, void *ctx)
{
	ssize_t rc;
	double end = now_ms() + 10000;
	while ((rc = fi_send(e->ep, buf, n, NULL, FI_ADDR_UNSPEC, ctx)) == -FI_EAGAIN && now_ms() < end)
		pump();
	return (int)rc;
}

void xfer(struct ep *a, struct ep *b, size_t n, uint64_t seed)
{
	unsigned char *s = malloc(n + 1), *r = calloc(1, n + 1);
	struct fi_cq_data_entry c;
	struct fi_cq_err_entry err;
	int rc, ta, tb;

	pattern_fill(s, n, seed);
	if ((rc = post_recv(b, r, n, &tb)))
		t_fail("fi_recv: %d (%s)", rc, t_err(rc));
	if ((rc = post_send(a, s, n, &ta)))
		t_fail("fi_send: %d (%s)", rc, t_err(rc));
	if ((rc = cq_next(a->cq, &c, &err, 5000)) != 1 || c.op_context != &ta)
		t_fail("send of %zu bytes: no good completion (%d, err %d)", n, rc, rc < 0 ? err.err : 0);
	if ((rc = cq_next(b->cq, &c, &err, 5000)) != 1 || c.op_context != &tb)
		t_fail("receive of %zu bytes: no good completion (%d, err %d)", n, rc, rc < 0 ? err.err : 0);
	if (c.len != n)
		t_fail("received length %zu, sent %zu", c.len, n);
	long at = pattern_check(r, n, seed);
	if (at >= 0)
		t_fail("received bytes differ near offset %ld", at);
	free(s);
	free(r);
}

const char *ev_name(uint32_t event)
{
	static const char *const name[] = { "FI_NOTIFY", "FI_CONNREQ", "FI_CONNECTED",
		"FI_SHUTDOWN", "FI_MR_COMPLETE", "FI_AV_COMPLETE", "FI_JOIN_COMPLETE" };
	return event < T_ARRAY(name) ? name[event] : "unknown event";
}

/* ------------------------------------------------------------ deck set-up */

const struct opts OPTS_DEFAULT = {
	.caps = FI_MSG, .cq_wait = FI_WAIT_UNSPEC, .eq_wait = FI_WAIT_UNSPEC,
};

struct fi_info *hints_new(const struct opts *o)
{
	struct fi_info *h = fi_allocinfo();

	if (!h)
		t_fail("fi_allocinfo returned NULL");
	h->caps = o->caps ? o->caps : FI_MSG;
	h->ep_attr->type = FI_EP_MSG;
	h->addr_format = o->addr_format ? o->addr_format : FI_SOCKADDR_IN;
	h->fabric_attr->prov_name = strdup(t_prov());
	h->domain_attr->threading = FI_THREAD_SAFE;
	/* All bits these programs can bear; they never register memory for
	 * local use, so FI_MR_LOCAL is not among them. */
	h->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	if (o->hints)
		o->hints(h);
	return h;
}

struct fi_info *info_get(const char *node, const char *service,
			 uint64_t flags, struct fi_info *hints)
{
	struct fi_info *info = NULL;
	int rc = fi_getinfo(T_API, node, service, flags, hints, &info);

	if (rc == -FI_ENODATA)
		t_na("provider %s offers no matching endpoint (fi_getinfo: no data)", t_prov());
	if (rc || !info)
		t_fail("fi_getinfo(%s, %s): %d (%s)", node ? node : "-",
		       service ? service : "-", rc, t_err(rc));
	return info;
}

static uint16_t sa_port(const struct sockaddr_storage *a)
{
	return ntohs(a->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)a)->sin6_port
					      : ((const struct sockaddr_in *)a)->sin_port);
}

void srv_listen(struct srv *s, struct fi_info *info, const struct opts *o)
{
	struct fi_eq_attr eqa = { .size = 64, .wait_obj = o->eq_wait };

	memset(s, 0, sizeof(*s));
	s->info = info;
	OK(fi_fabric(s->info->fabric_attr, &s->fabric, NULL));
	OK(fi_passive_ep(s->fabric, s->info, &s->pep, NULL));
	OK(fi_eq_open(s->fabric, &eqa, &s->eq, NULL));
	OK(fi_pep_bind(s->pep, &s->eq->fid, 0));
	OK(fi_listen(s->pep));
	s->addrlen = sizeof(s->addr);
	OK(fi_getname(&s->pep->fid, &s->addr, &s->addrlen));
	s->port = sa_port(&s->addr);
	snprintf(s->service, sizeof(s->service), "%u", s->port);
	pump_add_eq(s->eq);
}

void srv_open_at(struct srv *s, const struct opts *o, const char *node, const char *service)
{
	struct fi_info *h = hints_new(o), *info = info_get(node, service, FI_SOURCE, h);

	fi_freeinfo(h);
	srv_listen(s, info, o);
	snprintf(s->node, sizeof(s->node), "%s", node);
}

void srv_open(struct srv *s, const struct opts *o) { srv_open_at(s, o, "127.0.0.1", NULL); }

void srv_close(struct srv *s)
{
	pump_drop_eq(s->eq);
	if (s->pep)
		OK_SOFT(fi_close(&s->pep->fid));
	OK_SOFT(fi_close(&s->eq->fid));
	OK_SOFT(fi_close(&s->fabric->fid));
	fi_freeinfo(s->info);
	memset(s, 0, sizeof(*s));
}

void ep_make(struct ep *e, struct fi_info *info, const struct opts *o,
	     struct fid_fabric *fabric, struct fid_domain *domain, struct fid_eq *eq)
{
	struct fi_eq_attr eqa = { .size = 64, .wait_obj = o->eq_wait };
	struct fi_cq_attr cqa = { .size = o->cq_size ? o->cq_size : 512,
		.format = FI_CQ_FORMAT_DATA, .wait_obj = o->cq_wait, .wait_cond = o->cq_cond };

	memset(e, 0, sizeof(*e));
	e->info = info;
	e->fabric = fabric;
	e->domain = domain;
	e->eq = eq;
	if (!e->fabric) {
		OK(fi_fabric(info->fabric_attr, &e->fabric, NULL));
		e->own_fabric = true;
	}
	if (!e->eq) {
		OK(fi_eq_open(e->fabric, &eqa, &e->eq, NULL));
		e->own_eq = true;
		pump_add_eq(e->eq);
	}
	if (!e->domain) {
		OK(fi_domain(e->fabric, info, &e->domain, NULL));
		e->own_domain = true;
	}
	OK(fi_cq_open(e->domain, &cqa, &e->cq, NULL));
	pump_add_cq(e->cq);
	OK(fi_endpoint(e->domain, info, &e->ep, e));
	OK(fi_ep_bind(e->ep, &e->eq->fid, 0));
	OK(fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT |
		      (o->selective ? FI_SELECTIVE_COMPLETION : 0)));
	OK(fi_ep_bind(e->ep, &e->cq->fid, FI_RECV));
	if (o->bind)
		o->bind(e);
	OK(fi_enable(e->ep));
}

void ep_close(struct ep *e)
{
	if (e->ep)
		OK_SOFT(fi_close(&e->ep->fid));
	if (e->cq) {
		pump_drop_cq(e->cq);
		OK_SOFT(fi_close(&e->cq->fid));
	}
	if (e->own_domain)
		OK_SOFT(fi_close(&e->domain->fid));
	if (e->own_eq) {
		pump_drop_eq(e->eq);
		OK_SOFT(fi_close(&e->eq->fid));
	}
	if (e->own_fabric)
		OK_SOFT(fi_close(&e->fabric->fid));
	fi_freeinfo(e->info);
	memset(e, 0, sizeof(*e));
}

void cli_make(struct ep *e, const struct srv *s, const struct opts *o)
{
	struct fi_info *h = hints_new(o), *info;

	info = info_get(s->node, s->service, 0, h);
	fi_freeinfo(h);
	ep_make(e, info, o, NULL, NULL, NULL);
}

int cli_connect(struct ep *e, const void *data, size_t len)
{
	return fi_connect(e->ep, e->info->dest_addr, data, len);
}

void srv_take(struct srv *s, struct cm_event *req, unsigned ms)
{
	eq_need(s->eq, FI_CONNREQ, req, ms);
	if (req->e.fid != &s->pep->fid)
		t_bad("FI_CONNREQ carries a fid that is not the passive endpoint");
	if (!req->e.info || !req->e.info->handle)
		t_fail("FI_CONNREQ without info or handle");
}

void srv_accept(struct srv *s, struct cm_event *req, struct ep *e,
		const struct opts *o, const void *data, size_t len)
{
	ep_make(e, req->e.info, o, s->fabric, NULL, s->eq);
	req->e.info = NULL;             /* now owned by e */
	OK(fi_accept(e->ep, data, len));
}

void pair_connect(struct srv *s, struct ep *c, struct ep *p, const struct opts *o)
{
	struct cm_event ev;

	OK(cli_connect(c, NULL, 0));
	srv_take(s, &ev, 5000);
	srv_accept(s, &ev, p, o, NULL, 0);
	eq_need(s->eq, FI_CONNECTED, &ev, 5000);
	if (ev.e.fid != &p->ep->fid)
		t_bad("FI_CONNECTED at the server carries the wrong fid");
	eq_need(c->eq, FI_CONNECTED, &ev, 5000);
	if (ev.e.fid != &c->ep->fid)
		t_bad("FI_CONNECTED at the client carries the wrong fid");
}

void pair_join(struct srv *s, struct ep *c, struct ep *p, const struct opts *o)
{
	cli_make(c, s, o);
	pair_connect(s, c, p, o);
}

void pair_open(struct pair *p, const struct opts *o)
{
	srv_open(&p->s, o);
	pair_join(&p->s, &p->c, &p->p, o);
}

void pair_close(struct pair *p)
{
	ep_close(&p->c);
	ep_close(&p->p);
	srv_close(&p->s);
}

/* ------------------------------------------------- FI_EP_RDM (shm scenarios) */

int rdm_open(struct rdm *r, const char *prov, const char *node, const char *service, uint64_t caps)
{
	struct fi_info *h = fi_allocinfo();
	struct fi_av_attr ava = { .type = FI_AV_TABLE, .count = 16 };
	struct fi_cq_attr cqa = { .size = 1024, .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE };
	int rc;

	memset(r, 0, sizeof(*r));
	h->caps = caps;
	h->ep_attr->type = FI_EP_RDM;
	h->fabric_attr->prov_name = strdup(prov);
	h->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	h->domain_attr->threading = FI_THREAD_SAFE;
	rc = fi_getinfo(T_API, node, service, node ? FI_SOURCE : 0, h, &r->info);
	fi_freeinfo(h);
	if (rc == -FI_ENODATA)
		t_na("provider %s offers no matching RDM endpoint", prov);
	if (rc)
		t_fail("fi_getinfo(%s, RDM): %d (%s)", prov, rc, t_err(rc));
	OK(fi_fabric(r->info->fabric_attr, &r->fabric, NULL));
	OK(fi_domain(r->fabric, r->info, &r->domain, NULL));
	OK(fi_av_open(r->domain, &ava, &r->av, NULL));
	OK(fi_cq_open(r->domain, &cqa, &r->cq, NULL));
	rc = fi_endpoint(r->domain, r->info, &r->ep, NULL);
	if (!rc) {
		OK(fi_ep_bind(r->ep, &r->av->fid, 0));
		OK(fi_ep_bind(r->ep, &r->cq->fid, FI_TRANSMIT | FI_RECV));
		rc = fi_enable(r->ep);
	}
	if (rc) {
		rdm_close(r);
		return rc;
	}
	r->addrlen = sizeof(r->addr);
	OK(fi_getname(&r->ep->fid, r->addr, &r->addrlen));
	pump_add_cq(r->cq);
	return 0;
}

void rdm_close(struct rdm *r)
{
	if (r->ep)
		OK_SOFT(fi_close(&r->ep->fid));
	pump_drop_cq(r->cq);
	OK_SOFT(fi_close(&r->cq->fid));
	OK_SOFT(fi_close(&r->av->fid));
	OK_SOFT(fi_close(&r->domain->fid));
	OK_SOFT(fi_close(&r->fabric->fid));
	fi_freeinfo(r->info);
	memset(r, 0, sizeof(*r));
}

fi_addr_t rdm_insert(struct rdm *r, const void *addr)
{
	fi_addr_t a = FI_ADDR_UNSPEC;
	int n = fi_av_insert(r->av, addr, 1, &a, 0, NULL);
	if (n != 1)
		t_fail("fi_av_insert(%s) returned %d", (const char *)addr, n);
	return a;
}

static int shm_walk(const char *tag, bool remove)
{
	DIR *d = opendir("/dev/shm");
	int n = 0;

	for (struct dirent *e; d && (e = readdir(d)); ) {
		char path[300];
		if (!strstr(e->d_name, tag))
			continue;
		n++;
		snprintf(path, sizeof(path), "/dev/shm/%s", e->d_name);
		if (remove)
			unlink(path);
	}
	if (d)
		closedir(d);
	return n;
}

int  shm_files(const char *tag) { return shm_walk(tag, false); }
void shm_clean(const char *tag) { shm_walk(tag, true); }

int rdm_next(struct rdm *r, struct fi_cq_tagged_entry *c, struct fi_cq_err_entry *err, unsigned ms)
{
	return cq_next_any(r->cq, c, err, ms);
}

static void rdm_done(struct rdm *r, const void *ctx, const char *what, size_t n, unsigned ms)
{
	struct fi_cq_tagged_entry c;
	struct fi_cq_err_entry err;
	int rc = rdm_next(r, &c, &err, ms);

	if (rc == 0)
		t_fail("%s of %zu bytes: no completion within %u ms", what, n, ms);
	if (rc < 0)
		t_fail("%s of %zu bytes: error %d (%s)", what, n, err.err, fi_strerror(abs(err.err)));
	if (c.op_context != ctx)
		t_fail("%s of %zu bytes: completion of another operation", what, n);
}

void rdm_tsend(struct rdm *r, fi_addr_t to, const void *buf, size_t n, uint64_t tag, unsigned ms)
{
	double end = now_ms() + ms;
	ssize_t rc;

	while ((rc = fi_tsend(r->ep, buf, n, NULL, to, tag, (void *)buf)) == -FI_EAGAIN && now_ms() < end)
		pump();
	if (rc)
		t_fail("fi_tsend of %zu bytes: %zd (%s)", n, rc, t_err(rc));
	rdm_done(r, buf, "tagged send", n, ms);
}

void rdm_trecv(struct rdm *r, void *buf, size_t n, uint64_t tag, unsigned ms)
{
	double end = now_ms() + ms;
	ssize_t rc;

	while ((rc = fi_trecv(r->ep, buf, n, NULL, FI_ADDR_UNSPEC, tag, 0, buf)) == -FI_EAGAIN && now_ms() < end)
		pump();
	if (rc)
		t_fail("fi_trecv of %zu bytes: %zd (%s)", n, rc, t_err(rc));
	rdm_done(r, buf, "tagged receive", n, ms);
}

/* --------------------------------------------------------------- raw peer */

void raw_cm(unsigned char *h, int version, int type, unsigned data_len)
{
	uint64_t probe = 1;

	memset(h, 0, RAW_CM_LEN);
	h[0] = (unsigned char)version;
	h[1] = (unsigned char)type;
	h[2] = (unsigned char)(data_len >> 8);
	h[3] = (unsigned char)data_len;
	if (type != 6)
		memcpy(h + 24, &probe, 8);
}

int raw_connect(const struct srv *s)
{
	int one = 1, fd = socket(s->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&s->addr, (socklen_t)s->addrlen)) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

int raw_listen(uint16_t *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t l = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 64) ||
	    getsockname(fd, (struct sockaddr *)&a, &l))
		t_fail("raw listener: %s", strerror(errno));
	*port = ntohs(a.sin_port);
	return fd;
}

int raw_write(int fd, const void *p, size_t n)
{
	for (size_t at = 0; at < n; ) {
		ssize_t k = send(fd, (const char *)p + at, n - at, MSG_NOSIGNAL);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return -1;
		at += (size_t)k;
	}
	return 0;
}

int raw_request(int fd, const void *data, unsigned len)
{
	unsigned char m[RAW_CM_LEN + 256];

	raw_cm(m, 3, 0, len);
	if (len)
		memcpy(m + RAW_CM_LEN, data, len);
	return raw_write(fd, m, RAW_CM_LEN + len);
}

void raw_msg(unsigned char *h, uint64_t n)
{
	uint64_t size = n + 16;

	memset(h, 0, 16);
	h[0] = 3;
	h[6] = 16;
	memcpy(h + 8, &size, 8);
}

int raw_read(int fd, void *p, size_t n, unsigned ms)
{
	double end = now_ms() + ms;

	for (size_t at = 0; at < n; ) {
		ssize_t k = recv(fd, (char *)p + at, n - at, MSG_DONTWAIT);
		if (k > 0) {
			at += (size_t)k;
			continue;
		}
		if (k == 0 || (errno != EAGAIN && errno != EINTR) || now_ms() > end)
			return -1;
		pump();
		sleep_ms(1);
	}
	return 0;
}

bool raw_is_closed(int fd)
{
	char b[512];
	ssize_t k;

	while ((k = recv(fd, b, sizeof(b), MSG_DONTWAIT)) > 0) { }
	return k == 0 || (errno != EAGAIN && errno != EINTR);
}
