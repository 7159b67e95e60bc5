/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * kfi_rma.h - reading and writing a peer's memory regions
 */
#ifndef _KFI_RMA_H_
#define _KFI_RMA_H_

#include "kfabric.h"
#include "kfi_endpoint.h"

/**
 * struct kfi_rma_iov - a piece of a peer's memory
 * @addr: where it begins, in the region: from 0 on, or from the region's address with
 *	KFI_MR_VIRT_ADDR
 * @len: bytes
 * @key: of the region
 */
struct kfi_rma_iov {
	uint64_t		addr;
	size_t			len;
	uint64_t		key;
};

/**
 * struct kfi_msg_rma - a transfer for kfi_readmsg() and kfi_writemsg()
 * @type: as in struct kfi_msg
 * @msg_iov: with KFI_KVEC
 * @msg_biov: with KFI_BVEC
 * @msg_sgl: not supported
 * @desc: descriptors of our pieces, or NULL
 * @iov_count: how many
 * @addr: does not count for connected endpoints
 * @rma_iov: the peer's pieces, together as long as ours
 * @rma_iov_count: how many
 * @context: comes back with the completion
 * @data: goes to the peer with KFI_REMOTE_CQ_DATA
 */
struct kfi_msg_rma {
	enum kfi_iov_type	type;
	union {
		const struct kvec		*msg_iov;
		const struct bio_vec		*msg_biov;
		const struct scatterlist	*msg_sgl;
	};
	void			**desc;
	size_t			iov_count;
	kfi_addr_t		addr;
	const struct kfi_rma_iov *rma_iov;
	size_t			rma_iov_count;
	void			*context;
	uint64_t		data;
};

struct kfi_ops_rma {
	size_t	size;
	ssize_t	(*read)(struct kfid_ep *ep, void *buf, size_t len, void *desc, kfi_addr_t src_addr,
			uint64_t addr, uint64_t key, void *context);
	ssize_t	(*readv)(struct kfid_ep *ep, const struct kvec *iov, void **desc, size_t count,
			 kfi_addr_t src_addr, uint64_t addr, uint64_t key, void *context);
	ssize_t	(*readbv)(struct kfid_ep *ep, const struct bio_vec *biov, void **desc, size_t count,
			  kfi_addr_t src_addr, uint64_t addr, uint64_t key, void *context);
	ssize_t	(*readmsg)(struct kfid_ep *ep, const struct kfi_msg_rma *msg, uint64_t flags);
	ssize_t	(*write)(struct kfid_ep *ep, const void *buf, size_t len, void *desc,
			 kfi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context);
	ssize_t	(*writev)(struct kfid_ep *ep, const struct kvec *iov, void **desc, size_t count,
			  kfi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context);
	ssize_t	(*writebv)(struct kfid_ep *ep, const struct bio_vec *biov, void **desc,
			   size_t count, kfi_addr_t dest_addr, uint64_t addr, uint64_t key,
			   void *context);
	ssize_t	(*writemsg)(struct kfid_ep *ep, const struct kfi_msg_rma *msg, uint64_t flags);
	ssize_t	(*inject)(struct kfid_ep *ep, const void *buf, size_t len, kfi_addr_t dest_addr,
			  uint64_t addr, uint64_t key);
	ssize_t	(*writedata)(struct kfid_ep *ep, const void *buf, size_t len, void *desc,
			     uint64_t data, kfi_addr_t dest_addr, uint64_t addr, uint64_t key,
			     void *context);
	ssize_t	(*injectdata)(struct kfid_ep *ep, const void *buf, size_t len, uint64_t data,
			      kfi_addr_t dest_addr, uint64_t addr, uint64_t key);
	ssize_t	(*readsgl)(struct kfid_ep *ep, const struct scatterlist *sgl, void **desc,
			   size_t count, kfi_addr_t src_addr, uint64_t addr, uint64_t key,
			   void *context);
	ssize_t	(*writesgl)(struct kfid_ep *ep, const struct scatterlist *sgl, void **desc,
			    size_t count, kfi_addr_t dest_addr, uint64_t addr, uint64_t key,
			    void *context);
};

#ifndef KFABRIC_DIRECT

/**
 * kfi_read() - read a peer's memory
 * @ep: the endpoint
 * @buf: our memory
 * @len: bytes
 * @desc: of our memory
 * @src_addr: does not count for connected endpoints
 * @addr: the peer's address of the memory
 * @key: the peer's key of the memory
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: as at the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_read(struct kfid_ep *ep, void *buf, size_t len, void *desc,
			       kfi_addr_t src_addr, uint64_t addr, uint64_t key, void *context)
{
	return ep->rma->read(ep, buf, len, desc, src_addr, addr, key, context);
}

/**
 * kfi_readv() - read a peer's memory into several pieces
 * @ep: the endpoint
 * @iov: the pieces
 * @desc: of our memory
 * @count: how many
 * @src_addr: does not count for connected endpoints
 * @addr: the peer's address of the memory
 * @key: the peer's key of the memory
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: as at the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_readv(struct kfid_ep *ep, const struct kvec *iov, void **desc,
				size_t count, kfi_addr_t src_addr, uint64_t addr, uint64_t key,
				void *context)
{
	return ep->rma->readv(ep, iov, desc, count, src_addr, addr, key, context);
}

/**
 * kfi_readbv() - read a peer's memory into pages
 * @ep: the endpoint
 * @biov: the pages
 * @desc: of our memory
 * @count: how many
 * @src_addr: does not count for connected endpoints
 * @addr: the peer's address of the memory
 * @key: the peer's key of the memory
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: as at the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_readbv(struct kfid_ep *ep, const struct bio_vec *biov, void **desc,
				 size_t count, kfi_addr_t src_addr, uint64_t addr, uint64_t key,
				 void *context)
{
	return ep->rma->readbv(ep, biov, desc, count, src_addr, addr, key, context);
}

/**
 * kfi_readsgl() - read a peer's memory into a mapped scatterlist; -ENOSYS here
 * @ep: the endpoint
 * @sgl: the list
 * @desc: of our memory
 * @count: how many
 * @src_addr: does not count for connected endpoints
 * @addr: the peer's address of the memory
 * @key: the peer's key of the memory
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: as at the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_readsgl(struct kfid_ep *ep, const struct scatterlist *sgl, void **desc,
				  size_t count, kfi_addr_t src_addr, uint64_t addr, uint64_t key,
				  void *context)
{
	return ep->rma->readsgl(ep, sgl, desc, count, src_addr, addr, key, context);
}

/**
 * kfi_readmsg() - read what a structure describes
 * @ep: the endpoint
 * @msg: what to do
 * @flags: of this operation alone
 *
 * Context: Process context.
 * Return: as at the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_readmsg(struct kfid_ep *ep, const struct kfi_msg_rma *msg, uint64_t flags)
{
	return ep->rma->readmsg(ep, msg, flags);
}

/**
 * kfi_write() - write to a peer's memory
 * @ep: the endpoint
 * @buf: our memory
 * @len: bytes
 * @desc: of our memory
 * @dest_addr: does not count for connected endpoints
 * @addr: the peer's address of the memory
 * @key: the peer's key of the memory
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: as at the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_write(struct kfid_ep *ep, const void *buf, size_t len, void *desc,
				kfi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	return ep->rma->write(ep, buf, len, desc, dest_addr, addr, key, context);
}

/**
 * kfi_writev() - write several pieces to a peer's memory
 * @ep: the endpoint
 * @iov: the pieces
 * @desc: of our memory
 * @count: how many
 * @dest_addr: does not count for connected endpoints
 * @addr: the peer's address of the memory
 * @key: the peer's key of the memory
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: as at the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_writev(struct kfid_ep *ep, const struct kvec *iov, void **desc,
				 size_t count, kfi_addr_t dest_addr, uint64_t addr, uint64_t key,
				 void *context)
{
	return ep->rma->writev(ep, iov, desc, count, dest_addr, addr, key, context);
}

/**
 * kfi_writebv() - write pages to a peer's memory
 * @ep: the endpoint
 * @biov: the pages
 * @desc: of our memory
 * @count: how many
 * @dest_addr: does not count for connected endpoints
 * @addr: the peer's address of the memory
 * @key: the peer's key of the memory
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: as at the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_writebv(struct kfid_ep *ep, const struct bio_vec *biov, void **desc,
				  size_t count, kfi_addr_t dest_addr, uint64_t addr, uint64_t key,
				  void *context)
{
	return ep->rma->writebv(ep, biov, desc, count, dest_addr, addr, key, context);
}

/**
 * kfi_writesgl() - write a mapped scatterlist to a peer's memory; -ENOSYS here
 * @ep: the endpoint
 * @sgl: the list
 * @desc: of our memory
 * @count: how many
 * @dest_addr: does not count for connected endpoints
 * @addr: the peer's address of the memory
 * @key: the peer's key of the memory
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: as at the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_writesgl(struct kfid_ep *ep, const struct scatterlist *sgl, void **desc,
				   size_t count, kfi_addr_t dest_addr, uint64_t addr, uint64_t key,
				   void *context)
{
	return ep->rma->writesgl(ep, sgl, desc, count, dest_addr, addr, key, context);
}

/**
 * kfi_writemsg() - write what a structure describes
 * @ep: the endpoint
 * @msg: what to do
 * @flags: of this operation alone
 *
 * Context: Process context.
 * Return: as at the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_writemsg(struct kfid_ep *ep, const struct kfi_msg_rma *msg,
				   uint64_t flags)
{
	return ep->rma->writemsg(ep, msg, flags);
}

/**
 * kfi_inject_write() - write a few bytes without completion; buf is the caller's again at once
 * @ep: the endpoint
 * @buf: our memory
 * @len: bytes
 * @dest_addr: does not count for connected endpoints
 * @addr: the peer's address of the memory
 * @key: the peer's key of the memory
 *
 * Context: Process context.
 * Return: as at the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_inject_write(struct kfid_ep *ep, const void *buf, size_t len,
				       kfi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
	return ep->rma->inject(ep, buf, len, dest_addr, addr, key);
}

/**
 * kfi_writedata() - write, with data for the peer's completion queue
 * @ep: the endpoint
 * @buf: our memory
 * @len: bytes
 * @desc: of our memory
 * @data: for the peer's completion
 * @dest_addr: does not count for connected endpoints
 * @addr: the peer's address of the memory
 * @key: the peer's key of the memory
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: as at the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_writedata(struct kfid_ep *ep, const void *buf, size_t len, void *desc,
				    uint64_t data, kfi_addr_t dest_addr, uint64_t addr,
				    uint64_t key, void *context)
{
	return ep->rma->writedata(ep, buf, len, desc, data, dest_addr, addr, key, context);
}

/**
 * kfi_inject_writedata() - kfi_inject_write() with data for the peer's completion queue
 * @ep: the endpoint
 * @buf: our memory
 * @len: bytes
 * @data: for the peer's completion
 * @dest_addr: does not count for connected endpoints
 * @addr: the peer's address of the memory
 * @key: the peer's key of the memory
 *
 * Context: Process context.
 * Return: as at the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_inject_writedata(struct kfid_ep *ep, const void *buf, size_t len,
					   uint64_t data, kfi_addr_t dest_addr, uint64_t addr,
					   uint64_t key)
{
	return ep->rma->injectdata(ep, buf, len, data, dest_addr, addr, key);
}

#else
#include <kfi_direct_rma.h>
#endif

#endif /* _KFI_RMA_H_ */
