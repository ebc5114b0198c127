//! The `virtualenv` execution module, through the programs virtualenv and python3.

use std::path::Path;

use machine::fs;
use machine::process;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::cmd::run_all_with;

state::exec_module! {
    /// Create Python virtual environments.
    mod virtualenv;

    /// Create a virtual environment, and return the result of the program.
    ///
    ///     salt-call virtualenv.create /srv/app/venv
    fn create(Create {
        /// The path of the environment's folder.
        path: String,
        /// The program: virtualenv, a Python, or `venv` for the module of the machine's python3.
        venv_bin: Option<String> = None,
        /// True to make the packages of the system available.
        system_site_packages: bool = false,
        /// True to install `distribute`; only for old versions of virtualenv.
        distribute: bool = false,
        /// True to empty an existing folder first.
        clear: bool = false,
        /// The Python interpreter of the environment.
        python: Option<String> = None,
        /// The folders with wheels; only for virtualenv.
        extra_search_dir: Value = Value::Null,
        /// True to forbid the download of pip and similar packages; only for virtualenv.
        never_download: Option<bool> = None,
        /// The text in the shell's prompt.
        prompt: Option<String> = None,
        /// True to make sure that pip is installed.
        pip: bool = false,
        /// True to create symbolic links instead of copies; only for venv.
        symlinks: Option<bool> = None,
        /// True to upgrade the environment to a new Python; only for venv.
        upgrade: Option<bool> = None,
        /// The user who creates the environment.
        user: Option<String> = None,
        /// Accepted and ignored: there is no terminal.
        use_vt: bool = false,
        /// Accepted and ignored: nothing is fetched.
        saltenv: String = "base".into(),
        ..kwargs
    });

    /// Return the parts of the version of virtualenv.
    ///
    ///     salt-call virtualenv.virtualenv_ver virtualenv
    fn virtualenv_ver(VirtualenvVer {
        /// The virtualenv program.
        venv_bin: String,
        /// The user who runs the program.
        user: Option<String> = None,
        ..kwargs
    });

    /// Return the folder of an environment's packages.
    ///
    ///     salt-call virtualenv.get_site_packages /srv/app/venv
    fn get_site_packages(GetSitePackages {
        /// The path of the environment.
        venv: String,
    });

    /// Return the folder that contains an installed package.
    ///
    ///     salt-call virtualenv.get_distribution_path /srv/app/venv requests
    fn get_distribution_path(GetDistributionPath {
        /// The path of the environment.
        venv: String,
        /// The name of the package.
        distribution: String,
    });

    /// Return the path of a file that belongs to a package.
    ///
    ///     salt-call virtualenv.get_resource_path /srv/app/venv package=certifi resource=cacert.pem
    fn get_resource_path(GetResourcePath {
        /// The path of the environment.
        venv: String,
        /// The name of the package.
        package: Option<String> = None,
        /// The path of the file in the package.
        resource: Option<String> = None,
    });

    /// Return the contents of a file that belongs to a package.
    ///
    ///     salt-call virtualenv.get_resource_content /srv/app/venv package=certifi resource=cacert.pem
    fn get_resource_content(GetResourceContent {
        /// The path of the environment.
        venv: String,
        /// The name of the package.
        package: Option<String> = None,
        /// The path of the file in the package.
        resource: Option<String> = None,
    });
}

/// The program that creates the environment.
struct Maker {
    /// The name that the user gave.
    name: String,
    /// The program and its first arguments.
    words: Vec<String>,
    /// True if the program is Python's own venv module, which has other options.
    is_venv: bool,
}

fn is_python(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or_default();
    let name = name.to_lowercase();
    let version = name
        .strip_prefix("python")
        .or_else(|| name.strip_prefix("pypy"));
    version.is_some_and(|version| version.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
}

/// Returns the program from the argument, the pillar or the configuration, or the first one that is
/// available.
fn named(cx: &Exec, given: Option<String>) -> Result<String, Error> {
    let text = |map: &Map| {
        let value = map.get("venv_bin").filter(|value| value.is_true());
        value.map(Value::to_text)
    };
    let given = given.filter(|name| !name.is_empty());
    Ok(match given.or(text(&cx.pillar()?)) {
        Some(name) => name,
        None => text(&cx.opts().map)
            .or_else(|| process::which("virtualenv"))
            .unwrap_or_else(|| "venv".into()),
    })
}

fn missing(python: &str) -> Error {
    Error::refused(format!("Cannot find requested python ({python})."))
}

impl Maker {
    fn find(name: String, python: Option<&str>) -> Result<Self, Error> {
        let module = |python: &str| vec![python.to_owned(), "-m".into(), "venv".into()];
        let words = if name == "venv" {
            let python = python.unwrap_or("python3");
            process::which(python).ok_or_else(|| missing(python))?;
            module(python)
        } else if is_python(&name) {
            if python.is_some() {
                return Err(
                    "Pass the target interpreter either as `venv_bin` or as `python`, not both."
                        .into(),
                );
            }
            process::which(&name).ok_or_else(|| missing(&name))?;
            module(&name)
        } else {
            vec![name.clone()]
        };
        let is_venv = words.len() > 1 || name.contains("venv");
        Ok(Self {
            name,
            words,
            is_venv,
        })
    }

    fn refuse(&self, given: bool, option: &str) -> Result<(), Error> {
        if !given {
            return Ok(());
        }
        let (name, flag) = (&self.name, option.replace('_', "-"));
        Err(Error::refused(format!(
            "The `{option}`(`--{flag}`) option is not supported by '{name}'"
        )))
    }

    /// Appends the options of Python's venv module.
    fn venv(&mut self, args: &Create, python: Option<&str>) -> Result<(), Error> {
        self.refuse(python.is_some() && self.words.len() == 1, "python")?;
        self.refuse(args.extra_search_dir.is_true(), "extra_search_dir")?;
        self.refuse(args.never_download.is_some(), "never_download")?;
        for (given, flag) in [(args.upgrade, "--upgrade"), (args.symlinks, "--symlinks")] {
            if given == Some(true) {
                self.words.push(flag.into());
            }
        }
        if let Some(prompt) = filled(&args.prompt) {
            self.words.extend(["--prompt".into(), prompt.to_owned()]);
        }
        Ok(())
    }

    /// Appends the options of virtualenv.
    fn virtualenv(&mut self, cx: &Exec, args: &Create, python: Option<&str>) -> Result<(), Error> {
        self.refuse(args.upgrade.is_some(), "upgrade")?;
        self.refuse(args.symlinks.is_some(), "symlinks")?;
        let version = self.version(cx, args)?;
        if args.distribute && version < (1, 10) {
            self.words.push("--distribute".into());
        }
        if let Some(python) = python {
            process::which(python).ok_or_else(|| missing(python))?;
            self.words.push(format!("--python={python}"));
        }
        for folder in folders(&args.extra_search_dir) {
            self.words.push(format!("--extra-search-dir={folder}"));
        }
        match args.never_download {
            Some(true) if ((1, 10)..(14, 0)).contains(&version) => log::info(format_args!(
                "--never-download was deprecated in 1.10.0, but reimplemented in 14.0.0. If this feature is needed, please install a supported virtualenv version."
            )),
            Some(true) => self.words.push("--never-download".into()),
            Some(false) if version >= (20, 0) => self.words.push("--download".into()),
            _ => {}
        }
        if let Some(prompt) = filled(&args.prompt) {
            // As in Salt, the quotes are part of the prompt.
            self.words.push(format!("--prompt='{prompt}'"));
        }
        Ok(())
    }

    /// Returns the first two numbers of the program's version.
    fn version(&self, cx: &Exec, args: &Create) -> Result<(u64, u64), Error> {
        let command = vec![self.name.clone(), "--version".to_owned()];
        let options = cmd_options(args).with("redirect_stderr", true);
        let out = run_all_with(cx, &command.into(), &options)?;
        let text = out.get("stdout").map(Value::to_text).unwrap_or_default();
        let numbers = text.split_whitespace().find_map(|word| {
            let mut parts = word.split('.').map(|part| part.parse::<u64>().ok());
            Some((parts.next()??, parts.next()??))
        });
        numbers.ok_or_else(|| {
            Error::refused(format!(
                "Unable to get the virtualenv version output using '{} --version'. Returned data: {text}",
                self.name
            ))
        })
    }
}

fn filled(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.trim().is_empty())
}

fn folders(given: &Value) -> Vec<String> {
    match given {
        given if !given.is_true() => Vec::new(),
        Value::List(items) => items.iter().map(Value::to_text).collect(),
        other => {
            let text = other.to_text();
            text.split(',').map(|part| part.trim().to_owned()).collect()
        }
    }
}

fn cmd_options(args: &Create) -> Map {
    let mut options = Map::new()
        .with("runas", args.user.as_deref())
        .with("python_shell", false);
    options.update(args.kwargs.clone());
    options
}

fn create(cx: &Exec, args: Create) -> Result<Value, Error> {
    if args.path.starts_with('-') {
        return Err(Error::refused(format!("'{}' is not a path", args.path)));
    }
    let python = filled(&args.python);
    let mut maker = Maker::find(named(cx, args.venv_bin.clone())?, python)?;
    if maker.is_venv {
        maker.venv(&args, python)?;
    } else {
        maker.virtualenv(cx, &args, python)?;
    }
    let flags = [
        (args.clear, "--clear"),
        (args.system_site_packages, "--system-site-packages"),
    ];
    for (_, flag) in flags.into_iter().filter(|(given, _)| *given) {
        maker.words.push(flag.into());
    }
    maker.words.push(args.path.clone());
    let path = Path::new(&args.path);
    let was_there = path.exists();
    let options = cmd_options(&args);
    let done = run_all_with(cx, &maker.words.into(), &options)?;
    if done.get("retcode").and_then(Value::as_int) != Some(0) {
        // A partial environment would be mistaken for a complete one in the next run.
        if !was_there && path.is_dir() {
            fs::remove(cx, path).map_err(Error::io(path))?;
        }
        return Ok(done.into());
    }
    let bin = path.join("bin");
    if args.pip && !bin.join("pip").exists() {
        let python = bin.join("python").to_string_lossy().into_owned();
        let words = [&python, "-m", "ensurepip", "--default-pip"].map(str::to_owned);
        return Ok(run_all_with(cx, &words.to_vec().into(), &options)?.into());
    }
    Ok(done.into())
}

/// Runs a line of Python code in an environment.
fn ask(cx: &Exec, venv: &str, code: &str, args: &[&str]) -> Result<Value, Error> {
    let venv = venv.trim_end_matches('/');
    let python = format!("{venv}/bin/python");
    if !Path::new(&python).exists() {
        return Err(Error::refused(format!(
            "Path '{venv}' does not appear to be a virtualenv: '{python}' not found."
        )));
    }
    let mut words = vec![python, "-c".to_owned(), code.to_owned()];
    words.extend(args.iter().map(|arg| (*arg).to_owned()));
    let options = Map::new().with("python_shell", false);
    let done = run_all_with(cx, &words.into(), &options)?;
    let text = |key| done.get(key).map(Value::to_text).unwrap_or_default();
    if done.get("retcode").and_then(Value::as_int) == Some(0) {
        return Ok(text("stdout").into());
    }
    Err(Error::refused(format!(
        "{}\n{}",
        text("stdout"),
        text("stderr")
    )))
}

fn get_site_packages(cx: &Exec, args: GetSitePackages) -> Result<Value, Error> {
    let code = "import sysconfig; print(sysconfig.get_path('purelib'))";
    ask(cx, &args.venv, code, &[])
}

fn get_distribution_path(cx: &Exec, args: GetDistributionPath) -> Result<Value, Error> {
    let code =
        "import sys, importlib.metadata as m; print(m.distribution(sys.argv[1]).locate_file(''))";
    ask(cx, &args.venv, code, &[&args.distribution])
}

/// Python code that finds the path of a package's file, with or without `pkg_resources`.
const RESOURCE: &str = "import sys, importlib.util as u, os
found = u.find_spec(sys.argv[1])
if found is None: sys.exit('No module named ' + sys.argv[1])
folders = found.submodule_search_locations or [os.path.dirname(found.origin)]
path = os.path.join(folders[0], sys.argv[2])
";

/// Runs code with the name of a package and the path of a file in it.
fn of_package(
    cx: &Exec,
    venv: &str,
    code: &str,
    package: Option<String>,
    resource: Option<String>,
) -> Result<Value, Error> {
    let package = package.ok_or_else(|| Error::missing("package"))?;
    let resource = resource.ok_or_else(|| Error::missing("resource"))?;
    ask(cx, venv, code, &[&package, &resource])
}

fn get_resource_path(cx: &Exec, args: GetResourcePath) -> Result<Value, Error> {
    let code = format!("{RESOURCE}print(path)");
    of_package(cx, &args.venv, &code, args.package, args.resource)
}

fn get_resource_content(cx: &Exec, args: GetResourceContent) -> Result<Value, Error> {
    let code = format!("{RESOURCE}print(open(path).read())");
    of_package(cx, &args.venv, &code, args.package, args.resource)
}

/// Returns the numbers of a version in the output of `virtualenv --version`, with or without other
/// words around it.
fn parts_of(said: &str) -> Option<Vec<i64>> {
    let is_number = |word: &&str| word.len() > 1 && word.starts_with(|c: char| c.is_ascii_digit());
    let version: String = said.split_whitespace().filter(is_number).collect();
    let ends = ["rc", "+ds"].into_iter();
    let end = ends.filter_map(|end| version.find(end)).min();
    let version = version.get(..end.unwrap_or(version.len()))?;
    version.split('.').map(|part| part.parse().ok()).collect()
}

fn virtualenv_ver(cx: &Exec, args: VirtualenvVer) -> Result<Value, Error> {
    let cmd = Value::list([args.venv_bin.into(), "--version".into()]);
    let options = args
        .kwargs
        .with("runas", args.user)
        .with("python_shell", false)
        .with("redirect_stderr", true);
    let ret = run_all_with(cx, &cmd, &options)?;
    let said = ret.get("stdout").map(Value::to_text).unwrap_or_default();
    let is_done = ret.get("retcode").and_then(Value::as_int) == Some(0);
    let parts = parts_of(&said).filter(|_| is_done);
    let parts = parts.ok_or_else(|| {
        Error::refused(format!(
            "Unable to get the virtualenv version output using '{}'. Returned data: {}",
            value::python::repr(&cmd),
            value::python::repr(&ret.into())
        ))
    })?;
    Ok(parts.into())
}
