//! The key of `salt-ssh`: made when it is needed, and added to the authorized keys of a host, which
//! is reached by a password.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use machine::fs;
use smol::process::Command;

use crate::fault::Fault;
use crate::output::{self, reason};
use crate::program::Settings;
use crate::roster::Host;

/// The maximum time to add a key to a host, in addition to that of the connection, and to make one.
const MOST: Duration = Duration::from_secs(60);

/// The line of `sh` that adds its input to the authorized keys of the user.
const SCRIPT: &str = concat!(
    r#"umask 077; k=$(cat); d="$HOME/.ssh"; f="$d/authorized_keys"; mkdir -p "$d" || exit 1; "#,
    r#"grep -qxF "$k" "$f" 2>/dev/null && exit 0; "#,
    r#"[ -s "$f" ] && [ -n "$(tail -c 1 "$f")" ] && echo >>"$f"; echo "$k" >>"$f""#
);

/// Makes a key if there is none.
///
/// # Errors
/// When it cannot be made.
pub(crate) async fn made(key: &Path) -> Result<(), String> {
    if key.exists() {
        return Ok(());
    }
    let failed =
        |error: &dyn std::fmt::Display| format!("cannot make the key {}: {error}", key.display());
    if let Some(folder) = key.parent() {
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(folder);
        made.map_err(|error| failed(&error))?;
    }
    let mut keygen = Command::new("ssh-keygen");
    keygen
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "salt-ssh", "-f"])
        .arg(key);
    let done = output::of(keygen, &[], MOST).await;
    let done = done.map_err(|error| failed(&error))?;
    match done.code {
        Some(0) => Ok(()),
        _ => Err(failed(&done.err.trim())),
    }
}

/// Adds the public half of a key to the authorized keys of a host's user.
///
/// # Errors
/// When the host cannot be reached by its password, or the key cannot be written there.
pub(crate) async fn deploy(settings: &Settings, host: &Host, key: &Path) -> Result<(), Fault> {
    let failed = |text: String| Fault::placing(format!("cannot deploy the key: {text}"));
    let mut public = key.as_os_str().to_owned();
    public.push(".pub");
    let public = PathBuf::from(public);
    let text =
        fs::text(&public).map_err(|error| failed(format!("{}: {error}", public.display())))?;
    // The key belongs to the user who logs in.
    let login = Host {
        sudo: false,
        sudo_user: None,
        ..host.clone()
    };
    let done = settings
        .run(
            &login,
            SCRIPT,
            text.trim().as_bytes(),
            MOST + settings.timeout,
        )
        .await;
    let done = done.map_err(|error| failed(error.to_string()))?;
    match done.code {
        Some(0) => Ok(()),
        _ => Err(failed(reason(&done))),
    }
}
