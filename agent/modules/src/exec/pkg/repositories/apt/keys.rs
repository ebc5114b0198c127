//! The keys of APT's repositories: added with `apt-key` where it is installed, else files in a
//! folder of keyrings.

use std::path::{Path, PathBuf};

use machine::fs;
use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::line::Line;
use crate::fileserver::fetch;

/// The folder of keyrings.
const FOLDER: &str = "/etc/apt/keyrings";

/// Returns the folder of key files.
pub(crate) fn folder(given: Option<&str>) -> PathBuf {
    given
        .filter(|given| !given.is_empty())
        .unwrap_or(FOLDER)
        .into()
}

fn run(cx: &Exec, words: &[&str], stdin: Option<&str>) -> Result<Output, Error> {
    let stdin = stdin.map(str::to_owned);
    let process = Process::words(words.iter().copied());
    Process { stdin, ..process }.run(cx)
}

/// Fetches the keys that the arguments of `pkg.mod_repo` name.
///
/// # Errors
/// When one is not available.
pub(super) fn provide(
    cx: &Exec,
    line: &Line,
    kwargs: &Map,
    saltenv: &str,
    apt_key: bool,
) -> Result<(), Error> {
    let text = |name: &str| kwargs.get(name).map(Value::to_text);
    if let Some(keyid) = kwargs.get("keyid") {
        let server = text("keyserver").filter(|server| !server.is_empty());
        let (true, Some(server)) = (keyid.is_true(), server) else {
            return Err("both keyserver and keyid options required.".into());
        };
        let ids = match keyid.as_list() {
            Some(list) => list.to_vec(),
            None => vec![keyid.clone()],
        };
        for id in ids {
            from_server(cx, line, &hexadecimal(&id), &server, apt_key)?;
        }
        Ok(())
    } else if let Some(url) = text("key_url") {
        from_url(cx, line, &url, saltenv, apt_key)
    } else if let Some(key) = text("key_text") {
        from_text(cx, line, &key, apt_key)
    } else {
        Ok(())
    }
}

/// Returns the key id as text. YAML reads `0x1234` as a number.
fn hexadecimal(id: &Value) -> String {
    match id {
        Value::Int(number) => format!("{number:#x}"),
        other => other.to_text(),
    }
}

/// Returns the file in a definition's `signed-by`.
fn keyring(line: &Line) -> Result<&Path, Error> {
    match line.signedby.starts_with('/') {
        true => Ok(Path::new(&line.signedby)),
        false => Err(
            "apt-key is not available, so the key needs a file: add [signed-by=/etc/apt/keyrings/NAME.gpg] to the definition"
                .into(),
        ),
    }
}

fn from_server(cx: &Exec, line: &Line, id: &str, server: &str, apt_key: bool) -> Result<(), Error> {
    if !apt_key {
        let keyring = keyring(line)?;
        let folder = keyring.parent().unwrap_or(keyring);
        let name = keyring.file_name().unwrap_or_default().to_string_lossy();
        let key = Key {
            keyserver: Some(server),
            keyid: Some(id),
            keyfile: Some(&name),
            ..Key::default()
        };
        return match add(cx, &key, false, folder)? {
            true => Ok(()),
            false => Err(Error::refused(format!("Error: Could not add key: {id}"))),
        };
    }
    let known = run(cx, &["apt-key", "export", id], None)?;
    if known.stdout_regardless().starts_with("-----BEGIN PGP") {
        return Ok(());
    }
    let proxy = proxy(cx, server).map(|proxy| format!("http-proxy={proxy}"));
    let mut words = vec!["apt-key", "adv", "--batch"];
    if let Some(proxy) = &proxy {
        words.extend(["--keyserver-options", proxy]);
    }
    words.extend(["--keyserver", server, "--logger-fd", "1", "--recv-keys", id]);
    let output = run(cx, &words, None)?;
    match output.success() {
        true => Ok(()),
        false => Err(Error::refused(format!(
            "Error: key retrieval failed: {}",
            output.stdout_regardless()
        ))),
    }
}

/// Returns the configured proxy for a key server.
pub(super) fn proxy(cx: &Exec, server: &str) -> Option<String> {
    let opts = cx.opts();
    let host = opts.text("proxy_host").filter(|host| !host.is_empty())?;
    let port = opts.int("proxy_port").filter(|port| *port > 0)?;
    if opts.texts("no_proxy").iter().any(|known| known == server) {
        return None;
    }
    let user = match (opts.text("proxy_username"), opts.text("proxy_password")) {
        (Some(name), Some(password)) => format!("{name}:{password}@"),
        _ => String::new(),
    };
    Some(format!("http://{user}{host}:{port}"))
}

fn from_url(cx: &Exec, line: &Line, url: &str, saltenv: &str, apt_key: bool) -> Result<(), Error> {
    if apt_key {
        let Some(file) = present(cx, url, saltenv)? else {
            return Err(Error::refused(format!("Error: file not found: {url}")));
        };
        let output = run(cx, &["apt-key", "add", &file], None)?;
        return match is_ok(&output) {
            true => Ok(()),
            false => Err(Error::refused(format!(
                "Error: failed to add key from {url}"
            ))),
        };
    }
    let (place, name) = match line.signedby.is_empty() {
        true => (folder(None), None),
        false => {
            let keyring = keyring(line)?;
            let folder = keyring.parent().unwrap_or(keyring).to_path_buf();
            let name = keyring.file_name().unwrap_or_default().to_string_lossy();
            (folder, Some(name))
        }
    };
    if present(cx, url, saltenv)?.is_none() {
        return Err(Error::refused(format!("Error: file not found: {url}")));
    }
    let key = Key {
        path: Some(url),
        keyfile: name.as_deref(),
        saltenv,
        ..Key::default()
    };
    match add(cx, &key, false, &place)? {
        true => Ok(()),
        false => Err(Error::refused(format!("Error: Could not add key: {url}"))),
    }
}

/// Returns the local path of a key that is named by a URL.
fn present(cx: &Exec, url: &str, saltenv: &str) -> Result<Option<String>, Error> {
    let file = fetch::cached(cx, url, saltenv, fetch::How::default())?;
    Ok(file.filter(|file| Path::new(file).is_file()))
}

fn from_text(cx: &Exec, line: &Line, key: &str, apt_key: bool) -> Result<(), Error> {
    if !apt_key {
        let keyring = keyring(line)?;
        let folder = keyring.parent().unwrap_or(keyring);
        make_folder(cx, folder)?;
        return put(cx, key.as_bytes(), keyring);
    }
    let output = run(cx, &["apt-key", "add", "-"], Some(key))?;
    match is_ok(&output) {
        true => Ok(()),
        false => Err(Error::refused(format!("Error: failed to add key:\n{key}"))),
    }
}

fn is_ok(output: &Output) -> bool {
    output.stdout_regardless().to_uppercase().starts_with("OK")
}

/// A key, with the arguments of `pkg.add_repo_key`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Key<'a> {
    /// The URL or path.
    pub(crate) path: Option<&'a str>,
    /// The key itself.
    pub(crate) text: Option<&'a str>,
    /// The key server.
    pub(crate) keyserver: Option<&'a str>,
    /// The key id.
    pub(crate) keyid: Option<&'a str>,
    /// The environment of `path`.
    pub(crate) saltenv: &'a str,
    /// The name of the key's file.
    pub(crate) keyfile: Option<&'a str>,
}

/// Adds a key. Returns false, and logs the reason, when the key is not available.
///
/// # Errors
/// When the arguments do not identify a key, or the system refuses.
pub(crate) fn add(cx: &Exec, key: &Key<'_>, apt_key: bool, folder: &Path) -> Result<bool, Error> {
    if !apt_key {
        make_folder(cx, folder)?;
    }
    if let Some(id) = key.keyid {
        let known = list(cx, apt_key, folder)?;
        if known.keys().any(|known| known.to_text().ends_with(id)) {
            return Ok(true);
        }
    }
    match (key.path, key.text) {
        (Some(path), _) => {
            let Some(file) = present(cx, path, key.saltenv)? else {
                log::error(format_args!("Unable to get cached copy of file: {path}"));
                return Ok(false);
            };
            match apt_key {
                true => Ok(succeeded(&run(cx, &["apt-key", "add", &file], None)?)),
                false => add_file(cx, &file, key.keyfile, folder),
            }
        }
        (None, Some(text)) if apt_key => {
            Ok(succeeded(&run(cx, &["apt-key", "add", "-"], Some(text))?))
        }
        (None, Some(text)) => match key.keyfile {
            Some(name) => put(cx, text.as_bytes(), &folder.join(name)).map(|()| true),
            None => Ok(unnamed()),
        },
        (None, None) => receive(cx, key, apt_key, folder),
    }
}

/// Fetches a key from its server.
fn receive(cx: &Exec, key: &Key<'_>, apt_key: bool, folder: &Path) -> Result<bool, Error> {
    let (server, id) = match (key.keyserver, key.keyid) {
        (Some(server), Some(id)) => (server, id),
        (Some(server), None) => {
            return Err(Error::refused(format!(
                "No keyid or keyid too short for keyserver: {server}"
            )));
        }
        (None, Some(id)) => {
            return Err(Error::refused(format!(
                "No keyserver specified for keyid: {id}"
            )));
        }
        (None, None) => return Err("add_repo_key() takes at least 1 argument (0 given)".into()),
    };
    if apt_key {
        let words = [
            "apt-key",
            "adv",
            "--batch",
            "--keyserver",
            server,
            "--recv",
            id,
        ];
        return Ok(succeeded(&run(cx, &words, None)?));
    }
    let Some(name) = key.keyfile else {
        return Ok(unnamed());
    };
    let ring = folder.join(name);
    let path = ring.to_string_lossy();
    let words = [
        "gpg",
        "--no-default-keyring",
        "--keyring",
        &path,
        "--keyserver",
        server,
        "--recv-keys",
        id,
    ];
    let received = succeeded(&run(cx, &words, None)?);
    if received && ring.exists() {
        fs::chmod(cx, &ring, 0o644, true).map_err(Error::io(&ring))?;
    }
    Ok(received)
}

fn succeeded(output: &Output) -> bool {
    if !output.success() {
        log::error(format_args!("Unable to add repo key: {}", output.stderr));
    }
    output.success()
}

fn unnamed() -> bool {
    log::error(format_args!(
        "You must define the name of the key file to save the key. See keyfile argument"
    ));
    false
}

fn make_folder(cx: &Exec, folder: &Path) -> Result<(), Error> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        make_folder(cx, parent)?;
    }
    fs::mkdir(cx, folder).map_err(Error::io(folder))?;
    fs::chmod(cx, folder, 0o755, true).map_err(Error::io(folder))
}

/// Copies a key into the folder, in binary form unless its name ends in `.asc`.
fn add_file(cx: &Exec, file: &str, name: Option<&str>, folder: &Path) -> Result<bool, Error> {
    let own = Path::new(file).file_name().unwrap_or_default();
    let place = folder.join(name.unwrap_or(&own.to_string_lossy()));
    let key = fs::read(file)?;
    put(cx, &key, &place)?;
    Ok(true)
}

/// Writes a key so that all users can read it. gpg converts text to binary form unless the name
/// ends in `.asc`.
fn put(cx: &Exec, key: &[u8], place: &Path) -> Result<(), Error> {
    let owner = fs::Owner {
        mode: Some(0o644),
        ..fs::Owner::default()
    };
    let armored = std::str::from_utf8(key)
        .is_ok_and(|text| text.trim_start_matches('-').starts_with("BEGIN PGP"));
    if !armored || place.extension().is_some_and(|end| end == "asc") {
        return fs::write(cx, place, key, owner);
    }
    let text = String::from_utf8_lossy(key);
    let path = place.to_string_lossy();
    let words = ["gpg", "--yes", "--output", &path, "--dearmor"];
    let output = run(cx, &words, Some(&text))?;
    match output.success() {
        true => fs::chmod(cx, place, 0o644, true).map_err(Error::io(place)),
        false => Err(Error::refused(format!(
            "gpg could not read the key for {path}: {}",
            output.stderr
        ))),
    }
}

/// Returns the known keys by key id.
///
/// # Errors
/// When `apt-key` or gpg is missing.
pub(crate) fn list(cx: &Exec, apt_key: bool, folder: &Path) -> Result<Map, Error> {
    if apt_key {
        let words = [
            "apt-key",
            "adv",
            "--batch",
            "--list-public-keys",
            "--with-fingerprint",
            "--with-fingerprint",
            "--with-colons",
            "--fixed-list-mode",
        ];
        return Ok(listed(run(cx, &words, None)?.stdout_regardless()));
    }
    let mut all = Map::new();
    for file in files(folder)? {
        all.update(listed(&ring_text(cx, &file)?));
    }
    Ok(all)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::list_or_none(folder)?.unwrap_or_default();
    let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    value::sorted::sort(&mut files);
    Ok(files)
}

fn ring_text(cx: &Exec, file: &Path) -> Result<String, Error> {
    let file = file.to_string_lossy();
    let words = [
        "gpg",
        "--no-default-keyring",
        "--keyring",
        &file,
        "--list-keys",
        "--with-colons",
    ];
    Ok(run(cx, &words, None)?.into_stdout_regardless())
}

/// Removes a key by its id. Returns false, and logs the reason, when no file contains it.
///
/// # Errors
/// When the system refuses.
pub(crate) fn remove(cx: &Exec, id: &str, apt_key: bool, folder: &Path) -> Result<bool, Error> {
    if apt_key {
        let output = run(cx, &["apt-key", "del", id], None)?;
        return match output.success() {
            true => Ok(true),
            false => Err(Error::refused(format!(
                "Failed to remove keyid {id}: {}",
                output.stderr
            ))),
        };
    }
    if !matches!(id.len(), 8 | 16) {
        log::error(format_args!(
            "The keyid needs to be either 8 or 16 characters"
        ));
        return Ok(false);
    }
    for file in files(folder)? {
        let keys = listed(&ring_text(cx, &file)?);
        if keys.keys().any(|known| known.to_text().ends_with(id)) {
            fs::remove(cx, &file).map_err(Error::io(&file))?;
            return Ok(true);
        }
    }
    log::error(format_args!("Could not find the key file for keyid: {id}"));
    Ok(false)
}

/// Reads gpg's output with colons: keys with fingerprint, owner, and the last subkey.
fn listed(text: &str) -> Map {
    let mut keys: Vec<Map> = Vec::new();
    for line in text.lines() {
        let items: Vec<&str> = line.split(':').map(str::trim).collect();
        let item = |place: usize| items.get(place).copied().unwrap_or_default();
        let number = |place: usize| match item(place) {
            "" => Value::Null,
            text => text.parse().map_or_else(|_| text.into(), Value::Int),
        };
        match item(0) {
            "pub" | "sub" => {
                let key = Map::new()
                    .with("algorithm", number(3))
                    .with("bits", number(2))
                    .with("capability", number(11))
                    .with("date_creation", number(5))
                    .with("date_expiration", number(6))
                    .with("keyid", item(4))
                    .with("validity", number(1));
                match (item(0), keys.last_mut()) {
                    ("sub", Some(last)) => {
                        last.insert("subkey", key);
                    }
                    _ => keys.push(key),
                }
            }
            kind @ ("fpr" | "uid") => {
                let Some(last) = keys.last_mut() else {
                    continue;
                };
                if kind == "uid" {
                    last.insert("uid", number(9));
                    last.insert("uid_hash", number(7));
                } else if let Some(sub) = last.get_mut("subkey").and_then(Value::as_map_mut) {
                    sub.insert("fingerprint", number(9));
                } else {
                    last.insert("fingerprint", number(9));
                }
            }
            _ => {}
        }
    }
    let by_id = |key: Map| {
        let id = key.get("keyid").cloned().unwrap_or_default();
        (id, Value::from(key))
    };
    keys.into_iter().map(by_id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_colons_of_gpg_are_read() {
        let text = "tru::1\npub:-:4096:1:AAAABBBBCCCCDDDD:1600000000:::-:::scESC:\nfpr:::::::::EEEE:\nuid:-::::16::HASH::Some One <a@b>:\nsub:-:2048:1:1111222233334444:16::::::e:\nfpr:::::::::FFFF:\n";
        let keys = listed(text);
        let key = keys.get("AAAABBBBCCCCDDDD").unwrap();
        assert_eq!(key.get("fingerprint"), Some(&"EEEE".into()));
        assert_eq!(key.get("uid"), Some(&"Some One <a@b>".into()));
        assert_eq!(
            key.traverse("subkey:fingerprint", ":"),
            Some(&"FFFF".into())
        );
        assert_eq!(key.traverse("subkey:bits", ":"), Some(&2048.into()));
    }
}
