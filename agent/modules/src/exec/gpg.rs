//! The `gpg` execution module: manages keys, signs, encrypts and decrypts with the program `gpg`.

use machine::accounts;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

pub(crate) mod keyring;
mod keys;
mod messages;
pub(crate) mod verify;

use keys::{create_key, search_keys};
use messages::{decrypt, encrypt, sign};

use keyring::{Keyring, LEVELS, Source, is_called};

state::exec_module! {
    /// Manage keys, signatures and encryption with GnuPG.
    #[needs("gpg", "The gpg execution module cannot be loaded: gpg binary is not in the path.", "gnupg")]
    mod gpg;

    /// Return the keys of a keyring.
    ///
    ///     salt-call gpg.list_keys
    fn list_keys(ListKeys {
        /// The user whose keyring is used. The default is the user who runs this.
        user: Option<String> = None,
        /// The folder of the keyring. The default is the user's.
        gnupghome: Option<String> = None,
        /// The path of the file with the public keys, if it is not the default one.
        keyring: Option<String> = None,
    });

    /// Return the secret keys of a keyring.
    ///
    ///     salt-call gpg.list_secret_keys
    fn list_secret_keys(ListSecretKeys {
        /// The user whose keyring is used. The default is the user who runs this.
        user: Option<String> = None,
        /// The folder of the keyring. The default is the user's.
        gnupghome: Option<String> = None,
        /// The path of the file with the public keys, if it is not the default one.
        keyring: Option<String> = None,
    });

    /// Return a key, or False if it is not in the keyring.
    ///
    ///     salt-call gpg.get_key keyid=3B4FE6ACC0B21F32
    fn get_key(GetKey {
        /// The id of the key.
        keyid: Option<String> = None,
        /// The fingerprint of the key, instead of its id.
        fingerprint: Option<String> = None,
        /// The user whose keyring is used.
        user: Option<String> = None,
        /// The folder of the keyring. The default is the user's.
        gnupghome: Option<String> = None,
        /// The path of the file with the public keys, if it is not the default one.
        keyring: Option<String> = None,
    });

    /// Return a secret key, or False if it is not in the keyring.
    ///
    ///     salt-call gpg.get_secret_key keyid=3B4FE6ACC0B21F32
    fn get_secret_key(GetSecretKey {
        /// The id of the key.
        keyid: Option<String> = None,
        /// The fingerprint of the key, instead of its id.
        fingerprint: Option<String> = None,
        /// The user whose keyring is used.
        user: Option<String> = None,
        /// The folder of the keyring. The default is the user's.
        gnupghome: Option<String> = None,
        /// The path of the file with the public keys, if it is not the default one.
        keyring: Option<String> = None,
    });

    /// Return the keys that a file or a text contains.
    ///
    ///     salt-call gpg.read_key path=/srv/alice.asc
    fn read_key(ReadKey {
        /// The path of the file.
        path: Option<String> = None,
        /// The text.
        text: Option<String> = None,
        /// The fingerprint of the key to return. The default is all keys.
        fingerprint: Option<String> = None,
        /// The id of the key to return. The default is all keys.
        keyid: Option<String> = None,
        /// The user who runs `gpg`.
        user: Option<String> = None,
        /// The folder of the keyring. The default is the user's.
        gnupghome: Option<String> = None,
    });

    /// Import keys.
    ///
    ///     salt-call gpg.import_key filename=/srv/alice.asc
    fn import_key(ImportKey {
        /// A text that contains the keys.
        text: Option<String> = None,
        /// The path of a file that contains the keys.
        filename: Option<String> = None,
        /// The user whose keyring receives the keys.
        user: Option<String> = None,
        /// The folder of the keyring. The default is the user's.
        gnupghome: Option<String> = None,
        /// The path of the file with the public keys, if it is not the default one.
        keyring: Option<String> = None,
        /// The keys to import: a list of ids or fingerprints, or a text with commas between them.
        /// The default is all keys.
        select: Value = Value::Null,
    });

    /// Export keys as text.
    ///
    ///     salt-call gpg.export_key keyids=3B4FE6ACC0B21F32
    fn export_key(ExportKey {
        /// The keys to export: a list, or a text with commas between them.
        keyids: Value = Value::Null,
        /// Whether to export the secret keys.
        secret: bool = false,
        /// The user whose keyring is used.
        user: Option<String> = None,
        /// The folder of the keyring. The default is the user's.
        gnupghome: Option<String> = None,
        /// Whether to read the passphrase of the key from the pillar (`gpg_passphrase`).
        use_passphrase: bool = false,
        /// The path of a file to write the text to.
        output: Option<String> = None,
        /// Whether to return only the text.
        bare: bool = false,
        /// The path of the file with the public keys, if it is not the default one.
        keyring: Option<String> = None,
    });

    /// Fetch keys from a key server.
    ///
    ///     salt-call gpg.receive_keys keys=3B4FE6ACC0B21F32
    fn receive_keys(ReceiveKeys {
        /// The key server.
        keyserver: Option<String> = None,
        /// The ids of the keys: a list, or a text with commas between them.
        keys: Value = Value::Null,
        /// The user whose keyring receives the keys.
        user: Option<String> = None,
        /// The folder of the keyring. The default is the user's.
        gnupghome: Option<String> = None,
        /// The path of the file with the public keys, if it is not the default one.
        keyring: Option<String> = None,
    });

    /// Set how far the owner of a key is trusted.
    ///
    ///     salt-call gpg.trust_key keyid=3B4FE6ACC0B21F32 trust_level=ultimately
    fn trust_key(TrustKey {
        /// The id of the key.
        keyid: Option<String> = None,
        /// The fingerprint of the key, instead of its id.
        fingerprint: Option<String> = None,
        /// The level: `expired`, `unknown`, `not_trusted`, `marginally`, `fully` or `ultimately`.
        trust_level: Option<String> = None,
        /// The user whose keyring is used.
        user: Option<String> = None,
        /// The folder of the keyring. The default is the user's.
        gnupghome: Option<String> = None,
        /// The path of the file with the public keys, if it is not the default one.
        keyring: Option<String> = None,
    });

    /// Delete a key.
    ///
    ///     salt-call gpg.delete_key keyid=3B4FE6ACC0B21F32
    fn delete_key(DeleteKey {
        /// The id of the key.
        keyid: Option<String> = None,
        /// The fingerprint of the key, instead of its id.
        fingerprint: Option<String> = None,
        /// Whether to delete the secret key first.
        delete_secret: bool = false,
        /// The user whose keyring is used.
        user: Option<String> = None,
        /// The folder of the keyring. The default is the user's.
        gnupghome: Option<String> = None,
        /// Whether deleting a secret key requires its passphrase in the pillar (`gpg_passphrase`).
        use_passphrase: bool = true,
        /// The path of the file with the public keys, if it is not the default one.
        keyring: Option<String> = None,
    });

    /// Search for keys on a key server.
    ///
    ///     salt-call gpg.search_keys alice@example.com
    fn search_keys(SearchKeys {
        /// The text to search for: an address, an id or a fingerprint.
        text: String,
        /// The key server.
        keyserver: Option<String> = None,
        /// The user who runs `gpg`.
        user: Option<String> = None,
        /// The folder of the keyring. The default is the user's.
        gnupghome: Option<String> = None,
    });

    /// Create a key.
    ///
    ///     salt-call gpg.create_key name_real=Alice name_email=alice@example.com
    fn create_key(CreateKey {
        /// The type of the key, such as `RSA`.
        key_type: String = "RSA".into(),
        /// The size of the key in bits.
        key_length: i64 = 1024,
        /// The name of the owner.
        name_real: String = "Autogenerated Key".into(),
        /// A comment on the owner.
        name_comment: String = "Generated by SaltStack".into(),
        /// The email address of the owner. The default consists of the name of the current user and
        /// of the host.
        name_email: Option<String> = None,
        /// The type of a subkey. By default there is none.
        subkey_type: Option<String> = None,
        /// The size of the subkey in bits.
        subkey_length: Value = Value::Null,
        /// The time when both keys expire: a date, or a duration such as `3d`, `2w` or `1y`.
        expire_date: Value = Value::Null,
        /// Whether to protect the key with the passphrase in the pillar (`gpg_passphrase`).
        use_passphrase: bool = false,
        /// The user whose keyring is used.
        user: Option<String> = None,
        /// The folder of the keyring. The default is the user's.
        gnupghome: Option<String> = None,
        /// The path of the file with the public keys, if it is not the default one.
        keyring: Option<String> = None,
    });

    /// Sign a message or a file, and return the signed text.
    ///
    ///     salt-call gpg.sign filename=/srv/app.tar.gz output=/srv/app.sig
    fn sign(Sign {
        /// The user whose key signs.
        user: Option<String> = None,
        /// The id of the key. The default is the first key.
        keyid: Option<String> = None,
        /// The message.
        text: Option<String> = None,
        /// The path of a file with the message.
        filename: Option<String> = None,
        /// The path of a file to write the result to.
        output: Option<String> = None,
        /// Whether to read the passphrase of the key from the pillar (`gpg_passphrase`).
        use_passphrase: bool = false,
        /// The folder of the keyring. The default is the user's.
        gnupghome: Option<String> = None,
        /// The path of the file with the public keys, if it is not the default one.
        keyring: Option<String> = None,
    });

    /// Encrypt a message or a file.
    ///
    ///     salt-call gpg.encrypt recipients=alice@example.com filename=/srv/dump.sql
    fn encrypt(Encrypt {
        /// The user whose keyring is used.
        user: Option<String> = None,
        /// The recipients: ids, fingerprints or addresses of keys.
        recipients: Value = Value::Null,
        /// The message.
        text: Option<String> = None,
        /// The path of a file with the message.
        filename: Option<String> = None,
        /// The path of a file to write the result to.
        output: Option<String> = None,
        /// Whether to sign the message, or the id of the key that signs it.
        sign: Value = Value::Null,
        /// Whether to read the passphrase of the signing key from the pillar (`gpg_passphrase`).
        use_passphrase: bool = false,
        /// Whether to trust every key.
        always_trust: bool = false,
        /// The folder of the keyring. The default is the user's.
        gnupghome: Option<String> = None,
        /// Whether to return only the text.
        bare: bool = false,
        /// The path of the file with the public keys, if it is not the default one.
        keyring: Option<String> = None,
    });

    /// Decrypt a message or a file, with the secret keys of a user or a folder.
    ///
    ///     salt-call gpg.decrypt filename=/srv/dump.sql.gpg
    fn decrypt(Decrypt {
        /// The user whose keyring is used.
        user: Option<String> = None,
        /// The message.
        text: Option<String> = None,
        /// The path of a file with the message.
        filename: Option<String> = None,
        /// The path of a file to write the result to.
        output: Option<String> = None,
        /// Whether to read the passphrase of the key from the pillar (`gpg_passphrase`).
        use_passphrase: bool = false,
        /// The folder of the keyring. The default is the user's.
        gnupghome: Option<String> = None,
        /// Whether to return only the text.
        bare: bool = false,
        /// The path of the file with the public keys, if it is not the default one.
        keyring: Option<String> = None,
    });
}

/// Returns the key folder of a user. If no user is given, it is that of the user who runs this
/// process.
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

/// Returns the passphrase from the pillar, if one is wanted.
///
/// # Errors
/// When the pillar has none, or it consists of more than one line.
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

fn reply(res: bool, message: impl Into<Value>) -> Value {
    Map::new().with("res", res).with("message", message).into()
}

/// Returns the fingerprint, or else the id, of a key.
fn named(keyid: Option<String>, fingerprint: Option<String>) -> Option<String> {
    let given = |name: Option<String>| name.filter(|name| !name.is_empty());
    given(fingerprint).or_else(|| given(keyid))
}

fn all(keys: Vec<Map>) -> Value {
    Value::list(keys.into_iter().map(Value::from))
}

fn list_keys(cx: &Exec, args: ListKeys) -> Result<Value, Error> {
    let (user, home) = (args.user.as_deref(), args.gnupghome.as_deref());
    let keyring = Keyring::open(cx, user, home, args.keyring.as_deref())?;
    Ok(all(keyring.list(cx, false)?))
}

fn list_secret_keys(cx: &Exec, args: ListSecretKeys) -> Result<Value, Error> {
    let (user, home) = (args.user.as_deref(), args.gnupghome.as_deref());
    let keyring = Keyring::open(cx, user, home, args.keyring.as_deref())?;
    Ok(all(keyring.list(cx, true)?))
}

fn get_key(cx: &Exec, args: GetKey) -> Result<Value, Error> {
    let (user, home) = (args.user.as_deref(), args.gnupghome.as_deref());
    let keyring = Keyring::open(cx, user, home, args.keyring.as_deref())?;
    let key = named(args.keyid, args.fingerprint).unwrap_or_default();
    let found = keyring.find(cx, &key, false)?;
    Ok(found.map_or_else(|| false.into(), Value::from))
}

fn get_secret_key(cx: &Exec, args: GetSecretKey) -> Result<Value, Error> {
    let (user, home) = (args.user.as_deref(), args.gnupghome.as_deref());
    let keyring = Keyring::open(cx, user, home, args.keyring.as_deref())?;
    let key = named(args.keyid, args.fingerprint).unwrap_or_default();
    let found = keyring.find(cx, &key, true)?;
    Ok(found.map_or_else(|| false.into(), Value::from))
}

/// Returns the source of keys: either a file or a text. `names` are the argument names for the
/// error messages.
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
    let keyring = Keyring::open(cx, args.user.as_deref(), args.gnupghome.as_deref(), None)?;
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
    let keyring = Keyring::open(cx, user, home, args.keyring.as_deref())?;
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

/// Returns the items of a list, or of a text with commas between them.
fn words(given: &Value) -> Vec<String> {
    match given {
        Value::Str(text) => text.split(',').map(|word| word.trim().to_owned()).collect(),
        other => other.texts(),
    }
}

fn export_key(cx: &Exec, args: ExportKey) -> Result<Value, Error> {
    let passphrase = passphrase(cx, args.secret && args.use_passphrase)?;
    let (user, home) = (args.user.as_deref(), args.gnupghome.as_deref());
    let keyring = Keyring::open(cx, user, home, args.keyring.as_deref())?;
    let keys = words(&args.keyids);
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let text = keyring.export(cx, &keys, args.secret, passphrase.as_deref())?;
    if args.secret {
        value::secret::keep(&[], &text.as_str().into());
    }
    if let Some(output) = args.output.as_deref().filter(|_| !text.is_empty()) {
        let owner = machine::fs::Owner {
            mode: args.secret.then_some(0o600),
            ..machine::fs::Owner::default()
        };
        machine::fs::write(cx, std::path::Path::new(output), text.as_bytes(), owner)?;
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

/// The default key server.
const KEY_SERVER: &str = "keys.openpgp.org";

fn receive_keys(cx: &Exec, args: ReceiveKeys) -> Result<Value, Error> {
    let (user, home) = (args.user.as_deref(), args.gnupghome.as_deref());
    let keyring = Keyring::open(cx, user, home, args.keyring.as_deref())?;
    let server = args.keyserver.as_deref().unwrap_or(KEY_SERVER);
    let (is_done, messages) = keyring.receive(cx, server, &words(&args.keys))?;
    let messages = Value::list(messages.into_iter().map(Value::from));
    Ok(reply(is_done, messages))
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
    let keyring = Keyring::open(cx, user, home, args.keyring.as_deref())?;
    let name = named(args.keyid, args.fingerprint).unwrap_or_default();
    let Some(key) = keyring.find(cx, &name, false)? else {
        return Ok(reply(false, format!("Key {name} not in GPG keychain")));
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
        Err(error) => reply(false, error.to_string()),
    })
}

fn delete_key(cx: &Exec, args: DeleteKey) -> Result<Value, Error> {
    if args.keyid.is_some() && args.fingerprint.is_some() {
        return Ok(reply(
            false,
            "Only specify one argument, fingerprint or keyid",
        ));
    }
    let Some(name) = named(args.keyid, args.fingerprint) else {
        return Ok(reply(false, "Required argument, fingerprint or keyid"));
    };
    let (user, home) = (args.user.as_deref(), args.gnupghome.as_deref());
    let keyring = Keyring::open(cx, user, home, args.keyring.as_deref())?;
    let Some(key) = keyring.find(cx, &name, false)? else {
        return Ok(reply(false, "Key not available in keychain."));
    };
    let print = key
        .get("fingerprint")
        .map_or_else(String::new, Value::to_text);
    let mut message = String::new();
    if keyring.find(cx, &print, true)?.is_some() {
        if !args.delete_secret {
            return Ok(reply(
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
            return Ok(reply(
                false,
                format!("Failed to delete secret key for {print}: {why}"),
            ));
        }
        message = format!("Secret key for {print} deleted\n");
    }
    Ok(match keyring.delete(cx, &print, false) {
        Ok(()) => reply(true, format!("{message}Public key for {print} deleted")),
        Err(error) => reply(
            false,
            format!("{message}Failed to delete public key for {print}: {error}"),
        ),
    })
}
