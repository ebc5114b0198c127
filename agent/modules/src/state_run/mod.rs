//! State runs as a whole: the shared parts of `state.apply`, `state.highstate`, `state.single` and
//! orchestrations.

pub mod orchestrate;
pub mod resume;

use std::sync::{Arc, PoisonError};

use state::compile::{self, Fault, HighData, Plan, Problem};
use state::exec::Exec;
use state::lock::{Lock, Other, Refusal};
use state::module::Error;
use state::record::{self, Asked, Heard, Record};
use state::resume::Resumed;
use state::run::events::EventLog;
use state::run::{self, Kept, Unobserved};
use value::merge::{Strategy, merge};
use value::watch::{self, Event};
use value::{Map, Value, jid, log};

use resume::PreviousRun;

/// The exit codes that a state function sets (`salt.defaults.exitcodes`).
pub mod retcode {
    /// The SLS does not compile.
    pub const COMPILE: i64 = 1;
    /// A state failed.
    pub const FAILED: i64 = 2;
    /// The pillar does not render.
    pub const PILLAR: i64 = 5;
}

/// The arguments that every function which runs or shows states accepts.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The job id. It is that of the call, when the call has one.
    pub jid: String,
    /// The function, by the name that `salt-call` uses.
    pub fun: &'static str,
    /// The SLS, for the record.
    pub mods: Option<Value>,
    /// `test=`; `None` where the configuration decides.
    pub test: Option<Value>,
    /// True for `TEST=True` or another spelling of `test`.
    pub is_test_in_other_case: bool,
    /// `queue=`.
    pub queue: Option<Value>,
    /// `concurrent=True`.
    pub concurrent: bool,
    /// `pillar=`.
    pub pillar: Option<Value>,
    /// `pillarenv=`.
    pub pillarenv: Option<String>,
    /// `saltenv=`.
    pub saltenv: Option<String>,
    /// `exclude=`.
    pub exclude: Option<Value>,
    /// `force=True`: run in spite of a pillar that does not render.
    pub force: bool,
    /// `terse=True`: return only what failed or changed.
    pub terse: bool,
    /// Fires an event for each return; `None` where the configuration decides.
    pub state_events: Option<bool>,
    /// The user who published the job, if the call is a job.
    pub user: Option<Value>,
    /// The arguments about resuming the last run: `resume=True`, `redo=`, `skip=`, `from=`.
    pub said: Map,
    /// The run that is resumed.
    pub earlier: Option<Arc<PreviousRun>>,
}

impl Given {
    /// Reads the arguments from the keyword arguments of a call.
    #[must_use]
    pub fn of(fun: &'static str, kwargs: &Map) -> Self {
        let given = |key: &str| kwargs.get(key).filter(|value| !value.is_null()).cloned();
        let text = |key: &str| given(key).map(|value| value.to_text());
        let truth = |key: &str| given(key).is_some_and(|value| value.is_true());
        Self {
            jid: text("__pub_jid").unwrap_or_else(jid::new),
            fun,
            mods: given("mods"),
            test: given("test"),
            is_test_in_other_case: tests_in_other_case(kwargs),
            queue: given("queue"),
            concurrent: truth("concurrent"),
            pillar: given("pillar"),
            pillarenv: text("pillarenv"),
            saltenv: text("saltenv"),
            exclude: given("exclude"),
            force: truth("force"),
            terse: truth("terse"),
            state_events: given("state_events").map(|given| given.is_true()),
            user: given("__pub_user"),
            said: resume::said(fun, kwargs),
            earlier: None,
        }
    }

    /// Adds the SLS that will run, for the record.
    #[must_use]
    pub fn of_mods(self, mods: &Value) -> Self {
        let mods = self.mods.or_else(|| Some(mods.clone()));
        Self { mods, ..self }
    }

    /// Returns the environment of SLS that are named without one.
    #[must_use]
    pub fn saltenv_or_base(&self, cx: &Exec) -> String {
        self.saltenv
            .clone()
            .or_else(|| cx.opts().text("saltenv").map(str::to_owned))
            .unwrap_or_else(|| "base".into())
    }

    /// Returns the context of the run: test mode, pillar, environments.
    ///
    /// # Errors
    /// When `pillar=` is not a dictionary, or the pillar is not available.
    pub fn context(&self, cx: &Exec) -> Result<Exec, Error> {
        let over = match &self.pillar {
            None => None,
            Some(Value::Map(over)) => Some(over.clone()),
            Some(_) => {
                let text = "Pillar data must be formatted as a dictionary, unless pillar_enc is specified.";
                return Err(Error::refused(text.into()));
            }
        };
        let moved = self.pillarenv.is_some() && self.pillarenv != cx.pillarenv;
        let mut own = match over {
            _ if moved => cx.with_pillarenv(self.pillarenv.clone(), over),
            Some(over) => cx.with_pillar(merged(cx, &over)?),
            None => cx.clone(),
        };
        own.test = self.is_test(cx)?;
        own.saltenv = self.saltenv_or_base(cx);
        own.state_events = self.state_events.or(cx.state_events);
        Ok(own)
    }

    /// Returns the action if another run is under way.
    fn other(&self, cx: &Exec) -> Other {
        let queue = self
            .queue
            .clone()
            .or_else(|| cx.opts().get("state_queue").cloned())
            .unwrap_or_default();
        match self.concurrent {
            true => Other::Ignore,
            false if queue.is_true() => Other::Wait(None),
            false => Other::Refuse,
        }
    }

    /// Returns the arguments in the form in which the run's record and the job cache show them.
    fn shown(&self) -> Value {
        let given = [
            ("test", self.test.clone()),
            ("pillar", self.pillar.clone()),
            ("saltenv", self.saltenv.clone().map(Value::from)),
            ("pillarenv", self.pillarenv.clone().map(Value::from)),
            ("exclude", self.exclude.clone()),
            ("mods", self.mods.clone()),
        ];
        given
            .into_iter()
            .filter_map(|(key, value)| value.map(|value| (key, value)))
            .collect()
    }

    /// Returns true if the run only reports what it would change: by `test=`, else the grain
    /// `test`, the pillar's, or the option.
    fn is_test(&self, cx: &Exec) -> Result<bool, Error> {
        match &self.test {
            Some(Value::Bool(test)) => Ok(*test),
            Some(_) => Ok(true),
            None => Ok(cx.test || self.is_test_in_other_case || is_protected(cx)?),
        }
    }
}

/// Returns true if grains or pillar keep this machine in test mode: `test: True` in one of them, in
/// the order of `config.get`.
fn is_protected(cx: &Exec) -> Result<bool, Error> {
    if let Some(test) = cx.grains().get("test") {
        return Ok(*test == Value::Bool(true));
    }
    let pillar = cx.pillar()?;
    let of_master = || pillar.get("master")?.get("test");
    let test = pillar.get("test").or_else(of_master);
    Ok(matches!(test, Some(Value::Bool(true))))
}

/// Returns true if a keyword argument such as `TEST` or `Test` requests test mode. Salt accepts
/// these spellings.
fn tests_in_other_case(kwargs: &Map) -> bool {
    kwargs.iter().any(|(key, value)| {
        let name = key.as_str().unwrap_or_default();
        name != "test" && name.eq_ignore_ascii_case("test") && is_yes(value)
    })
}

/// Returns Salt's `is_true` of a value: true for the text `true`, and for a number above zero.
fn is_yes(value: &Value) -> bool {
    match (value.as_str(), value.as_float()) {
        (Some(text), _) => text.eq_ignore_ascii_case("true"),
        (None, Some(number)) => number > 0.0,
        (None, None) => value.is_true(),
    }
}

/// Returns the pillar with the given data merged over it. The configuration decides how pillar is
/// merged.
fn merged(cx: &Exec, over: &Map) -> Result<Map, Error> {
    let opts = cx.opts();
    let word = opts
        .text("pillar_source_merging_strategy")
        .unwrap_or("smart");
    let strategy =
        Strategy::of(word, opts.text("renderer").unwrap_or("yaml")).unwrap_or(Strategy::Recurse);
    Ok(merge(
        &cx.pillar()?,
        over,
        strategy,
        opts.flag("pillar_merge_lists"),
    ))
}

/// Returns the items of an argument that is a list, or a comma-separated text.
#[must_use]
pub fn split_input(value: &Value) -> Vec<String> {
    match value.as_list() {
        Some(items) => items.iter().map(Value::to_text).collect(),
        None => value
            .to_text()
            .split(',')
            .map(|word| word.trim().to_owned())
            .filter(|word| !word.is_empty())
            .collect(),
    }
}

/// Returns Salt's messages as a list, the return of a function that cannot start. The positions in
/// the SLS are logged.
#[must_use]
pub fn refused(cx: &Exec, faults: &[Fault]) -> Value {
    cx.set_retcode(retcode::COMPILE);
    for fault in faults {
        log::error(fault.shown());
    }
    Value::list(faults.iter().map(|fault| fault.text.as_str().into()))
}

/// Returns the refusal of a run if its pillar does not render.
///
/// # Errors
/// When the pillar is not available at all.
pub fn pillar_refusal(cx: &Exec, given: &Given) -> Result<Option<Value>, Error> {
    let faults = compile::pillar_faults(cx)?;
    if faults.is_empty() || given.force {
        return Ok(None);
    }
    cx.set_retcode(retcode::PILLAR);
    Ok(Some(Value::list(
        faults.iter().map(|fault| fault.text.as_str().into()),
    )))
}

/// Compiles high data and runs it.
///
/// # Errors
/// When the run cannot get the lock or its record.
pub fn run_high(cx: &Exec, given: &Given, high: HighData) -> Result<Value, Error> {
    match high.plan(cx) {
        Ok(plan) => run_plan(cx, given, &plan),
        Err(faults) => Ok(refused(cx, &faults)),
    }
}

/// Checks a whole plan and runs it.
///
/// # Errors
/// When the run cannot get the lock or its record.
pub fn run_plan(cx: &Exec, given: &Given, plan: &Plan) -> Result<Value, Error> {
    let mut stops = Vec::new();
    for checked in compile::check(plan, cx) {
        match checked.problem {
            Problem::Stops(fault) => stops.push(fault),
            Problem::Warning(fault) => log::warning(fault.shown()),
            Problem::Fails(fault) => log::error(fault.shown()),
        }
    }
    if !stops.is_empty() {
        return Ok(refused(cx, &stops));
    }
    let taken = match resume::taken_up(given, plan) {
        Ok(taken) => taken,
        Err(sentences) => return Ok(resume::refused(cx, sentences)),
    };
    if let Some(tried) = foreseen(cx, given, plan)? {
        return Ok(tried.into());
    }
    let jid = run_jid(given);
    watch::tell(Event::Started {
        jid,
        fun: given.fun,
        test: cx.test,
        chunks: plan.chunks().len(),
    });
    let ran = recorded_run(cx, given, plan, taken);
    if watch::is_on() {
        let good = ran.as_ref().is_ok_and(is_good);
        watch::tell(Event::Finished { jid, good });
    }
    let ret = Value::Map(ran?);
    set_retcode(cx, &ret);
    Ok(if given.terse { terse(&ret) } else { ret })
}

/// Returns the job id of the run. A resumed run keeps its job id.
fn run_jid(given: &Given) -> &String {
    given.earlier.as_ref().map_or(&given.jid, |run| &run.jid)
}

fn is_good(running: &Map) -> bool {
    orchestrate::check_result(&Value::Map(running.clone()))
}

/// Shows the plan to the preview, if there is one. The outermost plan also runs in test mode first.
/// Returns the test run's return if no changes are to be applied.
fn foreseen(cx: &Exec, given: &Given, plan: &Plan) -> Result<Option<Map>, Error> {
    let Some(foresight) = &cx.foresight else {
        return Ok(None);
    };
    foresight.starts(cx, plan)?;
    if cx.run.is_some() {
        return Ok(None);
    }
    let mut trial = cx.clone();
    trial.test = true;
    // Data that the test run stores for later states must not reach the real run.
    let before = cx.context(|context| context.clone());
    let running = watch::hushed(|| run::run_as(&trial, plan, &Unobserved, &given.jid));
    cx.context(|context| *context = before);
    Ok((!foresight.tried(cx)).then_some(running))
}

/// Runs a plan with its record. A nested run is part of the outer run's record.
fn recorded_run(
    cx: &Exec,
    given: &Given,
    plan: &Plan,
    taken: Option<Resumed>,
) -> Result<Map, Error> {
    if cx.run.is_some() {
        let mut kept = resume::nested(cx, given, plan);
        if let Some(record) = &kept.record {
            record.knows(plan);
            kept.returns = record::by_tags_of(plan, kept.returns);
        }
        let heard = heard_of(&kept);
        let kept = kept.listening(EventLog::open(cx, plan, heard)?);
        return Ok(run::run_kept(cx, plan, kept, &given.jid));
    }
    let mut taken = taken;
    let heard = taken.as_mut().and_then(|taken| taken.heard.remove(""));
    let events = EventLog::open(cx, plan, heard.unwrap_or_default())?;
    warn_of_clock();
    resume::warn_of_secrets(given, plan);
    let kept = match taken {
        Some(taken) => resume::gone_on_with(cx, given, plan, taken)?,
        None => match started(cx, given, plan) {
            Err(error) if error.is_of_disk() => unrecorded(&error),
            started => started?,
        },
    };
    let kept = kept.listening(events);
    let record = kept.record.clone();
    let jid = run_jid(given);
    let running = run::run_kept(cx, plan, kept, jid);
    if let Some(record) = record {
        record.end(
            cx,
            if is_good(&running) {
                0
            } else {
                retcode::FAILED
            },
        );
    }
    Ok(running)
}

/// Starts the record of a run.
pub(crate) fn started(cx: &Exec, given: &Given, plan: &Plan) -> Result<Kept, Error> {
    let asked = Asked {
        jid: &given.jid,
        fun: given.fun,
        args: given.shown(),
        user: given.user.clone(),
    };
    let record = Record::start(cx, &asked, plan)?;
    Ok(Kept {
        record: Some(Arc::new(record)),
        ..Kept::default()
    })
}

/// Warns about a clock that was never set. It starts at 1970, or at the build time of the firmware.
fn warn_of_clock() {
    let now = jid::new();
    if now.as_str() < "2020" {
        log::warning(format_args!(
            "The clock of this machine is wrong ({}): set it, or the times and the job id of this run will be wrong",
            jid::to_time(&now)
        ));
    }
}

/// Warns that the record cannot be written. The run continues: it may be the one that frees disk
/// space, or need none.
fn unrecorded(error: &Error) -> Kept {
    log::warning(format_args!(
        "cannot record this run: {error}; free disk space there or set cachedir to another directory"
    ));
    Kept::default()
}

/// Returns the events that a nested run had received before the run was interrupted.
fn heard_of(kept: &Kept) -> Heard {
    let mut heard = kept.heard.lock().unwrap_or_else(PoisonError::into_inner);
    heard.remove(&kept.part).unwrap_or_default()
}

/// Keeps only the returns that failed or changed something.
fn terse(ret: &Value) -> Value {
    let Value::Map(running) = ret else {
        return ret.clone();
    };
    let tells = |ret: &Value| {
        let good = ret.get("result").is_some_and(Value::is_true);
        !good || ret.get("changes").is_some_and(Value::is_true)
    };
    running
        .iter()
        .filter(|(_, ret)| tells(ret))
        .map(|(tag, ret)| (tag.clone(), ret.clone()))
        .collect()
}

/// Sets the exit code for a run's return.
pub fn set_retcode(cx: &Exec, ret: &Value) {
    let code = match ret {
        Value::List(_) => retcode::COMPILE,
        ret if orchestrate::check_result(ret) => 0,
        _ => retcode::FAILED,
    };
    cx.set_retcode(code);
}

/// Runs `work` as the only state run on this machine. A nested run is part of the outer one.
///
/// # Errors
/// Those of `work`, and when the lock is not available for another reason than a run that is under
/// way.
pub fn exclusive(
    cx: &Exec,
    given: &Given,
    work: impl FnOnce(&Given) -> Result<Value, Error>,
) -> Result<Value, Error> {
    match Lock::take(cx, &given.jid, given.fun, given.other(cx)) {
        Ok(_held) => match resume::found(cx, given)? {
            Ok(None) => work(given),
            Ok(Some(earlier)) => work(&earlier),
            Err(sentences) => Ok(resume::refused(cx, sentences)),
        },
        Err(Refusal::Held(holder)) => {
            cx.set_retcode(retcode::COMPILE);
            Ok(Value::list([holder.sentence().into()]))
        }
        Err(Refusal::Failed(error)) => Err(error),
    }
}
