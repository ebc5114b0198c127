//! Tests of `pinch schema`: real outputs are valid for their schemas, according to Python's package
//! jsonschema.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tests::program::pinch_program;
use tests::skip::skip;

const PYTHON: &str = "/usr/bin/python3";

/// Checks pairs of a schema and a value, and prints the faults.
const CHECK: &str = "
import json, sys
from jsonschema import Draft202012Validator as Validator
for name, schema, value in json.load(sys.stdin):
    Validator.check_schema(schema)
    for fault in Validator(schema).iter_errors(value):
        print(name, list(fault.absolute_path), fault.message[:300])
";

/// A machine with a configuration and a tree.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().display();
        let config = format!(
            "id: schemas\nroot_dir: {root}/root\nfile_client: local\nfile_roots: {{base: [{root}/salt]}}\npillar_roots: {{base: [{root}/pillar]}}\n"
        );
        for name in ["root", "salt", "pillar"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("minion"), config).unwrap();
        let sls = format!(
            "file:\n  file.managed:\n    - name: {root}/made\n    - contents: x\nfails:\n  test.fail_without_changes: []\n{{% if grains.os == 'None' %}}\nother: {{}}\n{{% endif %}}\n"
        );
        fs::write(folder.path().join("salt/a.sls"), sls).unwrap();
        Self(folder)
    }

    fn pinch(&self, words: &[&str]) -> Output {
        let folder = self.0.path();
        let mut command = Command::new(pinch_program());
        command.args(words).env("SALT_CONFIG_DIR", folder);
        command.current_dir(folder).output().unwrap()
    }

    fn text(&self, words: &[&str]) -> String {
        String::from_utf8(self.pinch(words).stdout).unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        let text = self.text(words);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error}: {text}"))
    }
}

/// Returns the faults of values, each with the name of its schema.
fn faults(machine: &Machine, values: &[(&str, Value)]) -> Option<String> {
    let has = Command::new(PYTHON)
        .args(["-c", "import jsonschema"])
        .output();
    if !has.is_ok_and(|output| output.status.success()) {
        skip("tests/run installs python3-jsonschema");
        return None;
    }
    let all = values.iter();
    let all: Vec<Value> = all
        .map(|(name, value)| json!([name, machine.json(&["schema", name]), value]))
        .collect();
    let mut command = Command::new(PYTHON);
    let command = command.args(["-c", CHECK]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(json!(all).to_string().as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn real_outputs_are_valid_for_their_schemas() {
    let machine = Machine::new();
    let apply = ["salt-call", "--local", "--out=ndjson", "state.sls", "a"];
    let events = machine.text(&apply);
    let jids = machine.json(&["runs", "list", "--out=json"]);
    let jid = jids[0]["jid"].as_str().unwrap().to_owned();
    let test = [&apply[..], &["test=True"]].concat();
    machine.text(&test);
    let after = machine.json(&["runs", "list", "--out=json"]);
    let last = after[1]["jid"].as_str().unwrap().to_owned();
    let mut values = vec![
        ("doctor", machine.json(&["doctor", "--out=json"])),
        ("lint", machine.json(&["lint", "--format=json", "salt"])),
        (
            "migrate-report",
            machine.json(&["migrate", "report", "--format=json", "salt"]),
        ),
        ("plan", machine.json(&["plan", "a", "--out=json"])),
        (
            "runs-diff",
            machine.json(&["runs", "diff", &jid, &last, "--out=json"]),
        ),
        ("runs-list", after),
        (
            "undo",
            machine.json(&["undo", &jid, "--dry-run", "--out=json"]),
        ),
    ];
    assert!(values[1].1["not_reached"][0].is_object(), "{}", values[1].1);
    let lines = events
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    values.extend(lines.map(|line| ("ndjson", line)));
    assert!(values.len() > 10);
    let Some(faults) = faults(&machine, &values) else {
        return;
    };
    assert_eq!(faults, "");
}

#[test]
fn the_schema_of_sls_accepts_trees_and_refuses_mistakes() {
    let machine = Machine::new();
    let read = |path: &Path| -> Value {
        let path = path.display().to_string();
        let answer = machine.json(&[
            "salt-call",
            "--local",
            "--out=json",
            "slsutil.renderer",
            &path,
            "default_renderer=yaml",
        ]);
        answer["local"].clone()
    };
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/lsp/salt");
    let trees = [corpus.join("base.sls"), corpus.join("web/init.sls")];
    let good: Vec<_> = trees.iter().map(|path| ("sls", read(path))).collect();
    let Some(none) = faults(&machine, &good) else {
        return;
    };
    assert_eq!(none, "");
    for (bad, fault) in [
        (json!({"a": {"test.nop": 3}}), "3 is not of type"),
        (
            json!({"a": {"pkgrepo.managed": [], "timezone.system": [{"nam": "x"}]}}),
            "'nam' was unexpected",
        ),
        (json!({"a": "pkg"}), "does not match"),
        (json!({"include": "base"}), "is not of type 'array'"),
    ] {
        let found = faults(&machine, &[("sls", bad.clone())]).unwrap();
        assert!(found.contains(fault), "{bad}: {found}");
    }
}

#[test]
fn schemas_are_listed_and_packaged() {
    let machine = Machine::new();
    let listed = machine.text(&["schema"]);
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/schemas");
    let files = fs::read_dir(folder).unwrap();
    let mut files: Vec<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .map(|name| name.trim_end_matches(".schema.json").to_owned())
        .chain(["sls".to_owned()])
        .collect();
    files.sort();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, files);
    let output = machine.pinch(&["schema", "plans"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("did you mean 'plan'?")
    );
}
