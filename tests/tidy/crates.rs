//! The crates: the allowed direction of their dependencies, and the number of packages they need.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value as Json;

use super::none;
use super::source::workspace;

/// The crates of the workspace that each crate may depend on.
const ARROWS: &[(&str, &[&str])] = &[
    ("value", &[]),
    ("render", &["value"]),
    ("state", &["render", "value"]),
    ("python", &["value"]),
    ("machine", &["python", "state", "value"]),
    (
        "modules",
        &["machine", "python", "state", "render", "value"],
    ),
    ("cli", &["value"]),
    ("wire", &["value"]),
    ("link", &["wire", "value"]),
    ("saltlink", &["link", "wire", "machine", "value"]),
    // The rules by which both a master and a minion react: neither depends on the other.
    (
        "reactor",
        &["link", "wire", "modules", "state", "render", "value"],
    ),
    (
        "minion",
        &[
            "reactor", "saltlink", "link", "wire", "modules", "machine", "state", "render", "value",
        ],
    ),
    ("lint", &["modules", "state", "render", "value"]),
    ("lsp", &["lint", "modules", "state", "render", "value"]),
    // It draws pictures of its input, and depends on no other crate.
    ("graph", &[]),
    ("plan", &["modules", "machine", "python", "state", "value"]),
    ("undo", &["modules", "machine", "python", "state", "value"]),
    (
        "ssh",
        &[
            "cli", "link", "wire", "modules", "machine", "python", "state", "render", "value",
        ],
    ),
    (
        "cloud",
        &[
            "ssh", "cli", "wire", "modules", "machine", "python", "state", "render", "value",
        ],
    ),
    (
        "pinch",
        &[
            "master", "cloud", "ssh", "graph", "lsp", "lint", "plan", "undo", "minion", "link",
            "modules", "machine", "state", "render", "cli", "value",
        ],
    ),
    ("identity", &["value"]),
    ("cluster", &["link", "wire", "value"]),
    // It only has a test, which contains the master's store.
    (
        "simulation",
        &["cluster", "reactor", "link", "wire", "value"],
    ),
    // It replaces a crate of the same name, which only openraft uses.
    ("base2histogram", &[]),
    (
        "master",
        &[
            "identity", "cluster", "ssh", "reactor", "link", "wire", "modules", "machine",
            "python", "state", "render", "cli", "value",
        ],
    ),
];

const MAX_DIRECT: usize = 40;
/// 23 of them are those of openraft, 18 those of rsa, and 11 those of lettre.
const MAX_LINKED: usize = 184;

fn metadata(options: &[&str]) -> Json {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline"])
        .args(options)
        .current_dir(workspace())
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo metadata failed");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn packages() -> Vec<Json> {
    let metadata = metadata(&["--no-deps"]);
    metadata["packages"].as_array().unwrap().clone()
}

/// The names of a package's dependencies, and separately of its dev-dependencies.
fn dependencies(package: &Json, of_tests: bool) -> Vec<String> {
    let all = package["dependencies"].as_array().unwrap().iter();
    all.filter(|dependency| (dependency["kind"] == "dev") == of_tests)
        .map(|dependency| dependency["name"].as_str().unwrap().to_owned())
        .collect()
}

/// The third-party packages in a binary, without those that only build it and those for other
/// systems.
fn linked(binary: &str) -> BTreeSet<String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["tree", "--offline", "--prefix", "none", "--package", binary])
        .args(["--edges", "normal,no-proc-macro"])
        .args(["--target", "x86_64-unknown-linux-musl"])
        .current_dir(workspace())
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo tree failed");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| line.trim_end_matches(" (*)"))
        .filter(|line| !line.contains('/'))
        .map(str::to_owned)
        .collect()
}

#[test]
fn arrows_point_one_way() {
    let mut wrong = Vec::new();
    let packages = packages();
    for (name, allowed) in ARROWS {
        let package = packages.iter().find(|package| package["name"] == *name);
        let package = package.unwrap_or_else(|| panic!("unknown crate {name}"));
        for of_tests in [false, true] {
            for dependency in dependencies(package, of_tests) {
                if of_tests && dependency == "tests" {
                    continue;
                }
                let ours = packages.iter().any(|other| other["name"] == *dependency);
                if ours && !allowed.contains(&dependency.as_str()) {
                    wrong.push(format!("{name} -> {dependency}"));
                }
            }
        }
    }
    for package in &packages {
        let name = package["name"].as_str().unwrap();
        if name != "tests" && !ARROWS.iter().any(|(known, _)| *known == name) {
            wrong.push(format!("{name} has no entry in tests/tidy/crates.rs"));
        }
    }
    none(
        &wrong,
        "dependencies that are not allowed in tests/tidy/crates.rs",
    );
}

#[test]
fn dependencies_are_few() {
    let packages = packages();
    let ours = |name: &String| packages.iter().any(|package| package["name"] == **name);
    let direct: BTreeSet<String> = packages
        .iter()
        .filter(|package| package["name"] != "tests")
        .flat_map(|package| dependencies(package, false))
        .filter(|name| !ours(name))
        .collect();
    assert!(direct.len() <= MAX_DIRECT, "{}: {direct:?}", direct.len());
    let linked = linked("pinch").len();
    assert!(
        linked <= MAX_LINKED,
        "pinch links {linked} third-party packages"
    );
}

/// A later release of it would be used instead of ours without an error.
#[test]
fn the_histograms_of_openraft_have_no_tables() {
    let lock = fs::read_to_string(workspace().join("Cargo.lock")).unwrap();
    let mut packages = lock.split("[[package]]");
    let histogram = packages.find(|package| package.contains("name = \"base2histogram\""));
    let histogram =
        histogram.expect("remove the patch of base2histogram: openraft does not use it");
    assert!(
        !histogram.contains("source = "),
        "the patch of base2histogram is not used:{histogram}"
    );
}

#[test]
fn every_dependency_says_what_it_saves() {
    let manifest = fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
    let table = manifest.split("[workspace.dependencies]\n").nth(1).unwrap();
    let table = table.split("\n[").next().unwrap();
    let mut silent = Vec::new();
    let mut explained = false;
    for line in table.lines().filter(|line| !line.is_empty()) {
        // Lines of one purpose stand under one comment.
        explained |= line.starts_with('#');
        if !explained && !line.contains("{ path = ") {
            silent.push(line.to_owned());
        }
    }
    none(
        &silent,
        "add a comment above each dependency that justifies it",
    );
}
