//! Requests and pillar: answers that are forged, for another request, or under old keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use value::{Map, Value};

use super::master::{KEYS, Master, OTHER, Reaction, new_key};
use crate::{Error, Kind, Transport};

fn path() -> Map {
    Map::new().with("path", "x")
}

#[test]
fn an_answer_to_another_request_is_refused() {
    let master = Master::start(Transport::ZeroMq);
    smol::block_on(async {
        let session = master.session().await;
        master.change(|state, cmd, answer| match cmd {
            "_auth" => Reaction::Answer(answer),
            _ => Reaction::Answer(state.sealed(&"old".into(), &"0".repeat(32))),
        });
        let error = session.request("_file_hash", path()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Refused, "{error}");
        assert!(error.to_string().contains("_file_hash"), "{error}");
    });
    assert_eq!(master.state.lock().unwrap().authentications, 2);
}

#[test]
fn an_answer_under_another_key_is_refused() {
    let master = Master::start(Transport::Tcp);
    smol::block_on(async {
        let session = master.session().await;
        master.change(|state, cmd, answer| match cmd {
            "_auth" => Reaction::Answer(answer),
            _ => {
                let seal = crate::seal::Seal::parse(new_key(7).as_bytes()).unwrap();
                let plain = wire::payload::encode(&"forged".into()).unwrap();
                let sealed = seal.seal(&state.nonce, &plain).unwrap();
                Reaction::Answer(Value::Bytes(sealed.into()))
            }
        });
        let error = session.request("_file_hash", path()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Refused, "{error}");
    });
}

#[test]
fn a_new_key_of_the_session_is_fetched_once_and_the_request_repeated() {
    let master = Master::start(Transport::ZeroMq);
    smol::block_on(async {
        let session = master.session().await;
        master.state.lock().unwrap().session = new_key(5);
        let answer = session.request("_file_hash", path()).await.unwrap();
        assert_eq!(answer.get("path"), Some(&"x".into()));
        session.request("_file_hash", path()).await.unwrap();
        assert_eq!(master.state.lock().unwrap().authentications, 2);
        // The same for a pillar.
        master.state.lock().unwrap().session = new_key(6);
        session.pillar(Map::new()).await.unwrap();
        assert_eq!(master.state.lock().unwrap().authentications, 3);
        // A refusal in words stays one after a new authentication.
        master.change(|_, cmd, answer| match cmd {
            "_auth" => Reaction::Answer(answer),
            _ => Reaction::Answer("bad load".into()),
        });
        let error = session.request("_file_hash", path()).await.unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        assert!(error.to_string().contains("bad load"), "{error}");
        assert_eq!(master.state.lock().unwrap().authentications, 4);
    });
}

#[test]
fn a_key_that_is_no_longer_accepted_ends_the_session() {
    let master = Master::start(Transport::ZeroMq);
    smol::block_on(async {
        let session = master.session().await;
        master.change(|state, cmd, _| match cmd {
            "_auth" => {
                let load = Map::new()
                    .with("nonce", state.nonce.as_str())
                    .with("ret", false);
                Reaction::Answer(state.signed(load))
            }
            _ => Reaction::Answer("bad load".into()),
        });
        let error = session.request("_file_hash", path()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Lost, "{error}");
        assert!(error.to_string().contains("is rejected"), "{error}");
    });
}

#[test]
fn a_pillar_of_another_master_request_or_key_is_refused() {
    let master = Master::start(Transport::ZeroMq);
    smol::block_on(async {
        let session = master.session().await;
        for attack in ["signer", "nonce", "key", "none", "sealed", "text"] {
            master.change(move |state, cmd, answer| {
                let own = state.private();
                Reaction::Answer(match attack {
                    _ if cmd == "_auth" => answer,
                    "signer" => state.pillar_by(&KEYS[OTHER], &state.nonce, None),
                    "nonce" => state.pillar_by(own, &"0".repeat(32), None),
                    "key" => state.pillar_by(own, &state.nonce, Some("other".into())),
                    "none" => Map::new().with("pillar", Map::new()).into(),
                    "sealed" => {
                        let mut answer = answer.as_map().unwrap().clone();
                        answer.insert("pillar", Value::Bytes(vec![0; 96].into()));
                        answer.into()
                    }
                    _ => "".into(),
                })
            });
            let error = session.pillar(Map::new()).await.unwrap_err();
            let expected = match attack {
                "signer" | "nonce" | "key" => Kind::Distrusted,
                _ => Kind::Refused,
            };
            assert_eq!(error.kind(), expected, "{attack}: {error}");
        }
    });
}

#[test]
fn many_requests_at_the_same_time_get_their_own_answers() {
    for transport in [Transport::ZeroMq, Transport::Tcp] {
        let master = Master::start(transport);
        smol::block_on(async {
            let session = master.session().await;
            let all: Vec<_> = (0..30)
                .map(|number| {
                    let session = session.clone();
                    smol::spawn(async move {
                        let load = Map::new().with("number", number);
                        let answer = session.request("_mine", load).await.unwrap();
                        assert_eq!(answer.get("number"), Some(&number.into()));
                    })
                })
                .collect();
            for one in all {
                one.await;
            }
        });
    }
}

#[test]
fn a_lost_request_is_sent_again_on_a_new_connection() {
    let mut master = Master::start(Transport::ZeroMq);
    master.settings.request_tries = 2;
    smol::block_on(async {
        let session = master.session().await;
        let mut tries = 0;
        master.change(move |_, _, answer| {
            tries += 1;
            match tries {
                1 => Reaction::Bytes(Vec::new()),
                _ => Reaction::Answer(answer),
            }
        });
        session.request("_file_hash", path()).await.unwrap();
    });
}

#[test]
fn a_request_that_is_too_large_is_not_sent() {
    let master = Master::start(Transport::Tcp);
    smol::block_on(async {
        let session = master.session().await;
        let large = Map::new().with("data", "x".repeat(wire::payload::LIMITS.bytes));
        let error = session.request("_return", large).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Local, "{error}");
    });
}

/// Sends a command of each kind that must not be doubled, and returns the results with the number of
/// times that the master got the command.
fn sent_once(
    transport: Transport,
    reaction: impl Fn(&super::master::State, Value) -> Reaction + Clone + Send + 'static,
) -> Vec<(Result<Value, Error>, usize)> {
    let mut master = Master::start(transport);
    master.settings.request_timeout = Duration::from_secs(1);
    master.settings.request_tries = 60;
    let commands = [
        "_return",
        "_minion_event",
        "minion_pub",
        "minion_runner",
        "_file_recv",
    ];
    let mut all = Vec::new();
    for command in commands {
        let reaction = reaction.clone();
        let sent = Arc::new(AtomicUsize::new(0));
        let count = sent.clone();
        master.change(move |state, cmd, answer| {
            if cmd == "_auth" {
                return Reaction::Answer(answer);
            }
            count.fetch_add(1, Ordering::Relaxed);
            reaction(state, answer)
        });
        let result = smol::block_on(async {
            let session = master.session().await;
            session.request(command, path()).await
        });
        all.push((result, sent.load(Ordering::Relaxed)));
    }
    all
}

#[test]
fn a_command_whose_answer_is_late_is_not_sent_again() {
    for transport in [Transport::ZeroMq, Transport::Tcp] {
        let late = |_: &_, answer| Reaction::Late(Duration::from_millis(1500), answer);
        for (result, sent) in sent_once(transport, late) {
            assert_eq!(result.unwrap().get("path"), Some(&"x".into()));
            assert_eq!(sent, 1);
        }
    }
}

#[test]
fn a_command_whose_connection_ends_before_the_answer_is_not_sent_again() {
    for (result, sent) in sent_once(Transport::ZeroMq, |_, _| Reaction::Bytes(Vec::new())) {
        let error = result.unwrap_err();
        assert_eq!((error.kind(), sent), (Kind::Lost, 1), "{error}");
    }
}

#[test]
fn a_command_whose_answer_is_sealed_by_another_key_is_not_sent_again() {
    let other = |state: &super::master::State, _| {
        let seal = crate::seal::Seal::parse(new_key(7).as_bytes()).unwrap();
        let sealed = seal.seal(&state.nonce, b"\xc0").unwrap();
        Reaction::Answer(Value::Bytes(sealed.into()))
    };
    for (result, sent) in sent_once(Transport::ZeroMq, other) {
        let error = result.unwrap_err();
        assert_eq!((error.kind(), sent), (Kind::Refused, 1), "{error}");
    }
}

#[test]
fn a_command_that_is_refused_for_an_old_key_is_sent_again() {
    let master = Master::start(Transport::ZeroMq);
    smol::block_on(async {
        let session = master.session().await;
        master.state.lock().unwrap().session = new_key(5);
        session.request("_return", path()).await.unwrap();
    });
    assert_eq!(master.state.lock().unwrap().authentications, 2);
}
