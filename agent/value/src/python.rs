//! How Python prints values: `str()` and `repr()`.

use std::fmt::Write as _;

use crate::{Map, Value};

/// Python's `str(value)`.
#[must_use]
pub fn str(value: &Value) -> String {
    match value {
        Value::Str(text) => String::from(&**text),
        other => repr(other),
    }
}

/// Python's `repr(value)`.
#[must_use]
pub fn repr(value: &Value) -> String {
    let mut out = String::new();
    write_repr(&mut out, value);
    out
}

/// The same, appended.
pub(crate) fn write_repr(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(truth) => out.push_str(if *truth { "True" } else { "False" }),
        Value::Int(number) => {
            let _ = write!(out, "{number}");
        }
        Value::Big(digits) => out.push_str(digits),
        Value::Float(number) => out.push_str(&float(*number)),
        Value::Str(text) => quote(out, text),
        Value::Bytes(bytes) => quote_bytes(out, bytes),
        Value::List(items) => write_items(out, '[', items, ']'),
        Value::Tuple(items) if items.len() == 1 => {
            out.push('(');
            items.iter().for_each(|item| write_repr(out, item));
            out.push_str(",)");
        }
        Value::Tuple(items) => write_items(out, '(', items, ')'),
        Value::Map(map) => write_map(out, map),
        Value::Set(map) if map.is_empty() => out.push_str("set()"),
        Value::Set(map) => {
            let items: Vec<Value> = map.keys().cloned().collect();
            write_items(out, '{', &items, '}');
        }
    }
}

fn write_items(out: &mut String, open: char, items: &[Value], close: char) {
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write_repr(out, item);
    }
    out.push(close);
}

fn write_map(out: &mut String, map: &Map) {
    out.push('{');
    for (index, (key, value)) in map.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write_repr(out, key);
        out.push_str(": ");
        write_repr(out, value);
    }
    out.push('}');
}

/// Python's `repr` of a string.
pub fn quote(out: &mut String, text: &str) {
    let mark = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(mark);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\\' => out.push_str("\\\\"),
            c if c == mark => {
                out.push('\\');
                out.push(c);
            }
            c if !printable(c) => out.push_str(&match u32::from(c) {
                code @ 0..=0xff => format!("\\x{code:02x}"),
                code @ 0x100..=0xffff => format!("\\u{code:04x}"),
                code => format!("\\U{code:08x}"),
            }),
            c => out.push(c),
        }
    }
    out.push(mark);
}

fn printable(c: char) -> bool {
    !(c.is_control()
        || matches!(c, '\u{a0}' | '\u{ad}' | '\u{1680}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}')
        || matches!(c, '\u{205f}'..='\u{206f}' | '\u{3000}' | '\u{e000}'..='\u{f8ff}' | '\u{feff}'))
}

fn quote_bytes(out: &mut String, bytes: &[u8]) {
    let mark = if bytes.contains(&b'\'') && !bytes.contains(&b'"') {
        b'"'
    } else {
        b'\''
    };
    out.push('b');
    out.push(char::from(mark));
    for &byte in bytes {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            b'\\' => out.push_str("\\\\"),
            byte if byte == mark => {
                out.push('\\');
                out.push(char::from(byte));
            }
            0x20..0x7f => out.push(char::from(byte)),
            byte => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push(char::from(mark));
}

/// Python's `repr` of a float: the shortest digits that read back, ties to even.
#[must_use]
pub fn float(number: f64) -> String {
    if number.is_nan() {
        return "nan".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.into();
    }
    let scientific = shortest(number);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa
        .strip_prefix('-')
        .map_or(("", mantissa), |m| ("-", m));
    if !(-4..16).contains(&exponent) {
        let mark = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{mantissa}e{mark}{:02}", exponent.abs());
    }
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    if exponent < 0 {
        let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
        return format!("{sign}0.{zeros}{digits}");
    }
    let width = exponent.unsigned_abs() as usize + 1;
    let padded = format!("{digits:0<width$}");
    let (whole, fraction) = padded.split_at(width);
    format!(
        "{sign}{whole}.{}",
        if fraction.is_empty() { "0" } else { fraction }
    )
}

/// The shortest digits in scientific form; on a tie Python takes the even one, Rust the upper one.
fn shortest(number: f64) -> String {
    let short = format!("{number:e}");
    let digits = short
        .bytes()
        .take_while(|b| *b != b'e')
        .filter(u8::is_ascii_digit)
        .count();
    let even = format!("{number:.*e}", digits - 1);
    if even.parse() == Ok(number) {
        even
    } else {
        short
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_print_as_python_prints_them() {
        let value: Value = [
            ("a", Value::from(vec![1, 2])),
            ("b", Value::from("it's")),
            ("c", Value::Null),
            ("d", Value::from(1e16)),
            ("e", Value::from(true)),
            ("f", Value::from(0.1)),
        ]
        .into_iter()
        .collect();
        assert_eq!(
            repr(&value),
            "{'a': [1, 2], 'b': \"it's\", 'c': None, 'd': 1e+16, 'e': True, 'f': 0.1}"
        );
        assert_eq!(str(&Value::from("it's")), "it's");
        assert_eq!(float(5e-324), "5e-324");
        assert_eq!(float(-100.0), "-100.0");
    }
}
