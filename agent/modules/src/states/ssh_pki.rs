//! The `ssh_pki` state module.

use std::path::Path;

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::x509::file::{File, Plan, error_as_failure};
use crate::exec::ssh_pki::certificate::{Certificate, Use};
use crate::exec::ssh_pki::draft::{Draft, merge, signer};
use crate::exec::ssh_pki::private::{Private, Refusal};
use crate::exec::ssh_pki::public::Public;
use crate::exec::ssh_pki::{is_over, public_key};
use crate::exec::x509::format::containers::Encoding;
use crate::exec::x509::format::pem;

state::state_module! {
    /// Manage keys and certificates of OpenSSH.
    #[needs("openssl", "The program openssl is not in the path: install it")]
    #[facts(effects = Effects::Files(&[]), free_arguments = true)]
    mod ssh_pki;

    /// Make sure that a certificate exists, has the given properties, and does not expire soon. The
    /// other keywords are arguments of `file.managed`.
    ///
    ///     /etc/ssl/web-cert.pub:
    ///       ssh_pki.certificate_managed:
    ///         - signing_private_key: /etc/ssl/ssh_ca
    ///         - public_key: /etc/ssl/alice.pub
    ///         - cert_type: host
    ///         - valid_principals: [web.example.com]
    fn certificate_managed(CertificateManaged {
        /// The file.
        name: String,
        /// The minimum validity that remains, in seconds or as a text such as `12d`. With less left
        /// the certificate is created again. Default: 7 days for hosts, 1 hour for users.
        ttl_remaining: Value = Value::Null,
        /// The minion that signs. Default: this one.
        ca_server: Option<String> = None,
        /// The execution module that creates the certificate. Default: `ssh_pki`.
        backend: Option<String> = None,
        /// Further arguments of the functions of this module.
        backend_args: Value = Value::Null,
        /// The signing policy. Its settings take precedence over all others.
        signing_policy: Option<String> = None,
        /// The folder for a copy of each new certificate, whose name is the serial number.
        copypath: Value = Value::Null,
        /// `user` or `host`.
        cert_type: Value = Value::Null,
        /// The private key that signs.
        signing_private_key: Value = Value::Null,
        /// The passphrase of the signing key.
        signing_private_key_passphrase: Value = Value::Null,
        /// The public key of the certificate.
        public_key: Value = Value::Null,
        /// The private key of the certificate.
        private_key: Value = Value::Null,
        /// The passphrase of the private key.
        private_key_passphrase: Value = Value::Null,
        /// The serial number. Default: a random number.
        serial_number: Value = Value::Null,
        /// The time at which it becomes valid, in UTC: `2026-01-31 12:00:00`.
        not_before: Value = Value::Null,
        /// The time at which it expires.
        not_after: Value = Value::Null,
        /// The period for which it is valid, in seconds or as a text such as `30d`. Default: 30 days
        /// for hosts, 1 day for users.
        ttl: Value = Value::Null,
        /// Critical options and their values; True for those without a value.
        critical_options: Value = Value::Null,
        /// Extensions and their values; True for those without a value.
        extensions: Value = Value::Null,
        /// The names of the users or hosts.
        valid_principals: Value = Value::Null,
        /// True to make the certificate valid for all names.
        all_principals: bool = false,
        /// The text that is logged when the certificate is used.
        key_id: Value = Value::Null,
        ..kwargs
    });

    /// Make sure that a private key exists. The other keywords are arguments of `file.managed`.
    /// Default mode: 0400.
    ///
    ///     /etc/ssl/ssh_key:
    ///       ssh_pki.private_key_managed:
    ///         - algo: ed25519
    fn private_key_managed(PrivateKeyManaged {
        /// The file.
        name: String,
        /// The type of the key: `rsa`, `ec` or `ed25519`.
        algo: String = "rsa".into(),
        /// The size of the key in bits: 2048, 3072, 4096 for RSA; 256, 384, 521 for EC.
        keysize: Option<i64> = None,
        /// The passphrase that encrypts the key.
        passphrase: Option<String> = None,
        /// True to create a new key in any case.
        new: bool = false,
        /// True to create a new key if the file cannot be read with the passphrase.
        overwrite: bool = false,
        ..kwargs
    });

    /// Make sure that a file contains a public key. The other keywords are arguments of
    /// `file.managed`.
    ///
    ///     /etc/ssl/ssh_ca.pub:
    ///       ssh_pki.public_key_managed:
    ///         - public_key_source: /etc/ssl/ssh_ca
    fn public_key_managed(PublicKeyManaged {
        /// The file.
        name: String,
        /// The key, or a certificate of it.
        public_key_source: Value,
        /// The passphrase of an encrypted private key.
        passphrase: Option<String> = None,
        ..kwargs
    });
}

/// The backend whose functions are in this program.
const OWN: &str = "ssh_pki";

/// Refuses arguments that nothing uses.
fn unknown(kwargs: &Map) -> Result<(), Error> {
    let names: Vec<String> = kwargs.keys().map(Value::to_text).collect();
    match names.is_empty() {
        true => Ok(()),
        false => Err(Error::refused(format!(
            "The following keyword arguments are invalid: {}",
            names.join(", ")
        ))),
    }
}

fn certificate_managed(cx: &Exec, mut args: CertificateManaged) -> Result<Ret, Error> {
    let mut kwargs = std::mem::take(&mut args.kwargs);
    let name = args.name.clone();
    let file = File::from_kwargs(cx, &name, "certificate", &mut kwargs);
    unknown(&kwargs)?;
    let wanted = Wanted::from_arguments(args);
    error_as_failure(file.run(|there| wanted.plan(cx, there)))
}

/// The wanted properties of a certificate.
struct Wanted {
    name: String,
    ttl_remaining: Value,
    ca_server: Option<String>,
    backend: String,
    backend_args: Map,
    signing_policy: Option<String>,
    copypath: Value,
    /// The arguments of `create_certificate`.
    all: Map,
}

impl Wanted {
    fn from_arguments(args: CertificateManaged) -> Self {
        let all = [
            ("cert_type", args.cert_type),
            ("signing_private_key", args.signing_private_key),
            (
                "signing_private_key_passphrase",
                args.signing_private_key_passphrase,
            ),
            ("public_key", args.public_key),
            ("private_key", args.private_key),
            ("private_key_passphrase", args.private_key_passphrase),
            ("serial_number", args.serial_number),
            ("not_before", args.not_before),
            ("not_after", args.not_after),
            ("ttl", args.ttl),
            ("critical_options", args.critical_options),
            ("extensions", args.extensions),
            ("valid_principals", args.valid_principals),
            ("all_principals", args.all_principals.into()),
            ("key_id", args.key_id),
        ];
        let backend = args.backend.filter(|backend| !backend.is_empty());
        Self {
            name: args.name,
            ttl_remaining: args.ttl_remaining,
            ca_server: args.ca_server,
            backend: backend.unwrap_or_else(|| OWN.to_owned()),
            backend_args: args.backend_args.as_map().cloned().unwrap_or_default(),
            signing_policy: args.signing_policy,
            copypath: args.copypath,
            all: all.into_iter().collect(),
        }
    }

    fn plan<'a>(self, cx: &'a Exec, file: Option<&Path>) -> Result<Plan<'a>, Error> {
        let mut changes = Map::new();
        let current = match file {
            Some(path) => {
                let current = Certificate::found(cx, &path.display().to_string().into())?;
                match &current {
                    Some(current) => changes = self.changes(cx, current)?,
                    None => drop(changes.insert("replaced", self.name.as_str())),
                }
                current
            }
            None => {
                changes.insert("created", self.name.as_str());
                None
            }
        };
        Ok(Plan {
            is_there: current.is_some(),
            encoding: Encoding::Pem,
            encrypts: false,
            changes,
            make: Box::new(move || self.created(cx)),
        })
    }

    /// Calls a function of the backend.
    fn call(
        &self,
        cx: &Exec,
        function: &str,
        args: Vec<Value>,
        kwargs: Map,
    ) -> Result<Value, Error> {
        let mut kwargs = kwargs.with("ca_server", self.ca_server.clone());
        kwargs.update(self.backend_args.clone());
        cx.call_internal(&format!("{}.{function}", self.backend), args, kwargs)
    }

    fn created(&self, cx: &Exec) -> Result<Vec<u8>, Error> {
        let mut kwargs = self.all.clone();
        kwargs.insert("signing_policy", self.signing_policy.clone());
        kwargs.insert("copypath", self.copypath.clone());
        let line = self.call(cx, "create_certificate", Vec::new(), kwargs)?;
        Ok(line.to_text().into_bytes())
    }

    /// Returns how an existing certificate differs from the wanted one.
    fn changes(&self, cx: &Exec, current: &Certificate) -> Result<Map, Error> {
        let policy = vec![self.signing_policy.clone().into()];
        let policy = self.call(cx, "get_signing_policy", policy, Map::new())?;
        let mut changes = Map::new();
        let remaining = match (&self.ttl_remaining, current.contents.cert_type) {
            (Value::Null, Use::User) => "1h".into(),
            (Value::Null, Use::Host) => "7d".into(),
            (given, _) => given.clone(),
        };
        if is_over(current, &remaining)? {
            changes.insert("expiration", true);
        }
        let mut all = self.all.clone();
        merge(&mut all, policy.as_map().cloned().unwrap_or_default())?;
        let authority = self.authority(cx, &mut all)?;
        all.remove("copypath");
        let draft = Draft::from_arguments(cx, &all)?;
        let serial = self.all.get("serial_number").cloned().unwrap_or_default();
        changes.update(draft.changes(cx, current, &authority, &serial)?);
        Ok(changes)
    }

    /// Returns the public key of the authority, which another machine delivers with its policy.
    fn authority(&self, cx: &Exec, all: &mut Map) -> Result<Public, Error> {
        if self.ca_server.is_none() && self.backend == OWN {
            if !all.get("signing_private_key").is_some_and(Value::is_true) {
                return Err("signing_private_key is required - this is most likely a bug".into());
            }
            return Ok(signer(cx, all)?.public);
        }
        let key = all.remove("signing_public_key");
        let key =
            key.ok_or("The remote CA server or backend module did not deliver the CA pubkey")?;
        Public::load(&key)
    }
}

fn private_key_managed(cx: &Exec, mut args: PrivateKeyManaged) -> Result<Ret, Error> {
    let mut kwargs = std::mem::take(&mut args.kwargs);
    let name = args.name.clone();
    let mut file = File::from_kwargs(cx, &name, "private key", &mut kwargs);
    unknown(&kwargs)?;
    if !file.args.get("mode").is_some_and(Value::is_true) {
        file.args.insert("mode", "0400");
    }
    if args.keysize.is_some_and(|size| size != 0) && args.algo == "ed25519" {
        return Ok(Ret::failed("keysize is an invalid parameter for ed25519"));
    }
    error_as_failure(file.run(|there| key_plan(cx, args, there)))
}

fn key_plan<'a>(
    cx: &'a Exec,
    args: PrivateKeyManaged,
    file: Option<&Path>,
) -> Result<Plan<'a>, Error> {
    let mut changes = Map::new();
    let current = match file.filter(|_| !args.new) {
        Some(path) => current_key(cx, &args, path, &mut changes)?,
        None => None,
    };
    match &current {
        Some(current) => changes.update(key_changes(&args, current)),
        None if file.is_some() => drop(changes.insert("replaced", args.name.as_str())),
        None => drop(changes.insert("created", args.name.as_str())),
    }
    let encrypts = current.is_some() && changes.len() == 1 && changes.contains("passphrase");
    Ok(Plan {
        is_there: file.is_some(),
        encoding: Encoding::Pem,
        encrypts,
        changes,
        make: Box::new(move || {
            let size = match args.algo.as_str() {
                "rsa" => args.keysize.or(Some(3072)),
                _ => args.keysize,
            };
            let key = match current.filter(|_| encrypts) {
                Some(current) => current,
                None => Private::generate(cx, &args.algo, size)?,
            };
            Ok(key.text(cx, args.passphrase.as_deref())?.into_bytes())
        }),
    })
}

/// Returns the key in a file, read with the passphrase.
fn current_key(
    cx: &Exec,
    args: &PrivateKeyManaged,
    path: &Path,
    changes: &mut Map,
) -> Result<Option<Private>, Error> {
    let place = Value::from(path.display().to_string());
    let refusal = match Private::load_or_refusal(cx, &place, args.passphrase.as_deref()) {
        Ok(private) => return Ok(Some(private)),
        Err(Refusal::NotEncrypted) => {
            changes.insert("passphrase", true);
            return Private::load(cx, &place, None).map(Some);
        }
        Err(Refusal::Other(error)) => return Err(error),
        Err(refusal) => refusal,
    };
    let why = match refusal {
        Refusal::WrongPassphrase => {
            "The provided passphrase cannot decrypt the private key. Pass overwrite: true to force regeneration"
        }
        Refusal::NoPassphrase => {
            "The current key is encrypted with a passphrase. Pass overwrite: true to force regeneration"
        }
        _ => {
            "The existing file does not seem to be a private key. Pass overwrite: true to force regeneration"
        }
    };
    if !args.overwrite {
        return Err(why.into());
    }
    if !matches!(refusal, Refusal::NoKey) {
        changes.insert("passphrase", true);
    }
    Ok(None)
}

fn key_changes(args: &PrivateKeyManaged, current: &Private) -> Map {
    let mut changes = Map::new();
    let wanted = args.keysize.or(match args.algo.as_str() {
        "rsa" => Some(3072),
        "ec" => Some(256),
        _ => None,
    });
    let key = &current.public;
    if args.algo != key.kind.name() {
        changes.insert("algo", args.algo.as_str());
    } else if args.algo != "ed25519" && key.size() != wanted {
        changes.insert("keysize", wanted);
    }
    changes
}

fn public_key_managed(cx: &Exec, mut args: PublicKeyManaged) -> Result<Ret, Error> {
    let name = args.name;
    let file = File::from_kwargs(cx, &name, "public key", &mut args.kwargs);
    unknown(&args.kwargs)?;
    let wanted = public_key(cx, &args.public_key_source, args.passphrase.as_deref());
    error_as_failure(wanted_public_key(cx, &file, Path::new(&name), wanted))
}

fn wanted_public_key(
    cx: &Exec,
    file: &File<'_>,
    path: &Path,
    wanted: Result<Public, Error>,
) -> Result<Ret, Error> {
    let follows = file.args.get("follow_symlinks").is_none_or(Value::is_true);
    let is_replaced = path.is_symlink() && !follows;
    let (wanted, missing) = match wanted {
        Ok(wanted) => (Some(wanted), None),
        // In test mode another state may be about to create the source.
        Err(error) if cx.test => (None, Some(error)),
        Err(error) => return Err(error),
    };
    let is_there = !is_replaced && path.is_file();
    let current = match is_there {
        true => Some(Public::load(&Value::Bytes(pem::file(path)?.into()))?),
        false => None,
    };
    let name = path.display().to_string();
    let verb = if is_there { "update" } else { "create" };
    if current.is_some() && current == wanted {
        let part = file.managed(cx, false, None)?;
        let ret = Ret::ok("The public key is in the correct state");
        return Ok(placed(file, ret, part, true));
    }
    let changes = Map::new().with(&format!("{verb}d"), name);
    if cx.test {
        let note = match missing {
            Some(_) => {
                ". Note that the source could not be loaded, so this assessment relies on the source being created beforehand"
            }
            None => "",
        };
        let comment = format!("The public key would have been {verb}d{note}");
        return Ok(Ret::would(comment).changes(changes));
    }
    if is_replaced {
        machine::fs::remove(cx, path).map_err(Error::io(path))?;
    }
    let line = wanted.map(|wanted| wanted.line());
    let part = file.managed(cx, true, line.as_deref())?;
    let ret = Ret::ok(format!("The public key has been {verb}d")).changes(changes);
    Ok(placed(file, ret, part, is_there))
}

/// Returns the return of a file, which is a failure if `file.managed` failed.
fn placed(file: &File<'_>, ret: Ret, part: Ret, is_there: bool) -> Ret {
    if part.result != Some(false) {
        return file.with_part(ret, part);
    }
    let verb = if is_there { "update" } else { "create" };
    let why = format!("Could not {verb} file, see file.managed output");
    file.with_part(Ret::failed(why), part)
}
