//! A master and its minions, as processes on loopback.

mod acl;
mod alone;
pub(crate) mod api;
pub(crate) mod attacks;
pub(crate) mod autoscale;
mod backup;
mod batch_async;
mod beacons;
mod cached;
mod certificates;
mod cluster;
mod cluster_damage;
mod cluster_hostile;
mod cluster_load;
mod cluster_of_minion;
mod cluster_recorded;
mod cluster_rings;
mod cluster_roots;
mod cluster_runs;
mod cluster_sizes;
mod cluster_tokens;
mod cluster_upgrade;
mod connections;
pub(crate) mod documentation;
mod eauth;
mod engines;
mod event_return;
mod events;
mod faults;
mod git;
mod hook;
mod hostile;
mod identity;
mod jobs;
mod keys;
mod ldap;
mod masters;
mod migrate_jobs;
mod network;
mod page;
mod progress;
mod python;
mod reactions;
mod reactor;
mod reboot;
mod recorded;
mod relay;
mod returns;
mod rotation;
mod runners;
pub(crate) mod salt;
mod salt_cp;
mod schedule;
mod secret;
mod self_healing;
mod storm;
mod survival;
mod tops;
mod upkeep;

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tests::program::{Answer, copy_program, in_recorded_environment, pinch_program};

/// The maximum time to wait for any expected result, even on a machine that pauses now and then.
const PATIENCE: Duration = Duration::from_secs(60);

/// The uid of Debian's unprivileged user, and the gid of its group.
const NOBODY: u32 = 65534;

static PROGRAM: LazyLock<PathBuf> = LazyLock::new(pinch_program);

/// A lock that fleets share, except one that needs the machine exclusively.
static MACHINE: RwLock<()> = RwLock::new(());

/// A lock on the machine, held by a fleet.
#[expect(dead_code, reason = "the guards are only held, never read")]
enum Turn {
    Shared(RwLockReadGuard<'static, ()>),
    Alone(RwLockWriteGuard<'static, ()>),
    /// Another fleet of the same test holds it.
    Lent,
}

impl Turn {
    /// Waits until no other fleet needs the machine exclusively.
    fn shared() -> Self {
        Self::Shared(MACHINE.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until there is no other fleet.
    fn alone() -> Self {
        Self::Alone(MACHINE.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    fn start(program: &Path, words: &[&str], log: &Path) -> Self {
        Self::start_in(&[], program, words, log)
    }

    /// Starts a program with more variables in its environment.
    fn start_in(
        environment: &[(String, PathBuf)],
        program: &Path,
        words: &[&str],
        log: &Path,
    ) -> Self {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .unwrap();
        let child = in_recorded_environment(Command::new(program).args(words))
            .envs(environment.iter().map(|(name, path)| (name, path)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self(child)
    }
}

/// A master in its own folder, with as many minions as a test starts.
pub(crate) struct Fleet {
    dir: tempfile::TempDir,
    /// The program of the master, its commands and its minions.
    program: PathBuf,
    port: u16,
    master: Option<Process>,
    minions: Vec<(String, Process)>,
    /// More variables of the environment of the master.
    environment: Vec<(String, PathBuf)>,
    _turn: Turn,
}

impl Fleet {
    /// Starts a master with these lines in its configuration.
    pub(crate) fn with(config: &str) -> Self {
        Self::in_turn(config, Turn::shared())
    }

    /// Does the same while no other fleet runs: for a test that loads the machine.
    pub(crate) fn alone(config: &str) -> Self {
        Self::in_turn(config, Turn::alone())
    }

    fn in_turn(config: &str, turn: Turn) -> Self {
        let mut fleet = Self::prepared(config, turn);
        fleet.start_master();
        fleet
    }

    /// Creates another master with this one's key. It is not started, and ends together with this one.
    pub(crate) fn beside(&self, config: &str) -> Self {
        let fleet = Self::prepared(config, Turn::Lent);
        fs::create_dir_all(fleet.path("master/pki")).unwrap();
        for name in ["master.pem", "master.pub"] {
            let (from, to) = (self.path("master/pki"), fleet.path("master/pki"));
            fs::copy(from.join(name), to.join(name)).unwrap();
        }
        fleet
    }

    fn prepared(config: &str, turn: Turn) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let port = UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        for folder in ["master/etc", "master/srv/salt", "master/srv/pillar"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        let root = dir.path().join("master");
        let here = root.display();
        let interface = match config.contains("interface:") {
            true => "",
            false => "interface: 127.0.0.1\n",
        };
        let text = format!(
            "{interface}ret_port: {port}\nroot_dir: {here}\npki_dir: {here}/pki\ncachedir: {here}/cache\nsock_dir: {here}/run\nlog_file: {here}/log\nlog_level: info\nfile_roots: {{base: [{here}/srv/salt]}}\npillar_roots: {{base: [{here}/srv/pillar]}}\n{config}"
        );
        fs::write(root.join("etc/master"), text).unwrap();
        Self {
            dir,
            program: PROGRAM.clone(),
            port,
            master: None,
            minions: Vec::new(),
            environment: Vec::new(),
            _turn: turn,
        }
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    pub(crate) fn start_master(&mut self) {
        self.begin_master();
        self.soon("the master answers", || {
            self.path("master/run/master.sock").exists()
        });
    }

    /// Starts the master without waiting for it.
    fn begin_master(&mut self) {
        let etc = self.path("master/etc").display().to_string();
        let words = ["salt-master", "-c", &etc];
        self.master = Some(Process::start_in(
            &self.environment,
            &self.program,
            &words,
            &self.path("master/output"),
        ));
    }

    fn set_environment(&mut self, name: &str, path: &Path) {
        self.environment.push((name.to_owned(), path.to_owned()));
    }

    fn master_pid(&self) -> i32 {
        let master = self.master.as_ref().unwrap();
        i32::try_from(master.0.id()).unwrap()
    }

    fn master_has_ended(&mut self) -> bool {
        let master = self.master.as_mut().unwrap();
        master.0.try_wait().unwrap().is_some()
    }

    /// Makes a master that is not started listen on another port.
    fn change_port(&mut self, port: u16) {
        let path = self.path("master/etc/master");
        let text = fs::read_to_string(&path).unwrap();
        let own = format!("ret_port: {}\n", self.port);
        fs::write(&path, text.replace(&own, &format!("ret_port: {port}\n"))).unwrap();
        self.port = port;
    }

    pub(crate) fn kill_master(&mut self) {
        self.master = None;
        let _ = fs::remove_file(self.path("master/run/master.sock"));
    }

    /// Writes a file below the master's roots.
    pub(crate) fn write(&self, below: &str, text: &str) {
        let path = self.path("master/srv").join(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Starts a minion, with these lines in its configuration.
    pub(crate) fn start_minion(&mut self, id: &str, config: &str) {
        self.configure_minion(id, config);
        self.start_minion_again(id);
    }

    fn configure_minion(&self, id: &str, config: &str) {
        let root = self.path(id);
        fs::create_dir_all(root.join("etc")).unwrap();
        let (here, port) = (root.display(), self.port);
        let masters = if config.contains("master:") {
            String::new()
        } else {
            format!("master: 127.0.0.1\nmaster_port: {port}\n")
        };
        let text = format!(
            "id: {id}\n{masters}root_dir: {here}\npki_dir: {here}/pki\ncachedir: {here}/cache\nsock_dir: {here}/run\nlog_file: {here}/log\nlog_level: info\nenable_fqdns_grains: False\nrecon_default: 50\nrecon_max: 200\n{config}"
        );
        fs::write(root.join("etc/minion"), text).unwrap();
    }

    pub(crate) fn start_minion_again(&mut self, id: &str) {
        let etc = self.path(id).join("etc").display().to_string();
        let words = ["salt-minion", "-c", &etc];
        let process = Process::start(&self.program, &words, &self.path(id).join("output"));
        self.minions.push((id.to_owned(), process));
    }

    pub(crate) fn kill_minion(&mut self, id: &str) {
        self.minions.retain(|(other, _)| other != id);
    }

    /// Runs a command of the master: `salt`, `salt-key`, `salt-run`.
    pub(crate) fn run(&self, words: &[&str]) -> Answer {
        self.called(&mut Command::new(&self.program), words)
    }

    /// Like [`Fleet::run`], but as Debian's unprivileged user. The first call gives this user
    /// access to the program and the configuration.
    pub(crate) fn run_as_nobody(&self, words: &[&str]) -> Answer {
        let program = self.path("pinch");
        if !program.exists() {
            copy_program(&self.program, &program);
            fs::set_permissions(self.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        }
        self.called(Command::new(program).uid(NOBODY).gid(NOBODY), words)
    }

    fn called(&self, command: &mut Command, words: &[&str]) -> Answer {
        let (applet, rest) = words.split_first().unwrap();
        let output = self.path("master/output");
        let log = fs::OpenOptions::new().append(true).open(output).unwrap();
        let output = in_recorded_environment(command)
            .arg(applet)
            .arg("-c")
            .arg(self.path("master/etc"))
            .args(rest)
            .stdin(Stdio::null())
            .stderr(log)
            .output()
            .unwrap();
        Answer {
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            rc: output.status.code(),
        }
    }

    /// Waits until a condition becomes true; panics with the logs of the programs if it does not.
    pub(crate) fn soon(&self, what: &str, is_so: impl Fn() -> bool) {
        self.within(PATIENCE, what, is_so);
    }

    /// Does the same with a longer time.
    fn within(&self, patience: Duration, what: &str, is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(
                began.elapsed() < patience,
                "{}timed out, expected: {what}",
                self.logs()
            );
            sleep(Duration::from_millis(20));
        }
    }

    /// Returns what all programs have logged, the master last: a report may have only the end of it.
    pub(crate) fn logs(&self) -> String {
        let mut text = String::new();
        let folders = fs::read_dir(self.dir.path()).unwrap();
        let mut folders: Vec<_> = folders.map(|folder| folder.unwrap().path()).collect();
        folders.sort_by_key(|folder| folder.ends_with("master"));
        for folder in folders {
            for name in ["output", "log"] {
                let path = folder.join(name);
                let read = fs::read_to_string(&path).unwrap_or_default();
                text.push_str(&format!("== {}\n{read}\n", path.display()));
            }
        }
        text
    }

    /// Starts minions, and accepts their keys.
    pub(crate) fn accepted(&mut self, ids: &[&str]) {
        for id in ids {
            self.start_minion(id, "");
        }
        self.soon("the keys are offered", || {
            let listed = self.run(&["salt-key", "-l", "un"]).out;
            ids.iter().all(|id| listed.lines().any(|line| line == *id))
        });
        assert_eq!(self.run(&["salt-key", "-y", "-A"]).rc, Some(0));
        self.soon("the minions answer", || {
            let answered = self
                .run(&["salt", "--out=json", "--static", "*", "test.ping"])
                .out;
            ids.iter()
                .all(|id| answered.contains(&format!("\"{id}\": true")))
        });
    }
}
