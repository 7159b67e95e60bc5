// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The module: start, end, and what it says. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kernel.h>
#include <linux/module.h>
#include "shim.h"

int __weak kofi_faces_init(void)
{
	return 0;
}

void __weak kofi_faces_exit(void)
{
}

/* How long each phase of a connection may take, in milliseconds: decision D12 of docs/semantics.md. */
static unsigned int connect_timeout = 10000, handshake_timeout = 10000, decision_timeout, shutdown_timeout = 5000,
	peer_timeout = 30000;
module_param(connect_timeout, uint, 0644);
MODULE_PARM_DESC(connect_timeout, "ms from connect to the peer's answer; 0: for ever");
module_param(handshake_timeout, uint, 0644);
MODULE_PARM_DESC(handshake_timeout, "ms from a peer's connection to its whole request; 0: for ever");
module_param(decision_timeout, uint, 0644);
MODULE_PARM_DESC(decision_timeout, "ms from a request to accept or reject; 0: for ever");
module_param(shutdown_timeout, uint, 0644);
MODULE_PARM_DESC(shutdown_timeout, "ms from shutdown until all that is queued has left; 0: for ever");

module_param(peer_timeout, uint, 0644);
MODULE_PARM_DESC(peer_timeout, "ms that a peer's system may leave unanswered what it was sent; 0: as long as TCP has patience");

void kofi_shim_limits(u32 *millis)
{
	millis[0] = READ_ONCE(connect_timeout);
	millis[1] = READ_ONCE(handshake_timeout);
	millis[2] = READ_ONCE(decision_timeout);
	millis[3] = READ_ONCE(shutdown_timeout);
	millis[4] = READ_ONCE(peer_timeout);
}

void kofi_shim_warn(const char *text, size_t len)
{
	pr_warn_ratelimited("%.*s\n", (int)min_t(size_t, len, 1000), text);
}

void __noreturn kofi_shim_bug(const char *text, size_t len)
{
	pr_emerg("RUST PANIC: %.*s\n", (int)min_t(size_t, len, 1000), text);
	BUG();
}

/* Fabrics hold the module: it cannot be removed under an object. Whoever opens one uses our symbols, so it is not going away now. */
void kofi_shim_module_get(void)
{
	__module_get(THIS_MODULE);
}

void kofi_shim_module_put(void)
{
	module_put(THIS_MODULE);
}

static int __init kofi_init(void)
{
	int error = kofi_shim_work_init();

	if (error)
		return error;
	kofi_shim_show_init();
	error = kofi_faces_init();
	if (error) {
		kofi_shim_show_exit();
		kofi_shim_work_exit();
	}
	return error;
}

static void __exit kofi_exit(void)
{
	kofi_faces_exit();
	kofi_shim_show_exit();
	kofi_shim_work_exit();
	kofi_shim_report_leaks();
}

module_init(kofi_init);
module_exit(kofi_exit);
MODULE_AUTHOR("The kofi authors");
MODULE_VERSION("0.1.0");
MODULE_DESCRIPTION("Open Fabrics Interfaces in the kernel");
MODULE_LICENSE("Dual BSD/GPL");
