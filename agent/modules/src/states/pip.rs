//! The `pip` state module.

use machine::accounts;
use python::pep440::{Requirement, Version, fulfils, normalized};
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::pip::{Pip, install};

state::state_module! {
    /// Install Python packages with pip.
    mod pip;

    /// Make sure that packages are installed.
    ///
    ///     requests:
    ///       pip.installed:
    ///         - bin_env: /srv/app/venv
    fn installed(Installed {
        /// The package, with conditions on its version.
        name: String,
        /// A list of packages, instead of `name`.
        pkgs: Value = Value::Null,
        /// The same as `bin_env`.
        pip_bin: Option<String> = None,
        /// Requirements files, instead of packages.
        requirements: Value = Value::Null,
        /// A virtual environment, or the path of pip or Python in one.
        bin_env: Option<String> = None,
        /// True to use wheels, with pip 1.4 to 9. This and the following arguments are those of
        /// `pip.install`.
        use_wheel: bool = false,
        /// True to not use wheels, with pip 1.4 to 9.
        no_use_wheel: bool = false,
        /// The file that pip logs to.
        log: Value = Value::Null,
        /// The address of a proxy.
        proxy: Value = Value::Null,
        /// The timeout of a connection in seconds.
        timeout: Value = Value::Null,
        /// Accepted but ignored, as in Salt.
        repo: Value = Value::Null,
        /// Folders or repositories to install in editable mode.
        editable: Value = Value::Null,
        /// Folders or pages with archives.
        find_links: Value = Value::Null,
        /// The URL of the index.
        index_url: Option<String> = None,
        /// The URL of a second index.
        extra_index_url: Option<String> = None,
        /// True to use no index.
        no_index: Value = false.into(),
        /// Mirrors, with pip before 7.
        mirrors: Value = Value::Null,
        /// The folder to build in.
        build: Value = Value::Null,
        /// The folder to install into.
        target: Value = Value::Null,
        /// The folder to download to, with old versions of pip.
        download: Value = Value::Null,
        /// The folder of the cache.
        download_cache: Value = Value::Null,
        /// The folder for editable sources.
        source: Value = Value::Null,
        /// True to upgrade to the newest version that fits.
        upgrade: bool = false,
        /// True to reinstall packages that are installed already.
        force_reinstall: bool = false,
        /// True to ignore packages that are installed already.
        ignore_installed: bool = false,
        /// The action if a path exists already.
        exists_action: Value = Value::Null,
        /// True to skip dependencies.
        no_deps: Value = false.into(),
        /// True to download only, with old versions of pip.
        no_install: Value = false.into(),
        /// True to install only what was downloaded, with old versions of pip.
        no_download: Value = false.into(),
        /// Options for `setup.py install`.
        install_options: Value = Value::Null,
        /// Options for `setup.py`.
        global_options: Value = Value::Null,
        /// The user who runs pip.
        user: Option<String> = None,
        /// The directory to run it in.
        cwd: Option<String> = None,
        /// True to allow prerelease versions.
        pre_releases: Value = false.into(),
        /// A file of certificates.
        cert: Value = Value::Null,
        /// True to allow all externally hosted packages, with old versions of pip.
        allow_all_external: Value = false.into(),
        /// Packages that may be hosted externally, with old versions of pip.
        allow_external: Value = Value::Null,
        /// Packages that need not be verified, with old versions of pip.
        allow_unverified: Value = Value::Null,
        /// True to process dependency links, with old versions of pip.
        process_dependency_links: Value = false.into(),
        /// Environment variables for pip.
        env_vars: Option<Map> = None,
        /// Accepted but ignored: there is no terminal.
        use_vt: bool = false,
        /// A host that does not need a valid certificate.
        trusted_host: Value = Value::Null,
        /// True to disable the cache.
        no_cache_dir: Value = false.into(),
        /// The folder of the cache.
        cache_dir: Value = Value::Null,
        /// Packages that are not installed from wheels.
        no_binary: Value = Value::Null,
        /// More arguments for pip.
        extra_args: Value = Value::Null,
        ..kwargs
    });

    /// Make sure that a package is not installed.
    ///
    ///     requests:
    ///       pip.removed:
    ///         - bin_env: /srv/app/venv
    fn removed(Removed {
        /// The package.
        name: String,
        /// Requirements files. This and the following arguments are those of `pip.uninstall`.
        requirements: Value = Value::Null,
        /// A virtual environment, or the path of pip or Python in one.
        bin_env: Option<String> = None,
        /// The file that pip logs to.
        log: Value = Value::Null,
        /// The address of a proxy.
        proxy: Value = Value::Null,
        /// The timeout of a connection in seconds.
        timeout: Value = Value::Null,
        /// The user who runs pip.
        user: Option<String> = None,
        /// The directory to run it in.
        cwd: Option<String> = None,
        /// Accepted but ignored: there is no terminal.
        use_vt: bool = false,
    });

    /// Upgrade all packages.
    ///
    ///     /srv/app/venv:
    ///       pip.uptodate:
    ///         - bin_env: /srv/app/venv
    fn uptodate(Uptodate {
        /// Any name.
        name: String,
        /// A virtual environment, or the path of pip or Python in one.
        bin_env: Option<String> = None,
        /// The user who runs pip.
        user: Option<String> = None,
        /// The directory to run it in.
        cwd: Option<String> = None,
        /// Accepted but ignored: there is no terminal.
        use_vt: bool = false,
    });
}

/// A requested package.
struct Requested {
    /// The package as the user wrote it.
    text: String,
    requirement: Requirement,
}

fn installed(cx: &Exec, args: Installed) -> Result<Ret, Error> {
    let packages = match &args.pkgs {
        Value::List(items) => items.iter().map(written).collect(),
        pkgs if !pkgs.is_true() => vec![args.name.clone()],
        _ => return Ok(Ret::failed("pkgs argument must be formatted as a list")),
    };
    let name = packages.join(";");
    let ret = ensured(cx, args, packages)?;
    Ok(Ret {
        name: Some(name),
        ..ret
    })
}

/// Returns the text of a list item, which is a text or a name with conditions.
fn written(item: &Value) -> String {
    match item.as_map().and_then(Map::first) {
        Some((name, conditions)) => format!("{} {}", name.to_text(), conditions.to_text()),
        None => item.to_text(),
    }
}

fn ensured(cx: &Exec, args: Installed, packages: Vec<String>) -> Result<Ret, Error> {
    let pip = Pip {
        bin_env: args
            .bin_env
            .clone()
            .or_else(|| args.pip_bin.clone())
            .filter(|bin_env| !bin_env.is_empty()),
        user: args.user.clone(),
        cwd: args.cwd.clone(),
        env_vars: args.env_vars.clone().unwrap_or_default(),
        options: args.kwargs.clone(),
    };
    let version = match pip.version(cx) {
        Ok(version) => version,
        Err(error) => {
            let name = &args.name;
            return Ok(Ret::failed(format!("Error installing '{name}': {error}")));
        }
    };
    let no_binary = args.no_binary.is_true();
    if let Some(problem) =
        install::unsupported(args.use_wheel, args.no_use_wheel, no_binary, &version)
    {
        return Ok(Ret::failed(problem));
    }
    let by_files = args.requirements.is_true() || args.editable.is_true();
    let requested = if by_files {
        Vec::new()
    } else {
        match parsed(packages) {
            Ok(requested) => requested,
            Err(problems) => return Ok(Ret::failed(problems)),
        }
    };
    if let Some(user) = args.user.as_deref().filter(|user| !user.is_empty())
        && accounts::user(user).is_none()
    {
        return Ok(Ret::failed(format!("User {user} does not exist")));
    }
    if by_files {
        return from_files(cx, &pip, args);
    }
    from_index(cx, &pip, args, &requested)
}

/// Parses the packages. Returns an error text that names all that are not valid.
fn parsed(packages: Vec<String>) -> Result<Vec<Requested>, String> {
    let (mut requested, mut problems) = (Vec::new(), Vec::new());
    for text in packages {
        match Requirement::parse(&text) {
            Ok(requirement) => requested.push(Requested { text, requirement }),
            Err(_) if text.contains('=') && !text.contains("==") => problems.push(format!(
                "Invalid version specification in package {text}. '=' is not supported, use '==' instead."
            )),
            Err(problem) => problems.push(format!(
                "pip raised an exception while parsing '{text}': {problem}"
            )),
        }
    }
    if problems.is_empty() {
        Ok(requested)
    } else {
        Err(problems.join("\n"))
    }
}

fn retcode(done: &Map) -> i64 {
    done.get("retcode").and_then(Value::as_int).unwrap_or(1)
}

fn text(done: &Map, key: &str) -> String {
    done.get(key).map(Value::to_text).unwrap_or_default()
}

/// Returns pip's output after a failure.
fn failure(done: &Map) -> String {
    if done.contains("stdout") {
        format!("Error: {} {}", text(done, "stdout"), text(done, "stderr"))
    } else {
        format!("Error: {}", text(done, "comment"))
    }
}

/// Calls `pip.install`.
fn call_install(cx: &Exec, pip: &Pip, args: Installed, pkgs: Vec<String>) -> Result<Map, Error> {
    let kwargs = [
        ("pkgs", pkgs.into()),
        ("requirements", args.requirements),
        ("bin_env", pip.bin_env.clone().into()),
        ("use_wheel", args.use_wheel.into()),
        ("no_use_wheel", args.no_use_wheel.into()),
        ("no_binary", args.no_binary),
        ("log", args.log),
        ("proxy", args.proxy),
        ("timeout", args.timeout),
        ("editable", args.editable),
        ("find_links", args.find_links),
        ("index_url", args.index_url.into()),
        ("extra_index_url", args.extra_index_url.into()),
        ("no_index", args.no_index),
        ("mirrors", args.mirrors),
        ("build", args.build),
        ("target", args.target),
        ("download", args.download),
        ("download_cache", args.download_cache),
        ("source", args.source),
        ("upgrade", args.upgrade.into()),
        ("force_reinstall", args.force_reinstall.into()),
        ("ignore_installed", args.ignore_installed.into()),
        ("exists_action", args.exists_action),
        ("no_deps", args.no_deps),
        ("no_install", args.no_install),
        ("no_download", args.no_download),
        ("install_options", args.install_options),
        ("global_options", args.global_options),
        ("user", args.user.into()),
        ("cwd", args.cwd.into()),
        ("pre_releases", args.pre_releases),
        ("cert", args.cert),
        ("allow_all_external", args.allow_all_external),
        ("allow_external", args.allow_external),
        ("allow_unverified", args.allow_unverified),
        ("process_dependency_links", args.process_dependency_links),
        ("saltenv", cx.saltenv.as_str().into()),
        ("env_vars", args.env_vars.into()),
        ("use_vt", args.use_vt.into()),
        ("trusted_host", args.trusted_host),
        ("no_cache_dir", args.no_cache_dir),
        ("cache_dir", args.cache_dir),
        ("extra_args", args.extra_args),
        ("disable_version_check", true.into()),
    ];
    let mut kwargs: Map = kwargs.into_iter().collect();
    kwargs.update(args.kwargs);
    match cx.call_internal("pip.install", Vec::new(), kwargs)? {
        Value::Map(done) => Ok(done),
        _ => Ok(Map::new()),
    }
}

/// Installs from requirements files and editable sources. pip itself determines what is to be done.
fn from_files(cx: &Exec, pip: &Pip, args: Installed) -> Result<Ret, Error> {
    let (requirements, editable) = (args.requirements.clone(), args.editable.clone());
    let has = |value: &Value| value.is_true();
    let shown = |value: &Value| value.to_text();
    let mut comments = Vec::new();
    if has(&requirements) {
        let files = shown(&requirements);
        comments.push(format!("Requirements file '{files}' will be processed."));
    }
    if has(&editable) {
        comments.push(format!(
            "Package will be installed in editable mode (i.e. setuptools \"develop mode\") from {}.",
            shown(&editable)
        ));
    }
    cx.apply(Ret::would(comments.join(" ")), || {
        let done = call_install(cx, pip, args, Vec::new())?;
        if retcode(&done) == 0 {
            return Ok(processed(&done, &requirements, &editable));
        }
        let mut comments = Vec::new();
        if has(&requirements) {
            let files = shown(&requirements);
            comments.push(format!("Unable to process requirements file \"{files}\""));
        }
        if has(&editable) {
            let source = shown(&editable);
            comments.push(format!("Unable to install from VCS checkout {source}."));
        }
        comments.push(failure(&done));
        Ok(Ret::failed(comments.join(" ")))
    })
}

/// The beginnings of the lines of pip's output that report no change.
const UNCHANGED: &[&str] = &[
    "Requirement already satisfied",
    "Requirement already up-to-date",
    "Requirement not upgraded",
    "Collecting",
    "Cloning",
    "Cleaning up...",
    "Looking in indexes",
];

fn processed(done: &Map, requirements: &Value, editable: &Value) -> Ret {
    let (mut changes, mut comments) = (Map::new(), Vec::new());
    if requirements.is_true() {
        let stdout = text(done, "stdout");
        let is_change = |line: &str| !UNCHANGED.iter().any(|start| line.trim().starts_with(start));
        if stdout.split('\n').any(is_change) {
            changes.insert("requirements", true);
            let files = requirements.to_text();
            comments.push(format!("Successfully processed requirements file {files}."));
        } else {
            comments.push("Requirements were already installed.".into());
        }
    }
    if editable.is_true() {
        changes.insert("editable", true);
        let source = editable.to_text();
        comments.push(format!(
            "Package successfully installed from VCS checkout {source}."
        ));
    }
    Ret::ok(comments.join(" ")).changes(changes)
}

fn from_index(
    cx: &Exec,
    pip: &Pip,
    args: Installed,
    requested: &[Requested],
) -> Result<Ret, Error> {
    let now = pip.list(cx, None)?;
    let (mut missing, mut there) = (Vec::new(), String::new());
    for package in requested {
        match already_installed(cx, pip, &args, &now, package)? {
            Some(comment) => there.push_str(&format!("{comment}\n")),
            None => missing.push(package),
        }
    }
    if missing.is_empty() {
        let and = if args.upgrade { " and up-to-date" } else { "" };
        return Ok(Ret::ok(format!(
            "{there}All specified packages are already installed{and}"
        )));
    }
    let would = match (requested, missing.first()) {
        ([_], Some(one)) => format!("Python package {} is set to be installed", one.text),
        _ => {
            let names: Vec<&str> = requested
                .iter()
                .map(|package| package.text.as_str())
                .collect();
            let names = names.join("\n");
            format!("Python package(s) set to be installed:\n{names}")
        }
    };
    cx.apply(Ret::would(would), || {
        let pkgs = missing.iter().map(|package| package.text.replace(',', ";"));
        let pkgs: Vec<String> = pkgs.collect();
        let done = call_install(cx, pip, args, pkgs.clone())?;
        if retcode(&done) != 0 {
            return Ok(Ret::failed(format!(
                "{there}Failed to install packages: {}. {}",
                pkgs.join(", "),
                failure(&done)
            )));
        }
        outcome(cx, pip, &missing, &done, &there)
    })
}

/// Returns the comment that a package is installed already, or `None` if it must be installed.
fn already_installed(
    cx: &Exec,
    pip: &Pip,
    args: &Installed,
    now: &Map,
    package: &Requested,
) -> Result<Option<String>, Error> {
    let conditions = &package.requirement.conditions;
    let Some(name) = &package.requirement.name else {
        return Ok(None);
    };
    let Some(version) = now.get(name).map(Value::to_text) else {
        return Ok(None);
    };
    if args.ignore_installed || args.force_reinstall {
        return Ok(None);
    }
    let already = || {
        let text = &package.text;
        Some(format!("Python package {text} was already installed"))
    };
    if !args.upgrade {
        return Ok(already().filter(|_| fulfils(&version, conditions)));
    }
    let named = |letter: &&str| !conditions.iter().any(|one| one.version.contains(*letter));
    let left_out: Vec<&str> = ["a", "b", "rc"].into_iter().filter(named).collect();
    let indexes = (args.index_url.as_deref(), args.extra_index_url.as_deref());
    let available = pip.all_versions(cx, name, &left_out, indexes)?;
    let newest = available.iter().rev().find(|one| fulfils(one, conditions));
    Ok(match newest {
        None => Some(format!(
            "Python package {name} was already installed and\nthe available upgrade doesn't fulfills the version requirements"
        )),
        Some(newest) if Version::parse(newest) == Version::parse(&version) => already(),
        Some(_) => None,
    })
}

/// Lists the packages again, and returns the result of an installation.
fn outcome(
    cx: &Exec,
    pip: &Pip,
    missing: &[&Requested],
    done: &Map,
    there: &str,
) -> Result<Ret, Error> {
    let satisfied = satisfied(&text(done, "stdout"));
    let now = pip.list(cx, None)?;
    let (mut changes, mut problems) = (Map::new(), Vec::new());
    for package in missing {
        let shown = package.text.replace(',', ";");
        let Some(name) = &package.requirement.name else {
            changes.insert(format!("{shown}==???"), "Installed");
            continue;
        };
        match now.get(name) {
            Some(version) if !satisfied.contains(name) => {
                changes.insert(format!("{name}=={}", version.to_text()), "Installed");
            }
            Some(_) => {}
            None => problems.push(format!(
                "There was no error installing package '{}' although it does not show when calling 'pip.freeze'.",
                package.text
            )),
        }
    }
    let comment = if problems.is_empty() {
        "All packages were successfully installed".to_owned()
    } else {
        problems.join("\n")
    };
    Ok(Ret::ok(format!("{there}{comment}")).changes(changes))
}

/// Returns the packages that were installed already, according to pip's output.
fn satisfied(stdout: &str) -> Vec<String> {
    let starts = [
        "Requirement already satisfied: ",
        "Requirement already up-to-date: ",
    ];
    let named = stdout
        .lines()
        .filter_map(|line| starts.iter().find_map(|start| line.strip_prefix(start)));
    named
        .filter_map(|rest| rest.split_whitespace().next())
        .filter_map(|word| word.split(['=', '!', '<', '>', '~', '@']).next())
        .map(normalized)
        .collect()
}

fn removed(cx: &Exec, args: Removed) -> Result<Ret, Error> {
    let name = &args.name;
    let pip = Pip {
        bin_env: args.bin_env.clone().filter(|bin_env| !bin_env.is_empty()),
        user: args.user.clone(),
        cwd: args.cwd.clone(),
        ..Pip::default()
    };
    let now = match pip.list(cx, None) {
        Ok(now) => now,
        Err(error) => {
            return Ok(Ret::failed(format!("Error uninstalling '{name}': {error}")));
        }
    };
    if !now.contains(&normalized(name)) {
        return Ok(Ret::ok("Package is not installed."));
    }
    let would = Ret::would(format!("Package {name} is set to be removed"));
    cx.apply(would, || {
        let kwargs = [
            ("pkgs", Value::from(name)),
            ("requirements", args.requirements.clone()),
            ("bin_env", args.bin_env.clone().into()),
            ("log", args.log.clone()),
            ("proxy", args.proxy.clone()),
            ("timeout", args.timeout.clone()),
            ("user", args.user.clone().into()),
            ("cwd", args.cwd.clone().into()),
        ];
        let kwargs = kwargs.into_iter().collect();
        let done = cx.call_internal("pip.uninstall", Vec::new(), kwargs)?;
        let done = done.as_map().cloned().unwrap_or_default();
        if retcode(&done) == 0 {
            return Ok(Ret::ok("Package was successfully removed.").change(name, "Removed"));
        }
        let problem = failure(&done);
        Ok(Ret::failed(format!("Could not remove package. {problem}")))
    })
}

fn uptodate(cx: &Exec, args: Uptodate) -> Result<Ret, Error> {
    let kwargs = [
        ("bin_env", Value::from(args.bin_env)),
        ("user", args.user.into()),
        ("cwd", args.cwd.into()),
    ];
    let kwargs: Map = kwargs.into_iter().collect();
    let packages = match cx.call_internal("pip.list_upgrades", Vec::new(), kwargs.clone()) {
        Ok(packages) => packages,
        Err(error) => return Ok(Ret::failed(error.to_string())),
    };
    if !packages.is_true() {
        return Ok(Ret::ok("System is already up-to-date."));
    }
    cx.apply(Ret::would("System update will be performed"), || {
        let done = cx.call_internal("pip.upgrade", Vec::new(), kwargs)?;
        if done.get("result") == Some(&false.into()) {
            let comment = done.get("comment").map(Value::to_text).unwrap_or_default();
            let changes = done.get("changes").cloned().unwrap_or_default();
            return Ok(Ret::failed(comment).changes(changes));
        }
        Ok(Ret::ok("Upgrade successful.").changes(done))
    })
}
