// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Allocations that fail. */
#include "selftest.h"

static unsigned int nth;

/*
 * A connection from start to end, in which one allocation fails: the first, the second, and so on until none is left to fail. Whatever
 * is refused is refused in good order: what was opened can be closed, and nothing is left.
 */
static int one_without_memory(void)
{
	struct side server, client;
	struct kofi_pep *pep = NULL;
	struct kofi_event event = {};
	struct kofi_cq_entry entry;
	int error, other = open_side(&client, false);
	u8 byte;

	error = open_side(&server, true) ?: other;
	if (error)
		goto out;
	/* From here on allocations may fail. */
	kofi_test_fail_nth(nth);
	error = kofi_pep_open(server.fabric, server.info, 7, &pep);
	if (!error)
		error = kofi_pep_bind_eq(pep, server.eq, 0);
	if (!error)
		error = kofi_pep_listen(pep);
	if (!error)
		error = open_connection(&client, client.info, true);
	if (!error)
		error = kofi_ep_connect(client.ep, NULL, 0, "x", 1);
	if (!error) {
		ssize_t got = kofi_eq_sread(server.eq, &event, &byte, 1, 0, 300 * slow, 0);

		/* Reading again takes it, after there was no memory to. */
		if (got == -ENOMEM)
			got = kofi_eq_sread(server.eq, &event, &byte, 1, 0, 300 * slow, 0);
		error = got < 0 ? got : 0;
	}
	if (!error)
		error = open_connection(&server, event.info, true);
	if (event.info)
		kofi_freeinfo(event.info);
	if (!error)
		error = post(&server, kofi_recv, server.rx, BIG, 1);
	if (!error)
		error = kofi_ep_accept(server.ep, "y", 1);
	if (!error)
		error = kofi_eq_sread(client.eq, &event, &byte, 1, 0, 300 * slow, 0) == 1 ? 0 : -EIO;
	if (!error)
		error = post(&client, kofi_send, client.tx, BIG, 2);
	if (!error)
		error = kofi_cq_sread(server.cq, &entry, 1, 0, 300 * slow) == 1 ? 0 : -EIO;
out:
	kofi_test_fail_nth(0);
	if (pep)
		kofi_pep_close(pep);
	close_side(&client);
	close_side(&server);
	return error;
}

/* The same for fi_getinfo and fi_tostr: what is found, what is not and why, and all of it as text. */
int info_without_memory(void)
{
	struct kofi_info *hints = kofi_dupinfo(NULL), *list = NULL;
	char *text = kvmalloc(4096, GFP_KERNEL);
	int error = -ENOMEM, needed = 0, kind;
	bool failed = true;

	if (!hints || !text)
		goto out;
	hints->present = ~0u;
	hints->mode = hints->domain.mode = ~0ULL;
	hints->ep.tx_ctx_cnt = hints->ep.rx_ctx_cnt = 1;
	strscpy(hints->fabric.prov_name, "tcp", sizeof(hints->fabric.prov_name));
	for (nth = 1; failed && nth < 400; nth++) {
		bool none = false;

		kofi_test_fail_nth(nth);
		for (kind = 0; kind < 7 && !none; kind++) {
			int want = -ENODATA, got;

			/* Every address; one; a destination; no port; no address; nothing that has this name; a key, which nobody has. */
			strscpy(hints->domain.name, kind == 5 ? "nowhere" : "lo", sizeof(hints->domain.name));
			hints->ep.auth_key_size = kind == 6;
			got = kofi_getinfo(NULL, KOFI_VERSION(1, 17), kind == 4 ? "somewhere" : kind && kind != 3 ? "127.0.0.1" : NULL,
					   kind == 3 ? "x" : kind ? "7471" : NULL, kind == 1 ? KOFI_SOURCE : 0, hints, &list);
			if (kind < 3)
				want = 0;
			none = got == -ENOMEM;
			if (!none)
				want_is(got, want);
			if (!list)
				continue;
			got = kofi_tostr(KOFI_TYPE_INFO, list, text, 4096);
			none = got == -ENOMEM;
			want(none || got > 1000);
			kofi_freeinfo(list);
			list = NULL;
		}
		failed = kofi_test_fail_nth(0);
		needed += none;
	}
	want(!failed && needed > 20);
	error = 0;
out:
	kofi_test_fail_nth(0);
	kofi_freeinfo(list);
	kofi_freeinfo(hints);
	kvfree(text);
	return error;
}

/* The same for a shared receive context. */
int context_without_memory(void)
{
	struct kofi_op op = { .default_flags = 1 };
	struct side s;
	int error = open_side(&s, true), got, needed = 0;
	bool failed = true;

	if (error)
		goto out;
	for (nth = 1; failed && nth < 400; nth++) {
		struct kofi_srx *srx = NULL;

		kofi_test_fail_nth(nth);
		got = kofi_domain_open(s.fabric, s.info, &s.domain);
		if (!got)
			got = kofi_cq_open(s.domain, NULL, &s.cq);
		if (!got)
			got = kofi_srx_open(s.domain, NULL, &srx);
		if (!got)
			got = kofi_srx_bind_cq(srx, s.cq, KOFI_RECV);
		if (!got)
			got = kofi_srx_recv(srx, &op);
		failed = kofi_test_fail_nth(0);
		if (srx)
			must(kofi_srx_close(srx));
		close_connection(&s);
		want(!got || got == -ENOMEM);
		needed += got == -ENOMEM;
	}
	want(!failed && needed > 5);
out:
	kofi_test_fail_nth(0);
	close_side(&s);
	return error;
}

int memory(void)
{
	int failures = 0, good = 0;

	for (nth = 1; nth < 400 && good < 3; nth++) {
		if (one_without_memory()) {
			failures++;
			good = 0;
		} else {
			/* What failed was not needed; or there was nothing left to fail. */
			good = kofi_test_fail_nth(0) ? 0 : good + 1;
		}
	}
	pr_info("%d of %u allocations are needed\n", failures, nth);
	return failures > 10 && good == 3 ? 0 : -EPROTO;
}

/* Connections while the kernel's allocations for us fail at random (debug.sh): whatever comes of them, nothing breaks. */
int faults(void)
{
	int failures = 0;
	u32 n;

	nth = 0;
	for (n = 0; n < rounds && !signal_pending(current); n++)
		failures += !!one_without_memory();
	pr_info("%d of %u connections were refused memory\n", failures, rounds);
	return n == rounds ? 0 : -EINTR;
}
