//! Publications: forged, replayed, unsigned, downgraded, and under a new key of the fleet.

use value::{Map, Value};

use super::master::{KEYS, Master, OTHER, new_key};
use crate::{Publication, Transport};

/// The job with this number.
fn job(serial: i64) -> Map {
    Map::new()
        .with("fun", "test.ping")
        .with("arg", Value::list([]))
        .with("tgt", "*")
        .with("tgt_type", "glob")
        .with("jid", format!("202611272200000000{serial:02}"))
        .with("ret", "")
        .with("user", "root")
        .with("serial", serial)
}

/// Publishes these before a good one, and returns the first that the minion takes.
fn first_after(
    transport: Transport,
    is_strict: bool,
    bad: impl Fn(&super::master::State) -> Vec<Value>,
) -> Publication {
    let mut master = Master::start(transport);
    master.settings.verify_signed_publications = is_strict;
    smol::block_on(async {
        let session = master.session().await;
        let (bad, good) = {
            let state = master.state.lock().unwrap();
            (bad(&state), state.published(&job(50)))
        };
        for value in bad {
            master.publish(&value);
        }
        master.publish(&good);
        session.next_publication().await.unwrap()
    })
}

fn without(value: &Value, name: &str) -> Value {
    let mut map = value.as_map().unwrap().clone();
    map.remove(name);
    map.into()
}

fn with(value: &Value, name: &str, new: impl Into<Value>) -> Value {
    let mut map = value.as_map().unwrap().clone();
    map.insert(name, new);
    map.into()
}

#[test]
fn a_publication_arrives_with_its_types() {
    for transport in [Transport::ZeroMq, Transport::Tcp] {
        let first = first_after(transport, true, |_| Vec::new());
        assert_eq!(first.jid, "20261127220000000050");
        assert_eq!(
            (first.fun, first.arg),
            (vec!["test.ping".to_owned()], vec![vec![]])
        );
        assert!(!first.is_multiple);
        assert_eq!((first.tgt, first.tgt_type.as_str()), ("*".into(), "glob"));
    }
}

#[test]
fn a_publication_that_the_master_has_not_signed_is_ignored() {
    for transport in [Transport::ZeroMq, Transport::Tcp] {
        let first = first_after(transport, true, |state| {
            let good = state.published(&job(60));
            vec![
                state.published_by(&KEYS[OTHER], &job(61)),
                without(&good, "sig"),
                with(&good, "sig", ""),
                // Attack: a downgrade to a signature that no one checks.
                with(&good, "sig_algo", "none"),
                with(&good, "sig_algo", "PKCS1v15-SHA224"),
                // Attack: not sealed at all.
                Map::new().with("enc", "clear").with("load", job(62)).into(),
                with(&good, "enc", "clear"),
                without(&good, "load"),
                with(&good, "load", Value::Bytes(vec![0; 96].into())),
                "text".into(),
            ]
        });
        assert_eq!(first.jid, "20261127220000000050");
    }
}

#[test]
fn without_the_demand_for_signatures_a_wrong_one_is_still_ignored() {
    let first = first_after(Transport::ZeroMq, false, |state| {
        vec![state.published_by(&KEYS[OTHER], &job(20))]
    });
    assert_eq!(first.jid, "20261127220000000050");
    let first = first_after(Transport::ZeroMq, false, |state| {
        vec![without(&state.published(&job(20)), "sig")]
    });
    assert_eq!(first.jid, "20261127220000000020");
}

#[test]
fn a_publication_without_the_types_of_a_job_is_ignored() {
    let first = first_after(Transport::Tcp, true, |state| {
        let bad = |name: &str, value: Value| {
            let mut load = job(1);
            load.insert(name, value);
            load.remove("serial");
            state.published(&load)
        };
        vec![
            bad("jid", "../../etc".into()),
            bad("jid", 5.into()),
            bad("fun", Value::Null),
            bad("fun", Value::list([])),
            bad("fun", Value::list([1.into()])),
            bad("arg", "text".into()),
            bad("tgt_type", 1.into()),
            bad("fun", Value::list(["test.ping".into(), "test.echo".into()])),
            state.published(&Map::new()),
        ]
    });
    assert_eq!(first.jid, "20261127220000000050");
}

#[test]
fn several_functions_have_their_own_arguments() {
    let first = first_after(Transport::ZeroMq, true, |state| {
        let mut load = job(1);
        load.insert("fun", Value::list(["test.ping".into(), "test.echo".into()]));
        load.insert(
            "arg",
            Value::list([Value::list([]), Value::list(["x".into()])]),
        );
        vec![state.published(&load)]
    });
    assert!(first.is_multiple);
    assert_eq!(first.fun, ["test.ping", "test.echo"]);
    assert_eq!(first.arg, [vec![], vec!["x".into()]]);
}

#[test]
fn a_replay_is_ignored_also_by_the_next_session() {
    let master = Master::start(Transport::ZeroMq);
    let identity = master.identity();
    let join = || async {
        match crate::join(&master.settings, &identity).await.unwrap() {
            crate::Joined::Accepted(session) => session,
            other => panic!("{other:?}"),
        }
    };
    let published = |serial| master.state.lock().unwrap().published(&job(serial));
    let (first, second, third) = (published(1), published(2), published(3));
    let unnumbered = master.state.lock().unwrap().published(&{
        let mut load = job(9);
        load.remove("serial");
        load
    });
    smol::block_on(async {
        let session = join().await;
        for value in [&first, &first, &second, &first, &unnumbered, &third] {
            master.publish(value);
        }
        for serial in 1..4 {
            let next = session.next_publication().await.unwrap();
            assert_eq!(next.load.get("serial"), Some(&serial.into()));
        }
        let session = join().await;
        for value in [&first, &third, &published(4)] {
            master.publish(value);
        }
        let next = session.next_publication().await.unwrap();
        assert_eq!(next.load.get("serial"), Some(&4.into()));
    });
}

#[test]
fn a_new_key_of_the_fleet_is_fetched_and_the_same_publication_opened() {
    for transport in [Transport::ZeroMq, Transport::Tcp] {
        let master = Master::start(transport);
        smol::block_on(async {
            let session = master.session().await;
            master.publish(&master.state.lock().unwrap().published(&job(30)));
            session.next_publication().await.unwrap();
            master.state.lock().unwrap().fleet = new_key(4);
            // With a new key, the numbers begin again.
            let first = master.state.lock().unwrap().published(&job(1));
            master.publish(&first);
            let next = session.next_publication().await.unwrap();
            assert_eq!(next.load.get("serial"), Some(&1.into()));
            assert_eq!(master.state.lock().unwrap().authentications, 2);
            // Requests use the new keys, too.
            session.request("_mine", Map::new()).await.unwrap();
        });
    }
}

/// Attack: signed publications of earlier keys, again and again.
#[test]
fn an_old_publication_is_worth_one_authentication_only() {
    let master = Master::start(Transport::ZeroMq);
    smol::block_on(async {
        let session = master.session().await;
        let old = master.state.lock().unwrap().published(&job(30));
        master.state.lock().unwrap().fleet = new_key(4);
        master.publish(&master.state.lock().unwrap().published(&job(1)));
        session.next_publication().await.unwrap();
        for _ in 0..20 {
            master.publish(&old);
        }
        master.publish(&master.state.lock().unwrap().published(&job(2)));
        let next = session.next_publication().await.unwrap();
        assert_eq!(next.load.get("serial"), Some(&2.into()));
        assert_eq!(master.state.lock().unwrap().authentications, 3);
    });
}

#[test]
fn a_caller_that_stops_waiting_loses_no_publication() {
    let master = Master::start(Transport::ZeroMq);
    smol::block_on(async {
        let session = master.session().await;
        master.state.lock().unwrap().fleet = new_key(4);
        master.publish(&master.state.lock().unwrap().published(&job(1)));
        let mut next = None;
        let mut limit = std::time::Duration::from_millis(2);
        while next.is_none() {
            limit *= 2;
            next = link::wait::within(limit, session.next_publication()).await;
        }
        assert_eq!(next.unwrap().unwrap().jid, "20261127220000000001");
    });
}
