// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Hints against an offer: the matching rules of `fi_getinfo(3)`, with a reason for each refusal.

use alloc::{string::String, vec::Vec};
use core::{fmt::Display, net::SocketAddr};

use bitflags::Flags;

use crate::{
    address::Address,
    enums::{AddrFormat, Progress, ResourceMgmt, Threading},
    error::text,
    flags::{Caps, Mode, MrMode},
    hints::{DomainHints, EpHints, FabricHints, Hints, RxHints, TxHints},
    info::{DomainAttr, EpAttr, FabricAttr, Info, RxAttr, SHARED_CONTEXT, TxAttr},
    version::Version,
};

/// Why an offer does not match: the first hint that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("wanted {field} {wanted}, {provider} {found}; {remedy}")]
pub struct Refusal {
    /// The provider that made the offer.
    pub provider: String,
    /// The attribute, named as in C: `ep_attr.max_msg_size`.
    pub field: &'static str,
    /// What the hint asks for and does not get.
    pub wanted: String,
    /// What the provider does instead: `offers at most 128`.
    pub found: String,
    /// What would make the offer match.
    pub remedy: &'static str,
}

/// What `offer` grants to an application with these hints.
///
/// - Capabilities: the primary ones asked for (all without a hint) and the secondary ones, which cost nothing.
/// - Queue sizes, injection and vector limits, ordered sizes, context counts, threading, progress and address
///   vector type: the hint's if there is one, else the offer's.
/// - Default operation flags: the hint's only.
/// - Modes and registration modes: those the application has to follow.
/// - Everything else: the offer's.
///
/// A provider whose default for a size is below its maximum puts the default where the hint is `None`.
pub fn negotiate(offer: &Info, hints: &Hints) -> Result<Info, Refusal> {
    let mut granted = offer.clone();
    negotiate_into(&mut granted, hints)?;
    Ok(granted)
}

/// The same in the offer itself, which a refusal leaves half way. That takes no memory where providers have no authorization keys, and
/// what there is no memory for in a refusal's texts is left out.
pub fn negotiate_into(offer: &mut Info, hints: &Hints) -> Result<(), Refusal> {
    let provider = core::mem::take(&mut offer.fabric_attr.prov_name);
    let check = Check { provider: &provider };
    check.fabric(&mut offer.fabric_attr, &hints.fabric_attr)?;
    check.same("ep_attr.type", hints.ep_attr.ep_type, offer.ep_attr.ep_type)?;
    check.subset("caps", hints.caps, offer.caps)?;
    let caps = grant(offer.caps, hints.caps);

    let mr_mode = check.mr_mode(&offer.domain_attr, hints, caps)?;
    if mr_mode.intersects(PRE_1_5) && offer.domain_attr.mr_mode.contains(MrMode::LOCAL) {
        offer.mode |= Mode::LOCAL_MR;
    }
    check.supports("mode", hints.mode, offer.mode)?;

    (offer.addr_format, offer.src_addr, offer.dest_addr) = check.addresses(offer, hints)?;
    offer.caps = caps;
    offer.handle = hints.handle.or(offer.handle);
    check.tx(&mut offer.tx_attr, &hints.tx_attr, hints.mode, caps)?;
    check.rx(&mut offer.rx_attr, &hints.rx_attr, hints.mode, caps)?;
    check.ep(&mut offer.ep_attr, &offer.domain_attr, &hints.ep_attr, caps)?;
    check.domain(&mut offer.domain_attr, &hints.domain_attr, caps, mr_mode)?;
    offer.fabric_attr.prov_name = provider;
    Ok(())
}

/// Capabilities that are granted only on request; the others are secondary (`fi_getinfo(3)`).
const PRIMARY: Caps = Caps::MSG
    .union(Caps::RMA)
    .union(Caps::TAGGED)
    .union(Caps::ATOMIC)
    .union(Caps::MULTICAST)
    .union(Caps::COLLECTIVE)
    .union(Caps::NAMED_RX_CTX)
    .union(Caps::DIRECTED_RECV)
    .union(Caps::VARIABLE_MSG)
    .union(Caps::HMEM)
    .union(MSG_DIRECTIONS)
    .union(RMA_DIRECTIONS);
const MSG_DIRECTIONS: Caps = Caps::SEND.union(Caps::RECV);
const RMA_TARGET: Caps = Caps::REMOTE_READ.union(Caps::REMOTE_WRITE);
const RMA_DIRECTIONS: Caps = Caps::READ.union(Caps::WRITE).union(RMA_TARGET);

/// Capabilities of the other side, which hints may carry.
const NOT_TX: Caps = RMA_TARGET
    .union(Caps::RECV)
    .union(Caps::DIRECTED_RECV)
    .union(Caps::VARIABLE_MSG)
    .union(Caps::MULTI_RECV)
    .union(Caps::SOURCE)
    .union(Caps::SOURCE_ERR)
    .union(Caps::RMA_EVENT);
const NOT_RX: Caps = Caps::READ
    .union(Caps::WRITE)
    .union(Caps::SEND)
    .union(Caps::FENCE)
    .union(Caps::MULTICAST)
    .union(Caps::NAMED_RX_CTX);

/// The registration modes of before API 1.5, each a whole set of rules.
const PRE_1_5: MrMode = MrMode::BASIC.union(MrMode::SCALABLE);

/// The hint, unless it is a zero, which means "any".
fn set<T: Default + PartialEq>(hint: Option<T>) -> Option<T> {
    hint.filter(|value| *value != T::default())
}

/// The hint if there is one, else what is offered.
fn granted<T: Default + PartialEq>(hint: Option<T>, offered: T) -> T {
    set(hint).unwrap_or(offered)
}

/// The hint's key, if there is one: it has the offered size, which is 0 where there are no keys.
fn grant_key(offered: &mut Vec<u8>, hint: &Option<Vec<u8>>) {
    if let Some(key) = hint.as_ref().filter(|key| !key.is_empty()) {
        offered.clone_from(key);
    }
}

/// The capabilities that come of an offer. A capability without its directions means all directions.
/// Source addresses can slow receives down, so they are not given away.
fn grant(offered: Caps, wanted: Option<Caps>) -> Caps {
    let Some(wanted) = set(wanted) else { return offered };
    let mut caps = (wanted | (offered - PRIMARY - Caps::SOURCE)) & offered;
    if caps.intersects(Caps::MSG | Caps::TAGGED) && !caps.intersects(MSG_DIRECTIONS) {
        caps |= MSG_DIRECTIONS & offered;
    }
    if caps.intersects(Caps::RMA | Caps::ATOMIC) && !caps.intersects(RMA_DIRECTIONS) {
        caps |= RMA_DIRECTIONS & offered;
    }
    caps
}

/// The registration modes, of those a provider demands, that matter to an endpoint with these capabilities.
fn relevant(mut required: MrMode, caps: Caps) -> MrMode {
    required -= PRE_1_5;
    if !caps.contains(Caps::HMEM) {
        required -= MrMode::HMEM;
    }
    let is_target = caps.intersects(Caps::RMA | Caps::ATOMIC) && caps.intersects(RMA_TARGET);
    if is_target {
        required
    } else if required.intersects(MrMode::LOCAL | MrMode::HMEM) {
        required - (MrMode::RAW | MrMode::VIRT_ADDR | MrMode::PROV_KEY | MrMode::RMA_EVENT)
    } else {
        MrMode::empty()
    }
}

/// Whether an address of one format fits the other.
fn compatible(a: AddrFormat, b: AddrFormat) -> bool {
    use AddrFormat::{Sockaddr, SockaddrIn, SockaddrIn6, SockaddrIp, Unspec};
    match (a, b) {
        (Unspec, _) | (_, Unspec) => true,
        (Sockaddr | SockaddrIp, Sockaddr | SockaddrIp | SockaddrIn | SockaddrIn6) => true,
        (SockaddrIn | SockaddrIn6, Sockaddr | SockaddrIp) => true,
        _ => a == b,
    }
}

/// The local address, if an interface with the offered one can serve the wanted one: the same host address or a
/// wildcard, with any port. A missing scope is filled in.
fn source(offered: &Address, wanted: &Address) -> Option<Address> {
    let mut address = wanted.clone();
    let fits = match (offered, &mut address) {
        (Address::Inet(have), Address::Inet(want)) if want.ip().is_unspecified() => {
            have.is_ipv4() == want.is_ipv4()
        }
        (Address::Inet(SocketAddr::V6(have)), Address::Inet(SocketAddr::V6(want))) => {
            if want.scope_id() == 0 {
                want.set_scope_id(have.scope_id());
            }
            (have.ip(), have.scope_id()) == (want.ip(), want.scope_id())
        }
        (Address::Inet(have), Address::Inet(want)) => have.ip() == want.ip(),
        _ => offered == wanted,
    };
    fits.then_some(address)
}

/// Threading models from the most to the least concurrent.
fn threading_rank(threading: Threading) -> Option<u8> {
    match threading {
        Threading::Safe => Some(1),
        Threading::Fid => Some(2),
        Threading::Endpoint => Some(3),
        Threading::Completion => Some(4),
        Threading::Domain => Some(5),
        Threading::Unspec => Some(6),
        Threading::Other(_) => None,
    }
}

/// Progress models from the most to the least automatic.
fn progress_rank(progress: Progress) -> Option<u8> {
    match progress {
        Progress::Auto => Some(1),
        Progress::Manual => Some(2),
        Progress::ControlUnified => Some(3),
        Progress::Unspec => Some(4),
        Progress::Other(_) => None,
    }
}

/// Resource management from the most to the least helpful.
fn resource_mgmt_rank(resource_mgmt: ResourceMgmt) -> Option<u8> {
    match resource_mgmt {
        ResourceMgmt::Enabled => Some(1),
        ResourceMgmt::Disabled => Some(2),
        ResourceMgmt::Unspec => Some(3),
        ResourceMgmt::Other(_) => None,
    }
}

/// Flags as a refusal shows them.
fn list<F: Flags<Bits = u64> + Display>(flags: F) -> String {
    match text(format_args!("{flags}")) {
        names if !names.is_empty() => names,
        _ if flags.bits() == 0 => text(format_args!("none")),
        _ => text(format_args!("{:#x}", flags.bits())),
    }
}

/// The checks, each of one hint against one offered attribute.
struct Check<'a> {
    provider: &'a str,
}

impl Check<'_> {
    fn refuse(
        &self,
        field: &'static str,
        wanted: impl Display,
        found: impl Display,
        remedy: &'static str,
    ) -> Refusal {
        Refusal {
            provider: text(format_args!("{}", self.provider)),
            field,
            wanted: text(format_args!("{wanted}")),
            found: text(format_args!("{found}")),
            remedy,
        }
    }

    fn at_most<T>(&self, field: &'static str, wanted: Option<T>, offered: T) -> Result<(), Refusal>
    where
        T: Copy + Default + PartialOrd + Display,
    {
        match set(wanted) {
            Some(value) if value > offered => {
                Err(self.refuse(field, value, format_args!("offers at most {offered}"), "lower the hint"))
            }
            _ => Ok(()),
        }
    }

    fn same<T>(&self, field: &'static str, wanted: Option<T>, offered: T) -> Result<(), Refusal>
    where
        T: Copy + Default + PartialEq + Display,
    {
        match set(wanted) {
            Some(value) if offered != T::default() && value != offered => {
                let found = format_args!("offers {offered}");
                Err(self.refuse(field, value, found, "ask for that or leave the hint out"))
            }
            _ => Ok(()),
        }
    }

    fn name(&self, field: &'static str, wanted: &Option<String>, offered: &str) -> Result<(), Refusal> {
        match wanted {
            Some(name) if !name.is_empty() && !name.eq_ignore_ascii_case(offered) => {
                let found = format_args!("offers {offered}");
                Err(self.refuse(field, name, found, "ask for that name or leave the hint out"))
            }
            _ => Ok(()),
        }
    }

    /// At least as good as wanted, by rank.
    fn rank<T>(
        &self,
        field: &'static str,
        wanted: Option<T>,
        offered: T,
        rank: fn(T) -> Option<u8>,
    ) -> Result<(), Refusal>
    where
        T: Copy + Default + PartialEq + Display,
    {
        match set(wanted) {
            Some(value) if rank(value).is_none() || rank(value) < rank(offered) => {
                let found = format_args!("offers {offered}");
                Err(self.refuse(field, value, found, "ask for less or leave the hint out"))
            }
            _ => Ok(()),
        }
    }

    /// The provider has all flags that are wanted.
    fn subset<F>(&self, field: &'static str, wanted: Option<F>, offered: F) -> Result<(), Refusal>
    where
        F: Flags<Bits = u64> + Copy + Display,
    {
        match wanted.map(|flags| flags.difference(offered)) {
            Some(missing) if missing.bits() != 0 => {
                let offered = list(offered);
                let found = format_args!("offers {offered}");
                Err(self.refuse(field, list(missing), found, "leave it out of the hint"))
            }
            _ => Ok(()),
        }
    }

    /// The application supports all flags that are required.
    fn supports<F>(&self, field: &'static str, supported: Option<F>, required: F) -> Result<(), Refusal>
    where
        F: Flags<Bits = u64> + Copy + Display,
    {
        match supported {
            Some(flags) if required.difference(flags).bits() != 0 => {
                let required = list(required);
                let found = format_args!("needs {required}");
                Err(self.refuse(field, list(flags), found, "support it and add it to the hint"))
            }
            _ => Ok(()),
        }
    }

    fn auth_key(&self, field: &'static str, key: &Option<Vec<u8>>, size: usize) -> Result<(), Refusal> {
        match key {
            Some(key) if !key.is_empty() && key.len() != size => {
                Err(self.refuse(field, key.len(), format_args!("takes {size}"), "give a key of that size"))
            }
            _ => Ok(()),
        }
    }

    /// A number of contexts per endpoint, own or shared.
    fn contexts(
        &self,
        field: &'static str,
        wanted: Option<usize>,
        offered: usize,
        max: usize,
        max_shared: usize,
    ) -> Result<usize, Refusal> {
        const SHARED: &str = "FI_SHARED_CONTEXT";
        match wanted {
            Some(SHARED_CONTEXT) if max_shared == 0 => {
                return Err(self.refuse(field, SHARED, "cannot share contexts", "ask for a number"));
            }
            Some(SHARED_CONTEXT) | None => {}
            Some(count) if offered == SHARED_CONTEXT => {
                let found = "needs FI_SHARED_CONTEXT";
                return Err(self.refuse(field, count, found, "use a shared context and ask for it"));
            }
            Some(_) => self.at_most(field, wanted, max)?,
        }
        Ok(granted(wanted, offered))
    }

    fn addresses(
        &self,
        offer: &Info,
        hints: &Hints,
    ) -> Result<(AddrFormat, Option<Address>, Option<Address>), Refusal> {
        let mut format = offer.addr_format;
        if let Some(wanted) = set(hints.addr_format) {
            if !compatible(format, wanted) {
                let found = format_args!("offers {format}");
                return Err(self.refuse("addr_format", wanted, found, "ask for that or leave the hint out"));
            }
            if matches!(format, AddrFormat::Unspec | AddrFormat::Sockaddr | AddrFormat::SockaddrIp) {
                format = wanted;
            }
        }
        let mut fit = |field, address: &Option<Address>| match address {
            Some(address) if !compatible(format, address.addr_format()) => {
                let found = format_args!("has {format} here");
                Err(self.refuse(field, address, found, "give an address of that format"))
            }
            Some(address) => {
                format = address.addr_format();
                Ok(())
            }
            None => Ok(()),
        };

        let src_addr = match (&offer.src_addr, &hints.src_addr) {
            (Some(offered), Some(wanted)) => Some(source(offered, wanted).ok_or_else(|| {
                let found = format_args!("offers {offered}");
                self.refuse("src_addr", wanted, found, "use an address of this host's interfaces")
            })?),
            (offered, wanted) => wanted.as_ref().or(offered.as_ref()).cloned(),
        };
        fit("src_addr", &src_addr)?;
        // The offer has a destination if the caller resolved a node, which then takes precedence.
        let dest_addr = offer.dest_addr.as_ref().or(hints.dest_addr.as_ref()).cloned();
        fit("dest_addr", &dest_addr)?;
        Ok((format, src_addr, dest_addr))
    }

    fn mr_mode(&self, offer: &DomainAttr, hints: &Hints, caps: Caps) -> Result<MrMode, Refusal> {
        const FIELD: &str = "domain_attr.mr_mode";
        let before_1_5 = set(hints.fabric_attr.api_version).is_some_and(|asked| asked < Version::new(1, 5));
        let wanted = hints.domain_attr.mr_mode;
        let rules = match wanted {
            Some(wanted) if wanted.intersects(PRE_1_5) => wanted,
            Some(wanted) if before_1_5 && !wanted.is_empty() => wanted,
            _ if before_1_5 && offer.mr_mode.contains(MrMode::BASIC) => MrMode::BASIC,
            _ if before_1_5 => MrMode::SCALABLE,
            _ => {
                let needed = relevant(offer.mr_mode, caps);
                return self.supports(FIELD, wanted, needed).map(|()| needed);
            }
        };
        if (rules == MrMode::BASIC || rules == MrMode::SCALABLE) && offer.mr_mode.contains(rules) {
            return Ok(rules);
        }
        let offered = list(offer.mr_mode & PRE_1_5);
        let found = format_args!("offers {offered}");
        let remedy = "ask for FI_MR_BASIC or FI_MR_SCALABLE alone, or from API 1.5 on for neither";
        Err(self.refuse(FIELD, list(rules), found, remedy))
    }

    fn fabric(&self, offer: &mut FabricAttr, hints: &FabricHints) -> Result<(), Refusal> {
        self.name("fabric_attr.prov_name", &hints.prov_name, self.provider)?;
        self.name("fabric_attr.name", &hints.name, &offer.name)?;
        self.at_most("fabric_attr.prov_version", hints.prov_version, offer.prov_version)?;
        self.at_most("fabric_attr.api_version", hints.api_version, offer.api_version)?;
        offer.api_version = granted(hints.api_version, offer.api_version);
        Ok(())
    }

    fn domain(
        &self,
        offer: &mut DomainAttr,
        hints: &DomainHints,
        caps: Caps,
        mr_mode: MrMode,
    ) -> Result<(), Refusal> {
        self.name("domain_attr.name", &hints.name, &offer.name)?;
        self.rank("domain_attr.threading", hints.threading, offer.threading, threading_rank)?;
        let (control, data) = (offer.control_progress, offer.data_progress);
        self.rank("domain_attr.control_progress", hints.control_progress, control, progress_rank)?;
        self.rank("domain_attr.data_progress", hints.data_progress, data, progress_rank)?;
        self.rank("domain_attr.resource_mgmt", hints.resource_mgmt, offer.resource_mgmt, resource_mgmt_rank)?;
        self.same("domain_attr.av_type", hints.av_type, offer.av_type)?;
        self.at_most("domain_attr.cq_data_size", hints.cq_data_size, offer.cq_data_size)?;
        self.at_most("domain_attr.cntr_cnt", hints.cntr_cnt, offer.cntr_cnt)?;
        self.at_most("domain_attr.mr_iov_limit", hints.mr_iov_limit, offer.mr_iov_limit)?;
        self.subset("domain_attr.caps", hints.caps, offer.caps)?;
        self.supports("domain_attr.mode", hints.mode, offer.mode)?;
        self.auth_key("domain_attr.auth_key_size", &hints.auth_key, offer.auth_key_size)?;
        self.at_most("domain_attr.max_err_data", hints.max_err_data, offer.max_err_data)?;
        self.at_most("domain_attr.mr_cnt", hints.mr_cnt, offer.mr_cnt)?;
        offer.threading = granted(hints.threading, offer.threading);
        offer.control_progress = granted(hints.control_progress, offer.control_progress);
        offer.data_progress = granted(hints.data_progress, offer.data_progress);
        offer.av_type = granted(hints.av_type, offer.av_type);
        offer.mr_mode = mr_mode;
        offer.caps = grant(offer.caps, set(hints.caps).or(Some(caps)));
        grant_key(&mut offer.auth_key, &hints.auth_key);
        Ok(())
    }

    fn ep(&self, ep: &mut EpAttr, domain: &DomainAttr, hints: &EpHints, caps: Caps) -> Result<(), Refusal> {
        self.same("ep_attr.protocol", hints.protocol, ep.protocol)?;
        self.at_most("ep_attr.protocol_version", hints.protocol_version, ep.protocol_version)?;
        self.at_most("ep_attr.max_msg_size", hints.max_msg_size, ep.max_msg_size)?;
        self.auth_key("ep_attr.auth_key_size", &hints.auth_key, ep.auth_key_size)?;
        ep.tx_ctx_cnt = self.contexts(
            "ep_attr.tx_ctx_cnt",
            hints.tx_ctx_cnt,
            ep.tx_ctx_cnt,
            domain.max_ep_tx_ctx,
            domain.max_ep_stx_ctx,
        )?;
        ep.rx_ctx_cnt = self.contexts(
            "ep_attr.rx_ctx_cnt",
            hints.rx_ctx_cnt,
            ep.rx_ctx_cnt,
            domain.max_ep_rx_ctx,
            domain.max_ep_srx_ctx,
        )?;
        grant_key(&mut ep.auth_key, &hints.auth_key);
        if caps.intersects(Caps::RMA | Caps::ATOMIC) {
            self.at_most("ep_attr.max_order_raw_size", hints.max_order_raw_size, ep.max_order_raw_size)?;
            self.at_most("ep_attr.max_order_war_size", hints.max_order_war_size, ep.max_order_war_size)?;
            self.at_most("ep_attr.max_order_waw_size", hints.max_order_waw_size, ep.max_order_waw_size)?;
            ep.max_order_raw_size = granted(hints.max_order_raw_size, ep.max_order_raw_size);
            ep.max_order_war_size = granted(hints.max_order_war_size, ep.max_order_war_size);
            ep.max_order_waw_size = granted(hints.max_order_waw_size, ep.max_order_waw_size);
        }
        if caps.contains(Caps::TAGGED) {
            let wanted = hints.mem_tag_format.unwrap_or(0);
            if wanted.leading_zeros() < ep.mem_tag_format.leading_zeros() {
                let found = format_args!("offers at most {:#018x}", ep.mem_tag_format);
                let wanted = format_args!("{wanted:#018x}");
                return Err(self.refuse("ep_attr.mem_tag_format", wanted, found, "use fewer tag bits"));
            }
        }
        Ok(())
    }

    fn tx(&self, offer: &mut TxAttr, hints: &TxHints, mode: Option<Mode>, caps: Caps) -> Result<(), Refusal> {
        let wanted = hints.caps.map(|wanted| wanted - NOT_TX);
        self.subset("tx_attr.caps", wanted, offer.caps)?;
        self.supports("tx_attr.mode", set(hints.mode).or(mode), offer.mode)?;
        self.subset("tx_attr.op_flags", hints.op_flags, offer.op_flags)?;
        self.subset("tx_attr.msg_order", hints.msg_order, offer.msg_order)?;
        self.subset("tx_attr.comp_order", hints.comp_order, offer.comp_order)?;
        self.at_most("tx_attr.inject_size", hints.inject_size, offer.inject_size)?;
        self.at_most("tx_attr.size", hints.size, offer.size)?;
        self.at_most("tx_attr.iov_limit", hints.iov_limit, offer.iov_limit)?;
        self.at_most("tx_attr.rma_iov_limit", hints.rma_iov_limit, offer.rma_iov_limit)?;
        offer.caps = grant(offer.caps, set(wanted).or(Some(caps)));
        offer.op_flags = hints.op_flags.unwrap_or_default();
        offer.inject_size = granted(hints.inject_size, offer.inject_size);
        offer.size = granted(hints.size, offer.size);
        offer.iov_limit = granted(hints.iov_limit, offer.iov_limit);
        offer.rma_iov_limit = granted(hints.rma_iov_limit, offer.rma_iov_limit);
        Ok(())
    }

    fn rx(&self, offer: &mut RxAttr, hints: &RxHints, mode: Option<Mode>, caps: Caps) -> Result<(), Refusal> {
        let wanted = hints.caps.map(|wanted| wanted - NOT_RX);
        self.subset("rx_attr.caps", wanted, offer.caps)?;
        self.supports("rx_attr.mode", set(hints.mode).or(mode), offer.mode)?;
        self.subset("rx_attr.op_flags", hints.op_flags, offer.op_flags)?;
        self.subset("rx_attr.msg_order", hints.msg_order, offer.msg_order)?;
        self.subset("rx_attr.comp_order", hints.comp_order, offer.comp_order)?;
        let buffered = offer.total_buffered_recv;
        self.at_most("rx_attr.total_buffered_recv", hints.total_buffered_recv, buffered)?;
        self.at_most("rx_attr.size", hints.size, offer.size)?;
        self.at_most("rx_attr.iov_limit", hints.iov_limit, offer.iov_limit)?;
        offer.caps = grant(offer.caps, set(wanted).or(Some(caps)));
        offer.op_flags = hints.op_flags.unwrap_or_default();
        offer.total_buffered_recv = granted(hints.total_buffered_recv, buffered);
        offer.size = granted(hints.size, offer.size);
        offer.iov_limit = granted(hints.iov_limit, offer.iov_limit);
        Ok(())
    }
}
