//! The task that leads one batch.

use std::time::{Duration, Instant};

use link::wait::{pause, until};
use smol::Task;
use smol::channel::{Receiver, Sender, unbounded};
use smol::future::{FutureExt, pending};
use value::{Map, Value, channel, log};
use wire::{Id, Publish};

use super::window::{Window, retcode};
use super::{Batches, Record, base, list, now_s, tag};
use crate::jobs::JobEvent;
use crate::store::{Event, Seen, Watch};

/// The pause before the end of a batch is stored again.
const AGAIN: Duration = Duration::from_secs(5);

/// A running batch.
pub(super) struct Batch {
    batches: Batches,
    asked: Publish,
    user: String,
    window: Window,
    record: Record,
    /// The fields that every event has.
    base: Map,
    created: f64,
    watch: Watch,
    sender: Sender<JobEvent>,
    answers: Receiver<JobEvent>,
    /// The tasks that wait for the minions. They end with the batch.
    parts: Vec<Task<()>>,
}

/// A change that the batch waits for.
enum Now {
    Answer(JobEvent),
    /// A slot is free again.
    Free,
    /// The batch is to end, with the reason.
    Stop(String),
    /// Another master has ended the batch, or the store is closed.
    Over,
}

impl Batch {
    /// Stores a new batch.
    pub(super) async fn begin(
        batches: &Batches,
        asked: Publish,
        user: &str,
        window: Window,
        jid: &str,
    ) -> Result<Self, String> {
        let created = now_s();
        let of_job = Map::new()
            .with("fun", asked.fun.as_str())
            .with("tgt", asked.tgt.clone())
            .with("tgt_type", asked.tgt_type.as_str())
            .with("user", user);
        let base = base(&of_job, jid);
        let new = base
            .clone()
            .with("total_minions", window.total)
            .with("batch_size", window.size)
            .with("driver", "master")
            .with("created", created)
            .with("minions", list(&window.pending));
        let watch = batches.jobs.store.watch();
        let sequence = batches.events.append(&tag(jid, "new"), new).await?;
        let record = Record::new(jid, batches.owner, sequence);
        let stored = batches.jobs.store.apply(record.at(sequence)).await;
        let stored = stored.map_err(|error| error.to_string())?;
        if let Some(refusal) = stored.rejection() {
            return Err(refusal.to_string());
        }
        let (sender, answers) = unbounded();
        Ok(Self {
            batches: batches.clone(),
            asked: Publish {
                jid: Some(jid.to_owned()),
                tgt_type: "list".to_owned(),
                ..asked
            },
            user: user.to_owned(),
            window,
            record,
            base,
            created,
            watch,
            sender,
            answers,
            parts: Vec::new(),
        })
    }

    /// Sends the job to the next minions. If that fails, the batch is to end.
    pub(super) async fn send(&mut self) -> Result<(), String> {
        let ids = self.window.next(Instant::now());
        if ids.is_empty() {
            return Ok(());
        }
        let sent = self.send_to(ids.clone()).await;
        if let Err(error) = &sent {
            for id in ids.into_iter().rev() {
                self.window.active.remove(&id);
                self.window.pending.push_front(id);
            }
            self.window.halted = Some(format!("error: {error}"));
        }
        sent
    }

    async fn send_to(&mut self, ids: Vec<Id>) -> Result<(), String> {
        let asked = Publish {
            tgt: list(&ids),
            ..self.asked.clone()
        };
        let jobs = &self.batches.jobs;
        let mut published = jobs
            .publish_to(asked, &self.user, (ids, Vec::new()))
            .await?;
        let sender = self.sender.clone();
        self.parts.push(smol::spawn(async move {
            // No deadline: a silent minion is given up (`timeout`, `gather_job_timeout`).
            while let Some(answer) = published.next().await {
                channel::if_open(sender.try_send(answer));
            }
        }));
        Ok(())
    }

    /// Runs the batch until all minions have returned or were given up, or it is stopped.
    pub(super) async fn run(mut self) {
        while !self.window.is_done() {
            // No deadline: each minion returns or is given up.
            match self.next().await {
                Now::Answer(answer) => {
                    if !self.count(&answer) {
                        continue;
                    }
                }
                Now::Free => {}
                Now::Stop(reason) => self.window.halted = Some(reason),
                Now::Over => {
                    let jid = &self.record.jid;
                    return log::warning(format_args!(
                        "This master does not lead the batch {jid} any more"
                    ));
                }
            }
            if let Err(error) = self.send().await {
                log::error(format_args!("The batch {} ends: {error}", self.record.jid));
            }
            if self.window.halted.is_none() || self.is_of_failhard() {
                self.progressed().await;
            }
        }
        self.ended().await;
    }

    fn is_of_failhard(&self) -> bool {
        self.window.halted.as_deref() == Some("failhard")
    }

    async fn next(&self) -> Now {
        // No deadline: it races with the returns of minions, which have one.
        let stop = stopped(&self.batches, &self.watch, &self.record.jid);
        let free = async {
            match self.window.free_at() {
                Some(at) => until(at).await,
                None => pending().await,
            }
            Now::Free
        };
        let answer = async {
            // No deadline: each part gives its silent minions up.
            match self.answers.recv().await {
                Ok(answer) => Now::Answer(answer),
                Err(_) => Now::Over,
            }
        };
        stop.or(answer).or(free).await
    }

    fn count(&mut self, answer: &JobEvent) -> bool {
        let now = Instant::now();
        match answer {
            JobEvent::Return(data) => {
                let id = data.get("id").and_then(Value::as_str);
                let id = id.and_then(|id| id.parse::<Id>().ok());
                id.is_some_and(|id| self.window.returned(&id, retcode(data), now))
            }
            JobEvent::NoReturn(id, _) => self.window.given_up(id, now),
        }
    }

    async fn progressed(&self) {
        let window = &self.window;
        let data = self
            .base
            .clone()
            .with("total", window.total)
            .with("completed", window.completed)
            .with("active", window.active.len())
            .with("pending", window.pending.len())
            .with("failed", window.failed)
            .with("iter", Value::Null)
            .with("last_progress", now_s());
        let tag = tag(&self.record.jid, "progress");
        // A failure is logged, and the next event has these numbers too.
        if let Ok(sequence) = self.batches.events.append(&tag, data).await {
            let stored = self
                .batches
                .jobs
                .store
                .apply(self.record.at(sequence))
                .await;
            if let Err(error) = stored {
                log::warning(format_args!("cannot note the progress of a batch: {error}"));
            }
        }
    }

    /// Stores the last event. Tries until that is done, or another master has ended the batch.
    pub(super) async fn ended(&self) {
        let (tag, data) = self.last();
        let mut stored = None;
        loop {
            let ended = self.end(&mut stored, &tag, data.clone()).await;
            let Err(error) = ended else {
                return;
            };
            let jid = &self.record.jid;
            log::error(format_args!(
                "cannot note the end of the batch {jid}: {error}"
            ));
            pause(AGAIN).await;
            let (store, record) = (self.batches.jobs.store.clone(), self.record.clone());
            if let Ok(false) = smol::unblock(move || record.is_active(&store)).await {
                return;
            }
        }
    }

    async fn end(&self, stored: &mut Option<u64>, tag: &str, data: Map) -> Result<(), String> {
        let sequence = match *stored {
            Some(sequence) => sequence,
            None => self.batches.events.append(tag, data).await?,
        };
        *stored = Some(sequence);
        self.batches.end(&self.record, sequence).await
    }

    /// Returns the tag and the data of the last event.
    fn last(&self) -> (String, Map) {
        let window = &self.window;
        let counts = self
            .base
            .clone()
            .with("completed", window.completed)
            .with("failed", window.failed)
            .with("duration", now_s() - self.created);
        let (what, data) = match &window.halted {
            None => ("complete", counts.with("total_minions", window.total)),
            Some(reason) => {
                let data = counts
                    .with("reason", reason.as_str())
                    .with("abandoned_active", list(&window.active))
                    .with("abandoned_pending", list(&window.pending));
                ("halted", data)
            }
        };
        (tag(&self.record.jid, what), data)
    }
}

/// Waits until the batch is to end.
async fn stopped(batches: &Batches, watch: &Watch, jid: &str) -> Now {
    loop {
        // No deadline: the caller races it with the returns of minions.
        let seen = match watch.next().await {
            None => return Now::Over,
            Some(Seen::Event(event)) => stop_of(&event, jid),
            Some(Seen::Missed { from, to }) => {
                let (store, jid) = (batches.jobs.store.clone(), jid.to_owned());
                smol::unblock(move || {
                    let events = store.events(from).ok()?;
                    let events = events.map_while(Result::ok);
                    let missed = events.take_while(|event| event.sequence <= to);
                    missed.into_iter().find_map(|event| stop_of(&event, &jid))
                })
                .await
            }
        };
        if let Some(seen) = seen {
            return seen;
        }
    }
}

fn stop_of(event: &Event, jid: &str) -> Option<Now> {
    if event.tag == tag(jid, "stop") {
        let reason = event.data.get("reason").filter(|reason| reason.is_true());
        return Some(Now::Stop(
            reason.map_or_else(|| "stop".to_owned(), Value::to_text),
        ));
    }
    (event.tag == tag(jid, "halted")).then_some(Now::Over)
}
