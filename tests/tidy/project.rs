//! The facts of the project that are only in `packaging/project.toml`, and the texts that repeat
//! them.

use std::fs;
use std::process::Command;

use super::none;
use super::source::workspace;

/// The files that repeat a fact, because programs read them before the packages are made.
const REPEAT: [&str; 2] = ["SECURITY.md", "packaging/schemas/ndjson.schema.json"];

fn fact(key: &str) -> String {
    let text = fs::read_to_string(workspace().join("packaging/project.toml")).unwrap();
    let table: toml::Table = toml::from_str(&text).unwrap();
    table[key].as_str().unwrap().to_owned()
}

#[test]
fn the_address_and_the_home_page_are_those_of_the_project() {
    let maintainer = fact("maintainer");
    let address = maintainer.split(['<', '>']).nth(1).unwrap();
    let home = fact("home");
    for (file, text) in REPEAT.iter().zip([address, &format!("{home}/schemas/")]) {
        let found = fs::read_to_string(workspace().join(file)).unwrap();
        assert!(found.contains(text), "{file} does not contain {text}");
    }
}

#[test]
fn no_other_file_has_a_placeholder_of_them() {
    let output = Command::new("git")
        .args([
            "grep",
            "-l",
            "--fixed-strings",
            concat!("pinch.", "invalid"),
        ])
        .current_dir(workspace())
        .output()
        .unwrap();
    let known = |file: &&str| *file != "packaging/project.toml" && !REPEAT.contains(file);
    let files = String::from_utf8(output.stdout).unwrap();
    let found: Vec<String> = files.lines().filter(known).map(str::to_owned).collect();
    none(
        &found,
        "files that must read the address or the home page from packaging/project.toml",
    );
}
