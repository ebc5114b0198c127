//! A connection to a master. [`Link`] receives, and [`Handle`] sends. Requests and answers are those
//! of the crate `wire`, whatever protocol the connection has. Today this is QUIC (the crate `link`).
//! A second protocol makes these types enums, and changes nothing outside this folder.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use smol::future::FutureExt;
use value::Value;
use wire::{Event, Masters, Ping, Request};

use link::wait::pause;
use link::{Part, PublicKey};

/// The reason why a connection to a master, or a request to one, failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ConnectionError(#[from] link::Error);

impl From<link::pki::Error> for ConnectionError {
    fn from(error: link::pki::Error) -> Self {
        Self(link::Error::Pki(Arc::new(error)))
    }
}

impl ConnectionError {
    /// Returns the reason code and the sentence of the master's answer, if the master answered that
    /// the request failed.
    pub(crate) fn answered(&self) -> Option<(&str, &str)> {
        match &self.0 {
            link::Error::Failed { reason, text, .. } => Some((reason, text)),
            _ => None,
        }
    }
}

/// A message from the master.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// The sequence number up to which the master has all events on its disk.
    Ack(u64),
    /// A request, and the sender of its answer.
    Request(Box<Request>, Answerer),
    /// The masters of the master's cluster.
    Masters(Masters),
    /// An announcement that the master is about to close the connection, with its reason.
    Bye(String),
}

/// The receiving side of a connection.
#[derive(Debug)]
pub(crate) struct Link(pub(super) link::Link);

impl Link {
    /// Returns the sending side.
    pub(crate) fn handle(&self) -> Handle {
        Handle(self.0.handle())
    }

    /// Returns the name of the master for logs.
    pub(crate) fn who(&self) -> &impl fmt::Display {
        self.0.who()
    }

    /// Returns the key that the master has proved.
    pub(crate) fn key(&self) -> Option<PublicKey> {
        self.0.who().key
    }

    /// Waits for the next message. The error is the reason why the connection is lost.
    pub(crate) async fn next(&mut self) -> Result<Incoming, ConnectionError> {
        loop {
            // No deadline: the link has its own (`idle`).
            return Ok(match self.0.next().await? {
                link::Incoming::Ack(sequence) => Incoming::Ack(sequence),
                link::Incoming::Question(question) => {
                    let request = Box::new(question.request.clone());
                    Incoming::Request(request, Answerer(question))
                }
                link::Incoming::Bye(bye) => Incoming::Bye(bye.reason),
                link::Incoming::Masters(masters) => Incoming::Masters(masters),
                link::Incoming::Event(_) => continue,
            });
        }
    }
}

/// The sender of the answer to a request. If it is dropped, the master gets an error, never an
/// empty answer.
#[derive(Debug)]
pub(crate) struct Answerer(Box<link::Question>);

impl Answerer {
    /// Sends the answer.
    pub(crate) async fn done(self, answer: impl Into<Value>) -> Result<(), ConnectionError> {
        Ok(self.0.done(answer).await?)
    }

    /// Answers that the request failed: a reason code (`refused`, `invalid`, `busy`, `failed`) and a
    /// sentence.
    pub(crate) async fn fail(
        self,
        reason: &str,
        text: impl Into<String>,
    ) -> Result<(), ConnectionError> {
        Ok(self.0.fail(reason, text).await?)
    }
}

/// The sending side of a connection. Clones are cheap.
#[derive(Clone, Debug)]
pub(crate) struct Handle(pub(super) link::Handle);

impl Handle {
    /// Sends a request.
    pub(crate) async fn ask(
        &self,
        request: impl Into<Request>,
    ) -> Result<PendingRequest, ConnectionError> {
        Ok(PendingRequest(self.0.ask(request).await?))
    }

    /// Sends an event. The master has it once its sequence number is acknowledged
    /// ([`Incoming::Ack`]).
    pub(crate) async fn event(&self, event: Event) -> Result<(), ConnectionError> {
        Ok(self.0.event(event).await?)
    }

    /// Announces that the connection is about to be closed.
    pub(crate) async fn bye(&self, reason: &str) -> Result<(), ConnectionError> {
        Ok(self.0.bye(reason, None).await?)
    }

    /// Waits until the master has left a question unanswered for a few seconds. Asks it at this
    /// interval.
    pub(crate) async fn silence(&self, every: Duration) -> ConnectionError {
        loop {
            pause(every).await;
            let answer = async { Some(self.0.ask(Ping {}).await.ok()?.done().await.is_ok()) };
            let silent = async {
                let error = self.0.silence().await;
                self.0.close("the master does not answer");
                Err(error)
            };
            let answered = async { Ok(answer.await) };
            if let Err(error) = answered.or(silent).await {
                return error.into();
            }
        }
    }

    /// Closes the connection at once; messages in transit are lost.
    pub(crate) fn close(&self, reason: &str) {
        self.0.close(reason);
    }
}

/// A request that was sent. The answer arrives in parts. Dropping it cancels the request.
#[derive(Debug)]
pub(crate) struct PendingRequest(link::PendingRequest);

impl PendingRequest {
    /// Sets the time limit for each part of the answer.
    pub(crate) fn waiting(self, wait: Duration) -> Self {
        Self(self.0.waiting(Some(wait)))
    }

    /// Sends a part of the data that belongs to the request.
    pub(crate) async fn data(&mut self, data: Value) -> Result<(), ConnectionError> {
        Ok(self.0.data(data).await?)
    }

    /// Announces that all parts were sent.
    pub(crate) async fn sent(&mut self) -> Result<(), ConnectionError> {
        Ok(self.0.sent().await?)
    }

    /// Waits for the next part of the answer. There is none after [`Part::Done`].
    pub(crate) async fn next(&mut self) -> Result<Part, ConnectionError> {
        // No deadline: the request has its own (`waiting`).
        Ok(self.0.next().await?)
    }

    /// Waits for an answer of one part.
    pub(crate) async fn done(self) -> Result<Value, ConnectionError> {
        Ok(self.0.done().await?)
    }
}
