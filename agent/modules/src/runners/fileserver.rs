//! The `fileserver` runner: the contents of the file roots and of the repositories of `gitfs_remotes`.
//! The roots are read for each call: only the repositories have a cache and locks.

use std::collections::BTreeSet;

use python::path;
use state::exec::Exec;
use state::module::Error;
use state::sources::Sources;
use value::{Map, Value};

use crate::fileserver::roots::{ROOTS, Roots};
use crate::git::Repositories;
use crate::git::{GITFS, is_git};

state::exec_module! {
    /// Show the files of the file server.
    mod fileserver;

    /// Return the environments, or with `sources` the backends.
    ///
    ///     salt-run fileserver.envs
    fn envs(Envs {
        /// The backends to use: a list, or names separated by commas; by default all.
        backend: Value = Value::Null,
        /// Return the names of the backends instead.
        sources: bool = false,
    });

    /// Return the files of an environment.
    ///
    ///     salt-run fileserver.file_list
    fn file_list(FileList {
        /// The environment.
        saltenv: String = "base".into(),
        /// The backends to use: a list, or names separated by commas; by default all.
        backend: Value = Value::Null,
    });

    /// Return the folders of an environment.
    ///
    ///     salt-run fileserver.dir_list
    fn dir_list(DirList {
        /// The environment.
        saltenv: String = "base".into(),
        /// The backends to use: a list, or names separated by commas; by default all.
        backend: Value = Value::Null,
    });

    /// Return the empty folders of an environment.
    ///
    ///     salt-run fileserver.empty_dir_list
    fn empty_dir_list(EmptyDirList {
        /// The environment.
        saltenv: String = "base".into(),
        /// The backends to use: a list, or names separated by commas; by default all.
        backend: Value = Value::Null,
    });

    /// Return the symbolic links of an environment, with their targets.
    ///
    ///     salt-run fileserver.symlink_list
    fn symlink_list(SymlinkList {
        /// The environment.
        saltenv: String = "base".into(),
        /// The backends to use: a list, or names separated by commas; by default all.
        backend: Value = Value::Null,
    });

    /// Fetch the repositories of git. Further arguments: `remotes`, the names or addresses of those to
    /// fetch.
    ///
    ///     salt-run fileserver.update
    fn update(Update {
        /// The backends to use: a list, or names separated by commas; by default all.
        backend: Value = Value::Null,
        ..kwargs
    });

    /// Remove the copies of the repositories of git. The next use fetches them again.
    ///
    ///     salt-run fileserver.clear_cache
    fn clear_cache(ClearCache {
        /// The backends to use: a list, or names separated by commas; by default all.
        backend: Value = Value::Null,
    });

    /// Clear the cached lists of files. There are none, so this changes nothing.
    ///
    ///     salt-run fileserver.clear_file_list_cache
    fn clear_file_list_cache(ClearFileListCache {
        /// The environment. Accepted for compatibility with Salt.
        saltenv: Value = Value::Null,
        /// The backends. Accepted for compatibility with Salt.
        backend: Value = Value::Null,
    });

    /// Remove the locks that `fileserver.lock` has set.
    ///
    ///     salt-run fileserver.clear_lock
    fn clear_lock(ClearLock {
        /// The backends to use: a list, or names separated by commas; by default all.
        backend: Value = Value::Null,
        /// The pattern of the addresses; by default all.
        remote: Value = Value::Null,
    });

    /// Keep the repositories of git from being updated, until `fileserver.clear_lock`.
    ///
    ///     salt-run fileserver.lock
    fn lock(Lock {
        /// The backends to use: a list, or names separated by commas; by default all.
        backend: Value = Value::Null,
        /// The pattern of the addresses; by default all.
        remote: Value = Value::Null,
    });
}

/// Returns the backends that a call asks for, in the form of the configuration: all of them by default;
/// with names after `-`, all but these.
fn backends(cx: &Exec, asked: &Value) -> Result<Vec<String>, Error> {
    let asked = match asked {
        Value::Str(names) => names.split(',').map(|name| name.trim().into()).collect(),
        names => names.texts(),
    };
    let configured = cx.opts().texts("fileserver_backend");
    let is_all = asked.is_empty();
    let is_less = !is_all && asked.iter().all(|name| name.starts_with('-'));
    let names: Vec<String> = match is_all || is_less {
        true if configured.is_empty() => vec![ROOTS.to_owned()],
        true => configured,
        false => asked.clone(),
    };
    let known = |name: &String| match name.trim_start_matches('-') {
        ROOTS => Ok(ROOTS.to_owned()),
        name if is_git(name) => Ok(GITFS.to_owned()),
        name => Err(Error::refused(format!(
            "The fileserver backend {name} is not supported: {ROOTS} and {GITFS} are. Remove it from `fileserver_backend`"
        ))),
    };
    let mut names = names.iter().map(known).collect::<Result<Vec<_>, _>>()?;
    if is_less {
        let without = asked.iter().map(known).collect::<Result<Vec<_>, _>>()?;
        names.retain(|name| !without.contains(name));
    }
    Ok(names)
}

/// Returns the files of the backends that a call asks for.
fn files(cx: &Exec, asked: &Value) -> Result<Roots, Error> {
    Ok(Roots::of_backends(cx.opts(), backends(cx, asked)?))
}

/// Returns the repositories of git, if a call asks for them.
fn repositories(cx: &Exec, asked: &Value) -> Result<Option<Repositories>, Error> {
    let has_git = backends(cx, asked)?.iter().any(|name| name == GITFS);
    has_git
        .then(|| Repositories::of_fileserver(cx.opts()))
        .transpose()
}

fn envs(cx: &Exec, args: Envs) -> Result<Value, Error> {
    if !args.sources {
        return Ok(files(cx, &args.backend)?.environments()?.into());
    }
    let mut names = backends(cx, &args.backend)?;
    names.sort();
    Ok(names.into())
}

fn file_list(cx: &Exec, args: FileList) -> Result<Value, Error> {
    Ok(files(cx, &args.backend)?.list(&args.saltenv)?.into())
}

fn dir_list(cx: &Exec, args: DirList) -> Result<Value, Error> {
    let found = folders(cx, &args.saltenv, &args.backend)?;
    Ok(found.into_iter().collect::<Vec<_>>().into())
}

/// Returns the folders, sorted.
fn folders(cx: &Exec, saltenv: &str, backend: &Value) -> Result<BTreeSet<String>, Error> {
    let files = files(cx, backend)?;
    let mut found = files.folders(saltenv)?;
    for file in files.list(saltenv)? {
        let mut here = path::dirname(&file);
        while !here.is_empty() && found.insert(here.to_owned()) {
            here = path::dirname(here);
        }
    }
    found.remove(".");
    Ok(found)
}

fn empty_dir_list(cx: &Exec, args: EmptyDirList) -> Result<Value, Error> {
    let found = folders(cx, &args.saltenv, &args.backend)?;
    let files = files(cx, &args.backend)?.list(&args.saltenv)?;
    let is_in = |path: &str, dir: &str| {
        let rest = path.strip_prefix(dir);
        rest.is_some_and(|rest| rest.starts_with('/'))
    };
    let is_empty = |dir: &&String| {
        let mut all = files.iter().chain(&found);
        !all.any(|path| is_in(path, dir))
    };
    Ok(found
        .iter()
        .filter(is_empty)
        .cloned()
        .collect::<Vec<_>>()
        .into())
}

fn symlink_list(cx: &Exec, args: SymlinkList) -> Result<Value, Error> {
    let links = files(cx, &args.backend)?.links(&args.saltenv)?;
    Ok(links.into_iter().collect::<Map>().into())
}

fn update(cx: &Exec, args: Update) -> Result<Value, Error> {
    let mut given = args.kwargs;
    let only = given.remove("remotes").filter(|only| !only.is_null());
    if let Some(unknown) = given.keys().find(|key| !key.as_text().starts_with("__")) {
        let unknown = unknown.to_text();
        return Err(Error::refused(format!(
            "'{unknown}' is an invalid keyword argument for 'fileserver.update'"
        )));
    }
    let only = only.map(|only| only.split_input());
    if let Some(repositories) = repositories(cx, &args.backend)? {
        let (_, errors) = repositories.update(only.as_deref());
        if !errors.is_empty() {
            let errors: Vec<String> = errors.iter().map(Error::sentence).collect();
            return Err(Error::refused(errors.join("\n")));
        }
    }
    Ok(true.into())
}

fn clear_cache(cx: &Exec, args: ClearCache) -> Result<Value, Error> {
    let Some(repositories) = repositories(cx, &args.backend)? else {
        return Ok("No cache was cleared".into());
    };
    repositories.clear()?;
    let cleared = format!("The {GITFS} fileserver cache was successfully cleared");
    Ok(Map::new().with("cleared", vec![cleared]).into())
}

fn clear_file_list_cache(_cx: &Exec, _args: ClearFileListCache) -> Result<Value, Error> {
    Ok(Map::new().into())
}

fn clear_lock(cx: &Exec, args: ClearLock) -> Result<Value, Error> {
    let repositories = repositories(cx, &args.backend)?;
    let remote = pattern(&args.remote);
    let cleared = repositories.map(|all| all.clear_locks(remote.as_deref()));
    let cleared = cleared.transpose()?.unwrap_or_default();
    Ok(match cleared.is_empty() {
        true => "No locks were removed".into(),
        false => Map::new().with("cleared", cleared).into(),
    })
}

fn lock(cx: &Exec, args: Lock) -> Result<Value, Error> {
    let repositories = repositories(cx, &args.backend)?;
    let remote = pattern(&args.remote);
    let locked = repositories.map(|all| all.set_locks(remote.as_deref()));
    let locked = locked.transpose()?.unwrap_or_default();
    Ok(match locked.is_empty() {
        true => "No locks were set".into(),
        false => Map::new().with("locked", locked).into(),
    })
}

fn pattern(remote: &Value) -> Option<String> {
    Some(remote.to_text()).filter(|_| remote.is_true())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::exec_with;

    #[test]
    fn a_backend_that_is_not_supported_is_named() {
        let updated = |backends: Value, asked: Value| {
            let cx = exec_with(Map::new().with("fileserver_backend", backends), Map::new());
            let answer = update(
                &cx,
                Update {
                    backend: asked,
                    kwargs: Map::new(),
                },
            );
            answer.map_err(|error| error.to_string())
        };
        let list = |names: &[&str]| Value::list(names.iter().map(|name| (*name).into()));
        assert_eq!(updated(list(&["roots"]), Value::Null), Ok(true.into()));
        let both = list(&["roots", "s3fs"]);
        for (backends, asked) in [
            (both.clone(), Value::Null),
            (list(&["roots"]), "s3fs".into()),
        ] {
            let error = updated(backends, asked).unwrap_err();
            assert!(
                error.contains("The fileserver backend s3fs is not supported"),
                "{error}"
            );
        }
        assert_eq!(updated(both, "roots".into()), Ok(true.into()));
    }
}
