// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * kfi_perf - kfi_* against plain kernel sockets, in one run
 *
 * Two threads of this machine exchange messages over TCP, by kfi_* and by kernel_sendmsg() and
 * kernel_recvmsg() in turn: small ones to and fro, and large ones in one direction. The best of
 * several rounds counts. All of that happens while the module is loaded; the log has a line for
 * each comparison:
 *
 *   kfi_perf: ping-pong 64 bytes: kfi 21034 ns, sockets 20120 ns, ratio 1.045 (smaller is better)
 * kfi_perf: stream 1048576 bytes: kfi 2104 MB/s, sockets 2210 MB/s, ratio 0.952 (larger is better)
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/inet.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <linux/tcp.h>
#include <net/net_namespace.h>
#include <net/sock.h>

#include "link.h"

static char *address = "127.0.0.1";
module_param(address, charp, 0444);
MODULE_PARM_DESC(address, "an address of this machine, in text form");

static uint size = 64;
module_param(size, uint, 0444);
MODULE_PARM_DESC(size, "bytes of a small message");

static uint iterations = 2000;
module_param(iterations, uint, 0444);
MODULE_PARM_DESC(iterations, "round trips of small messages in a round");

static uint messages = 64;
module_param(messages, uint, 0444);
MODULE_PARM_DESC(messages, "large messages in a round");

static uint rounds = 3;
module_param(rounds, uint, 0444);
MODULE_PARM_DESC(rounds, "rounds, of which the best counts");

#define LARGE	(1u << 20)	/* bytes of a large message */
#define WINDOW	8		/* large messages under way */

/* One side of a connection, of either kind. */
struct side {
	struct link		link;
	struct socket		*sock;
	void			*out;
	void			*in;
	bool			first;		/* who begins, and measures */
	u64			ping_ns;
	u64			stream_ns;
	int			error;
	struct completion	done;
};

/* Small messages, by kfi_*. */

static int kfi_put(struct side *side, size_t len)
{
	struct kfi_cq_data_entry done;

	if (len <= side->link.info->tx_attr->inject_size)
		return kfi_inject(side->link.ep, side->out, len, 0);
	return (int)kfi_send(side->link.ep, side->out, len, NULL, 0, NULL) ?:
	       link_complete(side->link.tx_cq, &done);
}

/* Every receive has room for a large message. */
static int kfi_get(struct side *side)
{
	struct kfi_cq_data_entry done;
	int ret = link_complete(side->link.rx_cq, &done);

	return ret ?: (int)kfi_recv(side->link.ep, side->in, LARGE, NULL, 0, NULL);
}

static int kfi_rounds(struct side *side)
{
	ktime_t begin = ktime_get();
	uint i;
	int ret = 0;

	for (i = 0; !ret && i < iterations; i++) {
		if (side->first)
			ret = kfi_put(side, size) ?: kfi_get(side);
		else
			ret = kfi_get(side) ?: kfi_put(side, size);
	}
	side->ping_ns = ktime_to_ns(ktime_sub(ktime_get(), begin));
	return ret;
}

static int kfi_stream(struct side *side)
{
	struct kfi_cq_data_entry done;
	uint i, under_way = 0;
	ktime_t begin;
	int ret = 0;

	if (!side->first) {
		/* One is posted already. Then the other side may begin. */
		for (i = 1; !ret && i < WINDOW; i++)
			ret = kfi_recv(side->link.ep, side->in, LARGE, NULL, 0, NULL);
		ret = ret ?: kfi_put(side, 1);
		for (i = 0; !ret && i < messages; i++)
			ret = kfi_get(side);
		return ret ?: kfi_put(side, 1);
	}
	ret = kfi_get(side);
	begin = ktime_get();
	for (i = 0; !ret && i < messages; i++) {
		if (under_way == WINDOW) {
			ret = link_complete(side->link.tx_cq, &done);
			under_way--;
		}
		ret = ret ?: kfi_send(side->link.ep, side->out, LARGE, NULL, 0, NULL);
		under_way++;
	}
	for (; !ret && under_way; under_way--)
		ret = link_complete(side->link.tx_cq, &done);
	ret = ret ?: kfi_get(side);
	side->stream_ns = ktime_to_ns(ktime_sub(ktime_get(), begin));
	return ret;
}

/* The same by sockets. */

static int plain_put(struct side *side, size_t len)
{
	struct kvec piece = { .iov_base = side->out, .iov_len = len };
	struct msghdr msg = {};
	int ret = kernel_sendmsg(side->sock, &msg, &piece, 1, len);

	return ret < 0 ? ret : ret == len ? 0 : -EPIPE;
}

static int plain_get(struct side *side, size_t len)
{
	struct kvec piece = { .iov_base = side->in, .iov_len = len };
	struct msghdr msg = {};
	int ret = kernel_recvmsg(side->sock, &msg, &piece, 1, len, MSG_WAITALL);

	return ret < 0 ? ret : ret == len ? 0 : -ECONNRESET;
}

static int plain_rounds(struct side *side)
{
	ktime_t begin = ktime_get();
	uint i;
	int ret = 0;

	for (i = 0; !ret && i < iterations; i++) {
		if (side->first)
			ret = plain_put(side, size) ?: plain_get(side, size);
		else
			ret = plain_get(side, size) ?: plain_put(side, size);
	}
	side->ping_ns = ktime_to_ns(ktime_sub(ktime_get(), begin));
	return ret;
}

static int plain_stream(struct side *side)
{
	ktime_t begin;
	uint i;
	int ret = 0;

	if (!side->first) {
		ret = plain_put(side, 1);
		for (i = 0; !ret && i < messages; i++)
			ret = plain_get(side, LARGE);
		return ret ?: plain_put(side, 1);
	}
	ret = plain_get(side, 1);
	begin = ktime_get();
	for (i = 0; !ret && i < messages; i++)
		ret = plain_put(side, LARGE);
	ret = ret ?: plain_get(side, 1);
	side->stream_ns = ktime_to_ns(ktime_sub(ktime_get(), begin));
	return ret;
}

static void plain_limits(struct socket *sock)
{
	tcp_sock_set_nodelay(sock->sk);
	sock->sk->sk_rcvtimeo = msecs_to_jiffies(LINK_TIMEOUT_MS);
	sock->sk->sk_sndtimeo = msecs_to_jiffies(LINK_TIMEOUT_MS);
}

static int work(struct side *side)
{
	if (side->sock)
		return plain_rounds(side) ?: plain_stream(side);
	return kfi_rounds(side) ?: kfi_stream(side);
}

/* The second side's thread: with a listening link it accepts first. */
static int second(void *context)
{
	struct side *side = context;

	if (!side->sock)
		side->error = link_accept(&side->link, side->in, LARGE);
	side->error = side->error ?: work(side);
	/* Not complete() and return: this code may be gone by then. */
	kthread_complete_and_exit(&side->done, 0);
}

static int both(struct side *a, struct side *b, const void *addr)
{
	struct task_struct *task = kthread_run(second, b, "kfi_perf");
	int ret = 0;

	if (IS_ERR(task))
		return PTR_ERR(task);
	if (!a->sock)
		ret = link_connect(&a->link, addr, a->in, LARGE);
	ret = ret ?: work(a);
	/* Every wait of the other side has a limit. */
	wait_for_completion(&b->done);
	return ret ?: b->error;
}

static int kfi_round(struct side *a, struct side *b)
{
	size_t len = sizeof(struct sockaddr_storage);
	struct sockaddr_storage addr = {};
	int ret;

	ret = link_open(&b->link, address, NULL, KFI_SOURCE) ?:
	      link_listen(&b->link, &addr, &len) ?:
	      link_open(&a->link, address, NULL, 0) ?:
	      both(a, b, &addr);
	link_close(&a->link);
	link_close(&b->link);
	return ret;
}

static int plain_round(struct side *a, struct side *b)
{
	struct socket *listener = NULL;
	struct sockaddr_storage addr;
	struct net *net = current->nsproxy->net_ns;
	int ret, len = link_sockaddr(&addr, address, 0);

	if (len < 0)
		return len;
	ret = sock_create_kern(net, addr.ss_family, SOCK_STREAM, IPPROTO_TCP, &listener);
	if (ret)
		return ret;
	ret = kernel_bind(listener, (struct sockaddr *)&addr, len) ?: kernel_listen(listener, 1);
	if (!ret)
		ret = kernel_getsockname(listener, (struct sockaddr *)&addr);
	ret = ret < 0 ? ret :
	      sock_create_kern(net, addr.ss_family, SOCK_STREAM, IPPROTO_TCP, &a->sock) ?:
	      kernel_connect(a->sock, (struct sockaddr *)&addr, len, 0) ?:
	      kernel_accept(listener, &b->sock, 0);
	if (!ret) {
		plain_limits(a->sock);
		plain_limits(b->sock);
		ret = both(a, b, NULL);
	}
	if (a->sock)
		sock_release(a->sock);
	if (b->sock)
		sock_release(b->sock);
	sock_release(listener);
	return ret;
}

static void reset(struct side *side, bool first)
{
	void *out = side->out, *in = side->in;

	memset(side, 0, sizeof(*side));
	side->out = out;
	side->in = in;
	side->first = first;
	init_completion(&side->done);
}

static int measure(struct side *a, struct side *b, int (*round)(struct side *, struct side *),
		   u64 *ping, u64 *stream)
{
	int ret;

	reset(a, true);
	reset(b, false);
	ret = round(a, b);
	*ping = min(*ping, a->ping_ns);
	*stream = min(*stream, a->stream_ns);
	return ret;
}

static void report(u64 kfi_ping, u64 kfi_stream, u64 sock_ping, u64 sock_stream)
{
	u64 bytes = (u64)messages * LARGE;
	u64 ratio = div64_u64(kfi_ping * 1000, max(sock_ping, 1ULL));

	pr_info("ping-pong %u bytes: kfi %llu ns, sockets %llu ns, ratio %llu.%03llu (smaller is better)\n",
		size, div64_u64(kfi_ping, 2 * iterations), div64_u64(sock_ping, 2 * iterations),
		ratio / 1000, ratio % 1000);
	ratio = div64_u64(sock_stream * 1000, max(kfi_stream, 1ULL));
	pr_info("stream %u bytes: kfi %llu MB/s, sockets %llu MB/s, ratio %llu.%03llu (larger is better)\n",
		LARGE, div64_u64(bytes * 1000, max(kfi_stream, 1ULL)),
		div64_u64(bytes * 1000, max(sock_stream, 1ULL)), ratio / 1000, ratio % 1000);
}

static int __init perf_init(void)
{
	u64 kfi_ping = U64_MAX, kfi_stream = U64_MAX, sock_ping = U64_MAX, sock_stream = U64_MAX;
	struct side *sides;
	int ret = -ENOMEM;
	uint i;

	if (!iterations || !messages || !rounds || !size || size > LARGE)
		return -EINVAL;
	sides = kcalloc(2, sizeof(*sides), GFP_KERNEL);
	if (!sides)
		return -ENOMEM;
	for (i = 0; i < 2; i++) {
		sides[i].out = kvzalloc(LARGE, GFP_KERNEL);
		sides[i].in = kvzalloc(LARGE, GFP_KERNEL);
		if (!sides[i].out || !sides[i].in)
			goto out;
	}
	ret = 0;
	for (i = 0; !ret && i < rounds; i++)
		ret = measure(&sides[0], &sides[1], kfi_round, &kfi_ping, &kfi_stream) ?:
		      measure(&sides[0], &sides[1], plain_round, &sock_ping, &sock_stream);
	if (ret)
		pr_err("failed: %s\n", kfi_strerror(ret));
	else
		report(kfi_ping, kfi_stream, sock_ping, sock_stream);
out:
	for (i = 0; i < 2; i++) {
		kvfree(sides[i].out);
		kvfree(sides[i].in);
	}
	kfree(sides);
	/* Numbers above 255 are ours: nobody else must see them. */
	return ret <= -KFI_EOTHER ? -EIO : ret;
}

static void __exit perf_exit(void)
{
}

module_init(perf_init);
module_exit(perf_exit);
MODULE_DESCRIPTION("The kernel's Open Fabrics Interfaces against plain kernel sockets");
MODULE_LICENSE("Dual BSD/GPL");
