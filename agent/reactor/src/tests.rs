//! Compares with recorded answers of Salt's own reactor, and tests how rules and reactions are
//! stored.
#![expect(clippy::disallowed_methods, reason = "a test's own files")]

use std::fs;
use std::path::{Path, PathBuf};

use modules::fileserver::roots::Roots;
use modules::state_run::orchestrate::ThisMachine;
use state::low::RequisiteKind;
use value::json;

use state::exec::Exec;

use super::*;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/reactor")
}

fn read(path: &Path) -> Value {
    json::read(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns a context like that of the recorder, `record.py` in the folder of the cases.
fn context() -> Exec {
    let roots = corpus().join("roots").display().to_string();
    let roots = Map::new().with("base", Value::list([roots.into()]));
    let map = Map::new().with("id", "mm_master").with("file_roots", roots);
    let opts = Opts::new(map);
    let cx = Exec::new(
        opts.clone(),
        &modules::REGISTRY,
        Box::new(Roots::states(&opts)),
        Box::new(ThisMachine),
    );
    cx.set_grains(Map::new().with("os", "Debian"));
    cx.set_pillar(Map::new());
    cx
}

/// Replaces the paths of the case and the roots, which vary.
fn without_place(text: &str, folder: &Path) -> String {
    let roots = corpus().join("roots").display().to_string();
    let text = text.replace(&folder.display().to_string(), "@HERE@");
    text.replace(&roots, "@ROOTS@")
}

/// Returns the results of a case: chunks, calls, faults, and refused calls.
fn answered(folder: &Path) -> (Value, Value, Vec<String>, Vec<String>) {
    let event = read(&folder.join("event.json"));
    let here = folder.display().to_string();
    let refs = match event.get("refs").map(Value::texts) {
        Some(refs) => refs
            .iter()
            .map(|one| one.replace("@HERE@", &here))
            .collect(),
        None => vec![format!("{here}/*.sls")],
    };
    let rule = Rule {
        glob: "*".to_owned(),
        refs,
    };
    let tag = event.get("tag").unwrap().to_text();
    let data = event.get("data").unwrap().as_map().unwrap();
    let compiled = compile(&context(), &rule, &tag, data);
    let low = compiled.plan.chunks().iter();
    let low = low.map(|low| call::unaliased(&low.data));
    let low: Vec<Map> = low.collect();
    let (mut calls, mut refused) = (Vec::new(), Vec::new());
    for low in &low {
        match Call::from_low(low) {
            Ok(call) => calls.push(call.to_map().into()),
            Err(error) => refused.push(error),
        }
    }
    let low = Value::list(low.into_iter().map(Value::from));
    let low = json::write(&low, json::Layout::default());
    let low = json::read(&without_place(&low, folder)).unwrap();
    let faults = compiled.faults.iter();
    let faults = faults.map(|fault| without_place(fault, folder)).collect();
    (low, Value::list(calls), faults, refused)
}

/// Returns the part of a fault before its details, which come from Python in Salt.
fn head(fault: &str) -> &str {
    let end = fault
        .find(" (")
        .or_else(|| fault.find(": "))
        .unwrap_or(fault.len());
    fault.get(..end).unwrap_or(fault)
}

#[test]
fn chunks_and_calls_are_those_of_salt() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(corpus()).unwrap() {
        let folder = entry.unwrap().path();
        if !folder.join("event.json").exists() {
            continue;
        }
        count += 1;
        let ours = folder.join("ours.json");
        let expected = match ours.exists() {
            true => read(&ours),
            false => read(&folder.join("salt.json")),
        };
        let (low, calls, faults, refused) = answered(&folder);
        let texts = |key: &str| expected.get(key).map(Value::texts).unwrap_or_default();
        let heads = |faults: &[String]| -> Vec<String> {
            faults.iter().map(|fault| head(fault).to_owned()).collect()
        };
        let said = Map::new()
            .with("low", low)
            .with("calls", calls)
            .with(
                "errors",
                heads(&faults).iter().map(Value::from).collect::<Vec<_>>(),
            )
            .with("refused", refused.len());
        let meant = Map::new()
            .with("low", expected.get("low").cloned().unwrap())
            .with("calls", expected.get("calls").cloned().unwrap())
            .with(
                "errors",
                heads(&texts("errors"))
                    .iter()
                    .map(Value::from)
                    .collect::<Vec<_>>(),
            )
            .with("refused", texts("call_errors").len());
        let layout = json::Layout {
            sort_keys: true,
            ..json::Layout::default()
        };
        let write = |map: Map| json::write(&map.into(), layout);
        let (said, meant) = (write(said), write(meant));
        if said != meant {
            let name = folder.file_name().unwrap().to_string_lossy().into_owned();
            wrong.push(format!(
                "{name}\n  here {said}\n  Salt {meant}\n  {faults:?} {refused:?}"
            ));
        }
    }
    assert!(count >= 40, "{count} cases");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Faults of documents have Salt's sentences.
#[test]
fn faults_of_documents_are_salts_sentences() {
    for (case, sentence) in [
        (
            "no_function",
            "No function declared in state 'x' in SLS '@HERE@/a.sls'",
        ),
        (
            "require_missing",
            "Referenced state does not exist for requisite [require: (wheel: nobody)] in state [x] in SLS [@HERE@/a.sls]",
        ),
        ("recursive", "Recursive requisites were found: "),
    ] {
        let folder = corpus().join(case);
        let (_, _, faults, _) = answered(&folder);
        let salt = fs::read_to_string(folder.join("salt.json")).unwrap();
        assert!(salt.contains(sentence), "{case}: {salt}");
        assert!(
            faults.len() == 1 && faults[0].contains(sentence),
            "{faults:?}"
        );
    }
}

#[test]
fn a_template_that_runs_for_ever_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sls");
    let text = "{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(100000) %}{% set x = a %}{% endfor %}{% endfor %}{% endfor %}";
    fs::write(&path, text).unwrap();
    let rule = Rule::new("*", &path.display().to_string().into());
    let compiled = compile(&context(), &rule, "a/b", &Map::new());
    assert!(compiled.plan.chunks().is_empty());
    assert_eq!(compiled.faults.len(), 1, "{:?}", compiled.faults);
    assert!(
        compiled.faults[0].starts_with("Failed to render"),
        "{:?}",
        compiled.faults
    );
}

fn chunk(id: &str, state: State, needs: &[(RequisiteKind, usize)]) -> Chunk {
    Chunk {
        low: Map::new().with("__id__", id),
        needs: needs.to_vec(),
        jid: value::jid::new(),
        state,
        begun: 2,
        comment: "why".to_owned(),
        absent: vec!["m9".to_owned()],
    }
}

#[test]
fn a_reaction_is_kept_and_read_again() {
    let reaction = Reaction {
        place: Place {
            rule: u64::MAX >> 1,
            sequence: 7,
        },
        rule: "my/*".to_owned(),
        tag: "my/tag".to_owned(),
        began_ms: 1_700_000_000_000,
        state: State::Failed,
        generation: 3,
        faults: vec!["it is wrong".to_owned()],
        rendered: "x: y".to_owned(),
        chunks: vec![
            chunk("a", State::Done, &[]),
            chunk(
                "b",
                State::Unknown,
                &[(RequisiteKind::Require, 0), (RequisiteKind::OnfailAll, 0)],
            ),
        ],
    };
    let known = Reaction::from_row(reaction.place, &reaction.row());
    assert_eq!(known, Some(reaction.clone()));
    assert_eq!(reaction.errors(), ["it is wrong", "why"]);
    assert_eq!(reaction.outcome(), State::Failed);
}

#[test]
fn rules_are_read_and_known_by_what_they_say() {
    let option = json::read(
        r#"[{"salt/auth": ["/a.sls", "/b.sls"]}, {"my/*": "/c.sls"}, {"my/*": "/c.sls"}, "x", {"a": [], "b": []}]"#,
    );
    let (rules, faults) = Rule::all(&option.unwrap());
    let globs: Vec<&str> = rules.iter().map(|rule| rule.glob.as_str()).collect();
    assert_eq!(globs, ["salt/auth", "my/*"]);
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(rules[1].matches("my/own/tag") && !rules[1].matches("his/tag"));
    let split = Rule::new("salt/auth", &Value::list(["/a.sls/b.sls".into()]));
    assert_ne!(split.number(), rules[0].number());
    assert_eq!(rules[0].number() >> 63, 0);
}
