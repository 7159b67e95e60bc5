/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* One side of one run over a libfabric, by its public interface only: told as worker.rs says, and telling the
 * same. Compiled by `kofi bench` when it runs. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define STEP_MS 20000
#define FILL 32
#define BASE 24
#define STRIDE 256
#define LAST 1
#define HELLO 8
#define NAP_NS 1000000
#define FEWEST 100
#define KEY 1

/* An endpoint, with memory for the one message of a connection. */
struct conn {
	struct fid_ep *ep;
	char hello[HELLO];
};

static size_t size, window, receives, held;
static uint64_t millis;
static int yields, sleeps, rma, reads;
static char *port;
static const char *measure;
static struct fi_info *hints, *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_eq *eq;
static struct fid_cq *cq;
/* Of cq_next: whether a receive has completed, and its buffer. */
static int received;
static char *context;

static void fail(const char *what, long error)
{
	fprintf(stderr, "stock libfabric: %s: %s\n", what, fi_strerror(error < 0 ? (int) -error : (int) error));
	exit(1);
}

static void check(const char *what, long result)
{
	if (result)
		fail(what, result);
}

static uint64_t nanos(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}

static uint64_t now(void)
{
	return nanos(CLOCK_MONOTONIC);
}

static void *zeroed(size_t len)
{
	void *memory = calloc(1, len ? len : 1);

	if (!memory)
		fail("memory", FI_ENOMEM);
	return memory;
}

static void relax(void)
{
	if (yields)
		sched_yield();
}

static uint64_t memory(void)
{
	char line[256];
	uint64_t kib = 0;
	FILE *status = fopen("/proc/self/status", "r");

	while (status && fgets(line, sizeof line, status))
		if (sscanf(line, "RssAnon: %" SCNu64, &kib) == 1)
			break;
	if (status)
		fclose(status);
	return kib << 10;
}

static void held_count(size_t open)
{
	static uint64_t base;

	if (open == BASE)
		base = memory();
	if (open == held) {
		uint64_t end = memory();

		printf("{\"bytes\": %f}\n", (double) (end > base ? end - base : 0) / (double) (held > BASE ? held - BASE : 1));
		fflush(stdout);
	}
}

static void tell_rate(uint64_t count, uint64_t elapsed)
{
	printf("{\"count\": %" PRIu64 ", \"seconds\": %.9f}\n", count, (double) elapsed / 1e9);
	fflush(stdout);
}

/* The next event, by looking for it again and again, or by sleeping up to `timeout` ms; 0: none. */
static uint32_t eq_next(struct fi_eq_cm_entry *entry, int timeout)
{
	uint32_t event = 0;
	struct fi_eq_err_entry error = { 0 };
	ssize_t result = timeout ? fi_eq_sread(eq, &event, entry, sizeof *entry, timeout, 0)
				 : fi_eq_read(eq, &event, entry, sizeof *entry, 0);

	if (result == -FI_EAGAIN || result == -FI_EINTR || result == -FI_ETIMEDOUT)
		return 0;
	if (result < 0) {
		fi_eq_readerr(eq, &error, 0);
		fail("event queue", error.err ? error.err : (int) -result);
	}
	return event;
}

static uint32_t eq_must(struct fi_eq_cm_entry *entry)
{
	uint64_t end = now() + STEP_MS * UINT64_C(1000000);
	uint32_t event;

	while (!(event = eq_next(entry, sleeps && !strcmp(measure, "connect") ? STEP_MS : 0))) {
		if (now() > end)
			fail("no event", FI_ETIMEDOUT);
		relax();
	}
	return event;
}

static void connected(struct fi_eq_cm_entry *entry)
{
	if (eq_must(entry) != FI_CONNECTED)
		fail("wanted FI_CONNECTED", FI_EOTHER);
}

/* The next completion; 0: the connection is over. */
static int cq_next(void)
{
	struct fi_cq_msg_entry entry;

	for (;;) {
		ssize_t result = sleeps ? fi_cq_sread(cq, &entry, 1, NULL, STEP_MS) : fi_cq_read(cq, &entry, 1);

		if (result == 1) {
			received = !!(entry.flags & FI_RECV);
			context = entry.op_context;
			return 1;
		}
		if (result == -FI_EAVAIL)
			return 0;
		if (result != -FI_EAGAIN && result != -FI_EINTR)
			fail("completion queue", result);
		relax();
	}
}

static void cq_must(void)
{
	if (!cq_next())
		fail("the connection ended in the middle of the run", FI_ECONNRESET);
}

static struct conn *conn_new(struct fi_info *from)
{
	struct conn *conn = zeroed(sizeof *conn);

	check("fi_endpoint", fi_endpoint(domain, from, &conn->ep, conn));
	check("fi_ep_bind", fi_ep_bind(conn->ep, &eq->fid, 0));
	check("fi_ep_bind", fi_ep_bind(conn->ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	check("fi_enable", fi_enable(conn->ep));
	return conn;
}

static void conn_close(struct conn *conn)
{
	fi_close(&conn->ep->fid);
	free(conn);
}

static void post_recv(struct conn *conn, char *buffer, size_t len)
{
	ssize_t result;

	while ((result = fi_recv(conn->ep, buffer, len, NULL, 0, buffer)) == -FI_EAGAIN)
		;
	check("fi_recv", result);
}

static void post_send(struct conn *conn, const char *buffer, size_t len)
{
	ssize_t result;

	while ((result = fi_send(conn->ep, buffer, len, NULL, 0, NULL)) == -FI_EAGAIN)
		fi_cq_read(cq, NULL, 0);
	check("fi_send", result);
}

static void post_inject(struct conn *conn, const char *buffer, size_t len)
{
	ssize_t result;

	while ((result = fi_inject(conn->ep, buffer, len, 0)) == -FI_EAGAIN)
		fi_cq_read(cq, NULL, 0);
	check("fi_inject", result);
}

/* Sends a message; gives the number of completions to come. */
static int say(struct conn *conn, const char *buffer)
{
	if (size <= info->tx_attr->inject_size) {
		post_inject(conn, buffer, size);
		return 0;
	}
	post_send(conn, buffer, size);
	return 1;
}

/* The one connection of a run, with receives posted. */
static struct conn *server_conn(void)
{
	struct fi_eq_cm_entry entry;
	struct conn *conn;

	if (eq_must(&entry) != FI_CONNREQ)
		fail("wanted FI_CONNREQ", FI_EOTHER);
	conn = conn_new(entry.info);
	for (size_t i = 0; i < receives; i++)
		post_recv(conn, zeroed(size), size);
	check("fi_accept", fi_accept(conn->ep, NULL, 0));
	fi_freeinfo(entry.info);
	connected(&entry);
	return conn;
}

static struct conn *client_conn(void)
{
	struct fi_eq_cm_entry entry;
	struct conn *conn = conn_new(info);

	for (int i = 0; i < 2; i++)
		post_recv(conn, zeroed(size), size);
	check("fi_connect", fi_connect(conn->ep, info->dest_addr, NULL, 0));
	connected(&entry);
	return conn;
}

static void echo(void)
{
	struct conn *conn = server_conn();
	char *message = zeroed(size), *buffer;
	int pending = 0;

	while (cq_next()) {
		if (!received) {
			pending--;
			continue;
		}
		buffer = context;
		while (pending) {
			if (!cq_next())
				return;
			pending--;
		}
		pending += say(conn, message);
		post_recv(conn, buffer, size);
	}
}

static uint64_t *times;
static size_t times_count;

static void times_add(uint64_t nanoseconds)
{
	static size_t room;

	if (times_count == room) {
		room = room ? 2 * room : 65536;
		times = realloc(times, room * sizeof *times);
		if (!times)
			fail("memory", FI_ENOMEM);
	}
	times[times_count++] = nanoseconds;
}

static void times_tell(void)
{
	printf("{\"nanos\": [");
	for (size_t i = 0; i < times_count; i++)
		printf(i ? ",%" PRIu64 : "%" PRIu64, times[i]);
	printf("]}\n");
	fflush(stdout);
}

static void ping(int naps)
{
	struct conn *conn = client_conn();
	struct timespec nap = { .tv_nsec = NAP_NS };
	uint64_t warm = now() + millis * 1000000 / 5, end = warm + millis * 1000000, from, to;
	char *message = zeroed(size), *buffer;
	int pending;

	do {
		if (naps)
			nanosleep(&nap, NULL);
		from = now();
		pending = say(conn, message);
		buffer = NULL;
		while (!buffer || pending) {
			cq_must();
			if (received)
				buffer = context;
			else
				pending--;
		}
		to = now();
		post_recv(conn, buffer, size);
		if (from >= warm)
			times_add(to - from);
	} while (to < end || times_count < FEWEST);
	times_tell();
}

/* Has memory that the client reads and writes. */
static void lend(void)
{
	struct fid_mr *mr;

	check("fi_mr_reg", fi_mr_reg(domain, zeroed(size), size, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL));
	server_conn();
	while (cq_next())
		;
}

static void reach_post(struct conn *conn, char *buffer, uint64_t flags)
{
	struct iovec iov = { .iov_base = buffer, .iov_len = size };
	struct fi_rma_iov remote = { .addr = 0, .len = size, .key = KEY };
	struct fi_msg_rma msg = { .msg_iov = &iov, .iov_count = 1, .rma_iov = &remote, .rma_iov_count = 1, .context = buffer };
	ssize_t result;

	while ((result = reads ? fi_readmsg(conn->ep, &msg, FI_COMPLETION) :
				 fi_writemsg(conn->ep, &msg, FI_COMPLETION | flags)) == -FI_EAGAIN)
		fi_cq_read(cq, NULL, 0);
	check(reads ? "fi_readmsg" : "fi_writemsg", result);
}

/* Reads or writes one after the other. */
static void reach(void)
{
	struct conn *conn = client_conn();
	uint64_t warm = now() + millis * 1000000 / 5, end = warm + millis * 1000000, from, to;
	char *buffer = zeroed(size);

	do {
		from = now();
		reach_post(conn, buffer, FI_DELIVERY_COMPLETE);
		cq_must();
		to = now();
		if (from >= warm)
			times_add(to - from);
	} while (to < end || times_count < FEWEST);
	times_tell();
}

/* Keeps as many reads or writes in flight as the window has. */
static void reach_all(void)
{
	struct conn *conn = client_conn();
	size_t open = reads ? receives : window;
	uint64_t start, count = 0;
	char *shared = zeroed(size);

	start = now();
	for (size_t i = 0; i < open; i++, count++)
		reach_post(conn, reads ? zeroed(size) : shared, 0);
	for (; now() - start < millis * 1000000; count++) {
		cq_must();
		reach_post(conn, context, 0);
	}
	reach_post(conn, shared, FI_DELIVERY_COMPLETE);
	for (size_t i = 0; i <= open; i++)
		cq_must();
	tell_rate(count + 1, now() - start);
}

static void stream(void)
{
	struct conn *conn = client_conn();
	char *message = zeroed(size), *last = zeroed(size);
	uint64_t start = now(), sent = 0, count;

	last[0] = LAST;
	for (; sent < window; sent++)
		post_send(conn, message, size);
	for (;;) {
		cq_must();
		if ((size > 4096 || sent % STRIDE == 0) && now() - start >= millis * 1000000)
			break;
		post_send(conn, message, size);
		sent++;
	}
	for (size_t i = 1; i < window; i++)
		cq_must();
	post_send(conn, last, size);
	sent++;
	do
		cq_must();
	while (!received);
	memcpy(&count, context, sizeof count);
	if (count != sent)
		fail("messages were lost", FI_EOTHER);
	tell_rate(sent, now() - start);
}

static void sink(void)
{
	struct conn *conn = server_conn();
	struct fi_eq_cm_entry entry;
	uint64_t count = 0;

	while (cq_next()) {
		char *buffer = context;

		count++;
		if (buffer[0] == LAST) {
			post_inject(conn, (char *) &count, sizeof count);
			break;
		}
		post_recv(conn, buffer, size);
	}
	/* The client has what it needs, and ends the connection. The completion queue is what moves it along. */
	for (uint64_t end = now() + STEP_MS * UINT64_C(1000000); now() < end; relax()) {
		fi_cq_read(cq, NULL, 0);
		if (eq_next(&entry, 0) == FI_SHUTDOWN)
			return;
	}
}

/* Opens connections that are there all the time. */
static void fill(int counted)
{
	struct fi_eq_cm_entry entry;
	size_t started = 0, open = 0;

	while (open < held) {
		for (; started < held && started < open + FILL; started++) {
			struct conn *conn = conn_new(info);

			check("fi_connect", fi_connect(conn->ep, info->dest_addr, NULL, 0));
		}
		connected(&entry);
		open++;
		if (counted)
			held_count(open);
	}
}

static void connect_all(void)
{
	struct fi_eq_cm_entry entry;
	struct conn *conn;
	uint64_t start, done = 0;
	size_t open = 0;
	int more = 1;

	fill(0);
	start = now();
	while (more || open) {
		for (; more && open < window; open++) {
			conn = conn_new(info);
			check("fi_connect", fi_connect(conn->ep, info->dest_addr, NULL, 0));
		}
		if (eq_must(&entry) != FI_CONNECTED)
			continue;
		conn = entry.fid->context;
		post_send(conn, conn->hello, HELLO);
		cq_must();
		fi_shutdown(conn->ep, 0);
		conn_close(conn);
		open--;
		done++;
		more = now() - start < millis * 1000000;
	}
	tell_rate(done, now() - start);
}

static void accept_all(void)
{
	struct fi_eq_cm_entry entry;
	struct fi_cq_msg_entry done;
	struct fi_cq_err_entry error;
	struct conn *conn;
	ssize_t result;

	for (;;) {
		uint32_t event = eq_next(&entry, sleeps ? STEP_MS : 0);

		if (event == FI_CONNREQ) {
			conn = conn_new(entry.info);
			post_recv(conn, conn->hello, HELLO);
			check("fi_accept", fi_accept(conn->ep, NULL, 0));
			fi_freeinfo(entry.info);
		} else if (event == FI_SHUTDOWN) {
			conn_close(entry.fid->context);
		}
		while ((result = fi_cq_read(cq, &done, 1)) == 1)
			;
		if (result == -FI_EAVAIL) {
			memset(&error, 0, sizeof error);
			fi_cq_readerr(cq, &error, 0);
		}
		if (!event)
			relax();
	}
}

/* Accepts all connections, then waits. */
static void hold(void)
{
	struct fi_eq_cm_entry entry;
	size_t open = 0;
	uint64_t start, before;

	while (open < held) {
		switch (eq_must(&entry)) {
		case FI_CONNREQ:
			check("fi_accept", fi_accept(conn_new(entry.info)->ep, NULL, 0));
			fi_freeinfo(entry.info);
			break;
		case FI_CONNECTED:
			held_count(++open);
			break;
		default:
			fail("wanted a connection", FI_EOTHER);
		}
	}
	start = now();
	before = nanos(CLOCK_PROCESS_CPUTIME_ID);
	while (now() - start < millis * 1000000)
		if (eq_next(&entry, (int) (millis - (now() - start) / 1000000)))
			fail("wanted silence", FI_EOTHER);
	printf("{\"cpu\": %.9f, \"seconds\": %.9f}\n", (double) (nanos(CLOCK_PROCESS_CPUTIME_ID) - before) / 1e9,
	       (double) (now() - start) / 1e9);
	fflush(stdout);
}

static void open_all(void)
{
	struct fi_eq_attr eq_attr = { .size = 4096, .wait_obj = FI_WAIT_UNSPEC };
	struct fi_cq_attr cq_attr = { .size = 16384, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_UNSPEC };

	hints = fi_allocinfo();
	hints->ep_attr->type = FI_EP_MSG;
	hints->caps = rma ? FI_MSG | FI_RMA : FI_MSG;
	hints->domain_attr->mr_mode = 0;
	hints->addr_format = FI_SOCKADDR_IN;
	hints->fabric_attr->prov_name = strdup("tcp");
	check("fi_getinfo", fi_getinfo(FI_VERSION(1, 9), "127.0.0.1", port, port ? 0 : FI_SOURCE, hints, &info));
	check("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
	check("fi_eq_open", fi_eq_open(fabric, &eq_attr, &eq, NULL));
	check("fi_domain", fi_domain(fabric, info, &domain, NULL));
	check("fi_cq_open", fi_cq_open(domain, &cq_attr, &cq, NULL));
}

static void server(void)
{
	unsigned char name[64];
	size_t len = sizeof name;
	struct fid_pep *pep;

	check("fi_passive_ep", fi_passive_ep(fabric, info, &pep, NULL));
	check("fi_pep_bind", fi_pep_bind(pep, &eq->fid, 0));
	check("fi_listen", fi_listen(pep));
	check("fi_getname", fi_getname(&pep->fid, name, &len));
	/* Of any IP address, the port comes after the family, in network order. */
	printf("port %u\n", name[2] << 8 | name[3]);
	fflush(stdout);
	if (!strcmp(measure, "latency") || !strcmp(measure, "wake"))
		echo();
	else if (!strcmp(measure, "stream"))
		sink();
	else if (!strcmp(measure, "connect"))
		accept_all();
	else if (rma)
		lend();
	else
		hold();
}

static void client(void)
{
	if (!strcmp(measure, "latency")) {
		ping(0);
	} else if (!strcmp(measure, "wake")) {
		ping(1);
	} else if (!strcmp(measure, "stream")) {
		stream();
	} else if (!strcmp(measure, "connect")) {
		connect_all();
	} else if (rma) {
		window == 1 ? reach() : reach_all();
	} else {
		fill(1);
		pause();
	}
}

int main(int argc, char **argv)
{
	cpu_set_t set;

	if (argc == 2 && !strcmp(argv[1], "version")) {
		uint32_t version = fi_version();

		printf("%u.%u\n", FI_MAJOR(version), FI_MINOR(version));
		return 0;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 1; i < argc; i++) {
		char *value = strchr(argv[i], '=');

		if (!value)
			continue;
		*value++ = 0;
		if (!strcmp(argv[i], "measure"))
			measure = value;
		else if (!strcmp(argv[i], "size"))
			size = strtoul(value, NULL, 10);
		else if (!strcmp(argv[i], "window"))
			window = strtoul(value, NULL, 10);
		else if (!strcmp(argv[i], "receives"))
			receives = strtoul(value, NULL, 10);
		else if (!strcmp(argv[i], "held"))
			held = strtoul(value, NULL, 10);
		else if (!strcmp(argv[i], "millis"))
			millis = strtoul(value, NULL, 10);
		else if (!strcmp(argv[i], "yields"))
			yields = atoi(value);
		else if (!strcmp(argv[i], "wait"))
			sleeps = !!strcmp(value, "polling");
		else if (!strcmp(argv[i], "port"))
			port = value;
		else if (!strcmp(argv[i], "cpu")) {
			CPU_ZERO(&set);
			CPU_SET(atoi(value), &set);
			sched_setaffinity(0, sizeof set, &set);
		}
	}
	if (!measure)
		fail("wanted measure=NAME", FI_EINVAL);
	reads = !strcmp(measure, "read");
	rma = reads || !strcmp(measure, "write");
	/* Of a server that is to be woken, only that one sleeps. */
	if (!strcmp(measure, "wake"))
		sleeps = !port;
	open_all();
	if (port)
		client();
	else
		server();
	/* What is open ends with the process. */
	return 0;
}
