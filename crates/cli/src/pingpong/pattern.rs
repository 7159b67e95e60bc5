// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The contents that `fi_pingpong -c` sends and expects: digits and letters over and over, each
//! message beginning seven characters further on than the one before.

const CHARACTERS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const STRIDE: u32 = 7;

/// The contents of one message after the other.
#[derive(Default)]
pub(super) struct Pattern {
    messages: u32,
}

impl Pattern {
    /// What the next message repeats.
    fn next(&mut self) -> [u8; CHARACTERS.len()] {
        let start = self.messages.wrapping_mul(STRIDE) as usize % CHARACTERS.len();
        self.messages = self.messages.wrapping_add(1);
        let mut repeated = *CHARACTERS;
        repeated.rotate_left(start);
        repeated
    }

    /// Fills the next message.
    pub(super) fn fill(&mut self, message: &mut [u8]) {
        let repeated = self.next();
        for part in message.chunks_mut(repeated.len()) {
            part.copy_from_slice(&repeated[..part.len()]);
        }
    }

    /// Where the next message differs from what it should be, and what should be there.
    pub(super) fn check(&mut self, message: &[u8]) -> Option<(usize, u8)> {
        let repeated = self.next();
        let wrong = message.chunks(repeated.len()).position(|part| *part != repeated[..part.len()])?;
        let start = wrong * repeated.len();
        let mut both = message.iter().skip(start).zip(repeated).enumerate();
        both.find(|(_, (found, wanted))| *found != wanted).map(|(at, (_, wanted))| (start + at, wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_seven_further_on_each_time() {
        let mut pattern = Pattern::default();
        let mut message = [0; 64];
        pattern.fill(&mut message);
        assert_eq!(&message[..3], b"012");
        assert_eq!(&message[60..], b"YZ01");
        for _ in 0..8 {
            pattern.fill(&mut message);
        }
        // 8 * 7 = 56, 9 * 7 = 63 = 62 + 1
        assert_eq!(&message[..8], b"UVWXYZ01");
        pattern.fill(&mut message);
        assert_eq!(&message[..3], b"123");
    }

    #[test]
    fn finds_the_byte_that_differs() {
        let (mut sent, mut expected) = (Pattern::default(), Pattern::default());
        let mut message = [0; 100];
        for changed in 0..100 {
            sent.fill(&mut message);
            let wanted = message[changed];
            message[changed] = b'!';
            assert_eq!(expected.check(&message), Some((changed, wanted)));
        }
        sent.fill(&mut message);
        assert_eq!(expected.check(&message), None);
    }
}
