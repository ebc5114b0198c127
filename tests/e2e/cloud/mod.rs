//! Machines of clouds: `salt-cloud`, and the functions of the runner, the module and the states `cloud`.

mod balanced;
mod ec2;
mod libvirt;
mod openstack;
mod recorded;
mod scale;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use tests::program::{Answer, in_recorded_environment, pinch_program};
use tests::scratch::Scratch;

use crate::fleet::Fleet;

/// The driver that the tests use.
const PAPER: &str = include_str!("paper.py");

/// A provider, its profiles and a map.
const PROVIDERS: &str = "paper:\n  driver: paper\n  file: @DIR@/machines\n  refused: [web9]\n";
const PROFILES: &str = "web:\n  provider: paper\n  image: debian\n  size: small\nlarge:\n  extends: web\n  size: large\n";

/// A machine without a master, with a cloud of paper.
struct House {
    scratch: Scratch,
}

impl House {
    fn new() -> Self {
        let scratch = Scratch::new();
        let house = Self { scratch };
        house.write("etc/cloud.providers", PROVIDERS);
        house.write("etc/cloud.profiles.d/web.conf", PROFILES);
        let here = house.scratch.path().display().to_string();
        house.write(
            "etc/master",
            &format!("root_dir: {here}\nextension_modules: {here}/extmods\ncachedir: {here}/cache\nsock_dir: {here}/run\nfile_roots: {{base: [{here}/srv/salt]}}\n"),
        );
        house.write("extmods/clouds/paper.py", PAPER);
        // The folder of a minion, whose root is another one.
        house.write("root/extmods/clouds/paper.py", PAPER);
        house
    }

    fn path(&self, below: &str) -> PathBuf {
        self.scratch.path().join(below)
    }

    fn write(&self, below: &str, text: &str) {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let here = self.scratch.path().display().to_string();
        fs::write(path, text.replace("@DIR@", &here)).unwrap();
    }

    /// Runs `salt-cloud` or another program with these words.
    fn run(&self, words: &[&str]) -> Answer {
        let (program, rest) = words.split_first().unwrap();
        let output = in_recorded_environment(&mut Command::new(pinch_program()))
            .args([program, "-c"])
            .arg(self.path("etc"))
            .args(rest)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let both = [output.stdout, output.stderr].concat();
        Answer {
            out: String::from_utf8_lossy(&both).into_owned(),
            rc: output.status.code(),
        }
    }

    fn cloud(&self, words: &[&str]) -> Answer {
        self.run(&[&["salt-cloud", "--out=json"], words].concat())
    }

    /// Runs `salt-cloud`, which must succeed, and returns its data.
    fn data(&self, words: &[&str]) -> Value {
        let answer = self.cloud(words);
        assert_eq!(answer.rc, Some(0), "{words:?}: {}", answer.out);
        serde_json::from_str(&answer.out).unwrap_or_else(|error| panic!("{error}: {}", answer.out))
    }

    fn machines(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("machines")).unwrap_or_else(|_| "{}".to_owned());
        let machines: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap();
        let mut names: Vec<String> = machines.keys().cloned().collect();
        names.sort();
        names
    }
}

#[test]
fn machines_are_made_listed_and_destroyed() {
    let house = House::new();
    let made = house.data(&["-p", "large", "web1", "web2"]);
    assert_eq!(made["web1"]["size"], "large");
    assert_eq!(made["web2"]["id"], "m-2");
    let listed = house.data(&["-Q"]);
    assert_eq!(listed["paper"]["paper"]["web1"]["state"], "running");
    let again = house.cloud(&["-p", "web", "web1"]);
    assert_eq!(again.rc, Some(1), "{}", again.out);
    assert!(
        again.out.contains("web1 already exists under paper:paper"),
        "{}",
        again.out
    );
    let stopped = house.data(&["-y", "-a", "stop", "web1"]);
    assert_eq!(stopped["paper"]["paper"]["web1"], true);
    assert_eq!(
        house.data(&["-f", "greet", "paper", "who=me"])["paper"]["paper"]["hello"],
        "me"
    );
    assert_eq!(
        house.data(&["--list-images", "paper"])["paper"]["paper"]["debian"]["version"],
        12
    );
    let gone = house.data(&["-y", "-d", "web1"]);
    assert_eq!(gone["paper"]["paper"]["web1"]["destroyed"], "web1");
    assert_eq!(house.machines(), ["web2"]);
    let none = house.run(&["salt-cloud", "-y", "-d", "nosuch"]);
    assert_eq!(none.out.trim(), "No machines were found to be destroyed");
}

#[test]
fn an_error_of_one_machine_fails_the_call_and_leaves_nothing() {
    let house = House::new();
    let answer = house.cloud(&["-P", "-p", "web", "web8", "web9", "../x"]);
    assert_eq!(answer.rc, Some(1), "{}", answer.out);
    assert!(answer.out.contains("no quota for web9"), "{}", answer.out);
    assert!(
        answer.out.contains("is no id of a minion"),
        "{}",
        answer.out
    );
    assert_eq!(house.machines(), ["web8"]);
    assert_eq!(house.data(&["--orphans"]), serde_json::json!({}));
    let unknown = house.cloud(&["-p", "nosuch", "web1"]);
    assert_eq!(unknown.rc, Some(1));
    assert!(
        unknown.out.contains("Profile nosuch is not defined"),
        "{}",
        unknown.out
    );
    let unknown = house.cloud(&["--list-sizes", "nosuch"]);
    let text = "No cloud providers matched 'nosuch'. Available selections: paper";
    assert!(unknown.out.contains(text), "{}", unknown.out);
}

#[test]
fn a_map_makes_what_is_missing_and_destroys_the_rest_only_if_it_may() {
    let house = House::new();
    house.write(
        "map",
        "web:\n  - web1\n  - web2:\n      size: tiny\n      requires: [web1]\n",
    );
    house.data(&["-p", "web", "old"]);
    let map = house.path("map").display().to_string();
    let made = house.data(&["-y", "-m", &map]);
    assert_eq!(made["web2"]["size"], "tiny");
    let again = house.data(&["-y", "-m", &map]);
    assert_eq!(again["web1"]["Message"], "Already running.");
    let queried = house.data(&["-Q", "-m", &map]);
    assert!(queried["paper"]["paper"].get("old").is_none(), "{queried}");
    let hard = house.cloud(&["-y", "-H", "-m", &map]);
    assert!(
        hard.out.contains("must explicitly be enabled"),
        "{}",
        hard.out
    );
    house.write("etc/cloud", "enable_hard_maps: True\n");
    house.data(&["-y", "-H", "-m", &map]);
    assert_eq!(house.machines(), ["web1", "web2"]);
    house.write("loop", "include: loop\n");
    let own = house.cloud(&["-y", "-m", &house.path("loop").display().to_string()]);
    assert!(own.out.contains("includes itself"), "{}", own.out);
    let ring = "web:\n  - a: {requires: [b]}\n  - b: {requires: [a]}\n";
    house.write("ring", ring);
    let ring = house.cloud(&["-y", "-m", &house.path("ring").display().to_string()]);
    assert!(
        ring.out
            .contains("Uh-oh, that cloud map has a dependency loop!"),
        "{}",
        ring.out
    );
    house.data(&["-y", "-d", "-m", &map]);
    assert!(house.machines().is_empty());
}

#[test]
fn a_question_is_asked_before_machines_are_destroyed() {
    let house = House::new();
    house.data(&["-p", "web", "web1"]);
    let asked = house.run(&["salt-cloud", "-d", "web1"]);
    let text = "The following virtual machines are set to be destroyed:\n  paper:\n    paper:\n      web1\n";
    assert!(
        asked.out.contains(text) && asked.out.contains("Proceed? [N/y] "),
        "{}",
        asked.out
    );
    assert_eq!(house.machines(), ["web1"]);
}

/// The example of Salt's page about orchestrations, under which a server has the name of the pillar.
const PROVISION: &str = "{% set servers = salt['pillar.get']('servers', 'test') %}\n{% set master = salt['pillar.get']('master', 'salt') %}\ncreate_instance:\n  salt.runner:\n    - name: cloud.profile\n    - prof: cloud-centos\n    - provider: cloud-centos\n    - instances:\n      - {{ servers }}\n    - opts:\n        minion:\n          master: {{ master }}\n";

fn minion_of(house: &House) {
    let text = fs::read_to_string(house.path("etc/minion")).unwrap();
    if !text.contains("extension_modules") {
        house.write(
            "etc/minion",
            &format!("{text}\nextension_modules: /extmods\n"),
        );
    }
}

#[test]
fn the_orchestration_of_salts_page_makes_a_machine_without_a_master() {
    let house = House::new();
    minion_of(&house);
    house.write(
        "etc/cloud.profiles.d/centos.conf",
        "cloud-centos: {provider: paper, image: centos}\n",
    );
    // The orchestration copies the custom modules of the tree.
    house.write("srv/salt/_clouds/paper.py", PAPER);
    let roots = house.path("srv/salt");
    house.write("srv/salt/orch/provision.sls", PROVISION);
    let pillar = "pillar={\"servers\": \"newsystem1\",\"master\": \"mymaster\"}";
    let root = format!("--file-root={}", roots.display());
    let call = [
        "salt-call",
        "--local",
        &root,
        "--out=json",
        "state.orchestrate",
        "orch.provision",
        pillar,
    ];
    let done = house.run(&call);
    assert_eq!(done.rc, Some(0), "{}", done.out);
    assert!(
        done.out
            .contains("Runner function 'cloud.profile' executed."),
        "{}",
        done.out
    );
    let text = fs::read_to_string(house.path("machines")).unwrap();
    let machines: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(machines["newsystem1"]["image"], "centos");
    assert_eq!(machines["newsystem1"]["master"], "mymaster");
    // The machine exists, so that the step has an error.
    let again = house.run(&call);
    assert_ne!(again.rc, Some(0), "{}", again.out);
    assert!(
        again
            .out
            .contains("newsystem1 already exists under paper:paper"),
        "{}",
        again.out
    );
}

#[test]
fn states_make_and_remove_machines() {
    let house = House::new();
    minion_of(&house);
    house.write(
        "srv/salt/up.sls",
        "web1:\n  cloud.profile:\n    - profile: web\n    - size: huge\nweb2:\n  cloud.present:\n    - cloud_provider: paper\n    - size: tiny\n",
    );
    house.write(
        "srv/salt/down.sls",
        "web1:\n  cloud.absent\nweb2:\n  cloud.absent\n",
    );
    let root = format!("--file-root={}", house.path("srv/salt").display());
    let apply = |words: &[&str]| {
        let call = ["salt-call", "--local", &root, "--out=json", "state.apply"];
        let done = house.run(&[&call, words].concat());
        assert_eq!(done.rc, Some(0), "{}", done.out);
        done.out
    };
    let would = apply(&["up", "test=True"]);
    assert!(
        would.contains("Instance web1 needs to be created"),
        "{would}"
    );
    assert!(house.machines().is_empty());
    let made = apply(&["up"]);
    assert!(
        made.contains("Created instance web1 using profile web"),
        "{made}"
    );
    assert!(made.contains("huge") && made.contains("tiny"), "{made}");
    let again = apply(&["up"]);
    assert!(again.contains("Already present instance web1"), "{again}");
    let gone = apply(&["down"]);
    assert!(gone.contains("Destroyed instance web2"), "{gone}");
    assert!(apply(&["down"]).contains("Already absent instance web1"));
}

#[test]
fn a_master_makes_machines_and_fires_their_events() {
    let fleet = Fleet::with("");
    let here = fleet.path("master");
    let write = |below: &str, text: &str| {
        let path = here.join(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.replace("@DIR@", &here.display().to_string())).unwrap();
    };
    write("etc/cloud.providers", PROVIDERS);
    write("etc/cloud.profiles", PROFILES);
    fleet.write("salt/_clouds/paper.py", PAPER);
    let synced = fleet.run(&["salt-run", "saltutil.sync_clouds"]);
    assert!(synced.out.contains("clouds.paper"), "{}", synced.out);
    let made = fleet.run(&[
        "salt-run",
        "--out=json",
        "cloud.profile",
        "prof=web",
        "instances=web1,web2",
    ]);
    assert_eq!(made.rc, Some(0), "{}", made.out);
    let failed = fleet.run(&[
        "salt-run",
        "cloud.profile",
        "prof=web",
        "instances=web3,web9",
    ]);
    assert_eq!(failed.rc, Some(1), "{}", failed.out);
    assert!(failed.out.contains("no quota for web9"), "{}", failed.out);
    // salt-cloud asks the master that runs.
    let gone = fleet.run(&["salt-cloud", "-y", "--out=json", "-d", "web1"]);
    assert_eq!(gone.rc, Some(0), "{}", gone.out);
    let listed = fleet.run(&["salt-cloud", "-Q", "--out=json"]);
    assert!(
        listed.out.contains("web3") && !listed.out.contains("web1"),
        "{}",
        listed.out
    );
    let prof = fleet.run(&["salt-run", "cloud.profile"]);
    assert!(
        prof.out.contains("A profile (or prof) must be defined"),
        "{}",
        prof.out
    );
    assert_eq!(prof.rc, Some(1));
    let none = fleet.run(&["salt-run", "cloud.destroy", "nosuch"]);
    assert!(
        none.out
            .contains("The following VM's were not found: nosuch"),
        "{}",
        none.out
    );
}
