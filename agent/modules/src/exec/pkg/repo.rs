//! What the `pkg` execution module does with repositories and their keys.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use crate::repos::apt::{self, keys};
use crate::repos::{self, Request};

state::exec_module! {
    /// Packages.
    mod pkg;

    /// List the repositories of this machine.
    fn list_repos(ListRepos {
        ..kwargs
    });

    /// Return one repository: a definition, an alias or the name of a section; empty when it is not there.
    fn get_repo(GetRepo {
        /// The repository.
        repo: String,
        ..kwargs
    });

    /// Add a repository, or change it.
    fn mod_repo(ModRepo {
        /// The repository.
        repo: String,
        /// The environment that keys come from.
        saltenv: String = "base".to_owned(),
        /// Use apt-key, where there is one.
        aptkey: bool = true,
        ..kwargs
    });

    /// Remove a repository.
    fn del_repo(DelRepo {
        /// The repository.
        repo: String,
        ..kwargs
    });

    /// List the keys of APT's repositories.
    fn get_repo_keys(GetRepoKeys {
        /// Ask apt-key, where there is one.
        aptkey: bool = true,
        /// The folder of keyrings, where apt-key is not asked.
        keydir: Option<String> = None,
    });

    /// Add a key of an APT repository: from a file, from a text or from a key server.
    fn add_repo_key(AddRepoKey {
        /// The path or URL of the key.
        path: Option<String> = None,
        /// The key itself.
        text: Option<String> = None,
        /// The server that has the key.
        keyserver: Option<String> = None,
        /// The number of the key.
        keyid: Option<String> = None,
        /// The environment of the path.
        saltenv: String = "base".to_owned(),
        /// Use apt-key, where there is one.
        aptkey: bool = true,
        /// The folder of keyrings, where apt-key is not used.
        keydir: Option<String> = None,
        /// The name of the file there.
        keyfile: Option<String> = None,
    });

    /// Remove a key of an APT repository.
    fn del_repo_key(DelRepoKey {
        /// The repository, for `keyid_ppa`.
        name: Option<String> = None,
        /// Use apt-key, where there is one.
        aptkey: bool = true,
        /// The folder of keyrings, where apt-key is not used.
        keydir: Option<String> = None,
        ..kwargs
    });
}

fn list_repos(cx: &Exec, args: ListRepos) -> Result<Value, Error> {
    Ok(repos::here(cx)?.list(cx, &args.kwargs)?.into())
}

fn get_repo(cx: &Exec, args: GetRepo) -> Result<Value, Error> {
    Ok(repos::here(cx)?.get(cx, &args.repo, &args.kwargs)?.into())
}

fn mod_repo(cx: &Exec, args: ModRepo) -> Result<Value, Error> {
    let asked = Request {
        repo: &args.repo,
        saltenv: &args.saltenv,
        apt_key: args.aptkey,
        kwargs: &args.kwargs,
    };
    repos::here(cx)?.modify(cx, &asked)
}

fn del_repo(cx: &Exec, args: DelRepo) -> Result<Value, Error> {
    repos::here(cx)?.delete(cx, &args.repo, &args.kwargs)
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
    Ok(keys::known(cx, apt_key, &folder)?.into())
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

/// Removes the key that `keyid` names, or the one of a PPA with `keyid_ppa`: its number, or False when it is not there.
///
/// # Errors
/// When no key is named, or the system refuses.
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
