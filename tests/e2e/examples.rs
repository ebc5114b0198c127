//! Runs the example of each function.
//!
//! The examples are read from the reference, which has all functions. `sys.doc` and its like show
//! those that are available on this machine, with the same examples. The examples of states are
//! checked by `pinch lint` and then run in test mode. The other examples are called on a throw-away
//! machine, which is a master and its minion (`tests/corpus/docs/calls.sh`).
//!
//! The functions may fail, because the machine lacks a program, a disk or a file. But they must not
//! find fault with the call: a module that this machine lacks refuses any call, so the arguments of
//! all calls are also compared with the declarations.

mod page;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use fancy_regex::Regex;
use serde_json::Value as Json;
use tests::program::{in_recorded_environment, pinch_program, salt_call};
use tests::scratch::corpus;

use page::{Declared, Kind, functions};

/// The functions whose example shows another function: an SLS file does not name them.
const SHOWN_BY_OTHERS: [&str; 2] = ["cmd.call", "cmd.wait_call"];

/// The states that the examples refer to. They change something, so that watching states act.
const WATCHED: [&str; 4] = [
    "/etc/aliases",
    "/etc/app.conf",
    "/etc/nginx/nginx.conf",
    "/etc/peers",
];

/// The pillar that the examples refer to.
const PILLAR: &str = "shop: {port: 8080}\nshop_password: S3cret\nshop_certificate: none\n";

/// Parts of the output that mean that a call was wrong.
static REFUSED: LazyLock<Regex> = LazyLock::new(|| {
    let parts = [
        "Passed invalid arguments",
        "are not valid: ",
        "is an invalid keyword argument",
        "Missing parameter",
        "missing a required argument",
        r": expected an? [^\n]*, got ",
        "An exception occurred",
        "panicked at",
    ];
    Regex::new(&parts.join("|")).unwrap()
});

/// A word of a command line, with its quotes.
static WORD: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"(?:'[^']*'|"[^"]*"|[^\s'"])+"#).unwrap());

/// A word that is a keyword argument.
static KEYWORD: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^([A-Za-z_][\w.-]*)=(?!=)").unwrap());

fn is_refusal(text: &str) -> bool {
    REFUSED.is_match(text).unwrap()
}

/// Returns the words that begin the example of a call.
fn beginnings(function: &Declared) -> Vec<String> {
    let name = &function.name;
    match function.kind {
        Kind::State => Vec::new(),
        // The documentation of `test.echo` is Salt's, because errors show it.
        Kind::Function => vec![format!("salt-call {name}"), format!("salt '*' {name}")],
        Kind::Runner => vec![format!("salt-run {name}")],
        Kind::Wheel => vec![format!(
            "salt-run state.orchestrate_single salt.wheel {name}"
        )],
    }
}

/// Returns the words after the name of the function, without their quotes.
fn arguments(function: &Declared, example: &str) -> Option<Vec<String>> {
    let beginnings = beginnings(function);
    let rest = beginnings
        .iter()
        .find_map(|words| example.strip_prefix(words.as_str()))?;
    let words = WORD.find_iter(rest).map(|found| found.unwrap().as_str());
    (rest.is_empty() || rest.starts_with(' '))
        .then(|| words.map(|word| word.replace(['\'', '"'], "")).collect())
}

/// Returns the fault of a call, if its arguments are not those of the declaration.
fn misfit(function: &Declared, example: &str) -> Option<String> {
    let Some(words) = arguments(function, example) else {
        return Some("it does not begin with the name of the function".to_owned());
    };
    let named = words.iter().filter_map(|word| {
        let found = KEYWORD.captures(word).unwrap()?;
        Some(found[1].to_owned())
    });
    let named: BTreeSet<String> = named.collect();
    let positional = words
        .iter()
        .filter(|word| !KEYWORD.is_match(word).unwrap())
        .count();
    let declared = &function.arguments;
    let unknown = named
        .iter()
        .find(|name| !declared.iter().any(|(declared, _)| declared == *name));
    let missing = declared
        .iter()
        .skip(positional)
        .find(|(name, is_required)| *is_required && !named.contains(name));
    match (unknown, missing) {
        (Some(name), _) if !function.kwargs => Some(format!("it has no argument {name}")),
        (_, Some((name, _))) => Some(format!("the argument {name} is missing")),
        _ if positional > declared.len() && !function.varargs => {
            Some("it has too many arguments".to_owned())
        }
        _ => None,
    }
}

/// Returns whether the example of a state names its function. Only the engine calls `mod_watch` and
/// `mod_beacon`.
fn is_named(function: &Declared, example: &str) -> bool {
    let (module, name) = function.name.split_once('.').unwrap();
    let has =
        |argument: &str| example.contains(&format!(" {module}.")) && example.contains(argument);
    match name {
        "mod_watch" => has("- watch:"),
        "mod_beacon" => has("- beacon: True"),
        _ => example.lines().any(|line| {
            let line = line.trim().trim_end_matches(':');
            line.trim_end_matches(": []") == function.name
        }),
    }
}

#[test]
fn each_function_has_one_example_that_fits_its_declaration() {
    let functions = functions();
    assert!(functions.len() > 2000);
    let mut faults = Vec::new();
    for function in &functions {
        let fault = match function.examples.as_slice() {
            [example] if function.kind == Kind::State => {
                let named = is_named(function, example);
                let shown_by_another = SHOWN_BY_OTHERS.contains(&function.name.as_str());
                (!named && !shown_by_another).then(|| "it does not name the state".to_owned())
            }
            [example] => misfit(function, example),
            others => Some(format!("it has {} examples", others.len())),
        };
        faults.extend(fault.map(|fault| format!("{} {}: {fault}", function.kind, function.name)));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_program_shows_the_examples_of_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("etc")).unwrap();
    fs::write(folder.path().join("etc/minion"), "file_client: local\n").unwrap();
    let functions = functions();
    for (kind, shown_by) in [
        (Kind::State, "sys.state_doc"),
        (Kind::Function, "sys.doc"),
        (Kind::Runner, "sys.runner_doc"),
    ] {
        let words = ["--out=json", shown_by].map(str::to_owned);
        let answer = salt_call(folder.path(), &words).unwrap();
        let docs: Json = serde_json::from_str(&answer.out).unwrap();
        let mut shown = 0;
        for function in functions.iter().filter(|function| function.kind == kind) {
            // Without a master, the runner `jobs` is the execution module, with its examples.
            if kind == Kind::Runner && function.name.starts_with("jobs.") {
                continue;
            }
            let Some(doc) = docs["local"][&function.name].as_str() else {
                continue;
            };
            let lines: Vec<&str> = function.examples[0].lines().map(str::trim).collect();
            let mut doc = doc.lines().map(str::trim);
            let is_shown = lines.iter().all(|line| doc.any(|shown| shown == *line));
            assert!(is_shown, "{shown_by} {}", function.name);
            shown += 1;
        }
        assert!(shown > 50, "{shown_by} shows {shown} functions");
    }
}

fn add(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Writes the tree of the throw-away machine: the files that the examples refer to, and an SLS file
/// for the example of each state.
fn write_tree(folder: &Path, functions: &[Declared]) {
    let watched = WATCHED.map(|path| {
        format!("{path}:\n  file.managed:\n    - contents: new\n    - makedirs: True\n")
    });
    add(folder, "salt/watched.sls", &watched.concat());
    add(folder, "pillar/top.sls", "base: {'*': [shop]}\n");
    add(folder, "pillar/shop.sls", PILLAR);
    let file = Regex::new(r"salt://([\w./-]+)").unwrap();
    for function in functions {
        let example = &function.examples[0];
        let takes_folder = example.contains("file.recurse") || example.contains("_dir ");
        for found in file.captures_iter(example) {
            let inside = if takes_folder { "/file" } else { "" };
            let path = format!("salt/{}{inside}", &found.unwrap()[1]);
            add(folder, &path, "# from the tree\n");
        }
        if function.kind == Kind::State {
            let text = format!("include: [watched]\n{example}\n");
            add(folder, &format!("salt/{}.sls", sls(function)), &text);
        }
    }
}

/// Returns the name of the SLS file of a state's example.
fn sls(function: &Declared) -> String {
    function.name.replace('.', "-")
}

/// Returns commands in groups, one for each module: the functions of a module may wait for each
/// other.
fn by_module(functions: &[Declared], command: impl Fn(&Declared) -> String) -> Vec<Vec<String>> {
    let mut modules: BTreeMap<(Kind, &str), Vec<String>> = BTreeMap::new();
    for function in functions {
        let (module, _) = function.name.split_once('.').unwrap();
        let commands = modules.entry((function.kind, module)).or_default();
        commands.push(command(function));
    }
    modules.into_values().collect()
}

/// The result of a command.
struct Ran {
    output: String,
    /// The standard error, if the command writes it into the file `$0.errors`.
    errors: String,
    code: i32,
}

/// Runs groups of commands on the throw-away machine, each at most for a number of seconds. Those of
/// a group run one after another.
fn run(folder: &Path, groups: &[Vec<String>], seconds: &str) -> Vec<Vec<Ran>> {
    for (at, group) in groups.iter().enumerate() {
        let own = folder.join(format!("{at}.group"));
        fs::create_dir(&own).unwrap();
        for (at, command) in group.iter().enumerate() {
            fs::write(own.join(format!("{at}.sh")), format!("{command}\n")).unwrap();
        }
    }
    let mut command = Command::new(corpus().join("throwaway.sh"));
    let output = in_recorded_environment(command.arg(folder).arg(corpus().join("docs/calls.sh")))
        .env("PINCH", pinch_program())
        .env("SECONDS_MAX", seconds)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the machine failed: {printed}");
    let ran = |at: usize, command: usize| {
        let file = |ending| folder.join(format!("{at}.group/{command}.{ending}"));
        let code = fs::read_to_string(file("code")).unwrap();
        Ran {
            output: String::from_utf8_lossy(&fs::read(file("out")).unwrap()).into_owned(),
            errors: fs::read_to_string(file("sh.errors")).unwrap_or_default(),
            code: code.trim().parse().unwrap(),
        }
    };
    let all = groups.iter().enumerate();
    all.map(|(at, group)| (0..group.len()).map(|command| ran(at, command)).collect())
        .collect()
}

/// Returns the fault that a run in test mode shows.
fn fault_of_run(ran: &Ran) -> Option<String> {
    let answer: Result<Json, _> = serde_json::from_str(&ran.output);
    let returns = answer
        .as_ref()
        .ok()
        .and_then(|all| all["local"].as_object());
    let is_fine = |ret: &Json| {
        let comment = ret["comment"].as_str().unwrap_or_default();
        !is_refusal(comment) && ret.get("warnings").is_none()
    };
    let fine = returns.map_or(0, |all| all.values().filter(|ret| is_fine(ret)).count());
    let is_complete = returns.is_some_and(|all| all.len() == fine) && fine > WATCHED.len();
    (!is_complete).then(|| format!("{}\n{}\nexit code {}", ran.output, ran.errors, ran.code))
}

#[test]
fn the_examples_of_states_have_no_findings_and_run_in_test_mode() {
    if !tests::skip::is_root() {
        return;
    }
    let mut functions = functions();
    functions.retain(|function| function.kind == Kind::State);
    let folder = tempfile::tempdir().unwrap();
    write_tree(&folder.path().join("srv"), &functions);
    let mut commands = by_module(&functions, |function| {
        let sls = sls(function);
        format!("salt-call --out=json state.apply {sls} test=True concurrent=True 2>\"$0.errors\"")
    });
    commands.push(vec!["pinch lint -c /etc/salt /srv/salt".to_owned()]);
    let mut ran = run(folder.path(), &commands, "120");
    let lint = ran.pop().unwrap().remove(0);
    let is_clean = lint.output.starts_with("0 errors and 0 warnings");
    assert!(is_clean && lint.code == 0, "{}", lint.output);
    let all = commands.iter().flatten().zip(ran.iter().flatten());
    let faults: Vec<String> = all
        .filter_map(|(command, ran)| Some(format!("$ {command}\n{}", fault_of_run(ran)?)))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_examples_of_calls_are_accepted() {
    if !tests::skip::is_root() {
        return;
    }
    let mut functions = functions();
    functions.retain(|function| function.kind != Kind::State);
    let folder = tempfile::tempdir().unwrap();
    write_tree(&folder.path().join("srv"), &functions);
    let commands = by_module(&functions, |function| function.examples[0].clone());
    let ran = run(folder.path(), &commands, "5");
    let all = commands.iter().flatten().zip(ran.iter().flatten());
    let refused = all.filter(|(_, ran)| ran.code == 64 || is_refusal(&ran.output));
    let faults: Vec<String> = refused
        .map(|(command, ran)| format!("$ {command}\n{}", ran.output))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
