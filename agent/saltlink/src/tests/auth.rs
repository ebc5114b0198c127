//! Authentications: accepted, and forged in each of their parts.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use value::{Map, Value};

use super::master::{KEYS, Master, OTHER, OWN, Reaction, SIG, State, new_key};
use crate::{Error, Joined, Kind, Transport};

/// The error of a join whose acceptance is changed before it is signed.
fn error_of(remembered: bool, change: impl Fn(&State, &mut Map) + Send + 'static) -> Error {
    let master = Master::start(Transport::ZeroMq);
    if remembered {
        smol::block_on(master.session());
    }
    master.change(move |state, _, _| {
        let mut load = state.accepted();
        change(state, &mut load);
        Reaction::Answer(state.signed(load))
    });
    let error = smol::block_on(master.join()).unwrap_err();
    assert_eq!(master.remembered().exists(), remembered, "{error}");
    error
}

fn is_distrusted(error: &Error, why: &str) {
    assert_eq!(error.kind(), Kind::Distrusted, "{error}");
    let text = error.to_string();
    assert!(text.contains("127.0.0.1:") && text.contains(why), "{text}");
}

#[test]
fn a_minion_joins_and_remembers_the_key() {
    for transport in [Transport::ZeroMq, Transport::Tcp] {
        let master = Master::start(transport);
        smol::block_on(async {
            let session = master.session().await;
            let load = Map::new().with("path", "x");
            let answer = session.request("_file_hash", load).await.unwrap();
            assert_eq!(answer.get("path"), Some(&"x".into()));
            assert_eq!(answer.get("id"), Some(&"m1".into()));
            let pillar = session.pillar(Map::new()).await.unwrap();
            assert_eq!(pillar, Map::new().with("a", 1).into());
        });
        let pem = std::fs::read_to_string(master.remembered()).unwrap();
        assert_eq!(pem.trim(), KEYS[OWN].public().pem());
        // Again, with a token for the key that is known now.
        smol::block_on(master.session());
    }
}

#[test]
fn another_masters_key_is_refused_and_the_remembered_one_stays() {
    let master = Master::start(Transport::ZeroMq);
    smol::block_on(master.session());
    let before = std::fs::read(master.remembered()).unwrap();
    master.state.lock().unwrap().key = OTHER;
    let error = smol::block_on(master.join()).unwrap_err();
    is_distrusted(&error, "salt-key -F master");
    assert_eq!(std::fs::read(master.remembered()).unwrap(), before);
}

#[test]
fn a_fingerprint_is_compared_before_the_key_is_remembered() {
    let mut master = Master::start(Transport::ZeroMq);
    let finger =
        |key: usize| crate::identity::fingers(&KEYS[key].public().pem(), "sha256").unwrap();
    master.settings.master_finger = Some(finger(OTHER)[0].clone());
    let error = smol::block_on(master.join()).unwrap_err();
    is_distrusted(&error, "master_finger");
    assert!(!master.remembered().exists());
    for finger in finger(OWN) {
        master.settings.master_finger = Some(finger.to_uppercase());
        smol::block_on(master.session());
        std::fs::remove_file(master.remembered()).unwrap();
    }
}

#[test]
fn a_signed_key_of_a_master_may_change_and_an_unsigned_one_is_refused() {
    let mut master = Master::start(Transport::ZeroMq);
    master.settings.verify_master_pubkey_sign = true;
    let error = smol::block_on(master.join()).unwrap_err();
    assert_eq!(error.kind(), Kind::Local, "{error}");
    let signer = crate::rsa_keys::Private::generate(2048).unwrap();
    let path = master.settings.pki_dir.join("master_sign.pub");
    std::fs::write(path, signer.public().pem()).unwrap();
    is_distrusted(
        &smol::block_on(master.join()).unwrap_err(),
        "is not signed by",
    );
    master.change(move |state, _, _| {
        let mut load = state.accepted();
        let pem = state.private().public().pem();
        let signature = signer.sign_message(SIG, pem.as_bytes());
        load.insert("pub_sig", STANDARD.encode(signature));
        Reaction::Answer(state.signed(load))
    });
    smol::block_on(master.session());
    master.state.lock().unwrap().key = OTHER;
    smol::block_on(master.session());
    let pem = std::fs::read_to_string(master.remembered()).unwrap();
    assert_eq!(pem.trim(), KEYS[OTHER].public().pem());
}

#[test]
fn each_forged_part_of_an_acceptance_is_refused_and_nothing_is_written() {
    let other = |load: &mut Map, name: &str, value: Value| {
        assert!(load.insert(name, value).is_some(), "{name}");
    };
    let error = error_of(false, move |_, load| {
        other(load, "nonce", "0".repeat(32).into());
    });
    assert_eq!(error.kind(), Kind::Refused, "{error}");
    // Attack: the key of the fleet is one that the master has not signed.
    let error = error_of(false, move |_, load| {
        let forged = KEYS[OTHER].sign(b"something else").unwrap();
        other(load, "sig", Value::Bytes(forged.into()));
    });
    is_distrusted(&error, "has not signed the key of the fleet");
    let error = error_of(false, move |_, load| other(load, "aes", "no key".into()));
    assert!(error.to_string().contains("does not decrypt"), "{error}");
    let error = error_of(false, |_, load| drop(load.remove("session")));
    assert!(error.to_string().contains("before 3006"), "{error}");
    for port in [Value::Null, "4505".into(), 70_000.into(), (-1).into()] {
        let error = error_of(false, move |_, load| {
            other(load, "publish_port", port.clone());
        });
        assert!(error.to_string().contains("publish_port"), "{error}");
    }
    for pem in [
        "",
        "nothing",
        "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----",
    ] {
        let error = error_of(false, move |_, load| other(load, "pub_key", pem.into()));
        is_distrusted(&error, "not an RSA key");
    }
    // Attack: a copy of an earlier answer, whose sender cannot decrypt the token.
    let error = error_of(true, |state, load| {
        drop(load.remove("token"));
        let fleet = state.fleet.clone();
        assert!(!fleet.is_empty());
    });
    assert!(error.to_string().contains("token"), "{error}");
}

#[test]
fn a_signature_that_is_missing_or_wrong_is_refused() {
    for signature in [
        None,
        Some(Vec::new()),
        Some(vec![0; 256]),
        Some(vec![7; 300]),
    ] {
        let master = Master::start(Transport::Tcp);
        master.change(move |_, _, answer| {
            let mut answer = answer.as_map().unwrap().clone();
            answer.remove("sig");
            if let Some(signature) = &signature {
                answer.insert("sig", Value::Bytes(signature.clone().into()));
            }
            Reaction::Answer(answer.into())
        });
        let error = smol::block_on(master.join()).unwrap_err();
        is_distrusted(&error, "signature");
        assert!(!master.remembered().exists());
    }
}

#[test]
fn refusals_are_signed_by_the_remembered_master() {
    let decided = |state: &State, ret: Value| {
        let load = Map::new()
            .with("nonce", state.nonce.as_str())
            .with("ret", ret);
        state.signed(load)
    };
    let master = Master::start(Transport::ZeroMq);
    let answer = |ret: Value| {
        master.change(move |state, _, _| Reaction::Answer(decided(state, ret.clone())));
        smol::block_on(master.join())
    };
    assert!(matches!(answer(true.into()), Ok(Joined::Pending)));
    assert!(matches!(answer(false.into()), Ok(Joined::Rejected)));
    assert!(matches!(answer("full".into()), Ok(Joined::Full)));
    assert_eq!(
        answer("bad enc algo".into()).unwrap_err().kind(),
        Kind::Refused
    );
    assert_eq!(answer(Value::Null).unwrap_err().kind(), Kind::Refused);
    master.change(|_, _, answer| Reaction::Answer(answer));
    smol::block_on(master.session());
    assert!(matches!(answer(true.into()), Ok(Joined::Pending)));
    // Attack: somebody else says that the key is rejected.
    master.state.lock().unwrap().key = OTHER;
    is_distrusted(&answer(false.into()).unwrap_err(), "signature");
    is_distrusted(&answer(true.into()).unwrap_err(), "signature");
}

#[test]
fn an_answer_without_a_signed_part_is_a_refusal_in_words() {
    let master = Master::start(Transport::ZeroMq);
    let words: [Value; 4] = [
        "bad load".into(),
        Map::new()
            .with("enc", "clear")
            .with("load", Map::new().with("ret", "bad sig algo"))
            .into(),
        Map::new()
            .with("enc", "clear")
            .with("load", Map::new().with("ret", true))
            .into(),
        Value::Null,
    ];
    for answer in words {
        let shown = answer.clone();
        master.change(move |_, _, _| Reaction::Answer(answer.clone()));
        let error = smol::block_on(master.join()).unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{shown:?}: {error}");
    }
}

#[test]
fn a_lost_authentication_is_tried_again() {
    let mut master = Master::start(Transport::ZeroMq);
    master.settings.auth_tries = 3;
    let mut tries = 0;
    master.change(move |_, _, answer| {
        tries += 1;
        match tries {
            1 | 2 => Reaction::Bytes(Vec::new()),
            _ => Reaction::Answer(answer),
        }
    });
    smol::block_on(master.session());
    assert_eq!(master.state.lock().unwrap().authentications, 3);
}

#[test]
fn a_silent_master_is_an_error() {
    let mut master = Master::start(Transport::Tcp);
    master.settings.auth_timeout = Duration::from_millis(200);
    master.settings.auth_tries = 2;
    master.change(|_, _, _| Reaction::Silence);
    let error = smol::block_on(master.join()).unwrap_err();
    assert!(matches!(error, Error::Silent { .. }), "{error}");
    assert_eq!(master.state.lock().unwrap().authentications, 2);
}

#[test]
fn a_key_with_the_token_of_auth_mode_2_is_taken() {
    let master = Master::start(Transport::ZeroMq);
    smol::block_on(master.session());
    // The stand-in knows the token only after the request, and appends it as Salt does.
    master.state.lock().unwrap().fleet = format!("{}_|-not the token", new_key(3));
    let error = smol::block_on(master.join()).unwrap_err();
    is_distrusted(&error, "token");
}
