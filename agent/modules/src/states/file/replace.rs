//! `file.replace`.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::Value;

use super::texts::{self, named};
use crate::exec::file::edit_replace::{self, Wanted};
use value::pyre::Flags;

state::state_module! {
    /// Replacing by regular expression.
    mod file;

    /// Maintain an edit in a file: replace what a regular expression matches.
    fn replace(Replace {
        /// The path of the file.
        name: String,
        /// A regular expression in Python's syntax.
        pattern: String,
        /// What is put in its place: `\1` and `\g<name>` stand for groups.
        repl: Value,
        /// How many occurrences are replaced; 0 is all.
        count: i64 = 0,
        /// Flags of the `re` module: a number, or a list of names.
        flags: Value = 8.into(),
        /// How much is read at once: everything, here.
        bufsize: Value = 1.into(),
        /// Append the replacement when the pattern is not found.
        append_if_not_found: bool = false,
        /// Prepend the replacement when the pattern is not found.
        prepend_if_not_found: bool = false,
        /// What is appended or prepended instead of the replacement.
        not_found_content: Option<String> = None,
        /// The end of the backup's name; False makes none.
        backup: Value = ".bak".into(),
        /// Show a diff.
        show_changes: bool = true,
        /// A file that is not there is no error.
        ignore_if_missing: bool = false,
        /// Backslashes in the replacement are plain characters.
        backslash_literal: bool = false,
        /// The file's encoding; without it bytes are searched.
        encoding: Option<String> = None,
    });
}

fn replace(cx: &Exec, args: Replace) -> Result<Ret, Error> {
    let name = texts::expanded(&args.name);
    if name.is_empty() {
        return Err("Must provide name to file.replace".into());
    }
    if let Some(problem) = texts::unusable(&name) {
        let ret = if args.ignore_if_missing && problem.contains("file not found") {
            Ret::ok("No changes needed to be made")
        } else {
            Ret::failed(problem)
        };
        return Ok(named(ret, &name));
    }
    let wanted = Wanted {
        pattern: args.pattern,
        repl: args.repl.to_text(),
        count: usize::try_from(args.count).unwrap_or_default(),
        flags: Flags::of_value(&args.flags)?,
        append: args.append_if_not_found,
        prepend: args.prepend_if_not_found,
        not_found_content: args.not_found_content,
        backslash_literal: args.backslash_literal,
        encoding: args.encoding,
        backup: args.backup,
        dry_run: cx.test,
    };
    let diff = edit_replace::run(cx, &name, &wanted)?;
    let shown = if args.show_changes {
        Value::from(diff)
    } else {
        (!diff.is_empty()).into()
    };
    Ok(named(outcome(cx, shown, "would have been made"), &name))
}

/// The return for a diff, or for whether there were changes.
pub(super) fn outcome(cx: &Exec, changes: Value, would: &str) -> Ret {
    if !changes.is_true() {
        Ret::ok("No changes needed to be made")
    } else if cx.test {
        Ret::would(format!("Changes {would}")).change("diff", changes)
    } else {
        Ret::ok("Changes were made").change("diff", changes)
    }
}
