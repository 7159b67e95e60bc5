// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The poll set (`fi_poll(3)`): which of its queues and counters have something to tell.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kofi::provider::{CompletionQueueOps, CounterOps};
use kofi_core::{Error, Result};
use smallvec::SmallVec;

use super::cntr::Cntr;
use super::cq::Cq;
use super::domain::Domain;
use super::{Class, Held, Object, absent, count, free, is, new_fid, object, place, status};
use crate::sys::*;

pub(super) struct Poll {
    domain: Held<Domain>,
    members: Mutex<Vec<Member>>,
}

#[derive(Clone, Copy)]
enum Member {
    Cq(Held<Cq>),
    Cntr(Held<Cntr>),
}

impl Member {
    /// # Safety
    /// The caller's object.
    unsafe fn of(call: &'static str, fid: *mut fid) -> Result<Self> {
        // SAFETY: see above.
        unsafe {
            match is::<Cq>(fid) {
                true => object::<Cq, _>(call, fid).map(|cq| Self::Cq(Held::new(cq))),
                false => object::<Cntr, _>(call, fid).map(|cntr| Self::Cntr(Held::new(cntr))),
            }
        }
    }

    fn is(self, other: Self) -> bool {
        match (self, other) {
            (Self::Cq(one), Self::Cq(two)) => ptr::eq(one.get(), two.get()),
            (Self::Cntr(one), Self::Cntr(two)) => ptr::eq(one.get(), two.get()),
            _ => false,
        }
    }

    fn polls(&self) -> &AtomicUsize {
        match self {
            Self::Cq(cq) => &cq.get().polls,
            Self::Cntr(cntr) => &cntr.get().polls,
        }
    }

    /// What is to be looked at, and what the application calls it.
    fn shown(&self) -> (Shown, *mut c_void) {
        match self {
            Self::Cq(cq) => (Shown::Cq(cq.get().ops().clone()), cq.get().context()),
            Self::Cntr(cntr) => (Shown::Cntr(cntr.get().ops().clone()), cntr.get().context()),
        }
    }
}

/// A member that is looked at. Looking makes progress, and that calls the log that the application may have put in the place
/// of ours, which may call us: so it happens without the set's lock, and the member may leave the set meanwhile, and be closed.
enum Shown {
    Cq(Arc<dyn CompletionQueueOps>),
    Cntr(Arc<dyn CounterOps>),
}

impl Shown {
    /// Whether it has something to tell.
    fn is_ready(&self) -> bool {
        match self {
            Self::Cq(cq) => cq.is_ready(),
            Self::Cntr(cntr) => cntr.is_ready(),
        }
    }
}

impl Poll {
    fn members(&self) -> MutexGuard<'_, Vec<Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// SAFETY: a `fid_poll` begins with a fid.
unsafe impl Class for Poll {
    type Public = fid_poll;
    const CLASS: usize = FI_CLASS_POLL;
    const NAME: &'static str = "poll set";

    fn table() -> &'static fi_ops {
        static TABLE: fi_ops = fi_ops { close: Some(close), ..absent::FID };
        &TABLE
    }
}

static OPS: fi_ops_poll = fi_ops_poll { size: size_of::<fi_ops_poll>(), poll, poll_add, poll_del };

/// Refuses to close what poll sets look at.
///
/// # Errors
/// -FI_EBUSY.
pub(super) fn check_close(object: &'static str, polls: usize) -> Result<()> {
    match polls {
        0 => Ok(()),
        _ => Err(Error::Busy { call: "fi_close", object, users: format!("{polls} poll sets") }),
    }
}

pub(super) unsafe extern "C" fn poll_open(
    domain: *mut fid_domain,
    attr: *mut fi_poll_attr,
    set: *mut *mut fid_poll,
) -> c_int {
    const CALL: &str = "fi_poll_open";
    status(|| {
        // SAFETY: the caller's object, its attributes or null, and its place.
        let (domain, attr, place) =
            unsafe { (object::<Domain, _>(CALL, domain)?, attr.as_ref(), place(CALL, set)?) };
        if let Some(attr) = attr.filter(|attr| attr.flags != 0) {
            return Err(Error::BadFlags { call: CALL, found: attr.flags, allowed: 0 });
        }
        domain.polls.fetch_add(1, Ordering::Relaxed);
        let public = fid_poll { fid: new_fid::<Poll>(ptr::null_mut()), ops: &OPS };
        Object::give(
            place,
            domain.process,
            public,
            Poll { domain: Held::new(domain), members: Mutex::default() },
        );
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    const CALL: &str = "fi_close";
    status(|| {
        // SAFETY: the caller's object.
        let set = unsafe { object::<Poll, _>(CALL, fid)? };
        let members = set.members().len();
        if members > 0 {
            let users = format!("{members} queues or counters");
            return Err(Error::Busy { call: CALL, object: Poll::NAME, users });
        }
        set.domain.get().polls.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the caller gives it up.
        unsafe { free::<Poll>(fid) };
        Ok(())
    })
}

unsafe extern "C" fn poll(set: *mut fid_poll, contexts: *mut *mut c_void, most: c_int) -> c_int {
    const CALL: &str = "fi_poll";
    count(|| {
        // SAFETY: the caller's object.
        let set = unsafe { object::<Poll, _>(CALL, set)? };
        let most = usize::try_from(most).ok().filter(|&most| most == 0 || !contexts.is_null());
        let problem = "no array for contexts, or a negative length";
        let most = most.ok_or(Error::Invalid { call: CALL, problem })?;
        let members: SmallVec<[_; 8]> = set.members().iter().map(Member::shown).collect();
        let mut count = 0;
        let ready = members.iter().filter(|(member, _)| member.is_ready());
        for &(_, context) in ready.take(most) {
            // SAFETY: the array has `most` places.
            unsafe { contexts.add(count).write(context) };
            count += 1;
        }
        Ok(count)
    })
}

unsafe extern "C" fn poll_add(set: *mut fid_poll, fid: *mut fid, flags: u64) -> c_int {
    const CALL: &str = "fi_poll_add";
    status(|| {
        // SAFETY: the caller's objects.
        let (set, member) = unsafe { (object::<Poll, _>(CALL, set)?, Member::of(CALL, fid)?) };
        if flags != 0 {
            return Err(Error::BadFlags { call: CALL, found: flags, allowed: 0 });
        }
        let mut members = set.members();
        if !members.iter().any(|known| known.is(member)) {
            member.polls().fetch_add(1, Ordering::Relaxed);
            members.push(member);
        }
        Ok(())
    })
}

unsafe extern "C" fn poll_del(set: *mut fid_poll, fid: *mut fid, flags: u64) -> c_int {
    const CALL: &str = "fi_poll_del";
    status(|| {
        // SAFETY: the caller's objects.
        let (set, member) = unsafe { (object::<Poll, _>(CALL, set)?, Member::of(CALL, fid)?) };
        if flags != 0 {
            return Err(Error::BadFlags { call: CALL, found: flags, allowed: 0 });
        }
        let mut members = set.members();
        let at = members.iter().position(|known| known.is(member));
        let at = at.ok_or(Error::Invalid { call: CALL, problem: "it is not in this poll set" })?;
        members.swap_remove(at);
        member.polls().fetch_sub(1, Ordering::Relaxed);
        Ok(())
    })
}
