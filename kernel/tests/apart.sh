# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=sh
# Peers in a network namespace of their own, for scripts that load kofi.ko.

# Until something listens on port 7471, here or in the namespace of a process.
listens() {
	n=0
	while ! cat "/proc/${1:-self}/net/tcp" "/proc/${1:-self}/net/tcp6" | grep -q ":1D2F .* 0A "; do
		n=$((n + 1))
		[ $n -lt $((300 * slow)) ] || return 1
		usleep 100000
	done
}

# serve_behind INTERFACE ADDRESS: puts a server of kofi's in user space into a namespace that has this interface. Once there is /tmp/cut, it is
# cut off, and the module of the tests is told.
serve_behind() {
	rm -f /tmp/apart /tmp/there /tmp/cut
	unshare -n sh -c "
		touch /tmp/apart
		while [ ! -e /tmp/there ]; do usleep 100000; done
		ip addr add $2/24 dev $1
		ip link set $1 up
		./kernel_peer server $2:7471 &
		while [ ! -e /tmp/cut ]; do usleep 100000; done
		ip link set $1 down
		kill -9 \$!
		echo 1 > /sys/module/kofi_selftest/parameters/cut" &
	apart=$!
	while [ ! -e /tmp/apart ]; do usleep 100000; done
	./ip link set "$1" netns $apart
	touch /tmp/there
	listens $apart
}

# Runs a command while there is a server at 10.79.0.2, behind two network cards with a wire between them: what is sent there leaves this
# host, and need not be copied. The server is cut off when the tests say that they are connected by a wire. Where there is no driver for the
# cards nothing is run.
over_the_wire() {
	insmod e1000.ko || return 0
	ip addr add 10.79.0.1/24 dev eth0
	ip link set eth0 up
	serve_behind eth1 10.79.0.2
	(
		while [ ! -e /tmp/cut ] && ! dmesg | grep -q "kofi_selftest: connected by a wire"; do usleep 100000; done
		touch /tmp/cut
	) &
	"$@"
	result=$?
	touch /tmp/cut
	wait
	rmmod e1000
	return $result
}
