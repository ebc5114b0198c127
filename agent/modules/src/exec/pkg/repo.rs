//! The part of the `pkg` execution module that manages repositories and their keys.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use crate::exec::pkg::repositories::apt::{self, keys};
use crate::exec::pkg::repositories::{self, Request};

state::exec_module! {
    /// Manage packages.
    mod pkg;

    /// List the repositories of this machine.
    ///
    ///     salt-call pkg.list_repos
    fn list_repos(ListRepos {
        ..kwargs
    });

    /// Return one repository, or an empty dictionary if it does not exist.
    ///
    ///     salt-call pkg.get_repo 'deb http://deb.debian.org/debian bookworm main'
    fn get_repo(GetRepo {
        /// The repository: a definition, an alias or the name of a section.
        repo: String,
        ..kwargs
    });

    /// Add or change a repository.
    ///
    ///     salt-call pkg.mod_repo 'deb http://deb.debian.org/debian bookworm main' comps=main,contrib
    fn mod_repo(ModRepo {
        /// The repository.
        repo: String,
        /// The environment to fetch keys from.
        saltenv: String = "base".to_owned(),
        /// True to use apt-key if it is available.
        aptkey: bool = true,
        ..kwargs
    });

    /// Remove a repository.
    ///
    ///     salt-call pkg.del_repo 'deb http://deb.debian.org/debian bookworm main'
    fn del_repo(DelRepo {
        /// The repository.
        repo: String,
        ..kwargs
    });

    /// List the keys of the APT repositories.
    ///
    ///     salt-call pkg.get_repo_keys
    fn get_repo_keys(GetRepoKeys {
        /// True to use apt-key if it is available.
        aptkey: bool = true,
        /// The folder of the keyrings, which is used if apt-key is not.
        keydir: Option<String> = None,
    });

    /// Add a key of an APT repository from a file, a text or a key server.
    ///
    ///     salt-call pkg.add_repo_key salt://app.asc
    fn add_repo_key(AddRepoKey {
        /// The path or URL of the key.
        path: Option<String> = None,
        /// The text of the key.
        text: Option<String> = None,
        /// The address of the key server.
        keyserver: Option<String> = None,
        /// The ID of the key.
        keyid: Option<String> = None,
        /// The environment to fetch the path from.
        saltenv: String = "base".to_owned(),
        /// True to use apt-key if it is available.
        aptkey: bool = true,
        /// The folder of the keyrings, which is used if apt-key is not.
        keydir: Option<String> = None,
        /// The name of the file in the folder of the keyrings.
        keyfile: Option<String> = None,
    });

    /// Remove a key of an APT repository.
    ///
    ///     salt-call pkg.del_repo_key keyid=3B4FE6ACC0B21F32
    fn del_repo_key(DelRepoKey {
        /// The name of the repository; only used with `keyid_ppa`.
        name: Option<String> = None,
        /// True to use apt-key if it is available.
        aptkey: bool = true,
        /// The folder of the keyrings, which is used if apt-key is not.
        keydir: Option<String> = None,
        ..kwargs
    });
}

fn list_repos(cx: &Exec, args: ListRepos) -> Result<Value, Error> {
    Ok(repositories::here(cx)?.list(cx, &args.kwargs)?.into())
}

fn get_repo(cx: &Exec, args: GetRepo) -> Result<Value, Error> {
    Ok(repositories::here(cx)?
        .get(cx, &args.repo, &args.kwargs)?
        .into())
}

fn mod_repo(cx: &Exec, args: ModRepo) -> Result<Value, Error> {
    let asked = Request {
        repo: &args.repo,
        saltenv: &args.saltenv,
        apt_key: args.aptkey,
        kwargs: &args.kwargs,
    };
    repositories::here(cx)?.modify(cx, &asked)
}

fn del_repo(cx: &Exec, args: DelRepo) -> Result<Value, Error> {
    repositories::here(cx)?.delete(cx, &args.repo, &args.kwargs)
}

fn get_repo_keys(cx: &Exec, args: GetRepoKeys) -> Result<Value, Error> {
    let folder = keys::folder(args.keydir.as_deref());
    let apt_key = apt::uses_apt_key(args.aptkey);
    if !apt_key && !folder.is_dir() {
        let folder = folder.display();
        log::error(format_args!(
            "The directory {folder} does not exist. Please create this directory only writable by root"
        ));
        return Ok(false.into());
    }
    Ok(keys::list(cx, apt_key, &folder)?.into())
}

fn add_repo_key(cx: &Exec, args: AddRepoKey) -> Result<Value, Error> {
    let key = keys::Key {
        path: args.path.as_deref(),
        text: args.text.as_deref(),
        keyserver: args.keyserver.as_deref(),
        keyid: args.keyid.as_deref(),
        saltenv: &args.saltenv,
        keyfile: args.keyfile.as_deref(),
    };
    let folder = keys::folder(args.keydir.as_deref());
    Ok(keys::add(cx, &key, apt::uses_apt_key(args.aptkey), &folder)?.into())
}

fn del_repo_key(cx: &Exec, args: DelRepoKey) -> Result<Value, Error> {
    let folder = args.keydir.as_deref();
    remove_key(cx, args.name.as_deref(), args.aptkey, folder, &args.kwargs)
}

/// Removes the key that `keyid` names or, with `keyid_ppa`, the key of a PPA. Returns the ID of the
/// key, or False if it does not exist.
///
/// # Errors
/// When no key is named, or the removal fails.
pub(crate) fn remove_key(
    cx: &Exec,
    name: Option<&str>,
    apt_key: bool,
    folder: Option<&str>,
    kwargs: &Map,
) -> Result<Value, Error> {
    let id = if kwargs.get("keyid_ppa").is_some_and(Value::is_true) {
        apt::short_key(cx, name.unwrap_or_default())?
    } else if let Some(id) = kwargs.get("keyid") {
        id.to_text()
    } else {
        return Err("keyid or keyid_ppa and PPA name must be passed".into());
    };
    let folder = keys::folder(folder);
    match keys::remove(cx, &id, apt::uses_apt_key(apt_key), &folder)? {
        true => Ok(id.into()),
        false => Ok(false.into()),
    }
}
