// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What needs no other machine: wrong uses, time limits, handlers, interruption. */
#include "selftest.h"

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

/*
 * Requests that nobody decides on end in their time, each, wherever in a tick that is. The module's parameter connect_timeout is a few ms for
 * this.
 */
int limits(void)
{
	struct kofi_eq_error failure = {};
	struct kofi_pep *pep = NULL;
	struct kofi_event event;
	struct side server, client = {};
	u32 n;
	u8 byte;
	int error = open_side(&server, true);

	if (error)
		goto out;
	must(kofi_pep_open(server.fabric, server.info, 7, &pep));
	must(kofi_pep_bind_eq(pep, server.eq, 0));
	must(kofi_pep_listen(pep));
	for (n = 0; n < rounds; n++) {
		must(open_side(&client, false));
		must(open_connection(&client, client.info, false));
		must(kofi_ep_connect(client.ep, NULL, 0, NULL, 0));
		want_is(kofi_eq_sread(client.eq, &event, &byte, 1, 0, TIMEOUT, 0), -KOFI_EAVAIL);
		want_is(kofi_eq_readerr(client.eq, &failure, 0), 1);
		want_is(failure.err, ETIMEDOUT);
		close_side(&client);
		/* Others do not wait for room. */
		while (kofi_eq_read(server.eq, &event, &byte, 1, 0, 0) >= 0)
			kofi_freeinfo(event.info);
	}
out:
	close_side(&client);
	if (pep)
		kofi_pep_close(pep);
	close_side(&server);
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

int local(void)
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
