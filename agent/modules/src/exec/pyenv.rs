//! The `pyenv` execution module, and the code that it shares with `rbenv`: both programs work in
//! the same way for different languages.

use machine::process;
use machine::process::{Output, Process};
use python::{path, shlex};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::{config, tool};

state::exec_module! {
    /// Manage several versions of Python with `pyenv`.
    mod pyenv;

    /// Install pyenv.
    ///
    ///     salt-call pyenv.install
    fn install(Install {
        /// The user whose pyenv is used; the system-wide one if not given.
        runas: Option<String> = None,
        /// The folder of pyenv.
        path: Option<String> = None,
    });

    /// Update pyenv.
    ///
    ///     salt-call pyenv.update
    fn update(Update {
        /// The user whose pyenv is used; the system-wide one if not given.
        runas: Option<String> = None,
        /// The folder of pyenv.
        path: Option<String> = None,
    });

    /// True when pyenv is installed.
    ///
    ///     salt-call pyenv.is_installed
    fn is_installed(IsInstalled {
        /// The user whose pyenv is used; the system-wide one if not given.
        runas: Option<String> = None,
    });

    /// Install a version of Python.
    ///
    ///     salt-call pyenv.install_python 3.12.4
    fn install_python(InstallPython {
        /// The version of Python.
        python: String,
        /// The user whose pyenv is used; the system-wide one if not given.
        runas: Option<String> = None,
    });

    /// Remove a version of Python.
    ///
    ///     salt-call pyenv.uninstall_python 3.8.20
    fn uninstall_python(UninstallPython {
        /// The version of Python.
        python: String,
        /// The user whose pyenv is used; the system-wide one if not given.
        runas: Option<String> = None,
    });

    /// Return the installed versions of Python.
    ///
    ///     salt-call pyenv.versions
    fn versions(Versions {
        /// The user whose pyenv is used; the system-wide one if not given.
        runas: Option<String> = None,
    });

    /// Return the default version of Python, or set it.
    ///
    ///     salt-call pyenv.default 3.12.4
    fn default(Default_ {
        /// The version to set; the current default is returned if not given.
        python: Option<String> = None,
        /// The user whose pyenv is used; the system-wide one if not given.
        runas: Option<String> = None,
    });

    /// Return the versions of Python that can be installed.
    ///
    ///     salt-call pyenv.list
    fn list(List {
        /// The user whose pyenv is used; the system-wide one if not given.
        runas: Option<String> = None,
    });

    /// Update the shims, so that the programs of all versions can be called.
    ///
    ///     salt-call pyenv.rehash
    fn rehash(Rehash {
        /// The user whose pyenv is used; the system-wide one if not given.
        runas: Option<String> = None,
    });

    /// Run a command with the programs of pyenv in its PATH.
    ///
    ///     salt-call pyenv.do 'pip list'
    fn r#do(Do {
        /// The command.
        cmdline: Option<String> = None,
        /// The user whose pyenv is used; the system-wide one if not given.
        runas: Option<String> = None,
    });

    /// Run a command with the programs of one version of Python in its PATH.
    ///
    ///     salt-call pyenv.do_with_python 3.12.4 'pip list'
    fn do_with_python(DoWithPython {
        /// The version of Python.
        python: String,
        /// The command.
        cmdline: String,
        /// The user whose pyenv is used; the system-wide one if not given.
        runas: Option<String> = None,
    });
}

/// The description of one of the two programs.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// The name of the program.
    pub(crate) name: &'static str,
    /// The language whose versions it manages.
    pub(crate) language: &'static str,
    /// The git repositories, each with its path below the folder of the program.
    sources: &'static [(&'static str, &'static str)],
    root: &'static str,
    version: &'static str,
}

/// The description of pyenv, whose repository includes the plugin that builds versions.
pub(crate) const PYENV: Kind = Kind {
    name: "pyenv",
    language: "python",
    sources: &[("", "https://github.com/yyuu/pyenv.git")],
    root: "PYENV_ROOT",
    version: "PYENV_VERSION",
};

/// The description of rbenv, which has a separate repository for the plugin that builds versions.
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

/// An installation of one of the programs.
pub(crate) struct Versioned<'a> {
    cx: &'a Exec,
    pub(crate) kind: Kind,
    runas: Option<String>,
    path: String,
}

impl<'a> Versioned<'a> {
    /// Returns the installation of a user, or the system-wide one.
    ///
    /// # Errors
    /// When the pillar cannot be read.
    pub(crate) fn from_config(
        cx: &'a Exec,
        kind: Kind,
        runas: Option<String>,
    ) -> Result<Self, Error> {
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

    /// Returns the same installation in another folder.
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

    /// Runs the program and returns its output, or `None` if it is not installed.
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

    /// Like [`Self::run`], but returns only standard output, and `None` if the program fails.
    fn stdout(&self, words: &[&str]) -> Result<Option<String>, Error> {
        let output = self.run(words, Map::new())?;
        Ok(output.and_then(|output| output.into_success().ok()))
    }

    fn git(&self, words: &[&str], cwd: Option<&str>) -> Result<bool, Error> {
        Ok(tool::run(self.cx, words, cwd, self.runas.as_deref())?.success())
    }

    /// Installs the program and its plugins.
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

    /// Returns a version without the prefix that names the language.
    pub(crate) fn plain<'v>(&self, version: &'v str) -> &'v str {
        let named = version.strip_prefix(self.kind.language);
        let plain = named.and_then(|rest| rest.strip_prefix('-'));
        plain.unwrap_or(version)
    }

    /// Installs a version and returns the output of the program, or False if the build fails.
    ///
    /// # Errors
    /// When the program cannot be started.
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
                // A partial build would count as installed.
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
        let told = self.stdout(&["versions", "--bare"])?.unwrap_or_default();
        Ok(told.lines().map(str::to_owned).collect())
    }

    /// Returns the default version.
    pub(crate) fn default_version(&self) -> Result<String, Error> {
        Ok(self
            .stdout(&["global"])?
            .unwrap_or_default()
            .trim()
            .to_owned())
    }

    pub(crate) fn use_version(&self, version: &str) -> Result<(), Error> {
        tool::is_name("version", version)?;
        self.run(&["global", version], Map::new()).map(drop)
    }

    /// Sets the default version or, if none is given, returns it.
    pub(crate) fn default_or(&self, version: Option<String>) -> Result<Value, Error> {
        match version.filter(|version| !version.is_empty()) {
            Some(version) => self.use_version(&version).map(|()| true.into()),
            None => self.default_version().map(Value::from),
        }
    }

    pub(crate) fn list(&self) -> Result<Value, Error> {
        let told = self.stdout(&["install", "--list"])?.unwrap_or_default();
        let lines = told.lines().filter(|line| *line != "Available versions:");
        Ok(Value::list(lines.map(|line| line.trim().into())))
    }

    pub(crate) fn rehash(&self) -> Result<Value, Error> {
        self.run(&["rehash"], Map::new())?;
        Ok(Value::Bool(true))
    }

    /// Runs a command and returns its output, or False if it fails.
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
        // The program is also looked up in the folder of shims.
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
        Ok(output.into_stdout_regardless().into())
    }
}

fn pyenv(cx: &Exec, runas: Option<String>) -> Result<Versioned<'_>, Error> {
    Versioned::from_config(cx, PYENV, runas)
}

fn install(cx: &Exec, args: Install) -> Result<Value, Error> {
    pyenv(cx, args.runas)?
        .at(args.path)
        .install()
        .map(Value::from)
}

fn update(cx: &Exec, args: Update) -> Result<Value, Error> {
    pyenv(cx, args.runas)?
        .at(args.path)
        .update()
        .map(Value::from)
}

fn is_installed(cx: &Exec, args: IsInstalled) -> Result<Value, Error> {
    Ok(pyenv(cx, args.runas)?.is_installed().into())
}

fn install_python(cx: &Exec, args: InstallPython) -> Result<Value, Error> {
    pyenv(cx, args.runas)?.install_version(&args.python)
}

fn uninstall_python(cx: &Exec, args: UninstallPython) -> Result<Value, Error> {
    pyenv(cx, args.runas)?.uninstall_version(&args.python)
}

fn versions(cx: &Exec, args: Versions) -> Result<Value, Error> {
    pyenv(cx, args.runas)?.versions().map(Value::from)
}

fn default(cx: &Exec, args: Default_) -> Result<Value, Error> {
    pyenv(cx, args.runas)?.default_or(args.python)
}

fn list(cx: &Exec, args: List) -> Result<Value, Error> {
    pyenv(cx, args.runas)?.list()
}

fn rehash(cx: &Exec, args: Rehash) -> Result<Value, Error> {
    pyenv(cx, args.runas)?.rehash()
}

fn r#do(cx: &Exec, args: Do) -> Result<Value, Error> {
    pyenv(cx, args.runas)?.run_with(None, &args.cmdline.unwrap_or_default(), Map::new())
}

fn do_with_python(cx: &Exec, args: DoWithPython) -> Result<Value, Error> {
    pyenv(cx, args.runas)?.run_with(Some(&args.python), &args.cmdline, Map::new())
}
