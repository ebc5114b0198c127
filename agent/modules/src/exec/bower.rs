//! The `bower` execution module: packages for browsers. Salt 3008 no longer has this module; the
//! results are those of the last version that had it.

use machine::process::Process;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, json};

use crate::exec::pkg::version::loose;
use crate::exec::tool;

state::exec_module! {
    /// Manage packages for browsers (`bower`).
    #[needs("bower", "The bower module could not be loaded: bower command not found", "")]
    mod bower;

    /// Install packages, or what a folder's `bower.json` lists. Return True if there was something
    /// to do.
    ///
    ///     salt-call bower.install underscore /srv/site
    fn install(Install {
        /// A package: its name, optionally with `#VERSION`.
        pkg: Option<String>,
        /// The folder in which bower runs.
        dir: String,
        /// A list of packages, used if `pkg` is empty.
        pkgs: Vec<String> = Vec::new(),
        /// The user who runs bower.
        runas: Option<String> = None,
        /// Environment variables for bower.
        env: Map = Map::new(),
    });

    /// Remove a package. Return True if there was something to do.
    ///
    ///     salt-call bower.uninstall underscore /srv/site
    fn uninstall(Uninstall {
        /// The name of the package.
        pkg: String,
        #[group] folder: Folder,
    });

    /// Return the installed packages.
    ///
    ///     salt-call bower.list /srv/site
    fn list(List {
        #[group] folder: Folder,
    });

    /// Remove the packages that are not needed.
    ///
    ///     salt-call bower.prune /srv/site
    fn prune(Prune {
        #[group] folder: Folder,
    });
}

/// The oldest supported version. Older ones cannot print JSON.
const OLDEST: &str = "1.3";

/// The program bower, run in a folder.
pub(crate) struct Bower<'a> {
    pub(crate) cx: &'a Exec,
    pub(crate) dir: String,
    pub(crate) runas: Option<String>,
    pub(crate) env: Map,
}

impl Bower<'_> {
    fn run(&self, command: &str, names: &[String]) -> Result<Value, Error> {
        for name in names {
            tool::is_name("package", name)?;
        }
        let version =
            tool::run(self.cx, &["bower", "--version"], None, None)?.into_stdout_regardless();
        if loose(&version, OLDEST).is_lt() {
            return Err(Error::refused(format!(
                "'bower' is not recent enough({version} < {OLDEST}). Please Upgrade."
            )));
        }
        let mut words: Vec<&str> = vec!["bower", command, "--config.analytics", "false"];
        words.extend(["--config.interactive", "false", "--allow-root", "--json"]);
        words.extend((command == "list").then_some("--offline"));
        words.extend(names.iter().map(String::as_str));
        let process = Process {
            cwd: Some(self.dir.clone()),
            runas: self.runas.clone(),
            env: self.env.clone(),
            ..Process::words(words)
        };
        let said = tool::stdout(process.run(self.cx)?)?;
        json::read(&said).map_err(|why| {
            Error::refused(format!("cannot parse the output of bower as JSON: {why}"))
        })
    }

    /// Installs packages, and returns whether there was something to do.
    ///
    /// # Errors
    /// The message of bower when it fails.
    pub(crate) fn install(&self, names: &[String]) -> Result<bool, Error> {
        Ok(self.run("install", names)?.is_true())
    }

    /// Removes a package, and returns whether there was something to do.
    ///
    /// # Errors
    /// The message of bower when it fails.
    pub(crate) fn uninstall(&self, name: &str) -> Result<bool, Error> {
        Ok(self.run("uninstall", &[name.to_owned()])?.is_true())
    }

    /// Returns the installed packages, by name.
    ///
    /// # Errors
    /// The message of bower when it fails.
    pub(crate) fn list(&self) -> Result<Map, Error> {
        let told = self.run("list", &[])?;
        let packages = told.get("dependencies").and_then(Value::as_map);
        let none = || Error::refused("the output of bower list has no dependencies".to_owned());
        packages.cloned().ok_or_else(none)
    }

    /// Removes the packages that are not needed, and returns them.
    ///
    /// # Errors
    /// The message of bower when it fails.
    pub(crate) fn prune(&self) -> Result<Value, Error> {
        self.run("prune", &[])
    }
}

state::argument_group! {
    /// The folder in which bower runs, and the user who runs it.
    pub(crate) struct Folder {
        /// The folder in which bower runs.
        dir: String,
        /// The user who runs bower.
        runas: Option<String> = None,
        /// Environment variables for bower.
        env: Map = Map::new(),
    }
}

impl Folder {
    fn bower(self, cx: &Exec) -> Bower<'_> {
        Bower {
            cx,
            dir: self.dir,
            runas: self.runas,
            env: self.env,
        }
    }
}

fn install(cx: &Exec, args: Install) -> Result<Value, Error> {
    let pkg = args.pkg.filter(|pkg| !pkg.is_empty());
    let names = pkg.map_or(args.pkgs, |pkg| vec![pkg]);
    let bower = Bower {
        cx,
        dir: args.dir,
        runas: args.runas,
        env: args.env,
    };
    Ok(bower.install(&names)?.into())
}

fn uninstall(cx: &Exec, args: Uninstall) -> Result<Value, Error> {
    Ok(args.folder.bower(cx).uninstall(&args.pkg)?.into())
}

fn list(cx: &Exec, args: List) -> Result<Value, Error> {
    Ok(args.folder.bower(cx).list()?.into())
}

fn prune(cx: &Exec, args: Prune) -> Result<Value, Error> {
    args.folder.bower(cx).prune()
}
