//! Tests of `pinch lint`: every folder of the corpus is a tree with one fault and the expected
//! output.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tests::program::pinch_program;

/// The folder of the cases. Each case is a tree with `expected.txt`, and with the command line in
/// `words` if it is not `.`.
const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/lint");

fn cases() -> Vec<PathBuf> {
    let entries = fs::read_dir(CASES).unwrap();
    let mut cases: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    cases
}

fn pinch(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(pinch_program());
    command.args(words).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns the output of `lint` for a case, and its exit code.
fn lint_output(case: &Path) -> String {
    let words = fs::read_to_string(case.join("words")).unwrap_or_else(|_| ".".into());
    let mut all = vec!["lint"];
    all.extend(words.split_whitespace());
    let output = pinch(case, &all);
    assert_eq!(text(&output.stderr), "", "{}", case.display());
    format!(
        "{}exit {}\n",
        text(&output.stdout),
        output.status.code().unwrap()
    )
}

/// With `PINCH_RECORD=1` the test records the output instead: review it before you commit it.
#[test]
fn each_fault_is_found_at_its_place() {
    let mut different = Vec::new();
    for case in cases() {
        let (said, file) = (lint_output(&case), case.join("expected.txt"));
        if std::env::var_os("PINCH_RECORD").is_some() {
            fs::write(&file, &said).unwrap();
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        if said != expected {
            different.push(format!("{}: {said}", case.display()));
        }
    }
    assert!(cases().len() > 30);
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// Each code that a case shows has a page, and the page says how to allow it.
#[test]
fn each_code_is_explained() {
    let here = Path::new(CASES);
    for case in cases() {
        let expected = fs::read_to_string(case.join("expected.txt")).unwrap();
        for part in expected.split('[').skip(1) {
            let Some((code, _)) = part.split_once("]: ") else {
                continue;
            };
            let page = pinch(here, &["explain", code]);
            assert!(page.status.success(), "{code}");
            let allow = format!("# pinch: allow {code}\n");
            assert!(text(&page.stdout).ends_with(&allow), "{code}");
        }
    }
    assert_eq!(pinch(here, &["explain", "E999"]).status.code(), Some(64));
}

#[test]
fn the_formats_for_programs_hold_the_same() {
    let case = Path::new(CASES).join("misspelt_function");
    let json = text(&pinch(&case, &["lint", "--format", "json", "."]).stdout);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let finding = &json["findings"][0];
    assert_eq!(
        (&finding["line"], &finding["code"]),
        (&3.into(), &"E301".into())
    );
    let sarif = text(&pinch(&case, &["lint", "--format", "sarif", "."]).stdout);
    let sarif: serde_json::Value = serde_json::from_str(&sarif).unwrap();
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!(result["ruleId"], "E301");
    let region = &result["locations"][0]["physicalLocation"]["region"];
    assert_eq!(
        (&region["startLine"], &region["startColumn"]),
        (&3.into(), &3.into())
    );
    let github = text(&pinch(&case, &["lint", "--format", "github", "."]).stdout);
    let expected = "::error file=motd.sls,line=3,col=3,title=E301::unknown state function file.manged%0Adid you mean 'file.managed'?\n";
    assert_eq!(github, expected);
}

/// Warnings fail only with `--strict`.
#[test]
fn warnings_fail_a_strict_look() {
    let case = Path::new(CASES).join("misspelt_argument");
    assert_eq!(pinch(&case, &["lint", "."]).status.code(), Some(0));
    let strict = pinch(&case, &["lint", "--strict", "."]);
    assert_eq!(strict.status.code(), Some(1));
}

/// The table of lint has all runners that only a master has.
#[test]
fn every_runner_of_a_master_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let (etc, tree) = (dir.path().join("etc"), dir.path().join("tree"));
    fs::create_dir(&etc).unwrap();
    fs::create_dir(&tree).unwrap();
    let config = format!("root_dir: {}\n", dir.path().display());
    fs::write(etc.join("master"), config).unwrap();
    let mut docs = Command::new(pinch_program());
    let docs = docs.args(["salt-run", "-d", "-c"]).arg(&etc).output();
    let docs = text(&docs.unwrap().stdout);
    let names = docs.lines().filter_map(|line| line.strip_suffix(':'));
    let names: Vec<&str> = names.filter(|name| !name.contains(' ')).collect();
    assert!(names.len() > 60 && names.contains(&"manage.up"), "{docs}");
    let steps = names.iter().enumerate();
    let steps: String = steps
        .map(|(n, name)| format!("s{n}:\n  salt.runner:\n    - name: {name}\n"))
        .collect();
    fs::write(tree.join("orch.sls"), steps).unwrap();
    let said = text(&pinch(&tree, &["lint", "."]).stdout);
    assert!(said.contains("0 errors and 0 warnings"), "{said}");
}
