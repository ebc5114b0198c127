//! The driver `ec2` against moto's server, which checks the signatures: instances whose minions really
//! start with their user data, and calls that are killed.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tests::chance::{self, Chance};
use tests::program::{in_recorded_environment, pinch_program};
use tests::skip::skip;

use super::{House, minion_of};
use crate::fleet::Fleet;

/// The virtual environment with moto, which `tests/run` makes.
const PYTHON: &str = "/var/cache/pinch-tests/moto/bin/python";
/// The maximum time until instances exist.
const LAUNCH_MAX: Duration = Duration::from_secs(240);

/// A simulated EC2. It ends with this value.
pub(super) struct Moto {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    about: Value,
}

impl Drop for Moto {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Moto {
    /// Starts the server; `None` if moto is not installed.
    pub(super) fn start() -> Option<Self> {
        Self::start_below(&[])
    }

    /// Starts the server by a program with these words.
    pub(super) fn start_below(above: &[String]) -> Option<Self> {
        let python = std::env::var("PINCH_MOTO").map_or_else(|_| PYTHON.into(), PathBuf::from);
        if !python.exists() {
            skip("tests/run installs moto");
            return None;
        }
        let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/cloud/moto_server.py");
        let own = [python.display().to_string(), server.display().to_string()];
        let words = [above, &own].concat();
        let (program, words) = words.split_first().unwrap();
        let mut child = Command::new(program)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let about = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        Some(Self {
            child,
            lines,
            about,
        })
    }

    /// The instances that are not gone.
    pub(super) fn instances(&mut self) -> Vec<Value> {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.about["port"])
    }

    /// Sends a message to the queue.
    pub(super) fn send(&mut self, message: &Value) {
        let line = message.to_string() + "\n";
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(line.as_bytes()).unwrap();
    }

    /// The folder with the packages of Python.
    pub(super) fn packages(&self) -> &str {
        self.text("packages")
    }

    pub(super) fn text(&self, key: &str) -> &str {
        self.about[key].as_str().unwrap()
    }

    /// The provider of this server, with this secret key.
    pub(super) fn provider(&self, key: &str) -> String {
        format!(
            "moto:\n  driver: ec2\n  endpoint: {}\n  id: {}\n  key: {key}\n  wait_for_ip_interval: 0.2\n",
            self.url(),
            self.text("id")
        )
    }

    pub(super) fn profile(&self) -> String {
        format!(
            "web:\n  provider: moto\n  image: {}\n  size: t3.micro\n  install: 'true'\n",
            self.text("image")
        )
    }
}

pub(super) fn names(instances: &[Value]) -> Vec<String> {
    let mut names: Vec<String> = instances
        .iter()
        .map(|one| one["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_wrong_key_is_an_error_with_the_clouds_text() {
    let Some(mut moto) = Moto::start() else {
        return;
    };
    let house = House::new();
    house.write(
        "etc/cloud.providers",
        &moto.provider("0123456789012345678901234567890123456789"),
    );
    house.write("etc/cloud.profiles.d/web.conf", &moto.profile());
    let made = house.cloud(&["-p", "web", "web1"]);
    assert_eq!(made.rc, Some(1), "{}", made.out);
    assert!(
        made.out
            .contains("AWS was not able to validate the provided access credentials")
            || made.out.contains("signature"),
        "{}",
        made.out
    );
    assert!(
        !made
            .out
            .contains("0123456789012345678901234567890123456789"),
        "{}",
        made.out
    );
    assert!(moto.instances().is_empty());
    assert_eq!(house.data(&["--orphans"]), serde_json::json!({}));
}

/// The file that cloud-init writes with user data, and its commands.
pub(super) fn user_data(text: &str) -> (String, String, Vec<String>) {
    let json = text.strip_prefix("#cloud-config\n").unwrap();
    let data: Value = serde_json::from_str(json).unwrap();
    let file = &data["write_files"][0];
    assert_eq!(file["permissions"], "0600");
    let commands = data["runcmd"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (
        text(&file["path"]),
        text(&file["content"]),
        commands.map(text).collect(),
    )
}

#[test]
fn instances_enrol_by_their_user_data_and_leave_with_their_keys() {
    let Some(moto) = Moto::start() else { return };
    let mut fleet = Fleet::with("");
    let here = fleet.path("master/etc");
    let minion = "  minion: {master: 127.0.0.1}\n  deploy_timeout: 240\n";
    fs::write(
        here.join("cloud.providers"),
        moto.provider(moto.text("key")) + minion,
    )
    .unwrap();
    fs::write(here.join("cloud.profiles"), moto.profile()).unwrap();
    fleet.write("salt/orch.sls", "made:\n  salt.runner:\n    - name: cloud.profile\n    - prof: web\n    - instances: [web1, web2, web3]\n    - parallel: True\nup:\n  salt.function:\n    - name: test.ping\n    - tgt: 'web*'\n    - require: [{salt: made}]\n");
    let moto = Mutex::new(moto);
    let program = pinch_program();
    let call = thread::spawn(move || {
        let output = in_recorded_environment(&mut Command::new(program))
            .args(["salt-run", "--out=json", "-c"])
            .arg(here)
            .args(["state.orchestrate", "orch"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), out)
    });
    let (since, mut started) = (Instant::now(), BTreeSet::new());
    while started.len() < 3 {
        assert!(
            since.elapsed() < LAUNCH_MAX,
            "{started:?}: {}",
            fleet.logs()
        );
        assert!(!call.is_finished(), "{:?}", call.join());
        for one in moto.lock().unwrap().instances() {
            let name = one["name"].as_str().unwrap().to_owned();
            if !started.insert(name.clone()) {
                continue;
            }
            let (path, content, commands) = user_data(one["user_data"].as_str().unwrap());
            assert_eq!(path, "/etc/salt/minion.d/cloud.conf");
            assert_eq!(commands.first().map(String::as_str), Some("true"));
            let folder = fleet.path(&name).join("etc/minion.d");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("cloud.conf"), content).unwrap();
            fleet.start_minion(&name, "");
        }
        thread::sleep(Duration::from_millis(200));
    }
    let (code, out) = call.join().unwrap();
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("\"deployed\": true"), "{out}");
    let keys = fleet.run(&["salt-key", "-l", "acc", "--out=json"]);
    assert!(
        ["web1", "web2", "web3"]
            .iter()
            .all(|id| keys.out.contains(id)),
        "{}",
        keys.out
    );
    // The events say nothing about the tokens, which are used up.
    let gone = fleet.run(&["salt-run", "--out=json", "cloud.destroy", "web2"]);
    assert_eq!(gone.rc, Some(0), "{}", gone.out);
    let keys = fleet.run(&["salt-key", "-l", "acc", "--out=json"]);
    assert!(!keys.out.contains("web2"), "{}", keys.out);
    assert_eq!(names(&moto.lock().unwrap().instances()), ["web1", "web3"]);
    assert_eq!(
        fleet
            .run(&["salt-run", "--out=json", "cloud.orphans"])
            .out
            .trim(),
        "{}"
    );
}

/// Runs an orchestration of three machines that is killed at a random moment, and resumed until it ends.
fn killed(moto: &Mutex<Moto>, seed: u64) -> Result<(), String> {
    let mut chance = Chance(seed);
    let house = House::new();
    minion_of(&house);
    {
        let moto = moto.lock().unwrap();
        house.write("etc/cloud.providers", &moto.provider(moto.text("key")));
        house.write(
            "etc/cloud.profiles.d/web.conf",
            &(moto.profile() + "  deploy: none\n"),
        );
    }
    let ids: Vec<String> = (1..=3).map(|number| format!("s{seed}-{number}")).collect();
    house.write("srv/salt/orch.sls", &format!("made:\n  salt.runner:\n    - name: cloud.profile\n    - prof: web\n    - instances: [{}]\n    - parallel: {}\n", ids.join(", "), seed.is_multiple_of(2)));
    let start = |resume: bool| {
        let mut command = Command::new(pinch_program());
        in_recorded_environment(&mut command)
            .args(["salt-call", "--local", "--out=json", "-c"])
            .arg(house.path("etc"))
            .arg(format!("--file-root={}", house.path("srv/salt").display()))
            .args(["state.orchestrate", "orch"])
            .args(resume.then_some("resume=True"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        command.spawn().unwrap()
    };
    let own = |moto: &Mutex<Moto>| {
        let mut all = names(&moto.lock().unwrap().instances());
        all.retain(|name| name.starts_with(&format!("s{seed}-")));
        all
    };
    let mut first = start(false);
    thread::sleep(Duration::from_millis(chance.below(4_000)));
    first.kill().unwrap();
    first.wait().unwrap();
    let mut done = start(true).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    if text.contains("othing to resume") || text.contains("no run") {
        // It was killed before it had a record, or had ended.
        if own(moto).is_empty() {
            done = start(false).wait_with_output().unwrap();
        }
    }
    let (all, text) = (
        own(moto),
        String::from_utf8_lossy(&done.stdout).into_owned(),
    );
    let err = String::from_utf8_lossy(&done.stderr).into_owned();
    if all != ids {
        return Err(format!(
            "seed {seed}: {all:?} instead of {ids:?}: {text}{err}"
        ));
    }
    let left = house.run(&["salt-call", "--local", "--out=json", "cloud.orphans"]);
    match left.out.contains("token") {
        true => Err(format!(
            "seed {seed}: orphans are left: {}{text}{err}",
            left.out
        )),
        false => Ok(()),
    }
}

#[test]
fn a_call_that_is_killed_and_resumed_makes_each_machine_once() {
    let Some(moto) = Moto::start() else { return };
    let moto = Mutex::new(moto);
    for seed in chance::seeds("PINCH_CLOUD_SEEDS", 4) {
        killed(&moto, seed).unwrap_or_else(|error| panic!("{error}"));
    }
}
