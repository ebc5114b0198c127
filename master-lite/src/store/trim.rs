//! The removal of events and jobs: those that are too old, and, when there are too many, the oldest
//! ones of the holder with most.

use fjall::Slice;

use super::apply::{Failure, Outcome, damaged};
use super::batch::Batch;
use super::command::Applied;
use super::rows::{Table, at, holder};

/// The maximum number of rows that one look examines to find those of one holder.
const LOOK: usize = 4096;
/// The maximum number of looks in one step.
const LOOKS: u64 = 64;
/// The number of rows of one holder that are removed before the fullest holder is determined again.
const CHUNK: u64 = 64;

/// Removes events until no more than `most` (rows, bytes) are left. One call removes about `limit`
/// rows at most.
pub(super) fn events(batch: &mut Batch<'_>, most: (u64, u64), limit: u64) -> Outcome {
    let is_over = |batch: &Batch<'_>| {
        let (rows, bytes) = batch.counts.events.all();
        rows > most.0 || bytes > most.1
    };
    let (mut rows, mut looks, mut again) = (0, 0, false);
    while is_over(batch) && rows < limit && looks < LOOKS {
        let Some((of, from)) = batch.counts.events.fullest() else {
            break;
        };
        let (gone, mut upto, mut looked) = (rows, from.clone(), 0);
        for row in batch.rows_from(Table::Events, &from, b"").take(LOOK) {
            let (place, event) = row?;
            looked += 1;
            upto = place.to_vec();
            if holder(&event) == of {
                remove_event(batch, upto.clone(), &event);
                rows += 1;
            }
            if !is_over(batch) || rows - gone >= CHUNK || rows >= limit {
                break;
            }
        }
        looks += 1;
        batch.counts.events.looked(&of, upto);
        if rows == gone && looked < LOOK {
            // The holder's remaining rows were added before the position of the search, or are not
            // on the disk yet: search once more from the beginning.
            if std::mem::replace(&mut again, true) {
                break;
            }
            batch.counts.events.looked(&of, Vec::new());
        }
    }
    let more = is_over(batch) && rows > 0;
    Ok(Applied::Dropped { rows, more })
}

fn remove_event(batch: &mut Batch<'_>, place: Vec<u8>, event: &Slice) {
    let length = event.len() as u64;
    let log = &mut batch.counts.log;
    log.bytes = log.bytes.saturating_sub(length);
    if place == at::event(log.first) {
        log.first += 1;
    }
    batch.counts.events.remove(holder(event), event.len());
    batch.remove(Table::Events, place);
}

/// Removes jobs and returns until no more than `most` bytes are left. One call removes about
/// `limit` rows at most.
pub(super) fn jobs(batch: &mut Batch<'_>, most: u64, limit: u64) -> Outcome {
    let is_over = |batch: &Batch<'_>| batch.counts.jobs.all().1 > most;
    let (mut rows, mut looks, mut again) = (0, 0, false);
    while is_over(batch) && rows < limit && looks < LOOKS {
        let Some((of, from)) = batch.counts.jobs.fullest() else {
            break;
        };
        let from = if from.is_empty() {
            at::times().to_vec()
        } else {
            from
        };
        let (gone, mut upto, mut looked) = (rows, from.clone(), 0);
        for row in batch.rows_from(Table::Jobs, &from, at::times()).take(LOOK) {
            let (place, _) = row?;
            looked += 1;
            let left = usize::try_from(limit - rows).unwrap_or(usize::MAX);
            rows += trim_job(batch, &place, &of, left)? as u64;
            // A job that was removed only in part is examined again.
            upto = place.to_vec();
            if !is_over(batch) || rows - gone >= CHUNK || rows >= limit {
                break;
            }
        }
        looks += 1;
        batch.counts.jobs.looked(&of, upto);
        if rows == gone && looked < LOOK {
            // The holder's remaining rows were added before the position of the search, or are not
            // on the disk yet: search once more from the beginning.
            if std::mem::replace(&mut again, true) {
                break;
            }
            batch.counts.jobs.looked(&of, Vec::new());
        }
    }
    let more = is_over(batch) && rows > 0;
    Ok(Applied::Dropped { rows, more })
}

/// Removes a holder's part of a job: the whole job if the holder owns it, otherwise only the
/// holder's return. Returns the number of removed rows.
fn trim_job(batch: &mut Batch<'_>, time: &[u8], of: &str, limit: usize) -> Result<usize, Failure> {
    let (at_ms, jid) = at::of_time(time).ok_or_else(|| damaged("the list of jobs"))?;
    let job = batch.get(Table::Jobs, &at::job(&jid))?;
    if job.is_some_and(|job| holder(&job) == of) {
        return drop_job(batch, at_ms, &jid, limit);
    }
    let place = [at::returns(&jid).as_slice(), of.as_bytes()].concat();
    if !batch.has(Table::Jobs, &place)? {
        return Ok(0);
    }
    remove_return(batch, place)?;
    Ok(1)
}

fn remove_return(batch: &mut Batch<'_>, place: Vec<u8>) -> Result<(), Failure> {
    if let Some(returned) = batch.get(Table::Jobs, &place)? {
        let of = at::of_returned(&place).unwrap_or_default();
        batch.counts.jobs.remove(of, returned.len());
    }
    batch.remove(Table::Jobs, place);
    Ok(())
}

/// Removes the oldest events, up to the event `before`.
pub(super) fn drop_events(batch: &mut Batch<'_>, before: u64, limit: u64) -> Outcome {
    let first = batch.counts.log.first;
    let before = before.min(batch.counts.log.next);
    let end = before.min(first.saturating_add(limit));
    for sequence in first..end {
        let place = at::event(sequence);
        if let Some(event) = batch.get(Table::Events, &place)? {
            remove_event(batch, place, &event);
        }
    }
    let rows = end.saturating_sub(first);
    if rows > 0 {
        batch.counts.log.first = end;
    }
    let more = end < before;
    Ok(Applied::Dropped { rows, more })
}

/// Removes the oldest jobs, up to the time `before_ms`.
pub(super) fn drop_jobs(batch: &mut Batch<'_>, before_ms: u64, limit: u64) -> Outcome {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut rows = 0;
    for key in batch.keys(Table::Jobs, at::times(), limit.saturating_add(1))? {
        let (at_ms, jid) = at::of_time(&key).ok_or_else(|| damaged("the list of jobs"))?;
        if at_ms >= before_ms {
            break;
        }
        if rows >= limit {
            let rows = rows as u64;
            return Ok(Applied::Dropped { rows, more: true });
        }
        rows += drop_job(batch, at_ms, &jid, limit - rows)?;
    }
    let rows = rows as u64;
    Ok(Applied::Dropped { rows, more: false })
}

/// Removes up to `limit` rows of a job, the job itself last. Returns the number of removed rows.
fn drop_job(batch: &mut Batch<'_>, at_ms: u64, jid: &str, limit: usize) -> Result<usize, Failure> {
    let returns = batch.keys(Table::Jobs, &at::returns(jid), limit)?;
    let rows = returns.len();
    for place in returns {
        remove_return(batch, place)?;
    }
    if rows < limit {
        if let Some(job) = batch.get(Table::Jobs, &at::job(jid))? {
            batch.counts.jobs.remove(holder(&job), job.len());
        }
        batch.remove(Table::Jobs, at::job(jid));
        batch.remove(Table::Jobs, at::time(at_ms, jid));
        return Ok(rows + 1);
    }
    Ok(rows)
}
