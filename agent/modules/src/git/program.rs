//! Runs git for a mirror: with a deadline, with limits for what it prints and stores, and without the
//! variables and settings of the caller.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use state::module::Error;

use super::address::Address;

/// The maximum number of bytes of an output: some 100,000 references.
const OUTPUT_MAX: u64 = 32 << 20;
/// The interval at which a running git is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// The variables of the caller that git gets.
const PASSED: [&str; 4] = ["HOME", "PATH", "SSH_AUTH_SOCK", "TMPDIR"];

/// A repository on this machine, and git with the options for it.
pub(super) struct Git<'a> {
    pub(super) repository: PathBuf,
    pub(super) address: &'a Address,
    /// More options, which precede the command.
    pub(super) options: Vec<String>,
    /// More variables.
    pub(super) variables: Vec<(&'static str, PathBuf)>,
    /// The maximum time of a command.
    pub(super) patience: Duration,
    /// The maximum size of the repository in bytes, which a command must not exceed.
    pub(super) size_max: u64,
    /// The lock of the mirror, which git holds to its end, even if this process is killed before.
    pub(super) lock: Option<&'a File>,
}

impl Git<'_> {
    /// Runs git with a text as its input, and returns what it prints.
    ///
    /// # Errors
    /// When it cannot be started, fails, takes too long, or prints or stores too much.
    pub(super) fn run(&self, words: &[&str], input: &str) -> Result<String, Error> {
        let failed = |problem: String| {
            let command = words.first().copied().unwrap_or_default();
            Error::refused(format!("git {command} failed: {problem}"))
        };
        let mut child = self.started(words)?;
        let mut stdin = child.stdin.take();
        let input = input.to_owned();
        let writer = thread::spawn(move || match &mut stdin {
            Some(stdin) => stdin.write_all(input.as_bytes()),
            None => Ok(()),
        });
        let output = read(child.stdout.take());
        let errors = read(child.stderr.take());
        let ended = self.ended(&mut child);
        let errors = joined(errors).map_err(|error| failed(error.to_string()))?;
        let errors = state_text(&errors);
        let lines = errors.lines().filter(|line| !line.is_empty());
        let errors = lines.collect::<Vec<_>>().join("; ");
        match ended {
            Err(problem) => Err(failed(problem)),
            Ok(false) => Err(failed(errors)),
            Ok(true) => {
                // git may end before it has read all.
                drop(writer.join());
                let output = joined(output).map_err(|error| failed(error.to_string()))?;
                Ok(state_text(&output))
            }
        }
    }

    /// Starts git with pipes.
    ///
    /// # Errors
    /// When that is not possible.
    pub(super) fn started(&self, words: &[&str]) -> Result<Child, Error> {
        self.start(words).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::from("the program git is not installed"),
            _ => Error::refused(format!("Cannot start git: {error}")),
        })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a tree is read before there is a run whose settings machine::process needs"
    )]
    fn start(&self, words: &[&str]) -> io::Result<Child> {
        // The lock belongs to all copies of its file, and the file is empty.
        let stdin = match self.lock {
            Some(lock) => lock.try_clone()?.into(),
            None => Stdio::piped(),
        };
        let passed = PASSED.iter();
        let passed = passed.filter_map(|name| Some((*name, std::env::var_os(name)?)));
        Command::new("git")
            .args(self.address.options())
            .args(&self.options)
            .args(words)
            .current_dir("/")
            .env_clear()
            .envs(passed)
            .envs(self.address.variables())
            .env("GIT_DIR", &self.repository)
            .envs(self.variables.iter().map(|(name, value)| (*name, value)))
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }

    /// Waits for the end of git. Returns whether it succeeded.
    fn ended(&self, child: &mut Child) -> Result<bool, String> {
        let began = Instant::now();
        loop {
            if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
                self.check_size()?;
                return Ok(status.success());
            }
            let problem = match began.elapsed() > self.patience {
                true => format!("it took longer than {} s", self.patience.as_secs()),
                false => match self.check_size() {
                    Ok(()) => {
                        thread::sleep(LOOK);
                        continue;
                    }
                    Err(problem) => problem,
                },
            };
            machine::process::kill(child);
            return Err(problem);
        }
    }

    /// Returns the problem of a repository that is too large. All that is fetched is in packs.
    fn check_size(&self) -> Result<(), String> {
        let size = size(&self.repository.join("objects/pack"))?;
        match size > self.size_max {
            true => Err(format!(
                "the repository is larger than {} MiB (`max_size`). If it is smaller now, remove the copy with: salt-run fileserver.clear_cache",
                self.size_max >> 20
            )),
            false => Ok(()),
        }
    }
}

/// Returns the size of the files in a folder, without those that are removed meanwhile.
fn size(folder: &Path) -> Result<u64, String> {
    let entries = machine::fs::list_or_none(folder).map_err(|error| error.to_string())?;
    let entries = entries.unwrap_or_default().into_iter();
    let sizes = entries.filter_map(|entry| entry.metadata().ok());
    Ok(sizes.map(|metadata| metadata.len()).sum())
}

/// Reads a pipe to its end in a thread.
fn read(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<io::Result<Vec<u8>>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            pipe.take(OUTPUT_MAX + 1).read_to_end(&mut bytes)?;
        }
        match bytes.len() as u64 > OUTPUT_MAX {
            true => Err(io::Error::other(format!(
                "it printed more than {} MiB",
                OUTPUT_MAX >> 20
            ))),
            false => Ok(bytes),
        }
    })
}

fn joined(reader: JoinHandle<io::Result<Vec<u8>>>) -> io::Result<Vec<u8>> {
    let read = reader.join();
    read.map_err(|_| io::Error::other("its output cannot be read"))?
}

/// Returns an output as text, without white space at its end.
fn state_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_end().to_owned()
}
