//! `file.blockreplace`: replaces the text between two markers.

use std::path::Path;

use machine::fs;
use python::{difflib, path, text};
use state::exec::Exec;
use state::module::Error;
use value::Value;

use super::edit;
use value::pyre::{Flags, Regex};

state::exec_module! {
    /// Replace the text between two markers in a file.
    mod file;

    /// Replace the content of a text block in a file, which is delimited by line markers.
    ///
    ///     salt-call file.blockreplace /etc/hosts marker_start='# BEGIN' marker_end='# END' content='10.0.0.7 db1' append_if_not_found=True
    fn blockreplace(Blockreplace {
        /// The path of the file.
        path: String,
        /// The text that marks the line where the block starts.
        marker_start: String = "#-- start managed zone --".into(),
        /// The text that marks the line where the block ends.
        marker_end: String = "#-- end managed zone --".into(),
        /// The text of the block.
        content: String = String::new(),
        /// True to append the block if the markers are not found.
        append_if_not_found: bool = false,
        /// True to prepend the block if the markers are not found.
        prepend_if_not_found: bool = false,
        /// The suffix of the backup's name. False makes no backup.
        backup: Value = ".bak".into(),
        /// True to change nothing and only return the changes.
        dry_run: bool = false,
        /// True to return a diff, False to return whether there are changes.
        show_changes: bool = true,
        /// True to add a newline after the content, False to add none, None to add one only if the
        /// content does not end with a newline.
        append_newline: Option<bool> = Some(false),
        /// If the markers are not found, insert the block before the first line that this regular
        /// expression matches.
        insert_before_match: Value = Value::Null,
        /// If the markers are not found, insert the block after the first line that this regular
        /// expression matches.
        insert_after_match: Value = Value::Null,
    });
}

/// The block to insert, and the place for it.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) marker_start: String,
    pub(crate) marker_end: String,
    pub(crate) content: String,
    pub(crate) append: bool,
    pub(crate) prepend: bool,
    pub(crate) backup: Value,
    pub(crate) dry_run: bool,
    pub(crate) append_newline: Option<bool>,
    pub(crate) before: Value,
    pub(crate) after: Value,
}

fn blockreplace(cx: &Exec, args: Blockreplace) -> Result<Value, Error> {
    let wanted = Wanted {
        marker_start: args.marker_start,
        marker_end: args.marker_end,
        content: args.content,
        append: args.append_if_not_found,
        prepend: args.prepend_if_not_found,
        backup: args.backup,
        dry_run: args.dry_run,
        append_newline: args.append_newline,
        before: args.insert_before_match,
        after: args.insert_after_match,
    };
    let diff = run(cx, &args.path, &wanted)?;
    Ok(if args.show_changes {
        diff.into()
    } else {
        (!diff.is_empty()).into()
    })
}

/// Replaces the block, and returns the diff.
pub(crate) fn run(cx: &Exec, path: &str, wanted: &Wanted) -> Result<String, Error> {
    let exclusive = [
        wanted.append,
        wanted.prepend,
        wanted.before.is_true(),
        wanted.after.is_true(),
    ];
    if exclusive.iter().filter(|given| **given).count() > 1 {
        return Err("Only one of append_if_not_found, prepend_if_not_found, insert_before_match, and insert_after_match is permitted".into());
    }
    let path = path::expand_user(path);
    if !path.exists() {
        return Err(Error::refused(format!(
            "File not found: {}",
            path.display()
        )));
    }
    let data = edit::read(&path)?;
    let old = readable(&path, &data)?;
    let old_lines = text::owned(text::file_lines(&old));
    let new_lines = wanted.placed(&old_lines)?;
    let diff = difflib::get_diff(&old_lines, &new_lines, "", "");
    if diff.is_empty() || wanted.dry_run {
        if !diff.is_empty() {
            fs::would_hold(cx, &path, || Ok(new_lines.concat()));
        }
        return Ok(diff);
    }
    if wanted.backup != Value::Bool(false) {
        edit::keep_backup(cx, &path, &data, &wanted.backup.to_text())?;
    }
    fs::write(
        cx,
        &path,
        new_lines.concat().as_bytes(),
        fs::Owner::default(),
    )?;
    Ok(diff)
}

fn readable(path: &Path, data: &[u8]) -> Result<String, Error> {
    match std::str::from_utf8(data) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) if text::is_text(data.get(..2048).unwrap_or(data)) => {
            edit::utf8(path, data.to_vec())
        }
        Err(_) => Err(Error::refused(format!(
            "Cannot perform string replacements on a binary file: {}",
            path.display()
        ))),
    }
}

/// The result of a pass over the lines of a file.
struct Pass {
    lines: Vec<String>,
    found: bool,
    newline: &'static str,
}

impl Wanted {
    /// Returns the lines of the file with the block inserted or replaced.
    fn placed(&self, old: &[String]) -> Result<Vec<String>, Error> {
        let inserts = self.before.is_true() || self.after.is_true();
        let pattern = self.pattern()?;
        let mut pass = self.between_markers(old)?;
        if pass.found {
            return Ok(pass.lines);
        }
        let newline = pass.newline;
        if self.prepend {
            return Ok([self.block(newline), pass.lines].concat());
        }
        if self.append {
            if let Some(last) = pass
                .lines
                .last_mut()
                .filter(|last| !last.ends_with(newline))
            {
                last.push_str(newline);
            }
            return Ok([pass.lines, self.block(newline)].concat());
        }
        let not_found = "Cannot edit marked block. Markers were not found in file.";
        if !inserts {
            return Err(not_found.into());
        }
        let Some(place) = first_match(&pattern, old)? else {
            return Err(not_found.into());
        };
        let place = place + usize::from(!self.before.is_true());
        let mut lines = pass.lines;
        let end = lines.split_off(place.min(lines.len()));
        Ok([lines, self.block(newline), end].concat())
    }

    fn pattern(&self) -> Result<String, Error> {
        for (name, given) in [
            ("insert_before_match", &self.before),
            ("insert_after_match", &self.after),
        ] {
            if given.is_true() {
                return given
                    .as_str()
                    .map(str::to_owned)
                    .ok_or_else(|| Error::refused(format!("RegEx expected in {name} parameter.")));
            }
        }
        Ok(String::new())
    }

    fn between_markers(&self, old: &[String]) -> Result<Pass, Error> {
        let newline = old.first().map_or(
            "\n",
            |line| {
                if line.ends_with("\r\n") { "\r\n" } else { "\n" }
            },
        );
        let mut pass = Pass {
            lines: Vec::new(),
            found: false,
            newline,
        };
        let mut inside = false;
        for line in old {
            if line.contains(&self.marker_start) {
                inside = true;
            } else if inside {
                if let Some(end) = line.find(&self.marker_end) {
                    (inside, pass.found) = (false, true);
                    let end = line.get(end..).unwrap_or_default();
                    self.add(&mut pass.lines, newline, end);
                }
                continue;
            }
            pass.lines.push(line.clone());
        }
        if inside {
            return Err("Unterminated marked block. End of file reached before marker_end.".into());
        }
        Ok(pass)
    }

    /// Returns the whole block with both markers.
    fn block(&self, newline: &str) -> Vec<String> {
        let mut lines = vec![format!("{}{newline}", self.marker_start)];
        self.add(&mut lines, newline, &self.marker_end);
        lines
    }

    /// Appends the content and the line that ends the block.
    fn add(&self, lines: &mut Vec<String>, newline: &str, end: &str) {
        let end = format!("{}{newline}", end.trim_end_matches(['\r', '\n']));
        let content = self.content.replace("\r\n", "\n");
        let ends_itself = self.append_newline.is_none() && !self.content.ends_with('\n');
        let mut split = content.split('\n');
        let last = split.next_back().unwrap_or_default();
        lines.extend(split.map(|line| format!("{line}{newline}")));
        if ends_itself || self.append_newline == Some(true) {
            lines.push(format!("{last}{newline}"));
            lines.push(end);
        } else {
            lines.push(format!("{last}{end}"));
        }
    }
}

fn first_match(pattern: &str, lines: &[String]) -> Result<Option<usize>, Error> {
    let regex = Regex::new(pattern, Flags::NONE)?;
    for (index, line) in lines.iter().enumerate() {
        if regex.is_match(line)? {
            return Ok(Some(index));
        }
    }
    Ok(None)
}
