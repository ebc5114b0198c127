//! Reads the bodies of requests, and writes values in the format that the client accepts.

use render::yaml::{Dump, dump};
use value::json::{self, Layout};
use value::{Map, Value};

use super::failure::Failure;
use crate::hook::body;
use crate::http::{Answer, Head, Refusal};

const JSON: &str = "application/json";
const YAML: &str = "application/x-yaml";
const TEXT: &str = "text/plain; charset=utf-8";
/// The maximum number of media types that are read of an `Accept` header.
const ACCEPTED_MAX: usize = 64;

/// The format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Yaml,
}

impl Format {
    /// Returns the format that a client prefers. Without `Accept`, it is JSON.
    pub(super) fn accepted(head: &Head) -> Result<Self, Failure> {
        let Some(given) = head.header("Accept").filter(|text| !text.is_empty()) else {
            return Ok(Self::Json);
        };
        let found = media_types(given).into_iter().find_map(Self::from_media);
        found.ok_or_else(|| {
            let shown: String = given.chars().take(200).collect();
            let text = format!(
                "Your client sent this Accept header: {shown}. But this resource only emits these media types: {JSON}, {YAML}."
            );
            Failure::new(406, text)
        })
    }

    /// Returns the format that a media type of an `Accept` header names.
    fn from_media(media: &str) -> Option<Self> {
        match media {
            "*/*" | "application/*" | JSON => Some(Self::Json),
            YAML => Some(Self::Yaml),
            _ => None,
        }
    }

    /// Returns an answer with a value.
    pub(super) fn answer(self, status: u16, value: &Value) -> Answer {
        match self {
            Self::Json => Answer::new(status, JSON, json::write(value, Layout::default())),
            Self::Yaml => {
                let layout = Dump {
                    default_flow_style: Some(false),
                    ..Dump::default()
                };
                match dump(value, &layout) {
                    Ok(text) => Answer::new(status, YAML, text),
                    Err(error) => Answer::new(500, TEXT, format!("{error}\n")),
                }
            }
        }
    }
}

/// Returns the media types of an `Accept` header, the preferred ones first.
fn media_types(header: &str) -> Vec<&str> {
    let parsed = header.split(',').take(ACCEPTED_MAX).map(|one| {
        let mut parts = one.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let quality = parts.find_map(|part| part.strip_prefix("q="));
        let quality = quality.map_or(Ok(1.0), str::parse::<f64>);
        (media, quality.unwrap_or(0.0))
    });
    let mut all: Vec<(&str, f64)> = parsed.filter(|(_, quality)| *quality > 0.0).collect();
    all.sort_by(|one, other| other.1.total_cmp(&one.1));
    all.into_iter().map(|(media, _)| media).collect()
}

/// Returns true if a client prefers a page for people to data.
pub(super) fn wants_html(head: &Head) -> bool {
    let accepted = head.header("Accept").unwrap_or_default();
    let types = media_types(accepted);
    let first = types.into_iter().find(|media| {
        Format::from_media(media).is_some() || matches!(*media, "text/html" | "text/*")
    });
    first.is_some_and(|media| media.starts_with("text/"))
}

/// Returns the answer to a request that failed: JSON or YAML if the client accepts it, or else text.
pub(super) fn failed(head: &Head, failure: &Failure) -> Answer {
    let Failure {
        status,
        text,
        later,
    } = failure;
    let value = Map::new()
        .with("status", i64::from(*status))
        .with("return", text.as_str())
        .into();
    let answer = match Format::accepted(head) {
        Ok(format) => format.answer(*status, &value),
        Err(_) => Answer::new(*status, TEXT, format!("{text}\n")),
    };
    match later {
        Some(seconds) => answer.with("Retry-After", seconds.to_string()),
        None => answer,
    }
}

/// The body of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sent {
    /// The text; empty if there is no body.
    pub(super) text: String,
    /// The data in it; null if there is no body.
    pub(super) data: Value,
}

/// Reads the body of a request.
pub(super) fn read(head: &Head, bytes: &[u8]) -> Result<Sent, Failure> {
    if bytes.is_empty() {
        return Ok(Sent::default());
    }
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|_| Failure::bad("The body is not UTF-8"))?;
    let kind = body::kind(head.header("Content-Type"));
    let data = body::parsed(&kind, text);
    let data = data.map_err(|refusal| unread(&kind, &refusal))?;
    Ok(Sent {
        text: text.to_owned(),
        data,
    })
}

/// Returns Salt's text for a body that cannot be read.
fn unread(kind: &str, refusal: &Refusal) -> Failure {
    match (refusal.status, kind) {
        (406, _) => Failure::new(406, "Content type not supported"),
        (_, JSON) => Failure::bad("Invalid JSON document"),
        _ => Failure::bad("Invalid YAML document"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(accept: &str) -> Head {
        Head::of("GET", "/", Map::new().with("Accept", accept))
    }

    #[test]
    fn a_client_receives_the_format_that_it_prefers() {
        for (accept, expected) in [
            ("", Some(Format::Json)),
            ("*/*", Some(Format::Json)),
            ("application/*", Some(Format::Json)),
            ("application/x-yaml", Some(Format::Yaml)),
            (
                "application/json;q=0.1, application/x-yaml",
                Some(Format::Yaml),
            ),
            (
                "text/html, application/x-yaml;q=0.9, */*;q=0.8",
                Some(Format::Yaml),
            ),
            ("application/json;q=0", None),
            ("application/json;q=x", None),
            ("text/html", None),
        ] {
            assert_eq!(Format::accepted(&head(accept)).ok(), expected, "{accept}");
        }
        let failure = Format::accepted(&head("image/png")).unwrap_err();
        assert_eq!(failure.status, 406);
        assert!(failure.text.contains("image/png"), "{failure}");
    }

    #[test]
    fn a_browser_wants_a_page_and_curl_does_not() {
        assert!(wants_html(&head(
            "text/html,application/xml;q=0.9,*/*;q=0.8"
        )));
        for data in [
            "",
            "*/*",
            "application/json",
            "application/json, text/html;q=0.5",
        ] {
            assert!(!wants_html(&head(data)), "{data}");
        }
    }

    #[test]
    fn a_body_that_cannot_be_read_has_salts_text() {
        let tried = |kind: &str, body: &[u8]| {
            let head = Head::of("POST", "/", Map::new().with("Content-Type", kind));
            read(&head, body).map_err(|failure| (failure.status, failure.text))
        };
        let failure = |status, text: &str| Err((status, text.to_owned()));
        assert_eq!(tried("application/json", b""), Ok(Sent::default()));
        assert_eq!(tried(JSON, b"{"), failure(400, "Invalid JSON document"));
        assert_eq!(tried(YAML, b"a: ]"), failure(400, "Invalid YAML document"));
        assert_eq!(
            tried("image/png", b"x"),
            failure(406, "Content type not supported")
        );
        assert_eq!(tried(JSON, b"\xff"), failure(400, "The body is not UTF-8"));
        let list = tried(JSON, b"[1]").unwrap();
        assert_eq!(list.data, Value::list([1.into()]));
    }
}
