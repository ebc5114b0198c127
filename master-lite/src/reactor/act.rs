//! One reaction from its event to its end.

use std::sync::Arc;

use smol::Timer;
use smol::channel::{Receiver, Sender, bounded};
use smol::future::FutureExt;
use smol::lock::{Mutex, SemaphoreGuardArc};
use state::low::RequisiteKind;
use value::log;

use super::call::Call;
use super::effects::Outcome;
use super::high::{Compiled, compile};
use super::reaction::{Chunk, Reaction, State};
use super::rule::Rule;
use crate::daemon::{Master, now_ms};
use crate::store::{Command, Event, Place};

/// Room for a reaction: whoever works for it has it, also a thread whose work is waited for no longer.
pub(super) type Turn = Arc<(SemaphoreGuardArc, SemaphoreGuardArc)>;

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
pub(super) struct Board {
    reaction: Mutex<Reaction>,
    /// The chunks that were begun before the master was started again.
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
    pub(super) async fn jid(&self, at: usize) -> String {
        let jid = self.of(at, |chunk| chunk.jid.clone()).await;
        jid.unwrap_or_default()
    }

    /// True when a chunk waits for others.
    pub(super) async fn has_needs(&self, at: usize) -> bool {
        let has_needs = self.of(at, |chunk| !chunk.needs.is_empty()).await;
        has_needs.unwrap_or_default()
    }

    /// True when others wait for a chunk.
    pub(super) async fn is_needed(&self, at: usize) -> bool {
        self.reaction.lock().await.is_needed(at)
    }

    /// True when a chunk was begun before the master was started again.
    pub(super) async fn was_begun(&self, at: usize) -> bool {
        self.begun_before.get(at).copied().unwrap_or_default()
    }

    /// Keeps that a chunk is begun, together with what belongs to that: on the disk before anything is done.
    pub(super) async fn begin(
        &self,
        master: &Master,
        at: usize,
        commands: Vec<Command>,
    ) -> Result<(), String> {
        let begun = {
            let mut reaction = self.reaction.lock().await;
            if let Some(chunk) = reaction.chunks.get_mut(at) {
                chunk.state = State::Begun;
            }
            let mut all = vec![reaction.kept()];
            all.extend(commands);
            master.store().begin(Command::All(all)).await
        };
        let done = begun.map_err(|error| error.to_string())?.done().await;
        let done = done.map_err(|error| error.to_string())?;
        done.refusal()
            .map_or(Ok(()), |refusal| Err(refusal.to_string()))
    }

    /// The next chunk may begin.
    pub(super) fn began(&self, at: usize) {
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

    async fn end(&self, master: &Master, at: usize, outcome: Outcome, is_synced: bool) {
        {
            let mut reaction = self.reaction.lock().await;
            if let Some(chunk) = reaction.chunks.get_mut(at) {
                (chunk.state, chunk.comment) = outcome;
            }
            // The last one is kept with the whole.
            if reaction.chunks.len() > 1 || is_synced {
                keep(master, &reaction, is_synced).await;
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

/// Keeps a reaction as it stands.
async fn keep(master: &Master, reaction: &Reaction, is_synced: bool) {
    let command = reaction.kept();
    let kept = match is_synced {
        true => master.store().apply(command).await.map(|_| ()),
        false => master.store().later(command).await,
    };
    if let Err(error) = kept {
        log::error(format_args!(
            "How the rule {} went on is not kept: {error}",
            reaction.rule
        ));
    }
}

impl Master {
    /// Answers an event as a rule has it; false when the store cannot be read, and it is to be tried again.
    pub(super) async fn react(
        self: &Arc<Self>,
        rule: &Rule,
        event: &Arc<Event>,
        turn: &Turn,
    ) -> bool {
        let place = Place {
            rule: rule.number(),
            sequence: event.sequence,
        };
        let store = self.store().clone();
        let known = match smol::unblock(move || store.reaction(place)).await {
            Ok(known) => known,
            Err(error) => {
                log::error(format_args!("The rule {} waits: {error}", rule.glob));
                return false;
            }
        };
        let known = known.map(|row| Reaction::of_row(place, &row));
        let reaction = match known {
            Some(Some(known)) if known.state.is_final() => return true,
            Some(Some(known)) => Some(known),
            // A row that a later release wrote: what it meant is not guessed.
            Some(None) => return true,
            None => self.rendered(rule, event, place, turn).await,
        };
        if let Some(reaction) = reaction {
            self.perform(reaction).await;
            self.metrics().reaction_seconds.since(event.at_ms);
        }
        true
    }

    /// A new reaction, rendered; none when there is nothing to do.
    async fn rendered(
        self: &Arc<Self>,
        rule: &Rule,
        event: &Arc<Event>,
        place: Place,
        turn: &Turn,
    ) -> Option<Reaction> {
        let generation = self.reactor().causes.generation(event);
        let mut reaction = Reaction::new(place, &rule.glob, event, generation, now_ms());
        let most = self.reactor().limits.loop_max;
        if generation > most + u64::from(event.tag == super::ERROR) {
            reaction.faults.push(format!(
                "{generation} reactions led to one another (reactor_loop_max is {most}): this one is not done"
            ));
            reaction.state = State::Stopped;
            self.finish(reaction).await;
            return None;
        }
        let compiled = self.compiled(rule, event, turn).await;
        reaction.plan(&compiled.plan);
        reaction.faults = compiled.faults;
        let is_observing = self.reactor().is_observing();
        if is_observing || !reaction.faults.is_empty() {
            reaction.rendered = compiled.rendered;
        }
        if is_observing {
            reaction.state = State::Observed;
            self.metrics().reaction(State::Observed);
            keep(self, &reaction, false).await;
            return None;
        }
        Some(reaction)
    }

    /// Renders and compiles on a thread of its own. One that takes too long is waited for no longer; it keeps its room until it ends.
    async fn compiled(self: &Arc<Self>, rule: &Rule, event: &Arc<Event>, turn: &Turn) -> Compiled {
        let most = self.reactor().limits.render;
        let (master, rule) = (self.clone(), rule.clone());
        let (event, turn) = (event.clone(), turn.clone());
        let work = smol::unblock(move || {
            let cx = master.reactor_context();
            let compiled = compile(&cx, &rule, &event.tag, &event.stamped());
            cx.barrier();
            drop(turn);
            compiled
        });
        // A task that is dropped may not run at all: this one is let go only when its time is up.
        let mut work = Box::pin(work);
        let done = async { Some(work.as_mut().await) };
        let late = async {
            Timer::after(most).await;
            None
        };
        if let Some(compiled) = done.or(late).await {
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
    async fn perform(self: &Arc<Self>, reaction: Reaction) {
        let board = Arc::new(Board::new(reaction));
        let count = board.ended.len();
        let tasks: Vec<smol::Task<()>> = (0..count)
            .map(|at| smol::spawn(self.clone().chunk(board.clone(), at)))
            .collect();
        for task in tasks {
            task.await;
        }
        let mut reaction = board.reaction.lock().await.clone();
        reaction.state = reaction.outcome();
        self.finish(reaction).await;
    }

    /// Keeps how a reaction ended, and tells of one that went wrong.
    async fn finish(&self, reaction: Reaction) {
        let is_good = reaction.state == State::Done;
        self.metrics().reaction(reaction.state);
        keep(self, &reaction, !is_good).await;
        if !is_good {
            self.tell_failure(&reaction).await;
        }
    }

    async fn chunk(self: Arc<Self>, board: Arc<Board>, at: usize) {
        let state = board.of(at, |chunk| chunk.state).await;
        if state.is_none_or(State::is_final) {
            board.began(at);
            if let Some(gate) = board.ended.get(at) {
                gate.open();
            }
            return;
        }
        let (outcome, is_synced) = match board.ready(at).await {
            Some(outcome) => (outcome, false),
            None => self.called(&board, at).await,
        };
        board.end(&self, at, outcome, is_synced).await;
    }

    /// Makes the call of a chunk; what came of it, and whether that must be on the disk at once.
    async fn called(self: &Arc<Self>, board: &Arc<Board>, at: usize) -> (Outcome, bool) {
        let (low, jid, generation) = {
            let reaction = board.reaction.lock().await;
            let chunk = reaction.chunks.get(at);
            let (low, jid) = chunk
                .map(|chunk| (chunk.low.clone(), chunk.jid.clone()))
                .unwrap_or_default();
            (low, jid, reaction.generation)
        };
        let call = match Call::of(&low) {
            Ok(call) => call,
            Err(error) => return ((State::Failed, error), false),
        };
        let causes = &self.reactor().causes;
        causes.caused(generation + 1, &jid, &call);
        match call {
            Call::Local(local) => (self.react_local(board, at, local).await, false),
            Call::Client(client) => {
                let is_synced = !client.may_be_done_again();
                (self.react_client(board, at, client).await, is_synced)
            }
        }
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
