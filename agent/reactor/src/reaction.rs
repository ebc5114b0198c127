//! [`Reaction`]: the stored result of a rule and an event, chunk by chunk.

use state::compile::Plan;
use state::low::RequisiteKind;
use value::{Map, Value, jid};

use crate::call::{Call, unaliased};
use crate::{Event, Place};

/// The state of a reaction or a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It was not begun yet.
    Waiting,
    /// It was begun. A reaction stays in this state until its jobs have returned.
    Begun,
    /// The job of a chunk was sent, and has not returned yet.
    Sent,
    /// It is done.
    Done,
    /// It did not succeed, or could not be done.
    Failed,
    /// It was not done, because the chunks of its `onfail` requisites had not failed.
    Skipped,
    /// It is unknown whether it was done.
    Unknown,
    /// It was only observed (`reactor.enforce False`).
    Observed,
    /// It was the last of too many reactions that caused one another.
    Stopped,
}

impl State {
    const ALL: [Self; 9] = [
        Self::Waiting,
        Self::Begun,
        Self::Sent,
        Self::Done,
        Self::Failed,
        Self::Skipped,
        Self::Unknown,
        Self::Observed,
        Self::Stopped,
    ];

    /// Returns the word for the state.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Begun => "begun",
            Self::Sent => "sent",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Unknown => "unknown",
            Self::Observed => "observed",
            Self::Stopped => "stopped",
        }
    }

    fn from_row(row: &Map) -> Option<Self> {
        let word = row.get("state")?.as_str()?;
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Returns true if the state does not change any more.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Waiting | Self::Begun | Self::Sent)
    }

    /// Returns true if nothing is left to be called.
    pub fn is_called(self) -> bool {
        self == Self::Sent || self.is_final()
    }
}

/// One chunk of a reaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    /// The chunk's low data.
    pub low: Map,
    /// The requisites of the chunk, and the chunks that they refer to.
    pub needs: Vec<(RequisiteKind, usize)>,
    /// The id of the chunk's job.
    pub jid: String,
    /// The chunk's state.
    pub state: State,
    /// The number of times that the chunk was begun. It is begun again if the daemon ends before
    /// the chunk does.
    pub begun: u64,
    /// The reason why the chunk is not done, or another comment.
    pub comment: String,
    /// The minions that were meant to get the chunk's job and have not: no return is expected from
    /// them.
    pub absent: Vec<String>,
}

/// The result of a rule and an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Reaction {
    /// The rule and the event.
    pub place: Place,
    /// The rule's pattern at that time.
    pub rule: String,
    /// The event's tag.
    pub tag: String,
    /// The time at which the reaction began, in milliseconds since 1970.
    pub began_ms: u64,
    /// The reaction's state.
    pub state: State,
    /// The number of reactions that led to this one.
    pub generation: u64,
    /// The faults of the rule's files.
    pub faults: Vec<String>,
    /// The rendered text of the files, kept if they have faults or the reaction is only observed.
    pub rendered: String,
    /// The chunks in their order.
    pub chunks: Vec<Chunk>,
}

impl Reaction {
    /// Creates a reaction without chunks, which begins at a time in milliseconds since 1970.
    pub fn new(place: Place, rule: &str, event: &Event, generation: u64, began_ms: u64) -> Self {
        Self {
            place,
            rule: rule.to_owned(),
            tag: event.tag.clone(),
            began_ms,
            state: State::Begun,
            generation,
            faults: Vec::new(),
            rendered: String::new(),
            chunks: Vec::new(),
        }
    }

    /// Adds the chunks of a plan, each with the id of its job. The test runs that a `prereq` asks
    /// for are left out, because a reaction has effects only.
    pub fn plan(&mut self, plan: &Plan) {
        let steps = plan.steps().iter().filter(|step| !step.test);
        let mut places: Vec<usize> = Vec::new();
        for step in steps {
            let Some(low) = plan.chunks().get(step.chunk) else {
                continue;
            };
            let place = |(kind, chunk): &(RequisiteKind, usize)| {
                let at = places.iter().position(|known| known == chunk)?;
                Some((*kind, at))
            };
            let needs = step.needs.iter().filter_map(place).collect();
            places.push(step.chunk);
            self.chunks.push(Chunk {
                low: unaliased(&low.data),
                needs,
                jid: jid::new(),
                state: State::Waiting,
                begun: 0,
                comment: String::new(),
                absent: Vec::new(),
            });
        }
    }

    /// Returns true if another chunk depends on how this one ends.
    pub fn is_needed(&self, chunk: usize) -> bool {
        let mut needs = self.chunks.iter().flat_map(|chunk| &chunk.needs);
        needs.any(|(_, at)| *at == chunk)
    }

    /// Returns the outcome of all chunks together; [`State::Begun`] while one has not returned.
    pub fn outcome(&self) -> State {
        let any = |state| self.chunks.iter().any(|chunk| chunk.state == state);
        match () {
            () if any(State::Sent) => State::Begun,
            () if !self.faults.is_empty() || any(State::Failed) => State::Failed,
            () if any(State::Unknown) => State::Unknown,
            () => State::Done,
        }
    }

    /// Returns the errors as sentences.
    pub fn errors(&self) -> Vec<String> {
        let is_wrong = |chunk: &&Chunk| matches!(chunk.state, State::Failed | State::Unknown);
        let chunks = self.chunks.iter().filter(is_wrong);
        let chunks = chunks.map(|chunk| chunk.comment.clone());
        self.faults.iter().cloned().chain(chunks).collect()
    }

    /// Returns the form that is stored.
    #[must_use]
    pub fn row(&self) -> Map {
        let mut row = Map::new()
            .with("rule", self.rule.as_str())
            .with("tag", self.tag.as_str())
            .with("began_ms", self.began_ms)
            .with("state", self.state.as_str())
            .with("generation", self.generation)
            .with("chunks", Value::list(self.chunks.iter().map(chunk_row)));
        if !self.faults.is_empty() {
            let faults = self.faults.iter().map(|fault| fault.as_str().into());
            row.insert("faults", Value::list(faults));
        }
        if !self.rendered.is_empty() {
            row.insert("rendered", self.rendered.as_str());
        }
        row
    }

    /// Reads a stored reaction. Returns `None` if it cannot be read.
    pub fn from_row(place: Place, row: &Map) -> Option<Self> {
        let text = |key| row.get(key).map(Value::to_text).unwrap_or_default();
        let number = |key| u64::try_from(row.get(key)?.as_int()?).ok();
        let chunks = row.get("chunks")?.as_list()?.iter();
        Some(Self {
            place,
            rule: text("rule"),
            tag: text("tag"),
            began_ms: number("began_ms")?,
            state: State::from_row(row)?,
            generation: number("generation")?,
            faults: row.get("faults").map(Value::texts).unwrap_or_default(),
            rendered: text("rendered"),
            chunks: chunks.map(read_chunk).collect::<Option<_>>()?,
        })
    }

    /// Returns the calls of the chunks; for a chunk without one, the reason.
    pub fn calls(&self) -> Value {
        let calls = self
            .chunks
            .iter()
            .map(|chunk| match Call::from_low(&chunk.low) {
                Ok(call) => Value::from(call.to_map()),
                Err(error) => error.into(),
            });
        Value::list(calls)
    }

    /// Returns the reaction as the runner shows it.
    pub fn to_map(&self) -> Map {
        let chunks = self.chunks.iter().map(|chunk| {
            let text = |key| chunk.low.get(key).cloned().unwrap_or_default();
            Value::from(
                Map::new()
                    .with("id", text("__id__"))
                    .with("type", text("state"))
                    .with("fun", text("fun"))
                    .with("jid", chunk.jid.as_str())
                    .with("state", chunk.state.as_str())
                    .with("comment", chunk.comment.as_str()),
            )
        });
        let errors = self.errors();
        let errors = errors.iter().map(|error| error.as_str().into());
        let mut shown = Map::new()
            .with("sequence", self.place.sequence)
            .with("rule", self.rule.as_str())
            .with("tag", self.tag.as_str())
            .with(
                "time",
                jid::to_time(&jid::from_micros(self.began_ms.saturating_mul(1000))),
            )
            .with("state", self.state.as_str())
            .with("generation", self.generation)
            .with("chunks", Value::list(chunks))
            .with("errors", Value::list(errors));
        if !self.rendered.is_empty() {
            shown.insert("rendered", self.rendered.as_str());
        }
        shown
    }
}

fn chunk_row(chunk: &Chunk) -> Value {
    let needs = chunk.needs.iter();
    let needs = needs.map(|(kind, at)| Value::list([kind.word().into(), (*at).into()]));
    let row = Map::new()
        .with("low", chunk.low.clone())
        .with("needs", Value::list(needs))
        .with("jid", chunk.jid.as_str())
        .with("state", chunk.state.as_str())
        .with("begun", chunk.begun)
        .with("comment", chunk.comment.as_str());
    if chunk.absent.is_empty() {
        return row.into();
    }
    let absent = chunk.absent.iter().map(|id| id.as_str().into());
    row.with("absent", Value::list(absent)).into()
}

fn read_chunk(row: &Value) -> Option<Chunk> {
    let row = row.as_map()?;
    let need = |need: &Value| {
        let [kind, at] = need.as_list()? else {
            return None;
        };
        let kind = RequisiteKind::from_word(kind.as_str()?)?;
        Some((kind, usize::try_from(at.as_int()?).ok()?))
    };
    Some(Chunk {
        low: row.get("low")?.as_map()?.clone(),
        needs: row
            .get("needs")?
            .as_list()?
            .iter()
            .map(need)
            .collect::<Option<_>>()?,
        jid: row.get("jid")?.as_str()?.to_owned(),
        state: State::from_row(row)?,
        // Rows of earlier releases lack this number.
        begun: row
            .get("begun")
            .and_then(Value::as_int)
            .and_then(|begun| u64::try_from(begun).ok())
            .unwrap_or_default(),
        comment: row.get("comment")?.to_text(),
        absent: row.get("absent").map(Value::texts).unwrap_or_default(),
    })
}
