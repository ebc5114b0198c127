//! The `npm` state module. Salt 3008 no longer has it; the returns are those of Salt's last version
//! of it.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::npm::Npm;

state::state_module! {
    /// Manage Node.js packages (`npm`).
    #[needs("npm", "'npm' binary not found on system")]
    mod npm;

    /// Make sure that packages are installed.
    ///
    ///     pm2@5.4.2:
    ///       npm.installed
    fn installed(Installed {
        /// The package, optionally with `@VERSION`.
        name: String,
        /// A list of packages, instead of `name`.
        pkgs: Vec<String> = Vec::new(),
        /// The folder to install to. Default: for all users.
        dir: Option<String> = None,
        /// The user who runs npm.
        user: Option<String> = None,
        /// True to install packages that are installed already.
        force_reinstall: bool = false,
        /// The registry.
        registry: Option<String> = None,
        /// Environment variables for npm.
        env: Map = Map::new(),
    });

    /// Make sure that a package is not installed.
    ///
    ///     pm2:
    ///       npm.removed
    fn removed(Removed {
        /// The name of the package.
        name: String,
        /// The folder. Default: for all users.
        dir: Option<String> = None,
        /// The user who runs npm.
        user: Option<String> = None,
    });

    /// Make sure that a folder contains the packages that its `package.json` names.
    ///
    ///     /srv/site:
    ///       npm.bootstrap:
    ///         - user: www-data
    fn bootstrap(Bootstrap {
        /// The folder.
        name: String,
        /// The user who runs npm.
        user: Option<String> = None,
        /// True to suppress npm's output.
        silent: bool = true,
    });

    /// Make sure that npm's cache is empty.
    ///
    ///     express:
    ///       npm.cache_cleaned
    fn cache_cleaned(CacheCleaned {
        /// A single package to remove from the cache.
        name: Option<String> = None,
        /// The user who runs npm.
        user: Option<String> = None,
        /// True for the option `--force`, which newer versions of npm require.
        force: bool = false,
    });
}

/// Returns the name of a package and its version, if there is one: `@scope/name@1.2`.
fn split(pkg: &str) -> (&str, Option<&str>) {
    let words = pkg.split_whitespace().next().unwrap_or_default();
    let behind_scope = usize::from(words.starts_with('@'));
    let at = words.get(behind_scope..).and_then(|rest| rest.find('@'));
    match at.and_then(|at| words.split_at_checked(at + behind_scope)) {
        Some((name, version)) => (name, version.get(1..).filter(|v| !v.is_empty())),
        None => (words, None),
    }
}

/// Returns the installed version of a package. If `name` is an address, it is the version of the
/// package that was installed from it.
fn version_of(installed: &Map, name: &str) -> Option<String> {
    let version = |details: &Value| details.get("version").map(Value::to_text);
    if let Some(version) = installed.get(name).and_then(version) {
        return Some(version);
    }
    let (_, wanted) = name.split_once("://")?;
    let comes_from = |details: &&Value| {
        let from = details.get("from").map(Value::to_text).unwrap_or_default();
        let from = from.split("://").nth(1).map(str::to_owned);
        from.is_some_and(|from| {
            let is_bare = !from.ends_with(".git") && name.starts_with("git://");
            wanted == if is_bare { format!("{from}.git") } else { from }
        })
    };
    installed.values().find(comes_from).and_then(version)
}

fn installed(cx: &Exec, args: Installed) -> Result<Ret, Error> {
    let npm = Npm {
        cx,
        dir: args.dir,
        runas: args.user,
        env: args.env,
    };
    let known = match npm.list(None, Some(0)) {
        Ok(known) => known,
        Err(why) => {
            return Ok(Ret::failed(format!(
                "Error looking up '{}': {why}",
                args.name
            )));
        }
    };
    let wanted = match args.pkgs.is_empty() {
        true => vec![args.name],
        false => args.pkgs,
    };
    let (mut satisfied, mut missing) = (Vec::new(), Vec::new());
    for pkg in &wanted {
        let (name, version) = split(pkg);
        let found = version_of(&known, name).filter(|_| !args.force_reinstall);
        match found.filter(|found| version.is_none_or(|version| version == found)) {
            Some(found) => satisfied.push(format!("{name}@{found}")),
            None => missing.push(pkg.clone()),
        }
    }
    let all = wanted.join(", ");
    let enough = format!("Package(s) '{all}' satisfied by {}", satisfied.join(", "));
    let old_new = |ret: Ret| {
        ret.change("old", Value::list([]))
            .change("new", missing.clone())
    };
    if missing.is_empty() {
        return Ok(Ret::ok(enough));
    }
    let set = format!(
        "NPM package(s) '{}' are set to be installed",
        missing.join(", ")
    );
    let would = match satisfied.is_empty() {
        true => set,
        false => format!("{set}. {enough}"),
    };
    cx.apply(old_new(Ret::would(would)), || {
        Ok(
            match npm.install(&wanted, args.registry.as_deref(), (false, true)) {
                Ok(_) => old_new(Ret::ok(format!(
                    "Package(s) '{}' successfully installed",
                    missing.join(", ")
                ))),
                Err(why) => Ret::failed(format!("Error installing '{all}': {why}")),
            },
        )
    })
}

fn removed(cx: &Exec, args: Removed) -> Result<Ret, Error> {
    let name = args.name;
    let npm = Npm {
        cx,
        dir: args.dir,
        runas: args.user,
        env: Map::new(),
    };
    let known = match npm.list(None, Some(0)) {
        Ok(known) => known,
        Err(why) => return Ok(Ret::failed(format!("Error uninstalling '{name}': {why}"))),
    };
    if !known.contains(&name) {
        return Ok(Ret::ok(format!("Package '{name}' is not installed")));
    }
    let would = Ret::would(format!("Package '{name}' is set to be removed"));
    cx.apply(would, || {
        Ok(match npm.uninstall(&name)? {
            true => Ret::ok(format!("Package '{name}' was successfully removed"))
                .change(&name, "Removed"),
            false => Ret::failed(format!("Error removing package '{name}'")),
        })
    })
}

fn bootstrap(cx: &Exec, args: Bootstrap) -> Result<Ret, Error> {
    let name = args.name;
    let npm = Npm {
        cx,
        dir: Some(name.clone()),
        runas: args.user,
        env: Map::new(),
    };
    let said = match npm.install(&[], None, (cx.test, args.silent)) {
        Ok(said) => said,
        Err(why) => return Ok(Ret::failed(format!("Error Bootstrapping '{name}': {why}"))),
    };
    let old_new = |said: Value| Map::new().with("old", Value::list([])).with("new", said);
    Ok(match (cx.test, said) {
        (true, said) if !said.is_true() => Ret::ok(format!("{name} is already bootstrapped")),
        (true, said) => {
            Ret::would(format!("{name} is set to be bootstrapped")).changes(old_new(said))
        }
        (false, said) if !said.is_true() => Ret::ok("Directory is already bootstrapped"),
        (false, Value::Str(said)) => {
            Ret::failed("Could not bootstrap directory").changes(Value::Str(said))
        }
        (false, _) => {
            Ret::ok("Directory was successfully bootstrapped").change(&name, "Bootstrapped")
        }
    })
}

fn cache_cleaned(cx: &Exec, args: CacheCleaned) -> Result<Ret, Error> {
    let name = args.name.as_deref().filter(|name| !name.is_empty());
    let what = name.unwrap_or("packages");
    let npm = Npm {
        cx,
        dir: None,
        runas: args.user,
        env: Map::new(),
    };
    let cached = match npm.cached(name) {
        Ok(cached) => cached,
        Err(why) => {
            return Ok(Ret::failed(format!(
                "Error looking up cached {what}: {why}"
            )));
        }
    };
    if let Some(name) = name {
        let all = npm.cached(None)?;
        let root = all.lines().next().unwrap_or_default();
        if !cached.contains(&format!("{root}/{name}/")) {
            return Ok(Ret::ok(format!("Package {name} is not in the cache")));
        }
    }
    let would = Ret::would(format!("Cached {what} set to be removed"));
    cx.apply(would, || {
        Ok(match npm.clean(name, args.force)? {
            true => Ret::ok(format!("Cached {what} successfully removed"))
                .change(name.unwrap_or("cache"), "Removed"),
            false => Ret::failed(format!("Error cleaning cached {what}")),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_may_have_a_scope_and_a_version() {
        assert_eq!(split("left-pad"), ("left-pad", None));
        assert_eq!(split("left-pad@1.3"), ("left-pad", Some("1.3")));
        assert_eq!(split("@one/two"), ("@one/two", None));
        assert_eq!(split("@one/two@^3"), ("@one/two", Some("^3")));
    }
}
