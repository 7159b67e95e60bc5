// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `kofi pingpong`: latency and bandwidth, against libfabric's `fi_pingpong` or against itself.

mod control;
mod link;
mod pattern;
mod report;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use hdrhistogram::Histogram;

use crate::failure::{Failure, Result};
use control::{Control, Role};
use link::Link;
use report::{Report, Row};

/// The longest wait for the peer's next word or message.
const STEP: Duration = Duration::from_secs(20);
/// Where `fi_pingpong` listens.
const CONTROL_PORT: u16 = 47592;
/// Iterations that `fi_pingpong` takes for granted at its peer.
const PEER_ITERATIONS: u32 = 10;
/// Iterations when nobody has to be agreed with: enough to measure.
const OWN_ITERATIONS: u32 = 1000;
const DEFAULT_SIZES: [usize; 6] = [64, 256, 1024, 4096, 65536, 1_048_576];
/// The largest of all sizes: 4 MiB and a half more.
const LARGEST: usize = 6 << 20;
/// Messages in an iteration: there and back.
const TRANSFERS: u32 = 2;

/// Measure latency and bandwidth, also with libfabric's fi_pingpong at the other end
#[derive(clap::Args)]
#[command(after_help = "\
Without HOST and --server, both sides run here, as two threads over the loopback interface, and
iterate 1000 times. With a peer, kofi does as `fi_pingpong -p tcp -e msg` does, which can be the
other side in either role; give both sides the same -I, -S and -c, for they do not tell each other.

Examples:
  kofi pingpong                           both sides, the default sizes
  kofi pingpong -c -S all                 every size, contents checked
  kofi pingpong --server                  wait for a peer on control port 47592, for a minute
  kofi pingpong 192.0.2.7                 be the client of the server on that host
  kofi pingpong -P 5000 -I 1000 -c HOST   the client of: fi_pingpong -p tcp -e msg -B 5000 -I 1000 -c
  kofi pingpong --json                    one JSON object a line, with percentiles

Exit codes: 0 done, 1 failure at run time (stderr says what), 2 wrong usage.")]
pub(crate) struct Options {
    /// Host to connect to, where a server waits
    #[arg(value_name = "HOST", conflicts_with = "server")]
    host: Option<String>,
    /// Wait for a client, as fi_pingpong does without a host
    #[arg(long)]
    server: bool,
    /// Control port on this side [server: 47592, otherwise: any]
    #[arg(short = 'B', long, value_name = "PORT")]
    source_port: Option<u16>,
    /// Control port of the server
    #[arg(short = 'P', long, value_name = "PORT", default_value_t = CONTROL_PORT, requires = "host")]
    port: u16,
    /// Use this domain (network interface)
    #[arg(short, long)]
    domain: Option<String>,
    /// Use this provider
    #[arg(short, long, default_value = "tcp")]
    provider: String,
    /// Kind of endpoint
    #[arg(short, long, value_name = "TYPE", value_enum, ignore_case = true, default_value_t)]
    endpoint: Endpoint,
    /// Round trips for each size [with a peer: 10, otherwise: 1000]
    #[arg(short = 'I', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    iterations: Option<u32>,
    /// Only this message size, in bytes or as 4k or 1m, or `all` from 0 to 6 MiB [64, 256, 1k, 4k,
    /// 64k, 1m]
    #[arg(short = 'S', long, value_name = "SIZE", value_parser = Sizes::parse)]
    size: Option<Sizes>,
    /// Check the contents of each message
    #[arg(short, long)]
    check: bool,
    /// How messages are sent
    #[arg(short, long, value_enum, ignore_case = true, default_value_t)]
    mode: Mode,
    /// Use IPv6 for the control channel
    #[arg(short = '6', long)]
    ipv6: bool,
    /// How long a server waits for its client, in seconds; 0: for ever
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
    /// Add columns with percentiles of the latency
    #[arg(long)]
    percentiles: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// Say on stderr what is done
    #[arg(short, long)]
    verbose: bool,
}

/// Kinds of endpoints that can be measured.
#[derive(Clone, Copy, Default, ValueEnum)]
enum Endpoint {
    /// FI_EP_MSG
    #[default]
    Msg,
}

/// Ways to send.
#[derive(Clone, Copy, Default, ValueEnum)]
enum Mode {
    /// fi_send and fi_recv
    #[default]
    Msg,
}

#[derive(Clone, Copy)]
enum Sizes {
    All,
    One(usize),
}

impl Sizes {
    fn parse(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("all") {
            return Ok(Self::All);
        }
        let most = i32::MAX;
        size(text).filter(|size| i32::try_from(*size).is_ok()).map(Self::One).ok_or_else(|| {
            format!("wanted a number of bytes up to {most}, as 64, 4k (KiB) or 1m (MiB), or `all`")
        })
    }
}

/// A number of bytes, or with a suffix of KiB or MiB, as the report writes them.
fn size(text: &str) -> Option<usize> {
    let (number, unit) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1 << 10),
        None => text.strip_suffix(['m', 'M']).map_or((text, 1), |number| (number, 1 << 20)),
    };
    number.parse::<usize>().ok()?.checked_mul(unit)
}

impl Options {
    fn sizes(&self) -> Vec<usize> {
        match self.size {
            None => DEFAULT_SIZES.to_vec(),
            Some(Sizes::One(size)) => vec![size],
            Some(Sizes::All) => {
                let powers = (1..).map(|power| 1 << power).take_while(|size| *size <= LARGEST);
                [0, 1].into_iter().chain(powers.flat_map(|size| [size, size + size / 2])).collect()
            }
        }
    }

    /// Bytes of the largest message.
    fn largest(&self) -> usize {
        match self.size {
            Some(Sizes::One(size)) => size,
            Some(Sizes::All) | None => LARGEST,
        }
    }

    fn wait(&self) -> Option<Duration> {
        (self.wait > 0).then(|| Duration::from_secs(self.wait))
    }

    fn say(&self, role: Role, text: impl FnOnce() -> String) {
        if self.verbose {
            eprintln!("{role}: {}", text());
        }
    }
}

pub(crate) fn run(options: &Options) -> Result {
    let report = Report::new(options.json, options.percentiles);
    if options.server {
        let listener = listen(options, false)?;
        return side(
            options,
            &mut Control::accept(&listener, options.wait())?,
            PEER_ITERATIONS,
            Some(report),
        );
    }
    match &options.host {
        Some(host) => {
            let mut control = Control::connect(host, options.port, options.source_port, options.ipv6)?;
            side(options, &mut control, PEER_ITERATIONS, Some(report))
        }
        None => both(options, report),
    }
}

/// Both sides in this process.
fn both(options: &Options, report: Report) -> Result {
    thread::scope(|scope| {
        let listener = listen(options, true)?;
        let address = listener.local_addr().map_err(control::failed("its own address"))?;
        let (done, result) = mpsc::channel();
        let server = move || {
            let _ = done.send(timed(Control::accept(&listener, Some(STEP)), options, OWN_ITERATIONS, None));
        };
        thread::Builder::new()
            .name("server".into())
            .spawn_scoped(scope, server)
            .map_err(|error| Failure::Run(format!("no thread for the server's side: {error}")))?;
        let (client, client_end) = timed(Control::connect_to(address), options, OWN_ITERATIONS, Some(report));
        // Each wait of the server has its limit, so it will say something.
        let (server, server_end) =
            result.recv().map_err(|_| Failure::Run("the server's side ended without a word".into()))?;
        // Where both fail, the first one is why the second one does.
        if client_end < server_end { client.and(server) } else { server.and(client) }
    })
}

/// One side, and when it ended: before the other could notice.
fn timed(
    control: Result<Control>,
    options: &Options,
    iterations: u32,
    report: Option<Report>,
) -> (Result, Instant) {
    let mut control = match control {
        Ok(control) => control,
        Err(failure) => return (Err(failure), Instant::now()),
    };
    let result = side(options, &mut control, iterations, report);
    (result, Instant::now())
}

fn listen(options: &Options, here: bool) -> Result<TcpListener> {
    let ip = match (here, options.ipv6) {
        (true, false) => Ipv4Addr::LOCALHOST.into(),
        (true, true) => Ipv6Addr::LOCALHOST.into(),
        (false, false) => Ipv4Addr::UNSPECIFIED.into(),
        (false, true) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let port = options.source_port.unwrap_or(if here { 0 } else { CONTROL_PORT });
    let address = SocketAddr::new(ip, port);
    let listener = TcpListener::bind(address).map_err(|error| {
        Failure::Run(format!(
            "control channel: cannot listen on {address}: {error}; choose another port with -B, and give it to \
             the client with -P"
        ))
    })?;
    options.say(Role::Server, || format!("the control channel listens on {address}"));
    Ok(listener)
}

/// One side, from the control channel's being there to the end.
fn side(options: &Options, control: &mut Control, iterations: u32, report: Option<Report>) -> Result {
    let role = control.role();
    options.say(role, || "the control channel is there".into());
    let mut link = match role {
        Role::Server => Link::accept(control, options)?,
        Role::Client => Link::connect(control, options)?,
    };
    let iterations = options.iterations.unwrap_or(iterations);
    let mut report = report;
    for size in options.sizes() {
        options.say(role, || format!("{iterations} iterations of {size} bytes"));
        let row = measure(control, &mut link, size, iterations)?;
        if let Some(report) = &mut report {
            report.row(&row)?;
        }
    }
    link.finish()
}

/// All iterations for one size.
fn measure(control: &mut Control, link: &mut Link, size: usize, iterations: u32) -> Result<Row> {
    // From a nanosecond to a whole step, which ends with an error.
    let longest = STEP.as_nanos() as u64;
    let mut times = Histogram::<u64>::new_with_bounds(1, longest, 3)
        .map_err(|error| format!("no histogram of the latency: {error}"))?;
    link.set_size(size);
    control.sync()?;
    let start = Instant::now();
    let mut before = start;
    for _ in 0..iterations {
        match control.role() {
            Role::Client => {
                link.send()?;
                link.receive()?;
            }
            Role::Server => {
                link.receive()?;
                link.send()?;
            }
        }
        let now = Instant::now();
        let nanos = (now - before).as_nanos() / u128::from(TRANSFERS);
        times.saturating_record(u64::try_from(nanos).unwrap_or(u64::MAX));
        before = now;
    }
    let elapsed = before - start;
    let acked = control.exchange_count(iterations)?;
    Ok(Row::new(size, iterations, acked, elapsed, &times))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    fn options(arguments: &[&str]) -> Options {
        Cli::try_parse_from([&["pingpong"], arguments].concat()).unwrap().options
    }

    #[test]
    fn sizes_are_those_of_fi_pingpong() {
        assert_eq!(options(&[]).sizes(), DEFAULT_SIZES);
        for (text, size) in
            [("17", 17), ("0", 0), ("1k", 1024), ("4K", 4096), ("1m", 1 << 20), ("2M", 2 << 20), ("0k", 0)]
        {
            assert_eq!(options(&["-S", text]).sizes(), [size]);
        }
        assert_eq!(options(&["-S", "2097151k"]).largest(), 2_097_151 << 10);
        let all = options(&["-S", "ALL"]).sizes();
        assert_eq!(all[..8], [0, 1, 2, 3, 4, 6, 8, 12]);
        assert_eq!((all.len(), all.last()), (46, Some(&LARGEST)));
        assert!(all.is_sorted());
    }

    #[test]
    fn options_of_fi_pingpong_are_understood() {
        let options =
            options(&["-p", "tcp", "-e", "msg", "-m", "msg", "-c", "-6", "-v", "-I", "3", "-P", "5", "h"]);
        assert_eq!((options.iterations, options.port, options.host.as_deref()), (Some(3), 5, Some("h")));
        assert!(options.check && options.ipv6 && options.verbose);
        for size in ["2147483648", "-1", "2097152k", "2048m", "18446744073709551615k", "k", "1g", "1kk", ""] {
            assert!(Cli::try_parse_from(["pingpong", "-S", size]).is_err(), "{size}");
        }
        assert!(Cli::try_parse_from(["pingpong", "-I", "0"]).is_err());
        assert!(Cli::try_parse_from(["pingpong", "--server", "host"]).is_err());
    }
}
