//! opkg, the package manager of OpenWrt, NI Linux Real-Time and Poky.

use std::cmp::Ordering;

use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::apt::{is_set, words};
use super::capabilities::{Holds, OnHold};
use super::{
    About, Files, Listed, Notation, Order, Packages, Provider, Wanted, holds, listing, rpm,
};
use crate::exec::pkg::version;

/// The package manager of small systems.
pub(crate) struct Opkg;

fn ask(cx: &Exec, list: &[&str]) -> Result<Output, Error> {
    Process::words(list.iter().copied()).quiet().run(cx)
}

/// Reads `name - version` or `name - version - description`.
fn read_list(text: &str) -> Packages {
    let mut packages = Packages::new();
    for line in text.lines().filter(|line| !line.starts_with(' ')) {
        let mut parts = line.split(" - ");
        if let (Some(name), Some(version)) = (parts.next(), parts.next()) {
            listing::add(&mut packages, name.trim(), version.trim());
        }
    }
    packages
}

/// Reads `name - old - new`.
fn read_upgrades(text: &str) -> Map {
    let read = |line: &str| {
        let mut parts = line.split(" - ").map(str::trim);
        let (name, _, new) = (parts.next()?, parts.next()?, parts.next()?);
        Some((Value::from(name), Value::from(new)))
    };
    text.lines().filter_map(read).collect()
}

/// Reads the two outputs of `opkg update` for each feed.
fn read_update(stdout: &str, stderr: &str) -> Map {
    let mut feeds = Map::new();
    for line in stdout.lines().chain(stderr.lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let word = |place: usize| words.get(place).copied().unwrap_or_default();
        let bare = |word: &str| word.trim_end_matches(['.', ',']).to_owned();
        if line.contains("Inflating") {
            let name = word(1).split('.').next().unwrap_or_default();
            feeds.insert(name, true);
        } else if line.starts_with("Updated source") {
            feeds.insert(bare(word(2)).trim_matches('\''), true);
        } else if let Some((_, list)) = line.split_once("Updated list of available packages in ") {
            let name = list.trim_end_matches('.').rsplit('/').next();
            feeds.insert(name.unwrap_or_default(), true);
        } else if line.contains("Failed to download") {
            let url = words.iter().find(|word| word.contains("://"));
            feeds.insert(bare(url.copied().unwrap_or_default()), false);
        }
    }
    feeds
}

impl Provider for Opkg {
    fn about(&self) -> About {
        About {
            program: "opkg",
            databases: &["/usr/lib/opkg/status", "/var/lib/opkg/status"],
            notation: Notation::Globs,
        }
    }

    fn list(&self, cx: &Exec) -> Result<Listed, Error> {
        Ok(Listed {
            installed: read_list(
                rpm::answered(ask(cx, &["opkg", "list-installed"])?)?.stdout_regardless(),
            ),
            ..Listed::default()
        })
    }

    fn compare(&self, one: &str, other: &str) -> Option<Ordering> {
        version::debian(one, other)
    }

    fn refresh(&self, cx: &Exec, kwargs: &Map) -> Result<Value, Error> {
        let output = Process::words(["opkg", "update"]).run(cx)?;
        let feeds = read_update(output.stdout_regardless(), &output.stderr);
        match self.error_text(&output) {
            Some(said) if feeds.is_empty() || is_set(kwargs, "failhard") => {
                Err(Error::refused(said))
            }
            _ => Ok(feeds.into()),
        }
    }

    fn latest(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
        let upgrades = self.upgrades(cx, kwargs)?;
        let here = listing::listed(cx, self)?.installed;
        let any = is_set(kwargs, "show_installed");
        let mut latest = Map::new();
        for name in names {
            let version = match upgrades.get(name) {
                Some(version) => version.to_text(),
                None if here.contains(name) && !any => String::new(),
                None => {
                    let found = self.available(cx, std::slice::from_ref(name), kwargs)?;
                    let newest = listing::versions_of(&found, name).into_iter().next();
                    newest.unwrap_or_default()
                }
            };
            latest.insert(name.as_str(), version);
        }
        Ok(latest)
    }

    fn available(&self, cx: &Exec, names: &[String], _kwargs: &Map) -> Result<Packages, Error> {
        let mut all = Packages::new();
        match names {
            [] => all = read_list(ask(cx, &["opkg", "list"])?.stdout_regardless()),
            names => {
                for name in names {
                    let said = ask(cx, &["opkg", "list", name])?.into_stdout_regardless();
                    if let Some(versions) = read_list(&said).remove(name) {
                        all.insert(name.as_str(), versions);
                    }
                }
            }
        }
        for (_, versions) in all.iter_mut() {
            if let Some(versions) = versions.as_list_mut() {
                value::sorted::sort_by(versions, |one, other| {
                    let order = self.compare(&other.to_text(), &one.to_text());
                    order.unwrap_or(Ordering::Equal)
                });
            }
        }
        Ok(all)
    }

    fn upgrades(&self, cx: &Exec, _kwargs: &Map) -> Result<Map, Error> {
        let output = ask(cx, &["opkg", "list-upgradable"])?;
        match self.error_text(&output) {
            None => Ok(read_upgrades(output.stdout_regardless())),
            Some(said) => Err(Error::refused(said)),
        }
    }

    fn install(&self, _cx: &Exec, order: &Order) -> Result<Vec<Process>, Error> {
        let kwargs = &order.kwargs;
        let mut prefix = words(&["opkg", "install"]);
        if order.downloadonly {
            prefix.push("--download-only".to_owned());
        }
        let upgrades_only = is_set(kwargs, "only_upgrade");
        if order.from_files && !upgrades_only {
            prefix.push("--force-downgrade".to_owned());
        }
        if kwargs
            .get("install_recommends")
            .is_some_and(|wanted| !wanted.is_true())
        {
            prefix.push("--no-install-recommends".to_owned());
        }
        let down: &[&str] = match upgrades_only || order.from_files {
            true => &[],
            false => &["--force-downgrade"],
        };
        let lists: [(&[Wanted], &[&str]); 3] = [
            (&order.install, &[]),
            (&order.downgrade, down),
            (&order.reinstall, &["--force-reinstall"]),
        ];
        let wanted = lists.iter().filter(|(list, _)| !list.is_empty());
        let commands = wanted.map(|(list, options)| {
            let mut all = prefix.clone();
            all.extend(words(options));
            all.extend(list.iter().map(Wanted::exactly));
            Process::words(all)
        });
        Ok(commands.collect())
    }

    fn remove(
        &self,
        _cx: &Exec,
        names: &[Wanted],
        _purge: bool,
        kwargs: &Map,
    ) -> Result<Vec<Process>, Error> {
        let mut all = words(&["opkg", "remove"]);
        if is_set(kwargs, "auto_remove_deps") {
            all.push("--autoremove".to_owned());
        }
        all.extend(names.iter().map(|one| one.name.clone()));
        Ok(vec![Process::words(all)])
    }

    fn upgrade(&self, _cx: &Exec, _kwargs: &Map) -> Result<Vec<Process>, Error> {
        Ok(vec![Process::words(["opkg", "upgrade"])])
    }

    fn is_locked(&self, output: &Output) -> bool {
        let said = [output.stdout_regardless(), &output.stderr];
        said.iter().any(|text| text.contains("Could not lock"))
    }

    fn files(&self) -> &dyn Files {
        self
    }

    fn holds(&self) -> Option<&dyn Holds> {
        Some(self)
    }
}

impl Files for Opkg {
    fn file_info(&self, _cx: &Exec, path: &str) -> Result<Wanted, Error> {
        // The format is NAME_VERSION_ARCHITECTURE.ipk.
        let file = path.rsplit('/').next().unwrap_or(path);
        let mut parts = file.trim_end_matches(".ipk").split('_');
        let (Some(name), Some(version)) = (parts.next(), parts.next()) else {
            return Err(Error::refused(format!(
                "{path} is not named NAME_VERSION_ARCHITECTURE.ipk"
            )));
        };
        Ok(Wanted {
            name: name.to_owned(),
            version: Some(version.to_owned()),
            path: Some(path.to_owned()),
        })
    }

    fn owner(&self, cx: &Exec, path: &str) -> Result<String, Error> {
        let said = ask(cx, &["opkg", "search", path])?.into_stdout_regardless();
        let owner = said.split(" - ").next().unwrap_or_default();
        Ok(owner.trim().to_owned())
    }

    fn by_package(&self, cx: &Exec, names: &[String]) -> Result<Packages, Error> {
        let here = listing::listed(cx, self)?.installed;
        let names = match names.is_empty() {
            true => here.keys().map(Value::to_text).collect(),
            false => names.to_vec(),
        };
        let mut files = Packages::new();
        for name in names {
            let said = ask(cx, &["opkg", "files", &name])?.into_stdout_regardless();
            for line in said.lines().filter(|line| line.starts_with('/')) {
                listing::add(&mut files, &name, line);
            }
        }
        Ok(files)
    }
}

impl Holds for Opkg {
    fn held(&self, cx: &Exec) -> Result<Vec<Wanted>, Error> {
        Ok(read_held(ask(cx, &["opkg", "status"])?.stdout_regardless()))
    }

    fn hold(&self, _cx: &Exec, package: &Wanted, hold: bool) -> Result<Process, Error> {
        let state = if hold { "hold" } else { "ok" };
        Ok(Process::words(["opkg", "flag", state, &package.name]))
    }

    fn on_hold(&self) -> OnHold {
        OnHold::Freed
    }

    fn words(&self) -> &'static holds::Words {
        &holds::SELECTIONS
    }
}

/// Reads the records `Package: …`, `Status: install hold installed`.
fn read_held(text: &str) -> Vec<Wanted> {
    let (mut held, mut name) = (Vec::new(), "");
    for line in text.lines() {
        if let Some(package) = line.strip_prefix("Package:") {
            name = package.trim();
        } else if let Some(status) = line.strip_prefix("Status:")
            && status
                .split_whitespace()
                .nth(1)
                .is_some_and(|flags| flags.split(',').any(|flag| flag == "hold"))
        {
            held.push(Wanted {
                name: name.to_owned(),
                ..Wanted::default()
            });
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_of_opkg_are_read() {
        let list =
            "base-files - 1491-r16847\nbusybox - 1.35.0-5 - Core utilities\n further text - here\n";
        let expected =
            crate::testing::json(r#"{"base-files": ["1491-r16847"], "busybox": ["1.35.0-5"]}"#);
        assert_eq!(read_list(list), expected);
        let upgrades = read_upgrades("dropbear - 2022.82-2 - 2022.82-3\n");
        assert_eq!(
            upgrades,
            crate::testing::json(r#"{"dropbear": "2022.82-3"}"#)
        );
        let held = read_held(
            "Package: a\nStatus: install hold installed\n\nPackage: b\nStatus: install user installed\n",
        );
        assert_eq!(held.len(), 1);
    }

    #[test]
    fn an_update_says_which_feeds_it_has() {
        let stdout = "Downloading https://x/base/Packages.gz\nUpdated list of available packages in /var/opkg-lists/openwrt_base\nInflating http://x/uri.ipk\n";
        let stderr = "*** Failed to download the package list from https://x/luci/Packages.gz\n";
        let feeds = read_update(stdout, stderr);
        assert_eq!(feeds.get("openwrt_base"), Some(&true.into()));
        assert_eq!(feeds.get("https://x/luci/Packages.gz"), Some(&false.into()));
    }
}
