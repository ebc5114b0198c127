//! `salt-call --cached`: states from the files and the pillar of the last highstate, while the master
//! is away.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use tests::program::in_recorded_environment;

use super::{Fleet, PROGRAM};

/// The output of a call on a minion.
struct Called {
    out: String,
    err: String,
    rc: Option<i32>,
}

fn call(fleet: &Fleet, words: &[&str]) -> Called {
    let output = in_recorded_environment(&mut Command::new(&*PROGRAM))
        .args(["salt-call", "--out=json", "-c"])
        .arg(fleet.path("m1/etc"))
        .args(words)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Called {
        out: text(&output.stdout),
        err: text(&output.stderr),
        rc: output.status.code(),
    }
}

/// A master with a tree and pillar, and a minion that has applied its highstate. The minion keeps
/// its pillar if `keeps` says so.
fn applied(keeps: &str) -> Fleet {
    let mut fleet = Fleet::with("auto_accept: True\n");
    let out = fleet.path("out");
    std::fs::create_dir(&out).unwrap();
    let out = out.display();
    fleet.write("salt/top.sls", "base:\n  '*':\n    - web\n");
    fleet.write(
        "salt/web/init.sls",
        &format!(
            "{out}/site:\n  file.managed:\n    - source: salt://web/site.txt\n    - template: jinja\n\n{out}/rare:\n  file.managed:\n    - source: salt://web/rare.txt\n    - onlyif: test -e {out}/wanted\n"
        ),
    );
    fleet.write("salt/web/site.txt", "port {{ pillar['port'] }}\n");
    fleet.write("salt/web/rare.txt", "rare\n");
    fleet.write("salt/other.sls", "x:\n  test.nop: []\n");
    fleet.write("pillar/top.sls", "base:\n  '*':\n    - port\n");
    fleet.write("pillar/port.sls", "port: 8080\n");
    fleet.start_minion("m1", &format!("rejected_retry: False\n{keeps}"));
    fleet.soon("the minion answers", || {
        fleet.run(&["salt", "m1", "test.ping"]).rc == Some(0)
    });
    let first = call(&fleet, &["state.apply"]);
    assert_eq!(first.rc, Some(0), "{}{}", first.out, first.err);
    fleet
}

const KEEPS: &str = "minion_pillar_cache: True\n";

#[test]
fn the_last_highstate_can_be_applied_without_the_master() {
    let mut fleet = applied(KEEPS);
    // A file that only a later, incomplete run has fetched does not change the kept highstate.
    fleet.write("salt/web/site.txt", "later {{ pillar['port'] }}\n");
    let fetched = call(&fleet, &["cp.cache_file", "salt://web/site.txt"]);
    assert_eq!(fetched.rc, Some(0), "{}", fetched.err);
    fleet.kill_master();
    let site = fleet.path("out/site");
    std::fs::remove_file(&site).unwrap();

    let plain = call(&fleet, &["state.apply"]);
    assert_eq!(plain.rc, Some(1), "{}", plain.out);
    let hint = "--cached applies the files and the pillar of 2";
    assert!(plain.err.contains(hint), "{}", plain.err);
    assert!(plain.err.contains("(0 min old)"), "{}", plain.err);

    let cached = call(&fleet, &["--cached", "state.apply"]);
    assert_eq!(cached.rc, Some(0), "{}{}", cached.out, cached.err);
    assert!(
        cached.err.contains("Using the files and the pillar of 2")
            && cached
                .err
                .contains("(0 min old): this run does not contact the master"),
        "{}",
        cached.err
    );
    assert_eq!(std::fs::read_to_string(&site).unwrap(), "port 8080\n");
    let sls = call(
        &fleet,
        &["--cached", "state.sls", "web", "pillar={port: 1}"],
    );
    assert_eq!(sls.rc, Some(0), "{}{}", sls.out, sls.err);
    assert_eq!(std::fs::read_to_string(&site).unwrap(), "port 1\n");
    assert_eq!(call(&fleet, &["--cached", "state.highstate"]).rc, Some(0));

    // The record may contain secrets.
    let mode = |below: &str| {
        let found = std::fs::metadata(fleet.path("m1/cache/last_highstate").join(below));
        found.unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode(""), mode("record")), (0o700, 0o600));
}

#[test]
fn a_file_that_was_never_fetched_is_an_error_with_its_name() {
    let mut fleet = applied(KEEPS);
    fleet.kill_master();
    std::fs::write(fleet.path("out/wanted"), "").unwrap();
    let cached = call(&fleet, &["--cached", "state.apply"]);
    assert_eq!(cached.rc, Some(1), "{}", cached.out);
    let lacks = |path: &str| {
        format!("salt://{path} (environment base): the last highstate did not fetch this file")
    };
    assert!(
        cached.out.contains(&lacks("web/rare.txt")),
        "{}",
        cached.out
    );
    let other = call(&fleet, &["--cached", "state.apply", "other"]);
    assert_eq!(other.rc, Some(1), "{}", other.out);
    let all = other.out + &other.err;
    assert!(all.contains(&lacks("other.sls")), "{all}");
    let none = call(&fleet, &["--cached", "state.apply", "nosuch"]);
    assert!(
        none.out.contains("No matching sls found for 'nosuch'"),
        "{}{}",
        none.out,
        none.err
    );

    // A copy that was damaged is not used.
    let links = fleet.path("m1/cache/last_highstate/files");
    for link in std::fs::read_dir(links).unwrap() {
        std::fs::write(link.unwrap().path(), "damaged").unwrap();
    }
    let damaged = call(&fleet, &["--cached", "state.apply"]);
    let all = damaged.out + &damaged.err;
    assert!(all.contains("is missing or damaged"), "{all}");
    assert_eq!(damaged.rc, Some(1));
    fleet.start_master();
    fleet.soon("the minion has fetched the files again", || {
        call(&fleet, &["state.apply"]).rc == Some(0)
    });
    fleet.kill_master();
    assert_eq!(call(&fleet, &["--cached", "state.apply"]).rc, Some(0));
}

#[test]
fn a_run_without_a_kept_pillar_or_highstate_says_what_to_do() {
    let mut fleet = applied("");
    fleet.kill_master();
    let kept = std::fs::read(fleet.path("m1/cache/last_highstate/record")).unwrap();
    let has_port = kept
        .windows(4)
        .any(|word| word == b"8080" || word == b"port");
    assert!(!has_port, "the pillar is on the disk");
    let cached = call(&fleet, &["--cached", "state.apply"]);
    assert_eq!(cached.rc, Some(1), "{}", cached.out);
    let all = cached.out + &cached.err;
    assert!(
        all.contains("no pillar is kept on this machine. Set minion_pillar_cache: True"),
        "{all}"
    );
    assert!(all.contains("Using the files of 2"), "{all}");

    std::fs::remove_dir_all(fleet.path("m1/cache/last_highstate")).unwrap();
    let none = call(&fleet, &["--cached", "state.apply"]);
    assert_eq!(none.rc, Some(1), "{}", none.out);
    assert!(
        none.err
            .contains("no highstate with the master's files has run to its end"),
        "{}",
        none.err
    );
    let plain = call(&fleet, &["state.apply"]);
    assert!(!plain.err.contains("--cached"), "{}", plain.err);
}

#[test]
fn a_highstate_that_is_not_whole_is_not_kept() {
    let mut fleet = applied(KEEPS);
    let record = fleet.path("m1/cache/last_highstate/record");
    let first = std::fs::metadata(&record).unwrap().modified().unwrap();
    for words in [
        &["state.apply", "test=True"][..],
        &["state.apply", "web"],
        &["state.apply", "exclude=web"],
        &["state.apply", "pillar={port: 1}"],
    ] {
        call(&fleet, words);
    }
    fleet.write("salt/web/init.sls", "{{ not closed\n");
    call(&fleet, &["state.apply"]);
    assert_eq!(
        std::fs::metadata(&record).unwrap().modified().unwrap(),
        first
    );
    // A job of the master is kept as a call is, and replaces the earlier files.
    fleet.write("salt/web/init.sls", "x:\n  test.nop: []\n");
    assert_eq!(fleet.run(&["salt", "m1", "state.apply"]).rc, Some(0));
    assert_ne!(
        std::fs::metadata(&record).unwrap().modified().unwrap(),
        first
    );
    let files = std::fs::read_dir(fleet.path("m1/cache/last_highstate/files")).unwrap();
    assert_eq!(files.count(), 2, "top.sls and web/init.sls");
    fleet.kill_master();
    assert_eq!(call(&fleet, &["--cached", "state.apply"]).rc, Some(0));
}

#[test]
fn cached_is_refused_where_it_has_no_meaning() {
    let fleet = Fleet::with("");
    fleet.configure_minion("m1", "");
    for (words, reason) in [
        (
            &["--cached", "--local", "state.apply"][..],
            "uses the files of this machine",
        ),
        (
            &["--cached", "test.ping"],
            "works with state.apply, state.highstate and state.sls",
        ),
        (
            &["--cached", "-g"],
            "works with state.apply, state.highstate and state.sls",
        ),
    ] {
        let refused = call(&fleet, words);
        assert_eq!(refused.rc, Some(64), "{words:?}: {}", refused.err);
        assert!(refused.err.contains(reason), "{words:?}: {}", refused.err);
    }
}
