// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* One side of a connection, and what all tests do with it. */
#include "selftest.h"

int report(const char *name, int error)
{
	if (error)
		pr_err("TEST %s FAILED (%d)\n", name, error);
	else
		pr_info("TEST %s ok\n", name);
	return error;
}

void close_connection(struct side *s)
{
	if (s->ep)
		kofi_ep_close(s->ep);
	if (s->mr)
		kofi_mr_close(s->mr);
	if (s->cq && kofi_cq_close(s->cq))
		pr_err("a completion queue cannot be closed\n");
	if (s->domain && kofi_domain_close(s->domain))
		pr_err("a domain cannot be closed\n");
	s->ep = NULL;
	s->mr = NULL;
	s->cq = NULL;
	s->domain = NULL;
}

void close_side(struct side *s)
{
	close_connection(s);
	if (s->eq && kofi_eq_close(s->eq))
		pr_err("an event queue cannot be closed\n");
	if (s->set && kofi_wait_close(s->set))
		pr_err("a wait set cannot be closed\n");
	if (s->fabric && kofi_fabric_close(s->fabric))
		pr_err("a fabric cannot be closed\n");
	kofi_freeinfo(s->info);
	kvfree(s->tx);
	kvfree(s->rx);
	kvfree(s->memory);
	memset(s, 0, sizeof(*s));
}

int open_side(struct side *s, bool source)
{
	struct kofi_info *hints = kofi_dupinfo(NULL);
	char service[8];
	int error = -ENOMEM;

	memset(s, 0, sizeof(*s));
	if (!hints)
		return error;
	hints->caps = KOFI_MSG | KOFI_RMA;
	hints->mode = ~0ULL;
	hints->present = KOFI_HAS_EP_ATTR | KOFI_HAS_FABRIC_ATTR;
	hints->ep.type = KOFI_EP_MSG;
	strscpy(hints->fabric.prov_name, "tcp", sizeof(hints->fabric.prov_name));
	snprintf(service, sizeof(service), "%u", port);
	must(kofi_getinfo(NULL, KOFI_VERSION(1, 17), addr, service, source ? KOFI_SOURCE : 0, hints, &s->info));
	must(kofi_fabric_open(&s->info->fabric, NULL, &s->fabric));
	must(kofi_wait_open(s->fabric, &s->set));
	{
		struct kofi_eq_attr attr = { .size = 10, .wait_obj = KOFI_WAIT_SET, .wait_set = s->set };

		must(kofi_eq_open(s->fabric, &attr, &s->eq));
	}
	error = -ENOMEM;
	s->tx = kvmalloc(BIG, GFP_KERNEL);
	s->rx = kvmalloc(BIG, GFP_KERNEL);
	s->memory = kvzalloc(BIG, GFP_KERNEL);
	if (s->tx && s->rx && s->memory)
		error = 0;
out:
	kofi_freeinfo(hints);
	return error;
}

int open_connection(struct side *s, struct kofi_info *info, bool with_region)
{
	struct kofi_cq_attr attr = { .size = 64, .wait_obj = KOFI_WAIT_SET, .wait_set = s->set };
	int error = 0;

	must(kofi_domain_open(s->fabric, info, &s->domain));
	must(kofi_cq_open(s->domain, &attr, &s->cq));
	if (with_region) {
		struct kvec vec = { s->memory, BIG };
		struct kofi_mr_attr mr = {
			.memory = { KOFI_KVEC, 1, &vec }, .access = KOFI_REMOTE_READ | KOFI_REMOTE_WRITE, .requested_key = 42,
		};

		must(kofi_mr_reg(s->domain, &mr, &s->mr));
	}
	must(kofi_ep_open(s->domain, info, (u64)(unsigned long)s, &s->ep));
	must(kofi_ep_bind_eq(s->ep, s->eq, 0));
	must(kofi_ep_bind_cq(s->ep, s->cq, KOFI_TRANSMIT | KOFI_RECV));
	must(kofi_ep_enable(s->ep));
out:
	return error;
}

int post(struct side *s, int (*call)(struct kofi_ep *, const struct kofi_op *), void *buffer, size_t len, u64 context)
{
	struct kvec vec = { buffer, len };
	struct kofi_op op = { .memory = { KOFI_KVEC, 1, &vec }, .context = context, .default_flags = 1 };

	return call(s->ep, &op);
}

int rma(struct side *s, int (*call)(struct kofi_ep *, const struct kofi_op *), void *buffer, size_t len, const struct region *r,
	       u64 flags)
{
	struct kvec vec = { buffer, len };
	struct kofi_rma_iov remote = { r->base, len, r->key };
	struct kofi_op op = {
		.memory = { KOFI_KVEC, 1, &vec }, .context = 3, .flags = flags | KOFI_COMPLETION, .remote = &remote, .remote_count = 1,
	};

	return call(s->ep, &op);
}

int completed(struct side *s, struct kofi_cq_entry *entry)
{
	ssize_t got = kofi_cq_sread(s->cq, entry, 1, 0, TIMEOUT);

	return got == 1 ? 0 : got ? (int)got : -EIO;
}

int expect(struct side *s, u32 wanted, void *data, size_t room, size_t *len)
{
	struct kofi_event event = {};
	ssize_t got = kofi_eq_sread(s->eq, &event, data, room, 0, TIMEOUT, KOFI_TIME_MS);

	if (got < 0) {
		pr_err("waiting for event %u: %zd\n", wanted, got);
		return got;
	}
	if (len)
		*len = got;
	if (event.info)
		kofi_freeinfo(event.info);
	if (event.event == wanted)
		return 0;
	pr_err("event %u, not %u\n", event.event, wanted);
	return -EPROTO;
}

int start(struct side *s, const char *command, void *data, size_t room, size_t *len)
{
	int error = open_connection(s, s->info, false);

	if (error)
		return error;
	want_is(post(s, kofi_send, s->tx, 1, 0), -ENOTCONN);
	must(kofi_ep_connect(s->ep, NULL, 0, command, strlen(command)));
	want_is(kofi_ep_connect(s->ep, NULL, 0, command, strlen(command)), -EINVAL);
	must(expect(s, KOFI_CONNECTED, data, room, len));
out:
	return error;
}

void pattern(u8 *to, size_t len, u32 seed)
{
	size_t i;

	for (i = 0; i < len; i++)
		to[i] = (u8)(seed + i * 7 + (i >> 8));
}

int exchange(struct side *s, size_t len, u32 seed)
{
	struct kofi_cq_entry entry;
	int error = 0, left = 2;

	pattern(s->tx, len, seed);
	memset(s->rx, 0xee, len);
	must(post(s, kofi_recv, s->rx, BIG, 1));
	must(post(s, kofi_send, s->tx, len, 2));
	while (left--) {
		must(completed(s, &entry));
		if (entry.flags & KOFI_RECV)
			want(entry.context == 1 && entry.len == len);
		else
			want(entry.context == 2);
	}
	want(!memcmp(s->tx, s->rx, len));
out:
	return error;
}
