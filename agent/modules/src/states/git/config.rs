//! `git.config_set` and `git.config_unset`.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::error_text;
use crate::exec::git::config::Config;
use crate::exec::git::{User, list_of, refuse_others};

state::state_module! {
    /// Manage the configuration of git.
    #[facts(free_arguments = true)]
    mod git;

    /// Make sure that a key has a value. With `global` it is set in the user's configuration.
    ///
    ///     user.name:
    ///       git.config_set:
    ///         - value: Deploy
    ///         - global: True
    fn config_set(ConfigSet {
        /// The key.
        name: String,
        /// The value of the key.
        value: Option<String> = None,
        /// The values of the key: a list, or texts separated by commas.
        multivar: Value = Value::Null,
        /// The repository.
        repo: Option<String> = None,
        /// The user.
        user: Option<String> = None,
        /// Accepted but ignored; only Windows needs it.
        password: Option<String> = None,
        /// The encoding of git's output.
        output_encoding: Option<String> = None,
        ..kwargs
    });

    /// Make sure that keys are not set.
    ///
    ///     user.name:
    ///       git.config_unset:
    ///         - global: True
    fn config_unset(ConfigUnset {
        /// A regular expression that matches the names of the keys.
        name: String,
        /// A regular expression. Only matching values are removed.
        value_regex: Option<String> = None,
        /// The repository.
        repo: Option<String> = None,
        /// The user.
        user: Option<String> = None,
        /// Accepted but ignored; only Windows needs it.
        password: Option<String> = None,
        /// The encoding of git's output.
        output_encoding: Option<String> = None,
        ..kwargs
    });
}

/// Returns the configuration that the arguments select.
fn opened<'a>(
    cx: &'a Exec,
    repo: Option<&str>,
    global: bool,
    user: Option<&String>,
    output_encoding: Option<&String>,
) -> Result<Config<'a>, Error> {
    if !global && repo.is_none_or(str::is_empty) {
        return Err("Non-global config options require the 'repo' argument to be set".into());
    }
    let user = User {
        user: user.cloned(),
        password: None,
    };
    let git = user.git(cx, repo, output_encoding.cloned());
    Ok(Config::new(git, global))
}

fn take(kwargs: &mut Map, name: &str) -> bool {
    kwargs.remove(name).is_some_and(|value| value.is_true())
}

fn config_set(cx: &Exec, mut args: ConfigSet) -> Result<Ret, Error> {
    if args.value.is_some() && !args.multivar.is_null() {
        return Err("Only one of 'value' and 'multivar' is permitted".into());
    }
    let global = take(&mut args.kwargs, "global");
    refuse_others(&args.kwargs)?;
    let config = opened(
        cx,
        args.repo.as_deref(),
        global,
        args.user.as_ref(),
        args.output_encoding.as_ref(),
    )?;
    let (desired, shown) = match &args.value {
        Some(value) => (vec![value.clone()], format!("'{value}'")),
        None if args.multivar.is_null() => {
            return Err("One of 'value' and 'multivar' is required".into());
        }
        None => {
            let values = list_of(&args.multivar);
            let shown = value::python::repr(&values.clone().into());
            (values, shown)
        }
    };
    let name = &args.name;
    let key = if global {
        format!("Global key '{name}'")
    } else {
        format!("'{name}'")
    };
    let before = config.values(name)?;
    if before.as_ref() == Some(&desired) {
        return Ok(Ret::ok(format!("{key} is already set to {shown}")));
    }
    let how = if before.is_none() {
        "added as"
    } else {
        "set to"
    };
    let change = |new: Value| Map::new().with("old", before.clone()).with("new", new);
    let would =
        Ret::would(format!("{key} would be {how} {shown}")).changes(change(desired.clone().into()));
    cx.apply(would, || {
        let failed = format!(
            "Failed to set {} to {shown}",
            key.replacen("Global", "global", 1)
        );
        if let Err(error) = config.set(name, &desired, false) {
            return Ok(Ret::failed(format!("{failed}: {}", error_text(&error))));
        }
        let after = config.values(name)?;
        let mut changes = Map::new();
        if after != before {
            changes.insert(name.as_str(), change(after.clone().into()));
        }
        Ok(if after.as_ref() == Some(&desired) {
            Ret::ok(format!("{key} was {how} {shown}")).changes(changes)
        } else {
            Ret::failed(failed).changes(changes)
        })
    })
}

/// Returns the keys in the form `key (value, value); key (value)`.
fn listed(keys: &Map) -> String {
    let shown = keys.iter().map(|(key, values)| {
        let values: Vec<String> = values.texts();
        format!("{} ({})", key.to_text(), values.join(", "))
    });
    shown.collect::<Vec<_>>().join("; ")
}

fn config_unset(cx: &Exec, mut args: ConfigUnset) -> Result<Ret, Error> {
    let (global, all) = (
        take(&mut args.kwargs, "global"),
        take(&mut args.kwargs, "all"),
    );
    refuse_others(&args.kwargs)?;
    let config = opened(
        cx,
        args.repo.as_deref(),
        global,
        args.user.as_ref(),
        args.output_encoding.as_ref(),
    )?;
    let value_regex = args.value_regex.as_deref();
    let pattern = format!(
        "^{}$",
        args.name.trim_start_matches('^').trim_end_matches('$')
    );
    let matching = config.matching(&pattern, value_regex)?;
    if matching.is_empty() {
        return Ok(Ret::ok("No matching keys are set"));
    }
    let mut many = matching.clone();
    many.retain(|_, values| values.as_list().is_some_and(|values| values.len() > 1));
    if !all && !many.is_empty() {
        let many = listed(&many);
        return Err(match value_regex {
            Some(_) => format!("Multiple values are matched by value_regex for the following keys (set 'all' to True to force removal): {many}"),
            None => format!("Multivar(s) matched by the key expression (set 'all' to True to force removal): {many}"),
        }
        .into());
    }
    let would = Ret::would(format!(
        "{} key(s) would have value(s) unset",
        matching.len()
    ))
    .changes(matching.clone());
    cx.apply(would, || {
        unset(&config, &pattern, &matching, value_regex, all)
    })
}

fn unset(
    config: &Config<'_>,
    pattern: &str,
    matching: &Map,
    value_regex: Option<&str>,
    all: bool,
) -> Result<Ret, Error> {
    let before = config.matching(pattern, None)?;
    let mut failed = Vec::new();
    for key in matching.keys().map(Value::to_text) {
        if let Err(error) = config.unset(&key, value_regex, all) {
            value::log::error(format_args!("Failed to unset '{key}': {error}"));
            failed.push(key);
        }
    }
    if !failed.is_empty() {
        return Err(format!(
            "Error(s) occurred unsetting values for the following keys (see the minion log for details): {}",
            failed.join(", ")
        )
        .into());
    }
    let after = config.matching(pattern, None)?;
    let mut changes = Map::new();
    for (key, values) in &before {
        let left = after
            .get_value(key)
            .and_then(Value::as_list)
            .unwrap_or_default();
        let values = values.as_list().unwrap_or_default();
        let gone: Vec<Value> = values
            .iter()
            .filter(|value| !left.contains(value))
            .cloned()
            .collect();
        if !gone.is_empty() {
            changes.insert(key.clone(), Value::list(gone));
        }
    }
    let left = config.matching(pattern, value_regex)?;
    Ok(if left.is_empty() {
        Ret::ok("Value(s) successfully unset").changes(changes)
    } else {
        Ret::failed(format!("Failed to unset value(s): {}", listed(&left))).changes(changes)
    })
}
