// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `struct fi_info`: in, out, copied and freed.
//!
//! Programs put their own memory into an info in place of ours, and free ours: every block that can be reached from
//! one is of the C heap.

use core::ffi::{c_char, c_void};
use core::ptr::{self, NonNull};

use kofi_core::info::{DomainAttr, EpAttr, FabricAttr, RxAttr, TxAttr};
use kofi_core::{
    AddrFormat, Address, AvType, Caps, EpType, Error, Info, Mode, MrMode, OpFlags, Order, Progress, Protocol,
    ResourceMgmt, Result, Threading, Version,
};

use crate::face::face;
use crate::heap::Blocks;
use crate::layout::InfoLayout;
use crate::sys::{
    FI_DUP, fi_domain_attr, fi_ep_attr, fi_fabric_attr, fi_info, fi_rx_attr, fi_tx_attr, fid, fid_nic,
};
use crate::{address, heap};

/// An info of C with its attributes as they are in memory, widened to the newest layout. A null attribute is `None`.
pub(crate) struct Wide {
    pub(crate) info: fi_info,
    pub(crate) tx_attr: Option<fi_tx_attr>,
    pub(crate) rx_attr: Option<fi_rx_attr>,
    pub(crate) ep_attr: Option<fi_ep_attr>,
    pub(crate) domain_attr: Option<fi_domain_attr>,
    pub(crate) fabric_attr: Option<fi_fabric_attr>,
}

impl Wide {
    /// Reads as much as there is in `layout`.
    ///
    /// # Safety
    /// `info` is such an info, and what its fields point to is there.
    pub(crate) unsafe fn read(info: *const fi_info, layout: &InfoLayout) -> Self {
        /// # Safety
        /// Null, or `size` bytes are there.
        unsafe fn attr<T: heap::Plain>(from: *const T, size: usize) -> Option<T> {
            // SAFETY: the caller's word.
            (!from.is_null()).then(|| unsafe { heap::head(from, size) })
        }
        // SAFETY: the caller's word; no size is larger than what its layout has.
        unsafe {
            let info = heap::head(info, layout.info);
            Self {
                tx_attr: attr(info.tx_attr, layout.tx_attr),
                rx_attr: attr(info.rx_attr, layout.rx_attr),
                ep_attr: attr(info.ep_attr, layout.ep_attr),
                domain_attr: attr(info.domain_attr, layout.domain_attr),
                fabric_attr: attr(info.fabric_attr, layout.fabric_attr),
                info,
            }
        }
    }

    /// An address of it.
    ///
    /// # Safety
    /// `addr` is null, or `len` bytes are there.
    pub(crate) unsafe fn address(&self, addr: *const c_void, len: usize) -> Result<Option<Address>> {
        if addr.is_null() || len == 0 {
            return Ok(None);
        }
        // SAFETY: the caller's word.
        match unsafe { address::read(self.info.addr_format, addr, len) } {
            Some(address) => Ok(Some(address)),
            None => Err(Error::NoMatch(format!(
                "an address of {len} bytes is given as {}, which it is not; see addr_format and the address's length",
                AddrFormat::from_raw(self.info.addr_format)
            ))),
        }
    }
}

/// The bytes of an authorization key.
///
/// # Safety
/// `key` is null, or `size` bytes are there.
pub(crate) unsafe fn auth_key(key: *const u8, size: usize) -> Vec<u8> {
    if key.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller's word.
    unsafe { core::slice::from_raw_parts(key, size) }.to_vec()
}

/// The info that a program opens something with. An attribute that is null has its defaults.
///
/// # Errors
/// -FI_EINVAL for a null info, -FI_ENODATA for an address that is none.
///
/// # Safety
/// Null, or an info that `fi_getinfo` or `fi_dupinfo` of the library that we serve has made, whose pointers are null
/// or good.
pub unsafe fn read(info: *const fi_info) -> Result<Info> {
    if info.is_null() {
        return Err(Error::Invalid {
            call: "fi_info",
            problem: "the info is a null pointer; ask fi_getinfo for one",
        });
    }
    // SAFETY: the caller's word, here and for the pointers below.
    unsafe {
        let wide = Wide::read(info, &face().layout);
        Ok(Info {
            caps: Caps::from_bits_retain(wide.info.caps),
            mode: Mode::from_bits_retain(wide.info.mode),
            addr_format: AddrFormat::from_raw(wide.info.addr_format),
            src_addr: wide.address(wide.info.src_addr, wide.info.src_addrlen)?,
            dest_addr: wide.address(wide.info.dest_addr, wide.info.dest_addrlen)?,
            handle: handle(wide.info.handle),
            tx_attr: wide.tx_attr.map(tx_attr).unwrap_or_default(),
            rx_attr: wide.rx_attr.map(rx_attr).unwrap_or_default(),
            ep_attr: wide.ep_attr.map(|attr| ep_attr(attr)).unwrap_or_default(),
            domain_attr: wide.domain_attr.map(|attr| domain_attr(attr)).unwrap_or_default(),
            fabric_attr: wide.fabric_attr.map(|attr| fabric_attr(attr)).unwrap_or_default(),
        })
    }
}

/// The number that stands for a handle in an [`Info`]: its address.
pub(crate) fn handle(handle: *mut fid) -> Option<u64> {
    (!handle.is_null()).then(|| handle.expose_provenance() as u64)
}

/// Transmit attributes.
pub fn tx_attr(attr: fi_tx_attr) -> TxAttr {
    TxAttr {
        caps: Caps::from_bits_retain(attr.caps),
        mode: Mode::from_bits_retain(attr.mode),
        op_flags: OpFlags::from_bits_retain(attr.op_flags),
        msg_order: Order::from_bits_retain(attr.msg_order),
        comp_order: Order::from_bits_retain(attr.comp_order),
        inject_size: attr.inject_size,
        size: attr.size,
        iov_limit: attr.iov_limit,
        rma_iov_limit: attr.rma_iov_limit,
        tclass: attr.tclass,
    }
}

/// Receive attributes.
pub fn rx_attr(attr: fi_rx_attr) -> RxAttr {
    RxAttr {
        caps: Caps::from_bits_retain(attr.caps),
        mode: Mode::from_bits_retain(attr.mode),
        op_flags: OpFlags::from_bits_retain(attr.op_flags),
        msg_order: Order::from_bits_retain(attr.msg_order),
        comp_order: Order::from_bits_retain(attr.comp_order),
        total_buffered_recv: attr.total_buffered_recv,
        size: attr.size,
        iov_limit: attr.iov_limit,
    }
}

/// Endpoint attributes.
///
/// # Safety
/// Its pointers are null or good.
pub unsafe fn ep_attr(attr: fi_ep_attr) -> EpAttr {
    EpAttr {
        ep_type: EpType::from_raw(attr.r#type),
        protocol: Protocol::from_raw(attr.protocol),
        protocol_version: attr.protocol_version,
        max_msg_size: attr.max_msg_size,
        msg_prefix_size: attr.msg_prefix_size,
        max_order_raw_size: attr.max_order_raw_size,
        max_order_war_size: attr.max_order_war_size,
        max_order_waw_size: attr.max_order_waw_size,
        mem_tag_format: attr.mem_tag_format,
        tx_ctx_cnt: attr.tx_ctx_cnt,
        rx_ctx_cnt: attr.rx_ctx_cnt,
        auth_key_size: attr.auth_key_size,
        // SAFETY: the caller's word.
        auth_key: unsafe { auth_key(attr.auth_key, attr.auth_key_size) },
    }
}

/// Domain attributes.
///
/// # Safety
/// Its pointers are null or good.
pub unsafe fn domain_attr(attr: fi_domain_attr) -> DomainAttr {
    // SAFETY: the caller's word.
    let (name, auth_key) =
        unsafe { (heap::read_text(attr.name), auth_key(attr.auth_key, attr.auth_key_size)) };
    DomainAttr {
        name: name.unwrap_or_default(),
        threading: Threading::from_raw(attr.threading),
        control_progress: Progress::from_raw(attr.control_progress),
        data_progress: Progress::from_raw(attr.data_progress),
        resource_mgmt: ResourceMgmt::from_raw(attr.resource_mgmt),
        av_type: AvType::from_raw(attr.av_type),
        mr_mode: mr_mode(attr.mr_mode),
        mr_key_size: attr.mr_key_size,
        cq_data_size: attr.cq_data_size,
        cq_cnt: attr.cq_cnt,
        ep_cnt: attr.ep_cnt,
        tx_ctx_cnt: attr.tx_ctx_cnt,
        rx_ctx_cnt: attr.rx_ctx_cnt,
        max_ep_tx_ctx: attr.max_ep_tx_ctx,
        max_ep_rx_ctx: attr.max_ep_rx_ctx,
        max_ep_stx_ctx: attr.max_ep_stx_ctx,
        max_ep_srx_ctx: attr.max_ep_srx_ctx,
        cntr_cnt: attr.cntr_cnt,
        mr_iov_limit: attr.mr_iov_limit,
        caps: Caps::from_bits_retain(attr.caps),
        mode: Mode::from_bits_retain(attr.mode),
        auth_key_size: attr.auth_key_size,
        auth_key,
        max_err_data: attr.max_err_data,
        mr_cnt: attr.mr_cnt,
        tclass: attr.tclass,
    }
}

/// Registration modes, which C has as an `int`.
pub(crate) fn mr_mode(mr_mode: i32) -> MrMode {
    MrMode::from_bits_retain(u64::from(mr_mode.cast_unsigned()))
}

/// Fabric attributes, with the provider's name in Rust.
///
/// # Safety
/// Its pointers are null or good.
pub unsafe fn fabric_attr(attr: fi_fabric_attr) -> FabricAttr {
    // SAFETY: the caller's word.
    let (name, prov_name) = unsafe { (heap::read_text(attr.name), heap::read_text(attr.prov_name)) };
    let prov_name = prov_name.unwrap_or_default();
    // The one that we are for this program is known by another name inside.
    let prov_name = match prov_name.eq_ignore_ascii_case(face().provider) {
        true => kofi_core::offer::NAME.into(),
        false => prov_name,
    };
    FabricAttr {
        name: name.unwrap_or_default(),
        prov_name,
        prov_version: Version::from_raw(attr.prov_version),
        api_version: Version::from_raw(attr.api_version),
    }
}

/// The same on the C heap. `None` when there is no memory.
///
/// What an [`Info`] does not have is null, or 0 where that says that there is none; counters count as far as 64 bits
/// go. A handle becomes the pointer that it was made of.
pub fn write(info: &Info) -> Option<NonNull<fi_info>> {
    let Info { tx_attr, rx_attr, ep_attr, domain_attr, fabric_attr, .. } = info;
    let blocks = Blocks::new();
    let address = |address: &Option<Address>| address.as_ref().map(address::bytes).unwrap_or_default();
    let (src_addr, dest_addr) = (address(&info.src_addr), address(&info.dest_addr));
    // The entry of a provider (`FI_PROV_ATTR_ONLY`) has no names.
    let name = |name: &str| if name.is_empty() { ptr::null_mut() } else { blocks.text(name) };
    let prov_name = match fabric_attr.prov_name == kofi_core::offer::NAME {
        true => face().provider,
        false => &fabric_attr.prov_name,
    };
    let tx_attr = blocks.value(fi_tx_attr {
        caps: tx_attr.caps.bits(),
        mode: tx_attr.mode.bits(),
        op_flags: tx_attr.op_flags.bits(),
        msg_order: tx_attr.msg_order.bits(),
        comp_order: tx_attr.comp_order.bits(),
        inject_size: tx_attr.inject_size,
        size: tx_attr.size,
        iov_limit: tx_attr.iov_limit,
        rma_iov_limit: tx_attr.rma_iov_limit,
        tclass: tx_attr.tclass,
    });
    let rx_attr = blocks.value(fi_rx_attr {
        caps: rx_attr.caps.bits(),
        mode: rx_attr.mode.bits(),
        op_flags: rx_attr.op_flags.bits(),
        msg_order: rx_attr.msg_order.bits(),
        comp_order: rx_attr.comp_order.bits(),
        total_buffered_recv: rx_attr.total_buffered_recv,
        size: rx_attr.size,
        iov_limit: rx_attr.iov_limit,
    });
    let ep_attr = blocks.value(fi_ep_attr {
        r#type: ep_attr.ep_type.raw(),
        protocol: ep_attr.protocol.raw(),
        protocol_version: ep_attr.protocol_version,
        max_msg_size: ep_attr.max_msg_size,
        msg_prefix_size: ep_attr.msg_prefix_size,
        max_order_raw_size: ep_attr.max_order_raw_size,
        max_order_war_size: ep_attr.max_order_war_size,
        max_order_waw_size: ep_attr.max_order_waw_size,
        mem_tag_format: ep_attr.mem_tag_format,
        tx_ctx_cnt: ep_attr.tx_ctx_cnt,
        rx_ctx_cnt: ep_attr.rx_ctx_cnt,
        auth_key_size: ep_attr.auth_key_size,
        auth_key: blocks.bytes(&ep_attr.auth_key),
        xpu_ctx: ptr::null_mut(),
    });
    let domain_attr = blocks.value(fi_domain_attr {
        domain: ptr::null_mut(),
        name: name(&domain_attr.name),
        threading: domain_attr.threading.raw(),
        control_progress: domain_attr.control_progress.raw(),
        data_progress: domain_attr.data_progress.raw(),
        resource_mgmt: domain_attr.resource_mgmt.raw(),
        av_type: domain_attr.av_type.raw(),
        mr_mode: domain_attr.mr_mode.bits() as i32,
        mr_key_size: domain_attr.mr_key_size,
        cq_data_size: domain_attr.cq_data_size,
        cq_cnt: domain_attr.cq_cnt,
        ep_cnt: domain_attr.ep_cnt,
        tx_ctx_cnt: domain_attr.tx_ctx_cnt,
        rx_ctx_cnt: domain_attr.rx_ctx_cnt,
        max_ep_tx_ctx: domain_attr.max_ep_tx_ctx,
        max_ep_rx_ctx: domain_attr.max_ep_rx_ctx,
        max_ep_stx_ctx: domain_attr.max_ep_stx_ctx,
        max_ep_srx_ctx: domain_attr.max_ep_srx_ctx,
        cntr_cnt: domain_attr.cntr_cnt,
        mr_iov_limit: domain_attr.mr_iov_limit,
        caps: domain_attr.caps.bits(),
        mode: domain_attr.mode.bits(),
        auth_key: blocks.bytes(&domain_attr.auth_key),
        auth_key_size: domain_attr.auth_key_size,
        max_err_data: domain_attr.max_err_data,
        mr_cnt: domain_attr.mr_cnt,
        tclass: domain_attr.tclass,
        max_ep_auth_key: 0,
        max_group_id: 0,
        max_cntr_value: u64::MAX,
        max_err_cntr_value: u64::MAX,
        max_xpu_ctx_cnt: 0,
    });
    let fabric_attr = blocks.value(fi_fabric_attr {
        fabric: ptr::null_mut(),
        name: name(&fabric_attr.name),
        prov_name: blocks.text(prov_name),
        prov_version: fabric_attr.prov_version.raw(),
        api_version: fabric_attr.api_version.raw(),
    });
    let all = fi_info {
        next: ptr::null_mut(),
        caps: info.caps.bits(),
        mode: info.mode.bits(),
        addr_format: info.addr_format.raw(),
        src_addrlen: src_addr.len(),
        dest_addrlen: dest_addr.len(),
        src_addr: blocks.bytes(&src_addr).cast(),
        dest_addr: blocks.bytes(&dest_addr).cast(),
        handle: ptr::with_exposed_provenance_mut(info.handle.unwrap_or(0) as usize),
        tx_attr,
        rx_attr,
        ep_attr,
        domain_attr,
        fabric_attr,
        nic: ptr::null_mut(),
    };
    NonNull::new(finish(blocks, all))
}

/// The block of an info whose parts are made; null, and nothing is left, when there was not memory for all.
fn finish(blocks: Blocks, all: fi_info) -> *mut fi_info {
    let info = blocks.value(all);
    if blocks.are_whole() {
        return info;
    }
    // SAFETY: each part is null or was made for this info, and nobody has them.
    unsafe {
        free_parts(&all);
        heap::free(info);
    }
    ptr::null_mut()
}

/// `fi_freeinfo`: a list of infos, with all that they point to.
///
/// # Safety
/// Null, or a list that [`write()`] or [`duplicate`] has made, or parts of which a program has replaced by blocks of the
/// C heap; nobody uses it any more.
pub unsafe fn free(mut info: *mut fi_info) {
    while !info.is_null() {
        // SAFETY: the caller's word.
        unsafe {
            let all = info.read();
            free_parts(&all);
            heap::free(info);
            info = all.next;
        }
    }
}

/// # Safety
/// Each part is null, or of the C heap, and nobody uses it any more.
unsafe fn free_parts(info: &fi_info) {
    // SAFETY: the caller's word; what a part points to is freed before it.
    unsafe {
        heap::free(info.src_addr);
        heap::free(info.dest_addr);
        heap::free(info.tx_attr);
        heap::free(info.rx_attr);
        // By the pointers that C has: no reference is left to what is freed.
        let (ep_attr, domain_attr, fabric_attr) = (info.ep_attr, info.domain_attr, info.fabric_attr);
        if !ep_attr.is_null() {
            heap::free((*ep_attr).auth_key);
            heap::free(ep_attr);
        }
        if !domain_attr.is_null() {
            heap::free((*domain_attr).auth_key);
            heap::free((*domain_attr).name);
            heap::free(domain_attr);
        }
        if !fabric_attr.is_null() {
            heap::free((*fabric_attr).name);
            heap::free((*fabric_attr).prov_name);
            heap::free(fabric_attr);
        }
        if let Some(close) = info.nic.as_ref().and_then(|nic| nic.fid.ops.as_ref()?.close) {
            close(info.nic.cast());
        }
    }
}

/// `fi_allocinfo`: an info with all attributes, empty. Null when there is no memory.
pub fn allocate() -> *mut fi_info {
    let blocks = Blocks::new();
    // SAFETY: null pointers and zeros are an info and its attributes.
    unsafe {
        let empty = fi_info {
            tx_attr: blocks.value(core::mem::zeroed()),
            rx_attr: blocks.value(core::mem::zeroed()),
            ep_attr: blocks.value(core::mem::zeroed()),
            domain_attr: blocks.value(core::mem::zeroed()),
            fabric_attr: blocks.value(core::mem::zeroed()),
            ..core::mem::zeroed()
        };
        finish(blocks, empty)
    }
}

/// `fi_dupinfo` of an info in a layout: a copy in the newest, without what is linked behind it. Pointers to objects
/// are copied as they are. Null when there is no memory.
///
/// # Safety
/// `info` is such an info, and its pointers are null or good.
pub unsafe fn duplicate(info: *const fi_info, layout: &InfoLayout) -> *mut fi_info {
    /// # Safety
    /// Null, or that many bytes are there.
    unsafe fn bytes(blocks: &Blocks, from: *const c_void, len: usize) -> *mut u8 {
        match from.is_null() {
            true => ptr::null_mut(),
            // SAFETY: the caller's word.
            false => blocks.bytes(unsafe { core::slice::from_raw_parts(from.cast(), len) }),
        }
    }
    /// # Safety
    /// Null, or a C text.
    unsafe fn text(blocks: &Blocks, from: *const c_char) -> *mut c_char {
        // SAFETY: the caller's word.
        let len = match from.is_null() {
            true => 0,
            // SAFETY: the caller's word.
            false => unsafe { libc::strlen(from) + 1 },
        };
        // SAFETY: so many bytes are there.
        unsafe { bytes(blocks, from.cast(), len) }.cast()
    }
    let blocks = Blocks::new();
    // SAFETY: the caller's word, here and for all that is copied.
    let copy = unsafe {
        let Wide { info: all, tx_attr, rx_attr, ep_attr, domain_attr, fabric_attr } =
            Wide::read(info, layout);
        let ep_attr = ep_attr.map(|attr| fi_ep_attr {
            auth_key: bytes(&blocks, attr.auth_key.cast(), attr.auth_key_size),
            ..attr
        });
        let domain_attr = domain_attr.map(|attr| fi_domain_attr {
            name: text(&blocks, attr.name),
            auth_key: bytes(&blocks, attr.auth_key.cast(), attr.auth_key_size),
            ..attr
        });
        let fabric_attr = fabric_attr.map(|attr| fi_fabric_attr {
            name: text(&blocks, attr.name),
            prov_name: text(&blocks, attr.prov_name),
            ..attr
        });
        fi_info {
            next: ptr::null_mut(),
            src_addr: bytes(&blocks, all.src_addr, all.src_addrlen).cast(),
            dest_addr: bytes(&blocks, all.dest_addr, all.dest_addrlen).cast(),
            tx_attr: blocks.optional(tx_attr),
            rx_attr: blocks.optional(rx_attr),
            ep_attr: blocks.optional(ep_attr),
            domain_attr: blocks.optional(domain_attr),
            fabric_attr: blocks.optional(fabric_attr),
            nic: duplicate_nic(all.nic),
            ..all
        }
    };
    finish(blocks, copy)
}

/// A network interface knows itself how it is copied; one that cannot be is left out (`fi_nic(3)`).
///
/// # Safety
/// Null, or a `fid_nic`.
unsafe fn duplicate_nic(nic: *mut fid_nic) -> *mut fid_nic {
    // SAFETY: the caller's word.
    let Some(control) = (unsafe { nic.as_ref().and_then(|nic| nic.fid.ops.as_ref()?.control) }) else {
        return ptr::null_mut();
    };
    let mut copy: *mut fid_nic = ptr::null_mut();
    // SAFETY: FI_DUP takes the place of the new pointer.
    match unsafe { control(nic.cast(), FI_DUP, (&raw mut copy).cast()) } {
        0 => copy,
        _ => ptr::null_mut(),
    }
}

#[cfg(test)]
mod tests {
    use core::mem::zeroed;

    use super::*;
    use crate::hints;
    use crate::sys::{FI_EP_MSG, FI_MR_BASIC, FI_MSG, FI_SOCKADDR_IN};

    /// Memory of a size that ends where no memory is: a byte too far ends the test.
    struct Exact(*mut u8);

    const PAGE: usize = 4096;

    impl Exact {
        /// The first `size` bytes of `value`.
        fn new<T: heap::Plain>(value: T, size: usize) -> Self {
            let all = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: new pages; the first is written to up to its end, the second is not to be touched.
            unsafe {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let pages = libc::mmap(ptr::null_mut(), 2 * PAGE, all, flags, -1, 0).cast::<u8>();
                assert_ne!(pages.cast(), libc::MAP_FAILED);
                assert_eq!(libc::mprotect(pages.add(PAGE).cast(), PAGE, libc::PROT_NONE), 0);
                let place = pages.add(PAGE - size);
                ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), place, size);
                Self(pages)
            }
        }

        fn at<T>(&self, size: usize) -> *mut T {
            // SAFETY: within the pages.
            unsafe { self.0.add(PAGE - size) }.cast()
        }
    }

    impl Drop for Exact {
        fn drop(&mut self) {
            // SAFETY: made as such.
            unsafe { libc::munmap(self.0.cast(), 2 * PAGE) };
        }
    }

    const LAYOUTS: [InfoLayout; 8] = [
        InfoLayout::FABRIC_1_0,
        InfoLayout::FABRIC_1_1,
        InfoLayout::FABRIC_1_2,
        InfoLayout::FABRIC_1_3,
        InfoLayout::FABRIC_1_7,
        InfoLayout::FABRIC_1_8,
        InfoLayout::FABRIC_1_9,
        InfoLayout::FABRIC_1_10,
    ];

    /// Runs with an info whose structures are as large as they were, with every byte of theirs set.
    fn with_info(layout: &InfoLayout, test: impl FnOnce(*const fi_info)) {
        // SAFETY: numbers and pointers.
        let (mut domain, mut ep, mut tx, mut rx, mut fabric, mut info) = unsafe {
            let mut domain: fi_domain_attr = zeroed();
            (&raw mut domain).cast::<u8>().write_bytes(1, size_of::<fi_domain_attr>());
            let mut tx: fi_tx_attr = zeroed();
            (&raw mut tx).cast::<u8>().write_bytes(1, size_of::<fi_tx_attr>());
            (
                domain,
                zeroed::<fi_ep_attr>(),
                tx,
                zeroed::<fi_rx_attr>(),
                zeroed::<fi_fabric_attr>(),
                zeroed::<fi_info>(),
            )
        };
        domain.domain = ptr::null_mut();
        domain.name = c"lo".as_ptr().cast_mut();
        domain.auth_key = ptr::null_mut();
        domain.mr_mode = FI_MR_BASIC;
        ep.r#type = FI_EP_MSG;
        ep.auth_key = b"key".as_ptr().cast_mut();
        ep.auth_key_size = 3;
        tx.size = 7;
        rx.size = 8;
        fabric.prov_name = c"tcp".as_ptr().cast_mut();
        fabric.api_version = 0x10004;
        let domain = Exact::new(domain, layout.domain_attr);
        let ep = Exact::new(ep, layout.ep_attr);
        let tx = Exact::new(tx, layout.tx_attr);
        let rx = Exact::new(rx, layout.rx_attr);
        // C's structure was 32 bytes long with the last 4 unused.
        let fabric = Exact::new(fabric, 32);
        let address = address::bytes(&"192.0.2.1:5000".parse().unwrap());
        info.caps = FI_MSG;
        info.addr_format = FI_SOCKADDR_IN;
        info.src_addr = address.as_ptr().cast_mut().cast();
        info.src_addrlen = address.len();
        info.domain_attr = domain.at(layout.domain_attr);
        info.ep_attr = ep.at(layout.ep_attr);
        info.tx_attr = tx.at(layout.tx_attr);
        info.rx_attr = rx.at(layout.rx_attr);
        info.fabric_attr = fabric.at(32);
        let info = Exact::new(info, layout.info);
        test(info.at(layout.info));
    }

    #[test]
    fn copies_of_old_infos_have_zeros_for_what_they_lacked() {
        for layout in &LAYOUTS {
            with_info(layout, |info| {
                // SAFETY: an info in that layout; its copy is used and freed here.
                unsafe {
                    let copy = duplicate(info, layout);
                    let domain = (*copy).domain_attr.read();
                    let newest = layout == &InfoLayout::FABRIC_1_10;
                    assert_eq!(domain.max_xpu_ctx_cnt == 0, !newest, "{layout:?}");
                    assert_eq!(domain.tclass != 0, layout.domain_attr >= 192, "{layout:?}");
                    assert_eq!((*(*copy).tx_attr).tclass != 0, layout.tx_attr >= 80, "{layout:?}");
                    assert_eq!((*(*copy).fabric_attr).api_version == 0, layout.fabric_attr == 28);
                    assert!((*copy).nic.is_null());
                    let known = read(copy).unwrap();
                    assert_eq!(known.domain_attr.name, "lo");
                    assert_eq!(known.ep_attr.auth_key, if layout.ep_attr > 80 { &b"key"[..] } else { b"" });
                    assert_eq!(known.src_addr, Some("192.0.2.1:5000".parse().unwrap()));
                    // What is copied is the copy's own.
                    assert_ne!((*copy).src_addr, (*info).src_addr);
                    assert_ne!(domain.name.cast_const(), c"lo".as_ptr());
                    free(copy);
                }
            });
        }
    }

    #[test]
    fn old_hints_ask_for_what_they_have() {
        for layout in &LAYOUTS {
            with_info(layout, |info| {
                // SAFETY: hints in that layout.
                let old = unsafe { hints::read(Version::new(1, 4), info, layout) }.unwrap();
                assert_eq!(old.domain_attr.mr_mode, Some(MrMode::BASIC));
                assert_eq!(old.domain_attr.cntr_cnt, None, "no such hint before 1.5");
                assert_eq!(old.rx_attr.size, Some(8));
                // SAFETY: as above.
                let new = unsafe { hints::read(Version::new(1, 5), info, layout) }.unwrap();
                assert_eq!(new.domain_attr.cntr_cnt != Some(0), layout.domain_attr >= 184, "{layout:?}");
                assert_eq!(new.fabric_attr.api_version, Some(Version::new(1, 5)));
            });
        }
    }

    /// A program that was built with old headers and linked to this library asks the newest symbol.
    #[test]
    fn the_newest_symbol_takes_hints_of_the_version_asked_for() {
        for (version, layout) in [((1, 4), &InfoLayout::FABRIC_1_0), ((1, 17), &InfoLayout::FABRIC_1_3)] {
            with_info(layout, |hints| {
                let mut list = ptr::null_mut();
                let version = Version::new(version.0, version.1).raw();
                // SAFETY: hints of that time, and a place. These ask for what there is not.
                let answer = unsafe {
                    crate::exports::fi_getinfo_1_10(version, ptr::null(), ptr::null(), 0, hints, &mut list)
                };
                assert_eq!((answer, list.is_null()), (-kofi_core::Errno::ENODATA.raw(), true));
            });
        }
    }

    #[test]
    fn infos_round_trip() {
        let infos =
            kofi::getinfo(kofi::Hints::new().source("127.0.0.1:0".parse::<Address>().unwrap())).unwrap();
        let mut info = infos[0].clone();
        info.dest_addr = Some("[::1]:5000".parse().unwrap());
        info.addr_format = AddrFormat::SockaddrIp;
        info.ep_attr.auth_key = b"key".to_vec();
        info.ep_attr.auth_key_size = 3;
        let mut object = 0u64;
        info.handle = Some((&raw mut object).expose_provenance() as u64);
        let block = write(&info).unwrap();
        // SAFETY: an info that was just made; freed once.
        unsafe {
            assert_eq!(read(block.as_ptr()).unwrap(), info);
            assert_eq!((*block.as_ptr()).handle.cast::<u64>(), &raw mut object);
            let copy = duplicate(block.as_ptr(), &InfoLayout::FABRIC_1_10);
            assert_eq!(read(copy).unwrap(), info);
            free(copy);
            free(block.as_ptr());
        }
    }

    #[test]
    fn empty_infos_have_all_attributes() {
        let info = allocate();
        // SAFETY: an info that was just made; a program may replace parts of it and leave some out.
        unsafe {
            assert_eq!(read(info).unwrap(), Info::default());
            heap::free((*info).tx_attr);
            (*info).tx_attr = ptr::null_mut();
            (*(*info).domain_attr).name = libc::strdup(c"own".as_ptr());
            assert_eq!(read(info).unwrap().domain_attr.name, "own");
            free(info);
            free(ptr::null_mut());
        }
    }
}
