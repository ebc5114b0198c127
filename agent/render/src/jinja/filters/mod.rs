//! The filters of Jinja2 and Salt, by topic. A new filter is a function and a line in the table of
//! its topic.

use minijinja::value::{Rest, ValueOrKwargs};
use minijinja::{Environment, Error, State, Value};

use super::args::{self, Args};
use super::{PLAIN, containers, format, macros, print, strings, sums, tests};

mod builtin;
mod choose;
mod data;
mod dates;
mod dicts;
mod files;
mod hashing;
mod lists;
mod network;
mod pretty;
mod random;
pub(super) mod regex;
mod serialize;
mod text;
mod urlize;
mod xml;

pub(super) use data::traverse;

/// A filter or a function.
pub(super) type Filter = fn(&mut State<'_, '_>, &Args) -> Result<Value, Error>;

/// The filters of a topic, by name.
type Table = &'static [(&'static str, Filter)];

/// Adds the filters to an environment.
pub(super) fn add(env: &mut Environment<'static>) {
    let tables: [Table; 14] = [
        REWRITTEN,
        builtin::FILTERS,
        choose::FILTERS,
        data::FILTERS,
        dates::FILTERS,
        dicts::FILTERS,
        files::FILTERS,
        hashing::FILTERS,
        lists::FILTERS,
        network::FILTERS,
        random::FILTERS,
        regex::FILTERS,
        serialize::FILTERS,
        text::FILTERS,
    ];
    for (name, filter) in tables.into_iter().flatten() {
        let filter = *filter;
        env.add_filter(
            *name,
            move |state: &mut State<'_, '_>, values: Rest<ValueOrKwargs>| {
                filter(state, &Args::new(&values.into_values())?)
            },
        );
    }
}

/// Adds a function to an environment.
pub(super) fn add_function(env: &mut Environment<'static>, name: &'static str, function: Filter) {
    env.add_function(
        name,
        move |state: &mut State<'_, '_>, values: Rest<ValueOrKwargs>| {
            function(state, &Args::new(&values.into_values())?)
        },
    );
}

/// The filters that `rewrite` inserts into templates.
const REWRITTEN: Table = &[
    ("__m", |_, a| {
        containers::mutable(a.need(0, "value")?.clone())
    }),
    ("__iter", |_, a| {
        let value = a.need(0, "value")?;
        if value.is_undefined() || args::iterable(value) {
            return Ok(value.clone());
        }
        Err(args::not_iterable(value))
    }),
    ("__add", |_, a| {
        sums::add(a.need(0, "left")?, a.need(1, "right")?)
    }),
    ("__cat", concat),
    ("__compare", tests::chain),
    ("__mod", format::modulo),
    ("__macro", macros::open),
    ("__seen", |_, a| Ok(a.need(0, "value")?.clone())),
    ("__plain", |_, a| {
        let name = a.subject()?;
        Ok(name.as_str().map_or_else(
            || name.clone(),
            |path| Value::from(format!("{PLAIN}{path}")),
        ))
    }),
];

/// Returns a text with HTML's special characters escaped.
pub(super) fn escaped(text: &str) -> String {
    builtin::escaped(text)
}

/// Evaluates `a ~ b ~ c`.
fn concat(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let mut out = String::new();
    for value in args.pos() {
        let value = args::defined(value)?;
        match value.as_str() {
            Some(text) => out.push_str(text),
            None => out.push_str(&print::str(value)),
        }
        strings::checked_len(out.len())?;
    }
    Ok(Value::from(out))
}
