//! Formats a plan for people: the changes with diffs, and a summary line.

use value::{PushFmt, Value};

use crate::document::{Document, Outcome};
use crate::preview::is_compensating;

/// The maximum number of characters that are shown of a value in the changes.
const SHOWN_MAX: usize = 200;

/// Returns the text of a plan.
#[must_use]
pub fn format_plan(document: &Document) -> String {
    let mut out = String::new();
    for state in document.states() {
        one(&mut out, state);
    }
    out.push_str(&summary(document));
    out
}

/// Returns the last line: `2 to change, 5 unchanged, 1 depends on earlier changes`.
fn summary(document: &Document) -> String {
    let count = |outcome| document.count(outcome);
    let depends = count(Outcome::Depends);
    let verb = if depends == 1 { "depends" } else { "depend" };
    let mut line = format!(
        "{} to change, {} unchanged, {depends} {verb} on earlier changes",
        count(Outcome::Change),
        count(Outcome::Unchanged),
    );
    match count(Outcome::Fail) {
        0 => {}
        failures => {
            line.push_fmt(format_args!(", {failures} would fail"));
        }
    }
    line + "\n"
}

fn one(out: &mut String, state: &Value) {
    let text = |key: &str| state.get(key).map(Value::to_text).unwrap_or_default();
    let outcome = text("outcome");
    let (mark, words) = match outcome.as_str() {
        "change" => ('~', "would change"),
        "depends" => ('?', "depends on an earlier change"),
        "fail" => ('!', "would fail"),
        _ if is_compensating(state) => ('-', "only if a later step fails"),
        _ => return,
    };
    out.push_fmt(format_args!("{mark} {} {}", text("function"), text("name")));
    let id = text("id");
    if id != text("name") {
        out.push_fmt(format_args!(" (id {id})"));
    }
    out.push_fmt(format_args!(" in {}: {words}\n", text("sls")));
    for because in list(state, "because") {
        let text = |key: &str| because.get(key).map(Value::to_text).unwrap_or_default();
        let (reason, tag) = (text("reason"), text("state"));
        out.push_fmt(format_args!("    {}: {}\n", why(&reason), shown_tag(&tag)));
    }
    // If there is a diff, the comment only says so.
    let comment = if outcome == "change" && has_diff(state) {
        String::new()
    } else {
        text("comment")
    };
    indented(
        out,
        &comment,
        if outcome == "depends" {
            "as things are now: "
        } else {
            ""
        },
    );
    for file in list(state, "files") {
        if let Some(diff) = file.get("diff").and_then(Value::as_str) {
            let path = file.get("path").map(Value::to_text).unwrap_or_default();
            out.push_fmt(format_args!("    --- {path}\n"));
            diff.lines().filter(|line| !is_head(line)).for_each(|line| {
                out.push_fmt(format_args!("    {line}\n"));
            });
        }
    }
    changes(out, state);
    versions(out, state);
    out.push('\n');
}

/// Returns whether a line is the head of a diff without names.
fn is_head(line: &str) -> bool {
    matches!(line.trim_end(), "---" | "+++")
}

fn has_diff(state: &Value) -> bool {
    let mut files = list(state, "files").iter();
    files.any(|file| file.get("diff").is_some())
}

fn list<'a>(state: &'a Value, key: &str) -> &'a [Value] {
    state.get(key).and_then(Value::as_list).unwrap_or_default()
}

/// Returns the words for a reason.
fn why(reason: &str) -> &str {
    match reason {
        "account" => "its user or group comes from",
        "compensate" => "it compensates",
        "creates" => "its creates path may be made by",
        "guard" => "its unless or onlyif runs after",
        "listen" => "it is called at the end after changes of",
        "package" => "it may be installed by",
        "path" => "it uses a path that is changed by",
        "slot" => "its slot is evaluated after",
        "step" => "it belongs to",
        "template" => "its template may call functions after",
        kind => kind,
    }
}

/// Formats a tag as users know it: `file.managed ID`.
fn shown_tag(tag: &str) -> String {
    let parts: Vec<&str> = tag.split("_|-").collect();
    match parts.as_slice() {
        [module, id, .., fun] => format!("{module}.{fun} {id}"),
        _ => tag.to_owned(),
    }
}

fn indented(out: &mut String, text: &str, before: &str) {
    for (at, line) in text.lines().enumerate() {
        let before = if at == 0 { before } else { "" };
        out.push_fmt(format_args!("    {before}{line}\n"));
    }
}

/// Writes the changes that are not part of a diff.
fn changes(out: &mut String, state: &Value) {
    let has_diff = has_diff(state);
    let told = |key: &str| has_diff && matches!(key, "diff" | "newfile");
    let Some(changes) = state.get("changes").and_then(Value::as_map) else {
        return;
    };
    // The changes of a step are shown with its states, and a command is shown by its name.
    let function = state.get("function").and_then(Value::as_str);
    if function.is_some_and(|function| function == "salt.state" || function.starts_with("cmd.")) {
        return;
    }
    for (key, value) in changes
        .iter()
        .filter(|(key, _)| !key.as_str().is_some_and(told))
    {
        let text = value.to_text();
        if key.as_str() == Some("diff") {
            indented(out, &text, "");
            continue;
        }
        let short: String = text.chars().take(SHOWN_MAX).collect();
        let more = if short.len() < text.len() { "…" } else { "" };
        out.push_fmt(format_args!("    {}: {short}{more}\n", key.to_text()));
    }
}

fn versions(out: &mut String, state: &Value) {
    for package in list(state, "packages") {
        let text = |key: &str| {
            package
                .get(key)
                .map(Value::to_text)
                .filter(|text| !text.is_empty())
        };
        let none = || "none".to_owned();
        out.push_fmt(format_args!(
            "    package {}: {} -> {}\n",
            text("name").unwrap_or_default(),
            text("now").unwrap_or_else(none),
            text("then").unwrap_or_else(none),
        ));
    }
}
