//! Prints the values of a template as Python does.

use minijinja::Value;
use minijinja::value::ValueKind;
use value::python;

use super::containers::{self, Dict, List, Sort};
use super::strings::TEXT_MAX;
use value::PushFmt;

/// The maximum nesting depth; deeper containers are printed as `{...}` or `[...]`.
const DEPTH_MAX: usize = 100;

/// The ways in which Python prints a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// As `repr`.
    Plain,
    /// As `{{ }}` prints: texts of several lines inside a dictionary are YAML double-quoted
    /// scalars.
    Yaml,
}

/// Returns Python's `str(value)`.
pub(super) fn str(value: &Value) -> String {
    if value.kind() == ValueKind::String {
        return value.as_str().unwrap_or_default().into();
    }
    let mut out = String::new();
    write(&mut out, value, Way::Plain, &mut Vec::new());
    out
}

/// Returns Python's `repr(value)`.
pub(super) fn repr(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, Way::Plain, &mut Vec::new());
    out
}

/// Returns the output of `{{ value }}`.
pub(super) fn emit(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, Way::Yaml, &mut Vec::new());
    out
}

/// Returns the name of the Python type.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value.kind() {
        ValueKind::Undefined => "StrictUndefined",
        ValueKind::None => "NoneType",
        ValueKind::Bool => "bool",
        ValueKind::Number if value.is_integer() => "int",
        ValueKind::Number => "float",
        ValueKind::String => "str",
        ValueKind::Bytes => "bytes",
        ValueKind::Seq if value.is_tuple() => "tuple",
        ValueKind::Seq => value
            .downcast_object_ref::<List>()
            .map_or("list", List::type_name),
        ValueKind::Map => "dict",
        ValueKind::Iterable => "generator",
        _ => "object",
    }
}

/// Returns the name of the value in Jinja2's messages: `dict object`, `None`.
pub(super) fn object_name(value: &Value) -> String {
    match type_name(value) {
        "NoneType" => "None".into(),
        name => format!("{name} object"),
    }
}

/// Appends a value. `open` contains the addresses of the containers around it.
fn write(out: &mut String, value: &Value, way: Way, open: &mut Vec<usize>) {
    // A text of this length is refused anyway.
    if out.len() > TEXT_MAX {
        return;
    }
    match value.kind() {
        ValueKind::Undefined => {}
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number if value.is_integer() => {
            out.push_fmt(format_args!("{value}"));
        }
        ValueKind::Number => out.push_str(
            &f64::try_from(value.clone()).map_or_else(|_| value.to_string(), python::float),
        ),
        ValueKind::String => python::quote(out, value.as_str().unwrap_or_default()),
        ValueKind::Bytes => {
            let bytes = value.as_bytes().unwrap_or_default();
            out.push_str(&python::repr(&value::Value::Bytes(bytes.into())));
        }
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
            let address = containers::address(value);
            if open.len() > DEPTH_MAX || address != 0 && open.contains(&address) {
                let map = value.kind() == ValueKind::Map;
                out.push_str(if map { "{...}" } else { "[...]" });
                return;
            }
            open.push(address);
            match value.kind() {
                ValueKind::Map => write_map(out, value, way, open),
                _ => write_items(out, value, way, open),
            }
            open.pop();
        }
        _ => {
            out.push_fmt(format_args!("{value}"));
        }
    }
}

fn write_items(out: &mut String, value: &Value, way: Way, open_ones: &mut Vec<usize>) {
    let sort = value
        .downcast_object_ref::<List>()
        .map_or(Sort::List, List::sort);
    let empty = value.len() == Some(0);
    let (open, close) = match sort {
        Sort::List if value.is_tuple() && value.len() == Some(1) => ("(", ",)"),
        Sort::List if value.is_tuple() => ("(", ")"),
        Sort::List => ("[", "]"),
        Sort::Set if empty => ("set(", ")"),
        Sort::Set => ("{", "}"),
        Sort::Keys => ("dict_keys([", "])"),
        Sort::Values => ("dict_values([", "])"),
        Sort::Items => ("dict_items([", "])"),
    };
    out.push_str(open);
    for (index, item) in value.try_iter().into_iter().flatten().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write(out, &item, way, open_ones);
    }
    out.push_str(close);
}

fn write_map(out: &mut String, value: &Value, way: Way, open: &mut Vec<usize>) {
    if value.downcast_object_ref::<Dict>().is_none() && is_opaque(value) {
        out.push_fmt(format_args!("{value}"));
        return;
    }
    out.push('{');
    for (index, key) in value.try_iter().into_iter().flatten().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write(out, &key, Way::Plain, open);
        out.push_str(": ");
        let item = value.get_item(&key).unwrap_or_default();
        match item.as_str() {
            Some(text) if way == Way::Yaml && text.contains(['\n', '\r', '\t']) => {
                yaml_quote(out, text);
            }
            _ => write(out, &item, way, open),
        }
    }
    out.push('}');
}

/// True for objects of the engine that look like dictionaries but are not: modules, macros, loops,
/// namespaces.
pub(super) fn is_opaque(value: &Value) -> bool {
    let name = value.as_object().map_or("", |object| object.type_name());
    [
        "Module",
        "Macro",
        "Loop",
        "Namespace",
        "Call",
        "Salt",
        "Cycler",
        "Joiner",
    ]
    .iter()
    .any(|end| name.ends_with(end))
}

/// Appends a YAML double-quoted scalar on one line, in ASCII only.
pub(super) fn yaml_quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '\0' => out.push_str("\\0"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\u{1b}' => out.push_str("\\e"),
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{85}' => out.push_str("\\N"),
            '\u{a0}' => out.push_str("\\_"),
            '\u{2028}' => out.push_str("\\L"),
            '\u{2029}' => out.push_str("\\P"),
            ' '..='~' => out.push(c),
            c => match u32::from(c) {
                code @ 0..=0xff => out.push_fmt(format_args!("\\x{code:02X}")),
                code @ 0x100..=0xffff => out.push_fmt(format_args!("\\u{code:04X}")),
                code => out.push_fmt(format_args!("\\U{code:08X}")),
            },
        }
    }
    out.push('"');
}
