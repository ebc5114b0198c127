//! Hashes of a plan that holds secrets. All else that goes into them stands beside them, so a short secret could be tried out; they are
//! made with a key that lies on this machine and not in the plan.

use std::io::ErrorKind;
use std::sync::OnceLock;

use modules::fs::{self, Owner};
use state::exec::Exec;
use state::module::Error;
use state::record;
use value::{Map, Value, python, random, secret, trust};

/// Where the key lies, below `cachedir`.
const FILE: &str = "plan.key";

/// How many bytes it has.
const LENGTH: usize = 32;

/// The key; none where the plan holds no secrets.
static KEY: OnceLock<Option<String>> = OnceLock::new();

/// Decides once whether the hashes of this program are made with a key: when all has been compiled.
///
/// # Errors
/// When the key can be neither read nor made.
pub(crate) fn decide(cx: &Exec) -> Result<(), Error> {
    if KEY.get().is_none() {
        let key = secret::is_any().then(|| key(cx)).transpose()?;
        let _ = KEY.set(key);
    }
    Ok(())
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

/// A hash as it stands in the plan.
pub(crate) fn hash(hash: &str) -> String {
    match KEY.get() {
        Some(Some(key)) => crate::hash([key, hash].concat().as_bytes()),
        _ => hash.to_owned(),
    }
}

/// All hashes of a dictionary.
pub(crate) fn hashes(map: &Map) -> Map {
    let entries = map.iter();
    entries
        .map(|(key, hashed)| (key.clone(), Value::from(hash(&hashed.to_text()))))
        .collect()
}

/// What lies at a path, with its hashes as they stand in the plan.
pub(crate) fn image(found: &Value) -> Value {
    match found {
        Value::Map(map) => {
            let entries = map.iter().map(|(key, value)| match key.as_str() {
                Some("sha256") => (key.clone(), Value::from(hash(&value.to_text()))),
                _ => (key.clone(), image(value)),
            });
            Value::Map(entries.collect())
        }
        other => other.clone(),
    }
}
