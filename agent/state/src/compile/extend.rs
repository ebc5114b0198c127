//! Merges `extend`, and the extensions that `*_in` requisites produce, into the IDs that they name.

use std::collections::HashMap;

use value::{Map, Value};

use super::high::{first_key, is_dunder, is_requisite, states};
use super::hint::did_you_mean;
use super::{Fault, HighData};

/// The paths of the declarations that caused extensions, by ID, for extensions that are not below
/// `extend:`.
pub(crate) type Origins = HashMap<Value, Vec<Value>>;

impl HighData {
    /// Merges the extensions (Salt's `reconcile_extend`). If `strict`, not only the ID must exist,
    /// but also the state.
    pub(crate) fn extend(&mut self, strict: bool, origins: &Origins) -> Vec<Fault> {
        let Some(extensions) = self.map.remove("__extend__") else {
            return Vec::new();
        };
        let excluded = excluded_sls(&self.map);
        let mut names = Names::default();
        let mut faults = Vec::new();
        for (id, body) in extensions
            .as_list()
            .into_iter()
            .flatten()
            .filter_map(Value::as_map)
            .flatten()
        {
            match self.target(&mut names, strict, id, body) {
                Some(target) => {
                    if !body
                        .get("__sls__")
                        .is_some_and(|sls| excluded.contains(sls))
                    {
                        lay_over(&mut self.map, &mut names, &target, body);
                    }
                }
                None => faults.push(self.unknown(id, body, origins)),
            }
        }
        faults
    }

    /// Returns the ID that an extension names: by the ID itself, or by a unique argument value that
    /// equals it.
    fn target(&self, names: &mut Names, strict: bool, id: &Value, body: &Value) -> Option<Value> {
        let (state, _) = states(body).next()?;
        let here = self.map.get_value(id).and_then(Value::as_map);
        if here.is_some_and(|here| !strict || here.contains_value(state)) {
            return Some(id.clone());
        }
        match names.find(&self.map, id, state).as_slice() {
            [(only, _)] => Some(only.clone()),
            _ => None,
        }
    }

    fn unknown(&self, id: &Value, body: &Value, origins: &Origins) -> Fault {
        let word = |key| {
            body.get(key)
                .map_or_else(|| "base".to_owned(), Value::to_text)
        };
        let (name, env, sls) = (id.to_text(), word("__env__"), word("__sls__"));
        let text = format!(
            "Cannot extend ID '{name}' in '{env}:{sls}'. It is not part of the high state.\nThis is likely due to a missing include statement or an incorrectly typed ID.\nEnsure that a state with an ID of '{name}' is available\nin environment '{env}' and to SLS '{sls}'"
        );
        let written = [Value::from("extend"), id.clone()];
        let path = origins.get(id).map_or(written.as_slice(), Vec::as_slice);
        let known = self.map.keys().filter_map(Value::as_str);
        self.documents
            .fault(text, &env, &sls, path)
            .hint(did_you_mean(&name, known))
    }
}

fn excluded_sls(high: &Map) -> Vec<Value> {
    let excludes = high.get("__exclude__").and_then(Value::as_list);
    let sls = |item: &Value| match item {
        Value::Str(_) => Some(item.clone()),
        _ => item.get("sls").filter(|sls| sls.is_true()).cloned(),
    };
    excludes
        .unwrap_or_default()
        .iter()
        .filter_map(sls)
        .collect()
}

fn lay_over(high: &mut Map, names: &mut Names, target: &Value, body: &Value) {
    let Some(here) = high.get_value_mut(target).and_then(Value::as_map_mut) else {
        return;
    };
    for (state, run) in states(body) {
        match here.get_value_mut(state) {
            None => {
                here.insert(state.clone(), run.clone());
            }
            Some(arguments) => {
                for argument in run.as_list().unwrap_or_default() {
                    lay_argument(arguments, argument);
                }
            }
        }
        names.note(target, state, run);
    }
}

/// Merges one argument of an extension. It replaces an argument of the same name. Requisites are
/// appended to those of the same kind. Any other argument is added.
fn lay_argument(arguments: &mut Value, argument: &Value) {
    let Some(arguments) = arguments.as_list_mut() else {
        return;
    };
    let first = first_key(argument).cloned();
    let mut found = false;
    for here in arguments.iter_mut() {
        if argument.as_str().is_some() && here.as_str().is_some() {
            *here = argument.clone();
            found = true;
        }
        let (Some(first), Some(own)) = (&first, first_key(here).cloned()) else {
            continue;
        };
        if *first == own {
            lay_option(here, first, argument);
            found = true;
        }
        if first.as_str() == Some("name") && own.as_str() == Some("names") {
            *here = argument.clone();
        }
    }
    if !found {
        arguments.push(argument.clone());
    }
}

fn lay_option(here: &mut Value, key: &Value, argument: &Value) {
    let added = argument.as_map().and_then(|map| map.get_value(key));
    if key.as_str().is_some_and(is_requisite) {
        let list = here.as_map_mut().and_then(|map| map.get_value_mut(key));
        if let (Some(list), Some(added)) = (
            list.and_then(Value::as_list_mut),
            added.and_then(Value::as_list),
        ) {
            list.extend(added.iter().cloned());
            return;
        }
    }
    *here = argument.clone();
}

/// Finds IDs by the values of their arguments (Salt's `find_name`). The index is built on first
/// use.
#[derive(Default)]
pub(crate) struct Names {
    index: Option<HashMap<Value, Vec<(Value, Value)>>>,
}

impl Names {
    /// Returns the IDs with this state that have `name` as the value of an argument. If `state` is
    /// `sls`, returns all IDs of that SLS.
    pub(crate) fn find(&mut self, high: &Map, name: &Value, state: &Value) -> Vec<(Value, Value)> {
        if state.as_str() == Some("sls") {
            let of_sls = |(id, body): (&Value, &Value)| {
                let (state, _) = body.as_map()?.first()?;
                (body.get("__sls__") == Some(name)).then(|| (id.clone(), state.clone()))
            };
            return high.iter().filter_map(of_sls).collect();
        }
        let index = self.index.get_or_insert_with(|| index(high));
        let named = index.get(name).map(Vec::as_slice).unwrap_or_default();
        named
            .iter()
            .filter(|(_, of)| of == state)
            .cloned()
            .collect()
    }

    /// Adds an extended state to the index.
    fn note(&mut self, id: &Value, state: &Value, arguments: &Value) {
        if let Some(index) = &mut self.index {
            take_in(index, id, state, arguments);
        }
    }
}

fn index(high: &Map) -> HashMap<Value, Vec<(Value, Value)>> {
    let mut index = HashMap::new();
    for (id, body) in high.iter().filter(|(id, _)| !is_dunder(id)) {
        for (state, arguments) in states(body) {
            take_in(&mut index, id, state, arguments);
        }
    }
    index
}

fn take_in(
    index: &mut HashMap<Value, Vec<(Value, Value)>>,
    id: &Value,
    state: &Value,
    arguments: &Value,
) {
    let single = |argument: &Value| {
        let map = argument.as_map().filter(|map| map.len() == 1)?;
        map.first().map(|(_, value)| value.clone())
    };
    let values = arguments.as_list().into_iter().flatten().filter_map(single);
    for value in values.filter(|value| matches!(value, Value::Str(_) | Value::Int(_))) {
        index
            .entry(value)
            .or_default()
            .push((id.clone(), state.clone()));
    }
}

/// Returns the names of the arguments of a state of an ID (Salt's `state_args`).
pub(crate) fn argument_names(arguments: &Value) -> Vec<Value> {
    let single = |argument: &Value| {
        let map = argument.as_map().filter(|map| map.len() == 1)?;
        map.first().map(|(key, _)| key.clone())
    };
    arguments
        .as_list()
        .into_iter()
        .flatten()
        .filter_map(single)
        .collect()
}
