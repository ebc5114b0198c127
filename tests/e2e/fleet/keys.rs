//! Keys: offered, accepted, deleted; and the ways in which they are accepted and rejected without an
//! administrator.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Instant;

use super::{Fleet, PROGRAM, Process};

impl Fleet {
    /// Returns the ids in one of `salt-key`'s lists: `acc`, `un`, `rej`, `den`.
    pub(super) fn keys(&self, list: &str) -> Vec<String> {
        let listed = self.run(&["salt-key", "-l", list]).out;
        listed.lines().skip(1).map(str::to_owned).collect()
    }

    pub(super) fn is_in(&self, list: &str, id: &str) -> bool {
        self.keys(list).iter().any(|key| key == id)
    }

    /// Waits until a key is in a list.
    pub(super) fn soon_in(&self, list: &str, id: &str) {
        self.soon(&format!("{id} is in the list {list}"), || {
            self.is_in(list, id)
        });
    }

    pub(super) fn master_log(&self) -> String {
        fs::read_to_string(self.path("master/log")).unwrap_or_default()
    }

    pub(super) fn soon_logged(&self, text: &str) {
        self.soon(&format!("the master's log says {text:?}"), || {
            self.master_log().contains(text)
        });
    }

    /// Returns whether the master's log has this text about a minion's key, at least once: on a slow
    /// machine a minion asks again.
    fn is_told(&self, id: &str, why: &str) -> bool {
        let of_it = format!("{id} (key ");
        let log = self.master_log();
        log.lines()
            .any(|line| line.contains(&of_it) && line.contains(why))
    }

    /// Writes a file that the master's configuration names.
    pub(super) fn put(&self, below: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.path("master").join(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// Creates a token with these arguments.
    pub(crate) fn token(&self, words: &[&str]) -> String {
        let words = [&["salt-run", "--out=json", "token.create"], words].concat();
        let made = self.run(&words);
        let made: serde_json::Value = serde_json::from_str(&made.out).unwrap();
        made["token"].as_str().unwrap().to_owned()
    }
}

#[test]
fn a_key_waits_until_it_is_accepted_and_its_minion_answers() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["m1"]);
    let answer = fleet.run(&["salt", "m1", "test.ping"]);
    assert_eq!(
        (answer.out.as_str(), answer.rc),
        ("m1:\n    True\n", Some(0))
    );
}

#[test]
fn a_deleted_key_is_cut_off_and_waits_again() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["m1"]);
    assert_eq!(fleet.run(&["salt-key", "-y", "-d", "m1"]).rc, Some(0));
    let began = Instant::now();
    fleet.soon_in("un", "m1");
    // This takes less than a second on an idle machine; the time is printed for the reader.
    println!("cut off and back after {:?}", began.elapsed());
    assert_ne!(fleet.run(&["salt", "m1", "test.ping"]).rc, Some(0));
}

#[test]
fn a_deleted_key_is_refused_for_as_long_as_is_asked_and_its_id_may_come_with_another() {
    let mut fleet = Fleet::with("auto_accept: True\nrefuse_deleted_keys_seconds: 3600\n");
    fleet.start_minion("m1", "");
    fleet.soon_in("acc", "m1");
    assert_eq!(fleet.run(&["salt-key", "-y", "-d", "m1"]).rc, Some(0));
    let refused = "the key of m1 was deleted";
    fleet.soon_logged(refused);
    // The master still knows it after a restart.
    let times = |fleet: &Fleet| fleet.master_log().matches(refused).count();
    let before = times(&fleet);
    fleet.kill_master();
    fleet.start_master();
    fleet.kill_minion("m1");
    fleet.start_minion_again("m1");
    fleet.soon("the deleted key is refused again", || {
        times(&fleet) > before
    });
    for list in ["acc", "un", "rej", "den"] {
        assert!(!fleet.is_in(list, "m1"), "{list}");
    }
    fleet.kill_minion("m1");
    fs::remove_dir_all(fleet.path("m1/pki")).unwrap();
    fleet.start_minion_again("m1");
    fleet.soon_in("acc", "m1");
}

#[test]
fn every_key_is_accepted_where_the_configuration_says_so() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    fleet.start_minion("m1", "");
    fleet.soon("the minion answers", || {
        fleet.run(&["salt", "m1", "test.ping"]).rc == Some(0)
    });
}

#[test]
fn files_of_ids_accept_and_reject_and_count_only_where_nobody_else_writes_to_them() {
    let mut fleet = Fleet::with("autosign_file: /sign\nautoreject_file: /reject\n");
    fleet.put("sign", "# ours\nweb*\ndb\\d+\n", 0o666);
    fleet.put("reject", "web-bad\n", 0o600);
    fleet.start_minion("web1", "");
    fleet.soon_in("un", "web1");
    fleet.soon_logged("Wrong permissions for");
    // A pending key is checked again.
    fleet.put("sign", "# ours\nweb*\ndb\\d+\n", 0o644);
    fleet.soon_in("acc", "web1");
    for id in ["db12", "web-bad", "other"] {
        fleet.start_minion(id, "");
    }
    fleet.soon_in("acc", "db12");
    fleet.soon_in("rej", "web-bad");
    fleet.soon_in("un", "other");
    assert!(!fleet.is_in("acc", "other"));
}

#[test]
fn a_file_with_an_ids_name_lets_its_key_in_once() {
    let mut fleet = Fleet::with("");
    let stub = fleet.put("pki/minions_autosign/m1", "", 0o600);
    fleet.start_minion("m1", "");
    fleet.soon_in("acc", "m1");
    assert!(!stub.exists());
    fleet.run(&["salt-key", "-y", "-d", "m1"]);
    fleet.soon_in("un", "m1");
}

#[test]
fn grains_that_a_minion_sends_are_held_against_files() {
    let config = "autosign_grains_dir: /signs\nautosign_grains_match: all\n";
    let mut fleet = Fleet::with(config);
    fleet.put("signs/site", "berlin\nhamburg\n", 0o600);
    fleet.put("signs/tier", "# which\nfront\n", 0o600);
    let of = |site: &str, tier: &str| {
        format!("autosign_grains: [site, tier]\ngrains: {{site: {site}, tier: {tier}}}\n")
    };
    fleet.start_minion("good", &of("hamburg", "front"));
    fleet.start_minion("half", &of("hamburg", "back"));
    fleet.start_minion("quiet", "grains: {site: berlin, tier: front}\n");
    fleet.soon_in("acc", "good");
    fleet.soon_in("un", "half");
    fleet.soon_in("un", "quiet");
}

#[test]
fn a_token_lets_in_as_many_as_it_says_and_binds_their_keys() {
    let mut fleet = Fleet::with("");
    let words = [
        "id=web-*",
        "uses=2",
        "ttl=2h",
        "role=web",
        "pillar={port: 80}",
    ];
    let token = fleet.token(&words);
    let option = format!("enroll_token: {token}\n");
    fleet.start_minion("db1", &option);
    fleet.soon_logged("is for ids that match web-*");
    let all = ["web-1", "web-2", "web-3", "web-4"];
    for id in all {
        fleet.start_minion(id, &option);
    }
    fleet.soon("all minions have asked", || {
        let late = all.iter().filter(|id| fleet.is_told(id, "is used up"));
        fleet.keys("acc").len() + fleet.keys("un").len() == 5 && late.count() == 2
    });
    assert_eq!(fleet.keys("acc").len(), 2, "{:?}", fleet.keys("acc"));
    assert!(fleet.is_in("un", "db1"));
    let first = fleet.keys("acc").remove(0);
    fleet.soon("the master targets the role of the token", || {
        let words = ["salt", "-G", "role:web", "--out=json", "pillar.items"];
        fleet.run(&words).out.contains("\"port\"")
    });
    assert!(first.starts_with("web-"));
    // The minion has the role too, when it selects its states.
    fleet.write(
        "salt/top.sls",
        "base:\n  'role:web':\n    - match: grain\n    - web\n",
    );
    fleet.write(
        "salt/web.sls",
        "shown:\n  test.show_notification:\n    - text: I am {{ grains.role }}\n",
    );
    let applied = fleet.run(&["salt", "-t", "60", &first, "state.highstate"]);
    assert!(applied.out.contains("I am web"), "{}", applied.out);
    let grain = fleet.run(&[
        "salt",
        "-t",
        "60",
        "--out=txt",
        &first,
        "grains.get",
        "role",
    ]);
    assert_eq!(grain.out, format!("{first}: web\n"));
    let called = fleet.call(&first, &["state.highstate"]);
    assert!(called.out.contains("I am web"), "{}", called.out);
    let list = fleet.run(&["salt-run", "--out=json", "token.list"]).out;
    assert!(
        list.contains("\"used\": 2") && !list.contains("hash"),
        "{list}"
    );
    // The secret part of a token appears only in the output that created it.
    let secret = token.split('.').next_back().unwrap();
    let jobs = fleet.run(&["salt-run", "--out=json", "jobs.list_jobs"]).out;
    let events = fleet
        .run(&["salt-run", "state.event", "from=1", "count=3"])
        .out;
    for text in [fleet.logs(), jobs, list, events] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[test]
fn a_minions_own_jobs_know_what_its_key_is_bound_to_also_while_the_master_is_away() {
    let mut fleet = Fleet::with("");
    let token = fleet.token(&["id=m1", "role=web"]);
    let seen = fleet.path("seen");
    let (file, react) = (seen.display(), fleet.path("react.sls"));
    let config = format!(
        "enroll_token: {token}\nrawfile_json.filename: {file}\nschedule:\n  look:\n    function: grains.get\n    args: [role]\n    seconds: 1\n    returner: rawfile_json\nreactor: [{{my/tag: [{}]}}]\n",
        react.display()
    );
    let told = fleet.path("told").display().to_string();
    let sls =
        format!("tell:\n  caller.file.touch:\n    - args: ['{told}-{{{{ grains.role }}}}']\n");
    fs::write(&react, sls).unwrap();
    fleet.start_minion("m1", &config);
    let known = || {
        let text = fs::read_to_string(&seen).unwrap_or_default();
        text.matches("\"return\": \"web\"").count()
    };
    fleet.soon("a scheduled job knows the role", || known() > 0);
    fleet.kill_master();
    let before = known();
    fleet.soon(
        "the scheduled job knows the role without the master",
        || known() > before + 1,
    );
    let fired = fleet.call("m1", &["--local", "event.fire", "{}", "my/tag"]);
    assert_eq!(fired.rc, Some(0), "{}", fired.out);
    fleet.soon("the reactor of the minion knows the role", || {
        fs::exists(format!("{told}-web")).unwrap()
    });
}

#[test]
fn tokens_that_are_revoked_expired_or_made_up_let_nobody_in() {
    let mut fleet = Fleet::with("");
    let revoked = fleet.token(&["id=*"]);
    let taken = fleet.run(&["salt-run", "token.revoke", &revoked]);
    assert_eq!(taken.rc, Some(0), "{}", taken.out);
    let short = fleet.token(&["id=*", "ttl=1s"]);
    let known = fleet.token(&["id=*"]);
    let forged = format!("{}.{}", known.split('.').next().unwrap(), "0".repeat(64));
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let all = [("m1", &revoked), ("m2", &short), ("m3", &forged)];
    for (id, token) in all {
        fleet.start_minion(id, &format!("enroll_token: {token}\n"));
        fleet.soon_in("un", id);
    }
    fleet.soon("the log has the reason for each minion", || {
        fleet.is_told("m1", "token is unknown")
            && fleet.is_told("m2", "has expired")
            && fleet.is_told("m3", "token is unknown")
    });
    // The minion's own log has it too, but nothing of the token that it does not know itself.
    let logged = |id: &str, text: &str| {
        let log = fs::read_to_string(fleet.path(id).join("log")).unwrap();
        log.contains(&format!("the token was not accepted: {text}"))
    };
    fleet.soon("each minion knows the reason", || {
        logged(
            "m1",
            "the token is unknown, or was revoked; an administrator",
        ) && logged("m2", "the token ")
            && logged(
                "m3",
                "the token is unknown, or was revoked; an administrator",
            )
    });
    assert!(fleet.keys("acc").is_empty());
    // A token with zero uses is refused when it is created.
    let words = ["salt-run", "token.create", "id=*", "uses=0"];
    assert!(fleet.run(&words).out.contains("1 or more"));
}

#[test]
fn a_token_comes_from_a_file_or_from_an_environment_that_does_not_keep_it() {
    let mut fleet = Fleet::with("");
    let (first, second) = (fleet.token(&["id=m1"]), fleet.token(&["id=m2"]));
    let file = fleet.put("token", &format!("{first}\n"), 0o600);
    let option = format!("enroll_token_file: {}\n", file.display());
    fleet.start_minion("m1", &option);
    fleet.soon_in("acc", "m1");
    // Started once for its configuration, and again with the token in its environment.
    fleet.start_minion("m2", "");
    fleet.soon_in("un", "m2");
    fleet.kill_minion("m2");
    let etc = fleet.path("m2/etc").display().to_string();
    let words = [
        "-c",
        "PINCH_TOKEN=$1 exec \"$2\" salt-minion -c \"$3\"",
        "sh",
        &second,
    ];
    let program = PROGRAM.display().to_string();
    let words = [&words[..], &[&program, &etc]].concat();
    let shell = Process::start("/bin/sh".as_ref(), &words, &fleet.path("m2/output"));
    fleet.soon_in("acc", "m2");
    let of = |what: &str| fs::read(format!("/proc/{}/{what}", shell.0.id())).unwrap();
    let secret = second.split('.').next_back().unwrap();
    for what in ["environ", "cmdline"] {
        let text = String::from_utf8_lossy(&of(what)).into_owned();
        assert!(text.contains("salt-minion") || what == "environ", "{text}");
        assert!(!text.contains(secret), "{what}: {text}");
    }
}

#[test]
fn the_first_rule_whose_conditions_all_hold_decides() {
    let policy = "autosign_policy:
  - {name: banned, id: 'web-bad*', action: reject}
  - {name: kept, id: 'web-wait*', action: pend}
  - {name: few, id: 'few-*', network: 127.0.0.0/8, max: 1/1h}
  - {name: elsewhere, id: 'far-*', network: 10.0.0.0/8}
  - {name: shown, id: 'tok-*', token: True, role: front}
  - {name: said, id: 'web-*', grains: {site: berlin}}
autosign_grains_dir: /none
";
    let mut fleet = Fleet::with(policy);
    let token = fleet.token(&["id=*", "uses=9"]);
    let with_token = format!("enroll_token: {token}\n");
    let berlin = "autosign_grains: [site]\ngrains: {site: berlin}\n";
    for (id, config) in [
        ("few-1", ""),
        ("web-1", berlin),
        ("tok-1", &with_token),
        ("web-bad", berlin),
        ("web-wait", berlin),
        ("web-2", ""),
        ("far-1", ""),
        ("tok-2", ""),
        // With a policy, its rules decide about keys with a token.
        ("other", &with_token),
    ] {
        fleet.start_minion(id, config);
    }
    for id in ["few-1", "web-1", "tok-1"] {
        fleet.soon_in("acc", id);
    }
    fleet.soon_in("rej", "web-bad");
    for id in ["web-wait", "web-2", "far-1", "tok-2", "other"] {
        fleet.soon_in("un", id);
    }
    fleet.start_minion("few-2", "");
    fleet.soon_logged("it has reached its `max`");
    fleet.soon_in("un", "few-2");
    assert_eq!(fleet.keys("acc").len(), 3);
}

#[test]
fn a_key_is_known_by_its_fingerprint_and_goes_when_its_time_is_over() {
    let mut fleet = Fleet::with("loop_interval: 1\n");
    fleet.accepted(&["m1"]);
    let shown = fleet.run(&["salt-key", "--out=json", "-f", "m1"]).out;
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let finger = shown["minions"]["m1"].as_str().unwrap().to_owned();
    fleet.run(&["salt-key", "-y", "-d", "m1"]);
    fleet.kill_minion("m1");
    fleet.run(&["salt-key", "-y", "-d", "m1"]);
    fleet.kill_master();
    let etc = fleet.path("master/etc/master");
    let text = fs::read_to_string(&etc).unwrap();
    let rule = format!(
        "autosign_policy: [{{key_fingerprint: '{finger}', expire: {{disconnected: 1s}}}}]\n"
    );
    fs::write(&etc, text + &rule).unwrap();
    fleet.start_master();
    fleet.start_minion_again("m1");
    fleet.start_minion("m2", "");
    fleet.soon_in("acc", "m1");
    fleet.soon_in("un", "m2");
    fleet.kill_minion("m1");
    fleet.soon("the key is deleted after the minion is gone", || {
        !fleet.is_in("acc", "m1")
    });
}

#[test]
fn a_policy_that_makes_no_sense_keeps_the_master_from_starting() {
    let fleet = Fleet::with("");
    let etc = fleet.path("other");
    fs::create_dir_all(&etc).unwrap();
    let root = etc.display();
    let text = format!(
        "root_dir: {root}\npki_dir: {root}/pki\ncachedir: {root}/cache\nsock_dir: {root}/run\nlog_file: {root}/log\nautosign_policy: [{{idd: 'web-*'}}]\n"
    );
    fs::write(etc.join("master"), text).unwrap();
    let dir = etc.display().to_string();
    let mut process = Process::start(&PROGRAM, &["salt-master", "-c", &dir], &etc.join("output"));
    let ended = process.0.wait().unwrap();
    assert!(!ended.success());
    let said = fs::read_to_string(etc.join("output")).unwrap();
    assert!(
        said.contains("autosign_policy") && said.contains("idd"),
        "{said}"
    );
}
