//! The tests after `is`, as in Jinja2 and Salt.

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, State, Value, tests as engine};

use super::args::{self, Args};
use super::containers::{Dict, List};
use super::errors::type_error;
use super::filters::regex;
use super::{methods, print};

type Test = fn(&mut State<'_, '_>, &Args) -> Result<bool, Error>;

/// Adds the tests to an environment.
pub(super) fn add(env: &mut Environment<'static>) {
    add_engines(env);
    for (name, test) in TESTS {
        let test = *test;
        env.add_test(
            *name,
            move |state: &mut State<'_, '_>, values: Rest<ValueOrKwargs>| {
                test(state, &Args::new(&values.into_values())?)
            },
        );
    }
}

/// Adds the tests of the engine that are the same as Jinja2's.
fn add_engines(env: &mut Environment<'static>) {
    env.add_test("defined", engine::is_defined);
    env.add_test("undefined", engine::is_undefined);
    env.add_test("escaped", engine::is_safe);
    env.add_test("sameas", engine::is_sameas);
    env.add_test("filter", engine::is_filter);
    env.add_test("test", engine::is_test);
    for (name, test) in ["eq", "=="].map(|name| (name, engine::is_eq)) {
        env.add_test(name, test);
    }
    for (name, test) in ["ne", "!="].map(|name| (name, engine::is_ne)) {
        env.add_test(name, test);
    }
    for (name, test) in ["le", "<="].map(|name| (name, engine::is_le)) {
        env.add_test(name, test);
    }
    for (name, test) in ["ge", ">="].map(|name| (name, engine::is_ge)) {
        env.add_test(name, test);
    }
}

const TESTS: &[(&str, Test)] = &[
    ("match", regex::is_match),
    ("equalto", |_, a| {
        Ok(a.subject()? == args::defined(a.need(1, "other")?)?)
    }),
    ("list", |_, a| Ok(print::type_name(a.tested()?) == "list")),
    ("mapping", |_, a| {
        Ok(a.tested()?.kind() == ValueKind::Map && !print::is_opaque(a.tested()?))
    }),
    ("sequence", |_, a| Ok(is_sequence(a.tested()?))),
    ("iterable", |_, a| Ok(args::iterable(a.subject()?))),
    ("string", |_, a| Ok(a.tested()?.as_str().is_some())),
    ("number", |_, a| {
        Ok(matches!(
            a.tested()?.kind(),
            ValueKind::Number | ValueKind::Bool
        ))
    }),
    ("integer", |_, a| Ok(a.tested()?.is_integer())),
    ("float", |_, a| Ok(print::type_name(a.tested()?) == "float")),
    ("boolean", |_, a| Ok(a.tested()?.kind() == ValueKind::Bool)),
    ("true", |_, a| {
        Ok(a.tested()?.kind() == ValueKind::Bool && a.tested()?.is_true())
    }),
    ("false", |_, a| {
        Ok(a.tested()?.kind() == ValueKind::Bool && !a.tested()?.is_true())
    }),
    ("none", |_, a| Ok(a.tested()?.is_none())),
    ("callable", |_, a| Ok(is_callable(a.tested()?))),
    ("in", |_, a| contains(a.need(1, "seq")?, a.subject()?)),
    // The engine's own test divides by zero.
    ("divisibleby", |_, a| {
        let (number, by) = (args::int(a.subject()?)?, args::int(a.need(1, "num")?)?);
        let rest = number.checked_rem(by);
        if by == 0 {
            return Err(type_error("integer modulo by zero"));
        }
        Ok(rest.unwrap_or(0) == 0)
    }),
    (
        "odd",
        |_, a| Ok(args::int(a.subject()?)?.rem_euclid(2) == 1),
    ),
    ("even", |_, a| {
        Ok(args::int(a.subject()?)?.rem_euclid(2) == 0)
    }),
    ("upper", |_, a| {
        Ok(cased(
            &a.text(0, "value")?,
            char::is_uppercase,
            char::is_lowercase,
        ))
    }),
    ("lower", |_, a| {
        Ok(cased(
            &a.text(0, "value")?,
            char::is_lowercase,
            char::is_uppercase,
        ))
    }),
    ("escaped", |_, a| Ok(a.tested()?.is_safe())),
    ("lt", |_, a| less(a.subject()?, a.need(1, "other")?)),
    ("lessthan", |_, a| less(a.subject()?, a.need(1, "other")?)),
    ("<", |_, a| less(a.subject()?, a.need(1, "other")?)),
    ("gt", |_, a| less(a.need(1, "other")?, a.subject()?)),
    ("greaterthan", |_, a| {
        less(a.need(1, "other")?, a.subject()?)
    }),
    (">", |_, a| less(a.need(1, "other")?, a.subject()?)),
];

fn less(a: &Value, b: &Value) -> Result<bool, Error> {
    methods::comparable(b, a)?;
    Ok(methods::compare(a, b).is_lt())
}

fn is_sequence(value: &Value) -> bool {
    value.as_str().is_some()
        || matches!(value.kind(), ValueKind::Seq)
        || (value.kind() == ValueKind::Map && !print::is_opaque(value))
}

fn is_callable(value: &Value) -> bool {
    let name = value.as_object().map_or("", |object| object.type_name());
    // In Python, Jinja's undefined value is callable; the call then raises the error.
    if value.is_undefined() {
        return true;
    }
    value.as_object().is_some()
        && value.downcast_object_ref::<List>().is_none()
        && value.downcast_object_ref::<Dict>().is_none()
        && (matches!(value.kind(), ValueKind::Plain) || name.ends_with("Macro"))
}

/// Returns Python's `item in container`.
pub(super) fn contains(container: &Value, item: &Value) -> Result<bool, Error> {
    let container = args::defined(container)?;
    if let Some(text) = container.as_str() {
        return Ok(text.contains(&print::str(args::defined(item)?)));
    }
    if let Some(dict) = container.downcast_object_ref::<Dict>() {
        return Ok(dict.get(item).is_some());
    }
    Ok(args::items(container)?.contains(item))
}

fn cased(text: &str, is: fn(char) -> bool, is_not: fn(char) -> bool) -> bool {
    text.chars().any(is) && !text.chars().any(is_not)
}

/// The filter `__compare`: a chain of comparisons such as `a < b == c`.
pub(super) fn chain(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let mut left = args.subject()?;
    let mut rest = args.rest(1);
    while let [operator, right, after @ ..] = rest {
        let right = args::defined(right)?;
        let operator = operator.as_str().unwrap_or_default();
        let order = || -> Result<_, Error> {
            if !methods::ordered(left, right) {
                return Err(methods::no_order(operator, left, right));
            }
            Ok(methods::compare(left, right))
        };
        let holds = match operator {
            "<" => order()?.is_lt(),
            "<=" => order()?.is_le(),
            ">" => order()?.is_gt(),
            ">=" => order()?.is_ge(),
            "==" => left == right,
            "!=" => left != right,
            "in" => contains(right, left)?,
            _ => !contains(right, left)?,
        };
        if !holds {
            return Ok(Value::from(false));
        }
        left = right;
        rest = after;
    }
    Ok(Value::from(true))
}
