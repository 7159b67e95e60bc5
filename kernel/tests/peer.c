// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The other side of selftest/main.c in user space, by libfabric's API: peer server PORT | peer client ADDRESS PORT [command ...]
 *
 * Linked with a stock libfabric it shows that the kernel speaks its language. What the commands are says selftest/main.c.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define BIG (1 << 20)
/* On a machine that is so many times slower than usual, the environment says so. */
#define SECONDS (20 * (getenv("slow") ? atoi(getenv("slow")) : 1))

struct region {
	uint64_t key, base, len;
};

struct side {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_eq *eq;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	uint8_t *tx, *rx, *memory;
};

#define want(condition) do { if (!(condition)) { printf("# line %d: %s\n", __LINE__, #condition); return -1; } } while (0)
#define must(call) do { int _is = (call); if (_is) { printf("# line %d: %s is %d (%s)\n", __LINE__, #call, _is, fi_strerror(-_is)); return -1; } } while (0)

static int report(const char *name, int error)
{
	printf("TEST %s %s\n", name, error ? "FAILED" : "ok");
	fflush(stdout);
	return error;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int open_side(struct side *s, const char *address, const char *port, uint64_t flags)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_eq_attr attr = { .size = 10, .wait_obj = FI_WAIT_UNSPEC };

	memset(s, 0, sizeof(*s));
	hints->caps = FI_MSG | FI_RMA;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL;
	hints->fabric_attr->prov_name = strdup("tcp");
	must(fi_getinfo(FI_VERSION(1, 14), address, port, flags, hints, &s->info));
	fi_freeinfo(hints);
	must(fi_fabric(s->info->fabric_attr, &s->fabric, NULL));
	must(fi_eq_open(s->fabric, &attr, &s->eq, NULL));
	s->tx = malloc(BIG);
	s->rx = malloc(BIG);
	s->memory = calloc(1, BIG);
	return 0;
}

static int open_connection(struct side *s, struct fi_info *info, int with_region)
{
	struct fi_cq_attr attr = { .size = 64, .format = FI_CQ_FORMAT_DATA };

	must(fi_domain(s->fabric, info, &s->domain, NULL));
	must(fi_cq_open(s->domain, &attr, &s->cq, NULL));
	if (with_region)
		must(fi_mr_reg(s->domain, s->memory, BIG, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 42, 0, &s->mr, NULL));
	must(fi_endpoint(s->domain, info, &s->ep, s));
	must(fi_ep_bind(s->ep, &s->eq->fid, 0));
	must(fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV));
	must(fi_enable(s->ep));
	return 0;
}

static void close_connection(struct side *s)
{
	if (s->ep)
		fi_close(&s->ep->fid);
	if (s->mr)
		fi_close(&s->mr->fid);
	if (s->cq)
		fi_close(&s->cq->fid);
	if (s->domain)
		fi_close(&s->domain->fid);
	s->ep = NULL;
	s->mr = NULL;
	s->cq = NULL;
	s->domain = NULL;
}

/* The next event, while the completion queue makes progress, too; its data. */
static int event(struct side *s, uint32_t wanted, struct fi_info **info, void *data, size_t room)
{
	uint8_t buffer[sizeof(struct fi_eq_cm_entry) + 256];
	struct fi_eq_cm_entry *entry = (void *)buffer;
	double end = now() + SECONDS;
	uint32_t found = 0;
	ssize_t got;

	while ((got = fi_eq_read(s->eq, &found, buffer, sizeof(buffer), 0)) == -FI_EAGAIN && now() < end) {
		/* Stock's event queue alone does not see that the peer has gone. */
		if (s->cq)
			fi_cq_read(s->cq, NULL, 0);
	}
	if (got < 0) {
		struct fi_eq_err_entry failure = {};

		if (got != -FI_EAVAIL || fi_eq_readerr(s->eq, &failure, 0) < 0) {
			printf("# no event %u: %zd\n", wanted, got);
			return -1;
		}
		got = failure.err_data_size < room ? failure.err_data_size : room;
		if (failure.err_data)
			memcpy(data, failure.err_data, got);
		return wanted ? -failure.err : failure.err;
	}
	if (found != wanted) {
		printf("# event %u, not %u\n", found, wanted);
		return -1;
	}
	if (info)
		*info = entry->info;
	got -= sizeof(*entry);
	if (data)
		memcpy(data, entry->data, (size_t)got < room ? (size_t)got : room);
	return 0;
}

static int completion(struct side *s, struct fi_cq_data_entry *entry)
{
	double end = now() + SECONDS;
	ssize_t got;

	while ((got = fi_cq_read(s->cq, entry, 1)) == -FI_EAGAIN && now() < end)
		;
	return got == 1 ? 0 : -1;
}

static void pattern(uint8_t *to, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++)
		to[i] = (uint8_t)(seed + i * 7 + (i >> 8));
}

static int start(struct side *s, const char *command, void *data, size_t room)
{
	must(open_connection(s, s->info, 0));
	must(fi_connect(s->ep, s->info->dest_addr, command, strlen(command)));
	return event(s, FI_CONNECTED, NULL, data, room);
}

static int exchange(struct side *s, size_t len, uint32_t seed)
{
	struct fi_cq_data_entry entry;

	pattern(s->tx, len, seed);
	memset(s->rx, 0xee, len);
	must(fi_recv(s->ep, s->rx, BIG, NULL, 0, s->rx));
	must(fi_send(s->ep, s->tx, len, NULL, 0, s->tx));
	for (int left = 2; left--;) {
		must(completion(s, &entry));
		if (entry.flags & FI_RECV)
			want(entry.len == len);
	}
	want(!memcmp(s->tx, s->rx, len));
	return 0;
}

static int client_echo(struct side *s)
{
	static const size_t sizes[] = { 0, 1, 64, 4095, 65536, 100000, BIG };
	char data[8] = "";

	must(start(s, "echo", data, sizeof(data)));
	want(!memcmp(data, "hello", 5));
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		must(exchange(s, sizes[i], i));
	for (unsigned i = 0; i < 50; i++)
		must(exchange(s, 64, i));
	must(fi_shutdown(s->ep, 0));
	return event(s, FI_SHUTDOWN, NULL, NULL, 0);
}

static int client_reject(struct side *s)
{
	char data[16] = "";

	must(open_connection(s, s->info, 0));
	must(fi_connect(s->ep, s->info->dest_addr, "reject", 6));
	want(event(s, 0, NULL, data, sizeof(data)) == FI_ECONNREFUSED);
	want(!memcmp(data, "no thanks", 9));
	return 0;
}

static int client_rma(struct side *s)
{
	struct fi_cq_data_entry entry;
	struct region region;
	struct fid_mr *tx, *rx;

	must(start(s, "rma", &region, sizeof(region)));
	want(region.len == BIG);
	must(fi_mr_reg(s->domain, s->tx, BIG, FI_WRITE, 0, 1, 0, &tx, NULL));
	must(fi_mr_reg(s->domain, s->rx, BIG, FI_READ, 0, 2, 0, &rx, NULL));
	pattern(s->tx, BIG, 99);
	must(fi_write(s->ep, s->tx, BIG, fi_mr_desc(tx), 0, region.base, region.key, s));
	must(completion(s, &entry));
	memset(s->rx, 0, BIG);
	must(fi_read(s->ep, s->rx, BIG, fi_mr_desc(rx), 0, region.base, region.key, s));
	must(completion(s, &entry));
	want(!memcmp(s->tx, s->rx, BIG));
	must(exchange(s, 1000, 5));
	must(fi_shutdown(s->ep, 0));
	must(event(s, FI_SHUTDOWN, NULL, NULL, 0));
	fi_close(&tx->fid);
	fi_close(&rx->fid);
	return 0;
}

static int client_close(struct side *s)
{
	char data[8];

	must(start(s, "close", data, sizeof(data)));
	must(exchange(s, 100, 1));
	return event(s, FI_SHUTDOWN, NULL, NULL, 0);
}

static int client_quit(struct side *s)
{
	char data[16];

	must(open_connection(s, s->info, 0));
	must(fi_connect(s->ep, s->info->dest_addr, "quit", 4));
	want(event(s, 0, NULL, data, sizeof(data)) == FI_ECONNREFUSED);
	return 0;
}

static int client(const char *address, const char *port)
{
	static const struct {
		const char *name;
		int (*run)(struct side *);
	} all[] = {
		{ "stock client echo", client_echo }, { "stock client reject", client_reject }, { "stock client rma", client_rma },
		{ "stock client close", client_close }, { "stock client quit", client_quit },
	};
	struct side s;
	int error = open_side(&s, address, port, 0);

	for (unsigned i = 0; !error && i < sizeof(all) / sizeof(*all); i++) {
		error = report(all[i].name, all[i].run(&s));
		close_connection(&s);
	}
	return error;
}

static int serve(struct side *s, const char *command, struct fi_info *info)
{
	int with_region = !strcmp(command, "rma"), closing = !strcmp(command, "close"), over = 0;
	struct fi_cq_data_entry entry;
	double end = now() + SECONDS;

	must(open_connection(s, info, with_region));
	must(fi_recv(s->ep, s->rx, BIG, NULL, 0, s->rx));
	if (with_region) {
		struct region region = { fi_mr_key(s->mr), info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)s->memory : 0, BIG };

		must(fi_accept(s->ep, &region, sizeof(region)));
	} else {
		must(fi_accept(s->ep, "hello", 5));
	}
	must(event(s, FI_CONNECTED, NULL, NULL, 0));
	while (!over) {
		uint8_t buffer[sizeof(struct fi_eq_cm_entry) + 256];
		uint32_t found;
		ssize_t got = fi_cq_read(s->cq, &entry, 1);

		want(now() < end);
		if (got == 1 && entry.flags & FI_RECV) {
			memcpy(s->tx, s->rx, entry.len);
			must(fi_send(s->ep, s->tx, entry.len, NULL, 0, s->tx));
		} else if (got == 1 && entry.flags & FI_SEND) {
			if (closing) {
				closing = 0;
				must(fi_shutdown(s->ep, 0));
			} else {
				/* The connection may be over by now. */
				fi_recv(s->ep, s->rx, BIG, NULL, 0, s->rx);
			}
		} else if (got == -FI_EAVAIL) {
			struct fi_cq_err_entry failure = {};

			fi_cq_readerr(s->cq, &failure, 0);
		}
		got = fi_eq_read(s->eq, &found, buffer, sizeof(buffer), 0);
		over = got > 0 && found == FI_SHUTDOWN;
	}
	return 0;
}

static int server(const char *port)
{
	struct fid_pep *pep;
	struct side s;
	int quit = 0, error = open_side(&s, "127.0.0.1", port, FI_SOURCE);

	if (error)
		return error;
	must(fi_passive_ep(s.fabric, s.info, &pep, NULL));
	must(fi_pep_bind(pep, &s.eq->fid, 0));
	must(fi_listen(pep));
	while (!quit && !error) {
		char command[64] = "", name[80];
		struct fi_info *info = NULL;

		must(event(&s, FI_CONNREQ, &info, command, sizeof(command) - 1));
		quit = !strcmp(command, "quit");
		if (quit || !strcmp(command, "reject"))
			error = fi_reject(pep, info->handle, "no thanks", 9);
		else
			error = serve(&s, command, info);
		snprintf(name, sizeof(name), "stock server %s", command);
		report(name, error);
		close_connection(&s);
		fi_freeinfo(info);
	}
	/* What is rejected last is to leave. */
	for (double end = now() + 0.5; now() < end;) {
		uint32_t found;
		char byte;

		fi_eq_read(s.eq, &found, &byte, 1, 0);
	}
	return error;
}

int main(int count, char **words)
{
	if (count == 3 && !strcmp(words[1], "server"))
		return server(words[2]) ? 1 : 0;
	if (count == 4 && !strcmp(words[1], "client"))
		return client(words[2], words[3]) ? 1 : 0;
	fprintf(stderr, "usage: peer server PORT | peer client ADDRESS PORT\n");
	return 2;
}
