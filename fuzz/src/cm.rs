// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! Connection messages: any bytes, whole and in any pieces.
//!
//! Input: script and stream. The script says which message is expected and how the stream is cut.

use kofi_core::Error;
use kofi_core::wire::cm::{self, Assembly, HEADER_LEN, Header, Kind};

use crate::script::Script;

/// A message, once it is whole.
type Message = Option<(Header, Vec<u8>)>;

fn assembly(answer: bool) -> Assembly {
    if answer { Assembly::answer() } else { Assembly::request() }
}

/// What comes of the stream in pieces of these lengths, and how much of it is used up.
fn assemble(
    answer: bool,
    stream: &[u8],
    mut piece: impl FnMut() -> usize,
) -> (Result<Message, Error>, usize) {
    let mut assembly = assembly(answer);
    let mut used = 0;
    loop {
        assert!(assembly.missing() <= cm::MAX_LEN);
        let rest = &stream[used..];
        let piece = piece().clamp(1, rest.len().max(1)).min(rest.len());
        match assembly.take(&rest[..piece]) {
            Ok(0) => break,
            Ok(taken) => {
                assert!(taken == piece || (taken < piece && assembly.missing() == 0), "{taken} of {piece}");
                used += taken;
            }
            Err(error) => return (Err(error), used),
        }
    }
    let missing = assembly.missing();
    assert!(missing == 0 || used == stream.len(), "it wants more, and leaves it");
    let message = assembly.finish();
    assert_eq!(message.is_some(), missing == 0);
    (Ok(message), used)
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let (mut script, stream) = Script::and_stream(data);
    let answer = script.flag();
    let (whole, used) = assemble(answer, stream, || usize::MAX);
    let (cut, cut_used) = assemble(answer, stream, || script.length() + 1);
    assert_eq!(whole, cut, "pieces make no difference");
    let parse = if answer { Header::parse_answer } else { Header::parse_request };
    match whole {
        Err(Error::Wire(error)) => {
            if let Some(header) = stream.first_chunk() {
                assert_eq!(parse(header), Err(error));
            }
        }
        Err(error) => panic!("{error}"),
        Ok(message) => {
            assert_eq!(used, cut_used);
            let Some((header, private)) = message else {
                assert!(stream.len() < cm::MAX_LEN);
                return;
            };
            let fixed = stream.first_chunk::<HEADER_LEN>().expect("a whole message");
            assert_eq!(parse(fixed), Ok(header));
            assert_eq!((used, private.len()), (HEADER_LEN + header.data_len, header.data_len));
            assert_eq!(private, stream[HEADER_LEN..used]);
            assert_eq!(answer, header.kind != Kind::Request);
            // What we would write ourselves says the same.
            let ours = cm::message("fuzz", header.kind, &private).expect("private data that was received");
            assert_eq!(ours[..4], stream[..4]);
            assert_eq!(ours[HEADER_LEN..], private);
            let mut again = assembly(answer);
            assert_eq!(again.take(&ours), Ok(used));
            let (header, again) = again.finish().expect("a whole message");
            assert_eq!((header.data_len, again), (private.len(), private));
        }
    }
}
