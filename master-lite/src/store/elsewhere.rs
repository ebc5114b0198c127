//! Returns whose data other masters of the cluster keep. Their rows stay here, so that all masters
//! know which minions have returned; only the data is removed, and it can be restored.
//!
//! These changes are no commands: each master makes its own, and the log does not contain them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use smol::channel::bounded;
use value::Map;
use wire::Id;

use super::Store;
use super::backup::Import;
use super::batch::Batch;
use super::error::{Error, words};
use super::rows::{Returned, Table, at, decode, encode, number};
use super::writer::{Call, OfLog};

/// The field of a return without its data.
const ELSEWHERE: &str = "elsewhere";

/// Reads returns from the other masters.
pub(crate) trait Elsewhere: Send + Sync {
    /// Returns these returns of a job, as far as any other master has them. It may block.
    ///
    /// # Errors
    /// When not all of them can be read. The text names the masters that do not answer.
    fn fetch(&self, jid: &str, ids: &BTreeSet<Id>) -> Result<Vec<Returned>, String>;
}

/// A return as its row has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum StoredReturn {
    /// The return with its data.
    Here(Returned),
    /// A return without its data.
    Elsewhere(Id),
}

impl StoredReturn {
    pub(super) fn from_row(id: Id, bytes: &[u8]) -> Option<Self> {
        match decode(bytes)?.contains(ELSEWHERE) {
            true => Some(Self::Elsewhere(id)),
            false => Some(Self::Here(Returned::from_row(id, bytes)?)),
        }
    }
}

/// Returns the row of a return without its data.
fn without_data(bytes: &[u8]) -> Option<Vec<u8>> {
    let at_ms = number(&decode(bytes)?, "at_ms")?;
    encode(Map::new().with("at_ms", at_ms).with(ELSEWHERE, true)).ok()
}

fn is_elsewhere(bytes: &[u8]) -> Option<bool> {
    Some(decode(bytes)?.contains(ELSEWHERE))
}

/// A change of the returns of a job on this master alone.
#[derive(Debug)]
pub(super) enum Moves {
    /// The data of these minions' returns is removed.
    Away { jid: String, ids: BTreeSet<Id> },
    /// The data of these returns is restored.
    Here { jid: String, returns: Vec<Returned> },
}

/// The minions that have returned a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReturnsOf {
    /// The minions whose data is here.
    pub(crate) here: BTreeSet<Id>,
    /// The minions whose data only other masters have.
    pub(crate) elsewhere: BTreeSet<Id>,
}

/// Makes a change. Returns the number of returns that it changed: a return that was removed in the
/// meantime stays removed.
pub(super) fn moved(batch: &mut Batch<'_>, moves: Moves) -> Result<u64, String> {
    let damaged = || "cannot read a return".to_owned();
    let fail = |error: fjall::Error| words(&error);
    let (jid, rows) = match moves {
        Moves::Away { jid, ids } => (jid, ids.into_iter().map(|id| (id, None)).collect()),
        Moves::Here { jid, returns } => {
            let row = |returned: Returned| Some((returned.id.clone(), Some(returned.row())));
            let rows: Vec<_> = returns.into_iter().filter_map(row).collect();
            (jid, rows)
        }
    };
    let mut count = 0;
    for (id, row) in rows {
        let place = at::returned(&jid, &id);
        let Some(before) = batch.get(Table::Jobs, &place).map_err(fail)? else {
            continue;
        };
        if is_elsewhere(&before).ok_or_else(damaged)? == row.is_none() {
            continue;
        }
        let after = match row {
            Some(row) => encode(row).map_err(|error| error.to_string())?,
            None => without_data(&before).ok_or_else(damaged)?,
        };
        let changes = &mut batch.changes;
        changes.removed.jobs.add(id.as_str(), before.len());
        changes.added.jobs.add(id.as_str(), after.len());
        batch.put(Table::Jobs, place, after);
        count += 1;
    }
    mark(batch, &jid)?;
    Ok(count)
}

/// Notes whether data of a job's returns is missing here.
fn mark(batch: &mut Batch<'_>, jid: &str) -> Result<(), String> {
    let fail = |error: fjall::Error| words(&error);
    let mut is_any = false;
    for place in batch
        .keys(Table::Jobs, &at::returns(jid), usize::MAX)
        .map_err(fail)?
    {
        let row = batch.get(Table::Jobs, &place).map_err(fail)?;
        is_any = is_any || row.is_some_and(|row| is_elsewhere(&row) == Some(true));
    }
    match is_any {
        true => batch.put(Table::Jobs, at::elsewhere(jid), Vec::new()),
        false => batch.remove(Table::Jobs, at::elsewhere(jid)),
    }
    Ok(())
}

/// Puts the data of returns that this master has into a received state that lacks it. The sender may
/// rely on this master for it.
pub(super) fn keep_in(store: &Store, import: &mut Import) -> Result<(), Error> {
    import.flush()?;
    for jid in import.keys(Table::Jobs, &at::elsewhere(""))? {
        let Some(jid) = at::of_elsewhere(&jid) else {
            continue;
        };
        let mut is_complete = true;
        for place in import.keys(Table::Jobs, &at::returns(jid))? {
            let row = import.row(Table::Jobs, &place)?;
            if row.and_then(|row| is_elsewhere(&row)) != Some(true) {
                continue;
            }
            let own = store.row(Table::Jobs, &place)?;
            match own.filter(|own| is_elsewhere(own) == Some(false)) {
                Some(own) => import.put(Table::Jobs, &place, Some(&own))?,
                None => is_complete = false,
            }
        }
        if is_complete {
            import.put(Table::Jobs, &at::elsewhere(jid), None)?;
        }
    }
    Ok(())
}

impl Store {
    /// Sets from where returns are read whose data is not here. Only the first call has an effect.
    pub(crate) fn read_elsewhere(&self, elsewhere: Arc<dyn Elsewhere>) {
        // A second cluster in one process does not exist.
        drop(self.shared.elsewhere.set(elsewhere));
    }

    /// Returns the minions that have returned a job. It reads files and may block.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn returns_of(&self, jid: &str) -> Result<ReturnsOf, Error> {
        let mut all = ReturnsOf::default();
        for stored in self.stored_returns(jid)? {
            match stored? {
                StoredReturn::Here(returned) => all.here.insert(returned.id),
                StoredReturn::Elsewhere(id) => all.elsewhere.insert(id),
            };
        }
        Ok(all)
    }

    /// Returns those returns of a job whose data is here, after that of a minion. It reads files and
    /// may block.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn returns_here(
        &self,
        jid: &str,
        after: Option<&Id>,
    ) -> Result<impl Iterator<Item = Result<Returned, Error>> + use<>, Error> {
        let after = after.cloned();
        let here = self.stored_returns(jid)?.filter_map(|stored| match stored {
            Ok(StoredReturn::Here(returned)) => Some(Ok(returned)),
            Ok(StoredReturn::Elsewhere(_)) => None,
            Err(error) => Some(Err(error)),
        });
        Ok(here.filter(move |returned| match (returned, &after) {
            (Ok(returned), Some(after)) => returned.id > *after,
            _ => true,
        }))
    }

    /// Returns the jobs that lack data of returns here. It reads files and may block.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn jobs_elsewhere(&self) -> Result<Vec<String>, Error> {
        let jids = self.rows(Table::Jobs, &at::elsewhere(""), |key, _| {
            at::of_elsewhere(key).map(str::to_owned)
        })?;
        jids.collect()
    }

    /// Removes the data of these minions' returns here. The caller must know that other masters have
    /// it on their disks. Returns the number of returns that had data.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub(crate) async fn remove_data(&self, jid: &str, ids: BTreeSet<Id>) -> Result<u64, Error> {
        let jid = jid.to_owned();
        self.make(Moves::Away { jid, ids }).await
    }

    /// Restores the data of returns here. Returns the number of returns that lacked it.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub(crate) async fn restore_data(
        &self,
        jid: &str,
        returns: Vec<Returned>,
    ) -> Result<u64, Error> {
        let jid = jid.to_owned();
        self.make(Moves::Here { jid, returns }).await
    }

    async fn make(&self, moves: Moves) -> Result<u64, Error> {
        let (answer, made) = bounded(1);
        let step = OfLog::Move { moves, answer };
        let sent = self.queue.send(Call::OfLog(step)).await;
        sent.map_err(|_| Error::Closed)?;
        // No deadline: the writer answers each call.
        made.recv().await.map_err(|_| Error::Closed)?
    }

    /// Reads these returns of a job from the other masters.
    pub(super) fn fetched(
        &self,
        jid: &str,
        ids: &BTreeSet<Id>,
    ) -> Result<BTreeMap<Id, Returned>, Error> {
        let fail = |why: String| Error::Elsewhere {
            jid: jid.to_owned(),
            why,
        };
        let elsewhere = self.shared.elsewhere.get();
        let elsewhere = elsewhere
            .ok_or_else(|| fail("this master belongs to no cluster any more".to_owned()))?;
        let returns = elsewhere.fetch(jid, ids).map_err(fail)?;
        Ok(returns
            .into_iter()
            .map(|returned| (returned.id.clone(), returned))
            .collect())
    }

    /// Returns the return of a minion among those that were read from the other masters.
    pub(super) fn taken_from(
        &self,
        fetched: &mut BTreeMap<Id, Returned>,
        jid: &str,
        id: &Id,
    ) -> Result<Returned, Error> {
        fetched.remove(id).ok_or_else(|| Error::Elsewhere {
            jid: jid.to_owned(),
            why: format!("no master has the return of {id}"),
        })
    }
}
