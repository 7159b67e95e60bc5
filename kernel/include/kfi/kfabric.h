/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * kfabric.h - the object model: infos, fabrics, and what all objects have in common
 *
 * Names, signatures, values and the order of members are those of kfabric 1.7, so that clients of
 * kfabric compile without change. What differs is said where it does: more is checked, and every
 * entry of an operation table is there.
 *
 * Rules for all calls, unless a call's own description says otherwise:
 *
 * - Context: process context, may sleep, no locks held that a queue's handler takes. Posting (send,
 *   receive, read, write) and reading of queues take mutexes, too: they are not for interrupts or
 *   softirqs either.
 * - An object that a call returns belongs to the caller, until kfi_close() of it succeeds.
 * - Attributes, infos, addresses and names are only read during the call; nobody keeps pointers to
 *   them.
 * - Wrong use answers an error and changes nothing: no table entry is NULL, NULL attributes mean
 *   the defaults where there are such and are -EINVAL elsewhere, and objects of the wrong class are
 *   -EINVAL.
 */
#ifndef _KFABRIC_H_
#define _KFABRIC_H_

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/kernel.h>
#include <linux/stddef.h>
#include <linux/types.h>

#include "kfi_errno.h"

#define KFI_DEFINE_HANDLE(name)			\
	struct name##_s { int dummy; };		\
	typedef struct name##_s *name

#define KFI_MAJOR_VERSION	1
#define KFI_MINOR_VERSION	7

enum {
	KFI_PATH_MAX	= 256,
	KFI_NAME_MAX	= 64,
	KFI_VERSION_MAX	= 64
};

#define KFI_VERSION(major, minor)	(((major) << 16) | (minor))
#define KFI_MAJOR(version)		((version) >> 16)
#define KFI_MINOR(version)		((version) & 0xFFFF)
/* Major above minor in one number: versions compare as numbers do. */
#define KFI_VERSION_GE(v1, v2)		((u32)(v1) >= (u32)(v2))
#define KFI_VERSION_LT(v1, v2)		((u32)(v1) < (u32)(v2))

#ifndef UINT64_MAX
#define UINT64_MAX	(~0ULL)
#endif

/**
 * kfi_version() - the version of this API
 *
 * Context: Any.
 * Return: KFI_VERSION(KFI_MAJOR_VERSION, KFI_MINOR_VERSION) of the running module.
 */
uint32_t kfi_version(void);

struct kfid;
struct kfid_fabric;
struct kfid_domain;
struct kfid_av;
struct kfid_wait;
struct kfid_poll;
struct kfid_eq;
struct kfid_cq;
struct kfid_cntr;
struct kfid_ep;
struct kfid_pep;
struct kfid_stx;
struct kfid_mr;

typedef struct kfid *kfid_t;

/* Values from here up belong to one provider. */
#define KFI_PROV_SPECIFIC	(1 << 31)

/* Capabilities, and flags of operations and completions: one space of bits. */
#define KFI_MSG			(1ULL << 1)
#define KFI_RMA			(1ULL << 2)
#define KFI_TAGGED		(1ULL << 3)
#define KFI_ATOMIC		(1ULL << 4)
#define KFI_ATOMICS		KFI_ATOMIC
#define KFI_MULTICAST		(1ULL << 5)
#define KFI_TAGGED_RMA		(1ULL << 6)

#define KFI_READ		(1ULL << 8)
#define KFI_WRITE		(1ULL << 9)
#define KFI_RECV		(1ULL << 10)
#define KFI_SEND		(1ULL << 11)
#define KFI_TRANSMIT		KFI_SEND
#define KFI_REMOTE_READ		(1ULL << 12)
#define KFI_REMOTE_WRITE	(1ULL << 13)

#define KFI_MULTI_RECV		(1ULL << 16)
#define KFI_REMOTE_CQ_DATA	(1ULL << 17)
#define KFI_MORE		(1ULL << 18)
#define KFI_PEEK		(1ULL << 19)
#define KFI_TRIGGER		(1ULL << 20)
#define KFI_FENCE		(1ULL << 21)

#define KFI_COMPLETION		(1ULL << 24)
#define KFI_EVENT		KFI_COMPLETION
#define KFI_INJECT		(1ULL << 25)
#define KFI_INJECT_COMPLETE	(1ULL << 26)
#define KFI_TRANSMIT_COMPLETE	(1ULL << 27)
#define KFI_DELIVERY_COMPLETE	(1ULL << 28)
#define KFI_AFFINITY		(1ULL << 29)
#define KFI_COMMIT_COMPLETE	(1ULL << 30)
#define KFI_TAGGED_MULTI_RECV	(1ULL << 31)

/*
 * Units of the timeout of kfi_eq_sread(), from the deck of 2015; kfabric and libfabric use neither
 * bit. Without one of them the timeout is in milliseconds; both at once are -EINVAL.
 */
#define KFI_TIME_US		(1ULL << 37)
#define KFI_TIME_MS		(1ULL << 38)

#define KFI_RMA_PMEM		(1ULL << 49)
#define KFI_SOURCE_ERR		(1ULL << 50)
#define KFI_LOCAL_COMM		(1ULL << 51)
#define KFI_REMOTE_COMM		(1ULL << 52)
#define KFI_SHARED_AV		(1ULL << 53)
#define KFI_PROV_ATTR_ONLY	(1ULL << 54)
#define KFI_NUMERICHOST		(1ULL << 55)
#define KFI_RMA_EVENT		(1ULL << 56)
#define KFI_SOURCE		(1ULL << 57)
#define KFI_NAMED_RX_CTX	(1ULL << 58)
#define KFI_DIRECTED_RECV	(1ULL << 59)

/* kfi_info.addr_format: what src_addr and dest_addr point to */
enum {
	KFI_FORMAT_UNSPEC,	/* void * */
	KFI_SOCKADDR,		/* struct sockaddr */
	KFI_SOCKADDR_IN,	/* struct sockaddr_in */
	KFI_SOCKADDR_IN6,	/* struct sockaddr_in6 */
	KFI_SOCKADDR_IB,	/* struct sockaddr_ib */
	KFI_ADDR_GNI,
	KFI_ADDR_CXI
};

#define KFI_ADDR_UNSPEC		UINT64_MAX
#define KFI_ADDR_NOTAVAIL	UINT64_MAX
#define KFI_KEY_NOTAVAIL	UINT64_MAX
#define KFI_SHARED_CONTEXT	UINT64_MAX

typedef uint64_t kfi_addr_t;

enum kfi_av_type {
	KFI_AV_UNSPEC,
	KFI_AV_MAP,
	KFI_AV_TABLE
};

/* kfi_domain_attr.mr_mode */
#define KFI_MR_LOCAL		(1 << 1)
#define KFI_MR_RAW		(1 << 2)
#define KFI_MR_VIRT_ADDR	(1 << 3)
#define KFI_MR_PROV_KEY		(1 << 4)
#define KFI_MR_RMA_EVENT	(1 << 5)
#define KFI_MR_ENDPOINT		(1 << 6)

enum kfi_progress {
	KFI_PROGRESS_UNSPEC,
	KFI_PROGRESS_AUTO,
	KFI_PROGRESS_MANUAL
};

enum kfi_threading {
	KFI_THREAD_UNSPEC,
	KFI_THREAD_SAFE,
	KFI_THREAD_FID,
	KFI_THREAD_DOMAIN,
	KFI_THREAD_COMPLETION,
	KFI_THREAD_ENDPOINT
};

enum kfi_resource_mgmt {
	KFI_RM_UNSPEC,
	KFI_RM_DISABLED,
	KFI_RM_ENABLED
};

/* msg_order and comp_order: what is not overtaken by what (R read, W write, S send) */
#define KFI_ORDER_NONE		0
#define KFI_ORDER_RAR		(1 << 0)
#define KFI_ORDER_RAW		(1 << 1)
#define KFI_ORDER_RAS		(1 << 2)
#define KFI_ORDER_WAR		(1 << 3)
#define KFI_ORDER_WAW		(1 << 4)
#define KFI_ORDER_WAS		(1 << 5)
#define KFI_ORDER_SAR		(1 << 6)
#define KFI_ORDER_SAW		(1 << 7)
#define KFI_ORDER_SAS		(1 << 8)
#define KFI_ORDER_STRICT	0x1FF
#define KFI_ORDER_DATA		(1 << 16)

enum kfi_ep_type {
	KFI_EP_UNSPEC,
	KFI_EP_MSG,
	KFI_EP_DGRAM,
	KFI_EP_RDM,
	KFI_EP_SOCK_STREAM,
	KFI_EP_SOCK_DGRAM
};

/* kfi_ep_attr.protocol; the values are not libfabric's */
enum {
	KFI_PROTO_UNSPEC,
	KFI_PROTO_RDMA_CM_IB_RC,
	KFI_PROTO_IWARP,
	KFI_PROTO_IB_UD,
	KFI_PROTO_UDP,
	KFI_PROTO_SOCK_TCP,
	KFI_PROTO_IWARP_RDM,
	KFI_PROTO_IB_RDM,
	KFI_PROTO_GNI,
	KFI_PROTO_CXI
};

/**
 * enum kfi_iov_type - which member of the union in kfi_msg, kfi_msg_rma, kfi_msg_tagged and
 * kfi_mr_attr counts
 * @KFI_KVEC: struct kvec, kernel virtual addresses
 * @KFI_BVEC: struct bio_vec, pages
 *
 * 0 is none of them: a structure that was only zeroed is -EINVAL.
 *
 * kfabric also has KFI_SGL (3), for scatterlists that the caller has mapped for DMA with the device
 * of the domain. A provider without a device has no use for them. The name is left out on purpose,
 * so that clients which look for it when they are configured pass pages instead; the value 3, and
 * the calls with a scatterlist, answer -ENOSYS.
 */
enum kfi_iov_type {
	KFI_KVEC = 1,
	KFI_BVEC
};

/* Traffic classes: a DSCP with a mark, or one of the labels */
enum {
	KFI_TC_UNSPEC = 0,
	KFI_TC_DSCP = 0x100,
	KFI_TC_LABEL = 0x200,
	KFI_TC_BEST_EFFORT = KFI_TC_LABEL,
	KFI_TC_LOW_LATENCY,
	KFI_TC_DEDICATED_ACCESS,
	KFI_TC_BULK_DATA,
	KFI_TC_SCAVENGER,
	KFI_TC_NETWORK_CTRL
};

/**
 * kfi_tc_dscp_set() - the traffic class of a DSCP
 * @dscp: the code point
 *
 * Context: Any.
 * Return: the value for a tclass member.
 */
static inline uint32_t kfi_tc_dscp_set(uint8_t dscp)
{
	return KFI_TC_DSCP | (uint32_t)dscp;
}

/**
 * kfi_tc_dscp_get() - the DSCP of a traffic class
 * @tclass: a traffic class
 *
 * Context: Any.
 * Return: the code point, 0 when the class is not one of a DSCP.
 */
static inline uint8_t kfi_tc_dscp_get(uint32_t tclass)
{
	return (tclass & KFI_TC_DSCP) ? (uint8_t)tclass : 0;
}

/* Modes: what a provider asks of its users */
#define KFI_CONTEXT		(1ULL << 59)
#define KFI_MSG_PREFIX		(1ULL << 58)
#define KFI_ASYNC_IOV		(1ULL << 57)
#define KFI_RX_CQ_DATA		(1ULL << 56)
#define KFI_LOCAL_MR		(1ULL << 55)
#define KFI_NOTIFY_FLAGS_ONLY	(1ULL << 54)
#define KFI_RESTRICTED_COMP	(1ULL << 53)
#define KFI_CONTEXT2		(1ULL << 52)

struct kfi_tx_attr {
	uint64_t		caps;
	uint64_t		mode;
	uint64_t		op_flags;
	uint64_t		msg_order;
	uint64_t		comp_order;
	size_t			inject_size;
	size_t			size;
	size_t			iov_limit;
	size_t			rma_iov_limit;
	uint32_t		tclass;
};

struct kfi_rx_attr {
	uint64_t		caps;
	uint64_t		mode;
	uint64_t		op_flags;
	uint64_t		msg_order;
	uint64_t		comp_order;
	size_t			total_buffered_recv;
	size_t			size;
	size_t			iov_limit;
};

struct kfi_ep_attr {
	enum kfi_ep_type	type;
	uint32_t		protocol;
	uint32_t		protocol_version;
	size_t			max_msg_size;
	size_t			msg_prefix_size;
	size_t			max_order_raw_size;
	size_t			max_order_war_size;
	size_t			max_order_waw_size;
	uint64_t		mem_tag_format;
	size_t			tx_ctx_cnt;
	size_t			rx_ctx_cnt;
	size_t			auth_key_size;
	uint8_t			*auth_key;
};

struct kfi_domain_attr {
	struct kfid_domain	*domain;
	char			*name;
	enum kfi_threading	threading;
	enum kfi_progress	control_progress;
	enum kfi_progress	data_progress;
	enum kfi_resource_mgmt	resource_mgmt;
	enum kfi_av_type	av_type;
	int			mr_mode;
	size_t			mr_key_size;
	size_t			cq_data_size;
	size_t			cq_cnt;
	size_t			ep_cnt;
	size_t			tx_ctx_cnt;
	size_t			rx_ctx_cnt;
	size_t			max_ep_tx_ctx;
	size_t			max_ep_rx_ctx;
	size_t			max_ep_stx_ctx;
	size_t			max_ep_srx_ctx;
	size_t			cntr_cnt;
	size_t			mr_iov_limit;
	uint64_t		caps;
	uint64_t		mode;
	uint8_t			*auth_key;
	size_t			auth_key_size;
	size_t			max_err_data;
	size_t			mr_cnt;
	uint32_t		tclass;
};

struct kfi_fabric_attr {
	struct kfid_fabric	*fabric;
	char			*name;
	char			*prov_name;
	uint32_t		prov_version;
	uint32_t		api_version;
};

/**
 * struct kfi_info - what a provider offers, or what a client asks for
 * @next: the next info of a list from kfi_getinfo()
 * @caps: what can be done (KFI_MSG and so on)
 * @mode: what the client has to do
 * @addr_format: what the addresses are
 * @src_addrlen: bytes of @src_addr
 * @dest_addrlen: bytes of @dest_addr
 * @src_addr: the local address, or NULL
 * @dest_addr: the peer's address, or NULL
 * @handle: of a KFI_CONNREQ event: the request, for kfi_endpoint() or kfi_reject(). Consumed by a
 *	successful kfi_accept() and by kfi_reject(); copied as it is by kfi_dupinfo(), and not
 *	touched by kfi_freeinfo()
 * @tx_attr: of the sending side
 * @rx_attr: of the receiving side
 * @ep_attr: of the endpoint
 * @domain_attr: of the domain
 * @fabric_attr: of the fabric
 *
 * Everything that an info from kfi_getinfo(), kfi_allocinfo(), kfi_dupinfo() or an event points to
 * belongs to it and was allocated by kmalloc(): kfi_freeinfo() frees it. Clients may replace
 * members by what they allocated likewise. The objects @handle, @domain_attr->domain and
 * @fabric_attr->fabric are only named.
 */
struct kfi_info {
	struct kfi_info		*next;
	uint64_t		caps;
	uint64_t		mode;
	uint32_t		addr_format;
	size_t			src_addrlen;
	size_t			dest_addrlen;
	void			*src_addr;
	void			*dest_addr;
	kfid_t			handle;
	struct kfi_tx_attr	*tx_attr;
	struct kfi_rx_attr	*rx_attr;
	struct kfi_ep_attr	*ep_attr;
	struct kfi_domain_attr	*domain_attr;
	struct kfi_fabric_attr	*fabric_attr;
};

/* kfid.fclass */
enum {
	KFI_CLASS_UNSPEC,
	KFI_CLASS_FABRIC,
	KFI_CLASS_DOMAIN,
	KFI_CLASS_EP,
	KFI_CLASS_SEP,
	KFI_CLASS_RX_CTX,
	KFI_CLASS_SRX_CTX,
	KFI_CLASS_TX_CTX,
	KFI_CLASS_STX_CTX,
	KFI_CLASS_PEP,
	KFI_CLASS_INTERFACE,
	KFI_CLASS_AV,
	KFI_CLASS_MR,
	KFI_CLASS_EQ,
	KFI_CLASS_CQ,
	KFI_CLASS_CNTR,
	KFI_CLASS_WAIT,
	KFI_CLASS_POLL,
	KFI_CLASS_CONNREQ
};

struct kfi_eq_attr;
struct kfi_wait_attr;

/**
 * typedef kfi_comp_handler - told that a completion queue has something to read
 * @cq: the queue
 * @context: the context with which it was opened
 *
 * The handler is armed when the queue is opened. It is called once, and armed again by a read that
 * finds the queue empty (-EAGAIN). If a completion came in between, that read arms it and it is
 * called at once: none is missed.
 *
 * Context: Process context, from a workqueue; no locks are held. It may read its queue and post
 * operations. It must not close the queue that it is called for.
 */
typedef void (*kfi_comp_handler)(struct kfid_cq *cq, void *context);

/**
 * typedef kfi_event_handler - told that an event queue has something to read
 * @eq: the queue
 * @context: the context with which it was opened
 *
 * As kfi_comp_handler.
 */
typedef void (*kfi_event_handler)(struct kfid_eq *eq, void *context);

/*
 * A flag of kfi_ep_bind() for completion queues: completions of operations with KFI_COMPLETION
 * only.
 */
#define KFI_SELECTIVE_COMPLETION	(1ULL << 59)

/* Operations of every object. Clients use the inline functions. */
struct kfi_ops {
	size_t	size;
	int	(*close)(struct kfid *fid);
	int	(*bind)(struct kfid *fid, struct kfid *bfid, uint64_t flags);
	int	(*control)(struct kfid *fid, int command, void *arg);
	int	(*ops_open)(struct kfid *fid, const char *name, uint64_t flags,
			    void **ops, void *context);
};

/**
 * struct kfid - what all objects begin with
 * @fclass: which kind of object it is (KFI_CLASS_EQ and so on)
 * @context: the client's, from the call that made the object; the client may change it
 * @ops: operations that all objects have
 * @comp: the provider's, to wait for the end of use
 * @ref_cnt: the provider's, uses
 */
struct kfid {
	size_t			fclass;
	void			*context;
	struct kfi_ops		*ops;
	struct completion	comp;
	atomic_t		ref_cnt;
};

/**
 * kfi_getinfo() - what the registered providers can do
 * @version: the API version that the client was written for; 0 means any
 * @node: a numeric address, or NULL; the peer's, with KFI_SOURCE the local one
 * @service: a port number, or NULL
 * @flags: KFI_SOURCE, KFI_NUMERICHOST (always the case here), KFI_PROV_ATTR_ONLY
 * @hints: what is wanted, or NULL for everything; zero members mean any
 * @info: where the list goes, best first; the caller frees it with kfi_freeinfo()
 *
 * The network namespace is the caller's.
 *
 * Context: Process context, may sleep.
 * Return: 0; -ENODATA when nothing fits; -ENODEV when the hints name a provider that is not
 * registered; -ENOSYS for a version above kfi_version() or of another major; -EINVAL for bad
 * arguments; -KFI_EBADFLAGS; -ENOMEM.
 */
int kfi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		struct kfi_info *hints, struct kfi_info **info);

/**
 * kfi_freeinfo() - free a list of infos
 * @info: the first one, or NULL
 *
 * Context: Any that may call kfree(). What an info names is not touched: not its handle, fabric or
 * domain.
 */
void kfi_freeinfo(struct kfi_info *info);

/**
 * kfi_allocinfo() - an empty info with all attributes, for hints
 *
 * Context: Process context, may sleep.
 * Return: the info, to be freed by kfi_freeinfo(), or NULL without memory.
 */
struct kfi_info *kfi_allocinfo(void);

/**
 * kfi_dupinfo() - a deep copy of one info
 * @info: what to copy; NULL makes it kfi_allocinfo(). Its @next is not followed
 *
 * Context: Process context, may sleep.
 * Return: the copy, to be freed by kfi_freeinfo(), or NULL without memory.
 */
struct kfi_info *kfi_dupinfo(const struct kfi_info *info);

/* Operations of fabrics */
struct kfi_ops_fabric {
	size_t	size;
	int	(*domain)(struct kfid_fabric *fabric, struct kfi_info *info,
			  struct kfid_domain **dom, void *context);
	int	(*passive_ep)(struct kfid_fabric *fabric, struct kfi_info *info,
			      struct kfid_pep **pep, void *context);
	int	(*eq_open)(struct kfid_fabric *fabric, struct kfi_eq_attr *attr,
			   struct kfid_eq **eq, kfi_event_handler event_handler, void *context);
	int	(*wait_open)(struct kfid_fabric *fabric, struct kfi_wait_attr *attr,
			     struct kfid_wait **waitset);
};

struct kfid_fabric {
	struct kfid		fid;
	struct kfi_ops_fabric	*ops;
	uint32_t		api_version;
};

/**
 * kfi_fabric() - open a fabric
 * @attr: of an info: @attr->prov_name says which provider, @attr->name which network
 * @fabric: where the fabric goes
 * @context: the client's
 *
 * The fabric, and all that is opened in it, works in the caller's network namespace. As long as it
 * is open, the provider's module cannot be removed.
 *
 * Context: Process context, may sleep.
 * Return: 0; -ENODEV when no such provider is registered; -ENODATA when the provider has no such
 * network; -EINVAL without @attr or provider name; -ENOMEM.
 */
int kfi_fabric(struct kfi_fabric_attr *attr, struct kfid_fabric **fabric, void *context);

/*
 * Whether a table has an operation: those of this module have all, those of others may be older or
 * have gaps.
 */
#define KFI_CHECK_OP(ops, opstype, op)	\
	((ops)->size > offsetof(opstype, op) && (ops)->op)

/**
 * kfi_close() - end an object
 * @fid: the object; NULL is -EINVAL
 *
 * Children are closed before their parents, and what is bound before what it is bound to. Closing
 * an endpoint ends its connection, and completes what is pending with -ECANCELED before it returns.
 * After kfi_shutdown() closing waits until the peer's system has all that was queued, within the
 * limit for that; and also without it for 200 ms, while the network reads memory of operations.
 * When that time is over, or a signal comes, the connection is reset.
 * Closing a queue waits for a handler of it that is running.
 *
 * The memory of closed objects of this module is kept for a while: closing one again is -EINVAL as
 * long as not many others were closed meanwhile.
 *
 * Context: Process context, may sleep; not from a handler of the same object.
 * Return: 0; -EBUSY while something needs the object, which is then unchanged; -EINVAL for a closed
 * object.
 */
static inline int kfi_close(struct kfid *fid)
{
	return fid ? fid->ops->close(fid) : -EINVAL;
}

struct kfi_alias {
	struct kfid		**fid;
	uint64_t		flags;
};

struct kfi_mr_raw_attr {
	uint64_t		flags;
	uint64_t		*base_addr;
	uint8_t			*raw_key;
	size_t			*key_size;
};

struct kfi_mr_map_raw {
	uint64_t		flags;
	uint64_t		base_addr;
	uint8_t			*raw_key;
	size_t			key_size;
	uint64_t		*key;
};

/* Commands of kfi_control(), and what arg is */
enum {
	KFI_GETFIDFLAG,		/* uint64_t * */
	KFI_SETFIDFLAG,		/* uint64_t * */
	KFI_GETOPSFLAG,		/* uint64_t * */
	KFI_SETOPSFLAG,		/* uint64_t * */
	KFI_ALIAS,		/* struct kfi_alias * */
	KFI_GETWAIT,		/* void ** */
	KFI_ENABLE,		/* NULL */
	KFI_BACKLOG,		/* int *, of a passive endpoint before kfi_listen() */
	KFI_GET_RAW_MR,		/* struct kfi_mr_raw_attr * */
	KFI_MAP_RAW_MR,		/* struct kfi_mr_map_raw * */
	KFI_UNMAP_KEY,		/* uint64_t * */
	KFI_QUEUE_WORK,		/* struct kfi_deferred_work * */
	KFI_CANCEL_WORK,	/* struct kfi_deferred_work * */
	KFI_FLUSH_WORK,		/* NULL */
	KFI_REFRESH		/* struct kfi_mr_modify * */
};

/**
 * kfi_control() - a command to an object
 * @fid: the object
 * @command: KFI_ENABLE and so on
 * @arg: what the command takes
 *
 * Of this module's objects, endpoints know KFI_ENABLE and passive endpoints KFI_BACKLOG.
 *
 * Context: Process context, may sleep.
 * Return: 0; -ENOSYS for other commands; -EINVAL without a needed @arg; what the command itself
 * answers.
 */
static inline int kfi_control(struct kfid *fid, int command, void *arg)
{
	return fid->ops->control(fid, command, arg);
}

/**
 * kfi_alias() - a second name of an object, with flags of its own
 * @fid: the object
 * @alias_fid: where the alias goes
 * @flags: of its operations
 *
 * Context: Process context, may sleep.
 * Return: -ENOSYS for this module's objects.
 */
static inline int kfi_alias(struct kfid *fid, struct kfid **alias_fid, uint64_t flags)
{
	struct kfi_alias alias = { .fid = alias_fid, .flags = flags };

	return kfi_control(fid, KFI_ALIAS, &alias);
}

/**
 * kfi_open_ops() - a provider's own operations
 * @fid: the object
 * @name: of the operations
 * @flags: 0
 * @ops: where the pointer to them goes
 * @context: the client's
 *
 * Context: Process context, may sleep.
 * Return: 0; -ENOSYS when the object has no operations with that name, as none of this module has.
 */
static inline int kfi_open_ops(struct kfid *fid, const char *name, uint64_t flags, void **ops,
			       void *context)
{
	return fid->ops->ops_open(fid, name, flags, ops, context);
}

/* What the data of kfi_tostr() is */
enum kfi_type {
	KFI_TYPE_INFO,			/* struct kfi_info */
	KFI_TYPE_EP_TYPE,		/* enum kfi_ep_type */
	KFI_TYPE_CAPS,			/* uint64_t */
	KFI_TYPE_OP_FLAGS,		/* uint64_t */
	KFI_TYPE_ADDR_FORMAT,		/* uint32_t */
	KFI_TYPE_TX_ATTR,		/* struct kfi_tx_attr */
	KFI_TYPE_RX_ATTR,		/* struct kfi_rx_attr */
	KFI_TYPE_EP_ATTR,		/* struct kfi_ep_attr */
	KFI_TYPE_DOMAIN_ATTR,		/* struct kfi_domain_attr */
	KFI_TYPE_FABRIC_ATTR,		/* struct kfi_fabric_attr */
	KFI_TYPE_THREADING,		/* enum kfi_threading */
	KFI_TYPE_PROGRESS,		/* enum kfi_progress */
	KFI_TYPE_PROTOCOL,		/* uint32_t */
	KFI_TYPE_MSG_ORDER,		/* uint64_t */
	KFI_TYPE_MODE,			/* uint64_t */
	KFI_TYPE_AV_TYPE,		/* enum kfi_av_type */
	KFI_TYPE_ATOMIC_TYPE,		/* enum kfi_datatype */
	KFI_TYPE_ATOMIC_OP,		/* enum kfi_op */
	KFI_TYPE_VERSION,		/* nothing */
	KFI_TYPE_EQ_EVENT,		/* uint32_t */
	KFI_TYPE_CQ_EVENT_FLAGS,	/* uint64_t */
	KFI_TYPE_MR_MODE,		/* int */
	KFI_TYPE_OP_TYPE		/* enum kfi_op_type */
};

/**
 * kfi_tostr() - a value as text, for logs
 * @data: points to the value
 * @datatype: what it is
 *
 * Context: Process context; may be called from several tasks at once.
 * Return: a text that is valid until this function has been called eight more times, by whomever;
 * long texts are cut. An empty text for NULL and for what is no kfi_type.
 */
char *kfi_tostr(const void *data, enum kfi_type datatype);

enum kfi_param_type {
	KFI_PARAM_STRING,
	KFI_PARAM_INT,
	KFI_PARAM_BOOL
};

struct kfi_param {
	const char		*name;
	enum kfi_param_type	type;
	const char		*help_string;
	const char		*value;
};

/**
 * kfi_getparams() - the parameters of all providers
 * @params: where the list would go
 * @count: where its length would go
 *
 * Parameters of this module are module parameters, see /sys/module/kofi/parameters.
 *
 * Context: Any.
 * Return: -ENOSYS.
 */
static inline int kfi_getparams(struct kfi_param **params, int *count)
{
	return -ENOSYS;
}

/**
 * kfi_freeparams() - free a list of kfi_getparams(), of which there is none
 * @params: ignored
 *
 * Context: Any.
 */
static inline void kfi_freeparams(struct kfi_param *params)
{
}

#ifndef KFABRIC_DIRECT

/*
 * What an operation's context points to where the mode is KFI_CONTEXT, which this module never asks
 * for
 */
struct kfi_context {
	void			*internal[4];
};

/* The same for KFI_CONTEXT2 */
struct kfi_context2 {
	void			*internal[8];
};

#else
#include <direct/kfi_direct.h>
#endif

#endif /* _KFABRIC_H_ */
