//! [`Hosts`]: the hosts of rosters that receive the jobs of a master (`enable_ssh_minions`), and those of
//! the client `ssh` of the API.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use modules::fileserver::roots::Roots;
use modules::loader::custom::CustomModules;
use modules::state_run::job_events::JobEvents;
use smol::channel::Receiver;
use ssh::group::{Group, Said, event_of_host};
use state::exec::{Exec, Registry};
use state::module::Error;
use state::opts::Opts;
use state::targets::{MinionReturn, Targets};
use value::{Map, Value, jid, log};
use wire::{Id, Job, tag};

use super::Jobs;
use crate::events::Events;

/// The exit code of a job that could not be given to a host.
const NOT_GIVEN: i64 = 255;

/// The hosts of the rosters of a master's configuration. The rosters are read for each job.
#[derive(Clone)]
pub(crate) struct Hosts {
    opts: Arc<Opts>,
    registry: &'static Registry,
    events: Events,
    /// The jobs that run on hosts. Hosts need not be asked for them.
    running: Arc<Mutex<BTreeSet<(String, Id)>>>,
}

/// The events of a master, for the modules that read rosters.
struct Bus(Events);

impl Targets for Bus {
    fn is_here(&self) -> bool {
        false
    }

    fn resolve(&self, _cx: &Exec, _tgt: &Value, _type: &str) -> Result<Vec<String>, Error> {
        Err(no_jobs())
    }

    fn run(
        &self,
        _cx: &Exec,
        _ids: &[String],
        _fun: &str,
        _args: Vec<Value>,
        _kwargs: Map,
    ) -> Result<Vec<MinionReturn>, Error> {
        Err(no_jobs())
    }

    fn fire(&self, _cx: &Exec, tag: &str, data: Map) -> Result<(), Error> {
        self.0.fire_for_module(tag, data)
    }
}

fn no_jobs() -> Error {
    Error::refused("A roster cannot send jobs to minions.".to_owned())
}

/// Returns a context for modules that may fire events but send no jobs.
pub(crate) fn context(opts: &Arc<Opts>, registry: &'static Registry, events: &Events) -> Exec {
    let opts = Opts::clone(opts);
    Exec::with_custom(
        opts.clone(),
        registry,
        Box::new(Roots::states(&opts)),
        Box::new(Bus(events.clone())),
        Box::new(CustomModules::new(&opts)),
    )
}

impl Hosts {
    /// Returns the hosts of a configuration.
    pub(crate) fn new(opts: &Arc<Opts>, registry: &'static Registry, events: &Events) -> Self {
        Self {
            opts: opts.clone(),
            registry,
            events: events.clone(),
            running: Arc::default(),
        }
    }

    /// Returns the hosts that receive the jobs for minions too, or `None` if none do.
    pub(crate) fn of_jobs(&self) -> Option<Self> {
        let is_on = self.opts.flag("enable_ssh_minions");
        is_on.then(|| self.clone())
    }

    fn context(&self) -> Exec {
        context(&self.opts, self.registry, &self.events)
    }

    fn group(&self, cx: &Exec) -> Result<Group, String> {
        Group::load(cx, None, Arc::new(Bus(self.events.clone())))
    }

    /// Returns the hosts that the target of a job for minions matches by their ids.
    pub(super) async fn matched(&self, tgt: &Value, tgt_type: &str) -> Result<Vec<Id>, String> {
        let matched = self.matched_by_id(tgt, tgt_type).await;
        matched.map_err(of_option)
    }

    /// Returns the hosts that a target matches by their ids.
    pub(crate) async fn matched_by_id(
        &self,
        tgt: &Value,
        tgt_type: &str,
    ) -> Result<Vec<Id>, String> {
        let (hosts, tgt, tgt_type) = (self.clone(), tgt.clone(), tgt_type.to_owned());
        let matched = smol::unblock(move || {
            let cx = hosts.context();
            hosts.group(&cx)?.matched_by_id(&cx, &tgt, &tgt_type)
        });
        matched.await
    }

    /// Gives a job to hosts.
    async fn give(
        &self,
        job: Job,
        ids: &[Id],
        earlier: Vec<String>,
    ) -> Result<Receiver<Said>, String> {
        let hosts = self.clone();
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let given = smol::unblock(move || {
            let cx = hosts.context();
            Ok(hosts.group(&cx)?.give(&cx, &job, &ids, earlier))
        });
        given.await
    }

    fn running(&self) -> MutexGuard<'_, BTreeSet<(String, Id)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a job still runs on a host.
    pub(super) fn is_running(&self, jid: &str, id: &Id) -> bool {
        self.running().contains(&(jid.to_owned(), id.clone()))
    }

    /// Runs a job on hosts, and stores their returns. `is_again` says that they may have got it
    /// before, from a master that was stopped.
    pub(super) fn start(&self, jobs: Jobs, job: Job, ids: Vec<Id>, is_again: bool) {
        if ids.is_empty() {
            return;
        }
        let keys = ids.iter().map(|id| (job.jid.clone(), id.clone()));
        self.running().extend(keys);
        let hosts = self.clone();
        smol::spawn(async move { hosts.run(&jobs, job, ids, is_again).await }).detach();
    }

    async fn run(&self, jobs: &Jobs, job: Job, ids: Vec<Id>, is_again: bool) {
        let events = events_of(&job);
        let given = match is_again {
            // Each attempt has its own id on the host.
            true => {
                let next = Job {
                    jid: jid::new(),
                    ..job.clone()
                };
                self.give(next, &ids, vec![job.jid.clone()]).await
            }
            false => self.give(job.clone(), &ids, Vec::new()).await,
        };
        let said = match given {
            Ok(said) => said,
            Err(error) => {
                let error = of_option(error);
                for id in ids {
                    self.ended(jobs, &events, not_given(&id, &error)).await;
                }
                return;
            }
        };
        // No deadline: each host has limits, and the channel closes with the last of them.
        while let Ok(said) = said.recv().await {
            match said {
                Said::Event(id, event) => {
                    if let Some((tag, data)) = event_of_host(&id, event) {
                        self.events.fire(&tag, data).await;
                    }
                }
                Said::Returned(one) => self.ended(jobs, &events, one).await,
            }
        }
    }

    /// Runs a function on hosts, and returns the data of their returns. The job has the events of a
    /// job, but the master does not store it.
    pub(crate) async fn call(&self, job: Job, ids: &[Id]) -> Result<Vec<Map>, String> {
        let events = events_of(&job);
        self.announce(events.clone(), ids).await;
        let said = self.give(job, ids, Vec::new()).await?;
        let mut returns = Vec::new();
        // No deadline: each host has limits, and the channel closes with the last of them.
        while let Ok(said) = said.recv().await {
            let (tag, data) = match said {
                Said::Event(id, event) => match event_of_host(&id, event) {
                    Some(event) => event,
                    None => continue,
                },
                Said::Returned(one) => {
                    let data = events.data(&one);
                    returns.push(data.clone());
                    (tag::job(&events.jid, &format!("ret/{}", one.id)), data)
                }
            };
            self.events.fire(&tag, data).await;
        }
        Ok(returns)
    }

    /// Fires the event of a new job.
    async fn announce(&self, events: JobEvents, ids: &[Id]) {
        let hosts = self.clone();
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        smol::unblock(move || {
            let bus = Bus(hosts.events.clone());
            events.announce(&hosts.context(), &bus, &ids);
        })
        .await;
    }

    /// Stores the return of a host.
    async fn ended(&self, jobs: &Jobs, events: &JobEvents, one: MinionReturn) {
        let Ok(id) = one.id.parse::<Id>() else {
            return log::error(format_args!("{:?} is no id of a host", one.id));
        };
        jobs.store_return_of_host(&events.jid, &id, events.data(&one))
            .await;
        self.running().remove(&(events.jid.clone(), id));
    }
}

/// Returns the events of a job.
fn events_of(job: &Job) -> JobEvents {
    JobEvents {
        jid: job.jid.clone(),
        fun: job.fun.to_text(),
        arg: Value::list(job.arg.clone()),
        user: job.user.clone(),
    }
}

/// Returns the error of a job for minions that cannot reach the hosts.
fn of_option(error: String) -> String {
    format!("enable_ssh_minions: {error}")
}

/// Returns the return of a host that did not get a job.
fn not_given(id: &Id, error: &str) -> MinionReturn {
    MinionReturn {
        id: id.to_string(),
        ret: error.into(),
        retcode: NOT_GIVEN,
        jid: String::new(),
        is_missing: true,
    }
}
