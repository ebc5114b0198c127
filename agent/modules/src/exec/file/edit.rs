//! Text in files: appends, prepends, writes and searches it.

use std::path::{Path, PathBuf};

use machine::fs;
use python::{path, text};
use state::exec::Exec;
use state::module::Error;
use value::glob::fnmatch;
use value::{Map, Value, log};

use crate::fileserver::template;
use value::pyre::{Flags, Regex};

state::exec_module! {
    /// Manage information about regular files, directories and special files, set their content and
    /// replace text in it.
    mod file;

    /// Append text to the end of a file.
    ///
    ///     salt-call file.append /etc/hosts.allow 'sshd: 10.0.0.0/8'
    fn append(Append {
        /// The path of the file.
        path: String,
        *args,
        ..kwargs
    });

    /// Prepend text to the beginning of a file.
    ///
    ///     salt-call file.prepend /etc/motd 'Authorized users only'
    fn prepend(Prepend {
        /// The path of the file.
        path: String,
        *args,
        ..kwargs
    });

    /// Write text to a file. The previous contents are overwritten.
    ///
    ///     salt-call file.write /etc/motd 'Authorized users only'
    fn write(Write {
        /// The path of the file.
        path: String,
        *args,
        ..kwargs
    });

    /// Return True if the file contains the text.
    ///
    ///     salt-call file.contains /etc/hosts localhost
    fn contains(Contains {
        /// The path of the file.
        path: String,
        /// The text. White space around it is ignored.
        text: Value,
    });

    /// Return True if the regular expression matches a line of the file.
    ///
    ///     salt-call file.contains_regex /etc/hosts '^127\.0\.0\.1'
    fn contains_regex(ContainsRegex {
        /// The path of the file.
        path: String,
        /// A regular expression in Python's syntax.
        regex: String,
        /// The characters that are removed from the start of each line first.
        lchar: String = String::new(),
    });

    /// Return True if the glob matches a chunk of the file. A chunk has 32768 bytes.
    ///
    ///     salt-call file.contains_glob /etc/hosts '*localhost*'
    fn contains_glob(ContainsGlob {
        /// The path of the file.
        path: String,
        /// The glob.
        glob_expr: String,
    });

    /// Render a text with a template engine, and return the result.
    ///
    ///     salt-call file.apply_template_on_contents 'port {{ port }}' jinja '{port: 8080}' '{}' base
    fn apply_template_on_contents(ApplyTemplateOnContents {
        /// The text to render.
        contents: String,
        /// The template engine.
        template: String,
        /// The variables of the template.
        context: Map,
        /// The default values of variables that are not in `context`.
        defaults: Map,
        /// The Salt environment.
        saltenv: String,
    });
}

fn apply_template_on_contents(cx: &Exec, args: ApplyTemplateOnContents) -> Result<Value, Error> {
    if !template::is_supported(&args.template) {
        let comment = template::unsupported(&args.template);
        let refused = Map::new().with("result", false).with("comment", comment);
        return Ok(refused.into());
    }
    let mut variables = args.defaults;
    variables.update(args.context);
    template::render(cx, "<string>", &args.contents, &args.saltenv, variables).map(Value::from)
}

fn append(cx: &Exec, args: Append) -> Result<Value, Error> {
    let path = path::expand_user(&args.path);
    let lines = given_lines(args.args, args.kwargs);
    append_lines(cx, &path, &lines)?;
    let (count, path) = (lines.len(), path.display());
    Ok(format!("Wrote {count} lines to \"{path}\"").into())
}

/// Returns the contents of a file with lines appended. If the last line has no newline, one is
/// added first.
pub(crate) fn appended(path: &Path, lines: &[String]) -> Result<Vec<u8>, Error> {
    let mut data = read(path)?;
    if data.last().is_some_and(|last| *last != b'\n') {
        data.push(b'\n');
    }
    data.extend(terminated(lines).into_bytes());
    Ok(data)
}

/// Appends lines to a file.
pub(crate) fn append_lines(cx: &Exec, path: &Path, lines: &[String]) -> Result<(), Error> {
    fs::write(cx, path, &appended(path, lines)?, fs::Owner::default())
}

fn prepend(cx: &Exec, args: Prepend) -> Result<Value, Error> {
    let path = path::expand_user(&args.path);
    let lines = given_lines(args.args, args.kwargs);
    prepend_lines(cx, &path, &lines)?;
    let (count, path) = (lines.len(), path.display());
    Ok(format!("Prepended {count} lines to \"{path}\"").into())
}

/// Prepends lines to a file. Creates the file if it does not exist.
pub(crate) fn prepend_lines(cx: &Exec, path: &Path, lines: &[String]) -> Result<(), Error> {
    let old = match fs::read_or_none(path)? {
        Some(old) => utf8(path, old)?,
        None => String::new(),
    };
    let data = terminated(lines) + &old;
    fs::write(cx, path, data.as_bytes(), fs::Owner::default())
}

fn write(cx: &Exec, args: Write) -> Result<Value, Error> {
    let path = path::expand_user(&args.path);
    let lines = given_lines(args.args, args.kwargs);
    let data = terminated(&lines);
    fs::write(cx, &path, data.as_bytes(), fs::Owner::default())?;
    let (count, path) = (lines.len(), path.display());
    Ok(format!("Wrote {count} lines to \"{path}\"").into())
}

/// Returns the lines of a call, which are positional arguments or the argument `args`.
fn given_lines(args: Vec<Value>, mut kwargs: Map) -> Vec<String> {
    let args = match kwargs.remove("args") {
        Some(Value::List(items)) => items.to_vec(),
        Some(one) => vec![one],
        None => args,
    };
    args.iter().map(Value::to_text).collect()
}

fn terminated(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn contains(_cx: &Exec, args: Contains) -> Result<Value, Error> {
    let wanted = args.text.to_text();
    let wanted = wanted.trim();
    let found = readable(&args.path)?.is_some_and(|data| text::decoded(&data).contains(wanted));
    Ok(found.into())
}

fn contains_regex(_cx: &Exec, args: ContainsRegex) -> Result<Value, Error> {
    let Some(data) = readable(&args.path)? else {
        return Ok(false.into());
    };
    let regex = Regex::new(&args.regex, Flags::NONE)?;
    let lchar: Vec<char> = args.lchar.chars().collect();
    for line in text::file_lines(&text::decoded(&data)) {
        if regex.is_match(line.trim_start_matches(lchar.as_slice()))? {
            return Ok(true.into());
        }
    }
    Ok(false.into())
}

/// The number of bytes in a chunk. Salt reads the file in chunks and matches each whole chunk.
const CHUNK: usize = 32_768;

fn contains_glob(_cx: &Exec, args: ContainsGlob) -> Result<Value, Error> {
    let Some(data) = readable(&args.path)? else {
        return Ok(false.into());
    };
    let matches = |chunk| fnmatch(&args.glob_expr, &text::decoded(chunk));
    Ok(data.chunks(CHUNK).any(matches).into())
}

fn readable(path: &str) -> Result<Option<Vec<u8>>, Error> {
    fs::read_or_none(path::expand_user(path))
}

/// Returns the bytes of a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path)
}

/// Returns the text of a file. Returns an error if the bytes are not UTF-8.
pub(crate) fn utf8(path: &Path, data: Vec<u8>) -> Result<String, Error> {
    String::from_utf8(data).map_err(|error| {
        let (path, at) = (path.display(), error.utf8_error().valid_up_to());
        Error::refused(format!(
            "cannot edit {path} as text: it is not UTF-8 (first invalid byte at {at})"
        ))
    })
}

/// Returns the path as Python's `os.path.realpath(os.path.expanduser(path))` does.
pub(crate) fn real_path(path: &str) -> PathBuf {
    let path = path::expand_user(path);
    path.canonicalize().unwrap_or(path)
}

/// Returns the suffix of the backup, or `None` if no backup is requested.
pub(crate) fn backup_suffix(backup: &Value) -> Option<String> {
    backup.is_true().then(|| backup.to_text())
}

/// Writes the old contents of a file to a backup in the same folder, with the mode and time of the
/// file. The backup's name is the path followed by `suffix`.
pub(crate) fn keep_backup(cx: &Exec, path: &Path, old: &[u8], suffix: &str) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;

    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    let backup = PathBuf::from(name);
    let known = std::fs::metadata(path).map_err(Error::io(path))?;
    let owner = fs::Owner {
        mode: Some(known.permissions().mode() & 0o7777),
        ..fs::Owner::default()
    };
    fs::write(cx, &backup, old, owner)?;
    // The backup is valid even with another time.
    let set = known.modified().and_then(|modified| {
        let file = fs::raw::open(&backup)?;
        file.set_modified(modified)
    });
    if let Err(error) = set {
        log::warning(format_args!(
            "cannot set the time of {}: {error}",
            backup.display()
        ));
    }
    Ok(())
}
