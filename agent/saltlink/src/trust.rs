//! [`Trust`]: decides if a key is that of the master, before anything that it has signed is used.

use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use link::pki::Pki;
use value::{Map, Value};

use crate::identity::{fingers, place, read_public, unusable};
use crate::rsa_keys::Public;
use crate::{Error, Settings};

/// The name of the remembered master's key.
const REMEMBERED: &str = "minion_master";

/// The keys that this minion trusts.
pub(crate) struct Trust<'a> {
    settings: &'a Settings,
    pki: Pki,
    path: PathBuf,
    /// The remembered master's key; `None` before the first connection.
    pub(crate) remembered: Option<Public>,
}

/// Returns the file of the remembered master's key and its fingerprints, if there is one. Nothing is
/// written.
///
/// # Errors
/// When the file cannot be read, or is no key.
pub fn remembered(settings: &Settings) -> Result<Option<(PathBuf, [String; 2])>, Error> {
    if !settings.pki_dir.is_dir() {
        return Ok(None);
    }
    let trust = Trust::load(settings)?;
    let Some(key) = &trust.remembered else {
        return Ok(None);
    };
    let fingers = fingers(&key.pem(), &settings.hash_type)?;
    Ok(Some((trust.path, fingers)))
}

impl<'a> Trust<'a> {
    /// Reads the remembered key.
    pub(crate) fn load(settings: &'a Settings) -> Result<Self, Error> {
        let pki = Pki::open(&settings.pki_dir)?;
        let path = place(&pki, REMEMBERED, "pub")?;
        Ok(Self {
            settings,
            remembered: read_public(&pki, &path)?,
            pki,
            path,
        })
    }

    /// Returns the key in an answer, if the minion trusts it.
    pub(crate) fn check(&self, answer: &Map, pem: &str) -> Result<Public, Error> {
        let key = Public::from_pem(pem);
        let key = key.map_err(|why| self.distrusted(format!("its key is {why}")))?;
        if let Some(wanted) = &self.settings.master_finger {
            self.check_finger(&key, wanted)?;
        }
        if self.settings.verify_master_pubkey_sign {
            self.check_signature(answer, pem)?;
            return Ok(key);
        }
        match &self.remembered {
            Some(remembered) if *remembered != key => Err(self.differs(&key)?),
            _ => Ok(key),
        }
    }

    fn check_finger(&self, key: &Public, wanted: &str) -> Result<(), Error> {
        let found = fingers(&key.pem(), &self.settings.hash_type)?;
        let is_wanted = |finger: &String| finger.eq_ignore_ascii_case(wanted.trim());
        match found.iter().any(is_wanted) {
            true => Ok(()),
            false => Err(self.distrusted(format!(
                "its key has the fingerprint {}, but master_finger is {wanted}: compare with the \
                 output of `salt-key -F master` on the master",
                found.join(" (Salt 3008: ") + ")"
            ))),
        }
    }

    fn differs(&self, key: &Public) -> Result<Error, Error> {
        let path = self.path.display();
        let found = fingers(&key.pem(), &self.settings.hash_type)?;
        Ok(self.distrusted(format!(
            "its key, with the fingerprint {}, is not the one in {path}: compare with the output of \
             `salt-key -F master` on the master, and remove {path} if the master has a new key",
            found.join(" (Salt 3008: ") + ")"
        )))
    }

    fn distrusted(&self, why: String) -> Error {
        Error::Distrusted {
            master: crate::connection::place(&self.settings.host, self.settings.ret_port),
            why,
        }
    }

    /// Verifies the signature of the master's key by the key in `master_sign_key_name`.pub.
    fn check_signature(&self, answer: &Map, pem: &str) -> Result<(), Error> {
        let name = format!("{}.pub", self.settings.master_sign_key_name);
        let path = self.pki.folder().join(name);
        let Some(signer) = read_public(&self.pki, &path)? else {
            return Err(Error::Key {
                path,
                why: "does not exist, but verify_master_pubkey_sign needs it: copy it from the \
                      master"
                    .to_owned(),
            });
        };
        let signature = answer.get("pub_sig").and_then(Value::as_str);
        let bare: String = signature.unwrap_or_default().split_whitespace().collect();
        let signature = STANDARD.decode(bare).unwrap_or_default();
        if signer.verifies(self.settings.sig_algo, pem.as_bytes(), &signature) {
            return Ok(());
        }
        Err(self.distrusted(format!(
            "its key is not signed by the key in {}, as verify_master_pubkey_sign demands: the \
             master needs the option master_sign_pubkey",
            path.display()
        )))
    }

    /// Remembers the master's key, if it is new or may change.
    pub(crate) fn remember(&self, key: &Public) -> Result<(), Error> {
        if self.remembered.as_ref() == Some(key) {
            return Ok(());
        }
        let pem = key.pem() + "\n";
        if self.remembered.is_some() {
            return Ok(self.pki.replace(&self.path, &pem, 0o644)?);
        }
        if self.pki.create(&self.path, &pem, 0o644)? {
            return Ok(());
        }
        // Another process was faster.
        match read_public(&self.pki, &self.path)? {
            Some(theirs) if theirs == *key => Ok(()),
            _ => Err(unusable(&self.path, &crate::rsa_keys::NotAKey::Other)),
        }
    }
}
