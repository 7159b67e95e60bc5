// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Completion queues. */

#include "api.h"

/* So many completions are translated at a time, on the stack. */
#define CHUNK 8

static int cq_close(struct kfid *fid)
{
	struct kapi_cq *cq = container_of(fid, struct kapi_cq, pub.fid);
	int error;

	error = kapi_close_begin(fid);
	if (error)
		return error;
	error = kofi_cq_close(cq->handle);
	if (error) {
		kapi_close_failed(fid);
		return error;
	}
	cq->pub.ops = &kapi_no_ops_cq;
	kapi_retire(fid, cq);
	return 0;
}

static struct kfi_ops cq_fid_ops = {
	.size = sizeof(struct kfi_ops),
	.close = cq_close,
	.bind = kfi_no_bind,
	.control = kfi_no_control,
	.ops_open = kfi_no_ops_open,
};

struct kofi_cq *kapi_cq_of(struct kfid *fid)
{
	if (!kapi_is(fid, KFI_CLASS_CQ, &cq_fid_ops))
		return NULL;
	return container_of(fid, struct kapi_cq, pub.fid)->handle;
}

static void cq_event(void *context)
{
	struct kapi_cq *cq = context;

	cq->pub.comp_handler(&cq->pub, cq->pub.fid.context);
}

static void *pointer(u64 number)
{
	return (void *)(uintptr_t)number;
}

/* Writes entries of the queue's format, and gives the place behind them. */
static void *entries_out(enum kfi_cq_format format, void *at, const struct kofi_cq_entry *from,
			 size_t count)
{
	struct kfi_cq_entry *context = at;
	struct kfi_cq_msg_entry *msg = at;
	struct kfi_cq_tagged_entry *tagged = at;
	size_t i;

	switch (format) {
	case KFI_CQ_FORMAT_MSG:
		for (i = 0; i < count; i++, from++)
			*msg++ = (struct kfi_cq_msg_entry) {
				.op_context = pointer(from->context),
				.flags = from->flags,
				.len = from->len,
			};
		return msg;
	case KFI_CQ_FORMAT_TAGGED:
		for (i = 0; i < count; i++, from++)
			*tagged++ = (struct kfi_cq_tagged_entry) {
				.op_context = pointer(from->context),
				.flags = from->flags,
				.len = from->len,
				.buf = pointer(from->buf),
				.data = from->data,
			};
		return tagged;
	default:
		for (i = 0; i < count; i++, from++)
			(context++)->op_context = pointer(from->context);
		return context;
	}
}

static ssize_t cq_next(struct kapi_cq *cq, void *buf, size_t count, bool wait, const void *cond,
		       int timeout)
{
	/* fi_cq(3): the condition of such a queue is "a size_t threshold value". */
	size_t threshold = cq->threshold ? (uintptr_t)cond : 0;
	struct kofi_cq_entry chunk[CHUNK];
	struct kofi_cq_entry *entries = chunk;
	ssize_t n, done = 0;
	size_t room;

	if (!buf && count)
		return -EINVAL;
	/* That format is the Rust part's own. */
	BUILD_BUG_ON(sizeof(struct kfi_cq_data_entry) != sizeof(struct kofi_cq_entry));
	BUILD_BUG_ON(offsetof(struct kfi_cq_data_entry, data) !=
		     offsetof(struct kofi_cq_entry, data));
	BUILD_BUG_ON(offsetof(struct kfi_cq_data_entry, len) !=
		     offsetof(struct kofi_cq_entry, len));
	if (cq->format == KFI_CQ_FORMAT_DATA) {
		entries = buf;
		return wait ? kofi_cq_sread(cq->handle, entries, count, threshold, timeout) :
			      kofi_cq_read(cq->handle, entries, count);
	}
	do {
		room = min_t(size_t, count - done, CHUNK);
		if (wait && !done)
			n = kofi_cq_sread(cq->handle, entries, room, threshold, timeout);
		else
			n = kofi_cq_read(cq->handle, entries, room);
		if (n < 0)
			return done ?: n;
		buf = entries_out(cq->format, buf, entries, n);
		done += n;
	} while (n == CHUNK && done < count);
	return done;
}

static void no_sources(kfi_addr_t *src_addr, ssize_t count)
{
	ssize_t i;

	for (i = 0; src_addr && i < count; i++)
		src_addr[i] = KFI_ADDR_NOTAVAIL;
}

static ssize_t cq_readfrom(struct kfid_cq *pub, void *buf, size_t count, kfi_addr_t *src_addr)
{
	ssize_t n = cq_next(container_of(pub, struct kapi_cq, pub), buf, count, false, NULL, 0);

	no_sources(src_addr, n);
	return n;
}

static ssize_t cq_read(struct kfid_cq *pub, void *buf, size_t count)
{
	return cq_readfrom(pub, buf, count, NULL);
}

static ssize_t cq_sreadfrom(struct kfid_cq *pub, void *buf, size_t count, kfi_addr_t *src_addr,
			    const void *cond, int timeout)
{
	ssize_t n = cq_next(container_of(pub, struct kapi_cq, pub), buf, count, true, cond,
			    timeout);

	no_sources(src_addr, n);
	return n;
}

static ssize_t cq_sread(struct kfid_cq *pub, void *buf, size_t count, const void *cond,
			int timeout)
{
	return cq_sreadfrom(pub, buf, count, NULL, cond, timeout);
}

static ssize_t cq_readerr(struct kfid_cq *pub, struct kfi_cq_err_entry *entry, uint64_t flags)
{
	struct kofi_cq_error error = {};
	ssize_t n;

	if (!entry)
		return -EINVAL;
	n = kofi_cq_readerr(container_of(pub, struct kapi_cq, pub)->handle, &error, flags);
	if (n < 0)
		return n;
	*entry = (struct kfi_cq_err_entry) {
		.op_context = pointer(error.context),
		.flags = error.flags,
		.len = error.len,
		.buf = pointer(error.buf),
		.data = error.data,
		.olen = error.olen,
		.err = error.err,
		.prov_errno = error.prov_errno,
	};
	return n;
}

static int cq_signal(struct kfid_cq *pub)
{
	return kofi_cq_signal(container_of(pub, struct kapi_cq, pub)->handle);
}

static const char *cq_strerror(struct kfid_cq *pub, int prov_errno, const void *err_data,
			       char *buf, size_t len)
{
	struct kapi_cq *cq = container_of(pub, struct kapi_cq, pub);

	return kapi_text_in(buf, len, kofi_cq_strerror(cq->handle, prov_errno));
}

static struct kfi_ops_cq cq_ops = {
	.size = sizeof(struct kfi_ops_cq),
	.read = cq_read,
	.readfrom = cq_readfrom,
	.readerr = cq_readerr,
	.sread = cq_sread,
	.sreadfrom = cq_sreadfrom,
	.signal = cq_signal,
	.strerror = cq_strerror,
};

int kapi_cq_open(struct kfid_domain *pub, struct kfi_cq_attr *attr, struct kfid_cq **out,
		 kfi_comp_handler handler, void *context)
{
	struct kapi_domain *domain = container_of(pub, struct kapi_domain, pub);
	struct kofi_cq_attr wanted = { .wait_obj = KOFI_WAIT_UNSPEC };
	struct kapi_cq *cq;
	int error;

	if (!out)
		return -EINVAL;
	if (attr) {
		if (attr->format > KFI_CQ_FORMAT_TAGGED || attr->wait_cond > KFI_CQ_COND_THRESHOLD)
			return -EINVAL;
		wanted.size = attr->size;
		wanted.flags = attr->flags;
		wanted.signaling_vector = attr->signaling_vector;
		error = kapi_wait_in(attr->wait_obj, attr->wait_set, &wanted.wait_obj,
				     &wanted.wait_set);
		if (error)
			return error;
	}
	cq = kapi_alloc(sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	kapi_init(&cq->pub.fid, KFI_CLASS_CQ, &cq_fid_ops, context);
	cq->pub.ops = &cq_ops;
	cq->pub.comp_handler = handler;
	cq->threshold = attr && attr->wait_cond == KFI_CQ_COND_THRESHOLD;
	cq->format = attr ? attr->format : KFI_CQ_FORMAT_UNSPEC;
	wanted.handler = handler ? cq_event : NULL;
	wanted.handler_context = cq;
	error = kofi_cq_open(domain->handle, &wanted, &cq->handle);
	if (error) {
		kapi_free(cq);
		return error;
	}
	*out = &cq->pub;
	return 0;
}
