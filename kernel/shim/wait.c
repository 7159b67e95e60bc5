// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Mutexes, time, and waits that always end. */
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/mutex.h>
#include <linux/sched/signal.h>
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

struct kofi_wait {
	wait_queue_head_t queue;
	atomic_t seq;
};

struct kofi_wait *kofi_shim_wait_new(void)
{
	struct kofi_wait *wait = kofi_shim_alloc(sizeof(*wait), __alignof__(*wait));

	if (wait) {
		init_waitqueue_head(&wait->queue);
		atomic_set(&wait->seq, 0);
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

int kofi_shim_wait_sleep(struct kofi_wait *wait, struct kofi_pump *pump, u32 seq, u64 deadline)
{
	bool driving = pump && kofi_pump_take(pump, wait);
	ktime_t until = deadline > KTIME_MAX ? KTIME_MAX : (ktime_t)deadline;
	DEFINE_WAIT(entry);
	int why;

	for (;;) {
		prepare_to_wait(&wait->queue, &entry, TASK_INTERRUPTIBLE);
		if (kofi_shim_wait_seq(wait) != seq || (driving && kofi_pump_has_events(pump)))
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
	if (driving)
		kofi_pump_leave(pump, why == 0);
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
