//! The part of the `pkg` execution module that only exists for apt.

use std::path::Path;

use machine::process::{Process, which as found};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use crate::exec::pkg::providers::{self, apt, listing, transaction};
use crate::fileserver::fetch;

state::exec_module! {
    /// Manage packages.
    mod pkg;

    /// Return the package that owns a file, or False if the file does not exist.
    ///
    ///     salt-call pkg.which /usr/sbin/nginx
    fn which(Which {
        /// The path of the file.
        path: String,
    });

    /// Return the selections of dpkg: a list of packages for each state.
    ///
    ///     salt-call pkg.get_selections state=hold
    fn get_selections(GetSelections {
        /// A pattern of package names; all packages if not given.
        pattern: Option<String> = None,
        /// The state to return, such as `hold`; all states if not given.
        state: Option<String> = None,
    });

    /// Set selections of dpkg and return what changed.
    ///
    ///     salt-call pkg.set_selections selection='{hold: [nginx]}'
    fn set_selections(SetSelections {
        /// A file with a package and a state in each line.
        path: Option<String> = None,
        /// A dictionary with a list of packages for each state.
        selection: Value = Value::Null,
        /// True to mark all packages for removal first (`dpkg --clear-selections`).
        clear: bool = false,
        /// The environment to fetch the file from.
        saltenv: String = "base".into(),
    });

    /// List the services that still use files that packages have replaced.
    ///
    ///     salt-call pkg.services_need_restart
    fn services_need_restart(ServicesNeedRestart {
        ..kwargs
    });
}

const STATES: [&str; 4] = ["install", "hold", "deinstall", "purge"];

fn which(cx: &Exec, args: Which) -> Result<Value, Error> {
    let path = Path::new(&args.path);
    match path.is_absolute() && path.exists() {
        true => Ok(providers::provider(cx)?
            .files()
            .owner(cx, &args.path)?
            .into()),
        false => Ok(false.into()),
    }
}

/// Parses lines of a package and its state into a list of packages for each state.
fn read(text: &str) -> Result<Map, Error> {
    let mut states = Map::new();
    for line in text.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [] => {}
            [name, state] => listing::add(&mut states, state, name),
            _ => {
                return Err(Error::refused(format!(
                    "invalid selection {line:?}: expected a package name and a state"
                )));
            }
        }
    }
    Ok(states)
}

fn selections(cx: &Exec, pattern: &str) -> Result<Map, Error> {
    read(&apt::asked_dpkg(
        cx,
        &["dpkg", "--get-selections", pattern],
    )?)
}

fn get_selections(cx: &Exec, args: GetSelections) -> Result<Value, Error> {
    let text = |given: Option<String>| given.filter(|text| !text.is_empty());
    let pattern = text(args.pattern);
    let mut states = selections(cx, pattern.as_deref().unwrap_or("*"))?;
    if let Some(state) = text(args.state) {
        let list = states.remove(&state).unwrap_or_else(|| Value::list([]));
        states = Map::new().with(&state, list);
    }
    Ok(states.into())
}

/// Returns the requested selections, read from the file or from the argument.
fn wanted(cx: &Exec, args: &SetSelections) -> Result<Map, Error> {
    if let Some(path) = args.path.as_deref().filter(|path| !path.is_empty()) {
        let cached = fetch::cached(cx, path, &args.saltenv, fetch::How::default())?;
        let cached = cached.ok_or_else(|| Error::refused(format!("Unable to cache {path}")))?;
        return read(&machine::fs::text(&cached)?);
    }
    let given = match &args.selection {
        Value::Str(text) => render::yaml::load(text).map_err(|error| {
            Error::unexpected(format!("Improperly-formatted selection: {error}"))
        })?,
        given => given.clone(),
    };
    match given {
        Value::Map(states) => Ok(Map::clone(&states)),
        _ => Err(Error::unexpected(
            "selection must be a dictionary of states with lists of packages".to_owned(),
        )),
    }
}

fn set_selections(cx: &Exec, args: SetSelections) -> Result<Value, Error> {
    let has_path = args.path.as_deref().is_some_and(|path| !path.is_empty());
    match (has_path, args.selection.is_true()) {
        (false, false) => return Ok(Map::new().into()),
        (true, true) => {
            return Err(Error::unexpected("The 'selection' and 'path' arguments to pkg.set_selections are mutually exclusive, and cannot be specified together".to_owned()));
        }
        _ => {}
    }
    let wanted = wanted(cx, &args)?;
    let states = wanted.keys().map(Value::to_text);
    let bad: Vec<String> = states.filter(|state| !STATES.contains(&&**state)).collect();
    if !bad.is_empty() {
        return Err(Error::unexpected(format!(
            "Invalid state(s): {}",
            bad.join(", ")
        )));
    }
    if cx.test || wanted.is_empty() {
        return Ok(Map::new().into());
    }
    if args.clear {
        let clear = apt::command(["dpkg", "--clear-selections"]);
        let output = transaction::run(cx, providers::provider(cx)?, &clear)?;
        if !output.success() {
            return Err(
                format!("Running dpkg --clear-selections failed: {}", output.stderr).into(),
            );
        }
    }
    let changes = set(cx, &wanted);
    listing::forget(cx);
    Ok(changes?.into())
}

/// Sets the selections that differ from the requested ones, one by one, and returns what changed.
fn set(cx: &Exec, wanted: &Map) -> Result<Map, Error> {
    let mut old = Map::new();
    for (state, names) in &selections(cx, "*")? {
        old.extend(
            names
                .texts()
                .into_iter()
                .map(|name| (Value::from(name), state.clone())),
        );
    }
    let mut changes = Map::new();
    for (state, names) in wanted {
        for name in names.texts() {
            let before = old.get(&name).cloned();
            if before.as_ref() == Some(state) {
                continue;
            }
            let set = apt::selection(&name, &state.to_text());
            if transaction::run(cx, providers::provider(cx)?, &set)?.success() {
                let change = Map::new().with("old", before).with("new", state.clone());
                changes.insert(name, change);
            } else {
                let state = state.to_text();
                log::error(format_args!(
                    "failed to set state {state} for package {name}"
                ));
            }
        }
    }
    Ok(changes)
}

fn services_need_restart(cx: &Exec, _: ServicesNeedRestart) -> Result<Value, Error> {
    if found("checkrestart").is_none() {
        return Err("'checkrestart' is needed. It is part of the 'debian-goodies' package which can be installed from official repositories.".into());
    }
    let output = Process::words(["checkrestart", "--machine", "--package"]).run(cx)?;
    let lines = output.stdout_regardless().lines();
    let names = lines.filter_map(|line| line.strip_prefix("SERVICE:")?.split(',').next());
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    value::sorted::sort(&mut names);
    names.dedup();
    Ok(names.into())
}
