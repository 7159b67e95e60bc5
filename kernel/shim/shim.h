/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the Rust part asks of the kernel. No rule of OFI's objects and nothing of the wire protocol is here: those are Rust's.
 *
 * All functions: process context, may sleep, unless they say otherwise.
 */
#ifndef KOFI_SHIM_H
#define KOFI_SHIM_H

#include <linux/types.h>
#include "../include-private/kofi_kernel.h"

struct kvec;
struct work_struct;
struct seq_file;

struct kofi_pump;

/* memory.c */
extern void *kofi_shim_alloc(size_t size, size_t align);
extern void kofi_shim_free(void *memory, size_t align);
/* Allocations that are alive. */
extern long kofi_shim_allocations(void);
/* Allocations that were ever made: for tests. */
extern long kofi_test_allocations_made(void);
/* For tests: the nth allocation from now on fails; 0: none. Gives whether the last one asked for has failed. */
extern bool kofi_test_fail_nth(unsigned int nth);
/* A line for each leaked allocation, and one for each class of objects that are open. Gives their number. */
extern long kofi_shim_report_leaks(void);
/* An object of a class was opened (1) or closed (-1). */
extern void kofi_shim_count(unsigned int class, int by);
/* Lists what memory consists of, as kernel addresses. Gives the bytes in all, or an error number. */
extern s64 kofi_shim_flatten(const struct kofi_memory *memory, struct kvec *out, u32 max);

/* wait.c */
struct kofi_mutex;
struct kofi_wait;
extern struct kofi_mutex *kofi_shim_mutex_new(unsigned int class);
extern void kofi_shim_mutex_free(struct kofi_mutex *mutex);
extern void kofi_shim_mutex_lock(struct kofi_mutex *mutex);
extern void kofi_shim_mutex_unlock(struct kofi_mutex *mutex);
extern struct kofi_wait *kofi_shim_wait_new(void);
extern void kofi_shim_wait_free(struct kofi_wait *wait);
/* Number of wakes so far: taken before looking whether there is something, given to kofi_shim_wait_sleep if not. */
extern u32 kofi_shim_wait_seq(struct kofi_wait *wait);
/* Any context. */
extern void kofi_shim_wait_wake(struct kofi_wait *wait);
/*
 * Until somebody wakes (0), the moment has passed (1), or a signal or kthread_stop came (2).
 *
 * With a pump, the sleeper drives it meanwhile, if nobody else does: it is woken (0) by what happens to sockets, and no work is queued for
 * that. It is to look at once then. So what is waited for comes without a detour over another task. And where the last waits were short,
 * the caller looks for a moment before it sleeps, counted from when it began to wait (since; only used with a pump).
 */
extern int kofi_shim_wait_sleep(struct kofi_wait *wait, struct kofi_pump *pump, u32 seq, u64 since, u64 deadline);
/* Until somebody wakes, or the time is over (ms). No signal ends it: only for what comes in any case. */
extern void kofi_shim_wait_quietly(struct kofi_wait *wait, u32 seq, u32 millis);
extern u64 kofi_shim_now(void);

/* work.c */
struct kofi_watch;
extern int kofi_shim_work_init(void);
extern void kofi_shim_work_exit(void);
/* A pump calls run(context) in a workqueue whenever something happens to a socket it watches, its alarm goes off, or it is kicked. */
extern struct kofi_pump *kofi_shim_pump_new(void (*run)(void *));
/* What context is, before anything of that can happen. */
extern void kofi_shim_pump_drive(struct kofi_pump *pump, void *context);
/* Waits until it does not run. Not from within run. */
extern void kofi_shim_pump_free(struct kofi_pump *pump);
/* Any context. */
extern void kofi_shim_pump_kick(struct kofi_pump *pump);
/* Runs it at that moment, if not before. What is set for a later moment is forgotten: to be asked for in each run. One caller at a time. */
extern void kofi_shim_pump_alarm(struct kofi_pump *pump, u64 at);
/* The next socket that something has happened to. One caller at a time. */
extern bool kofi_shim_pump_next(struct kofi_pump *pump, u64 *cookie, u32 *events);
/* Who waits takes the driving over, and leaves it to the workqueue again, unless it sees to what there is itself. */
extern bool kofi_pump_take(struct kofi_pump *pump);
extern bool kofi_pump_has_events(struct kofi_pump *pump);
extern void kofi_pump_leave(struct kofi_pump *pump, bool sees_to_it);
/* Does work that the module waits for before it goes. Any context. */
extern void kofi_queue(struct work_struct *work);
/* Events will come from the network itself, too, which is waited for before the pump is freed. */
extern void kofi_pump_lends(struct kofi_pump *pump);
/* Within the shim, under sk_callback_lock. */
extern struct kofi_watch *kofi_watch_new(struct kofi_pump *pump, u64 cookie);
extern void kofi_watch_end(struct kofi_watch *watch);
extern void kofi_watch_event(struct kofi_watch *watch, u32 events);

/* A handler of a queue: runs once for each trigger that finds it at rest. */
struct kofi_notifier;
extern struct kofi_notifier *kofi_shim_notifier_new(kofi_handler handler, void *context, int cpu);
/* Any context. */
extern void kofi_shim_notifier_trigger(struct kofi_notifier *notifier);
/* Whether the caller is the handler. */
extern bool kofi_shim_notifier_is_current(struct kofi_notifier *notifier);
/* Waits until it does not run. Not from within the handler. What is triggered later runs again. */
extern void kofi_shim_notifier_stop(struct kofi_notifier *notifier);
/* The same, and is rid of it. */
extern void kofi_shim_notifier_free(struct kofi_notifier *notifier);

/* lease.c */
struct kofi_lease;
struct socket;
#define KOFI_LEASE_BACK		1
#define KOFI_LEASE_COPIED	2	/* of what was lent something was copied all the same */
/* The pump is told by the cookie when it is back. */
extern struct kofi_lease *kofi_shim_lease_new(struct kofi_pump *pump, u64 cookie);
/* Only one that is not out. */
extern void kofi_shim_lease_free(struct kofi_lease *lease);
/* One that does not come back: nobody is told of it any more, and it frees itself. false: it is back already. */
extern bool kofi_shim_lease_give_up(struct kofi_lease *lease);
/* How often something was lent: for tests. */
extern long kofi_test_readings(void);
/* Within the shim. */
extern ssize_t kofi_sock_lend(struct socket *socket, struct kofi_lease *lease, const struct kvec *pieces, size_t count, u32 *events);

/* socket.c */
struct kofi_sock;
#define KOFI_SOCK_IN	1
#define KOFI_SOCK_OUT	2
#define KOFI_SOCK_OVER	4	/* the peer's stream has ended, or the connection broke */
extern int kofi_shim_sock_new(struct net *net, const struct kofi_addr *addr, struct kofi_sock **sock);
extern int kofi_shim_sock_bind(struct kofi_sock *sock, const struct kofi_addr *addr, bool no_port);
extern int kofi_shim_sock_listen(struct kofi_sock *sock, int backlog);
extern int kofi_shim_sock_accept(struct kofi_sock *listener, struct kofi_sock **sock, struct kofi_addr *local,
				 struct kofi_addr *peer);
extern int kofi_shim_sock_connect(struct kofi_sock *sock, const struct kofi_addr *addr);
/* 1: connected, 0: not yet, or why it failed. */
extern int kofi_shim_sock_connecting(struct kofi_sock *sock, struct kofi_addr *local);
extern int kofi_shim_sock_name(struct kofi_sock *sock, struct kofi_addr *local);
/* Never wait. Gather from and scatter to kernel addresses, which the call may not outlive. */
extern ssize_t kofi_shim_sock_send(struct kofi_sock *sock, struct kvec *pieces, size_t count, size_t len, bool more);
/*
 * The same, but for that TCP reads the pieces where they are, under a lease that is not out. *events: whether it is back already, and
 * what was found out; otherwise it is out now. -EOPNOTSUPP: the pieces or the connection do not lend themselves to it.
 */
extern ssize_t kofi_shim_sock_lend(struct kofi_sock *sock, struct kofi_lease *lease, const struct kvec *pieces, size_t count, u32 *events);
/* Whether the connection is broken, as far as TCP knows. */
extern bool kofi_shim_sock_broken(struct kofi_sock *sock);
/* Sends a packet without anything in it, for network cards that let go of a packet when they send another. */
extern void kofi_shim_sock_nudge(struct kofi_sock *sock);
extern ssize_t kofi_shim_sock_recv(struct kofi_sock *sock, struct kvec *pieces, size_t count, size_t len);
/* What TCP knows of the peer's answers: whether something is outstanding, was asked again in vain, and how many ms ago it was heard. */
extern void kofi_shim_sock_answers(struct kofi_sock *sock, u32 *outstanding, u32 *unanswered, u32 *heard);
extern int kofi_shim_sock_watch(struct kofi_sock *sock, struct kofi_pump *pump, u64 cookie);
extern void kofi_shim_sock_unwatch(struct kofi_sock *sock);
/* Ends the outgoing stream, after what was sent. */
extern void kofi_shim_sock_finish(struct kofi_sock *sock);
/* Makes closing it a reset, by which what was lent to it comes back. */
extern void kofi_shim_sock_abort(struct kofi_sock *sock);
/* Ends both directions, and is rid of it. */
extern void kofi_shim_sock_close(struct kofi_sock *sock);

/* net.c */
struct kofi_interface {
	char name[16];
	struct kofi_addr addr;
	u32 prefix;
	u32 loopback;
};
/* Takes a reference; NULL: current's namespace. */
extern struct net *kofi_shim_net_get(struct net *net);
extern void kofi_shim_net_put(struct net *net);
/* The number that /proc/PID/ns/net has for it. */
extern u32 kofi_shim_net_number(const struct net *net);
/* Addresses of interfaces that are up: at most max; gives how many there are. */
extern size_t kofi_shim_interfaces(struct net *net, struct kofi_interface *out, size_t max);
/* Which of our addresses reaches addr. */
extern int kofi_shim_route(struct net *net, const struct kofi_addr *addr, struct kofi_addr *local);
extern u64 kofi_shim_random(void);

/* show.c */
extern void kofi_shim_show_init(void);
extern void kofi_shim_show_exit(void);
/*
 * Shows an object in debugfs, in the directory parent (NULL: that of the module): as a file of what walk() says, or with walk NULL as a
 * directory. NULL: there was no memory; that it is not shown is no reason to fail.
 *
 * walk(context, index, NULL) gives the first place from index on that has something to say, or U64_MAX. walk(context, index, file) says
 * what stands there, by kofi_shim_show_text(); nothing, if it has gone meanwhile.
 */
struct kofi_shown;
typedef u64 (*kofi_walk)(void *context, u64 index, struct seq_file *file);
extern struct kofi_shown *kofi_shim_show(struct kofi_shown *parent, const char *name, size_t len, kofi_walk walk, void *context);
extern void kofi_shim_show_text(struct seq_file *file, const char *text, size_t len);
/* When this has returned walk() is not running, and will not be. Not under a lock that it takes. */
extern void kofi_shim_hide(struct kofi_shown *shown);
/* Lines for who debugs (dynamic debug): describe() writes the text and a zero into the room, and gives it; called only if wanted. */
typedef const char *(*kofi_describe)(void *context, char *text, size_t len);
extern void kofi_shim_tell_connection(kofi_describe describe, void *context);
extern void kofi_shim_tell_refusal(kofi_describe describe, void *context);

/* module.c */
/* Limits in time, ms, 0: none: connect, handshake, decision, shutdown, peer. */
extern void kofi_shim_limits(u32 *millis);
/* The C faces, where they are linked in: kernel/api. */
extern int kofi_faces_init(void);
extern void kofi_faces_exit(void);
extern void kofi_shim_warn(const char *text, size_t len);
extern void __noreturn kofi_shim_bug(const char *text, size_t len);
extern void kofi_shim_module_get(void);
extern void kofi_shim_module_put(void);

#endif
