// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Shapes of the kfi_* headers, checked by the compiler: values and layouts of kfabric 1.7, and
 * calls in the ways in which clients and providers of kfabric make them. Headers are included as
 * kfabric's are, by their bare names.
 *
 * The functions here are never called: there is no device behind them. Loading the module proves
 * that it links.
 */
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include <kfi_endpoint.h>
#include <kfi_errno.h>
#include <kfi_rma.h>
#include <kfi_tagged.h>
#include <kfi_atomic.h>
#include <kfi_cm.h>
#include <kfi_cxi_ext.h>
#include <kfi_enosys.h>
#include <kfi_log.h>
#include <kfi_prov.h>
#include <kfi_trigger.h>

#include "shapes.h"

/* Values that clients have compiled in, or print. */
static_assert(KFI_MSG == 2 && KFI_RMA == 4 && KFI_TAGGED == 8 && KFI_TAGGED_RMA == 64);
static_assert(KFI_READ == 1 << 8 && KFI_WRITE == 1 << 9 && KFI_RECV == 1 << 10 && KFI_SEND == 1 << 11);
static_assert(KFI_REMOTE_READ == 1 << 12 && KFI_REMOTE_WRITE == 1 << 13 && KFI_MULTI_RECV == 1 << 16);
static_assert(KFI_REMOTE_CQ_DATA == 1 << 17 && KFI_PEEK == 1 << 19 && KFI_COMPLETION == 1 << 24);
static_assert(KFI_AFFINITY == 1 << 29 && KFI_TAGGED_MULTI_RECV == 1ULL << 31);
static_assert(KFI_TIME_US == 1ULL << 37 && KFI_TIME_MS == 1ULL << 38);
static_assert(KFI_SOURCE == 1ULL << 57 && KFI_NAMED_RX_CTX == 1ULL << 58 && KFI_DIRECTED_RECV == 1ULL << 59);
static_assert(KFI_SOCKADDR_IN == 2 && KFI_SOCKADDR_IN6 == 3 && KFI_ADDR_CXI == 6);
static_assert(KFI_EP_MSG == 1 && KFI_EP_RDM == 3 && KFI_PROTO_RDMA_CM_IB_RC == 1 && KFI_PROTO_SOCK_TCP == 5);
static_assert(KFI_PROTO_CXI == 9 && KFI_THREAD_SAFE == 1 && KFI_RM_DISABLED == 1 && KFI_AV_TABLE == 2);
static_assert(KFI_CLASS_FABRIC == 1 && KFI_CLASS_EP == 3 && KFI_CLASS_PEP == 9 && KFI_CLASS_EQ == 13);
static_assert(KFI_CLASS_CQ == 14 && KFI_CLASS_CONNREQ == 18);
static_assert(KFI_CONNREQ == 1 && KFI_CONNECTED == 2 && KFI_SHUTDOWN == 3 && KFI_AV_COMPLETE == 5);
static_assert(KFI_WAIT_NONE == 0 && KFI_WAIT_SET == 2 && KFI_WAIT_QUEUE == 3);
static_assert(KFI_CQ_FORMAT_DATA == 3 && KFI_CQ_FORMAT_TAGGED == 4);
static_assert(KFI_ENABLE == 6 && KFI_BACKLOG == 7 && KFI_REFRESH == 14);
static_assert(KFI_KVEC == 1 && KFI_BVEC == 2 && KFI_TC_BEST_EFFORT == 0x200 && KFI_TC_NETWORK_CTRL == 0x205);
static_assert(KFI_EOTHER == 256 && KFI_EAVAIL == 259 && KFI_ENOEQ == 261 && KFI_EOVERRUN == 268);
static_assert(FI_ERRNO_MAX == 269 && KFI_ENOTCONN == ENOTCONN);
static_assert(KFI_VERSION(1, 7) == 0x10007 && KFI_VERSION_GE(KFI_VERSION(1, 7), KFI_VERSION(1, 6)));
static_assert(KFI_VERSION_LT(KFI_VERSION(1, 9), KFI_VERSION(2, 0)) && KFI_MINOR(0x10007) == 7);
static_assert(KFI_TYPE_INFO == 0 && KFI_TYPE_VERSION == 18 && KFI_TYPE_OP_TYPE == 22);
static_assert(KFI_ATOMIC_OP_LAST == 19 && KFI_DATATYPE_LAST == 14 && KFI_CSWAP == 12);

/* The order of members: each comes behind the one before it. */
#define AFTER(type, first, second) \
	static_assert(offsetof(type, second) >= offsetof(type, first) + sizeof(((type *)0)->first))
AFTER(struct kfid, fclass, context);
AFTER(struct kfid, context, ops);
AFTER(struct kfid, ops, comp);
AFTER(struct kfid, comp, ref_cnt);
AFTER(struct kfi_info, next, caps);
AFTER(struct kfi_info, addr_format, src_addrlen);
AFTER(struct kfi_info, dest_addr, handle);
AFTER(struct kfi_info, handle, tx_attr);
AFTER(struct kfi_info, ep_attr, domain_attr);
AFTER(struct kfi_info, domain_attr, fabric_attr);
AFTER(struct kfi_domain_attr, domain, name);
AFTER(struct kfi_domain_attr, av_type, mr_mode);
AFTER(struct kfi_domain_attr, mr_iov_limit, caps);
AFTER(struct kfi_domain_attr, mode, auth_key);
AFTER(struct kfi_domain_attr, mr_cnt, tclass);
AFTER(struct kfi_ep_attr, rx_ctx_cnt, auth_key_size);
AFTER(struct kfi_tx_attr, rma_iov_limit, tclass);
AFTER(struct kfi_eq_attr, wait_obj, signaling_vector);
AFTER(struct kfi_cq_attr, format, wait_obj);
AFTER(struct kfi_cq_attr, wait_cond, wait_set);
AFTER(struct kfid_ep, fid, ops);
AFTER(struct kfid_ep, cm, msg);
AFTER(struct kfid_ep, tagged, atomic);
AFTER(struct kfi_ops_msg, injectdata, recvsgl);
AFTER(struct kfi_ops_rma, injectdata, readsgl);
AFTER(struct kfi_ops_tagged, injectdata, recvsgl);
AFTER(struct kfi_ops_mr, regattr, regsgl);
AFTER(struct kfi_ops_cq, sreadfrom, signal);
AFTER(struct kfi_ops_cntr, wait, adderr);
AFTER(struct kfi_provider, kfabric, cleanup);
AFTER(struct kfi_provider, cleanup, comp);
AFTER(struct kfi_provider, comp, ref_cnt);
static_assert(sizeof(struct kcxi_addr) == 8);
static_assert(offsetof(struct kfid_fabric, fid) == 0 && offsetof(struct kfid_mr, fid) == 0);
static_assert(offsetof(struct kfid_wait, kfid) == 0);

/*
 * A client as the network driver of a file system is one: endpoints without connections, handlers
 * that queue work.
 */
struct shapes_dev {
	struct kfid_fabric	*fab;
	struct kfid_domain	*dom;
	struct kfid_av		*av;
	struct kfid_ep		*sep;
	struct kfid_ep		*tx, *rx;
	struct kfid_cq		*tx_cq, *rx_cq;
	struct device		*device;
	struct work_struct	work;
	kfi_addr_t		peer;
};

static void shapes_cq_handler(struct kfid_cq *cq, void *context)
{
	struct shapes_dev *dev = context;

	queue_work(system_wq, &dev->work);
}

static void shapes_work(struct work_struct *work)
{
	struct shapes_dev *dev = container_of(work, struct shapes_dev, work);
	struct kfi_cq_data_entry event[2];
	struct kfi_cq_err_entry err;
	ssize_t count;

	do {
		count = kfi_cq_read(dev->rx_cq, &event, ARRAY_SIZE(event));
		if (count == -KFI_EAVAIL && kfi_cq_readerr(dev->rx_cq, &err, 0) == 1)
			LOG_ERR("%d %s", -err.err,
				kfi_cq_strerror(dev->rx_cq, err.prov_errno, err.err_data, NULL, 0));
	} while (count > 0);
}

static int shapes_open(struct shapes_dev *dev, const char *node, const char *service)
{
	const struct kfi_rx_attr rx_attr = { .op_flags = KFI_COMPLETION | KFI_MULTI_RECV, .size = 64 };
	struct kfi_cxi_domain_ops *dom_ops;
	struct kfi_av_attr av_attr = {};
	struct kfi_cq_attr cq_attr = {
		.size = 1024,
		.flags = KFI_AFFINITY,
		.format = KFI_CQ_FORMAT_DATA,
		.wait_cond = KFI_CQ_COND_NONE,
		.wait_obj = KFI_WAIT_NONE,
	};
	struct kfi_info *hints, *info;
	struct kfi_rx_attr attr;
	size_t min_multi_recv = 4096;
	int rc;

	hints = kfi_allocinfo();
	if (!hints)
		return -ENOMEM;
	hints->caps = KFI_MSG | KFI_RMA | KFI_SEND | KFI_RECV | KFI_READ | KFI_WRITE | KFI_REMOTE_READ |
		      KFI_REMOTE_WRITE | KFI_MULTI_RECV | KFI_REMOTE_COMM | KFI_NAMED_RX_CTX | KFI_TAGGED |
		      KFI_TAGGED_RMA | KFI_DIRECTED_RECV;
	hints->fabric_attr->prov_version = KFI_VERSION(1, 0);
	hints->domain_attr->mr_iov_limit = 256;
	hints->domain_attr->mr_key_size = sizeof(int);
	hints->domain_attr->resource_mgmt = KFI_RM_DISABLED;
	hints->ep_attr->max_msg_size = 1 << 20;
	hints->tx_attr->tclass = KFI_TC_BEST_EFFORT;
	hints->tx_attr->op_flags = KFI_COMPLETION;
	rc = kfi_getinfo(0, node, service, KFI_SOURCE, hints, &info);
	kfi_freeinfo(hints);
	if (rc)
		return rc;
	rc = kfi_fabric(info->fabric_attr, &dev->fab, dev);
	if (rc)
		goto out;
	rc = kfi_domain(dev->fab, info, &dev->dom, dev);
	if (rc)
		goto out;
	rc = kfi_open_ops(&dev->dom->fid, KFI_CXI_DOM_OPS_1, 0, (void **)&dom_ops, NULL);
	if (!rc)
		rc = dom_ops->get_device(&dev->dom->fid, &dev->device);
	av_attr.type = KFI_AV_UNSPEC;
	av_attr.rx_ctx_bits = 8;
	rc = kfi_av_open(dev->dom, &av_attr, &dev->av, dev) ?:
	     kfi_scalable_ep(dev->dom, info, &dev->sep, dev) ?:
	     kfi_scalable_ep_bind(dev->sep, &dev->av->fid, 0);
	if (rc)
		goto out;
	INIT_WORK(&dev->work, shapes_work);
	cq_attr.signaling_vector = 1;
	rc = kfi_cq_open(dev->dom, &cq_attr, &dev->rx_cq, shapes_cq_handler, dev);
	if (rc)
		goto out;
	attr = rx_attr;
	rc = kfi_rx_context(dev->sep, 0, &attr, &dev->rx, dev);
	if (rc)
		goto out;
	rc = kfi_ep_bind(dev->rx, &dev->rx_cq->fid, 0);
	rc = kfi_setopt(&dev->rx->fid, KFI_OPT_ENDPOINT, KFI_OPT_MIN_MULTI_RECV, &min_multi_recv,
			sizeof(min_multi_recv));
	rc = kfi_tx_context(dev->sep, 0, NULL, &dev->tx, dev);
	rc = kfi_enable(dev->rx) ?: kfi_enable(dev->sep);
out:
	kfi_freeinfo(info);
	return rc;
}

static ssize_t shapes_post(struct shapes_dev *dev, struct bio_vec *pages, size_t count, void *buf, size_t len)
{
	struct kfi_rma_iov rma_iov = { .addr = 0, .len = len, .key = 3 };
	struct kfi_msg_rma rma = {
		.type = KFI_BVEC,
		.msg_biov = pages,
		.iov_count = count,
		.context = dev,
		.addr = kfi_rx_addr(dev->peer, 2, 8),
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
	};
	struct kfi_msg_tagged tagged = {
		.type = KFI_BVEC,
		.tag = 5,
		.context = dev,
		.addr = dev->peer,
	};
	struct kvec kvec = { buf, len };
	struct kfi_msg msg = { KFI_KVEC, { &kvec }, NULL, 1, dev->peer, dev, 0 };

	tagged.msg_biov = pages;
	tagged.iov_count = count;
	if (kfi_av_insertsvc(dev->av, "0x1", "7", &dev->peer, 0, dev) != 1)
		return -EINVAL;
	return kfi_recv(dev->rx, buf, len, NULL, KFI_ADDR_UNSPEC, dev) ?:
	       kfi_recvmsg(dev->rx, &msg, KFI_COMPLETION | KFI_MULTI_RECV) ?:
	       kfi_send(dev->tx, buf, len, NULL, dev->peer, dev) ?:
	       kfi_sendmsg(dev->tx, &msg, KFI_COMPLETION) ?:
	       kfi_trecvmsg(dev->rx, &tagged, KFI_COMPLETION) ?:
	       kfi_tsenddata(dev->tx, NULL, 0, NULL, 77, dev->peer, 5, dev) ?:
	       kfi_readmsg(dev->tx, &rma, KFI_TAGGED | KFI_COMPLETION) ?:
	       kfi_writemsg(dev->tx, &rma, KFI_TAGGED | KFI_COMPLETION) ?:
	       kfi_cancel(&dev->rx->fid, dev);
}

/* A client with connections, as storage over a network is one. */

struct shapes_queue {
	struct kfid_eq	*eq;
	struct kfid_pep	*pep;
	struct kfid_ep	*ep;
	struct kfid_mr	*mr;
};

static void shapes_eq_handler(struct kfid_eq *eq, void *context)
{
	struct shapes_queue *queue = context;
	struct kfi_eq_cm_entry *entry;
	struct kfi_eq_err_entry err = { 0 };
	uint32_t event;
	ssize_t n;

	entry = kzalloc(sizeof(*entry) + 32, GFP_KERNEL);
	if (!entry)
		return;
	n = kfi_eq_read(eq, &event, entry, sizeof(*entry) + 32, 0);
	if (n == -KFI_EAVAIL)
		n = kfi_eq_readerr(eq, &err, 0);
	else if (n >= (ssize_t)sizeof(*entry) && event == KFI_CONNREQ)
		kfi_reject(queue->pep, entry->info->handle, "no", 2);
	kfree(entry);
}

static int shapes_connected(struct shapes_queue *queue, struct kfid_fabric *fabric, struct kfid_domain *domain,
			    struct kfi_info *info, struct bio_vec *pages, struct scatterlist *sgl, void *buf)
{
	struct kfi_eq_attr eq_attr = { 10, 0, KFI_WAIT_UNSPEC, 0, NULL };
	struct kfi_mr_attr attr = {
		.type = KFI_BVEC,
		.mr_biov = pages,
		.iov_count = 1,
		.access = KFI_REMOTE_READ,
		.requested_key = 9,
	};
	struct kfid_wait *set;
	struct kfid_cntr *cntr;
	uint32_t event;
	size_t len = 8;
	int rc;

	rc = kfi_wait_open(fabric, &(struct kfi_wait_attr) { KFI_WAIT_UNSPEC, 0 }, &set) ?:
	     kfi_eq_open(fabric, &eq_attr, &queue->eq, shapes_eq_handler, queue) ?:
	     kfi_passive_ep(fabric, info, &queue->pep, queue) ?:
	     kfi_pep_bind(queue->pep, &queue->eq->fid, 0) ?:
	     kfi_listen(queue->pep) ?:
	     kfi_endpoint(domain, info, &queue->ep, queue) ?:
	     kfi_ep_bind(queue->ep, &queue->eq->fid, 0) ?:
	     kfi_cntr_open(domain, NULL, &cntr, NULL) ?:
	     kfi_ep_bind(queue->ep, &cntr->fid, KFI_SEND) ?:
	     kfi_mr_regattr(domain, &attr, 0, &queue->mr) ?:
	     kfi_mr_regbv(domain, pages, 1, KFI_REMOTE_WRITE, 0, 10, 0, &queue->mr, NULL) ?:
	     kfi_mr_regsgl(domain, sgl, 1, KFI_REMOTE_WRITE, 0, 10, 0, &queue->mr, NULL) ?:
	     kfi_connect(queue->ep, info->dest_addr, "request", 8) ?:
	     kfi_accept(queue->ep, NULL, 0) ?:
	     kfi_getname(&queue->pep->fid, buf, &len) ?:
	     kfi_getpeer(queue->ep, buf, &len) ?:
	     kfi_getopt(&queue->ep->fid, KFI_OPT_ENDPOINT, KFI_OPT_CM_DATA_SIZE, buf, &len);
	if (rc)
		return rc;
	return (int)kfi_write(queue->ep, buf, len, kfi_mr_desc(queue->mr), 0, 0, kfi_mr_key(queue->mr), queue) ?:
	       (int)kfi_eq_sread(queue->eq, &event, buf, len, 500, KFI_TIME_MS) ?:
	       kfi_shutdown(queue->ep, 0) ?:
	       kfi_close(&queue->ep->fid) ?:
	       kfi_close(&set->kfid);
}

/* A provider: tables of its own operations and of those that are not there. */

static int shapes_close(struct kfid *fid)
{
	kfi_close_id(fid);
	return 0;
}

static struct kfi_ops shapes_fid_ops = {
	.size = sizeof(struct kfi_ops),
	.close = shapes_close,
	.bind = kfi_no_bind,
	.control = kfi_no_control,
	.ops_open = kfi_no_ops_open,
};

static struct kfi_ops_fabric shapes_fabric_ops = {
	.size = sizeof(struct kfi_ops_fabric),
	.domain = kfi_no_domain,
	.passive_ep = kfi_no_passive_ep,
	.eq_open = kfi_no_eq_open,
	.wait_open = kfi_no_wait_open,
};

static struct kfid_fabric shapes_fabric_fid;

static int shapes_fabric(struct kfi_fabric_attr *attr, struct kfid_fabric **fabric, void *context)
{
	shapes_fabric_fid.fid.fclass = KFI_CLASS_FABRIC;
	shapes_fabric_fid.fid.context = context;
	shapes_fabric_fid.fid.ops = &shapes_fid_ops;
	shapes_fabric_fid.ops = &shapes_fabric_ops;
	kfi_init_id(&shapes_fabric_fid.fid);
	*fabric = &shapes_fabric_fid;
	return 0;
}

static int shapes_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
			  struct kfi_info *hints, struct kfi_info **info)
{
	return -KFI_ENODATA;
}

static struct kfi_provider shapes_provider = {
	.version = KFI_VERSION(0, 1),
	.kfi_version = KFI_VERSION(KFI_MAJOR_VERSION, KFI_MINOR_VERSION),
	.name = "shapes",
	.kgetinfo = shapes_getinfo,
	.kfabric = shapes_fabric,
};

/* Only keeps the functions above from being called unused. */
const struct shapes shapes_kfi = {
	.functions = { shapes_open, shapes_post, shapes_connected },
};

static int __init shapes_init(void)
{
	return kfi_provider_register(&shapes_provider);
}

static void __exit shapes_exit(void)
{
	kfi_provider_deregister(&shapes_provider);
}

module_init(shapes_init);
module_exit(shapes_exit);
MODULE_DESCRIPTION("Shapes of the kfi_* and fi_* headers");
MODULE_LICENSE("Dual BSD/GPL");
