//! [`Scanner`]: finds the end of a msgpack value in a stream without lengths, as bytes arrive.

use wire::{Error, Limits};

/// The state of a value of which only a part has arrived. It has no more memory than the nesting is
/// deep, and looks at each byte once, however slowly they arrive.
pub(crate) struct Scanner {
    limits: Limits,
    /// The number of values that are missing in each open container.
    open: Vec<u64>,
    /// The number of bytes that belong to the current scalar.
    skip: u64,
    /// The bytes of a head that has not arrived completely.
    head: Vec<u8>,
    items: usize,
    bytes: usize,
}

/// A head of a value: the number of its bytes after this head, and the number of values inside.
struct Head {
    bytes: u64,
    values: Option<u64>,
}

impl Scanner {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            open: Vec::new(),
            skip: 0,
            head: Vec::new(),
            items: 0,
            bytes: 0,
        }
    }

    /// Looks at the next bytes. Returns the number of them that belong to the value once it is
    /// complete; the scanner is then as new.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Option<usize>, Error> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.step(&mut rest)? {
                let used = bytes.len() - rest.len();
                self.count(used)?;
                *self = Self::new(self.limits);
                return Ok(Some(used));
            }
        }
        self.count(bytes.len())?;
        Ok(None)
    }

    fn count(&mut self, bytes: usize) -> Result<(), Error> {
        self.bytes += bytes;
        match self.bytes > self.limits.bytes {
            true => Err(Error::TooLong {
                bytes: self.bytes as u64,
                limit: self.limits.bytes,
            }),
            false => Ok(()),
        }
    }

    /// Reads some of the bytes. Returns true when the value is complete.
    fn step(&mut self, rest: &mut &[u8]) -> Result<bool, Error> {
        if self.skip > 0 {
            let skipped = self.skip.min(rest.len() as u64);
            *rest = rest.get(skipped as usize..).unwrap_or_default();
            self.skip -= skipped;
            return Ok(self.skip == 0 && self.ends());
        }
        let Some((first, after)) = rest.split_first() else {
            return Ok(false);
        };
        self.head.push(*first);
        *rest = after;
        let Some(head) = parse(&self.head)? else {
            return Ok(false);
        };
        self.head.clear();
        self.begins(&head)
    }

    fn begins(&mut self, head: &Head) -> Result<bool, Error> {
        self.items += 1;
        if self.items > self.limits.items {
            return Err(Error::TooMany {
                limit: self.limits.items,
            });
        }
        match head.values {
            Some(1..) if self.open.len() >= self.limits.depth => Err(Error::TooDeep {
                limit: self.limits.depth,
            }),
            Some(values @ 1..) => {
                self.open.push(values);
                Ok(false)
            }
            _ if head.bytes > 0 => {
                self.skip = head.bytes;
                Ok(false)
            }
            _ => Ok(self.ends()),
        }
    }

    /// Ends a value, and each container whose last value it is. Returns true if that was all.
    fn ends(&mut self) -> bool {
        while let Some(missing) = self.open.last_mut() {
            *missing -= 1;
            if *missing > 0 {
                return false;
            }
            self.open.pop();
        }
        true
    }
}

/// Reads a head; `None` if some of its bytes are missing.
fn parse(head: &[u8]) -> Result<Option<Head>, Error> {
    let Some((first, rest)) = head.split_first() else {
        return Ok(None);
    };
    let width = match first {
        0xc4 | 0xc7 | 0xd9 => 1,
        0xc5 | 0xc8 | 0xda | 0xdc | 0xde => 2,
        0xc6 | 0xc9 | 0xdb | 0xdd | 0xdf => 4,
        _ => 0,
    };
    if rest.len() < width {
        return Ok(None);
    }
    let length = rest.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
    let bytes = |bytes| Head {
        bytes,
        values: None,
    };
    let values = |values| Head {
        bytes: 0,
        values: Some(values),
    };
    Ok(Some(match first {
        0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => bytes(0),
        0x80..=0x8f => values(u64::from(first & 0x0f) * 2),
        0x90..=0x9f => values(u64::from(first & 0x0f)),
        0xa0..=0xbf => bytes(u64::from(first & 0x1f)),
        0xc4..=0xc6 | 0xd9..=0xdb => bytes(length),
        // The type of an extension follows its length.
        0xc7..=0xc9 => bytes(length + 1),
        0xca | 0xce | 0xd2 => bytes(4),
        0xcb | 0xcf | 0xd3 => bytes(8),
        0xcc | 0xd0 => bytes(1),
        0xcd | 0xd1 => bytes(2),
        0xd4..=0xd8 => bytes((1 << (first - 0xd4)) + 1),
        0xdc | 0xdd => values(length),
        0xde | 0xdf => values(length * 2),
        0xc1 => return Err(Error::Marker { byte: *first }),
    }))
}

#[cfg(test)]
mod tests {
    use value::{Map, Value};

    use super::*;

    fn sample() -> Vec<u8> {
        let list = Value::list((0..40).map(|n| Value::Int(n * 1_000_000)));
        let map = Map::new()
            .with("empty", Map::new())
            .with("list", list)
            .with("long", "x".repeat(70_000))
            .with("float", 1.5)
            .with("none", Value::Null);
        let mut bytes = wire::payload::encode(&map.into()).unwrap();
        // An extension after the map, as another value.
        bytes.extend(b"\xc7\x02\x4fab\xd4\x4e\x01");
        bytes
    }

    #[test]
    fn the_end_of_a_value_is_found_however_its_bytes_arrive() {
        let bytes = sample();
        for size in [1, 2, 7, 4096, bytes.len()] {
            let mut scanner = Scanner::new(Limits::STREAM);
            let (mut ends, mut at) = (Vec::new(), 0);
            for piece in bytes.chunks(size) {
                let mut rest = piece;
                while let Some(used) = scanner.feed(rest).unwrap() {
                    rest = &rest[used..];
                    ends.push(at + piece.len() - rest.len());
                }
                at += piece.len();
            }
            assert_eq!(
                ends,
                [bytes.len() - 8, bytes.len() - 3, bytes.len()],
                "{size}"
            );
        }
    }

    #[test]
    fn bombs_end_before_they_need_memory() {
        let limits = Limits {
            bytes: 1 << 10,
            depth: 8,
            items: 64,
        };
        let fails = |bytes: &[u8]| Scanner::new(limits).feed(bytes).unwrap_err();
        assert_eq!(fails(&[0x91; 20]), Error::TooDeep { limit: 8 });
        assert_eq!(
            fails(&[&[0xdd, 0xff, 0xff, 0xff, 0xff][..], &[0xc0; 99]].concat()),
            Error::TooMany { limit: 64 }
        );
        assert!(matches!(
            fails(&[&[0xdb, 0xff, 0xff, 0xff, 0xff][..], &[b'x'; 2000]].concat()),
            Error::TooLong { .. }
        ));
        assert_eq!(fails(&[0xc1]), Error::Marker { byte: 0xc1 });
    }
}
