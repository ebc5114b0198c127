//! [`Output`]: the outcome of a program that has run with an input and a deadline.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use smol::future::FutureExt;
use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::process::Command;

use crate::dropbear;

/// The maximum size of the output of a command on a host, in bytes.
const OUTPUT_MAX: usize = 16 << 20;
/// The size of the pieces in which it is read, in bytes.
const PIECE: usize = 16 << 10;
/// The exit code of a program that has asked a question.
const ASKED: i32 = 255;

/// The outcome of the ssh program, or of another program.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// The exit code; `None` if a signal ended the ssh program.
    pub code: Option<i32>,
    /// The text on stdout.
    pub out: String,
    /// The text on stderr.
    pub err: String,
}

/// A question of the ssh program that has no answer, and ends it.
#[derive(Debug)]
pub(crate) struct Question {
    /// The end of its messages.
    pub(crate) asks: String,
    /// The message instead.
    pub(crate) means: &'static str,
}

impl Question {
    /// Returns the messages without the question.
    fn instead_of(&self, messages: &[u8]) -> Option<Vec<u8>> {
        let before = messages.strip_suffix(self.asks.as_bytes())?;
        Some([before, self.means.as_bytes()].concat())
    }
}

/// Runs a program with an input.
///
/// # Errors
/// When it cannot be started, takes too long, or prints too much.
pub(crate) async fn of(command: Command, input: &[&[u8]], most: Duration) -> io::Result<Output> {
    answered(command, input, most, &[]).await
}

/// Runs a program, as [`of`], which ends as if its connection had failed if it asks a question.
pub(crate) async fn answered(
    command: Command,
    input: &[&[u8]],
    most: Duration,
    questions: &[Question],
) -> io::Result<Output> {
    let done = until(command, input, most, questions).await?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Output {
        code: done.code,
        out: text(done.out),
        err: text(done.err),
    })
}

/// The outcome of a program whose output is no text.
#[derive(Debug)]
pub(crate) struct Bytes {
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    err: Vec<u8>,
}

/// Runs a program with an input, as [`of`].
pub(crate) async fn bytes(command: Command, input: &[&[u8]], most: Duration) -> io::Result<Bytes> {
    until(command, input, most, &[]).await
}

async fn until(
    mut command: Command,
    input: &[&[u8]],
    most: Duration,
    questions: &[Question],
) -> io::Result<Bytes> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let work = async {
        let write = async {
            match stdin {
                Some(stdin) => written(stdin, input).await,
                None => Ok(()),
            }
        };
        let messages = async {
            let err = read(stderr, questions).await?;
            let instead = questions.iter().find_map(|one| one.instead_of(&err));
            if instead.is_some() {
                child.kill()?;
            }
            Ok((instead.is_some(), instead.unwrap_or(err)))
        };
        // The first error ends the command.
        let read = smol::future::try_zip(read(stdout, &[]), messages);
        let ((), (out, (has_asked, err))) = smol::future::try_zip(write, read).await?;
        let code = child.status().await?.code();
        let code = if has_asked { Some(ASKED) } else { code };
        Ok(Bytes { code, out, err })
    };
    let late = async {
        smol::Timer::after(most).await;
        Err(io::ErrorKind::TimedOut.into())
    };
    work.or(late).await
}

/// Writes the input of a command, and closes it.
async fn written(mut stdin: smol::process::ChildStdin, input: &[&[u8]]) -> io::Result<()> {
    for part in input {
        // A host that does not read all of its input says why on stderr.
        match stdin.write_all(part).await {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Reads a stream to its end, or until it asks one of these questions.
///
/// # Errors
/// When it is too large.
async fn read(
    stream: Option<impl smol::io::AsyncRead + Unpin>,
    questions: &[Question],
) -> io::Result<Vec<u8>> {
    let Some(mut stream) = stream else {
        return Ok(Vec::new());
    };
    let (mut kept, mut piece) = (Vec::new(), vec![0; PIECE]);
    // No deadline: the command has one.
    loop {
        let length = stream.read(&mut piece).await?;
        kept.extend_from_slice(piece.get(..length).unwrap_or_default());
        let asks = |question: &Question| kept.ends_with(question.asks.as_bytes());
        if length == 0 || questions.iter().any(asks) {
            return Ok(kept);
        }
        if kept.len() > OUTPUT_MAX {
            return Err(io::Error::other(format!(
                "the output has more than {} MiB",
                OUTPUT_MAX >> 20
            )));
        }
    }
}

/// Returns the reason that the ssh program or the host's shell has printed.
#[must_use]
pub fn reason(done: &Output) -> String {
    let noise = |line: &&str| {
        line.is_empty()
            || line.starts_with("Warning: Permanently added")
            || line.starts_with("** ")
            || dropbear::is_noise(line)
    };
    let lines = done.err.lines().map(str::trim_end);
    let said: Vec<&str> = lines.filter(|line| !noise(line)).take(20).collect();
    match (said.is_empty(), done.code) {
        (false, _) => said.join("\n"),
        (true, Some(code)) => format!("ssh ended with exit code {code} and without a message"),
        (true, None) => "ssh was ended by a signal".to_owned(),
    }
}
