// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What an application asks for: texts that are addresses, flags and names, and hints against offers.
//!
//! Input: script and stream. The script makes an offer and hints, the stream is a text.

use core::fmt::{Debug, Display};
use core::str::FromStr;

use kofi_core::{
    AddrFormat, Address, AvType, Caps, EpType, Hints, Info, Mode, MrMode, OpFlags, Order, Progress, Protocol,
    ResourceMgmt, Threading, Version, negotiate,
};

use crate::offers::{NUMBERS, OTHERS, demanding_offer, tagged_offer, tcp_offer, tighten, varied};
use crate::script::Script;

/// Runs one input.
pub fn run(data: &[u8]) {
    let (mut script, stream) = Script::and_stream(data);
    if let Ok(text) = core::str::from_utf8(stream) {
        texts(text);
    }
    let text = String::from_utf8_lossy(stream);
    let offer = offer(&mut script);
    assert_eq!(negotiate(&offer, &Hints::new()).expect("no hints").caps, offer.caps);

    let mut hints = Hints::new();
    let mut refused = false;
    let mut steps = 0;
    while !script.is_empty() && steps < 64 {
        steps += 1;
        let old = widen(&mut hints, &mut script, &text);
        match negotiate(&offer, &hints) {
            Ok(info) => {
                // One more hint never turns a refusal into a match, as far as it is one more.
                let rules = hints.fabric_attr.api_version.is_none_or(|asked| asked >= Version::new(1, 5));
                assert!(!refused || old || !rules, "{hints:?}");
                refused = false;
                granted(&offer, &info, &hints);
            }
            Err(refusal) => {
                refused = !old;
                assert!(!refusal.field.is_empty() && !refusal.remedy.is_empty());
                assert!(refusal.to_string().contains(refusal.field));
            }
        }
    }
}

fn offer(script: &mut Script<'_>) -> Info {
    let which = script.byte();
    let offer = match which % 3 {
        0 => tcp_offer(),
        1 => tagged_offer(),
        _ => demanding_offer(),
    };
    if which < 128 {
        return offer;
    }
    let numbers: Vec<usize> = (0..12).map(|_| script.length()).collect();
    varied(offer, &numbers, script.u64())
}

/// One more hint; whether it may change what others mean.
fn widen(hints: &mut Hints, script: &mut Script<'_>, text: &str) -> bool {
    let which = usize::from(script.byte()) % 64;
    let value = match script.byte() {
        0 => script.u64(),
        1 => u64::MAX,
        small => u64::from(small) - 2,
    };
    // The last number is the API's version: before 1.5 there are other rules.
    let plain = OTHERS.len() + NUMBERS.len() - 1;
    if which < plain {
        tighten(hints, (which, value));
        return false;
    }
    match which - plain {
        0 => hints.fabric_attr.api_version = Some(Version::from_raw(value as u32)),
        1 => hints.caps = Some(Caps::from_bits_retain(value)),
        2 => hints.tx_attr.caps = Some(Caps::from_bits_retain(value)),
        3 => hints.rx_attr.caps = Some(Caps::from_bits_retain(value)),
        4 => hints.domain_attr.caps = Some(Caps::from_bits_retain(value)),
        5 => hints.domain_attr.mr_mode = Some(MrMode::from_bits_retain(value)),
        6 => hints.src_addr = text.parse().ok(),
        7 => hints.dest_addr = text.parse().ok(),
        8 => hints.fabric_attr.name = Some(text.to_owned()),
        9 => hints.fabric_attr.prov_name = Some(text.to_owned()),
        10 => hints.domain_attr.name = Some(text.to_owned()),
        11 => hints.ep_attr.auth_key = Some(text.as_bytes().to_owned()),
        12 => hints.domain_attr.auth_key = Some(text.as_bytes().to_owned()),
        13 => hints.tx_attr.op_flags = Some(OpFlags::from_bits_retain(value)),
        14 => hints.tx_attr.comp_order = Some(Order::from_bits_retain(value)),
        15 => hints.ep_attr.tx_ctx_cnt = Some(value as usize),
        16 => hints.mode = Some(Mode::from_bits_retain(value)),
        17 => hints.handle = Some(value),
        _ => {}
    }
    true
}

/// What holds for all that is granted.
fn granted(offer: &Info, info: &Info, hints: &Hints) {
    assert!(offer.caps.contains(info.caps));
    assert!(hints.caps.is_none_or(|caps| info.caps.contains(caps)));
    assert!(hints.mode.is_none_or(|mode| mode.contains(info.mode)));
    assert!(info.tx_attr.size <= offer.tx_attr.size && info.rx_attr.size <= offer.rx_attr.size);
    assert!(info.tx_attr.inject_size <= offer.tx_attr.inject_size);
    assert!(info.ep_attr.max_msg_size <= offer.ep_attr.max_msg_size);
    for address in [&info.src_addr, &info.dest_addr].into_iter().flatten() {
        assert_eq!(address.addr_format(), info.addr_format);
        assert!(address.c_len() > 0);
    }
    assert!(info.to_string().starts_with("fi_info:\n"));
    // A result as hints gives that result again.
    let again = Hints::from(info);
    assert_eq!(negotiate(offer, &again).as_ref(), Ok(info));
    assert_eq!(negotiate(info, &again).as_ref(), Ok(info));
}

/// What reads as `T` reads the same again once it is written.
fn round_trip<T: FromStr + Display + PartialEq + Debug>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let written = value.to_string();
        assert_eq!(written.parse().ok(), Some(value), "{written:?}");
    }
}

fn texts(text: &str) {
    round_trip::<Address>(text);
    round_trip::<Caps>(text);
    round_trip::<Mode>(text);
    round_trip::<MrMode>(text);
    round_trip::<OpFlags>(text);
    round_trip::<Order>(text);
    round_trip::<EpType>(text);
    round_trip::<AddrFormat>(text);
    round_trip::<Protocol>(text);
    round_trip::<Threading>(text);
    round_trip::<Progress>(text);
    round_trip::<ResourceMgmt>(text);
    round_trip::<AvType>(text);
    if let Ok(address) = text.parse::<Address>() {
        assert!(address.socket_addr().is_some() || matches!(address, Address::Str(_)));
    }
}
