//! `file.get_diff`, `file.apply_template_on_contents`, and the functions that compare a file with
//! its desired contents.

use machine::fs;
use python::difflib;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::managed::{self as work, Found, Ignore, Request};
use super::source as sums;
use super::stat::normalized;
use crate::fileserver::fetch::{self, How};

state::exec_module! {
    /// Compare files.
    mod file;

    /// Return the differences between two files.
    fn get_diff(GetDiff {
        /// The path or URL of the first file.
        file1: String,
        /// The path or URL of the second file.
        file2: String,
        /// The Salt environment.
        saltenv: String = "base".into(),
        /// True to show the names of both files.
        show_filenames: bool = true,
        /// True to show the differences, False to return only whether there are any.
        show_changes: bool = true,
        /// True if the files are templates. Their differences are hidden if the option
        /// `obfuscate_templates` is set.
        template: bool = false,
        /// The hash of the first file.
        source_hash_file1: Option<String> = None,
        /// The hash of the second file.
        source_hash_file2: Option<String> = None,
        /// True to ignore the order of the lines.
        ignore_ordering: bool = false,
        /// True to ignore white space around lines.
        ignore_whitespace: bool = false,
        /// The comment characters. The rest of a line after one of them is ignored.
        ignore_comment_characters: Value = Value::Null,
    });

    /// Return the changes that `file.managed` would make to a file, as a dictionary.
    fn check_managed_changes(CheckManagedChanges {
        /// The path of the file.
        name: String,
        /// The source of the contents, or a list of sources.
        source: Value,
        /// The hash of the source.
        source_hash: Value,
        /// The name of the source in the hash file.
        source_hash_name: Option<String>,
        /// The user that owns the file.
        user: Value,
        /// The group that owns the file.
        group: Value,
        /// The mode of the file.
        mode: Value,
        /// The attributes of the file.
        attrs: Option<String>,
        /// The template engine.
        template: Option<String>,
        /// The variables of the template.
        context: Map,
        /// The default values of variables that are not in `context`.
        defaults: Map,
        /// The Salt environment.
        saltenv: String,
        /// The contents of the file.
        contents: Option<String> = None,
        /// True to accept a remote source without a hash.
        skip_verify: bool = false,
        /// True to use the mode of the source.
        keep_mode: bool = false,
        ..kwargs
    });

    /// Return the changes that `file.managed` would make to a file, as a sentence.
    fn check_managed(CheckManaged {
        /// The path of the file.
        name: String,
        /// The source of the contents, or a list of sources.
        source: Value,
        /// The hash of the source.
        source_hash: Value,
        /// The name of the source in the hash file.
        source_hash_name: Option<String>,
        /// The user that owns the file.
        user: Value,
        /// The group that owns the file.
        group: Value,
        /// The mode of the file.
        mode: Value,
        /// The attributes of the file.
        attrs: Option<String>,
        /// The template engine.
        template: Option<String>,
        /// The variables of the template.
        context: Map,
        /// The default values of variables that are not in `context`.
        defaults: Map,
        /// The Salt environment.
        saltenv: String,
        /// The contents of the file.
        contents: Option<String> = None,
        /// True to accept a remote source without a hash.
        skip_verify: bool = false,
        ..kwargs
    });

    /// Write contents to a file, and set its owner and mode. `sfn` is a cached copy of the
    /// contents.
    fn manage_file(ManageFile {
        /// The path of the file.
        name: String,
        /// The path of the file with the contents.
        sfn: Option<String>,
        /// Accepted and ignored. In Salt, the return to which the result is added.
        ret: Value,
        /// The source of the contents.
        source: Option<String>,
        /// A dictionary of the hash and its type.
        source_sum: Map,
        /// The user that owns the file.
        user: Value,
        /// The group that owns the file.
        group: Value,
        /// The mode of the file.
        mode: Value,
        /// The attributes of the file.
        attrs: Option<String>,
        /// The Salt environment.
        saltenv: String,
        /// The backup mode.
        backup: Option<String>,
        /// True to create the missing parent folders.
        makedirs: bool = false,
        /// Accepted and ignored: the contents are rendered beforehand.
        template: Value = Value::Null,
        /// True to return a diff.
        show_changes: bool = true,
        /// The contents of the file.
        contents: Option<String> = None,
        /// The mode of new parent folders.
        dir_mode: Value = Value::Null,
        /// True to follow a symbolic link and change its target.
        follow_symlinks: bool = true,
        /// True to accept a remote source without a hash.
        skip_verify: bool = false,
        /// True to use the mode of the source.
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
        let found = fetch::cached(cx, url, &args.saltenv, how)?;
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
