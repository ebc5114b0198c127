//! The `environ` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::environ;

state::state_module! {
    /// Support for getting and setting the environment of the current process.
    mod environ;

    /// Set environment variables for the commands of this run.
    ///
    ///     HTTP_PROXY:
    ///       environ.setenv:
    ///         - value: http://proxy.example.com:3128
    ///         - permanent: True
    fn setenv(Setenv {
        /// The name of the variable, or any name if `value` is a dictionary.
        name: String,
        /// The value of the variable; or False; or a dictionary of variables and values.
        value: Value,
        /// True if the value False removes a variable instead of setting it to an empty text.
        false_unsets: bool = false,
        /// True to remove all other variables.
        clear_all: bool = false,
        /// Accepted for compatibility with Salt; there is no separate minion process here.
        update_minion: bool = false,
        /// Accepted but ignored; only Windows needs it.
        permanent: bool = false,
    });
}

fn setenv(cx: &Exec, args: Setenv) -> Result<Ret, Error> {
    let wanted = match &args.value {
        Value::Str(_) | Value::Bool(false) => Map::new().with(&args.name, args.value.clone()),
        Value::Map(map) => map.clone(),
        _ => return Ok(Ret::failed("Environ value must be string, dict or False")),
    };
    let changes = changes(cx, &wanted, args.false_unsets, args.clear_all);
    if changes.is_empty() {
        let comment = if cx.test {
            "Environ values are already set with the correct values"
        } else {
            "Environ values were already set with the correct values"
        };
        return Ok(Ret::ok(comment));
    }
    if cx.test {
        // Salt returns True here in test mode, not None.
        return Ok(Ret::ok("Environ values will be changed").changes(changes));
    }
    let done = environ::set_all(cx, &wanted, args.false_unsets, args.clear_all);
    if done.is_true() {
        Ok(Ret::ok("Environ values were set").changes(done))
    } else {
        Ok(Ret::failed("Failed to set environ variables").changes(changes))
    }
}

fn changes(cx: &Exec, wanted: &Map, false_unsets: bool, clear_all: bool) -> Map {
    let current = environ::all(cx);
    let emptied = || {
        if false_unsets { Value::Null } else { "".into() }
    };
    let mut changes = Map::new();
    if clear_all {
        for key in current.keys().filter(|key| !wanted.contains_value(key)) {
            changes.insert(key.clone(), emptied());
        }
    }
    for (key, value) in wanted {
        let now = current.get_value(key);
        let change = match (value, now) {
            (Value::Bool(false), None) => (!false_unsets).then(emptied),
            (Value::Bool(false), Some(now)) => (false_unsets || now.is_true()).then(emptied),
            (value, now) => {
                let same = now.map_or("", |now| now.as_str().unwrap_or_default());
                (value.as_str() != Some(same)).then(|| value.clone())
            }
        };
        if let Some(change) = change {
            changes.insert(key.clone(), change);
        }
    }
    changes
}
