//! The `makeconf` execution module: Gentoo's `make.conf`. Salt 3008 no longer has it; the results
//! are those of its last version.

use std::path::Path;

use state::exec::Exec;
use state::facts::Missing;
use state::module::Error;
use value::{Map, Value};

use crate::exec::tool;

state::exec_module! {
    /// Manage the variables in Gentoo's `make.conf`.
    #[module(virtual_ = missing)]
    mod makeconf;

    /// Set a variable.
    ///
    ///     salt-call makeconf.set_var FEATURES sandbox
    fn set_var(SetVar {
        /// The name of the variable.
        var: String,
        /// The value of the variable.
        value: String,
    });

    /// Remove a variable.
    ///
    ///     salt-call makeconf.remove_var FEATURES
    fn remove_var(RemoveVar {
        /// The name of the variable.
        var: String,
    });

    /// Add a word to a variable.
    ///
    ///     salt-call makeconf.append_var USE git
    fn append_var(AppendVar {
        /// The name of the variable.
        var: String,
        /// The word to add.
        value: String,
    });

    /// Remove a word from a variable.
    ///
    ///     salt-call makeconf.trim_var USE git
    fn trim_var(TrimVar {
        /// The name of the variable.
        var: String,
        /// The word to remove.
        value: String,
    });

    /// Return the value of a variable, or None if it is not set.
    ///
    ///     salt-call makeconf.get_var FEATURES
    fn get_var(GetVar {
        /// The name of the variable.
        var: String,
    });

    /// Return True if a variable contains a word.
    ///
    ///     salt-call makeconf.var_contains USE git
    fn var_contains(VarContains {
        /// The name of the variable.
        var: String,
        /// The word to look for.
        value: String,
    });
}

/// Returns what is missing on a machine without Gentoo, with the reason of the module.
pub(crate) fn without_gentoo(cx: &Exec, reason: &str) -> Option<Missing> {
    (cx.grain("os") != "Gentoo").then(|| Missing::Module(reason.to_owned()))
}

/// Returns what is missing on a machine without Gentoo.
fn missing(cx: &Exec, _: &str) -> Option<Missing> {
    without_gentoo(
        cx,
        "The makeconf execution module cannot be loaded: only available on Gentoo systems.",
    )
}

/// The line that layman adds to the file. It has to remain the last one.
const LAYMAN: &str = "source /var/lib/layman/make.conf";

fn file() -> Result<&'static str, Error> {
    let mut places = ["/etc/make.conf", "/etc/portage/make.conf"].into_iter();
    let found = places.find(|path| Path::new(path).is_file());
    found.ok_or_else(|| {
        Error::refused("neither /etc/make.conf nor /etc/portage/make.conf exists".to_owned())
    })
}

/// Returns the value in a line of the file.
fn value_in(line: &str) -> &str {
    let value = line.split_once('=').map_or("", |(_, value)| value);
    let value = match value.split_once('"') {
        Some((_, quoted)) => quoted.split('"').next(),
        None => value.split('#').next(),
    };
    value.unwrap_or_default().trim()
}

/// Returns the value of a variable; `None` if it is not set.
///
/// # Errors
/// When the file does not exist.
pub(crate) fn get(var: &str) -> Result<Option<String>, Error> {
    let path = file()?;
    let text = machine::fs::text(path)?;
    let mut lines = text.lines();
    let line = lines.find(|line| line.starts_with(var));
    Ok(line.map(|line| value_in(line).to_owned()))
}

fn sed(cx: &Exec, before: &str, after: &str, limit: Option<&str>) -> Result<(), Error> {
    let given = [file()?, before, after].map(Value::from).into();
    let limit = limit.map(|limit| Map::new().with("limit", limit));
    cx.call_internal("file.sed", given, limit.unwrap_or_default())?;
    Ok(())
}

/// Replaces the line of a variable.
fn replaced(cx: &Exec, var: &str, line: &str) -> Result<(), Error> {
    sed(cx, &format!("^{var}=.*"), line, None)
}

/// Sets a variable.
///
/// # Errors
/// When the file does not exist.
pub(crate) fn set(cx: &Exec, var: &str, value: &str) -> Result<Value, Error> {
    let (path, line) = (file()?, format!("{var}=\"{value}\""));
    changed(var, |is_set| {
        let given = |what: &str| vec![path.into(), what.into()];
        if is_set.is_some() {
            return replaced(cx, var, &line);
        }
        if cx
            .call_internal("file.contains", given(LAYMAN), Map::new())?
            .is_true()
        {
            let script = format!("/{}/ i\\{line}", LAYMAN.replace('/', "\\/"));
            return tool::run(cx, &["sed", "-i", &script, path], None, None).map(drop);
        }
        cx.call_internal("file.append", given(&line), Map::new())
            .map(drop)
    })
}

/// Changes a variable, and returns its old and new values.
fn changed(
    var: &str,
    change: impl FnOnce(Option<&str>) -> Result<(), Error>,
) -> Result<Value, Error> {
    let old = get(var)?;
    change(old.as_deref())?;
    let about = Map::new().with("old", old).with("new", get(var)?);
    Ok(Map::new().with(var, about).into())
}

/// Removes a variable.
///
/// # Errors
/// When the file does not exist.
pub(crate) fn remove(cx: &Exec, var: &str) -> Result<Value, Error> {
    changed(var, |old| match old {
        Some(_) => replaced(cx, var, ""),
        None => Ok(()),
    })
}

/// Adds a word to a variable.
///
/// # Errors
/// When the file does not exist.
pub(crate) fn append(cx: &Exec, var: &str, value: &str) -> Result<Value, Error> {
    match get(var)? {
        Some(old) => set(cx, var, &format!("{old} {value}")),
        None => set(cx, var, value),
    }
}

/// Removes a word from a variable.
///
/// # Errors
/// When the file does not exist.
pub(crate) fn trim(cx: &Exec, var: &str, value: &str) -> Result<Value, Error> {
    changed(var, |old| match old {
        Some(_) => sed(cx, value, "", Some(var)),
        None => Ok(()),
    })
}

fn set_var(cx: &Exec, args: SetVar) -> Result<Value, Error> {
    set(cx, &args.var, &args.value)
}

fn remove_var(cx: &Exec, args: RemoveVar) -> Result<Value, Error> {
    remove(cx, &args.var)
}

fn append_var(cx: &Exec, args: AppendVar) -> Result<Value, Error> {
    append(cx, &args.var, &args.value)
}

fn trim_var(cx: &Exec, args: TrimVar) -> Result<Value, Error> {
    trim(cx, &args.var, &args.value)
}

fn get_var(_: &Exec, args: GetVar) -> Result<Value, Error> {
    Ok(get(&args.var)?.into())
}

fn var_contains(_: &Exec, args: VarContains) -> Result<Value, Error> {
    let word = args.value.replace('\\', "");
    let value = get(&args.var)?.unwrap_or_default();
    Ok(value.split_whitespace().any(|one| one == word).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_quotes_or_none() {
        assert_eq!(value_in("CFLAGS=\"-O2 -pipe\" # fast"), "-O2 -pipe");
        assert_eq!(value_in("SYNC= rsync://here # there"), "rsync://here");
        assert_eq!(value_in("CFLAGS"), "");
    }
}
