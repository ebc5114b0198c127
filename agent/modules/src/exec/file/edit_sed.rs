//! Edits and searches files with the programs `sed`, `grep` and `patch`.

use machine::fs;
use machine::process::{self, Process};
use python::{path, shlex};
use state::exec::Exec;
use state::module::Error;
use value::Value;

use super::edit;
use super::paths::globbed;
use value::pyre::{Flags, Regex};

state::exec_module! {
    /// Edit with `sed`, search with `grep` and apply patches.
    mod file;

    /// Make a simple edit to a file with `sed`. Prefer `file.replace`, which is newer.
    ///
    ///     salt-call file.sed /etc/app.conf before='port = 80' after='port = 8080'
    fn sed(Sed {
        /// The path of the file.
        path: String,
        /// The pattern to search for.
        before: Value,
        /// The replacement.
        after: Value,
        /// The pattern of the lines to edit. The default is all lines.
        limit: String = String::new(),
        /// The suffix of the backup's name.
        backup: Value = ".bak".into(),
        /// The options of `sed`.
        options: String = "-r -e".into(),
        /// The flags of the `s` command.
        flags: String = "g".into(),
        /// True to escape special characters, so that they match literally.
        escape_all: bool = false,
        /// True to edit only lines that do not match `limit`.
        negate_match: bool = false,
    });

    /// Return True if `sed` finds the text in the file.
    ///
    ///     salt-call file.sed_contains /etc/app.conf 'port = 8080'
    fn sed_contains(SedContains {
        /// The path of the file.
        path: String,
        /// The text to search for.
        text: Value,
        /// The pattern of the lines to search. The default is all lines.
        limit: Value = "".into(),
        /// The flags of the `s` command.
        flags: String = "g".into(),
    });

    /// Make a simple edit to a file as `sed` does, with Python's regular expressions.
    ///
    ///     salt-call file.psed /etc/app.conf before='port = 80' after='port = 8080'
    fn psed(Psed {
        /// The path of the file.
        path: String,
        /// The regular expression to search for.
        before: Value,
        /// The replacement.
        after: Value,
        /// A regular expression. Only the text after its first match is edited.
        limit: String = String::new(),
        /// The suffix of the backup's name.
        backup: String = ".bak".into(),
        /// The flags: letters of Python's `re` module, and `g` to replace all occurrences.
        flags: String = "gMS".into(),
        /// True to escape special characters, so that they match literally.
        escape_all: bool = false,
        /// Accepted and ignored.
        multi: bool = false,
    });

    /// Search files with `grep`. Return the result in the form of `cmd.run_all`.
    ///
    ///     salt-call file.grep /etc/passwd root
    fn grep(Grep {
        /// The path to search. It may contain wildcards.
        path: String,
        /// The pattern to search for.
        pattern: String,
        *opts,
    });

    /// Apply a patch with the program `patch`. Return the result in the form of `cmd.run_all`.
    ///
    ///     salt-call file.patch /opt/app/main.py /srv/fix.patch
    fn patch(Patch {
        /// The path of the file or folder to patch.
        originalfile: String,
        /// The path of the patch file.
        patchfile: String,
        /// The options of `patch`.
        options: Value = "".into(),
        /// True to change nothing and only report what would happen.
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

/// Returns the text after the first match of `limit`. Removes all later matches from it.
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

/// Runs a command as `cmd.run_all` does: its return code becomes the exit code of the call.
fn run_all(cx: &Exec, command: Vec<String>) -> Result<Value, Error> {
    let output = Process::words(command).run(cx)?;
    cx.set_retcode(output.retcode.unwrap_or(0));
    Ok(output.to_map().into())
}
