//! Keys of minions that a Salt master accepts and deletes, and the common key that it then changes.

use serde_json::json;

use super::Salt;

impl Salt {
    /// Returns the ids of keys that wait for acceptance.
    fn waiting(&self) -> Vec<String> {
        let listed = self.run("salt-key", &["-l", "un", "--out=json"]).out;
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap_or_default();
        let ids = listed["minions_pre"].as_array().into_iter().flatten();
        ids.filter_map(|id| id.as_str().map(str::to_owned))
            .collect()
    }

    fn accept(&self, id: &str) {
        let accepted = self.run("salt-key", &["-y", "-a", id]);
        assert_eq!(accepted.rc, Some(0), "{}", accepted.out);
    }
}

#[test]
fn a_key_waits_for_acceptance_and_a_deleted_one_gets_no_more_jobs() {
    // The master's maintenance changes the common key after a deletion.
    let config = "auto_accept: False\nloop_interval: 1\n";
    let Some(mut salt) = Salt::start("zeromq", config) else {
        return;
    };
    salt.start_minion("m1", "");
    salt.start_minion("m2", "");
    salt.soon("both keys wait", || salt.waiting() == ["m1", "m2"]);
    let refused = salt.run("salt", &["-t", "2", "*", "test.ping"]);
    assert_ne!(refused.rc, Some(0), "{}", refused.out);
    for id in ["m1", "m2"] {
        salt.accept(id);
        salt.answers(id);
    }
    let deleted = salt.run("salt-key", &["-y", "-d", "m2"]);
    assert_eq!(deleted.rc, Some(0), "{}", deleted.out);
    salt.soon("the deleted key waits again", || {
        salt.salt(&["-t", "2", "*", "test.ping"]);
        salt.waiting() == ["m2"]
    });
    // The other minion has the new common key.
    salt.answers("m1");
    let answered = salt.salt(&["-t", "2", "-L", "m1,m2", "test.ping"]);
    assert_eq!(
        (&answered["m1"], answered["m2"] == true),
        (&json!(true), false)
    );
    salt.accept("m2");
    salt.answers("m2");
}
