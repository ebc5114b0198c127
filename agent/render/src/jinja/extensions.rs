//! The filters, tests and globals of custom modules that a template, or one that it imports,
//! mentions.

use std::sync::Arc;

use minijinja::value::{Rest, ValueOrKwargs};
use minijinja::{Environment, Error, State, Value};
use value::Map;

use super::args::{self, Args};
use super::containers::{from_value, to_value};
use super::errors::fault;
use super::shared::Functions;
use super::{Shared, join};
use crate::{Extension, Kind};

/// The maximum number of templates that are searched for names.
const TEMPLATES_MAX: usize = 64;

/// Adds the extensions to the environment of one rendering. As in Salt, they replace built-in ones
/// of the same name.
pub(super) fn add(environment: &mut Environment<'static>, shared: &Arc<Shared>) {
    let host = &shared.functions.host;
    let mut names: Vec<String> = vec![shared.root.clone()];
    let mut at = 0;
    while let Some(name) = names.get(at).cloned() {
        at += 1;
        let Some(source) = shared.find(&name) else {
            continue;
        };
        let Some(mentioned) = host.extensions(&source) else {
            return;
        };
        for (kind, name) in mentioned {
            put(environment, kind, name, &shared.functions);
        }
        for import in imports(&source) {
            let path = join(import, &name, &shared.root, &shared.dir);
            if names.len() < TEMPLATES_MAX && !names.contains(&path) {
                names.push(path);
            }
        }
    }
}

/// Returns the paths that are string literals after `import`, `from`, `include` and `extends`.
fn imports(source: &str) -> impl Iterator<Item = &str> {
    let words = ["import", "from", "include", "extends"];
    source.split("{%").skip(1).filter_map(move |tag| {
        let tag = tag.trim_start_matches(['-', '+']).trim_start();
        let rest = words.iter().find_map(|word| tag.strip_prefix(word))?;
        let rest = rest.trim_start();
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        rest.get(1..)?.split(quote).next()
    })
}

fn put(
    environment: &mut Environment<'static>,
    kind: Extension,
    name: String,
    functions: &Arc<Functions>,
) {
    let (functions, called) = (Arc::clone(functions), name.clone());
    let call = move |_: &mut State<'_, '_>, values: Rest<ValueOrKwargs>| {
        call(
            &functions,
            kind,
            &called,
            &Args::new(&values.into_values())?,
        )
    };
    match kind {
        Extension::Filter => environment.add_filter(name, call),
        Extension::Test => {
            environment.add_test(
                name,
                move |state: &mut State<'_, '_>, values: Rest<ValueOrKwargs>| {
                    call(state, values).map(|value| value.is_true())
                },
            );
        }
        Extension::Global => environment.add_function(name, call),
    }
}

fn call(functions: &Functions, kind: Extension, name: &str, given: &Args) -> Result<Value, Error> {
    functions.give_back();
    let argument = |value: &Value| to_value(args::defined(value)?);
    let positional = given.pos().iter().map(argument).collect::<Result<_, _>>()?;
    let mut named = Map::new();
    for (key, value) in given.all_named() {
        named.insert(key.as_str(), argument(value)?);
    }
    let answer = functions.host.extension(kind, name, positional, named);
    answer
        .map(|answer| from_value(&answer))
        .map_err(|sentence| fault(Kind::Jinja, sentence))
}
