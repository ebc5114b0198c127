//! `file.get_diff`, `file.apply_template_on_contents`, and comparing files with what they should be.

use python::difflib;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::managed::{self as work, Found, Ignore, Request};
use super::source as sums;
use super::stat::normalized;
use crate::fs;
use crate::source::{self, How};

state::exec_module! {
    /// Compare files.
    mod file;

    /// Return the differences of two files.
    fn get_diff(GetDiff {
        /// The one: a path or URL.
        file1: String,
        /// The other.
        file2: String,
        /// The environment.
        saltenv: String = "base".into(),
        /// Show the names of both.
        show_filenames: bool = true,
        /// Show the differences, not only that there are some.
        show_changes: bool = true,
        /// Hide the differences where `obfuscate_templates` is set.
        template: bool = false,
        /// The hash of the one.
        source_hash_file1: Option<String> = None,
        /// The hash of the other.
        source_hash_file2: Option<String> = None,
        /// Lines in another order do not count.
        ignore_ordering: bool = false,
        /// White space around lines does not count.
        ignore_whitespace: bool = false,
        /// What follows one of these does not count.
        ignore_comment_characters: Value = Value::Null,
    });

    /// Return what `file.managed` would change of a file, as a dictionary.
    fn check_managed_changes(CheckManagedChanges {
        /// The file.
        name: String,
        /// Where its contents come from.
        source: Value,
        /// Their hash.
        source_hash: Value,
        /// The name in the file of hashes.
        source_hash_name: Option<String>,
        /// The user.
        user: Value,
        /// The group.
        group: Value,
        /// The mode.
        mode: Value,
        /// The attributes.
        attrs: Option<String>,
        /// The template engine.
        template: Option<String>,
        /// Variables of the template.
        context: Map,
        /// Variables that the context does not set.
        defaults: Map,
        /// The environment.
        saltenv: String,
        /// The contents.
        contents: Option<String> = None,
        /// Take a source from the web without a hash.
        skip_verify: bool = false,
        /// The mode is that of the source.
        keep_mode: bool = false,
        ..kwargs
    });

    /// Return what `file.managed` would change of a file, as a sentence.
    fn check_managed(CheckManaged {
        /// The file.
        name: String,
        /// Where its contents come from.
        source: Value,
        /// Their hash.
        source_hash: Value,
        /// The name in the file of hashes.
        source_hash_name: Option<String>,
        /// The user.
        user: Value,
        /// The group.
        group: Value,
        /// The mode.
        mode: Value,
        /// The attributes.
        attrs: Option<String>,
        /// The template engine.
        template: Option<String>,
        /// Variables of the template.
        context: Map,
        /// Variables that the context does not set.
        defaults: Map,
        /// The environment.
        saltenv: String,
        /// The contents.
        contents: Option<String> = None,
        /// Take a source from the web without a hash.
        skip_verify: bool = false,
        ..kwargs
    });

    /// Put contents into a file, with owner and mode; what was cached for it is given as `sfn`.
    fn manage_file(ManageFile {
        /// The file.
        name: String,
        /// The file with the contents.
        sfn: Option<String>,
        /// Accepted: a return to add to.
        ret: Value,
        /// Where the contents come from.
        source: Option<String>,
        /// Hash and type of hash.
        source_sum: Map,
        /// The user.
        user: Value,
        /// The group.
        group: Value,
        /// The mode.
        mode: Value,
        /// The attributes.
        attrs: Option<String>,
        /// The environment.
        saltenv: String,
        /// The mode of the backup.
        backup: Option<String>,
        /// Make the folders above.
        makedirs: bool = false,
        /// Accepted; contents are rendered before.
        template: Value = Value::Null,
        /// Show the diff.
        show_changes: bool = true,
        /// The contents.
        contents: Option<String> = None,
        /// The mode of new folders.
        dir_mode: Value = Value::Null,
        /// Change what a link points to.
        follow_symlinks: bool = true,
        /// Take a source from the web without a hash.
        skip_verify: bool = false,
        /// The mode is that of the source.
        keep_mode: bool = false,
        ..kwargs
    });
}

fn get_diff(cx: &Exec, args: GetDiff) -> Result<Value, Error> {
    let fetched = |url: &str, hash: Option<&str>| -> Result<(String, Vec<u8>), Error> {
        let how = How {
            hash,
            ..How::default()
        };
        let found = source::cached(cx, url, &args.saltenv, how)?;
        let path = found.ok_or_else(|| {
            Error::refused(format!(
                "Failed to cache one or more files\nAdditional info follows:\n\n- File {url} not found"
            ))
        })?;
        let data = fs::raw::read(&path).map_err(|error| {
            let reason = error.to_string();
            let reason = reason.split(" (os error").next().unwrap_or_default();
            Error::refused(format!("Failed to read {path}: {reason}"))
        })?;
        Ok((path, data))
    };
    let (from, old) = fetched(&args.file1, args.source_hash_file1.as_deref())?;
    let (to, new) = fetched(&args.file2, args.source_hash_file2.as_deref())?;
    let ignore = Ignore {
        ordering: args.ignore_ordering,
        whitespace: args.ignore_whitespace,
        comment_characters: args.ignore_comment_characters,
    };
    let shown = if old == new {
        String::new()
    } else if args.template && cx.opts().flag("obfuscate_templates") {
        "<Obfuscated Template>".into()
    } else if !args.show_changes {
        "<show_changes=False>".into()
    } else if args.show_filenames {
        difflib::of_named_files(&old, &new, &from, &to)
    } else {
        difflib::of_files(&old, &new)
    };
    if ignore.any() {
        let counts = work::counts(&ignore, &old, &new);
        return Ok(Value::list([counts.into(), shown.into()]));
    }
    Ok(shown.into())
}

fn check_managed_changes(cx: &Exec, args: CheckManagedChanges) -> Result<Value, Error> {
    let (source, source_hash) = sums::first(cx, &args.source, &args.source_hash, &args.saltenv)?;
    let request = Request {
        name: args.name,
        source: Some(source).filter(Value::is_true).map(|url| url.to_text()),
        source_hash,
        source_hash_name: args.source_hash_name,
        contents: args.contents.map(String::into_bytes),
        template: args.template,
        context: args.context,
        defaults: args.defaults,
        extra: args.kwargs,
        saltenv: args.saltenv,
        user: args.user,
        group: args.group,
        mode: normalized(&args.mode),
        attrs: args.attrs,
        keep_mode: args.keep_mode,
        skip_verify: args.skip_verify,
        show_changes: true,
        ..Request::default()
    };
    Ok(match work::changes(cx, &request) {
        Ok((changes, _)) => changes.into(),
        Err(error) => Value::list([false.into(), error.to_string().into()]),
    })
}

fn check_managed(cx: &Exec, args: CheckManaged) -> Result<Value, Error> {
    let name = args.name.clone();
    let args = CheckManagedChanges {
        name: args.name,
        source: args.source,
        source_hash: args.source_hash,
        source_hash_name: args.source_hash_name,
        user: args.user,
        group: args.group,
        mode: args.mode,
        attrs: args.attrs,
        template: args.template,
        context: args.context,
        defaults: args.defaults,
        saltenv: args.saltenv,
        contents: args.contents,
        skip_verify: args.skip_verify,
        keep_mode: false,
        kwargs: args.kwargs,
    };
    let changes = check_managed_changes(cx, args)?;
    let Some(changes) = changes.as_map() else {
        return Ok(changes);
    };
    if changes.is_empty() {
        let text = format!("The file {name} is in the correct state");
        return Ok(Value::list([true.into(), text.into()]));
    }
    let mut text = "The following values are set to be changed:\n".to_owned();
    for (key, value) in changes.iter() {
        text.push_str(&format!("{}: {}\n", key.to_text(), value.to_text()));
    }
    Ok(Value::list([Value::Null, text.into()]))
}

fn manage_file(cx: &Exec, args: ManageFile) -> Result<Value, Error> {
    let request = Request {
        name: python::path::expanduser(&args.name),
        source: args.source.filter(|url| !url.is_empty()),
        contents: args.contents.map(String::into_bytes),
        saltenv: args.saltenv,
        user: args.user,
        group: args.group,
        mode: normalized(&args.mode),
        attrs: args.attrs,
        keep_mode: args.keep_mode,
        skip_verify: args.skip_verify,
        backup: args.backup.unwrap_or_default(),
        makedirs: args.makedirs,
        dir_mode: args.dir_mode,
        show_changes: args.show_changes,
        follow: args.follow_symlinks,
        ..Request::default()
    };
    let text = |key: &str| args.source_sum.get(key).map(Value::to_text);
    let found = match args.sfn.filter(|file| !file.is_empty()) {
        Some(file) => Found {
            body: Some(super::body::Body::File(file)),
            sum: match (text("hash_type"), text("hsum")) {
                (Some(kind), Some(hash)) => Some(sums::Sum { kind, hash }),
                _ => None,
            },
            there: None,
        },
        None => work::find(cx, &request)?,
    };
    let name = request.name.clone();
    let ret = work::manage(cx, request, found, Ret::ok(""))
        .unwrap_or_else(|error| Ret::failed(error.to_string()));
    Ok(Map::new()
        .with("name", name)
        .with("changes", ret.changes)
        .with("comment", ret.comment)
        .with("result", ret.result)
        .into())
}
