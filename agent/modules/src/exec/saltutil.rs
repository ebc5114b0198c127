//! The `saltutil` execution module: the functions that a machine without a master has a use for.

use std::path::Path;

use state::ask::Ask;
use state::exec::Exec;
use state::module::Error;
use state::targets::MinionReturn;
use value::glob::fnmatch;
use value::{Map, Value, log};

use crate::{fs, orchestrate};

state::exec_module! {
    /// Reading things again, copying custom modules, and calling runners.
    mod saltutil;

    /// Compile the pillar anew when it is next needed.
    fn refresh_pillar(RefreshPillar {
        /// Return only when the daemon and the master have the new pillar.
        wait: bool = false,
        /// How many seconds to wait for that.
        timeout: i64 = 30,
        /// Accepted: no pillar is kept between runs.
        clean_cache: bool = true,
    });

    /// The same as `saltutil.refresh_pillar`.
    fn pillar_refresh(PillarRefresh {
        /// As of `saltutil.refresh_pillar`.
        wait: bool = false,
        /// As of `saltutil.refresh_pillar`.
        timeout: i64 = 30,
        /// As of `saltutil.refresh_pillar`.
        clean_cache: bool = true,
    });

    /// Have the daemon read its beacons again.
    fn refresh_beacons(RefreshBeacons {});

    /// Collect the grains anew when they are next needed.
    fn refresh_grains(RefreshGrains {
        ..kwargs
    });

    /// Read the custom modules anew when they are next needed.
    fn refresh_modules(RefreshModules {
        ..kwargs
    });

    /// Return True: what a machine without a master has no use for is as fresh as it can be.
    fn refresh_matchers(RefreshMatchers {
        /// Accepted.
        wait: bool = false,
        /// Accepted.
        timeout: i64 = 30,
        ..kwargs
    });

    /// Return the custom modules that are synced, by kind.
    fn list_extmods(ListExtmods {});

    /// Call an execution function with the files of an environment.
    fn mmodule(Mmodule {
        /// The environment.
        saltenv: String,
        /// The function.
        fun: String,
        *rest,
        ..kwargs
    });

    /// Remove what is cached; the records of runs stay.
    fn clear_cache(ClearCache {});

    /// Call a runner on this machine.
    fn runner(Runner {
        /// Which.
        name: String,
        /// Its positional arguments.
        arg: Vec<Value> = Vec::new(),
        /// Its named arguments.
        kwarg: Map = Map::new(),
        /// Whether its return code goes along.
        full_return: bool = false,
        /// The environment that it works in.
        saltenv: String = "base".into(),
        /// Accepted.
        jid: Value = Value::Null,
        ..kwargs
    });

    /// Call an execution function on what a target names, and return what each minion returned.
    fn cmd(Cmd {
        /// Which minions.
        tgt: Value,
        /// The function.
        fun: String,
        /// Its positional arguments.
        arg: Vec<Value> = Vec::new(),
        /// Accepted.
        timeout: Value = Value::Null,
        /// How `tgt` is to be read.
        tgt_type: String = "glob".into(),
        /// Accepted.
        ret: Value = "".into(),
        /// Its named arguments.
        kwarg: Option<Map> = None,
        /// Accepted.
        ssh: bool = false,
        ..kwargs
    });

    /// The same as a list with an entry for each minion.
    fn cmd_iter(CmdIter {
        /// Which minions.
        tgt: Value,
        /// The function.
        fun: String,
        /// Its positional arguments.
        arg: Vec<Value> = Vec::new(),
        /// Accepted.
        timeout: Value = Value::Null,
        /// How `tgt` is to be read.
        tgt_type: String = "glob".into(),
        /// Accepted.
        ret: Value = "".into(),
        /// Its named arguments.
        kwarg: Option<Map> = None,
        /// Accepted.
        ssh: bool = false,
        ..kwargs
    });

    /// The jobs that run on this machine; without a daemon the runs of states are found by state.running.
    fn running(Running {});

    /// A job that runs on this machine, or an empty dictionary.
    fn find_job(FindJob {
        /// Its id.
        jid: Value,
    });

    /// The jobs of some functions that run on this machine.
    fn is_running(IsRunning {
        /// A glob of functions.
        fun: String,
    });

    /// Send a signal to a job.
    fn signal_job(SignalJob {
        /// Its id.
        jid: Value,
        /// The signal's number.
        sig: i64,
    });

    /// End a job: signal 15.
    fn term_job(TermJob {
        /// Its id.
        jid: Value,
    });

    /// End all jobs but this one: signal 15.
    fn term_all_jobs(TermAllJobs {});

    /// Kill a job: signal 9.
    fn kill_job(KillJob {
        /// Its id.
        jid: Value,
    });

    /// Kill all jobs but this one: signal 9.
    fn kill_all_jobs(KillAllJobs {});

    /// Call a wheel function on this machine.
    fn wheel(Wheel {
        /// Which.
        name: String,
        *rest,
        ..kwargs
    });
}

/// The jobs of the daemon, this one among them; none without a daemon.
fn jobs(cx: &Exec) -> Result<Vec<Value>, Error> {
    let jobs = cx.ask(Ask::Running)?;
    Ok(jobs
        .and_then(|jobs| jobs.as_list().map(<[Value]>::to_vec))
        .unwrap_or_default())
}

fn is_own(job: &Value) -> bool {
    job.get("pid").and_then(Value::as_int) == Some(i64::from(std::process::id()))
}

fn running(cx: &Exec, _args: Running) -> Result<Value, Error> {
    Ok(Value::list(
        jobs(cx)?.into_iter().filter(|job| !is_own(job)),
    ))
}

fn find_job(cx: &Exec, args: FindJob) -> Result<Value, Error> {
    let jid = args.jid.to_text();
    let found = cx.ask(Ask::FindJob { jid })?;
    let found = found.filter(Value::is_true);
    Ok(found.unwrap_or_else(|| Map::new().into()))
}

fn is_running(cx: &Exec, args: IsRunning) -> Result<Value, Error> {
    let is_one = |job: &Value| {
        let fun = job.get("fun").map(Value::to_text).unwrap_or_default();
        fnmatch(&args.fun, &fun) && !is_own(job)
    };
    Ok(Value::list(jobs(cx)?.into_iter().filter(is_one)))
}

fn signalled(cx: &Exec, jid: String, signal: u64) -> Result<Value, Error> {
    let sent = cx.ask(Ask::SignalJob { jid, signal })?;
    Ok(sent.unwrap_or_else(|| "".into()))
}

/// Sends a signal to all jobs but this one.
fn signalled_all(cx: &Exec, signal: u64) -> Result<Value, Error> {
    let mut said = Vec::new();
    for job in jobs(cx)?.iter().filter(|job| !is_own(job)) {
        let jid = job.get("jid").map(Value::to_text).unwrap_or_default();
        said.push(signalled(cx, jid, signal)?);
    }
    Ok(said.into())
}

const TERM: u64 = 15;
const KILL: u64 = 9;

fn signal_job(cx: &Exec, args: SignalJob) -> Result<Value, Error> {
    let signal = u64::try_from(args.sig)
        .ok()
        .filter(|signal| (1..=64).contains(signal));
    let signal = signal
        .ok_or_else(|| Error::argument("sig", "a signal has a number from 1 to 64".to_owned()))?;
    signalled(cx, args.jid.to_text(), signal)
}

fn term_job(cx: &Exec, args: TermJob) -> Result<Value, Error> {
    signalled(cx, args.jid.to_text(), TERM)
}

fn term_all_jobs(cx: &Exec, _args: TermAllJobs) -> Result<Value, Error> {
    signalled_all(cx, TERM)
}

fn kill_job(cx: &Exec, args: KillJob) -> Result<Value, Error> {
    signalled(cx, args.jid.to_text(), KILL)
}

fn kill_all_jobs(cx: &Exec, _args: KillAllJobs) -> Result<Value, Error> {
    signalled_all(cx, KILL)
}

fn refresh_pillar(cx: &Exec, args: RefreshPillar) -> Result<Value, Error> {
    let what = "pillar";
    // That many seconds are no loss of precision: nobody waits for as long.
    let wait_s = args.wait.then_some(args.timeout as f64);
    cx.ask(Ask::Refresh { what, wait_s })?;
    cx.refresh_pillar();
    Ok(true.into())
}

fn pillar_refresh(cx: &Exec, args: PillarRefresh) -> Result<Value, Error> {
    let PillarRefresh {
        wait,
        timeout,
        clean_cache,
    } = args;
    let same = RefreshPillar {
        wait,
        timeout,
        clean_cache,
    };
    refresh_pillar(cx, same)
}

fn refresh_beacons(cx: &Exec, _args: RefreshBeacons) -> Result<Value, Error> {
    cx.ask(Ask::Refresh {
        what: "beacons",
        wait_s: None,
    })?;
    Ok(true.into())
}

fn mmodule(cx: &Exec, args: Mmodule) -> Result<Value, Error> {
    let mut cx = cx.apart();
    cx.saltenv = args.saltenv;
    cx.call(&args.fun, args.rest, own(args.kwargs))
}

fn refresh_grains(cx: &Exec, args: RefreshGrains) -> Result<Value, Error> {
    cx.ask(Ask::Refresh {
        what: "grains",
        wait_s: None,
    })?;
    cx.refresh_grains();
    if args.kwargs.get("refresh_pillar").is_none_or(Value::is_true) {
        cx.refresh_pillar();
    }
    Ok(true.into())
}

fn refresh_modules(cx: &Exec, _args: RefreshModules) -> Result<Value, Error> {
    cx.shared.custom.refresh();
    Ok(true.into())
}

fn refresh_matchers(_cx: &Exec, _args: RefreshMatchers) -> Result<Value, Error> {
    Ok(true.into())
}

fn list_extmods(cx: &Exec, _args: ListExtmods) -> Result<Value, Error> {
    let folder = cx.opts().path("extension_modules");
    let kinds = fs::list(&folder)?.into_iter().map(|kind| {
        let mut names = Vec::new();
        walk(&kind.path(), &mut |file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            names.push(name.split('.').next().unwrap_or_default().to_owned());
            Ok(())
        })?;
        names.sort();
        names.dedup();
        let kind = kind.file_name().to_string_lossy().into_owned();
        Ok((kind, Value::from(names)))
    });
    kinds.collect::<Result<Map, Error>>().map(Value::from)
}

fn clear_cache(cx: &Exec, _args: ClearCache) -> Result<Value, Error> {
    let records = state::record::folder(cx.opts());
    let cleared = walk(&cx.opts().cachedir(), &mut |file| {
        if file.starts_with(&records) {
            return Ok(());
        }
        fs::remove(cx, file).map_err(Error::io(file))
    });
    cx.shared.custom.refresh();
    if let Err(error) = &cleared {
        log::error(format_args!(
            "Attempt to clear cache with saltutil.clear_cache FAILED with: {error}"
        ));
    }
    Ok(cleared.is_ok().into())
}

/// Does something for each file below a folder; links are not followed.
fn walk(folder: &Path, each: &mut dyn FnMut(&Path) -> Result<(), Error>) -> Result<(), Error> {
    for entry in fs::list_or_none(folder)?.unwrap_or_default() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            walk(&path, each)?;
        } else {
            each(&path)?;
        }
    }
    Ok(())
}

/// What Salt adds to a call goes no further.
fn own(mut kwargs: Map) -> Map {
    kwargs.retain(|key, _| !key.as_str().is_some_and(|key| key.starts_with("__")));
    kwargs
}

fn runner(cx: &Exec, args: Runner) -> Result<Value, Error> {
    let mut kwargs = args.kwarg;
    kwargs.update(own(args.kwargs));
    let mut cx = cx.apart();
    cx.saltenv = args.saltenv;
    let called = orchestrate::runner(&cx, &args.name, args.arg, kwargs);
    match called {
        called if args.full_return => Ok(called.data.into()),
        called if called.raised => Err(Error::refused(called.ret.to_text())),
        called => Ok(called.ret),
    }
}

fn wheel(cx: &Exec, args: Wheel) -> Result<Value, Error> {
    let called = orchestrate::wheel(cx, &args.name, args.rest, own(args.kwargs));
    Ok(called.data.into())
}

/// What each minion returned: here that is this one, where the target names it.
fn returns(cx: &Exec, args: Cmd) -> Result<Vec<(String, Value)>, Error> {
    let ids = orchestrate::targeted(cx, &args.tgt, &args.tgt_type, "function")?;
    let kwarg = args.kwarg.unwrap_or_default();
    let is_run = args.fun.starts_with("state.");
    let targets = &cx.shared.targets;
    let returns = targets.run(cx, &ids, &args.fun, args.arg, kwarg)?;
    let shown = |minion: MinionReturn| {
        let mut data = Map::new()
            .with("ret", minion.ret)
            .with("retcode", minion.retcode)
            .with("jid", minion.jid);
        if is_run {
            data.insert("out", "highstate");
        }
        (minion.id, data.into())
    };
    Ok(returns.into_iter().map(shown).collect())
}

fn cmd(cx: &Exec, args: Cmd) -> Result<Value, Error> {
    Ok(returns(cx, args)?.into_iter().collect())
}

fn cmd_iter(cx: &Exec, args: CmdIter) -> Result<Value, Error> {
    let CmdIter {
        tgt,
        fun,
        arg,
        timeout,
        tgt_type,
        ret,
        kwarg,
        ssh,
        kwargs,
    } = args;
    let args = Cmd {
        tgt,
        fun,
        arg,
        timeout,
        tgt_type,
        ret,
        kwarg,
        ssh,
        kwargs,
    };
    let one = |(id, data): (String, Value)| Map::new().with(&id, data).into();
    Ok(Value::list(returns(cx, args)?.into_iter().map(one)))
}
