//! The `pyenv` state module, and the code that it shares with `rbenv`.

use state::exec::Exec;
use state::module::{Error, Ret};

use crate::exec::pyenv::{PYENV, Versioned};

state::state_module! {
    /// Manage several versions of Python (`pyenv`).
    mod pyenv;

    /// Make sure that a version of Python is installed. A missing pyenv is installed too.
    ///
    ///     python-3.12.4:
    ///       pyenv.installed:
    ///         - default: True
    fn installed(Installed {
        /// The version.
        name: String,
        /// True to make it the default version.
        default: bool = false,
        /// The user. Default: for all users.
        user: Option<String> = None,
    });

    /// Make sure that a version of Python is not installed.
    ///
    ///     python-3.8.20:
    ///       pyenv.absent
    fn absent(Absent {
        /// The version.
        name: String,
        /// The user. Default: for all users.
        user: Option<String> = None,
    });

    /// Make sure that pyenv is installed.
    ///
    ///     /opt/pyenv:
    ///       pyenv.install_pyenv:
    ///         - user: deploy
    fn install_pyenv(InstallPyenv {
        /// Any name.
        name: String,
        /// The user. Default: for all users.
        user: Option<String> = None,
    });
}

/// The texts of the two modules, which differ in their wording.
pub(super) struct Words {
    /// The program at the start of a sentence.
    pub(super) program: &'static str,
    /// The language at the start of a sentence.
    pub(super) language: &'static str,
    pub(super) exists: &'static str,
    pub(super) not_installed: &'static str,
    /// True if test mode checks the current state.
    pub(super) looks: bool,
}

const WORDS: Words = Words {
    program: "pyenv",
    language: "python",
    exists: "Requested python exists.",
    not_installed: "Could not install python.",
    looks: false,
};

/// Returns the result for an installed version, or `None` if the version is not installed.
fn existing(one: &Versioned<'_>, words: &Words, version: &str) -> Result<Option<Ret>, Error> {
    let default = one.default_version()?;
    let is_there = one.versions()?.iter().any(|there| there == version);
    Ok(is_there.then(|| Ret::ok(words.exists).with("default", default == version)))
}

/// Returns the result of test mode for a version. `be` is the word for the wanted state.
fn foretold(
    one: &Versioned<'_>,
    words: &Words,
    version: &str,
    be: &str,
    wanted: bool,
) -> Result<Ret, Error> {
    let language = words.language;
    let would = Ret::would(format!("{language} {version} is set to be {be}"));
    if !words.looks {
        return Ok(would);
    }
    Ok(match existing(one, words, version)? {
        Some(ret) if wanted => Ret {
            comment: format!("{language} {version} is already {be}"),
            ..ret
        },
        Some(ret) => Ret {
            extra: ret.extra,
            ..would
        },
        None if wanted => would,
        None => Ret::ok(format!("{language} {version} is already {be}")),
    })
}

/// Makes sure that a version is installed.
pub(super) fn version_installed(
    one: &Versioned<'_>,
    words: &Words,
    cx: &Exec,
    name: &str,
    default: bool,
) -> Result<Ret, Error> {
    let version = one.plain(name);
    if cx.test {
        return foretold(one, words, version, "installed", true);
    }
    if !one.is_installed() && !one.install()? {
        return Ok(Ret::failed(format!("{} failed to install", words.program)));
    }
    let ret = match existing(one, words, version)? {
        Some(ret) => ret,
        None if one.install_version(version)? == false.into() => {
            return Ok(Ret::failed(words.not_installed));
        }
        None => {
            let comment = format!("Successfully installed {}", one.kind.language);
            let ret = Ret::ok(comment).change(version, "Installed");
            ret.with("default", default)
        }
    };
    if default {
        one.use_version(version)?;
    }
    Ok(ret)
}

/// Makes sure that a version is not installed.
pub(super) fn version_absent(
    one: &Versioned<'_>,
    words: &Words,
    cx: &Exec,
    name: &str,
) -> Result<Ret, Error> {
    let (version, program) = (one.plain(name), words.program);
    if cx.test && !words.looks {
        return foretold(one, words, version, "uninstalled", false);
    }
    if !one.is_installed() {
        return Ok(Ret::ok(format!(
            "{program} not installed, {version} not either"
        )));
    }
    if cx.test {
        return foretold(one, words, version, "uninstalled", false);
    }
    let Some(ret) = existing(one, words, version)? else {
        let language = words.language;
        return Ok(Ret::ok(format!("{language} {version} is already absent")));
    };
    if ret.extra.get("default") == Some(&true.into()) {
        one.use_version("system")?;
    }
    one.uninstall_version(version)?;
    let comment = format!("Successfully removed {}", one.kind.language);
    Ok(Ret {
        comment,
        ..ret.change(version, "Uninstalled")
    })
}

/// Makes sure that the program itself is installed.
pub(super) fn program_installed(
    one: &Versioned<'_>,
    words: &Words,
    cx: &Exec,
) -> Result<Ret, Error> {
    let program = words.program;
    if one.is_installed() {
        return Ok(Ret::ok(format!("{program} is already installed")));
    }
    let would = Ret::would(format!("{program} is set to be installed"));
    cx.apply(would, || {
        Ok(match one.install()? {
            true => Ret::ok(format!("{program} installed")),
            false => Ret::failed(format!("{program} failed to install")),
        })
    })
}

fn installed(cx: &Exec, args: Installed) -> Result<Ret, Error> {
    let one = Versioned::from_config(cx, PYENV, args.user)?;
    version_installed(&one, &WORDS, cx, &args.name, args.default)
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let one = Versioned::from_config(cx, PYENV, args.user)?;
    version_absent(&one, &WORDS, cx, &args.name)
}

fn install_pyenv(cx: &Exec, args: InstallPyenv) -> Result<Ret, Error> {
    program_installed(&Versioned::from_config(cx, PYENV, args.user)?, &WORDS, cx)
}
