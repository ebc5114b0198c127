//! OpenWrt's configuration, with its own program: Debian has none, so it is compiled from the sources that the package `libuci-sys` carries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};
use tests::program::salt_call_in_throwaway;
use tests::scratch::Scratch;

const MANIFEST: &str = "[package]\nname = \"sources\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lib]\npath = \"lib.rs\"\n\
    [dependencies]\nlibuci-sys = \"=1.0.5\"\n[workspace]\n";

const COMPILE: &str = r#"set -e
mkdir -p include && ln -sfn "$1/libubox" include/libubox && : > include/uci_config.h
cd "$1"
cc -Os -std=gnu99 -w -D_GNU_SOURCE -DUCI_PREFIX='"/usr"' -I"$2/include" -Iuci -o "$2/uci" \
    uci/cli.c uci/libuci.c uci/file.c uci/util.c uci/delta.c uci/parse.c uci/blob.c \
    libubox/blob.c libubox/blobmsg.c libubox/utils.c libubox/avl.c libubox/avl-cmp.c
"#;

/// OpenWrt's own program.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<(Scratch, PathBuf)> = OnceLock::new();
    let (_, program) = PROGRAM.get_or_init(|| {
        let scratch = Scratch::new();
        scratch.write("Cargo.toml", MANIFEST);
        scratch.write("lib.rs", "");
        let sources = sources(&scratch.path().join("Cargo.toml"));
        let folder = scratch.path();
        let mut compile = Command::new("sh");
        compile.current_dir(folder).args(["-c", COMPILE, "sh"]);
        assert!(compile.arg(sources).arg(folder).status().unwrap().success());
        let program = folder.join("uci");
        (scratch, program)
    });
    program
}

/// Where cargo keeps the package's sources.
fn sources(manifest: &Path) -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "metadata",
        "--quiet",
        "--format-version=1",
        "--manifest-path",
    ]);
    let answer = cargo.arg(manifest).output().unwrap();
    let said = String::from_utf8_lossy(&answer.stderr);
    assert!(
        answer.status.success(),
        "cargo cannot fetch libuci-sys: {said}"
    );
    let told: Value = serde_json::from_slice(&answer.stdout).unwrap();
    let packages = told["packages"].as_array().unwrap();
    let package = packages
        .iter()
        .find(|package| package["name"] == "libuci-sys");
    let manifest = PathBuf::from(package.unwrap()["manifest_path"].as_str().unwrap());
    manifest.parent().unwrap().to_owned()
}

const NETWORK: &str = "config interface 'loopback'\n\toption proto 'static'\n\nconfig interface 'lan'\n\toption proto 'dhcp'\n\toption old 'x'\n\
    \nconfig rule\n\toption dest '10.0.0.0/8'\n\nconfig rule\n\toption dest '10.1.0.0/16'\n";

/// A machine with the program, and a network.
fn machine(sls: &str) -> Scratch {
    let scratch = Scratch::new();
    fs::copy(program(), scratch.changeable("/usr/local/bin/uci")).unwrap();
    fs::write(scratch.changeable("/etc/config/network"), NETWORK).unwrap();
    scratch.write("srv/salt/case.sls", sls);
    scratch
}

fn call(scratch: &Scratch, words: &str) -> Value {
    let words: Vec<String> = ["--out=json"]
        .into_iter()
        .chain(words.split(' '))
        .map(str::to_owned)
        .collect();
    let answer = salt_call_in_throwaway(scratch.path(), &words).unwrap();
    let told: Result<Value, _> = serde_json::from_str(&answer.out);
    told.unwrap_or_else(|_| panic!("{}", answer.out))["local"].clone()
}

/// The returns in the order of their names.
fn apply(scratch: &Scratch, words: &str) -> Vec<Value> {
    let all = call(scratch, &format!("state.apply case{words}"));
    let rets = all.as_object().unwrap_or_else(|| panic!("{all}"));
    rets.values().cloned().collect()
}

fn file(scratch: &Scratch, name: &str) -> String {
    fs::read_to_string(scratch.changed(&format!("/etc/config/{name}"))).unwrap()
}

const SLS: &str = r#"
network.lan:
  uci.present:
    - type: interface
    - options:
        proto: static
        ipaddr: 192.168.2.1
        dns: [1.1.1.1, "it's 9"]
        delegate: False
        old: null
network.loopback.ipaddr:
  uci.present:
    - value: 127.0.0.1
allow-ping:
  uci.present:
    - name: firewall
    - type: rule
    - match: {name: Allow-Ping}
    - options: {proto: icmp, limit: 5}
network:
  uci.absent:
    - type: rule
    - match: {dest: 10.0.0.0/8}
"#;

const AFTER: &str = "\nconfig interface 'loopback'\n\toption proto 'static'\n\toption ipaddr '127.0.0.1'\n\n\
    config interface 'lan'\n\toption proto 'static'\n\toption ipaddr '192.168.2.1'\n\tlist dns '1.1.1.1'\n\tlist dns 'it'\\''s 9'\n\toption delegate '0'\n\n\
    config rule\n\toption dest '10.1.0.0/16'\n\n";

#[test]
fn sections_and_options_are_made_changed_and_removed_once() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let scratch = machine(SLS);
    let would = apply(&scratch, " test=True");
    assert!(would.iter().all(|ret| ret["result"].is_null()), "{would:?}");
    assert_eq!(file(&scratch, "network"), NETWORK);
    let did = apply(&scratch, "");
    assert!(did.iter().all(|ret| ret["result"] == true), "{did:?}");
    for (would, did) in would.iter().zip(&did) {
        assert_eq!(would["changes"], did["changes"]);
    }
    assert_eq!(
        did[1]["changes"]["network.lan.dns"],
        json!({"old": null, "new": ["1.1.1.1", "it's 9"]})
    );
    assert_eq!(
        did[0]["changes"]["firewall.@rule"],
        json!({"old": null, "new": "rule"})
    );
    assert_eq!(file(&scratch, "network"), AFTER);
    let rule =
        "\nconfig rule\n\toption name 'Allow-Ping'\n\toption proto 'icmp'\n\toption limit '5'\n\n";
    assert_eq!(file(&scratch, "firewall"), rule);
    let again = apply(&scratch, "");
    assert!(
        again
            .iter()
            .all(|ret| ret["result"] == true && ret["changes"] == json!({})),
        "{again:?}"
    );
}

#[test]
fn what_an_earlier_run_could_not_commit_is_committed() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let scratch = machine("network.lan.proto:\n  uci.present:\n    - value: static\n");
    assert_eq!(call(&scratch, "uci.set network.lan.proto static"), true);
    assert_eq!(
        call(&scratch, "uci.changes network"),
        "network.lan.proto='static'"
    );
    assert_eq!(file(&scratch, "network"), NETWORK);
    let did = apply(&scratch, "");
    assert_eq!(did[0]["changes"], json!({"network": "committed"}));
    let network = file(&scratch, "network");
    assert!(
        network.contains("option proto 'static'\n\n") && !network.contains("dhcp"),
        "{network}"
    );
    assert_eq!(call(&scratch, "uci.changes"), "");
    assert_eq!(
        call(&scratch, "uci.get network.@rule[-1].dest"),
        "10.1.0.0/16"
    );
    assert_eq!(
        call(&scratch, "uci.show network")["lan"],
        json!({".type": "interface", "proto": "static", "old": "x"})
    );
}

#[test]
fn what_uci_cannot_hold_is_refused_and_nothing_is_changed() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for (state, said) in [
        (
            "- name: network.wan\n    - options: {a: b}",
            "There is no section network.wan, and without",
        ),
        (
            "- name: network.lan\n    - options: {a: {b: c}}",
            "is no value of uci",
        ),
        (
            "- name: network.lan\n    - options: {a b: c}",
            "a b is no name of an option",
        ),
        (
            "- name: network.w-n\n    - type: interface",
            "network.w-n was not changed: ",
        ),
        (
            "- name: network\n    - match: {dest: x}",
            "`match` needs the `type`",
        ),
        ("- name: network.lan=x", "network.lan=x is no key of uci"),
    ] {
        let scratch = machine(&format!("case:\n  uci.present:\n    {state}\n"));
        let did = apply(&scratch, "");
        let comment = did[0]["comment"].as_str().unwrap();
        assert!(
            did[0]["result"] == false && comment.contains(said),
            "{comment}"
        );
        assert_eq!(file(&scratch, "network"), NETWORK);
        assert_eq!(call(&scratch, "uci.changes network"), "");
    }
}
