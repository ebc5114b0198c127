//! The keys of a keyring: list, import, export, trust and delete them with `gpg`.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use machine::accounts;
use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, python, random, remove};

use super::home;

/// A keyring: its folder, its file and its user.
#[derive(Clone, Debug)]
pub(crate) struct Keyring {
    home: String,
    keyring: Option<String>,
    user: Option<String>,
}

/// The trust levels. Each has the name that arguments use, the name that Salt shows, the letter
/// that `gpg` prints in listings, and the number that `gpg` takes to set it.
pub(crate) const LEVELS: &[(&str, &str, &str, &str)] = &[
    ("expired", "Expired", "e", "1"),
    ("unknown", "Unknown", "q", "2"),
    ("not_trusted", "Not Trusted", "n", "3"),
    ("marginally", "Marginally", "m", "4"),
    ("fully", "Fully Trusted", "f", "5"),
    ("ultimately", "Ultimately Trusted", "u", "6"),
];

/// The options that make `gpg` read the passphrase from standard input.
const LOOPBACK: [&str; 4] = ["--pinentry-mode", "loopback", "--passphrase-fd", "0"];

/// The result of an import.
pub(crate) struct Import {
    pub(crate) is_done: bool,
    pub(crate) message: String,
    pub(crate) fingerprints: Vec<String>,
}

impl Keyring {
    /// Returns the keyring of a user, a folder or a file, and creates its folder if it is missing.
    ///
    /// # Errors
    /// When there is no such user, or the folder cannot be created.
    pub(crate) fn open(
        cx: &Exec,
        user: Option<&str>,
        gnupghome: Option<&str>,
        keyring: Option<&str>,
    ) -> Result<Self, Error> {
        let named = |given: Option<&str>| given.filter(|text| !text.is_empty()).map(str::to_owned);
        let user = named(user);
        let home = match (named(gnupghome), user.as_deref()) {
            (Some(home), _) => home,
            (None, Some("salt")) => {
                let config =
                    cx.call_internal("config.get", vec!["config_dir".into()], Map::new())?;
                format!("{}/gpgkeys", config.to_text())
            }
            (None, user) => home(user)?,
        };
        let user = user.filter(|user| user != "salt");
        if !std::path::Path::new(&home).exists() && !cx.test {
            let mut args = Map::new()
                .with("dir_path", home.as_str())
                .with("mode", "0700");
            if let Some(account) = user.as_deref().and_then(accounts::user) {
                args.insert("user", account.name.as_str());
                args.insert("group", i64::from(account.gid));
            }
            cx.call_internal("file.mkdir", Vec::new(), args)?;
        }
        Ok(Self {
            home,
            keyring: named(keyring),
            user,
        })
    }

    /// Runs `gpg`. Its status lines are on standard error, each with the prefix `[GNUPG:]`.
    pub(super) fn gpg(
        &self,
        cx: &Exec,
        words: &[&str],
        stdin: Option<String>,
    ) -> Result<Output, Error> {
        self.gpg_with(cx, words, stdin, None)
    }

    /// Like [`gpg`](Self::gpg), with a passphrase as the first line of standard input.
    pub(super) fn gpg_with(
        &self,
        cx: &Exec,
        words: &[&str],
        stdin: Option<String>,
        passphrase: Option<&str>,
    ) -> Result<Output, Error> {
        let fixed = [
            "gpg",
            "--homedir",
            &self.home,
            "--batch",
            "--no-tty",
            "--status-fd",
            "2",
        ];
        let own = match &self.keyring {
            Some(keyring) => vec!["--no-default-keyring", "--keyring", keyring],
            None => Vec::new(),
        };
        let (by_stdin, first): (&[&str], _) = match passphrase {
            Some(passphrase) => (&LOOPBACK, format!("{passphrase}\n")),
            None => (&[], String::new()),
        };
        let all = fixed.iter().chain(by_stdin).chain(&own).chain(words);
        let process = Process {
            stdin: Some(first + &stdin.unwrap_or_default()),
            runas: self.user.clone(),
            rstrip: false,
            reset_system_locale: true,
            ..Process::words(all.copied()).quiet()
        };
        process.run(cx)
    }

    /// Returns all keys in Salt's form; the secret keys with `is_secret`.
    ///
    /// # Errors
    /// When `gpg` cannot read them.
    pub(crate) fn list(&self, cx: &Exec, is_secret: bool) -> Result<Vec<Map>, Error> {
        if !std::path::Path::new(&self.home).exists() {
            return Ok(Vec::new());
        }
        let what = if is_secret {
            "--list-secret-keys"
        } else {
            "--list-keys"
        };
        let words = [
            "--fixed-list-mode",
            "--with-colons",
            "--fingerprint",
            "--fingerprint",
            what,
        ];
        let output = self.gpg(cx, &words, None)?;
        match output.success() || output.stdout_regardless().contains(':') {
            true => Ok(parse_keys(output.stdout_regardless())),
            false => Err(failed(&output)),
        }
    }

    /// Returns the key with this id (whole, or its last digits) or this fingerprint.
    ///
    /// # Errors
    /// When `gpg` cannot read them.
    pub(crate) fn find(&self, cx: &Exec, key: &str, is_secret: bool) -> Result<Option<Map>, Error> {
        let all = self.list(cx, is_secret)?;
        Ok(all.into_iter().find(|one| is_called(one, key)))
    }

    /// Returns the keys that a file or a text contains.
    ///
    /// # Errors
    /// When `gpg` cannot be run.
    pub(crate) fn read(&self, cx: &Exec, from: &Source) -> Result<Vec<Map>, Error> {
        let words = [
            "--with-colons",
            "--fixed-list-mode",
            "--import-options",
            "show-only",
            "--fingerprint",
            "--import",
        ];
        Ok(parse_keys(self.with(cx, &words, from)?.stdout_regardless()))
    }

    fn with(&self, cx: &Exec, words: &[&str], from: &Source) -> Result<Output, Error> {
        match from {
            Source::Text(text) => self.gpg(cx, words, Some(text.clone())),
            Source::File(path) => self.gpg(cx, &[words, &["--", path]].concat(), None),
        }
    }

    /// Imports the keys that a file or a text contains: the selected ones, or all.
    ///
    /// # Errors
    /// When `gpg` cannot be run.
    pub(crate) fn import(
        &self,
        cx: &Exec,
        from: &Source,
        select: &[String],
    ) -> Result<Import, Error> {
        if select.is_empty() {
            return Ok(imported(&self.with(cx, &["--import"], from)?));
        }
        // gpg cannot import a selection of keys. All keys are imported into a temporary keyring,
        // from which the selected ones are exported.
        let name = python::hex(&random::array::<8>()?);
        let path = format!("{}/pinch-{name}.gpg", self.home);
        let beside = Self {
            keyring: Some(path.clone()),
            ..self.clone()
        };
        let result = beside.selected(cx, from, select);
        discard(&path);
        match result? {
            Ok(text) => Ok(imported(&self.with(
                cx,
                &["--import"],
                &Source::Text(text),
            )?)),
            Err(import) => Ok(import),
        }
    }

    fn selected(
        &self,
        cx: &Exec,
        from: &Source,
        select: &[String],
    ) -> Result<Result<String, Import>, Error> {
        let all = imported(&self.with(cx, &["--import"], from)?);
        if !all.is_done {
            return Ok(Err(all));
        }
        let select: Vec<&str> = select.iter().map(String::as_str).collect();
        let text = self.export(cx, &select, false, None)?;
        Ok(match text.is_empty() {
            true => Err(Import {
                is_done: true,
                message: "After filtering, no keys to import were left.".into(),
                fingerprints: Vec::new(),
            }),
            false => Ok(text),
        })
    }

    /// Returns the keys as text; it is empty if there are none.
    ///
    /// # Errors
    /// When `gpg` cannot be run.
    pub(crate) fn export(
        &self,
        cx: &Exec,
        keys: &[&str],
        is_secret: bool,
        passphrase: Option<&str>,
    ) -> Result<String, Error> {
        let what = if is_secret {
            "--export-secret-keys"
        } else {
            "--export"
        };
        let words = [&["--armor", what, "--"], keys].concat();
        Ok(self
            .gpg_with(cx, &words, None, passphrase)?
            .into_stdout_regardless())
    }

    /// Fetches keys from a key server. Returns whether that succeeded, and messages about it.
    ///
    /// # Errors
    /// When `gpg` cannot be run.
    pub(crate) fn receive(
        &self,
        cx: &Exec,
        server: &str,
        keys: &[String],
    ) -> Result<(bool, Vec<String>), Error> {
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let words = [
            &["--keyserver", server, "--recv-keys", "--"],
            keys.as_slice(),
        ]
        .concat();
        let output = self.gpg(cx, &words, None)?;
        let import = imported(&output);
        let mut messages = Vec::new();
        for line in statuses(&output) {
            let mut words = line.split(' ');
            let (kind, first) = (
                words.next().unwrap_or_default(),
                words.next().unwrap_or_default(),
            );
            let print = words.next().unwrap_or_default();
            match (kind, first) {
                ("IMPORT_OK", "0") => {
                    messages.push(format!("Key {print} already exists in keychain"));
                }
                ("IMPORT_OK", "1") => {
                    messages.push(format!("Key {print} added to keychain"));
                }
                ("IMPORT_OK", "4") => {
                    messages.push(format!("Key {print} updated: new signatures"));
                }
                ("IMPORT_OK", "8") => {
                    messages.push(format!("Key {print} updated: new subkeys"));
                }
                ("NODATA", _) => {
                    messages.push("Unable to add key to keychain: No valid data found".to_owned());
                }
                ("IMPORT_PROBLEM", _) => {
                    messages
                        .push("Unable to add key to keychain: No further description".to_owned());
                }
                _ => {}
            }
        }
        let is_done = import.is_done && !import.fingerprints.is_empty();
        if !is_done {
            messages.push(format!("GPG reported failure: {}", output.stderr));
        }
        Ok((is_done, messages))
    }

    /// Sets how much the owner of a key is trusted.
    ///
    /// # Errors
    /// The error message of `gpg`.
    pub(crate) fn trust(&self, cx: &Exec, fingerprint: &str, number: &str) -> Result<(), Error> {
        let line = format!("{fingerprint}:{number}:\n");
        let output = self.gpg(cx, &["--import-ownertrust"], Some(line))?;
        match output.success() {
            true => Ok(()),
            false => Err(failed(&output)),
        }
    }

    /// Deletes a key by its fingerprint.
    ///
    /// # Errors
    /// The error message of `gpg`.
    pub(crate) fn delete(
        &self,
        cx: &Exec,
        fingerprint: &str,
        is_secret: bool,
    ) -> Result<(), Error> {
        let what = if is_secret {
            "--delete-secret-keys"
        } else {
            "--delete-keys"
        };
        let output = self.gpg(cx, &["--yes", what, "--", fingerprint], None)?;
        match output.success() {
            true => Ok(()),
            false => Err(failed(&output)),
        }
    }
}

/// Removes a temporary keyring, together with the files that `gpg` creates next to it.
#[expect(
    clippy::disallowed_methods,
    reason = "a temporary file of this process; its removal need not be durable"
)]
fn discard(path: &str) {
    for name in [path.to_owned(), format!("{path}~"), format!("{path}.lock")] {
        remove::or_log(&name, std::fs::remove_file(&name));
    }
}

/// The source of keys to import.
pub(crate) enum Source {
    Text(String),
    File(String),
}

/// Returns whether a key has this id (whole, or its last digits) or this fingerprint.
pub(crate) fn is_called(one: &Map, key: &str) -> bool {
    let text = |name: &str| one.get(name).map_or_else(String::new, Value::to_text);
    let id = text("keyid");
    text("fingerprint") == key || id == key || id.get(8..) == Some(key)
}

/// Returns the status lines of `gpg`, without their prefix `[GNUPG:]`.
pub(super) fn statuses(output: &Output) -> impl Iterator<Item = &str> {
    output
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("[GNUPG:] "))
}

/// Returns the messages of `gpg`, without its status lines, as an error.
pub(super) fn failed(output: &Output) -> Error {
    let lines = output
        .stderr
        .lines()
        .filter(|line| !line.starts_with("[GNUPG:]"));
    Error::refused(lines.collect::<Vec<_>>().join("\n"))
}

fn imported(output: &Output) -> Import {
    let mut fingerprints = Vec::new();
    let mut counts: Vec<u64> = Vec::new();
    for line in statuses(output) {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["IMPORT_OK", _, print, ..] => fingerprints.push((*print).to_owned()),
            ["IMPORT_RES", rest @ ..] => {
                counts = rest
                    .iter()
                    .map(|word| word.parse().unwrap_or_default())
                    .collect();
            }
            _ => {}
        }
    }
    let count = |at: usize| counts.get(at).is_some_and(|count| *count > 0);
    let (is_done, message) = match () {
        () if count(2) || count(3) => (true, "Successfully imported key(s)."),
        () if count(4) => (true, "Key(s) already exist in keychain."),
        () if count(13) || !count(0) => (false, "Unable to import key."),
        () => (true, ""),
    };
    Import {
        is_done,
        message: message.to_owned(),
        fingerprints,
    }
}

/// Returns Salt's text for a trust letter of `gpg`.
fn trust_text(letter: &str) -> &'static str {
    match letter {
        "m" => "Marginally Trusted",
        "r" => "Revoked",
        letter => {
            let known = LEVELS.iter().find(|(_, _, known, _)| *known == letter);
            known.map_or("Unknown", |(_, text, ..)| *text)
        }
    }
}

fn day(seconds: &str) -> Option<(String, bool)> {
    let moment = Timestamp::from_second(seconds.parse().ok()?).ok()?;
    let zoned = moment.to_zoned(TimeZone::system());
    Some((
        zoned.strftime("%Y-%m-%d").to_string(),
        moment <= Timestamp::now(),
    ))
}

/// A key or a subkey: the fields of its line, and the data from the lines after it.
struct Key<'a> {
    fields: Vec<&'a str>,
    fingerprint: Option<&'a str>,
    uids: Vec<Value>,
    subkeys: Vec<Value>,
    is_subkey: bool,
}

impl Key<'_> {
    fn into_map(self) -> Map {
        let field = |at: usize| self.fields.get(at).copied().filter(|text| !text.is_empty());
        let mut told = Map::new().with("keyid", field(4).unwrap_or_default());
        if !self.is_subkey {
            told.insert("uids", Value::list(self.uids));
        }
        if let Some(print) = self.fingerprint.filter(|_| !self.is_subkey) {
            told.insert("fingerprint", print);
        }
        if let Some((day, is_over)) = field(6).and_then(day) {
            told.insert("expires", day);
            told.insert("expired", is_over);
        }
        if let Some((day, _)) = field(5).and_then(day) {
            told.insert("created", day);
        }
        if let Some(length) = field(2) {
            told.insert("keyLength", length);
        }
        if let Some(trust) = field(8) {
            told.insert("ownerTrust", trust_text(trust));
        }
        if let Some(trust) = field(1) {
            told.insert("trust", trust_text(trust));
        }
        if !self.subkeys.is_empty() {
            told.insert("subkeys", Value::list(self.subkeys));
        }
        told
    }
}

/// Decodes the escapes of `gpg`: `\x3a` is a colon.
fn unescaped(text: &str) -> String {
    let mut parts = text.split("\\x");
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part
            .get(..2)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                all.push(char::from(code));
                all.push_str(part.get(2..).unwrap_or_default());
            }
            None => {
                all.push_str("\\x");
                all.push_str(part);
            }
        }
    }
    all
}

/// Parses the keys from the output of `gpg --with-colons`.
fn parse_keys(listing: &str) -> Vec<Map> {
    let mut all: Vec<Map> = Vec::new();
    let (mut key, mut sub): (Option<Key<'_>>, Option<Key<'_>>) = (None, None);
    for line in listing.lines().chain(["end:"]) {
        let fields: Vec<&str> = line.split(':').collect();
        let first = fields.first().copied().unwrap_or_default();
        if matches!(first, "pub" | "sec" | "sub" | "ssb" | "end")
            && let (Some(key), Some(sub)) = (&mut key, sub.take())
        {
            key.subkeys.push(sub.into_map().into());
        }
        let start = |is_subkey: bool| {
            Some(Key {
                fields: fields.clone(),
                fingerprint: None,
                uids: Vec::new(),
                subkeys: Vec::new(),
                is_subkey,
            })
        };
        match first {
            "pub" | "sec" => {
                all.extend(key.take().map(Key::into_map));
                key = start(false);
            }
            "end" => all.extend(key.take().map(Key::into_map)),
            "sub" | "ssb" => sub = start(true),
            "fpr" => {
                if let Some(of) = sub.as_mut().or(key.as_mut()) {
                    of.fingerprint = of.fingerprint.or_else(|| fields.get(9).copied());
                }
            }
            "uid" => {
                let uid = fields.get(9).map(|uid| Value::from(unescaped(uid)));
                key.iter_mut().for_each(|key| key.uids.extend(uid.clone()));
            }
            _ => {}
        }
    }
    all
}

/// Parses the keys that a key server returned. They have other fields than those of a listing.
pub(super) fn searched(text: &str) -> Vec<Map> {
    let mut all: Vec<Key<'_>> = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let field = |at: usize| fields.get(at).copied().unwrap_or_default();
        match field(0) {
            "pub" => all.push(Key {
                fields: vec!["pub", "", field(3), "", field(1), field(4), field(5)],
                fingerprint: None,
                uids: Vec::new(),
                subkeys: Vec::new(),
                is_subkey: false,
            }),
            "uid" => {
                let uid = Value::from(unescaped(field(1)));
                all.iter_mut()
                    .last()
                    .into_iter()
                    .for_each(|key| key.uids.push(uid.clone()));
            }
            _ => {}
        }
    }
    all.into_iter().map(Key::into_map).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_read() {
        let listing = "tru::1:0:0:3:1:5\npub:u:255:22:0123456789ABCDEF:1700000000:1800000000::u:::scESC:::::ed25519:::0:\nfpr:::::::::AA0123456789ABCDEF:\nuid:u::::1700000000::X::A\\x3aB <a@b.c>::::::::::0:\nsub:e:255:18:FEDCBA9876543210:1700000000:1700000001:::::e:::::cv25519::\nfpr:::::::::BBFEDCBA9876543210:\n";
        let keys = parse_keys(listing);
        let key = keys.first().unwrap();
        assert_eq!(keys.len(), 1);
        assert!(is_called(key, "89ABCDEF") && !is_called(key, "BBFEDCBA9876543210"));
        assert_eq!(key.get("trust"), Some(&"Ultimately Trusted".into()));
        assert_eq!(key.get("uids"), Some(&Value::list(["A:B <a@b.c>".into()])));
        let sub = key
            .get("subkeys")
            .and_then(Value::as_list)
            .and_then(<[_]>::first);
        assert_eq!(sub.and_then(|sub| sub.get("expired")), Some(&true.into()));
        assert_eq!(unescaped("a\\xzz"), "a\\xzz");
    }
}
