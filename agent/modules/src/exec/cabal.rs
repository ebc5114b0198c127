//! The `cabal` execution module: Haskell's packages. Salt 3008 has it no more; answers are those of its last one.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::tool;
use crate::process::{Output, Process};

state::exec_module! {
    /// Haskell's packages (`cabal`).
    mod cabal;

    /// Read the list of packages anew.
    fn update(Update {
        /// The user who runs cabal.
        user: Option<String> = None,
        /// Variables of its environment.
        env: Map = Map::new(),
    });

    /// Install packages.
    fn install(Install {
        /// A package.
        pkg: Option<String> = None,
        /// Several.
        pkgs: Vec<String> = Vec::new(),
        /// The user who runs cabal.
        user: Option<String> = None,
        /// For all users.
        install_global: bool = false,
        /// Variables of its environment.
        env: Map = Map::new(),
    });

    /// Packages and their versions.
    fn list(List {
        /// A text in their names.
        pkg: Option<String> = None,
        /// The user who runs cabal.
        user: Option<String> = None,
        /// Those that are installed alone.
        installed: bool = false,
        /// Variables of its environment.
        env: Map = Map::new(),
    });

    /// Remove a package.
    fn uninstall(Uninstall {
        /// Its name.
        pkg: String,
        /// The user who runs `ghc-pkg`.
        user: Option<String> = None,
        /// Variables of its environment.
        env: Map = Map::new(),
    });
}

/// cabal for a user.
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

    /// The same where failing is no answer.
    fn done(&self, words: &[&str], names: &[String]) -> Result<Map, Error> {
        let output = self.run(words, names)?;
        match output.success() {
            true => Ok(output.to_map()),
            false => Err(Error::refused(output.stderr)),
        }
    }

    /// Reads the list of packages anew.
    ///
    /// # Errors
    /// When the program is missing.
    pub(crate) fn update(&self) -> Result<Output, Error> {
        self.run(&["cabal", "update"], &[])
    }

    /// Installs packages.
    ///
    /// # Errors
    /// What cabal says against it.
    pub(crate) fn install(&self, names: &[String], global: bool) -> Result<Map, Error> {
        let words: &[&str] = match global {
            true => &["cabal", "install", "--global"],
            false => &["cabal", "install"],
        };
        self.done(words, names)
    }

    /// Packages and their versions.
    ///
    /// # Errors
    /// When the program is missing.
    pub(crate) fn list(&self, pkg: Option<String>, installed: bool) -> Result<Map, Error> {
        let mut words = vec!["cabal", "list", "--simple-output"];
        words.extend(installed.then_some("--installed"));
        let names: Vec<String> = pkg.into_iter().collect();
        let said = self.run(&words, &names)?.stdout;
        let pair = |line: &str| {
            let mut words = line.split_whitespace();
            Some((Value::from(words.next()?), Value::from(words.next()?)))
        };
        Ok(said.lines().filter_map(pair).collect())
    }

    /// Removes a package.
    ///
    /// # Errors
    /// What `ghc-pkg` says against it.
    pub(crate) fn uninstall(&self, name: &str) -> Result<Map, Error> {
        self.done(&["ghc-pkg", "unregister"], &[name.to_owned()])
    }
}

/// cabal for the arguments that all functions have.
macro_rules! cabal {
    ($cx:expr, $args:expr) => {
        Cabal {
            cx: $cx,
            user: $args.user,
            env: $args.env,
        }
    };
}

fn update(cx: &Exec, args: Update) -> Result<Value, Error> {
    Ok(cabal!(cx, args).update()?.to_map().into())
}

fn install(cx: &Exec, args: Install) -> Result<Value, Error> {
    let pkg = args.pkg.filter(|pkg| !pkg.is_empty());
    let names = pkg.map_or(args.pkgs, |pkg| vec![pkg]);
    let global = args.install_global;
    Ok(cabal!(cx, args).install(&names, global)?.into())
}

fn list(cx: &Exec, args: List) -> Result<Value, Error> {
    Ok(cabal!(cx, args).list(args.pkg, args.installed)?.into())
}

fn uninstall(cx: &Exec, args: Uninstall) -> Result<Value, Error> {
    Ok(cabal!(cx, args).uninstall(&args.pkg)?.into())
}
