//! `salt-ssh`, and steps of orchestrations, on hosts behind real servers of OpenSSH.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::fleet::Fleet;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;
use tests::program::{copy_program, in_recorded_environment, pinch_program};
use tests::scratch::corpus;
use tests::skip::skip;

/// The program for hosts, without debug information.
static AGENT: LazyLock<(TempDir, PathBuf)> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pinch");
    copy_program(&pinch_program(), &path);
    let stripped = Command::new("strip").arg(&path).status().unwrap();
    assert!(stripped.success());
    (dir, path)
});

const PATIENCE: Duration = Duration::from_secs(60);

/// A host behind a server on loopback.
struct Host {
    server: Child,
    dir: TempDir,
    port: u16,
}

impl Host {
    fn start(site: &Site, kind: &[&str]) -> Self {
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
        copy_program(&AGENT.1, &dir.path().join("pinch"));
        let log = File::create(dir.path().join("log")).unwrap();
        let server = Command::new("sh")
            .arg(corpus().join("sshd.sh"))
            .arg(dir.path())
            .arg(port.to_string())
            .args(kind)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let host = Self { server, dir, port };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let log = fs::read_to_string(host.dir.path().join("log")).unwrap();
            assert!(
                began.elapsed() < PATIENCE,
                "the server does not listen: {log}"
            );
            sleep(Duration::from_millis(20));
        }
        host
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
        copy_program(&AGENT.1, &build.join("pinch"));
        let config = format!(
            "root_dir: {here}/root\nfile_client: local\nfile_roots: {{base: [{here}/srv/salt]}}\npillar_roots: {{base: [{here}/srv/pillar]}}\nssh_builds: {here}/builds\nssh_priv: {here}/key\nssh_control_persist: 0\nroster_defaults: {{ssh_options: ['UserKnownHostsFile={here}/known']}}\nenable_fqdns_grains: False\n"
        );
        site.write("etc/master", &format!("{config}id: caller\n"));
        site.write("etc/minion", &(config + "id: caller\n"));
        Some(site)
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
        let mut command = Command::new(pinch_program());
        in_recorded_environment(&mut command)
            .arg(applet)
            .arg("-c")
            .arg(self.path("etc"))
            .args(words)
            .stdin(Stdio::null());
        command
    }

    fn ssh(&self, words: &[&str]) -> Answer {
        Answer::of(self.command("salt-ssh", words).output().unwrap())
    }

    fn call(&self, words: &[&str]) -> Answer {
        Answer::of(self.command("salt-call", words).output().unwrap())
    }
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

#[test]
fn a_host_with_nothing_but_busybox_runs_functions_and_states() {
    let Some(site) = Site::new() else { return };
    let box_ = Host::start(&site, &["box"]);
    site.enlist(&[("web1", box_.port)]);
    site.write("srv/pillar/top.sls", "base: {'web*': [color]}\n");
    site.write("srv/pillar/color.sls", "color: red\n");
    site.write("srv/salt/f.txt", "{{ grains.id }} is {{ pillar.color }}\n");
    site.write(
        "srv/salt/web.sls",
        "/root/out:\n  file.managed:\n    - source: salt://f.txt\n    - template: jinja\n",
    );
    site.ssh(&["*", "test.ping", "--out=json"])
        .is(0, &[r#""web1": true"#]);
    let folder = box_.path("box/var/tmp/.root_pinch");
    let first = placed(&folder);
    assert_eq!(first.len(), 1, "{first:?}");
    site.ssh(&["*", "state.apply", "web"])
        .is(0, &["Succeeded: 1 (changed=1)"]);
    let written = fs::read_to_string(box_.path("box/root/out")).unwrap();
    assert_eq!(written, "web1 is red\n");
    site.ssh(&["*", "state.apply", "web"])
        .is(0, &["Succeeded: 1\n"]);
    assert_eq!(placed(&folder), first, "the program was sent again");
    assert_eq!(fs::read_dir(folder.join("jobs")).unwrap().count(), 0);
}

#[test]
fn the_texts_and_codes_are_salts() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &[]);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let down = closed.local_addr().unwrap().port();
    drop(closed);
    site.enlist(&[("web1", host.port), ("down", down)]);
    site.write("srv/salt/bad.sls", "bad:\n  test.fail_without_changes\n");
    let refused = format!("ssh: connect to host 127.0.0.1 port {down}: Connection refused");
    site.ssh(&["*", "test.ping"])
        .is(20, &["web1:\n    True", &refused]);
    site.ssh(&["web1", "nosuch.fun"])
        .is(20, &["'nosuch.fun' is not available."]);
    site.ssh(&["web1", "state.apply", "bad"])
        .is(20, &["Failed:    1"]);
    let raw = site.ssh(&["-r", "--out=json", "web1", "echo hi; exit 3"]);
    raw.is(
        20,
        &[
            r#""_error": "The command resulted in a non-zero exit code""#,
            r#""retcode": 3"#,
            r#""stdout": "hi\n""#,
            r#""parsed": null"#,
        ],
    );
    site.ssh(&["-H"]).is(0, &["web1:", "127.0.0.1"]);
    let none = site.ssh(&["db*", "test.ping"]);
    none.is(1, &[]);
    assert!(
        none.err.contains("No matching targets found in roster."),
        "{}",
        none.err
    );
    assert_eq!(site.ssh(&["web1"]).code, Some(64));
}

#[test]
fn a_step_runs_on_hosts_without_a_master() {
    let Some(site) = Site::new() else { return };
    let hosts = [Host::start(&site, &[]), Host::start(&site, &[])];
    site.enlist(&[("web1", hosts[0].port), ("web2", hosts[1].port)]);
    site.write(
        "srv/salt/web.sls",
        "/root/out:\n  file.managed:\n    - contents: here\n",
    );
    site.write(
        "srv/salt/orch/web.sls",
        "ping:\n  salt.function:\n    - name: test.ping\n    - tgt: 'web*'\n    - ssh: True\ndeploy:\n  salt.state:\n    - tgt: 'web*'\n    - ssh: True\n    - sls: web\n    - require: [{salt: ping}]\nbad:\n  salt.function:\n    - name: cmd.run\n    - arg: ['exit 3']\n    - tgt: web1\n    - ssh: True\nnever:\n  salt.state:\n    - tgt: web2\n    - ssh: True\n    - sls: web\n    - require: [{salt: bad}]\n",
    );
    let ran = site.call(&["--local", "state.orchestrate", "orch.web"]);
    ran.is(
        1,
        &[
            "Function ran successfully. Function test.ping ran on web1, web2.",
            "States ran successfully. Updating web1, web2.",
            "Running function cmd.run failed on minions: web1 Function cmd.run ran on web1.",
            "One or more requisite failed: orch.web.bad",
        ],
    );
    for host in &hosts {
        assert_eq!(fs::read_to_string(host.path("root/out")).unwrap(), "here\n");
    }
}

#[test]
fn an_unknown_host_key_is_refused_unless_it_is_to_be_accepted() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &[]);
    site.enlist(&[("web1", host.port)]);
    site.write("known", "");
    site.ssh(&["web1", "test.ping"])
        .is(20, &["Host key verification failed."]);
    site.ssh(&["-i", "web1", "test.ping"]).is(0, &["True"]);
    assert!(
        fs::read_to_string(site.path("known"))
            .unwrap()
            .contains("ssh-ed25519")
    );
}

/// Attack: a folder that another user prepared, and a link to a folder elsewhere.
#[test]
fn the_program_is_not_placed_where_another_user_can_write() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &[]);
    site.enlist(&[("web1", host.port)]);
    let prepared = host.path("var/tmp/.root_pinch");
    fs::create_dir_all(&prepared).unwrap();
    fs::set_permissions(&prepared, fs::Permissions::from_mode(0o777)).unwrap();
    fs::create_dir_all(host.path("root/.cache")).unwrap();
    std::os::unix::fs::symlink("/tmp/elsewhere", host.path("root/.cache/pinch")).unwrap();
    fs::create_dir_all(host.path("tmp/elsewhere")).unwrap();
    site.ssh(&["web1", "test.ping"]).is(0, &["True"]);
    assert_eq!(placed(&prepared), []);
    assert_eq!(placed(&host.path("tmp/elsewhere")), []);
}

#[test]
fn a_transfer_that_was_cut_continues_where_it_stopped() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &[]);
    site.enlist(&[("web1", host.port)]);
    let folder = host.dir.path().join("thin");
    let line = format!(
        "\n  web1: {{host: 127.0.0.1, port: {}, thin_dir: {}}}\n",
        host.port,
        folder.display()
    );
    site.write("etc/roster", &line);
    site.ssh(&["web1", "test.ping"]).is(0, &["True"]);
    let (name, _) = placed(&folder).remove(0);
    let whole = fs::read(folder.join(&name)).unwrap();
    // The partial file has the name of the caller, whose id is in the configuration of the master.
    let id = ring::digest::digest(&ring::digest::SHA256, b"caller");
    let id = id.as_ref()[..4].iter().map(|byte| format!("{byte:02x}"));
    let part = format!("{name}.{}.part", id.collect::<String>());
    fs::remove_file(folder.join(&name)).unwrap();
    // Every prefix is continued; a part with other bytes is sent anew by the next call.
    for length in [0, 100_000, whole.len() - 1, whole.len()] {
        fs::write(folder.join(&part), &whole[..length]).unwrap();
        site.ssh(&["web1", "test.ping"]).is(0, &["True"]);
        assert_eq!(fs::read(folder.join(&name)).unwrap(), whole, "{length}");
        fs::remove_file(folder.join(&name)).unwrap();
    }
    fs::write(folder.join(&part), vec![0; whole.len()]).unwrap();
    site.ssh(&["web1", "test.ping"])
        .is(12, &["does not have its hash"]);
    site.ssh(&["web1", "test.ping"]).is(0, &["True"]);
}

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

const SLOW: &str =
    "slow:\n  cmd.run:\n    - name: echo run >>/root/runs; sleep 5; echo end >>/root/runs\n";

#[test]
fn the_return_of_a_job_whose_link_was_lost_is_fetched_and_the_job_runs_once() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &[]);
    site.enlist(&[("web1", host.port)]);
    site.write("srv/salt/slow.sls", SLOW);
    let called = site
        .command("salt-ssh", &["web1", "state.apply", "slow"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_lines(&host.path("root/runs"), 1);
    cut(&host);
    Answer::of(called.wait_with_output().unwrap()).is(0, &["Succeeded: 1 (changed=1)"]);
    let runs = fs::read_to_string(host.path("root/runs")).unwrap();
    assert_eq!(runs, "run\nend\n");
}

#[test]
fn a_job_is_ended_after_its_grace_and_says_so() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &[]);
    site.enlist(&[("web1", host.port)]);
    let config = fs::read_to_string(site.path("etc/master")).unwrap();
    site.write("etc/master", &(config + "ssh_grace: 1\n"));
    site.write("srv/salt/slow.sls", &SLOW.replace("sleep 5", "sleep 600"));
    let called = site
        .command("salt-ssh", &["web1", "state.apply", "slow"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_lines(&host.path("root/runs"), 1);
    cut(&host);
    Answer::of(called.wait_with_output().unwrap())
        .is(11, &["ended on the host before it returned (ssh_grace)"]);
    assert_eq!(fs::read_to_string(host.path("root/runs")).unwrap(), "run\n");
}

#[test]
fn a_resumed_orchestration_fetches_the_returns_of_the_step_that_was_under_way() {
    let Some(site) = Site::new() else { return };
    let hosts = [Host::start(&site, &[]), Host::start(&site, &[])];
    site.enlist(&[("web1", hosts[0].port), ("web2", hosts[1].port)]);
    site.write("srv/salt/slow.sls", SLOW);
    site.write(
        "srv/salt/orch/slow.sls",
        "first:\n  salt.function:\n    - name: cmd.run\n    - arg: ['echo once >>/root/first']\n    - tgt: '*'\n    - ssh: True\ndeploy:\n  salt.state:\n    - tgt: '*'\n    - ssh: True\n    - sls: slow\n    - require: [{salt: first}]\n",
    );
    let words = ["--local", "state.orchestrate", "orch.slow"];
    let mut called = site
        .command("salt-call", &words)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    for host in &hosts {
        wait_for_lines(&host.path("root/runs"), 1);
    }
    called.kill().unwrap();
    called.wait().unwrap();
    let resumed = site.call(&["--local", "state.orchestrate", "orch.slow", "resume=True"]);
    resumed.is(0, &["States ran successfully. Updating web1, web2."]);
    for host in &hosts {
        let read = |path: &str| fs::read_to_string(host.path(path)).unwrap();
        assert_eq!(read("root/runs"), "run\nend\n");
        assert_eq!(read("root/first"), "once\n");
    }
    let steps = site.path("root/var/cache/salt/minion/ssh/steps");
    let left: Vec<_> = fs::read_dir(steps).unwrap().collect();
    assert!(
        left.iter()
            .all(|run| fs::read_dir(run.as_ref().unwrap().path()).unwrap().count() == 0)
    );
}

#[test]
fn targets_of_a_masterless_orchestration_are_this_machine_and_the_hosts_of_a_roster() {
    let Some(site) = Site::new() else { return };
    let hosts = [Host::start(&site, &[]), Host::start(&site, &[])];
    site.enlist(&[("web1", hosts[0].port), ("db1", hosts[1].port)]);
    let roster = fs::read_to_string(site.path("etc/roster")).unwrap();
    let roster = roster.replacen("}", ", minion_opts: {grains: {role: web}}}", 1);
    site.write("hosts", &roster);
    site.write(
        "srv/salt/orch/all.sls",
        "all:\n  salt.function:\n    - name: test.ping\n    - tgt: '*'\nweb:\n  salt.function:\n    - name: grains.get\n    - arg: [id]\n    - tgt: 'role:web'\n    - tgt_type: grain\nhere:\n  salt.function:\n    - name: test.ping\n    - tgt: caller\nnone:\n  salt.state:\n    - tgt: nobody\n    - sls: x\n",
    );
    let file = site.path("hosts").display().to_string();
    let words = [
        "--local",
        "--roster-file",
        &file,
        "state.orchestrate",
        "orch.all",
    ];
    let ran = site.call(&words);
    ran.is(
        1,
        &[
            "Function test.ping ran on caller, db1, web1.",
            "Function grains.get ran on web1.",
            "Function test.ping ran on caller.",
            "No minions returned",
        ],
    );
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

#[test]
fn passwords_of_the_roster_log_in_and_are_read_by_sudo_only_if_it_needs_one() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &["login"]);
    for user in ["asked", "free"] {
        enlist_one(
            &site,
            &host,
            &format!("user: {user}, passwd: pass word, sudo: True"),
        );
        let ran = site.ssh(&["web1", "cmd.run", "id -un; env", "--out=json"]);
        ran.is(0, &["root"]);
        let raw = site.ssh(&["-r", "web1", "whoami; cat; echo it\\'s"]);
        raw.is(0, &["root", "it's"]);
        assert!(!(ran.out + &raw.out + &raw.err).contains("pass word"));
    }
    enlist_one(&site, &host, "user: free, passwd: wrong");
    site.ssh(&["web1", "test.ping"])
        .is(20, &["Permission denied", "--key-deploy"]);
    let left = host.path("home/asked");
    assert!(fs::read_dir(left).is_err() || !host.path("home/asked/.ssh").exists());
}

#[test]
fn the_key_is_deployed_by_a_password_and_then_logs_in_alone() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &["login"]);
    enlist_one(&site, &host, "user: free");
    let config = fs::read_to_string(site.path("etc/master")).unwrap();
    let key = site.path("new/key").display().to_string();
    let old = format!("ssh_priv: {}", site.path("key").display());
    site.write(
        "etc/master",
        &config.replace(&old, &format!("ssh_priv: {key}")),
    );
    site.ssh(&["--key-deploy", "web1", "test.ping"]).is(1, &[]);
    site.ssh(&["--key-deploy", "--passwd=pass word", "web1", "test.ping"])
        .is(0, &["True"]);
    site.ssh(&["--key-deploy", "--passwd=pass word", "web1", "test.ping"])
        .is(0, &["True"]);
    site.ssh(&["web1", "test.ping"]).is(0, &["True"]);
    let keys = fs::read_to_string(host.path("home/free/.ssh/authorized_keys")).unwrap();
    assert_eq!(keys.lines().count(), 1, "{keys}");
    let mode = fs::metadata(site.path("new/key")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_wiped_host_has_nothing_left_and_a_random_folder_is_used_once() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &[]);
    site.enlist(&[("web1", host.port)]);
    let folders = || {
        let entries = fs::read_dir(host.path("var/tmp")).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let real = |name: &String| host.path("var/tmp").join(name).is_dir();
        names.filter(real).collect::<Vec<_>>()
    };
    site.ssh(&["-w", "web1", "test.ping"]).is(0, &["True"]);
    assert_eq!(folders(), Vec::<String>::new());
    site.ssh(&["web1", "test.ping"]).is(0, &["True"]);
    site.ssh(&["-W", "web1", "test.ping"]).is(0, &["True"]);
    assert_eq!(folders(), [".root_pinch"]);
    let folder = host.path("var/tmp/.root_pinch");
    let first = placed(&folder);
    site.ssh(&["-t", "web1", "test.ping"]).is(0, &["True"]);
    assert_ne!(placed(&folder), first);
}

#[test]
fn a_pinned_key_is_the_only_one_that_is_accepted() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &[]);
    let key = |name: &str| {
        let text = fs::read_to_string(site.path(name)).unwrap();
        text.split(' ').take(2).collect::<Vec<_>>().join(" ")
    };
    enlist_one(&site, &host, &format!("host_key: {}", key("hostkey.pub")));
    site.write("known", "");
    site.ssh(&["web1", "test.ping"]).is(0, &["True"]);
    enlist_one(&site, &host, &format!("host_key: {}", key("key.pub")));
    for words in [&["web1", "test.ping"][..], &["-i", "web1", "test.ping"]] {
        site.ssh(words).is(20, &["Host key verification failed."]);
    }
}

#[test]
fn the_users_own_commands_run_before_the_first_job() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &[]);
    let script = site.path("flight.sh");
    fs::write(&script, "echo \"$1 $#\" >>/root/flight\n").unwrap();
    let hook = site.path("hooked");
    let more = format!(
        "ssh_pre_hook: touch {}, ssh_pre_flight: {}, ssh_pre_flight_args: [\"it's\", b], set_path: \"$PATH:/opt/more\", cmd_umask: '077'",
        hook.display(),
        script.display()
    );
    enlist_one(&site, &host, &more);
    let ran = site.ssh(&["web1", "cmd.run", "echo $PATH; umask"]);
    ran.is(0, &["/opt/more", "0077"]);
    assert!(hook.exists());
    let flown = || fs::read_to_string(host.path("root/flight")).unwrap();
    assert_eq!(flown(), "it's 2\n");
    site.ssh(&["web1", "test.ping"]).is(0, &["True"]);
    assert_eq!(flown(), "it's 2\n");
    site.ssh(&["--pre-flight", "web1", "test.ping"])
        .is(0, &["True"]);
    assert_eq!(flown(), "it's 2\nit's 2\n");
    fs::write(&script, "echo no >&2; exit 3\n").unwrap();
    site.ssh(&["--pre-flight", "web1", "test.ping"])
        .is(11, &["ssh_pre_flight", "no"]);
    fs::set_permissions(&script, fs::Permissions::from_mode(0o666)).unwrap();
    site.ssh(&["--pre-flight", "web1", "test.ping"])
        .is(11, &["can be changed by"]);
}

#[test]
fn a_disk_that_is_full_or_runs_no_programs_is_named() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &["disks"]);
    enlist_one(&site, &host, "thin_dir: /noexec/pinch");
    site.ssh(&["web1", "test.ping"])
        .is(11, &["no folder", "set thin_dir in the roster"]);
    enlist_one(&site, &host, "thin_dir: /full/pinch");
    for _ in 0..2 {
        site.ssh(&["web1", "test.ping"]).is(
            11,
            &[
                "cannot place the program at /full/pinch/",
                "No space left on device",
            ],
        );
    }
}

/// Attack: the host is not what it says.
#[test]
fn a_host_that_lies_harms_only_its_own_return() {
    let Some(site) = Site::new() else { return };
    let (liar, good) = (Host::start(&site, &["script"]), Host::start(&site, &[]));
    site.enlist(&[("liar", liar.port), ("web1", good.port)]);
    let probe = "case \"$SSH_ORIGINAL_COMMAND\" in *pinch-probe*) echo pinch-probe machine x86_64; echo pinch-probe folder /tmp; exit ;; esac\n";
    let cases = [
        (
            "echo pinch-probe machine vax; echo pinch-probe folder /tmp",
            "\"vax\"",
        ),
        (
            "echo 'pinch-probe machine x86_64'; echo 'pinch-probe folder /tmp/$(id)'",
            "no folder",
        ),
        (
            "exec yes pinch-probe file 1 x",
            "the output has more than 16 MiB",
        ),
        ("exec yes >&2", "the output has more than 16 MiB"),
        ("exit 3", "no usable shell"),
        // It takes the program and drops it, and then sends bytes that are no frames.
        (
            &format!(
                "{probe}case \"$SSH_ORIGINAL_COMMAND\" in *ssh-job*) exec head -c 100000 /dev/urandom ;; *) cat >/dev/null ;; esac"
            ),
            "the job ended without a return",
        ),
        // A frame of 4 GiB.
        (
            &format!(
                "{probe}case \"$SSH_ORIGINAL_COMMAND\" in *ssh-job*) printf '\\377\\377\\377\\377'; exec yes ;; *) cat >/dev/null ;; esac"
            ),
            "the job ended without a return",
        ),
    ];
    for (script, text) in cases {
        fs::write(liar.dir.path().join("host.sh"), script).unwrap();
        let ran = site.ssh(&["*", "test.ping", "--out=json"]);
        assert_ne!(ran.code, Some(0), "{script}");
        assert!(ran.out.contains("\"web1\": true"), "{script}: {}", ran.out);
        assert!(
            ran.out.contains(&text.replace('"', "\\\"")),
            "{script}: {}",
            ran.out
        );
    }
}

#[test]
fn two_transfers_at_once_do_not_disturb_each_other() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &[]);
    site.enlist(&[("web1", host.port)]);
    let calls: Vec<Child> = (0..3)
        .map(|_| {
            let mut command = site.command("salt-ssh", &["web1", "test.ping"]);
            command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for call in calls {
        Answer::of(call.wait_with_output().unwrap()).is(0, &["True"]);
    }
    assert_eq!(placed(&host.path("var/tmp/.root_pinch")).len(), 1);
}

#[test]
fn a_master_runs_steps_on_hosts_and_has_their_events() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &[]);
    site.enlist(&[("web1", host.port)]);
    let here = site.0.path().display();
    let fleet = Fleet::with(&format!(
        "auto_accept: True\nroster_file: {here}/etc/roster\nssh_builds: {here}/builds\nssh_priv: {here}/key\nssh_control_persist: 0\nroster_defaults: {{ssh_options: ['UserKnownHostsFile={here}/known']}}\n"
    ));
    fleet.write("pillar/top.sls", "base: {web1: [color]}\n");
    fleet.write("pillar/color.sls", "color: green\n");
    fleet.write("salt/f.txt", "{{ pillar.color }}\n");
    fleet.write(
        "salt/web.sls",
        "/root/out:\n  file.managed:\n    - source: salt://f.txt\n    - template: jinja\nmy/event:\n  event.send\n",
    );
    fleet.write(
        "salt/orch/web.sls",
        "deploy:\n  salt.state:\n    - tgt: 'web*'\n    - ssh: True\n    - sls: web\n",
    );
    let ran = fleet.run(&["salt-run", "state.orchestrate", "orch.web"]);
    assert!(
        ran.out.contains("States ran successfully. Updating web1."),
        "{}",
        ran.out
    );
    assert_eq!(ran.rc, Some(0));
    let written = fs::read_to_string(host.path("root/out")).unwrap();
    assert_eq!(written, "green\n");
    for tag in ["salt/job/*/new", "salt/job/*/ret/web1", "my/event"] {
        let tag = format!("tagmatch={tag}");
        let seen = fleet.run(&["salt-run", "state.event", &tag, "from=1", "count=1"]);
        assert!(seen.out.contains("web1"), "{tag}: {}", seen.out);
    }
}
