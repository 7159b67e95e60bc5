// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Calls in a wrong state, with wrong objects or flags: the error that is
 * documented, no crash, and the object is unharmed (D15, docs/semantics.md,
 * sections 2 and 3).  Each row has a child of its own, since some crash stock.
 */
#include "../common.h"

static const struct opts o = { .caps = FI_MSG, .cq_wait = FI_WAIT_UNSPEC, .eq_wait = FI_WAIT_UNSPEC };

#define IS(call, want) do { long rc_ = (long)(call); EXPECT(rc_ == (want), #call ": %ld (%s)", rc_, t_err(rc_)); } while (0)

/* An endpoint that is bound to nothing. */
struct bare { struct fi_info *info; struct fid_fabric *fabric; struct fid_domain *domain; struct fid_ep *ep; struct fid_eq *eq; struct fid_cq *cq; };

static void bare_open(struct bare *b)
{
	struct fi_info *h = hints_new(&o);
	struct fi_eq_attr eqa = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_cq_attr cqa = { .format = FI_CQ_FORMAT_DATA };

	b->info = info_get("127.0.0.1", "9", 0, h);
	fi_freeinfo(h);
	OK(fi_fabric(b->info->fabric_attr, &b->fabric, NULL));
	OK(fi_domain(b->fabric, b->info, &b->domain, NULL));
	OK(fi_endpoint(b->domain, b->info, &b->ep, NULL));
	OK(fi_eq_open(b->fabric, &eqa, &b->eq, NULL));
	OK(fi_cq_open(b->domain, &cqa, &b->cq, NULL));
}

static void bare_close(struct bare *b)
{
	OK(fi_close(&b->ep->fid));
	OK(fi_close(&b->cq->fid));
	OK(fi_close(&b->eq->fid));
	OK(fi_close(&b->domain->fid));
	OK(fi_close(&b->fabric->fid));
	fi_freeinfo(b->info);
}

static void listen_without_queue(void *arg)
{
	struct fi_info *h = hints_new(&o), *info = info_get("127.0.0.1", NULL, FI_SOURCE, h);
	struct fid_fabric *fabric;
	struct fid_pep *pep;

	fi_freeinfo(h);
	OK(fi_fabric(info->fabric_attr, &fabric, NULL));
	OK(fi_passive_ep(fabric, info, &pep, NULL));
	IS(fi_listen(pep), -FI_ENOEQ);
	OK(fi_close(&pep->fid));
	OK(fi_close(&fabric->fid));
	fi_freeinfo(info);
}

static void listen_twice(void *arg)
{
	struct srv s;
	struct ep c, p;

	srv_open(&s, &o);
	IS(fi_listen(s.pep), -FI_EINVAL);
	pair_join(&s, &c, &p, &o);
	xfer(&c, &p, 10, 1);
	ep_close(&c);
	ep_close(&p);
	srv_close(&s);
}

static void setname_after_listen(void *arg)
{
	struct srv s;
	struct ep c, p;
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	srv_open(&s, &o);
	IS(fi_setname(&s.pep->fid, &any, sizeof(any)), -FI_EOPBADSTATE);
	pair_join(&s, &c, &p, &o);
	ep_close(&c);
	ep_close(&p);
	srv_close(&s);
}

static void connect_wrong(void *arg)
{
	struct pair p;

	pair_open(&p, &o);
	t_step("connect twice");
	IS(fi_connect(p.c.ep, p.c.info->dest_addr, NULL, 0), -FI_EINVAL);
	t_step("connect of an accepted endpoint");
	IS(fi_connect(p.p.ep, p.c.info->dest_addr, NULL, 0), -FI_EINVAL);
	xfer(&p.c, &p.p, 10, 1);
	pair_close(&p);
}

static void accept_wrong(void *arg)
{
	struct pair p;

	pair_open(&p, &o);
	t_step("accept of a connecting endpoint");
	IS(fi_accept(p.c.ep, NULL, 0), -FI_EINVAL);
	t_step("accept twice");
	IS(fi_accept(p.p.ep, NULL, 0), -FI_EINVAL);
	xfer(&p.c, &p.p, 10, 1);
	pair_close(&p);
}

static void shutdown_flags(void *arg)
{
	struct pair p;

	pair_open(&p, &o);
	IS(fi_shutdown(p.c.ep, 1), -FI_EINVAL);
	xfer(&p.c, &p.p, 10, 1);
	pair_close(&p);
}

static void shutdown_early(void *arg)
{
	struct bare b;

	bare_open(&b);
	IS(fi_shutdown(b.ep, 0), -FI_ENOTCONN);
	bare_close(&b);
}

static void enable_early(void *arg)
{
	struct bare b;

	bare_open(&b);
	IS(fi_enable(b.ep), -FI_ENOEQ);
	OK(fi_ep_bind(b.ep, &b.eq->fid, 0));
	IS(fi_enable(b.ep), -FI_ENOCQ);
	OK(fi_ep_bind(b.ep, &b.cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_enable(b.ep));
	bare_close(&b);
}

static void bind_flags(void *arg)
{
	struct bare b;

	bare_open(&b);
	IS(fi_ep_bind(b.ep, &b.cq->fid, FI_TRANSMIT | FI_MULTICAST), -FI_EBADFLAGS);
	OK(fi_ep_bind(b.ep, &b.cq->fid, FI_TRANSMIT | FI_RECV));
	IS(fi_ep_bind(b.ep, &b.cq->fid, FI_TRANSMIT), -FI_EINVAL);
	OK(fi_ep_bind(b.ep, &b.eq->fid, 0));
	bare_close(&b);
}

static void bind_foreign(void *arg)
{
	struct bare a, b;

	bare_open(&a);
	bare_open(&b);
	IS(fi_ep_bind(a.ep, &b.eq->fid, 0), -FI_EINVAL);
	IS(fi_ep_bind(a.ep, &b.cq->fid, FI_TRANSMIT), -FI_EINVAL);
	bare_close(&a);
	bare_close(&b);
}

static void bind_class(void *arg)
{
	struct bare b;

	bare_open(&b);
	IS(fi_ep_bind(b.ep, &b.domain->fid, 0), -FI_EINVAL);
	bare_close(&b);
}

static void bind_late(void *arg)
{
	struct pair p;
	struct fi_cntr_attr cna = { .events = FI_CNTR_EVENTS_COMP };
	struct fid_cntr *cntr;

	pair_open(&p, &o);
	OK(fi_cntr_open(p.c.domain, &cna, &cntr, NULL));
	IS(fi_ep_bind(p.c.ep, &cntr->fid, FI_SEND), -FI_EOPBADSTATE);
	OK(fi_close(&cntr->fid));
	pair_close(&p);
}

static void receive_early(void *arg)
{
	struct bare b;
	char in[8];

	bare_open(&b);
	IS(fi_recv(b.ep, in, sizeof(in), NULL, 0, NULL), -FI_EOPBADSTATE);
	OK(fi_ep_bind(b.ep, &b.cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_ep_bind(b.ep, &b.eq->fid, 0));
	/* It is as good as enabled: programs post, and then accept or connect. */
	OK(fi_recv(b.ep, in, sizeof(in), NULL, 0, NULL));
	OK(fi_enable(b.ep));
	bare_close(&b);
}

static void send_early(void *arg)
{
	struct bare b;

	bare_open(&b);
	OK(fi_ep_bind(b.ep, &b.cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_ep_bind(b.ep, &b.eq->fid, 0));
	OK(fi_enable(b.ep));
	IS(fi_send(b.ep, "x", 1, NULL, 0, NULL), -FI_ENOTCONN);
	IS(fi_inject(b.ep, "x", 1, 0), -FI_ENOTCONN);
	bare_close(&b);
}

static void send_late(void *arg)
{
	struct pair p;
	struct cm_event ev;

	pair_open(&p, &o);
	OK(fi_shutdown(p.c.ep, 0));
	eq_need(p.c.eq, FI_SHUTDOWN, &ev, 5000);
	IS(fi_send(p.c.ep, "x", 1, NULL, 0, NULL), -FI_ESHUTDOWN);
	IS(fi_shutdown(p.c.ep, 0), 0);
	pair_close(&p);
}

static void reject_used(void *arg)
{
	struct srv s;
	struct ep c;
	struct cm_event ev;

	srv_open(&s, &o);
	cli_make(&c, &s, &o);
	OK(cli_connect(&c, NULL, 0));
	srv_take(&s, &ev, 5000);
	OK(fi_reject(s.pep, ev.e.info->handle, NULL, 0));
	t_step("reject twice");
	IS(fi_reject(s.pep, ev.e.info->handle, NULL, 0), -FI_EINVAL);
	fi_freeinfo(ev.e.info);
	ep_close(&c);
	srv_close(&s);
}

static void inject_long(void *arg)
{
	struct pair p;
	static char big[1 << 20];

	pair_open(&p, &o);
	IS(fi_inject(p.c.ep, big, p.c.info->tx_attr->inject_size + 1, 0), -FI_EMSGSIZE);
	xfer(&p.c, &p.p, 10, 1);
	pair_close(&p);
}

static void eq_write_rules(void *arg)
{
	struct bare b;
	struct fi_eq_attr eqa = { .wait_obj = FI_WAIT_UNSPEC, .flags = FI_WRITE };
	struct fi_eq_entry in = { .data = 77 }, out = { .data = 0 };
	struct fid_eq *eq;
	uint32_t event = 0;

	bare_open(&b);
	OK(fi_eq_open(b.fabric, &eqa, &eq, NULL));
	IS(fi_eq_write(eq, FI_NOTIFY, &in, sizeof(in), 0), (long)sizeof(in));
	IS(fi_eq_read(eq, &event, &out, sizeof(out), 0), (long)sizeof(out));
	EXPECT(event == FI_NOTIFY && out.data == 77, "what was written is not what is read");
	OK(fi_close(&eq->fid));
	IS(fi_eq_write(b.eq, FI_NOTIFY, &in, sizeof(in), 0), (long)sizeof(in));
	IS(fi_eq_read(b.eq, &event, &out, sizeof(out), 0), (long)sizeof(out));
	bare_close(&b);
}

static void small_buffer(void *arg)
{
	struct srv s;
	struct ep c;
	struct cm_event ev;
	size_t len = 4;

	srv_open(&s, &o);
	cli_make(&c, &s, &o);
	OK(cli_connect(&c, NULL, 0));
	for (double end = now_ms() + 5000; fi_eq_read(s.eq, &ev.event, &ev.e, sizeof(ev.e), FI_PEEK) == -FI_EAGAIN && now_ms() < end;)
		pump();
	IS(fi_eq_read(s.eq, &ev.event, &ev.e, 4, 0), -FI_ETOOSMALL);
	srv_take(&s, &ev, 100);
	fi_freeinfo(ev.e.info);
	IS(fi_getname(&s.pep->fid, &ev.e, &len), -FI_ETOOSMALL);
	EXPECT(len == sizeof(struct sockaddr_in), "the needed length is said to be %zu", len);
	ep_close(&c);
	srv_close(&s);
}

static void after_reject(void *arg)
{
	struct srv s;
	struct ep c;
	struct cm_event ev;
	char in[8];

	srv_open(&s, &o);
	cli_make(&c, &s, &o);
	OK(cli_connect(&c, NULL, 0));
	srv_take(&s, &ev, 5000);
	OK(fi_reject(s.pep, ev.e.info->handle, NULL, 0));
	fi_freeinfo(ev.e.info);
	REQUIRE(eq_next(c.eq, &ev, 5000) == -FI_EAVAIL, "no error entry");
	struct fi_eq_err_entry err;
	eq_error(c.eq, &err);
	IS(fi_connect(c.ep, c.info->dest_addr, NULL, 0), -FI_EOPBADSTATE);
	IS(fi_recv(c.ep, in, sizeof(in), NULL, 0, NULL), -FI_EOPBADSTATE);
	IS(fi_send(c.ep, in, sizeof(in), NULL, 0, NULL), -FI_EOPBADSTATE);
	EXPECT(eq_next(c.eq, &ev, 50) == -FI_EAGAIN, "another event of a rejected endpoint");
	ep_close(&c);
	srv_close(&s);
}

static void getpeer_early(void *arg)
{
	struct bare b;
	struct sockaddr_storage a;
	size_t len = sizeof(a);

	bare_open(&b);
	IS(fi_getpeer(b.ep, &a, &len), -FI_ENOTCONN);
	bare_close(&b);
}

static void not_supported(void *arg)
{
	struct bare b;
	struct fid_ep *sep = NULL;
	struct fid_stx *stx = NULL;
	void *ops;

	bare_open(&b);
	IS(fi_scalable_ep(b.domain, b.info, &sep, NULL), -FI_ENOSYS);
	IS(fi_stx_context(b.domain, b.info->tx_attr, &stx, NULL), -FI_ENOSYS);
	IS(fi_open_ops(&b.domain->fid, "no such ops", 0, &ops, NULL), -FI_ENOSYS);
	IS(fi_control(&b.domain->fid, 4711, NULL), -FI_ENOSYS);
	IS(fi_setopt(&b.ep->fid, FI_OPT_ENDPOINT, 4711, &ops, sizeof(ops)), -FI_ENOPROTOOPT);
	bare_close(&b);
}

static const struct { const char *rule; void (*body)(void *); } row[] = {
	{ "fi_listen without an event queue: -FI_ENOEQ", listen_without_queue },
	{ "fi_listen twice: -FI_EINVAL", listen_twice },
	{ "fi_setname after fi_listen: -FI_EOPBADSTATE", setname_after_listen },
	{ "fi_connect twice, or on an accepted endpoint: -FI_EINVAL", connect_wrong },
	{ "fi_accept on a connecting endpoint, or twice: -FI_EINVAL", accept_wrong },
	{ "fi_shutdown with flags: -FI_EINVAL", shutdown_flags },
	{ "fi_shutdown before FI_CONNECTED: -FI_ENOTCONN", shutdown_early },
	{ "fi_enable without queues: -FI_ENOEQ, -FI_ENOCQ", enable_early },
	{ "fi_ep_bind with other flags: -FI_EBADFLAGS, twice: -FI_EINVAL", bind_flags },
	{ "fi_ep_bind of another fabric's or domain's queue: -FI_EINVAL", bind_foreign },
	{ "fi_ep_bind of another class: -FI_EINVAL", bind_class },
	{ "fi_ep_bind after fi_enable: -FI_EOPBADSTATE", bind_late },
	{ "fi_recv before what fi_enable needs is bound: -FI_EOPBADSTATE; then 0", receive_early },
	{ "fi_send before FI_CONNECTED: -FI_ENOTCONN", send_early },
	{ "fi_send after FI_SHUTDOWN: -FI_ESHUTDOWN; fi_shutdown again: 0", send_late },
	{ "fi_reject of a used handle: -FI_EINVAL", reject_used },
	{ "fi_inject over inject_size: -FI_EMSGSIZE", inject_long },
	{ "fi_eq_write, also without FI_WRITE", eq_write_rules },
	{ "a buffer that is too small: -FI_ETOOSMALL, nothing is lost", small_buffer },
	{ "fi_getpeer before FI_CONNECTED: -FI_ENOTCONN", getpeer_early },
	{ "an endpoint after a rejected fi_connect: -FI_EOPBADSTATE", after_reject },
	{ "what there is not: -FI_ENOSYS, -FI_ENOPROTOOPT", not_supported },
};

int main(void)
{
	t_begin("wrong-use", 60);
	for (size_t i = 0; i < T_ARRAY(row); i++)
		t_isolated_rule(row[i].rule, 8, row[i].body, NULL);
	t_end("%zu kinds of wrong use are answered as documented", T_ARRAY(row));
}
