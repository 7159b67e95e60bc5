#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# What a debug kernel (cargo xtask kernel debug) runs after vm.sh: a search for lost memory, and what kofi.ko does when the kernel's
# allocations for it fail.
failed=0
debug=/sys/kernel/debug

say() {
	if [ "$1" = 0 ]; then echo "TEST $2 ok"; else echo "TEST $2 FAILED"; failed=1; fi
}

# Whether nothing is lost. What is younger than 5 s is not told of; what moved during the first look, or is freed later, is not there in the second.
nothing_lost() {
	echo scan > $debug/kmemleak
	sleep 6
	echo scan > $debug/kmemleak
	cat $debug/kmemleak > /tmp/lost
	cat /tmp/lost
	[ ! -s /tmp/lost ]
}

# Lets so many percent of what is allocated below functions of kofi.ko fail, whichever task it is.
faults() {
	text=$(cat /sys/module/kofi/sections/.text)
	# Of the functions behind that.
	last=$(awk -v text="${text#0x}" '$4 == "[kofi]" && tolower($2) == "t" && $1 >= text { print $1 }' /proc/kallsyms | sort | tail -n 1)
	for kind in failslab fail_page_alloc; do
		(
			cd $debug/$kind || exit
			echo 0 > probability
			echo N > ignore-gfp-wait
			[ ! -e ignore-gfp-highmem ] || echo N > ignore-gfp-highmem
			[ ! -e min-order ] || echo 0 > min-order
			echo 32 > stacktrace-depth
			echo "$text" > require-start
			echo "0x$last" > require-end
			echo 0 > verbose
			echo 1 > interval
			echo 100000 > times
			echo "$1" > probability
		)
	done
}

# How many have failed.
failures() {
	echo $((200000 - $(cat $debug/failslab/times) - $(cat $debug/fail_page_alloc/times)))
}

nothing_lost
say $? "no memory is lost (kmemleak)"

insmod kofi.ko track_allocations=1
for percent in 1 5 20; do
	faults $percent
	insmod kofi_selftest.ko slow="$slow" run=faults rounds=25
	rmmod kofi_selftest 2>/dev/null
	for names in fi kfi; do
		if insmod deck_server.ko names=$names; then
			for n in 1 2 3; do
				insmod deck_client.ko && rmmod deck_client
			done
			rmmod deck_server
		fi
	done
	echo "# $percent %: $(failures) allocations have failed"
	[ "$(failures)" -gt 0 ]
	say $? "$percent percent of allocations fail"
done 2>/dev/null
faults 0
# As before, with all the memory that there is.
insmod kofi_selftest.ko slow="$slow" run=kernel
say $? "all is well after that"
rmmod kofi_selftest
rmmod kofi
say $? "unload after allocations that failed"
nothing_lost
say $? "no memory is lost where allocations failed (kmemleak)"

[ $failed = 0 ]
