//! The `rsync` execution module. Salt 3008 no longer has this module; the answers are those of the
//! last version that had it.

use std::path::Path;

use machine::fs;
use machine::process::Output;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::{config, tool};

state::exec_module! {
    /// Copy directory trees with `rsync`.
    #[needs(
        "rsync",
        "The rsync execution module cannot be loaded: the rsync binary is not in the path."
    )]
    mod rsync;

    /// Copy a directory tree. Arguments that are not given come from the options `rsync.src`,
    /// `rsync.dst`, `rsync.delete` and so on.
    ///
    ///     salt-call rsync.rsync /srv/build/ /srv/site delete=True
    fn rsync(Rsync {
        /// The source: a path, an address, or a `salt://` URL.
        src: Option<String>,
        /// The destination.
        dst: Option<String>,
        /// True to delete files that the source does not have.
        delete: bool = false,
        /// True to delete folders even if they are not empty.
        force: bool = false,
        /// True to skip files that are newer at the destination.
        update: bool = false,
        /// The path of a file with the password for an rsync daemon.
        passwordfile: Option<String> = None,
        /// The patterns of files to exclude.
        exclude: Value = Value::Null,
        /// The path of a file with patterns of files to exclude.
        excludefrom: Option<String> = None,
        /// True to report the changes without making them.
        dryrun: bool = false,
        /// The remote shell.
        rsh: Option<String> = None,
        /// Additional options for rsync.
        additional_opts: Value = Value::Null,
        /// The environment to fetch `salt://` files from.
        saltenv: String = "base".into(),
    });

    /// Return the version of rsync.
    ///
    ///     salt-call rsync.version
    fn version(Version {});

    /// Return the configuration of the rsync daemon.
    ///
    ///     salt-call rsync.config
    fn config(Config {
        /// The path of the configuration file.
        conf_path: String = "/etc/rsyncd.conf".into(),
    });
}

/// Returns an argument, or the value of the option if the argument is not given.
fn or_option(cx: &Exec, given: Value, name: &str) -> Result<Value, Error> {
    match given.is_true() {
        true => Ok(given),
        false => config::found(cx, &format!("rsync.{name}")),
    }
}

/// Returns the local path of the source, and the temporary folder to remove afterwards, if there is
/// one.
fn fetched(cx: &Exec, src: String, saltenv: &str) -> Result<(String, Option<String>), Error> {
    let Some(path) = src.strip_prefix("salt://") else {
        return Ok((src, None));
    };
    let folder = cx
        .call_internal("temp.dir", Vec::new(), Map::new())?
        .to_text();
    let env = Map::new().with("saltenv", saltenv);
    let folders = cx.call_internal("cp.list_master_dirs", Vec::new(), env.clone())?;
    let is_folder = folders.texts().iter().any(|one| one == path);
    let (fun, target) = match is_folder {
        true => ("cp.get_dir", format!("{folder}/")),
        false => ("cp.get_file", format!("{folder}/file")),
    };
    let given = vec![src.as_str().into(), target.as_str().into()];
    match cx.call_internal(fun, given, env)?.is_true() {
        true => Ok((target, Some(folder))),
        false => {
            removed(cx, &folder)?;
            Err(Error::refused(format!("{src} does not exist")))
        }
    }
}

fn removed(cx: &Exec, folder: &str) -> Result<(), Error> {
    fs::remove(cx, Path::new(folder)).map_err(Error::io(folder))
}

/// Copies a directory tree.
///
/// # Errors
/// When there is no source or destination, or the program cannot be started.
pub(crate) fn run(cx: &Exec, args: Rsync) -> Result<Output, Error> {
    let found = |given: Value, name: &str| or_option(cx, given, name);
    let src = found(args.src.into(), "src")?.to_text();
    let dst = found(args.dst.into(), "dst")?.to_text();
    if src.is_empty() || dst.is_empty() {
        return Err(Error::refused("src and dst cannot be empty".to_owned()));
    }
    let mut words: Vec<String> = ["rsync", "-avz"].map(str::to_owned).into();
    for (is, name) in [
        (args.delete, "delete"),
        (args.force, "force"),
        (args.update, "update"),
    ] {
        if found(is.into(), name)?.is_true() {
            words.push(format!("--{name}"));
        }
    }
    let rsh = found(args.rsh.into(), "rsh")?;
    words.extend(rsh.is_true().then(|| format!("--rsh={}", rsh.to_text())));
    let mut pair = |name: &str, value: &str| words.extend([name.to_owned(), value.to_owned()]);
    let passwordfile = found(args.passwordfile.into(), "passwordfile")?;
    if passwordfile.is_true() {
        pair("--password-file", &passwordfile.to_text());
    }
    let excludefrom = found(args.excludefrom.into(), "excludefrom")?;
    match excludefrom.is_true() {
        true => pair("--exclude-from", &excludefrom.to_text()),
        false => {
            let patterns = tool::texts(&found(args.exclude, "exclude")?);
            patterns.iter().for_each(|one| pair("--exclude", one));
        }
    }
    if found(args.dryrun.into(), "dryrun")?.is_true() {
        words.push("--dry-run".to_owned());
    }
    words.extend(args.additional_opts.texts());
    let (src, copy) = fetched(cx, src, &args.saltenv)?;
    words.extend(["--".to_owned(), src, dst]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = tool::run(cx, &words, None, None);
    if let Some(folder) = copy {
        removed(cx, &folder)?;
    }
    output
}

fn rsync(cx: &Exec, args: Rsync) -> Result<Value, Error> {
    Ok(run(cx, args)?.to_map().into())
}

fn version(cx: &Exec, _: Version) -> Result<Value, Error> {
    let said = tool::run(cx, &["rsync", "--version"], None, None)?.into_stdout_regardless();
    let first = said.lines().next().unwrap_or_default();
    match first.split_whitespace().nth(2) {
        Some(version) => Ok(version.into()),
        None => Err(Error::refused(
            "Unable to determine rsync version".to_owned(),
        )),
    }
}

fn config(_: &Exec, args: Config) -> Result<Value, Error> {
    let path = args.conf_path;
    match fs::raw::text(&path) {
        Ok(text) => Ok(text.into()),
        Err(error) => Err(Error::refused(match error.kind() {
            std::io::ErrorKind::NotFound => format!("{path} does not exist"),
            std::io::ErrorKind::PermissionDenied => {
                format!("Unable to read {path}, access denied")
            }
            std::io::ErrorKind::IsADirectory => {
                format!("Unable to read {path}, path is a directory")
            }
            _ => format!("Unable to read {path}: {error}"),
        })),
    }
}
