//! Commands about copies of orchestrations. Only the master that has an orchestration changes its copy.

use value::Map;

use super::apply::{Failure, Outcome, damaged, row};
use super::batch::Batch;
use super::command::{Applied, Command, Refusal, RunOwner};
use super::rows::{Table, at, decode, number};

/// Returns the row of an owner.
fn owner_row(owner: RunOwner) -> Map {
    Map::new()
        .with("node", owner.node)
        .with("boot", owner.boot)
        .with("claim", owner.claim)
}

/// Reads the row of an owner.
pub(super) fn of_owner_row(bytes: &[u8]) -> Option<RunOwner> {
    let row = decode(bytes)?;
    Some(RunOwner {
        node: number(&row, "node")?,
        boot: number(&row, "boot")?,
        claim: number(&row, "claim")?,
    })
}

/// Applies a command about an orchestration.
pub(super) fn done(batch: &mut Batch<'_>, command: Command) -> Outcome {
    match command {
        Command::RunBegun { jid, owner, lines } => begun(batch, &jid, owner, &lines),
        Command::RunCopied {
            jid,
            owner,
            offset,
            lines,
        } => {
            owned(batch, &jid, owner)?;
            copied(batch, &jid, (offset, &lines))
        }
        Command::RunStep {
            jid,
            owner,
            step,
            job,
        } => {
            owned(batch, &jid, owner)?;
            let bytes = row("a step", Map::new().with("job", job))?;
            batch.put(Table::Jobs, at::run_step(&jid, &step), bytes);
            Ok(Applied::Done)
        }
        Command::RunClaimed {
            jid,
            owner,
            expected,
        } => {
            owned(batch, &jid, expected)?;
            batch.put(
                Table::Jobs,
                at::run(&jid),
                row("an owner", owner_row(owner))?,
            );
            Ok(Applied::Done)
        }
        Command::RunEnded { jid, owner } => {
            owned(batch, &jid, owner)?;
            remove(batch, &at::run(&jid))
        }
        _ => Err(damaged("a command about an orchestration")),
    }
}

/// Begins the copy of an orchestration that no other master has.
fn begun(batch: &mut Batch<'_>, jid: &str, owner: RunOwner, lines: &str) -> Outcome {
    super::apply::name("the jid", jid)?;
    if known(batch, jid)?.is_some_and(|known| known != owner) {
        return Err(taken(jid));
    }
    batch.put(
        Table::Jobs,
        at::run(jid),
        row("an owner", owner_row(owner))?,
    );
    copied(batch, jid, (0, lines))
}

/// Stores lines. Those at 0 replace all.
fn copied(batch: &mut Batch<'_>, jid: &str, (offset, lines): (u64, &str)) -> Outcome {
    if offset == 0 {
        remove(batch, &at::run_lines(jid))?;
    }
    let bytes = row("a record", Map::new().with("lines", lines))?;
    batch.put(Table::Jobs, at::run_line(jid, offset), bytes);
    Ok(Applied::Done)
}

fn known(batch: &mut Batch<'_>, jid: &str) -> Result<Option<RunOwner>, Failure> {
    let owner = batch.get(Table::Jobs, &at::run(jid))?;
    let owner = owner.map(|bytes| of_owner_row(&bytes).ok_or_else(|| damaged("an orchestration")));
    owner.transpose()
}

fn taken(jid: &str) -> Failure {
    let jid = jid.to_owned();
    Refusal::RunTaken { jid }.into()
}

/// Checks that a master has an orchestration.
fn owned(batch: &mut Batch<'_>, jid: &str, owner: RunOwner) -> Result<(), Failure> {
    match known(batch, jid)? == Some(owner) {
        true => Ok(()),
        false => Err(taken(jid)),
    }
}

fn remove(batch: &mut Batch<'_>, prefix: &[u8]) -> Outcome {
    for key in batch.keys(Table::Jobs, prefix, usize::MAX)? {
        batch.remove(Table::Jobs, key);
    }
    Ok(Applied::Done)
}
