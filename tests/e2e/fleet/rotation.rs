//! `salt-key --rotate-master-key`: the master gets another key, and no minion is locked out.

use std::fs;

use link::{KeyPair, Succession};

use super::Fleet;

impl Fleet {
    fn rotate(&self) -> String {
        let rotated = self.run(&["salt-key", "--rotate-master-key"]);
        assert_eq!(rotated.rc, Some(0), "{}", self.logs());
        rotated.out
    }

    fn master_key(&self) -> String {
        fs::read_to_string(self.path("master/pki/master.pub")).unwrap()
    }

    fn remembered(&self, id: &str) -> String {
        fs::read_to_string(self.path(id).join("pki/minion_master.pub")).unwrap()
    }

    fn soon_answer(&self, count: usize) {
        self.soon("all minions answer", || {
            let words = ["salt", "--out=json", "--static", "*", "test.ping"];
            self.run(&words).out.matches(": true").count() == count
        });
    }
}

#[test]
fn a_rotated_master_key_locks_no_minion_out() {
    let mut fleet = Fleet::with("");
    let ids: Vec<String> = (1..=20).map(|number| format!("m{number:02}")).collect();
    let names: Vec<&str> = ids.iter().map(String::as_str).collect();
    fleet.accepted(&names);
    let old = fleet.master_key();
    for away in &names[..5] {
        fleet.kill_minion(away);
    }
    fleet.soon("15 minions are connected", || {
        fleet
            .run(&["salt-run", "--out=json", "manage.present"])
            .out
            .matches('m')
            .count()
            == 15
    });

    // The master waits for those that are away, and keeps its key meanwhile, also when it restarts.
    let said = fleet.rotate();
    assert!(
        said.contains("15 minions accept it, 5 do not yet: m01, m02, m03, m04, m05"),
        "{said}"
    );
    fleet.kill_master();
    fleet.start_master();
    assert_eq!(fleet.master_key(), old);
    for away in &names[..4] {
        fleet.start_minion_again(away);
    }
    fleet.soon_answer(19);
    fleet.soon("four more accept it", || {
        fleet.rotate().contains("5 do not") || fleet.rotate().contains("1 do not yet: m05")
    });
    assert_eq!(fleet.master_key(), old);

    // With the last one the master has the new key. Sessions continue, and all minions come back
    // after a restart of the master.
    fleet.start_minion_again("m05");
    fleet.soon("the master has another key", || fleet.master_key() != old);
    assert!(!fleet.path("master/pki/master.next.pem").exists());
    fleet.soon_answer(20);
    fleet.kill_master();
    fleet.start_master();
    fleet.soon_answer(20);
    let new = fleet.master_key();
    fleet.soon("all minions remember the new key", || {
        names.iter().all(|id| fleet.remembered(id) == new)
    });

    // A new minion meets the new key only.
    fleet.accepted(&["m21"]);
    assert_eq!(fleet.remembered("m21"), new);
}

#[test]
fn a_minion_that_is_locked_out_on_purpose_says_so_and_a_cancelled_rotation_changes_nothing() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["m1", "m2"]);
    let old = fleet.master_key();
    fleet.kill_minion("m2");
    fleet.soon("only m1 is connected", || {
        !fleet
            .run(&["salt-run", "manage.present"])
            .out
            .contains("m2")
    });
    fleet.rotate();
    let kept = fleet.run(&["salt-key", "--cancel-rotation"]);
    assert_eq!(kept.rc, Some(0));
    assert!(
        kept.out.contains("The master keeps its key"),
        "{}",
        kept.out
    );
    let none = fleet.run(&["salt-key", "--finish-rotation"]);
    assert_eq!(
        (none.rc, fleet.master_key()),
        (Some(1), old.clone()),
        "{}",
        none.out
    );
    assert!(
        fleet
            .logs()
            .contains("no rotation of the master's key is in progress")
    );

    // Without an answer on standard input nothing is changed.
    let said = fleet.rotate();
    assert!(
        said.contains("1 minions accept it, 1 do not yet: m2"),
        "{said}"
    );
    let asked = fleet.run(&["salt-key", "--finish-rotation"]);
    assert_eq!(
        (asked.rc, fleet.master_key()),
        (Some(1), old.clone()),
        "{}",
        asked.out
    );
    let done = fleet.run(&["salt-key", "-y", "--finish-rotation"]);
    assert_eq!(done.rc, Some(0), "{}", done.out);
    assert_ne!(fleet.master_key(), old);
    fleet.soon_answer(1);
    fleet.start_minion_again("m2");
    fleet.soon("m2 says that the master has another key", || {
        let log = fs::read_to_string(fleet.path("m2/log")).unwrap_or_default();
        log.contains("man-in-the-middle") && log.contains("minion_master.pub")
    });
}

#[test]
fn fingerprints_in_the_configuration_may_be_several() {
    let mut fleet = Fleet::with("");
    let pem = fleet.master_key();
    let own = link::PublicKey::from_pem(pem.as_bytes()).unwrap().finger();
    let other = KeyPair::generate().unwrap().public().finger();
    fleet.start_minion("m1", &format!("master_finger: ['{other}', '{own}']\n"));
    fleet.soon_in("un", "m1");
    assert_eq!(fleet.run(&["salt-key", "-y", "-A"]).rc, Some(0));
    fleet.soon_answer(1);

    // The configuration names the old key afterwards, and the minion says so.
    fleet.rotate();
    fleet.soon("the master has another key", || fleet.master_key() != pem);
    fleet.kill_master();
    fleet.start_master();
    fleet.soon_answer(1);
    let log = fs::read_to_string(fleet.path("m1/log")).unwrap();
    assert!(
        log.contains("master_finger has the fingerprint of an old key"),
        "{log}"
    );
}

#[test]
fn a_statement_that_the_old_key_has_not_signed_is_of_no_use() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["m1"]);
    fleet.kill_minion("m1");
    // Another master with another key at the same address, and a statement that it has signed itself.
    let (stranger, next) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let forged = Succession::sign(&stranger, next.public()).unwrap();
    fs::write(
        fleet.path("m1/pki/minion_master.next"),
        format!("{forged}\n"),
    )
    .unwrap();
    fleet.kill_master();
    for name in ["master.pem", "master.pub"] {
        fs::remove_file(fleet.path("master/pki").join(name)).unwrap();
    }
    let pem = next.pem();
    let key = fleet.put("pki/master.pem", &pem, 0o400);
    assert!(key.exists());
    fleet.start_master();
    fleet.start_minion_again("m1");
    fleet.soon("m1 refuses the key", || {
        let log = fs::read_to_string(fleet.path("m1/log")).unwrap_or_default();
        log.contains("man-in-the-middle")
    });
}
