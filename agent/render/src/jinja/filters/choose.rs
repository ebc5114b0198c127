//! Jinja2's filters that process lists: `map`, `select`, `sort`, `groupby` and similar ones.

use minijinja::value::Kwargs;
use minijinja::{Error, ErrorKind, State, Value};

use super::super::args::{self, Args, items};
use super::super::containers::List;
use super::super::errors::{runtime_error, type_error};
use super::super::{methods, print, strings};
use super::Table;
use super::builtin::{fold, sort_keyed, tuple};

/// The filters of this topic.
pub(super) const FILTERS: Table = &[
    ("join", join),
    ("map", map),
    ("select", |state, a| choose(state, a, false, true)),
    ("reject", |state, a| choose(state, a, false, false)),
    ("selectattr", |state, a| choose(state, a, true, true)),
    ("rejectattr", |state, a| choose(state, a, true, false)),
    ("sort", sort),
    ("groupby", groupby),
    ("sum", sum),
    ("batch", batch),
    ("slice", slice),
];

/// Looks up a path such as `a.b.0` in a value.
fn attribute(value: &Value, path: &Value) -> Result<Value, Error> {
    let Some(path) = path.as_str() else {
        return args::defined(value)?.get_item(path);
    };
    let mut here = value.clone();
    for part in path.split('.') {
        let key = part
            .parse::<i64>()
            .map_or_else(|_| Value::from(part), Value::from);
        here = args::defined(&here)?.get_item(&key)?;
    }
    Ok(here)
}

fn join(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let separator = args.text_or(1, "d", "")?;
    let path = args.at(2, "attribute").filter(|path| !path.is_none());
    let mut out = String::new();
    for (index, item) in items(args.subject()?)?.into_iter().enumerate() {
        let item = path.map_or_else(|| Ok(item.clone()), |path| attribute(&item, path))?;
        if index > 0 {
            out.push_str(&separator);
        }
        out.push_str(&print::str(args::defined(&item)?));
        strings::checked_len(out.len())?;
    }
    Ok(Value::from(out))
}

/// Returns the items of a list; `map`, `select` and similar filters treat every false value as an
/// empty list.
fn items_of(source: &Value) -> Result<Vec<Value>, Error> {
    match args::defined(source)?.is_true() || args::iterable(source) {
        true => items(source),
        false => Ok(Vec::new()),
    }
}

fn map(state: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let source = items_of(args.subject()?)?;
    if let Some(path) = args.named("attribute").filter(|_| args.pos().len() < 2) {
        let default = args.named("default");
        let pick = |item: &Value| match attribute(item, path) {
            Ok(found) if !found.is_undefined() => Ok(found),
            Ok(found) => Ok(default.cloned().unwrap_or(found)),
            Err(error) => default.cloned().ok_or(error),
        };
        return Ok(List::value(
            source.iter().map(pick).collect::<Result<_, _>>()?,
        ));
    }
    let name = args
        .text(1, "filter")
        .map_err(|_| runtime_error("map requires a filter argument"))?;
    let extra = extra(args, 2);
    let mut mapped = Vec::with_capacity(source.len());
    for item in source {
        let values: Vec<Value> = std::iter::once(item).chain(extra.iter().cloned()).collect();
        let filtered = state.apply_filter(&name, &values);
        mapped.push(filtered.map_err(|error| named(error, "filter", &name))?);
    }
    Ok(List::value(mapped))
}

/// Names the unknown filter or test in an error: the engine does not name it when it is called by
/// name.
fn named(error: Error, what: &str, name: &str) -> Error {
    match error.kind() {
        ErrorKind::UnknownFilter | ErrorKind::UnknownTest => {
            runtime_error(format!("No {what} named '{name}'."))
        }
        _ => error,
    }
}

/// Returns the arguments from `index` on, for the filter or test that is called for each item.
fn extra(args: &Args, index: usize) -> Vec<Value> {
    let mut extra = args.rest(index).to_vec();
    if !args.all_named().is_empty() {
        extra.push(Kwargs::from_iter(args.all_named().iter().cloned()).into());
    }
    extra
}

fn choose(
    state: &mut State<'_, '_>,
    args: &Args,
    by_attribute: bool,
    wanted: bool,
) -> Result<Value, Error> {
    let source = args.need(0, "value")?;
    let first = usize::from(by_attribute) + 1;
    let path = if by_attribute {
        Some(args.need(1, "attr")?)
    } else {
        None
    };
    let test = args.at(first, "test").map(print::str);
    let extra = extra(args, first + 1);
    let mut chosen = Vec::new();
    for item in items_of(source)? {
        let tested = path.map_or_else(|| Ok(item.clone()), |path| attribute(&item, path))?;
        let passes = match &test {
            Some(test) => {
                let values: Vec<Value> = std::iter::once(tested)
                    .chain(extra.iter().cloned())
                    .collect();
                let passed = state.perform_test(test, &values);
                passed.map_err(|error| named(error, "test", test))?
            }
            None if tested.is_undefined() => return Err(args::undefined(&tested)),
            None => tested.is_true(),
        };
        if passes == wanted {
            chosen.push(item);
        }
    }
    Ok(List::value(chosen))
}

fn sort(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let reverse = args.flag(1, "reverse", false);
    let sensitive = args.flag(2, "case_sensitive", false);
    let path = args.at(3, "attribute").filter(|path| !path.is_none());
    let mut keyed = Vec::new();
    for item in items(args.subject()?)? {
        keyed.push((sort_key(&item, path, sensitive)?, item));
    }
    sort_keyed(&mut keyed, reverse)?;
    Ok(List::value(
        keyed.into_iter().map(|(_, item)| item).collect(),
    ))
}

fn sort_key(item: &Value, path: Option<&Value>, sensitive: bool) -> Result<Value, Error> {
    match path.map(|path| (path, path.as_str())) {
        None => Ok(fold(item.clone(), sensitive)),
        Some((_, Some(paths))) if paths.contains(',') => {
            let keys = paths
                .split(',')
                .map(|path| Ok(fold(attribute(item, &Value::from(path))?, sensitive)));
            Ok(tuple(keys.collect::<Result<_, Error>>()?))
        }
        Some((path, _)) => Ok(fold(attribute(item, path)?, sensitive)),
    }
}

fn groupby(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let path = args.need(1, "attribute")?;
    let default = args.at(2, "default").filter(|default| !default.is_none());
    let sensitive = args.flag(3, "case_sensitive", false);
    let mut keyed = Vec::new();
    for item in items(args.subject()?)? {
        let key = match (attribute(&item, path)?, default) {
            (key, Some(default)) if key.is_undefined() => default.clone(),
            (key, _) => key,
        };
        keyed.push((key, item));
    }
    let mut sorted: Vec<_> = keyed
        .into_iter()
        .map(|(key, item)| (fold(key.clone(), sensitive), tuple(vec![key, item])))
        .collect();
    sort_keyed(&mut sorted, false)?;
    let mut groups: Vec<(Value, Value, Vec<Value>)> = Vec::new();
    for (folded, pair) in sorted {
        let (key, item) = (pair.get_item_by_index(0)?, pair.get_item_by_index(1)?);
        match groups.last_mut() {
            Some((last, _, group)) if *last == folded => group.push(item),
            _ => groups.push((folded, key, vec![item])),
        }
    }
    Ok(List::value(
        groups
            .into_iter()
            .map(|(_, key, group)| methods::pair(key, List::value(group)))
            .collect(),
    ))
}

fn sum(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let path = args.at(1, "attribute").filter(|path| !path.is_none());
    let mut total = args
        .at(2, "start")
        .cloned()
        .unwrap_or_else(|| Value::from(0));
    for item in items(args.subject()?)? {
        let item = path.map_or_else(|| Ok(item.clone()), |path| attribute(&item, path))?;
        total = plus(&total, &item)?;
    }
    Ok(total)
}

/// Returns Python's `a + b`.
pub(super) fn plus(a: &Value, b: &Value) -> Result<Value, Error> {
    let (a, b) = (args::defined(a)?, args::defined(b)?);
    if let (Ok(a), Ok(b)) = (args::int(a), args::int(b)) {
        return Ok(a
            .checked_add(b)
            .map_or_else(|| Value::from(i128::from(a) + i128::from(b)), Value::from));
    }
    if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
        strings::checked_len(a.len() + b.len())?;
        return Ok(Value::from([a, b].concat()));
    }
    if let (Ok(a), Ok(b)) = (f64::try_from(a.clone()), f64::try_from(b.clone())) {
        return Ok(Value::from(a + b));
    }
    if print::type_name(a) == "list" && print::type_name(b) == "list" {
        return Ok(List::value(
            items(a)?.into_iter().chain(items(b)?).collect(),
        ));
    }
    if a.is_tuple() && b.is_tuple() {
        return Ok(tuple(items(a)?.into_iter().chain(items(b)?).collect()));
    }
    Err(type_error(format!(
        "unsupported operand type(s) for +: '{}' and '{}'",
        print::type_name(a),
        print::type_name(b)
    )))
}

fn count(args: &Args, name: &str) -> Result<usize, Error> {
    usize::try_from(args::int(args.need(1, name)?)?)
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| type_error("the count must be greater than 0"))
}

fn batch(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let size = count(args, "linecount")?;
    let fill = args.at(2, "fill_with").filter(|fill| !fill.is_none());
    let rows = items(args.subject()?)?;
    strings::checked_items(fill.map_or(0, |_| size))?;
    let rows = rows.chunks(size).map(|row| {
        let missing = fill.map_or(0, |_| size - row.len());
        let fill = std::iter::repeat_n(fill.cloned().unwrap_or_default(), missing);
        List::value(row.iter().cloned().chain(fill).collect())
    });
    Ok(List::value(rows.collect()))
}

fn slice(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let slices = count(args, "slices")?;
    let fill = args.at(2, "fill_with").filter(|fill| !fill.is_none());
    let source = items(args.subject()?)?;
    let (each, more) = (source.len() / slices, source.len() % slices);
    let mut rest = source.into_iter();
    let mut columns = Vec::new();
    strings::checked_items(slices)?;
    for index in 0..slices {
        let mut column: Vec<Value> = rest
            .by_ref()
            .take(each + usize::from(index < more))
            .collect();
        if index >= more && more > 0 {
            column.extend(fill.cloned());
        }
        columns.push(List::value(column));
    }
    Ok(List::value(columns))
}
