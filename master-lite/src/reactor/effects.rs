//! The effects of a reaction's chunks on a master: jobs for minions, runners, wheel functions.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use modules::state_run::orchestrate::{self, RunnerResult};
use reactor::call::{Client, Local};
use reactor::{
    Actor, Board, Call, Causes, Limits, Outcome, Place, Reaction, Rule, State, USER, failed,
    shortened,
};
use smol::lock::SemaphoreGuardArc;
use state::exec::Exec;
use value::target::PillarMatch;
use value::{Map, Value, log};
use wire::{Id, Publish};

use super::{COMING_BACK, Reactor, returns};
use crate::jobs::{JobEvent, NoReturn, Published, Recipients, job_commands};
use crate::store::{self, Applied, Command, Event, now_ms};

/// Room for one reaction. Everything that works on the reaction holds a clone, including a thread
/// whose result is not awaited any more.
pub(super) type Turn = Arc<(SemaphoreGuardArc, SemaphoreGuardArc)>;

impl Actor for Reactor {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn causes(&self) -> &Causes {
        &self.causes
    }

    fn is_observing(&self) -> bool {
        self.is_observing.load(Ordering::Relaxed)
    }

    fn now_ms(&self) -> u64 {
        now_ms()
    }

    fn is_replaced(&self) -> bool {
        self.store.is_fence_closed()
    }

    fn context(self: &Arc<Self>) -> Exec {
        let Limits { refresh, .. } = self.limits();
        let make = || self.runners().context(false);
        self.templates.context(refresh, make)
    }

    async fn keep(&self, reaction: &Reaction, is_synced: bool) -> Result<(), String> {
        if reaction.state.is_final() {
            self.metrics.reaction(&reaction.rule, reaction.state);
        }
        let command = kept(reaction);
        // Later rows are stored after this one, so that no caller needs to wait for the disk.
        let kept = match (is_synced, reaction.state.is_final()) {
            (_, true) if self.store.is_fenced() => {
                self.keep_last(command, &reaction.rule);
                Ok(())
            }
            (true, _) => self.keep_behind(command, &reaction.rule).await,
            (false, _) => self.store.later(command).await,
        };
        kept.map_err(|error| error.to_string())
    }

    async fn tell(&self, tag: &str, data: Map) {
        self.events.fire(tag, data).await;
    }

    async fn call(self: &Arc<Self>, board: &Arc<Board>, at: usize, call: Call) -> (Outcome, bool) {
        match call {
            Call::Local(local) => (self.react_local(board, at, local).await, false),
            Call::Caller(caller) => {
                let text = format!(
                    "failed to execute caller '{}': a caller runs on a minion, and this is a master; use `local` with a `tgt`",
                    caller.fun
                );
                (failed(text), false)
            }
            Call::Client(client) => {
                let is_synced = !client.may_be_done_again();
                (self.react_client(board, at, client).await, is_synced)
            }
        }
    }

    async fn await_returns(self: &Arc<Self>, reaction: Reaction) {
        self.await_reaction(reaction).await;
    }
}

/// Returns the command that stores a reaction.
fn kept(reaction: &Reaction) -> Command {
    Command::Reaction {
        place: reaction.place,
        row: Some(reaction.row()),
    }
}

/// Stores that a chunk has begun, together with the given commands. When this returns, all of that
/// is on the disk, and the effect may follow. While the masters of a cluster do not agree, this waits
/// for them, or for the next leader: a reaction must not fail because of that.
async fn begin(
    reactor: &Reactor,
    board: &Board,
    at: usize,
    commands: Vec<Command>,
) -> Result<(), String> {
    let reaction = board.begun(at).await;
    let mut all = vec![kept(&reaction)];
    all.extend(commands);
    loop {
        match reactor.store.apply(Command::All(all.clone())).await {
            Ok(applied) => {
                let refusal = applied.rejection();
                return refusal.map_or(Ok(()), |refusal| Err(refusal.to_string()));
            }
            Err(error) if error.is_undecided() => {}
            Err(error) => return Err(error.to_string()),
        }
        let is_stored = reactor.has_begun(&reaction, at).await;
        if is_stored.map_err(|error| error.to_string())? {
            return Ok(());
        }
    }
}

impl Reactor {
    /// Returns whether it is stored that a chunk has begun, once that is decided.
    async fn has_begun(&self, reaction: &Reaction, at: usize) -> Result<bool, store::Error> {
        self.store.decided().await?;
        let (store, place) = (self.store.clone(), reaction.place);
        let row = smol::unblock(move || store.reaction(place)).await?;
        let stored = row.and_then(|row| Reaction::from_row(place, &row));
        let begun = |of: &Reaction| of.chunks.get(at).map(|chunk| chunk.begun);
        Ok(stored.is_some_and(|stored| begun(&stored) == begun(reaction)))
    }

    /// Queues a reaction's row without waiting for the disk. A failure is logged.
    async fn keep_behind(&self, command: Command, rule: &str) -> Result<(), store::Error> {
        let pending = self.store.begin(command).await?;
        self.log_unless_kept(async move { pending.done().await }, rule);
        Ok(())
    }

    /// Stores the last row of a reaction, however long the masters of a cluster do not agree. A
    /// failure is logged.
    fn keep_last(&self, command: Command, rule: &str) {
        let store = self.store.clone();
        let kept = async move { store.apply_until_decided(command).await };
        self.log_unless_kept(kept, rule);
    }

    /// Waits in the background until a row is stored. A failure is logged, unless another master has
    /// taken the reaction over.
    fn log_unless_kept(
        &self,
        kept: impl Future<Output = Result<Applied, store::Error>> + Send + 'static,
        rule: &str,
    ) {
        let (store, rule) = (self.store.clone(), rule.to_owned());
        let logged = async move {
            let why = match kept.await {
                Ok(applied) => applied.rejection().map(ToString::to_string),
                Err(error) => Some(error.to_string()),
            };
            if let Some(why) = why
                && !store.is_fence_closed()
            {
                reactor::not_kept(&rule, &why);
            }
        };
        smol::spawn(logged).detach();
    }

    /// Reacts to an event with a rule. Returns false if the store cannot be read, in which case the
    /// caller tries again. For an event that was just appended to the log no reaction can be stored
    /// yet, so that the caller sets `may_be_known` to false.
    pub(super) async fn react(
        self: &Arc<Self>,
        rule: &Rule,
        event: &Arc<Event>,
        may_be_known: bool,
        turn: &Turn,
    ) -> bool {
        let place = Place {
            rule: rule.number(),
            sequence: event.sequence,
        };
        let store = self.store.clone();
        let known = match may_be_known {
            true => smol::unblock(move || store.reaction(place)).await,
            false => Ok(None),
        };
        let known = match known {
            Ok(known) => known,
            Err(error) => {
                log::error(format_args!(
                    "cannot read the reaction of the rule {}, retrying: {error}",
                    rule.glob
                ));
                return false;
            }
        };
        let known = match known.map(|row| Reaction::from_row(place, &row)) {
            // A later release wrote this row. Its meaning is not guessed, and the event is skipped.
            Some(None) => return true,
            known => known.flatten(),
        };
        let answered = Arc::new(reactor::Event {
            sequence: event.sequence,
            tag: event.tag.clone(),
            data: event.stamped(),
        });
        reactor::react(self, known, rule, &answered, turn).await;
        self.metrics.reaction_seconds.since(event.at_ms);
        true
    }

    /// Publishes a job. Its chunk is `sent` when every connected minion has accepted it. If another
    /// chunk depends on it, the returns are awaited here.
    pub(super) async fn react_local(&self, board: &Arc<Board>, at: usize, local: Local) -> Outcome {
        let jid = board.jid(at).await;
        let asked = publish(local, &jid);
        let user = self.opts.text("user").unwrap_or("root").to_owned();
        let sent = match self.known_job(board, at, &jid).await {
            Ok(Some(whom)) => {
                board.began(at);
                Ok(whom)
            }
            Ok(None) => self.new_job(board, at, &asked, &user).await,
            Err(error) => Err(error),
        };
        let whom = match sent {
            Ok(whom) => whom,
            Err(error) => return failed(error),
        };
        let mut published = self.jobs.hand_out(&asked, &user, jid, whom);
        board.began(at);
        let is_needed = board.is_needed(at).await;
        let given_up = published.handed_out().await.to_vec();
        match is_needed {
            true => returned(published).await,
            false => self.sent(board, at, &published, &given_up).await,
        }
    }

    /// Returns the outcome of a job whose returns are awaited in the background.
    async fn sent(
        &self,
        board: &Arc<Board>,
        at: usize,
        published: &Published,
        given_up: &[(Id, NoReturn)],
    ) -> Outcome {
        // After a restart, minions that have returned are not among those of `published`.
        let is_new = !board.was_begun(at);
        let absent: Vec<String> = given_up
            .iter()
            .filter(|(_, why)| is_new && *why == NoReturn::NotConnected)
            .map(|(id, _)| id.to_string())
            .collect();
        let is_refused = given_up.iter().any(|(_, why)| *why == NoReturn::Refused);
        let is_moot = is_new && absent.len() == published.minions.len();
        if is_refused || is_moot || self.limits.returns.is_zero() {
            return taken(published, given_up);
        }
        if self.awaited.is_full() {
            let (state, said) = taken(published, given_up);
            return (state, format!("{said}{}", returns::NOT_AWAITED));
        }
        board.set_absent(at, absent).await;
        let (_, said) = taken(published, given_up);
        (State::Sent, said)
    }

    /// Returns the targets of a job that was begun before the master restarted: the minions that
    /// have not returned. They get the job again. They know its id, and do not execute it twice.
    async fn known_job(
        &self,
        board: &Arc<Board>,
        at: usize,
        jid: &str,
    ) -> Result<Option<Recipients>, String> {
        if !board.was_begun(at) {
            return Ok(None);
        }
        let (store, jid) = (self.store.clone(), jid.to_owned());
        let left = smol::unblock(move || -> Result<Option<Vec<Id>>, store::Error> {
            let Some(job) = store.job(&jid)? else {
                return Ok(None);
            };
            let mut left = Vec::new();
            for id in job.minions {
                if !store.has_returned(&jid, &id)? {
                    left.push(id);
                }
            }
            Ok(Some(left))
        });
        let left = left.await.map_err(|error| error.to_string())?;
        Ok(left.map(|minions| Recipients {
            minions,
            missing: Vec::new(),
            patience: COMING_BACK,
        }))
    }

    /// Stores a job together with its reaction.
    async fn new_job(
        &self,
        board: &Arc<Board>,
        at: usize,
        asked: &Publish,
        user: &str,
    ) -> Result<Recipients, String> {
        let matched = self.jobs.matched(asked, PillarMatch::Pattern).await;
        let (minions, missing) = matched?;
        let jid = asked.jid.clone().unwrap_or_default();
        let commands = job_commands(asked, user, &jid, &minions, &missing);
        begin(self, board, at, commands).await?;
        let since = self.began.elapsed();
        let patience = match board.has_needs(at).await {
            // The chunk has waited for another one. If that accepted a key, the key's minion is
            // about to connect.
            true => COMING_BACK,
            false => COMING_BACK.saturating_sub(since),
        };
        Ok(Recipients {
            minions,
            missing,
            patience,
        })
    }

    /// Runs a runner or a wheel function.
    pub(super) async fn react_client(
        self: &Arc<Self>,
        board: &Arc<Board>,
        at: usize,
        client: Client,
    ) -> Outcome {
        if !client.may_be_done_again() {
            if board.was_begun(at) {
                let text = format!(
                    "the master stopped while {} was running: its result is unknown, and it is not repeated",
                    client.fun
                );
                return (State::Unknown, text);
            }
            if let Err(error) = begin(self, board, at, Vec::new()).await {
                return failed(error);
            }
        }
        board.began(at);
        loop {
            let undecided = self.store.undecided();
            let called = self.call_client(client.clone(), board.jid(at).await).await;
            if called.success {
                return (State::Done, String::new());
            }
            let is_decided = undecided == self.store.undecided();
            if is_decided || !client.may_be_done_again() || self.store.decided().await.is_err() {
                return failed(shortened(&called.ret.to_text()));
            }
        }
    }

    async fn call_client(self: &Arc<Self>, client: Client, jid: String) -> RunnerResult {
        let mut runners = self.runners();
        if client.may_be_done_again() {
            // The next leader repeats it, and an administrator may have changed the key since: a
            // master that does not lead any more must not change it.
            runners.runs.wheel = runners.runs.wheel.through(self.store.clone());
        }
        smol::unblock(move || {
            let cx = runners.context(true);
            let Client {
                is_wheel,
                fun,
                arg,
                kwarg,
            } = client;
            let by = match is_wheel {
                true => orchestrate::wheel_by,
                false => orchestrate::runner_by,
            };
            let called = by(&cx, &USER.into(), jid, &fun, arg, kwarg);
            cx.barrier();
            called
        })
        .await
    }
}

fn publish(local: Local, jid: &str) -> Publish {
    Publish {
        tgt: local.tgt,
        tgt_type: local.tgt_type,
        fun: local.fun,
        arg: local.arg,
        ret: local.ret,
        jid: Some(jid.to_owned()),
        timeout_s: None,
        options: local.options,
    }
}

/// Returns the outcome of a job whose returns are not awaited. A minion that was not connected does
/// not get the job, as in Salt.
fn taken(published: &Published, given_up: &[(Id, NoReturn)]) -> Outcome {
    let said: Vec<String> = given_up
        .iter()
        .map(|(id, why)| format!("{id}: {}", why.word()))
        .collect();
    let is_lost = given_up.iter().any(|(_, why)| *why == NoReturn::Lost);
    let is_refused = given_up.iter().any(|(_, why)| *why == NoReturn::Refused);
    match (published.minions.is_empty(), is_refused, is_lost) {
        (true, _, _) => (State::Done, "no minion matched the target".to_owned()),
        (_, true, _) => failed(said.join(", ")),
        (_, _, true) => (State::Unknown, said.join(", ")),
        _ => (State::Done, said.join(", ")),
    }
}

/// Waits for the outcome of a job that another chunk depends on.
async fn returned(mut published: Published) -> Outcome {
    if published.minions.is_empty() {
        return failed("no minion matched the target");
    }
    let mut said = Vec::new();
    let mut is_unknown = false;
    // No deadline: the wait for each minion ends (`timeout`, `gather_job_timeout`).
    while let Some(came) = published.next().await {
        match came {
            JobEvent::Return(data) if is_good(&data) => {}
            JobEvent::Return(data) => {
                let id = data.get("id").map(Value::to_text).unwrap_or_default();
                let ret = data.get("return").map(Value::to_text).unwrap_or_default();
                said.push(format!("{id}: {}", shortened(&ret)));
            }
            JobEvent::NoReturn(id, why) => {
                is_unknown |= matches!(why, NoReturn::Lost | NoReturn::NotRunning);
                said.push(format!("{id}: {}", why.word()));
            }
        }
    }
    match (said.is_empty(), is_unknown) {
        (true, _) => (State::Done, String::new()),
        (false, true) => (State::Unknown, said.join(", ")),
        (false, false) => failed(said.join(", ")),
    }
}

/// Returns whether a return is that of a job that has succeeded.
pub(super) fn is_good(data: &Map) -> bool {
    let is_zero = data
        .get("retcode")
        .and_then(Value::as_int)
        .unwrap_or_default()
        == 0;
    is_zero && data.get("success").is_none_or(Value::is_true)
}
