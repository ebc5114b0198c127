//! The `environ` execution module: reads and sets environment variables.
//!
//! The environment of this process never changes. Changes are stored in the context of the run, and
//! commands get their environment from there.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Support for getting and setting the environment of the current process.
    mod environ;

    /// Set a single environment variable. Return its value, or False.
    ///
    ///     salt-call environ.setval LANG C.UTF-8
    fn setval(Setval {
        /// The name of the variable.
        key: String,
        /// The value of the variable. False empties it.
        val: Value,
        /// True if a value of False removes the variable.
        false_unsets: bool = false,
        /// Accepted and ignored: it concerns Windows.
        permanent: bool = false,
    });

    /// Set several environment variables.
    ///
    ///     salt-call environ.setenv '{LANG: C.UTF-8, EDITOR: vim}'
    fn setenv(Setenv {
        /// A dictionary of names and values. A value of False empties a variable.
        environ: Value,
        /// True if a value of False removes a variable.
        false_unsets: bool = false,
        /// True to remove all other variables.
        clear_all: bool = false,
        /// Accepted and ignored: there is no separate minion process here.
        update_minion: bool = false,
        /// Accepted and ignored: it concerns Windows.
        permanent: bool = false,
    });

    /// Get a single environment variable.
    ///
    ///     salt-call environ.get PATH
    #[facts(pure = true)]
    fn get(Get {
        /// The name of the variable.
        key: Value,
        /// The value to return for a variable that is not set.
        default: Value = "".into(),
    });

    /// Return True if a variable is set; with `value`, only if it has this value.
    ///
    ///     salt-call environ.has_value PATH
    #[facts(pure = true)]
    fn has_value(HasValue {
        /// The name of the variable.
        key: Value,
        /// The expected value.
        value: Option<String> = None,
    });

    /// Get one or more environment variables.
    ///
    ///     salt-call environ.item '[LANG, EDITOR]'
    fn item(Item {
        /// The name, or a list of names.
        keys: Value,
        /// The value to return for a variable that is not set.
        default: Value = "".into(),
    });

    /// Return all environment variables.
    ///
    ///     salt-call environ.items
    fn items(Items {});
}

/// The key of the run's context that stores the changes: a text, or null for a removed variable.
const CONTEXT: &str = "environ";

/// Returns the environment that commands get.
pub(crate) fn all(cx: &Exec) -> Map {
    let mut all: Map = std::env::vars_os()
        .map(|(key, value)| {
            let text = |os: std::ffi::OsString| os.to_string_lossy().into_owned();
            (text(key), text(value))
        })
        .collect();
    let set = cx.context(|context| context.get(CONTEXT).and_then(Value::as_map).cloned());
    for (key, value) in set.unwrap_or_default() {
        if value.is_null() {
            all.remove_value(&key);
        } else {
            all.insert(key, value);
        }
    }
    all
}

fn keep(cx: &Exec, key: &str, value: Value) {
    cx.context(|context| {
        let kept = context.entry(CONTEXT, || Map::new().into());
        if let Some(kept) = kept.as_map_mut() {
            kept.insert(key, value);
        }
    });
}

/// Sets a variable, and returns what Salt returns.
fn set(cx: &Exec, key: &str, val: &Value, false_unsets: bool) -> Value {
    match val {
        Value::Bool(false) if false_unsets => {
            keep(cx, key, Value::Null);
            Value::Null
        }
        Value::Bool(false) => {
            keep(cx, key, "".into());
            "".into()
        }
        Value::Str(_) => {
            keep(cx, key, val.clone());
            val.clone()
        }
        _ => false.into(),
    }
}

fn setval(cx: &Exec, args: Setval) -> Result<Value, Error> {
    Ok(set(cx, &args.key, &args.val, args.false_unsets))
}

fn setenv(cx: &Exec, args: Setenv) -> Result<Value, Error> {
    let Some(environ) = args.environ.as_map() else {
        return Ok(false.into());
    };
    Ok(set_all(cx, environ, args.false_unsets, args.clear_all))
}

/// Runs `environ.setenv`.
pub(crate) fn set_all(cx: &Exec, environ: &Map, false_unsets: bool, clear_all: bool) -> Value {
    let mut done = Map::new();
    if clear_all {
        for key in all(cx).keys().filter(|key| !environ.contains_value(key)) {
            let result = set(cx, &key.to_text(), &false.into(), false_unsets);
            done.insert(key.clone(), result);
        }
    }
    for (key, val) in environ {
        if !matches!(val, Value::Str(_) | Value::Bool(false)) {
            return false.into();
        }
        let result = set(cx, &key.to_text(), val, false_unsets);
        done.insert(key.clone(), result);
    }
    done.into()
}

fn get(cx: &Exec, args: Get) -> Result<Value, Error> {
    let Some(key) = args.key.as_str() else {
        return Ok(false.into());
    };
    Ok(all(cx).get(key).cloned().unwrap_or(args.default))
}

fn has_value(cx: &Exec, args: HasValue) -> Result<Value, Error> {
    let Some(key) = args.key.as_str() else {
        return Ok(false.into());
    };
    let all = all(cx);
    let has = all.get(key).is_some_and(|value| {
        args.value
            .as_ref()
            .is_none_or(|wanted| value.as_str() == Some(wanted))
    });
    Ok(has.into())
}

fn item(cx: &Exec, args: Item) -> Result<Value, Error> {
    let keys = match &args.keys {
        Value::Str(_) => vec![args.keys.clone()],
        other => other.as_list().unwrap_or_default().to_vec(),
    };
    let all = all(cx);
    let value = |key: &Value| all.get_value(key).unwrap_or(&args.default).clone();
    Ok(keys.iter().map(|key| (key.clone(), value(key))).collect())
}

fn items(cx: &Exec, _args: Items) -> Result<Value, Error> {
    Ok(all(cx).into())
}
