# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=sh
# The C faces and the client modules, as a part of vm.sh, whose say() it uses: `. ./clients.sh` while kofi.ko is loaded.
# Leaves only kofi.ko loaded.

# Loads a module that does its work while it is loaded, and takes it out again. More of it: parameters.
once() {
	insmod "$@"
	result=$?
	rmmod "${1%.ko}" 2>/dev/null
	return $result
}

once kfi_selftest.ko
say $? "C faces: wrong uses by both layers of names, and every operation"
once kfi_shapes.ko
say $? "C faces: a provider of others"

for names in fi kfi; do
	insmod deck_server.ko names=$names && once deck_client.ko && once deck_client.ko data=again
	say $? "the deck, with the names $names"
	! rmmod kofi 2>/dev/null
	say $? "rmmod of kofi is refused while the deck's server waits"
	rmmod deck_server
	say $? "rmmod of the deck's server while it waits, with the names $names"
done
insmod deck_server.ko address=::1 && once deck_client.ko address=::1
say $? "the deck over IPv6"
rmmod deck_server
insmod deck_server.ko refuse=1 && ! once deck_client.ko 2>/dev/null && ! once deck_client.ko 2>/dev/null
say $? "the deck with refusals"
rmmod deck_server
! once deck_client.ko 2>/dev/null
say $? "the deck without server"

once kfi_pingpong.ko role=both size=64 iterations=100 && once kfi_pingpong.ko role=both size=1048576 iterations=5
say $? "ping-pong between kernels"
once kfi_pingpong.ko role=server
say $? "rmmod of a ping-pong server while it waits"
if [ -x ./fi_pingpong ]; then
	insmod kfi_pingpong.ko role=server size=64 iterations=50 && ./fi_pingpong -p tcp -e msg -S 64 -I 50 127.0.0.1
	say $? "ping-pong, kernel server and stock client"
	rmmod kfi_pingpong
	./fi_pingpong -p tcp -e msg -S 4096 -I 50 >/dev/null &
	pingpong=$!
	n=0
	until grep -q ":B9E8 .* 0A " /proc/net/tcp /proc/net/tcp6 || [ $n = $((100 * slow)) ]; do
		n=$((n + 1))
		usleep 100000
	done
	once kfi_pingpong.ko role=client size=4096 iterations=50 && wait $pingpong
	say $? "ping-pong, kernel client and stock server"
fi
once kfi_perf.ko iterations=200 messages=16 rounds=2
say $? "comparison with plain sockets"
