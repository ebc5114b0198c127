//! The `table` outputter: formats lists of rows as tables.

use value::{Map, Value};

use super::color::Color;
use super::{Mismatch, Output, text};

struct Table<'a> {
    how: &'a Output,
    header: bool,
    row_delimiter: String,
    delimiter: String,
    justify: char,
    separate_rows: bool,
    prefix: String,
    suffix: String,
    width: usize,
    rows_key: Option<Value>,
    labels_key: Option<Value>,
    lines: Vec<String>,
}

pub(super) fn output(value: &Value, how: &Output, opts: &Map) -> Result<String, Mismatch> {
    let option = |name: &str| {
        opts.get(&format!("out.table.{name}"))
            .filter(|value| value.is_true())
    };
    let given = |name: &str| opts.get(&format!("out.table.{name}"));
    let text =
        |name: &str, default: &str| given(name).map_or_else(|| default.to_owned(), Value::to_text);
    let count = |name: &str, default: usize| {
        given(name)
            .and_then(Value::as_int)
            .and_then(|n| n.try_into().ok())
            .unwrap_or(default)
    };
    let mut table = Table {
        how,
        header: given("has_header").is_none_or(Value::is_true),
        row_delimiter: text("row_delimiter", "-"),
        delimiter: text("delim", " | "),
        justify: match text("justify", "center").to_lowercase().as_str() {
            "center" => '^',
            "right" => '>',
            "left" => '<',
            _ => return Err(Mismatch),
        },
        separate_rows: given("separate_rows").is_none_or(Value::is_true),
        prefix: text("prefix", "| "),
        suffix: text("suffix", " |"),
        width: count("width", 50),
        rows_key: option("rows_key").cloned(),
        labels_key: option("labels_key").cloned(),
        lines: Vec::new(),
    };
    table.put(value, count("nested_indent", 0))?;
    Ok(table.lines.join("\n"))
}

impl Table<'_> {
    fn put(&mut self, value: &Value, indent: usize) -> Result<(), Mismatch> {
        match value {
            Value::Map(map) => self.put_map(map, indent),
            Value::List(rows) | Value::Tuple(rows) if self.rows_key.is_none() => {
                self.put_rows(rows, None, indent)
            }
            _ => Ok(()),
        }
    }

    fn put_map(&mut self, map: &Map, indent: usize) -> Result<(), Mismatch> {
        let wanted = self.rows_key.clone();
        if wanted.as_ref().is_some_and(|key| !map.contains_value(key)) {
            return text::sorted(map)
                .into_iter()
                .try_for_each(|(_, value)| self.put(value, indent));
        }
        for (key, value) in text::sorted(map) {
            if wanted.as_ref().is_some_and(|wanted| *wanted != key) {
                continue;
            }
            if wanted.is_none() {
                // Salt prints this dark grey.
                self.line(indent, "\x1b[0;1;30m", &key.to_text());
                if let Some(line) = self.lines.last_mut() {
                    line.push(':');
                }
                self.line(indent, "\x1b[0;1;30m", "----------");
            }
            match value.as_list() {
                Some(rows) => {
                    let labels = self.labels_key.as_ref().and_then(|key| map.get_value(key));
                    self.put_rows(rows, labels, indent)?;
                }
                None => self.put(value, indent + 4)?,
            }
        }
        Ok(())
    }

    fn put_rows(
        &mut self,
        rows: &[Value],
        labels: Option<&Value>,
        indent: usize,
    ) -> Result<(), Mismatch> {
        let Some(first) = rows.first() else {
            return Ok(());
        };
        if rows.iter().any(|row| row.type_name() != first.type_name()) {
            return Ok(());
        }
        let mut labels: Option<Vec<String>> = match labels {
            Some(Value::Map(map)) => Some(
                text::sorted(map)
                    .into_iter()
                    .map(|(_, label)| label.to_text())
                    .collect(),
            ),
            Some(other) => Some(cells(other)?),
            None => None,
        };
        if let (Some(map), true) = (first.as_map(), labels.as_ref().is_none_or(Vec::is_empty)) {
            labels = Some(
                text::sorted(map)
                    .into_iter()
                    .map(|(key, _)| title(&key.to_text()))
                    .collect(),
            );
        }
        let mut all: Vec<Vec<String>> = labels
            .into_iter()
            .filter(|labels| !labels.is_empty())
            .collect();
        let header = self.header && !all.is_empty();
        for row in rows {
            let cells = cells(row)?;
            if cells.is_empty() {
                return Err(Mismatch);
            }
            all.push(cells);
        }
        self.draw(&all, indent + 4, header);
        Ok(())
    }

    fn draw(&mut self, rows: &[Vec<String>], indent: usize, mut header: bool) {
        let rows: Vec<Vec<Vec<String>>> = rows.iter().map(|row| self.physical(row)).collect();
        let flat = || rows.iter().flatten();
        let columns = flat().map(Vec::len).min().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                flat()
                    .filter_map(|row| row.get(column))
                    .map(|cell| text::width(cell))
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let between = text::width(&self.delimiter) * columns.saturating_sub(1);
        let total = text::width(&self.prefix)
            + text::width(&self.suffix)
            + widths.iter().sum::<usize>()
            + between;
        let rule = self.row_delimiter.repeat(total);
        if self.separate_rows {
            self.line(indent, Color::LightGray.code(true), &rule);
        }
        for lines in &rows {
            for cells in lines {
                let cells: Vec<String> = cells
                    .iter()
                    .zip(&widths)
                    .map(|(cell, width)| self.justified(cell, *width))
                    .collect();
                let text = format!(
                    "{}{}{}",
                    self.prefix,
                    cells.join(&self.delimiter),
                    self.suffix
                );
                self.line(indent, Color::White.code(true), &text);
            }
            if self.separate_rows || header {
                self.line(indent, Color::LightGray.code(true), &rule);
                header = false;
            }
        }
    }

    /// Returns the lines of a row. As in Salt, a row has only as many lines as its shortest cell.
    fn physical(&self, row: &[String]) -> Vec<Vec<String>> {
        let wrapped: Vec<Vec<String>> = row.iter().map(|cell| self.wrapped(cell)).collect();
        let lines = wrapped.iter().map(Vec::len).min().unwrap_or(0);
        (0..lines)
            .map(|line| {
                wrapped
                    .iter()
                    .filter_map(|cell| cell.get(line).cloned())
                    .collect()
            })
            .collect()
    }

    fn wrapped(&self, cell: &str) -> Vec<String> {
        let mut words = cell.split(' ');
        let mut out = words.next().unwrap_or_default().to_owned();
        for word in words {
            let last = out.rsplit('\n').next().unwrap_or_default();
            let next = word.split('\n').next().unwrap_or_default();
            let full = text::width(last) + text::width(next) >= self.width;
            out.push(if full { '\n' } else { ' ' });
            out.push_str(word);
        }
        out.split('\n').map(str::to_owned).collect()
    }

    /// Returns a cell padded to the width. Like Python's `center`, it puts the odd space on the
    /// left if the width is odd.
    fn justified(&self, cell: &str, width: usize) -> String {
        let missing = width.saturating_sub(text::width(cell));
        let left = match self.justify {
            '<' => 0,
            '>' => missing,
            _ => missing / 2 + (missing & width & 1),
        };
        format!("{:left$}{cell}{:right$}", "", "", right = missing - left)
    }

    fn line(&mut self, indent: usize, color: &str, text: &str) {
        let color = if self.how.color { color } else { "" };
        self.lines.push(format!(
            "{:indent$}{color}{text}{}",
            "",
            Color::End.code(self.how.color)
        ));
    }
}

fn cells(row: &Value) -> Result<Vec<String>, Mismatch> {
    match row {
        Value::Map(map) => Ok(text::sorted(map)
            .into_iter()
            .map(|(_, cell)| cell.to_text())
            .collect()),
        Value::Str(cell) => Ok(vec![cell.to_string()]),
        other => {
            let cells = other.as_list().ok_or(Mismatch)?.iter();
            cells
                .map(|cell| cell.as_str().map(str::to_owned).ok_or(Mismatch))
                .collect()
        }
    }
}

/// Returns `str.replace("_", " ").title()`.
fn title(key: &str) -> String {
    let mut start = true;
    let mut out = String::new();
    for c in key.replace('_', " ").chars() {
        if start {
            out.extend(c.to_uppercase());
        } else {
            out.extend(c.to_lowercase());
        }
        start = !c.is_alphabetic();
    }
    out
}
