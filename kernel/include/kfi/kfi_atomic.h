/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * kfi_atomic.h - atomic operations on a peer's memory regions
 *
 * The providers of this module have none: all of these are -ENOSYS for their endpoints
 */
#ifndef _KFI_ATOMIC_H_
#define _KFI_ATOMIC_H_

#include "kfi_endpoint.h"

struct kfi_ioc {
	void			*addr;
	size_t			count;
};

struct kfi_rma_ioc {
	uint64_t		addr;
	size_t			count;
	uint64_t		key;
};

struct kfi_atomic_attr {
	size_t			count;
	size_t			size;
};

struct kfi_msg_atomic {
	const struct kfi_ioc	*msg_iov;
	void			**desc;
	size_t			iov_count;
	kfi_addr_t		addr;
	const struct kfi_rma_ioc *rma_iov;
	size_t			rma_iov_count;
	enum kfi_datatype	datatype;
	enum kfi_op		op;
	void			*context;
	uint64_t		data;
};

struct kfi_msg_fetch {
	struct kfi_ioc		*msg_iov;
	void			**desc;
	size_t			iov_count;
};

struct kfi_msg_compare {
	const struct kfi_ioc	*msg_iov;
	void			**desc;
	size_t			iov_count;
};

struct kfi_ops_atomic {
	size_t	size;
	ssize_t	(*write)(struct kfid_ep *ep, const void *buf, size_t count, void *desc,
			 kfi_addr_t dest_addr, uint64_t addr, uint64_t key,
			 enum kfi_datatype datatype, enum kfi_op op, void *context);
	ssize_t	(*writev)(struct kfid_ep *ep, const struct kfi_ioc *iov, void **desc, size_t count,
			  kfi_addr_t dest_addr, uint64_t addr, uint64_t key,
			  enum kfi_datatype datatype, enum kfi_op op, void *context);
	ssize_t	(*writemsg)(struct kfid_ep *ep, const struct kfi_msg_atomic *msg, uint64_t flags);
	ssize_t	(*inject)(struct kfid_ep *ep, const void *buf, size_t count, kfi_addr_t dest_addr,
			  uint64_t addr, uint64_t key, enum kfi_datatype datatype, enum kfi_op op);
	ssize_t	(*readwrite)(struct kfid_ep *ep, const void *buf, size_t count, void *desc,
			     void *result, void *result_desc, kfi_addr_t dest_addr, uint64_t addr,
			     uint64_t key, enum kfi_datatype datatype, enum kfi_op op,
			     void *context);
	ssize_t	(*readwritev)(struct kfid_ep *ep, const struct kfi_ioc *iov, void **desc,
			      size_t count, struct kfi_ioc *resultv, void **result_desc,
			      size_t result_count, kfi_addr_t dest_addr, uint64_t addr,
			      uint64_t key, enum kfi_datatype datatype, enum kfi_op op,
			      void *context);
	ssize_t	(*readwritemsg)(struct kfid_ep *ep, const struct kfi_msg_atomic *msg,
				struct kfi_ioc *resultv, void **result_desc, size_t result_count,
				uint64_t flags);
	ssize_t	(*compwrite)(struct kfid_ep *ep, const void *buf, size_t count, void *desc,
			     const void *compare, void *compare_desc, void *result,
			     void *result_desc, kfi_addr_t dest_addr, uint64_t addr, uint64_t key,
			     enum kfi_datatype datatype, enum kfi_op op, void *context);
	ssize_t	(*compwritev)(struct kfid_ep *ep, const struct kfi_ioc *iov, void **desc,
			      size_t count, const struct kfi_ioc *comparev, void **compare_desc,
			      size_t compare_count, struct kfi_ioc *resultv, void **result_desc,
			      size_t result_count, kfi_addr_t dest_addr, uint64_t addr,
			      uint64_t key, enum kfi_datatype datatype, enum kfi_op op,
			      void *context);
	ssize_t	(*compwritemsg)(struct kfid_ep *ep, const struct kfi_msg_atomic *msg,
				const struct kfi_ioc *comparev, void **compare_desc,
				size_t compare_count, struct kfi_ioc *resultv, void **result_desc,
				size_t result_count, uint64_t flags);
	int	(*writevalid)(struct kfid_ep *ep, enum kfi_datatype datatype, enum kfi_op op,
			      size_t *count);
	int	(*readwritevalid)(struct kfid_ep *ep, enum kfi_datatype datatype, enum kfi_op op,
				  size_t *count);
	int	(*compwritevalid)(struct kfid_ep *ep, enum kfi_datatype datatype, enum kfi_op op,
				  size_t *count);
};

#ifndef KFABRIC_DIRECT

/**
 * kfi_atomic() - change a peer's memory
 * @ep: the endpoint
 * @buf: our memory
 * @count: how many
 * @desc: of our memory
 * @dest_addr: does not count for connected endpoints
 * @addr: the peer's address of the memory
 * @key: the peer's key of the memory
 * @datatype: of the elements
 * @op: what is done with them
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_atomic(struct kfid_ep *ep, const void *buf, size_t count, void *desc,
				 kfi_addr_t dest_addr, uint64_t addr, uint64_t key,
				 enum kfi_datatype datatype, enum kfi_op op, void *context)
{
	return ep->atomic->write(ep, buf, count, desc, dest_addr, addr, key, datatype, op, context);
}

/**
 * kfi_atomicv() - change a peer's memory by several pieces
 * @ep: the endpoint
 * @iov: the pieces
 * @desc: of our memory
 * @count: how many
 * @dest_addr: does not count for connected endpoints
 * @addr: the peer's address of the memory
 * @key: the peer's key of the memory
 * @datatype: of the elements
 * @op: what is done with them
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_atomicv(struct kfid_ep *ep, const struct kfi_ioc *iov, void **desc,
				  size_t count, kfi_addr_t dest_addr, uint64_t addr, uint64_t key,
				  enum kfi_datatype datatype, enum kfi_op op, void *context)
{
	return ep->atomic->writev(ep, iov, desc, count, dest_addr, addr, key, datatype, op,
				  context);
}

/**
 * kfi_atomicmsg() - change what a structure describes
 * @ep: the endpoint
 * @msg: what to do
 * @flags: of this operation alone
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_atomicmsg(struct kfid_ep *ep, const struct kfi_msg_atomic *msg,
				    uint64_t flags)
{
	return ep->atomic->writemsg(ep, msg, flags);
}

/**
 * kfi_inject_atomic() - change a peer's memory without completion
 * @ep: the endpoint
 * @buf: our memory
 * @count: how many
 * @dest_addr: does not count for connected endpoints
 * @addr: the peer's address of the memory
 * @key: the peer's key of the memory
 * @datatype: of the elements
 * @op: what is done with them
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_inject_atomic(struct kfid_ep *ep, const void *buf, size_t count,
					kfi_addr_t dest_addr, uint64_t addr, uint64_t key,
					enum kfi_datatype datatype, enum kfi_op op)
{
	return ep->atomic->inject(ep, buf, count, dest_addr, addr, key, datatype, op);
}

/**
 * kfi_fetch_atomic() - change a peer's memory and get what was there
 * @ep: the endpoint
 * @buf: our memory
 * @count: how many
 * @desc: of our memory
 * @result: where the old values go
 * @result_desc: of the results
 * @dest_addr: does not count for connected endpoints
 * @addr: the peer's address of the memory
 * @key: the peer's key of the memory
 * @datatype: of the elements
 * @op: what is done with them
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_fetch_atomic(struct kfid_ep *ep, const void *buf, size_t count,
				       void *desc, void *result, void *result_desc,
				       kfi_addr_t dest_addr, uint64_t addr, uint64_t key,
				       enum kfi_datatype datatype, enum kfi_op op, void *context)
{
	return ep->atomic->readwrite(ep, buf, count, desc, result, result_desc, dest_addr, addr,
				     key, datatype, op, context);
}

/**
 * kfi_fetch_atomicv() - kfi_fetch_atomic() of several pieces
 * @ep: the endpoint
 * @iov: the pieces
 * @desc: of our memory
 * @count: how many
 * @resultv: where the old values go
 * @result_desc: of the results
 * @result_count: how many pieces there
 * @dest_addr: does not count for connected endpoints
 * @addr: the peer's address of the memory
 * @key: the peer's key of the memory
 * @datatype: of the elements
 * @op: what is done with them
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_fetch_atomicv(struct kfid_ep *ep, const struct kfi_ioc *iov, void **desc,
					size_t count, struct kfi_ioc *resultv, void **result_desc,
					size_t result_count, kfi_addr_t dest_addr, uint64_t addr,
					uint64_t key, enum kfi_datatype datatype, enum kfi_op op,
					void *context)
{
	return ep->atomic->readwritev(ep, iov, desc, count, resultv, result_desc, result_count,
				      dest_addr, addr, key, datatype, op, context);
}

/**
 * kfi_fetch_atomicmsg() - kfi_fetch_atomic() of what a structure describes
 * @ep: the endpoint
 * @msg: what to do
 * @resultv: where the old values go
 * @result_desc: of the results
 * @result_count: how many pieces there
 * @flags: of this operation alone
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_fetch_atomicmsg(struct kfid_ep *ep, const struct kfi_msg_atomic *msg,
					  struct kfi_ioc *resultv, void **result_desc,
					  size_t result_count, uint64_t flags)
{
	return ep->atomic->readwritemsg(ep, msg, resultv, result_desc, result_count, flags);
}

/**
 * kfi_compare_atomic() - compare a peer's memory, then change it
 * @ep: the endpoint
 * @buf: our memory
 * @count: how many
 * @desc: of our memory
 * @compare: what is compared with
 * @compare_desc: of that
 * @result: where the old values go
 * @result_desc: of the results
 * @dest_addr: does not count for connected endpoints
 * @addr: the peer's address of the memory
 * @key: the peer's key of the memory
 * @datatype: of the elements
 * @op: what is done with them
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_compare_atomic(struct kfid_ep *ep, const void *buf, size_t count,
					 void *desc, const void *compare, void *compare_desc,
					 void *result, void *result_desc, kfi_addr_t dest_addr,
					 uint64_t addr, uint64_t key, enum kfi_datatype datatype,
					 enum kfi_op op, void *context)
{
	return ep->atomic->compwrite(ep, buf, count, desc, compare, compare_desc, result,
				     result_desc, dest_addr, addr, key, datatype, op, context);
}

/**
 * kfi_compare_atomicv() - kfi_compare_atomic() of several pieces
 * @ep: the endpoint
 * @iov: the pieces
 * @desc: of our memory
 * @count: how many
 * @comparev: what is compared with
 * @compare_desc: of that
 * @compare_count: how many pieces of that
 * @resultv: where the old values go
 * @result_desc: of the results
 * @result_count: how many pieces there
 * @dest_addr: does not count for connected endpoints
 * @addr: the peer's address of the memory
 * @key: the peer's key of the memory
 * @datatype: of the elements
 * @op: what is done with them
 * @context: comes back with the completion
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_compare_atomicv(struct kfid_ep *ep, const struct kfi_ioc *iov,
					  void **desc, size_t count, const struct kfi_ioc *comparev,
					  void **compare_desc, size_t compare_count,
					  struct kfi_ioc *resultv, void **result_desc,
					  size_t result_count, kfi_addr_t dest_addr, uint64_t addr,
					  uint64_t key, enum kfi_datatype datatype, enum kfi_op op,
					  void *context)
{
	return ep->atomic->compwritev(ep, iov, desc, count, comparev, compare_desc, compare_count,
				      resultv, result_desc, result_count, dest_addr, addr, key,
				      datatype, op, context);
}

/**
 * kfi_compare_atomicmsg() - kfi_compare_atomic() of what a structure describes
 * @ep: the endpoint
 * @msg: what to do
 * @comparev: what is compared with
 * @compare_desc: of that
 * @compare_count: how many pieces of that
 * @resultv: where the old values go
 * @result_desc: of the results
 * @result_count: how many pieces there
 * @flags: of this operation alone
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline ssize_t kfi_compare_atomicmsg(struct kfid_ep *ep, const struct kfi_msg_atomic *msg,
					    const struct kfi_ioc *comparev, void **compare_desc,
					    size_t compare_count, struct kfi_ioc *resultv,
					    void **result_desc, size_t result_count, uint64_t flags)
{
	return ep->atomic->compwritemsg(ep, msg, comparev, compare_desc, compare_count, resultv,
					result_desc, result_count, flags);
}

/**
 * kfi_atomicvalid() - how many elements kfi_atomic() takes
 * @ep: the endpoint
 * @datatype: of the elements
 * @op: what is done with them
 * @count: how many
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline int kfi_atomicvalid(struct kfid_ep *ep, enum kfi_datatype datatype, enum kfi_op op,
				  size_t *count)
{
	return ep->atomic->writevalid(ep, datatype, op, count);
}

/**
 * kfi_fetch_atomicvalid() - how many elements kfi_fetch_atomic() takes
 * @ep: the endpoint
 * @datatype: of the elements
 * @op: what is done with them
 * @count: how many
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline int kfi_fetch_atomicvalid(struct kfid_ep *ep, enum kfi_datatype datatype,
					enum kfi_op op, size_t *count)
{
	return ep->atomic->readwritevalid(ep, datatype, op, count);
}

/**
 * kfi_compare_atomicvalid() - how many elements kfi_compare_atomic() takes
 * @ep: the endpoint
 * @datatype: of the elements
 * @op: what is done with them
 * @count: how many
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline int kfi_compare_atomicvalid(struct kfid_ep *ep, enum kfi_datatype datatype,
					  enum kfi_op op, size_t *count)
{
	return ep->atomic->compwritevalid(ep, datatype, op, count);
}

/**
 * kfi_query_atomic() - what a domain can do with a type and operation
 * @domain: the domain
 * @datatype: the type
 * @op: the operation
 * @attr: where the answer goes
 * @flags: which kind of operation
 *
 * Context: Process context.
 * Return: 0 or an error; -ENOSYS here.
 */
static inline int kfi_query_atomic(struct kfid_domain *domain, enum kfi_datatype datatype,
				   enum kfi_op op, struct kfi_atomic_attr *attr, uint64_t flags)
{
	if (!KFI_CHECK_OP(domain->ops, struct kfi_ops_domain, query_atomic))
		return -ENOSYS;
	return domain->ops->query_atomic(domain, datatype, op, attr, flags);
}

#else
#include <kfi_direct_atomic.h>
#endif

#endif /* _KFI_ATOMIC_H_ */
