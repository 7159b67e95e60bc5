// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The server: does what the private data of each connection request says. */
#include "selftest.h"

static int serve_connection(struct side *s, const char *command, struct kofi_info *info)
{
	bool with_region = !strcmp(command, "rma"), closing = !strcmp(command, "close");
	struct kofi_cq_entry entry;
	struct kofi_event event;
	struct kofi_cq_error failure;
	struct region region;
	int error, result, messages = 0;
	ssize_t got;
	u8 byte;

	error = open_connection(s, info, with_region);
	if (error)
		return error;
	must(post(s, kofi_recv, s->rx, BIG, 1));
	if (with_region) {
		region = (struct region){ kofi_mr_key(s->mr), kofi_mr_base(s->mr), BIG };
		must(kofi_ep_accept(s->ep, &region, sizeof(region)));
	} else {
		must(kofi_ep_accept(s->ep, "hello", 5));
	}
	error = expect(s, KOFI_CONNECTED, &byte, 1, NULL);
	if (error == -KOFI_EAVAIL && hostile) {
		struct kofi_eq_error gone = {};

		/* It was gone before it could be answered. */
		want_is(kofi_eq_readerr(s->eq, &gone, 0), 1);
		error = 0;
		goto out;
	}
	if (error)
		goto out;
	for (;;) {
		must(kofi_wait(s->set, TIMEOUT));
		got = kofi_cq_read(s->cq, &entry, 1);
		if (got == 1) {
			if (entry.flags & KOFI_RECV) {
				messages++;
				memcpy(s->tx, s->rx, entry.len);
				result = post(s, kofi_send, s->tx, entry.len, 2);
				if (result != -ESHUTDOWN || !hostile)
					must(result);
			} else {
				/* Who has its answer may be gone before this completion is read. */
				result = post(s, kofi_recv, s->rx, BIG, 1);
				if (result != -ESHUTDOWN)
					must(result);
				if (closing && messages == 1) {
					closing = false;
					must(kofi_ep_shutdown(s->ep, 0));
				}
			}
			continue;
		}
		if (got == -KOFI_EAVAIL) {
			want_is(kofi_cq_readerr(s->cq, &failure, 0), 1);
			want_is(failure.err, ECANCELED);
			continue;
		}
		want_is(got, -EAGAIN);
		got = kofi_eq_read(s->eq, &event, &byte, 1, 0, 0);
		if (got == -EAGAIN)
			continue;
		want(got >= 0 && event.event == KOFI_SHUTDOWN && event.fid == (u64)(unsigned long)s);
		break;
	}
out:
	close_connection(s);
	return error;
}

DECLARE_COMPLETION(listening);

int server(void *unused)
{
	/* Apart from the endpoints' queue: the next client may ask before the last one's end was read. */
	struct kofi_eq_attr attr = { 10, 0, KOFI_WAIT_UNSPEC, 0, NULL };
	struct kofi_eq *requests = NULL;
	struct kofi_pep *pep = NULL;
	char command[64], name[80];
	struct side s;
	int error = open_side(&s, true);
	bool quit = false;

	if (error)
		goto out;
	must(kofi_pep_open(s.fabric, s.info, 0xCafeBabe, &pep));
	must(kofi_eq_open(s.fabric, &attr, &requests));
	must(kofi_pep_bind_eq(pep, requests, 0));
	must(kofi_pep_listen(pep));
	pr_info("listening\n");
	complete(&listening);
	while (!quit) {
		struct kofi_event event = {};
		ssize_t got = kofi_eq_sread(requests, &event, command, sizeof(command) - 1, 0, 60000 * slow, KOFI_TIME_MS);

		if (got < 0) {
			error = signal_pending(current) ? -EINTR : got;
			if (error != -EINTR)
				pr_err("no connection request: %zd\n", got);
			break;
		}
		want(event.event == KOFI_CONNREQ && event.fid == 0xCafeBabe && event.info && event.info->handle);
		command[got] = 0;
		quit = !strcmp(command, "quit");
		if (quit || !strcmp(command, "reject")) {
			error = kofi_pep_reject(pep, NULL, event.info->handle, "no thanks", 9);
			if (!error && kofi_pep_reject(pep, NULL, event.info->handle, "again", 5) != -EINVAL)
				error = -EPROTO;
		} else {
			error = serve_connection(&s, command, event.info);
		}
		kofi_freeinfo(event.info);
		snprintf(name, sizeof(name), "server %s", command);
		report(name, error);
		if (error)
			break;
	}
out:
	complete(&listening);
	if (pep)
		kofi_pep_close(pep);
	if (requests)
		kofi_eq_close(requests);
	close_side(&s);
	return error;
}
