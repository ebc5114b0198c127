//! The init system, systemd's version and SELinux.

use std::io::Read;
use std::path::Path;

use value::Map;
use value::read::or_log;

use super::files::{Root, which};

/// Returns `init`.
pub(super) fn init(root: &Root) -> Map {
    Map::new().with("init", init_system(root))
}

fn init_system(root: &Root) -> &'static str {
    if root.exists("run/systemd/system") {
        return "systemd";
    }
    let Some(text) = root.read("proc/1/cmdline") else {
        return "unknown";
    };
    let text = text.replace('\0', " ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let Some(first) = words.first() else {
        value::log::warning("Unable to fetch data from /proc/1/cmdline");
        return "unknown";
    };
    match which(first) {
        Some(program) if program.to_string_lossy().ends_with("bin/init") => {
            named_in(&program).unwrap_or("unknown")
        }
        _ => init_of_words(&words),
    }
}

/// Returns the init system that the command line of the first process shows.
fn init_of_words(words: &[&str]) -> &'static str {
    let runs = |name: &str| {
        which(name).is_some_and(|program| words.contains(&program.to_string_lossy().as_ref()))
    };
    let found = ["supervisord", "dumb-init", "tini"]
        .into_iter()
        .find(|name| runs(name));
    match found {
        Some(name) => name,
        None if words == ["runit"] || words.contains(&"/sbin/my_init") => "runit",
        None => "unknown",
    }
}

/// Returns the init system whose name occurs in the bytes of a program.
fn named_in(program: &Path) -> Option<&'static str> {
    const NAMES: [&str; 3] = ["upstart", "sysvinit", "systemd"];
    const EDGE: usize = 7;
    let mut file = or_log(program, machine::fs::raw::open(program))?;
    let mut buffer = Vec::new();
    loop {
        let kept = buffer.split_off(buffer.len().saturating_sub(EDGE));
        buffer = kept;
        let read = file.by_ref().take(262_144).read_to_end(&mut buffer).ok()?;
        if read == 0 {
            return None;
        }
        buffer.make_ascii_lowercase();
        let found = NAMES.into_iter().find(|name| {
            let name = name.as_bytes();
            buffer.windows(name.len()).any(|window| window == name)
        });
        if found.is_some() {
            return found;
        }
    }
}

/// Returns `systemd` with its version, read from the name of its library. Salt also lists its
/// features, which only the program can report.
pub(super) fn systemd(root: &Root) -> Map {
    if which("systemctl").is_none() || which("localectl").is_none() {
        return Map::new();
    }
    let version = systemd_version(root);
    version.map_or_else(Map::new, |version| {
        Map::new().with("systemd", Map::new().with("version", version))
    })
}

fn systemd_version(root: &Root) -> Option<String> {
    let machine = rustix::system::uname()
        .machine()
        .to_string_lossy()
        .into_owned();
    let folders = [
        "usr/lib/systemd".to_owned(),
        format!("usr/lib/{machine}-linux-gnu/systemd"),
        "lib/systemd".to_owned(),
        format!("lib/{machine}-linux-gnu"),
        "usr/lib64/systemd".to_owned(),
    ];
    folders.iter().find_map(|folder| {
        let entries = super::files::ok_or_log(machine::fs::list_or_none(root.path(folder)))?;
        entries.into_iter().find_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let version = name.strip_prefix("libsystemd-shared-")?;
            let digits = version.split(|sign: char| !sign.is_ascii_digit()).next()?;
            Some(digits.to_owned()).filter(|digits| !digits.is_empty())
        })
    })
}

/// Returns `selinux`, where its programs are installed.
pub(super) fn selinux(root: &Root) -> Map {
    if which("selinuxenabled").is_none() {
        return Map::new();
    }
    let enforce = root.read("sys/fs/selinux/enforce");
    let mut selinux = Map::new().with("enabled", enforce.is_some());
    if which("getenforce").is_some() {
        let state = match enforce.as_deref().map(str::trim) {
            Some("1") => "Enforcing",
            Some(_) => "Permissive",
            None => "Disabled",
        };
        selinux.insert("enforced", state);
    }
    Map::new().with("selinux", selinux)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_across_two_reads_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("init");
        let mut bytes = vec![b'.'; 262_144 - 3];
        bytes.extend(b"SysVinit\0");
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(named_in(&path), Some("sysvinit"));
        std::fs::write(&path, vec![b'.'; 300_000]).unwrap();
        assert_eq!(named_in(&path), None);
    }

    #[test]
    fn the_version_of_systemd_is_in_the_name_of_its_library() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("usr/lib/systemd");
        std::fs::create_dir_all(&library).unwrap();
        let root = Root::new(folder.path());
        assert_eq!(systemd_version(&root), None);
        std::fs::write(library.join("libsystemd-shared-254.10-1.fc39.so"), "").unwrap();
        assert_eq!(systemd_version(&root), Some("254".to_owned()));
    }
}
