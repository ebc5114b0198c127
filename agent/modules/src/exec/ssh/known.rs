//! The part of the `ssh` execution module that manages known hosts.

use std::path::Path;

use machine::accounts;
use machine::accounts::tools::find;
use machine::fs;
use machine::process::{Process, Stderr};
use python::path;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{fingerprint, write};

state::exec_module! {
    /// Manage known hosts.
    mod ssh;

    /// Return the entries of a host in the known hosts.
    ///
    ///     salt-call ssh.get_known_host_entries alice git.example.com
    fn get_known_host_entries(GetKnownHostEntries {
        /// The user whose file is used; the file of the machine if not given.
        user: Option<String>,
        /// The host.
        hostname: String,
        /// The path of the file, relative to the home directory if it is not absolute.
        config: Option<String> = None,
        /// The port.
        port: Option<i64> = None,
        /// The hash algorithm of the fingerprints.
        fingerprint_hash_type: Option<String> = None,
    });

    /// Return the keys that a host presents.
    ///
    ///     salt-call ssh.recv_known_host_entries git.example.com
    fn recv_known_host_entries(RecvKnownHostEntries {
        /// The host.
        hostname: String,
        /// The type of the key.
        enc: Option<String> = None,
        /// The port.
        port: Option<i64> = None,
        /// True to hash the names of hosts.
        hash_known_hosts: bool = true,
        /// The maximum time to wait, in seconds.
        timeout: i64 = 5,
        /// The hash algorithm of the fingerprints.
        fingerprint_hash_type: Option<String> = None,
    });

    /// Return the change that setting a known host would make: add, update or exists.
    ///
    ///     salt-call ssh.check_known_host alice git.example.com
    fn check_known_host(CheckKnownHost {
        /// The user whose file is used; the file of the machine if not given.
        user: Option<String> = None,
        /// The host.
        hostname: Option<String> = None,
        /// The key of the host.
        key: Option<String> = None,
        /// The fingerprint of the host's key.
        fingerprint: Option<String> = None,
        /// The path of the file, relative to the home directory if it is not absolute.
        config: Option<String> = None,
        /// The port.
        port: Option<i64> = None,
        /// The hash algorithm of the fingerprints.
        fingerprint_hash_type: Option<String> = None,
    });

    /// Remove a known host.
    ///
    ///     salt-call ssh.rm_known_host alice git.example.com
    fn rm_known_host(RmKnownHost {
        /// The user whose file is used; the file of the machine if not given.
        user: Option<String> = None,
        /// The host.
        hostname: Option<String> = None,
        /// The path of the file, relative to the home directory if it is not absolute.
        config: Option<String> = None,
        /// The port.
        port: Option<i64> = None,
    });

    /// Add a known host, or change its key.
    ///
    ///     salt-call ssh.set_known_host alice git.example.com
    fn set_known_host(SetKnownHost {
        /// The user whose file is used; the file of the machine if not given.
        user: Option<String> = None,
        /// The host.
        hostname: Option<String> = None,
        /// The fingerprint that the key of the host must have.
        fingerprint: Option<String> = None,
        /// The key of the host; the key that the host presents if not given.
        key: Option<String> = None,
        /// The port.
        port: Option<i64> = None,
        /// The type of the key.
        enc: Option<String> = None,
        /// The path of the file, relative to the home directory if it is not absolute.
        config: Option<String> = None,
        /// True to hash the names of hosts.
        hash_known_hosts: bool = true,
        /// The maximum time to wait, in seconds.
        timeout: i64 = 5,
        /// The hash algorithm of the fingerprints.
        fingerprint_hash_type: Option<String> = None,
    });

    /// Hash the names of hosts in a file.
    ///
    ///     salt-call ssh.hash_known_hosts alice
    fn hash_known_hosts(HashKnownHosts {
        /// The user whose file is used; the file of the machine if not given.
        user: Option<String> = None,
        /// The path of the file, relative to the home directory if it is not absolute.
        config: Option<String> = None,
    });
}

const USUAL_PORT: i64 = 22;

/// The known hosts file of a user or of the machine.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    user: Option<String>,
    file: String,
}

/// A result whose error is a message that Salt returns in a dictionary.
pub(crate) type OrMessage<T> = Result<T, String>;

impl Place {
    /// Returns the file that the arguments describe.
    pub(crate) fn resolve(user: Option<&str>, config: Option<&str>) -> OrMessage<Self> {
        let user = user.filter(|user| !user.is_empty());
        let config = config.filter(|config| !config.is_empty());
        let usual = user.map_or("/etc/ssh/ssh_known_hosts", |_| ".ssh/known_hosts");
        let config = config.unwrap_or(usual);
        let file = if path::isabs(config) {
            config.to_owned()
        } else {
            let name = user.ok_or("Cannot determine absolute path to file.")?;
            let account =
                accounts::user(name).ok_or_else(|| format!("User {name} does not exist"))?;
            path::join(&account.home, config)
        };
        let user = user.map(str::to_owned);
        Ok(Self { user, file })
    }

    /// Returns the entries of a host.
    pub(crate) fn entries(
        &self,
        cx: &Exec,
        host: &str,
        port: Option<i64>,
        kind: Option<&str>,
    ) -> Result<Vec<Map>, Error> {
        entries(
            &keygen(cx, &["-F", &named(host, port), "-f", &self.file])?,
            kind,
        )
    }

    /// Runs `ssh-keygen` on the file. The program replaces the file, so its mode and owner are
    /// restored.
    fn rewrite(&self, cx: &Exec, words: &[&str], mode: bool) -> Result<String, Error> {
        use std::os::unix::fs::MetadataExt as _;
        let before = Path::new(&self.file).metadata().ok();
        let said = keygen(cx, words)?;
        let path = Path::new(&self.file);
        if let Some(before) = before.filter(|_| mode) {
            fs::chmod(cx, path, before.mode() & 0o7777, true).map_err(Error::io(path))?;
        }
        self.give_back(cx)?;
        Ok(said)
    }

    fn give_back(&self, cx: &Exec) -> Result<(), Error> {
        let account = self.user.as_deref().and_then(accounts::user);
        let path = Path::new(&self.file);
        match account.filter(|_| rustix::process::geteuid().is_root()) {
            Some(user) => {
                fs::chown(cx, path, Some(user.uid), Some(user.gid), true).map_err(Error::io(path))
            }
            None => Ok(()),
        }
    }

    /// Removes a host and returns the output of the program.
    pub(crate) fn remove(
        &self,
        cx: &Exec,
        host: &str,
        port: Option<i64>,
    ) -> Result<OrMessage<String>, Error> {
        if !path::isfile(&self.file) {
            return Ok(Err(format!(
                "Known hosts file {} does not exist",
                self.file
            )));
        }
        let said = self.rewrite(cx, &["-R", &named(host, port), "-f", &self.file], false)?;
        Ok(Ok(said))
    }

    fn hash(&self, cx: &Exec) -> Result<OrMessage<String>, Error> {
        if !path::isfile(&self.file) {
            return Ok(Err(format!(
                "Known hosts file {} does not exist",
                self.file
            )));
        }
        Ok(Ok(self.rewrite(cx, &["-H", "-f", &self.file], true)?))
    }

    /// Replaces the entries of a host with new ones.
    fn replace(
        &self,
        cx: &Exec,
        wanted: &SetKnownHost,
        host: &str,
        new: &[Map],
    ) -> Result<(), Error> {
        let mut lines = Vec::new();
        if path::isfile(&self.file) {
            let old = keygen(cx, &["-F", &named(host, wanted.port), "-f", &self.file])?;
            let gone = line_numbers(&old, wanted.enc.as_deref());
            let bytes = fs::read(&self.file)?;
            let text = python::text::decoded(&bytes);
            let kept = text
                .lines()
                .enumerate()
                .filter(|(at, _)| !gone.contains(&(at + 1)));
            lines = kept.map(|(_, line)| line.to_owned()).collect();
        }
        for entry in new {
            let text = |key| entry.get(key).map_or_else(String::new, Value::to_text);
            let name = text("hostname");
            let plain =
                wanted.hash_known_hosts || wanted.port.is_none_or(|port| port == USUAL_PORT);
            let name = match wanted.port {
                Some(port) if !plain && !name.contains(':') => format!("[{name}]:{port}"),
                _ => name,
            };
            lines.push(format!("{name} {} {}", text("enc"), text("key")));
        }
        write(
            cx,
            &self.file,
            &(lines.join("\n") + "\n"),
            self.user.as_deref(),
        )?;
        self.give_back(cx)
    }
}

/// Returns the host in ssh's notation, which includes any port other than the default.
fn named(host: &str, port: Option<i64>) -> String {
    match port.filter(|port| ![0, USUAL_PORT].contains(port)) {
        Some(port) => format!("[{host}]:{port}"),
        None => host.to_owned(),
    }
}

fn keygen(cx: &Exec, words: &[&str]) -> Result<String, Error> {
    let program = find("ssh-keygen")?;
    let words = std::iter::once(program.as_str()).chain(words.iter().copied());
    let process = Process {
        ignore_retcode: true,
        stderr: Stderr::Merged,
        ..Process::words(words)
    };
    Ok(process.run(cx)?.into_stdout_regardless())
}

/// Parses lines of the form `host type key`.
fn entries(text: &str, kind: Option<&str>) -> Result<Vec<Map>, Error> {
    let mut found = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [host, enc, key] = words.as_slice() else {
            continue;
        };
        if let Some(fingerprint) = fingerprint(key, kind)? {
            let entry = Map::new().with("hostname", *host).with("key", *key);
            found.push(entry.with("enc", *enc).with("fingerprint", fingerprint));
        }
    }
    Ok(found)
}

/// Returns the line numbers of a host's entries, from the output of `ssh-keygen -F`, which prints
/// each number in a line before the entry.
fn line_numbers(text: &str, enc: Option<&str>) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks(2).filter_map(|pair| {
        let [about, entry] = pair else {
            return None;
        };
        let number: usize = about.split_whitespace().next_back()?.parse().ok()?;
        let found = entry.split_whitespace().rev().nth(1);
        (enc.is_none() || enc == found).then_some(number)
    });
    pairs.collect()
}

/// Requests the keys of a host, with at most five attempts.
fn received(cx: &Exec, wanted: &RecvKnownHostEntries) -> Result<Vec<Map>, Error> {
    if wanted.hostname.starts_with('-') {
        return Err(Error::refused(format!(
            "invalid host name {}",
            wanted.hostname
        )));
    }
    let mut words = vec![find("ssh-keyscan")?];
    if let Some(port) = wanted.port.filter(|port| *port != 0) {
        words.extend(["-p".to_owned(), port.to_string()]);
    }
    if let Some(enc) = &wanted.enc {
        words.extend(["-t".to_owned(), enc.clone()]);
    }
    if wanted.hash_known_hosts {
        words.push("-H".to_owned());
    }
    words.extend([
        "-T".to_owned(),
        wanted.timeout.to_string(),
        wanted.hostname.clone(),
    ]);
    let process = Process {
        stderr: Stderr::Merged,
        ..Process::words(words)
    };
    let mut text = String::new();
    for _ in 0..5 {
        text = process.run(cx)?.into_stdout_regardless();
        if !text.is_empty() {
            break;
        }
    }
    entries(&text, wanted.fingerprint_hash_type.as_deref())
}

fn field(entries: &[Map], key: &str) -> Vec<String> {
    let values = entries.iter().filter_map(|entry| entry.get(key));
    values.map(Value::to_text).collect()
}

/// The result of setting a known host.
#[derive(Clone, Debug)]
pub(crate) enum Done {
    /// The host already had these keys.
    Exists(Vec<String>),
    /// The entries of the host were changed. Contains the old and the new entries.
    Updated(Vec<Map>, Vec<Map>),
}

/// Returns the entries as Salt does: Null instead of an empty list.
pub(crate) fn listed(entries: Vec<Map>) -> Value {
    if entries.is_empty() {
        return Value::Null;
    }
    Value::list(entries.into_iter().map(Value::from))
}

/// Adds a known host, or changes its key.
pub(crate) fn set(cx: &Exec, wanted: &SetKnownHost) -> Result<OrMessage<Done>, Error> {
    let Some(host) = wanted.hostname.as_deref().filter(|host| !host.is_empty()) else {
        return Ok(Err("hostname argument required".into()));
    };
    if wanted.port.is_some_and(|port| port != USUAL_PORT) && wanted.hash_known_hosts {
        return Ok(Err(
            "argument port can not be used in conjunction with argument hash_known_hosts".into(),
        ));
    }
    let place = match Place::resolve(wanted.user.as_deref(), wanted.config.as_deref()) {
        Ok(place) => place,
        Err(said) => return Ok(Err(said)),
    };
    let kind = wanted.fingerprint_hash_type.as_deref();
    let stored = place.entries(cx, host, wanted.port, kind)?;
    let of_enc = stored.iter().filter(|entry| {
        let enc = entry.get("enc").and_then(Value::as_str);
        wanted.enc.is_none() || enc == wanted.enc.as_deref()
    });
    let of_enc: Vec<Map> = of_enc.cloned().collect();
    let keys = field(&of_enc, "key");
    let has =
        |list: &[String], wanted: &Option<String>| wanted.as_ref().is_none_or(|w| list.contains(w));
    let is_so = has(&field(&stored, "fingerprint"), &wanted.fingerprint) && has(&keys, &wanted.key);
    let is_named = wanted.key.is_some() || wanted.fingerprint.is_some();
    if !stored.is_empty() && is_so && is_named {
        return Ok(Ok(Done::Exists(keys)));
    }
    let mut new = match shown_by(cx, wanted, host)? {
        Ok(new) => new,
        Err(said) => return Ok(Err(said)),
    };
    let mut received = field(&new, "key");
    let mut known = keys.clone();
    received.sort();
    known.sort();
    if !stored.is_empty() && !is_named && received == known {
        return Ok(Ok(Done::Exists(keys)));
    }
    place.replace(cx, wanted, host, &new)?;
    if let Some(port) = wanted.port.filter(|port| *port != USUAL_PORT) {
        new = new
            .into_iter()
            .map(|entry| entry.with("port", port))
            .collect();
    }
    if wanted.key.is_some() && wanted.hash_known_hosts {
        place.hash(cx)?.ok();
    }
    Ok(Ok(Done::Updated(stored, new)))
}

/// Returns the entries to write: the key from the arguments, or the keys that the host presents.
fn shown_by(cx: &Exec, wanted: &SetKnownHost, host: &str) -> Result<OrMessage<Vec<Map>>, Error> {
    if let Some(key) = &wanted.key {
        let Some(enc) = &wanted.enc else {
            return Ok(Err(
                "Required argument \"enc\" if using \"key\" argument.".into()
            ));
        };
        let entry = Map::new()
            .with("hostname", host)
            .with("enc", enc.as_str())
            .with("key", key.as_str());
        return Ok(Ok(vec![entry]));
    }
    let entries = received(
        cx,
        &RecvKnownHostEntries {
            hostname: host.to_owned(),
            enc: wanted.enc.clone(),
            port: wanted.port,
            hash_known_hosts: wanted.hash_known_hosts,
            timeout: wanted.timeout,
            fingerprint_hash_type: wanted.fingerprint_hash_type.clone(),
        },
    )?;
    if entries.is_empty() {
        return Ok(Err("Unable to receive remote host keys".into()));
    }
    let fingerprints = field(&entries, "fingerprint");
    if wanted
        .fingerprint
        .as_ref()
        .is_some_and(|one| !fingerprints.contains(one))
    {
        return Ok(Err(
            "Remote host public keys found but none of their fingerprints match the one you have provided".into(),
        ));
    }
    Ok(Ok(entries))
}

fn fault(said: String) -> Value {
    Map::new()
        .with("status", "error")
        .with("error", said)
        .into()
}

fn get_known_host_entries(cx: &Exec, args: GetKnownHostEntries) -> Result<Value, Error> {
    let kind = args.fingerprint_hash_type.as_deref();
    Ok(
        match Place::resolve(args.user.as_deref(), args.config.as_deref()) {
            Ok(place) => listed(place.entries(cx, &args.hostname, args.port, kind)?),
            Err(said) => fault(said),
        },
    )
}

fn recv_known_host_entries(cx: &Exec, args: RecvKnownHostEntries) -> Result<Value, Error> {
    Ok(listed(received(cx, &args)?))
}

/// Returns the change that setting a known host would make.
pub(crate) fn check(cx: &Exec, wanted: &CheckKnownHost) -> Result<OrMessage<&'static str>, Error> {
    let Some(host) = wanted.hostname.as_deref().filter(|host| !host.is_empty()) else {
        return Ok(Err("hostname argument required".into()));
    };
    let place = match Place::resolve(wanted.user.as_deref(), wanted.config.as_deref()) {
        Ok(place) => place,
        Err(said) => return Ok(Err(said)),
    };
    let kind = wanted.fingerprint_hash_type.as_deref();
    let known = place.entries(cx, host, wanted.port, kind)?;
    let is_so = match (&wanted.key, &wanted.fingerprint) {
        _ if known.is_empty() => return Ok(Ok("add")),
        (Some(key), _) => field(&known, "key").contains(key),
        (None, Some(fingerprint)) => field(&known, "fingerprint").contains(fingerprint),
        (None, None) => true,
    };
    Ok(Ok(if is_so { "exists" } else { "update" }))
}

fn check_known_host(cx: &Exec, args: CheckKnownHost) -> Result<Value, Error> {
    Ok(check(cx, &args)?.map_or_else(fault, Value::from))
}

/// Returns the output of a program in the form that Salt returns.
fn status_map(status: &str, done: OrMessage<String>) -> Value {
    match done {
        Ok(comment) => Map::new()
            .with("status", status)
            .with("comment", comment)
            .into(),
        Err(said) => fault(said),
    }
}

fn rm_known_host(cx: &Exec, args: RmKnownHost) -> Result<Value, Error> {
    let Some(host) = args.hostname.filter(|host| !host.is_empty()) else {
        return Ok(fault("hostname argument required".into()));
    };
    Ok(
        match Place::resolve(args.user.as_deref(), args.config.as_deref()) {
            Ok(place) => status_map("removed", place.remove(cx, &host, args.port)?),
            Err(said) => fault(said),
        },
    )
}

fn set_known_host(cx: &Exec, args: SetKnownHost) -> Result<Value, Error> {
    Ok(match set(cx, &args)? {
        Ok(Done::Exists(keys)) => Map::new()
            .with("status", "exists")
            .with("keys", keys)
            .into(),
        Ok(Done::Updated(old, new)) => Map::new()
            .with("status", "updated")
            .with("old", listed(old))
            .with("new", listed(new))
            .into(),
        Err(said) => fault(said),
    })
}

fn hash_known_hosts(cx: &Exec, args: HashKnownHosts) -> Result<Value, Error> {
    Ok(
        match Place::resolve(args.user.as_deref(), args.config.as_deref()) {
            Ok(place) => status_map("updated", place.hash(cx)?),
            Err(said) => fault(said),
        },
    )
}
