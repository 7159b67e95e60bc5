// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Memory that TCP reads where it is, instead of copying it: what MSG_ZEROCOPY is to user space.
 *
 * A lease is one such reading. The network holds it by references of its own, until the peer has acknowledged all of it and no driver has
 * it any more; or until it was copied on the way, as it is for a receiver on this host, who may take for ever.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bvec.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/rcupdate.h>
#include <linux/skbuff.h>
#include <linux/uio.h>
#include <linux/version.h>
#include <linux/workqueue.h>
#include <net/inet_connection_sock.h>
#include <net/net_namespace.h>
#include <net/sock.h>
#include "shim.h"

/* Pieces of one reading: a message of 1 MiB in pages. */
#define PIECES 256
/* Bytes from which on it is worth the while: WORTH in kernel/rust/src/loans.rs. */
#define WORTH (32 * 1024)

enum { IDLE, OUT, GIVEN_UP };

struct kofi_lease {
	struct ubuf_info info;
	struct kofi_watch *watch;
	atomic_t state;
	bool copied;
	struct work_struct end;
	struct bio_vec vecs[PIECES];
};

static atomic_long_t readings = ATOMIC_LONG_INIT(0);

long kofi_test_readings(void)
{
	return atomic_long_read(&readings);
}

static void free_lease(struct kofi_lease *lease)
{
	kofi_watch_end(lease->watch);
	kofi_shim_free(lease, __alignof__(*lease));
}

static void end(struct work_struct *work)
{
	free_lease(container_of(work, struct kofi_lease, end));
	kofi_shim_module_put();
}

/* Any context. */
static void put(struct sk_buff *skb, struct ubuf_info *info, bool success)
{
	struct kofi_lease *lease = container_of(info, struct kofi_lease, info);

	if (!success)
		WRITE_ONCE(lease->copied, true);
	/* Whoever frees a pump waits for those who are in here: they may be using it when the lease is seen to be back. */
	rcu_read_lock();
	if (refcount_dec_and_test(&info->refcnt)) {
		if (atomic_cmpxchg(&lease->state, OUT, IDLE) == OUT)
			kofi_watch_event(lease->watch, KOFI_LEASE_BACK | (READ_ONCE(lease->copied) ? KOFI_LEASE_COPIED : 0));
		else
			kofi_queue(&lease->end);
	}
	rcu_read_unlock();
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
static const struct ubuf_info_ops ops = { .complete = put };
#endif

struct kofi_lease *kofi_shim_lease_new(struct kofi_pump *pump, u64 cookie)
{
	struct kofi_lease *lease = kofi_shim_alloc(sizeof(*lease), __alignof__(*lease));

	if (!lease)
		return NULL;
	memset(lease, 0, sizeof(*lease));
	lease->watch = kofi_watch_new(pump, cookie);
	if (!lease->watch) {
		kofi_shim_free(lease, __alignof__(*lease));
		return NULL;
	}
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
	lease->info.ops = &ops;
#else
	lease->info.callback = put;
#endif
	lease->info.flags = SKBFL_ZEROCOPY_FRAG | SKBFL_DONT_ORPHAN;
	INIT_WORK(&lease->end, end);
	kofi_pump_lends(pump);
	return lease;
}

void kofi_shim_lease_free(struct kofi_lease *lease)
{
	free_lease(lease);
}

bool kofi_shim_lease_give_up(struct kofi_lease *lease)
{
	/* Its end is code of ours. */
	kofi_shim_module_get();
	if (atomic_cmpxchg(&lease->state, OUT, GIVEN_UP) == OUT)
		return true;
	kofi_shim_module_put();
	return false;
}

/* Whether the network may refer to the pages of a piece: they are memory, count their users, and are not parts of a slab. */
static bool lendable(const struct kvec *piece)
{
	char *at = PTR_ALIGN_DOWN((char *)piece->iov_base, PAGE_SIZE), *last = (char *)piece->iov_base + piece->iov_len - 1;

	if (!piece->iov_len || !virt_addr_valid(piece->iov_base) || !virt_addr_valid(last))
		return false;
	for (; at <= last; at += PAGE_SIZE)
		if (!sendpage_ok(virt_to_page(at)) || is_zone_device_page(virt_to_page(at)))
			return false;
	return true;
}

/*
 * Whether what TCP reads it reads under the lease only: a probe for larger packets refers to pages without saying so. And a network card
 * that does not gather has all of it copied anyway.
 */
static bool lends(const struct sock *sk)
{
	return (READ_ONCE(sk->sk_route_caps) & NETIF_F_SG) && !READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_mtu_probing) &&
	       !inet_csk(sk)->icsk_mtup.enabled;
}

ssize_t kofi_sock_lend(struct socket *socket, struct kofi_lease *lease, const struct kvec *pieces, size_t count, u32 *events)
{
	struct msghdr message = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_ZEROCOPY, .msg_ubuf = &lease->info };
	size_t len = 0, used = 0;
	ssize_t sent;

	*events = 0;
	if (!lends(socket->sk))
		return -EOPNOTSUPP;
	for (; used < min_t(size_t, count, PIECES) && lendable(&pieces[used]); used++) {
		void *base = pieces[used].iov_base;

		lease->vecs[used] = (struct bio_vec){ virt_to_page(base), pieces[used].iov_len, offset_in_page(base) };
		len += pieces[used].iov_len;
	}
	/* TCP accounts for each piece by whole pages. */
	if (len < WORTH || len < used * PAGE_SIZE / 2)
		return -EOPNOTSUPP;
	lease->copied = false;
	refcount_set(&lease->info.refcnt, 1);
	atomic_set(&lease->state, OUT);
	iov_iter_bvec(&message.msg_iter, WRITE, lease->vecs, used, len);
	sent = sock_sendmsg(socket, &message);
	if (sent > 0)
		atomic_long_inc(&readings);
	if (refcount_dec_and_test(&lease->info.refcnt)) {
		/* Nobody has it: nothing was taken, or all of it is back already. */
		atomic_set(&lease->state, IDLE);
		*events = KOFI_LEASE_BACK;
	}
	if (READ_ONCE(lease->copied))
		*events |= KOFI_LEASE_COPIED;
	return sent;
}
