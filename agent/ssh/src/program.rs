//! The program `ssh` of OpenSSH or dropbear, and what it runs on a host.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use machine::{durable, process};

use crate::askpass::Answerer;
use crate::dropbear;
use crate::output::{self, Output, Question};
use crate::roster::Host;

/// The default of `keepalive_interval`, in seconds.
pub(crate) const KEEPALIVE_S: u32 = 20;
/// The exit code of OpenSSH's program when the connection failed.
const CONNECTION_FAILED: i32 = 255;

/// The implementation of the ssh program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// `ssh` of OpenSSH.
    OpenSsh,
    /// `dbclient` of dropbear, or its `ssh`. It knows fewer options.
    Dropbear {
        /// True if it can be kept from asking for passwords.
        has_batch_mode: bool,
    },
}

impl Client {
    /// Finds the program and its path: `ssh`, or else `dbclient`. The `ssh` of OpenWrt is a link to
    /// dropbear.
    #[must_use]
    pub fn find() -> Option<(Self, String)> {
        let path = process::which("ssh").or_else(|| process::which("dbclient"))?;
        let real = std::fs::canonicalize(&path).unwrap_or_else(|_| (&path).into());
        let name = real.file_name().unwrap_or_default().to_string_lossy();
        let client = match name.starts_with("dropbear") || name == "dbclient" {
            true => Self::Dropbear {
                has_batch_mode: dropbear::has_batch_mode(&path),
            },
            false => Self::OpenSsh,
        };
        Some((client, path))
    }
}

/// The settings of connections.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The ssh program, and its path; `None` if there is none.
    pub client: Option<(Client, String)>,
    /// The folder of the sockets over which commands share a connection and the ssh program gets
    /// passwords. Only its owner can read it. `None` if there is no such folder.
    pub sockets: Option<PathBuf>,
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

/// The ssh program, ready to run a command on a host.
#[derive(Debug)]
pub struct Prepared {
    /// The command line.
    pub command: Command,
    /// The bytes that its input begins with: the password of `sudo`.
    pub preamble: Vec<u8>,
    /// Answers the ssh program's questions for passwords until it has ended.
    pub answerer: Option<Answerer>,
    questions: Vec<Question>,
}

impl Settings {
    /// Prepares the command that runs a line of `sh` on a host. The line contains no single quotes,
    /// because the login shell of the user may be any shell.
    ///
    /// # Errors
    /// When a password is needed and there is no folder for its socket.
    pub fn command(&self, host: &Host, line: &str) -> io::Result<Prepared> {
        let mut script = String::new();
        if let Some(path) = &host.set_path {
            script += &format!("PATH=\"{path}\"; export PATH; ");
        }
        if let Some(umask) = host.cmd_umask {
            script += &format!("umask {umask:04o}; ");
        }
        let words = format!(
            "exec {}/bin/sh -c '{}{script}{line}'",
            elevated(host),
            skip(host)
        );
        self.prepared(host, "-T", &words)
    }

    /// Prepares the command that runs a user's own line on a host.
    ///
    /// # Errors
    /// As [`Settings::command`].
    pub fn raw_command(&self, host: &Host, line: &str) -> io::Result<Prepared> {
        let terminal = if host.tty { "-tt" } else { "-T" };
        if !host.sudo {
            return self.prepared(host, terminal, line);
        }
        let line = quoted(&format!("{}{line}", skip(host)));
        let words = format!("exec {}/bin/sh -c {line}", elevated(host));
        self.prepared(host, terminal, &words)
    }

    fn prepared(&self, host: &Host, terminal: &str, words: &str) -> io::Result<Prepared> {
        let mut command = self.connection(host, terminal)?;
        command.arg(words);
        let answerer = match host.passwd.is_some() || host.priv_passwd.is_some() {
            true => Some(Answerer::start(self.folder()?, host)?),
            false => None,
        };
        if let Some(answerer) = &answerer {
            answerer.give_to(&mut command);
        }
        let preamble = match host.passwd.as_ref().filter(|_| host.sudo) {
            Some(passwd) => format!("{}\n{MARK}\n", passwd.reveal()).into_bytes(),
            None => Vec::new(),
        };
        let questions = match self.client {
            Some((Client::Dropbear { .. }, _)) => dropbear::questions(host),
            _ => Vec::new(),
        };
        Ok(Prepared {
            command,
            preamble,
            answerer,
            questions,
        })
    }

    fn folder(&self) -> io::Result<&Path> {
        self.sockets.as_deref().ok_or_else(|| {
            io::Error::other("passwords and host_key need the folder ssh in cachedir, which must belong to this user and have a short path")
        })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the ssh program is a channel, and no command of a module"
    )]
    fn connection(&self, host: &Host, terminal: &str) -> io::Result<Command> {
        let (client, program) = self.client.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let mut command = Command::new(program);
        command.arg(terminal);
        match client {
            Client::OpenSsh => {
                if let Some(file) = &host.ssh_config {
                    command.arg("-F").arg(file);
                }
                for option in self.options(host)? {
                    command.arg("-o").arg(option);
                }
            }
            Client::Dropbear { has_batch_mode } => {
                command.args(dropbear::words(self, host, *has_batch_mode)?);
            }
        }
        for forward in &host.remote_port_forwards {
            command.arg("-R").arg(forward);
        }
        if let Some(port) = host.port {
            command.arg("-p").arg(port.to_string());
        }
        if let Some(user) = &host.user {
            command.arg("-l").arg(user);
        }
        if *client == Client::OpenSsh {
            command.arg("--");
        }
        command.arg(&host.host);
        Ok(command)
    }

    /// Returns whether the ssh program has lost or not made the connection, by its exit code and
    /// messages.
    #[must_use]
    pub fn is_lost(&self, code: Option<i32>, err: &str) -> bool {
        let is_dropbear = matches!(self.client, Some((Client::Dropbear { .. }, _)));
        code == Some(CONNECTION_FAILED) || (is_dropbear && dropbear::is_lost(code, err))
    }

    fn options(&self, host: &Host) -> io::Result<Vec<String>> {
        let mut options = Vec::new();
        match host.passwd.is_some() || host.priv_passwd.is_some() {
            true => options.push("NumberOfPasswordPrompts=1".to_owned()),
            false => options.push("BatchMode=yes".to_owned()),
        }
        let timeout = host.timeout.unwrap_or(self.timeout);
        options.push(format!("ConnectTimeout={}", timeout.as_secs().max(1)));
        // A lost link is noticed within a minute.
        let interval = host.keepalive_interval.unwrap_or(KEEPALIVE_S);
        options.push(format!("ServerAliveInterval={interval}"));
        let count = host.keepalive_count_max.unwrap_or(3);
        options.push(format!("ServerAliveCountMax={count}"));
        if let Some(folder) = self.sockets.as_ref().filter(|_| !self.persist.is_zero()) {
            options.push("ControlMaster=auto".to_owned());
            options.push(format!("ControlPath={}/ssh-%C", folder.display()));
            options.push(format!("ControlPersist={}", self.persist.as_secs()));
        }
        if let Some(key) = host.key.as_ref().or(self.key.as_ref()) {
            options.push(format!("IdentityFile={}", key.display()));
        }
        if host.identities_only {
            options.push("IdentitiesOnly=yes".to_owned());
        }
        options.extend(self.checks_of_key(host)?);
        // The first value of an option counts.
        options.extend(host.options.iter().cloned());
        options.extend(self.options.iter().cloned());
        Ok(options)
    }

    /// Returns the options that say which keys of the host are accepted.
    fn checks_of_key(&self, host: &Host) -> io::Result<Vec<String>> {
        if let Some(key) = &host.host_key {
            let folder = self.folder()?;
            let name = format!("{}.known", host.id);
            let line = format!("{} {key}\n", host.id);
            durable::write(folder, &name, line.as_bytes())?;
            return Ok(vec![
                format!("HostKeyAlias={}", host.id),
                format!("UserKnownHostsFile={}", folder.join(name).display()),
                "GlobalKnownHostsFile=/dev/null".to_owned(),
                "StrictHostKeyChecking=yes".to_owned(),
            ]);
        }
        Ok(match (self.checks_no_keys, self.accepts_unknown) {
            (true, _) => vec![
                "StrictHostKeyChecking=no".to_owned(),
                "UserKnownHostsFile=/dev/null".to_owned(),
            ],
            (false, true) => vec!["StrictHostKeyChecking=accept-new".to_owned()],
            (false, false) => Vec::new(),
        })
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
        Self::run_command(self.command(host, line)?, input, most).await
    }

    /// Runs a command of [`Settings::command`] or [`Settings::raw_command`].
    ///
    /// # Errors
    /// As [`Settings::run`].
    pub async fn run_command(
        prepared: Prepared,
        input: &[u8],
        most: Duration,
    ) -> io::Result<Output> {
        let command = smol::process::Command::from(prepared.command);
        let input = [&prepared.preamble, input];
        let done = output::answered(command, &input, most, &prepared.questions).await;
        drop(prepared.answerer);
        done
    }
}

/// Returns a text as one word of a shell.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The line after the password of `sudo`.
const MARK: &str = "pinch-begins";

/// Returns the prefix of a command that runs as another user.
fn elevated(host: &Host) -> String {
    let asks = match host.passwd {
        Some(_) => "-S -p \"\"",
        None => "-n",
    };
    match (&host.sudo_user, host.sudo) {
        (Some(user), _) => format!("sudo {asks} -u {user} -- "),
        (None, true) => format!("sudo {asks} -- "),
        (None, false) => String::new(),
    }
}

/// Returns the beginning of a script that skips the password. `sudo` reads it only if it needs one.
fn skip(host: &Host) -> String {
    match host.sudo && host.passwd.is_some() {
        true => format!("read -r x; [ \"$x\" = {MARK} ] || read -r x; "),
        false => String::new(),
    }
}
