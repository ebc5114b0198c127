//! The `cabal` execution module: Haskell packages. Salt 3008 no longer has this module; the results
//! are those of the last version that had it.

use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::tool;

state::exec_module! {
    /// Manage Haskell packages (`cabal`).
    #[needs("cabal", "cabal or ghc-pkg commands not found", "cabal-install")]
    #[needs("ghc-pkg", "cabal or ghc-pkg commands not found", "ghc")]
    mod cabal;

    /// Download the current list of packages.
    ///
    ///     salt-call cabal.update
    fn update(Update {
        /// The user who runs cabal.
        user: Option<String> = None,
        /// Environment variables for cabal.
        env: Map = Map::new(),
    });

    /// Install packages.
    ///
    ///     salt-call cabal.install pandoc
    fn install(Install {
        /// The name of a package.
        pkg: Option<String> = None,
        /// A list of packages, used if `pkg` is empty.
        pkgs: Vec<String> = Vec::new(),
        /// The user who runs cabal.
        user: Option<String> = None,
        /// True to install for all users.
        install_global: bool = false,
        /// Environment variables for cabal.
        env: Map = Map::new(),
    });

    /// Return packages and their versions.
    ///
    ///     salt-call cabal.list pandoc
    fn list(List {
        /// A text that the names must contain.
        pkg: Option<String> = None,
        /// The user who runs cabal.
        user: Option<String> = None,
        /// True to list only installed packages.
        installed: bool = false,
        /// Environment variables for cabal.
        env: Map = Map::new(),
    });

    /// Remove a package.
    ///
    ///     salt-call cabal.uninstall pandoc
    fn uninstall(Uninstall {
        /// The name of the package.
        pkg: String,
        /// The user who runs `ghc-pkg`.
        user: Option<String> = None,
        /// Environment variables for `ghc-pkg`.
        env: Map = Map::new(),
    });
}

/// The program cabal, run as a user.
pub(crate) struct Cabal<'a> {
    pub(crate) cx: &'a Exec,
    pub(crate) user: Option<String>,
    pub(crate) env: Map,
}

impl Cabal<'_> {
    fn run(&self, words: &[&str], names: &[String]) -> Result<Output, Error> {
        for name in names {
            tool::is_name("package", name)?;
        }
        let names = names.iter().map(String::as_str);
        let process = Process {
            runas: self.user.clone(),
            env: self.env.clone(),
            ..Process::words(words.iter().copied().chain(names))
        };
        process.run(self.cx)
    }

    /// Like [`Self::run`], but returns an error if the program fails.
    fn done(&self, words: &[&str], names: &[String]) -> Result<Map, Error> {
        let output = self.run(words, names)?;
        match output.success() {
            true => Ok(output.to_map()),
            false => Err(Error::refused(output.stderr)),
        }
    }

    /// Downloads the current list of packages.
    ///
    /// # Errors
    /// When the program is missing.
    pub(crate) fn update(&self) -> Result<Output, Error> {
        self.run(&["cabal", "update"], &[])
    }

    /// Installs packages.
    ///
    /// # Errors
    /// The message of cabal when it fails.
    pub(crate) fn install(&self, names: &[String], global: bool) -> Result<Map, Error> {
        let words: &[&str] = match global {
            true => &["cabal", "install", "--global"],
            false => &["cabal", "install"],
        };
        self.done(words, names)
    }

    /// Returns packages and their versions.
    ///
    /// # Errors
    /// When the program is missing.
    pub(crate) fn list(&self, pkg: Option<String>, installed: bool) -> Result<Map, Error> {
        let mut words = vec!["cabal", "list", "--simple-output"];
        words.extend(installed.then_some("--installed"));
        let names: Vec<String> = pkg.into_iter().collect();
        let said = self.run(&words, &names)?.into_stdout_regardless();
        let pair = |line: &str| {
            let mut words = line.split_whitespace();
            Some((Value::from(words.next()?), Value::from(words.next()?)))
        };
        Ok(said.lines().filter_map(pair).collect())
    }

    /// Removes a package.
    ///
    /// # Errors
    /// The message of `ghc-pkg` when it fails.
    pub(crate) fn uninstall(&self, name: &str) -> Result<Map, Error> {
        self.done(&["ghc-pkg", "unregister"], &[name.to_owned()])
    }
}

fn cabal(cx: &Exec, user: Option<String>, env: Map) -> Cabal<'_> {
    Cabal { cx, user, env }
}

fn update(cx: &Exec, args: Update) -> Result<Value, Error> {
    Ok(cabal(cx, args.user, args.env).update()?.to_map().into())
}

fn install(cx: &Exec, args: Install) -> Result<Value, Error> {
    let pkg = args.pkg.filter(|pkg| !pkg.is_empty());
    let names = pkg.map_or(args.pkgs, |pkg| vec![pkg]);
    let global = args.install_global;
    Ok(cabal(cx, args.user, args.env)
        .install(&names, global)?
        .into())
}

fn list(cx: &Exec, args: List) -> Result<Value, Error> {
    Ok(cabal(cx, args.user, args.env)
        .list(args.pkg, args.installed)?
        .into())
}

fn uninstall(cx: &Exec, args: Uninstall) -> Result<Value, Error> {
    Ok(cabal(cx, args.user, args.env).uninstall(&args.pkg)?.into())
}
