//! Undoing of changes to packages.

use state::exec::Exec;
use state::facts::Inverse;
use state::module::Error;
use value::{Map, Value};

/// A package: its version; an empty text if it is not installed.
pub(crate) static PACKAGE: Inverse = Inverse {
    word: "package",
    owns_files: true,
    now: |cx, name| called(cx, "pkg.version", name, Map::new()),
    can: is_available,
    make: restore,
};

fn called(cx: &Exec, function: &str, name: &str, kwargs: Map) -> Result<Value, Error> {
    cx.call_internal(function, vec![name.into()], kwargs)
}

/// Checks that the old version of a package is still available.
fn is_available(cx: &Exec, name: &str, was: &Value) -> Result<(), Error> {
    let version = was.to_text();
    if version.is_empty() || !cx.has_function("pkg.list_repo_pkgs") {
        return Ok(());
    }
    let all = called(cx, "pkg.list_repo_pkgs", name, Map::new())?;
    let known = match all.get(name) {
        Some(Value::Map(versions)) => versions.contains(&version),
        Some(versions) => versions.texts().contains(&version),
        None => false,
    };
    match known {
        true => Ok(()),
        false => Err(Error::refused(format!(
            "its version {version} is no longer in any repository"
        ))),
    }
}

/// Removes a package, or installs its old version.
fn restore(cx: &Exec, name: &str, was: &Value) -> Result<(), Error> {
    match was.to_text() {
        version if version.is_empty() => called(cx, "pkg.remove", name, Map::new()).map(drop),
        version => {
            let kwargs = Map::new().with("version", version).with("refresh", false);
            called(cx, "pkg.install", name, kwargs).map(drop)
        }
    }
}
