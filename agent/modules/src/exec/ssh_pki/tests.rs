use tempfile::TempDir;
use value::{Map, Value};

use super::certificate::Certificate;
use super::private::Private;
use crate::testing::{exec, exec_with, json};

/// Returns an authority with the policies `hosts`, which has its key, `keyless`, which has none, and
/// `class`, whose minions are a list.
fn authority(folder: &TempDir) -> (state::exec::Exec, String) {
    let key = Private::generate(&exec(), "ed25519", None).unwrap();
    let path = folder.path().join("ca");
    std::fs::write(&path, key.text(&exec(), None).unwrap()).unwrap();
    let policies = Map::new()
        .with(
            "hosts",
            json("{\"minions\": \"web*\", \"cert_type\": \"host\", \"valid_principals\": [\"web1\"], \"ttl\": \"1d\"}")
                .with("signing_private_key", path.display().to_string()),
        )
        .with("keyless", json("{\"cert_type\": \"host\", \"valid_principals\": [\"web1\"]}"));
    let policies = policies.with(
        "class",
        json("{\"minions\": [\"w\"], \"cert_type\": \"host\"}"),
    );
    let opts = Map::new().with("ssh_signing_policies", policies);
    (exec_with(opts, Map::new()), path.display().to_string())
}

/// Returns the answer of an authority to a minion: the data, or the errors.
fn signed(cx: &state::exec::Exec, policy: &str, kwargs: Map, id: &str) -> Result<Value, String> {
    let answer = cx
        .call(
            "ssh_pki.sign_remote_certificate",
            vec![policy.into(), kwargs.into()],
            Map::new().with("__pub_id", id),
        )
        .unwrap();
    let errors = answer.get("errors").map(Value::texts).unwrap_or_default();
    match errors.is_empty() {
        true => Ok(answer.get("data").cloned().unwrap()),
        false => Err(errors.join("\n")),
    }
}

#[test]
fn a_private_key_is_read_as_it_was_written() {
    let cx = exec();
    for (algo, size) in [("rsa", Some(2048)), ("ec", Some(521)), ("ed25519", None)] {
        let key = Private::generate(&cx, algo, size).unwrap();
        let text = Value::from(key.text(&cx, None).unwrap());
        let read = Private::load(&cx, &text, None).unwrap();
        assert_eq!(read.public, key.public, "{algo}");
        assert_eq!(read.public.size(), size);
        assert!(Private::load(&cx, &text, Some("pass")).is_err(), "{algo}");
        let signature = read.sign(&cx, b"text").unwrap();
        assert!(!signature.is_empty(), "{algo}");
    }
}

/// Attacks A10 and A17: a minion that requests a certificate names files and keys of the authority.
#[test]
fn a_requesting_minion_chooses_neither_the_signing_key_nor_paths_of_the_authority() {
    let folder = tempfile::tempdir().unwrap();
    let (cx, ca) = authority(&folder);
    let own = Private::generate(&cx, "ed25519", None).unwrap();
    let line = own.public.line();
    let asked = || Map::new().with("public_key", line.as_str());
    let answer = signed(
        &cx,
        "hosts",
        asked().with("copypath", folder.path().display().to_string()),
        "web1",
    );
    let certificate = Certificate::load(&cx, &answer.unwrap()).unwrap();
    assert_eq!(certificate.key, own.public);
    assert_eq!(certificate.contents.principals, [b"web1"]);
    let files = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(files, 1, "the requester chose a folder for a copy");
    // The policy decides, whatever the minion asks for.
    let more = asked()
        .with("valid_principals", Value::list(["root".into()]))
        .with("cert_type", "user")
        .with("ttl", "999d");
    let answer = signed(&cx, "hosts", more, "web1").unwrap();
    let contents = Certificate::load(&cx, &answer).unwrap().contents;
    assert_eq!(contents.principals, [b"web1"]);
    assert_eq!(contents.cert_type.name(), "host");
    assert!(contents.valid_before - contents.valid_after <= 86_400);
    // A key of the authority is not used because a minion names it.
    let named = asked().with("signing_private_key", ca.as_str());
    let refused = signed(&cx, "keyless", named, "web1").unwrap_err();
    assert!(
        refused.contains("Could not load provided source"),
        "{refused}"
    );
    // Paths of the authority are not read.
    for name in ["private_key", "public_key"] {
        let named = Map::new().with(name, ca.as_str());
        assert!(signed(&cx, "hosts", named, "web1").is_err(), "{name}");
    }
    let other = signed(&cx, "hosts", asked(), "db1").unwrap_err();
    assert_eq!(
        other,
        "minion not permitted to use specified signing policy"
    );
    // A list is not a glob with the class of its characters.
    let class = signed(&cx, "class", asked(), "w").unwrap_err();
    assert!(class.contains("is not a text"), "{class}");
    // Options that cannot be read are not left out, because critical ones restrict the certificate.
    let listed = asked().with("critical_options", Value::list(["force-command".into()]));
    let refused = signed(&cx, "hosts", listed, "web1").unwrap_err();
    assert!(
        refused.contains("must be a dictionary of options"),
        "{refused}"
    );
    let unknown = signed(&cx, "nothing", asked(), "web1").unwrap_err();
    assert!(unknown.contains("must be specified"), "{unknown}");
}

#[test]
fn a_changed_certificate_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (cx, _) = authority(&folder);
    let key = Private::generate(&cx, "ec", None).unwrap();
    let asked = Map::new().with("public_key", key.public.line());
    let line = signed(&cx, "hosts", asked, "web1").unwrap().to_text();
    let (word, body) = line.split_once(' ').unwrap();
    let mut body = python::base64::decode(body).unwrap();
    // A byte of the nonce.
    body[60] ^= 1;
    let line = format!("{word} {}", python::base64::encode(&body));
    let error = Certificate::load(&cx, &line.into()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "The signature on the SSH certificate was invalid"
    );
    for length in [0, 4, 40, body.len() - 1] {
        let line = format!("{word} {}", python::base64::encode(&body[..length]));
        assert!(Certificate::load(&cx, &line.into()).is_err(), "{length}");
    }
}
