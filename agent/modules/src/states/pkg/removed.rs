//! `pkg.removed` and `pkg.purged`.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::{change, is_empty_list};
use crate::exec::pkg::providers::{Provider, Wanted, listing, spec, targets, transaction};

/// The arguments of the two states.
pub(super) struct RemoveOptions {
    pub(super) purge: bool,
    pub(super) name: String,
    pub(super) version: Option<String>,
    pub(super) pkgs: Value,
    pub(super) normalize: bool,
    pub(super) ignore_epoch: Option<bool>,
    pub(super) kwargs: Map,
}

impl RemoveOptions {
    fn done(&self) -> &'static str {
        if self.purge { "purged" } else { "removed" }
    }

    fn verb(&self) -> &'static str {
        if self.purge { "purge" } else { "remove" }
    }
}

pub(super) fn run(
    cx: &Exec,
    provider: &dyn Provider,
    arguments: &RemoveOptions,
) -> Result<Ret, Error> {
    let wanted = wanted(cx, provider, arguments)?;
    if wanted.is_empty() && !is_empty_list(&arguments.pkgs) {
        return Ok(Ret::failed(
            "Invalidly formatted pkgs parameter. See minion log.",
        ));
    }
    let listed = listing::listed(cx, provider)?;
    let (mut found, version_spec) = installed(provider, arguments, &wanted, &listed.here());
    if found.is_empty() && !arguments.purge {
        let matching = if version_spec {
            " (matching specified versions)"
        } else {
            ""
        };
        return Ok(Ret::ok(format!(
            "All specified packages{matching} are already absent"
        )));
    }
    if arguments.purge {
        let left = wanted
            .iter()
            .filter(|one| listed.removed.contains(&one.name));
        found.extend(left.map(|one| one.name.clone()));
    }
    value::sorted::sort(&mut found);
    found.dedup();
    if found.is_empty() {
        let comment = "None of the targeted packages are installed or partially installed";
        return Ok(Ret::ok(comment));
    }
    let done = arguments.done();
    let changes = found
        .iter()
        .map(|name| (Value::from(name), Value::from(change("", done))));
    let would = format!(
        "The following packages will be {done}: {}.",
        found.join(", ")
    );
    let would = Ret::would(would).changes(changes.collect::<Map>());
    cx.apply(would, || remove(cx, provider, arguments, &wanted, &found))
}

fn wanted(
    cx: &Exec,
    provider: &dyn Provider,
    arguments: &RemoveOptions,
) -> Result<Vec<Wanted>, Error> {
    let name = Some(arguments.name.as_str());
    let mut wanted = targets::parse(cx, provider, name, &arguments.pkgs, arguments.normalize)?;
    if !arguments.pkgs.is_true() {
        for one in &mut wanted {
            one.version.clone_from(&arguments.version);
        }
    }
    Ok(wanted)
}

/// Returns the packages that are installed in the given version, and whether a version was given.
fn installed(
    provider: &dyn Provider,
    arguments: &RemoveOptions,
    wanted: &[Wanted],
    here: &Map,
) -> (Vec<String>, bool) {
    let (mut found, mut version_spec) = (Vec::new(), false);
    for one in wanted {
        let versions = listing::versions_of(here, &one.name);
        if versions.is_empty() {
            continue;
        }
        version_spec |= one.version.is_some();
        let is_meant = one.version.as_deref().is_none_or(|version| {
            spec::is_met(provider, &versions, version, arguments.ignore_epoch, false)
        });
        if is_meant {
            found.push(one.name.clone());
        }
    }
    (found, version_spec)
}

fn remove(
    cx: &Exec,
    provider: &dyn Provider,
    arguments: &RemoveOptions,
    wanted: &[Wanted],
    found: &[String],
) -> Result<Ret, Error> {
    let chosen = wanted.iter().filter(|one| found.contains(&one.name));
    let chosen: Vec<Wanted> = chosen.cloned().collect();
    let (verb, done) = (arguments.verb(), arguments.done());
    let changes =
        match transaction::remove(cx, provider, &chosen, arguments.purge, &arguments.kwargs) {
            Ok(changes) => changes,
            Err(failed) => {
                let verbing = if arguments.purge {
                    "purging"
                } else {
                    "removing"
                };
                return Ok(failed.ret(&format!("{verbing} package(s)")));
            }
        };
    let listed = listing::listed(cx, provider)?;
    let here = listed.here();
    let is_left = |one: &&Wanted| {
        here.contains(&one.name) || arguments.purge && listed.removed.contains(&one.name)
    };
    let mut failed: Vec<String> = chosen
        .iter()
        .filter(is_left)
        .map(|one| one.name.clone())
        .collect();
    value::sorted::sort(&mut failed);
    if !failed.is_empty() {
        let failed = failed.join(", ");
        let comment = format!("The following packages failed to {verb}: {failed}.");
        return Ok(Ret::failed(comment).changes(changes));
    }
    let absent = wanted.iter().filter(|one| !found.contains(&one.name));
    let mut absent: Vec<String> = absent.map(|one| one.name.clone()).collect();
    value::sorted::sort(&mut absent);
    Ok(Ret::ok(match absent.is_empty() {
        true => format!("All targeted packages were {done}."),
        false => format!(
            "The following packages were not installed: {} The following packages were {done}: {}.",
            absent.join(", "),
            found.join(", ")
        ),
    })
    .changes(changes))
}
