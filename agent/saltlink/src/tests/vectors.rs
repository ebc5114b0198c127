//! Keys, signatures and seals that Salt itself has made (`tests/corpus/saltlink/record.py`).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use value::python::hex;
use value::{Map, Value, json};
use wire::payload;

use crate::rsa_keys::{Private, Public};
use crate::seal::Seal;
use crate::{EncAlgo, SigAlgo};

/// The recorded values.
pub(super) fn recorded(name: &str) -> String {
    let text = include_str!("../../../../tests/corpus/saltlink/vectors.json");
    let all = json::read(text).unwrap();
    all.get(name).unwrap().as_str().unwrap().to_owned()
}

fn bytes(name: &str) -> Vec<u8> {
    STANDARD.decode(recorded(name)).unwrap()
}

fn pair() -> (Private, Public) {
    (
        Private::from_pem(&recorded("private")).unwrap(),
        Public::from_pem(&recorded("public")).unwrap(),
    )
}

#[test]
fn a_key_of_salt_is_read_and_written_as_salt_writes_it() {
    let (private, public) = pair();
    assert_eq!(private.to_pem().unwrap().trim(), recorded("private").trim());
    assert_eq!(public.pem(), recorded("public").trim());
    assert_eq!(private.public(), public);
    let fingers = crate::identity::fingers(&public.pem(), "sha256");
    assert_eq!(
        fingers.unwrap(),
        [recorded("finger"), recorded("finger 3008")]
    );
}

#[test]
fn signatures_with_x931_are_those_of_salt() {
    let (private, public) = pair();
    assert_eq!(private.sign(b"salt").unwrap(), bytes("token"));
    let hash = hex(digest(&SHA256, b"a key").as_ref());
    assert_eq!(public.open(&bytes("x931")), Some(hash.into_bytes()));
    assert_eq!(public.open(&bytes("token")), Some(b"salt".to_vec()));
    let mut wrong = bytes("token");
    wrong[100] ^= 1;
    assert_eq!(public.open(&wrong), None);
    assert_eq!(public.open(&[0xff; 256]), None);
    assert_eq!(public.open(b""), None);
    // A message that needs no filling, and one that is too long.
    let longest = [7; 254];
    let signed = private.sign(&longest).unwrap();
    assert_eq!(public.open(&signed), Some(longest.to_vec()));
    assert!(private.sign(&[7; 255]).is_err());
}

#[test]
fn keys_and_signatures_of_salt_are_opened_and_verified() {
    let (private, public) = pair();
    for (enc, sig) in [
        (EncAlgo::OaepSha1, SigAlgo::Pkcs1v15Sha1),
        (EncAlgo::OaepSha224, SigAlgo::Pkcs1v15Sha224),
    ] {
        let short = enc.name().strip_prefix("OAEP-").unwrap();
        let sealed = bytes(&format!("sealed {short}"));
        assert_eq!(private.decrypt(enc, &sealed), Some(b"a key".to_vec()));
        let other = match enc {
            EncAlgo::OaepSha1 => EncAlgo::OaepSha224,
            EncAlgo::OaepSha224 => EncAlgo::OaepSha1,
        };
        assert_eq!(private.decrypt(other, &sealed), None);
        let signed = bytes(&format!("signed {short}"));
        assert!(public.verifies(sig, b"a message", &signed));
        assert!(!public.verifies(sig, b"another message", &signed));
        assert!(!public.verifies(sig, b"a message", b""));
        let again = public.encrypt(enc, b"token").unwrap();
        assert_eq!(private.decrypt(enc, &again), Some(b"token".to_vec()));
    }
}

#[test]
fn messages_of_salt_are_opened() {
    let seal = Seal::parse(recorded("session").as_bytes()).unwrap();
    let nonce = "0123456789abcdef".repeat(2);
    let expected: Value = Map::new()
        .with("text", "grüße")
        .with("bytes", Value::Bytes([0xff, 0].as_slice().into()))
        .with(
            "list",
            Value::list([
                1.into(),
                (-7).into(),
                300.into(),
                70_000.into(),
                2.5.into(),
                Value::Null,
                true.into(),
            ]),
        )
        .with("long", "x".repeat(40))
        .into();
    let answer = seal.open(&nonce, &bytes("answer")).unwrap();
    assert_eq!(payload::decode(&answer), Ok(expected.clone()));
    let published = seal.open("", &bytes("publication")).unwrap();
    assert_eq!(published, bytes("payload"));
    assert_eq!(payload::encode(&expected).unwrap(), bytes("payload"));
    // Another nonce, another key, a changed byte, an end that is missing.
    assert_eq!(seal.open("x", &bytes("answer")), None);
    let other = Seal::parse(STANDARD.encode([1; 56]).as_bytes()).unwrap();
    assert_eq!(other.open(&nonce, &bytes("answer")), None);
    for place in [0, 20, 60] {
        let mut changed = bytes("answer");
        changed[place] ^= 1;
        assert_eq!(seal.open(&nonce, &changed), None);
    }
    for length in [0, 31, 32, 47, 48, 64] {
        assert_eq!(seal.open("", &bytes("answer")[..length]), None);
    }
}

#[test]
fn what_is_sealed_is_opened_and_a_key_of_another_length_is_none() {
    let seal = Seal::parse(recorded("session").as_bytes()).unwrap();
    let sealed = seal.seal("nonce", b"message").unwrap();
    assert_eq!(seal.open("nonce", &sealed), Some(b"message".to_vec()));
    assert_ne!(seal.seal("nonce", b"message").unwrap(), sealed);
    for wrong in [
        "",
        "!",
        &STANDARD.encode([1; 55]),
        &STANDARD.encode([1; 57]),
    ] {
        assert!(Seal::parse(wrong.as_bytes()).is_none(), "{wrong}");
    }
}
