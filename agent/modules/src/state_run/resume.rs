//! The steps of a run that is resumed: finds the earlier run, and the state that its plan continues
//! with.

use state::compile::Plan;
use state::exec::Registry;
use state::module::Error;
use state::record;
use state::resume::{ResumeOptions, Resumed};
use value::{Map, Value, jid, log, secret};

use super::compile::Checked;
use super::prepare::{Identified, Locked, Prepared};
use super::{Request, Stop};

/// A run that can start: a new one, or the rest of an earlier one.
pub(super) struct Ready {
    /// The run.
    pub(super) run: Prepared,
    /// Its plan.
    pub(super) plan: Plan,
    /// The state that it resumes with, if it resumes a run.
    pub(super) resumed: Option<Resumed>,
}

/// A run that is to be resumed.
pub(super) struct PreviousRun {
    /// The job id.
    pub(super) jid: String,
    /// The contents of its record.
    recorded: record::Recorded,
    /// The decisions about its steps.
    options: ResumeOptions,
}

/// The arguments that make a run resume, and that change how.
pub(super) const ARGUMENTS: [&str; 4] = ["resume", "redo", "skip", "from"];

/// Returns the arguments of a call about resuming. A single state has none; there, these names are
/// arguments of the state.
pub(super) fn arguments(fun: &str, kwargs: &Map) -> Map {
    let given = |key: &'static str| Some((key, kwargs.get(key)?.clone()));
    match fun {
        "state.single" | "state.low" => Map::new(),
        _ => ARGUMENTS.into_iter().filter_map(given).collect(),
    }
}

/// Returns the meaning of these arguments; `None` where no run is to be resumed.
///
/// # Errors
/// When there are orders about steps without `resume=True`.
fn options(arguments: &Map) -> Result<Option<ResumeOptions>, Error> {
    let given = |key: &str| arguments.get(key).filter(|value| !value.is_null());
    let words = |key: &str| given(key).map(Value::split_input).unwrap_or_default();
    let options = ResumeOptions {
        redo: words("redo"),
        skip: words("skip"),
        from: given("from").map(Value::to_text),
    };
    match given("resume").is_some_and(Value::is_true) {
        true => Ok(Some(options)),
        false if options == ResumeOptions::default() => Ok(None),
        false => Err(Error::refused(
            "redo=, skip= and from= are only valid with resume=True".into(),
        )),
    }
}

/// Returns the kind of a run: `state.apply` with SLS is `state.sls`, without SLS it is
/// `state.highstate`.
fn kind(fun: &str, mods: Option<&Value>) -> (String, Vec<String>) {
    let mods = mods.map(Value::split_input).unwrap_or_default();
    let fun = match (fun, mods.is_empty()) {
        ("state.apply", true) => "state.highstate",
        ("state.apply", false) => "state.sls",
        (fun, _) => fun,
    };
    (fun.to_owned(), mods)
}

impl Locked {
    /// Finds the run to resume, if the request asks for one, and fills in its arguments. Refuses a
    /// run that cannot be resumed.
    pub(super) fn find_earlier(self) -> Result<Identified, Stop> {
        let found = match options(&self.request.resume)? {
            Some(options) => Some(self.earlier(options)?),
            None => None,
        };
        let Self { cx, request, lock } = self;
        let request = match &found {
            Some(earlier) => request
                .continuing(earlier)
                .map_err(|message| Stop::messages(&cx, vec![message]))?,
            None => request,
        };
        Ok(Identified {
            cx,
            request,
            earlier: found,
            lock,
        })
    }

    /// Returns the run to resume.
    fn earlier(&self, options: ResumeOptions) -> Result<PreviousRun, Stop> {
        let refuse = |message: String| Err(Stop::messages(&self.cx, vec![message]));
        if self.cx.run.is_some() {
            let message = "resume=True is only valid for the outermost run, which resumes its nested runs, too";
            return refuse(message.to_owned());
        }
        let call = self.request.call();
        let Some((jid, recorded)) = self.last()? else {
            return refuse(format!(
                "There is no run of {call} on record: nothing to resume"
            ));
        };
        if record::is_alive(&record::folder(self.cx.opts()).join(&jid)) {
            return refuse(format!(
                "The run {jid} of {call} is still running and cannot be resumed"
            ));
        }
        if let Some(end) = recorded.end.as_ref().filter(|_| options.from.is_none()) {
            let code = end.get("retcode").map(Value::to_text).unwrap_or_default();
            return refuse(format!(
                "Nothing to resume: the last run of {call} ({jid}) finished with exit status {code}. To repeat part of it, use from=STEP"
            ));
        }
        Ok(PreviousRun {
            jid,
            recorded,
            options,
        })
    }

    /// Returns the last run of this function and these SLS that changed something, or could have.
    fn last(&self) -> Result<Option<(String, record::Recorded)>, Error> {
        let (opts, request) = (self.cx.opts(), &self.request);
        let folder = record::folder(opts);
        let wanted = kind(request.fun, request.mods.as_ref());
        let saltenv = request.saltenv_or_base(&self.cx);
        let named = request.resume.get("resume").map(Value::to_text);
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
}

impl Request {
    /// Returns the function and its SLS, for messages.
    fn call(&self) -> String {
        let mods = self.mods.as_ref().map(Value::split_input);
        let mods = mods.unwrap_or_default();
        [&[self.fun.to_owned()], mods.as_slice()].concat().join(" ")
    }

    /// Returns the request with the arguments that the earlier run was started with. Returns a
    /// message if it has others.
    fn continuing(self, earlier: &PreviousRun) -> Result<Self, String> {
        let mut own = self;
        let args = earlier.recorded.start.get("args");
        let recorded = |key: &str| args.and_then(|args| args.get(key)).cloned();
        let pairs = [
            ("pillar", &mut own.pillar, recorded("pillar")),
            ("exclude", &mut own.exclude, recorded("exclude")),
        ];
        for (name, now, before) in pairs {
            let hidden = before.as_ref().filter(|before| secret::is_masked(before));
            let same = hidden.map(|before| now.as_ref().map(|now| without_secrets(now) == *before));
            match same {
                Some(Some(true)) => continue,
                Some(None) => {
                    return Err(format!(
                        "The run {} had secrets in {name}=, which are not recorded: pass {name}= again",
                        earlier.jid
                    ));
                }
                _ => {}
            }
            if now.is_some() && *now != before {
                return Err(format!(
                    "The run {} had a different {name}=: omit {name}= to resume with its value",
                    earlier.jid
                ));
            }
            *now = before;
        }
        let pillarenv = || recorded("pillarenv").map(|env| env.to_text());
        own.pillarenv = own.pillarenv.or_else(pillarenv);
        Ok(own)
    }
}

/// Returns an argument in the form in which a record stores it, with secrets masked.
pub(super) fn without_secrets(given: &Value) -> Value {
    given.as_map().iter().for_each(|given| secret::note(given));
    secret::value(given)
}

impl Checked {
    /// Finds the state that the plan resumes with. Refuses to resume if a decision of the user is
    /// missing.
    pub(super) fn resume(self) -> Result<Ready, Stop> {
        let Self { run, plan } = self;
        let resumed = match &run.earlier {
            Some(earlier) => Some(
                earlier
                    .resumed(run.cx.shared.registry, &run.request, &plan)
                    .map_err(|messages| Stop::messages(&run.cx, messages))?,
            ),
            None => None,
        };
        Ok(Ready { run, plan, resumed })
    }
}

impl PreviousRun {
    fn resumed(
        &self,
        registry: &Registry,
        request: &Request,
        plan: &Plan,
    ) -> Result<Resumed, Vec<String>> {
        let recorded = &self.recorded.clone().of_plan(plan);
        let named =
            request.mods.is_some() || matches!(request.fun, "state.apply" | "state.highstate");
        if !named && !state::resume::changes(plan, recorded).is_empty() {
            return Err(vec![format!(
                "The last run of {} on record, {}, had other states: nothing to resume",
                request.fun, self.jid
            )]);
        }
        let mut resumed = Resumed::from_record(registry, plan, recorded, &self.options)?;
        let open = plan.chunks().len().saturating_sub(resumed.returns.len());
        log::warning(format_args!(
            "Resuming the run {} of {}: {} states are finished, {open} remain",
            self.jid,
            jid::to_time(&self.jid),
            resumed.returns.len()
        ));
        resumed.told.drain(..).for_each(log::warning);
        Ok(resumed)
    }
}
