//! Finds the differences between two plans.

use machine::accounts::users;
use machine::fs::image;
use value::{Map, PushFmt, Value};

use crate::document::Document;

/// The maximum number of differences that are reported.
const TOLD_MAX: usize = 30;

/// Returns how the current document differs from the plan's, one sentence for each difference. The
/// list is empty if they are the same.
#[must_use]
pub fn moved(planned: &Document, now: &Document) -> Vec<String> {
    let mut all = Vec::new();
    for (of, what) in [
        ("tree", "the tree"),
        ("pillar", "the pillar"),
        ("grains", "the grains"),
    ] {
        parts(what, &planned.parts(of), &now.parts(of), &mut all);
    }
    states(planned.states(), now.states(), &mut all);
    if all.is_empty() && planned.map("summary") != now.map("summary") {
        all.push("the plan's summary does not match its states".into());
    }
    all.truncate(TOLD_MAX);
    all
}

/// Returns the differences of the files that both runs have read.
#[must_use]
pub(crate) fn moved_tree(planned: &Map, now: &Map) -> Vec<String> {
    let both = |map: &Map, other: &Map| -> Map {
        let pairs = map.iter().filter(|(key, _)| other.contains_value(key));
        pairs
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    let mut all = Vec::new();
    parts(
        "the tree",
        &both(planned, now),
        &both(now, planned),
        &mut all,
    );
    all
}

fn parts(what: &str, planned: &Map, now: &Map, all: &mut Vec<String>) {
    for (key, hash) in planned {
        let sentence = match now.get_value(key) {
            Some(same) if same == hash => continue,
            Some(_) => "has changed",
            None => "no longer exists or is no longer used",
        };
        all.push(format!("{what}: {} {sentence}", key.to_text()));
    }
    for key in now.keys().filter(|key| !planned.contains_value(key)) {
        all.push(format!("{what}: {} is new", key.to_text()));
    }
}

fn states(planned: &[Value], now: &[Value], all: &mut Vec<String>) {
    let tag = |state: &Value| state.get("tag").map(Value::to_text).unwrap_or_default();
    for (old, new) in planned.iter().zip(now) {
        if tag(old) != tag(new) {
            all.push(format!(
                "the states: found {} in place of {}",
                tag(new),
                tag(old)
            ));
            return;
        }
        if old != new {
            state(old, new, all);
        }
    }
    if planned.len() != now.len() {
        all.push(format!(
            "the states: there are {} instead of {}",
            now.len(),
            planned.len()
        ));
    }
}

/// Adds the differences of one state.
fn state(old: &Value, new: &Value, all: &mut Vec<String>) {
    let text = |key: &str| old.get(key).map(Value::to_text).unwrap_or_default();
    let called = format!("{} ({})", text("id"), text("function"));
    let before = all.len();
    for key in ["files", "sources"] {
        images(&called, old.get(key), new.get(key), all);
    }
    if all.len() > before {
        return;
    }
    for key in ["low", "outcome", "changes", "comment"] {
        if old.get(key) != new.get(key) {
            let shown = |state: &Value| state.get(key).map(Value::to_text).unwrap_or_default();
            all.push(match key {
                "low" => format!("{called}: its arguments have changed"),
                _ => format!(
                    "{called}: its {key} was planned as {} and is now {}",
                    shown(old),
                    shown(new)
                ),
            });
            return;
        }
    }
    all.push(format!("{called}: it would make other changes"));
}

fn images(called: &str, old: Option<&Value>, new: Option<&Value>, all: &mut Vec<String>) {
    let list = |value: Option<&Value>| value.and_then(Value::as_list).unwrap_or_default().to_vec();
    let (old, new) = (list(old), list(new));
    for file in &old {
        let path = file.get("path");
        let now = new.iter().find(|new| new.get("path") == path);
        let path = path.map(Value::to_text).unwrap_or_default();
        let then = |file: &Value| file.get("then").cloned();
        match now {
            None => all.push(format!("{called}: it no longer uses {path}")),
            Some(now) if now.get("now") != file.get("now") => {
                let what = differing(file.get("now"), now.get("now"));
                all.push(format!("{called}: {path} {what}"));
            }
            Some(now) if then(now) != then(file) => {
                all.push(format!("{called}: {path} would get other contents"));
            }
            Some(_) => {}
        }
    }
}

/// Describes the differences between two descriptions of a path, as a sentence about it: `has
/// changed: mode was 0644 when planned and is 0600`.
pub(crate) fn differing(old: Option<&Value>, new: Option<&Value>) -> String {
    let empty = Map::new();
    let old = old.and_then(Value::as_map).unwrap_or(&empty);
    let new = new.and_then(Value::as_map).unwrap_or(&empty);
    match (image::kind(old), image::kind(new)) {
        ("absent", is) if is != "absent" => {
            return format!("did not exist when planned; now {}", description(new));
        }
        (was, "absent") if was != "absent" => {
            return format!(
                "was {} when planned; now it does not exist",
                description(old)
            );
        }
        (was, is) if was != is => {
            let (was, is) = (description(old), description(new));
            return format!("was {was} when planned; now {is}");
        }
        _ => {}
    }
    let mut keys: Vec<&Value> = old.keys().collect();
    keys.extend(new.keys().filter(|key| !old.contains_value(key)));
    let mut all = Vec::new();
    for key in keys {
        let (was, is) = (old.get_value(key), new.get_value(key));
        if was != is {
            all.push(match key.as_str() {
                Some("sha256") => "other contents".to_owned(),
                _ => {
                    let name = key.to_text();
                    let (was, is) = (property(&name, was), property(&name, is));
                    format!("{name} was {was} when planned and is {is}")
                }
            });
        }
    }
    format!("has changed: {}", all.join(", "))
}

/// Describes a path: `a file 0644 root:root, 13 bytes`.
fn description(image: &Map) -> String {
    let kind = match image::kind(image) {
        "directory" => "a directory",
        "file" => "a file",
        "symlink" => "a link",
        other => other,
    };
    let mut text = kind.to_owned();
    let is_there = |key: &str| image.get(key).is_some_and(|value| !value.is_null());
    if is_there("mode") && kind != "a link" {
        text.push_fmt(format_args!(" {}", property("mode", image.get("mode"))));
    }
    if is_there("uid") && is_there("gid") {
        let (user, group) = ("uid", "gid");
        let [user, group] = [user, group].map(|key| property(key, image.get(key)));
        text.push_fmt(format_args!(" {user}:{group}"));
    }
    match (image.get("target"), image.get("size")) {
        (Some(target), _) if is_there("target") => {
            text.push_fmt(format_args!(" to {}", target.to_text()));
        }
        (_, Some(size)) if kind == "a file" => {
            text.push_fmt(format_args!(", {} bytes", size.to_text()));
        }
        _ => {}
    }
    text
}

/// Returns a property of a path as people write it: owners by name.
fn property(key: &str, value: Option<&Value>) -> String {
    let id = value
        .and_then(Value::as_int)
        .and_then(|id| u32::try_from(id).ok());
    match (key, value, id) {
        ("uid", _, Some(id)) => users::of_uid(id).to_text(),
        ("gid", _, Some(id)) => users::of_gid(id).to_text(),
        (_, Some(value), _) => value.to_text(),
        (_, None, _) => "none".to_owned(),
    }
}
