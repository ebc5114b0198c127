//! The addresses and options of returners that send over HTTP.

use jiff::Timestamp;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, secret};

use crate::git::login::unquoted;

/// Returns an option of a returner; `None` if it is not set or empty.
pub(super) fn option(cx: &Exec, ret: &Map, returner: &str, name: &str) -> Option<Value> {
    let found = super::option(cx, ret, returner, name)?;
    (!found.is_null() && found.as_str() != Some("")).then_some(found)
}

/// Returns an option of a returner as text.
pub(super) fn text(cx: &Exec, ret: &Map, returner: &str, name: &str) -> Option<String> {
    option(cx, ret, returner, name).map(|found| found.to_text())
}

/// Returns the text of an option that must be set.
///
/// # Errors
/// When it is not set.
pub(super) fn needed(cx: &Exec, ret: &Map, returner: &str, name: &str) -> Result<String, Error> {
    let missing = || Error::refused(format!("the option {returner}.{name} is not set"));
    text(cx, ret, returner, name).ok_or_else(missing)
}

/// Returns the text of an option that must be set, and keeps it out of logs and outputs.
///
/// # Errors
/// When it is not set.
pub(super) fn needed_secret(
    cx: &Exec,
    ret: &Map,
    returner: &str,
    name: &str,
) -> Result<String, Error> {
    let found = needed(cx, ret, returner, name)?;
    keep(&found);
    Ok(found)
}

/// Keeps a text out of logs and outputs.
pub(super) fn keep(text: &str) {
    secret::keep(&[], &text.into());
}

/// The value of the header `Authorization` for a user.
pub(super) fn basic(user: &str, password: &str) -> String {
    keep(password);
    let encoded = python::base64::encode(format!("{user}:{password}").as_bytes());
    keep(&encoded);
    format!("Basic {encoded}")
}

/// Removes the user and the password from an address. Returns the rest, and the value of the header
/// `Authorization` if there was a user.
///
/// # Errors
/// When the address is neither http nor https, or the user is not UTF-8. The error does not contain
/// the address, which may have secrets.
pub(super) fn address(url: &str) -> Result<(String, Option<String>), Error> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    if !matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https") {
        return Err("the address must begin with https:// or http://".into());
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let Some((user, host)) = host.rsplit_once('@') else {
        return Ok((url.to_owned(), None));
    };
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let header = basic(&unquoted(user)?, &unquoted(password)?);
    Ok((format!("{scheme}://{host}{path}"), Some(header)))
}

/// Returns the time of a `_stamp`, which may have no offset; now if it has none.
pub(super) fn time(stamp: Option<&Value>) -> Timestamp {
    let stamp = stamp.and_then(Value::as_str);
    let parsed =
        stamp.and_then(|stamp| stamp.parse().or_else(|_| format!("{stamp}Z").parse()).ok());
    parsed.unwrap_or_else(Timestamp::now)
}

/// Returns the number of texts that fit into a request of this size, at least 1.
pub(super) fn fitting(texts: &[String], most: usize) -> usize {
    let mut bytes = 0;
    let fits = |text: &&String| {
        bytes += text.len();
        bytes <= most
    };
    texts.iter().take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_an_address_is_sent_as_a_header() {
        let (url, header) = address("https://u:p%40ss@h:9/x@y?z").unwrap();
        assert_eq!(url, "https://h:9/x@y?z");
        assert_eq!(header.as_deref(), Some("Basic dTpwQHNz"));
        let plain = address("http://h/x@y").unwrap();
        assert_eq!(plain, ("http://h/x@y".to_owned(), None));
        for wrong in ["ftp://planted-secret@h", "planted-secret"] {
            let error = address(wrong).unwrap_err().to_string();
            assert!(
                error.contains("https://") && !error.contains("planted"),
                "{error}"
            );
        }
    }
}
