//! Evaluates Python's `'…'.format(…)` and `'…' % …`.

use minijinja::{Error, Value};
use value::python;

use super::args::{self, Args};
use super::errors::{key_error, runtime_error, type_error, value_error};
use super::strings::checked_len;
use super::{markup, print};

/// The maximum width of a field in a format.
const WIDTH_MAX: usize = 1 << 20;

/// The specification between `{x:` and `}`, or between `%` and its letter.
#[derive(Debug, Default)]
struct Spec {
    fill: Option<char>,
    align: Option<char>,
    sign: Option<char>,
    alternate: bool,
    zero: bool,
    width: usize,
    comma: Option<char>,
    precision: Option<usize>,
    letter: Option<char>,
}

/// Returns `text.format(…)`.
pub(super) fn format(text: &str, args: &Args) -> Result<String, Error> {
    fields(text, args, &mut 0, 0)
}

fn fields(text: &str, args: &Args, next: &mut usize, depth: usize) -> Result<String, Error> {
    if depth > 2 {
        return Err(value_error("Max string recursion exceeded"));
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        if let Some(after) = from.strip_prefix("{{") {
            out.push('{');
            rest = after;
        } else if let Some(after) = from.strip_prefix("}}") {
            out.push('}');
            rest = after;
        } else if from.starts_with('}') {
            return Err(value_error("Single '}' encountered in format string"));
        } else {
            let end =
                closing(from).ok_or_else(|| value_error("expected '}' before end of string"))?;
            out.push_str(&field(
                from.get(1..end).unwrap_or_default(),
                args,
                next,
                depth,
            )?);
            rest = from.get(end + 1..).unwrap_or_default();
            checked_len(out.len())?;
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// Returns the end of the field at the start of the text.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn field(field: &str, args: &Args, next: &mut usize, depth: usize) -> Result<String, Error> {
    let (field, spec) = field.split_once(':').unwrap_or((field, ""));
    let (path, conversion) = field.split_once('!').unwrap_or((field, ""));
    let value = lookup(path, args, next)?;
    let spec = fields(spec, args, next, depth + 1)?;
    let value = match conversion {
        "r" | "a" => Value::from(print::repr(&value)),
        "s" => Value::from(print::str(&value)),
        _ => value,
    };
    if spec.is_empty() {
        return Ok(print::str(args::defined(&value)?));
    }
    by_spec(&value, &parse_spec(&spec)?)
}

/// Looks up `name`, `0` or `name.attribute[key]`.
fn lookup(path: &str, args: &Args, next: &mut usize) -> Result<Value, Error> {
    let end = path.find(['.', '[']).unwrap_or(path.len());
    let (name, mut rest) = path.split_at(end);
    let mut value = if name.is_empty() {
        *next += 1;
        place(args, *next - 1)?
    } else if let Ok(index) = name.parse() {
        place(args, index)?
    } else {
        args.named(name)
            .cloned()
            .ok_or_else(|| key_error(format!("'{name}'")))?
    };
    while !rest.is_empty() {
        let key;
        if let Some(after) = rest.strip_prefix('[') {
            (key, rest) = after.split_once(']').unwrap_or((after, ""));
        } else {
            let after = rest.strip_prefix('.').unwrap_or(rest);
            (key, rest) = after.split_at(after.find(['.', '[']).unwrap_or(after.len()));
        }
        let key = key
            .parse::<i64>()
            .map_or_else(|_| Value::from(key), Value::from);
        value = value.get_item(&key)?;
    }
    Ok(value)
}

fn place(args: &Args, index: usize) -> Result<Value, Error> {
    args.pos().get(index).cloned().ok_or_else(|| {
        value_error(format!(
            "Replacement index {index} out of range for positional args tuple"
        ))
    })
}

fn parse_spec(text: &str) -> Result<Spec, Error> {
    let mut spec = Spec::default();
    let mut rest = text;
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(fill), Some(align @ ('<' | '>' | '^' | '='))) => {
            spec.fill = Some(fill);
            spec.align = Some(align);
            rest = chars.as_str();
        }
        (Some(align @ ('<' | '>' | '^' | '=')), _) => {
            spec.align = Some(align);
            rest = rest.get(1..).unwrap_or_default();
        }
        _ => {}
    }
    spec.sign = take(&mut rest, &['+', '-', ' ']);
    spec.alternate = take(&mut rest, &['#']).is_some();
    spec.zero = take(&mut rest, &['0']).is_some();
    spec.width = number(&mut rest)?.unwrap_or(0);
    spec.comma = take(&mut rest, &[',', '_']);
    if take(&mut rest, &['.']).is_some() {
        spec.precision = number(&mut rest)?;
    }
    spec.letter = rest.chars().next();
    if rest.chars().count() > 1 {
        return Err(value_error(format!("Invalid format specifier '{text}'")));
    }
    Ok(spec)
}

fn take(rest: &mut &str, one_of: &[char]) -> Option<char> {
    let first = rest.chars().next().filter(|c| one_of.contains(c))?;
    *rest = rest.get(first.len_utf8()..).unwrap_or_default();
    Some(first)
}

fn number(rest: &mut &str) -> Result<Option<usize>, Error> {
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (digits, after) = rest.split_at(end);
    *rest = after;
    if digits.is_empty() {
        return Ok(None);
    }
    digits
        .parse()
        .ok()
        .filter(|width| *width <= WIDTH_MAX)
        .map(Some)
        .ok_or_else(|| value_error("Too many decimal digits in format string"))
}

fn by_spec(value: &Value, spec: &Spec) -> Result<String, Error> {
    let value = args::defined(value)?;
    let numeric = value.is_number()
        || value.kind() == minijinja::value::ValueKind::Bool && spec.letter.is_some();
    if !numeric {
        if let Some(letter) = spec.letter.filter(|letter| *letter != 's') {
            return Err(value_error(format!(
                "Unknown format code '{letter}' for object of type '{}'",
                print::type_name(value)
            )));
        }
        let text: String = match spec.precision {
            Some(most) => print::str(value).chars().take(most).collect(),
            None => print::str(value),
        };
        return Ok(pad(text, spec, '<'));
    }
    let (sign, prefix, digits) = digits(value, spec)?;
    let digits = spec
        .comma
        .map_or_else(|| digits.clone(), |comma| group(&digits, comma));
    Ok(pad_number(&sign, &prefix, &digits, spec))
}

/// Returns the sign, a prefix such as `0x`, and the digits.
fn digits(value: &Value, spec: &Spec) -> Result<(String, String, String), Error> {
    let negative;
    let mut prefix = String::new();
    let digits = match spec.letter {
        Some('f' | 'F' | 'e' | 'E' | 'g' | 'G' | '%') => {
            let number = float(value)?;
            negative = number.is_sign_negative();
            float_digits(number.abs(), spec)
        }
        None if !value.is_integer() && value.is_number() => {
            let number = float(value)?;
            negative = number.is_sign_negative();
            match spec.precision {
                Some(_) => general(number.abs(), spec),
                None => python::float(number.abs()),
            }
        }
        letter => {
            let number = integer(value)?;
            negative = number < 0;
            let number = number.unsigned_abs();
            let (mark, text) = match letter {
                Some('x') => ("0x", format!("{number:x}")),
                Some('X') => ("0X", format!("{number:X}")),
                Some('o') => ("0o", format!("{number:o}")),
                Some('b') => ("0b", format!("{number:b}")),
                Some('c') => (
                    "",
                    u32::try_from(number)
                        .ok()
                        .and_then(char::from_u32)
                        .map(String::from)
                        .unwrap_or_default(),
                ),
                None | Some('d' | 'i' | 'u' | 'n') => ("", number.to_string()),
                Some(other) => {
                    return Err(value_error(format!(
                        "Unknown format code '{other}' for object of type '{}'",
                        print::type_name(value)
                    )));
                }
            };
            if spec.alternate {
                prefix = mark.into();
            }
            text
        }
    };
    let sign = match (negative, spec.sign) {
        (true, _) => "-",
        (false, Some('+')) => "+",
        (false, Some(' ')) => " ",
        _ => "",
    };
    Ok((sign.into(), prefix, digits))
}

fn float(value: &Value) -> Result<f64, Error> {
    if value.kind() == minijinja::value::ValueKind::Bool {
        return Ok(if value.is_true() { 1.0 } else { 0.0 });
    }
    f64::try_from(value.clone()).map_err(|_| {
        type_error(format!(
            "must be real number, not {}",
            print::type_name(value)
        ))
    })
}

fn integer(value: &Value) -> Result<i128, Error> {
    if value.kind() == minijinja::value::ValueKind::Bool {
        return Ok(i128::from(value.is_true()));
    }
    if value.is_integer() {
        return i128::try_from(value.clone());
    }
    Err(value_error(
        "Unknown format code 'd' for object of type 'float'",
    ))
}

fn float_digits(number: f64, spec: &Spec) -> String {
    let precision = spec.precision.unwrap_or(6).min(400);
    match spec.letter {
        Some('%') => format!("{:.precision$}%", number * 100.0),
        Some('e') => exponent(&format!("{number:.precision$e}")),
        Some('E') => exponent(&format!("{number:.precision$e}")).to_uppercase(),
        Some('g') => general(number, spec),
        Some('G') => general(number, spec).to_uppercase(),
        _ => format!("{number:.precision$}"),
    }
}

/// Rewrites Rust's `1e5` as C's `1e+05`.
fn exponent(text: &str) -> String {
    let (mantissa, power) = text.split_once('e').unwrap_or((text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    format!(
        "{mantissa}e{}{:02}",
        if power < 0 { '-' } else { '+' },
        power.abs()
    )
}

/// Formats a number as C's `%g`.
fn general(number: f64, spec: &Spec) -> String {
    let precision = spec.precision.unwrap_or(6).clamp(1, 400);
    let scientific = format!("{number:.*e}", precision - 1);
    let power: i32 = scientific
        .split_once('e')
        .and_then(|(_, power)| power.parse().ok())
        .unwrap_or(0);
    let short = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    if power < -4 || power >= i32::try_from(precision).unwrap_or(i32::MAX) {
        let (mantissa, rest) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        return exponent(&format!("{}e{rest}", short(mantissa)));
    }
    let places = usize::try_from(i32::try_from(precision).unwrap_or(0) - 1 - power).unwrap_or(0);
    short(&format!("{number:.places$}"))
}

fn group(digits: &str, comma: char) -> String {
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut out = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            out.push(comma);
        }
        out.push(digit);
    }
    out + fraction
}

fn pad(text: String, spec: &Spec, usual: char) -> String {
    let missing = spec.width.saturating_sub(text.chars().count());
    let fill = spec.fill.unwrap_or(if spec.zero { '0' } else { ' ' });
    let left = match spec.align.unwrap_or(usual) {
        '>' | '=' => missing,
        '^' => missing / 2,
        _ => 0,
    };
    let run = |count| std::iter::repeat_n(fill, count);
    run(left)
        .chain(text.chars())
        .chain(run(missing - left))
        .collect()
}

fn pad_number(sign: &str, prefix: &str, digits: &str, spec: &Spec) -> String {
    let inside = spec.align == Some('=') || (spec.zero && spec.align.is_none());
    if !inside {
        return pad(format!("{sign}{prefix}{digits}"), spec, '>');
    }
    let fill = spec.fill.unwrap_or(if spec.zero { '0' } else { ' ' });
    let length = sign.len() + prefix.len() + digits.chars().count();
    let zeros: String = std::iter::repeat_n(fill, spec.width.saturating_sub(length)).collect();
    format!("{sign}{prefix}{zeros}{digits}")
}

/// Returns `text % values`: a tuple contains one value for each field, a dictionary its values by
/// name, and anything else is the only value.
pub(super) fn percent(text: &str, values: &Value) -> Result<String, Error> {
    let many = if values.is_tuple() {
        args::items(values)?
    } else {
        vec![values.clone()]
    };
    let mapping = values.kind() == minijinja::value::ValueKind::Map;
    let mut used = 0;
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let mut named = None;
        if let Some(after) = rest.strip_prefix('(') {
            let (name, after) = after
                .split_once(')')
                .ok_or_else(|| value_error("incomplete format key"))?;
            if !mapping {
                return Err(type_error("format requires a mapping"));
            }
            let value = values.get_item(&Value::from(name))?;
            if value.is_undefined() {
                return Err(key_error(format!("'{name}'")));
            }
            named = Some(value);
            rest = after;
        }
        let mut next = || -> Result<Value, Error> {
            used += 1;
            many.get(used - 1)
                .cloned()
                .ok_or_else(|| type_error("not enough arguments for format string"))
        };
        let spec = percent_spec(&mut rest, &mut next)?;
        let value = named.map_or_else(&mut next, Ok)?;
        out.push_str(&by_percent(&value, spec)?);
        checked_len(out.len())?;
    }
    out.push_str(rest);
    if used < many.len() && !mapping {
        return Err(type_error(
            "not all arguments converted during string formatting",
        ));
    }
    Ok(out)
}

fn percent_spec(
    rest: &mut &str,
    next: &mut impl FnMut() -> Result<Value, Error>,
) -> Result<Spec, Error> {
    let mut spec = Spec::default();
    while let Some(flag) = take(rest, &['-', '+', ' ', '#', '0']) {
        match flag {
            '-' => spec.align = Some('<'),
            '#' => spec.alternate = true,
            '0' => spec.zero = true,
            sign => spec.sign = Some(sign),
        }
    }
    let mut size = |rest: &mut &str| -> Result<Option<usize>, Error> {
        if take(rest, &['*']).is_some() {
            let width = usize::try_from(args::int(&next()?)?).unwrap_or(0);
            return Ok(Some(width.min(WIDTH_MAX)));
        }
        number(rest)
    };
    spec.width = size(rest)?.unwrap_or(0);
    if take(rest, &['.']).is_some() {
        spec.precision = Some(size(rest)?.unwrap_or(0));
    }
    spec.letter = rest.chars().next();
    let letter = spec
        .letter
        .ok_or_else(|| value_error("incomplete format"))?;
    *rest = rest.get(letter.len_utf8()..).unwrap_or_default();
    Ok(spec)
}

fn by_percent(value: &Value, mut spec: Spec) -> Result<String, Error> {
    let value = args::defined(value)?;
    match spec.letter {
        Some('s' | 'r' | 'a') => {
            let text = if spec.letter == Some('s') {
                print::str(value)
            } else {
                print::repr(value)
            };
            let text: String = text
                .chars()
                .take(spec.precision.unwrap_or(usize::MAX))
                .collect();
            spec.zero = false;
            Ok(pad(text, &spec, '>'))
        }
        Some('d' | 'i' | 'u' | 'x' | 'X' | 'o') => {
            if !value.is_number() && value.kind() != minijinja::value::ValueKind::Bool {
                let letter = spec.letter.unwrap_or('d');
                return Err(type_error(format!(
                    "%{letter} format: a real number is required, not {}",
                    print::type_name(value)
                )));
            }
            let whole = if value.is_integer() {
                value.clone()
            } else {
                Value::from(float(value)?.trunc() as i64)
            };
            let least = spec.precision.take().unwrap_or(0);
            let (sign, prefix, digits) = digits(&whole, &spec)?;
            if spec.align == Some('<') {
                spec.zero = false;
            }
            let zeros = "0".repeat(least.saturating_sub(digits.len()));
            Ok(pad_number(&sign, &prefix, &(zeros + &digits), &spec))
        }
        Some('c') => match value.as_str() {
            Some(text) => Ok(pad(text.into(), &spec, '>')),
            None => by_spec(value, &spec),
        },
        Some('f' | 'F' | 'e' | 'E' | 'g' | 'G') => {
            float(value)?;
            by_spec(value, &spec)
        }
        other => Err(value_error(format!(
            "unsupported format character '{}'",
            other.map(String::from).unwrap_or_default()
        ))),
    }
}

/// The filter `__mod`, which replaces the operator `%`.
pub(super) fn modulo(_: &mut minijinja::State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let (left, right) = (args.subject()?, args::defined(args.need(1, "right")?)?);
    if let Some(text) = left.as_str() {
        let made = percent(text, &markup::values(left, right))?;
        return Ok(markup::inherit_safety(left, made));
    }
    if let (Ok(a), Ok(b)) = (args::int(left), args::int(right)) {
        let rest = a
            .checked_rem(b)
            .ok_or_else(|| type_error("integer modulo by zero"))?;
        return Ok(Value::from(if rest != 0 && (rest < 0) != (b < 0) {
            rest + b
        } else {
            rest
        }));
    }
    if left.is_number() && right.is_number() {
        let (a, b) = (float(left)?, float(right)?);
        if b == 0.0 {
            return Err(type_error("float modulo"));
        }
        return Ok(Value::from(a - b * (a / b).floor()));
    }
    Err(type_error(format!(
        "unsupported operand type(s) for %: '{}' and '{}'",
        print::type_name(left),
        print::type_name(right)
    )))
}

/// The filter `format`: applies `%` with the arguments that follow.
pub(super) fn format_filter(_: &mut minijinja::State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let (subject, text) = (args.subject()?, args.text(0, "value")?);
    let named = args
        .all_named()
        .iter()
        .map(|(key, value)| (Value::from(key.as_str()), value.clone()));
    let values = match (args.all_named().is_empty(), args.rest(1)) {
        (true, rest) => Value::from(minijinja::value::Tuple::from(rest.to_vec())),
        (false, []) => super::containers::Dict::value(named.collect()),
        _ => {
            return Err(runtime_error(
                "can't handle positional and keyword arguments at the same time",
            ));
        }
    };
    let made = percent(&text, &markup::values(subject, &values))?;
    Ok(markup::inherit_safety(subject, made))
}
