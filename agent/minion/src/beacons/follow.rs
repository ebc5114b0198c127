//! Runs a program in the background and reads the lines of its output as they come.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, Command, Stdio};

use machine::process;
use rustix::fs::OFlags;

/// The maximum number of bytes that are read at once. The rest is read the next time.
const READ_MAX: usize = 4 << 20;
/// The maximum length of an incomplete line in bytes. A longer one is discarded.
const LINE_MAX: usize = 1 << 20;

/// The stream that the program writes its lines to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Stdout,
    Stderr,
}

/// A running program whose output is read. It is killed when this is dropped.
pub(super) struct Follow {
    child: Child,
    output: Pipe,
    rest: Vec<u8>,
    ended: bool,
}

enum Pipe {
    Stdout(std::process::ChildStdout),
    Stderr(std::process::ChildStderr),
}

impl AsFd for Pipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Stdout(pipe) => pipe.as_fd(),
            Self::Stderr(pipe) => pipe.as_fd(),
        }
    }
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Stdout(pipe) => pipe.read(buffer),
            Self::Stderr(pipe) => pipe.read(buffer),
        }
    }
}

impl Follow {
    /// Starts the program.
    #[expect(
        clippy::disallowed_methods,
        reason = "the daemon reads the program's output while it runs"
    )]
    pub(super) fn start(program: &str, words: &[&str], output: Output) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{program}: {error}");
        let path = process::which(program);
        let path = path.ok_or_else(|| format!("{program} is not installed."))?;
        let mut command = Command::new(path);
        command
            .args(words)
            .env("LC_ALL", "C")
            .stdin(process::nowhere())
            .stdout(process::nowhere())
            .stderr(process::nowhere());
        match output {
            Output::Stdout => command.stdout(Stdio::piped()),
            Output::Stderr => command.stderr(Stdio::piped()),
        };
        let mut child = command.spawn().map_err(failed)?;
        let pipe = child.stdout.take().map(Pipe::Stdout);
        let pipe = pipe.or_else(|| child.stderr.take().map(Pipe::Stderr));
        let Some(pipe) = pipe else {
            return Err(format!("cannot read the output of {program}"));
        };
        let mut follow = Self {
            child,
            output: pipe,
            rest: Vec::new(),
            ended: false,
        };
        let set = rustix::fs::fcntl_setfl(&follow.output, OFlags::NONBLOCK);
        if let Err(error) = set {
            follow.ended = true;
            return Err(failed(error.into()));
        }
        Ok(follow)
    }

    /// Returns the complete lines that have arrived.
    pub(super) fn lines(&mut self) -> Vec<String> {
        let mut buffer = [0; 8192];
        let mut read = 0;
        while read < READ_MAX {
            match self.output.read(&mut buffer) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(count) => {
                    read += count;
                    self.rest
                        .extend_from_slice(buffer.get(..count).unwrap_or_default());
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.ended = true;
                    break;
                }
            }
        }
        self.take_complete_lines()
    }

    fn take_complete_lines(&mut self) -> Vec<String> {
        let Some(last) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            if self.rest.len() > LINE_MAX {
                self.rest.clear();
            }
            return Vec::new();
        };
        let rest = self.rest.split_off(last + 1);
        let whole = std::mem::replace(&mut self.rest, rest);
        let text = String::from_utf8_lossy(&whole);
        text.lines().map(str::to_owned).collect()
    }

    /// Returns true if the program has ended and all its output was read.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        process::kill(&mut self.child);
    }
}
