//! Tests of the packages with the package managers that install them, each in its own root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tests::program::{in_recorded_environment, shipped_program};
use tests::scratch::corpus;
use tests::skip::is_root;

mod agents;
mod bootstrap;
mod daemons;
mod debian;
mod formats;
mod managers;
mod migrate;
mod newcomer;
mod release;
mod services;
mod shells;

/// The workspace's folder.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The target that the programs of this machine are built for.
fn target() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

/// Runs `packaging/build` with these arguments and returns its output.
fn build(words: &[&str]) -> Output {
    tool("build", words)
}

/// Runs this program of `packaging` with these arguments and returns its output.
fn tool(name: &str, words: &[&str]) -> Output {
    let mut command = Command::new(workspace().join("packaging").join(name));
    // cargo looks for its own folders there.
    let kept = [
        "CARGO_HOME",
        "RUSTUP_HOME",
        "RUSTUP_TOOLCHAIN",
        "CARGO_TARGET_DIR",
    ];
    let kept = kept.map(|name| (name, std::env::var_os(name)));
    in_recorded_environment(command.args(words))
        .envs(
            kept.into_iter()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .output()
        .unwrap()
}

/// Packages a program; panics with the error output if that fails.
fn packaged(binary: &Path, target: &str, formats: &str, more: &[&str], out: &Path) {
    let (binary, out) = (binary.to_str().unwrap(), out.to_str().unwrap());
    let mut words: Vec<&str> = formats.split(' ').collect();
    words.extend(["--binary", binary, "--target", target, "-o", out]);
    words.extend(more);
    let built = build(&words);
    let stderr = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{words:?}: {stderr}");
}

/// Packages the shipped program, which is dynamically linked.
fn shipped(formats: &str, more: &[&str], out: &Path) {
    let more = [more, &["--dynamic"]].concat();
    packaged(&shipped_program(), &target(), formats, &more, out);
}

/// Creates a file with the ELF header of a static program of this class, byte order and machine,
/// which is enough for packaging.
fn stand_in(folder: &Path, class: u8, order: u8, machine: u16) -> PathBuf {
    let mut header = [0; 64];
    header[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, order]);
    let machine = if order == 1 {
        machine.to_le_bytes()
    } else {
        machine.to_be_bytes()
    };
    header[18..20].copy_from_slice(&machine);
    let path = folder.join(format!(
        "stand-in-{class}-{order}-{}",
        machine[0] | machine[1]
    ));
    fs::write(&path, [header.as_slice(), &[b'x'; 5000]].concat()).unwrap();
    path
}

/// Creates one for the machine on which the tests run.
fn stand_in_here(folder: &Path) -> PathBuf {
    let own = fs::read("/proc/self/exe").unwrap();
    let machine = u16::from_le_bytes([own[18], own[19]]);
    stand_in(folder, own[4], own[5], machine)
}

/// Returns the only file in the folder whose name has this ending.
fn file(folder: &Path, end: &str) -> PathBuf {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = entries
        .filter(|path| path.to_str().unwrap().ends_with(end))
        .collect();
    assert_eq!(found.len(), 1, "*{end} in {}: {found:?}", folder.display());
    found.remove(0)
}

/// Runs a script with sh and returns its output; panics if it fails.
fn sh(script: &str) -> String {
    let mut command = Command::new("sh");
    done(command.args(["-euc", script]))
}

/// Does the same in a throw-away copy of this machine's root, in which only `dir` is real.
fn in_throwaway(dir: &Path, script: &str) -> String {
    let mut command = Command::new(corpus().join("throwaway.sh"));
    done(command.arg(dir).args(["sh", "-euc", script]))
}

fn done(command: &mut Command) -> String {
    let output = in_recorded_environment(command).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{stderr}");
    text
}
