//! Implements `pip.install`, `pip.uninstall` and `pip.upgrade`.

use std::path::{Path, PathBuf};

use ::python::path;
use ::python::pep440::at_least;
use machine::accounts;
use machine::fs;
use state::exec::Exec;
use state::module::Error;
use value::pyre::{Flags, Regex};
use value::{Map, Value, log, python, random};

use super::{NO_CHECK, Pip, is_url, refuse_option, valid_url};
use crate::exec::environ;
use crate::fileserver::fetch;

state::exec_module! {
    /// Install Python packages with pip.
    mod pip;

    /// Install packages and return the result of pip.
    ///
    ///     salt-call pip.install requests bin_env=/srv/app/venv
    fn install(Install {
        /// The packages: a list, or a text with commas.
        pkgs: Value = Value::Null,
        /// The requirements files: a list, or a text with commas. `salt://` files are fetched.
        requirements: Value = Value::Null,
        /// A virtual environment, or the path of a pip or Python program in one.
        bin_env: Option<String> = None,
        /// True to prefer wheels; only for pip 1.4 to 9.
        use_wheel: bool = false,
        /// True to use no wheels; only for pip 1.4 to 9.
        no_use_wheel: bool = false,
        /// The file that pip logs to.
        log: Option<String> = None,
        /// A proxy; False ignores the configured proxy.
        proxy: Value = Value::Null,
        /// The timeout of a connection in seconds.
        timeout: Value = Value::Null,
        /// The folders or repositories to install in editable mode.
        editable: Value = Value::Null,
        /// The folders or pages that list archives.
        find_links: Value = Value::Null,
        /// The URL of the index.
        index_url: Option<String> = None,
        /// The URL of an additional index.
        extra_index_url: Option<String> = None,
        /// True to use no index.
        no_index: bool = false,
        /// The mirrors; only for pip before 7.
        mirrors: Value = Value::Null,
        /// The folder to build in.
        build: Option<String> = None,
        /// The folder to install into.
        target: Option<String> = None,
        /// A folder to download into without installing; only for old versions of pip.
        download: Option<String> = None,
        /// The folder of the download cache.
        download_cache: Option<String> = None,
        /// The folder for editable sources.
        source: Option<String> = None,
        /// Upgrade to the newest version.
        upgrade: bool = false,
        /// True to reinstall packages that are already installed.
        force_reinstall: bool = false,
        /// True to ignore packages that are already installed.
        ignore_installed: bool = false,
        /// The action for a path that already exists: `s`, `i`, `w` or `b` (switch, ignore, wipe,
        /// backup).
        exists_action: Option<String> = None,
        /// True to install no dependencies.
        no_deps: bool = false,
        /// True to download without installing; only for old versions of pip.
        no_install: bool = false,
        /// True to download nothing; only for old versions of pip.
        no_download: bool = false,
        /// Options for each call of `setup.py`.
        global_options: Value = Value::Null,
        /// Options for each call of `setup.py install`.
        install_options: Value = Value::Null,
        /// The user who runs pip.
        user: Option<String> = None,
        /// The directory in which pip runs.
        cwd: Option<String> = None,
        /// True to allow pre-release versions.
        pre_releases: bool = false,
        /// The path of a file with certificates.
        cert: Option<String> = None,
        /// True to pass `--allow-all-external`; only for old versions of pip.
        allow_all_external: bool = false,
        /// The packages for `--allow-external`; only for old versions of pip.
        allow_external: Value = Value::Null,
        /// The packages for `--allow-unverified`; only for old versions of pip.
        allow_unverified: Value = Value::Null,
        /// True to pass `--process-dependency-links`; only for old versions of pip.
        process_dependency_links: bool = false,
        /// The environment to fetch `salt://` files from.
        saltenv: String = "base".into(),
        /// Environment variables for pip.
        env_vars: Value = Value::Null,
        /// Accepted and ignored: there is no terminal.
        use_vt: bool = false,
        /// A host that is trusted without a valid certificate.
        trusted_host: Option<String> = None,
        /// True to use no cache.
        no_cache_dir: bool = false,
        /// Additional arguments for pip.
        extra_args: Value = Value::Null,
        /// The folder of the cache.
        cache_dir: Option<String> = None,
        /// The packages that are not installed from wheels.
        no_binary: Value = Value::Null,
        /// True to skip the check for a newer version of pip.
        disable_version_check: bool = false,
        ..kwargs
    });

    /// Remove packages and return the result of pip.
    ///
    ///     salt-call pip.uninstall requests bin_env=/srv/app/venv
    fn uninstall(Uninstall {
        /// The packages: a list, or a text with commas.
        pkgs: Value = Value::Null,
        /// The requirements files whose packages are removed: a list, or a text with commas.
        requirements: Value = Value::Null,
        /// A virtual environment, or the path of a pip or Python program in one.
        bin_env: Option<String> = None,
        /// The file that pip logs to.
        log: Option<String> = None,
        /// A proxy; False ignores the configured proxy.
        proxy: Value = Value::Null,
        /// The timeout of a connection in seconds.
        timeout: Value = Value::Null,
        /// The user who runs pip.
        user: Option<String> = None,
        /// The directory in which pip runs.
        cwd: Option<String> = None,
        /// The environment to fetch `salt://` files from.
        saltenv: String = "base".into(),
        /// Accepted and ignored: there is no terminal.
        use_vt: bool = false,
        /// Additional arguments for pip.
        extra_args: Value = Value::Null,
    });

    /// Upgrade all packages.
    ///
    ///     salt-call pip.upgrade bin_env=/srv/app/venv
    fn upgrade(Upgrade {
        /// A virtual environment, or the path of a pip or Python program in one.
        bin_env: Option<String> = None,
        /// The user who runs pip.
        user: Option<String> = None,
        /// The directory in which pip runs.
        cwd: Option<String> = None,
        /// Accepted and ignored: there is no terminal.
        use_vt: bool = false,
    });
}

/// A builder of the arguments for pip.
#[derive(Default)]
struct Words(Vec<String>);

impl Words {
    fn new(words: &[&str]) -> Self {
        Self(words.iter().map(|word| (*word).to_owned()).collect())
    }

    /// Appends an option and its value, if the value is set and not empty.
    fn option(&mut self, name: &str, value: &Option<String>) {
        if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
            self.pair(name, value);
        }
    }

    fn pair(&mut self, name: &str, value: &str) {
        self.0.extend([name.to_owned(), value.to_owned()]);
    }

    fn flags(&mut self, flags: &[(bool, &str)]) {
        let given = flags.iter().filter(|(given, _)| *given);
        self.0.extend(given.map(|(_, name)| (*name).to_owned()));
    }

    /// Appends an option once for each value of a list.
    fn each(&mut self, name: &str, values: &Value) {
        for value in listed(values) {
            self.pair(name, &value);
        }
    }

    fn extra(&mut self, args: &Value) -> Result<(), Error> {
        let args = match args {
            Value::List(args) | Value::Tuple(args) => args.to_vec(),
            Value::Null => Vec::new(),
            one => vec![one.clone()],
        };
        for arg in args {
            let Some(pairs) = arg.as_map() else {
                self.0.push(arg.to_text());
                continue;
            };
            for (name, value) in pairs {
                let name = name.to_text();
                if value.as_map().is_some() || value.as_list().is_some() {
                    return Err(Error::refused(format!("Too many levels in: {name}")));
                }
                self.pair(&name, &value.to_text());
            }
        }
        Ok(())
    }
}

/// Returns the items of a list, or of a text with commas.
fn listed(value: &Value) -> Vec<String> {
    let trimmed = |text: &str| text.trim().to_owned();
    match value {
        value if !value.is_true() => Vec::new(),
        Value::List(items) | Value::Tuple(items) => items.iter().map(Value::to_text).collect(),
        other => other.to_text().split(',').map(trimmed).collect(),
    }
}

fn install(cx: &Exec, args: Install) -> Result<Value, Error> {
    let pip = Pip {
        env_vars: variables(&args.env_vars)?,
        options: args.kwargs.clone(),
        ..Pip::new(args.bin_env.clone(), args.user.clone(), args.cwd.clone())
    };
    let files = match Files::fetch(cx, &args.requirements, &args.saltenv, &pip)? {
        Ok(files) => files,
        Err(not_found) => return Ok(not_found.into()),
    };
    let mut words = Words::new(&["install"]);
    words.0.extend(files.words());
    let version = pip.version(cx)?;
    old_wheels(&args, &version, &mut words);
    sources(cx, &args, &version, &mut words)?;
    places(cx, &args, &version, &mut words)?;
    let packages = listed(&args.pkgs);
    if packages.is_empty() && !args.requirements.is_true() && !args.editable.is_true() {
        return Ok(Map::new()
            .with("retcode", 0)
            .with("stdout", "No packages to install.")
            .into());
    }
    for package in packages {
        refuse_option(&package)?;
        // In Salt a semicolon replaces the comma of a version range, because commas separate
        // packages.
        words.0.push(package.replace(';', ","));
    }
    last(&args, &mut words)?;
    let done = pip.run(cx, words.0);
    pip.forget_version(cx);
    files.remove(cx)?;
    Ok(done?.into())
}

fn variables(env_vars: &Value) -> Result<Map, Error> {
    match env_vars {
        Value::Map(map) => Ok(map.clone()),
        other if !other.is_true() => Ok(Map::new()),
        other => Err(Error::refused(format!(
            "env_vars {} is not a dictionary",
            other.to_text()
        ))),
    }
}

/// Returns whether this version of pip has options for wheels.
fn has_wheel_options(version: &str) -> bool {
    at_least(version, "1.4") && at_least("9.0.3", version)
}

/// Returns an error text if this version of pip does not support an option that a state uses.
pub(crate) fn unsupported(
    use_wheel: bool,
    no_use_wheel: bool,
    no_binary: bool,
    version: &str,
) -> Option<String> {
    let wheels = use_wheel || no_use_wheel;
    let (name, range) = if wheels && !has_wheel_options(version) {
        let name = if use_wheel {
            "use_wheel"
        } else {
            "no_use_wheel"
        };
        (name, "between 1.4 and 9.0.3")
    } else if no_binary && !at_least(version, "7.0.0") {
        ("no_binary", "7.0.0 and newer")
    } else {
        return None;
    };
    Some(format!(
        "The '{name}' option is only supported in pip {range}. The version of pip detected was {version}."
    ))
}

fn old_wheels(args: &Install, version: &str, words: &mut Words) {
    let wheels = [
        (args.use_wheel, "--use-wheel"),
        (args.no_use_wheel, "--no-use-wheel"),
    ];
    for (_, name) in wheels.into_iter().filter(|(given, _)| *given) {
        if has_wheel_options(version) {
            words.0.push(name.into());
        } else {
            log::error(format_args!(
                "The {name} option is only supported in pip between 1.4 and 9.0.3. The version of pip detected is {version}. This option will be ignored."
            ));
        }
    }
    let no_binary = listed(&args.no_binary).join(",");
    if no_binary.is_empty() {
        return;
    }
    if at_least(version, "7.0.0") {
        words.pair("--no-binary", &no_binary);
    } else {
        log::error(format_args!(
            "The --no-binary option is only supported in pip 7.0.0 and newer. The version of pip detected is {version}. This option will be ignored."
        ));
    }
}

/// Appends the options that say where packages come from.
fn sources(cx: &Exec, args: &Install, version: &str, words: &mut Words) -> Result<(), Error> {
    connection(cx, args.log.as_deref(), &args.proxy, &args.timeout, words)?;
    for link in listed(&args.find_links) {
        if !is_url(&link) && !Path::new(&link).exists() {
            return Err(Error::refused(format!(
                "'{link}' is not a valid URL or path"
            )));
        }
        words.pair("--find-links", &link);
    }
    if args.no_index && (args.index_url.is_some() || args.extra_index_url.is_some()) {
        return Err(
            "'no_index' and ('index_url' or 'extra_index_url') are mutually exclusive.".into(),
        );
    }
    for (name, url) in [
        ("--index-url", &args.index_url),
        ("--extra-index-url", &args.extra_index_url),
    ] {
        if let Some(url) = url.as_deref().filter(|url| !url.is_empty()) {
            valid_url(url)?;
            words.pair(name, url);
        }
    }
    words.flags(&[(args.no_index, "--no-index")]);
    if args.mirrors.is_true() {
        if at_least(version, "7.0.0") {
            return Err("pip >= 7.0.0 does not support mirror argument: use index_url and/or extra_index_url instead".into());
        }
        words.0.push("--use-mirrors".into());
        words.each("--mirrors", &args.mirrors);
    }
    words.flags(&[(args.disable_version_check, NO_CHECK)]);
    Ok(())
}

/// Appends the options that installing and removing packages share.
fn connection(
    cx: &Exec,
    log: Option<&str>,
    proxy: &Value,
    timeout: &Value,
    words: &mut Words,
) -> Result<(), Error> {
    if let Some(log) = log.filter(|log| !log.is_empty()) {
        check_log(log)?;
        words.pair("--log", log);
    }
    if proxy.is_true() {
        words.pair("--proxy", &proxy.to_text());
    } else if *proxy != Value::Bool(false)
        && let Some(proxy) = configured_proxy(cx)
    {
        words.pair("--proxy", &proxy);
    }
    if timeout.is_true() {
        let seconds = timeout.to_text();
        if seconds.parse::<i64>().is_err() {
            return Err(Error::refused(format!(
                "'{seconds}' is not a valid timeout, must be an integer"
            )));
        }
        words.pair("--timeout", &seconds);
    }
    Ok(())
}

fn check_log(log: &str) -> Result<(), Error> {
    let parent = path::dirname(log);
    if path::isdir(log) {
        return Err(Error::refused(format!(
            "'{log}' is a directory. Use --log path_to_file"
        )));
    }
    if !path::exists(log) && !path::exists(parent) {
        return Err(Error::refused(format!(
            "Trying to create '{log}' but parent directory '{parent}' does not exist."
        )));
    }
    Ok(())
}

fn configured_proxy(cx: &Exec) -> Option<String> {
    let option = |name| {
        let value = cx.opts().map.get(name).filter(|value| value.is_true());
        value.map(Value::to_text)
    };
    let (host, port) = (option("proxy_host")?, option("proxy_port")?);
    let user = match (option("proxy_username"), option("proxy_password")) {
        (Some(user), Some(password)) => format!("{user}:{password}@"),
        _ => String::new(),
    };
    Some(format!("http://{user}{host}:{port}"))
}

/// Appends the options for target folders and for packages that are already installed.
fn places(cx: &Exec, args: &Install, version: &str, words: &mut Words) -> Result<(), Error> {
    words.option("--build", &args.build);
    let from_environment = || {
        let target = environ::all(cx).get("VENV_PIP_TARGET").map(Value::to_text);
        target.filter(|_| args.bin_env.is_none())
    };
    words.option("--target", &args.target.clone().or_else(from_environment));
    words.option("--download", &args.download);
    let cache = args
        .download_cache
        .clone()
        .or_else(|| args.cache_dir.clone());
    let new = at_least(version, "6.0");
    words.option(
        if new {
            "--cache-dir"
        } else {
            "--download-cache"
        },
        &cache,
    );
    words.option("--source", &args.source);
    words.flags(&[
        (args.upgrade, "--upgrade"),
        (args.force_reinstall, "--force-reinstall"),
        (args.ignore_installed, "--ignore-installed"),
    ]);
    if let Some(action) = args.exists_action.as_deref() {
        if !["s", "i", "w", "b"].contains(&action.to_lowercase().as_str()) {
            return Err(Error::refused(format!(
                "The exists_action pip option only supports the values s, i, w, and b. '{action}' is not valid."
            )));
        }
        words.pair("--exists-action", action);
    }
    words.flags(&[
        (args.no_deps, "--no-deps"),
        (args.no_install, "--no-install"),
        (args.no_download, "--no-download"),
        (args.no_cache_dir, "--no-cache-dir"),
        (args.pre_releases && at_least(version, "1.4"), "--pre"),
    ]);
    words.option("--cert", &args.cert);
    words.each("--global-option", &args.global_options);
    words.each("--install-option", &args.install_options);
    Ok(())
}

/// Appends the editable packages and the last options.
fn last(args: &Install, words: &mut Words) -> Result<(), Error> {
    let egg = Regex::new("(?:#|#.*?&)egg=([^&]+)", Flags::NONE)?;
    for entry in listed(&args.editable) {
        let local = entry == "." || entry.starts_with("file://") || entry.starts_with('/');
        if !local && !egg.is_match(&entry)? {
            return Err("You must specify an egg for this editable".into());
        }
        words.pair("--editable", &entry);
    }
    words.flags(&[(args.allow_all_external, "--allow-all-external")]);
    words.each("--allow-external", &args.allow_external);
    words.each("--allow-unverified", &args.allow_unverified);
    words.flags(&[(args.process_dependency_links, "--process-dependency-links")]);
    words.option("--trusted-host", &args.trusted_host);
    words.extra(&args.extra_args)
}

fn uninstall(cx: &Exec, args: Uninstall) -> Result<Value, Error> {
    let pip = Pip::new(args.bin_env.clone(), args.user.clone(), args.cwd.clone());
    let files = match Files::fetch(cx, &args.requirements, &args.saltenv, &pip)? {
        Ok(files) => files,
        Err(not_found) => return Ok(not_found.into()),
    };
    let mut words = Words::new(&["uninstall", "-y"]);
    words.0.extend(files.words());
    connection(
        cx,
        args.log.as_deref(),
        &args.proxy,
        &args.timeout,
        &mut words,
    )?;
    for package in listed(&args.pkgs) {
        refuse_option(&package)?;
        words.0.push(package);
    }
    words.extra(&args.extra_args)?;
    let done = pip.run(cx, words.0);
    pip.forget_version(cx);
    files.remove(cx)?;
    Ok(done?.into())
}

fn upgrade(cx: &Exec, args: Upgrade) -> Result<Value, Error> {
    let pip = Pip::new(args.bin_env, args.user, args.cwd);
    let old = pip.list(cx, None)?;
    let (mut comment, mut result) = (String::new(), true);
    for name in pip.upgrades(cx)?.keys() {
        let mut words = Words::new(&["install", "-U", NO_CHECK]);
        words.0.push(name.to_text());
        let out = pip.run(cx, words.0)?;
        result &= out.get("retcode").and_then(Value::as_int) == Some(0);
        comment.push_str(&out.get("stderr").map(Value::to_text).unwrap_or_default());
    }
    pip.forget_version(cx);
    let new = pip.list(cx, None)?;
    Ok(Map::new()
        .with("changes", changed(&old, &new))
        .with("result", result)
        .with("comment", comment)
        .into())
}

/// Returns the differences between two lists of packages.
fn changed(old: &Map, new: &Map) -> Map {
    let text = |value: Option<&Value>| value.cloned().unwrap_or_else(|| "".into());
    let mut changes = Map::new();
    for name in old.keys().chain(new.keys()) {
        let (was, is) = (old.get_value(name), new.get_value(name));
        if was != is {
            let change = Map::new().with("old", text(was)).with("new", text(is));
            changes.insert(name.clone(), change);
        }
    }
    changes
}

/// Requirements files. If another user runs pip, they are copies that this user may read.
struct Files {
    paths: Vec<String>,
    folder: Option<PathBuf>,
}

impl Files {
    /// Returns the files, or Salt's answer if one of them is not found.
    fn fetch(
        cx: &Exec,
        requirements: &Value,
        saltenv: &str,
        pip: &Pip,
    ) -> Result<Result<Self, Map>, Error> {
        let mut files = Self {
            paths: Vec::new(),
            folder: None,
        };
        for file in listed(requirements) {
            let path = if file.starts_with("salt://") {
                let Some(path) = fetch::salt_file(cx, &file, saltenv)? else {
                    let comment = format!("pip requirements file '{file}' not found");
                    return Ok(Err(Map::new()
                        .with("result", false)
                        .with("comment", comment)));
                };
                path
            } else {
                file
            };
            match pip.user.as_deref().filter(|user| !user.is_empty()) {
                Some(user) => files.copy(cx, &path, pip.cwd.as_deref(), user)?,
                None => files.paths.push(path),
            }
        }
        Ok(Ok(files))
    }

    fn words(&self) -> Vec<String> {
        let pair = |path: &String| ["--requirement".to_owned(), path.clone()];
        self.paths.iter().flat_map(pair).collect()
    }

    /// Copies a requirements file, and the files that it refers to, into a folder of the user.
    fn copy(&mut self, cx: &Exec, path: &str, cwd: Option<&str>, user: &str) -> Result<(), Error> {
        let missing = || Error::refused(format!("User '{user}' is not available"));
        let uid = accounts::user(user).ok_or_else(missing)?.uid;
        let folder = match self.folder.clone() {
            Some(folder) => folder,
            None => {
                let number = python::hex(&random::array::<8>()?);
                let folder = std::env::temp_dir().join(format!("pip-requirements-{number}"));
                fs::mkdir(cx, &folder).map_err(Error::io(&folder))?;
                fs::chmod(cx, &folder, 0o700, false).map_err(Error::io(&folder))?;
                fs::chown(cx, &folder, Some(uid), None, false).map_err(Error::io(&folder))?;
                self.folder = Some(folder.clone());
                folder
            }
        };
        let first = path::join(cwd.unwrap_or("."), path);
        let mut waiting = vec![first.clone()];
        while let Some(file) = waiting.pop() {
            let copy = folder.join(path::basename(&file));
            if copy.exists() {
                continue;
            }
            let text = fs::text(&file)?;
            waiting.extend(chained(&text).map(|child| path::join(path::dirname(&file), child)));
            let owner = fs::Owner {
                mode: Some(0o600),
                uid: Some(uid),
                gid: None,
            };
            fs::write(cx, &copy, text.as_bytes(), owner)?;
        }
        let copy = folder.join(path::basename(&first));
        self.paths.push(copy.to_string_lossy().into_owned());
        Ok(())
    }

    fn remove(&self, cx: &Exec) -> Result<(), Error> {
        match &self.folder {
            Some(folder) => fs::remove(cx, folder).map_err(Error::io(folder)),
            None => Ok(()),
        }
    }
}

/// Returns the files that a requirements file refers to, as in `-r other.txt`.
fn chained(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let line = line.split(" #").next().unwrap_or_default().trim();
        let file = ["-r ", "--requirement ", "--requirement="];
        let file = file.iter().find_map(|start| line.strip_prefix(start));
        file.map(str::trim)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_name_other_files() {
        let text = "a==1\n-r more.txt # c\n#-r not.txt\n--requirement=last.txt\n";
        let found: Vec<&str> = chained(text).collect();
        assert_eq!(found, ["more.txt", "last.txt"]);
    }

    #[test]
    fn lists_are_lists_or_have_commas() {
        assert_eq!(listed(&"a, b".into()), ["a", "b"]);
        assert_eq!(listed(&Value::from(vec!["a,b"])), ["a,b"]);
        assert!(listed(&Value::Null).is_empty());
    }
}
