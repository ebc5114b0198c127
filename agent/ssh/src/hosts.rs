//! [`Hosts`]: the hosts of a roster as the targets of an orchestration's steps.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use modules::loader::call::joined;
use smol::lock::Semaphore;
use state::ask::Ask;
use state::exec::Exec;
use state::module::Error;
use state::targets::{HostTargets, MinionReturn, Sink, Subscription, Targets};
use value::{Map, Value, jid};
use wire::{Job, NO_LOG};

use crate::roster::{Host, Roster};
use crate::session::Caller;
use crate::settings;

/// The hosts of a roster, in addition to other targets: this machine, or a master's minions.
pub struct Hosts {
    others: Box<dyn Targets>,
    own: PathBuf,
    ready: OnceLock<Result<Ready, String>>,
}

/// The roster, and the connections to its hosts.
struct Ready {
    roster: Roster,
    caller: Caller,
}

impl Hosts {
    /// Adds the hosts of the configuration's roster to other targets. The roster is read when a step
    /// needs it. `own` is the running program.
    #[must_use]
    pub fn beside(others: Box<dyn Targets>, own: PathBuf) -> Self {
        Self {
            others,
            own,
            ready: OnceLock::new(),
        }
    }

    fn ready(&self, cx: &Exec) -> Result<&Ready, Error> {
        let read = || {
            Ok(Ready {
                roster: Roster::load(cx)?,
                caller: Caller::new(cx.opts().clone(), settings::of(cx), self.own.clone())?,
            })
        };
        let ready = self.ready.get_or_init(read).as_ref();
        ready.map_err(|error| Error::refused(error.clone()))
    }
}

impl Targets for Hosts {
    fn is_here(&self) -> bool {
        self.others.is_here()
    }

    fn resolve(&self, cx: &Exec, tgt: &Value, tgt_type: &str) -> Result<Vec<String>, Error> {
        self.others.resolve(cx, tgt, tgt_type)
    }

    fn run(
        &self,
        cx: &Exec,
        ids: &[String],
        fun: &str,
        args: Vec<Value>,
        kwargs: Map,
    ) -> Result<Vec<MinionReturn>, Error> {
        self.others.run(cx, ids, fun, args, kwargs)
    }

    fn come_late(&self, missing: &MinionReturn) -> Result<Option<MinionReturn>, Error> {
        self.others.come_late(missing)
    }

    fn fire(&self, cx: &Exec, tag: &str, data: Map) -> Result<(), Error> {
        self.others.fire(cx, tag, data)
    }

    fn announce(&self, cx: &Exec, tag: &str, data: Map) -> Result<(), Error> {
        self.others.announce(cx, tag, data)
    }

    fn subscribe(
        &self,
        cx: &Exec,
        from: Option<u64>,
        sink: Sink,
    ) -> Result<Box<dyn Subscription>, Error> {
        self.others.subscribe(cx, from, sink)
    }

    fn ask(&self, cx: &Exec, ask: Ask) -> Result<Option<Value>, Error> {
        self.others.ask(cx, ask)
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        self.others.as_any()
    }

    fn hosts(&self) -> Option<&dyn HostTargets> {
        Some(self)
    }
}

impl HostTargets for Hosts {
    fn matched(&self, cx: &Exec, tgt: &Value, tgt_type: &str) -> Result<Vec<String>, Error> {
        let matched = self.ready(cx)?.roster.matched(cx, tgt, tgt_type);
        let matched = matched.map_err(Error::refused)?;
        Ok(matched.iter().map(|host| host.id.to_string()).collect())
    }

    fn run(
        &self,
        cx: &Exec,
        ids: &[String],
        fun: &str,
        args: Vec<Value>,
        kwargs: Map,
    ) -> Result<Vec<MinionReturn>, Error> {
        let Ready { roster, caller } = self.ready(cx)?;
        let mut options = Map::new();
        if cx.chunk.as_ref().is_some_and(|low| low.options.no_log) {
            options.insert(NO_LOG, true);
        }
        let job = Job {
            jid: jid::new(),
            fun: fun.into(),
            arg: joined(args, kwargs),
            tgt: Value::list(ids.iter().map(|id| id.as_str().into())),
            tgt_type: "list".to_owned(),
            ret: String::new(),
            user: cx.opts().text("user").unwrap_or("root").to_owned(),
            options,
        };
        let hosts = roster.with_ids(ids);
        let turns = Arc::new(Semaphore::new(settings::at_once(cx)));
        let tasks: Vec<_> = hosts
            .into_iter()
            .map(|host| {
                let (caller, job) = (caller.clone(), job.clone());
                let turns = turns.clone();
                smol::spawn(async move {
                    // No deadline: each host before it has limits.
                    let _turn = turns.acquire().await;
                    returned(&caller, &host, job).await
                })
            })
            .collect();
        // No deadline: each host has limits.
        let mut returns: Vec<MinionReturn> = tasks.into_iter().map(smol::block_on).collect();
        returns.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(returns)
    }
}

async fn returned(caller: &Caller, host: &Host, job: Job) -> MinionReturn {
    let (id, jid) = (host.id.to_string(), job.jid.clone());
    match caller.run(host, job, Arc::new(|_| {})).await {
        Ok(mut data) => {
            let retcode = data.get("retcode").and_then(Value::as_int);
            MinionReturn {
                id,
                ret: data.remove("return").unwrap_or_default(),
                retcode: retcode.unwrap_or_default(),
                jid,
                is_missing: false,
            }
        }
        Err(fault) => MinionReturn {
            id,
            ret: fault.text.into(),
            retcode: fault.code.into(),
            jid,
            is_missing: true,
        },
    }
}
