//! Reads the publications of the master, and turns those that match this minion into requests to the
//! daemon.

use std::sync::Arc;
use std::time::Duration;

use link::wait::pause;
use saltlink::Publication;
use smol::lock::Semaphore;
use value::{Map, Value, channel, log};
use wire::{Frame, Job, PEER, Request, Way};

use super::super::connection::{Answerer, Incoming};
use super::daemon_functions::DaemonFunction;
use super::facts::Target;
use super::{Error, Inner, answers, check};

/// The maximum number of publications that are matched, or wait for the daemon, at a time. Above it
/// no publication is read.
const AT_ONCE: usize = 256;
/// The interval at which a job is offered again to a daemon that runs as many jobs as
/// `process_count_max` allows, and the number of such offers.
const AGAIN: Duration = Duration::from_secs(1);
const OFFERS: u32 = 3600;
/// The fields of a publication that become options of the job.
const OPTIONS: [&str; 7] = [
    "metadata",
    "ret_config",
    "ret_kwargs",
    "module_executors",
    "executor_opts",
    "delimiter",
    "master_id",
];

/// Reads publications until the connection is lost. Without `serves` they are ignored.
pub(super) async fn read(inner: Arc<Inner>, serves: bool) {
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        // No deadline: `saltlink` notices a silent master, and a publication may come at any time.
        let publication = match inner.session.next_publication().await {
            Ok(publication) if serves => publication,
            Ok(_) => continue,
            Err(error) => return inner.lost(Error::Lost(error.to_string())),
        };
        // No deadline: each publication before it has limits.
        let turn = turns.acquire_arc().await;
        let inner = inner.clone();
        smol::spawn(async move {
            take(&inner, publication).await;
            drop(turn);
        })
        .detach();
    }
}

async fn take(inner: &Inner, publication: Publication) {
    let jid = &publication.jid;
    let delimiter = publication.load.get("delimiter").and_then(Value::as_str);
    let target = Target {
        tgt: &publication.tgt,
        kind: &publication.tgt_type,
        delimiter: delimiter.unwrap_or(":"),
    };
    match inner.facts.matches(&inner.id, target).await {
        Ok(true) => {}
        Ok(false) => return log::debug(format_args!("job {jid} is for other minions")),
        Err(problem) => {
            return log::warning(format_args!(
                "ignoring job {jid}, because its target cannot be compared: {problem}"
            ));
        }
    }
    match DaemonFunction::parse(&publication) {
        Some(function) => answer(inner, &publication, function).await,
        None => run(inner, publication).await,
    }
}

/// Answers a function that needs no process.
async fn answer(inner: &Inner, publication: &Publication, function: DaemonFunction) {
    let request = function.request();
    let answered = match asked(inner, request).await {
        Ok(answer) => Ok(function.answer(answer)),
        Err((_, text)) => Err(text),
    };
    give_back(inner, publication, answered).await;
}

/// Passes a request to the daemon, and waits for the answer.
async fn asked(inner: &Inner, request: Request) -> answers::Answer {
    let frame = Frame::from(request);
    if let Err(error) = check(&frame, Way::MasterToMinion) {
        return Err(("refused".to_owned(), error.to_string()));
    }
    let Frame::Request(request) = frame else {
        return Err(("invalid".to_owned(), "not a request".to_owned()));
    };
    let (answerer, awaited) = answers::pair();
    let incoming = Incoming::Request(Box::new(request), Answerer::Salt(answerer));
    // No deadline: the daemon reads the messages, or drops the connection.
    channel::if_open(inner.incoming.send(incoming).await);
    awaited.wait().await
}

/// Passes a job to the daemon. The job's return comes through the spool; a job that cannot be started
/// is returned here.
async fn run(inner: &Inner, publication: Publication) {
    let job = job(&publication);
    if publication
        .load
        .get("start_event")
        .is_some_and(Value::is_true)
    {
        announce(inner, &job).await;
    }
    let mut offers = 0;
    let refused = loop {
        match asked(inner, job.clone().into()).await {
            Ok(_) => return,
            Err((reason, _)) if reason == "busy" && offers < OFFERS => {
                if offers == 0 {
                    let jid = &publication.jid;
                    log::info(format_args!(
                        "Job {jid} waits for others (process_count_max)"
                    ));
                }
                offers += 1;
                pause(AGAIN).await;
            }
            Err((_, text)) => break text,
        }
    };
    give_back(inner, &publication, Err(refused)).await;
}

/// Returns the job of a publication.
fn job(publication: &Publication) -> Job {
    let names = publication.fun.iter().map(|fun| fun.as_str().into());
    let (fun, arg) = match publication.is_multiple {
        true => {
            let args = publication.arg.iter().map(|args| args.clone().into());
            (Value::list(names), args.collect())
        }
        false => {
            let fun = publication.fun.first().map_or("", String::as_str);
            let args = publication.arg.first().cloned().unwrap_or_default();
            (fun.into(), args)
        }
    };
    let mut options = Map::new();
    for name in OPTIONS {
        if let Some(value) = publication.load.get(name) {
            options.insert(name, value.clone());
        }
    }
    if let Some(peer) = publication.load.get("id") {
        options.insert(PEER, peer.clone());
    }
    Job {
        jid: publication.jid.clone(),
        fun,
        arg,
        tgt: publication.tgt.clone(),
        tgt_type: publication.tgt_type.clone(),
        ret: publication.ret.clone(),
        user: publication.user.clone(),
        options,
    }
}

/// Sends the event that `salt --start-event` asks for.
async fn announce(inner: &Inner, job: &Job) {
    let mut data = Map::new()
        .with("id", inner.id.as_str())
        .with("jid", job.jid.as_str())
        .with("fun", job.fun.clone())
        .with("tgt", job.tgt.clone())
        .with("tgt_type", job.tgt_type.as_str())
        .with("user", job.user.as_str());
    add_origin(&mut data, &job.options);
    let load = Map::new()
        .with("tag", format!("salt/job/{}/start/{}", job.jid, inner.id))
        .with("data", data)
        .with("pretag", Value::Null);
    if let Err(error) = inner.session.request("_minion_event", load).await {
        log::warning(format_args!(
            "cannot send the start event of job {}: {error}",
            job.jid
        ));
    }
}

/// Adds the options of a job that come back with its event and its return.
fn add_origin(data: &mut Map, options: &Map) {
    for name in ["master_id", "metadata"] {
        if let Some(value) = options.get(name) {
            data.insert(name, value.clone());
        }
    }
}

/// Sends the return of a job that has no process.
async fn give_back(inner: &Inner, publication: &Publication, answer: Result<Value, String>) {
    let job = job(publication);
    let (ret, success) = match answer {
        Ok(ret) => (ret, true),
        Err(text) => (format!("ERROR: {text}").into(), false),
    };
    let mut load = Map::new()
        .with("jid", job.jid.as_str())
        .with("fun", job.fun)
        .with("fun_args", job.arg)
        .with("user", job.user.as_str())
        .with("return", ret)
        .with("retcode", i64::from(!success))
        .with("success", success);
    add_origin(&mut load, &job.options);
    if let Err(error) = inner.session.request("_return", load).await {
        let jid = &publication.jid;
        log::warning(format_args!("cannot send the return of job {jid}: {error}"));
    }
}
