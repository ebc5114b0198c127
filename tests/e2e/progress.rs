//! Tests of the progress reports during a run: on a terminal, in plain lines, and as
//! `--out=ndjson`.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value as Json;
use tempfile::TempDir;
use tests::program::pinch_program;
use tests::terminal::terminal;

const SLS: &str = r#"
a rather long name that will not fit into the columns of such a narrow window:
  cmd.run:
    - name: sleep 2
broken:
  cmd.run:
    - name: "printf 'out\\033[31m\\n'; echo 'what went wrong' >&2; exit 3"
after:
  cmd.run:
    - name: "true"
    - require:
      - cmd: broken
"#;

/// A temporary tree and the command for a state run in it.
struct Tree(TempDir);

impl Tree {
    fn new(sls: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("etc")).unwrap();
        std::fs::create_dir(dir.path().join("srv")).unwrap();
        std::fs::write(dir.path().join("srv/web.sls"), sls).unwrap();
        Self(dir)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(pinch_program());
        let at = |name: &str| self.0.path().join(name).display().to_string();
        command
            .args(["salt-call", "--local", "-l", "quiet", "-c", &at("etc")])
            .arg(format!("--file-root={}", at("srv")))
            .arg(format!("--cachedir={}", at("cache")))
            .args(words)
            .env_remove("NO_COLOR")
            .env("TERM", "xterm")
            .stdin(Stdio::null());
        command
    }

    fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs a command with a terminal of this width as stderr. Returns the output on the terminal and on
/// stdout.
fn on_terminal(command: Command, columns: u16) -> (String, String) {
    run_on_terminal(command, columns, false)
}

/// Runs a command with a terminal as stderr, and also as stdout if `is_both`.
fn run_on_terminal(mut command: Command, columns: u16, is_both: bool) -> (String, String) {
    let (mut master, slave) = terminal(columns);
    let stdout = match is_both {
        true => Stdio::from(slave.try_clone().unwrap()),
        false => Stdio::piped(),
    };
    let child = command.stderr(slave).stdout(stdout).spawn().unwrap();
    // `command` keeps the other end of the terminal open until it is dropped.
    drop(command);
    let mut written = Vec::new();
    // Reading at the end of a terminal returns an error.
    let _ = master.read_to_end(&mut written);
    let output = child.wait_with_output().unwrap();
    (text(&written), text(&output.stdout))
}

/// Returns the lines on the screen after the terminal has processed all of `written`.
fn screen(written: &str) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    let mut rest = written;
    while let Some(sign) = rest.chars().next() {
        rest = &rest[sign.len_utf8()..];
        match sign {
            '\n' => lines.push(String::new()),
            '\r' => {}
            '\x1b' => {
                let (arguments, after) = rest[1..]
                    .split_once(|sign: char| sign.is_ascii_alphabetic())
                    .unwrap();
                match &rest[1 + arguments.len()..][..1] {
                    "A" => {
                        let up: usize = arguments.parse().unwrap_or(1);
                        // The sequence then clears the line to which it moves.
                        lines.truncate(lines.len() - up);
                        lines.last_mut().unwrap().clear();
                    }
                    "J" | "m" => {}
                    other => panic!("unexpected sequence {other}"),
                }
                rest = after;
            }
            sign => lines.last_mut().unwrap().push(sign),
        }
    }
    lines
}

#[test]
fn a_terminal_shows_what_runs_and_keeps_what_has_finished() {
    let tree = Tree::new(SLS);
    let words = ["state.apply", "web", "--out=json"];
    let (written, out) = on_terminal(tree.command(&words), 60);
    let running: Vec<&str> = written
        .lines()
        .filter(|line| line.contains("running ") && line.contains("a rather"))
        .collect();
    assert!(!running.is_empty(), "{written}");
    for line in running {
        let bare = line.rsplit("\x1b[J").next().unwrap();
        assert!(bare.trim_end().chars().count() < 60, "{line}");
        assert!(
            bare.contains("  cmd.run  a rather long name") && bare.contains('~'),
            "{line}"
        );
    }
    assert!(written.contains("0 of 3 states, "), "{written}");
    let kept = screen(&written).join("\n");
    assert!(!kept.contains("running"), "{kept}");
    let parts = [
        "changed",
        "a rather long name that will not fit into the columns of such a narrow window",
    ];
    tests::program::assert_in_order(&kept, &parts);
    let failure = [
        "failed",
        "broken",
        "Command \"printf",
        "stdout: out?[31m",
        "what went wrong",
    ];
    tests::program::assert_in_order(&kept, &failure);
    tests::program::assert_in_order(
        &kept,
        &[
            "failed",
            "after",
            "One or more requisite failed: web.broken",
        ],
    );
    tests::program::assert_in_order(&kept, &["3 states in ", ": 1 changed, 2 failed"]);
    assert!(written.contains("\x1b[0;1;31mfailed"), "{written}");
    let data: Json = serde_json::from_str(&out).unwrap();
    assert_eq!(data["local"].as_object().unwrap().len(), 3);
}

#[test]
fn a_terminal_shows_a_failure_without_a_log_line_and_then_only_what_matters() {
    let sls = "slow:\n  cmd.run: [{name: sleep 1}]\nfine:\n  test.nop: []\nbroken:\n  test.fail_without_changes: []\n";
    let tree = Tree::new(sls);
    let run = |words: &[&str]| {
        let mut all = vec!["state.apply", "web", "-l", "error", "--no-color"];
        all.extend(words);
        run_on_terminal(tree.command(&all), 80, true).0
    };
    let written = run(&[]);
    assert!(!written.contains("[ERROR"), "{written}");
    assert!(written.contains("failed"), "{written}");
    for (id, is_there) in [("slow", true), ("broken", true), ("fine", false)] {
        assert_eq!(
            written.contains(&format!("ID: {id}")),
            is_there,
            "{written}"
        );
    }
    let written = run(&["--state-verbose=True"]);
    assert!(written.contains("ID: fine"), "{written}");
}

#[test]
fn a_terminal_without_colours_or_abilities_gets_none() {
    let tree = Tree::new("slow:\n  cmd.run:\n    - name: sleep 1\n");
    let mut command = tree.command(&["state.apply", "web"]);
    command.env("NO_COLOR", "1");
    let (written, _) = on_terminal(command, 80);
    assert!(
        written.contains("running ") && !written.contains("\x1b[0;"),
        "{written}"
    );
    let mut dumb = tree.command(&["state.apply", "web"]);
    dumb.env("TERM", "dumb");
    assert_eq!(on_terminal(dumb, 80).0, "");
    let none = tree.command(&["state.apply", "web", "--progress=none"]);
    assert_eq!(on_terminal(none, 80).0, "");
}

#[test]
fn elsewhere_nothing_is_told_unless_plain_lines_are_asked_for() {
    let tree = Tree::new(SLS);
    let quiet = tree.output(&["state.apply", "web"]);
    assert_eq!(text(&quiet.stderr), "");
    let plain = tree.output(&["state.apply", "web", "--progress=plain"]);
    let told = text(&plain.stderr);
    let parts = [
        "changed ",
        "  cmd.run  a rather long name",
        "\nfailed ",
        "  cmd.run  broken\n    Command",
        "    stderr: what went wrong\n",
        "failed ",
        "after\n",
        "3 states in ",
        ": 1 changed, 2 failed\n",
    ];
    tests::program::assert_in_order(&told, &parts);
    assert!(!told.contains('\x1b'), "{told}");
    assert_eq!(
        text(&quiet.stdout).lines().count(),
        text(&plain.stdout).lines().count()
    );
}

#[test]
fn what_is_applied_is_shown_once_it_happens_and_long_steps_say_what_they_wait_for() {
    let sls = "slow:\n  cmd.run:\n    - name: sleep 12\nquick:\n  cmd.run:\n    - name: 'true'\n";
    let tree = Tree::new(sls);
    let at = |name: &str| tree.0.path().join(name).display().to_string();
    let pinch = |words: &[&str]| {
        let mut command = Command::new(pinch_program());
        command.args(words).env("TERM", "dumb").output().unwrap()
    };
    let plan = pinch(&[
        "plan",
        "-l",
        "quiet",
        "-c",
        &at("etc"),
        &format!("--file-root={}", at("srv")),
        &format!("--cachedir={}", at("cache")),
        "web",
        "-o",
        &at("plan"),
    ]);
    assert_eq!(plan.status.code(), Some(2), "{plan:?}");
    let done = pinch(&["apply", "-l", "quiet", "--progress=plain", &at("plan")]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let told = text(&done.stderr);
    let parts = [
        "running ",
        "  cmd.run  slow: waiting for ",
        "\nchanged ",
        "  cmd.run  slow\n",
        "  cmd.run  quick\n",
        "2 states in ",
        ": 2 changed\n",
    ];
    tests::program::assert_in_order(&told, &parts);
    // The preceding test run is not reported.
    assert_eq!(told.matches("cmd.run  quick").count(), 1, "{told}");
    assert_eq!(told.matches("waiting for").count(), 1, "{told}");
    assert!(text(&done.stdout).contains("Succeeded: 2"), "{done:?}");
}

/// Checks a value against a schema; supports only the keywords of our schemas.
fn holds(schema: &Json, value: &Json) -> bool {
    let is = |name: &Json| match name.as_str().unwrap() {
        "object" => value.is_object(),
        "string" => value.is_string(),
        "integer" => value.is_i64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("unknown type {other}"),
    };
    schema
        .as_object()
        .unwrap()
        .iter()
        .all(|(word, rule)| match word.as_str() {
            "oneOf" => {
                rule.as_array()
                    .unwrap()
                    .iter()
                    .filter(|one| holds(one, value))
                    .count()
                    == 1
            }
            "const" => rule == value,
            "enum" => rule.as_array().unwrap().contains(value),
            "type" => rule
                .as_array()
                .map_or_else(|| is(rule), |all| all.iter().any(is)),
            "required" => {
                let mut names = rule.as_array().unwrap().iter();
                names.all(|name| value.get(name.as_str().unwrap()).is_some())
            }
            "properties" => rule
                .as_object()
                .unwrap()
                .iter()
                .all(|(name, rule)| value.get(name).is_none_or(|value| holds(rule, value))),
            "$schema" | "$id" | "title" | "description" => true,
            other => panic!("unknown rule {other}"),
        })
}

/// Parses the lines of an output, and checks each against the published schema.
fn events(output: &Output) -> Vec<Json> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/schemas/ndjson.schema.json");
    let schema: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let out = text(&output.stdout);
    let events: Vec<Json> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for event in &events {
        assert!(holds(&schema, event), "{event}");
    }
    assert!(!events.is_empty());
    events
}

fn kinds(events: &[Json]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect()
}

#[test]
fn each_event_of_a_run_is_an_object_of_the_published_schema() {
    let tree = Tree::new(SLS);
    let output = tree.output(&["state.apply", "web", "--out=ndjson"]);
    assert_eq!(output.status.code(), Some(1));
    let all = events(&output);
    let expected = [
        "run_started",
        "state_started",
        "state_finished",
        "state_started",
        "state_finished",
        "state_finished",
        "run_finished",
    ];
    assert_eq!(kinds(&all), expected);
    assert_eq!(all[6]["counts"]["failed"], 2);
    assert_eq!(all[6]["success"], false);
    assert_eq!(all[4]["return"]["changes"]["retcode"], 3);
    let file = tree.0.path().join("events");
    let named = format!("--out-file={}", file.display());
    let output = tree.output(&["test.ping", "--out=ndjson", &named]);
    assert_eq!(text(&output.stdout), "");
    assert!(
        std::fs::read_to_string(file)
            .unwrap()
            .contains("\"return\": true")
    );
}

#[test]
fn what_is_no_run_or_was_refused_is_one_object() {
    let tree = Tree::new("a:\n  file.manged: []\n");
    let ping = events(&tree.output(&["test.ping", "--out=ndjson"]));
    assert_eq!(
        (kinds(&ping), &ping[0]["return"]),
        (vec!["returned"], &Json::Bool(true))
    );
    let refused = tree.output(&["state.apply", "nosuch", "--out=ndjson"]);
    assert_eq!(refused.status.code(), Some(1));
    let refused = events(&refused);
    assert_eq!(
        (kinds(&refused), &refused[0]["retcode"]),
        (vec!["returned"], &1.into())
    );
}
