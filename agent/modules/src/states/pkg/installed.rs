//! `pkg.installed`.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, nested};

use super::find::{self, Found};
use super::{Installed, Named, alone, change, installable, is_empty_list, is_refresh_due};
use super::{names, pinned, pinned_all, text};
use crate::exec::pkg::providers::failed::Failed;
use crate::exec::pkg::providers::transaction::{self, Install};
use crate::exec::pkg::providers::{Packages, Provider, holds, listing, spec};

pub(super) fn run(cx: &Exec, provider: &dyn Provider, mut args: Installed) -> Result<Ret, Error> {
    if is_empty_list(&args.pkgs) {
        return Ok(Ret::ok("No packages to install provided"));
    }
    if !args.pkgs.is_true() && !args.sources.is_true() && args.name.is_true() {
        args.pkgs = alone(&args.name, text(&args.version).as_deref());
    }
    if args.pkg_verify.is_true() && provider.verification().is_none() {
        return Ok(Ret::failed("pkg.verify not implemented"));
    }
    args.kwargs.insert("saltenv", cx.saltenv.as_str());
    let refresh = is_refresh_due(cx, args.refresh);
    let mut found = match find::install_targets(cx, provider, &args, refresh)? {
        Ok(found) => found,
        Err(ret) => return with_holds(cx, provider, &args, ret),
    };
    let warnings = std::mem::take(&mut found.warnings);
    let refresh = refresh && !found.refreshed;
    let ret = if cx.test {
        predicted(cx, provider, &args, &found, refresh)?
    } else {
        Work::new(cx, provider, &args, found).done(refresh)?
    };
    Ok(Ret { warnings, ..ret })
}

/// Holds or unholds packages as `hold` requests, if there is nothing to install.
fn with_holds(
    cx: &Exec,
    provider: &dyn Provider,
    args: &Installed,
    ret: Ret,
) -> Result<Ret, Error> {
    let Some(hold) = args
        .kwargs
        .get("hold")
        .filter(|_| provider.holds().is_some())
    else {
        return Ok(ret);
    };
    let name = args.name.to_text();
    let wanted = holds::targets(Some(&name), &args.pkgs, &args.sources)?;
    let rets = match holds::set(cx, provider, &wanted, hold.is_true()) {
        Ok(rets) => rets,
        Err(error) => return Ok(Ret::failed(error.to_string())),
    };
    let mut ret = ret;
    for kind in [Kind::Changed, Kind::Same, Kind::Failed] {
        for one in of_kind(&rets, kind) {
            ret.comment += &format!(".\n{}", one.comment);
            ret.result = one.result;
            if kind == Kind::Changed {
                ret = ret.change(&one.name, one.changes);
            }
        }
    }
    Ok(ret)
}

/// The result of a hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Changed,
    Same,
    Failed,
}

struct Held {
    name: String,
    result: Option<bool>,
    changes: Map,
    comment: String,
}

fn of_kind(rets: &Map, kind: Kind) -> Vec<Held> {
    let read = |ret: &Value| {
        let text = |key| ret.get(key).map(Value::to_text).unwrap_or_default();
        let held = Held {
            name: text("name"),
            result: ret.get("result").and_then(Value::as_bool),
            changes: ret
                .get("changes")
                .and_then(Value::as_map)
                .cloned()
                .unwrap_or_default(),
            comment: text("comment"),
        };
        let has = match (held.changes.is_empty(), held.result) {
            (false, _) => Kind::Changed,
            (true, Some(true)) => Kind::Same,
            (true, _) => Kind::Failed,
        };
        (has == kind).then_some(held)
    };
    rets.values().filter_map(read).collect()
}

/// Returns the result of test mode.
fn predicted(
    cx: &Exec,
    provider: &dyn Provider,
    args: &Installed,
    found: &Found,
    refresh: bool,
) -> Result<Ret, Error> {
    let (mut changes, mut comment) = (Map::new(), Vec::new());
    let note = |changes: &mut Map, name: &str| {
        changes.insert(name, change("", "installed"));
    };
    if !found.targets.is_empty() {
        if args.sources.is_true() {
            found
                .targets
                .iter()
                .for_each(|(name, _)| note(&mut changes, name));
        } else {
            changes = installable(cx, provider, &found.targets, &Map::new(), refresh)?;
        }
        comment.push(format!(
            "The following packages would be installed/updated: {}",
            names(&found.targets)
        ));
    }
    if !found.to_unpurge.is_empty() {
        comment.push(format!(
            "The following packages would have their selection status changed from 'purge' to 'install': {}",
            found.to_unpurge.join(", ")
        ));
        found
            .to_unpurge
            .iter()
            .for_each(|name| note(&mut changes, name));
    }
    if args.reinstall && !found.to_reinstall.is_empty() {
        let shown = display_names(args, &found.to_reinstall);
        shown.iter().for_each(|name| note(&mut changes, name));
        let shown = shown.join(", ");
        comment.push(format!(
            "The following packages would be reinstalled: {shown}"
        ));
    } else {
        for one in &found.to_reinstall {
            comment.push(format!(
                "Package '{}' would be reinstalled because the following files have been altered:",
                display_name(args, one)
            ));
            changes.insert(one.0.as_str(), Map::new());
            comment.push(files(&found.altered, &one.0));
        }
    }
    Ok(Ret::would(comment.join("\n")).changes(changes))
}

/// Returns a package in the form for comments. Package files have no version.
fn display_name(args: &Installed, one: &(String, Option<String>)) -> String {
    match args.sources.is_true() {
        true => one.0.clone(),
        false => pinned(one),
    }
}

fn display_names(args: &Installed, named: &Named) -> Vec<String> {
    named.iter().map(|one| display_name(args, one)).collect()
}

fn files(altered: &Map, name: &str) -> String {
    let files = altered.get(name).cloned().unwrap_or_default();
    nested::text(&files)
}

/// The progress of the installation.
struct Work<'a> {
    cx: &'a Exec,
    provider: &'a dyn Provider,
    args: &'a Installed,
    found: Found,
    changes: Map,
    comment: Vec<String>,
    result: bool,
}

/// The packages by the result of their installation.
#[derive(Default)]
struct Became {
    modified: Named,
    not_modified: Named,
    failed: Named,
}

impl<'a> Work<'a> {
    fn new(cx: &'a Exec, provider: &'a dyn Provider, args: &'a Installed, found: Found) -> Self {
        Self {
            cx,
            provider,
            args,
            found,
            changes: Map::new(),
            comment: Vec::new(),
            result: true,
        }
    }

    fn done(mut self, refresh: bool) -> Result<Ret, Error> {
        if let Err(failed) = self.install(refresh) {
            return Ok(failed.ret("installing package(s)"));
        }
        let installed = self.changes.clone();
        let holds = match self.hold() {
            Ok(holds) => holds,
            Err(error) => {
                self.comment.push(error.to_string());
                return Ok(Ret::failed(self.comment.join("\n")).changes(self.changes));
            }
        };
        self.unpurge()?;
        let became = match self.args.sources.is_true() {
            true => self.became_of_sources(),
            false => self.became()?,
        };
        self.tell(&became, &holds);
        self.tell_reinstalled(&installed);
        let ret = match self.result {
            true => Ret::ok(self.comment.join("\n")),
            false => Ret::failed(self.comment.join("\n")),
        };
        Ok(ret.changes(self.changes))
    }

    fn install(&mut self, refresh: bool) -> Result<(), Failed> {
        let chosen: Named = [self.found.targets.clone(), self.found.to_reinstall.clone()].concat();
        if chosen.is_empty() {
            return Ok(());
        }
        let entry = |(name, version): &(String, Option<String>)| {
            Value::from(Map::new().with(name, version.clone()))
        };
        let list = Value::list(chosen.iter().map(entry));
        let (pkgs, sources) = match self.args.sources.is_true() {
            true => (Value::Null, list),
            false => (list, Value::Null),
        };
        let args = self.args;
        let mut kwargs = args.kwargs.clone();
        kwargs.insert("update_holds", args.update_holds);
        let install = Install {
            pkgs,
            sources,
            refresh,
            fromrepo: args.fromrepo.clone(),
            skip_verify: args.skip_verify,
            reinstall: !self.found.to_reinstall.is_empty(),
            ignore_epoch: args.ignore_epoch.unwrap_or(false),
            kwargs,
            ..Install::default()
        };
        self.changes = transaction::install(self.cx, self.provider, &install)?;
        Ok(())
    }

    fn hold(&self) -> Result<Map, Error> {
        let hold = self.args.kwargs.get("hold");
        let Some(hold) = hold.filter(|_| self.provider.holds().is_some()) else {
            return Ok(Map::new());
        };
        let pkgs = Value::list(self.found.desired.iter().map(|(name, _)| name.into()));
        let wanted = holds::targets(None, &pkgs, &Value::Null)?;
        holds::set(self.cx, self.provider, &wanted, hold.is_true())
    }

    fn unpurge(&mut self) -> Result<(), Error> {
        if self.found.to_unpurge.is_empty() {
            return Ok(());
        }
        let provider = self.provider;
        let selections = provider.require(provider.selections(), "unpurge")?;
        let marked = |cx: &Exec, provider: &dyn Provider| -> Result<Map, Error> {
            Ok(listing::stringified(
                &listing::listed(cx, provider)?.purge_desired,
            ))
        };
        let old = marked(self.cx, self.provider)?;
        selections.unpurge(self.cx, &self.found.to_unpurge)?;
        listing::forget(self.cx);
        let new = marked(self.cx, self.provider)?;
        self.changes
            .insert("purge_desired", listing::changes(&old, &new));
        Ok(())
    }

    fn became_of_sources(&self) -> Became {
        let is_in = |list: &Named, name: &str| list.iter().any(|(other, _)| other == name);
        let mut became = Became::default();
        for one in &self.found.desired {
            let list = match is_in(&self.found.targets, &one.0) {
                true if self.changes.contains(&one.0) => &mut became.modified,
                true => &mut became.failed,
                false if is_in(&self.found.to_reinstall, &one.0) => continue,
                false => &mut became.not_modified,
            };
            list.push(one.clone());
        }
        became
    }

    fn became(&self) -> Result<Became, Error> {
        let here = listing::listed(self.cx, self.provider)?.here();
        let is_in = |list: &Named, name: &str| list.iter().any(|(other, _)| other == name);
        let mut became = Became::default();
        for one in &self.found.desired {
            let ignore_epoch = self.args.ignore_epoch;
            let fine = is_installed(self.cx, self.provider, one, &here, ignore_epoch);
            let list = match (fine, is_in(&self.found.targets, &one.0)) {
                (true, true) => &mut became.modified,
                (false, true) => &mut became.failed,
                (true, false) if !is_in(&self.found.to_reinstall, &one.0) => {
                    &mut became.not_modified
                }
                _ => continue,
            };
            list.push(one.clone());
        }
        Ok(became)
    }

    /// Adds the comments about the packages, in Salt's order.
    fn tell(&mut self, became: &Became, held: &Map) {
        let summary = |list: &Named| match self.args.sources.is_true() {
            true => names(list),
            false => pinned_all(list),
        };
        let (modified, same) = (summary(&became.modified), summary(&became.not_modified));
        let failed = summary(&became.failed);
        let many = |count: usize| {
            if count > 1 {
                ("s", "were")
            } else {
                ("", "was")
            }
        };
        let count = became.modified.len();
        let (s, were) = many(count);
        if count > 0 && modified.chars().count() < 20 {
            let text = format!("The following packages were installed/updated: {modified}");
            self.comment.push(text);
        } else if count > 0 {
            let text = format!("{count} targeted package{s} {were} installed/updated.");
            self.comment.push(text);
        }
        for one in of_kind(held, Kind::Changed) {
            self.tell_held(one);
        }
        let count = became.not_modified.len();
        let (s, were) = many(count);
        if count > 20 {
            let text = format!("{count} targeted package{s} {were} already installed");
            self.comment.push(text);
        } else if count > 0 {
            let text = format!("The following packages were already installed: {same}");
            self.comment.push(text);
        }
        let same = of_kind(held, Kind::Same).into_iter();
        self.comment.extend(same.map(|one| one.comment));
        if !became.failed.is_empty() {
            let text = format!("The following packages failed to install/update: {failed}");
            self.comment.insert(0, text);
            self.result = false;
        }
        for one in of_kind(held, Kind::Failed) {
            self.comment.push(one.comment);
            self.result = false;
        }
    }

    /// Adds a hold to the comments and changes. In the changes of a package it follows the version.
    fn tell_held(&mut self, one: Held) {
        self.comment.push(one.comment);
        let of = |key: &str| one.changes.get(key).map(Value::to_text).unwrap_or_default();
        let known = self.changes.get_mut(&one.name).and_then(Value::as_map_mut);
        let Some(known) = known else {
            let change = Map::new().with("new", of("new"));
            self.changes.insert(one.name.as_str(), change);
            return;
        };
        for key in ["new", "old"] {
            let before = known.get(key).map(Value::to_text).unwrap_or_default();
            let text = match before.is_empty() {
                true => of(key),
                false => format!("{before}\n{}", of(key)),
            };
            known.insert(key, text);
        }
    }

    fn tell_reinstalled(&mut self, installed: &Map) {
        let (mut done, mut not): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for one in std::mem::take(&mut self.found.to_reinstall) {
            let package = display_name(self.args, &one);
            let altered = match self.args.reinstall {
                true => Map::new(),
                // A package that cannot be verified again counts as altered.
                false => find::altered(self.cx, self.provider, self.args, &one.0)
                    .unwrap_or_else(|error| Map::new().with(&one.0, error.to_string())),
            };
            let fine = match self.args.reinstall {
                true => installed.contains(&one.0),
                false => altered.is_empty(),
            };
            let (list, sentence, files_were) = match fine {
                true => (
                    &mut done,
                    format!("Package {package} was reinstalled."),
                    "remediated",
                ),
                false => (
                    &mut not,
                    format!("Reinstall was not successful for package {package}."),
                    "not be remediated",
                ),
            };
            if fine && self.found.altered.contains(&one.0) {
                list.push(format!("{sentence} The following files were {files_were}:"));
                list.push(files(&self.found.altered, &one.0));
            } else if !altered.is_empty() {
                list.push(format!(
                    "{sentence} The following files could {files_were}:"
                ));
                list.push(nested::text(&altered.into()));
            } else {
                list.push(sentence);
            }
        }
        self.result &= not.is_empty();
        self.comment.extend(done);
        self.comment.extend(not);
    }
}

/// Returns whether a package is installed in the wanted version.
pub(super) fn is_installed(
    cx: &Exec,
    provider: &dyn Provider,
    (name, version): &(String, Option<String>),
    here: &Packages,
    ignore_epoch: Option<bool>,
) -> bool {
    let name = name.split('=').next().unwrap_or_default();
    let versions =
        |name: &str| Some(listing::versions_of(here, name)).filter(|list| !list.is_empty());
    let versions = versions(name).or_else(|| versions(&provider.normalize(cx, name)));
    let Some(versions) = versions else {
        return false;
    };
    let Some(version) = version
        .as_deref()
        .filter(|v| !v.is_empty() && *v != "latest")
    else {
        return true;
    };
    let starts = |prefix: &str| {
        versions
            .first()
            .is_some_and(|first| first.starts_with(prefix))
    };
    version.strip_suffix('*').is_some_and(starts)
        || spec::is_met(provider, &versions, version, ignore_epoch, false)
}
