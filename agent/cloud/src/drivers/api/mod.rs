//! [`Api`]: JSON over HTTP, as most clouds speak it. A header has the secret, and lists have pages.

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use machine::net::http::{Response, quoted};
use state::exec::Exec;
use value::json::{self, Layout};
use value::{Map, Value, secret};

use crate::driver::Machine;
use crate::fault::Fault;
use crate::http;

/// The maximum number of pages of a list.
const PAGES_MAX: usize = if cfg!(test) { 20 } else { 1_000 };
/// The maximum number of items of a list.
const ITEMS_MAX: usize = 100_000;
/// The first and the maximum time between two questions about work of the cloud.
const POLL: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(4));

/// The code and the text of an error.
pub(super) type Said = (String, String);

/// The API of a cloud.
pub(super) struct Api {
    /// The word for the driver in faults.
    pub(super) driver: &'static str,
    /// The address, without a slash at its end.
    pub(super) base: String,
    /// The headers of all requests, one of which has the secret.
    pub(super) headers: Vec<(String, String)>,
    /// False accepts any certificate.
    pub(super) verify_ssl: bool,
    /// The file of trusted certificates; `None` means that of the configuration.
    pub(super) ca_bundle: Option<PathBuf>,
    /// Returns the cloud's own words from an answer that is an error.
    pub(super) said: fn(&Value) -> Option<Said>,
}

/// The body of a request.
pub(super) enum Body {
    None,
    Json(Map),
    Form(Vec<(String, String)>),
}

/// An answer.
pub(super) struct Answer {
    pub(super) response: Response,
    text: String,
    /// The data, if the text is JSON. An empty text is `None` of Python.
    data: Option<Value>,
}

/// Returns a setting of a provider that is a secret, and registers it as such.
///
/// # Errors
/// When it is missing, or cannot be sent in a header.
pub(super) fn secret(driver: &str, settings: &Map, key: &str) -> Result<String, Fault> {
    let missing = || Fault::wrong(format!("{driver}: the provider has no `{key}`"));
    let found = super::text(settings, key).ok_or_else(missing)?;
    let found = found.trim();
    secret::keep(&[], &found.into());
    match found
        .bytes()
        .all(|byte| byte.is_ascii_graphic() || byte == b' ')
    {
        true => Ok(found.to_owned()),
        false => Err(Fault::wrong(format!(
            "{driver}: `{key}` of the provider has characters that no header may have"
        ))),
    }
}

/// Returns the address of an API: a setting, or its default.
///
/// # Errors
/// When it is no address for HTTP.
pub(super) fn base(
    driver: &str,
    settings: &Map,
    key: &str,
    default: &str,
) -> Result<String, Fault> {
    let given = super::text(settings, key).unwrap_or_else(|| default.to_owned());
    match given.starts_with("https://") || given.starts_with("http://") {
        true => Ok(given.trim_end_matches('/').to_owned()),
        false => Err(Fault::wrong(format!(
            "{driver}: {key} is {given:?}; expected https://HOST/PATH"
        ))),
    }
}

/// Returns the header with a bearer token.
pub(super) fn bearer(token: &str) -> Vec<(String, String)> {
    vec![("authorization".to_owned(), format!("Bearer {token}"))]
}

/// Returns a path of these parts, which are quoted.
pub(super) fn path(parts: &[&str]) -> String {
    parts
        .iter()
        .map(|part| format!("/{}", quoted(part)))
        .collect()
}

/// Returns the query of these parameters, without a question mark.
pub(super) fn query(parameters: &[(&str, &str)]) -> String {
    let pairs = parameters
        .iter()
        .map(|(key, value)| format!("{}={}", quoted(key), quoted(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// Returns the text at a path of an answer; empty if there is none.
pub(super) fn field(value: &Value, path: &str) -> String {
    let found = value.traverse(path, ":");
    found
        .filter(|value| matches!(value, Value::Str(_) | Value::Int(_) | Value::Big(_)))
        .map(Value::to_text)
        .unwrap_or_default()
}

/// Returns the items of a list at a path of an answer; none if there is no list.
pub(super) fn items<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    let found = value.traverse(path, ":").and_then(Value::as_list);
    found.unwrap_or_default()
}

/// Returns an address of an answer, if it is one.
pub(super) fn address(text: &str) -> Option<String> {
    let parsed: std::net::IpAddr = text.parse().ok()?;
    Some(parsed.to_string())
}

/// Returns items by the text that each has at the first of these keys that is not empty.
pub(super) fn by(all: Vec<Value>, keys: &[&str]) -> Map {
    let named = all.into_iter().filter_map(|item| {
        let mut names = keys.iter().map(|key| field(&item, key));
        let name = names.find(|name| !name.is_empty())?;
        Some((name, item))
    });
    named.collect()
}

/// Asks until there is an answer, for at most this time. A question that fails is repeated, unless the
/// cloud refuses it.
///
/// # Errors
/// When the cloud refuses, or the time is over.
pub(super) fn until<T>(
    (driver, work): (&str, &str),
    most: Duration,
    ask: impl Fn() -> Result<Option<T>, Fault>,
) -> Result<T, Fault> {
    let (since, mut pause) = (Instant::now(), POLL.0);
    loop {
        let last = match ask() {
            Ok(Some(done)) => return Ok(done),
            Ok(None) => String::new(),
            Err(fault @ (Fault::Unanswered { .. } | Fault::Throttled { .. })) => {
                format!(": {fault}")
            }
            Err(fault) => return Err(fault),
        };
        let left = most.saturating_sub(since.elapsed());
        if left.is_zero() {
            let text = format!("{work} has not ended after {} s{last}", most.as_secs());
            return Err(Fault::unanswered(driver, &text));
        }
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(POLL.1);
    }
}

impl Answer {
    /// Returns whether the cloud says that there is no such thing.
    pub(super) fn is_missing(&self) -> bool {
        self.response.status == 404 && matches!(self.data, Some(Value::Map(_)))
    }
}

impl Api {
    /// Creates an API whose certificate is verified.
    pub(super) fn new(
        driver: &'static str,
        base: String,
        headers: Vec<(String, String)>,
        said: fn(&Value) -> Option<Said>,
    ) -> Self {
        Self {
            driver,
            base,
            headers,
            verify_ssl: true,
            ca_bundle: None,
            said,
        }
    }

    /// Sends a request, and returns the answer, also that of a failure.
    ///
    /// # Errors
    /// When there is no answer.
    pub(super) fn exchange(
        &self,
        cx: &Exec,
        (method, path): (&str, &str),
        body: Body,
    ) -> Result<Answer, Fault> {
        let mut request = http::request(cx, method, &format!("{}{path}", self.base));
        request.verify_ssl = self.verify_ssl;
        request.ca_bundle = self.ca_bundle.clone().or(request.ca_bundle);
        request.headers.clone_from(&self.headers);
        let accept = ("accept".to_owned(), "application/json".to_owned());
        request.headers.push(accept);
        let (kind, text) = match body {
            Body::None => (None, (method != "GET").then(String::new)),
            Body::Json(map) => {
                let text = json::write(&map.into(), Layout::default());
                (Some("application/json"), Some(text))
            }
            Body::Form(pairs) => {
                let pairs: Vec<_> = pairs
                    .iter()
                    .map(|(k, v)| (k.as_str(), v.as_str()))
                    .collect();
                (
                    Some("application/x-www-form-urlencoded"),
                    Some(query(&pairs)),
                )
            }
        };
        let kind = kind.map(|kind| ("content-type".to_owned(), kind.to_owned()));
        request.headers.extend(kind);
        request.body = text.map(String::into_bytes);
        let (response, text) = http::sent(self.driver, &request)?;
        let data = match text.trim().is_empty() {
            true => response.is_success().then_some(Value::Null),
            false => json::read(&text).ok(),
        };
        Ok(Answer {
            response,
            text,
            data,
        })
    }

    /// Returns the data of an answer.
    ///
    /// # Errors
    /// When it is an error, or no JSON.
    pub(super) fn data(&self, answer: Answer) -> Result<Value, Fault> {
        match answer.data {
            Some(data) if answer.response.is_success() => Ok(data),
            _ => Err(self.fault(&answer)),
        }
    }

    /// Returns the fault of an answer that is an error, or no JSON.
    pub(super) fn fault(&self, answer: &Answer) -> Fault {
        let (driver, response) = (self.driver, &answer.response);
        let said = answer.data.as_ref().and_then(self.said);
        let (code, text) = said.unwrap_or_else(|| {
            let start = http::start(&answer.text);
            let text = format!("HTTP {} {}: {start}", response.status, response.reason());
            (String::new(), text)
        });
        let text = match code.is_empty() {
            true => text,
            false => format!("{code}: {text}"),
        };
        let after = http::after(response);
        match response.status {
            429 => Fault::throttled(driver, &text, after),
            413 | 503 if after.is_some() => Fault::throttled(driver, &text, after),
            300..=399 => Fault::refused(driver, &code, &redirected(response)),
            401 | 403 => Fault::refused(driver, &code, &text),
            _ if answer.data.is_none() => http::unreadable(driver, response, &answer.text, "JSON"),
            408 => Fault::unanswered(driver, &text),
            400..=499 => Fault::refused(driver, &code, &text),
            _ => Fault::unanswered(driver, &text),
        }
    }

    /// Sends a request, and returns the data of its answer.
    ///
    /// # Errors
    /// When the cloud refuses, or does not answer in JSON.
    pub(super) fn call(&self, cx: &Exec, what: (&str, &str), body: Body) -> Result<Value, Fault> {
        self.data(self.exchange(cx, what, body)?)
    }

    /// Returns the data at a path.
    ///
    /// # Errors
    /// When the cloud refuses, or does not answer in JSON.
    pub(super) fn get(&self, cx: &Exec, path: &str) -> Result<Value, Fault> {
        self.call(cx, ("GET", path), Body::None)
    }

    /// Sends JSON to a path.
    ///
    /// # Errors
    /// When the cloud refuses, or does not answer in JSON.
    pub(super) fn post(&self, cx: &Exec, path: &str, body: Map) -> Result<Value, Fault> {
        self.call(cx, ("POST", path), Body::Json(body))
    }

    /// Deletes something. Returns `None` if it does not exist.
    ///
    /// # Errors
    /// When it may still be there.
    pub(super) fn delete(&self, cx: &Exec, path: &str) -> Result<Option<Value>, Fault> {
        let answer = self.exchange(cx, ("DELETE", path), Body::None)?;
        match answer.is_missing() {
            true => Ok(None),
            false => self.data(answer).map(Some),
        }
    }

    /// Returns the items of all pages of a list. `next` returns the parameters of the next page from
    /// a page and its number, which begins with 1. The address of a page is never that of an answer.
    ///
    /// # Errors
    /// When the cloud does not list all of them.
    pub(super) fn pages(
        &self,
        cx: &Exec,
        (path, list, first): (&str, &str, &str),
        next: impl Fn(&Value, usize) -> Option<String>,
    ) -> Result<Vec<Value>, Fault> {
        let (mut all, mut parameters) = (Vec::new(), first.to_owned());
        for page in 1..=PAGES_MAX {
            let mark = if path.contains('?') { '&' } else { '?' };
            let answer = self.get(cx, &format!("{path}{mark}{parameters}"))?;
            let Some(items) = answer.get(list).and_then(Value::as_list) else {
                return Err(self.lacks(path, list));
            };
            all.extend(items.iter().cloned());
            match next(&answer, page) {
                None => return Ok(all),
                Some(_) if all.len() > ITEMS_MAX => break,
                Some(next) => parameters = next,
            }
        }
        let text = format!("{path} has more than {ITEMS_MAX} items or {PAGES_MAX} pages");
        Err(Fault::unanswered(self.driver, &text))
    }

    /// Returns the machines of a list, without those whose state says that they are gone.
    ///
    /// # Errors
    /// When an item has no id.
    pub(super) fn machines(
        &self,
        path: &str,
        listed: &[Value],
        machine: fn(&Value) -> Option<Machine>,
        gone: &[&str],
    ) -> Result<Vec<Machine>, Fault> {
        let lacks = || self.lacks(path, "id of a machine");
        let machines = listed.iter().map(|item| machine(item).ok_or_else(lacks));
        let mut machines = machines.collect::<Result<Vec<_>, _>>()?;
        machines.retain(|machine| !gone.contains(&machine.state.as_str()));
        Ok(machines)
    }

    /// Returns the fault of an answer without something that it must have.
    pub(super) fn lacks(&self, path: &str, what: &str) -> Fault {
        let path = path.split('?').next().unwrap_or_default();
        Fault::unanswered(self.driver, &format!("the answer of {path} has no {what}"))
    }
}

fn redirected(response: &Response) -> String {
    format!(
        "HTTP {} {}: a redirect is not followed, because it would send the credentials to another server",
        response.status,
        response.reason()
    )
}
