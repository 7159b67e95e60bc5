#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# How deep the stack gets below functions of kofi.ko, by the kernel's stack tracer: cargo xtask kernel debug runs this on a stock kernel.
failed=0
tracing=/sys/kernel/tracing
# Bytes of our functions and of what they call, of the 16 KiB that there are.
most=6144

say() {
	if [ "$1" = 0 ]; then echo "TEST $2 ok"; else echo "TEST $2 FAILED"; failed=1; fi
}

# Loads a module that does its work while it is loaded, and tells of the deepest stack that there was.
measure() {
	name=$1
	shift
	echo 0 > $tracing/stack_max_size
	insmod "$@"
	result=$?
	rmmod "${1%.ko}"
	# "  3)  2080  160  kofi_getinfo+0x45/0x160 [kofi]": what is below the caller of our outermost function. Where our code of init was is
	# that of the module now.
	depth=$(awk '$1 ~ /^[0-9]+\)$/ {
			if (!top) top = $2
			if ($5 == "[kofi]" && $4 !~ /^kofi_init/) { ours = 1; caller = 0 } else if (ours && !caller) caller = $2
		}
		END { print ours ? top - caller : 0 }' $tracing/stack_trace)
	echo "# $name: $depth bytes, and $(($(cat $tracing/stack_max_size) - depth)) of what calls us"
	[ $result = 0 ] && [ "$depth" -gt 0 ] && [ "$depth" -lt $most ]
	result=$?
	[ $result = 0 ] || sed 's/^/# /' $tracing/stack_trace
	say $result "stack: $name"
}

mount -t tracefs tracefs $tracing
echo 1 > /proc/sys/kernel/stack_tracer_enabled
insmod kofi.ko
measure "connections between threads" kofi_selftest.ko run=kernel
measure "the same over IPv6" kofi_selftest.ko run=kernel addr=::1
measure "listeners, handlers, limits in time" kofi_selftest.ko run=local
measure "C faces" kfi_selftest.ko
measure "ping-pong" kfi_pingpong.ko role=both size=65536 iterations=20
. ./apart.sh
over_the_wire measure "what is not copied" kofi_selftest.ko run=wire rounds=20 addr=10.79.0.2
rmmod kofi

[ $failed = 0 ]
