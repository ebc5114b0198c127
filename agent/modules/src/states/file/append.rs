//! `file.append` and `file.prepend`.

use std::path::Path;

use machine::fs;
use python::{shlex, text};
use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::Value;

use super::texts::{self, Sources, named, shown_diff};
use crate::exec::file::{edit, edit_replace};

state::state_module! {
    /// Add text at the end or beginning of files.
    #[facts(effects = Effects::Files(&["name"]))]
    mod file;

    /// Ensure that some text is in a file. It is appended to the end unless the file contains it
    /// already.
    ///
    ///     /etc/hosts.allow:
    ///       file.append:
    ///         - text: 'sshd: 10.0.0.0/8'
    fn append(Append {
        /// The path of the file.
        name: String,
        /// The text, or a list of texts.
        text: Value = Value::Null,
        /// True to create the parent folders.
        makedirs: bool = false,
        #[group] sources: Sources,
        /// True to ignore white space when the text is searched in the file.
        ignore_whitespace: bool = true,
        /// True to include a diff in the changes.
        show_changes: bool = true,
    });

    /// Ensure that some text is in a file. It is added at the beginning unless the file contains it
    /// already.
    ///
    ///     /etc/motd:
    ///       file.prepend:
    ///         - text: Authorized users only
    fn prepend(Prepend {
        /// The path of the file.
        name: String,
        /// The text, or a list of texts.
        text: Value = Value::Null,
        /// True to create the parent folders.
        makedirs: bool = false,
        #[group] sources: Sources,
        /// True if the text must be at the very beginning, even if the file contains it elsewhere.
        header: Option<bool> = None,
        /// True to include a diff in the changes.
        show_changes: bool = true,
    });
}

fn append(cx: &Exec, args: Append) -> Result<Ret, Error> {
    if args.name.is_empty() {
        return Err("Must provide name to file.append".into());
    }
    let name = texts::expanded(&args.name);
    let chunks = match chunks(cx, &name, args.makedirs, &args.sources, &args.text)? {
        Ok(chunks) => chunks,
        Err(ret) => return Ok(ret),
    };
    let old = lines_of(&name)?;
    let mut added = Vec::new();
    for chunk in &chunks {
        let pattern = if args.ignore_whitespace {
            spaced_pattern(chunk)?
        } else {
            chunk.clone()
        };
        if !edit_replace::found_in_lines(&name, &pattern)? {
            added.extend(text::owned(text::bare_lines(chunk)));
        }
    }
    if added.is_empty() {
        return Ok(Ret::ok(format!("File {name} is in correct state")));
    }
    let new = [old.clone(), added.clone()].concat();
    let diff = shown_diff(&name, args.show_changes, || texts::bare_diff(&old, &new));
    let would =
        Ret::would(format!("File {name} is set to be updated")).change("diff", diff.clone());
    fs::would_hold(cx, Path::new(&name), || {
        edit::appended(Path::new(&name), &added)
    });
    cx.apply(would, || {
        edit::append_lines(cx, Path::new(&name), &added)?;
        let ret = Ret::ok(format!("Appended {} lines", added.len()));
        Ok(ret.change("diff", diff))
    })
}

fn prepend(cx: &Exec, args: Prepend) -> Result<Ret, Error> {
    let name = texts::expanded(&args.name);
    if name.is_empty() {
        return Err("Must provide name to file.prepend".into());
    }
    let chunks = match chunks(cx, &name, args.makedirs, &args.sources, &args.text)? {
        Ok(chunks) => chunks,
        Err(ret) if ret.name.is_some() => return Ok(ret),
        Err(ret) => return Ok(named(ret, &name)),
    };
    let path = Path::new(&name);
    let old = edit::utf8(path, edit::read(path)?)?;
    let header = args.header == Some(true);
    let mut preface = Vec::new();
    for chunk in &chunks {
        if header || !edit_replace::found_in_lines(&name, &spaced_pattern(chunk)?)? {
            preface.extend(text::owned(text::bare_lines(chunk)));
        }
    }
    let there = header && starts_with(&old, &preface);
    let ret = prepended(cx, &name, &old, &preface, there, args.show_changes)?;
    Ok(named(ret, &name))
}

fn prepended(
    cx: &Exec,
    name: &str,
    old: &str,
    preface: &[String],
    there: bool,
    show_changes: bool,
) -> Result<Ret, Error> {
    // In test mode Salt does not check the header.
    if preface.is_empty() || (there && !cx.test) {
        return Ok(Ret::ok(format!("File {name} is in correct state")));
    }
    let new: String = preface.iter().map(|line| format!("{line}\n")).collect();
    let new = new + old;
    let diff = shown_diff(name, show_changes, || texts::line_diff(old, &new));
    let would =
        Ret::would(format!("File {name} is set to be updated")).change("diff", diff.clone());
    fs::would_hold(cx, Path::new(name), || Ok(&new));
    cx.apply(would, || {
        edit::prepend_lines(cx, Path::new(name), preface)?;
        let ret = Ret::ok(format!("Prepended {} lines", preface.len()));
        Ok(ret.change("diff", diff))
    })
}

fn starts_with(old: &str, preface: &[String]) -> bool {
    let head = text::bare_lines(old);
    head.get(..preface.len()).is_some_and(|head| {
        head.iter()
            .zip(preface)
            .all(|(line, wanted)| line == wanted)
    })
}

/// Returns the texts to add, once the file exists, or the return that ends the state.
fn chunks(
    cx: &Exec,
    name: &str,
    makedirs: bool,
    sources: &Sources,
    given: &Value,
) -> Result<Result<Vec<String>, Ret>, Error> {
    let list = sources.list()?;
    if let Some(ret) = made(cx, name, makedirs)? {
        return Ok(Err(ret));
    }
    if list.is_empty() {
        return Ok(Ok(texts::texts(given)));
    }
    Ok(sources.rendered(cx, &list))
}

/// Creates an empty file if it does not exist. Returns the result if the state ends there.
fn made(cx: &Exec, name: &str, makedirs: bool) -> Result<Option<Ret>, Error> {
    let path = Path::new(name);
    if makedirs
        && !cx.test
        && path.is_absolute()
        && let Some(folder) = path.parent().filter(|folder| !folder.is_dir())
    {
        fs::mkdirs(cx, folder).map_err(Error::io(folder))?;
    }
    let Some(problem) = texts::unusable(name) else {
        return Ok(None);
    };
    if cx.test {
        return Ok(Some(texts::would_touch(name)));
    }
    if !path.is_absolute() || !path.parent().is_some_and(Path::is_dir) {
        return Ok(Some(Ret::failed(problem)));
    }
    fs::write(cx, path, b"", fs::Owner::default())?;
    Ok(None)
}

fn lines_of(name: &str) -> Result<Vec<String>, Error> {
    let path = Path::new(name);
    let data = edit::utf8(path, edit::read(path)?)?;
    Ok(text::owned(text::bare_lines(&data)))
}

/// Returns a regular expression that matches a text with any white space.
fn spaced_pattern(chunk: &str) -> Result<String, Error> {
    let space = r"(?:[\s]+)?";
    let mut pattern = String::from("(?m)^");
    for line in text::bare_lines(chunk) {
        let parts = shlex::parts(line)?;
        let parts: Vec<String> = parts.iter().map(|part| value::pyre::escape(part)).collect();
        pattern.push_str(&format!("{space}{}{space}", parts.join(space)));
    }
    Ok(pattern + "$")
}
