// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Infos that ask for more than the provider has.

#![allow(clippy::unwrap_used)]

mod common;

use common::pair;
use kofi::Errno;

/// More segments than the system takes in one call would break the connection.
#[test]
fn an_endpoint_does_not_take_more_segments_than_are_offered() {
    let pair = pair();
    let open = |tx, rx| {
        let mut info = pair.client.info.clone();
        (info.tx_attr.iov_limit, info.rx_attr.iov_limit) = (tx, rx);
        pair.client.domain.endpoint(&info, &pair.client.eq, &pair.client.cq).map(drop)
    };
    let (tx, rx) = (pair.client.info.tx_attr.iov_limit, pair.client.info.rx_attr.iov_limit);
    open(tx, rx).unwrap();
    open(1, 1).unwrap();
    assert_eq!(open(tx + 1, rx).unwrap_err().errno(), Errno::EINVAL);
    assert_eq!(open(tx, rx + 1).unwrap_err().errno(), Errno::EINVAL);
}
