#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# What the virtual machine runs: a line "TEST name ok" or "TEST name FAILED" for each test, by this script or by what it runs.
failed=0
export FI_PROVIDER=tcp
slow="${slow:-1}"

say() {
	if [ "$1" = 0 ]; then echo "TEST $2 ok"; else echo "TEST $2 FAILED"; failed=1; fi
}

load() {
	insmod kofi.ko track_allocations=1 connect_timeout=$((10000 * slow)) handshake_timeout=$((10000 * slow)) \
		shutdown_timeout=$((5000 * slow)) peer_timeout=$((30000 * slow)) "$@"
}

# One run of the tests in the kernel; the module is taken out again.
selftest() {
	insmod kofi_selftest.ko slow="$slow" "$@"
	result=$?
	rmmod kofi_selftest 2>/dev/null
	return $result
}

. ./apart.sh

# All that is shown of live objects.
shown() {
	cat /sys/kernel/debug/kofi/*/* 2>/dev/null
}

# What DKMS has built, loaded because a module needs it, and taken out with that. Other kernels than a distribution's have no DKMS.
if [ -d "/lib/modules/$(uname -r)" ]; then
	modprobe deck_server && grep -q "^kofi .* deck_server" /proc/modules
	say $? "modprobe loads kofi.ko of DKMS for a module that needs it"
	modprobe -r deck_server && ! grep -q "^kofi " /proc/modules
	say $? "modprobe -r takes both out"
fi

load || exit 1
# Somebody looks at them while they come and go.
while [ ! -e /tmp/looked ]; do
	shown > /dev/null
	usleep 20000
done &
looking=$!
selftest run=local || failed=1
selftest run=kernel || failed=1
selftest run=kernel addr=::1 || failed=1
touch /tmp/looked
wait $looking

selftest run=memory || failed=1

# Without looking before sleeping, and with looking for longer than anything takes.
for limit in 0 1000000; do
	echo $limit > /sys/module/kofi/parameters/poll_us
	selftest run=local || failed=1
	selftest run=kernel || failed=1
done
# On one processor, who looks keeps others from running.
if echo 0 > /sys/devices/system/cpu/cpu1/online; then
	selftest run=kernel || failed=1
	echo 1 > /sys/devices/system/cpu/cpu1/online
fi
echo 200 > /sys/module/kofi/parameters/poll_us

echo 20 > /sys/module/kofi/parameters/connect_timeout
selftest run=limits rounds=50 || failed=1
echo $((10000 * slow)) > /sys/module/kofi/parameters/connect_timeout

# Two network namespaces, joined by a pair of interfaces: the server's is that of who loads its module.
if [ -x ./ip ] && insmod veth.ko; then
	./ip link add veth0 type veth peer name veth1
	ip addr add 10.77.0.1/24 dev veth0
	ip link set veth0 up
	unshare -n sh -c '
		ip link set lo up
		touch /tmp/made
		while [ ! -e /tmp/moved ]; do usleep 100000; done
		ip addr add 10.77.0.2/24 dev veth1
		ip link set veth1 up
		insmod kofi_selftest.ko run=server addr=10.77.0.2' &
	pid=$!
	while [ ! -e /tmp/made ]; do usleep 100000; done
	./ip link set veth1 netns $pid
	touch /tmp/moved
	listens $pid
	./peer client 10.77.0.2 7471
	say $? "stock client in another network namespace"
	# Nothing listens here.
	! grep -q ":1D2F .* 0A " /proc/net/tcp
	say $? "a listener is in its own namespace only"
	wait $pid
	rmmod kofi_selftest

	# A peer that is cut off. What is shown of a connection, and what is told of it.
	echo 'module kofi format "connection:" +p' > /sys/kernel/debug/dynamic_debug/control
	echo 2000 > /sys/module/kofi/parameters/peer_timeout
	./ip link add veth2 type veth peer name veth3
	ip addr add 10.78.0.1/24 dev veth2
	ip link set veth2 up
	serve_behind veth3 10.78.0.2
	(
		while [ ! -e /tmp/cut ] && ! dmesg | grep -q "kofi_selftest: connected"; do usleep 100000; done
		shown > /tmp/objects
		touch /tmp/cut
	) &
	selftest run=gone addr=10.78.0.2 || failed=1
	touch /tmp/cut
	wait
	echo $((30000 * slow)) > /sys/module/kofi/parameters/peer_timeout
	grep -q '"object":"endpoint",.*"state":"connected",.*"peer":"10.78.0.2:7471",.*"connected_ms":' /tmp/objects &&
		grep -q '"object":"domain",.*"name":"veth2","endpoints":1,"connected":1,' /tmp/objects &&
		grep -q '"object":"completion_queue",.*"bindings":2}' /tmp/objects &&
		grep -q '"object":"event_queue",.*"endpoints":1,' /tmp/objects &&
		grep -q '"object":"fabric",.*"wait_sets":1}' /tmp/objects
	result=$?
	[ $result = 0 ] || cat /tmp/objects
	say $result "debugfs shows a connection, and all around it"
	[ -z "$(ls /sys/kernel/debug/kofi)" ]
	say $? "debugfs shows nothing when all is closed"
	told() {
		dmesg | grep -q "kofi: connection: local 10.78.0.1:[0-9]* peer 10.78.0.2:7471: $1"
	}
	told "connected, " && told "shutdown: .*; sent [0-9]"
	say $? "dynamic debug tells of a connection, and why it ended"
	echo 'module kofi -p' > /sys/kernel/debug/dynamic_debug/control
	./ip link del veth0
	./ip link del veth2
fi

# What leaves this host.
over_the_wire selftest run=wire rounds=20 addr=10.79.0.2 || failed=1

# Peers that break the protocol; then others are served as ever, and the module cannot be taken out meanwhile.
echo 500 > /sys/module/kofi/parameters/handshake_timeout
selftest run=server hostile=1 &
listens
./hostile 127.0.0.1 7471
say $? "hostile peers"
rmmod kofi 2>/dev/null
[ $? != 0 ]
say $? "the module cannot be removed under a fabric"
./peer client 127.0.0.1 7471
say $? "stock client after hostile ones"
wait
echo $((10000 * slow)) > /sys/module/kofi/parameters/handshake_timeout

# A signal ends what waits.
insmod kofi_selftest.ko run=server 2>/dev/null &
pid=$!
listens
kill -TERM $pid
wait $pid
[ $? != 0 ]
say $? "a signal ends a blocking read"
rmmod kofi_selftest 2>/dev/null

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

# And kofi in user space.
selftest run=server rounds=20 &
listens
./kernel_peer client 127.0.0.1:7471
say $? "kofi client and kernel server"
wait
./kernel_peer server 127.0.0.1:7471 &
listens
selftest run=client rounds=20
say $? "kernel client and kofi server"
wait

# The faces that kernel modules see, and modules that use them.
. ./clients.sh

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
