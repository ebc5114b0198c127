//! The `npm` execution module.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, json, log};

use crate::accounts;
use crate::process::{Output, Process};

state::exec_module! {
    /// Packages of Node.js (`npm`).
    mod npm;

    /// Install packages, or what a folder's `package.json` names.
    fn install(Install {
        /// A package: a name, with `@VERSION` or not, or an address.
        pkg: Option<String> = None,
        /// Several.
        pkgs: Vec<String> = Vec::new(),
        /// The folder; for all users where none is named.
        dir: Option<String> = None,
        /// The user who runs npm.
        runas: Option<String> = None,
        /// The registry.
        registry: Option<String> = None,
        /// Variables of its environment.
        env: Map = Map::new(),
        /// Only say what would be done.
        dry_run: bool = false,
        /// Keep npm from talking.
        silent: bool = true,
    });

    /// Remove a package.
    fn uninstall(Uninstall {
        /// Its name.
        pkg: String,
        /// The folder; for all users where none is named.
        dir: Option<String> = None,
        /// The user who runs npm.
        runas: Option<String> = None,
        /// Variables of its environment.
        env: Map = Map::new(),
    });

    /// What is installed.
    fn list(List {
        /// One package.
        pkg: Option<String> = None,
        /// The folder; for all users where none is named.
        dir: Option<String> = None,
        /// The user who runs npm.
        runas: Option<String> = None,
        /// Variables of its environment.
        env: Map = Map::new(),
        /// How deep packages of packages are followed.
        depth: Option<i64> = None,
    });

    /// Empty the cache.
    fn cache_clean(CacheClean {
        /// One package.
        path: Option<String> = None,
        /// The user who runs npm.
        runas: Option<String> = None,
        /// Variables of its environment.
        env: Map = Map::new(),
        /// Do it without a reason, too: newer npm asks for that.
        force: bool = false,
    });

    /// What is in the cache.
    fn cache_list(CacheList {
        /// One package.
        path: Option<String> = None,
        /// The user who runs npm.
        runas: Option<String> = None,
        /// Variables of its environment.
        env: Map = Map::new(),
    });

    /// Where the cache is.
    fn cache_path(CachePath {
        /// The user who runs npm.
        runas: Option<String> = None,
        /// Variables of its environment.
        env: Map = Map::new(),
    });
}

/// npm in a folder, or for all users.
pub(crate) struct Npm<'a> {
    pub(crate) cx: &'a Exec,
    pub(crate) dir: Option<String>,
    pub(crate) runas: Option<String>,
    pub(crate) env: Map,
}

impl Npm<'_> {
    fn run(&self, words: &[&str], names: &[String], cwd: Option<String>) -> Result<Output, Error> {
        if let Some(name) = names.iter().find(|name| name.starts_with('-')) {
            return Err(Error::refused(format!("{name} is no name of a package")));
        }
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

    /// What is installed, with npm's own details.
    ///
    /// # Errors
    /// What npm says against it.
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
        let told = json::read(&output.stdout)
            .map_err(|why| Error::refused(format!("npm list did not answer in JSON: {why}")))?;
        let packages = told.get("dependencies").and_then(Value::as_map);
        Ok(packages.cloned().unwrap_or_default())
    }

    /// Installs packages, or what the folder names: npm's answer.
    ///
    /// # Errors
    /// What npm says against it.
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
        let said = match output.stdout.is_empty() {
            true => output.stderr,
            false => output.stdout,
        };
        Ok(found_json(&said).unwrap_or_else(|| said.into()))
    }

    /// Removes a package; false, and the reason in the log, when npm does not.
    ///
    /// # Errors
    /// When npm is missing.
    pub(crate) fn uninstall(&self, pkg: &str) -> Result<bool, Error> {
        let mut words = vec!["uninstall"];
        words.extend(self.dir.is_none().then_some("--global"));
        let output = self.run(&words, &[pkg.to_owned()], self.dir.clone())?;
        Ok(succeeded(&output))
    }

    /// What is in the cache.
    ///
    /// # Errors
    /// What npm says against it.
    pub(crate) fn cached(&self, path: Option<&str>) -> Result<String, Error> {
        let path: Vec<String> = path.map(str::to_owned).into_iter().collect();
        let output = self.run(&["cache", "ls"], &path, None)?;
        match !output.success() && !output.stderr.is_empty() {
            true => Err(Error::refused(output.stderr)),
            false => Ok(output.stdout),
        }
    }

    /// Empties the cache; false, and the reason in the log, when npm does not.
    ///
    /// # Errors
    /// When npm is missing.
    pub(crate) fn clean(&self, path: Option<&str>, force: bool) -> Result<bool, Error> {
        let path: Vec<String> = path.map(str::to_owned).into_iter().collect();
        let mut words = vec!["cache", "clean"];
        words.extend(force.then_some("--force"));
        Ok(succeeded(&self.run(&words, &path, None)?))
    }
}

fn succeeded(output: &Output) -> bool {
    if !output.success() {
        log::error(format_args!("{}", output.stderr));
    }
    output.success()
}

/// The first JSON that begins a line, without what npm says before and behind it.
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

macro_rules! npm {
    ($cx:expr, $args:expr, $dir:expr) => {
        Npm {
            cx: $cx,
            dir: $dir,
            runas: $args.runas,
            env: $args.env,
        }
    };
}

fn install(cx: &Exec, args: Install) -> Result<Value, Error> {
    let pkgs = match args.pkg.filter(|pkg| !pkg.is_empty()) {
        Some(pkg) => vec![pkg],
        None => args.pkgs,
    };
    let how = (args.dry_run, args.silent);
    npm!(cx, args, args.dir).install(&pkgs, args.registry.as_deref(), how)
}

fn uninstall(cx: &Exec, args: Uninstall) -> Result<Value, Error> {
    Ok(npm!(cx, args, args.dir).uninstall(&args.pkg)?.into())
}

fn list(cx: &Exec, args: List) -> Result<Value, Error> {
    let npm = npm!(cx, args, args.dir);
    Ok(npm.list(args.pkg.as_deref(), args.depth)?.into())
}

fn cache_clean(cx: &Exec, args: CacheClean) -> Result<Value, Error> {
    let npm = npm!(cx, args, None);
    Ok(npm.clean(args.path.as_deref(), args.force)?.into())
}

fn cache_list(cx: &Exec, args: CacheList) -> Result<Value, Error> {
    let npm = npm!(cx, args, None);
    Ok(npm.cached(args.path.as_deref())?.into())
}

fn cache_path(cx: &Exec, args: CachePath) -> Result<Value, Error> {
    let output = npm!(cx, args, None).run(&["config", "get", "cache"], &[], None)?;
    Ok(match output.stdout.is_empty() {
        true => output.stderr.into(),
        false => output.stdout.into(),
    })
}
