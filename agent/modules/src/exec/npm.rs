//! The `npm` execution module.

use machine::accounts;
use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, json, log};

state::exec_module! {
    /// Manage packages of Node.js (`npm`).
    #[needs(
        "npm",
        "npm execution module could not be loaded because the npm binary could not be located"
    )]
    mod npm;

    /// Install packages, or the dependencies in a folder's `package.json`.
    ///
    ///     salt-call npm.install pm2
    fn install(Install {
        /// The package: a name, optionally with `@VERSION`, or an address.
        pkg: Option<String> = None,
        /// A list of packages, instead of `pkg`.
        pkgs: Option<Vec<String>> = None,
        /// The folder to install to. The default is the installation for all users.
        dir: Option<String> = None,
        /// The user who runs npm.
        runas: Option<String> = None,
        /// The address of the registry.
        registry: Option<String> = None,
        /// Environment variables for npm.
        env: Option<Map> = None,
        /// Whether to report only what would be done.
        dry_run: bool = false,
        /// Whether to suppress npm's messages.
        silent: bool = true,
    });

    /// Remove a package.
    ///
    ///     salt-call npm.uninstall pm2
    fn uninstall(Uninstall {
        /// The name of the package.
        pkg: String,
        /// The folder of the package. The default is the installation for all users.
        dir: Option<String> = None,
        #[group] user: User,
    });

    /// Return the installed packages.
    ///
    ///     salt-call npm.list
    fn list(List {
        /// The package to return. The default is all packages.
        pkg: Option<String> = None,
        /// The folder of the packages. The default is the installation for all users.
        dir: Option<String> = None,
        #[group] user: User,
        /// The maximum depth of dependencies to return.
        depth: Option<i64> = None,
    });

    /// Clean the cache.
    ///
    ///     salt-call npm.cache_clean
    fn cache_clean(CacheClean {
        /// The package to remove from the cache. The default is all packages.
        path: Option<String> = None,
        #[group] user: User,
        /// Whether to pass `--force`, which newer versions of npm require.
        force: bool = false,
    });

    /// Return the contents of the cache.
    ///
    ///     salt-call npm.cache_list
    fn cache_list(CacheList {
        /// The package to return. The default is all packages.
        path: Option<String> = None,
        #[group] user: User,
    });

    /// Return the path of the cache.
    ///
    ///     salt-call npm.cache_path
    fn cache_path(CachePath {
        #[group] user: User,
    });
}

state::argument_group! {
    /// The user who runs npm.
    pub(crate) struct User {
        /// The user who runs npm.
        runas: Option<String> = None,
        /// Environment variables for npm.
        env: Option<Map> = None,
    }
}

impl User {
    /// Returns npm for a folder, or for the installation for all users.
    fn npm<'a>(self, cx: &'a Exec, dir: Option<String>) -> Npm<'a> {
        Npm {
            cx,
            dir,
            runas: self.runas,
            env: self.env.unwrap_or_default(),
        }
    }
}

/// The program npm for a folder, or for the installation for all users.
pub(crate) struct Npm<'a> {
    pub(crate) cx: &'a Exec,
    pub(crate) dir: Option<String>,
    pub(crate) runas: Option<String>,
    pub(crate) env: Map,
}

impl Npm<'_> {
    fn run(&self, words: &[&str], names: &[String], cwd: Option<String>) -> Result<Output, Error> {
        names.iter().try_for_each(|name| is_name(name))?;
        let words = ["npm"].iter().chain(words).copied();
        let runas = self.runas.clone().filter(|user| !user.is_empty());
        let mut env = self.env.clone();
        let user = runas.as_deref().and_then(accounts::user);
        if let Some(user) = user.filter(|user| user.uid != 0) {
            env.insert("SUDO_UID", user.uid.to_string());
            env.insert("SUDO_USER", "");
        }
        let process = Process {
            cwd,
            runas,
            env,
            ignore_retcode: true,
            ..Process::words(words.chain(names.iter().map(String::as_str)))
        };
        process.run(self.cx)
    }

    /// Returns the installed packages with npm's details.
    ///
    /// # Errors
    /// The error message of npm.
    pub(crate) fn list(&self, pkg: Option<&str>, depth: Option<i64>) -> Result<Map, Error> {
        let depth = depth.map(|depth| format!("--depth={depth}"));
        let mut words = vec!["list", "--json", "--silent"];
        words.extend(self.dir.is_none().then_some("--global"));
        words.extend(depth.as_deref());
        let names: Vec<String> = pkg.map(str::to_owned).into_iter().collect();
        let output = self.run(&words, &names, self.dir.clone())?;
        if !output.success() && !output.stderr.is_empty() {
            return Err(Error::refused(output.stderr));
        }
        let told = json::read(output.stdout_regardless()).map_err(|why| {
            Error::refused(format!(
                "cannot parse the output of npm list as JSON: {why}"
            ))
        })?;
        let packages = told.get("dependencies").and_then(Value::as_map);
        Ok(packages.cloned().unwrap_or_default())
    }

    /// Installs packages, or the dependencies of the folder. Returns the output of npm.
    ///
    /// # Errors
    /// The error message of npm.
    pub(crate) fn install(
        &self,
        pkgs: &[String],
        registry: Option<&str>,
        (dry_run, silent): (bool, bool),
    ) -> Result<Value, Error> {
        let registry = registry.filter(|registry| !registry.is_empty());
        let registry = registry.map(|registry| format!("--registry={registry}"));
        let dir = self.dir.clone().filter(|dir| !dir.is_empty());
        let mut words = vec!["install", "--json"];
        words.extend(silent.then_some("--silent"));
        words.extend(dir.is_none().then_some("--global"));
        words.extend(registry.as_deref());
        words.extend(dry_run.then_some("--dry-run"));
        let cwd = dir.unwrap_or_else(|| std::env::temp_dir().display().to_string());
        let output = self.run(&words, pkgs, Some(cwd))?;
        if !output.success() {
            return Err(Error::refused(output.stderr));
        }
        let said = match output.stdout_regardless().is_empty() {
            true => output.stderr,
            false => output.into_stdout_regardless(),
        };
        Ok(found_json(&said).unwrap_or_else(|| said.into()))
    }

    /// Removes a package. If npm fails, the reason is logged and the result is false.
    ///
    /// # Errors
    /// When npm is missing.
    pub(crate) fn uninstall(&self, pkg: &str) -> Result<bool, Error> {
        is_name(pkg)?;
        let mut words = vec!["uninstall", pkg];
        words.extend(self.dir.is_none().then_some("--global"));
        let output = self.run(&words, &[], self.dir.clone())?;
        Ok(succeeded(&output))
    }

    /// Returns the contents of the cache.
    ///
    /// # Errors
    /// The error message of npm.
    pub(crate) fn cached(&self, path: Option<&str>) -> Result<String, Error> {
        let path: Vec<String> = path.map(str::to_owned).into_iter().collect();
        let output = self.run(&["cache", "ls"], &path, None)?;
        match !output.success() && !output.stderr.is_empty() {
            true => Err(Error::refused(output.stderr)),
            false => Ok(output.into_stdout_regardless()),
        }
    }

    /// Cleans the cache. If npm fails, the reason is logged and the result is false.
    ///
    /// # Errors
    /// When npm is missing.
    pub(crate) fn clean(&self, path: Option<&str>, force: bool) -> Result<bool, Error> {
        path.map_or(Ok(()), is_name)?;
        let mut words = vec!["cache", "clean"];
        words.extend(path);
        words.extend(force.then_some("--force"));
        Ok(succeeded(&self.run(&words, &[], None)?))
    }
}

/// Returns an error if the name would be an option.
fn is_name(name: &str) -> Result<(), Error> {
    match name.starts_with('-') {
        true => Err(Error::refused(format!(
            "invalid package name {name}: it starts with `-`"
        ))),
        false => Ok(()),
    }
}

fn succeeded(output: &Output) -> bool {
    if !output.success() {
        log::error(format_args!("{}", output.stderr));
    }
    output.success()
}

/// Returns the first JSON value that starts at the beginning of a line, without npm's messages
/// around it.
fn found_json(text: &str) -> Option<Value> {
    let lines: Vec<&str> = text.lines().collect();
    let first = lines
        .iter()
        .position(|line| line.trim_start().starts_with(['{', '[']))?;
    let last = lines
        .iter()
        .rposition(|line| line.trim_end().ends_with(['}', ']']))?;
    json::read(&lines.get(first..=last)?.join("\n")).ok()
}

fn install(cx: &Exec, args: Install) -> Result<Value, Error> {
    let pkgs = match args.pkg.filter(|pkg| !pkg.is_empty()) {
        Some(pkg) => vec![pkg],
        None => args.pkgs.unwrap_or_default(),
    };
    let user = User {
        runas: args.runas,
        env: args.env,
    };
    let how = (args.dry_run, args.silent);
    user.npm(cx, args.dir)
        .install(&pkgs, args.registry.as_deref(), how)
}

fn uninstall(cx: &Exec, args: Uninstall) -> Result<Value, Error> {
    Ok(args.user.npm(cx, args.dir).uninstall(&args.pkg)?.into())
}

fn list(cx: &Exec, args: List) -> Result<Value, Error> {
    let npm = args.user.npm(cx, args.dir);
    Ok(npm.list(args.pkg.as_deref(), args.depth)?.into())
}

fn cache_clean(cx: &Exec, args: CacheClean) -> Result<Value, Error> {
    let npm = args.user.npm(cx, None);
    Ok(npm.clean(args.path.as_deref(), args.force)?.into())
}

fn cache_list(cx: &Exec, args: CacheList) -> Result<Value, Error> {
    let npm = args.user.npm(cx, None);
    Ok(npm.cached(args.path.as_deref())?.into())
}

fn cache_path(cx: &Exec, args: CachePath) -> Result<Value, Error> {
    let output = args
        .user
        .npm(cx, None)
        .run(&["config", "get", "cache"], &[], None)?;
    Ok(match output.stdout_regardless().is_empty() {
        true => output.stderr.into(),
        false => output.into_stdout_regardless().into(),
    })
}
