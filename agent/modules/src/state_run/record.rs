//! The step that starts or continues the record of a run. A nested run is part of the outer run's
//! record.

use std::sync::{Arc, Mutex, PoisonError};

use state::boot;
use state::compile::Plan;
use state::exec::Registry;
use state::facts::StepKind;
use state::low::LowChunk;
use state::module::Error;
use state::record::{self, Invocation, ReceivedEvents, Record};
use state::resume::Resumed;
use state::run::RunRecord;
use state::run::events::EventLog;
use value::watch::{self, Event};
use value::{Map, jid, log, secret};

use super::prepare::Prepared;
use super::resume::{self, Ready};
use super::{Request, Stop};

/// A run with its record, and with the subscription to the events that its steps wait for.
pub(super) struct Recorded {
    /// The run.
    pub(super) run: Prepared,
    /// Its plan.
    pub(super) plan: Plan,
    /// Its part of a record.
    pub(super) record: RunRecord,
}

impl Ready {
    /// Opens the record and the event log of the run. Watchers learn here that it starts.
    pub(super) fn record(self) -> Result<Recorded, Stop> {
        let Self { run, plan, resumed } = self;
        watch::tell(Event::Started {
            jid: run.jid(),
            fun: run.request.fun,
            test: run.cx.test,
            chunks: plan.chunks().len(),
        });
        let opened = match run.cx.run.is_some() {
            true => run.nested_record(&plan),
            false => run.own_record(&plan, resumed),
        };
        match opened {
            Ok(record) => Ok(Recorded { run, plan, record }),
            Err(error) => {
                let (jid, good) = (run.jid(), false);
                watch::tell(Event::Finished { jid, good });
                Err(error.into())
            }
        }
    }
}

impl Prepared {
    /// Starts the record of the outermost run, or continues it if the run is resumed.
    fn own_record(&self, plan: &Plan, mut resumed: Option<Resumed>) -> Result<RunRecord, Error> {
        let heard = resumed
            .as_mut()
            .and_then(|resumed| resumed.heard.remove(""));
        let events = EventLog::open(&self.cx, plan, heard.unwrap_or_default())?;
        warn_of_clock();
        self.warn_of_secrets(plan);
        let record = match resumed {
            Some(resumed) => self.resumed_record(plan, resumed)?,
            None => self.new_record(plan).or_else(unrecorded)?,
        };
        Ok(record.with_events(events))
    }

    fn new_record(&self, plan: &Plan) -> Result<RunRecord, Error> {
        let invocation = Invocation {
            jid: &self.request.jid,
            fun: self.request.fun,
            args: self.request.to_args(),
            user: self.request.user.clone(),
        };
        let record = Record::start(&self.cx, &invocation, plan)?;
        Ok(RunRecord {
            record: Some(Arc::new(record)),
            ..RunRecord::default()
        })
    }

    /// Continues the record of the earlier run. In test mode that record does not change: the run
    /// has a new one.
    fn resumed_record(&self, plan: &Plan, resumed: Resumed) -> Result<RunRecord, Error> {
        let (cx, jid) = (&self.cx, self.jid());
        let record = match cx.test {
            true => self.new_record(plan)?,
            false => {
                let caller = &self.request.jid;
                let record = Record::resume(cx, jid, caller, plan, &resumed.forgotten)?;
                for one in &resumed.settled {
                    record.settled(cx, &one.part, &one.tag, &one.ret);
                }
                RunRecord {
                    record: Some(Arc::new(record)),
                    ..RunRecord::default()
                }
            }
        };
        Ok(RunRecord {
            returns: resumed.returns,
            parts: Arc::new(Mutex::new(resumed.parts)),
            heard: Arc::new(Mutex::new(resumed.heard)),
            compensating: Arc::new(resumed.compensating),
            ..record
        })
    }

    /// Returns the nested run's part of the outer run's record, with the events that it received
    /// before the outer run was interrupted.
    fn nested_record(&self, plan: &Plan) -> Result<RunRecord, Error> {
        let mut own = self.part_of_outer(plan);
        if let Some(record) = &own.record {
            record.knows(plan);
            own.returns = record::by_tags_of(plan, own.returns);
        }
        let heard = heard_of(&own);
        Ok(own.with_events(EventLog::open(&self.cx, plan, heard)?))
    }

    fn part_of_outer(&self, plan: &Plan) -> RunRecord {
        let cx = &self.cx;
        let (Some(outer), Some(low)) = (cx.run.as_ref().map(|run| &run.record), &cx.chunk) else {
            return RunRecord::default();
        };
        let record = outer.record.clone().filter(|_| !cx.test);
        let Some(record) = record.filter(|_| self.has_part(cx.shared.registry, low, plan)) else {
            return RunRecord {
                notes: outer.noted().cloned(),
                ..RunRecord::default()
            };
        };
        let part = [&outer.part, low.tag().as_str(), "\n"].concat();
        let mut parts = outer.parts.lock().unwrap_or_else(PoisonError::into_inner);
        // If the step is retried, the next nested run at this position starts from its first step.
        let returns = match parts.remove(&part) {
            Some(returns) => returns,
            None => {
                record.part_begins(&part);
                Map::new()
            }
        };
        drop(parts);
        RunRecord {
            record: Some(record),
            notes: None,
            part,
            returns,
            parts: Arc::clone(&outer.parts),
            heard: Arc::clone(&outer.heard),
            compensating: Arc::clone(&outer.compensating),
            events: None,
        }
    }

    /// Returns true if a nested run is recorded as a part of the outer run's record. That applies
    /// to an orchestration, and to states that an orchestration's step runs and that restart the
    /// machine. Other nested runs converge, so they start from their first state when their step is
    /// run again.
    fn has_part(&self, registry: &Registry, low: &LowChunk, plan: &Plan) -> bool {
        let step = registry.step(low);
        let is_step = matches!(step, Some(StepKind::State | StepKind::Function));
        self.request.fun == "state.orchestrate" || is_step && boot::is_in(registry, plan)
    }

    /// Warns about a run that will restart the machine and was given secrets: a record does not
    /// contain them, so the run cannot resume by itself.
    fn warn_of_secrets(&self, plan: &Plan) {
        let Request {
            pillar, exclude, ..
        } = &self.request;
        for (name, given) in [("pillar", pillar), ("exclude", exclude)] {
            let given = given
                .as_ref()
                .filter(|_| boot::is_in(self.cx.shared.registry, plan));
            if given.is_some_and(|given| secret::is_masked(&resume::without_secrets(given))) {
                log::warning(format_args!(
                    "{name}= contains secrets, which are not recorded: after its reboot this run does not resume by itself, only with resume=True and {name}= again"
                ));
            }
        }
    }
}

/// Returns the events that a nested run had received before the run was interrupted.
fn heard_of(own: &RunRecord) -> ReceivedEvents {
    let mut heard = own.heard.lock().unwrap_or_else(PoisonError::into_inner);
    heard.remove(&own.part).unwrap_or_default()
}

/// Warns that the record cannot be written, if the disk is the reason. The run continues: it may be
/// the one that frees disk space, or need none.
fn unrecorded(error: Error) -> Result<RunRecord, Error> {
    if !error.is_of_disk() {
        return Err(error);
    }
    log::warning(format_args!(
        "cannot record this run: {error}; free disk space there or set cachedir to another directory"
    ));
    Ok(RunRecord::default())
}

/// Warns about a clock that was never set. It starts at 1970, or at the build time of the firmware.
fn warn_of_clock() {
    let now = jid::new();
    if now.as_str() < "2020" {
        log::warning(format_args!(
            "The clock of this machine is wrong ({}): set it, or the times and the job id of this run will be wrong",
            jid::to_time(&now)
        ));
    }
}
