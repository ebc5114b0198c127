//! A request and its answer, each on a separate stream.

use std::sync::Arc;
use std::time::Duration;

use value::Value;
use wire::{Answer, Data, Done, Failed, Frame, Request};

use crate::error::{Error, PeerInfo, Wait};
use crate::stream::{Reader, Writer};

/// A part of an answer, or of the data that is sent along with a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// One of several parts, with more to come.
    Data(Value),
    /// The last part, with the remaining data.
    Done(Value),
}

impl Part {
    /// Returns the part that a frame contains, for data that is sent along with a request. `wanted`
    /// describes the expected frame in the error.
    pub(crate) fn from_frame(
        frame: Option<Frame>,
        who: Arc<PeerInfo>,
        wanted: &'static str,
    ) -> Result<Self, Error> {
        match frame {
            None => Err(Error::Unanswered { who }),
            Some(Frame::Answer(Answer::Data(part))) => Ok(Self::Data(part.data)),
            Some(Frame::Answer(Answer::Done(end))) => Ok(Self::Done(end.data)),
            Some(other) => Err(Error::Unexpected {
                who,
                found: format!("{other:?}"),
                wanted,
            }),
        }
    }

    /// Returns the part of an answer that a frame contains, or the error that the peer answered
    /// with.
    pub(crate) fn of_answer(frame: Option<Frame>, who: Arc<PeerInfo>) -> Result<Self, Error> {
        match frame {
            Some(Frame::Answer(Answer::Failed(Failed { reason, text }))) => {
                Err(Error::Failed { who, reason, text })
            }
            Some(Frame::Unsupported { kind }) => Err(Error::Failed {
                text: format!("{who} does not support the request {kind}"),
                who,
                reason: "unsupported".to_owned(),
            }),
            other => Self::from_frame(other, who, "an answer"),
        }
    }

    /// Returns the answer if this part is all of it.
    pub(crate) fn into_complete(self, who: &Arc<PeerInfo>) -> Result<Value, Error> {
        match self {
            Self::Done(value) => Ok(value),
            Self::Data(_) => Err(Error::Unexpected {
                who: Arc::clone(who),
                found: "a part".to_owned(),
                wanted: "the whole answer",
            }),
        }
    }
}

/// A request that this side has sent. The answer arrives in parts. Dropping it cancels the request.
#[derive(Debug)]
pub struct PendingRequest {
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    pub(crate) wait: Option<Duration>,
}

impl PendingRequest {
    /// Sends a part of the data that belongs to the request; `push` has such data.
    ///
    /// # Errors
    /// When the peer does not take it in time, or the connection is lost.
    pub async fn data(&mut self, data: impl Into<Value>) -> Result<(), Error> {
        let data = data.into();
        self.writer.send(&Data { data }.into()).await
    }

    /// Announces that all parts were sent.
    ///
    /// # Errors
    /// When the peer does not take it in time, or the connection is lost.
    pub async fn sent(&mut self) -> Result<(), Error> {
        self.writer.send(&Done { data: Value::Null }.into()).await?;
        self.writer.finish();
        Ok(())
    }

    /// Sets the time limit for each following part; `None` waits without limit, as `listen` needs
    /// it.
    #[must_use]
    pub fn waiting(mut self, wait: Option<Duration>) -> Self {
        self.wait = wait;
        self
    }

    /// Waits for the next part. There is none after [`Part::Done`].
    ///
    /// # Errors
    /// When the peer reports a failure, does not know the request, is silent for too long or ends
    /// the stream without an answer.
    pub async fn next(&mut self) -> Result<Part, Error> {
        let wait = self.wait.map(|wait| (Wait::Answer, wait));
        let frame = self.reader.next(wait).await?;
        Part::of_answer(frame, self.reader.who.clone())
    }

    /// Waits for the answer to a request that has only one part.
    ///
    /// # Errors
    /// As [`next`](Self::next), and when there are several parts.
    pub async fn done(mut self) -> Result<Value, Error> {
        // No deadline: `next` applies the request's own (`wait`).
        self.next().await?.into_complete(&self.reader.who)
    }
}

/// A request from the peer, to be answered with [`done`](Self::done) or [`fail`](Self::fail). If it
/// is dropped, the peer gets [`Error::Unanswered`], never an empty answer.
#[derive(Debug)]
pub struct Question {
    /// The request.
    pub request: Request,
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    pub(crate) wait: Duration,
}

impl Question {
    /// Sends a part of the answer. Waits for a slow peer, but no longer than the deadline.
    ///
    /// # Errors
    /// When the peer does not accept the part in time, has cancelled its request, or is lost.
    pub async fn data(&mut self, data: impl Into<Value>) -> Result<(), Error> {
        let data = data.into();
        self.writer.send(&Data { data }.into()).await
    }

    /// Sends the last part of the answer.
    ///
    /// # Errors
    /// As [`data`](Self::data).
    pub async fn done(mut self, data: impl Into<Value>) -> Result<(), Error> {
        let data = data.into();
        self.end(&Done { data }.into()).await
    }

    /// Answers with a failure: a word for programs (`missing`, `refused`, `invalid`, `busy`,
    /// `failed`) and a sentence.
    ///
    /// # Errors
    /// As [`data`](Self::data).
    pub async fn fail(mut self, reason: &str, text: impl Into<String>) -> Result<(), Error> {
        let (reason, text) = (reason.to_owned(), text.into());
        self.end(&Failed { reason, text }.into()).await
    }

    async fn end(&mut self, frame: &Frame) -> Result<(), Error> {
        self.writer.send(frame).await?;
        self.writer.finish();
        Ok(())
    }

    /// Waits for the next part of the data that the peer sends with its request; [`Part::Done`] is
    /// the last.
    ///
    /// # Errors
    /// When the peer is silent for too long, ends the stream too early or sends another frame.
    pub async fn next(&mut self) -> Result<Part, Error> {
        let frame = self.reader.next(Some((Wait::Answer, self.wait))).await?;
        Part::from_frame(frame, self.reader.who.clone(), "a part of the data")
    }
}
