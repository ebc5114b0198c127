//! The `lowpkg` execution module: the package databases of dpkg and rpm, regardless of the package
//! manager above them.

use std::path::Path;

use machine::process::Process;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::pkg::files::texts;
use crate::exec::pkg::providers::capabilities::Database;
use crate::exec::pkg::providers::{self, listing};
use crate::fileserver::fetch;

state::exec_module! {
    /// Query the package databases of dpkg and rpm.
    mod lowpkg;

    /// Return the name, version and architecture of a package file.
    ///
    ///     salt-call lowpkg.bin_pkg_info /srv/app.deb
    fn bin_pkg_info(BinPkgInfo {
        /// The path of the file, or an address to fetch it from.
        path: String,
        /// The environment to fetch the file from.
        saltenv: String = "base".into(),
    });

    /// Change the state of packages from "purge" to "install".
    ///
    ///     salt-call lowpkg.unpurge nginx
    fn unpurge(Unpurge {
        *rest,
    });

    /// Return installed packages with their versions: the named ones, or all.
    ///
    ///     salt-call lowpkg.list_pkgs
    fn list_pkgs(ListPkgs {
        *rest,
        ..kwargs
    });

    /// Return the files of packages: of the named ones, or of all.
    ///
    ///     salt-call lowpkg.file_list nginx
    fn file_list(FileList {
        *rest,
        ..kwargs
    });

    /// Return the files of packages, grouped by package: of the named ones, or of all.
    ///
    ///     salt-call lowpkg.file_dict nginx
    fn file_dict(FileDict {
        *rest,
        ..kwargs
    });

    /// Return information about packages: about the named ones, or about all.
    ///
    ///     salt-call lowpkg.info nginx
    fn info(Info {
        *rest,
        ..kwargs
    });

    /// Return the package that owns a path, or the owner of each of several paths. The owner is an
    /// empty text if no package owns the path.
    ///
    ///     salt-call lowpkg.owner /usr/sbin/nginx
    fn owner(Owner {
        *rest,
        ..kwargs
    });

    /// Return the files of packages that differ from the packaged ones.
    ///
    ///     salt-call lowpkg.verify nginx
    fn verify(Verify {
        *rest,
        ..kwargs
    });

    /// Return the changes in the files of packages.
    ///
    ///     salt-call lowpkg.modified nginx
    fn modified(Modified {
        *rest,
        ..kwargs
    });

    /// Return whether package files are intact and signed.
    ///
    ///     salt-call lowpkg.checksum /srv/app.rpm
    fn checksum(Checksum {
        *rest,
        ..kwargs
    });

    /// Compare two versions. Return -1, 0 or 1.
    ///
    ///     salt-call lowpkg.version_cmp 1.22.1 1.24.0
    fn version_cmp(VersionCmp {
        /// The first version.
        ver1: Value,
        /// The second version.
        ver2: Value,
        /// Whether to ignore the epoch (the part before the colon).
        ignore_epoch: bool = false,
    });
}

/// Returns the database of this machine, also if its package manager is not installed.
fn database(cx: &Exec, function: &str) -> Result<&'static dyn Database, Error> {
    let database = providers::expected(cx).and_then(|provider| provider.database());
    database.ok_or_else(|| Error::not_available(format!("lowpkg.{function}")))
}

/// Runs the `pkg` function of the same name. It does not support another root.
fn of_pkg(cx: &Exec, function: &str, rest: Vec<Value>, kwargs: Map) -> Result<Value, Error> {
    this_root(&kwargs)?;
    cx.call_internal(&format!("pkg.{function}"), rest, kwargs)
}

/// Returns an error if another root than that of the machine is given.
///
/// # Errors
/// When another root is given.
pub(crate) fn this_root(kwargs: &Map) -> Result<(), Error> {
    match kwargs.get("root").is_some_and(Value::is_true) {
        true => Err("Only packages of this machine can be queried: leave out root".into()),
        false => Ok(()),
    }
}

fn bin_pkg_info(cx: &Exec, args: BinPkgInfo) -> Result<Value, Error> {
    let path = if args.path.contains("://") {
        let cached = fetch::cached(cx, &args.path, &args.saltenv, fetch::How::default())?;
        cached.ok_or_else(|| {
            let (path, saltenv) = (&args.path, &args.saltenv);
            Error::refused(format!(
                "Unable to retrieve {path} from saltenv '{saltenv}'"
            ))
        })?
    } else {
        args.path
    };
    if !Path::new(&path).is_absolute() {
        return Err(Error::unexpected(format!(
            "{path} does not exist on minion"
        )));
    }
    let provider = providers::provider(cx)?;
    let database = provider.require(provider.database(), "bin_pkg_info")?;
    Ok(database.bin_pkg_info(cx, &path)?.into())
}

fn unpurge(cx: &Exec, args: Unpurge) -> Result<Value, Error> {
    let (provider, names) = (providers::provider(cx)?, texts(&args.rest)?);
    if names.is_empty() {
        return Ok(Map::new().into());
    }
    let selections = provider.require(provider.selections(), "unpurge")?;
    let marked = || -> Result<Map, Error> {
        let listed = listing::listed(cx, provider)?.purge_desired;
        Ok(listing::stringified(&listed))
    };
    let old = marked()?;
    selections.unpurge(cx, &names)?;
    listing::forget(cx);
    Ok(listing::changes(&old, &marked()?).into())
}

fn list_pkgs(cx: &Exec, args: ListPkgs) -> Result<Value, Error> {
    this_root(&args.kwargs)?;
    let names = texts(&args.rest)?;
    Ok(database(cx, "list_pkgs")?.versions(cx, &names)?.into())
}

fn file_list(cx: &Exec, args: FileList) -> Result<Value, Error> {
    of_pkg(cx, "file_list", args.rest, args.kwargs)
}

fn file_dict(cx: &Exec, args: FileDict) -> Result<Value, Error> {
    of_pkg(cx, "file_dict", args.rest, args.kwargs)
}

fn info(cx: &Exec, args: Info) -> Result<Value, Error> {
    this_root(&args.kwargs)?;
    let names = texts(&args.rest)?;
    let found = database(cx, "info")?.info(cx, &names, &args.kwargs)?;
    Ok(found.into())
}

fn owner(cx: &Exec, args: Owner) -> Result<Value, Error> {
    of_pkg(cx, "owner", args.rest, args.kwargs)
}

fn verify(cx: &Exec, args: Verify) -> Result<Value, Error> {
    of_pkg(cx, "verify", args.rest, args.kwargs)
}

fn modified(cx: &Exec, args: Modified) -> Result<Value, Error> {
    of_pkg(cx, "modified", args.rest, args.kwargs)
}

fn checksum(cx: &Exec, args: Checksum) -> Result<Value, Error> {
    this_root(&args.kwargs)?;
    let paths = texts(&args.rest)?;
    if paths.is_empty() {
        return Err("No package files has been specified.".into());
    }
    let mut found = Map::new();
    for path in &paths {
        let check = Process::words(["rpm", "-K", "--quiet", path]).quiet();
        let is_whole = Path::new(path).is_file() && check.run(cx)?.success();
        found.insert(path, is_whole);
    }
    Ok(found.into())
}

fn version_cmp(cx: &Exec, args: VersionCmp) -> Result<Value, Error> {
    let kwargs = Map::new().with("ignore_epoch", args.ignore_epoch);
    cx.call_internal("pkg.version_cmp", vec![args.ver1, args.ver2], kwargs)
}
