//! Users and passwords of repositories that are reached with https.
//!
//! A password is never part of a command line, which every local user can read, nor of the URL that
//! git stores: git would put it on the command line of `git-remote-https`. It is passed to git in
//! the environment, and a credential helper returns it only for the server that it belongs to.

use state::module::Error;
use value::Map;

/// The credential helper that git runs to get the login. Git appends words to it, which the
/// trailing `#` turns into a comment.
const HELPER: &str =
    r#"!printf 'username=%s\npassword=%s\n' "$PINCH_GIT_USER" "$PINCH_GIT_PASSWORD" #"#;

/// A user and a password, and the server that they are for.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Login {
    server: String,
    user: String,
    password: String,
}

impl Login {
    /// Returns the options that make git use this helper, and no other one, for this server.
    pub(crate) fn options(&self) -> Vec<String> {
        let option = |helper: &str| format!("credential.{}.helper={helper}", self.server);
        ["-c".to_owned(), option(""), "-c".to_owned(), option(HELPER)].into()
    }

    /// Returns the environment variables that the helper reads.
    pub(crate) fn variables(&self) -> Map {
        Map::new()
            .with("PINCH_GIT_USER", self.user.as_str())
            .with("PINCH_GIT_PASSWORD", self.password.as_str())
    }
}

/// Returns a URL that holds only the user, and the login if there is a password: either the given
/// one or that of the URL.
pub(crate) fn with_login(
    url: &str,
    user: Option<&str>,
    password: Option<&str>,
) -> Result<(String, Option<Login>), Error> {
    if user.is_none() && password.is_none() {
        return of_url(url);
    }
    let scheme = url.split_once(':').map(|(scheme, _)| scheme);
    if !scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("https")) {
        return Err("Basic Auth only supported for HTTPS".into());
    }
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    of_parts("https", rest, user.unwrap_or_default(), password)
}

/// Removes the password from a URL that has one.
pub(crate) fn of_url(url: &str) -> Result<(String, Option<Login>), Error> {
    let unchanged = || Ok((url.to_owned(), None));
    let Some((scheme @ ("http" | "https"), rest)) = url.split_once("://") else {
        return unchanged();
    };
    let netloc = rest.split('/').next().unwrap_or_default();
    let login = netloc
        .rsplit_once('@')
        .and_then(|(login, _)| login.split_once(':'));
    let Some((user, password)) = login else {
        return unchanged();
    };
    let rest = rest
        .get(user.len() + password.len() + 2..)
        .unwrap_or_default();
    let password = unquoted(password)?;
    of_parts(scheme, rest, &unquoted(user)?, Some(&password))
}

pub(crate) fn of_parts(
    scheme: &str,
    rest: &str,
    user: &str,
    password: Option<&str>,
) -> Result<(String, Option<Login>), Error> {
    let url = match user {
        "" => format!("{scheme}://{rest}"),
        user => format!("{scheme}://{}@{rest}", quoted(user)),
    };
    let Some(password) = password else {
        return Ok((url, None));
    };
    if [user, password]
        .iter()
        .any(|text| text.contains(['\n', '\0']))
    {
        return Err("A git user or password must not contain a line break or NUL".into());
    }
    let netloc = rest.split('/').next().unwrap_or_default();
    let host = netloc.rsplit_once('@').map_or(netloc, |(_, host)| host);
    if host.is_empty() || host.contains(['=', '\n']) {
        return Err(format!("cannot use a git password for the invalid host '{host}'").into());
    }
    let login = Login {
        server: format!("{scheme}://{host}"),
        user: user.to_owned(),
        password: password.to_owned(),
    };
    Ok((url, Some(login)))
}

fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-~".contains(&byte);
    text.bytes()
        .map(|byte| {
            if plain(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

/// Returns the text with the percent-encoding of a URL decoded.
pub(crate) fn unquoted(text: &str) -> Result<String, Error> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let digits = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match escaped.filter(|_| *byte == b'%') {
            Some(escaped) => {
                bytes.push(escaped);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).map_err(|_| "The user or the password in the URL is not UTF-8".into())
}

/// Returns the text without the passwords in its web addresses.
pub(crate) fn redacted(text: &str) -> String {
    let lines = text.split('\n').map(|line| {
        let start = ["http://", "https://"]
            .iter()
            .filter_map(|scheme| line.find(scheme).map(|at| at + scheme.len()))
            .min();
        match (start, line.rfind('@')) {
            (Some(start), Some(end)) if start < end => {
                format!(
                    "{}<redacted>{}",
                    line.get(..start).unwrap_or_default(),
                    line.get(end..).unwrap_or_default()
                )
            }
            _ => line.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(url: &str, user: Option<&str>, password: Option<&str>) -> [String; 4] {
        let (url, login) = with_login(url, user, password).unwrap();
        let login = login.unwrap();
        [url, login.server, login.user, login.password]
    }

    #[test]
    fn passwords_are_kept_out_of_addresses_and_taken_out_of_texts() {
        assert_eq!(
            parts("https://h:8443/r.git", Some("me@x"), Some("p/w@")),
            [
                "https://me%40x@h:8443/r.git",
                "https://h:8443",
                "me@x",
                "p/w@"
            ]
        );
        assert_eq!(
            parts("http://me:p%2Fw%40@h/r.git", None, None),
            ["http://me@h/r.git", "http://h", "me", "p/w@"]
        );
        assert_eq!(parts("https://h/r", None, Some("p"))[0], "https://h/r");
        for url in [
            "https://h/r",
            "https://me@h/r",
            "ssh://me:x@h/r",
            "me@h:r",
            "/srv/r",
        ] {
            let (kept, login) = with_login(url, None, None).unwrap();
            assert!(kept == url && login.is_none(), "{url}");
        }
        assert!(
            with_login("https://h/r", Some("me"), None)
                .unwrap()
                .1
                .is_none()
        );
        assert_eq!(
            redacted("fatal: https://me:p@h/r.git x\nnext"),
            "fatal: https://<redacted>@h/r.git x\nnext"
        );
        assert!(with_login("http://h/r", Some("me"), None).is_err());
        assert!(with_login("https://h/r", Some("me"), Some("a\nb")).is_err());
    }

    #[test]
    fn options_of_git_hold_no_password() {
        let (_, login) = with_login("https://h/r", Some("me"), Some("hush-hush")).unwrap();
        let options = login.unwrap().options();
        assert!(!options.concat().contains("hush-hush"), "{options:?}");
        assert_eq!(options[1], "credential.https://h.helper=");
    }
}
