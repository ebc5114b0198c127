//! The `data` execution module: what a minion keeps for its user from call to call. Keys are texts.

use std::path::{Path, PathBuf};

use ::state::exec::Exec;
use ::state::module::Error;
use render::yaml;
use value::json::{self, Layout};
use value::{Map, Value};

use crate::fs::{self, Owner};

::state::exec_module! {
    /// Keep values from call to call.
    mod data;

    /// Forget all of them.
    fn clear(Clear {});

    /// Return all of them.
    fn load(Load {});

    /// Return all of them.
    fn items(Items {});

    /// Return their keys.
    fn keys(Keys {});

    /// Return them without their keys.
    fn values(Values {});

    /// Keep these, and no others.
    fn dump(Dump {
        /// A dictionary, or its text.
        new_data: Value,
    });

    /// Keep one.
    fn update(Update {
        /// Its key.
        key: String,
        /// What to keep.
        value: Value,
    });

    /// Keep one where the key has another now.
    fn cas(Cas {
        /// Its key.
        key: String,
        /// What to keep.
        value: Value,
        /// What the key must have now.
        old_value: Value,
    });

    /// Return one, and forget it.
    fn pop(Pop {
        /// Its key.
        key: String,
        /// What to return where there is none.
        default: Value = Value::Null,
    });

    /// Return one, or those of a list of keys.
    fn get(Get {
        /// The key, or a list of them.
        key: Value,
        /// What to return where there is none.
        default: Value = Value::Null,
    });

    /// Test whether there is one.
    fn has_key(HasKey {
        /// Its key.
        key: String,
    });
}

fn place(cx: &Exec) -> PathBuf {
    cx.opts().cachedir().join("datastore.json")
}

/// A dictionary that a file of the cache holds; empty where there is no such file.
pub(super) fn read(path: &Path) -> Result<Map, Error> {
    let Some(text) = fs::text_or_none(path)? else {
        return Ok(Map::new());
    };
    match json::read(&text) {
        Ok(Value::Map(kept)) => Ok(kept),
        _ => Err(Error::refused(format!(
            "{} holds no dictionary: mend or remove it",
            path.display()
        ))),
    }
}

/// Puts a dictionary into a file of the cache, which only its owner may read.
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

/// Changes what is kept; what `change` returns is the answer.
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
        return Err(Error::refused("new_data is no dictionary".to_owned()));
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
