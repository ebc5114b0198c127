//! The `gpg` execution module, through the program `gpg`: keys, and decrypting.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::accounts;

pub(crate) mod keyring;
mod keys;
mod messages;
pub(crate) mod verify;

use keys::{create_key, search_keys};
use messages::{decrypt, encrypt, sign};

use keyring::{Keyring, LEVELS, Source, is_called};

state::exec_module! {
    /// GnuPG.
    mod gpg;

    /// The keys of a keyring.
    fn list_keys(ListKeys {
        /// The user whose keys they are.
        user: Option<String> = None,
        /// The folder of the keys.
        gnupghome: Option<String> = None,
        /// The file with the public keys.
        keyring: Option<String> = None,
    });

    /// The secret keys of a keyring.
    fn list_secret_keys(ListSecretKeys {
        /// The user whose keys they are.
        user: Option<String> = None,
        /// The folder of the keys.
        gnupghome: Option<String> = None,
        /// The file with the public keys.
        keyring: Option<String> = None,
    });

    /// A key; False where there is none.
    fn get_key(GetKey {
        /// Its id.
        keyid: Option<String> = None,
        /// Or its fingerprint.
        fingerprint: Option<String> = None,
        /// The user whose key it is.
        user: Option<String> = None,
        /// The folder of the keys.
        gnupghome: Option<String> = None,
        /// The file with the public keys.
        keyring: Option<String> = None,
    });

    /// A secret key; False where there is none.
    fn get_secret_key(GetSecretKey {
        /// Its id.
        keyid: Option<String> = None,
        /// Or its fingerprint.
        fingerprint: Option<String> = None,
        /// The user whose key it is.
        user: Option<String> = None,
        /// The folder of the keys.
        gnupghome: Option<String> = None,
        /// The file with the public keys.
        keyring: Option<String> = None,
    });

    /// The keys of a file or a text.
    fn read_key(ReadKey {
        /// The file.
        path: Option<String> = None,
        /// The text.
        text: Option<String> = None,
        /// The key's fingerprint.
        fingerprint: Option<String> = None,
        /// Its id.
        keyid: Option<String> = None,
        /// The user.
        user: Option<String> = None,
        /// The folder of the keys.
        gnupghome: Option<String> = None,
    });

    /// Import keys.
    fn import_key(ImportKey {
        /// A text that holds them.
        text: Option<String> = None,
        /// A file that holds them.
        filename: Option<String> = None,
        /// The user whose keys they become.
        user: Option<String> = None,
        /// The folder of the keys.
        gnupghome: Option<String> = None,
        /// The file with the public keys.
        keyring: Option<String> = None,
        /// Which of them.
        select: Value = Value::Null,
    });

    /// Keys as text.
    fn export_key(ExportKey {
        /// Which.
        keyids: Value = Value::Null,
        /// The secret ones.
        secret: bool = false,
        /// The user whose keys they are.
        user: Option<String> = None,
        /// The folder of the keys.
        gnupghome: Option<String> = None,
        /// Whether the passphrase of the key stands in the pillar, as `gpg_passphrase`.
        use_passphrase: bool = false,
        /// The file to write to.
        output: Option<String> = None,
        /// Return the text alone.
        bare: bool = false,
        /// The file with the public keys.
        keyring: Option<String> = None,
    });

    /// Get keys from a key server.
    fn receive_keys(ReceiveKeys {
        /// The server.
        keyserver: Option<String> = None,
        /// Which keys.
        keys: Value = Value::Null,
        /// The user whose keys they become.
        user: Option<String> = None,
        /// The folder of the keys.
        gnupghome: Option<String> = None,
        /// The file with the public keys.
        keyring: Option<String> = None,
    });

    /// Say how far a key's owner is trusted.
    fn trust_key(TrustKey {
        /// The key's id.
        keyid: Option<String> = None,
        /// Or its fingerprint.
        fingerprint: Option<String> = None,
        /// `expired`, `unknown`, `not_trusted`, `marginally`, `fully` or `ultimately`.
        trust_level: Option<String> = None,
        /// The user whose key it is.
        user: Option<String> = None,
        /// The folder of the keys.
        gnupghome: Option<String> = None,
        /// The file with the public keys.
        keyring: Option<String> = None,
    });

    /// Delete a key.
    fn delete_key(DeleteKey {
        /// Its id.
        keyid: Option<String> = None,
        /// Or its fingerprint.
        fingerprint: Option<String> = None,
        /// Its secret one before it.
        delete_secret: bool = false,
        /// The user whose key it is.
        user: Option<String> = None,
        /// The folder of the keys.
        gnupghome: Option<String> = None,
        /// Whether a passphrase must stand in the pillar for a secret key.
        use_passphrase: bool = true,
        /// The file with the public keys.
        keyring: Option<String> = None,
    });

    /// Search the keys of a key server.
    fn search_keys(SearchKeys {
        /// An address, an id or a fingerprint.
        text: String,
        /// The server.
        keyserver: Option<String> = None,
        /// The user.
        user: Option<String> = None,
        /// The folder of the keys.
        gnupghome: Option<String> = None,
    });

    /// Make a key.
    fn create_key(CreateKey {
        /// `RSA` or another kind.
        key_type: String = "RSA".into(),
        /// Its size.
        key_length: i64 = 1024,
        /// Whose it is.
        name_real: String = "Autogenerated Key".into(),
        /// A comment on that.
        name_comment: String = "Generated by SaltStack".into(),
        /// The address.
        name_email: Option<String> = None,
        /// The kind of a second key.
        subkey_type: Option<String> = None,
        /// Its size.
        subkey_length: Value = Value::Null,
        /// When both expire: a day, or a time such as `3d`, `2w` or `1y`.
        expire_date: Value = Value::Null,
        /// Whether it gets the passphrase in the pillar, `gpg_passphrase`.
        use_passphrase: bool = false,
        /// The user whose key it is.
        user: Option<String> = None,
        /// The folder of the keys.
        gnupghome: Option<String> = None,
        /// The file with the public keys.
        keyring: Option<String> = None,
    });

    /// Sign a message or a file; return its text with the signature.
    fn sign(Sign {
        /// The user whose key signs.
        user: Option<String> = None,
        /// The key; the first one where none is named.
        keyid: Option<String> = None,
        /// The message.
        text: Option<String> = None,
        /// A file with the message.
        filename: Option<String> = None,
        /// The file to write to.
        output: Option<String> = None,
        /// Whether the passphrase of the key stands in the pillar, as `gpg_passphrase`.
        use_passphrase: bool = false,
        /// The folder of the keys.
        gnupghome: Option<String> = None,
        /// The file with the public keys.
        keyring: Option<String> = None,
    });

    /// Encrypt a message or a file.
    fn encrypt(Encrypt {
        /// The user whose keys are used.
        user: Option<String> = None,
        /// For whom: ids, fingerprints or addresses.
        recipients: Value = Value::Null,
        /// The message.
        text: Option<String> = None,
        /// A file with the message.
        filename: Option<String> = None,
        /// The file to write to.
        output: Option<String> = None,
        /// Whether it is signed too, or the key that signs it.
        sign: Value = Value::Null,
        /// Whether the passphrase of that key stands in the pillar, as `gpg_passphrase`.
        use_passphrase: bool = false,
        /// Whether every key is trusted.
        always_trust: bool = false,
        /// The folder of the keys.
        gnupghome: Option<String> = None,
        /// Return the text alone.
        bare: bool = false,
        /// The file with the public keys.
        keyring: Option<String> = None,
    });

    /// Decrypt a message or a file, with the secret keys of a user or a folder.
    fn decrypt(Decrypt {
        /// The user whose keys are used.
        user: Option<String> = None,
        /// The message.
        text: Option<String> = None,
        /// A file with the message.
        filename: Option<String> = None,
        /// The file to write to.
        output: Option<String> = None,
        /// Whether the passphrase of the key stands in the pillar, as `gpg_passphrase`.
        use_passphrase: bool = false,
        /// The folder of the keys.
        gnupghome: Option<String> = None,
        /// Return the text alone.
        bare: bool = false,
        /// The file with the public keys.
        keyring: Option<String> = None,
    });
}

/// The folder of a user's keys; that of whoever runs this where none is named.
///
/// # Errors
/// When there is no such user.
fn home(user: Option<&str>) -> Result<String, Error> {
    let account = match user {
        Some(name) => accounts::user(name),
        None => accounts::user_of(rustix::process::getuid().as_raw()),
    };
    let missing = || Error::refused(format!("User {} does not exist", user.unwrap_or_default()));
    Ok(format!("{}/.gnupg", account.ok_or_else(missing)?.home))
}

/// The passphrase in the pillar, where one is wanted.
///
/// # Errors
/// When there is none, or it is more than a line.
fn passphrase(cx: &Exec, is_wanted: bool) -> Result<Option<String>, Error> {
    if !is_wanted {
        return Ok(None);
    }
    let pillar = cx.pillar()?;
    let found = pillar.get("gpg_passphrase").filter(|text| text.is_true());
    let found = found.ok_or("gpg_passphrase not available in pillar.")?;
    value::secret::keep(&[], found);
    let text = found.to_text();
    match text.contains(['\n', '\r', '\0']) {
        true => Err("Invalid passphrase: gpg_passphrase must be one line".into()),
        false => Ok(Some(text)),
    }
}

fn answer(res: bool, comment: &str) -> Value {
    Map::new().with("res", res).with("comment", comment).into()
}

fn said(res: bool, message: impl Into<Value>) -> Value {
    Map::new().with("res", res).with("message", message).into()
}

/// What identifies a key: one of both.
fn named(keyid: Option<String>, fingerprint: Option<String>) -> Option<String> {
    let given = |name: Option<String>| name.filter(|name| !name.is_empty());
    given(fingerprint).or_else(|| given(keyid))
}

fn all(keys: Vec<Map>) -> Value {
    Value::list(keys.into_iter().map(Value::from))
}

fn list_keys(cx: &Exec, args: ListKeys) -> Result<Value, Error> {
    let (user, home) = (args.user.as_deref(), args.gnupghome.as_deref());
    let keyring = Keyring::of(cx, user, home, args.keyring.as_deref())?;
    Ok(all(keyring.list(cx, false)?))
}

fn list_secret_keys(cx: &Exec, args: ListSecretKeys) -> Result<Value, Error> {
    let (user, home) = (args.user.as_deref(), args.gnupghome.as_deref());
    let keyring = Keyring::of(cx, user, home, args.keyring.as_deref())?;
    Ok(all(keyring.list(cx, true)?))
}

fn get_key(cx: &Exec, args: GetKey) -> Result<Value, Error> {
    let (user, home) = (args.user.as_deref(), args.gnupghome.as_deref());
    let keyring = Keyring::of(cx, user, home, args.keyring.as_deref())?;
    let key = named(args.keyid, args.fingerprint).unwrap_or_default();
    let found = keyring.find(cx, &key, false)?;
    Ok(found.map_or_else(|| false.into(), Value::from))
}

fn get_secret_key(cx: &Exec, args: GetSecretKey) -> Result<Value, Error> {
    let (user, home) = (args.user.as_deref(), args.gnupghome.as_deref());
    let keyring = Keyring::of(cx, user, home, args.keyring.as_deref())?;
    let key = named(args.keyid, args.fingerprint).unwrap_or_default();
    let found = keyring.find(cx, &key, true)?;
    Ok(found.map_or_else(|| false.into(), Value::from))
}

/// A file or a text, one of both.
fn source(path: Option<String>, text: Option<String>, names: [&str; 2]) -> Result<Source, Error> {
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    match (given(path), given(text)) {
        (Some(_), Some(_)) => Err(Error::refused(format!(
            "{} are mutually exclusive.",
            names[0]
        ))),
        (Some(path), None) => Ok(Source::File(path)),
        (None, Some(text)) => Ok(Source::Text(text)),
        (None, None) => Err(Error::refused(names[1].to_owned())),
    }
}

fn read_key(cx: &Exec, args: ReadKey) -> Result<Value, Error> {
    let names = ["`path` and `text`", "Either `path` or `text` is required."];
    let from = source(args.path, args.text, names)?;
    let keyring = Keyring::of(cx, args.user.as_deref(), args.gnupghome.as_deref(), None)?;
    let mut keys = keyring.read(cx, &from)?;
    if let Some(name) = named(args.keyid, args.fingerprint) {
        keys.retain(|key| is_called(key, &name));
    }
    Ok(all(keys))
}

fn import_key(cx: &Exec, args: ImportKey) -> Result<Value, Error> {
    let names = ["filename and text", "filename or text must be passed."];
    if args
        .filename
        .as_deref()
        .is_some_and(|path| !std::path::Path::new(path).is_file())
    {
        return Err("filename does not exist.".into());
    }
    let from = source(args.filename, args.text, names)?;
    let (user, home) = (args.user.as_deref(), args.gnupghome.as_deref());
    let keyring = Keyring::of(cx, user, home, args.keyring.as_deref())?;
    let import = keyring.import(cx, &from, &words(&args.select))?;
    Ok(Map::new()
        .with("res", import.is_done)
        .with("message", import.message)
        .with(
            "fingerprints",
            Value::list(import.fingerprints.into_iter().map(Value::from)),
        )
        .into())
}

/// A list, or words between commas.
fn words(given: &Value) -> Vec<String> {
    match given {
        Value::Str(text) => text.split(',').map(|word| word.trim().to_owned()).collect(),
        other => other.texts(),
    }
}

fn export_key(cx: &Exec, args: ExportKey) -> Result<Value, Error> {
    let passphrase = passphrase(cx, args.secret && args.use_passphrase)?;
    let (user, home) = (args.user.as_deref(), args.gnupghome.as_deref());
    let keyring = Keyring::of(cx, user, home, args.keyring.as_deref())?;
    let keys = words(&args.keyids);
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let text = keyring.export(cx, &keys, args.secret, passphrase.as_deref())?;
    if args.secret {
        value::secret::keep(&[], &text.as_str().into());
    }
    if let Some(output) = args.output.as_deref().filter(|_| !text.is_empty()) {
        let owner = crate::fs::Owner {
            mode: args.secret.then_some(0o600),
            ..crate::fs::Owner::default()
        };
        crate::fs::write(cx, std::path::Path::new(output), text.as_bytes(), owner)?;
    }
    Ok(match (text.is_empty(), args.bare) {
        (true, true) => false.into(),
        (true, false) => Map::new().with("res", false).into(),
        (false, true) => text.into(),
        (false, false) => answer(
            true,
            &match args.output {
                Some(output) => format!("Exported key data has been written to {output}"),
                None => text,
            },
        ),
    })
}

/// Where keys come from when no server is named.
const KEY_SERVER: &str = "keys.openpgp.org";

fn receive_keys(cx: &Exec, args: ReceiveKeys) -> Result<Value, Error> {
    let (user, home) = (args.user.as_deref(), args.gnupghome.as_deref());
    let keyring = Keyring::of(cx, user, home, args.keyring.as_deref())?;
    let server = args.keyserver.as_deref().unwrap_or(KEY_SERVER);
    let (is_done, messages) = keyring.receive(cx, server, &words(&args.keys))?;
    let messages = Value::list(messages.into_iter().map(Value::from));
    Ok(said(is_done, messages))
}

fn trust_key(cx: &Exec, args: TrustKey) -> Result<Value, Error> {
    if args.keyid.is_some() == args.fingerprint.is_some() {
        return Err("Exactly one of keyid or fingerprint is required".into());
    }
    let level = args.trust_level.unwrap_or_default();
    let Some((_, shown, _, number)) = LEVELS.iter().find(|(known, ..)| *known == level) else {
        let known: Vec<&str> = LEVELS.iter().map(|(known, ..)| *known).collect();
        return Err(Error::refused(format!(
            "ERROR: Valid trust levels - {}",
            known.join(",")
        )));
    };
    let (user, home) = (args.user.as_deref(), args.gnupghome.as_deref());
    let keyring = Keyring::of(cx, user, home, args.keyring.as_deref())?;
    let name = named(args.keyid, args.fingerprint).unwrap_or_default();
    let Some(key) = keyring.find(cx, &name, false)? else {
        return Ok(said(false, format!("Key {name} not in GPG keychain")));
    };
    let print = key
        .get("fingerprint")
        .map_or_else(String::new, Value::to_text);
    Ok(match keyring.trust(cx, &print, number) {
        Ok(()) => Map::new()
            .with("res", true)
            .with("message", format!("Setting ownership trust to {shown}."))
            .with("fingerprint", print)
            .into(),
        Err(error) => said(false, error.to_string()),
    })
}

fn delete_key(cx: &Exec, args: DeleteKey) -> Result<Value, Error> {
    if args.keyid.is_some() && args.fingerprint.is_some() {
        return Ok(said(
            false,
            "Only specify one argument, fingerprint or keyid",
        ));
    }
    let Some(name) = named(args.keyid, args.fingerprint) else {
        return Ok(said(false, "Required argument, fingerprint or keyid"));
    };
    let (user, home) = (args.user.as_deref(), args.gnupghome.as_deref());
    let keyring = Keyring::of(cx, user, home, args.keyring.as_deref())?;
    let Some(key) = keyring.find(cx, &name, false)? else {
        return Ok(said(false, "Key not available in keychain."));
    };
    let print = key
        .get("fingerprint")
        .map_or_else(String::new, Value::to_text);
    let mut message = String::new();
    if keyring.find(cx, &print, true)?.is_some() {
        if !args.delete_secret {
            return Ok(said(
                false,
                "Secret key exists, delete first or pass delete_secret=True.",
            ));
        }
        let lacks = args.use_passphrase && cx.pillar()?.get("gpg_passphrase").is_none();
        let why = match lacks {
            true => Some("gpg_passphrase not available in pillar.".to_owned()),
            false => keyring
                .delete(cx, &print, true)
                .err()
                .map(|error| error.to_string()),
        };
        if let Some(why) = why {
            return Ok(said(
                false,
                format!("Failed to delete secret key for {print}: {why}"),
            ));
        }
        message = format!("Secret key for {print} deleted\n");
    }
    Ok(match keyring.delete(cx, &print, false) {
        Ok(()) => said(true, format!("{message}Public key for {print} deleted")),
        Err(error) => said(
            false,
            format!("{message}Failed to delete public key for {print}: {error}"),
        ),
    })
}
