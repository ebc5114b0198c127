//! `file.line`: edits single lines.

use std::path::Path;

use machine::fs;
use python::{difflib, text};
use state::exec::Exec;
use state::module::Error;
use value::Value;

use super::edit;
use value::pyre::{Flags, Regex};

state::exec_module! {
    /// Edit single lines of a file.
    mod file;

    /// Edit a line of a file. Return the diff, or whether there were changes.
    ///
    ///     salt-call file.line /etc/app.conf content='workers = 4' mode=ensure after='^\[server\]'
    fn line(Line {
        /// The path of the file.
        path: String,
        /// The text of the line.
        content: Option<String> = None,
        /// The text that identifies the line to delete or replace: a part of the line, or a regular
        /// expression.
        r#match: Option<String> = None,
        /// The mode: `ensure`, `insert`, `replace` or `delete`.
        mode: Option<String> = None,
        /// The place for mode `insert`: `start` or `end`.
        location: Option<String> = None,
        /// The text or regular expression of the line that must follow the new line.
        before: Option<String> = None,
        /// The text or regular expression of the line that must precede the new line.
        after: Option<String> = None,
        /// True to return a diff, False to return whether there were changes.
        show_changes: bool = true,
        /// True to make a backup of the file in the same folder. Its name ends with the time.
        backup: bool = false,
        /// True to ignore a missing file.
        quiet: bool = false,
        /// True to use the indentation of the adjacent line.
        indent: bool = true,
    });
}

/// The edit to make, and the conditions that select the line.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) content: Option<String>,
    pub(crate) matching: Option<String>,
    pub(crate) mode: Option<String>,
    pub(crate) location: Option<String>,
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
    pub(crate) show_changes: bool,
    pub(crate) backup: bool,
    pub(crate) quiet: bool,
    pub(crate) indent: bool,
}

fn line(cx: &Exec, args: Line) -> Result<Value, Error> {
    let wanted = Wanted {
        content: args.content,
        matching: args.r#match,
        mode: args.mode,
        location: args.location,
        before: args.before,
        after: args.after,
        show_changes: args.show_changes,
        backup: args.backup,
        quiet: args.quiet,
        indent: args.indent,
    };
    run(cx, &args.path, &wanted)
}

/// Edits the file unless in test mode. Returns the diff, or whether there were changes.
pub(crate) fn run(cx: &Exec, path: &str, wanted: &Wanted) -> Result<Value, Error> {
    let path = edit::real_path(path);
    if !path.is_file() {
        if wanted.quiet {
            return Ok(false.into());
        }
        let path = path.display();
        return Err(Error::refused(format!(
            "File \"{path}\" does not exists or is not a file."
        )));
    }
    let mode = Mode::parse(wanted.mode.as_deref())?;
    if mode != Mode::Delete && wanted.content.is_none() {
        return Err("Content can only be empty if mode is \"delete\"".into());
    }
    let old = edit::utf8(&path, edit::read(&path)?)?;
    let new = wanted.edited(&old, mode)?;
    if old == new.concat() {
        return Ok(false.into());
    }
    let diff = difflib::get_diff(&text::owned(text::split_lines(&old)), &new, "", "");
    if cx.test {
        fs::would_hold(cx, &path, || Ok(new.concat()));
    } else {
        if wanted.backup {
            keep_dated(cx, &path)?;
        }
        fs::write(cx, &path, new.concat().as_bytes(), fs::Owner::default())?;
    }
    Ok(if wanted.show_changes && !diff.is_empty() {
        diff.into()
    } else {
        true.into()
    })
}

fn keep_dated(cx: &Exec, path: &Path) -> Result<(), Error> {
    let stamp = jiff::Zoned::now().strftime("%Y-%m-%d-%H-%M-%S");
    edit::keep_backup(cx, path, &edit::read(path)?, &format!(".{stamp}"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Insert,
    Ensure,
    Delete,
    Replace,
}

impl Mode {
    fn parse(word: Option<&str>) -> Result<Self, Error> {
        match word.map(str::to_lowercase).as_deref() {
            Some("insert") => Ok(Self::Insert),
            Some("ensure") => Ok(Self::Ensure),
            Some("delete") => Ok(Self::Delete),
            Some("replace") => Ok(Self::Replace),
            None => Err("Mode was not defined. How to process the file?".into()),
            Some(other) => Err(Error::refused(format!("Unknown mode: \"{other}\""))),
        }
    }
}

/// The lines that an expression matches, or `None` if there is no expression or no line to search.
type Found = Option<Vec<String>>;

fn found(lines: &[String], expression: Option<&str>) -> Result<Found, Error> {
    let Some(expression) = expression.filter(|text| !text.is_empty() && !lines.is_empty()) else {
        return Ok(None);
    };
    let wrong = |error| Error::refused(format!("{error}: '{expression}'"));
    let regex = Regex::new(expression, Flags::DOTALL).map_err(wrong)?;
    let mut matching = Vec::new();
    for line in lines {
        if regex.is_match(line).map_err(wrong)? || line.contains(expression) {
            matching.push(line.clone());
        }
    }
    Ok(Some(matching))
}

/// Returns the position of the first line equal to the only match. Returns an error unless there is
/// exactly one match.
fn only(lines: &[String], matching: &[String], name: &str) -> Result<usize, Error> {
    let problem = match matching.len() {
        1 => None,
        0 => Some("less than"),
        _ => Some("more than"),
    };
    if let Some(problem) = problem {
        return Err(Error::refused(format!(
            "Found {problem} expected occurrences in \"{name}\" expression"
        )));
    }
    let first = matching.first();
    Ok(lines
        .iter()
        .position(|line| Some(line) == first)
        .unwrap_or_default())
}

fn line_end(line: &str) -> &'static str {
    if line.ends_with("\r\n") {
        "\r\n"
    } else if line.ends_with('\n') {
        "\n"
    } else if line.ends_with('\r') {
        "\r"
    } else {
        ""
    }
}

/// Returns the line with the line ending of another line.
fn ended_as(other: &str, line: &str) -> String {
    let end = match line_end(other) {
        "" => "\n",
        end => end,
    };
    format!("{}{end}", line.trim_end())
}

fn same_text(a: &str, b: &str) -> bool {
    a.trim_end_matches(['\r', '\n']) == b.trim_end_matches(['\r', '\n'])
}

impl Wanted {
    fn edited(&self, old: &str, mode: Mode) -> Result<Vec<String>, Error> {
        let mut lines = text::owned(text::file_lines(old));
        if lines.last().is_some_and(|last| !line_end(last).is_empty()) {
            lines.push(String::new());
        }
        let mut lines = self.set(lines, mode)?;
        for index in 0..lines.len().saturating_sub(1) {
            let beside = if index > 1 { index - 1 } else { 1 };
            let Some(line) = lines.get(index).filter(|line| line_end(line).is_empty()) else {
                continue;
            };
            let whole = ended_as(lines.get(beside).map_or("", String::as_str), line);
            if let Some(line) = lines.get_mut(index) {
                *line = whole;
            }
        }
        if lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        Ok(lines)
    }

    fn set(&self, mut lines: Vec<String>, mode: Mode) -> Result<Vec<String>, Error> {
        let given = self.matching.as_deref().filter(|text| !text.is_empty());
        let placed = self.before.is_some() || self.after.is_some();
        let matching = match given {
            None if !placed => self.content.as_deref(),
            given => given,
        };
        let after = found(&lines, self.after.as_deref())?;
        let before = found(&lines, self.before.as_deref())?;
        let matching = found(&lines, matching)?.unwrap_or_default();
        match (mode, matching.first()) {
            (Mode::Delete, Some(first)) => lines.retain(|line| line != first),
            (Mode::Replace, Some(first)) => {
                if let Some(line) = lines.iter_mut().find(|line| *line == first) {
                    *line = self.indented(line);
                }
            }
            (Mode::Delete | Mode::Replace, None) => {}
            (Mode::Insert, _) => self.insert(&mut lines, &before, &after)?,
            (Mode::Ensure, _) => self.ensure(&mut lines, &before, &after)?,
        }
        Ok(lines)
    }

    fn text(&self) -> &str {
        self.content.as_deref().unwrap_or_default()
    }

    /// Returns the content with the indentation of another line.
    fn indented(&self, other: &str) -> String {
        if !self.indent {
            return self.text().to_owned();
        }
        let end = other.find(|c| c != '\t' && c != ' ');
        let white = other.get(..end.unwrap_or(other.len())).unwrap_or_default();
        format!("{white}{}", self.text().trim_start())
    }

    /// Inserts the content at a position, with the indentation of the line at `like`.
    fn put(&self, lines: &mut Vec<String>, at: usize, like: usize) {
        let line = self.indented(lines.get(like).map_or("", String::as_str));
        lines.insert(at.min(lines.len()), line);
    }

    fn insert(&self, lines: &mut Vec<String>, before: &Found, after: &Found) -> Result<(), Error> {
        if before.is_none() && after.is_none() && self.location.is_none() {
            return Err(
                "On insert either \"location\" or \"before/after\" conditions are required.".into(),
            );
        }
        if let Some(location) = self.location.as_deref().filter(|text| !text.is_empty()) {
            self.insert_at(lines, location);
            return Ok(());
        }
        let (before, after) = (some(before), some(after));
        match (before, after) {
            (Some(before), Some(after)) => {
                let last = only(lines, before, "before")?;
                only(lines, after, "after")?;
                self.put(lines, last, last);
            }
            (None, Some(after)) => {
                let index = only(lines, after, "after")?;
                let there = lines
                    .get(index + 1)
                    .is_some_and(|next| same_text(next, self.text()));
                if !there {
                    self.put(lines, index + 1, index);
                }
            }
            (Some(before), None) => {
                let index = only(lines, before, "before")?;
                let previous = index.checked_sub(1).unwrap_or(lines.len() - 1);
                if !lines
                    .get(previous)
                    .is_some_and(|line| same_text(line, self.text()))
                {
                    self.put(lines, index, index);
                }
            }
            (None, None) => return Err("Neither before or after was found in file".into()),
        }
        Ok(())
    }

    fn insert_at(&self, lines: &mut Vec<String>, location: &str) {
        match (location, lines.first(), lines.last()) {
            ("end", _, Some(last)) => {
                let line = self.indented(last);
                lines.push(line);
            }
            ("end", ..) => lines.push(self.text().to_owned()),
            ("start", Some(first), _) => {
                let line = ended_as(first, self.text());
                lines.insert(0, line);
            }
            ("start", ..) => lines.push(format!("{}\n", self.text())),
            _ => {}
        }
    }

    fn ensure(&self, lines: &mut Vec<String>, before: &Found, after: &Found) -> Result<(), Error> {
        match (some(before), some(after)) {
            (Some(before), Some(after)) => {
                let after = only(lines, after, "after")?;
                let before = only(lines, before, "before")?;
                if lines.iter().any(|line| line.trim_start() == self.text()) {
                    return Ok(());
                }
                self.ensure_between(lines, before, after)
            }
            (Some(before), None) => {
                let index = only(lines, before, "before")?;
                let previous = index.checked_sub(1);
                let there = previous
                    .and_then(|previous| lines.get(previous))
                    .is_some_and(|line| same_text(line, self.text()));
                if !there {
                    let like = previous.unwrap_or_else(|| lines.len().saturating_sub(1));
                    self.put(lines, index, like);
                }
                Ok(())
            }
            (None, Some(after)) => {
                let index = only(lines, after, "after")?;
                let there = lines.get(index + 1).is_some_and(|next| same_text(next, self.text()));
                if !there {
                    self.put(lines, index + 1, index);
                }
                Ok(())
            }
            (None, None) => Err("Wrong conditions? Unable to ensure line without knowing where to put it before and/or after.".into()),
        }
    }

    fn ensure_between(
        &self,
        lines: &mut Vec<String>,
        before: usize,
        after: usize,
    ) -> Result<(), Error> {
        if after + 1 == before {
            self.put(lines, after + 1, after);
            return Ok(());
        }
        let line = self.indented(lines.get(after).map_or("", String::as_str));
        match lines.get_mut(after + 1).filter(|_| after + 2 == before) {
            Some(between) => {
                *between = line;
                Ok(())
            }
            None => {
                Err("Found more than one line between boundaries \"before\" and \"after\".".into())
            }
        }
    }
}

/// Returns `None` for an empty list, like the truth value of a list in Python.
fn some(found: &Found) -> Option<&[String]> {
    found.as_deref().filter(|lines| !lines.is_empty())
}
