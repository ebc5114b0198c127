//! Attacks of other users on the same machine, on sockets, files, logs, configuration and users.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::program::{in_recorded_environment, salt_call};
use tests::scratch::Scratch;
use tests::skip::is_root;
use wire::{Answer, Done, Frame, Ping, Request, Way};

use crate::fleet::hostile::{bytes, golden};
use crate::fleet::{Fleet, PATIENCE, PROGRAM, Process};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn open_to(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a02_the_masters_socket_obeys_its_user_and_what_commands_may_say() {
    let fleet = Fleet::with("");
    let socket = fleet.master_socket();
    assert_eq!(mode(&socket), 0o600);
    for (name, frame) in golden() {
        // A golden of a kind with later fields is named `KIND+FIELDS`.
        let kind = name.split('+').next();
        let rule = wire::rule::rules().find(|rule| Some(rule.kind) == kind);
        if !matches!(frame, Frame::Request(_))
            || rule.is_some_and(|rule| rule.ways.contains(&Way::ClientToMaster))
        {
            continue;
        }
        // The attacker's connection is dropped, and the next request is answered with one word.
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&bytes(&frame)).unwrap();
        stream
            .write_all(&bytes(&Request::from(Ping {}).into()))
            .unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let pong = Frame::from(Answer::from(Done { data: true.into() }));
        assert_eq!(answer, bytes(&pong), "{name}");
    }
    assert_eq!(fleet.run(&["salt-key", "-L"]).rc, Some(0));
}

#[test]
fn a02_another_user_is_turned_away_even_where_the_socket_is_open() {
    if !is_root() {
        return;
    }
    let fleet = Fleet::with("");
    for folder in ["", "master", "master/run"] {
        open_to(&fleet.path(folder), 0o755);
    }
    open_to(&fleet.master_socket(), 0o666);
    let script = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.settimeout(60)\ns.connect(sys.argv[1])\nprint(len(s.recv(1)))\n";
    let output = Command::new("/usr/bin/env")
        .args(["python3", "-c", script])
        .arg(fleet.master_socket())
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/")
        .uid(65534)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n", "{output:?}");
    assert!(
        fleet
            .master_log()
            .contains("refusing the connection of process")
    );
}

/// Returns every file, folder and socket below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() && !path.is_symlink() {
            true => found.extend(below(&path)),
            false => found.push(path),
        }
    }
    found
}

/// Starts a program with a umask that would let everybody write to its files.
fn start_open(program: &Path, words: &[&str], log: &Path) -> Process {
    let program = program.display().to_string();
    let script = "umask 000; exec \"$0\" \"$@\"";
    let words = [&["-c", script, &program], words].concat();
    Process::start(Path::new("/bin/sh"), &words, log)
}

#[test]
fn a20_what_the_daemons_keep_is_theirs_alone_whatever_the_umask() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    fleet.kill_master();
    for folder in ["pki", "cache", "run"] {
        fs::remove_dir_all(fleet.path("master").join(folder)).unwrap();
    }
    fs::remove_file(fleet.path("master/log")).unwrap();
    fleet.write("salt/x.sls", "x:\n  test.nop\n");
    let etc = fleet.path("master/etc").display().to_string();
    let log = fleet.path("master/output");
    fleet.master = Some(start_open(&PROGRAM, &["salt-master", "-c", &etc], &log));
    // Creates the configuration, and then starts the program with the open umask.
    fleet.start_minion("m1", "");
    fleet.kill_minion("m1");
    for name in ["pki", "cache", "run", "log"] {
        let path = fleet.path("m1").join(name);
        let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
    }
    let etc = fleet.path("m1/etc").display().to_string();
    let log = fleet.path("m1/output");
    let minion = start_open(&PROGRAM, &["salt-minion", "-c", &etc], &log);
    fleet.minions.push(("m1".into(), minion));
    fleet.soon("the minion answers", || {
        fleet.run(&["salt", "m1", "state.apply", "x"]).rc == Some(0)
    });
    let kept = [
        "master/pki",
        "master/cache",
        "master/run",
        "m1/pki",
        "m1/cache",
        "m1/run",
    ];
    let logs = ["master/log", "m1/log"].map(|log| fleet.path(log));
    let kept = kept.iter().flat_map(|folder| below(&fleet.path(folder)));
    for path in kept.chain(logs) {
        let mode = mode(&path);
        assert!(
            path.is_symlink() || mode & 0o002 == 0,
            "{}: {mode:o}",
            path.display()
        );
    }
    let private = [
        "master/pki/master.pem",
        "m1/pki/minion.pem",
        "master/run/master.sock",
        "m1/run/minion.sock",
    ];
    for path in private {
        assert_eq!(mode(&fleet.path(path)) & 0o177, 0, "{path}");
    }
    for path in ["master/cache/store", "m1/cache/spool"]
        .iter()
        .flat_map(|folder| below(&fleet.path(folder)))
    {
        assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
    }
}

#[test]
fn a21_no_secret_gets_into_a_log() {
    let mut fleet = Fleet::with("auto_accept: True\nlog_level_logfile: trace\n");
    fleet.write("pillar/top.sls", "base:\n  '*':\n    - secret\n");
    fleet.write("pillar/secret.sls", "password: hush-7c1d\n");
    fleet.write("salt/use.sls", "{{ opts.root_dir }}/used:\n  file.managed:\n    - contents_pillar: password\n    - show_changes: False\n    - mode: '0600'\n");
    fleet.start_minion("m1", "log_level_logfile: trace\n");
    fleet.soon("the states are applied", || {
        fleet.run(&["salt", "m1", "state.apply", "use"]).rc == Some(0)
    });
    let used = fs::read_to_string(fleet.path("m1/used")).unwrap();
    assert_eq!(used.trim(), "hush-7c1d");
    let items = |more: &[&str]| fleet.run(&[&["salt", "m1", "pillar.items"], more].concat());
    assert!(items(&["unmask=True"]).out.contains("hush-7c1d"));
    let masked = items(&[]).out;
    assert!(
        masked.contains("**********") && !masked.contains("hush-7c1d"),
        "{masked}"
    );
    for who in ["master", "m1"] {
        for name in ["log", "output"] {
            let log = fs::read_to_string(fleet.path(who).join(name)).unwrap();
            let line = log.lines().find(|line| line.contains("hush-7c1d"));
            assert_eq!(line, None, "{who}/{name}");
        }
        let key = fs::read_to_string(fleet.path(who).join("pki").join(if who == "m1" {
            "minion.pem"
        } else {
            "master.pem"
        }));
        let key = key.unwrap();
        let secret = key.lines().nth(1).unwrap();
        assert!(
            !fs::read_to_string(fleet.path(who).join("log"))
                .unwrap()
                .contains(secret)
        );
    }
}

#[test]
fn a25_a_command_of_another_user_has_nothing_of_ours() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    open_to(scratch.path(), 0o755);
    let words = [
        "--out=txt",
        "cmd.run",
        "cat /proc/self/status",
        "runas=nobody",
        "cwd=/",
    ];
    let answer = salt_call(scratch.path(), &words.map(str::to_owned)).unwrap();
    let value = |name: &str| {
        let line = answer
            .out
            .split("\\n")
            .flat_map(str::lines)
            .find_map(|line| line.trim_start_matches("local: ").strip_prefix(name));
        let line = line.unwrap_or_else(|| panic!("{name} is not in {}", answer.out));
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let (users, groups) = (value("Uid:"), value("Gid:"));
    assert!(users.iter().all(|id| id == "65534"), "{users:?}");
    assert!(groups.iter().all(|id| *id == groups[0]), "{groups:?}");
    assert_ne!(groups[0], "0");
    assert!(!value("Groups:").contains(&"0".to_owned()));
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(value(set), ["0000000000000000"], "{set}");
    }
}

/// Returns the error of a daemon that must not start.
fn refuses(program: &Path, applet: &str, etc: &Path) -> String {
    let mut command = Command::new("timeout");
    let output = in_recorded_environment(command.arg("60").arg(program).arg(applet))
        .arg("-c")
        .arg(etc)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // 124 is what `timeout` says of a program that has started.
    assert!(
        !matches!(output.status.code(), Some(0 | 124)),
        "{applet}: {said}"
    );
    assert_ne!(
        output.status.code(),
        Some(124),
        "{applet} has started: {said}"
    );
    said
}

#[test]
fn a26_daemons_obey_no_configuration_that_others_can_change() {
    let mut fleet = Fleet::with("");
    fleet.start_minion("m1", "");
    fleet.soon("the key of the minion is created", || {
        fleet.path("m1/pki/minion.pub").exists()
    });
    fleet.kill_minion("m1");
    fleet.kill_master();
    let of_master = "master/var/cache/salt/master/extmods/modules";
    let of_minion = "m1/var/cache/salt/minion/extmods/modules";
    let daemons = [
        ("master", &PROGRAM, "salt-master", of_master),
        ("m1", &PROGRAM, "salt-minion", of_minion),
    ];
    for (who, program, applet, modules) in daemons {
        let etc = fleet.path(who).join("etc");
        let main = etc.join(applet.trim_start_matches("salt-"));
        let modules = fleet.path(modules);
        fs::create_dir_all(&modules).unwrap();
        fs::write(modules.join("x.py"), "").unwrap();
        let pki = fleet.path(who).join("pki");
        let places = [main, etc.clone(), modules.join("x.py"), modules, pki];
        for path in places {
            let before = mode(&path);
            open_to(&path, before | 0o002);
            let said = refuses(program, applet, &etc);
            assert!(
                said.contains(&path.display().to_string()),
                "{path:?}: {said}"
            );
            open_to(&path, before);
            if is_root() {
                chown(&path, Some(65534), None).unwrap();
                let said = refuses(program, applet, &etc);
                assert!(said.contains(&path.display().to_string()), "{said}");
                chown(&path, Some(0), None).unwrap();
            }
        }
    }
    // With the original permissions they are used.
    fleet.start_master();
    assert_eq!(fleet.run(&["salt-key", "-L"]).rc, Some(0));
}
