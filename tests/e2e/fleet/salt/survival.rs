//! A Salt master that ends during a job, keys that change, and several masters.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::Salt;

#[test]
fn a_return_reaches_a_salt_master_that_was_restarted_during_the_job() {
    let Some(mut salt) = Salt::start("zeromq", "") else {
        return;
    };
    salt.start_minion("m1", "");
    salt.answers("m1");
    let jid = salt.begin_sleep("m1", "15");
    salt.kill_master();
    salt.start_master();
    salt.soon("the return arrives", || {
        salt.runner(&["jobs.lookup_jid", &jid])["m1"] == true
    });
    salt.answers("m1");
}

/// Makes an RSA key, and writes its public half to a file.
fn make_key(private: &Path, public: &Path) {
    let mut made = Command::new("openssl");
    made.args(["genrsa", "-out"]).arg(private).arg("2048");
    assert!(made.output().unwrap().status.success());
    let mut exported = Command::new("openssl");
    exported
        .args(["rsa", "-pubout", "-in"])
        .arg(private)
        .arg("-out")
        .arg(public);
    assert!(exported.output().unwrap().status.success());
    fs::set_permissions(private, fs::Permissions::from_mode(0o400)).unwrap();
}

#[test]
fn a_master_with_another_key_than_the_remembered_one_gets_nothing() {
    let Some(salt) = Salt::start("zeromq", "") else {
        return;
    };
    let mut salt = salt.with_minions(&["m1"], "");
    salt.minions.clear();
    let pki = salt.path("m1/pki");
    make_key(&salt.path("other.pem"), &pki.join("minion_master.pub"));
    salt.start_minion_again("m1");
    salt.soon("the minion refuses the master", || {
        salt.logs()
            .contains("is not the Salt master that this minion trusts")
    });
    let answered = salt.salt(&["-t", "3", "*", "test.ping"]);
    assert_ne!(answered["m1"], json!(true));
}

#[test]
fn the_key_of_a_salt_minion_is_taken_over() {
    let Some(mut salt) = Salt::start("zeromq", "") else {
        return;
    };
    let pki = salt.path("m1/pki");
    fs::create_dir_all(&pki).unwrap();
    fs::set_permissions(&pki, fs::Permissions::from_mode(0o700)).unwrap();
    make_key(&pki.join("minion.pem"), &pki.join("minion.pub"));
    let key = fs::read_to_string(pki.join("minion.pem")).unwrap();
    salt.start_minion("m1", "");
    salt.answers("m1");
    assert_eq!(fs::read_to_string(pki.join("minion.pem")).unwrap(), key);
    assert!(!pki.join("minion.rsa.pem").exists());
}
