//! `file.patch`.
#![expect(
    clippy::disallowed_methods,
    reason = "temporary files need not outlive the run"
)]

use std::path::{Path, PathBuf};

use machine::process;
use python::shlex;
use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value, remove};

use super::texts::{self, named};
use crate::exec::file::edit_sed::run_patch;
use crate::exec::file::managed::{self as work, Request};
use crate::exec::file::source as sums;

state::state_module! {
    /// Apply patches.
    #[facts(effects = Effects::Files(&["name"]))]
    mod file;

    /// Ensure that a patch has been applied to a file or folder.
    ///
    ///     /opt/app/main.py:
    ///       file.patch:
    ///         - source: salt://fix.patch
    fn patch(Patch {
        /// The path of the file or folder.
        name: String,
        /// The source of the patch.
        source: Value = Value::Null,
        /// The hash of a source from the web.
        source_hash: Value = Value::Null,
        /// The name to look up in the file of hashes.
        source_hash_name: Option<String> = None,
        /// True to accept a source from the web without a hash.
        skip_verify: bool = false,
        /// The template engine for the patch.
        template: Option<String> = None,
        /// Variables of the template.
        context: Option<Map> = None,
        /// Default variables of the template; those in `context` take precedence.
        defaults: Option<Map> = None,
        /// Options for `patch`.
        options: String = String::new(),
        /// The file for hunks that cannot be applied.
        reject_file: Option<String> = None,
        /// The number of leading folders to strip from the paths in the patch.
        strip: Option<i64> = None,
        /// The environment of the source.
        saltenv: Option<String> = None,
        ..kwargs
    });
}

fn patch(cx: &Exec, args: Patch) -> Result<Ret, Error> {
    let name = texts::expanded(&args.name);
    let mut warnings = Vec::new();
    let ret = patched(cx, args, &name, &mut warnings)
        .unwrap_or_else(|error| Ret::failed(error.to_string()));
    let ret = warnings.into_iter().fold(ret, Ret::warning);
    Ok(match &ret.name {
        Some(_) => ret,
        None => named(ret, &name),
    })
}

fn patched(cx: &Exec, args: Patch, name: &str, warnings: &mut Vec<String>) -> Result<Ret, Error> {
    if process::which("patch").is_none() {
        return Err("patch executable not found on minion".into());
    }
    usable(name)?;
    for old in ["hash", "dry_run_first"] {
        if args.kwargs.contains(old) {
            warnings.push(format!(
                "The '{old}' argument is no longer used and has been ignored."
            ));
        }
    }
    if let Some(reject_file) = &args.reject_file {
        usable_reject_file(reject_file)?;
    }
    let (options, strip) = checked_options(&args.options, args.strip)?;
    let (source, hash) = source_of(cx, &args)?;
    let scratch = Scratch::new()?;
    let patch_file = match fetched(cx, &args, source, hash, &scratch) {
        Ok(path) => path,
        // As in Salt, test mode uses an empty patch if the patch cannot be fetched.
        Err(_) if cx.test => scratch.file("empty")?,
        Err(error) => {
            let ret = Ret::failed(error.to_string());
            return Ok(named(ret, &scratch.path("patch")));
        }
    };
    let strip = strip.filter(|_| Path::new(name).is_dir());
    let work = Work {
        name,
        options,
        strip,
        patch_file,
        rejects: args.reject_file,
    };
    work.done(cx, &scratch)
}

fn usable(name: &str) -> Result<(), Error> {
    if name.is_empty() {
        return Err("A file/directory to be patched is required".into());
    }
    if !Path::new(name).is_absolute() {
        return Err(Error::refused(format!("{name} is not an absolute path")));
    }
    if !Path::new(name).exists() {
        return Err(Error::refused(format!("{name} does not exist")));
    }
    Ok(())
}

fn usable_reject_file(path: &str) -> Result<(), Error> {
    let folder = Path::new(path).parent().unwrap_or_else(|| Path::new(""));
    if !folder.is_absolute() {
        return Err(Error::refused(format!("'{path}' is not an absolute path")));
    }
    if !folder.is_dir() {
        return Err(Error::refused(format!(
            "Parent directory for reject_file '{path}' either does not exist, or is not a directory"
        )));
    }
    Ok(())
}

/// Returns the options without `-p`, and the number of `-p` if it is given. Rejects options that
/// are not allowed.
fn checked_options(
    options: &str,
    mut strip: Option<i64>,
) -> Result<(Vec<String>, Option<i64>), Error> {
    let mut words = shlex::split(options)?.into_iter();
    let (mut kept, mut refused) = (Vec::new(), Vec::new());
    let number = |text: &str, option: &str| {
        text.parse::<i64>().map(Some).map_err(|_| {
            Error::refused(format!(
                "Invalid format for '{option}' CLI option. Consider using the 'strip' option for this state."
            ))
        })
    };
    while let Some(word) = words.next() {
        let blacklist = ["-N", "--forward", "-r", "--reject-file", "-o", "--output"];
        refused.extend(blacklist.into_iter().find(|item| word.starts_with(item)));
        if let Some(count) = word.strip_prefix("-p") {
            strip = number(count, "-p")?;
        } else if let Some((_, count)) = word
            .starts_with("--strip")
            .then(|| word.rsplit_once('='))
            .flatten()
        {
            strip = number(count, "-strip")?;
        } else if word.starts_with("--strip") {
            strip = number(&words.next().unwrap_or_default(), "-strip")?;
        } else {
            kept.push(word);
        }
    }
    if refused.is_empty() {
        return Ok((kept, strip));
    }
    Err(Error::refused(format!(
        "The following CLI options are not allowed: {}",
        refused.join(", ")
    )))
}

/// Returns the source, if there is one, and its hash. As in Salt, `saltenv` is that of the chunk
/// and not the argument.
fn source_of(cx: &Exec, args: &Patch) -> Result<(Option<String>, Value), Error> {
    let (found, hash) = sums::first(cx, &args.source, &args.source_hash, &cx.saltenv)?;
    Ok((found.is_true().then(|| found.to_text()), hash))
}

/// Fetches the patch, and returns the path of its file on this machine.
fn fetched(
    cx: &Exec,
    args: &Patch,
    source: Option<String>,
    hash: Value,
    scratch: &Scratch,
) -> Result<String, Error> {
    let request = Request {
        name: scratch.path("patch"),
        source: source.clone(),
        source_hash: hash,
        source_hash_name: args.source_hash_name.clone(),
        template: args.template.clone(),
        context: args.context.clone().unwrap_or_default(),
        defaults: args.defaults.clone().unwrap_or_default(),
        saltenv: cx.saltenv.clone(),
        skip_verify: args.skip_verify,
        follow: true,
        ..Request::default()
    };
    let found = work::find(cx, &request)
        .map_err(|error| Error::refused(format!("Unable to manage file: {error}")))?;
    work::verify(&source.unwrap_or_default(), &found, work::MANY_HASHES)?;
    // As in Salt, the patch is empty if there is no source.
    let data = match found.body {
        Some(body) => body.bytes().map_err(Error::io(&request.name))?,
        None => Vec::new(),
    };
    std::fs::write(&request.name, data).map_err(Error::io(&request.name))?;
    Ok(request.name)
}

/// A temporary folder for trying a patch.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, Error> {
        use std::os::unix::fs::DirBuilderExt;
        use std::sync::atomic::{AtomicU32, Ordering};

        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("__salt.tmp.{}.{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(Error::io(&path))?;
        Ok(Self(path))
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn file(&self, name: &str) -> Result<String, Error> {
        let path = self.path(name);
        std::fs::write(&path, "").map_err(Error::io(&path))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that cannot be removed is left to the cleanup of the system's temporary files.
        remove::or_log(&self.0, std::fs::remove_dir_all(&self.0));
    }
}

/// A patch and the path to apply it to.
struct Work<'a> {
    name: &'a str,
    options: Vec<String>,
    strip: Option<i64>,
    patch_file: String,
    rejects: Option<String>,
}

impl Work<'_> {
    fn run(&self, cx: &Exec, patch: &str, options: &[&str], dry_run: bool) -> Result<Value, Error> {
        let mut all = self.options.clone();
        all.extend(options.iter().map(|option| (*option).to_owned()));
        run_patch(cx, self.name, patch, all, dry_run)
    }

    fn done(&self, cx: &Exec, scratch: &Scratch) -> Result<Ret, Error> {
        let rejects = match &self.rejects {
            Some(path) => path.clone(),
            None => scratch.file("rejects")?,
        };
        let output = scratch.file("output")?;
        let strip = self.strip.map(|strip| format!("-p{strip}"));
        let mut options = vec!["-N", "-r", &rejects, "-o", &output];
        options.extend(strip.as_deref());
        let tried = self.run(cx, &self.patch_file, &options, false)?;
        if retcode(&tried) != 0 {
            return self.refused(cx, &tried, &rejects);
        }
        let would = Ret::would("The patch would be applied").changes(tried);
        cx.apply(would, || {
            let options: Vec<&str> = strip.as_deref().into_iter().collect();
            let ran = self.run(cx, &self.patch_file, &options, false)?;
            cx.changed(Path::new(self.name));
            let ret = if retcode(&ran) == 0 {
                Ret::ok("Patch successfully applied")
            } else {
                Ret::failed("Failed to apply patch")
            };
            Ok(ret.changes(ran))
        })
    }

    /// Returns the result for a patch that does not apply: it is applied already, or it does not
    /// match.
    fn refused(&self, cx: &Exec, tried: &Value, rejects: &str) -> Result<Ret, Error> {
        let stderr = tried.get("stderr").map(Value::to_text).unwrap_or_default();
        let kept = std::fs::metadata(rejects).map_or(0, |rejects| rejects.len());
        if kept == 0 {
            return Ok(Ret::failed(stderr));
        }
        let reverse = self.run(cx, rejects, &["-R", "-f"], true)?;
        if retcode(tried) == 2 && !stderr.is_empty() {
            return Ok(Ret::failed(stderr));
        }
        if retcode(&reverse) == 0 {
            return Ok(Ret::ok("Patch was already applied"));
        }
        let mut comment = String::from(
            "Patch would not apply cleanly, no changes made. Results of dry-run are below.",
        );
        if self.rejects.is_none() {
            comment.push_str(" Run state again using the reject_file option to save rejects to a persistent file.");
        }
        comment.push_str("\n\n");
        comment.push_str(&nested(tried));
        Ok(Ret::failed(comment))
    }
}

fn retcode(output: &Value) -> i64 {
    output.get("retcode").and_then(Value::as_int).unwrap_or(-1)
}

/// Returns the output of a command in the format of the nested outputter, indented by 14 spaces.
fn nested(output: &Value) -> String {
    let mut lines = vec!["----------".to_owned()];
    for key in ["pid", "retcode", "stderr", "stdout"] {
        lines.push(format!("{key}:"));
        let text = output.get(key).map(Value::to_text).unwrap_or_default();
        lines.extend(text.lines().map(|line| format!("    {line}")));
    }
    let indented: Vec<String> = lines
        .iter()
        .map(|line| format!("{:14}{line}", ""))
        .collect();
    indented.join("\n")
}
