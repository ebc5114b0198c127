//! Compares the states that edit text with the recorded results of Salt 3008.5 for the same calls
//! (`tests/corpus/edit.json`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test may break"
)]

mod no_targets;

use std::collections::BTreeMap;
use std::path::Path;

use modules::fileserver::roots::Roots;
use state::exec::Exec;
use state::module::{Arguments, Ret};
use state::opts::Opts;
use value::{Map, Value};

use no_targets::NoTargets;

fn context(folder: &Path, test: bool) -> Exec {
    let root = folder.display().to_string();
    let opts = Opts::new(
        Map::new()
            .with("id", "m1")
            .with("cachedir", format!("{root}/.cache"))
            .with("file_roots", Map::new().with("base", vec![root]))
            .with("test", test),
    );
    let sources = Box::new(Roots::states(&opts));
    Exec::new(opts, &modules::REGISTRY, sources, Box::new(NoTargets))
}

/// Replaces one text by another in a value.
fn replaced(value: &Value, from: &str, to: &str) -> Value {
    match value {
        Value::Str(text) => text.replace(from, to).into(),
        Value::List(items) | Value::Tuple(items) => {
            Value::list(items.iter().map(|item| replaced(item, from, to)))
        }
        Value::Map(map) => map
            .iter()
            .map(|(key, value)| (replaced(key, from, to), replaced(value, from, to)))
            .collect(),
        other => other.clone(),
    }
}

fn set_up(folder: &Path, files: &Value) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
    }
    for (path, contents) in files.as_map().unwrap() {
        let path = folder.join(path.to_text());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, contents.to_text()).unwrap();
    }
}

fn files(folder: &Path, below: &Path, found: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(below).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(folder, &path, found);
        } else {
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            let data = std::fs::read(&path).unwrap();
            found.insert(name, data.into_iter().map(char::from).collect());
        }
    }
}

fn called(cx: &Exec, folder: &Path, case: &Value) -> Value {
    let root = folder.display().to_string();
    let name = case.get("fun").unwrap().to_text();
    let kwargs = replaced(case.get("kwargs").unwrap(), "@TMP@", &root);
    let kwargs = kwargs.as_map().unwrap().clone();
    let chunk_name = kwargs.get("name").unwrap().clone();
    let function = cx.state_function(&name).expect(&name);
    let ret = function
        .invoke(&name, cx, Arguments::new(Vec::new(), kwargs))
        .unwrap_or_else(|error| Ret::failed(error.to_string()));
    let mut shown = Map::new()
        .with("name", ret.name.map_or(chunk_name, Value::from))
        .with("result", ret.result.map(Value::Bool))
        .with("changes", ret.changes)
        .with("comment", ret.comment);
    if !ret.warnings.is_empty() {
        shown.insert("warnings", ret.warnings);
    }
    replaced(&shown.into(), &root, "@TMP@")
}

/// Formats a value without process ids and the names of scratch files, which differ in each run.
fn comparable(value: &Value) -> String {
    let text = value::json::write(value, value::json::Layout::default());
    let scratch = fancy_regex::Regex::new(r#"/tmp/__salt\.tmp\.[^ )\\"]*"#).unwrap();
    let text = scratch.replace_all(&text, "SCRATCH");
    let pid =
        fancy_regex::Regex::new(r#"(?<="pid": )\d+|(?<=pid:\\n                  )\d+"#).unwrap();
    pid.replace_all(&text, "0").into_owned()
}

/// Returns the expected result. Where Salt shows a traceback, only its last sentence can be equal.
fn expected(want: &Value, got: &Value) -> Value {
    let comment = want.get("comment").and_then(Value::as_str).unwrap_or("");
    if !comment.contains("Traceback (most recent call last)") {
        return want.clone();
    }
    let failed = got.get("result") == Some(&Value::Bool(false));
    let said = got.get("comment").map(Value::to_text).unwrap_or_default();
    // The traceback of a template ends with the template itself.
    let ours_alone = comment.ends_with("\n---");
    if failed && (comment.ends_with(&said) || ours_alone) {
        got.clone()
    } else {
        want.clone()
    }
}

#[test]
fn editing_states_answer_as_salt_does() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/edit.json");
    let cases = value::json::read(&std::fs::read_to_string(corpus).unwrap()).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let mut problems = Vec::new();
    let (mut count, only) = (0, std::env::var("ONLY").unwrap_or_default());
    for case in cases.as_list().unwrap() {
        let title = format!(
            "{} {}",
            case.get("fun").unwrap().to_text(),
            case.get("name").unwrap().to_text()
        );
        if !title.contains(&only) {
            continue;
        }
        count += 1;
        let mut check = |step: &str, got: Value| {
            let want = expected(case.get(step).unwrap(), &got);
            let (shown_want, shown_got) = (comparable(&want), comparable(&got));
            if want != got && shown_want != shown_got {
                problems.push(format!(
                    "{title} {step}\n  want {shown_want}\n  got  {shown_got}"
                ));
            }
        };
        set_up(folder, case.get("files").unwrap());
        check("test", called(&context(folder, true), folder, case));
        set_up(folder, case.get("files").unwrap());
        let cx = context(folder, false);
        check("first", called(&cx, folder, case));
        let mut found = BTreeMap::new();
        files(folder, folder, &mut found);
        check("files_after", found.iter().collect());
        check("second", called(&cx, folder, case));
    }
    assert!(count > 0, "no case has {only:?} in its name");
    let shown = problems.join("\n");
    assert!(
        problems.is_empty(),
        "{} of {count} cases:\n{shown}",
        problems.len()
    );
}

fn invoked(cx: &Exec, folder: &Path, call: &Value) -> Map {
    let root = folder.display().to_string();
    let name = call.get("fun").unwrap().to_text();
    let given = |key| replaced(call.get(key).unwrap(), "@TMP@", &root);
    let args = given("args").as_list().unwrap().to_vec();
    let kwargs = given("kwargs").as_map().unwrap().clone();
    match cx.call(&name, args, kwargs) {
        Ok(value) => Map::new().with("return", replaced(&value, &root, "@TMP@")),
        Err(error) => {
            let error = Value::from(error.to_string());
            Map::new().with("error", replaced(&error, &root, "@TMP@"))
        }
    }
}

#[test]
fn execution_functions_answer_as_salt_does() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/exec-edit.json");
    let corpus = value::json::read(&std::fs::read_to_string(corpus).unwrap()).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    set_up(folder, corpus.get("files").unwrap());
    let cx = context(folder, false);
    let mut problems = Vec::new();
    for call in corpus.get("calls").and_then(Value::as_list).unwrap() {
        let mut want = call.as_map().unwrap().clone();
        want.retain(|key, _| matches!(key.as_str(), Some("return" | "error")));
        let got = invoked(&cx, folder, call);
        let (want, got) = (Value::from(want), Value::from(got));
        if want != got && comparable(&want) != comparable(&got) {
            let call = comparable(call);
            problems.push(format!("{call}\n  got {}", comparable(&got)));
        }
    }
    let shown = problems.join("\n");
    assert!(problems.is_empty(), "{} calls:\n{shown}", problems.len());
}
