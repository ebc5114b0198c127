//! `file.absent`, `file.exists`, `file.missing`.

use std::path::Path;

use machine::fs;
use python::path;
use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};

use super::{gate, itself_absolute};

state::state_module! {
    /// Operations on regular files, special files, directories, and symlinks.
    #[facts(effects = Effects::Trees(&["name"]))]
    mod file;

    /// Make sure that a file or folder does not exist. A folder is removed with its contents.
    ///
    ///     /etc/motd.old:
    ///       file.absent
    fn absent(Absent {
        /// The path. It must be absolute and not `/`.
        name: String,
        ..kwargs
    });

    /// Check that a path exists. Nothing is changed.
    ///
    ///     /etc/machine-id:
    ///       file.exists
    #[facts(effects = Effects::Files(&["name"]))]
    fn exists(Exists {
        /// The path.
        name: String,
        ..kwargs
    });

    /// Check that a path does not exist. Nothing is changed.
    ///
    ///     /etc/nologin:
    ///       file.missing
    #[facts(effects = Effects::Files(&["name"]))]
    fn missing(Missing {
        /// The path.
        name: String,
        ..kwargs
    });
}

fn named(name: String, ret: Ret) -> Ret {
    Ret {
        name: Some(name),
        ..ret
    }
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let name = path::expanduser(&args.name);
    if name.is_empty() {
        return Err("Must provide name to file.absent".into());
    }
    itself_absolute(cx, &name)?;
    if name == "/" {
        return Err("Refusing to make \"/\" absent".into());
    }
    let (kind, word) = if path::isfile(&name) || path::islink(&name) {
        ("File", "file")
    } else if path::isdir(&name) {
        ("Directory", "directory")
    } else {
        return Ok(named(
            name.clone(),
            Ret::ok(format!("File {name} is not present")),
        ));
    };
    let would = Ret::would(format!("{kind} {name} is set for removal"));
    let ret = gate(
        cx,
        || Ok(would.change("removed", name.as_str())),
        || {
            fs::remove(cx, Path::new(name.trim_end_matches('/')))
                .map_err(|error| Error::refused(format!("Could not remove '{name}': {error}")))?;
            Ok(Ret::ok(format!("Removed {word} {name}")).change("removed", name.as_str()))
        },
    )?;
    Ok(named(name, ret))
}

fn exists(_cx: &Exec, args: Exists) -> Result<Ret, Error> {
    let name = path::expanduser(&args.name);
    if name.is_empty() {
        return Err("Must provide name to file.exists".into());
    }
    if !path::exists(&name) {
        return Err(format!("Specified path {name} does not exist").into());
    }
    Ok(named(name.clone(), Ret::ok(format!("Path {name} exists"))))
}

fn missing(_cx: &Exec, args: Missing) -> Result<Ret, Error> {
    let name = path::expanduser(&args.name);
    if name.is_empty() {
        return Err("Must provide name to file.missing".into());
    }
    if path::exists(&name) {
        return Err(format!("Specified path {name} exists").into());
    }
    Ok(named(
        name.clone(),
        Ret::ok(format!("Path {name} is missing")),
    ))
}
