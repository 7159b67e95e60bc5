// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Memory regions (`fi_mr(3)`): what of a domain's memory peers can reach, by which key, and for what.
//!
//! A region's bytes are the driver's: an [`MrId`] stands for them from registration to close, and a
//! region of several pieces is one range to the machine. What a peer names is checked here, and
//! nowhere else, when its request arrives.

use alloc::vec::Vec;

use crate::domain::Domain;
use crate::endpoint::EpId;
use crate::event_queue::check_flags;
use crate::flags::{MrMode, OpFlags};
use crate::slab::{Key, Slab};
use crate::wire::WireError;
use crate::wire::header::{MAX_SEGMENTS, Segment, Segments};
use crate::{Error, Reason, Result};

/// Most pieces of a region (`domain_attr.mr_iov_limit`).
pub const IOV_LIMIT: usize = 4;

/// Names a memory region in its domain; the driver's key to its memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct MrId(pub(crate) Key);

impl MrId {
    /// Index into a dense table; used again once the region is closed.
    pub fn index(self) -> usize {
        self.0.index as usize
    }
}

/// A registration (`struct fi_mr_attr`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Registration {
    /// Bytes in all pieces.
    pub len: u64,
    /// Pieces.
    pub segments: usize,
    /// Virtual address of the first byte; counts only under `FI_MR_VIRT_ADDR`. Pieces behind the
    /// first one follow it there without a gap, wherever they are.
    pub address: u64,
    /// What it is for: `FI_SEND`, `FI_RECV`, `FI_READ`, `FI_WRITE`, `FI_REMOTE_READ`, `FI_REMOTE_WRITE`.
    pub access: OpFlags,
    /// The key; does not count under `FI_MR_PROV_KEY`.
    pub requested_key: u64,
}

#[derive(Clone, Copy, Debug)]
struct Region {
    key: u64,
    /// What peers call its first byte.
    base: u64,
    len: u64,
    access: OpFlags,
}

/// The regions of a domain.
#[derive(Default, Debug)]
pub(crate) struct Regions {
    mode: MrMode,
    table: Slab<Region>,
    /// Keys that peers can use, sorted. Regions that no peer may reach need none.
    keys: Vec<(u64, Key)>,
}

/// A piece of a region that a peer may reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) mr: MrId,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// What the segments of a record stand for.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Pieces([Option<Piece>; MAX_SEGMENTS]);

impl Pieces {
    pub(crate) fn iter(&self) -> impl Iterator<Item = Piece> + '_ {
        self.0.iter().copied().flatten()
    }

    pub(crate) fn len(&self) -> u64 {
        // The sum was checked when the record was parsed.
        self.iter().fold(0, |sum, piece| sum.saturating_add(piece.len))
    }

    pub(crate) fn reach(&self, mr: MrId) -> bool {
        self.iter().any(|piece| piece.mr == mr)
    }

    /// The pieces from byte `skip` on, the first of them perhaps in part.
    pub(crate) fn from(&self, skip: u64) -> impl Iterator<Item = Piece> + '_ {
        let mut skip = skip;
        self.iter().filter_map(move |piece| {
            let cut = skip.min(piece.len);
            skip -= cut;
            let rest = Piece { offset: piece.offset + cut, len: piece.len - cut, ..piece };
            (rest.len > 0).then_some(rest)
        })
    }
}

impl Regions {
    pub(crate) fn new(mode: MrMode) -> Self {
        Self { mode, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    fn find(&self, key: u64) -> Result<usize, usize> {
        self.keys.binary_search_by_key(&key, |&(key, _)| key)
    }

    fn register(&mut self, registration: &Registration, random: u64) -> Result<MrId> {
        const CALL: &str = "fi_mr_reg";
        const WHAT: &str = "a memory region";
        let Registration { len, segments, address, access, requested_key } = *registration;
        let local = OpFlags::SEND | OpFlags::RECV | OpFlags::READ | OpFlags::WRITE;
        let remote = OpFlags::REMOTE_READ | OpFlags::REMOTE_WRITE;
        check_flags(CALL, access, local | remote)?;
        if segments > IOV_LIMIT {
            let what = "domain_attr.mr_iov_limit";
            return Err(Error::TooManySegments { call: CALL, what, count: segments, limit: IOV_LIMIT });
        }
        let base = if self.mode.contains(MrMode::VIRT_ADDR) { address } else { 0 };
        if base.checked_add(len).is_none() {
            let problem = "the region runs over the end of the address space; register less at once";
            return Err(Error::Invalid { call: CALL, problem });
        }
        let mut key = requested_key;
        if self.mode.contains(MrMode::PROV_KEY) {
            key = random;
            while self.find(key).is_ok() {
                // Some key is free, and an odd step comes to it.
                key = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
            }
        }
        let region = Region { key, base, len, access };
        if !access.intersects(remote) {
            // fi_mr(3): a requested key "may be ignored" for these. They share keys with any other.
            return self.table.insert(region, WHAT).map(MrId);
        }
        let Err(place) = self.find(key) else { return Err(Error::KeyInUse { call: CALL, key }) };
        self.keys.try_reserve(1).map_err(|_| Error::NoMemory(WHAT))?;
        let id = self.table.insert(region, WHAT)?;
        self.keys.insert(place, (key, id));
        Ok(MrId(id))
    }

    fn close(&mut self, mr: MrId) {
        if let Some(region) = self.table.remove(mr.0)
            && let Ok(place) = self.find(region.key)
            && self.keys.get(place).is_some_and(|&(_, id)| id == mr.0)
        {
            self.keys.remove(place);
        }
    }

    /// What a segment stands for, if the peer may have that access to it.
    fn resolve(&self, segment: &Segment, access: OpFlags) -> Result<Piece, WireError> {
        let place = self.find(segment.key).map_err(|_| WireError::NoSuchMemory)?;
        let &(_, id) = self.keys.get(place).ok_or(WireError::NoSuchMemory)?;
        let region = self.table.get(id).ok_or(WireError::NoSuchMemory)?;
        if !region.access.contains(access) {
            return Err(WireError::MemoryAccess);
        }
        let offset = segment.addr.checked_sub(region.base).filter(|&offset| offset <= region.len);
        match offset {
            Some(offset) if segment.len <= region.len - offset => {
                Ok(Piece { mr: MrId(id), offset, len: segment.len })
            }
            _ => Err(WireError::MemoryRange { addr: segment.addr, len: segment.len }),
        }
    }

    pub(crate) fn resolve_all(&self, segments: &Segments, access: OpFlags) -> Result<Pieces, WireError> {
        let mut pieces = Pieces::default();
        for (piece, segment) in pieces.0.iter_mut().zip(segments.as_slice()) {
            *piece = Some(self.resolve(segment, access)?);
        }
        Ok(pieces)
    }
}

impl Domain {
    /// A domain with these rules of memory registration: `FI_MR_VIRT_ADDR`, `FI_MR_PROV_KEY`.
    #[must_use]
    pub fn with_mr_mode(mut self, mode: MrMode) -> Self {
        self.regions = Regions::new(mode);
        self
    }

    /// `fi_mr_regattr`. `random` becomes the key under `FI_MR_PROV_KEY`: who can guess it can reach
    /// the memory.
    ///
    /// # Errors
    /// -FI_ENOKEY when the key is in use; -FI_EBADFLAGS for an access that does not exist; -FI_EINVAL for
    /// too many pieces or a range over the end of the address space; -FI_ENOMEM.
    pub fn register(&mut self, registration: &Registration, random: u64) -> Result<MrId> {
        self.regions.register(registration, random)
    }

    /// `fi_mr_key`.
    ///
    /// # Errors
    /// -FI_EINVAL when the region is closed.
    pub fn mr_key(&self, mr: MrId) -> Result<u64> {
        let region = self.regions.table.get(mr.0);
        Ok(region.ok_or(Error::Stale { call: "fi_mr_key", object: "memory region" })?.key)
    }

    /// `fi_close` of a memory region. When this has returned no transfer touches its memory: a connection
    /// whose peer is in the middle of one ends, as it would have if the request had come now.
    ///
    /// # Errors
    /// -FI_EINVAL when it is closed already.
    pub fn close_mr(&mut self, mr: MrId) -> Result<()> {
        self.mr_key(mr).map_err(|_| Error::Stale { call: "fi_close", object: "memory region" })?;
        for index in 0..self.endpoints.places() {
            let Some(key) = self.endpoints.key_at(index) else { continue };
            if self.endpoints.get(key).is_some_and(|endpoint| endpoint.reaches(mr)) {
                self.end(EpId(key), Reason::RegionClosed);
            }
        }
        self.regions.close(mr);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Errno;
    use proptest::{collection::vec, prelude::*};

    fn registration(len: u64, requested_key: u64) -> Registration {
        let access = OpFlags::REMOTE_READ | OpFlags::REMOTE_WRITE;
        Registration { len, segments: 1, address: 0, access, requested_key }
    }

    fn segment(addr: u64, len: u64, key: u64) -> Segment {
        Segment { addr, len, key }
    }

    #[test]
    fn ranges_are_checked_to_the_byte() {
        for (mode, base) in
            [(MrMode::empty(), 0), (MrMode::VIRT_ADDR, 0x7000), (MrMode::VIRT_ADDR, u64::MAX - 100)]
        {
            let mut regions = Regions::new(mode);
            let mr = regions.register(&Registration { address: base, ..registration(100, 5) }, 0).unwrap();
            let access = OpFlags::REMOTE_READ;
            for (offset, len) in [(0, 0), (0, 100), (99, 1), (100, 0), (50, 50)] {
                let found = regions.resolve(&segment(base + offset, len, 5), access);
                assert_eq!(found, Ok(Piece { mr, offset, len }));
            }
            for (addr, len) in [
                (base, 101),
                (base + 100, 1),
                (base.wrapping_add(101), 0),
                (base.wrapping_sub(1), 1),
                (base, u64::MAX),
                (base + 1, u64::MAX),
                (u64::MAX, u64::MAX),
            ] {
                let found = regions.resolve(&segment(addr, len, 5), access);
                assert_eq!(found, Err(WireError::MemoryRange { addr, len }));
            }
            assert_eq!(regions.resolve(&segment(base, 1, 6), access), Err(WireError::NoSuchMemory));
        }
    }

    #[test]
    fn access_is_what_was_given() {
        let mut regions = Regions::default();
        let (read, write) = (OpFlags::REMOTE_READ, OpFlags::REMOTE_WRITE);
        for (key, access) in
            [(0, OpFlags::empty()), (1, read), (2, write), (3, OpFlags::READ | OpFlags::WRITE)]
        {
            regions.register(&Registration { access, ..registration(8, key) }, 0).unwrap();
            for wanted in [read, write] {
                let found = regions.resolve(&segment(0, 8, key), wanted).map(|_| ());
                // What no peer may reach has no key.
                let refused = match access.intersects(read | write) {
                    true => WireError::MemoryAccess,
                    false => WireError::NoSuchMemory,
                };
                assert_eq!(found, if access.contains(wanted) { Ok(()) } else { Err(refused) });
            }
        }
    }

    #[test]
    fn odd_registrations_are_refused() {
        let mut regions = Regions::new(MrMode::VIRT_ADDR);
        let refused =
            |regions: &mut Regions, registration| regions.register(&registration, 0).unwrap_err().errno();
        let good = registration(100, 1);
        let address = u64::MAX - 98;
        assert_eq!(refused(&mut regions, Registration { address, ..good }), Errno::EINVAL);
        assert_eq!(refused(&mut regions, Registration { segments: 5, ..good }), Errno::EINVAL);
        assert_eq!(refused(&mut regions, Registration { access: OpFlags::MSG, ..good }), Errno::EBADFLAGS);
        regions.register(&good, 0).unwrap();
        assert_eq!(refused(&mut regions, good), Errno::ENOKEY);
    }

    #[test]
    fn regions_of_no_peer_share_keys() {
        let mut regions = Regions::default();
        let local = Registration { access: OpFlags::SEND | OpFlags::RECV, ..registration(8, 7) };
        let found = |regions: &Regions| regions.resolve(&segment(0, 8, 7), OpFlags::REMOTE_READ);
        let one = regions.register(&local, 0).unwrap();
        assert_eq!(found(&regions), Err(WireError::NoSuchMemory));
        let remote = regions.register(&registration(8, 7), 0).unwrap();
        let two = regions.register(&local, 0).unwrap();
        // Closing one of them takes nobody else's key away.
        regions.close(one);
        regions.close(two);
        assert_eq!(found(&regions).map(|piece| piece.mr), Ok(remote));
        assert_eq!(regions.register(&registration(8, 7), 0).unwrap_err().errno(), Errno::ENOKEY);
    }

    #[test]
    fn chosen_keys_are_random_and_never_twice() {
        let mut regions = Regions::new(MrMode::PROV_KEY);
        let keys: Vec<u64> = [7, 7, 7, 9]
            .map(|random| {
                let mr = regions.register(&registration(8, 1), random).unwrap();
                regions.table.get(mr.0).unwrap().key
            })
            .into();
        assert_eq!((keys[0], keys[3]), (7, 9));
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[..at].contains(key), "{keys:x?}");
        }
    }

    #[test]
    fn pieces_go_on_anywhere() {
        let mut regions = Regions::default();
        let (a, b) = (
            regions.register(&registration(100, 1), 0).unwrap(),
            regions.register(&registration(9, 2), 0).unwrap(),
        );
        let list = [segment(10, 5, 1), segment(3, 0, 2), segment(0, 9, 2), segment(90, 10, 1)];
        let pieces = regions.resolve_all(&Segments::new(&list).unwrap(), OpFlags::REMOTE_READ).unwrap();
        assert_eq!(pieces.len(), 24);
        assert!(pieces.reach(a) && pieces.reach(b));
        let bytes = |skip| -> Vec<(MrId, u64)> {
            pieces.from(skip).flat_map(|p| (p.offset..p.offset + p.len).map(move |at| (p.mr, at))).collect()
        };
        let all = bytes(0);
        for skip in 0..=24 {
            assert_eq!(bytes(skip), all[skip as usize..]);
        }
    }

    proptest! {
        #[test]
        fn the_table_is_a_map(actions in vec((0..6u64, any::<bool>()), 0..60)) {
            let mut regions = Regions::default();
            let mut model: Vec<(u64, MrId)> = Vec::new();
            for (key, close) in actions {
                let known = model.iter().position(|&(known, _)| known == key);
                match (close, known) {
                    (true, Some(at)) => regions.close(model.swap_remove(at).1),
                    (true, None) => {}
                    (false, known) => {
                        let found = regions.register(&registration(key, key), 0);
                        prop_assert_eq!(found.is_ok(), known.is_none());
                        model.extend(found.map(|mr| (key, mr)));
                    }
                }
                prop_assert_eq!(regions.len(), model.len());
                for key in 0..6 {
                    let found = regions.resolve(&segment(0, key, key), OpFlags::REMOTE_READ).map(|piece| piece.mr);
                    let wanted = model.iter().find(|&&(known, _)| known == key).map(|&(_, mr)| mr);
                    prop_assert_eq!(found.ok(), wanted);
                }
            }
        }
    }
}
