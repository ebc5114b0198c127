//! Determines what `pkg.installed` has to do.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::{Installed, Named};
use crate::exec::pkg::providers::{Packages, Provider, listing, spec, targets};

/// The wanted packages, and the required actions.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// All wanted packages, with their versions or sources.
    pub(super) desired: Named,
    /// The packages to install.
    pub(super) targets: Named,
    /// The wanted packages that are marked for purging.
    pub(super) to_unpurge: Vec<String>,
    /// The packages to reinstall.
    pub(super) to_reinstall: Named,
    /// The altered files, by package.
    pub(super) altered: Map,
    /// Warnings about packages that could not be examined.
    pub(super) warnings: Vec<String>,
    /// True if the package lists of the repositories were refreshed.
    pub(super) refreshed: bool,
    version_spec: bool,
    problems: Vec<String>,
}

/// Returns the required actions. The inner error is the state's return if there is nothing to do or
/// the arguments are not valid.
pub(super) fn install_targets(
    cx: &Exec,
    provider: &dyn Provider,
    args: &Installed,
    refresh: bool,
) -> Result<Result<Found, Ret>, Error> {
    if args.pkgs.is_true() && args.sources.is_true() {
        let comment = "Only one of \"pkgs\" and \"sources\" is permitted.";
        return Ok(Err(Ret::failed(comment)));
    }
    let listed = listing::listed(cx, provider)?;
    let Some(desired) = desired(cx, provider, args)? else {
        let kind = if args.pkgs.is_true() {
            "pkgs"
        } else {
            "sources"
        };
        return Ok(Err(Ret::failed(format!(
            "Invalidly formatted '{kind}' parameter. See minion log."
        ))));
    };
    let mut find = Find {
        cx,
        provider,
        args,
        here: listed.here(),
        found: Found::default(),
    };
    let marked = desired.iter().map(|(name, _)| name);
    let marked = marked.filter(|name| listed.purge_desired.contains(name));
    find.found.to_unpurge = marked.cloned().collect();
    find.found.desired = desired;
    find.resolve_latest(refresh)?;
    for (name, version) in find.found.desired.clone() {
        find.look(name, version)?;
    }
    Ok(find.concluded())
}

/// Returns the wanted packages with their versions or sources.
fn desired(cx: &Exec, provider: &dyn Provider, args: &Installed) -> Result<Option<Named>, Error> {
    if args.sources.is_true() {
        let sources = targets::sources(cx, provider, &args.sources, args.normalize)?;
        let named = |sources: Vec<(String, String)>| {
            let sources = sources.into_iter();
            sources.map(|(name, place)| (name, Some(place))).collect()
        };
        return Ok(sources.map(named));
    }
    // The name keeps its architecture: `vim:i386` is installed under this name.
    let wanted = targets::repacked(cx, provider, &args.pkgs, false)?;
    let named = |wanted: Vec<crate::exec::pkg::providers::Wanted>| {
        let wanted = wanted.into_iter();
        wanted.map(|one| (one.name, one.version)).collect()
    };
    Ok(wanted.map(named))
}

struct Find<'a> {
    cx: &'a Exec,
    provider: &'a dyn Provider,
    args: &'a Installed,
    here: Packages,
    found: Found,
}

impl Find<'_> {
    fn of_sources(&self) -> bool {
        self.args.sources.is_true()
    }

    fn is_met(&self, installed: &[String], version: &str, allow_updates: bool) -> bool {
        let ignore_epoch = self.args.ignore_epoch;
        spec::is_met(
            self.provider,
            installed,
            version,
            ignore_epoch,
            allow_updates,
        )
    }

    /// Replaces the version `latest` by the newest version.
    fn resolve_latest(&mut self, refresh: bool) -> Result<(), Error> {
        let is_latest = |version: &Option<String>| version.as_deref() == Some("latest");
        let wanted = self.found.desired.iter();
        let wanted: Vec<String> = wanted
            .filter(|(_, version)| is_latest(version) && !self.of_sources())
            .map(|(name, _)| name.clone())
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        if refresh {
            crate::exec::pkg::providers::transaction::refresh(
                self.cx,
                self.provider,
                &self.args.kwargs,
            )?;
            self.found.refreshed = true;
        }
        let kwargs = self.args.kwargs.clone();
        let kwargs = kwargs.with("fromrepo", self.args.fromrepo.clone());
        let newest = self.provider.latest(self.cx, &wanted, &kwargs)?;
        for (name, version) in &mut self.found.desired {
            if wanted.contains(name) {
                let newer = newest.get(name).filter(|newer| newer.is_true());
                let here = || listing::versions_of(&self.here, name).pop();
                *version = newer.map(Value::to_text).or_else(here);
            }
        }
        Ok(())
    }

    /// Returns the installed versions of a package. It is searched by its name and its normalized
    /// name.
    fn versions(&self, name: &str) -> Vec<String> {
        let here = |name: &str| {
            Some(listing::versions_of(&self.here, name)).filter(|list| !list.is_empty())
        };
        here(name)
            .or_else(|| here(&self.provider.normalize(self.cx, name)))
            .unwrap_or_default()
    }

    /// Determines the action for one package.
    fn look(&mut self, name: String, version: Option<String>) -> Result<(), Error> {
        let installed = self.versions(&name);
        if installed.is_empty() {
            self.found.targets.push((name, version));
            return Ok(());
        }
        if self.args.reinstall {
            self.found.to_reinstall.push((name, version));
            return Ok(());
        }
        let Some(wanted) = version.clone() else {
            return self.verify(name, version);
        };
        let wanted = match self.of_sources() {
            true => match self.version_of_source(&name, &wanted) {
                Ok(version) => version,
                Err(problem) => {
                    self.found.problems.push(problem);
                    return Ok(());
                }
            },
            false => wanted,
        };
        self.found.version_spec = true;
        let allow_updates = self.args.allow_updates && !self.of_sources();
        if self.is_met(&installed, &wanted, allow_updates) {
            return Ok(());
        }
        if self.args.pkg_verify.is_true() && spec::is_exact(&wanted) {
            return self.verify(name, version);
        }
        self.found.targets.push((name, version));
        Ok(())
    }

    /// Returns the version of the package in a package file.
    fn version_of_source(&self, name: &str, place: &str) -> Result<String, String> {
        let unable = |error: &dyn std::fmt::Display| format!("Unable to cache {place}: {error}");
        let path = targets::fetched(self.cx, name, place, &self.args.kwargs);
        let path = path.map_err(|error| unable(&error))?;
        if !std::path::Path::new(&path).exists() {
            return Err(format!("{place} does not exist on minion"));
        }
        let info = self.provider.files().file_info(self.cx, &path);
        let info = info.map_err(|error| error.to_string())?;
        Ok(info.version.unwrap_or_default())
    }

    /// Marks a package for reinstallation if `pkg_verify` is set and some of its files were
    /// altered.
    fn verify(&mut self, name: String, version: Option<String>) -> Result<(), Error> {
        if !self.args.pkg_verify.is_true() {
            return Ok(());
        }
        match altered(self.cx, self.provider, self.args, &name) {
            Ok(files) if files.is_empty() => {}
            Ok(files) => {
                self.found.altered.insert(name.as_str(), files);
                self.found.to_reinstall.push((name, version));
            }
            Err(error) => self.found.problems.push(error.to_string()),
        }
        Ok(())
    }

    fn concluded(self) -> Result<Found, Ret> {
        let found = self.found;
        if !found.problems.is_empty() {
            return Err(Ret::failed(found.problems.join(" ")));
        }
        if !(found.targets.is_empty()
            && found.to_unpurge.is_empty()
            && found.to_reinstall.is_empty())
        {
            return Ok(found);
        }
        let version = match found.version_spec && !self.args.sources.is_true() {
            true => " and are at the desired version",
            false => "",
        };
        Err(Ret {
            warnings: found.warnings,
            ..Ret::ok(format!(
                "All specified packages are already installed{version}"
            ))
        })
    }
}

/// Returns the files of a package that differ from the package's originals.
pub(super) fn altered(
    cx: &Exec,
    provider: &dyn Provider,
    args: &Installed,
    name: &str,
) -> Result<Map, Error> {
    let mut kwargs = args.kwargs.clone();
    for option in ["ignore_types", "verify_options"] {
        let entries = args.pkg_verify.as_list().unwrap_or_default();
        let given = entries.iter().find_map(|entry| entry.get(option));
        kwargs.insert(option, given.cloned().unwrap_or_else(|| Value::list([])));
    }
    let verification = provider.require(provider.verification(), "verify")?;
    verification.verify(cx, &[name.to_owned()], &kwargs)
}
