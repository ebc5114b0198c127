//! Access to stores of secrets and settings that answer over HTTP with JSON. Each request has a
//! deadline, and its contents are never logged.

use std::time::Duration;

use machine::net::http::{self, Request};
use state::exec::Exec;
use state::module::Error;
use value::json::Layout;
use value::{Map, Value};

/// The maximum time to wait for a store's answer.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A request.
pub(crate) struct Question<'a> {
    pub(crate) method: &'a str,
    pub(crate) url: &'a str,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<Vec<u8>>,
    /// `verify` of the configuration: false accepts any certificate, a text is a file of trusted
    /// ones.
    pub(crate) verify: Option<Value>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The reason of a failure, in the words of Python's `requests`.
    pub(crate) reason: String,
    pub(crate) body: Vec<u8>,
}

impl<'a> Question<'a> {
    /// Creates a request with a JSON body, or without a body.
    pub(crate) fn new(method: &'a str, url: &'a str, body: Option<Value>) -> Self {
        let body = body.map(|body| value::json::write(&body, Layout::default()).into_bytes());
        Self {
            method,
            url,
            headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
            body,
            verify: None,
        }
    }

    /// Sends the request. A refusal of the store is a response, not an error.
    ///
    /// # Errors
    /// When there is no response.
    pub(crate) fn ask(self, cx: &Exec) -> Result<Answer, Error> {
        let mut request = Request::get(self.url, cx.opts());
        request.method = self.method.to_owned();
        request.headers = self.headers;
        request.body = self.body;
        request.timeout = TIMEOUT;
        match self.verify {
            Some(Value::Bool(verify)) => request.verify_ssl = verify,
            Some(Value::Str(path)) => request.ca_bundle = Some(path.to_string().into()),
            _ => {}
        }
        let response = http::fetch(&request).map_err(|error| Error::refused(error.to_string()))?;
        let whose = match response.status {
            500.. => "Server",
            _ => "Client",
        };
        Ok(Answer {
            status: response.status,
            reason: format!(
                "{} {whose} Error: {} for url: {}",
                response.status,
                response.reason(),
                self.url
            ),
            body: response.body,
        })
    }
}

impl Answer {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns the JSON of the body; null without a body.
    ///
    /// # Errors
    /// When the body is not JSON.
    pub(crate) fn json(&self) -> Result<Value, Error> {
        let text = String::from_utf8_lossy(&self.body);
        match text.trim() {
            "" => Ok(Value::Null),
            text => value::json::read(text)
                .map_err(|error| Error::refused(format!("the answer is not JSON: {error}"))),
        }
    }

    /// Returns the JSON of the body if the store did not refuse the request.
    ///
    /// # Errors
    /// When it is a refusal, or not JSON.
    pub(crate) fn accepted(&self) -> Result<Value, Error> {
        match self.is_success() {
            true => self.json(),
            false => Err(Error::refused(self.reason.clone())),
        }
    }
}

/// Returns the settings under a name, from the configuration or else from the pillar. Without a
/// name, returns the whole configuration.
///
/// # Errors
/// When the pillar is not available.
pub(crate) fn profile(cx: &Exec, name: &str) -> Result<Option<Map>, Error> {
    let own = cx.opts().get(name).and_then(Value::as_map).cloned();
    Ok(match own {
        Some(own) => Some(own),
        None => cx.pillar()?.get(name).and_then(Value::as_map).cloned(),
    })
}
