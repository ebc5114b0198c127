//! [`Output`]: the outcome of a program that has run with an input and a deadline.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use smol::future::FutureExt;
use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::process::Command;

/// The maximum size of the output of a command on a host, in bytes.
const OUTPUT_MAX: u64 = 16 << 20;

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

/// Runs a program with an input.
///
/// # Errors
/// When it cannot be started, takes too long, or prints too much.
pub(crate) async fn of(command: Command, input: &[&[u8]], most: Duration) -> io::Result<Output> {
    let done = bytes(command, input, most).await?;
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
pub(crate) async fn bytes(
    mut command: Command,
    input: &[&[u8]],
    most: Duration,
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
        // The first error ends the command.
        let read = smol::future::try_zip(read(stdout), read(stderr));
        let ((), (out, err)) = smol::future::try_zip(write, read).await?;
        let code = child.status().await?.code();
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

/// Reads a stream to its end.
///
/// # Errors
/// When it is too large.
async fn read(stream: Option<impl smol::io::AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    if let Some(stream) = stream {
        stream.take(OUTPUT_MAX + 1).read_to_end(&mut kept).await?;
    }
    if kept.len() as u64 > OUTPUT_MAX {
        return Err(io::Error::other(format!(
            "the output has more than {} MiB",
            OUTPUT_MAX >> 20
        )));
    }
    Ok(kept)
}

/// Returns the reason that the ssh program or the host's shell has printed.
#[must_use]
pub fn reason(done: &Output) -> String {
    let noise = |line: &&str| {
        line.is_empty() || line.starts_with("Warning: Permanently added") || line.starts_with("** ")
    };
    let lines = done.err.lines().map(str::trim_end);
    let said: Vec<&str> = lines.filter(|line| !noise(line)).take(20).collect();
    match (said.is_empty(), done.code) {
        (false, _) => said.join("\n"),
        (true, Some(code)) => format!("ssh ended with exit code {code} and without a message"),
        (true, None) => "ssh was ended by a signal".to_owned(),
    }
}
