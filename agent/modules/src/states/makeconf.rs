//! The `makeconf` state module for Gentoo's `make.conf`.

use state::exec::Exec;
use state::facts::Missing;
use state::module::{Error, Ret};
use value::{Map, Value, python};

use crate::exec::makeconf::{append, get, remove, set, trim, without_gentoo};

state::state_module! {
    /// Manage variables in Gentoo's `make.conf`.
    #[module(virtual_ = missing)]
    mod makeconf;

    /// Make sure that a variable is set.
    ///
    ///     MAKEOPTS:
    ///       makeconf.present:
    ///         - value: -j4
    fn present(Present {
        /// The name of the variable. It is converted to upper case.
        name: String,
        /// The value of the variable.
        value: Option<String> = None,
        /// Words that the value must contain.
        contains: Value = Value::Null,
        /// Words that the value must not contain.
        excludes: Value = Value::Null,
    });

    /// Make sure that a variable is not set.
    ///
    ///     MAKEOPTS:
    ///       makeconf.absent
    fn absent(Absent {
        /// The name of the variable. It is converted to upper case.
        name: String,
    });
}

/// Returns what is missing on a machine without Gentoo.
fn missing(cx: &Exec, _: &str) -> Option<Missing> {
    without_gentoo(cx, "makeconf module could not be loaded")
}

fn words(value: &Value) -> Vec<String> {
    match value.as_list() {
        Some(_) => value.texts(),
        None if value.is_null() => Vec::new(),
        None => value
            .to_text()
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
    }
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let upper = args.name.to_uppercase();
    let old = get(&upper)?;
    match args.value {
        Some(value) => valued(cx, &args.name, &upper, old, &value),
        None if args.contains.is_null() && args.excludes.is_null() => {
            there(cx, &args.name, &upper, old)
        }
        None => worded(cx, &args.name, old, &args.contains, &args.excludes),
    }
}

/// Makes sure that a variable exists, with any value.
fn there(cx: &Exec, name: &str, upper: &str, old: Option<String>) -> Result<Ret, Error> {
    if old.is_some() {
        return Ok(Ret::ok(format!(
            "Variable {name} is already present in make.conf"
        )));
    }
    let would = Ret::would(format!("Variable {name} is to be set in make.conf"));
    cx.apply(would, || {
        set(cx, upper, "")?;
        Ok(match get(upper)? {
            Some(_) => Ret::ok(format!("Variable {name} set in make.conf")),
            None => Ret::failed(format!("Variable {name} failed to be set in make.conf")),
        })
    })
}

/// Makes sure that a variable has a value.
fn valued(
    cx: &Exec,
    name: &str,
    upper: &str,
    old: Option<String>,
    value: &str,
) -> Result<Ret, Error> {
    if old.as_deref() == Some(value) {
        return Ok(Ret::ok(format!(
            "Variable {name} is already \"{value}\" in make.conf"
        )));
    }
    let would = format!("Variable {name} is to be set to \"{value}\" in make.conf");
    cx.apply(Ret::would(would), || {
        let changes = set(cx, upper, value)?;
        Ok(match get(upper)?.as_deref() == Some(value) {
            true => Ret::ok(format!("Variable {name} is set in make.conf")).changes(changes),
            false => Ret::failed(format!("Variable {name} failed to be set in make.conf")),
        })
    })
}

/// Makes sure that a variable contains some words and does not contain others.
fn worded(
    cx: &Exec,
    name: &str,
    old: Option<String>,
    contains: &Value,
    excludes: &Value,
) -> Result<Ret, Error> {
    let (contains, excludes) = (words(contains), words(excludes));
    if contains.iter().any(|word| excludes.contains(word)) {
        return Ok(Ret::failed(format!(
            "Variable {name} cannot contain and exclude the same value"
        )));
    }
    let has = words(&old.clone().into());
    let added: Vec<String> = contains
        .into_iter()
        .filter(|word| !has.contains(word))
        .collect();
    let gone: Vec<String> = excludes
        .into_iter()
        .filter(|word| has.contains(word))
        .collect();
    let correct = Ret::ok(format!("Variable {name} is correct in make.conf"));
    if added.is_empty() && gone.is_empty() {
        return Ok(correct);
    }
    let part = |verb: &str, words: &[String]| match words {
        [] => String::new(),
        words => format!(" {verb} \"{}\"", python::repr(&words.to_vec().into())),
    };
    let would = format!(
        "Variable {name} is set to{}{} in make.conf",
        part("append", &added),
        part("trim", &gone)
    );
    cx.apply(Ret::would(would), || {
        let upper = name.to_uppercase();
        added
            .iter()
            .try_for_each(|word| append(cx, &upper, word).map(drop))?;
        gone.iter()
            .try_for_each(|word| trim(cx, &upper, word).map(drop))?;
        let about = Map::new().with("old", old).with("new", get(&upper)?);
        Ok(correct.change(&upper, about))
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let (name, upper) = (&args.name, args.name.to_uppercase());
    if get(&upper)?.is_none() {
        return Ok(Ret::ok(format!(
            "Variable {name} is already absent from make.conf"
        )));
    }
    let would = Ret::would(format!(
        "Variable {name} is set to be removed from make.conf"
    ));
    cx.apply(would, || {
        remove(cx, &upper)?;
        Ok(match get(&upper)? {
            None => Ret::ok(format!("Variable {name} was removed from make.conf")),
            Some(_) => Ret::failed(format!(
                "Variable {name} failed to be removed from make.conf"
            )),
        })
    })
}
