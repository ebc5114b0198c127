//! Ubuntu's personal package archives: `ppa:OWNER/NAME`.

use machine::net::http;
use machine::process::{self, Process};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::line::Line;
use crate::exec::pkg::repositories::Request;

/// Returns true for `ppa:…` on a system that supports such archives.
pub(super) fn is_known(cx: &Exec, repo: &str) -> bool {
    let os = cx.grain("os");
    repo.starts_with("ppa:") && ["Ubuntu", "Mint", "neon"].contains(&os.as_str())
}

fn parts(repo: &str) -> Result<(&str, &str), Error> {
    let bare = repo.strip_prefix("ppa:").unwrap_or(repo);
    bare.split_once('/').ok_or_else(|| {
        Error::refused(format!(
            "Unable to get PPA info from argument. Expected format \"<PPA_OWNER>/<PPA_NAME>\" (e.g. saltstack/salt) not found.  Received '{bare}' instead."
        ))
    })
}

/// Returns the full definition of an archive. Any other definition is returned unchanged.
pub(super) fn spelled_out(cx: &Exec, repo: &str, kwargs: &Map) -> Result<String, Error> {
    if !is_known(cx, repo) {
        return Ok(repo.to_owned());
    }
    let (owner, name) = parts(repo)?;
    let dist = cx.grain("oscodename");
    Ok(
        match kwargs.get("ppa_auth").filter(|login| login.is_true()) {
            Some(login) => format!(
                "deb https://{}@private-ppa.launchpad.net/{owner}/{name}/ubuntu {dist} main",
                login.to_text()
            ),
            None => format!("deb http://ppa.launchpad.net/{owner}/{name}/ubuntu {dist} main"),
        },
    )
}

/// Returns the address with the login of a private archive.
pub(super) fn with_login(mut line: Line, kwargs: &Map) -> Line {
    let login = kwargs.get("ppa_auth").filter(|login| login.is_true());
    if let (Some(login), Some((scheme, rest))) = (login, line.uri.split_once("://")) {
        let login = login.to_text();
        if !rest.starts_with(&login) {
            line.uri = format!("{scheme}://{login}@{rest}");
        }
    }
    line
}

/// The result of adding an archive.
pub(super) enum Added {
    /// The archive is added; the value is the return of `pkg.mod_repo`.
    Done(Value),
    /// The archive must be added like any other source.
    Definition(String),
}

/// Adds an archive with `apt-add-repository`. Where that is not possible, gets the same data from
/// Launchpad.
///
/// # Errors
/// When the archive does not exist.
pub(super) fn added(cx: &Exec, request: &Request<'_>, kwargs: &mut Map) -> Result<Added, Error> {
    let repo = request.repo;
    if !is_known(cx, repo) {
        return Err(Error::refused(format!(
            "cannot parse \"ppa:\" style repo definitions: {repo}"
        )));
    }
    let definition = spelled_out(cx, repo, kwargs)?;
    let private = kwargs.get("ppa_auth").is_some_and(Value::is_true);
    if private || process::which("apt-add-repository").is_none() {
        let (owner, name) = parts(repo)?;
        defaults(cx, owner, name, private, kwargs)?;
        return Ok(Added::Definition(definition));
    }
    let found = super::Sources::read()?.find(&Line::parse(&definition)?);
    if let Some(found) = found {
        return Ok(Added::Done(Map::new().with(repo, found).into()));
    }
    let words = ["apt-add-repository", "-y", repo];
    let mut process = Process::words(words);
    if let Some(proxy) = super::keys::proxy(cx, "") {
        process.env.insert("http_proxy", proxy.as_str());
        process.env.insert("https_proxy", proxy);
    }
    let output = process.run(cx)?;
    if !output.success() {
        let shown = words.map(|word| format!("'{word}'")).join(", ");
        return Err(Error::refused(format!(
            "Unable to add PPA '{}'. '[{shown}]' exited with status {}: '{}'",
            repo.trim_start_matches("ppa:"),
            output.retcode.unwrap_or_default(),
            output.stderr
        )));
    }
    if crate::exec::pkg::repositories::wants_refresh(kwargs) {
        crate::exec::pkg::repositories::refresh(cx)?;
    }
    let answer = Map::new().with(repo, output.to_map());
    Ok(Added::Done(answer.into()))
}

/// Sets file, key and key server of an archive if the arguments do not name them.
fn defaults(
    cx: &Exec,
    owner: &str,
    name: &str,
    private: bool,
    kwargs: &mut Map,
) -> Result<(), Error> {
    let dist = cx.grain("oscodename");
    kwargs.insert("dist", dist.as_str());
    kwargs.entry("file", || {
        format!("/etc/apt/sources.list.d/{owner}-{name}-{dist}.list").into()
    });
    if private && !kwargs.contains("keyid") {
        return Err(Error::refused(format!(
            "Private PPAs require a keyid to be specified: {owner}/{name}"
        )));
    }
    if !private {
        kwargs.insert("keyid", fingerprint(cx, owner, name)?);
    }
    kwargs.entry("keyserver", || "keyserver.ubuntu.com".into());
    Ok(())
}

/// Returns the fingerprint of an archive's key, from Launchpad.
///
/// # Errors
/// When Launchpad does not know it.
pub(super) fn fingerprint(cx: &Exec, owner: &str, name: &str) -> Result<String, Error> {
    let url = format!("https://launchpad.net/api/1.0/~{owner}/+archive/{name}");
    let mut request = http::Request::get(&url, cx.opts());
    request
        .headers
        .push(("Accept".to_owned(), "application/json".to_owned()));
    let unknown = |why: String| {
        Error::refused(format!(
            "Launchpad does not know about {owner}/{name}: {why}"
        ))
    };
    let response = http::fetch(&request).map_err(|error| unknown(error.reason()))?;
    if !response.is_success() {
        return Err(unknown(format!(
            "HTTP Error {}: {}",
            response.status,
            response.reason()
        )));
    }
    let text = String::from_utf8_lossy(&response.body);
    let said = value::json::read(&text).unwrap_or_default();
    match said.get("signing_key_fingerprint").and_then(Value::as_str) {
        Some(fingerprint) => Ok(fingerprint.to_owned()),
        None => Err(Error::refused(format!(
            "Launchpad knows about {owner}/{name} but did not return a fingerprint. Please set keyid manually"
        ))),
    }
}

/// Returns the last eight digits of the fingerprint of `ppa:OWNER/NAME`.
///
/// # Errors
/// When it is not such an archive, or Launchpad does not know it.
pub(crate) fn short_key(cx: &Exec, repo: &str) -> Result<String, Error> {
    if !repo.starts_with("ppa:") {
        return Err("keyid_ppa requires that a PPA be passed".into());
    }
    let (owner, name) = parts(repo)?;
    let fingerprint = fingerprint(cx, owner, name)?;
    let start = fingerprint.len().saturating_sub(8);
    Ok(fingerprint.get(start..).unwrap_or_default().to_owned())
}
