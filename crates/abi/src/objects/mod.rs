// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Objects as C sees them, one file for each class: what is public of it in front, kofi's object behind.
//!
//! C hands over plain pointers. An object is known by its class and by its table of operations, which no other
//! library has; null and objects of other classes are -FI_EINVAL. What the manual pages call undefined, to use
//! what is closed or to close what another thread uses, is undefined here, too.
//!
//! Calls decide nothing: they translate. The rules are those of kofi's objects.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;

use kofi_core::{Error, Result};

use crate::boundary::{Broken, boundary, negative};
use crate::sys::{fi_ops, fid};

mod absent;
mod cntr;
mod cq;
mod domain;
mod ep;
mod eq;
pub mod fabric;
mod memory;
mod mr;
mod msg;
mod name;
mod option;
mod pep;
mod poll;
mod process;
mod request;
mod rma;
mod srx;
mod wait;

use process::Process;

/// What is behind the public part of a class of objects.
///
/// # Safety
/// `Public` begins with a [`fid`].
unsafe trait Class: Send + Sync {
    /// `struct fid_cq` and the like.
    type Public;
    /// `FI_CLASS_CQ` and the like.
    const CLASS: usize;
    /// What errors call it.
    const NAME: &'static str;
    /// Its operations as an object. One place in memory, by which it is known.
    fn table() -> &'static fi_ops;
}

/// An object.
#[repr(C)]
struct Object<T: Class> {
    /// The application may look at it, and change the context in it.
    public: UnsafeCell<T::Public>,
    process: Process,
    inner: T,
}

impl<T: Class> core::ops::Deref for Object<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: Class> Object<T> {
    /// Its public part, as C has it.
    fn public(&self) -> *mut T::Public {
        self.public.get()
    }

    /// What the application calls it, as it is now.
    fn context(&self) -> *mut c_void {
        // SAFETY: a fid is in front; the application may change its context, between calls.
        unsafe { (*self.public().cast::<fid>()).context }
    }

    /// An object for C, until it is [freed](free).
    fn make(process: Process, public: T::Public, inner: T) -> *mut T::Public {
        Box::into_raw(Box::new(Self { public: UnsafeCell::new(public), process, inner })).cast()
    }

    /// Hands an object over to C.
    fn give(place: &mut *mut T::Public, process: Process, public: T::Public, inner: T) {
        *place = Self::make(process, public, inner);
    }
}

/// An object that stays open for as long as whoever has this: its close is refused.
struct Held<T: Class>(*const Object<T>);

// SAFETY: what is behind the public part may be used from any thread, and of that only the context is read.
unsafe impl<T: Class> Send for Held<T> {}
// SAFETY: as above.
unsafe impl<T: Class> Sync for Held<T> {}

impl<T: Class> Clone for Held<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Class> Copy for Held<T> {}

impl<T: Class> Held<T> {
    fn new(object: &Object<T>) -> Self {
        Self(object)
    }

    fn get(&self) -> &Object<T> {
        // SAFETY: it is open.
        unsafe { &*self.0 }
    }
}

/// The fid of a new object.
fn new_fid<T: Class>(context: *mut c_void) -> fid {
    fid { fclass: T::CLASS, context, ops: T::table() }
}

/// Whether C's pointer is to an object of this class.
///
/// # Safety
/// It is null or to an object that is open, of this library or another one.
unsafe fn is<T: Class>(pointer: *const fid) -> bool {
    // SAFETY: see above.
    !pointer.is_null() && unsafe { (*pointer).fclass == T::CLASS && ptr::eq((*pointer).ops, T::table()) }
}

/// The object that C's pointer is to.
///
/// # Errors
/// -FI_EINVAL when it is none of this class, -FI_EOPBADSTATE when it was opened before fork(2).
///
/// # Safety
/// As for [`is`]; the object stays open for as long as it is used.
#[inline]
unsafe fn object<'a, T: Class, P>(call: &'static str, pointer: *const P) -> Result<&'a Object<T>> {
    let pointer = pointer.cast::<fid>();
    // SAFETY: see above.
    if !unsafe { is::<T>(pointer) } {
        return Err(Error::Stale { call, object: T::NAME });
    }
    // SAFETY: it was made by `give`, and is open.
    let object = unsafe { &*pointer.cast::<Object<T>>() };
    object.process.check()?;
    Ok(object)
}

/// Where C wants a value.
///
/// # Errors
/// -FI_EINVAL for null.
///
/// # Safety
/// It is null, or a value of that type can be written there, during the call.
unsafe fn place<'a, P>(call: &'static str, pointer: *mut P) -> Result<&'a mut P> {
    // SAFETY: see above.
    unsafe { pointer.as_mut() }.ok_or(Error::Invalid { call, problem: "null where a result is to be stored" })
}

/// Bytes that C hands over.
///
/// # Errors
/// -FI_EINVAL for null with a length, and for a length that no memory has.
///
/// # Safety
/// It is null, or so many bytes can be read there during the call.
#[inline]
unsafe fn bytes<'a>(call: &'static str, pointer: *const c_void, len: usize) -> Result<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    memory::check(call, pointer, len, false)?;
    // SAFETY: see above.
    Ok(unsafe { core::slice::from_raw_parts(pointer.cast(), len) })
}

/// The text of an error number, for `fi_eq_strerror` and `fi_cq_strerror`: as much as there is room for.
///
/// # Safety
/// `buf` is null, or `len` bytes can be written there.
unsafe fn text(number: c_int, buf: *mut c_char, len: usize) -> *const c_char {
    boundary(|| {
        let text = crate::strerror::strerror(number);
        let Some(last) = len.checked_sub(1).filter(|_| !buf.is_null()) else { return text };
        // SAFETY: the text ends with its zero; the rest see above.
        unsafe {
            let len = last.min(CStr::from_ptr(text).count_bytes());
            ptr::copy_nonoverlapping(text, buf, len);
            *buf.add(len) = 0;
        }
        buf.cast_const()
    })
}

/// The end of an object: its memory is freed.
///
/// # Safety
/// C's pointer to an object of this class, which nobody uses any more.
unsafe fn free<T: Class>(pointer: *mut fid) {
    // SAFETY: `make` made it of a box.
    drop(unsafe { Box::from_raw(pointer.cast::<Object<T>>()) });
}

/// The number that stands for an error, which a log is told of.
#[cold]
fn refused(error: &Error) -> c_int {
    if !matches!(error, Error::Empty | Error::ErrorAvailable | Error::Full { .. }) {
        tracing::debug!(target: "kofi::call", "{error}");
    }
    negative(error)
}

/// What a call gives back.
trait Answer: Broken {
    fn failed(number: c_int) -> Self;
    fn done(value: usize) -> Self;
}

impl Answer for c_int {
    fn failed(number: c_int) -> Self {
        number
    }

    fn done(value: usize) -> Self {
        Self::try_from(value).unwrap_or(Self::MAX)
    }
}

impl Answer for isize {
    fn failed(number: c_int) -> Self {
        number as Self
    }

    fn done(value: usize) -> Self {
        Self::try_from(value).unwrap_or(Self::MAX)
    }
}

/// Runs a call: 0 or its error.
#[inline]
fn status<A: Answer>(body: impl FnOnce() -> Result<()>) -> A {
    count(|| body().map(|()| 0))
}

/// Runs fi_cancel. For C programs it is 0 also where there was nothing to cancel, as with stock's tcp.
fn cancel(body: impl FnOnce() -> Result<()>) -> isize {
    status(|| match body() {
        Err(Error::NoSuchOperation { .. }) => Ok(()),
        other => other,
    })
}

/// Runs a call: a number or its error.
#[inline]
fn count<A: Answer>(body: impl FnOnce() -> Result<usize>) -> A {
    boundary(|| match body() {
        Ok(value) => A::done(value),
        Err(error) => A::failed(refused(&error)),
    })
}
