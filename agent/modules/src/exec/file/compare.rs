//! `file.get_diff`, `file.apply_template_on_contents`, and the functions that compare a file with
//! its desired contents.

use machine::fs;
use python::{difflib, encoding};
use state::exec::Exec;
use state::module::{Arguments, Error, Ret};
use value::{Map, Value};

use super::managed::{self as work, Found, Ignore, Request};
use super::perms::Selinux;
use super::source as sums;
use super::stat::normalized;
use crate::exec::gpg::verify::{Signers, SigningKeys};
use crate::fileserver::fetch::{self, How};

state::exec_module! {
    /// Compare files.
    mod file;

    /// Return the differences between two files.
    ///
    ///     salt-call file.get_diff /etc/motd salt://motd
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
        #[group] ignore: Ignore,
    });

    /// Return the changes that `file.managed` would make to a file, as a dictionary.
    ///
    ///     salt-call file.check_managed_changes /etc/motd salt://motd '' '' root root 644 '' jinja '{}' '{}' base
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
        #[group] selinux: Selinux,
        /// True to verify the TLS certificate of the server.
        verify_ssl: bool = true,
        /// True to follow a symbolic link and compare its target.
        follow_symlinks: bool = false,
        #[group] ignore: Ignore,
        /// True to return a diff for a new file.
        new_file_diff: bool = false,
        ..kwargs
    });

    /// Return the changes that `file.managed` would make to a file, as a sentence.
    ///
    ///     salt-call file.check_managed /etc/motd salt://motd '' '' root root 644 '' jinja '{}' '{}' base
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
        #[group] selinux: Selinux,
        /// True to follow a symbolic link and compare its target.
        follow_symlinks: bool = false,
        ..kwargs
    });

    /// Write contents to a file, and set its owner and mode. `sfn` is a cached copy of the
    /// contents.
    ///
    ///     salt-call file.manage_file /etc/motd '' '{}' salt://motd '{}' root root 644 '' base ''
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
        /// The encoding of the contents.
        encoding: Option<String> = None,
        /// The handling of characters that the encoding does not have.
        encoding_errors: String = "strict".into(),
        #[group] selinux: Selinux,
        /// True to verify the TLS certificate of the server.
        verify_ssl: bool = true,
        /// True to fetch a source from the web again when its ETag has changed.
        use_etag: bool = false,
        /// A signature of the source: its address, or `True` if it is in the file itself.
        signature: Value = Value::Null,
        /// Accepted for Salt's sake: the hash in `source_sum` was verified beforehand.
        source_hash_sig: Value = Value::Null,
        #[group] keys: SigningKeys,
        #[group] ignore: Ignore,
        /// True to return a diff for a new file.
        new_file_diff: bool = false,
        /// The execution module that verifies signatures.
        sig_backend: String = "gpg".into(),
        ..kwargs
    });
}

state::argument_group! {
    /// The verification of a source from the web. Salt's functions pass it on among the keywords.
    pub(crate) struct Verification {
        /// True to fetch the source again when its ETag has changed.
        use_etag: bool = false,
        /// A signature of the file of hashes: its address, or `True` if it is in the file itself.
        source_hash_sig: Value = Value::Null,
        #[group] signers: Signers,
    }
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
    if args.ignore.any() {
        let counts = work::counts(&args.ignore, &old, &new);
        return Ok(Value::list([counts.into(), shown.into()]));
    }
    Ok(shown.into())
}

fn check_managed_changes(cx: &Exec, args: CheckManagedChanges) -> Result<Value, Error> {
    args.selinux.refuse()?;
    let (verification, extra) = Arguments::group_from::<Verification>(args.kwargs)?;
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
        extra,
        saltenv: args.saltenv,
        user: args.user,
        group: args.group,
        mode: normalized(&args.mode),
        attrs: args.attrs,
        keep_mode: args.keep_mode,
        skip_verify: args.skip_verify,
        use_etag: verification.use_etag,
        no_verify_ssl: !args.verify_ssl,
        signatures: [Value::Null, verification.source_hash_sig],
        signers: verification.signers,
        show_changes: true,
        follow: args.follow_symlinks,
        new_file_diff: args.new_file_diff,
        ignore: args.ignore,
        ..Request::default()
    };
    Ok(match work::changes(cx, &request) {
        Ok((changes, _)) => changes.into(),
        Err(error) => Value::list([false.into(), error.to_string().into()]),
    })
}

fn check_managed(cx: &Exec, mut args: CheckManaged) -> Result<Value, Error> {
    let name = args.name.clone();
    let verify_ssl = args.kwargs.remove("verify_ssl");
    let (ignore, kwargs) = Arguments::group_from(args.kwargs)?;
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
        selinux: args.selinux,
        verify_ssl: verify_ssl.is_none_or(|verify| verify.is_true()),
        follow_symlinks: args.follow_symlinks,
        ignore,
        new_file_diff: false,
        kwargs,
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
    args.selinux.refuse()?;
    let contents = match (args.contents, &args.encoding) {
        (Some(text), Some(encoding)) => {
            Some(encoding::encoded(&text, encoding, &args.encoding_errors)?)
        }
        (contents, _) => contents.map(String::into_bytes),
    };
    let request = Request {
        name: python::path::expanduser(&args.name),
        source: args.source.filter(|url| !url.is_empty()),
        contents,
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
        use_etag: args.use_etag,
        no_verify_ssl: !args.verify_ssl,
        signatures: [args.signature, args.source_hash_sig],
        signers: Signers {
            keys: args.keys,
            sig_backend: args.sig_backend,
        },
        new_file_diff: args.new_file_diff,
        ignore: args.ignore,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{exec, json};

    #[test]
    fn a_managed_file_is_written_only_with_its_signature() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (file, source) = (path("file"), path("source"));
        std::fs::write(&source, "text").unwrap();
        let call = |more: &str| {
            let null = Value::Null;
            let sum = Value::from(Map::new());
            let args = vec![
                file.as_str().into(),
                source.as_str().into(),
                null.clone(),
                source.as_str().into(),
                sum,
                null.clone(),
                null.clone(),
                null.clone(),
                null.clone(),
                "base".into(),
                null,
            ];
            exec().call("file.manage_file", args, json(more))
        };
        let keys = path("keys");
        let unsigned = format!(r#"{{"signature": true, "gnupghome": "{keys}"}}"#);
        let unsigned = call(&unsigned).unwrap();
        assert_eq!(unsigned.get("result"), Some(&Value::Bool(false)));
        let context = call(r#"{"setype": "etc_t"}"#).unwrap_err().to_string();
        assert!(context.starts_with("SELinux contexts cannot"), "{context}");
        assert!(!std::path::Path::new(&file).exists());
        let written = call("{}").unwrap();
        assert_eq!(written.get("result"), Some(&Value::Bool(true)));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "text");
    }
}
