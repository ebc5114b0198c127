//! [`Runners`]: calls runners, orchestrations and wheel functions on a master.

mod fleet;
pub(crate) mod progress;
pub(crate) mod takeover;

use std::any::Any;
use std::sync::Arc;

use machine::accounts::users;
use modules::fileserver::roots::Roots;
use modules::loader::custom::CustomModules;
use modules::state_run::orchestrate;
use state::exec::{Exec, Registry};
use state::opts::Opts;
use value::watch::{self, Watcher};
use value::{Map, Value, jid, secret};
use wire::Runner;

use crate::access::Access;
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
    pub(crate) access: Access,
    /// The cluster, if this master belongs to one.
    pub(crate) cluster: Option<Cluster>,
}

/// The runners whose caller needs the value in clear text.
const CLEAR: [&str; 2] = ["sdb.get", orchestrate::MAKES_TOKEN];
/// The wheel functions that return a private key.
const PRIVATE: [&str; 2] = ["key.gen", "key.gen_accept"];

/// A call of a runner's function or a wheel function by a user.
pub(crate) struct Call {
    pub(crate) is_wheel: bool,
    /// The user in whose name the function runs.
    pub(crate) user: String,
    pub(crate) jid: String,
    pub(crate) fun: String,
    /// The arguments. A map with `__kwarg__` has the named ones.
    pub(crate) arg: Vec<Value>,
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
    pub(crate) async fn run(&self, asked: Runner, watcher: Option<Watcher>) -> Map {
        self.run_by(asked, None, watcher).await
    }

    /// Like [`Runners::run`], in the name of a user of `external_auth` if one is given.
    pub(crate) async fn run_by(
        &self,
        mut asked: Runner,
        user: Option<&str>,
        watcher: Option<Watcher>,
    ) -> Map {
        let user = user.map_or_else(users::current, Value::from);
        let jid = match asked.jid.take() {
            Some(jid) if jid::is_jid(&jid) => jid,
            _ => jid::new(),
        };
        if !asked.asynchronous {
            return self.run_as(user, jid, asked, watcher).await;
        }
        let (runners, own) = (self.clone(), jid.clone());
        smol::spawn(async move { runners.run_as(user, own, asked, None).await }).detach();
        Map::new().with("jid", jid)
    }

    async fn run_as(
        &self,
        user: Value,
        jid: String,
        asked: Runner,
        watcher: Option<Watcher>,
    ) -> Map {
        let cx = self.context(false);
        let shows = CLEAR.contains(&asked.fun.as_str());
        let mut called = smol::unblock(move || {
            let (args, kwargs) = modules::loader::call::split(&asked.arg);
            watch::looked_on(watcher, || {
                let called = orchestrate::runner_by(&cx, &user, jid, &asked.fun, args, kwargs);
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

    /// Calls a runner's function or a wheel function in the name of a user, and returns the data of its
    /// last event.
    pub(crate) async fn call(self, call: Call) -> Map {
        let cx = self.context(false);
        let shows = CLEAR.contains(&call.fun.as_str());
        if call.is_wheel && PRIVATE.contains(&call.fun.as_str()) {
            return self.unannounced(call).await;
        }
        let done = smol::unblock(move || {
            let (args, kwargs) = modules::loader::call::split(&call.arg);
            let (user, jid) = (call.user.into(), call.jid);
            let done = match call.is_wheel {
                true => orchestrate::wheel_by(&cx, &user, jid, &call.fun, args, kwargs),
                false => orchestrate::runner_by(&cx, &user, jid, &call.fun, args, kwargs),
            };
            cx.barrier();
            done.data.with("return", done.ret)
        });
        match shows {
            true => done.await,
            false => secret::map(done.await),
        }
    }

    /// Calls a wheel function that returns a private key. It has no events, since all users may read
    /// those.
    async fn unannounced(&self, call: Call) -> Map {
        let called = self.wheel(&call.fun, call.arg).await;
        let success = called.is_ok();
        let ret = called.unwrap_or_else(|error| {
            format!("Exception occurred in wheel {}: {error}", call.fun).into()
        });
        Map::new()
            .with("fun", format!("wheel.{}", call.fun))
            .with("jid", call.jid)
            .with("user", call.user)
            .with("return", ret)
            .with("success", success)
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
