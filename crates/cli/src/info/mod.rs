// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `kofi info`: what `fi_getinfo` gives for hints, and why it does not give more.

mod json;
mod live;
mod names;

use std::io::Write;

use anstyle::{AnsiColor, Style};
use kofi::{
    AddrFormat, Address, Caps, EpType, Hints, Info, Mode, MrMode, Order, Outcome, Progress, Protocol, Query,
    Refusal, Threading, Version,
};

use crate::failure::{Failure, Result};
use names::named;

/// List what providers offer for hints, and say why an offer does not match
#[derive(clap::Args)]
#[command(after_help = "\
Names are those of OFI, in any case and with or without their prefix: FI_EP_MSG, msg. Sets take
several, separated by commas or |.

Examples:
  kofi info                           all offers
  kofi info -v -n 192.0.2.7 -P 5000   everything about what reaches that peer
  kofi info --source -P 5000          addresses to listen on
  kofi info --caps FI_MSG,FI_RMA --why
                                      which offers match, and which hint fails first at the others
  kofi info --json --type msg | jq -r .domain_attr.name
  kofi info --live 4711               the objects of a running process that was started with KOFI_LIVE=1

Exit codes: 0 something matches, 1 nothing does or it cannot be found out (stderr says why), 2 wrong usage.")]
pub(crate) struct Options {
    /// Show the live objects of a running process (with KOFI_LIVE=1 in its environment): states, peers, counts
    #[arg(long, value_name = "PID", conflicts_with_all = ["why", "verbose", "node", "service", "source", "HintOptions"])]
    live: Option<u32>,
    /// Say of each offer whether it matches; if not, which hint failed first and what to do
    #[arg(long)]
    why: bool,
    /// Print all attributes, as fi_tostr does
    #[arg(short, long)]
    verbose: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// The peer's name or address, with --source our own
    #[arg(short, long)]
    node: Option<String>,
    /// The peer's port, with --source our own
    #[arg(short = 'P', long, visible_alias = "port")]
    service: Option<String>,
    /// Node and service are our own: to listen (FI_SOURCE). Without --node, fabric and domain are
    /// any: the wildcard address, every interface
    #[arg(long)]
    source: bool,
    #[command(flatten)]
    hints: HintOptions,
}

/// What becomes `struct fi_info *hints`.
#[derive(clap::Args)]
#[command(next_help_heading = "Hints")]
struct HintOptions {
    /// Provider
    #[arg(short, long, value_name = "NAME")]
    provider: Option<String>,
    /// Fabric: for IP the network, such as 192.0.2.0/24; any: see --source
    #[arg(short, long, value_name = "NAME")]
    fabric: Option<String>,
    /// Domain: for IP the interface; any: see --source
    #[arg(short, long, value_name = "NAME")]
    domain: Option<String>,
    /// Kind of endpoint, such as FI_EP_MSG
    #[arg(short = 't', long = "type", visible_alias = "ep-type", value_name = "TYPE", value_parser = named::<EpType>(&["FI_EP_"]))]
    ep_type: Option<EpType>,
    /// Needed capabilities, such as FI_MSG,FI_RMA
    #[arg(short, long, value_name = "SET", value_parser = named::<Caps>(&["FI_"]))]
    caps: Option<Caps>,
    /// Supported modes: offers that need others don't match
    #[arg(short, long, value_name = "SET", value_parser = named::<Mode>(&["FI_"]))]
    mode: Option<Mode>,
    /// Format of addresses, such as FI_SOCKADDR_IN6
    #[arg(short, long, value_name = "FORMAT", value_parser = named::<AddrFormat>(&["FI_", "FI_ADDR_"]))]
    addr_format: Option<AddrFormat>,
    /// Our own address, such as 192.0.2.1:5000
    #[arg(long, value_name = "ADDR")]
    src_addr: Option<Address>,
    /// The peer's address
    #[arg(long, value_name = "ADDR")]
    dest_addr: Option<Address>,
    /// Protocol on the wire, such as FI_PROTO_SOCK_TCP
    #[arg(long, value_name = "PROTOCOL", value_parser = named::<Protocol>(&["FI_PROTO_"]))]
    protocol: Option<Protocol>,
    /// Largest message to be sent
    #[arg(long, value_name = "BYTES")]
    max_msg_size: Option<usize>,
    /// Largest message to be injected
    #[arg(long, value_name = "BYTES")]
    inject_size: Option<usize>,
    /// Sends to be queued
    #[arg(long, value_name = "N")]
    tx_size: Option<usize>,
    /// Receives to be queued
    #[arg(long, value_name = "N")]
    rx_size: Option<usize>,
    /// Buffers of one operation
    #[arg(long, value_name = "N")]
    iov_limit: Option<usize>,
    /// Needed order of messages, such as FI_ORDER_SAS
    #[arg(long, value_name = "SET", value_parser = named::<Order>(&["FI_ORDER_"]))]
    msg_order: Option<Order>,
    /// Needed order of completions
    #[arg(long, value_name = "SET", value_parser = named::<Order>(&["FI_ORDER_"]))]
    comp_order: Option<Order>,
    /// How threads call, such as FI_THREAD_SAFE
    #[arg(long, value_name = "MODEL", value_parser = named::<Threading>(&["FI_THREAD_"]))]
    threading: Option<Threading>,
    /// Needed progress of control operations, such as FI_PROGRESS_MANUAL
    #[arg(long, value_name = "MODEL", value_parser = named::<Progress>(&["FI_PROGRESS_"]))]
    control_progress: Option<Progress>,
    /// Needed progress of data transfers
    #[arg(long, value_name = "MODEL", value_parser = named::<Progress>(&["FI_PROGRESS_"]))]
    data_progress: Option<Progress>,
    /// Supported modes of memory registration
    #[arg(long, value_name = "SET", value_parser = named::<MrMode>(&["FI_MR_"]))]
    mr_mode: Option<MrMode>,
    /// Bytes of completion data for the peer
    #[arg(long, value_name = "BYTES")]
    cq_data_size: Option<usize>,
    /// Version of the interfaces that the application is written for, such as 1.17
    #[arg(long, value_name = "VERSION", value_parser = version)]
    api_version: Option<Version>,
}

fn version(text: &str) -> Result<Version, String> {
    let numbers =
        text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let (major, minor) = numbers.ok_or("wanted two numbers, such as 1.17")?;
    Ok(Version::new(major, minor))
}

impl HintOptions {
    fn hints(&self) -> Hints {
        let mut hints = Hints::new();
        hints.caps = self.caps;
        hints.mode = self.mode;
        hints.addr_format = self.addr_format;
        hints.src_addr.clone_from(&self.src_addr);
        hints.dest_addr.clone_from(&self.dest_addr);
        hints.tx_attr.inject_size = self.inject_size;
        hints.tx_attr.size = self.tx_size;
        hints.tx_attr.iov_limit = self.iov_limit;
        hints.tx_attr.msg_order = self.msg_order;
        hints.tx_attr.comp_order = self.comp_order;
        hints.rx_attr.size = self.rx_size;
        hints.rx_attr.iov_limit = self.iov_limit;
        hints.rx_attr.msg_order = self.msg_order;
        hints.rx_attr.comp_order = self.comp_order;
        hints.ep_attr.ep_type = self.ep_type;
        hints.ep_attr.protocol = self.protocol;
        hints.ep_attr.max_msg_size = self.max_msg_size;
        hints.domain_attr.name.clone_from(&self.domain);
        hints.domain_attr.threading = self.threading;
        hints.domain_attr.control_progress = self.control_progress;
        hints.domain_attr.data_progress = self.data_progress;
        hints.domain_attr.mr_mode = self.mr_mode;
        hints.domain_attr.cq_data_size = self.cq_data_size;
        hints.fabric_attr.name.clone_from(&self.fabric);
        hints.fabric_attr.prov_name.clone_from(&self.provider);
        hints.fabric_attr.api_version = self.api_version;
        hints
    }
}

impl Options {
    /// JSON has all attributes anyway, and no room for text.
    pub(crate) fn conflict(&self) -> bool {
        self.json && self.verbose
    }

    fn query(&self) -> Query {
        let mut query = Query::new(self.hints.hints());
        if let Some(node) = &self.node {
            query = query.node(node);
        }
        if let Some(service) = &self.service {
            query = query.service(service);
        }
        if self.source {
            query = query.source();
        }
        query
    }
}

pub(crate) fn run(options: &Options) -> Result {
    match options.live {
        Some(pid) => live::show(pid, options.json),
        None if options.why => why(options),
        None => list(options),
    }
}

fn list(options: &Options) -> Result {
    let mut out = anstream::stdout().lock();
    let infos = match kofi::getinfo(options.query()) {
        Ok(infos) => infos,
        Err(error) => {
            let failure = Failure::from(error);
            let offers = kofi::explain(options.query()).unwrap_or_default();
            return Err(if offers.is_empty() {
                failure
            } else {
                failure.hint("--why says it offer by offer")
            });
        }
    };
    for info in &infos {
        match (options.json, options.verbose) {
            (true, _) => writeln!(out, "{}", serde_json::to_string(&json::info(info))?)?,
            (false, true) => write!(out, "---\n{info}")?,
            (false, false) => short(&mut out, info)?,
        }
    }
    Ok(())
}

/// The lines that `fi_info` prints without `-v`.
fn short(out: &mut impl Write, info: &Info) -> Result {
    let Info { fabric_attr, domain_attr, ep_attr, .. } = info;
    writeln!(out, "provider: {}", fabric_attr.prov_name)?;
    writeln!(out, "    fabric: {}", fabric_attr.name)?;
    writeln!(out, "    domain: {}", domain_attr.name)?;
    writeln!(out, "    version: {}", fabric_attr.prov_version)?;
    writeln!(out, "    type: {}", ep_attr.ep_type)?;
    writeln!(out, "    protocol: {}", ep_attr.protocol)?;
    Ok(())
}

/// What came of each offer; what many are refused for is said once.
fn why(options: &Options) -> Result {
    let outcomes = kofi::explain(options.query())?;
    let mut out = anstream::stdout().lock();
    let mut told: Vec<&Refusal> = Vec::new();
    for outcome in &outcomes {
        match &outcome.result {
            _ if options.json => writeln!(out, "{}", serde_json::to_string(&json::outcome(outcome))?)?,
            Ok(info) => matches(&mut out, &outcome.offer, info, options.verbose)?,
            Err(refusal) if told.contains(&refusal) => {}
            Err(refusal) => {
                told.push(refusal);
                refused(&mut out, refusal, &outcomes)?;
            }
        }
    }
    let matching = outcomes.iter().filter(|outcome| outcome.result.is_ok()).count();
    match (matching, outcomes.len()) {
        (0, 0) => Err(Failure::Run(
            "no provider has an interface for these addresses; ask without --node, --service, --src-addr and \
             --dest-addr"
                .into(),
        )),
        (0, offers) => Err(Failure::Run(format!("{}; stdout says which hint failed", summary(0, offers)))),
        (_, offers) if !options.json => Ok(writeln!(out, "{}", summary(matching, offers))?),
        _ => Ok(()),
    }
}

/// How many of at least one offer match.
fn summary(matching: usize, offers: usize) -> String {
    match (matching, offers) {
        (0, 1) => "the only offer does not match".into(),
        (_, 1) => "the only offer matches".into(),
        (0, _) => format!("none of {offers} offers matches"),
        (1, _) => format!("1 of {offers} offers matches"),
        _ => format!("{matching} of {offers} offers match"),
    }
}

/// What tells an offer from the provider's others.
fn title(offer: &Info) -> String {
    let source = offer.src_addr.as_ref().map(|addr| format!(", {addr}")).unwrap_or_default();
    let Info { ep_attr, domain_attr, fabric_attr, .. } = offer;
    format!("{}, {}, {}{source}", ep_attr.ep_type, domain_attr.name, fabric_attr.name)
}

fn matches(out: &mut impl Write, offer: &Info, granted: &Info, verbose: bool) -> Result {
    let (good, bold) = (AnsiColor::Green.on_default(), Style::new().bold());
    let provider = &offer.fabric_attr.prov_name;
    writeln!(out, "{bold}{provider}: {}{bold:#}: {good}matches{good:#}", title(offer))?;
    if verbose {
        write!(out, "{granted}")?;
    }
    Ok(())
}

/// A refusal, with all the offers that it is the same for.
fn refused(out: &mut impl Write, refusal: &Refusal, outcomes: &[Outcome]) -> Result {
    let Refusal { provider, field, wanted, found, remedy } = refusal;
    let of_provider =
        outcomes.iter().filter(|outcome| outcome.offer.fabric_attr.prov_name == *provider).count();
    let same: Vec<_> = outcomes
        .iter()
        .filter(|outcome| outcome.result.as_ref().err() == Some(refusal))
        .map(|outcome| title(&outcome.offer))
        .collect();
    let all = same.len() == of_provider;
    let (bad, bold) = (AnsiColor::Red.on_default(), Style::new().bold());
    match (&same[..], all) {
        ([one], _) => writeln!(out, "{bold}{provider}: {one}{bold:#}: {bad}does not match{bad:#}")?,
        (_, true) => {
            writeln!(out, "{bold}all {of_provider} offers of {provider}{bold:#}: {bad}do not match{bad:#}")?;
        }
        (_, false) => {
            let count = same.len();
            writeln!(
                out,
                "{bold}{count} of {of_provider} offers of {provider}{bold:#}: {bad}do not match{bad:#}"
            )?;
            writeln!(out, "    offers:  {}", same.join("\n             "))?;
        }
    }
    writeln!(out, "    hint:    {field}")?;
    writeln!(out, "    wanted:  {wanted}")?;
    writeln!(out, "    found:   {provider} {found}")?;
    Ok(writeln!(out, "    to do:   {remedy}")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_many_is_told_once() {
        let explain = |domain: &str| {
            kofi::explain(Query::new(Hints::new().domain(domain)).node("127.0.0.1")).unwrap().remove(0)
        };
        let (bad, good) = (explain("nonsense"), explain("lo"));
        let told = |outcomes: &[Outcome]| {
            let mut out = anstream::StripStream::new(Vec::new());
            refused(&mut out, bad.result.as_ref().unwrap_err(), outcomes).unwrap();
            String::from_utf8(out.into_inner()).unwrap()
        };
        let text = told(&[bad.clone(), bad.clone(), bad.clone()]);
        assert!(
            text.starts_with("all 3 offers of tcp: do not match\n    hint:    domain_attr.name\n"),
            "{text}"
        );
        let text = told(&[bad.clone(), good.clone(), bad.clone()]);
        assert!(text.starts_with("2 of 3 offers of tcp: do not match\n    offers:  FI_EP_MSG, lo"), "{text}");
        assert_eq!(text.matches("fi_sockaddr_in://127.0.0.1:0\n").count(), 2, "{text}");
        let text = told(&[bad.clone(), good]);
        assert!(
            text.starts_with("tcp: FI_EP_MSG, lo, 127.0.0.0/8, fi_sockaddr_in://127.0.0.1:0: does"),
            "{text}"
        );
    }

    #[test]
    fn one_offer_is_no_plural() {
        assert_eq!(summary(0, 1), "the only offer does not match");
        assert_eq!(summary(1, 1), "the only offer matches");
        assert_eq!(summary(0, 2), "none of 2 offers matches");
        assert_eq!(summary(1, 2), "1 of 2 offers matches");
        assert_eq!(summary(2, 2), "2 of 2 offers match");
    }

    #[test]
    fn versions_are_two_numbers() {
        assert_eq!(version("1.17"), Ok(Version::new(1, 17)));
        assert!(version("1").is_err() && version("1.x").is_err());
    }
}
