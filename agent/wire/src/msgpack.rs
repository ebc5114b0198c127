//! Converts a [`Value`] to msgpack and back, within [`Limits`].
//!
//! The crate `rmp` was considered. It would replace the tables of markers, but not the limits, the
//! extensions or the traversal, and it would add three packages.

use value::{Map, Value};

use crate::{Error, Limits};

/// The extension type of a whole number beyond 64 bits, stored as decimal digits.
const BIG: i8 = 1;
/// The extension type of a tuple, stored as an array.
const TUPLE: i8 = 2;
/// The extension type of a set, stored as an array.
const SET: i8 = 3;

/// Appends the encoded value.
///
/// # Errors
/// When it is larger than the limits allow. `out` then ends with a part of it.
pub fn encode(value: &Value, limits: Limits, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut writer = Writer::new(out, limits);
    writer.value(value)
}

/// Appends a value in the old form of msgpack, for another program: a text and bytes are the same
/// type, a tuple and a set are arrays, and a whole number beyond 64 bits is a text.
///
/// # Errors
/// As [`encode`].
pub fn encode_raw(value: &Value, limits: Limits, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut writer = Writer::new(out, limits);
    writer.is_raw = true;
    writer.value(value)
}

/// Decodes a value from all of the bytes.
///
/// # Errors
/// When the bytes are no value, more than one, or exceed the limits.
pub fn decode(bytes: &[u8], limits: Limits) -> Result<Value, Error> {
    all(bytes, limits, None)
}

/// Reads the value of an extension type from its contents; `None` if there is no such type.
pub type ReadExtension<'a> = &'a dyn Fn(i8, &[u8]) -> Option<Value>;

/// Decodes a value that another program has written, whose extension types differ from those here.
/// Such a program may use one type for texts and bytes: a value is a text if it is UTF-8.
///
/// # Errors
/// As [`decode`].
pub fn decode_foreign(
    bytes: &[u8],
    limits: Limits,
    extension: ReadExtension<'_>,
) -> Result<Value, Error> {
    all(bytes, limits, Some(extension))
}

fn all(bytes: &[u8], limits: Limits, foreign: Option<ReadExtension<'_>>) -> Result<Value, Error> {
    if bytes.len() > limits.bytes {
        return Err(Error::TooLong {
            bytes: bytes.len() as u64,
            limit: limits.bytes,
        });
    }
    let mut reader = Reader {
        rest: bytes,
        limits,
        depth: 0,
        items: 0,
        foreign,
    };
    let value = reader.value()?;
    match reader.rest.len() {
        0 => Ok(value),
        bytes => Err(Error::Trailing { bytes }),
    }
}

/// Writes values one after the other, and counts them.
pub(crate) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    limits: Limits,
    depth: usize,
    items: usize,
    /// True for the old form of msgpack.
    is_raw: bool,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>, limits: Limits) -> Self {
        let start = out.len();
        Self {
            out,
            start,
            limits,
            depth: 0,
            items: 0,
            is_raw: false,
        }
    }

    /// Writes the head of a value with a length: the marker of the smallest width that fits, then
    /// the length.
    fn head(&mut self, length: usize, widths: &[(u8, usize)]) -> Result<(), Error> {
        for (marker, bytes) in widths {
            if *bytes == 4 || length >> (8 * bytes) == 0 {
                self.out.push(*marker);
                return self.number(length as u64, *bytes);
            }
        }
        Ok(())
    }

    /// Writes the last `bytes` bytes of a number, the highest first.
    fn number(&mut self, number: u64, bytes: usize) -> Result<(), Error> {
        let all = number.to_be_bytes();
        self.bytes(all.get(8 - bytes..).unwrap_or_default())
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let length = self.out.len() - self.start + bytes.len();
        if length > self.limits.bytes {
            return Err(Error::TooLong {
                bytes: length as u64,
                limit: self.limits.bytes,
            });
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn count(&mut self) -> Result<(), Error> {
        self.items += 1;
        if self.items > self.limits.items {
            return Err(Error::TooMany {
                limit: self.limits.items,
            });
        }
        Ok(())
    }

    pub(crate) fn map_head(&mut self, length: usize) -> Result<(), Error> {
        self.count()?;
        match length {
            0..16 => self.bytes(&[0x80 | length as u8]),
            _ => self.head(length, &[(0xde, 2), (0xdf, 4)]),
        }
    }

    fn array(&mut self, items: &mut dyn ExactSizeIterator<Item = &Value>) -> Result<(), Error> {
        match items.len() {
            length @ 0..16 => self.bytes(&[0x90 | length as u8])?,
            length => self.head(length, &[(0xdc, 2), (0xdd, 4)])?,
        }
        for item in items {
            self.value(item)?;
        }
        Ok(())
    }

    pub(crate) fn text(&mut self, text: &str) -> Result<(), Error> {
        self.count()?;
        if self.is_raw {
            return self.raw(text.as_bytes());
        }
        match text.len() {
            length @ 0..32 => self.bytes(&[0xa0 | length as u8])?,
            length => self.head(length, &[(0xd9, 1), (0xda, 2), (0xdb, 4)])?,
        }
        self.bytes(text.as_bytes())
    }

    /// Writes a text or bytes in the old form, which has no length of one byte.
    fn raw(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match bytes.len() {
            length @ 0..32 => self.bytes(&[0xa0 | length as u8])?,
            length => self.head(length, &[(0xda, 2), (0xdb, 4)])?,
        }
        self.bytes(bytes)
    }

    /// Writes a value of a type that the old form lacks.
    fn raw_value(&mut self, value: &Value) -> Result<(), Error> {
        match value {
            Value::Bytes(bytes) => self.raw(bytes),
            Value::Big(digits) => match digits.parse() {
                Ok(number) => self.marked(0xcf, number, 8),
                Err(_) => self.raw(digits.as_bytes()),
            },
            Value::Tuple(items) => self.nested(&mut |writer| writer.array(&mut items.iter())),
            Value::Set(items) => self.nested(&mut |writer| writer.array(&mut items.keys())),
            _ => Ok(()),
        }
    }

    fn int(&mut self, number: i64) -> Result<(), Error> {
        let wide = number as u64;
        match number {
            -32..=127 => self.bytes(&[number as u8]),
            128..=0xff => self.marked(0xcc, wide, 1),
            0x100..=0xffff => self.marked(0xcd, wide, 2),
            0x1_0000..=0xffff_ffff => self.marked(0xce, wide, 4),
            0x1_0000_0000.. => self.marked(0xcf, wide, 8),
            -0x80..-32 => self.marked(0xd0, wide, 1),
            -0x8000..-0x80 => self.marked(0xd1, wide, 2),
            -0x8000_0000..-0x8000 => self.marked(0xd2, wide, 4),
            _ => self.marked(0xd3, wide, 8),
        }
    }

    fn marked(&mut self, marker: u8, number: u64, bytes: usize) -> Result<(), Error> {
        self.bytes(&[marker])?;
        self.number(number, bytes)
    }

    /// Writes an extension. Its length is known only after its contents are written, so four bytes
    /// are reserved for it.
    fn extension(
        &mut self,
        kind: i8,
        write: &mut dyn FnMut(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.bytes(&[0xc9, 0, 0, 0, 0, kind as u8])?;
        let start = self.out.len();
        write(self)?;
        let length = (self.out.len() - start) as u32;
        if let Some(place) = self.out.get_mut(start - 5..start - 1) {
            place.copy_from_slice(&length.to_be_bytes());
        }
        Ok(())
    }

    pub(crate) fn value(&mut self, value: &Value) -> Result<(), Error> {
        if let Value::Str(text) = value {
            return self.text(text);
        }
        if let Value::Map(map) = value {
            return self.nested(&mut |writer| writer.map(map));
        }
        self.count()?;
        match value {
            Value::Null => self.bytes(&[0xc0]),
            Value::Bool(truth) => self.bytes(&[0xc2 | u8::from(*truth)]),
            Value::Int(number) => self.int(*number),
            Value::Float(number) => self.marked(0xcb, number.to_bits(), 8),
            Value::List(items) => self.nested(&mut |writer| writer.array(&mut items.iter())),
            other if self.is_raw => self.raw_value(other),
            Value::Big(digits) => {
                self.extension(BIG, &mut |writer| writer.bytes(digits.as_bytes()))
            }
            Value::Bytes(bytes) => {
                self.head(bytes.len(), &[(0xc4, 1), (0xc5, 2), (0xc6, 4)])?;
                self.bytes(bytes)
            }
            Value::Tuple(items) => self.nested(&mut |writer| {
                writer.extension(TUPLE, &mut |writer| writer.array(&mut items.iter()))
            }),
            Value::Set(items) => self.nested(&mut |writer| {
                writer.extension(SET, &mut |writer| writer.array(&mut items.keys()))
            }),
            Value::Str(_) | Value::Map(_) => Ok(()),
        }
    }

    fn map(&mut self, map: &Map) -> Result<(), Error> {
        self.map_head(map.len())?;
        map.iter().try_for_each(|(key, value)| {
            hashable(key)?;
            self.value(key)?;
            self.value(value)
        })
    }

    fn nested(
        &mut self,
        write: &mut dyn FnMut(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.depth == self.limits.depth {
            return Err(Error::TooDeep { limit: self.depth });
        }
        self.depth += 1;
        let written = write(self);
        self.depth -= 1;
        written
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    limits: Limits,
    depth: usize,
    items: usize,
    /// The extension types of another program, which replace those here.
    foreign: Option<ReadExtension<'a>>,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Error::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Error> {
        let (first, rest) = self.rest.split_first().ok_or(Error::Truncated)?;
        self.rest = rest;
        Ok(*first)
    }

    /// Reads a number of up to eight bytes, the highest first.
    fn number(&mut self, bytes: usize) -> Result<u64, Error> {
        let all = self.take(bytes)?.iter();
        Ok(all.fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn length(&mut self, bytes: usize) -> Result<usize, Error> {
        Ok(self.number(bytes)? as usize)
    }

    /// Reads a signed number of up to eight bytes.
    fn signed(&mut self, bytes: usize) -> Result<Value, Error> {
        let unused = 64 - 8 * bytes as u32;
        Ok(Value::Int((self.number(bytes)? << unused) as i64 >> unused))
    }

    fn value(&mut self) -> Result<Value, Error> {
        self.items += 1;
        if self.items > self.limits.items {
            return Err(Error::TooMany {
                limit: self.limits.items,
            });
        }
        match self.byte()? {
            byte @ 0x00..=0x7f => Ok(Value::Int(byte.into())),
            byte @ 0x80..=0x8f => self.map((byte & 0x0f).into()),
            byte @ 0x90..=0x9f => self.array((byte & 0x0f).into()).map(Value::list),
            byte @ 0xa0..=0xbf => self.text((byte & 0x1f).into()),
            0xc0 => Ok(Value::Null),
            byte @ (0xc2 | 0xc3) => Ok(Value::Bool(byte == 0xc3)),
            0xca => Ok(Value::Float(f32::from_bits(self.number(4)? as u32).into())),
            0xcb => Ok(Value::Float(f64::from_bits(self.number(8)?))),
            byte @ 0xc4..=0xc6 => {
                let length = self.length(1 << (byte - 0xc4))?;
                match self.foreign {
                    Some(_) => self.text(length),
                    None => Ok(Value::Bytes(self.take(length)?.into())),
                }
            }
            byte @ 0xc7..=0xc9 => {
                let length = self.length(1 << (byte - 0xc7))?;
                self.extension(length)
            }
            byte @ 0xcc..=0xcf => Ok(self.number(1 << (byte - 0xcc))?.into()),
            byte @ 0xd0..=0xd3 => self.signed(1 << (byte - 0xd0)),
            byte @ 0xd4..=0xd8 => self.extension(1 << (byte - 0xd4)),
            byte @ 0xd9..=0xdb => {
                let length = self.length(1 << (byte - 0xd9))?;
                self.text(length)
            }
            byte @ (0xdc | 0xdd) => {
                let length = self.length(2 << (byte - 0xdc))?;
                self.array(length).map(Value::list)
            }
            byte @ (0xde | 0xdf) => {
                let length = self.length(2 << (byte - 0xde))?;
                self.map(length)
            }
            byte @ 0xe0..=0xff => Ok(Value::Int((byte as i8).into())),
            byte @ 0xc1 => Err(Error::Marker { byte }),
        }
    }

    fn text(&mut self, length: usize) -> Result<Value, Error> {
        let bytes = self.take(length)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.into()),
            Err(_) if self.foreign.is_some() => Ok(Value::Bytes(bytes.into())),
            Err(_) => Err(Error::Text),
        }
    }

    /// Enters a nested level of `length` values. Fails if there are fewer bytes left than that.
    fn enter(&mut self, length: usize) -> Result<(), Error> {
        if self.depth == self.limits.depth {
            return Err(Error::TooDeep { limit: self.depth });
        }
        if length > self.rest.len() {
            return Err(Error::Truncated);
        }
        if length > self.limits.items - self.items {
            return Err(Error::TooMany {
                limit: self.limits.items,
            });
        }
        self.depth += 1;
        Ok(())
    }

    fn array(&mut self, length: usize) -> Result<Vec<Value>, Error> {
        self.enter(length)?;
        let mut items = Vec::with_capacity(length);
        for _ in 0..length {
            items.push(self.value()?);
        }
        self.depth -= 1;
        Ok(items)
    }

    fn map(&mut self, length: usize) -> Result<Value, Error> {
        self.enter(length)?;
        let mut map = Map::new();
        for _ in 0..length {
            let key = self.key()?;
            if map.insert(key, self.value()?).is_some() {
                return Err(Error::Duplicate);
            }
        }
        self.depth -= 1;
        Ok(Value::Map(map))
    }

    fn key(&mut self) -> Result<Value, Error> {
        let key = self.value()?;
        hashable(&key)?;
        Ok(key)
    }

    fn extension(&mut self, length: usize) -> Result<Value, Error> {
        let kind = self.byte()? as i8;
        let inside = self.take(length)?;
        if let Some(read) = self.foreign {
            return read(kind, inside).ok_or(Error::Extension { kind });
        }
        let after = std::mem::replace(&mut self.rest, inside);
        let value = match kind {
            BIG => big(self.take(length)?),
            TUPLE => self.tuple(),
            SET => self.set(),
            kind => Err(Error::Extension { kind }),
        }?;
        let left = std::mem::replace(&mut self.rest, after).len();
        match left {
            0 => Ok(value),
            bytes => Err(Error::Trailing { bytes }),
        }
    }

    fn tuple(&mut self) -> Result<Value, Error> {
        let length = self.array_length()?;
        Ok(Value::Tuple(self.array(length)?.into()))
    }

    fn set(&mut self) -> Result<Value, Error> {
        let length = self.array_length()?;
        let mut items = Map::new();
        for item in self.array(length)? {
            hashable(&item)?;
            if items.insert(item, Value::Null).is_some() {
                return Err(Error::Duplicate);
            }
        }
        Ok(Value::Set(items))
    }

    fn array_length(&mut self) -> Result<usize, Error> {
        match self.byte()? {
            byte @ 0x90..=0x9f => Ok((byte & 0x0f).into()),
            byte @ (0xdc | 0xdd) => self.length(2 << (byte - 0xdc)),
            byte => Err(Error::Marker { byte }),
        }
    }
}

/// Rejects a key that Python rejects. Also rejects NaN, because such keys would all collide in the
/// hash table.
fn hashable(key: &Value) -> Result<(), Error> {
    match key {
        Value::Tuple(items) => items.iter().try_for_each(hashable),
        Value::List(_) | Value::Map(_) | Value::Set(_) => Err(Error::Key {
            type_name: key.type_name(),
        }),
        Value::Float(number) if number.is_nan() => Err(Error::Key { type_name: "nan" }),
        _ => Ok(()),
    }
}

/// Reads decimal digits as Python writes them. The number must be too large for the other forms.
fn big(digits: &[u8]) -> Result<Value, Error> {
    let text = std::str::from_utf8(digits).map_err(|_| Error::Digits)?;
    let bare = text.strip_prefix('-').unwrap_or(text);
    let plain = !bare.starts_with('0') && bare.bytes().all(|digit| digit.is_ascii_digit());
    if bare.is_empty() || !plain || text.parse::<i64>().is_ok() {
        return Err(Error::Digits);
    }
    Ok(Value::Big(text.into()))
}

#[cfg(test)]
pub(crate) mod tests;
