//! Jobs: to whom they go, who has returned, and who will not.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use link::Error;
use link::wait::{until, within};
use smol::channel::{Receiver, Sender, bounded, unbounded};
use smol::future::{FutureExt, pending};
use smol::lock::{Semaphore, SemaphoreGuardArc};
use value::target::PillarMatch;
use value::{Map, Value, jid, log, secret};
use wire::{FindJob, Id, Job, Publish, Request, SECRETS};

use crate::daemon::{Master, now_ms};
use crate::minions::Connected;
use crate::patience::{self, Patience};
use crate::store::Command;
use crate::targets::Matched;
use crate::waiting::Returns;

/// A job that was sent, and whose returns are waited for.
#[derive(Debug)]
pub(crate) struct Published {
    master: Arc<Master>,
    pub(crate) jid: String,
    /// To whom it went.
    pub(crate) minions: Vec<Id>,
    /// Whom the target named and nobody knows.
    pub(crate) missing: Vec<String>,
    left: BTreeSet<Id>,
    returns: Returns,
    /// Those who have not taken the job.
    refusals: Receiver<(Id, GivenUp)>,
    /// Closed when the job is on its way to all of them.
    sent: Receiver<()>,
    /// For how long a minion may be silent before it is asked whether it works still.
    patience: Patience,
    /// When the silent ones are asked next; `None` until the job is on its way to all.
    ask_at: Option<Instant>,
    /// When nobody is waited for any longer.
    end: Instant,
    given_up: Vec<(Id, GivenUp)>,
}

/// Why a minion's return is waited for no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenUp {
    /// It was not connected when the job was sent.
    NotConnected,
    /// It is connected, says that it does not do the job, and has not returned.
    NoReturn,
    /// It was lost while it did the job: what became of that is not known.
    Lost,
    /// It has not taken the job.
    Refused,
}

impl GivenUp {
    /// The word of the wire.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::NotConnected => "not_connected",
            Self::NoReturn => "no_return",
            Self::Lost => "lost",
            Self::Refused => "refused",
        }
    }
}

/// What comes of a job, one minion after the other.
#[derive(Clone, Debug)]
pub(crate) enum Came {
    /// A return, as its event has it.
    Return(Map),
    /// A minion that is waited for no longer.
    GivenUp(Id, GivenUp),
}

/// How long a minion has to say whether it does a job (`gather_job_timeout`), unless the configuration says so.
const GATHER: Duration = Duration::from_secs(10);
/// How long a minion has to return (`timeout`), likewise.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long minions that say they still work are waited for (`job_wait_max`), likewise.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);
/// Minions that are told or asked something at the same time: what thousands answer at once, the socket has no room for.
const AT_ONCE: usize = 64;
/// Of a longer list a minion is told no other names than its own: ten thousand with ten thousand names each are a gigabyte.
const LIST_MAX: usize = 64;
/// A minion that takes longer to answer makes room for the next.
const TURN_MAX: Duration = Duration::from_millis(50);

impl Master {
    /// An option's number of seconds as a time that can be waited for.
    fn seconds(&self, option: &str, default: Duration) -> Duration {
        let number = self.opts().get(option).and_then(Value::as_float);
        let seconds = number.and_then(link::wait::seconds).unwrap_or(default);
        seconds.max(patience::SHORTEST)
    }

    /// Sends a job of root's to the minions that its target names, after its record is on the disk.
    pub(crate) async fn publish(
        self: &Arc<Self>,
        asked: Publish,
        user: &str,
    ) -> Result<Published, String> {
        let by_root = PillarMatch::Pattern;
        let matched = self.matched(&asked.tgt, &asked.tgt_type, &asked.options, by_root);
        let matched = matched.await?;
        self.publish_to(asked, user, matched).await
    }

    /// Sends a job to minions, after its record is on the disk.
    pub(crate) async fn publish_to(
        self: &Arc<Self>,
        asked: Publish,
        user: &str,
        (minions, missing): Matched,
    ) -> Result<Published, String> {
        let jid = match &asked.jid {
            Some(jid) if jid::is_jid(jid) => jid.clone(),
            Some(other) => return Err(format!("{other:?} is no job id")),
            None => jid::new(),
        };
        let keep = job_commands(&asked, user, &jid, &minions, &missing);
        self.keep(keep).await?;
        let whom = Whom {
            minions,
            missing,
            patience: Duration::ZERO,
        };
        Ok(self.hand_out(&asked, user, jid, whom))
    }

    /// Sends a job whose record is on the disk.
    pub(crate) fn hand_out(
        self: &Arc<Self>,
        asked: &Publish,
        user: &str,
        jid: String,
        whom: Whom,
    ) -> Published {
        let patience = Patience::of(asked.timeout_s, self.seconds("timeout", TIMEOUT));
        self.metrics().jobs.add();
        let (refused, refusals) = unbounded();
        let (is_sent, sent) = bounded(1);
        let published = Published {
            master: self.clone(),
            left: whom.minions.iter().cloned().collect(),
            minions: whom.minions,
            missing: whom.missing,
            returns: self.waiting().for_job(&jid),
            refusals,
            sent,
            patience,
            ask_at: None,
            end: Instant::now() + self.seconds("job_wait_max", WAIT_MAX),
            given_up: Vec::new(),
            jid,
        };
        let told = Told { refused, is_sent };
        published.send(asked, user, whom.patience, told);
        published
    }
}

/// The ends of the channels that a job's sender holds until it has done its work.
struct Told {
    refused: Sender<(Id, GivenUp)>,
    is_sent: Sender<()>,
}

/// To whom a job goes.
#[derive(Debug)]
pub(crate) struct Whom {
    pub(crate) minions: Vec<Id>,
    /// Whom the target named and nobody knows.
    pub(crate) missing: Vec<String>,
    /// For how long it is kept for a minion that is not connected.
    pub(crate) patience: Duration,
}

/// What keeps a job, and fires its events.
pub(crate) fn job_commands(
    asked: &Publish,
    user: &str,
    jid: &str,
    minions: &[Id],
    missing: &[String],
) -> Vec<Command> {
    let mut load = load(asked, jid, user);
    if minions.is_empty() {
        // Nobody will ever ask for them, and they may be large.
        load.insert("arg", Value::list([]));
        load.remove("metadata");
    }
    let ids = Value::list(minions.iter().map(|id| id.as_str().into()));
    let missing = Value::list(missing.iter().map(|name| name.as_str().into()));
    let publish = load.clone().with("ret", asked.ret.as_str());
    let new = load.clone().with("minions", ids).with("missing", missing);
    let event = |what: &str, data: Map| Command::Event {
        tag: wire::tag::job(jid, what),
        data,
        stamp: jid::stamp(),
        at_ms: now_ms(),
        origin: None,
    };
    let job = Command::Job {
        jid: jid.to_owned(),
        load,
        minions: minions.to_vec(),
        at_ms: now_ms(),
    };
    vec![job, event("new", new), event("publish", publish)]
}

/// A minion's connection, as soon as there is one. Who comes with another key than the id has now is another machine: what was
/// meant for the one before is none of its business.
async fn connected(master: &Master, id: &Id, patience: Duration) -> Option<Connected> {
    if patience.is_zero() {
        return master.minions().get(id);
    }
    let (store, of) = (master.store().clone(), id.clone());
    let known = smol::unblock(move || store.key(&of)).await;
    let known = known.inspect_err(|error| log::error(format_args!("{error}")));
    let key = known.ok().flatten()?.key;
    let come = async {
        loop {
            match master.minions().get_or_wait(id) {
                Ok(minion) => return (minion.key == key).then_some(minion),
                // No deadline: it stands in a race with the patience.
                Err(awaited) => drop(awaited.recv().await),
            }
        }
    };
    within(patience, come).await.flatten()
}

/// Asks a minion something. One whose connection answers no packet is lost, long before its answer is late.
async fn asked(minion: &Connected, request: impl Into<Request>) -> Result<Value, Error> {
    let answer = async { minion.handle.ask(request).await?.done().await };
    let lost = async { Err(minion.handle.silence().await) };
    answer.or(lost).await
}

/// Does something that waits for a minion while it has a turn, which it gives back when it takes too long.
async fn in_turn<T>(turn: SemaphoreGuardArc, doing: impl Future<Output = T>) -> T {
    let mut doing = pin!(doing);
    let done = within(TURN_MAX, doing.as_mut()).await;
    drop(turn);
    match done {
        Some(done) => done,
        None => doing.await,
    }
}

/// Gives a job to a minion; one that does not take it is told of.
async fn hand_out(minion: Connected, id: Id, job: Job, refused: Sender<(Id, GivenUp)>) {
    let jid = job.jid.clone();
    if let Err(error) = asked(&minion, job).await {
        log::warning(format_args!("The job {jid} was not taken by {id}: {error}"));
        let why = match error {
            Error::Failed { .. } => GivenUp::Refused,
            _ => GivenUp::Lost,
        };
        let _ = refused.try_send((id, why));
    }
}

/// Keeps a job for a minion that is not connected, until it comes or the patience is at its end.
async fn hand_out_later(
    master: Arc<Master>,
    patience: Duration,
    id: Id,
    job: Job,
    refused: Sender<(Id, GivenUp)>,
) {
    match connected(&master, &id, patience).await {
        Some(minion) => hand_out(minion, id, job, refused).await,
        None => {
            let _ = refused.try_send((id, GivenUp::NotConnected));
        }
    }
}

/// What is kept of a job, and what its event says: without secrets that this master knows.
pub(crate) fn load(asked: &Publish, jid: &str, user: &str) -> Map {
    let mut load = Map::new()
        .with("jid", jid)
        .with("tgt_type", asked.tgt_type.as_str())
        .with("tgt", asked.tgt.clone())
        .with("user", user)
        .with("fun", function(&asked.fun))
        .with("arg", asked.arg.clone());
    if let Some(metadata) = asked.options.get("metadata") {
        load.insert("metadata", metadata.clone());
    }
    secret::map(load)
}

/// Whether a target is a list that is too long to be told to all who are on it.
fn is_long_list(asked: &Publish) -> bool {
    let names = match &asked.tgt {
        Value::Str(names) => names.matches(',').count(),
        other => other.as_list().map_or(0, <[Value]>::len),
    };
    asked.tgt_type == "list" && names > LIST_MAX
}

/// One function, or several with commas between them.
fn function(fun: &str) -> Value {
    if fun.contains(',') {
        Value::list(fun.split(',').map(|fun| fun.trim().into()))
    } else {
        fun.into()
    }
}

impl Published {
    /// Sends the job to all who are connected, many at the same time. Nobody waits for a slow one.
    fn send(&self, asked: &Publish, user: &str, patience: Duration, told: Told) {
        let mut options = asked.options.clone();
        let marks = secret::marks(&asked.arg.clone().into());
        if !marks.is_null() {
            options.insert(SECRETS, marks);
        }
        let job = Job {
            jid: self.jid.clone(),
            fun: function(&asked.fun),
            arg: asked.arg.clone(),
            tgt: asked.tgt.clone(),
            tgt_type: asked.tgt_type.clone(),
            ret: asked.ret.clone(),
            user: user.to_owned(),
            options,
        };
        let is_long = is_long_list(asked);
        let (master, minions) = (self.master.clone(), self.minions.clone());
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let all = async move {
            for id in minions {
                let turn = turns.acquire_arc().await;
                let (mut job, refused) = (job.clone(), told.refused.clone());
                if is_long {
                    job.tgt = Value::list([id.as_str().into()]);
                }
                match master.minions().get(&id) {
                    Some(minion) => {
                        let handed = hand_out(minion, id, job, refused);
                        smol::spawn(in_turn(turn, handed)).detach();
                    }
                    None => {
                        let master = master.clone();
                        let kept = hand_out_later(master, patience, id, job, refused);
                        smol::spawn(kept).detach();
                    }
                }
            }
            drop(told.is_sent);
        };
        smol::spawn(all).detach();
    }

    /// Waits until every minion has taken the job, or will not; and says who will not. The time to return begins then.
    pub(crate) async fn handed_out(&mut self) -> &[(Id, GivenUp)] {
        // No deadline: each hand-out has one (`answer`), and it ends with them.
        while let Ok(refused) = self.refusals.recv().await {
            self.given_up.push(refused);
        }
        self.begin_to_wait();
        &self.given_up
    }

    /// Gives minions the time that the patience allows, from now on.
    fn begin_to_wait(&mut self) {
        if let Patience::Wait(time) = self.patience {
            self.ask_at = Some(Instant::now() + time);
        }
    }

    /// The next return, or the next minion that is given up; nothing when nobody is left, or the caller did not want to wait.
    pub(crate) async fn next(&mut self) -> Option<Came> {
        enum Now {
            Return(Option<Map>),
            Refused(Id, GivenUp),
            Sent,
            Late,
        }
        if self.patience == Patience::None {
            return None;
        }
        loop {
            if let Some((id, why)) = self.given_up.pop() {
                self.left.remove(&id);
                return Some(Came::GivenUp(id, why));
            }
            if self.left.is_empty() {
                return None;
            }
            let late = async {
                let Some(ask_at) = self.ask_at else {
                    // No deadline: the task that sends the job waits for turns only, which have one (`TURN_MAX`).
                    let _ = self.sent.recv().await;
                    return Now::Sent;
                };
                until(ask_at).await;
                Now::Late
            };
            // No deadline: it stands in a race with `late`.
            let came = async { Now::Return(self.returns.next().await) };
            let refused = async {
                match self.refusals.recv().await {
                    Ok((id, why)) => Now::Refused(id, why),
                    // All have taken it.
                    Err(_) => pending().await,
                }
            };
            match came.or(refused).or(late).await {
                Now::Refused(id, why) => self.given_up.push((id, why)),
                Now::Return(None) => return None,
                Now::Return(Some(data)) => {
                    let id = data.get("id").and_then(Value::as_str);
                    let id = id.and_then(|id| id.parse::<Id>().ok());
                    if id.is_some_and(|id| self.left.remove(&id)) {
                        return Some(Came::Return(data));
                    }
                }
                Now::Sent => self.begin_to_wait(),
                Now::Late if Instant::now() >= self.end => self.give_all_up(),
                Now::Late => self.ask_the_silent().await,
            }
        }
    }

    /// Waits no longer for minions that say they still work.
    fn give_all_up(&mut self) {
        log::warning(format_args!(
            "The job {} is not waited for any longer (job_wait_max); {} minions have not returned",
            self.jid,
            self.left.len()
        ));
        let left = self.left.iter().cloned();
        self.given_up.extend(left.map(|id| (id, GivenUp::NoReturn)));
        self.take_late_returns();
    }

    /// Asks who has not returned whether it still works; who does not is given up.
    async fn ask_the_silent(&mut self) {
        let gather = self.master.seconds("gather_job_timeout", GATHER);
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let mut questions = Vec::new();
        for id in &self.left {
            let (id, jid) = (id.clone(), self.jid.clone());
            let turn = turns.acquire_arc().await;
            let Some(minion) = self.master.minions().get(&id) else {
                self.given_up.push((id, GivenUp::Lost));
                continue;
            };
            let task = smol::spawn(in_turn(turn, async move {
                let found = within(gather, asked(&minion, FindJob { jid })).await;
                found.map_or(Ok(false), |found| found.map(|found| found.is_true()))
            }));
            questions.push((id, task));
        }
        for (id, task) in questions {
            match task.await {
                Ok(true) => {}
                Ok(false) => self.given_up.push((id, GivenUp::NoReturn)),
                Err(error) => {
                    log::info(format_args!("{id} does not say what it does: {error}"));
                    self.given_up.push((id, GivenUp::Lost));
                }
            }
        }
        self.begin_to_wait();
        self.take_late_returns();
    }

    /// A return that came while its minion was asked is no silence.
    fn take_late_returns(&mut self) {
        let mut returned = BTreeSet::new();
        for (id, _) in &self.given_up {
            if matches!(self.master.store().returned(&self.jid, id), Ok(Some(_))) {
                returned.insert(id.clone());
            }
        }
        self.given_up.retain(|(id, _)| !returned.contains(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_long(tgt: Value, tgt_type: &str) -> bool {
        is_long_list(&Publish {
            tgt,
            tgt_type: tgt_type.to_owned(),
            fun: "test.ping".to_owned(),
            arg: Vec::new(),
            ret: String::new(),
            jid: None,
            timeout_s: None,
            options: Map::new(),
        })
    }

    #[test]
    fn a_list_is_long_by_its_names_however_it_is_written() {
        let names = |count: usize| (0..count).map(|number| format!("m{number}"));
        let list = |count| Value::list(names(count).map(Value::from));
        let text = |count| Value::from(names(count).collect::<Vec<_>>().join(","));
        assert!(!is_long(list(LIST_MAX), "list"));
        assert!(is_long(list(LIST_MAX + 1), "list"));
        assert!(!is_long(text(LIST_MAX + 1), "list"));
        assert!(is_long(text(LIST_MAX + 2), "list"));
        assert!(!is_long(text(LIST_MAX + 2), "glob"));
    }
}
