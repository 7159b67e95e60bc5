// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * kfi_selftest - the C faces, from a client's side
 *
 * Runs while it is loaded, over the loopback interface, which has to be up, and prints a line for
 * each thing it looks at: "ok NAME" or "not ok NAME: wanted A, got B". insmod fails if one line is
 * not ok.
 *
 * Wrong uses are in wrong_use.h, and are tried by both layers of names. Here are the objects
 * themselves: that no table has a gap, that what is not supported says so, and that each operation
 * does its work.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bvec.h>
#include <linux/delay.h>
#include <linux/in.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/socket.h>
#include <linux/string.h>
#include <linux/stringify.h>

#include "../include/fi/fabric.h"
#include "../include/fi/fi_cm.h"
#include "../include/fi/fi_rma.h"
#include "../include/kfi/kfi_atomic.h"
#include "../include/kfi/kfi_enosys.h"
#include "../include/kfi/kfi_prov.h"
#include "../include/kfi/kfi_tagged.h"

static unsigned int passed, failed;
static const char *layer = "kfi";

static void row(const char *name, long long got, long long wanted)
{
	if (got == wanted) {
		passed++;
		pr_info("ok %s: %s\n", layer, name);
	} else {
		failed++;
		pr_err("not ok %s: %s: wanted %lld, got %lld\n", layer, name, wanted, got);
	}
}

/* What most tests need: a listener and queues, in one fabric. */
struct world {
	struct kfi_info		*info;
	struct kfid_fabric	*fabric;
	struct kfid_eq		*eq;
	struct kfid_pep		*pep;
	struct kfid_domain	*domain;
	struct kfid_cq		*cq;
	struct sockaddr_in	name;		/* where the listener is */
};

struct cm_event {
	union {
		struct kfi_eq_cm_entry	entry;
		char			head[sizeof(struct kfi_eq_cm_entry)];
	};
	char			data[256];
};

static int world_open(struct world *w)
{
	struct kfi_cq_attr attr = { .format = KFI_CQ_FORMAT_DATA, .wait_obj = KFI_WAIT_UNSPEC };
	struct kfi_info *hints = kfi_allocinfo();
	size_t len = sizeof(w->name);
	int ret;

	if (!hints)
		return -ENOMEM;
	hints->caps = KFI_MSG | KFI_RMA;
	hints->ep_attr->type = KFI_EP_MSG;
	hints->fabric_attr->prov_name = kstrdup("tcp", GFP_KERNEL);
	ret = kfi_getinfo(KFI_VERSION(1, 7), "127.0.0.1", NULL, KFI_SOURCE, hints, &w->info);
	kfi_freeinfo(hints);
	return ret ?: kfi_fabric(w->info->fabric_attr, &w->fabric, NULL) ?:
		      kfi_eq_open(w->fabric, NULL, &w->eq, NULL, NULL) ?:
		      kfi_passive_ep(w->fabric, w->info, &w->pep, NULL) ?:
		      kfi_pep_bind(w->pep, &w->eq->fid, 0) ?:
		      kfi_listen(w->pep) ?:
		      kfi_getname(&w->pep->fid, &w->name, &len) ?:
		      kfi_domain(w->fabric, w->info, &w->domain, NULL) ?:
		      kfi_cq_open(w->domain, &attr, &w->cq, NULL, NULL);
}

static int world_close(struct world *w)
{
	int ret = 0;

	if (w->cq)
		ret = kfi_close(&w->cq->fid);
	if (w->domain)
		ret = ret ?: kfi_close(&w->domain->fid);
	if (w->pep)
		ret = ret ?: kfi_close(&w->pep->fid);
	if (w->eq)
		ret = ret ?: kfi_close(&w->eq->fid);
	if (w->fabric)
		ret = ret ?: kfi_close(&w->fabric->fid);
	kfi_freeinfo(w->info);
	return ret;
}

static int bind_all(struct world *w, struct kfid_ep *ep)
{
	return kfi_ep_bind(ep, &w->eq->fid, 0) ?:
	       kfi_ep_bind(ep, &w->cq->fid, KFI_TRANSMIT | KFI_RECV) ?:
	       kfi_enable(ep);
}

/* Begins a connection to the world's listener. */
static struct kfid_ep *dial(struct world *w, const void *data, size_t len)
{
	struct kfid_ep *ep = NULL;
	int ret;

	ret = kfi_endpoint(w->domain, w->info, &ep, NULL);
	if (ret)
		return NULL;
	ret = bind_all(w, ep) ?: kfi_connect(ep, &w->name, data, len);
	if (ret) {
		pr_err("connect: %d\n", ret);
		kfi_close(&ep->fid);
		return NULL;
	}
	return ep;
}

static struct kfi_info *next_request(struct world *w, struct cm_event *event)
{
	ssize_t ret;
	u32 kind;

	memset(event, 0, sizeof(*event));
	ret = kfi_eq_sread(w->eq, &kind, event, sizeof(*event), 20000, 0);
	if (ret < 0 || kind != KFI_CONNREQ)
		return NULL;
	return event->entry.info;
}

/* Waits for an event of each of two endpoints. */
static int both_events(struct world *w, u32 wanted, struct kfid_ep *a, struct kfid_ep *b)
{
	bool of_a = false, of_b = false;
	struct cm_event event;
	ssize_t ret;
	u32 kind;

	while (!of_a || !of_b) {
		ret = kfi_eq_sread(w->eq, &kind, &event, sizeof(event), 20000, 0);
		if (ret < 0)
			return ret;
		if (kind != wanted)
			return -KFI_EOTHER;
		of_a |= event.entry.fid == &a->fid;
		of_b |= event.entry.fid == &b->fid;
	}
	return 0;
}

/* A connection to ourselves. */
static int pair(struct world *w, struct kfid_ep **client, struct kfid_ep **server)
{
	struct kfi_info *request;
	struct cm_event event;
	int ret;

	*server = NULL;
	*client = dial(w, NULL, 0);
	if (!*client)
		return -EIO;
	request = next_request(w, &event);
	if (!request)
		return -ETIMEDOUT;
	ret = kfi_endpoint(w->domain, request, server, NULL) ?:
	      bind_all(w, *server) ?:
	      kfi_accept(*server, NULL, 0) ?:
	      both_events(w, KFI_CONNECTED, *client, *server);
	kfi_freeinfo(request);
	return ret;
}

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)

#define LAYER kfi
#define NAME(call) CAT(kfi_, call)
#define EQ_OPEN(fabric, attr, eq) kfi_eq_open(fabric, attr, eq, NULL, NULL)
#define CQ_OPEN(domain, attr, cq) kfi_cq_open(domain, attr, cq, NULL, NULL)
#include "wrong_use.h"
#undef LAYER
#undef NAME
#undef EQ_OPEN
#undef CQ_OPEN

#define LAYER fi
#define NAME(call) CAT(fi_, call)
#define EQ_OPEN(fabric, attr, eq) fi_eq_open(fabric, attr, eq, NULL)
#define CQ_OPEN(domain, attr, cq) fi_cq_open(domain, attr, cq, NULL)
#include "wrong_use.h"

/* A table begins with its size; the rest of it is pointers to functions. */
static void table(const char *name, const void *ops, size_t size)
{
	const size_t *entries = ops;
	size_t i;

	row(name, ops ? entries[0] : 0, size);
	for (i = 1; ops && i < size / sizeof(*entries); i++)
		if (!entries[i])
			row(name, 0, i);
}

#define TABLE(ops) table("table " #ops, ops, sizeof(*(ops)))

static void no_tagged(struct kfid_ep *ep)
{
	row("trecv", kfi_trecv(ep, NULL, 0, NULL, 0, 0, 0, NULL), -ENOSYS);
	row("trecvv", kfi_trecvv(ep, NULL, NULL, 0, 0, 0, 0, NULL), -ENOSYS);
	row("trecvbv", kfi_trecvbv(ep, NULL, NULL, 0, 0, 0, 0, NULL), -ENOSYS);
	row("trecvsgl", kfi_trecvsgl(ep, NULL, NULL, 0, 0, 0, 0, NULL), -ENOSYS);
	row("trecvmsg", kfi_trecvmsg(ep, NULL, 0), -ENOSYS);
	row("tsend", kfi_tsend(ep, NULL, 0, NULL, 0, 0, NULL), -ENOSYS);
	row("tsendv", kfi_tsendv(ep, NULL, NULL, 0, 0, 0, NULL), -ENOSYS);
	row("tsendbv", kfi_tsendbv(ep, NULL, NULL, 0, 0, 0, NULL), -ENOSYS);
	row("tsendsgl", kfi_tsendsgl(ep, NULL, NULL, 0, 0, 0, NULL), -ENOSYS);
	row("tsendmsg", kfi_tsendmsg(ep, NULL, 0), -ENOSYS);
	row("tinject", kfi_tinject(ep, NULL, 0, 0, 0), -ENOSYS);
	row("tsenddata", kfi_tsenddata(ep, NULL, 0, NULL, 0, 0, 0, NULL), -ENOSYS);
	row("tinjectdata", kfi_tinjectdata(ep, NULL, 0, 0, 0, 0), -ENOSYS);
}

static void no_atomics(struct kfid_ep *ep)
{
	const enum kfi_datatype type = KFI_UINT64;
	size_t count;

	row("atomic", kfi_atomic(ep, NULL, 0, NULL, 0, 0, 0, type, KFI_SUM, NULL), -ENOSYS);
	row("atomicv", kfi_atomicv(ep, NULL, NULL, 0, 0, 0, 0, type, KFI_SUM, NULL), -ENOSYS);
	row("atomicmsg", kfi_atomicmsg(ep, NULL, 0), -ENOSYS);
	row("inject_atomic", kfi_inject_atomic(ep, NULL, 0, 0, 0, 0, type, KFI_SUM), -ENOSYS);
	row("fetch_atomic", kfi_fetch_atomic(ep, NULL, 0, NULL, NULL, NULL, 0, 0, 0, type, KFI_SUM, NULL),
	    -ENOSYS);
	row("fetch_atomicv", kfi_fetch_atomicv(ep, NULL, NULL, 0, NULL, NULL, 0, 0, 0, 0, type, KFI_SUM, NULL),
	    -ENOSYS);
	row("fetch_atomicmsg", kfi_fetch_atomicmsg(ep, NULL, NULL, NULL, 0, 0), -ENOSYS);
	row("compare_atomic", kfi_compare_atomic(ep, NULL, 0, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, type,
						 KFI_CSWAP, NULL), -ENOSYS);
	row("compare_atomicv", kfi_compare_atomicv(ep, NULL, NULL, 0, NULL, NULL, 0, NULL, NULL, 0, 0, 0, 0, type,
						   KFI_CSWAP, NULL), -ENOSYS);
	row("compare_atomicmsg", kfi_compare_atomicmsg(ep, NULL, NULL, NULL, 0, NULL, NULL, 0, 0), -ENOSYS);
	row("atomicvalid", kfi_atomicvalid(ep, type, KFI_SUM, &count), -ENOSYS);
	row("fetch_atomicvalid", kfi_fetch_atomicvalid(ep, type, KFI_SUM, &count), -ENOSYS);
	row("compare_atomicvalid", kfi_compare_atomicvalid(ep, type, KFI_CSWAP, &count), -ENOSYS);
}

static void no_others(struct world *w, struct kfid_ep *ep, struct kfid_mr *mr)
{
	struct kfi_eq_cm_entry entry;
	struct kfid_domain *domain = w->domain;
	u64 key = 0;
	void *ops;

	row("scalable_ep", kfi_scalable_ep(domain, w->info, NULL, NULL), -ENOSYS);
	row("tx_context", kfi_tx_context(ep, 0, NULL, NULL, NULL), -ENOSYS);
	row("rx_context", kfi_rx_context(ep, 0, NULL, NULL, NULL), -ENOSYS);
	row("stx_context", kfi_stx_context(domain, NULL, NULL, NULL), -ENOSYS);
	row("srx_context without a place", kfi_srx_context(domain, NULL, NULL, NULL), -EINVAL);
	row("poll_open", kfi_poll_open(domain, NULL, NULL), -ENOSYS);
	row("av_open", kfi_av_open(domain, NULL, NULL, NULL), -ENOSYS);
	row("query_atomic", kfi_query_atomic(domain, KFI_UINT8, KFI_SUM, NULL, 0), -ENOSYS);
	row("join", kfi_join(ep, NULL, 0, NULL, NULL), -ENOSYS);
	row("ep_alias", kfi_ep_alias(ep, NULL, 0), -ENOSYS);
	row("domain_bind", kfi_domain_bind(domain, &w->eq->fid, KFI_REG_MR), -ENOSYS);
	row("open_ops", kfi_open_ops(&domain->fid, "cxi_dom_ops_v1", 0, &ops, NULL), -ENOSYS);
	row("mr_regsgl", kfi_mr_regsgl(domain, NULL, 0, 0, 0, 0, 0, NULL, NULL), -ENOSYS);
	row("mr_map_raw", kfi_mr_map_raw(domain, 0, NULL, 0, &key, 0), -ENOSYS);
	row("mr_unmap_key", kfi_mr_unmap_key(domain, 0), -ENOSYS);
	row("mr_raw_attr", kfi_mr_raw_attr(mr, &key, NULL, NULL, 0), -ENOSYS);
	row("mr_bind", kfi_mr_bind(mr, &ep->fid, 0), -ENOSYS);
	row("mr_refresh", kfi_mr_refresh(mr, NULL, 0, 0), -ENOSYS);
	row("mr_enable", kfi_mr_enable(mr), -ENOSYS);
	row("recvsgl", kfi_recvsgl(ep, NULL, NULL, 0, 0, NULL), -ENOSYS);
	row("sendsgl", kfi_sendsgl(ep, NULL, NULL, 0, 0, NULL), -ENOSYS);
	row("readsgl", kfi_readsgl(ep, NULL, NULL, 0, 0, 0, 0, NULL), -ENOSYS);
	row("writesgl", kfi_writesgl(ep, NULL, NULL, 0, 0, 0, 0, NULL), -ENOSYS);
	row("setname of an endpoint", kfi_setname(&ep->fid, &w->name, sizeof(w->name)), -ENOSYS);
	row("listen of an endpoint's table", ep->cm->listen(w->pep), -ENOSYS);
	row("reject of an endpoint's table", ep->cm->reject(w->pep, NULL, NULL, 0), -ENOSYS);
	row("connect of a passive endpoint's table", w->pep->cm->connect(ep, NULL, NULL, 0), -ENOSYS);
	row("accept of a passive endpoint's table", w->pep->cm->accept(ep, NULL, 0), -ENOSYS);
	row("shutdown of a passive endpoint's table", w->pep->cm->shutdown(ep, 0), -ENOSYS);
	row("getpeer of a passive endpoint's table", w->pep->cm->getpeer(ep, &entry, NULL), -ENOSYS);
	row("cancel of a passive endpoint", kfi_cancel(&w->pep->fid, NULL), -ENOSYS);
	row("bind of a fabric", w->fabric->fid.ops->bind(&w->fabric->fid, &w->eq->fid, 0), -ENOSYS);
	row("bind of an event queue", w->eq->fid.ops->bind(&w->eq->fid, &w->cq->fid, 0), -ENOSYS);
	row("bind of a completion queue", w->cq->fid.ops->bind(&w->cq->fid, &w->eq->fid, 0), -ENOSYS);
	row("control of a fabric", kfi_control(&w->fabric->fid, KFI_GETWAIT, NULL), -ENOSYS);
	row("control of an event queue", kfi_control(&w->eq->fid, KFI_GETWAIT, NULL), -ENOSYS);
	row("control of a completion queue", kfi_control(&w->cq->fid, KFI_GETWAIT, NULL), -ENOSYS);
	row("control of an endpoint", kfi_control(&ep->fid, KFI_QUEUE_WORK, NULL), -ENOSYS);
	row("getparams", kfi_getparams(NULL, NULL), -ENOSYS);
}

static void tables(struct world *w)
{
	static char region[64];
	struct kfid_wait *set = NULL;
	struct kfid_cntr *cntr = NULL;
	struct kfid_mr *mr = NULL;
	struct kfid_ep *ep = NULL;
	int ret;

	ret = kfi_endpoint(w->domain, w->info, &ep, NULL) ?:
	      kfi_cntr_open(w->domain, NULL, &cntr, NULL) ?:
	      kfi_wait_open(w->fabric, NULL, &set) ?:
	      kfi_mr_reg(w->domain, region, sizeof(region), KFI_REMOTE_WRITE, 0, 99, 0, &mr, NULL);
	row("one of each object", ret, 0);
	if (ret)
		goto out;
	TABLE(w->fabric->fid.ops);
	TABLE(w->fabric->ops);
	TABLE(w->domain->fid.ops);
	TABLE(w->domain->ops);
	TABLE(w->domain->mr);
	TABLE(w->eq->fid.ops);
	TABLE(w->eq->ops);
	TABLE(w->cq->fid.ops);
	TABLE(w->cq->ops);
	TABLE(w->pep->fid.ops);
	TABLE(w->pep->ops);
	TABLE(w->pep->cm);
	TABLE(ep->fid.ops);
	TABLE(ep->ops);
	TABLE(ep->cm);
	TABLE(ep->msg);
	TABLE(ep->rma);
	TABLE(ep->tagged);
	TABLE(ep->atomic);
	TABLE(cntr->fid.ops);
	TABLE(cntr->ops);
	TABLE(set->fid.ops);
	TABLE(set->ops);
	TABLE(mr->fid.ops);

	no_tagged(ep);
	no_atomics(ep);
	no_others(w, ep, mr);

	row("cntr_add", kfi_cntr_add(cntr, 3), 0);
	row("cntr_read", kfi_cntr_read(cntr), 3);
	row("cntr_set", kfi_cntr_set(cntr, 5), 0);
	row("cntr_wait", kfi_cntr_wait(cntr, 5, 0), 0);
	row("cntr_wait in vain", kfi_cntr_wait(cntr, 6, 10), -ETIMEDOUT);
	row("cntr_adderr", kfi_cntr_adderr(cntr, 2), 0);
	row("cntr_readerr", kfi_cntr_readerr(cntr), 2);
	row("cntr_seterr", kfi_cntr_seterr(cntr, 0), 0);
	row("wait of an empty set", kfi_wait(set, 10) < 0, 1);
out:
	if (mr)
		row("close of a region", kfi_close(&mr->fid), 0);
	if (set)
		row("close of a wait set", kfi_close(&set->fid), 0);
	if (cntr)
		row("close of a counter", kfi_close(&cntr->fid), 0);
	if (ep)
		row("close of an endpoint", kfi_close(&ep->fid), 0);
	if (set)
		row("close of a wait set twice", kfi_close(&set->fid), -EINVAL);
	if (cntr)
		row("close of a counter twice", kfi_close(&cntr->fid), -EINVAL);
}

/* Waits for two completions, of which one may be a receive, whose entry is stored. */
static int complete_both(struct world *w, struct kfi_cq_data_entry *received, unsigned int count)
{
	struct kfi_cq_err_entry why = {};
	struct kfi_cq_data_entry done;
	ssize_t ret;

	while (count--) {
		ret = kfi_cq_sread(w->cq, &done, 1, NULL, 20000);
		if (ret == -KFI_EAVAIL) {
			kfi_cq_readerr(w->cq, &why, 0);
			return -why.err;
		}
		if (ret < 0)
			return ret;
		if (done.flags & (KFI_RECV | KFI_REMOTE_WRITE))
			*received = done;
	}
	return 0;
}

/* Each way to send, into each way to receive. */
static void messages(struct world *w)
{
	struct kfi_cq_data_entry got = {};
	struct kfid_ep *client, *server;
	struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	struct bio_vec pages[1] = { { .bv_page = page, .bv_len = 64, .bv_offset = 128 } };
	char *out = kmalloc(256, GFP_KERNEL), *in = kzalloc(256, GFP_KERNEL);
	struct kvec out_pieces[2], in_pieces[2];
	struct kfi_msg msg = {};
	char *there;
	int ret;

	if (!page || !out || !in)
		goto free;
	memset(out, 0x5a, 256);
	out_pieces[0] = (struct kvec) { .iov_base = out, .iov_len = 100 };
	out_pieces[1] = (struct kvec) { .iov_base = out + 100, .iov_len = 28 };
	in_pieces[0] = (struct kvec) { .iov_base = in, .iov_len = 60 };
	in_pieces[1] = (struct kvec) { .iov_base = in + 60, .iov_len = 196 };
	there = page_address(page) + 128;
	ret = pair(w, &client, &server);
	row("a connection", ret, 0);
	if (ret)
		goto out;

	ret = kfi_recv(server, in, 256, NULL, 0, in) ?:
	      kfi_send(client, out, 256, NULL, 0, out) ?:
	      complete_both(w, &got, 2);
	row("send and recv", ret ?: memcmp(in, out, 256), 0);
	row("length of a receive", got.len, 256);
	row("context of a receive", got.op_context == in, 1);
	row("flags of a receive", got.flags, KFI_MSG | KFI_RECV);

	memset(in, 0, 256);
	ret = kfi_recvv(server, in_pieces, NULL, 2, 0, NULL) ?:
	      kfi_sendv(client, out_pieces, NULL, 2, 0, NULL) ?:
	      complete_both(w, &got, 2);
	row("sendv and recvv", ret ?: memcmp(in, out, 128), 0);

	ret = kfi_recvbv(server, pages, NULL, 1, 0, NULL) ?:
	      kfi_inject(client, out, 64, 0) ?:
	      complete_both(w, &got, 1);
	row("inject and recvbv", ret ?: memcmp(there, out, 64), 0);

	memset(in, 0, 256);
	msg = (struct kfi_msg) { .type = KFI_KVEC, .msg_iov = in_pieces, .iov_count = 2 };
	ret = kfi_recvmsg(server, &msg, KFI_COMPLETION) ?:
	      kfi_sendbv(client, pages, NULL, 1, 0, NULL) ?:
	      complete_both(w, &got, 2);
	row("sendbv and recvmsg", ret ?: memcmp(in, out, 64), 0);

	memset(there, 0, 64);
	msg = (struct kfi_msg) { .type = KFI_BVEC, .msg_biov = pages, .iov_count = 1 };
	ret = kfi_recvmsg(server, &msg, KFI_COMPLETION);
	msg = (struct kfi_msg) { .type = KFI_KVEC, .msg_iov = out_pieces, .iov_count = 1, .data = 77 };
	msg.iov_count = 0;
	ret = ret ?: kfi_sendmsg(client, &msg, KFI_COMPLETION | KFI_REMOTE_CQ_DATA) ?:
	      complete_both(w, &got, 2);
	row("an empty sendmsg with data", ret, 0);
	row("its data", (got.flags & KFI_REMOTE_CQ_DATA) ? got.data : 0, 77);

	ret = kfi_recv(server, in, 256, NULL, 0, NULL) ?:
	      kfi_senddata(client, out, 16, NULL, 78, 0, NULL) ?:
	      complete_both(w, &got, 2);
	row("senddata", ret ? ret : got.data, 78);

	ret = kfi_recv(server, in, 256, NULL, 0, NULL) ?:
	      kfi_injectdata(client, out, 16, 79, 0) ?:
	      complete_both(w, &got, 1);
	row("injectdata", ret ? ret : got.data, 79);

	ret = kfi_recv(server, in, 8, NULL, 0, NULL) ?: kfi_inject(client, out, 16, 0) ?:
	      complete_both(w, &got, 1);
	row("a message longer than its receive", ret, -KFI_ETRUNC);

	ret = kfi_recv(server, in, 8, NULL, 0, in) ?: (int)kfi_cancel(&server->fid, in) ?:
	      complete_both(w, &got, 1);
	row("a receive that is cancelled", ret, -ECANCELED);
out:
	if (client)
		row("close of a connected endpoint", kfi_close(&client->fid), 0);
	if (server) {
		struct cm_event event;
		ssize_t size;
		u32 kind = 0;

		size = kfi_eq_sread(w->eq, &kind, &event, sizeof(event), 20000, 0);
		row("its peer is told", size < 0 ? size : kind, KFI_SHUTDOWN);
		row("close of the peer", kfi_close(&server->fid), 0);
	}
free:
	kfree(in);
	kfree(out);
	if (page)
		__free_page(page);
}

/* A connection whose accepting side takes its receives from a context. */
static int pair_shared(struct world *w, struct kfid_ep *srx, struct kfid_cq *received,
		       struct kfid_ep **client, struct kfid_ep **server)
{
	struct kfi_info *request;
	struct cm_event event;
	int ret;

	*server = NULL;
	*client = dial(w, NULL, 0);
	if (!*client)
		return -EIO;
	request = next_request(w, &event);
	if (!request)
		return -ETIMEDOUT;
	ret = kfi_endpoint(w->domain, request, server, NULL) ?:
	      kfi_ep_bind(*server, &w->eq->fid, 0) ?:
	      kfi_ep_bind(*server, &w->cq->fid, KFI_TRANSMIT) ?:
	      kfi_ep_bind(*server, &received->fid, KFI_RECV) ?:
	      kfi_ep_bind(*server, &srx->fid, 0) ?:
	      kfi_enable(*server) ?:
	      kfi_accept(*server, NULL, 0) ?:
	      both_events(w, KFI_CONNECTED, *client, *server);
	kfi_freeinfo(request);
	return ret;
}

/* One queue of receives for two connections, and waits for more than one completion. */
static void shared_receives(struct world *w)
{
	struct kfi_cq_attr attr = {
		.format = KFI_CQ_FORMAT_DATA, .wait_obj = KFI_WAIT_UNSPEC, .wait_cond = KFI_CQ_COND_THRESHOLD,
	};
	struct kfi_rx_attr wrong = { .size = 1 << 20 }, small = { .size = 3 };
	struct kfid_ep *srx = NULL, *clients[2] = {}, *servers[2] = {};
	struct kfi_cq_data_entry done[4] = {};
	struct kfi_cq_err_entry why = {};
	struct kfid_cq *received = NULL;
	char *in[4], *memory = kzalloc(256, GFP_KERNEL), *out = memory + 192;
	struct kvec piece;
	struct kfi_msg msg = { .type = KFI_KVEC, .msg_iov = &piece, .iov_count = 1 };
	size_t min = 7, len = sizeof(min);
	int ret, i;

	if (!memory)
		return;
	strcpy(out, "to whom it may concern");
	for (i = 0; i < 4; i++)
		in[i] = memory + 32 * i;
	row("srx_context that is too large", kfi_srx_context(w->domain, &wrong, &srx, NULL), -EINVAL);
	ret = kfi_cq_open(w->domain, &attr, &received, NULL, NULL) ?:
	      kfi_srx_context(w->domain, &small, &srx, NULL);
	row("srx_context", ret, 0);
	if (ret)
		goto out;
	row("bind of a context without a direction", kfi_ep_bind(srx, &w->cq->fid, 0), -EINVAL);
	row("bind of a context to a queue of events", kfi_ep_bind(srx, &w->eq->fid, 0), -EINVAL);
	row("bind of a context", kfi_ep_bind(srx, &w->cq->fid, KFI_RECV), 0);
	row("enable of a context", kfi_enable(srx), 0);
	row("getopt of a context", kfi_setopt(&srx->fid, KFI_OPT_ENDPOINT, KFI_OPT_MIN_MULTI_RECV, &min, len) ?:
	    kfi_getopt(&srx->fid, KFI_OPT_ENDPOINT, KFI_OPT_MIN_MULTI_RECV, &min, &len), 0);
	row("send of a context", kfi_send(srx, out, 1, NULL, 0, NULL), -ENOSYS);
	for (i = 0; i < 2; i++) {
		ret = pair_shared(w, srx, received, &clients[i], &servers[i]);
		row("a connection with a context", ret, 0);
		if (ret)
			goto out;
	}
	row("recv of an endpoint with a context", kfi_recv(servers[0], in[0], 32, NULL, 0, NULL), -ENOSYS);
	row("close of a context in use", kfi_close(&srx->fid), -EBUSY);

	/* The oldest receive gets the message that comes first, whose ever it is. */
	piece = (struct kvec) { .iov_base = in[1], .iov_len = 32 };
	ret = kfi_recv(srx, in[0], 32, NULL, 0, in[0]) ?: kfi_recvv(srx, &piece, NULL, 1, 0, in[1]);
	piece.iov_base = in[2];
	msg.context = in[2];
	ret = ret ?: kfi_recvmsg(srx, &msg, 0);
	row("receives of a context", ret, 0);
	row("a full context", kfi_recv(srx, in[3], 32, NULL, 0, in[3]), -EAGAIN);
	ret = kfi_send(clients[1], out, 23, NULL, 0, NULL) ?: complete_both(w, done, 1);
	row("a send to a context", ret, 0);
	/* One is not enough; but it is what there is when the time is over. */
	row("a wait for two completions", kfi_cq_sread(received, done, 4, (void *)2, 100), 1);
	row("the oldest receive", done[0].op_context == in[0] && !strcmp(in[0], out), 1);
	ret = kfi_send(clients[0], out, 23, NULL, 0, NULL) ?: kfi_send(clients[1], out, 23, NULL, 0, NULL) ?:
	      complete_both(w, done, 2);
	row("sends from both", ret, 0);
	row("two completions at once", kfi_cq_sread(received, done, 4, (void *)2, 20000), 2);
	row("the next receives", done[0].op_context == in[1] && done[1].op_context == in[2], 1);

	/* A message that is there first. */
	ret = kfi_send(clients[0], out, 23, NULL, 0, NULL) ?: complete_both(w, done, 1);
	row("a send without a receive", ret, 0);
	row("no completion of it", kfi_cq_read(received, done, 1), -EAGAIN);
	ret = kfi_recv(srx, in[3], 32, NULL, 0, in[3]);
	row("a receive for it", ret ?: kfi_cq_sread(received, done, 1, NULL, 20000), 1);
	row("the message that was there first", done[0].op_context == in[3] && !strcmp(in[3], out), 1);

	ret = kfi_recv(srx, in[0], 32, NULL, 0, in[0]);
	row("cancel in a context", ret ?: kfi_cancel(&srx->fid, in[0]), 0);
	row("cancel of nothing in a context", kfi_cancel(&srx->fid, in[0]), -ENOENT);
	row("a cancelled receive", kfi_cq_read(w->cq, done, 1), -KFI_EAVAIL);
	row("its error", kfi_cq_readerr(w->cq, &why, 0) == 1 ? why.err : -1, ECANCELED);
	/* This one is left. */
	row("a receive that is left", kfi_recv(srx, in[1], 32, NULL, 0, in[1]), 0);
out:
	for (i = 0; i < 2; i++) {
		if (clients[i])
			row("close of a client", kfi_close(&clients[i]->fid), 0);
		if (servers[i])
			row("close of a server", kfi_close(&servers[i]->fid), 0);
	}
	if (srx) {
		row("close of a context", kfi_close(&srx->fid), 0);
		row("what was left", kfi_cq_readerr(w->cq, &why, 0) == 1 && why.op_context == in[1], 1);
		row("close of a context twice", kfi_close(&srx->fid), -EINVAL);
		row("recv of a closed context", kfi_recv(srx, in[0], 1, NULL, 0, NULL), -ENOSYS);
	}
	if (received)
		row("close of the context's queue", kfi_close(&received->fid), 0);
	kfree(memory);
}

static void remote_memory(struct world *w)
{
	char *region = kzalloc(256, GFP_KERNEL), *local = kmalloc(256, GFP_KERNEL);
	struct kvec pieces[2] = { { .iov_base = local, .iov_len = 32 },
				  { .iov_base = local + 32, .iov_len = 32 } };
	struct kfid_ep *client = NULL, *server = NULL;
	struct kfi_cq_data_entry got = {};
	struct kfi_msg_rma msg = {};
	struct kfi_rma_iov remote;
	struct kfid_mr *mr = NULL;
	u64 addr, key;
	int ret;

	if (!region || !local)
		goto free;
	ret = pair(w, &client, &server) ?:
	      kfi_mr_reg(w->domain, region, 256, KFI_REMOTE_READ | KFI_REMOTE_WRITE, 0, 1234, 0, &mr, NULL);
	row("a connection and a region", ret, 0);
	if (ret)
		goto out;
	addr = mr->iova;
	key = kfi_mr_key(mr);

	memset(local, 0x11, 256);
	ret = kfi_write(client, local, 256, NULL, 0, addr, key, NULL) ?: complete_both(w, &got, 1);
	/* The read behind it returns when the write is in place. */
	memset(local, 0, 256);
	ret = ret ?: kfi_read(client, local, 256, NULL, 0, addr, key, NULL) ?: complete_both(w, &got, 1);
	row("write and read", ret ?: (region[255] == 0x11 && local[0] == 0x11), 1);

	memset(local, 0x22, 256);
	ret = kfi_writev(client, pieces, NULL, 2, 0, addr + 8, key, NULL) ?: complete_both(w, &got, 1);
	memset(local, 0, 256);
	ret = ret ?: kfi_readv(client, pieces, NULL, 2, 0, addr + 8, key, NULL) ?: complete_both(w, &got, 1);
	row("writev and readv", ret ?: (region[8] == 0x22 && region[71] == 0x22 && region[72] == 0x11 &&
					local[63] == 0x22), 1);

	remote = (struct kfi_rma_iov) { .addr = addr, .len = 64, .key = key };
	msg = (struct kfi_msg_rma) {
		.type = KFI_KVEC,
		.msg_iov = pieces,
		.iov_count = 2,
		.rma_iov = &remote,
		.rma_iov_count = 1,
	};
	memset(local, 0x33, 256);
	ret = kfi_writemsg(client, &msg, KFI_COMPLETION) ?: complete_both(w, &got, 1);
	memset(local, 0, 256);
	ret = ret ?: kfi_readmsg(client, &msg, KFI_COMPLETION) ?: complete_both(w, &got, 1);
	row("writemsg and readmsg", ret ?: (region[63] == 0x33 && local[63] == 0x33), 1);

	memset(local, 0x44, 256);
	ret = kfi_writedata(client, local, 16, NULL, 4711, 0, addr, key, NULL) ?: complete_both(w, &got, 2);
	row("writedata", ret ? ret : got.data, 4711);
	row("what writedata wrote", region[15], 0x44);
	row("writemsg without message", kfi_writemsg(client, NULL, 0), -EINVAL);
	row("write of nothing with a length", kfi_write(client, NULL, 8, NULL, 0, addr, key, NULL), -EINVAL);

	ret = kfi_inject_write(client, local, 8, 0, addr + 128, key) ?:
	      kfi_read(client, local, 8, NULL, 0, addr + 128, key, NULL) ?: complete_both(w, &got, 1);
	row("inject_write", ret ? ret : region[128], 0x44);
out:
	if (client)
		kfi_close(&client->fid);
	if (mr)
		row("close of a region", kfi_close(&mr->fid), 0);
	if (server) {
		struct cm_event event;
		u32 kind;

		kfi_eq_sread(w->eq, &kind, &event, sizeof(event), 20000, 0);
		kfi_close(&server->fid);
	}
free:
	kfree(region);
	kfree(local);
}

/* Handlers are armed: they fire once, and again when a read has found the queue empty. */

static atomic_t fired;

static void on_event(struct kfid_eq *eq, void *context)
{
	if (context == &fired)
		atomic_inc(&fired);
}

static bool fires(int count)
{
	int i;

	for (i = 0; i < 200 && atomic_read(&fired) < count; i++)
		msleep(10);
	/* And not more often than that. */
	msleep(50);
	return atomic_read(&fired) == count;
}

static void handlers(struct world *w)
{
	struct kfi_eq_attr attr = { .flags = KFI_WRITE, .wait_obj = KFI_WAIT_NONE };
	struct kfi_eq_entry entry = { .data = 5 }, got;
	struct kfid_eq *eq = NULL;
	u32 kind;

	atomic_set(&fired, 0);
	row("eq_open with a handler", kfi_eq_open(w->fabric, &attr, &eq, on_event, &fired), 0);
	if (!eq)
		return;
	row("eq_write", kfi_eq_write(eq, KFI_NOTIFY, &entry, sizeof(entry), 0), sizeof(entry));
	row("eq_write a second time", kfi_eq_write(eq, KFI_NOTIFY, &entry, sizeof(entry), 0), sizeof(entry));
	row("the handler fires once", fires(1), 1);
	row("eq_read with FI_PEEK", kfi_eq_read(eq, &kind, &got, sizeof(got), KFI_PEEK), sizeof(got));
	row("eq_read with little room", kfi_eq_read(eq, &kind, &got, 4, 0), -KFI_ETOOSMALL);
	row("eq_read", kfi_eq_read(eq, &kind, &got, sizeof(got), 0), sizeof(got));
	row("what was written", kind == KFI_NOTIFY ? got.data : 0, 5);
	row("the handler is not armed yet", fires(1), 1);
	row("eq_read of the second", kfi_eq_read(eq, &kind, &got, sizeof(got), 0), sizeof(got));
	row("eq_read of the empty queue", kfi_eq_read(eq, &kind, &got, sizeof(got), 0), -EAGAIN);
	row("eq_write then", kfi_eq_write(eq, KFI_NOTIFY, &entry, sizeof(entry), 0), sizeof(entry));
	row("the handler fires again", fires(2), 1);
	row("close of a queue with a handler", kfi_close(&eq->fid), 0);
}

static void wait_sets(struct world *w)
{
	struct kfi_eq_attr attr = { .flags = KFI_WRITE, .wait_obj = KFI_WAIT_SET };
	struct kfi_eq_entry entry = {};
	struct kfid_wait *set = NULL;
	struct kfid_eq *eq = NULL;
	u32 kind;

	row("wait_open", kfi_wait_open(w->fabric, &(struct kfi_wait_attr) { .wait_obj = KFI_WAIT_UNSPEC }, &set), 0);
	row("wait_open of a wait queue",
	    kfi_wait_open(w->fabric, &(struct kfi_wait_attr) { .wait_obj = KFI_WAIT_QUEUE }, &set), -ENOSYS);
	if (!set)
		return;
	attr.wait_set = set;
	row("eq_open in a set", kfi_eq_open(w->fabric, &attr, &eq, NULL, NULL), 0);
	if (eq) {
		row("wait of an empty queue", kfi_wait(set, 10) < 0, 1);
		kfi_eq_write(eq, KFI_NOTIFY, &entry, sizeof(entry), 0);
		row("wait of a queue with an event", kfi_wait(set, 1000), 0);
		row("eq_sread of a queue in a set", kfi_eq_sread(eq, &kind, &entry, sizeof(entry), 1000, 0),
		    sizeof(entry));
		row("close of a set with a queue", kfi_close(&set->fid), -EBUSY);
		row("close of the queue", kfi_close(&eq->fid), 0);
	}
	row("close of the set", kfi_close(&set->fid), 0);
}

/* A thread that waits for ever can be stopped. */

static int waits_for_ever(void *context)
{
	struct world *w = context;
	struct kfi_eq_cm_entry entry;
	u32 kind;
	ssize_t ret;

	do {
		ret = kfi_eq_sread(w->eq, &kind, &entry, sizeof(entry), -1, 0);
	} while (ret != -EAGAIN);
	while (!kthread_should_stop())
		msleep(1);
	return 7;
}

static void stops(struct world *w)
{
	struct task_struct *task = kthread_run(waits_for_ever, w, "kfi_selftest");
	u64 begin;

	row("a thread", PTR_ERR_OR_ZERO(task), 0);
	if (IS_ERR(task))
		return;
	msleep(100);
	row("close of a queue that is waited for", kfi_close(&w->eq->fid), -EBUSY);
	begin = ktime_get_ns();
	row("kthread_stop of a thread that waits for ever", kthread_stop(task), 7);
	row("kthread_stop is quick", ktime_get_ns() - begin < 5 * NSEC_PER_SEC, 1);
}

/* Providers of others. */

static struct kfi_ops dummy_fid_ops;
static struct kfi_ops_fabric dummy_ops = {
	.size = sizeof(struct kfi_ops_fabric),
	.domain = kfi_no_domain,
	.passive_ep = kfi_no_passive_ep,
	.eq_open = kfi_no_eq_open,
	.wait_open = kfi_no_wait_open,
};
static struct kfid_fabric dummy_fabric;
static int cleanups;

static int dummy_close(struct kfid *fid)
{
	return 0;
}

static int dummy_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
			 struct kfi_info *hints, struct kfi_info **info)
{
	*info = kfi_allocinfo();
	if (!*info)
		return -ENOMEM;
	(*info)->fabric_attr->prov_name = kstrdup("dummy", GFP_KERNEL);
	return 0;
}

static int dummy_fabric_open(struct kfi_fabric_attr *attr, struct kfid_fabric **fabric, void *context)
{
	dummy_fid_ops = (struct kfi_ops) {
		.size = sizeof(struct kfi_ops),
		.close = dummy_close,
		.bind = kfi_no_bind,
		.control = kfi_no_control,
		.ops_open = kfi_no_ops_open,
	};
	dummy_fabric.fid.fclass = KFI_CLASS_FABRIC;
	dummy_fabric.fid.context = context;
	dummy_fabric.fid.ops = &dummy_fid_ops;
	dummy_fabric.ops = &dummy_ops;
	kfi_init_id(&dummy_fabric.fid);
	*fabric = &dummy_fabric;
	return 0;
}

static void dummy_cleanup(void)
{
	cleanups++;
}

static struct kfi_provider dummy = {
	.version = KFI_VERSION(1, 0),
	.kfi_version = KFI_VERSION(KFI_MAJOR_VERSION, KFI_MINOR_VERSION),
	.name = "dummy",
	.kgetinfo = dummy_getinfo,
	.kfabric = dummy_fabric_open,
	.cleanup = dummy_cleanup,
};

static void providers(void)
{
	struct kfi_provider older = dummy, newer = dummy, future = dummy;
	struct kfi_info *info = NULL, *i, *hints = kfi_allocinfo();
	bool tcp = false, other = false;
	struct kfid_fabric *fabric = NULL;
	int refs = module_refcount(THIS_MODULE);

	newer.version = KFI_VERSION(1, 1);
	future.kfi_version = KFI_VERSION(KFI_MAJOR_VERSION, KFI_MINOR_VERSION + 1);
	row("provider_register of nothing", kfi_provider_register(NULL), -EINVAL);
	row("provider_register of a newer API", kfi_provider_register(&future), -ENOSYS);
	row("provider_register", kfi_provider_register(&dummy), 0);
	row("provider_register of one as old", kfi_provider_register(&older), -EEXIST);
	row("provider_register of a newer one", kfi_provider_register(&newer), 0);
	row("provider_deregister of the newer one", kfi_provider_deregister(&newer), 0);
	row("provider_deregister twice", kfi_provider_deregister(&newer), -EINVAL);
	row("cleanup was called", cleanups, 1);

	row("getinfo of all providers", kfi_getinfo(0, NULL, NULL, 0, NULL, &info), 0);
	for (i = info; i; i = i->next) {
		tcp |= !strcmp(i->fabric_attr->prov_name, "tcp");
		other |= !strcmp(i->fabric_attr->prov_name, "dummy");
	}
	row("both are there", tcp && other, 1);
	kfi_freeinfo(info);
	if (!hints)
		return;
	hints->fabric_attr->prov_name = kstrdup("dummy", GFP_KERNEL);
	row("getinfo of one provider", kfi_getinfo(0, NULL, NULL, 0, hints, &info), 0);
	row("one info", info && !info->next, 1);
	kfi_freeinfo(info);

	row("fabric of a provider of others", kfi_fabric(hints->fabric_attr, &fabric, NULL), 0);
	row("its module is held", module_refcount(THIS_MODULE) - refs, 1);
	row("provider_deregister with a fabric open", kfi_provider_deregister(&dummy), -EBUSY);
	if (fabric)
		row("close of its fabric", kfi_close(&fabric->fid), 0);
	row("its module is free", module_refcount(THIS_MODULE) - refs, 0);
	row("provider_deregister", kfi_provider_deregister(&dummy), 0);
	row("getinfo of what is gone", kfi_getinfo(0, NULL, NULL, 0, hints, &info), -ENODEV);
	kfi_freeinfo(hints);
}

/*
 * The module's own allocations fail, each in turn: what cannot be opened says so, and leaves
 * nothing behind. Infos, fabrics and domains are not in it: their texts cannot do without memory.
 */

extern bool kofi_test_fail_nth(unsigned int nth);

static int close_some(struct kfid **fids, size_t count)
{
	int ret = 0;

	while (count--)
		if (fids[count])
			ret = kfi_close(fids[count]) ?: ret;
	return ret;
}

static void without_memory(struct world *w)
{
	struct kfi_eq_cm_entry entry;
	unsigned int nth, wrong = 0;
	static char region[8];
	bool failed = true;
	u32 kind;
	int ret;

	for (nth = 1; failed && nth < 1000; nth++) {
		struct kfid_wait *set = NULL;
		struct kfid_cntr *cntr = NULL;
		struct kfid_pep *pep = NULL;
		struct kfid_eq *eq = NULL;
		struct kfid_cq *cq = NULL;
		struct kfid_mr *mr = NULL;
		struct kfid_ep *ep = NULL;

		kofi_test_fail_nth(nth);
		ret = kfi_eq_open(w->fabric, NULL, &eq, NULL, NULL) ?:
		      kfi_wait_open(w->fabric, NULL, &set) ?:
		      kfi_cq_open(w->domain, NULL, &cq, NULL, NULL) ?:
		      kfi_cntr_open(w->domain, NULL, &cntr, NULL) ?:
		      kfi_mr_reg(w->domain, region, 8, KFI_REMOTE_READ, 0, 321, 0, &mr, NULL) ?:
		      kfi_passive_ep(w->fabric, w->info, &pep, NULL) ?:
		      kfi_pep_bind(pep, &eq->fid, 0) ?:
		      kfi_endpoint(w->domain, w->info, &ep, NULL) ?:
		      bind_all(w, ep);
		if (!ret) {
			ret = kfi_eq_read(eq, &kind, &entry, sizeof(entry), 0);
			ret = ret == -EAGAIN ? 0 : ret;
		}
		failed = kofi_test_fail_nth(0);
		if (ret && ret != -ENOMEM) {
			pr_err("allocation %u: %d\n", nth, ret);
			wrong++;
		}
		ret = close_some((struct kfid *[]) { eq ? &eq->fid : NULL, set ? &set->fid : NULL,
						     cq ? &cq->fid : NULL, cntr ? &cntr->fid : NULL,
						     mr ? &mr->fid : NULL, pep ? &pep->fid : NULL,
						     ep ? &ep->fid : NULL }, 7);
		if (ret) {
			pr_err("close after allocation %u: %d\n", nth, ret);
			wrong++;
		}
	}
	row("allocations that fail", wrong, 0);
	row("all of them were tried", nth > 10 && !failed, 1);
}

static void texts(struct world *w)
{
	u32 number = KFI_EP_MSG, protocol = KFI_PROTO_SOCK_TCP;
	u64 caps = KFI_MSG | KFI_RMA;
	int mode = KFI_MR_PROV_KEY;

	row("version", kfi_version(), KFI_VERSION(1, 7));
	row("fi_version", fi_version(), FI_VERSION(1, 7));
	row("strerror", *kfi_strerror(-KFI_ENOEQ) != '\0', 1);
	row("strerror of no number", *kfi_strerror(123456) != '\0', 1);
	row("strerror is the same for both signs", strcmp(kfi_strerror(EINVAL), kfi_strerror(-EINVAL)), 0);
	row("tostr of a type", strcmp(kfi_tostr(&number, KFI_TYPE_EP_TYPE), "FI_EP_MSG"), 0);
	row("tostr of capabilities", strstr(kfi_tostr(&caps, KFI_TYPE_CAPS), "FI_RMA") ? 0 : -1, 0);
	row("tostr of a protocol", strcmp(kfi_tostr(&protocol, KFI_TYPE_PROTOCOL), "FI_PROTO_SOCK_TCP"), 0);
	row("tostr of a registration mode", strstr(kfi_tostr(&mode, KFI_TYPE_MR_MODE), "FI_MR_PROV_KEY") ? 0 : -1,
	    0);
	row("tostr of an info", strstr(kfi_tostr(w->info, KFI_TYPE_INFO), "tcp") ? 0 : -1, 0);
	row("tostr of a part", strstr(kfi_tostr(w->info->fabric_attr, KFI_TYPE_FABRIC_ATTR), "tcp") ? 0 : -1, 0);
	row("tostr of nothing", *kfi_tostr(NULL, KFI_TYPE_INFO), '\0');
	row("tostr of no type", *kfi_tostr(&caps, 1000), '\0');
	row("the info's protocol", w->info->ep_attr->protocol, KFI_PROTO_SOCK_TCP);
}

static int __init selftest_init(void)
{
	struct world w = {};
	int ret;

	ret = world_open(&w);
	row("a listener and queues", ret, 0);
	if (!ret) {
		kfi_wrong_use(&w);
		fi_wrong_use(&w);
		layer = "kfi";
		tables(&w);
		messages(&w);
		shared_receives(&w);
		remote_memory(&w);
		handlers(&w);
		wait_sets(&w);
		stops(&w);
		providers();
		texts(&w);
		without_memory(&w);
	}
	row("close of everything", world_close(&w), 0);
	pr_info("%u passed, %u failed\n", passed, failed);
	return failed ? -EIO : 0;
}

static void __exit selftest_exit(void)
{
}

module_init(selftest_init);
module_exit(selftest_exit);
MODULE_DESCRIPTION("Tests of the kfi_* and fi_* calls");
MODULE_LICENSE("Dual BSD/GPL");
