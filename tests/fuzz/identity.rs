//! The evidence of a key that is not known yet: no bytes crash the readers of clouds' documents,
//! and none of them proves anything.
#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use identity::azure::{self, Authorities};
use identity::{Error, Key, When, aws, gcp, keys};
use libfuzzer_sys::fuzz_target;
use value::Map;

const WHEN: When = When {
    now_s: 1_795_341_600,
    max_age_s: Some(600),
};

/// Returns a key whose private half no one has.
fn trusted() -> Vec<Key> {
    let number = URL_SAFE_NO_PAD.encode([0xff; 256]);
    keys(&format!(
        r#"{{"keys":[{{"kty":"RSA","n":"{number}","e":"AQAB"}}]}}"#
    ))
    .unwrap()
}

/// Uses the input as the content of a signed message, as the message and as a signature.
fn of_aws(bytes: &[u8], trusted: &[Key]) {
    let encoded = STANDARD.encode(bytes);
    let text = String::from_utf8_lossy(bytes);
    for shown in [
        Map::new().with("rsa2048", encoded.as_str()),
        Map::new().with("rsa2048", text.as_ref()),
        Map::new()
            .with("document", text.as_ref())
            .with("signature", encoded.as_str())
            .with("rsa2048", encoded.as_str()),
    ] {
        assert!(aws::check(&shown, trusted, WHEN).is_err());
    }
}

fn of_gcp(bytes: &[u8], trusted: &[Key]) {
    let text = String::from_utf8_lossy(bytes);
    assert!(gcp::check(&text, trusted, "salt-master/0", WHEN).is_err());
    let head = URL_SAFE_NO_PAD.encode(r#"{"alg":"RS256"}"#);
    let claims = URL_SAFE_NO_PAD.encode(bytes);
    let token = format!("{head}.{claims}.{claims}");
    let checked = gcp::check(&token, trusted, "salt-master/0", WHEN);
    assert_eq!(checked, Err(Error::Forged));
}

/// Checks that Azure's documents are refused when no authority is trusted.
fn of_azure(bytes: &[u8]) {
    let encoded = STANDARD.encode(bytes);
    let trusted = Authorities::default();
    assert!(azure::check(&encoded, &trusted, azure::HOST, "0123456789", WHEN).is_err());
}

/// Key files come from administrators, or from third parties.
fn files(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = keys(&text);
    let _ = Authorities::read(&text);
    for kind in ["CERTIFICATE", "PUBLIC KEY"] {
        let body = STANDARD.encode(bytes);
        let pem = format!("-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n");
        let _ = keys(&pem);
        let _ = Authorities::read(&pem);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let trusted = trusted();
    of_aws(bytes, &trusted);
    of_gcp(bytes, &trusted);
    of_azure(bytes);
    files(bytes);
});
