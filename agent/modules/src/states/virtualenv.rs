//! The `virtualenv` state module.

use std::path::Path;

use python::path;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::pip::{Pip, install};
use crate::fileserver::fetch;

state::state_module! {
    /// Manage Python virtual environments.
    mod virtualenv;

    /// Make sure that a virtual environment exists, with the given packages.
    ///
    ///     /srv/app/venv:
    ///       virtualenv.managed:
    ///         - requirements: /srv/app/requirements.txt
    fn managed(Managed {
        #[group] environment: Environment,
        ..kwargs
    });

    /// The same as `virtualenv.managed`, under an old name.
    ///
    ///     /srv/app/venv:
    ///       virtualenv.manage:
    ///         - requirements: /srv/app/requirements.txt
    fn manage(Manage {
        #[group] environment: Environment,
        ..kwargs
    });
}

state::argument_group! {
    /// The virtual environment and its packages.
    pub(crate) struct Environment {
        /// The folder of the environment.
        name: String,
        /// The program that creates it, as in `virtualenv.create`.
        venv_bin: Value = Value::Null,
        /// A requirements file.
        requirements: Value = Value::Null,
        /// True to give it access to the packages of the system.
        system_site_packages: Value = false.into(),
        /// True to use distribute, with old versions of virtualenv.
        distribute: Value = false.into(),
        /// True to use wheels, with pip 1.4 to 9.
        use_wheel: bool = false,
        /// True to clear an existing environment.
        clear: bool = false,
        /// The Python interpreter of the environment.
        python: Value = Value::Null,
        /// Folders with wheels.
        extra_search_dir: Value = Value::Null,
        /// True to never download pip and similar packages.
        never_download: Value = Value::Null,
        /// The text that the shell's prompt shows.
        prompt: Value = Value::Null,
        /// The user who creates the environment.
        user: Value = Value::Null,
        /// The directory to run pip in.
        cwd: Option<String> = None,
        /// The URL of the index.
        index_url: Value = Value::Null,
        /// The URL of a second index.
        extra_index_url: Value = Value::Null,
        /// True to allow prerelease versions.
        pre_releases: Value = false.into(),
        /// True to skip dependencies.
        no_deps: Value = false.into(),
        /// The folder to download to, with old versions of pip.
        pip_download: Value = Value::Null,
        /// The folder of pip's cache.
        pip_download_cache: Value = Value::Null,
        /// The action of pip if a path exists already.
        pip_exists_action: Value = Value::Null,
        /// True to ignore packages that are installed already.
        pip_ignore_installed: Value = false.into(),
        /// The address of a proxy.
        proxy: Value = Value::Null,
        /// Accepted but ignored: there is no terminal.
        use_vt: bool = false,
        /// Environment variables for pip.
        env_vars: Value = Value::Null,
        /// True to not use wheels, with pip 1.4 to 9.
        no_use_wheel: bool = false,
        /// True to upgrade packages to the newest version.
        pip_upgrade: Value = false.into(),
        /// The packages to install.
        pip_pkgs: Value = Value::Null,
        /// True to disable the cache.
        pip_no_cache_dir: Value = false.into(),
        /// The folder of pip's cache.
        pip_cache_dir: Value = Value::Null,
        /// True to process dependency links, with old versions of pip.
        process_dependency_links: Value = false.into(),
        /// Packages that are not installed from wheels.
        no_binary: Value = Value::Null,
    }
}

fn managed(cx: &Exec, args: Managed) -> Result<Ret, Error> {
    made(cx, args.environment, args.kwargs)
}

fn manage(cx: &Exec, args: Manage) -> Result<Ret, Error> {
    made(cx, args.environment, args.kwargs)
}

fn made(cx: &Exec, args: Environment, kwargs: Map) -> Result<Ret, Error> {
    let name = args.name.clone();
    if let Some(url) = args
        .requirements
        .as_str()
        .filter(|url| url.starts_with("salt://"))
        && fetch::salt_file(cx, url, &cx.saltenv)?.is_none()
    {
        return Ok(Ret::failed(format!(
            "pip requirements file '{url}' not found"
        )));
    }
    let there = Path::new(&name).join("bin/python").exists();
    let pip = Pip {
        bin_env: Some(name.clone()),
        ..Pip::default()
    };
    let mut changes = Map::new();
    if there && args.clear {
        changes.insert("cleared_packages", pip.freeze(cx)?);
        changes.insert("old", python_version(cx, &name)?);
    }
    let would = match (there, args.clear) {
        (true, false) if cx.test => {
            return Ok(Ret::ok(format!("Virtualenv {name} is already created")));
        }
        (true, true) => format!("Virtualenv {name} is set to be cleared"),
        _ => format!("Virtualenv {name} is set to be created"),
    };
    cx.apply(Ret::would(would).changes(changes.clone()), || {
        let mut comment = "virtualenv exists";
        if !there || args.clear {
            if let Some(problem) = create(cx, &args, &kwargs)? {
                return Ok(Ret::failed(problem).changes(changes));
            }
            changes.insert("new", python_version(cx, &name)?);
            comment = if args.clear {
                "Cleared existing virtualenv"
            } else {
                "Created new virtualenv"
            };
        }
        let ret = Ret::ok(comment).changes(changes);
        if let Some(problem) = unsupported(cx, &args, &pip)? {
            return Ok(Ret {
                result: Some(false),
                comment: problem,
                ..ret
            });
        }
        if args.requirements.is_true() || args.pip_pkgs.is_true() {
            return filled(cx, args, kwargs, &pip, ret);
        }
        Ok(ret)
    })
}

/// Returns the version that Python prints on the standard error. Current versions of Python print
/// nothing there.
fn python_version(cx: &Exec, folder: &str) -> Result<Value, Error> {
    let command = Value::from(format!("{folder}/bin/python -V"));
    cx.call_internal("cmd.run_stderr", vec![command], Map::new())
}

/// Creates the environment. Returns the output of the program if it failed.
fn create(cx: &Exec, args: &Environment, more: &Map) -> Result<Option<String>, Error> {
    let kwargs = [
        ("venv_bin", args.venv_bin.clone()),
        ("system_site_packages", args.system_site_packages.clone()),
        ("distribute", args.distribute.clone()),
        ("clear", args.clear.into()),
        ("python", args.python.clone()),
        ("extra_search_dir", args.extra_search_dir.clone()),
        ("never_download", args.never_download.clone()),
        ("prompt", args.prompt.clone()),
        ("user", args.user.clone()),
        ("use_vt", args.use_vt.into()),
    ];
    let mut kwargs: Map = kwargs.into_iter().collect();
    kwargs.update(more.clone());
    let done = cx.call_internal("virtualenv.create", vec![args.name.as_str().into()], kwargs)?;
    let text = |key| done.get(key).map(Value::to_text).unwrap_or_default();
    let failed = done.get("retcode") != Some(&0.into());
    Ok(failed.then(|| text("stdout") + &text("stderr")))
}

/// Returns an error text if this version of pip does not support one of the arguments.
fn unsupported(cx: &Exec, args: &Environment, pip: &Pip) -> Result<Option<String>, Error> {
    if !args.use_wheel && !args.no_use_wheel && !args.no_binary.is_true() {
        return Ok(None);
    }
    let version = pip.version(cx)?;
    Ok(install::unsupported(
        args.use_wheel,
        args.no_use_wheel,
        args.no_binary.is_true(),
        &version,
    ))
}

/// Installs packages into the environment.
fn filled(cx: &Exec, args: Environment, more: Map, pip: &Pip, ret: Ret) -> Result<Ret, Error> {
    let user = args.user.as_str().map(str::to_owned);
    let pip = Pip {
        user,
        ..pip.clone()
    };
    let before = pip.freeze(cx)?;
    let file = args.requirements.as_str().map(str::to_owned);
    let file = file.filter(|file| !file.starts_with("salt://"));
    // For a requirements file with a relative path, pip runs in the folder of the file.
    let cwd = match file.as_deref().and_then(|files| files.split(',').next()) {
        Some(first) if path::abspath(first) != first => {
            Some(path::dirname(&path::abspath(first)).to_owned())
        }
        _ => args.cwd.clone(),
    };
    let kwargs = [
        ("pkgs", args.pip_pkgs),
        ("requirements", args.requirements),
        ("process_dependency_links", args.process_dependency_links),
        ("bin_env", args.name.into()),
        ("use_wheel", args.use_wheel.into()),
        ("no_use_wheel", args.no_use_wheel.into()),
        ("no_binary", args.no_binary),
        ("user", args.user),
        ("cwd", cwd.into()),
        ("index_url", args.index_url),
        ("extra_index_url", args.extra_index_url),
        ("download", args.pip_download),
        ("download_cache", args.pip_download_cache),
        ("pre_releases", args.pre_releases),
        ("exists_action", args.pip_exists_action),
        ("ignore_installed", args.pip_ignore_installed),
        ("upgrade", args.pip_upgrade),
        ("no_deps", args.no_deps),
        ("proxy", args.proxy),
        ("use_vt", args.use_vt.into()),
        ("env_vars", args.env_vars),
        ("no_cache_dir", args.pip_no_cache_dir),
        ("cache_dir", args.pip_cache_dir),
        ("saltenv", cx.saltenv.as_str().into()),
    ];
    let mut kwargs: Map = kwargs.into_iter().collect();
    kwargs.update(more);
    let done = cx.call_internal("pip.install", Vec::new(), kwargs)?;
    let text = |key| done.get(key).map(Value::to_text).unwrap_or_default();
    let after = pip.freeze(cx)?;
    let mut ret = ret;
    if done.get("retcode") != Some(&0.into()) {
        ret.result = Some(false);
        ret.comment = format!("{}\n{}\n{}", ret.comment, text("stdout"), text("stderr"));
    }
    let (new, old) = (without(&after, &before), without(&before, &after));
    if new.is_true() || old.is_true() {
        let packages = Map::new().with("new", new).with("old", old);
        ret = ret.change("packages", packages);
    }
    Ok(ret)
}

/// Returns the lines that `others` does not contain, or an empty text if there are none.
fn without(lines: &[String], others: &[String]) -> Value {
    let own = lines.iter().filter(|line| !others.contains(line));
    let own: Vec<String> = own.cloned().collect();
    if own.is_empty() {
        "".into()
    } else {
        own.into()
    }
}
