/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * fi_eq.h - event queues, completion queues, counters and wait sets under their fi_* names, see
 * kfi_eq.h
 */
#ifndef _FI_EQ_H_
#define _FI_EQ_H_

#include "fabric.h"
#include "fi_errno.h"
#include "../kfi/kfi_eq.h"
#include "../kfi/kfi_domain.h"

#define fi_wait_obj		kfi_wait_obj
#define fi_wait_attr		kfi_wait_attr
#define fi_eq_attr		kfi_eq_attr
#define fi_eq_entry		kfi_eq_entry
#define fi_eq_err_entry		kfi_eq_err_entry
#define fi_eq_cm_entry		kfi_eq_cm_entry
#define fi_cq_attr		kfi_cq_attr
#define fi_cq_format		kfi_cq_format
#define fi_cq_entry		kfi_cq_entry
#define fi_cq_msg_entry		kfi_cq_msg_entry
#define fi_cq_data_entry	kfi_cq_data_entry
#define fi_cq_tagged_entry	kfi_cq_tagged_entry
#define fi_cq_err_entry		kfi_cq_err_entry
#define fi_cntr_attr		kfi_cntr_attr

#define FI_WAIT_NONE		KFI_WAIT_NONE
#define FI_WAIT_UNSPEC		KFI_WAIT_UNSPEC
#define FI_WAIT_SET		KFI_WAIT_SET

#define FI_NOTIFY		KFI_NOTIFY
#define FI_CONNREQ		KFI_CONNREQ
#define FI_CONNECTED		KFI_CONNECTED
#define FI_SHUTDOWN		KFI_SHUTDOWN

#define FI_CQ_FORMAT_UNSPEC	KFI_CQ_FORMAT_UNSPEC
#define FI_CQ_FORMAT_CONTEXT	KFI_CQ_FORMAT_CONTEXT
#define FI_CQ_FORMAT_MSG	KFI_CQ_FORMAT_MSG
#define FI_CQ_FORMAT_DATA	KFI_CQ_FORMAT_DATA
#define FI_CQ_FORMAT_TAGGED	KFI_CQ_FORMAT_TAGGED
#define FI_CQ_COND_NONE		KFI_CQ_COND_NONE

#define FI_CNTR_EVENTS_COMP	KFI_CNTR_EVENTS_COMP

/**
 * fi_eq_open() - open an event queue (the deck's slide 4)
 * @fabric: in which fabric
 * @attr: what it is to be like, or NULL for the defaults
 * @eq: where the queue goes
 * @context: of the queue
 *
 * Context: Process context, may sleep.
 * Return: as kfi_eq_open(), which has a handler argument besides.
 */
static inline int fi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr,
			     struct fid_eq **eq, void *context)
{
	return kfi_eq_open(fabric, attr, eq, NULL, context);
}

/* As kfi_eq_read(). */
static inline ssize_t fi_eq_read(struct fid_eq *eq, uint32_t *event, void *buf, size_t len,
				 uint64_t flags)
{
	return kfi_eq_read(eq, event, buf, len, flags);
}

/* As kfi_eq_readerr(). */
static inline ssize_t fi_eq_readerr(struct fid_eq *eq, struct fi_eq_err_entry *buf, uint64_t flags)
{
	return kfi_eq_readerr(eq, buf, flags);
}

/* As kfi_eq_write(). */
static inline ssize_t fi_eq_write(struct fid_eq *eq, uint32_t event, const void *buf, size_t len,
				  uint64_t flags)
{
	return kfi_eq_write(eq, event, buf, len, flags);
}

/**
 * fi_eq_sread() - the next event, waited for (the deck's slide 7)
 * @eq: the queue
 * @event: where the kind of event goes
 * @buffer: where the entry goes: for connection events an fi_eq_cm_entry, whatever the protocol
 * @len: room there; room behind the entry takes the peer's private data
 * @timeout: 0 looks only, a negative one waits for ever
 * @flags: FI_PEEK; FI_TIME_MS (as without) or FI_TIME_US: the unit of @timeout
 *
 * Context: Process context, sleeps.
 * Return: as kfi_eq_sread(): bytes of at most one event, which an int holds, as on the slide.
 */
static inline ssize_t fi_eq_sread(struct fid_eq *eq, uint32_t *event, void *buffer, size_t len,
				  int timeout, uint64_t flags)
{
	return kfi_eq_sread(eq, event, buffer, len, timeout, flags);
}

/* As kfi_eq_strerror(). */
static inline const char *fi_eq_strerror(struct fid_eq *eq, int prov_errno, const void *err_data,
					 char *buf, size_t len)
{
	return kfi_eq_strerror(eq, prov_errno, err_data, buf, len);
}

/**
 * fi_cq_open() - open a completion queue
 * @domain: in which domain
 * @attr: what it is to be like, or NULL for the defaults
 * @cq: where the queue goes
 * @context: of the queue
 *
 * Context: Process context, may sleep.
 * Return: as kfi_cq_open(), which has a handler argument besides.
 */
static inline int fi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr,
			     struct fid_cq **cq, void *context)
{
	return kfi_cq_open(domain, attr, cq, NULL, context);
}

/* As kfi_cq_read(). */
static inline ssize_t fi_cq_read(struct fid_cq *cq, void *buf, size_t count)
{
	return kfi_cq_read(cq, buf, count);
}

/* As kfi_cq_readerr(). */
static inline ssize_t fi_cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *buf, uint64_t flags)
{
	return kfi_cq_readerr(cq, buf, flags);
}

/* As kfi_cq_sread(). */
static inline ssize_t fi_cq_sread(struct fid_cq *cq, void *buf, size_t count, const void *cond,
				  int timeout)
{
	return kfi_cq_sread(cq, buf, count, cond, timeout);
}

/* As kfi_cq_signal(). */
static inline int fi_cq_signal(struct fid_cq *cq)
{
	return kfi_cq_signal(cq);
}

/* As kfi_cq_strerror(). */
static inline const char *fi_cq_strerror(struct fid_cq *cq, int prov_errno, const void *err_data,
					 char *buf, size_t len)
{
	return kfi_cq_strerror(cq, prov_errno, err_data, buf, len);
}

/* As kfi_wait_open(). */
static inline int fi_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr,
			       struct fid_wait **waitset)
{
	return kfi_wait_open(fabric, attr, waitset);
}

/* As kfi_wait(). */
static inline int fi_wait(struct fid_wait *waitset, int timeout)
{
	return kfi_wait(waitset, timeout);
}

/* As kfi_cntr_open(). */
static inline int fi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr,
			       struct fid_cntr **cntr, void *context)
{
	return kfi_cntr_open(domain, attr, cntr, context);
}

/* As kfi_cntr_read(). */
static inline uint64_t fi_cntr_read(struct fid_cntr *cntr)
{
	return kfi_cntr_read(cntr);
}

/* As kfi_cntr_readerr(). */
static inline uint64_t fi_cntr_readerr(struct fid_cntr *cntr)
{
	return kfi_cntr_readerr(cntr);
}

/* As kfi_cntr_wait(). */
static inline int fi_cntr_wait(struct fid_cntr *cntr, uint64_t threshold, int timeout)
{
	return kfi_cntr_wait(cntr, threshold, timeout);
}

#endif /* _FI_EQ_H_ */
