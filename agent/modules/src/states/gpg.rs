//! The `gpg` state module.

use std::path::Path;

use jiff::civil::Date;
use machine::fs;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::gpg::keyring::{Import, Keyring, LEVELS, Source, is_called};

state::state_module! {
    /// Manage public keys of GnuPG.
    mod gpg;

    /// Make sure that public keys are in a keyring and not expired.
    ///
    ///     3B4FE6ACC0B21F32:
    ///       gpg.present:
    ///         - keyserver: keyserver.ubuntu.com
    ///         - user: deploy
    fn present(Present {
        /// The id of the key.
        name: String,
        /// The ids of several keys, instead of the name.
        keys: Value = Value::Null,
        /// The user who owns the keyring.
        user: Option<String> = None,
        /// The key server.
        keyserver: Option<String> = None,
        /// The folder of GnuPG's files.
        gnupghome: Option<String> = None,
        /// The trust in the owner: `expired`, `unknown`, `not_trusted`, `marginally`, `fully` or
        /// `ultimately`.
        trust: Option<String> = None,
        /// The file that contains the public keys.
        keyring: Option<String> = None,
        /// Files to take the keys from if the key server does not have them.
        source: Value = Value::Null,
        /// True to take the keys only from `source` and not from the key server.
        skip_keyserver: bool = false,
        /// A text that contains the keys.
        text: Option<String> = None,
        /// The maximum number of days since the expiry of a subkey. Subkeys that expired earlier
        /// are not refreshed.
        subkey_maxage: Option<i64> = Some(100),
        ..kwargs
    });

    /// Make sure that public keys are not in a keyring.
    ///
    ///     3B4FE6ACC0B21F32:
    ///       gpg.absent:
    ///         - user: deploy
    fn absent(Absent {
        /// The id of the key.
        name: String,
        /// The ids of several keys, instead of the name.
        keys: Value = Value::Null,
        /// The user who owns the keyring.
        user: Option<String> = None,
        /// The folder of GnuPG's files.
        gnupghome: Option<String> = None,
        /// The file that contains the public keys.
        keyring: Option<String> = None,
        /// True to remove the keyring's file when it contains no more keys.
        keyring_absent_if_empty: bool = false,
        ..kwargs
    });
}

/// The default key server.
const KEY_SERVER: &str = "keys.openpgp.org";

fn text(key: &Map, name: &str) -> String {
    key.get(name).map_or_else(String::new, Value::to_text)
}

fn is_expired(key: &Map) -> bool {
    key.get("expired").is_some_and(Value::is_true)
}

fn names(name: &str, keys: &Value) -> Vec<String> {
    match keys {
        Value::Str(key) if !key.is_empty() => vec![key.to_string()],
        keys if keys.is_true() => keys.texts(),
        _ => vec![name.to_owned()],
    }
}

/// Returns the ids and expiry dates of the subkeys that expired within the last `days` days.
fn lapsed(key: &Map, days: Option<i64>) -> Vec<(String, String)> {
    let Some(days) = days.filter(|days| *days != 0) else {
        return Vec::new();
    };
    let today = jiff::Zoned::now().date();
    let subkeys = key
        .get("subkeys")
        .and_then(Value::as_list)
        .unwrap_or_default();
    let of_late = |sub: &&Map| {
        let day: Option<Date> = text(sub, "expires").parse().ok();
        let since = day.and_then(|day| today.since(day).ok());
        is_expired(sub) && since.is_some_and(|since| i64::from(since.get_days()) <= days)
    };
    let subkeys = subkeys.iter().filter_map(Value::as_map).filter(of_late);
    subkeys
        .map(|sub| (text(sub, "keyid"), text(sub, "expires")))
        .collect()
}

/// The progress of `present`, which handles one key after the other.
struct Work<'a> {
    cx: &'a Exec,
    args: &'a Present,
    keyring: Keyring,
    /// The `changes` of the return, by key.
    changes: Map,
    /// The lines of the comment, by key.
    comments: Vec<(String, Vec<String>)>,
    is_wrong: bool,
}

impl Work<'_> {
    fn tell(&mut self, key: &str, line: impl Into<String>) {
        if let Some((_, lines)) = self.comments.iter_mut().find(|(known, _)| known == key) {
            lines.push(line.into());
        }
    }

    fn change(&mut self, key: &str, what: &str, value: impl Into<Value>) {
        let known = self.changes.get(key).and_then(Value::as_map).cloned();
        self.changes
            .insert(key, known.unwrap_or_default().with(what, value));
    }

    /// Imports or refreshes one key if necessary. Returns the resulting key.
    fn see_to(&mut self, name: &str, current: Option<&Map>) -> Result<Option<Map>, Error> {
        let expired = current.is_some_and(is_expired);
        let subs = current
            .map(|key| lapsed(key, self.args.subkey_maxage))
            .unwrap_or_default();
        let refresh = expired || !subs.is_empty();
        if let Some(current) = current.filter(|_| !refresh) {
            self.tell(name, format!("GPG Public Key {name} already in keychain"));
            return Ok(Some(current.clone()));
        }
        if self.cx.test {
            self.would(name, expired, &subs);
            let new = Map::new().with("trust", "unknown");
            return Ok(current.cloned().or(Some(new)));
        }
        let failed = |error: Error| (error, expired, !subs.is_empty());
        match self.fetched(name, current, &subs, expired).map_err(failed) {
            Ok(new) => Ok(Some(new)),
            Err((error, expired, has_subs)) => {
                self.is_wrong = true;
                if expired {
                    self.tell(name, "Existing key is expired, tried to fetch updated one");
                } else if has_subs {
                    self.tell(name, "Existing key has expired subkeys, tried to refresh");
                }
                let why = error.to_string();
                why.lines().for_each(|line| self.tell(name, line));
                Ok(current.cloned())
            }
        }
    }

    fn would(&mut self, name: &str, expired: bool, subs: &[(String, String)]) {
        if !expired && subs.is_empty() {
            self.tell(name, format!("Would have added {name} to GPG keychain"));
            self.change(name, "added", true);
            return;
        }
        if expired {
            self.tell(
                name,
                format!("Would have attempted to update {name} because it is expired"),
            );
        } else {
            self.tell(
                name,
                format!("Would have attempted to update {name} because it has expired subkeys:"),
            );
            for (sub, day) in subs {
                self.tell(name, format!("  - {sub} (expired on {day})"));
            }
        }
        self.change(name, "refresh", true);
    }

    fn fetched(
        &mut self,
        name: &str,
        current: Option<&Map>,
        subs: &[(String, String)],
        expired: bool,
    ) -> Result<Map, Error> {
        let refresh = expired || !subs.is_empty();
        let message = self.imported(name, refresh, expired)?;
        let new = self.keyring.find(self.cx, name, false)?.ok_or_else(|| {
            Error::refused(format!(
                "{message}\nThe new key {name} could not be retrieved though."
            ))
        })?;
        if !refresh {
            self.change(name, "added", true);
        }
        if is_expired(&new) {
            return Err(Error::refused(format!(
                "{message}\nThe new key {name} is expired though."
            )));
        }
        if !refresh {
            self.tell(name, format!("Added {name} to GPG keychain"));
        } else if expired {
            self.tell(name, format!("Updated {name} because it was expired"));
            self.change(name, "refresh", true);
        } else {
            self.refreshed(name, current, subs, &new);
        }
        Ok(new)
    }

    /// Reports the result of refreshing expired subkeys.
    fn refreshed(
        &mut self,
        name: &str,
        current: Option<&Map>,
        subs: &[(String, String)],
        new: &Map,
    ) {
        let ids = |key: Option<&Map>| -> Vec<String> {
            let all = key
                .and_then(|key| key.get("subkeys"))
                .and_then(Value::as_list);
            let all = all.unwrap_or_default().iter().filter_map(Value::as_map);
            all.map(|sub| text(sub, "keyid")).collect()
        };
        let known = ids(current);
        let added = ids(Some(new)).into_iter().filter(|id| !known.contains(id));
        let added: Vec<Value> = added.map(Value::from).collect();
        let still = lapsed(new, self.args.subkey_maxage);
        let extended = subs
            .iter()
            .filter(|(id, _)| !still.iter().any(|(other, _)| other == id));
        let extended: Vec<Value> = extended.map(|(id, _)| id.as_str().into()).collect();
        if added.is_empty() && extended.is_empty() {
            self.tell(name, format!("Attempted to update {name} because it has expired subkeys, but no new signatures or keys were found"));
            return;
        }
        self.tell(
            name,
            format!("Updated {name} because it had expired subkeys."),
        );
        self.change(name, "refresh", true);
        let mut subkeys = Map::new();
        for (what, all) in [("added", added), ("extended", extended)] {
            if !all.is_empty() {
                subkeys.insert(what, Value::list(all));
            }
        }
        self.change(name, "subkeys", subkeys);
    }

    /// Imports a key from the text, the key server or the sources, and returns the message about
    /// it.
    fn imported(&self, name: &str, refresh: bool, expired: bool) -> Result<String, Error> {
        let args = self.args;
        if let Some(given) = args.text.as_ref().filter(|text| !text.is_empty()) {
            return import_message(self.data(name, refresh, &Source::Text(given.clone()))?);
        }
        let mut message = String::new();
        if !args.skip_keyserver {
            let server = args.keyserver.as_deref().unwrap_or(KEY_SERVER);
            let (is_done, messages) = self.keyring.receive(self.cx, server, &[name.to_owned()])?;
            let is_new = messages.iter().any(|line| line.contains("updated: new"));
            message = messages.join("\n");
            // If only subkeys have expired and the server has nothing new, this is no failure: the
            // sources are tried next.
            let has_failed = !is_done || refresh && expired && !is_new;
            if is_done && (!refresh || is_new) || !has_failed && !args.source.is_true() {
                return Ok(message);
            }
            if !args.source.is_true() {
                return Err(Error::refused(message));
            }
            message.push('\n');
        }
        for source in names("", &args.source) {
            let cached = self
                .cx
                .call_internal("cp.cache_file", vec![source.into()], Map::new())?;
            let Some(path) = cached.as_str().filter(|path| !path.is_empty()) else {
                continue;
            };
            if let Ok(import) = self.data(name, refresh, &Source::File(path.to_owned())) {
                return import_message(import);
            }
        }
        Err(Error::refused(format!(
            "{message}none of the specified sources were found or contained the (unexpired) key {name}."
        )))
    }

    fn data(&self, name: &str, refresh: bool, from: &Source) -> Result<Import, Error> {
        let keys = self.keyring.read(self.cx, from)?;
        let key = keys
            .iter()
            .find(|key| is_called(key, name))
            .ok_or_else(|| {
                Error::refused(format!(
                    "Passed text did not contain the requested key {name}"
                ))
            })?;
        if refresh && is_expired(key) {
            return Err(Error::refused(format!(
                "Passed text contained the key {name}, but it's expired"
            )));
        }
        self.keyring.import(self.cx, from, &[name.to_owned()])
    }

    /// Sets the trust in a key's owner. Salt compares only with the key's validity, which is a
    /// different property.
    fn see_to_trust(&mut self, name: &str, key: &Map, trust: &str) -> Result<(), Error> {
        let Some((_, shown, _, number)) = LEVELS.iter().find(|(known, ..)| *known == trust) else {
            return Ok(());
        };
        let is_it = |text: String| text.strip_suffix(" Trusted") == Some(shown) || text == *shown;
        if is_it(text(key, "trust")) || is_it(text(key, "ownerTrust")) {
            self.tell(
                name,
                format!("GPG Public Key {name} already in correct trust state"),
            );
            return Ok(());
        }
        if self.cx.test {
            self.tell(
                name,
                format!("Would have set trust level for {name} to {trust}"),
            );
        } else {
            self.keyring
                .trust(self.cx, &text(key, "fingerprint"), number)?;
            self.tell(name, format!("Set trust level for {name} to {trust}"));
        }
        self.change(name, "trust", trust);
        Ok(())
    }
}

fn import_message(import: Import) -> Result<String, Error> {
    match import.is_done {
        true => Ok(import.message),
        false => Err(Error::refused(import.message)),
    }
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let has_text = args.text.as_ref().is_some_and(|text| !text.is_empty());
    if !has_text && args.skip_keyserver && !args.source.is_true() {
        return Ok(Ret::failed(
            "When skipping keyservers, you must provide at least one source",
        ));
    }
    let trust = args.trust.clone().filter(|trust| !trust.is_empty());
    if let Some(trust) = trust
        .as_ref()
        .filter(|trust| !LEVELS.iter().any(|(known, ..)| known == trust))
    {
        return Ok(Ret::failed(format!("Invalid trust level {trust}")));
    }
    let (user, home) = (args.user.as_deref(), args.gnupghome.as_deref());
    let keyring = Keyring::open(cx, user, home, args.keyring.as_deref())?;
    let current = keyring.list(cx, false)?;
    let names = names(&args.name, &args.keys);
    let mut work = Work {
        cx,
        args: &args,
        keyring,
        changes: Map::new(),
        comments: names
            .iter()
            .map(|name| (name.clone(), Vec::new()))
            .collect(),
        is_wrong: false,
    };
    let mut there = Vec::new();
    for name in &names {
        let known = current.iter().find(|key| text(key, "keyid") == *name);
        there.push(work.see_to(name, known)?);
    }
    for (name, key) in names.iter().zip(&there) {
        if let (Some(trust), Some(key)) = (&trust, key)
            && let Err(error) = work.see_to_trust(name, key, trust)
        {
            work.is_wrong = true;
            work.tell(name, error.to_string());
        }
    }
    let comments = work.comments.iter().filter(|(_, lines)| !lines.is_empty());
    let comments = comments.map(|(key, lines)| format!("Key {key}:\n  * {}", lines.join("\n  * ")));
    let comment = comments.collect::<Vec<_>>().join("\n");
    let ret = match (work.is_wrong, cx.test && !work.changes.is_empty()) {
        (true, _) => Ret::failed(comment),
        (_, true) => Ret::would(comment),
        _ => Ret::ok(comment),
    };
    Ok(ret.changes(work.changes))
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let (user, home) = (args.user.as_deref(), args.gnupghome.as_deref());
    let keyring = Keyring::open(cx, user, home, args.keyring.as_deref())?;
    let current = keyring.list(cx, false)?;
    let names = names(&args.name, &args.keys);
    let is_there = |all: &[Map], name: &str| all.iter().any(|key| text(key, "keyid") == name);
    let (mut comments, mut deleted, mut is_wrong) = (Vec::new(), Vec::new(), false);
    for name in &names {
        if !is_there(&current, name) {
            comments.push(format!("{name} not found in GPG keychain"));
            continue;
        }
        if cx.test {
            comments.push(format!("Would have deleted {name} from GPG keychain"));
            deleted.push(name.clone());
            continue;
        }
        match removed(cx, &keyring, name)? {
            None => {
                comments.push(format!("Deleted {name} from GPG keychain"));
                deleted.push(name.clone());
            }
            Some(why) => {
                is_wrong = true;
                comments.push(why);
            }
        }
    }
    let mut changes = Map::new();
    if !cx.test && !is_wrong {
        let left = keyring.list(cx, false)?;
        let remaining: Vec<String> = names
            .iter()
            .filter(|name| is_there(&left, name))
            .cloned()
            .collect();
        if !remaining.is_empty() {
            is_wrong = true;
            deleted.retain(|name| !remaining.contains(name));
            comments.push(format!(
                "State check revealed the following keys could not be deleted: {}",
                remaining.join(", ")
            ));
        }
        if let Some(file) = args.keyring.as_ref().filter(|file| {
            left.is_empty() && args.keyring_absent_if_empty && Path::new(file.as_str()).is_file()
        }) {
            fs::remove(cx, Path::new(file)).map_err(Error::io(file))?;
            comments.push(format!("Removed empty keyring file {file}"));
            changes.insert("removed", file.as_str());
        }
    }
    if !deleted.is_empty() {
        changes.insert("deleted", Value::list(deleted.into_iter().map(Value::from)));
    }
    let comment = comments.join("\n");
    let ret = match (is_wrong, cx.test && !changes.is_empty()) {
        (true, _) => Ret::failed(comment),
        (_, true) => Ret::would(comment),
        _ => Ret::ok(comment),
    };
    Ok(ret.changes(changes))
}

/// Deletes a public key. Returns the reason if it was not deleted: it is not in the keyring, its
/// secret key exists, or `gpg` refuses.
fn removed(cx: &Exec, keyring: &Keyring, name: &str) -> Result<Option<String>, Error> {
    let Some(key) = keyring.find(cx, name, false)? else {
        return Ok(Some("Key not available in keychain.".into()));
    };
    let print = text(&key, "fingerprint");
    if keyring.find(cx, &print, true)?.is_some() {
        return Ok(Some(
            "Secret key exists, delete first or pass delete_secret=True.".into(),
        ));
    }
    let done = keyring.delete(cx, &print, false);
    Ok(done
        .err()
        .map(|error| format!("Failed to delete public key for {print}: {error}")))
}
