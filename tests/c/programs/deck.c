// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The deck "Kernel Open Fabrics Interface: server end point setup" (2015):
 * slides 3 to 8 as written there, up to what C needs, and what its client does,
 * in two processes.  With PEER the client runs over another library.
 */
#include "../common.h"

#define FI_TIME_MS (1ULL << 38)   /* slide 7; the unit that there is without it, too */
#define HELLO "my IB Private data"
#define WELCOME "welcome"

static const char request[] = "what does the deck say?", answer[] = "passive endpoint, event queue, bind, listen";

/* What server and client have in common. */
struct side {
	struct fid_domain *domain;
	struct fid_cq *scq, *rcq;
	struct fid_mr *mr;
	struct fid_ep *ep;
	char memory[256];
};

static void side_open(struct side *s, struct fid_fabric *fabric, struct fi_info *info, struct fid_eq *eq)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_UNSPEC };

	OK(fi_domain(fabric, info, &s->domain, NULL));
	OK(fi_endpoint(s->domain, info, &s->ep, NULL));
	OK(fi_cq_open(s->domain, &attr, &s->scq, NULL));
	OK(fi_cq_open(s->domain, &attr, &s->rcq, NULL));
	OK(fi_ep_bind(s->ep, &eq->fid, 0));
	OK(fi_ep_bind(s->ep, &s->scq->fid, FI_SEND));
	OK(fi_ep_bind(s->ep, &s->rcq->fid, FI_RECV));
	OK(fi_enable(s->ep));
	OK(fi_mr_reg(s->domain, s->memory, sizeof(s->memory), FI_SEND | FI_RECV, 0, 0, 0, &s->mr, NULL));
	OK(fi_recv(s->ep, s->memory, 128, fi_mr_desc(s->mr), 0, s));
}

static void side_close(struct side *s)
{
	OK(fi_close(&s->ep->fid));
	OK(fi_close(&s->mr->fid));
	OK(fi_close(&s->scq->fid));
	OK(fi_close(&s->rcq->fid));
	OK(fi_close(&s->domain->fid));
}

static void say(struct side *s, const char *text)
{
	struct fi_cq_msg_entry done;

	strcpy(s->memory + 128, text);
	OK(fi_send(s->ep, s->memory + 128, strlen(text) + 1, fi_mr_desc(s->mr), 0, NULL));
	REQUIRE(fi_cq_sread(s->scq, &done, 1, NULL, 20000) == 1, "the send did not complete");
	REQUIRE(done.flags & FI_SEND, "the send's flags are 0x%jx", (uintmax_t)done.flags);
}

static void hear(struct side *s, const char *text)
{
	struct fi_cq_msg_entry done;

	REQUIRE(fi_cq_sread(s->rcq, &done, 1, NULL, 20000) == 1, "nothing was received");
	REQUIRE(done.op_context == s && done.len == strlen(text) + 1 && !strcmp(s->memory, text),
		"received %zu bytes, \"%.128s\"", done.len, s->memory);
}

/* An event with room for private data. */
static ssize_t wait_event(struct fid_eq *eq, uint32_t want, struct cm_event *event)
{
	event->len = fi_eq_sread(eq, &event->event, &event->e, sizeof(event->e) + sizeof(event->data), 20000, FI_TIME_MS);
	REQUIRE(event->len >= (ssize_t)sizeof(event->e), "%s: fi_eq_sread %zd (%s)", ev_name(want), event->len, t_err(event->len));
	REQUIRE(event->event == want, "%s instead of %s", ev_name(event->event), ev_name(want));
	return event->len - (ssize_t)sizeof(event->e);
}

static struct fi_info *selected(const char *service, uint64_t flags)
{
	struct fi_info *hints = hints_new(&OPTS_DEFAULT), *info;

	info = info_get("127.0.0.1", service, flags, hints);
	fi_freeinfo(hints);
	return info;
}

static void client(const char *service)
{
	struct fi_info *info = selected(service, 0);
	struct fi_eq_attr eq_attr = { 0, 0, FI_WAIT_UNSPEC, 0, NULL };
	struct fid_fabric *fabric;
	struct fid_eq *eq;
	struct cm_event event;
	static struct side side;

	OK(fi_fabric(info->fabric_attr, &fabric, NULL));
	OK(fi_eq_open(fabric, &eq_attr, &eq, NULL));
	side_open(&side, fabric, info, eq);
	OK(fi_connect(side.ep, info->dest_addr, HELLO, sizeof(HELLO)));
	ssize_t n = wait_event(eq, FI_CONNECTED, &event);
	REQUIRE(n >= (ssize_t)sizeof(WELCOME) && !strcmp((char *)event.data, WELCOME), "FI_CONNECTED without the server's data");
	say(&side, request);
	hear(&side, answer);
	OK(fi_shutdown(side.ep, 0));
	side_close(&side);
	OK(fi_close(&eq->fid));
	OK(fi_close(&fabric->fid));
	fi_freeinfo(info);
}

static void server(void)
{
	struct fi_info *provider = selected(NULL, FI_SOURCE);
	struct fid_fabric *fabric;
	struct sockaddr_in name;
	size_t len = sizeof(name);
	char service[16];
	static struct side side;
	int ret;

	/* slide 8 */
	struct fid_pep *pep;
	struct fi_eq_attr eq_attr = { 10, 0, FI_WAIT_UNSPEC, 0, NULL };
	struct fid_eq *eq;
	uint32_t event_id;
	struct cm_event event;

	OK(fi_fabric(provider->fabric_attr, &fabric, NULL));
	ret = fi_passive_ep(fabric, provider, &pep, (void *)0xCafeBabe);
	REQUIRE(!ret, "fi_passive_ep: %d", ret);
	ret = fi_eq_open(fabric, &eq_attr, &eq, 0);
	REQUIRE(!ret, "fi_eq_open: %d", ret);
	ret = fi_pep_bind(pep, &eq->fid, 0);
	REQUIRE(!ret, "fi_pep_bind: %d", ret);
	ret = fi_listen(pep);
	REQUIRE(!ret, "fi_listen: %d", ret);

	OK(fi_getname(&pep->fid, &name, &len));
	snprintf(service, sizeof(service), "%u", ntohs(name.sin_port));
	pid_t pid = t_peer(25, "client", service, NULL);
	ret = fi_eq_sread(eq, &event_id, (void *)&event.e, sizeof(event.e) + 40, 20000, FI_TIME_MS);
	REQUIRE(ret >= (int)(sizeof(event.e) + sizeof(HELLO)), "fi_eq_sread: %d", ret);
	REQUIRE(event_id == FI_CONNREQ, "event %s", ev_name(event_id));
	EXPECT(event.e.fid == &pep->fid, "the request is not of the passive endpoint");
	EXPECT(event.e.fid->context == (void *)0xCafeBabe, "the passive endpoint's context is %p", event.e.fid->context);
	EXPECT(!strcmp((char *)event.data, HELLO), "private data \"%.40s\"", event.data);
	EXPECT(event.e.info->ep_attr->type == FI_EP_MSG, "the request's endpoint type is %d", event.e.info->ep_attr->type);

	/* one event queue for both endpoints */
	side_open(&side, fabric, event.e.info, eq);
	fi_freeinfo(event.e.info);
	OK(fi_accept(side.ep, WELCOME, sizeof(WELCOME)));
	wait_event(eq, FI_CONNECTED, &event);
	EXPECT(event.e.fid == &side.ep->fid, "FI_CONNECTED is not of the accepted endpoint");
	hear(&side, request);
	say(&side, answer);
	/* stock notices it only while a completion queue is read, and no event comes of waiting alone */
	while (t_stock() && fi_eq_read(eq, &event_id, &event.e, sizeof(event.e), FI_PEEK) == -FI_EAGAIN)
		fi_cq_read(side.rcq, NULL, 0);
	wait_event(eq, FI_SHUTDOWN, &event);
	EXPECT(event.e.fid == &side.ep->fid, "FI_SHUTDOWN is not of the accepted endpoint");
	ret = t_wait(pid, 20000);
	EXPECT(ret == 0, "the client ended with %d", ret);
	side_close(&side);
	OK(fi_close(&pep->fid));
	OK(fi_close(&eq->fid));
	OK(fi_close(&fabric->fid));
	fi_freeinfo(provider);
}

int main(int argc, char **argv)
{
	t_begin("deck", 30);
	if (argc == 3)
		client(argv[2]);
	else
		server();
	t_end("a server as on slides 3 to 8 and its client understand each other");
}
