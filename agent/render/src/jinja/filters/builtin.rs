//! Jinja2's own filters of texts and numbers that differ from the engine's.

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, State, Value};

use super::super::args::{self, Args, items};
use super::super::containers::{Dict, List};
use super::super::errors::{runtime_error, type_error};
use super::super::{bound, format, markup, methods, print, strings};
use super::{Table, pretty, urlize};

/// The filters of this topic.
pub(super) const FILTERS: Table = &[
    ("string", |_, a| Ok(Value::from(a.text(0, "value")?))),
    ("lower", |_, a| {
        Ok(Value::from(a.text(0, "value")?.to_lowercase()))
    }),
    ("upper", |_, a| {
        Ok(Value::from(a.text(0, "value")?.to_uppercase()))
    }),
    ("capitalize", |_, a| {
        Ok(Value::from(strings::capitalize(&a.text(0, "value")?)))
    }),
    ("title", |_, a| Ok(Value::from(title(&a.text(0, "value")?)))),
    ("safe", |_, a| {
        Ok(Value::from_safe_string(a.text(0, "value")?))
    }),
    ("escape", |_, a| Ok(markup::escaped(a.subject()?))),
    ("e", |_, a| Ok(markup::escaped(a.subject()?))),
    ("forceescape", |_, a| {
        Ok(Value::from_safe_string(escaped(&a.text(0, "value")?)))
    }),
    ("default", default),
    ("d", default),
    ("trim", trim),
    ("replace", replace),
    ("center", center),
    ("format", format::format_filter),
    ("indent", indent),
    ("length", length),
    ("count", length),
    ("int", int),
    ("float", float),
    ("abs", abs),
    ("round", round),
    ("list", |_, a| Ok(List::value(items(a.subject()?)?))),
    ("first", |_, a| {
        Ok(items(a.subject()?)?.into_iter().next().unwrap_or_default())
    }),
    ("last", |_, a| {
        Ok(items(a.subject()?)?.pop().unwrap_or_default())
    }),
    ("reverse", reverse),
    ("items", |_, a| match a.need(0, "value")? {
        value if value.is_undefined() => Ok(List::value(Vec::new())),
        value => Ok(List::value(pairs(value)?)),
    }),
    ("dictsort", dictsort),
    ("pprint", |_, a| {
        Ok(Value::from(pretty::pretty(a.subject()?)))
    }),
    ("wordcount", |_, a| {
        Ok(Value::from(words(&a.text(0, "value")?)))
    }),
    ("wordwrap", wordwrap),
    ("truncate", truncate),
    ("striptags", |_, a| {
        Ok(Value::from(striptags(&a.text(0, "value")?)))
    }),
    ("filesizeformat", filesizeformat),
    ("xmlattr", xmlattr),
    ("urlize", urlize::urlize),
    ("attr", bound::attr),
];

/// Capitalizes words as Jinja2 does: a word begins after white space, a dash or an opening bracket.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        if inside {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        inside = !(c.is_whitespace() || "-({[<".contains(c));
    }
    out
}

pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

fn default(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let value = args.need(0, "value")?;
    if value.is_undefined() || (args.flag(2, "boolean", false) && !value.is_true()) {
        let default = args.at(1, "default_value").cloned();
        return Ok(default.unwrap_or_else(|| Value::from("")));
    }
    Ok(value.clone())
}

fn trim(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let text = args.text(0, "value")?;
    let chars = args
        .at(1, "chars")
        .filter(|chars| !chars.is_none())
        .map(print::str);
    Ok(Value::from(match chars {
        Some(chars) => text.trim_matches(|c| chars.contains(c)),
        None => text.trim(),
    }))
}

fn replace(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let (text, old, new) = (
        args.text(0, "s")?,
        args.text(1, "old")?,
        args.text(2, "new")?,
    );
    let count = usize::try_from(args.int_or(3, "count", -1)?).ok();
    strings::checked_len(text.len().saturating_mul(new.len().max(1)) / old.len().max(1))?;
    Ok(Value::from(count.map_or_else(
        || text.replace(&old, &new),
        |count| text.replacen(&old, &new, count),
    )))
}

fn center(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let text = args.text(0, "value")?;
    let width = usize::try_from(args.int_or(1, "width", 80)?).unwrap_or(0);
    strings::checked_len(width)?;
    let missing = width.saturating_sub(text.chars().count());
    let left = missing / 2 + (missing & width & 1);
    Ok(Value::from(
        " ".repeat(left) + &text + &" ".repeat(missing - left),
    ))
}

fn indent(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let text = args.text(0, "s")?;
    let indention = match args.at(1, "width") {
        Some(width) if width.as_str().is_some() => print::str(width),
        _ => {
            let width = usize::try_from(args.int_or(1, "width", 4)?).unwrap_or(0);
            strings::checked_len(width)?;
            " ".repeat(width)
        }
    };
    let (first, blank) = (args.flag(2, "first", false), args.flag(3, "blank", false));
    let lines = text.split('\n').count();
    strings::checked_len(lines.saturating_mul(indention.len()))?;
    let mut out = String::with_capacity(text.len());
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let wanted = if index == 0 {
            first
        } else {
            blank || !line.is_empty()
        };
        if wanted {
            out.push_str(&indention);
        }
        out.push_str(line);
    }
    Ok(Value::from(out))
}

fn length(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let value = args.subject()?;
    value.len().map(Value::from).ok_or_else(|| {
        type_error(format!(
            "object of type '{}' has no len()",
            print::type_name(value)
        ))
    })
}

fn int(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let value = args.subject()?;
    let default = || {
        args.at(1, "default")
            .cloned()
            .unwrap_or_else(|| Value::from(0))
    };
    let base = u32::try_from(args.int_or(2, "base", 10)?).unwrap_or(10);
    Ok(match value.kind() {
        ValueKind::Bool => Value::from(i64::from(value.is_true())),
        ValueKind::Number if value.is_integer() => value.clone(),
        ValueKind::Number => truncate_to_int(f64::try_from(value.clone())?).unwrap_or_else(default),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            based(text, base)
                .or_else(|| number(text).and_then(truncate_to_int))
                .unwrap_or_else(default)
        }
        _ => default(),
    })
}

fn truncate_to_int(number: f64) -> Option<Value> {
    number.is_finite().then(|| {
        let number = number.trunc() as i128;
        i64::try_from(number).map_or_else(|_| Value::from(number), Value::from)
    })
}

/// Reads a number as Python's `int(text, base)`.
fn based(text: &str, base: u32) -> Option<Value> {
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (base, digits) = match (base, digits.get(..2).map(str::to_lowercase).as_deref()) {
        (16 | 0, Some("0x")) => (16, digits.get(2..)?),
        (8 | 0, Some("0o")) => (8, digits.get(2..)?),
        (2 | 0, Some("0b")) => (2, digits.get(2..)?),
        (0, _) => (10, digits),
        (base @ 2..=36, _) => (base, digits),
        _ => return None,
    };
    if digits.starts_with(['_', '+', '-']) || digits.ends_with('_') || digits.contains("__") {
        return None;
    }
    let number = i128::from_str_radix(&digits.replace('_', ""), base).ok()? * sign;
    Some(i64::try_from(number).map_or_else(|_| Value::from(number), Value::from))
}

/// Reads a number as Python's `float(text)`.
pub(super) fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let known = text.contains(|c: char| c.is_ascii_digit())
        || ["inf", "infinity", "nan"]
            .contains(&text.trim_start_matches(['+', '-']).to_lowercase().as_str());
    if known {
        text.replace('_', "").parse().ok()
    } else {
        None
    }
}

fn float(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let value = args.subject()?;
    let default = || {
        args.at(1, "default")
            .cloned()
            .unwrap_or_else(|| Value::from(0.0))
    };
    Ok(match value.kind() {
        ValueKind::Bool => Value::from(if value.is_true() { 1.0 } else { 0.0 }),
        ValueKind::Number => Value::from(f64::try_from(value.clone())?),
        ValueKind::String => {
            number(value.as_str().unwrap_or_default()).map_or_else(default, Value::from)
        }
        _ => default(),
    })
}

fn abs(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let value = args.subject()?;
    if let Ok(number) = args::int(value) {
        return Ok(Value::from(number.saturating_abs()));
    }
    f64::try_from(value.clone())
        .map(|number| Value::from(number.abs()))
        .map_err(|_| {
            type_error(format!(
                "bad operand type for abs(): '{}'",
                print::type_name(value)
            ))
        })
}

fn round(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let value = args.subject()?;
    let places = i32::try_from(args.int_or(1, "precision", 0)?)
        .unwrap_or(0)
        .clamp(-300, 300);
    let method = args.text_or(2, "method", "common")?;
    if value.is_integer() && method == "common" && places >= 0 {
        return Ok(value.clone());
    }
    if let (true, "common", Some(number)) = (value.is_integer(), method.as_str(), value.as_i64()) {
        let unit = 10_i64
            .checked_pow(places.unsigned_abs())
            .unwrap_or(i64::MAX);
        let (down, rest) = (number.div_euclid(unit), number.rem_euclid(unit));
        // Ties are rounded to the even number.
        let up = rest > unit - rest || (rest == unit - rest && down % 2 != 0);
        return Ok(Value::from((down + i64::from(up)).saturating_mul(unit)));
    }
    let number = f64::try_from(value.clone()).map_err(|_| {
        type_error(format!(
            "type {} doesn't define __round__ method",
            print::type_name(value)
        ))
    })?;
    let factor = 10_f64.powi(places);
    Ok(Value::from(match method.as_str() {
        "common" => match usize::try_from(places) {
            // The exact decimal text is rounded, ties to even, as in Python.
            Ok(places) => format!("{number:.places$}").parse().unwrap_or(number),
            Err(_) => (number * factor).round() / factor,
        },
        "ceil" => (number * factor).ceil() / factor,
        "floor" => (number * factor).floor() / factor,
        _ => return Err(runtime_error("method must be common, ceil or floor")),
    }))
}

fn reverse(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let value = args.subject()?;
    if let Some(text) = value.as_str() {
        return Ok(Value::from(text.chars().rev().collect::<String>()));
    }
    let mut items = items(value)?;
    items.reverse();
    Ok(List::value(items))
}

/// Returns the entries of a dictionary as tuples.
pub(super) fn pairs(value: &Value) -> Result<Vec<Value>, Error> {
    if let Some(dict) = value.downcast_object_ref::<Dict>() {
        return Ok(methods::items(dict));
    }
    if value.kind() != ValueKind::Map {
        return Err(type_error("Can only get item pairs from a mapping."));
    }
    value
        .try_iter()?
        .map(|key| Ok(methods::pair(key.clone(), value.get_item(&key)?)))
        .collect()
}

fn dictsort(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let sensitive = args.flag(1, "case_sensitive", false);
    let at = match args.text_or(2, "by", "key")?.as_str() {
        "key" => 0,
        "value" => 1,
        _ => {
            return Err(runtime_error(
                "You can only sort by either \"key\" or \"value\"",
            ));
        }
    };
    let reverse = args.flag(3, "reverse", false);
    let mut keyed = Vec::new();
    for pair in pairs(args.subject()?)? {
        keyed.push((fold(pair.get_item_by_index(at)?, sensitive), pair));
    }
    sort_keyed(&mut keyed, reverse)?;
    Ok(List::value(
        keyed.into_iter().map(|(_, pair)| pair).collect(),
    ))
}

/// Returns the value to compare when sorting: texts in lower case unless case matters.
pub(super) fn fold(value: Value, sensitive: bool) -> Value {
    match value.as_str() {
        Some(text) if !sensitive => Value::from(text.to_lowercase()),
        _ => value,
    }
}

/// Sorts values by their keys, stably.
pub(super) fn sort_keyed(keyed: &mut Vec<(Value, Value)>, reverse: bool) -> Result<(), Error> {
    if let [(first, _), rest @ ..] = keyed.as_slice() {
        for (other, _) in rest {
            methods::comparable(first, other)?;
        }
    }
    value::sorted::sort_by(keyed, |a, b| {
        if reverse {
            methods::compare(&b.0, &a.0)
        } else {
            methods::compare(&a.0, &b.0)
        }
    });
    Ok(())
}

fn words(text: &str) -> usize {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
        .count()
}

fn wordwrap(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let text = args.text(0, "s")?;
    let width = usize::try_from(args.int_or(1, "width", 79)?)
        .unwrap_or(79)
        .max(1);
    let long = args.flag(2, "break_long_words", true);
    let newline = args.text_or(3, "wrapstring", "\n")?;
    let hyphens = args.flag(4, "break_on_hyphens", true);
    let lines: Vec<String> = text
        .lines()
        .flat_map(|line| {
            let lines = wrap_line(line, width, long, hyphens);
            if lines.is_empty() {
                vec![String::new()]
            } else {
                lines
            }
        })
        .collect();
    strings::checked_len(lines.iter().map(String::len).sum())?;
    strings::checked_len(lines.len().saturating_mul(newline.len()))?;
    Ok(Value::from(lines.join(&newline)))
}

/// Wraps one line as Python's `textwrap.wrap`, and keeps its white space.
fn wrap_line(line: &str, width: usize, long: bool, hyphens: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut current = String::new();
    let count = |text: &str| text.chars().count();
    for chunk in chunks(line, hyphens) {
        let blank = chunk.trim().is_empty();
        if blank && current.is_empty() && !lines.is_empty() {
            continue;
        }
        if count(&current) + count(&chunk) <= width {
            current.push_str(&chunk);
            continue;
        }
        let mut chunk = chunk;
        if long && count(&chunk) > width {
            let room = width - count(&current);
            current.extend(chunk.chars().take(room));
            chunk = chunk.chars().skip(room).collect();
        }
        if !current.is_empty() {
            lines.push(std::mem::take(&mut current).trim_end().to_owned());
        }
        if blank {
            continue;
        }
        while long && count(&chunk) > width {
            lines.push(chunk.chars().take(width).collect());
            chunk = chunk.chars().skip(width).collect();
        }
        current = chunk;
    }
    if !current.trim_end().is_empty() {
        lines.push(current.trim_end().to_owned());
    }
    lines
}

/// Splits a line into words, the white space between them, and the parts of hyphenated words.
fn chunks(line: &str, hyphens: bool) -> Vec<String> {
    let mut chunks: Vec<String> = Vec::new();
    let mut before = None;
    for c in line.chars() {
        let join = match before {
            None => false,
            Some(last) if char::is_whitespace(last) != c.is_whitespace() => false,
            Some('-') if hyphens && c.is_alphabetic() => false,
            Some(_) => true,
        };
        match chunks.last_mut() {
            Some(chunk) if join => chunk.push(c),
            _ => chunks.push(c.to_string()),
        }
        before = Some(c);
    }
    chunks
}

fn truncate(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let text = args.text(0, "s")?;
    let length = usize::try_from(args.int_or(1, "length", 255)?).unwrap_or(0);
    let end = args.text_or(3, "end", "...")?;
    let leeway = usize::try_from(args.int_or(4, "leeway", 5)?).unwrap_or(5);
    if text.chars().count() <= length + leeway {
        return Ok(Value::from(text));
    }
    let kept: String = text
        .chars()
        .take(length.saturating_sub(end.chars().count()))
        .collect();
    if args.flag(2, "killwords", false) {
        return Ok(Value::from(kept + &end));
    }
    let words = kept
        .rsplit_once(' ')
        .map_or(kept.as_str(), |(words, _)| words);
    Ok(Value::from(format!("{words}{end}")))
}

fn striptags(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        out.push_str(before);
        rest = match after.strip_prefix("!--") {
            Some(comment) => comment.split_once("-->").map_or("", |(_, after)| after),
            None => after.split_once('>').map_or("", |(_, after)| after),
        };
    }
    out.push_str(rest);
    let mut plain = out.split_whitespace().collect::<Vec<_>>().join(" ");
    for (name, c) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&#34;", "\""),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ] {
        plain = plain.replace(name, c);
    }
    plain
}

fn filesizeformat(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let value = args.subject()?;
    let bytes = match value.as_str() {
        Some(text) => number(text).ok_or_else(|| {
            type_error(format!(
                "could not convert string to float: {}",
                print::repr(value)
            ))
        })?,
        None => f64::try_from(value.clone())
            .map_err(|_| type_error("float() argument must be a number"))?,
    };
    let binary = args.flag(1, "binary", false);
    let base: f64 = if binary { 1024.0 } else { 1000.0 };
    if bytes == 1.0 {
        return Ok(Value::from("1 Byte"));
    }
    if bytes < base {
        return Ok(Value::from(format!("{} Bytes", bytes.trunc())));
    }
    let letters = if binary {
        ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"]
    } else {
        ["kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"]
    };
    let mut unit = base;
    for letter in letters {
        unit *= base;
        if bytes < unit || letter.starts_with('Y') {
            return Ok(Value::from(format!("{:.1} {letter}", base * bytes / unit)));
        }
    }
    Ok(Value::from(""))
}

fn xmlattr(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let mut out = String::new();
    for pair in pairs(args.subject()?)? {
        let (key, value) = (pair.get_item_by_index(0)?, pair.get_item_by_index(1)?);
        if value.is_none() || value.is_undefined() {
            continue;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&format!(
            "{}=\"{}\"",
            escaped(&print::str(&key)),
            escaped(&print::str(&value))
        ));
    }
    if args.flag(1, "autospace", true) && !out.is_empty() {
        out.insert(0, ' ');
    }
    Ok(Value::from(out))
}

/// Returns a tuple of values.
pub(super) fn tuple(items: Vec<Value>) -> Value {
    Value::from(Tuple::from(items))
}
