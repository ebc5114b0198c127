//! The page for people, where no application is configured: one file without any other one.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};

use crate::http::Answer;

const HTML: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = concat!(include_str!("page/graph.js"), include_str!("page/page.js"));

/// The page with its style and its script.
static PAGE: LazyLock<String> =
    LazyLock::new(|| HTML.replace("@STYLE@", STYLE).replace("@SCRIPT@", SCRIPT));

/// The header that lets a browser run only this script, and connect only to this master.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let (style, script) = (hash(STYLE), hash(SCRIPT));
    format!(
        "default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
});

/// Returns the hash of a text in the form of such a header.
fn hash(text: &str) -> String {
    let hash = STANDARD.encode(digest(&SHA256, text.as_bytes()));
    format!("sha256-{hash}")
}

/// Returns the page.
pub(super) fn answer() -> Answer {
    Answer::good("text/html; charset=utf-8", PAGE.as_str())
        .with("Content-Security-Policy", POLICY.as_str())
        .with("Referrer-Policy", "no-referrer")
        .with("X-Content-Type-Options", "nosniff")
        .with("Cache-Control", "no-cache")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The maximum size of the page in bytes.
    const SIZE_MAX: usize = 80 << 10;

    #[test]
    fn the_page_is_small_and_needs_no_other_file() {
        assert!(PAGE.len() <= SIZE_MAX, "{} bytes", PAGE.len());
        assert!(!PAGE.contains("@STYLE@") && !PAGE.contains("@SCRIPT@"));
        for other in [
            "src=",
            "@import",
            "http://",
            "https://",
            " style=",
            " onclick=",
        ] {
            assert!(!PAGE.contains(other), "{other}");
        }
        // The only address is one of the page's own parts.
        assert!(!PAGE.replace("url(#", "").contains("url("));
        // Text of the master never becomes markup.
        for markup in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
        ] {
            assert!(!SCRIPT.contains(markup), "{markup}");
        }
        assert!(!SCRIPT.contains("</script") && !STYLE.contains("</style"));
        assert!(!POLICY.contains("unsafe"), "{}", *POLICY);
    }
}
