//! The `pyenv` execution module, and what it has in common with `rbenv`: both are the same program for another language.

use python::{path, shlex};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::{config, tool};
use crate::process;
use crate::process::{Output, Process};

state::exec_module! {
    /// Several versions of Python (`pyenv`).
    mod pyenv;

    /// Install pyenv.
    fn install(Install {
        /// The user; for all users where none is named.
        runas: Option<String> = None,
        /// Its folder.
        path: Option<String> = None,
    });

    /// Bring pyenv up to date.
    fn update(Update {
        /// The user; for all users where none is named.
        runas: Option<String> = None,
        /// Its folder.
        path: Option<String> = None,
    });

    /// True when pyenv is installed.
    fn is_installed(IsInstalled {
        /// The user; for all users where none is named.
        runas: Option<String> = None,
    });

    /// Install a version of Python.
    fn install_python(InstallPython {
        /// The version.
        python: String,
        /// The user; for all users where none is named.
        runas: Option<String> = None,
    });

    /// Remove a version of Python.
    fn uninstall_python(UninstallPython {
        /// The version.
        python: String,
        /// The user; for all users where none is named.
        runas: Option<String> = None,
    });

    /// Return the installed versions.
    fn versions(Versions {
        /// The user; for all users where none is named.
        runas: Option<String> = None,
    });

    /// Return the version that is used, or set it.
    fn default(Default_ {
        /// The version.
        python: Option<String> = None,
        /// The user; for all users where none is named.
        runas: Option<String> = None,
    });

    /// Return the versions that there are.
    fn list(List {
        /// The user; for all users where none is named.
        runas: Option<String> = None,
    });

    /// Make the programs of all versions callable.
    fn rehash(Rehash {
        /// The user; for all users where none is named.
        runas: Option<String> = None,
    });

    /// Run a command with pyenv's programs.
    fn r#do(Do {
        /// The command.
        cmdline: String,
        /// The user; for all users where none is named.
        runas: Option<String> = None,
    });

    /// Run a command with those of one version.
    fn do_with_python(DoWithPython {
        /// The version.
        python: String,
        /// The command.
        cmdline: String,
        /// The user; for all users where none is named.
        runas: Option<String> = None,
    });
}

/// One of the two programs.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// Its name.
    pub(crate) name: &'static str,
    /// The language.
    pub(crate) language: &'static str,
    /// Where it comes from, and where in its folder that goes.
    sources: &'static [(&'static str, &'static str)],
    root: &'static str,
    version: &'static str,
}

/// pyenv brings its builder along.
pub(crate) const PYENV: Kind = Kind {
    name: "pyenv",
    language: "python",
    sources: &[("", "https://github.com/yyuu/pyenv.git")],
    root: "PYENV_ROOT",
    version: "PYENV_VERSION",
};

/// rbenv has it apart.
pub(crate) const RBENV: Kind = Kind {
    name: "rbenv",
    language: "ruby",
    sources: &[
        ("", "https://github.com/rbenv/rbenv.git"),
        (
            "/plugins/ruby-build",
            "https://github.com/rbenv/ruby-build.git",
        ),
    ],
    root: "RBENV_ROOT",
    version: "RBENV_VERSION",
};

/// The program of a user.
pub(crate) struct Versioned<'a> {
    cx: &'a Exec,
    pub(crate) kind: Kind,
    runas: Option<String>,
    path: String,
}

impl<'a> Versioned<'a> {
    /// That of a user, or the one for all.
    ///
    /// # Errors
    /// When the pillar cannot be had.
    pub(crate) fn of(cx: &'a Exec, kind: Kind, runas: Option<String>) -> Result<Self, Error> {
        let name = kind.name;
        let root = config::found(cx, &format!("{name}.root"))?.to_text();
        let path = match (root.is_empty(), runas.as_deref()) {
            (false, _) => root,
            (true, None | Some("root" | "")) => format!("/usr/local/{name}"),
            (true, Some(user)) => format!("~{user}/.{name}"),
        };
        Ok(Self {
            cx,
            kind,
            runas,
            path: path::expanduser(&path),
        })
    }

    /// The same in another folder.
    pub(crate) fn at(self, path: Option<String>) -> Self {
        match path.filter(|path| !path.is_empty()) {
            Some(path) => Self {
                path: path::expanduser(&path),
                ..self
            },
            None => self,
        }
    }

    fn program(&self) -> String {
        format!("{}/bin/{}", self.path, self.kind.name)
    }

    pub(crate) fn is_installed(&self) -> bool {
        process::which(&self.program()).is_some()
    }

    /// What the program answers; none where it is not installed.
    fn run(&self, words: &[&str], env: Map) -> Result<Option<Output>, Error> {
        if !self.is_installed() {
            return Ok(None);
        }
        let program = self.program();
        let process = Process {
            runas: self.runas.clone(),
            env: env.with(self.kind.root, self.path.as_str()),
            ignore_retcode: true,
            ..Process::words([program.as_str()].iter().chain(words).copied())
        };
        process.run(self.cx).map(Some)
    }

    /// The same where failing is no answer.
    fn told(&self, words: &[&str]) -> Result<Option<String>, Error> {
        let output = self.run(words, Map::new())?;
        Ok(output.filter(Output::success).map(|output| output.stdout))
    }

    fn git(&self, words: &[&str], cwd: Option<&str>) -> Result<bool, Error> {
        Ok(tool::run(self.cx, words, cwd, self.runas.as_deref())?.success())
    }

    /// Installs the program itself.
    ///
    /// # Errors
    /// When git cannot be started.
    pub(crate) fn install(&self) -> Result<bool, Error> {
        for (below, url) in self.kind.sources {
            let path = format!("{}{below}", self.path);
            if !path::isdir(&path) && !self.git(&["git", "clone", "--", url, &path], None)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) fn update(&self) -> Result<bool, Error> {
        for (below, _) in self.kind.sources {
            let path = format!("{}{below}", self.path);
            if !path::isdir(&path) || !self.git(&["git", "pull"], Some(&path))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A version without the language's name before it.
    pub(crate) fn plain<'v>(&self, version: &'v str) -> &'v str {
        let named = version.strip_prefix(self.kind.language);
        let plain = named.and_then(|rest| rest.strip_prefix('-'));
        plain.unwrap_or(version)
    }

    /// Installs a version: what the program said of it, or False.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn install_version(&self, version: &str) -> Result<Value, Error> {
        let version = self.plain(version);
        tool::is_name("version", version)?;
        let name = self.kind.name;
        let given = config::found(self.cx, &format!("{name}.build_env"))?.to_text();
        let words = shlex::parts(&given)?;
        let variables = words.iter().filter_map(|word| word.split_once('='));
        let env = variables.map(|(name, value)| (Value::from(name), Value::from(value)));
        let output = self.run(&["install", version], env.collect())?;
        match output.filter(Output::success) {
            Some(output) => {
                self.rehash()?;
                Ok(output.stderr.into())
            }
            None => {
                // What is half there would count as installed.
                self.uninstall_version(version)?;
                Ok(Value::Bool(false))
            }
        }
    }

    pub(crate) fn uninstall_version(&self, version: &str) -> Result<Value, Error> {
        let version = self.plain(version);
        tool::is_name("version", version)?;
        self.run(&["uninstall", "--force", version], Map::new())?;
        Ok(Value::Bool(true))
    }

    pub(crate) fn versions(&self) -> Result<Vec<String>, Error> {
        let told = self.told(&["versions", "--bare"])?.unwrap_or_default();
        Ok(told.lines().map(str::to_owned).collect())
    }

    /// The version that is used.
    pub(crate) fn default_version(&self) -> Result<String, Error> {
        Ok(self
            .told(&["global"])?
            .unwrap_or_default()
            .trim()
            .to_owned())
    }

    pub(crate) fn use_version(&self, version: &str) -> Result<(), Error> {
        tool::is_name("version", version)?;
        self.run(&["global", version], Map::new()).map(drop)
    }

    /// Sets the version that is used, or says which it is.
    pub(crate) fn default_or(&self, version: Option<String>) -> Result<Value, Error> {
        match version.filter(|version| !version.is_empty()) {
            Some(version) => self.use_version(&version).map(|()| true.into()),
            None => self.default_version().map(Value::from),
        }
    }

    pub(crate) fn list(&self) -> Result<Value, Error> {
        let told = self.told(&["install", "--list"])?.unwrap_or_default();
        let lines = told.lines().filter(|line| *line != "Available versions:");
        Ok(Value::list(lines.map(|line| line.trim().into())))
    }

    pub(crate) fn rehash(&self) -> Result<Value, Error> {
        self.run(&["rehash"], Map::new())?;
        Ok(Value::Bool(true))
    }

    /// Runs a command: what it wrote, or False.
    pub(crate) fn run_with(
        &self,
        version: Option<&str>,
        cmdline: &str,
        mut env: Map,
    ) -> Result<Value, Error> {
        let words = shlex::parts(cmdline)?;
        if words.is_empty() {
            return Err(Error::argument(
                "cmdline",
                "Command must be specified".to_owned(),
            ));
        }
        if let Some(version) = version.filter(|version| !version.is_empty()) {
            env.insert(self.kind.version, version);
        }
        let shims = format!("{}/shims", self.path);
        // The program is looked for in that folder, too.
        let first = words.first().map(|word| format!("{shims}/{word}"));
        let first = first.filter(|path| process::which(path).is_some());
        let rest = words.iter().skip(usize::from(first.is_some())).cloned();
        let process = Process {
            runas: self.runas.clone(),
            env,
            prepend_path: Some(shims),
            ignore_retcode: true,
            ..Process::words(first.into_iter().chain(rest))
        };
        let output = process.run(self.cx)?;
        if !output.success() {
            return Ok(Value::Bool(false));
        }
        self.rehash()?;
        Ok(output.stdout.into())
    }
}

fn of(cx: &Exec, runas: Option<String>) -> Result<Versioned<'_>, Error> {
    Versioned::of(cx, PYENV, runas)
}

fn install(cx: &Exec, args: Install) -> Result<Value, Error> {
    of(cx, args.runas)?.at(args.path).install().map(Value::from)
}

fn update(cx: &Exec, args: Update) -> Result<Value, Error> {
    of(cx, args.runas)?.at(args.path).update().map(Value::from)
}

fn is_installed(cx: &Exec, args: IsInstalled) -> Result<Value, Error> {
    Ok(of(cx, args.runas)?.is_installed().into())
}

fn install_python(cx: &Exec, args: InstallPython) -> Result<Value, Error> {
    of(cx, args.runas)?.install_version(&args.python)
}

fn uninstall_python(cx: &Exec, args: UninstallPython) -> Result<Value, Error> {
    of(cx, args.runas)?.uninstall_version(&args.python)
}

fn versions(cx: &Exec, args: Versions) -> Result<Value, Error> {
    of(cx, args.runas)?.versions().map(Value::from)
}

fn default(cx: &Exec, args: Default_) -> Result<Value, Error> {
    of(cx, args.runas)?.default_or(args.python)
}

fn list(cx: &Exec, args: List) -> Result<Value, Error> {
    of(cx, args.runas)?.list()
}

fn rehash(cx: &Exec, args: Rehash) -> Result<Value, Error> {
    of(cx, args.runas)?.rehash()
}

fn r#do(cx: &Exec, args: Do) -> Result<Value, Error> {
    of(cx, args.runas)?.run_with(None, &args.cmdline, Map::new())
}

fn do_with_python(cx: &Exec, args: DoWithPython) -> Result<Value, Error> {
    of(cx, args.runas)?.run_with(Some(&args.python), &args.cmdline, Map::new())
}
