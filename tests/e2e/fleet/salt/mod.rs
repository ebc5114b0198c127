//! Minions of Pinch under a Salt master.
//!
//! `tests/run` installs Salt; `SALT_VENV` names another virtual environment with it. Without Salt,
//! the tests with a real master are skipped; those of the protocol's choice need none.

mod choice;
mod compare;
mod cut;
mod data;
mod jobs;
mod keys;
mod migrate;
mod options;
mod several;
mod survival;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use super::{PROGRAM, Process, Turn};
use std::sync::{Mutex, PoisonError};
use tests::program::{Answer, in_recorded_environment};
use tests::skip::skip;

/// The virtual environment with Salt, which `tests/run` makes.
const VENV: &str = "/var/cache/pinch-tests/salt";

/// Runs programs of Salt, which a test sends to its standard input.
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/fleet/salt/programs.py");

/// The maximum time to wait for anything: Salt's programs take seconds to start, and minutes on a
/// machine that is busy.
const PATIENCE: Duration = Duration::from_secs(300);

/// The configuration of all minions.
const MINION: &str = "log_level: debug\nenable_fqdns_grains: False\nrecon_default: 50\nrecon_max: 500\nrandom_reauth_delay: 0\nacceptance_wait_time: 1\n";

/// Returns the virtual environment with Salt; `None` if Salt is not installed.
pub(crate) fn venv() -> Option<PathBuf> {
    let given = std::env::var_os("SALT_VENV").map(PathBuf::from);
    let has_salt = |venv: &PathBuf| venv.join("bin/salt-master").exists();
    if let Some(venv) = given {
        assert!(has_salt(&venv), "SALT_VENV={} has no Salt", venv.display());
        return Some(venv);
    }
    let installed = Some(PathBuf::from(VENV)).filter(has_salt);
    if installed.is_none() {
        skip("tests/run installs Salt");
    }
    installed
}

/// A process that runs programs of Salt.
struct Programs {
    child: Child,
    words: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Programs {
    fn start(venv: &Path) -> Self {
        let mut command = Command::new(venv.join("bin/python"));
        let mut child = in_recorded_environment(command.arg(PROGRAMS))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            words: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    fn run(&mut self, words: &[&str]) -> Answer {
        let line = serde_json::to_string(words).unwrap();
        writeln!(self.words, "{line}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        let answer: Json = serde_json::from_str(&answer).unwrap();
        Answer {
            out: answer["out"].as_str().unwrap().to_owned(),
            rc: answer["rc"].as_i64().and_then(|rc| i32::try_from(rc).ok()),
        }
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A real Salt master in its own folder, with minions of Pinch.
struct Salt {
    dir: tempfile::TempDir,
    venv: PathBuf,
    programs: Mutex<Programs>,
    /// The ports for publications and for requests.
    ports: [u16; 2],
    master: Option<Process>,
    minions: BTreeMap<String, Process>,
    /// The minions of Salt itself.
    pythons: BTreeMap<String, Process>,
    transport: String,
    _turn: Turn,
}

/// Kills the processes whose command line names a folder of configuration, except this one.
fn kill_others(etc: &Path, except: &Process) {
    let (etc, pid) = (etc.display().to_string(), except.0.id().to_string());
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let cmdline = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let is_of_folder = String::from_utf8_lossy(&cmdline).contains(&etc);
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_of_folder && name != pid {
            let _ = Command::new("kill").args(["-9", &name]).status();
        }
    }
}

fn free_ports<const N: usize>() -> [u16; N] {
    let bound = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    bound.map(|socket| socket.local_addr().unwrap().port())
}

impl Salt {
    /// Starts a master with this transport and these lines in its configuration; `None` if there is no
    /// Salt.
    fn start(transport: &str, config: &str) -> Option<Self> {
        let venv = venv()?;
        let mut salt = Self::prepared(venv, transport, config, Turn::shared());
        salt.start_master();
        Some(salt)
    }

    /// Does the same in a test that has another fleet.
    fn start_lent(config: &str) -> Option<Self> {
        let mut salt = Self::prepared(venv()?, "zeromq", config, Turn::Lent);
        salt.start_master();
        Some(salt)
    }

    /// Starts another master with this one's key, because minions remember one key of Salt masters.
    fn beside(&self) -> Self {
        let mut salt = Self::prepared(self.venv.clone(), &self.transport, "", Turn::Lent);
        let pki = salt.path("master/pki");
        fs::create_dir_all(&pki).unwrap();
        for name in ["master.pem", "master.pub"] {
            let own = self.path("master/pki").join(name);
            self.soon("the master has a key", || own.exists());
            fs::copy(own, pki.join(name)).unwrap();
        }
        salt.start_master();
        salt
    }

    fn prepared(venv: PathBuf, transport: &str, config: &str, turn: Turn) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["master/etc", "master/srv/salt", "master/srv/pillar"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        let [publish, ret, a, b, c, d, e, f] = free_ports();
        let root = dir.path().join("master");
        let here = root.display();
        let accepts = match config.contains("auto_accept:") {
            true => "",
            false => "auto_accept: True\n",
        };
        let text = format!(
            "user: root\ninterface: 127.0.0.1\npublish_port: {publish}\nret_port: {ret}\nroot_dir: {here}\npki_dir: {here}/pki\ncachedir: {here}/cache\nsock_dir: {here}/run\nlog_file: {here}/log\nlog_level_logfile: info\npidfile: {here}/pid\ntransport: {transport}\n{accepts}worker_threads: 3\ntimeout: 30\nfile_recv: True\nfile_roots: {{base: [{here}/srv/salt]}}\npillar_roots: {{base: [{here}/srv/pillar]}}\npeer: {{'.*': ['test.*']}}\npeer_run: {{'.*': ['test.*']}}\ntcp_pub_port: {a}\ntcp_pull_port: {b}\ntcp_master_pub_port: {c}\ntcp_master_pull_port: {d}\ntcp_master_publish_pull: {e}\ntcp_master_workers: {f}\n{config}"
        );
        fs::write(root.join("etc/master"), text).unwrap();
        Self {
            dir,
            programs: Mutex::new(Programs::start(&venv)),
            venv,
            ports: [publish, ret],
            master: None,
            minions: BTreeMap::new(),
            pythons: BTreeMap::new(),
            transport: transport.to_owned(),
            _turn: turn,
        }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    fn start_master(&mut self) {
        let etc = self.path("master/etc").display().to_string();
        let program = self.venv.join("bin/salt-master");
        let output = self.path("master/output");
        self.master = Some(Process::start(&program, &["-c", &etc], &output));
    }

    /// Kills the master and the processes that it has started.
    fn kill_master(&mut self) {
        let master = self.master.take().unwrap();
        kill_others(&self.path("master/etc"), &master);
    }

    /// Starts a minion of Salt itself, with the same configuration as one of Pinch.
    fn start_python_minion(&mut self, id: &str, config: &str) {
        self.configure_minion(id, config);
        self.start_python_minion_again(id);
    }

    fn start_python_minion_again(&mut self, id: &str) {
        let etc = self.path(id).join("etc").display().to_string();
        let program = self.venv.join("bin/salt-minion");
        let output = self.path(id).join("output");
        let minion = Process::start(&program, &["-c", &etc], &output);
        self.pythons.insert(id.to_owned(), minion);
    }

    /// Kills a minion of Salt and the processes that it has started.
    fn kill_python_minion(&mut self, id: &str) {
        let minion = self.pythons.remove(id).unwrap();
        kill_others(&self.path(id).join("etc"), &minion);
    }

    /// Writes a file below the master's roots.
    fn write(&self, below: &str, text: &str) {
        let path = self.path("master/srv").join(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Starts a minion of Pinch, with these lines in its configuration.
    fn start_minion(&mut self, id: &str, config: &str) {
        self.configure_minion(id, config);
        self.start_minion_again(id);
    }

    fn configure_minion(&self, id: &str, config: &str) {
        let root = self.path(id);
        fs::create_dir_all(root.join("etc")).unwrap();
        let (here, port) = (root.display(), self.ports[1]);
        let masters = match config.contains("master:") {
            true => String::new(),
            false => format!("master: 127.0.0.1\nmaster_port: {port}\nmaster_protocol: salt\n"),
        };
        let text = format!(
            "id: {id}\n{masters}root_dir: {here}\npki_dir: {here}/pki\ncachedir: {here}/cache\nsock_dir: {here}/run\nlog_file: {here}/log\ntransport: {}\n{MINION}{config}",
            self.transport
        );
        fs::write(root.join("etc/minion"), text).unwrap();
    }

    fn start_minion_again(&mut self, id: &str) {
        let etc = self.path(id).join("etc").display().to_string();
        let output = self.path(id).join("output");
        let minion = Process::start(&PROGRAM, &["salt-minion", "-c", &etc], &output);
        self.minions.insert(id.to_owned(), minion);
    }

    /// Starts minions, and waits until each has answered a job.
    fn with_minions(mut self, ids: &[&str], config: &str) -> Self {
        for id in ids {
            self.start_minion(id, config);
        }
        for id in ids {
            self.answers(id);
        }
        self
    }

    /// Waits until a minion answers jobs, and the master has its grains.
    fn answers(&self, id: &str) {
        self.soon("the minion answers", || {
            self.salt(&["-t", "5", "-G", &format!("id:{id}"), "test.ping"])[id] == Json::Bool(true)
        });
    }

    /// Runs a program of Salt on the master.
    fn run(&self, program: &str, words: &[&str]) -> Answer {
        let etc = self.path("master/etc").display().to_string();
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        programs.run(&[&[program, "-c", &etc], words].concat())
    }

    /// Runs a job, and returns the values by minion.
    fn salt(&self, words: &[&str]) -> Json {
        let out = self
            .run("salt", &[&["--out=json", "--static"], words].concat())
            .out;
        serde_json::from_str(&out).unwrap_or(Json::Null)
    }

    /// Runs a function on one minion, and returns its value.
    fn call(&self, id: &str, words: &[&str]) -> Json {
        let mut found = self.salt(&[&[id], words].concat());
        found[id].take()
    }

    /// Begins a job that sleeps on a minion, waits until it runs, and returns its id.
    fn begin_sleep(&self, id: &str, seconds: &str) -> String {
        let words = ["--async", "--out=quiet", "--show-jid", id, "test.sleep"];
        let begun = self.run("salt", &[&words[..], &[seconds]].concat());
        let jid: String = begun.out.chars().filter(char::is_ascii_digit).collect();
        self.soon("the job runs", || {
            self.call(id, &["saltutil.find_job", &jid])["fun"] == "test.sleep"
        });
        jid
    }

    /// Runs a runner, and returns its value.
    fn runner(&self, words: &[&str]) -> Json {
        let out = self.run("salt-run", &[&["--out=json"], words].concat()).out;
        serde_json::from_str(&out).unwrap_or(Json::Null)
    }

    /// Runs a command of a minion's machine.
    fn on_minion(&self, id: &str, words: &[&str]) -> Answer {
        let (applet, rest) = words.split_first().unwrap();
        let mut command = Command::new(&*PROGRAM);
        let etc = self.path(id).join("etc");
        let output = in_recorded_environment(command.arg(applet).arg("-c").arg(etc).args(rest))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Answer {
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            rc: output.status.code(),
        }
    }

    /// Waits until a condition becomes true; panics with the logs if it does not.
    fn soon(&self, what: &str, is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            let logs = || self.logs();
            assert!(
                began.elapsed() < PATIENCE,
                "{}timed out, expected: {what}",
                logs()
            );
            sleep(Duration::from_millis(200));
        }
    }

    fn logs(&self) -> String {
        let minions = self.pythons.keys().chain(self.minions.keys());
        let names = minions.map(String::as_str).chain(["master"]);
        let mut text = String::new();
        for name in names {
            for file in ["output", "log"] {
                let path = self.path(name).join(file);
                let read = fs::read_to_string(&path).unwrap_or_default();
                text.push_str(&format!("== {}\n{read}\n", path.display()));
            }
        }
        text
    }

    /// Begins to write the events of the master to a file, one on each line.
    fn record_events(&self) -> Events {
        let path = self.path("events");
        let script = self.path("events.py");
        fs::write(&script, EVENTS).unwrap();
        let etc = self.path("master/etc/master").display().to_string();
        let words = [
            &script.display().to_string(),
            &etc,
            &path.display().to_string(),
        ];
        let words = words.map(String::as_str);
        let python = self.venv.join("bin/python");
        let process = Process::start(&python, &words, &self.path("events.log"));
        self.soon("the events are recorded", || path.exists());
        Events {
            path,
            _process: process,
        }
    }
}

impl Drop for Salt {
    fn drop(&mut self) {
        self.minions.clear();
        let pythons: Vec<String> = self.pythons.keys().cloned().collect();
        for id in pythons {
            self.kill_python_minion(&id);
        }
        if self.master.is_some() {
            self.kill_master();
        }
    }
}

/// Writes each event as a line of JSON.
const EVENTS: &str = r#"
import json, sys
import salt.config, salt.utils.event
opts = salt.config.master_config(sys.argv[1])
bus = salt.utils.event.get_event("master", sock_dir=opts["sock_dir"], opts=opts, listen=True)
with open(sys.argv[2], "w") as out:
    while True:
        event = bus.get_event(full=True, wait=1)
        if event:
            out.write(json.dumps(event, default=str) + "\n")
            out.flush()
"#;

/// The events of a master.
struct Events {
    path: PathBuf,
    _process: Process,
}

impl Events {
    /// Returns the data of the events with this tag.
    fn with_tag(&self, tag: &str) -> Vec<Json> {
        self.of(|found| found == tag)
    }

    /// Returns the data of the events whose tags end with this text.
    fn with_tail(&self, tail: &str) -> Vec<Json> {
        self.of(|found| found.ends_with(tail))
    }

    fn of(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<Json> {
        let text = fs::read_to_string(&self.path).unwrap();
        let events = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Json>(line).ok());
        events
            .filter(|event| event["tag"].as_str().is_some_and(&is_wanted))
            .map(|mut event| event["data"].take())
            .collect()
    }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
