// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-23 Inject and selective completion matrix.
 *
 * For an endpoint bound with and without FI_SELECTIVE_COMPLETION: exactly the
 * completions the man pages promise, inject buffers are free at return, and
 * remote CQ data arrives exactly.
 */
#include "../common.h"

#define CQ_DATA UINT64_C(0xA5A5A5A5A5A5A5A5)

enum op { SEND, SENDMSG, SENDMSG_COMP, INJECT, INJECTDATA, INJECT_WRITEDATA, N_OPS };
static const char *const name[N_OPS] = { "fi_send", "fi_sendmsg", "fi_sendmsg FI_COMPLETION", "fi_inject",
	"fi_injectdata", "fi_inject_writedata" };

static struct pair p;
static struct fid_mr *mr;
static unsigned char target[256];

static ssize_t issue(enum op k, unsigned char *buf, size_t n, uint64_t data)
{
	struct iovec iov = { buf, n };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .context = buf };
	uint64_t addr = p.p.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)target : 0;

	switch (k) {
	case SEND:         return fi_send(p.c.ep, buf, n, NULL, 0, buf);
	case SENDMSG:      return fi_sendmsg(p.c.ep, &msg, 0);
	case SENDMSG_COMP: return fi_sendmsg(p.c.ep, &msg, FI_COMPLETION);
	case INJECT:       return fi_inject(p.c.ep, buf, n, 0);
	case INJECTDATA:   return fi_injectdata(p.c.ep, buf, n, data, 0);
	default:           return fi_inject_writedata(p.c.ep, buf, n, data, 0, addr, fi_mr_key(mr));
	}
}

static void one(enum op k, bool selective, size_t n, uint64_t data)
{
	unsigned char buf[256], in[256];
	struct fi_cq_data_entry c;
	struct fi_cq_err_entry err;
	bool write = k == INJECT_WRITEDATA, inject = k >= INJECT, cqdata = k >= INJECTDATA;
	bool op_flag = p.c.info->tx_attr->op_flags & FI_COMPLETION;
	/* inject never reports success; otherwise everything, or with selective
	 * completion what carries FI_COMPLETION (fi_send takes the endpoint's
	 * default flags) */
	bool want = !inject && (!selective || k == SENDMSG_COMP || (k == SEND && op_flag));
	ssize_t rc;
	int got;

	t_step("%s%s, %zu bytes", name[k], selective ? " selective" : "", n);
	pattern_fill(buf, n, k + n);
	memset(in, 0, sizeof(in));
	memset(target, 0, sizeof(target));
	if (!write)
		OK(post_recv(&p.p, in, sizeof(in), in));
	do {
		rc = issue(k, buf, n, data);
		if (rc == -FI_EAGAIN)
			pump();
	} while (rc == -FI_EAGAIN);
	if (inject)
		memset(buf, 0xff, sizeof(buf));     /* ours again */
	REQUIRE(!rc, "%s of %zu bytes: %zd (%s)", name[k], n, rc, t_err(rc));

	got = cq_next(p.p.cq, &c, &err, 3000);
	REQUIRE(got == 1, "%s: no completion at the target (%d)", name[k], got);
	if (cqdata) {
		EXPECT(c.flags & FI_REMOTE_CQ_DATA, "%s: FI_REMOTE_CQ_DATA is not set", name[k]);
		EXPECT(c.data == data, "%s: data field is 0x%jx, sent 0x%jx", name[k], (uintmax_t)c.data, (uintmax_t)data);
	} else {
		EXPECT(!(c.flags & FI_REMOTE_CQ_DATA), "%s: FI_REMOTE_CQ_DATA set without data", name[k]);
	}
	if (write) {
		EXPECT(c.flags & FI_REMOTE_WRITE, "%s: target flags 0x%jx lack FI_REMOTE_WRITE", name[k], (uintmax_t)c.flags);
		EXPECT(pattern_check(target, n, k + n) < 0, "%s: written bytes differ", name[k]);
	} else {
		EXPECT(c.op_context == in && c.len == n, "%s: receive completion has the wrong context or length", name[k]);
		EXPECT(pattern_check(in, n, k + n) < 0, "%s: received bytes are not those at the time of the call", name[k]);
	}
	/* sender side */
	unsigned n_ok = 0;
	while ((got = cq_next(p.c.cq, &c, &err, n_ok || !want ? 10 : 2000))) {
		if (got < 0) {
			t_bad("%s: error completion %d (%s)", name[k], err.err, fi_strerror(abs(err.err)));
			continue;
		}
		n_ok++;
		EXPECT(c.op_context == buf, "%s: completion with the wrong context", name[k]);
	}
	EXPECT(n_ok == want, "%s%s: %u completions at the sender, expected %d", name[k],
	       selective ? " with selective completion" : "", n_ok, want);
}

static void scene(bool selective)
{
	struct opts o = OPTS_DEFAULT;
	struct fi_info *h, *info = NULL;
	bool rma;

	o.caps = FI_MSG | FI_RMA;
	h = hints_new(&o);
	rma = fi_getinfo(T_API, "127.0.0.1", NULL, FI_SOURCE, h, &info) == 0;
	fi_freeinfo(info);
	fi_freeinfo(h);
	if (!rma)
		o.caps = FI_MSG;
	o.selective = selective;
	pair_open(&p, &o);
	if (rma)
		OK(fi_mr_reg(p.p.domain, target, sizeof(target), FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 99, 0, &mr, NULL));
	size_t width = p.c.info->domain_attr->cq_data_size, max = p.c.info->tx_attr->inject_size;
	uint64_t data = width >= 8 ? CQ_DATA : CQ_DATA & ((UINT64_C(1) << width * 8) - 1);
	if (max > 200)
		max = 200;
	t_note("cq_data_size %zu, inject_size %zu, RMA %s", width, p.c.info->tx_attr->inject_size, rma ? "yes" : "no");
	for (enum op k = 0; k < N_OPS; k++) {
		if (k == INJECT_WRITEDATA && !rma)
			continue;
		if ((k == INJECTDATA || k == INJECT_WRITEDATA) && !width)
			continue;
		one(k, selective, 1, data);
		one(k, selective, max, data);
		if (k != INJECT_WRITEDATA)
			one(k, selective, 0, data);
	}

	/* errors are always reported: one operation on a shut down endpoint */
	t_step("send after shutdown");
	struct fi_cq_data_entry c;
	struct fi_cq_err_entry err;
	char b[8];
	OK(fi_shutdown(p.c.ep, 0));
	pump_ms(50);
	ssize_t rc = fi_send(p.c.ep, b, sizeof(b), NULL, 0, b);
	if (rc == 0) {
		int got = cq_next(p.c.cq, &c, &err, 1000);
		EXPECT(got < 0, "a send on a shut down endpoint: %s", got ? "success" : "neither an error code nor an error entry");
	} else {
		t_note("send after shutdown: %zd (%s)", rc, t_err(rc));
		EXPECT(rc < 0 && rc != -FI_EAGAIN, "a send on a shut down endpoint returns %zd", rc);
	}
	if (rma)
		OK_SOFT(fi_close(&mr->fid));
	pair_close(&p);
}

int main(void)
{
	t_begin("BUG-23", 55);
	scene(false);
	scene(true);
	t_end("completions, inject buffers and CQ data as documented");
}
