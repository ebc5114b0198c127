//! The part of the `ssh` execution module that manages authorized keys.

use std::path::Path;

use machine::accounts::{self, User};
use python::path;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{fingerprint, lines, write};
use crate::fileserver::fetch;

state::exec_module! {
    /// Manage authorized keys.
    mod ssh;

    /// Return the authorized keys of one or more users.
    ///
    ///     salt-call ssh.auth_keys alice
    fn auth_keys(AuthKeys {
        /// A user or a list of users; all users if not given.
        user: Value = Value::Null,
        /// The path of the file, relative to the home directory. `%u` and `%h` are replaced as in
        /// sshd.
        config: String = CONFIG.into(),
        /// The hash algorithm of the fingerprints.
        fingerprint_hash_type: Option<String> = None,
    });

    /// Return the change that setting a key would make: add, update or exists.
    ///
    ///     salt-call ssh.check_key alice AAAAC3NzaC1lZDI1NTE5AAAAIGOxv4QFNJ8e ssh-ed25519 alice '[]'
    fn check_key(CheckKey {
        /// The name of the user.
        user: String,
        /// The key.
        key: String,
        /// The type of the key.
        enc: String,
        /// The comment of the key.
        comment: String,
        /// The options of the key.
        options: Option<Vec<String>>,
        /// The path of the file, relative to the home directory. `%u` and `%h` are replaced as in
        /// sshd.
        config: String = CONFIG.into(),
        /// Accepted and ignored: no other key is touched.
        cache_keys: Value = Value::Null,
        /// The hash algorithm of the fingerprints.
        fingerprint_hash_type: Option<String> = None,
    });

    /// Return the change that setting a key would make, for each key of a file.
    ///
    ///     salt-call ssh.check_key_file alice salt://alice.pub
    fn check_key_file(CheckKeyFile {
        /// The name of the user.
        user: String,
        /// The path or URL of the file with the keys.
        source: String,
        /// The path of the file, relative to the home directory. `%u` and `%h` are replaced as in
        /// sshd.
        config: String = CONFIG.into(),
        /// The environment to fetch the file from.
        saltenv: String = "base".into(),
        /// The hash algorithm of the fingerprints.
        fingerprint_hash_type: Option<String> = None,
    });

    /// Add a key, or change its comment and options.
    ///
    ///     salt-call ssh.set_auth_key alice AAAAC3NzaC1lZDI1NTE5AAAAIGOxv4QFNJ8e enc=ssh-ed25519
    fn set_auth_key(SetAuthKey {
        /// The name of the user.
        user: String,
        /// The key.
        key: String,
        /// The type of the key.
        enc: String = "ssh-rsa".into(),
        /// The comment of the key.
        comment: String = String::new(),
        /// The options of the key.
        options: Option<Vec<String>> = None,
        /// The path of the file, relative to the home directory. `%u` and `%h` are replaced as in
        /// sshd.
        config: String = CONFIG.into(),
        /// Accepted and ignored: no other key is touched.
        cache_keys: Value = Value::Null,
        /// The hash algorithm of the fingerprints.
        fingerprint_hash_type: Option<String> = None,
    });

    /// Add the keys of a file.
    ///
    ///     salt-call ssh.set_auth_key_from_file alice salt://alice.pub
    fn set_auth_key_from_file(SetAuthKeyFromFile {
        /// The name of the user.
        user: String,
        /// The path or URL of the file with the keys.
        source: String,
        /// The path of the file, relative to the home directory. `%u` and `%h` are replaced as in
        /// sshd.
        config: String = CONFIG.into(),
        /// The environment to fetch the file from.
        saltenv: String = "base".into(),
        /// The hash algorithm of the fingerprints.
        fingerprint_hash_type: Option<String> = None,
        ..kwargs
    });

    /// Remove a key.
    ///
    ///     salt-call ssh.rm_auth_key alice AAAAC3NzaC1lZDI1NTE5AAAAIGOxv4QFNJ8e
    fn rm_auth_key(RmAuthKey {
        /// The name of the user.
        user: String,
        /// The key.
        key: String,
        /// The path of the file, relative to the home directory. `%u` and `%h` are replaced as in
        /// sshd.
        config: String = CONFIG.into(),
        /// The hash algorithm of the fingerprints.
        fingerprint_hash_type: Option<String> = None,
    });

    /// Remove the keys of a file.
    ///
    ///     salt-call ssh.rm_auth_key_from_file alice salt://alice.pub
    fn rm_auth_key_from_file(RmAuthKeyFromFile {
        /// The name of the user.
        user: String,
        /// The path or URL of the file with the keys.
        source: String,
        /// The path of the file, relative to the home directory. `%u` and `%h` are replaced as in
        /// sshd.
        config: String = CONFIG.into(),
        /// The environment to fetch the file from.
        saltenv: String = "base".into(),
        /// The hash algorithm of the fingerprints.
        fingerprint_hash_type: Option<String> = None,
    });
}

/// The default path of a user's authorized keys, relative to the home directory.
pub(crate) const CONFIG: &str = ".ssh/authorized_keys";

/// Salt's short names of the types of keys, and the names that ssh uses.
const SHORT: [(&str, &str); 9] = [
    ("r", "ssh-rsa"),
    ("rsa", "ssh-rsa"),
    ("d", "ssh-dss"),
    ("dsa", "ssh-dss"),
    ("dss", "ssh-dss"),
    ("e", "ecdsa-sha2-nistp256"),
    ("ecdsa", "ecdsa-sha2-nistp256"),
    ("ed25519", "ssh-ed25519"),
    ("sk-ed25519", "sk-ssh-ed25519@openssh.com"),
];

const LONG: [&str; 19] = [
    "ssh-rsa",
    "ssh-dss",
    "ssh-ed25519",
    "ecdsa-sha2-nistp521",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp256",
    "rsa-sha2-512",
    "rsa-sha2-256",
    "rsa-sha2-512-cert-v01@openssh.com",
    "rsa-sha2-256-cert-v01@openssh.com",
    "ssh-rsa-cert-v01@openssh.com",
    "ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "ecdsa-sha2-nistp384-cert-v01@openssh.com",
    "ecdsa-sha2-nistp521-cert-v01@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "ssh-ed25519-cert-v01@openssh.com",
    "sk-ssh-ed25519@openssh.com",
    "sk-ssh-ed25519-cert-v01@openssh.com",
];

/// A key in a line of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Key {
    /// The type of the key.
    pub(crate) enc: String,
    /// The key itself, in Base64.
    pub(crate) key: String,
    /// The comment after the key.
    pub(crate) comment: String,
    /// The options before the key.
    pub(crate) options: Vec<String>,
}

/// The file of a user's keys, and the hash algorithm of fingerprints.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    /// The name of the user.
    pub(crate) user: &'a str,
    /// The path of the file, relative to the home directory.
    pub(crate) config: &'a str,
    /// The hash algorithm of the fingerprints.
    pub(crate) fingerprint: Option<&'a str>,
}

/// The result of setting keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    New,
    Replaced,
    Same,
    Failed,
    Invalid,
    NoKeys,
}

impl Key {
    /// Parses a line of the form `[options] type key [comment]`. Returns `None` if it contains no
    /// type.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        let (at, _) = line
            .char_indices()
            .find(|(at, _)| starts_key(line.get(*at..)))?;
        let (options, rest) = line.split_at_checked(at)?;
        let mut words = rest.splitn(2, char::is_whitespace);
        let enc = words.next()?.to_owned();
        let rest = words.next()?.trim_start();
        let (key, comment) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let options = options.strip_suffix(char::is_whitespace).unwrap_or(options);
        let options = options.split(',').filter(|_| !options.is_empty());
        Some(Self {
            enc,
            key: key.to_owned(),
            comment: comment.trim().to_owned(),
            options: options.map(str::to_owned).collect(),
        })
    }

    /// Returns the key that the name of a state describes: a whole line, or `key [comment]`. The
    /// arguments provide the parts that the name does not contain.
    pub(crate) fn of_name(name: &str, enc: &str, comment: &str, options: &[String]) -> Self {
        let given = || comment.to_owned();
        if let Some(mut key) = Self::parse(name) {
            if key.options.is_empty() {
                key.options = options.to_vec();
            }
            if key.comment.is_empty() {
                key.comment = given();
            }
            return key;
        }
        let name = name.trim();
        let (key, behind) = name.split_once(char::is_whitespace).unwrap_or((name, ""));
        Self {
            enc: enc.to_owned(),
            key: key.to_owned(),
            comment: Some(behind.trim())
                .filter(|text| !text.is_empty())
                .map_or_else(given, str::to_owned),
            options: options.to_vec(),
        }
    }

    fn line(&self) -> String {
        let options = match self.options.is_empty() {
            true => String::new(),
            false => format!("{} ", self.options.join(",")),
        };
        format!("{options}{} {} {}", self.enc, self.key, self.comment)
    }
}

/// Returns true if the text begins with the type of a key (`ssh-…` or `ecds…`, optionally after
/// `sk-`) and continues after it.
fn starts_key(text: Option<&str>) -> bool {
    let text = text.unwrap_or_default();
    let text = text.strip_prefix("sk-").unwrap_or(text);
    let Some(rest) = text
        .strip_prefix("ssh-")
        .or_else(|| text.strip_prefix("ecds"))
    else {
        return false;
    };
    let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '@' | '.' | '-')));
    let behind = end.and_then(|end| rest.get(end..)).unwrap_or_default();
    end != Some(0) && behind.starts_with(char::is_whitespace) && !behind.trim().is_empty()
}

/// Returns ssh's name of a key type.
fn refined(enc: &str) -> Result<String, Error> {
    let short = SHORT
        .iter()
        .find(|known| known.0 == enc)
        .map(|known| known.1);
    let long = || LONG.contains(&enc).then_some(enc);
    let known = short.or_else(long).map(str::to_owned);
    known.ok_or_else(|| Error::refused(format!("Incorrect encryption key type '{enc}'.")))
}

impl Place<'_> {
    fn account(&self) -> Result<User, Error> {
        accounts::user(self.user)
            .ok_or_else(|| Error::refused(format!("User '{}' does not exist", self.user)))
    }

    /// Returns the path of the file. `%u` and `%h` are replaced as in sshd.
    fn file(&self) -> Result<String, Error> {
        let account = self.account()?;
        let mut path = String::new();
        let mut chars = self.config.chars();
        while let Some(char) = chars.next() {
            match (char, (char == '%').then(|| chars.next())) {
                (char, None) => path.push(char),
                (_, Some(Some('%'))) => path.push('%'),
                (_, Some(Some('u'))) => path.push_str(self.user),
                (_, Some(Some('h'))) => path.push_str(&account.home),
                (_, Some(Some(other))) => {
                    return Err(Error::refused(format!(
                        "AuthorizedKeysFile path: unknown token character \"%{other}\""
                    )));
                }
                (_, Some(None)) => {
                    return Err(
                        "AuthorizedKeysFile path: Last character can't be escape character".into(),
                    );
                }
            }
        }
        Ok(path::join(&account.home, &path))
    }

    /// Returns the keys of the file; empty if the user or the file does not exist.
    pub(crate) fn keys(&self) -> Result<Vec<Key>, Error> {
        match self.file() {
            Ok(file) if path::isfile(&file) => keys_of(&file, self.fingerprint),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the change that setting a key would make.
    pub(crate) fn check(&self, key: &Key) -> Result<&'static str, Error> {
        let wanted = Key {
            enc: refined(&key.enc)?,
            ..key.clone()
        };
        let keys = self.keys()?;
        // If a key appears twice, Salt uses the last one.
        let found = keys.iter().rfind(|known| known.key == key.key);
        Ok(match found {
            Some(known) if known.line() == wanted.line() => "exists",
            Some(_) => "update",
            None => "add",
        })
    }

    /// Adds a key, or changes its comment and options.
    pub(crate) fn set(&self, cx: &Exec, key: &Key) -> Result<Done, Error> {
        if key.key.split_whitespace().count() > 1 || key.line().contains('\n') {
            return Ok(Done::Invalid);
        }
        let key = Key {
            enc: refined(&key.enc)?,
            ..key.clone()
        };
        let Some(account) = accounts::user(self.user) else {
            return Ok(Done::Failed);
        };
        if fingerprint(&key.key, self.fingerprint)?.is_none() {
            return Ok(Done::Invalid);
        }
        let file = self.file()?;
        let status = self.check(&key)?;
        if status == "exists" {
            return Ok(Done::Same);
        }
        if status == "add" && file.starts_with(&account.home) && !Path::new(&account.home).is_dir()
        {
            return Ok(Done::Failed);
        }
        let new = if status == "add" {
            appended(&file, &key)?
        } else {
            replaced(&file, &key)?
        };
        write(cx, &file, &new, Some(self.user))?;
        Ok(if status == "add" {
            Done::New
        } else {
            Done::Replaced
        })
    }

    /// Removes a key and returns Salt's message about it.
    pub(crate) fn remove(&self, cx: &Exec, key: &str) -> Result<&'static str, Error> {
        if !self.keys()?.iter().any(|known| known.key == key) {
            return Ok("Key not present");
        }
        let file = self.file()?;
        let mut new = String::new();
        for line in lines(&file)? {
            let is_it =
                !line.starts_with('#') && Key::parse(&line).is_some_and(|found| found.key == key);
            if !is_it {
                new.push_str(&line);
                new.push('\n');
            }
        }
        write(cx, &file, &new, Some(self.user))?;
        Ok("Key removed")
    }

    /// Adds the keys of a file.
    pub(crate) fn set_all(
        &self,
        cx: &Exec,
        keys: &[Key],
        options: &[String],
    ) -> Result<Done, Error> {
        let mut all = if keys.is_empty() {
            Done::NoKeys
        } else {
            Done::Same
        };
        for key in keys {
            let mut key = key.clone();
            if !options.is_empty() {
                key.options = options.to_vec();
            }
            let done = self.set(cx, &key)?;
            let order = |done| match done {
                Done::Failed => 3,
                Done::Replaced => 2,
                Done::New => 1,
                _ => 0,
            };
            if order(done) > order(all) {
                all = done;
            }
        }
        Ok(all)
    }

    /// Removes the keys of a file.
    pub(crate) fn remove_all(&self, cx: &Exec, keys: &[Key]) -> Result<&'static str, Error> {
        let mut all = "Key not present";
        for key in keys {
            if self.remove(cx, &key.key)? == "Key removed" {
                all = "Key removed";
            }
        }
        Ok(all)
    }
}

fn appended(file: &str, key: &Key) -> Result<String, Error> {
    let bytes = machine::fs::read_or_none(file)?.unwrap_or_default();
    let mut text = python::text::decoded(&bytes);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text + &key.line() + "\n")
}

fn replaced(file: &str, key: &Key) -> Result<String, Error> {
    let mut text = String::new();
    for line in lines(file)? {
        let is_it =
            !line.starts_with('#') && Key::parse(&line).is_some_and(|found| found.key == key.key);
        text.push_str(if is_it { key.line() } else { line }.as_str());
        text.push('\n');
    }
    Ok(text)
}

/// Returns the keys of a file.
pub(crate) fn keys_of(file: &str, kind: Option<&str>) -> Result<Vec<Key>, Error> {
    let mut keys = Vec::new();
    for line in lines(file)? {
        if let Some(key) = Some(line)
            .filter(|line| !line.starts_with('#'))
            .and_then(|line| Key::parse(&line))
            && fingerprint(&key.key, kind)?.is_some()
        {
            keys.push(key);
        }
    }
    Ok(keys)
}

/// Returns the local path of a source with keys, or `None` if it does not exist.
pub(crate) fn fetched(cx: &Exec, url: &str, saltenv: &str) -> Result<Option<String>, Error> {
    let file = fetch::cached(cx, url, saltenv, fetch::How::default())?;
    Ok(file.filter(|file| path::isfile(file)))
}

/// Returns the message about a source that contains no key.
pub(crate) fn no_keys(source: &str) -> String {
    format!("No keys detected in {source}. Is file properly formatted?")
}

fn key_map(keys: &[Key], kind: Option<&str>) -> Result<Map, Error> {
    let mut map = Map::new();
    for key in keys {
        let about = Map::new()
            .with("enc", key.enc.as_str())
            .with("comment", key.comment.as_str())
            .with("options", key.options.clone())
            .with("fingerprint", fingerprint(&key.key, kind)?);
        map.insert(key.key.as_str(), about);
    }
    Ok(map)
}

fn auth_keys(_cx: &Exec, args: AuthKeys) -> Result<Value, Error> {
    let kind = args.fingerprint_hash_type.as_deref();
    let of = |user: &str| {
        let place = Place {
            user,
            config: &args.config,
            fingerprint: kind,
        };
        let is_there = place.file().is_ok_and(|file| path::isfile(&file));
        Ok::<_, Error>((is_there, key_map(&place.keys()?, kind)?))
    };
    let users: Vec<String> = match &args.user {
        user if !user.is_true() => accounts::users()
            .into_iter()
            .map(|user| user.name)
            .collect(),
        Value::List(users) => users.iter().map(Value::to_text).collect(),
        user => return Ok(of(&user.to_text())?.1.into()),
    };
    let mut all = Map::new();
    for user in users {
        if let (true, keys) = of(&user)? {
            all.insert(user, keys);
        }
    }
    Ok(all.into())
}

fn check_key(_cx: &Exec, args: CheckKey) -> Result<Value, Error> {
    let place = Place {
        user: &args.user,
        config: &args.config,
        fingerprint: args.fingerprint_hash_type.as_deref(),
    };
    let key = Key {
        enc: args.enc,
        key: args.key,
        comment: args.comment,
        options: args.options.unwrap_or_default(),
    };
    Ok(place.check(&key)?.into())
}

fn check_key_file(cx: &Exec, args: CheckKeyFile) -> Result<Value, Error> {
    let place = Place {
        user: &args.user,
        config: &args.config,
        fingerprint: args.fingerprint_hash_type.as_deref(),
    };
    let mut all = Map::new();
    if let Some(file) = fetched(cx, &args.source, &args.saltenv)? {
        for key in keys_of(&file, place.fingerprint)? {
            all.insert(key.key.as_str(), place.check(&key)?);
        }
    }
    Ok(all.into())
}

/// Returns a result in the form that Salt's functions return.
fn answer(done: Done, invalid: &str) -> Value {
    match done {
        Done::New => "new",
        Done::Replaced => "replace",
        Done::Same => "no change",
        Done::Failed | Done::NoKeys => "fail",
        Done::Invalid => invalid,
    }
    .into()
}

fn set_auth_key(cx: &Exec, args: SetAuthKey) -> Result<Value, Error> {
    let place = Place {
        user: &args.user,
        config: &args.config,
        fingerprint: args.fingerprint_hash_type.as_deref(),
    };
    let invalid = match args.key.split_whitespace().count() {
        0 | 1 => "Invalid public key",
        _ => "invalid",
    };
    let key = Key {
        enc: args.enc,
        key: args.key,
        comment: args.comment,
        options: args.options.unwrap_or_default(),
    };
    Ok(answer(place.set(cx, &key)?, invalid))
}

fn pulled(cx: &Exec, url: &str, saltenv: &str) -> Result<String, Error> {
    fetched(cx, url, saltenv)?.ok_or_else(|| "Failed to pull key file from salt file server".into())
}

fn set_auth_key_from_file(cx: &Exec, args: SetAuthKeyFromFile) -> Result<Value, Error> {
    let place = Place {
        user: &args.user,
        config: &args.config,
        fingerprint: args.fingerprint_hash_type.as_deref(),
    };
    let file = pulled(cx, &args.source, &args.saltenv)?;
    let options = args.kwargs.get("options").and_then(Value::as_list);
    let options: Vec<String> = options
        .unwrap_or_default()
        .iter()
        .map(Value::to_text)
        .collect();
    let keys = keys_of(&file, place.fingerprint)?;
    Ok(answer(place.set_all(cx, &keys, &options)?, "no change"))
}

fn rm_auth_key(cx: &Exec, args: RmAuthKey) -> Result<Value, Error> {
    let place = Place {
        user: &args.user,
        config: &args.config,
        fingerprint: args.fingerprint_hash_type.as_deref(),
    };
    Ok(place.remove(cx, &args.key)?.into())
}

fn rm_auth_key_from_file(cx: &Exec, args: RmAuthKeyFromFile) -> Result<Value, Error> {
    let place = Place {
        user: &args.user,
        config: &args.config,
        fingerprint: args.fingerprint_hash_type.as_deref(),
    };
    let file = pulled(cx, &args.source, &args.saltenv)?;
    let keys = keys_of(&file, place.fingerprint)?;
    if keys.is_empty() {
        return Ok("fail".into());
    }
    Ok(place.remove_all(cx, &keys)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_options_and_comments() {
        let key = Key::parse("no-pty,command=\"a b\" ssh-rsa AAAA= me at home").unwrap();
        assert_eq!(key.options, ["no-pty", "command=\"a b\""]);
        assert_eq!((key.enc.as_str(), key.key.as_str()), ("ssh-rsa", "AAAA="));
        assert_eq!(key.comment, "me at home");
        assert_eq!(
            key.line(),
            "no-pty,command=\"a b\" ssh-rsa AAAA= me at home"
        );
        let key = Key::parse("sk-ssh-ed25519@openssh.com AAAA").unwrap();
        assert_eq!(
            (key.enc.as_str(), key.options.len()),
            ("sk-ssh-ed25519@openssh.com", 0)
        );
        assert_eq!(Key::parse("AAAA only"), None);
        assert_eq!(Key::parse("ssh-rsa"), None);
        let key = Key::of_name("AAAA my key", "rsa", "", &[]);
        assert_eq!((key.key.as_str(), key.comment.as_str()), ("AAAA", "my key"));
    }

    #[test]
    fn a_fingerprint_is_of_a_whole_key_only() {
        assert_eq!(fingerprint("AAA", None).unwrap(), None);
        assert_eq!(fingerprint("AA A=", None).unwrap(), None);
        assert_eq!(fingerprint("AAAA", Some("md5")).unwrap().unwrap().len(), 47);
        assert!(fingerprint("AAAA", Some("crc")).is_err());
    }
}
