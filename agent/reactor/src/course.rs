//! One reaction from its event to its end.

use std::future::Future;
use std::sync::Arc;

use smol::channel::{Receiver, Sender, bounded};
use smol::lock::{Mutex, MutexGuard};
use state::exec::Exec;
use state::low::RequisiteKind;
use value::{Map, log};

use crate::call::Call;
use crate::causes::Causes;
use crate::high::{Compiled, compile};
use crate::reaction::{Chunk, Reaction, State};
use crate::rule::Rule;
use crate::{Event, Limits, Place, tell_failure};

/// What a chunk came to, and what there is to say.
pub type Outcome = (State, String);

/// How much of a return stands in a comment.
const COMMENT_MAX: usize = 400;

/// A chunk that is not done, or has not succeeded.
pub fn failed(text: impl Into<String>) -> Outcome {
    (State::Failed, text.into())
}

/// The beginning of a return, for a comment.
#[must_use]
pub fn shortened(text: &str) -> String {
    text.chars().take(COMMENT_MAX).collect()
}

/// Who reacts: a master, or a minion.
pub trait Actor: Send + Sync + 'static {
    /// The options.
    fn limits(&self) -> Limits;

    /// What was caused by what.
    fn causes(&self) -> &Causes;

    /// Whether reactions are only looked at.
    fn is_observing(&self) -> bool;

    /// The context that templates are rendered in; it may take its time.
    fn context(self: &Arc<Self>) -> Exec;

    /// Keeps a reaction as it stands, or says why it is not kept; what must be on the disk at once is `is_synced`.
    fn keep(
        &self,
        reaction: &Reaction,
        is_synced: bool,
    ) -> impl Future<Output = Result<(), String>> + Send;

    /// Fires an event about the reactor itself.
    fn tell(&self, tag: &str, data: Map) -> impl Future<Output = ()> + Send;

    /// Makes the call of a chunk; what came of it, and whether that must be on the disk at once. The next chunk waits for
    /// [`Board::began`], or for the end of this one.
    fn call(
        self: &Arc<Self>,
        board: &Arc<Board>,
        at: usize,
        call: Call,
    ) -> impl Future<Output = (Outcome, bool)> + Send;
}

/// Something that happens once, and is waited for.
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
        // No deadline: it ends with its senders.
        let _ = self.1.recv().await;
    }
}

/// A reaction whose chunks are under way.
pub struct Board {
    reaction: Mutex<Reaction>,
    /// The chunks that were begun before the daemon was started again.
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

    async fn of<T>(&self, at: usize, look: impl FnOnce(&Chunk) -> T) -> Option<T> {
        self.reaction.lock().await.chunks.get(at).map(look)
    }

    /// The id of a chunk's job.
    pub async fn jid(&self, at: usize) -> String {
        let jid = self.of(at, |chunk| chunk.jid.clone()).await;
        jid.unwrap_or_default()
    }

    /// How often a chunk was begun.
    pub async fn times_begun(&self, at: usize) -> u64 {
        let begun = self.of(at, |chunk| chunk.begun).await;
        begun.unwrap_or_default()
    }

    /// True when a chunk waits for others.
    pub async fn has_needs(&self, at: usize) -> bool {
        let has_needs = self.of(at, |chunk| !chunk.needs.is_empty()).await;
        has_needs.unwrap_or_default()
    }

    /// True when others wait for a chunk.
    pub async fn is_needed(&self, at: usize) -> bool {
        self.reaction.lock().await.is_needed(at)
    }

    /// True when a chunk was begun before the daemon was started again.
    pub fn was_begun(&self, at: usize) -> bool {
        self.begun_before.get(at).copied().unwrap_or_default()
    }

    /// The reaction with a chunk begun: whoever has it keeps it before anything is done, and before it changes again.
    pub async fn begun(&self, at: usize) -> MutexGuard<'_, Reaction> {
        let mut reaction = self.reaction.lock().await;
        if let Some(chunk) = reaction.chunks.get_mut(at) {
            chunk.state = State::Begun;
            chunk.begun += 1;
        }
        reaction
    }

    /// The next chunk may begin.
    pub fn began(&self, at: usize) {
        if let Some(gate) = self.began.get(at) {
            gate.open();
        }
    }

    /// Waits for what a chunk needs, and for its turn; then says why it is not done, if it is not.
    async fn ready(&self, at: usize) -> Option<Outcome> {
        let needs = self.of(at, |chunk| chunk.needs.clone()).await?;
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
            // One that is alone is kept with the whole.
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

/// Why a chunk is not done: what it requires has not succeeded, or nothing failed that it is there for.
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

/// Answers an event as a rule has it: `known` is what was kept of that, if anything was. The rendering has the `turn` until it ends,
/// also when it is waited for no longer.
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

/// A new reaction, rendered; none when there is nothing to do.
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
    let mut reaction = Reaction::new(place, &rule.glob, event, generation);
    let most = actor.limits().loop_max;
    if generation > most + u64::from(event.tag == crate::ERROR) {
        reaction.faults.push(format!(
            "{generation} reactions led to one another (reactor_loop_max is {most}): this one is not done"
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

/// Renders and compiles on a thread of its own. One that takes too long is waited for no longer; it keeps its room until it ends.
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
    // A task that is dropped may not run at all: this one is let go only when its time is up.
    let mut work = Box::pin(work);
    if let Some(compiled) = link::wait::within(most, work.as_mut()).await {
        return compiled;
    }
    let seconds = most.as_secs();
    Compiled {
        faults: vec![format!(
            "The files were not rendered within {seconds} s (reactor_render_timeout), and are waited for no longer"
        )],
        ..Compiled::default()
    }
}

/// Does what a reaction has left to do.
async fn perform<A: Actor>(actor: &Arc<A>, reaction: Reaction) {
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
    finish(actor, reaction, is_synced).await;
}

/// Keeps a reaction. Where that fails it goes on all the same, and what it came to is in the log.
pub async fn keep<A: Actor>(actor: &A, reaction: &Reaction, is_synced: bool) {
    if let Err(error) = actor.keep(reaction, is_synced).await {
        not_kept(&reaction.rule, &error);
    }
}

/// Tells that a reaction is not kept.
pub fn not_kept(rule: &str, why: &str) {
    log::error(format_args!(
        "How the rule {rule} went on is not kept: {why}"
    ));
}

/// Keeps how a reaction ended, and tells of one that went wrong.
async fn finish<A: Actor>(actor: &Arc<A>, reaction: Reaction, is_synced: bool) {
    let is_good = reaction.state == State::Done;
    keep(&**actor, &reaction, is_synced || !is_good).await;
    if !is_good {
        tell_failure(&**actor, &reaction).await;
    }
}

/// Does a chunk when its turn has come; whether how it ended must be on the disk at once.
async fn chunk<A: Actor>(actor: Arc<A>, board: Arc<Board>, at: usize) -> bool {
    let state = board.of(at, |chunk| chunk.state).await;
    if state.is_none_or(State::is_final) {
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
    match Call::of(&low) {
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

    /// A reaction with a chunk in each of these states.
    fn reaction(states: &[State]) -> Reaction {
        let chunk = |state: &State| Chunk {
            low: Map::new().with("__id__", state.as_str()),
            needs: Vec::new(),
            jid: String::new(),
            state: *state,
            begun: 0,
            comment: String::new(),
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
        // A lost answer is no success.
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
