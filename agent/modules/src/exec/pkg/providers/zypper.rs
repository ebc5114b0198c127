//! zypper, the package manager of SUSE and openSUSE.

use std::cmp::Ordering;

use machine::process::{Output, Process};
use python::xml;
use state::exec::Exec;
use state::module::Error;
use value::glob::fnmatch;
use value::{Map, Value};

use super::apt::is_set;
use super::capabilities::{Database, Descriptions, Downloads, Holds, OnHold, Verification};
use super::{
    About, Files, Listed, Notation, Order, Packages, Provider, Wanted, holds, listing, rpm,
};
use crate::exec::pkg::providers::zypper_cli::{self, call, error_text, words};

/// The package manager of SUSE.
pub(crate) struct Zypper;

/// The file in which zypper stores held packages.
const LOCKS: &str = "/etc/zypp/locks";

fn root(kwargs: &Map) -> Option<String> {
    let root = kwargs.get("root").filter(|root| root.is_true());
    root.map(Value::to_text)
}

fn command(arguments: &[String], kwargs: &Map) -> Process {
    let all: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Process::words(words(&all, false, false, root(kwargs).as_deref()))
}

fn texts(value: Option<&Value>) -> Vec<String> {
    match value.filter(|value| value.is_true()) {
        None => Vec::new(),
        Some(Value::List(items)) => items.iter().map(Value::to_text).collect(),
        Some(text) => vec![text.to_text()],
    }
}

/// Returns the output of `zypper info` for these packages.
fn info(cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
    let mut ask = vec!["info", "-t", "package"];
    ask.extend(names.iter().map(String::as_str));
    let said = call(cx, words(&ask, false, false, root(kwargs).as_deref()))?;
    Ok(read_info(&said))
}

impl Provider for Zypper {
    fn about(&self) -> About {
        About {
            program: "zypper",
            databases: &[
                "/usr/lib/sysimage/rpm/Packages.db",
                "/usr/lib/sysimage/rpm/Packages",
                "/var/lib/rpm/Packages",
            ],
            notation: Notation::Comparisons,
        }
    }

    fn list(&self, cx: &Exec) -> Result<Listed, Error> {
        rpm::list(cx, false)
    }

    fn compare(&self, one: &str, other: &str) -> Option<Ordering> {
        Some(crate::exec::pkg::version::rpm(one, other))
    }

    fn refresh(&self, cx: &Exec, kwargs: &Map) -> Result<Value, Error> {
        let mut all = Vec::new();
        if is_set(kwargs, "gpgautoimport") {
            all.push("--gpg-auto-import-keys".to_owned());
        }
        all.push("refresh".to_owned());
        if kwargs
            .get("force")
            .is_none_or(|force| force.is_null() || force.is_true())
        {
            all.push("--force".to_owned());
        }
        all.extend(texts(kwargs.get("repos")));
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let said = call(cx, words(&all, false, true, root(kwargs).as_deref()))?;
        Ok(read_refresh(&said).into())
    }

    fn latest(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
        let known = info(cx, names, kwargs)?;
        let any = is_set(kwargs, "show_installed");
        let latest = names.iter().map(|name| {
            let info = known.get(name).and_then(Value::as_map);
            let text = |key: &str| info.and_then(|info| info.get(key)).map(Value::to_text);
            let status = text("status").unwrap_or_default().to_lowercase();
            let new = status.contains("not installed") || status.contains("out-of-date");
            let version = text("version").filter(|_| new || any).unwrap_or_default();
            (Value::from(name), Value::from(version))
        });
        Ok(latest.collect())
    }

    fn available(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Packages, Error> {
        let mut ask = vec!["se", "-s"];
        ask.extend(names.iter().map(String::as_str));
        let said = zypper_cli::found(cx, words(&ask, true, false, root(kwargs).as_deref()))?;
        let from = texts(kwargs.get("fromrepo"));
        let mut all = Packages::new();
        for element in xml::elements(&said) {
            let name = element.get("name");
            let named = names.is_empty() || names.iter().any(|given| fnmatch(given, name));
            let repo = from.is_empty() || from.iter().any(|from| from == element.get("repository"));
            if element.name == "solvable" && element.get("kind") == "package" && named && repo {
                listing::add(&mut all, name, element.get("edition"));
            }
        }
        rpm::newest_first(&mut all);
        Ok(all)
    }

    fn upgrades(&self, cx: &Exec, kwargs: &Map) -> Result<Map, Error> {
        let from = texts(kwargs.get("fromrepo"));
        let mut ask = vec!["list-updates"];
        for repo in &from {
            ask.extend(["--repo", repo]);
        }
        let said = call(cx, words(&ask, true, false, root(kwargs).as_deref()))?;
        Ok(read_updates(&said))
    }

    fn install(&self, _cx: &Exec, order: &Order) -> Result<Vec<Process>, Error> {
        let kwargs = &order.kwargs;
        let mut prefix = Vec::new();
        if order.skip_verify {
            prefix.push("--no-gpg-checks".to_owned());
        }
        let names = match is_set(kwargs, "resolve_capabilities") {
            true => "--capability",
            false => "--name",
        };
        prefix.extend(["install", "--auto-agree-with-licenses", names].map(str::to_owned));
        if order.downloadonly {
            prefix.push("--download-only".to_owned());
        }
        if let Some(repo) = &order.fromrepo {
            prefix.extend(["--force", "--force-resolution", "--from", repo].map(str::to_owned));
        }
        if is_set(kwargs, "no_recommends") {
            prefix.push("--no-recommends".to_owned());
        }
        let mut commands = Vec::new();
        // Without --force, zypper installs neither an older version nor the same one again. From a
        // file, it does so only without it.
        let older = order.downgrade.iter();
        let (files, older): (Vec<&Wanted>, Vec<&Wanted>) =
            older.partition(|one| one.path.is_some());
        let force = order.fromrepo.is_none().then_some("--force");
        let lists: [(Vec<&Wanted>, Option<&str>); 3] = [
            (order.install.iter().collect(), None),
            (files, Some("--oldpackage")),
            (older.into_iter().chain(&order.reinstall).collect(), force),
        ];
        for (list, option) in lists {
            if list.is_empty() {
                continue;
            }
            let mut all = prefix.clone();
            all.extend(option.map(str::to_owned));
            all.extend(list.into_iter().map(Wanted::compared));
            commands.push(command(&all, kwargs));
        }
        Ok(commands)
    }

    fn remove(
        &self,
        _cx: &Exec,
        names: &[Wanted],
        _purge: bool,
        kwargs: &Map,
    ) -> Result<Vec<Process>, Error> {
        let named = names.iter().map(|one| match &one.version {
            Some(version) => format!("{}-{version}", one.name),
            None => one.name.clone(),
        });
        let all: Vec<String> = ["remove".to_owned()].into_iter().chain(named).collect();
        Ok(vec![command(&all, kwargs)])
    }

    fn upgrade(&self, _cx: &Exec, kwargs: &Map) -> Result<Vec<Process>, Error> {
        let whole = is_set(kwargs, "dist_upgrade");
        let mut all = Vec::new();
        if is_set(kwargs, "skip_verify") {
            all.push("--no-gpg-checks".to_owned());
        }
        let verb = if whole { "dist-upgrade" } else { "update" };
        all.extend([verb, "--auto-agree-with-licenses"].map(str::to_owned));
        if is_set(kwargs, "dryrun") {
            all.push("--dry-run".to_owned());
        }
        for repo in texts(kwargs.get("fromrepo")) {
            all.extend([if whole { "--from" } else { "--repo" }.to_owned(), repo]);
        }
        if whole && is_set(kwargs, "novendorchange") {
            all.push("--no-allow-vendor-change".to_owned());
        }
        if whole && is_set(kwargs, "no_recommends") {
            all.push("--no-recommends".to_owned());
        }
        if !whole {
            all.extend(texts(kwargs.get("name")));
            all.extend(texts(kwargs.get("pkgs")));
        }
        Ok(vec![command(&all, kwargs)])
    }

    fn error_text(&self, output: &Output) -> Option<String> {
        error_text(output).map(|said| format!("Zypper command failure: {said}"))
    }

    fn sentence(&self, _doing: &str, _again: bool) -> Option<String> {
        None
    }

    fn is_locked(&self, output: &Output) -> bool {
        zypper_cli::is_locked(output)
    }

    fn files(&self) -> &dyn Files {
        &rpm::Rpm
    }

    fn database(&self) -> Option<&dyn Database> {
        Some(&rpm::Rpm)
    }

    fn verification(&self) -> Option<&dyn Verification> {
        Some(&rpm::Rpm)
    }

    fn descriptions(&self) -> Option<&dyn Descriptions> {
        Some(self)
    }

    fn holds(&self) -> Option<&dyn Holds> {
        Some(self)
    }

    fn downloads(&self) -> Option<Downloads> {
        Some(Downloads {
            folder: "/var/cache/zypp/packages",
            ending: ".rpm",
            are_changes: true,
        })
    }
}

impl Descriptions for Zypper {
    fn function(&self) -> &'static str {
        "info_available"
    }

    fn describe(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
        let mut all = info(cx, names, kwargs)?;
        for (_, about) in all.iter_mut() {
            let about = about.as_map_mut();
            if let Some(here) = about.and_then(|about| about.get_mut("installed")) {
                *here = here.to_text().to_lowercase().starts_with("yes").into();
            }
        }
        Ok(all)
    }
}

impl Holds for Zypper {
    fn held(&self, _cx: &Exec) -> Result<Vec<Wanted>, Error> {
        let text = machine::fs::text_or_none(LOCKS)?.unwrap_or_default();
        Ok(read_locks(&text))
    }

    fn hold(&self, _cx: &Exec, package: &Wanted, hold: bool) -> Result<Process, Error> {
        let verb = if hold { "al" } else { "rl" };
        Ok(command(&[verb.to_owned(), package.compared()], &Map::new()))
    }

    fn on_hold(&self) -> OnHold {
        OnHold::Tried
    }

    fn words(&self) -> &'static holds::Words {
        &holds::LOCKS
    }
}

/// Reads the output of `zypper refresh`: True for an updated list, False for a current one.
fn read_refresh(text: &str) -> Map {
    let mut repos = Map::new();
    for line in text.lines().map(str::trim) {
        let Some(name) = line.split('\'').nth(1).map(str::trim) else {
            continue;
        };
        if line.starts_with("Repository") && line.contains("is up to date") {
            repos.insert(name, false);
        } else if line.starts_with("Building") && line.contains("done") {
            repos.insert(name, true);
        }
    }
    repos
}

/// Reads `zypper info`. Returns the data of each package by name, with keys in lower case.
fn read_info(text: &str) -> Map {
    let mut all = Map::new();
    for block in text.split("Information for package") {
        let mut info = Map::new();
        for line in block.lines().filter(|line| !line.starts_with("-----")) {
            if let Some((key, value)) = line.split_once(':')
                && !value.trim().is_empty()
            {
                info.insert(key.trim().to_lowercase(), value.trim());
            }
        }
        if let Some(name) = info.remove("name") {
            all.insert(name, info);
        }
    }
    all
}

fn read_updates(text: &str) -> Map {
    let updates = xml::elements(text).into_iter();
    updates
        .filter(|element| element.name == "update" && element.get("kind") == "package")
        .map(|element| {
            (
                Value::from(element.get("name")),
                Value::from(element.get("edition")),
            )
        })
        .collect()
}

fn read_locks(text: &str) -> Vec<Wanted> {
    let read = |block: &str| {
        let field = |name: &str| {
            let mut lines = block.lines().filter_map(|line| line.split_once(':'));
            let (_, value) = lines.find(|(key, _)| key.trim() == name)?;
            Some(value.trim().to_owned())
        };
        Some(Wanted {
            name: field("solvable_name")?,
            version: field("version")
                .map(|version| version.trim_start_matches(['=', ' ']).to_owned()),
            path: None,
        })
    };
    text.split("\n\n").filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_of_zypper_are_read() {
        let refresh = "Repository 'Main' is up to date.\nRetrieving repository 'Update' metadata [..done]\nBuilding repository 'Update' cache [....done]\nAll repositories have been refreshed.\n";
        let expected = crate::testing::json(r#"{"Main": false, "Update": true}"#);
        assert_eq!(read_refresh(refresh), expected);
        let info = "Loading repository data...\n\n\nInformation for package vim:\n------------------------\nRepository     : Main\nName           : vim\nVersion        : 9.0-1.1\nInstalled      : Yes\nStatus         : out-of-date (version 8.0-1 installed)\nDescription    : \n    text: more\n";
        let vim = read_info(info).remove("vim").unwrap();
        assert_eq!(vim.get("version"), Some(&"9.0-1.1".into()));
        assert!(
            vim.get("status")
                .unwrap()
                .to_text()
                .starts_with("out-of-date")
        );
        let updates = "<?xml version='1.0'?><stream><update-status version=\"0.6\"><update-list><update name=\"vim\" kind=\"package\" edition=\"9.1-1\" edition-old=\"9.0-1\"><source url=\"x\"/></update><update name=\"p\" kind=\"patch\" edition=\"1\"/></update-list></update-status></stream>";
        assert_eq!(
            read_updates(updates),
            crate::testing::json(r#"{"vim": "9.1-1"}"#)
        );
    }

    #[test]
    fn locks_and_versions_are_read() {
        let locks = "\ntype: package\nmatch_type: glob\ncase_sensitive: on\nsolvable_name: vim\n\ntype: package\nsolvable_name: bash\nversion: == 5.0-1\n";
        let held = read_locks(locks);
        assert_eq!(held[0].name, "vim");
        assert_eq!(held[1].version.as_deref(), Some("5.0-1"));
        let one = |version: &str| {
            Wanted::compared(&Wanted {
                name: "vim".to_owned(),
                version: Some(version.to_owned()),
                path: None,
            })
        };
        assert_eq!(
            (one("1.0-1"), one(">=1.0")),
            ("vim=1.0-1".into(), "vim>=1.0".into())
        );
    }
}
