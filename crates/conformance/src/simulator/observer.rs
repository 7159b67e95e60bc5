// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Looks at the bytes of one direction of a connection, as a peer would, and says when they break
//! the protocol.
//!
//! It is written apart from the codec, straight from the layout, so that a mistake has to be made
//! twice to stay unseen. The byte order of data headers is told from the first length: both ends are
//! native here, but for raw peers that ask for the other order.

/// Looks at one direction.
#[derive(Default, Debug)]
pub(crate) struct Observer {
    head: Vec<u8>,
    greeted: bool,
    sequence: u8,
    /// Data headers are of the other byte order; known from the first one.
    swapped: Option<bool>,
    /// Payload bytes that are still to come.
    payload: u64,
}

impl Observer {
    /// Takes the next bytes; gives what is wrong with them. `side` 0 asked for the connection.
    pub(crate) fn see(&mut self, side: u8, mut bytes: &[u8]) -> Option<String> {
        while !bytes.is_empty() {
            if self.payload > 0 {
                let skip = self.payload.min(bytes.len() as u64);
                self.payload -= skip;
                bytes = &bytes[skip as usize..];
                continue;
            }
            let need = match (self.greeted, self.head.len()) {
                (false, len) if len < 32 => 32,
                (false, _) => 32 + usize::from(u16::from_be_bytes([self.head[2], self.head[3]])),
                (true, len) if len < 16 => 16,
                (true, _) => usize::from(self.head[6]),
            };
            let take = need.saturating_sub(self.head.len()).min(bytes.len());
            self.head.extend_from_slice(&bytes[..take]);
            bytes = &bytes[take..];
            let wrong = if self.greeted { self.check_record() } else { self.check_greeting(side) };
            if let Some(wrong) = wrong {
                return Some(format!("{wrong}: {:02x?}", self.head));
            }
        }
        None
    }

    fn check_greeting(&mut self, side: u8) -> Option<String> {
        let head = &self.head;
        if head.len() < 32 {
            return None;
        }
        let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let probe = u64::from_ne_bytes([
            head[24], head[25], head[26], head[27], head[28], head[29], head[30], head[31],
        ]);
        let wrong = match (side, head[1]) {
            _ if head[0] != 3 => "the version of a connection message is not 3",
            _ if len > 256 => "more than 256 bytes of private data",
            _ if head[4..24].iter().any(|&byte| byte != 0) => "unused fields are not zero",
            (0, 0) | (1, 1) if probe != 1 => "the probe is not 1",
            (1, 6) if probe != 0 => "the probe of a nack is not 0",
            (0, 0) | (1, 1 | 6) => {
                if head.len() == 32 + len {
                    self.greeted = true;
                    self.head.clear();
                }
                return None;
            }
            _ => "a connection message of a type that does not belong here",
        };
        Some(wrong.to_owned())
    }

    fn check_record(&mut self) -> Option<String> {
        let head = &self.head;
        if head.len() < 16 {
            return None;
        }
        let header_len = u64::from(head[6]);
        let mut flags = u16::from_ne_bytes([head[2], head[3]]);
        let (op, op_data, segments) = (head[1], head[4], head[5]);
        let mut size = u64::from_ne_bytes([
            head[8], head[9], head[10], head[11], head[12], head[13], head[14], head[15],
        ]);
        if *self.swapped.get_or_insert(size >= 1 << 40) {
            (flags, size) = (flags.swap_bytes(), size.swap_bytes());
        }
        let wanted = match (op, op_data) {
            (0, 2) if flags != 0 => return Some("flags on an acknowledgement".to_owned()),
            (0, 2) if size != 16 => return Some("an acknowledgement of another size than 16".to_owned()),
            (0, 2) => 16,
            (0, 0) if flags & !0b101 != 0 => return Some(format!("unknown flags {flags:#x}")),
            (0, 0) => 16 + 8 * u64::from(flags & 1),
            (2 | 4, 0) if !(1..=4).contains(&segments) => return Some(format!("{segments} remote segments")),
            (2, 0) if flags != 0 || size != header_len => return Some("an odd read request".to_owned()),
            (2, 0) => 16 + 24 * u64::from(segments),
            (3, 0) if flags != 0 => return Some("flags on a read response".to_owned()),
            (3, 0) => 16,
            (4, 0) if flags & !0b1101 != 0 => return Some(format!("unknown flags {flags:#x}")),
            (4, 0) => 16 + 8 * u64::from(flags & 1) + 24 * u64::from(segments),
            _ => return Some(format!("operation {op} with data {op_data}")),
        };
        if head[0] != 3 || segments != 0 && !matches!(op, 2 | 4) {
            return Some("version or unused fields of a record".to_owned());
        }
        if header_len != wanted || size < header_len {
            return Some(format!("header of {header_len} bytes, wanted {wanted}, record of {size}"));
        }
        if head[7] != self.sequence {
            return Some(format!("sequence byte {}, wanted {}", head[7], self.sequence));
        }
        if head.len() as u64 == header_len {
            self.payload = size - header_len;
            let lens = head[head.len() - 24 * usize::from(segments)..].chunks_exact(24).map(|segment| {
                let len = segment[8..16].try_into().map_or(0, u64::from_ne_bytes);
                if self.swapped == Some(true) { len.swap_bytes() } else { len }
            });
            let total: u64 = lens.sum();
            if op == 4 && total != self.payload {
                return Some(format!("a write of {} bytes to {total}", self.payload));
            }
            self.sequence = self.sequence.wrapping_add(1);
            self.head.clear();
        }
        None
    }
}
