//! `file.comment` and `file.uncomment`.

use std::path::Path;

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::Value;

use super::texts::{self, named, shown_diff};
use crate::exec::file::{edit, edit_comment, edit_replace};
use value::pyre::{Flags, Regex};

state::state_module! {
    /// Comment out lines, and remove comments from them.
    #[facts(effects = Effects::Files(&["name"]))]
    mod file;

    /// Comment out the lines of a file that a regular expression matches.
    ///
    ///     /etc/fstab:
    ///       file.comment:
    ///         - regex: ^/dev/sdb1
    fn comment(Comment {
        /// The path of the file.
        name: String,
        /// A regular expression that matches the lines.
        regex: String,
        /// The comment character.
        char: String = "#".into(),
        /// The suffix of the backup's name. False makes no backup.
        backup: Value = ".bak".into(),
        /// True to succeed even if no line matches.
        ignore_missing: bool = false,
    });

    /// Remove the comment character from the lines of a file that a regular expression matches.
    ///
    ///     /etc/fstab:
    ///       file.uncomment:
    ///         - regex: ^/dev/sdb1
    fn uncomment(Uncomment {
        /// The path of the file.
        name: String,
        /// A regular expression that matches the lines without the comment character.
        regex: String,
        /// The comment character.
        char: String = "#".into(),
        /// The suffix of the backup's name. False makes no backup.
        backup: Value = ".bak".into(),
    });
}

fn comment(cx: &Exec, args: Comment) -> Result<Ret, Error> {
    let name = texts::expanded(&args.name);
    if name.is_empty() {
        return Err("Must provide name to file.comment".into());
    }
    if let Some(problem) = texts::unusable(&name) {
        return Ok(named(Ret::failed(problem), &name));
    }
    let bare = unanchored(&args.regex)?;
    let char = &args.char;
    let commented = format!("{char}{bare}");
    let ret = if edit_replace::found_in_lines(&name, &format!("^(?!\\s*{char})\\s*{bare}"))? {
        let change = Change {
            name: &name,
            regex: &args.regex,
            char,
            backup: &args.backup,
            wanted: &commented,
            out: true,
        };
        change.made(cx)?
    } else if edit_replace::found_in_lines(&name, &commented)? {
        Ret::ok("Pattern already commented")
    } else if args.ignore_missing {
        Ret::ok("Pattern not found and ignore_missing set to True")
    } else {
        Ret::failed(format!("{bare}: Pattern not found"))
    };
    Ok(named(ret, &name))
}

/// Returns the expression without leading flags and without `^` and `$` around it.
fn unanchored(regex: &str) -> Result<String, Error> {
    let around = Regex::new(r"^(\(\?[iLmsux]\))?\^?(.*?)\$?$", Flags::NONE)?;
    let inner = around.template(r"\2")?;
    Ok(around.subn(&inner, regex, 0)?.0)
}

fn uncomment(cx: &Exec, args: Uncomment) -> Result<Ret, Error> {
    let name = texts::expanded(&args.name);
    if name.is_empty() {
        return Err("Must provide name to file.uncomment".into());
    }
    if let Some(problem) = texts::unusable(&name) {
        return Ok(named(Ret::failed(problem), &name));
    }
    let bare = args.regex.trim_start_matches('^');
    let (commented, plain) = (
        format!("{}[ \t]*{bare}", args.char),
        format!("^[ \t]*{bare}"),
    );
    let ret = if edit_replace::found_in_lines(&name, &commented)? {
        let change = Change {
            name: &name,
            regex: &args.regex,
            char: &args.char,
            backup: &args.backup,
            wanted: &plain,
            out: false,
        };
        change.made(cx)?
    } else if edit_replace::found_in_lines(&name, &plain)? {
        Ret::ok("Pattern already uncommented")
    } else {
        Ret::failed(format!("{}: Pattern not found", args.regex))
    };
    Ok(named(ret, &name))
}

/// A change that comments lines out or uncomments them.
struct Change<'a> {
    name: &'a str,
    regex: &'a str,
    char: &'a str,
    backup: &'a Value,
    /// The regular expression that must match after the change.
    wanted: &'a str,
    out: bool,
}

impl Change<'_> {
    fn made(&self, cx: &Exec) -> Result<Ret, Error> {
        let name = self.name;
        let would = Ret::would(format!("File {name} is set to be updated")).change(name, "updated");
        cx.apply(would, || self.make(cx))
    }

    fn make(&self, cx: &Exec) -> Result<Ret, Error> {
        let path = Path::new(self.name);
        let contents = || edit::utf8(path, edit::read(path)?);
        let old = contents()?;
        edit_comment::run(cx, self.name, self.regex, self.char, self.out, self.backup)?;
        let new = contents()?;
        let done = if self.out { "commented" } else { "uncommented" };
        let mut ret = if edit_replace::found_in_lines(self.name, self.wanted)? {
            let done = if self.out { "Commented" } else { "Uncommented" };
            Ret::ok(format!("{done} lines successfully"))
        } else {
            Ret::failed(format!("Expected {done} lines not found"))
        };
        if old != new {
            let diff = shown_diff(self.name, true, || texts::line_diff(&old, &new));
            ret = ret.change("diff", diff);
        }
        Ok(ret)
    }
}
