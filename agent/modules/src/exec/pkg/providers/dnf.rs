//! dnf, dnf5, yum and tdnf: Fedora, Red Hat and their derivatives.

use std::cmp::Ordering;

use machine::process::{Output, Process, Stderr};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::apt::{is_set, words};
use super::capabilities::{Database, Downloads, Groups, Holds, OnHold, Verification};
use super::rpm::{self, Package};
use super::{About, Files, Listed, Notation, Order, Packages, Provider, Wanted, holds, listing};
use crate::exec::pkg::version;

/// One of the programs, which have the same command line.
pub(crate) struct Dnf {
    program: &'static str,
}

/// The programs, in order of preference.
pub(crate) static ALL: [Dnf; 4] = [
    Dnf { program: "dnf5" },
    Dnf { program: "dnf" },
    Dnf { program: "tdnf" },
    Dnf { program: "yum" },
];

/// The file in which dnf5 stores held packages.
const LOCKS: &str = "/etc/dnf/versionlock.toml";

/// The headings in lists of packages.
const HEADINGS: [&str; 5] = [
    "installed packages",
    "available packages",
    "available upgrades",
    "updated packages",
    "upgraded packages",
];

/// The arguments of `pkg.upgrade` that are not options of the program.
const NO_OPTIONS: [&str; 19] = [
    "branch",
    "diff_attr",
    "disableexcludes",
    "disablerepo",
    "dist_upgrade",
    "enablerepo",
    "fromrepo",
    "ignore_epoch",
    "minimal",
    "name",
    "normalize",
    "obsoletes",
    "pkgs",
    "refresh",
    "repo",
    "saltenv",
    "setopt",
    "skip_verify",
    "split_arch",
];

/// Returns the words of a list, or of a comma-separated text.
fn list(kwargs: &Map, name: &str) -> Vec<String> {
    match kwargs.get(name).filter(|value| value.is_true()) {
        None => Vec::new(),
        Some(Value::List(items)) => items.iter().map(Value::to_text).collect(),
        Some(text) => {
            let text = text.to_text();
            text.split(',').map(|word| word.trim().to_owned()).collect()
        }
    }
}

/// Returns the options that select the repositories.
fn options(kwargs: &Map) -> Vec<String> {
    let text = |name: &str| {
        let value = kwargs.get(name).filter(|value| value.is_true());
        value.map(Value::to_text)
    };
    let whole = |name: &str| match kwargs.get(name) {
        Some(Value::List(items)) => items.iter().map(Value::to_text).collect(),
        _ => text(name).into_iter().collect::<Vec<_>>(),
    };
    let mut all = Vec::new();
    if let Some(repo) = text("fromrepo").or_else(|| text("repo")) {
        all.push("--disablerepo=*".to_owned());
        all.push(format!("--enablerepo={repo}"));
    } else {
        for name in ["disablerepo", "enablerepo"] {
            all.extend(whole(name).iter().map(|repo| format!("--{name}={repo}")));
        }
    }
    for name in ["disableexcludes", "branch"] {
        all.extend(text(name).map(|value| format!("--{name}={value}")));
    }
    let set = list(kwargs, "setopt").into_iter();
    all.extend(set.map(|item| format!("--setopt={item}")));
    all
}

/// Reads a list of name with architecture, version and repository. An entry may be broken across
/// lines.
fn read_list(text: &str, own: &str) -> Vec<Package> {
    let lines = text
        .lines()
        .filter(|line| !HEADINGS.contains(&line.trim().to_lowercase().as_str()));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    let read = |three: &[&str]| match three {
        [name, version, _] => {
            let (name, arch) = name.rsplit_once('.').unwrap_or((name, own));
            Some(Package {
                name: rpm::resolved(name, arch, own),
                version: version.trim_end_matches('-').to_owned(),
                arch: arch.to_owned(),
            })
        }
        _ => None,
    };
    words.chunks(3).filter_map(read).collect()
}

/// Returns the program's notation for one package: `name-version.arch`, without the epoch.
fn word(one: &Wanted) -> String {
    match (&one.path, &one.version) {
        (Some(path), _) => path.clone(),
        (None, None) => one.name.clone(),
        (None, Some(version)) => {
            let version = version.split_once(':').map_or(&**version, |(_, rest)| rest);
            match rpm::split_arch(&one.name) {
                (name, Some(arch)) => format!("{name}-{version}.{arch}"),
                (name, None) => format!("{name}-{version}"),
            }
        }
    }
}

impl Dnf {
    fn command(&self, words: Vec<String>) -> Process {
        Process::words([self.program.to_owned()].into_iter().chain(words))
    }

    fn is_new(&self) -> bool {
        matches!(self.program, "dnf" | "dnf5")
    }

    /// Returns the plugin that holds packages.
    fn plugin(&self, cx: &Exec) -> &'static str {
        let major = cx.grain("osmajorrelease").parse().unwrap_or(0);
        match (self.is_new(), cx.grain("os") == "Fedora") {
            (true, true) if major < 26 => "python3-dnf-plugins-extras-versionlock",
            (true, false) if major < 8 => "python2-dnf-plugin-versionlock",
            (true, _) => "python3-dnf-plugin-versionlock",
            (false, _) => "yum-plugin-versionlock",
        }
    }

    fn has_plugin(&self, cx: &Exec) -> Result<bool, Error> {
        if self.program == "dnf5" {
            return Ok(true);
        }
        let here = listing::listed(cx, self)?.installed;
        Ok(here.contains(self.plugin(cx)))
    }

    /// Returns the options of every command that installs.
    fn common(&self, order: &Order) -> Vec<String> {
        let mut kwargs = order.kwargs.clone();
        if let Some(repo) = &order.fromrepo {
            kwargs.insert("fromrepo", repo.as_str());
        }
        let mut all = options(&kwargs);
        if order.skip_verify {
            all.push("--nogpgcheck".to_owned());
        }
        if order.downloadonly {
            all.push("--downloadonly".to_owned());
        }
        all
    }

    /// Returns the locks of the plugin: names, each with the whole lock.
    fn locks(&self, cx: &Exec) -> Result<Vec<(String, String)>, Error> {
        let list = self.command(words(&["versionlock", "list"])).quiet();
        let output = rpm::answered(list.run(cx)?)?;
        Ok(read_locks(
            output.stdout_regardless(),
            self.program == "yum",
        ))
    }

    /// Returns the repositories to search.
    fn repos(&self, cx: &Exec, kwargs: &Map) -> Result<Vec<String>, Error> {
        let named = list(kwargs, "fromrepo");
        if !named.is_empty() {
            return Ok(named);
        }
        let (on, off) = (list(kwargs, "enablerepo"), list(kwargs, "disablerepo"));
        let all = crate::exec::pkg::repositories::here(cx)?.list(cx, &Map::new())?;
        let enabled = all.into_iter().filter(|(name, repo)| {
            let name = name.to_text();
            let said = repo.get("enabled").map(Value::to_text);
            on.contains(&name) || !off.contains(&name) && said.is_none_or(|said| said == "1")
        });
        Ok(enabled.map(|(name, _)| name.to_text()).collect())
    }
}

impl Provider for Dnf {
    fn about(&self) -> About {
        About {
            program: self.program,
            databases: &[
                "/var/lib/rpm/rpmdb.sqlite",
                "/var/lib/rpm/rpmdb.sqlite-wal",
                "/usr/lib/sysimage/rpm/rpmdb.sqlite",
                "/usr/lib/sysimage/rpm/rpmdb.sqlite-wal",
                "/var/lib/rpm/Packages",
            ],
            notation: Notation::Globs,
        }
    }

    fn list(&self, cx: &Exec) -> Result<Listed, Error> {
        rpm::list(cx, true)
    }

    fn compare(&self, one: &str, other: &str) -> Option<Ordering> {
        Some(version::rpm(one, other))
    }

    fn refresh(&self, cx: &Exec, kwargs: &Map) -> Result<Value, Error> {
        let options = options(kwargs);
        let mut clean = words(&["--quiet", "--assumeyes", "clean", "expire-cache"]);
        clean.extend(options.iter().cloned());
        self.command(clean).quiet().run(cx)?;
        if kwargs
            .get("check_update")
            .is_some_and(|check| !check.is_true())
        {
            return Ok(true.into());
        }
        let mut check = words(&["--quiet", "--assumeyes", "check-update"]);
        if cx.grain("os_family") == "RedHat" && cx.grain("osmajorrelease") == "7" {
            check.push("--setopt=autocheck_running_kernel=false".to_owned());
        }
        check.extend(options);
        Ok(match self.command(check).quiet().run(cx)?.retcode {
            Some(100) => true.into(),
            Some(0) => Value::Null,
            _ => false.into(),
        })
    }

    fn latest(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
        let mut ask = words(&["--quiet"]);
        ask.extend(options(kwargs));
        ask.push("list".to_owned());
        ask.push(match self.program {
            "dnf5" => "--available".to_owned(),
            _ => "available".to_owned(),
        });
        ask.extend(names.iter().cloned());
        let output = self.command(ask).quiet().run(cx)?;
        let own = cx.grain("osarch");
        let found = match output.success() {
            true => read_list(output.stdout_regardless(), &own),
            false => Vec::new(),
        };
        let here = listing::listed(cx, self)?.installed;
        let shows_all = is_set(kwargs, "show_installed");
        let mut latest = Map::new();
        for name in names {
            let installed = listing::versions_of(&here, name);
            latest.insert(
                name.as_str(),
                newest(&found, name, &installed, shows_all, &own),
            );
        }
        Ok(latest)
    }

    fn available(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Packages, Error> {
        let own = cx.grain("osarch");
        let mut all = Packages::new();
        for repo in self.repos(cx, kwargs)? {
            let only = format!("--repo={repo}");
            let mut ask = match self.program {
                "dnf5" => words(&["--quiet", "--showduplicates", &only, "list"]),
                "tdnf" => vec![
                    "--quiet".to_owned(),
                    format!("--enablerepo={repo}"),
                    "list".to_owned(),
                ],
                _ => words(&[
                    "--quiet",
                    "--showduplicates",
                    "repository-packages",
                    &repo,
                    "list",
                ]),
            };
            if is_set(kwargs, "cacheonly") {
                ask.push("-C".to_owned());
            }
            ask.extend(names.iter().cloned());
            let output = self.command(ask).quiet().run(cx)?;
            if output.success() || !output.stdout_regardless().contains("Error:") {
                for package in read_list(output.stdout_regardless(), &own) {
                    listing::add(&mut all, &package.name, &package.version);
                }
            }
        }
        rpm::newest_first(&mut all);
        Ok(all)
    }

    fn upgrades(&self, cx: &Exec, kwargs: &Map) -> Result<Map, Error> {
        let mut ask = words(&["--quiet"]);
        ask.extend(options(kwargs));
        ask.push("list".to_owned());
        ask.push(
            if self.is_new() {
                "--upgrades"
            } else {
                "updates"
            }
            .to_owned(),
        );
        let output = self.command(ask).quiet().run(cx)?;
        let own = cx.grain("osarch");
        let found = read_list(output.stdout_regardless(), &own).into_iter();
        Ok(found
            .map(|package| (Value::from(package.name), Value::from(package.version)))
            .collect())
    }

    fn install(&self, _cx: &Exec, order: &Order) -> Result<Vec<Process>, Error> {
        let is_kernel = |one: &&Wanted| matches!(&*one.name, "kernel" | "kernel-devel");
        let (kernels, older): (Vec<&Wanted>, Vec<&Wanted>) =
            order.downgrade.iter().partition(is_kernel);
        // Several versions of a kernel can be installed at once.
        let install: Vec<&Wanted> = order.install.iter().chain(kernels).collect();
        let reinstall: Vec<&Wanted> = order.reinstall.iter().collect();
        let mut commands = Vec::new();
        for (verb, list) in [
            ("install", install),
            ("downgrade", older),
            ("reinstall", reinstall),
        ] {
            if list.is_empty() {
                continue;
            }
            let best = words(&["--best", "--allowerasing"]);
            let mut all = words(&["-y"]);
            if verb == "install" && self.program == "dnf" {
                all.extend(best.iter().cloned());
            }
            all.extend(self.common(order));
            all.push(verb.to_owned());
            if verb == "install" && self.program == "dnf5" {
                all.extend(best);
            }
            all.extend(list.into_iter().map(word));
            commands.push(Process {
                stderr: Stderr::Merged,
                ..self.command(all)
            });
        }
        Ok(commands)
    }

    fn remove(
        &self,
        _cx: &Exec,
        names: &[Wanted],
        _purge: bool,
        _kwargs: &Map,
    ) -> Result<Vec<Process>, Error> {
        let mut all = words(&["-y", "remove"]);
        all.extend(names.iter().map(word));
        Ok(vec![self.command(all)])
    }

    fn upgrade(&self, _cx: &Exec, kwargs: &Map) -> Result<Vec<Process>, Error> {
        let obsoletes = kwargs.get("obsoletes").is_none_or(Value::is_true);
        let mut all = words(&["--quiet", "-y"]);
        all.extend(options(kwargs));
        if !obsoletes && self.is_new() {
            all.push("--setopt=obsoletes=False".to_owned());
        }
        all.extend(further(kwargs));
        if is_set(kwargs, "skip_verify") {
            all.push("--nogpgcheck".to_owned());
        }
        let verb = match obsoletes || self.is_new() {
            true => "upgrade",
            false => "update",
        };
        all.push(match is_set(kwargs, "minimal") {
            true => format!("{verb}-minimal"),
            false => verb.to_owned(),
        });
        all.extend(list(kwargs, "name"));
        all.extend(list(kwargs, "pkgs"));
        Ok(vec![self.command(all)])
    }

    fn sentence(&self, doing: &str, again: bool) -> Option<String> {
        let again = if again { "/reinstalling" } else { "" };
        Some(format!("Error occurred {doing}{again} package(s)"))
    }

    fn is_locked(&self, output: &Output) -> bool {
        let said = [output.stdout_regardless(), &output.stderr];
        said.iter()
            .any(|text| text.contains("holding the yum lock"))
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

    fn holds(&self) -> Option<&dyn Holds> {
        match self.program {
            "tdnf" => None,
            _ => Some(self),
        }
    }

    fn groups(&self) -> Option<Groups> {
        Some(match self.program {
            "dnf5" => Groups::Dnf5,
            _ => Groups::Yum,
        })
    }

    fn downloads(&self) -> Option<Downloads> {
        let folder = match self.program {
            "dnf5" => "/var/cache/libdnf5",
            "yum" => "/var/cache/yum",
            _ => "/var/cache/dnf",
        };
        Some(Downloads {
            folder,
            ending: ".rpm",
            are_changes: true,
        })
    }
}

impl Holds for Dnf {
    fn held(&self, cx: &Exec) -> Result<Vec<Wanted>, Error> {
        if self.program == "dnf5" {
            let text = machine::fs::text_or_none(LOCKS)?.unwrap_or_default();
            return Ok(read_locks_file(&text));
        }
        if !self.has_plugin(cx)? {
            return Ok(Vec::new());
        }
        let named = |(name, _)| Wanted {
            name,
            ..Wanted::default()
        };
        Ok(self.locks(cx)?.into_iter().map(named).collect())
    }

    fn hold(&self, cx: &Exec, package: &Wanted, hold: bool) -> Result<Process, Error> {
        if !self.has_plugin(cx)? {
            return Err(Error::refused(format!(
                "Cannot proceed, {} is not installed.",
                self.plugin(cx)
            )));
        }
        if hold {
            return Ok(self.command(words(&["versionlock", "add", &package.name])));
        }
        let mut all = words(&["versionlock", "delete"]);
        // yum identifies a lock only by its full text.
        match self.program == "yum" {
            true => {
                let mut locks = self.locks(cx)?;
                locks.retain(|(name, _)| *name == package.name);
                all.extend(locks.into_iter().map(|(_, lock)| lock));
            }
            false => all.push(package.name.clone()),
        }
        Ok(self.command(all))
    }

    fn on_hold(&self) -> OnHold {
        OnHold::Skipped
    }

    fn words(&self) -> &'static holds::Words {
        &holds::VERSIONLOCK
    }
}

/// Returns the newest version of a package that is newer than the installed one.
fn newest(found: &[Package], name: &str, installed: &[String], any: bool, own: &str) -> String {
    let arch = rpm::split_arch(name).1.unwrap_or(own);
    let fits = |package: &&Package| {
        let own = package.arch == arch || rpm::is_own(&package.arch, own);
        let is_new = |here: &String| version::rpm(here, &package.version).is_lt();
        package.name == name && own && (any || installed.iter().all(is_new))
    };
    let newest = found
        .iter()
        .filter(fits)
        .max_by(|one, other| version::rpm(&one.version, &other.version));
    newest.map_or_else(String::new, |package| package.version.clone())
}

/// Returns the arguments that are options of the program: texts with their values, and flags that
/// are True.
fn further(kwargs: &Map) -> Vec<String> {
    let mut all: Vec<String> = kwargs
        .iter()
        .map(|(name, value)| (name.to_text(), value))
        .filter(|(name, _)| !name.starts_with("__") && !NO_OPTIONS.contains(&name.as_str()))
        .filter_map(|(name, value)| match value {
            Value::Str(text) => Some(format!("--{name}={text}")),
            Value::Bool(true) => Some(format!("--{name}")),
            _ => None,
        })
        .collect();
    value::sorted::sort(&mut all);
    all
}

/// Reads `name-epoch:version-release.arch` from dnf, or `epoch:name-version-release.arch` from yum.
fn read_locks(text: &str, of_yum: bool) -> Vec<(String, String)> {
    let read = |line: &str| {
        let line = line.split_whitespace().last()?;
        let name = match of_yum {
            true => {
                let (epoch, rest) = line.split_once(':')?;
                epoch.parse::<u32>().ok().map(|_| rest)?
            }
            false => line,
        };
        let (name, _arch) = name.rsplit_once('.')?;
        let (name, _release) = name.rsplit_once('-')?;
        let (name, version) = name.rsplit_once('-')?;
        let is_lock = version.starts_with(|c: char| c.is_ascii_digit());
        is_lock.then(|| (name.to_owned(), line.to_owned()))
    };
    let mut locks: Vec<(String, String)> = Vec::new();
    for lock in text.lines().filter_map(read) {
        if !locks.contains(&lock) {
            locks.push(lock);
        }
    }
    locks
}

/// Reads the names in `versionlock.toml`.
fn read_locks_file(text: &str) -> Vec<Wanted> {
    let (mut held, mut in_package): (Vec<Wanted>, bool) = (Vec::new(), false);
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            in_package = line == "[[packages]]";
        } else if let (true, Some((key, value))) = (in_package, line.split_once('=')) {
            let name = value.trim().trim_matches(['"', '\'']);
            if key.trim() == "name" && held.iter().all(|one| one.name != name) {
                held.push(Wanted {
                    name: name.to_owned(),
                    ..Wanted::default()
                });
            }
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    const AVAILABLE: &str = "Available Packages\nvim-enhanced.x86_64          2:9.1.158-1.fc39          updates\nglibc.i686   2.38-16.fc39   updates\na-package-with-a-very-long-name-indeed.noarch\n                             1.0-1.fc39                fedora\n";

    #[test]
    fn lists_are_read_over_broken_lines() {
        let found = read_list(AVAILABLE, "x86_64");
        let shown: Vec<String> = found
            .iter()
            .map(|p| format!("{} {}", p.name, p.version))
            .collect();
        assert_eq!(
            shown,
            [
                "vim-enhanced 2:9.1.158-1.fc39",
                "glibc.i686 2.38-16.fc39",
                "a-package-with-a-very-long-name-indeed 1.0-1.fc39"
            ]
        );
        let newest =
            |name: &str, here: &str| newest(&found, name, &[here.to_owned()], false, "x86_64");
        assert_eq!(newest("vim-enhanced", "2:9.0.1-1.fc39"), "2:9.1.158-1.fc39");
        assert_eq!(newest("vim-enhanced", "3:1-1"), "");
        assert_eq!(newest("glibc.i686", "2.37-1"), "2.38-16.fc39");
    }

    #[test]
    fn packages_are_named_without_their_epoch() {
        let one = |name: &str, version: &str| {
            word(&Wanted {
                name: name.to_owned(),
                version: Some(version.to_owned()),
                path: None,
            })
        };
        assert_eq!(one("vim", "2:9.1-1.fc39"), "vim-9.1-1.fc39");
        assert_eq!(one("glibc.i686", "2.38-1"), "glibc-2.38-1.i686");
    }

    #[test]
    fn arguments_become_options() {
        let kwargs = crate::testing::json(
            r#"{"enablerepo": "epel", "disablerepo": ["a", "b"], "setopt": "x=1,y=2", "security": true, "exclude": "kernel*", "refresh": true}"#,
        );
        assert_eq!(
            options(&kwargs),
            [
                "--disablerepo=a",
                "--disablerepo=b",
                "--enablerepo=epel",
                "--setopt=x=1",
                "--setopt=y=2"
            ]
        );
        assert_eq!(further(&kwargs), ["--exclude=kernel*", "--security"]);
        let only = crate::testing::json(r#"{"fromrepo": "epel", "enablerepo": "other"}"#);
        assert_eq!(options(&only), ["--disablerepo=*", "--enablerepo=epel"]);
    }

    #[test]
    fn locks_are_read_in_all_three_forms() {
        let dnf = "Last metadata expiration check: 0:01:02 ago\nvim-enhanced-2:7.4.827-1.fc22.*\n";
        assert_eq!(read_locks(dnf, false)[0].0, "vim-enhanced");
        let yum =
            "Loaded plugins: versionlock\n2:vim-enhanced-7.4.629-5.el6.*\nversionlock list done\n";
        let held = read_locks(yum, true);
        let lock = ("vim-enhanced", "2:vim-enhanced-7.4.629-5.el6.*");
        assert_eq!((&*held[0].0, &*held[0].1), lock);
        let toml = "version = \"1.0\"\n\n[[packages]]\nname = \"bash\"\n[[packages.conditions]]\nkey = \"evr\"\nname = \"no\"\n";
        let held = read_locks_file(toml);
        assert_eq!((held.len(), &*held[0].name), (1, "bash"));
    }
}
