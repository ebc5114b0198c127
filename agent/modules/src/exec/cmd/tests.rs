use value::{Map, Value};

use crate::testing::{exec, exec_with, json};

#[test]
fn a_template_gets_no_shell_and_a_caller_from_outside_gets_one() {
    let cx = exec();
    let run = |options: &str| {
        cx.call("cmd.run", vec!["echo a | cat".into()], json(options))
            .unwrap()
    };
    assert_eq!(run("{}"), Value::from("a | cat"));
    assert_eq!(run(r#"{"python_shell": true}"#), Value::from("a"));
    assert_eq!(run(r#"{"__pub_jid": "2026"}"#), Value::from("a"));
    let shell = cx.call("cmd.shell", vec!["echo $((1+1))".into()], Map::new());
    assert_eq!(shell.unwrap(), Value::from("2"));
}

#[test]
fn the_return_code_is_asked_for_as_exit_code() {
    let cx = exec();
    let retcode = |options| {
        cx.call("cmd.retcode", vec!["exit 3".into()], json(options))
            .unwrap()
    };
    assert_eq!(retcode(r#"{"python_shell": true}"#), Value::Int(3));
    assert_eq!(cx.retcode(), 3);
    assert_eq!(
        retcode(r#"{"python_shell": true, "ignore_retcode": true}"#),
        Value::Int(3)
    );
    assert_eq!(cx.retcode(), 0);
}

#[test]
fn outputs_are_apart_or_together_or_hidden() {
    let cx = exec();
    let call = |function: &str, options: &str| {
        let options = json(options).with("python_shell", true);
        cx.call(function, vec!["echo a; echo b >&2".into()], options)
            .unwrap()
    };
    assert_eq!(call("cmd.run", "{}"), Value::from("a\nb"));
    assert_eq!(call("cmd.run_stdout", "{}"), Value::from("a"));
    assert_eq!(call("cmd.run_stderr", "{}"), Value::from("b"));
    assert_eq!(call("cmd.run", r#"{"hide_output": true}"#), Value::from(""));
    let all = call("cmd.run_all", "{}");
    assert_eq!(all.get("stderr"), Some(&Value::from("b")));
}

#[test]
fn a_script_is_fetched_run_and_removed() {
    let root = tempfile::tempdir().unwrap();
    let work = tempfile::tempdir().unwrap();
    std::fs::write(
        root.path().join("s.sh"),
        "#!/bin/sh\necho \"$2\" $#\nexit 3\n",
    )
    .unwrap();
    let opts = Map::new().with("root_for_files", root.path().display().to_string());
    let cx = exec_with(opts, Map::new());
    let options = Map::new().with("cwd", work.path().display().to_string());
    let script = |source: &str| {
        let args = vec![source.into(), "x 'y z'".into()];
        cx.call("cmd.script", args, options.clone()).unwrap()
    };
    let result = script("salt://s.sh");
    assert_eq!(result.get("stdout"), Some(&Value::from("y z 2")));
    assert_eq!(result.get("retcode"), Some(&Value::Int(3)));
    assert_eq!(std::fs::read_dir(work.path()).unwrap().count(), 0);
    assert_eq!(
        script("salt://nosuch").get("cache_error"),
        Some(&Value::from(true))
    );
}

#[test]
fn code_runs_by_its_interpreter() {
    let code = vec!["sh".into(), "echo $1".into(), Value::Null, "arg".into()];
    let result = exec().call("cmd.exec_code", code, Map::new()).unwrap();
    assert_eq!(result, Value::from("arg"));
}

#[test]
fn programs_that_the_configuration_forbids_do_not_run() {
    let opts = json(r#"{"cmd_blacklist_glob": ["rm *"]}"#);
    let cx = exec_with(opts, Map::new());
    let options = json(r#"{"__pub_jid": "1"}"#);
    let error = cx
        .call("cmd.run", vec!["rm /nosuch".into()], options)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "The shell command \"rm /nosuch\" is not permitted"
    );
}
