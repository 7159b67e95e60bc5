/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * kfi_endpoint.h - endpoints, passive endpoints, sending and receiving
 *
 * An operation's memory, but not the list of its pieces, stays the operation's until its completion
 * was read or its endpoint was closed. desc arguments may be NULL, and so may be the context.
 * What is sent or written from 32 KiB on, in memory that is neither a slab's nor vmalloc's, is not
 * copied: the network reads it where it is, and the operation completes once the peer's system has
 * acknowledged it. Changing it before that may change what the peer gets.
 * Address arguments (src_addr, dest_addr) do not count for connected endpoints.
 *
 * All operations answer, where their description adds nothing: 0; -EAGAIN when the queue is full:
 * read completions and try again; -ENOTCONN before the connection (sends, reads, writes);
 * -KFI_EOPBADSTATE before kfi_enable() or after a failed connection; -ESHUTDOWN after the end;
 * -EMSGSIZE and -EINVAL over a limit; -KFI_EBADFLAGS; -ENOMEM; -ENOSYS for what the endpoint is not
 * for.
 */
#ifndef _KFI_ENDPOINT_H_
#define _KFI_ENDPOINT_H_

#include "kfabric.h"
#include "kfi_domain.h"

/**
 * struct kfi_msg - a message for kfi_sendmsg() and kfi_recvmsg()
 * @type: which of the three pointers counts; 0 is -EINVAL, unless there are no pieces
 * @msg_iov: with KFI_KVEC
 * @msg_biov: with KFI_BVEC
 * @msg_sgl: not supported
 * @desc: descriptors of the pieces, or NULL
 * @iov_count: how many pieces
 * @addr: does not count for connected endpoints
 * @context: comes back with the completion
 * @data: goes to the peer with KFI_REMOTE_CQ_DATA
 */
struct kfi_msg {
	enum kfi_iov_type	type;
	union {
		const struct kvec		*msg_iov;
		const struct bio_vec		*msg_biov;
		const struct scatterlist	*msg_sgl;
	};
	void			**desc;
	size_t			iov_count;
	kfi_addr_t		addr;
	void			*context;
	uint64_t		data;
};

/* Levels of options */
enum {
	KFI_OPT_ENDPOINT
};

/* Options */
enum {
	KFI_OPT_MIN_MULTI_RECV,	/* size_t */
	KFI_OPT_CM_DATA_SIZE	/* size_t, read only: the most private data */
};

struct kfi_ops_ep {
	size_t	size;
	ssize_t	(*cancel)(struct kfid *fid, void *context);
	int	(*getopt)(struct kfid *fid, int level, int optname, void *optval, size_t *optlen);
	int	(*setopt)(struct kfid *fid, int level, int optname, const void *optval,
			  size_t optlen);
	int	(*tx_ctx)(struct kfid_ep *sep, int index, struct kfi_tx_attr *attr,
			  struct kfid_ep **tx_ep, void *context);
	int	(*rx_ctx)(struct kfid_ep *sep, int index, struct kfi_rx_attr *attr,
			  struct kfid_ep **rx_ep, void *context);
};

struct kfi_ops_msg {
	size_t	size;
	ssize_t	(*recv)(struct kfid_ep *ep, void *buf, size_t len, void *desc,
			kfi_addr_t src_addr, void *context);
	ssize_t	(*recvv)(struct kfid_ep *ep, const struct kvec *iov, void **desc, size_t count,
			 kfi_addr_t src_addr, void *context);
	ssize_t	(*recvbv)(struct kfid_ep *ep, const struct bio_vec *biov, void **desc,
			  size_t count, kfi_addr_t src_addr, void *context);
	ssize_t	(*recvmsg)(struct kfid_ep *ep, const struct kfi_msg *msg, uint64_t flags);
	ssize_t	(*send)(struct kfid_ep *ep, const void *buf, size_t len, void *desc,
			kfi_addr_t dest_addr, void *context);
	ssize_t	(*sendv)(struct kfid_ep *ep, const struct kvec *iov, void **desc, size_t count,
			 kfi_addr_t dest_addr, void *context);
	ssize_t	(*sendbv)(struct kfid_ep *ep, const struct bio_vec *biov, void **desc,
			  size_t count, kfi_addr_t dest_addr, void *context);
	ssize_t	(*sendmsg)(struct kfid_ep *ep, const struct kfi_msg *msg, uint64_t flags);
	ssize_t	(*inject)(struct kfid_ep *ep, const void *buf, size_t len, kfi_addr_t dest_addr);
	ssize_t	(*senddata)(struct kfid_ep *ep, const void *buf, size_t len, void *desc,
			    uint64_t data, kfi_addr_t dest_addr, void *context);
	ssize_t	(*injectdata)(struct kfid_ep *ep, const void *buf, size_t len, uint64_t data,
			      kfi_addr_t dest_addr);
	ssize_t	(*recvsgl)(struct kfid_ep *ep, const struct scatterlist *sgl, void **desc,
			   size_t count, kfi_addr_t src_addr, void *context);
	ssize_t	(*sendsgl)(struct kfid_ep *ep, const struct scatterlist *sgl, void **desc,
			   size_t count, kfi_addr_t dest_addr, void *context);
};

struct kfi_ops_cm;
struct kfi_ops_rma;
struct kfi_ops_tagged;
struct kfi_ops_atomic;

struct kfid_ep {
	struct kfid		fid;
	struct kfi_ops_ep	*ops;
	struct kfi_ops_cm	*cm;
	struct kfi_ops_msg	*msg;
	struct kfi_ops_rma	*rma;
	struct kfi_ops_tagged	*tagged;
	struct kfi_ops_atomic	*atomic;
};

struct kfid_pep {
	struct kfid		fid;
	struct kfi_ops_ep	*ops;
	struct kfi_ops_cm	*cm;
};

struct kfid_stx {
	struct kfid		fid;
	struct kfi_ops_ep	*ops;
};

#ifndef KFABRIC_DIRECT

/* The operations of an object that has options, whichever of the kinds it is; NULL for others. */
static inline struct kfi_ops_ep *kfi_ep_ops(struct kfid *fid)
{
	switch (fid->fclass) {
	case KFI_CLASS_PEP:
		return container_of(fid, struct kfid_pep, fid)->ops;
	case KFI_CLASS_STX_CTX:
		return container_of(fid, struct kfid_stx, fid)->ops;
	case KFI_CLASS_EP:
	case KFI_CLASS_SEP:
	case KFI_CLASS_RX_CTX:
	case KFI_CLASS_SRX_CTX:
	case KFI_CLASS_TX_CTX:
		return container_of(fid, struct kfid_ep, fid)->ops;
	default:
		return NULL;
	}
}

/**
 * kfi_passive_ep() - make a passive endpoint
 * @fabric: in which fabric
 * @info: of a connected endpoint; its source address is taken at once, if it has one
 * @pep: where the passive endpoint goes
 * @context: the client's, the context of the object in KFI_CONNREQ events
 *
 * Context: Process context, may sleep.
 * Return: 0; -EINVAL without info; -EADDRINUSE, -EADDRNOTAVAIL; -ENOMEM.
 */
static inline int kfi_passive_ep(struct kfid_fabric *fabric, struct kfi_info *info,
				 struct kfid_pep **pep, void *context)
{
	return fabric->ops->passive_ep(fabric, info, pep, context);
}

/**
 * kfi_endpoint() - make an endpoint
 * @domain: in which domain
 * @info: from kfi_getinfo(), to connect, or of a KFI_CONNREQ event, to accept
 * @ep: where the endpoint goes
 * @context: the client's, the context of the object in events
 *
 * Context: Process context, may sleep.
 * Return: 0; -EINVAL without info, or with a handle that is used up; -ENOMEM.
 */
static inline int kfi_endpoint(struct kfid_domain *domain, struct kfi_info *info,
			       struct kfid_ep **ep, void *context)
{
	return domain->ops->endpoint(domain, info, ep, context);
}

/**
 * kfi_scalable_ep() - make an endpoint with several contexts
 * @domain: in which domain
 * @info: from kfi_getinfo()
 * @sep: where the endpoint goes
 * @context: the client's
 *
 * Context: Process context, may sleep.
 * Return: -ENOSYS here.
 */
static inline int kfi_scalable_ep(struct kfid_domain *domain, struct kfi_info *info,
				  struct kfid_ep **sep, void *context)
{
	return domain->ops->scalable_ep(domain, info, sep, context);
}

/**
 * kfi_ep_bind() - bind a queue or counter to an endpoint
 * @ep: the endpoint
 * @bfid: the event queue, completion queue or counter
 * @flags: event queue: 0; completion queue: KFI_TRANSMIT, KFI_RECV, KFI_SELECTIVE_COMPLETION;
 *	counter: which operations it counts
 *
 * Context: Process context, may sleep.
 * Return: 0; -EINVAL for a second one, for objects of other classes or of another fabric or domain;
 * -KFI_EBADFLAGS; -KFI_EOPBADSTATE once the endpoint is enabled.
 */
static inline int kfi_ep_bind(struct kfid_ep *ep, struct kfid *bfid, uint64_t flags)
{
	return ep->fid.ops->bind(&ep->fid, bfid, flags);
}

/**
 * kfi_pep_bind() - bind an event queue to a passive endpoint
 * @pep: the passive endpoint
 * @bfid: the event queue
 * @flags: 0
 *
 * Context: Process context, may sleep.
 * Return: 0; -EINVAL for a second one, for objects of other classes or of another fabric, or with
 * flags; -KFI_EOPBADSTATE once it listens.
 */
static inline int kfi_pep_bind(struct kfid_pep *pep, struct kfid *bfid, uint64_t flags)
{
	return pep->fid.ops->bind(&pep->fid, bfid, flags);
}

/**
 * kfi_scalable_ep_bind() - bind an address vector to a scalable endpoint
 * @sep: the endpoint
 * @bfid: the address vector
 * @flags: 0
 *
 * Context: Process context, may sleep.
 * Return: 0 or an error.
 */
static inline int kfi_scalable_ep_bind(struct kfid_ep *sep, struct kfid *bfid, uint64_t flags)
{
	return sep->fid.ops->bind(&sep->fid, bfid, flags);
}

/**
 * kfi_enable() - make an endpoint ready for receives
 * @ep: an endpoint with its queues; kfi_connect() and kfi_accept() enable it, too
 *
 * Context: Process context, may sleep.
 * Return: 0; -KFI_ENOEQ, -KFI_ENOCQ when a queue is missing; -KFI_EOPBADSTATE when it is enabled
 * already.
 */
static inline int kfi_enable(struct kfid_ep *ep)
{
	return kfi_control(&ep->fid, KFI_ENABLE, NULL);
}

/**
 * kfi_cancel() - take back a receive
 * @fid: of the endpoint
 * @context: of the receive
 *
 * Context: Process context, may sleep.
 * Return: 0: the receive completes with ECANCELED; -ENOENT when there is no such receive that no
 * message has reached; -EINVAL for an object without operations.
 */
static inline ssize_t kfi_cancel(struct kfid *fid, void *context)
{
	struct kfi_ops_ep *ops = kfi_ep_ops(fid);

	return ops ? ops->cancel(fid, context) : -EINVAL;
}

/**
 * kfi_setopt() - set an option
 * @fid: of the endpoint
 * @level: KFI_OPT_ENDPOINT
 * @optname: which option
 * @optval: its value
 * @optlen: the value's size
 *
 * Context: Process context, may sleep.
 * Return: 0; -ENOPROTOOPT for options that are unknown or read only; -EINVAL.
 */
static inline int kfi_setopt(struct kfid *fid, int level, int optname, const void *optval,
			     size_t optlen)
{
	struct kfi_ops_ep *ops = kfi_ep_ops(fid);

	return ops ? ops->setopt(fid, level, optname, optval, optlen) : -EINVAL;
}

/**
 * kfi_getopt() - get an option
 * @fid: of the endpoint or passive endpoint
 * @level: KFI_OPT_ENDPOINT
 * @optname: which option
 * @optval: where its value goes
 * @optlen: room there; afterwards the value's size
 *
 * Context: Process context, may sleep.
 * Return: 0; -ENOPROTOOPT for options that are unknown; -KFI_ETOOSMALL; -EINVAL.
 */
static inline int kfi_getopt(struct kfid *fid, int level, int optname, void *optval,
			     size_t *optlen)
{
	struct kfi_ops_ep *ops = kfi_ep_ops(fid);

	return ops ? ops->getopt(fid, level, optname, optval, optlen) : -EINVAL;
}

/**
 * kfi_ep_alias() - a second name of an endpoint, with flags of its own
 * @ep: the endpoint
 * @alias_ep: where the alias goes
 * @flags: of its operations
 *
 * Context: Process context, may sleep.
 * Return: -ENOSYS here.
 */
static inline int kfi_ep_alias(struct kfid_ep *ep, struct kfid_ep **alias_ep, uint64_t flags)
{
	struct kfid *fid = NULL;
	int ret = kfi_alias(&ep->fid, &fid, flags);

	if (!ret)
		*alias_ep = container_of(fid, struct kfid_ep, fid);
	return ret;
}

/**
 * kfi_tx_context() - a transmit context of a scalable endpoint
 * @ep: the endpoint
 * @index: which one
 * @attr: what it is to be like
 * @tx_ep: where the context goes
 * @context: the client's
 *
 * Context: Process context, may sleep.
 * Return: -ENOSYS here.
 */
static inline int kfi_tx_context(struct kfid_ep *ep, int index, struct kfi_tx_attr *attr,
				 struct kfid_ep **tx_ep, void *context)
{
	return ep->ops->tx_ctx(ep, index, attr, tx_ep, context);
}

/**
 * kfi_rx_context() - a receive context of a scalable endpoint
 * @ep: the endpoint
 * @index: which one
 * @attr: what it is to be like
 * @rx_ep: where the context goes
 * @context: the client's
 *
 * Context: Process context, may sleep.
 * Return: -ENOSYS here.
 */
static inline int kfi_rx_context(struct kfid_ep *ep, int index, struct kfi_rx_attr *attr,
				 struct kfid_ep **rx_ep, void *context)
{
	return ep->ops->rx_ctx(ep, index, attr, rx_ep, context);
}

/**
 * kfi_stx_context() - a transmit context that endpoints share
 * @domain: in which domain
 * @attr: what it is to be like
 * @stx: where the context goes
 * @context: the client's
 *
 * Context: Process context, may sleep.
 * Return: -ENOSYS here.
 */
static inline int kfi_stx_context(struct kfid_domain *domain, struct kfi_tx_attr *attr,
				  struct kfid_stx **stx, void *context)
{
	return domain->ops->stx_ctx(domain, attr, stx, context);
}

/**
 * kfi_srx_context() - a receive context that endpoints share
 * @domain: in which domain
 * @attr: what it is to be like: size, iov_limit and op_flags count, zeros are defaults; NULL: all
 *	defaults
 * @rx_ep: where the context goes
 * @context: the client's
 *
 * Receives are posted to it by kfi_recv() and its kind, and belong to no endpoint until a message
 * of one that is bound to it (kfi_ep_bind() of the endpoint, before it is enabled, with flags 0) has
 * met them. They complete in that endpoint's queue; those that are cancelled, or are left when the
 * context is closed, in the queue that is bound to the context itself with KFI_RECV. Endpoints with
 * messages that wait for a receive take turns.
 *
 * Context: Process context, may sleep.
 * Return: 0, -EINVAL over what kfi_getinfo() gives, or -ENOMEM.
 */
static inline int kfi_srx_context(struct kfid_domain *domain, struct kfi_rx_attr *attr,
				  struct kfid_ep **rx_ep, void *context)
{
	return domain->ops->srx_ctx(domain, attr, rx_ep, context);
}

/**
 * kfi_recv() - post a receive
 * @ep: an enabled endpoint, which may not be connected yet
 * @buf: where the message goes
 * @len: room there; what is more is lost, and the receive fails with KFI_ETRUNC
 * @desc: of the memory
 * @src_addr: does not count
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: as at the top of this file.
 */
static inline ssize_t kfi_recv(struct kfid_ep *ep, void *buf, size_t len, void *desc,
			       kfi_addr_t src_addr, void *context)
{
	return ep->msg->recv(ep, buf, len, desc, src_addr, context);
}

/**
 * kfi_recvv() - post a receive into several pieces of memory
 * @ep: the endpoint
 * @iov: the pieces
 * @desc: of the pieces
 * @count: how many
 * @src_addr: does not count
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: as at the top of this file.
 */
static inline ssize_t kfi_recvv(struct kfid_ep *ep, const struct kvec *iov, void **desc,
				size_t count, kfi_addr_t src_addr, void *context)
{
	return ep->msg->recvv(ep, iov, desc, count, src_addr, context);
}

/**
 * kfi_recvbv() - post a receive into pages
 * @ep: the endpoint
 * @biov: the pages
 * @desc: of the pages
 * @count: how many
 * @src_addr: does not count
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: as at the top of this file.
 */
static inline ssize_t kfi_recvbv(struct kfid_ep *ep, const struct bio_vec *biov, void **desc,
				 size_t count, kfi_addr_t src_addr, void *context)
{
	return ep->msg->recvbv(ep, biov, desc, count, src_addr, context);
}

/**
 * kfi_recvsgl() - post a receive into a mapped scatterlist
 * @ep: the endpoint
 * @sgl: the list
 * @desc: of the pieces
 * @count: how many
 * @src_addr: does not count
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_recvsgl(struct kfid_ep *ep, const struct scatterlist *sgl, void **desc,
				  size_t count, kfi_addr_t src_addr, void *context)
{
	return ep->msg->recvsgl(ep, sgl, desc, count, src_addr, context);
}

/**
 * kfi_recvmsg() - post a receive that a structure describes
 * @ep: the endpoint
 * @msg: the memory
 * @flags: KFI_COMPLETION; those of the endpoint's info do not count
 *
 * Context: Process context.
 * Return: as at the top of this file.
 */
static inline ssize_t kfi_recvmsg(struct kfid_ep *ep, const struct kfi_msg *msg, uint64_t flags)
{
	return ep->msg->recvmsg(ep, msg, flags);
}

/**
 * kfi_send() - post a message
 * @ep: a connected endpoint
 * @buf: the message
 * @len: its size
 * @desc: of the memory
 * @dest_addr: does not count
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: as at the top of this file.
 */
static inline ssize_t kfi_send(struct kfid_ep *ep, const void *buf, size_t len, void *desc,
			       kfi_addr_t dest_addr, void *context)
{
	return ep->msg->send(ep, buf, len, desc, dest_addr, context);
}

/**
 * kfi_sendv() - post a message from several pieces of memory
 * @ep: the endpoint
 * @iov: the pieces
 * @desc: of the pieces
 * @count: how many
 * @dest_addr: does not count
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: as at the top of this file.
 */
static inline ssize_t kfi_sendv(struct kfid_ep *ep, const struct kvec *iov, void **desc,
				size_t count, kfi_addr_t dest_addr, void *context)
{
	return ep->msg->sendv(ep, iov, desc, count, dest_addr, context);
}

/**
 * kfi_sendbv() - post a message from pages
 * @ep: the endpoint
 * @biov: the pages
 * @desc: of the pages
 * @count: how many
 * @dest_addr: does not count
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: as at the top of this file.
 */
static inline ssize_t kfi_sendbv(struct kfid_ep *ep, const struct bio_vec *biov, void **desc,
				 size_t count, kfi_addr_t dest_addr, void *context)
{
	return ep->msg->sendbv(ep, biov, desc, count, dest_addr, context);
}

/**
 * kfi_sendsgl() - post a message from a mapped scatterlist
 * @ep: the endpoint
 * @sgl: the list
 * @desc: of the pieces
 * @count: how many
 * @dest_addr: does not count
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_sendsgl(struct kfid_ep *ep, const struct scatterlist *sgl, void **desc,
				  size_t count, kfi_addr_t dest_addr, void *context)
{
	return ep->msg->sendsgl(ep, sgl, desc, count, dest_addr, context);
}

/**
 * kfi_sendmsg() - post a message that a structure describes
 * @ep: the endpoint
 * @msg: the memory
 * @flags: KFI_COMPLETION, KFI_INJECT, KFI_MORE, KFI_REMOTE_CQ_DATA, a completion level; those of
 *	the endpoint's info do not count
 *
 * Context: Process context.
 * Return: as at the top of this file.
 */
static inline ssize_t kfi_sendmsg(struct kfid_ep *ep, const struct kfi_msg *msg, uint64_t flags)
{
	return ep->msg->sendmsg(ep, msg, flags);
}

/**
 * kfi_inject() - send a short message without completion
 * @ep: a connected endpoint
 * @buf: the message, the caller's again when the call returns
 * @len: its size, up to the inject_size of the info's tx_attr
 * @dest_addr: does not count
 *
 * Context: Process context.
 * Return: as at the top of this file.
 */
static inline ssize_t kfi_inject(struct kfid_ep *ep, const void *buf, size_t len,
				 kfi_addr_t dest_addr)
{
	return ep->msg->inject(ep, buf, len, dest_addr);
}

/**
 * kfi_senddata() - post a message with data for the peer's completion
 * @ep: the endpoint
 * @buf: the message
 * @len: its size
 * @desc: of the memory
 * @data: for the peer
 * @dest_addr: does not count
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: as at the top of this file.
 */
static inline ssize_t kfi_senddata(struct kfid_ep *ep, const void *buf, size_t len, void *desc,
				   uint64_t data, kfi_addr_t dest_addr, void *context)
{
	return ep->msg->senddata(ep, buf, len, desc, data, dest_addr, context);
}

/**
 * kfi_injectdata() - kfi_inject() with data for the peer's completion
 * @ep: the endpoint
 * @buf: the message
 * @len: its size
 * @data: for the peer
 * @dest_addr: does not count
 *
 * Context: Process context.
 * Return: as at the top of this file.
 */
static inline ssize_t kfi_injectdata(struct kfid_ep *ep, const void *buf, size_t len,
				     uint64_t data, kfi_addr_t dest_addr)
{
	return ep->msg->injectdata(ep, buf, len, data, dest_addr);
}

#else
#include <kfi_direct_endpoint.h>
#endif

#endif /* _KFI_ENDPOINT_H_ */
