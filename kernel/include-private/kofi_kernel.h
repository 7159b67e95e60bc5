/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The boundary between kofi's Rust part and its C faces (kfi_*, fi_*).
 *
 * Everything here is implemented in kernel/rust/src. All rules of OFI's objects (states, -EBUSY, flags, the table of
 * wrong uses in docs/semantics.md) are decided there and in crates/core; a C face only translates structures.
 *
 * Conventions
 *
 *   Types      Fixed widths only. Nothing whose layout depends on the kernel's configuration crosses: kvec and bio_vec
 *              are the same on all 64-bit kernels, struct net and struct page are only pointed to.
 *   Constants  Those of libfabric 1.17, named KOFI_*. A face whose own numbers differ (kfabric's KFI_PROTO_*,
 *              KFI_ADDR_*) translates them.
 *   Results    0 or a count, or a negative error number: Linux's below 256, KOFI_E* from 256 on.
 *   Handles    Owned by who opened them, until their close returned 0. A close that fails (-EBUSY) changes nothing.
 *              A handle must not be used during or after its close; all other calls may be made at the same time from
 *              any number of tasks. NULL handles are refused with -EINVAL.
 *   fid        Each open takes the caller's own name of the object, which events of it carry: mostly the address of
 *              the face's object. It must be unique among open endpoints and passive endpoints of an event queue.
 *   Context    All calls: process context, may sleep. They take mutexes, and may be made by tasks that are writing
 *              memory out (memory is allocated by GFP_NOIO). None may be made from interrupts or under spinlocks.
 *              Handlers run in a workqueue, in process context, with no lock held.
 *   Progress   Automatic: a workqueue drives domains and listeners. Nobody needs to read a queue for that.
 */
#ifndef KOFI_KERNEL_H
#define KOFI_KERNEL_H

#include <linux/types.h>

struct net;
struct kofi_op;

/* ------------------------------------------------------------------------------------------------ constants */

#define KOFI_EOTHER		256
#define KOFI_ETOOSMALL		257
#define KOFI_EOPBADSTATE	258
#define KOFI_EAVAIL		259
#define KOFI_EBADFLAGS		260
#define KOFI_ENOEQ		261
#define KOFI_EDOMAIN		262
#define KOFI_ENOCQ		263
#define KOFI_ECRC		264
#define KOFI_ETRUNC		265
#define KOFI_ENOKEY		266
#define KOFI_ENOAV		267
#define KOFI_EOVERRUN		268
#define KOFI_ENORX		269
#define KOFI_ENOMR		270

#define KOFI_VERSION(major, minor)	(((uint32_t)(major) << 16) | (uint32_t)(minor))

/* Capabilities, operation and completion flags (one number space, as in libfabric). */
#define KOFI_MSG		(1ULL << 1)
#define KOFI_RMA		(1ULL << 2)
#define KOFI_TAGGED		(1ULL << 3)
#define KOFI_ATOMIC		(1ULL << 4)
#define KOFI_READ		(1ULL << 8)
#define KOFI_WRITE		(1ULL << 9)
#define KOFI_RECV		(1ULL << 10)
#define KOFI_SEND		(1ULL << 11)
#define KOFI_TRANSMIT		KOFI_SEND
#define KOFI_REMOTE_READ	(1ULL << 12)
#define KOFI_REMOTE_WRITE	(1ULL << 13)
#define KOFI_MULTI_RECV		(1ULL << 16)
#define KOFI_REMOTE_CQ_DATA	(1ULL << 17)
#define KOFI_MORE		(1ULL << 18)
#define KOFI_PEEK		(1ULL << 19)
#define KOFI_TRIGGER		(1ULL << 20)
#define KOFI_FENCE		(1ULL << 21)
#define KOFI_COMPLETION		(1ULL << 24)
#define KOFI_INJECT		(1ULL << 25)
#define KOFI_INJECT_COMPLETE	(1ULL << 26)
#define KOFI_TRANSMIT_COMPLETE	(1ULL << 27)
#define KOFI_DELIVERY_COMPLETE	(1ULL << 28)
#define KOFI_AFFINITY		(1ULL << 29)
#define KOFI_COMMIT_COMPLETE	(1ULL << 30)
#define KOFI_MATCH_COMPLETE	(1ULL << 31)
#define KOFI_TIME_US		(1ULL << 37)	/* kofi_eq_sread: timeout in microseconds (the deck's) */
#define KOFI_TIME_MS		(1ULL << 38)	/* kofi_eq_sread: in milliseconds, the default (the deck's) */
#define KOFI_LOCAL_COMM		(1ULL << 51)
#define KOFI_REMOTE_COMM	(1ULL << 52)
#define KOFI_NUMERICHOST	(1ULL << 55)	/* kofi_getinfo; always so in the kernel */
#define KOFI_SOURCE		(1ULL << 57)	/* kofi_getinfo: node and service are our own */
#define KOFI_PROV_ATTR_ONLY	(1ULL << 54)	/* kofi_getinfo: any one record per provider */
#define KOFI_RESCAN		(1ULL << 53)	/* kofi_getinfo: accepted; addresses are always looked up anew */
#define KOFI_SELECTIVE_COMPLETION (1ULL << 59)	/* kofi_ep_bind_cq */

/* ep.type, ep.protocol, addr_format, ... */
#define KOFI_EP_UNSPEC		0
#define KOFI_EP_MSG		1
#define KOFI_PROTO_UNSPEC	0
#define KOFI_PROTO_SOCK_TCP	6
#define KOFI_FORMAT_UNSPEC	0
#define KOFI_SOCKADDR		1
#define KOFI_SOCKADDR_IN	2
#define KOFI_SOCKADDR_IN6	3
#define KOFI_THREAD_SAFE	1
#define KOFI_PROGRESS_AUTO	1
#define KOFI_PROGRESS_MANUAL	2
#define KOFI_RM_DISABLED	1
#define KOFI_RM_ENABLED		2
#define KOFI_MR_BASIC		(1ULL << 0)
#define KOFI_MR_SCALABLE	(1ULL << 1)
#define KOFI_MR_LOCAL		(1ULL << 2)
#define KOFI_MR_VIRT_ADDR	(1ULL << 4)
#define KOFI_MR_ALLOCATED	(1ULL << 5)
#define KOFI_MR_PROV_KEY	(1ULL << 6)

/* Events (enum fi_eq_event). */
#define KOFI_NOTIFY		0
#define KOFI_CONNREQ		1
#define KOFI_CONNECTED		2
#define KOFI_SHUTDOWN		3

/* How a queue can be waited on. */
#define KOFI_WAIT_NONE		0	/* no blocking reads: -ENOSYS; a handler is fine */
#define KOFI_WAIT_UNSPEC	1	/* blocking reads */
#define KOFI_WAIT_SET		2	/* blocking reads of this queue, and kofi_wait on its set */

/* ------------------------------------------------------------------------------------------------ getinfo */

#define KOFI_NAME_MAX	64

/* struct sockaddr_in or sockaddr_in6, as it is; len 0: none. */
struct kofi_addr {
	uint32_t len;
	uint8_t bytes[28];
};

struct kofi_tx_attr {
	uint64_t caps, mode, op_flags, msg_order, comp_order;
	uint64_t inject_size, size, iov_limit, rma_iov_limit;
	uint32_t tclass, reserved;
};

struct kofi_rx_attr {
	uint64_t caps, mode, op_flags, msg_order, comp_order;
	uint64_t total_buffered_recv, size, iov_limit;
};

struct kofi_ep_attr {
	uint32_t type, protocol, protocol_version, reserved;
	uint64_t max_msg_size, msg_prefix_size;
	uint64_t max_order_raw_size, max_order_war_size, max_order_waw_size;
	uint64_t mem_tag_format, tx_ctx_cnt, rx_ctx_cnt;
	uint64_t auth_key_size;		/* 0 in records; other hints find nothing: there are no keys here */
};

struct kofi_domain_attr {
	char name[KOFI_NAME_MAX];	/* the interface */
	uint32_t threading, control_progress, data_progress, resource_mgmt, av_type, tclass;
	uint64_t mr_mode, mr_key_size, cq_data_size, cq_cnt, ep_cnt, tx_ctx_cnt, rx_ctx_cnt;
	uint64_t max_ep_tx_ctx, max_ep_rx_ctx, max_ep_stx_ctx, max_ep_srx_ctx, cntr_cnt, mr_iov_limit;
	uint64_t caps, mode, auth_key_size, max_err_data, mr_cnt;
};

struct kofi_fabric_attr {
	char name[KOFI_NAME_MAX];	/* the network, "192.0.2.0/24" */
	char prov_name[KOFI_NAME_MAX];	/* "tcp" */
	uint32_t prov_version, api_version;
};

/* Which parts of hints are there: the pointers that are not NULL in C's fi_info. Ignored in records. */
#define KOFI_HAS_TX_ATTR	(1u << 0)
#define KOFI_HAS_RX_ATTR	(1u << 1)
#define KOFI_HAS_EP_ATTR	(1u << 2)
#define KOFI_HAS_DOMAIN_ATTR	(1u << 3)
#define KOFI_HAS_FABRIC_ATTR	(1u << 4)

struct kofi_info {
	struct kofi_info *next;
	uint64_t caps, mode;
	uint32_t addr_format;
	uint32_t present;
	struct kofi_addr src_addr, dest_addr;
	uint64_t handle;		/* a connection request's name: see KOFI_CONNREQ; 0: none */
	struct kofi_tx_attr tx;
	struct kofi_rx_attr rx;
	struct kofi_ep_attr ep;
	struct kofi_domain_attr domain;
	struct kofi_fabric_attr fabric;
};

/*
 * A list of what meets the hints, best first, each record kmalloc'ed; free it by kofi_freeinfo. Zeros in hints mean "any", but
 * for mode, mr_mode and counts of contexts in parts that are there, as in fi_getinfo(3).
 * net: whose addresses; NULL: those of current's network namespace. node: an address in text form; service: a port.
 * -ENODATA: nothing matches (pr_debug tells which hint, and why); -ENOSYS: newer version; -KOFI_EBADFLAGS; -ENOMEM.
 */
int kofi_getinfo(struct net *net, uint32_t version, const char *node, const char *service, uint64_t flags,
		 const struct kofi_info *hints, struct kofi_info **list);
/* A copy of one record, without the list behind it; NULL: no memory. info NULL: an empty record. */
struct kofi_info *kofi_dupinfo(const struct kofi_info *info);
/* Frees the record and the list behind it. NULL is fine. Requests that they name live on. */
void kofi_freeinfo(struct kofi_info *list);

/* The version of the interfaces that this implements. */
uint32_t kofi_version(void);
/* The text of an error number, positive or negative. Never NULL, never freed. */
const char *kofi_strerror(int number);
/* fi_tostr(3): type is an FI_TYPE_* number of libfabric, data a kofi_info or its parts, a uint32_t (enumerations) or a
 * uint64_t (sets of flags). Gives the length of the text; what does not fit is cut off, and a zero put behind it.
 * -EINVAL for unknown types. */
#define KOFI_TYPE_INFO		0
#define KOFI_TYPE_EP_TYPE	1
#define KOFI_TYPE_CAPS		2
#define KOFI_TYPE_OP_FLAGS	3
#define KOFI_TYPE_ADDR_FORMAT	4
#define KOFI_TYPE_TX_ATTR	5
#define KOFI_TYPE_RX_ATTR	6
#define KOFI_TYPE_EP_ATTR	7
#define KOFI_TYPE_DOMAIN_ATTR	8
#define KOFI_TYPE_FABRIC_ATTR	9
#define KOFI_TYPE_THREADING	10
#define KOFI_TYPE_PROGRESS	11
#define KOFI_TYPE_PROTOCOL	12
#define KOFI_TYPE_MSG_ORDER	13
#define KOFI_TYPE_MODE		14
#define KOFI_TYPE_AV_TYPE	15
#define KOFI_TYPE_VERSION	18
#define KOFI_TYPE_EQ_EVENT	19
#define KOFI_TYPE_CQ_EVENT_FLAGS 20
#define KOFI_TYPE_MR_MODE	21
int kofi_tostr(uint32_t type, const void *data, char *text, size_t len);

/* ------------------------------------------------------------------------------------------------ fabric */

struct kofi_fabric;

/*
 * attr: which fabric, as a record's; NULL or an empty name: any. An unknown provider: -ENODEV.
 * net: the namespace of all its sockets, a reference to which is held; NULL: current's.
 */
int kofi_fabric_open(const struct kofi_fabric_attr *attr, struct net *net, struct kofi_fabric **fabric);
/* -EBUSY while domains, passive endpoints, event queues or wait sets are open. Requests that were read, and neither accepted nor
 * rejected, are refused. */
int kofi_fabric_close(struct kofi_fabric *fabric);

/* ------------------------------------------------------------------------------------------------ wait sets */

struct kofi_wait_set;

int kofi_wait_open(struct kofi_fabric *fabric, struct kofi_wait_set **set);
/* Until a queue of the set has something to read; milliseconds, negative: for ever. -EAGAIN: nothing came; also when a signal came,
 * or kthread_stop. */
int kofi_wait(struct kofi_wait_set *set, int timeout);
/* -EBUSY while queues belong to it, or a task waits. */
int kofi_wait_close(struct kofi_wait_set *set);

/* ------------------------------------------------------------------------------------------------ event queues */

struct kofi_eq;

/*
 * Called in a workqueue when something has come, once: again only after a read found the queue empty (-EAGAIN), and if something
 * has come then. It may read the queue and make any other call, but not close the queue (-EBUSY).
 */
typedef void (*kofi_handler)(void *context);

struct kofi_eq_attr {
	uint64_t size;			/* least number of events; 0: default */
	uint64_t flags;			/* KOFI_WRITE, KOFI_AFFINITY */
	uint32_t wait_obj;
	int32_t signaling_vector;	/* with KOFI_AFFINITY: the processor that handlers run on */
	struct kofi_wait_set *wait_set;	/* with KOFI_WAIT_SET, and only then */
	kofi_handler handler;		/* or NULL */
	void *handler_context;
};

/* attr NULL: defaults. -EINVAL for what the attributes must not be. */
int kofi_eq_open(struct kofi_fabric *fabric, const struct kofi_eq_attr *attr, struct kofi_eq **eq);

struct kofi_event {
	uint32_t event;			/* KOFI_NOTIFY ..., or the number given to kofi_eq_write */
	uint32_t is_cm;			/* 1: KOFI_CONNREQ, KOFI_CONNECTED, KOFI_SHUTDOWN; 0: written by the application */
	uint64_t fid;			/* of the object that it is about; for written ones: as given */
	/* KOFI_CONNREQ: the record to open an endpoint with, the caller's to free by kofi_freeinfo. Its handle names the request until
	 * it is accepted or rejected, or the fabric is closed. NULL when peeking: the request is taken only by reading it. */
	struct kofi_info *info;
	uint64_t data_len;		/* whole length of the private data, of which the room may have taken less */
};

/*
 * Takes the next event, or with KOFI_PEEK only looks. The caller's entry has a fixed part of cm_size bytes for connection events, which it
 * fills itself from *event; private data is put behind that, as far as len goes. A written entry is put at the beginning.
 * Gives the bytes of the entry: cm_size + private data copied, or the length of the written entry.
 * -EAGAIN: empty; -KOFI_EAVAIL: an error is next; -KOFI_ETOOSMALL: len < cm_size, or less than the written entry (nothing is taken);
 * -KOFI_EBADFLAGS.
 */
ssize_t kofi_eq_read(struct kofi_eq *eq, struct kofi_event *event, void *buffer, size_t len, size_t cm_size,
		     uint64_t flags);
/*
 * The same, waiting for it: timeout milliseconds (KOFI_TIME_US: microseconds), 0: not at all, negative: for ever.
 * -EAGAIN also when a signal comes, or when the task is a kernel thread that is told to stop. -ENOSYS with KOFI_WAIT_NONE;
 * -EINVAL for both units.
 */
ssize_t kofi_eq_sread(struct kofi_eq *eq, struct kofi_event *event, void *buffer, size_t len, size_t cm_size,
		      int timeout, uint64_t flags);

struct kofi_eq_error {
	uint64_t fid;
	uint64_t data;			/* 0 */
	int32_t err;			/* positive */
	int32_t prov_errno;
	/* In: room at err_data, err_data_size bytes, 0: none. Out: what the peer gave to reject, copied there, or without room
	 * the queue's own memory, valid until the next kofi_eq_readerr, or close. */
	void *err_data;
	uint64_t err_data_size;
};

/* Takes the next event, an error. 1, or -EAGAIN when the next one is none. flags: 0 or KOFI_PEEK. */
ssize_t kofi_eq_readerr(struct kofi_eq *eq, struct kofi_eq_error *error, uint64_t flags);
/* Puts in an event of the application's own, at most 1024 bytes; gives len. -EINVAL without KOFI_WRITE at open; -KOFI_EOVERRUN: full. */
ssize_t kofi_eq_write(struct kofi_eq *eq, uint32_t event, uint64_t fid, const void *buffer, size_t len, uint64_t flags);
/* The text of a prov_errno. Never NULL. */
const char *kofi_eq_strerror(struct kofi_eq *eq, int prov_errno);
/* -EBUSY while endpoints or passive endpoints are bound to it, a task waits on it, or from its own handler. */
int kofi_eq_close(struct kofi_eq *eq);

/* ------------------------------------------------------------------------------------------------ passive endpoints */

struct kofi_pep;

/* info: of type KOFI_EP_MSG; its src_addr is bound now. -EINVAL, -EADDRINUSE, -EADDRNOTAVAIL, -ENOMEM. */
int kofi_pep_open(struct kofi_fabric *fabric, const struct kofi_info *info, uint64_t fid, struct kofi_pep **pep);
/* Once, before listening. -EINVAL: a second queue, one of another fabric, flags; -KOFI_EOPBADSTATE: it listens. */
int kofi_pep_bind_eq(struct kofi_pep *pep, struct kofi_eq *eq, uint64_t flags);
/* Before listening, otherwise -KOFI_EOPBADSTATE. */
int kofi_pep_setname(struct kofi_pep *pep, const void *addr, size_t len);
/* *len: in: room, out: bytes of the address. -KOFI_ETOOSMALL: the beginning was copied. */
int kofi_pep_getname(struct kofi_pep *pep, void *addr, size_t *len);
/* -EINVAL for 0; -KOFI_EOPBADSTATE: it listens. */
int kofi_pep_set_backlog(struct kofi_pep *pep, int backlog);
/* -KOFI_ENOEQ: no queue is bound; -EINVAL: it listens already. */
int kofi_pep_listen(struct kofi_pep *pep);
/* Refuses a request and tells the peer. pep may be NULL (it may be closed by now), fabric then says where the request belongs.
 * -EINVAL: no such request (any more), or more than 256 bytes. */
int kofi_pep_reject(struct kofi_pep *pep, struct kofi_fabric *fabric, uint64_t handle, const void *data, size_t len);
/* Always 0: unread requests are withdrawn and refused; those that were read stay. */
int kofi_pep_close(struct kofi_pep *pep);

/* ------------------------------------------------------------------------------------------------ domains */

struct kofi_domain;

int kofi_domain_open(struct kofi_fabric *fabric, const struct kofi_info *info, struct kofi_domain **domain);
/* -EBUSY while endpoints, completion queues, counters or memory regions are open. */
int kofi_domain_close(struct kofi_domain *domain);

/* ------------------------------------------------------------------------------------------------ completion queues */

struct kofi_cq;

struct kofi_cq_attr {
	uint64_t size;			/* completions to have memory for from the start; a queue never overruns */
	uint64_t flags;			/* KOFI_AFFINITY */
	uint32_t wait_obj;
	int32_t signaling_vector;
	struct kofi_wait_set *wait_set;
	kofi_handler handler;		/* as for event queues */
	void *handler_context;
};

/* struct fi_cq_data_entry; other formats are its beginning or parts of it. */
struct kofi_cq_entry {
	uint64_t context;
	uint64_t flags;			/* KOFI_MSG | KOFI_SEND ... */
	uint64_t len;
	uint64_t buf;			/* receives: address of the message, in a buffer for several (KOFI_MULTI_RECV), too; else 0 */
	uint64_t data;
};

struct kofi_cq_error {
	uint64_t context;
	uint64_t flags;
	uint64_t len;
	uint64_t buf;			/* as above */
	uint64_t data;
	uint64_t olen;			/* bytes that had no room */
	int32_t err;			/* positive */
	int32_t prov_errno;
};

int kofi_cq_open(struct kofi_domain *domain, const struct kofi_cq_attr *attr, struct kofi_cq **cq);
/* Up to count completions; gives their number. -EAGAIN: none; -KOFI_EAVAIL: the next one is an error. */
ssize_t kofi_cq_read(struct kofi_cq *cq, struct kofi_cq_entry *entries, size_t count);
/* The next completion, an error: 1, or -EAGAIN. */
ssize_t kofi_cq_readerr(struct kofi_cq *cq, struct kofi_cq_error *error, uint64_t flags);
/* Waits until there are threshold completions (0: one), or an error among them; timeout in milliseconds: what there is then. As
 * kofi_eq_sread; -EAGAIN also after kofi_cq_signal. */
ssize_t kofi_cq_sread(struct kofi_cq *cq, struct kofi_cq_entry *entries, size_t count, size_t threshold, int timeout);
/* Ends one blocking read, a present or the next one. -ENOSYS with KOFI_WAIT_NONE. */
int kofi_cq_signal(struct kofi_cq *cq);
/* The text of a prov_errno. Never NULL. */
const char *kofi_cq_strerror(struct kofi_cq *cq, int prov_errno);
/* -EBUSY while endpoints are bound to it, a task waits on it, or from its own handler. */
int kofi_cq_close(struct kofi_cq *cq);

/* ------------------------------------------------------------------------------------------------ counters */

struct kofi_cntr;

/* wait_obj: KOFI_WAIT_NONE or KOFI_WAIT_UNSPEC. */
int kofi_cntr_open(struct kofi_domain *domain, uint32_t wait_obj, struct kofi_cntr **cntr);
uint64_t kofi_cntr_read(struct kofi_cntr *cntr);
uint64_t kofi_cntr_readerr(struct kofi_cntr *cntr);
int kofi_cntr_add(struct kofi_cntr *cntr, uint64_t value);
int kofi_cntr_set(struct kofi_cntr *cntr, uint64_t value);
int kofi_cntr_adderr(struct kofi_cntr *cntr, uint64_t value);
int kofi_cntr_seterr(struct kofi_cntr *cntr, uint64_t value);
/* Until its value is threshold or more. -KOFI_EAVAIL: an operation failed meanwhile; -ETIMEDOUT; -EAGAIN: signal, kthread_stop. */
int kofi_cntr_wait(struct kofi_cntr *cntr, uint64_t threshold, int timeout);
int kofi_cntr_close(struct kofi_cntr *cntr);

/* ------------------------------------------------------------------------------------------------ memory */

/* In struct kfi_msg's order of enum kfi_iov_type. */
#define KOFI_KVEC	1	/* segments: struct kvec[count] */
#define KOFI_BVEC	2	/* segments: struct bio_vec[count] */

#define KOFI_IOV_LIMIT	256	/* segments of an operation or a memory region */
#define KOFI_RMA_IOV_LIMIT 4	/* remote segments */

/* The list itself is copied by the call, the memory is not: it stays the operation's until its completion was read or its endpoint
 * closed, the region's until that is closed. Kernel memory that may be read and written through its kernel address. */
struct kofi_memory {
	uint32_t type;
	uint32_t count;
	const void *segments;
};

struct kofi_mr;

struct kofi_mr_attr {
	struct kofi_memory memory;
	uint64_t access;		/* KOFI_SEND, KOFI_RECV, KOFI_READ, KOFI_WRITE, KOFI_REMOTE_READ, KOFI_REMOTE_WRITE */
	uint64_t requested_key;		/* without KOFI_MR_PROV_KEY */
};

/* -KOFI_ENOKEY: the key is in use; -KOFI_EBADFLAGS, -EINVAL, -ENOMEM. */
int kofi_mr_reg(struct kofi_domain *domain, const struct kofi_mr_attr *attr, struct kofi_mr **mr);
uint64_t kofi_mr_key(struct kofi_mr *mr);
/* What peers call its first byte: its address with KOFI_MR_VIRT_ADDR, otherwise 0. */
uint64_t kofi_mr_base(struct kofi_mr *mr);
/* When this has returned nothing touches the memory any more. Always 0. */
int kofi_mr_close(struct kofi_mr *mr);

/* ------------------------------------------------------------------------------------------------ shared receive contexts */

/* One queue of receives for several endpoints of a domain, which take turns. A receive completes in the queue of the endpoint whose
 * message it got; one that is cancelled, or left when the context closes, in the context's own. */
struct kofi_srx;

/* attr: size, iov_limit and op_flags count, zeros are defaults; NULL: all defaults. -EINVAL: over what getinfo gives; -ENOMEM. */
int kofi_srx_open(struct kofi_domain *domain, const struct kofi_rx_attr *attr, struct kofi_srx **srx);
/* flags: KOFI_RECV. Once. */
int kofi_srx_bind_cq(struct kofi_srx *srx, struct kofi_cq *cq, uint64_t flags);
/* As kofi_recv; kofi_cancel; kofi_ep_getopt and _setopt. */
int kofi_srx_recv(struct kofi_srx *srx, const struct kofi_op *op);
int kofi_srx_cancel(struct kofi_srx *srx, uint64_t context);
int kofi_srx_getopt(struct kofi_srx *srx, int level, int optname, void *value, size_t *len);
int kofi_srx_setopt(struct kofi_srx *srx, int level, int optname, const void *value, size_t len);
/* -EBUSY while endpoints are bound to it. */
int kofi_srx_close(struct kofi_srx *srx);

/* ------------------------------------------------------------------------------------------------ endpoints */

struct kofi_ep;

/* info: one of kofi_getinfo's, or of KOFI_CONNREQ, whose handle it then has: the endpoint can accept only. Its sizes, limits and addresses may
 * have been changed within what the provider has. */
int kofi_ep_open(struct kofi_domain *domain, const struct kofi_info *info, uint64_t fid, struct kofi_ep **ep);
int kofi_ep_bind_eq(struct kofi_ep *ep, struct kofi_eq *eq, uint64_t flags);
/* flags: KOFI_TRANSMIT, KOFI_RECV, KOFI_SELECTIVE_COMPLETION. */
int kofi_ep_bind_cq(struct kofi_ep *ep, struct kofi_cq *cq, uint64_t flags);
/* flags: KOFI_SEND, KOFI_RECV, KOFI_READ, KOFI_WRITE, KOFI_REMOTE_READ, KOFI_REMOTE_WRITE. */
int kofi_ep_bind_cntr(struct kofi_ep *ep, struct kofi_cntr *cntr, uint64_t flags);
/* From then on its receives are those of the context. flags: 0. -EINVAL: a second one, or of another domain; -KOFI_EOPBADSTATE. */
int kofi_ep_bind_srx(struct kofi_ep *ep, struct kofi_srx *srx, uint64_t flags);
int kofi_ep_enable(struct kofi_ep *ep);

/* addr NULL: the info's dest_addr. 0: started; how it went is an event. */
int kofi_ep_connect(struct kofi_ep *ep, const void *addr, size_t addrlen, const void *data, size_t len);
int kofi_ep_accept(struct kofi_ep *ep, const void *data, size_t len);
int kofi_ep_shutdown(struct kofi_ep *ep, uint64_t flags);
int kofi_ep_getname(struct kofi_ep *ep, void *addr, size_t *len);
int kofi_ep_getpeer(struct kofi_ep *ep, void *addr, size_t *len);

/* level 0 (FI_OPT_ENDPOINT), optname as libfabric: 0 FI_OPT_MIN_MULTI_RECV (size_t), 1 FI_OPT_CM_DATA_SIZE (size_t; read only).
 * *len: in: room, out: size. -ENOPROTOOPT: unknown; -KOFI_ETOOSMALL. */
#define KOFI_OPT_ENDPOINT	0
#define KOFI_OPT_MIN_MULTI_RECV	0
#define KOFI_OPT_CM_DATA_SIZE	1
int kofi_ep_getopt(struct kofi_ep *ep, int level, int optname, void *value, size_t *len);
int kofi_ep_setopt(struct kofi_ep *ep, int level, int optname, const void *value, size_t len);
/* KOFI_OPT_CM_DATA_SIZE of any endpoint: bytes of private data. */
#define KOFI_CM_DATA_SIZE	256

struct kofi_rma_iov {
	uint64_t addr;
	uint64_t len;
	uint64_t key;
};

struct kofi_op {
	struct kofi_memory memory;		/* count 0: no bytes */
	uint64_t context;			/* comes back with the completion */
	uint64_t flags;				/* KOFI_COMPLETION, KOFI_INJECT, KOFI_MORE, KOFI_REMOTE_CQ_DATA, levels */
	uint64_t data;				/* counts with KOFI_REMOTE_CQ_DATA */
	const struct kofi_rma_iov *remote;	/* reads and writes */
	uint32_t remote_count;
	/* 1: the flags are those of the endpoint's info (tx.op_flags, rx.op_flags) and these: fi_send and its kind.
	 * 0: these, and nothing else: fi_sendmsg and its kind. */
	uint32_t default_flags;
};

/*
 * Post an operation. -EAGAIN: the queue is full, read completions; -ENOTCONN, -ESHUTDOWN, -KOFI_EOPBADSTATE by state;
 * -EMSGSIZE, -EINVAL over a limit; -KOFI_EBADFLAGS; -ENOSYS: not what the endpoint is for; -ENOMEM.
 */
int kofi_send(struct kofi_ep *ep, const struct kofi_op *op);
int kofi_recv(struct kofi_ep *ep, const struct kofi_op *op);
int kofi_read(struct kofi_ep *ep, const struct kofi_op *op);
int kofi_write(struct kofi_ep *ep, const struct kofi_op *op);
/* At most tx.inject_size bytes, the caller's again at once; no completion. flags: 0 or KOFI_REMOTE_CQ_DATA. */
int kofi_inject(struct kofi_ep *ep, const void *buffer, size_t len, uint64_t data, uint64_t flags);
int kofi_inject_write(struct kofi_ep *ep, const void *buffer, size_t len, uint64_t data, uint64_t flags,
		      uint64_t addr, uint64_t key);
/* The oldest receive with that context that no message has reached, or send of which nothing has left, completes with ECANCELED.
 * -ENOENT: none. */
int kofi_cancel(struct kofi_ep *ep, uint64_t context);

/* Always 0. What was pending completes with ECANCELED; nothing touches its memory any more. Unread events of it are gone. */
int kofi_ep_close(struct kofi_ep *ep);

#endif
