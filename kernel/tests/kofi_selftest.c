// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Tests of kofi.ko by its own functions, without a face: loading this module runs those named by "run".
 *
 *   server    listens on port, and does what the private data of each connection request says, until one says "quit"
 *   client    does all of that with the server at addr, port
 *   kernel    both, in two threads
 *   gone      a connection with the server at addr, whose machine is then cut off
 *   wire      memory that is not copied, to a server behind a network card
 *   local     what needs no peer: wrong uses, time limits, handlers, wait sets, interruption
 *
 * Commands: "echo" sends back what comes; "rma" besides tells of a region (struct region) when accepting; "reject" rejects with data;
 * "close" shuts down after the first message; "quit" rejects and ends. tests/peer.c is the same for user space.
 */
#define pr_fmt(fmt) "kofi_selftest: " fmt

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/inet.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uio.h>
#include <linux/bvec.h>
#include "../include-private/kofi_kernel.h"

static char *run = "";
module_param(run, charp, 0444);
static char *addr = "127.0.0.1";
module_param(addr, charp, 0444);
static ushort port = 7471;
module_param(port, ushort, 0444);
static uint rounds = 200;
module_param(rounds, uint, 0444);
static bool hostile;
module_param(hostile, bool, 0444);
MODULE_PARM_DESC(hostile, "peers of the server may break off at any time");

static uint slow = 1;
module_param(slow, uint, 0444);
MODULE_PARM_DESC(slow, "how many times slower than usual the machine is: limits in time are so many times longer");

static bool cut;
module_param(cut, bool, 0644);
MODULE_PARM_DESC(cut, "written when the peer of run=gone or run=wire has been cut off");

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
static unsigned int nth;

/* Says what failed, and where. */
#define want(condition) ({ bool _ok = (condition); if (!_ok) { pr_err("line %d: %s\n", __LINE__, #condition); error = -EPROTO; goto out; } })
#define want_is(call, value) ({ long _is = (call), _should = (value); if (_is != _should) { \
	pr_err("line %d: %s is %ld (%s), not %ld\n", __LINE__, #call, _is, kofi_strerror(_is), _should); error = -EPROTO; goto out; } })
#define must(call) want_is(call, 0)

static int report(const char *name, int error)
{
	if (error)
		pr_err("TEST %s FAILED (%d)\n", name, error);
	else
		pr_info("TEST %s ok\n", name);
	return error;
}

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

static void close_connection(struct side *s)
{
	if (s->ep)
		kofi_ep_close(s->ep);
	if (s->mr)
		kofi_mr_close(s->mr);
	if (s->cq && kofi_cq_close(s->cq))
		pr_err("a completion queue cannot be closed\n");
	if (s->domain && kofi_domain_close(s->domain))
		pr_err("a domain cannot be closed\n");
	s->ep = NULL;
	s->mr = NULL;
	s->cq = NULL;
	s->domain = NULL;
}

static void close_side(struct side *s)
{
	close_connection(s);
	if (s->eq && kofi_eq_close(s->eq))
		pr_err("an event queue cannot be closed\n");
	if (s->set && kofi_wait_close(s->set))
		pr_err("a wait set cannot be closed\n");
	if (s->fabric && kofi_fabric_close(s->fabric))
		pr_err("a fabric cannot be closed\n");
	kofi_freeinfo(s->info);
	kvfree(s->tx);
	kvfree(s->rx);
	kvfree(s->memory);
	memset(s, 0, sizeof(*s));
}

static int open_side(struct side *s, bool source)
{
	struct kofi_info *hints = kofi_dupinfo(NULL);
	char service[8];
	int error = -ENOMEM;

	memset(s, 0, sizeof(*s));
	if (!hints)
		return error;
	hints->caps = KOFI_MSG | KOFI_RMA;
	hints->mode = ~0ULL;
	hints->present = KOFI_HAS_EP_ATTR | KOFI_HAS_FABRIC_ATTR;
	hints->ep.type = KOFI_EP_MSG;
	strscpy(hints->fabric.prov_name, "tcp", sizeof(hints->fabric.prov_name));
	snprintf(service, sizeof(service), "%u", port);
	must(kofi_getinfo(NULL, KOFI_VERSION(1, 17), addr, service, source ? KOFI_SOURCE : 0, hints, &s->info));
	must(kofi_fabric_open(&s->info->fabric, NULL, &s->fabric));
	must(kofi_wait_open(s->fabric, &s->set));
	{
		struct kofi_eq_attr attr = { .size = 10, .wait_obj = KOFI_WAIT_SET, .wait_set = s->set };

		must(kofi_eq_open(s->fabric, &attr, &s->eq));
	}
	error = -ENOMEM;
	s->tx = kvmalloc(BIG, GFP_KERNEL);
	s->rx = kvmalloc(BIG, GFP_KERNEL);
	s->memory = kvzalloc(BIG, GFP_KERNEL);
	if (s->tx && s->rx && s->memory)
		error = 0;
out:
	kofi_freeinfo(hints);
	return error;
}

/* Domain, completion queue and endpoint, for info. */
static int open_connection(struct side *s, struct kofi_info *info, bool with_region)
{
	struct kofi_cq_attr attr = { .size = 64, .wait_obj = KOFI_WAIT_SET, .wait_set = s->set };
	int error = 0;

	must(kofi_domain_open(s->fabric, info, &s->domain));
	must(kofi_cq_open(s->domain, &attr, &s->cq));
	if (with_region) {
		struct kvec vec = { s->memory, BIG };
		struct kofi_mr_attr mr = {
			.memory = { KOFI_KVEC, 1, &vec }, .access = KOFI_REMOTE_READ | KOFI_REMOTE_WRITE, .requested_key = 42,
		};

		must(kofi_mr_reg(s->domain, &mr, &s->mr));
	}
	must(kofi_ep_open(s->domain, info, (u64)(unsigned long)s, &s->ep));
	must(kofi_ep_bind_eq(s->ep, s->eq, 0));
	must(kofi_ep_bind_cq(s->ep, s->cq, KOFI_TRANSMIT | KOFI_RECV));
	must(kofi_ep_enable(s->ep));
out:
	return error;
}

static int post(struct side *s, int (*call)(struct kofi_ep *, const struct kofi_op *), void *buffer, size_t len, u64 context)
{
	struct kvec vec = { buffer, len };
	struct kofi_op op = { .memory = { KOFI_KVEC, 1, &vec }, .context = context, .default_flags = 1 };

	return call(s->ep, &op);
}

static int rma(struct side *s, int (*call)(struct kofi_ep *, const struct kofi_op *), void *buffer, size_t len, const struct region *r,
	       u64 flags)
{
	struct kvec vec = { buffer, len };
	struct kofi_rma_iov remote = { r->base, len, r->key };
	struct kofi_op op = {
		.memory = { KOFI_KVEC, 1, &vec }, .context = 3, .flags = flags | KOFI_COMPLETION, .remote = &remote, .remote_count = 1,
	};

	return call(s->ep, &op);
}

/* The next completion. */
static int completed(struct side *s, struct kofi_cq_entry *entry)
{
	ssize_t got = kofi_cq_sread(s->cq, entry, 1, 0, TIMEOUT);

	return got == 1 ? 0 : got ? (int)got : -EIO;
}

/* The next event, which must be this. */
static int expect(struct side *s, u32 wanted, void *data, size_t room, size_t *len)
{
	struct kofi_event event = {};
	ssize_t got = kofi_eq_sread(s->eq, &event, data, room, 0, TIMEOUT, KOFI_TIME_MS);

	if (got < 0) {
		pr_err("waiting for event %u: %zd\n", wanted, got);
		return got;
	}
	if (len)
		*len = got;
	if (event.info)
		kofi_freeinfo(event.info);
	if (event.event == wanted)
		return 0;
	pr_err("event %u, not %u\n", event.event, wanted);
	return -EPROTO;
}

/* ------------------------------------------------------------------------------------------------ server */

static int serve_connection(struct side *s, const char *command, struct kofi_info *info)
{
	bool with_region = !strcmp(command, "rma"), closing = !strcmp(command, "close");
	struct kofi_cq_entry entry;
	struct kofi_event event;
	struct kofi_cq_error failure;
	struct region region;
	int error, result, messages = 0;
	ssize_t got;
	u8 byte;

	error = open_connection(s, info, with_region);
	if (error)
		return error;
	must(post(s, kofi_recv, s->rx, BIG, 1));
	if (with_region) {
		region = (struct region){ kofi_mr_key(s->mr), kofi_mr_base(s->mr), BIG };
		must(kofi_ep_accept(s->ep, &region, sizeof(region)));
	} else {
		must(kofi_ep_accept(s->ep, "hello", 5));
	}
	error = expect(s, KOFI_CONNECTED, &byte, 1, NULL);
	if (error == -KOFI_EAVAIL && hostile) {
		struct kofi_eq_error gone = {};

		/* It was gone before it could be answered. */
		want_is(kofi_eq_readerr(s->eq, &gone, 0), 1);
		error = 0;
		goto out;
	}
	if (error)
		goto out;
	for (;;) {
		must(kofi_wait(s->set, TIMEOUT));
		got = kofi_cq_read(s->cq, &entry, 1);
		if (got == 1) {
			if (entry.flags & KOFI_RECV) {
				messages++;
				memcpy(s->tx, s->rx, entry.len);
				result = post(s, kofi_send, s->tx, entry.len, 2);
				if (result != -ESHUTDOWN || !hostile)
					must(result);
			} else {
				/* Who has its answer may be gone before this completion is read. */
				result = post(s, kofi_recv, s->rx, BIG, 1);
				if (result != -ESHUTDOWN)
					must(result);
				if (closing && messages == 1) {
					closing = false;
					must(kofi_ep_shutdown(s->ep, 0));
				}
			}
			continue;
		}
		if (got == -KOFI_EAVAIL) {
			want_is(kofi_cq_readerr(s->cq, &failure, 0), 1);
			want_is(failure.err, ECANCELED);
			continue;
		}
		want_is(got, -EAGAIN);
		got = kofi_eq_read(s->eq, &event, &byte, 1, 0, 0);
		if (got == -EAGAIN)
			continue;
		want(got >= 0 && event.event == KOFI_SHUTDOWN && event.fid == (u64)(unsigned long)s);
		break;
	}
out:
	close_connection(s);
	return error;
}

/* Clients may come; or there will be no server. */
static DECLARE_COMPLETION(listening);

static int server(void *unused)
{
	/* Apart from the endpoints' queue: the next client may ask before the last one's end was read. */
	struct kofi_eq_attr attr = { 10, 0, KOFI_WAIT_UNSPEC, 0, NULL };
	struct kofi_eq *requests = NULL;
	struct kofi_pep *pep = NULL;
	char command[64], name[80];
	struct side s;
	int error = open_side(&s, true);
	bool quit = false;

	if (error)
		goto out;
	must(kofi_pep_open(s.fabric, s.info, 0xCafeBabe, &pep));
	must(kofi_eq_open(s.fabric, &attr, &requests));
	must(kofi_pep_bind_eq(pep, requests, 0));
	must(kofi_pep_listen(pep));
	pr_info("listening\n");
	complete(&listening);
	while (!quit) {
		struct kofi_event event = {};
		ssize_t got = kofi_eq_sread(requests, &event, command, sizeof(command) - 1, 0, 60000 * slow, KOFI_TIME_MS);

		if (got < 0) {
			error = signal_pending(current) ? -EINTR : got;
			if (error != -EINTR)
				pr_err("no connection request: %zd\n", got);
			break;
		}
		want(event.event == KOFI_CONNREQ && event.fid == 0xCafeBabe && event.info && event.info->handle);
		command[got] = 0;
		quit = !strcmp(command, "quit");
		if (quit || !strcmp(command, "reject")) {
			error = kofi_pep_reject(pep, NULL, event.info->handle, "no thanks", 9);
			if (!error && kofi_pep_reject(pep, NULL, event.info->handle, "again", 5) != -EINVAL)
				error = -EPROTO;
		} else {
			error = serve_connection(&s, command, event.info);
		}
		kofi_freeinfo(event.info);
		snprintf(name, sizeof(name), "server %s", command);
		report(name, error);
		if (error)
			break;
	}
out:
	complete(&listening);
	if (pep)
		kofi_pep_close(pep);
	if (requests)
		kofi_eq_close(requests);
	close_side(&s);
	return error;
}

/* ------------------------------------------------------------------------------------------------ client */

static int start(struct side *s, const char *command, void *data, size_t room, size_t *len)
{
	int error = open_connection(s, s->info, false);

	if (error)
		return error;
	want_is(post(s, kofi_send, s->tx, 1, 0), -ENOTCONN);
	must(kofi_ep_connect(s->ep, NULL, 0, command, strlen(command)));
	want_is(kofi_ep_connect(s->ep, NULL, 0, command, strlen(command)), -EINVAL);
	must(expect(s, KOFI_CONNECTED, data, room, len));
out:
	return error;
}

static void pattern(u8 *to, size_t len, u32 seed)
{
	size_t i;

	for (i = 0; i < len; i++)
		to[i] = (u8)(seed + i * 7 + (i >> 8));
}

static int exchange(struct side *s, size_t len, u32 seed)
{
	struct kofi_cq_entry entry;
	int error = 0, left = 2;

	pattern(s->tx, len, seed);
	memset(s->rx, 0xee, len);
	must(post(s, kofi_recv, s->rx, BIG, 1));
	must(post(s, kofi_send, s->tx, len, 2));
	while (left--) {
		must(completed(s, &entry));
		if (entry.flags & KOFI_RECV)
			want(entry.context == 1 && entry.len == len);
		else
			want(entry.context == 2);
	}
	want(!memcmp(s->tx, s->rx, len));
out:
	return error;
}

static int finish(struct side *s)
{
	u8 byte;
	int error = 0;

	must(kofi_ep_shutdown(s->ep, 0));
	must(expect(s, KOFI_SHUTDOWN, &byte, 1, NULL));
out:
	return error;
}

static int client_echo(struct side *s)
{
	static const size_t sizes[] = { 0, 1, 64, 4095, 65536, 100000, BIG };
	u8 data[8];
	size_t len = 0, i;
	int error;
	u64 begin;
	u32 n;

	error = start(s, "echo", data, sizeof(data), &len);
	if (error)
		goto out;
	want(len == 5 && !memcmp(data, "hello", 5));
	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		must(exchange(s, sizes[i], i));
	begin = ktime_get_ns();
	for (n = 0; n < rounds; n++)
		must(exchange(s, 64, n));
	if (rounds)
		pr_info("64 bytes there and back: %llu us\n", (ktime_get_ns() - begin) / 1000 / rounds);
	begin = ktime_get_ns();
	for (n = 0; n < 20; n++)
		must(exchange(s, BIG, n));
	pr_info("1 MiB there and back: %llu us\n", (ktime_get_ns() - begin) / 1000 / 20);
	must(finish(s));
out:
	close_connection(s);
	return error;
}

/* Messages from and to lists of pages. */
static int client_pages(struct side *s)
{
	enum { PAGES = 64 };
	struct bio_vec *tx = kcalloc(PAGES, sizeof(*tx), GFP_KERNEL), *rx = kcalloc(PAGES, sizeof(*rx), GFP_KERNEL);
	struct kofi_op op = { .default_flags = 1 };
	struct kofi_cq_entry entry;
	size_t len;
	u8 data[8];
	int error = -ENOMEM, i, left = 2;

	if (!tx || !rx)
		goto out;
	for (i = 0; i < PAGES; i++) {
		tx[i] = (struct bio_vec){ alloc_page(GFP_KERNEL), PAGE_SIZE - 8, 8 };
		rx[i] = (struct bio_vec){ alloc_page(GFP_KERNEL), PAGE_SIZE - 8, 0 };
		if (!tx[i].bv_page || !rx[i].bv_page)
			goto out;
		pattern(page_address(tx[i].bv_page) + 8, PAGE_SIZE - 8, i);
	}
	error = start(s, "echo", data, sizeof(data), &len);
	if (error)
		goto out;
	op.memory = (struct kofi_memory){ KOFI_BVEC, PAGES, rx };
	must(kofi_recv(s->ep, &op));
	op.memory.segments = tx;
	must(kofi_send(s->ep, &op));
	while (left--)
		must(completed(s, &entry));
	for (i = 0; i < PAGES; i++)
		want(!memcmp(page_address(rx[i].bv_page), page_address(tx[i].bv_page) + 8, PAGE_SIZE - 8));
	must(finish(s));
out:
	close_connection(s);
	for (i = 0; i < PAGES; i++) {
		if (tx && tx[i].bv_page)
			__free_page(tx[i].bv_page);
		if (rx && rx[i].bv_page)
			__free_page(rx[i].bv_page);
	}
	kfree(tx);
	kfree(rx);
	return error;
}

static int client_reject(struct side *s)
{
	struct kofi_eq_error failure = {};
	struct kofi_event event;
	u8 byte;
	int error = open_connection(s, s->info, false);

	if (error)
		goto out;
	must(kofi_ep_connect(s->ep, NULL, 0, "reject", 6));
	want_is(kofi_eq_sread(s->eq, &event, &byte, 1, 0, TIMEOUT, 0), -KOFI_EAVAIL);
	want_is(kofi_eq_readerr(s->eq, &failure, 0), 1);
	want_is(failure.err, ECONNREFUSED);
	want(failure.err_data_size == 9 && !memcmp(failure.err_data, "no thanks", 9));
	want_is(post(s, kofi_send, s->tx, 1, 0), -KOFI_EOPBADSTATE);
	want_is(kofi_ep_connect(s->ep, NULL, 0, "echo", 4), -KOFI_EOPBADSTATE);
out:
	close_connection(s);
	return error;
}

static int client_rma(struct side *s)
{
	struct kofi_cq_entry entry;
	struct region region;
	size_t len = 0;
	int error = start(s, "rma", &region, sizeof(region), &len);

	if (error)
		goto out;
	want(len == sizeof(region) && region.len == BIG);
	pattern(s->tx, BIG, 99);
	/* In place when it is complete: a read behind it sees that. */
	must(rma(s, kofi_write, s->tx, BIG, &region, KOFI_DELIVERY_COMPLETE));
	must(completed(s, &entry));
	want(entry.flags == (KOFI_RMA | KOFI_WRITE) && entry.context == 3);
	memset(s->rx, 0, BIG);
	must(rma(s, kofi_read, s->rx, BIG, &region, 0));
	must(completed(s, &entry));
	want(entry.flags == (KOFI_RMA | KOFI_READ));
	want(!memcmp(s->tx, s->rx, BIG));
	must(kofi_inject_write(s->ep, "inject", 6, 0, 0, region.base + 10, region.key));
	must(rma(s, kofi_read, s->rx, 32, &region, 0));
	must(completed(s, &entry));
	want(!memcmp(s->rx + 10, "inject", 6));
	must(exchange(s, 1000, 5));
	must(finish(s));
out:
	close_connection(s);
	return error;
}

static int client_close(struct side *s)
{
	u8 data[8];
	size_t len;
	int error = start(s, "close", data, sizeof(data), &len);

	if (error)
		goto out;
	must(exchange(s, 100, 1));
	must(expect(s, KOFI_SHUTDOWN, data, sizeof(data), NULL));
	want_is(post(s, kofi_send, s->tx, 1, 0), -ESHUTDOWN);
out:
	close_connection(s);
	return error;
}

/* A task that waits without a limit in time. */
struct waiter {
	struct side *side;
	struct task_struct *task;
	struct completion done;
	int result;
};

static int wait_for_completions(void *context)
{
	struct waiter *waiter = context;
	struct kofi_cq_entry entry;

	do
		waiter->result = kofi_cq_sread(waiter->side->cq, &entry, 1, 0, -1);
	while (waiter->result == 1);
	complete(&waiter->done);
	while (!kthread_should_stop())
		msleep(1);
	return 0;
}

static int wait_for_event(void *context)
{
	struct waiter *waiter = context;

	waiter->result = kofi_wait(waiter->side->set, -1);
	complete(&waiter->done);
	while (!kthread_should_stop())
		msleep(1);
	return 0;
}

/* One task sleeps for completions, and so drives the domain; what it drives wakes the other, which sleeps for the queue of events. */
static int client_waits(struct side *s)
{
	struct waiter waiters[2] = { { .side = s }, { .side = s } };
	struct kofi_cq_error failure = {};
	u8 data[8];
	size_t len;
	int i, error = start(s, "close", data, sizeof(data), &len);

	if (error)
		goto out;
	must(post(s, kofi_recv, s->rx, 100, 1));
	must(post(s, kofi_recv, s->rx, 100, 2));
	for (i = 0; i < 2; i++) {
		struct task_struct *task = kthread_create(i ? wait_for_event : wait_for_completions, &waiters[i], "kofi_waiter");

		want(!IS_ERR(task));
		init_completion(&waiters[i].done);
		waiters[i].task = task;
		get_task_struct(task);
		wake_up_process(task);
	}
	msleep(50);
	want_is(kofi_cq_close(s->cq), -EBUSY);
	want_is(kofi_wait_close(s->set), -EBUSY);
	must(post(s, kofi_send, s->tx, 100, 3));
	for (i = 0; i < 2; i++)
		want(wait_for_completion_timeout(&waiters[i].done, msecs_to_jiffies(TIMEOUT)));
	/* At least one receive got no message. */
	want_is(waiters[0].result, -KOFI_EAVAIL);
	want_is(kofi_cq_readerr(s->cq, &failure, 0), 1);
	want_is(failure.err, ECANCELED);
	must(waiters[1].result);
	must(expect(s, KOFI_SHUTDOWN, data, sizeof(data), NULL));
out:
	for (i = 0; i < 2; i++) {
		if (waiters[i].task) {
			kthread_stop(waiters[i].task);
			put_task_struct(waiters[i].task);
		}
	}
	close_connection(s);
	return error;
}

static int client_quit(struct side *s)
{
	struct kofi_eq_error failure = {};
	struct kofi_event event;
	u8 byte;
	int error = open_connection(s, s->info, false);

	if (error)
		goto out;
	must(kofi_ep_connect(s->ep, NULL, 0, "quit", 4));
	want_is(kofi_eq_sread(s->eq, &event, &byte, 1, 0, TIMEOUT, 0), -KOFI_EAVAIL);
	want_is(kofi_eq_readerr(s->eq, &failure, 0), 1);
out:
	close_connection(s);
	return error;
}

static int client(void)
{
	struct side s;
	int error = open_side(&s, false);

	if (error)
		goto out;
	error = report("client echo", client_echo(&s));
	error = report("client pages", client_pages(&s)) ?: error;
	error = report("client reject", client_reject(&s)) ?: error;
	error = report("client rma", client_rma(&s)) ?: error;
	error = report("client close", client_close(&s)) ?: error;
	error = report("client waits", client_waits(&s)) ?: error;
	error = report("client quit", client_quit(&s)) ?: error;
out:
	close_side(&s);
	return error;
}

static int both(void)
{
	struct task_struct *task = kthread_run(server, NULL, "kofi_selftest");
	int error, other;

	if (IS_ERR(task))
		return PTR_ERR(task);
	get_task_struct(task);
	wait_for_completion(&listening);
	error = client();
	/* It has ended, or ends by this. */
	other = kthread_stop(task);
	put_task_struct(task);
	return error ?: other;
}

/* ------------------------------------------------------------------------------------------------ local */

static int test_wrong_uses(void)
{
	struct kofi_eq *eq2 = NULL;
	struct kofi_pep *pep = NULL;
	struct kofi_fabric *other = NULL;
	struct side s;
	struct kofi_event event;
	struct kofi_fabric_attr unknown = { .prov_name = "verbs" };
	struct kofi_info *list;
	size_t len;
	u8 data[300] = {};
	struct sockaddr_in6 name;
	int error = open_side(&s, true);

	if (error)
		goto out;
	want_is(kofi_getinfo(NULL, KOFI_VERSION(3, 0), NULL, NULL, 0, NULL, &list), -ENOSYS);
	want_is(kofi_getinfo(NULL, KOFI_VERSION(1, 17), NULL, NULL, 1, NULL, &list), -KOFI_EBADFLAGS);
	want_is(kofi_fabric_open(&unknown, NULL, &other), -ENODEV);
	must(kofi_fabric_open(NULL, NULL, &other));
	must(kofi_eq_open(other, NULL, &eq2));
	must(kofi_pep_open(s.fabric, s.info, 7, &pep));
	want_is(kofi_pep_listen(pep), -KOFI_ENOEQ);
	want_is(kofi_pep_bind_eq(pep, eq2, 0), -EINVAL);
	want_is(kofi_pep_bind_eq(pep, s.eq, 1), -EINVAL);
	must(kofi_pep_bind_eq(pep, s.eq, 0));
	want_is(kofi_pep_bind_eq(pep, s.eq, 0), -EINVAL);
	len = 2;
	want_is(kofi_pep_getname(pep, &name, &len), -KOFI_ETOOSMALL);
	want(len == sizeof(struct sockaddr_in));
	must(kofi_pep_getname(pep, &name, &len));
	must(kofi_pep_listen(pep));
	want_is(kofi_pep_listen(pep), -EINVAL);
	want_is(kofi_pep_bind_eq(pep, s.eq, 0), -KOFI_EOPBADSTATE);
	want_is(kofi_pep_setname(pep, &name, len), -KOFI_EOPBADSTATE);
	want_is(kofi_pep_reject(pep, NULL, 12345, NULL, 0), -EINVAL);
	want_is(kofi_eq_close(s.eq), -EBUSY);
	want_is(kofi_fabric_close(s.fabric), -EBUSY);
	want_is(kofi_eq_read(s.eq, &event, data, 10, 0, 2), -KOFI_EBADFLAGS);
	want_is(kofi_eq_sread(s.eq, &event, data, 10, 0, 1, KOFI_TIME_US | KOFI_TIME_MS), -EINVAL);
	want_is(kofi_eq_write(s.eq, 5, 0, data, 8, 0), -EINVAL);
	want_is(kofi_eq_read(NULL, &event, data, 10, 0, 0), -EINVAL);
	error = open_connection(&s, s.info, false);
	if (error)
		goto out;
	want_is(kofi_ep_bind_eq(s.ep, s.eq, 0), -KOFI_EOPBADSTATE);
	want_is(kofi_ep_accept(s.ep, NULL, 0), -EINVAL);
	want_is(kofi_ep_connect(s.ep, NULL, 0, data, 257), -EINVAL);
	want_is(kofi_ep_shutdown(s.ep, 1), -EINVAL);
	want_is(kofi_ep_shutdown(s.ep, 0), -ENOTCONN);
	want_is(kofi_ep_getpeer(s.ep, &name, &len), -ENOTCONN);
	want_is(kofi_cancel(s.ep, 77), -ENOENT);
	want_is(kofi_cq_close(s.cq), -EBUSY);
	want_is(kofi_domain_close(s.domain), -EBUSY);
	want_is(kofi_ep_setopt(s.ep, 0, 1, data, 8), -ENOPROTOOPT);
	len = 8;
	must(kofi_ep_getopt(s.ep, 0, 1, data, &len));
	want(*(size_t *)data == 256);
out:
	if (pep)
		kofi_pep_close(pep);
	if (eq2)
		kofi_eq_close(eq2);
	if (other)
		kofi_fabric_close(other);
	close_side(&s);
	return error;
}

static int test_time(void)
{
	struct kofi_event event;
	struct side s;
	u8 byte;
	u64 begin, took;
	int error = open_side(&s, true);

	if (error)
		goto out;
	begin = ktime_get_ns();
	want_is(kofi_eq_sread(s.eq, &event, &byte, 1, 0, 50, KOFI_TIME_MS), -EAGAIN);
	took = ktime_get_ns() - begin;
	pr_info("50 ms took %llu us\n", took / 1000);
	want(took >= 50000000 && took < 80000000ULL * slow);
	begin = ktime_get_ns();
	want_is(kofi_eq_sread(s.eq, &event, &byte, 1, 0, 700, KOFI_TIME_US), -EAGAIN);
	took = ktime_get_ns() - begin;
	pr_info("700 us took %llu us\n", took / 1000);
	want(took >= 700000 && took < 20000000ULL * slow);
	want_is(kofi_eq_sread(s.eq, &event, &byte, 1, 0, 0, 0), -EAGAIN);
out:
	close_side(&s);
	return error;
}

static atomic_t called = ATOMIC_INIT(0);

static void handler(void *context)
{
	atomic_inc(&called);
	wake_up_var(&called);
}

static int test_handler(void)
{
	struct kofi_eq_attr attr = { .flags = KOFI_WRITE, .wait_obj = KOFI_WAIT_NONE, .handler = handler };
	struct kofi_event event;
	struct kofi_eq *eq = NULL;
	struct side s;
	u64 data = 17;
	int error = open_side(&s, true);

	if (error)
		goto out;
	atomic_set(&called, 0);
	must(kofi_eq_open(s.fabric, &attr, &eq));
	want_is(kofi_eq_sread(eq, &event, &data, 8, 0, 10, 0), -ENOSYS);
	want_is(kofi_eq_write(eq, 100, 9, &data, sizeof(data), 0), 8);
	want(wait_var_event_timeout(&called, atomic_read(&called) == 1, HZ * 5 * slow));
	/* Once, until the queue was found empty. */
	want_is(kofi_eq_write(eq, 101, 9, &data, sizeof(data), 0), 8);
	msleep(50);
	want(atomic_read(&called) == 1);
	want_is(kofi_eq_read(eq, &event, &data, 4, 0, 0), -KOFI_ETOOSMALL);
	want_is(kofi_eq_read(eq, &event, &data, 8, 0, KOFI_PEEK), 8);
	want_is(kofi_eq_read(eq, &event, &data, 8, 0, 0), 8);
	want(event.event == 100 && event.fid == 9 && data == 17);
	want_is(kofi_eq_read(eq, &event, &data, 8, 0, 0), 8);
	want_is(kofi_eq_read(eq, &event, &data, 8, 0, 0), -EAGAIN);
	want_is(kofi_eq_write(eq, 102, 9, &data, sizeof(data), 0), 8);
	want(wait_var_event_timeout(&called, atomic_read(&called) == 2, HZ * 5 * slow));
out:
	if (eq && kofi_eq_close(eq))
		error = -EBUSY;
	close_side(&s);
	return error;
}

static DECLARE_COMPLETION(entered);
static struct kofi_eq *closing;
static atomic_t reads = ATOMIC_INIT(0), running = ATOMIC_INIT(0);

/* Is slow, and uses its queue while that is being closed. */
static void slow_handler(void *context)
{
	struct kofi_event event;
	u64 data;

	atomic_inc(&running);
	complete(&entered);
	msleep(100);
	while (kofi_eq_read(closing, &event, &data, sizeof(data), 0, 0) == sizeof(data))
		atomic_inc(&reads);
	/* For ever, but for the close. */
	kofi_eq_sread(closing, &event, &data, sizeof(data), 0, -1, 0);
	atomic_dec(&running);
}

/* A queue whose handler runs is closed when that has ended; not before, and not never. */
static int test_close_under_handler(void)
{
	struct kofi_eq_attr attr = { .flags = KOFI_WRITE, .wait_obj = KOFI_WAIT_UNSPEC, .handler = slow_handler };
	struct side s;
	u64 data = 17;
	int error = open_side(&s, true);

	if (error)
		goto out;
	atomic_set(&reads, 0);
	reinit_completion(&entered);
	must(kofi_eq_open(s.fabric, &attr, &closing));
	want_is(kofi_eq_write(closing, 100, 9, &data, sizeof(data), 0), 8);
	want(wait_for_completion_timeout(&entered, HZ * 20 * slow));
	/* It may be in its blocking read already: then another event ends that. */
	while ((error = kofi_eq_close(closing)) == -EBUSY) {
		want_is(kofi_eq_write(closing, 101, 9, &data, sizeof(data), 0), 8);
		msleep(1);
	}
	must(error);
	want(atomic_read(&reads) && !atomic_read(&running));
out:
	close_side(&s);
	return error;
}

static int reader(void *context)
{
	struct side *s = context;
	struct kofi_event event;
	u8 byte;
	int result = kofi_eq_sread(s->eq, &event, &byte, 1, 0, -1, 0);

	/* So that who stops us finds us. */
	while (!kthread_should_stop())
		msleep(1);
	return result;
}

static int test_kthread_stop(void)
{
	struct task_struct *task;
	struct side s;
	int error = open_side(&s, true);

	if (error)
		goto out;
	task = kthread_run(reader, &s, "kofi_reader");
	want(!IS_ERR(task));
	msleep(100);
	want_is(kofi_eq_close(s.eq), -EBUSY);
	want_is(kthread_stop(task), -EAGAIN);
out:
	close_side(&s);
	return error;
}

/* Nobody answers: the time limit ends it. The module's parameter connect_timeout is 300 ms for this. */
static int test_refused(void)
{
	struct kofi_eq_error failure = {};
	struct kofi_event event;
	struct side s;
	u8 byte;
	int error = open_side(&s, false);

	if (error)
		goto out;
	error = open_connection(&s, s.info, false);
	if (error)
		goto out;
	must(kofi_ep_connect(s.ep, NULL, 0, NULL, 0));
	want_is(kofi_eq_sread(s.eq, &event, &byte, 1, 0, TIMEOUT, 0), -KOFI_EAVAIL);
	want_is(kofi_eq_readerr(s.eq, &failure, 0), 1);
	want_is(failure.err, ECONNREFUSED);
	want(failure.fid == (u64)(unsigned long)&s);
out:
	close_side(&s);
	return error;
}

/* Listeners close whatever waits: those that asked are refused. */
static int test_listener_close(void)
{
	enum { CLIENTS = 3 };
	struct kofi_pep *pep = NULL;
	struct kofi_event event;
	struct side s, clients[CLIENTS];
	u64 taken = 0;
	u8 byte;
	int error, i, opened = 0;

	error = open_side(&s, true);
	if (error)
		goto out;
	must(kofi_pep_open(s.fabric, s.info, 7, &pep));
	must(kofi_pep_bind_eq(pep, s.eq, 0));
	must(kofi_pep_listen(pep));
	for (; opened < CLIENTS; opened++) {
		error = open_side(&clients[opened], false);
		if (error)
			goto out;
		error = open_connection(&clients[opened], clients[opened].info, false);
		if (error)
			goto out;
		must(kofi_ep_connect(clients[opened].ep, NULL, 0, "x", 1));
	}
	/* One is read; the others are not. */
	want_is(kofi_eq_sread(s.eq, &event, &byte, 1, 0, TIMEOUT, 0), 1);
	taken = event.info->handle;
	kofi_freeinfo(event.info);
	want_is(kofi_eq_sread(s.eq, &event, &byte, 1, 0, TIMEOUT, KOFI_PEEK), 1);
	want(!event.info);
	must(kofi_pep_close(pep));
	pep = NULL;
	want_is(kofi_eq_read(s.eq, &event, &byte, 1, 0, 0), -EAGAIN);
	/* What was read is still good. */
	must(kofi_pep_reject(NULL, s.fabric, taken, "late", 4));
	for (i = 0; i < CLIENTS; i++) {
		struct kofi_eq_error failure = {};

		want_is(kofi_eq_sread(clients[i].eq, &event, &byte, 1, 0, TIMEOUT, 0), -KOFI_EAVAIL);
		want_is(kofi_eq_readerr(clients[i].eq, &failure, 0), 1);
		want(failure.err == ECONNREFUSED || failure.err == ECONNRESET);
	}
out:
	if (pep)
		kofi_pep_close(pep);
	for (i = 0; i < opened; i++)
		close_side(&clients[i]);
	close_side(&s);
	return error;
}

/* vm.sh takes the peer's interface down, and says when it has. */
static int wait_for_cut(void)
{
	u32 i;

	for (i = 0; i < TIMEOUT / 10 && !READ_ONCE(cut); i++)
		msleep(10);
	return READ_ONCE(cut) ? 0 : -ETIMEDOUT;
}

/* Its peer's machine is gone, as far as can be seen from here. */
static int peer_gone(void)
{
	struct kofi_cq_error failure = {};
	struct kofi_cq_entry entry;
	struct side s;
	u8 data[8];
	size_t len;
	u64 begin;
	int error = open_side(&s, false);

	if (error)
		goto out;
	must(start(&s, "echo", data, sizeof(data), &len));
	must(exchange(&s, 100, 1));
	pr_info("connected\n");
	must(wait_for_cut());
	must(post(&s, kofi_recv, s.rx, BIG, 1));
	begin = ktime_get_ns();
	must(post(&s, kofi_send, s.tx, 1000, 2));
	must(completed(&s, &entry));
	want_is(kofi_cq_sread(s.cq, &entry, 1, 0, TIMEOUT), -KOFI_EAVAIL);
	want_is(kofi_cq_readerr(s.cq, &failure, 0), 1);
	want_is(failure.err, ECANCELED);
	must(expect(&s, KOFI_SHUTDOWN, data, 1, NULL));
	pr_info("gone after %llu ms\n", (ktime_get_ns() - begin) / 1000000);
	want(ktime_get_ns() - begin < 10000000000ULL * slow);
out:
	close_side(&s);
	return error;
}

/* Large messages are read by the network where they are. */
static int wire_lends(struct side *s)
{
	long before = kofi_test_readings();
	int error = 0;

	must(client_echo(s));
	must(client_pages(s));
	want(kofi_test_readings() >= before + 4);
out:
	return error;
}

/* Who shuts down and closes without waiting for what was sent has its memory back at once, and the peer has the message. */
static int wire_closes(struct side *s)
{
	struct kofi_cq_entry entry;
	long before = kofi_test_readings();
	u8 *pages = alloc_pages_exact(BIG, GFP_KERNEL);
	u8 data[8];
	size_t len;
	int error = 0;

	want(pages);
	must(start(s, "close", data, sizeof(data), &len));
	pattern(pages, BIG, 5);
	must(post(s, kofi_send, pages, BIG, 2));
	must(kofi_ep_shutdown(s->ep, 0));
	kofi_ep_close(s->ep);
	s->ep = NULL;
	memset(pages, 0xdd, BIG);
	want_is(kofi_cq_read(s->cq, &entry, 1), 1);
	want(entry.context == 2 && kofi_test_readings() > before);
out:
	close_connection(s);
	if (pages)
		free_pages_exact(pages, BIG);
	return error;
}

/* What the peer's system has not acknowledged is not complete; closing takes it back from the network. */
static int wire_cut(struct side *s)
{
	struct kofi_cq_error failure = {};
	struct kofi_cq_entry entry;
	long before = kofi_test_readings();
	u8 *pages = alloc_pages_exact(BIG, GFP_KERNEL);
	u8 data[8];
	size_t len;
	u64 begin;
	int error = 0;

	want(pages);
	must(start(s, "echo", data, sizeof(data), &len));
	pr_info("connected by a wire\n");
	must(wait_for_cut());
	must(post(s, kofi_send, pages, BIG, 2));
	want(kofi_test_readings() > before);
	want_is(kofi_cq_sread(s->cq, &entry, 1, 0, 500 * slow), -EAGAIN);
	begin = ktime_get_ns();
	kofi_ep_close(s->ep);
	s->ep = NULL;
	pr_info("closed after %llu us\n", (ktime_get_ns() - begin) / 1000);
	want(ktime_get_ns() - begin < 2000000000ULL * slow);
	memset(pages, 0xdd, BIG);
	want_is(kofi_cq_read(s->cq, &entry, 1), -KOFI_EAVAIL);
	want_is(kofi_cq_readerr(s->cq, &failure, 0), 1);
	want(failure.err == ECANCELED && failure.context == 2);
out:
	close_connection(s);
	if (pages)
		free_pages_exact(pages, BIG);
	return error;
}

static int wire(void)
{
	struct side s;
	int error = open_side(&s, false);

	if (error)
		goto out;
	error = report("large messages are not copied", wire_lends(&s));
	error = report("shut down and closed behind a large message", wire_closes(&s)) ?: error;
	error = report("closed under a large message that does not get through", wire_cut(&s)) ?: error;
out:
	close_side(&s);
	return error;
}

/* A buffer for several messages, and no memory once all is set up. */
static int test_multi_recv(void)
{
	struct side server, client;
	struct kofi_pep *pep = NULL;
	struct kofi_event event = {};
	struct kofi_cq_entry entry;
	struct kvec vec;
	struct kofi_op op = { .memory = { KOFI_KVEC, 1, &vec }, .context = 9, .flags = KOFI_MULTI_RECV | KOFI_COMPLETION };
	long allocations = 0;
	u8 byte;
	size_t i, at = 0;
	int error, other = open_side(&client, false);

	error = open_side(&server, true) ?: other;
	if (error)
		goto out;
	must(kofi_pep_open(server.fabric, server.info, 7, &pep));
	must(kofi_pep_bind_eq(pep, server.eq, 0));
	must(kofi_pep_listen(pep));
	error = open_connection(&client, client.info, false);
	if (error)
		goto out;
	must(kofi_ep_connect(client.ep, NULL, 0, NULL, 0));
	want_is(kofi_eq_sread(server.eq, &event, &byte, 1, 0, TIMEOUT, 0), 0);
	error = open_connection(&server, event.info, false);
	kofi_freeinfo(event.info);
	if (error)
		goto out;
	vec = (struct kvec){ server.rx, 100000 };
	must(kofi_recv(server.ep, &op));
	must(kofi_ep_accept(server.ep, NULL, 0));
	must(expect(&server, KOFI_CONNECTED, &byte, 1, NULL));
	must(expect(&client, KOFI_CONNECTED, &byte, 1, NULL));
	for (i = 0; i < 10; i++) {
		pattern(client.tx, 1000 + i, i);
		must(post(&client, kofi_send, client.tx, 1000 + i, 2));
		must(completed(&client, &entry));
		must(completed(&server, &entry));
		want(entry.context == 9 && entry.len == 1000 + i && entry.buf == (u64)(unsigned long)(server.rx + at));
		want(!memcmp(client.tx, server.rx + at, 1000 + i));
		at += entry.len;
		if (i == 4)
			allocations = kofi_test_allocations_made();
	}
	want_is(kofi_test_allocations_made(), allocations);
out:
	if (pep)
		kofi_pep_close(pep);
	close_side(&client);
	close_side(&server);
	return error;
}

static int local(void)
{
	int error = report("wrong uses", test_wrong_uses());

	error = report("timeouts", test_time()) ?: error;
	error = report("handler", test_handler()) ?: error;
	error = report("closed under its handler", test_close_under_handler()) ?: error;
	error = report("kthread_stop", test_kthread_stop()) ?: error;
	error = report("refused", test_refused()) ?: error;
	error = report("listener closed under requests", test_listener_close()) ?: error;
	error = report("messages in one buffer, without memory", test_multi_recv()) ?: error;
	return error;
}

/*
 * A connection from start to end, in which one allocation fails: the first, the second, and so on until none is left to fail. Whatever
 * is refused is refused in good order: what was opened can be closed, and nothing is left.
 */
static int one_without_memory(void)
{
	struct side server, client;
	struct kofi_pep *pep = NULL;
	struct kofi_event event = {};
	struct kofi_cq_entry entry;
	int error, other = open_side(&client, false);
	u8 byte;

	error = open_side(&server, true) ?: other;
	if (error)
		goto out;
	/* From here on allocations may fail. */
	kofi_test_fail_nth(nth);
	error = kofi_pep_open(server.fabric, server.info, 7, &pep);
	if (!error)
		error = kofi_pep_bind_eq(pep, server.eq, 0);
	if (!error)
		error = kofi_pep_listen(pep);
	if (!error)
		error = open_connection(&client, client.info, true);
	if (!error)
		error = kofi_ep_connect(client.ep, NULL, 0, "x", 1);
	if (!error) {
		ssize_t got = kofi_eq_sread(server.eq, &event, &byte, 1, 0, 300 * slow, 0);

		/* Reading again takes it, after there was no memory to. */
		if (got == -ENOMEM)
			got = kofi_eq_sread(server.eq, &event, &byte, 1, 0, 300 * slow, 0);
		error = got < 0 ? got : 0;
	}
	if (!error)
		error = open_connection(&server, event.info, true);
	if (event.info)
		kofi_freeinfo(event.info);
	if (!error)
		error = post(&server, kofi_recv, server.rx, BIG, 1);
	if (!error)
		error = kofi_ep_accept(server.ep, "y", 1);
	if (!error)
		error = kofi_eq_sread(client.eq, &event, &byte, 1, 0, 300 * slow, 0) == 1 ? 0 : -EIO;
	if (!error)
		error = post(&client, kofi_send, client.tx, BIG, 2);
	if (!error)
		error = kofi_cq_sread(server.cq, &entry, 1, 0, 300 * slow) == 1 ? 0 : -EIO;
out:
	kofi_test_fail_nth(0);
	if (pep)
		kofi_pep_close(pep);
	close_side(&client);
	close_side(&server);
	return error;
}

/* The same for fi_getinfo and fi_tostr: what is found, what is not and why, and all of it as text. */
static int info_without_memory(void)
{
	struct kofi_info *hints = kofi_dupinfo(NULL), *list = NULL;
	char *text = kvmalloc(4096, GFP_KERNEL);
	int error = -ENOMEM, needed = 0, kind;
	bool failed = true;

	if (!hints || !text)
		goto out;
	hints->present = ~0u;
	hints->mode = hints->domain.mode = ~0ULL;
	hints->ep.tx_ctx_cnt = hints->ep.rx_ctx_cnt = 1;
	strscpy(hints->fabric.prov_name, "tcp", sizeof(hints->fabric.prov_name));
	for (nth = 1; failed && nth < 400; nth++) {
		bool none = false;

		kofi_test_fail_nth(nth);
		for (kind = 0; kind < 7 && !none; kind++) {
			int want = -ENODATA, got;

			/* Every address; one; a destination; no port; no address; nothing that has this name; a key, which nobody has. */
			strscpy(hints->domain.name, kind == 5 ? "nowhere" : "lo", sizeof(hints->domain.name));
			hints->ep.auth_key_size = kind == 6;
			got = kofi_getinfo(NULL, KOFI_VERSION(1, 17), kind == 4 ? "somewhere" : kind && kind != 3 ? "127.0.0.1" : NULL,
					   kind == 3 ? "x" : kind ? "7471" : NULL, kind == 1 ? KOFI_SOURCE : 0, hints, &list);
			if (kind < 3)
				want = 0;
			none = got == -ENOMEM;
			if (!none)
				want_is(got, want);
			if (!list)
				continue;
			got = kofi_tostr(KOFI_TYPE_INFO, list, text, 4096);
			none = got == -ENOMEM;
			want(none || got > 1000);
			kofi_freeinfo(list);
			list = NULL;
		}
		failed = kofi_test_fail_nth(0);
		needed += none;
	}
	want(!failed && needed > 20);
	error = 0;
out:
	kofi_test_fail_nth(0);
	kofi_freeinfo(list);
	kofi_freeinfo(hints);
	kvfree(text);
	return error;
}

/* The same for a shared receive context. */
static int context_without_memory(void)
{
	struct kofi_op op = { .default_flags = 1 };
	struct side s;
	int error = open_side(&s, true), got, needed = 0;
	bool failed = true;

	if (error)
		goto out;
	for (nth = 1; failed && nth < 400; nth++) {
		struct kofi_srx *srx = NULL;

		kofi_test_fail_nth(nth);
		got = kofi_domain_open(s.fabric, s.info, &s.domain);
		if (!got)
			got = kofi_cq_open(s.domain, NULL, &s.cq);
		if (!got)
			got = kofi_srx_open(s.domain, NULL, &srx);
		if (!got)
			got = kofi_srx_bind_cq(srx, s.cq, KOFI_RECV);
		if (!got)
			got = kofi_srx_recv(srx, &op);
		failed = kofi_test_fail_nth(0);
		if (srx)
			must(kofi_srx_close(srx));
		close_connection(&s);
		want(!got || got == -ENOMEM);
		needed += got == -ENOMEM;
	}
	want(!failed && needed > 5);
out:
	kofi_test_fail_nth(0);
	close_side(&s);
	return error;
}

static int memory(void)
{
	int failures = 0, good = 0;

	for (nth = 1; nth < 400 && good < 3; nth++) {
		if (one_without_memory()) {
			failures++;
			good = 0;
		} else {
			/* What failed was not needed; or there was nothing left to fail. */
			good = kofi_test_fail_nth(0) ? 0 : good + 1;
		}
	}
	pr_info("%d of %u allocations are needed\n", failures, nth);
	return failures > 10 && good == 3 ? 0 : -EPROTO;
}

/* Connections while the kernel's allocations for us fail at random (debug.sh): whatever comes of them, nothing breaks. */
static int faults(void)
{
	int failures = 0;
	u32 n;

	nth = 0;
	for (n = 0; n < rounds && !signal_pending(current); n++)
		failures += !!one_without_memory();
	pr_info("%d of %u connections were refused memory\n", failures, rounds);
	return n == rounds ? 0 : -EINTR;
}

static int __init selftest_init(void)
{
	if (!strcmp(run, "server")) {
		int error = server(NULL);

		return error == -EINTR ? error : report("server", error);
	}
	if (!strcmp(run, "gone"))
		return report("peer that is gone", peer_gone());
	if (!strcmp(run, "wire"))
		return report("wire", wire());
	if (!strcmp(run, "memory"))
		return report("allocations that fail", memory()) ?: report("allocations of getinfo that fail", info_without_memory()) ?:
		       report("allocations of a shared receive context that fail", context_without_memory());
	if (!strcmp(run, "faults"))
		return report("the kernel's allocations fail at random", faults());
	if (!strcmp(run, "client"))
		return report("client", client());
	if (!strcmp(run, "kernel"))
		return report("kernel to kernel", both());
	if (!strcmp(run, "local"))
		return report("local", local());
	return 0;
}

static void __exit selftest_exit(void)
{
}

module_init(selftest_init);
module_exit(selftest_exit);
MODULE_LICENSE("Dual BSD/GPL");
MODULE_DESCRIPTION("Tests of kofi.ko");
