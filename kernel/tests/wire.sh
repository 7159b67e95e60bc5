# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=sh
# Two network cards with a wire between them, each in a namespace of its own: what is sent there leaves this host, and need not be copied.

# Runs a command while a server of kofi's in user space is at 10.79.0.2, until the command says that it is connected by a wire: then the
# server's side is cut off. Where there is no driver for the cards nothing is run.
over_the_wire() {
	insmod e1000.ko || return 0
	rm -f /tmp/far /tmp/wired /tmp/unplug
	unshare -n sh -c '
		touch /tmp/far
		while [ ! -e /tmp/wired ]; do usleep 100000; done
		ip addr add 10.79.0.2/24 dev eth1
		ip link set eth1 up
		./kernel_peer server 10.79.0.2:7471 &
		while [ ! -e /tmp/unplug ]; do usleep 100000; done
		ip link set eth1 down
		kill -9 $!
		echo 1 > /sys/module/kofi_selftest/parameters/cut' &
	far=$!
	while [ ! -e /tmp/far ]; do usleep 100000; done
	./ip link set eth1 netns $far
	ip addr add 10.79.0.1/24 dev eth0
	ip link set eth0 up
	touch /tmp/wired
	n=0
	while ! grep -q ":1D2F .* 0A " /proc/$far/net/tcp && [ $n -lt $((100 * slow)) ]; do
		n=$((n + 1))
		usleep 100000
	done
	(
		while [ ! -e /tmp/unplug ] && ! dmesg | grep -q "kofi_selftest: connected by a wire"; do usleep 100000; done
		touch /tmp/unplug
	) &
	"$@"
	result=$?
	touch /tmp/unplug
	wait
	rmmod e1000
	return $result
}
