#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Builds the Rust part as one relocatable object for kbuild: build-rust.sh <object> [<target directory>]
#
# KOFI_RUST_FLAGS, if set, are flags for rustc besides.
# Wants a rustc with the source of its library: $RUSTC, that of PATH, or Debian's rustc-web with rust-web-src.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$1
target=${2:-$here/rust/target}

has_source() {
	root=$("$1" --print sysroot 2>/dev/null) && [ -f "$root/lib/rustlib/src/rust/library/Cargo.lock" ]
}
for rustc in "${RUSTC:-rustc}" /usr/bin/rustc; do
	if has_source "$rustc"; then found=$rustc; break; fi
done
if [ -z "${found:-}" ]; then
	echo "build-rust.sh: no rustc with the source of its library (Debian: rustc-web and rust-web-src)" >&2
	exit 1
fi

# Addresses are fixed by the module loader, which knows no GOT; no unwind tables; and the hardening that objtool expects (IBT, return
# thunks, retpolines, call padding). The same object serves every kernel.
flags="-Crelocation-model=static -Crelro-level=off -Zplt=yes -Cforce-unwind-tables=no -Zcf-protection=branch \
-Zfunction-return=thunk-extern -Zretpoline-external-thunk -Cjump-tables=no -Zpatchable-function-entry=16,16 ${KOFI_RUST_FLAGS:-}"
# kbuild's environment is not for cargo.
env -i PATH="$PATH" HOME="${HOME:-/}" ${CARGO_HOME:+CARGO_HOME="$CARGO_HOME"} ${RUSTUP_HOME:+RUSTUP_HOME="$RUSTUP_HOME"} \
	RUSTC="$found" RUSTC_BOOTSTRAP=1 RUSTFLAGS="$flags" CARGO_TARGET_DIR="$target" \
	cargo build --quiet --locked --release --manifest-path "$here/rust/Cargo.toml" --target x86_64-unknown-none \
	-Zbuild-std=core,alloc -Zbuild-std-features= >&2

# What C calls is kept, and what that needs. Memory is copied by the kernel's own functions.
roots=$(sed -n 's/^extern "C" fn \(kofi_[a-z_0-9]*\)(.*/-u \1/p' "$here"/rust/src/*.rs "$here"/rust/src/*/*.rs)
wrap= rename=
for name in memcpy memmove memset memcmp bcmp strlen; do
	wrap="$wrap --wrap=$name"
	rename="$rename --redefine-sym __wrap_$name=$name"
done
# shellcheck disable=SC2086
ld -r -T "$here/merge.lds" --gc-sections $roots $wrap -o "$out.tmp" "$target/x86_64-unknown-none/release/libkofi_kernel.a"
# shellcheck disable=SC2086
objcopy --strip-debug $rename "$out.tmp" "$out"
rm -f "$out.tmp"
