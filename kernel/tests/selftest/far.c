// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Peers behind an interface, that can be cut off. */
#include "selftest.h"

/* vm.sh takes the peer's interface down, and says when it has. */
static int wait_for_cut(void)
{
	u32 i;

	for (i = 0; i < TIMEOUT / 10 && !READ_ONCE(cut); i++)
		msleep(10);
	return READ_ONCE(cut) ? 0 : -ETIMEDOUT;
}

/* Its peer's machine is gone, as far as can be seen from here. */
int peer_gone(void)
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
	long before;
	int error = 0;

	must(client_echo(s));
	before = kofi_test_readings();
	must(client_pages(s));
	want(kofi_test_readings() > before);
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
	must(start(s, "take", data, sizeof(data), &len));
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

int wire(void)
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
