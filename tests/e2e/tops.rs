//! `master_tops`: the SLS of a command and of custom modules, merged with the top files.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tests::program::salt_call;
use tests::scratch::Scratch;

use super::pillars::call;

/// A source in Python: its SLS depend on the id and a grain.
const TOP: &str = "def top(**kwargs):\n    return {'base': ['own', 'a', kwargs['opts']['id'] + '.' + kwargs['grains']['role']]}\n";

/// Returns a machine with these options and the top file `base: '*': [a, b]`. Its command prints
/// the text.
fn machine(options: &str, printed: &str) -> Scratch {
    let scratch = Scratch::new();
    let own = fs::read_to_string(tests::scratch::corpus().join("minion")).unwrap();
    let options = options.replace("NODES", &scratch.path().join("nodes").display().to_string());
    scratch.write(
        "etc/minion",
        &format!("{own}grains: {{role: web}}\n{options}"),
    );
    scratch.write("srv/salt/top.sls", "base:\n  '*': [a, b]\n");
    for name in ["a", "b", "c", "own"] {
        let text = format!("{name}:\n  test.nop: []\n");
        scratch.write(format!("srv/salt/{name}.sls"), &text);
    }
    scratch.write("nodes", &format!("#!/bin/sh\ncat <<END\n{printed}\nEND\n"));
    let nodes = scratch.path().join("nodes");
    fs::set_permissions(nodes, fs::Permissions::from_mode(0o755)).unwrap();
    scratch
}

fn top(options: &str, printed: &str) -> Value {
    call(&machine(options, printed), &["state.show_top"])
}

#[test]
fn classes_of_a_command_follow_the_top_file_or_precede_it() {
    let nodes = "master_tops: {ext_nodes: NODES}\n";
    let first = format!("{nodes}master_tops_first: True\n");
    assert_eq!(
        top(nodes, "classes: [c, a]"),
        json!({"base": ["a", "b", "c"]})
    );
    assert_eq!(
        top(&first, "classes: [c, a]"),
        json!({"base": ["c", "a", "b"]})
    );
    assert_eq!(
        top(nodes, "classes: {c: {x: 1}}\nenvironment: dev"),
        json!({"base": ["a", "b"], "dev": ["c"]})
    );
    assert_eq!(
        top(nodes, "parameters: {x: 1}"),
        json!({"base": ["a", "b"]})
    );
    // The command gets the id as its last argument.
    assert_eq!(
        top(nodes, "classes: [\"$1\", \"$#\"]"),
        json!({"base": ["a", "b", "m1", "1"]})
    );
}

#[test]
fn custom_sources_get_the_options_and_the_grains_of_the_minion() {
    let scratch = machine(
        "master_tops: {mine: {}, ext_nodes: NODES}\n",
        "classes: [c]",
    );
    scratch.write("root/var/cache/salt/minion/extmods/tops/mine.py", TOP);
    assert_eq!(
        call(&scratch, &["state.show_top"]),
        json!({"base": ["a", "b", "own", "m1.web", "c"]})
    );
}

#[test]
fn the_modules_of_the_sources_can_be_copied_before_they_are_there() {
    let scratch = machine("master_tops: {mine: {}}\n", "");
    scratch.write("srv/salt/_tops/mine.py", TOP);
    assert_eq!(
        call(&scratch, &["saltutil.sync_tops"]),
        json!(["tops.mine"])
    );
    assert_eq!(
        call(&scratch, &["state.show_top"]),
        json!({"base": ["a", "b", "own", "m1.web"]})
    );
}

#[test]
fn a_source_that_fails_is_an_error_and_no_state_runs() {
    let nodes = "master_tops: {ext_nodes: NODES}\n";
    for (options, printed, reason) in [
        (nodes, "[a]", "must print a dictionary, but printed a list"),
        (nodes, "$(exit 3)\nclasses: {", "master_tops: ext_nodes: "),
        (nodes, "classes: [{x: 1}]", "are not a list of names"),
        (
            "master_tops: {ext_nodes: /nonexistent/nodes}\n",
            "",
            "master_tops: ext_nodes: ",
        ),
        (
            "master_tops: {cobbler: {}}\n",
            "",
            "master_tops: cobbler: unknown source; expected ext_nodes or a file of _tops",
        ),
    ] {
        let scratch = machine(options, printed);
        let words = ["state.highstate", "--out=json"].map(str::to_owned);
        let answer = salt_call(scratch.path(), &words).unwrap();
        assert_ne!(answer.rc, Some(0), "{options}");
        assert!(answer.out.contains(reason), "{options}: {}", answer.out);
        assert!(!answer.out.contains("test_|-"), "{}", answer.out);
    }
}
