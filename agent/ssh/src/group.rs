//! [`Group`]: the hosts of some rosters, and the jobs of steps that run on them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use modules::loader::call::joined;
use modules::state_run::job_events::{JobEvents, fire};
use smol::channel::{Receiver, Sender, bounded};
use smol::lock::Semaphore;
use state::boot::REBOOT;
use state::exec::Exec;
use state::module::Error;
use state::targets::{HostTargets, MinionReturn, Targets, description, minion_event};
use value::{Map, Value, channel, jid, log, watch};
use wire::{Event, Id, Job, NO_LOG, tag};

use crate::fault::Fault;
use crate::journal::{Entry, Journal};
use crate::place::Placing;
use crate::reboot::Reboot;
use crate::roster::{Host, Roster};
use crate::session::{Caller, Follower};
use crate::settings;

/// The maximum number of messages of hosts that wait for being processed. Further events are lost.
const MESSAGES_MAX: usize = 4096;

/// The hosts of some rosters.
pub struct Group {
    roster: Roster,
    caller: Caller,
    /// The bus on which the events of the jobs appear.
    bus: Arc<dyn Targets>,
    /// The grains of the hosts that could be reached, once a target needed them.
    grains: OnceLock<BTreeMap<Id, Map>>,
}

/// The properties of a step that matter for its jobs on hosts.
#[derive(Default)]
struct Step {
    journal: Option<Journal>,
    reboot: Option<Reboot>,
    /// The ids under which the hosts may have got the job before.
    earlier: Vec<String>,
}

/// The jobs of a step that are under way.
pub(crate) struct Started {
    said: Receiver<Said>,
    waits_for: Vec<String>,
    events: JobEvents,
    bus: Arc<dyn Targets>,
}

/// A message of a host's job.
#[derive(Debug)]
pub enum Said {
    /// An event, which the host may forge.
    Event(Id, Event),
    /// The return, or the reason why there is none.
    Returned(MinionReturn),
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").finish_non_exhaustive()
    }
}

impl Group {
    /// Reads rosters: those of the option `roster` if none are named. The events of hosts appear on
    /// `bus`.
    ///
    /// # Errors
    /// When a roster cannot be read.
    pub fn load(cx: &Exec, rosters: Option<&Value>, bus: Arc<dyn Targets>) -> Result<Self, String> {
        let own = cli::binary::own_program().map_err(|error| error.to_string())?;
        Ok(Self {
            roster: match rosters {
                Some(names) => Roster::load_named(cx, names)?,
                None => Roster::load(cx)?,
            },
            caller: Caller::new(cx.opts().clone(), settings::of(cx), Placing::default(), own)?,
            bus,
            grains: OnceLock::new(),
        })
    }

    /// Gives the job of a step to hosts, a limited number at a time.
    pub(crate) fn start(
        &self,
        cx: &Exec,
        ids: &[String],
        fun: &str,
        (args, kwargs): (Vec<Value>, Map),
    ) -> Started {
        let mut job = job(cx, ids, fun, joined(args, kwargs));
        if cx.chunk.as_ref().is_some_and(|low| low.options.no_log) {
            job.options.insert(NO_LOG, true);
        }
        let step = Step {
            journal: Journal::of_step(cx),
            reboot: Reboot::of_step(cx),
            earlier: Vec::new(),
        };
        self.begin(cx, job, ids, step)
    }

    /// Returns the ids of the hosts that a target matches by their ids; without any for a target of
    /// another type.
    ///
    /// # Errors
    /// When the target is not well formed.
    pub fn matched_by_id(&self, cx: &Exec, tgt: &Value, tgt_type: &str) -> Result<Vec<Id>, String> {
        if !matches!(tgt_type, "glob" | "pcre" | "list" | "nodegroup") {
            return Ok(Vec::new());
        }
        let hosts = self.roster.matched(cx, tgt, tgt_type, None)?;
        Ok(hosts.into_iter().map(|host| host.id).collect())
    }

    /// Gives a job to hosts, a limited number at a time, and returns the channel of its messages.
    /// `earlier` are the ids under which the hosts may have got it before.
    #[must_use]
    pub fn give(
        &self,
        cx: &Exec,
        job: &Job,
        ids: &[String],
        earlier: Vec<String>,
    ) -> Receiver<Said> {
        let step = Step {
            earlier,
            ..Step::default()
        };
        self.spawn(cx, job, ids, &step)
    }

    fn begin(&self, cx: &Exec, job: Job, ids: &[String], step: Step) -> Started {
        let said = self.spawn(cx, &job, ids, &step);
        let events = JobEvents {
            jid: job.jid,
            fun: job.fun.to_text(),
            arg: Value::list(job.arg),
            user: job.user,
        };
        if !ids.is_empty() {
            events.announce(cx, &*self.bus, ids);
        }
        Started {
            said,
            waits_for: ids.to_vec(),
            events,
            bus: self.bus.clone(),
        }
    }

    fn spawn(&self, cx: &Exec, job: &Job, ids: &[String], step: &Step) -> Receiver<Said> {
        let (send, said) = bounded(MESSAGES_MAX);
        let turns = Arc::new(Semaphore::new(settings::at_once(cx)));
        for host in self.roster.with_ids(ids) {
            let (caller, job) = (self.caller.clone(), job.clone());
            let (turns, send, reboot) = (turns.clone(), send.clone(), step.reboot);
            let follower = Arc::new(OfHost {
                id: host.id.clone(),
                journal: step.journal.clone(),
                earlier: step.earlier.clone(),
                send: send.clone(),
            });
            smol::spawn(async move {
                // No deadline: each host before it has limits.
                let _turn = turns.acquire().await;
                let returned = returned(&caller, &host, job, reboot, follower).await;
                channel::if_open(send.send(Said::Returned(returned)).await);
            })
            .detach();
        }
        said
    }

    /// Returns the grains of all hosts that can be reached. They are asked once.
    fn grains(&self, cx: &Exec) -> &BTreeMap<Id, Map> {
        self.grains.get_or_init(|| self.ask_grains(cx))
    }

    fn ask_grains(&self, cx: &Exec) -> BTreeMap<Id, Map> {
        let ids = self.roster.ids();
        let job = job(cx, &ids, "grains.items", Vec::new());
        // The journal of the step is for the job of the step.
        let asked = self.begin(cx, job, &ids, Step::default());
        let mut grains = BTreeMap::new();
        for one in asked.finished(cx) {
            match (one.id.parse(), one.ret) {
                (Ok(id), Value::Map(own)) if !one.is_missing => {
                    grains.insert(id, own);
                }
                (_, said) => log::warning(format_args!(
                    "{} does not match any target by grains: {}",
                    one.id,
                    said.to_text()
                )),
            }
        }
        grains
    }
}

fn job(cx: &Exec, ids: &[String], fun: &str, arg: Vec<Value>) -> Job {
    Job {
        jid: jid::new(),
        fun: fun.into(),
        arg,
        tgt: Value::list(ids.iter().map(|id| id.as_str().into())),
        tgt_type: "list".to_owned(),
        ret: String::new(),
        user: cx.opts().text("user").unwrap_or("root").to_owned(),
        options: Map::new(),
    }
}

impl HostTargets for Group {
    fn matched(&self, cx: &Exec, tgt: &Value, tgt_type: &str) -> Result<Vec<String>, Error> {
        let grains = |id: &Id| self.grains(cx).get(id).cloned().unwrap_or_default();
        let hosts = self.roster.matched(cx, tgt, tgt_type, Some(&grains));
        let hosts = hosts.map_err(Error::refused)?;
        Ok(hosts.iter().map(|host| host.id.to_string()).collect())
    }

    fn run(
        &self,
        cx: &Exec,
        ids: &[String],
        fun: &str,
        args: Vec<Value>,
        kwargs: Map,
    ) -> Result<Vec<MinionReturn>, Error> {
        Ok(self.start(cx, ids, fun, (args, kwargs)).finished(cx))
    }
}

impl Started {
    /// Waits for all returns, and passes the events of the jobs to the bus.
    pub(crate) fn finished(mut self, cx: &Exec) -> Vec<MinionReturn> {
        let mut returns: Vec<MinionReturn> = Vec::new();
        while !self.waits_for.is_empty() {
            let _waiting = watch::waits(|| description("host", &self.waits_for));
            // No deadline: each host has limits.
            match smol::block_on(self.said.recv()) {
                Ok(Said::Event(id, event)) => {
                    if let Some((tag, data)) = event_of_host(&id, event) {
                        fire(cx, &*self.bus, &tag, data);
                    }
                }
                Ok(Said::Returned(one)) => {
                    self.waits_for.retain(|id| *id != one.id);
                    self.events.returned(cx, &*self.bus, &one);
                    returns.push(one);
                }
                Err(_) => break,
            }
        }
        returns.sort_by(|one, other| one.id.cmp(&other.id));
        returns
    }
}

/// The journal and the messages of one host's job.
struct OfHost {
    id: Id,
    journal: Option<Journal>,
    earlier: Vec<String>,
    send: Sender<Said>,
}

impl Follower for OfHost {
    fn begins(&self, jids: &[String]) -> Result<(), String> {
        match &self.journal {
            Some(journal) => journal.begins(&self.id, jids),
            None => Ok(()),
        }
    }

    fn event(&self, event: Event) {
        let tag = event.tag.clone();
        if self
            .send
            .try_send(Said::Event(self.id.clone(), event))
            .is_err()
        {
            log::warning(format_args!("{}: the event {tag} is lost", self.id));
        }
    }

    fn returned(&self, data: &Map) -> Result<(), String> {
        match &self.journal {
            Some(journal) => journal.returned(&self.id, data),
            None => Ok(()),
        }
    }
}

/// Runs a job on a host, unless the journal says that the step has already run it. Returns the
/// first id under which it may have begun, too.
async fn ran(
    caller: &Caller,
    host: &Host,
    job: Job,
    follower: Arc<OfHost>,
) -> (String, Result<Map, Fault>) {
    let entry = match &follower.journal {
        Some(journal) => journal.entry(&host.id),
        None => Ok(None),
    };
    let jid = job.jid.clone();
    match entry {
        Ok(Some(Entry::Returned(data))) => {
            let first = data.get("jid").map(Value::to_text);
            (first.unwrap_or(jid), Ok(data))
        }
        Ok(Some(Entry::Begun(jids))) => {
            let first = jids.first().cloned();
            let data = caller.run(host, job, jids, follower).await;
            (first.unwrap_or(jid), data)
        }
        Ok(None) => {
            let earlier = follower.earlier.clone();
            (jid, caller.run(host, job, earlier, follower).await)
        }
        Err(error) => (jid, Err(Fault::placing(error))),
    }
}

/// Returns the exit code in the data of a return.
fn retcode(data: &Map) -> i64 {
    data.get("retcode").and_then(Value::as_int).unwrap_or(1)
}

/// Returns whether a job has taken its host down, or may have done it.
fn took_down(data: &Result<Map, Fault>, is_reboot: bool) -> bool {
    match data {
        Ok(data) => retcode(data) == 0,
        Err(fault) => fault.may_have_begun && is_reboot,
    }
}

/// Runs a job on a host, and waits for the reboot of the host if the step says so.
async fn returned(
    caller: &Caller,
    host: &Host,
    job: Job,
    reboot: Option<Reboot>,
    follower: Arc<OfHost>,
) -> MinionReturn {
    let (jid, is_reboot) = (job.jid.clone(), job.fun == REBOOT.into());
    let (first, mut data) = ran(caller, host, job, follower).await;
    if let Some(reboot) = reboot
        && took_down(&data, is_reboot)
    {
        data = match reboot.wait(caller, host, &first).await {
            // The return of a reboot may be lost.
            Ok(()) => data.or_else(|_| Ok(Map::new().with("return", true).with("retcode", 0))),
            Err(text) => Err(Fault::connection(text)),
        };
    }
    let is_missing = data.is_err();
    let (ret, retcode) = match data {
        Ok(mut data) => (data.remove("return").unwrap_or_default(), retcode(&data)),
        Err(fault) => (fault.text.into(), fault.code.into()),
    };
    MinionReturn {
        id: host.id.to_string(),
        ret,
        retcode,
        jid,
        is_missing,
    }
}

/// Returns the tag and the data of a host's event, in the form that the event of a minion has on a
/// master's bus. An event that a host must not fire is logged.
#[must_use]
pub fn event_of_host(id: &Id, event: Event) -> Option<(String, Map)> {
    if let Err(refused) = tag::may_send(id, &event.tag) {
        log::warning(format_args!("{id}: {refused}"));
        return None;
    }
    let data = minion_event(id.as_str(), &event.tag, event.data);
    Some((event.tag, data))
}
