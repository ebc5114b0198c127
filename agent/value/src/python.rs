//! Prints values as Python's `str()` and `repr()` do.

use crate::{Map, Value};

/// Returns Python's `str(value)`.
#[must_use]
pub fn str(value: &Value) -> String {
    match value {
        Value::Str(text) => String::from(&**text),
        other => repr(other),
    }
}

/// Returns Python's `repr(value)`.
#[must_use]
pub fn repr(value: &Value) -> String {
    let mut out = String::new();
    write_repr(&mut out, value);
    out
}

/// Appends Python's `repr(value)`.
pub(crate) fn write_repr(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(truth) => out.push_str(if *truth { "True" } else { "False" }),
        Value::Int(number) => integer(out, *number),
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

/// Appends Python's `repr` of a string.
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

/// Returns Python's `repr` of a float: the shortest digits that read back as the same number, ties
/// to even.
#[must_use]
pub fn float(number: f64) -> String {
    match thousandths(number) {
        Some(thousandths) => decimal(thousandths),
        None => any_float(number),
    }
}

/// Returns a number in thousandths, if it is the float nearest to a whole number of them. Its
/// decimal digits are then the shortest: up to fifteen digits, different numbers are different
/// floats.
fn thousandths(number: f64) -> Option<i64> {
    let scaled = (number * 1000.0).round();
    let is_it = scaled.abs() < 1e14 && scaled / 1000.0 == number;
    (is_it && (scaled.abs() >= 1.0 || number.to_bits() == 0)).then_some(scaled as i64)
}

/// Returns the decimal digits of a number of thousandths: `-12.5` for -12500.
fn decimal(thousandths: i64) -> String {
    let mut out = String::with_capacity(16);
    if thousandths < 0 {
        out.push('-');
    }
    let thousandths = thousandths.unsigned_abs();
    digits(&mut out, thousandths / 1000);
    out.push('.');
    let mut rest = thousandths % 1000;
    loop {
        digits(&mut out, rest / 100);
        rest = rest % 100 * 10;
        if rest == 0 {
            return out;
        }
    }
}

/// Appends a whole number. Integers are written often, and this is several times as fast as the
/// standard library.
fn integer(out: &mut String, number: i64) {
    if number < 0 {
        out.push('-');
    }
    digits(out, number.unsigned_abs());
}

fn digits(out: &mut String, number: u64) {
    if number > 9 {
        digits(out, number / 10);
    }
    out.push(char::from(b'0' + (number % 10) as u8));
}

fn any_float(number: f64) -> String {
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

/// Returns the shortest digits in scientific form; on a tie Python takes the even digit, Rust the
/// upper one.
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

/// Returns bytes as `bytes.hex()` writes them.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_the_digits_that_python_gives_them() {
        let floats = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (0.001, "0.001"),
            (-0.25, "-0.25"),
            (12.5, "12.5"),
            (1.05, "1.05"),
            (2.003, "2.003"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.1 + 0.2, "0.30000000000000004"),
            (99_999_999_999.999, "99999999999.999"),
            (100_000_000_000.001, "100000000000.001"),
            (123_456_789_012.0, "123456789012.0"),
            (1e16, "1e+16"),
        ];
        for (number, text) in floats {
            assert_eq!(float(number), text);
        }
        for thousandths in -20_000..20_000 {
            let number = f64::from(thousandths) / 1000.0;
            if thousandths != 0 {
                assert_eq!(float(number), any_float(number));
            }
        }
    }

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
