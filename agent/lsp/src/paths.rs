//! Converts between the `file:` addresses of the protocol and paths.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use lsp_types::Uri;

/// Returns the path of a `file:` address; `None` for another kind of address.
pub(crate) fn of_uri(uri: &Uri) -> Option<PathBuf> {
    let rest = uri.as_str().strip_prefix("file://")?;
    let path = rest.get(rest.find('/')?..)?;
    let mut bytes = Vec::new();
    let mut left = path.bytes();
    while let Some(byte) = left.next() {
        bytes.push(match byte {
            b'%' => hex(left.next()?)? * 16 + hex(left.next()?)?,
            other => other,
        });
    }
    Some(OsString::from_vec(bytes).into())
}

fn hex(digit: u8) -> Option<u8> {
    let digit = char::from(digit).to_digit(16)?;
    u8::try_from(digit).ok()
}

/// Returns the `file:` address of an absolute path.
pub(crate) fn uri_of(path: &Path) -> Option<Uri> {
    let mut text = "file://".to_owned();
    for byte in path.as_os_str().as_bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"/-._~".contains(byte);
        match is_plain {
            true => text.push(char::from(*byte)),
            false => text.push_str(&format!("%{byte:02X}")),
        }
    }
    Uri::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_addresses() {
        let path = Path::new("/srv/salt/a b/ü%.sls");
        let uri = uri_of(path).unwrap();
        assert_eq!(uri.as_str(), "file:///srv/salt/a%20b/%C3%BC%25.sls");
        assert_eq!(of_uri(&uri).unwrap(), path);
        for other in ["untitled:x", "https://host/x", "file://host"] {
            assert_eq!(of_uri(&Uri::from_str(other).unwrap()), None, "{other}");
        }
    }
}
