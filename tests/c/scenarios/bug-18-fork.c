// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-18 Fork does no harm to the parent.
 *
 * The parent holds a connected message endpoint and two shm endpoints.  Three
 * children leave in different ways: _exit(0), exit(0) (destructors run), and
 * fi_getinfo.  The parent must not notice.
 */
#include "../common.h"

#define MESSAGES 1000

int main(void)
{
	struct opts o = OPTS_DEFAULT;
	struct pair p;
	struct ep c2, p2;
	struct rdm a, b;
	char node[32], buf[1000];
	bool shm = false;
	fi_addr_t ab = 0;
	struct cm_event ev;

	t_begin("BUG-18", 55);
	pair_open(&p, &o);
	xfer(&p.c, &p.p, 100, 0);
	snprintf(node, sizeof(node), "bug18-%d", getpid());
	struct fi_info *h = fi_allocinfo(), *info = NULL;
	h->fabric_attr->prov_name = strdup("shm");
	if (!fi_getinfo(T_API, NULL, NULL, 0, h, &info)) {
		shm = true;
		OK(rdm_open(&a, "shm", node, "1", FI_TAGGED));
		OK(rdm_open(&b, "shm", node, "2", FI_TAGGED));
		ab = rdm_insert(&a, b.addr);
		rdm_insert(&b, a.addr);
	} else {
		t_note("no shm provider, shm part not run");
	}
	fi_freeinfo(info);
	fi_freeinfo(h);
	int files = shm ? shm_files(node) : 0;
	t_note("%d shm regions", files);

	for (int kind = 1; kind <= 3; kind++) {
		static const char *const name[] = { "", "_exit(0)", "exit(0)", "fi_getinfo" };
		t_step("child %d: %s", kind, name[kind]);
		pid_t pid = t_fork(15);
		if (pid == 0) {
			if (kind == 1)
				_exit(0);
			if (kind == 2)
				exit(0);
			struct fi_info *hints = hints_new(&o), *i = NULL;
			int rc = fi_getinfo(T_API, "127.0.0.1", "4711", 0, hints, &i);
			EXPECT(rc == 0 ? i != NULL : rc < 0, "child: fi_getinfo %d", rc);
			fi_freeinfo(i);
			fi_freeinfo(hints);
			t_child_exit();
		}
		/* traffic while the child lives and after it */
		for (uint64_t i = 0; i < 20; i++)
			xfer(&p.c, &p.p, 500, i);
		int rc = t_wait(pid, 15000);
		EXPECT(rc == 0, "child that calls %s: %s (%d)", name[kind],
		       rc == -1000 || rc == 91 ? "hang" : rc < 0 || rc == 90 ? "crash" : "bad status", rc);
		t_step("parent after %s", name[kind]);
		for (uint64_t i = 0; i < MESSAGES / 3 + 1; i++)
			xfer(i & 1 ? &p.p : &p.c, i & 1 ? &p.c : &p.p, 500, i);
		if (shm) {
			EXPECT(shm_files(node) == files, "after %s in a child, %d of %d shm regions are left", name[kind], shm_files(node), files);
			t_step("parent's shm after %s", name[kind]);
			for (int i = 0; i < 50; i++) {
				/* one process, two endpoints: post both, then wait */
				struct fi_cq_tagged_entry ce;
				struct fi_cq_err_entry err;
				char in[1000];
				ssize_t n;
				pattern_fill(buf, sizeof(buf), (uint64_t)i);
				OK(fi_trecv(b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, 7, 0, in));
				for (double end = now_ms() + 3000; (n = fi_tsend(a.ep, buf, sizeof(buf), NULL, ab, 7, buf)) == -FI_EAGAIN && now_ms() < end; )
					pump();
				REQUIRE(!n, "shm send: %zd (%s)", n, t_err(n));
				REQUIRE(rdm_next(&a, &ce, &err, 3000) == 1 && rdm_next(&b, &ce, &err, 3000) == 1, "shm exchange after %s in a child fails", name[kind]);
				EXPECT(pattern_check(in, sizeof(in), (uint64_t)i) < 0, "shm bytes differ");
			}
			/* a peer that maps the region now must still find it */
			struct rdm late;
			char extra[40];
			snprintf(extra, sizeof(extra), "late%d", kind);
			OK(rdm_open(&late, "shm", node, extra, FI_TAGGED));
			EXPECT(fi_av_insert(late.av, a.addr, 1, &ab, 0, NULL) == 1, "after %s in a child: the region cannot be addressed", name[kind]);
			rdm_close(&late);
			ab = 0;
		}
	}
	t_step("no events");
	ssize_t n = eq_next(p.s.eq, &ev, 50), m = eq_next(p.c.eq, &ev, 0);
	EXPECT(n == -FI_EAGAIN && m == -FI_EAGAIN, "events appeared at the parent: %zd, %zd", n, m);
	t_step("one more endpoint");
	pair_join(&p.s, &c2, &p2, &o);
	xfer(&c2, &p2, 1000, 1);
	ep_close(&c2);
	ep_close(&p2);
	if (shm) {
		rdm_close(&a);
		rdm_close(&b);
		shm_clean(node);
	}
	pair_close(&p);
	t_end("three kinds of children, parent unharmed%s", shm ? ", shm regions kept" : "");
}
