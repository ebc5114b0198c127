//! The requests to a server: an index is created before its first document, and documents are sent in
//! bulk requests of limited size.

use std::time::Duration;

use machine::net::http::quoted;
use state::exec::Exec;
use state::module::Error;
use value::json::{self, Layout};
use value::{Map, Value, log};

use super::super::web;
use super::{NAME, option};
use crate::exec::notify::{Answer, Message, Server};

/// The name of the service in errors.
const SERVICE: &str = "Elasticsearch";

/// The host, if the option `hosts` is not set.
const HOST: &str = "127.0.0.1:9200";

/// The seconds to wait for an answer, if the option `timeout` is not set.
const SECONDS: i64 = 60;

/// The maximum number of hosts.
const HOSTS_MAX: usize = 100;

/// The size of a bulk request in bytes at which it takes no further document.
const BULK_BYTES: usize = 5 << 20;

/// The maximum number of documents of a bulk request. Its answer then stays small.
const BULK_DOCUMENTS: usize = 500;

/// The maximum number of characters of a server's reason in a log.
const REASON_MAX: usize = 300;

/// The path of a bulk request. The answer has only what is read.
const BULK: &str =
    "_bulk?filter_path=errors,items.*.status,items.*.error.type,items.*.error.reason";

/// A document.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) index: String,
    /// Its type, for servers that have types.
    pub(super) kind: Option<String>,
    pub(super) id: String,
    pub(super) source: Map,
}

impl Document {
    /// Returns the two lines of a bulk request.
    fn lines(&self) -> String {
        let mut place = Map::new().with("_index", self.index.as_str());
        if let Some(kind) = &self.kind {
            place.insert("_type", kind.as_str());
        }
        let action = Map::new().with("index", place.with("_id", self.id.as_str()));
        let line = |map: Map| json::write(&map.into(), Layout::default());
        format!("{}\n{}\n", line(action), line(self.source.clone()))
    }
}

/// The servers of the options.
pub(super) struct Client {
    /// The base addresses, without a slash at the end, and the header `Authorization`.
    hosts: Vec<(String, Option<String>)>,
    server: Server,
    settings: Map,
}

impl Client {
    /// # Errors
    /// When an address is not valid.
    pub(super) fn new(cx: &Exec, ret: &Map) -> Result<Self, Error> {
        let get = |name: &str| option(cx, ret, name);
        let text = |name: &str| get(name).map(|found| found.to_text());
        let user = text("username").zip(text("password"));
        let user = user.map(|(user, password)| web::basic(&user, &password));
        let is_ssl = get("use_ssl").is_some_and(|found| found.is_true());
        let hosts = get("host").or_else(|| get("hosts"));
        let hosts = hosts.map_or_else(|| vec![HOST.to_owned()], |hosts| hosts.split_input());
        let hosts = hosts.iter().take(HOSTS_MAX);
        let hosts = hosts.map(|host| {
            let (url, own) = base(host, is_ssl)?;
            Ok((url, own.or_else(|| user.clone())))
        });
        let seconds = get("timeout").and_then(|found| found.as_int());
        let seconds = u64::try_from(seconds.unwrap_or(SECONDS).max(1)).unwrap_or(1);
        let number = |name: &str, default: i64| get(name).unwrap_or_else(|| default.into());
        Ok(Self {
            hosts: hosts.collect::<Result<_, Error>>()?,
            server: Server {
                timeout: Duration::from_secs(seconds),
                verify_ssl: get("verify_certs").is_none_or(|found| found.is_true()),
                ca_bundle: text("ca_certs").map(Into::into),
            },
            settings: Map::new()
                .with("number_of_shards", number("number_of_shards", 1))
                .with("number_of_replicas", number("number_of_replicas", 0)),
        })
    }

    /// Stores documents. One that the server refuses for its data is reported and left out.
    ///
    /// # Errors
    /// When a server refuses anything else, or none answers.
    pub(super) fn store(&self, cx: &Exec, documents: &[Document]) -> Result<(), Error> {
        let mut indices: Vec<&str> = documents.iter().map(|one| one.index.as_str()).collect();
        indices.sort_unstable();
        indices.dedup();
        for index in indices {
            self.ensure_index(cx, index)?;
        }
        let lines: Vec<String> = documents.iter().map(Document::lines).collect();
        let mut start = 0;
        while let Some(rest) = lines.get(start..).filter(|rest| !rest.is_empty()) {
            let end = start + web::fitting(rest, BULK_BYTES).min(BULK_DOCUMENTS);
            let now = start..end;
            let both = lines.get(now.clone()).zip(documents.get(now));
            let (lines, documents) = both.unwrap_or_default();
            self.send_bulk(cx, lines, documents)?;
            start = end;
        }
        Ok(())
    }

    /// Creates an index and its alias if it does not exist.
    fn ensure_index(&self, cx: &Exec, alias: &str) -> Result<(), Error> {
        let exists = self.request(cx, "HEAD", &quoted(alias), String::new())?;
        match exists.status {
            200..300 => return Ok(()),
            404 => {}
            _ => return Err(Error::refused(exists.describe())),
        }
        let index = quoted(&format!("{alias}-v1"));
        let definition = Map::new().with("settings", self.settings.clone());
        let definition = json::write(&definition.into(), Layout::default());
        let created = self.request(cx, "PUT", &index, definition)?;
        // Another process may have created it in the meantime.
        if !created.is_success() && !has_error(&created, "already_exists_exception") {
            return Err(Error::refused(created.describe()));
        }
        let path = format!("{index}/_alias/{}", quoted(alias));
        let named = self.request(cx, "PUT", &path, String::new())?;
        match named.is_success() {
            true => Ok(()),
            false => Err(Error::refused(named.describe())),
        }
    }

    /// Sends one bulk request. If it is too large for the server, its halves are sent.
    fn send_bulk(&self, cx: &Exec, lines: &[String], documents: &[Document]) -> Result<(), Error> {
        let answer = self.request(cx, "POST", BULK, lines.concat())?;
        match (answer.status, documents) {
            (200..300, _) => examine(&answer, documents),
            (413, [document]) => {
                leave_out(document, "it is larger than the server allows");
                Ok(())
            }
            (413, [_, _, ..]) => {
                let middle = documents.len() / 2;
                let (first, second) = documents.split_at(middle);
                let (first_lines, second_lines) = lines.split_at(middle);
                self.send_bulk(cx, first_lines, first)?;
                self.send_bulk(cx, second_lines, second)
            }
            _ => Err(Error::refused(answer.describe())),
        }
    }

    /// Sends a request to the first host that is available.
    fn request(
        &self,
        cx: &Exec,
        method: &'static str,
        path: &str,
        body: String,
    ) -> Result<Answer, Error> {
        let mut last = Err(Error::refused(format!("{SERVICE}: there is no host")));
        for (base, user) in &self.hosts {
            let url = format!("{base}/{path}");
            let mut message = match body.as_str() {
                "" => Message::get(SERVICE, &url),
                body => Message::post(SERVICE, &url, body.to_owned())
                    .header("Content-Type", content_type(method)),
            };
            message = message.method(method).server(&self.server);
            if let Some(user) = user {
                message = message.header("Authorization", user.as_str());
            }
            last = message.send(cx);
            if last
                .as_ref()
                .is_ok_and(|answer| !matches!(answer.status, 502..=504))
            {
                break;
            }
        }
        last
    }
}

const fn content_type(method: &str) -> &'static str {
    match method.as_bytes() {
        b"POST" => "application/x-ndjson",
        _ => "application/json",
    }
}

/// Returns the base address of a host, as Salt's library understands it: a port that is not given is
/// 9200, or 443 with https.
fn base(host: &str, is_ssl: bool) -> Result<(String, Option<String>), Error> {
    let named = |error: Error| Error::refused(format!("the option elasticsearch.hosts: {error}"));
    let is_url = host.contains("://");
    let scheme = if is_ssl { "https" } else { "http" };
    let url = match is_url {
        true => host.to_owned(),
        false => format!("{scheme}://{host}"),
    };
    let (url, user) = web::address(&url).map_err(named)?;
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let after = host.rsplit_once(']').map_or(host, |(_, after)| after);
    let port = match (after.contains(':'), is_url && scheme == "https") {
        (true, _) | (_, true) => "",
        (false, false) => ":9200",
    };
    let path = path.trim_end_matches('/');
    let slash = if path.is_empty() { "" } else { "/" };
    Ok((format!("{scheme}://{host}{port}{slash}{path}"), user))
}

fn has_error(answer: &Answer, end: &str) -> bool {
    let kind = answer.json().ok().and_then(|found| {
        let kind = found.get("error")?.get("type")?;
        Some(kind.to_text())
    });
    kind.is_some_and(|kind| kind.ends_with(end))
}

/// Examines the answer to a bulk request.
fn examine(answer: &Answer, documents: &[Document]) -> Result<(), Error> {
    let found = answer.json()?;
    let wrong = || {
        let text = "the answer to a bulk request does not have a result for each document";
        Error::refused(format!("{SERVICE}: {text}"))
    };
    let errors = found.get("errors").and_then(Value::as_bool);
    if !errors.ok_or_else(wrong)? {
        return Ok(());
    }
    let items = found.get("items").and_then(Value::as_list);
    let items = items.unwrap_or_default();
    if items.len() != documents.len() {
        return Err(wrong());
    }
    let mut failed = None;
    for (item, document) in items.iter().zip(documents) {
        let result = item.as_map().and_then(Map::first).map(|(_, result)| result);
        let result = result.ok_or_else(wrong)?;
        let status = result.get("status").and_then(Value::as_int);
        let part = |key: &str| {
            let found = result.get("error").and_then(|error| error.get(key));
            found.map(Value::to_text).unwrap_or_default()
        };
        let kind = part("type");
        let reason = format!("{kind}: {}", shortened(&part("reason")));
        match status.ok_or_else(wrong)? {
            200..300 => {}
            // Any other status is about the server: too many requests, a full disk, a missing right.
            400 if kind != "validation_exception" => leave_out(document, &reason),
            status => failed = failed.or_else(|| Some(format!("{status} {reason}"))),
        }
    }
    match failed {
        None => Ok(()),
        Some(why) => Err(Error::refused(format!("{SERVICE}: {why}"))),
    }
}

/// Returns the beginning of a reason, without the value that it is about.
fn shortened(reason: &str) -> String {
    let end = reason.find("Preview of field").unwrap_or(reason.len());
    let reason = reason.get(..end).unwrap_or_default().trim_end();
    reason.chars().take(REASON_MAX).collect()
}

fn leave_out(document: &Document, reason: &str) {
    log::error(format_args!(
        "returner {NAME}: the document {} of the index {} is not stored, because the server refuses its data: {reason}",
        document.id, document.index
    ));
}
