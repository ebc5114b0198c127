//! Tokens with which masters join a cluster.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use super::cluster::{Masters, SECRET, members, voters};
use super::{Fleet, PATIENCE};

impl Masters {
    /// Adds a master that has a token, in a file, and no secret. It is started.
    fn add_with_token(&mut self, token: &str) -> usize {
        let number = self.all.len() + 1;
        self.prepare(number, 2, "cluster_token_file: @TOKEN@\n");
        let fleet = self.all.last_mut().unwrap();
        let file = fleet.path("master/token");
        fs::write(&file, token).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let etc = fleet.path("master/etc/master");
        let text = fs::read_to_string(&etc).unwrap();
        fs::write(&etc, text.replace("@TOKEN@", &file.display().to_string())).unwrap();
        fleet.begin_master();
        number
    }

    /// Waits until a master ends, and returns its exit status and its log.
    fn ended(&mut self, number: usize) -> (Option<i32>, String) {
        let fleet = &mut self.all[number - 1];
        let mut status = None;
        let began = Instant::now();
        while status.is_none() {
            let master = fleet.master.as_mut().unwrap();
            status = master.0.try_wait().unwrap();
            let logs = fleet.logs();
            assert!(began.elapsed() < PATIENCE, "it does not end\n{logs}");
            std::thread::sleep(Duration::from_millis(50));
        }
        (status.unwrap().code(), fleet.logs())
    }

    /// Asserts that a master is refused with a sentence, which the log of a member has, too.
    fn is_refused(&mut self, number: usize, why: &str) {
        let (status, log) = self.ended(number);
        assert!(log.contains("cannot join the cluster prod"), "{log}");
        assert!(log.contains(why), "{why}\n{log}");
        assert_eq!(status, Some(1), "{log}");
        let members = self.all[..2].iter().map(Fleet::logs);
        let members: String = members.collect();
        assert!(members.contains(why), "{why}\n{members}");
    }
}

#[test]
fn a_token_lets_one_master_join_and_no_second_one_and_no_minion() {
    let mut masters = Masters::with(2, SECRET);
    // Without the secret and without an administrator.
    let token = masters.all[1].token(&["kind=master"]);
    let third = masters.add_with_token(&token);
    let name = masters.name(third);
    masters.soon("the third master has a vote", |masters| {
        voters(&masters.all[0]).contains(&name) && voters(&masters.all[2]).len() == 3
    });
    let listed = masters.all[0].run(&["salt-run", "--out=json", "token.list"]);
    let listed: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
    let (public, secret) = token.split_once('.').unwrap();
    assert_eq!(
        (&listed[public]["kind"], &listed[public]["used"]),
        (&"master".into(), &1.into()),
        "{listed}"
    );
    // Attacks: the same token once more, a token of a minion, and one that was revoked.
    let refused = masters.add_with_token(&token);
    masters.is_refused(refused, &format!("the token {public} is used up"));
    let of_minions = masters.all[0].token(&["id=*", "uses=5"]);
    let refused = masters.add_with_token(&of_minions);
    masters.is_refused(refused, "is for minions, not for masters");
    let revoked = masters.all[0].token(&["kind=master"]);
    let revoke = masters.all[1].run(&["salt-run", "token.revoke", &revoked]);
    assert_eq!(revoke.rc, Some(0), "{}", revoke.out);
    let refused = masters.add_with_token(&revoked);
    masters.is_refused(refused, "its `cluster_token` is unknown, or was revoked");
    assert_eq!(voters(&masters.all[0]).len(), 3);
    // Attack: a minion that has a token of masters.
    let of_masters = masters.all[0].token(&["kind=master", "id=*"]);
    let (known, port) = (masters.name(1), masters.all[0].port);
    let config = format!("master: {known}\nmaster_port: {port}\nenroll_token: {of_masters}\n");
    masters.all[0].start_minion("m1", &config);
    masters.soon("the minion is not accepted", |masters| {
        let log = masters.all[0].logs();
        log.contains("is for masters, not for minions")
    });
    let pending = masters.all[0].run(&["salt-key", "-l", "un"]).out;
    assert!(pending.lines().any(|line| line == "m1"), "{pending}");
    // Only the name of the token is in logs, and a master that has joined needs its file no more.
    for fleet in &masters.all {
        assert!(!fleet.logs().contains(secret));
    }
    let fleet = &mut masters.all[third - 1];
    fleet.kill_master();
    fs::remove_file(fleet.path("master/token")).unwrap();
    fleet.start_master();
    assert_eq!(voters(&masters.all[third - 1]).len(), 3);
}

#[test]
fn a_master_with_an_empty_disk_joins_again_with_its_token_until_it_is_removed() {
    let mut masters = Masters::with(2, SECRET);
    let token = masters.all[0].token(&["kind=master"]);
    let third = masters.add_with_token(&token);
    let has_vote = |masters: &Masters| {
        let members = members(&masters.all[0]);
        members["voter_count"] == 3 && members["learner_count"] == 0
    };
    masters.soon("the third master has a vote", has_vote);
    // To the members this is as if it had not received the answer: the same key with the same token.
    let before = members(&masters.all[0])["membership_version"].as_u64();
    empty_disk(&mut masters.all[third - 1]);
    masters.all[third - 1].start_master();
    masters.soon("it has a vote in place of the old one", |masters| {
        let version = members(&masters.all[0])["membership_version"].as_u64();
        version > before && has_vote(masters)
    });
    // Attack: a removed master with its key and its token.
    empty_disk(&mut masters.all[third - 1]);
    let name = masters.name(third);
    let removed = masters.all[0].run(&["salt-run", "cluster.remove", &name]);
    assert_eq!(removed.out.trim(), "True");
    masters.all[third - 1].begin_master();
    masters.is_refused(third, "is used up");
}

/// Ends a master, and removes all that it has of the cluster. It keeps its key.
fn empty_disk(fleet: &mut Fleet) {
    fleet.kill_master();
    for folder in ["store", "cluster"] {
        fs::remove_dir_all(fleet.path("master/cache").join(folder)).unwrap();
    }
}
