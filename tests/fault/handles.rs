//! Attacks by another user of the machine while root runs states, and the files that this user
//! leaves for root to read.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use tests::program::{pinch_program, program};
use tests::scratch::Scratch;
use tests::skip::is_root;

const NOBODY: u32 = 65534;

fn call(scratch: &Scratch, words: &[&str]) -> Output {
    let mut command = Command::new(&program()[0]);
    command
        .args(&program()[1..])
        .args(["--local", "--retcode-passthrough", "-c"])
        .arg(scratch.path().join("etc"))
        .args(words)
        .stdin(Stdio::null());
    command.output().unwrap()
}

fn all(output: &Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|text| String::from_utf8_lossy(text).into_owned())
        .concat()
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn look(path: &Path) -> (u32, u32) {
    let found = path.symlink_metadata().unwrap();
    (found.uid(), found.mode() & 0o7777)
}

/// Creates a folder of the user 65534, and a file of root that this user must not get.
fn folders(scratch: &Scratch) -> (PathBuf, PathBuf) {
    let (user, victim) = (scratch.path().join("user"), scratch.path().join("victim"));
    fs::create_dir(&user).unwrap();
    chown(&user, Some(NOBODY), None).unwrap();
    fs::write(&victim, "secret\n").unwrap();
    mode(&victim, 0o600);
    mode(scratch.path(), 0o755);
    (user, victim)
}

/// Repeats an action while something else runs.
fn meanwhile<T>(again: impl Fn() + Sync, run: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                again();
            }
        });
        let done = run();
        is_over.store(true, Ordering::Relaxed);
        done
    })
}

#[test]
fn a_file_swapped_for_a_link_gives_away_neither_owner_nor_mode() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let (user, victim) = folders(&scratch);
    let names: Vec<(PathBuf, PathBuf)> = (0..100)
        .map(|n| (user.join(format!("a{n}")), user.join(format!(".l{n}"))))
        .collect();
    scratch.write(
        "srv/salt/race.sls",
        "@ENV@/user:\n  file.directory:\n    - user: nobody\n    - file_mode: '0666'\n    - recurse: [user, group, mode]\n    - group: root\n",
    );
    for _ in 0..5 {
        for (file, link) in &names {
            for path in [file, link] {
                let _ = fs::remove_file(path);
            }
            fs::write(file, "").unwrap();
            symlink(&victim, link).unwrap();
        }
        let swap = || {
            for (file, link) in &names {
                let _ = renameat_with(CWD, file, CWD, link, RenameFlags::EXCHANGE);
            }
        };
        meanwhile(swap, || call(&scratch, &["state.apply", "race"]));
        assert_eq!(look(&victim), (0, 0o600));
    }
}

#[test]
fn a_folder_swapped_for_a_link_gives_away_nothing_behind_the_link() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let (user, _) = folders(&scratch);
    let far = scratch.path().join("far");
    for folder in [&far, &user.join("sub")] {
        fs::create_dir(folder).unwrap();
        for n in 0..100 {
            fs::write(folder.join(n.to_string()), "").unwrap();
            mode(&folder.join(n.to_string()), 0o600);
        }
    }
    symlink(&far, user.join("link")).unwrap();
    scratch.write(
        "srv/salt/race.sls",
        "@ENV@/user:\n  file.directory:\n    - user: nobody\n    - file_mode: '0666'\n    - recurse: [user, group, mode]\n    - group: root\n",
    );
    scratch.write(
        "srv/salt/clean.sls",
        "@ENV@/user:\n  file.directory:\n    - clean: True\n",
    );
    let (one, other) = (user.join("sub"), user.join("link"));
    let swap = || {
        let _ = renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
    };
    let names = || fs::read_dir(&far).unwrap().flatten();
    for sls in ["race", "race", "race", "clean"] {
        meanwhile(swap, || call(&scratch, &["state.apply", sls]));
        assert_eq!(names().count(), 100);
        for entry in names() {
            assert_eq!(look(&entry.path()), (0, 0o600), "{:?}", entry.path());
        }
    }
}

#[test]
fn a_script_never_is_in_a_folder_of_the_user_who_runs_it() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let (user, victim) = folders(&scratch);
    let evil = user.join("evil");
    fs::write(&evil, "#!/bin/sh\necho evil\n").unwrap();
    mode(&evil, 0o755);
    scratch.write("srv/salt/s.sh", "#!/bin/sh\npwd; id -u; echo $1\n");
    let cwd = format!("cwd={}", user.display());
    let is_seen = AtomicBool::new(false);
    let swap = || {
        for entry in fs::read_dir(&user).into_iter().flatten().flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(b"__salt") {
                is_seen.store(true, Ordering::Relaxed);
                let _ = fs::remove_file(entry.path());
                let _ = symlink(&victim, entry.path());
            }
        }
    };
    for (runas, uid) in [(Some("runas=nobody"), "65534"), (None, "0")] {
        let mut words = vec!["cmd.script", "salt://s.sh", "args=word", &cwd];
        words.extend(runas);
        let output = meanwhile(swap, || call(&scratch, &words));
        let said = all(&output);
        for expected in [&user.display().to_string(), uid, "word"] {
            assert!(said.contains(expected), "{expected}: {said}");
        }
        assert!(!said.contains("evil"), "{said}");
    }
    assert!(!is_seen.load(Ordering::Relaxed));
    assert_eq!(look(&victim), (0, 0o600));
}

#[test]
fn symlinks_of_users_are_refused_where_the_option_says_so() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let (user, victim) = folders(&scratch);
    let link = user.join("managed");
    symlink(&victim, &link).unwrap();
    lchown(&link, Some(NOBODY), None).unwrap();
    symlink(scratch.path(), user.join("up")).unwrap();
    lchown(user.join("up"), Some(NOBODY), None).unwrap();
    scratch.write(
        "srv/salt/one.sls",
        "@ENV@/user/managed:\n  file.managed:\n    - contents: new\n    - mode: '0666'\nup:\n  file.managed:\n    - name: @ENV@/user/up/new\n    - contents: new\n",
    );
    scratch.write(
        "srv/salt/two.sls",
        "@ENV@/user/managed:\n  file.append:\n    - text: new\n@ENV@/user/up/victim:\n  file.absent: []\n",
    );
    let minion = fs::read_to_string(scratch.path().join("etc/minion")).unwrap();
    let option = "follow_user_symlinks: False\n";
    scratch.write("etc/minion", &[&minion, "\n", option].concat());
    for sls in ["one", "two"] {
        let output = call(&scratch, &["state.apply", sls]);
        let said = all(&output);
        assert_ne!(output.status.code(), Some(0), "{said}");
        for link in ["managed", "up"] {
            let link = user.join(link);
            let sentence = format!(
                "Refusing to follow the symlink {}, which belongs to nobody (option follow_user_symlinks)",
                link.display()
            );
            let said: Vec<&str> = said.split_whitespace().collect();
            assert!(said.join(" ").contains(&sentence), "{said:?}");
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "secret\n");
        assert_eq!(look(&victim), (0, 0o600));
        assert!(!scratch.path().join("new").exists());
    }
    // The default is as in Salt.
    scratch.write("etc/minion", &minion);
    call(&scratch, &["state.apply", "one"]);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "new\n");
}

/// Returns every file and folder below a folder.
fn below(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        found.extend(below(&entry.path()));
    }
    found
}

/// Returns the record of the only run, and its folder.
fn record(scratch: &Scratch) -> (PathBuf, PathBuf) {
    let all = below(&scratch.path().join("root"));
    let runs = all.iter().find(|path| path.ends_with("runs")).unwrap();
    let is_record = |path: &&PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        path.parent() == Some(runs.as_path()) && name.bytes().all(|byte| byte.is_ascii_digit())
    };
    let record = all.iter().find(is_record).unwrap();
    (record.clone(), runs.clone())
}

fn pinch(scratch: &Scratch, words: &[&str]) -> Output {
    let mut command = Command::new(pinch_program());
    command
        .args(words)
        .arg("-c")
        .arg(scratch.path().join("etc"));
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn records_that_others_could_have_written_are_not_read_whatever_the_umask() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("srv/salt/x.sls", "x:\n  test.nop\n");
    let _ = fs::remove_dir_all(scratch.path().join("root/var"));
    let salt_call = program().join(" ");
    let etc = scratch.path().join("etc").display().to_string();
    let line = format!("umask 000; exec {salt_call} --local -c {etc} state.apply x");
    let made = Command::new("sh").args(["-c", &line]).output().unwrap();
    assert!(made.status.success(), "{}", all(&made));
    let (record, runs) = record(&scratch);
    for path in below(runs.parent().unwrap()) {
        let (_, mode) = look(&path);
        assert_eq!(mode & 0o022, 0, "{}: {mode:o}", path.display());
    }
    assert_eq!(
        (look(&runs).1, look(runs.parent().unwrap()).1),
        (0o700, 0o700)
    );
    let jid = record.file_name().unwrap().to_str().unwrap();
    assert!(pinch(&scratch, &["runs", "show", jid]).status.success());

    // An unfinished record, like that of a run that waits for a reboot.
    let text = fs::read_to_string(&record).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    fs::write(&record, lines[..lines.len() - 1].join("\n") + "\n").unwrap();
    chown(&record, Some(NOBODY), None).unwrap();
    let shown = all(&pinch(&scratch, &["runs", "show", jid]));
    assert!(shown.contains("is not trusted"), "{shown}");
    let output = pinch(&scratch, &["runs", "continue"]);
    assert_ne!(output.status.code(), Some(0));
    assert!(all(&output).contains("chown -h root"), "{}", all(&output));
    chown(&record, Some(0), None).unwrap();

    // The next run closes a folder that was open to others. A folder of another user is not used.
    mode(&runs, 0o777);
    let output = pinch(&scratch, &["runs", "continue"]);
    assert!(all(&output).contains("mode 0777"), "{}", all(&output));
    assert!(call(&scratch, &["state.apply", "x"]).status.success());
    assert_eq!(look(&runs).1, 0o755);
    chown(&runs, Some(NOBODY), None).unwrap();
    let output = call(&scratch, &["state.apply", "x"]);
    assert_ne!(output.status.code(), Some(0));
    assert!(all(&output).contains("the user 65534"), "{}", all(&output));
}

#[test]
fn root_obeys_no_configuration_that_others_can_change() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let etc = scratch.path().join("etc");
    let file = etc.join("minion");
    let refused = |why: &str| {
        for output in [
            call(&scratch, &["test.ping"]),
            pinch(&scratch, &["runs", "continue"]),
        ] {
            let said = all(&output);
            assert_ne!(output.status.code(), Some(0), "{said}");
            assert!(said.contains("is not trusted"), "{said}");
            assert!(said.contains(why), "{said}");
        }
    };
    assert!(call(&scratch, &["test.ping"]).status.success());
    mode(&file, 0o666);
    refused("everybody");
    mode(&file, 0o664);
    chown(&file, None, Some(NOBODY)).unwrap();
    refused("the group 65534");
    chown(&file, None, Some(0)).unwrap();
    chown(&etc, Some(NOBODY), None).unwrap();
    refused("the user 65534");
    chown(&etc, Some(0), None).unwrap();
    // A folder above it counts as well: it could be replaced as a whole.
    mode(scratch.path(), 0o777);
    refused("everybody");
    mode(scratch.path(), 0o700);
    assert!(call(&scratch, &["test.ping"]).status.success());
}
