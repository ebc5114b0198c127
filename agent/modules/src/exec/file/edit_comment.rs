//! `file.comment`, `file.uncomment` and `file.comment_line`: comment and uncomment lines.

use std::path::Path;

use machine::fs;
use python::{difflib, text};
use state::exec::Exec;
use state::module::Error;
use value::Value;

use super::edit;
use value::pyre::{Anchor, Flags, Regex, Subject};

state::exec_module! {
    /// Comment and uncomment lines of files.
    mod file;

    /// Comment out the lines that a regular expression matches.
    ///
    ///     salt-call file.comment /etc/fstab ^/dev/sdb1
    fn comment(Comment {
        /// The path of the file.
        path: String,
        /// A regular expression that matches the lines.
        regex: String,
        /// The text that comments out a line.
        char: String = "#".into(),
        /// The suffix of the backup's name. False makes no backup.
        backup: Value = ".bak".into(),
    });

    /// Uncomment the commented lines that a regular expression matches.
    ///
    ///     salt-call file.uncomment /etc/fstab ^/dev/sdb1
    fn uncomment(Uncomment {
        /// The path of the file.
        path: String,
        /// A regular expression that matches the lines without the comment text.
        regex: String,
        /// The text that comments out a line.
        char: String = "#".into(),
        /// The suffix of the backup's name. False makes no backup.
        backup: Value = ".bak".into(),
    });

    /// Comment or uncomment the lines that a regular expression matches. Return the diff, or False
    /// if no line matches.
    ///
    ///     salt-call file.comment_line /etc/fstab ^/dev/sdb1
    fn comment_line(CommentLine {
        /// The path of the file.
        path: String,
        /// A regular expression that matches the lines.
        regex: String,
        /// The text that comments out a line.
        char: String = "#".into(),
        /// True to comment out, False to uncomment.
        cmnt: bool = true,
        /// The suffix of the backup's name. False makes no backup.
        backup: Value = ".bak".into(),
    });
}

fn comment(cx: &Exec, args: Comment) -> Result<Value, Error> {
    run(cx, &args.path, &args.regex, &args.char, true, &args.backup)
}

fn uncomment(cx: &Exec, args: Uncomment) -> Result<Value, Error> {
    run(cx, &args.path, &args.regex, &args.char, false, &args.backup)
}

fn comment_line(cx: &Exec, args: CommentLine) -> Result<Value, Error> {
    run(
        cx,
        &args.path,
        &args.regex,
        &args.char,
        args.cmnt,
        &args.backup,
    )
}

/// Comments or uncomments lines. Returns a diff of these lines, or False if no line matches.
pub(crate) fn run(
    cx: &Exec,
    path: &str,
    regex: &str,
    char: &str,
    out: bool,
    backup: &Value,
) -> Result<Value, Error> {
    let path = edit::real_path(path);
    let data = checked(&path)?;
    let anchor = if regex.ends_with('$') { "$" } else { "" };
    let bare = regex.trim_start_matches('^').trim_end_matches('$');
    let pattern = match (out, regex.starts_with('^')) {
        (true, true) => format!("^({bare}){anchor}"),
        (true, false) => format!("({bare}){anchor}"),
        (false, _) => format!("^{char}\\s*({bare}){anchor}"),
    };
    let regex = Regex::compiled(&pattern, Flags::NONE, Subject::Text, Anchor::Start)?;
    let marks: Vec<char> = char.chars().collect();
    let (mut old, mut new, mut all) = (Vec::new(), Vec::new(), String::new());
    for line in text::lines(&data) {
        if !regex.is_match(line)? {
            all.push_str(line);
            continue;
        }
        let changed = if out {
            format!("{char}{line}")
        } else {
            line.trim_start_matches(marks.as_slice()).to_owned()
        };
        all.push_str(&changed);
        old.push(line.to_owned());
        new.push(changed);
    }
    if old.is_empty() {
        return Ok(false.into());
    }
    if let Some(suffix) = edit::backup_suffix(backup) {
        edit::keep_backup(cx, &path, data.as_bytes(), &suffix)?;
    }
    fs::write(cx, &path, all.as_bytes(), fs::Owner::default())?;
    Ok(difflib::get_diff(&old, &new, "", "").into())
}

fn checked(path: &Path) -> Result<String, Error> {
    let shown = path.display();
    if !path.is_file() {
        return Err(Error::refused(format!("File not found: {shown}")));
    }
    let data = edit::read(path)?;
    if !text::is_text(&data) {
        return Err(Error::refused(format!(
            "Cannot perform string replacements on a binary file: {shown}"
        )));
    }
    edit::utf8(path, data)
}
