//! The operator `+`, whose resulting lists share their common items.

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use super::containers::List;
use super::{args, markup, strings};

/// Returns `a + b` for values that can be added.
///
/// # Errors
/// The engine's message if they cannot be added: `errors` translates it to Python's.
pub(super) fn add(a: &Value, b: &Value) -> Result<Value, Error> {
    if let Some(list) = a.downcast_object_ref::<List>()
        && is_sequence(b)
    {
        return list.and(args::items(b)?);
    }
    let (a, b) = (args::defined(a)?, args::defined(b)?);
    match (a.kind(), b.kind()) {
        (ValueKind::String, ValueKind::String) => texts(a, b),
        (ValueKind::Seq, ValueKind::Seq) if a.is_tuple() && b.is_tuple() => {
            Ok(Value::from(Tuple::from(joined(a, b)?)))
        }
        _ if is_sequence(a) && is_sequence(b) => Ok(List::value(joined(a, b)?)),
        _ => numbers(a, b).unwrap_or_else(|| Err(impossible(a, b))),
    }
}

fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) && !value.is_tuple()
}

fn joined(a: &Value, b: &Value) -> Result<Vec<Value>, Error> {
    let mut items = args::items(a)?;
    items.extend(args::items(b)?);
    strings::checked_items(items.len())?;
    Ok(items)
}

fn texts(a: &Value, b: &Value) -> Result<Value, Error> {
    let is_safe = a.is_safe() || b.is_safe();
    let (a, b) = match is_safe {
        true => (markup::escaped(a), markup::escaped(b)),
        false => (a.clone(), b.clone()),
    };
    let (a, b) = (
        a.as_str().unwrap_or_default(),
        b.as_str().unwrap_or_default(),
    );
    strings::checked_len(a.len() + b.len())?;
    let made = [a, b].concat();
    Ok(match is_safe {
        true => Value::from_safe_string(made),
        false => Value::from(made),
    })
}

/// Returns the sum of two numbers; `None` if one of them is not a number.
fn numbers(a: &Value, b: &Value) -> Option<Result<Value, Error>> {
    let is_number = |value: &Value| matches!(value.kind(), ValueKind::Number | ValueKind::Bool);
    if !is_number(a) || !is_number(b) {
        return None;
    }
    let whole = |value: &Value| i128::try_from(value.clone()).ok();
    let is_whole = |value: &Value| value.kind() == ValueKind::Bool || value.is_integer();
    if is_whole(a) && is_whole(b) {
        return Some(match whole(a)?.checked_add(whole(b)?) {
            Some(sum) => Ok(i64::try_from(sum).map_or_else(|_| Value::from(sum), Value::from)),
            None => Err(failed(format!("unable to calculate {a} + {b}"))),
        });
    }
    let float = |value: &Value| match value.kind() {
        ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        _ => f64::try_from(value.clone()).ok(),
    };
    Some(Ok(Value::from(float(a)? + float(b)?)))
}

fn impossible(a: &Value, b: &Value) -> Error {
    let (a, b) = (a.kind(), b.kind());
    failed(format!(
        "tried to use + operator on unsupported types {a} and {b}"
    ))
}

fn failed(detail: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, detail)
}
