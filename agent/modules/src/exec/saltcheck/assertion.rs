//! The assertions about a return.

use std::cmp::Ordering;

use value::{Map, Value};

/// An assertion about the return of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assertion {
    Equal,
    NotEqual,
    True,
    False,
    In,
    NotIn,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    Empty,
    NotEmpty,
}

use Assertion::{
    Empty, Equal, False, Greater, GreaterEqual, In, Less, LessEqual, NotEmpty, NotEqual, NotIn,
    True,
};

/// The assertions with their names, and the sign of each in the details of a result.
const ALL: [(Assertion, &str, &str); 12] = [
    (Equal, "assertEqual", "=="),
    (NotEqual, "assertNotEqual", "!="),
    (True, "assertTrue", "True is"),
    (False, "assertFalse", "False is"),
    (In, "assertIn", "IN"),
    (NotIn, "assertNotIn", "NOT IN"),
    (Greater, "assertGreater", ">"),
    (GreaterEqual, "assertGreaterEqual", ">="),
    (Less, "assertLess", "<"),
    (LessEqual, "assertLessEqual", "<="),
    (Empty, "assertEmpty", "IS EMPTY"),
    (NotEmpty, "assertNotEmpty", "IS NOT EMPTY"),
];

impl Assertion {
    /// Returns the assertion of this name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let mut all = ALL.iter();
        all.find(|(_, known, _)| *known == name).map(|row| row.0)
    }

    /// Returns the sign of this assertion in the details of a result.
    pub(super) fn sign(self) -> &'static str {
        let mut all = ALL.iter();
        all.find(|(known, ..)| *known == self)
            .map_or("", |row| row.2)
    }

    /// Returns true if this assertion compares the return with another value.
    pub(super) fn compares(self) -> bool {
        !matches!(self, True | False | Empty | NotEmpty)
    }

    /// Returns true if the other value is converted to the type of the return.
    pub(super) fn casts(self) -> bool {
        self.compares() && !matches!(self, In | NotIn)
    }

    /// Checks a return. With `shows`, the reason contains the values.
    ///
    /// # Errors
    /// The reason why the assertion does not hold, in Salt's words.
    pub(super) fn check(
        self,
        expected: &Value,
        returned: &Value,
        shows: bool,
    ) -> Result<(), String> {
        let holds = self.holds(expected, returned)?;
        if holds {
            return Ok(());
        }
        let (left, right) = (expected.as_text(), returned.as_text());
        let compared = |long: &str, short: &str| match shows {
            true => format!("{left} {long} {right}"),
            false => format!("Result {short}"),
        };
        Err(match self {
            Equal => compared("is not equal to", "is not equal"),
            NotEqual => compared("is equal to", "is equal"),
            In => compared("not found in", "not found"),
            NotIn => compared("was found in", "was found"),
            True => format!("{right} not True"),
            False => format!("{} not False", truth(returned).to_text()),
            // Salt's sentence, though it does not fit.
            Greater | GreaterEqual | Less | LessEqual => format!("{right} not False"),
            Empty => format!("{right} is not empty"),
            NotEmpty => "value is empty".to_owned(),
        })
    }

    fn holds(self, expected: &Value, returned: &Value) -> Result<bool, String> {
        Ok(match self {
            Equal => expected == returned,
            NotEqual => expected != returned,
            True => returned.as_bool() == Some(true),
            False => truth(returned).as_bool() == Some(false),
            In => contains(returned, expected)?,
            NotIn => !contains(returned, expected)?,
            Greater => order(">", expected, returned)?.is_gt(),
            GreaterEqual => order(">=", expected, returned)?.is_ge(),
            Less => order("<", expected, returned)?.is_lt(),
            LessEqual => order("<=", expected, returned)?.is_le(),
            Empty => !returned.is_true(),
            NotEmpty => returned.is_true(),
        })
    }
}

/// Returns the truth value of a text, and other values unchanged.
fn truth(returned: &Value) -> Value {
    match returned {
        Value::Str(text) => Value::Bool(!text.is_empty()),
        other => other.clone(),
    }
}

/// Python's `item in container`.
fn contains(container: &Value, item: &Value) -> Result<bool, String> {
    match (container, item) {
        (Value::Str(text), Value::Str(part)) => Ok(text.contains(&**part)),
        (Value::Str(_), other) => Err(format!(
            "'in <string>' requires string as left operand, not {}",
            other.type_name()
        )),
        (Value::List(items) | Value::Tuple(items), item) => Ok(items.contains(item)),
        (Value::Map(map) | Value::Set(map), item) => Ok(map.contains_value(item)),
        (other, _) => Err(format!(
            "argument of type '{}' is not iterable",
            other.type_name()
        )),
    }
}

/// Compares two values in Python's order.
fn order(sign: &str, left: &Value, right: &Value) -> Result<Ordering, String> {
    let is_number = |value: &Value| value.as_float().is_some() || value.as_bool().is_some();
    let has_order = match (left, right) {
        (Value::Str(_), Value::Str(_)) => true,
        (Value::List(_), Value::List(_)) => true,
        (left, right) => is_number(left) && is_number(right),
    };
    if has_order {
        return Ok(left.cmp(right));
    }
    Err(format!(
        "'{sign}' not supported between instances of '{}' and '{}'",
        left.type_name(),
        right.type_name()
    ))
}

/// Converts the expected value to the type of the return, as Python does. A value that cannot be
/// converted is returned unchanged.
pub(super) fn cast(expected: &Value, returned: &Value) -> Value {
    let converted = match returned {
        Value::Bool(_) if expected.as_str() == Some("False") => Some(false.into()),
        Value::Bool(_) => Some(expected.is_true().into()),
        Value::Str(_) => Some(expected.to_text().into()),
        Value::Int(_) | Value::Big(_) => integer(expected),
        Value::Float(_) => float(expected),
        Value::List(_) => items(expected),
        Value::Map(_) => pairs(expected),
        _ => None,
    };
    converted.unwrap_or_else(|| expected.clone())
}

fn integer(value: &Value) -> Option<Value> {
    match value {
        Value::Bool(truth) => Some(i64::from(*truth).into()),
        Value::Float(number) if number.is_finite() => Some((number.trunc() as i64).into()),
        Value::Str(text) => Some(text.trim().replace('_', "").parse::<i64>().ok()?.into()),
        _ => None,
    }
}

fn float(value: &Value) -> Option<Value> {
    match value {
        Value::Bool(truth) => Some(f64::from(u8::from(*truth)).into()),
        Value::Str(text) => Some(text.trim().parse::<f64>().ok()?.into()),
        other => other.as_float().map(Value::from),
    }
}

fn items(value: &Value) -> Option<Value> {
    match value {
        Value::Str(text) => Some(Value::list(text.chars().map(|c| c.to_string().into()))),
        Value::Map(map) => Some(Value::list(map.keys().cloned())),
        _ => None,
    }
}

fn pairs(value: &Value) -> Option<Value> {
    let pair = |item: &Value| match item.as_list()? {
        [key, value] => Some((key.clone(), value.clone())),
        _ => None,
    };
    match value {
        Value::Str(text) if text.is_empty() => Some(Map::new().into()),
        other => other.as_list()?.iter().map(pair).collect::<Option<Value>>(),
    }
}
