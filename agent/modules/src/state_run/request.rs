//! [`Request`]: the arguments of a function that runs or shows states.

use state::compile::{self, Fault, HighData};
use state::exec::Exec;
use state::host::ExecHost;
use state::lock::Other;
use state::module::Error;
use value::merge::{Strategy, merge};
use value::{Map, Value, jid};

use super::resume;

/// The arguments that every function which runs or shows states accepts.
#[derive(Clone, Debug, Default)]
pub struct Request {
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
    /// `pillar_enc=`: the renderer that decrypts `pillar=`.
    pub pillar_enc: Option<String>,
    /// `pillarenv=`.
    pub pillarenv: Option<String>,
    /// `saltenv=`.
    pub saltenv: Option<String>,
    /// `exclude=`.
    pub exclude: Option<Value>,
    /// `sync_mods=`: the kinds of custom modules to sync before the run.
    pub sync_mods: Option<Value>,
    /// `force=True`: run in spite of a pillar that does not render.
    pub force: bool,
    /// `terse=True`: return only what failed or changed.
    pub terse: bool,
    /// Fires an event for each return; `None` where the configuration decides.
    pub state_events: Option<bool>,
    /// The user who published the job, if the call is a job.
    pub user: Option<Value>,
    /// The arguments about resuming the last run: `resume=True`, `redo=`, `skip=`, `from=`.
    pub resume: Map,
}

impl Request {
    /// Reads the arguments from the keyword arguments of a call.
    #[must_use]
    pub fn from_kwargs(fun: &'static str, kwargs: &Map) -> Self {
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
            pillar_enc: text("pillar_enc"),
            pillarenv: text("pillarenv"),
            saltenv: text("saltenv"),
            exclude: given("exclude"),
            sync_mods: given("sync_mods"),
            force: truth("force"),
            terse: truth("terse"),
            state_events: given("state_events").map(|given| given.is_true()),
            user: given("__pub_user"),
            resume: resume::arguments(fun, kwargs),
        }
    }

    /// Adds the SLS that will run, for the record, unless the call names them.
    #[must_use]
    pub(crate) fn with_mods(self, mods: &Value) -> Self {
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

    /// Decrypts `pillar=` with the renderer of `pillar_enc=`.
    fn decrypted(&self, cx: &Exec, over: Map) -> Result<Map, Error> {
        match self.pillar_enc.as_deref() {
            None | Some("") => Ok(over),
            Some("gpg") => {
                let over = render::gpg::decrypted(&[], over.into(), &ExecHost::in_state_tree(cx));
                let over = over.map_err(|error| Error::refused(error.message))?;
                Ok(over.as_map().cloned().unwrap_or_default())
            }
            Some(other) => Err(Error::refused(format!(
                "Failed to decrypt pillar override: '{other}' is not a valid decryption renderer"
            ))),
        }
    }

    /// Returns the context of the run: test mode, pillar, environments.
    ///
    /// # Errors
    /// When `pillar=` is not a dictionary, or the pillar is not available.
    pub fn context(&self, cx: &Exec) -> Result<Exec, Error> {
        let over = match &self.pillar {
            None => None,
            Some(Value::Map(over)) => Some(self.decrypted(cx, over.clone())?),
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
    pub(super) fn if_locked(&self, cx: &Exec) -> Other {
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
    pub(super) fn to_args(&self) -> Value {
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

    /// Returns the faults of the pillar that this function refuses to run with. As in Salt,
    /// `state.high` runs with any pillar.
    ///
    /// # Errors
    /// When the pillar is not available at all.
    pub(crate) fn pillar_faults(&self, cx: &Exec) -> Result<Vec<Fault>, Error> {
        if self.fun == "state.high" {
            return Ok(Vec::new());
        }
        let faults = compile::pillar_faults(cx)?;
        Ok(if self.force { Vec::new() } else { faults })
    }

    /// Returns high data without the SLS and IDs that `exclude=` names.
    #[must_use]
    pub fn without_excluded(&self, high: HighData) -> HighData {
        match &self.exclude {
            Some(exclude) if exclude.is_true() => match exclude.as_list() {
                Some(items) => high.excluding(items.to_vec()),
                None => high.excluding(exclude.split_input().into_iter().map(Value::from)),
            },
            _ => high,
        }
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
    let strategy = Strategy::from_name(word, opts.text("renderer").unwrap_or("yaml"))
        .unwrap_or(Strategy::Recurse);
    Ok(merge(
        &cx.pillar()?,
        over,
        strategy,
        opts.flag("pillar_merge_lists"),
    ))
}
