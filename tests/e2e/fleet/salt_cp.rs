//! `salt-cp`: files and folders of the master on its minions.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use serde::Deserialize;
use tests::scratch::corpus;

use super::Fleet;
use super::cluster_damage::SmallDisk;

/// A command line that Salt's own `salt-cp` ran, with its output. `O` is the folder of the case.
#[derive(Deserialize)]
struct Case {
    words: Vec<String>,
    out: String,
    err: String,
    rc: i32,
}

/// Writes the files that the recorded command lines copy.
fn write_sources(fleet: &Fleet) {
    for folder in ["src/dir/sub", "src/dir/empty", "dst"] {
        fs::create_dir_all(fleet.path(folder)).unwrap();
    }
    let big: Vec<u8> = (0..250_000_u32)
        .map(|number| (number * 7 % 251) as u8)
        .collect();
    let files: [(&str, &[u8]); 7] = [
        ("t.txt", b"hello\n"),
        ("crlf", b"a\r\nb\r\n"),
        ("bin", b"\xff\xfe\x00bin"),
        ("empty", b""),
        ("dir/sub/f", b"s\n"),
        ("dir/e.sh", b"e\n"),
        ("big", &big),
    ];
    for (name, data) in files {
        fs::write(fleet.path("src").join(name), data).unwrap();
    }
    let script = fleet.path("src/dir/e.sh");
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
}

fn is_same(fleet: &Fleet, source: &str, copy: &str) -> bool {
    fs::read(fleet.path(source)).unwrap() == fs::read(fleet.path(copy)).unwrap_or_default()
}

#[test]
fn the_recorded_command_lines_of_salt_have_the_same_effect() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["a", "b"]);
    write_sources(&fleet);
    let here = fleet.path("").display().to_string();
    let here = here.trim_end_matches('/');
    let text = fs::read_to_string(corpus().join("salt_cp/cases.json")).unwrap();
    let cases: Vec<Case> = serde_json::from_str(&text).unwrap();
    assert!(cases.len() > 15);
    for case in cases {
        let of_here = |text: &str| text.replace("O/", &format!("{here}/"));
        let place = |word: &String| match word.starts_with("src/") {
            true => format!("{here}/{word}"),
            false => word.replace("O/", &format!("{here}/")),
        };
        let words: Vec<String> = case.words.iter().map(place).collect();
        let mut line = vec!["salt-cp"];
        line.extend(words.iter().map(String::as_str));
        let answer = fleet.run(&line);
        let want = of_here(&case.out);
        assert_eq!(
            (sorted(&answer.out), answer.rc),
            (sorted(&want), Some(case.rc)),
            "{}",
            case.words.join(" ")
        );
        assert!(
            fleet.logs().contains(of_here(&case.err).trim_end()),
            "{}",
            case.err
        );
    }
    for (source, copy) in [
        ("src/t.txt", "dst/t1"),
        ("src/crlf", "dst/crlf"),
        ("src/dir/sub/f", "dst/tree/dir/sub/f"),
        ("src/bin", "dst/several/bin"),
        ("src/big", "dst/big"),
    ] {
        assert!(is_same(&fleet, source, copy), "{copy}");
    }
    let mode = |name: &str| fs::metadata(fleet.path(name)).unwrap().mode() & 0o7777;
    assert_eq!(mode("dst/tree/dir/e.sh"), 0o755);
    assert!(fleet.path("dst/tree/dir/empty").is_dir());
    // The three pieces of the large file came through a private folder, which is empty again.
    let pieces = fs::read_dir(fleet.path("a/cache/salt-cp")).unwrap();
    assert_eq!(pieces.count(), 0);
}

#[test]
fn what_cannot_be_sent_is_refused_before_anything_is_sent() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["a"]);
    write_sources(&fleet);
    let path = |name: &str| fleet.path(name).display().to_string();
    fs::write(fleet.path("src/large"), vec![b'x'; (1 << 20) + 1]).unwrap();
    for (source, reason, rc) in [
        ("src/gone", "is not available", 42),
        ("src/bin", "it is not UTF-8 text, which needs --chunked", 1),
        ("src/large", "need --chunked", 1),
    ] {
        let answer = fleet.run(&["salt-cp", "a", &path(source), &path("dst/x")]);
        assert_eq!((answer.out.as_str(), answer.rc), ("", Some(rc)), "{source}");
        assert!(fleet.logs().contains(reason), "{reason}");
    }
    let answer = fleet.run(&["salt-cp", "-C", "a", "/dev/null", &path("dst/x")]);
    assert_eq!(answer.rc, Some(1));
    assert_eq!(fleet.run(&["salt-cp", "a", &path("dst/x")]).rc, Some(64));
    assert!(!fleet.path("dst/x").exists());
    let jobs = fleet.run(&["salt-run", "--out=json", "jobs.list_jobs"]).out;
    assert!(!jobs.contains("cp.recv"), "{jobs}");
}

#[test]
fn a_minion_that_is_away_is_named_and_the_others_get_the_file() {
    let mut fleet = Fleet::with("timeout: 2\nsalt_cp_chunk_size: 1000\n");
    fleet.accepted(&["a", "b"]);
    write_sources(&fleet);
    fleet.kill_minion("b");
    let path = |name: &str| fleet.path(name).display().to_string();
    let big = path("src/dir/e.sh");
    fleet.soon("the master notices the loss", || {
        let answer = fleet.run(&["salt-cp", "-C", "*", &big, &path("dst/copy")]);
        let named = answer
            .out
            .contains("Minion did not return. [Not connected]");
        named && answer.out.contains("True")
    });
    fs::write(fleet.path("src/pieces"), vec![b'y'; 4500]).unwrap();
    let answer = fleet.run(&[
        "salt-cp",
        "-C",
        "a",
        &path("src/pieces"),
        &path("dst/pieces"),
    ]);
    assert!(answer.out.contains("True"), "{}", answer.out);
    assert!(is_same(&fleet, "src/pieces", "dst/pieces"));
    let jobs = fleet.run(&["salt-run", "--out=json", "jobs.list_jobs"]).out;
    assert!(jobs.matches("cp.recv_chunked").count() >= 5, "{jobs}");
}

#[test]
fn a_user_copies_files_only_if_the_acl_names_the_functions() {
    if !tests::skip::is_root() {
        return eprintln!("passed over: only root can be another user");
    }
    let acl = "publisher_acl:\n  nobody:\n    - a:\n      - cp.recv\n      - test.ping\n";
    let mut fleet = Fleet::with(acl);
    fleet.accepted(&["a", "b"]);
    write_sources(&fleet);
    fs::set_permissions(fleet.path("src"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = |name: &str| fleet.path(name).display().to_string();
    let (source, place) = (path("src/t.txt"), path("dst/x"));
    let refused = ("Authorization error occurred.\n".to_owned(), Some(2));
    for words in [
        &["salt-cp", "b", &source, &place][..],
        &["salt-cp", "*", &source, &place],
        &["salt-cp", "-C", "a", &source, &place],
    ] {
        let answer = fleet.run_as_nobody(words);
        assert_eq!((answer.out, answer.rc), refused, "{words:?}");
        assert!(!fleet.path("dst/x").exists());
    }
    let answer = fleet.run_as_nobody(&["salt-cp", "a", &source, &place]);
    assert!(answer.out.contains("True"), "{}", answer.out);
    assert!(is_same(&fleet, "src/t.txt", "dst/x"));
    // The file is read with the rights of the user, and not with those of the master.
    fs::set_permissions(fleet.path("src/crlf"), fs::Permissions::from_mode(0o600)).unwrap();
    let answer = fleet.run_as_nobody(&["salt-cp", "a", &path("src/crlf"), &path("dst/secret")]);
    assert_eq!(answer.rc, Some(1));
    assert!(!fleet.path("dst/secret").exists());
}

#[test]
fn a_full_disk_keeps_the_old_file_and_leaves_no_part_of_the_new_one() {
    if !tests::skip::is_root() {
        return eprintln!("passed over: only root can mount a small disk");
    }
    let mut fleet = Fleet::with("");
    fleet.accepted(&["a"]);
    write_sources(&fleet);
    let path = |name: &str| fleet.path(name).display().to_string();
    let disk = SmallDisk::at(fleet.path("dst/disk"));
    fs::write(fleet.path("dst/disk/file"), "old").unwrap();
    disk.fill();
    let answer = fleet.run(&[
        "salt-cp",
        "-C",
        "a",
        &path("src/big"),
        &path("dst/disk/file"),
    ]);
    let want = format!(
        "[Errno 28] No space left on device: '{}'",
        path("dst/disk/file")
    );
    assert!(answer.out.contains(&want), "{}", answer.out);
    let answer = fleet.run(&[
        "salt-cp",
        "a",
        &path("src/dir/e.sh"),
        &path("dst/disk/other"),
    ]);
    assert!(answer.out.contains("False"), "{}", answer.out);
    let names = fs::read_dir(fleet.path("dst/disk")).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["file", "filler"]);
    assert_eq!(
        fs::read_to_string(fleet.path("dst/disk/file")).unwrap(),
        "old"
    );
    assert_eq!(
        fs::read_dir(fleet.path("a/cache/salt-cp")).unwrap().count(),
        0
    );
}

/// Returns the lines without their commas in alphabetical order: minions answer in any order.
fn sorted(out: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = out.lines().map(|line| line.trim_end_matches(',')).collect();
    lines.sort_unstable();
    lines
}
