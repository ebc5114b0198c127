//! The `ssh` execution module. This part manages key files and contains the code that the other
//! parts share.

pub(crate) mod auth;
pub(crate) mod known;

use std::path::Path;

use machine::accounts;
use machine::fs;
use machine::hashes;
use machine::process;
use python::{base64, path, text};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Manage the client side of ssh.
    #[needs("ssh", "The module requires the ssh binary.", "openssh-client")]
    mod ssh;

    /// Return the host keys of this machine.
    ///
    ///     salt-call ssh.host_keys
    fn host_keys(HostKeys {
        /// The folder of the keys. The default is `/etc/ssh`.
        keydir: Option<String> = None,
        /// True to include private keys.
        private: bool = true,
        /// True to include certificates.
        certs: bool = true,
    });

    /// Return the SSH keys of users.
    ///
    ///     salt-call ssh.user_keys alice
    fn user_keys(UserKeys {
        /// A user or a list of users; all users if not given.
        user: Option<Vec<String>> = None,
        /// The name of the file with the public key, or False to return none.
        pubfile: Value = Value::Null,
        /// The name of the file with the private key, or False to return none.
        prvfile: Value = Value::Null,
    });

    /// Return whether a private key is encrypted.
    ///
    ///     salt-call ssh.key_is_encrypted /home/alice/.ssh/id_ed25519
    fn key_is_encrypted(KeyIsEncrypted {
        /// The path of the key file.
        key: String,
    });
}

/// Returns the fingerprint of a public key, or `None` if the text is not a key.
pub(super) fn fingerprint(key: &str, kind: Option<&str>) -> Result<Option<String>, Error> {
    let kind = kind.unwrap_or("sha256").to_lowercase();
    if hashes::length(&kind).is_none() {
        return Err(Error::refused(format!(
            "The fingerprint_hash_type {kind} is not supported."
        )));
    }
    let body = key.trim_end_matches('=');
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/');
    let is_strict =
        body.chars().all(plain) && key.len() - body.len() < 3 && key.len().is_multiple_of(4);
    let Some(raw) = base64::decode(key).ok().filter(|_| is_strict) else {
        return Ok(None);
    };
    let hash = hashes::of_bytes(&raw, &kind)?;
    let pairs: Vec<&str> = hash
        .as_bytes()
        .chunks(2)
        .filter_map(|pair| std::str::from_utf8(pair).ok())
        .collect();
    Ok(Some(pairs.join(":")))
}

/// Writes a file of ssh. A new file and a new folder are readable only by the user who owns them.
pub(super) fn write(
    cx: &Exec,
    path: &str,
    contents: &str,
    owner: Option<&str>,
) -> Result<(), Error> {
    let account = owner.and_then(accounts::user);
    let id = |id: Option<u32>| id.map_or(Value::Null, Value::from);
    let (uid, gid) = (
        account.as_ref().map(|user| user.uid),
        account.map(|user| user.gid),
    );
    let folder = path::dirname(path);
    if !path::isdir(folder) {
        let mode = owner.map(|_| "0700".to_owned());
        crate::exec::file::makedirs::all(cx, folder, &id(uid), &id(gid), mode)?;
        restore_context(cx, folder)?;
    }
    let is_new = !path::isfile(path);
    let owner = fs::Owner {
        mode: is_new.then_some(0o600),
        uid: uid.filter(|_| is_new),
        gid: gid.filter(|_| is_new),
    };
    fs::write(cx, Path::new(path), contents.as_bytes(), owner)?;
    if is_new {
        restore_context(cx, path)?;
    }
    Ok(())
}

/// Sets the SELinux label of a new file if the machine has SELinux.
fn restore_context(cx: &Exec, path: &str) -> Result<(), Error> {
    match process::which("restorecon") {
        Some(program) => process::Process::words([program.as_str(), path])
            .run(cx)
            .map(drop),
        None => Ok(()),
    }
}

/// Returns the trimmed lines of a file, without empty ones.
pub(super) fn lines(path: &str) -> Result<Vec<String>, Error> {
    let bytes = fs::read(path)?;
    let text = text::decoded(&bytes);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.map(str::to_owned).collect())
}

fn host_keys(_cx: &Exec, args: HostKeys) -> Result<Value, Error> {
    let keydir = args.keydir.filter(|keydir| !keydir.is_empty());
    let keydir = keydir.unwrap_or_else(|| "/etc/ssh".into());
    let names = fs::list(&keydir)?
        .into_iter()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    let mut keys = Map::new();
    for name in names {
        let Some((kind, rest)) = name
            .strip_prefix("ssh_host_")
            .and_then(|n| n.rsplit_once("_key"))
        else {
            continue;
        };
        let suffix = ["-cert.pub", ".pub"]
            .into_iter()
            .find(|suffix| rest.starts_with(suffix));
        let skipped =
            suffix.is_none() && !args.private || suffix == Some("-cert.pub") && !args.certs;
        if kind.is_empty() || skipped {
            continue;
        }
        let bytes = fs::read(Path::new(&keydir).join(&name))?;
        let key = text::decoded(&bytes);
        keys.insert(format!("{kind}{}", suffix.unwrap_or_default()), key.trim());
    }
    Ok(keys.into())
}

const PUBLIC: [&str; 4] = ["id_rsa.pub", "id_dsa.pub", "id_ecdsa.pub", "id_ed25519.pub"];
const PRIVATE: [&str; 4] = ["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"];

fn user_keys(_cx: &Exec, args: UserKeys) -> Result<Value, Error> {
    let mut wanted = Vec::new();
    for (given, usual) in [(&args.pubfile, PUBLIC), (&args.prvfile, PRIVATE)] {
        match given {
            Value::Bool(false) => {}
            given if given.is_true() => wanted.push(given.to_text()),
            _ => wanted.extend(usual.map(str::to_owned)),
        }
    }
    let all = || {
        accounts::users()
            .into_iter()
            .map(|user| user.name)
            .collect()
    };
    let mut keys = Map::new();
    for name in args
        .user
        .filter(|users| !users.is_empty())
        .unwrap_or_else(all)
    {
        let Some(user) = accounts::user(&name) else {
            continue;
        };
        let mut found = Map::new();
        for file in &wanted {
            let path = path::join(&format!("{}/.ssh", user.home), file);
            if let Some(bytes) = fs::read_or_none(path)? {
                found.insert(path::basename(file), text::decoded(&bytes).trim());
            }
        }
        if !found.is_empty() {
            keys.insert(name, found);
        }
    }
    Ok(keys.into())
}

fn key_is_encrypted(_cx: &Exec, args: KeyIsEncrypted) -> Result<Value, Error> {
    let bytes = fs::read(&args.key)?;
    let text = text::decoded(&bytes);
    let is_private = text.split("BEGIN ").skip(1).any(|rest| {
        let head = rest.split("PRIVATE KEY").next().unwrap_or_default();
        head.len() < rest.len()
            && head
                .chars()
                .all(|c| c.is_alphanumeric() || c.is_whitespace())
    });
    if !is_private {
        return Err(Error::refused(format!("{} is not a private key", args.key)));
    }
    Ok(text.contains("ENCRYPTED").into())
}
