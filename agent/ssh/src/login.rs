//! Prompts for passwords and for the deployment of keys: `--askpass` and `--key-deploy`.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::path::PathBuf;

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use state::exec::Exec;

use crate::authorize;
use crate::roster::{Host, Secret};
use crate::settings;

/// The maximum length of an answer in bytes.
const ANSWER_MAX: u64 = 4096;

/// The choices of a call about logins.
#[derive(Clone, Debug, Default)]
pub(crate) struct Login {
    /// The key to add to the hosts first.
    pub(crate) deploys: Option<PathBuf>,
}

impl Login {
    /// Asks for the password, and makes the key, if the call says so.
    ///
    /// # Errors
    /// When there is no terminal, or a host lacks a password.
    pub(crate) fn prepare(cx: &Exec, hosts: &mut [Host]) -> Result<Self, String> {
        let opts = cx.opts();
        if opts.flag("ssh_askpass") {
            let password = ask("Password: ", false)
                .map_err(|error| format!("cannot ask for a password: {error}"))?;
            let secret = Secret::new(password);
            for host in hosts.iter_mut() {
                host.passwd.get_or_insert_with(|| secret.clone());
            }
        }
        let login = Self {
            deploys: opts.flag("ssh_key_deploy").then(|| settings::own_key(opts)),
        };
        if login.deploys.is_some()
            && let Some(host) = hosts.iter().find(|host| host.passwd.is_none())
        {
            return Err(format!(
                "--key-deploy needs the password of {}: use --askpass, or passwd in the roster",
                host.id
            ));
        }
        login.make_key()?;
        Ok(login)
    }

    /// Makes the key that is deployed, if there is none.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn make_key(&self) -> Result<(), String> {
        match &self.deploys {
            Some(key) => smol::block_on(authorize::made(key)),
            None => Ok(()),
        }
    }

    /// Offers to deploy the key to a host. Returns the host with its password if the user agrees.
    pub(crate) fn offered(&self, host: &Host) -> Option<Host> {
        if self.deploys.is_some() || host.passwd.is_some() || !io::stdin().is_terminal() {
            return None;
        }
        let question = format!(
            "Permission denied for host {}, do you want to deploy the salt-ssh key? (password required):\n[Y/n] ",
            host.id
        );
        let answer = ask(&question, true).ok()?.to_lowercase();
        if !matches!(answer.as_str(), "" | "y" | "yes") {
            return None;
        }
        let user = host.user.as_deref().unwrap_or("root");
        let password = ask(&format!("Password for {user}@{}: ", host.id), false).ok()?;
        Some(Host {
            passwd: Some(Secret::new(password)),
            ..host.clone()
        })
    }
}

/// Asks on the terminal, and returns the line of the answer.
///
/// # Errors
/// When there is no terminal.
pub fn ask(question: &str, echoes: bool) -> io::Result<String> {
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    if echoes {
        write!(terminal, "{question}")?;
        return line(&terminal);
    }
    // An answer may arrive as soon as the question has appeared.
    let before = tcgetattr(&terminal)?;
    let mut quiet = before.clone();
    quiet.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&terminal, OptionalActions::Flush, &quiet)?;
    let answer = write!(terminal, "{question}").and_then(|()| line(&terminal));
    tcsetattr(&terminal, OptionalActions::Flush, &before)?;
    writeln!(terminal)?;
    answer
}

fn line(terminal: &File) -> io::Result<String> {
    let mut answer = String::new();
    BufReader::new(terminal.take(ANSWER_MAX)).read_line(&mut answer)?;
    Ok(answer.trim_end_matches(['\n', '\r']).to_owned())
}
