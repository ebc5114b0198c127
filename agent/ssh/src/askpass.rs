//! Passwords for the ssh program, which asks a program for them (`SSH_ASKPASS`): this one, in another
//! process. It connects to a socket of the caller, so that no password is in an argument, in the
//! environment or in a file.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cli::failure::{Exit, Failure};
use smol::future::FutureExt;
use smol::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use smol::net::unix::UnixListener;
use value::{channel, log, remove};

use crate::roster::{Host, Secret};

/// The environment variable with the path of the socket. A process that has it answers the ssh
/// program's question.
pub const SOCKET: &str = "PINCH_SSH_ASKPASS";
/// The maximum length of a question or an answer in bytes.
const LINE_MAX: u64 = 8 << 10;
/// The maximum time of a question.
const WAIT: Duration = Duration::from_secs(10);

/// The socket at which the passwords of a host are given to the ssh program. It is removed with this
/// value.
#[derive(Debug)]
pub struct Answerer {
    path: PathBuf,
    _task: smol::Task<()>,
}

impl Drop for Answerer {
    #[expect(
        clippy::disallowed_methods,
        reason = "the socket belongs to this value"
    )]
    fn drop(&mut self) {
        remove::or_log(&self.path, std::fs::remove_file(&self.path));
    }
}

impl Answerer {
    /// Listens in a folder that only its owner can read.
    ///
    /// # Errors
    /// When the socket cannot be created.
    pub(crate) fn start(folder: &Path, host: &Host) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("ask-{}-{number}", std::process::id()));
        let listener = UnixListener::bind(&path)?;
        let (passwd, passphrase) = (host.passwd.clone(), host.priv_passwd.clone());
        let task = smol::spawn(async move {
            // No deadline: the task ends with the command.
            while let Ok((stream, _)) = listener.accept().await {
                let answered = answered(stream, passwd.as_ref(), passphrase.as_ref());
                let late = async {
                    smol::Timer::after(WAIT).await;
                    Err(io::ErrorKind::TimedOut.into())
                };
                if let Err(error) = answered.or(late).await {
                    log::debug(format_args!("cannot give a password to ssh: {error}"));
                }
            }
        });
        Ok(Self { path, _task: task })
    }

    /// Makes a command ask at this socket.
    pub(crate) fn give_to(&self, command: &mut Command) {
        command
            .env(SOCKET, &self.path)
            .env("SSH_ASKPASS", format!("/proc/{}/exe", std::process::id()))
            .env("SSH_ASKPASS_REQUIRE", "force");
        // Versions of OpenSSH before 8.4 ask a program only if there is a display.
        if std::env::var_os("DISPLAY").is_none() {
            command.env("DISPLAY", ":0");
        }
    }
}

async fn answered(
    mut stream: smol::net::unix::UnixStream,
    passwd: Option<&Secret>,
    passphrase: Option<&Secret>,
) -> io::Result<()> {
    let mut question = String::new();
    let mut limited = smol::io::BufReader::new(&mut stream).take(LINE_MAX);
    limited.read_line(&mut question).await?;
    let question = question.to_lowercase();
    // Other questions, such as the one about an unknown host key, get no answer.
    let secret = match () {
        () if question.contains("passphrase") => passphrase,
        () if question.contains("password") => passwd,
        () => None,
    };
    if let Some(secret) = secret {
        stream.write_all(secret.reveal().as_bytes()).await?;
    }
    Ok(())
}

/// Answers a question of the ssh program, which has started this process: asks at the socket, and
/// prints the answer.
///
/// # Errors
/// When there is no answer.
pub fn run(socket: OsString, question: &[String]) -> Result<ExitCode, Failure> {
    let failed = |error: io::Error| Failure::new(Exit::Generic, error);
    let mut stream = UnixStream::connect(Path::new(&socket)).map_err(failed)?;
    stream.set_read_timeout(Some(WAIT)).map_err(failed)?;
    let question = question.join(" ").replace('\n', " ");
    writeln!(stream, "{question}").map_err(failed)?;
    let mut answer = String::new();
    let read = BufReader::new(&stream)
        .take(LINE_MAX)
        .read_line(&mut answer);
    read.map_err(failed)?;
    if answer.is_empty() {
        return Ok(Exit::Generic.into());
    }
    channel::if_open(writeln!(io::stdout(), "{answer}"));
    Ok(Exit::Ok.into())
}
