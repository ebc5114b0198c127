//! `file.managed`.

use std::path::{Path, PathBuf};

use machine::hashes;
use python::{encoding, path};
use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value, remove};

use super::{absolute, check_user, contents, gate, owner};
use crate::exec::file::body::Body;
use crate::exec::file::managed::{self as work, Found, Ignore, Request};
use crate::exec::file::perms;
use crate::exec::file::source as sums;
use crate::exec::file::stat::{self, Stats, normalized};
use crate::exec::gpg::verify::{Signers, SigningKeys};
use crate::fileserver::fetch::Url;
use crate::fileserver::template;

state::state_module! {
    /// Operations on regular files, special files, directories, and symlinks.
    #[facts(effects = Effects::Files(&["name"]))]
    mod file;

    /// Make sure that a file exists, with contents from a source or from the state itself.
    ///
    ///     /etc/motd:
    ///       file.managed:
    ///         - source: salt://motd
    ///         - mode: '0644'
    fn managed(Managed {
        /// The file.
        name: String,
        /// The source of the contents: one URL or path, or a list of which the first that exists is
        /// used.
        source: Value = Value::Null,
        /// The hash of a source from the web: a hash, `type=hash`, or the address of a file of
        /// hashes.
        source_hash: Value = "".into(),
        /// The name to look up in the file of hashes.
        source_hash_name: Option<String> = None,
        /// True to keep the fetched source in the cache.
        keep_source: bool = true,
        /// The user that owns the file.
        user: Value = Value::Null,
        /// The group that owns the file.
        group: Value = Value::Null,
        /// The mode, or `keep` to use the mode of the source.
        mode: Value = Value::Null,
        /// The attributes in the notation of lsattr(1).
        attrs: Option<String> = None,
        /// The template engine that renders the contents.
        template: Option<String> = None,
        /// True to create the parent folders.
        makedirs: bool = false,
        /// The mode of new parent folders.
        dir_mode: Value = Value::Null,
        /// Variables of the template.
        context: Value = Value::Null,
        /// True to replace the contents of an existing file.
        replace: bool = true,
        /// Default variables of the template; those in `context` take precedence.
        defaults: Value = Value::Null,
        /// The backup of a replaced file: `minion` to keep one.
        backup: String = String::new(),
        /// True to include a diff in the changes.
        show_changes: bool = true,
        /// True to create the file if it does not exist.
        create: bool = true,
        /// The contents, or a list of lines.
        contents: Value = Value::Null,
        /// The folder for the temporary file that `check_cmd` checks.
        tmp_dir: Option<String> = None,
        /// The suffix of the temporary file that `check_cmd` checks.
        tmp_ext: String = String::new(),
        /// The pillar key that contains the contents, or a list of keys.
        contents_pillar: Value = Value::Null,
        /// The grain that contains the contents, or a list of grains.
        contents_grains: Value = Value::Null,
        /// True to end the contents with a line feed.
        contents_newline: bool = true,
        /// The separator between the keys of nested pillar data and grains.
        contents_delimiter: String = ":".into(),
        /// The encoding of the contents.
        encoding: Option<String> = None,
        /// The handling of characters that the encoding does not have.
        encoding_errors: String = "strict".into(),
        /// True to accept empty contents.
        allow_empty: bool = true,
        /// True to change the target of a link instead of the link.
        follow_symlinks: bool = true,
        /// A command that checks the new file before it is put in place.
        check_cmd: Option<String> = None,
        /// True to accept a source from the web without a hash.
        skip_verify: bool = false,
        /// Not supported.
        selinux: Value = Value::Null,
        /// Accepted but ignored; only Windows needs it.
        win_owner: Value = Value::Null,
        /// Accepted but ignored; only Windows needs it.
        win_perms: Value = Value::Null,
        /// Accepted but ignored; only Windows needs it.
        win_deny_perms: Value = Value::Null,
        /// Accepted but ignored; only Windows needs it.
        win_inheritance: bool = true,
        /// Accepted but ignored; only Windows needs it.
        win_perms_reset: bool = false,
        /// True to verify the TLS certificate of the server.
        verify_ssl: bool = true,
        /// True to fetch a source from the web again when its ETag has changed.
        use_etag: bool = false,
        /// A signature of the source: its address, or `True` if it is in the file itself.
        signature: Value = Value::Null,
        /// A signature of the file of hashes: its address, or `True` if it is in the file itself.
        source_hash_sig: Value = Value::Null,
        #[group] keys: SigningKeys,
        #[group] ignore: Ignore,
        /// True to include a diff for new files.
        new_file_diff: bool = false,
        /// The execution module that verifies signatures.
        sig_backend: String = "gpg".into(),
        ..kwargs
    });
}

fn managed(cx: &Exec, args: Managed) -> Result<Ret, Error> {
    let name = path::expanduser(&args.name);
    let mut ret = run(cx, args, &name)?;
    ret.name = Some(name);
    Ok(ret)
}

fn run(cx: &Exec, mut args: Managed, name: &str) -> Result<Ret, Error> {
    if name.is_empty() {
        return Err("Destination file name is required".into());
    }
    if args.selinux.is_true() {
        return Err(perms::SELINUX.into());
    }
    combinations(&args)?;
    // As in Python, an empty name counts as no template engine.
    args.template = args.template.filter(|engine| !engine.is_empty());
    let mut replace = args.replace;
    if !args.source.is_true() && given(&args) == 0 {
        replace = false;
    }
    let mut start = Ret::ok("");
    if args.kwargs.contains("file_mode") {
        start = start.warning(
            "The 'file_mode' argument will be ignored.  Please use 'mode' instead to set file permissions.",
        );
    }
    let contents = contents_of(cx, &args)?;
    args.user = owner(args.user, &args.kwargs);
    if !args.create && !path::isfile(name) {
        let comment = format!("File {name} is not present and is not set for creation");
        return Ok(Ret { comment, ..start });
    }
    check_user(cx, &args.user, &args.group)?;
    absolute(cx, name)?;
    let there = stat::look(name);
    if there
        .as_ref()
        .is_some_and(|there| leads_to_folder(name, &there.stats))
    {
        return Err(format!("Specified target {name} is a directory").into());
    }
    let keep_source = args.keep_source;
    let check_cmd = args.check_cmd.take();
    let place = (args.tmp_dir.clone(), args.tmp_ext.clone());
    let source = args.source.clone();
    let mut request = request(cx, args, name, contents)?;
    if replace && has_source_hash(cx, &mut request, &source) {
        replace = false;
    }
    if !replace && path::exists(name) {
        return kept(cx, &request, start);
    }
    accumulated(cx, &mut request);
    gate(
        cx,
        || would(cx, &request, &source, start.clone()),
        || {
            let (mut found, request) = fetch(cx, request.clone(), &source)?;
            if let Some(command) = &check_cmd
                && let Some(refusal) = refused(cx, &request, &found, command, &place)?
            {
                return Ok(refusal);
            }
            // The earlier look at the file may be out of date if fetching the source or running the
            // command took time.
            found.there = there.filter(|_| !source.is_true() && check_cmd.is_none());
            let kept = (!keep_source).then(|| (request.clone(), found.body.clone()));
            let ret = work::manage(cx, request, found, start.clone());
            if let Some((request, fetched)) = kept {
                forget(cx, &request, fetched);
            }
            ret
        },
    )
}

fn leads_to_folder(name: &str, there: &Stats) -> bool {
    there.kind == "dir" || there.kind == "link" && path::isdir(name)
}

/// Returns the number of `contents…` arguments that are given.
fn given(args: &Managed) -> usize {
    [&args.contents, &args.contents_pillar, &args.contents_grains]
        .iter()
        .filter(|value| !value.is_null())
        .count()
}

fn keeps_mode(mode: &Value) -> bool {
    mode.as_str()
        .is_some_and(|mode| mode.eq_ignore_ascii_case("keep"))
}

fn combinations(args: &Managed) -> Result<(), Error> {
    let given = given(args);
    if args.source.is_true() && given > 0 {
        return Err("'source' cannot be used in combination with 'contents', 'contents_pillar', or 'contents_grains'".into());
    }
    if keeps_mode(&args.mode) && given > 0 {
        return Err("Mode preservation cannot be used in combination with 'contents', 'contents_pillar', or 'contents_grains'".into());
    }
    if given > 1 {
        return Err(
            "Only one of 'contents', 'contents_pillar', and 'contents_grains' is permitted".into(),
        );
    }
    Ok(())
}

/// Returns the contents that the state itself supplies, rendered and encoded.
fn contents_of(cx: &Exec, args: &Managed) -> Result<Option<Vec<u8>>, Error> {
    let delimiter = &args.contents_delimiter;
    let (value, what) = if !args.contents_pillar.is_null() {
        let keys = &args.contents_pillar;
        let what = format!("contents_pillar {}", keys.to_text());
        (contents::of_pillar(cx, keys, delimiter)?, what)
    } else if !args.contents_grains.is_null() {
        let keys = &args.contents_grains;
        let what = format!("contents_grains {}", keys.to_text());
        (contents::of_grains(cx, keys, delimiter)?, what)
    } else if !args.contents.is_null() {
        (args.contents.clone(), "'contents'".to_owned())
    } else {
        return Ok(None);
    };
    if !args.allow_empty && !value.is_true() {
        return Err(format!(
            "{what} value would result in empty contents. Set allow_empty to True to allow the managed file to be empty."
        )
        .into());
    }
    let value = match value {
        Value::Bytes(bytes) => match std::str::from_utf8(&bytes) {
            Ok(text) => text.into(),
            Err(_) if args.template.is_some() => {
                return Err("Contents specified by contents/contents_pillar/contents_grains appears to be binary data, and as will not be able to be treated as a Jinja template.".into());
            }
            Err(_) => return Ok(Some(bytes.to_vec())),
        },
        other => other,
    };
    if value.as_list().is_some_and(<[Value]>::is_empty) {
        return Err("Contents specified by contents/contents_pillar/contents_grains is not a string or list of strings, and is not binary data. SLS is likely malformed.".into());
    }
    let mut text = contents::joined(&value, args.contents_newline);
    if let Some(engine) = &args.template {
        if !template::is_supported(engine) {
            return Err(template::unsupported(engine).into());
        }
        let mut variables = dictionary(&args.defaults, "Defaults")?;
        variables.update(dictionary(&args.context, "Context")?);
        text = template::render(cx, &args.name, &text, &cx.saltenv, variables)?;
    }
    match &args.encoding {
        Some(encoding) => Ok(Some(encoding::encoded(
            &text,
            encoding,
            &args.encoding_errors,
        )?)),
        None => Ok(Some(text.into_bytes())),
    }
}

fn dictionary(value: &Value, what: &str) -> Result<Map, Error> {
    match value {
        Value::Map(map) => Ok(map.clone()),
        Value::Null => Ok(Map::new()),
        other if !other.is_true() && what == "Defaults" => Ok(Map::new()),
        _ => Err(format!("{what} must be formed as a dict").into()),
    }
}

fn request(
    cx: &Exec,
    args: Managed,
    name: &str,
    contents: Option<Vec<u8>>,
) -> Result<Request, Error> {
    let keep_mode = keeps_mode(&args.mode);
    Ok(Request {
        name: name.to_owned(),
        source: None,
        source_hash: args.source_hash,
        source_hash_name: args.source_hash_name,
        contents,
        template: args.template,
        context: dictionary(&args.context, "Context")?,
        defaults: dictionary(&args.defaults, "Defaults")?,
        extra: args.kwargs,
        saltenv: cx.saltenv.clone(),
        user: args.user,
        group: args.group,
        mode: if keep_mode {
            None
        } else {
            normalized(&args.mode)
        },
        attrs: args.attrs,
        keep_mode,
        skip_verify: args.skip_verify,
        use_etag: args.use_etag,
        no_verify_ssl: !args.verify_ssl,
        signatures: [args.signature, args.source_hash_sig],
        signers: Signers {
            keys: args.keys,
            sig_backend: args.sig_backend,
        },
        backup: args.backup,
        makedirs: args.makedirs,
        dir_mode: args.dir_mode,
        show_changes: args.show_changes,
        follow: args.follow_symlinks,
        new_file_diff: args.new_file_diff,
        ignore: args.ignore,
    })
}

/// Returns true if the existing file has the hash of a source from the web, so that nothing needs
/// to be fetched.
fn has_source_hash(cx: &Exec, request: &mut Request, source: &Value) -> bool {
    let wanted = request.contents.is_none()
        && request.template.is_none()
        && source.is_true()
        && !request.skip_verify
        && path::exists(&request.name);
    if !wanted || resolve(cx, request, source).is_err() {
        return false;
    }
    let Some(url) = request.source.clone() else {
        return false;
    };
    let parts = Url::parse(&url);
    if !request.source_hash.is_true() || parts.scheme == "salt" || parts.is_local() {
        return false;
    }
    sums::sum(cx, request.hash_request(&url)).is_ok_and(|sum| {
        hashes::of_file(&request.name, &sum.kind).is_ok_and(|hash| hash == sum.hash)
    })
}

/// Selects the source from the list that the state gives.
fn resolve(cx: &Exec, request: &mut Request, source: &Value) -> Result<(), Error> {
    if request.source.is_none() && source.is_true() {
        let (source, hash) = sums::first(cx, source, &request.source_hash, &request.saltenv)?;
        request.source = Some(source.to_text());
        request.source_hash = hash;
    }
    Ok(())
}

/// Sets the owner and mode of a file whose contents are kept.
fn kept(cx: &Exec, request: &Request, start: Ret) -> Result<Ret, Error> {
    let name = &request.name;
    let set = |mut ret: Ret| -> Result<(Ret, perms::Before), Error> {
        let wanted = perms::Wanted {
            attrs: request.attrs.clone(),
            ..perms::Wanted::new(&request.user, &request.group, request.mode.clone())
        };
        let wanted = wanted.following(request.follow);
        let before = perms::check(cx, name, &mut ret, &wanted, None)?;
        Ok((ret, before))
    };
    gate(
        cx,
        || {
            let (mut ret, before) = set(start.clone())?;
            ret.comment = match &request.mode {
                Some(mode) if *mode != before.mode => format!(
                    "File {name} will be updated with permissions {mode} from its current state of {}",
                    before.mode
                ),
                _ => format!("File {name} not updated"),
            };
            Ok(ret)
        },
        || {
            let (mut ret, _) = set(start.clone())?;
            if !ret.changes.is_true() && ret.result == Some(true) {
                ret.comment =
                    format!("File {name} exists with proper permissions. No changes made.");
            }
            Ok(ret)
        },
    )
}

/// Passes the texts that `file.accumulated` has collected for this file to the template.
fn accumulated(cx: &Exec, request: &mut Request) {
    let collected = super::accumulators(cx);
    if let Some(texts) = collected.get(&request.name) {
        request.context.insert("accumulator", texts.clone());
    }
}

fn unmanageable(error: Error) -> Error {
    format!("Unable to manage file: {error}").trim_end().into()
}

fn would(cx: &Exec, request: &Request, source: &Value, start: Ret) -> Result<Ret, Error> {
    let name = &request.name;
    let mut request = request.clone();
    resolve(cx, &mut request, source).map_err(unmanageable)?;
    let (mut changes, counts) = work::changes(cx, &request)?;
    if changes.is_empty() {
        let comment = format!("The file {name} is in the correct state");
        return Ok(Ret { comment, ..start });
    }
    if changes.contains("diff") && !request.show_changes {
        changes.insert("diff", "<show_changes=False>");
    }
    let ret = Ret {
        result: None,
        comment: format!(
            "The file {name} is set to be changed\nNote: No changes made, actual changes may\nbe different due to other states."
        ),
        changes: changes.into(),
        ..start
    };
    Ok(work::skipping(&request, counts, ret))
}

fn fetch(cx: &Exec, mut request: Request, source: &Value) -> Result<(Found, Request), Error> {
    resolve(cx, &mut request, source).map_err(unmanageable)?;
    let found = work::find(cx, &request).map_err(unmanageable)?;
    Ok((found, request))
}

/// Removes the fetched source from the cache. A file of the file roots is not removed.
fn forget(cx: &Exec, request: &Request, body: Option<Body>) {
    let remote = request
        .source
        .as_ref()
        .is_some_and(|url| Url::parse(url).is_remote());
    if let (true, Some(Body::File(path))) = (remote, body) {
        remove::or_log(&path, machine::fs::remove(cx, Path::new(&path)));
    }
}

/// Runs the `check_cmd` on the new file. Returns a result if the command rejects it.
fn refused(
    cx: &Exec,
    request: &Request,
    found: &Found,
    command: &str,
    place: &(Option<String>, String),
) -> Result<Option<Ret>, Error> {
    let Some(body) = &found.body else {
        return Ok(None);
    };
    if body.is_in(&request.name) && work::changes(cx, request)?.0.is_empty() {
        return Ok(None);
    }
    let file = trial_file(place);
    work::trial(cx, request, body, &file)?;
    let answer = judged(cx, command, &file);
    remove::or_log(&file, machine::fs::remove(cx, &file));
    answer
}

fn trial_file((folder, end): &(Option<String>, String)) -> PathBuf {
    let folder = folder
        .as_ref()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let unique = value::clock::since_epoch().as_nanos();
    folder.join(format!("__salt.tmp.{}{unique}{end}", std::process::id()))
}

fn judged(cx: &Exec, command: &str, file: &Path) -> Result<Option<Ret>, Error> {
    let line = format!("{command} {}", file.display());
    let mut options = Map::new();
    if let Some(shell) = cx.grains().get("shell") {
        options.insert("shell", shell.clone());
    }
    let said = cx.call_internal("cmd.run_all", vec![line.into()], options)?;
    if said.get("retcode").and_then(Value::as_int) == Some(0) {
        return Ok(None);
    }
    let mut comment = "check_cmd execution failed".to_owned();
    for stream in ["stdout", "stderr"] {
        if let Some(text) = said.get(stream).filter(|text| text.is_true()) {
            comment = format!("{comment}\n{}", text.to_text());
        }
    }
    Ok(Some(Ret::failed(comment).with("skip_watch", true)))
}
