// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Work: what drives domains and listeners, and runs handlers of queues. */
#include <linux/llist.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/workqueue.h>
#include "shim.h"

/* Unbound, since moving megabytes keeps a processor busy; of high priority, since others wait for it; and with a rescuer, since memory
 * may be written out over a connection. */
static struct workqueue_struct *driving;
/* Handlers may wait for anything, and so must not hold up what drives domains. */
static struct workqueue_struct *handling;

int kofi_shim_work_init(void)
{
	driving = alloc_workqueue("kofi", WQ_UNBOUND | WQ_HIGHPRI | WQ_MEM_RECLAIM, 0);
	if (!driving)
		return -ENOMEM;
	handling = alloc_workqueue("kofi_handlers", WQ_HIGHPRI | WQ_MEM_RECLAIM, 0);
	if (handling)
		return 0;
	destroy_workqueue(driving);
	return -ENOMEM;
}

void kofi_shim_work_exit(void)
{
	destroy_workqueue(handling);
	destroy_workqueue(driving);
}

struct kofi_pump {
	struct work_struct work;
	struct delayed_work alarm;
	/* When that goes off; U64_MAX: it is not set. */
	u64 at;
	/* Watches with events that were not looked at: added to in any context, */
	struct llist_head ready;
	/* and taken from there by who drives. */
	struct llist_node *batch;
	/*
	 * A task that waits, and is woken instead of queueing work. There is no lock around it, and no wait queue: who is woken would wait
	 * for who wakes, who takes long to tell another processor. RCU keeps the task there that long; it may be woken once too often.
	 * An rcuwait would not tell a task that still looks from none.
	 */
	struct task_struct *sleeper;
	bool lends;
	void (*run)(void *);
	void *context;
};

/*
 * One watching of one socket. Apart from the socket, because a socket moves from a listener to a domain, and the node of a lock-free list
 * cannot be taken out of its middle.
 */
struct kofi_watch {
	struct llist_node node;
	struct kofi_pump *pump;
	u64 cookie;
	atomic_t events;
	unsigned long queued;
	bool over;
	refcount_t refs;
};

static void put(struct kofi_watch *watch)
{
	if (refcount_dec_and_test(&watch->refs))
		kofi_shim_free(watch, __alignof__(*watch));
}

static void pump_work(struct work_struct *work)
{
	struct kofi_pump *pump = container_of(work, struct kofi_pump, work);

	pump->run(pump->context);
}

static void pump_alarm(struct work_struct *work)
{
	struct kofi_pump *pump = container_of(to_delayed_work(work), struct kofi_pump, alarm);

	/* What is left to be waited for sets it anew, also if it has gone off a little early. */
	WRITE_ONCE(pump->at, U64_MAX);
	pump->run(pump->context);
}

struct kofi_pump *kofi_shim_pump_new(void (*run)(void *))
{
	struct kofi_pump *pump = kofi_shim_alloc(sizeof(*pump), __alignof__(*pump));

	if (pump) {
		INIT_WORK(&pump->work, pump_work);
		INIT_DELAYED_WORK(&pump->alarm, pump_alarm);
		init_llist_head(&pump->ready);
		pump->at = U64_MAX;
		pump->batch = NULL;
		pump->sleeper = NULL;
		pump->lends = false;
		pump->run = run;
		pump->context = NULL;
	}
	return pump;
}

void kofi_shim_pump_drive(struct kofi_pump *pump, void *context)
{
	pump->context = context;
}

void kofi_shim_pump_free(struct kofi_pump *pump)
{
	struct llist_node *node, *next;

	/* Leases are back, but who told of the last one may not be through. */
	if (pump->lends)
		synchronize_rcu();
	/* Each can start the other, once. */
	cancel_delayed_work_sync(&pump->alarm);
	cancel_work_sync(&pump->work);
	cancel_delayed_work_sync(&pump->alarm);
	cancel_work_sync(&pump->work);
	/* Its watches are over, but some may not have been taken out. */
	llist_for_each_safe(node, next, pump->batch)
		put(container_of(node, struct kofi_watch, node));
	llist_for_each_safe(node, next, llist_del_all(&pump->ready))
		put(container_of(node, struct kofi_watch, node));
	kofi_shim_free(pump, __alignof__(*pump));
}

void kofi_queue(struct work_struct *work)
{
	queue_work(driving, work);
}

void kofi_pump_lends(struct kofi_pump *pump)
{
	pump->lends = true;
}

void kofi_shim_pump_kick(struct kofi_pump *pump)
{
	queue_work(driving, &pump->work);
}

void kofi_shim_pump_alarm(struct kofi_pump *pump, u64 at)
{
	u64 now;

	if (at >= READ_ONCE(pump->at))
		return;
	WRITE_ONCE(pump->at, at);
	now = ktime_get_ns();
	/* Rounded up, also by the tick that has begun, so that it does not come too early and finds nothing to do. */
	mod_delayed_work(driving, &pump->alarm, at > now ? nsecs_to_jiffies(at - now) + 2 : 0);
}

bool kofi_shim_pump_next(struct kofi_pump *pump, u64 *cookie, u32 *events)
{
	for (;;) {
		struct kofi_watch *watch;
		bool over;

		if (!pump->batch)
			pump->batch = llist_reverse_order(llist_del_all(&pump->ready));
		if (!pump->batch)
			return false;
		watch = container_of(pump->batch, struct kofi_watch, node);
		pump->batch = pump->batch->next;
		/* From here on it may be put in again: then its events are for the next look, or already for this one. */
		clear_bit_unlock(0, &watch->queued);
		smp_mb__after_atomic();
		*cookie = watch->cookie;
		*events = atomic_xchg(&watch->events, 0);
		over = READ_ONCE(watch->over);
		put(watch);
		if (!over && *events)
			return true;
	}
}

struct kofi_watch *kofi_watch_new(struct kofi_pump *pump, u64 cookie)
{
	struct kofi_watch *watch = kofi_shim_alloc(sizeof(*watch), __alignof__(*watch));

	if (watch) {
		watch->pump = pump;
		watch->cookie = cookie;
		atomic_set(&watch->events, 0);
		watch->queued = 0;
		watch->over = false;
		refcount_set(&watch->refs, 1);
	}
	return watch;
}

void kofi_watch_end(struct kofi_watch *watch)
{
	WRITE_ONCE(watch->over, true);
	put(watch);
}

bool kofi_pump_take(struct kofi_pump *pump)
{
	return !READ_ONCE(pump->sleeper) && !cmpxchg(&pump->sleeper, NULL, current);
}

bool kofi_pump_has_events(struct kofi_pump *pump)
{
	return !llist_empty(&pump->ready);
}

void kofi_pump_leave(struct kofi_pump *pump, bool sees_to_it)
{
	WRITE_ONCE(pump->sleeper, NULL);
	/* With the barrier in kofi_watch_event: whatever found us there is seen from here on, also by a caller that sees to it itself; what
	 * comes later queues work. */
	smp_mb();
	if (!sees_to_it && kofi_pump_has_events(pump))
		kofi_shim_pump_kick(pump);
}

/* Any context; under the socket's callback lock, so that the watch is not over. */
void kofi_watch_event(struct kofi_watch *watch, u32 events)
{
	struct kofi_pump *pump = watch->pump;
	struct task_struct *sleeper;

	atomic_or(events, &watch->events);
	smp_mb__after_atomic();
	if (!test_and_set_bit(0, &watch->queued)) {
		refcount_inc(&watch->refs);
		llist_add(&watch->node, &pump->ready);
	}
	/* Behind either of these two: see kofi_pump_leave. */
	smp_mb__after_atomic();
	rcu_read_lock();
	sleeper = READ_ONCE(pump->sleeper);
	if (sleeper)
		wake_up_process(sleeper);
	else
		queue_work(driving, &pump->work);
	rcu_read_unlock();
}

struct kofi_notifier {
	struct work_struct work;
	kofi_handler handler;
	void *context;
	int cpu;
};

static void notifier_work(struct work_struct *work)
{
	struct kofi_notifier *notifier = container_of(work, struct kofi_notifier, work);

	notifier->handler(notifier->context);
}

struct kofi_notifier *kofi_shim_notifier_new(kofi_handler handler, void *context, int cpu)
{
	struct kofi_notifier *notifier = kofi_shim_alloc(sizeof(*notifier), __alignof__(*notifier));

	if (notifier) {
		INIT_WORK(&notifier->work, notifier_work);
		notifier->handler = handler;
		notifier->context = context;
		/* A hint: a processor that is not there, or gone later, is no error. */
		notifier->cpu = cpu >= 0 && cpu < nr_cpu_ids && cpu_online(cpu) ? cpu : WORK_CPU_UNBOUND;
	}
	return notifier;
}

void kofi_shim_notifier_trigger(struct kofi_notifier *notifier)
{
	queue_work_on(notifier->cpu, handling, &notifier->work);
}

bool kofi_shim_notifier_is_current(struct kofi_notifier *notifier)
{
	return current_work() == &notifier->work;
}

void kofi_shim_notifier_stop(struct kofi_notifier *notifier)
{
	cancel_work_sync(&notifier->work);
}

void kofi_shim_notifier_free(struct kofi_notifier *notifier)
{
	cancel_work_sync(&notifier->work);
	kofi_shim_free(notifier, __alignof__(*notifier));
}
