//! [`Address`]: the place of a repository, and the options and variables with which git reaches it.
//!
//! git reads no configuration of the machine or of a user, asks no questions, and uses only the
//! protocols that are listed here. Host keys of ssh are checked. A password is in no argument.

use std::path::Path;

use super::login::{Login, of_parts, of_url};
use super::passphrase;
use super::remotes::Options;

/// The protocols that git may use.
const PROTOCOLS: &str = "file:git:http:https:ssh";

/// The place of a repository.
#[derive(Clone)]
pub(super) struct Address {
    /// The URL without a password.
    pub(super) url: String,
    login: Option<Login>,
    /// The file of the private key for ssh.
    privkey: Option<String>,
    passphrase: Option<String>,
    is_verified: bool,
    proxy: Option<String>,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Address")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// Returns a text with a URL, without its password.
pub(super) fn without_password(text: &str) -> String {
    let Some((before, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let end = rest.find('/').unwrap_or(rest.len());
    let (netloc, path) = rest.split_at(end);
    match netloc.rsplit_once('@') {
        Some((login, host)) if login.contains(':') => {
            let user = login.split(':').next().unwrap_or_default();
            format!("{before}://{user}@{host}{path}")
        }
        _ => text.to_owned(),
    }
}

/// Returns the problem of a URL that git must not get.
fn problem(url: &str) -> Option<String> {
    if url.is_empty() || url.starts_with('-') {
        return Some("its URL is missing, or begins with `-`".into());
    }
    if url
        .chars()
        .any(|char| char.is_whitespace() || char.is_control())
    {
        return Some("its URL has white space".into());
    }
    let is_known = match url.split_once("://") {
        Some((scheme, _)) => PROTOCOLS.split(':').any(|known| known == scheme),
        // user@host:path, or a folder.
        None => url.starts_with('/') || !url.contains("::") && url.contains(':'),
    };
    let known = PROTOCOLS.replace(':', ", ");
    (!is_known).then(|| format!("its URL has an unknown protocol. The protocols are {known}"))
}

impl Address {
    /// Reads the options about the address of a repository and the login.
    ///
    /// # Errors
    /// When the URL cannot be used, or a password would be sent without encryption.
    pub(super) fn new(url: &str, options: &Options<'_>) -> Result<Self, String> {
        if let Some(problem) = problem(url) {
            return Err(problem);
        }
        for secret in ["password", "passphrase"] {
            let text = options.text(secret);
            if !text.is_empty() {
                value::secret::keep(&[secret], &text.into());
            }
        }
        let some = |name| Some(options.text(name)).filter(|text| !text.is_empty());
        let (url, login) = with_login(url, some("user"), some("password"))?;
        if login.is_some() && url.starts_with("http://") && !options.is_set("insecure_auth") {
            return Err("a password would be sent without encryption. Use https, or set `insecure_auth: True`".into());
        }
        let privkey = some("privkey");
        if let Some(key) = privkey.as_ref().filter(|key| !Path::new(key).is_file()) {
            return Err(format!("the file of `privkey` does not exist: {key}"));
        }
        Ok(Self {
            url,
            login,
            privkey,
            passphrase: some("passphrase"),
            is_verified: options.is_set("ssl_verify"),
            proxy: some("proxy"),
        })
    }

    /// Returns the options of git that precede its command.
    pub(super) fn options(&self) -> Vec<String> {
        let mut all: Vec<String> = [
            // A remote that sends nothing is given up.
            "http.lowSpeedLimit=1000",
            "http.lowSpeedTime=30",
            // The data of a fetch must be on the disk before it is used.
            "core.fsync=all",
            "credential.helper=",
            // Few objects are stored as a pack, too, so that the size of the packs is that of the repository.
            "fetch.unpackLimit=1",
            "gc.autoDetach=false",
        ]
        .map(str::to_owned)
        .into();
        if !self.is_verified {
            all.push("http.sslVerify=false".into());
        }
        if let Some(proxy) = &self.proxy {
            all.push(format!("http.proxy={proxy}"));
        }
        let mut words: Vec<String> = all
            .into_iter()
            .flat_map(|option| ["-c".to_owned(), option])
            .collect();
        words.extend(self.login.iter().flat_map(Login::options));
        words
    }

    /// Returns the environment variables of git.
    pub(super) fn variables(&self) -> Vec<(String, String)> {
        let mut ssh = "ssh -o StrictHostKeyChecking=yes -o PreferredAuthentications=publickey -o ConnectTimeout=30 -o ServerAliveInterval=15".to_owned();
        if self.passphrase.is_none() {
            ssh.push_str(" -o BatchMode=yes");
        }
        if let Some(key) = &self.privkey {
            let quoted = key.replace('\'', r"'\''");
            ssh.push_str(&format!(" -o IdentitiesOnly=yes -i '{quoted}'"));
        }
        let fixed = [
            ("GIT_ALLOW_PROTOCOL", PROTOCOLS),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("LC_ALL", "C"),
        ];
        let fixed = fixed.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let login = self.login.iter().flat_map(|login| {
            let variables = login.variables();
            let pairs: Vec<_> = variables
                .iter()
                .map(|(name, value)| (name.to_text(), value.to_text()))
                .collect();
            pairs
        });
        fixed
            .into_iter()
            .chain([("GIT_SSH_COMMAND".to_owned(), ssh)])
            .chain(login)
            .chain(
                self.passphrase
                    .iter()
                    .flat_map(|text| passphrase::variables(text)),
            )
            .collect()
    }
}

/// Returns a URL without its password, and the login of the options or of the URL.
fn with_login(
    url: &str,
    user: Option<String>,
    password: Option<String>,
) -> Result<(String, Option<Login>), String> {
    let named = match (url.split_once("://"), &user, &password) {
        (Some((scheme @ ("http" | "https"), rest)), Some(user), Some(password)) => {
            of_parts(scheme, rest, user, Some(password))
        }
        _ => of_url(url),
    };
    named.map_err(|error| error.to_string())
}
