// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Mutexes, time, and waits that always end. */
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include <linux/wait.h>
#include "shim.h"

struct kofi_mutex {
	struct mutex mutex;
};

/* One for each class in kernel/rust/src/sys/lock.rs, so that lockdep tells their mutexes apart. */
#define CLASSES 8
static struct lock_class_key keys[CLASSES];

struct kofi_mutex *kofi_shim_mutex_new(unsigned int class)
{
	struct kofi_mutex *mutex = kofi_shim_alloc(sizeof(*mutex), __alignof__(*mutex));

	if (mutex)
		__mutex_init(&mutex->mutex, "kofi", &keys[class % CLASSES]);
	return mutex;
}

void kofi_shim_mutex_free(struct kofi_mutex *mutex)
{
	mutex_destroy(&mutex->mutex);
	kofi_shim_free(mutex, __alignof__(*mutex));
}

void kofi_shim_mutex_lock(struct kofi_mutex *mutex)
{
	mutex_lock(&mutex->mutex);
}

void kofi_shim_mutex_unlock(struct kofi_mutex *mutex)
{
	mutex_unlock(&mutex->mutex);
}

/*
 * Sleeping and being woken on another processor takes longer than answering a small message does. So who waits looks for a moment first,
 * if the last waits were short: as KVM does for processors that halt (halt_poll_ns), whose limit and steps these are.
 */
static unsigned int poll_us = 200;
module_param(poll_us, uint, 0644);
MODULE_PARM_DESC(poll_us, "how long at most a blocking read of a completion queue or counter looks before it sleeps, if the last waits were shorter (microseconds; 0: not at all)");

#define FIRST_POLL	(10 * NSEC_PER_USEC)

struct kofi_wait {
	wait_queue_head_t queue;
	atomic_t seq;
	/* How long to look before sleeping (ns). A guess, which several may make at the same time. */
	u64 poll;
};

struct kofi_wait *kofi_shim_wait_new(void)
{
	struct kofi_wait *wait = kofi_shim_alloc(sizeof(*wait), __alignof__(*wait));

	if (wait) {
		init_waitqueue_head(&wait->queue);
		atomic_set(&wait->seq, 0);
		wait->poll = 0;
	}
	return wait;
}

void kofi_shim_wait_free(struct kofi_wait *wait)
{
	kofi_shim_free(wait, __alignof__(*wait));
}

u32 kofi_shim_wait_seq(struct kofi_wait *wait)
{
	return atomic_read_acquire(&wait->seq);
}

void kofi_shim_wait_wake(struct kofi_wait *wait)
{
	atomic_inc_return(&wait->seq);
	if (wq_has_sleeper(&wait->queue))
		wake_up_all(&wait->queue);
}

/* A kernel thread gets no signals, and has to look whether it is told to stop; others must not ask. */
static bool told_to_stop(void)
{
	return (current->flags & PF_KTHREAD) && kthread_should_stop();
}

static bool has_come(struct kofi_wait *wait, struct kofi_pump *driven, u32 seq)
{
	return kofi_shim_wait_seq(wait) != seq || (driven && kofi_pump_has_events(driven));
}

static u64 poll_limit(void)
{
	return (u64)READ_ONCE(poll_us) * NSEC_PER_USEC;
}

/* Looks for as long as that is promising, and nobody else wants the processor: it may be who is waited for. */
static bool poll(struct kofi_wait *wait, struct kofi_pump *driven, u32 seq, u64 since, u64 deadline)
{
	u64 end = min(since + min(READ_ONCE(wait->poll), poll_limit()), deadline);

	while (ktime_get_ns() < end) {
		if (has_come(wait, driven, seq))
			return true;
		if (!single_task_running() || need_resched() || signal_pending(current) || told_to_stop())
			break;
		cpu_relax();
	}
	return false;
}

/* Learns from a wait how long to look next time. */
static void learn(struct kofi_wait *wait, u64 waited)
{
	u64 limit = poll_limit(), before = READ_ONCE(wait->poll), after = before;

	if (waited > limit)
		after = 0;
	else if (waited > before)
		after = min(max(2 * before, (u64)FIRST_POLL), limit);
	if (after != before)
		WRITE_ONCE(wait->poll, after);
}

static int sleep(struct kofi_wait *wait, struct kofi_pump *driven, u32 seq, u64 deadline)
{
	ktime_t until = deadline > KTIME_MAX ? KTIME_MAX : (ktime_t)deadline;
	DEFINE_WAIT(entry);
	int why;

	for (;;) {
		prepare_to_wait(&wait->queue, &entry, TASK_INTERRUPTIBLE);
		if (has_come(wait, driven, seq))
			why = 0;
		else if (signal_pending(current) || told_to_stop())
			why = 2;
		else if (ktime_get() >= until)
			why = 1;
		else {
			/* NULL waits for ever; woken by wakes, signals, kthread_stop. */
			schedule_hrtimeout(until == KTIME_MAX ? NULL : &until, HRTIMER_MODE_ABS);
			continue;
		}
		break;
	}
	finish_wait(&wait->queue, &entry);
	return why;
}

int kofi_shim_wait_sleep(struct kofi_wait *wait, struct kofi_pump *pump, u32 seq, u64 since, u64 deadline)
{
	struct kofi_pump *driven;
	int why = 0;

	/* Then what is waited for comes seldom. */
	if (!pump)
		return sleep(wait, NULL, seq, deadline);
	driven = kofi_pump_take(pump) ? pump : NULL;
	if (!poll(wait, driven, seq, since, deadline))
		why = sleep(wait, driven, seq, deadline);
	learn(wait, ktime_get_ns() - since);
	if (driven)
		kofi_pump_leave(driven, why == 0);
	return why;
}

void kofi_shim_wait_quietly(struct kofi_wait *wait, u32 seq, u32 millis)
{
	wait_event_timeout(wait->queue, kofi_shim_wait_seq(wait) != seq, msecs_to_jiffies(millis));
}

u64 kofi_shim_now(void)
{
	return ktime_get_ns();
}
