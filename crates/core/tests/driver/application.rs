// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The calls of an application, and what they do besides the machine.

use kofi_core::attr::{CqAttr, EqAttr};
use kofi_core::memory::Registration;
use kofi_core::message::{PostReceive, Send, WritePlan};
use kofi_core::wire::header::Segment;
use kofi_core::*;

use super::Host;

pub(crate) const FID: Fid = Fid(7);
pub(super) const EQ: Fid = Fid(8);
pub(super) const ADDR: SocketAddr = SocketAddr::new(core::net::IpAddr::V4(core::net::Ipv4Addr::LOCALHOST), 1);
const ATTR: EndpointAttr = EndpointAttr {
    caps: Caps::MSG.union(Caps::RMA),
    tx_size: 16,
    rx_size: 1000,
    inject_size: 128,
    tx_iov_limit: 4,
    rx_iov_limit: 4,
    rma_iov_limit: 4,
    total_buffered_recv: 0,
    max_msg_size: u64::MAX,
    dest_addr: Some(ADDR),
};

impl Host {
    fn new(now: Instant, plan: usize, buffered: u64) -> Self {
        let mut domain = Domain::new(TimeLimits::default());
        let cq = domain.open_cq(&CqAttr::default()).unwrap();
        Self {
            domain,
            cq,
            eq: EventQueue::open(&EqAttr::default()).unwrap(),
            ep: None,
            listener: None,
            memory: Vec::new(),
            regions: Vec::new(),
            staged: Vec::new(),
            plan: WritePlan::new(plan).unwrap(),
            buffered,
            lends: false,
            loans: Vec::new(),
            open: true,
            posted: 0,
            released: 0,
            done: Vec::new(),
            now,
        }
    }

    /// A host that has called `fi_connect`.
    pub(crate) fn active(now: Instant, plan: usize, data: &[u8]) -> Self {
        Self::active_keeping(now, plan, data, 0)
    }

    /// The same, which keeps so many bytes of messages until there is a receive for them.
    pub(crate) fn active_keeping(now: Instant, plan: usize, data: &[u8], buffered: u64) -> Self {
        let mut host = Self::new(now, plan, buffered);
        let ep = host.endpoint(Origin::Active);
        assert_eq!(host.domain.connect(ep, None, data, now), Ok(ADDR));
        host.domain.transport_open(ep, ADDR);
        host
    }

    /// A host whose listener has got a transport connection.
    pub(crate) fn passive(now: Instant, plan: usize) -> Self {
        Self::passive_keeping(now, plan, 0)
    }

    /// The same, which keeps so many bytes of messages until there is a receive for them.
    pub(crate) fn passive_keeping(now: Instant, plan: usize, buffered: u64) -> Self {
        let mut host = Self::new(now, plan, buffered);
        let mut pep = PassiveEndpoint::new(TimeLimits::default());
        pep.bind(true, 0).unwrap();
        pep.listen().unwrap();
        pep.listening();
        assert!(pep.wants_accept(host.eq.room()));
        let id = pep.accepted(ADDR, ADDR, now).unwrap();
        host.listener = Some((pep, id));
        host
    }

    pub(super) fn endpoint(&mut self, origin: Origin) -> EpId {
        let attr = EndpointAttr { total_buffered_recv: self.buffered, ..ATTR };
        let ep = self.domain.open_endpoint(FID, attr, origin).unwrap();
        self.eq.bind_endpoint().unwrap();
        self.domain.bind_eq(ep, EQ, true, OpFlags::empty()).unwrap();
        self.domain.bind_cq(ep, self.cq, OpFlags::TRANSMIT | OpFlags::RECV).unwrap();
        self.ep = Some(ep);
        ep
    }

    pub(crate) fn post_send(&mut self, send: &Send, memory: Vec<Vec<u8>>) -> Result<()> {
        let op = self.domain.post_send(self.ep.unwrap(), send)?;
        self.remember(op, memory);
        Ok(())
    }

    pub(crate) fn register(&mut self, registration: &Registration, memory: Vec<u8>) -> Result<MrId> {
        let mr = self.domain.register(&Registration { len: memory.len() as u64, ..*registration }, 0)?;
        self.regions.resize_with(self.regions.len().max(mr.index() + 1), || None);
        self.regions[mr.index()] = Some(memory);
        Ok(mr)
    }

    pub(crate) fn post_read(&mut self, read: &Send, memory: Vec<Vec<u8>>, remote: &[Segment]) -> Result<()> {
        let op = self.domain.post_read(self.ep.unwrap(), read, remote)?;
        self.remember(op, memory);
        Ok(())
    }

    pub(crate) fn post_write(
        &mut self,
        write: &Send,
        memory: Vec<Vec<u8>>,
        remote: &[Segment],
    ) -> Result<()> {
        let op = self.domain.post_write(self.ep.unwrap(), write, remote)?;
        self.remember(op, memory);
        Ok(())
    }

    pub(crate) fn post_receive(&mut self, receive: &PostReceive, memory: Vec<Vec<u8>>) -> Result<()> {
        let op = self.domain.post_receive(self.ep.unwrap(), receive)?;
        self.remember(op, memory);
        Ok(())
    }

    fn remember(&mut self, op: OpId, memory: Vec<Vec<u8>>) {
        self.memory.resize_with(self.memory.len().max(op.index() + 1), || None);
        assert!(self.memory[op.index()].replace(memory).is_none(), "an operation that is pending already");
        self.posted += 1;
    }
}
