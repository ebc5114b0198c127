//! Finding and running the program that is tested.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::skip::skip;

/// The result of one call of the program.
pub struct Answer {
    /// The text that it wrote to its standard output.
    pub out: String,
    /// Its exit code; `None` if a signal ended it.
    pub rc: Option<i32>,
}

const DEADLINE: Duration = Duration::from_secs(60);

/// The words that start `salt-call`: those of `PINCH_BIN`, or the program built from this workspace.
static PROGRAM: LazyLock<Vec<String>> = LazyLock::new(|| match std::env::var("PINCH_BIN") {
    Ok(given) => given_program(&given),
    Err(_) => vec![built_program(), "salt-call".to_owned()],
});

/// Builds the program in advance, so that no case has to wait for the build.
pub fn make_ready() {
    LazyLock::force(&PROGRAM);
}

fn given_program(given: &str) -> Vec<String> {
    let mut words: Vec<String> = given.split_whitespace().map(str::to_owned).collect();
    if words[0].contains('/') {
        words[0] = workspace().join(&words[0]).display().to_string();
    }
    if words.len() == 1 && words[0].ends_with("/pinch") {
        words.push("salt-call".to_owned());
    }
    words
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the program in the form in which it is shipped: the file that `PINCH_PACKAGED` names, or
/// a release built from this workspace.
pub fn shipped_program() -> PathBuf {
    match std::env::var_os("PINCH_PACKAGED") {
        Some(given) => given.into(),
        None => built("release"),
    }
}

/// Builds `pinch` with the profile of the running test.
fn built_program() -> String {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).unwrap().file_name().unwrap();
    let program = built(profile.to_str().unwrap());
    program.display().to_string()
}

/// Builds `pinch` in the target folder of the running test, and returns its path. `name` is the
/// name of the profile's folder.
fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let target_dir = test.ancestors().nth(3).unwrap();
    // Of a debug build, the tests have built all libraries, with the features of the whole workspace.
    let (profile, what) = match name {
        "debug" => ("dev", ["--workspace", "--bins"]),
        other => (other, ["--package", "pinch"]),
    };
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command
        .args(["build", "--quiet", "--profile", profile])
        .args(what)
        .arg("--target-dir")
        .arg(target_dir)
        .current_dir(workspace());
    for variable in variables_of_this_package() {
        command.env_remove(variable);
    }
    let built = command.status().unwrap();
    assert!(built.success(), "cargo build {what:?} failed");
    target_dir.join(name).join("pinch")
}

/// Returns the variables by which cargo describes the package of the running test. Build scripts
/// that read them would run again, and all that depends on them would be rebuilt.
fn variables_of_this_package() -> impl Iterator<Item = OsString> {
    std::env::vars_os().filter_map(|(name, _)| {
        let text = name.to_str()?;
        let describes = text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_");
        describes.then_some(name)
    })
}

/// Copies a program that a test then starts. A separate process makes the copy: if this process had
/// the copy open for writing, a program that another test starts at that time would keep it open,
/// and the kernel starts no file that is open for writing.
pub fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg(from).arg(to).status().unwrap();
    assert!(copied.success(), "cannot copy {}", from.display());
}

/// The program, with all applets.
pub fn pinch_program() -> PathBuf {
    PROGRAM[0].as_str().into()
}

/// The words that start `salt-call`.
pub fn program() -> &'static [String] {
    &PROGRAM
}

/// Sets the environment in which the answers were recorded, independent of the user who runs the
/// tests: Salt takes its shell from `SHELL`.
pub fn in_recorded_environment(command: &mut Command) -> &mut Command {
    let kept = ["PATH", "HOME", "TMPDIR"].map(|name| (name, std::env::var_os(name)));
    let kept = kept
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    command
        .env_clear()
        .envs(kept)
        .env("SHELL", "/bin/bash")
        .env("LANG", "C.UTF-8")
}

/// Runs `salt-call -c DIR/etc --local WORDS…` in `dir`, which must hold a minion's folders.
pub fn salt_call(dir: &Path, words: &[String]) -> Result<Answer, String> {
    run(dir, Command::new(&PROGRAM[0]).args(&PROGRAM[1..]), words)
}

/// Does the same in a throw-away copy of this machine's root, in which only `dir` is real.
pub fn salt_call_in_throwaway(dir: &Path, words: &[String]) -> Result<Answer, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/throwaway.sh");
    let mut command = Command::new(script);
    run(dir, command.arg(dir).args(PROGRAM.iter()), words)
}

/// Starts an init system in the throw-away root of `dir`; later programs there run under it. Returns
/// false if it cannot run on this machine, and the test is skipped.
pub fn boot(dir: &Path, init: &str) -> Result<bool, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/boot.sh");
    let mut command = Command::new(script);
    let booted = in_recorded_environment(command.arg(dir).arg(init))
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("boot: {e}"))?;
    match booted.status.code() {
        Some(0) => Ok(true),
        Some(77) => {
            skip(&format!(
                "{init} cannot run here; cgroups may not be mounted"
            ));
            Ok(false)
        }
        _ => Err(String::from_utf8_lossy(&booted.stderr).into_owned()),
    }
}

/// Runs a case's own script in its folder, in the throw-away root if the case runs there.
pub fn prepare(dir: &Path, script: &str, throwaway: bool) -> Result<(), String> {
    let outer = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/throwaway.sh");
    let mut command = if throwaway {
        let mut command = Command::new(outer);
        command.arg(dir).arg("sh");
        command
    } else {
        Command::new("sh")
    };
    let done = in_recorded_environment(command.args(["-euc", script]))
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("prepare: {e}"))?;
    if done.status.success() {
        Ok(())
    } else {
        let stderr = String::from_utf8_lossy(&done.stderr);
        Err(format!("prepare failed: {stderr}"))
    }
}

fn run(dir: &Path, program: &mut Command, words: &[String]) -> Result<Answer, String> {
    let out = dir.join("stdout");
    let mut child = in_recorded_environment(program)
        .arg("-c")
        .arg(dir.join("etc"))
        .arg("--local")
        .args(words)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(File::create(&out).unwrap())
        .stderr(File::create(dir.join("stderr")).unwrap())
        .spawn()
        .map_err(|e| format!("cannot run {}: {e}", PROGRAM[0]))?;
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            let bytes = std::fs::read(&out).unwrap();
            let out = String::from_utf8_lossy(&bytes).into_owned();
            let rc = status.code();
            return Ok(Answer { out, rc });
        }
        if start.elapsed() > DEADLINE {
            child.kill().unwrap();
            child.wait().unwrap();
            return Err(format!("no answer in {} s", DEADLINE.as_secs()));
        }
        sleep(Duration::from_millis(2));
    }
}

/// Panics unless the output contains every one of the texts, in this order.
pub fn assert_in_order(text: &str, expected: &[&str]) {
    let mut rest = text;
    for one in expected {
        let Some((_, after)) = rest.split_once(one) else {
            panic!("{one:?} is missing or out of order in:\n{text}");
        };
        rest = after;
    }
}
