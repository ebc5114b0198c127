//! The `bower` state module. Salt 3008 no longer has it; the returns are those of Salt's last
//! version of it.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::bower::Bower;

state::state_module! {
    /// Manage packages for browsers (`bower`).
    #[needs("bower", "bower module could not be loaded", "")]
    mod bower;

    /// Make sure that packages are installed.
    ///
    ///     underscore:
    ///       bower.installed:
    ///         - dir: /srv/site
    fn installed(Installed {
        /// The package, optionally with `#VERSION`.
        name: String,
        /// The folder to install to.
        dir: String,
        /// A list of packages, instead of `name`.
        pkgs: Option<Vec<String>> = None,
        /// The user who runs bower.
        user: Option<String> = None,
        /// Environment variables for bower.
        env: Map = Map::new(),
    });

    /// Make sure that a package is not installed.
    ///
    ///     underscore:
    ///       bower.removed:
    ///         - dir: /srv/site
    fn removed(Removed {
        /// The name of the package.
        name: String,
        /// The folder.
        dir: String,
        /// The user who runs bower.
        user: Option<String> = None,
    });

    /// Make sure that a folder contains the packages that its `bower.json` names.
    ///
    ///     /srv/site:
    ///       bower.bootstrap:
    ///         - user: www-data
    fn bootstrap(Bootstrap {
        /// The folder.
        name: String,
        /// The user who runs bower.
        user: Option<String> = None,
    });

    /// Make sure that a folder contains no packages that are not needed.
    ///
    ///     /srv/site:
    ///       bower.pruned:
    ///         - user: www-data
    fn pruned(Pruned {
        /// The folder.
        name: String,
        /// The user who runs bower.
        user: Option<String> = None,
        /// Environment variables for bower.
        env: Map = Map::new(),
    });
}

/// The wanted packages, divided into those that are installed and those that are missing.
pub(super) struct Sorted {
    pub(super) there: Vec<String>,
    pub(super) missing: Vec<String>,
}

impl Sorted {
    /// Returns the test mode result of a program that only installs packages. It always says that
    /// something would change: Salt has no text here for the case that nothing would.
    pub(super) fn foretold(&self, what: &str, satisfied: &str, wanted: &[String]) -> Ret {
        let mut said = Vec::new();
        if !self.missing.is_empty() {
            let missing = self.missing.join(", ");
            said.push(format!("{what} '{missing}' are set to be installed"));
        }
        if !self.there.is_empty() {
            said.push(self.satisfied(satisfied, wanted));
        }
        Ret::would(said.join(". "))
    }

    pub(super) fn satisfied(&self, what: &str, wanted: &[String]) -> String {
        format!(
            "{what} '{}' satisfied by {}",
            wanted.join(", "),
            self.there.join(", ")
        )
    }

    /// Adds the changes of an installation to a return.
    pub(super) fn changed(&self, ret: Ret) -> Ret {
        ret.change("old", Value::list([]))
            .change("new", self.missing.clone())
    }
}

fn sorted(installed: &Map, wanted: &[String]) -> Sorted {
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for pkg in wanted {
        let (name, version) = pkg.split_once('#').unwrap_or((pkg, ""));
        let name = name.trim();
        let found = installed.get(name);
        let found = found.map(|found| match found.traverse("pkgMeta:version", ":") {
            Some(version) => version.to_text(),
            None => "None".to_owned(),
        });
        match found.filter(|found| version.is_empty() || found == version) {
            Some(found) => there.push(format!("{name}#{found}")),
            None => missing.push(pkg.clone()),
        }
    }
    Sorted { there, missing }
}

fn bower(cx: &Exec, dir: String, runas: Option<String>, env: Map) -> Bower<'_> {
    Bower {
        cx,
        dir,
        runas,
        env,
    }
}

fn installed(cx: &Exec, args: Installed) -> Result<Ret, Error> {
    let bower = bower(cx, args.dir, args.user, args.env);
    let known = match bower.list() {
        Ok(known) => known,
        Err(why) => {
            let why = format!("Error looking up '{}': {why}", args.name);
            return Ok(Ret::failed(why));
        }
    };
    let is_one = args.pkgs.is_none();
    let wanted = args.pkgs.unwrap_or_else(|| vec![args.name.clone()]);
    let sorted = sorted(&known, &wanted);
    if cx.test {
        let ret = sorted.foretold("Bower package(s)", "Package(s)", &wanted);
        return Ok(match sorted.missing.is_empty() {
            true => ret,
            false => sorted.changed(ret),
        });
    }
    if sorted.missing.is_empty() {
        return Ok(Ret::ok(sorted.satisfied("Package(s)", &wanted)));
    }
    // For a single package with a version, Salt installs the newest version.
    let bare = |pkg: &String| pkg.split('#').next().unwrap_or_default().trim().to_owned();
    let names: Vec<String> = match is_one {
        true => wanted.iter().map(bare).collect(),
        false => wanted.clone(),
    };
    let all = wanted.join(", ");
    Ok(match bower.install(&names) {
        Ok(true) => sorted.changed(Ret::ok(format!(
            "Package(s) '{}' successfully installed",
            sorted.missing.join(", ")
        ))),
        Ok(false) => Ret::failed(format!("Could not install package(s) '{all}'")),
        Err(why) => Ret::failed(format!("Error installing '{all}': {why}")),
    })
}

fn removed(cx: &Exec, args: Removed) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let bower = bower(cx, args.dir, args.user, Map::new());
    let failed = |why: Error| Ok(Ret::failed(format!("Error removing '{name}': {why}")));
    let known = match bower.list() {
        Ok(known) => known,
        Err(why) => return failed(why),
    };
    if !known.contains(name) {
        return Ok(Ret::ok(format!("Package '{name}' is not installed")));
    }
    let would = Ret::would(format!("Package '{name}' is set to be removed"));
    cx.apply(would, || match bower.uninstall(name) {
        Ok(true) => Ok(
            Ret::ok(format!("Package '{name}' was successfully removed")).change(name, "Removed"),
        ),
        Ok(false) => Ok(Ret::failed(format!("Error removing '{name}'"))),
        Err(why) => failed(why),
    })
}

fn bootstrap(cx: &Exec, args: Bootstrap) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let bower = bower(cx, args.name.clone(), args.user, Map::new());
    let would = Ret::would(format!("Directory '{name}' is set to be bootstrapped"));
    cx.apply(would, || {
        Ok(match bower.install(&[]) {
            Ok(false) => Ret::ok("Directory is already bootstrapped"),
            Ok(true) => {
                Ret::ok("Directory was successfully bootstrapped").change(name, "Bootstrapped")
            }
            Err(why) => Ret::failed(format!("Error bootstrapping '{name}': {why}")),
        })
    })
}

fn pruned(cx: &Exec, args: Pruned) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let bower = bower(cx, args.name.clone(), args.user, args.env);
    let would = Ret::would(format!("Directory '{name}' is set to be pruned"));
    cx.apply(would, || {
        Ok(match bower.prune() {
            Ok(gone) if gone.is_true() => {
                Ret::ok(format!("Directory '{name}' was successfully pruned"))
                    .change("old", Value::list([]))
                    .change("new", gone)
            }
            Ok(_) => Ret::ok(format!("No packages were pruned from directory '{name}'")),
            Err(why) => Ret::failed(format!("Error pruning '{name}': {why}")),
        })
    })
}
