/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * kfi_domain.h - domains, memory regions and address vectors
 */
#ifndef _KFI_DOMAIN_H_
#define _KFI_DOMAIN_H_

#include <linux/bvec.h>
#include <linux/uio.h>

#include "kfabric.h"
#include "kfi_eq.h"

struct scatterlist;

/* Flags of address vectors */
#define KFI_SYMMETRIC		(1ULL << 59)
#define KFI_SYNC_ERR		(1ULL << 58)

struct kfi_av_attr {
	enum kfi_av_type	type;
	int			rx_ctx_bits;
	size_t			count;
	size_t			ep_per_node;
	const char		*name;
	void			*map_addr;
	uint64_t		flags;
};

struct kfi_ops_av {
	size_t		size;
	int		(*insert)(struct kfid_av *av, const void *addr, size_t count,
				  kfi_addr_t *kfi_addr, uint64_t flags, void *context);
	int		(*insertsvc)(struct kfid_av *av, const char *node, const char *service,
				     kfi_addr_t *kfi_addr, uint64_t flags, void *context);
	int		(*insertsym)(struct kfid_av *av, const char *node, size_t nodecnt,
				     const char *service, size_t svccnt, kfi_addr_t *kfi_addr,
				     uint64_t flags, void *context);
	int		(*remove)(struct kfid_av *av, kfi_addr_t *kfi_addr, size_t count,
				  uint64_t flags);
	int		(*lookup)(struct kfid_av *av, kfi_addr_t kfi_addr, void *addr,
				  size_t *addrlen);
	const char *	(*straddr)(struct kfid_av *av, const void *addr, char *buf, size_t *len);
};

struct kfid_av {
	struct kfid		fid;
	struct kfi_ops_av	*ops;
};

/**
 * struct kfid_mr - a memory region
 * @fid: what all objects have
 * @mem_desc: for the desc arguments of operations
 * @key: for the peer
 * @iova: the region's address for peers where that is not 0
 */
struct kfid_mr {
	struct kfid		fid;
	void			*mem_desc;
	uint64_t		key;
	uint64_t		iova;
};

/**
 * struct kfi_mr_attr - what kfi_mr_regattr() registers
 * @type: which of the three pointers counts
 * @mr_iov: with KFI_KVEC
 * @mr_biov: with KFI_BVEC
 * @mr_sgl: not supported
 * @iov_count: pieces, up to kfi_domain_attr.mr_iov_limit
 * @access: what it is for: KFI_SEND, KFI_RECV, KFI_READ, KFI_WRITE, KFI_REMOTE_READ,
 *	KFI_REMOTE_WRITE
 * @offset: 0
 * @requested_key: the key, unless the domain chooses keys (KFI_MR_PROV_KEY)
 * @context: the client's
 * @auth_key_size: 0
 * @auth_key: NULL
 */
struct kfi_mr_attr {
	enum kfi_iov_type	type;
	union {
		const struct kvec		*mr_iov;
		const struct bio_vec		*mr_biov;
		const struct scatterlist	*mr_sgl;
	};
	size_t			iov_count;
	uint64_t		access;
	uint64_t		offset;
	uint64_t		requested_key;
	void			*context;
	size_t			auth_key_size;
	uint8_t			*auth_key;
};

struct kfi_mr_modify {
	uint64_t		flags;
	struct kfi_mr_attr	attr;
};

/* Of atomic operations */
enum kfi_datatype {
	KFI_INT8,
	KFI_UINT8,
	KFI_INT16,
	KFI_UINT16,
	KFI_INT32,
	KFI_UINT32,
	KFI_INT64,
	KFI_UINT64,
	KFI_FLOAT,
	KFI_DOUBLE,
	KFI_FLOAT_COMPLEX,
	KFI_DOUBLE_COMPLEX,
	KFI_LONG_DOUBLE,
	KFI_LONG_DOUBLE_COMPLEX,
	KFI_DATATYPE_LAST
};

enum kfi_op {
	KFI_MIN,
	KFI_MAX,
	KFI_SUM,
	KFI_PROD,
	KFI_LOR,
	KFI_LAND,
	KFI_BOR,
	KFI_BAND,
	KFI_LXOR,
	KFI_BXOR,
	KFI_ATOMIC_READ,
	KFI_ATOMIC_WRITE,
	KFI_CSWAP,
	KFI_CSWAP_NE,
	KFI_CSWAP_LE,
	KFI_CSWAP_LT,
	KFI_CSWAP_GE,
	KFI_CSWAP_GT,
	KFI_MSWAP,
	KFI_ATOMIC_OP_LAST
};

struct kfi_atomic_attr;

struct kfi_ops_domain {
	size_t	size;
	int	(*av_open)(struct kfid_domain *domain, struct kfi_av_attr *attr,
			   struct kfid_av **av, void *context);
	int	(*cq_open)(struct kfid_domain *domain, struct kfi_cq_attr *attr,
			   struct kfid_cq **cq, kfi_comp_handler comp_handler, void *context);
	int	(*endpoint)(struct kfid_domain *domain, struct kfi_info *info,
			    struct kfid_ep **ep, void *context);
	int	(*scalable_ep)(struct kfid_domain *domain, struct kfi_info *info,
			       struct kfid_ep **sep, void *context);
	int	(*cntr_open)(struct kfid_domain *domain, struct kfi_cntr_attr *attr,
			     struct kfid_cntr **cntr, void *context);
	int	(*poll_open)(struct kfid_domain *domain, struct kfi_poll_attr *attr,
			     struct kfid_poll **pollset);
	int	(*stx_ctx)(struct kfid_domain *domain, struct kfi_tx_attr *attr,
			   struct kfid_stx **stx, void *context);
	int	(*srx_ctx)(struct kfid_domain *domain, struct kfi_rx_attr *attr,
			   struct kfid_ep **rx_ep, void *context);
	int	(*query_atomic)(struct kfid_domain *domain, enum kfi_datatype datatype,
				enum kfi_op op, struct kfi_atomic_attr *attr, uint64_t flags);
};

struct kfi_ops_mr {
	size_t	size;
	int	(*reg)(struct kfid *fid, const void *buf, size_t len, uint64_t access,
		       uint64_t offset, uint64_t requested_key, uint64_t flags,
		       struct kfid_mr **mr, void *context);
	int	(*regv)(struct kfid *fid, const struct kvec *iov, size_t count, uint64_t access,
			uint64_t offset, uint64_t requested_key, uint64_t flags,
			struct kfid_mr **mr, void *context);
	int	(*regbv)(struct kfid *fid, const struct bio_vec *biov, size_t count,
			 uint64_t access, uint64_t offset, uint64_t requested_key,
			 uint64_t flags, struct kfid_mr **mr, void *context);
	int	(*regattr)(struct kfid *fid, const struct kfi_mr_attr *attr, uint64_t flags,
			   struct kfid_mr **mr);
	int	(*regsgl)(struct kfid *fid, const struct scatterlist *sgl, size_t count,
			  uint64_t access, uint64_t offset, uint64_t requested_key,
			  uint64_t flags, struct kfid_mr **mr, void *context);
};

/* A flag of kfi_domain_bind(): registrations report KFI_MR_COMPLETE */
#define KFI_REG_MR		(1ULL << 59)

struct kfid_domain {
	struct kfid		fid;
	struct kfi_ops_domain	*ops;
	struct kfi_ops_mr	*mr;
};

#ifndef KFABRIC_DIRECT

/**
 * kfi_domain() - open a domain
 * @fabric: in which fabric
 * @info: from kfi_getinfo() or from a KFI_CONNREQ event
 * @domain: where the domain goes
 * @context: the client's
 *
 * Context: Process context, may sleep.
 * Return: 0; -EINVAL without info or for one of another fabric; -ENOMEM.
 */
static inline int kfi_domain(struct kfid_fabric *fabric, struct kfi_info *info,
			     struct kfid_domain **domain, void *context)
{
	return fabric->ops->domain(fabric, info, domain, context);
}

/**
 * kfi_domain_bind() - bind an event queue to a domain, for asynchronous registrations
 * @domain: the domain
 * @fid: the queue
 * @flags: KFI_REG_MR or 0
 *
 * Context: Process context, may sleep.
 * Return: -ENOSYS here: registrations are done when their call returns.
 */
static inline int kfi_domain_bind(struct kfid_domain *domain, struct kfid *fid, uint64_t flags)
{
	return domain->fid.ops->bind(&domain->fid, fid, flags);
}

/**
 * kfi_cq_open() - open a completion queue
 * @domain: in which domain
 * @attr: what it is to be like, or NULL for the defaults
 * @cq: where the queue goes
 * @comp_handler: told when there is something to read, or NULL
 * @context: given to the handler
 *
 * Context: Process context, may sleep.
 * Return: 0; -EINVAL for attributes that make no sense; -ENOSYS for a wait object that is not
 * supported; -ENOMEM.
 */
static inline int kfi_cq_open(struct kfid_domain *domain, struct kfi_cq_attr *attr,
			      struct kfid_cq **cq, kfi_comp_handler comp_handler, void *context)
{
	return domain->ops->cq_open(domain, attr, cq, comp_handler, context);
}

/**
 * kfi_cntr_open() - open a counter
 * @domain: in which domain
 * @attr: what it is to be like, or NULL for the defaults
 * @cntr: where the counter goes
 * @context: the client's
 *
 * Context: Process context, may sleep.
 * Return: 0; -EINVAL for attributes that make no sense; -ENOSYS for a wait object that is not
 * supported; -ENOMEM.
 */
static inline int kfi_cntr_open(struct kfid_domain *domain, struct kfi_cntr_attr *attr,
				struct kfid_cntr **cntr, void *context)
{
	return domain->ops->cntr_open(domain, attr, cntr, context);
}

/**
 * kfi_wait_open() - open a wait set
 * @fabric: in which fabric
 * @attr: KFI_WAIT_UNSPEC, or NULL
 * @waitset: where the set goes
 *
 * Queues get into a set when they are opened (KFI_WAIT_SET), and leave it when they are closed.
 *
 * Context: Process context, may sleep.
 * Return: 0; -EINVAL; -ENOSYS for a wait object that is not supported; -ENOMEM.
 */
static inline int kfi_wait_open(struct kfid_fabric *fabric, struct kfi_wait_attr *attr,
				struct kfid_wait **waitset)
{
	return fabric->ops->wait_open(fabric, attr, waitset);
}

/**
 * kfi_poll_open() - open a poll set
 * @domain: in which domain
 * @attr: what it is to be like, or NULL for the defaults
 * @pollset: where the set goes
 *
 * Context: Process context, may sleep.
 * Return: -ENOSYS here.
 */
static inline int kfi_poll_open(struct kfid_domain *domain, struct kfi_poll_attr *attr,
				struct kfid_poll **pollset)
{
	return domain->ops->poll_open(domain, attr, pollset);
}

/**
 * kfi_mr_reg() - register memory
 * @domain: in which domain
 * @buf: the memory, by its kernel virtual address; it stays where it is until the region is closed
 * @len: bytes
 * @access: as in kfi_mr_attr
 * @offset: 0
 * @requested_key: as in kfi_mr_attr
 * @flags: 0
 * @mr: where the region goes
 * @context: the client's
 *
 * Context: Process context, may sleep.
 * Return: 0; -EINVAL; -KFI_EBADFLAGS for other access or flags; -KFI_ENOKEY for a key that is in
 * use; -ENOMEM.
 */
static inline int kfi_mr_reg(struct kfid_domain *domain, const void *buf, size_t len,
			     uint64_t access, uint64_t offset, uint64_t requested_key,
			     uint64_t flags, struct kfid_mr **mr, void *context)
{
	return domain->mr->reg(&domain->fid, buf, len, access, offset, requested_key, flags, mr,
			       context);
}

/**
 * kfi_mr_regv() - register several pieces of memory as one region
 * @domain: in which domain
 * @iov: the pieces; peers see them as one range
 * @count: how many
 * @access: as in kfi_mr_attr
 * @offset: 0
 * @requested_key: as in kfi_mr_attr
 * @flags: 0
 * @mr: where the region goes
 * @context: the client's
 *
 * Context: Process context, may sleep.
 * Return: as kfi_mr_reg().
 */
static inline int kfi_mr_regv(struct kfid_domain *domain, const struct kvec *iov, size_t count,
			      uint64_t access, uint64_t offset, uint64_t requested_key,
			      uint64_t flags, struct kfid_mr **mr, void *context)
{
	return domain->mr->regv(&domain->fid, iov, count, access, offset, requested_key, flags,
				mr, context);
}

/**
 * kfi_mr_regbv() - register pages as one region
 * @domain: in which domain
 * @biov: the pages; the client holds them until the region is closed
 * @count: how many
 * @access: as in kfi_mr_attr
 * @offset: 0
 * @requested_key: as in kfi_mr_attr
 * @flags: 0
 * @mr: where the region goes
 * @context: the client's
 *
 * Context: Process context, may sleep.
 * Return: as kfi_mr_reg().
 */
static inline int kfi_mr_regbv(struct kfid_domain *domain, const struct bio_vec *biov,
			       size_t count, uint64_t access, uint64_t offset,
			       uint64_t requested_key, uint64_t flags, struct kfid_mr **mr,
			       void *context)
{
	return domain->mr->regbv(&domain->fid, biov, count, access, offset, requested_key, flags,
				 mr, context);
}

/**
 * kfi_mr_regsgl() - register a mapped scatterlist
 * @domain: in which domain
 * @sgl: the list
 * @count: its length
 * @access: as in kfi_mr_attr
 * @offset: 0
 * @requested_key: as in kfi_mr_attr
 * @flags: 0
 * @mr: where the region goes
 * @context: the client's
 *
 * Context: Process context, may sleep.
 * Return: -ENOSYS here.
 */
static inline int kfi_mr_regsgl(struct kfid_domain *domain, const struct scatterlist *sgl,
				size_t count, uint64_t access, uint64_t offset,
				uint64_t requested_key, uint64_t flags, struct kfid_mr **mr,
				void *context)
{
	return domain->mr->regsgl(&domain->fid, sgl, count, access, offset, requested_key, flags,
				  mr, context);
}

/**
 * kfi_mr_regattr() - register what a structure describes
 * @domain: in which domain
 * @attr: the memory and its use
 * @flags: 0
 * @mr: where the region goes
 *
 * Context: Process context, may sleep.
 * Return: as kfi_mr_reg(); -ENOSYS for a scatterlist.
 */
static inline int kfi_mr_regattr(struct kfid_domain *domain, const struct kfi_mr_attr *attr,
				 uint64_t flags, struct kfid_mr **mr)
{
	return domain->mr->regattr(&domain->fid, attr, flags, mr);
}

/**
 * kfi_mr_desc() - a region's descriptor for operations
 * @mr: the region
 *
 * Context: Any.
 * Return: the descriptor, which may be NULL.
 */
static inline void *kfi_mr_desc(struct kfid_mr *mr)
{
	return mr->mem_desc;
}

/**
 * kfi_mr_key() - a region's key for peers
 * @mr: the region
 *
 * Context: Any.
 * Return: the key.
 */
static inline uint64_t kfi_mr_key(struct kfid_mr *mr)
{
	return mr->key;
}

/**
 * kfi_mr_raw_attr() - a region's key where it is no integer
 * @mr: the region
 * @base_addr: where its address goes
 * @raw_key: where the key goes
 * @key_size: room there, and its size
 * @flags: 0
 *
 * Context: Process context.
 * Return: -ENOSYS here: keys are integers.
 */
static inline int kfi_mr_raw_attr(struct kfid_mr *mr, uint64_t *base_addr, uint8_t *raw_key,
				  size_t *key_size, uint64_t flags)
{
	struct kfi_mr_raw_attr attr = {
		.flags = flags,
		.base_addr = base_addr,
		.raw_key = raw_key,
		.key_size = key_size,
	};

	return kfi_control(&mr->fid, KFI_GET_RAW_MR, &attr);
}

/**
 * kfi_mr_map_raw() - an integer for a peer's key
 * @domain: the domain
 * @base_addr: the region's address
 * @raw_key: the key
 * @key_size: its size
 * @key: where the integer goes
 * @flags: 0
 *
 * Context: Process context.
 * Return: -ENOSYS here: keys are integers.
 */
static inline int kfi_mr_map_raw(struct kfid_domain *domain, uint64_t base_addr, uint8_t *raw_key,
				 size_t key_size, uint64_t *key, uint64_t flags)
{
	struct kfi_mr_map_raw map = {
		.flags = flags,
		.base_addr = base_addr,
		.raw_key = raw_key,
		.key_size = key_size,
		.key = key,
	};

	return kfi_control(&domain->fid, KFI_MAP_RAW_MR, &map);
}

/**
 * kfi_mr_unmap_key() - undo kfi_mr_map_raw()
 * @domain: the domain
 * @key: the integer
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline int kfi_mr_unmap_key(struct kfid_domain *domain, uint64_t key)
{
	return kfi_control(&domain->fid, KFI_UNMAP_KEY, &key);
}

/**
 * kfi_mr_bind() - bind a counter or endpoint to a region
 * @mr: the region
 * @bfid: what is bound
 * @flags: for what
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline int kfi_mr_bind(struct kfid_mr *mr, struct kfid *bfid, uint64_t flags)
{
	return mr->fid.ops->bind(&mr->fid, bfid, flags);
}

/**
 * kfi_mr_refresh() - tell that pages behind a region have changed
 * @mr: the region
 * @iov: where
 * @count: how many pieces
 * @flags: 0
 *
 * Context: Process context.
 * Return: -ENOSYS here.
 */
static inline int kfi_mr_refresh(struct kfid_mr *mr, const struct kvec *iov, size_t count,
				 uint64_t flags)
{
	struct kfi_mr_modify modify = {
		.flags = flags,
		.attr = {
			.type = KFI_KVEC,
			.mr_iov = iov,
			.iov_count = count,
		},
	};

	return kfi_control(&mr->fid, KFI_REFRESH, &modify);
}

/**
 * kfi_mr_enable() - begin the use of a region that something was bound to
 * @mr: the region
 *
 * Context: Process context.
 * Return: -ENOSYS here: regions are ready when they are registered.
 */
static inline int kfi_mr_enable(struct kfid_mr *mr)
{
	return kfi_control(&mr->fid, KFI_ENABLE, NULL);
}

/**
 * kfi_av_open() - open an address vector
 * @domain: in which domain
 * @attr: what it is to be like
 * @av: where the vector goes
 * @context: the client's
 *
 * Context: Process context, may sleep.
 * Return: -ENOSYS here: only connected endpoints are offered.
 */
static inline int kfi_av_open(struct kfid_domain *domain, struct kfi_av_attr *attr,
			      struct kfid_av **av, void *context)
{
	return domain->ops->av_open(domain, attr, av, context);
}

/**
 * kfi_av_bind() - bind an event queue to an address vector
 * @av: the vector
 * @fid: the queue
 * @flags: 0
 *
 * Context: Process context.
 * Return: 0 or an error.
 */
static inline int kfi_av_bind(struct kfid_av *av, struct kfid *fid, uint64_t flags)
{
	return av->fid.ops->bind(&av->fid, fid, flags);
}

/**
 * kfi_av_insert() - insert addresses
 * @av: the vector
 * @addr: an array of addresses
 * @count: how many
 * @kfi_addr: where their handles go, or NULL
 * @flags: 0
 * @context: of the event of an asynchronous insertion
 *
 * Context: Process context.
 * Return: how many were inserted, or an error.
 */
static inline int kfi_av_insert(struct kfid_av *av, const void *addr, size_t count,
				kfi_addr_t *kfi_addr, uint64_t flags, void *context)
{
	return av->ops->insert(av, addr, count, kfi_addr, flags, context);
}

/**
 * kfi_av_insertsvc() - insert the address of a node and service
 * @av: the vector
 * @node: the node
 * @service: the service
 * @kfi_addr: where the handle goes, or NULL
 * @flags: 0
 * @context: of the event of an asynchronous insertion
 *
 * Context: Process context.
 * Return: 1, or an error.
 */
static inline int kfi_av_insertsvc(struct kfid_av *av, const char *node, const char *service,
				   kfi_addr_t *kfi_addr, uint64_t flags, void *context)
{
	return av->ops->insertsvc(av, node, service, kfi_addr, flags, context);
}

/**
 * kfi_av_insertsym() - insert ranges of nodes and services
 * @av: the vector
 * @node: the first node
 * @nodecnt: how many
 * @service: the first service
 * @svccnt: how many
 * @kfi_addr: where the handles go, or NULL
 * @flags: 0
 * @context: of the event of an asynchronous insertion
 *
 * Context: Process context.
 * Return: how many were inserted, or an error; -ENOSYS from providers that have no such operation.
 */
static inline int kfi_av_insertsym(struct kfid_av *av, const char *node, size_t nodecnt,
				   const char *service, size_t svccnt, kfi_addr_t *kfi_addr,
				   uint64_t flags, void *context)
{
	/* A gap in the table of kfabric's own provider. */
	if (!av->ops->insertsym)
		return -ENOSYS;
	return av->ops->insertsym(av, node, nodecnt, service, svccnt, kfi_addr, flags, context);
}

/**
 * kfi_av_remove() - remove addresses
 * @av: the vector
 * @kfi_addr: an array of handles
 * @count: how many
 * @flags: 0
 *
 * Context: Process context.
 * Return: 0 or an error.
 */
static inline int kfi_av_remove(struct kfid_av *av, kfi_addr_t *kfi_addr, size_t count,
				uint64_t flags)
{
	return av->ops->remove(av, kfi_addr, count, flags);
}

/**
 * kfi_av_lookup() - the address of a handle
 * @av: the vector
 * @kfi_addr: the handle
 * @addr: where the address goes
 * @addrlen: room there, and its size
 *
 * Context: Process context.
 * Return: 0 or an error.
 */
static inline int kfi_av_lookup(struct kfid_av *av, kfi_addr_t kfi_addr, void *addr,
				size_t *addrlen)
{
	return av->ops->lookup(av, kfi_addr, addr, addrlen);
}

/**
 * kfi_av_straddr() - an address as text
 * @av: the vector
 * @addr: the address
 * @buf: where the text goes
 * @len: room there, and the text's size
 *
 * Context: Process context.
 * Return: @buf.
 */
static inline const char *kfi_av_straddr(struct kfid_av *av, const void *addr, char *buf,
					 size_t *len)
{
	return av->ops->straddr(av, addr, buf, len);
}

/**
 * kfi_rx_addr() - the handle of one receive context of a scalable endpoint
 * @kfi_addr: the endpoint's handle
 * @rx_index: which context
 * @rx_ctx_bits: as in kfi_av_attr
 *
 * Context: Any.
 * Return: the handle.
 */
static inline kfi_addr_t kfi_rx_addr(kfi_addr_t kfi_addr, int rx_index, int rx_ctx_bits)
{
	if (rx_ctx_bits <= 0)
		return kfi_addr;
	return kfi_addr | ((uint64_t)rx_index << (64 - rx_ctx_bits));
}

#else
#include <kfi_direct_domain.h>
#endif

#endif /* _KFI_DOMAIN_H_ */
