// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Borrowed memory for operations, in blocking code: [`Endpoint::scope`].
//!
//! With [`foreign`](crate::foreign), which is for C programs, this is the crate's only unsafe code. It rests on one
//! rule: a [`Lent`] has the memory as long as it exists, and [`Endpoint::scope`] does not return, nor let a panic
//! pass, before the last one is gone.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use kofi_core::Result;
use kofi_core::flags::OpFlags;
use kofi_core::wire::header::Segment;

use crate::buffer::Buffers;
use crate::endpoint::Endpoint;
use crate::provider::{EndpointOps, Message, Receive};
use crate::wait::lock;

/// What a scope has lent and not got back: counted, and waited for.
#[derive(Clone, Debug, Default)]
pub struct Loans(Arc<Count>);

#[derive(Debug, Default)]
struct Count {
    lent: Mutex<usize>,
    none: Condvar,
}

impl Loans {
    pub(crate) fn outstanding(&self) -> usize {
        *lock(&self.0.lent)
    }

    fn wait(&self) {
        let mut lent = lock(&self.0.lent);
        while *lent > 0 {
            lent = self.0.none.wait(lent).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Memory that an operation uses and does not own. Users never get one: completions come without it.
pub(crate) struct Lent(Arc<Loan>);

struct Loan {
    memory: NonNull<[u8]>,
    writable: bool,
    loans: Loans,
    back: AtomicBool,
}

// SAFETY: the memory is a `[u8]`, which may be used from any thread. It comes from a `&[u8]`, of which
// all uses are reads, or from a `&mut [u8]`, which the only `Lent` uses until `back`, and then the only
// `Borrowed`.
unsafe impl Send for Loan {}
// SAFETY: as above.
unsafe impl Sync for Loan {}

impl Lent {
    /// # Safety
    /// The memory must stay until `loans` are back, and, if it is writable, nobody else may touch it
    /// before this one is dropped.
    unsafe fn new(memory: NonNull<[u8]>, writable: bool, loans: &Loans) -> Self {
        *lock(&loans.0.lent) += 1;
        Self(Arc::new(Loan { memory, writable, loans: loans.clone(), back: AtomicBool::new(false) }))
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: see `new`; the slice lives no longer than `self`, which keeps the loan.
        unsafe { self.0.memory.as_ref() }
    }

    pub(crate) fn as_mut_slice(&mut self) -> Option<&mut [u8]> {
        let mut memory = self.0.memory;
        match self.0.writable {
            // SAFETY: see `new`; `self` is borrowed mutably, and is the only one that uses this memory.
            true => Some(unsafe { memory.as_mut() }),
            false => None,
        }
    }

    pub(crate) fn is_of(&self, loans: &Loans) -> bool {
        Arc::ptr_eq(&self.0.loans.0, &loans.0)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Acquired in `Borrowed::take`.
        self.0.back.store(true, Ordering::Release);
        let count = &self.0.loans.0;
        let mut lent = lock(&count.lent);
        *lent -= 1;
        if *lent == 0 {
            count.none.notify_all();
        }
    }
}

/// Posts operations on memory that is borrowed: see [`Endpoint::scope`].
pub struct Scope<'env> {
    ops: &'env Arc<dyn EndpointOps>,
    loans: Loans,
    /// Neither a longer nor a shorter lifetime will do.
    env: PhantomData<fn(&'env ()) -> &'env ()>,
}

/// Memory that was lent to be written to.
#[must_use = "it comes back at the end of the scope, too"]
pub struct Borrowed<'env>(Arc<Loan>, PhantomData<&'env mut [u8]>);

impl<'env> Borrowed<'env> {
    /// The memory, once its operation's completion was read. Before that it is not there to be had.
    ///
    /// # Errors
    /// While the operation may still use it: `self`.
    pub fn take(self) -> Result<&'env mut [u8], Self> {
        let mut memory = self.0.memory;
        match self.0.back.load(Ordering::Acquire) {
            // SAFETY: its `Lent` is gone, so nobody else has the memory, which was borrowed for 'env;
            // and `self` goes with it.
            true => Ok(unsafe { memory.as_mut() }),
            false => Err(self),
        }
    }
}

impl std::fmt::Debug for Borrowed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} borrowed bytes", self.0.memory.len())
    }
}

impl<'env> Scope<'env> {
    /// [`Endpoint::send`] of borrowed memory. Its completion has no buffers.
    ///
    /// # Errors
    /// As for [`Endpoint::send`].
    pub fn send(&self, bytes: &'env [u8], context: u64) -> Result<()> {
        let buffers = self.lend(bytes);
        Ok(self.ops.send(Message { buffers, context, ..Message::default() })?)
    }

    /// [`Endpoint::recv`] into borrowed memory. Its completion has no buffers: [`Borrowed::take`] gives
    /// the memory back.
    ///
    /// # Errors
    /// As for [`Endpoint::recv`].
    pub fn recv(&self, memory: &'env mut [u8], context: u64) -> Result<Borrowed<'env>> {
        let (buffers, borrowed) = self.lend_mut(memory);
        self.ops.recv(Receive { buffers, flags: OpFlags::empty(), context })?;
        Ok(borrowed)
    }

    /// [`Endpoint::write`] of borrowed memory. Its completion has no buffers.
    ///
    /// # Errors
    /// As for [`Endpoint::write`].
    pub fn write(&self, bytes: &'env [u8], addr: u64, key: u64, context: u64) -> Result<()> {
        let remote = Segment { addr, len: bytes.len() as u64, key };
        let buffers = self.lend(bytes);
        Ok(self.ops.write(Message { buffers, context, ..Message::default() }, &[remote])?)
    }

    /// [`Endpoint::read`] into borrowed memory. Its completion has no buffers: [`Borrowed::take`] gives
    /// the memory back.
    ///
    /// # Errors
    /// As for [`Endpoint::read`].
    pub fn read(&self, memory: &'env mut [u8], addr: u64, key: u64, context: u64) -> Result<Borrowed<'env>> {
        let remote = Segment { addr, len: memory.len() as u64, key };
        let (buffers, borrowed) = self.lend_mut(memory);
        self.ops.read(Receive { buffers, flags: OpFlags::empty(), context }, &[remote])?;
        Ok(borrowed)
    }

    fn lend(&self, bytes: &'env [u8]) -> Buffers {
        // SAFETY: the memory is borrowed for 'env, which outlives the call of `Endpoint::scope` that
        // waits for the loan; nobody writes to it.
        Buffers::lent(unsafe { Lent::new(NonNull::from(bytes), false, &self.loans) })
    }

    fn lend_mut(&self, memory: &'env mut [u8]) -> (Buffers, Borrowed<'env>) {
        let memory = NonNull::from(memory);
        // SAFETY: as above; the borrow is mutable, and given up to the `Borrowed`, which gives it to
        // nobody before the loan is back.
        let lent = unsafe { Lent::new(memory, true, &self.loans) };
        let borrowed = Borrowed(lent.0.clone(), PhantomData);
        (Buffers::lent(lent), borrowed)
    }
}

impl std::fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").field("outstanding", &self.loans.outstanding()).finish()
    }
}

/// Has the loans given back, also after a panic.
struct End<'a> {
    ops: &'a dyn EndpointOps,
    loans: Loans,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        /// Waits, also when the provider panics.
        struct Wait<'a>(&'a Loans);

        impl Drop for Wait<'_> {
            fn drop(&mut self) {
                self.0.wait();
            }
        }

        let wait = Wait(&self.loans);
        if wait.0.outstanding() > 0 {
            self.ops.end_loans(wait.0);
        }
    }
}

impl Endpoint {
    /// Runs `f`, which may post operations on memory that it only borrows. Completions are read from
    /// the endpoint's queues as always; they come without buffers.
    ///
    /// When `f` returns, or panics, what still uses borrowed memory is brought to its end: receives
    /// that no message has reached are cancelled, the rest is waited for, as long as a shutdown of the
    /// endpoint may take ([`TimeLimits`](crate::TimeLimits)). After that the endpoint is closed, since
    /// nothing else stops a transfer. Completions that nobody has read stay in the queue.
    ///
    /// ```
    /// # fn f(endpoint: kofi::Endpoint, cq: kofi::CompletionQueue) -> kofi::Result<()> {
    /// let question = String::from("how long is this?");
    /// let mut answer = [0; 64];
    /// let len = endpoint.scope(|scope| {
    ///     scope.recv(&mut answer, 1)?;
    ///     scope.send(question.as_bytes(), 2)?;
    ///     loop {
    ///         let done = cq.wait(None)?.ok()?;
    ///         if done.is_receive() {
    ///             return Ok::<_, kofi::Error>(done.len);
    ///         }
    ///     }
    /// })?;
    /// println!("{:?}", &answer[..len]);
    /// # Ok(()) }
    /// ```
    ///
    /// What is lent must be there before the scope is:
    ///
    /// ```compile_fail,E0597
    /// # fn f(endpoint: kofi::Endpoint) -> kofi::Result<()> {
    /// endpoint.scope(|scope| {
    ///     let answer = vec![0; 64];
    ///     scope.send(&answer, 1)
    /// })
    /// # }
    /// ```
    ///
    /// And it is not there while it is lent:
    ///
    /// ```compile_fail,E0506
    /// # fn f(endpoint: kofi::Endpoint) -> kofi::Result<()> {
    /// let mut answer = [0; 64];
    /// endpoint.scope(|scope| {
    ///     let borrowed = scope.recv(&mut answer, 1)?;
    ///     answer[0] = 1;
    ///     drop(borrowed);
    ///     Ok(())
    /// })
    /// # }
    /// ```
    pub fn scope<'env, T>(&'env self, f: impl FnOnce(&Scope<'env>) -> T) -> T {
        let loans = Loans::default();
        let _end = End { ops: &**self.ops(), loans: loans.clone() };
        f(&Scope { ops: self.ops(), loans, env: PhantomData })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_when_the_loan_does() {
        let loans = Loans::default();
        let mut memory = [1u8, 2, 3];
        // SAFETY: `memory` outlives all of this, and is not touched before the loan is back.
        let lent = unsafe { Lent::new(NonNull::from(&mut memory[..]), true, &loans) };
        let borrowed = Borrowed(lent.0.clone(), PhantomData);
        let mut buffers = Buffers::lent(lent);
        assert_eq!(loans.outstanding(), 1);
        let borrowed = borrowed.take().unwrap_err();
        std::thread::scope(|scope| {
            scope.spawn(|| loans.wait());
            buffers.slices_mut(1, 1).for_each(|piece| piece.fill(9));
            drop(buffers);
        });
        assert_eq!(borrowed.take().unwrap(), [1, 9, 3]);
        assert_eq!(loans.outstanding(), 0);
    }
}
