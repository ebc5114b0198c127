//! The files of keys.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use link::pki::Pki;

use super::vectors::recorded;
use crate::{Error, Identity, Settings};

fn settings(folder: &Path) -> Settings {
    Settings::new("m1", "127.0.0.1", folder.join("pki"))
}

fn put(path: &Path, text: &str, mode: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_key_is_made_once_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let first = Identity::load(&settings).unwrap();
    let mode = fs::metadata(first.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o400);
    let public = fs::read_to_string(first.path().with_extension("pub")).unwrap();
    assert_eq!(public.trim(), first.public_pem());
    let again = Identity::load(&settings).unwrap();
    assert_eq!(again.public_pem(), first.public_pem());
}

#[test]
fn a_key_of_salt_is_taken_over_in_both_forms() {
    // The same key as PKCS#8: the head, and the key of PKCS#1 inside.
    let folder = tempfile::tempdir().unwrap();
    let pem = folder.path().join("pki/minion.pem");
    put(&pem, &recorded("private"), 0o400);
    let plain = Identity::load(&settings(folder.path())).unwrap();
    assert_eq!(plain.public_pem(), recorded("public").trim());
    assert_eq!(plain.fingers("sha256").unwrap()[0], recorded("finger"));
    assert!(plain.fingers("crc").is_err());
    let folder = tempfile::tempdir().unwrap();
    let pem = folder.path().join("pki/minion.pem");
    put(&pem, &pkcs8(), 0o400);
    let wrapped = Identity::load(&settings(folder.path())).unwrap();
    assert_eq!(wrapped.public_pem(), plain.public_pem());
}

fn pkcs8() -> String {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    let (_, inner) = crate::der::from_pem(&recorded("private")).unwrap();
    let head = [
        0x02, 0x01, 0x00, 0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01,
        0x01, 0x05, 0x00, 0x04, 0x82,
    ];
    let length = |bytes: &[u8]| u16::try_from(bytes.len()).unwrap().to_be_bytes();
    let inside = [&head[..], &length(&inner), &inner].concat();
    let all = [&[0x30, 0x82][..], &length(&inside), &inside].concat();
    let text = STANDARD.encode(all);
    format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n")
}

#[test]
fn a_file_that_is_no_key_or_is_exposed_is_an_error_with_its_path() {
    for (text, mode, why) in [
        (recorded("private"), 0o444, "other users can read"),
        ("nothing".to_owned(), 0o400, "not an RSA key"),
        (recorded("public"), 0o400, "not an RSA key"),
        (
            recorded("private")[..800].to_owned(),
            0o400,
            "not an RSA key",
        ),
        (
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----"
                .to_owned(),
            0o400,
            "password",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let pem = folder.path().join("pki/minion.pem");
        put(&pem, &text, mode);
        let error = Identity::load(&settings(folder.path())).unwrap_err();
        assert!(
            matches!(error, Error::Key { .. } | Error::Pki(_)),
            "{error:?}"
        );
        let error = error.to_string();
        assert!(
            error.contains("minion.pem") && error.contains(why),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&pem).unwrap(), text);
    }
}

#[test]
fn a_key_of_pinch_keeps_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let pinch = Pki::open(&settings.pki_dir).unwrap().own("minion").unwrap();
    let identity = Identity::load(&settings).unwrap();
    assert!(pinch.path.ends_with("minion.pem"));
    assert!(identity.path().ends_with("minion.rsa.pem"));
    let again = Pki::open(&settings.pki_dir).unwrap().own("minion").unwrap();
    assert_eq!(again.pair.public(), pinch.pair.public());
    assert_eq!(
        Identity::load(&settings).unwrap().public_pem(),
        identity.public_pem()
    );
}

#[test]
fn keys_of_other_sizes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path());
    settings.keysize = 1024;
    let error = Identity::load(&settings).unwrap_err().to_string();
    assert!(error.contains("1024 bits"), "{error}");
}
