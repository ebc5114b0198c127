//! OpenWrt's configuration with the real `uci`: Debian does not have it, so it is compiled from the
//! sources in the crate `libuci-sys`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};
use tests::program::{copy_program, salt_call_in_throwaway};
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

/// Returns the path of the real `uci`.
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

/// Returns the folder where cargo keeps the package's sources.
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

/// Creates a machine with the program and a network.
fn machine(sls: &str) -> Scratch {
    let scratch = Scratch::new();
    copy_program(program(), &scratch.changeable("/usr/local/bin/uci"));
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

/// Applies states, and returns their returns in the order of their names.
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
    if !tests::skip::is_root() {
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
    if !tests::skip::is_root() {
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
    if !tests::skip::is_root() {
        return;
    }
    for (state, said) in [
        (
            "- name: network.wan\n    - options: {a: b}",
            "Section network.wan does not exist",
        ),
        (
            "- name: network.lan\n    - options: {a: {b: c}}",
            "is not a valid uci value",
        ),
        (
            "- name: network.lan\n    - options: {a b: c}",
            "invalid option name a b",
        ),
        (
            "- name: network.w-n\n    - type: interface",
            "network.w-n was not changed: ",
        ),
        (
            "- name: network\n    - match: {dest: x}",
            "`match` requires the `type`",
        ),
        (
            "- name: network.lan=x",
            "network.lan=x is not a valid uci key",
        ),
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

/// A stand-in for OpenWrt's own programs, which records its calls.
const NOTES: &str = "#!/bin/sh\necho \"${0##*/} $*\" >>/var/ran.log\n";

const INTERFACES: &str = r#"
lan:
  network.managed:
    - proto: static
    - ipaddr: 10.1.0.7
    - netmask: 255.255.255.0
    - gateway: 10.1.0.1
    - ipv6ipaddr: 2001:db8::7/64
    - dns: [1.1.1.1, 8.8.8.8]
    - mtu: 1400
lan routes:
  network.routes:
    - name: lan
    - routes:
      - {ipaddr: 10.2.0.0, netmask: 255.255.0.0, gateway: 10.1.0.3}
      - {ipaddr: '2001:db8:1::/48', gateway: '2001:db8::3', metric: 7}
br-guest:
  network.managed:
    - type: bridge
    - proto: dhcp
    - ipv6proto: dhcp
    - ports: eth1 eth2
    - stp: off
eth0.5:
  network.managed:
    - type: vlan
    - proto: none
    - enabled: False
wan:
  network.managed:
    - proto: pppoe
"#;

const INTERFACES_AFTER: &str = "
config interface 'loopback'
\toption proto 'static'

config interface 'lan'
\toption old 'x'
\toption device 'lan0'
\toption proto 'static'
\tlist ipaddr '10.1.0.7/24'
\toption gateway '10.1.0.1'
\tlist ip6addr '2001:db8::7/64'
\tlist dns '1.1.1.1'
\tlist dns '8.8.8.8'

config rule
\toption dest '10.0.0.0/8'

config rule
\toption dest '10.1.0.0/16'

config interface 'wan'
\toption ifname 'eth9'
\toption username 'me'
\toption proto 'pppoe'

config device
\toption name 'lan0'
\tlist ports 'eth3'
\toption mtu '1400'

config route 'lan_route1'
\toption interface 'lan'
\toption target '10.2.0.0/16'
\toption gateway '10.1.0.3'

config route6 'lan_route2'
\toption interface 'lan'
\toption target '2001:db8:1::/48'
\toption gateway '2001:db8::3'
\toption metric '7'

config interface 'br_guest'
\toption proto 'dhcp'
\toption device 'br-guest'

config interface 'br_guest_6'
\toption proto 'dhcpv6'
\toption device '@br_guest'

config device 'br_guest_dev'
\toption name 'br-guest'
\toption type 'bridge'
\tlist ports 'eth1'
\tlist ports 'eth2'
\toption stp '0'

config interface 'eth0_5'
\toption proto 'none'
\toption auto '0'
\toption device 'eth0.5'

config device 'eth0_5_dev'
\toption name 'eth0.5'
\toption type '8021q'
\toption ifname 'eth0'
\toption vid '5'

";

/// Creates a machine with interfaces like those of OpenWrt.
fn router(sls: &str) -> Scratch {
    let scratch = machine(sls);
    let network = fs::read_to_string(scratch.changeable("/etc/config/network")).unwrap();
    let network = network.replace("\toption old 'x'\n", "\toption old 'x'\n\toption device 'lan0'\n\toption ipaddr '192.168.1.1'\n\toption netmask '255.255.255.0'\n");
    let wan = "\nconfig interface 'wan'\n\toption ifname 'eth9'\n\toption username 'me'\n\nconfig device\n\toption name 'lan0'\n\tlist ports 'eth3'\n";
    fs::write(scratch.changeable("/etc/config/network"), network + wan).unwrap();
    scratch.write(
        "etc/minion.d/grains.conf",
        "grains: {os_family: OpenWrt, os: OpenWrt}\n",
    );
    for program in ["/usr/sbin/ifup", "/usr/sbin/ifdown", "/etc/init.d/network"] {
        let path = scratch.changeable(program);
        fs::write(&path, NOTES).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    scratch
}

#[test]
fn interfaces_and_routes_of_a_router_are_made_once_and_what_else_they_hold_stays() {
    if !tests::skip::is_root() {
        return;
    }
    let scratch = router(INTERFACES);
    let before = file(&scratch, "network");
    let would = apply(&scratch, " test=True");
    assert!(would.iter().all(|ret| ret["result"].is_null()), "{would:?}");
    assert_eq!(file(&scratch, "network"), before);
    let did = apply(&scratch, "");
    assert!(did.iter().all(|ret| ret["result"] == true), "{did:?}");
    assert_eq!(file(&scratch, "network"), INTERFACES_AFTER);
    // None of these interfaces comes up here: they are restarted, and nothing is written.
    let again = apply(&scratch, "");
    for ret in &again {
        assert_eq!(ret["result"], true);
        let changes = ret["changes"].as_object().unwrap();
        assert!(changes.keys().all(|key| key == "status"), "{again:?}");
    }
    assert_eq!(file(&scratch, "network"), INTERFACES_AFTER);
    let ran = fs::read_to_string(scratch.changed("/var/ran.log")).unwrap();
    let up = ["ifup lan", "network reload", "ifup br_guest", "ifup wan"];
    let again = ["ifup lan", "ifup br_guest", "ifup wan"];
    let all: Vec<&str> = up.into_iter().chain(again).collect();
    assert_eq!(ran.lines().collect::<Vec<_>>(), all);
}

#[test]
fn a_router_loses_what_is_not_wanted_any_more() {
    if !tests::skip::is_root() {
        return;
    }
    let scratch = router(INTERFACES);
    let mut by_hand = file(&scratch, "network");
    for number in 1..=4 {
        by_hand += &format!(
            "\nconfig route\n\toption interface 'loopback'\n\toption target '10.{number}.0.0/16'\n"
        );
    }
    fs::write(scratch.changeable("/etc/config/network"), by_hand).unwrap();
    apply(&scratch, "");
    let less = r#"
by hand:
  network.routes:
    - name: loopback
    - routes:
      - {ipaddr: 10.9.0.0, netmask: 255.255.0.0}
lan routes:
  network.routes:
    - name: lan
    - routes:
      - {ipaddr: 10.3.0.0, netmask: 255.255.0.0, gateway: 10.1.0.4}
br-guest:
  network.managed:
    - type: bridge
    - proto: dhcp
    - ports: [eth1]
eth0.5:
  network.managed:
    - proto: dhcp
"#;
    scratch.write("srv/salt/case.sls", less);
    let did = apply(&scratch, "");
    assert!(did.iter().all(|ret| ret["result"] == true), "{did:?}");
    let network = file(&scratch, "network");
    // Of four sections without a name only the first remains.
    let (_, by_hand) = network.split_once("config route\n").unwrap();
    let (by_hand, _) = by_hand.split_once("\nconfig route").unwrap();
    assert_eq!(
        by_hand,
        "\toption interface 'loopback'\n\toption target '10.9.0.0/16'\n"
    );
    let (_, routes) = network.split_once("config route 'lan").unwrap();
    let expected = "_route1'\n\toption interface 'lan'\n\toption target '10.3.0.0/16'\n\toption gateway '10.1.0.4'\n\n\
        config interface 'br_guest'\n\toption proto 'dhcp'\n\toption device 'br-guest'\n\n\
        config device 'br_guest_dev'\n\toption name 'br-guest'\n\toption type 'bridge'\n\tlist ports 'eth1'\n\n\
        config interface 'eth0_5'\n\toption device 'eth0.5'\n\toption proto 'dhcp'\n\n";
    assert_eq!(routes, expected);
}

#[test]
fn what_a_router_cannot_have_is_refused_and_what_others_have_begun_is_left_to_them() {
    if !tests::skip::is_root() {
        return;
    }
    for (settings, said) in [
        (
            "- type: bond\n    - slaves: eth1",
            "OpenWrt supports interface types bridge, eth, vlan; got 'bond'",
        ),
        (
            "- ipaddr: 10.0.0.1",
            "No netmask supplied for address 10.0.0.1",
        ),
        (
            "- up_cmds: [date]",
            "OpenWrt does not support these network.managed options: up_cmds",
        ),
        ("- device: a b", "is not the name of an interface"),
    ] {
        let scratch = router(&format!("lan:\n  network.managed:\n    {settings}\n"));
        let did = apply(&scratch, "");
        let comment = did[0]["comment"].as_str().unwrap();
        assert!(
            did[0]["result"] == false && comment.contains(said),
            "{comment}"
        );
    }
    let scratch = router("lan:\n  network.managed:\n    - proto: dhcp\n    - mtu: 1300\n");
    let before = file(&scratch, "network");
    call(&scratch, "uci.set network.lan.old y");
    let did = apply(&scratch, "");
    let comment = did[0]["comment"].as_str().unwrap();
    assert!(
        comment.contains("network has uncommitted changes"),
        "{comment}"
    );
    assert_eq!(file(&scratch, "network"), before);
    assert_eq!(call(&scratch, "uci.changes network"), "network.lan.old='y'");
}
