//! [`Objects`]: a git process that says whether commits have files, so that only the files of commits
//! that are used are written to folders.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout};

use state::module::Error;

use super::program::Git;

/// The maximum length of an answer in bytes.
const ANSWER_MAX: u64 = 16 << 10;

/// The process. It ends with this value.
#[derive(Debug)]
pub(super) struct Objects {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Drop for Objects {
    fn drop(&mut self) {
        machine::process::kill(&mut self.child);
    }
}

impl Objects {
    /// Starts the process.
    ///
    /// # Errors
    /// When git cannot be started.
    pub(super) fn start(git: &Git<'_>) -> Result<Self, Error> {
        let words = ["cat-file", "--batch-check", "--follow-symlinks"];
        let mut child = git.started(&words)?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(questions), Some(answers)) = pipes else {
            return Err("git has no pipes".into());
        };
        Ok(Self {
            child,
            questions,
            answers: BufReader::new(answers),
        })
    }

    /// Returns whether a commit has a file with this path. Links in the commit are followed.
    ///
    /// # Errors
    /// When git has ended.
    pub(super) fn has(&mut self, commit: &str, path: &str) -> io::Result<bool> {
        if path.contains('\n') {
            return Ok(false);
        }
        writeln!(self.questions, "{commit}:{path}")?;
        let answer = self.line()?;
        let last = answer.rsplit(' ').next().unwrap_or_default();
        if last == "missing" {
            return Ok(false);
        }
        // A link that leads nowhere or out of the commit: the next line is its target.
        let first = answer.split(' ').next().unwrap_or_default();
        if ["dangling", "loop", "notdir", "symlink"].contains(&first) {
            self.line()?;
            return Ok(false);
        }
        Ok(true)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut bytes = Vec::new();
        // No deadline: the process reads only files of this machine.
        let mut limited = Read::take(&mut self.answers, ANSWER_MAX);
        limited.read_until(b'\n', &mut bytes)?;
        match bytes.pop() {
            Some(b'\n') => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
