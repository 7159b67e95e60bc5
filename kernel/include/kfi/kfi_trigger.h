/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * kfi_trigger.h - operations that begin when a counter reaches a value
 *
 * The providers of this module have none: KFI_TRIGGER is no capability of theirs, and
 * KFI_QUEUE_WORK is -ENOSYS.
 */
#ifndef _KFI_TRIGGER_H_
#define _KFI_TRIGGER_H_

#include "kfabric.h"
#include "kfi_atomic.h"
#include "kfi_rma.h"
#include "kfi_tagged.h"

enum kfi_trigger_event {
	KFI_TRIGGER_THRESHOLD
};

enum kfi_op_type {
	KFI_OP_RECV,
	KFI_OP_SEND,
	KFI_OP_TRECV,
	KFI_OP_TSEND,
	KFI_OP_READ,
	KFI_OP_WRITE,
	KFI_OP_ATOMIC,
	KFI_OP_FETCH_ATOMIC,
	KFI_OP_COMPARE_ATOMIC,
	KFI_OP_CNTR_SET,
	KFI_OP_CNTR_ADD
};

struct kfi_trigger_threshold {
	struct kfid_cntr	*cntr;
	size_t			threshold;
};

struct kfi_op_msg {
	struct kfid_ep		*ep;
	struct kfi_msg		msg;
	uint64_t		flags;
};

struct kfi_op_tagged {
	struct kfid_ep		*ep;
	struct kfi_msg_tagged	msg;
	uint64_t		flags;
};

struct kfi_op_rma {
	struct kfid_ep		*ep;
	struct kfi_msg_rma	msg;
	uint64_t		flags;
};

struct kfi_op_atomic {
	struct kfid_ep		*ep;
	struct kfi_msg_atomic	msg;
	uint64_t		flags;
};

struct kfi_op_fetch_atomic {
	struct kfid_ep		*ep;
	struct kfi_msg_atomic	msg;
	struct kfi_msg_fetch	fetch;
	uint64_t		flags;
};

struct kfi_op_compare_atomic {
	struct kfid_ep		*ep;
	struct kfi_msg_atomic	msg;
	struct kfi_msg_fetch	fetch;
	struct kfi_msg_compare	compare;
	uint64_t		flags;
};

struct kfi_op_cntr {
	struct kfid_cntr	*cntr;
	uint64_t		value;
};

#ifndef KFABRIC_DIRECT

/* Has room for struct kfi_context */
struct kfi_triggered_context {
	enum kfi_trigger_event	event_type;
	union {
		struct kfi_trigger_threshold	threshold;
		void				*internal[3];
	} trigger;
};

/* Has room for struct kfi_context2 */
struct kfi_triggered_context2 {
	enum kfi_trigger_event	event_type;
	union {
		struct kfi_trigger_threshold	threshold;
		void				*internal[7];
	} trigger;
};

struct kfi_deferred_work {
	struct kfi_context2	context;
	uint64_t		threshold;
	struct kfid_cntr	*triggering_cntr;
	struct kfid_cntr	*completion_cntr;
	enum kfi_op_type	op_type;
	union {
		struct kfi_op_msg		*msg;
		struct kfi_op_tagged		*tagged;
		struct kfi_op_rma		*rma;
		struct kfi_op_atomic		*atomic;
		struct kfi_op_fetch_atomic	*fetch_atomic;
		struct kfi_op_compare_atomic	*compare_atomic;
		struct kfi_op_cntr		*cntr;
	} op;
};

#else
#include <kfi_direct_trigger.h>
#endif

#endif /* _KFI_TRIGGER_H_ */
