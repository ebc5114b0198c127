//! The cloud driver `saltify`: machines that exist get their minions by ssh.

use std::fs;

use super::{Host, Site};
use crate::fleet::Fleet;

/// Writes the provider, the profile and the map of three hosts. Returns the path of the map.
fn configure(site: &Site, hosts: &[Host; 3], fleet: &Fleet) -> String {
    let etc = fleet.path("master/etc");
    let write = |name: &str, text: &str| fs::write(etc.join(name), text).unwrap();
    let config = fs::read_to_string(etc.join("master")).unwrap();
    let port = config
        .lines()
        .find_map(|line| line.strip_prefix("ret_port: "));
    let port = port.unwrap();
    write(
        "cloud.providers",
        &format!(
            "here:\n  driver: saltify\n  minion: {{master: 127.0.0.1, master_port: {port}, enable_fqdns_grains: False}}\n"
        ),
    );
    let host_key = fs::read_to_string(site.path("hostkey.pub")).unwrap();
    let host_key: Vec<&str> = host_key.split_whitespace().take(2).collect();
    let profile = format!(
        "edge:\n  provider: here\n  ssh_host: 127.0.0.1\n  ssh_username: root\n  private_key: {}\n  host_key: {}\n  grains: {{place: edge}}\n",
        site.path("key").display(),
        host_key.join(" "),
    );
    write("cloud.profiles", &profile);
    let machines = hosts.iter().enumerate();
    let machines =
        machines.map(|(number, host)| format!("  - edge{number}: {{ssh_port: {}}}\n", host.port));
    write("map", &format!("edge:\n{}", machines.collect::<String>()));
    etc.join("map").display().to_string()
}

#[test]
fn three_hosts_get_their_minions_by_ssh_and_one_is_removed() {
    let Some(site) = Site::new() else { return };
    let hosts = [0; 3].map(|_| Host::start(&site, &[]));
    let fleet = Fleet::with(&site.for_master());
    let map = format!("path={}", configure(&site, &hosts, &fleet));
    let made = fleet.run(&[
        "salt-run",
        "--out=json",
        "cloud.map_run",
        &map,
        "parallel=True",
    ]);
    assert_eq!(made.rc, Some(0), "{}\n{}", made.out, fleet.logs());
    assert_eq!(
        made.out.matches("\"deployed\": true").count(),
        3,
        "{}",
        made.out
    );
    let places = fleet.run(&[
        "salt",
        "--out=json",
        "--static",
        "edge*",
        "grains.get",
        "place",
    ]);
    assert_eq!(places.out.matches("\"edge\"").count(), 3, "{}", places.out);
    let listed = fleet.run(&["salt-cloud", "-Q", "--out=json"]).out;
    let names = ["edge0", "edge1", "edge2"];
    assert!(names.iter().all(|name| listed.contains(name)), "{listed}");
    let file = hosts[0].path("etc/salt/minion.d/cloud.conf");
    assert!(fs::read_to_string(&file).unwrap().contains("enroll_token"));

    let again = fleet.run(&[
        "salt-run",
        "--out=json",
        "cloud.profile",
        "prof=edge",
        "instances=edge0",
    ]);
    assert_eq!(again.rc, Some(1), "{}", again.out);
    assert!(
        again
            .out
            .contains("edge0 already exists under here:saltify"),
        "{}",
        again.out
    );

    let gone = fleet.run(&["salt-cloud", "-y", "--out=json", "-d", "edge1"]);
    assert_eq!(gone.rc, Some(0), "{}", gone.out);
    assert!(gone.out.contains("edge1 was destroyed."), "{}", gone.out);
    let keys = fleet.run(&["salt-key", "-l", "acc"]).out;
    assert!(!keys.contains("edge1") && keys.contains("edge2"), "{keys}");
    assert!(!hosts[1].path("etc/salt/minion.d/cloud.conf").exists());
}

#[test]
fn a_host_that_refuses_the_login_is_an_error_and_leaves_no_machine() {
    let Some((site, host)) = Site::with_host() else {
        return;
    };
    let fleet = Fleet::with(&site.for_master());
    let etc = fleet.path("master/etc");
    fs::write(
        etc.join("cloud.providers"),
        "here: {driver: saltify, minion: {master: 127.0.0.1}}\n",
    )
    .unwrap();
    let other = Site::new().unwrap();
    let profile = format!(
        "edge: {{provider: here, ssh_host: 127.0.0.1, ssh_port: {}, ssh_username: root, private_key: {}}}\n",
        host.port,
        other.path("key").display()
    );
    fs::write(etc.join("cloud.profiles"), profile).unwrap();
    let made = fleet.run(&[
        "salt-run",
        "--out=json",
        "cloud.profile",
        "prof=edge",
        "instances=edge0",
    ]);
    assert_eq!(made.rc, Some(1), "{}", made.out);
    assert!(made.out.contains("saltify: "), "{}", made.out);
    assert_eq!(
        fleet
            .run(&["salt-run", "--out=json", "cloud.orphans"])
            .out
            .trim(),
        "{}"
    );
}
