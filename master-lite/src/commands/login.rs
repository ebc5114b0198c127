//! The login of a command: `--eauth`, `--make-token`, and the token of an earlier login.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, Read as _, Write as _};
use std::ops::ControlFlow;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cli::options::LoginOptions;
use machine::accounts;
use rustix::fs::OFlags;
use value::{Map, Value, log};
use wire::{Login, Secret};

use super::command::{env, number};
use super::local_client::{AskError, Master, Socket};

/// The sources that every master has.
const KINDS: [&str; 6] = ["auto", "file", "ldap", "pam", "rest", "sharedsecret"];
/// The maximum length of a file with a token, and of a line with a password, in bytes.
const FILE_MAX: u64 = 1024;
const LINE_MAX: u64 = 8192;
/// The default lifetime of a token in seconds.
const LIFETIME_S: f64 = 43_200.0;

/// The reason why a command has no login.
#[derive(Debug)]
pub(super) enum NoLogin {
    /// The source does not exist. The sentences are Salt's.
    Unknown(String),
    /// There is no name or password.
    Unasked(std::io::Error),
    /// The master refused it.
    Refused(AskError),
}

/// Returns the socket of the master with the login of the command line. A command of root without
/// `--eauth` needs none.
pub(super) fn socket(opts: &Map, asked: &LoginOptions) -> Result<Socket, NoLogin> {
    let socket = Socket::from_opts(opts);
    let path = token_file(opts);
    let token = (!asked.make_token).then(|| stored(&path, opts)).flatten();
    let is_root = rustix::process::geteuid().is_root();
    let login = match (&asked.eauth, token) {
        (None, Some(token)) if !is_root => of_token(token),
        (Some(_), Some(token)) => of_token(token),
        (None, _) => return Ok(socket),
        (Some(eauth), None) => of_password(opts, eauth, asked)?,
    };
    if !asked.make_token {
        return Ok(socket.with_login(login));
    }
    let request = Login {
        mint: true,
        ..login
    };
    let made = socket.ask(request.into(), &mut |_| ControlFlow::Continue(()));
    let made = made.map_err(NoLogin::Refused)?;
    let token = made.get("token").map(Value::to_text).unwrap_or_default();
    if let Err(error) = store(&path, &token) {
        log::error(format_args!("Cannot write {}: {error}", path.display()));
    }
    Ok(socket.with_login(of_token(token)))
}

fn of_token(token: String) -> Login {
    Login {
        eauth: String::new(),
        username: String::new(),
        password: Secret::new(""),
        token: Some(Secret::new(&token)),
        expire_s: None,
        mint: false,
    }
}

/// Asks for the name and the password that the command line does not have.
fn of_password(opts: &Map, eauth: &str, asked: &LoginOptions) -> Result<Login, NoLogin> {
    let configured = opts.get("external_auth").and_then(|all| all.get(eauth));
    if !KINDS.contains(&eauth) && configured.is_none() {
        return Err(NoLogin::Unknown(format!(
            "The specified external authentication system \"{eauth}\" is not available\nAvailable eauth types: {}",
            KINDS.join(", ")
        )));
    }
    let username = match &asked.username {
        Some(name) => name.clone(),
        None => ask("username: ", true).map_err(NoLogin::Unasked)?,
    };
    let username = match username.is_empty() {
        true => own_name(),
        false => username,
    };
    let password = match &asked.password {
        Some(password) => password.clone(),
        None => ask("password: ", false).map_err(NoLogin::Unasked)?,
    };
    Ok(Login {
        eauth: eauth.to_owned(),
        username,
        password: Secret::new(&password),
        token: None,
        expire_s: None,
        mint: false,
    })
}

fn own_name() -> String {
    let uid = rustix::process::geteuid().as_raw();
    accounts::user_of(uid).map_or_else(|| uid.to_string(), |user| user.name)
}

/// Asks on the terminal, or reads a line of the standard input if there is none.
fn ask(question: &str, echoes: bool) -> std::io::Result<String> {
    if let Ok(answer) = ssh::login::ask(question, echoes) {
        return Ok(answer);
    }
    let mut line = String::new();
    let mut input = std::io::stdin().lock().take(LINE_MAX);
    match input.read_line(&mut line)? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line.trim_end_matches(['\n', '\r']).to_owned()),
    }
}

/// Returns the file of the token: `token_file`, or `salt_token` in the user's folder of Salt or home.
fn token_file(opts: &Map) -> PathBuf {
    let home = PathBuf::from(env("HOME").unwrap_or_else(|| "/root".to_owned()));
    let given = opts.get("token_file").map(Value::to_text);
    if let Some(given) = given.filter(|given| !given.is_empty()) {
        return match given.strip_prefix("~/") {
            Some(below) => home.join(below),
            None => given.into(),
        };
    }
    let config = env("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from);
    let own = config.join("salt");
    match own.is_dir() {
        true => own.join("salt_token"),
        false => home.join("salt_token"),
    }
}

/// Returns the token of a file, unless it is missing or too old.
fn stored(path: &Path, opts: &Map) -> Option<String> {
    match read(path, number(opts, "token_expire").unwrap_or(LIFETIME_S)) {
        Ok(token) => token.filter(|token| !token.is_empty()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => {
            log::warning(format_args!("Cannot read {}: {error}", path.display()));
            None
        }
    }
}

fn read(path: &Path, lifetime_s: f64) -> std::io::Result<Option<String>> {
    let file = File::open(path)?;
    let found = file.metadata()?;
    let lifetime = Duration::try_from_secs_f64(lifetime_s).unwrap_or_default();
    let age = SystemTime::now().duration_since(found.modified()?);
    if !found.is_file() || age.is_ok_and(|age| age >= lifetime) {
        return Ok(None);
    }
    let mut text = String::new();
    file.take(FILE_MAX).read_to_string(&mut text)?;
    Ok(Some(text.trim().to_owned()))
}

/// Writes a token into a file that only its user may read.
fn store(path: &Path, token: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let mut file = options.open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    file.write_all(token.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_private_and_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"a longer text than the token").unwrap();
        store(&path, "abc").unwrap();
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(read(&path, 100.0).unwrap(), Some("abc".to_owned()));
        assert_eq!(read(&path, 0.0).unwrap(), None);
        let opts = Map::new().with("token_file", path.display().to_string());
        assert_eq!(token_file(&opts), path);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(store(&link, "x").is_err());
    }

    #[test]
    fn a_source_must_exist() {
        let asked = LoginOptions {
            username: Some("joe".into()),
            password: Some("x".into()),
            ..LoginOptions::default()
        };
        assert!(matches!(
            of_password(&Map::new(), "pam2", &asked),
            Err(NoLogin::Unknown(_))
        ));
        let own = Map::new().with("external_auth", Map::new().with("pam2", Map::new()));
        let login = of_password(&own, "pam2", &asked).unwrap();
        assert_eq!(
            (login.username.as_str(), login.password.reveal()),
            ("joe", "x")
        );
    }
}
