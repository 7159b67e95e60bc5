/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the tests of kofi.ko by its own functions have in common: main.c says what they are. */
#define pr_fmt(fmt) "kofi_selftest: " fmt

#include <linux/bvec.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/inet.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uio.h>
#include "../../include-private/kofi_kernel.h"

/* Parameters of the module. */
extern char *addr;
extern ushort port;
extern uint rounds, slow;
extern bool hostile, cut;

#define BIG		(1 << 20)
#define TIMEOUT		(20000 * slow)

struct region {
	u64 key, base, len;
};

/* Of kofi.ko, for tests. */
extern long kofi_test_allocations_made(void);
/* The nth allocation from now on fails; 0: none. Gives whether the last one asked for has failed. */
extern bool kofi_test_fail_nth(unsigned int nth);
/* How often TCP was lent memory, instead of copying it. */
extern long kofi_test_readings(void);

/* Says what failed, and where. */
#define failed_at(format, ...) pr_err("line %d of %s: " format "\n", __LINE__, kbasename(__FILE__), ##__VA_ARGS__)
#define want(condition) ({ bool _ok = (condition); if (!_ok) { failed_at("%s", #condition); error = -EPROTO; goto out; } })
#define want_is(call, value) ({ long _is = (call), _should = (value); if (_is != _should) { \
	failed_at("%s is %ld (%s), not %ld", #call, _is, kofi_strerror(_is), _should); error = -EPROTO; goto out; } })
#define must(call) want_is(call, 0)

/* What one side has. */
struct side {
	struct kofi_info *info;
	struct kofi_fabric *fabric;
	struct kofi_wait_set *set;
	struct kofi_eq *eq;
	struct kofi_domain *domain;
	struct kofi_cq *cq;
	struct kofi_ep *ep;
	struct kofi_mr *mr;
	u8 *tx, *rx, *memory;
};

/* side.c */
extern int report(const char *name, int error);
extern int open_side(struct side *s, bool source);
extern void close_side(struct side *s);
/* Domain, completion queue and endpoint, for info. */
extern int open_connection(struct side *s, struct kofi_info *info, bool with_region);
extern void close_connection(struct side *s);
extern int post(struct side *s, int (*call)(struct kofi_ep *, const struct kofi_op *), void *buffer, size_t len, u64 context);
extern int rma(struct side *s, int (*call)(struct kofi_ep *, const struct kofi_op *), void *buffer, size_t len, const struct region *r,
	       u64 flags);
/* The next completion. */
extern int completed(struct side *s, struct kofi_cq_entry *entry);
/* The next event, which must be this. */
extern int expect(struct side *s, u32 wanted, void *data, size_t room, size_t *len);
/* A connection for a command. */
extern int start(struct side *s, const char *command, void *data, size_t room, size_t *len);
extern void pattern(u8 *to, size_t len, u32 seed);
/* There and back. */
extern int exchange(struct side *s, size_t len, u32 seed);

/* server.c */
/* Clients may come; or there will be no server. */
extern struct completion listening;
extern int server(void *unused);

/* client.c */
extern int client_echo(struct side *s);
extern int client_pages(struct side *s);
extern int client(void);
extern int both(void);

/* far.c */
extern int peer_gone(void);
extern int wire(void);

/* local.c */
extern int local(void);
extern int limits(void);

/* memory.c */
extern int memory(void);
extern int info_without_memory(void);
extern int context_without_memory(void);
extern int faults(void);
