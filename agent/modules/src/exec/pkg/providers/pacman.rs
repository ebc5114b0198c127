//! pacman, the package manager of Arch.

use std::cmp::Ordering;

use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::glob::fnmatch;
use value::{Map, Value};

use super::apt::{is_set, words};
use super::capabilities::Downloads;
use super::{
    About, Files, Listed, Notation, Order, Packages, Provider, Wanted, failed, listing, rpm,
};
use crate::exec::pkg::version;

/// The package manager of Arch.
pub(crate) struct Pacman;

/// Returns a command with the root from the arguments.
fn command(mut list: Vec<String>, kwargs: &Map) -> Process {
    if let Some(root) = kwargs.get("root").filter(|root| root.is_true()) {
        list.extend(["-r".to_owned(), root.to_text()]);
    }
    Process::words(list)
}

/// Returns the command that lists the downloads for these packages.
fn candidates(names: &[String], kwargs: &Map) -> Process {
    let mut all = words(&["pacman", "-Sp"]);
    if !is_set(kwargs, "show_installed") {
        all.push("--needed".to_owned());
    }
    all.extend(words(&["--print-format", "%n %v"]));
    all.extend(names.iter().cloned());
    command(all, kwargs).quiet()
}

/// Reads `name version`.
fn read_pairs(text: &str) -> Vec<(&str, &str)> {
    let read = |line| {
        let mut words = str::split_whitespace(line);
        let pair = (words.next()?, words.next()?);
        // Some versions print here which list they are fetching.
        let fetching = pair.0.eq_ignore_ascii_case("downloading") && pair.1.contains(".db");
        (words.next().is_none() && !fetching).then_some(pair)
    };
    text.lines().filter_map(read).collect()
}

/// Reads the output of `pacman -Sy` for each list.
fn read_update(text: &str) -> Map {
    let mut lists = Map::new();
    for line in text
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("::"))
    {
        let mut words = line.split_whitespace();
        let (first, second) = (words.next().unwrap_or_default(), words.next());
        if line.contains("is up to date") {
            lists.insert(first, false);
        } else if line.contains("downloading") {
            // The format is ` main downloading...`, in older versions `downloading main.db...`.
            let name = match first {
                "downloading" => second.unwrap_or_default().split('.').next(),
                name => Some(name),
            };
            lists.insert(name.unwrap_or_default(), true);
        }
    }
    lists
}

impl Provider for Pacman {
    fn about(&self) -> About {
        About {
            program: "pacman",
            databases: &["/var/lib/pacman/local"],
            notation: Notation::Comparisons,
        }
    }

    fn list(&self, cx: &Exec) -> Result<Listed, Error> {
        let query = Process::words(["pacman", "-Q"]).quiet();
        let output = query.run(cx)?;
        // pacman fails without output when no package is installed at all.
        let is_empty = output.stdout_regardless().is_empty() && output.stderr.is_empty();
        let output = if is_empty {
            output
        } else {
            rpm::answered(output)?
        };
        let mut listed = Listed::default();
        for (name, version) in read_pairs(output.stdout_regardless()) {
            listing::add(&mut listed.installed, name, version);
        }
        Ok(listed)
    }

    fn compare(&self, one: &str, other: &str) -> Option<Ordering> {
        Some(version::rpm(one, other))
    }

    fn refresh(&self, cx: &Exec, kwargs: &Map) -> Result<Value, Error> {
        let mut process = command(words(&["pacman", "-Sy"]), kwargs);
        process.env.insert("LANG", "C");
        let output = process.run(cx)?;
        match output.success() {
            true => Ok(read_update(output.stdout_regardless()).into()),
            false => Err(Error::refused(format!(
                "Error refreshing package database: {}",
                output.stderr
            ))),
        }
    }

    fn latest(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
        let output = candidates(names, kwargs).run(cx)?;
        let is_alone = output.success() || names.len() < 2;
        let mut text = output.into_stdout_regardless();
        if !is_alone {
            // One unknown name makes the query for all names fail.
            text.clear();
            for name in names {
                let one = candidates(std::slice::from_ref(name), kwargs).run(cx)?;
                text.push_str(one.stdout_regardless());
                text.push('\n');
            }
        }
        let found = read_pairs(&text);
        let latest = names.iter().map(|name| {
            let version = found.iter().find(|(known, _)| known == name);
            let version = version.map_or("", |(_, version)| version);
            (Value::from(name), Value::from(version))
        });
        Ok(latest.collect())
    }

    fn available(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Packages, Error> {
        let output = Process::words(["pacman", "-Sl"]).quiet().run(cx)?;
        let from = kwargs.get("fromrepo").filter(|from| from.is_true());
        let from = from.map(Value::to_text);
        let mut all = Packages::new();
        for line in output.stdout_regardless().lines() {
            let mut parts = line.split_whitespace();
            let (Some(repo), Some(name), Some(version)) =
                (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            let wanted = |from: &String| from.split(',').any(|one| one.trim() == repo);
            let named = names.is_empty() || names.iter().any(|given| fnmatch(given, name));
            if named && from.as_ref().is_none_or(wanted) {
                listing::add(&mut all, name, version);
            }
        }
        rpm::newest_first(&mut all);
        Ok(all)
    }

    fn upgrades(&self, cx: &Exec, kwargs: &Map) -> Result<Map, Error> {
        let all = words(&["pacman", "-S", "-p", "-u", "--print-format", "%n %v"]);
        let output = command(all, kwargs).run(cx)?;
        if !output.success() {
            return Err(Error::refused(format!(
                "Error listing upgrades: {}{}",
                output.stderr,
                output.stdout_regardless()
            )));
        }
        let found = read_pairs(output.stdout_regardless()).into_iter();
        Ok(found
            .map(|(name, version)| (Value::from(name), Value::from(version)))
            .collect())
    }

    fn install(&self, _cx: &Exec, order: &Order) -> Result<Vec<Process>, Error> {
        let kwargs = &order.kwargs;
        let mut all = words(&["pacman", if order.from_files { "-U" } else { "-S" }]);
        if !order.from_files && is_set(kwargs, "sysupgrade") {
            all.push("-u".to_owned());
        }
        if order.downloadonly {
            all.push("-w".to_owned());
        }
        all.extend(words(&["--noprogressbar", "--noconfirm"]));
        if !order.from_files && order.reinstall.is_empty() {
            all.push("--needed".to_owned());
        }
        let lists = [&order.install, &order.downgrade, &order.reinstall];
        all.extend(lists.into_iter().flatten().map(Wanted::compared));
        Ok(vec![command(all, kwargs)])
    }

    fn remove(
        &self,
        _cx: &Exec,
        names: &[Wanted],
        purge: bool,
        kwargs: &Map,
    ) -> Result<Vec<Process>, Error> {
        let verb = if purge { "-Rsc" } else { "-R" };
        let mut all = words(&["pacman", verb, "--noprogressbar", "--noconfirm"]);
        all.extend(names.iter().map(|one| one.name.clone()));
        Ok(vec![command(all, kwargs)])
    }

    fn upgrade(&self, _cx: &Exec, kwargs: &Map) -> Result<Vec<Process>, Error> {
        let all = words(&["pacman", "-Su", "--noprogressbar", "--noconfirm"]);
        Ok(vec![command(all, kwargs)])
    }

    fn error_text(&self, output: &Output) -> Option<String> {
        let said = failed::error_text(output)?;
        // The reason of the failure is among the lines of the questions.
        let reasons = output.stdout_regardless().lines();
        let reasons = reasons.filter(|line| line.starts_with(":: ") && !line.contains("[Y/n]"));
        let reasons = reasons.filter(|line| !line.contains("[y/N]") && !line.ends_with("..."));
        let mut all = vec![said];
        all.extend(reasons.map(str::to_owned));
        all.dedup();
        Some(all.join("\n"))
    }

    fn is_locked(&self, output: &Output) -> bool {
        output.stderr.contains("unable to lock database")
    }

    fn files(&self) -> &dyn Files {
        self
    }

    fn downloads(&self) -> Option<Downloads> {
        Some(Downloads {
            folder: "/var/cache/pacman/pkg",
            ending: ".pkg.tar.zst",
            are_changes: false,
        })
    }
}

impl Files for Pacman {
    fn file_info(&self, cx: &Exec, path: &str) -> Result<Wanted, Error> {
        let output = Process::words(["pacman", "-Qp", path]).quiet().run(cx)?;
        let found = read_pairs(output.stdout_regardless()).into_iter().next();
        let (name, version) = found.ok_or_else(|| {
            Error::refused(format!("Unable to get info for {path}: {}", output.stderr))
        })?;
        Ok(Wanted {
            name: name.to_owned(),
            version: Some(version.to_owned()),
            path: Some(path.to_owned()),
        })
    }

    fn owner(&self, cx: &Exec, path: &str) -> Result<String, Error> {
        let output = Process::words(["pacman", "-Qqo", path]).quiet().run(cx)?;
        Ok(output.into_success().unwrap_or_default())
    }

    fn by_package(&self, cx: &Exec, names: &[String]) -> Result<Packages, Error> {
        let mut all = words(&["pacman", "-Ql"]);
        all.extend(names.iter().cloned());
        let output = rpm::answered(Process::words(all).quiet().run(cx)?)?;
        let mut files = Packages::new();
        for line in output.stdout_regardless().lines() {
            if let Some((name, file)) = line.split_once(' ') {
                listing::add(&mut files, name, file);
            }
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_of_pacman_are_read() {
        let text =
            "acl 2.3.1-3\nbash 5.2.015-5\nwarning: something is odd\ndownloading core.db...\n";
        assert_eq!(
            read_pairs(text),
            [("acl", "2.3.1-3"), ("bash", "5.2.015-5")]
        );
        let said = ":: Synchronizing package databases...\n core is up to date\n extra downloading...\ndownloading community.db...\n";
        let expected = crate::testing::json(r#"{"core": false, "extra": true, "community": true}"#);
        assert_eq!(read_update(said), expected);
    }

    #[test]
    fn versions_keep_their_signs() {
        let one = |version: &str| {
            Wanted::compared(&Wanted {
                name: "bash".to_owned(),
                version: Some(version.to_owned()),
                path: None,
            })
        };
        assert_eq!(
            (one("5.2-1"), one("<5.2")),
            ("bash=5.2-1".into(), "bash<5.2".into())
        );
    }
}
