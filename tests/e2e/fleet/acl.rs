//! Jobs of users other than root: `publisher_acl` and its blacklist.

use super::Fleet;

#[test]
fn users_may_do_what_the_acl_says_and_nothing_else() {
    if !tests::skip::is_root() {
        return eprintln!("passed over: only root can be another user");
    }
    let acl = "publisher_acl:\n  nob*:\n    - test.ping\n    - m2:\n      - cmd.run:\n        - args: ['echo .*']\n  somebody: ['.*']\npublisher_acl_blacklist:\n  modules: [test.arg]\n";
    let mut fleet = Fleet::with(acl);
    fleet.accepted(&["m1", "m2"]);
    let by = |words: &[&str]| {
        let answer = fleet.run_as_nobody(words);
        (answer.out, answer.rc)
    };
    let ping = by(&["salt", "--out=txt", "m1", "test.ping"]);
    assert_eq!(ping, ("m1: True\n".to_owned(), Some(0)));
    assert_eq!(
        by(&["salt", "--out=txt", "m2", "cmd.run", "echo x"]).0,
        "m2: x\n"
    );
    let refused = ("Authorization error occurred.\n".to_owned(), Some(2));
    for words in [
        ["salt", "m2", "cmd.run", "id"],
        ["salt", "*", "cmd.run", "echo x"],
        ["salt", "m1", "test.ping,cmd.run", ","],
        ["salt", "m1", "test.pings", "x"],
    ] {
        assert_eq!(by(&words), refused, "{words:?}");
    }
    assert_eq!(by(&["salt", "--preview-target", "m1"]).0, "- m1\n");
    // Only root may run commands other than jobs.
    let (text, rc) = by(&["salt-run", "manage.up"]);
    assert!(text.contains("only root") && rc == Some(1), "{text}");
    let (text, rc) = by(&["salt-key", "-y", "-d", "m1"]);
    assert!(text.contains("only root") && rc == Some(1), "{text}");
    assert!(fleet.run(&["salt-key", "-l", "acc"]).out.contains("m1"));
    // The record names the user, and the blacklist applies to everyone.
    let jobs = fleet.run(&["salt-run", "--out=json", "jobs.list_jobs"]).out;
    assert!(jobs.contains(r#""User": "nobody""#), "{jobs}");
    let listed = fleet.run(&["salt", "m1", "test.arg", "x"]);
    assert_eq!((listed.out, listed.rc), refused);
}

#[test]
fn without_an_acl_other_users_are_turned_away() {
    if !tests::skip::is_root() {
        return eprintln!("passed over: only root can be another user");
    }
    let mut fleet = Fleet::with("");
    fleet.accepted(&["m1"]);
    let answer = fleet.run_as_nobody(&["salt", "m1", "test.ping"]);
    assert_ne!(answer.rc, Some(0));
    assert!(!answer.out.contains("True"), "{}", answer.out);
    assert!(format!("{}{}", answer.out, fleet.logs()).contains("only root"));
}
