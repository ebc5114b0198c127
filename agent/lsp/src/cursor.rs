//! [`Spot`]: the part of an SLS that the cursor is in.

use lsp_types::Position;

use crate::documents::byte_of;
use crate::outline::{Line, above};

/// The part of an SLS that the cursor is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Spot<'a> {
    /// A tag of Jinja.
    Jinja {
        /// The text of the tag up to the cursor.
        before: &'a str,
    },
    /// A key, or an item of a list.
    Key(Element<'a>),
    /// The value after a key.
    Value {
        /// The key.
        key: &'a str,
        /// The value, with the keys above its key.
        value: Element<'a>,
    },
}

/// A key or a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Element<'a> {
    /// The keys above it, the outermost first.
    pub(crate) path: Vec<&'a str>,
    /// The numbers of their lines.
    pub(crate) lines: Vec<usize>,
    /// True if it is an item of a list.
    pub(crate) is_item: bool,
    /// Its text.
    pub(crate) text: &'a str,
    /// The byte column where it begins.
    pub(crate) from: usize,
}

impl Element<'_> {
    /// Returns the keys above it within an ID, and its ID: those below `extend` are the same as
    /// those of the file. Returns `None` if the element belongs to no ID.
    pub(crate) fn in_id(&self) -> Option<(&str, &[&str])> {
        match self.path.as_slice() {
            ["include" | "exclude", ..] | [] | ["extend"] => None,
            ["extend", id, rest @ ..] | [id, rest @ ..] => Some((id, rest)),
        }
    }
}

/// Returns what is typed at the cursor: the text before it.
pub(crate) fn typed<'a>(lines: &[&'a str], position: Position) -> Option<Spot<'a>> {
    let at = usize::try_from(position.line).ok()?;
    let line = lines.get(at).copied().unwrap_or_default();
    let before = line.get(..byte_of(line, position))?;
    if let Some(before) = tag(before) {
        return Some(Spot::Jinja { before });
    }
    let Some(read) = Line::read(before) else {
        let is_empty = before.trim().is_empty();
        return is_empty.then(|| key(lines, at, "", before.len(), false))?;
    };
    let start = read.dash.unwrap_or(read.column);
    if read.value.is_none() {
        let word = before.get(read.column..)?;
        return key(lines, at, word, start, read.dash.is_some())
            .map(|spot| spot.begins(read.column));
    }
    value(lines, at, read, before.get(read.column..)?)
}

/// Returns the whole element that the cursor is on.
pub(crate) fn on<'a>(lines: &[&'a str], position: Position) -> Option<Spot<'a>> {
    let at = usize::try_from(position.line).ok()?;
    let line = lines.get(at).copied()?;
    let byte = byte_of(line, position);
    if let Some(before) = line.get(..byte).and_then(tag) {
        return Some(Spot::Jinja { before });
    }
    let read = Line::read(line)?;
    let start = read.dash.unwrap_or(read.column);
    let is_key = byte <= read.column + read.key.len() || read.value.is_none();
    if is_key {
        return key(lines, at, read.key, start, read.dash.is_some())
            .map(|spot| spot.begins(read.column));
    }
    value(lines, at, read, line.get(read.column..)?)
}

fn key<'a>(
    lines: &[&'a str],
    at: usize,
    text: &'a str,
    start: usize,
    is_item: bool,
) -> Option<Spot<'a>> {
    let above = above(lines, at, start, is_item)?;
    Some(Spot::Key(Element {
        path: above.iter().map(|(_, key)| *key).collect(),
        lines: above.iter().map(|(line, _)| *line).collect(),
        is_item,
        text,
        from: start,
    }))
}

/// Returns the value of a line, whose text begins with its key.
fn value<'a>(lines: &[&'a str], at: usize, read: Line<'a>, text: &'a str) -> Option<Spot<'a>> {
    let start = read.dash.unwrap_or(read.column);
    let Some(Spot::Key(element)) = key(lines, at, "", start, read.dash.is_some()) else {
        return None;
    };
    let value = read.value.unwrap_or_default();
    // The value is at the end of the text. What follows it is only space.
    let trailing = text.len() - text.trim_end().len();
    let from = match value.is_empty() {
        true => read.column + text.len(),
        false => read.column + text.len() - trailing - value.len(),
    };
    Some(Spot::Value {
        key: read.key,
        value: Element {
            text: value,
            from,
            ..element
        },
    })
}

impl Spot<'_> {
    /// Returns the spot with another column for its key.
    fn begins(self, from: usize) -> Self {
        match self {
            Self::Key(element) => Self::Key(Element { from, ..element }),
            other => other,
        }
    }
}

/// Returns the text of the tag of Jinja at the end of a text, if it is still open.
fn tag(before: &str) -> Option<&str> {
    let open = before.rfind("{{").max(before.rfind("{%"))?;
    let inside = before.get(open + 2..)?;
    (!inside.contains("}}") && !inside.contains("%}")).then_some(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the spot at the mark `|`.
    fn at(
        text: &str,
        spot: fn(&[&'static str], Position) -> Option<Spot<'static>>,
    ) -> Spot<'static> {
        let (before, after) = text.split_once('|').unwrap();
        let line = u32::try_from(before.matches('\n').count()).unwrap();
        let column = u32::try_from(before.rsplit('\n').next().unwrap().len()).unwrap();
        let text: &'static str = format!("{before}{after}").leak();
        let lines: Vec<&'static str> = text.lines().collect();
        spot(&lines, Position::new(line, column)).unwrap()
    }

    fn shown(spot: &Spot<'_>) -> String {
        match spot {
            Spot::Jinja { before } => format!("jinja {before}"),
            Spot::Key(one) => format!("key {}/{} {}", one.path.join("/"), one.text, one.from),
            Spot::Value { key, value } => {
                let path = value.path.join("/");
                format!("value {path}/{key}: {} {}", value.text, value.from)
            }
        }
    }

    #[test]
    fn the_spot_of_what_is_typed() {
        for (text, spot) in [
            ("|", "key / 0"),
            ("a:\n  pkg.in|", "key a/pkg.in 2"),
            ("a:\n  |", "key a/ 2"),
            (
                "a:\n  pkg.installed:\n    - na|: x",
                "key a/pkg.installed/na 6",
            ),
            (
                "a:\n  x.y:\n    - require:\n      - pkg: |",
                "value a/x.y/require/pkg:  13",
            ),
            (
                "a:\n  x.y:\n    - require:\n      - pkg: ng|",
                "value a/x.y/require/pkg: ng 13",
            ),
            ("include:\n  - |", "key include/ 4"),
            ("a:\n  x.y:\n    - name: {{ pillar['|", "jinja  pillar['"),
        ] {
            assert_eq!(shown(&at(text, typed)), spot, "{text}");
        }
    }

    #[test]
    fn the_element_under_the_cursor() {
        for (text, spot) in [
            ("a:\n  pkg.in|stalled:\n", "key a/pkg.installed 2"),
            ("include:\n  - a.|b\n", "key include/a.b 4"),
            (
                "a:\n  x.y:\n    - watch:\n      - pkg: ng|inx  \n",
                "value a/x.y/watch/pkg: nginx 13",
            ),
        ] {
            assert_eq!(shown(&at(text, on)), spot, "{text}");
        }
    }
}
