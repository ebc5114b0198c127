//! Changing packages, for every package manager.

use std::time::{Duration, Instant};

use machine::fs;
use machine::process::{self, Line, Output, Process};
use machine::systemd::booted;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log, watch};

use super::capabilities::{Holds, OnHold};
use super::failed::Failed;
use super::{Notation, Order, Packages, Provider, Wanted, downloads, listing, spec, targets};
use crate::exec::pkg::inverse::PACKAGE;

/// The maximum time to wait for the lock of a package manager.
const PATIENCE: Duration = Duration::from_secs(600);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_secs(2);

/// The arguments of `pkg.install`. The fields have Salt's names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Install {
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) pkgs: Value,
    pub(crate) sources: Value,
    pub(crate) refresh: bool,
    pub(crate) fromrepo: Option<String>,
    pub(crate) skip_verify: bool,
    pub(crate) reinstall: bool,
    pub(crate) downloadonly: bool,
    pub(crate) ignore_epoch: bool,
    pub(crate) normalize: bool,
    /// All further arguments.
    pub(crate) kwargs: Map,
}

/// Installs packages and returns the changes: names with `old` and `new`.
///
/// # Errors
/// The output of the programs, with the changes made before the failure.
pub(crate) fn install(cx: &Exec, provider: &dyn Provider, args: &Install) -> Result<Map, Failed> {
    let wanted = wanted(cx, provider, args)?;
    if wanted.is_empty() {
        return Ok(Map::new());
    }
    let old = listing::listed(cx, provider)?.here();
    let (mut order, mut errors) = order(cx, provider, args, wanted, &old)?;
    let prevented = match args.downloadonly {
        true => None,
        false => prevented(cx, provider, &mut order)?,
    };
    let sentence = provider.sentence("installing", !order.reinstall.is_empty());
    let commands = provider.install(cx, &order)?;
    if commands.is_empty() {
        errors.extend(prevented);
        return finished(sentence, errors, Map::new());
    }
    if args.refresh && is_stale(cx, provider, args)? {
        refresh(cx, provider, &args.kwargs)?;
    }
    let freed = freed(cx, provider, &order)?;
    let downloaded = downloaded(cx, provider, args)?;
    errors.extend(run_all(cx, provider, &commands)?);
    let mut changes = since(cx, provider, &old)?;
    changes.update(listing::changes(
        &downloaded,
        &self::downloaded(cx, provider, args)?,
    ));
    let new = listing::listed(cx, provider)?.here();
    let text = |packages: &Packages, name: &str| listing::versions_of(packages, name).join(",");
    for one in &order.reinstall {
        let change = Map::new()
            .with("old", text(&old, &one.name))
            .with("new", text(&new, &one.name));
        changes.insert(one.name.as_str(), change);
    }
    errors.extend(hold_again(cx, provider, &freed)?);
    errors.extend(prevented);
    finished(sentence, errors, changes)
}

fn finished(sentence: Option<String>, errors: Vec<String>, changes: Map) -> Result<Map, Failed> {
    match errors.is_empty() {
        true => Ok(changes),
        false => Err(Failed::with(sentence, errors, changes)),
    }
}

/// Returns the downloaded files, if the call only downloads.
fn downloaded(cx: &Exec, provider: &dyn Provider, args: &Install) -> Result<Map, Error> {
    match provider.downloads() {
        Some(place) if args.downloadonly && place.are_changes => {
            downloads::listed(cx, provider, "/")
        }
        _ => Ok(Map::new()),
    }
}

/// Returns the packages that the arguments name.
fn wanted(cx: &Exec, provider: &dyn Provider, args: &Install) -> Result<Vec<Wanted>, Error> {
    if args.pkgs.is_true() && args.sources.is_true() {
        log::error("Only one of \"pkgs\" and \"sources\" can be used.");
        return Ok(Vec::new());
    }
    if args.sources.is_true() {
        let sources = targets::sources(cx, provider, &args.sources, args.normalize)?;
        return files(cx, provider, &sources.unwrap_or_default(), &args.kwargs);
    }
    let mut wanted = targets::parse(
        cx,
        provider,
        args.name.as_deref(),
        &args.pkgs,
        args.normalize,
    )?;
    if !args.pkgs.is_true() {
        for one in &mut wanted {
            one.version.clone_from(&args.version);
        }
    }
    Ok(wanted)
}

fn files(
    cx: &Exec,
    provider: &dyn Provider,
    sources: &[(String, String)],
    kwargs: &Map,
) -> Result<Vec<Wanted>, Error> {
    let mut wanted = Vec::new();
    for (name, place) in sources {
        let path = targets::fetched(cx, name, place, kwargs)?;
        wanted.push(provider.files().file_info(cx, &path)?);
    }
    Ok(wanted)
}

/// Returns true if the repositories' lists must be updated. That is not necessary if they contain
/// exactly the wanted versions.
fn is_stale(cx: &Exec, provider: &dyn Provider, args: &Install) -> Result<bool, Error> {
    let named = match (&args.name, &args.version) {
        (Some(name), Some(version)) => Map::new().with(name, version.as_str()),
        _ => Map::new(),
    };
    let alone = Value::from(named);
    let entries = match args.pkgs.as_list() {
        Some(list) => list,
        None if args.version.is_some() => std::slice::from_ref(&alone),
        None => return Ok(true),
    };
    let kwargs = Map::new().with("show_installed", true);
    for entry in entries {
        let Some((name, version)) = entry.as_map().and_then(Map::first) else {
            return Ok(true);
        };
        let name = name.to_text();
        let known = provider.latest(cx, std::slice::from_ref(&name), &kwargs)?;
        if known.get(&name) != Some(&version.to_text().into()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Sorts the wanted packages by their relation to the installed ones, and looks up versions for
/// `>=1.0`. Also returns messages about unavailable packages.
fn order(
    cx: &Exec,
    provider: &dyn Provider,
    args: &Install,
    wanted: Vec<Wanted>,
    old: &Packages,
) -> Result<(Order, Vec<String>), Error> {
    let mut order = Order {
        from_files: args.sources.is_true(),
        fromrepo: args.fromrepo.clone(),
        skip_verify: args.skip_verify,
        downloadonly: args.downloadonly,
        kwargs: args.kwargs.clone(),
        ..Order::default()
    };
    let available = compared(cx, provider, args, &wanted)?;
    let mut errors = Vec::new();
    for mut one in wanted {
        if one.path.is_none()
            && let Some(version) = one.version.take()
        {
            match exact(provider, args, &one.name, &version, &available) {
                Ok(version) => one.version = Some(version),
                Err(error) => {
                    errors.push(error);
                    continue;
                }
            }
        }
        place(provider, args.reinstall, &mut order, one, old);
    }
    Ok((order, errors))
}

/// Returns true if a version must first be looked up in the repositories because the program does
/// not accept it.
fn is_looked_up(provider: &dyn Provider, version: &str) -> bool {
    let notation = provider.about().notation;
    version.contains(',')
        || spec::is_comparison(version) && notation != Notation::Comparisons
        || version.contains('*') && notation != Notation::Globs
}

/// Returns the repositories' versions of the packages that are wanted by comparison.
fn compared(
    cx: &Exec,
    provider: &dyn Provider,
    args: &Install,
    wanted: &[Wanted],
) -> Result<Packages, Error> {
    let compares = |one: &&Wanted| {
        let version = one.version.as_deref();
        version.is_some_and(|version| is_looked_up(provider, version))
    };
    let names = wanted.iter().filter(compares).map(|one| one.name.clone());
    let names: Vec<String> = names.collect();
    match names.is_empty() {
        true => Ok(Packages::new()),
        false => provider.available(cx, &names, &args.kwargs),
    }
}

fn exact(
    provider: &dyn Provider,
    args: &Install,
    name: &str,
    version: &str,
    available: &Packages,
) -> Result<String, String> {
    if !is_looked_up(provider, version) {
        return Ok(version.trim_start_matches('=').to_owned());
    }
    let candidates = listing::versions_of(available, name);
    let found = spec::first_match(provider, version, &candidates, args.ignore_epoch);
    found.cloned().ok_or_else(|| {
        let shown = match candidates.is_empty() {
            true => "None".to_owned(),
            false => candidates.join(", "),
        };
        format!("No version matching '{name}{version}' could be found (available: {shown})")
    })
}

fn place(provider: &dyn Provider, reinstall: bool, order: &mut Order, one: Wanted, old: &Packages) {
    let here = listing::versions_of(old, &one.name).join(",");
    let is = |sign: &str| {
        let version = one.version.as_deref();
        version.is_some_and(|version| spec::holds(provider, version, sign, &here, false))
    };
    let list = match (here.is_empty(), &one.version) {
        (false, None) if reinstall && one.path.is_none() => &mut order.reinstall,
        (false, Some(_)) if reinstall && is("==") => &mut order.reinstall,
        (true, _) | (_, None) => &mut order.install,
        _ if is(">=") => &mut order.install,
        _ => &mut order.downgrade,
    };
    list.push(one);
}

/// Returns true if held packages are released while they are changed.
fn frees(holds: &dyn Holds, order: &Order) -> bool {
    holds.on_hold() == OnHold::Freed || order.kwargs.get("update_holds").is_some_and(Value::is_true)
}

/// Returns the held packages that are to be changed.
fn held(cx: &Exec, holds: &dyn Holds, order: &Order) -> Result<Vec<Wanted>, Error> {
    let targeted = [&order.install, &order.downgrade, &order.reinstall];
    let is_targeted = |held: &Wanted| {
        targeted
            .iter()
            .any(|list| list.iter().any(|one| one.name == held.name))
    };
    let mut held = holds.held(cx)?;
    held.retain(is_targeted);
    Ok(held)
}

/// Leaves out held packages that must not change, and returns the message about them.
fn prevented(
    cx: &Exec,
    provider: &dyn Provider,
    order: &mut Order,
) -> Result<Option<String>, Error> {
    let skips = |holds: &&dyn Holds| holds.on_hold() == OnHold::Skipped && !frees(*holds, order);
    let Some(holds) = provider.holds().filter(skips) else {
        return Ok(None);
    };
    let held = held(cx, holds, order)?;
    let is_free = |one: &Wanted| held.iter().all(|held| held.name != one.name);
    for list in [
        &mut order.install,
        &mut order.downgrade,
        &mut order.reinstall,
    ] {
        list.retain(is_free);
    }
    let names: Vec<String> = held.into_iter().map(|one| one.name).collect();
    Ok((!names.is_empty()).then(|| format!(
        "The following package(s) could not be updated because they are being held: {}. Set 'update_holds' to True to temporarily unhold these packages so that they can be updated.",
        names.join(", ")
    )))
}

/// Releases the held packages that are to be changed, and returns them.
fn freed(cx: &Exec, provider: &dyn Provider, order: &Order) -> Result<Vec<Wanted>, Error> {
    let frees = |holds: &&dyn Holds| !order.downloadonly && frees(*holds, order);
    let Some(holds) = provider.holds().filter(frees) else {
        return Ok(Vec::new());
    };
    let freed = held(cx, holds, order)?;
    for one in &freed {
        if let Some(error) = set_hold(cx, provider, &holds.hold(cx, one, false)?)? {
            return Err(Error::refused(error));
        }
    }
    Ok(freed)
}

/// Holds the packages that [`freed`] released, and returns the program's errors.
fn hold_again(cx: &Exec, provider: &dyn Provider, freed: &[Wanted]) -> Result<Vec<String>, Error> {
    let mut errors = Vec::new();
    if let Some(holds) = provider.holds() {
        for one in freed {
            errors.extend(set_hold(cx, provider, &holds.hold(cx, one, true)?)?);
        }
    }
    Ok(errors)
}

/// Runs the command that holds or releases a package, and returns the program's error.
pub(crate) fn set_hold(
    cx: &Exec,
    provider: &dyn Provider,
    command: &Process,
) -> Result<Option<String>, Error> {
    let output = run(cx, provider, command)?;
    listing::forget(cx);
    Ok(provider.error_text(&output))
}

/// Updates the repositories' lists.
///
/// # Errors
/// The output of the program.
pub(crate) fn refresh(cx: &Exec, provider: &dyn Provider, kwargs: &Map) -> Result<Value, Error> {
    forget_refresh(cx);
    provider.refresh(cx, kwargs)
}

/// Returns the path of the file whose presence makes the first installing state of a run refresh
/// the lists.
pub(crate) fn refresh_mark(cx: &Exec) -> std::path::PathBuf {
    cx.opts().path("cachedir").join("pkg_refresh")
}

fn forget_refresh(cx: &Exec) {
    let path = refresh_mark(cx);
    if path.exists()
        && let Err(error) = fs::remove(cx, &path)
    {
        log::warning(format_args!("Encountered error removing rtag: {error}"));
    }
}

/// Removes packages and returns the changes.
///
/// # Errors
/// The output of the programs, with the changes made before the failure.
pub(crate) fn remove(
    cx: &Exec,
    provider: &dyn Provider,
    wanted: &[Wanted],
    purge: bool,
    kwargs: &Map,
) -> Result<Map, Failed> {
    let listed = listing::listed(cx, provider)?;
    let (old, old_removed) = (listed.here(), listed.removed);
    let is_here = |packages: &Packages| {
        let mut found = targets::expanded(packages, wanted);
        found.retain(|one| packages.contains(&one.name));
        found
    };
    let mut names = is_here(&old);
    if purge {
        names.extend(is_here(&old_removed));
    }
    if names.is_empty() {
        return Ok(Map::new());
    }
    let commands = provider.remove(cx, &names, purge, kwargs)?;
    let errors = run_all(cx, provider, &commands)?;
    let mut changes = since(cx, provider, &old)?;
    if purge {
        let left = listing::listed(cx, provider)?.removed;
        let (before, after) = (
            &listing::stringified(&old_removed),
            &listing::stringified(&left),
        );
        changes = Map::new()
            .with("removed", listing::changes(before, after))
            .with("installed", changes);
    }
    finished(provider.sentence("removing", false), errors, changes)
}

/// Upgrades everything and returns the changes.
///
/// # Errors
/// The output of the program, with the changes made before the failure.
pub(crate) fn upgrade(cx: &Exec, provider: &dyn Provider, kwargs: &Map) -> Result<Map, Failed> {
    let old = listing::listed(cx, provider)?.here();
    let mut failure = None;
    for command in provider.upgrade(cx, kwargs)? {
        let output = run_in_scope(cx, provider, &command)?;
        if provider.error_text(&output).is_some() {
            failure = Some(output);
        }
    }
    let changes = since(cx, provider, &old)?;
    match failure {
        None => Ok(changes),
        Some(output) => Err(Failed {
            message: "Problem encountered upgrading packages".to_owned(),
            info: Some(Map::new().with("result", output.to_map())),
            changes,
        }),
    }
}

/// Removes packages that are no longer needed and returns the changes. With `list_only`, returns
/// only the names.
///
/// # Errors
/// When the program cannot be started.
pub(crate) fn autoremove(
    cx: &Exec,
    provider: &dyn Provider,
    list_only: bool,
    purge: bool,
) -> Result<Value, Error> {
    let autoremoval = provider.require(provider.autoremoval(), "autoremove")?;
    let command = autoremoval.autoremove(list_only, purge);
    if list_only {
        // The program fails here, because its question is answered with no.
        let mut names = autoremoval.autoremovable(command.quiet().run(cx)?.stdout_regardless());
        names.sort();
        return Ok(names.into());
    }
    let old = listing::listed(cx, provider)?.here();
    let output = run_in_scope(cx, provider, &command)?;
    let changes = since(cx, provider, &old)?;
    let errors = provider.error_text(&output).into_iter().collect();
    let sentence = provider.sentence("removing", false);
    Ok(finished(sentence, errors, changes)?.into())
}

/// Returns the changes since `old` was listed.
fn since(cx: &Exec, provider: &dyn Provider, old: &Packages) -> Result<Map, Error> {
    listing::forget(cx);
    let new = listing::listed(cx, provider)?.here();
    let changes = listing::changes(&listing::stringified(old), &listing::stringified(&new));
    for (name, change) in &changes {
        let of = |key| change.get(key).cloned().unwrap_or_default();
        fs::inverse(cx, &PACKAGE, &name.to_text(), of("old"), of("new"));
    }
    Ok(changes)
}

/// Runs all commands and returns their errors. A failure does not prevent the next command.
fn run_all(cx: &Exec, provider: &dyn Provider, commands: &[Process]) -> Result<Vec<String>, Error> {
    let mut errors = Vec::new();
    for command in commands {
        let output = run_in_scope(cx, provider, command)?;
        errors.extend(provider.error_text(&output));
    }
    Ok(errors)
}

/// Runs a command, on systemd in a separate scope: a package that restarts our own service must not
/// end its own installation.
fn run_in_scope(cx: &Exec, provider: &dyn Provider, command: &Process) -> Result<Output, Error> {
    let wanted = cx.opts().get("systemd.scope").is_none_or(Value::is_true);
    let mut command = command.clone();
    if let Line::Words(words) = &mut command.line
        && wanted
        && booted()
        && process::which("systemd-run").is_some()
    {
        let scope = ["systemd-run", "--scope", "--description", "\"pinch pkg\""];
        words.splice(0..0, scope.map(str::to_owned));
    }
    run(cx, provider, &command)
}

/// Runs a command of a package manager. If another process holds the lock, retries until it is
/// free.
pub(crate) fn run(cx: &Exec, provider: &dyn Provider, command: &Process) -> Result<Output, Error> {
    unlocked(cx, command, &|output| provider.is_locked(output))
}

/// Like [`run`], for any program with a lock. `is_locked` returns true if the command could not
/// start because of the lock.
pub(crate) fn unlocked(
    cx: &Exec,
    command: &Process,
    is_locked: &dyn Fn(&Output) -> bool,
) -> Result<Output, Error> {
    let start = Instant::now();
    loop {
        let mut output = command.run(cx)?;
        if !is_locked(&output) {
            return Ok(output);
        }
        if start.elapsed() >= patience(cx) {
            let said = format!("{}\n{}", output.stderr, output.stdout_regardless());
            let gave_up = gave_up(&said, patience(cx));
            output.stderr = format!("{}\n{gave_up}", output.stderr);
            return Ok(output);
        }
        log::warning("Waiting for the package manager's lock");
        let waiting = watch::waits(|| "the lock of the package manager".to_owned());
        std::thread::sleep(PAUSE.min(patience(cx)));
        drop(waiting);
    }
}

/// Returns the option `pkg_lock_timeout` in seconds.
fn patience(cx: &Exec) -> Duration {
    let seconds = cx.opts().get("pkg_lock_timeout").and_then(Value::as_float);
    let given = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    given.unwrap_or(PATIENCE)
}

/// Returns the message about the timeout. It names the holder of the lock if the program does (`It
/// is held by process 42 (apt-get)`, `with pid 42 (zypper)`).
fn gave_up(said: &str, waited: Duration) -> String {
    let waited = waited.as_secs();
    let after = |word: &str| -> Option<u32> {
        let (_, rest) = said.split_once(word)?;
        let digits = rest.split(|sign: char| !sign.is_ascii_digit()).next()?;
        digits.parse().ok()
    };
    let Some(pid) = after("process ").or_else(|| after(" pid ")) else {
        return format!("Waited {waited} seconds for the lock of another package manager");
    };
    let line = machine::procfs::bytes(format!("/proc/{pid}/cmdline"));
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    format!(
        "Waited {waited} seconds for the lock that process {pid} holds: {}",
        line.trim()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_named() {
        let pid = std::process::id();
        let said =
            format!("E: Could not get lock /var/lib/dpkg/lock. It is held by process {pid} (x)");
        let text = gave_up(&said, Duration::from_secs(5));
        assert!(text.starts_with(&format!(
            "Waited 5 seconds for the lock that process {pid} holds: /"
        )));
        assert!(gave_up("no", Duration::ZERO).ends_with("another package manager"));
    }
}
