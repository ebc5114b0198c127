//! The `jobs` runner: reads the jobs in the master's store.

use state::exec::Exec;
use state::module::Error;
use value::glob::fnmatch;
use value::{Map, Value, jid};

use super::period::Period;
use super::{runs, unreadable};
use crate::store::{Job, Store};

state::exec_module! {
    /// The jobs of the minions, and their returns.
    mod jobs;

    /// Return the jobs that are running.
    ///
    ///     salt-run jobs.active
    fn active(Active {
        /// Accepted for compatibility with Salt.
        display_progress: bool = false,
    });

    /// Return the returns of a job.
    ///
    ///     salt-run jobs.lookup_jid 20260102030405678901
    fn lookup_jid(LookupJid {
        /// The job's id.
        jid: Value,
        /// Accepted for compatibility with Salt: there is only one store.
        ext_source: Value = Value::Null,
        /// Include the minions that have returned.
        returned: bool = true,
        /// Include a message for each minion that has not returned.
        missing: bool = false,
        /// Accepted for compatibility with Salt.
        display_progress: bool = false,
    });

    /// Return a job with all known data.
    ///
    ///     salt-run jobs.list_job 20260102030405678901
    fn list_job(ListJob {
        /// The job's id.
        jid: Value,
        /// Accepted for compatibility with Salt: there is only one store.
        ext_source: Value = Value::Null,
        /// Accepted for compatibility with Salt.
        display_progress: bool = false,
    });

    /// Return all jobs, or those that match.
    ///
    ///     salt-run jobs.list_jobs
    fn list_jobs(ListJobs {
        /// Accepted for compatibility with Salt: there is only one store.
        ext_source: Value = Value::Null,
        /// The outputter for the result.
        outputter: Option<String> = None,
        /// Only jobs with one of these entries in their metadata.
        search_metadata: Option<Map> = None,
        /// Only functions that match one of these globs.
        search_function: Option<Value> = None,
        /// Only targets that match one of these globs.
        search_target: Option<Value> = None,
        /// Only jobs from this time on: the digits of year, month, day, hour, minute and second,
        /// with or without separators.
        start_time: Option<Value> = None,
        /// Only jobs up to this time.
        end_time: Option<Value> = None,
        /// Accepted for compatibility with Salt.
        display_progress: bool = false,
        /// Only jobs from this time on: `2h`, `30m` or `7d` before now, `today`, `yesterday`,
        /// `2026-11-23` or `2026-11-23 10:30`, in UTC.
        since: Option<Value> = None,
        /// Only jobs up to this time, in the same forms. A date includes its whole day.
        until: Option<Value> = None,
    });

    /// Return the last jobs.
    ///
    ///     salt-run jobs.list_jobs_filter 10
    fn list_jobs_filter(ListJobsFilter {
        /// The number of jobs.
        count: i64,
        /// Leave out the jobs of `saltutil.find_job`.
        filter_find_job: bool = true,
        /// Accepted for compatibility with Salt: there is only one store.
        ext_source: Value = Value::Null,
        /// The outputter for the result.
        outputter: Option<String> = None,
        /// Accepted for compatibility with Salt.
        display_progress: bool = false,
    });

    /// Return one or several jobs, with all known data, by their ids.
    ///
    ///     salt-run jobs.print_job 20260102030405678901
    fn print_job(PrintJob {
        /// The job's id.
        jid: Value,
        /// Accepted for compatibility with Salt: there is only one store.
        ext_source: Value = Value::Null,
    });

    /// Return for each minion of a job whether its return is true.
    ///
    ///     salt-run jobs.exit_success 20260102030405678901
    fn exit_success(ExitSuccess {
        /// The job's id.
        jid: Value,
        /// Accepted for compatibility with Salt: there is only one store.
        ext_source: Value = Value::Null,
    });

    /// Return the last job, or the last one that matches.
    ///
    ///     salt-run jobs.last_run
    fn last_run(LastRun {
        /// Accepted for compatibility with Salt: there is only one store.
        ext_source: Value = Value::Null,
        /// Accepted for compatibility with Salt.
        outputter: Value = Value::Null,
        /// Only a job with one of these entries in its metadata.
        metadata: Option<Map> = None,
        /// Only a function that matches.
        function: Option<Value> = None,
        /// Only a target that matches.
        target: Option<Value> = None,
        /// Accepted for compatibility with Salt.
        display_progress: bool = false,
    });
}

/// Returns a job in the form of Salt's job lists.
fn instance(job: &Job) -> Map {
    let load = |key: &str, default: &str| {
        let value = job.load.get(key).cloned();
        value.unwrap_or_else(|| default.into())
    };
    let mut shown = Map::new()
        .with("Function", load("fun", "unknown-function"))
        .with(
            "Arguments",
            job.load
                .get("arg")
                .cloned()
                .unwrap_or_else(|| Value::list([])),
        )
        .with("Target", load("tgt", "unknown-target"))
        .with("Target-type", load("tgt_type", "list"))
        .with("User", load("user", "root"));
    if let Some(metadata) = metadata(&job.load) {
        shown.insert("Metadata", metadata);
    }
    shown
}

/// Returns the metadata of the job, or those among its keyword arguments.
fn metadata(load: &Map) -> Option<Value> {
    let args = load.get("arg").and_then(Value::as_list).unwrap_or_default();
    let named = || args.iter().find_map(|arg| arg.get("metadata").cloned());
    load.get("metadata").cloned().or_else(named)
}

fn listed(job: &Job) -> Map {
    instance(job).with("StartTime", jid::to_time(&job.jid))
}

/// Returns a job with its minions and their returns. For an unknown job, the result has Salt's
/// error message.
fn job_with_returns(store: &Store, jid: &str) -> Result<Map, Error> {
    let mut result = Map::new();
    for returned in store.returns(jid).map_err(unreadable)? {
        let returned = returned.map_err(unreadable)?;
        let kept = ["return", "retcode", "success", "out"];
        let kept = kept
            .into_iter()
            .filter_map(|key| Some((key, returned.data.get(key)?.clone())));
        result.insert(returned.id.as_str(), kept.collect::<Map>());
    }
    let mut shown = match store.job(jid).map_err(unreadable)? {
        Some(job) => {
            let job = complete_load(store, job)?;
            let minions = job.minions.iter().map(|id| Value::from(id.as_str()));
            instance(&job).with("Minions", Value::list(minions))
        }
        None => Map::new().with("Error", "Cannot contact returner or no job with this jid"),
    };
    shown.insert("StartTime", jid::to_time(jid));
    Ok(shown.with("Result", result))
}

/// Completes a job without a load, which a minion started itself, from the first return.
fn complete_load(store: &Store, mut job: Job) -> Result<Job, Error> {
    if !job.load.is_empty() {
        return Ok(job);
    }
    let mut returns = store.returns(&job.jid).map_err(unreadable)?;
    if let Some(returned) = returns.next() {
        let returned = returned.map_err(unreadable)?;
        let of = |key: &str| returned.data.get(key).cloned().unwrap_or_default();
        job.load = Map::new()
            .with("fun", of("fun"))
            .with("arg", of("fun_args"))
            .with("tgt", returned.id.as_str())
            .with("tgt_type", "glob");
    }
    Ok(job)
}

fn all(store: &Store) -> Result<Vec<Job>, Error> {
    let jobs = store.jobs().map_err(unreadable)?;
    let mut jobs = jobs.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    for job in &mut jobs {
        *job = complete_load(store, job.clone())?;
    }
    value::sorted::sort_by_key(&mut jobs, |job| job.jid.clone());
    Ok(jobs)
}

fn laid_out(jobs: Map, outputter: Option<String>) -> Value {
    match outputter.filter(|name| !name.is_empty()) {
        Some(outputter) => Map::new()
            .with("outputter", outputter)
            .with("data", jobs)
            .into(),
        None => jobs.into(),
    }
}

/// Returns the time of a job in microseconds since 1970: that of its id, else that of its row.
fn micros(job: &Job) -> u64 {
    jid::to_micros(&job.jid).unwrap_or_else(|| job.at_ms.saturating_mul(1000))
}

fn list_jobs(cx: &Exec, args: ListJobs) -> Result<Value, Error> {
    let start = digits("start_time", args.start_time.as_ref())?;
    let end = digits("end_time", args.end_time.as_ref())?;
    let period = Period::new(args.since.as_ref(), args.until.as_ref())?;
    let mut found = Map::new();
    for job in all(&runs(cx)?.store)? {
        let early = start.as_ref().is_some_and(|start| job.jid < *start);
        let late = end
            .as_ref()
            .is_some_and(|end| job.jid > *end && !job.jid.starts_with(end.as_str()));
        let shown = listed(&job);
        if !early
            && !late
            && period.has(micros(&job))
            && has_metadata(&shown, args.search_metadata.as_ref())
            && is_like(shown.get("Function"), args.search_function.as_ref())
            && is_like(shown.get("Target"), args.search_target.as_ref())
        {
            found.insert(job.jid.as_str(), shown);
        }
    }
    Ok(laid_out(found, args.outputter))
}

/// Returns a time as the digits that a jid begins with.
fn digits(name: &'static str, time: Option<&Value>) -> Result<Option<String>, Error> {
    let Some(text) = time.filter(|time| time.is_true()).map(Value::to_text) else {
        return Ok(None);
    };
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if digits.len() < 4 || text.chars().any(char::is_alphabetic) {
        let problem =
            format!("invalid time {text:?}: write it in digits, such as 2026-11-22 10:30");
        return Err(Error::argument(name, problem));
    }
    Ok(Some(digits))
}

fn has_metadata(shown: &Map, wanted: Option<&Map>) -> bool {
    wanted.is_none_or(|wanted| {
        let metadata = shown.get("Metadata").and_then(Value::as_map);
        wanted.iter().any(|(key, value)| {
            metadata.and_then(|metadata| metadata.get_value(key)) == Some(value)
        })
    })
}

/// Returns whether a text, or one text of a list, matches one of the globs.
fn is_like(value: Option<&Value>, globs: Option<&Value>) -> bool {
    let Some(globs) = globs.filter(|globs| globs.is_true()) else {
        return true;
    };
    let one = value.cloned().into_iter().collect::<Vec<_>>();
    let texts = value.and_then(Value::as_list).unwrap_or(&one);
    let globs = globs.split_input();
    texts
        .iter()
        .any(|text| globs.iter().any(|glob| fnmatch(glob, &text.to_text())))
}

fn list_jobs_filter(cx: &Exec, args: ListJobsFilter) -> Result<Value, Error> {
    let count = usize::try_from(args.count).unwrap_or_default();
    let mut jobs = all(&runs(cx)?.store)?;
    let is_question =
        |job: &Job| job.load.get("fun").and_then(Value::as_str) == Some("saltutil.find_job");
    jobs.retain(|job| !args.filter_find_job || !is_question(job));
    let first = jobs.len().saturating_sub(count);
    let last = jobs.iter().skip(first);
    let found = last.map(|job| (job.jid.as_str(), Value::Map(listed(job))));
    Ok(laid_out(found.collect(), args.outputter))
}

fn list_job(cx: &Exec, args: ListJob) -> Result<Value, Error> {
    let jid = args.jid.to_text();
    let mut shown = Map::new().with("jid", jid.as_str());
    shown.update(job_with_returns(&runs(cx)?.store, &jid)?);
    Ok(shown.into())
}

fn print_job(cx: &Exec, args: PrintJob) -> Result<Value, Error> {
    let one = [args.jid.clone()];
    let jids = args.jid.as_list().unwrap_or(&one);
    let mut shown = Map::new();
    for jid in jids.iter().map(Value::to_text) {
        shown.insert(jid.as_str(), job_with_returns(&runs(cx)?.store, &jid)?);
    }
    Ok(shown.into())
}

fn lookup_jid(cx: &Exec, args: LookupJid) -> Result<Value, Error> {
    let job = job_with_returns(&runs(cx)?.store, &args.jid.to_text())?;
    let part = |key: &str| job.get(key).cloned().unwrap_or_default();
    let (result, minions) = (part("Result"), part("Minions"));
    let mut found = Map::new();
    for (id, returned) in result.as_map().into_iter().flat_map(Map::iter) {
        if args.returned {
            let data = returned.get("return").cloned().unwrap_or_default();
            found.insert(id.clone(), data);
        }
    }
    for id in minions.as_list().unwrap_or_default() {
        let returned = result
            .as_map()
            .is_some_and(|map| map.get_value(id).is_some());
        if args.missing && !returned {
            found.insert(id.clone(), "Minion did not return");
        }
    }
    let first = result.as_map().and_then(|result| result.values().next());
    let out = first.and_then(|returned| returned.get("out")?.as_str().map(str::to_owned));
    Ok(laid_out(found, out))
}

fn exit_success(cx: &Exec, args: ExitSuccess) -> Result<Value, Error> {
    let job = job_with_returns(&runs(cx)?.store, &args.jid.to_text())?;
    let result = job.get("Result").and_then(Value::as_map);
    let minions = job.get("Minions").and_then(Value::as_list);
    let mut found: Map = minions
        .unwrap_or_default()
        .iter()
        .map(|id| (id.clone(), false))
        .collect();
    for (id, returned) in result.into_iter().flat_map(Map::iter) {
        let good = returned.get("return").is_some_and(Value::is_true);
        found.insert(id.clone(), good);
    }
    Ok(found.into())
}

fn last_run(cx: &Exec, args: LastRun) -> Result<Value, Error> {
    let store = &runs(cx)?.store;
    let jobs = all(store)?;
    let last = jobs.iter().rev().find(|job| {
        let shown = listed(job);
        has_metadata(&shown, args.metadata.as_ref())
            && is_like(shown.get("Function"), args.function.as_ref())
            && is_like(shown.get("Target"), args.target.as_ref())
    });
    match last {
        Some(job) => Ok(Map::new()
            .with(&job.jid, job_with_returns(store, &job.jid)?)
            .into()),
        None => Ok(false.into()),
    }
}

fn active(cx: &Exec, _args: Active) -> Result<Value, Error> {
    let runs = runs(cx)?;
    let ids: Vec<String> = runs
        .jobs
        .minions
        .ids()
        .iter()
        .map(ToString::to_string)
        .collect();
    let targets = &cx.shared.targets;
    let answers = targets.run(cx, &ids, "saltutil.running", Vec::new(), Map::new())?;
    let mut jobs = Map::new();
    for answer in answers {
        for job in answer.ret.as_list().unwrap_or_default() {
            let Some(jid) = job.get("jid").map(Value::to_text) else {
                continue;
            };
            let pid = job.get("pid").cloned().unwrap_or_default();
            let running = Value::Map(Map::new().with(&answer.id, pid));
            let shown = jobs.entry(jid.as_str(), || {
                let load = job.as_map().cloned().unwrap_or_default();
                started(&runs.store, &jid, load).into()
            });
            let shown = shown
                .as_map_mut()
                .and_then(|shown| shown.get_mut("Running"));
            if let Some(all) = shown.and_then(Value::as_list_mut) {
                all.push(running);
            }
        }
    }
    Ok(jobs.into())
}

/// Returns a running job, with the minions that have returned already.
fn started(store: &Store, jid: &str, load: Map) -> Map {
    let job = Job {
        jid: jid.to_owned(),
        load,
        minions: Vec::new(),
        at_ms: 0,
    };
    let returned = store.returns(jid).into_iter().flatten();
    let returned = returned
        .filter_map(Result::ok)
        .map(|returned| Value::from(returned.id.as_str()));
    let returned = Value::list(returned);
    listed(&job)
        .with("Running", Value::list([]))
        .with("Returned", returned)
}
