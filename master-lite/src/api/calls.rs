//! [`Calls`]: the clients, which run the calls of a request.

use std::time::Duration;

use link::wait::within;
use value::{Map, Value, jid, log, random, secret};
use wire::{Job, Publish, tag};

use super::chunk::{Chunk, Client};
use super::failure::Failure;
use super::stream::LogStream;
use crate::access::Access;
use crate::access::caller::Caller;
use crate::access::functions::Form;
use crate::access::publisher_acl::{NOBODY, Permitted};
use crate::jobs::batches::{self, Batches, Shape};
use crate::jobs::hosts::Hosts;
use crate::jobs::{JobEvent, Jobs, Published};
use crate::refusals::NotServed;
use crate::runs::{Call, Runners};
use crate::store::Store;

/// The longest time to wait for the end of a batch.
const BATCH_MAX: Duration = Duration::from_secs(24 * 3600);

/// The services of the clients.
#[derive(Clone)]
pub(crate) struct Calls {
    pub(crate) store: Store,
    pub(crate) jobs: Jobs,
    pub(crate) batches: Batches,
    pub(crate) access: Access,
    pub(crate) runners: Runners,
    /// The hosts of rosters, for the client `ssh`.
    pub(crate) hosts: Hosts,
}

/// The types of targets of the client `ssh`: hosts have only ids.
const OF_HOSTS: [&str; 4] = ["glob", "list", "nodegroup", "pcre"];

fn not_served((word, text): NotServed) -> Failure {
    match word {
        "refused" => Failure::new(401, text),
        _ => Failure::bad(text),
    }
}

fn ids<'a>(ids: impl IntoIterator<Item = &'a wire::Id>) -> Value {
    Value::list(ids.into_iter().map(|id| id.as_str().into()))
}

impl Calls {
    /// Runs a call for its caller, and returns its results: one, or one for each minion of a batch.
    /// `wait` is the time to wait for a function of the master.
    pub(super) async fn run(
        &self,
        chunk: Chunk,
        caller: &Caller,
        wait: Duration,
    ) -> Result<Vec<Value>, Failure> {
        let one = match chunk.client {
            Client::Local => self.local(chunk, caller).await,
            Client::LocalAsync => self.local_async(chunk, caller).await,
            Client::LocalSubset => self.local_subset(chunk, caller).await,
            Client::LocalBatch => return self.local_batch(chunk, caller).await,
            Client::Runner | Client::Wheel => self.of_master(chunk, caller, wait).await,
            Client::RunnerAsync | Client::WheelAsync => self.begun(chunk, caller),
            Client::Ssh => self.ssh(chunk, caller).await,
        };
        Ok(vec![one?])
    }

    /// Returns the job of a chunk, if its caller may publish it. Returns `None` if the target matches
    /// no minion.
    async fn permitted(&self, chunk: Chunk, caller: &Caller) -> Result<Option<Permitted>, Failure> {
        match self.access.permitted(asked(chunk), caller).await {
            Ok(permitted) if permitted.matched.0.is_empty() => Ok(None),
            Ok(permitted) => Ok(Some(permitted)),
            Err(refused) if refused.1 == NOBODY => Ok(None),
            Err(refused) => Err(not_served(refused)),
        }
    }

    async fn publish(&self, permitted: Permitted) -> Result<Published, Failure> {
        let Permitted {
            asked,
            user,
            matched,
            ..
        } = permitted;
        let published = self.jobs.publish_to(asked, &user, matched).await;
        published.map_err(Failure::bad)
    }

    /// Publishes a job, and returns the returns of its minions by id. A minion that does not return
    /// has `False`.
    async fn local(&self, chunk: Chunk, caller: &Caller) -> Result<Value, Failure> {
        let is_full = chunk.full_return;
        let Some(permitted) = self.permitted(chunk, caller).await? else {
            return Ok(Map::new().into());
        };
        let mut published = self.publish(permitted).await?;
        let (mut returns, mut silent) = (Map::new(), Vec::new());
        // No deadline: a silent minion is given up (`timeout`, `gather_job_timeout`).
        while let Some(event) = published.next().await {
            match event {
                JobEvent::Return(data) => {
                    let (id, ret) = returned(secret::map(data), is_full);
                    returns.insert(id, ret);
                }
                JobEvent::NoReturn(id, _) => silent.push(id),
            }
        }
        for id in silent {
            returns.insert(id.as_str(), false);
        }
        Ok(returns.into())
    }

    /// Runs a function on hosts of the master's rosters, and returns the data of each return by id.
    async fn ssh(&self, chunk: Chunk, caller: &Caller) -> Result<Value, Failure> {
        let asked = asked(chunk);
        if asked.fun.contains(',') {
            return Err(Failure::bad("The client ssh calls one function"));
        }
        if !OF_HOSTS.contains(&&*asked.tgt_type) {
            let known = OF_HOSTS.join(", ");
            let text = format!("The client ssh has these types of targets: {known}");
            return Err(Failure::bad(text));
        }
        let matched = self.hosts.matched_by_id(&asked.tgt, &asked.tgt_type).await;
        let ids = matched.map_err(Failure::bad)?;
        let allowed = self.access.may_run_on(&asked, caller, &ids).await;
        allowed.map_err(not_served)?;
        let job = Job {
            jid: jid::new(),
            fun: asked.fun.into(),
            arg: asked.arg,
            tgt: asked.tgt,
            tgt_type: asked.tgt_type,
            ret: String::new(),
            user: caller.name().unwrap_or("root").to_owned(),
            options: Map::new(),
        };
        let returns = self.hosts.call(job, &ids).await.map_err(Failure::bad)?;
        let mut by_id = Map::new();
        for data in returns {
            let id = data.get("id").map(Value::to_text).unwrap_or_default();
            by_id.insert(&*id, of_host(&secret::map(data)));
        }
        Ok(by_id.into())
    }

    /// Publishes a job without waiting for its returns.
    async fn local_async(&self, chunk: Chunk, caller: &Caller) -> Result<Value, Failure> {
        let Some(permitted) = self.permitted(chunk, caller).await? else {
            return Ok(Map::new().into());
        };
        let published = self.publish(permitted).await?;
        let begun = Map::new()
            .with("jid", published.jid.as_str())
            .with("minions", ids(&published.minions));
        Ok(begun.into())
    }

    /// Publishes a job for some random minions that have its function.
    async fn local_subset(&self, chunk: Chunk, caller: &Caller) -> Result<Value, Failure> {
        let listing = Chunk {
            fun: "sys.list_functions".to_owned(),
            arg: Vec::new(),
            full_return: false,
            ..chunk.clone()
        };
        let lists = self.local(listing, caller).await?;
        let funs: Vec<&str> = chunk.fun.split(',').collect();
        let has_all = |list: &Value| {
            let names = list.as_list().unwrap_or_default();
            let has = |fun: &&str| names.iter().any(|name| name.as_str() == Some(fun));
            funs.iter().all(has)
        };
        let lists = lists.as_map().cloned().unwrap_or_default();
        let able = lists.iter().filter(|(_, list)| has_all(list));
        let mut able: Vec<Value> = able.map(|(id, _)| id.to_text().into()).collect();
        let mut chosen = Vec::new();
        while chosen.len() < chunk.subset && !able.is_empty() {
            let at = random::index(able.len());
            let at = at.map_err(|error| Failure::new(500, error.to_string()))?;
            chosen.push(able.swap_remove(at));
        }
        let chunk = Chunk {
            tgt: Value::list(chosen),
            tgt_type: "list".to_owned(),
            ..chunk
        };
        self.local(chunk, caller).await
    }

    /// Lets the master run a job in batches, and returns the return of each minion.
    async fn local_batch(&self, chunk: Chunk, caller: &Caller) -> Result<Vec<Value>, Failure> {
        let Some(permitted) = self.permitted(chunk, caller).await? else {
            return Ok(Vec::new());
        };
        let Permitted {
            mut asked,
            user,
            matched,
            ..
        } = permitted;
        let shape = Shape::take(&mut asked.options).map_err(Failure::bad)?;
        let shape = shape.ok_or_else(|| Failure::bad("`batch` is not the size of a batch"))?;
        let mut events = LogStream::new(&self.store, None);
        let started = self.batches.start(asked, &shape, &user, matched).await;
        let jid = started.map_err(Failure::bad)?.jid;
        if jid.is_empty() {
            return Ok(Vec::new());
        }
        let ends = ["complete", "halted"].map(|what| batches::tag(&jid, what));
        let ended = async {
            loop {
                // No deadline: `within` ends this wait.
                match events.next().await {
                    Ok(Some(event)) if !ends.contains(&event.tag) => {}
                    Ok(Some(_)) => return Ok(()),
                    Ok(None) => return Err(ending()),
                    Err(error) => return Err(Failure::new(500, error.to_string())),
                }
            }
        };
        within(BATCH_MAX, ended)
            .await
            .unwrap_or_else(|| Err(late()))?;
        self.returns(jid).await
    }

    /// Returns the stored returns of a job.
    async fn returns(&self, jid: String) -> Result<Vec<Value>, Failure> {
        let store = self.store.clone();
        let read = smol::unblock(move || {
            let all = store.returns(&jid)?;
            all.collect::<Result<Vec<_>, _>>()
        });
        let all = read.await;
        let all = all.map_err(|error| Failure::new(500, error.to_string()))?;
        let one = |data: Map| {
            let (id, ret) = returned(secret::map(data), false);
            Map::new().with(&id, ret).into()
        };
        let stored = all.into_iter();
        Ok(stored
            .map(|row| one(row.data.with("id", row.id.as_str())))
            .collect())
    }

    /// Returns the call of a function of the master, if its caller may call it.
    fn call(&self, chunk: Chunk, caller: &Caller) -> Result<Call, Failure> {
        let form = match chunk.client {
            Client::Wheel | Client::WheelAsync => Form::Wheel,
            _ => Form::Runner,
        };
        let allowed = self.access.may_call(caller, form, &chunk.fun, &chunk.arg);
        allowed.map_err(not_served)?;
        Ok(Call {
            is_wheel: form == Form::Wheel,
            user: caller.name().unwrap_or("root").to_owned(),
            jid: jid::new(),
            fun: chunk.fun,
            arg: chunk.arg,
        })
    }

    /// Runs a runner or a wheel function. A wheel function always returns its event, and a runner
    /// does with `full_return`.
    async fn of_master(
        &self,
        chunk: Chunk,
        caller: &Caller,
        wait: Duration,
    ) -> Result<Value, Failure> {
        let is_full = chunk.full_return || chunk.client == Client::Wheel;
        let given = chunk.timeout_s.and_then(link::wait::seconds);
        let call = self.call(chunk, caller)?;
        let is_wheel = call.is_wheel;
        let event = call.tag(if is_wheel { "" } else { "ret" });
        // The function continues after the client was answered.
        let task = smol::spawn(self.runners.clone().call(call));
        let mut task = task.fallible();
        let data = match within(given.unwrap_or(wait), &mut task).await {
            Some(Some(data)) => data,
            Some(None) => return Err(ending()),
            None => {
                task.detach();
                return Err(late());
            }
        };
        if !is_full {
            return Ok(data.get("return").cloned().unwrap_or_default());
        }
        Ok(full(event, data, is_wheel).into())
    }

    /// Starts a runner or a wheel function without waiting for it.
    fn begun(&self, chunk: Chunk, caller: &Caller) -> Result<Value, Failure> {
        let call = self.call(chunk, caller)?;
        let begun = Map::new()
            .with("tag", call.tag(""))
            .with("jid", call.jid.as_str());
        let runners = self.runners.clone();
        smol::spawn(async move {
            let fun = call.fun.clone();
            let data = runners.call(call).await;
            log::debug(format_args!("{fun} has ended: {:?}", data.get("success")));
        })
        .detach();
        Ok(begun.into())
    }
}

/// Returns the last event of a function as Salt does: that of a wheel function has its tag, and no
/// arguments.
fn full(tag: String, mut data: Map, is_wheel: bool) -> Map {
    match is_wheel {
        true => {
            data.remove("fun_args");
            data.insert("tag", tag.as_str());
        }
        false => {
            data.insert("_stamp", jid::stamp());
        }
    }
    Map::new().with("tag", tag).with("data", data)
}

/// Returns a chunk as the job that it asks for.
fn asked(chunk: Chunk) -> Publish {
    Publish {
        tgt: chunk.tgt,
        tgt_type: chunk.tgt_type,
        fun: chunk.fun,
        arg: chunk.arg,
        ret: String::new(),
        jid: None,
        timeout_s: chunk.timeout_s,
        options: chunk.options,
    }
}

/// Returns the parts of a host's return that Salt's client `ssh` has.
fn of_host(data: &Map) -> Map {
    let mut own = Map::new();
    for key in [
        "id", "jid", "fun", "fun_args", "return", "retcode", "success",
    ] {
        if let Some(value) = data.get(key) {
            own.insert(key, value.clone());
        }
    }
    own
}

fn ending() -> Failure {
    Failure::new(503, "The master is shutting down")
}

fn late() -> Failure {
    Failure::new(504, "The call has not returned in time")
}

/// Returns the id of a return, and its value as `local` returns it.
fn returned(mut data: Map, is_full: bool) -> (String, Value) {
    let id = data.get("id").map(Value::to_text).unwrap_or_default();
    let ret = data.remove("return").unwrap_or_default();
    if !is_full {
        return (id, ret);
    }
    let mut full = Map::new().with("ret", ret);
    for key in ["retcode", "jid", "out"] {
        if let Some(value) = data.get(key) {
            full.insert(key, value.clone());
        }
    }
    (id, full.into())
}

impl Call {
    /// Returns the tag of an event of the call, or their common beginning.
    fn tag(&self, what: &str) -> String {
        let tag = match self.is_wheel {
            true => tag::wheel(&self.jid, what),
            false => tag::run(&self.jid, what),
        };
        tag.trim_end_matches('/').to_owned()
    }
}
