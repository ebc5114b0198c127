//! Lists the contents of an archive, and checks whether the archive is safe to unpack.

use std::path::{Component, Path, PathBuf};

use machine::process::{Process, which};
use python::{path, shlex};
use state::exec::Exec;
use state::module::Error;
use value::read::or_log;
use value::{Map, Value};

use super::{needs, plain_names, zipped};

/// The kind of a member of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A folder. Its name ends with a slash.
    Folder,
    /// A symbolic link.
    Link,
    /// Anything else.
    File,
}

/// The members of an archive, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    /// The kind and name of each member.
    pub(crate) members: Vec<(Kind, String)>,
}

/// Returns the format that the end of a file name suggests.
pub(crate) fn guessed(name: &str) -> Option<&'static str> {
    const TAR: [&str; 12] = [
        ".tar",
        ".tar.gz",
        ".tgz",
        ".tar.bz2",
        ".tbz2",
        ".tbz",
        ".tar.xz",
        ".txz",
        ".tar.lzma",
        ".tlz",
        // Salt does not know the next two.
        ".tar.zst",
        ".tzst",
    ];
    let name = name.to_lowercase();
    if TAR.iter().any(|end| name.ends_with(end)) {
        return Some("tar");
    }
    ["zip", "rar"]
        .into_iter()
        .find(|end| name.ends_with(&format!(".{end}")))
}

impl Contents {
    /// Lists an archive. Error messages refer to the archive by `name`.
    pub(crate) fn read(
        cx: &Exec,
        name: &str,
        path: &str,
        format: &str,
        options: Option<&str>,
    ) -> Result<Self, Error> {
        match format {
            "tar" => Self::read_tar(cx, name, path, options),
            "zip" => Self::read_zip(name, path),
            "rar" => Self::read_rar(cx, name),
            other => Err(format!("Unsupported archive format '{other}'").into()),
        }
    }

    fn read_tar(cx: &Exec, name: &str, path: &str, options: Option<&str>) -> Result<Self, Error> {
        if which("tar").is_none() {
            return Err("'tar' command not available".into());
        }
        let listed = |program: Option<&str>| {
            let unpacked = program.map(|program| format!("--use-compress-program={program}"));
            let words = ["tar", "--numeric-owner"]
                .map(str::to_owned)
                .into_iter()
                .chain(unpacked);
            let words = words.chain(["-tvf".to_owned(), path.to_owned()]);
            let mut process = Process::words(words).quiet();
            process.env = plain_names();
            process.run(cx)
        };
        let mut done = listed(None)?;
        if let Some(options) = options.filter(|_| !done.success()) {
            // Splitting and quoting the command again makes tar run it as plain words, without
            // shell syntax.
            let words: Vec<String> = shlex::split(options)?
                .iter()
                .map(|word| shlex::quote(word))
                .collect();
            done = listed(Some(&words.join(" ")))?;
        }
        if !done.success() {
            return Err(format!(
                "Unable to list contents of {name}. If this is an XZ-compressed tar archive, install XZ Utils to enable \
                 listing its contents. If it is compressed using something other than XZ, it may be necessary to specify \
                 CLI options to decompress the archive. See the documentation for details."
            )
            .into());
        }
        let members = done
            .stdout_regardless()
            .lines()
            .filter_map(tar_member)
            .collect();
        Ok(Self { members })
    }

    fn read_zip(name: &str, path: &str) -> Result<Self, Error> {
        let members = zipped::members(path)
            .map_err(|_| Error::refused(format!("{name} is not a ZIP file")))?;
        let members = members
            .into_iter()
            .map(|member| (member.kind(), member.name));
        let mut contents = Self {
            members: members.collect(),
        };
        // Archives that were made on Windows have no entries for folders.
        let above = |name: &str| {
            name.rfind('/')
                .map(|end| name.split_at(end + 1).0.to_owned())
        };
        let files = contents
            .members
            .iter()
            .filter(|(kind, _)| *kind == Kind::File);
        let folders: Vec<String> = files.filter_map(|(_, name)| above(name)).collect();
        contents
            .members
            .retain(|(kind, name)| *kind != Kind::File || !folders.contains(name));
        for folder in folders {
            let member = (Kind::Folder, folder);
            if !contents.members.contains(&member) {
                contents.members.push(member);
            }
        }
        Ok(contents)
    }

    fn read_rar(cx: &Exec, name: &str) -> Result<Self, Error> {
        if which("rar").is_none() {
            return Err("rar command not available, is it installed?".into());
        }
        let done = Process::words(["rar", "lt", name]).run(cx)?;
        let mut members = Vec::new();
        let mut last = None;
        for line in done.stdout_regardless().lines() {
            match line
                .trim()
                .split_once(':')
                .map(|(key, value)| (key, value.trim()))
            {
                Some(("Name", name)) => last = Some(name),
                Some(("Type", "Directory")) => {
                    members.extend(last.take().map(|name| (Kind::Folder, format!("{name}/"))));
                }
                Some(("Type", _)) => {
                    members.extend(last.take().map(|name| (Kind::File, name.to_owned())));
                }
                _ => {}
            }
        }
        if members.is_empty() {
            return Err(format!("Failed to list {name}, is it a rar file? If so, the installed version of rar may be too old").into());
        }
        Ok(Self { members })
    }

    /// Removes the first `count` path components from the names, and drops members whose name
    /// becomes empty.
    pub(crate) fn stripped(mut self, count: usize) -> Self {
        for (_, name) in &mut self.members {
            if count > 0 {
                let rest = name.splitn(count + 1, '/').nth(count);
                *name = rest.unwrap_or_default().to_owned();
            }
        }
        self.members.retain(|(_, name)| !name.is_empty());
        self
    }

    /// Returns the names of one kind, sorted.
    pub(crate) fn named(&self, wanted: Kind) -> Vec<String> {
        let found = self.members.iter().filter(|(kind, _)| *kind == wanted);
        let mut names: Vec<String> = found.map(|(_, name)| name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// Returns all names, sorted.
    pub(crate) fn all(&self) -> Vec<String> {
        let mut names: Vec<String> = self.members.iter().map(|(_, name)| name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// Returns folders, files and links separately, and those at the top level.
    pub(crate) fn verbose(&self) -> Map {
        let (dirs, files, links) = (
            self.named(Kind::Folder),
            self.named(Kind::File),
            self.named(Kind::Link),
        );
        let top = |names: &[String]| -> Vec<String> {
            names
                .iter()
                .filter(|name| !name.contains('/'))
                .cloned()
                .collect()
        };
        let (top_files, top_links) = (top(&files), top(&links));
        let mut top_dirs: Vec<String> = dirs
            .iter()
            .filter(|name| name.matches('/').count() == 1)
            .cloned()
            .collect();
        if let Some((first, _)) =
            common_prefix(self.members.iter().map(|(_, name)| name)).split_once('/')
        {
            let first = format!("{first}/");
            if !top_dirs.contains(&first) {
                top_dirs.push(first);
            }
        }
        Map::new()
            .with("dirs", dirs)
            .with("files", files)
            .with("links", links)
            .with("top_level_dirs", top_dirs)
            .with("top_level_files", top_files)
            .with("top_level_links", top_links)
    }

    /// Returns an error if unpacking the archive would write outside of the target folder.
    pub(crate) fn check(&self, dest: &str) -> Result<(), Error> {
        let root = path::realpath(dest);
        let mut links: Vec<PathBuf> = self
            .named(Kind::Link)
            .iter()
            .map(|name| inside(name))
            .collect();
        value::sorted::sort(&mut links);
        let is_link = |path: &Path| {
            links
                .binary_search_by(|link| link.as_path().cmp(path))
                .is_ok()
        };
        let leaves = |folder: &Path| {
            let place = path::realpath(&path::join(dest, &folder.to_string_lossy()));
            folder.ancestors().any(is_link) || !Path::new(&place).starts_with(&root)
        };
        let mut last = PathBuf::new();
        for (_, name) in &self.members {
            let climbs =
                |part: Component<'_>| !matches!(part, Component::Normal(_) | Component::CurDir);
            let folder = inside(name)
                .parent()
                .map(Path::to_path_buf)
                .unwrap_or_default();
            // Members of the same folder are usually adjacent, so the last folder need not be
            // checked again.
            if Path::new(name).components().any(climbs) || (folder != last && leaves(&folder)) {
                return Err(format!(
                    "Archive member {name} is outside {dest}: the archive was not extracted"
                )
                .into());
            }
            last = folder;
        }
        Ok(())
    }
}

/// Returns a member's name without redundant `.` components.
fn inside(name: &str) -> PathBuf {
    Path::new(name)
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect()
}

/// Parses a line of `tar -tv`: mode, owner, size, day, time, name.
fn tar_member(line: &str) -> Option<(Kind, String)> {
    let mut rest = line;
    for _ in 0..5 {
        let end = rest.trim_start().find(' ')?;
        rest = rest.trim_start().get(end..)?;
    }
    let name = rest.strip_prefix(' ')?;
    let before = |mark: &str| unescaped(name.split_once(mark).map_or(name, |(name, _)| name));
    Some(match line.as_bytes().first()? {
        b'd' => (
            Kind::Folder,
            format!("{}/", unescaped(name).trim_end_matches('/')),
        ),
        b'l' => (Kind::Link, before(" -> ")),
        b'h' => (Kind::File, before(" link to ")),
        _ => (Kind::File, unescaped(name)),
    })
}

/// Returns the original name: GNU tar prints some characters as C escape sequences.
fn unescaped(name: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = name.bytes().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let mut code = None;
        while let Some(digit) = bytes.next_if(|byte| (b'0'..=b'7').contains(byte)) {
            code = Some(
                code.unwrap_or(0_u8)
                    .wrapping_mul(8)
                    .wrapping_add(digit - b'0'),
            );
        }
        out.push(match code {
            Some(code) => code,
            None => match bytes.next() {
                Some(b'n') => b'\n',
                Some(b't') => b'\t',
                Some(b'r') => b'\r',
                Some(b'a') => 7,
                Some(b'b') => 8,
                Some(b'v') => 11,
                Some(b'f') => 12,
                Some(other) => other,
                None => b'\\',
            },
        });
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn common_prefix<'a>(mut names: impl Iterator<Item = &'a String>) -> &'a str {
    let first = names.next().map_or("", String::as_str);
    names.fold(first, |prefix, name| {
        let pairs = prefix.char_indices().zip(name.chars());
        let same = pairs
            .take_while(|((_, a), b)| a == b)
            .map(|((at, a), _)| at + a.len_utf8());
        prefix.get(..same.last().unwrap_or(0)).unwrap_or_default()
    })
}

/// Returns the tar option for the compression that the first bytes of the file indicate. Not every
/// tar detects it itself.
pub(crate) fn tar_flag(path: &str) -> Option<&'static str> {
    use std::io::Read;
    let mut start = [0; 6];
    let mut file = or_log(path, machine::fs::raw::open(path))?;
    file.read_exact(&mut start).ok()?;
    match start {
        [0x1f, 0x8b, ..] => Some("-z"),
        [b'B', b'Z', b'h', ..] => Some("-j"),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => Some("-J"),
        _ => None,
    }
}

/// Unpacks a tar archive with the owners, modes and times that it stores.
pub(crate) fn untar(cx: &Exec, path: &str, dest: &str) -> Result<Value, Error> {
    needs("tar")?;
    let words = ["tar"].into_iter().chain(tar_flag(path));
    let mut process = Process::words(words.chain(["-x", "-p", "-f", path, "-C", dest]));
    process.env = plain_names();
    let done = process.run(cx)?;
    Ok(if done.success() {
        Value::Null
    } else {
        done.to_map().into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_tar_become_members() {
        let member = |line: &str| tar_member(line).unwrap();
        assert_eq!(
            member("drwxr-xr-x 0/0               0 2026-11-21 13:00 d/"),
            (Kind::Folder, "d/".into())
        );
        assert_eq!(
            member("-rw-r--r-- 0/0 3 2026-11-21 13:00  two  words"),
            (Kind::File, " two  words".into())
        );
        assert_eq!(
            member("lrwxrwxrwx 0/0 0 2026-11-21 13:00 d/l -> /etc"),
            (Kind::Link, "d/l".into())
        );
        assert_eq!(
            member("hrw-r--r-- 0/0 0 2026-11-21 13:00 h link to d/f"),
            (Kind::File, "h".into())
        );
        assert_eq!(
            member("-rw-r--r-- 0/0 3 2026-11-21 13:00 a\\nb\\303\\244\\\\"),
            (Kind::File, "a\nbä\\".into())
        );
    }

    #[test]
    fn a_member_that_leads_out_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", folder.path().join("out")).unwrap();
        let check = |members: &[(Kind, &str)]| {
            let members = members
                .iter()
                .map(|(kind, name)| (*kind, (*name).to_owned()))
                .collect();
            Contents { members }
                .check(&folder.path().display().to_string())
                .is_ok()
        };
        assert!(check(&[
            (Kind::Folder, "./"),
            (Kind::File, "a/b"),
            (Kind::Link, "l")
        ]));
        assert!(!check(&[(Kind::File, "/a")]));
        assert!(!check(&[(Kind::File, "a/../../b")]));
        assert!(!check(&[(Kind::Link, "l"), (Kind::File, "l/passwd")]));
        assert!(!check(&[(Kind::File, "out/passwd")]));
    }

    #[test]
    fn formats_are_guessed_from_names() {
        assert_eq!(guessed("/x/A.TAR.GZ"), Some("tar"));
        assert_eq!(guessed("a.zip"), Some("zip"));
        assert_eq!(guessed("a.gz"), None);
    }

    #[test]
    fn what_has_one_folder_above_it_is_told() {
        let members = vec![
            (Kind::File, "jdk/bin/java".to_owned()),
            (Kind::File, "jdk/lib".to_owned()),
        ];
        let verbose = Contents { members }.verbose();
        assert_eq!(
            verbose.get("top_level_dirs"),
            Some(&vec!["jdk/".to_owned()].into())
        );
        assert_eq!(
            verbose.get("top_level_files"),
            Some(&Vec::<String>::new().into())
        );
    }
}
