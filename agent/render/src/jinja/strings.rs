//! Python's methods of strings and numbers.

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use value::python::hex;

use super::args::{self, Args, items};
use super::containers::List;
use super::errors::{self, type_error, value_error};
use super::{format, markup, print};

/// The maximum number of bytes of a text that a template makes in one operation.
pub(super) const TEXT_MAX: usize = 32 << 20;

/// The maximum number of items of a list that a template makes, and of values that it passes on in
/// one value.
pub(super) const ITEMS_MAX: usize = 500_000;

/// Calls a method of a value that is not a container.
pub(super) fn call(
    _: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    values: &[Value],
) -> Result<Value, Error> {
    if value.is_undefined() {
        return Err(args::undefined(value));
    }
    if method.starts_with("__") {
        return Err(errors::fault(
            crate::Kind::JinjaSyntax,
            format!(
                "access to attribute '{method}' of '{}' object is unsafe.",
                print::type_name(value)
            ),
        ));
    }
    let args = Args::new(values)?;
    let found = match value.kind() {
        ValueKind::String if value.is_safe() && method == "format" => {
            let text = value.as_str().unwrap_or_default();
            let made = format::format(text, &markup::arguments(&args))?;
            Some(Value::from_safe_string(made))
        }
        ValueKind::String => string(value.as_str().unwrap_or_default(), method, &args)?,
        ValueKind::Bytes => bytes(value.as_bytes().unwrap_or_default(), method),
        ValueKind::Number => number(value, method),
        ValueKind::Seq if value.is_tuple() => tuple(value, method, &args)?,
        _ => None,
    };
    match found {
        Some(found) => Ok(found),
        // If the object has a callable entry of this name, the engine tries that next.
        None if value
            .as_object()
            .is_some_and(|object| object.get_value(&Value::from(method)).is_some()) =>
        {
            Err(Error::from(ErrorKind::UnknownMethod))
        }
        None => Err(errors::no_attribute(value, method)),
    }
}

fn bytes(bytes: &[u8], method: &str) -> Option<Value> {
    match method {
        "decode" => Some(Value::from(String::from_utf8_lossy(bytes).into_owned())),
        "hex" => Some(Value::from(hex(bytes))),
        _ => None,
    }
}

fn number(value: &Value, method: &str) -> Option<Value> {
    match method {
        "bit_length" => value
            .as_i64()
            .map(|number| Value::from(64 - number.unsigned_abs().leading_zeros())),
        "is_integer" => f64::try_from(value.clone())
            .ok()
            .map(|number| Value::from(number.fract() == 0.0)),
        _ => None,
    }
}

fn tuple(value: &Value, method: &str, args: &Args) -> Result<Option<Value>, Error> {
    let items = items(value)?;
    let wanted = args.at(0, "value").cloned().unwrap_or_default();
    Ok(match method {
        "count" => Some(Value::from(
            items.iter().filter(|item| **item == wanted).count(),
        )),
        "index" => {
            let at = items.iter().position(|item| *item == wanted);
            Some(
                at.map(Value::from)
                    .ok_or_else(|| value_error("tuple.index(x): x not in tuple"))?,
            )
        }
        _ => None,
    })
}

fn string(text: &str, method: &str, args: &Args) -> Result<Option<Value>, Error> {
    if let Some(answer) = question(text, method) {
        return Ok(Some(Value::from(answer)));
    }
    if let Some(answer) = changed(text, method) {
        return Ok(Some(Value::from(answer)));
    }
    let answer = match method {
        "format" => Value::from(format::format(text, args)?),
        "format_map" => {
            let pairs = super::containers::pairs(args)?;
            let kwargs = minijinja::value::Kwargs::from_iter(
                pairs
                    .into_iter()
                    .map(|(key, value)| (print::str(&key), value)),
            );
            Value::from(format::format(text, &Args::new(&[Value::from(kwargs)])?)?)
        }
        "split" => list(split(text, args)?),
        "rsplit" => list(rsplit(text, args)?),
        "splitlines" => list(split_lines(text, args.flag(0, "keepends", false))),
        "strip" => strip(text, args, true, true)?,
        "lstrip" => strip(text, args, true, false)?,
        "rstrip" => strip(text, args, false, true)?,
        "startswith" => affix(text, args, |text, other| text.starts_with(other))?,
        "endswith" => affix(text, args, |text, other| text.ends_with(other))?,
        "replace" => Value::from(replace(text, args)?),
        "join" => Value::from(join(text, args)?),
        "partition" => parted(text, args, |text, sep| text.split_once(sep), false)?,
        "rpartition" => parted(text, args, |text, sep| text.rsplit_once(sep), true)?,
        "find" | "index" => find(text, method, args, |text, other| text.find(other))?,
        "rfind" | "rindex" => find(text, method, args, |text, other| text.rfind(other))?,
        "count" => count(text, args)?,
        "ljust" => justify(text, args, |missing, _| (0, missing))?,
        "rjust" => justify(text, args, |missing, _| (missing, 0))?,
        "center" => justify(text, args, |missing, width| {
            let left = missing / 2 + (missing & width & 1);
            (left, missing - left)
        })?,
        "zfill" => Value::from(zfill(text, args)?),
        "removeprefix" => {
            let prefix = args.text(0, "prefix")?;
            Value::from(text.strip_prefix(prefix.as_str()).unwrap_or(text))
        }
        "removesuffix" => {
            let suffix = args.text(0, "suffix")?;
            Value::from(text.strip_suffix(suffix.as_str()).unwrap_or(text))
        }
        "expandtabs" => {
            let width = width(args, 8)?;
            checked_len(text.matches('\t').count().saturating_mul(width))?;
            Value::from(expand_tabs(text, width))
        }
        "encode" => Value::from_bytes(text.as_bytes().to_vec()),
        _ => return Ok(None),
    };
    Ok(Some(answer))
}

fn question(text: &str, method: &str) -> Option<bool> {
    let all = |is: fn(char) -> bool| !text.is_empty() && text.chars().all(is);
    let cased = |is: fn(char) -> bool, is_not: fn(char) -> bool| {
        text.chars().any(is) && !text.chars().any(is_not)
    };
    Some(match method {
        "isdigit" | "isdecimal" => all(|c| c.is_ascii_digit()),
        "isnumeric" => all(char::is_numeric),
        "isalpha" => all(char::is_alphabetic),
        "isalnum" => all(char::is_alphanumeric),
        "isspace" => all(char::is_whitespace),
        "isascii" => text.is_ascii(),
        "islower" => cased(char::is_lowercase, char::is_uppercase),
        "isupper" => cased(char::is_uppercase, char::is_lowercase),
        "istitle" => cased(char::is_alphabetic, |_| false) && title(text) == text,
        "isidentifier" => {
            !text.starts_with(|c: char| c.is_numeric()) && all(|c| c.is_alphanumeric() || c == '_')
        }
        _ => return None,
    })
}

fn changed(text: &str, method: &str) -> Option<String> {
    Some(match method {
        "upper" => text.to_uppercase(),
        "lower" | "casefold" => text.to_lowercase(),
        "title" => title(text),
        "capitalize" => capitalize(text),
        "swapcase" => text.chars().map(swap_case).collect(),
        _ => return None,
    })
}

/// Capitalizes the start of each word, as Python's `str.title`.
pub(super) fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        if inside {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        inside = c.is_alphabetic();
    }
    out
}

/// Returns the text with its first letter in upper case and all others in lower case.
pub(super) fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + &chars.as_str().to_lowercase()
    })
}

fn swap_case(c: char) -> String {
    if c.is_uppercase() {
        c.to_lowercase().collect()
    } else {
        c.to_uppercase().collect()
    }
}

fn list(parts: Vec<String>) -> Value {
    List::value(parts.into_iter().map(Value::from).collect())
}

/// Returns the maximum number of splits of a text; `None` is unlimited.
fn cuts(args: &Args) -> Result<Option<usize>, Error> {
    Ok(usize::try_from(args.int_or(1, "maxsplit", -1)?).ok())
}

fn separator(args: &Args) -> Result<Option<String>, Error> {
    match args.at(0, "sep").filter(|sep| !sep.is_none()) {
        None => Ok(None),
        Some(sep) => match args::defined(sep)?.as_str() {
            Some("") => Err(value_error("empty separator")),
            Some(sep) => Ok(Some(sep.to_owned())),
            None => Err(type_error(format!(
                "must be str or None, not {}",
                print::type_name(sep)
            ))),
        },
    }
}

fn split(text: &str, args: &Args) -> Result<Vec<String>, Error> {
    let cuts = cuts(args)?;
    let Some(sep) = separator(args)? else {
        return Ok(words(text, cuts));
    };
    Ok(match cuts {
        Some(cuts) => text
            .splitn(cuts.saturating_add(1), &sep)
            .map(String::from)
            .collect(),
        None => text.split(&sep).map(String::from).collect(),
    })
}

fn words(text: &str, cuts: Option<usize>) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if cuts == Some(words.len()) {
            words.push(rest.trim_end().to_owned());
            break;
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    words
}

fn rsplit(text: &str, args: &Args) -> Result<Vec<String>, Error> {
    let Some(cuts) = cuts(args)? else {
        return split(text, args);
    };
    let mut parts: Vec<String> = match separator(args)? {
        Some(sep) => text
            .rsplitn(cuts.saturating_add(1), &sep)
            .map(String::from)
            .collect(),
        None => {
            let mut parts = Vec::new();
            let mut rest = text.trim_end();
            while !rest.is_empty() {
                if parts.len() == cuts {
                    parts.push(rest.trim_start().to_owned());
                    break;
                }
                let start = rest.rfind(char::is_whitespace).map_or(0, |at| {
                    at + rest
                        .get(at..)
                        .and_then(|r| r.chars().next())
                        .map_or(1, char::len_utf8)
                });
                parts.push(rest.get(start..).unwrap_or_default().to_owned());
                rest = rest.get(..start).unwrap_or_default().trim_end();
            }
            parts
        }
    };
    parts.reverse();
    Ok(parts)
}

fn split_lines(text: &str, keep: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let at = rest.find([
            '\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}',
            '\u{2029}',
        ]);
        let at = at.unwrap_or(rest.len());
        let (line, from) = rest.split_at(at);
        let end = if from.starts_with("\r\n") {
            2
        } else {
            from.chars().next().map_or(0, char::len_utf8)
        };
        let (mark, after) = from.split_at(end);
        lines.push(if keep {
            format!("{line}{mark}")
        } else {
            line.to_owned()
        });
        rest = after;
    }
    lines
}

fn strip(text: &str, args: &Args, left: bool, right: bool) -> Result<Value, Error> {
    let set = args.text_or(0, "chars", "")?;
    let any = args.at(0, "chars").is_none_or(Value::is_none);
    let goes = |c: char| {
        if any {
            c.is_whitespace()
        } else {
            set.contains(c)
        }
    };
    let text = if left {
        text.trim_start_matches(goes)
    } else {
        text
    };
    Ok(Value::from(if right {
        text.trim_end_matches(goes)
    } else {
        text
    }))
}

/// Tests whether a text begins or ends with one text, or with any of a tuple.
fn affix(text: &str, args: &Args, has: fn(&str, &str) -> bool) -> Result<Value, Error> {
    let other = args::defined(args.need(0, "prefix")?)?;
    let text: String = range(text, args)?;
    let texts = if other.is_tuple() {
        items(other)?
    } else {
        vec![other.clone()]
    };
    for other in &texts {
        let Some(other) = other.as_str() else {
            return Err(type_error(format!(
                "startswith first arg must be str or a tuple of str, not {}",
                print::type_name(other)
            )));
        };
        if has(&text, other) {
            return Ok(Value::from(true));
        }
    }
    Ok(Value::from(false))
}

/// Returns the range of the text that the second and third argument select.
fn range(text: &str, args: &Args) -> Result<String, Error> {
    let count = text.chars().count();
    let at = |index, name, default: usize| -> Result<usize, Error> {
        let place = args.int_or(index, name, i64::try_from(default).unwrap_or(i64::MAX))?;
        let from_end = usize::try_from(place.unsigned_abs()).unwrap_or(usize::MAX);
        Ok(if place < 0 {
            count.saturating_sub(from_end)
        } else {
            from_end.min(count)
        })
    };
    let (start, end) = (at(1, "start", 0)?, at(2, "end", count)?);
    Ok(text
        .chars()
        .skip(start)
        .take(end.saturating_sub(start))
        .collect())
}

fn replace(text: &str, args: &Args) -> Result<String, Error> {
    let (old, new) = (args.text(0, "old")?, args.text(1, "new")?);
    let count = usize::try_from(args.int_or(2, "count", -1)?).ok();
    checked_len(text.len().saturating_mul(new.len().max(1)) / old.len().max(1))?;
    Ok(count.map_or_else(
        || text.replace(&old, &new),
        |count| text.replacen(&old, &new, count),
    ))
}

/// Refuses a text that would fill the memory.
pub(super) fn checked_len(len: usize) -> Result<(), Error> {
    if len > TEXT_MAX {
        return Err(errors::fault(
            crate::Kind::Limit,
            format!("The template creates a string of more than {TEXT_MAX} bytes."),
        ));
    }
    Ok(())
}

/// Refuses a list that would fill the memory.
pub(super) fn checked_items(count: usize) -> Result<(), Error> {
    if count > ITEMS_MAX {
        return Err(errors::fault(
            crate::Kind::Limit,
            format!("The template creates a list of more than {ITEMS_MAX} items."),
        ));
    }
    Ok(())
}

fn join(text: &str, args: &Args) -> Result<String, Error> {
    let mut parts = Vec::new();
    for (index, item) in items(args.need(0, "iterable")?)?.iter().enumerate() {
        let part = args::defined(item)?.as_str().ok_or_else(|| {
            type_error(format!(
                "sequence item {index}: expected str instance, {} found",
                print::type_name(item)
            ))
        })?;
        parts.push(part.to_owned());
    }
    checked_len(parts.iter().map(|part| part.len() + text.len()).sum())?;
    Ok(parts.join(text))
}

fn parted(
    text: &str,
    args: &Args,
    cut: for<'a> fn(&'a str, &str) -> Option<(&'a str, &'a str)>,
    from_end: bool,
) -> Result<Value, Error> {
    let sep = args.text(0, "sep")?;
    let parts = match cut(text, &sep) {
        Some((before, after)) => [before, &sep, after],
        None if from_end => ["", "", text],
        None => [text, "", ""],
    };
    Ok(Value::from(Tuple::from(parts.map(Value::from))))
}

fn find(
    text: &str,
    method: &str,
    args: &Args,
    find: fn(&str, &str) -> Option<usize>,
) -> Result<Value, Error> {
    let stretch = range(text, args)?;
    let before = text
        .chars()
        .count()
        .min(usize::try_from(args.int_or(1, "start", 0)?.max(0)).unwrap_or(0));
    match find(&stretch, &args.text(0, "sub")?) {
        Some(at) => Ok(Value::from(
            before + stretch.get(..at).unwrap_or_default().chars().count(),
        )),
        None if method.ends_with("index") => Err(value_error("substring not found")),
        None => Ok(Value::from(-1)),
    }
}

fn count(text: &str, args: &Args) -> Result<Value, Error> {
    let part = args.text(0, "sub")?;
    let stretch = range(text, args)?;
    let count = if part.is_empty() {
        stretch.chars().count() + 1
    } else {
        stretch.matches(&part).count()
    };
    Ok(Value::from(count))
}

fn width(args: &Args, default: i64) -> Result<usize, Error> {
    let width = usize::try_from(args.int_or(0, "width", default)?).unwrap_or(0);
    checked_len(width)?;
    Ok(width)
}

fn justify(
    text: &str,
    args: &Args,
    around: fn(usize, usize) -> (usize, usize),
) -> Result<Value, Error> {
    let width = width(args, 0)?;
    let fill = args.text_or(1, "fillchar", " ")?;
    if fill.chars().count() != 1 {
        return Err(type_error(
            "The fill character must be exactly one character long",
        ));
    }
    let (left, right) = around(width.saturating_sub(text.chars().count()), width);
    Ok(Value::from(fill.repeat(left) + text + &fill.repeat(right)))
}

fn expand_tabs(text: &str, size: usize) -> String {
    let mut out = String::new();
    let mut column = 0_usize;
    for c in text.chars() {
        match c {
            '\t' => {
                let spaces = column.checked_rem(size).map_or(0, |past| size - past);
                out.extend(std::iter::repeat_n(' ', spaces));
                column += spaces;
            }
            c => {
                out.push(c);
                column = if c == '\n' || c == '\r' {
                    0
                } else {
                    column + 1
                };
            }
        }
    }
    out
}

fn zfill(text: &str, args: &Args) -> Result<String, Error> {
    let missing = width(args, 0)?.saturating_sub(text.chars().count());
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (sign, _) = text.split_at(text.len() - digits.len());
    Ok(format!("{sign}{}{digits}", "0".repeat(missing)))
}
