// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Environment variables as providers define them and tools list them: `fi_param_define`, `fi_param_get`
//! (`fi_provider(3)`), `fi_getparams` (`fabric(7)`, `fi_info -e`).

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kofi_core::Errno;

use crate::heap::{self, Blocks};
use crate::log::{parse_int, vsnprintf};
use crate::sys::{
    FI_PARAM_BOOL, FI_PARAM_INT, FI_PARAM_SIZE_T, FI_PARAM_STRING, fi_param, fi_param_type, fi_provider,
};

/// A variable.
struct Param {
    /// The address of the provider that has defined it; 0 for what has no provider.
    provider: usize,
    /// Its name for the provider.
    name: String,
    /// Its name in the environment.
    variable: CString,
    kind: fi_param_type,
    help: String,
}

static PARAMS: Mutex<Vec<Param>> = Mutex::new(Vec::new());

/// All that there is, ours in front.
fn params() -> MutexGuard<'static, Vec<Param>> {
    let mut params = PARAMS.lock().unwrap_or_else(PoisonError::into_inner);
    if params.is_empty() {
        params.extend(OURS.iter().map(|(variable, kind, help)| Param {
            provider: 0,
            name: variable.to_string_lossy().trim_start_matches("FI_").to_ascii_lowercase(),
            variable: (*variable).to_owned(),
            kind: *kind,
            help: (*help).to_owned(),
        }));
    }
    params
}

/// The variables that this library and kofi's providers look at.
const OURS: [(&CStr, fi_param_type, &str); 22] = [
    (
        c"FI_LOG_INTERVAL",
        FI_PARAM_INT,
        "Milliseconds between messages that are not to come too often (default: 2000)",
    ),
    (
        c"FI_LOG_LEVEL",
        FI_PARAM_STRING,
        "What is logged: warn, trace, info, debug; each includes those before it (default: nothing)",
    ),
    (
        c"FI_LOG_PROV",
        FI_PARAM_STRING,
        "Providers that are logged, a,b, or ^a,b for all others (default: all)",
    ),
    (
        c"FI_LOG_SUBSYS",
        FI_PARAM_STRING,
        "Subsystems that are logged, a,b, or ^a,b for all others (default: all)",
    ),
    (
        c"FI_LOG_LOCATION",
        FI_PARAM_STRING,
        "Where to: stderr, stdout, a new file, or a directory (default: stderr)",
    ),
    (c"FI_LOG_LOCATION_MODE", FI_PARAM_INT, "Permissions of the log's file (default: 0600)"),
    (c"FI_PROVIDER", FI_PARAM_STRING, "Providers to use, a,b, or ^a,b for all others (default: all)"),
    (c"FI_HOOK", FI_PARAM_STRING, "Hooks over providers; there are none here, so that names are ignored"),
    (c"FI_TCP_IFACE", FI_PARAM_STRING, "tcp: the only interface to use (default: any)"),
    (
        c"FI_TCP_PORT_LOW_RANGE",
        FI_PARAM_INT,
        "tcp: first port of listeners that ask for any (default: any port)",
    ),
    (
        c"FI_TCP_PORT_HIGH_RANGE",
        FI_PARAM_INT,
        "tcp: last port of listeners that ask for any (default: any port)",
    ),
    (
        c"FI_TCP_TX_SIZE",
        FI_PARAM_SIZE_T,
        "tcp: operations that a transmit queue holds by default (default: 256)",
    ),
    (
        c"FI_TCP_RX_SIZE",
        FI_PARAM_SIZE_T,
        "tcp: operations that a receive queue holds by default (default: 256)",
    ),
    (
        c"KOFI_CONNECT_TIMEOUT_MS",
        FI_PARAM_INT,
        "tcp: time for a connection to be made and answered; 0: no limit",
    ),
    (
        c"KOFI_HANDSHAKE_TIMEOUT_MS",
        FI_PARAM_INT,
        "tcp: time for a request to arrive, or an answer to leave; 0: no limit",
    ),
    (c"KOFI_DECISION_TIMEOUT_MS", FI_PARAM_INT, "tcp: time to accept or reject a request; 0: no limit"),
    (
        c"KOFI_SHUTDOWN_TIMEOUT_MS",
        FI_PARAM_INT,
        "tcp: time to send what is queued at a shutdown; 0: no limit",
    ),
    (
        c"KOFI_KEEPALIVE_MS",
        FI_PARAM_INT,
        "tcp: silence after which a peer is asked whether it is there; 0: never",
    ),
    (
        c"KOFI_PEER_TIMEOUT_MS",
        FI_PARAM_INT,
        "tcp: time after which a peer that does not answer is given up; 0: never",
    ),
    (c"KOFI_SPIN_US", FI_PARAM_INT, "Microseconds that a blocking read looks again before it sleeps"),
    (
        c"KOFI_LIVE",
        FI_PARAM_STRING,
        "Whether other processes may look at the objects of this one (kofi info --live)",
    ),
    (c"FI_UNIVERSE_SIZE", FI_PARAM_SIZE_T, "Processes of a job; message endpoints have no use for it"),
];

/// `fi_param_define`: makes a variable known, `FI_<PROVIDER>_<NAME>`, or `FI_<NAME>` without a provider. `arguments` is
/// the `va_list` for `help`. Answers 0, -FI_EINVAL, or -FI_ENOMEM.
///
/// # Safety
/// Null, or a provider; null, or texts; a list of what the format asks for.
pub unsafe fn define(
    provider: *const fi_provider,
    name: *const c_char,
    kind: fi_param_type,
    help: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    // SAFETY: the caller's word.
    let (name, owner) = unsafe {
        let owner = provider.as_ref().and_then(|provider| heap::read_text(provider.name));
        (heap::read_text(name), owner)
    };
    // SAFETY: the caller's word; it ends the text with a zero within that size.
    let help = unsafe {
        let mut text = [0u8; 2048];
        if !help.is_null() {
            vsnprintf(text.as_mut_ptr().cast(), text.len(), help, arguments);
        }
        CStr::from_bytes_until_nul(&text).unwrap_or_default().to_string_lossy().into_owned()
    };
    let Some(name) = name.filter(|_| !help.is_empty()) else { return -Errno::EINVAL.raw() };
    let (variable, help) = match &owner {
        Some(owner) => (format!("FI_{owner}_{name}"), format!("{owner}: {help}")),
        None => (format!("FI_{name}"), help),
    };
    let Ok(variable) = CString::new(variable.to_ascii_uppercase()) else { return -Errno::EINVAL.raw() };
    params().push(Param { provider: provider.addr(), name, variable, kind, help });
    0
}

/// `fi_param_get`: the value of a variable that was defined. Answers 0; -FI_ENOENT when it was not, -FI_ENODATA when it
/// is not set, -FI_EINVAL for what is no value of its type.
///
/// # Safety
/// `name` is null or a text; `value` is null or a place for the variable's type.
pub unsafe fn get(provider: *const fi_provider, name: *const c_char, value: *mut c_void) -> c_int {
    // SAFETY: the caller's word.
    let Some(name) = (unsafe { heap::read_text(name) }).filter(|_| !value.is_null()) else {
        return -Errno::EINVAL.raw();
    };
    let found = params()
        .iter()
        .find(|param| param.provider == provider.addr() && param.name == name)
        .map(|param| (param.variable.clone(), param.kind));
    let Some((variable, kind)) = found else { return -Errno::ENOENT.raw() };
    // SAFETY: a C text. What it gives is the environment's own, which is what programs expect.
    let text = unsafe { libc::getenv(variable.as_ptr()) };
    // SAFETY: null, or a C text.
    let Some(words) = (unsafe { heap::read_text(text) }) else { return -Errno::ENODATA.raw() };
    // strtol(3) answers 0 for what is no number.
    let number = parse_int(&words).unwrap_or(0);
    // SAFETY: the caller's word: the place is one for that type.
    unsafe {
        match kind {
            FI_PARAM_STRING => value.cast::<*mut c_char>().write(text),
            FI_PARAM_INT => value.cast::<c_int>().write(number as c_int),
            FI_PARAM_SIZE_T => value.cast::<usize>().write(number as usize),
            FI_PARAM_BOOL => match truth(&words) {
                Some(truth) => value.cast::<c_int>().write(c_int::from(truth)),
                None => return -Errno::EINVAL.raw(),
            },
            _ => {}
        }
    }
    0
}

fn truth(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "0" | "false" | "no" | "off" => Some(false),
        "1" | "true" | "yes" | "on" => Some(true),
        _ => None,
    }
}

/// `fi_getparams`: all variables, a list that ends with a null name, of the C heap. Answers 0, -FI_EINVAL, or
/// -FI_ENOMEM.
///
/// # Safety
/// Null, or places for them.
pub unsafe fn list(list: *mut *mut fi_param, count: *mut c_int) -> c_int {
    if list.is_null() || count.is_null() {
        return -Errno::EINVAL.raw();
    }
    let params = params();
    // SAFETY: any size can be asked for; all zeros are a list of null names.
    let entries = unsafe { libc::calloc(params.len() + 1, size_of::<fi_param>()) }.cast::<fi_param>();
    if entries.is_null() {
        return -Errno::ENOMEM.raw();
    }
    let blocks = Blocks::new();
    for (index, param) in params.iter().enumerate() {
        // SAFETY: a C text, and null or one.
        let value = unsafe { heap::read_text(libc::getenv(param.variable.as_ptr())) };
        let entry = fi_param {
            name: blocks.text(&param.variable.to_string_lossy()),
            r#type: param.kind,
            help_string: blocks.text(&param.help),
            value: value.map_or(ptr::null_mut(), |value| blocks.text(&value)),
        };
        // SAFETY: it has room for one more than there are.
        unsafe { entries.add(index).write(entry) };
    }
    if !blocks.are_whole() {
        // Up to a name that there was no memory for; what is behind it leaks.
        // SAFETY: made here, and nobody has it.
        unsafe { free(entries) };
        return -Errno::ENOMEM.raw();
    }
    // SAFETY: the caller's word.
    unsafe {
        list.write(entries);
        count.write(params.len() as c_int);
    }
    0
}

/// `fi_freeparams`.
///
/// # Safety
/// Null, or a list of [`list`] that nobody uses any more.
pub unsafe fn free(list: *mut fi_param) {
    if list.is_null() {
        return;
    }
    // SAFETY: the caller's word; the list ends with a null name.
    unsafe {
        let mut entry = list;
        while !(*entry).name.is_null() {
            heap::free((*entry).name);
            heap::free((*entry).help_string);
            heap::free((*entry).value);
            entry = entry.add(1);
        }
        heap::free(list);
    }
}
