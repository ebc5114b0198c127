//! The `saltutil` execution module: the functions that are useful on a machine without a master.

use std::path::Path;

use machine::fs;
use state::ask::Ask;
use state::exec::Exec;
use state::module::Error;
use state::targets::MinionReturn;
use value::glob::fnmatch;
use value::{Map, Value, log};

use crate::state_run::orchestrate;

state::exec_module! {
    /// Refresh data, sync custom modules, and call runners.
    mod saltutil;

    /// Compile the pillar again when it is next needed.
    ///
    ///     salt-call saltutil.refresh_pillar
    fn refresh_pillar(RefreshPillar {
        #[group] pillar: Refresh,
    });

    /// The same as `saltutil.refresh_pillar`.
    ///
    ///     salt-call saltutil.pillar_refresh
    fn pillar_refresh(PillarRefresh {
        #[group] pillar: Refresh,
    });

    /// Make the daemon read its beacons again.
    ///
    ///     salt-call saltutil.refresh_beacons
    fn refresh_beacons(RefreshBeacons {});

    /// Collect the grains again when they are next needed.
    ///
    ///     salt-call saltutil.refresh_grains
    fn refresh_grains(RefreshGrains {
        ..kwargs
    });

    /// Load the custom modules again when they are next needed.
    ///
    ///     salt-call saltutil.refresh_modules
    fn refresh_modules(RefreshModules {
        ..kwargs
    });

    /// Return True. There is nothing to refresh.
    ///
    ///     salt-call saltutil.refresh_matchers
    fn refresh_matchers(RefreshMatchers {});

    /// Return the custom modules that are synced, for each kind.
    ///
    ///     salt-call saltutil.list_extmods
    fn list_extmods(ListExtmods {});

    /// Call an execution function with the files of an environment.
    ///
    ///     salt-call saltutil.mmodule base test.ping
    fn mmodule(Mmodule {
        /// The environment of the files.
        saltenv: String,
        /// The name of the function.
        fun: String,
        *rest,
        ..kwargs
    });

    /// Clear the cache of the minion. The records of runs stay.
    ///
    ///     salt-call saltutil.clear_cache
    fn clear_cache(ClearCache {});

    /// Call a runner on this machine.
    ///
    ///     salt-call saltutil.runner jobs.list_jobs
    fn runner(Runner {
        /// The name of the runner function.
        name: String,
        /// The positional arguments of the function.
        arg: Option<Vec<Value>> = None,
        /// The keyword arguments of the function.
        kwarg: Option<Map> = None,
        /// True to return the return code too.
        full_return: bool = false,
        /// The environment that the runner uses.
        saltenv: String = "base".into(),
        /// Accepted and ignored.
        jid: Value = Value::Null,
        ..kwargs
    });

    /// Call an execution function on the minions that match a target, and return their results by
    /// minion ID.
    ///
    ///     salt-call saltutil.cmd 'web*' test.ping
    fn cmd(Cmd {
        #[group] command: Command,
        ..kwargs
    });

    /// The same as `saltutil.cmd`, but return a list with one entry for each minion.
    ///
    ///     salt-call saltutil.cmd_iter 'web*' test.ping
    fn cmd_iter(CmdIter {
        #[group] command: Command,
        ..kwargs
    });

    /// Return the jobs that run on this machine. Without a daemon use `state.running` to find runs
    /// of states.
    ///
    ///     salt-call saltutil.running
    fn running(Running {});

    /// Return a job that runs on this machine, or an empty dictionary.
    ///
    ///     salt-call saltutil.find_job 20260102030405678901
    fn find_job(FindJob {
        /// The ID of the job.
        jid: Value,
    });

    /// Return the jobs on this machine that run certain functions.
    ///
    ///     salt-call saltutil.is_running state.apply
    fn is_running(IsRunning {
        /// A glob that matches the names of the functions.
        fun: String,
    });

    /// Send a signal to a job.
    ///
    ///     salt-call saltutil.signal_job 20260102030405678901 15
    fn signal_job(SignalJob {
        /// The ID of the job.
        jid: Value,
        /// The number of the signal.
        sig: i64,
    });

    /// Send signal 15 (SIGTERM) to a job.
    ///
    ///     salt-call saltutil.term_job 20260102030405678901
    fn term_job(TermJob {
        /// The ID of the job.
        jid: Value,
    });

    /// Send signal 15 (SIGTERM) to all jobs except this one.
    ///
    ///     salt-call saltutil.term_all_jobs
    fn term_all_jobs(TermAllJobs {});

    /// Send signal 9 (SIGKILL) to a job.
    ///
    ///     salt-call saltutil.kill_job 20260102030405678901
    fn kill_job(KillJob {
        /// The ID of the job.
        jid: Value,
    });

    /// Send signal 9 (SIGKILL) to all jobs except this one.
    ///
    ///     salt-call saltutil.kill_all_jobs
    fn kill_all_jobs(KillAllJobs {});

    /// Call a wheel function on this machine.
    ///
    ///     salt-call saltutil.wheel key.list_all
    fn wheel(Wheel {
        /// The name of the wheel function.
        name: String,
        *rest,
        ..kwargs
    });
}

state::argument_group! {
    /// The time to wait for a new pillar.
    pub(crate) struct Refresh {
        /// True to return only after the daemon and the master have the new pillar.
        wait: bool = false,
        /// The maximum time to wait for that, in seconds.
        timeout: i64 = 30,
        /// Accepted and ignored: no pillar is kept between runs.
        clean_cache: bool = true,
    }
}

state::argument_group! {
    /// The function to call on other minions.
    pub(crate) struct Command {
        /// The target expression that selects minions.
        tgt: Value,
        /// The name of the function.
        fun: String,
        /// The positional arguments of the function.
        arg: Vec<Value> = Vec::new(),
        /// Accepted and ignored.
        timeout: Value = Value::Null,
        /// The type of the target expression.
        tgt_type: String = "glob".into(),
        /// Accepted and ignored.
        ret: Value = "".into(),
        /// The keyword arguments of the function.
        kwarg: Option<Map> = None,
        /// Accepted and ignored.
        ssh: bool = false,
    }
}

/// Returns the jobs of the daemon, including this one. There are none without a daemon.
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

/// Sends a signal to all jobs except this one.
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
    let signal = signal.ok_or_else(|| {
        Error::argument("sig", "expected a signal number from 1 to 64".to_owned())
    })?;
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

impl Refresh {
    fn run(&self, cx: &Exec) -> Result<Value, Error> {
        let what = "pillar";
        // The conversion loses no precision for any realistic number of seconds.
        let wait_s = self.wait.then_some(self.timeout as f64);
        cx.ask(Ask::Refresh { what, wait_s })?;
        cx.refresh_pillar();
        Ok(true.into())
    }
}

fn refresh_pillar(cx: &Exec, args: RefreshPillar) -> Result<Value, Error> {
    args.pillar.run(cx)
}

fn pillar_refresh(cx: &Exec, args: PillarRefresh) -> Result<Value, Error> {
    args.pillar.run(cx)
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

/// Calls `each` for every file below a folder. Links are not followed.
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

/// Removes the keywords that Salt adds to a call, so that they are not passed on.
fn own(mut kwargs: Map) -> Map {
    kwargs.retain(|key, _| !key.as_str().is_some_and(|key| key.starts_with("__")));
    kwargs
}

fn runner(cx: &Exec, args: Runner) -> Result<Value, Error> {
    let mut kwargs = args.kwarg.unwrap_or_default();
    kwargs.update(own(args.kwargs));
    let mut cx = cx.apart();
    cx.saltenv = args.saltenv;
    let words = args.arg.unwrap_or_default();
    let called = orchestrate::runner(&cx, &args.name, words, kwargs);
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

/// Returns the results of the targeted minions, with their IDs.
fn returns(cx: &Exec, command: Command) -> Result<Vec<(String, Value)>, Error> {
    let ids = orchestrate::targeted(cx, &command.tgt, &command.tgt_type, "function")?;
    let kwarg = command.kwarg.unwrap_or_default();
    let is_run = command.fun.starts_with("state.");
    let targets = &cx.shared.targets;
    let returns = targets.run(cx, &ids, &command.fun, command.arg, kwarg)?;
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
    Ok(returns(cx, args.command)?.into_iter().collect())
}

fn cmd_iter(cx: &Exec, args: CmdIter) -> Result<Value, Error> {
    let one = |(id, data): (String, Value)| Map::new().with(&id, data).into();
    let returns = returns(cx, args.command)?;
    Ok(Value::list(returns.into_iter().map(one)))
}
