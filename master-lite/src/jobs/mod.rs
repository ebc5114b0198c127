//! Jobs: the minions that receive a job, those that have returned, and those that will not.

pub(crate) mod batches;
mod failures;
mod highstate;
pub(crate) mod hosts;
pub(crate) mod minions;
mod patience;
pub(crate) mod preview;
mod returns;
pub(crate) mod targets;
pub(crate) mod waiting;

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use link::wait::{pause, until, within};
use smol::channel::{Receiver, Sender, bounded, unbounded};
use smol::future::{FutureExt, pending};
use smol::lock::{Semaphore, SemaphoreGuardArc};
use state::opts::Opts;
use value::target::PillarMatch;
use value::{Map, Value, channel, jid, log, secret};
use wire::{FindJob, Id, Job, Publish, SECRETS};

use crate::jobs::hosts::Hosts;
use crate::jobs::minions::{Connected, Minions, Unanswered};
use crate::jobs::patience::Patience;
use crate::jobs::targets::{Matched, Targets};
use crate::jobs::waiting::{Returns, Waiting};
use crate::metrics::Metrics;
use crate::refusals::Refusals;
use crate::store::{Command, Refusal, Store, now_ms};

/// A published job with its returns.
pub(crate) struct Published {
    jobs: Jobs,
    pub(crate) jid: String,
    /// The minions and hosts that the job is sent to.
    pub(crate) minions: Vec<Id>,
    /// The names in the target that are not accepted minions.
    pub(crate) missing: Vec<String>,
    /// The recipients without an agent.
    hosts: BTreeSet<Id>,
    left: BTreeSet<Id>,
    returns: Returns,
    /// The minions that did not take the job, with the reason.
    refusals: Receiver<(Id, NoReturn)>,
    /// A channel that is closed once the job has been sent to all minions.
    sent: Receiver<()>,
    /// The time that a minion may be silent before the master asks whether it still works.
    patience: Patience,
    /// The time of the next question to silent minions; `None` until the job has been sent to all.
    ask_at: Option<Instant>,
    /// The time at which the master stops waiting for all minions.
    end: Instant,
    given_up: Vec<(Id, NoReturn)>,
}

/// The reason why the master no longer waits for a minion's return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoReturn {
    /// The minion was not connected when the job was sent.
    NotConnected,
    /// The minion is connected, reports that it does not run the job, and has not returned.
    NotRunning,
    /// The connection was lost while the minion ran the job. The outcome is unknown.
    Lost,
    /// The minion did not take the job.
    Refused,
}

impl NoReturn {
    /// Returns the word for it in the protocol.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::NotConnected => "not_connected",
            Self::NotRunning => "no_return",
            Self::Lost => "lost",
            Self::Refused => "refused",
        }
    }
}

/// The result of a job on one minion.
#[derive(Clone, Debug)]
pub(crate) enum JobEvent {
    /// A return, as in its event.
    Return(Map),
    /// A minion that the master no longer waits for.
    NoReturn(Id, NoReturn),
}

/// The default of `gather_job_timeout`: the time that a minion has to report whether it runs a job.
const GATHER: Duration = Duration::from_secs(10);
/// The default of `timeout`: the time that a minion has to return.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The default of `job_wait_max`: the maximum time to wait for minions that report that they still
/// work.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);
/// The maximum number of minions that a job or question is sent to at the same time. The socket has
/// no room for thousands of answers at once.
const AT_ONCE: usize = 64;
/// The maximum length of a list target that is sent to its minions. A minion on a longer list
/// receives only its own name: ten thousand minions with ten thousand names each would be a
/// gigabyte.
const LIST_MAX: usize = 64;
/// The maximum number of minions of a job that the log names.
const NAMED_MAX: usize = 20;
/// The pause before a job is sent to a minion again whose master has died, and the time after which it
/// is not sent again.
const AGAIN: Duration = Duration::from_millis(200);
const AGAIN_MAX: Duration = Duration::from_secs(40);
/// The time after which a minion that has not answered makes room for the next one.
const TURN_MAX: Duration = Duration::from_millis(50);

/// The jobs of a master: publishes them, and stores their returns.
#[derive(Clone)]
pub(crate) struct Jobs {
    pub(crate) opts: Arc<Opts>,
    pub(crate) store: Store,
    pub(crate) refusals: Arc<Refusals>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) minions: Minions,
    pub(crate) waiting: Waiting,
    pub(crate) targets: Targets,
    /// The hosts without an agent; `None` if jobs are for minions only.
    pub(crate) hosts: Option<Hosts>,
}

impl Jobs {
    /// Returns an option's number of seconds as a time, within the limits for waits.
    fn seconds(&self, option: &str, default: Duration) -> Duration {
        let number = self.opts.get(option).and_then(Value::as_float);
        let seconds = number.and_then(link::wait::seconds).unwrap_or(default);
        seconds.max(patience::SHORTEST)
    }

    /// Publishes a job in root's name to the minions that its target names, once its record is on
    /// the disk.
    pub(crate) async fn publish(&self, asked: Publish, user: &str) -> Result<Published, String> {
        let matched = self.matched(&asked, PillarMatch::Pattern).await?;
        self.publish_to(asked, user, matched).await
    }

    /// Returns the minions that the target of a job matches. `pillar` must be exact if the job does
    /// not come from root.
    pub(crate) async fn matched(
        &self,
        asked: &Publish,
        pillar: PillarMatch,
    ) -> Result<Matched, String> {
        let (tgt, tgt_type) = (&asked.tgt, &asked.tgt_type);
        let matched = self.matched_by(tgt, tgt_type, &asked.options, pillar);
        matched.await
    }

    /// Returns the minions and hosts that a target matches.
    pub(crate) async fn matched_by(
        &self,
        tgt: &Value,
        tgt_type: &str,
        options: &Map,
        pillar: PillarMatch,
    ) -> Result<Matched, String> {
        let matched = self.targets.matched(tgt, tgt_type, options, pillar);
        let (mut minions, mut missing) = matched.await?;
        if let Some(hosts) = &self.hosts {
            let hosts = hosts.matched(tgt, tgt_type).await?;
            missing.retain(|name| hosts.iter().all(|id| id.as_str() != name));
            minions.extend(hosts);
            minions.sort();
            minions.dedup();
        }
        Ok((minions, missing))
    }

    /// Returns whether a recipient of jobs is a host without an agent. An id with an accepted key
    /// is a minion, even if a roster has it.
    fn is_host(&self, id: &Id) -> bool {
        if self.hosts.is_none() {
            return false;
        }
        match self.targets.is_accepted(id) {
            Ok(is_accepted) => !is_accepted,
            Err(error) => {
                log::error(format_args!("cannot read the key of {id}: {error}"));
                false
            }
        }
    }

    /// Returns whether a job can be sent to a recipient now.
    pub(crate) fn is_up(&self, id: &Id) -> bool {
        self.minions.get(id).is_some() || self.is_host(id)
    }

    /// Publishes a job to these minions, once its record is on the disk.
    pub(crate) async fn publish_to(
        &self,
        mut asked: Publish,
        user: &str,
        (minions, missing): Matched,
    ) -> Result<Published, String> {
        self.add_external_cache(&mut asked.ret);
        let mut jid = match &asked.jid {
            Some(jid) if jid::is_jid(jid) => jid.clone(),
            Some(other) => return Err(format!("invalid job id {other:?}")),
            None => jid::new(),
        };
        loop {
            let keep = job_commands(&asked, user, &jid, &minions, &missing);
            let applied = self.store.apply(Command::All(keep)).await;
            let applied = applied.map_err(|error| error.to_string())?;
            match applied.rejection() {
                None => break,
                // Another master of the cluster has chosen it at the same moment.
                Some(Refusal::JobExists { .. }) if asked.jid.is_none() => jid = jid::new(),
                Some(refusal) => return Err(refusal.to_string()),
            }
        }
        let whom = Recipients {
            minions,
            missing,
            patience: Duration::ZERO,
        };
        Ok(self.hand_out(&asked, user, jid, whom))
    }

    /// Adds the returner of the option `ext_job_cache` to the returners of a job.
    fn add_external_cache(&self, returners: &mut String) {
        let cache = self.opts.text("ext_job_cache").unwrap_or_default();
        if !cache.is_empty() && !returners.split(',').any(|name| name == cache) {
            let comma = if returners.is_empty() { "" } else { "," };
            returners.extend([comma, cache]);
        }
    }

    /// Sends a job whose record is already on the disk.
    pub(crate) fn hand_out(
        &self,
        asked: &Publish,
        user: &str,
        jid: String,
        whom: Recipients,
    ) -> Published {
        let patience = Patience::from_timeout(asked.timeout_s, self.seconds("timeout", TIMEOUT));
        self.metrics.jobs.add();
        log::debug(format_args!(
            "sending the job {jid} ({}) of {user} to {} minions: {}",
            asked.fun,
            whom.minions.len(),
            names(&whom.minions)
        ));
        let hosts = whom.minions.iter().filter(|id| self.is_host(id));
        let (refused, refusals) = unbounded();
        let (is_sent, sent) = bounded(1);
        let published = Published {
            jobs: self.clone(),
            hosts: hosts.cloned().collect(),
            left: whom.minions.iter().cloned().collect(),
            minions: whom.minions,
            missing: whom.missing,
            returns: self.waiting.for_job(&jid),
            refusals,
            sent,
            patience,
            ask_at: None,
            end: Instant::now() + self.seconds("job_wait_max", WAIT_MAX),
            given_up: Vec::new(),
            jid,
        };
        let told = ProgressSenders { refused, is_sent };
        published.send(asked, user, whom.patience, told);
        published
    }
}

/// Returns the first names of a list of minions, for the log.
fn names(minions: &[Id]) -> String {
    let first = minions.iter().take(NAMED_MAX).map(Id::as_str);
    let more = if minions.len() > NAMED_MAX {
        ", …"
    } else {
        ""
    };
    first.collect::<Vec<_>>().join(", ") + more
}

/// The ends of the channels that the sender of a job holds until it is done.
struct ProgressSenders {
    refused: Sender<(Id, NoReturn)>,
    is_sent: Sender<()>,
}

/// The recipients of a job.
#[derive(Debug)]
pub(crate) struct Recipients {
    pub(crate) minions: Vec<Id>,
    /// The names in the target that are not accepted minions.
    pub(crate) missing: Vec<String>,
    /// The time for which the job is kept for a minion that is not connected.
    pub(crate) patience: Duration,
}

/// Returns the commands that store a job and fire its events.
pub(crate) fn job_commands(
    asked: &Publish,
    user: &str,
    jid: &str,
    minions: &[Id],
    missing: &[String],
) -> Vec<Command> {
    let mut load = load(asked, jid, user);
    if minions.is_empty() {
        // No minion will need these, and they may be large.
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

/// Returns a minion's connection, and waits for it up to `patience`. Returns `None` if a peer
/// connects with another key than the id has now: it is another machine, which must not receive the
/// job.
async fn connected(jobs: &Jobs, id: &Id, patience: Duration) -> Option<Connected> {
    if patience.is_zero() {
        return jobs.minions.get(id);
    }
    let (store, of) = (jobs.store.clone(), id.clone());
    let known = smol::unblock(move || store.key(&of)).await;
    let known = known.inspect_err(|error| log::error(format_args!("{error}")));
    let key = known.ok().flatten()?.key;
    let come = async {
        loop {
            match jobs.minions.get_or_wait(id) {
                Ok(minion) => return (minion.key == key).then_some(minion),
                // No deadline: `within` ends this wait after the patience.
                Err(awaited) => drop(awaited.recv().await),
            }
        }
    };
    within(patience, come).await.flatten()
}

/// Runs a future that waits for a minion. Gives the turn back when the future is done, or after
/// [`TURN_MAX`].
async fn in_turn<T>(turn: SemaphoreGuardArc, doing: impl Future<Output = T>) -> T {
    let mut doing = pin!(doing);
    let done = within(TURN_MAX, doing.as_mut()).await;
    drop(turn);
    match done {
        Some(done) => done,
        None => doing.await,
    }
}

/// Sends a job to a minion. A minion that loses its master meanwhile gets the job from the next one: it
/// runs a job once, even if it gets it twice. If the minion does not take the job, reports that to
/// `refused`.
async fn hand_out(
    jobs: Jobs,
    mut minion: Connected,
    id: Id,
    job: Job,
    refused: Sender<(Id, NoReturn)>,
) {
    let (jid, end) = (job.jid.clone(), Instant::now() + AGAIN_MAX);
    loop {
        let Err(error) = minion.ask(&id, job.clone()).await else {
            return;
        };
        let moves = || jobs.minions.moves_within(&id);
        let may_move = minion.is_elsewhere() || !moves().is_zero();
        if matches!(error, Unanswered::Lost(_)) && may_move && Instant::now() < end {
            // Another master may not have noticed yet that the minion has left it.
            pause(AGAIN).await;
            let next = match jobs.minions.get(&id) {
                None => connected(&jobs, &id, moves()).await,
                known => known,
            };
            if let Some(next) = next {
                minion = next;
                continue;
            }
        }
        log::warning(format_args!("{id} did not accept the job {jid}: {error}"));
        let why = match error {
            Unanswered::Refused(_) => NoReturn::Refused,
            Unanswered::Lost(_) => NoReturn::Lost,
        };
        return channel::if_open(refused.try_send((id, why)));
    }
}

/// Keeps a job for a minion that is not connected, and sends it when the minion connects within
/// `patience`.
async fn hand_out_later(
    jobs: Jobs,
    patience: Duration,
    id: Id,
    job: Job,
    refused: Sender<(Id, NoReturn)>,
) {
    match connected(&jobs, &id, patience).await {
        Some(minion) => hand_out(jobs, minion, id, job, refused).await,
        None => channel::if_open(refused.try_send((id, NoReturn::NotConnected))),
    }
}

/// Returns the stored form of a job, which its event has too. Secrets that this master knows are
/// removed.
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

/// Returns whether a target is a list too long to be sent to all minions on it.
fn is_long_list(asked: &Publish) -> bool {
    let names = match &asked.tgt {
        Value::Str(names) => names.matches(',').count(),
        other => other.as_list().map_or(0, <[Value]>::len),
    };
    asked.tgt_type == "list" && names > LIST_MAX
}

/// Returns the name of one function, or a list of names if they are separated by commas.
fn function(fun: &str) -> Value {
    if fun.contains(',') {
        Value::list(fun.split(',').map(|fun| fun.trim().into()))
    } else {
        fun.into()
    }
}

impl Published {
    /// Sends the job to all minions, many at the same time, so that a slow minion does not delay
    /// the others.
    fn send(&self, asked: &Publish, user: &str, patience: Duration, told: ProgressSenders) {
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
        if let Some(hosts) = &self.jobs.hosts {
            // Only a job that was published before waits for recipients.
            let is_again = !patience.is_zero();
            let ids = self.hosts.iter().cloned().collect();
            hosts.start(self.jobs.clone(), job.clone(), ids, is_again);
        }
        let is_long = is_long_list(asked);
        let jobs = self.jobs.clone();
        let mut minions = self.minions.clone();
        minions.retain(|id| !self.hosts.contains(id));
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let all = async move {
            for id in minions {
                let turn = turns.acquire_arc().await;
                let (mut job, refused) = (job.clone(), told.refused.clone());
                if is_long {
                    job.tgt = Value::list([id.as_str().into()]);
                }
                match jobs.minions.get(&id) {
                    Some(minion) => {
                        let handed = hand_out(jobs.clone(), minion, id, job, refused);
                        smol::spawn(in_turn(turn, handed)).detach();
                    }
                    None => {
                        let patience = patience.max(jobs.minions.moves_within(&id));
                        let kept = hand_out_later(jobs.clone(), patience, id, job, refused);
                        smol::spawn(kept).detach();
                    }
                }
            }
            drop(told.is_sent);
        };
        smol::spawn(all).detach();
    }

    /// Waits until every minion has taken the job or failed to, and returns those that failed. The
    /// time to return starts then.
    pub(crate) async fn handed_out(&mut self) -> &[(Id, NoReturn)] {
        // No deadline: each hand-out has one (`answer`), and the channel closes with the last of
        // them.
        while let Ok(refused) = self.refusals.recv().await {
            self.given_up.push(refused);
        }
        self.begin_to_wait();
        &self.given_up
    }

    /// Starts the time that minions have to return.
    fn begin_to_wait(&mut self) {
        if let Patience::Wait(time) = self.patience {
            self.ask_at = Some(Instant::now() + time);
        }
    }

    /// Waits for the next return, or the next minion that is given up. Returns `None` when no
    /// minion is left, or if the caller does not want to wait.
    pub(crate) async fn next(&mut self) -> Option<JobEvent> {
        enum Now {
            Return(Option<Map>),
            Refused(Id, NoReturn),
            Sent,
            Late,
        }
        if self.patience == Patience::None {
            return None;
        }
        loop {
            if let Some((id, why)) = self.given_up.pop() {
                self.left.remove(&id);
                return Some(JobEvent::NoReturn(id, why));
            }
            if self.left.is_empty() {
                return None;
            }
            let late = async {
                let Some(ask_at) = self.ask_at else {
                    // No deadline: the task that sends the job waits for turns only, which have one
                    // (`TURN_MAX`).
                    channel::or_closed(self.sent.recv().await);
                    return Now::Sent;
                };
                until(ask_at).await;
                Now::Late
            };
            // No deadline: it races with `late`, which ends.
            let came = async { Now::Return(self.returns.next().await) };
            let refused = async {
                match self.refusals.recv().await {
                    Ok((id, why)) => Now::Refused(id, why),
                    // All minions have taken the job.
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
                        return Some(JobEvent::Return(data));
                    }
                }
                Now::Sent => self.begin_to_wait(),
                Now::Late if Instant::now() >= self.end => self.give_all_up(),
                Now::Late => self.ask_the_silent().await,
            }
        }
    }

    /// Gives up the minions that report that they still work.
    fn give_all_up(&mut self) {
        log::warning(format_args!(
            "No longer waiting for the job {} (job_wait_max); {} minions have not returned",
            self.jid,
            self.left.len()
        ));
        let left = self.left.iter().cloned();
        self.given_up
            .extend(left.map(|id| (id, NoReturn::NotRunning)));
        self.take_late_returns();
    }

    /// Asks every minion that has not returned whether it still works, and gives up those that do
    /// not.
    async fn ask_the_silent(&mut self) {
        let gather = self.jobs.seconds("gather_job_timeout", GATHER);
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let mut questions = Vec::new();
        for id in &self.left {
            let (id, jid) = (id.clone(), self.jid.clone());
            if self.hosts.contains(&id) {
                let hosts = self.jobs.hosts.as_ref();
                if !hosts.is_some_and(|hosts| hosts.is_running(&jid, &id)) {
                    self.given_up.push((id, NoReturn::Lost));
                }
                continue;
            }
            let turn = turns.acquire_arc().await;
            let Some(minion) = self.jobs.minions.get(&id) else {
                if self.jobs.minions.moves_within(&id).is_zero() {
                    self.given_up.push((id, NoReturn::Lost));
                }
                continue;
            };
            let asked = id.clone();
            let task = smol::spawn(in_turn(turn, async move {
                let found = within(gather, minion.ask(&asked, FindJob { jid })).await;
                found.map_or(Ok(false), |found| found.map(|found| found.is_true()))
            }));
            questions.push((id, task));
        }
        for (id, task) in questions {
            match task.await {
                Ok(true) => {}
                Ok(false) => self.given_up.push((id, NoReturn::NotRunning)),
                Err(Unanswered::Lost(_)) if !self.jobs.minions.moves_within(&id).is_zero() => {}
                Err(error) => {
                    log::info(format_args!(
                        "cannot ask {id} for its running jobs: {error}"
                    ));
                    self.given_up.push((id, NoReturn::Lost));
                }
            }
        }
        self.begin_to_wait();
        self.take_late_returns();
    }

    /// Keeps a minion that has returned in the meantime from being given up.
    fn take_late_returns(&mut self) {
        let mut returned = BTreeSet::new();
        for (id, _) in &self.given_up {
            if matches!(self.jobs.store.has_returned(&self.jid, id), Ok(true)) {
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
