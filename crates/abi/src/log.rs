// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The log of `fi_log`, in libfabric's form, and what decides what is in it (`fabric(7)`): `FI_LOG_LEVEL`,
//! `FI_LOG_PROV`, `FI_LOG_SUBSYS`, `FI_LOG_INTERVAL`, `FI_LOG_LOCATION`, `FI_LOG_LOCATION_MODE`.
//!
//! What kofi tells `tracing` is there, too. Its subscriber is this library's own: each library that contains
//! `tracing` has one for itself.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt::{self, Write as _};
use core::panic::Location;
use std::env;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use kofi_core::Errno;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::boundary::boundary;
use crate::face::face;
use crate::filter::Filter;
use crate::heap;
use crate::sys::{
    FI_CLASS_LOG, FI_LOG_CORE, FI_LOG_DEBUG, FI_LOG_EP_CTRL, FI_LOG_INFO, FI_LOG_WARN, fi_log_level,
    fi_log_subsys, fi_ops, fi_ops_log, fi_provider, fid, fid_logging,
};

/// Names of levels, by number; each lets those before it through.
pub(crate) const LEVELS: [&str; 4] = ["warn", "trace", "info", "debug"];

/// Names of subsystems, by number.
pub(crate) const SUBSYSTEMS: [&str; 10] =
    ["core", "fabric", "domain", "ep_ctrl", "ep_data", "av", "cq", "eq", "mr", "cntr"];

/// Where lines go.
enum Output {
    Stderr,
    Stdout,
    File(File),
}

struct Log {
    /// The highest level that is let through; `None`: nothing is.
    level: Option<fi_log_level>,
    providers: Filter,
    subsystems: Filter,
    /// Milliseconds between lines that are not to come too often.
    interval: u64,
    output: Output,
    start: Instant,
}

static LOG: OnceLock<Log> = OnceLock::new();

fn log() -> &'static Log {
    LOG.get_or_init(Log::from_environment)
}

/// The value of a variable, unless it is not set or no text.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

impl Log {
    fn from_environment() -> Self {
        // A word that is no level counts as the first one.
        let level = variable("FI_LOG_LEVEL").map(|word| {
            let word = word.trim().to_ascii_lowercase();
            LEVELS.iter().position(|level| *level == word).unwrap_or(0) as fi_log_level
        });
        let (output, problem) = output();
        let log = Self {
            level,
            providers: Filter::new(variable("FI_LOG_PROV").as_deref()),
            subsystems: Filter::new(variable("FI_LOG_SUBSYS").as_deref()),
            interval: variable("FI_LOG_INTERVAL")
                .and_then(|millis| millis.trim().parse().ok())
                .unwrap_or(2000),
            output,
            start: Instant::now(),
        };
        if let (Some(problem), true) = (problem, log.admits("core", FI_LOG_WARN, FI_LOG_CORE)) {
            log.write("core", FI_LOG_WARN, FI_LOG_CORE, "fi_log", 0, &problem);
        }
        log
    }

    fn admits(&self, provider: &str, level: fi_log_level, subsys: fi_log_subsys) -> bool {
        self.level.is_some_and(|highest| level <= highest)
            && self.providers.admits(provider)
            && SUBSYSTEMS.get(subsys as usize).is_some_and(|name| self.subsystems.admits(name))
    }

    /// Writes one line at once, so that those of several threads do not mix.
    fn write(
        &self,
        provider: &str,
        level: fi_log_level,
        subsys: fi_log_subsys,
        function: &str,
        line: c_int,
        text: &str,
    ) {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let level = LEVELS.get(level as usize).unwrap_or(&"unknown");
        let subsys = SUBSYSTEMS.get(subsys as usize).unwrap_or(&"unknown");
        let process = std::process::id();
        let end = if text.ends_with('\n') { "" } else { "\n" };
        let line = format!(
            "libfabric:{process}:{seconds}::{provider}:{subsys}:{function}():{line}<{level}> {text}{end}"
        );
        // There is nobody to tell that the log cannot be written.
        let _ = match &self.output {
            Output::Stderr => std::io::stderr().write_all(line.as_bytes()),
            Output::Stdout => std::io::stdout().write_all(line.as_bytes()),
            Output::File(file) => { file }.write_all(line.as_bytes()),
        };
    }
}

/// `FI_LOG_LOCATION`, with what is wrong with it: `stderr`, `stdout`, a directory, or a file that is not there yet.
fn output() -> (Output, Option<String>) {
    let wanted = match variable("FI_LOG_LOCATION") {
        None => return (Output::Stderr, None),
        Some(wanted) => wanted,
    };
    match wanted.as_str() {
        "" | "stderr" => return (Output::Stderr, None),
        "stdout" => return (Output::Stdout, None),
        _ => {}
    }
    let mut path = PathBuf::from(&wanted);
    if path.is_dir() {
        path.push(format!("ofi_{}.log", std::process::id()));
    }
    let mode = variable("FI_LOG_LOCATION_MODE").and_then(|mode| parse_int(&mode)).unwrap_or(0o600) as u32;
    match OpenOptions::new().append(true).create_new(true).mode(mode).open(&path) {
        Ok(file) => (Output::File(file), None),
        Err(error) => {
            let problem = format!(
                "FI_LOG_LOCATION={wanted}: {} cannot be made ({error}); logging to stderr. Name a file that is not \
                 there yet, or a directory",
                path.display()
            );
            (Output::Stderr, Some(problem))
        }
    }
}

/// A number as strtol(3) reads it with base 0; `None` if the text does not begin with one.
pub(crate) fn parse_int(text: &str) -> Option<i64> {
    let text = text.trim_start();
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', next, ..] if next.is_ascii_hexdigit() => (16, &digits[2..]),
        [b'0', ..] => (8, digits),
        _ => (10, digits),
    };
    let end = digits.find(|digit: char| !digit.is_digit(radix)).unwrap_or(digits.len());
    if end == 0 {
        return None;
    }
    // Beyond its range it is the end of the range, as there.
    let value = i64::from_str_radix(&digits[..end], radix).unwrap_or(i64::MAX);
    Some(if is_negative { -value } else { value })
}

/// The name of a provider.
///
/// # Safety
/// Null, or a provider.
unsafe fn name(provider: *const fi_provider) -> String {
    // SAFETY: the caller's word.
    let name = unsafe { provider.as_ref().and_then(|provider| heap::read_text(provider.name)) };
    name.unwrap_or_else(|| "core".into())
}

/// `fi_log_enabled`: whether such a line is let through, 1 or 0.
///
/// # Safety
/// Null, or a provider.
pub unsafe fn enabled(provider: *const fi_provider, level: fi_log_level, subsys: fi_log_subsys) -> c_int {
    // SAFETY: the caller's word; a program that brings a log keeps it until it takes it back.
    unsafe { (ops().enabled)(provider, level, subsys, 0) }
}

/// `fi_log_ready`: as [`enabled`], and it is time for another such line; `show_time` becomes when it will be again.
///
/// # Safety
/// Null, or a provider; `show_time` is there.
pub unsafe fn ready(
    provider: *const fi_provider,
    level: fi_log_level,
    subsys: fi_log_subsys,
    show_time: *mut u64,
) -> c_int {
    // SAFETY: as in `enabled`.
    unsafe { (ops().ready)(provider, level, subsys, 0, show_time) }
}

/// `fi_log`: writes a line, whatever is let through. `arguments` is the `va_list` for `format`.
///
/// # Safety
/// Null, or a provider; texts, and a list of what the format asks for.
pub unsafe fn write(
    provider: *const fi_provider,
    level: fi_log_level,
    subsys: fi_log_subsys,
    function: *const c_char,
    line: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) {
    let mut text = [0u8; 1024];
    if !format.is_null() {
        // SAFETY: the caller's word; it ends the text with a zero within that size.
        unsafe { vsnprintf(text.as_mut_ptr().cast(), text.len(), format, arguments) };
    }
    // SAFETY: the caller's word; a C text.
    unsafe { (ops().log)(provider, level, subsys, function, line, text.as_ptr().cast()) };
}

unsafe extern "C" {
    /// As in stdio.h; on all the platforms here, a `va_list` that is an argument is a pointer.
    pub(crate) fn vsnprintf(
        text: *mut c_char,
        size: usize,
        format: *const c_char,
        arguments: *mut c_void,
    ) -> c_int;
}

/// Writes a line of ours, if it is let through.
#[track_caller]
pub(crate) fn line(level: fi_log_level, function: &CStr, text: fmt::Arguments<'_>) {
    line_of(c"core", level, FI_LOG_CORE, function, Location::caller().line(), text);
}

fn line_of(
    provider: &CStr,
    level: fi_log_level,
    subsys: fi_log_subsys,
    function: &CStr,
    line: u32,
    text: fmt::Arguments<'_>,
) {
    // SAFETY: zeros and null pointers are a provider that can do nothing.
    let provider = fi_provider { name: provider.as_ptr(), ..unsafe { core::mem::zeroed() } };
    let ops = ops();
    // SAFETY: a provider and C texts; a program keeps functions that it brings until it takes them back.
    unsafe {
        if (ops.enabled)(&provider, level, subsys, 0) != 0 {
            let mut text = text.to_string().replace('\0', "");
            text.push_str("\n\0");
            (ops.log)(&provider, level, subsys, function.as_ptr(), line.cast_signed(), text.as_ptr().cast());
        }
    }
}

/// Makes what kofi tells `tracing` part of the log, if it has a level.
pub(crate) fn subscribe() {
    let imported = imported().is_some();
    if imported || log().level.is_some() {
        // A second copy of the code in this library cannot be; if there were one, it would have done this.
        let _ = tracing::subscriber::set_global_default(Tracing);
    }
}

/// Events of `tracing` as lines of the log.
struct Tracing;

fn level_of(level: &Level) -> fi_log_level {
    match *level {
        Level::ERROR | Level::WARN => FI_LOG_WARN,
        Level::INFO => FI_LOG_INFO,
        Level::DEBUG | Level::TRACE => FI_LOG_DEBUG,
    }
}

fn subsys_of(metadata: &Metadata<'_>) -> fi_log_subsys {
    if metadata.target() == "kofi::connection" { FI_LOG_EP_CTRL } else { FI_LOG_CORE }
}

impl Subscriber for Tracing {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        imported().is_some() || log().admits(face().provider, level_of(metadata.level()), subsys_of(metadata))
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        match log().level {
            _ if imported().is_some() => None,
            None => Some(LevelFilter::OFF),
            Some(level) if level < FI_LOG_INFO => Some(LevelFilter::WARN),
            Some(level) if level < FI_LOG_DEBUG => Some(LevelFilter::INFO),
            Some(_) => None,
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut text = Text::default();
        event.record(&mut text);
        let Text { message, fields } = text;
        let mut provider = face().provider.to_owned();
        provider.push('\0');
        let mut function = metadata.target().to_owned();
        function.push('\0');
        line_of(
            CStr::from_bytes_until_nul(provider.as_bytes()).unwrap_or_default(),
            level_of(metadata.level()),
            subsys_of(metadata),
            CStr::from_bytes_until_nul(function.as_bytes()).unwrap_or_default(),
            metadata.line().unwrap_or(0),
            format_args!("{message}{fields}"),
        );
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The fields of an event: the message, then ` name=value`.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing into a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

/// What a program has put in place of this log (`fi_import_log`).
static IMPORTED: Mutex<Option<fi_ops_log>> = Mutex::new(None);

fn imported() -> Option<fi_ops_log> {
    *slot()
}

fn slot() -> MutexGuard<'static, Option<fi_ops_log>> {
    IMPORTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The log that is in place.
fn ops() -> fi_ops_log {
    imported().unwrap_or(OWN_OPS)
}

/// `fi_open("logging")`: the object that a program binds its own log to (`fi_open(3)`, `fi_import_log`). Only one can
/// be in place: -FI_EALREADY.
pub(crate) fn open(context: *mut c_void) -> Result<*mut fid, Errno> {
    if imported().is_some() {
        return Err(Errno::EALREADY);
    }
    let logging = Box::new(fid_logging {
        fid: fid { fclass: FI_CLASS_LOG, context, ops: &OPEN_OPS },
        ops: &const { OWN_OPS },
    });
    Ok(Box::into_raw(logging).cast())
}

static OPEN_OPS: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close: Some(close_open),
    bind: Some(bind_open),
    control: None,
    ops_open: None,
    tostr: None,
    ops_set: None,
};

static IMPORTED_OPS: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close: Some(close_imported),
    bind: None,
    control: None,
    ops_open: None,
    tostr: None,
    ops_set: None,
};

const OWN_OPS: fi_ops_log =
    fi_ops_log { size: size_of::<fi_ops_log>(), enabled: own_enabled, ready: own_ready, log: own_log };

unsafe extern "C" fn close_open(fid: *mut fid) -> c_int {
    // SAFETY: `open` has made it, and it is closed once.
    boundary(|| drop(unsafe { Box::from_raw(fid.cast::<fid_logging>()) }));
    0
}

/// Puts the program's log in place.
unsafe extern "C" fn bind_open(_: *mut fid, log: *mut fid, flags: u64) -> c_int {
    boundary(|| {
        // SAFETY: an object of C.
        let Some(header) = (unsafe { log.as_mut() }) else { return -Errno::EINVAL.raw() };
        if flags != 0 || header.fclass != FI_CLASS_LOG {
            return -Errno::EINVAL.raw();
        }
        // SAFETY: an object of that class is one.
        let theirs = unsafe { (*log.cast::<fid_logging>()).ops };
        /// A function of C's table, which may be null: for a function pointer, `None` is just that.
        ///
        /// # Safety
        /// The table has that slot.
        unsafe fn function<T: Copy>(at: *const T) -> Option<T> {
            const { assert!(size_of::<Option<T>>() == size_of::<*const ()>()) };
            // SAFETY: the caller's word.
            unsafe { at.cast::<Option<T>>().read() }
        }
        // SAFETY: the program has made it; its size says what there is of it.
        let ops = unsafe {
            if theirs.is_null() || (&raw const (*theirs).size).read() < size_of::<fi_ops_log>() {
                return -Errno::EINVAL.raw();
            }
            // What it leaves out stays ours.
            fi_ops_log {
                size: size_of::<fi_ops_log>(),
                enabled: function(&raw const (*theirs).enabled).unwrap_or(own_enabled),
                ready: function(&raw const (*theirs).ready).unwrap_or(own_ready),
                log: function(&raw const (*theirs).log).unwrap_or(own_log),
            }
        };
        if imported().is_some() {
            return -Errno::EALREADY.raw();
        }
        *slot() = Some(ops);
        header.ops = &IMPORTED_OPS;
        subscribe();
        0
    })
}

unsafe extern "C" fn close_imported(_: *mut fid) -> c_int {
    boundary(|| *slot() = None);
    0
}

unsafe extern "C" fn own_enabled(
    provider: *const fi_provider,
    level: fi_log_level,
    subsys: fi_log_subsys,
    _: u64,
) -> c_int {
    // SAFETY: a provider.
    boundary(|| c_int::from(log().admits(&unsafe { name(provider) }, level, subsys)))
}

unsafe extern "C" fn own_ready(
    provider: *const fi_provider,
    level: fi_log_level,
    subsys: fi_log_subsys,
    _: u64,
    show_time: *mut u64,
) -> c_int {
    boundary(|| {
        // SAFETY: a provider, and a place for the time.
        let (name, show_time) = unsafe { (name(provider), show_time.as_mut()) };
        let Some(show_time) = show_time.filter(|_| log().admits(&name, level, subsys)) else { return 0 };
        let now = log().start.elapsed().as_millis() as u64;
        if now < *show_time {
            return 0;
        }
        *show_time = now + log().interval;
        1
    })
}

unsafe extern "C" fn own_log(
    provider: *const fi_provider,
    level: fi_log_level,
    subsys: fi_log_subsys,
    function: *const c_char,
    line: c_int,
    text: *const c_char,
) {
    boundary(|| {
        // SAFETY: a provider and texts.
        let (provider, function, text) =
            unsafe { (name(provider), heap::read_text(function), heap::read_text(text)) };
        log().write(&provider, level, subsys, &function.unwrap_or_default(), line, &text.unwrap_or_default());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_strtol_does() {
        for (text, number) in [
            ("12", Some(12)),
            (" -7x", Some(-7)),
            ("0x1F", Some(31)),
            ("0600", Some(0o600)),
            ("0", Some(0)),
            ("0x", Some(0)),
            ("99999999999999999999", Some(i64::MAX)),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(parse_int(text), number, "{text:?}");
        }
    }

    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

    unsafe extern "C" fn their_log(
        provider: *const fi_provider,
        level: fi_log_level,
        _: fi_log_subsys,
        function: *const c_char,
        _: c_int,
        text: *const c_char,
    ) {
        // SAFETY: a provider and texts.
        let (provider, function, text) =
            unsafe { (name(provider), heap::read_text(function).unwrap(), heap::read_text(text).unwrap()) };
        SEEN.lock().unwrap().push(format!("{provider} {level} {function} {text}"));
    }

    unsafe extern "C" fn their_enabled(
        _: *const fi_provider,
        level: fi_log_level,
        _: fi_log_subsys,
        _: u64,
    ) -> c_int {
        c_int::from(level <= FI_LOG_INFO)
    }

    /// As `fi_import_log` does it.
    #[test]
    fn a_program_brings_its_own_log() {
        let seen = || std::mem::take(&mut *SEEN.lock().unwrap());
        let their_ops = fi_ops_log { enabled: their_enabled, log: their_log, ..OWN_OPS };
        let mut theirs = fid_logging {
            fid: fid { fclass: FI_CLASS_LOG, context: core::ptr::null_mut(), ops: core::ptr::null() },
            ops: &their_ops,
        };
        let opened = open(core::ptr::null_mut()).unwrap();
        // SAFETY: objects that are open, with their own functions.
        unsafe {
            let bind = (*(*opened).ops).bind.unwrap();
            assert_eq!(bind(opened, (&raw mut theirs).cast(), 1), -Errno::EINVAL.raw(), "there are no flags");
            assert_eq!(bind(opened, (&raw mut theirs).cast(), 0), 0);
            ((*(*opened).ops).close.unwrap())(opened);
            assert_eq!(open(core::ptr::null_mut()), Err(Errno::EALREADY));

            line(FI_LOG_INFO, c"here", format_args!("a line"));
            line(FI_LOG_DEBUG, c"here", format_args!("too much"));
            assert_eq!(seen(), ["core 2 here a line\n"]);
            assert_eq!(enabled(core::ptr::null(), FI_LOG_DEBUG, FI_LOG_CORE), 0);
            // What kofi tells goes there, too.
            tracing::info!(target: "kofi::connection", fid = 7, "connected");
            let told = seen();
            assert!(told.contains(&"tcp 2 kofi::connection connected fid=7\n".to_owned()), "{told:?}");

            ((*theirs.fid.ops).close.unwrap())((&raw mut theirs).cast());
            line(FI_LOG_INFO, c"here", format_args!("back to where it was"));
            assert!(seen().is_empty());
            let again = open(core::ptr::null_mut()).unwrap();
            ((*(*again).ops).close.unwrap())(again);
        }
    }
}
