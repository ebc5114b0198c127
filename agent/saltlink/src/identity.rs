//! [`Identity`]: the minion's RSA key, and the place of keys in `pki_dir`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use link::pki::Pki;

use crate::publication::Serials;
use crate::rsa_keys::{NotAKey, Private, Public};
use crate::{Error, Settings};

/// The part of a file name that distinguishes an RSA key from a key of another program in the same
/// folder.
const BESIDE: &str = "rsa";
/// The message that the token of each request signs.
const TOKEN: &[u8] = b"salt";

/// The RSA key of the minion. A clone is cheap.
#[derive(Clone)]
pub struct Identity(Arc<Inner>);

struct Inner {
    key: Private,
    pem: String,
    path: PathBuf,
    token: Vec<u8>,
    serials: Mutex<Serials>,
}

impl Identity {
    /// Reads `minion.pem` of the folder `pki_dir`, in either of the forms that Salt writes. Creates
    /// the key (`keysize`) if there is none, which takes seconds on a small machine, and writes
    /// `minion.pub`. If a key of Pinch has that name, the file is `minion.rsa.pem`.
    ///
    /// # Errors
    /// When a file cannot be read or written, can be read by other users, or is no such key.
    pub fn load(settings: &Settings) -> Result<Self, Error> {
        let pki = Pki::open(&settings.pki_dir)?;
        let path = place(&pki, "minion", "pem")?;
        let key = match read_private(&pki, &path)? {
            Some(key) => key,
            None => make(&pki, &path, settings.keysize)?,
        };
        let pem = key.public().pem();
        write_public(&pki, &path.with_extension("pub"), &pem)?;
        let token = key.sign(TOKEN).map_err(|why| unusable(&path, &why))?;
        Ok(Self(Arc::new(Inner {
            key,
            pem,
            path,
            token,
            serials: Mutex::default(),
        })))
    }

    /// Returns the file of the key and its fingerprints, if there is one. Nothing is written.
    ///
    /// # Errors
    /// As [`Identity::load`].
    pub fn find(settings: &Settings) -> Result<Option<(PathBuf, [String; 2])>, Error> {
        if !settings.pki_dir.is_dir() {
            return Ok(None);
        }
        let pki = Pki::open(&settings.pki_dir)?;
        let path = place(&pki, "minion", "pem")?;
        match read_private(&pki, &path)? {
            Some(key) => {
                let fingers = fingers(&key.public().pem(), &settings.hash_type)?;
                Ok(Some((path, fingers)))
            }
            None => Ok(None),
        }
    }

    /// Returns the public half as PEM, without a newline at its end.
    #[must_use]
    pub fn public_pem(&self) -> &str {
        &self.0.pem
    }

    /// Returns the file of the private half.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Returns the fingerprints of the public half, as `salt-key -f` prints them: a master of 3006 or
    /// 3007 prints the first one, and one of 3008 the second one.
    ///
    /// # Errors
    /// When the type of hash is unknown.
    pub fn fingers(&self, hash_type: &str) -> Result<[String; 2], Error> {
        fingers(&self.0.pem, hash_type)
    }

    pub(crate) fn key(&self) -> &Private {
        &self.0.key
    }

    /// The token that is a part of each request: always the same signature.
    pub(crate) fn token(&self) -> &[u8] {
        &self.0.token
    }

    /// The numbers of the last publications, which outlive a session.
    pub(crate) fn serials(&self) -> std::sync::MutexGuard<'_, Serials> {
        self.0
            .serials
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.0.path.display())
    }
}

/// Returns the fingerprints of a key in PEM. The first is that of the lines between its first and
/// last, by which Salt's minion compares. `salt-key` of Salt 3008 prints that of the whole text.
pub(crate) fn fingers(pem: &str, hash_type: &str) -> Result<[String; 2], Error> {
    let unknown = |error| Error::Local(format!("hash_type: {error}"));
    let inner = machine::hashes::pem_finger(pem, hash_type).map_err(unknown)?;
    let whole = machine::hashes::finger(pem.as_bytes(), hash_type).map_err(unknown)?;
    Ok([inner, whole])
}

/// Returns the path of an RSA key of this name: the plain one, unless another kind of key has it.
pub(crate) fn place(pki: &Pki, name: &str, extension: &str) -> Result<PathBuf, Error> {
    let beside = pki.folder().join(format!("{name}.{BESIDE}.{extension}"));
    let plain = pki.folder().join(format!("{name}.{extension}"));
    if beside.exists() {
        return Ok(beside);
    }
    let text = match extension {
        "pem" => pki.read_private(&plain)?,
        _ => pki.read_public(&plain)?,
    };
    let is_ours = text.is_some_and(|text| is_ours(&text));
    Ok(if is_ours { beside } else { plain })
}

/// Returns whether this is a key of Pinch in PEM.
fn is_ours(text: &[u8]) -> bool {
    link::PublicKey::from_pem(text).is_ok() || link::KeyPair::from_pem(text).is_ok()
}

pub(crate) fn unusable(path: &Path, why: &NotAKey) -> Error {
    Error::Key {
        path: path.to_owned(),
        why: why.to_string(),
    }
}

fn read_private(pki: &Pki, path: &Path) -> Result<Option<Private>, Error> {
    let Some(bytes) = pki.read_private(path)? else {
        return Ok(None);
    };
    let key = Private::from_pem(&String::from_utf8_lossy(&bytes));
    key.map(Some).map_err(|why| unusable(path, &why))
}

/// Reads a public key; `None` if there is no such file.
pub(crate) fn read_public(pki: &Pki, path: &Path) -> Result<Option<Public>, Error> {
    let Some(bytes) = pki.read_public(path)? else {
        return Ok(None);
    };
    let key = Public::from_pem(&String::from_utf8_lossy(&bytes));
    key.map(Some).map_err(|why| unusable(path, &why))
}

fn make(pki: &Pki, path: &Path, bits: u32) -> Result<Private, Error> {
    let unusable = |why: NotAKey| unusable(path, &why);
    let key = Private::generate(bits).map_err(unusable)?;
    if pki.create(path, &key.to_pem().map_err(unusable)?, 0o400)? {
        return Ok(key);
    }
    // Another process was faster, so its key is used.
    read_private(pki, path)?.ok_or_else(|| unusable(NotAKey::Other))
}

/// Writes the public half, if it is missing or that of another key.
fn write_public(pki: &Pki, path: &Path, pem: &str) -> Result<(), Error> {
    let text = pki.read_public(path)?;
    if text.is_some_and(|text| text.trim_ascii() == pem.as_bytes()) {
        return Ok(());
    }
    Ok(pki.replace(path, &format!("{pem}\n"), 0o644)?)
}
