// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kofi_fuzz::connection::run(data));
