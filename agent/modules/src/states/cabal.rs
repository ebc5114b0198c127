//! The `cabal` state module. Salt 3008 no longer has it; the returns are those of Salt's last
//! version of it.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::cabal::Cabal;
use crate::states::bower::Sorted;

state::state_module! {
    /// Manage Haskell packages (`cabal`).
    #[needs("cabal", "cabal or ghc-pkg commands not found", "cabal-install")]
    #[needs("ghc-pkg", "cabal or ghc-pkg commands not found", "ghc")]
    mod cabal;

    /// Make sure that packages are installed.
    ///
    ///     pandoc:
    ///       cabal.installed:
    ///         - user: build
    fn installed(Installed {
        /// The package, optionally with `-VERSION`.
        name: String,
        /// A list of packages, instead of `name`.
        pkgs: Option<Vec<String>> = None,
        /// The user who runs cabal.
        user: Option<String> = None,
        /// True to install for all users.
        install_global: bool = false,
        /// Environment variables for cabal.
        env: Map = Map::new(),
    });

    /// Make sure that a package is not installed.
    ///
    ///     pandoc:
    ///       cabal.removed:
    ///         - user: build
    fn removed(Removed {
        /// The name of the package.
        name: String,
        /// The user who runs cabal.
        user: Option<String> = None,
        /// Environment variables for cabal.
        env: Map = Map::new(),
    });
}

fn sorted(installed: &Map, wanted: &[String]) -> Sorted {
    let is_there = |pkg: &String| {
        let (name, version) = pkg.split_once('-').unwrap_or((pkg, ""));
        let (found, version) = (installed.get(name.trim()), version.trim());
        found.is_some_and(|found| version.is_empty() || found == &Value::from(version))
    };
    let (there, missing) = wanted.iter().cloned().partition(is_there);
    Sorted { there, missing }
}

fn installed(cx: &Exec, args: Installed) -> Result<Ret, Error> {
    let cabal = Cabal {
        cx,
        user: args.user,
        env: args.env,
    };
    // The update also runs in test mode: without it cabal does not know which packages exist.
    cabal.update()?;
    let known = cabal.list(None, true)?;
    let wanted = args.pkgs.unwrap_or_else(|| vec![args.name]);
    let sorted = sorted(&known, &wanted);
    const WHAT: &str = "Packages(s)";
    if cx.test {
        return Ok(sorted.foretold(WHAT, WHAT, &wanted));
    }
    if sorted.missing.is_empty() {
        return Ok(Ret::ok(sorted.satisfied(WHAT, &wanted)));
    }
    Ok(match cabal.install(&wanted, args.install_global) {
        Ok(_) => sorted.changed(Ret::ok(format!(
            "{WHAT} '{}' successfully installed",
            sorted.missing.join(", ")
        ))),
        Err(why) => Ret::failed(format!("Error installing '{}': {why}", wanted.join(", "))),
    })
}

fn removed(cx: &Exec, args: Removed) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let cabal = Cabal {
        cx,
        user: args.user,
        env: args.env,
    };
    if !cabal.list(None, true)?.contains(name) {
        return Ok(Ret::ok(format!("Package '{name}' is not installed")));
    }
    let would = Ret::would(format!("Package '{name}' is set to be removed"));
    cx.apply(would, || {
        cabal.uninstall(name)?;
        let comment = format!("Package '{name}' was successfully removed");
        Ok(Ret::ok(comment).change(name, "Removed"))
    })
}
