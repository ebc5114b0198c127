//! Stores of secrets and settings that answer over HTTP with JSON: one question, with a deadline, whose words are never logged.

use std::time::Duration;

use state::exec::Exec;
use state::module::Error;
use value::json::Layout;
use value::{Map, Value};

use crate::web::{self, Request};

/// How long a store may take for an answer.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A question.
pub(crate) struct Question<'a> {
    pub(crate) method: &'a str,
    pub(crate) url: &'a str,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<Vec<u8>>,
    /// `verify` of the configuration: false takes any certificate, a text is a file of trusted ones.
    pub(crate) verify: Option<Value>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// What failed, in the words of Python's `requests`.
    pub(crate) reason: String,
    pub(crate) body: Vec<u8>,
}

impl<'a> Question<'a> {
    /// A question with JSON, or none.
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

    /// Asks. What the store refuses is an answer.
    ///
    /// # Errors
    /// When there is no answer.
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
        let response = web::fetch(&request).map_err(|error| Error::refused(error.to_string()))?;
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

    /// Its JSON; nothing where it has no body.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn json(&self) -> Result<Value, Error> {
        let text = String::from_utf8_lossy(&self.body);
        match text.trim() {
            "" => Ok(Value::Null),
            text => value::json::read(text)
                .map_err(|error| Error::refused(format!("the answer is not JSON: {error}"))),
        }
    }

    /// Its JSON where it is no refusal.
    ///
    /// # Errors
    /// When it is one, or no JSON.
    pub(crate) fn accepted(&self) -> Result<Value, Error> {
        match self.is_success() {
            true => self.json(),
            false => Err(Error::refused(self.reason.clone())),
        }
    }
}

/// Settings under a name: of the configuration, then of the pillar. The whole configuration where none is named.
///
/// # Errors
/// When the pillar cannot be had.
pub(crate) fn profile(cx: &Exec, name: &str) -> Result<Option<Map>, Error> {
    let own = cx.opts().get(name).and_then(Value::as_map).cloned();
    Ok(match own {
        Some(own) => Some(own),
        None => cx.pillar()?.get(name).and_then(Value::as_map).cloned(),
    })
}
