#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# symvers.sh <kernel>: keeps the versions of kofi.ko's symbols beside its sources. DKMS runs this where it has built the module, and
# removes all of that afterwards; modules that use kofi.ko are built with them (KBUILD_EXTRA_SYMVERS).
set -eu
mkdir -p "../source/symvers/$1"
cp Module.symvers "../source/symvers/$1/"
