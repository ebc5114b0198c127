//! The `jobs` execution module and runner: the run records of this machine. In Salt it is only a
//! runner, which needs a master.

use state::exec::Exec;
use state::module::Error;
use state::record::{self, Recorded};
use state::{lock, opts::Opts};
use value::glob::fnmatch;
use value::{Map, Value, jid, log};

state::exec_module! {
    /// Show the state runs of this machine, from their records.
    mod jobs;

    /// List every run that has a record.
    ///
    ///     salt-call jobs.list_jobs
    fn list_jobs(ListJobs {
        /// The job cache. Accepted for compatibility with Salt.
        ext_source: Value = Value::Null,
        /// The outputter. Accepted for compatibility with Salt.
        outputter: Value = Value::Null,
        /// The metadata to search. Accepted for compatibility with Salt: records contain no
        /// metadata.
        search_metadata: Value = Value::Null,
        /// A glob that the function must match.
        search_function: Option<Value> = None,
        /// A glob that the target must match.
        search_target: Option<Value> = None,
        /// The earliest start time, as a job id or its beginning.
        start_time: Option<String> = None,
        /// The latest start time, as a job id or its beginning.
        end_time: Option<String> = None,
        /// Accepted for compatibility with Salt.
        display_progress: bool = false,
    });

    /// Show the return of a run.
    ///
    ///     salt-call jobs.lookup_jid 20260102030405678901
    fn lookup_jid(LookupJid {
        /// The job id of the run.
        jid: Value,
        /// The job cache. Accepted for compatibility with Salt.
        ext_source: Value = Value::Null,
        /// Include the return.
        returned: bool = true,
        /// Include a message for a run that did not finish.
        missing: bool = false,
        /// Accepted for compatibility with Salt.
        display_progress: bool = false,
    });

    /// Show all data about a run.
    ///
    ///     salt-call jobs.list_job 20260102030405678901
    fn list_job(ListJob {
        /// The job id of the run.
        jid: Value,
        /// The job cache. Accepted for compatibility with Salt.
        ext_source: Value = Value::Null,
        /// Accepted for compatibility with Salt.
        display_progress: bool = false,
    });

    /// Show all data about one or several runs.
    ///
    ///     salt-call jobs.print_job 20260102030405678901
    fn print_job(PrintJob {
        /// The job id of the run, or a list of job ids.
        jid: Value,
        /// The job cache. Accepted for compatibility with Salt.
        ext_source: Value = Value::Null,
    });

    /// Return whether a run succeeded.
    ///
    ///     salt-call jobs.exit_success 20260102030405678901
    fn exit_success(ExitSuccess {
        /// The job id of the run.
        jid: Value,
        /// The job cache. Accepted for compatibility with Salt.
        ext_source: Value = Value::Null,
    });

    /// Show the last run.
    ///
    ///     salt-call jobs.last_run
    fn last_run(LastRun {
        /// The job cache. Accepted for compatibility with Salt.
        ext_source: Value = Value::Null,
        /// The outputter. Accepted for compatibility with Salt.
        outputter: Value = Value::Null,
        /// The metadata. Accepted for compatibility with Salt.
        metadata: Value = Value::Null,
        /// A glob that the function must match.
        function: Option<Value> = None,
        /// A glob that the target must match.
        target: Option<Value> = None,
        /// Accepted for compatibility with Salt.
        display_progress: bool = false,
    });

    /// Show the run that is under way.
    ///
    ///     salt-call jobs.active
    fn active(Active {
        /// Accepted for compatibility with Salt.
        display_progress: bool = false,
    });
}

fn recorded(opts: &Opts, jid: &str) -> Option<Recorded> {
    if !jid::is_jid(jid) {
        return None;
    }
    match record::read(&record::folder(opts).join(jid)) {
        Ok(recorded) => Some(recorded),
        Err(error) => {
            log::debug(error);
            None
        }
    }
}

/// Returns a run in the format of `jobs.list_jobs`.
fn instance(cx: &Exec, jid: &str, recorded: &Recorded) -> Map {
    let start = |key: &str| recorded.start.get(key).cloned().unwrap_or_default();
    Map::new()
        .with("Function", start("fun"))
        .with("Arguments", Value::list([start("args")]))
        .with("Target", cx.opts().id())
        .with("Target-type", "glob")
        .with("User", "root")
        .with("StartTime", jid::to_time(jid))
}

fn list_jobs(cx: &Exec, args: ListJobs) -> Result<Value, Error> {
    let mut jobs = Map::new();
    for jid in record::jids(cx.opts()) {
        let before = args
            .start_time
            .as_deref()
            .is_some_and(|start| jid.as_str() < start);
        let after = args
            .end_time
            .as_deref()
            .is_some_and(|end| jid.as_str() > end && !jid.starts_with(end));
        if before || after {
            continue;
        }
        if let Some(recorded) = recorded(cx.opts(), &jid) {
            let shown = instance(cx, &jid, &recorded);
            if searched(&shown, "Function", args.search_function.as_ref())
                && searched(&shown, "Target", args.search_target.as_ref())
            {
                jobs.insert(jid, shown);
            }
        }
    }
    Ok(jobs.into())
}

fn searched(shown: &Map, key: &str, globs: Option<&Value>) -> bool {
    let text = shown.get(key).map(Value::to_text).unwrap_or_default();
    globs.is_none_or(|globs| globs.split_input().iter().any(|glob| fnmatch(glob, &text)))
}

fn not_found(jid: &str) -> Error {
    Error::refused(format!(
        "There is no record of a run with jid {jid}; jobs.list_jobs lists the recorded runs"
    ))
}

fn lookup_jid(cx: &Exec, args: LookupJid) -> Result<Value, Error> {
    let jid = args.jid.to_text();
    let recorded = recorded(cx.opts(), &jid).ok_or_else(|| not_found(&jid))?;
    let mut data = Map::new();
    if args.returned {
        data.insert(cx.opts().id(), recorded.returns.clone());
    }
    if args.missing && recorded.end.is_none() {
        data.insert(cx.opts().id(), "Minion did not return");
    }
    Ok(Map::new()
        .with("outputter", "highstate")
        .with("data", data)
        .into())
}

fn list_job(cx: &Exec, args: ListJob) -> Result<Value, Error> {
    job(cx, &args.jid.to_text()).map(Value::Map)
}

fn job(cx: &Exec, jid: &str) -> Result<Map, Error> {
    let recorded = recorded(cx.opts(), jid).ok_or_else(|| not_found(jid))?;
    let mut shown = Map::new().with("jid", jid);
    shown.update(instance(cx, jid, &recorded));
    let retcode = recorded
        .end
        .as_ref()
        .and_then(|end| end.get("retcode").cloned());
    let result = Map::new()
        .with("return", recorded.returns)
        .with("retcode", retcode.clone())
        .with("success", retcode == Some(Value::Int(0)))
        .with("out", "highstate");
    Ok(shown
        .with("Minions", vec![cx.opts().id()])
        .with("Result", Map::new().with(cx.opts().id(), result)))
}

fn print_job(cx: &Exec, args: PrintJob) -> Result<Value, Error> {
    let jids = match args.jid.as_list() {
        Some(jids) => jids.iter().map(Value::to_text).collect(),
        None => vec![args.jid.to_text()],
    };
    let mut shown = Map::new();
    for jid in jids {
        let mut job = job(cx, &jid)?;
        job.remove("jid");
        shown.insert(jid, job);
    }
    Ok(shown.into())
}

fn exit_success(cx: &Exec, args: ExitSuccess) -> Result<Value, Error> {
    let jid = args.jid.to_text();
    let recorded = recorded(cx.opts(), &jid).ok_or_else(|| not_found(&jid))?;
    // The result of a run without an end is unknown, which does not count as success.
    let good = recorded
        .end
        .is_some_and(|end| end.get("retcode") == Some(&Value::Int(0)));
    Ok(Map::new().with(cx.opts().id(), good).into())
}

fn last_run(cx: &Exec, args: LastRun) -> Result<Value, Error> {
    for jid in record::jids(cx.opts()).into_iter().rev() {
        let job = job(cx, &jid)?;
        if searched(&job, "Function", args.function.as_ref())
            && searched(&job, "Target", args.target.as_ref())
        {
            return print_job(
                cx,
                PrintJob {
                    jid: jid.into(),
                    ext_source: Value::Null,
                },
            );
        }
    }
    Ok(false.into())
}

fn active(cx: &Exec, _args: Active) -> Result<Value, Error> {
    let Some(holder) = lock::holder(cx.opts())? else {
        return Ok(Map::new().into());
    };
    let running = Map::new().with(cx.opts().id(), holder.pid);
    let shown = Map::new()
        .with("Function", holder.fun.as_str())
        .with("StartTime", jid::to_time(&holder.jid))
        .with("Running", Value::list([running.into()]))
        .with("Returned", Value::list([]));
    Ok(Map::new().with(&holder.jid, shown).into())
}
