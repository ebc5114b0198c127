//! apt and dpkg: Debian, Ubuntu and their derivatives.

use std::cmp::Ordering;
use std::time::{Duration, SystemTime};

use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::capabilities::{
    Autoremoval, Database, Descriptions, Downloads, Holds, OnHold, Selections,
};
use super::failed::error_text;
use super::transaction::run;
use super::{About, Files, Listed, Notation, Order, Packages, Provider, Wanted};
use super::{dpkg, holds, listing};
use crate::exec::pkg::version;

/// The package manager of Debian.
pub(crate) struct Apt;

/// The variables that keep dpkg and related programs from asking questions.
const ENV: [(&str, &str); 4] = [
    ("APT_LISTBUGS_FRONTEND", "none"),
    ("APT_LISTCHANGES_FRONTEND", "none"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("UCF_FORCE_CONFFOLD", "1"),
];

/// The folder of apt's package lists.
const LISTS: &str = "/var/lib/apt/lists";

/// Returns a command with the variables that keep it from asking questions.
pub(crate) fn command<S: Into<String>>(words: impl IntoIterator<Item = S>) -> Process {
    Process {
        env: ENV
            .map(|(name, value)| (Value::from(name), Value::from(value)))
            .into_iter()
            .collect(),
        ..Process::words(words)
    }
}

/// Like [`command`], with the `env` and `timeout` that the user gave.
fn command_with_options(words: Vec<String>, kwargs: &Map) -> Process {
    let mut process = command(words);
    let given = kwargs.get("env").cloned().unwrap_or_default();
    if let Ok(mut env) = <Map as state::typed::Typed>::typed(given) {
        env.update(std::mem::take(&mut process.env));
        process.env = env;
    }
    process.timeout = kwargs.get("timeout").cloned();
    process
}

/// Runs a dpkg query and returns its output. A database that dpkg cannot read is an error, not an
/// empty list.
pub(crate) fn asked_dpkg(cx: &Exec, words: &[&str]) -> Result<String, Error> {
    let output = command(words.iter().copied()).quiet().run(cx)?;
    match error_text(&output) {
        Some(error) => Err(Error::refused(error)),
        None => Ok(output.into_stdout_regardless()),
    }
}

/// Returns the command that sets the selection state of a package.
pub(crate) fn selection(name: &str, state: &str) -> Process {
    Process {
        stdin: Some(format!("{name} {state}")),
        ..command(["dpkg", "--set-selections"])
    }
}

pub(super) fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| (*word).to_owned()).collect()
}

pub(super) fn is_set(kwargs: &Map, name: &str) -> bool {
    kwargs.get(name).is_some_and(Value::is_true)
}

/// Returns the beginning of an `apt-get` command for installing, without its verb.
fn apt_get(kwargs: &Map) -> Vec<String> {
    let mut all = words(&["apt-get", "-q", "-y"]);
    let options: &[&str] = match is_set(kwargs, "force_conf_new") {
        true => &["--force-confnew"],
        false => &["--force-confold", "--force-confdef"],
    };
    for option in options {
        all.extend(["-o".to_owned(), format!("DPkg::Options::={option}")]);
    }
    if is_set(kwargs, "force_yes") {
        all.push("--force-yes".to_owned());
    }
    all
}

impl Provider for Apt {
    fn about(&self) -> About {
        About {
            program: "apt-get",
            databases: &["/var/lib/dpkg/status", "/var/lib/dpkg/updates"],
            notation: Notation::Globs,
        }
    }

    fn list(&self, cx: &Exec) -> Result<Listed, Error> {
        let format = "${Status} ${Package} ${Version} ${Architecture}\n";
        let text = asked_dpkg(cx, &["dpkg-query", "--showformat", format, "-W"])?;
        Ok(read_list(&text, dpkg::own_arch(cx)))
    }

    fn compare(&self, one: &str, other: &str) -> Option<Ordering> {
        version::debian(one, other)
    }

    fn refresh(&self, cx: &Exec, kwargs: &Map) -> Result<Value, Error> {
        if is_fresh(kwargs.get("cache_valid_time")) {
            return Ok(Map::new().into());
        }
        let timeout = kwargs
            .get("timeout")
            .or_else(|| cx.opts().get("aptpkg_refresh_db_timeout"));
        let update = command(["apt-get", "-q", "update"]);
        let limited = Process {
            timeout: Some(timeout.cloned().unwrap_or_else(|| 30.into())),
            ..update.clone()
        };
        let mut output = run(cx, self, &limited)?;
        if output.timed_out {
            command(["apt-get", "-q", "clean"]).run(cx)?;
            output = run(cx, self, &update)?;
        }
        if let Some(complaint) = self.error_text(&output) {
            return Err(Error::refused(complaint));
        }
        let (repos, wrong) = read_update(output.stdout_regardless());
        match is_set(kwargs, "failhard") && !wrong.is_empty() {
            true => Err(Error::refused(format!(
                "Error getting repos: {}",
                wrong.join(", ")
            ))),
            false => Ok(repos.into()),
        }
    }

    fn latest(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
        let mut policy = words(&["apt-cache", "-q", "policy"]);
        policy.extend(names.iter().cloned());
        if let Some(release) = release(kwargs) {
            policy.extend(["-o".to_owned(), release]);
        }
        let output = command(policy).quiet().run(cx)?;
        let candidates = read_policy(&output.stdout_of_success("apt-cache policy")?, names);
        let here = listing::listed(cx, self)?.here();
        let show_installed = is_set(kwargs, "show_installed");
        let mut latest: Map = names
            .iter()
            .map(|name| (Value::from(name), Value::from("")))
            .collect();
        for (name, candidate) in candidates {
            let is_new = |installed: &String| {
                let order = version::debian(installed, &candidate);
                order.is_none_or(Ordering::is_lt)
            };
            let installed = listing::versions_of(&here, &name);
            if show_installed || installed.iter().all(is_new) {
                latest.insert(name, candidate);
            }
        }
        Ok(latest)
    }

    fn available(&self, cx: &Exec, names: &[String], _kwargs: &Map) -> Result<Packages, Error> {
        let mut ask = words(&["apt-cache", if names.is_empty() { "dump" } else { "show" }]);
        ask.extend(names.iter().cloned());
        Ok(read_versions(
            command(ask).quiet().run(cx)?.stdout_regardless(),
        ))
    }

    fn upgrades(&self, cx: &Exec, kwargs: &Map) -> Result<Map, Error> {
        let verb = match kwargs.get("dist_upgrade").is_none_or(Value::is_true) {
            true => "dist-upgrade",
            false => "upgrade",
        };
        let mut ask = words(&["apt-get", "--just-print", verb]);
        if let Some(release) = release(kwargs) {
            ask.extend(["-o".to_owned(), release]);
        }
        let output = run(cx, self, &command(ask))?;
        if output.success() {
            return Ok(read_upgrades(output.stdout_regardless()));
        }
        let said = [output.stderr.as_str(), output.stdout_regardless()];
        let said = said.into_iter().find(|text| !text.is_empty());
        Err(Error::refused(match said {
            Some(text) => format!("Failed to get upgrades: {text}"),
            None => "Failed to get upgrades".to_owned(),
        }))
    }

    fn install(&self, _cx: &Exec, order: &Order) -> Result<Vec<Process>, Error> {
        let kwargs = &order.kwargs;
        let mut prefix = apt_get(kwargs);
        if let Some(recommends) = kwargs.get("install_recommends") {
            prefix.push(match recommends.is_true() {
                true => "--install-recommends".to_owned(),
                false => "--no-install-recommends".to_owned(),
            });
        }
        if is_set(kwargs, "only_upgrade") {
            prefix.push("--only-upgrade".to_owned());
        }
        if order.skip_verify {
            prefix.push("--allow-unauthenticated".to_owned());
        }
        if let Some(release) = order.fromrepo.clone().filter(|_| !order.from_files) {
            prefix.extend(["-t".to_owned(), release]);
        }
        let download: &[&str] = if order.downloadonly {
            &["--download-only"]
        } else {
            &[]
        };
        let again: &[&str] = if order.from_files {
            &[]
        } else {
            &["--reinstall"]
        };
        let lists: [(&[Wanted], &[&str]); 3] = [
            (&order.install, &[]),
            (&order.downgrade, &["--allow-downgrades"]),
            (&order.reinstall, again),
        ];
        let wanted = lists.iter().filter(|(list, _)| !list.is_empty());
        let commands = wanted.map(|(list, options)| {
            let mut all = prefix.clone();
            all.extend(words(options));
            all.extend(words(download));
            all.push("install".to_owned());
            all.extend(list.iter().map(Wanted::exactly));
            command_with_options(all, kwargs)
        });
        Ok(commands.collect())
    }

    fn remove(
        &self,
        _cx: &Exec,
        names: &[Wanted],
        purge: bool,
        kwargs: &Map,
    ) -> Result<Vec<Process>, Error> {
        let verb = if purge { "purge" } else { "remove" };
        let mut all = words(&["apt-get", "-q", "-y", verb]);
        all.extend(names.iter().map(|one| one.name.clone()));
        Ok(vec![command_with_options(all, kwargs)])
    }

    fn upgrade(&self, _cx: &Exec, kwargs: &Map) -> Result<Vec<Process>, Error> {
        let mut all = apt_get(kwargs);
        if is_set(kwargs, "skip_verify") {
            all.push("--allow-unauthenticated".to_owned());
        }
        if is_set(kwargs, "download_only") || is_set(kwargs, "downloadonly") {
            all.push("--download-only".to_owned());
        }
        if is_set(kwargs, "allow_downgrades") {
            all.push("--allow-downgrades".to_owned());
        }
        all.push(match is_set(kwargs, "dist_upgrade") {
            true => "dist-upgrade".to_owned(),
            false => "upgrade".to_owned(),
        });
        Ok(vec![command(all)])
    }

    fn is_locked(&self, output: &Output) -> bool {
        output.stderr.contains("Could not get lock")
    }

    fn files(&self) -> &dyn Files {
        &dpkg::Dpkg
    }

    fn database(&self) -> Option<&dyn Database> {
        Some(&dpkg::Dpkg)
    }

    fn selections(&self) -> Option<&dyn Selections> {
        Some(&dpkg::Dpkg)
    }

    fn descriptions(&self) -> Option<&dyn Descriptions> {
        Some(self)
    }

    fn autoremoval(&self) -> Option<&dyn Autoremoval> {
        Some(self)
    }

    fn holds(&self) -> Option<&dyn Holds> {
        Some(self)
    }

    fn downloads(&self) -> Option<Downloads> {
        Some(Downloads {
            folder: "/var/cache/apt",
            ending: ".deb",
            are_changes: false,
        })
    }
}

impl Descriptions for Apt {
    fn function(&self) -> &'static str {
        "show"
    }

    fn describe(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
        let mut ask = words(&["apt-cache", "show"]);
        ask.extend(names.iter().cloned());
        let output = command(ask).quiet().run(cx)?;
        let filter = kwargs.get("filter").cloned().unwrap_or_default();
        let filter: Vec<String> = match filter {
            Value::Str(words) => words
                .split(',')
                .map(|word| word.trim().to_lowercase())
                .collect(),
            other => other
                .as_list()
                .unwrap_or_default()
                .iter()
                .map(|word| word.to_text().to_lowercase())
                .collect(),
        };
        Ok(dpkg::read_show(output.stdout_regardless(), &filter))
    }
}

impl Autoremoval for Apt {
    fn autoremove(&self, list_only: bool, purge: bool) -> Process {
        let answer = if list_only {
            "--assume-no"
        } else {
            "--assume-yes"
        };
        let mut all = words(&["apt-get", answer]);
        if purge {
            all.push("--purge".to_owned());
        }
        all.push("autoremove".to_owned());
        command(all)
    }

    fn autoremovable(&self, stdout: &str) -> Vec<String> {
        let marked = |line: &&str| !line.contains("The following packages will be REMOVED:");
        let after = stdout.lines().skip_while(marked).skip(1);
        let names = after.take_while(|line| line.starts_with(' '));
        names
            .flat_map(str::split_whitespace)
            .map(str::to_owned)
            .collect()
    }
}

impl Holds for Apt {
    fn held(&self, cx: &Exec) -> Result<Vec<Wanted>, Error> {
        let text = asked_dpkg(cx, &["dpkg", "--get-selections", "*"])?;
        let held = text.lines().filter_map(|line| {
            let (name, state) = line.split_once(char::is_whitespace)?;
            (state.trim() == "hold").then(|| Wanted {
                name: name.to_owned(),
                ..Wanted::default()
            })
        });
        Ok(held.collect())
    }

    fn hold(&self, _cx: &Exec, package: &Wanted, hold: bool) -> Result<Process, Error> {
        let state = if hold { "hold" } else { "install" };
        Ok(selection(&package.name, state))
    }

    fn on_hold(&self) -> OnHold {
        OnHold::Freed
    }

    fn words(&self) -> &'static holds::Words {
        &holds::SELECTIONS
    }
}

/// Returns the argument for `-o APT::Default-Release=`, if a release is named.
fn release(kwargs: &Map) -> Option<String> {
    let release = kwargs.get("fromrepo").filter(|release| release.is_true())?;
    Some(format!("APT::Default-Release={}", release.to_text()))
}

/// Returns true if the lists are younger than this number of seconds.
fn is_fresh(seconds: Option<&Value>) -> bool {
    let Some(seconds) = seconds.filter(|seconds| seconds.is_true()) else {
        return false;
    };
    let Some(valid) = seconds
        .as_float()
        .and_then(|valid| Duration::try_from_secs_f64(valid).ok())
    else {
        log::warning(format_args!(
            "expected integer for cache_valid_time parameter, failed with: {}",
            seconds.to_text()
        ));
        return false;
    };
    let read = std::fs::metadata(LISTS).and_then(|found| found.modified());
    read.ok()
        .and_then(|read| read.checked_add(valid))
        .is_some_and(|until| until > SystemTime::now())
}

/// Reads `install ok installed zsh 5.9-4 amd64`. The name of a package for another architecture
/// than `own` includes that architecture.
fn read_list(text: &str, own: Option<&str>) -> Listed {
    let mut listed = Listed::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [wanted, _, status, name, version, arch, ..] = words.as_slice() else {
            continue;
        };
        let name = dpkg::with_arch(name, arch, own);
        // As in Salt, these are substring checks: `deinstall` contains `install`, and
        // `not-installed` contains `installed`.
        let packages = if (wanted.contains("install") || wanted.contains("hold"))
            && status.contains("installed")
        {
            &mut listed.installed
        } else if wanted.contains("deinstall") {
            &mut listed.removed
        } else if wanted.contains("purge") && *status == "installed" {
            &mut listed.purge_desired
        } else {
            continue;
        };
        listing::add(packages, &name, version);
    }
    listed
}

/// Reads `Get:1 http://… InRelease [10 kB]`, `Hit:`, `Ign:` and `Err:`. Returns the result for each
/// repository, and the failed ones.
fn read_update(text: &str) -> (Map, Vec<String>) {
    let (mut repos, mut wrong) = (Map::new(), Vec::new());
    for line in text.lines() {
        let mut columns = line.split_whitespace();
        let Some(first) = columns.next() else {
            continue;
        };
        let ident = columns.collect::<Vec<_>>().join(" ");
        let came = if first.contains("Get") {
            let size = ident.rfind(" [").filter(|_| ident.ends_with("B]"));
            let ident = ident.get(..size.unwrap_or(ident.len()));
            repos.insert(ident.unwrap_or_default(), true);
            continue;
        } else if first.contains("Ign") {
            Value::Bool(false)
        } else if first.contains("Hit") {
            Value::Null
        } else if first.contains("Err") {
            wrong.push(ident.clone());
            Value::Bool(false)
        } else {
            continue;
        };
        repos.insert(ident, came);
    }
    (repos, wrong)
}

/// Reads `apt-cache policy`. Returns the candidate of each name, or of the same name on other
/// architectures.
fn read_policy(text: &str, names: &[String]) -> Vec<(String, String)> {
    let bare = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
    let mut candidates: Vec<(String, String)> = Vec::new();
    let mut package = None;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line
            .strip_suffix(':')
            .filter(|name| *name != "Version table")
        {
            let known = |wanted: &String| wanted == name || bare(wanted) == bare(name);
            package = names.iter().any(known).then(|| name.to_owned());
        } else if let Some(candidate) = line.strip_prefix("Candidate:") {
            let candidate = Some(candidate.trim()).filter(|text| *text != "(none)");
            if let (Some(candidate), Some(package)) = (candidate, package.take()) {
                candidates.push((package, candidate.to_owned()));
            }
        }
    }
    candidates
}

/// Reads the records of `apt-cache show` and `dump`. Returns the versions of each package.
fn read_versions(text: &str) -> Packages {
    let (mut packages, mut package) = (Packages::new(), "");
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("Package: ") {
            package = name.trim();
        } else if let Some(version) = line.trim().strip_prefix("Version: ") {
            listing::add(&mut packages, package, version.trim());
        }
    }
    packages
}

/// Reads `Conf zsh (5.9-4 Debian:12/stable [amd64])`.
fn read_upgrades(text: &str) -> Map {
    let lines = text.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("Conf ")?.split_once(" (")?;
        let version = rest.split_whitespace().next()?;
        Some((Value::from(name), Value::from(version)))
    });
    lines.collect()
}
