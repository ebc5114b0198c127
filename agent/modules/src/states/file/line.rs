//! `file.line`.

use state::exec::Exec;
use state::module::{Error, Given, Ret};
use value::{Map, Value};

use super::texts::{self, named};
use crate::exec::file::edit_line::{self, Wanted};

state::state_module! {
    /// Editing single lines.
    mod file;

    /// Line-focused editing of a file.
    fn line(Line {
        /// The path of the file.
        name: String,
        /// The line.
        content: Option<String> = None,
        /// What finds the line to delete or replace: part of it, or a regular expression.
        r#match: Option<String> = None,
        /// `ensure`, `insert`, `replace` or `delete`.
        mode: Option<String> = None,
        /// For insert: `start` or `end`.
        location: Option<String> = None,
        /// What finds the line before which it stands.
        before: Option<String> = None,
        /// What finds the line after which it stands.
        after: Option<String> = None,
        /// Show a diff.
        show_changes: bool = true,
        /// Keep the file as it was beside it, under its name and the time.
        backup: bool = false,
        /// A file that is not there is no error.
        quiet: bool = false,
        /// Take over the indentation of the line beside it.
        indent: bool = true,
        /// Make an empty file where there is none.
        create: bool = false,
        /// The user that owns the file.
        user: Value = Value::Null,
        /// The group that owns the file.
        group: Value = Value::Null,
        /// The file's mode.
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

/// Makes the file, or sets its owner and mode, where that is asked for. As in Salt its failure only shows in what follows.
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
    function.invoke(full, cx, Given::new(Vec::new(), given))?;
    Ok(())
}
