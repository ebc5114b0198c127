//! The driver `libvirt` with a simulated hypervisor of libvirt.

use std::process::{Command, Stdio};

use serde_json::json;
use tests::hypervisor::Hypervisor;
use tests::program::{in_recorded_environment, pinch_program};

use super::House;

/// Runs `salt-cloud` with the programs of the hypervisor, and returns its data.
fn cloud(house: &House, hypervisor: &Hypervisor, words: &[&str]) -> serde_json::Value {
    let folder = hypervisor.program().parent().unwrap().display().to_string();
    let usual = std::env::var("PATH").unwrap_or_default();
    let output = in_recorded_environment(&mut Command::new(pinch_program()))
        .args(["salt-cloud", "--out=json", "-c"])
        .arg(house.path("etc"))
        .args(words)
        .env("PATH", format!("{folder}:{usual}"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {error}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|problem| panic!("{problem}: {error}"))
}

#[test]
fn domains_are_made_listed_stopped_and_removed_with_their_disks() {
    let Some(hypervisor) = Hypervisor::start() else {
        return;
    };
    let house = House::new();
    let url = hypervisor.url();
    house.write(
        "etc/cloud.providers",
        &format!("here:\n  driver: libvirt\n  url: '{url}'\n  wait_for_ip_interval: 0.2\n"),
    );
    house.write(
        "etc/cloud.profiles.d/web.conf",
        "web:\n  provider: here\n  base_domain: base\n  deploy: none\n",
    );
    let made = cloud(&house, &hypervisor, &["-P", "-p", "web", "web1", "web2"]);
    for name in ["web1", "web2"] {
        assert_eq!(made[name]["state"], "running", "{made}");
        assert_eq!(made[name]["image"], "base", "{made}");
    }
    assert_eq!(cloud(&house, &hypervisor, &["--orphans"]), json!({}));
    let stopped = cloud(&house, &hypervisor, &["-y", "-a", "stop", "web1"]);
    let text = &stopped["here"]["libvirt"]["web1"]["Stopped"];
    assert_eq!(text, "web1 was stopped.", "{stopped}");
    let listed = cloud(&house, &hypervisor, &["-Q"]);
    assert_eq!(listed["here"]["libvirt"]["web1"]["state"], "shutdown");
    cloud(&house, &hypervisor, &["-y", "-d", "web1", "web2"]);
    let volumes = hypervisor.virsh(&["vol-list", "default-pool"]);
    assert!(
        volumes.contains("base.qcow2") && !volumes.contains("web"),
        "{volumes}"
    );
    let domains = hypervisor.virsh(&["list", "--all", "--name"]);
    assert!(!domains.contains("web"), "{domains}");
}
