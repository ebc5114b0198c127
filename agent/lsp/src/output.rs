//! [`Output`]: the messages to the client.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use lsp_server::{ErrorCode, Message, Notification, RequestId, Response, ResponseError};
use serde::Serialize;
use serde_json::Value as Json;

/// The stream to the client, on which several threads write.
#[derive(Clone)]
pub(crate) struct Output(Arc<Mutex<Box<dyn Write + Send>>>);

impl Output {
    pub(crate) fn new(stream: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Mutex::new(stream)))
    }

    /// Writes a message. A client that has closed the stream has ended, and the end of the input
    /// will say so.
    fn put(&self, message: &Message) {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = message.write(&mut *stream) {
            value::log::debug(format_args!("cannot write to the client: {error}"));
        }
    }

    pub(crate) fn notify<T: Serialize>(&self, method: &str, params: &T) {
        if let Ok(params) = serde_json::to_value(params) {
            let method = method.to_owned();
            self.put(&Message::Notification(Notification { method, params }));
        }
    }

    /// Answers a request.
    pub(crate) fn answer(&self, id: RequestId, outcome: Result<Json, Refused>) {
        let response_result = outcome.map_err(|refused| ResponseError {
            code: refused.code as i32,
            message: refused.message,
            data: None,
        });
        self.put(&Message::Response(Response {
            id,
            response_result,
        }));
    }
}

/// The reason why a request is not answered.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

impl Refused {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }
}
