//! MessagePack.

use state::module::Error;
use value::{Map, Value};

use super::unknown_option;

pub(super) fn serialize(data: &Value, options: &Map) -> Result<Value, Error> {
    if let Some((option, _)) = options.first() {
        return Err(unknown_option("msgpack", option));
    }
    Ok(Value::Bytes(bytes(data)?.into()))
}

/// Encodes a value as MessagePack.
///
/// # Errors
/// When MessagePack cannot represent the value.
pub(crate) fn bytes(data: &Value) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    put(&mut out, data)?;
    Ok(out)
}

/// Decodes MessagePack, nested at most `depth` levels; `None` when it is invalid.
pub(crate) fn read(bytes: &[u8], depth: usize) -> Option<Value> {
    let mut rest = bytes;
    let value = next(&mut rest, depth)?;
    rest.is_empty().then_some(value)
}

fn taken<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

fn number(rest: &mut &[u8], bytes: usize) -> Option<u64> {
    let taken = taken(rest, bytes)?;
    Some(
        taken
            .iter()
            .fold(0, |all, byte| all << 8 | u64::from(*byte)),
    )
}

fn next(rest: &mut &[u8], depth: usize) -> Option<Value> {
    let [first] = taken(rest, 1)? else {
        return None;
    };
    let size = |rest: &mut &[u8], first: u8, from: u8| {
        let count = number(rest, 1 << (first - from))?;
        usize::try_from(count).ok()
    };
    Some(match *first {
        positive @ 0..=0x7f => i64::from(positive).into(),
        map @ 0x80..=0x8f => entries(rest, usize::from(map & 0xf), depth)?,
        list @ 0x90..=0x9f => items(rest, usize::from(list & 0xf), depth)?,
        text @ 0xa0..=0xbf => string(rest, usize::from(text & 0x1f))?,
        0xc0 => Value::Null,
        truth @ 0xc2..=0xc3 => (truth == 0xc3).into(),
        binary @ 0xc4..=0xc6 => {
            let length = size(rest, binary, 0xc4)?;
            Value::Bytes(taken(rest, length)?.into())
        }
        0xca => f64::from(f32::from_bits(number(rest, 4)? as u32)).into(),
        0xcb => f64::from_bits(number(rest, 8)?).into(),
        whole @ 0xcc..=0xcf => {
            let whole = number(rest, 1 << (whole - 0xcc))?;
            i64::try_from(whole).map_or_else(|_| Value::Big(whole.to_string().into()), Value::Int)
        }
        whole @ 0xd0..=0xd3 => {
            let bytes = 1 << (whole - 0xd0);
            let shift = 64 - 8 * bytes as u32;
            (((number(rest, bytes)? << shift) as i64) >> shift).into()
        }
        text @ 0xd9..=0xdb => {
            let length = size(rest, text, 0xd9)?;
            string(rest, length)?
        }
        list @ 0xdc..=0xdd => {
            let count = number(rest, 2 << (list - 0xdc))?;
            items(rest, usize::try_from(count).ok()?, depth)?
        }
        map @ 0xde..=0xdf => {
            let count = number(rest, 2 << (map - 0xde))?;
            entries(rest, usize::try_from(count).ok()?, depth)?
        }
        negative @ 0xe0..=0xff => i64::from(negative as i8).into(),
        _ => return None,
    })
}

fn string(rest: &mut &[u8], length: usize) -> Option<Value> {
    let text = String::from_utf8_lossy(taken(rest, length)?).into_owned();
    Some(text.into())
}

fn items(rest: &mut &[u8], count: usize, depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    let all: Option<Vec<Value>> = (0..count).map(|_| next(rest, depth)).collect();
    Some(Value::list(all?))
}

fn entries(rest: &mut &[u8], count: usize, depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    let all: Option<Map> = (0..count)
        .map(|_| Some((next(rest, depth)?, next(rest, depth)?)))
        .collect();
    Some(all?.into())
}

fn put(out: &mut Vec<u8>, value: &Value) -> Result<(), Error> {
    match value {
        Value::Null => out.push(0xc0),
        Value::Bool(truth) => out.push(if *truth { 0xc3 } else { 0xc2 }),
        Value::Int(number) => put_int(out, *number),
        Value::Big(digits) => match digits.parse::<u64>() {
            Ok(number) => {
                out.push(0xcf);
                out.extend(number.to_be_bytes());
            }
            Err(_) => return Err("Integer value out of range".into()),
        },
        Value::Float(number) => {
            out.push(0xcb);
            out.extend(number.to_be_bytes());
        }
        Value::Str(text) => {
            put_length(out, text.len(), 0xa0, 32, &[0xd9, 0xda, 0xdb])?;
            out.extend(text.as_bytes());
        }
        Value::Bytes(bytes) => {
            put_length(out, bytes.len(), 0, 0, &[0xc4, 0xc5, 0xc6])?;
            out.extend(bytes.iter());
        }
        Value::List(items) | Value::Tuple(items) => {
            put_length(out, items.len(), 0x90, 16, &[0xdc, 0xdd])?;
            for item in items.iter() {
                put(out, item)?;
            }
        }
        Value::Map(map) => {
            put_length(out, map.len(), 0x80, 16, &[0xde, 0xdf])?;
            for (key, value) in map {
                put(out, key)?;
                put(out, value)?;
            }
        }
        Value::Set(_) => return Err("can not serialize 'set' object".into()),
    }
    Ok(())
}

/// Writes a length: within the first byte if it is below `small`, else after one of the kinds, the
/// widest of which has four bytes.
fn put_length(
    out: &mut Vec<u8>,
    length: usize,
    first: u8,
    small: usize,
    kinds: &[u8],
) -> Result<(), Error> {
    if length < small {
        out.push(first | length as u8);
        return Ok(());
    }
    let widths = [1_usize, 2, 4];
    for (kind, width) in kinds.iter().rev().zip(widths.iter().rev()).rev() {
        if length as u64 >> (8 * width) == 0 {
            out.push(*kind);
            out.extend((length as u64).to_be_bytes().iter().skip(8 - width));
            return Ok(());
        }
    }
    Err("the value is too long for msgpack".into())
}

fn put_int(out: &mut Vec<u8>, number: i64) {
    let mut wide = |kind: u8, width: usize| {
        out.push(kind);
        out.extend(number.to_be_bytes().iter().skip(8 - width));
    };
    match number {
        -32..=0x7f => out.push(number as u8),
        0x80..=0xff => wide(0xcc, 1),
        0x100..=0xffff => wide(0xcd, 2),
        0x1_0000..=0xffff_ffff => wide(0xce, 4),
        0x1_0000_0000.. => wide(0xcf, 8),
        -0x80..=-33 => wide(0xd0, 1),
        -0x8000..=-0x81 => wide(0xd1, 2),
        -0x8000_0000..=-0x8001 => wide(0xd2, 4),
        _ => wide(0xd3, 8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let long = "x".repeat(300);
        let all = Value::list([
            Value::Null,
            true.into(),
            (-5).into(),
            (-70_000).into(),
            300.into(),
            1.5.into(),
            long.into(),
            Map::new().with("k", Value::list([1.into()])).into(),
        ]);
        let written = bytes(&all).unwrap();
        assert_eq!(read(&written, 3), Some(all));
        assert_eq!(read(&written, 2), None);
        assert_eq!(read(&[0xdd, 0xff, 0xff, 0xff, 0xff], 9), None);
    }
}
