// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The event queue against a model: one list of entries, and a count of those that need room.
#![expect(clippy::unwrap_used, reason = "in a test it is an assertion")]

use core::net::{IpAddr, Ipv4Addr};
use std::collections::VecDeque;

use kofi_core::attr::EqAttr;
use kofi_core::event_queue::MAX_WRITTEN;
use kofi_core::wire::cm;
use kofi_core::*;
use proptest::collection::vec;
use proptest::prelude::*;

const ADDR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
const PASSIVE: Fid = Fid(99);

/// Ids of connection requests, as a passive endpoint gives them.
fn requests(count: usize) -> Vec<RequestId> {
    let mut pep = PassiveEndpoint::new(TimeLimits::default());
    let now = Instant::from_nanos(0);
    let request = cm::message("test", cm::Kind::Request, b"").unwrap();
    let ids: Vec<_> = (0..count).map(|_| pep.accepted(ADDR, ADDR, now).unwrap()).collect();
    for &id in &ids {
        pep.received(id, &request, now);
    }
    ids
}

fn request(request: RequestId) -> Event {
    Event::ConnectionRequest { request, local: ADDR, peer: ADDR, data: b"data".to_vec() }
}

#[derive(Clone, Debug)]
enum Action {
    /// A connection request, if there is room as the contract demands.
    Request,
    Write {
        len: usize,
        flags: OpFlags,
    },
    Bind,
    /// What comes next of an endpoint's life: how it began, or how it ended.
    Endpoint {
        which: usize,
        fails: bool,
    },
    Close(usize),
    Withdraw(usize),
    ClosePassive,
    Read,
    ReadError,
}

fn action() -> impl Strategy<Value = Action> {
    let flags = prop_oneof![9 => Just(OpFlags::empty()), 1 => Just(OpFlags::WRITE)];
    let len = prop_oneof![9 => 0..100usize, 1 => MAX_WRITTEN - 1..MAX_WRITTEN + 2];
    prop_oneof![
        4 => Just(Action::Request),
        4 => (len, flags).prop_map(|(len, flags)| Action::Write { len, flags }),
        2 => Just(Action::Bind),
        4 => any::<(usize, bool)>().prop_map(|(which, fails)| Action::Endpoint { which, fails }),
        1 => any::<usize>().prop_map(Action::Close),
        1 => any::<usize>().prop_map(Action::Withdraw),
        1 => Just(Action::ClosePassive),
        4 => Just(Action::Read),
        4 => Just(Action::ReadError),
    ]
}

proptest! {
    #[test]
    fn it_does_what_a_list_does(
        size in 1usize..6,
        writable: bool,
        actions in vec(action(), 1..150),
    ) {
        let flags = if writable { OpFlags::WRITE } else { OpFlags::empty() };
        let mut queue = EventQueue::open(&EqAttr { size, flags, ..EqAttr::default() }).unwrap();
        let mut model: VecDeque<Entry> = VecDeque::new();
        let ids = requests(200);
        let mut next_id = ids.iter();
        // Endpoints that are bound, and the events they have had.
        let mut endpoints: Vec<(Fid, u8)> = Vec::new();
        let mut fids = 0..;
        let needs_room = |entry: &&Entry| {
            matches!(entry.event, Event::ConnectionRequest { .. } | Event::Application { .. })
        };
        queue.bind_passive();

        for action in actions {
            let room = size - model.iter().filter(needs_room).count();
            prop_assert_eq!(queue.room(), room);
            match action {
                Action::Request if room > 0 => {
                    let entry = Entry { fid: PASSIVE, event: request(*next_id.next().unwrap()) };
                    model.push_back(entry.clone());
                    queue.push(entry);
                }
                Action::Request => {}
                Action::Write { len, flags } => {
                    let bytes = vec![7; len];
                    let wanted = match () {
                        () if !writable => Err(Errno::EINVAL),
                        () if !flags.is_empty() => Err(Errno::EBADFLAGS),
                        () if len > MAX_WRITTEN => Err(Errno::EINVAL),
                        () if room == 0 => Err(Errno::EOVERRUN),
                        () => Ok(len),
                    };
                    let found = queue.write(Fid(5), 1000, &bytes, flags);
                    prop_assert_eq!(found.map_err(|error| error.errno()), wanted);
                    if wanted.is_ok() {
                        let event = Event::Application { event: 1000, entry: bytes };
                        model.push_back(Entry { fid: Fid(5), event });
                    }
                }
                Action::Bind => {
                    queue.bind_endpoint().unwrap();
                    endpoints.push((Fid(1000 + fids.next().unwrap()), 0));
                }
                Action::Endpoint { which, fails } => {
                    let len = endpoints.len().max(1);
                    if let Some((fid, events)) = endpoints.get_mut(which % len) {
                        let event = match *events {
                            0 if fails => Event::Error { reason: Reason::Rejected, data: b"no".to_vec() },
                            0 => Event::Connected { data: b"yes".to_vec() },
                            1 => Event::Shutdown { reason: Reason::Peer },
                            _ => continue,
                        };
                        *events += if event.is_error() { 2 } else { 1 };
                        model.push_back(Entry { fid: *fid, event: event.clone() });
                        queue.push(Entry { fid: *fid, event });
                    }
                }
                Action::Close(which) => {
                    if !endpoints.is_empty() {
                        let (fid, _) = endpoints.remove(which % endpoints.len());
                        queue.unbind_endpoint(fid);
                        model.retain(|entry| entry.fid != fid);
                    }
                }
                Action::Withdraw(which) => {
                    let wanted = ids[which % ids.len()];
                    let is_it = |entry: &Entry| {
                        matches!(entry.event, Event::ConnectionRequest { request, .. } if request == wanted)
                    };
                    queue.withdraw(is_it);
                    model.retain(|entry| !is_it(entry));
                }
                Action::ClosePassive => {
                    queue.unbind_passive(PASSIVE);
                    model.retain(|entry| entry.fid != PASSIVE);
                    prop_assert_eq!(queue.check_close().is_ok(), endpoints.is_empty());
                    queue.bind_passive();
                }
                Action::Read => {
                    let wanted = match model.front() {
                        None => Err(Errno::EAGAIN),
                        Some(entry) if entry.event.is_error() => Err(Errno::EAVAIL),
                        Some(entry) => Ok(entry.clone()),
                    };
                    prop_assert_eq!(queue.peek().cloned().map_err(|error| error.errno()), wanted.clone());
                    prop_assert_eq!(queue.peek().cloned().map_err(|error| error.errno()), wanted.clone());
                    if wanted.is_ok() {
                        model.pop_front();
                    }
                    prop_assert_eq!(queue.read().map_err(|error| error.errno()), wanted);
                }
                Action::ReadError => {
                    let wanted = match model.front() {
                        Some(entry) if entry.event.is_error() => Ok(entry.clone()),
                        _ => Err(Errno::EAGAIN),
                    };
                    prop_assert_eq!(queue.peek_error().cloned().map_err(|error| error.errno()), wanted.clone());
                    if wanted.is_ok() {
                        model.pop_front();
                    }
                    prop_assert_eq!(queue.read_error().map_err(|error| error.errno()), wanted);
                }
            }
            prop_assert_eq!(queue.is_empty(), model.is_empty());
            prop_assert_eq!(queue.check_close().unwrap_err().errno(), Errno::EBUSY);
        }
        // All that is left comes out in order.
        while let Ok(entry) = queue.read().or_else(|_| queue.read_error()) {
            prop_assert_eq!(Some(entry), model.pop_front());
        }
        prop_assert!(model.is_empty());
        prop_assert_eq!(queue.room(), size);
    }
}

#[test]
fn attributes_are_checked() {
    let open = |size, flags, signaling_vector| {
        EventQueue::open(&EqAttr { size, flags, signaling_vector, ..EqAttr::default() })
    };
    assert_eq!(open(0, OpFlags::empty(), -1).unwrap().room(), EqAttr::DEFAULT_SIZE);
    assert_eq!(open(10, OpFlags::AFFINITY, 0).unwrap().room(), 10);
    assert_eq!(open(10, OpFlags::AFFINITY, -1).unwrap_err().errno(), Errno::EINVAL);
    assert_eq!(open(10, OpFlags::PEEK, 0).unwrap_err().errno(), Errno::EINVAL);
    // No size makes it panic.
    for size in [usize::MAX, usize::MAX / 2, isize::MAX as usize] {
        assert_eq!(open(size, OpFlags::empty(), 0).unwrap_err().errno(), Errno::ENOMEM);
    }
}
