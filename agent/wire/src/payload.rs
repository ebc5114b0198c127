//! The values that Salt's `salt.payload` writes: the old form of msgpack with two extension types.
//! The files of a Salt master's cache contain them, and the messages between it and its minions.

use value::Value;

use crate::msgpack::{self, decode_foreign, encode_raw};
use crate::{Error, Limits};

/// The extension type of a date, as the text `20261120T101055.000012` with colons in the time.
const DATE: i8 = 78;
/// The extension type of one of Salt's constants: its name and its value.
const CONSTANT: i8 = 79;

/// The limits of a file or message, which are those of the row or frame that is made of it.
pub const LIMITS: Limits = Limits::STREAM;
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
pub fn decode(bytes: &[u8]) -> Result<Value, Error> {
    decode_foreign(bytes, LIMITS, &|kind, inside| match kind {
        DATE => date(std::str::from_utf8(inside).ok()?),
        CONSTANT => constant(inside),
        // Salt reads these as bytes, too.
        _ => Some(Value::Bytes(inside.into())),
    })
}

/// Encodes a value. Salt reads a text, or bytes that are UTF-8, as text, and a tuple or set as a list.
///
/// # Errors
/// When the value exceeds the limits.
pub fn encode(value: &Value) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    encode_raw(value, LIMITS, &mut bytes)?;
    Ok(bytes)
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
    fn texts_and_bytes_are_written_as_salt_writes_them() {
        let long = "x".repeat(40);
        let map = value::Map::new()
            .with("text", long.as_str())
            .with("bytes", Value::Bytes([0xff, 0].as_slice().into()))
            .with("tuple", Value::Tuple(vec![(-1).into(), 2.5.into()].into()))
            .with("big", Value::Big("18446744073709551615".into()))
            .with("beyond", Value::Big("18446744073709551616".into()));
        let written = encode(&map.into()).unwrap();
        let expected = [
            b"\x85\xa4text\xda\x00\x28".as_slice(),
            long.as_bytes(),
            b"\xa5bytes\xa2\xff\x00\xa5tuple\x92\xff\xcb\x40\x04\0\0\0\0\0\0",
            b"\xa3big\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xa6beyond\xb418446744073709551616",
        ];
        assert_eq!(written, expected.concat());
        let read = decode(&written).unwrap();
        assert_eq!(read.get("text").and_then(Value::as_str), Some(&*long));
        assert_eq!(
            read.get("bytes"),
            Some(&Value::Bytes([0xff, 0].as_slice().into()))
        );
        // Bytes that are UTF-8 are a text, in both forms of msgpack.
        assert_eq!(decode(b"\xc4\x02ok"), Ok("ok".into()));
    }

    #[test]
    fn extension_types_of_other_programs_are_bytes() {
        assert_eq!(
            decode(&extension(2, b"\x91\x01")),
            Ok(Value::Bytes(b"\x91\x01".as_slice().into()))
        );
    }
}
