//! The `portage_config` execution module: Gentoo's files with the build settings of packages. Salt
//! 3008 no longer has this module; the answers are those of the last version that had it.
//!
//! This module does not ask Portage about packages: it compares an atom with the atoms in the files
//! by text, and by category and name.

use std::path::{Path, PathBuf};

use machine::fs;
use state::exec::Exec;
use state::facts::Missing;
use state::module::Error;
use value::{Value, sorted};

use crate::exec::makeconf::without_gentoo;

state::exec_module! {
    /// Manage the Gentoo files with the build settings of packages (`/etc/portage/package.*`).
    #[module(virtual_ = missing)]
    mod portage_config;

    /// Replace each of these paths that is a file by a folder with a file for each package.
    ///
    ///     salt-call portage_config.enforce_nice_config
    fn enforce_nice_config(EnforceNiceConfig {});

    /// Return the flags of a package.
    ///
    ///     salt-call portage_config.get_flags_from_package_conf use dev-vcs/git
    fn get_flags_from_package_conf(GetFlagsFromPackageConf {
        /// The kind of file: `use`, `accept_keywords`, `env`, `license`, `mask`, `properties` or
        /// `unmask`.
        conf: String,
        /// The atom of the package.
        atom: String,
    });

    /// True when a package has a flag.
    ///
    ///     salt-call portage_config.has_flag use dev-vcs/git curl
    fn has_flag(HasFlag {
        /// The kind of file: `use`, `accept_keywords`, `env`, `license`, `mask`, `properties` or
        /// `unmask`.
        conf: String,
        /// The atom of the package.
        atom: String,
        /// The flag.
        flag: String,
    });

    /// Return the flags of the list that a package does not have.
    ///
    ///     salt-call portage_config.get_missing_flags use dev-vcs/git '[curl, perl]'
    fn get_missing_flags(GetMissingFlags {
        /// The kind of file: `use`, `accept_keywords`, `env`, `license`, `mask`, `properties` or
        /// `unmask`.
        conf: String,
        /// The atom of the package.
        atom: String,
        /// The flags to look for.
        flags: Vec<String>,
    });

    /// True when a package has a USE flag.
    ///
    ///     salt-call portage_config.has_use dev-vcs/git curl
    fn has_use(HasUse {
        /// The atom of the package.
        atom: String,
        /// The USE flag.
        r#use: String,
    });

    /// True when a file names the package.
    ///
    ///     salt-call portage_config.is_present use dev-vcs/git
    fn is_present(IsPresent {
        /// The kind of file: `use`, `accept_keywords`, `env`, `license`, `mask`, `properties` or
        /// `unmask`.
        conf: String,
        /// The atom of the package.
        atom: String,
    });

    /// Add flags to a package.
    ///
    ///     salt-call portage_config.append_to_package_conf use dev-vcs/git '[curl]'
    fn append_to_package_conf(AppendToPackageConf {
        /// The kind of file: `use`, `accept_keywords`, `env`, `license`, `mask`, `properties` or
        /// `unmask`.
        conf: String,
        /// The atom of the package.
        atom: String = String::new(),
        /// The flags to add.
        flags: Vec<String> = Vec::new(),
        /// A line with the atom and the flags, used instead of both arguments.
        string: String = String::new(),
        /// True to replace the flags that the package has.
        overwrite: bool = false,
    });
}

/// Returns what is missing on a machine without Gentoo.
fn missing(cx: &Exec, _: &str) -> Option<Missing> {
    without_gentoo(
        cx,
        "portage_config execution module cannot be loaded: only available on Gentoo with portage installed.",
    )
}

/// The kinds of files below `/etc/portage`.
pub(crate) const CONFS: [&str; 7] = [
    "accept_keywords",
    "env",
    "license",
    "mask",
    "properties",
    "unmask",
    "use",
];

/// The folders of the package trees.
const TREES: [&str; 2] = ["/var/db/repos", "/usr/portage"];

/// One kind of file, which may also be a folder of files.
#[derive(Clone, Copy)]
pub(crate) struct Conf<'a> {
    cx: &'a Exec,
    name: &'a str,
}

/// Returns the category and the name of a package in an atom: `cat/name` for
/// `>=cat/name-1.2:3[flag]`.
fn key(atom: &str) -> &str {
    let plain = atom.trim_start_matches(['!', '<', '>', '=', '~']);
    let has_version = plain.len() < atom.len();
    let end = plain.find([':', '[']).unwrap_or(plain.len());
    let plain = plain.get(..end).unwrap_or(plain);
    let version = plain
        .match_indices('-')
        .find(|(at, _)| plain.as_bytes().get(at + 1).is_some_and(u8::is_ascii_digit));
    match version.filter(|_| has_version) {
        Some((at, _)) => plain.get(..at).unwrap_or(plain),
        None => plain,
    }
}

fn folders(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::list_or_none(path)?.unwrap_or_default().into_iter();
    let paths = entries.map(|entry| entry.path());
    Ok(paths.filter(|path| path.is_dir()).collect())
}

/// Returns an atom with its category, which is looked up in the package trees if it is missing.
fn full(atom: &str) -> Result<String, Error> {
    let name = key(atom);
    if name.contains('/') {
        return Ok(atom.to_owned());
    }
    let mut categories = Vec::new();
    for tree in TREES {
        for folder in folders(Path::new(tree))? {
            // The folder is a package tree or a category of a tree.
            categories.extend(folders(&folder)?);
            categories.push(folder);
        }
    }
    let mut found = categories
        .into_iter()
        .filter(|category| !name.is_empty() && category.join(name).is_dir());
    match found.next().as_deref().and_then(Path::file_name) {
        Some(category) => Ok(format!("{}/{name}", category.to_string_lossy())),
        None => Err(Error::refused(format!(
            "unknown package {atom}: not found in {}; write it as category/name",
            TREES.join(" and ")
        ))),
    }
}

/// Returns the atom and the flags of a line. Returns `None` for comments and empty lines.
fn words(line: &str) -> Option<(&str, Vec<String>)> {
    let mut words = line.split_whitespace();
    let atom = words.next().filter(|word| !word.starts_with('#'))?;
    Some((atom, words.map(str::to_owned).collect()))
}

/// Merges flags by name. For each name the last one wins, with or without its minus.
fn merged(new: &[String], old: &[String], conf: &str) -> Vec<String> {
    let bare = |flag: &str| flag.trim_start_matches('-').to_owned();
    let kept = |flag: &&String| {
        let other = match flag.strip_prefix('~') {
            Some(stable) => stable.to_owned(),
            None => format!("~{flag}"),
        };
        !new.contains(flag) && !new.contains(&other)
    };
    let all: Vec<&String> = match conf {
        "accept_keywords" => new.iter().chain(old.iter().filter(kept)).collect(),
        _ => old.iter().chain(new).collect(),
    };
    let mut flags: Vec<String> = Vec::new();
    for flag in all {
        let name = flag.strip_prefix('-').unwrap_or(flag);
        flags.retain(|one| one.strip_prefix('-').unwrap_or(one) != name);
        flags.push(flag.clone());
    }
    sorted::sort_by_key(&mut flags, |flag| bare(flag));
    flags
}

impl<'a> Conf<'a> {
    /// Returns the file of this kind.
    ///
    /// # Errors
    /// When there is no such kind.
    pub(crate) fn new(cx: &'a Exec, name: &'a str) -> Result<Self, Error> {
        match CONFS.contains(&name) {
            true => Ok(Self { cx, name }),
            false => Err(Error::refused(format!(
                "unknown file package.{name}: expected one of {}",
                CONFS.join(", ")
            ))),
        }
    }

    fn folder(&self) -> PathBuf {
        format!("/etc/portage/package.{}", self.name).into()
    }

    /// Returns the path of a package's file. Packages share a file if the category or the name is
    /// `*`.
    fn file(&self, atom: &str) -> Result<PathBuf, Error> {
        let key = key(atom);
        let below = match key.split_once('/') {
            Some(("*", "*")) => atom
                .split_once("::")
                .map_or("gentoo", |(_, repo)| repo)
                .to_owned(),
            Some((category, "*")) => format!("{category}_"),
            Some(("*", name)) => name.to_owned(),
            _ => key.to_owned(),
        };
        match Path::new(&below)
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)))
        {
            true => Ok(self.folder().join(below)),
            false => Err(Error::refused(format!("invalid package name {atom}"))),
        }
    }

    fn read(&self, atom: &str) -> Result<String, Error> {
        let path = self.file(atom)?;
        Ok(fs::text_or_none(path)?.unwrap_or_default())
    }

    /// Returns the flags that the file of a package gives to it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn flags(&self, atom: &str) -> Result<Vec<String>, Error> {
        let atom = full(atom)?;
        let mut flags = Vec::new();
        for (line, of_line) in self.read(&atom)?.lines().filter_map(words) {
            if line == atom || line == key(&atom) {
                match of_line.is_empty() {
                    true => flags.push("~ARCH".to_owned()),
                    false => flags.extend(of_line),
                }
            }
        }
        Ok(merged(&flags, &[], "any"))
    }

    /// Returns the flags of the list that a package does not have.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub(crate) fn missing(&self, atom: &str, flags: &[String]) -> Result<Vec<String>, Error> {
        let has = self.flags(atom)?;
        Ok(flags
            .iter()
            .filter(|flag| !has.contains(flag))
            .cloned()
            .collect())
    }

    /// Returns whether the file names the package.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub(crate) fn names(&self, atom: &str) -> Result<bool, Error> {
        let atom = full(atom)?;
        let text = self.read(&atom)?;
        let mut lines = text.lines().filter_map(words);
        Ok(lines.any(|(line, _)| line == atom || line == key(&atom)))
    }

    /// Adds flags to a package. Without flags it only adds the name.
    ///
    /// # Errors
    /// When its file cannot be written.
    pub(crate) fn append(
        &self,
        atom: &str,
        flags: &[String],
        overwrite: bool,
    ) -> Result<(), Error> {
        let atom = full(atom)?;
        let line = [std::slice::from_ref(&atom), flags].concat().join(" ");
        let mut flags = flags.to_vec();
        let is_for_arch = self.name == "accept_keywords";
        let mut taken = |word: &str| {
            let before = flags.len();
            flags.retain(|flag| !is_for_arch || flag != word);
            flags.len() < before
        };
        let (removed, bare) = (taken("-~ARCH"), taken("~ARCH"));
        if bare {
            self.append(&atom, &[], overwrite)?;
            if flags.is_empty() {
                return Ok(());
            }
        }
        let (mut text, mut is_there) = (String::new(), false);
        for old in self.read(&atom)?.lines() {
            let same = words(old).filter(|(one, _)| *one == atom);
            let Some((_, had)) = same else {
                text += &format!("{old}\n");
                continue;
            };
            if removed && had.is_empty() {
                continue;
            }
            let new = match (is_for_arch && !overwrite, had.is_empty(), flags.is_empty()) {
                _ if overwrite => line.clone(),
                // A line without flags means the keyword of the machine's own architecture, so it
                // stays separate.
                (true, true, nothing) => {
                    text += &format!("{old}\n");
                    is_there |= nothing;
                    continue;
                }
                (true, false, true) => continue,
                _ => [
                    std::slice::from_ref(&atom),
                    &merged(&flags, &had, self.name)[..],
                ]
                .concat()
                .join(" "),
            };
            text += &format!("{new}\n");
            is_there = true;
        }
        if !is_there {
            text += &format!("{line}\n");
        }
        let path = self.file(&atom)?;
        if let Some(folder) = path.parent() {
            fs::mkdirs(self.cx, folder).map_err(Error::io(folder))?;
        }
        fs::write(self.cx, &path, text.as_bytes(), fs::Owner::default())
    }

    /// Replaces the file by a folder. Comments are kept in the file `tmp` of the folder.
    fn as_folder(&self) -> Result<(), Error> {
        let path = self.folder();
        if !path.is_file() {
            return fs::mkdirs(self.cx, &path).map_err(Error::io(&path));
        }
        let text = fs::text(&path)?;
        let aside = path.with_extension(format!("{}.tmpbak", self.name));
        fs::rename(self.cx, &path, &aside).map_err(Error::io(&path))?;
        let mut remarks = String::new();
        for line in text.lines() {
            match words(line) {
                Some((atom, flags)) => self.append(atom, &flags, false)?,
                None => remarks += &format!("{line}\n"),
            }
        }
        if !remarks.trim().is_empty() {
            let rest = path.join("tmp");
            fs::write(self.cx, &rest, remarks.as_bytes(), fs::Owner::default())?;
        }
        fs::remove(self.cx, &aside).map_err(Error::io(&aside))
    }
}

/// Replaces each kind that is a file by a folder.
///
/// # Errors
/// When that cannot be done.
pub(crate) fn enforce(cx: &Exec) -> Result<(), Error> {
    CONFS
        .iter()
        .try_for_each(|name| Conf { cx, name }.as_folder())
}

fn enforce_nice_config(cx: &Exec, _: EnforceNiceConfig) -> Result<Value, Error> {
    enforce(cx).map(|()| Value::Null)
}

fn get_flags_from_package_conf(cx: &Exec, args: GetFlagsFromPackageConf) -> Result<Value, Error> {
    Ok(Conf::new(cx, &args.conf)?.flags(&args.atom)?.into())
}

fn has_flag(cx: &Exec, args: HasFlag) -> Result<Value, Error> {
    let flags = Conf::new(cx, &args.conf)?.flags(&args.atom)?;
    Ok(flags.contains(&args.flag).into())
}

fn get_missing_flags(cx: &Exec, args: GetMissingFlags) -> Result<Value, Error> {
    Ok(Conf::new(cx, &args.conf)?
        .missing(&args.atom, &args.flags)?
        .into())
}

fn has_use(cx: &Exec, args: HasUse) -> Result<Value, Error> {
    let flags = Conf::new(cx, "use")?.flags(&args.atom)?;
    Ok(flags.contains(&args.r#use).into())
}

fn is_present(cx: &Exec, args: IsPresent) -> Result<Value, Error> {
    Ok(Conf::new(cx, &args.conf)?.names(&args.atom)?.into())
}

fn append_to_package_conf(cx: &Exec, args: AppendToPackageConf) -> Result<Value, Error> {
    let conf = Conf::new(cx, &args.conf)?;
    match words(&args.string) {
        Some((atom, flags)) => conf.append(atom, &flags, args.overwrite)?,
        None => conf.append(&args.atom, &args.flags, args.overwrite)?,
    }
    Ok(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_atom_names_a_package() {
        for (atom, is) in [
            ("app-misc/foo", "app-misc/foo"),
            (">=app-misc/foo-bar-1.2-r3:0[use]", "app-misc/foo-bar"),
            ("app-misc/foo-2:3", "app-misc/foo-2"),
            ("*/*::overlay", "*/*"),
        ] {
            assert_eq!(key(atom), is);
        }
        assert!(full("nosuchpackageofours").is_err());
    }

    #[test]
    fn flags_are_merged_by_name() {
        let texts = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        let found = merged(&texts(&["-a", "c"]), &texts(&["b", "a"]), "use");
        assert_eq!(found, texts(&["-a", "b", "c"]));
        let found = merged(
            &texts(&["~amd64"]),
            &texts(&["amd64", "x86"]),
            "accept_keywords",
        );
        assert_eq!(found, texts(&["x86", "~amd64"]));
    }
}
