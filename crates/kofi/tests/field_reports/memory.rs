// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! B4: memory registration.

use kofi::{Caps, Domain, Errno, Fabric, Hints, MemoryRegion, MrMode, OpFlags, Result};

use crate::common::loopback;

fn register(domain: &Domain, access: OpFlags) -> Result<MemoryRegion> {
    domain.register(vec![0; 4096], access, 7).map_err(|refused| {
        assert_eq!(refused.buffers.total_len(), 4096, "the memory comes back");
        refused.error
    })
}

#[test]
fn bug_31_key_rules() {
    own_process!();
    let remote = OpFlags::REMOTE_READ | OpFlags::REMOTE_WRITE;
    let local = OpFlags::SEND | OpFlags::RECV;
    let all = MrMode::LOCAL | MrMode::VIRT_ADDR | MrMode::ALLOCATED | MrMode::PROV_KEY | MrMode::ENDPOINT;
    for asked in [MrMode::empty(), all] {
        let hints =
            Hints::new().provider("tcp").source(loopback()).caps(Caps::MSG | Caps::RMA).mr_mode(asked);
        let info = kofi::getinfo(hints).unwrap().remove(0);
        let granted = info.domain_attr.mr_mode;
        assert!(asked.contains(granted), "{granted:?} has what nobody asked for");
        let by_provider = granted.contains(MrMode::PROV_KEY);
        let domain = Fabric::open(&info).unwrap().domain(&info).unwrap();
        // Both for peers.
        let first = register(&domain, remote).unwrap();
        match register(&domain, remote) {
            Ok(second) => {
                assert!(by_provider);
                assert_ne!(first.key(), second.key());
            }
            Err(error) => {
                assert!(!by_provider);
                assert_eq!((error.errno(), first.key()), (Errno::ENOKEY, 7));
            }
        }
        // One each.
        let beside = register(&domain, local).unwrap();
        drop(beside);
        drop(first);
        // Again, after it was closed.
        drop(register(&domain, remote).unwrap());
        // Both for ourselves, and then one for peers.
        let first = register(&domain, local).unwrap();
        let second = register(&domain, local).unwrap();
        let third = register(&domain, remote).unwrap();
        assert!(by_provider || third.key() == 7);
        drop((first, second, third));
    }
}
