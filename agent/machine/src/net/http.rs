//! HTTP for this crate: requests with deadlines and limits, into memory or to a file.
//!
//! Certificates are verified unless the request explicitly disables that. Only http and https are
//! accepted, also for redirects.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use state::opts::Opts;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};

/// The maximum size, in bytes, of a body that is read into memory.
pub const MAX_BODY: u64 = 64 << 20;

/// The maximum size, in bytes, of a body that is written to a file (Salt's `http_max_body`).
pub const MAX_FILE: u64 = 100 << 30;

/// The maximum number of redirects that are followed.
pub const MAX_REDIRECTS: u32 = 5;

/// The files in which distributions store trusted certificates.
const BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/tls/certs/ca-bundle.trust.crt",
    "/etc/ssl/certs/ca-bundle.crt",
    "/var/lib/ca-certificates/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The reason why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection, the name or the protocol failed.
    #[error("{url}: {source}")]
    Failed {
        /// The address, without its password.
        url: String,
        /// The reason.
        source: Box<ureq::Error>,
    },
    /// The address uses neither http nor https.
    #[error("Unsupported url scheme: {0}")]
    Scheme(String),
    /// There are no trusted certificates to verify the server with.
    #[error(
        "{0}: this machine has no trusted CA certificates: install the package ca-certificates or ca-bundle, or set ca_bundle to a file with them"
    )]
    NoCertificates(String),
    /// The body exceeds the limit.
    #[error("{url}: the body is longer than the limit of {limit} bytes")]
    TooLarge {
        /// The address.
        url: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The path of the file.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The body ended early.
    #[error("{url}: {source}")]
    Body {
        /// The address.
        url: String,
        /// The reason.
        source: std::io::Error,
    },
}

impl Error {
    /// Returns the reason without the address. An error of the system has Python's text.
    #[must_use]
    pub fn reason(&self) -> String {
        let io = match self {
            Self::Failed { source, .. } => match &**source {
                ureq::Error::Io(io) => io,
                other => return other.to_string(),
            },
            Self::File { source, .. } | Self::Body { source, .. } => source,
            other => return other.to_string(),
        };
        let text = io.to_string();
        match (io.raw_os_error(), text.split(" (os error").next()) {
            (Some(code), Some(reason)) => format!("[Errno {code}] {reason}"),
            _ => unresolved(&text).unwrap_or(text),
        }
    }
}

/// Returns Python's message for a name that could not be resolved. The resolver's error code is not
/// available here, only its text in glibc's or musl's words.
fn unresolved(text: &str) -> Option<String> {
    let said = text.split_once("failed to lookup address information: ")?.1;
    let (code, words) = match said {
        "Temporary failure in name resolution" | "Try again" => {
            (-3, "Temporary failure in name resolution")
        }
        "Non-recoverable failure in name resolution" | "Non-recoverable error" => {
            (-4, "Non-recoverable failure in name resolution")
        }
        "No address associated with hostname" | "Name has no usable address" => {
            (-5, "No address associated with hostname")
        }
        "Name or service not known" | "Name does not resolve" => (-2, "Name or service not known"),
        _ => return None,
    };
    Some(format!("[Errno {code}] {words}"))
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// The address, http or https.
    pub url: String,
    /// The method, `GET` and the like.
    pub method: String,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The body to send.
    pub body: Option<Vec<u8>>,
    /// True to verify the server's certificate; false accepts any.
    pub verify_ssl: bool,
    /// The file of trusted certificates; `None` means the system's.
    pub ca_bundle: Option<PathBuf>,
    /// The maximum time to wait for a connection.
    pub connect_timeout: Duration,
    /// The maximum time for the whole request.
    pub timeout: Duration,
    /// The maximum size of the body in bytes; `None` means [`MAX_BODY`] or [`MAX_FILE`].
    pub max_body: Option<u64>,
    /// The maximum number of redirects that are followed. With 0 a redirect is the response.
    pub max_redirects: u32,
    /// The proxy's address, including its user.
    pub proxy: Option<String>,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; empty where it was written to a file.
    pub body: Vec<u8>,
}

impl Response {
    /// Returns a header's value by its name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the text for the status (`Not Found`).
    #[must_use]
    pub fn reason(&self) -> &'static str {
        let status = ureq::http::StatusCode::from_u16(self.status).ok();
        status
            .and_then(|status| status.canonical_reason())
            .unwrap_or("Unknown")
    }

    /// Returns true for a status from 200 to 299.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Request {
    /// Creates a `GET` request with the deadlines, proxy and certificates of the configuration.
    #[must_use]
    pub fn get(url: &str, opts: &Opts) -> Self {
        let seconds = |name: &str, default: u64| {
            let given = opts.int(name).and_then(|number| u64::try_from(number).ok());
            Duration::from_secs(given.unwrap_or(default))
        };
        let limit = opts
            .int("http_max_body")
            .and_then(|number| u64::try_from(number).ok());
        Self {
            url: url.to_owned(),
            method: "GET".to_owned(),
            headers: Vec::new(),
            body: None,
            verify_ssl: true,
            ca_bundle: opts.text("ca_bundle").map(PathBuf::from),
            connect_timeout: seconds("http_connect_timeout", 20),
            timeout: seconds("http_request_timeout", 3600),
            max_body: limit,
            max_redirects: MAX_REDIRECTS,
            proxy: proxy(url, opts),
        }
    }
}

/// Returns the proxy of the configuration, unless `no_proxy` names the host.
fn proxy(url: &str, opts: &Opts) -> Option<String> {
    let host = opts.text("proxy_host").filter(|host| !host.is_empty())?;
    let port = opts.int("proxy_port").filter(|port| *port > 0)?;
    let target: ureq::http::Uri = url.parse().ok()?;
    let target = target.host().unwrap_or_default();
    if opts.texts("no_proxy").iter().any(|known| known == target) {
        return None;
    }
    let user = match (opts.text("proxy_username"), opts.text("proxy_password")) {
        (Some(name), Some(password)) => format!("{name}:{password}@"),
        _ => String::new(),
    };
    Some(format!("http://{user}{host}:{port}"))
}

/// Returns the text with `%` escapes, for use in an address.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                quoted.push(char::from(byte));
            }
            other => quoted.push_str(&format!("%{other:02X}")),
        }
    }
    quoted
}

/// Sends a request and reads the body into memory. An error status is a response too, not an error.
///
/// # Errors
/// When there is no complete response within the deadlines and limits.
pub fn fetch(request: &Request) -> Result<Response, Error> {
    let mut body = Vec::new();
    let limit = request.max_body.unwrap_or(MAX_BODY).min(MAX_BODY);
    let response = run(request, &mut body, limit, true, &|source| Error::Body {
        url: redacted(&request.url),
        source,
    })?;
    Ok(Response { body, ..response })
}

/// Sends a request and writes the body of a successful response to a file as it arrives.
///
/// # Errors
/// When there is no complete response within the deadlines and limits, or the file cannot be
/// written.
pub fn download(request: &Request, path: &Path, file: &mut File) -> Result<Response, Error> {
    let limit = request.max_body.unwrap_or(MAX_FILE);
    run(request, file, limit, false, &|source| Error::File {
        path: path.display().to_string(),
        source,
    })
}

/// Sends a request and writes the body to `to`. The body of a failure is written only with
/// `failures`.
fn run(
    request: &Request,
    to: &mut dyn Write,
    limit: u64,
    failures: bool,
    failed: &dyn Fn(std::io::Error) -> Error,
) -> Result<Response, Error> {
    let scheme = request
        .url
        .split_once("://")
        .map(|(scheme, _)| scheme.to_ascii_lowercase());
    if !matches!(scheme.as_deref(), Some("http" | "https")) {
        return Err(Error::Scheme(redacted(&request.url)));
    }
    let refused = |source: ureq::Error| Error::Failed {
        url: redacted(&request.url),
        source: Box::new(source),
    };
    let agent = agent(request)?;
    let answered = match &request.body {
        Some(body) => message(request, body.as_slice()).and_then(|message| agent.run(message)),
        None => message(request, ()).and_then(|message| agent.run(message)),
    };
    let answered = answered.map_err(refused)?;
    let headers = answered.headers().iter();
    let headers = headers.map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.as_str().to_owned(), value)
    });
    let response = Response {
        status: answered.status().as_u16(),
        headers: headers.collect(),
        body: Vec::new(),
    };
    if response.is_success() || failures {
        let from = answered.into_body().into_reader();
        copy(from, to, limit, request, failed)?;
    }
    Ok(response)
}

fn message<T>(request: &Request, body: T) -> Result<ureq::http::Request<T>, ureq::Error> {
    let mut message = ureq::http::Request::builder()
        .method(request.method.as_str())
        .uri(&request.url);
    for (name, value) in &request.headers {
        message = message.header(name, value);
    }
    message.body(body).map_err(ureq::Error::Http)
}

/// Copies a body, and stops when it exceeds its limit.
fn copy(
    mut from: impl Read,
    to: &mut dyn Write,
    limit: u64,
    request: &Request,
    failed: &dyn Fn(std::io::Error) -> Error,
) -> Result<(), Error> {
    let mut buffer = vec![0; 65_536];
    let mut total = 0;
    loop {
        let length = from.read(&mut buffer).map_err(|source| Error::Body {
            url: redacted(&request.url),
            source,
        })?;
        if length == 0 {
            return Ok(());
        }
        total += u64::try_from(length).unwrap_or(u64::MAX);
        if total > limit {
            return Err(Error::TooLarge {
                url: redacted(&request.url),
                limit,
            });
        }
        to.write_all(buffer.get(..length).unwrap_or_default())
            .map_err(failed)?;
    }
}

fn agent(request: &Request) -> Result<ureq::Agent, Error> {
    let refused = |source: ureq::Error| Error::Failed {
        url: redacted(&request.url),
        source: Box::new(source),
    };
    let proxy = request
        .proxy
        .as_deref()
        .map(ureq::Proxy::new)
        .transpose()
        .map_err(refused)?;
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .allow_non_standard_methods(true)
        .max_redirects(request.max_redirects)
        .proxy(proxy)
        .tls_config(tls(request)?)
        .timeout_connect(Some(request.connect_timeout))
        .timeout_global(Some(request.timeout));
    Ok(config.build().new_agent())
}

// This is needed for http as well, because a redirect may lead to https.
fn tls(request: &Request) -> Result<TlsConfig, Error> {
    let provider = rustls::crypto::ring::default_provider();
    let config = TlsConfig::builder().unversioned_rustls_crypto_provider(Arc::new(provider));
    if !request.verify_ssl {
        return Ok(config.disable_verification(true).build());
    }
    let certificates = trusted(request.ca_bundle.as_deref())?;
    if certificates.is_empty() && request.url.to_ascii_lowercase().starts_with("https:") {
        return Err(Error::NoCertificates(redacted(&request.url)));
    }
    let roots = RootCerts::Specific(Arc::new(certificates));
    Ok(config.root_certs(roots).build())
}

/// Returns the trusted certificates: of the named bundle, else the system's.
pub(super) fn trusted(named: Option<&Path>) -> Result<Vec<Certificate<'static>>, Error> {
    let found = BUNDLES.iter().map(Path::new).find(|path| path.is_file());
    let Some(path) = named.or(found) else {
        return Ok(Vec::new());
    };
    let bytes = crate::fs::raw::read(path).map_err(|source| Error::File {
        path: path.display().to_string(),
        source,
    })?;
    let certificates = ureq::tls::parse_pem(&bytes).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    Ok(certificates.collect())
}

/// Returns an address for messages, without its password.
fn redacted(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (host, path) = rest
        .find('/')
        .and_then(|at| rest.split_at_checked(at))
        .unwrap_or((rest, ""));
    match host.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://<redacted>@{host}{path}"),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use ::tests::server;

    use super::*;

    fn answer(head: &str, body: &str) -> String {
        if head.starts_with("GET /file") {
            server::text("302 Found", "Location: file:///etc/passwd\r\n", "")
        } else if head.starts_with("GET /here") {
            server::text("302 Found", "Location: /there\r\n", "")
        } else if head.starts_with("GET /loop") {
            server::text("302 Found", "Location: /loop\r\n", "")
        } else if head.starts_with("GET /404") {
            server::text("404 Not Found", "", "nope")
        } else {
            server::text(
                "200 OK",
                "X-Test: yes\r\n",
                &format!("{}|{body}", head.lines().next().unwrap()),
            )
        }
    }

    fn request(path: &str) -> Request {
        let address = server::start(answer);
        Request::get(&format!("{address}{path}"), &Opts::default())
    }

    #[test]
    fn a_name_that_is_not_known_is_told_in_pythons_words() {
        let told = |said: &str| {
            let text = format!("failed to lookup address information: {said}");
            let source = Box::new(ureq::Error::Io(std::io::Error::other(text)));
            let url = "http://nosuch.invalid/".to_owned();
            Error::Failed { url, source }.reason()
        };
        for said in ["Try again", "Temporary failure in name resolution"] {
            let words = "[Errno -3] Temporary failure in name resolution";
            assert_eq!(told(said), words);
        }
        for said in ["Name does not resolve", "Name or service not known"] {
            assert_eq!(told(said), "[Errno -2] Name or service not known");
        }
    }

    #[test]
    fn what_joins_parts_of_an_address_is_escaped_in_one() {
        assert_eq!(quoted("a b/c&d:é"), "a%20b%2Fc%26d%3A%C3%A9");
    }

    #[test]
    fn a_body_comes_with_its_status_and_headers() {
        let mut request = request("/x");
        request.method = "POST".to_owned();
        request.body = Some(b"data".to_vec());
        let response = fetch(&request).unwrap();
        assert_eq!((response.status, response.reason()), (200, "OK"));
        assert_eq!(response.header("x-test"), Some("yes"));
        assert_eq!(response.body, b"POST /x HTTP/1.1|data");
        let missing = fetch(&self::request("/404")).unwrap();
        assert!(!missing.is_success());
    }

    #[test]
    fn redirects_are_followed_to_http_only_and_not_forever() {
        assert_eq!(
            fetch(&request("/here")).unwrap().body,
            b"GET /there HTTP/1.1|"
        );
        assert!(fetch(&request("/file")).is_err());
        assert!(fetch(&request("/loop")).is_err());
        let mut unfollowed = request("/here");
        unfollowed.max_redirects = 0;
        assert_eq!(fetch(&unfollowed).unwrap().status, 302);
        let file = Request::get("file:///etc/passwd", &Opts::default());
        assert!(matches!(fetch(&file), Err(Error::Scheme(_))));
    }

    #[test]
    fn a_body_past_the_limit_is_refused() {
        let mut request = request("/long");
        request.max_body = Some(5);
        assert!(matches!(
            fetch(&request),
            Err(Error::TooLarge { limit: 5, .. })
        ));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let mut file = File::create(&path).unwrap();
        request.max_body = None;
        assert_eq!(download(&request, &path, &mut file).unwrap().status, 200);
        assert_eq!(std::fs::read(&path).unwrap(), b"GET /long HTTP/1.1|");
    }

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(redacted("https://u:p@h/x@y"), "https://<redacted>@h/x@y");
        assert_eq!(redacted("http://h/x"), "http://h/x");
    }

    #[test]
    fn a_proxy_is_used_but_for_the_hosts_that_are_excepted() {
        let map = value::Map::new()
            .with("proxy_host", "p")
            .with("proxy_port", 3128);
        let opts = Opts::new(map.with("no_proxy", value::Value::list(["inside".into()])));
        assert_eq!(
            Request::get("http://a/", &opts).proxy.as_deref(),
            Some("http://p:3128")
        );
        assert_eq!(Request::get("http://inside/", &opts).proxy, None);
    }
}
