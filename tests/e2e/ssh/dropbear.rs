//! Dropbear's server on hosts, and dropbear's client on the machine that calls.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;
use tests::program::pinch_program;

use super::{Answer, Host, SLOW, Site, cut, enlist_one, placed, wait_for_lines};

/// A caller whose only ssh program is `dbclient`.
struct Caller {
    site: Site,
    programs: TempDir,
}

impl Caller {
    fn new() -> Option<Self> {
        let site = Site::new()?;
        let caller = Self {
            site,
            programs: tempfile::tempdir().unwrap(),
        };
        let packages = fs::read_dir("/var/cache/pinch-tests/ssh").unwrap();
        for package in packages.map(|entry| entry.unwrap().path()) {
            let name = package.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with("dropbear-bin") || name.starts_with("libtom") {
                caller.run_program(
                    Command::new("dpkg")
                        .arg("-x")
                        .arg(&package)
                        .arg(caller.programs.path()),
                );
            }
        }
        let (key, own) = (caller.site.path("key"), caller.site.path("dropbear/key"));
        fs::create_dir_all(caller.site.path("dropbear/.ssh")).unwrap();
        caller.run_program(
            Command::new(caller.programs.path().join("usr/bin/dropbearconvert"))
                .args(["openssh", "dropbear"])
                .args([&key, &own]),
        );
        let config = fs::read_to_string(caller.site.path("etc/master")).unwrap();
        let lines = config
            .lines()
            .filter(|line| !line.starts_with("roster_defaults") && !line.starts_with("ssh_priv"));
        let lines: Vec<&str> = lines.collect();
        let config = format!("{}\nssh_priv: {}\n", lines.join("\n"), own.display());
        caller.site.write("etc/master", &config);
        caller.know(&caller.site.path("hostkey.pub"));
        Some(caller)
    }

    fn libraries(&self) -> String {
        let folder = format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH);
        self.programs.path().join(folder).display().to_string()
    }

    fn run_program(&self, command: &mut Command) {
        let ran = command.env("LD_LIBRARY_PATH", self.libraries()).output();
        assert!(ran.unwrap().status.success());
    }

    /// Makes a key of hosts the only one that the client knows. A comment must not follow it.
    fn know(&self, key: &Path) {
        let key = fs::read_to_string(key).unwrap();
        let (key, _comment) = key.rsplit_once(' ').unwrap();
        self.site
            .write("dropbear/.ssh/known_hosts", &format!("127.0.0.1 {key}\n"));
    }

    fn command(&self, words: &[&str]) -> Command {
        let hides = r#"for folder in /bin /usr/bin; do [ ! -e $folder/ssh ] || mount --bind /dev/null $folder/ssh; done; exec "$@""#;
        let programs = self.programs.path().join("usr/bin");
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-euc", hides, "sh"])
            .arg(pinch_program());
        let mut command = self.site.command_by(command, "salt-ssh", words);
        command
            .env("PATH", format!("{}:/usr/bin:/bin", programs.display()))
            .env("LD_LIBRARY_PATH", self.libraries())
            .env("HOME", self.site.path("dropbear"));
        command
    }

    fn ssh(&self, words: &[&str]) -> Answer {
        Answer::of(self.command(words).output().unwrap())
    }
}

fn write_tree(site: &Site) {
    site.write("srv/pillar/top.sls", "base: {'web*': [color]}\n");
    site.write("srv/pillar/color.sls", "color: red\n");
    site.write("srv/salt/f.txt", "{{ grains.id }} is {{ pillar.color }}\n");
    site.write(
        "srv/salt/web.sls",
        "/root/out:\n  file.managed:\n    - source: salt://f.txt\n    - template: jinja\n",
    );
}

/// Runs functions, states and shell commands on the host `web1`.
fn use_host(host: &Host, ssh: impl Fn(&[&str]) -> Answer) {
    ssh(&["web1", "test.ping", "--out=json"]).is(0, &[r#""web1": true"#]);
    let folder = host.path("var/tmp/.root_pinch");
    let first = placed(&folder);
    assert_eq!(first.len(), 1, "{first:?}");
    ssh(&["web1", "state.apply", "web"]).is(0, &["Succeeded: 1 (changed=1)"]);
    let written = fs::read_to_string(host.path("root/out")).unwrap();
    assert_eq!(written, "web1 is red\n");
    ssh(&["web1", "state.apply", "web"]).is(0, &["Succeeded: 1\n"]);
    assert_eq!(placed(&folder), first, "the program was sent again");
    let raw = ssh(&["-r", "--out=json", "web1", "cat; echo it\\'s; exit 3"]);
    raw.is(20, &[r#""retcode": 3"#, r#""stdout": "it's\n""#]);
}

#[test]
fn a_host_behind_dropbears_server_runs_functions_states_and_commands() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &["dropbear"]);
    site.enlist(&[("web1", host.port)]);
    write_tree(&site);
    use_host(&host, |words| site.ssh(words));
}

#[test]
fn dropbears_client_runs_functions_states_and_commands() {
    let Some(caller) = Caller::new() else { return };
    write_tree(&caller.site);
    for kind in [&["dropbear"][..], &[]] {
        let host = Host::start(&caller.site, kind);
        caller.site.enlist(&[("web1", host.port)]);
        use_host(&host, |words| caller.ssh(words));
    }
}

#[test]
fn dropbears_client_reaches_a_job_again_whose_link_was_lost() {
    let Some(caller) = Caller::new() else { return };
    let host = Host::start(&caller.site, &[]);
    caller.site.enlist(&[("web1", host.port)]);
    caller.site.write("srv/salt/slow.sls", SLOW);
    let called = caller
        .command(&["web1", "state.apply", "slow"])
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
fn dropbears_client_checks_the_keys_of_hosts() {
    let Some(caller) = Caller::new() else { return };
    let host = Host::start(&caller.site, &["dropbear"]);
    caller.site.enlist(&[("web1", host.port)]);
    caller.site.write("dropbear/.ssh/known_hosts", "");
    for words in [&["web1", "test.ping"][..], &["-r", "web1", "echo hi"]] {
        caller.ssh(words).is(
            20,
            &[
                "Host '127.0.0.1' is not in the trusted hosts file.",
                "Host key verification failed: accept the key by -i",
            ],
        );
    }
    caller.ssh(&["-i", "web1", "test.ping"]).is(0, &["True"]);
    caller.know(&caller.site.path("key.pub"));
    for words in [&["web1", "test.ping"][..], &["-i", "web1", "test.ping"]] {
        caller
            .ssh(words)
            .is(20, &["ssh-ed25519 host key mismatch for 127.0.0.1 !"]);
    }
    let unchecked = ["--no-host-keys", "web1", "test.ping"];
    caller.ssh(&unchecked).is(0, &["True"]);
}

#[test]
fn dropbears_client_says_why_a_host_cannot_be_used() {
    let Some(caller) = Caller::new() else { return };
    let site = &caller.site;
    let host = Host::start(site, &["dropbear"]);
    site.enlist(&[("web1", host.port)]);
    let other = site.path("dropbear/other");
    caller.run_program(
        Command::new(caller.programs.path().join("usr/bin/dropbearkey"))
            .args(["-t", "ed25519", "-f"])
            .arg(&other),
    );
    let key = |path: &Path| format!("priv: {}", path.display());
    enlist_one(site, &host, &key(&other));
    for words in [&["web1", "test.ping"][..], &["-r", "web1", "echo hi"]] {
        caller
            .ssh(words)
            .is(20, &["Permission denied: the host does not know the key"]);
    }
    enlist_one(site, &host, &key(&site.path("key")));
    caller.ssh(&["web1", "test.ping"]).is(
        20,
        &["cannot read the key", "dropbearconvert openssh dropbear"],
    );
    for (more, name) in [
        ("passwd: pass word", "passwords"),
        ("host_key: ssh-ed25519 AAAA", "host_key"),
        ("ssh_options: [ProxyJump=gate]", "ssh_options"),
    ] {
        enlist_one(site, &host, more);
        let text = format!("only the ssh program of OpenSSH knows {name}");
        caller.ssh(&["web1", "test.ping"]).is(20, &[&text]);
    }
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    site.enlist(&[("web1", closed.local_addr().unwrap().port())]);
    drop(closed);
    let down = "Connect failed: Connection refused";
    caller.ssh(&["web1", "test.ping"]).is(20, &[down]);
    fs::remove_file(caller.programs.path().join("usr/bin/dbclient")).unwrap();
    let none = "this machine has no ssh program";
    caller.ssh(&["web1", "test.ping"]).is(14, &[none]);
    caller.ssh(&["-r", "web1", "echo hi"]).is(14, &[none]);
}
