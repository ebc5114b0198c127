//! The `archive` state module.

mod checksum;
mod extraction;
mod ownership;

use machine::accounts::users;
use machine::process::which;
use python::{path, shlex};
use state::exec::Exec;
use state::module::{Arguments, Error, Ret};
use value::{Map, Value};

use crate::exec::archive::{self, Contents};
use crate::exec::file::source::{self as sums, Sum};
use crate::exec::gpg::verify::{Signed, Signers};
use crate::fileserver::fetch::{self, Url, redacted};

state::state_module! {
    /// Extract archives.
    #[facts(also_takes = &["keep"])]
    mod archive;

    /// Make sure that an archive is extracted. It is extracted when one of its files, folders or
    /// links is missing.
    ///
    ///     /opt/tools:
    ///       archive.extracted:
    ///         - source: salt://tools.tar.gz
    ///         - enforce_toplevel: False
    fn extracted(Extracted {
        /// The folder to extract to.
        name: String,
        /// The archive: a path, `salt://…` or a URL; or a list of these, of which the first that
        /// exists is used.
        source: Value,
        /// The hash of the archive as `type=hash`, or the address of a file of hashes.
        source_hash: Value = Value::Null,
        /// The name of the archive in the file of hashes.
        source_hash_name: Option<String> = None,
        /// True to extract the archive again when its hash changes.
        source_hash_update: bool = false,
        /// True to compare only the hash and not the contents of the archive.
        skip_files_list_verify: bool = false,
        /// True to accept an archive from the web without a hash.
        skip_verify: bool = false,
        /// The password of a zip archive.
        password: Value = Value::Null,
        /// Options for tar or unzip.
        options: Value = Value::Null,
        /// A command that writes the decompressed tar to its standard output, to list an archive
        /// with an unusual compression.
        list_options: Option<String> = None,
        /// True to remove existing paths of the wrong kind.
        force: bool = false,
        /// True to extract the archive in any case.
        overwrite: bool = false,
        /// True to first remove the files and folders that are at the top level of the archive.
        clean: bool = false,
        /// True to first remove the whole folder.
        clean_parent: bool = false,
        /// The owner of the extracted files.
        user: Value = Value::Null,
        /// The group of the extracted files.
        group: Value = Value::Null,
        /// A path. If it exists, nothing is done.
        if_missing: Value = Value::Null,
        /// The maximum number of names to return. True means 100.
        trim_output: Value = false.into(),
        /// True to extract a zip archive with `archive.cmd_unzip`.
        use_cmd_unzip: Value = Value::Null,
        /// True to apply the file modes of a zip archive.
        extract_perms: bool = true,
        /// True to reject an archive with more than one folder at its top level.
        enforce_toplevel: bool = true,
        /// A path. The owners are set only on it.
        enforce_ownership_on: Value = Value::Null,
        /// The format: `tar`, `zip` or `rar`. Default: guessed from the name.
        archive_format: Value = Value::Null,
        /// True to fetch an archive from the web again when its ETag has changed.
        use_etag: bool = false,
        /// A signature of the source: its address, or `True` if it is in the file itself.
        signature: Value = Value::Null,
        /// A signature of the file of hashes: its address, or `True` if it is in the file itself.
        source_hash_sig: Value = Value::Null,
        #[group] signers: Signers,
        ..kwargs
    });
}

/// The checked arguments.
struct Job<'a> {
    cx: &'a Exec,
    args: &'a Extracted,
    /// The folder to extract to, with a slash at its end.
    name: String,
    /// The source that is used.
    source: String,
    local: bool,
    format: String,
    options: Option<String>,
    /// True to return the output of unzip, for zip archives.
    cmd_unzip: bool,
    trim: Option<usize>,
    sum: Option<Sum>,
    /// The keys that must have signed the archive.
    by: Signers,
}

fn extracted(cx: &Exec, args: Extracted) -> Result<Ret, Error> {
    let mut warnings = Vec::new();
    let kwargs = &args.kwargs;
    if kwargs.contains("keep_source") && kwargs.contains("keep") {
        warnings.push(
            "Both 'keep_source' and 'keep' were used. Since these both do the same thing, 'keep' was ignored.".to_owned(),
        );
    }
    let keep = kwargs
        .get("keep_source")
        .or_else(|| kwargs.get("keep"))
        .is_none_or(Value::is_true);
    let mut ret = match checked(cx, &args, &mut warnings)? {
        Step::Done(ret) => ret,
        Step::Next(job) => {
            let ret = job.run()?;
            // The steps after the extraction are skipped if the state has failed.
            if !job.local && !keep && !cx.test && ret.result == Some(true) {
                job.forget(&mut warnings);
            }
            ret
        }
    };
    ret.warnings.extend(warnings);
    Ok(ret)
}

/// The result of a check: either the final return of the state, or a value to continue with.
enum Step<T> {
    Done(Ret),
    Next(T),
}

fn absolute(path: &Value, what: &str) -> Result<(), Error> {
    if path.is_null() || path.as_str().is_some_and(path::isabs) {
        return Ok(());
    }
    Err(format!("Value for '{what}' is not an absolute path").into())
}

/// Returns the folder to extract to, with a slash at its end.
fn target(args: &Extracted) -> Result<String, Error> {
    if !path::isabs(&args.name) {
        return Err(format!("{} is not an absolute path", args.name).into());
    }
    let name = args.name.trim_end_matches('/');
    if path::isfile(name) {
        return Err(format!("{name} exists and is not a directory").into());
    }
    let name = format!("{name}/");
    absolute(&args.if_missing, "if_missing")?;
    absolute(&args.enforce_ownership_on, "enforce_ownership_on")?;
    if let Some(path) = args.enforce_ownership_on.as_str()
        && path::relpath(path, &name).starts_with("../")
    {
        return Err(format!("Value for 'enforce_ownership_on' must be within {name}").into());
    }
    Ok(name)
}

/// Returns the keys that must have signed the archive.
fn signed_by(cx: &Exec, args: &Extracted) -> Result<Signers, Error> {
    let by = &args.signers;
    let is_signed = args.signature.is_true() || args.source_hash_sig.is_true();
    if is_signed && !by.are_able(cx) {
        return Err(format!(
            "Cannot verify signatures because the {} module was not loaded",
            by.sig_backend
        )
        .into());
    }
    Ok(by.clone())
}

fn checked<'a>(
    cx: &'a Exec,
    args: &'a Extracted,
    warnings: &mut Vec<String>,
) -> Result<Step<Job<'a>>, Error> {
    if args.skip_files_list_verify && args.skip_verify {
        return Err(
            "Only one of \"skip_files_list_verify\" and \"skip_verify\" can be set to True".into(),
        );
    }
    let name = target(args)?;
    if let Some(path) = args.if_missing.as_str().filter(|path| path::exists(path)) {
        return Ok(Step::Done(Ret::ok(format!("Path {path} exists"))));
    }
    if args.user.is_true() && users::uid(&args.user).is_none() {
        return Err(format!("User {} does not exist", args.user.to_text()).into());
    }
    if args.group.is_true() && users::gid(&args.group).is_none() {
        return Err(format!("Group {} does not exist", args.group.to_text()).into());
    }
    if args.source_hash_update && !args.source_hash.is_true() {
        warnings.push(
            "The 'source_hash_update' argument is ignored when 'source_hash' is not also specified.".to_owned(),
        );
    }
    let by = signed_by(cx, args)?;
    let (source, _) = sums::first(cx, &args.source, &args.source_hash, &cx.saltenv)?;
    if !source.is_true() {
        return Err(format!("Invalid source \"{}\"", args.source.to_text()).into());
    }
    let mut source = source.to_text();
    let url = Url::parse(&source);
    let (local, path) = (url.is_local(), url.local_path());
    if local {
        source = path::realpath(&path::expanduser(&path));
        if !path::isfile(&source) {
            return Err(format!("Source file '{source}' does not exist").into());
        }
    }
    let format = format_of(args, &path)?;
    let options = args.options.is_true().then(|| args.options.to_text());
    let cmd_unzip = zip_options(args, &format, options.is_some(), warnings)?;
    let mut job = Job {
        cx,
        args,
        name,
        source,
        local,
        format,
        options,
        cmd_unzip,
        trim: trim(&args.trim_output)?,
        sum: None,
        by,
    };
    if args.source_hash.is_true() {
        let asked = sums::SourceHash {
            file_name: "",
            source: &job.source,
            hash: &args.source_hash,
            name: args.source_hash_name.as_deref(),
            saltenv: &cx.saltenv,
            verify_ssl: true,
            signed: Signed::by(&args.source_hash_sig, &job.by),
        };
        job.sum = Some(sums::sum(cx, asked)?);
    }
    Ok(Step::Next(job))
}

fn format_of(args: &Extracted, path: &str) -> Result<String, Error> {
    const VALID: [&str; 3] = ["tar", "rar", "zip"];
    if !args.archive_format.is_true() {
        let guessed = archive::guessed(path).map(str::to_owned);
        return guessed.ok_or_else(|| {
            format!(
                "Could not guess archive_format from the value of the 'source' argument. Please set this archive_format to \
                 one of the following: {}",
                VALID.join(", ")
            )
            .into()
        });
    }
    let format = args.archive_format.to_text().to_lowercase();
    if !VALID.contains(&format.as_str()) {
        return Err(format!(
            "Invalid archive_format '{format}'. Either set it to a supported value ({}) or remove this argument and the \
             archive format will be guessed based on file extension.",
            VALID.join(", ")
        )
        .into());
    }
    if format == "rar" && which("unrar").or_else(|| which("rar")).is_none() {
        return Err(
            "archive.unrar function not available, rar/unrar might not be installed on minion"
                .into(),
        );
    }
    Ok(format)
}

/// Returns whether to return the output of unzip. Fails if the arguments contradict each other.
fn zip_options(
    args: &Extracted,
    format: &str,
    options: bool,
    warnings: &mut Vec<String>,
) -> Result<bool, Error> {
    if format == "rar" && options {
        return Err("The 'options' argument is only compatible with the following archive formats: tar, zip".into());
    }
    if format != "zip" {
        return if args.password.is_true() {
            Err("The 'password' argument is only supported for zip archives".into())
        } else {
            Ok(false)
        };
    }
    let given = &args.use_cmd_unzip;
    if options && !given.is_null() && !given.is_true() {
        return Err("'use_cmd_unzip' cannot be set to False if CLI options are being specified (via the 'options' argument). \
                    Either remove 'use_cmd_unzip', or set it to True."
            .into());
    }
    let wanted = options || given.is_true();
    if args.password.is_true() && wanted {
        warnings.push(
            "Using a password in combination with setting 'use_cmd_unzip' to True is considered insecure. It is recommended \
             to remove the 'use_cmd_unzip' argument (or set it to False) and allow Salt to extract the archive using \
             Python's built-in ZIP file support."
                .to_owned(),
        );
    }
    Ok(wanted)
}

fn trim(given: &Value) -> Result<Option<usize>, Error> {
    let wrong = || Error::from("Invalid value for trim_output, must be True/False or an integer");
    Ok(match given {
        Value::Bool(true) => Some(100),
        other if !other.is_true() => None,
        Value::Str(text) => Some(text.trim().parse().map_err(|_| wrong())?),
        other => Some(
            other
                .as_int()
                .and_then(|count| count.try_into().ok())
                .ok_or_else(wrong)?,
        ),
    })
}

impl Job<'_> {
    fn redacted_source(&self) -> String {
        redacted(&self.source)
    }

    fn run(&self) -> Result<Ret, Error> {
        if self.args.skip_files_list_verify && self.has_same_sum()? {
            let comment = format!(
                "Archive {} existing source sum is the same as the expected one and skip_files_list_verify argument was set \
                 to True. Extraction is not needed",
                self.redacted_source()
            );
            return Ok(if self.cx.test {
                Ret::would(comment)
            } else {
                Ret::ok(comment)
            });
        }
        let cached = match self.cached()? {
            Step::Done(ret) => return Ok(ret),
            Step::Next(cached) => cached,
        };
        if let Some(signed) = Signed::by(&self.args.signature, &self.by) {
            let from = (self.cx.saltenv.as_str(), true);
            let checked = signed.check(self.cx, (&self.source, &cached), from);
            checked.map_err(|error| {
                Error::refused(format!(
                    "Failed verifying the source file's signature: {error}"
                ))
            })?;
        }
        let before = checksum::read(self.cx, &cached, None)?;
        if self.args.source_hash.is_true()
            && self.args.source_hash_update
            && !self.args.skip_verify
            && !self.cx.test
        {
            checksum::update(self.cx, &cached)?;
        }
        if self.format == "zip" && !self.args.password.is_true() && self.needs_password(&cached) {
            return Err(format!(
                "Archive {} is password-protected, but no password was specified. Please set the 'password' argument.",
                self.redacted_source()
            )
            .into());
        }
        let contents = self.contents(&cached)?;
        self.check_toplevel(&contents)?;
        if self.args.clean && self.args.clean_parent {
            return Err("Only one of 'clean' and 'clean_parent' can be set to True".into());
        }
        self.extract(&cached, &contents, before.as_deref())
    }

    /// Returns true if the archive still has the hash that it had when it was last extracted.
    fn has_same_sum(&self) -> Result<bool, Error> {
        let cached = if self.local {
            Some(self.source.clone())
        } else {
            fetch::is_cached(self.cx, &self.source, &self.cx.saltenv)
        };
        let cached = match cached {
            Some(cached) => cached,
            None => fetch::external(self.cx, &self.source, &self.cx.saltenv)?
                .to_string_lossy()
                .into_owned(),
        };
        let known = checksum::read(self.cx, &cached, None)?;
        Ok(matches!((&self.sum, known), (Some(sum), Some(known)) if sum.hash == known))
    }

    /// Returns the path of the archive on this machine. A remote archive is fetched, except in test
    /// mode.
    fn cached(&self) -> Result<Step<String>, Error> {
        if self.local {
            return Ok(Step::Next(self.source.clone()));
        }
        let would = Ret::would(format!(
            "Archive {} would be cached (if necessary) and checked to discover if extraction is needed",
            self.redacted_source()
        ));
        let fetched = self.cx.apply(would, || {
            let kwargs = Map::new()
                .with("source_hash", self.args.source_hash.clone())
                .with("source_hash_name", self.args.source_hash_name.clone())
                .with("skip_verify", self.args.skip_verify)
                .with("saltenv", self.cx.saltenv.as_str())
                .with("use_etag", self.args.use_etag)
                .with("source_hash_sig", self.args.source_hash_sig.clone())
                .with("signed_by_any", self.by.keys.signed_by_any.clone())
                .with("signed_by_all", self.by.keys.signed_by_all.clone())
                .with("keyring", self.by.keys.keyring.clone())
                .with("gnupghome", self.by.keys.gnupghome.clone())
                .with("sig_backend", self.by.sig_backend.as_str());
            call_state(self.cx, "file.cached", &self.source, kwargs)
        })?;
        if fetched.result != Some(true) {
            return Ok(Step::Done(fetched));
        }
        let found = fetch::is_cached(self.cx, &self.source, &self.cx.saltenv);
        let found = found
            .ok_or_else(|| Error::refused(format!("Failed to cache {}", self.redacted_source())))?;
        Ok(Step::Next(found))
    }

    fn needs_password(&self, cached: &str) -> bool {
        let asked = self
            .cx
            .call_internal("archive.is_encrypted", vec![cached.into()], Map::new());
        asked.is_ok_and(|encrypted| encrypted.is_true())
    }

    /// Returns the number of leading folders that tar's options strip.
    fn strip_components(&self) -> usize {
        let options = self
            .options
            .as_deref()
            .filter(|_| self.format == "tar")
            .unwrap_or_default();
        let words = shlex::split(options).unwrap_or_default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let count = match word.split_once('=') {
                Some(("--strip" | "--strip-components", count)) => Some(count),
                None if word == "--strip" || word == "--strip-components" => {
                    words.next().map(String::as_str)
                }
                _ => None,
            };
            if let Some(count) = count.and_then(|count| count.parse().ok()) {
                return count;
            }
        }
        0
    }

    fn contents(&self, cached: &str) -> Result<Contents, Error> {
        let options = self.args.list_options.as_deref();
        let found = Contents::read(self.cx, cached, cached, &self.format, options);
        let found = found.map_err(|error| self.unlisted(&archive::located(cached)(error)))?;
        Ok(found.stripped(self.strip_components()))
    }

    /// Extends the error for an archive that cannot be listed with possible workarounds.
    fn unlisted(&self, error: &Error) -> Error {
        let mut text = error.to_string();
        let mut problems = Vec::new();
        if !self.args.if_missing.is_true() {
            problems.push("'if_missing' must be set");
        }
        if !self.args.enforce_ownership_on.is_true()
            && (self.args.user.is_true() || self.args.group.is_true())
        {
            problems.push("Ownership cannot be managed without setting 'enforce_ownership_on'.");
        }
        if problems.is_empty() {
            return text.into();
        }
        text.push_str("\n\n");
        text.push_str(if self.format == "tar" {
            "If the source archive is a tar archive compressed using a compression type not natively supported by the tar \
             command, then setting the 'list_options' argument may allow the contents to be listed. Otherwise, if Salt is \
             unable to determine the files/directories in the archive, the following workaround(s) would need to be used \
             for this state to proceed"
        } else {
            "The following workarounds must be used for this state to proceed"
        });
        text.push_str(&format!(
            " (assuming the source file is a valid {} archive):\n",
            self.format
        ));
        for problem in problems {
            text.push_str(&format!("\n- {problem}"));
        }
        text.into()
    }

    fn check_toplevel(&self, contents: &Contents) -> Result<(), Error> {
        let verbose = contents.verbose();
        let count = |key| {
            verbose
                .get(key)
                .and_then(Value::as_list)
                .map_or(0, <[_]>::len)
        };
        if !self.args.enforce_toplevel
            || (count("top_level_dirs") <= 1 && count("top_level_files") == 0)
        {
            return Ok(());
        }
        let (name, format) = (&self.name, &self.format);
        Err(format!(
            "Archive does not have a single top-level directory. To allow this archive to be extracted, set \
             'enforce_toplevel' to False. To avoid a '{format}-bomb' it may also be advisable to set a top-level directory \
             by adding it to the 'name' value (for example, setting 'name' to {name}some_dir instead of {name})."
        )
        .into())
    }

    /// Removes the archive from the cache. A failure is only a warning.
    fn forget(&self, warnings: &mut Vec<String>) {
        let kwargs = Map::new().with("saltenv", self.cx.saltenv.as_str());
        let done = call_state(self.cx, "file.not_cached", &self.source, kwargs);
        match done {
            Ok(ret) if ret.result == Some(false) => warnings.push(ret.comment),
            Ok(_) => {}
            Err(error) => warnings.push(error.to_string()),
        }
    }
}

/// Calls another state function. An error becomes a failed return.
fn call_state(cx: &Exec, function: &str, name: &str, kwargs: Map) -> Result<Ret, Error> {
    let found = cx
        .state_function(function)
        .ok_or_else(|| Error::not_available(function.to_owned()))?;
    let given = Arguments::new(Vec::new(), kwargs.with("name", name));
    let ret = found
        .invoke(function, cx, given)
        .unwrap_or_else(|error| Ret::failed(error.to_string()));
    Ok(Ret {
        name: Some(name.to_owned()),
        ..ret
    })
}
