//! Hashes for plans that contain secrets. Everything else that is hashed together with a secret is
//! in the plan, so anyone could find a short secret by trial. Such hashes are therefore made with a
//! key that is on this machine and not in the plan.

use std::io::ErrorKind;

use machine::fs::{self, Owner};
use state::exec::Exec;
use state::module::Error;
use state::record;
use value::{Map, Value, python, random, secret, trust};

/// The name of the key's file, below `cachedir`.
const FILE: &str = "plan.key";

/// The length of the key in bytes.
const LENGTH: usize = 32;

/// The key of a plan's hashes; `None` if the plan contains no secrets.
#[derive(Debug, Default)]
pub(crate) struct KeyedHash(Option<String>);

impl KeyedHash {
    /// Decides whether the hashes of a plan are made with a key. Call it after everything is
    /// compiled.
    ///
    /// # Errors
    /// When the key can be neither read nor created.
    pub(crate) fn decide(cx: &Exec) -> Result<Self, Error> {
        Ok(Self(secret::is_any().then(|| key(cx)).transpose()?))
    }

    /// Returns the form of a hash that the plan contains.
    pub(crate) fn hash(&self, hash: &str) -> String {
        match &self.0 {
            Some(key) => crate::hash([key, hash].concat().as_bytes()),
            None => hash.to_owned(),
        }
    }

    /// Converts all hashes of a dictionary to the form that the plan contains.
    pub(crate) fn hashes(&self, map: &Map) -> Map {
        let entries = map.iter();
        entries
            .map(|(key, hashed)| (key.clone(), Value::from(self.hash(&hashed.to_text()))))
            .collect()
    }

    /// Returns a path's description, with its hashes in the form that the plan contains.
    pub(crate) fn image(&self, found: &Value) -> Value {
        match found {
            Value::Map(map) => {
                let entries = map.iter().map(|(key, value)| match key.as_str() {
                    Some("sha256") => (key.clone(), Value::from(self.hash(&value.to_text()))),
                    _ => (key.clone(), self.image(value)),
                });
                Value::Map(entries.collect())
            }
            other => other.clone(),
        }
    }
}

fn key(cx: &Exec) -> Result<String, Error> {
    let path = cx.opts().cachedir().join(FILE);
    if path.exists() {
        record::trusted(&path)?;
    }
    match std::fs::read_to_string(&path) {
        Ok(key) if key.len() == 2 * LENGTH => return Ok(key),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(Error::io(&path)(error)),
        _ => {}
    }
    let key = python::hex(&random::array::<LENGTH>()?);
    let owner = Owner {
        mode: Some(0o600),
        ..Owner::default()
    };
    let folder = cx.opts().cachedir();
    trust::folder(&folder).map_err(Error::io(&folder))?;
    fs::write(cx, &path, key.as_bytes(), owner)?;
    Ok(key)
}
