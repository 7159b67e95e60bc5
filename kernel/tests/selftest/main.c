// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Tests of kofi.ko by its own functions, without a face: loading this module runs those named by "run".
 *
 *   server    listens on port, and does what the private data of each connection request says, until one says "quit"
 *   client    does all of that with the server at addr, port
 *   kernel    both, in two threads
 *   gone      a connection with the server at addr, whose machine is then cut off
 *   wire      memory that is not copied, to a server behind a network card
 *   local     what needs no peer: wrong uses, time limits, handlers, wait sets, interruption
 *   limits    connection requests that nobody decides on
 *   memory    allocations that fail, each in turn
 *   faults    the same at random, by the kernel
 *
 * Commands: "echo" sends back what comes; "rma" besides tells of a region (struct region) when accepting; "reject" rejects with data;
 * "close" shuts down after the first message; "quit" rejects and ends; "take", only of kofi in user space, takes one of BIG bytes.
 * tests/peer.c is the same for user space.
 */
#include "selftest.h"

static char *run = "";
module_param(run, charp, 0444);
char *addr = "127.0.0.1";
module_param(addr, charp, 0444);
ushort port = 7471;
module_param(port, ushort, 0444);
uint rounds = 200;
module_param(rounds, uint, 0444);
bool hostile;
module_param(hostile, bool, 0444);
MODULE_PARM_DESC(hostile, "peers of the server may break off at any time");

uint slow = 1;
module_param(slow, uint, 0444);
MODULE_PARM_DESC(slow, "how many times slower than usual the machine is: limits in time are so many times longer");

bool cut;
module_param(cut, bool, 0644);
MODULE_PARM_DESC(cut, "written when the peer of run=gone or run=wire has been cut off");

static int __init selftest_init(void)
{
	if (!strcmp(run, "server")) {
		int error = server(NULL);

		return error == -EINTR ? error : report("server", error);
	}
	if (!strcmp(run, "gone"))
		return report("peer that is gone", peer_gone());
	if (!strcmp(run, "wire"))
		return report("wire", wire());
	if (!strcmp(run, "limits"))
		return report("each limit in time ends in its time", limits());
	if (!strcmp(run, "memory"))
		return report("allocations that fail", memory()) ?: report("allocations of getinfo that fail", info_without_memory()) ?:
		       report("allocations of a shared receive context that fail", context_without_memory());
	if (!strcmp(run, "faults"))
		return report("the kernel's allocations fail at random", faults());
	if (!strcmp(run, "client"))
		return report("client", client());
	if (!strcmp(run, "kernel"))
		return report("kernel to kernel", both());
	if (!strcmp(run, "local"))
		return report("local", local());
	return 0;
}

static void __exit selftest_exit(void)
{
}

module_init(selftest_init);
module_exit(selftest_exit);
MODULE_LICENSE("Dual BSD/GPL");
MODULE_DESCRIPTION("Tests of kofi.ko");
