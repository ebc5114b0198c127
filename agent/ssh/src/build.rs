//! [`Build`]: the program for the processor of a host.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cli::binary::TARGET;
use machine::hashes;
use smol::lock::OnceCell;
use smol::process::Command;

use crate::fault::Fault;
use crate::output;

/// The maximum time to compress the program.
const PACKING_MAX: Duration = Duration::from_secs(60);
/// The number of hexadecimal digits of the hash in the program's name.
const DIGITS: usize = 16;

/// The kind of a machine, as far as it decides which build runs there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Machine {
    /// Its name, as `uname -m` prints it.
    pub name: String,
    /// True if its programs are little-endian.
    pub is_little_endian: bool,
    /// True if it is an ARM processor without a floating-point unit.
    pub has_no_vfp: bool,
}

impl Machine {
    /// Returns the name of the build that runs there, as in `cross/sizes.toml`.
    fn build(&self) -> Option<&'static str> {
        Some(match self.name.as_str() {
            "x86_64" | "amd64" => "x86_64",
            "aarch64" | "arm64" => "aarch64",
            "armv6l" | "armv7l" | "armv8l" if self.has_no_vfp => "armv5te",
            "armv7l" | "armv8l" => "armv7hf",
            "armv6l" => "armv6hf",
            "armv5tel" | "armv5tejl" => "armv5te",
            "riscv64" => "riscv64",
            "i386" | "i486" | "i586" | "i686" => "i686",
            "mips" | "mips64" if self.is_little_endian => "mipsel",
            "mips" | "mips64" => "mips",
            _ => return None,
        })
    }
}

/// Returns the name of the build for a target of the compiler.
fn name_of(target: &str) -> &str {
    match target.split('-').next().unwrap_or_default() {
        "armv7" => "armv7hf",
        "arm" => "armv6hf",
        "riscv64gc" => "riscv64",
        other => other,
    }
}

/// A build of the program for one kind of machine.
#[derive(Clone, Debug)]
pub struct Build {
    path: PathBuf,
    pub(crate) hash: String,
    pub(crate) size: u64,
    /// The whole program as `gzip` compresses it, once a host needed it.
    packed: Arc<OnceCell<Packed>>,
}

/// Compressed bytes; `None` if this machine has no `gzip`.
type Packed = Option<Arc<Vec<u8>>>;

impl Build {
    /// Returns the build for a machine: this program itself if it runs there, or else the one in the
    /// folder `builds`.
    ///
    /// # Errors
    /// When there is no build for it, or it cannot be read.
    pub fn for_machine(machine: &Machine, own: &Path, builds: &Path) -> Result<Self, Fault> {
        let Some(name) = machine.build() else {
            return Err(Fault::placing(format!(
                "no build of this program runs on a machine {:?}",
                machine.name
            )));
        };
        let is_own = name == name_of(TARGET);
        if is_own && is_static(own) {
            return Self::read(own);
        }
        let other = builds.join(name).join("pinch");
        if other.is_file() {
            return Self::read(&other);
        }
        let other = other.display();
        Err(Fault::placing(match is_own {
            true => format!(
                "this program needs the libraries of its own machine, so it cannot run on others: use a static build, or put one at {other} (ssh_builds)"
            ),
            false => format!(
                "there is no build for {name}: install the package pinch-agents, or put a static build at {other} (ssh_builds)"
            ),
        }))
    }

    fn read(path: &Path) -> Result<Self, Fault> {
        let failed = |error: &dyn std::fmt::Display| {
            Fault::placing(format!(
                "cannot read the program {}: {error}",
                path.display()
            ))
        };
        let metadata = std::fs::metadata(path).map_err(|error| failed(&error))?;
        let hash = hashes::of_file(&path.to_string_lossy(), "sha256");
        Ok(Self {
            path: path.to_owned(),
            hash: hash.map_err(|error| failed(&error))?,
            size: metadata.len(),
            packed: Arc::default(),
        })
    }

    /// Returns the bytes from an offset on.
    pub(crate) fn from(&self, from: u64) -> Result<Vec<u8>, Fault> {
        let read = || {
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(from))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        read().map_err(|error: std::io::Error| {
            let path = self.path.display();
            Fault::placing(format!("cannot read the program {path}: {error}"))
        })
    }

    /// Returns the bytes from an offset on, compressed. The whole program is compressed once for all
    /// hosts.
    pub(crate) async fn packed_from(&self, from: u64) -> Result<Packed, Fault> {
        if from > 0 {
            return Ok(packed(&self.from(from)?).await);
        }
        let pack = async { Ok(packed(&self.from(0)?).await) };
        self.packed.get_or_try_init(|| pack).await.cloned()
    }

    pub(crate) fn name(&self) -> String {
        format!("pinch-{}", self.hash.get(..DIGITS).unwrap_or(&self.hash))
    }
}

/// Compresses bytes with `gzip`.
async fn packed(bytes: &[u8]) -> Packed {
    let mut gzip = Command::new("gzip");
    // More effort takes longer than it saves.
    gzip.arg("-c").arg("-1");
    match output::bytes(gzip, &[bytes], PACKING_MAX).await {
        Ok(done) if done.code == Some(0) && !done.out.is_empty() => Some(Arc::new(done.out)),
        _ => None,
    }
}

/// Returns whether a program names no interpreter, so that it runs without libraries.
fn is_static(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(4096).read_to_end(&mut start));
    let has = |word: &[u8]| start.windows(word.len()).any(|window| window == word);
    read.is_ok() && start.starts_with(b"\x7fELF") && !has(b"/ld-linux") && !has(b"/ld-musl")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str) -> Machine {
        Machine {
            name: name.to_owned(),
            ..Machine::default()
        }
    }

    #[test]
    fn a_machine_has_the_build_for_its_processor() {
        let little = Machine {
            is_little_endian: true,
            ..machine("mips")
        };
        // A router whose processor is an ARMv7 without a floating-point unit.
        let router = Machine {
            has_no_vfp: true,
            ..machine("armv7l")
        };
        assert_eq!(machine("armv7l").build(), Some("armv7hf"));
        assert_eq!(router.build(), Some("armv5te"));
        assert_eq!(machine("mips").build(), Some("mips"));
        assert_eq!(little.build(), Some("mipsel"));
        assert_eq!(machine("vax").build(), None);
    }

    #[test]
    fn builds_have_the_names_of_the_table_of_targets() {
        let table = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cross/sizes.toml");
        let table = std::fs::read_to_string(table).unwrap();
        let lines = table.lines().filter_map(|line| line.strip_prefix('['));
        let targets: Vec<&str> = lines.filter_map(|line| line.split(']').next()).collect();
        assert!(targets.len() > 5);
        for target in targets {
            let section = table.split_once(&format!("[{target}]\n")).unwrap().1;
            let line = format!("name = \"{}\"", name_of(target));
            assert_eq!(section.lines().next(), Some(line.as_str()), "{target}");
        }
    }

    #[test]
    fn a_machine_without_a_build_is_named_with_the_place_of_one() {
        let builds = tempfile::tempdir().unwrap();
        let own = builds.path().join("own");
        std::fs::write(&own, "\x7fELF /lib64/ld-linux-x86-64.so.2").unwrap();
        let text = |name: &str| {
            let built = Build::for_machine(&machine(name), &own, builds.path());
            built.unwrap_err().text
        };
        assert!(text("vax").contains("\"vax\""));
        assert!(text("riscv64").contains("riscv64/pinch (ssh_builds)"));
        let here = builds.path().join("riscv64");
        std::fs::create_dir(&here).unwrap();
        std::fs::write(here.join("pinch"), "x").unwrap();
        let found = Build::for_machine(&machine("riscv64"), &own, builds.path()).unwrap();
        assert_eq!((found.size, found.name().len()), (1, 6 + DIGITS));
    }
}
