//! Maps the path of a request to the tag of its event.

use crate::http::Refusal;
use crate::http::quoted::unquoted;

/// The prefix of every tag of the hook.
pub(super) const BASE: &str = "salt/netapi/hook";
/// The maximum length of a tag in bytes.
const TAG_MAX: usize = 512;

/// Returns the tag for a path, like rest_cherrypy: the parts of the path without the empty ones.
pub(crate) fn tag(path: &str) -> Result<String, Refusal> {
    let parts = path.strip_prefix("/hook");
    let parts = parts.filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let Some(parts) = parts else {
        return Err(Refusal::new(404, "the path is not below /hook"));
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
