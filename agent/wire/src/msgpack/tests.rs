use super::*;

const SMALL: Limits = Limits {
    bytes: 1000,
    depth: 10,
    items: 100,
};

fn bytes_of(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    encode(value, Limits::STREAM, &mut out).unwrap();
    out
}

/// Returns whether two values are the same. Python's equality is not enough: `1`, `1.0` and `True`
/// must be distinguished, and maps must keep their order.
fn same(a: &Value, b: &Value) -> bool {
    format!("{a:?}") == format!("{b:?}")
}

/// A generator of numbers that depend on a seed alone.
pub(crate) struct Seeded(pub(crate) u64);

impl Seeded {
    pub(crate) fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % below
    }

    fn wide(&mut self) -> u64 {
        let shift = self.next(64);
        self.next(u64::MAX) >> shift
    }

    fn text(&mut self) -> String {
        let longest = [3, 40, 300, 70_000][self.next(100).min(99) as usize / 33];
        let length = self.next(longest);
        let letters = ['a', '0', '/', 'ä', '\n', '🦀', '\0'];
        (0..length)
            .map(|_| letters[self.next(7) as usize])
            .collect()
    }

    fn key(&mut self) -> Value {
        match self.next(6) {
            0 => Value::Int(self.wide() as i64),
            1 => Value::Bytes(self.text().into_bytes().into()),
            2 => Value::Tuple(vec![self.text().into(), Value::Null].into()),
            3 => Value::Float(self.wide() as f64 / 7.0),
            _ => self.text().into(),
        }
    }

    pub(crate) fn value(&mut self, depth: u64) -> Value {
        let count = self.next([20, 5][usize::from(depth < 3)]);
        match self.next(if depth == 0 { 8 } else { 12 }) {
            0 => Value::Null,
            1 => Value::Bool(self.next(2) == 1),
            2 => Value::Int(self.wide() as i64),
            3 => Value::Int(-((self.wide() >> 1) as i64)),
            4 => Value::Float(f64::from_bits(self.next(u64::MAX))),
            5 => Value::from(i128::from(self.wide()) * i128::from(i64::MAX)),
            6 => Value::Bytes(self.text().into_bytes().into()),
            7 => self.text().into(),
            8 => Value::list((0..count).map(|_| self.value(depth - 1))),
            9 => Value::Tuple(
                (0..count)
                    .map(|_| self.value(depth - 1))
                    .collect::<Vec<_>>()
                    .into(),
            ),
            10 => Value::Set((0..count).map(|_| (self.key(), Value::Null)).collect()),
            _ => Value::Map(
                (0..count)
                    .map(|_| (self.key(), self.value(depth - 1)))
                    .collect(),
            ),
        }
    }
}

#[test]
fn what_is_written_is_read_as_the_same() {
    for seed in 1..1500 {
        let value = Seeded(seed * 0x9e37_79b9).value(4);
        let written = bytes_of(&value);
        let read = decode(&written, Limits::STREAM).unwrap();
        assert!(same(&value, &read), "seed {seed}");
        assert_eq!(bytes_of(&read), written, "seed {seed}");
    }
}

#[test]
fn every_width_of_a_number_comes_back() {
    for shift in 0..64 {
        for number in [
            1_i64 << shift,
            (1_i64 << shift).wrapping_sub(1),
            -1_i64 << shift,
        ] {
            for number in [number, number.wrapping_neg(), number.wrapping_sub(1)] {
                let value = Value::Int(number);
                assert!(
                    same(&decode(&bytes_of(&value), SMALL).unwrap(), &value),
                    "{number}"
                );
            }
        }
    }
    let wide = Value::from(u64::MAX);
    assert!(same(&decode(&bytes_of(&wide), SMALL).unwrap(), &wide));
    assert!(same(
        &decode(&[0xcf; 9], SMALL).unwrap(),
        &Value::from(0xcfcf_cfcf_cfcf_cfcf_u64)
    ));
    assert!(same(
        &decode(&[0xca, 0x3f, 0x80, 0, 0], SMALL).unwrap(),
        &Value::Float(1.0)
    ));
}

#[test]
fn every_limit_has_its_error_on_both_sides() {
    let deep = (0..11).fold(Value::Null, |value, _| Value::list([value]));
    let many = Value::list((0..100).map(|_| Value::Null));
    let long = Value::from("x".repeat(1000));
    let wanted = [
        (deep, Error::TooDeep { limit: 10 }),
        (many, Error::TooMany { limit: 100 }),
        (
            long,
            Error::TooLong {
                bytes: 1003,
                limit: 1000,
            },
        ),
    ];
    for (value, error) in wanted {
        assert_eq!(encode(&value, SMALL, &mut Vec::new()), Err(error.clone()));
        assert_eq!(decode(&bytes_of(&value), SMALL).unwrap_err(), error);
    }
}

#[test]
fn malformed_bytes_are_errors() {
    let key = |type_name| Error::Key { type_name };
    let cases: &[(&[u8], Error)] = &[
        (&[], Error::Truncated),
        (&[0xc1], Error::Marker { byte: 0xc1 }),
        (&[0xc0, 0xc0], Error::Trailing { bytes: 1 }),
        (&[0xa2, b'a'], Error::Truncated),
        (&[0xa1, 0xff], Error::Text),
        (&[0xdd, 0xff, 0xff, 0xff, 0xff], Error::Truncated),
        (&[0xdf, 0xff, 0xff, 0xff, 0xff], Error::Truncated),
        (&[0xc6, 0xff, 0xff, 0xff, 0xff], Error::Truncated),
        (&[0x81, 0x90, 0xc0], key("list")),
        (&[0x81, 0x80, 0xc0], key("dict")),
        (
            &[0x81, 0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0, 0xc0],
            key("nan"),
        ),
        (&[0x82, 0x01, 0xc0, 0x01, 0xc0], Error::Duplicate),
        (&[0x82, 0x01, 0xc0, 0xc3, 0xc0], Error::Duplicate),
        (&[0xd4, 0x05, 0x00], Error::Extension { kind: 5 }),
        (&[0xd6, 0xff, 0, 0, 0, 0], Error::Extension { kind: -1 }),
        (&[0xd4, 0x01, b'7'], Error::Digits),
        (&[0xd4, 0x01, b'x'], Error::Digits),
        (&[0xd5, 0x02, 0x90, 0xc0], Error::Trailing { bytes: 1 }),
        (&[0xd4, 0x02, 0xc0], Error::Marker { byte: 0xc0 }),
        (&[0xd4, 0x02, 0x91], Error::Truncated),
        (&[0xc7, 3, 0x03, 0x92, 1, 1], Error::Duplicate),
        (&[0xc7, 2, 0x03, 0x91, 0x80], key("dict")),
    ];
    for (bytes, error) in cases {
        assert_eq!(decode(bytes, SMALL).as_ref(), Err(error), "{bytes:02x?}");
    }
    let unhashable = Value::Map(
        [(Value::list([Value::Null]), Value::Null)]
            .into_iter()
            .collect(),
    );
    assert_eq!(
        encode(&unhashable, SMALL, &mut Vec::new()),
        Err(key("list"))
    );
}

#[test]
fn damaged_bytes_never_panic_nor_grow() {
    let mut seeded = Seeded(77);
    for _ in 0..20_000 {
        let mut bytes = bytes_of(&seeded.value(2));
        bytes.truncate(900);
        for _ in 0..3 {
            let at = seeded.next(bytes.len() as u64) as usize;
            bytes[at] = seeded.next(256) as u8;
        }
        if let Ok(value) = decode(&bytes, SMALL) {
            let written = bytes_of(&value);
            assert!(same(&decode(&written, Limits::STREAM).unwrap(), &value));
        }
    }
}

#[test]
fn extension_types_of_other_programs_replace_those_here() {
    let tuple = bytes_of(&Value::Tuple(vec![Value::Int(1)].into()));
    let kinds = |kind: i8, inside: &[u8]| (kind == 2).then(|| Value::Int(inside.len() as i64));
    assert_eq!(decode_foreign(&tuple, SMALL, &kinds), Ok(Value::Int(2)));
    let big = bytes_of(&Value::Big("18446744073709551616".into()));
    let unknown = Err(Error::Extension { kind: 1 });
    assert_eq!(decode_foreign(&big, SMALL, &kinds), unknown);
    let nested = bytes_of(&Value::list([Value::Tuple(vec![].into())]));
    let read = decode_foreign(&nested, SMALL, &kinds);
    assert_eq!(read, Ok(Value::list([Value::Int(1)])));
    // The limits are the same.
    let long = Limits { bytes: 3, ..SMALL };
    assert!(decode_foreign(&nested, long, &kinds).is_err());
}
