//! [`apply`]: the effect of each command on the store. It reads no clock, and writes only through
//! the batch.

use std::sync::Arc;

use link::key::PublicKey;
use reactor::Place;
use value::{Map, Value};
use wire::Id;

use super::batch::Batch;
use super::command::{Applied, Cache, Change, Command, Origin, Refusal};
use super::error::words;
use super::rows::{Event, Job, NAME_MAX, Received, Returned, Table, at, decode, encode};
use super::{apply_removals as removals, apply_rings, apply_runs, holders, rows};

/// A command that was not done.
pub(super) enum Failure {
    /// The command was refused, and its sender receives the reason.
    Refused(Refusal),
    /// The tables cannot be read.
    Read(String),
}

impl From<fjall::Error> for Failure {
    fn from(error: fjall::Error) -> Self {
        Self::Read(words(&error))
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

pub(super) type Outcome = Result<Applied, Failure>;

/// Applies a command.
///
/// # Errors
/// Returns an error if the tables cannot be read.
pub(super) fn apply(batch: &mut Batch<'_>, command: Command) -> Result<Applied, String> {
    match done(batch, command) {
        Ok(applied) => Ok(applied),
        Err(Failure::Refused(refusal)) => Ok(Applied::Refused(refusal)),
        Err(Failure::Read(why)) => Err(why),
    }
}

fn done(batch: &mut Batch<'_>, command: Command) -> Outcome {
    match command {
        Command::Event {
            tag,
            data,
            stamp,
            at_ms,
            origin,
        } => {
            let event = Event {
                sequence: batch.counts.log.next,
                tag,
                stamp,
                at_ms,
                data,
            };
            append(batch, event, origin)
        }
        Command::Job {
            jid,
            load,
            minions,
            at_ms,
        } => job(
            batch,
            Job {
                jid,
                load,
                minions,
                at_ms,
            },
        ),
        Command::Return {
            jid,
            id,
            data,
            at_ms,
            origin,
        } => returned(batch, &jid, Returned { id, at_ms, data }, origin),
        Command::Cached {
            id,
            key,
            what,
            change,
        } => cached(batch, (&id, &key), what, change),
        Command::Cursor { name, sequence } => cursor(batch, &name, sequence),
        Command::Reaction { place, row } => reaction(batch, place, row),
        Command::Token {
            name,
            data,
            expected,
        } => token(batch, name, data, expected),
        Command::EventsDropped { before, limit } => removals::drop_events(batch, before, limit),
        Command::JobsDropped { before_ms, limit } => removals::drop_jobs(batch, before_ms, limit),
        Command::EventsRemoved { sequences } => removals::remove_events(batch, &sequences),
        Command::JobsRemoved { jobs } => removals::remove_jobs(batch, jobs),
        of_a_ring @ (Command::RingCreated { .. }
        | Command::RingDestroyed { .. }
        | Command::RingSet { .. }
        | Command::RouteSet { .. }) => apply_rings::done(batch, of_a_ring),
        of_a_run @ (Command::RunBegun { .. }
        | Command::RunCopied { .. }
        | Command::RunStep { .. }
        | Command::RunClaimed { .. }
        | Command::RunEnded { .. }) => apply_runs::done(batch, of_a_run),
        Command::All(commands) => all(batch, commands),
        of_a_key => super::apply_keys::done(batch, of_a_key),
    }
}

fn all(batch: &mut Batch<'_>, commands: Vec<Command>) -> Outcome {
    let mut all = Vec::with_capacity(commands.len());
    for command in commands {
        let applied = apply(batch, command).map_err(Failure::Read)?;
        let is_last = applied.is_void();
        all.push(applied);
        if is_last {
            break;
        }
    }
    Ok(Applied::All(all))
}

/// Encodes a row, or returns why it cannot be stored.
pub(super) fn row(what: &'static str, row: Map) -> Result<Vec<u8>, Refusal> {
    encode(row).map_err(|why| Refusal::Value { what, why })
}

pub(super) fn name(what: &'static str, text: &str) -> Result<(), Refusal> {
    if text.is_empty() || text.len() > NAME_MAX || text.contains('\0') {
        return Err(Refusal::Name {
            what,
            text: text.chars().take(64).collect(),
            limit: NAME_MAX,
        });
    }
    Ok(())
}

pub(super) fn damaged(what: &str) -> Failure {
    Failure::Read(format!("cannot read {what}"))
}

fn append(batch: &mut Batch<'_>, event: Event, origin: Option<Origin>) -> Outcome {
    name("the tag", &event.tag)?;
    let holder = holders::of_event(&event.tag, &event.data, origin.as_ref());
    let bytes = row("an event", event.row(&holder))?;
    let (is_new, durable) = received(batch, origin)?;
    if !is_new {
        return Ok(Applied::Duplicate { durable });
    }
    let sequence = event.sequence;
    let log = &mut batch.counts.log;
    log.next += 1;
    log.bytes += bytes.len() as u64;
    batch.changes.added.events.add(&holder, bytes.len());
    batch.events.push((Arc::new(event), bytes.len()));
    batch.put(Table::Events, at::event(sequence), bytes);
    Ok(Applied::Event { sequence, durable })
}

/// Reports whether an event or return is new, and the highest durable position of its spool.
fn received(batch: &mut Batch<'_>, origin: Option<Origin>) -> Result<(bool, u64), Failure> {
    let Some(origin) = origin else {
        return Ok((true, 0));
    };
    super::apply_keys::accepted(batch, &origin.id, &origin.key)?;
    let place = at::origin(&origin);
    let mut received = match batch.get(Table::Keys, &place)? {
        Some(bytes) => Received::from_row(&bytes).ok_or_else(|| damaged("a spool's number"))?,
        None => Received::default(),
    };
    let is_new = received.take(origin.sequence);
    if is_new {
        batch.put(Table::Keys, place, received.row());
    }
    Ok((is_new, received.durable()))
}

fn job(batch: &mut Batch<'_>, mut job: Job) -> Outcome {
    name("the jid", &job.jid)?;
    let place = at::job(&job.jid);
    if let Some(bytes) = batch.get(Table::Jobs, &place)? {
        // A return came before the job, or the caller chose a jid that exists: the job keeps its
        // time.
        let known = Job::from_row(&job.jid, &bytes).ok_or_else(|| damaged("a job"))?;
        if job.is_own() && !known.is_own() && !known.load.is_empty() {
            // The master that a minion has moved to did not know the job yet that another one has sent
            // to it. A minion cannot turn another job into one that it gave itself.
            return match job.minions.iter().all(|id| known.minions.contains(id)) {
                true => Ok(Applied::Done),
                false => Err(Refusal::NotSent { jid: job.jid }.into()),
            };
        }
        if !job.is_own() && !job.is_alike(&known) {
            return Err(Refusal::JobExists { jid: job.jid }.into());
        }
        job.at_ms = known.at_ms;
        // With `batch`, one job is published to one group of minions after another.
        let others = known.minions.into_iter();
        let mut minions: Vec<_> = others.filter(|id| !job.minions.contains(id)).collect();
        minions.append(&mut job.minions);
        job.minions = minions;
    }
    batch_job(batch, place, &job)?;
    Ok(Applied::Done)
}

fn batch_job(batch: &mut Batch<'_>, place: Vec<u8>, job: &Job) -> Result<(), Failure> {
    let holder = holders::of_job(job);
    let bytes = row("a job", job.row(&holder))?;
    if let Some(before) = batch.get(Table::Jobs, &place)? {
        let removed = &mut batch.changes.removed.jobs;
        removed.add(rows::holder(&before), before.len());
    }
    batch.changes.added.jobs.add(&holder, bytes.len());
    batch.put(Table::Jobs, place, bytes);
    batch.put(Table::Jobs, at::time(job.at_ms, &job.jid), Vec::new());
    Ok(())
}

fn returned(
    batch: &mut Batch<'_>,
    jid: &str,
    returned: Returned,
    origin: Option<Origin>,
) -> Outcome {
    name("the jid", jid)?;
    let bytes = row("a return", returned.row())?;
    let (is_new, durable) = received(batch, origin)?;
    let place = at::returned(jid, &returned.id);
    if !is_new || batch.has(Table::Jobs, &place)? {
        return Ok(Applied::Duplicate { durable });
    }
    if !batch.has(Table::Jobs, &at::job(jid))? {
        let job = Job {
            jid: jid.to_owned(),
            load: Map::new(),
            minions: Vec::new(),
            at_ms: returned.at_ms,
        };
        batch_job(batch, at::job(jid), &job)?;
    }
    let added = &mut batch.changes.added.jobs;
    added.add(returned.id.as_str(), bytes.len());
    batch.put(Table::Jobs, place, bytes);
    Ok(Applied::Returned { durable })
}

fn cached(
    batch: &mut Batch<'_>,
    (id, key): (&Id, &PublicKey),
    what: Cache,
    change: Change,
) -> Outcome {
    super::apply_keys::accepted(batch, id, key)?;
    let place = at::cache(what, id, key);
    let mut known = || -> Result<Map, Failure> {
        match batch.get(Table::Caches, &place)? {
            Some(bytes) => decode(&bytes).ok_or_else(|| damaged("a cache")),
            None => Ok(Map::new()),
        }
    };
    let map = match change {
        Change::Clear => {
            batch.remove(Table::Caches, place);
            return Ok(Applied::Done);
        }
        Change::Set(map) => map,
        Change::Update(map) => {
            let mut all = known()?;
            all.update(map);
            all
        }
        Change::Without(name) => {
            let mut all = known()?;
            all.remove(&name);
            all
        }
    };
    let what = match what {
        Cache::Grains => "grains",
        Cache::Pillar => "a pillar",
        Cache::Mine => "a mine",
        Cache::Status => "a status",
    };
    batch.put(Table::Caches, place, row(what, map)?);
    Ok(Applied::Done)
}

fn cursor(batch: &mut Batch<'_>, cursor: &str, sequence: Option<u64>) -> Outcome {
    name("the cursor's name", cursor)?;
    let place = at::cursor(cursor);
    match sequence {
        Some(sequence) => {
            let bytes = row("a cursor", Map::new().with("sequence", sequence))?;
            batch.put(Table::Keys, place, bytes);
        }
        None => batch.remove(Table::Keys, place),
    }
    Ok(Applied::Done)
}

fn reaction(batch: &mut Batch<'_>, place: Place, known: Option<Map>) -> Outcome {
    let place = at::reaction(place);
    match known {
        Some(known) => batch.put(Table::Jobs, place, row("a reaction", known)?),
        None => batch.remove(Table::Jobs, place),
    }
    Ok(Applied::Done)
}

fn token(
    batch: &mut Batch<'_>,
    token: String,
    data: Option<Map>,
    expected: Option<Map>,
) -> Outcome {
    name("the token's name", &token)?;
    let place = at::token(&token);
    if let Some(expected) = expected {
        let known = batch.get(Table::Keys, &place)?;
        let known = known.and_then(|bytes| decode(&bytes));
        if known.map(Value::Map) != Some(Value::Map(expected)) {
            return Err(Refusal::Changed { name: token }.into());
        }
    }
    match data {
        Some(data) => batch.put(Table::Keys, place, row("a token", data)?),
        None => batch.remove(Table::Keys, place),
    }
    Ok(Applied::Done)
}
