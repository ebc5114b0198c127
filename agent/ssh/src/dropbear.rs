//! Dropbear's client `dbclient`, as far as it differs from OpenSSH's `ssh`: it knows fewer options,
//! reads only keys in another format, and asks questions where `ssh` fails.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::output::Question;
use crate::program::{KEEPALIVE_S, Settings};
use crate::roster::Host;

/// The first bytes of a private key in a format that only OpenSSH reads.
const OPENSSH_KEY: &[u8] = b"-----BEGIN ";

/// Returns whether the program can be kept from asking for passwords (version 2024.84 and later).
#[expect(
    clippy::disallowed_methods,
    reason = "the ssh program is a channel, and no command of a module"
)]
pub(crate) fn has_batch_mode(program: &str) -> bool {
    let help = Command::new(program)
        .args(["-o", "help"])
        .stdin(Stdio::null())
        .output();
    help.is_ok_and(|help| String::from_utf8_lossy(&help.stderr).contains("BatchMode"))
}

/// Returns the words of a command line, up to the host's port and name.
///
/// # Errors
/// When the host needs something that dropbear's client does not have.
pub(crate) fn words(
    settings: &Settings,
    host: &Host,
    has_batch_mode: bool,
) -> io::Result<Vec<String>> {
    let passwords = host.passwd.is_some() || host.priv_passwd.is_some();
    let options = !host.options.is_empty() || !settings.options.is_empty();
    let needs = [
        ("passwords", passwords),
        ("host_key", host.host_key.is_some()),
        ("ssh_options", options),
    ];
    if let Some((name, _)) = needs.iter().find(|(_, needed)| *needed) {
        return Err(io::Error::other(format!(
            "only the ssh program of OpenSSH knows {name}, but this machine has dropbear's"
        )));
    }
    let mut words = Vec::new();
    if let Some(key) = host.key.as_ref().or(settings.key.as_ref()) {
        check_format(key)?;
        words.extend(["-i".to_owned(), key.display().to_string()]);
    }
    let interval = host.keepalive_interval.unwrap_or(KEEPALIVE_S);
    words.extend(["-K".to_owned(), interval.to_string()]);
    if has_batch_mode {
        words.extend(["-o".to_owned(), "BatchMode=yes".to_owned()]);
    }
    let accepts = match (settings.checks_no_keys, settings.accepts_unknown) {
        (true, _) => 2,
        (false, true) => 1,
        (false, false) => 0,
    };
    words.extend(std::iter::repeat_n("-y".to_owned(), accepts));
    Ok(words)
}

/// Checks that a key is not in the format of OpenSSH, which the program rejects with "String too
/// long".
fn check_format(key: &Path) -> io::Result<()> {
    let mut start = [0; OPENSSH_KEY.len()];
    // The program itself says that a key cannot be read.
    let read = File::open(key).and_then(|mut file| file.read_exact(&mut start));
    if read.is_err() || start != OPENSSH_KEY {
        return Ok(());
    }
    let key = key.display();
    Err(io::Error::other(format!(
        "dropbear's ssh program cannot read the key {key} of OpenSSH: make another one by `dropbearkey -t ed25519 -f FILE`, or convert it by `dropbearconvert openssh dropbear {key} FILE`, and set priv or ssh_priv to FILE"
    )))
}

/// Returns the questions that the program asks before it is connected.
pub(crate) fn questions(host: &Host) -> Vec<Question> {
    let user = host.user.as_deref().unwrap_or("root");
    let key = Question {
        asks: "Do you want to continue connecting? (y/n) ".to_owned(),
        means: "Host key verification failed: accept the key by -i, or add it to ~/.ssh/known_hosts",
    };
    let password = Question {
        asks: format!("{user}@{}'s password: ", host.host),
        means: "Permission denied: the host does not know the key (`dropbearkey -y -f KEY` prints what its authorized_keys must contain)",
    };
    vec![key, password]
}

/// Returns whether the program has lost or not made the connection, by its messages.
pub(crate) fn is_lost(code: Option<i32>, err: &str) -> bool {
    let is_reason = |line: &str| line.contains(": Connection to ") && line.contains(" exited: ");
    code == Some(1) && err.lines().any(is_reason)
}

/// Returns whether a line of the program's messages is no reason of a failure.
pub(crate) fn is_noise(line: &str) -> bool {
    let is_name = line.starts_with('/') && line.ends_with(':') && !line.contains(' ');
    is_name
        || line.contains(": Caution, skipping hostkey check for ")
        || (line.starts_with("Host '") && line.ends_with("key accepted unconditionally."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_differs_from_a_command_that_failed() {
        let refused = "dbclient: Connection to root@web1:22 exited: Connect failed: refused\n";
        assert!(is_lost(Some(1), &format!("\n{refused}")));
        assert!(!is_lost(Some(1), "sh: not found\n"));
        assert!(!is_lost(Some(3), refused));
        assert!(!is_lost(None, refused));
    }

    #[test]
    fn only_keys_of_openssh_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("key");
        assert!(check_format(&key).is_ok());
        std::fs::write(&key, "\0\0\0\x0bssh-ed25519\0\0\0@").unwrap();
        assert!(check_format(&key).is_ok());
        std::fs::write(&key, "-----BEGIN OPENSSH PRIVATE KEY-----\n").unwrap();
        let error = check_format(&key).unwrap_err().to_string();
        assert!(error.contains("dropbearconvert"), "{error}");
    }
}
