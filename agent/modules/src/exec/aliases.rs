//! The `aliases` execution module: the mail aliases of this machine.

use std::path::{Path, PathBuf};

use machine::fs::{self, Owner};
use machine::process::{self, Process};
use python::{path, text};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::config;

state::exec_module! {
    /// Manage mail aliases.
    mod aliases;

    /// Return all aliases with their targets.
    ///
    ///     salt-call aliases.list_aliases
    #[facts(outputter = "yaml")]
    fn list_aliases(ListAliases {});

    /// Return the target of an alias, or an empty text if the alias does not exist.
    ///
    ///     salt-call aliases.get_target root
    #[facts(outputter = "txt")]
    fn get_target(GetTarget {
        /// The name of the alias.
        alias: String,
    });

    /// Return whether an alias has this target.
    ///
    ///     salt-call aliases.has_target root admin@example.com
    #[facts(outputter = "txt")]
    fn has_target(HasTarget {
        /// The name of the alias.
        alias: String,
        /// The target, or a list of targets.
        target: Value,
    });

    /// Set the target of an alias.
    ///
    ///     salt-call aliases.set_target root admin@example.com
    #[facts(outputter = "txt")]
    fn set_target(SetTarget {
        /// The name of the alias.
        alias: String,
        /// The target, or a list of targets.
        target: Value,
    });

    /// Remove an alias.
    ///
    ///     salt-call aliases.rm_alias webmaster
    #[facts(outputter = "txt")]
    fn rm_alias(RmAlias {
        /// The name of the alias.
        alias: String,
    });
}

/// A line of the file: the alias, its target and the rest of the line. Alias and target are empty
/// if the line has none.
type Line = (String, String, String);

fn file(cx: &Exec) -> Result<PathBuf, Error> {
    let path = config::found(cx, "aliases.file")?;
    Ok(path::realpath(&path.to_text()).into())
}

fn lines(path: &Path) -> Result<Vec<Line>, Error> {
    let bytes = fs::read_or_none(path)?.unwrap_or_default();
    Ok(text::decoded(&bytes).lines().map(line).collect())
}

fn line(line: &str) -> Line {
    // A comment begins at the white space before `#`. A line that begins with a comment has no
    // alias.
    let end = line.find([':', '#']).unwrap_or(line.len());
    let (alias, rest) = line.split_at_checked(end).unwrap_or((line, ""));
    let rest = rest.strip_prefix(':').unwrap_or(rest).trim_start();
    let end = rest.find('#').unwrap_or(rest.len());
    let target = rest.get(..end).unwrap_or_default();
    let comment = rest.get(target.trim_end().len()..).unwrap_or_default();
    let comment = comment.trim_end();
    (
        alias.trim_end().to_owned(),
        target.trim_end().to_owned(),
        comment.to_owned(),
    )
}

fn write(cx: &Exec, path: &Path, lines: &[Line]) -> Result<(), Error> {
    let mut text = String::new();
    for (alias, target, comment) in lines {
        if !alias.is_empty() && !target.is_empty() {
            text.push_str(&format!("{alias}: {target}"));
        }
        text.push_str(comment);
        text.push('\n');
    }
    let owner = Owner {
        mode: (!path.is_file()).then_some(0o644),
        ..Owner::default()
    };
    fs::write(cx, path, text.as_bytes(), owner)?;
    match process::which("newaliases") {
        Some(program) => Process::words([program]).run(cx).map(drop),
        None => Ok(()),
    }
}

/// Returns the target of an alias, or an empty text if the alias does not exist.
pub(crate) fn target_of(cx: &Exec, alias: &str) -> Result<String, Error> {
    let lines = lines(&file(cx)?)?;
    let found = lines.into_iter().rfind(|line| line.0 == alias);
    Ok(found.map_or_else(String::new, |line| line.1))
}

/// Returns the target in the form in which the file stores it: several targets are joined by
/// commas.
///
/// # Errors
/// When the target is empty or contains a line break.
pub(crate) fn joined(target: &Value) -> Result<String, Error> {
    let text = match target.as_list() {
        Some(targets) => {
            let targets: Vec<String> = targets.iter().map(Value::to_text).collect();
            targets.join(", ")
        }
        None => target.to_text(),
    };
    match text.as_str() {
        "" => Err("target can not be an empty string".into()),
        text if text.contains('\n') => Err("target must be one line".into()),
        _ => Ok(text),
    }
}

/// Sets the target of an alias. Does nothing if the alias already has this target.
pub(crate) fn set(cx: &Exec, alias: &str, target: &str) -> Result<(), Error> {
    if alias.is_empty() || alias.contains([':', '\n']) {
        return Err("alias can not be an empty string".into());
    }
    if target_of(cx, alias)? == target {
        return Ok(());
    }
    let path = file(cx)?;
    let mut new = Vec::new();
    let mut is_set = false;
    for line in lines(&path)? {
        if line.0 != alias {
            new.push(line);
        } else if !is_set {
            new.push((line.0, target.to_owned(), line.2));
            is_set = true;
        }
    }
    if !is_set {
        new.push((alias.to_owned(), target.to_owned(), String::new()));
    }
    write(cx, &path, &new)
}

/// Removes an alias. Does nothing if the alias does not exist.
pub(crate) fn remove(cx: &Exec, alias: &str) -> Result<(), Error> {
    if target_of(cx, alias)?.is_empty() {
        return Ok(());
    }
    let path = file(cx)?;
    let mut lines = lines(&path)?;
    lines.retain(|line| line.0 != alias);
    write(cx, &path, &lines)
}

fn list_aliases(cx: &Exec, _args: ListAliases) -> Result<Value, Error> {
    let lines = lines(&file(cx)?)?.into_iter();
    let named = lines.filter(|line| !line.0.is_empty());
    let all: Map = named
        .map(|line| (Value::from(line.0), Value::from(line.1)))
        .collect();
    Ok(all.into())
}

fn get_target(cx: &Exec, args: GetTarget) -> Result<Value, Error> {
    Ok(target_of(cx, &args.alias)?.into())
}

fn has_target(cx: &Exec, args: HasTarget) -> Result<Value, Error> {
    let target = joined(&args.target)?;
    Ok((target_of(cx, &args.alias)? == target).into())
}

fn set_target(cx: &Exec, args: SetTarget) -> Result<Value, Error> {
    set(cx, &args.alias, &joined(&args.target)?)?;
    Ok(true.into())
}

fn rm_alias(cx: &Exec, args: RmAlias) -> Result<Value, Error> {
    remove(cx, &args.alias)?;
    Ok(true.into())
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn lines_are_taken_apart() {
        let of = |text: &str| {
            let (alias, target, comment) = line(text);
            format!("{alias}|{target}|{comment}")
        };
        assert_eq!(of("root: me, you"), "root|me, you|");
        assert_eq!(of("root : me   # mine"), "root|me|   # mine");
        assert_eq!(of("# a comment"), "||# a comment");
        assert_eq!(of(""), "||");
    }
}
