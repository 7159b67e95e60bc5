// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Tables of operations in which nothing is there.
 *
 * Objects without tagged messages, atomics and so on have these, and so have closed objects.
 */
#include "api.h"

struct kfi_ops_fabric kapi_no_ops_fabric = {
	.size = sizeof(struct kfi_ops_fabric),
	.domain = kfi_no_domain,
	.passive_ep = kfi_no_passive_ep,
	.eq_open = kfi_no_eq_open,
	.wait_open = kfi_no_wait_open,
};

struct kfi_ops_wait kapi_no_ops_wait = {
	.size = sizeof(struct kfi_ops_wait),
	.wait = kfi_no_wait,
};

struct kfi_ops_poll kapi_no_ops_poll = {
	.size = sizeof(struct kfi_ops_poll),
	.poll = kfi_no_poll,
	.poll_add = kfi_no_poll_add,
	.poll_del = kfi_no_poll_del,
};

struct kfi_ops_eq kapi_no_ops_eq = {
	.size = sizeof(struct kfi_ops_eq),
	.read = kfi_no_eq_read,
	.readerr = kfi_no_eq_readerr,
	.write = kfi_no_eq_write,
	.sread = kfi_no_eq_sread,
	.strerror = kfi_no_eq_strerror,
};

struct kfi_ops_cq kapi_no_ops_cq = {
	.size = sizeof(struct kfi_ops_cq),
	.read = kfi_no_cq_read,
	.readfrom = kfi_no_cq_readfrom,
	.readerr = kfi_no_cq_readerr,
	.sread = kfi_no_cq_sread,
	.sreadfrom = kfi_no_cq_sreadfrom,
	.signal = kfi_no_cq_signal,
	.strerror = kfi_no_cq_strerror,
};

struct kfi_ops_cntr kapi_no_ops_cntr = {
	.size = sizeof(struct kfi_ops_cntr),
	.read = kfi_no_cntr_read,
	.readerr = kfi_no_cntr_readerr,
	.add = kfi_no_cntr_add,
	.set = kfi_no_cntr_set,
	.wait = kfi_no_cntr_wait,
	.adderr = kfi_no_cntr_adderr,
	.seterr = kfi_no_cntr_seterr,
};

struct kfi_ops_av kapi_no_ops_av = {
	.size = sizeof(struct kfi_ops_av),
	.insert = kfi_no_av_insert,
	.insertsvc = kfi_no_av_insertsvc,
	.insertsym = kfi_no_av_insertsym,
	.remove = kfi_no_av_remove,
	.lookup = kfi_no_av_lookup,
	.straddr = kfi_no_av_straddr,
};

struct kfi_ops_domain kapi_no_ops_domain = {
	.size = sizeof(struct kfi_ops_domain),
	.av_open = kfi_no_av_open,
	.cq_open = kfi_no_cq_open,
	.endpoint = kfi_no_endpoint,
	.scalable_ep = kfi_no_scalable_ep,
	.cntr_open = kfi_no_cntr_open,
	.poll_open = kfi_no_poll_open,
	.stx_ctx = kfi_no_stx_ctx,
	.srx_ctx = kfi_no_srx_ctx,
	.query_atomic = kfi_no_query_atomic,
};

struct kfi_ops_mr kapi_no_ops_mr = {
	.size = sizeof(struct kfi_ops_mr),
	.reg = kfi_no_mr_reg,
	.regv = kfi_no_mr_regv,
	.regbv = kfi_no_mr_regbv,
	.regattr = kfi_no_mr_regattr,
	.regsgl = kfi_no_mr_regsgl,
};

struct kfi_ops_ep kapi_no_ops_ep = {
	.size = sizeof(struct kfi_ops_ep),
	.cancel = kfi_no_cancel,
	.getopt = kfi_no_getopt,
	.setopt = kfi_no_setopt,
	.tx_ctx = kfi_no_tx_ctx,
	.rx_ctx = kfi_no_rx_ctx,
};

struct kfi_ops_msg kapi_no_ops_msg = {
	.size = sizeof(struct kfi_ops_msg),
	.recv = kfi_no_msg_recv,
	.recvv = kfi_no_msg_recvv,
	.recvbv = kfi_no_msg_recvbv,
	.recvmsg = kfi_no_msg_recvmsg,
	.send = kfi_no_msg_send,
	.sendv = kfi_no_msg_sendv,
	.sendbv = kfi_no_msg_sendbv,
	.sendmsg = kfi_no_msg_sendmsg,
	.inject = kfi_no_msg_inject,
	.senddata = kfi_no_msg_senddata,
	.injectdata = kfi_no_msg_injectdata,
	.recvsgl = kfi_no_msg_recvsgl,
	.sendsgl = kfi_no_msg_sendsgl,
};

struct kfi_ops_cm kapi_no_ops_cm = {
	.size = sizeof(struct kfi_ops_cm),
	.setname = kfi_no_setname,
	.getname = kfi_no_getname,
	.getpeer = kfi_no_getpeer,
	.connect = kfi_no_connect,
	.listen = kfi_no_listen,
	.accept = kfi_no_accept,
	.reject = kfi_no_reject,
	.shutdown = kfi_no_shutdown,
	.join = kfi_no_join,
};

struct kfi_ops_rma kapi_no_ops_rma = {
	.size = sizeof(struct kfi_ops_rma),
	.read = kfi_no_rma_read,
	.readv = kfi_no_rma_readv,
	.readbv = kfi_no_rma_readbv,
	.readmsg = kfi_no_rma_readmsg,
	.write = kfi_no_rma_write,
	.writev = kfi_no_rma_writev,
	.writebv = kfi_no_rma_writebv,
	.writemsg = kfi_no_rma_writemsg,
	.inject = kfi_no_rma_inject,
	.writedata = kfi_no_rma_writedata,
	.injectdata = kfi_no_rma_injectdata,
	.readsgl = kfi_no_rma_readsgl,
	.writesgl = kfi_no_rma_writesgl,
};

struct kfi_ops_tagged kapi_no_ops_tagged = {
	.size = sizeof(struct kfi_ops_tagged),
	.recv = kfi_no_tagged_recv,
	.recvv = kfi_no_tagged_recvv,
	.recvbv = kfi_no_tagged_recvbv,
	.recvmsg = kfi_no_tagged_recvmsg,
	.send = kfi_no_tagged_send,
	.sendv = kfi_no_tagged_sendv,
	.sendbv = kfi_no_tagged_sendbv,
	.sendmsg = kfi_no_tagged_sendmsg,
	.inject = kfi_no_tagged_inject,
	.senddata = kfi_no_tagged_senddata,
	.injectdata = kfi_no_tagged_injectdata,
	.recvsgl = kfi_no_tagged_recvsgl,
	.sendsgl = kfi_no_tagged_sendsgl,
};

struct kfi_ops_atomic kapi_no_ops_atomic = {
	.size = sizeof(struct kfi_ops_atomic),
	.write = kfi_no_atomic_write,
	.writev = kfi_no_atomic_writev,
	.writemsg = kfi_no_atomic_writemsg,
	.inject = kfi_no_atomic_inject,
	.readwrite = kfi_no_atomic_readwrite,
	.readwritev = kfi_no_atomic_readwritev,
	.readwritemsg = kfi_no_atomic_readwritemsg,
	.compwrite = kfi_no_atomic_compwrite,
	.compwritev = kfi_no_atomic_compwritev,
	.compwritemsg = kfi_no_atomic_compwritemsg,
	.writevalid = kfi_no_atomic_writevalid,
	.readwritevalid = kfi_no_atomic_readwritevalid,
	.compwritevalid = kfi_no_atomic_compwritevalid,
};
