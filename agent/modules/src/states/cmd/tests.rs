use value::python;

use crate::testing::{apply, exec, json};

/// Returns the result, comment and changes (without the pid) in the form in which Salt printed them
/// for the same call.
fn ran(function: &str, kwargs: &str, test: bool) -> (Option<bool>, String, String) {
    let mut cx = exec();
    cx.test = test;
    let kwargs = json(kwargs)
        .with("shell", "/bin/sh")
        .with("output_loglevel", "quiet");
    match apply(&cx, function, kwargs) {
        Ok(ret) => {
            let mut changes = ret.changes.as_map().cloned().unwrap_or_default();
            changes.remove("pid");
            (ret.result, ret.comment, python::repr(&changes.into()))
        }
        Err(error) => (Some(false), error.to_string(), "{}".into()),
    }
}

fn check(kwargs: &str, result: Option<bool>, comment: &str, changes: &str) {
    let wanted = (result, comment.to_owned(), changes.to_owned());
    assert_eq!(ran("cmd.run", kwargs, false), wanted, "{kwargs}");
}

#[test]
fn a_command_succeeds_or_fails_by_its_return_code() {
    check(
        r#"{"name": "echo hi; echo er >&2; exit 3"}"#,
        Some(false),
        "Command \"echo hi; echo er >&2; exit 3\" run",
        "{'retcode': 3, 'stdout': 'hi', 'stderr': 'er'}",
    );
    check(
        r#"{"name": "exit 4", "success_retcodes": [4, 5]}"#,
        Some(true),
        "Command \"exit 4\" run",
        "{'retcode': 0, 'stdout': '', 'stderr': ''}",
    );
    check(
        r#"{"name": "echo hi", "hide_output": true}"#,
        Some(true),
        "Command \"echo hi\" run",
        "{'retcode': 0, 'stdout': '', 'stderr': ''}",
    );
    check(
        r#"{"name": "sleep 3", "timeout": 1, "ignore_timeout": true}"#,
        Some(true),
        "Command \"sleep 3\" run",
        "{'stdout': 'sleep 3 : Timed out after 1 seconds', 'stderr': '', 'retcode': 0}",
    );
}

#[test]
fn what_cannot_run_is_a_comment() {
    for (kwargs, comment) in [
        (
            r#"{"name": "true", "cwd": "/nosuch"}"#,
            "Desired working directory \"/nosuch\" is not available",
        ),
        (
            r#"{"name": "true", "env": "foo"}"#,
            "Invalidly-formatted 'env' parameter. See documentation.",
        ),
        (
            r#"{"name": "true", "runas": "nosuchuser"}"#,
            "User 'nosuchuser' is not available",
        ),
        (
            r#"{"name": "true", "success_retcodes": ["a"]}"#,
            "success_retcodes must be a list of integers",
        ),
    ] {
        check(kwargs, Some(false), comment, "{}");
    }
}

#[test]
fn a_stateful_command_says_itself_what_it_changed() {
    check(
        r#"{"stateful": true, "name": "echo a; echo \"changed=yes comment='hi there' x=y\""}"#,
        Some(true),
        "hi there",
        "{'changed': 'yes', 'x': 'y', 'retcode': 0, 'stdout': 'a', 'stderr': ''}",
    );
    check(
        r#"{"stateful": true, "name": "echo '{\"changed\": true, \"comment\": \"c\", \"k\": [1]}'"}"#,
        Some(true),
        "c",
        "{'changed': True, 'k': [1], 'retcode': 0, 'stdout': '', 'stderr': ''}",
    );
    check(
        r#"{"stateful": true, "name": "echo changed=no"}"#,
        Some(true),
        "",
        "{}",
    );
    check(
        r#"{"stateful": true, "name": "echo '[1]'"}"#,
        Some(false),
        "script JSON output must be a JSON object (e.g., {})!",
        "{}",
    );
    check(
        r#"{"stateful": true, "name": "echo nonsense"}"#,
        Some(false),
        "Failed parsing script output! Stdout must be JSON or a line of name=value pairs.",
        "{'retcode': 0, 'stdout': 'nonsense', 'stderr': ''}",
    );
    check(
        r#"{"stateful": true, "name": "echo err >&2"}"#,
        Some(true),
        "err",
        "{}",
    );
}

#[test]
fn test_mode_runs_nothing_but_the_command_that_is_there_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let kwargs = format!(r#"{{"name": "touch {}"}}"#, mark.display());
    let (result, comment, changes) = ran("cmd.run", &kwargs, true);
    assert_eq!(result, None);
    assert_eq!(
        comment,
        format!(
            "Command \"touch {}\" would have been executed",
            mark.display()
        )
    );
    assert_eq!(changes, format!("{{'cmd': 'touch {}'}}", mark.display()));
    assert!(!mark.exists());
    let with_test_name =
        r#"{"name": "false", "stateful": [{"test_name": "echo x; echo changed=yes"}]}"#;
    let (result, _, changes) = ran("cmd.run", with_test_name, true);
    assert_eq!(result, None);
    assert_eq!(
        changes,
        "{'changed': 'yes', 'retcode': 0, 'stdout': 'x', 'stderr': ''}"
    );
}

#[test]
fn a_waiting_command_runs_when_it_is_watched() {
    assert_eq!(
        ran("cmd.wait", r#"{"name": "echo w"}"#, false),
        (Some(true), String::new(), "{}".into())
    );
    let (_, comment, changes) = ran(
        "cmd.mod_watch",
        r#"{"name": "echo w", "sfun": "wait"}"#,
        false,
    );
    assert_eq!(comment, "Command \"echo w\" run");
    assert_eq!(changes, "{'retcode': 0, 'stdout': 'w', 'stderr': ''}");
    let wrong = ran("cmd.mod_watch", r#"{"name": "x", "sfun": "foo"}"#, false);
    assert_eq!(
        wrong.1,
        "cmd.foo does not work with the watch requisite, please use cmd.wait or cmd.wait_script"
    );
}

#[test]
fn a_missing_script_is_told() {
    let (result, comment, changes) = ran("cmd.script", r#"{"name": "salt://nosuch.sh"}"#, false);
    assert_eq!(result, Some(false));
    assert_eq!(
        comment,
        "Unable to cache script salt://nosuch.sh from saltenv 'base'"
    );
    assert_eq!(
        changes,
        "{'retcode': 1, 'stdout': '', 'stderr': '', 'cache_error': True}"
    );
}
