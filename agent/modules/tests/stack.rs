//! Compares the data of the external pillar `stack` with those of Salt 3008.5 for the same files
//! (`tests/corpus/pillars/stack.yaml`).

#![cfg(feature = "stores")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may break"
)]

mod pillar;

use std::path::Path;

use value::json::{self, Layout};
use value::{Map, Value};

/// Writes the files of a case to a folder, and returns the pillar.
fn compiled(case: &Value, folder: &Path) -> Map {
    let map = |key: &str| case.get(key).and_then(Value::as_map).cloned();
    let write = |path: &str, text: &str| {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    for (path, text) in map("files").unwrap_or_default().iter() {
        write(&path.to_text(), &text.to_text());
    }
    let own = Value::from(map("pillar").unwrap_or_default());
    write("pillar/own.sls", &json::write(&own, Layout::default()));
    write("pillar/top.sls", "base: {m1: [own]}\ndev: {m1: [own]}\n");
    let roots = Value::list([folder.join("pillar").display().to_string().into()]);
    let source = Map::new().with("stack", case.get("config").unwrap().clone());
    let mut opts = Map::new()
        .with("id", "m1")
        .with("root_dir", "/")
        .with("cachedir", folder.join("cache").display().to_string())
        .with("renderer", "jinja|yaml")
        .with(
            "pillar_roots",
            Map::new().with("base", roots.clone()).with("dev", roots),
        )
        .with("ext_pillar", Value::list([source.into()]));
    opts.update(map("opts").unwrap_or_default());
    let mut grains = Map::new().with("id", "m1");
    grains.update(map("grains").unwrap_or_default());
    pillar::compiled(opts.with("grains", grains))
}

/// Returns the problem of an answer, if it has one.
fn problem(case: &Value, salt: &Value, ours: &Map) -> Option<String> {
    let shown = json::write(&ours.clone().into(), Layout::default());
    let errors = ours.get("_errors").map(Value::texts).unwrap_or_default();
    let is_right = match case.get("pinch") {
        Some(part) => {
            let part = part.to_text();
            let begin = "Failed to load ext_pillar stack: ";
            let is_ours = |error: &String| error.starts_with(begin) && error.contains(&part);
            errors.len() == 1 && errors.iter().all(is_ours)
        }
        None => shown == json::write(salt, Layout::default()),
    };
    // A mistake is one for Salt, too, unless the case has the reason for the difference.
    let fails_in_salt = salt.as_str().is_some_and(|text| text.starts_with("error "));
    let is_explained =
        case.get("pinch").is_none() || fails_in_salt != case.get("differs").is_some();
    (!is_right || !is_explained).then_some(shown)
}

#[test]
fn data_of_stacks_are_those_of_salt() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/pillars");
    let read = |name: &str| std::fs::read_to_string(corpus.join(name)).unwrap();
    let (text, answers) = (read("stack.yaml"), json::read(&read("stack.json")).unwrap());
    let names = render::yaml::load(&text).unwrap();
    let names = names.as_map().unwrap();
    assert!(names.len() >= 60 && names.len() == answers.as_map().unwrap().len());
    let mut wrong = Vec::new();
    for name in names.keys().map(Value::to_text) {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().display().to_string();
        let cases = render::yaml::load(&text.replace("FOLDER", &folder)).unwrap();
        let answer = json::write(answers.get(&name).unwrap(), Layout::default());
        let answer = json::read(&answer.replace("FOLDER", &folder)).unwrap();
        let case = cases.get(&name).unwrap();
        if let Some(ours) = problem(case, &answer, &compiled(case, scratch.path())) {
            wrong.push(format!(
                "{name}:\n  Salt: {}\n  ours: {ours}",
                answer.to_text()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
