//! [`Runners`]: calls runners, orchestrations and wheel functions on a master.

mod fleet;
pub(crate) mod progress;
pub(crate) mod takeover;

use std::any::Any;
use std::sync::Arc;

use modules::fileserver::roots::Roots;
use modules::loader::custom::CustomModules;
use modules::state_run::orchestrate;
use state::exec::{Exec, Registry};
use state::opts::Opts;
use value::watch::{self, Watcher};
use value::{Map, Value, jid, secret};
use wire::Runner;

use crate::cluster::Cluster;
use crate::data::Data;
use crate::events::Events;
use crate::jobs::Jobs;
use crate::store::Store;
use crate::wheel::Wheel;

use fleet::Fleet;

/// The services that runners use.
#[derive(Clone)]
pub(crate) struct Runs {
    pub(crate) opts: Arc<Opts>,
    /// The functions that the master can run.
    pub(crate) registry: &'static Registry,
    pub(crate) store: Store,
    pub(crate) events: Events,
    pub(crate) wheel: Wheel,
    pub(crate) jobs: Jobs,
    pub(crate) data: Data,
    /// The cluster, if this master belongs to one.
    pub(crate) cluster: Option<Cluster>,
}

/// Calls runners and wheel functions.
#[derive(Clone)]
pub(crate) struct Runners {
    pub(crate) runs: Runs,
    /// The reactor, for the runner `reactor`. Its type is not known here, since a reactor itself
    /// calls runners.
    pub(crate) reactor: Arc<dyn Any + Send + Sync>,
}

impl Runners {
    /// Calls a runner's function and returns `return`, `success`, `jid` and `retcode`. An
    /// asynchronous call returns only the `jid`. `watcher` receives the progress.
    pub(crate) async fn run(&self, mut asked: Runner, watcher: Option<Watcher>) -> Map {
        let jid = match asked.jid.take() {
            Some(jid) if jid::is_jid(&jid) => jid,
            _ => jid::new(),
        };
        if !asked.asynchronous {
            return self.run_as(jid, asked, watcher).await;
        }
        let (runners, own) = (self.clone(), jid.clone());
        smol::spawn(async move { runners.run_as(own, asked, None).await }).detach();
        Map::new().with("jid", jid)
    }

    async fn run_as(&self, jid: String, asked: Runner, watcher: Option<Watcher>) -> Map {
        let cx = self.context(false);
        // A caller of `sdb.get` needs the value in clear text.
        let shows = asked.fun == "sdb.get";
        let mut called = smol::unblock(move || {
            let (args, kwargs) = modules::loader::call::split(&asked.arg);
            watch::looked_on(watcher, || {
                let called = orchestrate::runner_as(&cx, jid, &asked.fun, args, kwargs);
                cx.barrier();
                called
            })
        })
        .await;
        if !shows {
            called.ret = secret::value(&called.ret);
        }
        let code = called.ret.get("retcode").and_then(Value::as_int);
        Map::new()
            .with("return", called.ret.clone())
            .with("success", called.success)
            .with("jid", called.jid)
            .with(
                "retcode",
                code.unwrap_or_else(|| i64::from(!called.success)),
            )
    }

    /// Calls a wheel function, and returns its result.
    pub(crate) async fn wheel(&self, fun: &str, arg: Vec<Value>) -> Result<Value, String> {
        if Wheel::has(fun) {
            return self.runs.wheel.call(fun, arg).await;
        }
        let (cx, fun) = (self.context(false), fun.to_owned());
        let called = smol::unblock(move || {
            let (args, kwargs) = modules::loader::call::split(&arg);
            let called = orchestrate::wheel(&cx, &fun, args, kwargs);
            cx.barrier();
            called.ret
        });
        Ok(called.await)
    }

    /// Returns the context of runners: the master's own trees, with its minions as targets.
    /// `is_of_reactor` says that the reactor calls them.
    pub(crate) fn context(&self, is_of_reactor: bool) -> Exec {
        let mut map = self.runs.opts.map.clone();
        // A step whose target matches no minion must not run on the master.
        map.insert("masterless_tgt", "match");
        let opts = Opts::new(map);
        Exec::with_custom(
            opts.clone(),
            self.runs.registry,
            Box::new(Roots::states(&opts)),
            Box::new(ssh::Hosts::beside(Box::new(Fleet {
                runners: self.clone(),
                is_of_reactor,
            }))),
            Box::new(CustomModules::new(&opts)),
        )
    }
}
