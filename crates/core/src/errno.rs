// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Error numbers: `FI_E*` of `fi_errno(3)`.

use core::fmt;

/// A positive `FI_E*` number: Linux `errno` below 256, OFI's own from 256 on (`fi_errno(3)`).
///
/// The C faces return it negated; error entries carry it positive.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno(i32);

macro_rules! errnos {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        impl Errno {
            $(#[doc = concat!("`FI_", stringify!($name), "`: ", $text, ".")]
            pub const $name: Self = Self($value);)*

            /// The symbol of this number, `"FI_EAGAIN"`; `None` for one that OFI does not name.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(concat!("FI_", stringify!($name))),)*
                    _ => None,
                }
            }

            /// The text of this number, as `fi_strerror(3)` gives it.
            pub const fn text(self) -> &'static str {
                match self.0 {
                    $($value => $text,)*
                    _ => "Unknown error",
                }
            }
        }
    };
}

errnos! {
    EPERM = 1, "Operation not permitted";
    ENOENT = 2, "No such file or directory";
    EINTR = 4, "Interrupted system call";
    EIO = 5, "Input/output error";
    E2BIG = 7, "Argument list too long";
    EBADF = 9, "Bad file descriptor";
    EAGAIN = 11, "Resource temporarily unavailable";
    ENOMEM = 12, "Cannot allocate memory";
    EACCES = 13, "Permission denied";
    EFAULT = 14, "Bad address";
    EBUSY = 16, "Device or resource busy";
    EEXIST = 17, "File exists";
    ENODEV = 19, "No such device";
    EINVAL = 22, "Invalid argument";
    ENFILE = 23, "Too many open files in system";
    EMFILE = 24, "Too many open files";
    ENOSPC = 28, "No space left on device";
    EPIPE = 32, "Broken pipe";
    ENOSYS = 38, "Function not implemented";
    ENOMSG = 42, "No message of desired type";
    ENODATA = 61, "No data available";
    EOVERFLOW = 75, "Value too large for defined data type";
    EMSGSIZE = 90, "Message too long";
    ENOPROTOOPT = 92, "Protocol not available";
    EPROTONOSUPPORT = 93, "Protocol not supported";
    EOPNOTSUPP = 95, "Operation not supported";
    EADDRINUSE = 98, "Address already in use";
    EADDRNOTAVAIL = 99, "Cannot assign requested address";
    ENETDOWN = 100, "Network is down";
    ENETUNREACH = 101, "Network is unreachable";
    ECONNABORTED = 103, "Software caused connection abort";
    ECONNRESET = 104, "Connection reset by peer";
    ENOBUFS = 105, "No buffer space available";
    EISCONN = 106, "Transport endpoint is already connected";
    ENOTCONN = 107, "Transport endpoint is not connected";
    ESHUTDOWN = 108, "Cannot send after transport endpoint shutdown";
    ETIMEDOUT = 110, "Connection timed out";
    ECONNREFUSED = 111, "Connection refused";
    EHOSTDOWN = 112, "Host is down";
    EHOSTUNREACH = 113, "No route to host";
    EALREADY = 114, "Operation already in progress";
    EINPROGRESS = 115, "Operation now in progress";
    EREMOTEIO = 121, "Remote I/O error";
    ECANCELED = 125, "Operation canceled";
    EKEYREJECTED = 129, "Key was rejected by service";
    EOTHER = 256, "Unspecified error";
    ETOOSMALL = 257, "Provided buffer is too small";
    EOPBADSTATE = 258, "Operation not permitted in current state";
    EAVAIL = 259, "Error available";
    EBADFLAGS = 260, "Flags not supported";
    ENOEQ = 261, "Missing or unavailable event queue";
    EDOMAIN = 262, "Invalid resource domain";
    ENOCQ = 263, "Missing or unavailable completion queue";
    ECRC = 264, "CRC error";
    ETRUNC = 265, "Truncation error";
    ENOKEY = 266, "Required key not available";
    ENOAV = 267, "Missing or unavailable address vector";
    EOVERRUN = 268, "Queue has been overrun";
    ENORX = 269, "Receiver not ready, no receive buffers available";
    ENOMR = 270, "Memory registration limit exceeded";
    EFIREWALLADDR = 271, "Host unreachable due to firewall";
}

impl Errno {
    /// What to do about an error of the operating system's; empty where nobody knows in general.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::EMFILE => "this process has no file descriptors left; raise RLIMIT_NOFILE",
            Self::ENFILE => "the system has no file descriptors left; raise fs.file-max",
            Self::ENOMEM | Self::ENOBUFS => "the system has no memory left for it; close something",
            Self::EACCES | Self::EPERM => "the system does not permit it; ports below 1024 need a privilege",
            Self::EADDRINUSE => "another socket has that address; choose another port, or 0 for any",
            Self::EADDRNOTAVAIL => {
                "the address belongs to no interface of this host, or all ports to that peer are in use"
            }
            Self::ENETDOWN | Self::ENETUNREACH | Self::EHOSTUNREACH | Self::EHOSTDOWN => {
                "no way leads there now; see ip route, and whether the peer's host is up"
            }
            Self::ECONNREFUSED => "nobody listens there; start the server, or see the address and port",
            Self::ECONNRESET => "the peer's host broke it off; see at the peer whether it crashed",
            Self::ECONNABORTED | Self::EPIPE => "the connection had ended; connect anew",
            Self::ETIMEDOUT => "the peer's host does not answer; is it up, and does a firewall drop packets?",
            _ => "",
        }
    }

    /// From an operating system's error number; zero and negative numbers, which no system call
    /// reports, become [`Errno::EOTHER`].
    pub const fn from_raw(number: i32) -> Self {
        if number > 0 { Self(number) } else { Self::EOTHER }
    }

    /// The positive number.
    pub const fn raw(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{} ({name})", self.text()),
            None => write!(f, "error {}", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "Errno({})", self.0),
        }
    }
}
