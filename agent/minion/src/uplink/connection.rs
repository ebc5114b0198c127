//! A connection to a master. [`Link`] receives, and [`Handle`] sends. Requests and answers are those
//! of the crate `wire`, whatever protocol the connection has: QUIC (the crate `link`), or Salt's
//! ([`super::salt`]).

use std::sync::Arc;
use std::time::Duration;

use smol::future::FutureExt;
use value::Value;
use wire::{Event, Masters, Ping, Request};

use link::wait::pause;
use link::{Part, PublicKey};

#[cfg(feature = "salt-master")]
use super::salt;

/// The reason why a connection to a master, or a request to one, failed.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// A connection in Pinch's protocol.
    #[error(transparent)]
    Pinch(#[from] link::Error),
    /// A connection in Salt's protocol.
    #[cfg(feature = "salt-master")]
    #[error(transparent)]
    Salt(#[from] salt::Error),
}

impl From<link::pki::Error> for ConnectionError {
    fn from(error: link::pki::Error) -> Self {
        Self::Pinch(link::Error::Pki(Arc::new(error)))
    }
}

impl ConnectionError {
    /// Returns the reason code and the sentence of the master's answer, if the master answered that
    /// the request failed.
    pub(crate) fn answered(&self) -> Option<(&str, &str)> {
        match self {
            Self::Pinch(link::Error::Failed { reason, text, .. }) => Some((reason, text)),
            Self::Pinch(_) => None,
            #[cfg(feature = "salt-master")]
            Self::Salt(error) => error.answered(),
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
pub(crate) enum Link {
    /// A connection in Pinch's protocol.
    Pinch(Box<link::Link>),
    /// A connection in Salt's protocol.
    #[cfg(feature = "salt-master")]
    Salt(salt::Link),
}

impl Link {
    /// Returns the sending side.
    pub(crate) fn handle(&self) -> Handle {
        match self {
            Self::Pinch(link) => Handle::Pinch(link.handle()),
            #[cfg(feature = "salt-master")]
            Self::Salt(link) => Handle::Salt(link.handle()),
        }
    }

    /// Returns the name of the master for logs.
    pub(crate) fn who(&self) -> String {
        match self {
            Self::Pinch(link) => link.who().to_string(),
            #[cfg(feature = "salt-master")]
            Self::Salt(link) => link.who(),
        }
    }

    /// Returns the key that the master has proved in Pinch's protocol.
    pub(crate) fn key(&self) -> Option<PublicKey> {
        match self {
            Self::Pinch(link) => link.who().key,
            #[cfg(feature = "salt-master")]
            Self::Salt(_) => None,
        }
    }

    /// Waits for the next message. The error is the reason why the connection is lost.
    pub(crate) async fn next(&mut self) -> Result<Incoming, ConnectionError> {
        match self {
            // No deadline: the link has its own (`idle`).
            Self::Pinch(link) => next_of(link).await,
            #[cfg(feature = "salt-master")]
            Self::Salt(link) => Ok(link.next().await?),
        }
    }
}

async fn next_of(link: &mut link::Link) -> Result<Incoming, ConnectionError> {
    loop {
        // No deadline: the link has its own (`idle`).
        return Ok(match link.next().await? {
            link::Incoming::Ack(sequence) => Incoming::Ack(sequence),
            link::Incoming::Question(question) => {
                let request = Box::new(question.request.clone());
                Incoming::Request(request, Answerer::Pinch(question))
            }
            link::Incoming::Bye(bye) => Incoming::Bye(bye.reason),
            link::Incoming::Masters(masters) => Incoming::Masters(masters),
            link::Incoming::Event(_) => continue,
        });
    }
}

/// The sender of the answer to a request. If it is dropped, the master gets an error, never an
/// empty answer.
#[derive(Debug)]
pub(crate) enum Answerer {
    /// A question in Pinch's protocol.
    Pinch(Box<link::Question>),
    /// A publication of a Salt master.
    #[cfg(feature = "salt-master")]
    Salt(salt::Answerer),
}

impl Answerer {
    /// Sends the answer.
    pub(crate) async fn done(self, answer: impl Into<Value>) -> Result<(), ConnectionError> {
        match self {
            Self::Pinch(question) => Ok(question.done(answer).await?),
            #[cfg(feature = "salt-master")]
            Self::Salt(answerer) => {
                answerer.done(answer.into());
                Ok(())
            }
        }
    }

    /// Answers that the request failed: a reason code (`refused`, `invalid`, `busy`, `failed`) and a
    /// sentence.
    pub(crate) async fn fail(
        self,
        reason: &str,
        text: impl Into<String>,
    ) -> Result<(), ConnectionError> {
        match self {
            Self::Pinch(question) => Ok(question.fail(reason, text).await?),
            #[cfg(feature = "salt-master")]
            Self::Salt(answerer) => {
                answerer.fail(reason, text.into());
                Ok(())
            }
        }
    }
}

/// The sending side of a connection. Clones are cheap.
#[derive(Clone, Debug)]
pub(crate) enum Handle {
    /// A connection in Pinch's protocol.
    Pinch(link::Handle),
    /// A connection in Salt's protocol.
    #[cfg(feature = "salt-master")]
    Salt(salt::Handle),
}

impl Handle {
    /// Returns whether the master speaks Salt's protocol.
    pub(crate) fn is_salt(&self) -> bool {
        !matches!(self, Self::Pinch(_))
    }

    /// Sends a request.
    pub(crate) async fn ask(
        &self,
        request: impl Into<Request>,
    ) -> Result<PendingRequest, ConnectionError> {
        match self {
            Self::Pinch(handle) => Ok(PendingRequest::Pinch(Box::new(handle.ask(request).await?))),
            #[cfg(feature = "salt-master")]
            Self::Salt(handle) => Ok(PendingRequest::Salt(handle.ask(request.into())?)),
        }
    }

    /// Sends an event. The master has it once its sequence number is acknowledged
    /// ([`Incoming::Ack`]).
    pub(crate) async fn event(&self, event: Event) -> Result<(), ConnectionError> {
        match self {
            Self::Pinch(handle) => Ok(handle.event(event).await?),
            #[cfg(feature = "salt-master")]
            Self::Salt(handle) => Ok(handle.event(event).await?),
        }
    }

    /// Announces that the connection is about to be closed. Salt has no such message.
    pub(crate) async fn bye(&self, reason: &str) -> Result<(), ConnectionError> {
        match self {
            Self::Pinch(handle) => Ok(handle.bye(reason, None).await?),
            #[cfg(feature = "salt-master")]
            Self::Salt(_) => Ok(()),
        }
    }

    /// Waits until the master has left a question unanswered for a few seconds. Asks it at this
    /// interval. A Salt master is not asked: its link notices a silent master.
    pub(crate) async fn silence(&self, every: Duration) -> ConnectionError {
        let handle = match self {
            Self::Pinch(handle) => handle,
            // No deadline: it races with the link, which reports the loss.
            #[cfg(feature = "salt-master")]
            Self::Salt(_) => return smol::future::pending().await,
        };
        loop {
            pause(every).await;
            let answer = async { Some(handle.ask(Ping {}).await.ok()?.done().await.is_ok()) };
            let silent = async {
                let error = handle.silence().await;
                handle.close("the master does not answer");
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
        match self {
            Self::Pinch(handle) => handle.close(reason),
            #[cfg(feature = "salt-master")]
            Self::Salt(handle) => handle.close(),
        }
    }
}

/// A request that was sent. The answer arrives in parts. Dropping it cancels the request.
#[derive(Debug)]
pub(crate) enum PendingRequest {
    /// A request in Pinch's protocol.
    Pinch(Box<link::PendingRequest>),
    /// A request to a Salt master.
    #[cfg(feature = "salt-master")]
    Salt(salt::PendingRequest),
}

impl PendingRequest {
    /// Sets the time limit for each part of the answer.
    pub(crate) fn waiting(self, wait: Duration) -> Self {
        match self {
            Self::Pinch(asked) => Self::Pinch(Box::new(asked.waiting(Some(wait)))),
            #[cfg(feature = "salt-master")]
            Self::Salt(asked) => Self::Salt(asked.waiting(wait)),
        }
    }

    /// Sends a part of the data that belongs to the request.
    pub(crate) async fn data(&mut self, data: Value) -> Result<(), ConnectionError> {
        match self {
            Self::Pinch(asked) => Ok(asked.data(data).await?),
            #[cfg(feature = "salt-master")]
            Self::Salt(asked) => Ok(asked.part(Part::Data(data)).await?),
        }
    }

    /// Announces that all parts were sent.
    pub(crate) async fn sent(&mut self) -> Result<(), ConnectionError> {
        match self {
            Self::Pinch(asked) => Ok(asked.sent().await?),
            #[cfg(feature = "salt-master")]
            Self::Salt(asked) => Ok(asked.part(Part::Done(Value::Null)).await?),
        }
    }

    /// Waits for the next part of the answer. There is none after [`Part::Done`].
    pub(crate) async fn next(&mut self) -> Result<Part, ConnectionError> {
        match self {
            // No deadline: the request has its own (`waiting`).
            Self::Pinch(asked) => Ok(asked.next().await?),
            #[cfg(feature = "salt-master")]
            Self::Salt(asked) => Ok(asked.next().await?),
        }
    }

    /// Waits for an answer of one part.
    pub(crate) async fn done(self) -> Result<Value, ConnectionError> {
        match self {
            Self::Pinch(asked) => Ok(asked.done().await?),
            #[cfg(feature = "salt-master")]
            Self::Salt(asked) => Ok(asked.done().await?),
        }
    }
}
