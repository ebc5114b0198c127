//! Converts high data to low chunks: one for each state of each ID and each of its names.

use value::glob::fnmatch;
use value::{Map, Value};

use super::HighData;
use super::high::{is_dunder, states};
use crate::keys;

/// A chunk that does not run because an administrator has disabled it on this machine
/// (`state.disable`).
#[derive(Clone, Debug)]
pub struct Disabled {
    /// The chunk.
    pub data: Map,
    /// Salt's sentence that says why.
    pub comment: String,
}

/// The chunks of high data, not sorted yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chunks {
    pub(crate) chunks: Vec<Map>,
    pub(crate) disabled: Vec<Disabled>,
}

impl HighData {
    /// Returns the chunks (the first half of Salt's `compile_high_data`). `runs_disabled` are globs
    /// of disabled functions.
    pub(crate) fn chunks(&self, runs_disabled: &[String]) -> Chunks {
        let mut all = Chunks::default();
        for (id, body) in self.map.iter().filter(|(id, _)| !is_dunder(id)) {
            for (state, run) in states(body) {
                let chunk = bare(id, body, state);
                all.state(id, chunk, run, runs_disabled);
            }
        }
        all
    }
}

fn bare(id: &Value, body: &Value, state: &Value) -> Map {
    let mut chunk = Map::with_room(12);
    chunk.insert(&keys::STATE, state.clone());
    chunk.insert(&keys::NAME, id.clone());
    for key in [&keys::SLS, &keys::ENV, &keys::INCLUDED_FROM] {
        if let Some(value) = body.get(key.word()) {
            chunk.insert(key, value.clone());
        }
    }
    chunk.insert(&keys::ID, id.clone());
    chunk
}

impl Chunks {
    fn state(&mut self, id: &Value, mut chunk: Map, run: &Value, runs_disabled: &[String]) {
        let arguments = run.as_list().unwrap_or_default();
        // The map keeps each name only once, and keeps their order.
        let mut names = Map::new();
        for (key, value) in arguments.iter().filter_map(Value::as_map).flatten() {
            match key.as_str() {
                Some("names") => take_names(&mut names, value),
                Some("state") => {}
                Some("name") if value.as_str().is_none() => {
                    chunk.insert("name", id.clone());
                }
                _ => {
                    chunk.insert(key.clone(), value.clone());
                }
            }
        }
        let Some(fun) = arguments
            .iter()
            .find(|argument| argument.as_str().is_some())
        else {
            return;
        };
        if names.is_empty() {
            chunk.insert(&keys::FUN, fun.clone());
            self.push(chunk, runs_disabled);
            return;
        }
        for (place, entry) in names.keys().enumerate() {
            let mut live = named(chunk.clone(), entry);
            live.insert("name_order", place + 1);
            live.insert("fun", fun.clone());
            self.push(live, runs_disabled);
        }
    }

    fn push(&mut self, chunk: Map, runs_disabled: &[String]) {
        if runs_disabled.is_empty() {
            return self.chunks.push(chunk);
        }
        let text = |key| chunk.get(key).map(Value::as_text).unwrap_or_default();
        let function = ["state", "fun"].map(text).join(".");
        match runs_disabled.iter().find(|glob| fnmatch(glob, &function)) {
            Some(glob) => self.disabled.push(Disabled {
                data: chunk,
                comment: format!(
                    "The state function \"{function}\" is currently disabled by \"{glob}\", to re-enable, run state.enable {glob}."
                ),
            }),
            None => self.chunks.push(chunk),
        }
    }
}

fn take_names(names: &mut Map, value: &Value) {
    for name in value.as_list().unwrap_or_default() {
        names.entry(name.clone(), || Value::Null);
    }
}

/// Returns the chunk for one of its names. The entry is a name alone, or a name with additional
/// arguments.
fn named(mut chunk: Map, entry: &Value) -> Map {
    match entry.as_map().and_then(Map::first) {
        None => {
            chunk.insert("name", entry.clone());
        }
        Some((name, arguments)) => {
            chunk.insert("name", name.clone());
            for own in arguments.as_list().into_iter().flatten() {
                if let Some(own) = own.as_map() {
                    chunk.update(own.clone());
                }
            }
        }
    }
    chunk
}
