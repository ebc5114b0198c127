//! [`Head`]: the head of a request.

use std::net::SocketAddr;

use value::Map;

use super::Refusal;

/// The maximum number of header lines in a head.
const LINES_MAX: usize = 64;

/// The head of a request.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) method: String,
    /// The target in the request line: the path, and the query after it.
    pub(crate) target: String,
    /// The headers, like rest_cherrypy has them: names in title case, the last value of a repeated
    /// name, and the peer's address.
    pub(crate) headers: Map,
    /// The length of the body in bytes.
    pub(super) length: usize,
    /// True if the peer waits for `100 Continue` before it sends the body.
    pub(super) is_expecting: bool,
}

impl Head {
    /// Parses the bytes of a head, which end with an empty line.
    pub(super) fn parse(bytes: &[u8], from: SocketAddr) -> Result<Self, Refusal> {
        let mut lines = [httparse::EMPTY_HEADER; LINES_MAX];
        let mut request = httparse::Request::new(&mut lines);
        let bad = |why: &str| Refusal::new(400, why);
        match request.parse(bytes) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) => return Err(bad("the request header is incomplete")),
            Err(httparse::Error::TooManyHeaders) => {
                let why = format!("the request header has more than {LINES_MAX} lines");
                return Err(Refusal::new(431, why));
            }
            Err(error) => return Err(bad(&format!("invalid HTTP: {error}"))),
        }
        let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
        Ok(Self {
            method: text(request.method),
            target: text(request.path),
            length: length(request.headers)?,
            is_expecting: has(request.headers, "Expect", "100-continue"),
            headers: headers(request.headers, from),
        })
    }

    #[cfg(test)]
    pub(crate) fn new(method: &str, target: &str, headers: Map) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers,
            length: 0,
            is_expecting: false,
        }
    }

    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.as_str()
    }

    /// Returns the path without the query.
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }
}

fn headers(lines: &[httparse::Header<'_>], from: SocketAddr) -> Map {
    let mut headers = Map::new();
    for line in lines {
        // Header values in HTTP are Latin-1.
        let value: String = line.value.iter().map(|byte| char::from(*byte)).collect();
        headers.insert(titled(line.name), value.trim());
    }
    // This replaces a `Remote-Addr` header from the peer.
    headers.with("Remote-Addr", from.ip().to_string())
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

fn has(lines: &[httparse::Header<'_>], name: &str, value: &str) -> bool {
    let mut found = lines
        .iter()
        .filter(|line| line.name.eq_ignore_ascii_case(name));
    found.any(|line| line.value.eq_ignore_ascii_case(value.as_bytes()))
}

/// Returns the length of the body. Refuses a head whose length is ambiguous.
fn length(lines: &[httparse::Header<'_>]) -> Result<usize, Refusal> {
    let named = |name: &'static str| {
        lines
            .iter()
            .filter(move |line| line.name.eq_ignore_ascii_case(name))
    };
    if named("Transfer-Encoding").next().is_some() {
        let why = "Transfer-Encoding is not supported: send the body with a Content-Length";
        return Err(Refusal::new(411, why));
    }
    let mut lengths = named("Content-Length");
    let (first, second) = (lengths.next(), lengths.next());
    let bad = || Refusal::new(400, "the Content-Length is not a number");
    match (first, second) {
        (None, _) => Ok(0),
        (Some(line), None) => {
            let text = std::str::from_utf8(line.value).map_err(|_| bad())?;
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let length = is_number.then(|| text.parse().unwrap_or(usize::MAX));
            length.ok_or_else(bad)
        }
        _ => Err(Refusal::new(400, "there is more than one Content-Length")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Head, u16> {
        let from = ([127, 0, 0, 1], 9).into();
        Head::parse(text.as_bytes(), from).map_err(|refusal| refusal.status)
    }

    #[test]
    fn headers_are_as_rest_cherrypy_has_them() {
        let head = parsed(
            "POST /hook/a?b=1 HTTP/1.1\r\nhost: x\r\nX-two: 1\r\nx-TWO:  2 \r\nX-CAP-thing: v\r\nx-hub-signature-256: s\r\nremote-addr: 10.0.0.1\r\nCONTENT-length: 17\r\n\r\n",
        );
        let head = head.unwrap();
        assert_eq!((&*head.method, &*head.target), ("POST", "/hook/a?b=1"));
        assert_eq!((head.path(), head.length), ("/hook/a", 17));
        let headers = Map::new()
            .with("Remote-Addr", "127.0.0.1")
            .with("Host", "x")
            .with("X-Two", "2")
            .with("X-Cap-Thing", "v")
            .with("X-Hub-Signature-256", "s")
            .with("Content-Length", "17");
        assert_eq!(head.headers, headers);
    }

    #[test]
    fn what_is_unclear_is_refused() {
        let status = |lines: &str| {
            let head = parsed(&format!("POST /hook HTTP/1.1\r\n{lines}\r\n"));
            head.err().unwrap_or(200)
        };
        assert_eq!(status(""), 200);
        for (lines, expected) in [
            ("Content-Length: 1\r\nContent-Length: 2\r\n", 400),
            ("Content-Length: +1\r\n", 400),
            ("Content-Length: 1, 1\r\n", 400),
            ("Content-Length:\r\n", 400),
            ("Transfer-Encoding: chunked\r\n", 411),
            ("Transfer-Encoding: identity\r\nContent-Length: 1\r\n", 411),
            ("no colon\r\n", 400),
            ("X : 1\r\n", 400),
            (" folded: 1\r\n", 400),
        ] {
            assert_eq!(status(lines), expected, "{lines}");
        }
        let many: String = (0..=LINES_MAX).map(|n| format!("x{n}: 1\r\n")).collect();
        assert_eq!(status(&many), 431);
        assert_eq!(
            parsed("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n")
                .unwrap()
                .length,
            usize::MAX
        );
        for text in [
            "GET\r\n\r\n",
            "GET / HTTP/2.0\r\n\r\n",
            "\u{16}\u{3}\r\n\r\n",
        ] {
            assert_eq!(parsed(text).err(), Some(400), "{text}");
        }
    }
}
