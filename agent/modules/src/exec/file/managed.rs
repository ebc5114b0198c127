//! The work of `file.managed`: finds the contents, compares them with the file, and replaces the
//! file.

use std::path::Path;

use machine::accounts::users;
use machine::fs;
use python::{difflib, path};
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::body::Body;
use super::perms::{self, Wanted, note};
use super::source::{self as sums, Sum};
use super::stat::{self, Looked, Stats, normalized};
use super::{backup, makedirs};
use crate::exec::cp;
use crate::exec::gpg::verify::{Signed, Signers};
use crate::fileserver::fetch::{self, How, Url, redacted};
use crate::fileserver::template;

state::argument_group! {
    /// The differences of a managed file that do not count as changes for its requisites.
    pub(crate) struct Ignore {
        /// True to ignore the order of the lines.
        ignore_ordering: bool = false,
        /// True to ignore white space around lines.
        ignore_whitespace: bool = false,
        /// The comment characters. The rest of a line after one of them is ignored.
        ignore_comment_characters: Value = Value::Null,
    }
}

impl Default for Ignore {
    fn default() -> Self {
        Self {
            ignore_ordering: false,
            ignore_whitespace: false,
            ignore_comment_characters: Value::Null,
        }
    }
}

impl Ignore {
    /// Returns true if any difference is ignored.
    pub(crate) fn any(&self) -> bool {
        self.ignore_ordering || self.ignore_whitespace || self.ignore_comment_characters.is_true()
    }

    /// Returns true if a diff contains a change that is not ignored.
    fn counts(&self, diff: &str) -> bool {
        let comments: Vec<String> = self.ignore_comment_characters.texts();
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        for line in diff.split_inclusive('\n') {
            if line.starts_with("+++") || line.starts_with("---") {
                continue;
            }
            let Some((side, rest)) = (match line.split_at_checked(1) {
                Some(("+", rest)) => Some((&mut added, rest)),
                Some(("-", rest)) => Some((&mut removed, rest)),
                _ => None,
            }) else {
                continue;
            };
            let mut rest = rest;
            for comment in &comments {
                rest = rest
                    .split_once(comment.as_str())
                    .map_or(rest, |(before, _)| before);
            }
            let rest = if self.ignore_whitespace {
                rest.trim()
            } else {
                rest
            };
            if !rest.is_empty() {
                side.push(rest.to_owned());
            }
        }
        added.sort();
        removed.sort();
        added != removed
    }
}

/// The desired state of a managed file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    /// The path of the file.
    pub(crate) name: String,
    /// The source of the contents.
    pub(crate) source: Option<String>,
    /// The expected hash of the contents.
    pub(crate) source_hash: Value,
    /// The name of the source in the hash file.
    pub(crate) source_hash_name: Option<String>,
    /// The contents, if there is no source.
    pub(crate) contents: Option<Vec<u8>>,
    /// The template engine.
    pub(crate) template: Option<String>,
    /// The variables of the template.
    pub(crate) context: Map,
    /// The default values of variables that are not in `context`.
    pub(crate) defaults: Map,
    /// Further arguments of the state, which are variables of the template, too.
    pub(crate) extra: Map,
    /// The Salt environment.
    pub(crate) saltenv: String,
    /// The user that owns the file.
    pub(crate) user: Value,
    /// The group that owns the file.
    pub(crate) group: Value,
    /// The mode, with four digits.
    pub(crate) mode: Option<String>,
    /// The attributes of the file.
    pub(crate) attrs: Option<String>,
    /// True to use the mode of the source.
    pub(crate) keep_mode: bool,
    /// True to accept a remote source without verification.
    pub(crate) skip_verify: bool,
    /// True to check by its ETag whether a remote source has changed.
    pub(crate) use_etag: bool,
    /// True to skip the verification of a server's TLS certificate.
    pub(crate) no_verify_ssl: bool,
    /// The signature of the source, and that of the hash file.
    pub(crate) signatures: [Value; 2],
    /// The keys that must have made the signatures.
    pub(crate) signers: Signers,
    /// The backup mode.
    pub(crate) backup: String,
    /// True to create the missing parent folders.
    pub(crate) makedirs: bool,
    /// The mode of the new parent folders.
    pub(crate) dir_mode: Value,
    /// True to show the diff.
    pub(crate) show_changes: bool,
    /// True to follow a symbolic link and change its target.
    pub(crate) follow: bool,
    /// True to show the diff of a new file.
    pub(crate) new_file_diff: bool,
    /// The differences to ignore.
    pub(crate) ignore: Ignore,
}

/// The contents that were found, and their expected hash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// The contents, or `None` if the state sets none.
    pub(crate) body: Option<Body>,
    /// The expected hash.
    pub(crate) sum: Option<Sum>,
    /// The state of the file itself, if it was examined shortly before.
    pub(crate) there: Option<Looked>,
}

impl Request {
    /// Returns the arguments that determine the hash of the source.
    pub(crate) fn hash_request<'a>(&'a self, source: &'a str) -> sums::SourceHash<'a> {
        sums::SourceHash {
            file_name: &self.name,
            source,
            hash: &self.source_hash,
            name: self.source_hash_name.as_deref(),
            saltenv: &self.saltenv,
            verify_ssl: !self.no_verify_ssl,
            signed: Signed::by(&self.signatures[1], &self.signers),
        }
    }

    fn wanted(&self) -> Wanted {
        Wanted {
            attrs: self.attrs.clone(),
            ..Wanted::new(&self.user, &self.group, self.mode.clone())
        }
        .following(self.follow)
    }

    /// Returns the variables of a source that is a template.
    fn variables(&self) -> Map {
        let mut all = Map::new()
            .with("name", self.name.as_str())
            .with("source", self.source.clone())
            .with("user", self.user.clone())
            .with("group", self.group.clone())
            .with("mode", self.mode.clone())
            .with("attrs", self.attrs.clone());
        all.update(self.extra.clone());
        all.update(self.context());
        all
    }

    /// Returns the defaults, overridden by the context.
    pub(crate) fn context(&self) -> Map {
        let mut all = self.defaults.clone();
        all.update(self.context.clone());
        all
    }

    /// Sets the mode to that of the source, for `mode: keep`.
    fn keep_mode(&mut self, cx: &Exec) -> Result<(), Error> {
        if let (true, Some(source)) = (self.keep_mode, &self.source) {
            let parts = Url::parse(source);
            if parts.scheme == "salt" || parts.is_local() {
                self.mode = cp::mode_of(cx, source, &self.saltenv)?;
            }
        }
        Ok(())
    }
}

/// Finds the contents of a managed file, like Salt's `file.get_managed`.
///
/// # Errors
/// When the contents do not exist, do not match their hash, or cannot be rendered.
pub(crate) fn find(cx: &Exec, request: &Request) -> Result<Found, Error> {
    let Some(url) = &request.source else {
        let body = request.contents.clone().map(Body::Bytes);
        return Ok(Found {
            body,
            ..Found::default()
        });
    };
    if let Some(engine) = &request.template
        && !template::renders_files(engine)
    {
        return Err(template::unsupported(engine).into());
    }
    let parts = Url::parse(url);
    let sum = expected(cx, request, url, &parts)?;
    let file = fetched(cx, request, url, &parts, sum.as_ref())?;
    if file == request.name && (request.template.is_some() || parts.is_remote()) {
        return Err("Source file cannot be the same as destination".into());
    }
    let Some(engine) = &request.template else {
        return Ok(Found {
            body: Some(Body::File(file)),
            sum,
            there: None,
        });
    };
    let body = match String::from_utf8(fs::read(&file)?) {
        Ok(text) => {
            let variables = request.variables();
            let text =
                template::render_file(cx, engine, &file, &text, &request.saltenv, variables)?;
            Body::Bytes(text.into_bytes())
        }
        // A binary file is not rendered.
        Err(binary) => Body::Bytes(binary.into_bytes()),
    };
    Ok(Found {
        body: Some(body),
        ..Found::default()
    })
}

/// Returns the expected hash of a source, or `None` if the source needs no verification.
fn expected(cx: &Exec, request: &Request, url: &str, parts: &Url) -> Result<Option<Sum>, Error> {
    if parts.is_local() {
        let path = local_path(url, parts);
        if !path::exists(&path) {
            return Err(format!("Local file source {path} does not exist").into());
        }
        if !request.source_hash.is_true() {
            return Ok(None);
        }
    }
    if parts.scheme == "salt" {
        return match fetch::salt_file(cx, url, &request.saltenv)? {
            Some(_) => Ok(None),
            None => Err(format!(
                "Source file {url} not found in saltenv '{}'",
                request.saltenv
            )
            .into()),
        };
    }
    if request.skip_verify {
        return Ok(None);
    }
    if request.source_hash.is_true() {
        return sums::sum(cx, request.hash_request(url))
            .map(Some)
            .map_err(|error| Error::refused(format!("Unable to manage file: {error}")));
    }
    if request.use_etag {
        return Ok(None);
    }
    Err(format!(
        "Unable to verify upstream hash of source file {}, please set source_hash or set skip_verify to True",
        redacted(url)
    )
    .into())
}

fn local_path(url: &str, parts: &Url) -> String {
    if parts.scheme == "file" {
        parts.local_path()
    } else {
        url.to_owned()
    }
}

fn fetched(
    cx: &Exec,
    request: &Request,
    url: &str,
    parts: &Url,
    sum: Option<&Sum>,
) -> Result<String, Error> {
    if parts.is_local() {
        return Ok(local_path(url, parts));
    }
    let shown = redacted(url);
    if request.skip_verify
        && parts.is_remote()
        && let Some(file) = fetch::is_cached(cx, url, &request.saltenv)
    {
        return Ok(file);
    }
    let how = How {
        hash: sum.map(|sum| sum.hash.as_str()),
        verify_ssl: !request.no_verify_ssl,
        use_etag: request.use_etag,
    };
    let file = fetch::cached(cx, url, &request.saltenv, how)
        .map_err(|error| Error::refused(format!("Failed to cache {shown}: {error}")))?;
    file.filter(|file| path::exists(file))
        .ok_or_else(|| Error::refused(format!("Source file '{shown}' not found")))
}

/// Returns the diff to show, and whether it contains a change that counts.
fn shown_diff(cx: &Exec, request: &Request, old: &str, body: &Body) -> (String, bool) {
    if cx.opts().flag("obfuscate_templates") {
        return ("<Obfuscated Template>".into(), false);
    }
    if !request.show_changes {
        return ("<show_changes=False>".into(), false);
    }
    match body.diff_from(old) {
        Ok(text) => {
            let counts = request.ignore.any() && request.ignore.counts(&text);
            (text, counts)
        }
        // The link is dangling, so its target is created.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => ("New file".into(), true),
        Err(error) => {
            let reason = error.to_string();
            let reason = reason.split(" (os error").next().unwrap_or_default();
            (format!("Failed to read {old}: {reason}"), false)
        }
    }
}

fn new_diff(body: &Body) -> Result<String, Error> {
    body.diff_from("/dev/null").map_err(Error::io("/dev/null"))
}

/// Returns the changes that a run would make, and whether they count for requisites. Salt's
/// `file.check_managed_changes`.
///
/// # Errors
/// When the contents are not available.
pub(crate) fn changes(cx: &Exec, request: &Request) -> Result<(Map, bool), Error> {
    let mut request = request.clone();
    let found = find(cx, &request)?;
    request.keep_mode(cx)?;
    let now = stat::read(&request.name, request.follow).ok();
    let mut changes = Map::new();
    if let (Some(body), Some(_)) = (&found.body, &cx.previewer)
        && !body.is_in(&request.name)
    {
        let name = Path::new(&request.name);
        fs::would_hold(cx, name, || body.bytes().map_err(Error::io(name)));
    }
    let Some(now) = now else {
        match found.body.filter(|_| request.new_file_diff) {
            Some(body) => changes.insert("diff", new_diff(&body)?),
            None => changes.insert("newfile", request.name.as_str()),
        };
        return Ok((changes, true));
    };
    let mut counts = false;
    if let Some(body) = &found.body
        && !body.is_in(&request.name)
    {
        let (text, counted) = shown_diff(cx, &request, &request.name, body);
        changes.insert("diff", text);
        counts = counted;
    }
    if !request.user.is_null() && (now.user_differs(&request.user)) {
        changes.insert("user", request.user.clone());
    }
    if !request.group.is_null() && now.group_differs(&request.group) {
        changes.insert("group", request.group.clone());
    }
    if let Some(mode) = request.mode.filter(|mode| *mode != now.mode) {
        changes.insert("mode", mode);
    }
    if let Some(attrs) = request.attrs
        && perms::attributes_differ(cx, &request.name, &attrs)?
    {
        changes.insert("attrs", attrs);
    }
    Ok((changes, counts))
}

/// Brings a file into the desired state. Salt's `file.manage_file`.
///
/// # Errors
/// When the contents do not match their hash, or the kernel refuses.
pub(crate) fn manage(
    cx: &Exec,
    mut request: Request,
    found: Found,
    ret: Ret,
) -> Result<Ret, Error> {
    request.keep_mode(cx)?;
    let name = request.name.clone();
    let mut ret = if is_right(&request, &found) {
        ret
    } else if path::isfile(&name) || path::islink(&name) {
        replace(cx, &request, &found, ret)?
    } else {
        create(cx, &request, &found, ret)?
    };
    if let (Some(true), true) = (ret.result, ret.comment.is_empty()) {
        ret.comment = format!("File {name} is in the correct state");
    }
    Ok(ret)
}

/// Returns true if a regular file is already in the desired state. This is the common case, so it
/// opens the file only once.
fn is_right(request: &Request, found: &Found) -> bool {
    let (Some(body), None, None) = (&found.body, &found.sum, &request.attrs) else {
        return false;
    };
    let known = found.there.clone().or_else(|| stat::look(&request.name));
    let Some(Looked {
        stats,
        file: Some(file),
    }) = known
    else {
        return false;
    };
    !stats.user_differs(&request.user)
        && !stats.group_differs(&request.group)
        && request.mode.as_ref().is_none_or(|mode| *mode == stats.mode)
        && body.fills(&file, stats.size)
}

/// Returns an error if the contents do not match their hash.
///
/// # Errors
/// When the contents do not match, or cannot be read.
pub(crate) fn verify(subject: &str, found: &Found, advice: &str) -> Result<(), Error> {
    let (Some(sum), Some(body)) = (&found.sum, &found.body) else {
        return Ok(());
    };
    let actual = body.hash(&sum.kind)?;
    if actual == sum.hash {
        return Ok(());
    }
    Err(format!(
        "Specified {} checksum for {subject} ({}) does not match actual checksum ({actual}){advice}",
        sum.kind, sum.hash
    )
    .into())
}

/// Returns an error if a required signature of the contents is missing or wrong.
fn verify_signature(cx: &Exec, request: &Request, body: &Body) -> Result<(), Error> {
    let (Some(url), Some(signed)) = (
        &request.source,
        Signed::by(&request.signatures[0], &request.signers),
    ) else {
        return Ok(());
    };
    let Body::File(file) = body else {
        return Err("Failed checking new file's signature: a template has none".into());
    };
    let from = (request.saltenv.as_str(), !request.no_verify_ssl);
    signed
        .check(cx, (url, file), from)
        .map_err(|error| Error::refused(format!("Failed checking new file's signature: {error}")))
}

/// A hint for the error that the hash does not match the source.
pub(crate) const MANY_HASHES: &str = ". If the 'source_hash' value refers to a remote file with multiple possible matches, \
                           then it may be necessary to set 'source_hash_name'.";

fn committed(result: Result<(), Error>) -> Result<(), Error> {
    result.map_err(|error| Error::refused(format!("Failed to commit change: {error}")))
}

fn replace(cx: &Exec, request: &Request, found: &Found, mut ret: Ret) -> Result<Ret, Error> {
    let name = &request.name;
    let is_link = path::islink(name);
    let real = if is_link && request.follow {
        path::realpath(name)
    } else {
        name.clone()
    };
    let mut counts = false;
    let mut before = None;
    let replaced = is_link && !request.follow;
    let subject = request.source.as_deref().unwrap_or(name);
    verify(subject, found, MANY_HASHES)?;
    if let Some(body) = &found.body
        && (replaced || !body.is_in(&real))
    {
        verify_signature(cx, request, body)?;
        let (mut text, counted) = shown_diff(cx, request, &real, body);
        counts = counted;
        if replaced && text.is_empty() {
            text = "Replace symbolic link with regular file".into();
        }
        before = stat::read(&real, true).ok();
        let mode = backup::mode(cx, &request.backup);
        committed(backup::keep(cx, &real, &mode))?;
        committed(body.write(cx, &real, request.mode.as_deref(), !replaced))?;
        note(&mut ret, "diff", text);
    }
    perms::check(cx, name, &mut ret, &request.wanted(), before)?;
    if ret.changes.is_true() {
        ret.comment = format!("File {name} updated");
    } else if ret.result == Some(true) {
        ret.comment = format!("File {name} is in the correct state");
    }
    Ok(skipping(request, counts, ret))
}

/// Marks a return with only ignored changes, so that the requisites of other states are not
/// triggered.
pub(crate) fn skipping(request: &Request, counts: bool, ret: Ret) -> Ret {
    if request.ignore.any() && ret.changes.is_true() && !counts {
        ret.with("skip_req", true)
    } else {
        ret
    }
}

fn create(cx: &Exec, request: &Request, found: &Found, mut ret: Ret) -> Result<Ret, Error> {
    let name = &request.name;
    verify(name, found, "")?;
    if let Some(body) = &found.body {
        verify_signature(cx, request, body)?;
    }
    let folder = path::dirname(name);
    if !path::isdir(folder) {
        if !request.makedirs {
            return Err("Parent directory not present".into());
        }
        let mode = dir_mode(request);
        makedirs::above(cx, name, &request.user, &request.group, mode)?;
    }
    let usual = stat::octal(0o666 & !state::umask::current());
    let mode = request.mode.clone().unwrap_or_else(|| usual.clone());
    let empty = Body::Bytes(Vec::new());
    let body = found.body.as_ref().unwrap_or(&empty);
    body.write(cx, name, Some(&mode), true)?;
    match &found.body {
        None => {
            note(&mut ret, "new", format!("file {name} created"));
            ret.comment = "Empty file".into();
        }
        Some(body) if request.new_file_diff => note(&mut ret, "diff", new_diff(body)?),
        Some(_) => note(&mut ret, "diff", "New file"),
    }
    let private = request.source.is_some() || request.mode.is_some();
    let before = if private { "0600".into() } else { usual };
    if request.user.is_null() && request.group.is_null() && request.attrs.is_none() {
        // The mode was set when the file was written. Salt sets it now and reports it as a change.
        if mode != before {
            note(&mut ret, "mode", mode);
        }
    } else {
        let wanted = Wanted {
            mode: Some(mode),
            ..request.wanted()
        };
        let before = new_stats(name, before)?;
        perms::check(cx, name, &mut ret, &wanted.following(false), Some(before))?;
    }
    if ret.comment.is_empty() {
        ret.comment = format!("File {name} updated");
    }
    Ok(skipping(request, false, ret))
}

/// Returns the properties of a new file as Salt has it before it sets owner and mode. The reported
/// changes start from them.
fn new_stats(name: &str, mode: String) -> Result<Stats, Error> {
    Ok(Stats {
        mode,
        ..stat::read(name, false)?
    })
}

/// Returns the mode of new parent folders: the one in the state, else the mode of the file with
/// search permission added.
fn dir_mode(request: &Request) -> Option<String> {
    normalized(&request.dir_mode).or_else(|| request.mode.as_deref().map(searchable))
}

/// Converts the mode of a file into one for a folder: each class with any permission also gets the
/// search permission.
pub(crate) fn searchable(mode: &str) -> String {
    let last = mode.get(mode.len().saturating_sub(3)..).unwrap_or(mode);
    let digits = last.chars().map(|c| match c.to_digit(8) {
        Some(0) | None => c,
        Some(digit) => char::from_digit(digit | 1, 8).unwrap_or(c),
    });
    normalized(&digits.collect::<String>().into()).unwrap_or_default()
}

/// Writes the contents to a temporary file, which a command then checks. It gets the owner and mode
/// of the managed file.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn trial(cx: &Exec, request: &Request, body: &Body, place: &Path) -> Result<(), Error> {
    use std::os::unix::fs::MetadataExt;
    let old = Path::new(&request.name).metadata().ok();
    let owner = fs::Owner {
        mode: Some(old.as_ref().map_or(0o600, |old| old.mode() & 0o7777)),
        uid: users::uid(&request.user).or_else(|| old.as_ref().map(MetadataExt::uid)),
        gid: users::gid(&request.group).or_else(|| old.as_ref().map(MetadataExt::gid)),
    };
    let bytes = body.bytes().map_err(Error::io(&request.name))?;
    // Never follow a symbolic link that another user may have created in the folder for temporary
    // files.
    fs::replace_from(cx, place, &mut bytes.as_slice(), owner)
}

/// Returns whether the differences between two contents count, for `file.get_diff`.
pub(crate) fn counts(ignore: &Ignore, old: &[u8], new: &[u8]) -> bool {
    ignore.counts(&difflib::of_files(old, new))
}
