//! `resume=True`: finds the run to resume, and the state that it resumes with.

use std::sync::{Arc, Mutex};

use state::boot;
use state::compile::Plan;
use state::exec::Exec;
use state::low::Low;
use state::module::Error;
use state::record::{self, Record, Recorded};
use state::resume::{ResumeOptions, Resumed};
use state::run::Kept;
use value::{Map, Value, jid, log, secret};

use crate::state_run::{Given, retcode, split_input, started};

/// A run that is to be resumed.
#[derive(Clone, Debug)]
pub struct PreviousRun {
    /// The job id.
    pub jid: String,
    /// The record.
    pub recorded: Recorded,
    /// The orders about its steps.
    pub orders: ResumeOptions,
}

/// The arguments that make a run resume, and that change how.
const SAID: [&str; 4] = ["resume", "redo", "skip", "from"];

/// Returns the arguments of a call about resuming. A single state has none; there, these names are
/// arguments of the state.
pub(crate) fn said(fun: &str, kwargs: &Map) -> Map {
    let given = |key: &'static str| Some((key, kwargs.get(key)?.clone()));
    match fun {
        "state.single" | "state.low" => Map::new(),
        _ => SAID.into_iter().filter_map(given).collect(),
    }
}

/// Returns the meaning of these arguments; `None` where no run is to be resumed.
///
/// # Errors
/// When there are orders about steps without `resume=True`.
fn orders(said: &Map) -> Result<Option<ResumeOptions>, Error> {
    let given = |key: &str| said.get(key).filter(|value| !value.is_null());
    let words = |key: &str| given(key).map(split_input).unwrap_or_default();
    let orders = ResumeOptions {
        redo: words("redo"),
        skip: words("skip"),
        from: given("from").map(Value::to_text),
    };
    match given("resume").is_some_and(Value::is_true) {
        true => Ok(Some(orders)),
        false if orders == ResumeOptions::default() => Ok(None),
        false => Err(Error::refused(
            "redo=, skip= and from= are only valid with resume=True".into(),
        )),
    }
}

/// Returns the messages as the return of a function that does not run, and sets the exit code.
pub(crate) fn refused(cx: &Exec, sentences: Vec<String>) -> Value {
    cx.set_retcode(retcode::COMPILE);
    sentences.into()
}

/// Returns the kind of a run: `state.apply` with SLS is `state.sls`, without SLS it is
/// `state.highstate`.
fn kind(fun: &str, mods: Option<&Value>) -> (String, Vec<String>) {
    let mods = mods.map(split_input).unwrap_or_default();
    let fun = match (fun, mods.is_empty()) {
        ("state.apply", true) => "state.highstate",
        ("state.apply", false) => "state.sls",
        (fun, _) => fun,
    };
    (fun.to_owned(), mods)
}

/// Finds the run to resume, and returns the arguments to continue it with. Returns `None` where no
/// run is to be resumed, and messages where it cannot be resumed.
///
/// # Errors
/// When its record cannot be read.
pub(crate) fn found(cx: &Exec, given: &Given) -> Result<Result<Option<Given>, Vec<String>>, Error> {
    let Some(orders) = orders(&given.said)? else {
        return Ok(Ok(None));
    };
    if cx.run.is_some() {
        let sentence =
            "resume=True is only valid for the outermost run, which resumes its nested runs, too";
        return Ok(Err(vec![sentence.to_owned()]));
    }
    let Some((jid, recorded)) = last(cx, given)? else {
        return Ok(Err(vec![format!(
            "There is no run of {} on record: nothing to resume",
            told(given)
        )]));
    };
    let path = record::folder(cx.opts()).join(&jid);
    if record::is_alive(&path) {
        return Ok(Err(vec![format!(
            "The run {jid} of {} is still running and cannot be resumed",
            told(given)
        )]));
    }
    if let Some(end) = recorded.end.as_ref().filter(|_| orders.from.is_none()) {
        let code = end.get("retcode").map(Value::to_text).unwrap_or_default();
        return Ok(Err(vec![format!(
            "Nothing is unfinished: the last run of {}, {jid}, ended with exit status {code}. Use from=STEP to repeat it from that step",
            told(given)
        )]));
    }
    let earlier = PreviousRun {
        jid,
        recorded,
        orders,
    };
    Ok(gone_on(given, earlier).map(Some))
}

fn told(given: &Given) -> String {
    let mods = given.mods.as_ref().map(split_input).unwrap_or_default();
    [&[given.fun.to_owned()], mods.as_slice()]
        .concat()
        .join(" ")
}

/// Returns the last run of this function and these SLS that changed something, or could have.
fn last(cx: &Exec, given: &Given) -> Result<Option<(String, Recorded)>, Error> {
    let opts = cx.opts();
    let folder = record::folder(opts);
    let wanted = kind(given.fun, given.mods.as_ref());
    let saltenv = given.saltenv_or_base(cx);
    let named = given.said.get("resume").map(Value::to_text);
    let named = named.filter(|named| jid::is_jid(named));
    for jid in record::jids(opts).into_iter().rev() {
        if named.as_ref().is_some_and(|named| *named != jid) {
            continue;
        }
        let path = folder.join(&jid);
        let Some(start) = record::start_of(&path) else {
            continue;
        };
        let args = start.get("args");
        let arg = |key| args.and_then(|args| args.get(key));
        let fun = start.get("fun").map(Value::to_text).unwrap_or_default();
        let env = arg("saltenv").map_or_else(|| saltenv.clone(), Value::to_text);
        let tested = start
            .get("test")
            .or_else(|| arg("test"))
            .is_some_and(Value::is_true);
        if !tested && kind(&fun, arg("mods")) == wanted && env == saltenv {
            return Ok(Some((jid, record::read(&path)?)));
        }
    }
    Ok(None)
}

/// Returns the arguments to resume a run with, which are those that the run was started with.
fn gone_on(given: &Given, earlier: PreviousRun) -> Result<Given, Vec<String>> {
    let mut own = given.clone();
    let args = earlier
        .recorded
        .start
        .get("args")
        .cloned()
        .unwrap_or_default();
    let said = |key: &str| args.get(key).cloned();
    let pairs = [
        ("pillar", &mut own.pillar, said("pillar")),
        ("exclude", &mut own.exclude, said("exclude")),
    ];
    for (name, now, before) in pairs {
        let hidden = before.as_ref().filter(|before| secret::is_masked(before));
        let same = hidden.map(|before| now.as_ref().map(|now| without_secrets(now) == *before));
        match same {
            Some(Some(true)) => continue,
            Some(None) => {
                return Err(vec![format!(
                    "The run {} had secrets in {name}=, which are not recorded: pass {name}= again",
                    earlier.jid
                )]);
            }
            _ => {}
        }
        if now.is_some() && *now != before {
            return Err(vec![format!(
                "The run {} had a different {name}=: omit {name}= to resume with its value",
                earlier.jid
            )]);
        }
        *now = before;
    }
    own.pillarenv = own
        .pillarenv
        .or_else(|| said("pillarenv").map(|env| env.to_text()));
    own.earlier = Some(Arc::new(earlier));
    Ok(own)
}

/// Returns an argument in the form in which a record stores it, with secrets masked.
fn without_secrets(given: &Value) -> Value {
    given.as_map().iter().for_each(|given| secret::note(given));
    secret::value(given)
}

/// Warns about a run that will restart the machine and was given secrets: a record does not contain
/// them, so the run cannot resume by itself.
pub(crate) fn warn_of_secrets(given: &Given, plan: &Plan) {
    let all = [("pillar", &given.pillar), ("exclude", &given.exclude)];
    for (name, given) in all {
        let given = given.as_ref().filter(|_| boot::is_in(plan));
        if given.is_some_and(|given| secret::is_masked(&without_secrets(given))) {
            log::warning(format_args!(
                "{name}= contains secrets, which are not recorded: after its reboot this run does not resume by itself, only with resume=True and {name}= again"
            ));
        }
    }
}

/// Returns the state to resume a plan with. Returns `None` where it resumes no run, and messages
/// where a decision of the user is missing.
pub(crate) fn taken_up(given: &Given, plan: &Plan) -> Result<Option<Resumed>, Vec<String>> {
    let Some(earlier) = &given.earlier else {
        return Ok(None);
    };
    let recorded = &earlier.recorded.clone().of_plan(plan);
    let named = given.mods.is_some() || matches!(given.fun, "state.apply" | "state.highstate");
    if !named && !state::resume::changes(plan, recorded).is_empty() {
        return Err(vec![format!(
            "The last run of {} on record, {}, had other states: nothing to resume",
            given.fun, earlier.jid
        )]);
    }
    let mut taken = Resumed::of(plan, recorded, &earlier.orders)?;
    let open = plan.chunks().len().saturating_sub(taken.returns.len());
    let when = jid::to_time(&earlier.jid);
    log::warning(format_args!(
        "Resuming the run {} of {when}: {} states are finished, {open} remain",
        earlier.jid,
        taken.returns.len()
    ));
    taken.told.drain(..).for_each(log::warning);
    Ok(Some(taken))
}

/// Continues a record. In test mode the record does not change.
pub(crate) fn gone_on_with(
    cx: &Exec,
    given: &Given,
    plan: &Plan,
    taken: Resumed,
) -> Result<Kept, Error> {
    let parts = Arc::new(Mutex::new(taken.parts));
    let heard = Arc::new(Mutex::new(taken.heard));
    let compensating = Arc::new(taken.compensating);
    let returns = taken.returns;
    if cx.test {
        let kept = started(cx, given, plan)?;
        return Ok(Kept {
            returns,
            parts,
            heard,
            compensating,
            ..kept
        });
    }
    let earlier = given.earlier.as_ref().map_or("", |run| &run.jid);
    let record = Record::resume(cx.opts(), earlier, &given.jid, plan, &taken.forgotten)?;
    for one in &taken.settled {
        record.settled(cx, &one.part, &one.tag, &one.ret);
    }
    Ok(Kept {
        record: Some(Arc::new(record)),
        returns,
        parts,
        heard,
        compensating,
        ..Kept::default()
    })
}

/// Returns true if a nested run is recorded as a part of the outer run's record. That applies to an
/// orchestration, and to states that an orchestration's step runs and that restart the machine.
/// Other nested runs converge, so they start from their first state when their step is run again.
fn has_part(given: &Given, low: &Low, plan: &Plan) -> bool {
    let is_step = low.state == "salt" && matches!(low.fun.as_str(), "state" | "function");
    given.fun == "state.orchestrate" || is_step && boot::is_in(plan)
}

/// Returns the nested run's part of the outer run's record.
pub(crate) fn nested(cx: &Exec, given: &Given, plan: &Plan) -> Kept {
    let (Some(outer), Some(low)) = (cx.run.as_ref().map(|run| &run.kept), &cx.low) else {
        return Kept::default();
    };
    let record = outer.record.clone().filter(|_| !cx.test);
    let Some(record) = record.filter(|_| has_part(given, low, plan)) else {
        return Kept {
            notes: outer.noted().cloned(),
            ..Kept::default()
        };
    };
    let part = [&outer.part, low.tag().as_str(), "\n"].concat();
    let mut parts = outer
        .parts
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    // If the step is retried, the next nested run at this position starts from its first step.
    let returns = match parts.remove(&part) {
        Some(returns) => returns,
        None => {
            record.part_begins(&part);
            Map::new()
        }
    };
    drop(parts);
    Kept {
        record: Some(record),
        notes: None,
        part,
        returns,
        parts: Arc::clone(&outer.parts),
        heard: Arc::clone(&outer.heard),
        compensating: Arc::clone(&outer.compensating),
        events: None,
    }
}
