//! From a path to the tag of an event.

use crate::http::Refusal;

/// What every tag of the hook begins with.
pub(super) const BASE: &str = "salt/netapi/hook";
/// How long a tag may be.
const TAG_MAX: usize = 512;

/// The tag that a path stands for, as in rest_cherrypy: its parts, those that are empty left out.
pub(super) fn tag(path: &str) -> Result<String, Refusal> {
    let parts = path.strip_prefix("/hook");
    let parts = parts.filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let Some(parts) = parts else {
        return Err(Refusal::new(404, "there is nothing at its path"));
    };
    let bad = |why| Refusal::new(400, why);
    let mut tag = BASE.to_owned();
    for part in parts.split('/').filter(|part| !part.is_empty()) {
        let part = String::from_utf8(unquoted(part));
        tag.push('/');
        tag.push_str(&part.map_err(|_| bad("the path is not UTF-8"))?);
    }
    if tag.len() > TAG_MAX {
        return Err(bad("the path is too long for a tag"));
    }
    if tag.chars().any(char::is_control) {
        return Err(bad("the path has control characters"));
    }
    Ok(tag)
}

/// A text without its `%` escapes; what is none stays as it is.
pub(super) fn unquoted(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = match (first, after) {
            (b'%', [high, low, ..]) => digit(*high).zip(digit(*low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                bytes.push(high << 4 | low);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

/// What a hexadecimal digit stands for.
pub(super) fn digit(byte: u8) -> Option<u8> {
    let value = char::from(byte).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_tag() {
        let good = |path| tag(path).unwrap();
        assert_eq!(good("/hook"), BASE);
        assert_eq!(good("/hook/"), BASE);
        assert_eq!(good("/hook//a/%41%20b+c/"), "salt/netapi/hook/a/A b+c");
        assert_eq!(good("/hook/%zz%4"), "salt/netapi/hook/%zz%4");
        let status = |path: &str| tag(path).map_err(|refusal| refusal.status);
        for (path, expected) in [
            ("/", 404),
            ("/hooks", 404),
            ("/Hook/a", 404),
            ("/x/hook", 404),
            ("*", 404),
            ("/hook/%ff", 400),
            ("/hook/a%0ab", 400),
            ("/hook/%00", 400),
        ] {
            assert_eq!(status(path), Err(expected), "{path}");
        }
        assert_eq!(status(&format!("/hook/{}", "a".repeat(600))), Err(400));
    }
}
