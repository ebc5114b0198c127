//! DER, the binary encoding of certificates.

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub(crate) use super::print::{Der, OID, SEQUENCE, SET};

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const UTF8: u8 = 0x0c;
pub(crate) const PRINTABLE: u8 = 0x13;
pub(crate) const IA5: u8 = 0x16;

/// Encodes an element: its tag, its length, and its contents.
pub(crate) fn part(tag: u8, inside: &[u8]) -> Vec<u8> {
    let mut all = vec![tag];
    let length = inside.len();
    match u8::try_from(length) {
        Ok(short @ 0..=0x7f) => all.push(short),
        _ => {
            let bytes = length.to_be_bytes();
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            let bytes = bytes.get(zeros..).unwrap_or_default();
            all.push(0x80 | bytes.len() as u8);
            all.extend(bytes);
        }
    }
    all.extend(inside);
    all
}

/// Encodes an element that contains other elements.
pub(crate) fn parts(tag: u8, inside: &[Vec<u8>]) -> Vec<u8> {
    part(tag, &inside.concat())
}

/// Encodes a non-negative integer from its bytes.
pub(crate) fn integer(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let bytes = bytes.get(zeros..).unwrap_or_default();
    let needs_sign = bytes.first().is_none_or(|byte| byte & 0x80 != 0);
    let sign: &[u8] = if needs_sign { &[0] } else { &[] };
    part(INTEGER, &[sign, bytes].concat())
}

pub(crate) fn boolean(truth: bool) -> Vec<u8> {
    part(BOOLEAN, &[if truth { 0xff } else { 0 }])
}

/// Encodes an object identifier from its dotted form; `None` when it is invalid.
pub(crate) fn oid(dotted: &str) -> Option<Vec<u8>> {
    let numbers: Result<Vec<u64>, _> = dotted.split('.').map(str::parse).collect();
    let numbers = numbers.ok()?;
    let [first @ 0..=2, second, rest @ ..] = numbers.as_slice() else {
        return None;
    };
    let first = first.checked_mul(40)?.checked_add(*second)?;
    let mut inside = Vec::new();
    for number in [first].iter().chain(rest) {
        let mut bytes = vec![(number & 0x7f) as u8];
        let mut left = number >> 7;
        while left > 0 {
            bytes.push(0x80 | (left & 0x7f) as u8);
            left >>= 7;
        }
        inside.extend(bytes.iter().rev());
    }
    Some(part(OID, &inside))
}

/// Encodes an object identifier that is a constant of this program.
pub(crate) fn constant_oid(dotted: &'static str) -> Vec<u8> {
    oid(dotted).unwrap_or_default()
}

/// Encodes a time: with a two-digit year before 2050, with four digits after that.
pub(crate) fn time(moment: Timestamp) -> Vec<u8> {
    let civil = moment.to_zoned(TimeZone::UTC);
    match civil.year() {
        1950..2050 => part(0x17, civil.strftime("%y%m%d%H%M%SZ").to_string().as_bytes()),
        _ => part(0x18, stamp(moment).as_bytes()),
    }
}

/// Formats a time as `YYYYMMDDhhmmssZ`.
pub(crate) fn stamp(moment: Timestamp) -> String {
    let civil = moment.to_zoned(TimeZone::UTC);
    civil.strftime("%Y%m%d%H%M%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_numbers_and_identifiers_are_as_short_as_can_be() {
        assert_eq!(part(4, &[7; 3]), [4, 3, 7, 7, 7]);
        assert_eq!(part(4, &[0; 300])[..4], [4, 0x82, 1, 44]);
        assert_eq!(integer(&[0, 0x80]), [2, 2, 0, 0x80]);
        assert_eq!(integer(&[]), [2, 1, 0]);
        assert_eq!(
            constant_oid("1.2.840.113549"),
            [6, 6, 42, 0x86, 0x48, 0x86, 0xf7, 13]
        );
        assert_eq!(oid("3.1"), None);
        let first: Timestamp = "2049-12-31T23:59:59Z".parse().unwrap();
        assert_eq!(time(first), b"\x17\x0d491231235959Z");
        let second: Timestamp = "2050-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(time(second), b"\x18\x0f20500101000000Z");
    }
}
