//! What the `pkg` execution module says about installed packages: of dpkg so far.

use state::exec::Exec;
use state::module::Error;
use value::glob::fnmatch;
use value::{Map, Value};

use crate::process::Process;
use crate::version;

state::exec_module! {
    /// Packages.
    mod pkg;

    /// List the installed packages with their versions.
    fn list_pkgs(ListPkgs {
        /// Give each package a list of versions, and not one text with commas.
        versions_as_list: bool = false,
        /// List those that are removed, with their configuration kept.
        removed: bool = false,
        /// List those that are installed and to be purged.
        purge_desired: bool = false,
        ..kwargs
    });

    /// Return the installed version of a package, or of each of several; names may be globs.
    fn version(Version {
        *rest,
        ..kwargs
    });
}

/// The versions of packages by their names.
type Packages = Vec<(String, Vec<String>)>;

fn list_pkgs(cx: &Exec, args: ListPkgs) -> Result<Value, Error> {
    if args.kwargs.get("root").is_some_and(Value::is_true) {
        return Err(
            "pkg.list_pkgs lists the packages of this machine alone: leave out root".into(),
        );
    }
    let listed = listed(cx)?;
    let packages = match args.removed {
        true => listed.removed,
        false if args.purge_desired => listed.to_be_purged,
        false => listed.here(),
    };
    let shown = packages.into_iter().map(|(name, versions)| {
        let versions = shown(&versions, args.versions_as_list);
        (Value::from(name), versions)
    });
    Ok(shown.collect::<Map>().into())
}

fn version(cx: &Exec, args: Version) -> Result<Value, Error> {
    let as_list = args
        .kwargs
        .get("versions_as_list")
        .is_some_and(Value::is_true);
    let (mut found, mut globbed) = (Map::new(), false);
    if !args.rest.is_empty() {
        let packages = listed(cx)?.here();
        for name in args.rest.iter().map(Value::to_text) {
            globbed |= name.contains('*');
            let matching = packages
                .iter()
                .filter(|(package, _)| match name.contains('*') {
                    true => fnmatch(&name, package),
                    false => *package == name,
                });
            if !name.contains('*') {
                found.insert(name.as_str(), shown(&[], as_list));
            }
            for (package, versions) in matching {
                found.insert(package.as_str(), shown(versions, as_list));
            }
        }
    }
    match found.first() {
        Some((_, version)) if found.len() == 1 && !globbed => Ok(version.clone()),
        _ => Ok(found.into()),
    }
}

fn shown(versions: &[String], as_list: bool) -> Value {
    match as_list {
        true => Value::list(versions.iter().map(|version| version.as_str().into())),
        false => versions.join(",").into(),
    }
}

#[derive(Default)]
struct Listed {
    installed: Packages,
    removed: Packages,
    to_be_purged: Packages,
}

impl Listed {
    /// All that is installed, whatever is planned for it.
    fn here(self) -> Packages {
        let mut all = self.to_be_purged;
        let planned = all.len();
        for (name, versions) in self.installed {
            match all
                .iter_mut()
                .take(planned)
                .find(|(known, _)| *known == name)
            {
                Some(known) => known.1 = versions,
                None => all.push((name, versions)),
            }
        }
        all
    }
}

fn listed(cx: &Exec) -> Result<Listed, Error> {
    let grains = cx.grains();
    let grain = |name: &str| grains.get(name).map(Value::to_text).unwrap_or_default();
    if grain("os_family") != "Debian" {
        return Err(Error::Refused(format!(
            "the packages of {} cannot be listed: only dpkg is known so far",
            grain("os")
        )));
    }
    let format = "${Status} ${Package} ${Version} ${Architecture}\\n";
    let query = Process::words(["dpkg-query", "--showformat", format, "-W"]);
    let own = match grain("cpuarch") == "x86_64" && grain("osarch") == "amd64" {
        true => Some("amd64"),
        false => None,
    };
    Ok(read(&query.quiet().run(cx)?.stdout, own))
}

/// Reads `install ok installed zsh 5.9-4 amd64`; a package of another architecture than `own` carries it in its name.
fn read(text: &str, own: Option<&str>) -> Listed {
    let mut listed = Listed::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(wanted), Some(_), Some(status)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let (Some(name), Some(version), Some(arch)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let foreign = own.is_some_and(|own| arch != "all" && arch != own);
        let name = match foreign {
            true => format!("{name}:{arch}"),
            false => name.to_owned(),
        };
        // As Salt tells them apart: `deinstall` has `install` in it, and `not-installed` has `installed`.
        if (wanted.contains("install") || wanted.contains("hold")) && status.contains("installed") {
            add(&mut listed.installed, name, version);
        } else if wanted.contains("deinstall") {
            add(&mut listed.removed, name, version);
        } else if wanted.contains("purge") && status == "installed" {
            add(&mut listed.to_be_purged, name, version);
        }
    }
    listed
}

fn add(packages: &mut Packages, name: String, version: &str) {
    match packages.last_mut().filter(|(last, _)| *last == name) {
        Some((_, versions)) => {
            versions.push(version.to_owned());
            value::sorted::sort_by(versions, |one, other| {
                version::debian(one, other).unwrap_or(std::cmp::Ordering::Equal)
            });
        }
        None => packages.push((name, vec![version.to_owned()])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_told_apart_by_what_is_wanted_and_what_is() {
        let text = "install ok installed zsh 5.9-4 amd64\ndeinstall ok config-files mc 3:4.8.1 amd64\npurge ok installed vim 2:9 amd64\ninstall ok installed libc6 2.36 i386\nunknown ok not-installed gone\nhold ok installed tzdata 2024a all\n";
        let listed = read(text, Some("amd64"));
        let names = |packages: &Packages| {
            let names = packages
                .iter()
                .map(|(name, versions)| format!("{name}={}", versions.join(",")));
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(&listed.removed), "mc=3:4.8.1");
        assert_eq!(names(&listed.to_be_purged), "vim=2:9");
        assert_eq!(
            names(&listed.here()),
            "vim=2:9 zsh=5.9-4 libc6:i386=2.36 tzdata=2024a"
        );
    }
}
