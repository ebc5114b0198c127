//! The token of a request: in the header `X-Auth-Token`, or in the cookie that a login sets.

use wire::Secret;

use super::failure::Failure;
use crate::http::Head;

/// The name of the cookie.
const COOKIE: &str = "session_id";
/// The maximum length of a token in bytes.
const TOKEN_MAX: usize = 256;

/// Returns the token of a request. The cookie counts only if the request comes from a page of this
/// server, because a browser sends it with requests of other pages too.
pub(super) fn token(head: &Head) -> Result<Secret, Failure> {
    let own = || is_own_page(head).then(|| cookie(head)).flatten();
    let text = match head.header("X-Auth-Token") {
        Some(text) if !text.is_empty() => Some(text),
        _ => own(),
    };
    text.and_then(checked).ok_or_else(Failure::no_permission)
}

/// Returns a text as a token, if it is one: hexadecimal digits.
pub(super) fn checked(text: &str) -> Option<Secret> {
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hex && !text.is_empty() && text.len() <= TOKEN_MAX).then(|| Secret::new(text))
}

/// Returns the value of the cookie.
fn cookie(head: &Head) -> Option<&str> {
    let mut pairs = head.header("Cookie")?.split(';');
    let value = pairs.find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == COOKIE).then_some(value)
    });
    value.map(|text| text.trim_matches('"'))
}

/// Returns true unless a browser says that a page of another server sends the request.
pub(super) fn is_own_page(head: &Head) -> bool {
    if let Some(site) = head.header("Sec-Fetch-Site")
        && !matches!(site, "same-origin" | "none")
    {
        return false;
    }
    let Some(origin) = head.header("Origin") else {
        return true;
    };
    let host = origin.split_once("://").map(|(_, host)| host);
    host.is_some() && host == head.header("Host")
}

/// Returns the value of `Set-Cookie` that keeps a token for so many seconds.
pub(super) fn kept(token: &Secret, seconds: u64, is_tls: bool) -> String {
    let secure = if is_tls { "; Secure" } else { "" };
    let token = token.reveal();
    format!("{COOKIE}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

/// Returns the value of `Set-Cookie` that removes the token.
pub(super) fn cleared(is_tls: bool) -> String {
    let secure = if is_tls { "; Secure" } else { "" };
    format!("{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict{secure}")
}

#[cfg(test)]
mod tests {
    use value::Map;

    use super::*;

    fn shown(headers: &[(&str, &str)]) -> Option<String> {
        let headers = headers.iter();
        let map = headers.fold(Map::new(), |map, (name, value)| map.with(name, *value));
        let token = token(&Head::of("GET", "/", map)).ok()?;
        Some(token.reveal().to_owned())
    }

    #[test]
    fn a_token_is_in_the_header_or_in_the_cookie() {
        let is = |token: &str| Some(token.to_owned());
        assert_eq!(shown(&[("X-Auth-Token", "ab12")]), is("ab12"));
        assert_eq!(shown(&[("Cookie", "a=b; session_id=cd34")]), is("cd34"));
        assert_eq!(
            shown(&[("X-Auth-Token", "ab"), ("Cookie", "session_id=cd")]),
            is("ab")
        );
        assert_eq!(shown(&[]), None);
        assert_eq!(shown(&[("X-Auth-Token", "no hex")]), None);
        assert_eq!(shown(&[("X-Auth-Token", &"a".repeat(TOKEN_MAX + 1))]), None);
        assert_eq!(shown(&[("Cookie", "other_session_id=cd34")]), None);
    }

    #[test]
    fn a_cookie_counts_only_for_pages_of_this_server() {
        let cookie = ("Cookie", "session_id=cd34");
        let host = ("Host", "salt:8000");
        assert!(shown(&[cookie, host, ("Origin", "https://salt:8000")]).is_some());
        assert!(shown(&[cookie, host, ("Sec-Fetch-Site", "same-origin")]).is_some());
        for foreign in [
            ("Origin", "https://salt:8001"),
            ("Origin", "https://evil"),
            ("Origin", "null"),
            ("Sec-Fetch-Site", "cross-site"),
            ("Sec-Fetch-Site", "same-site"),
        ] {
            assert_eq!(shown(&[cookie, host, foreign]), None, "{foreign:?}");
            let header = ("X-Auth-Token", "ab12");
            assert!(
                shown(&[header, cookie, host, foreign]).is_some(),
                "{foreign:?}"
            );
        }
    }
}
