//! Sends messages to the services of notifications over HTTP. Addresses, headers and bodies contain
//! secrets and are never in an error or a log. An answer is limited in size and time.

use std::path::PathBuf;
use std::time::Duration;

use machine::net::http::{self, Request};
use state::exec::Exec;
use state::module::{Error, Ret};
use value::json::Layout;
use value::{Map, Value, json, secret};

use super::http::{AGENT, form};

/// The maximum time to wait for an answer. `http_request_timeout` can only shorten it.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The maximum size of the answer to a message, in bytes. `http_max_body` can only lower it.
const MAX_ANSWER: u64 = 1 << 20;

/// The maximum size of a list, in bytes: of users, for example.
const MAX_LIST: u64 = 16 << 20;

/// The maximum number of characters of an answer in a return, an error or a log.
const SHOWN_MAX: usize = 1000;

/// A request to a service.
pub(crate) struct Message<'a> {
    /// The name of the service in errors.
    service: &'static str,
    method: &'static str,
    url: &'a str,
    headers: Vec<(String, String)>,
    body: Option<String>,
    /// The limits and certificates of a returner's server, if they are not the defaults.
    server: Option<&'a Server>,
}

/// The options of a server that is not a service of notifications.
#[derive(Debug)]
pub(crate) struct Server {
    /// The maximum time to wait for an answer.
    pub(crate) timeout: Duration,
    /// False if any certificate is accepted.
    pub(crate) verify_ssl: bool,
    /// The file of trusted certificates.
    pub(crate) ca_bundle: Option<PathBuf>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            timeout: TIMEOUT,
            verify_ssl: true,
            ca_bundle: None,
        }
    }
}

/// The answer of a service.
#[derive(Debug)]
pub(crate) struct Answer {
    service: &'static str,
    host: String,
    pub(crate) status: u16,
    pub(crate) reason: &'static str,
    body: String,
}

impl<'a> Message<'a> {
    /// Creates a request without a body.
    pub(crate) fn get(service: &'static str, url: &'a str) -> Self {
        Self {
            service,
            method: "GET",
            url,
            headers: vec![("User-Agent".to_owned(), AGENT.to_owned())],
            body: None,
            server: None,
        }
    }

    /// Creates a request with a body and no content type.
    pub(crate) fn post(service: &'static str, url: &'a str, body: String) -> Self {
        Self {
            method: "POST",
            body: Some(body),
            ..Self::get(service, url)
        }
    }

    /// Sets the method.
    pub(crate) fn method(mut self, method: &'static str) -> Self {
        self.method = method;
        self
    }

    /// Creates a request whose body has the fields of a form.
    pub(crate) fn form(service: &'static str, url: &'a str, fields: &Map) -> Self {
        Self {
            method: "POST",
            body: Some(form(fields)),
            ..Self::get(service, url)
        }
        .header("Content-Type", "application/x-www-form-urlencoded")
    }

    /// Creates a request whose body is JSON.
    pub(crate) fn json(service: &'static str, url: &'a str, body: &Value) -> Self {
        Self {
            method: "POST",
            body: Some(json::write(body, Layout::default())),
            ..Self::get(service, url)
        }
        .header("Content-Type", "application/json")
    }

    /// Adds a header.
    pub(crate) fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Sets the options of the server.
    pub(crate) fn server(mut self, server: &'a Server) -> Self {
        self.server = Some(server);
        self
    }

    /// Sends the request. A refusal by the service is an answer, not an error. A redirect is an
    /// error, because it would send the message and its secrets to another address.
    ///
    /// # Errors
    /// When there is no complete answer within the limits, or it is a redirect.
    pub(crate) fn send(self, cx: &Exec) -> Result<Answer, Error> {
        let (service, host) = (self.service, host(self.url));
        let mut request = Request::get(self.url, cx.opts());
        request.method = self.method.to_owned();
        request.headers = self.headers;
        request.body = self.body.map(String::into_bytes);
        request.timeout = request.timeout.min(TIMEOUT);
        if let Some(server) = self.server {
            request.timeout = request.timeout.min(server.timeout);
            request.verify_ssl = server.verify_ssl;
            let bundle = server.ca_bundle.clone();
            request.ca_bundle = bundle.or(request.ca_bundle);
        }
        let limit = match request.body {
            Some(_) => MAX_ANSWER,
            None => MAX_LIST,
        };
        request.max_body = Some(request.max_body.unwrap_or(limit).min(limit));
        request.max_redirects = 0;
        let response = http::fetch(&request).map_err(|error| {
            let reason = match error {
                http::Error::Scheme(_) => "the address must begin with https:// or http://".into(),
                http::Error::TooLarge { limit, .. } => {
                    format!("the answer is longer than the limit of {limit} bytes")
                }
                error => error.reason().replace(self.url, &host),
            };
            Error::refused(format!("{service}: no answer from {host}: {reason}"))
        })?;
        let reason = response.reason();
        if (300..400).contains(&response.status) {
            return Err(Error::refused(format!(
                "{service}: {host} answered {} {reason}, and redirects are not followed: the message contains secrets. Set the address that this one redirects to, if it is the service's",
                response.status
            )));
        }
        Ok(Answer {
            service,
            host,
            status: response.status,
            reason,
            body: String::from_utf8_lossy(&response.body).into_owned(),
        })
    }
}

impl Answer {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns the JSON object of the body.
    ///
    /// # Errors
    /// When the body is not a JSON object.
    pub(crate) fn json(&self) -> Result<Map, Error> {
        let (service, host) = (self.service, &self.host);
        match json::read(&self.body) {
            Ok(Value::Map(found)) => Ok(found),
            Ok(_) => Err(format!("{service}: the answer of {host} is not a JSON object").into()),
            Err(error) => {
                Err(format!("{service}: the answer of {host} is not JSON: {error}").into())
            }
        }
    }

    /// Returns the body, or the beginning of a long one.
    pub(crate) fn text(&self) -> String {
        let mut shown: String = self.body.chars().take(SHOWN_MAX).collect();
        if shown.len() < self.body.len() {
            shown.push('…');
        }
        shown
    }

    /// Returns a sentence with the service, the status and the beginning of the body.
    pub(crate) fn describe(&self) -> String {
        let body = self.text();
        let colon = if body.is_empty() { "" } else { ": " };
        format!(
            "{}: {} answered {} {}{colon}{body}",
            self.service, self.host, self.status, self.reason
        )
    }
}

/// Returns the host and the port of an address.
fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    host.to_owned()
}

/// Returns the first option of these keys that has a value, as `config.get` finds it.
///
/// # Errors
/// When the pillar is not available, or an `sdb://` address has no value.
pub(crate) fn setting(cx: &Exec, keys: [&str; 2]) -> Result<Option<Value>, Error> {
    for key in keys {
        let found = cx.call_internal("config.get", vec![key.into()], Map::new())?;
        if found.is_true() {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Returns the given text if it is not empty, else the option of these keys. It is a secret from
/// then on.
///
/// # Errors
/// The given sentence if neither has a value. When the pillar is not available.
pub(crate) fn needed_secret(
    cx: &Exec,
    given: Option<String>,
    keys: [&str; 2],
    missing: &str,
) -> Result<String, Error> {
    let given = given.filter(|given| !given.is_empty());
    let found = match given {
        Some(given) => given,
        None => setting(cx, keys)?.ok_or(missing)?.to_text(),
    };
    secret::keep(&[], &found.as_str().into());
    Ok(found)
}

/// Returns the base address of a service, without slashes at its end: the option of these keys, or
/// the default.
///
/// # Errors
/// When the pillar is not available.
pub(crate) fn address(cx: &Exec, keys: [&str; 2], default: &str) -> Result<String, Error> {
    let found = setting(cx, keys)?.map_or_else(|| default.to_owned(), |found| found.to_text());
    Ok(found.trim_end_matches('/').to_owned())
}

/// Calls the function that sends the message of a state. The state succeeds if it returns true.
pub(crate) fn sent(cx: &Exec, function: &str, kwargs: Map, name: &str) -> Ret {
    let why = match cx.call_internal(function, Vec::new(), kwargs) {
        Ok(Value::Bool(true)) => return Ret::ok(format!("Sent message: {name}")),
        Ok(answer) => match answer.get("message") {
            Some(Value::Map(answer)) => answer.get("body").map_or_else(String::new, Value::to_text),
            Some(message) => message.to_text(),
            None => answer.to_text(),
        },
        Err(error) => error.to_string(),
    };
    Ret::failed(format!("Failed to send message ({why}): {name}"))
}

#[cfg(test)]
mod tests;
