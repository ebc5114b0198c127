//! `file.line`.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Arguments, Error, Ret};
use value::{Map, Value};

use super::texts::{self, named};
use crate::exec::file::edit_line::{self, Wanted};

state::state_module! {
    /// Edit single lines.
    #[facts(effects = Effects::Files(&["name"]))]
    mod file;

    /// Line-focused editing of a file.
    ///
    ///     /etc/app/server.conf:
    ///       file.line:
    ///         - mode: ensure
    ///         - content: workers = 4
    ///         - after: ^\[server\]
    fn line(Line {
        /// The path of the file.
        name: String,
        /// The line.
        content: Option<String> = None,
        /// A part of the line to delete or replace, or a regular expression.
        r#match: Option<String> = None,
        /// The mode: `ensure`, `insert`, `replace` or `delete`.
        mode: Option<String> = None,
        /// The location for the mode `insert`: `start` or `end`.
        location: Option<String> = None,
        /// A text or regular expression that finds the line before which to insert.
        before: Option<String> = None,
        /// A text or regular expression that finds the line after which to insert.
        after: Option<String> = None,
        /// True to include a diff in the changes.
        show_changes: bool = true,
        /// True to keep the old file next to it, with the time added to its name.
        backup: bool = false,
        /// True to succeed even if the file does not exist.
        quiet: bool = false,
        /// True to use the indentation of the neighbouring line.
        indent: bool = true,
        /// True to create an empty file if it does not exist.
        create: bool = false,
        /// The user that owns the file.
        user: Value = Value::Null,
        /// The group that owns the file.
        group: Value = Value::Null,
        /// The mode of the file.
        file_mode: Value = Value::Null,
    });
}

fn line(cx: &Exec, args: Line) -> Result<Ret, Error> {
    let name = texts::expanded(&args.name);
    if name.is_empty() {
        return Err("Must provide name to file.line".into());
    }
    managed(cx, &name, &args)?;
    if let Some(problem) = texts::unusable(&name) {
        return Ok(named(Ret::failed(problem), &name));
    }
    let mode = args.mode.map(|mode| mode.to_lowercase());
    let problem = match mode.as_deref() {
        None => Some("Mode was not defined. How to process the file?"),
        Some("delete") => None,
        Some(_) if args.content.is_some() => None,
        Some(_) => Some("Content can only be empty if mode is ['delete']"),
    };
    if let Some(problem) = problem {
        return Ok(named(Ret::failed(problem), &name));
    }
    let wanted = Wanted {
        content: args.content,
        matching: args.r#match,
        mode,
        location: args.location,
        before: args.before,
        after: args.after,
        show_changes: args.show_changes,
        backup: args.backup,
        quiet: args.quiet,
        indent: args.indent,
    };
    let changes = edit_line::run(cx, &name, &wanted)?;
    let ret = super::replace::outcome(cx, changes, "would be made");
    Ok(named(ret, &name))
}

/// Creates the file, or sets its owner and mode, if the arguments request it. As in Salt, a failed
/// result is not reported here; its effect shows in the steps that follow.
fn managed(cx: &Exec, name: &str, args: &Line) -> Result<(), Error> {
    let owned = [&args.user, &args.group, &args.file_mode];
    if !args.create && owned.iter().all(|value| value.is_null()) {
        return Ok(());
    }
    let full = "file.managed";
    let function = cx
        .state_function(full)
        .ok_or_else(|| Error::not_available(full.into()))?;
    let given = Map::new()
        .with("name", name)
        .with("create", args.create)
        .with("user", args.user.clone())
        .with("group", args.group.clone())
        .with("mode", args.file_mode.clone())
        .with("replace", false);
    function.invoke(full, cx, Arguments::new(Vec::new(), given))?;
    Ok(())
}
