//! Trees from git servers that ask for passwords and keys: `git http-backend` behind TLS, and OpenSSH.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use tests::program::{in_recorded_environment, pinch_program};
use tests::scratch::corpus;

/// The configurations that get the files.
const SERVED: [&str; 7] = [
    "http_with_insecure_auth",
    "https",
    "https_that_is_not_verified",
    "https_with_a_global_login",
    "https_with_the_password_in_the_url",
    "ssh",
    "ssh_with_a_passphrase",
];

/// The configurations that are refused, each with a part of the error.
const REFUSED: [(&str, &str); 8] = [
    ("a_repository_that_does_not_exist", "not found"),
    (
        "http_with_a_password",
        "a password would be sent without encryption",
    ),
    ("https_with_a_wrong_password", "Authentication failed"),
    (
        "https_with_an_unknown_certificate",
        "server certificate verification failed",
    ),
    ("https_without_a_password", "could not read Username"),
    ("ssh_with_a_wrong_passphrase", "Permission denied"),
    (
        "ssh_with_an_unknown_host_key",
        "No ED25519 host key is known for [localhost]:2223",
    ),
    ("ssh_without_the_passphrase", "Permission denied"),
];

/// Returns the contents of all files below a folder.
fn all_text(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => text.push_str(&all_text(&path)),
            false => text.push_str(&String::from_utf8_lossy(&fs::read(path).unwrap())),
        }
    }
    text
}

#[test]
fn repositories_are_read_from_servers_with_passwords_and_keys_and_no_secret_is_shown() {
    if !tests::skip::is_root() {
        return;
    }
    let machine = tempfile::tempdir().unwrap();
    let scripts = corpus().join("gitfs");
    let mut command = Command::new(corpus().join("throwaway.sh"));
    let output = in_recorded_environment(command.arg(machine.path()))
        .args([
            "unshare",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
        ])
        .arg(scripts.join("remotes.sh"))
        .arg(&scripts)
        .env("PINCH", pinch_program())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let read = |name: &str, ending: &str| {
        let path = machine.path().join(format!("{name}.{ending}"));
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let answer = |name: &str| {
        let parts = ["code", "out", "err"].map(|ending| read(name, ending));
        assert!(
            !read(name, "exec").contains("hush"),
            "{name}: a secret is in an argument"
        );
        let shown = parts.concat() + &all_text(&machine.path().join(name).join("var/log"));
        assert!(!shown.contains("hush"), "{name}: {shown}");
        parts
    };
    for name in SERVED {
        let [code, out, errors] = answer(name);
        let served = serde_json::from_str::<serde_json::Value>(&out).unwrap_or_default();
        let wanted = serde_json::json!({"local": ["web.sls"]});
        assert_eq!((code.trim(), served), ("0", wanted), "{name}: {errors}");
    }
    for (name, part) in REFUSED {
        let [code, out, errors] = answer(name);
        assert!(
            code.trim() == "1" && out.is_empty() && errors.contains(part),
            "{name}: {code}{out}{errors}"
        );
    }
    let [code, out, errors] = answer("away");
    assert!(
        code.trim() == "0" && out.contains("web.sls") && errors.contains("Using what was fetched"),
        "{code}{out}{errors}"
    );
}
