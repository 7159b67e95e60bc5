// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Calls that would use an object up, and failed: the object comes back with the reason.

use std::fmt;

use kofi_core::Error;

/// An object that a call would have used up, and why it did not.
pub struct Returned<T> {
    /// Why.
    pub error: Error,
    /// The object, as it was.
    pub object: T,
}

impl<T> Returned<T> {
    pub(crate) fn check(object: T, result: Result<(), Error>) -> Result<T, Self> {
        match result {
            Ok(()) => Ok(object),
            Err(error) => Err(Self { error, object }),
        }
    }
}

impl<T> fmt::Display for Returned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> fmt::Debug for Returned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> std::error::Error for Returned<T> {}

impl<T> From<Returned<T>> for Error {
    fn from(returned: Returned<T>) -> Self {
        returned.error
    }
}
