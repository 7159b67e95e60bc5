// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What is shown in debugfs, and told to who debugs.

use core::ffi::{c_char, c_void};
use core::fmt::{self, Display, Write};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::raw;
use crate::text::Room;

/// An object that can be looked at: a file of lines, each of which has a number.
pub(crate) trait Show: Send + Sync {
    /// The first line from that number on.
    fn next(&self, from: u64) -> Option<u64>;

    /// Writes it, if it is still there.
    fn show(&self, line: u64, out: &mut dyn Write);
}

/// A file, or a directory, of debugfs; at first none.
pub(crate) struct Shown(AtomicPtr<raw::Shown>);

/// What a file's reader gets.
struct Out(*mut raw::SeqFile);

impl Write for Out {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: the file is there while `walk` runs; the text is what pointer and length say.
        unsafe { raw::kofi_shim_show_text(self.0, text.as_ptr(), text.len()) };
        Ok(())
    }
}

unsafe extern "C" fn walk<T: Show>(context: *mut c_void, line: u64, file: *mut raw::SeqFile) -> u64 {
    // SAFETY: `Shown::file` was promised that the object is there until it is hidden, which waits for this.
    let object = unsafe { &*context.cast::<T>() };
    if file.is_null() {
        return object.next(line).unwrap_or(u64::MAX);
    }
    object.show(line, &mut Out(file));
    line
}

impl Shown {
    pub(crate) const fn none() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// Makes it a directory of the module's. What there is no memory for is not shown.
    pub(crate) fn directory(&self, name: fmt::Arguments<'_>) {
        self.make(None, name, None, null_mut());
    }

    /// Makes it a file in `directory` that shows `object`.
    ///
    /// # Safety
    /// The object is there, and where it is, until this is hidden or dropped.
    pub(crate) unsafe fn file<T: Show>(&self, directory: &Self, name: fmt::Arguments<'_>, object: *const T) {
        self.make(Some(directory), name, Some(walk::<T>), object.cast_mut().cast());
    }

    fn make(
        &self,
        parent: Option<&Self>,
        name: fmt::Arguments<'_>,
        walk: Option<raw::Walk>,
        context: *mut c_void,
    ) {
        let parent = match parent.map(|parent| parent.0.load(Ordering::SeqCst)) {
            // Not in the module's own.
            Some(parent) if parent.is_null() => return,
            parent => parent.unwrap_or(null_mut()),
        };
        let mut text = super::Text::<32>::new();
        let _ = text.write_fmt(name);
        let text = text.as_str();
        // SAFETY: the parent is there for longer than what is in it; the text is what pointer and length say; and `walk` takes what it is
        // given for an object of its type.
        let made = unsafe { raw::kofi_shim_show(parent, text.as_ptr(), text.len(), walk, context) };
        self.0.store(made, Ordering::SeqCst);
    }

    /// From here on nobody looks. Not to be called under a lock that [`Show`] takes.
    pub(crate) fn hide(&self) {
        let shown = self.0.swap(null_mut(), Ordering::SeqCst);
        if !shown.is_null() {
            // SAFETY: it was made, and nobody else has taken it.
            unsafe { raw::kofi_shim_hide(shown) };
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.hide();
    }
}

unsafe extern "C" fn describe(context: *mut c_void, text: *mut c_char, len: usize) -> *const c_char {
    // SAFETY: what `tell` gives, for the call.
    let what = unsafe { *context.cast::<&dyn Display>() };
    // SAFETY: the shim's room, its own for the call.
    let room = unsafe { core::slice::from_raw_parts_mut(text.cast::<u8>(), len) };
    let mut room = Room::new(room);
    let _ = write!(room, "{what}");
    room.finish();
    text
}

/// A line about connections, for who debugs. It is put together only if it is wanted.
pub(crate) fn tell_connection(mut what: &dyn Display) {
    // SAFETY: `describe` is called before this returns, if at all.
    unsafe { raw::kofi_shim_tell_connection(describe, (&raw mut what).cast()) };
}

/// Why a call was refused, or came to nothing.
pub(crate) fn tell_refusal(mut what: &dyn Display) {
    // SAFETY: as above.
    unsafe { raw::kofi_shim_tell_refusal(describe, (&raw mut what).cast()) };
}
