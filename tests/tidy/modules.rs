//! The modules: every file is in its list, and the declared functions are those that the program
//! lists.

use std::collections::BTreeSet;
use std::fs;

use state::module::Module;
use tests::program;
use tests::scratch::Scratch;

use super::none;
use super::source::{Source, below, of_kind, workspace};

const LISTS: &[(&str, &str)] = &[
    ("states", "state_module! {"),
    ("exec", "exec_module! {"),
    ("runners", "exec_module! {"),
    ("wheel", "exec_module! {"),
];

/// True for the line that begins a declaration.
fn declares(line: &str, call: &str) -> bool {
    line.ends_with(call) && !line.starts_with(|c: char| c.is_whitespace() || c == '/')
}

/// Execution modules that use the daemon's own files.
const OF_MINION: &str = "agent/minion/src/functions";

/// The files of a list's folder that declare a module.
fn declaring(folder: &str, call: &str) -> Vec<Source> {
    declaring_in(&format!("agent/modules/src/{folder}"), call)
}

pub(crate) fn declaring_in(path: &str, call: &str) -> Vec<Source> {
    let mut files = below(path);
    files.retain(|file| file.text.lines().any(|line| declares(line, call)));
    files
}

#[test]
fn every_module_is_in_its_list() {
    let mut missing = Vec::new();
    for (folder, call) in LISTS {
        let root = format!("agent/modules/src/{folder}");
        let list = fs::read_to_string(workspace().join(&root).join("mod.rs")).unwrap();
        for file in declaring(folder, call) {
            let inside = file.path.strip_prefix(&format!("{root}/")).unwrap();
            let inside = inside.trim_end_matches(".rs").trim_end_matches("/mod");
            let name = inside.replace('/', "::").replace("match", "r#match");
            let name = name.replace("loop", "r#loop");
            if !list.contains(&format!("    {name}::MODULE,\n")) {
                missing.push(format!("{}: {name}::MODULE", file.path));
            }
        }
    }
    none(&missing, "modules that are missing in their list");
}

/// `module.function` of every declaration in a file.
pub(crate) fn declared(file: &Source, call: &str) -> Vec<String> {
    let (mut names, mut module) = (Vec::new(), None);
    for line in file.text.lines() {
        if declares(line, call) {
            module = Some(String::new());
        } else if line == "}" {
            module = None;
        } else if let Some(module) = &mut module {
            let plain = |name: &str| name.trim_start_matches("r#").to_owned();
            if let Some(name) = line.strip_prefix("    mod ") {
                *module = plain(name.trim_end_matches(';'));
            } else if let Some(rest) = line.strip_prefix("    fn ") {
                let name = plain(rest.split_once('(').unwrap().0);
                names.push(format!("{module}.{name}"));
            }
        }
    }
    names
}

/// Returns the names that the program lists when it calls a function without arguments.
fn listed(function: &str) -> BTreeSet<String> {
    let scratch = Scratch::new();
    let words = ["--out=json", function].map(str::to_owned);
    let answer = program::salt_call(scratch.path(), &words).unwrap();
    let answer: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    let names = answer["local"].as_array().unwrap().iter();
    names
        .map(|name| name.as_str().unwrap().to_owned())
        .collect()
}

/// The files of execution modules that are runners too.
const RUNNERS_TOO: [&str; 1] = ["exec/jobs.rs"];

/// The modules whose functions depend on the package manager or the init system.
const OF_PROVIDERS: [&str; 4] = ["kernelpkg", "lowpkg", "pkg", "service"];

/// The modules that may be missing on a machine, as their declarations say: as in Salt, their
/// functions are then not listed.
fn optional<R>(modules: &'static [Module<R>]) -> BTreeSet<&'static str> {
    let parts = modules.iter();
    let needy = parts.filter(|part| !part.needs.is_empty() || part.virtual_.is_some());
    let names = needy.map(|part| part.name);
    names.chain(OF_PROVIDERS).collect()
}

#[test]
fn what_is_declared_is_what_the_program_lists() {
    let registry = minion::registry();
    for (folder, call, function, optional) in [
        (
            "states",
            "state_module! {",
            "sys.list_state_functions",
            optional(registry.states),
        ),
        (
            "exec",
            "exec_module! {",
            "sys.list_functions",
            optional(registry.functions),
        ),
        (
            "runners",
            "exec_module! {",
            "sys.list_runner_functions",
            optional(registry.runners),
        ),
    ] {
        let mut files = declaring(folder, call);
        match folder {
            "exec" => files.extend(declaring_in(OF_MINION, call)),
            "runners" => files.extend(
                declaring("exec", call)
                    .into_iter()
                    .filter(|file| RUNNERS_TOO.iter().any(|name| file.path.ends_with(name))),
            ),
            _ => {}
        }
        let mut all: Vec<String> = files.iter().flat_map(|file| declared(file, call)).collect();
        all.sort();
        let twice: Vec<String> = all
            .windows(2)
            .filter(|pair| pair[0] == pair[1])
            .map(|pair| pair[0].clone())
            .collect();
        none(
            &twice,
            "functions that are declared twice, so that one of them is never called",
        );
        let declared: BTreeSet<String> = all.into_iter().collect();
        assert!(declared.len() > 10, "{folder}: {declared:?}");
        let listed = listed(function);
        let apart = declared.symmetric_difference(&listed);
        let apart: Vec<&String> = apart
            .filter(|full| {
                let module = full.split('.').next().unwrap_or_default();
                listed.contains(*full) || !optional.contains(module)
            })
            .collect();
        assert!(
            apart.is_empty(),
            "the functions in {folder} and the output of {function} differ: {apart:?}"
        );
    }
}

#[test]
fn every_state_function_is_in_a_test() {
    let kinds = [("tests/corpus", "toml"), ("tests/corpus", "sls")];
    let mut tests: Vec<Source> = kinds
        .iter()
        .flat_map(|(folder, extension)| of_kind(folder, extension))
        .collect();
    tests.extend(below("tests/e2e"));
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let has = |text: &str, full: &str| {
        text.match_indices(full).any(|(at, _)| {
            !text[..at].ends_with(is_name) && !text[at + full.len()..].starts_with(is_name)
        })
    };
    let files = declaring("states", "state_module! {");
    let mut missing: Vec<String> = files
        .iter()
        .flat_map(|file| declared(file, "state_module! {"))
        // A changed requisite or the argument `beacon` calls it, whatever the state's name is.
        .filter(|full| !full.ends_with(".mod_watch") && !full.ends_with(".mod_beacon"))
        .collect();
    assert!(missing.len() > 300, "{missing:?}");
    missing.retain(|full| !tests.iter().any(|file| has(&file.text, full)));
    none(&missing, "state functions without a case or test");
}
