// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * kfi_pingpong - latency, with libfabric's fi_pingpong, `kofi pingpong` or itself as the peer
 *
 * It does what `fi_pingpong -p tcp -e msg` does, in either role. Both sides need the same number of
 * iterations and the same size, since they do not tell each other:
 *
 *   insmod kfi_pingpong.ko role=server address=192.0.2.7 size=64 iterations=1000
 *   fi_pingpong -p tcp -e msg -S 64 -I 1000 192.0.2.7
 *
 * As a client it runs while it is loaded, as a server in a thread, for one client, which ends when
 * the module is removed. Removing it earlier takes until the present step has ended, at most 20
 * seconds.
 *
 * The peers have a control channel, a plain TCP connection. On it the server tells where its
 * endpoint listens (length as 32 bits big endian, address format as 32 bits of the host, address),
 * and before the messages the client says "q", the server "a"; behind them the client says how many
 * it got, in ten bytes, and the server "cnt ok".
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/inet.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <linux/tcp.h>
#include <net/net_namespace.h>
#include <net/sock.h>

#include "link.h"

static char *role = "client";
module_param(role, charp, 0444);
MODULE_PARM_DESC(role, "server, client, or both: client and server in one machine");

static char *address = "127.0.0.1";
module_param(address, charp, 0444);
MODULE_PARM_DESC(address, "the server's address, in text form");

static ushort port = 47592;
module_param(port, ushort, 0444);
MODULE_PARM_DESC(port, "the server's port for the control channel");

static uint size = 64;
module_param(size, uint, 0444);
MODULE_PARM_DESC(size, "bytes of a message");

static uint iterations = 10;
module_param(iterations, uint, 0444);
MODULE_PARM_DESC(iterations, "round trips");

#define LARGEST		(6u << 20)
#define SMALLEST	64u

static struct task_struct *task;
static struct socket *listener;

static int control_send(struct socket *sock, const void *word, size_t len)
{
	struct kvec piece = { .iov_base = (void *)word, .iov_len = len };
	struct msghdr msg = {};
	int ret = kernel_sendmsg(sock, &msg, &piece, 1, len);

	return ret < 0 ? ret : ret == len ? 0 : -EPIPE;
}

static int control_receive(struct socket *sock, void *word, size_t len)
{
	struct kvec piece = { .iov_base = word, .iov_len = len };
	struct msghdr msg = {};
	int ret = kernel_recvmsg(sock, &msg, &piece, 1, len, MSG_WAITALL);

	return ret < 0 ? (ret == -EAGAIN ? -ETIMEDOUT : ret) : ret == len ? 0 : -ECONNRESET;
}

static int control_expect(struct socket *sock, const char *wanted, size_t len)
{
	char found[8] = {};
	int ret = control_receive(sock, found, len);

	return ret ?: memcmp(found, wanted, len) ? -EPROTO : 0;
}

static void control_limits(struct socket *sock)
{
	tcp_sock_set_nodelay(sock->sk);
	sock->sk->sk_rcvtimeo = msecs_to_jiffies(LINK_TIMEOUT_MS);
	sock->sk->sk_sndtimeo = msecs_to_jiffies(LINK_TIMEOUT_MS);
}

static int control_sync(struct socket *sock, bool server)
{
	if (server)
		return control_expect(sock, "q", 2) ?: control_send(sock, "a", 2);
	return control_send(sock, "q", 2) ?: control_expect(sock, "a", 2);
}

static int control_count(struct socket *sock, bool server, uint received)
{
	char word[10] = {};

	if (server)
		return control_receive(sock, word, sizeof(word)) ?: control_send(sock, "cnt ok", 7);
	snprintf(word, sizeof(word), "%u", received);
	return control_send(sock, word, sizeof(word)) ?: control_expect(sock, "cnt ok", 7);
}

/* Where the server's endpoint listens. */
struct control_name {
	__be32	len;
	u32	format;
	u8	addr[28];
};

static int control_send_name(struct socket *sock, const struct sockaddr_storage *addr, size_t len)
{
	struct control_name name = {
		.len = htonl(len),
		.format = addr->ss_family == AF_INET ? KFI_SOCKADDR_IN : KFI_SOCKADDR_IN6,
	};

	if (len > sizeof(name.addr))
		return -EINVAL;
	memcpy(name.addr, addr, len);
	return control_send(sock, &name, 8 + len);
}

static int control_receive_name(struct socket *sock, struct sockaddr_storage *addr)
{
	struct control_name name;
	size_t len;
	int ret;

	ret = control_receive(sock, &name, 8);
	if (ret)
		return ret;
	len = ntohl(name.len);
	if (!(name.format == KFI_SOCKADDR_IN && len == sizeof(struct sockaddr_in)) &&
	    !(name.format == KFI_SOCKADDR_IN6 && len == sizeof(struct sockaddr_in6)))
		return -EAFNOSUPPORT;
	ret = control_receive(sock, name.addr, len);
	if (ret)
		return ret;
	memset(addr, 0, sizeof(*addr));
	memcpy(addr, name.addr, len);
	return 0;
}

static int send_one(struct link *link, const void *buf)
{
	struct kfi_cq_data_entry done;

	if (size < link->info->tx_attr->inject_size)
		return kfi_inject(link->ep, buf, size, 0);
	return (int)kfi_send(link->ep, buf, size, NULL, 0, NULL) ?:
	       link_complete(link->tx_cq, &done);
}

/* Waits for a message, and makes room for the next one. */
static int receive_one(struct link *link, void *buf, size_t room)
{
	struct kfi_cq_data_entry done;
	int ret = link_complete(link->rx_cq, &done);

	if (ret)
		return ret;
	return done.len != size ? -EMSGSIZE : (int)kfi_recv(link->ep, buf, room, NULL, 0, NULL);
}

static int measure(struct link *link, struct socket *control, bool server, void *out, void *in,
		   size_t room)
{
	ktime_t begin;
	uint i;
	u64 ns;
	int ret;

	ret = control_sync(control, server);
	begin = ktime_get();
	for (i = 0; !ret && i < iterations; i++) {
		if (server)
			ret = receive_one(link, in, room) ?: send_one(link, out);
		else
			ret = send_one(link, out) ?: receive_one(link, in, room);
	}
	ns = ktime_to_ns(ktime_sub(ktime_get(), begin));
	if (ret)
		return ret;
	ret = control_count(control, server, iterations);
	if (!ret)
		pr_info("%s: %u bytes, %u iterations, %llu ns for each transfer\n",
			server ? "server" : "client", size, iterations,
			 div64_u64(ns, 2ULL * iterations));
	return ret;
}

/* The last message in both directions. */
static int finish(struct link *link, char *out, const char *in)
{
	struct kvec piece = { .iov_base = out, .iov_len = 4 };
	struct kfi_msg msg = { .type = KFI_KVEC, .msg_iov = &piece, .iov_count = 1 };
	struct kfi_cq_data_entry done;
	int ret;

	memcpy(out, "fin", 4);
	ret = kfi_sendmsg(link->ep, &msg, KFI_COMPLETION | KFI_TRANSMIT_COMPLETE) ?:
	      link_complete(link->tx_cq, &done) ?:
	      link_complete(link->rx_cq, &done);
	if (ret)
		return ret;
	if (done.len != 4 || memcmp(in, "fin", 4))
		return -EPROTO;
	/* The peer may have been quicker. */
	kfi_shutdown(link->ep, 0);
	return 0;
}

static int run(struct socket *control, bool server)
{
	size_t room = max(size, SMALLEST), len = sizeof(struct sockaddr_storage);
	struct sockaddr_storage name = {};
	struct link link = {};
	char *out, *in;
	int ret = -ENOMEM;

	control_limits(control);
	out = kvzalloc(room, GFP_KERNEL);
	in = kvzalloc(room, GFP_KERNEL);
	if (!out || !in)
		goto out;
	if (server)
		ret = link_open(&link, address, NULL, KFI_SOURCE) ?:
		      link_listen(&link, &name, &len) ?:
		      control_send_name(control, &name, len) ?:
		      link_accept(&link, in, room);
	else
		ret = control_receive_name(control, &name) ?:
		      link_open(&link, address, NULL, 0) ?:
		      link_connect(&link, &name, in, room);
	ret = ret ?: measure(&link, control, server, out, in, room) ?: finish(&link, out, in);
	link_close(&link);
out:
	kvfree(out);
	kvfree(in);
	if (ret)
		pr_err("%s failed: %s\n", server ? "server" : "client", kfi_strerror(ret));
	else
		pr_info("%s: ok\n", server ? "server" : "client");
	/* Numbers above 255 are ours: nobody else must see them. */
	return ret <= -KFI_EOTHER ? -EIO : ret;
}

static int serve(void *unused)
{
	struct socket *control = NULL;

	while (!kthread_should_stop()) {
		/* Polls, to see kthread_stop(), which does not wake an accept. */
		if (kernel_accept(listener, &control, O_NONBLOCK)) {
			msleep(20);
			continue;
		}
		run(control, true);
		sock_release(control);
		break;
	}
	while (!kthread_should_stop())
		msleep(20);
	return 0;
}

static int control_open(struct socket **sock, struct sockaddr_storage *addr, int *len)
{
	*len = link_sockaddr(addr, address, port);
	if (*len < 0)
		return *len;
	return sock_create_kern(current->nsproxy->net_ns, addr->ss_family, SOCK_STREAM, IPPROTO_TCP,
				sock);
}

static int start_server(void)
{
	struct sockaddr_storage addr;
	int ret, len;

	ret = control_open(&listener, &addr, &len);
	if (ret)
		return ret;
	sock_set_reuseaddr(listener->sk);
	ret = kernel_bind(listener, (struct sockaddr *)&addr, len) ?: kernel_listen(listener, 1);
	if (!ret) {
		task = kthread_run(serve, NULL, "kfi_pingpong");
		ret = PTR_ERR_OR_ZERO(task);
	}
	if (ret)
		sock_release(listener);
	else
		pr_info("server: waiting on %s port %u\n", address, port);
	return ret;
}

static void stop_server(void)
{
	kthread_stop(task);
	sock_release(listener);
}

static int run_client(void)
{
	struct sockaddr_storage addr;
	struct socket *control;
	int ret, len;

	ret = control_open(&control, &addr, &len);
	if (ret)
		return ret;
	ret = kernel_connect(control, (struct sockaddr *)&addr, len, 0) ?: run(control, false);
	sock_release(control);
	return ret;
}

static bool has_server(void)
{
	return strcmp(role, "client");
}

static int __init pingpong_init(void)
{
	bool client = strcmp(role, "server");
	int ret = 0;

	if ((client && has_server() && strcmp(role, "both")) || size > LARGEST || !iterations)
		return -EINVAL;
	if (has_server())
		ret = start_server();
	if (ret || !client)
		return ret;
	ret = run_client();
	if (ret && has_server())
		stop_server();
	return ret;
}

static void __exit pingpong_exit(void)
{
	if (has_server())
		stop_server();
}

module_init(pingpong_init);
module_exit(pingpong_exit);
MODULE_DESCRIPTION("Latency of the kernel's Open Fabrics Interfaces, with fi_pingpong as a peer");
MODULE_LICENSE("Dual BSD/GPL");
