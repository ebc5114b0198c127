//! Python's `Markup`: a text that needs no escaping, and that escapes values inserted into it.

use indexmap::IndexMap;
use minijinja::Value;
use minijinja::value::{Tuple, ValueKind};

use super::args::Args;
use super::containers::Dict;
use super::{filters, print};

/// Returns a value as safe text: it is escaped unless it is safe already.
pub(super) fn escaped(value: &Value) -> Value {
    match value.is_safe() {
        true => value.clone(),
        false => Value::from_safe_string(filters::escaped(&print::str(value))),
    }
}

/// Returns a value that may be inserted into a safe text: numbers, truth values and undefined
/// values unchanged, everything else as safe text.
fn guarded(value: &Value) -> Value {
    match value.kind() {
        ValueKind::Number | ValueKind::Bool | ValueKind::Undefined => value.clone(),
        _ => escaped(value),
    }
}

/// Returns the values of `text % values`: escaped for a safe text, unchanged for any other.
pub(super) fn values(text: &Value, values: &Value) -> Value {
    if !text.is_safe() {
        return values.clone();
    }
    if let Some(dict) = values.downcast_object_ref::<Dict>() {
        let pairs = dict.pairs().into_iter();
        let pairs: IndexMap<_, _> = pairs.map(|(key, item)| (key, guarded(&item))).collect();
        return Dict::value(pairs);
    }
    match values.try_iter() {
        Ok(items) if values.is_tuple() => Value::from(Tuple::from(
            items.map(|item| guarded(&item)).collect::<Vec<_>>(),
        )),
        _ => guarded(values),
    }
}

/// Returns the arguments of `text.format(…)` for a safe text.
pub(super) fn arguments(args: &Args) -> Args {
    args.mapped(guarded)
}

/// Returns a text that was made from another one; it is safe if that one is.
pub(super) fn inherit_safety(text: &Value, made: String) -> Value {
    match text.is_safe() {
        true => Value::from_safe_string(made),
        false => Value::from(made),
    }
}
