//! The filter `attr`: returns a method of a value, to be called later.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, ValueKind};
use minijinja::{Error, State, Value};

use super::args::Args;
use super::containers::{Dict, List, Sort};
use super::{errors, print};

const OF_DICT: &[&str] = &[
    "clear",
    "copy",
    "fromkeys",
    "get",
    "items",
    "keys",
    "pop",
    "popitem",
    "setdefault",
    "update",
    "values",
];
const OF_LIST: &[&str] = &[
    "append", "clear", "copy", "count", "extend", "index", "insert", "pop", "remove", "reverse",
    "sort",
];
const OF_SET: &[&str] = &[
    "add",
    "copy",
    "difference",
    "discard",
    "intersection",
    "issubset",
    "issuperset",
    "remove",
    "union",
    "update",
];
const OF_TUPLE: &[&str] = &["count", "index"];
const OF_TEXT: &[&str] = &[
    "capitalize",
    "casefold",
    "center",
    "count",
    "encode",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "translate",
    "upper",
    "zfill",
];

/// A method that is bound to a value.
struct Bound {
    value: Value,
    name: String,
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = print::type_name(&self.value);
        write!(f, "<built-in method {} of {of} object>", self.name)
    }
}

impl Object for Bound {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        self.value.call_method(state, &self.name, args)
    }
}

/// Returns an attribute as Python's `getattr`, which does not look up the keys of a dictionary.
pub(super) fn attr(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let value = args.subject()?;
    let name = args.text(1, "name")?;
    let Some(methods) = methods(value) else {
        return value.get_item(args.need(1, "name")?);
    };
    if !methods.contains(&name.as_str()) {
        errors::note_miss("dict object", &Value::from(name.as_str()));
        return Ok(Value::UNDEFINED);
    }
    let value = value.clone();
    Ok(Value::from_object(Bound { value, name }))
}

/// Returns the methods of a value of one of Python's own types; `None` for an object of the
/// template.
fn methods(value: &Value) -> Option<&'static [&'static str]> {
    if value.downcast_object_ref::<Dict>().is_some() {
        return Some(OF_DICT);
    }
    if let Some(list) = value.downcast_object_ref::<List>() {
        return Some(match list.sort() {
            Sort::List => OF_LIST,
            Sort::Set => OF_SET,
            _ => &[],
        });
    }
    match value.kind() {
        ValueKind::String => Some(OF_TEXT),
        ValueKind::Seq if value.is_tuple() => Some(OF_TUPLE),
        _ => None,
    }
}
