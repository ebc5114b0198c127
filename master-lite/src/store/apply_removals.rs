//! Commands that remove events, jobs and returns: the oldest ones, or those that the command names.

use super::apply::{Failure, Outcome, damaged};
use super::batch::Batch;
use super::command::{Applied, JobRows};
use super::rows::{Table, at, holder, holder_in_jobs};

/// Removes the oldest events, up to the event `before`.
pub(super) fn drop_events(batch: &mut Batch<'_>, before: u64, limit: u64) -> Outcome {
    let first = batch.counts.log.first;
    let end = before
        .min(batch.counts.log.next)
        .min(first.saturating_add(limit));
    for sequence in first..end {
        remove_event(batch, sequence)?;
    }
    let rows = end.saturating_sub(first);
    if rows > 0 {
        batch.counts.log.first = end;
    }
    Ok(Applied::Dropped { rows })
}

/// Removes those of the events that the log still contains.
pub(super) fn remove_events(batch: &mut Batch<'_>, sequences: &[u64]) -> Outcome {
    let mut rows = 0;
    for sequence in sequences {
        rows += remove_event(batch, *sequence)?;
    }
    Ok(Applied::Dropped { rows })
}

/// Removes an event, if the log contains it. Returns the number of removed rows.
fn remove_event(batch: &mut Batch<'_>, sequence: u64) -> Result<u64, Failure> {
    let place = at::event(sequence);
    let Some(event) = batch.get(Table::Events, &place)? else {
        return Ok(0);
    };
    let log = &mut batch.counts.log;
    log.bytes = log.bytes.saturating_sub(event.len() as u64);
    if sequence == log.first {
        log.first += 1;
    }
    let removed = &mut batch.changes.removed.events;
    removed.add(holder(&event), event.len());
    batch.remove(Table::Events, place);
    Ok(1)
}

/// Removes the oldest jobs, up to the time `before_ms`, with their returns.
pub(super) fn drop_jobs(batch: &mut Batch<'_>, before_ms: u64, limit: u64) -> Outcome {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut rows = 0;
    for key in batch.keys(Table::Jobs, at::times(), limit)? {
        let (at_ms, jid) = at::of_time(&key).ok_or_else(|| damaged("the list of jobs"))?;
        if at_ms >= before_ms || rows >= limit {
            break;
        }
        let returns = batch.keys(Table::Jobs, &at::returns(&jid), limit - rows)?;
        rows += returns.len();
        for place in returns {
            remove_row(batch, place)?;
        }
        if rows < limit {
            remove_job(batch, at_ms, &jid)?;
            rows += 1;
        }
    }
    let rows = rows as u64;
    Ok(Applied::Dropped { rows })
}

/// Removes those of the returns and jobs that still exist. A job with other returns stays: they
/// arrived after the rows were chosen, and without the job no later command would find them.
pub(super) fn remove_jobs(batch: &mut Batch<'_>, jobs: Vec<JobRows>) -> Outcome {
    let mut rows = 0;
    for JobRows {
        jid,
        returns,
        at_ms,
    } in jobs
    {
        for id in returns {
            rows += remove_row(batch, at::returned(&jid, &id))?;
        }
        if let Some(at_ms) = at_ms
            && batch.has(Table::Jobs, &at::time(at_ms, &jid))?
            && batch.keys(Table::Jobs, &at::returns(&jid), 1)?.is_empty()
        {
            remove_job(batch, at_ms, &jid)?;
            rows += 1;
        }
    }
    Ok(Applied::Dropped { rows })
}

/// Removes a job without its returns.
fn remove_job(batch: &mut Batch<'_>, at_ms: u64, jid: &str) -> Result<(), Failure> {
    remove_row(batch, at::job(jid))?;
    batch.remove(Table::Jobs, at::time(at_ms, jid));
    let elsewhere = at::elsewhere(jid);
    if batch.has(Table::Jobs, &elsewhere)? {
        batch.remove(Table::Jobs, elsewhere);
    }
    Ok(())
}

/// Removes a job's row or a return, if it exists. Returns the number of removed rows.
fn remove_row(batch: &mut Batch<'_>, place: Vec<u8>) -> Result<u64, Failure> {
    let Some(row) = batch.get(Table::Jobs, &place)? else {
        return Ok(0);
    };
    let removed = &mut batch.changes.removed.jobs;
    removed.add(holder_in_jobs(&place, &row), row.len());
    batch.remove(Table::Jobs, place);
    Ok(1)
}
