// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * TCP sockets of the kernel's own.
 *
 * A socket's callbacks run in softirq, or with the socket's lock held. They only note what has happened, and wake who drives, or queue work.
 *
 * What the kernel allocates for us by GFP_KERNEL is in a scope of NOIO, for the reason that memory.c tells.
 */
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/net.h>
#include <linux/sched/mm.h>
#include <linux/tcp.h>
#include <linux/uio.h>
#include <linux/version.h>
#include <net/net_namespace.h>
#include <net/sock.h>
#include <net/tcp.h>
#include <net/tcp_states.h>
#include "shim.h"

struct kofi_sock {
	struct socket *socket;
	/* Also the socket's sk_user_data. */
	struct kofi_watch *watch;
	void (*state_change)(struct sock *sk);
	void (*data_ready)(struct sock *sk);
	void (*write_space)(struct sock *sk);
	void (*error_report)(struct sock *sk);
};

static bool is_over(struct sock *sk)
{
	return READ_ONCE(sk->sk_err) || (READ_ONCE(sk->sk_shutdown) & RCV_SHUTDOWN) ||
	       ((1 << READ_ONCE(sk->sk_state)) & (TCPF_CLOSE | TCPF_CLOSE_WAIT));
}

static void happened(struct sock *sk, u32 events)
{
	struct kofi_watch *watch;

	rcu_read_lock();
	read_lock_bh(&sk->sk_callback_lock);
	/* A connection that was not accepted yet has its listener's callbacks, and no watch. */
	watch = rcu_dereference_sk_user_data(sk);
	if (watch)
		kofi_watch_event(watch, events | (is_over(sk) ? KOFI_SOCK_IN | KOFI_SOCK_OUT | KOFI_SOCK_OVER : 0));
	read_unlock_bh(&sk->sk_callback_lock);
	rcu_read_unlock();
}

static void kofi_state_change(struct sock *sk)
{
	happened(sk, KOFI_SOCK_IN | KOFI_SOCK_OUT);
}

static void kofi_data_ready(struct sock *sk)
{
	happened(sk, KOFI_SOCK_IN);
}

static void kofi_write_space(struct sock *sk)
{
	struct socket *socket = READ_ONCE(sk->sk_socket);

	if (!sk_stream_is_writeable(sk))
		return;
	/* What sk_stream_write_space does, but for waking those who sleep: nobody does. */
	if (socket)
		clear_bit(SOCK_NOSPACE, &socket->flags);
	happened(sk, KOFI_SOCK_OUT);
}

static void kofi_error_report(struct sock *sk)
{
	happened(sk, KOFI_SOCK_IN | KOFI_SOCK_OUT);
}

/* Gives a socket the callbacks that this one had before it was watched. */
static void restore(struct sock *sk, const struct kofi_sock *from)
{
	write_lock_bh(&sk->sk_callback_lock);
	rcu_assign_sk_user_data(sk, NULL);
	sk->sk_state_change = from->state_change;
	sk->sk_data_ready = from->data_ready;
	sk->sk_write_space = from->write_space;
	sk->sk_error_report = from->error_report;
	write_unlock_bh(&sk->sk_callback_lock);
}

static struct kofi_sock *wrap(struct socket *socket)
{
	struct kofi_sock *sock = kofi_shim_alloc(sizeof(*sock), __alignof__(*sock));
	struct sock *sk = socket->sk;

	if (!sock) {
		sock_release(socket);
		return NULL;
	}
	sock->socket = socket;
	sock->watch = NULL;
	sock->state_change = sk->sk_state_change;
	sock->data_ready = sk->sk_data_ready;
	sock->write_space = sk->sk_write_space;
	sock->error_report = sk->sk_error_report;
	kofi_shim_count(10, 1);
	return sock;
}

/* What all our sockets have in common. Memory may be written out over them: see memory.c. */
static void set_up(struct socket *socket)
{
	sock_set_reuseaddr(socket->sk);
	tcp_sock_set_nodelay(socket->sk);
	/* A peer whose machine is gone is asked for after 30 s of silence, and taken to be gone 30 s later. */
	sock_set_keepalive(socket->sk);
	tcp_sock_set_keepidle(socket->sk, 30);
	tcp_sock_set_keepintvl(socket->sk, 10);
	tcp_sock_set_keepcnt(socket->sk, 3);
	socket->sk->sk_allocation = GFP_NOIO;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
	socket->sk->sk_use_task_frag = false;
#endif
}

static int family(const struct kofi_addr *addr)
{
	return ((const struct sockaddr *)addr->bytes)->sa_family;
}

int kofi_shim_sock_new(struct net *net, const struct kofi_addr *addr, struct kofi_sock **sock)
{
	unsigned int scope = memalloc_noio_save();
	struct socket *socket;
	/* Not as a kernel's socket: those do not keep their namespace alive, which ours must while TCP is finishing a connection. */
	int error = __sock_create(net, family(addr), SOCK_STREAM, IPPROTO_TCP, &socket, 0);

	memalloc_noio_restore(scope);
	if (error)
		return error;
	set_up(socket);
	*sock = wrap(socket);
	return *sock ? 0 : -ENOMEM;
}

int kofi_shim_sock_bind(struct kofi_sock *sock, const struct kofi_addr *addr, bool no_port)
{
	unsigned int scope = memalloc_noio_save();
	struct kofi_addr copy = *addr;
	int error, one = 1;

	/* A port is then found when the destination is known. */
	if (no_port && sock->socket->ops->setsockopt)
		sock->socket->ops->setsockopt(sock->socket, SOL_IP, IP_BIND_ADDRESS_NO_PORT, KERNEL_SOCKPTR(&one), sizeof(one));
	error = kernel_bind(sock->socket, (void *)copy.bytes, copy.len);
	memalloc_noio_restore(scope);
	return error;
}

int kofi_shim_sock_listen(struct kofi_sock *sock, int backlog)
{
	unsigned int scope = memalloc_noio_save();
	int error = kernel_listen(sock->socket, backlog);

	memalloc_noio_restore(scope);
	return error;
}

static void set_addr(struct kofi_addr *addr, const struct sockaddr_storage *found, int len)
{
	addr->len = min_t(int, len, sizeof(addr->bytes));
	memcpy(addr->bytes, found, addr->len);
}

static int get_name(struct socket *socket, struct kofi_addr *addr, bool peer)
{
	struct sockaddr_storage found = {};
	int len = peer ? kernel_getpeername(socket, (void *)&found) : kernel_getsockname(socket, (void *)&found);

	if (len < 0)
		return len;
	set_addr(addr, &found, len);
	return 0;
}

int kofi_shim_sock_accept(struct kofi_sock *listener, struct kofi_sock **sock, struct kofi_addr *local, struct kofi_addr *peer)
{
	unsigned int scope = memalloc_noio_save();
	struct socket *socket;
	int error = kernel_accept(listener->socket, &socket, O_NONBLOCK);

	memalloc_noio_restore(scope);
	if (error)
		return error;
	set_up(socket);
	/* It has inherited ours. They go before anything can fail, as TCP may need the rest of it for longer than we are there. */
	restore(socket->sk, listener);
	*sock = wrap(socket);
	if (!*sock)
		return -ENOMEM;
	error = get_name(socket, local, false);
	if (!error)
		error = get_name(socket, peer, true);
	if (error) {
		kofi_shim_sock_close(*sock);
		*sock = NULL;
		/* It is gone already: no reason to pause. */
		return -ECONNABORTED;
	}
	return 0;
}

int kofi_shim_sock_connect(struct kofi_sock *sock, const struct kofi_addr *addr)
{
	unsigned int scope = memalloc_noio_save();
	struct kofi_addr copy = *addr;
	int error = kernel_connect(sock->socket, (void *)copy.bytes, copy.len, O_NONBLOCK);

	memalloc_noio_restore(scope);
	return error == -EINPROGRESS ? 0 : error;
}

int kofi_shim_sock_connecting(struct kofi_sock *sock, struct kofi_addr *local)
{
	struct sock *sk = sock->socket->sk;
	int state = READ_ONCE(sk->sk_state), error;

	if ((1 << state) & (TCPF_SYN_SENT | TCPF_SYN_RECV))
		return 0;
	error = sock_error(sk);
	if (!error && state == TCP_CLOSE)
		error = -ECONNREFUSED;
	if (!error)
		error = get_name(sock->socket, local, false);
	return error ? error : 1;
}

int kofi_shim_sock_name(struct kofi_sock *sock, struct kofi_addr *local)
{
	return get_name(sock->socket, local, false);
}

ssize_t kofi_shim_sock_send(struct kofi_sock *sock, struct kvec *pieces, size_t count, size_t len, bool more)
{
	struct msghdr message = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0) };

	return kernel_sendmsg(sock->socket, &message, pieces, count, len);
}

ssize_t kofi_shim_sock_lend(struct kofi_sock *sock, struct kofi_lease *lease, const struct kvec *pieces, size_t count, u32 *events)
{
	return kofi_sock_lend(sock->socket, lease, pieces, count, events);
}

bool kofi_shim_sock_broken(struct kofi_sock *sock)
{
	struct sock *sk = sock->socket->sk;

	return READ_ONCE(sk->sk_err) || READ_ONCE(sk->sk_state) == TCP_CLOSE;
}

void kofi_shim_sock_nudge(struct kofi_sock *sock)
{
	/* It has been silent for longer: so the peer is asked for a sign of life now. */
	tcp_sock_set_keepidle(sock->socket->sk, 1);
}

ssize_t kofi_shim_sock_recv(struct kofi_sock *sock, struct kvec *pieces, size_t count, size_t len)
{
	struct msghdr message = { .msg_flags = MSG_DONTWAIT };

	return kernel_recvmsg(sock->socket, &message, pieces, count, len, MSG_DONTWAIT);
}

void kofi_shim_sock_answers(struct kofi_sock *sock, u32 *outstanding, u32 *unanswered, u32 *heard)
{
	struct tcp_info info;

	tcp_get_info(sock->socket->sk, &info);
	*unanswered = info.tcpi_retransmits || info.tcpi_probes;
	/* With the window closed nothing is unacknowledged: what waits shows by the probes. */
	*outstanding = info.tcpi_unacked || info.tcpi_backoff || *unanswered;
	*heard = min(info.tcpi_last_data_recv, info.tcpi_last_ack_recv);
}

int kofi_shim_sock_watch(struct kofi_sock *sock, struct kofi_pump *pump, u64 cookie)
{
	struct sock *sk = sock->socket->sk;
	struct kofi_watch *watch = kofi_watch_new(pump, cookie);

	if (!watch)
		return -ENOMEM;
	kofi_shim_sock_unwatch(sock);
	sock->watch = watch;
	write_lock_bh(&sk->sk_callback_lock);
	/* Connections that a listener makes must not have its watch. */
	__rcu_assign_sk_user_data_with_flags(sk, watch, SK_USER_DATA_NOCOPY);
	sk->sk_state_change = kofi_state_change;
	sk->sk_data_ready = kofi_data_ready;
	sk->sk_write_space = kofi_write_space;
	sk->sk_error_report = kofi_error_report;
	write_unlock_bh(&sk->sk_callback_lock);
	/* What has happened before nobody told of. */
	happened(sk, KOFI_SOCK_IN | KOFI_SOCK_OUT);
	return 0;
}

void kofi_shim_sock_unwatch(struct kofi_sock *sock)
{
	if (!sock->watch)
		return;
	restore(sock->socket->sk, sock);
	kofi_watch_end(sock->watch);
	sock->watch = NULL;
}

void kofi_shim_sock_finish(struct kofi_sock *sock)
{
	kernel_sock_shutdown(sock->socket, SHUT_WR);
}

void kofi_shim_sock_abort(struct kofi_sock *sock)
{
	sock_no_linger(sock->socket->sk);
}

void kofi_shim_sock_close(struct kofi_sock *sock)
{
	kofi_shim_sock_unwatch(sock);
	kernel_sock_shutdown(sock->socket, SHUT_RDWR);
	sock_release(sock->socket);
	kofi_shim_free(sock, __alignof__(*sock));
	kofi_shim_count(10, -1);
}
