//! The program `ssh` of OpenSSH or dropbear, and what it runs on a host.

use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use smol::future::FutureExt;
use smol::io::{AsyncReadExt, AsyncWriteExt};

use crate::roster::Host;

/// The maximum size of the output of a command on a host, in bytes.
const OUTPUT_MAX: u64 = 64 << 10;
/// The exit code of the ssh program when the connection failed.
pub const CONNECTION_FAILED: i32 = 255;

/// The settings of connections.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder of the sockets over which commands share a connection. Only its owner may read
    /// it.
    pub sockets: PathBuf,
    /// The time for which a shared connection stays open without commands. Zero shares none.
    pub persist: Duration,
    /// The maximum time to connect, for hosts whose entry has none.
    pub timeout: Duration,
    /// The time for a job to end after its connection is lost; `None` if it continues.
    pub grace: Option<Duration>,
    /// The key for hosts whose entry has none.
    pub key: Option<PathBuf>,
    /// More options of OpenSSH for all hosts: `Name=value`.
    pub options: Vec<String>,
    /// True to accept any host key of an unknown host (`-i`).
    pub accepts_unknown: bool,
    /// True to check no host keys (`--no-host-keys`).
    pub checks_no_keys: bool,
}

/// The result of a command on a host.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// The exit code; `None` if a signal ended the ssh program.
    pub code: Option<i32>,
    /// The text on stdout.
    pub out: String,
    /// The text on stderr.
    pub err: String,
}

impl Settings {
    /// Returns the command that runs a line of `sh` on a host. The line contains no single quotes,
    /// because the login shell of the user may be any shell.
    #[must_use]
    pub fn command(&self, host: &Host, line: &str) -> Command {
        let mut command = self.connection(host);
        command.arg(format!("exec {}/bin/sh -c '{line}'", elevated(host)));
        command
    }

    /// Returns the command that runs a user's own line on a host.
    #[must_use]
    pub fn raw_command(&self, host: &Host, line: &str) -> Command {
        let mut command = self.connection(host);
        command.arg(format!("{}{line}", elevated(host)));
        command
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the ssh program is a channel, and no command of a module"
    )]
    fn connection(&self, host: &Host) -> Command {
        let mut command = Command::new("ssh");
        command.arg("-T").args(self.options(host));
        if let Some(port) = host.port {
            command.arg("-p").arg(port.to_string());
        }
        if let Some(user) = &host.user {
            command.arg("-l").arg(user);
        }
        command.arg("--").arg(&host.host);
        command
    }

    fn options(&self, host: &Host) -> Vec<String> {
        let mut options = vec!["BatchMode=yes".to_owned()];
        let timeout = host.timeout.unwrap_or(self.timeout);
        options.push(format!("ConnectTimeout={}", timeout.as_secs().max(1)));
        // A lost link is noticed within a minute.
        options.push("ServerAliveInterval=20".to_owned());
        options.push("ServerAliveCountMax=3".to_owned());
        if !self.persist.is_zero() {
            options.push("ControlMaster=auto".to_owned());
            options.push(format!("ControlPath={}/ssh-%C", self.sockets.display()));
            options.push(format!("ControlPersist={}", self.persist.as_secs()));
        }
        if let Some(key) = host.key.as_ref().or(self.key.as_ref()) {
            options.push(format!("IdentityFile={}", key.display()));
        }
        if host.identities_only {
            options.push("IdentitiesOnly=yes".to_owned());
        }
        if self.checks_no_keys {
            options.push("StrictHostKeyChecking=no".to_owned());
            options.push("UserKnownHostsFile=/dev/null".to_owned());
        } else if self.accepts_unknown {
            options.push("StrictHostKeyChecking=accept-new".to_owned());
        }
        // The first value of an option counts.
        options.extend(host.options.iter().cloned());
        options.extend(self.options.iter().cloned());
        options
            .into_iter()
            .flat_map(|option| ["-o".to_owned(), option])
            .collect()
    }

    /// Runs a line of `sh` on a host, with this input.
    ///
    /// # Errors
    /// When the ssh program cannot be started, or the command takes longer than `most`.
    pub async fn run(
        &self,
        host: &Host,
        line: &str,
        input: &[u8],
        most: Duration,
    ) -> io::Result<Output> {
        Self::run_command(self.command(host, line), input, most).await
    }

    /// Runs a command of [`Settings::command`] or [`Settings::raw_command`].
    ///
    /// # Errors
    /// As [`Settings::run`].
    pub async fn run_command(command: Command, input: &[u8], most: Duration) -> io::Result<Output> {
        let mut command = smol::process::Command::from(command);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let work = async {
            let write = async {
                if let Some(mut stdin) = stdin {
                    // A host that does not read all of its input says why on stderr.
                    match stdin.write_all(input).await {
                        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                            return Err(error);
                        }
                        _ => {}
                    }
                }
                Ok(())
            };
            let read = smol::future::zip(read(stdout), read(stderr));
            let (written, (out, err)) = smol::future::zip(write, read).await;
            written?;
            Ok(Output {
                out: out?,
                err: err?,
                code: child.status().await?.code(),
            })
        };
        let late = async {
            smol::Timer::after(most).await;
            Err(io::ErrorKind::TimedOut.into())
        };
        work.or(late).await
    }
}

/// Reads a stream to its end, and keeps its first bytes.
async fn read(stream: Option<impl smol::io::AsyncRead + Unpin>) -> io::Result<String> {
    let mut kept = Vec::new();
    if let Some(stream) = stream {
        let mut limited = stream.take(OUTPUT_MAX);
        limited.read_to_end(&mut kept).await?;
    }
    Ok(String::from_utf8_lossy(&kept).into_owned())
}

/// Returns the prefix of a command that runs as another user.
fn elevated(host: &Host) -> String {
    match (&host.sudo_user, host.sudo) {
        (Some(user), _) => format!("sudo -n -u {user} -- "),
        (None, true) => "sudo -n -- ".to_owned(),
        (None, false) => String::new(),
    }
}
