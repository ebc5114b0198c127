//! Formats values as Python's `pprint.pformat` does: within 80 columns, with sorted keys.

use value::{Map, Value, python};

use super::text;

const COLUMNS: usize = 80;

/// Returns `pprint.pformat(value, indent=indent)`.
pub(crate) fn pformat(value: &Value, indent: usize) -> String {
    let mut printer = Printer {
        out: String::new(),
        step: indent,
    };
    printer.put(value, 0, 0, 0);
    printer.out
}

struct Printer {
    out: String,
    /// The number of columns for each level.
    step: usize,
}

impl Printer {
    /// Writes a value that starts at column `indent`. On its last line, it leaves room for
    /// `allowance` more characters.
    fn put(&mut self, value: &Value, indent: usize, allowance: usize, level: usize) {
        let flat = repr(value);
        if text::width(&flat) + indent + allowance <= COLUMNS {
            self.out.push_str(&flat);
            return;
        }
        match value {
            Value::Map(map) => self.put_map(map, indent, allowance, level + 1),
            Value::List(items) => self.put_items(("[", "]"), items, indent, allowance, level + 1),
            Value::Tuple(items) => {
                let close = if items.len() == 1 { ",)" } else { ")" };
                self.put_items(("(", close), items, indent, allowance, level + 1);
            }
            Value::Set(set) => {
                let mut items: Vec<Value> = set.keys().cloned().collect();
                value::sorted::sort(&mut items);
                self.put_items(("{", "}"), &items, indent, allowance, level + 1);
            }
            Value::Str(words) => self.put_text(words, indent, allowance, level + 1),
            _ => self.out.push_str(&flat),
        }
    }

    fn put_map(&mut self, map: &Map, indent: usize, allowance: usize, level: usize) {
        self.open("{");
        let mut entries: Vec<_> = map.iter().collect();
        value::sorted::sort_by(&mut entries, |a, b| a.0.cmp(b.0));
        let indent = indent + self.step;
        let last = entries.len().saturating_sub(1);
        for (index, (key, value)) in entries.into_iter().enumerate() {
            if index > 0 {
                self.next_line(indent);
            }
            let key = repr(key);
            self.out.push_str(&key);
            self.out.push_str(": ");
            let after = if index == last { allowance + 1 } else { 1 };
            self.put(value, indent + text::width(&key) + 2, after, level);
        }
        self.out.push('}');
    }

    fn put_items(
        &mut self,
        (open, close): (&str, &str),
        items: &[Value],
        indent: usize,
        allowance: usize,
        level: usize,
    ) {
        self.open(open);
        let indent = indent + self.step;
        let last = items.len().saturating_sub(1);
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.next_line(indent);
            }
            let after = if index == last {
                allowance + close.len()
            } else {
                1
            };
            self.put(item, indent, after, level);
        }
        self.out.push_str(close);
    }

    fn open(&mut self, bracket: &str) {
        self.out.push_str(bracket);
        self.out
            .extend(std::iter::repeat_n(' ', self.step.saturating_sub(1)));
    }

    fn next_line(&mut self, indent: usize) {
        self.out.push_str(",\n");
        self.out.extend(std::iter::repeat_n(' ', indent));
    }

    /// Writes a long string as several lines, each a separate literal. At the top level, the lines
    /// are in parentheses.
    fn put_text(&mut self, words: &str, indent: usize, allowance: usize, level: usize) {
        if words.is_empty() {
            self.out.push_str("''");
            return;
        }
        let outermost = usize::from(level == 1);
        let (indent, allowance) = (indent + outermost, allowance + outermost);
        let room = COLUMNS.saturating_sub(indent);
        let lines = text::split_keeping_ends(words);
        let mut literals = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            let after = if index + 1 == lines.len() {
                allowance
            } else {
                0
            };
            literals.extend(literals_of(line, room, after));
        }
        let joined = literals.join(&format!("\n{:indent$}", ""));
        if outermost == 1 && literals.len() > 1 {
            self.out.push_str(&format!("({joined})"));
        } else {
            self.out.push_str(&joined);
        }
    }
}

/// Returns a line of text as literals of at most `room` columns. The last one leaves `after`
/// columns free.
fn literals_of(line: &str, room: usize, after: usize) -> Vec<String> {
    let whole = quoted(line);
    if text::width(&whole) + after <= room {
        return vec![whole];
    }
    let words = words_with_space(line);
    let mut literals = Vec::new();
    let mut current = String::new();
    for (index, word) in words.iter().enumerate() {
        let room = if index + 1 == words.len() {
            room.saturating_sub(after)
        } else {
            room
        };
        let candidate = format!("{current}{word}");
        if text::width(&quoted(&candidate)) <= room {
            current = candidate;
            continue;
        }
        if !current.is_empty() {
            literals.push(quoted(&current));
        }
        current.clone_from(word);
    }
    if !current.is_empty() {
        literals.push(quoted(&current));
    }
    literals
}

/// Splits a line into words, each with the white space after it.
fn words_with_space(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut in_space = true;
    for c in line.chars() {
        if (in_space && !c.is_whitespace()) || words.is_empty() {
            words.push(String::new());
        }
        in_space = c.is_whitespace();
        if let Some(word) = words.last_mut() {
            word.push(c);
        }
    }
    words
}

fn quoted(text: &str) -> String {
    let mut out = String::new();
    python::quote(&mut out, text);
    out
}

/// Returns the `repr` with the keys of every dictionary sorted, as `pprint` writes a value that
/// fits on one line.
fn repr(value: &Value) -> String {
    python::repr(&with_sorted_keys(value))
}

fn with_sorted_keys(value: &Value) -> Value {
    match value {
        Value::Map(map) => {
            let mut sorted: Map = map
                .iter()
                .map(|(key, value)| (key.clone(), with_sorted_keys(value)))
                .collect();
            sorted.sort_keys();
            Value::Map(sorted)
        }
        Value::List(items) => Value::list(items.iter().map(with_sorted_keys)),
        Value::Tuple(items) => Value::Tuple(
            items
                .iter()
                .map(with_sorted_keys)
                .collect::<Vec<_>>()
                .into(),
        ),
        other => other.clone(),
    }
}
