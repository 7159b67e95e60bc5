// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Bit sets: capabilities, modes, registration modes, operation flags and ordering.
//!
//! The values are those of libfabric's headers. `Display` lists the C symbols in `fi_tostr(3)`'s order, which is
//! the order of declaration here; `FromStr` reads such lists, separated by commas or `|`. Bits without a name
//! (take them in with `from_bits_retain`) are not printed.

use alloc::{borrow::ToOwned, string::String};
use core::{fmt, str::FromStr};

use bitflags::bitflags;

/// A word that is no symbol of the set or enumeration it was read for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown name {0:?}")]
pub struct UnknownName(pub String);

bitflags! {
    /// What an endpoint, one of its contexts or a domain can do (`fi_getinfo(3)`, "Capabilities").
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Caps: u64 {
        /// Send and receive messages or datagrams.
        const MSG = 1 << 1;
        /// Remote memory reads and writes.
        const RMA = 1 << 2;
        /// Messages matched by tag.
        const TAGGED = 1 << 3;
        /// Atomic operations on remote memory.
        const ATOMIC = 1 << 4;
        /// Messages to multicast groups.
        const MULTICAST = 1 << 5;
        /// Collective operations.
        const COLLECTIVE = 1 << 6;
        /// Start remote reads.
        const READ = 1 << 8;
        /// Start remote writes.
        const WRITE = 1 << 9;
        /// Receive messages.
        const RECV = 1 << 10;
        /// Send messages.
        const SEND = 1 << 11;
        /// Be the target of reads.
        const REMOTE_READ = 1 << 12;
        /// Be the target of writes.
        const REMOTE_WRITE = 1 << 13;
        /// One receive buffer may take several messages.
        const MULTI_RECV = 1 << 16;
        /// Completion data at the peer; an operation flag that `fi_tostr(3)` also knows as a capability.
        const REMOTE_CQ_DATA = 1 << 17;
        /// Triggered operations.
        const TRIGGER = 1 << 20;
        /// Operations that wait for all earlier ones.
        const FENCE = 1 << 21;
        /// The receiver learns a message's size before its data is placed.
        const VARIABLE_MSG = 1 << 48;
        /// Remote access to persistent memory.
        const RMA_PMEM = 1 << 49;
        /// Completions with an unknown source carry the raw source address.
        const SOURCE_ERR = 1 << 50;
        /// Reaches peers on the same node.
        const LOCAL_COMM = 1 << 51;
        /// Reaches peers on other nodes.
        const REMOTE_COMM = 1 << 52;
        /// Address vectors shared between processes.
        const SHARED_AV = 1 << 53;
        /// The target of a remote operation can be told of it.
        const RMA_EVENT = 1 << 56;
        /// Receive completions carry the source address.
        const SOURCE = 1 << 57;
        /// A peer can address one of several receive contexts.
        const NAMED_RX_CTX = 1 << 58;
        /// Receives that only match one source.
        const DIRECTED_RECV = 1 << 59;
        /// Buffers in device memory.
        const HMEM = 1 << 47;
    }
}

bitflags! {
    /// What the application has to do for the provider (`fi_getinfo(3)`, "Mode").
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Mode: u64 {
        /// Each operation's context is a `fi_context`.
        const CONTEXT = 1 << 59;
        /// Message buffers begin with room for the provider.
        const MSG_PREFIX = 1 << 58;
        /// I/O vectors stay unchanged until the operation completes.
        const ASYNC_IOV = 1 << 57;
        /// Remote completion data uses up a receive buffer.
        const RX_CQ_DATA = 1 << 56;
        /// Local buffers are registered (before API 1.5; since then [`MrMode::LOCAL`]).
        const LOCAL_MR = 1 << 55;
        /// Completions may lack the flags that say which operation it was.
        const NOTIFY_FLAGS_ONLY = 1 << 54;
        /// Only endpoints with the same capabilities share a completion queue.
        const RESTRICTED_COMP = 1 << 53;
        /// Each operation's context is a `fi_context2`.
        const CONTEXT2 = 1 << 52;
        /// Receive buffers belong to the provider.
        const BUFFERED_RECV = 1 << 51;
    }
}

bitflags! {
    /// Rules of memory registration (`fi_mr(3)`, "Memory registration modes"); empty is `FI_MR_UNSPEC`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct MrMode: u64 {
        /// The pre-1.5 rules: virtual addresses, allocated pages, keys from the provider.
        const BASIC = 1 << 0;
        /// The pre-1.5 rules: offsets, any range, keys from the application.
        const SCALABLE = 1 << 1;
        /// Local buffers are registered too.
        const LOCAL = 1 << 2;
        /// Keys are longer than 64 bits and exchanged raw.
        const RAW = 1 << 3;
        /// Remote addresses are virtual addresses, not offsets.
        const VIRT_ADDR = 1 << 4;
        /// Registered memory has pages behind it.
        const ALLOCATED = 1 << 5;
        /// The provider chooses the keys.
        const PROV_KEY = 1 << 6;
        /// The application reports changed page mappings.
        const MMU_NOTIFY = 1 << 7;
        /// Regions with remote events are enabled after binding their counters.
        const RMA_EVENT = 1 << 8;
        /// Regions are bound to an endpoint.
        const ENDPOINT = 1 << 9;
        /// Device memory is registered.
        const HMEM = 1 << 10;
        /// Buffers of collectives are registered.
        const COLLECTIVE = 1 << 11;
    }
}

bitflags! {
    /// Flags of operations and completions (`fi_msg(3)`, `fi_rma(3)`, `fi_tagged(3)`, `fi_endpoint(3)`, `fi_cq(3)`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct OpFlags: u64 {
        /// Completion of a send; also binds a queue to the transmit side.
        const SEND = 1 << 11;
        /// Completion of a receive; also binds a queue to the receive side.
        const RECV = 1 << 10;
        /// Completion of remote memory access.
        const RMA = 1 << 2;
        /// Completion of an atomic operation.
        const ATOMIC = 1 << 4;
        /// Completion of a message operation.
        const MSG = 1 << 1;
        /// Completion of a tagged operation.
        const TAGGED = 1 << 3;
        /// Completion of a read; also a buffer that is read by or for a remote operation.
        const READ = 1 << 8;
        /// Completion of a write; also the permission to write to an event queue.
        const WRITE = 1 << 9;
        /// A peer has read local memory.
        const REMOTE_READ = 1 << 12;
        /// A peer has written local memory.
        const REMOTE_WRITE = 1 << 13;
        /// The destination is a multicast group.
        const MULTICAST = 1 << 5;
        /// The buffer takes several messages; in a completion: the buffer is used up.
        const MULTI_RECV = 1 << 16;
        /// The operation or completion carries data for the peer's completion queue.
        const REMOTE_CQ_DATA = 1 << 17;
        /// More operations follow at once; in a completion: more data follows.
        const MORE = 1 << 18;
        /// Look without taking: a queued event or an arrived message.
        const PEEK = 1 << 19;
        /// A triggered operation.
        const TRIGGER = 1 << 20;
        /// Starts after all earlier operations to the same peer have completed.
        const FENCE = 1 << 21;
        /// Completes with an entry although the queue is bound for selective completions.
        const COMPLETION = 1 << 24;
        /// The buffer is free again when the call returns.
        const INJECT = 1 << 25;
        /// Completes when the buffer is free again.
        const INJECT_COMPLETE = 1 << 26;
        /// Completes when the message is out and no longer tracked; on reliable endpoints: acknowledged.
        const TRANSMIT_COMPLETE = 1 << 27;
        /// Completes when the peer has the data in place.
        const DELIVERY_COMPLETE = 1 << 28;
        /// Completes when the peer has the data in durable memory.
        const COMMIT_COMPLETE = 1 << 30;
        /// Completes when the message has found its receive.
        const MATCH_COMPLETE = 1 << 31;
        /// The `signaling_vector` of a queue counts.
        const AFFINITY = 1 << 29;
        /// Keep a message found by peeking for this receiver, or receive it.
        const CLAIM = 1 << 59;
        /// Drop a message found by peeking.
        const DISCARD = 1 << 58;
        /// Timeout in microseconds; not libfabric's, valid in `fi_eq_sread` only.
        const TIME_US = 1 << 37;
        /// Timeout in milliseconds, the default; not libfabric's, valid in `fi_eq_sread` only.
        const TIME_MS = 1 << 38;
        /// [`OpFlags::SEND`] under the name that `fi_ep_bind` uses.
        const TRANSMIT = 1 << 11;
        /// Binds a queue that only gets completions asked for (`fi_ep_bind`); the bit of [`OpFlags::CLAIM`].
        const SELECTIVE_COMPLETION = 1 << 59;
    }
}

bitflags! {
    /// Which operations keep their order (`fi_endpoint(3)`, "Message Ordering").
    ///
    /// Of the three letters, the first operation comes after the last: R read, W write, S send. Empty is
    /// `FI_ORDER_NONE`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Order: u64 {
        /// Read after read.
        const RAR = 1 << 0;
        /// Read after write.
        const RAW = 1 << 1;
        /// Read after send.
        const RAS = 1 << 2;
        /// Write after read.
        const WAR = 1 << 3;
        /// Write after write.
        const WAW = 1 << 4;
        /// Write after send.
        const WAS = 1 << 5;
        /// Send after read.
        const SAR = 1 << 6;
        /// Send after write.
        const SAW = 1 << 7;
        /// Send after send.
        const SAS = 1 << 8;
        /// Read after read, remote memory access only.
        const RMA_RAR = 1 << 32;
        /// Read after write, remote memory access only.
        const RMA_RAW = 1 << 33;
        /// Write after read, remote memory access only.
        const RMA_WAR = 1 << 34;
        /// Write after write, remote memory access only.
        const RMA_WAW = 1 << 35;
        /// Read after read, atomics only.
        const ATOMIC_RAR = 1 << 36;
        /// Read after write, atomics only.
        const ATOMIC_RAW = 1 << 37;
        /// Write after read, atomics only.
        const ATOMIC_WAR = 1 << 38;
        /// Write after write, atomics only.
        const ATOMIC_WAW = 1 << 39;
        /// Completion order: the bytes of a message arrive in order.
        const DATA = 1 << 16;
        /// Completion order: completions come in the order of their operations.
        const STRICT = 0x1ff;
    }
}

macro_rules! text {
    ($($flags:ident $prefix:literal,)*) => {$(
        impl fmt::Display for $flags {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut separator = "";
                for (name, _) in self.iter_names() {
                    write!(f, concat!("{}", $prefix, "{}"), separator, name)?;
                    separator = ", ";
                }
                Ok(())
            }
        }

        impl FromStr for $flags {
            type Err = UnknownName;

            fn from_str(text: &str) -> Result<Self, UnknownName> {
                let words = text.split([',', '|']).map(str::trim).filter(|word| !word.is_empty());
                words.map(|word| {
                    let flag = word.strip_prefix($prefix).and_then(Self::from_name);
                    flag.ok_or_else(|| UnknownName(word.to_owned()))
                })
                .collect()
            }
        }
    )*};
}

text! {
    Caps "FI_",
    Mode "FI_",
    MrMode "FI_MR_",
    OpFlags "FI_",
    Order "FI_ORDER_",
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use bitflags::Flags;

    fn each_name_parses<F: Flags<Bits = u64> + FromStr + fmt::Display + PartialEq>(prefix: &str)
    where
        F::Err: fmt::Debug,
    {
        for flag in F::FLAGS {
            let parsed: F = (prefix.to_string() + flag.name()).parse().unwrap();
            assert_eq!(parsed.bits(), flag.value().bits());
        }
        for flag in F::all().iter() {
            let text = flag.to_string();
            assert!(text.starts_with(prefix) && !text.contains(','), "{text}");
            assert_eq!(text.parse::<F>().unwrap().bits(), flag.bits());
        }
        assert_eq!(F::all().to_string().parse::<F>().unwrap().bits(), F::all().bits());
        assert_eq!(F::empty().to_string(), "");
    }

    #[test]
    fn each_bit_prints_and_parses() {
        each_name_parses::<Caps>("FI_");
        each_name_parses::<Mode>("FI_");
        each_name_parses::<MrMode>("FI_MR_");
        each_name_parses::<OpFlags>("FI_");
        each_name_parses::<Order>("FI_ORDER_");
    }

    #[test]
    fn lists_read_with_commas_and_bars() {
        assert_eq!("FI_MSG|FI_RMA".parse(), Ok(Caps::MSG | Caps::RMA));
        assert_eq!(" FI_MSG , FI_RMA ".parse(), Ok(Caps::MSG | Caps::RMA));
        assert_eq!("".parse(), Ok(Caps::empty()));
        assert_eq!("FI_MSG, FI_FOO".parse::<Caps>(), Err(UnknownName("FI_FOO".to_string())));
        assert_eq!((Caps::HMEM | Caps::SOURCE | Caps::MSG).to_string(), "FI_MSG, FI_SOURCE, FI_HMEM");
    }
}
