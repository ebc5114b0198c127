//! Formats the plan of an undo for people and as data.

use std::path::Path;

use machine::fs::SHOWN_BYTES_MAX;
use machine::fs::image::{self, Image};
use python::difflib;
use state::opts::Opts;
use state::record;
use value::read::or_log;
use value::{Map, PushFmt, Value};

use crate::changes::format_value;
use crate::plan::{Item, Plan};

/// The version of the data format.
const VERSION: i64 = 1;

/// Returns a plan as data: `version`, `jid`, `steps`, `cannot`, `moved`, `cut_short`.
#[must_use]
pub fn data(opts: &Opts, plan: &Plan) -> Map {
    let kept = record::kept(&record::folder(opts).join(&plan.jid));
    let steps = plan.items.iter().map(|one| item(one, Some(&kept)));
    let cannot = plan.cannot.iter().map(|(name, why)| {
        Map::new()
            .with("name", name.as_str())
            .with("why", why.as_str())
    });
    Map::new()
        .with("version", VERSION)
        .with("jid", plan.jid.as_str())
        .with("cut_short", plan.cut_short)
        .with("steps", Value::list(steps.map(Value::Map)))
        .with("cannot", Value::list(cannot.map(Value::Map)))
        .with("moved", plan.moved.clone())
}

/// Returns an item as data. With the folder of kept contents, it includes the diff of a text.
pub(crate) fn item(item: &Item, kept: Option<&Path>) -> Map {
    match item {
        Item::Resource(thing, now) => {
            let entry = Map::new()
                .with("do", thing.word.as_str())
                .with("name", thing.name.as_str())
                .with("now", now.clone())
                .with("then", thing.was.clone())
                .with("by", thing.by.clone());
            match (kept, now, &thing.was) {
                (Some(_), Value::Str(is), Value::Str(was)) if is_text(is) || is_text(was) => {
                    entry.with("diff", difflib::of_files(is.as_bytes(), was.as_bytes()))
                }
                _ => entry,
            }
        }
        Item::PathChange(place, now) => {
            let goal = place.goal();
            let path = place.path.display().to_string();
            let entry = Map::new()
                .with("do", verb(now, &goal))
                .with("path", path)
                .with("now", now.clone());
            let mut entry = entry
                .with("then", goal.clone())
                .with("by", place.by.clone());
            let told = kept
                .filter(|_| place.is_whole())
                .and_then(|kept| difference(&place.path, now, &goal, kept));
            if let Some(told) = told {
                entry.insert("diff", told);
            }
            entry
        }
    }
}

/// Returns whether a value is shown as a diff.
fn is_text(value: &str) -> bool {
    value.contains('\n')
}

/// Returns the verb for what happens to a path.
fn verb(now: &Image, goal: &Image) -> &'static str {
    match (image::kind(now), image::kind(goal)) {
        (_, "absent") => "remove",
        ("absent", _) => "create",
        (is, was) if is == was && !goal.contains("sha256") && !goal.contains("target") => "set",
        _ => "restore",
    }
}

/// Returns the diff between a file and its kept contents.
fn difference(path: &Path, now: &Image, goal: &Image, kept: &Path) -> Option<String> {
    let small = |image: &Image| {
        let size = image.get("size").and_then(Value::as_int);
        image::kind(image) == "file"
            && size
                .is_some_and(|size| u64::try_from(size).is_ok_and(|size| size <= SHOWN_BYTES_MAX))
    };
    if !small(now) || !small(goal) {
        return None;
    }
    let hash = goal.get("sha256").map(Value::to_text)?;
    let kept = kept.join(hash);
    let is = or_log(path, std::fs::read(path))?;
    let was = or_log(&kept, std::fs::read(&kept))?;
    let told = difflib::of_files(&is, &was);
    (!told.is_empty()).then_some(told)
}

/// Describes an item in one line.
pub(crate) fn line(one: &Item) -> String {
    match one {
        Item::Resource(thing, now) => resource(&thing.title(), now, &thing.was),
        Item::PathChange(place, now) => {
            let goal = place.goal();
            let path = place.path.display();
            let what = match verb(now, &goal) {
                "remove" => format!("{} is removed", image::kind(now)),
                "create" => format!(
                    "{} is created again{}",
                    image::kind(&goal),
                    target_or_size(&goal)
                ),
                _ if image::kind(now) != image::kind(&goal) => {
                    format!(
                        "{} becomes {} again{}",
                        image::kind(now),
                        image::kind(&goal),
                        target_or_size(&goal)
                    )
                }
                _ => changed(now, &goal),
            };
            format!("{path}: {what}")
        }
    }
}

/// Describes what happens to a resource. A resource that does not exist is false or an empty text.
fn resource(title: &str, now: &Value, was: &Value) -> String {
    let details = |value: &Value| match details(value) {
        details if details.is_empty() => String::new(),
        details => format!(" ({details})"),
    };
    match (now, was) {
        (Value::Bool(_), Value::Bool(_)) => format!("{title}: {} -> {}", word(now), word(was)),
        _ if is_text(&now.to_text()) || is_text(&was.to_text()) => {
            format!("{title}: its text is restored")
        }
        _ if !was.is_true() => format!("{title}{} is removed", details(now)),
        _ if !now.is_true() => format!("{title}{} is created again", details(was)),
        (Value::Map(now), Value::Map(was)) => {
            let keys = was
                .iter()
                .filter(|(key, was)| now.get_value(key) != Some(was));
            let all = keys.map(|(key, was)| {
                let now = now.get_value(key).unwrap_or(&Value::Null);
                format!("{} {} -> {}", key.to_text(), word(now), word(was))
            });
            format!("{title}: {}", all.collect::<Vec<_>>().join(", "))
        }
        _ => format!("{title}: {} -> {}", word(now), word(was)),
    }
}

/// Returns the properties of a resource in words: `uid 1002, shell /bin/sh`.
fn details(value: &Value) -> String {
    let Some(map) = value.as_map() else {
        return word(value);
    };
    let all = map.iter().filter(|(_, value)| value.is_true());
    let all = all.map(|(key, value)| format!("{} {}", key.to_text(), word(value)));
    all.collect::<Vec<_>>().join(", ")
}

/// Returns a value in words, not in Python's form.
fn word(value: &Value) -> String {
    match value {
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Null => "none".to_owned(),
        Value::List(items) if items.is_empty() => "none".to_owned(),
        Value::List(items) => items.iter().map(word).collect::<Vec<_>>().join(" "),
        Value::Map(_) => details(value),
        Value::Str(text) if text.is_empty() => "none".to_owned(),
        value => value.to_text(),
    }
}

/// Returns the mark in front of the line of an item.
fn mark(one: &Item) -> char {
    match one {
        Item::Resource(thing, now) => match (now, &thing.was) {
            // A service is switched, and a text is changed.
            (Value::Bool(_), Value::Bool(_)) => '~',
            (now, was) if is_text(&now.to_text()) || is_text(&was.to_text()) => '~',
            (_, was) if !was.is_true() => '-',
            (now, _) if !now.is_true() => '+',
            _ => '~',
        },
        Item::PathChange(place, now) => match verb(now, &place.goal()) {
            "remove" => '-',
            "create" => '+',
            _ => '~',
        },
    }
}

/// Returns the target or size of a path to be restored.
fn target_or_size(goal: &Image) -> String {
    match (goal.get("target"), goal.get("size")) {
        (Some(target), _) => format!(" (to {})", target.to_text()),
        (_, Some(size)) => format!(" ({} bytes)", size.to_text()),
        _ => String::new(),
    }
}

/// Describes what changes on a path that keeps its kind.
fn changed(now: &Image, goal: &Image) -> String {
    let mut all = Vec::new();
    if goal.contains("sha256") {
        all.push("its contents are restored".to_owned());
    }
    for key in ["target", "mode", "uid", "gid"] {
        if let Some(was) = goal.get(key).filter(|was| now.get(key) != Some(was)) {
            all.push(format!(
                "{key} {} -> {}",
                format_value(key, now.get(key)),
                format_value(key, Some(was))
            ));
        }
    }
    if goal.contains("times") {
        all.push("its times are restored".to_owned());
    }
    all.join(", ")
}

/// Formats a plan for people.
#[must_use]
pub fn format_plan(opts: &Opts, plan: &Plan) -> String {
    let kept = record::kept(&record::folder(opts).join(&plan.jid));
    let mut out = String::new();
    for one in &plan.items {
        let entry = item(one, Some(&kept));
        out.push_fmt(format_args!("{} {}\n", mark(one), line(one)));
        let told = entry.get("diff").map(Value::to_text).unwrap_or_default();
        let lines = told
            .lines()
            .filter(|line| !matches!(line.trim_end(), "---" | "+++"));
        for line in lines {
            out.push_fmt(format_args!("    {line}\n"));
        }
    }
    for (name, why) in &plan.cannot {
        out.push_fmt(format_args!("! {name}: {why}\n"));
    }
    if plan.cut_short {
        out.push_str("! the run was cut short: the states that were running may have made changes that are not recorded\n");
    }
    out.push_fmt(format_args!(
        "{} to undo, {} cannot be undone\n",
        plan.items.len(),
        plan.cannot.len()
    ));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::json;

    #[test]
    fn a_resource_is_described_without_values_of_python() {
        let read = |text: &str| json::read(text).unwrap();
        for (now, was, want) in [
            (
                r#"{"uid": 1002, "shell": "/bin/sh", "fullname": ""}"#,
                "false",
                "x (uid 1002, shell /bin/sh) is removed",
            ),
            ("false", r#"{"uid": 7}"#, "x (uid 7) is created again"),
            (
                r#"{"gid": 7, "members": ["a", "b"]}"#,
                r#"{"gid": 7, "members": []}"#,
                "x: members a b -> none",
            ),
            ("true", "false", "x: yes -> no"),
            (r#""1.22""#, r#""""#, "x (1.22) is removed"),
            (r#""""#, r#""1.22""#, "x (1.22) is created again"),
            (r#""1.22""#, r#""1.20""#, "x: 1.22 -> 1.20"),
            (r#""a\nb""#, r#""""#, "x: its text is restored"),
        ] {
            assert_eq!(resource("x", &read(now), &read(was)), want);
        }
    }
}
