// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Counters, fi_cntr(3): each kind of operation is counted once where it is bound,
 * with and without a completion queue's report; errors in the error value;
 * fi_cntr_add, _set, _adderr, _seterr; fi_cntr_wait.
 */
#include "../common.h"

enum kind { SEND, RECV, READ, WRITE, REMOTE_READ, REMOTE_WRITE, N };
static const uint64_t flag[N] = { FI_SEND, FI_RECV, FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE };
static struct fid_cntr *of_client[N], *of_server[N], **next = of_client;

static void bind_all(struct ep *e)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC };

	for (int k = 0; k < N; k++) {
		OK(fi_cntr_open(e->domain, &attr, &next[k], NULL));
		OK(fi_ep_bind(e->ep, &next[k]->fid, flag[k]));
	}
	int rc = fi_ep_bind(e->ep, &next[0]->fid, FI_SEND);
	EXPECT(rc == -FI_EINVAL, "a second counter of FI_SEND: %d", rc);
	next = of_server;
}

static const struct opts o = { .caps = FI_MSG | FI_RMA | FI_RMA_EVENT, .cq_wait = FI_WAIT_UNSPEC, .eq_wait = FI_WAIT_UNSPEC, .bind = bind_all };

/* Until the counter has that value, with progress on both sides. */
static void reaches(const char *what, struct fid_cntr *c, uint64_t want)
{
	for (double end = now_ms() + (t_stock() ? 500 : 5000); fi_cntr_read(c) < want && now_ms() < end;) {
		for (int k = 0; k < N; k++) {
			fi_cntr_read(of_client[k]);
			fi_cntr_read(of_server[k]);
		}
		pump();
	}
	RULE("fi_cntr(3), fi_endpoint(3): each operation of the kinds bound is counted", fi_cntr_read(c) == want, "%s is %ju, not %ju", what, (uintmax_t)fi_cntr_read(c), (uintmax_t)want);
	EXPECT(fi_cntr_readerr(c) == 0, "%s has %ju errors", what, (uintmax_t)fi_cntr_readerr(c));
}

static void discard(struct fid_cq *cq)
{
	struct fi_cq_data_entry e[16];

	while (fi_cq_read(cq, e, 16) > 0) { }
}

static void values(struct ep *e)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC };
	struct fid_cntr *c;

	t_step("values");
	OK(fi_cntr_open(e->domain, &attr, &c, NULL));
	OK(fi_cntr_set(c, 10));
	OK(fi_cntr_add(c, 5));
	EXPECT(fi_cntr_read(c) == 15, "10 and 5 is %ju", (uintmax_t)fi_cntr_read(c));
	OK(fi_cntr_wait(c, 15, 0));
	OK(fi_cntr_wait(c, 3, 1000));
	OK(fi_cntr_seterr(c, 1));
	OK(fi_cntr_adderr(c, 2));
	EXPECT(fi_cntr_readerr(c) == 3, "errors: 1 and 2 is %ju", (uintmax_t)fi_cntr_readerr(c));
	EXPECT(fi_cntr_read(c) == 15, "errors change the value to %ju", (uintmax_t)fi_cntr_read(c));
	OK(fi_close(&c->fid));
}

static void *add_later(void *arg)
{
	sleep_ms(50);
	OK_SOFT(fi_cntr_add(arg, 1));
	return NULL;
}

static void woken(struct ep *e)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC };
	struct fid_cntr *c;
	pthread_t th;

	t_step("fi_cntr_add wakes a waiter");
	OK(fi_cntr_open(e->domain, &attr, &c, NULL));
	pthread_create(&th, NULL, add_later, c);
	int rc = fi_cntr_wait(c, 1, 10000);
	EXPECT(!rc, "fi_cntr_wait: %d", rc);
	pthread_join(th, NULL);
	OK(fi_close(&c->fid));
}

int main(void)
{
	struct pair p;
	struct fid_mr *mr;
	static char memory[256], local[256], in[16][64];
	ssize_t rc;

	t_begin("counters", 40);
	pair_open(&p, &o);
	OK(fi_mr_reg(p.p.domain, memory, sizeof(memory), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL));
	uint64_t addr = p.p.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)memory : 0;

	t_step("messages");
	for (int i = 0; i < 8; i++)
		OK(fi_recv(p.p.ep, in[i], 64, NULL, 0, in[i]));
	for (int i = 0; i < 5; i++)
		OK(fi_send(p.c.ep, local, 10, NULL, 0, NULL));
	for (int i = 0; i < 3; i++)
		while ((rc = fi_inject(p.c.ep, local, 10, 0)) == -FI_EAGAIN)
			pump();
	reaches("FI_RECV of 8 messages", of_server[RECV], 8);
	reaches("FI_SEND of 5 sends and 3 injects", of_client[SEND], 8);
	discard(p.c.cq);
	discard(p.p.cq);

	t_step("remote access");
	for (int i = 0; i < 4; i++)
		OK(fi_write(p.c.ep, local, 100, NULL, 0, addr, fi_mr_key(mr), NULL));
	for (int i = 0; i < 3; i++)
		OK(fi_read(p.c.ep, local, 100, NULL, 0, addr, fi_mr_key(mr), NULL));
	reaches("FI_READ", of_client[READ], 3);
	reaches("FI_WRITE", of_client[WRITE], 4);
	reaches("FI_REMOTE_WRITE", of_server[REMOTE_WRITE], 4);
	reaches("FI_REMOTE_READ", of_server[REMOTE_READ], 3);
	RULE("fi_endpoint(3): FI_SEND and FI_RECV count messages", fi_cntr_read(of_client[SEND]) == 8 && fi_cntr_read(of_server[RECV]) == 8, "remote access is counted as messages");
	EXPECT(fi_cntr_read(of_client[RECV]) == 0 && fi_cntr_read(of_server[SEND]) == 0, "the other direction is counted");
	discard(p.c.cq);

	t_step("failures");
	OK(fi_recv(p.c.ep, in[0], 64, NULL, 0, in[0]));
	OK(fi_recv(p.c.ep, in[1], 64, NULL, 0, in[1]));
	OK(fi_cancel(&p.c.ep->fid, in[0]));
	OK(fi_close(&p.c.ep->fid));
	p.c.ep = NULL;
	RULE("fi_cntr(3): the error value counts operations that failed", fi_cntr_readerr(of_client[RECV]) == 2,
	     "%ju errors of a receive that was cancelled and one that was pending", (uintmax_t)fi_cntr_readerr(of_client[RECV]));
	EXPECT(fi_cntr_read(of_client[RECV]) == 0, "failures are counted as successes");
	values(&p.p);
	woken(&p.p);

	OK(fi_close(&mr->fid));
	OK(fi_close(&p.p.ep->fid));
	p.p.ep = NULL;
	for (int k = 0; k < N; k++) {
		OK(fi_close(&of_client[k]->fid));
		OK(fi_close(&of_server[k]->fid));
	}
	pair_close(&p);
	t_end("%d kinds are counted, each operation once", N);
}
