//! Data from the network: no bytes crash the decoders, and a value that they read is the same after
//! it is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::tag::{self, Tag};
use wire::{Decoder, Frame, Id, Limits, Way, msgpack, rule};

/// Limits that a fuzzer reaches.
const SMALL: Limits = Limits {
    bytes: 2048,
    depth: 20,
    items: 500,
};

fn value(bytes: &[u8]) {
    let _ = msgpack::decode(bytes, SMALL);
    let Ok(value) = msgpack::decode(bytes, Limits::STREAM) else {
        return;
    };
    let mut written = Vec::new();
    msgpack::encode(&value, Limits::STREAM, &mut written).unwrap();
    let again = msgpack::decode(&written, Limits::STREAM).unwrap();
    assert_eq!(format!("{value:?}"), format!("{again:?}"));
}

fn frame(frame: &Frame) {
    for way in Way::ALL {
        let _ = rule::check(frame, way, false);
    }
    let mut written = Vec::new();
    frame.encode(Limits::STREAM, &mut written).unwrap();
    let again = Frame::decode(&written[4..], Limits::STREAM).unwrap();
    let mut twice = Vec::new();
    again.encode(Limits::STREAM, &mut twice).unwrap();
    assert_eq!(written, twice);
}

/// Passes the bytes to the decoder in pieces whose length the first byte defines.
fn stream(bytes: &[u8]) {
    let Some((piece, bytes)) = bytes.split_first() else {
        return;
    };
    let mut decoder = Decoder::new(SMALL);
    for piece in bytes.chunks(usize::from(*piece) + 1) {
        decoder.push(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(found)) => frame(&found),
                Ok(None) => break,
                Err(error) if error.is_fatal() => return,
                Err(_) => {}
            }
        }
    }
}

fn text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let own: Id = "m1".parse().unwrap();
    if tag::may_send(&own, text).is_ok() && text.starts_with("salt/") {
        assert!(text.contains("/m1"), "{text}");
    }
    let _ = Tag::parse(text);
    if let Ok(id) = text.parse::<Id>() {
        assert!(!id.as_str().contains(['/', '\0', '\n']) && !id.as_str().starts_with('.'));
    }
}

fuzz_target!(|bytes: &[u8]| {
    value(bytes);
    stream(bytes);
    text(bytes);
});
