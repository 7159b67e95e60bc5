// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The structures of `include-private/kofi_kernel.h`, member by member, and how pointers from C are taken.

use core::ffi::{c_char, c_void};
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use kofi_core::{Error, Result};

pub(crate) use crate::sys::raw::Handler;

pub(crate) const NAME_MAX: usize = 64;
pub(crate) const IOV_LIMIT: usize = 256;
pub(crate) const KVEC: u32 = 1;

/// `KOFI_WAIT_*`.
pub(crate) const WAIT_NONE: u32 = 0;
pub(crate) const WAIT_UNSPEC: u32 = 1;
pub(crate) const WAIT_SET: u32 = 2;

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Addr {
    pub(crate) len: u32,
    pub(crate) bytes: [u8; 28],
}

impl From<SocketAddr> for Addr {
    fn from(addr: SocketAddr) -> Self {
        let mut bytes = [0; 28];
        let mut put = |at: usize, what: &[u8]| {
            if let Some(place) = bytes.get_mut(at..at + what.len()) {
                place.copy_from_slice(what);
            }
        };
        put(2, &addr.port().to_be_bytes());
        let len = match addr {
            SocketAddr::V4(addr) => {
                put(0, &AF_INET.to_ne_bytes());
                put(4, &addr.ip().octets());
                16
            }
            SocketAddr::V6(addr) => {
                put(0, &AF_INET6.to_ne_bytes());
                put(4, &addr.flowinfo().to_ne_bytes());
                put(8, &addr.ip().octets());
                put(24, &addr.scope_id().to_ne_bytes());
                28
            }
        };
        Self { len, bytes }
    }
}

impl Addr {
    /// The address, if it is one of those we know.
    pub(crate) fn get(&self) -> Option<SocketAddr> {
        let bytes = self.bytes.get(..usize::try_from(self.len).ok()?)?;
        fn part<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
            bytes.get(at..at + N)?.try_into().ok()
        }
        let port = u16::from_be_bytes(part(bytes, 2)?);
        match u16::from_ne_bytes(part(bytes, 0)?) {
            AF_INET => Some((Ipv4Addr::from(part::<4>(bytes, 4)?), port).into()),
            AF_INET6 => {
                let (flow, scope) = (part(bytes, 4)?, part(bytes, 24)?);
                let ip = Ipv6Addr::from(part::<16>(bytes, 8)?);
                Some(SocketAddrV6::new(ip, port, u32::from_ne_bytes(flow), u32::from_ne_bytes(scope)).into())
            }
            _ => None,
        }
    }

    /// From a pointer and a length of C's.
    pub(crate) fn from_c(call: &'static str, addr: *const c_void, len: usize) -> Result<Option<SocketAddr>> {
        if addr.is_null() {
            return Ok(None);
        }
        let problem = "no socket address; tcp takes FI_SOCKADDR_IN and _IN6";
        let mut copy = Self::default();
        // A longer structure, sockaddr_storage, begins like ours.
        let len = len.min(copy.bytes.len());
        // SAFETY: the caller gave an address of that length.
        let bytes = unsafe { core::slice::from_raw_parts(addr.cast::<u8>(), len) };
        copy.len = len as u32;
        if let Some(place) = copy.bytes.get_mut(..len) {
            place.copy_from_slice(bytes);
        }
        copy.get().map(Some).ok_or(Error::Invalid { call, problem })
    }

    /// Copies as much as there is room for, and tells the whole length.
    pub(crate) fn to_c(
        call: &'static str,
        addr: SocketAddr,
        place: *mut c_void,
        len: *mut usize,
    ) -> Result<()> {
        if len.is_null() {
            return Err(Error::Invalid { call, problem: "no length for the address" });
        }
        let addr = Self::from(addr);
        let need = addr.len as usize;
        // SAFETY: the caller gave its length's place.
        let have = unsafe { len.replace(need) };
        let count = if place.is_null() { 0 } else { need.min(have) };
        // SAFETY: the caller says that there is so much room.
        unsafe { core::ptr::copy_nonoverlapping(addr.bytes.as_ptr(), place.cast::<u8>(), count) };
        if count < need { Err(Error::TooSmall { call, have: count, need }) } else { Ok(()) }
    }
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct TxAttr {
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) op_flags: u64,
    pub(crate) msg_order: u64,
    pub(crate) comp_order: u64,
    pub(crate) inject_size: u64,
    pub(crate) size: u64,
    pub(crate) iov_limit: u64,
    pub(crate) rma_iov_limit: u64,
    pub(crate) tclass: u32,
    pub(crate) reserved: u32,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct RxAttr {
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) op_flags: u64,
    pub(crate) msg_order: u64,
    pub(crate) comp_order: u64,
    pub(crate) total_buffered_recv: u64,
    pub(crate) size: u64,
    pub(crate) iov_limit: u64,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct EpAttr {
    pub(crate) ep_type: u32,
    pub(crate) protocol: u32,
    pub(crate) protocol_version: u32,
    pub(crate) reserved: u32,
    pub(crate) max_msg_size: u64,
    pub(crate) msg_prefix_size: u64,
    pub(crate) max_order_raw_size: u64,
    pub(crate) max_order_war_size: u64,
    pub(crate) max_order_waw_size: u64,
    pub(crate) mem_tag_format: u64,
    pub(crate) tx_ctx_cnt: u64,
    pub(crate) rx_ctx_cnt: u64,
    pub(crate) auth_key_size: u64,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct DomainAttr {
    pub(crate) name: [u8; NAME_MAX],
    pub(crate) threading: u32,
    pub(crate) control_progress: u32,
    pub(crate) data_progress: u32,
    pub(crate) resource_mgmt: u32,
    pub(crate) av_type: u32,
    pub(crate) tclass: u32,
    pub(crate) mr_mode: u64,
    pub(crate) mr_key_size: u64,
    pub(crate) cq_data_size: u64,
    pub(crate) cq_cnt: u64,
    pub(crate) ep_cnt: u64,
    pub(crate) tx_ctx_cnt: u64,
    pub(crate) rx_ctx_cnt: u64,
    pub(crate) max_ep_tx_ctx: u64,
    pub(crate) max_ep_rx_ctx: u64,
    pub(crate) max_ep_stx_ctx: u64,
    pub(crate) max_ep_srx_ctx: u64,
    pub(crate) cntr_cnt: u64,
    pub(crate) mr_iov_limit: u64,
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) auth_key_size: u64,
    pub(crate) max_err_data: u64,
    pub(crate) mr_cnt: u64,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct FabricAttr {
    pub(crate) name: [u8; NAME_MAX],
    pub(crate) prov_name: [u8; NAME_MAX],
    pub(crate) prov_version: u32,
    pub(crate) api_version: u32,
}

pub(crate) const HAS_TX_ATTR: u32 = 1 << 0;
pub(crate) const HAS_RX_ATTR: u32 = 1 << 1;
pub(crate) const HAS_EP_ATTR: u32 = 1 << 2;
pub(crate) const HAS_DOMAIN_ATTR: u32 = 1 << 3;
pub(crate) const HAS_FABRIC_ATTR: u32 = 1 << 4;

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Info {
    pub(crate) next: *mut Info,
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) addr_format: u32,
    pub(crate) present: u32,
    pub(crate) src_addr: Addr,
    pub(crate) dest_addr: Addr,
    pub(crate) handle: u64,
    pub(crate) tx: TxAttr,
    pub(crate) rx: RxAttr,
    pub(crate) ep: EpAttr,
    pub(crate) domain: DomainAttr,
    pub(crate) fabric: FabricAttr,
}

// SAFETY: `next` is a list's, which its owner alone walks.
unsafe impl Send for Info {}
// SAFETY: as above.
unsafe impl Sync for Info {}

#[repr(C)]
pub(crate) struct QueueAttr {
    pub(crate) size: u64,
    pub(crate) flags: u64,
    pub(crate) wait_obj: u32,
    pub(crate) signaling_vector: i32,
    pub(crate) wait_set: *const crate::wait_set::WaitSet,
    pub(crate) handler: Option<Handler>,
    pub(crate) handler_context: *mut c_void,
}

impl Default for QueueAttr {
    fn default() -> Self {
        Self {
            size: 0,
            flags: 0,
            wait_obj: WAIT_UNSPEC,
            signaling_vector: 0,
            wait_set: core::ptr::null(),
            handler: None,
            handler_context: core::ptr::null_mut(),
        }
    }
}

#[repr(C)]
pub(crate) struct Event {
    pub(crate) event: u32,
    pub(crate) is_cm: u32,
    pub(crate) fid: u64,
    pub(crate) info: *mut Info,
    pub(crate) data_len: u64,
}

#[repr(C)]
pub(crate) struct EqError {
    pub(crate) fid: u64,
    pub(crate) data: u64,
    pub(crate) err: i32,
    pub(crate) prov_errno: i32,
    pub(crate) err_data: *mut c_void,
    pub(crate) err_data_size: u64,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CqEntry {
    pub(crate) context: u64,
    pub(crate) flags: u64,
    pub(crate) len: u64,
    pub(crate) buf: u64,
    pub(crate) data: u64,
}

#[repr(C)]
pub(crate) struct CqError {
    pub(crate) context: u64,
    pub(crate) flags: u64,
    pub(crate) len: u64,
    pub(crate) buf: u64,
    pub(crate) data: u64,
    pub(crate) olen: u64,
    pub(crate) err: i32,
    pub(crate) prov_errno: i32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Memory {
    pub(crate) kind: u32,
    pub(crate) count: u32,
    pub(crate) segments: *const c_void,
}

#[repr(C)]
pub(crate) struct MrAttr {
    pub(crate) memory: Memory,
    pub(crate) access: u64,
    pub(crate) requested_key: u64,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct RmaIov {
    pub(crate) addr: u64,
    pub(crate) len: u64,
    pub(crate) key: u64,
}

#[repr(C)]
pub(crate) struct Op {
    pub(crate) memory: Memory,
    pub(crate) context: u64,
    pub(crate) flags: u64,
    pub(crate) data: u64,
    pub(crate) remote: *const RmaIov,
    pub(crate) remote_count: u32,
    pub(crate) default_flags: u32,
}

// What a C compiler says of them (kernel/shim/layout.c checks the same numbers there).
const _: () = {
    assert!(size_of::<Addr>() == 32);
    assert!(size_of::<TxAttr>() == 80);
    assert!(size_of::<RxAttr>() == 64);
    assert!(size_of::<EpAttr>() == 88);
    assert!(size_of::<DomainAttr>() == 232);
    assert!(size_of::<FabricAttr>() == 136);
    assert!(size_of::<Info>() == 704);
    assert!(size_of::<QueueAttr>() == 48);
    assert!(size_of::<Event>() == 32);
    assert!(size_of::<EqError>() == 40);
    assert!(size_of::<CqEntry>() == 40);
    assert!(size_of::<CqError>() == 56);
    assert!(size_of::<Memory>() == 16);
    assert!(size_of::<MrAttr>() == 32);
    assert!(size_of::<RmaIov>() == 24);
    assert!(size_of::<Op>() == 56);
};

/// The text in a field of bytes, up to its zero.
pub(crate) fn text(bytes: &[u8]) -> &str {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    core::str::from_utf8(bytes.get(..end).unwrap_or_default()).unwrap_or_default()
}

/// As much of `text` as there is room for, and a zero.
pub(crate) fn put_text<const N: usize>(place: &mut [u8; N], text: &str) {
    *place = [0; N];
    let count = text.len().min(N - 1);
    if let (Some(to), Some(from)) = (place.get_mut(..count), text.as_bytes().get(..count)) {
        to.copy_from_slice(from);
    }
}

/// A C string of the caller's; `None` for null.
pub(crate) fn string<'a>(call: &'static str, text: *const c_char) -> Result<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller gave a string that ends, and keeps it for the call.
    let text = unsafe { core::ffi::CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| Error::Invalid { call, problem: "a text that is no UTF-8" })
}

/// What a pointer of the caller's points to; null is refused.
pub(crate) fn borrow<'a, T>(call: &'static str, pointer: *const T) -> Result<&'a T> {
    // SAFETY: handles are valid until their close, structures for the call: the caller's side of the header's conventions.
    unsafe { pointer.as_ref() }.ok_or(Error::Invalid { call, problem: "a null pointer" })
}

/// A place of the caller's to be filled; null is refused.
pub(crate) fn place<'a, T>(call: &'static str, pointer: *mut T) -> Result<&'a mut T> {
    // SAFETY: the caller's place is its own for the call.
    unsafe { pointer.as_mut() }.ok_or(Error::Invalid { call, problem: "a null pointer" })
}

/// Bytes of the caller's.
pub(crate) fn bytes<'a>(call: &'static str, pointer: *const c_void, len: usize) -> Result<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() || isize::try_from(len).is_err() {
        return Err(Error::Invalid { call, problem: "a null pointer with a length" });
    }
    // SAFETY: the caller says that there are so many bytes.
    Ok(unsafe { core::slice::from_raw_parts(pointer.cast(), len) })
}

/// Room of the caller's.
pub(crate) fn room<'a>(call: &'static str, pointer: *mut c_void, len: usize) -> Result<&'a mut [u8]> {
    if len == 0 {
        return Ok(&mut []);
    }
    if pointer.is_null() || isize::try_from(len).is_err() {
        return Err(Error::Invalid { call, problem: "a null pointer with a length" });
    }
    // SAFETY: the caller says that there is so much room, and that it is its own.
    Ok(unsafe { core::slice::from_raw_parts_mut(pointer.cast(), len) })
}

/// Hands an object out as a handle.
pub(crate) fn give<T>(place: &mut *const T, object: alloc::sync::Arc<T>) {
    *place = alloc::sync::Arc::into_raw(object);
}

/// Takes a handle back, at the end of its close.
///
/// # Safety
/// It came from [`give`], and was not taken back.
pub(crate) unsafe fn take_back<T>(handle: *const T) {
    // SAFETY: as above.
    drop(unsafe { alloc::sync::Arc::from_raw(handle) });
}

/// Memory for a shared object.
pub(crate) fn share<T>(object: T, what: &'static str) -> Result<alloc::sync::Arc<T>> {
    alloc::sync::Arc::try_new(object).map_err(|_| Error::NoMemory(what))
}
