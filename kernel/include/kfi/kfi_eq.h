/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * kfi_eq.h - event queues, completion queues, counters, wait sets and poll sets
 *
 * A blocking read ends when there is something to read, after its time, by a signal, and by
 * kthread_stop() of the calling thread: a thread that waits can always be stopped.
 */
#ifndef _KFI_EQ_H_
#define _KFI_EQ_H_

#include "kfabric.h"

/**
 * enum kfi_wait_obj - how waiting for a queue or counter works
 * @KFI_WAIT_NONE: not at all: blocking reads are -ENOSYS; for queues with a handler
 * @KFI_WAIT_UNSPEC: blocking reads sleep
 * @KFI_WAIT_SET: blocking reads sleep, and so does kfi_wait() of the set
 * @KFI_WAIT_QUEUE: a Linux wait queue that the client sees; -ENOSYS here
 */
enum kfi_wait_obj {
	KFI_WAIT_NONE,
	KFI_WAIT_UNSPEC,
	KFI_WAIT_SET,
	KFI_WAIT_QUEUE
};

struct kfi_wait_attr {
	enum kfi_wait_obj	wait_obj;
	uint64_t		flags;
};

struct kfi_ops_wait;
struct kfi_ops_poll;
struct kfi_ops_eq;
struct kfi_ops_cq;
struct kfi_ops_cntr;

/* Here, and only here, kfabric calls the first member kfid. */
struct kfid_wait {
	struct kfid		kfid;
	struct kfi_ops_wait	*ops;
};

struct kfi_ops_wait {
	size_t	size;
	int	(*wait)(struct kfid_wait *waitset, int timeout);
};

struct kfi_poll_attr {
	uint64_t		flags;
};

struct kfi_ops_poll {
	size_t	size;
	int	(*poll)(struct kfid_poll *pollset, void **context, int count);
	int	(*poll_add)(struct kfid_poll *pollset, struct kfid *event_kfid, uint64_t flags);
	int	(*poll_del)(struct kfid_poll *pollset, struct kfid *event_kfid, uint64_t flags);
};

struct kfid_poll {
	struct kfid		fid;
	struct kfi_ops_poll	*ops;
};

/**
 * struct kfi_eq_attr - of an event queue
 * @size: at least so many entries; 0 for the default (256)
 * @flags: KFI_WRITE to allow kfi_eq_write(), KFI_AFFINITY to say that @signaling_vector counts
 * @wait_obj: how waiting works
 * @signaling_vector: a hint on which processor the handler is to run
 * @wait_set: for KFI_WAIT_SET
 */
struct kfi_eq_attr {
	size_t			size;
	uint64_t		flags;
	enum kfi_wait_obj	wait_obj;
	int			signaling_vector;
	struct kfid_wait	*wait_set;
};

/* Events, with what kfi_eq_read() stores */
enum {
	KFI_NOTIFY,		/* what kfi_eq_write() was given */
	KFI_CONNREQ,		/* kfi_eq_cm_entry, with info and the peer's data */
	KFI_CONNECTED,		/* kfi_eq_cm_entry, with data for who has connected */
	KFI_SHUTDOWN,		/* kfi_eq_cm_entry; the last event of its endpoint */
	KFI_MR_COMPLETE,	/* kfi_eq_entry */
	KFI_AV_COMPLETE,	/* kfi_eq_entry */
	KFI_JOIN_COMPLETE	/* kfi_eq_entry */
};

struct kfi_eq_entry {
	struct kfid		*fid;
	void			*context;
	uint64_t		data;
};

/**
 * struct kfi_eq_err_entry - what went wrong
 * @fid: with which object
 * @context: of the object
 * @data: of the event
 * @err: an error number, positive
 * @prov_errno: the provider's, for kfi_eq_strerror()
 * @err_data: what the peer gave to kfi_reject(). See @err_data_size
 * @err_data_size: as input 0, for a pointer into the queue's memory that is valid until the next
 *	read of the queue, or the size of the buffer to which @err_data points; as output the size
 *	of the data
 */
struct kfi_eq_err_entry {
	struct kfid		*fid;
	void			*context;
	uint64_t		data;
	int			err;
	int			prov_errno;
	void			*err_data;
	size_t			err_data_size;
};

/**
 * struct kfi_eq_cm_entry - an event of connection management
 * @fid: the passive endpoint (KFI_CONNREQ) or the endpoint; its context is the client's
 * @info: of KFI_CONNREQ, for an endpoint of this connection: the client's from now on, to be freed
 *	by kfi_freeinfo() whatever it does with the request; else NULL
 * @data: as much of the peer's private data as the buffer had room for behind the entry
 */
struct kfi_eq_cm_entry {
	struct kfid		*fid;
	struct kfi_info		*info;
	uint8_t			data[];
};

struct kfi_ops_eq {
	size_t		size;
	ssize_t		(*read)(struct kfid_eq *eq, uint32_t *event, void *buf, size_t len,
				uint64_t flags);
	ssize_t		(*readerr)(struct kfid_eq *eq, struct kfi_eq_err_entry *buf,
				   uint64_t flags);
	ssize_t		(*write)(struct kfid_eq *eq, uint32_t event, const void *buf, size_t len,
				 uint64_t flags);
	ssize_t		(*sread)(struct kfid_eq *eq, uint32_t *event, void *buf, size_t len,
				 int timeout, uint64_t flags);
	const char *	(*strerror)(struct kfid_eq *eq, int prov_errno, const void *err_data,
				    char *buf, size_t len);
};

struct kfid_eq {
	struct kfid		fid;
	struct kfi_ops_eq	*ops;
	kfi_event_handler	event_handler;
};

enum kfi_cq_format {
	KFI_CQ_FORMAT_UNSPEC,
	KFI_CQ_FORMAT_CONTEXT,	/* kfi_cq_entry */
	KFI_CQ_FORMAT_MSG,	/* kfi_cq_msg_entry */
	KFI_CQ_FORMAT_DATA,	/* kfi_cq_data_entry */
	KFI_CQ_FORMAT_TAGGED	/* kfi_cq_tagged_entry */
};

struct kfi_cq_entry {
	void			*op_context;
};

struct kfi_cq_msg_entry {
	void			*op_context;
	uint64_t		flags;
	size_t			len;
};

struct kfi_cq_data_entry {
	void			*op_context;
	uint64_t		flags;
	size_t			len;
	void			*buf;
	uint64_t		data;
};

struct kfi_cq_tagged_entry {
	void			*op_context;
	uint64_t		flags;
	size_t			len;
	void			*buf;
	uint64_t		data;
	uint64_t		tag;
};

/**
 * struct kfi_cq_err_entry - an operation that failed
 * @op_context: of the operation
 * @flags: what it was
 * @len: bytes that were transferred
 * @buf: 0
 * @data: remote data
 * @tag: 0
 * @olen: bytes of a message that had no room
 * @err: an error number, positive
 * @prov_errno: the provider's, for kfi_cq_strerror()
 * @err_data: NULL
 * @err_data_size: 0
 */
struct kfi_cq_err_entry {
	void			*op_context;
	uint64_t		flags;
	size_t			len;
	void			*buf;
	uint64_t		data;
	uint64_t		tag;
	size_t			olen;
	int			err;
	int			prov_errno;
	void			*err_data;
	size_t			err_data_size;
};

enum kfi_cq_wait_cond {
	KFI_CQ_COND_NONE,
	KFI_CQ_COND_THRESHOLD
};

/**
 * struct kfi_cq_attr - of a completion queue
 * @size: so many entries have room from the start; queues do not overrun
 * @flags: KFI_AFFINITY to say that @signaling_vector counts
 * @format: of what is read; KFI_CQ_FORMAT_UNSPEC is KFI_CQ_FORMAT_CONTEXT
 * @wait_obj: how waiting works
 * @signaling_vector: a hint on which processor the handler is to run
 * @wait_cond: KFI_CQ_COND_THRESHOLD: blocking reads say how many completions they wait for
 * @wait_set: for KFI_WAIT_SET
 */
struct kfi_cq_attr {
	size_t			size;
	uint64_t		flags;
	enum kfi_cq_format	format;
	enum kfi_wait_obj	wait_obj;
	int			signaling_vector;
	enum kfi_cq_wait_cond	wait_cond;
	struct kfid_wait	*wait_set;
};

struct kfi_ops_cq {
	size_t		size;
	ssize_t		(*read)(struct kfid_cq *cq, void *buf, size_t count);
	ssize_t		(*readfrom)(struct kfid_cq *cq, void *buf, size_t count,
				    kfi_addr_t *src_addr);
	ssize_t		(*readerr)(struct kfid_cq *cq, struct kfi_cq_err_entry *buf,
				   uint64_t flags);
	ssize_t		(*sread)(struct kfid_cq *cq, void *buf, size_t count, const void *cond,
				 int timeout);
	ssize_t		(*sreadfrom)(struct kfid_cq *cq, void *buf, size_t count,
				     kfi_addr_t *src_addr, const void *cond, int timeout);
	int		(*signal)(struct kfid_cq *cq);
	const char *	(*strerror)(struct kfid_cq *cq, int prov_errno, const void *err_data,
				    char *buf, size_t len);
};

struct kfid_cq {
	struct kfid		fid;
	struct kfi_ops_cq	*ops;
	kfi_comp_handler	comp_handler;
};

enum kfi_cntr_events {
	KFI_CNTR_EVENTS_COMP
};

struct kfi_cntr_attr {
	enum kfi_cntr_events	events;
	enum kfi_wait_obj	wait_obj;
	struct kfid_wait	*wait_set;
	uint64_t		flags;
};

struct kfi_ops_cntr {
	size_t		size;
	uint64_t	(*read)(struct kfid_cntr *cntr);
	uint64_t	(*readerr)(struct kfid_cntr *cntr);
	int		(*add)(struct kfid_cntr *cntr, uint64_t value);
	int		(*set)(struct kfid_cntr *cntr, uint64_t value);
	int		(*wait)(struct kfid_cntr *cntr, uint64_t threshold, int timeout);
	int		(*adderr)(struct kfid_cntr *cntr, uint64_t value);
	int		(*seterr)(struct kfid_cntr *cntr, uint64_t value);
};

struct kfid_cntr {
	struct kfid		fid;
	struct kfi_ops_cntr	*ops;
};

#ifndef KFABRIC_DIRECT

/**
 * kfi_wait() - wait until a queue of the set has something
 * @waitset: the set
 * @timeout: milliseconds; 0 looks only, a negative one waits for ever
 *
 * Context: Process context, sleeps.
 * Return: 0 when there is something to read; -EAGAIN after the time, by a signal and by
 * kthread_stop().
 */
static inline int kfi_wait(struct kfid_wait *waitset, int timeout)
{
	return waitset->ops->wait(waitset, timeout);
}

/**
 * kfi_poll() - which queues have something
 * @pollset: the set
 * @context: where the contexts of those queues go
 * @count: room there
 *
 * Context: Process context.
 * Return: how many there are, or an error. Poll sets are -ENOSYS here.
 */
static inline int kfi_poll(struct kfid_poll *pollset, void **context, int count)
{
	return pollset->ops->poll(pollset, context, count);
}

/**
 * kfi_poll_add() - add a queue to a poll set
 * @pollset: the set
 * @event_kfid: the queue
 * @flags: 0
 *
 * Context: Process context.
 * Return: 0 or an error.
 */
static inline int kfi_poll_add(struct kfid_poll *pollset, struct kfid *event_kfid, uint64_t flags)
{
	return pollset->ops->poll_add(pollset, event_kfid, flags);
}

/**
 * kfi_poll_del() - take a queue out of a poll set
 * @pollset: the set
 * @event_kfid: the queue
 * @flags: 0
 *
 * Context: Process context.
 * Return: 0 or an error.
 */
static inline int kfi_poll_del(struct kfid_poll *pollset, struct kfid *event_kfid, uint64_t flags)
{
	return pollset->ops->poll_del(pollset, event_kfid, flags);
}

/**
 * kfi_eq_open() - open an event queue
 * @fabric: in which fabric
 * @attr: what it is to be like, or NULL for the defaults
 * @eq: where the queue goes
 * @event_handler: told when there is something to read, or NULL
 * @context: given to the handler
 *
 * Context: Process context, may sleep.
 * Return: 0; -EINVAL for attributes that make no sense; -ENOSYS for a wait object that is not
 * supported; -ENOMEM.
 */
static inline int kfi_eq_open(struct kfid_fabric *fabric, struct kfi_eq_attr *attr,
			      struct kfid_eq **eq, kfi_event_handler event_handler, void *context)
{
	return fabric->ops->eq_open(fabric, attr, eq, event_handler, context);
}

/**
 * kfi_eq_read() - the next event, without waiting
 * @eq: the queue
 * @event: where the kind of event goes (KFI_CONNREQ and so on)
 * @buf: where the entry goes
 * @len: room there: an entry, and for private data what it may have
 * @flags: KFI_PEEK leaves the event in the queue; an info in it then still belongs to the queue
 *
 * Context: Process context, may sleep for a short time; also from the queue's handler.
 * Return: bytes that were stored; -EAGAIN without event; -KFI_EAVAIL when the next entry is an
 * error, see kfi_eq_readerr(); -KFI_ETOOSMALL when the entry has no room, which stays;
 * -KFI_EBADFLAGS.
 */
static inline ssize_t kfi_eq_read(struct kfid_eq *eq, uint32_t *event, void *buf, size_t len,
				  uint64_t flags)
{
	return eq->ops->read(eq, event, buf, len, flags);
}

/**
 * kfi_eq_readerr() - the error at the head of the queue
 * @eq: the queue
 * @buf: where it goes; its err_data_size is input, too
 * @flags: KFI_PEEK leaves it in the queue
 *
 * Context: As kfi_eq_read().
 * Return: the size of the entry; -EAGAIN when the head is no error.
 */
static inline ssize_t kfi_eq_readerr(struct kfid_eq *eq, struct kfi_eq_err_entry *buf,
				     uint64_t flags)
{
	return eq->ops->readerr(eq, buf, flags);
}

/**
 * kfi_eq_write() - put an event of one's own into a queue
 * @eq: the queue, opened with KFI_WRITE
 * @event: the kind that kfi_eq_read() tells
 * @buf: what kfi_eq_read() stores
 * @len: how much that is
 * @flags: 0
 *
 * Context: As kfi_eq_read().
 * Return: @len; -EINVAL on a queue without KFI_WRITE or for more than an entry may have;
 * -KFI_EOVERRUN without room; -KFI_EBADFLAGS.
 */
static inline ssize_t kfi_eq_write(struct kfid_eq *eq, uint32_t event, const void *buf, size_t len,
				   uint64_t flags)
{
	return eq->ops->write(eq, event, buf, len, flags);
}

/**
 * kfi_eq_sread() - the next event, waited for
 * @eq: the queue
 * @event: as for kfi_eq_read()
 * @buf: as for kfi_eq_read()
 * @len: as for kfi_eq_read()
 * @timeout: milliseconds, or microseconds with KFI_TIME_US; 0 looks only, a negative one waits for
 *	ever
 * @flags: KFI_PEEK, and one of KFI_TIME_US and KFI_TIME_MS
 *
 * Context: Process context, sleeps.
 * Return: as kfi_eq_read(), where -EAGAIN comes after the time, by a signal and by kthread_stop(),
 * too; -ENOSYS on a queue with KFI_WAIT_NONE; -EINVAL with both units.
 */
static inline ssize_t kfi_eq_sread(struct kfid_eq *eq, uint32_t *event, void *buf, size_t len,
				   int timeout, uint64_t flags)
{
	return eq->ops->sread(eq, event, buf, len, timeout, flags);
}

/**
 * kfi_eq_strerror() - the text of a provider's error
 * @eq: the queue
 * @prov_errno: of an error entry
 * @err_data: of the error entry
 * @buf: where a copy of the text goes, or NULL
 * @len: room there
 *
 * Context: Any.
 * Return: @buf, or without it a constant text.
 */
static inline const char *kfi_eq_strerror(struct kfid_eq *eq, int prov_errno, const void *err_data,
					  char *buf, size_t len)
{
	return eq->ops->strerror(eq, prov_errno, err_data, buf, len);
}

/**
 * kfi_cq_read() - completions, without waiting
 * @cq: the queue
 * @buf: an array of entries of the queue's format
 * @count: how many have room there
 *
 * Context: Process context, may sleep for a short time; also from the queue's handler.
 * Return: how many were stored; -EAGAIN without completion; -KFI_EAVAIL when the next one is an
 * error, see kfi_cq_readerr().
 */
static inline ssize_t kfi_cq_read(struct kfid_cq *cq, void *buf, size_t count)
{
	return cq->ops->read(cq, buf, count);
}

/**
 * kfi_cq_readfrom() - completions and where messages came from
 * @cq: the queue
 * @buf: as for kfi_cq_read()
 * @count: as for kfi_cq_read()
 * @src_addr: where sources go: KFI_ADDR_NOTAVAIL, since connections have no address vector
 *
 * Context: As kfi_cq_read().
 * Return: as kfi_cq_read().
 */
static inline ssize_t kfi_cq_readfrom(struct kfid_cq *cq, void *buf, size_t count,
				      kfi_addr_t *src_addr)
{
	return cq->ops->readfrom(cq, buf, count, src_addr);
}

/**
 * kfi_cq_readerr() - the failed operation at the head of the queue
 * @cq: the queue
 * @buf: where it goes
 * @flags: 0
 *
 * Context: As kfi_cq_read().
 * Return: 1; -EAGAIN when the head is no error.
 */
static inline ssize_t kfi_cq_readerr(struct kfid_cq *cq, struct kfi_cq_err_entry *buf,
				     uint64_t flags)
{
	return cq->ops->readerr(cq, buf, flags);
}

/**
 * kfi_cq_sread() - completions, waited for
 * @cq: the queue
 * @buf: as for kfi_cq_read()
 * @count: as for kfi_cq_read()
 * @cond: of a queue with KFI_CQ_COND_THRESHOLD: (void *)(uintptr_t)number of completions to wait
 *	for, or an error among them; when the time is over, what there is comes. Others wait for one.
 * @timeout: milliseconds; 0 looks only, a negative one waits for ever
 *
 * Context: Process context, sleeps.
 * Return: as kfi_cq_read(), where -EAGAIN comes after the time, by a signal, by kfi_cq_signal() and
 * by kthread_stop(), too; -ENOSYS on a queue with KFI_WAIT_NONE.
 */
static inline ssize_t kfi_cq_sread(struct kfid_cq *cq, void *buf, size_t count, const void *cond,
				   int timeout)
{
	return cq->ops->sread(cq, buf, count, cond, timeout);
}

/**
 * kfi_cq_sreadfrom() - completions, waited for, and where messages came from
 * @cq: the queue
 * @buf: as for kfi_cq_read()
 * @count: as for kfi_cq_read()
 * @src_addr: as for kfi_cq_readfrom()
 * @cond: as for kfi_cq_sread()
 * @timeout: as for kfi_cq_sread()
 *
 * Context: Process context, sleeps.
 * Return: as kfi_cq_sread().
 */
static inline ssize_t kfi_cq_sreadfrom(struct kfid_cq *cq, void *buf, size_t count,
				       kfi_addr_t *src_addr, const void *cond, int timeout)
{
	return cq->ops->sreadfrom(cq, buf, count, src_addr, cond, timeout);
}

/**
 * kfi_cq_signal() - end the blocking reads of a queue
 * @cq: the queue
 *
 * Context: Process context.
 * Return: 0; -ENOSYS on a queue with KFI_WAIT_NONE.
 */
static inline int kfi_cq_signal(struct kfid_cq *cq)
{
	return cq->ops->signal(cq);
}

/**
 * kfi_cq_strerror() - the text of a provider's error
 * @cq: the queue
 * @prov_errno: of an error entry
 * @err_data: of the error entry
 * @buf: where a copy of the text goes, or NULL
 * @len: room there
 *
 * Context: Any.
 * Return: @buf, or without it a constant text.
 */
static inline const char *kfi_cq_strerror(struct kfid_cq *cq, int prov_errno, const void *err_data,
					  char *buf, size_t len)
{
	return cq->ops->strerror(cq, prov_errno, err_data, buf, len);
}

/**
 * kfi_cntr_read() - how many operations succeeded
 * @cntr: the counter
 *
 * Context: Process context.
 * Return: the value.
 */
static inline uint64_t kfi_cntr_read(struct kfid_cntr *cntr)
{
	return cntr->ops->read(cntr);
}

/**
 * kfi_cntr_readerr() - how many operations failed
 * @cntr: the counter
 *
 * Context: Process context.
 * Return: the error value.
 */
static inline uint64_t kfi_cntr_readerr(struct kfid_cntr *cntr)
{
	return cntr->ops->readerr(cntr);
}

/**
 * kfi_cntr_add() - add to a counter
 * @cntr: the counter
 * @value: how much
 *
 * Context: Process context.
 * Return: 0 or an error.
 */
static inline int kfi_cntr_add(struct kfid_cntr *cntr, uint64_t value)
{
	return cntr->ops->add(cntr, value);
}

/**
 * kfi_cntr_adderr() - add to a counter's error value
 * @cntr: the counter
 * @value: how much
 *
 * Context: Process context.
 * Return: 0 or an error.
 */
static inline int kfi_cntr_adderr(struct kfid_cntr *cntr, uint64_t value)
{
	if (!KFI_CHECK_OP(cntr->ops, struct kfi_ops_cntr, adderr))
		return -ENOSYS;
	return cntr->ops->adderr(cntr, value);
}

/**
 * kfi_cntr_set() - set a counter
 * @cntr: the counter
 * @value: to what
 *
 * Context: Process context.
 * Return: 0 or an error.
 */
static inline int kfi_cntr_set(struct kfid_cntr *cntr, uint64_t value)
{
	return cntr->ops->set(cntr, value);
}

/**
 * kfi_cntr_seterr() - set a counter's error value
 * @cntr: the counter
 * @value: to what
 *
 * Context: Process context.
 * Return: 0 or an error.
 */
static inline int kfi_cntr_seterr(struct kfid_cntr *cntr, uint64_t value)
{
	if (!KFI_CHECK_OP(cntr->ops, struct kfi_ops_cntr, seterr))
		return -ENOSYS;
	return cntr->ops->seterr(cntr, value);
}

/**
 * kfi_cntr_wait() - wait for a counter to reach a value
 * @cntr: the counter
 * @threshold: the value
 * @timeout: milliseconds; 0 looks only, a negative one waits for ever
 *
 * Context: Process context, sleeps.
 * Return: 0; -KFI_EAVAIL when an operation fails meanwhile; -ETIMEDOUT; -EAGAIN by a signal or
 * kthread_stop(); -ENOSYS on a counter with KFI_WAIT_NONE.
 */
static inline int kfi_cntr_wait(struct kfid_cntr *cntr, uint64_t threshold, int timeout)
{
	return cntr->ops->wait(cntr, threshold, timeout);
}

#else
#include <kfi_direct_eq.h>
#endif

#endif /* _KFI_EQ_H_ */
