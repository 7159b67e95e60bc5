/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Wrong uses, and what they answer, by one layer of names. Included once for each layer, with
 *
 *   LAYER		its name in the log
 *   NAME(call)		the name of a call
 *   EQ_OPEN, CQ_OPEN	the calls whose arguments differ
 *
 * The rows are those of docs/semantics.md and what the C faces add to them.
 */

static void CAT(LAYER, _infos)(struct world *w)
{
	struct kfi_info *hints = NAME(allocinfo)(), *info = NULL;
	struct kfid_fabric *fabric = NULL;
	struct kfi_fabric_attr attr = {};

	if (!hints) {
		row("allocinfo", 0, -ENOMEM);
		return;
	}
	row("getinfo of a newer version", NAME(getinfo)(KFI_VERSION(1, 99), NULL, NULL, 0, NULL, &info), -ENOSYS);
	row("getinfo of another major version", NAME(getinfo)(KFI_VERSION(2, 0), NULL, NULL, 0, NULL, &info),
	    -ENOSYS);
	row("getinfo without a place for infos", NAME(getinfo)(KFI_VERSION(1, 7), NULL, NULL, 0, NULL, NULL),
	    -EINVAL);
	row("getinfo with unknown flags", NAME(getinfo)(KFI_VERSION(1, 7), NULL, NULL, 1ULL << 40, NULL, &info),
	    -KFI_EBADFLAGS);
	hints->ep_attr->type = KFI_EP_RDM;
	row("getinfo without match", NAME(getinfo)(KFI_VERSION(1, 7), NULL, NULL, 0, hints, &info), -ENODATA);
	hints->ep_attr->type = KFI_EP_MSG;
	hints->caps = KFI_TAGGED;
	row("getinfo of capabilities that nobody has",
	    NAME(getinfo)(KFI_VERSION(1, 7), NULL, NULL, 0, hints, &info), -ENODATA);
	hints->caps = 0;
	hints->fabric_attr->prov_name = kstrdup("nobody", GFP_KERNEL);
	row("getinfo of an unknown provider", NAME(getinfo)(KFI_VERSION(1, 7), NULL, NULL, 0, hints, &info),
	    -ENODEV);
	NAME(freeinfo)(hints);
	NAME(freeinfo)(NULL);
	row("getinfo without hints", NAME(getinfo)(KFI_VERSION(1, 7), NULL, NULL, 0, NULL, &info), 0);
	hints = NAME(dupinfo)(info);
	row("dupinfo", hints ? 0 : -ENOMEM, 0);
	NAME(freeinfo)(hints);
	NAME(freeinfo)(info);

	row("fabric without attributes", NAME(fabric)(NULL, &fabric, NULL), -EINVAL);
	row("fabric without a provider's name", NAME(fabric)(&attr, &fabric, NULL), -EINVAL);
	attr.prov_name = "nobody";
	row("fabric of an unknown provider", NAME(fabric)(&attr, &fabric, NULL), -ENODEV);
	row("fabric without a place for it", NAME(fabric)(w->info->fabric_attr, NULL, NULL), -EINVAL);
}

static void CAT(LAYER, _queues)(struct world *w)
{
	struct kfi_eq_attr attr = {10, 0, KFI_WAIT_UNSPEC, 0, NULL };
	struct kfi_eq_cm_entry entry;
	struct kfi_eq_err_entry why = {};
	struct kfi_cq_attr cq_attr = { .wait_obj = KFI_WAIT_NONE };
	struct kfid_eq *eq = NULL, *none = NULL;
	struct kfid_cq *cq = NULL;
	struct kfi_cq_entry done;
	u64 begin, took;
	u32 event;

	row("eq_open without attributes", EQ_OPEN(w->fabric, NULL, &eq), 0);
	if (!eq)
		return;
	row("close", NAME(close)(&eq->fid), 0);
	row("close twice", NAME(close)(&eq->fid), -EINVAL);
	row("eq_read of a closed queue", NAME(eq_read)(eq, &event, &entry, sizeof(entry), 0) < 0, 1);
	row("control of a closed queue", NAME(control)(&eq->fid, KFI_ENABLE, NULL), -EINVAL);
	row("close of nothing", NAME(close)(NULL), -EINVAL);

	row("eq_open with the deck's attributes", EQ_OPEN(w->fabric, &attr, &eq), 0);
	row("eq_open without a place for it", EQ_OPEN(w->fabric, &attr, NULL), -EINVAL);
	attr.flags = KFI_PEEK;
	row("eq_open with unknown flags", EQ_OPEN(w->fabric, &attr, &none), -EINVAL);
	attr.flags = 0;
	attr.wait_obj = KFI_WAIT_SET;
	row("eq_open with a set that is not there", EQ_OPEN(w->fabric, &attr, &none), -EINVAL);
	attr.wait_obj = KFI_WAIT_QUEUE;
	row("eq_open with a wait object of others", EQ_OPEN(w->fabric, &attr, &none), -ENOSYS);
	attr.wait_obj = 77;
	row("eq_open with no wait object at all", EQ_OPEN(w->fabric, &attr, &none), -EINVAL);
	attr.wait_obj = KFI_WAIT_NONE;
	row("eq_open that cannot be waited for", EQ_OPEN(w->fabric, &attr, &none), 0);

	row("eq_read of an empty queue", NAME(eq_read)(eq, &event, &entry, sizeof(entry), 0), -EAGAIN);
	row("eq_read with unknown flags", NAME(eq_read)(eq, &event, &entry, sizeof(entry), KFI_MORE),
	    -KFI_EBADFLAGS);
	row("eq_read without a place for it", NAME(eq_read)(eq, NULL, NULL, 0, 0), -EINVAL);
	row("eq_readerr without error", NAME(eq_readerr)(eq, &why, 0), -EAGAIN);
	row("eq_readerr without a place for it", NAME(eq_readerr)(eq, NULL, 0), -EINVAL);
	row("eq_write without permission", NAME(eq_write)(eq, KFI_NOTIFY, &entry, sizeof(entry), 0), -EINVAL);
	row("eq_sread with both units", NAME(eq_sread)(eq, &event, &entry, sizeof(entry), 1, KFI_TIME_US | KFI_TIME_MS),
	    -EINVAL);
	if (none)
		row("eq_sread that cannot wait", NAME(eq_sread)(none, &event, &entry, sizeof(entry), 1, 0), -ENOSYS);
	row("eq_sread that only looks", NAME(eq_sread)(eq, &event, &entry, sizeof(entry), 0, 0), -EAGAIN);
	begin = ktime_get_ns();
	row("eq_sread of 60 ms", NAME(eq_sread)(eq, &event, &entry, sizeof(entry), 60, KFI_TIME_MS), -EAGAIN);
	took = ktime_get_ns() - begin;
	row("eq_sread waits its time", took >= 60 * NSEC_PER_MSEC && took < 1000 * NSEC_PER_MSEC, 1);
	begin = ktime_get_ns();
	row("eq_sread of 3000 us", NAME(eq_sread)(eq, &event, &entry, sizeof(entry), 3000, KFI_TIME_US), -EAGAIN);
	took = ktime_get_ns() - begin;
	row("eq_sread waits microseconds", took >= 3 * NSEC_PER_MSEC && took < 500 * NSEC_PER_MSEC, 1);
	row("eq_strerror", NAME(eq_strerror)(eq, 0, NULL, NULL, 0) ? 0 : -1, 0);
	if (none)
		NAME(close)(&none->fid);
	NAME(close)(&eq->fid);

	row("cq_open without attributes", CQ_OPEN(w->domain, NULL, &cq), 0);
	if (cq) {
		row("cq_read of an empty queue", NAME(cq_read)(cq, &done, 1), -EAGAIN);
		row("cq_read without a place for it", NAME(cq_read)(cq, NULL, 1), -EINVAL);
		row("cq_readerr without error", NAME(cq_readerr)(cq, &(struct kfi_cq_err_entry) {}, 0), -EAGAIN);
		row("cq_sread of 10 ms", NAME(cq_sread)(cq, &done, 1, NULL, 10), -EAGAIN);
		row("close of a cq", NAME(close)(&cq->fid), 0);
		row("close of a cq twice", NAME(close)(&cq->fid), -EINVAL);
	}
	row("cq_open that cannot be waited for", CQ_OPEN(w->domain, &cq_attr, &cq), 0);
	if (cq) {
		row("cq_sread that cannot wait", NAME(cq_sread)(cq, &done, 1, NULL, 10), -ENOSYS);
		row("cq_signal of it", NAME(cq_signal)(cq), -ENOSYS);
		NAME(close)(&cq->fid);
	}
	cq_attr.format = 99;
	row("cq_open with no format at all", CQ_OPEN(w->domain, &cq_attr, &cq), -EINVAL);
}

static void CAT(LAYER, _listeners)(struct world *w)
{
	struct sockaddr_in name = {};
	struct kfid_fabric *other = NULL;
	struct kfid_eq *foreign = NULL, *eq = NULL;
	struct kfid_pep *pep = NULL;
	size_t len;
	int backlog = 7;

	row("passive_ep without info", NAME(passive_ep)(w->fabric, NULL, &pep, NULL), -EINVAL);
	row("passive_ep without a place for it", NAME(passive_ep)(w->fabric, w->info, NULL, NULL), -EINVAL);
	row("passive_ep", NAME(passive_ep)(w->fabric, w->info, &pep, NULL), 0);
	row("eq_open", EQ_OPEN(w->fabric, NULL, &eq), 0);
	row("fabric", NAME(fabric)(w->info->fabric_attr, &other, NULL), 0);
	if (!pep || !eq || !other)
		return;
	row("eq_open in another fabric", EQ_OPEN(other, NULL, &foreign), 0);
	row("listen without an event queue", NAME(listen)(pep), -KFI_ENOEQ);
	if (foreign)
		row("pep_bind of another fabric's queue", NAME(pep_bind)(pep, &foreign->fid, 0), -EINVAL);
	row("pep_bind of a completion queue", NAME(pep_bind)(pep, &w->cq->fid, 0), -EINVAL);
	row("pep_bind of itself", NAME(pep_bind)(pep, &pep->fid, 0), -EINVAL);
	row("pep_bind of nothing", NAME(pep_bind)(pep, NULL, 0), -EINVAL);
	row("pep_bind with flags", NAME(pep_bind)(pep, &eq->fid, KFI_SEND), -EINVAL);
	row("pep_bind", NAME(pep_bind)(pep, &eq->fid, 0), 0);
	row("pep_bind of a second queue", NAME(pep_bind)(pep, &w->eq->fid, 0), -EINVAL);
	row("control FI_BACKLOG", NAME(control)(&pep->fid, KFI_BACKLOG, &backlog), 0);
	row("control FI_BACKLOG of nothing", NAME(control)(&pep->fid, KFI_BACKLOG, NULL), -EINVAL);
	row("control FI_ENABLE of a passive endpoint", NAME(control)(&pep->fid, KFI_ENABLE, NULL), -ENOSYS);
	row("listen", NAME(listen)(pep), 0);
	row("listen twice", NAME(listen)(pep), -EINVAL);
	row("pep_bind of a listener", NAME(pep_bind)(pep, &w->eq->fid, 0), -KFI_EOPBADSTATE);
	row("control FI_BACKLOG of a listener", NAME(control)(&pep->fid, KFI_BACKLOG, &backlog), -KFI_EOPBADSTATE);
	len = sizeof(name);
	row("getname", NAME(getname)(&pep->fid, &name, &len), 0);
	row("getname gives a port", name.sin_port != 0, 1);
	row("setname of a listener", NAME(setname)(&pep->fid, &name, sizeof(name)), -KFI_EOPBADSTATE);
	row("setname of nothing", NAME(setname)(&pep->fid, NULL, 0), -EINVAL);
	len = 4;
	row("getname with little room", NAME(getname)(&pep->fid, &name, &len), -KFI_ETOOSMALL);
	row("getname tells the length", len, sizeof(name));
	row("getname of a queue", NAME(getname)(&eq->fid, &name, &len), -EINVAL);
	row("reject of nothing", NAME(reject)(pep, NULL, NULL, 0), -EINVAL);
	row("reject of what is no request", NAME(reject)(pep, &eq->fid, NULL, 0), -EINVAL);
	row("reject of a pointer into nowhere", NAME(reject)(pep, (void *)16, NULL, 0), -EINVAL);
	row("close of a bound queue", NAME(close)(&eq->fid), -EBUSY);
	row("close of a fabric with children", NAME(close)(&w->fabric->fid), -EBUSY);
	row("close of a listener", NAME(close)(&pep->fid), 0);
	row("close of a listener twice", NAME(close)(&pep->fid), -EINVAL);
	row("listen of a closed one", NAME(listen)(pep) < 0, 1);
	row("close of the queue then", NAME(close)(&eq->fid), 0);
	if (foreign)
		row("close of the other queue", NAME(close)(&foreign->fid), 0);
	row("close of the other fabric", NAME(close)(&other->fid), 0);
	row("close of the other fabric twice", NAME(close)(&other->fid), -EINVAL);
}

static void CAT(LAYER, _endpoints)(struct world *w)
{
	static char data[300];
	struct kfid_ep *ep = NULL;
	char buf[8];
	struct sockaddr_in name = {};
	size_t len = sizeof(name), value;

	row("domain without info", NAME(domain)(w->fabric, NULL, &(struct kfid_domain *) { NULL }, NULL), -EINVAL);
	row("endpoint without info", NAME(endpoint)(w->domain, NULL, &ep, NULL), -EINVAL);
	row("endpoint without a place for it", NAME(endpoint)(w->domain, w->info, NULL, NULL), -EINVAL);
	w->info->handle = &w->eq->fid;
	row("endpoint for what is no request", NAME(endpoint)(w->domain, w->info, &ep, NULL), -EINVAL);
	w->info->handle = NULL;
	row("endpoint", NAME(endpoint)(w->domain, w->info, &ep, NULL), 0);
	if (!ep)
		return;
	row("recv before enable", NAME(recv)(ep, buf, sizeof(buf), NULL, 0, NULL), -KFI_EOPBADSTATE);
	row("enable without an event queue", NAME(enable)(ep), -KFI_ENOEQ);
	row("ep_bind of nothing", NAME(ep_bind)(ep, NULL, 0), -EINVAL);
	row("ep_bind of a domain", NAME(ep_bind)(ep, &w->domain->fid, 0), -EINVAL);
	row("ep_bind of an event queue with flags", NAME(ep_bind)(ep, &w->eq->fid, KFI_SEND), -EINVAL);
	row("ep_bind of an event queue", NAME(ep_bind)(ep, &w->eq->fid, 0), 0);
	row("ep_bind of a second event queue", NAME(ep_bind)(ep, &w->eq->fid, 0), -EINVAL);
	row("enable without a completion queue", NAME(enable)(ep), -KFI_ENOCQ);
	row("ep_bind of a completion queue for nothing", NAME(ep_bind)(ep, &w->cq->fid, 0), -EINVAL);
	row("ep_bind with unknown flags", NAME(ep_bind)(ep, &w->cq->fid, KFI_SEND | KFI_MORE), -KFI_EBADFLAGS);
	row("ep_bind of a completion queue", NAME(ep_bind)(ep, &w->cq->fid, KFI_TRANSMIT | KFI_RECV), 0);
	row("ep_bind of a second completion queue", NAME(ep_bind)(ep, &w->cq->fid, KFI_TRANSMIT), -EINVAL);
	row("enable", NAME(enable)(ep), 0);
	row("enable twice", NAME(enable)(ep), -KFI_EOPBADSTATE);
	row("ep_bind after enable", NAME(ep_bind)(ep, &w->cq->fid, KFI_TRANSMIT), -KFI_EOPBADSTATE);
	row("send before the connection", NAME(send)(ep, buf, sizeof(buf), NULL, 0, NULL), -ENOTCONN);
	row("inject before the connection", NAME(inject)(ep, buf, sizeof(buf), 0), -ENOTCONN);
	row("send of nothing with a length", NAME(send)(ep, NULL, 8, NULL, 0, NULL), -EINVAL);
	row("sendmsg without message", NAME(sendmsg)(ep, NULL, 0), -EINVAL);
	row("sendmsg of a zeroed message with a piece", NAME(sendmsg)(ep, &(struct kfi_msg) { .iov_count = 1 }, 0),
	    -EINVAL);
	row("sendmsg of a scatterlist", NAME(sendmsg)(ep, &(struct kfi_msg) { .type = 3, .iov_count = 1 }, 0),
	    -ENOSYS);
	row("shutdown before the connection", NAME(shutdown)(ep, 0), -ENOTCONN);
	row("getpeer before the connection", NAME(getpeer)(ep, &name, &len), -ENOTCONN);
	row("getpeer without a place for it", NAME(getpeer)(ep, NULL, NULL), -EINVAL);
	row("accept without a request", NAME(accept)(ep, NULL, 0), -EINVAL);
	row("connect with too much data", NAME(connect)(ep, &w->name, data, 257), -EINVAL);
	row("connect with data that is not there", NAME(connect)(ep, &w->name, NULL, 5), -EINVAL);
	row("connect without address", NAME(connect)(ep, NULL, NULL, 0), -EINVAL);
	row("connect to another family", NAME(connect)(ep, &(struct sockaddr) { .sa_family = 99 }, NULL, 0),
	    -EINVAL);
	row("cancel of nothing", NAME(cancel)(&ep->fid, buf), -ENOENT);
	row("cancel of a queue", NAME(cancel)(&w->eq->fid, buf), -EINVAL);
	len = sizeof(value);
	row("getopt FI_OPT_CM_DATA_SIZE",
	    NAME(getopt)(&ep->fid, KFI_OPT_ENDPOINT, KFI_OPT_CM_DATA_SIZE, &value, &len), 0);
	row("getopt's value", value, 256);
	len = 1;
	row("getopt with little room",
	    NAME(getopt)(&ep->fid, KFI_OPT_ENDPOINT, KFI_OPT_CM_DATA_SIZE, &value, &len), -KFI_ETOOSMALL);
	row("getopt of an unknown option", NAME(getopt)(&ep->fid, KFI_OPT_ENDPOINT, 77, &value, &len),
	    -ENOPROTOOPT);
	row("setopt of what can be read only",
	    NAME(setopt)(&ep->fid, KFI_OPT_ENDPOINT, KFI_OPT_CM_DATA_SIZE, &value, sizeof(value)), -ENOPROTOOPT);
	row("close of a bound event queue", NAME(close)(&w->eq->fid), -EBUSY);
	row("close of a bound completion queue", NAME(close)(&w->cq->fid), -EBUSY);
	row("close of a domain with children", NAME(close)(&w->domain->fid), -EBUSY);
	row("close of an endpoint", NAME(close)(&ep->fid), 0);
	row("close of an endpoint twice", NAME(close)(&ep->fid), -EINVAL);
	row("send of a closed one", NAME(send)(ep, buf, sizeof(buf), NULL, 0, NULL) < 0, 1);
	row("connect of a closed one", NAME(connect)(ep, &w->name, NULL, 0) < 0, 1);
}

static void CAT(LAYER, _connections)(struct world *w)
{
	static char data[300] = "private";
	struct kfi_eq_err_entry why = {};
	struct kfi_info *request = NULL;
	struct kfid_ep *client = NULL, *server = NULL, *third = NULL;
	struct cm_event event;
	kfid_t handle;
	u32 kind;

	/* Rejected, with data. */
	client = dial(w, data, 8);
	request = client ? next_request(w, &event) : NULL;
	row("a request comes", request ? 0 : -ETIMEDOUT, 0);
	if (!request)
		goto out;
	row("with its private data", memcmp(event.data, "private", 8), 0);
	row("of its passive endpoint", event.entry.fid == &w->pep->fid, 1);
	handle = request->handle;
	row("connect twice", NAME(connect)(client, &w->name, NULL, 0), -EINVAL);
	row("accept of the connecting side", NAME(accept)(client, NULL, 0), -EINVAL);
	row("reject with too much data", NAME(reject)(w->pep, handle, data, 257), -EINVAL);
	row("reject", NAME(reject)(w->pep, handle, "go away", 8), 0);
	row("reject of a used handle", NAME(reject)(w->pep, handle, NULL, 0), -EINVAL);
	row("endpoint for a rejected request", NAME(endpoint)(w->domain, request, &server, NULL), -EINVAL);
	row("close of a used handle", NAME(close)(handle), -EINVAL);
	row("eq_sread before an error", NAME(eq_sread)(w->eq, &kind, &event, sizeof(event), 20000, KFI_TIME_MS),
	    -KFI_EAVAIL);
	row("eq_readerr", NAME(eq_readerr)(w->eq, &why, 0), sizeof(why));
	row("the error is a refusal", why.err, ECONNREFUSED);
	row("the error's object", why.fid == &client->fid, 1);
	row("the error's data", why.err_data_size == 8 && !memcmp(why.err_data, "go away", 8), 1);
	row("connect after a rejection", NAME(connect)(client, &w->name, NULL, 0), -KFI_EOPBADSTATE);
	row("send after a rejection", NAME(send)(client, data, 8, NULL, 0, NULL), -KFI_EOPBADSTATE);
	NAME(freeinfo)(request);
	request = NULL;
	NAME(close)(&client->fid);

	/* Dropped by its handle. */
	client = dial(w, NULL, 0);
	request = client ? next_request(w, &event) : NULL;
	row("a second request comes", request ? 0 : -ETIMEDOUT, 0);
	if (!request)
		goto out;
	row("close of a handle", NAME(close)(request->handle), 0);
	row("the peer is refused", NAME(eq_sread)(w->eq, &kind, &event, sizeof(event), 20000, 0), -KFI_EAVAIL);
	memset(&why, 0, sizeof(why));
	NAME(eq_readerr)(w->eq, &why, 0);
	NAME(freeinfo)(request);
	request = NULL;
	NAME(close)(&client->fid);

	/* Accepted. */
	client = dial(w, NULL, 0);
	request = client ? next_request(w, &event) : NULL;
	row("a third request comes", request ? 0 : -ETIMEDOUT, 0);
	if (!request)
		goto out;
	row("endpoint for a request", NAME(endpoint)(w->domain, request, &server, NULL), 0);
	if (!server)
		goto out;
	row("accept without queues", NAME(accept)(server, NULL, 0), -KFI_ENOEQ);
	bind_all(w, server);
	row("connect of the accepting side", NAME(connect)(server, &w->name, NULL, 0), -EINVAL);
	row("accept with too much data", NAME(accept)(server, data, 257), -EINVAL);
	row("accept", NAME(accept)(server, "welcome", 8), 0);
	row("accept twice", NAME(accept)(server, NULL, 0), -EINVAL);
	row("reject of an accepted request", NAME(reject)(w->pep, request->handle, NULL, 0), -EINVAL);
	row("endpoint for an accepted request", NAME(endpoint)(w->domain, request, &third, NULL), -EINVAL);
	row("both sides are connected", both_events(w, KFI_CONNECTED, client, server), 0);
	row("connect when connected", NAME(connect)(client, &w->name, NULL, 0), -EINVAL);
	row("shutdown with flags", NAME(shutdown)(client, 1), -EINVAL);
	row("shutdown", NAME(shutdown)(client, 0), 0);
	row("shutdown twice", NAME(shutdown)(client, 0), 0);
	row("both sides are shut down", both_events(w, KFI_SHUTDOWN, client, server), 0);
	row("send after the end", NAME(send)(client, data, 8, NULL, 0, NULL), -ESHUTDOWN);
	row("recv after the end", NAME(recv)(server, data, 8, NULL, 0, NULL), -ESHUTDOWN);
out:
	if (third)
		NAME(close)(&third->fid);
	if (server)
		NAME(close)(&server->fid);
	if (client)
		NAME(close)(&client->fid);
	NAME(freeinfo)(request);
}

static void CAT(LAYER, _memory)(struct world *w)
{
	static char region[64];
	struct kfid_mr *mr = NULL, *second = NULL;

	row("mr_reg of nothing with a length",
	    NAME(mr_reg)(w->domain, NULL, 8, KFI_REMOTE_READ, 0, 7, 0, &mr, NULL), -EINVAL);
	row("mr_reg with an offset",
	    NAME(mr_reg)(w->domain, region, 64, KFI_REMOTE_READ, 4, 7, 0, &mr, NULL), -EINVAL);
	row("mr_reg with unknown flags",
	    NAME(mr_reg)(w->domain, region, 64, KFI_REMOTE_READ, 0, 7, KFI_MORE, &mr, NULL), -KFI_EBADFLAGS);
	row("mr_reg with unknown access",
	    NAME(mr_reg)(w->domain, region, 64, KFI_MORE, 0, 7, 0, &mr, NULL), -KFI_EBADFLAGS);
	row("mr_reg", NAME(mr_reg)(w->domain, region, 64, KFI_REMOTE_READ, 0, 7, 0, &mr, NULL), 0);
	if (!mr)
		return;
	if (!(w->info->domain_attr->mr_mode & KFI_MR_PROV_KEY)) {
		row("mr_key", NAME(mr_key)(mr), 7);
		row("mr_reg of a key in use",
		    NAME(mr_reg)(w->domain, region, 64, KFI_REMOTE_READ, 0, 7, 0, &second, NULL), -KFI_ENOKEY);
	}
	row("mr_regattr without attributes", NAME(mr_regattr)(w->domain, NULL, 0, &second), -EINVAL);
	row("mr_regattr of a scatterlist",
	    NAME(mr_regattr)(w->domain, &(struct kfi_mr_attr) { .type = 3, .iov_count = 1 }, 0, &second), -ENOSYS);
	row("close of a region", NAME(close)(&mr->fid), 0);
	row("close of a region twice", NAME(close)(&mr->fid), -EINVAL);
	if (second)
		NAME(close)(&second->fid);
}

static void CAT(LAYER, _wrong_use)(struct world *w)
{
	layer = __stringify(LAYER);
	CAT(LAYER, _infos)(w);
	CAT(LAYER, _queues)(w);
	CAT(LAYER, _listeners)(w);
	CAT(LAYER, _endpoints)(w);
	CAT(LAYER, _connections)(w);
	CAT(LAYER, _memory)(w);
}
