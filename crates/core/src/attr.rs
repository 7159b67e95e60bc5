// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Attributes with which event queues and completion queues are opened (`fi_eq(3)`, `fi_cq(3)`).

use crate::flags::OpFlags;
use crate::{Error, Result};

/// How a reader can wait on a queue (`enum fi_wait_obj`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum WaitObj {
    /// Not at all: blocking reads answer -FI_ENOSYS.
    None,
    /// By blocking reads.
    #[default]
    Unspec,
    /// Together with others in a wait set.
    Set,
    /// By blocking reads, or by a file descriptor for `poll(2)`.
    Fd,
    /// By blocking reads: a mutex and a condition variable, which only C programs ask to see.
    MutexCond,
    /// By blocking reads that give the processor to others (`sched_yield(2)`) and never sleep.
    Yield,
    /// As `Fd`: a set of descriptors for `poll(2)` that has one in it.
    PollFd,
}

/// Attributes of an event queue (`struct fi_eq_attr`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EqAttr {
    /// Smallest number of unread events to hold; 0 for the default.
    pub size: usize,
    /// `FI_WRITE`: the application writes events, too. `FI_AFFINITY`: `signaling_vector` counts.
    pub flags: OpFlags,
    /// How a reader can wait.
    pub wait_obj: WaitObj,
    /// Processor that events should be delivered on, a hint; counts only with `FI_AFFINITY`.
    pub signaling_vector: i32,
}

impl EqAttr {
    /// Events that a queue holds when its attributes don't say.
    pub const DEFAULT_SIZE: usize = 256;

    /// The number of ordinary events to hold.
    ///
    /// # Errors
    /// -FI_EINVAL for flags that an event queue does not know, or a negative signaling vector that counts.
    pub fn check(&self) -> Result<usize> {
        if !(OpFlags::WRITE | OpFlags::AFFINITY).contains(self.flags) {
            return Err(Error::Invalid {
                call: "fi_eq_open",
                problem: "flags other than FI_WRITE and FI_AFFINITY; leave them out",
            });
        }
        if self.flags.contains(OpFlags::AFFINITY) && self.signaling_vector < 0 {
            return Err(Error::Invalid {
                call: "fi_eq_open",
                problem: "FI_AFFINITY with a negative signaling_vector; it names a processor, from 0 on",
            });
        }
        Ok(if self.size == 0 { Self::DEFAULT_SIZE } else { self.size })
    }
}

impl Default for EqAttr {
    fn default() -> Self {
        Self { size: 0, flags: OpFlags::empty(), wait_obj: WaitObj::Unspec, signaling_vector: 0 }
    }
}

/// What a blocking read of a completion queue waits for (`enum fi_cq_wait_cond`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum WaitCond {
    /// The next completion.
    #[default]
    None,
    /// As many completions as the call says (`FI_CQ_COND_THRESHOLD`).
    Threshold,
}

/// Attributes of a completion queue (`struct fi_cq_attr`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CqAttr {
    /// Number of completions to have memory for from the start; 0 for none. Posted operations
    /// beyond it find their own: a completion queue never overruns.
    pub size: usize,
    /// How a reader can wait.
    pub wait_obj: WaitObj,
    /// What a blocking read waits for.
    pub wait_cond: WaitCond,
}
