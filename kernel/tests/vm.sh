#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# What the virtual machine runs: a line "TEST name ok" or "TEST name FAILED" for each test, by this script or by what it runs.
failed=0
export FI_PROVIDER=tcp

say() {
	if [ "$1" = 0 ]; then echo "TEST $2 ok"; else echo "TEST $2 FAILED"; failed=1; fi
}

load() {
	insmod kofi.ko track_allocations=1 "$@"
}

# Until something listens on port 7471.
listens() {
	n=0
	while ! cat /proc/net/tcp /proc/net/tcp6 | grep -q ":1D2F .* 0A "; do
		n=$((n + 1))
		[ $n -lt 300 ] || return 1
		usleep 100000
	done
}

# One run of the tests in the kernel; the module is taken out again.
selftest() {
	insmod kofi_selftest.ko "$@"
	result=$?
	rmmod kofi_selftest 2>/dev/null
	return $result
}

load || exit 1
selftest run=local || failed=1
selftest run=kernel || failed=1
selftest run=kernel addr=::1 || failed=1

# A stock libfabric on the other side.
selftest run=server rounds=20 &
listens
./peer client 127.0.0.1 7471
say $? "stock client and kernel server"
wait
./peer server 7471 &
listens
selftest run=client rounds=20
say $? "kernel client and stock server"
wait

rmmod kofi
say $? "unload"
i=0
while [ $i -lt 50 ]; do
	load && rmmod kofi || break
	i=$((i + 1))
done
[ $i = 50 ]
say $? "load and unload 50 times"

[ $failed = 0 ]
