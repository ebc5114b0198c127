//! The `pip` execution module: reports installed packages through the program `pip`.

pub(crate) mod install;

use machine::fs;
use machine::process;
use python::pep440::{Version, at_least, normalized};
use state::exec::Exec;
use state::module::Error;
use value::pyre::{Flags, Regex};
use value::{Map, Value, json, log, sorted};

use super::cmd::run_all_with;
use crate::fileserver::fetch::Url;

state::exec_module! {
    /// Install Python packages with pip.
    mod pip;

    /// Return the output of `pip freeze`: lines with packages and their versions.
    ///
    ///     salt-call pip.freeze bin_env=/srv/app/venv
    fn freeze(Freeze {
        /// A virtual environment, or the path of a pip or Python program in one.
        bin_env: Option<String> = None,
        /// The user who runs pip.
        user: Option<String> = None,
        /// The directory in which pip runs.
        cwd: Option<String> = None,
        /// Accepted and ignored: there is no terminal.
        use_vt: bool = false,
        /// Environment variables for pip.
        env_vars: Option<Map> = None,
        ..kwargs
    });

    /// Return the packages and their versions, parsed from the output of `pip freeze`.
    ///
    ///     salt-call pip.list_freeze_parse requests
    fn list_freeze_parse(ListFreezeParse {
        /// A prefix of the package names; all packages if not given.
        prefix: Option<String> = None,
        /// A virtual environment, or the path of a pip or Python program in one.
        bin_env: Option<String> = None,
        /// The user who runs pip.
        user: Option<String> = None,
        /// The directory in which pip runs.
        cwd: Option<String> = None,
        /// Environment variables for pip.
        env_vars: Option<Map> = None,
        ..kwargs
    });

    /// Return the installed packages and their versions.
    ///
    ///     salt-call pip.list
    fn list(List {
        /// A prefix of the package names; all packages if not given.
        prefix: Option<String> = None,
        /// A virtual environment, or the path of a pip or Python program in one.
        bin_env: Option<String> = None,
        /// The user who runs pip.
        user: Option<String> = None,
        /// The directory in which pip runs.
        cwd: Option<String> = None,
        /// Environment variables for pip.
        env_vars: Option<Map> = None,
        ..kwargs
    });

    /// Return the version of pip.
    ///
    ///     salt-call pip.version
    fn version(VersionOf {
        /// A virtual environment, or the path of a pip or Python program in one.
        bin_env: Option<String> = None,
        /// The directory in which pip runs.
        cwd: Option<String> = None,
        /// The user who runs pip.
        user: Option<String> = None,
    });

    /// Return the packages that have a newer version, with that version.
    ///
    ///     salt-call pip.list_upgrades
    fn list_upgrades(ListUpgrades {
        /// A virtual environment, or the path of a pip or Python program in one.
        bin_env: Option<String> = None,
        /// The user who runs pip.
        user: Option<String> = None,
        /// The directory in which pip runs.
        cwd: Option<String> = None,
    });

    /// True when a package is installed.
    ///
    ///     salt-call pip.is_installed requests
    fn is_installed(IsInstalled {
        /// The name of the package.
        pkgname: String,
        /// A virtual environment, or the path of a pip or Python program in one.
        bin_env: Option<String> = None,
        /// The user who runs pip.
        user: Option<String> = None,
        /// The directory in which pip runs.
        cwd: Option<String> = None,
    });

    /// True when a package has a newer version.
    ///
    ///     salt-call pip.upgrade_available requests
    fn upgrade_available(UpgradeAvailable {
        /// The name of the package.
        pkg: String,
        /// A virtual environment, or the path of a pip or Python program in one.
        bin_env: Option<String> = None,
        /// The user who runs pip.
        user: Option<String> = None,
        /// The directory in which pip runs.
        cwd: Option<String> = None,
    });

    /// Return all versions of a package that the index offers, the newest last.
    ///
    ///     salt-call pip.list_all_versions requests
    fn list_all_versions(ListAllVersions {
        /// The name of the package.
        pkg: String,
        /// A virtual environment, or the path of a pip or Python program in one.
        bin_env: Option<String> = None,
        /// True to include alpha versions.
        include_alpha: bool = false,
        /// True to include beta versions.
        include_beta: bool = false,
        /// True to include release candidates.
        include_rc: bool = false,
        /// The user who runs pip.
        user: Option<String> = None,
        /// The directory in which pip runs.
        cwd: Option<String> = None,
        /// The URL of the index.
        index_url: Option<String> = None,
        /// The URL of an additional index.
        extra_index_url: Option<String> = None,
    });

    /// Return the name of a package in the form in which indexes compare names.
    ///
    ///     salt-call pip.normalize My_Package
    fn normalize(Normalize {
        /// The name.
        name: String,
    });
}

/// The option that stops pip from looking for a newer pip. A look-up that times out would slow
/// every run down.
const NO_CHECK: &str = "--disable-pip-version-check";

/// The pip to run, and how to run it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pip {
    /// A virtual environment, or the path of a pip or Python program in one.
    pub(crate) bin_env: Option<String>,
    /// The user who runs pip.
    pub(crate) user: Option<String>,
    /// The directory in which pip runs.
    pub(crate) cwd: Option<String>,
    /// Environment variables for pip.
    pub(crate) env_vars: Map,
    /// Additional options of `cmd.run_all`.
    pub(crate) options: Map,
}

impl Pip {
    fn new(bin_env: Option<String>, user: Option<String>, cwd: Option<String>) -> Self {
        Self {
            bin_env: bin_env.filter(|bin_env| !bin_env.is_empty()),
            user,
            cwd,
            ..Self::default()
        }
    }

    /// Returns the program and its first arguments.
    ///
    /// # Errors
    /// When there is no pip.
    fn program(&self) -> Result<Vec<String>, Error> {
        let module = |python: String| vec![python, "-m".into(), "pip".into()];
        let Some(bin_env) = &self.bin_env else {
            if let Some(python) = process::which("python3") {
                return Ok(module(python));
            }
            let pip = process::which("pip3").or_else(|| process::which("pip"));
            return Ok(vec![pip.ok_or("Neither python3 nor pip is in the PATH")?]);
        };
        if std::path::Path::new(bin_env).is_dir() {
            let python = python_of(bin_env)?.ok_or_else(|| {
                Error::refused(format!(
                    "Could not find a pip binary in virtualenv {bin_env}"
                ))
            })?;
            return Ok(module(python));
        }
        let program = bin_env
            .contains('/')
            .then(|| process::which(bin_env))
            .flatten();
        let program = program.ok_or_else(|| {
            Error::refused(format!(
                "Access denied to {bin_env}, could not find a pip binary"
            ))
        })?;
        let name = program.rsplit('/').next().unwrap_or_default();
        Ok(if name.contains("python") {
            module(program)
        } else {
            vec![program]
        })
    }

    /// Runs pip in the same way as `cmd.run_all`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn run(&self, cx: &Exec, words: Vec<String>) -> Result<Map, Error> {
        let mut command = self.program()?;
        command.extend(words);
        let mut env = Map::new();
        if let Some(folder) = self.bin_env.as_deref().filter(|path| is_dir(path)) {
            env.insert("VIRTUAL_ENV", folder);
        }
        for (name, value) in &self.env_vars {
            env.insert(name.to_text(), value.to_text());
        }
        let mut options = Map::new()
            .with("cwd", self.cwd.as_deref())
            .with("runas", self.user.as_deref())
            .with("python_shell", false);
        options.update(self.options.clone());
        if let Some(Value::Map(given)) = self.options.get("env") {
            let given = given.clone();
            options.insert("env", given.into_iter().chain(env).collect::<Map>());
        } else {
            options.insert("env", env);
        }
        run_all_with(cx, &command.into(), &options)
    }

    /// Returns the standard output of a pip command, or its standard error as an error if it fails.
    fn ask(&self, cx: &Exec, words: &[&str]) -> Result<String, Error> {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let out = self.run(cx, words)?;
        let text = |key| out.get(key).map(Value::to_text).unwrap_or_default();
        match out.get("retcode").and_then(Value::as_int) {
            Some(0) => Ok(text("stdout")),
            _ => Err(Error::refused(text("stderr"))),
        }
    }

    /// Returns the version of pip, which is looked up once a run.
    ///
    /// # Errors
    /// When there is no pip.
    pub(crate) fn version(&self, cx: &Exec) -> Result<String, Error> {
        let key = self.context_key();
        let known = cx.context(|context| context.get(&key).map(Value::to_text));
        if let Some(known) = known {
            return Ok(known);
        }
        let out = Self {
            env_vars: Map::new(),
            options: Map::new(),
            ..self.clone()
        }
        .ask(cx, &["--version"]);
        let out = match out {
            Err(error) if error.is_of_command() && self.program().is_ok() => {
                return Err("Could not find a `pip` binary".into());
            }
            other => other?,
        };
        let words = out.strip_prefix("pip ").unwrap_or_default();
        let version = words.split_whitespace().next().unwrap_or_default();
        cx.context(|context| context.insert(key, version));
        Ok(version.to_owned())
    }

    fn context_key(&self) -> String {
        let bin_env = self.bin_env.as_deref().unwrap_or_default();
        format!("pip.version.{bin_env}")
    }

    /// Forgets the version of pip. Call this after any command that may have replaced pip itself.
    fn forget_version(&self, cx: &Exec) {
        let key = self.context_key();
        cx.context(|context| context.remove(&key));
    }

    /// Returns the packages whose name begins with `prefix`, with their versions.
    ///
    /// # Errors
    /// When pip fails or prints something unexpected.
    pub(crate) fn list(&self, cx: &Exec, prefix: Option<&str>) -> Result<Map, Error> {
        if !at_least(&self.version(cx)?, "9.0") {
            return self.list_frozen(cx, prefix);
        }
        let out = self.ask(cx, &["list", "--format=json", NO_CHECK])?;
        let mut packages = Map::new();
        for package in rows(&out)? {
            let name = normalized(&field(&package, "name"));
            packages.insert(name, field(&package, "version"));
        }
        keep_prefix(&mut packages, prefix);
        Ok(packages)
    }

    /// Returns the lines that `pip freeze` prints.
    ///
    /// # Errors
    /// When pip fails.
    pub(crate) fn freeze(&self, cx: &Exec) -> Result<Vec<String>, Error> {
        let all = at_least(&self.version(cx)?, "8.0.3");
        let words = if all {
            vec!["freeze", "--all", NO_CHECK]
        } else {
            vec!["freeze", NO_CHECK]
        };
        let out = self.ask(cx, &words)?;
        Ok(out.lines().map(str::to_owned).collect())
    }

    fn list_frozen(&self, cx: &Exec, prefix: Option<&str>) -> Result<Map, Error> {
        let mut packages = Map::new().with("pip", self.version(cx)?);
        for line in self.freeze(cx)? {
            if line.starts_with("-f")
                || line.starts_with('#')
                || line.starts_with("-e hg+not trust")
            {
                continue;
            }
            match frozen(&line) {
                Some((name, version)) => {
                    packages.insert(normalized(name), version);
                }
                None => log::error(format_args!("Can't parse line '{line}'")),
            }
        }
        keep_prefix(&mut packages, prefix);
        Ok(packages)
    }

    fn upgrades(&self, cx: &Exec) -> Result<Map, Error> {
        let version = self.version(cx)?;
        if !at_least(&version, "9.0") {
            return Err(Error::refused(format!(
                "pip {version} is too old to list upgrades: 9.0 or newer is required"
            )));
        }
        let out = self.ask(cx, &["list", "--outdated", NO_CHECK, "--format=json"])?;
        let packages = rows(&out)?;
        Ok(packages
            .iter()
            .map(|package| {
                let (version, kind) = (
                    field(package, "latest_version"),
                    field(package, "latest_filetype"),
                );
                (field(package, "name"), format!("{version} [{kind}]"))
            })
            .collect())
    }
}

fn is_dir(path: &str) -> bool {
    std::path::Path::new(path).is_dir()
}

/// Returns the Python of a virtual environment: `python`, then `python3`, then the first with a
/// version in its name.
fn python_of(folder: &str) -> Result<Option<String>, Error> {
    let folder = folder.trim_end_matches('/');
    let usual = ["python", "bin/python", "Scripts/python", "bin/python3"];
    let usual = usual.iter().map(|name| format!("{folder}/{name}"));
    let numbered: Vec<String> = fs::names(format!("{folder}/bin"))?
        .into_iter()
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| {
            let version = name.strip_prefix("python").unwrap_or("x");
            !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        })
        .map(|name| format!("{folder}/bin/{name}"))
        .collect();
    Ok(usual.chain(numbered).find_map(|path| process::which(&path)))
}

fn rows(out: &str) -> Result<Vec<Value>, Error> {
    let rows = json::read(out).map_err(|_| Error::refused("Invalid JSON".into()))?;
    let rows = rows.as_list().map(<[Value]>::to_vec);
    rows.ok_or_else(|| "Invalid JSON".into())
}

fn field(row: &Value, name: &str) -> String {
    row.get(name).map(Value::to_text).unwrap_or_default()
}

fn keep_prefix(packages: &mut Map, prefix: Option<&str>) {
    if let Some(prefix) = prefix.filter(|prefix| !prefix.is_empty()) {
        let prefix = normalized(prefix);
        packages.retain(|name, _| name.to_text().starts_with(&prefix));
    }
}

/// Returns the name and the version in a line of `pip freeze`.
fn frozen(line: &str) -> Option<(&str, &str)> {
    let line = line.strip_prefix("-e ").unwrap_or(line);
    if let Some((version, name)) = line.split_once("#egg=") {
        return Some((name, version));
    }
    let split = line.split_once("===").or_else(|| line.split_once("=="));
    split.map(|(name, version)| (name, version.split("==").next().unwrap_or_default()))
}

fn freeze(cx: &Exec, args: Freeze) -> Result<Value, Error> {
    let pip = Pip {
        env_vars: args.env_vars.unwrap_or_default(),
        options: args.kwargs,
        ..Pip::new(args.bin_env, args.user, args.cwd)
    };
    Ok(pip.freeze(cx)?.into())
}

fn list_freeze_parse(cx: &Exec, args: ListFreezeParse) -> Result<Value, Error> {
    let pip = Pip {
        env_vars: args.env_vars.unwrap_or_default(),
        options: args.kwargs,
        ..Pip::new(args.bin_env, args.user, args.cwd)
    };
    Ok(pip.list_frozen(cx, args.prefix.as_deref())?.into())
}

fn list(cx: &Exec, args: List) -> Result<Value, Error> {
    let pip = Pip {
        env_vars: args.env_vars.unwrap_or_default(),
        options: args.kwargs,
        ..Pip::new(args.bin_env, args.user, args.cwd)
    };
    Ok(pip.list(cx, args.prefix.as_deref())?.into())
}

fn version(cx: &Exec, args: VersionOf) -> Result<Value, Error> {
    Ok(Pip::new(args.bin_env, args.user, args.cwd)
        .version(cx)?
        .into())
}

fn list_upgrades(cx: &Exec, args: ListUpgrades) -> Result<Value, Error> {
    Ok(Pip::new(args.bin_env, args.user, args.cwd)
        .upgrades(cx)?
        .into())
}

fn is_installed(cx: &Exec, args: IsInstalled) -> Result<Value, Error> {
    let packages = Pip::new(args.bin_env, args.user, args.cwd).list(cx, None)?;
    Ok(packages.contains(&normalized(&args.pkgname)).into())
}

fn upgrade_available(cx: &Exec, args: UpgradeAvailable) -> Result<Value, Error> {
    let packages = Pip::new(args.bin_env, args.user, args.cwd).upgrades(cx)?;
    let wanted = normalized(&args.pkg);
    let mut names = packages.keys().map(|name| normalized(&name.to_text()));
    Ok(names.any(|name| name == wanted).into())
}

fn list_all_versions(cx: &Exec, args: ListAllVersions) -> Result<Value, Error> {
    let pip = Pip::new(args.bin_env, args.user, args.cwd);
    let left_out = [
        (args.include_alpha, "a"),
        (args.include_beta, "b"),
        (args.include_rc, "rc"),
    ];
    let left_out: Vec<&str> = left_out
        .into_iter()
        .filter(|(included, _)| !included)
        .map(|(_, letter)| letter)
        .collect();
    let indexes = (args.index_url.as_deref(), args.extra_index_url.as_deref());
    let versions = pip.all_versions(cx, &args.pkg, &left_out, indexes)?;
    Ok(if versions.is_empty() {
        Value::Null
    } else {
        versions.into()
    })
}

impl Pip {
    /// Returns the versions that an index offers, the newest last. Versions that contain any text
    /// of `left_out` are omitted.
    ///
    /// # Errors
    /// When a URL is not valid, or pip cannot be started.
    pub(crate) fn all_versions(
        &self,
        cx: &Exec,
        package: &str,
        left_out: &[&str],
        indexes: (Option<&str>, Option<&str>),
    ) -> Result<Vec<String>, Error> {
        let version = self.version(cx)?;
        refuse_option(package)?;
        let (mut words, pattern) = if at_least(&version, "21.2") {
            let words = vec![NO_CHECK, "index", "versions", package];
            (words, r"\s*Available versions: (.*)")
        } else {
            let mut words = vec![NO_CHECK];
            if at_least(&version, "20.3") {
                words.push("--use-deprecated=legacy-resolver");
            }
            words.push("install");
            (
                words,
                r"\s*Could not find a version.* \(from versions: (.*)\)",
            )
        };
        let none = format!("{package}==versions");
        if words.last() == Some(&"install") {
            words.push(&none);
        }
        for (flag, url) in [("--index-url", indexes.0), ("--extra-index-url", indexes.1)] {
            if let Some(url) = url.filter(|url| !url.is_empty()) {
                valid_url(url)?;
                words.extend([flag, url]);
            }
        }
        let words = words.into_iter().map(str::to_owned).collect();
        let quiet = Map::new()
            .with("output_loglevel", "quiet")
            .with("redirect_stderr", true);
        let quiet = Self {
            options: quiet,
            ..self.clone()
        };
        let out = quiet.run(cx, words)?;
        let out = out.get("stdout").map(Value::to_text).unwrap_or_default();
        let pattern = Regex::new(pattern, Flags::NONE)?;
        let found = pattern.captures(&out, 0)?;
        let found = found.as_ref().and_then(|found| found.get(1));
        let mut versions: Vec<String> = found
            .map_or("", |versions| versions.as_str())
            .split(", ")
            .filter(|version| !version.is_empty())
            .filter(|version| !left_out.iter().any(|letter| version.contains(letter)))
            .map(str::to_owned)
            .collect();
        sorted::sort_by_key(&mut versions, |version| Version::parse(version));
        Ok(versions)
    }
}

/// Returns an error if pip would read the name of a package as an option.
fn refuse_option(name: &str) -> Result<(), Error> {
    if name.starts_with('-') {
        return Err(Error::refused(format!(
            "'{name}' is an option, not a package: use extra_args"
        )));
    }
    Ok(())
}

fn is_url(text: &str) -> bool {
    ["http", "https", "ftp", "file"].contains(&Url::parse(text).scheme.as_str())
}

fn valid_url(url: &str) -> Result<(), Error> {
    if is_url(url) {
        return Ok(());
    }
    Err(Error::refused(format!("'{url}' is not a valid URL")))
}

fn normalize(_cx: &Exec, args: Normalize) -> Result<Value, Error> {
    Ok(normalized(&args.name).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frozen_lines_have_names_and_versions() {
        assert_eq!(frozen("a==1.0"), Some(("a", "1.0")));
        assert_eq!(frozen("a===1.0"), Some(("a", "1.0")));
        let editable = "-e git+https://h/x.git@abc#egg=x";
        assert_eq!(frozen(editable), Some(("x", "git+https://h/x.git@abc")));
        assert_eq!(frozen("x @ file:///tmp/x"), None);
    }
}
