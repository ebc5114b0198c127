//! JSON with the options of Python's `json.dumps`.

use state::module::Error;
use value::json::{Layout, write};
use value::{Map, Value};

use super::unknown_option;

/// The layout of the output.
struct Options {
    indent: Option<String>,
    sort_keys: bool,
    ascii: bool,
    item: String,
    key: String,
}

pub(super) fn serialize(data: &Value, given: &Map) -> Result<String, Error> {
    let mut options = Options {
        indent: None,
        sort_keys: false,
        ascii: false,
        item: String::new(),
        key: ": ".into(),
    };
    for (option, value) in given {
        match option.as_str().unwrap_or_default() {
            "indent" => options.indent = indent(value),
            "sort_keys" => options.sort_keys = value.is_true(),
            "ensure_ascii" => options.ascii = value.is_true(),
            "separators" => {
                if let Some([item, key]) = value.as_list() {
                    (options.item, options.key) = (item.to_text(), key.to_text());
                }
            }
            "skipkeys" | "check_circular" | "allow_nan" | "cls" | "default" => {}
            _ => return Err(unknown_option("json", option)),
        }
    }
    if options.item.is_empty() {
        options.item = if options.indent.is_some() { "," } else { ", " }.into();
    }
    let mut out = String::new();
    put(&mut out, data, &options, 0);
    Ok(out)
}

fn indent(value: &Value) -> Option<String> {
    match value {
        Value::Str(text) => Some(text.to_string()),
        Value::Int(count) => Some(" ".repeat(usize::try_from(*count).unwrap_or_default().min(64))),
        _ => None,
    }
}

fn put(out: &mut String, value: &Value, options: &Options, depth: usize) {
    match value {
        Value::List(items) | Value::Tuple(items) => {
            let put_item = |out: &mut String, item: &Value| put(out, item, options, depth + 1);
            put_all(out, ['[', ']'], items.iter(), options, depth, put_item);
        }
        Value::Map(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            if options.sort_keys {
                value::sorted::sort_by(&mut entries, |a, b| a.0.cmp(b.0));
            }
            let put_entry = |out: &mut String, (key, value): (&Value, &Value)| {
                out.push_str(&key_text(key, options));
                out.push_str(&options.key);
                put(out, value, options, depth + 1);
            };
            put_all(
                out,
                ['{', '}'],
                entries.into_iter(),
                options,
                depth,
                put_entry,
            );
        }
        scalar => out.push_str(&write(scalar, layout(options))),
    }
}

fn layout(options: &Options) -> Layout {
    Layout {
        ascii: options.ascii,
        ..Layout::default()
    }
}

fn key_text(key: &Value, options: &Options) -> String {
    let text = match key {
        Value::Null | Value::Bool(_) => write(key, Layout::default()),
        other => other.to_text(),
    };
    write(&text.into(), layout(options))
}

fn put_all<T>(
    out: &mut String,
    [open, close]: [char; 2],
    items: impl ExactSizeIterator<Item = T>,
    options: &Options,
    depth: usize,
    put: impl Fn(&mut String, T),
) {
    let empty = items.len() == 0;
    out.push(open);
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push_str(&options.item);
        }
        new_line(out, options, depth + 1);
        put(out, item);
    }
    if !empty {
        new_line(out, options, depth);
    }
    out.push(close);
}

fn new_line(out: &mut String, options: &Options, depth: usize) {
    if let Some(indent) = &options.indent {
        out.push('\n');
        out.push_str(&indent.repeat(depth));
    }
}

/// Returns Python's error message for a text that is not JSON, in the common cases, else the
/// parser's message.
pub(super) fn problem(text: &str, reader: &str) -> String {
    let trimmed = text.trim_end();
    let at = trimmed.chars().count();
    let line = trimmed.matches('\n').count() + 1;
    let last = trimmed.rsplit('\n').next().unwrap_or_default();
    let column = last.chars().count() + 1;
    let sentence = match trimmed.chars().next_back() {
        None => "Expecting value",
        Some('{') if reader.starts_with("EOF") => {
            "Expecting property name enclosed in double quotes"
        }
        Some('[' | ':') if reader.starts_with("EOF") => "Expecting value",
        _ => return reader.to_owned(),
    };
    format!("{sentence}: line {line} column {column} (char {at})")
}
