//! Fetches a `source` from the file roots, this machine, or the web. No other module fetches
//! sources.
//!
//! Files of local roots are used in place. Files from the web are stored in `cachedir/extrn_files`,
//! completely or not at all.
#![expect(
    clippy::disallowed_methods,
    reason = "a cache that is fetched again needs no barrier"
)]

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use machine::fs;
use machine::hashes;
use machine::net::http::{self, Request, Response};
use python::{base64, path};
use state::exec::Exec;
use state::module::Error;
use value::remove;

/// The parts of a URL, as Python's `urlparse` splits it. Plain paths have no scheme.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Url {
    /// The scheme, in lower case.
    pub(crate) scheme: String,
    /// The user, host and port.
    pub(crate) netloc: String,
    /// The path.
    pub(crate) path: String,
    /// The text after the `?`.
    pub(crate) query: String,
}

impl Url {
    /// Splits a URL.
    pub(crate) fn parse(url: &str) -> Self {
        let known = |scheme: &str| {
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c))
        };
        let (scheme, rest) = match url.split_once(':') {
            Some((scheme, rest)) if known(scheme) => (scheme.to_ascii_lowercase(), rest),
            _ => (String::new(), url),
        };
        let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (netloc, path) = match rest.strip_prefix("//") {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None => ("", rest),
        };
        Self {
            scheme,
            netloc: netloc.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
        }
    }

    /// Returns true for a source on the network.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(
            self.scheme.as_str(),
            "http" | "https" | "ftp" | "swift" | "s3"
        )
    }

    /// Returns true for a path of this machine.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.scheme.as_str(), "" | "file")
    }

    /// Returns the local path of a local URL.
    pub(crate) fn local_path(&self) -> String {
        path::join(&self.netloc, &self.path)
            .trim_end_matches('/')
            .to_owned()
    }
}

/// Returns the path below the roots of a `salt://` URL, and its environment if it contains one.
pub(crate) fn salt_path(url: &str) -> (String, Option<String>) {
    let Some(resource) = url.strip_prefix("salt://") else {
        return (url.to_owned(), None);
    };
    let (path, saltenv) = match resource.split_once("?saltenv=") {
        Some((path, saltenv)) => (path, Some(saltenv.to_owned())),
        None => (
            resource
                .split_once("?env=")
                .map_or(resource, |(path, _)| path),
            None,
        ),
    };
    let path = path.trim_start_matches('/');
    (path.strip_prefix('|').unwrap_or(path).to_owned(), saltenv)
}

/// Returns a URL without the password in it.
pub(crate) fn redacted(url: &str) -> String {
    let parts = Url::parse(url);
    match (parts.scheme.as_str(), parts.netloc.rsplit_once('@')) {
        ("http" | "https", Some((user, _))) => {
            url.replacen(&format!("//{user}@"), "//<redacted>@", 1)
        }
        _ => url.to_owned(),
    }
}

/// Returns the local path of a file in the roots.
pub(crate) fn salt_file(cx: &Exec, url: &str, saltenv: &str) -> Result<Option<String>, Error> {
    let (path, named) = salt_path(url);
    let saltenv = named.as_deref().unwrap_or(saltenv);
    let found = cx.shared.sources.file(&path, saltenv)?;
    Ok(found.map(|file| file.path.to_string_lossy().into_owned()))
}

/// Like [`salt_file`], but copies the file of the roots to the cache, and returns that path.
///
/// # Errors
/// When it cannot be fetched.
pub(crate) fn in_cache(
    cx: &Exec,
    url: &str,
    saltenv: &str,
    how: How<'_>,
) -> Result<Option<String>, Error> {
    if Url::parse(url).scheme != "salt" {
        return cached(cx, url, saltenv, how);
    }
    let Some(file) = salt_file(cx, url, saltenv)? else {
        return Ok(None);
    };
    let (path, named) = salt_path(url);
    let saltenv = named.as_deref().unwrap_or(saltenv);
    let place = cx.opts().cachedir().join("files").join(saltenv).join(path);
    let folder = place.parent().unwrap_or(&place);
    let hash = |path: &Path| hashes::of_file(&path.to_string_lossy(), "sha256").ok();
    if hash(&place).is_none() || hash(&place) != hash(Path::new(&file)) {
        fs::mkdirs_private(cx, folder).map_err(Error::io(folder))?;
        fs::copy_file(cx, Path::new(&file), &place).map_err(Error::io(&place))?;
    }
    Ok(Some(place.to_string_lossy().into_owned()))
}

/// The options of a fetch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How<'a> {
    /// The expected hash. A file in the cache with that hash is not fetched again.
    pub(crate) hash: Option<&'a str>,
    /// True if the server's certificate is verified.
    pub(crate) verify_ssl: bool,
    /// True to ask the server whether the file in the cache is still current (`ETag`).
    pub(crate) use_etag: bool,
}

impl Default for How<'_> {
    fn default() -> Self {
        Self {
            hash: None,
            verify_ssl: true,
            use_etag: false,
        }
    }
}

/// Returns the local path of a source, which is fetched first if necessary, as Salt's
/// `cp.cache_file` does. Returns `None` when the source does not exist.
///
/// # Errors
/// When it cannot be fetched.
pub(crate) fn cached(
    cx: &Exec,
    url: &str,
    saltenv: &str,
    how: How<'_>,
) -> Result<Option<String>, Error> {
    let parts = Url::parse(url);
    match parts.scheme.as_str() {
        "salt" => salt_file(cx, url, saltenv),
        "" | "file" => {
            let path = parts.local_path();
            if path::isabs(&path) {
                Ok(Some(path))
            } else {
                Err(format!("Path '{path}' is not absolute").into())
            }
        }
        "http" | "https" => {
            let place = external(cx, url, saltenv)?;
            if !how.hash.is_some_and(|wanted| has_hash(&place, wanted)) {
                download(cx, url, &place, how)?;
            }
            Ok(Some(place.to_string_lossy().into_owned()))
        }
        other => Err(format!(
            "Could not fetch from {}. Sources of the kind {other}:// are not supported: use salt://, http(s):// or a path",
            redacted(url)
        )
        .into()),
    }
}

fn has_hash(path: &Path, wanted: &str) -> bool {
    let wanted = wanted.rsplit_once('=').map_or(wanted, |(_, hash)| hash);
    let Some(kind) = hashes::of_length(wanted.len()) else {
        return false;
    };
    hashes::of_file(&path.to_string_lossy(), kind).is_ok_and(|hash| hash == wanted)
}

/// Returns the path in the cache for a file from the web.
pub(crate) fn external(cx: &Exec, url: &str, saltenv: &str) -> Result<PathBuf, Error> {
    let parts = Url::parse(url);
    let host = parts.netloc.rsplit('@').next().unwrap_or_default();
    let host = host.replace(':', "");
    // As in Salt, a URL of a folder is stored under the folder's name.
    let mut name = parts.path.trim_end_matches('/').to_owned();
    if !parts.query.is_empty() {
        name = format!("{name}-{}", parts.query);
    }
    let climbs = |text: &str| text.split('/').any(|part| part == "..");
    if climbs(&name) || climbs(saltenv) || host == ".." {
        return Err(format!("The path of {} is outside of the cache", redacted(url)).into());
    }
    if name.len() > 127 {
        name = hashes::of_bytes(name.as_bytes(), "sha256")?;
    }
    let folder = cx.opts().cachedir().join("extrn_files").join(saltenv);
    Ok(folder.join(host).join(name.trim_start_matches('/')))
}

/// Returns the path of a source in the cache, if it is there. Nothing else is checked. This is
/// Salt's `cp.is_cached`.
pub(crate) fn is_cached(cx: &Exec, url: &str, saltenv: &str) -> Option<String> {
    let (path, named) = salt_path(url);
    let saltenv = named.as_deref().unwrap_or(saltenv);
    let below = path.trim_start_matches(['|', '/']);
    let cachedir = cx.opts().cachedir();
    let places = [
        cachedir.join("files").join(saltenv).join(below),
        cachedir.join("localfiles").join(below),
    ];
    let external = external(cx, &path, saltenv).ok();
    places
        .into_iter()
        .chain(external)
        .find(|place| place.exists())
        .map(|place| place.to_string_lossy().into_owned())
}

/// Splits a URL with user and password into the URL without them and the header that carries them.
fn credentials(url: &str) -> (String, Option<String>) {
    let parts = Url::parse(url);
    match parts.netloc.rsplit_once('@') {
        Some((login, _)) => (
            url.replacen(&format!("{login}@"), "", 1),
            Some(format!("Basic {}", base64::encode(login.as_bytes()))),
        ),
        None => (url.to_owned(), None),
    }
}

fn request(cx: &Exec, url: &str) -> Request {
    let (plain, login) = credentials(url);
    let mut request = Request::get(&plain, cx.opts());
    request.headers.push(("User-Agent".into(), "Salt".into()));
    if let Some(login) = login {
        request.headers.push(("Authorization".into(), login));
    }
    request
}

/// Returns true when the URL exists on the web.
pub(crate) fn answers(cx: &Exec, url: &str) -> bool {
    let mut request = request(cx, url);
    request.method = "HEAD".into();
    http::fetch(&request).is_ok_and(|response| response.status < 400)
}

/// Converts a failed response to an error in Salt's words.
fn taken(url: &str, asked: Result<Response, http::Error>) -> Result<Response, Error> {
    let path = Url::parse(url).path;
    let refused = |reason: String| Error::refused(format!("Error: {reason} reading {path}"));
    let response = asked.map_err(|error| refused(error.reason()))?;
    if response.is_success() {
        return Ok(response);
    }
    let (status, reason) = (response.status, response.reason());
    Err(refused(format!("HTTP {status}: {reason}")))
}

/// Returns the contents of a URL.
///
/// # Errors
/// When it does not exist, or is too large for memory.
pub(crate) fn content(cx: &Exec, url: &str) -> Result<Vec<u8>, Error> {
    Ok(taken(url, http::fetch(&request(cx, url)))?.body)
}

/// Fetches a URL to a file. It is written under another name and renamed, so the file at `place` is
/// always complete.
///
/// # Errors
/// When it cannot be fetched or written.
pub(crate) fn download(cx: &Exec, url: &str, place: &Path, how: How<'_>) -> Result<(), Error> {
    let folder = place.parent().unwrap_or(place);
    fs::mkdirs_private(cx, folder).map_err(Error::io(folder))?;
    let [part, tag] = [".part", ".etag"].map(|end| {
        let mut name = place.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    });
    let mut request = request(cx, url);
    request.verify_ssl = how.verify_ssl;
    if how.use_etag
        && place.exists()
        && let Ok(known) = fs::text(&tag)
    {
        let known = known.trim().to_owned();
        request.headers.push(("If-None-Match".into(), known));
    }
    // Remove the file of an interrupted fetch first, so that nothing is written through a link.
    remove::or_log(&part, std::fs::remove_file(&part));
    let done = fetched(url, &request, &part).and_then(|response| {
        if response.status == NOT_MODIFIED {
            return std::fs::remove_file(&part).map_err(Error::io(&part));
        }
        // A tag must never be stored with a file that it was not sent for, even after a power
        // failure.
        remove::or_log(&tag, std::fs::remove_file(&tag));
        let given = response.header("etag").filter(|_| how.use_etag);
        if given.is_some() {
            synced(&part)?;
        }
        std::fs::rename(&part, place).map_err(Error::io(place))?;
        let Some(given) = given else { return Ok(()) };
        synced(folder)?;
        std::fs::write(&tag, given).map_err(Error::io(&tag))
    });
    if done.is_err() {
        remove::or_log(&part, std::fs::remove_file(&part));
    }
    done
}

/// Waits until a file, or the entries of a folder, are on the disk.
fn synced(path: &Path) -> Result<(), Error> {
    let opened = fs::open(path)?;
    opened.sync_all().map_err(Error::io(path))
}

/// The status of a response when the requester's version is current.
const NOT_MODIFIED: u16 = 304;

fn fetched(url: &str, request: &Request, part: &Path) -> Result<Response, Error> {
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(part)
        .map_err(Error::io(part))?;
    match http::download(request, part, &mut file) {
        Ok(same) if same.status == NOT_MODIFIED => Ok(same),
        asked => taken(url, asked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::tests::server;

    #[test]
    fn a_folder_of_a_web_server_is_a_file_of_the_cache() {
        let opts = value::Map::new().with("cachedir", "/c");
        let cx = crate::testing::exec_with(opts, value::Map::new());
        let place = |url: &str| external(&cx, url, "base").unwrap();
        let cached = Path::new("/c/extrn_files/base/h8080/dir");
        assert_eq!(place("http://h:8080/dir/"), cached);
        assert_eq!(place("http://h:8080/dir"), cached);
    }

    #[test]
    fn urls_come_apart_as_in_python() {
        let url = Url::parse("https://user:pw@host:8080/a/b?x=1#y");
        assert_eq!((&*url.scheme, &*url.netloc), ("https", "user:pw@host:8080"));
        assert_eq!((&*url.path, &*url.query), ("/a/b", "x=1"));
        assert_eq!(Url::parse("/a:b").scheme, "");
        assert_eq!(Url::parse("file:///etc/x").local_path(), "/etc/x");
        assert_eq!(redacted("http://u:p@h/x"), "http://<redacted>@h/x");
    }

    #[test]
    fn salt_urls_name_a_path_and_maybe_an_environment() {
        assert_eq!(
            salt_path("salt://a/b?saltenv=dev"),
            ("a/b".into(), Some("dev".into()))
        );
        assert_eq!(salt_path("salt://|a b"), ("a b".into(), None));
    }

    #[test]
    fn what_comes_from_the_web_lies_in_the_cache_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let cachedir = folder.path().display().to_string();
        let opts = value::Map::new().with("cachedir", cachedir);
        let cx = crate::testing::exec_with(opts, value::Map::new());
        let address = server::start(|head, _| match head {
            head if head.contains(" /gone") => server::text("404 Not Found", "", "no"),
            _ => server::text("200 OK", "", "web"),
        });
        let url = format!("{address}/a/f?x=1");
        let place = cached(&cx, &url, "base", How::default()).unwrap().unwrap();
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "web");
        assert!(place.ends_with("/a/f-x=1"));
        assert_eq!(is_cached(&cx, &url, "base"), Some(place));
        let gone = format!("{address}/gone");
        let error = cached(&cx, &gone, "base", How::default())
            .unwrap_err()
            .to_string();
        assert_eq!(error, "Error: HTTP 404: Not Found reading /gone");
        assert_eq!(is_cached(&cx, &gone, "base"), None);
        assert!(external(&cx, "http://h/../../etc/x", "base").is_err());
    }

    #[test]
    fn what_the_server_says_is_still_the_same_is_not_fetched_again() {
        let folder = tempfile::tempdir().unwrap();
        let cachedir = folder.path().display().to_string();
        let opts = value::Map::new().with("cachedir", cachedir);
        let cx = crate::testing::exec_with(opts, value::Map::new());
        let address = server::start(|head, _| {
            if head.to_lowercase().contains("if-none-match: \"one\"") {
                return server::text("304 Not Modified", "ETag: \"one\"\r\n", "");
            }
            server::text("200 OK", "ETag: \"one\"\r\n", "web")
        });
        let url = format!("{address}/f");
        let how = How {
            use_etag: true,
            ..How::default()
        };
        let fetched = |how| cached(&cx, &url, "base", how).unwrap().unwrap();
        let place = fetched(how);
        // The cached file is kept as long as the server has nothing newer.
        std::fs::write(&place, "left").unwrap();
        assert_eq!(fetched(how), place);
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "left");
        // Without the tag's file, or without this option, it is fetched again.
        fetched(How::default());
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "web");
        std::fs::write(&place, "left").unwrap();
        assert_eq!(fetched(how), place);
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "web");
    }
}
