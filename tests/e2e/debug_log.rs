//! Tests of what `-l debug` and `-l trace` write about a run.

use std::process::Command;

use tests::program::{in_recorded_environment, pinch_program};
use tests::scratch::Scratch;

const SLS: &str = "\
{% set word = 'hello' %}
made:
  test.succeed_with_changes: []
run:
  cmd.run:
    - name: 'true'
    - require: [{test: made}]
skipped:
  test.nop:
    - onchanges: [{cmd: never}]
never:
  cmd.run:
    - name: echo {{ word }}
    - unless: 'true'
fails:
  test.fail_without_changes: []
after:
  test.nop:
    - require: [{test: fails}]
";

/// Returns the lines of the log of `state.highstate` at a level.
fn log(level: &str) -> Vec<String> {
    let scratch = Scratch::new();
    scratch.write("srv/salt/top.sls", "base:\n  '*': [web]\n");
    scratch.write("srv/salt/web.sls", SLS);
    let mut command = Command::new(pinch_program());
    let output = in_recorded_environment(&mut command)
        .args(["salt-call", "--local", "-l", level, "-c"])
        .arg(scratch.path().join("etc"))
        .args(["state.highstate", "--out=json"])
        .output()
        .unwrap();
    let text = scratch.masked(&String::from_utf8(output.stderr).unwrap());
    text.lines().map(str::to_owned).collect()
}

fn count(lines: &[String], parts: &[&str]) -> usize {
    let has_all = |line: &&String| parts.iter().all(|part| line.contains(part));
    lines.iter().filter(has_all).count()
}

#[test]
fn debug_shows_files_templates_decisions_and_commands() {
    let lines = log("debug");
    for (parts, wanted) in [
        (&["read the configuration @ENV@/etc/minion"][..], 1),
        (&["file_roots of base: @ENV@/srv/salt"], 1),
        (&["file_roots base: web.sls is @ENV@/srv/salt/web.sls"], 1),
        (&["the top files assign to this minion in base: web"], 1),
        (
            &[
                "rendered SLS 'base:web' from @ENV@/srv/salt/web.sls in ",
                " ms",
            ],
            1,
        ),
        (&["state made (test.succeed_with_changes) runs"], 1),
        (
            &["state run (cmd.run) runs (require test: made changed)"],
            1,
        ),
        (
            &[
                "state skipped (test.nop) is skipped: ",
                "(onchanges cmd: never unchanged)",
            ],
            1,
        ),
        (
            &["state never (cmd.run): skipped, unless: unless condition is true"],
            1,
        ),
        (
            &[
                "state after (test.nop) does not run, because a requisite failed (require test: fails failed)",
            ],
            1,
        ),
        (
            &[
                "command 'true' of user ",
                " in directory ",
                ": exit status 0, ",
            ],
            2,
        ),
        (&["the rendered text of"], 0),
    ] {
        assert_eq!(count(&lines, parts), wanted, "{parts:?}: {lines:#?}");
    }
}
