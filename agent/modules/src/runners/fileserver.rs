//! The `fileserver` runner: the contents of the file roots. They are read for each call, so there
//! is no cache to clear and no lock.

use std::collections::BTreeSet;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::cp;

/// The only supported backend.
const ROOTS: &str = "roots";

state::exec_module! {
    /// Show the files of the file server.
    mod fileserver;

    /// Return the environments, or with `sources` the backends.
    ///
    ///     salt-run fileserver.envs
    fn envs(Envs {
        /// The backends to use: a list, or names separated by commas; by default all.
        backend: Value = Value::Null,
        /// List the backends instead.
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

    /// Update the backends. File roots are always up to date, so this changes nothing.
    ///
    ///     salt-run fileserver.update
    fn update(Update {
        /// The backends. Accepted for compatibility with Salt.
        backend: Value = Value::Null,
        ..kwargs
    });

    /// Clear the caches of the backends. File roots have no cache, so this changes nothing.
    ///
    ///     salt-run fileserver.clear_cache
    fn clear_cache(ClearCache {
        /// The backends. Accepted for compatibility with Salt.
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

    /// Clear the update locks. There are none, so this changes nothing.
    ///
    ///     salt-run fileserver.clear_lock
    fn clear_lock(ClearLock {
        /// The backends. Accepted for compatibility with Salt.
        backend: Value = Value::Null,
        /// The remotes. Accepted for compatibility with Salt.
        remote: Value = Value::Null,
    });

    /// Set update locks. File roots have none, so this changes nothing.
    ///
    ///     salt-run fileserver.lock
    fn lock(Lock {
        /// The backends. Accepted for compatibility with Salt.
        backend: Value = Value::Null,
        /// The remotes. Accepted for compatibility with Salt.
        remote: Value = Value::Null,
    });
}

/// Returns true if the file roots are among the requested backends.
fn asked_for(backend: &Value) -> bool {
    match backend {
        Value::Null => true,
        Value::Str(names) => names.split(',').any(|name| name.trim() == ROOTS),
        names => names.texts().iter().any(|name| name == ROOTS),
    }
}

fn envs(cx: &Exec, args: Envs) -> Result<Value, Error> {
    let found = match (asked_for(&args.backend), args.sources) {
        (false, _) => Vec::new(),
        (true, true) => vec![ROOTS.to_owned()],
        (true, false) => cx.shared.sources.environments(),
    };
    Ok(found.into())
}

fn file_list(cx: &Exec, args: FileList) -> Result<Value, Error> {
    Ok(match asked_for(&args.backend) {
        true => cx.shared.sources.list(&args.saltenv)?.into(),
        false => Value::list([]),
    })
}

/// Returns the folders, sorted; none for another backend.
fn dirs(cx: &Exec, saltenv: &str, backend: &Value) -> Result<BTreeSet<String>, Error> {
    match asked_for(backend) {
        true => cp::dirs(cx, saltenv),
        false => Ok(BTreeSet::new()),
    }
}

fn dir_list(cx: &Exec, args: DirList) -> Result<Value, Error> {
    let found = dirs(cx, &args.saltenv, &args.backend)?;
    Ok(found.into_iter().collect::<Vec<_>>().into())
}

fn empty_dir_list(cx: &Exec, args: EmptyDirList) -> Result<Value, Error> {
    let found = dirs(cx, &args.saltenv, &args.backend)?;
    let files = cx.shared.sources.list(&args.saltenv)?;
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
    Ok(match asked_for(&args.backend) {
        true => cp::symlinks(cx, &args.saltenv, "")?.into_iter().collect(),
        false => Map::new().into(),
    })
}

/// Returns an error that names the first backend of a list that is not supported.
fn refuse_others(backends: &Value) -> Result<(), Error> {
    let names = match backends {
        Value::Str(names) => names
            .split(',')
            .map(|name| name.trim().to_owned())
            .collect(),
        names => names.texts(),
    };
    match names
        .into_iter()
        .find(|name| name.trim_start_matches('-') != ROOTS)
    {
        Some(name) => Err(Error::refused(format!(
            "The fileserver backend {name} is not supported: only {ROOTS} is. Remove it from `fileserver_backend`"
        ))),
        None => Ok(()),
    }
}

fn update(cx: &Exec, args: Update) -> Result<Value, Error> {
    let configured = cx.opts().get("fileserver_backend");
    let asked = Some(&args.backend).filter(|asked| !asked.is_null());
    if let Some(backends) = asked.or(configured) {
        refuse_others(backends)?;
    }
    Ok(true.into())
}

fn clear_cache(_cx: &Exec, _args: ClearCache) -> Result<Value, Error> {
    Ok("No cache was cleared".into())
}

fn clear_file_list_cache(_cx: &Exec, _args: ClearFileListCache) -> Result<Value, Error> {
    Ok(Map::new().into())
}

fn clear_lock(_cx: &Exec, _args: ClearLock) -> Result<Value, Error> {
    Ok("No locks were removed".into())
}

fn lock(_cx: &Exec, _args: Lock) -> Result<Value, Error> {
    Ok("No locks were set".into())
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
        let both = list(&["roots", "gitfs"]);
        for (backends, asked) in [
            (both.clone(), Value::Null),
            (list(&["roots"]), "gitfs".into()),
        ] {
            let error = updated(backends, asked).unwrap_err();
            assert!(
                error.contains("The fileserver backend gitfs is not supported"),
                "{error}"
            );
        }
        assert_eq!(updated(both, "roots".into()), Ok(true.into()));
    }
}
