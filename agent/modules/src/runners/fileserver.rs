//! The `fileserver` runner: the files of the backends in `fileserver_backend`. They are read for each
//! call: only the repositories have a cache and locks.

use std::collections::BTreeSet;

use python::path;
use state::exec::Exec;
use state::module::Error;
use state::sources::Sources;
use value::{Map, Value};

use crate::backend::Backend;
use crate::fileserver::roots::Roots;
use crate::git::Repositories;

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
fn backends(cx: &Exec, asked: &Value) -> Result<Vec<Backend>, Error> {
    let asked: Vec<String> = match asked {
        Value::Str(names) => names.split(',').map(|name| name.trim().into()).collect(),
        names => names.texts(),
    };
    let named = asked
        .iter()
        .map(|name| Backend::named(name.trim_start_matches('-')));
    let named = named.collect::<Result<Vec<_>, _>>()?;
    if !asked.iter().all(|name| name.starts_with('-')) {
        return Ok(named);
    }
    let mut backends = Backend::of_opts(cx.opts())?;
    backends.retain(|backend| !named.contains(backend));
    Ok(backends)
}

/// Returns the files of the backends that a call asks for.
fn files(cx: &Exec, asked: &Value) -> Result<Roots, Error> {
    Ok(Roots::of_backends(cx.opts(), backends(cx, asked)?))
}

/// Returns the repositories of git, if a call asks for them.
fn repositories(cx: &Exec, asked: &Value) -> Result<Option<Repositories>, Error> {
    let has_git = backends(cx, asked)?.contains(&Backend::Gitfs);
    has_git
        .then(|| Repositories::of_fileserver(cx.opts()))
        .transpose()
}

fn envs(cx: &Exec, args: Envs) -> Result<Value, Error> {
    if !args.sources {
        return Ok(files(cx, &args.backend)?.environments()?.into());
    }
    let mut backends = backends(cx, &args.backend)?;
    backends.sort();
    let names: Vec<&str> = backends.into_iter().map(Backend::name).collect();
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
    let gitfs = Backend::Gitfs.name();
    let cleared = format!("The {gitfs} fileserver cache was successfully cleared");
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
