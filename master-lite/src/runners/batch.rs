//! The `batch` runner: shows and stops batches that the master runs.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};
use wire::Publish;

use super::{runs, unreadable};
use crate::jobs::batches::{self, Record};
use crate::runs::Runs;
use crate::store::Store;

state::exec_module! {
    /// Batches that the master runs (`salt --batch SIZE --async`).
    mod batch;

    /// Return the state of a batch, or None if there is none.
    ///
    ///     salt-run batch.status 20260102030405678901
    fn status(Status {
        /// The job id.
        jid: String,
    });

    /// Return the states of the batches that run.
    ///
    ///     salt-run batch.list_active
    fn list_active(ListActive {});

    /// Stop a batch: no further minion gets its job. Return False if it does not run.
    ///
    ///     salt-run batch.stop 20260102030405678901 kill=True
    fn stop(Stop {
        /// The job id.
        jid: String,
        /// True to end the job on the minions that run it now.
        kill: bool = false,
    });
}

fn of(store: &Store, jid: &str) -> Result<Option<Record>, Error> {
    let all = batches::all(store).map_err(unreadable)?;
    Ok(all.into_iter().find(|record| record.jid == jid))
}

fn summary(store: &Store, record: &Record) -> Result<Option<Value>, Error> {
    let summary = batches::summary(store, record, batches::now_s());
    Ok(summary.map_err(unreadable)?.map(Value::from))
}

fn status(cx: &Exec, args: Status) -> Result<Value, Error> {
    let store = &runs(cx)?.store;
    match of(store, &args.jid)? {
        Some(record) => Ok(summary(store, &record)?.unwrap_or_default()),
        None => Ok(Value::Null),
    }
}

fn list_active(cx: &Exec, _args: ListActive) -> Result<Value, Error> {
    let store = &runs(cx)?.store;
    let all = batches::all(store).map_err(unreadable)?;
    let mut listed = Vec::new();
    for record in all.iter().filter(|record| record.owner.is_some()) {
        listed.extend(summary(store, record)?);
    }
    Ok(listed.into())
}

fn stop(cx: &Exec, args: Stop) -> Result<Value, Error> {
    let runs = runs(cx)?;
    let jid = &args.jid;
    let Some(record) = of(&runs.store, jid)? else {
        log::warning(format_args!("batch.stop: there is no batch {jid}"));
        return Ok(false.into());
    };
    if record.owner.is_none() {
        log::info(format_args!(
            "batch.stop: the batch {jid} has ended already"
        ));
        return Ok(false.into());
    }
    // The stop comes first, so that no further minion gets the job meanwhile.
    let data = Map::new().with("jid", jid.as_str()).with("reason", "stop");
    runs.events
        .fire_for_module(&batches::tag(jid, "stop"), data)?;
    if args.kill {
        kill(runs, &record)?;
    }
    Ok(true.into())
}

/// Ends the job on the minions that run it.
fn kill(runs: &Runs, record: &Record) -> Result<(), Error> {
    let (started, returned) = record.started(&runs.store).map_err(unreadable)?;
    let active: Vec<&str> = started
        .difference(&returned)
        .map(|id| id.as_str())
        .collect();
    if active.is_empty() {
        return Ok(());
    }
    let job = Publish {
        tgt: Value::list(active.into_iter().map(Value::from)),
        tgt_type: "list".to_owned(),
        fun: "saltutil.kill_job".to_owned(),
        arg: vec![record.jid.as_str().into()],
        ret: String::new(),
        jid: None,
        timeout_s: Some(0.0),
        options: Map::new(),
    };
    let published = smol::block_on(runs.jobs.publish(job, "root"));
    published.map(drop).map_err(Error::refused)
}
