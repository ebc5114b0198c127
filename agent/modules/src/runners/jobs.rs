//! The `jobs` runner on the run records of this machine.

use state::exec::Exec;
use state::module::Error;
use state::record::{self, Recorded};
use state::{lock, opts::Opts};
use value::glob::fnmatch;
use value::{Map, Value, jid, log};

state::exec_module! {
    /// The state runs of this machine, from their records.
    mod jobs;

    /// Every run that has a record.
    fn list_jobs(ListJobs {
        /// Accepted for Salt's sake.
        ext_source: Value = Value::Null,
        /// Accepted for Salt's sake.
        outputter: Value = Value::Null,
        /// Accepted for Salt's sake: records hold no metadata.
        search_metadata: Value = Value::Null,
        /// Only functions that match this glob.
        search_function: Option<Value> = None,
        /// Only runs whose target matches this glob.
        search_target: Option<Value> = None,
        /// Only runs from this time on, as a job id or its beginning.
        start_time: Option<String> = None,
        /// Only runs up to this time, as a job id or its beginning.
        end_time: Option<String> = None,
        /// Accepted for Salt's sake.
        display_progress: bool = false,
    });

    /// What a run returned.
    fn lookup_jid(LookupJid {
        /// Its job id.
        jid: Value,
        /// Accepted for Salt's sake.
        ext_source: Value = Value::Null,
        /// With what was returned.
        returned: bool = true,
        /// With a sentence for a run that did not finish.
        missing: bool = false,
        /// Accepted for Salt's sake.
        display_progress: bool = false,
    });

    /// A run with all that is known of it.
    fn list_job(ListJob {
        /// Its job id.
        jid: Value,
        /// Accepted for Salt's sake.
        ext_source: Value = Value::Null,
        /// Accepted for Salt's sake.
        display_progress: bool = false,
    });

    /// The same for one run or several.
    fn print_job(PrintJob {
        /// Its job id.
        jid: Value,
        /// Accepted for Salt's sake.
        ext_source: Value = Value::Null,
    });

    /// Whether a run succeeded.
    fn exit_success(ExitSuccess {
        /// Its job id.
        jid: Value,
        /// Accepted for Salt's sake.
        ext_source: Value = Value::Null,
    });

    /// The last run.
    fn last_run(LastRun {
        /// Accepted for Salt's sake.
        ext_source: Value = Value::Null,
        /// Accepted for Salt's sake.
        outputter: Value = Value::Null,
        /// Accepted for Salt's sake.
        metadata: Value = Value::Null,
        /// Only a function that matches this glob.
        function: Option<Value> = None,
        /// Only a target that matches this glob.
        target: Option<Value> = None,
        /// Accepted for Salt's sake.
        display_progress: bool = false,
    });

    /// The run that is under way.
    fn active(Active {
        /// Accepted for Salt's sake.
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

/// A run as `jobs.list_jobs` shows it.
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
    globs.is_none_or(|globs| {
        crate::state_run::split_input(globs)
            .iter()
            .any(|glob| fnmatch(glob, &text))
    })
}

fn not_found(jid: &str) -> Error {
    Error::refused(format!(
        "There is no record of a run with jid {jid}; jobs.list_jobs tells which there are"
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
    // A run without an end is unknown, and unknown is no success.
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
