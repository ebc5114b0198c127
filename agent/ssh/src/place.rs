//! Placing the program on a host: once per version, under a name that contains its hash.
//!
//! A probe finds a folder that no other user can write and in which programs can run, and what is in
//! it already. What is missing is appended to a partial file, checked by its hash, and renamed. A
//! transfer that was cut continues where it stopped.

use std::sync::Arc;
use std::time::Duration;

use crate::build::{Build, Machine};
use crate::fault::Fault;
use crate::output::{Output, reason};
use crate::program::Settings;
use crate::roster::Host;

/// The maximum time of the probe, in addition to that of the connection.
const PROBE_MAX: Duration = Duration::from_secs(60);
/// The maximum time of a transfer.
const TRANSFER_MAX: Duration = Duration::from_secs(3600);
/// The first word of each line of the probe. Other lines are from the host's login scripts.
const MARK: &str = "pinch-probe";
/// The exit code of a placing whose result has another hash.
const WRONG_HASH: i32 = 12;
/// The exit code of a placing whose partial file another transfer has taken.
const TAKEN: i32 = 13;

/// The result of the probe of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The kind of the machine.
    pub machine: Machine,
    /// The folder of the program.
    pub folder: String,
    /// The files in it, with their sizes.
    files: Vec<(String, u64)>,
    /// True if the host can unpack what `gzip` has compressed.
    has_gzip: bool,
}

/// The choices of a call about the program on hosts.
#[derive(Clone, Debug, Default)]
pub struct Placing {
    /// The end of the name of the folder, if it is not the usual one.
    pub suffix: String,
    /// True to place the program even if it is there.
    pub refreshes: bool,
    /// True to run the script `ssh_pre_flight` even if the program is there.
    pub always_pre_flight: bool,
}

/// Returns the line of `sh` that finds a folder for the program and prints what is in it.
fn probe_line(host: &Host, suffix: &str) -> String {
    let candidates = match &host.folder {
        Some(folder) => format!("\"{folder}{suffix}\""),
        None => format!(
            r#""/var/tmp/.${{n}}_pinch{suffix}" "${{HOME:-/nonexistent}}/.cache/pinch{suffix}" "/dev/shm/.${{n}}_pinch{suffix}" "/tmp/.${{n}}_pinch{suffix}""#
        ),
    };
    filled(PROBE, &[("MARK", MARK), ("CANDIDATES", &candidates)])
}

/// The start of the pipeline on a host that unpacks its input. A stream that was cut is unpacked up to
/// its end.
const UNPACK: &str = "gzip -dc 2>/dev/null | ";
/// The line of the probe.
const PROBE: &str = include_str!("probe.sh");
/// The line that places the program.
const PLACE: &str = include_str!("place.sh");

/// Returns a script as one line of `sh`, with its `@NAME@` replaced.
fn filled(script: &str, values: &[(&str, &str)]) -> String {
    let lines = script.lines().filter(|line| !line.starts_with('#'));
    let mut line = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    for (name, value) in values {
        line = line.replace(&format!("@{name}@"), value);
    }
    line
}

impl Probe {
    /// Asks a host for its kind, and for a folder.
    ///
    /// # Errors
    /// When the host cannot be reached, or has no folder in which programs can run.
    pub async fn ask(settings: &Settings, host: &Host, suffix: &str) -> Result<Self, Fault> {
        let most = PROBE_MAX + host.timeout.unwrap_or(settings.timeout);
        let done = settings
            .run(host, &probe_line(host, suffix), b"", most)
            .await;
        let done = done.map_err(|error| Fault::program(&error))?;
        if settings.is_lost(done.code, &done.err) {
            return Err(Fault::connection(reason(&done)));
        }
        Self::read(&done)
    }

    fn read(done: &Output) -> Result<Self, Fault> {
        let (mut machine, mut folder, mut files) = (Machine::default(), None, Vec::new());
        let mut has_gzip = false;
        for line in done.out.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                [MARK, "machine", name] => (*name).clone_into(&mut machine.name),
                [MARK, "little-endian"] => machine.is_little_endian = true,
                [MARK, "no-vfp"] => machine.has_no_vfp = true,
                [MARK, "gzip"] => has_gzip = true,
                [MARK, "folder", path] => folder = Some((*path).to_owned()),
                [MARK, "file", size, name] => {
                    if let Ok(size) = size.parse() {
                        files.push(((*name).to_owned(), size));
                    }
                }
                _ => {}
            }
        }
        if machine.name.is_empty() {
            let text = reason(done);
            return Err(Fault::placing(format!(
                "the host has no usable shell: {text}"
            )));
        }
        // The path becomes a word of later lines.
        let folder = folder.filter(|path| is_plain(path)).ok_or_else(|| {
            Fault::placing(
                "the host has no folder that belongs to the user alone and in which programs can run: set thin_dir in the roster".to_owned(),
            )
        })?;
        Ok(Self {
            machine,
            folder,
            files,
            has_gzip,
        })
    }

    /// Returns whether a build is in the folder.
    #[must_use]
    pub fn has(&self, build: &Build) -> bool {
        self.size(&build.name()) == Some(build.size)
    }

    /// Returns the path of a build in the folder.
    #[must_use]
    pub fn path(&self, build: &Build) -> String {
        format!("{}/{}", self.folder, build.name())
    }

    /// Returns the partial file to continue, with its size. `part` is the name of one whose transfer
    /// has ended. The host may not have noticed yet that the connection of another one is lost.
    fn part<'a>(&'a self, part: &str, most: u64) -> Option<(&'a str, u64)> {
        // The name becomes a word of a later line.
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let end = |name: &'a str| name.strip_prefix(part)?.strip_prefix('.');
        let is_running = |name| end(name).is_some_and(is_number);
        let fits = self.files.iter().filter(|(_, size)| *size <= most);
        let fits = fits.map(|(name, size)| (name.as_str(), *size));
        let running = fits.clone().filter(|(name, _)| is_running(name));
        let ended = fits.clone().find(|(name, _)| *name == part);
        ended.or_else(|| running.max_by_key(|(_, size)| *size))
    }

    fn size(&self, name: &str) -> Option<u64> {
        let found = self.files.iter().find(|(known, _)| known == name);
        found.map(|(_, size)| *size)
    }
}

/// Returns whether a path of a host can be quoted by double quotes.
fn is_plain(path: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-@+".contains(&byte);
    path.starts_with('/') && path.len() <= 255 && path.bytes().all(fits)
}

/// Sends a build to a host, and returns its path there. `pusher` identifies this machine, so that two
/// machines do not write to the same partial file.
///
/// # Errors
/// When the transfer fails, or its result has another hash.
pub async fn place(
    settings: &Settings,
    host: &Host,
    probe: &Probe,
    (build, pusher): (&Build, &str),
) -> Result<String, Fault> {
    let path = probe.path(build);
    let part = format!("{}.{pusher}.part", build.name());
    let (old, from) = probe.part(&part, build.size).unwrap_or((&part, 0));
    let packed = match probe.has_gzip {
        true => build.packed_from(from).await?,
        false => None,
    };
    let line = filled(
        PLACE,
        &[
            ("PART", &format!("{}/{part}", probe.folder)),
            ("OLD", &format!("{}/{old}", probe.folder)),
            ("FROM", &from.to_string()),
            ("SIZE", &build.size.to_string()),
            ("HASH", &build.hash),
            ("PATH", &path),
            ("UNPACK", packed.as_ref().map_or("", |_| UNPACK)),
        ],
    );
    let bytes = match packed {
        Some(packed) => packed,
        None => Arc::new(build.from(from)?),
    };
    let done = settings.run(host, &line, &bytes, TRANSFER_MAX).await;
    let done = done.map_err(|error| Fault::placing(format!("the transfer failed: {error}")))?;
    match done.code {
        Some(0) => Ok(path),
        Some(TAKEN) => Err(Fault::taken(format!(
            "another transfer to {path} is in progress"
        ))),
        Some(WRONG_HASH) => Err(Fault::damaged(format!(
            "the program that arrived at {path} does not have its hash"
        ))),
        code if settings.is_lost(code, &done.err) => Err(Fault::connection(reason(&done))),
        _ => Err(Fault::placing(format!(
            "cannot place the program at {path}: {}",
            reason(&done)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(out: &str) -> Result<Probe, Fault> {
        Probe::read(&Output {
            code: Some(0),
            out: out.to_owned(),
            err: String::new(),
        })
    }

    #[test]
    fn a_probe_is_read_between_the_lines_of_login_scripts() {
        let probe = read("Welcome!\npinch-probe machine armv7l\nload average: 1\npinch-probe folder /var/tmp/.root_pinch\npinch-probe file 12 pinch-0011223344556677\n").unwrap();
        assert_eq!(probe.machine.name, "armv7l");
        assert_eq!(probe.folder, "/var/tmp/.root_pinch");
        assert_eq!(probe.size("pinch-0011223344556677"), Some(12));
        assert_eq!(probe.size("pinch-8899aabbccddeeff"), None);
    }

    /// Attack: a host answers with a folder that would run commands in later lines.
    #[test]
    fn a_folder_that_is_no_plain_path_is_refused() {
        for folder in [
            "/tmp/$(reboot)",
            "/tmp/\";reboot;\"",
            "relative",
            "/tmp/`id`",
            "/tmp/'x",
            "",
        ] {
            let out = format!("pinch-probe machine x86_64\npinch-probe folder {folder}\n");
            assert!(read(&out).is_err(), "{folder}");
        }
        let long = format!(
            "pinch-probe machine x86_64\npinch-probe folder /{}\n",
            "a".repeat(300)
        );
        assert!(read(&long).is_err());
    }

    #[test]
    fn the_largest_part_is_continued_unless_one_has_ended() {
        let files = |sizes: &[(&str, u64)]| Probe {
            machine: Machine::default(),
            folder: "/x".to_owned(),
            files: sizes
                .iter()
                .map(|(name, size)| ((*name).to_owned(), *size))
                .collect(),
            has_gzip: false,
        };
        let running = [("p.me.part.1", 5), ("p.me.part.22", 7), ("p.you.part.1", 9)];
        let probe = files(&running);
        assert_eq!(probe.part("p.me.part", 10), Some(("p.me.part.22", 7)));
        assert_eq!(probe.part("p.me.part", 6), Some(("p.me.part.1", 5)));
        assert_eq!(probe.part("p.other.part", 10), None);
        let probe = files(&[&running[..], &[("p.me.part", 2)]].concat());
        assert_eq!(probe.part("p.me.part", 10), Some(("p.me.part", 2)));
    }

    #[test]
    fn a_host_without_a_folder_or_a_shell_says_so() {
        let none = read("pinch-probe machine x86_64\n").unwrap_err();
        assert!(
            none.text.contains("set thin_dir in the roster"),
            "{}",
            none.text
        );
        let shell = Probe::read(&Output {
            code: Some(127),
            out: String::new(),
            err: "sh: not found\n".to_owned(),
        });
        assert!(shell.unwrap_err().text.contains("sh: not found"));
    }

    #[test]
    fn scripts_are_one_line_without_single_quotes() {
        for script in [PROBE, PLACE] {
            let line = filled(script, &[]);
            assert!(!line.contains(['\n', '\'', '!']), "{line}");
        }
    }
}
