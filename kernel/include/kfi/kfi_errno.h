/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * kfi_errno.h - error numbers of the kfi_* and fi_* calls
 *
 * Calls answer 0 (or a count) or a negative number. The ``err`` member of error entries is
 * positive. Numbers up to 255 are Linux's, those from 256 on are OFI's. The latter never reach user
 * space: a client that passes an error on to a system call has to map them first.
 */
#ifndef _KFI_ERRNO_H_
#define _KFI_ERRNO_H_

#include <linux/errno.h>

#define KFI_SUCCESS		0

#define KFI_E2BIG		E2BIG
#define KFI_EACCES		EACCES
#define KFI_EADDRINUSE		EADDRINUSE
#define KFI_EADDRNOTAVAIL	EADDRNOTAVAIL
#define KFI_EAFNOSUPPORT	EAFNOSUPPORT
#define KFI_EAGAIN		EAGAIN
#define KFI_EALREADY		EALREADY
#define KFI_EBADF		EBADF
#define KFI_EBUSY		EBUSY
#define KFI_ECANCELED		ECANCELED
#define KFI_ECONNABORTED	ECONNABORTED
#define KFI_ECONNREFUSED	ECONNREFUSED
#define KFI_ECONNRESET		ECONNRESET
#define KFI_EHOSTUNREACH	EHOSTUNREACH
#define KFI_EINPROGRESS		EINPROGRESS
#define KFI_EINVAL		EINVAL
#define KFI_EIO			EIO
#define KFI_EISCONN		EISCONN
#define KFI_EKEYREJECTED	EKEYREJECTED
#define KFI_EMFILE		EMFILE
#define KFI_EMSGSIZE		EMSGSIZE
#define KFI_ENETDOWN		ENETDOWN
#define KFI_ENETUNREACH		ENETUNREACH
#define KFI_ENODATA		ENODATA
#define KFI_ENODEV		ENODEV
#define KFI_ENOENT		ENOENT
#define KFI_ENOMEM		ENOMEM
#define KFI_ENOMSG		ENOMSG
#define KFI_ENOPROTOOPT		ENOPROTOOPT
#define KFI_ENOSPC		ENOSPC
#define KFI_ENOSYS		ENOSYS
#define KFI_ENOTCONN		ENOTCONN
#define KFI_EOPNOTSUPP		EOPNOTSUPP
#define KFI_EREMOTEIO		EREMOTEIO
#define KFI_ESHUTDOWN		ESHUTDOWN
#define KFI_ETIMEDOUT		ETIMEDOUT

#define KFI_ERRNO_OFFSET	256

/**
 * enum kfi_errno - OFI's own numbers
 * @KFI_EOTHER: an error without a number of its own
 * @KFI_ETOOSMALL: the caller's buffer is too small; where there is a length argument, it says what
 *	is needed
 * @KFI_EOPBADSTATE: the object's state does not allow this call
 * @KFI_EAVAIL: the next entry of the queue is an error entry, see kfi_eq_readerr() and
 *	kfi_cq_readerr()
 * @KFI_EBADFLAGS: flags that this call does not know
 * @KFI_ENOEQ: no event queue is bound
 * @KFI_EDOMAIN: the objects belong to different domains
 * @KFI_ENOCQ: no completion queue is bound
 * @KFI_ECRC: a check sum was wrong
 * @KFI_ETRUNC: a message was longer than its receive
 * @KFI_ENOKEY: the key is in use, or unknown
 * @KFI_ENOAV: no address vector is bound
 * @KFI_EOVERRUN: the queue has no room
 * @FI_ERRNO_MAX: one past the last number (without K, as kfabric has it)
 */
enum kfi_errno {
	KFI_EOTHER = KFI_ERRNO_OFFSET,
	KFI_ETOOSMALL,
	KFI_EOPBADSTATE,
	KFI_EAVAIL,
	KFI_EBADFLAGS,
	KFI_ENOEQ,
	KFI_EDOMAIN,
	KFI_ENOCQ,
	KFI_ECRC,
	KFI_ETRUNC,
	KFI_ENOKEY,
	KFI_ENOAV,
	KFI_EOVERRUN,
	FI_ERRNO_MAX
};

/**
 * kfi_strerror() - the text of an error number
 * @errnum: an error number, positive or negative
 *
 * Context: Any.
 * Return: a constant text that belongs to nobody; "unknown error" for numbers that are none.
 */
const char *kfi_strerror(int errnum);

#endif /* _KFI_ERRNO_H_ */
