//! Options of the command line, and hosts that no roster has.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread::spawn;

use super::{Host, Site, free_port};

/// Sets an option of the configuration of the caller.
fn configure(site: &Site, name: &str, value: &str) {
    let config = fs::read_to_string(site.path("etc/master")).unwrap();
    let lines = config.lines().filter(|line| !line.starts_with(name));
    let lines: Vec<&str> = lines.collect();
    site.write(
        "etc/master",
        &format!("{}\n{name}: {value}\n", lines.join("\n")),
    );
}

#[test]
fn static_output_is_one_document_with_all_hosts_and_their_worst_code() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &[]);
    site.enlist(&[("web1", host.port), ("web2", host.port)]);
    let keys = |words: &[&str]| {
        let ran = site.ssh(words);
        ran.is(0, &[]);
        let value = value::json::read(&ran.out);
        let value = value.unwrap_or_else(|error| panic!("{error}: {}", ran.out));
        let mut keys: Vec<String> = value
            .as_map()
            .unwrap()
            .keys()
            .map(|key| key.to_text())
            .collect();
        keys.sort();
        keys
    };
    let words = ["-s", "--out=json", "web*", "test.ping"];
    assert_eq!(keys(&words), ["web1", "web2"]);
    let raw = ["--static", "--out=json", "-r", "web*", "echo hi"];
    assert_eq!(keys(&raw), ["web1", "web2"]);
    site.write(
        "etc/roster",
        &format!(
            "web1: {{host: 127.0.0.1, port: {}}}\nweb2: {{host: 127.0.0.1, port: 1}}\n",
            host.port
        ),
    );
    let ran = site.ssh(&["-s", "--out=json", "web*", "test.ping"]);
    ran.is(20, &["\"web1\": true", "Connection refused"]);
    value::json::read(&ran.out).unwrap();
}

#[test]
fn the_passphrase_of_a_key_is_used_and_never_printed() {
    let Some((site, host)) = Site::with_host() else {
        return;
    };
    let key = site.path("locked");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "pass phrase", "-f"])
        .arg(&key)
        .status();
    assert!(made.unwrap().success());
    fs::copy(site.path("locked.pub"), host.dir.path().join("key.pub")).unwrap();
    let key = format!("--priv={}", key.display());
    let ran = site.ssh(&[
        &key,
        "--priv-passwd=pass phrase",
        "-l",
        "debug",
        "web1",
        "test.ping",
    ]);
    ran.is(0, &["True"]);
    assert!(!(ran.out + &ran.err).contains("pass phrase"));
    for words in [&["--priv-passwd=another"][..], &[]] {
        let words = [&[key.as_str()], words, &["web1", "test.ping"]].concat();
        site.ssh(&words).is(20, &["Permission denied"]);
    }
}

#[test]
fn a_forwarded_port_of_the_host_leads_to_this_machine() {
    let Some((site, _host)) = Site::with_host() else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let here = listener.local_addr().unwrap().port();
    spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().write_all(b"from the caller\n");
        }
    });
    let there = free_port();
    let forward = format!("--remote-port-forwards={there}:127.0.0.1:{here}");
    let line = format!("exec 3<>/dev/tcp/127.0.0.1/{there}; cat <&3");
    let words = [&forward, "web1", "cmd.run", &line, "shell=/bin/bash"];
    // The connections of a call are separate ones, or share one.
    site.ssh(&words).is(0, &["from the caller"]);
    configure(&site, "ssh_control_persist", "2");
    site.ssh(&words).is(0, &["from the caller"]);
    site.ssh(&["--remote-port-forwards=22;id", "web1", "test.ping"])
        .is(1, &[]);
}

#[test]
fn hosts_by_hand_need_no_entry_of_a_roster() {
    let Some((site, host)) = Site::with_host() else {
        return;
    };
    configure(&site, "ssh_port", &host.port.to_string());
    let by_hand = ["root@127.0.0.1", "test.ping", "--out=json"];
    site.ssh(&by_hand).is(0, &["\"127.0.0.1\": true"]);
    site.ssh(&["--user=root", "127.0.0.1", "grains.get", "id"])
        .is(0, &["127.0.0.1"]);
    site.ssh(&["nosuch@127.0.0.1", "test.ping"])
        .is(20, &["Permission denied"]);
    // Attack: a host that would be an option of ssh.
    let ran = site.ssh(&["-oProxyCommand=id@x", "test.ping"]);
    assert_ne!(ran.code, Some(0));
    let ran = site.ssh(&["--", "root@-oProxyCommand=id", "test.ping"]);
    ran.is(1, &[]);
    assert!(ran.err.contains("is not a valid minion id"), "{}", ran.err);
    fs::remove_file(site.path("etc/roster")).unwrap();
    site.ssh(&by_hand).is(0, &["\"127.0.0.1\": true"]);
    let ran = site.ssh(&["web1", "test.ping"]);
    ran.is(1, &[]);
    assert!(ran.err.contains("cannot read the roster"), "{}", ran.err);
}

#[test]
fn a_detached_job_continues_after_the_link_is_lost_and_its_return_is_fetched() {
    use super::{Answer, SLOW, cut, wait_for_lines};
    let Some((site, host)) = Site::with_host() else {
        return;
    };
    // Without `ssh_detach`, the job would end at once.
    configure(&site, "ssh_grace", "0");
    configure(&site, "ssh_detach", "True");
    site.write("srv/salt/slow.sls", SLOW);
    let mut command = site.command("salt-ssh", &["web1", "state.apply", "slow"]);
    let called = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_lines(&host.path("root/runs"), 1);
    cut(&host);
    Answer::of(called.wait_with_output().unwrap()).is(0, &["Succeeded: 1 (changed=1)"]);
    let runs = fs::read_to_string(host.path("root/runs")).unwrap();
    assert_eq!(runs, "run\nend\n");
}

/// Runs `salt-ssh` at a terminal. `answers` are written after what they answer has appeared. Returns
/// what was on the terminal, and the exit code.
fn at_terminal(site: &Site, words: &[&str], answers: &[(&str, &str)]) -> (String, Option<i32>) {
    let (mut master, slave) = tests::terminal::terminal(200);
    let mut command = Command::new("setsid");
    command
        .args(["--ctty", "--wait"])
        .arg(tests::program::pinch_program());
    let mut command = site.command_by(command, "salt-ssh", words);
    command
        .stdin(slave.try_clone().unwrap())
        .stdout(slave.try_clone().unwrap())
        .stderr(slave);
    let mut child = command.spawn().unwrap();
    drop(command);
    let (mut shown, mut piece) = (String::new(), [0; 4096]);
    let mut answers = answers.iter();
    let mut next = answers.next();
    // The terminal cannot be read after its last user has closed it.
    while let Ok(length @ 1..) = master.read(&mut piece) {
        shown += &String::from_utf8_lossy(&piece[..length]);
        while let Some((question, answer)) = next.filter(|(question, _)| shown.contains(question)) {
            let _ = question;
            master.write_all(format!("{answer}\n").as_bytes()).unwrap();
            next = answers.next();
        }
    }
    assert!(next.is_none(), "no {next:?}: {shown}");
    (shown, child.wait().unwrap().code())
}

#[test]
fn a_terminal_is_asked_for_the_password_and_offered_to_deploy_the_key() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &["login"]);
    let config = fs::read_to_string(site.path("etc/master")).unwrap();
    let (old, new) = (site.path("key"), site.path("new/key"));
    let config = config.replace(
        &format!("ssh_priv: {}", old.display()),
        &format!("ssh_priv: {}", new.display()),
    );
    site.write("etc/master", &config);
    super::enlist_one(&site, &host, "user: free");
    let ping = ["web1", "test.ping"];
    let offer = "Permission denied for host web1, do you want to deploy the salt-ssh key? (password required):";
    let password = "Password for free@web1: ";

    // A password for this call alone. It is not echoed.
    let (shown, code) = at_terminal(
        &site,
        &["--askpass", "web1", "test.ping"],
        &[("Password: ", "pass word")],
    );
    assert_eq!(code, Some(0), "{shown}");
    assert!(
        shown.contains("True") && !shown.contains("pass word"),
        "{shown}"
    );
    assert!(!new.exists());

    let (shown, code) = at_terminal(&site, &ping, &[(offer, "n")]);
    assert_eq!(code, Some(20), "{shown}");
    let (shown, code) = at_terminal(&site, &ping, &[(offer, "y"), (password, "wrong")]);
    assert_eq!(code, Some(11), "{shown}");
    assert!(shown.contains("cannot deploy the key"), "{shown}");
    let (shown, code) = at_terminal(&site, &ping, &[(offer, ""), (password, "pass word")]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(
        shown.contains("[Y/n] ") && shown.contains("True"),
        "{shown}"
    );
    assert!(!shown.contains("pass word"), "{shown}");
    let (shown, code) = at_terminal(&site, &ping, &[]);
    assert_eq!(code, Some(0), "{shown}");
}

#[test]
fn the_ssh_program_reads_the_configuration_that_a_host_is_from() {
    let Some((site, host)) = Site::with_host() else {
        return;
    };
    let file = site.path("ssh_config");
    configure(&site, "ssh_config_file", &file.display().to_string());
    let text = format!(
        "Host edge\n  HostName 127.0.0.1\n  Port {}\n  User root\n",
        host.port
    );
    site.write("ssh_config", &text);
    let ran = site.ssh(&["--roster=sshconfig", "edge", "test.ping"]);
    ran.is(0, &["edge", "True"]);
}
