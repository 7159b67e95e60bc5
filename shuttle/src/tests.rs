// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! What has to hold in any order of steps. Who waits here does so without a limit in time, so that a wake-up
//! that is lost is a deadlock, which shuttle reports with a schedule that leads to it.

use std::collections::VecDeque;
use std::sync::OnceLock;

use kofi_core::attr::{EqAttr, WaitObj};
use kofi_core::{Error, Fid, Instant, OpFlags, Result};

use crate::event::epoll::{self, EventData, EventFlags};
use crate::event::{PollFd, PollFlags, eventfd, poll};
use crate::event_queue::{Event, EventQueue};
use crate::fabric::FabricShared;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, AsFd, BorrowedFd, Mutex, OwnedFd, Weak};
use crate::turn::{Leaves, Turns};
use crate::wait::{Alarm, Source, Waiter, lock};
use crate::wait_set::{Member, WaitSet};

/// Schedules for each kind of scheduler: `KOFI_SHUTTLE_SCHEDULES`.
fn schedules() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| {
        let given = std::env::var("KOFI_SHUTTLE_SCHEDULES").ok();
        given.map_or(2000, |count| count.parse().unwrap())
    })
}

/// Runs `scenario` in many orders: at random, and with few changes of threads at unlucky places.
fn check(scenario: impl Fn() + Send + Sync + 'static) {
    let scenario = std::sync::Arc::new(scenario);
    let again = scenario.clone();
    shuttle::check_random(move || again(), schedules());
    shuttle::check_pct(move || scenario(), schedules(), 3);
}

fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> shuttle::thread::JoinHandle<T> {
    shuttle::thread::spawn(f)
}

/// A queue as the driver of a domain has one: entries under the domain's lock, and its waiting side.
struct Queue {
    waiter: Waiter,
}

/// A domain, as far as waiting goes: what arrives for each queue, one descriptor that says all, an alarm.
struct Domain {
    epoll: OwnedFd,
    sockets: Vec<OwnedFd>,
    queues: Vec<Queue>,
    state: Mutex<State>,
}

struct State {
    alarm: Alarm,
    /// Work that was left behind, for this queue, and that no socket tells of.
    left: VecDeque<(usize, u32)>,
    entries: Vec<VecDeque<u32>>,
}

const ALARM: u64 = u64::MAX;

impl Domain {
    fn new(kinds: &[WaitObj]) -> Arc<Self> {
        Self::in_set(kinds, None)
    }

    fn in_set(kinds: &[WaitObj], set: Option<&WaitSet>) -> Arc<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let alarm = Alarm::new("test", &epoll, ALARM).unwrap();
        let sockets: Vec<_> = (0..kinds.len())
            .map(|queue| {
                let socket = eventfd(0, crate::event::EventfdFlags::CLOEXEC).unwrap();
                let flags = EventFlags::IN | EventFlags::ET;
                epoll::add(&epoll, &socket, EventData::new_u64(queue as u64), flags).unwrap();
                socket
            })
            .collect();
        let gathered = set.map(|set| set.gathered().clone());
        let queues = kinds
            .iter()
            .map(|kind| Queue { waiter: Waiter::new("test", *kind, gathered.clone()).unwrap() })
            .collect();
        let entries = kinds.iter().map(|_| VecDeque::new()).collect();
        let state = Mutex::new(State { alarm, left: VecDeque::new(), entries });
        let domain = Arc::new(Self { epoll, sockets, queues, state });
        let source: Arc<dyn Source> = domain.clone();
        domain.queues.iter().for_each(|queue| queue.waiter.add_source("test", &source).unwrap());
        domain
    }

    /// Something arrives from the network.
    fn arrive(&self, queue: usize) {
        crate::io::write(&self.sockets[queue], &1u64.to_ne_bytes()).unwrap();
    }

    /// A caller leaves work behind that somebody has to do.
    fn leave(&self, queue: usize, entry: u32) {
        let mut state = lock(&self.state);
        state.left.push_back((queue, entry));
        state.alarm.ring();
    }

    /// A caller's operation completes in the call.
    fn complete(&self, queue: usize, entry: u32) {
        let mut state = lock(&self.state);
        self.push(&mut state, queue, entry);
    }

    fn push(&self, state: &mut State, queue: usize, entry: u32) {
        state.entries[queue].push_back(entry);
        if self.queues[queue].waiter.is_armed() {
            self.queues[queue].waiter.notify();
        }
    }

    fn take(&self, queue: usize) -> Result<u32> {
        lock(&self.state).entries[queue].pop_front().ok_or(Error::Empty)
    }

    fn sread(&self, queue: usize) -> Result<u32> {
        self.queues[queue].waiter.sread("test", None, || self.take(queue))
    }

    fn is_empty(&self, queue: usize) -> bool {
        lock(&self.state).entries[queue].is_empty()
    }
}

impl Source for Domain {
    fn drive(&self) -> bool {
        let mut state = lock(&self.state);
        for data in epoll::ready(&self.epoll) {
            if data == ALARM {
                state.alarm.seen();
                continue;
            }
            let queue = data as usize;
            let mut count = [0; 8];
            if crate::io::read(&self.sockets[queue], &mut count).is_ok() {
                (0..u64::from_ne_bytes(count)).for_each(|_| self.push(&mut state, queue, 0));
            }
        }
        while let Some((queue, entry)) = state.left.pop_front() {
            self.push(&mut state, queue, entry);
        }
        false
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

const KINDS: [WaitObj; 2] = [WaitObj::Unspec, WaitObj::Fd];

/// Each of two readers gets one of two entries, whichever way they come.
#[test]
fn readers_of_one_queue_are_all_woken() {
    for kind in KINDS {
        check(move || {
            let domain = Domain::new(&[kind]);
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    let domain = domain.clone();
                    spawn(move || domain.sread(0).unwrap())
                })
                .collect();
            let other = domain.clone();
            let arrival = spawn(move || other.arrive(0));
            domain.complete(0, 1);
            arrival.join().unwrap();
            let mut got: Vec<_> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
            got.sort_unstable();
            assert_eq!(got, [0, 1]);
        });
    }
}

/// Two entries at once wake two readers, although one event of a socket tells of both.
#[test]
fn entries_that_come_together_wake_all_readers() {
    check(|| {
        let domain = Domain::new(&[WaitObj::Unspec]);
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let domain = domain.clone();
                spawn(move || domain.sread(0).unwrap())
            })
            .collect();
        domain.arrive(0);
        domain.arrive(0);
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

/// Readers of two queues of one domain: whoever takes an event of the other's, the other is woken.
#[test]
fn readers_drive_for_each_other() {
    for (one, two) in [(WaitObj::Unspec, WaitObj::Unspec), (WaitObj::Unspec, WaitObj::Fd)] {
        check(move || {
            let domain = Domain::new(&[one, two]);
            let readers: Vec<_> = (0..2)
                .map(|queue| {
                    let domain = domain.clone();
                    spawn(move || domain.sread(queue).unwrap())
                })
                .collect();
            let other = domain.clone();
            let arrival = spawn(move || other.arrive(1));
            domain.arrive(0);
            arrival.join().unwrap();
            for reader in readers {
                reader.join().unwrap();
            }
        });
    }
}

/// A reader sleeps already when somebody leaves work behind.
#[test]
fn work_that_is_left_behind_wakes_a_reader() {
    for kind in KINDS {
        check(move || {
            let domain = Domain::new(&[kind]);
            let other = domain.clone();
            let reader = spawn(move || [other.sread(0).unwrap(), other.sread(0).unwrap()]);
            let other = domain.clone();
            let second = spawn(move || other.leave(0, 2));
            domain.leave(0, 1);
            second.join().unwrap();
            let mut got = reader.join().unwrap();
            got.sort_unstable();
            assert_eq!(got, [1, 2]);
        });
    }
}

/// A source that is added while somebody sleeps.
#[test]
fn a_new_source_wakes_a_reader() {
    for kind in KINDS {
        check(move || {
            let domain = Domain::new(&[WaitObj::Unspec]);
            let waiter = Arc::new(Waiter::new("test", kind, None).unwrap());
            let (other, entries) = (waiter.clone(), domain.clone());
            let reader = spawn(move || other.sread("test", None, || entries.take(0)).unwrap());
            let source: Arc<dyn Source> = domain.clone();
            waiter.add_source("test", &source).unwrap();
            domain.arrive(0);
            assert_eq!(reader.join().unwrap(), 0);
        });
    }
}

/// A signal ends the reads that wait, or else the next one.
#[test]
fn a_signal_is_not_lost() {
    for kind in KINDS {
        check(move || {
            let domain = Domain::new(&[kind]);
            let other = domain.clone();
            let reader = spawn(move || other.sread(0).unwrap_err());
            domain.queues[0].waiter.signal("test").unwrap();
            assert!(reader.join().unwrap().is_again());
        });
    }
}

/// A signal beside an entry: the reader has each, and neither takes the other away.
#[test]
fn a_signal_takes_no_entry_away() {
    check(|| {
        let domain = Domain::new(&[WaitObj::Unspec]);
        let other = domain.clone();
        let reader = spawn(move || {
            loop {
                match other.sread(0) {
                    Ok(entry) => return entry,
                    Err(error) => assert!(error.is_again()),
                }
            }
        });
        let other = domain.clone();
        let signal = spawn(move || other.queues[0].waiter.signal("test").unwrap());
        domain.arrive(0);
        signal.join().unwrap();
        assert_eq!(reader.join().unwrap(), 0);
    });
}

fn sleep_on(fd: BorrowedFd<'_>) {
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], None).unwrap();
}

/// Programs that poll a queue's descriptor by the rule of fi_trywait, two of them on one queue.
#[test]
fn pollers_are_woken() {
    check(|| {
        let domain = Domain::new(&[WaitObj::Fd]);
        let pollers: Vec<_> = (0..2)
            .map(|_| {
                let domain = domain.clone();
                spawn(move || {
                    let waiter = &domain.queues[0].waiter;
                    loop {
                        if let Ok(entry) = domain.take(0) {
                            return entry;
                        }
                        if waiter.try_wait("test", || domain.is_empty(0)).is_ok() {
                            sleep_on(waiter.fd("test").unwrap());
                        }
                    }
                })
            })
            .collect();
        let other = domain.clone();
        let arrival = spawn(move || other.arrive(0));
        domain.complete(0, 1);
        arrival.join().unwrap();
        let mut got: Vec<_> = pollers.into_iter().map(|poller| poller.join().unwrap()).collect();
        got.sort_unstable();
        assert_eq!(got, [0, 1]);
    });
}

/// One of them takes more: what it sees when it is about to sleep may be for the other, too.
#[test]
fn a_poller_leaves_the_other_its_wake_up() {
    check(|| {
        let domain = Domain::new(&[WaitObj::Fd]);
        let pollers = [2, 1].map(|count| {
            let domain = domain.clone();
            spawn(move || {
                let waiter = &domain.queues[0].waiter;
                for _ in 0..count {
                    while domain.take(0).is_err() {
                        if waiter.try_wait("test", || domain.is_empty(0)).is_ok() {
                            sleep_on(waiter.fd("test").unwrap());
                        }
                    }
                }
            })
        });
        for entry in 0..3 {
            domain.complete(0, entry);
        }
        for poller in pollers {
            poller.join().unwrap();
        }
    });
}

/// One polls the descriptor, another is in a blocking read.
#[test]
fn a_poller_and_a_reader_are_woken() {
    check(|| {
        let domain = Domain::new(&[WaitObj::Fd]);
        let other = domain.clone();
        let reader = spawn(move || other.sread(0).unwrap());
        let other = domain.clone();
        let poller = spawn(move || {
            let waiter = &other.queues[0].waiter;
            loop {
                if let Ok(entry) = other.take(0) {
                    return entry;
                }
                if waiter.try_wait("test", || other.is_empty(0)).is_ok() {
                    sleep_on(waiter.fd("test").unwrap());
                }
            }
        });
        domain.arrive(0);
        domain.complete(0, 1);
        assert_eq!(reader.join().unwrap() + poller.join().unwrap(), 1);
    });
}

/// An event queue of its own, in which the application writes.
fn event_queue(attr: EqAttr, set: Option<&WaitSet>) -> EventQueue {
    EventQueue::open(&Arc::new(FabricShared), &attr, set).unwrap()
}

const WRITABLE: EqAttr =
    EqAttr { size: 1, flags: OpFlags::WRITE, wait_obj: WaitObj::Unspec, signaling_vector: 0 };

fn number(event: Event) -> u32 {
    match event {
        Event::Application { event, .. } => event,
        other => panic!("{other:?}"),
    }
}

/// Writers to a queue that has room for one event, and two readers.
#[test]
fn an_event_queue_gives_each_event_to_one_reader() {
    check(|| {
        let eq = event_queue(EqAttr { size: 2, ..WRITABLE }, None);
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let eq = eq.clone();
                spawn(move || number(eq.sread(None).unwrap()))
            })
            .collect();
        let other = eq.clone();
        let writer = spawn(move || other.write(Fid(1), 1, b"", OpFlags::empty()).unwrap());
        eq.write(Fid(1), 2, b"", OpFlags::empty()).unwrap();
        writer.join().unwrap();
        let mut got: Vec<_> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        got.sort_unstable();
        assert_eq!(got, [1, 2]);
    });
}

/// Who looks at an event leaves it, and one who reads it is woken all the same.
#[test]
fn a_look_takes_no_event_away() {
    check(|| {
        let eq = event_queue(WRITABLE, None);
        let other = eq.clone();
        let looker = spawn(move || {
            // The reader may have been first.
            let _ = other.peek();
        });
        let other = eq.clone();
        let reader = spawn(move || number(other.sread(None).unwrap()));
        eq.write(Fid(1), 3, b"", OpFlags::empty()).unwrap();
        looker.join().unwrap();
        assert_eq!(reader.join().unwrap(), 3);
    });
}

/// A listener: requests wait in its socket while the event queue has no room for them.
struct Listener {
    eq: EventQueue,
    socket: OwnedFd,
    requests: Mutex<u32>,
}

impl Source for Listener {
    fn drive(&self) -> bool {
        let mut requests = lock(&self.requests);
        let mut count = [0; 8];
        if crate::io::read(&self.socket, &mut count).is_ok() {
            *requests += u64::from_ne_bytes(count) as u32;
        }
        self.eq.shared().fill(|queue| {
            while *requests > 0 && queue.room() > 0 {
                queue.write(Fid(1), *requests, b"", OpFlags::empty()).unwrap();
                *requests -= 1;
            }
        });
        false
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Another thread drives the listener, and takes the socket's event away from a reader who sleeps on it.
#[test]
fn an_event_that_another_drives_for_wakes_a_reader() {
    check(|| {
        let eq = event_queue(WRITABLE, None);
        let socket = eventfd(0, crate::event::EventfdFlags::CLOEXEC).unwrap();
        let listener = Arc::new(Listener { eq: eq.clone(), socket, requests: Mutex::new(0) });
        let source: Arc<dyn Source> = listener.clone();
        eq.shared().waiter.add_source("test", &source).unwrap();
        let reader = spawn(move || number(eq.sread(None).unwrap()));
        crate::io::write(&listener.socket, &1u64.to_ne_bytes()).unwrap();
        listener.drive();
        assert_eq!(reader.join().unwrap(), 1);
    });
}

/// How a reader waits for an event.
#[derive(Clone, Copy)]
enum Way {
    Block,
    Poll,
    Set,
}

/// Two readers of a queue with room for one request, and four of those: each time one is read there is room again,
/// and a reader who found none, and has gone to sleep meanwhile, is woken for that.
fn room_is_used(ways: [Way; 2]) {
    check(move || {
        let set = Arc::new(WaitSet::open(&Arc::new(FabricShared)).unwrap());
        let in_set = ways.iter().any(|way| matches!(way, Way::Set));
        let wait_obj = if in_set { WaitObj::Set } else { WaitObj::Fd };
        let eq = event_queue(EqAttr { wait_obj, ..WRITABLE }, in_set.then_some(&*set));
        let socket = eventfd(0, crate::event::EventfdFlags::CLOEXEC).unwrap();
        let listener = Arc::new(Listener { eq: eq.clone(), socket, requests: Mutex::new(0) });
        let source: Arc<dyn Source> = listener.clone();
        eq.shared().waiter.add_source("test", &source).unwrap();
        let readers = ways.map(|way| {
            let (eq, set) = (eq.clone(), set.clone());
            spawn(move || {
                for _ in 0..2 {
                    let event = match way {
                        Way::Block => eq.sread(None).unwrap(),
                        Way::Poll | Way::Set => loop {
                            if let Ok(event) = eq.read() {
                                break event;
                            }
                            let (wait, fd) = match way {
                                Way::Set => (set.try_wait(), set.fd()),
                                _ => (eq.try_wait(), eq.fd().unwrap()),
                            };
                            if wait.is_ok() {
                                sleep_on(fd);
                            }
                        },
                    };
                    number(event);
                }
            })
        });
        for _ in 0..4 {
            crate::io::write(&listener.socket, &1u64.to_ne_bytes()).unwrap();
        }
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

#[test]
fn room_in_an_event_queue_is_used() {
    room_is_used([Way::Block, Way::Block]);
}

#[test]
fn room_in_an_event_queue_is_used_by_who_polls() {
    room_is_used([Way::Block, Way::Poll]);
    room_is_used([Way::Poll, Way::Poll]);
}

#[test]
fn room_in_an_event_queue_is_used_by_who_waits_for_a_set() {
    room_is_used([Way::Block, Way::Set]);
    room_is_used([Way::Set, Way::Set]);
}

/// Queues of a set, one of which another thread fills while somebody waits for both.
#[test]
fn a_wait_set_wakes_for_each_of_its_queues() {
    check(|| {
        let fabric = Arc::new(FabricShared);
        let set = Arc::new(WaitSet::open(&fabric).unwrap());
        let attr = EqAttr { wait_obj: WaitObj::Set, size: 2, ..WRITABLE };
        let (one, two) = (event_queue(attr, Some(&set)), event_queue(attr, Some(&set)));
        let (a, b) = (one.clone(), two.clone());
        let waiting = spawn(move || {
            let mut got = Vec::new();
            while got.len() < 2 {
                set.wait(None).unwrap();
                got.extend([&a, &b].into_iter().filter_map(|eq| eq.read().ok()).map(number));
            }
            got.sort_unstable();
            got
        });
        let writer = spawn(move || two.write(Fid(1), 2, b"", OpFlags::empty()).unwrap());
        one.write(Fid(1), 1, b"", OpFlags::empty()).unwrap();
        writer.join().unwrap();
        assert_eq!(waiting.join().unwrap(), [1, 2]);
    });
}

/// A queue that is opened into a set while somebody waits for that.
#[test]
fn a_wait_set_learns_of_new_queues() {
    check(|| {
        let fabric = Arc::new(FabricShared);
        let set = Arc::new(WaitSet::open(&fabric).unwrap());
        let other = set.clone();
        let waiting = spawn(move || other.wait(None).unwrap());
        let eq = event_queue(EqAttr { wait_obj: WaitObj::Set, ..WRITABLE }, Some(&set));
        eq.write(Fid(1), 1, b"", OpFlags::empty()).unwrap();
        waiting.join().unwrap();
    });
}

/// The queues of a domain, in a set.
struct InSet(Arc<Domain>, usize);

impl Member for InSet {
    fn waiter(&self) -> &Waiter {
        &self.0.queues[self.1].waiter
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty(self.1)
    }
}

/// Another thread drives the domain, and takes the socket's event away from who waits for the set.
#[test]
fn a_wait_set_wakes_for_what_others_drive() {
    check(|| {
        let set = Arc::new(WaitSet::open(&Arc::new(FabricShared)).unwrap());
        let domain = Domain::in_set(&[WaitObj::Set, WaitObj::Set], Some(&set));
        let members: Vec<Arc<dyn Member>> = (0..2)
            .map(|queue| {
                let member: Arc<dyn Member> = Arc::new(InSet(domain.clone(), queue));
                set.add(member.clone());
                member
            })
            .collect();
        let other = domain.clone();
        let waiting = spawn(move || {
            loop {
                set.wait(None).unwrap();
                if let Ok(entry) = other.take(1) {
                    return entry;
                }
            }
        });
        let other = domain.clone();
        let driver = spawn(move || other.drive());
        domain.arrive(1);
        driver.join().unwrap();
        assert_eq!(waiting.join().unwrap(), 0);
        drop(members);
    });
}

/// What turns look after: requests, and those that were answered.
#[derive(Default)]
struct Requested {
    asked: Arc<AtomicUsize>,
    answered: usize,
    out: usize,
    finished: Weak<AtomicUsize>,
}

impl Leaves for Requested {
    type Out = (usize, Weak<AtomicUsize>);

    fn take_out(&mut self) -> Self::Out {
        (std::mem::take(&mut self.out), self.finished.clone())
    }

    fn finish((count, finished): Self::Out) {
        if let Some(finished) = finished.upgrade() {
            finished.fetch_add(count, Ordering::SeqCst);
        }
    }
}

/// The work of a turn: all that was asked for until now.
fn answer(state: &mut Requested) {
    let asked = state.asked.load(Ordering::SeqCst);
    state.out += asked - state.answered;
    state.answered = asked;
}

/// Whoever has the lock, when all have done their part everything that was asked for is answered, once, and
/// told of.
fn turns(takers: usize, users: usize) {
    check(move || {
        let (asked, finished) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let turns: Arc<Turns<Requested>> = Arc::default();
        turns.with(
            |state| {
                state.asked = asked.clone();
                state.finished = Arc::downgrade(&finished);
            },
            answer,
        );
        let mut threads = Vec::new();
        for _ in 0..takers {
            let (turns, asked) = (turns.clone(), asked.clone());
            threads.push(spawn(move || {
                asked.fetch_add(1, Ordering::SeqCst);
                turns.turn(answer);
            }));
        }
        for _ in 0..users {
            let turns = turns.clone();
            threads.push(spawn(move || turns.with(|_| (), answer)));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(finished.load(Ordering::SeqCst), takers, "somebody's turn was lost");
    });
}

#[test]
fn a_turn_beside_a_user_is_not_lost() {
    turns(1, 1);
}

#[test]
fn turns_beside_each_other_are_not_lost() {
    turns(2, 0);
    turns(2, 1);
}

/// An alarm that is set for a time that does not come is no reason not to ring it.
#[test]
fn an_alarm_rings_before_its_time() {
    check(|| {
        let domain = Domain::new(&[WaitObj::Unspec]);
        let other = domain.clone();
        let reader = spawn(move || other.sread(0).unwrap());
        lock(&domain.state).alarm.set(Some(Instant::from_nanos(u64::MAX)));
        domain.leave(0, 4);
        assert_eq!(reader.join().unwrap(), 4);
    });
}
