// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Reads and writes of remote memory by libfabric, in both roles. `remote_memory.rs` has the other side,
// and says what happens when.
//
//   remote_memory server         listens, prints its port
//   remote_memory client PORT    connects

#include <arpa/inet.h>
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

enum { KEY = 0xabcd, REGION = 65536, READS = 200, READ = 1000, LARGE = 60000 };

#define DATA 0x1122334455667788ULL

static struct fid_eq *eq;
static struct fid_cq *cq;
static struct fid_ep *ep;
static unsigned char region[REGION];
static unsigned char received[16];

#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "line %d: not so: %s\n", __LINE__, #what); \
			exit(1); \
		} \
	} while (0)

#define DO(call) \
	do { \
		int done = (int)(call); \
		if (done) { \
			fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, fi_strerror(-done)); \
			exit(1); \
		} \
	} while (0)

static unsigned char byte_at(unsigned salt, size_t at)
{
	return (unsigned char)(at * 7 + (at >> 8) + salt);
}

static void pattern(unsigned char *to, unsigned salt, size_t len)
{
	for (size_t at = 0; at < len; at++)
		to[at] = byte_at(salt, at);
}

static int is_pattern(const unsigned char *from, unsigned salt, size_t len)
{
	for (size_t at = 0; at < len; at++)
		if (from[at] != byte_at(salt, at))
			return 0;
	return 1;
}

static struct fi_cq_data_entry completion(void)
{
	struct fi_cq_data_entry entry;
	time_t end = time(NULL) + 20;

	for (;;) {
		ssize_t count = fi_cq_read(cq, &entry, 1);
		if (count == 1)
			return entry;
		if (count == -FI_EAVAIL) {
			struct fi_cq_err_entry error = { 0 };
			fi_cq_readerr(cq, &error, 0);
			fprintf(stderr, "completion: %s\n", fi_strerror(error.err));
			exit(1);
		}
		CHECK(count == -FI_EAGAIN);
		CHECK(time(NULL) < end);
	}
}

static void event(uint32_t wanted, struct fi_eq_cm_entry *entry)
{
	time_t end = time(NULL) + 20;
	uint32_t found;
	ssize_t len;

	for (;;) {
		// An end of the connection shows only to who drives the endpoint, by its completion queue.
		if (cq)
			fi_cq_read(cq, NULL, 0);
		len = fi_eq_read(eq, &found, entry, sizeof(*entry), 0);
		if (len != -FI_EAGAIN)
			break;
		CHECK(time(NULL) < end);
	}
	CHECK(len >= (ssize_t)sizeof(*entry));
	CHECK(found == wanted);
}

static void expect(uint64_t flags, void *context)
{
	struct fi_cq_data_entry done = completion();

	CHECK((done.flags & flags) == flags);
	CHECK(done.op_context == context);
}

static void write_segments(const struct fi_rma_iov *remote, size_t count, unsigned salt, size_t len, uint64_t flags)
{
	unsigned char *bytes = malloc(len);
	struct iovec local[2] = { { bytes, len / 3 }, { bytes + len / 3, len - len / 3 } };
	struct fi_msg_rma msg = {
		.msg_iov = local, .iov_count = 2, .rma_iov = remote, .rma_iov_count = count, .context = bytes,
	};

	CHECK(bytes);
	pattern(bytes, salt, len);
	DO(fi_writemsg(ep, &msg, flags | FI_COMPLETION));
	expect(FI_RMA | FI_WRITE, bytes);
	free(bytes);
}

static void receive(void)
{
	DO(fi_recv(ep, received, sizeof(received), NULL, 0, received));
}

static void initiate(void)
{
	static unsigned char bytes[READS][READ];
	struct fi_rma_iov two[2] = { { 0x40, 10, KEY }, { 0x80, 16, KEY } };
	struct fi_rma_iov large = { 1000, LARGE, KEY };
	struct iovec local = { bytes[0], 26 };
	struct fi_msg_rma msg = {
		.msg_iov = &local, .iov_count = 1, .rma_iov = two, .rma_iov_count = 2, .context = &msg,
	};

	write_segments(two, 2, 1, 26, FI_DELIVERY_COMPLETE);
	pattern(bytes[0], 2, 20);
	DO(fi_writedata(ep, bytes[0], 20, NULL, DATA, 0, 300, KEY, bytes));
	expect(FI_RMA | FI_WRITE, bytes);
	DO(fi_readmsg(ep, &msg, FI_COMPLETION));
	expect(FI_RMA | FI_READ, &msg);
	CHECK(is_pattern(bytes[0], 1, 26));
	pattern(bytes[0], 3, 8);
	DO(fi_inject_writedata(ep, bytes[0], 8, 5, 0, 500, KEY));
	write_segments(&large, 1, 4, LARGE, FI_DELIVERY_COMPLETE);
	write_segments(&large, 1, 4, LARGE, FI_TRANSMIT_COMPLETE);
	for (int at = 0; at < READS; at++)
		DO(fi_read(ep, bytes[at], READ, NULL, 0, 1000 + at * 256, KEY, bytes[at]));
	for (int at = 0; at < READS; at++) {
		expect(FI_RMA | FI_READ, bytes[at]);
		for (int i = 0; i < READ; i++)
			CHECK(bytes[at][i] == byte_at(4, at * 256 + i));
	}
	DO(fi_send(ep, "done", 4, NULL, 0, bytes));
	expect(FI_MSG | FI_SEND, bytes);
	expect(FI_MSG | FI_RECV, received);
	CHECK(!memcmp(received, "ok", 2));
}

static void target(void)
{
	struct fi_cq_data_entry told = completion();

	CHECK((told.flags & FI_REMOTE_CQ_DATA) && (told.flags & FI_REMOTE_WRITE));
	CHECK(told.data == DATA);
	CHECK(is_pattern(region + 300, 2, 20));
	told = completion();
	CHECK((told.flags & FI_REMOTE_CQ_DATA) && (told.flags & FI_REMOTE_WRITE));
	CHECK(told.data == 5);
	expect(FI_MSG | FI_RECV, received);
	CHECK(!memcmp(received, "done", 4));
	for (int at = 0; at < 26; at++)
		CHECK(region[(at < 10 ? 0x40 : 0x80 - 10) + at] == byte_at(1, at));
	CHECK(is_pattern(region + 500, 3, 8));
	CHECK(is_pattern(region + 1000, 4, LARGE));
	DO(fi_send(ep, "ok", 2, NULL, 0, region));
	expect(FI_MSG | FI_SEND, region);
}

int main(int argc, char **argv)
{
	int server = argc == 2 && !strcmp(argv[1], "server");
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_DATA };
	struct fi_eq_cm_entry entry;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_pep *pep = NULL;
	struct fid_mr *mr;

	CHECK(server || argc == 3);
	CHECK(hints);
	hints->caps = FI_MSG | FI_RMA;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->mr_mode = 0;
	hints->fabric_attr->prov_name = strdup("tcp");
	DO(fi_getinfo(FI_VERSION(1, 9), "127.0.0.1", server ? "0" : argv[2], server ? FI_SOURCE : 0, hints, &info));
	DO(fi_fabric(info->fabric_attr, &fabric, NULL));
	DO(fi_eq_open(fabric, &eq_attr, &eq, NULL));
	if (server) {
		struct sockaddr_in addr;
		size_t len = sizeof(addr);

		DO(fi_passive_ep(fabric, info, &pep, NULL));
		DO(fi_pep_bind(pep, &eq->fid, 0));
		DO(fi_listen(pep));
		DO(fi_getname(&pep->fid, &addr, &len));
		printf("%d\n", ntohs(addr.sin_port));
		fflush(stdout);
		event(FI_CONNREQ, &entry);
		info = entry.info;
	}
	DO(fi_domain(fabric, info, &domain, NULL));
	DO(fi_mr_reg(domain, region, sizeof(region), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL));
	CHECK(fi_mr_key(mr) == KEY);
	DO(fi_cq_open(domain, &cq_attr, &cq, NULL));
	DO(fi_endpoint(domain, info, &ep, NULL));
	DO(fi_ep_bind(ep, &eq->fid, 0));
	DO(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	DO(fi_enable(ep));
	receive();
	if (server)
		DO(fi_accept(ep, NULL, 0));
	else
		DO(fi_connect(ep, info->dest_addr, NULL, 0));
	event(FI_CONNECTED, &entry);
	if (server) {
		target();
		receive();
		initiate();
		event(FI_SHUTDOWN, &entry);
	} else {
		initiate();
		receive();
		target();
		DO(fi_shutdown(ep, 0));
	}
	fi_close(&ep->fid);
	fi_close(&mr->fid);
	fi_close(&cq->fid);
	fi_close(&domain->fid);
	if (pep)
		fi_close(&pep->fid);
	fi_close(&eq->fid);
	fi_close(&fabric->fid);
	puts("passed");
	return 0;
}
