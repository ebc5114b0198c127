//! A network in which a test is alone, so that it can drop packets.

use std::io::Write;
use std::process::{Command, Stdio};

use tests::skip::is_root;

use super::Turn;

/// Set in the process that has its own network.
const INSIDE: &str = "PINCH_OWN_NETWORK";

/// Runs a command that must succeed.
pub(crate) fn run(words: &[&str]) {
    let status = Command::new(words[0]).args(&words[1..]).status().unwrap();
    assert!(status.success(), "{words:?}: {status}");
}

/// Runs the body of a test in a process that has its own network and its own mounts, which is this
/// program again with only that test. Does nothing if the user is not root. Only this process waits
/// for the machine with `turn`: the locks of that process are for its own fleets.
pub(super) fn in_own_network(test: &str, turn: fn() -> Turn, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        run(&["ip", "link", "set", "lo", "up"]);
        return body();
    }
    if !is_root() {
        return;
    }
    let _turn = turn();
    let status = Command::new("unshare")
        .args(["--net", "--mount", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", test])
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(status.success());
}

/// Replaces the rules of this network for packets that are sent, in the language of `nft`.
pub(crate) fn drop_packets(rules: &str) {
    let text = format!(
        "table inet test {{}}\ndelete table inet test\ntable inet test {{\nchain output {{\ntype filter hook output priority 0;\n{rules}}}\n}}\n"
    );
    let mut nft = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    nft.stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    assert!(nft.wait().unwrap().success(), "{text}");
}
