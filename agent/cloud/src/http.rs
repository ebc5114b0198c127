//! Requests to clouds over HTTP: deadlines, limits, and what an answer means.

use std::time::Duration;

use machine::net::http::{self, Request, Response};
use state::exec::Exec;

use crate::fault::Fault;

/// The maximum time of a request.
const REQUEST_MAX: Duration = Duration::from_secs(60);
/// The maximum size of an answer in bytes.
const ANSWER_MAX: u64 = 16 << 20;
/// The maximum value of `Retry-After` that is used, in seconds.
const RETRY_AFTER_MAX_S: u64 = 600;

/// Returns a request with the deadlines, the proxy and the certificates of the configuration.
pub(crate) fn request(cx: &Exec, method: &str, url: &str) -> Request {
    let mut request = Request::get(url, cx.opts());
    method.clone_into(&mut request.method);
    request.timeout = request.timeout.min(REQUEST_MAX);
    request.max_body = Some(ANSWER_MAX);
    // A redirect would send the credentials to another server.
    request.max_redirects = 0;
    request
}

/// Sends a request. A server that is overloaded is a fault, as is one that does not answer.
///
/// # Errors
/// When there is no answer, or the cloud wants fewer requests, or has failed itself.
pub(crate) fn answer(driver: &str, request: &Request) -> Result<(Response, String), Fault> {
    let (response, text) = sent(driver, request)?;
    match response.status {
        429 => {
            let said = format!("HTTP 429 {}: {}", response.reason(), start(&text));
            Err(Fault::throttled(driver, &said, after(&response)))
        }
        _ => Ok((response, text)),
    }
}

/// Sends a request, and returns the answer with its text, also that of a failure.
///
/// # Errors
/// When there is no answer.
pub(crate) fn sent(driver: &str, request: &Request) -> Result<(Response, String), Fault> {
    let response =
        http::fetch(request).map_err(|error| Fault::unanswered(driver, &error.to_string()))?;
    let text = String::from_utf8_lossy(&response.body).into_owned();
    Ok((response, text))
}

/// Returns the time that the cloud wants between the requests.
pub(crate) fn after(response: &Response) -> Option<Duration> {
    let seconds: u64 = response.header("retry-after")?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.min(RETRY_AFTER_MAX_S)))
}

/// Returns the fault of an answer that is not in the cloud's format.
pub(crate) fn unreadable(driver: &str, response: &Response, text: &str, format: &str) -> Fault {
    Fault::unanswered(
        driver,
        &format!(
            "HTTP {} {}, and the answer is no {format}: {}",
            response.status,
            response.reason(),
            start(text)
        ),
    )
}

/// Returns the start of a text, for messages.
pub(crate) fn start(text: &str) -> String {
    text.trim().chars().take(200).collect()
}
