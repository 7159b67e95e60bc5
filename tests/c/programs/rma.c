// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Remote reads and writes, fi_rma(3): every call, sizes from 0 to 4 MiB, at
 * every offset of a region, by offset and by address, with completion data.
 * In two processes; with PEER the target runs over another library.
 */
#include "../common.h"

#define SIZE (4u << 20)

/* What the target tells of its region, as private data of fi_accept. */
struct region { uint64_t addr, key, size; };

static bool by_address;
static void hints(struct fi_info *h)
{
	h->domain_attr->mr_mode = by_address ? FI_MR_BASIC : 0;
}

static const struct opts o = { .caps = FI_MSG | FI_RMA, .cq_wait = FI_WAIT_UNSPEC, .eq_wait = FI_WAIT_UNSPEC, .hints = hints };

/* The target serves until its peer leaves; then its memory must be the pattern. */
static void target(int out)
{
	unsigned char *memory = malloc(SIZE);
	struct srv s;
	struct ep p;
	struct cm_event ev;
	struct fid_domain *domain;
	struct fid_mr *mr;
	struct fi_cq_data_entry c;
	struct fi_cq_err_entry err;
	unsigned data = 0;

	srv_open(&s, &o);
	REQUIRE(write(out, s.service, sizeof(s.service)) == sizeof(s.service), "pipe");
	srv_take(&s, &ev, 10000);
	OK(fi_domain(s.fabric, ev.e.info, &domain, NULL));
	OK(fi_mr_reg(domain, memory, SIZE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0x1234, 0, &mr, NULL));
	bool address = ev.e.info->domain_attr->mr_mode & (FI_MR_BASIC | FI_MR_VIRT_ADDR);
	EXPECT(address || fi_mr_key(mr) == 0x1234, "the requested key is not the region's");
	struct region r = { address ? (uint64_t)(uintptr_t)memory : 0, fi_mr_key(mr), SIZE };
	ep_make(&p, ev.e.info, &o, s.fabric, domain, s.eq);
	OK(fi_accept(p.ep, &r, sizeof(r)));
	eq_need(s.eq, FI_CONNECTED, &ev, 10000);
	while (eq_next(s.eq, &ev, 0) == -FI_EAGAIN) {
		int n = cq_next(p.cq, &c, &err, 1);
		if (n < 0)
			t_bad("error completion %d at the target", err.err);
		if (n != 1)
			continue;
		EXPECT(c.flags & FI_REMOTE_WRITE && c.flags & FI_REMOTE_CQ_DATA, "flags 0x%jx", (uintmax_t)c.flags);
		EXPECT(c.data == ++data, "completion data %ju is write %u's", (uintmax_t)c.data, data);
	}
	EXPECT(ev.event == FI_SHUTDOWN, "%s", ev_name(ev.event));
	EXPECT(data == 3, "%u writes with data", data);
	long at = pattern_check(memory, SIZE, 99);
	EXPECT(at < 0, "the region differs at %ld from what was written last", at);
	OK(fi_close(&mr->fid));
	ep_close(&p);
	OK(fi_close(&domain->fid));
	srv_close(&s);
	free(memory);
}

static void done(struct ep *c, void *context, uint64_t kind)
{
	struct fi_cq_data_entry e;
	struct fi_cq_err_entry err;
	int rc = cq_next(c->cq, &e, &err, 20000);

	REQUIRE(rc == 1, "no completion (%d, error %d)", rc, rc < 0 ? err.err : 0);
	EXPECT(e.op_context == context && (e.flags & (FI_RMA | FI_READ | FI_WRITE)) == (FI_RMA | kind), "flags 0x%jx", (uintmax_t)e.flags);
}

#define POST(call) do { ssize_t rc_; while ((rc_ = (call)) == -FI_EAGAIN) pump(); OK(rc_); } while (0)

static void initiator(const char *service, bool address)
{
	static const size_t size[] = { 0, 1, 7, 8, 63, 64, 65, 4096, 65537, SIZE };
	unsigned char *out = malloc(SIZE), *in = malloc(SIZE);
	struct srv s = { .node = "127.0.0.1" };
	struct cm_event ev;
	struct region r;
	struct ep c;

	snprintf(s.service, sizeof(s.service), "%s", service);
	cli_make(&c, &s, &o);
	OK(cli_connect(&c, NULL, 0));
	eq_need(c.eq, FI_CONNECTED, &ev, 10000);
	memcpy(&r, ev.data, sizeof(r));
	REQUIRE(CM_DATA_LEN(&ev) >= sizeof(r) && r.size == SIZE, "no region in the accepter's data");
	EXPECT(!!r.addr == address, "the region is at 0x%jx", (uintmax_t)r.addr);

	for (size_t i = 0; i < T_ARRAY(size); i++) {
		size_t n = size[i], at = (SIZE - n) / 3;
		t_step("write and read %zu bytes", n);
		pattern_fill(out, n, i);
		POST(fi_write(c.ep, out, n, NULL, 0, r.addr + at, r.key, out));
		done(&c, out, FI_WRITE);
		memset(in, 0, n);
		POST(fi_read(c.ep, in, n, NULL, 0, r.addr + at, r.key, in));
		done(&c, in, FI_READ);
		EXPECT(pattern_check(in, n, i) < 0, "%zu bytes differ", n);
	}

	t_step("pieces");
	pattern_fill(out, 1000, 5);
	struct iovec piece[3] = { { out, 1 }, { out + 1, 500 }, { out + 501, 499 } };
	POST(fi_writev(c.ep, piece, NULL, 3, 0, r.addr + 100, r.key, piece));
	done(&c, piece, FI_WRITE);
	memset(in, 0, 1000);
	struct iovec room[2] = { { in, 333 }, { in + 333, 667 } };
	POST(fi_readv(c.ep, room, NULL, 2, 0, r.addr + 100, r.key, room));
	done(&c, room, FI_READ);
	EXPECT(pattern_check(in, 1000, 5) < 0, "pieces differ");

	t_step("remote segments");
	pattern_fill(out, 300, 6);
	struct fi_rma_iov remote[3] = { { r.addr + 9000, 100, r.key }, { r.addr, 50, r.key }, { r.addr + 70000, 150, r.key } };
	struct iovec local = { out, 300 };
	struct fi_msg_rma msg = { .msg_iov = &local, .iov_count = 1, .rma_iov = remote, .rma_iov_count = 3, .context = &msg };
	POST(fi_writemsg(c.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE));
	done(&c, &msg, FI_WRITE);
	memset(in, 0, 300);
	local.iov_base = in;
	POST(fi_readmsg(c.ep, &msg, FI_COMPLETION));
	done(&c, &msg, FI_READ);
	EXPECT(pattern_check(in, 300, 6) < 0, "remote segments differ");

	t_step("completion data");
	POST(fi_writedata(c.ep, out, 40, NULL, 1, 0, r.addr, r.key, out));
	done(&c, out, FI_WRITE);
	POST(fi_inject_writedata(c.ep, out, 40, 2, 0, r.addr, r.key));
	local = (struct iovec){ out, 300 };
	msg.data = 3;
	POST(fi_writemsg(c.ep, &msg, FI_COMPLETION | FI_REMOTE_CQ_DATA));
	done(&c, &msg, FI_WRITE);

	t_step("inject");
	pattern_fill(out, 64, 7);
	POST(fi_inject_write(c.ep, out, 64, 0, r.addr + 12345, r.key));
	memset(out, 0, 64);
	POST(fi_read(c.ep, in, 64, NULL, 0, r.addr + 12345, r.key, in));
	done(&c, in, FI_READ);
	EXPECT(pattern_check(in, 64, 7) < 0, "what was injected differs");

	t_step("many at a time");
	pattern_fill(out, SIZE, 99);
	size_t step = SIZE / 128;
	for (unsigned i = 0; i < 128; i++)
		POST(fi_write(c.ep, out + i * step, step, NULL, 0, r.addr + i * step, r.key, out));
	for (unsigned i = 0; i < 128; i++)
		done(&c, out, FI_WRITE);
	memset(in, 0, SIZE);
	for (unsigned i = 0; i < 128; i++)
		POST(fi_read(c.ep, in + i * step, step, NULL, 0, r.addr + i * step, r.key, in));
	for (unsigned i = 0; i < 128; i++)
		done(&c, in, FI_READ);
	EXPECT(pattern_check(in, SIZE, 99) < 0, "many at a time differ");
	OK(fi_shutdown(c.ep, 0));
	pump_ms(20);
	ep_close(&c);
	free(out);
	free(in);
}

static void both(bool address)
{
	char service[16], fd[8];
	int pipes[2];

	by_address = address;
	REQUIRE(!pipe(pipes), "pipe");
	snprintf(fd, sizeof(fd), "%d", pipes[1]);
	pid_t pid = t_peer(30, address ? "address" : "offset", fd, NULL);
	close(pipes[1]);
	REQUIRE(read(pipes[0], service, sizeof(service)) == sizeof(service), "no target");
	initiator(service, address);
	int rc = t_wait(pid, 10000);
	EXPECT(rc == 0, "the target ended with %d", rc);
	close(pipes[0]);
}

int main(int argc, char **argv)
{
	t_begin("rma", 60);
	if (argc == 3) {
		by_address = !strcmp(argv[1], "address");
		target(atoi(argv[2]));
	} else {
		both(false);
		both(true);
	}
	t_end("reads and writes of all kinds move the right bytes");
}
