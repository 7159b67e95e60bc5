// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Helpers of the C programs: verdicts, watchdog, the deck's set-up of server
 * and client, a raw TCP peer, canaries, child processes, measurements.
 *
 * Every program is one subject:
 *
 *     t_begin("counters", 30);          // start the watchdog
 *     ... REQUIRE(...) / EXPECT(...)    // hard / soft checks
 *     ... RULE("fi_cq(3): ...", ...)    // a check that stock is known to fail
 *     t_end("what was checked");        // one final line, exit 0 or 1
 *
 * A program prints exactly one line "NAME PASS|FAIL|NA reason" on stdout and
 * exits 0, 1 or 77.  Notes go to stderr and start with "# ".  A crash or a
 * hang is turned into a FAIL line as well.
 *
 * Only the public API of libfabric is used, so the programs run unchanged over
 * any libfabric.so.1.
 */
#ifndef KOFI_TESTS_C_COMMON_H
#define KOFI_TESTS_C_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#define T_API FI_VERSION(1, 17)
#define T_ARRAY(a) (sizeof(a) / sizeof((a)[0]))

/* ------------------------------------------------------------ verdicts */

/* Start the program: name as printed, watchdog limit in seconds.  Under valgrind
 * or a sanitizer (environment SLOW) the limit is twenty times as long. */
void t_begin(const char *id, unsigned seconds);
/* Name the current step; it appears in hang and crash verdicts. */
void t_step(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A remark for the reader (stderr). */
void t_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Record a failed check and go on.  Equal texts are counted once. */
void t_bad(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* How many checks have failed so far. */
unsigned t_failures(void);
/* End now.  t_end is PASS unless a check failed before. */
_Noreturn void t_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void t_na(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void t_end(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Whether stock libfabric is known to be under test (environment STOCK). */
bool t_stock(void);
/* A check of a rule that stock libfabric breaks: there it is noted and counted,
 * everywhere else it is a failed check.  The rule is named with its source. */
#define RULE(rule, cond, ...) do { if (!(cond)) t_broken(rule, __VA_ARGS__); } while (0)
void t_broken(const char *rule, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define EXPECT(cond, ...)  do { if (!(cond)) t_bad(__VA_ARGS__); } while (0)
#define REQUIRE(cond, ...) do { if (!(cond)) t_fail(__VA_ARGS__); } while (0)
/* A libfabric call that must return 0. */
#define OK(call) do { \
	long t_rc_ = (long)(call); \
	if (t_rc_) \
		t_fail("%s:%d: %s returned %ld (%s)", __FILE__, __LINE__, \
		       #call, t_rc_, t_err(t_rc_)); \
	} while (0)
/* The same, but only recorded. */
#define OK_SOFT(call) do { \
	long t_rc_ = (long)(call); \
	if (t_rc_) \
		t_bad("%s:%d: %s returned %ld (%s)", __FILE__, __LINE__, \
		      #call, t_rc_, t_err(t_rc_)); \
	} while (0)

/* Text of a libfabric return value (negative error code). */
const char *t_err(long rc);
/* Provider under test: environment PROV, default "tcp". */
const char *t_prov(void);
/* The library's own version, for "known difference" remarks. */
uint32_t t_lib_version(void);
/* A new file in TMPDIR, or in /tmp; path receives its name. */
#define T_PATH 4096
int t_temp(char path[T_PATH], const char *name);

/* -------------------------------------------------------- measurements */

double now_ms(void);               /* monotonic clock */
void   sleep_ms(unsigned ms);
int    count_fds(void);            /* open descriptors of this process */
int    count_threads(void);
long   rss_kb(void);               /* VmRSS */
double cpu_ms(void);               /* user+system time of this process */
size_t heap_bytes(void);           /* bytes handed out by malloc */
/* A thread of the program measures how late its own short sleeps end.  Upper
 * time limits are widened by that lag, so that a busy host does not look like
 * a slow library.  lag_ms() is the worst lag since the last lag_reset(). */
void   lag_start(void);
void   lag_reset(void);
double lag_ms(void);

/* ------------------------------------------- buffers that notice writes */

/* `size` bytes whose end touches an unreadable page: a write (or read) one
 * byte past the end is a fault, reported as FAIL by the crash handler. */
void *guard_alloc(size_t size);
void  guard_free(void *p, size_t size);
/* Byte canaries: fill, and index of the first changed byte or -1. */
void  canary_fill(void *p, size_t n);
long  canary_check(const void *p, size_t n);
/* Position dependent 64-bit rolling pattern with a seed. */
void  pattern_fill(void *p, size_t n, uint64_t seed);
/* Offset of the first wrong byte, or -1. */
long  pattern_check(const void *p, size_t n, uint64_t seed);

/* ------------------------------------------------------------- children */

/* fork() with clean rules for the child: dies with the parent, own
 * watchdog, and t_bad/t_fail print a note and exit with a status instead
 * of printing a verdict. */
pid_t t_fork(unsigned seconds);
/* Leave a child: 0 if no check failed in it, else 1. */
_Noreturn void t_child_exit(void);
/* Wait for a child: exit status >= 0, -signal if killed, -1000 on timeout
 * (the child is then killed). */
int   t_wait(pid_t pid, unsigned ms);
/* Run body(arg) in a child; a crash, a hang or its failed checks become one
 * failed check of the caller, prefixed with `what`.  A child that ends with
 * t_na is only noted; if no part applies, t_end says NA.  True if all was well. */
bool  t_isolated(const char *what, unsigned seconds, void (*body)(void *), void *arg);
/* The same, for a rule whose breach crashes or hangs stock libfabric: see RULE. */
bool  t_isolated_rule(const char *rule, unsigned seconds, void (*body)(void *), void *arg);
/* Run this program again with these arguments (NULL at the end), over the
 * library in the directory that the environment names by PEER, if it does. */
pid_t t_peer(unsigned seconds, ...);

/* ------------------------------------------------------------ deck set-up */

struct ep;
struct opts {
	uint64_t caps;                 /* 0: FI_MSG */
	enum fi_wait_obj cq_wait;      /* 0 (FI_WAIT_NONE) is a legal choice */
	enum fi_wait_obj eq_wait;
	bool     selective;            /* FI_SELECTIVE_COMPLETION for transmits */
	size_t   cq_size;
	uint32_t addr_format;          /* 0: FI_SOCKADDR_IN */
	enum fi_cq_wait_cond cq_cond;
	void (*hints)(struct fi_info *h);  /* changes the hints */
	void (*bind)(struct ep *e);        /* binds more, before fi_enable */
};
/* What most scenarios use: FI_MSG, FI_WAIT_UNSPEC queues. */
extern const struct opts OPTS_DEFAULT;

/* Server side of the deck: up to and including fi_listen. */
struct srv {
	struct fi_info    *info;
	struct fid_fabric *fabric;
	struct fid_eq     *eq;
	struct fid_pep    *pep;
	struct sockaddr_storage addr;  /* as fi_getname tells */
	size_t   addrlen;
	uint16_t port;
	char     node[64], service[16];
};

/* An active endpoint with its objects.  Pointers it does not own are not
 * closed by ep_close. */
struct ep {
	struct fi_info    *info;
	struct fid_fabric *fabric;  bool own_fabric;
	struct fid_domain *domain;  bool own_domain;
	struct fid_eq     *eq;      bool own_eq;
	struct fid_cq     *cq;
	struct fid_ep     *ep;
};

/* One event with room for private data behind it. */
struct cm_event {
	struct fi_eq_cm_entry e;
	unsigned char data[1024];
	uint32_t event;
	ssize_t  len;                  /* bytes fi_eq_read returned */
};
#define CM_DATA_LEN(ev) ((size_t)(ev)->len - sizeof(struct fi_eq_cm_entry))

/* Connected pair in one process. */
struct pair { struct srv s; struct ep c, p; };

struct fi_info *hints_new(const struct opts *o);
/* fi_getinfo that must work; -FI_ENODATA is NA. */
struct fi_info *info_get(const char *node, const char *service,
			 uint64_t flags, struct fi_info *hints);

void srv_open(struct srv *s, const struct opts *o);            /* 127.0.0.1:0 */
void srv_open_at(struct srv *s, const struct opts *o, const char *node,
		 const char *service);
/* The same with an info of the program's own, which is taken over. */
void srv_listen(struct srv *s, struct fi_info *info, const struct opts *o);
void srv_close(struct srv *s);     /* pep may be NULL: closed before */

/* Build an endpoint from info (taken over).  NULL objects are created. */
void ep_make(struct ep *e, struct fi_info *info, const struct opts *o,
	     struct fid_fabric *fabric, struct fid_domain *domain,
	     struct fid_eq *eq);
void ep_close(struct ep *e);       /* every fi_close must return 0 */

/* Client: getinfo for the server's address, endpoint, no connect yet. */
void cli_make(struct ep *e, const struct srv *s, const struct opts *o);
/* fi_connect to info->dest_addr. */
int  cli_connect(struct ep *e, const void *data, size_t len);
/* Wait for FI_CONNREQ. */
void srv_take(struct srv *s, struct cm_event *req, unsigned ms);
/* Accept it with a new endpoint bound to the server's EQ. */
void srv_accept(struct srv *s, struct cm_event *req, struct ep *e,
		const struct opts *o, const void *data, size_t len);

void pair_open(struct pair *p, const struct opts *o);
void pair_join(struct srv *s, struct ep *c, struct ep *p, const struct opts *o);
/* Connect c, which is made already, to a new p. */
void pair_connect(struct srv *s, struct ep *c, struct ep *p, const struct opts *o);
void pair_close(struct pair *p);

/* --------------------------------------------------- progress and queues */

/* Manual progress for everything this thread opened through the helpers:
 * one FI_PEEK read of each EQ and one empty read of each CQ. */
void pump(void);
void pump_ms(unsigned ms);
/* Queues that a program opened itself: add to / drop from the pump. */
void pump_add_eq(struct fid_eq *eq);
void pump_drop_eq(struct fid_eq *eq);
void pump_add_cq(struct fid_cq *cq);
void pump_drop_cq(struct fid_cq *cq);

/* Next event of eq: bytes >= 0 with *ev filled, -FI_EAVAIL, or -FI_EAGAIN
 * after ms.  Everything else is pumped meanwhile. */
ssize_t eq_next(struct fid_eq *eq, struct cm_event *ev, unsigned ms);
/* The next event must be `want`. */
void eq_need(struct fid_eq *eq, uint32_t want, struct cm_event *ev, unsigned ms);
/* Read the error entry behind -FI_EAVAIL. */
ssize_t eq_error(struct fid_eq *eq, struct fi_eq_err_entry *err);

/* Next completion: 1, or -FI_EAVAIL with *err, or 0 after ms. */
int  cq_next(struct fid_cq *cq, struct fi_cq_data_entry *c,
	     struct fi_cq_err_entry *err, unsigned ms);
/* Post with retry on -FI_EAGAIN. */
int  post_recv(struct ep *e, void *buf, size_t n, void *ctx);
int  post_send(struct ep *e, const void *buf, size_t n, void *ctx);
/* Send n patterned bytes from a to b and check them. */
void xfer(struct ep *a, struct ep *b, size_t n, uint64_t seed);

const char *ev_name(uint32_t event);

/* ------------------------------------------------- FI_EP_RDM (shm scenarios) */

struct rdm {
	struct fi_info    *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av     *av;
	struct fid_cq     *cq;         /* FI_CQ_FORMAT_TAGGED, no wait object */
	struct fid_ep     *ep;
	char   addr[256];              /* as fi_getname tells */
	size_t addrlen;
};

/* Open and enable an RDM endpoint named node:service (both NULL: any name).
 * Returns 0, or the error of fi_endpoint/fi_enable with all else cleaned up.
 * No matching info at all ends the program with NA. */
int  rdm_open(struct rdm *r, const char *prov, const char *node, const char *service, uint64_t caps);
void rdm_close(struct rdm *r);
fi_addr_t rdm_insert(struct rdm *r, const void *addr);
/* Number of files in /dev/shm whose name contains tag; shm_clean removes them
 * (a killed process, or a failing library, must not leave litter behind). */
int  shm_files(const char *tag);
void shm_clean(const char *tag);
/* Next completion: 1, -FI_EAVAIL with *err, or 0 after ms. */
int  rdm_next(struct rdm *r, struct fi_cq_tagged_entry *c, struct fi_cq_err_entry *err, unsigned ms);
/* Blocking tagged send/receive of n bytes with retry; t_fail after ms. */
void rdm_tsend(struct rdm *r, fi_addr_t to, const void *buf, size_t n, uint64_t tag, unsigned ms);
void rdm_trecv(struct rdm *r, void *buf, size_t n, uint64_t tag, unsigned ms);

/* --------------------------------------------------------------- raw peer */

#define RAW_CM_LEN 32
/* Fill a 32-byte CM header. type: 0 request, 1 response, 6 reject. */
void raw_cm(unsigned char *h, int version, int type, unsigned data_len);
/* TCP connection to the server (blocking socket). */
int  raw_connect(const struct srv *s);
/* Listening socket on 127.0.0.1; *port receives its port. */
int  raw_listen(uint16_t *port);
/* Full request in one write. */
int  raw_request(int fd, const void *data, unsigned len);
/* Fill a 16-byte message header for n payload bytes. */
void raw_msg(unsigned char *h, uint64_t n);
int  raw_write(int fd, const void *p, size_t n);
/* Read exactly n bytes while pumping; 0 ok, -1 EOF/error/timeout. */
int  raw_read(int fd, void *p, size_t n, unsigned ms);
/* Has the peer closed the socket (EOF or reset)?  No waiting. */
bool raw_is_closed(int fd);

#endif
