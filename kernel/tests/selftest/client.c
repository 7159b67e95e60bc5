// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The client of that server. */
#include "selftest.h"

static int finish(struct side *s)
{
	u8 byte;
	int error = 0;

	must(kofi_ep_shutdown(s->ep, 0));
	must(expect(s, KOFI_SHUTDOWN, &byte, 1, NULL));
out:
	return error;
}

int client_echo(struct side *s)
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
int client_pages(struct side *s)
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

int client(void)
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

int both(void)
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
