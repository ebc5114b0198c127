//! Masks secrets in everything that leaves the program: outputs, logs, records and plans. Secrets
//! are registered here where they first appear, and all output passes through [`text`] or
//! [`value`].
//!
//! A text of [`LENGTH_MIN`] characters or more is found anywhere, also inside a longer text. It is
//! found line by line if it has several, in the escapes of JSON, YAML, Python, shells and URLs, and
//! in base64. Shorter texts, and values that are not texts, would be found by chance everywhere.
//! They are masked only at their own path, by the keys above them. In a program without secrets, a
//! check only reads a static that is not set.

mod forms;
mod marks;
mod needles;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::{OnceLock, PoisonError, RwLock};

use crate::{Map, Value, log};
use marks::Marks;
use needles::Needles;

/// The text that replaces a secret.
pub const MASK: &str = "‹secret›";

/// The minimum number of characters of a secret that is searched for inside other texts.
pub const LENGTH_MIN: usize = 6;

/// The minimum number of digits of a number that is searched for as a text is.
const DIGITS_MIN: usize = 8;

/// The maximum number of secrets. If there are more, an error is logged, and only the first ones
/// are masked.
const KEPT_MAX: usize = 200_000;

/// Words that are in every return and log line. If a secret equals one of them, it is masked only
/// at its own path: otherwise outputs would become unreadable.
const EVERYWHERE: [&str; 16] = [
    "changes",
    "comment",
    "duration",
    "fun_args",
    "highstate",
    "local",
    "minion",
    "name",
    "outputter",
    "result",
    "retcode",
    "return",
    "salt-call",
    "secret",
    "start_time",
    "success",
];

/// The registered secrets and the keys of others.
#[derive(Default)]
struct RegisteredSecrets {
    needles: Needles,
    marks: Marks,
    is_full: bool,
}

static KNOWN: OnceLock<RwLock<RegisteredSecrets>> = OnceLock::new();

thread_local! {
    static HUSHED: Cell<bool> = const { Cell::new(false) };
}

/// True when there is anything to mask.
#[must_use]
pub fn is_any() -> bool {
    KNOWN.get().is_some()
}

fn with_known<T>(look: impl FnOnce(&RegisteredSecrets) -> T) -> Option<T> {
    let known = KNOWN.get()?;
    Some(look(&known.read().unwrap_or_else(PoisonError::into_inner)))
}

fn change(change: impl FnOnce(&mut RegisteredSecrets)) {
    let known = KNOWN.get_or_init(RwLock::default);
    change(&mut known.write().unwrap_or_else(PoisonError::into_inner));
}

/// Registers the option `secret_keys`: names of keys, or paths of keys joined by colons, with
/// globs.
pub fn name_keys(patterns: &Value) {
    for pattern in patterns.texts() {
        let parts: Vec<String> = pattern.split(':').map(str::to_owned).collect();
        let is_new = with_known(|known| !known.marks.has_pattern(&parts)).unwrap_or(true);
        if is_new && !pattern.is_empty() {
            change(|known| known.marks.add_pattern(parts));
        }
    }
}

/// Registers every text in a value as a secret. `path` is the path of the value; texts that are too
/// short to search for are masked only there.
pub fn keep(path: &[&str], value: &Value) {
    match value {
        Value::Map(map) | Value::Set(map) => {
            for (key, value) in map {
                keep(&[path, &[&*key.as_text()]].concat(), value);
            }
        }
        Value::List(items) | Value::Tuple(items) => items.iter().for_each(|item| keep(path, item)),
        leaf if !is_coverable(leaf) => {}
        leaf => keep_leaf(path, leaf),
    }
}

fn keep_leaf(path: &[&str], leaf: &Value) {
    let text = text_of(leaf);
    let text = text.trim();
    let least = if matches!(leaf, Value::Str(_) | Value::Bytes(_)) {
        LENGTH_MIN
    } else {
        DIGITS_MIN
    };
    let is_long = text.chars().nth(least - 1).is_some() && !EVERYWHERE.contains(&text);
    let is_known = with_known(|known| match is_long {
        true => known.needles.has(text),
        false => path.is_empty() || known.marks.has_place(path),
    });
    if is_known == Some(true) || !is_long && path.is_empty() {
        return;
    }
    change(|known| match is_long {
        true if known.needles.len() >= KEPT_MAX => known.is_full = true,
        true => known.needles.add(text),
        false => known.marks.add_place(path),
    });
    tell_full();
}

/// Logs once that there are too many secrets.
fn tell_full() {
    static TOLD: OnceLock<()> = OnceLock::new();
    if with_known(|known| known.is_full) == Some(true) && TOLD.set(()).is_ok() {
        log::error(format_args!(
            "More than {KEPT_MAX} secrets are registered: further ones are not masked in output and logs. Restart this program to forget old ones"
        ));
    }
}

/// Registers the values of keys that `secret_keys` names.
pub fn note(map: &Map) {
    if with_known(|known| known.marks.has_patterns()) == Some(true) {
        note_below(&mut Vec::new(), map);
    }
}

fn note_below<'a>(path: &mut Vec<&'a str>, map: &'a Map) {
    for (key, value) in map {
        path.push(key.as_str().unwrap_or_default());
        if with_known(|known| known.marks.names(path)) == Some(true) {
            keep(&[], value);
        } else {
            note_in(path, value);
        }
        path.pop();
    }
}

fn note_in<'a>(path: &mut Vec<&'a str>, value: &'a Value) {
    match value {
        Value::Map(map) => note_below(path, map),
        Value::List(items) | Value::Tuple(items) => {
            items.iter().for_each(|item| note_in(path, item));
        }
        _ => {}
    }
}

/// Returns false for `None`, truth values and empty texts, which reveal nothing.
fn is_coverable(leaf: &Value) -> bool {
    match leaf {
        Value::Null | Value::Bool(_) => false,
        Value::Str(text) => !text.is_empty(),
        Value::Bytes(bytes) => !bytes.is_empty(),
        _ => true,
    }
}

fn text_of(leaf: &Value) -> Cow<'_, str> {
    match leaf {
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes),
        leaf => leaf.as_text(),
    }
}

/// True when a text contains a known secret.
#[must_use]
pub fn is_in(text: &str) -> bool {
    is_any() && self::text(text) != text
}

/// Returns a text with its secrets masked.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    with_known(|known| known.needles.masked(text))
        .flatten()
        .map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Returns a value with its secrets masked.
#[must_use]
pub fn value(value: &Value) -> Value {
    at(&[], value)
}

/// Like [`value`], for a value at this path.
#[must_use]
pub fn at(path: &[&str], value: &Value) -> Value {
    let masked = with_known(|known| {
        let mut path = path.to_vec();
        match known.marks.covers(&path) {
            true => covered(value),
            false => known.masked(&mut path, value),
        }
    });
    masked.flatten().unwrap_or_else(|| value.clone())
}

/// True when a value contains a known secret.
#[must_use]
pub fn holds(value: &Value) -> bool {
    is_any() && self::value(value) != *value
}

/// True when a value contains a masked secret.
#[must_use]
pub fn is_masked(value: &Value) -> bool {
    match value {
        Value::Map(map) => map
            .iter()
            .any(|(key, value)| is_masked(key) || is_masked(value)),
        Value::List(items) => items.iter().any(is_masked),
        leaf => leaf.as_str().is_some_and(|text| text.contains(MASK)),
    }
}

/// Returns a dictionary with its secrets masked.
#[must_use]
pub fn map(map: Map) -> Map {
    if !is_any() {
        return map;
    }
    match value(&Value::Map(map)) {
        Value::Map(map) => map,
        _ => Map::new(),
    }
}

impl RegisteredSecrets {
    /// Returns the value with its secrets masked; `None` if it contains none.
    fn masked<'a>(&self, path: &mut Vec<&'a str>, value: &'a Value) -> Option<Value> {
        match value {
            Value::Str(text) => self.needles.masked(text).map(Value::from),
            Value::Map(map) => self.masked_map(path, map).map(Value::Map),
            Value::Set(map) => self.masked_map(path, map).map(Value::Set),
            Value::List(items) => self.masked_items(path, items).map(Value::list),
            Value::Tuple(items) => {
                let items = self.masked_items(path, items)?;
                Some(Value::Tuple(items.into()))
            }
            Value::Bytes(bytes) => {
                let text = String::from_utf8_lossy(bytes);
                self.needles.masked(&text).map(Value::from)
            }
            Value::Int(_) | Value::Big(_) => {
                let digits = value.to_text();
                self.needles.has(&digits).then(|| MASK.into())
            }
            Value::Null | Value::Bool(_) | Value::Float(_) => None,
        }
    }

    fn masked_items<'a>(&self, path: &mut Vec<&'a str>, items: &'a [Value]) -> Option<Vec<Value>> {
        let mut masked: Option<Vec<Value>> = None;
        for (at, item) in items.iter().enumerate() {
            if let Some(new) = self.masked(path, item)
                && let Some(place) = masked.get_or_insert_with(|| items.to_vec()).get_mut(at)
            {
                *place = new;
            }
        }
        masked
    }

    /// Numbers keys that become equal by masking, so that no entry is lost.
    fn masked_map<'a>(&self, path: &mut Vec<&'a str>, map: &'a Map) -> Option<Map> {
        let mut is_changed = false;
        let mut masked = Map::with_room(map.len());
        for (key, value) in map {
            path.push(key.as_str().unwrap_or_default());
            let new = match self.marks.covers(path) {
                true => covered(value),
                false => self.masked(path, value),
            };
            path.pop();
            let new_key = key.as_str().and_then(|key| self.needles.masked(key));
            is_changed |= new.is_some() || new_key.is_some();
            let new = new.unwrap_or_else(|| value.clone());
            match new_key {
                Some(text) => masked.insert(unused(text, |name| masked.contains(name)), new),
                None => masked.insert(key.clone(), new),
            };
        }
        is_changed.then_some(masked)
    }
}

/// Returns the text, or, if it is in use already, one with a number in its mask.
#[must_use]
pub fn unused(text: String, is_used: impl Fn(&str) -> bool) -> String {
    let counted = |count: usize| text.replacen(MASK, &format!("‹secret {count}›"), 1);
    match is_used(&text) {
        false => text,
        true => (2..)
            .map(counted)
            .find(|text| !is_used(text))
            .unwrap_or_default(),
    }
}

/// Masks every value below a secret's key; `None` if the value reveals nothing.
fn covered(value: &Value) -> Option<Value> {
    match value {
        Value::Map(map) => {
            let entries = map.iter();
            let entries = entries.map(|(key, value)| {
                let new = covered(value).unwrap_or_else(|| value.clone());
                (key.clone(), new)
            });
            Some(Value::Map(entries.collect()))
        }
        Value::List(items) | Value::Tuple(items) => {
            let items = items.iter();
            Some(Value::list(
                items.map(|item| covered(item).unwrap_or_else(|| item.clone())),
            ))
        }
        leaf => is_coverable(leaf).then(|| MASK.into()),
    }
}

/// Returns the data that another program needs to mask the secrets of a value: the secrets in it,
/// and the paths of short ones.
#[must_use]
pub fn marks(value: &Value) -> Value {
    let found = with_known(|known| {
        let mut texts = Vec::new();
        known.needles.found_in(value, &mut texts);
        let texts = texts.into_iter().map(|text| Value::from(&*text));
        texts
            .chain(known.marks.found_in(value))
            .collect::<Vec<Value>>()
    });
    match found.unwrap_or_default() {
        found if found.is_empty() => Value::Null,
        found => found.into(),
    }
}

/// Registers the secrets from [`marks()`] of another program. Entries of a kind that this version
/// does not know are ignored.
pub fn learn(marks: &Value) {
    for mark in marks.as_list().unwrap_or_default() {
        match mark {
            Value::Str(_) => keep(&[], mark),
            Value::List(keys) => {
                let keys: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
                change(|known| known.marks.add_place(&keys));
            }
            _ => {}
        }
    }
}

/// A guard: while it exists, messages that this thread logs are masked as a whole, because a state
/// has `no_log`.
#[derive(Debug)]
pub struct MaskGuard {
    before: bool,
}

/// Masks the messages that this thread logs, if `on`, until the returned guard is dropped.
#[must_use]
pub fn mask_logs(on: bool) -> MaskGuard {
    MaskGuard {
        before: HUSHED.replace(on || HUSHED.get()),
    }
}

impl Drop for MaskGuard {
    fn drop(&mut self) {
        HUSHED.set(self.before);
    }
}

/// The keys of an event's data that contain its payload, as opposed to its origin and reason.
const TOLD: [&str; 8] = [
    "arg", "args", "data", "fun_args", "kwarg", "kwargs", "ret", "return",
];

/// Returns an event's data with its secrets masked; for a state with `no_log` the whole payload is
/// masked and only the origin remains.
#[must_use]
pub fn event(data: Map) -> Map {
    let mut data = map(data);
    for key in TOLD.iter().filter(|_| is_hushed()) {
        if let Some(value) = data.get_mut(key)
            && let Some(new) = covered(value)
        {
            *value = new;
        }
    }
    data
}

/// True when this thread's messages are masked as a whole.
#[must_use]
pub fn is_hushed() -> bool {
    HUSHED.get()
}
