//! Python's methods of lists, sets and dictionaries.

use std::cmp::Ordering;
use std::collections::HashSet;

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use super::args::{self, Args};
use super::containers::{Dict, List, Sort, hashable, pairs, place};
use super::errors::{key_error, type_error, value_error};
use super::print;
use super::strings::checked_items;

fn none() -> Value {
    Value::from(())
}

/// Calls a method of a list.
pub(super) fn list(list: &List, method: &str, args: &Args) -> Result<Value, Error> {
    match method {
        "append" => {
            let item = args.need(0, "object")?.clone();
            list.change(|items| items.push(item));
        }
        "extend" => {
            let more = args::items(args.need(0, "iterable")?)?;
            list.change(|items| {
                checked_items(items.len() + more.len())?;
                items.extend(more);
                Ok::<_, Error>(())
            })?;
        }
        "insert" => insert(list, args)?,
        "pop" => return pop(list, args),
        "remove" => {
            let at = position(list, args.need(0, "value")?)
                .ok_or_else(|| value_error("list.remove(x): x not in list"))?;
            list.change(|items| {
                items.remove(at);
            });
        }
        "reverse" => list.change(|items| items.reverse()),
        "clear" => list.change(Vec::clear),
        "sort" => {
            let sorted = sorted(list.snapshot(), args.flag(9, "reverse", false))?;
            list.change(|items| *items = sorted);
        }
        "copy" => return Ok(List::value(list.snapshot())),
        "count" => {
            let wanted = args.need(0, "value")?;
            return Ok(Value::from(
                list.snapshot()
                    .iter()
                    .filter(|item| *item == wanted)
                    .count(),
            ));
        }
        "index" => {
            let wanted = args.need(0, "value")?;
            return position(list, wanted)
                .map(Value::from)
                .ok_or_else(|| value_error(format!("{} is not in list", print::repr(wanted))));
        }
        _ => return Err(Error::from(ErrorKind::UnknownMethod)),
    }
    Ok(none())
}

fn position(list: &List, wanted: &Value) -> Option<usize> {
    list.snapshot().iter().position(|item| item == wanted)
}

fn insert(list: &List, args: &Args) -> Result<(), Error> {
    let index = args::int(args.need(0, "index")?)?;
    let item = args.need(1, "object")?.clone();
    list.change(|items| {
        let len = items.len();
        let from_end = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
        let at = if index < 0 {
            len.saturating_sub(from_end)
        } else {
            from_end.min(len)
        };
        items.insert(at, item);
    });
    Ok(())
}

fn pop(list: &List, args: &Args) -> Result<Value, Error> {
    let index = args.int_or(0, "index", -1)?;
    list.change(|items| {
        if items.is_empty() {
            return Err(value_error("pop from empty list"));
        }
        let at = place(index, items.len()).ok_or_else(|| value_error("pop index out of range"))?;
        Ok(items.remove(at))
    })
}

/// Sorts as Python's `sorted`; values that cannot be compared are an error.
pub(super) fn sorted(mut items: Vec<Value>, reverse: bool) -> Result<Vec<Value>, Error> {
    if let [first, rest @ ..] = items.as_slice() {
        for other in rest {
            comparable(first, other)?;
        }
    }
    if reverse {
        value::sorted::sort_by(&mut items, |a, b| compare(b, a));
    } else {
        value::sorted::sort_by(&mut items, compare);
    }
    Ok(items)
}

/// Compares two values of the same kind in Python's order.
pub(super) fn compare(a: &Value, b: &Value) -> Ordering {
    a.cmp(b)
}

/// True when Python's `<` is defined for the two values.
pub(super) fn ordered(a: &Value, b: &Value) -> bool {
    let family = |value: &Value| match value.kind() {
        ValueKind::Bool | ValueKind::Number => "number",
        ValueKind::Map | ValueKind::None | ValueKind::Plain => "",
        _ => print::type_name(value),
    };
    family(a) == family(b) && !family(a).is_empty()
}

/// Returns Python's error for two values without an order.
pub(super) fn no_order(operator: &str, a: &Value, b: &Value) -> Error {
    type_error(format!(
        "'{operator}' not supported between instances of '{}' and '{}'",
        print::type_name(a),
        print::type_name(b)
    ))
}

/// Returns an error unless the two values can be sorted.
pub(super) fn comparable(a: &Value, b: &Value) -> Result<(), Error> {
    let (a, b) = (args::defined(a)?, args::defined(b)?);
    if ordered(a, b) {
        Ok(())
    } else {
        Err(no_order("<", b, a))
    }
}

/// Calls a method of a set.
pub(super) fn set(set: &List, method: &str, args: &Args) -> Result<Value, Error> {
    let other = || -> Result<Vec<Value>, Error> { args::items(args.need(0, "other")?) };
    let of = |items| Ok(List::with_sort(Sort::Set, items));
    match method {
        "add" => {
            let item = args.need(0, "element")?.clone();
            hashable(&item)?;
            set.change(|items| {
                if !items.contains(&item) {
                    items.push(item);
                }
            });
            Ok(none())
        }
        "discard" | "remove" => {
            let item = args.need(0, "element")?.clone();
            set.change(|items| items.retain(|other| *other != item));
            Ok(none())
        }
        "update" => {
            let joined = unique(set.snapshot().into_iter().chain(other()?));
            set.change(|items| *items = joined);
            Ok(none())
        }
        "union" => of(unique(set.snapshot().into_iter().chain(other()?))),
        "intersection" => {
            let other = Seen::from_items(&other()?);
            of(set
                .snapshot()
                .into_iter()
                .filter(|item| other.has(item))
                .collect())
        }
        "difference" => {
            let other = Seen::from_items(&other()?);
            of(set
                .snapshot()
                .into_iter()
                .filter(|item| !other.has(item))
                .collect())
        }
        "issubset" => {
            let other = Seen::from_items(&other()?);
            Ok(Value::from(
                set.snapshot().iter().all(|item| other.has(item)),
            ))
        }
        "issuperset" => {
            let own = Seen::from_items(&set.snapshot());
            Ok(Value::from(other()?.iter().all(|item| own.has(item))))
        }
        "copy" => of(set.snapshot()),
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

/// Returns the items without duplicates.
pub(super) fn unique(items: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut seen = Seen::default();
    items.into_iter().filter(|item| seen.add(item)).collect()
}

/// A set of values that occurred: texts and whole numbers are found by hash, others by comparing.
#[derive(Default)]
pub(super) struct Seen {
    texts: HashSet<Value>,
    numbers: HashSet<i64>,
    others: Vec<Value>,
}

impl Seen {
    /// Returns a set of these values.
    pub(super) fn from_items(items: &[Value]) -> Self {
        let mut seen = Self::default();
        for item in items {
            seen.add(item);
        }
        seen
    }

    /// Adds a value; returns false if it was present already.
    pub(super) fn add(&mut self, item: &Value) -> bool {
        if self.has(item) {
            return false;
        }
        match as_int(item) {
            Some(number) => {
                self.numbers.insert(number);
            }
            None if item.kind() == ValueKind::String => {
                self.texts.insert(item.clone());
            }
            None => self.others.push(item.clone()),
        }
        true
    }

    /// True when the value is present.
    pub(super) fn has(&self, item: &Value) -> bool {
        match as_int(item) {
            Some(number) => self.numbers.contains(&number),
            None if item.kind() == ValueKind::String => self.texts.contains(item),
            None => self.others.contains(item),
        }
    }
}

/// Returns the whole number that a value equals: in Python, `True == 1 == 1.0`.
fn as_int(value: &Value) -> Option<i64> {
    match value.kind() {
        ValueKind::Bool => Some(i64::from(value.is_true())),
        ValueKind::Number => value.as_i64(),
        _ => None,
    }
}

/// Calls a method of a dictionary.
pub(super) fn dict(dict: &Dict, method: &str, args: &Args) -> Result<Value, Error> {
    match method {
        "get" => {
            let found = dict.get(args.need(0, "key")?);
            Ok(found
                .or_else(|| args.at(1, "default").cloned())
                .unwrap_or_else(none))
        }
        "items" => Ok(List::with_sort(Sort::Items, items(dict))),
        "keys" => Ok(List::with_sort(Sort::Keys, dict.keys())),
        "values" => Ok(List::with_sort(
            Sort::Values,
            dict.pairs().into_iter().map(|(_, item)| item).collect(),
        )),
        "update" => {
            let pairs = pairs(args)?;
            dict.change(|entries| entries.extend(pairs));
            Ok(none())
        }
        "setdefault" => {
            let key = args.need(0, "key")?.clone();
            hashable(&key)?;
            let default = args.at(1, "default").cloned().unwrap_or_else(none);
            Ok(dict.change(|entries| entries.entry(key).or_insert(default).clone()))
        }
        "pop" => {
            let key = args.need(0, "key")?;
            dict.change(|entries| entries.shift_remove(key))
                .or_else(|| args.at(1, "default").cloned())
                .ok_or_else(|| key_error(print::repr(key)))
        }
        "popitem" => dict
            .change(|entries| entries.pop())
            .map(|(key, value)| pair(key, value))
            .ok_or_else(|| key_error("'popitem(): dictionary is empty'")),
        "copy" => Ok(Dict::value(dict.snapshot())),
        "clear" => {
            dict.change(|entries| entries.clear());
            Ok(none())
        }
        "fromkeys" => {
            let value = args.at(1, "value").cloned().unwrap_or_else(none);
            let keys = args::items(args.need(0, "iterable")?)?;
            Ok(Dict::value(
                keys.into_iter().map(|key| (key, value.clone())).collect(),
            ))
        }
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

/// Returns a tuple of two values.
pub(super) fn pair(key: Value, value: Value) -> Value {
    Value::from(Tuple::from([key, value]))
}

/// Returns the entries of a dictionary as tuples.
pub(super) fn items(dict: &Dict) -> Vec<Value> {
    dict.pairs()
        .into_iter()
        .map(|(key, value)| pair(key, value))
        .collect()
}
