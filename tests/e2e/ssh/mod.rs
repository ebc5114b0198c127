//! `salt-ssh`, and steps of orchestrations, on hosts behind real servers of OpenSSH.

mod api;
mod bad_link;
mod balancer;
mod calls;
mod documentation;
mod dropbear;
mod emulated;
mod links;
mod options;
mod placing;
mod recorded;
mod relay;
mod rosters;
mod saltify;
mod steps;

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;
use tests::program::{copy_program, in_recorded_environment, pinch_program, shipped_program};
use tests::scratch::corpus;
use tests::skip::skip;

/// The program for hosts: a release, which is small.
static AGENT: LazyLock<PathBuf> = LazyLock::new(shipped_program);

const PATIENCE: Duration = Duration::from_secs(60);

/// A host behind a server on loopback.
struct Host {
    server: Child,
    dir: TempDir,
    port: u16,
}

impl Host {
    fn start(site: &Site, kind: &[&str]) -> Self {
        Self::start_by(Command::new("sh"), site, kind)
    }

    /// Starts the server by a command that runs a script of `sh`.
    fn start_by(mut sh: Command, site: &Site, kind: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let port = free_port();
        for name in ["key.pub", "hostkey", "hostkey.pub"] {
            fs::copy(site.path(name), dir.path().join(name)).unwrap();
        }
        fs::set_permissions(
            dir.path().join("hostkey"),
            fs::Permissions::from_mode(0o600),
        )
        .unwrap();
        copy_program(&AGENT, &dir.path().join("pinch"));
        fs::write(dir.path().join("uptime"), "90000.00 80000.00\n").unwrap();
        let log = File::create(dir.path().join("log")).unwrap();
        let server = sh
            .arg(corpus().join("sshd.sh"))
            .arg(dir.path())
            .arg(port.to_string())
            .args(kind)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut host = Self { server, dir, port };
        let began = Instant::now();
        while !host.listens() {
            let log = fs::read_to_string(host.dir.path().join("log")).unwrap();
            let has_ended = host.server.try_wait().unwrap().is_some();
            assert!(
                began.elapsed() < PATIENCE && !has_ended,
                "the server does not listen: {log}"
            );
            sleep(Duration::from_millis(20));
        }
        host
    }

    fn listens(&self) -> bool {
        let table = format!("/proc/{}/net/tcp", self.server.id());
        let table = fs::read_to_string(table).unwrap_or_default();
        table.contains(&format!(" 0100007F:{:04X} 00000000:0000 0A ", self.port))
    }

    /// Returns the path of a file that the host has written.
    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join("over/changed").join(path)
    }
}

/// Returns a port that the kernel does not choose for outgoing connections: a client that tries to
/// connect to one of those may be connected to itself.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + (std::process::id() as u16 % 100 * 100 + step) % 10_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.server);
        // `unshare` ignores SIGTERM; with it, the processes of all logins end.
        let _ = kill_process(pid, Signal::KILL);
        let _ = self.server.wait();
    }
}

/// The machine that calls: its configuration, trees and keys.
struct Site(TempDir);

impl Site {
    /// Returns the options of a master that reaches the hosts.
    fn for_master(&self) -> String {
        let here = self.0.path().display();
        format!(
            "roster_file: {here}/etc/roster\nssh_builds: {here}/builds\nssh_priv: {here}/key\nssh_control_persist: 0\nroster_defaults: {{ssh_options: ['UserKnownHostsFile={here}/known']}}\n"
        )
    }

    fn new() -> Option<Self> {
        if !geteuid().is_root() {
            skip("throw-away roots need root");
            return None;
        }
        let site = Self(tempfile::tempdir().unwrap());
        let here = site.0.path().display().to_string();
        for folder in ["etc", "srv/salt", "srv/pillar", "builds/x86_64"] {
            fs::create_dir_all(site.path(folder)).unwrap();
        }
        for key in ["key", "hostkey"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(site.path(key))
                .status();
            assert!(made.unwrap().success());
        }
        let build = site.path("builds").join(std::env::consts::ARCH);
        fs::create_dir_all(&build).unwrap();
        copy_program(&AGENT, &build.join("pinch"));
        let config = format!(
            "root_dir: {here}/root\nfile_client: local\nfile_roots: {{base: [{here}/srv/salt]}}\npillar_roots: {{base: [{here}/srv/pillar]}}\nssh_builds: {here}/builds\nssh_priv: {here}/key\nssh_control_persist: 0\nroster_defaults: {{ssh_options: ['UserKnownHostsFile={here}/known']}}\nenable_fqdns_grains: False\n"
        );
        site.write("etc/master", &format!("{config}id: caller\n"));
        site.write("etc/minion", &(config + "id: caller\n"));
        Some(site)
    }

    /// Returns a site with the host `web1`.
    fn with_host() -> Option<(Self, Host)> {
        let site = Self::new()?;
        let host = Host::start(&site, &[]);
        site.enlist(&[("web1", host.port)]);
        Some((site, host))
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }

    /// Writes a roster of these hosts, and their keys.
    fn enlist(&self, hosts: &[(&str, u16)]) {
        let key = fs::read_to_string(self.path("hostkey.pub")).unwrap();
        let (mut roster, mut known) = (String::new(), String::new());
        for (id, port) in hosts {
            roster += &format!("{id}: {{host: 127.0.0.1, port: {port}}}\n");
            known += &format!("[127.0.0.1]:{port} {key}");
        }
        self.write("etc/roster", &roster);
        self.write("known", &known);
    }

    fn command(&self, applet: &str, words: &[&str]) -> Command {
        command_in(self.0.path(), applet, words)
    }

    /// Completes a command that runs the program.
    fn command_by(&self, command: Command, applet: &str, words: &[&str]) -> Command {
        completed(command, self.0.path(), applet, words)
    }

    fn ssh(&self, words: &[&str]) -> Answer {
        Answer::of(self.command("salt-ssh", words).output().unwrap())
    }

    /// Starts `salt-ssh` without waiting for it.
    fn begin_ssh(&self, words: &[&str]) -> Child {
        self.command("salt-ssh", words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn call(&self, words: &[&str]) -> Answer {
        Answer::of(self.command("salt-call", words).output().unwrap())
    }
}

/// Returns a command of the program with the configuration below a folder.
fn command_in(folder: &Path, applet: &str, words: &[&str]) -> Command {
    completed(Command::new(pinch_program()), folder, applet, words)
}

/// Completes a command that runs the program with the configuration below a folder.
fn completed(mut command: Command, folder: &Path, applet: &str, words: &[&str]) -> Command {
    in_recorded_environment(&mut command)
        .arg(applet)
        .arg("-c")
        .arg(folder.join("etc"))
        .args(words)
        .stdin(Stdio::null());
    command
}

/// The outcome of a command.
struct Answer {
    out: String,
    err: String,
    code: Option<i32>,
}

impl Answer {
    fn of(output: Output) -> Self {
        Self {
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code(),
        }
    }

    #[track_caller]
    fn is(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{}\n{}", self.out, self.err);
        for part in parts {
            assert!(
                self.out.contains(part),
                "no {part:?}: {}\n{}",
                self.out,
                self.err
            );
        }
    }
}

/// Returns the files of the program in the folder of a host.
fn placed(folder: &Path) -> Vec<(String, u64)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    files
        .map(|file| {
            (
                file.file_name().into_string().unwrap(),
                file.metadata().unwrap().ino(),
            )
        })
        .collect()
}

const SLOW: &str =
    "slow:\n  cmd.run:\n    - name: echo run >>/root/runs; sleep 5; echo end >>/root/runs\n";

/// Ends the connections of a host, as a link that is lost.
fn cut(host: &Host) {
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let own = namespace(&host.server.id().to_string());
    let mut ended = 0;
    for entry in fs::read_dir("/proc").unwrap() {
        let pid = entry.unwrap().file_name().into_string().unwrap();
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if line.starts_with("sshd: root") && namespace(&pid) == own {
            let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
            kill_process(pid, Signal::KILL).unwrap();
            ended += 1;
        }
    }
    assert!(ended > 0, "the host has no connection");
}

/// Waits until a file has this many lines.
fn wait_for_lines(path: &Path, count: usize) {
    let began = Instant::now();
    while fs::read_to_string(path).unwrap_or_default().lines().count() < count {
        assert!(
            began.elapsed() < PATIENCE,
            "{} is not there",
            path.display()
        );
        sleep(Duration::from_millis(20));
    }
}

/// Writes a roster with one host, whose entry has these further keys.
fn enlist_one(site: &Site, host: &Host, more: &str) {
    site.enlist(&[("web1", host.port)]);
    let port = host.port;
    site.write(
        "etc/roster",
        &format!("web1: {{host: 127.0.0.1, port: {port}, {more}}}\n"),
    );
}
