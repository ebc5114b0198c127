//! MessagePack.

use state::module::Error;
use value::{Map, Value};

use super::unknown_option;

pub(super) fn serialize(data: &Value, options: &Map) -> Result<Value, Error> {
    if let Some((option, _)) = options.first() {
        return Err(unknown_option("msgpack", option));
    }
    let mut out = Vec::new();
    put(&mut out, data)?;
    Ok(Value::Bytes(out.into()))
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

/// A length: in the first byte where it is below `small`, else after one of the kinds, the widest of which has four bytes.
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
