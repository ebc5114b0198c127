//! [`Fleet`]: the master's minions as the targets of an orchestration.

use std::any::Any;
use std::sync::Arc;

use machine::hashes;
use state::ask::Ask;
use state::exec::Exec;
use state::module::Error;
use state::record::RecordCopy;
use state::targets::{MinionReturn, Sink, Subscription, Targets};
use value::target::PillarMatch;
use value::{Map, Value, jid, log};
use wire::{NO_LOG, Publish};

use super::{Runners, Runs};
use crate::cluster::RunCopy as Copy;
use crate::jobs::{JobEvent, NoReturn};
use crate::store::{Event, Seen, Store, Watch};
use crate::wheel::Wheel;

/// The minions of a master, as targets.
#[derive(Clone)]
pub(super) struct Fleet {
    pub(super) runners: Runners,
    /// True for runners that the reactor calls. No caller waits for their answers, and the reactor
    /// records their outcome itself.
    pub(super) is_of_reactor: bool,
}

impl Targets for Fleet {
    fn is_here(&self) -> bool {
        false
    }

    fn resolve(&self, _cx: &Exec, tgt: &Value, tgt_type: &str) -> Result<Vec<String>, Error> {
        let (jobs, options) = (&self.runs().jobs, Map::new());
        let matched = jobs.matched_by(tgt, tgt_type, &options, PillarMatch::Pattern);
        let (minions, _) = smol::block_on(matched).map_err(Error::refused)?;
        Ok(minions.iter().map(ToString::to_string).collect())
    }

    fn run(
        &self,
        cx: &Exec,
        ids: &[String],
        fun: &str,
        args: Vec<Value>,
        kwargs: Map,
    ) -> Result<Vec<MinionReturn>, Error> {
        let quiet = cx.chunk.as_ref().is_some_and(|low| low.options.no_log);
        let mut options = Map::new();
        if quiet {
            options.insert(NO_LOG, true);
        }
        let asked = Publish {
            tgt: Value::list(ids.iter().map(|id| id.as_str().into())),
            tgt_type: "list".to_owned(),
            fun: fun.to_owned(),
            arg: modules::loader::call::joined(args, kwargs),
            ret: String::new(),
            jid: None,
            timeout_s: None,
            options,
        };
        let user = cx.opts().text("user").unwrap_or("root").to_owned();
        let returned = async {
            match self.step(cx, ids) {
                Some((copy, step)) => self.returned_of_step(asked, &user, &copy, step).await,
                None => self.returned(asked, &user).await,
            }
        };
        smol::block_on(returned).map_err(Error::refused)
    }

    fn may_come_late(&self, _id: &str) -> bool {
        true
    }

    fn come_late(&self, missing: &MinionReturn) -> Result<Option<MinionReturn>, Error> {
        let known = |id| self.runs().store.returned(&missing.jid, &id).transpose();
        let returned = missing.id.parse().ok().and_then(known).transpose();
        let returned = returned.map_err(|error| Error::refused(error.to_string()))?;
        Ok(returned.map(|one| returned_in(&missing.jid, missing.id.clone(), one.data)))
    }

    fn fire(&self, _cx: &Exec, tag: &str, data: Map) -> Result<(), Error> {
        if self.is_of_lost_run(tag) {
            return Ok(());
        }
        let events = &self.runs().events;
        events.fire_for_module(tag, without_token(data))
    }

    fn announce(&self, cx: &Exec, tag: &str, data: Map) -> Result<(), Error> {
        if !self.is_of_reactor || self.is_of_lost_run(tag) {
            return self.fire(cx, tag, data);
        }
        // The log has the event before any of its consequences; there is no wait for the disk.
        smol::block_on(self.runs().events.fire_behind(tag, without_token(data)));
        Ok(())
    }

    fn record_copy(&self, jid: &str) -> Option<Arc<dyn RecordCopy>> {
        let cluster = self.runs().cluster.as_ref()?;
        Some(cluster.copy_of_run(jid))
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(&self.runners)
    }

    fn ask(&self, _cx: &Exec, ask: Ask) -> Result<Option<Value>, Error> {
        match ask {
            Ask::Wheel { fun, arg } if Wheel::has(&fun) => {
                let called = smol::block_on(self.runs().wheel.call(&fun, arg));
                called.map(Some).map_err(Error::refused)
            }
            _ => Ok(None),
        }
    }

    fn subscribe(
        &self,
        _cx: &Exec,
        from: Option<u64>,
        sink: Sink,
    ) -> Result<Box<dyn Subscription>, Error> {
        let store = self.runs().store.clone();
        let watch = store.watch();
        let start = from.map_or_else(|| watch.first(), |from| from.min(watch.first()));
        let _task = smol::spawn(deliver(store, watch, start, sink));
        Ok(Box::new(OnLog { start, _task }))
    }
}

/// Hides the token that `token.create` returns: its creator may see it, readers of events may not.
fn without_token(mut data: Map) -> Map {
    let is_token = data.get("fun").and_then(Value::as_str) == Some("runner.token.create");
    if is_token && data.contains("return") {
        data.insert("return", "***");
    }
    data
}

/// A subscription to the master's event log.
struct OnLog {
    start: u64,
    _task: smol::Task<()>,
}

impl Subscription for OnLog {
    fn start(&self) -> Option<u64> {
        Some(self.start)
    }
}

/// Passes the events of the log from `start` on to `sink`, until the store is closed.
async fn deliver(store: Store, watch: Watch, start: u64, sink: Sink) {
    let sink: Arc<dyn Fn(Event) + Send + Sync> =
        Arc::new(move |event| sink(Some(event.sequence), event.tag.clone(), event.stamped()));
    if let Some(last) = watch.first().checked_sub(1).filter(|last| start <= *last) {
        read_log(&store, start, last, &sink).await;
    }
    // No deadline: it ends with the run that listens, which drops the task.
    while let Some(seen) = watch.next().await {
        match seen {
            Seen::Event(event) => sink(Arc::unwrap_or_clone(event)),
            Seen::Missed { from, to } => read_log(&store, from, to, &sink).await,
        }
    }
}

/// Passes the events of the log with the numbers `from` to `to` to `sink`.
async fn read_log(store: &Store, from: u64, to: u64, sink: &Arc<dyn Fn(Event) + Send + Sync>) {
    let (store, sink) = (store.clone(), Arc::clone(sink));
    let read = smol::unblock(move || {
        for event in store.events(from)? {
            let event = event?;
            if event.sequence > to {
                break;
            }
            sink(event);
        }
        Ok::<(), crate::store::Error>(())
    });
    if let Err(error) = read.await {
        log::error(format_args!(
            "cannot read the events {from} to {to} of the log, although a run waits for events: {error}"
        ));
    }
}

impl Fleet {
    fn runs(&self) -> &Runs {
        &self.runners.runs
    }

    /// Returns whether a tag is that of an event of an orchestration that another master has taken
    /// over, and that fires it therefore.
    fn is_of_lost_run(&self, tag: &str) -> bool {
        let Some(cluster) = &self.runs().cluster else {
            return false;
        };
        let jid = tag
            .strip_prefix("salt/run/")
            .and_then(|rest| rest.split('/').next());
        jid.and_then(|jid| cluster.running(jid))
            .is_some_and(|copy| copy.is_lost())
    }

    /// Returns the copy of the orchestration of this context and the name of its step, if another
    /// master could resume the orchestration.
    fn step(&self, cx: &Exec, ids: &[String]) -> Option<(Arc<Copy>, String)> {
        let own = cx.run.as_ref().map(|run| &run.record)?;
        let copy = self
            .runs()
            .cluster
            .as_ref()?
            .running(&own.record.as_ref()?.jid())?;
        let low = cx.chunk.as_ref()?;
        let name = [&[own.part.clone(), low.tag()], ids].concat().join("\0");
        // The name is part of a key, which has a limit.
        let name = hashes::of_bytes(name.as_bytes(), "sha256").ok()?;
        Some((copy, name))
    }

    /// Returns the returns of a step's job. If an earlier master has published the job, waits for that
    /// one: minions that have taken it do not run it again.
    async fn returned_of_step(
        &self,
        mut asked: Publish,
        user: &str,
        copy: &Copy,
        step: String,
    ) -> Result<Vec<MinionReturn>, String> {
        let mut returns = Vec::new();
        let job = match copy.job_of(&step)? {
            Some(job) => {
                let ids = asked.tgt.as_list().unwrap_or_default().to_vec();
                let (here, left) = self.returned_before(&job, &ids)?;
                returns = here;
                asked.tgt = Value::list(left);
                job
            }
            None => jid::new(),
        };
        copy.note_job(&step, &job).await?;
        if asked.tgt.as_list().is_some_and(|left| !left.is_empty()) {
            asked.jid = Some(job);
            returns.extend(self.returned(asked, user).await?);
            returns.sort_by(|one, other| one.id.cmp(&other.id));
        }
        copy.job_ended(step);
        Ok(returns)
    }

    /// Returns the returns of a job that are stored, and the minions without one.
    fn returned_before(
        &self,
        job: &str,
        ids: &[Value],
    ) -> Result<(Vec<MinionReturn>, Vec<Value>), String> {
        let (mut here, mut left) = (Vec::new(), Vec::new());
        for id in ids {
            let name = id.to_text();
            let known = name
                .parse()
                .ok()
                .map(|id| self.runs().store.returned(job, &id));
            let known = known.transpose().map_err(|error| error.to_string())?;
            match known.flatten() {
                Some(returned) => here.push(returned_in(job, name, returned.data)),
                None => left.push(id.clone()),
            }
        }
        Ok((here, left))
    }

    async fn returned(&self, asked: Publish, user: &str) -> Result<Vec<MinionReturn>, String> {
        let mut published = self.runs().jobs.publish(asked, user).await?;
        let jid = published.jid.clone();
        let mut returns = Vec::new();
        // No deadline: a silent minion is given up (`timeout`, `gather_job_timeout`).
        while let Some(came) = published.next().await {
            returns.push(match came {
                JobEvent::Return(data) => {
                    let id = data.get("id").map(Value::to_text).unwrap_or_default();
                    returned_in(&jid, id, data)
                }
                JobEvent::NoReturn(id, why) => MinionReturn {
                    id: id.to_string(),
                    ret: sentence(why).into(),
                    retcode: 1,
                    jid: jid.clone(),
                    is_missing: true,
                },
            });
        }
        returns.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(returns)
    }
}

/// Returns a minion's return of a job, from the data of its event.
fn returned_in(jid: &str, id: String, mut data: Map) -> MinionReturn {
    let retcode = data.get("retcode").and_then(Value::as_int);
    MinionReturn {
        id,
        ret: data.remove("return").unwrap_or(Value::Null),
        retcode: retcode.unwrap_or_default(),
        jid: jid.to_owned(),
        is_missing: false,
    }
}

/// Returns the sentence that replaces a missing return.
fn sentence(why: NoReturn) -> &'static str {
    match why {
        NoReturn::NotConnected => "Minion did not return. [Not connected]",
        NoReturn::NotRunning => "Minion did not return. [No response]",
        NoReturn::Lost => "Minion did not return. [Lost: unknown whether it has run the job]",
        NoReturn::Refused => "Minion did not accept the job.",
    }
}
