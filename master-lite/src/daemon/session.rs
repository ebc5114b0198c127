//! The session of an accepted minion: its events, its returns and its requests.

use std::collections::VecDeque;
use std::sync::Arc;

use link::{Error, Incoming, Link, PublicKey, Question};
use smol::future::{FutureExt, pending};
use value::{Map, Value, jid, log, secret};
use wire::{BOUND_GRAINS, Event, Fire, Id, Pillar, Request, Return, bound_grains, tag};

use crate::daemon::{Master, now_ms};
use crate::data::files::No;
use crate::data::pillar;
use crate::jobs::failures;
use crate::store::{self, Applied, Cache, Change, Command, Origin, Refusal};

/// The maximum number of one minion's events that are being written to the disk. At this number,
/// nothing more is read from the minion until one of them is durable.
const UNACKED: usize = 128;
/// The number of events after which an ack is sent even while more arrive.
const ACK_AFTER: usize = 64;

/// The key that marks the record of a job that a minion gave itself.
const OWN: &str = "own";

/// The minion of a session.
#[derive(Clone, Debug)]
pub(crate) struct Minion {
    pub(crate) id: Id,
    pub(crate) key: PublicKey,
    pub(crate) epoch: u64,
    /// The properties that the minion's key is bound to.
    pub(crate) bound: Map,
}

impl Minion {
    /// Returns the pillar that overrides the compiled one.
    fn bound_pillar(&self) -> Map {
        let mut pillar = Map::new();
        if let Some(role) = self.bound.get("role") {
            pillar.insert("role", role.clone());
        }
        let bound = self.bound.get("pillar").and_then(Value::as_map);
        pillar.update(bound.cloned().unwrap_or_default());
        pillar
    }

    fn origin(&self, sequence: u64) -> Option<Origin> {
        (sequence > 0).then(|| Origin {
            id: self.id.clone(),
            key: self.key,
            epoch: self.epoch,
            sequence,
        })
    }
}

impl Master {
    /// Serves a minion until its connection ends.
    pub(crate) async fn serve(self: Arc<Self>, mut link: Link, minion: Minion, is_call: bool) {
        let handle = link.handle();
        let (id, key) = (minion.id.clone(), minion.key);
        let number = self.minions().came(id, handle.clone(), key, is_call);
        log::info(format_args!("{} is connected", link.who()));
        let mut unacked = Unacked::default();
        let error = loop {
            let is_full = unacked.is_full();
            // No deadline: the store answers each event.
            let kept_or_came = async { Ok(unacked.next().await) }
                .or(async {
                    match is_full {
                        // No deadline: the link has its own (`idle`).
                        false => Err(link.next().await),
                        true => pending().await,
                    }
                })
                .await;
            let incoming = match kept_or_came {
                Ok(Ok(applied)) => {
                    if let Some(durable) = unacked.take(&applied) {
                        let _ = handle.ack(durable).await;
                    }
                    continue;
                }
                Ok(Err(error)) => {
                    log::error(format_args!("cannot store an event: {error}"));
                    handle.close("cannot store an event");
                    unacked = Unacked::default();
                    continue;
                }
                Err(incoming) => incoming,
            };
            match incoming {
                Ok(Incoming::Event(event)) => {
                    let begun = Box::pin(self.take_event(&minion, event)).await;
                    unacked.begun.extend(begun);
                }
                Ok(Incoming::Question(question)) => {
                    let (master, minion) = (self.clone(), minion.clone());
                    smol::spawn(async move { master.answer(&minion, *question).await }).detach();
                }
                Ok(Incoming::Bye(bye)) => {
                    log::info(format_args!("{} disconnects: {}", link.who(), bye.reason));
                }
                Ok(Incoming::Ack(_)) => {}
                Err(error) => break error,
            }
        };
        self.minions().went(&minion.id, number);
        log::info(format_args!("{error}"));
    }

    /// Starts to store an event. If the minion may not use its tag, the refusal is logged, and
    /// stored in place of a numbered event: that one is acked, since it would be refused each time.
    async fn take_event(&self, minion: &Minion, event: Event) -> Option<store::PendingWrite> {
        // The minion masks the secrets that it knows. This master may know others.
        let (mut name, mut data) = (event.tag, secret::map(event.data));
        if let Err(refused) = self.may_fire(minion, &name) {
            let why = format!("key {}: {refused}", minion.key);
            self.refusals().log(minion.id.as_str(), why);
            if event.sequence == 0 {
                return None;
            }
            data = Map::new().with("error", refused);
            name = format!("pinch/refused/{}", minion.id);
        }
        let at_ms = now_ms();
        let data = data.with("id", minion.id.as_str());
        // A beacon's data is already in the form of Salt's event.
        let data = match tag::Tag::parse(&name) {
            tag::Tag::Beacon { .. } => data,
            _ => data
                .with("tag", name.as_str())
                .with("cmd", "_minion_event")
                .with("ts", at_ms / 1000),
        };
        let begun = self.store().begin(Command::Event {
            tag: name,
            data,
            stamp: event.stamp,
            at_ms,
            origin: minion.origin(event.sequence),
        });
        begun
            .await
            .inspect_err(|error| log::error(format_args!("{error}")))
            .ok()
    }

    /// Checks that a minion may fire an event. It may fire one about a job if it may return that
    /// job.
    fn may_fire(&self, minion: &Minion, name: &str) -> Result<(), String> {
        tag::may_send(&minion.id, name).map_err(|refused| refused.to_string())?;
        match tag::Tag::parse(name) {
            tag::Tag::JobOf { jid, .. } | tag::Tag::StateResult { jid, .. } => {
                let known = self.answerable(minion, jid);
                known.map(drop).map_err(|(_, text)| text)
            }
            _ => Ok(()),
        }
    }

    /// Fires an event, and answers once it is stored.
    async fn fire_for(
        &self,
        minion: &Minion,
        question: Question,
        asked: Fire,
    ) -> Result<(), Error> {
        let event = Event {
            sequence: 0,
            tag: asked.tag,
            stamp: jid::stamp(),
            data: asked.data,
        };
        let Some(begun) = self.take_event(minion, event).await else {
            let text = "this minion may not send the event";
            return question.fail("refused", text).await;
        };
        match begun.done().await {
            Ok(applied) if !applied.is_void() => question.done(true).await,
            _ => question.fail("failed", "cannot store the event").await,
        }
    }

    async fn answer(self: &Arc<Self>, minion: &Minion, question: Question) {
        let answered = match question.request.clone() {
            Request::Return(answer) => self.take_return(minion, question, answer).await,
            Request::Grains(asked) => {
                let grains = asked.grains.with("id", minion.id.as_str());
                let grains = Change::Set(self.believed(minion, grains));
                self.cache(minion, question, Cache::Grains, grains).await
            }
            Request::Pillar(asked) => match self.pillar_of(minion, asked).await {
                Ok(pillar) => {
                    // Targeting by pillar does not need the secrets.
                    let seen = Change::Set(secret::map(pillar.clone()));
                    let _ = self
                        .store()
                        .later(minion_cache(minion, Cache::Pillar, seen))
                        .await;
                    self.refreshed(&minion.id).await;
                    tell_pillar(question, pillar).await
                }
                Err(error) => question.fail("failed", error).await,
            },
            Request::MineGet(asked) => {
                let (master, id) = (self.clone(), minion.id.clone());
                match smol::unblock(move || master.mined(Some(&id), &asked)).await {
                    Ok(found) => question.done(found).await,
                    Err(error) => question.fail("invalid", error).await,
                }
            }
            Request::MinePut(asked) => {
                let change = match asked.clear {
                    true => Change::Set(asked.data),
                    false => Change::Update(asked.data),
                };
                self.cache(minion, question, Cache::Mine, change).await
            }
            Request::MineDelete(asked) => {
                let change = asked.fun.map_or(Change::Clear, Change::Without);
                self.cache(minion, question, Cache::Mine, change).await
            }
            Request::Publish(asked) => self.publish_for_peer(&minion.id, question, asked).await,
            Request::Runner(asked) => match self.may_run(&minion.id, &asked.fun) {
                Ok(()) => {
                    let done = self.run(asked).await;
                    question.done(done).await
                }
                Err(text) => question.fail("refused", text).await,
            },
            Request::Fire(asked) => self.fire_for(minion, question, asked).await,
            Request::Options(_) => {
                let options = pillar::options(self.opts());
                let bound = bound_grains(&minion.bound);
                question.done(options.with(BOUND_GRAINS, bound)).await
            }
            Request::List(asked) => self.files().list(question, asked).await,
            Request::Stat(asked) => self.files().stat(question, asked).await,
            Request::File(asked) => self.files().file(question, asked).await,
            Request::Push(asked) => self.take_file(&minion.id, question, asked).await,
            Request::Ping(_) => question.done(true).await,
            other => {
                let text = format!(
                    "this master does not support the request `{}`",
                    other.kind()
                );
                question.fail("refused", text).await
            }
        };
        if let Err(error) = answered {
            log::info(format_args!("{error}"));
        }
    }

    /// Compiles a minion's pillar, and adds the values that its key is bound to.
    async fn pillar_of(&self, minion: &Minion, asked: Pillar) -> Result<Map, String> {
        let asked = Pillar {
            grains: self.believed(minion, asked.grains.clone()),
            ..asked
        };
        let mut pillar = self.pillars().compile(&minion.id, asked).await?;
        pillar.update(minion.bound_pillar());
        Ok(pillar)
    }

    /// Fires `minion/refresh/ID` unless `minion_data_cache_events` is off.
    async fn refreshed(&self, id: &Id) {
        let option = self.opts().get("minion_data_cache_events");
        if option.is_none_or(Value::is_true) {
            let data = Map::new().with("Minion data cache refresh", id.as_str());
            self.fire(&tag::minion_refresh(id), data).await;
        }
    }

    /// Stores a return and its events in one change.
    async fn take_return(
        self: &Arc<Self>,
        minion: &Minion,
        question: Question,
        answer: Return,
    ) -> Result<(), Error> {
        let Return {
            sequence,
            jid,
            stamp,
            data,
        } = answer;
        if !jid::is_jid(&jid) {
            return question
                .fail("invalid", format!("invalid job id {jid:?}"))
                .await;
        }
        let at_ms = now_ms();
        let data = data
            .with("cmd", "_return")
            .with("id", minion.id.as_str())
            .with("jid", jid.as_str())
            .with("ts", at_ms / 1000);
        let event = |tag: String, data: Map| Command::Event {
            tag,
            data,
            stamp: stamp.clone(),
            at_ms,
            origin: None,
        };
        let (data, mut commands, sent_ms) = match self.own_job(minion, &jid, data) {
            Ok(own) => own,
            Err((word, text)) => {
                self.metrics().returns_refused.add();
                return question.fail(word, text).await;
            }
        };
        let kept = without_secrets(&data);
        commands.extend([
            Command::Return {
                jid: jid.clone(),
                id: minion.id.clone(),
                data: kept.clone(),
                at_ms,
                origin: minion.origin(sequence),
            },
            event(tag::job_ret(&jid, &minion.id), kept.clone()),
        ]);
        let failed = failures::events(&kept).into_iter();
        commands.extend(failed.map(|(tag, data)| event(tag, data)));
        match self.store().apply(Command::All(commands)).await {
            Ok(applied) => {
                self.metrics().returned(&applied, sent_ms);
                if applied.has_return() {
                    self.waiting().came(&jid, &data);
                }
                match applied.refusal() {
                    None => question.done(Value::Null).await,
                    // A return that is refused for its key can be stored once the key is accepted
                    // again. One that is too large never can.
                    Some(refusal @ Refusal::NotAccepted { .. }) => {
                        question.fail("failed", refusal.to_string()).await
                    }
                    Some(refusal) => question.fail("invalid", refusal.to_string()).await,
                }
            }
            Err(error) => question.fail("failed", error.to_string()).await,
        }
    }

    /// Returns the data of a return, the commands to apply before it, and the time at which the job
    /// was sent to the minion. A job that the minion gave itself (by its schedule, its startup
    /// states, or a call on its machine) is recorded with its return, and has no such time. A
    /// return of a job that was sent only to others is refused.
    fn own_job(
        &self,
        minion: &Minion,
        jid: &str,
        data: Map,
    ) -> Result<(Map, Vec<Command>, Option<u64>), No> {
        let answerable = self.answerable(minion, jid).inspect_err(|(_, text)| {
            let why = format!("key {}: refused its return: {text}", minion.key);
            self.refusals().log(minion.id.as_str(), why);
        });
        if let Some(at_ms) = answerable? {
            return Ok((data, Vec::new(), Some(at_ms)));
        }
        let of_return = |name: &str| data.get(name).cloned().unwrap_or_default();
        let arg = of_return("fun_args");
        let load = Map::new()
            .with("jid", jid)
            .with("tgt", minion.id.as_str())
            .with("tgt_type", "glob")
            .with(
                "user",
                data.get("user").cloned().unwrap_or_else(|| "root".into()),
            )
            .with("fun", of_return("fun"))
            .with("arg", arg.clone())
            .with(OWN, true);
        let job = Command::Job {
            jid: jid.to_owned(),
            load,
            minions: vec![minion.id.clone()],
            at_ms: now_ms(),
        };
        let data = data
            .with("arg", arg)
            .with("tgt_type", "glob")
            .with("tgt", minion.id.as_str());
        Ok((data, vec![job], None))
    }

    /// Checks that a minion may return a job. Returns the time at which the job was sent to it, or
    /// `None` for one that the minion gave itself.
    fn answerable(&self, minion: &Minion, jid: &str) -> Result<Option<u64>, No> {
        let known = self.store().expected(jid);
        let known = known.map_err(|error| ("failed", error.to_string()))?;
        match known {
            Some(job) if job.minions.contains(&minion.id) => Ok(Some(job.at_ms)),
            // Two minions have used the same number for jobs that they gave themselves.
            Some(job) if job.load.get(OWN).is_some_and(Value::is_true) => Ok(None),
            Some(_) => {
                let text = format!("the job {jid} was not sent to {}", minion.id);
                Err(("refused", text))
            }
            None => Ok(None),
        }
    }

    async fn cache(
        self: &Arc<Self>,
        minion: &Minion,
        question: Question,
        what: Cache,
        change: Change,
    ) -> Result<(), Error> {
        match self.store().apply(minion_cache(minion, what, change)).await {
            Ok(Applied::Refused(refusal)) => question.fail("refused", refusal.to_string()).await,
            Ok(_) => question.done(true).await,
            Err(error) => question.fail("failed", error.to_string()).await,
        }
    }
}

/// Returns a return without the secrets that this master knows. The fields that identify the return
/// are kept in any case.
fn without_secrets(data: &Map) -> Map {
    let mut kept = secret::map(data.clone());
    for key in ["id", "jid", "fun", "cmd"] {
        if let Some(value) = data.get(key) {
            kept.insert(key, value.clone());
        }
    }
    kept
}

/// Sends a pillar. If the minion supports it, marks of the secrets in the pillar are sent first.
async fn tell_pillar(mut question: Question, pillar: Map) -> Result<(), Error> {
    let pillar = Value::Map(pillar);
    let is_asked = matches!(&question.request, Request::Pillar(asked) if asked.secrets);
    let marks = match is_asked {
        true => secret::marks(&pillar),
        false => Value::Null,
    };
    if !marks.is_null() {
        question.data(marks).await?;
    }
    question.done(pillar).await
}

fn minion_cache(minion: &Minion, what: Cache, change: Change) -> Command {
    Command::Cached {
        id: minion.id.clone(),
        key: minion.key,
        what,
        change,
    }
}

/// The events that are being written to the disk, in order.
#[derive(Default)]
struct Unacked {
    begun: VecDeque<store::PendingWrite>,
    unsaid: usize,
}

impl Unacked {
    fn is_full(&self) -> bool {
        self.begun.len() >= UNACKED
    }

    /// Waits for the result of the oldest event. It may be dropped at any time without losing a
    /// result.
    async fn next(&self) -> Result<Applied, store::Error> {
        match self.begun.front() {
            Some(begun) => begun.done().await,
            // No deadline: it races with the next message of the link.
            None => pending().await,
        }
    }

    /// Removes the oldest event. Returns the number up to which all events are durable, if an ack
    /// is due: one ack covers many events.
    fn take(&mut self, applied: &Applied) -> Option<u64> {
        self.begun.pop_front();
        self.unsaid += 1;
        let is_last = self.begun.is_empty();
        if is_last {
            // Frees the memory of the queue while the minion is idle.
            self.begun = VecDeque::new();
        }
        let durable = match applied {
            Applied::Event { durable, .. } | Applied::Duplicate { durable } => *durable,
            _ => 0,
        };
        let is_due = durable > 0 && (is_last || self.unsaid >= ACK_AFTER);
        is_due.then(|| {
            self.unsaid = 0;
            durable
        })
    }
}
