// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-34 shm without cross-memory attach.
 *
 * Two processes exchange tagged messages of 1 B to 16 MiB, unexpected 1 MiB
 * messages, RMA both ways and a self-send: as is, with FI_SHM_DISABLE_CMA=1,
 * and under seccomp filters that make process_vm_readv/writev fail with EPERM
 * and with ENOSYS.  The results must be the same.
 */
#include "../common.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define RMA_LEN ((size_t)1 << 20)
#define NUNEXP  8

struct shared {
	char name[2][256];
	uint64_t key[2], base[2];
	volatile int ready[2], stage[2];
};

/* Make the two calls fail with err, for this process and its children. */
static int forbid_cma(int err)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { T_ARRAY(f), f };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

/* Both sides reach the stage; progress goes on meanwhile. */
static void meet(struct shared *sh, int me, int stage)
{
	sh->stage[me] = stage;
	for (double end = now_ms() + 15000; sh->stage[!me] < stage; ) {
		pump();
		REQUIRE(now_ms() < end, "the other side did not reach stage %d", stage);
	}
}

static void rma(struct rdm *r, bool write, void *buf, fi_addr_t to, uint64_t addr, uint64_t key)
{
	struct fi_cq_tagged_entry c;
	struct fi_cq_err_entry err;
	const char *what = write ? "fi_write" : "fi_read";
	ssize_t rc;

	for (double end = now_ms() + 10000; now_ms() < end; pump()) {
		rc = write ? fi_write(r->ep, buf, RMA_LEN, NULL, to, addr, key, buf)
			   : fi_read(r->ep, buf, RMA_LEN, NULL, to, addr, key, buf);
		if (rc != -FI_EAGAIN)
			break;
	}
	REQUIRE(!rc, "%s: %zd (%s)", what, rc, t_err(rc));
	int got = rdm_next(r, &c, &err, 10000);
	REQUIRE(got == 1, "%s: %s", what, got ? fi_strerror(abs(err.err)) : "no completion");
	REQUIRE(c.op_context == buf, "%s: completion of another operation", what);
}

static void side(struct shared *sh, int me, const char *node)
{
	static const size_t size[] = { 1, 4096, (size_t)1 << 20, (size_t)16 << 20 };
	struct rdm r;
	struct fid_mr *mr;
	unsigned char *s = malloc((size_t)16 << 20), *in = malloc((size_t)16 << 20), *win = calloc(2, RMA_LEN);

	OK(rdm_open(&r, "shm", node, me ? "2" : "1", FI_TAGGED | FI_RMA));
	strcpy(sh->name[me], r.addr);
	int rc = fi_mr_reg(r.domain, win, 2 * RMA_LEN, FI_REMOTE_READ | FI_REMOTE_WRITE | FI_READ | FI_WRITE, 0, 40 + (uint64_t)me, 0, &mr, NULL);
	REQUIRE(!rc, "fi_mr_reg: %d (%s)", rc, t_err(rc));
	sh->key[me] = fi_mr_key(mr);
	sh->base[me] = r.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)win : 0;
	sh->ready[me] = 1;
	while (!sh->ready[!me])
		sleep_ms(1);
	fi_addr_t to = rdm_insert(&r, sh->name[!me]);
	meet(sh, me, 1);

	for (size_t i = 0; i < T_ARRAY(size); i++) {
		t_step("tagged, %zu bytes", size[i]);
		for (int turn = 0; turn < 2; turn++) {
			if (turn == me) {
				pattern_fill(s, size[i], i * 2 + (uint64_t)me);
				rdm_tsend(&r, to, s, size[i], 10 + i, 10000);
			} else {
				memset(in, 0, size[i]);
				rdm_trecv(&r, in, size[i], 10 + i, 10000);
				EXPECT(pattern_check(in, size[i], i * 2 + (uint64_t)!me) < 0, "tagged %zu bytes differ", size[i]);
			}
		}
	}
	meet(sh, me, 2);

	t_step("unexpected 8 x 1 MiB");
	struct fi_cq_tagged_entry c;
	struct fi_cq_err_entry err;
	if (me == 0) {
		for (int i = 0; i < NUNEXP; i++) {
			ssize_t n;
			pattern_fill(s + (size_t)i * RMA_LEN, RMA_LEN, 50 + (uint64_t)i);
			for (double end = now_ms() + 8000; (n = fi_tsend(r.ep, s + (size_t)i * RMA_LEN, RMA_LEN, NULL, to, 100 + (uint64_t)i, s)) == -FI_EAGAIN && now_ms() < end; )
				pump();
			/* With bounce buffers the sender may have to wait for
			 * the receiver: -FI_EAGAIN is legal, an error is not. */
			if (n == -FI_EAGAIN)
				t_fail("unexpected message %d: -FI_EAGAIN for 8 s", i);
			REQUIRE(!n, "unexpected message %d: %zd (%s)", i, n, t_err(n));
		}
		for (int i = 0; i < NUNEXP; i++) {
			rc = rdm_next(&r, &c, &err, 10000);
			REQUIRE(rc == 1, "unexpected message: send %s", rc ? fi_strerror(abs(err.err)) : "not completed");
		}
	} else {
		pump_ms(400);                 /* let them arrive */
		/* Posted in reverse order, all before the first wait: with
		 * bounce buffers the sender may be held back until then. */
		for (int i = NUNEXP - 1; i >= 0; i--) {
			unsigned char *at = in + (size_t)i * RMA_LEN;
			memset(at, 0, RMA_LEN);
			OK(fi_trecv(r.ep, at, RMA_LEN, NULL, FI_ADDR_UNSPEC, 100 + (uint64_t)i, 0, at));
		}
		for (int i = 0; i < NUNEXP; i++) {
			rc = rdm_next(&r, &c, &err, 10000);
			REQUIRE(rc == 1, "unexpected message: receive %s", rc ? fi_strerror(abs(err.err)) : "not completed");
		}
		for (int i = 0; i < NUNEXP; i++)
			EXPECT(pattern_check(in + (size_t)i * RMA_LEN, RMA_LEN, 50 + (uint64_t)i) < 0, "unexpected message differs");
	}
	meet(sh, me, 3);

	{
		t_step("RMA");
		pattern_fill(s, RMA_LEN, 70 + (uint64_t)me);
		rma(&r, true, s, to, sh->base[!me], sh->key[!me]);
		pattern_fill(win + RMA_LEN, RMA_LEN, 80 + (uint64_t)me);
		meet(sh, me, 4);
		EXPECT(pattern_check(win, RMA_LEN, 70 + (uint64_t)!me) < 0, "bytes written by the peer differ");
		memset(in, 0, RMA_LEN);
		rma(&r, false, in, to, sh->base[!me] + RMA_LEN, sh->key[!me]);
		EXPECT(pattern_check(in, RMA_LEN, 80 + (uint64_t)!me) < 0, "bytes read from the peer differ");
		meet(sh, me, 5);
	}

	t_step("self-send");
	fi_addr_t self = rdm_insert(&r, r.addr);
	for (size_t n = 100; n <= RMA_LEN; n = n == 100 ? RMA_LEN : n * 2) {
		ssize_t k;
		pattern_fill(s, n, 90);
		OK(fi_trecv(r.ep, in, n, NULL, FI_ADDR_UNSPEC, 500, 0, in));
		for (double end = now_ms() + 5000; (k = fi_tsend(r.ep, s, n, NULL, self, 500, s)) == -FI_EAGAIN && now_ms() < end; )
			pump();
		REQUIRE(!k, "self-send of %zu bytes: %zd (%s)", n, k, t_err(k));
		for (int i = 0; i < 2; i++) {
			rc = rdm_next(&r, &c, &err, 8000);
			REQUIRE(rc == 1, "self-send of %zu bytes: %s", n, rc ? fi_strerror(abs(err.err)) : "no completion");
		}
		EXPECT(pattern_check(in, n, 90) < 0, "self-send of %zu bytes: bytes differ", n);
	}
	meet(sh, me, 6);
	OK_SOFT(fi_close(&mr->fid));
	rdm_close(&r);
	free(s);
	free(in);
	free(win);
}

static char node[32];           /* the parent's name space for all its children */

static void scene(void *arg)
{
	int mode = *(int *)arg;
	struct shared *sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (mode == 1)
		setenv("FI_SHM_DISABLE_CMA", "1", 1);
	if (mode >= 2 && forbid_cma(mode == 2 ? EPERM : ENOSYS)) {
		t_note("seccomp not available, part not run");
		return;
	}
	pid_t pid = t_fork(13);
	if (pid == 0) {
		side(sh, 1, node);
		t_child_exit();
	}
	side(sh, 0, node);
	int rc = t_wait(pid, 5000);
	EXPECT(rc == 0, "second process: %s", rc == -1000 || rc == 91 ? "hang" : rc < 0 || rc == 90 ? "crash" : "failed, see notes");
}

int main(void)
{
	static const char *const name[] = { "with CMA", "FI_SHM_DISABLE_CMA=1", "seccomp EPERM", "seccomp ENOSYS" };
	struct fi_info *h = fi_allocinfo(), *info = NULL;

	t_begin("BUG-34", 58);
	h->fabric_attr->prov_name = strdup("shm");
	if (fi_getinfo(T_API, NULL, NULL, 0, h, &info))
		t_na("no shm provider");
	fi_freeinfo(info);
	fi_freeinfo(h);
	for (int mode = 0; mode < 4; mode++) {
		double t = now_ms();
		snprintf(node, sizeof(node), "bug34-%d-%d", getpid(), mode);
		t_isolated(name[mode], 14, scene, &mode);
		shm_clean(node);
		t_note("%s: %.1f s", name[mode], (now_ms() - t) / 1000);
	}
	t_end("the same results with and without cross-memory attach");
}
