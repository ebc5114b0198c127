//! Endless documents: an early error, with little memory.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tests::program::program;
use tests::scratch::Scratch;

/// The factor for a debug build, which is slower and larger, and for a busy machine.
const SLOWER: u32 = if cfg!(debug_assertions) { 10 } else { 4 };
const LONGEST: Duration = Duration::from_secs(1);
const MOST_KIB: u64 = 64 << 10;

/// Applies an SLS, which must be refused with these words.
fn refused(sls: &str, words: &str) {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("srv/salt/endless.sls"), sls).unwrap();
    let started = Instant::now();
    let output = Command::new("/usr/bin/time")
        .args(["--format", "peak %M"])
        .args(program())
        .arg("-c")
        .arg(scratch.path().join("etc"))
        .args(["--local", "state.apply", "endless"])
        .stdin(Stdio::null())
        .output()
        .expect("cannot run /usr/bin/time: apt-get install time");
    let took = started.elapsed();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(words), "{words:?} is missing in {said:.2000}");
    assert!(said.contains("[ERROR"), "{said:.2000}");
    // It is never taken for an empty document.
    let answer = String::from_utf8_lossy(&output.stdout);
    assert!(answer.contains("Data failed to compile"), "{answer:.2000}");
    assert!(took < LONGEST * SLOWER, "it took {took:?}");
    let peak = said.lines().find_map(|line| line.strip_prefix("peak "));
    let peak: u64 = peak.unwrap().parse().unwrap();
    assert!(peak < MOST_KIB, "it took {peak} KiB");
}

/// Returns ten levels of lists, each with ten aliases of the previous one.
fn bomb(indent: &str) -> String {
    let mut text = format!("{indent}a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for n in 1..10 {
        let items = vec![format!("*a{}", n - 1); 10].join(", ");
        writeln!(text, "{indent}a{n}: &a{n} [{items}]").unwrap();
    }
    text
}

const ALIASES: &str = "nodes with its aliases expanded";
const STEPS: &str = "executes too many steps";

#[test]
fn an_alias_bomb_in_a_states_arguments() {
    refused(&format!("x:\n  test.nop:\n{}", bomb("    - ")), ALIASES);
}

#[test]
fn an_alias_bomb_that_a_template_loads() {
    let name = "x:\n  test.nop:\n    - name: {{ bomb | json }}\n";
    let sls = format!(
        "{{% load_yaml as bomb %}}\n{}{{% endload %}}\n{name}",
        bomb("")
    );
    refused(&sls, ALIASES);
}

#[test]
fn a_list_that_a_template_doubles_for_ever() {
    let doubled = "{% set x = x + x %}\n".repeat(60);
    refused(
        &format!("{{% set x = ['y'] %}}\n{doubled}x:\n  test.nop:\n    - name: {{{{ x }}}}\n"),
        "a list of more than 500000 items",
    );
    refused(
        "{% set x = ['y'] %}{% for n in range(1000) %}{% do x.extend(x) %}{% endfor %}\nx:\n  test.nop\n",
        "a list of more than 500000 items",
    );
}

#[test]
fn a_loop_of_a_hundred_million() {
    let sls = "{% for i in range(10000) %}{% for j in range(10000) %}{% set x = i %}{% endfor %}{% endfor %}\n";
    refused(sls, STEPS);
    refused(
        "{% for i in range(100000000) %}{% endfor %}\n",
        "Range too big",
    );
}

#[test]
fn ten_thousand_levels() {
    let nested = format!("x: {}{}\n", "[".repeat(10_000), "]".repeat(10_000));
    refused(&nested, "nested deeper than 200 levels");
    let expression = format!("{{{{ {}1{} }}}}\n", "(".repeat(10_000), ")".repeat(10_000));
    refused(&expression, "recursion limits");
}

#[test]
fn a_document_of_a_hundred_million_bytes() {
    refused(
        &"x: y # a comment\n".repeat(6_000_000),
        "a template may have",
    );
}
