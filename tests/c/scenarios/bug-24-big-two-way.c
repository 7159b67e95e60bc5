// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-24 Big and two-way messages.
 *
 * Both sides post 8 receives and 8 sends of 64 MiB at once; then one message
 * of a little over 2 GiB (or max_msg_size) if memory and time allow; then max_msg_size+1.
 */
#include "../common.h"

#define N    8
#define SIZE ((size_t)64 << 20)

static double start;

static size_t mem_available(void)
{
	char line[128];
	size_t kb = 0;
	FILE *f = fopen("/proc/meminfo", "r");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %zu", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb << 10;
}

static void *big(size_t n)
{
	void *m = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED)
		t_na("not enough memory for this scenario");
	return m;
}

static void two_way(struct pair *p)
{
	unsigned char *s[2][N], *r[2][N];
	struct ep *e[2] = { &p->c, &p->p };
	struct fi_cq_data_entry c;
	struct fi_cq_err_entry err;
	unsigned sent[2] = { 0 }, got[2] = { 0 };

	t_step("two-way 8 x 64 MiB: fill");
	for (int d = 0; d < 2; d++)
		for (int i = 0; i < N; i++) {
			s[d][i] = big(SIZE);
			r[d][i] = big(SIZE);
			pattern_fill(s[d][i], SIZE, (uint64_t)(d * 100 + i));
		}
	t_step("two-way 8 x 64 MiB: post");
	for (int d = 0; d < 2; d++)
		for (int i = 0; i < N; i++)
			OK(post_recv(e[d], r[d][i], SIZE, r[d][i]));
	double t = now_ms();
	for (int i = 0; i < N; i++)
		for (int d = 0; d < 2; d++)
			OK(post_send(e[d], s[d][i], SIZE, s[d][i]));
	while (sent[0] + sent[1] + got[0] + got[1] < 4 * N) {
		t_step("two-way: %u+%u sent, %u+%u received", sent[0], sent[1], got[0], got[1]);
		for (int d = 0; d < 2; d++) {
			int rc = cq_next(e[d]->cq, &c, &err, 0);
			if (!rc)
				continue;
			REQUIRE(rc == 1, "two-way: error completion %d (%s)", err.err, fi_strerror(abs(err.err)));
			if (c.flags & FI_RECV) {
				REQUIRE(got[d] < N && c.op_context == r[d][got[d]], "two-way: receives complete out of order");
				EXPECT(c.len == SIZE, "two-way: length %zu", c.len);
				got[d]++;
			} else {
				sent[d]++;
			}
		}
	}
	t_note("two-way: %.0f MiB/s", 2.0 * N * 64 * 1000 / (now_ms() - t));
	for (int d = 0; d < 2; d++)
		for (int i = 0; i < N; i++) {
			EXPECT(pattern_check(r[d][i], SIZE, (uint64_t)((1 - d) * 100 + i)) < 0, "two-way: bytes differ");
			munmap(r[d][i], SIZE);
			munmap(s[d][i], SIZE);
		}
}

static void huge(struct pair *p)
{
	size_t max = p->c.info->ep_attr->max_msg_size, n = ((size_t)1 << 31) + (1 << 20) + 3;
	struct fi_cq_data_entry c;
	struct fi_cq_err_entry err;

	if (n > max)
		n = max;
	if (mem_available() < (size_t)8 << 30) {
		t_note("less than 8 GiB of memory available, big message not run");
		return;
	}
	if (now_ms() - start > 22000) {
		t_note("this host is too slow today, big message not run");
		return;
	}
	t_step("one message of %zu bytes: fill", n);
	unsigned char *s = big(n), *r = big(n);
	pattern_fill(s, n, 5);
	t_step("one message of %zu bytes", n);
	double t = now_ms();
	OK(post_recv(&p->p, r, n, r));
	int rc = post_send(&p->c, s, n, s);
	REQUIRE(!rc, "send of %zu bytes: %d (%s)", n, rc, t_err(rc));
	rc = cq_next(p->p.cq, &c, &err, 40000);
	REQUIRE(rc == 1, "receive of %zu bytes: %s", n, rc ? fi_strerror(abs(err.err)) : "no completion in 40 s");
	EXPECT(c.len == n, "completion length %zu for %zu bytes", c.len, n);
	rc = cq_next(p->c.cq, &c, &err, 5000);
	EXPECT(rc == 1, "send of %zu bytes: no good completion", n);
	t_note("%zu bytes in %.0f ms", n, now_ms() - t);
	long at = pattern_check(r, n, 5);
	EXPECT(at < 0, "%zu bytes: difference near offset %ld", n, at);
	munmap(s, n);
	munmap(r, n);
}

static void too_big(struct pair *p)
{
	size_t max = p->c.info->ep_attr->max_msg_size;
	struct fi_cq_data_entry c;
	struct fi_cq_err_entry err;
	static char b[64];

	if (max >= SIZE_MAX) {
		t_note("max_msg_size is SIZE_MAX, too big a message cannot be expressed");
		return;
	}
	t_step("max_msg_size+1");
	/* The library must refuse by length, before it touches memory. */
	ssize_t rc = fi_send(p->c.ep, b, max + 1, NULL, 0, b);
	if (rc == 0)
		EXPECT(cq_next(p->c.cq, &c, &err, 5000) < 0, "a message of max_msg_size+1 was accepted");
	else
		EXPECT(rc == -FI_EMSGSIZE || rc == -FI_EINVAL, "max_msg_size+1: %zd (%s)", rc, t_err(rc));
}

int main(void)
{
	struct opts o = OPTS_DEFAULT;
	struct pair p;

	t_begin("BUG-24", 58);
	start = now_ms();
	if (mem_available() < (size_t)3 << 30)
		t_na("needs 3 GiB of memory");
	pair_open(&p, &o);
	two_way(&p);
	huge(&p);
	too_big(&p);
	pair_close(&p);
	t_end("no deadlock, bytes and lengths exact");
}
