/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Two copies of the library in one process, as when a program and one of its plug-ins have one each: a client of one
 * connects to a server of the other. The process's signal handlers and threads are its own business before and after.
 * Arguments: the two copies. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

struct copy {
	void *library;
	int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **);
	void (*freeinfo)(struct fi_info *);
	struct fi_info *(*dupinfo)(const struct fi_info *);
	int (*fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *);
	struct fi_info *info;
	struct fid_fabric *net;
	struct fid_eq *eq;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_ep *ep;
};

#define CHECK(call) do { \
	long answer = (call); \
	if (answer < 0) { \
		fprintf(stderr, "%s:%d: " #call ": %ld\n", __FILE__, __LINE__, answer); \
		exit(1); \
	} \
} while (0)

static void load(struct copy *copy, const char *path)
{
	copy->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!copy->library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	copy->getinfo = dlvsym(copy->library, "fi_getinfo", "FABRIC_1.3");
	copy->freeinfo = dlvsym(copy->library, "fi_freeinfo", "FABRIC_1.3");
	copy->dupinfo = dlvsym(copy->library, "fi_dupinfo", "FABRIC_1.3");
	copy->fabric = dlvsym(copy->library, "fi_fabric", "FABRIC_1.1");
}

static void find(struct copy *copy, const char *port, uint64_t flags)
{
	struct fi_info *hints = copy->dupinfo(NULL);

	hints->caps = FI_MSG;
	hints->ep_attr->type = FI_EP_MSG;
	/* Threads of the library. */
	hints->domain_attr->control_progress = FI_PROGRESS_AUTO;
	hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
	CHECK(copy->getinfo(FI_VERSION(1, 17), "127.0.0.1", port, flags, hints, &copy->info));
	copy->freeinfo(hints);
	CHECK(copy->fabric(copy->info->fabric_attr, &copy->net, NULL));
	CHECK(fi_eq_open(copy->net, &(struct fi_eq_attr) { .wait_obj = FI_WAIT_UNSPEC }, &copy->eq, NULL));
}

static void make(struct copy *copy, struct fi_info *info)
{
	CHECK(fi_domain(copy->net, info, &copy->domain, NULL));
	CHECK(fi_cq_open(copy->domain, &(struct fi_cq_attr) { .wait_obj = FI_WAIT_UNSPEC,
			 .format = FI_CQ_FORMAT_CONTEXT }, &copy->cq, NULL));
	CHECK(fi_endpoint(copy->domain, info, &copy->ep, NULL));
	CHECK(fi_ep_bind(copy->ep, &copy->eq->fid, 0));
	CHECK(fi_ep_bind(copy->ep, &copy->cq->fid, FI_TRANSMIT | FI_RECV));
	CHECK(fi_enable(copy->ep));
}

static struct fi_info *event(struct copy *copy, uint32_t wanted)
{
	struct fi_eq_cm_entry entry;
	uint32_t event;

	CHECK(fi_eq_sread(copy->eq, &event, &entry, sizeof(entry), 30000, 0));
	if (event != wanted) {
		fprintf(stderr, "event %u, wanted %u\n", event, wanted);
		exit(1);
	}
	return event == FI_CONNREQ ? entry.info : NULL;
}

static void finish(struct copy *copy)
{
	CHECK(fi_close(&copy->ep->fid));
	CHECK(fi_close(&copy->cq->fid));
	CHECK(fi_close(&copy->domain->fid));
	CHECK(fi_close(&copy->eq->fid));
	CHECK(fi_close(&copy->net->fid));
	copy->freeinfo(copy->info);
	dlclose(copy->library);
}

/* The signals that this process catches, ignores or blocks; two are the C library's own, for its threads. */
static unsigned long long signals(void)
{
	unsigned long long set, all = 0;
	char line[256];
	FILE *status = fopen("/proc/self/status", "r");

	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "SigBlk: %llx", &set) == 1 || sscanf(line, "SigIgn: %llx", &set) == 1 ||
		    sscanf(line, "SigCgt: %llx", &set) == 1)
			all |= set;
	fclose(status);
	return all & ~(3ull << 31);
}

static int threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int count = 0;

	while (readdir(tasks))
		count++;
	closedir(tasks);
	return count;
}

int main(int argc, char **argv)
{
	struct copy server = { 0 }, client = { 0 };
	unsigned long long before = signals();
	char port[8], text[6] = "";
	struct sockaddr_in name;
	size_t len = sizeof(name);
	struct fi_info *request;
	struct fid_pep *pep;
	void *context;
	int alone;

	if (argc != 3)
		return 2;
	alone = threads();
	load(&server, argv[1]);
	load(&client, argv[2]);
	if (server.library == client.library || server.getinfo == client.getinfo)
		return 3;

	find(&server, "0", FI_SOURCE);
	CHECK(fi_passive_ep(server.net, server.info, &pep, NULL));
	CHECK(fi_pep_bind(pep, &server.eq->fid, 0));
	CHECK(fi_listen(pep));
	CHECK(fi_getname(&pep->fid, &name, &len));
	snprintf(port, sizeof(port), "%d", ntohs(name.sin_port));
	find(&client, port, 0);
	make(&client, client.info);
	CHECK(fi_connect(client.ep, client.info->dest_addr, NULL, 0));
	request = event(&server, FI_CONNREQ);
	make(&server, request);
	CHECK(fi_recv(server.ep, text, sizeof(text), NULL, 0, text));
	CHECK(fi_accept(server.ep, NULL, 0));
	server.freeinfo(request);
	event(&client, FI_CONNECTED);
	event(&server, FI_CONNECTED);
	CHECK(fi_send(client.ep, "hello", 6, NULL, 0, NULL));
	CHECK(fi_cq_sread(client.cq, &context, 1, NULL, 30000));
	CHECK(fi_cq_sread(server.cq, &context, 1, NULL, 30000));
	printf("%s, %d threads more\n", text, threads() > alone);
	CHECK(fi_close(&pep->fid));
	finish(&client);
	finish(&server);
	printf("%d threads more, signals %s\n", threads() - alone, before == signals() ? "as before" : "changed");
	return 0;
}
