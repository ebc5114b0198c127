//! The `nested` outputter: what most functions print with.

use value::{Value, python};

use super::Output;
use super::color::Color;
use super::text;

/// Lays a value out, every line indented by at least `indent`.
pub(crate) fn output(value: &Value, how: &Output, indent: usize, retcode: i64) -> String {
    let mut display = Display {
        how,
        failed: retcode != 0,
        lines: Vec::new(),
    };
    display.put(value, indent, "");
    display.lines.join("\n")
}

struct Display<'a> {
    how: &'a Output,
    failed: bool,
    lines: Vec<String>,
}

impl Display<'_> {
    fn put(&mut self, value: &Value, indent: usize, prefix: &str) {
        match value {
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Big(_) | Value::Float(_) => {
                self.line(indent, Color::LightYellow, prefix, &python::repr(value));
            }
            Value::Str(words) => self.put_text(words, indent, prefix),
            Value::Bytes(bytes) => {
                if let Ok(words) = std::str::from_utf8(bytes) {
                    self.put_text(words, indent, prefix);
                }
            }
            Value::List(items) | Value::Tuple(items) => self.put_items(items, indent),
            Value::Map(map) => {
                let color = self.frame(Color::Cyan);
                if indent > 0 {
                    self.line(indent, color, "", "----------");
                }
                for (key, value) in text::sorted(map) {
                    self.line(indent, color, prefix, &key.to_text());
                    if let Some(line) = self.lines.last_mut() {
                        line.push(':');
                    }
                    self.put(value, indent + 4, "");
                }
            }
            // Salt shows nothing of a set.
            Value::Set(_) => {}
        }
    }

    fn put_text(&mut self, words: &str, indent: usize, prefix: &str) {
        let mut prefix = prefix.to_owned();
        for line in text::splitlines(words) {
            let line = if self.how.strip_colors {
                text::without_escapes(line)
            } else {
                line.to_owned()
            };
            self.line(indent, Color::Green, &prefix, &line);
            prefix = " ".repeat(text::width(&prefix));
        }
    }

    fn put_items(&mut self, items: &[Value], indent: usize) {
        for item in items {
            match item {
                Value::List(_) | Value::Tuple(_) | Value::Map(_) => {
                    self.line(indent, self.frame(Color::Green), "", "|_");
                    let prefix = if item.as_map().is_some() { "" } else { "- " };
                    self.put(item, indent + 2, prefix);
                }
                _ => self.put(item, indent, "- "),
            }
        }
    }

    /// The colour of rules and keys: red when the call failed.
    fn frame(&self, color: Color) -> Color {
        if self.failed { Color::Red } else { color }
    }

    fn line(&mut self, indent: usize, color: Color, prefix: &str, text: &str) {
        let (start, end) = (color.code(self.how.color), Color::End.code(self.how.color));
        self.lines
            .push(format!("{:indent$}{start}{prefix}{text}{end}", ""));
    }
}
