// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The memory region (`fi_mr(3)`): the caller's memory, that peers reach under the domain's lock.

use alloc::sync::Arc;
use core::ffi::c_int;

use kofi_core::flags::OpFlags;
use kofi_core::memory::Registration;
use kofi_core::{MrId, MrMode, Result};

use crate::c;
use crate::domain::Domain;
use crate::error;
use crate::memory::Pieces;
use crate::sys::{self, Class, Counted};

pub(crate) struct MemoryRegion {
    domain: Arc<Domain>,
    id: MrId,
    key: u64,
    base: u64,
    _counted: Counted,
}

impl MemoryRegion {
    fn open(domain: Arc<Domain>, attr: &c::MrAttr) -> Result<Arc<Self>> {
        let mut pieces = Pieces::default();
        let len = pieces.set("fi_mr_regattr", &attr.memory)?;
        let address = pieces.address();
        // A list of pages is one piece to the machine, whose own limit is for what applications write by hand.
        let (segments, access) = (1, OpFlags::from_bits_retain(attr.access));
        let registration = Registration { len, segments, address, access, requested_key: attr.requested_key };
        let base = if domain.mr_mode.contains(MrMode::VIRT_ADDR) { address } else { 0 };
        let random = sys::random();
        let mut state = domain.lock();
        let id = state.machine.register(&registration, random)?;
        let made = (|| {
            let key = state.machine.mr_key(id)?;
            state.put_region(id, &mut pieces)?;
            let counted = Counted::new(Class::MemoryRegion);
            c::share(Self { domain: domain.clone(), id, key, base, _counted: counted }, "a memory region")
        })();
        if made.is_err() {
            state.close_region(id);
        }
        made
    }
}

#[unsafe(no_mangle)]
extern "C" fn kofi_mr_reg(
    domain: *const Domain,
    attr: *const c::MrAttr,
    mr: *mut *const MemoryRegion,
) -> c_int {
    const CALL: &str = "fi_mr_regattr";
    error::result((|| {
        let domain = Domain::given(CALL, domain)?;
        let place = c::place(CALL, mr)?;
        c::give(place, MemoryRegion::open(domain, c::borrow(CALL, attr)?)?);
        Ok(())
    })())
}

/// `FI_KEY_NOTAVAIL` for a region that is none.
#[unsafe(no_mangle)]
extern "C" fn kofi_mr_key(mr: *const MemoryRegion) -> u64 {
    c::borrow("fi_mr_key", mr).map_or(u64::MAX, |mr| mr.key)
}

#[unsafe(no_mangle)]
extern "C" fn kofi_mr_base(mr: *const MemoryRegion) -> u64 {
    c::borrow("fi_mr_key", mr).map_or(0, |mr| mr.base)
}

#[unsafe(no_mangle)]
extern "C" fn kofi_mr_close(mr: *const MemoryRegion) -> c_int {
    error::result((|| {
        let region = c::borrow("fi_close", mr)?;
        region.domain.lock().close_region(region.id);
        // SAFETY: the caller's handle, which it gives up.
        unsafe { c::take_back(mr) };
        Ok(())
    })())
}
