//! Constructs values from scalars, with Python's messages for those that do not fit their tag.

use std::sync::Arc;

use value::{Value, python};

use super::error::{Error, Mark};
use super::resolve::Tag;

/// The maximum number of digits of a decimal number that Python converts.
const MAX_DIGITS: usize = 4300;

/// Returns the value of a scalar; `None` if its tag is for collections.
pub(super) fn construct(tag: &Tag, text: &Arc<str>, mark: Mark) -> Result<Option<Value>, Error> {
    Ok(Some(match tag {
        Tag::Null => Value::Null,
        Tag::Bool => boolean(text)?,
        Tag::Int => integer(text)?,
        Tag::Float => Value::Float(float(text)?),
        Tag::Str | Tag::Unicode | Tag::Timestamp => Value::Str(Arc::clone(text)),
        Tag::Binary => Value::Bytes(binary(text, mark)?.into()),
        Tag::Seq | Tag::Map | Tag::Omap | Tag::Pairs | Tag::Set => return Ok(None),
        Tag::Merge | Tag::Value | Tag::Other(_) => return Err(unknown(tag, mark)),
    }))
}

/// Returns the error for a tag that Salt does not know.
pub(super) fn unknown(tag: &Tag, mark: Mark) -> Error {
    let name = repr(&tag.name());
    Error::constructor(
        format!("could not determine a constructor for the tag {name}"),
        mark,
    )
}

pub(super) fn repr(text: &str) -> String {
    let mut out = String::new();
    python::quote(&mut out, text);
    out
}

fn boolean(text: &str) -> Result<Value, Error> {
    match text.to_lowercase().as_str() {
        "yes" | "true" | "on" => Ok(Value::Bool(true)),
        "no" | "false" | "off" => Ok(Value::Bool(false)),
        other => Err(Error::value(repr(other))),
    }
}

/// Reads an integer. Salt reads `0644` as 644: it drops leading zeros, but only if there is no sign
/// before them.
fn integer(text: &str) -> Result<Value, Error> {
    let octal = text.starts_with('0') && !text.starts_with("0b") && !text.starts_with("0x");
    let text = match text.trim_start_matches('0') {
        _ if !octal => text,
        "" => "0",
        rest => rest,
    };
    let (negative, digits) = signed(text)?;
    let mut number = if let Some(rest) = digits.strip_prefix("0b") {
        parse_int(rest, 2)?
    } else if let Some(rest) = digits.strip_prefix("0x") {
        parse_int(rest, 16)?
    } else if digits.starts_with('0') && digits != "0" {
        parse_int(&digits, 8)?
    } else if digits.contains(':') {
        sixtieths(&digits)?
    } else {
        parse_int(&digits, 10)?
    };
    number.negative ^= negative;
    Ok(number.into())
}

/// Removes underscores and the sign.
fn signed(text: &str) -> Result<(bool, String), Error> {
    let text = text.replace('_', "");
    match text.chars().next() {
        None => Err(Error::value("string index out of range")),
        Some('-') => Ok((true, text.replacen('-', "", 1))),
        Some('+') => Ok((false, text.replacen('+', "", 1))),
        Some(_) => Ok((false, text)),
    }
}

/// A whole number of any size.
struct Number {
    negative: bool,
    /// Decimal digits without leading zeros.
    digits: String,
}

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        let sign = if number.negative { "-" } else { "" };
        let text = format!("{sign}{}", number.digits);
        text.parse()
            .map_or_else(|_| Self::Big(text.into()), Self::Int)
    }
}

/// Reads a number as Python's `int(text, base)`.
fn parse_int(text: &str, base: u32) -> Result<Number, Error> {
    let trimmed = text.trim();
    let (negative, digits) = match trimmed.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(base)) {
        let text = repr(text);
        return Err(Error::value(format!(
            "invalid literal for int() with base {base}: {text}"
        )));
    }
    if digits.len() > MAX_DIGITS {
        return Err(Error::value(format!(
            "Exceeds the limit ({MAX_DIGITS} digits) for integer string conversion: value has {} digits; \
             use sys.set_int_max_str_digits() to increase the limit",
            digits.len()
        )));
    }
    Ok(Number {
        negative,
        digits: decimal(digits, base),
    })
}

/// Converts the digits of a number to base ten.
fn decimal(digits: &str, base: u32) -> String {
    match (
        u128::from_str_radix(digits, base),
        digits.trim_start_matches('0'),
    ) {
        (Ok(number), _) => number.to_string(),
        (Err(_), digits) if base == 10 => digits.to_owned(),
        (Err(_), digits) => long_decimal(digits, base),
    }
}

/// Like [`decimal`], for numbers above 128 bits. It uses limbs of nine decimal digits, the lowest
/// first.
fn long_decimal(digits: &str, base: u32) -> String {
    const LIMB: u64 = 1_000_000_000;
    // The number of digits at a time that always fit 32 bits.
    const STEP: usize = 7;
    let digits: Vec<u32> = digits.chars().filter_map(|c| c.to_digit(base)).collect();
    let mut limbs: Vec<u64> = Vec::new();
    for chunk in digits.chunks(STEP) {
        let factor = chunk.iter().fold(1, |factor, _| factor * u64::from(base));
        let mut carry = chunk
            .iter()
            .fold(0, |sum, digit| sum * u64::from(base) + u64::from(*digit));
        for limb in &mut limbs {
            let sum = *limb * factor + carry;
            *limb = sum % LIMB;
            carry = sum / LIMB;
        }
        while carry > 0 {
            limbs.push(carry % LIMB);
            carry /= LIMB;
        }
    }
    let mut limbs = limbs.iter().rev();
    let first = limbs.next().unwrap_or(&0).to_string();
    limbs.fold(first, |text, limb| format!("{text}{limb:09}"))
}

/// Reads `1:30:00`: each part is worth sixty of the next.
fn sixtieths(text: &str) -> Result<Number, Error> {
    let mut total: u128 = 0;
    for part in text.split(':') {
        let part = parse_int(part, 10)?;
        let small = part.digits.parse::<u128>().ok().filter(|_| !part.negative);
        let sum = total
            .checked_mul(60)
            .zip(small)
            .and_then(|(total, small)| total.checked_add(small));
        total =
            sum.ok_or_else(|| Error::value(format!("not a number in base 60: {}", repr(text))))?;
    }
    Ok(Number {
        negative: false,
        digits: total.to_string(),
    })
}

fn float(text: &str) -> Result<f64, Error> {
    let (negative, digits) = signed(&text.to_lowercase())?;
    let sign = if negative { -1.0 } else { 1.0 };
    match digits.as_str() {
        ".inf" => Ok(sign * f64::INFINITY),
        ".nan" => Ok(f64::NAN),
        digits if digits.contains(':') => {
            let parts: Vec<f64> = digits
                .split(':')
                .map(plain_float)
                .collect::<Result<_, _>>()?;
            // The order is PyYAML's, so that rounding is the same.
            let (mut total, mut base) = (0.0, 1.0);
            for part in parts.iter().rev() {
                total += part * base;
                base *= 60.0;
            }
            Ok(sign * total)
        }
        digits => Ok(sign * plain_float(digits)?),
    }
}

fn plain_float(text: &str) -> Result<f64, Error> {
    let number = text.trim().parse();
    number.map_err(|_| Error::value(format!("could not convert string to float: {}", repr(text))))
}

/// Decodes base64 as leniently as Python: other characters are skipped, and Salt adds padding.
fn binary(text: &str, mark: Mark) -> Result<Vec<u8>, Error> {
    if let Some((index, c)) = text.chars().enumerate().find(|(_, c)| !c.is_ascii()) {
        let shown = repr_escape(c);
        return Err(Error::constructor(
            format!(
                "failed to convert base64 data into ascii: 'ascii' codec can't encode character '{shown}' in position {index}: ordinal not in range(128)"
            ),
            mark,
        ));
    }
    let missing = (4 - text.len() % 4) % 4;
    let padding = "====".get(..missing).unwrap_or_default();
    decode(text.bytes().chain(padding.bytes())).map_err(|problem| {
        Error::constructor(format!("failed to decode base64 data: {problem}"), mark)
    })
}

fn repr_escape(c: char) -> String {
    match u32::from(c) {
        code @ 0..=0xff => format!("\\x{code:02x}"),
        code @ 0x100..=0xffff => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    }
}

fn decode(text: impl Iterator<Item = u8>) -> Result<Vec<u8>, String> {
    let (mut out, mut bits, mut held, mut pads, mut letters) =
        (Vec::new(), 0_u32, 0_u32, 0_u32, 0_usize);
    for byte in text {
        if byte == b'=' {
            if held >= 2 {
                pads += 1;
                if held + pads >= 4 {
                    return Ok(out);
                }
            }
            continue;
        }
        let Some(six) = sextet(byte) else { continue };
        pads = 0;
        letters += 1;
        bits = (bits << 6) | u32::from(six);
        held = (held + 1) % 4;
        if held != 1 {
            let shift = [0, 0, 4, 2].get(held as usize).copied().unwrap_or_default();
            out.push(((bits >> shift) & 0xff) as u8);
        }
    }
    match held {
        0 => Ok(out),
        1 => Err(format!(
            "Invalid base64-encoded string: number of data characters ({letters}) cannot be 1 more than a multiple of 4"
        )),
        _ => Err("Incorrect padding".into()),
    }
}

fn sextet(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}
