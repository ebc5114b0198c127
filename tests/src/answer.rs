//! Normalizes answers by removing the parts that change from run to run, and finds the first
//! difference between two answers.

use std::sync::LazyLock;

use fancy_regex::{Captures, Regex};
use serde_json::{Map, Value};

use crate::scratch::{masked_group, masked_user};

const VOLATILE: [&str; 11] = [
    "__pub_pid",
    "__pub_jid",
    "__pub_fun",
    "duration",
    "start_time",
    "__jid__",
    "jid",
    "pid",
    "_stamp",
    "__orchestration__",
    "Execution Time",
];

const EXCEPTION: &str = "An exception occurred in this state:";

static MASKS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"\d\d:\d\d:\d\d\.\d{6}", "HH:MM:SS"),
        (r"(Duration:|Total run time:) +[\d.]+ m?s", "$1 T"),
        (r"\b20\d{18}\b", "JID"),
        (r#"(pid['"]?:\s+)\d+"#, "${1}N"),
        // The UUID that LVM gives a volume.
        (r"\b\w{6}(-\w{4}){5}-\w{6}\b", "VOLUME"),
        (r#"[^\s"]*/__salt\.tmp\.[^\s"]+"#, "TMPFILE"),
        (r"(\bduration'?:\s+)[\d.]+", "${1}T"),
        (r#"(['"]lstchg['"]: )2\d{4}"#, "${1}DAY"),
        // The line of dnf about the age of its lists.
        (r"Last metadata expiration check: [^\n]*\n\s*", ""),
    ]
    .map(|(pattern, text)| (Regex::new(pattern).unwrap(), text))
    .into()
});
/// Docker's IDs of containers and images, full or shortened.
static IDS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"sha256:[0-9a-f]+|\b[0-9a-f]{12,64}\b").unwrap());
static DAYS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (
            r"(?m)^# \(\S+ installed on [^)\n]*\)$",
            "# (TABLE installed on DAY)",
        ),
        (r"(?m)^([^:\n]+:[^:\n]*:)2\d{4}((:\d*){6})$", "${1}DAY${2}"),
    ]
    .map(|(pattern, text)| (Regex::new(pattern).unwrap(), text))
    .into()
});
static REQUISITES: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(One or more requisite failed: )(\S.*)").unwrap());
static RENDER_ERROR: LazyLock<Regex> = LazyLock::new(|| {
    let kinds = "Jinja variable|Jinja syntax error|Jinja error|Problem running salt function|Conflicting ID|[a-z]+";
    Regex::new(&format!("Rendering SLS '[^']*' failed: (?:{kinds})")).unwrap()
});
static RENDER_ERROR_TAIL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?s)(failed: \S+ ?\S* ?\S*).*").unwrap());

/// Returns the text without times and process ids.
pub fn without_times(text: &str) -> String {
    let masked = replaced(&MASKS, text);
    // Salt names several failed requisites in the order of a set.
    let sorted = |found: &Captures<'_>| {
        let mut names: Vec<&str> = found[2].split(", ").collect();
        names.sort_unstable();
        format!("{}{}", &found[1], names.join(", "))
    };
    sorted_sections(&REQUISITES.replace_all(&masked, sorted))
}

/// Returns shadow files and crontabs without the day on which they were written.
pub fn without_days(text: &str) -> String {
    replaced(&DAYS, text)
}

fn replaced(masks: &[(Regex, &str)], text: &str) -> String {
    masks.iter().fold(text.to_owned(), |text, (mask, with)| {
        mask.replace_all(&text, *with).into_owned()
    })
}

/// Sorts the sections that begin with `#### `, and the lines of each section. `file.recurse` lists
/// its files, and the paths that it removed, in the order of a set.
fn sorted_sections(text: &str) -> String {
    let Some(sections) = text.strip_prefix("#### ") else {
        return text.to_owned();
    };
    let mut sections: Vec<String> = sections.split("\n#### ").map(sorted_lines).collect();
    sections.sort_unstable();
    format!("#### {}", sections.join("\n#### "))
}

fn sorted_lines(section: &str) -> String {
    let mut lines: Vec<&str> = section.trim().lines().collect();
    lines[1..].sort_unstable();
    lines.join("\n")
}

/// Returns the text without times and without spaces at the ends of lines.
pub fn trimmed(text: &str) -> String {
    let masked = without_times(text);
    let lines: Vec<&str> = masked.trim().lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// Returns only the kind and the SLS of a render error: its other words come from the engine.
pub fn error_head(text: &str) -> &str {
    match RENDER_ERROR.find(text) {
        Ok(Some(found)) if found.start() == 0 => found.as_str(),
        _ => text,
    }
}

/// Cuts a text answer with a render error after the kind of the error.
pub fn up_to_error(text: &str) -> String {
    let head = match text.find("Rendering SLS") {
        Some(at) => format!("{}{}", &text[..at], error_head(&text[at..])),
        None => text.to_owned(),
    };
    RENDER_ERROR_TAIL.replace(&head, "$1").into_owned()
}

/// Returns the value without the fields that change from run to run, with `text` applied to each
/// text.
pub fn settled(value: &Value, text: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::Object(map) => Value::Object(settled_map(map, text)),
        Value::Array(items) => items.iter().map(|item| settled(item, text)).collect(),
        Value::String(s) => Value::String(text(s)),
        other => other.clone(),
    }
}

fn settled_map(map: &Map<String, Value>, text: &dyn Fn(&str) -> String) -> Map<String, Value> {
    let kept = map
        .iter()
        .filter(|(key, value)| !VOLATILE.contains(&key.as_str()) && !is_new_directory(key, value));
    kept.map(|(key, value)| {
        let value = match (key.as_str(), value) {
            ("user", Value::String(name)) => Value::String(masked_user(name)),
            ("group", Value::String(name)) => Value::String(masked_group(name)),
            ("lstchg", Value::Number(day)) if day.as_i64() > Some(20000) => "DAY".into(),
            (key, value) if key.starts_with("docker_") => without_ids(&settled(value, text)),
            ("removed", Value::Array(_)) => sorted_list(settled(value, text)),
            _ => settled(value, text),
        };
        (text(key), value)
    })
    .collect()
}

/// Returns the return of a Docker state without the IDs and times that differ in each run.
fn without_ids(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map
                .iter()
                .filter(|(key, _)| !["CreatedAt", "Time_Elapsed"].contains(&key.as_str()));
            let kept = kept.map(|(key, value)| (key.clone(), without_ids(value)));
            Value::Object(kept.collect())
        }
        Value::Array(items) => items.iter().map(without_ids).collect(),
        Value::String(text) => IDS.replace_all(text, "ID").into_owned().into(),
        other => other.clone(),
    }
}

/// Returns true if the changes report `path` as a new folder. `file.recurse` creates its folders in
/// the order of a set, and reports only those that it created first.
fn is_new_directory(path: &str, changes: &Value) -> bool {
    changes
        .pointer(&format!("/{}/directory", path.replace('/', "~1")))
        .is_some()
}

/// Returns the list sorted. Removed or found paths are listed in the order of a folder or of a set.
pub fn sorted_list(value: Value) -> Value {
    let Value::Array(mut items) = value else {
        return value;
    };
    items.sort_by_key(Value::to_string);
    Value::Array(items)
}

/// Fails with the first difference between two values and its place.
pub fn same_value(want: &Value, got: &Value, at: &str) -> Result<(), String> {
    match (want, got) {
        (Value::Object(a), Value::Object(b)) => same_map(a, b, at),
        (Value::Array(a), Value::Array(b)) => {
            if a.len() != b.len() {
                return Err(format!("{at}: {} / {} items", a.len(), b.len()));
            }
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.try_for_each(|(i, (a, b))| same_value(a, b, &format!("{at}[{i}]")))
        }
        // Salt shows a Python traceback here: any text that is not empty is accepted.
        (Value::String(a), Value::String(b)) if a.starts_with(EXCEPTION) && !b.is_empty() => Ok(()),
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => Ok(()),
        _ if want == got => Ok(()),
        _ => Err(format!("{at}: {} / {}", short(want), short(got))),
    }
}

fn same_map(a: &Map<String, Value>, b: &Map<String, Value>, at: &str) -> Result<(), String> {
    let missing: Vec<_> = a.keys().filter(|k| !b.contains_key(*k)).collect();
    let added: Vec<_> = b.keys().filter(|k| !a.contains_key(*k)).collect();
    if !missing.is_empty() || !added.is_empty() {
        return Err(format!("{at}: keys missing {missing:?}, added {added:?}"));
    }
    a.iter()
        .try_for_each(|(key, value)| same_value(value, &b[key], &format!("{at}.{key}")))
        .map_err(|difference| match b.get("comment") {
            // The comment of a failed state says why.
            Some(comment) if a.get("comment") != Some(comment) => {
                format!("{difference} (comment: {})", short(comment))
            }
            _ => difference,
        })
}

fn short(value: &Value) -> String {
    const ENDS: usize = 300;
    let text = value.to_string();
    let letters: Vec<char> = text.chars().collect();
    match letters.len() > 2 * ENDS {
        true => {
            let head: String = letters[..ENDS].iter().collect();
            let tail: String = letters[letters.len() - ENDS..].iter().collect();
            format!("{head} … {tail}")
        }
        false => text,
    }
}

/// Fails with the first line in which two texts differ.
pub fn same_text(want: &str, got: &str) -> Result<(), String> {
    let (mut w, mut g) = (want.lines(), got.lines());
    for number in 1.. {
        match (w.next(), g.next()) {
            (None, None) => break,
            (a, b) if a == b => {}
            (a, b) => {
                let (a, b) = (a.unwrap_or("(end)"), b.unwrap_or("(end)"));
                return Err(format!("line {number}: {a:?} / {b:?}"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{error_head, same_value, settled, trimmed, up_to_error, without_days};
    use serde_json::json;

    #[test]
    fn times_and_process_ids_are_masked() {
        let text = "Started: 10:00:06.287383\nDuration: 17.349 ms  \npid:\n   29581\nOne or more requisite failed: b, a\n";
        let masked =
            "Started: HH:MM:SS\nDuration: T\npid:\n   N\nOne or more requisite failed: a, b";
        assert_eq!(trimmed(text), masked);
    }

    #[test]
    fn the_day_of_a_password_is_masked() {
        let lines = "root:!:20001:0:99999:7:::\nold:!:18000:0:::::\n";
        let masked = "root:!:DAY:0:99999:7:::\nold:!:18000:0:::::\n";
        assert_eq!(without_days(lines), masked);
        let map = settled(&json!({"lstchg": 20001}), &str::to_owned);
        assert_eq!(map, json!({"lstchg": "DAY"}));
    }

    #[test]
    fn sections_of_files_are_sorted() {
        assert_eq!(
            trimmed("#### b ####\nx\n\n\n#### a ####\ny\n"),
            "#### a ####\ny\n#### b ####\nx"
        );
    }

    #[test]
    fn of_a_render_error_the_kind_is_kept() {
        assert_eq!(
            error_head("Rendering SLS 'a:b' failed: Jinja error: x"),
            "Rendering SLS 'a:b' failed: Jinja error"
        );
        assert_eq!(error_head("other"), "other");
        assert_eq!(
            up_to_error("- Rendering SLS 'a' failed: could not x\ny"),
            "- Rendering SLS 'a' failed: could"
        );
    }

    #[test]
    fn the_first_difference_names_its_place() {
        let (a, b) = (json!({"a": [1, {"b": 2.0}]}), json!({"a": [1, {"b": 2}]}));
        assert_eq!(same_value(&a, &b, "$"), Ok(()));
        assert_eq!(
            same_value(&a, &json!({"a": [1, {"b": 3}]}), "$").unwrap_err(),
            "$.a[1].b: 2.0 / 3"
        );
        assert!(
            same_value(&a, &json!({"c": 1}), "$")
                .unwrap_err()
                .contains("keys missing")
        );
    }
}
