// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Scatter lists up to iov_limit and rma_iov_limit, with empty pieces and pieces
 * that do not fit each other; one piece more is -FI_EINVAL, and nothing is sent.
 */
#include "../common.h"

static const struct opts o = { .caps = FI_MSG | FI_RMA, .cq_wait = FI_WAIT_UNSPEC, .eq_wait = FI_WAIT_UNSPEC };
static struct pair p;

/* Cuts n bytes into pieces of which every third is empty. */
static void cut(struct iovec *v, size_t pieces, unsigned char *b, size_t n)
{
	size_t at = 0;

	for (size_t i = 0; i < pieces; i++) {
		size_t k = i == pieces - 1 ? n - at : i % 3 == 1 ? 0 : (n - at) / 2;
		v[i] = (struct iovec){ b + at, k };
		at += k;
	}
}

static void messages(size_t from, size_t to, size_t n)
{
	unsigned char *out = malloc(n), *in = calloc(1, n);
	struct iovec v[64], w[64];
	struct fi_cq_data_entry c;
	struct fi_cq_err_entry err;
	ssize_t rc;

	t_step("%zu bytes of %zu pieces into %zu", n, from, to);
	pattern_fill(out, n, n + from);
	cut(v, from, out, n);
	cut(w, to, in, n);
	OK(fi_recvv(p.p.ep, w, NULL, to, 0, in));
	while ((rc = fi_sendv(p.c.ep, v, NULL, from, 0, out)) == -FI_EAGAIN)
		pump();
	OK(rc);
	REQUIRE(cq_next(p.p.cq, &c, &err, 10000) == 1 && c.op_context == in && c.len == n, "receive of %zu pieces", to);
	REQUIRE(cq_next(p.c.cq, &c, &err, 10000) == 1, "send of %zu pieces", from);
	EXPECT(pattern_check(in, n, n + from) < 0, "%zu pieces into %zu: bytes differ", from, to);
	free(out);
	free(in);
}

static void remote(size_t pieces, size_t segments)
{
	static unsigned char memory[8192], local[4096];
	struct iovec v[64], s[64];
	struct fi_rma_iov r[64];
	struct fid_mr *mr;
	struct fi_cq_data_entry c;
	struct fi_cq_err_entry err;

	t_step("%zu pieces into %zu segments", pieces, segments);
	OK(fi_mr_reg(p.p.domain, memory, sizeof(memory), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 3, 0, &mr, NULL));
	uint64_t addr = p.p.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)memory : 0;
	cut(v, pieces, local, sizeof(local));
	cut(s, segments, memory, sizeof(local));
	for (size_t i = 0; i < segments; i++)
		r[i] = (struct fi_rma_iov){ addr + (uint64_t)((unsigned char *)s[i].iov_base - memory) * 2, s[i].iov_len, fi_mr_key(mr) };
	struct fi_msg_rma m = { .msg_iov = v, .iov_count = pieces, .rma_iov = r, .rma_iov_count = segments, .context = v };
	pattern_fill(local, sizeof(local), pieces * 100 + segments);
	OK(fi_writemsg(p.c.ep, &m, FI_COMPLETION | FI_DELIVERY_COMPLETE));
	REQUIRE(cq_next(p.c.cq, &c, &err, 10000) == 1, "write");
	memset(local, 0, sizeof(local));
	OK(fi_readmsg(p.c.ep, &m, FI_COMPLETION));
	REQUIRE(cq_next(p.c.cq, &c, &err, 10000) == 1, "read");
	EXPECT(pattern_check(local, sizeof(local), pieces * 100 + segments) < 0, "%zu pieces, %zu segments: bytes differ", pieces, segments);
	OK(fi_close(&mr->fid));
}

static void too_many(void *arg)
{
	size_t limit = p.c.info->tx_attr->iov_limit, rma = p.c.info->tx_attr->rma_iov_limit;
	unsigned char b[64];
	struct iovec v[65];
	struct fi_rma_iov r[65];

	for (int i = 0; i < 65; i++) {
		v[i] = (struct iovec){ b, 1 };
		r[i] = (struct fi_rma_iov){ 0, 1, 1 };
	}
	ssize_t rc = fi_sendv(p.c.ep, v, NULL, limit + 1, 0, NULL);
	EXPECT(rc == -FI_EINVAL, "fi_sendv of %zu pieces: %zd", limit + 1, rc);
	rc = fi_recvv(p.c.ep, v, NULL, limit + 1, 0, NULL);
	EXPECT(rc == -FI_EINVAL, "fi_recvv of %zu pieces: %zd", limit + 1, rc);
	struct fi_msg_rma m = { .msg_iov = v, .iov_count = 1, .rma_iov = r, .rma_iov_count = rma + 1 };
	rc = fi_writemsg(p.c.ep, &m, 0);
	EXPECT(rc == -FI_EINVAL, "fi_writemsg to %zu segments: %zd", rma + 1, rc);
	xfer(&p.c, &p.p, 100, 1);
}

int main(void)
{
	t_begin("scatter", 30);
	pair_open(&p, &o);
	size_t limit = p.c.info->tx_attr->iov_limit, rma = p.c.info->tx_attr->rma_iov_limit;
	REQUIRE(limit <= 64 && rma <= 64, "iov_limit %zu, rma_iov_limit %zu", limit, rma);
	for (size_t from = 1; from <= limit; from++)
		for (size_t to = 1; to <= p.p.info->rx_attr->iov_limit; to++) {
			messages(from, to, 1);
			messages(from, to, 1000);
			messages(from, to, 1 << 20);
		}
	for (size_t i = 1; i <= limit; i++)
		for (size_t k = 1; k <= rma; k++)
			remote(i, k);
	if (t_stock())
		t_note("a piece more than iov_limit: not tried on stock, which does not count them");
	else
		too_many(NULL);
	pair_close(&p);
	t_end("1 to %zu pieces, 1 to %zu remote segments", limit, rma);
}
