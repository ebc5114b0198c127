//! Filters that convert values to and from YAML, JSON and Python's own notation.

use minijinja::{Error, State, Value};
use value::json::{self, Layout};

use super::super::args::{self, Args};
use super::super::containers::{Dict, List, from_value, to_value};
use super::super::errors::{runtime_error, type_error};
use super::super::{nesting, print};
use super::{Table, pretty, xml};
use crate::yaml;

/// The filters of this topic.
pub(super) const FILTERS: Table = &[
    ("yaml", |_, a| {
        unless_undefined(a, |value| to_yaml(value, a.flag(1, "flow_style", true)))
    }),
    ("json", |_, a| {
        unless_undefined(a, |value| to_json(value, a))
    }),
    ("tojson", |_, a| {
        unless_undefined(a, |value| to_script_json(value, a))
    }),
    ("python", |_, a| {
        unless_undefined(a, |value| {
            nesting::checked(value)?;
            Ok(Value::from(pretty::pretty(value).trim()))
        })
    }),
    ("xml", |_, a| unless_undefined(a, xml::write)),
    ("load_yaml", |_, a| unless_undefined(a, from_yaml)),
    ("load_json", |_, a| unless_undefined(a, from_json)),
    ("load_text", |_, a| {
        unless_undefined(a, |value| {
            Ok(text_of(value).map_or_else(|| value.clone(), Value::from))
        })
    }),
    ("dict_to_sls_yaml_params", |_, a| {
        unless_undefined(a, |value| parameters(value, a.flag(1, "flow_style", false)))
    }),
    ("yaml_dquote", |_, a| {
        let mut out = String::new();
        print::yaml_quote(&mut out, &a.text(0, "text")?);
        Ok(Value::from(out))
    }),
    ("yaml_squote", |_, a| {
        Ok(Value::from(single_quoted(&a.text(0, "text")?)))
    }),
    ("yaml_encode", yaml_encode),
];

/// Applies a filter unless the value is undefined. As with Salt's own filters, an undefined value
/// stays undefined until it is printed.
fn unless_undefined(
    args: &Args,
    filter: impl FnOnce(&Value) -> Result<Value, Error>,
) -> Result<Value, Error> {
    let value = args.need(0, "value")?;
    if value.is_undefined() {
        Ok(value.clone())
    } else {
        filter(value)
    }
}

/// Returns the contents of a text or of an imported template, without the marks of `trace`.
fn text_of(value: &Value) -> Option<String> {
    let is_module = value
        .as_object()
        .is_some_and(|object| object.type_name().ends_with("Module"));
    match value.as_str() {
        Some(text) => Some(super::super::trace::unmarked(text)),
        None if is_module => Some(super::super::trace::unmarked(&value.to_string())),
        None => None,
    }
}

fn to_yaml(value: &Value, flow: bool) -> Result<Value, Error> {
    let text =
        yaml::filter(&to_value(value)?, flow).map_err(|error| type_error(error.to_string()))?;
    Ok(Value::from(text))
}

fn to_json(value: &Value, args: &Args) -> Result<Value, Error> {
    let layout = Layout {
        indent: indent(args, 2)?,
        sort_keys: args.flag(1, "sort_keys", true),
        ascii: false,
    };
    Ok(Value::from(json::write(&to_value(value)?, layout)))
}

fn indent(args: &Args, index: usize) -> Result<Option<usize>, Error> {
    let given = args.at(index, "indent").filter(|indent| !indent.is_none());
    given
        .map(|indent| Ok(usize::try_from(args::int(indent)?).unwrap_or(0).min(80)))
        .transpose()
}

fn to_script_json(value: &Value, args: &Args) -> Result<Value, Error> {
    let sort_keys = args.named("sort_keys").is_some_and(Value::is_true);
    let ascii = args.named("ensure_ascii").is_none_or(Value::is_true);
    let layout = Layout {
        indent: indent(args, 1)?,
        sort_keys,
        ascii,
    };
    let text = json::write(&to_value(value)?, layout);
    let text = text
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\'', "\\u0027");
    Ok(Value::from(text))
}

fn from_yaml(value: &Value) -> Result<Value, Error> {
    let Some(text) = text_of(value) else {
        return Err(runtime_error(format!(
            "Unable to load yaml from {}",
            print::str(value)
        )));
    };
    let loaded = yaml::load(&text)
        .map_err(|error| runtime_error(format!("Encountered error loading yaml: {error}")))?;
    Ok(from_value(&loaded))
}

fn from_json(value: &Value) -> Result<Value, Error> {
    let fail = || runtime_error(format!("Unable to load json from {}", print::str(value)));
    let loaded = json::read(&text_of(value).ok_or_else(fail)?).map_err(|_| fail())?;
    Ok(from_value(&loaded))
}

fn parameters(value: &Value, flow: bool) -> Result<Value, Error> {
    let dict = value.downcast_object_ref::<Dict>().ok_or_else(|| {
        type_error(format!(
            "'{}' object has no attribute 'items'",
            print::type_name(value)
        ))
    })?;
    let single = |(key, value)| Dict::value([(key, value)].into_iter().collect());
    to_yaml(
        &List::value(dict.snapshot().into_iter().map(single).collect()),
        flow,
    )
}

fn single_quoted(text: &str) -> String {
    let mut out = String::from("'");
    let mut breaking = false;
    for c in text.chars() {
        match c {
            // Inside single quotes, a newline is written as an additional empty line.
            '\n' if !breaking => out.push_str("\n\n"),
            '\'' => out.push_str("''"),
            c => out.push(c),
        }
        breaking = c == '\n';
    }
    out.push('\'');
    out
}

/// Writes a scalar as YAML.
fn yaml_encode(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let value = args.subject()?;
    if let Some(text) = value.as_str() {
        let mut out = String::new();
        print::yaml_quote(&mut out, text);
        return Ok(Value::from(out));
    }
    match print::type_name(value) {
        "int" | "bool" | "float" | "NoneType" => to_yaml(value, true),
        name => Err(type_error(format!(
            "yaml_encode() only works with YAML scalar data; failed for <class '{name}'>"
        ))),
    }
}
