//! Inventories as INI.

use python::shlex;
use value::{Map, Value};

use super::{HOSTS_MAX, Inventory, UNGROUPED, is_text};

/// The maximum length of a line in bytes.
const LINE_MAX: usize = 64 << 10;

/// Reads an inventory.
///
/// # Errors
/// When it is not well formed, with the line.
pub(super) fn read(text: &str) -> Result<Inventory, String> {
    let mut inventory = Inventory::default();
    let mut section = Section {
        group: UNGROUPED.to_owned(),
        kind: Kind::Hosts,
    };
    for (at, line) in text.lines().enumerate() {
        let failed = |error: String| format!("line {}: {error}", at + 1);
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if line.len() > LINE_MAX {
            return Err(failed(format!("it has more than {LINE_MAX} bytes")));
        }
        if let Some(header) = line.strip_prefix('[').filter(|_| is_header(line)) {
            section = Section::read(header).map_err(failed)?;
            if section.kind != Kind::Variables {
                inventory.group(&section.group).map_err(failed)?;
            }
            continue;
        }
        section.add(line, &mut inventory).map_err(failed)?;
    }
    Ok(inventory)
}

/// Returns whether a line is the header of a section, and no host whose name begins with a range.
fn is_header(line: &str) -> bool {
    let rest = line.split_once(']').map_or("", |(_, rest)| rest.trim());
    rest.is_empty() || rest.starts_with('#')
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Hosts,
    Children,
    Variables,
}

struct Section {
    group: String,
    kind: Kind,
}

impl Section {
    /// Reads a header after its bracket.
    fn read(header: &str) -> Result<Self, String> {
        let name = header.split(']').next().unwrap_or_default();
        let (group, kind) = name.split_once(':').unwrap_or((name, "hosts"));
        let kind = match kind {
            "hosts" => Kind::Hosts,
            "children" => Kind::Children,
            "vars" => Kind::Variables,
            other => {
                return Err(format!(
                    "unknown kind of section {other:?}; expected children or vars"
                ));
            }
        };
        if group.is_empty() || group.contains(char::is_whitespace) {
            return Err(format!("invalid name of a group {group:?}"));
        }
        Ok(Self {
            group: group.to_owned(),
            kind,
        })
    }

    fn add(&self, line: &str, inventory: &mut Inventory) -> Result<(), String> {
        match self.kind {
            Kind::Hosts => self.add_hosts(line, inventory),
            Kind::Children => {
                let child = uncommented(line).to_owned();
                inventory.group(&self.group)?.children.push(child);
                Ok(())
            }
            Kind::Variables => {
                let (key, value) = assigned(uncommented(line))?;
                inventory.group(&self.group)?.variables.insert(key, value);
                Ok(())
            }
        }
    }

    /// Adds the hosts of a line: a name, which may contain ranges, and variables.
    fn add_hosts(&self, line: &str, inventory: &mut Inventory) -> Result<(), String> {
        let words = shlex::split(uncommented(line))?;
        let [pattern, words @ ..] = words.as_slice() else {
            return Err("expected a host".to_owned());
        };
        let mut variables = Map::new();
        let (names, port) = named(pattern)?;
        if let Some(port) = port {
            variables.insert("ansible_port", port);
        }
        for word in words {
            let (key, value) = assigned(word)?;
            variables.insert(key, value);
        }
        for name in names {
            inventory.add_to(&self.group, name, variables.clone())?;
        }
        Ok(())
    }
}

/// Returns a line without the comment at its end: `#` after a space, and not between quotes.
fn uncommented(line: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (at, c) in line.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None if c == '#' && before == ' ' => return line.get(..at).unwrap_or(line).trim(),
            None => {}
        }
        before = c;
    }
    line
}

fn assigned(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| "expected NAME=VALUE".to_owned())?;
    let (key, value) = (key.trim(), value.trim());
    let value = match is_text(key) {
        true => unquoted(value).unwrap_or(value).into(),
        false => literal(value),
    };
    Ok((key.to_owned(), value))
}

/// Reads a value as Ansible does: a literal of Python, or else a text. Lists and dictionaries stay
/// texts.
fn literal(text: &str) -> Value {
    if let Some(inner) = unquoted(text) {
        return inner.into();
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit());
    let has_zeros = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
    match text {
        "True" => true.into(),
        "False" => false.into(),
        "None" => Value::Null,
        _ if !is_number || has_zeros => text.into(),
        _ => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(number), _) => number.into(),
            (_, Ok(number)) if number.is_finite() => Value::Float(number),
            _ => text.into(),
        },
    }
}

/// Returns the text between quotes, if there are some.
fn unquoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    (!inner.contains([quote, '\\'])).then_some(inner)
}

/// Returns the names of a pattern with ranges, and its port.
///
/// # Errors
/// When a range is not well formed, or has too many names.
pub(super) fn named(pattern: &str) -> Result<(Vec<String>, Option<i64>), String> {
    let (pattern, port) = match pattern.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => {
            let port = port
                .parse::<u16>()
                .map_err(|_| format!("invalid port {port:?}"))?;
            (name, Some(i64::from(port)))
        }
        _ => (pattern, None),
    };
    Ok((expanded(pattern)?, port))
}

/// Returns the names of a pattern with ranges: `web[01:10]`, `db-[a:f]`, `x[0:20:5]`.
fn expanded(pattern: &str) -> Result<Vec<String>, String> {
    let mut names = vec![String::new()];
    let mut rest = pattern;
    while let Some((head, tail)) = rest.split_once('[') {
        let (range, tail) = tail
            .split_once(']')
            .ok_or_else(|| format!("the range in {pattern:?} has no end"))?;
        let parts = parts(range).map_err(|error| format!("invalid range [{range}]: {error}"))?;
        if names.len().saturating_mul(parts.len()) > HOSTS_MAX {
            return Err(format!(
                "the range [{range}] has more than {HOSTS_MAX} hosts"
            ));
        }
        let with = |name: &String| {
            let parts = parts.iter();
            parts
                .map(|part| format!("{name}{head}{part}"))
                .collect::<Vec<_>>()
        };
        names = names.iter().flat_map(with).collect();
        rest = tail;
    }
    names.iter_mut().for_each(|name| name.push_str(rest));
    Ok(names)
}

/// Returns the parts of a range: numbers, filled with zeros if its begin is, or letters.
fn parts(range: &str) -> Result<Vec<String>, String> {
    const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let bounds: Vec<&str> = range.split(':').collect();
    let (from, to, step) = match bounds.as_slice() {
        [from, to] => (*from, *to, "1"),
        [from, to, step] => (*from, *to, *step),
        _ => return Err("expected BEGIN:END or BEGIN:END:STEP".to_owned()),
    };
    let from = if from.is_empty() { "0" } else { from };
    let step: usize = step
        .parse()
        .ok()
        .filter(|step| *step > 0)
        .ok_or("invalid step")?;
    let backwards = || "its end is before its begin".to_owned();
    if let (Some(first), Some(last)) = (LETTERS.find(from), LETTERS.find(to))
        && from.len() == 1
        && to.len() == 1
    {
        let letters = LETTERS.get(first..=last).ok_or_else(backwards)?;
        return Ok(letters.chars().step_by(step).map(String::from).collect());
    }
    let number = |text: &str| {
        text.parse::<u64>()
            .map_err(|_| format!("invalid number {text:?}"))
    };
    let (first, last) = (number(from)?, number(to)?);
    let width = match from.len() > 1 && from.starts_with('0') {
        true if from.len() != to.len() => {
            return Err("its begin and end must have the same number of digits".to_owned());
        }
        true => from.len(),
        false => 0,
    };
    if first > last {
        return Err(backwards());
    }
    if (last - first) / (step as u64) >= HOSTS_MAX as u64 {
        return Err(format!("it has more than {HOSTS_MAX} hosts"));
    }
    let numbers = (first..=last).step_by(step);
    Ok(numbers.map(|number| format!("{number:0width$}")).collect())
}
