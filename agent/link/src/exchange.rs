//! A request and its answer, each on a stream of its own.

use std::sync::Arc;
use std::time::Duration;

use value::Value;
use wire::{Answer, Data, Done, Failed, Frame, Request};

use crate::error::{Error, Wait, Who};
use crate::stream::{Reader, Writer};

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// One of several, with more to come.
    Data(Value),
    /// The end, and what is left to say.
    Done(Value),
}

impl Part {
    /// The part that a frame is, of what an asker sends with its request; `wanted` says what else would have been right.
    pub(crate) fn of(
        frame: Option<Frame>,
        who: Arc<Who>,
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

    /// The part that a frame is of an answer, which may be that there is none.
    pub(crate) fn of_answer(frame: Option<Frame>, who: Arc<Who>) -> Result<Self, Error> {
        match frame {
            Some(Frame::Answer(Answer::Failed(Failed { reason, text }))) => {
                Err(Error::Failed { who, reason, text })
            }
            Some(Frame::Unsupported { kind }) => Err(Error::Failed {
                text: format!("{who} does not know the request {kind}"),
                who,
                reason: "unsupported".to_owned(),
            }),
            other => Self::of(other, who, "an answer"),
        }
    }

    /// The answer that this part alone is.
    pub(crate) fn whole(self, who: &Arc<Who>) -> Result<Value, Error> {
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

/// What this side has asked; the answer comes in parts. Dropped, the question is taken back.
#[derive(Debug)]
pub struct Asked {
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    pub(crate) wait: Option<Duration>,
}

impl Asked {
    /// Sends a part of what the request is about: `push` has such.
    ///
    /// # Errors
    /// When the peer does not take it in time, or the connection is lost.
    pub async fn data(&mut self, data: impl Into<Value>) -> Result<(), Error> {
        let data = data.into();
        self.writer.send(&Data { data }.into()).await
    }

    /// Says that all parts were sent.
    ///
    /// # Errors
    /// When the peer does not take it in time, or the connection is lost.
    pub async fn sent(&mut self) -> Result<(), Error> {
        self.writer.send(&Done { data: Value::Null }.into()).await?;
        self.writer.finish();
        Ok(())
    }

    /// How long each part may take from here on; none is for ever, as with `listen`.
    #[must_use]
    pub fn waiting(mut self, wait: Option<Duration>) -> Self {
        self.wait = wait;
        self
    }

    /// The next part. After [`Part::Done`] there is none.
    ///
    /// # Errors
    /// When the peer says that it failed, does not know the request, is silent for too long or ends without an answer.
    pub async fn next(&mut self) -> Result<Part, Error> {
        let wait = self.wait.map(|wait| (Wait::Answer, wait));
        let frame = self.reader.next(wait).await?;
        Part::of_answer(frame, self.reader.who.clone())
    }

    /// The answer of a request that has one part.
    ///
    /// # Errors
    /// As [`next`](Self::next), and when there are several.
    pub async fn done(mut self) -> Result<Value, Error> {
        // No deadline: it has the question's own (`wait`).
        self.next().await?.whole(&self.reader.who)
    }
}

/// What a peer has asked, to be answered with [`done`](Self::done) or [`fail`](Self::fail). Dropped, the peer gets
/// [`Error::Unanswered`], never an empty answer.
#[derive(Debug)]
pub struct Question {
    /// What it is.
    pub request: Request,
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    pub(crate) wait: Duration,
}

impl Question {
    /// Sends a part of the answer. It waits for a slow peer, and for no longer than the deadline.
    ///
    /// # Errors
    /// When the peer does not take it in time, has taken its question back, or is lost.
    pub async fn data(&mut self, data: impl Into<Value>) -> Result<(), Error> {
        let data = data.into();
        self.writer.send(&Data { data }.into()).await
    }

    /// Ends the answer.
    ///
    /// # Errors
    /// As [`data`](Self::data).
    pub async fn done(mut self, data: impl Into<Value>) -> Result<(), Error> {
        let data = data.into();
        self.end(&Done { data }.into()).await
    }

    /// Says that there is no answer: a word for programs (`missing`, `refused`, `invalid`, `busy`, `failed`) and a sentence.
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

    /// The next part of what the peer sends with its request; [`Part::Done`] at its end.
    ///
    /// # Errors
    /// When the peer is silent for too long, ends too early or sends something else.
    pub async fn next(&mut self) -> Result<Part, Error> {
        let frame = self.reader.next(Some((Wait::Answer, self.wait))).await?;
        Part::of(frame, self.reader.who.clone(), "a part of what is sent")
    }
}
