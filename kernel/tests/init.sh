#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# The first program of the tests' virtual machine.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
ip link set lo up
# A parameter of the kernel: how many times slower than usual it is.
export slow="${slow:-1}"
# Tests that hang are to be told of while the machine runs.
echo $((30 * slow)) > /proc/sys/kernel/hung_task_timeout_secs 2>/dev/null
dmesg -n 7
cd /t
result=PASS
for script in vm.sh debug.sh stack.sh; do
	if [ -e $script ]; then sh ./$script || result=FAIL; fi
done
echo "VM-RESULT: $result"
poweroff -f
