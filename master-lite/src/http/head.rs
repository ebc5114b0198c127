//! [`Head`]: the head of a request.

use std::net::IpAddr;

use hyper::HeaderMap;
use hyper::http::request::Parts;
use value::Map;

use super::quoted::plain;

/// The maximum number of parameters of a query that are read.
const QUERY_MAX: usize = 64;

/// The head of a request.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) method: String,
    /// The target in the request line: the path, and the query after it.
    pub(crate) target: String,
    /// The headers, like rest_cherrypy has them: names in title case, the last value of a repeated
    /// name, and the peer's address.
    pub(crate) headers: Map,
}

impl Head {
    /// Returns the head of a request from a peer.
    pub(super) fn new(parts: &Parts, from: IpAddr) -> Self {
        Self {
            method: parts.method.to_string(),
            target: match parts.uri.path_and_query() {
                Some(target) => target.to_string(),
                None => parts.uri.path().to_owned(),
            },
            headers: headers(&parts.headers, from),
        }
    }

    #[cfg(test)]
    pub(crate) fn of(method: &str, target: &str, headers: Map) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers,
        }
    }

    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.as_str()
    }

    /// Returns the parameters of the query, decoded.
    pub(crate) fn query(&self) -> Vec<(String, String)> {
        let query = self.target.split_once('?').map(|(_, query)| query);
        let pairs = query.unwrap_or_default().split('&').take(QUERY_MAX);
        let pairs = pairs.filter(|pair| !pair.is_empty());
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (plain(name), plain(value))
        };
        pairs.map(pair).collect()
    }

    /// Returns the path without the query.
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }
}

fn headers(lines: &HeaderMap, from: IpAddr) -> Map {
    let mut headers = Map::new();
    for (name, value) in lines {
        // Header values in HTTP are Latin-1.
        let value: String = value
            .as_bytes()
            .iter()
            .map(|byte| char::from(*byte))
            .collect();
        headers.insert(titled(name.as_str()), value.trim());
    }
    // This replaces a `Remote-Addr` header from the peer.
    headers.with("Remote-Addr", from.to_string())
}

/// Returns a name in the form of Python's `str.title`.
fn titled(name: &str) -> String {
    let mut is_inside = false;
    let letter = |c: char| {
        let titled = match is_inside {
            true => c.to_ascii_lowercase(),
            false => c.to_ascii_uppercase(),
        };
        is_inside = c.is_ascii_alphabetic();
        titled
    };
    name.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_as_rest_cherrypy_has_them() {
        let request = hyper::Request::post("/hook/a?b=1")
            .header("host", "x")
            .header("X-two", "1")
            .header("x-TWO", " 2 ")
            .header("X-CAP-thing", "v")
            .header("x-hub-signature-256", "s")
            .header("remote-addr", "10.0.0.1")
            .body(());
        let (parts, ()) = request.unwrap().into_parts();
        let head = Head::new(&parts, [127, 0, 0, 1].into());
        assert_eq!((&*head.method, &*head.target), ("POST", "/hook/a?b=1"));
        assert_eq!(head.path(), "/hook/a");
        let headers = Map::new()
            .with("Remote-Addr", "127.0.0.1")
            .with("Host", "x")
            .with("X-Two", "2")
            .with("X-Cap-Thing", "v")
            .with("X-Hub-Signature-256", "s");
        assert_eq!(head.headers, headers);
    }
}
