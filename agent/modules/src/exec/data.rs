//! The `data` execution module: values that a minion stores between calls. The keys are texts.

use std::path::{Path, PathBuf};

use ::state::exec::Exec;
use ::state::module::Error;
use machine::fs::{self, Owner};
use render::yaml;
use value::json::{self, Layout};
use value::{Map, Value};

::state::exec_module! {
    /// Store values between calls.
    mod data;

    /// Remove all values.
    ///
    ///     salt-call data.clear
    fn clear(Clear {});

    /// Return all values with their keys.
    ///
    ///     salt-call data.load
    fn load(Load {});

    /// Return all values with their keys.
    ///
    ///     salt-call data.items
    fn items(Items {});

    /// Return all keys.
    ///
    ///     salt-call data.keys
    fn keys(Keys {});

    /// Return all values without their keys.
    ///
    ///     salt-call data.values
    fn values(Values {});

    /// Replace all stored values.
    ///
    ///     salt-call data.dump '{port: 8080}'
    fn dump(Dump {
        /// The new values: a dictionary, or its text.
        new_data: Value,
    });

    /// Store a value.
    ///
    ///     salt-call data.update port 8080
    fn update(Update {
        /// The key.
        key: String,
        /// The value to store.
        value: Value,
    });

    /// Store a value if the key currently has the expected value.
    ///
    ///     salt-call data.cas port 8081 8080
    fn cas(Cas {
        /// The key.
        key: String,
        /// The value to store.
        value: Value,
        /// The expected current value.
        old_value: Value,
    });

    /// Remove a value and return it.
    ///
    ///     salt-call data.pop port
    fn pop(Pop {
        /// The key.
        key: String,
        /// The value to return if the key does not exist.
        default: Value = Value::Null,
    });

    /// Return the value of a key, or the values of a list of keys.
    ///
    ///     salt-call data.get port
    fn get(Get {
        /// The key, or a list of keys.
        key: Value,
        /// The value to return if the key does not exist.
        default: Value = Value::Null,
    });

    /// Return whether a key exists.
    ///
    ///     salt-call data.has_key port
    fn has_key(HasKey {
        /// The key.
        key: String,
    });
}

fn place(cx: &Exec) -> PathBuf {
    cx.opts().cachedir().join("datastore.json")
}

/// Reads a dictionary from a file of the cache. Returns an empty one if the file does not exist.
pub(super) fn read(path: &Path) -> Result<Map, Error> {
    let Some(text) = fs::text_or_none(path)? else {
        return Ok(Map::new());
    };
    match json::read(&text) {
        Ok(Value::Map(kept)) => Ok(kept),
        _ => Err(Error::refused(format!(
            "{} does not contain a JSON dictionary: repair or delete it",
            path.display()
        ))),
    }
}

/// Writes a dictionary to a file of the cache that only its owner can read.
pub(super) fn write(cx: &Exec, path: &Path, kept: Map) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(path);
    fs::mkdirs_private(cx, folder).map_err(Error::io(folder))?;
    let text = json::write(&kept.into(), Layout::default());
    let owner = Owner {
        mode: Some(0o600),
        ..Owner::default()
    };
    fs::write(cx, path, text.as_bytes(), owner)
}

fn kept(cx: &Exec) -> Result<Map, Error> {
    read(&place(cx))
}

/// Changes the stored values with `change`, and returns the result of `change`.
fn changed<T>(cx: &Exec, change: impl FnOnce(&mut Map) -> T) -> Result<T, Error> {
    let mut store = kept(cx)?;
    let answer = change(&mut store);
    write(cx, &place(cx), store)?;
    Ok(answer)
}

fn clear(cx: &Exec, _args: Clear) -> Result<Value, Error> {
    write(cx, &place(cx), Map::new())?;
    Ok(true.into())
}

fn load(cx: &Exec, _args: Load) -> Result<Value, Error> {
    Ok(kept(cx)?.into())
}

fn items(cx: &Exec, _args: Items) -> Result<Value, Error> {
    Ok(kept(cx)?.into())
}

fn keys(cx: &Exec, _args: Keys) -> Result<Value, Error> {
    Ok(Value::list(kept(cx)?.keys().cloned()))
}

fn values(cx: &Exec, _args: Values) -> Result<Value, Error> {
    Ok(Value::list(kept(cx)?.values().cloned()))
}

fn dump(cx: &Exec, args: Dump) -> Result<Value, Error> {
    let given = match args.new_data.as_str() {
        Some(text) => yaml::load(text).unwrap_or_default(),
        None => args.new_data,
    };
    let Value::Map(all) = given else {
        return Err(Error::refused("new_data must be a dictionary".to_owned()));
    };
    write(cx, &place(cx), all)?;
    Ok(true.into())
}

fn update(cx: &Exec, args: Update) -> Result<Value, Error> {
    changed(cx, |store| {
        store.insert(args.key, args.value);
        true.into()
    })
}

fn cas(cx: &Exec, args: Cas) -> Result<Value, Error> {
    if kept(cx)?.get(&args.key) != Some(&args.old_value) {
        return Ok(false.into());
    }
    changed(cx, |store| {
        store.insert(args.key, args.value);
        true.into()
    })
}

fn pop(cx: &Exec, args: Pop) -> Result<Value, Error> {
    changed(cx, |store| store.remove(&args.key).unwrap_or(args.default))
}

fn get(cx: &Exec, args: Get) -> Result<Value, Error> {
    let store = kept(cx)?;
    let Some(keys) = args.key.as_list() else {
        let kept = store.get(&args.key.to_text()).cloned();
        return Ok(kept.unwrap_or(args.default));
    };
    let found = keys.iter().filter_map(|key| {
        let default = Some(args.default.clone()).filter(|default| !default.is_null());
        store.get(&key.to_text()).cloned().or(default)
    });
    Ok(Value::list(found))
}

fn has_key(cx: &Exec, args: HasKey) -> Result<Value, Error> {
    Ok(kept(cx)?.contains(&args.key).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn what_is_kept_is_there_for_later_calls_and_what_is_damaged_is_no_empty_store() {
        let folder = tempfile::tempdir().unwrap();
        let opts = Map::new().with("cachedir", folder.path().to_string_lossy().as_ref());
        let cx = testing::exec_with(opts, Map::new());
        let call = |fun: &str, args: &[&str]| {
            let args = args.iter().map(|arg| Value::from(*arg)).collect();
            cx.call(fun, args, Map::new())
        };
        let done = |fun: &str, args: &[&str]| call(fun, args).unwrap().to_text();
        assert_eq!(done("data.update", &["foo", "bar"]), "True");
        assert_eq!(done("data.get", &["foo"]), "bar");
        assert_eq!(done("data.cas", &["foo", "new", "old"]), "False");
        assert_eq!(done("data.cas", &["foo", "new", "bar"]), "True");
        assert_eq!(done("data.items", &[]), "{'foo': 'new'}");
        assert_eq!(done("data.pop", &["foo", "none"]), "new");
        assert_eq!(done("data.pop", &["foo", "none"]), "none");
        assert_eq!(done("data.has_key", &["foo"]), "False");
        std::fs::write(place(&cx), "{").unwrap();
        assert!(call("data.load", &[]).is_err());
        assert!(call("data.update", &["a", "b"]).is_err());
    }
}
