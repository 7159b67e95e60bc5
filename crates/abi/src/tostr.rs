// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `fi_tostr` (`fabric(7)`, `fi_info -v`): structures, flags and numbers as text.
//!
//! The form is that of 1.17, which scripts read; attributes that are younger follow at the end of their structure,
//! named as newer releases name them.

use core::ffi::{c_char, c_int, c_void};
use core::fmt::{self, Display};
use core::mem::offset_of;
use std::sync::Mutex;

use kofi_core::{AddrFormat, AvType, Caps, EpType, Mode, Order, Progress, Protocol, Threading};

use crate::heap;
use crate::info::{self, Wide};
use crate::layout::InfoLayout;
use crate::log::{LEVELS, SUBSYSTEMS};
use crate::sys::*;

/// Bytes that `fi_tostr` has room for.
const STATIC_SIZE: usize = 8192;

/// What `FI_TYPE_VERSION` is: the release of libfabric whose interfaces these are, since that is what is compared, and
/// our own.
const VERSION: &str = concat!("2.6.0 (kofi ", env!("CARGO_PKG_VERSION"), ")");

/// `fi_tostr_r`: the text of `data`, which is of this type, as much of it as fits. Null when an argument is null or
/// there is no room for anything.
///
/// # Safety
/// `data` is null or of that type, in the newest layout; `len` bytes at `buf` can be written.
pub unsafe fn tostr_r(buf: *mut c_char, len: usize, data: *const c_void, kind: fi_type) -> *mut c_char {
    if buf.is_null() || data.is_null() || len == 0 {
        return core::ptr::null_mut();
    }
    // SAFETY: the caller's word.
    let text = unsafe { text(data, kind) };
    let text = text.as_bytes();
    let fits = text.len().min(len - 1);
    // SAFETY: the caller's word; one byte is left for the zero.
    unsafe {
        buf.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), fits);
        buf.add(fits).write(0);
    }
    buf
}

/// `fi_tostr`: the same in the process's one buffer, which the next call overwrites.
///
/// # Safety
/// `data` is null or of that type, in the newest layout. The caller sees to it that no other thread reads the last text
/// any more: C's rule for this function.
pub unsafe fn tostr(data: *const c_void, kind: fi_type) -> *mut c_char {
    struct Buffer(*mut c_char);
    // SAFETY: written under the lock only.
    unsafe impl Send for Buffer {}
    static BUFFER: Mutex<Buffer> = Mutex::new(Buffer(core::ptr::null_mut()));
    let mut buffer = BUFFER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if buffer.0.is_null() {
        // SAFETY: any size can be asked for.
        buffer.0 = unsafe { libc::calloc(STATIC_SIZE, 1) }.cast();
    }
    // SAFETY: the caller's word; the buffer is that large, or null.
    unsafe { tostr_r(buffer.0, STATIC_SIZE, data, kind) }
}

/// # Safety
/// `data` is of that type.
unsafe fn text(data: *const c_void, kind: fi_type) -> String {
    // SAFETY: the caller's word, for each type and its size.
    unsafe {
        let bits = || data.cast::<u64>().read_unaligned();
        let number = || data.cast::<u32>().read_unaligned();
        match kind {
            FI_TYPE_INFO => fi_info(data.cast()),
            FI_TYPE_EP_TYPE => EpType::from_raw(number()).to_string(),
            FI_TYPE_CAPS => Caps::from_bits_retain(bits()).to_string(),
            FI_TYPE_OP_FLAGS => list(bits(), OP_FLAGS),
            FI_TYPE_ADDR_FORMAT => AddrFormat::from_raw(number()).to_string(),
            FI_TYPE_TX_ATTR => info::tx_attr(data.cast::<fi_tx_attr>().read()).to_string(),
            FI_TYPE_RX_ATTR => info::rx_attr(data.cast::<fi_rx_attr>().read()).to_string(),
            FI_TYPE_EP_ATTR => ep_attr(data.cast::<fi_ep_attr>().read()),
            FI_TYPE_DOMAIN_ATTR => domain_attr(data.cast::<fi_domain_attr>().read()),
            FI_TYPE_FABRIC_ATTR => fabric_attr(data.cast::<fi_fabric_attr>().read()),
            FI_TYPE_THREADING => Threading::from_raw(number()).to_string(),
            FI_TYPE_PROGRESS => Progress::from_raw(number()).to_string(),
            FI_TYPE_PROTOCOL => Protocol::from_raw(number()).to_string(),
            FI_TYPE_MSG_ORDER => Order::from_bits_retain(bits()).to_string(),
            FI_TYPE_MODE => Mode::from_bits_retain(bits()).to_string(),
            FI_TYPE_AV_TYPE => AvType::from_raw(number()).to_string(),
            FI_TYPE_ATOMIC_TYPE => name(names::fi_datatype, number()),
            FI_TYPE_ATOMIC_OP => name(names::fi_op, number()),
            FI_TYPE_VERSION => VERSION.into(),
            FI_TYPE_EQ_EVENT => name(EVENTS, number()),
            FI_TYPE_CQ_EVENT_FLAGS => list(bits(), CQ_FLAGS),
            FI_TYPE_MR_MODE => info::mr_mode(data.cast::<c_int>().read_unaligned()).to_string(),
            FI_TYPE_OP_TYPE => name(names::fi_op_type, number()),
            FI_TYPE_FID => fid_text("fid: ", data.cast()),
            FI_TYPE_COLLECTIVE_OP => name(names::fi_collective_op, number()),
            FI_TYPE_HMEM_IFACE => name(names::fi_hmem_iface, number()),
            FI_TYPE_CQ_FORMAT => name(names::fi_cq_format, number()),
            FI_TYPE_LOG_LEVEL => LEVELS.get(number() as usize).unwrap_or(&"Unknown").to_string(),
            FI_TYPE_LOG_SUBSYS => SUBSYSTEMS.get(number() as usize).unwrap_or(&"Unknown").to_string(),
            // Of these, the beginning that all programs have that can ask for it: no more is printed.
            FI_TYPE_AV_ATTR => av_attr(&data.cast::<fi_av_attr>().read()),
            FI_TYPE_CQ_ATTR => cq_attr(&heap::head(data.cast(), offset_of!(fi_cq_attr, xpu_ctx))),
            FI_TYPE_MR_ATTR => mr_attr(&heap::head(data.cast(), offset_of!(fi_mr_attr, device))),
            FI_TYPE_CNTR_ATTR => cntr_attr(&heap::head(data.cast(), offset_of!(fi_cntr_attr, xpu_ctx))),
            FI_TYPE_CQ_ERR_ENTRY => {
                cq_err_entry(&heap::head(data.cast(), offset_of!(fi_cq_err_entry, src_addr)))
            }
            FI_TYPE_CQ_WAIT_COND => name(names::fi_cq_wait_cond, number()),
            FI_TYPE_WAIT_OBJ => name(names::fi_wait_obj, number()),
            _ => "Unknown type".into(),
        }
    }
}

/// Names of flags, in the order of their printing.
type Flags = &'static [(&'static str, u64)];

macro_rules! flags {
    ($($name:ident)*) => { &[$((stringify!($name), $name),)*] };
}

const OP_FLAGS: Flags = flags! {
    FI_MULTICAST FI_MULTI_RECV FI_REMOTE_CQ_DATA FI_MORE FI_PEEK FI_TRIGGER FI_FENCE FI_COMPLETION FI_INJECT
    FI_INJECT_COMPLETE FI_TRANSMIT_COMPLETE FI_DELIVERY_COMPLETE FI_MATCH_COMPLETE FI_AFFINITY FI_CLAIM FI_DISCARD
};
const CQ_FLAGS: Flags = flags! {
    FI_SEND FI_RECV FI_RMA FI_ATOMIC FI_MSG FI_TAGGED FI_READ FI_WRITE FI_REMOTE_READ FI_REMOTE_WRITE
    FI_REMOTE_CQ_DATA FI_MULTI_RECV FI_MORE FI_CLAIM
};
const MR_ACCESS: Flags = flags! {
    FI_RECV FI_SEND FI_READ FI_WRITE FI_REMOTE_READ FI_REMOTE_WRITE FI_COLLECTIVE
};
const AV_FLAGS: Flags = flags! { FI_EVENT FI_READ FI_SYMMETRIC };
const CQ_ATTR_FLAGS: Flags = flags! { FI_AFFINITY };

const EVENTS: &[(&str, u32)] = &[
    ("FI_NOTIFY", FI_NOTIFY),
    ("FI_CONNREQ", FI_CONNREQ),
    ("FI_CONNECTED", FI_CONNECTED),
    ("FI_SHUTDOWN", FI_SHUTDOWN),
    ("FI_MR_COMPLETE", FI_MR_COMPLETE),
    ("FI_AV_COMPLETE", FI_AV_COMPLETE),
    ("FI_JOIN_COMPLETE", FI_JOIN_COMPLETE),
];

fn list(bits: u64, flags: Flags) -> String {
    let names: Vec<_> = flags.iter().filter(|(_, flag)| bits & flag != 0).map(|(name, _)| *name).collect();
    names.join(", ")
}

fn name(names: &[(&'static str, u32)], number: u32) -> String {
    names.iter().find(|(_, value)| *value == number).map_or("Unknown", |(name, _)| name).to_owned()
}

/// A pointer as printf(3)'s `%p` prints it.
struct Pointer<T>(*const T);

impl<T> Display for Pointer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_null() {
            true => f.write_str("(nil)"),
            false => write!(f, "{:#x}", self.0.addr()),
        }
    }
}

/// Lines `    name: value` behind the name of a structure.
macro_rules! lines {
    ($head:literal $($name:literal $value:expr,)*) => {
        [concat!($head, ":\n").to_owned(), $(format!(concat!("    ", $name, ": {}\n"), $value),)*].concat()
    };
}

/// Moves a structure's text to the right.
fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

/// # Safety
/// Null, or an info whose pointers are null or good.
unsafe fn fi_info(info: *const fi_info) -> String {
    // SAFETY: the caller's word, here and for its parts.
    unsafe {
        let wide = Wide::read(info, &InfoLayout::FABRIC_1_10);
        let all = &wide.info;
        let address = |addr, len| match wide.address(addr, len) {
            Ok(Some(address)) => address.to_string(),
            Ok(None) => "(null)".into(),
            Err(_) => String::new(),
        };
        let mut text = lines! { "fi_info"
            "caps" format_args!("[ {} ]", Caps::from_bits_retain(all.caps)),
            "mode" format_args!("[ {} ]", Mode::from_bits_retain(all.mode)),
            "addr_format" AddrFormat::from_raw(all.addr_format),
            "src_addrlen" all.src_addrlen,
            "dest_addrlen" all.dest_addrlen,
            "src_addr" address(all.src_addr, all.src_addrlen),
            "dest_addr" address(all.dest_addr, all.dest_addrlen),
        };
        // Its address only: what it was may be gone, of an info that was accepted.
        text.push_str(&format!("    handle: {}\n", Pointer(all.handle)));
        let missing = |name: &str| format!("{name}: (null)\n");
        let attr = |attr: Option<String>, name| indented(&attr.unwrap_or_else(|| missing(name)));
        text.push_str(&attr(wide.tx_attr.map(|attr| info::tx_attr(attr).to_string()), "fi_tx_attr"));
        text.push_str(&attr(wide.rx_attr.map(|attr| info::rx_attr(attr).to_string()), "fi_rx_attr"));
        text.push_str(&attr(wide.ep_attr.map(|attr| ep_attr(attr)), "fi_ep_attr"));
        text.push_str(&attr(wide.domain_attr.map(|attr| domain_attr(attr)), "fi_domain_attr"));
        text.push_str(&attr(wide.fabric_attr.map(|attr| fabric_attr(attr)), "fi_fabric_attr"));
        text.push_str(&fid_text("    nic: ", all.nic.cast()));
        text
    }
}

/// An object's own text, or its address.
///
/// # Safety
/// Null, or an object.
unsafe fn fid_text(label: &str, fid: *const fid) -> String {
    // SAFETY: the caller's word; a table's size says which slots it has.
    let own = unsafe {
        fid.as_ref()
            .and_then(|fid| fid.ops.as_ref())
            .and_then(|ops| (ops.size > offset_of!(fi_ops, tostr)).then_some(ops.tostr).flatten())
    };
    let Some(own) = own else { return format!("{label}{}\n", Pointer(fid)) };
    let mut text = vec![0u8; STATIC_SIZE];
    // SAFETY: the object's own function, and that much room.
    unsafe { own(fid, text.as_mut_ptr().cast(), text.len()) };
    core::ffi::CStr::from_bytes_until_nul(&text).unwrap_or_default().to_string_lossy().into_owned()
}

/// # Safety
/// Its pointers are null or good.
unsafe fn ep_attr(attr: fi_ep_attr) -> String {
    // SAFETY: the caller's word.
    let known = unsafe { info::ep_attr(attr) };
    format!("{known}    xpu_ctx: {}\n", Pointer(attr.xpu_ctx))
}

/// # Safety
/// Its pointers are null or good.
unsafe fn domain_attr(attr: fi_domain_attr) -> String {
    // SAFETY: the caller's word.
    let known = unsafe { info::domain_attr(attr) };
    let younger = lines! { ""
        "max_ep_auth_key" attr.max_ep_auth_key,
        "max_group_id" attr.max_group_id,
        "max_cntr_value" attr.max_cntr_value,
        "max_err_cntr_value" attr.max_err_cntr_value,
        "max_xpu_ctx_cnt" attr.max_xpu_ctx_cnt,
    };
    format!("{known}{}", younger.trim_start_matches(":\n"))
}

/// # Safety
/// Its pointers are null or good.
unsafe fn fabric_attr(attr: fi_fabric_attr) -> String {
    // SAFETY: the caller's word.
    let (name, prov_name) = unsafe { (heap::read_text(attr.name), heap::read_text(attr.prov_name)) };
    let null = || "(null)".to_owned();
    lines! { "fi_fabric_attr"
        "name" name.unwrap_or_else(null),
        "prov_name" prov_name.unwrap_or_else(null),
        "prov_version" kofi_core::Version::from_raw(attr.prov_version),
        "api_version" kofi_core::Version::from_raw(attr.api_version),
    }
}

/// # Safety
/// Its name is null or a text.
unsafe fn av_attr(attr: &fi_av_attr) -> String {
    // SAFETY: the caller's word.
    let label = unsafe { heap::read_text(attr.name) };
    lines! { "fi_av_attr"
        "type" AvType::from_raw(attr.r#type),
        "count" attr.count,
        "ep_per_node" attr.ep_per_node,
        "name" label.unwrap_or_else(|| "(null)".into()),
        "flags" format_args!("[ {} ]", list(attr.flags, AV_FLAGS)),
    }
}

fn cq_attr(attr: &fi_cq_attr) -> String {
    lines! { "fi_cq_attr"
        "size" attr.size,
        "flags" format_args!("[ {} ]", list(attr.flags, CQ_ATTR_FLAGS)),
        "format" name(names::fi_cq_format, attr.format),
        "wait_obj" name(names::fi_wait_obj, attr.wait_obj),
        "signaling_vector" attr.signaling_vector,
        "wait_cond" name(names::fi_cq_wait_cond, attr.wait_cond),
    }
}

fn mr_attr(attr: &fi_mr_attr) -> String {
    lines! { "fi_mr_attr"
        "mr_iov" Pointer(attr.mr_iov),
        "iov_count" attr.iov_count,
        "access" format_args!("[ {} ]", list(attr.access, MR_ACCESS)),
        "offset" format_args!("{:#x}", attr.offset),
        "requested_key" format_args!("{:#x}", attr.requested_key),
        "context" Pointer(attr.context),
        "auth_key_size" attr.auth_key_size,
        "iface" name(names::fi_hmem_iface, attr.iface),
    }
}

fn cntr_attr(attr: &fi_cntr_attr) -> String {
    lines! { "fi_cntr_attr"
        "events" name(names::fi_cntr_events, attr.events),
        "wait_obj" name(names::fi_wait_obj, attr.wait_obj),
        "flags" format_args!("{:#x}", attr.flags),
    }
}

fn cq_err_entry(entry: &fi_cq_err_entry) -> String {
    lines! { "fi_cq_err_entry"
        "op_context" Pointer(entry.op_context),
        "flags" format_args!("{:#x}", entry.flags),
        "len" entry.len,
        "buf" Pointer(entry.buf),
        "data" entry.data,
        "tag" format_args!("{:#x}", entry.tag),
        "olen" entry.olen,
        "err" entry.err,
        "prov_errno" entry.prov_errno,
        "err_data" Pointer(entry.err_data),
        "err_data_size" entry.err_data_size,
    }
}
