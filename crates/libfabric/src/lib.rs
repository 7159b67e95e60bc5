// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `libfabric.so.1`: kofi for programs that were built for any libfabric 1.x or 2.x, on x86-64.
//!
//! Here the functions of [`kofi_abi::exports`] get their names and versions, and nothing else. A version is given to a
//! label in assembly, since rustc exports what it exports itself without one; the label is a jump.
#![cfg(target_arch = "x86_64")]

use core::arch::{global_asm, naked_asm};

use kofi_abi::exports;

/// `name@node`, or `name@@node` for what programs get that are linked now. They are built with headers of any release, so
/// they get what all headers since 1.9 have; and run on any library since then.
macro_rules! export {
    ($($symbol:literal $function:path,)*) => {$(
        global_asm!(
            ".pushsection .text.kofi_exports, \"ax\", @progbits",
            concat!(".globl \"kofi:", $symbol, "\""),
            concat!(".type \"kofi:", $symbol, "\", @function"),
            concat!(".symver \"kofi:", $symbol, "\", ", $symbol, ", remove"),
            concat!("\"kofi:", $symbol, "\":"),
            "jmp {function}",
            concat!(".size \"kofi:", $symbol, "\", . - \"kofi:", $symbol, "\""),
            ".popsection",
            function = sym $function,
        );
    )*};
}

export! {
    "fi_getinfo@FABRIC_1.0" exports::fi_getinfo_1_0,
    "fi_getinfo@FABRIC_1.1" exports::fi_getinfo_1_1,
    "fi_getinfo@FABRIC_1.2" exports::fi_getinfo_1_2,
    "fi_getinfo@@FABRIC_1.3" exports::fi_getinfo_1_3,
    "fi_getinfo@FABRIC_1.7" exports::fi_getinfo_1_7,
    "fi_getinfo@FABRIC_1.8" exports::fi_getinfo_1_8,
    "fi_getinfo@FABRIC_1.9" exports::fi_getinfo_1_9,
    "fi_getinfo@FABRIC_1.10" exports::fi_getinfo_1_10,
    "fi_freeinfo@FABRIC_1.0" exports::fi_freeinfo,
    "fi_freeinfo@FABRIC_1.1" exports::fi_freeinfo,
    "fi_freeinfo@FABRIC_1.2" exports::fi_freeinfo,
    "fi_freeinfo@@FABRIC_1.3" exports::fi_freeinfo,
    "fi_freeinfo@FABRIC_1.7" exports::fi_freeinfo,
    "fi_freeinfo@FABRIC_1.8" exports::fi_freeinfo,
    "fi_freeinfo@FABRIC_1.9" exports::fi_freeinfo,
    "fi_freeinfo@FABRIC_1.10" exports::fi_freeinfo,
    "fi_dupinfo@FABRIC_1.0" exports::fi_dupinfo_1_0,
    "fi_dupinfo@FABRIC_1.1" exports::fi_dupinfo_1_1,
    "fi_dupinfo@FABRIC_1.2" exports::fi_dupinfo_1_2,
    "fi_dupinfo@@FABRIC_1.3" exports::fi_dupinfo_1_3,
    "fi_dupinfo@FABRIC_1.7" exports::fi_dupinfo_1_7,
    "fi_dupinfo@FABRIC_1.8" exports::fi_dupinfo_1_8,
    "fi_dupinfo@FABRIC_1.9" exports::fi_dupinfo_1_9,
    "fi_dupinfo@FABRIC_1.10" exports::fi_dupinfo_1_10,
    "fi_fabric@FABRIC_1.0" exports::fi_fabric_1_0,
    "fi_fabric@@FABRIC_1.1" exports::fi_fabric_1_1,
    "fi_fabric2@@FABRIC_1.8" exports::fi_fabric2,
    "fi_version@@FABRIC_1.0" exports::fi_version,
    "fi_strerror@@FABRIC_1.0" exports::fi_strerror,
    "fi_tostr@@FABRIC_1.0" exports::fi_tostr,
    "fi_tostr_r@@FABRIC_1.4" exports::fi_tostr_r,
    "fi_log_enabled@@FABRIC_1.0" exports::fi_log_enabled,
    "fi_log_ready@@FABRIC_1.6" exports::fi_log_ready,
    "fi_log@@FABRIC_1.0" fi_log,
    "fi_param_define@@FABRIC_1.0" fi_param_define,
    "fi_param_get@@FABRIC_1.0" exports::fi_param_get,
    "fi_getparams@@FABRIC_1.0" exports::fi_getparams,
    "fi_freeparams@@FABRIC_1.0" exports::fi_freeparams,
    "fi_open@@FABRIC_1.5" exports::fi_open,
}

/// Makes a `va_list` of the variable arguments, for functions that Rust cannot define: at `rsp` after it, with the
/// registers saved behind it (System V ABI for AMD64, "Variable Argument Lists"). 216 bytes keep the stack aligned.
macro_rules! va_list {
    ($fixed:literal, [$($call:literal),*], $($operand:tt)*) => {
        naked_asm!(
            "sub rsp, 216",
            "mov [rsp + 32], rdi",
            "mov [rsp + 40], rsi",
            "mov [rsp + 48], rdx",
            "mov [rsp + 56], rcx",
            "mov [rsp + 64], r8",
            "mov [rsp + 72], r9",
            "test al, al",
            "je 2f",
            "movaps [rsp + 80], xmm0",
            "movaps [rsp + 96], xmm1",
            "movaps [rsp + 112], xmm2",
            "movaps [rsp + 128], xmm3",
            "movaps [rsp + 144], xmm4",
            "movaps [rsp + 160], xmm5",
            "movaps [rsp + 176], xmm6",
            "movaps [rsp + 192], xmm7",
            "2:",
            // gp_offset: behind the fixed arguments; fp_offset: behind the general registers.
            concat!("mov dword ptr [rsp], 8 * ", $fixed),
            "mov dword ptr [rsp + 4], 48",
            // overflow_arg_area: above the frame and the return address.
            "lea rax, [rsp + 224]",
            "mov [rsp + 8], rax",
            // reg_save_area.
            "lea rax, [rsp + 32]",
            "mov [rsp + 16], rax",
            $($call,)*
            "add rsp, 216",
            "ret",
            $($operand)*
        )
    };
}

/// `void fi_log(provider, level, subsys, function, line, format, ...)`: the list is the seventh argument of what it
/// calls, on the stack.
#[unsafe(naked)]
unsafe extern "C" fn fi_log() {
    va_list!("6", ["mov rax, rsp", "sub rsp, 8", "push rax", "call {log}", "add rsp, 16"], log = sym exports::fi_vlog)
}

/// `int fi_param_define(provider, name, type, help, ...)`: the list is the fifth argument of what it calls.
#[unsafe(naked)]
unsafe extern "C" fn fi_param_define() {
    va_list!("4", ["mov r8, rsp", "call {define}"], define = sym exports::fi_vparam_define)
}
