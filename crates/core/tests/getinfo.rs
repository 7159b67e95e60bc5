// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Offers, hints and what comes of them, tried on infos like those of libfabric's `tcp` provider.
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

mod offers;

use kofi_core::{
    AddrFormat, Address, AvType, Caps, EpType, Hints, Info, Mode, MrMode, OpFlags, Order, Progress, Protocol,
    Refusal, Threading, Version,
    info::{SHARED_CONTEXT, TxAttr},
    negotiate,
};
use offers::{
    NUMBERS, Number, OTHERS, REACH, demanding_offer, some_hints, tagged_offer, tcp_offer, tighten, varied,
};
use proptest::prelude::*;

fn refusal(offer: &Info, hints: &Hints) -> Refusal {
    negotiate(offer, hints).unwrap_err()
}

/// The field that an adjusted set of hints fails at, or "" if it does not.
fn refused_field(offer: &Info, adjust: impl FnOnce(&mut Hints)) -> &'static str {
    let mut hints = Hints::new();
    adjust(&mut hints);
    negotiate(offer, &hints).err().map_or("", |refusal| refusal.field)
}

/// What `fi_info -t FI_EP_MSG` asks for; the queue sizes are the defaults of `tcp`.
fn fi_info_hints() -> Hints {
    Hints::new()
        .endpoint_type(EpType::Msg)
        .mode(Mode::all())
        .mr_mode(MrMode::all() - MrMode::BASIC - MrMode::SCALABLE)
        .queue_sizes(256, 256)
}

#[test]
fn prints_what_fi_info_prints() {
    let ipv4 = negotiate(&tcp_offer(), &fi_info_hints()).unwrap();
    let mut ipv6 = ipv4.clone();
    ipv6.caps -= Caps::REMOTE_COMM;
    ipv6.addr_format = AddrFormat::SockaddrIn6;
    ipv6.src_addr = Some("[::1]:0".parse().unwrap());
    ipv6.domain_attr.name = "lo".into();
    ipv6.fabric_attr.name = "::1/128".into();
    assert_eq!(format!("---\n{ipv4}---\n{ipv6}"), include_str!("data/fi_info-tcp-msg.txt"));
}

#[test]
fn prints_parts_and_rare_values() {
    let info = negotiate(&tagged_offer(), &Hints::new()).unwrap();
    assert!(info.to_string().contains("        rx_ctx_cnt: FI_SHARED_CONTEXT\n"));
    assert!(info.to_string().contains("        mem_tag_format: 0x00aaaaaaaaaaaaaa\n"));
    assert!(info.ep_attr.to_string().starts_with("fi_ep_attr:\n    type: FI_EP_MSG\n"));
    let comp_order = |comp_order| TxAttr { comp_order, ..TxAttr::default() }.to_string();
    assert!(comp_order(Order::empty()).contains("comp_order: [ FI_ORDER_NONE ]\n"));
    assert!(
        comp_order(Order::STRICT | Order::DATA).contains("comp_order: [ FI_ORDER_STRICT, FI_ORDER_DATA ]\n")
    );
    assert!(comp_order(Order::SAS | Order::DATA).contains("comp_order: [ FI_ORDER_DATA ]\n"));
    let handle = Info { handle: Some(0x2a), ..Info::default() };
    assert!(handle.to_string().contains("    handle: 0x2a\n"));
}

#[test]
fn primary_capabilities_are_granted_on_request_only() {
    let granted = |caps| negotiate(&tcp_offer(), &Hints::new().caps(caps)).unwrap();
    let secondary = Caps::RMA_PMEM | Caps::RMA_EVENT | REACH;
    let msg = granted(Caps::MSG);
    assert_eq!(msg.caps, Caps::MSG | Caps::SEND | Caps::RECV | secondary);
    assert_eq!(msg.tx_attr.caps, Caps::MSG | Caps::SEND | Caps::RMA_PMEM);
    assert_eq!(msg.rx_attr.caps, Caps::MSG | Caps::RECV | Caps::RMA_PMEM | Caps::RMA_EVENT);
    assert_eq!(granted(Caps::MSG | Caps::SEND).caps, Caps::MSG | Caps::SEND | secondary);
    assert_eq!(granted(Caps::RMA | Caps::WRITE).caps, Caps::RMA | Caps::WRITE | secondary);
    assert_eq!(granted(Caps::empty()).caps, tcp_offer().caps);
    // A side that is not asked for keeps its own directions, as in libfabric.
    assert_eq!(granted(Caps::MSG | Caps::RECV).tx_attr.caps, Caps::MSG | Caps::SEND | Caps::RMA_PMEM);

    let refusal = refusal(&tcp_offer(), &Hints::new().caps(Caps::MSG | Caps::TAGGED));
    assert_eq!((refusal.field, refusal.wanted.as_str()), ("caps", "FI_TAGGED"));
}

#[test]
fn source_addresses_are_granted_on_request_only() {
    let mut offer = tcp_offer();
    offer.caps |= Caps::SOURCE;
    assert!(!negotiate(&offer, &Hints::new().caps(Caps::MSG)).unwrap().caps.contains(Caps::SOURCE));
    assert!(
        negotiate(&offer, &Hints::new().caps(Caps::MSG | Caps::SOURCE)).unwrap().caps.contains(Caps::SOURCE)
    );
}

#[test]
fn capabilities_of_the_other_side_are_ignored() {
    let mut hints = Hints::new();
    hints.tx_attr.caps = Some(Caps::MSG | Caps::SEND | Caps::RECV | Caps::SOURCE);
    hints.rx_attr.caps = Some(Caps::MSG | Caps::SEND | Caps::RECV | Caps::FENCE);
    let info = negotiate(&tcp_offer(), &hints).unwrap();
    assert_eq!(info.tx_attr.caps, Caps::MSG | Caps::SEND | Caps::RMA_PMEM);
    assert_eq!(info.rx_attr.caps, Caps::MSG | Caps::RECV | Caps::RMA_PMEM | Caps::RMA_EVENT);
}

/// The table of `mr_mode` values that was measured with libfabric's `tcp`.
#[test]
fn mr_mode_follows_the_api_version() {
    let (old, new) = (Version::new(1, 4), Version::new(1, 5));
    let (basic, scalable, none) = (MrMode::BASIC, MrMode::SCALABLE, MrMode::empty());
    let granted = |version, mr_mode| {
        let hints = Hints::new().api_version(version).mr_mode(mr_mode);
        negotiate(&tcp_offer(), &hints).map(|info| info.domain_attr.mr_mode).map_err(|refusal| refusal.field)
    };
    let refused = Err("domain_attr.mr_mode");
    assert_eq!(granted(new, none), Ok(none));
    assert_eq!(granted(new, MrMode::LOCAL | MrMode::VIRT_ADDR | MrMode::PROV_KEY), Ok(none));
    assert_eq!(granted(new, basic), Ok(basic));
    assert_eq!(granted(new, scalable), Ok(scalable));
    assert_eq!(granted(new, basic | scalable), refused);
    assert_eq!(granted(new, basic | MrMode::LOCAL), refused);
    assert_eq!(granted(old, none), Ok(basic));
    assert_eq!(granted(old, basic), Ok(basic));
    assert_eq!(granted(old, scalable), Ok(scalable));
    assert_eq!(granted(old, MrMode::LOCAL), refused);
}

#[test]
fn demands_are_made_only_where_they_matter() {
    let offer = demanding_offer();
    let all = MrMode::LOCAL | MrMode::VIRT_ADDR | MrMode::PROV_KEY;
    let granted = |hints: Hints| negotiate(&offer, &hints).map(|info| info.domain_attr.mr_mode).ok();
    assert_eq!(granted(Hints::new()), Some(all));
    assert_eq!(granted(Hints::new().mr_mode(all)), Some(all));
    assert_eq!(granted(Hints::new().mr_mode(MrMode::LOCAL)), None);
    assert_eq!(granted(Hints::new().mr_mode(MrMode::LOCAL).caps(Caps::MSG)), Some(MrMode::LOCAL));
    assert_eq!(
        granted(Hints::new().mr_mode(MrMode::LOCAL).caps(Caps::RMA | Caps::READ)),
        Some(MrMode::LOCAL)
    );

    let basic = Hints::new().mr_mode(MrMode::BASIC);
    assert_eq!(negotiate(&offer, &basic).unwrap().mode, Mode::CONTEXT | Mode::LOCAL_MR);
    assert_eq!(refusal(&offer, &basic.mode(Mode::CONTEXT)).field, "mode");
}

#[test]
fn modes_have_to_be_supported() {
    let offer = demanding_offer();
    assert_eq!(negotiate(&offer, &Hints::new()).unwrap().mode, Mode::CONTEXT);
    assert_eq!(negotiate(&offer, &Hints::new().mode(Mode::all())).unwrap().mode, Mode::CONTEXT);
    assert_eq!(
        refusal(&offer, &Hints::new().mode(Mode::empty())).to_string(),
        "wanted mode none, verbs needs FI_CONTEXT; support it and add it to the hint"
    );
    assert_eq!(
        refused_field(&offer, |hints| hints.domain_attr.mode = Some(Mode::empty())),
        "domain_attr.mode"
    );
}

#[test]
fn weaker_models_are_granted_and_stronger_ones_refused() {
    let info = negotiate(&tcp_offer(), &Hints::new().threading(Threading::Domain).progress(Progress::Manual));
    let domain = info.unwrap().domain_attr;
    assert_eq!(domain.threading, Threading::Domain);
    assert_eq!((domain.control_progress, domain.data_progress), (Progress::Manual, Progress::Manual));

    let offer = demanding_offer();
    let field = |hints: Hints| refusal(&offer, &hints).field;
    assert_eq!(field(Hints::new().threading(Threading::Completion)), "domain_attr.threading");
    assert_eq!(field(Hints::new().threading(Threading::Other(77))), "domain_attr.threading");
    assert_eq!(field(Hints::new().progress(Progress::Auto)), "domain_attr.data_progress");
    assert_eq!(
        refused_field(&offer, |hints| hints.domain_attr.av_type = Some(AvType::Map)),
        "domain_attr.av_type"
    );
}

#[test]
fn contexts_are_own_or_shared() {
    let rx_ctx_cnt = |offer: &Info, count| {
        let mut hints = Hints::new();
        hints.ep_attr.rx_ctx_cnt = count;
        negotiate(offer, &hints).map(|info| info.ep_attr.rx_ctx_cnt).map_err(|refusal| refusal.field)
    };
    let refused = Err("ep_attr.rx_ctx_cnt");
    assert_eq!(rx_ctx_cnt(&tcp_offer(), Some(0)), Ok(1));
    assert_eq!(rx_ctx_cnt(&tcp_offer(), Some(2)), refused);
    assert_eq!(rx_ctx_cnt(&tcp_offer(), Some(SHARED_CONTEXT)), Ok(SHARED_CONTEXT));
    assert_eq!(rx_ctx_cnt(&tagged_offer(), None), Ok(SHARED_CONTEXT));
    assert_eq!(rx_ctx_cnt(&tagged_offer(), Some(SHARED_CONTEXT)), Ok(SHARED_CONTEXT));
    assert_eq!(rx_ctx_cnt(&tagged_offer(), Some(0)), refused);
    assert_eq!(rx_ctx_cnt(&tagged_offer(), Some(1)), refused);
    let shared_tx = |hints: &mut Hints| hints.ep_attr.tx_ctx_cnt = Some(SHARED_CONTEXT);
    assert_eq!(refused_field(&tcp_offer(), shared_tx), "ep_attr.tx_ctx_cnt");
}

#[test]
fn addresses_mean_what_they_say() {
    let mut any = tcp_offer();
    any.addr_format = AddrFormat::Sockaddr;
    any.src_addr = None;
    let address = |text: &str| text.parse::<Address>().unwrap();
    let granted = |offer: &Info, hints: &Hints| {
        negotiate(offer, hints)
            .map(|info| (info.addr_format, info.src_addr, info.dest_addr))
            .map_err(|r| r.field)
    };
    let (v4, v6) = (AddrFormat::SockaddrIn, AddrFormat::SockaddrIn6);

    // The format alone.
    for format in [AddrFormat::Sockaddr, AddrFormat::SockaddrIp, v4, v6] {
        assert_eq!(granted(&any, &Hints::new().addr_format(format)), Ok((format, None, None)));
    }
    assert_eq!(granted(&any, &Hints::new().addr_format(AddrFormat::Str)), Err("addr_format"));
    assert_eq!(granted(&tcp_offer(), &Hints::new().addr_format(v6)), Err("addr_format"));

    // Source: its port is kept, its host address must be the interface's.
    let source = |text| Hints::new().source(address(text));
    let src = |text| Ok((address(text).addr_format(), Some(address(text)), None));
    assert_eq!(granted(&any, &source("[2001:db8::1]:7")), src("[2001:db8::1]:7"));
    assert_eq!(granted(&tcp_offer(), &source("192.0.2.1:5000")), src("192.0.2.1:5000"));
    assert_eq!(granted(&tcp_offer(), &source("0.0.0.0:5000")), src("0.0.0.0:5000"));
    for wrong in ["192.0.2.2:0", "[::1]:0", "[::]:0", "fi_shm://1"] {
        assert_eq!(granted(&tcp_offer(), &source(wrong)), Err("src_addr"), "{wrong}");
    }
    assert_eq!(granted(&any, &source("127.0.0.1:0").addr_format(v6)), Err("src_addr"));

    // Link-local source: the scope is kept, or the interface's.
    let mut link_local = tcp_offer();
    link_local.addr_format = v6;
    link_local.src_addr = Some(address("[fe80::1%2]:0"));
    assert_eq!(granted(&link_local, &source("[fe80::1%2]:5")), src("[fe80::1%2]:5"));
    assert_eq!(granted(&link_local, &source("[fe80::1]:5")), src("[fe80::1%2]:5"));
    assert_eq!(granted(&link_local, &source("[fe80::1%3]:5")), Err("src_addr"));

    // Destination: the hint's, unless a node was resolved into the offer.
    let dest = Hints::new().dest(address("192.0.2.9:80"));
    assert_eq!(granted(&tcp_offer(), &dest), Ok((v4, tcp_offer().src_addr, dest.dest_addr.clone())));
    assert_eq!(granted(&link_local, &dest), Err("dest_addr"));
    let resolved = Info { dest_addr: Some(address("192.0.2.8:80")), ..tcp_offer() };
    assert_eq!(granted(&resolved, &dest).unwrap().2, resolved.dest_addr);
}

#[test]
fn refusals_say_why_and_what_to_do() {
    let mut offer = tcp_offer();
    offer.ep_attr.max_msg_size = 1 << 30;
    assert_eq!(
        refusal(&offer, &Hints::new().max_msg_size(usize::MAX - 1)).to_string(),
        "wanted ep_attr.max_msg_size 18446744073709551614, tcp offers at most 1073741824; lower the hint"
    );
    assert_eq!(refusal(&offer, &Hints::new().provider("verbs")).field, "fabric_attr.prov_name");
    assert!(negotiate(&offer, &Hints::new().provider("TCP").domain("ETH0").fabric("192.0.2.0/24")).is_ok());
    assert_eq!(refusal(&offer, &Hints::new().domain("eth1")).field, "domain_attr.name");
    assert_eq!(refusal(&offer, &Hints::new().fabric("192.0.3.0/24")).field, "fabric_attr.name");
    assert_eq!(refusal(&offer, &Hints::new().endpoint_type(EpType::Rdm)).field, "ep_attr.type");
    assert_eq!(refusal(&offer, &Hints::new().protocol(Protocol::Shm)).field, "ep_attr.protocol");
    assert_eq!(
        refusal(&offer, &Hints::new().api_version(Version::new(2, 0))).field,
        "fabric_attr.api_version"
    );
    let unnamed = refusal(&offer, &Hints::new().caps(Caps::from_bits_retain(1 << 62)));
    assert_eq!((unnamed.field, unnamed.wanted.as_str()), ("caps", "0x4000000000000000"));
}

#[test]
fn flags_beyond_the_offer_are_refused_by_name() {
    let offer = tcp_offer();
    let field = |adjust: fn(&mut Hints)| refused_field(&offer, adjust);
    assert_eq!(field(|h| h.tx_attr.caps = Some(Caps::ATOMIC)), "tx_attr.caps");
    assert_eq!(field(|h| h.rx_attr.caps = Some(Caps::ATOMIC)), "rx_attr.caps");
    assert_eq!(field(|h| h.domain_attr.caps = Some(Caps::SHARED_AV)), "domain_attr.caps");
    assert_eq!(field(|h| h.tx_attr.op_flags = Some(OpFlags::FENCE)), "tx_attr.op_flags");
    assert_eq!(field(|h| h.rx_attr.op_flags = Some(OpFlags::MULTI_RECV)), "rx_attr.op_flags");
    assert_eq!(field(|h| h.tx_attr.msg_order = Some(Order::WAR)), "tx_attr.msg_order");
    assert_eq!(field(|h| h.rx_attr.msg_order = Some(Order::WAR)), "rx_attr.msg_order");
    assert_eq!(field(|h| h.tx_attr.comp_order = Some(Order::DATA)), "tx_attr.comp_order");
    assert_eq!(field(|h| h.rx_attr.comp_order = Some(Order::DATA)), "rx_attr.comp_order");
    assert_eq!(field(|h| h.tx_attr.comp_order = Some(Order::STRICT)), "");
    assert_eq!(field(|h| h.ep_attr.auth_key = Some(vec![0; 4])), "ep_attr.auth_key_size");
    assert_eq!(field(|h| h.domain_attr.auth_key = Some(vec![0; 4])), "domain_attr.auth_key_size");
    let offer = demanding_offer();
    assert_eq!(refused_field(&offer, |h| h.ep_attr.auth_key = Some(vec![0; 4])), "");
    assert_eq!(
        refused_field(&offer, |h| h.ep_attr.mem_tag_format = Some(u64::MAX)),
        "",
        "no tags, no matter"
    );
}

/// Offers with other numbers and capabilities than `tcp`'s.
fn offer() -> impl Strategy<Value = Info> {
    let kind = prop_oneof![Just(tcp_offer()), Just(tagged_offer()), Just(demanding_offer())];
    let number = prop_oneof![0..10usize, 0..100_000usize];
    (kind, proptest::collection::vec(number, 12), any::<u64>())
        .prop_map(|(offer, numbers, caps)| varied(offer, &numbers, caps))
}

fn choice() -> impl Strategy<Value = (usize, u64)> {
    // Not the last one: an API version before 1.5 has other rules.
    (0..OTHERS.len() + NUMBERS.len() - 1, prop_oneof![Just(u64::MAX), any::<u64>(), 0..20u64])
}

proptest! {
    #[test]
    fn an_offer_matches_without_hints(offer in offer()) {
        let info = negotiate(&offer, &Hints::new()).unwrap();
        prop_assert_eq!(info.caps, offer.caps);
    }

    #[test]
    fn a_result_as_hints_gives_that_result_again(
        offer in offer(),
        caps in proptest::option::of(any::<u64>()),
        choices in proptest::collection::vec(choice(), 0..4),
    ) {
        let mut hints = some_hints(&choices);
        hints.caps = caps.map(|caps| Caps::from_bits_truncate(caps) & offer.caps);
        if let Ok(info) = negotiate(&offer, &hints) {
            prop_assert_eq!(negotiate(&offer, &Hints::from(&info)), Ok(info.clone()));
            prop_assert_eq!(negotiate(&info, &Hints::from(&info)), Ok(info));
        }
    }

    #[test]
    fn a_number_above_the_offer_is_refused_by_name(offer in offer(), index in 0..NUMBERS.len(), over in 1..9usize) {
        let Number(name, set, limit) = NUMBERS[index];
        // FI_SHARED_CONTEXT demands what no number of own contexts meets.
        let needs_shared = name == "ep_attr.rx_ctx_cnt" && offer.ep_attr.rx_ctx_cnt == SHARED_CONTEXT;
        let mut at_limit = Hints::new();
        set(&mut at_limit, limit(&offer));
        prop_assert_eq!(negotiate(&offer, &at_limit).is_ok(), !needs_shared);
        if let Some(number) = limit(&offer).checked_add(over) {
            let mut above = Hints::new();
            set(&mut above, number);
            prop_assert_eq!(refusal(&offer, &above).field, name);
        }
    }

    #[test]
    fn one_more_hint_never_turns_a_refusal_into_a_match(
        offer in offer(),
        choices in proptest::collection::vec(choice(), 1..5),
        more in choice(),
    ) {
        let mut hints = some_hints(&choices);
        let before = negotiate(&offer, &hints);
        tighten(&mut hints, more);
        prop_assert!(before.is_ok() || negotiate(&offer, &hints).is_err());
    }
}
