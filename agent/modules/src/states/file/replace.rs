//! `file.replace`.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::Value;

use super::texts::{self, named};
use crate::exec::file::edit_replace::{self, Wanted};
use value::pyre::Flags;

state::state_module! {
    /// Replace text by regular expression.
    #[facts(effects = Effects::Files(&["name"]))]
    mod file;

    /// Replace the text in a file that a regular expression matches.
    ///
    ///     /etc/ssh/sshd_config:
    ///       file.replace:
    ///         - pattern: ^#?Port .*
    ///         - repl: Port 2222
    fn replace(Replace {
        /// The path of the file.
        name: String,
        /// A regular expression in Python's syntax.
        pattern: String,
        /// The replacement. `\1` and `\g<name>` refer to groups.
        repl: Value,
        /// The maximum number of occurrences to replace; 0 for all.
        count: i64 = 0,
        /// Flags of the `re` module: a number, or a list of names.
        flags: Value = 8.into(),
        /// The size of the buffer for reading. Ignored: the whole file is read at once.
        bufsize: Value = 1.into(),
        /// True to append the replacement if the pattern is not found.
        append_if_not_found: bool = false,
        /// True to prepend the replacement if the pattern is not found.
        prepend_if_not_found: bool = false,
        /// The text to append or prepend instead of the replacement.
        not_found_content: Option<String> = None,
        /// The suffix of the backup's name. False makes no backup.
        backup: Value = ".bak".into(),
        /// True to include a diff in the changes.
        show_changes: bool = true,
        /// True to succeed even if the file does not exist.
        ignore_if_missing: bool = false,
        /// True if backslashes in the replacement are plain characters.
        backslash_literal: bool = false,
        /// The encoding of the file. Default: the file is searched as bytes.
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

/// Returns the result of an edit. `changes` is the diff, or whether there were changes.
pub(super) fn outcome(cx: &Exec, changes: Value, would: &str) -> Ret {
    if !changes.is_true() {
        Ret::ok("No changes needed to be made")
    } else if cx.test {
        Ret::would(format!("Changes {would}")).change("diff", changes)
    } else {
        Ret::ok("Changes were made").change("diff", changes)
    }
}
