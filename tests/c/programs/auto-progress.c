// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * FI_PROGRESS_AUTO, fi_domain(3): a target that was opened with it serves reads and
 * writes of its memory, and tells a waiting initiator of deliveries, while its
 * program makes no call at all.
 */
#include "../common.h"

#define SIZE 65536

struct region { uint64_t addr, key; };

static void hints(struct fi_info *h)
{
	h->domain_attr->data_progress = h->domain_attr->control_progress = FI_PROGRESS_AUTO;
}

static const struct opts automatic = { .caps = FI_MSG | FI_RMA, .cq_wait = FI_WAIT_UNSPEC, .eq_wait = FI_WAIT_UNSPEC, .hints = hints };
static const struct opts manual = { .caps = FI_MSG | FI_RMA, .cq_wait = FI_WAIT_UNSPEC, .eq_wait = FI_WAIT_UNSPEC };

static void target(int out, int until)
{
	static unsigned char memory[SIZE];
	struct srv s;
	struct ep p;
	struct cm_event ev;
	struct fid_domain *domain;
	struct fid_mr *mr;
	char end;

	srv_open(&s, &automatic);
	REQUIRE(write(out, s.service, sizeof(s.service)) == sizeof(s.service), "pipe");
	srv_take(&s, &ev, 10000);
	OK(fi_domain(s.fabric, ev.e.info, &domain, NULL));
	OK(fi_mr_reg(domain, memory, SIZE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL));
	struct region r = { ev.e.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)memory : 0, fi_mr_key(mr) };
	ep_make(&p, ev.e.info, &automatic, s.fabric, domain, s.eq);
	OK(fi_accept(p.ep, &r, sizeof(r)));
	eq_need(s.eq, FI_CONNECTED, &ev, 10000);
	/* asleep until the peer is done */
	REQUIRE(read(until, &end, 1) == 1, "pipe");
	/* any call of the library orders what its thread wrote before what comes now */
	pump();
	EXPECT(pattern_check(memory, SIZE, 19) < 0, "what was written last is not there");
	OK(fi_close(&mr->fid));
	ep_close(&p);
	OK(fi_close(&domain->fid));
	srv_close(&s);
}

int main(int argc, char **argv)
{
	static unsigned char local[SIZE], in[SIZE];
	struct srv s = { .node = "127.0.0.1" };
	struct ep c;
	struct cm_event ev;
	struct region r;
	struct fi_cq_data_entry e;
	struct fi_cq_err_entry err;
	int down[2], up[2];
	char out_fd[8], until_fd[8];

	t_begin("auto-progress", 30);
	if (argc == 4) {
		target(atoi(argv[2]), atoi(argv[3]));
		t_end("target");
	}
	REQUIRE(!pipe(up) && !pipe(down), "pipe");
	snprintf(out_fd, sizeof(out_fd), "%d", up[1]);
	snprintf(until_fd, sizeof(until_fd), "%d", down[0]);
	pid_t pid = t_peer(25, "target", out_fd, until_fd, NULL);
	close(up[1]);
	REQUIRE(read(up[0], s.service, sizeof(s.service)) == sizeof(s.service), "no target");
	cli_make(&c, &s, &manual);
	OK(cli_connect(&c, NULL, 0));
	eq_need(c.eq, FI_CONNECTED, &ev, 10000);
	memcpy(&r, ev.data, sizeof(r));
	for (unsigned i = 0; i < 20; i++) {
		t_step("round %u", i);
		pattern_fill(local, SIZE, i);
		struct iovec v = { local, SIZE };
		struct fi_rma_iov t = { r.addr, SIZE, r.key };
		struct fi_msg_rma m = { .msg_iov = &v, .iov_count = 1, .rma_iov = &t, .rma_iov_count = 1 };
		OK(fi_writemsg(c.ep, &m, FI_COMPLETION | FI_DELIVERY_COMPLETE));
		bool done = cq_next(c.cq, &e, &err, t_stock() ? 500 : 10000) == 1;
		RULE("fi_domain(3): FI_PROGRESS_AUTO needs no call of the target", done, "a write is not served");
		if (!done)
			break;
		OK(fi_read(c.ep, in, SIZE, NULL, 0, r.addr, r.key, in));
		REQUIRE(cq_next(c.cq, &e, &err, 10000) == 1, "a read is not served");
		EXPECT(pattern_check(in, SIZE, i) < 0, "bytes differ");
	}
	REQUIRE(write(down[1], "x", 1) == 1, "pipe");
	int rc = t_wait(pid, 10000);
	RULE("fi_domain(3): FI_PROGRESS_AUTO needs no call of the target", rc == 0, "the target ended with %d", rc);
	ep_close(&c);
	t_end("a target that sleeps serves its peer");
}
