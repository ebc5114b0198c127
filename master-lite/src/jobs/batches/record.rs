//! The durable record of a batch: its events, and a cursor that names the latest of them. In a
//! cluster of masters, all have it.

use std::collections::BTreeSet;

use value::{Map, Value};
use wire::Id;

use crate::store::{Command, Error, Event, Store};

/// The prefix of cursors of batches that run: `batch/active/JID/NODE/BOOT/NEW`.
const ACTIVE: &str = "batch/active/";
/// The prefix of cursors of batches that have ended: `batch/done/JID/NEW`.
const DONE: &str = "batch/done/";

/// The number of ended batches whose status is kept.
const DONE_MAX: usize = 100;

/// The master that runs a batch: its number in the cluster and that of its start. Both are 0 for a
/// master alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) node: u64,
    pub(crate) boot: u64,
}

/// A batch in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) jid: String,
    /// The master that runs it; `None` if the batch has ended.
    pub(crate) owner: Option<Owner>,
    /// The number of its event `new`.
    new: u64,
}

impl Record {
    pub(super) fn new(jid: &str, owner: Owner, new: u64) -> Self {
        Self {
            jid: jid.to_owned(),
            owner: Some(owner),
            new,
        }
    }

    fn cursor(&self) -> String {
        let (jid, new) = (&self.jid, self.new);
        match self.owner {
            Some(Owner { node, boot }) => format!("{ACTIVE}{jid}/{node}/{boot}/{new}"),
            None => format!("{DONE}{jid}/{new}"),
        }
    }

    fn read(cursor: &str) -> Option<Self> {
        let is_active = cursor.starts_with(ACTIVE);
        let rest = cursor.strip_prefix(if is_active { ACTIVE } else { DONE })?;
        let mut words = rest.split('/');
        let jid = words.next()?.to_owned();
        let mut number = || words.next()?.parse::<u64>().ok();
        let owner = match is_active {
            true => Some(Owner {
                node: number()?,
                boot: number()?,
            }),
            false => None,
        };
        Some(Self {
            jid,
            owner,
            new: number()?,
        })
    }

    /// Returns the command that makes an event the latest one of the batch.
    pub(super) fn at(&self, sequence: u64) -> Command {
        Command::Cursor {
            name: self.cursor(),
            sequence: Some(sequence),
        }
    }

    /// Returns the commands that end the batch with its last event, and forget the oldest ones.
    pub(super) fn end(&self, sequence: u64, all: &[Self]) -> Command {
        let done = Self {
            owner: None,
            ..self.clone()
        };
        let ended: Vec<&Self> = all.iter().filter(|other| other.owner.is_none()).collect();
        let old = (ended.len() + 1).saturating_sub(DONE_MAX);
        let removed = ended.into_iter().take(old).chain([self]);
        let removed = removed.map(|record| Command::Cursor {
            name: record.cursor(),
            sequence: None,
        });
        let mut commands: Vec<Command> = removed.collect();
        commands.push(done.at(sequence));
        Command::All(commands)
    }

    /// Returns the data of the event `new`, which is empty if the log does not have it any more.
    pub(super) fn begun(&self, store: &Store) -> Result<Map, Error> {
        Ok(store
            .event(self.new)?
            .map(|event| event.data)
            .unwrap_or_default())
    }

    /// Returns whether the batch has not ended.
    pub(super) fn is_active(&self, store: &Store) -> Result<bool, Error> {
        Ok(store.cursor(&self.cursor())?.is_some())
    }

    /// Returns the latest event of the batch.
    pub(super) fn latest(&self, store: &Store) -> Result<Option<Event>, Error> {
        match store.cursor(&self.cursor())? {
            Some(sequence) => store.event(sequence),
            None => Ok(None),
        }
    }

    /// Returns the minions that the batch was sent to, and those of them that have returned.
    pub(crate) fn started(&self, store: &Store) -> Result<(BTreeSet<Id>, BTreeSet<Id>), Error> {
        let job = store.job(&self.jid)?;
        let started: BTreeSet<Id> = job.into_iter().flat_map(|job| job.minions).collect();
        let mut returned = BTreeSet::new();
        for id in &started {
            if store.has_returned(&self.jid, id)? {
                returned.insert(id.clone());
            }
        }
        Ok((started, returned))
    }
}

/// Returns all batches in the store, the oldest first.
pub(crate) fn all(store: &Store) -> Result<Vec<Record>, Error> {
    let cursors = store.cursors()?;
    let mut all: Vec<Record> = cursors
        .iter()
        .filter_map(|name| Record::read(name))
        .collect();
    all.sort_by(|a, b| a.jid.cmp(&b.jid));
    Ok(all)
}

/// Returns the summary of a batch, as Salt's runner `batch` has it, or `None` if the log does not
/// have its events any more.
pub(crate) fn summary(store: &Store, record: &Record, now_s: f64) -> Result<Option<Map>, Error> {
    let Some(latest) = record.latest(store)? else {
        return Ok(None);
    };
    let begun = record.begun(store)?;
    Ok(Some(summed_up(&begun, &latest, now_s)))
}

fn summed_up(begun: &Map, latest: &Event, now_s: f64) -> Map {
    let data = &latest.data;
    let last = latest.tag.rsplit('/').next().unwrap_or_default();
    let of = |map: &Map, name: &str| map.get(name).cloned().unwrap_or_default();
    let any = |name: &str| match data.get(name) {
        Some(value) => value.clone(),
        None => of(begun, name),
    };
    let count = |value: Value| value.as_int().unwrap_or_default();
    let total = count(match data.get("total") {
        Some(total) => total.clone(),
        None => any("total_minions"),
    });
    let listed = |name: &str| {
        data.get(name)
            .and_then(Value::as_list)
            .map_or(0, <[Value]>::len) as i64
    };
    let (active, pending) = match last {
        "new" => {
            let active = count(any("batch_size")).min(total);
            (active, total - active)
        }
        "halted" => (listed("abandoned_active"), listed("abandoned_pending")),
        _ => (count(of(data, "active")), count(of(data, "pending"))),
    };
    let created = of(begun, "created");
    let last_progress = match (
        created.as_float(),
        data.get("duration").and_then(Value::as_float),
    ) {
        (Some(created), Some(duration)) => Value::from(created + duration),
        _ => data
            .get("last_progress")
            .cloned()
            .unwrap_or_else(|| created.clone()),
    };
    let age = last_progress.as_float().map(|last| now_s - last);
    let mut summary = Map::new();
    for name in ["jid", "fun", "tgt", "tgt_type"] {
        summary.insert(name, any(name));
    }
    summary
        .with("total", total)
        .with("completed", count(of(data, "completed")))
        .with("active", active)
        .with("pending", pending)
        .with("failed", count(of(data, "failed")))
        .with("batch_size", of(begun, "batch_size"))
        .with("halted", last == "halted")
        .with("halted_reason", of(data, "reason"))
        .with("driver", "master")
        .with("user", any("user"))
        .with("created", created)
        .with("last_progress", last_progress)
        .with("age_seconds", age.map_or(Value::Null, Value::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let owner = Owner { node: 3, boot: 12 };
        let record = Record::new("20261127123609758714", owner, 99);
        assert_eq!(record.cursor(), "batch/active/20261127123609758714/3/12/99");
        assert_eq!(Record::read(&record.cursor()), Some(record.clone()));
        let done = Record {
            owner: None,
            ..record
        };
        assert_eq!(Record::read(&done.cursor()), Some(done));
        for other in [
            "reactor/1",
            "batch/active/1",
            "batch/done/1/x",
            "batch/",
            "",
        ] {
            assert_eq!(Record::read(other), None, "{other}");
        }
    }

    #[test]
    fn the_oldest_ended_batches_are_forgotten() {
        let of = |number: u64, owner| Record {
            jid: format!("{number:020}"),
            owner,
            new: number,
        };
        let mut all: Vec<Record> = (0..DONE_MAX as u64)
            .map(|number| of(number, None))
            .collect();
        let active = of(999, Some(Owner::default()));
        all.push(active.clone());
        let Command::All(commands) = active.end(1000, &all) else {
            panic!("not several commands");
        };
        let removed: Vec<String> = commands
            .iter()
            .filter_map(|command| match command {
                Command::Cursor {
                    name,
                    sequence: None,
                } => Some(name.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(removed, [all[0].cursor(), active.cursor()]);
    }
}
