//! Timeouts from callers: no value blocks the master.

use std::path::Path;

use value::{Map, Value};
use wire::{Publish, Way};

use crate::fleet::hostile::{Hostile, asked_locally, key, run};
use crate::fleet::{Fleet, NOBODY};

/// Timeouts for which no caller can wait.
const NOT_WAITED: [f64; 4] = [-1.0, 0.0, -0.0, f64::MIN];
/// Timeouts that no frame may contain.
const REFUSED: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
/// Timeouts that are shorter than any answer takes.
const TINY: [f64; 3] = [1e-9, f64::MIN_POSITIVE, 0.001];

fn ping(tgt: &str, timeout_s: f64) -> Publish {
    Publish {
        tgt: tgt.into(),
        tgt_type: "glob".into(),
        fun: "test.ping".into(),
        arg: Vec::new(),
        ret: String::new(),
        jid: None,
        timeout_s: Some(timeout_s),
        options: Map::new(),
    }
}

#[test]
fn c2_no_timeout_of_a_peer_holds_up_the_master() {
    let mut fleet = Fleet::with("auto_accept: True\npeer:\n  peer:\n    - test.ping\n");
    fleet.start_minion("m1", "");
    fleet.soon("the minion answers", || {
        fleet.run(&["salt", "m1", "test.ping"]).out.contains("True")
    });
    run(async {
        let peer = Hostile::let_in(fleet.port(), &key(), "peer").await;
        for timeout_s in NOT_WAITED {
            let done = peer.done(ping("m1", timeout_s)).await;
            assert!(done.get("jid").is_some(), "{timeout_s}: {done:?}");
            assert_eq!(peer.ask(ping("m1", timeout_s)).await.len(), 1);
        }
        for timeout_s in REFUSED {
            assert_eq!(peer.refused(ping("m1", timeout_s)).await.0, "invalid");
        }
        for timeout_s in TINY {
            // The return of the minion, and the end of the job.
            let answer = peer.ask(ping("m1", timeout_s)).await;
            assert_eq!(answer.len(), 2, "{timeout_s}: {answer:?}");
        }
    });
    fleet.serves_others("m2");
}

/// Asks the master as a user who owns nothing.
fn asked_by_nobody(socket: &Path, timeout_s: f64) -> Vec<Value> {
    let socket = socket.to_owned();
    let asked = move || {
        let nobody = rustix::process::Uid::from_raw(NOBODY);
        rustix::thread::set_thread_uid(nobody).unwrap();
        let asked = asked_locally(&socket, Way::ClientToMaster, ping("m1", timeout_s));
        asked.unwrap_or_else(|error| panic!("{timeout_s}: {error}"))
    };
    std::thread::spawn(asked).join().unwrap()
}

#[test]
fn c2_no_timeout_of_a_user_holds_up_the_master() {
    if !tests::skip::is_root() {
        return eprintln!("passed over: only root can be another user");
    }
    let mut fleet = Fleet::with("publisher_acl:\n  nobody:\n    - test.ping\n");
    fleet.accepted(&["m1"]);
    fleet.run_as_nobody(&["salt", "m1", "test.ping"]);
    let socket = fleet.master_socket();
    for timeout_s in NOT_WAITED {
        // The answer has two parts: the minions that received the job, and the end.
        let parts = asked_by_nobody(&socket, timeout_s);
        assert_eq!(parts.len(), 2, "{timeout_s}: {parts:?}");
    }
    for timeout_s in TINY {
        let parts = asked_by_nobody(&socket, timeout_s);
        assert_eq!(parts.len(), 3, "{timeout_s}: {parts:?}");
    }
    let answer = fleet.run(&["salt", "--out=txt", "m1", "test.ping"]);
    assert_eq!(answer.out, "m1: True\n");
}
