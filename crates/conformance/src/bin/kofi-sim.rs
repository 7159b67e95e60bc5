// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `kofi-sim`: random schedules in the simulated network.

use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser;
use kofi_conformance::FailingAllocator;
use kofi_conformance::campaign::{self, Tally};

#[global_allocator]
static ALLOCATOR: FailingAllocator = FailingAllocator;

/// Runs random schedules of connections, messages, ends and trouble, and checks what must hold.
///
/// Exits with 1, the seed and what happened at the first violation.
#[derive(Parser)]
#[command(name = "kofi-sim", version)]
struct Options {
    /// Schedules to run.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    schedules: u64,
    /// The first seed; the clock's choice without it.
    #[arg(long, value_name = "SEED")]
    from: Option<u64>,
    /// Replay one schedule and show what happens.
    #[arg(long, value_name = "SEED", conflicts_with_all = ["schedules", "from", "fixed"])]
    seed: Option<u64>,
    /// The same seeds every time.
    #[arg(long, conflicts_with = "from")]
    fixed: bool,
    /// Threads; one for each processor without it.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

/// How often the watch looks.
const TICK: Duration = Duration::from_millis(100);
/// How long a schedule may take; mostly it is less than a thousandth of this.
const PATIENCE: Duration = Duration::from_secs(20);
/// What a thread works on when it has no seed.
const IDLE: u64 = u64::MAX;

thread_local! {
    static SEED: Cell<u64> = const { Cell::new(0) };
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// An allocation that must not fail did, and the process is about to end: say where.
extern "C" fn aborted(_: libc::c_int) {
    let mut line = *b"kofi-sim: an allocation that must not fail: seed                     \n";
    let (mut seed, mut at) = (SEED.get(), line.len() - 2);
    loop {
        line[at] = b'0' + (seed % 10) as u8;
        seed /= 10;
        at -= 1;
        if seed == 0 {
            break;
        }
    }
    // SAFETY: the buffer is `line`, all of it; write and _exit may be called in a signal handler.
    unsafe {
        libc::write(2, line.as_ptr().cast(), line.len());
        libc::_exit(1);
    }
}

/// Runs one schedule; gives what was violated.
fn run<R>(seed: u64, schedule: impl FnOnce(u64) -> R + core::panic::UnwindSafe) -> Result<R, String> {
    SEED.set(seed);
    std::panic::catch_unwind(|| schedule(seed)).map_err(|_| PANIC.take())
}

/// A machine that never comes back cannot be interrupted: say which seed, and end.
fn watch(seeds: &[AtomicU64], stop: &AtomicBool) {
    let mut before: Vec<(u64, u32)> = vec![(0, 0); seeds.len()];
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(TICK);
        for (seed, (last, ticks)) in seeds.iter().zip(&mut before) {
            let now = seed.load(Ordering::Relaxed);
            *ticks = if now == *last && now != IDLE { *ticks + 1 } else { 0 };
            *last = now;
            if TICK * *ticks >= PATIENCE {
                println!("1 violation: seed {now}: it does not come to an end");
                std::process::exit(1);
            }
        }
    }
}

/// Runs one schedule again and shows what happens.
fn replay(seed: u64) -> ExitCode {
    match run(seed, campaign::replay) {
        Ok((tally, lines)) => {
            for line in lines {
                println!("{line}");
            }
            println!("seed {seed}: no violation: {tally:?}");
            ExitCode::SUCCESS
        }
        Err(violation) => {
            println!("seed {seed}: {violation}");
            ExitCode::FAILURE
        }
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    std::panic::set_hook(Box::new(|info| PANIC.set(info.to_string())));
    // SAFETY: the handler only does what a signal handler may do.
    unsafe {
        libc::signal(libc::SIGABRT, aborted as *const () as libc::sighandler_t);
    }
    if let Some(seed) = options.seed {
        return replay(seed);
    }
    let clock =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64 >> 10 << 20);
    let from = if options.fixed { 1 } else { options.from.unwrap_or(clock) };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let total = Mutex::new((0, Tally::default()));
    let violation = Mutex::new(None);
    let began = std::time::Instant::now();
    let threads = options.threads.unwrap_or(cores).max(1);
    let seeds: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(IDLE)).collect();
    let (running, finished) = (AtomicUsize::new(threads), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| watch(&seeds, &finished));
        for current in &seeds {
            scope.spawn(|| {
                let (mut count, mut tally) = (0, Tally::default());
                while !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= options.schedules {
                        break;
                    }
                    let seed = from.wrapping_add(number);
                    current.store(seed, Ordering::Relaxed);
                    match run(seed, |seed| campaign::run(seed, false)) {
                        Ok(one) => {
                            count += 1;
                            tally.add(&one);
                        }
                        Err(what) => {
                            stop.store(true, Ordering::Relaxed);
                            if let Ok(mut violation) = violation.lock() {
                                violation.get_or_insert((seed, what));
                            }
                        }
                    }
                }
                current.store(IDLE, Ordering::Relaxed);
                if let Ok(mut total) = total.lock() {
                    total.0 += count;
                    total.1.add(&tally);
                }
                if running.fetch_sub(1, Ordering::Relaxed) == 1 {
                    finished.store(true, Ordering::Relaxed);
                }
            });
        }
    });
    let took = began.elapsed().as_secs_f64();
    let (count, tally) = total.into_inner().unwrap_or_default();
    println!(
        "{count} schedules from seed {from} in {took:.1} s ({:.0}/s): {} things happened in {:.0} s of virtual time, \
         {} connections made, {} refused, {} sends, {} messages ({} after the end), {} reads and writes, {} operations cancelled or truncated",
        count as f64 / took,
        tally.happened,
        tally.virtual_time as f64 / 1e9,
        tally.connections,
        tally.failures,
        tally.sends,
        tally.messages,
        tally.late,
        tally.accesses,
        tally.errors,
    );
    match violation.into_inner().ok().flatten() {
        None => {
            println!("0 violations");
            ExitCode::SUCCESS
        }
        Some((seed, what)) => {
            println!("1 violation: seed {seed}: {what}");
            replay(seed)
        }
    }
}
