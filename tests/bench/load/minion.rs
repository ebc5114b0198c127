//! [`Minion`]: one of many. It answers every job with `True`, and sends events on request.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use link::{Handle, Incoming, Link, Question, Session};
use smol::Timer;
use smol::channel::Receiver;
use smol::future::or;
use value::{Map, Value, jid};
use wire::{Event, Hello, Request, Return, Secret, Welcome};

use super::fleet::Shared;

/// The maximum number of sent events that are not acknowledged.
const UNACKED: u64 = 50;

/// A minion that shares its process with the others.
#[derive(Debug)]
pub(crate) struct Minion {
    number: usize,
    session: Session,
    orders: Receiver<usize>,
    shared: Arc<Shared>,
}

/// Events that are being sent: numbers of the spool that it does not have.
#[derive(Debug, Default)]
struct Sending {
    sent: u64,
    acked: u64,
    last: u64,
}

impl Sending {
    /// Goes back to the last durable event: those after it are sent again over a new connection.
    fn reconnected(&mut self, durable: u64, shared: &Shared) {
        self.last = self.last.max(durable);
        self.acked(durable, shared);
        self.sent = self.acked;
    }

    /// Notes that all events up to a number are durable.
    fn acked(&mut self, durable: u64, shared: &Shared) {
        shared.acked(durable.saturating_sub(self.acked));
        self.acked = self.acked.max(durable);
    }
}

/// Returns the first message of a minion.
pub(crate) fn hello(name: &str, number: usize) -> Result<Hello, Box<dyn Error>> {
    Ok(Hello {
        version_min: wire::VERSION_MIN,
        version_max: wire::VERSION_MAX,
        features: Vec::new(),
        id: format!("{name}{number}").parse()?,
        role: "minion".to_owned(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        started: jid::stamp(),
        epoch: 1,
        token: token(),
        grains: Map::new(),
        evidence: Map::new(),
    })
}

/// Returns the token in `PINCH_TOKEN` with which a master accepts all minions, or `None` if it is
/// unset or empty.
fn token() -> Option<Secret> {
    let given = std::env::var("PINCH_TOKEN").ok();
    given
        .filter(|token| !token.is_empty())
        .map(|token| Secret::new(token.as_str()))
}

impl Minion {
    pub(crate) fn new(
        number: usize,
        session: Session,
        orders: Receiver<usize>,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            number,
            session,
            orders,
            shared,
        }
    }

    /// Uses the other's socket.
    pub(crate) fn share_socket(&mut self, other: &Self) {
        self.session.share_socket(&other.session);
    }

    /// Waits for its turn to come.
    pub(crate) async fn comes(&self, began: Instant, between: Duration) {
        Timer::at(began + between.mul_f64(self.number as f64)).await;
    }

    /// Connects, as one of a few at a time.
    pub(crate) async fn connect(&mut self) -> (Link, Welcome) {
        let shared = self.shared.clone();
        let _turn = shared.handshakes.acquire().await;
        self.session.connect(&mut |_| {}).await
    }

    /// Runs until the end of the process.
    pub(crate) async fn live(mut self) {
        let (link, welcome) = self.connect().await;
        self.go_on(link, welcome).await;
    }

    /// Does the same for a connected minion.
    pub(crate) async fn go_on(mut self, mut link: Link, mut welcome: Welcome) {
        let durable = welcome.durable;
        let mut sending = Sending {
            sent: durable,
            acked: durable,
            last: durable,
        };
        loop {
            self.shared.came();
            sending.reconnected(welcome.durable, &self.shared);
            self.serve(link, &mut sending).await;
            self.shared.went();
            (link, welcome) = self.connect().await;
        }
    }

    async fn serve(&self, mut link: Link, sending: &mut Sending) {
        let handle = link.handle();
        loop {
            if self.fill(&handle, sending).await.is_err() {
                return;
            }
            let order = async { Ok(self.orders.recv().await.ok()) };
            let incoming = async { link.next().await.map(Err) };
            let next = or(async { order.await.map(Ok) }, incoming).await;
            match next {
                Ok(Ok(Some(count))) => sending.last += count as u64,
                Ok(Err(Incoming::Ack(sequence))) => sending.acked(sequence, &self.shared),
                Ok(Err(Incoming::Question(question))) => {
                    smol::spawn(answer(*question, handle.clone())).detach();
                }
                Ok(Err(_)) => {}
                Ok(Ok(None)) | Err(_) => return,
            }
        }
    }

    /// Sends events up to the maximum of unacknowledged ones.
    async fn fill(&self, handle: &Handle, sending: &mut Sending) -> Result<(), link::Error> {
        while sending.sent < sending.last && sending.sent - sending.acked < UNACKED {
            sending.sent += 1;
            let data = Map::new()
                .with("minion", self.number)
                .with("number", sending.sent);
            let event = Event {
                sequence: sending.sent,
                tag: "load/event".to_owned(),
                stamp: jid::stamp(),
                data,
            };
            handle.event(event).await?;
        }
        Ok(())
    }
}

/// Accepts a job and returns `True`; reports no running job.
async fn answer(question: Question, handle: Handle) {
    let Request::Job(job) = question.request.clone() else {
        let _ = question.done(Value::Null).await;
        return;
    };
    if question.done(true).await.is_err() {
        return;
    }
    let data = Map::new()
        .with("fun", job.fun)
        .with("fun_args", Value::list(job.arg))
        .with("return", true)
        .with("retcode", 0)
        .with("success", true);
    let answer = Return {
        sequence: 0,
        jid: job.jid,
        stamp: jid::stamp(),
        data,
    };
    if let Ok(asked) = handle.ask(answer).await {
        let _ = asked.done().await;
    }
}
