//! The values that Salt's `salt.payload` writes: msgpack with two extension types.

use value::Value;
use wire::msgpack::{self, decode_foreign};
use wire::{Error, Limits};

/// The extension type of a date, as the text `20261120T101055.000012` with colons in the time.
const DATE: i8 = 78;
/// The extension type of one of Salt's constants: its name and its value.
const CONSTANT: i8 = 79;

/// The limits of a file, which are those of the row that is made of it.
pub(super) const FILE: Limits = Limits::STREAM;
/// The limits of a constant.
const OF_CONSTANT: Limits = Limits {
    bytes: 4 << 10,
    depth: 4,
    items: 64,
};

/// Decodes a value. A date becomes its text in Python, as in Salt's output.
///
/// # Errors
/// When the bytes are no value, more than one, or exceed the limits.
pub(super) fn decode(bytes: &[u8]) -> Result<Value, Error> {
    decode_foreign(bytes, FILE, &|kind, inside| match kind {
        DATE => date(std::str::from_utf8(inside).ok()?),
        CONSTANT => constant(inside),
        // Salt reads these as bytes, too.
        _ => Some(Value::Bytes(inside.into())),
    })
}

fn date(text: &str) -> Option<Value> {
    let shape = |byte: u8| match byte.is_ascii_digit() {
        true => b'0',
        false => byte,
    };
    let is_date = text.bytes().map(shape).eq(*b"00000000T00:00:00.000000");
    let part = |from: usize, to: usize| text.get(from..to).filter(|_| is_date);
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (time, micros) = (part(9, 17)?, part(17, 24)?);
    let micros = match micros {
        ".000000" => "",
        micros => micros,
    };
    Some(format!("{year}-{month}-{day} {time}{micros}").into())
}

fn constant(inside: &[u8]) -> Option<Value> {
    let read = msgpack::decode(inside, OF_CONSTANT).ok()?;
    let [name, value] = read.as_list()? else {
        return None;
    };
    let name = name.as_str()?;
    Some(match value.is_true() {
        true => format!("<Constant.{name} value={}>", value.to_text()).into(),
        false => format!("<Constant.{name}>").into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extension(kind: u8, inside: &[u8]) -> Vec<u8> {
        let head = [0xc7, u8::try_from(inside.len()).unwrap(), kind];
        [head.as_slice(), inside].concat()
    }

    #[test]
    fn a_date_is_its_text_in_python() {
        let read = |text: &str| decode(&extension(78, text.as_bytes()));
        assert_eq!(
            read("20261120T10:10:55.000012"),
            Ok("2026-11-20 10:10:55.000012".into())
        );
        assert_eq!(
            read("20261120T00:00:00.000000"),
            Ok("2026-11-20 00:00:00".into())
        );
        for wrong in [
            "",
            "20261120",
            "2026112äT10:10:55.00001",
            "20261120T10:10:55.0000120",
        ] {
            assert_eq!(read(wrong), Err(Error::Extension { kind: 78 }), "{wrong}");
        }
    }

    #[test]
    fn a_constant_is_its_text_in_python_and_contains_no_other() {
        let name = b"\x92\xa7NOT_SET";
        let read = |value: &[u8]| decode(&extension(79, &[name, value].concat()));
        assert_eq!(read(b"\xc0"), Ok("<Constant.NOT_SET>".into()));
        assert_eq!(read(b"\x05"), Ok("<Constant.NOT_SET value=5>".into()));
        // Attack: constants within constants, which would be decoded by recursion.
        let nested = (0..20).fold(vec![0xc0], |inside, _| {
            extension(79, &[b"\x92\xa1x", inside.as_slice()].concat())
        });
        assert_eq!(decode(&nested), Err(Error::Extension { kind: 79 }));
    }

    #[test]
    fn extension_types_of_other_programs_are_bytes() {
        assert_eq!(
            decode(&extension(2, b"\x91\x01")),
            Ok(Value::Bytes(b"\x91\x01".as_slice().into()))
        );
    }
}
