//! apk, the package manager of Alpine.

use std::cmp::Ordering;

use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::apt::words;
use super::{About, Files, Listed, Notation, Order, Packages, Provider, Wanted, listing, rpm};
use crate::exec::pkg::version;

/// The package manager of Alpine.
pub(crate) struct Apk;

/// The suffixes of versions that sort before the version without them, and those that sort after
/// it, each with a suffix that has the same effect in Debian's order.
const MARKS: [(&str, &str); 9] = [
    ("_alpha", "~1."),
    ("_beta", "~2."),
    ("_pre", "~3."),
    ("_rc", "~4."),
    ("_cvs", "+1."),
    ("_svn", "+2."),
    ("_git", "+3."),
    ("_hg", "+4."),
    ("_p", "+5."),
];

fn ask(cx: &Exec, list: &[&str]) -> Result<Output, Error> {
    Process::words(list.iter().copied()).quiet().run(cx)
}

/// Splits `name-1.2-r0` into name and version.
fn split(word: &str) -> Option<(&str, &str)> {
    let (rest, release) = word.rsplit_once('-')?;
    let (name, version) = rest.rsplit_once('-')?;
    let is_version = release.starts_with('r') && version.starts_with(|c: char| c.is_ascii_digit());
    is_version.then(|| (name, word.get(name.len() + 1..).unwrap_or_default()))
}

fn read_list(text: &str) -> Packages {
    let mut packages = Packages::new();
    for line in text.lines() {
        if let Some((name, version)) = line.split_whitespace().next().and_then(split) {
            listing::add(&mut packages, name, version);
        }
    }
    packages
}

/// Reads `(1/2) Upgrading busybox (1.36.1-r4 -> 1.36.1-r5)`.
fn read_upgrades(text: &str) -> Map {
    let read = |line: &str| {
        let rest = line.split_once("Upgrading ")?.1;
        let (name, versions) = rest.split_once(" (")?;
        let (_, new) = versions.trim_end_matches(')').split_once(" -> ")?;
        Some((Value::from(name), Value::from(new)))
    };
    text.lines().filter_map(read).collect()
}

fn as_debian(version: &str) -> String {
    MARKS.iter().fold(version.to_owned(), |text, (mark, sign)| {
        text.replace(mark, sign)
    })
}

impl Provider for Apk {
    fn about(&self) -> About {
        About {
            program: "apk",
            databases: &["/lib/apk/db/installed", "/usr/lib/apk/db/installed"],
            notation: Notation::Globs,
        }
    }

    fn list(&self, cx: &Exec) -> Result<Listed, Error> {
        Ok(Listed {
            installed: read_list(
                rpm::answered(ask(cx, &["apk", "info", "-v"])?)?.stdout_regardless(),
            ),
            ..Listed::default()
        })
    }

    fn compare(&self, one: &str, other: &str) -> Option<Ordering> {
        version::debian(&as_debian(one), &as_debian(other))
    }

    fn refresh(&self, cx: &Exec, _kwargs: &Map) -> Result<Value, Error> {
        let output = Process::words(["apk", "update"]).run(cx)?;
        match self.error_text(&output) {
            None => Ok(true.into()),
            Some(said) => Err(Error::refused(said)),
        }
    }

    fn latest(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
        let here = listing::listed(cx, self)?.installed;
        let any = super::apt::is_set(kwargs, "show_installed");
        let found = self.available(cx, names, kwargs)?;
        let mut latest = Map::new();
        for name in names {
            let installed = listing::versions_of(&here, name);
            let newest = listing::versions_of(&found, name).into_iter().next();
            let is_new = |version: &String| {
                let newer = |here: &String| self.compare(here, version) == Some(Ordering::Less);
                any || installed.iter().all(newer)
            };
            let newest = newest.filter(is_new).unwrap_or_default();
            latest.insert(name.as_str(), newest);
        }
        Ok(latest)
    }

    fn available(&self, cx: &Exec, names: &[String], _kwargs: &Map) -> Result<Packages, Error> {
        let mut all = Packages::new();
        if names.is_empty() {
            all = read_list(ask(cx, &["apk", "search", "-a"])?.stdout_regardless());
        }
        for name in names {
            let said = ask(cx, &["apk", "search", "-a", "--exact", name])?.into_stdout_regardless();
            if let Some(versions) = read_list(&said).remove(name) {
                all.insert(name.as_str(), versions);
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
        let output = ask(cx, &["apk", "upgrade", "-s"])?;
        match self.error_text(&output) {
            None => Ok(read_upgrades(output.stdout_regardless())),
            Some(said) => Err(Error::refused(said)),
        }
    }

    fn install(&self, cx: &Exec, order: &Order) -> Result<Vec<Process>, Error> {
        if order.downloadonly {
            return Err((self as &dyn Provider).unsupported("download"));
        }
        let here = listing::listed(cx, self)?.installed;
        let lists = [&order.install, &order.downgrade, &order.reinstall];
        let all: Vec<&Wanted> = lists.into_iter().flatten().collect();
        let mut line = words(&["apk", "add"]);
        if all.iter().any(|one| here.contains(&one.name)) {
            line.push("-u".to_owned());
        }
        if order.skip_verify {
            line.push("--allow-untrusted".to_owned());
        }
        line.extend(all.into_iter().map(Wanted::exactly));
        Ok(vec![Process::words(line)])
    }

    fn remove(
        &self,
        _cx: &Exec,
        names: &[Wanted],
        purge: bool,
        _kwargs: &Map,
    ) -> Result<Vec<Process>, Error> {
        let mut line = words(&["apk", "del"]);
        if purge {
            line.push("--purge".to_owned());
        }
        line.extend(names.iter().map(|one| one.name.clone()));
        Ok(vec![Process::words(line)])
    }

    fn upgrade(&self, _cx: &Exec, kwargs: &Map) -> Result<Vec<Process>, Error> {
        let named = ["name", "pkgs"]
            .into_iter()
            .filter_map(|key| kwargs.get(key));
        let mut names = Vec::new();
        for given in named.filter(|given| given.is_true()) {
            match given.as_list() {
                Some(list) => names.extend(list.iter().map(Value::to_text)),
                None => names.extend(given.to_text().split(',').map(str::to_owned)),
            }
        }
        let mut line = match names.is_empty() {
            true => words(&["apk", "upgrade"]),
            false => words(&["apk", "add", "-u"]),
        };
        line.extend(names);
        Ok(vec![Process::words(line)])
    }

    fn is_locked(&self, output: &Output) -> bool {
        output.stderr.contains("Unable to lock database")
    }

    fn files(&self) -> &dyn Files {
        self
    }
}

impl Files for Apk {
    fn file_info(&self, _cx: &Exec, path: &str) -> Result<Wanted, Error> {
        let file = path.rsplit('/').next().unwrap_or(path);
        let (name, version) = split(file.trim_end_matches(".apk")).ok_or_else(|| {
            Error::refused(format!("{path} is not named NAME-VERSION-rRELEASE.apk"))
        })?;
        Ok(Wanted {
            name: name.to_owned(),
            version: Some(version.to_owned()),
            path: Some(path.to_owned()),
        })
    }

    fn owner(&self, cx: &Exec, path: &str) -> Result<String, Error> {
        let output = ask(cx, &["apk", "info", "-W", path])?;
        let said = output.stdout_regardless().split_once(" is owned by ");
        let owner = said.map(|(_, word)| word.trim()).unwrap_or_default();
        Ok(split(owner).map_or(owner, |(name, _)| name).to_owned())
    }

    fn by_package(&self, cx: &Exec, names: &[String]) -> Result<Packages, Error> {
        if names.is_empty() {
            return Err("Package name should be provided".into());
        }
        let mut files = Packages::new();
        for name in names {
            let said = ask(cx, &["apk", "info", "-L", name])?.into_stdout_regardless();
            let lines = said.lines().filter(|line| !line.is_empty());
            for line in lines.filter(|line| !line.ends_with("contains:")) {
                listing::add(&mut files, name, line);
            }
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_upgrades_are_read() {
        let text = "WARNING: opening /x: No such file\nmusl-1.2.4-r2\npy3-setuptools-67.7.2-r0 - description\nlibstdc++-12.2.1_git20220924-r10\n";
        let expected = crate::testing::json(
            r#"{"musl": ["1.2.4-r2"], "py3-setuptools": ["67.7.2-r0"], "libstdc++": ["12.2.1_git20220924-r10"]}"#,
        );
        assert_eq!(read_list(text), expected);
        let upgrades = "(1/2) Upgrading busybox (1.36.1-r4 -> 1.36.1-r5)\n(2/2) Upgrading musl (1.2.4-r1 -> 1.2.4-r2)\nOK: 8 MiB in 15 packages\n";
        let expected = crate::testing::json(r#"{"busybox": "1.36.1-r5", "musl": "1.2.4-r2"}"#);
        assert_eq!(read_upgrades(upgrades), expected);
    }

    #[test]
    fn versions_are_in_alpines_order() {
        let ordered = [
            "1.0_alpha1-r0",
            "1.0_beta-r0",
            "1.0_rc2-r1",
            "1.0-r0",
            "1.0-r10",
            "1.0_git1-r0",
            "1.0_p1-r0",
            "1.0.1-r0",
        ];
        for pair in ordered.windows(2) {
            assert_eq!(
                Apk.compare(pair[0], pair[1]),
                Some(Ordering::Less),
                "{pair:?}"
            );
        }
    }
}
