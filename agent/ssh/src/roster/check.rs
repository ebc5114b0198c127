//! The check of files, and the grammars of the values of an entry. Most values become words of a
//! command line.

use std::path::Path;

use value::trust::{self, Untrusted};

/// The maximum length of a value in bytes.
const LENGTH_MAX: usize = 255;
/// The maximum length of a line, such as a password or an option, in bytes.
const LINE_MAX: usize = 4096;

/// Checks that no other user can change a file. The caller names the file in errors.
///
/// # Errors
/// When another user can change it, or it does not exist.
pub(super) fn trusted(file: &Path) -> Result<(), String> {
    trust::path(file, trust::user()).map_err(|error| match error {
        Untrusted::Unreadable { path, source } if path == file => source.to_string(),
        error => error.sentence(),
    })
}

/// Returns the text of a file that no other user can change. The caller names the file in errors.
///
/// # Errors
/// When another user can change it, or it cannot be read.
pub(super) fn trusted_text(file: &Path) -> Result<String, String> {
    trusted(file)?;
    machine::fs::raw::text(file).map_err(|error| error.to_string())
}

/// Checks a value.
///
/// # Errors
/// When it is not well formed, with its beginning.
pub(super) fn named(key: &str, value: &str, fits: fn(&str) -> bool) -> Result<(), String> {
    match fits(value) {
        true => Ok(()),
        false => Err(format!(
            "invalid {key} {:?}",
            value.chars().take(64).collect::<String>()
        )),
    }
}

/// Returns whether a text is a name or an address. It is a word of the ssh program's command line.
pub(super) fn is_host(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:%".contains(&byte);
    is_word(text) && text.bytes().all(fits)
}

pub(super) fn is_user(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@+$".contains(&byte);
    is_word(text) && text.bytes().all(fits)
}

/// Returns whether a text is an absolute path that a shell's double quotes do not change.
pub(super) fn is_folder(text: &str) -> bool {
    text.starts_with('/') && text.len() <= LENGTH_MAX && text.bytes().all(is_plain)
}

/// Returns whether a text is a list of folders that a shell's double quotes do not change, except
/// for `$PATH` and `$HOME`.
pub(super) fn is_search_path(text: &str) -> bool {
    let rest = text.replace("${PATH}", "").replace("${HOME}", "");
    let rest = rest.replace("$PATH", "").replace("$HOME", "");
    let fits = |byte: u8| is_plain(byte) || byte == b':';
    text.len() <= LINE_MAX && rest.bytes().all(fits)
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/._-@+".contains(&byte)
}

/// Returns whether a text is an absolute path of this machine.
pub(super) fn is_path(text: &str) -> bool {
    text.starts_with('/') && is_line(text)
}

pub(super) fn is_option(text: &str) -> bool {
    let name = text.split(['=', ' ']).next().unwrap_or_default();
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_name && is_line(text)
}

/// Returns whether a text has no control characters, and a limited length.
pub(super) fn is_line(text: &str) -> bool {
    text.len() <= LINE_MAX && !text.chars().any(char::is_control)
}

/// Returns whether a text is a forwarded port of the ssh program: `[BIND:]PORT:HOST:PORT`.
pub(super) fn is_forward(text: &str) -> bool {
    let is_port = |text: &str| text.parse::<u16>().is_ok();
    let is_part = |text: &str| text == "*" || text.is_empty() || is_host(text);
    let parts: Vec<&str> = text.split(':').collect();
    match parts.as_slice() {
        [from, host, to] => is_port(from) && is_host(host) && is_port(to),
        [bind, from, host, to] => is_part(bind) && is_port(from) && is_host(host) && is_port(to),
        _ => false,
    }
}

/// Returns whether two words are the type of a public key and its base64.
pub(super) fn is_key(kind: &str, base64: &str) -> bool {
    let in_kind =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-@.".contains(&byte);
    let in_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    let is_kind = ["ssh-", "ecdsa-", "sk-"]
        .iter()
        .any(|kinds| kind.starts_with(kinds));
    is_kind
        && kind.len() <= LENGTH_MAX
        && kind.bytes().all(in_kind)
        && base64.starts_with("AAAA")
        && base64.bytes().all(in_base64)
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.len() <= LENGTH_MAX && !text.starts_with('-')
}
