/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * kfi_tagged.h - messages that are matched by tags
 *
 * The providers of this module have none: all of these are -ENOSYS for their endpoints
 */
#ifndef _KFI_TAGGED_H_
#define _KFI_TAGGED_H_

#include "kfabric.h"
#include "kfi_endpoint.h"

/* Flags of kfi_trecvmsg() with KFI_PEEK */
#define KFI_CLAIM		(1ULL << 59)
#define KFI_DISCARD		(1ULL << 58)

/* A message for kfi_tsendmsg() and kfi_trecvmsg(); see struct kfi_msg. */
struct kfi_msg_tagged {
	enum kfi_iov_type	type;
	union {
		const struct kvec		*msg_iov;
		const struct bio_vec		*msg_biov;
		const struct scatterlist	*msg_sgl;
	};
	void			**desc;
	size_t			iov_count;
	kfi_addr_t		addr;
	uint64_t		tag;
	uint64_t		ignore;
	void			*context;
	uint64_t		data;
};

struct kfi_ops_tagged {
	size_t	size;
	ssize_t	(*recv)(struct kfid_ep *ep, void *buf, size_t len, void *desc, kfi_addr_t src_addr,
			uint64_t tag, uint64_t ignore, void *context);
	ssize_t	(*recvv)(struct kfid_ep *ep, const struct kvec *iov, void **desc, size_t count,
			 kfi_addr_t src_addr, uint64_t tag, uint64_t ignore, void *context);
	ssize_t	(*recvbv)(struct kfid_ep *ep, const struct bio_vec *biov, void **desc, size_t count,
			  kfi_addr_t src_addr, uint64_t tag, uint64_t ignore, void *context);
	ssize_t	(*recvmsg)(struct kfid_ep *ep, const struct kfi_msg_tagged *msg, uint64_t flags);
	ssize_t	(*send)(struct kfid_ep *ep, const void *buf, size_t len, void *desc,
			kfi_addr_t dest_addr, uint64_t tag, void *context);
	ssize_t	(*sendv)(struct kfid_ep *ep, const struct kvec *iov, void **desc, size_t count,
			 kfi_addr_t dest_addr, uint64_t tag, void *context);
	ssize_t	(*sendbv)(struct kfid_ep *ep, const struct bio_vec *biov, void **desc, size_t count,
			  kfi_addr_t dest_addr, uint64_t tag, void *context);
	ssize_t	(*sendmsg)(struct kfid_ep *ep, const struct kfi_msg_tagged *msg, uint64_t flags);
	ssize_t	(*inject)(struct kfid_ep *ep, const void *buf, size_t len, kfi_addr_t dest_addr,
			  uint64_t tag);
	ssize_t	(*senddata)(struct kfid_ep *ep, const void *buf, size_t len, void *desc,
			    uint64_t data, kfi_addr_t dest_addr, uint64_t tag, void *context);
	ssize_t	(*injectdata)(struct kfid_ep *ep, const void *buf, size_t len, uint64_t data,
			      kfi_addr_t dest_addr, uint64_t tag);
	ssize_t	(*recvsgl)(struct kfid_ep *ep, const struct scatterlist *sgl, void **desc,
			   size_t count, kfi_addr_t src_addr, uint64_t tag, uint64_t ignore,
			   void *context);
	ssize_t	(*sendsgl)(struct kfid_ep *ep, const struct scatterlist *sgl, void **desc,
			   size_t count, kfi_addr_t dest_addr, uint64_t tag, void *context);
};

#ifndef KFABRIC_DIRECT

/**
 * kfi_trecv() - post a receive for a tag
 * @ep: the endpoint
 * @buf: our memory
 * @len: bytes
 * @desc: of our memory
 * @src_addr: does not count for connected endpoints
 * @tag: the tag
 * @ignore: bits of the tag that do not count
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_trecv(struct kfid_ep *ep, void *buf, size_t len, void *desc,
				kfi_addr_t src_addr, uint64_t tag, uint64_t ignore, void *context)
{
	return ep->tagged->recv(ep, buf, len, desc, src_addr, tag, ignore, context);
}

/**
 * kfi_trecvv() - post a receive for a tag into several pieces
 * @ep: the endpoint
 * @iov: the pieces
 * @desc: of our memory
 * @count: how many
 * @src_addr: does not count for connected endpoints
 * @tag: the tag
 * @ignore: bits of the tag that do not count
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_trecvv(struct kfid_ep *ep, const struct kvec *iov, void **desc,
				 size_t count, kfi_addr_t src_addr, uint64_t tag, uint64_t ignore,
				 void *context)
{
	return ep->tagged->recvv(ep, iov, desc, count, src_addr, tag, ignore, context);
}

/**
 * kfi_trecvbv() - post a receive for a tag into pages
 * @ep: the endpoint
 * @biov: the pages
 * @desc: of our memory
 * @count: how many
 * @src_addr: does not count for connected endpoints
 * @tag: the tag
 * @ignore: bits of the tag that do not count
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_trecvbv(struct kfid_ep *ep, const struct bio_vec *biov, void **desc,
				  size_t count, kfi_addr_t src_addr, uint64_t tag, uint64_t ignore,
				  void *context)
{
	return ep->tagged->recvbv(ep, biov, desc, count, src_addr, tag, ignore, context);
}

/**
 * kfi_trecvsgl() - post a receive for a tag into a mapped scatterlist
 * @ep: the endpoint
 * @sgl: the list
 * @desc: of our memory
 * @count: how many
 * @src_addr: does not count for connected endpoints
 * @tag: the tag
 * @ignore: bits of the tag that do not count
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_trecvsgl(struct kfid_ep *ep, const struct scatterlist *sgl, void **desc,
				   size_t count, kfi_addr_t src_addr, uint64_t tag, uint64_t ignore,
				   void *context)
{
	return ep->tagged->recvsgl(ep, sgl, desc, count, src_addr, tag, ignore, context);
}

/**
 * kfi_trecvmsg() - post a receive that a structure describes
 * @ep: the endpoint
 * @msg: what to do
 * @flags: of this operation alone
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_trecvmsg(struct kfid_ep *ep, const struct kfi_msg_tagged *msg,
				   uint64_t flags)
{
	return ep->tagged->recvmsg(ep, msg, flags);
}

/**
 * kfi_tsend() - post a message with a tag
 * @ep: the endpoint
 * @buf: our memory
 * @len: bytes
 * @desc: of our memory
 * @dest_addr: does not count for connected endpoints
 * @tag: the tag
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_tsend(struct kfid_ep *ep, const void *buf, size_t len, void *desc,
				kfi_addr_t dest_addr, uint64_t tag, void *context)
{
	return ep->tagged->send(ep, buf, len, desc, dest_addr, tag, context);
}

/**
 * kfi_tsendv() - post a message with a tag from several pieces
 * @ep: the endpoint
 * @iov: the pieces
 * @desc: of our memory
 * @count: how many
 * @dest_addr: does not count for connected endpoints
 * @tag: the tag
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_tsendv(struct kfid_ep *ep, const struct kvec *iov, void **desc,
				 size_t count, kfi_addr_t dest_addr, uint64_t tag, void *context)
{
	return ep->tagged->sendv(ep, iov, desc, count, dest_addr, tag, context);
}

/**
 * kfi_tsendbv() - post a message with a tag from pages
 * @ep: the endpoint
 * @biov: the pages
 * @desc: of our memory
 * @count: how many
 * @dest_addr: does not count for connected endpoints
 * @tag: the tag
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_tsendbv(struct kfid_ep *ep, const struct bio_vec *biov, void **desc,
				  size_t count, kfi_addr_t dest_addr, uint64_t tag, void *context)
{
	return ep->tagged->sendbv(ep, biov, desc, count, dest_addr, tag, context);
}

/**
 * kfi_tsendsgl() - post a message with a tag from a mapped scatterlist
 * @ep: the endpoint
 * @sgl: the list
 * @desc: of our memory
 * @count: how many
 * @dest_addr: does not count for connected endpoints
 * @tag: the tag
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_tsendsgl(struct kfid_ep *ep, const struct scatterlist *sgl, void **desc,
				   size_t count, kfi_addr_t dest_addr, uint64_t tag, void *context)
{
	return ep->tagged->sendsgl(ep, sgl, desc, count, dest_addr, tag, context);
}

/**
 * kfi_tsendmsg() - post a message that a structure describes
 * @ep: the endpoint
 * @msg: what to do
 * @flags: of this operation alone
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_tsendmsg(struct kfid_ep *ep, const struct kfi_msg_tagged *msg,
				   uint64_t flags)
{
	return ep->tagged->sendmsg(ep, msg, flags);
}

/**
 * kfi_tinject() - send a short message with a tag without completion
 * @ep: the endpoint
 * @buf: our memory
 * @len: bytes
 * @dest_addr: does not count for connected endpoints
 * @tag: the tag
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_tinject(struct kfid_ep *ep, const void *buf, size_t len,
				  kfi_addr_t dest_addr, uint64_t tag)
{
	return ep->tagged->inject(ep, buf, len, dest_addr, tag);
}

/**
 * kfi_tsenddata() - post a message with a tag and data for the peer's completion
 * @ep: the endpoint
 * @buf: our memory
 * @len: bytes
 * @desc: of our memory
 * @data: for the peer's completion
 * @dest_addr: does not count for connected endpoints
 * @tag: the tag
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_tsenddata(struct kfid_ep *ep, const void *buf, size_t len, void *desc,
				    uint64_t data, kfi_addr_t dest_addr, uint64_t tag,
				    void *context)
{
	return ep->tagged->senddata(ep, buf, len, desc, data, dest_addr, tag, context);
}

/**
 * kfi_tinjectdata() - kfi_tinject() with data for the peer's completion
 * @ep: the endpoint
 * @buf: our memory
 * @len: bytes
 * @data: for the peer's completion
 * @dest_addr: does not count for connected endpoints
 * @tag: the tag
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_tinjectdata(struct kfid_ep *ep, const void *buf, size_t len,
				      uint64_t data, kfi_addr_t dest_addr, uint64_t tag)
{
	return ep->tagged->injectdata(ep, buf, len, data, dest_addr, tag);
}

#else
#include <kfi_direct_tagged.h>
#endif

#endif /* _KFI_TAGGED_H_ */
