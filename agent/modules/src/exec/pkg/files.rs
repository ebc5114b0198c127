//! The part of the `pkg` execution module that reports the files of packages and information about
//! packages.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::lowpkg::this_root;
use crate::exec::pkg::providers::{self, rpm_info};

state::exec_module! {
    /// Manage packages.
    mod pkg;

    /// Return the package that owns a path, or an empty text if no package does. With several
    /// paths, return a dictionary.
    ///
    ///     salt-call pkg.owner /usr/sbin/nginx
    fn owner(Owner {
        *rest,
        ..kwargs
    });

    /// List the files of these packages, or of all packages.
    ///
    ///     salt-call pkg.file_list nginx
    fn file_list(FileList {
        *rest,
        ..kwargs
    });

    /// List the files of these packages, or of all packages, for each package.
    ///
    ///     salt-call pkg.file_dict nginx
    fn file_dict(FileDict {
        *rest,
        ..kwargs
    });

    /// Return information about these installed packages, or about all.
    ///
    ///     salt-call pkg.info_installed nginx
    fn info_installed(InfoInstalled {
        *rest,
        ..kwargs
    });

    /// Return the files of packages that differ from the files that the packages contain.
    ///
    ///     salt-call pkg.verify nginx
    fn verify(Verify {
        *rest,
        ..kwargs
    });

    /// Return how files of packages were changed. Keywords such as `size=True` select files by
    /// whether this attribute was changed.
    ///
    ///     salt-call pkg.modified nginx
    fn modified(Modified {
        *rest,
        ..kwargs
    });
}

/// Returns names of packages or files as texts.
///
/// # Errors
/// When a name would be read as an option.
pub(crate) fn texts(given: &[Value]) -> Result<Vec<String>, Error> {
    let texts: Vec<String> = given.iter().map(Value::to_text).collect();
    match texts.iter().find(|text| text.starts_with('-')) {
        Some(option) => Err(Error::refused(format!(
            "invalid name {option:?}: it would be an option"
        ))),
        None => Ok(texts),
    }
}

fn owner(cx: &Exec, args: Owner) -> Result<Value, Error> {
    let (provider, paths) = (providers::provider(cx)?, texts(&args.rest)?);
    let mut owners = Map::new();
    for path in &paths {
        owners.insert(path, provider.files().owner(cx, path)?);
    }
    match (owners.first(), owners.len()) {
        (None, _) => Ok("".into()),
        (Some((_, owner)), 1) => Ok(owner.clone()),
        _ => Ok(owners.into()),
    }
}

fn file_list(cx: &Exec, args: FileList) -> Result<Value, Error> {
    let packages = providers::provider(cx)?
        .files()
        .by_package(cx, &texts(&args.rest)?)?;
    let lists = packages.values().filter_map(Value::as_list);
    let mut files: Vec<Value> = lists.flatten().cloned().collect();
    value::sorted::sort(&mut files);
    files.dedup();
    let found = Map::new()
        .with("errors", Value::list([]))
        .with("files", files);
    Ok(found.into())
}

fn file_dict(cx: &Exec, args: FileDict) -> Result<Value, Error> {
    let packages = providers::provider(cx)?
        .files()
        .by_package(cx, &texts(&args.rest)?)?;
    let found = Map::new()
        .with("errors", Value::list([]))
        .with("packages", packages);
    Ok(found.into())
}

fn info_installed(cx: &Exec, args: InfoInstalled) -> Result<Value, Error> {
    let names = texts(&args.rest)?;
    let provider = providers::provider(cx)?;
    let database = provider.require(provider.database(), "info_installed")?;
    Ok(database.info_installed(cx, &names, &args.kwargs)?.into())
}

fn verify(cx: &Exec, args: Verify) -> Result<Value, Error> {
    let names = texts(&args.rest)?;
    let provider = providers::provider(cx)?;
    let verification = provider.require(provider.verification(), "verify")?;
    Ok(verification.verify(cx, &names, &args.kwargs)?.into())
}

fn modified(cx: &Exec, args: Modified) -> Result<Value, Error> {
    this_root(&args.kwargs)?;
    let names = texts(&args.rest)?;
    Ok(rpm_info::modified(cx, &names, &args.kwargs)?.into())
}
