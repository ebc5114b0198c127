//! Runs one reaction from its event to its end.

use std::future::Future;
use std::sync::Arc;

use smol::channel::{Receiver, Sender, bounded};
use smol::lock::{Mutex, MutexGuard};
use state::exec::Exec;
use state::low::RequisiteKind;
use value::{Map, channel, log};

use crate::call::Call;
use crate::causes::Causes;
use crate::high::{Compiled, compile};
use crate::reaction::{Chunk, Reaction, State};
use crate::rule::Rule;
use crate::{Event, Limits, Place, tell_failure};

/// The state of a chunk after its call, and a comment.
pub type Outcome = (State, String);

/// The maximum number of characters of a return in a comment.
const COMMENT_MAX: usize = 400;

/// Returns the outcome of a chunk that could not be done, or that has not succeeded.
pub fn failed(text: impl Into<String>) -> Outcome {
    (State::Failed, text.into())
}

/// Returns the beginning of a return, for a comment.
#[must_use]
pub fn shortened(text: &str) -> String {
    text.chars().take(COMMENT_MAX).collect()
}

/// The program that reacts: a master, or a minion.
pub trait Actor: Send + Sync + 'static {
    /// Returns the limits of the reactor's options.
    fn limits(&self) -> Limits;

    /// Returns the recorded causes of events.
    fn causes(&self) -> &Causes;

    /// Returns true if reactions are only observed.
    fn is_observing(&self) -> bool;

    /// Returns the current time in milliseconds since 1970.
    fn now_ms(&self) -> u64 {
        value::clock::now_ms()
    }

    /// Returns true if another master has taken over all reactions that have not ended.
    fn is_replaced(&self) -> bool {
        false
    }

    /// Returns the context that templates are rendered in. This may take a while.
    fn context(self: &Arc<Self>) -> Exec;

    /// Stores the current state of a reaction, or returns why it is not stored. If `is_synced` is
    /// true, the state must be on disk when this returns.
    fn keep(
        &self,
        reaction: &Reaction,
        is_synced: bool,
    ) -> impl Future<Output = Result<(), String>> + Send;

    /// Fires an event about the reactor itself.
    fn tell(&self, tag: &str, data: Map) -> impl Future<Output = ()> + Send;

    /// Makes the call of a chunk. Returns its outcome, and whether the outcome must be on disk at
    /// once. The next chunk waits for [`Board::began`], or for the end of this one.
    fn call(
        self: &Arc<Self>,
        board: &Arc<Board>,
        at: usize,
        call: Call,
    ) -> impl Future<Output = (Outcome, bool)> + Send;

    /// Waits in the background for the returns of a reaction whose calls are made, if a chunk is
    /// [`State::Sent`], and then ends it with [`finish`].
    fn await_returns(self: &Arc<Self>, reaction: Reaction) -> impl Future<Output = ()> + Send;
}

/// An event that happens once, and that tasks can wait for.
struct Gate(Sender<()>, Receiver<()>);

impl Gate {
    fn new() -> Self {
        let (open, opened) = bounded(1);
        Self(open, opened)
    }

    fn open(&self) {
        self.0.close();
    }

    async fn opened(&self) {
        // No deadline: the wait ends when the channel is closed.
        channel::or_closed(self.1.recv().await);
    }
}

/// A reaction whose chunks are being run.
pub struct Board {
    reaction: Mutex<Reaction>,
    /// True for each chunk that was begun before the daemon was restarted.
    begun_before: Vec<bool>,
    began: Vec<Gate>,
    ended: Vec<Gate>,
}

impl Board {
    fn new(reaction: Reaction) -> Self {
        let chunks = &reaction.chunks;
        let gates = || chunks.iter().map(|_| Gate::new()).collect();
        let is_begun = |chunk: &Chunk| chunk.state == State::Begun;
        Self {
            begun_before: chunks.iter().map(is_begun).collect(),
            began: gates(),
            ended: gates(),
            reaction: Mutex::new(reaction),
        }
    }

    async fn read_chunk<T>(&self, at: usize, look: impl FnOnce(&Chunk) -> T) -> Option<T> {
        self.reaction.lock().await.chunks.get(at).map(look)
    }

    /// Returns the id of a chunk's job.
    pub async fn jid(&self, at: usize) -> String {
        let jid = self.read_chunk(at, |chunk| chunk.jid.clone()).await;
        jid.unwrap_or_default()
    }

    /// Returns how often a chunk was begun.
    pub async fn times_begun(&self, at: usize) -> u64 {
        let begun = self.read_chunk(at, |chunk| chunk.begun).await;
        begun.unwrap_or_default()
    }

    /// Returns true if a chunk waits for others.
    pub async fn has_needs(&self, at: usize) -> bool {
        let has_needs = self.read_chunk(at, |chunk| !chunk.needs.is_empty()).await;
        has_needs.unwrap_or_default()
    }

    /// Returns true if others wait for a chunk.
    pub async fn is_needed(&self, at: usize) -> bool {
        self.reaction.lock().await.is_needed(at)
    }

    /// Returns true if a chunk was begun before the daemon was restarted.
    pub fn was_begun(&self, at: usize) -> bool {
        self.begun_before.get(at).copied().unwrap_or_default()
    }

    /// Marks a chunk as begun and returns the locked reaction. The caller must store it before it
    /// releases the lock and before it does anything.
    pub async fn begun(&self, at: usize) -> MutexGuard<'_, Reaction> {
        let mut reaction = self.reaction.lock().await;
        if let Some(chunk) = reaction.chunks.get_mut(at) {
            chunk.state = State::Begun;
            chunk.begun += 1;
        }
        reaction
    }

    /// Records the minions that have not got the job of a chunk.
    pub async fn set_absent(&self, at: usize, absent: Vec<String>) {
        if let Some(chunk) = self.reaction.lock().await.chunks.get_mut(at) {
            chunk.absent = absent;
        }
    }

    /// Lets the next chunk begin.
    pub fn began(&self, at: usize) {
        if let Some(gate) = self.began.get(at) {
            gate.open();
        }
    }

    /// Waits for the chunks that a chunk needs, and for its turn. Returns an outcome if the chunk
    /// is not to be done, otherwise `None`.
    async fn ready(&self, at: usize) -> Option<Outcome> {
        let needs = self.read_chunk(at, |chunk| chunk.needs.clone()).await?;
        for (_, need) in &needs {
            if let Some(gate) = self.ended.get(*need) {
                gate.opened().await;
            }
        }
        if let Some(before) = at.checked_sub(1).and_then(|before| self.began.get(before)) {
            before.opened().await;
        }
        let reaction = self.reaction.lock().await;
        unmet(&reaction, &needs)
    }

    async fn end<A: Actor>(&self, actor: &A, at: usize, outcome: Outcome, is_synced: bool) {
        {
            let mut reaction = self.reaction.lock().await;
            if let Some(chunk) = reaction.chunks.get_mut(at) {
                (chunk.state, chunk.comment) = outcome;
            }
            // A chunk that is alone is stored with the whole reaction.
            if reaction.chunks.len() > 1 {
                keep(actor, &reaction, is_synced).await;
            }
        }
        self.began(at);
        if let Some(gate) = self.ended.get(at) {
            gate.open();
        }
    }
}

/// Returns the outcome of a chunk that is not to be done: a chunk that it requires has not
/// succeeded, or nothing failed that it is meant for.
fn unmet(reaction: &Reaction, needs: &[(RequisiteKind, usize)]) -> Option<Outcome> {
    use RequisiteKind as Kind;
    let chunk = |at: &usize| reaction.chunks.get(*at);
    let is_good = |at: &usize| {
        let state = chunk(at).map(|chunk| chunk.state);
        matches!(state, Some(State::Done | State::Skipped))
    };
    let of = |kinds: &[Kind]| -> Vec<usize> {
        let found = needs.iter().filter(|(kind, _)| kinds.contains(kind));
        found.map(|(_, at)| *at).collect()
    };
    let all = of(&[Kind::Require, Kind::Watch, Kind::Onchanges]);
    let any = [Kind::RequireAny, Kind::WatchAny, Kind::OnchangesAny].map(|kind| of(&[kind]));
    let missing = all.iter().find(|at| !is_good(at)).or_else(|| {
        let mut groups = any.iter();
        let missing = groups.find(|group| !group.is_empty() && !group.iter().any(is_good));
        missing.and_then(|group| group.first())
    });
    if let Some(at) = missing {
        let id = chunk(at).and_then(|chunk| chunk.low.get("__id__"));
        let id = id.map(value::Value::to_text).unwrap_or_default();
        let text = format!("One or more requisite failed: {id}");
        return Some((State::Failed, text));
    }
    let (one, every) = (of(&[Kind::Onfail, Kind::OnfailAny]), of(&[Kind::OnfailAll]));
    let is_moot = !one.is_empty() && one.iter().all(is_good)
        || !every.is_empty() && every.iter().any(is_good);
    let text = "State was not run because onfail req did not change".to_owned();
    is_moot.then_some((State::Skipped, text))
}

/// Answers an event with a rule. `known` is the reaction that was stored before, if any. The
/// rendering holds `turn` until it ends, even if it takes too long and is given up.
pub async fn react<A: Actor, T: Send + Sync + 'static>(
    actor: &Arc<A>,
    known: Option<Reaction>,
    rule: &Rule,
    event: &Arc<Event>,
    turn: &Arc<T>,
) {
    let reaction = match known {
        Some(known) if known.state.is_final() => return,
        Some(known) => Some(known),
        None => rendered(actor, rule, event, turn).await,
    };
    if let Some(reaction) = reaction {
        perform(actor, reaction).await;
    }
}

/// Renders a new reaction. Returns `None` if there is nothing to do.
async fn rendered<A: Actor, T: Send + Sync + 'static>(
    actor: &Arc<A>,
    rule: &Rule,
    event: &Arc<Event>,
    turn: &Arc<T>,
) -> Option<Reaction> {
    let generation = actor.causes().generation(event);
    let place = Place {
        rule: rule.number(),
        sequence: event.sequence,
    };
    let mut reaction = Reaction::new(place, &rule.glob, event, generation, actor.now_ms());
    let most = actor.limits().loop_max;
    if generation > most + u64::from(event.tag == crate::ERROR) {
        reaction.faults.push(format!(
            "{generation} reactions triggered one another (reactor_loop_max is {most}): this one is not run"
        ));
        reaction.state = State::Stopped;
        finish(actor, reaction, true).await;
        return None;
    }
    let compiled = compiled(actor, rule, event, turn).await;
    reaction.plan(&compiled.plan);
    reaction.faults = compiled.faults;
    let is_observing = actor.is_observing();
    if is_observing || !reaction.faults.is_empty() {
        reaction.rendered = compiled.rendered;
    }
    if is_observing {
        reaction.state = State::Observed;
        keep(&**actor, &reaction, false).await;
        return None;
    }
    Some(reaction)
}

/// Renders and compiles on a separate thread. If that takes too long, the result is given up, but
/// the rendering holds `turn` until it ends.
async fn compiled<A: Actor, T: Send + Sync + 'static>(
    actor: &Arc<A>,
    rule: &Rule,
    event: &Arc<Event>,
    turn: &Arc<T>,
) -> Compiled {
    let most = actor.limits().render;
    let (actor, rule) = (actor.clone(), rule.clone());
    let (event, turn) = (event.clone(), turn.clone());
    let work = smol::unblock(move || {
        let cx = actor.context();
        let compiled = compile(&cx, &rule, &event.tag, &event.data);
        cx.barrier();
        drop(turn);
        compiled
    });
    // A dropped task might not run at all, so it is dropped only after its time limit.
    let mut work = Box::pin(work);
    if let Some(compiled) = link::wait::within(most, work.as_mut()).await {
        return compiled;
    }
    let seconds = most.as_secs();
    Compiled {
        faults: vec![format!(
            "The files were not rendered within {seconds} s (reactor_render_timeout): no longer waiting for them"
        )],
        ..Compiled::default()
    }
}

/// Runs the remaining chunks of a reaction, and ends it.
async fn perform<A: Actor>(actor: &Arc<A>, reaction: Reaction) {
    let (rule, tag, sequence) = (&reaction.rule, &reaction.tag, reaction.place.sequence);
    log::debug(format_args!(
        "the reaction of the rule {rule} to the event {sequence} ({tag}) begins: {} chunks",
        reaction.chunks.len()
    ));
    let board = Arc::new(Board::new(reaction));
    let count = board.ended.len();
    let tasks: Vec<smol::Task<bool>> = (0..count)
        .map(|at| smol::spawn(chunk(actor.clone(), board.clone(), at)))
        .collect();
    let mut is_synced = false;
    for task in tasks {
        is_synced |= task.await;
    }
    let mut reaction = board.reaction.lock().await.clone();
    reaction.state = reaction.outcome();
    if reaction.state.is_final() {
        return finish(actor, reaction, is_synced).await;
    }
    keep(&**actor, &reaction, is_synced).await;
    actor.await_returns(reaction).await;
}

/// Stores a reaction. If that fails, the failure is logged and the reaction continues, unless another
/// master has taken it over.
pub async fn keep<A: Actor>(actor: &A, reaction: &Reaction, is_synced: bool) {
    if let Err(error) = actor.keep(reaction, is_synced).await
        && !actor.is_replaced()
    {
        not_kept(&reaction.rule, &error);
    }
}

/// Logs that a reaction is not stored.
pub fn not_kept(rule: &str, why: &str) {
    log::error(format_args!(
        "cannot store the progress of the rule {rule}: {why}"
    ));
}

/// Stores how a reaction ended, and reports one that failed.
pub async fn finish<A: Actor>(actor: &Arc<A>, reaction: Reaction, is_synced: bool) {
    let is_good = reaction.state == State::Done;
    let (rule, tag, sequence) = (&reaction.rule, &reaction.tag, reaction.place.sequence);
    if actor.is_replaced() {
        return log::info(format_args!(
            "the reaction of the rule {rule} to the event {sequence} ({tag}) is left to the next leader"
        ));
    }
    let result = reaction.state.as_str();
    log::debug(format_args!(
        "the reaction of the rule {rule} to the event {sequence} ({tag}) has ended: {result}"
    ));
    keep(&**actor, &reaction, is_synced || !is_good).await;
    if !is_good {
        tell_failure(&**actor, &reaction).await;
    }
}

/// Runs a chunk when its turn has come. Returns true if its outcome must be on disk at once.
async fn chunk<A: Actor>(actor: Arc<A>, board: Arc<Board>, at: usize) -> bool {
    let state = board.read_chunk(at, |chunk| chunk.state).await;
    if state.is_none_or(State::is_called) {
        board.began(at);
        if let Some(gate) = board.ended.get(at) {
            gate.open();
        }
        return false;
    }
    let (outcome, is_synced) = match board.ready(at).await {
        Some(outcome) => (outcome, false),
        None => called(&actor, &board, at).await,
    };
    board.end(&*actor, at, outcome, is_synced).await;
    is_synced
}

/// Makes the call of a chunk.
async fn called<A: Actor>(actor: &Arc<A>, board: &Arc<Board>, at: usize) -> (Outcome, bool) {
    let (low, jid, generation) = {
        let reaction = board.reaction.lock().await;
        let chunk = reaction.chunks.get(at);
        let (low, jid) = chunk
            .map(|chunk| (chunk.low.clone(), chunk.jid.clone()))
            .unwrap_or_default();
        (low, jid, reaction.generation)
    };
    match Call::from_low(&low) {
        Ok(call) => {
            actor.causes().caused(generation + 1, &jid, &call);
            actor.call(board, at, call).await
        }
        Err(error) => ((State::Failed, error), false),
    }
}

#[cfg(test)]
mod tests {
    use RequisiteKind::{Onfail, OnfailAll, Prereq, Require, RequireAny};
    use value::Map;

    use super::*;

    /// Returns a reaction with a chunk in each of these states.
    fn reaction(states: &[State]) -> Reaction {
        let chunk = |state: &State| Chunk {
            low: Map::new().with("__id__", state.as_str()),
            needs: Vec::new(),
            jid: String::new(),
            state: *state,
            begun: 0,
            comment: String::new(),
            absent: Vec::new(),
        };
        Reaction {
            place: Place {
                rule: 1,
                sequence: 1,
            },
            rule: String::new(),
            tag: String::new(),
            began_ms: 0,
            state: State::Begun,
            generation: 0,
            faults: Vec::new(),
            rendered: String::new(),
            chunks: states.iter().map(chunk).collect(),
        }
    }

    #[test]
    fn a_chunk_is_done_when_what_it_needs_is_so() {
        let reaction = reaction(&[State::Done, State::Failed, State::Skipped, State::Unknown]);
        let (good, bad, moot, unknown) = (0, 1, 2, 3);
        let state =
            |needs: &[(RequisiteKind, usize)]| unmet(&reaction, needs).map(|(state, _)| state);
        assert_eq!(state(&[]), None);
        assert_eq!(state(&[(Require, good), (Require, moot)]), None);
        assert_eq!(
            state(&[(Require, good), (Require, bad)]),
            Some(State::Failed)
        );
        // A chunk whose answer was lost has not succeeded.
        assert_eq!(state(&[(Require, unknown)]), Some(State::Failed));
        assert_eq!(state(&[(RequireAny, bad), (RequireAny, good)]), None);
        assert_eq!(state(&[(RequireAny, bad)]), Some(State::Failed));
        assert_eq!(state(&[(Onfail, good), (Onfail, bad)]), None);
        assert_eq!(state(&[(Onfail, good)]), Some(State::Skipped));
        assert_eq!(
            state(&[(OnfailAll, good), (OnfailAll, bad)]),
            Some(State::Skipped)
        );
        assert_eq!(state(&[(OnfailAll, bad)]), None);
        assert_eq!(state(&[(Prereq, bad)]), None);
        let (_, why) = unmet(&reaction, &[(Require, bad)]).unwrap();
        assert_eq!(why, "One or more requisite failed: failed");
    }
}
