// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * FI_THREAD_SAFE: threads share one endpoint and its queues; two send, two write
 * to the peer's memory, two read the completions, two serve the peer, and two more
 * connect, close and ask for infos meanwhile.  Each operation completes once.
 * With ThreadSanitizer in program and library it looks for races; MESSAGES says
 * how many operations each thread posts.
 */
#include "../common.h"

static const struct opts o = { .caps = FI_MSG | FI_RMA, .cq_wait = FI_WAIT_UNSPEC, .eq_wait = FI_WAIT_UNSPEC };
static struct pair p;
static struct fid_mr *mr;
static unsigned messages = 2000;
static _Atomic unsigned completed, received;
static unsigned char memory[4096], local[64], in[64][64];

static void post(int write)
{
	uint64_t addr = p.p.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)memory : 0;
	ssize_t rc;

	do
		rc = write ? fi_write(p.c.ep, local, 64, NULL, 0, addr, fi_mr_key(mr), local) : fi_send(p.c.ep, local, 64, NULL, 0, local);
	while (rc == -FI_EAGAIN && !sched_yield());
	REQUIRE(!rc, "%s: %zd (%s)", write ? "fi_write" : "fi_send", rc, t_err(rc));
}

static void *sender(void *arg)
{
	for (unsigned i = 0; i < messages; i++)
		post(0);
	return NULL;
}

static void *writer(void *arg)
{
	for (unsigned i = 0; i < messages; i++)
		post(1);
	return NULL;
}

/* Completions of the four above. */
static void *reaper(void *arg)
{
	struct fi_cq_data_entry c[4];

	while (completed < 4 * messages) {
		ssize_t n = fi_cq_sread(p.c.cq, c, 4, NULL, 20);
		REQUIRE(n > 0 || n == -FI_EAGAIN, "fi_cq_sread: %zd (%s)", n, t_err(n));
		for (ssize_t i = 0; i < n; i++)
			REQUIRE(c[i].op_context == local, "a completion of something else");
		completed += n > 0 ? (unsigned)n : 0;
	}
	return NULL;
}

/* The peer's receives, posted again as they complete. */
static void *receiver(void *arg)
{
	struct fi_cq_data_entry c;

	while (received < 2 * messages || completed < 4 * messages) {
		ssize_t n = fi_cq_sread(p.p.cq, &c, 1, NULL, 20);
		REQUIRE(n == 1 || n == -FI_EAGAIN, "fi_cq_sread: %zd (%s)", n, t_err(n));
		if (n == 1) {
			received++;
			OK(fi_recv(p.p.ep, c.op_context, 64, NULL, 0, c.op_context));
		}
	}
	return NULL;
}

static void *visitor(void *arg)
{
	while (completed < 4 * messages) {
		struct pair q;
		pair_open(&q, &o);
		xfer(&q.c, &q.p, 100, 1);
		pair_close(&q);
	}
	return NULL;
}

int main(void)
{
	static void *(*const body[])(void *) = { sender, sender, writer, writer, reaper, reaper, receiver, receiver, visitor, visitor };
	pthread_t th[T_ARRAY(body)];
	const char *m = getenv("MESSAGES");

	t_begin("threads", 55);
	if (m)
		messages = (unsigned)atoi(m);
	pair_open(&p, &o);
	OK(fi_mr_reg(p.p.domain, memory, sizeof(memory), FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL));
	for (size_t i = 0; i < T_ARRAY(in); i++)
		OK(fi_recv(p.p.ep, in[i], 64, NULL, 0, in[i]));
	for (size_t i = 0; i < T_ARRAY(body); i++)
		REQUIRE(!pthread_create(&th[i], NULL, body[i], NULL), "pthread_create");
	for (size_t i = 0; i < T_ARRAY(body); i++)
		pthread_join(th[i], NULL);
	struct fi_cq_data_entry c;
	EXPECT(completed == 4 * messages && fi_cq_read(p.c.cq, &c, 1) == -FI_EAGAIN, "%u completions of %u operations", completed, 4 * messages);
	EXPECT(received == 2 * messages, "%u of %u messages", received, 2 * messages);
	OK(fi_close(&mr->fid));
	/* 64 receives are left, and complete as cancelled */
	OK(fi_close(&p.p.ep->fid));
	p.p.ep = NULL;
	pair_close(&p);
	t_end("%u messages and %u writes of %zu threads complete once", received, 2 * messages, T_ARRAY(body));
}
