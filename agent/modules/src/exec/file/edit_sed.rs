//! Editing and searching with the system's programs: `sed`, `grep` and `patch`.

use python::{path, shlex};
use state::exec::Exec;
use state::module::Error;
use value::Value;
use value::glob::{fnmatch, is_glob};

use super::edit;
use crate::fs;
use crate::process::{self, Process};
use value::pyre::{Flags, Regex};

state::exec_module! {
    /// Editing with `sed`, searching with `grep`, applying patches.
    mod file;

    /// Make a simple edit to a file with `sed`. Older than `file.replace`, which is to be preferred.
    fn sed(Sed {
        /// The path of the file.
        path: String,
        /// What is looked for.
        before: Value,
        /// What takes its place.
        after: Value,
        /// Only in lines that match this.
        limit: String = String::new(),
        /// The end of the backup's name.
        backup: Value = ".bak".into(),
        /// Options of `sed`.
        options: String = "-r -e".into(),
        /// Flags of the `s` command.
        flags: String = "g".into(),
        /// Take special characters as they are.
        escape_all: bool = false,
        /// Only in lines that do not match `limit`.
        negate_match: bool = false,
    });

    /// Return True if `sed` finds the text in the file.
    fn sed_contains(SedContains {
        /// The path of the file.
        path: String,
        /// What is looked for.
        text: Value,
        /// Only in lines that match this.
        limit: Value = "".into(),
        /// Flags of the `s` command.
        flags: String = "g".into(),
    });

    /// Make a simple edit to a file as `sed` does, with Python's regular expressions.
    fn psed(Psed {
        /// The path of the file.
        path: String,
        /// What is looked for.
        before: Value,
        /// What takes its place.
        after: Value,
        /// Only what follows this.
        limit: String = String::new(),
        /// The end of the backup's name.
        backup: String = ".bak".into(),
        /// Flags: letters of the `re` module, and `g` for all.
        flags: String = "gMS".into(),
        /// Take special characters as they are.
        escape_all: bool = false,
        /// Accepted for Salt's sake.
        multi: bool = false,
    });

    /// Search files with `grep`. Return what `cmd.run_all` returns.
    fn grep(Grep {
        /// The path, which may have wildcards.
        path: String,
        /// What is looked for.
        pattern: String,
        *opts,
    });

    /// Apply a patch with the system's `patch`. Return what `cmd.run_all` returns.
    fn patch(Patch {
        /// The file or folder that is patched.
        originalfile: String,
        /// The patch.
        patchfile: String,
        /// Options of `patch`.
        options: Value = "".into(),
        /// Only say what would happen.
        dry_run: bool = false,
    });
}

fn sed_escaped(text: &str, all: bool) -> String {
    let mut text = text.replace('\'', "'\"'\"'").replace('/', "\\/");
    if all {
        for special in "^.[$()|*+?{".chars() {
            text = text.replace(special, &format!("\\{special}"));
        }
    }
    text
}

fn address(limit: &str) -> String {
    if limit.is_empty() {
        String::new()
    } else {
        format!("/{limit}/ ")
    }
}

fn sed(cx: &Exec, args: Sed) -> Result<Value, Error> {
    let path = path::expand_user(&args.path);
    if !path.exists() {
        return Ok(false.into());
    }
    let before = sed_escaped(&args.before.to_text(), args.escape_all);
    let after = sed_escaped(&args.after.to_text(), args.escape_all);
    let limit = address(&sed_escaped(&args.limit, args.escape_all));
    let suffix = edit::backup_suffix(&args.backup).unwrap_or_default();
    let negation = if args.negate_match { "!" } else { "" };
    let mut command = vec!["sed".to_owned(), format!("-i{suffix}")];
    command.extend(shlex::split(&args.options)?);
    command.push(format!(
        "{limit}{negation}s/{before}/{after}/{}",
        args.flags
    ));
    command.push(path.display().to_string());
    run_all(cx, command)
}

fn sed_contains(cx: &Exec, args: SedContains) -> Result<Value, Error> {
    let path = path::expand_user(&args.path);
    if !path.exists() {
        return Ok(false.into());
    }
    let before = sed_escaped(&args.text.to_text(), false);
    let limit = address(&sed_escaped(&args.limit.to_text(), false));
    let mut command: Vec<String> = ["sed", "-n", "-r", "-e"].map(str::to_owned).into();
    command.push(format!("{limit}s/{before}/$/p{}", args.flags));
    command.push(path.display().to_string());
    let output = run_all(cx, command)?;
    Ok(output.get("stdout").is_some_and(Value::is_true).into())
}

fn psed(cx: &Exec, args: Psed) -> Result<Value, Error> {
    let path = path::expand_user(&args.path);
    let data = edit::read(&path)?;
    let old = edit::utf8(&path, data.clone())?;
    let limit = sed_escaped(&args.limit, args.escape_all);
    let body = match limit.as_str() {
        "" => old,
        limit => after_limit(&old, limit)?,
    };
    let mut flags = Flags::NONE;
    for letter in args.flags.chars().filter(|letter| *letter != 'g') {
        let flag = Flags::of_name(&letter.to_string());
        flags = flags.with(flag.ok_or_else(|| Error::refused(format!("'{letter}'")))?);
    }
    let before = sed_escaped(&args.before.to_text(), args.escape_all);
    let regex = Regex::new(&before, flags)?;
    let template = regex.template(&args.after.to_text())?;
    let count = usize::from(!args.flags.contains('g'));
    let (new, _) = regex.subn(&template, &body, count)?;
    edit::keep_backup(cx, &path, &data, &args.backup)?;
    fs::write(cx, &path, new.as_bytes(), fs::Owner::default())?;
    Ok(Value::Null)
}

/// What stands after the first match, without the later ones.
fn after_limit(text: &str, limit: &str) -> Result<String, Error> {
    let regex = Regex::new(limit, Flags::NONE)?;
    let Some(first) = regex.captures(text, 0)?.and_then(|found| found.get(0)) else {
        return Ok(String::new());
    };
    let rest = text.get(first.end()..).unwrap_or_default();
    let nothing = regex.template("")?;
    Ok(regex.subn(&nothing, rest, 0)?.0)
}

fn grep(cx: &Exec, args: Grep) -> Result<Value, Error> {
    let path = path::expand_user(&args.path);
    let shown = path.display().to_string();
    let mut command = vec!["grep".to_owned()];
    for option in &args.opts {
        let option = option.to_text();
        let mut words = shlex::split(&option)?;
        if words.len() > 1 {
            return Err(Error::refused(format!(
                "Passing multiple command line arguments in a single string is not supported, please pass the following arguments separately: {option}"
            )));
        }
        command.append(&mut words);
    }
    command.push(args.pattern);
    match globbed(&shown) {
        found if found.is_empty() => command.push(shown),
        found => command.extend(found),
    }
    run_all(cx, command)
}

/// Python's `glob.glob`.
fn globbed(pattern: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for (index, part) in pattern.split('/').enumerate() {
        let mut next = Vec::new();
        for folder in found {
            let prefix = if index == 0 {
                String::new()
            } else {
                format!("{folder}/")
            };
            if !is_glob(part) {
                let path = format!("{prefix}{part}");
                if path.is_empty() || std::path::Path::new(&path).symlink_metadata().is_ok() {
                    next.push(path);
                }
                continue;
            }
            let inside = if prefix.is_empty() { "." } else { &prefix };
            let here = fs::here_if_readable(inside).unwrap_or_default();
            for name in here.dirs.iter().chain(&here.files) {
                let hidden = name.starts_with('.') && !part.starts_with('.');
                if !hidden && fnmatch(part, name) {
                    next.push(format!("{prefix}{name}"));
                }
            }
        }
        found = next;
    }
    found
}

fn patch(cx: &Exec, args: Patch) -> Result<Value, Error> {
    let options = match &args.options {
        Value::List(items) => items.iter().map(Value::to_text).collect(),
        text => shlex::split(&text.to_text())?,
    };
    run_patch(
        cx,
        &args.originalfile,
        &args.patchfile,
        options,
        args.dry_run,
    )
}

/// Runs `patch` on a file or folder.
pub(crate) fn run_patch(
    cx: &Exec,
    original: &str,
    patch: &str,
    options: Vec<String>,
    dry_run: bool,
) -> Result<Value, Error> {
    let program = process::which("patch")
        .ok_or("patch executable not found. Is the distribution's patch package installed?")?;
    let mut command = vec![program];
    command.extend(options);
    let mut add = |option: &str| command.push(option.to_owned());
    if dry_run {
        add("--dry-run");
    }
    let has = |command: &[String], test: fn(&str) -> bool| command.iter().any(|o| test(o));
    if !has(&command, |o| o == "-N" || o == "--forward") {
        command.push("--forward".into());
    }
    if !has(&command, |o| {
        o == "-r" || o.starts_with("-r ") || o.starts_with("--reject-file")
    }) {
        command.push("--reject-file=-".into());
    }
    command.extend(["-i".to_owned(), patch.to_owned()]);
    if std::path::Path::new(original).is_dir() {
        command.extend(["-d".to_owned(), original.to_owned()]);
        if !has(&command, |o| {
            o.starts_with("-p") || o.starts_with("--strip=")
        }) {
            command.push("--strip=0".into());
        }
    } else {
        command.push(original.to_owned());
        if !dry_run {
            let path = std::path::Path::new(original);
            return fs::changed_by(cx, path, || run_all(cx, command));
        }
    }
    run_all(cx, command)
}

/// As `cmd.run_all`, which asks for the command's return code as the exit code.
fn run_all(cx: &Exec, command: Vec<String>) -> Result<Value, Error> {
    let output = Process::words(command).run(cx)?;
    cx.set_retcode(output.retcode.unwrap_or(0));
    Ok(output.to_map().into())
}
