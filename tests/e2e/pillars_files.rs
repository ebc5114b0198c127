//! External pillars from repositories of git, from files of `stack` and from custom modules that fail: no
//! state runs.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tests::git::git;
use tests::program::salt_call;
use tests::scratch::Scratch;

use crate::pillars::{call, stopped};

/// A machine with a state that writes a file.
fn machine() -> Scratch {
    let scratch = Scratch::new();
    scratch.write(
        "srv/salt/case.sls",
        "@TMP@/made:\n  file.managed:\n    - contents: x\n",
    );
    scratch
}

fn configure(scratch: &Scratch, options: Value, kind: &str, source: &Value) {
    let mut options = options;
    options["ext_pillar"] = json!([{kind: source}]);
    scratch.write("etc/minion.d/case.conf", &options.to_string());
}

/// Asserts that the state runs with the data of a source.
fn assert_applies(scratch: &Scratch, kind: &str, source: &Value, key: &str) {
    configure(scratch, json!({}), kind, source);
    assert_ne!(call(scratch, &["pillar.get", key]), json!(""), "{source}");
    call(scratch, &["state.apply", "case"]);
    fs::remove_file(scratch.tmp().join("made")).unwrap();
}

/// Makes a branch of a pillar with this top file and this SLS `site`.
fn branch(folder: &Path, name: &str, top: &str, site: &str) {
    git(folder, &["checkout", "--quiet", "--orphan", name]);
    fs::write(folder.join("top.sls"), top).unwrap();
    fs::write(folder.join("site.sls"), site).unwrap();
    git(folder, &["add", "--all"]);
    git(folder, &["commit", "--quiet", "--message", name]);
}

#[test]
fn no_state_runs_when_a_repository_fails() {
    let scratch = machine();
    let folder = scratch.path().join("repository");
    fs::create_dir(&folder).unwrap();
    git(&folder, &["init", "--quiet", "--initial-branch=first"]);
    let top = "base:\n  '*':\n    - site\n";
    branch(&folder, "good", top, "site: x\n");
    branch(&folder, "broken", top, "site: {{ 1 +\n");
    branch(&folder, "missing", "base: {'*': [nosuch]}\n", "");
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIwUB+GxrVlA1BYrHU1m5nn2PnLQmOGu1Xa5bEvQqkNq";
    let of = |branch: &str, options: Value| {
        let url = format!("{branch} file://{}", folder.display());
        let mut all = vec![json!({"env": "base"})];
        all.extend(options.as_array().cloned().unwrap_or_default());
        json!([{url: all}])
    };
    let at_once = json!({"git_pillar_update_interval": 0});
    let away = json!(["good file:///nosuch/repository"]);
    let failures = [
        (away, "does not appear to be a git repository"),
        (
            of("nosuch", json!([])),
            "it has no branch, tag or commit nosuch",
        ),
        (
            of("good", json!([{"root": "nowhere"}])),
            "has no folder nowhere",
        ),
        (
            of("good", json!([{"rot": "x"}])),
            "the option rot is unknown",
        ),
        (
            of("good", json!([{"verify": key}])),
            "no key of `verify` has signed good",
        ),
        (
            of("good", json!([{"name": "limited"}, {"max_size": 0}])),
            "the repository is larger than 0 MiB",
        ),
        (json!("good"), "its value must be a list of repositories"),
    ];
    for (source, sentence) in failures {
        configure(&scratch, at_once.clone(), "git", &source);
        let (said, _) = stopped(&scratch, "git");
        assert!(said.contains(sentence), "{sentence}: {said}");
    }
    for (name, sentence) in [
        ("broken", "Rendering SLS 'site' failed"),
        (
            "missing",
            "Specified SLS 'nosuch' in environment 'base' is not available",
        ),
    ] {
        configure(&scratch, at_once.clone(), "git", &of(name, json!([])));
        let words = ["state.apply", "case"].map(str::to_owned);
        let answer = salt_call(scratch.path(), &words).unwrap();
        assert!(answer.out.contains(sentence), "{}", answer.out);
        assert!(!scratch.tmp().join("made").exists(), "{}", answer.out);
    }
    assert_applies(&scratch, "git", &of("good", json!([])), "site");
}

#[test]
fn no_state_runs_when_a_stack_fails() {
    let scratch = machine();
    for (path, text) in [
        ("good.cfg", "good.yml\nminions/{{ minion_id }}.yml\n"),
        ("good.yml", "site: {a: 1}\n"),
        ("missing.cfg", "good.yml\nnosuch.yml\n"),
        ("outside.cfg", "../etc/minion\n"),
        ("template.cfg", "{{ nosuch() }}\n"),
        ("yaml.cfg", "broken.yml\n"),
        ("broken.yml", "site: [1\n"),
        ("list.cfg", "list.yml\n"),
        ("list.yml", "- site\n"),
        ("strategy.cfg", "good.yml\nstrategy.yml\n"),
        ("strategy.yml", "site: {__: nosuch}\n"),
    ] {
        scratch.write(format!("stack/{path}"), text);
    }
    let at = |name: &str| json!(scratch.path().join("stack").join(name));
    for (source, sentence) in [
        (at("nosuch.cfg"), "nosuch.cfg: No such file or directory"),
        (at("missing.cfg"), "stack/nosuch.yml does not exist"),
        (at("outside.cfg"), "../etc/minion is outside of the folder"),
        (at("template.cfg"), "Stack pillar template render error in "),
        (at("yaml.cfg"), "Stack pillar yaml parsing error in "),
        (at("list.cfg"), "it must be a dictionary, but is a list"),
        (at("strategy.cfg"), "Unknown strategy \"nosuch\""),
        (
            json!({"role": {"web": "/x"}}),
            "it has the key role; expected",
        ),
        (json!("stack.cfg"), "must be an absolute path"),
    ] {
        configure(&scratch, json!({}), "stack", &source);
        let (said, _) = stopped(&scratch, "stack");
        assert!(said.contains(sentence), "{sentence}: {said}");
    }
    assert_applies(&scratch, "stack", &at("good.cfg"), "site");
}

const OWN: &str = "
import os
import time


def ext_pillar(minion_id, pillar, how, **kwargs):
    if how == 'raise':
        raise ValueError('the source is away')
    if how == 'exit':
        os._exit(3)
    if how == 'sleep':
        time.sleep(60)
    if how == 'list':
        return [minion_id]
    return {'site': how}
";

#[test]
fn no_state_runs_when_a_custom_pillar_fails() {
    let scratch = machine();
    scratch.write("srv/salt/_pillar/own.py", OWN);
    scratch.write("srv/salt/_pillar/broken.py", "def ext_pillar(:\n");
    configure(&scratch, json!({}), "cmd_json", &json!("echo {}"));
    let synced = call(&scratch, &["saltutil.sync_pillar"]);
    assert_eq!(synced, json!(["pillar.broken", "pillar.own"]));
    for (kind, source, sentence) in [
        ("own", json!("raise"), "the source is away"),
        ("own", json!("exit"), "ended unexpectedly (exit status: 3)"),
        ("own", json!("sleep"), "took longer than 2 seconds"),
        (
            "own",
            json!("list"),
            "it must return a dictionary, but returned a list",
        ),
        ("own", json!(["a", "b"]), "ext_pillar() takes"),
        ("broken", json!("x"), "invalid syntax"),
        ("nosuch", json!("x"), "unknown external pillar"),
    ] {
        configure(&scratch, json!({"custom_module_timeout": 2}), kind, &source);
        let (said, _) = stopped(&scratch, kind);
        assert!(said.contains(sentence), "{sentence}: {said}");
    }
    assert_applies(&scratch, "own", &json!("good"), "site");
}
