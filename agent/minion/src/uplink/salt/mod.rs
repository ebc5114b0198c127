//! A Salt master as the other end of our own frames: [`Link`] and [`Handle`] take and give the
//! requests of the crate `wire`, as the QUIC `link` does, and the tasks behind them turn these into
//! the commands of Salt's protocol (the crate `saltlink`).
//!
//! - [`requests`] answers what the minion asks: pillar, files, mine, returns, …
//! - [`events`] sends events in order, and acknowledges those that the master has answered.
//! - [`publications`] turns the jobs that match this minion ([`facts`]) into requests to the daemon.
//!
//! `wire::rule::check` guards the frames in both directions.

mod answers;
mod daemon_functions;
mod events;
mod facts;
mod files;
mod peers;
mod publications;
mod requests;
mod session;
pub(super) mod settings;

use std::sync::Arc;
use std::time::Duration;

use link::Part;
use link::wait::within;
use smol::Task;
use smol::channel::{Receiver, Sender, bounded};
use smol::future::FutureExt;
use value::{Value, channel};
use wire::rule;
use wire::{Event, Frame, Request, Way};

use super::connection::Incoming;
use crate::jobs::Jobs;
use facts::Facts;

pub(super) use answers::Answerer;
pub(super) use session::{Outcome, Session};

/// The number of messages that wait for the daemon. While there are so many, no publication is read.
const INCOMING_MAX: usize = 64;
/// The number of events that wait to be sent.
const EVENTS_MAX: usize = 64;
/// The number of parts of an answer that wait for the process that asked.
const PARTS_MAX: usize = 4;

/// The reason why a connection to a Salt master, or a request to one, failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A connection that is lost, or could not be established.
    #[error("{0}")]
    Lost(String),
    /// A request that failed although the connection works.
    #[error("{text}")]
    Answered {
        /// The reason code: `missing`, `refused`, `invalid`, `busy` or `failed`.
        reason: &'static str,
        /// A sentence.
        text: String,
    },
}

impl Error {
    /// Returns the reason code and the sentence if the connection still works.
    pub(super) fn answered(&self) -> Option<(&str, &str)> {
        match self {
            Self::Answered { reason, text } => Some((reason, text)),
            Self::Lost(_) => None,
        }
    }

    fn new(reason: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        Self::Answered { reason, text }
    }
}

impl From<saltlink::Error> for Error {
    fn from(error: saltlink::Error) -> Self {
        let text = error.to_string();
        match error.kind() {
            saltlink::Kind::Lost | saltlink::Kind::Distrusted => Self::Lost(text),
            saltlink::Kind::Refused | saltlink::Kind::Local => Self::new("failed", text),
        }
    }
}

/// The parts that all tasks of a connection share.
#[derive(Debug)]
struct Inner {
    /// The minion's id.
    id: String,
    session: saltlink::Session,
    facts: Arc<Facts>,
    jobs: Arc<Jobs>,
    /// Messages to the daemon.
    incoming: Sender<Incoming>,
    /// The reason why the connection is lost.
    ended: Sender<Error>,
}

impl Inner {
    /// Ends the connection for this reason.
    fn lost(&self, error: Error) {
        channel::if_open(self.ended.try_send(error));
    }
}

/// Checks that a frame may be sent on this way.
fn check(request: &Frame, way: Way) -> Result<(), Error> {
    rule::check(request, way, true).map_err(|error| Error::new("refused", error.to_string()))
}

/// The receiving side of a connection. Its tasks end when it is dropped.
#[derive(Debug)]
pub(crate) struct Link {
    incoming: Receiver<Incoming>,
    ended: Receiver<Error>,
    handle: Handle,
    _tasks: [Task<()>; 2],
}

impl Link {
    /// Starts the tasks of a connection. Without `serves`, as in a command, publications are not
    /// read.
    fn new(
        id: &str,
        session: saltlink::Session,
        facts: Arc<Facts>,
        jobs: Arc<Jobs>,
        serves: bool,
    ) -> Self {
        let (incoming, received) = bounded(INCOMING_MAX);
        let (ended, is_ended) = bounded(1);
        let (events, waiting) = bounded(EVENTS_MAX);
        let inner = Arc::new(Inner {
            id: id.to_owned(),
            session,
            facts,
            jobs,
            incoming,
            ended,
        });
        let tasks = [
            smol::spawn(publications::read(inner.clone(), serves)),
            smol::spawn(events::send(inner.clone(), waiting)),
        ];
        Self {
            incoming: received,
            ended: is_ended,
            handle: Handle { inner, events },
            _tasks: tasks,
        }
    }

    /// Returns the sending side.
    pub(super) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Returns the name of the master for logs.
    pub(super) fn who(&self) -> String {
        format!("{} (Salt's protocol)", self.handle.inner.session.master())
    }

    /// Waits for the next message of the master.
    pub(super) async fn next(&mut self) -> Result<Incoming, Error> {
        // No deadline: `saltlink` notices a silent master.
        let incoming = async { self.incoming.recv().await.map_err(|_| closed()) };
        let ended = async { Err(self.ended.recv().await.unwrap_or_else(|_| closed())) };
        ended.or(incoming).await
    }
}

fn closed() -> Error {
    Error::Lost("the connection is closed".to_owned())
}

/// The sending side of a connection. Clones are cheap.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    inner: Arc<Inner>,
    events: Sender<Event>,
}

impl Handle {
    /// Begins to answer a request.
    pub(super) fn ask(&self, request: Request) -> Result<PendingRequest, Error> {
        let frame = Frame::from(request);
        check(&frame, Way::MinionToMaster)?;
        let Frame::Request(request) = frame else {
            return Err(Error::new("invalid", "not a request"));
        };
        let (sender, answers) = bounded(PARTS_MAX);
        let (parts, following) = bounded(PARTS_MAX);
        let inner = self.inner.clone();
        let task = smol::spawn(async move {
            let answered = requests::answer(&inner, request, &following, &sender).await;
            channel::if_open(sender.send(answered.map(Part::Done)).await);
        });
        Ok(PendingRequest {
            answers,
            parts,
            wait: None,
            _task: task,
        })
    }

    /// Sends an event, after those before it.
    pub(super) async fn event(&self, event: Event) -> Result<(), Error> {
        let frame = Frame::from(event);
        check(&frame, Way::MinionToMaster)?;
        match frame {
            // No deadline: a lost connection closes the queue.
            Frame::Control(wire::Control::Event(event)) => {
                self.events.send(event).await.map_err(|_| closed())
            }
            _ => Err(Error::new("invalid", "not an event")),
        }
    }

    /// Closes the connection.
    pub(super) fn close(&self) {
        self.inner.lost(closed());
    }
}

/// A request that a task is answering. Dropping it ends the task.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    answers: Receiver<Result<Part, Error>>,
    parts: Sender<Part>,
    wait: Option<Duration>,
    _task: Task<()>,
}

impl PendingRequest {
    /// Sets the time limit for each part of the answer.
    pub(super) fn waiting(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Sends a part of the data that belongs to the request.
    pub(super) async fn part(&self, part: Part) -> Result<(), Error> {
        // No deadline: the task reads the parts until it answers, and then the queue is closed.
        self.parts.send(part).await.map_err(|_| closed())
    }

    /// Waits for the next part of the answer.
    pub(super) async fn next(&mut self) -> Result<Part, Error> {
        // No deadline: each request to the master has one (`request_channel_timeout`).
        let next = async { self.answers.recv().await.unwrap_or_else(|_| Err(closed())) };
        match self.wait {
            None => next.await,
            Some(wait) => within(wait, next).await.unwrap_or_else(|| {
                let seconds = wait.as_secs();
                let text = format!("the Salt master did not answer within {seconds} s");
                Err(Error::new("failed", text))
            }),
        }
    }

    /// Waits for an answer of one part.
    pub(super) async fn done(mut self) -> Result<Value, Error> {
        // No deadline: `next` applies the request's own (`waiting`).
        match self.next().await? {
            Part::Done(value) => Ok(value),
            Part::Data(_) => Err(Error::new("invalid", "the answer has several parts")),
        }
    }
}
