//! The `state` runner: orchestrations, on this machine.

use ::state::exec::Exec;
use ::state::module::Error;
use ::state::record;
use value::{Map, Value, jid};

use crate::exec::state::{Orchestration, run_orchestration};
use crate::state_run::{Request, orchestrate};

::state::exec_module! {
    /// Run orchestrations.
    mod state;

    /// Run an orchestration.
    ///
    ///     salt-run state.orchestrate orch.deploy
    #[facts(orchestrates = true)]
    fn orchestrate(Orchestrate {
        /// The SLS of the orchestration: a list, or names separated by commas.
        mods: Value,
        #[group] options: RunnerOptions,
        ..kwargs
    });

    /// Run an orchestration. This is another name for `state.orchestrate`.
    ///
    ///     salt-run state.orch orch.deploy
    #[facts(orchestrates = true)]
    fn orch(Orch {
        /// The SLS of the orchestration: a list, or names separated by commas.
        mods: Value,
        #[group] options: RunnerOptions,
        ..kwargs
    });

    /// Run an orchestration. This is another name for `state.orchestrate`.
    ///
    ///     salt-run state.sls orch.deploy
    #[facts(orchestrates = true)]
    fn sls(Sls {
        /// The SLS of the orchestration: a list, or names separated by commas.
        mods: Value,
        #[group] options: RunnerOptions,
        ..kwargs
    });

    /// Run one state as an orchestration.
    ///
    ///     salt-run state.orchestrate_single salt.state deploy tgt='web*' sls=nginx
    fn orchestrate_single(OrchestrateSingle {
        /// The name of the state function.
        fun: String,
        /// The name and id of the state.
        name: String,
        /// Change nothing, and report what would be changed.
        test: Value = Value::Null,
        /// Wait for the end of a run that is under way.
        queue: bool = false,
        /// A dictionary that is merged over the pillar.
        pillar: Value = Value::Null,
        ..kwargs
    });

    /// Run high data as an orchestration.
    ///
    ///     salt-run state.orchestrate_high '{deploy: {salt.state: [{tgt: web*}, {sls: nginx}]}}'
    fn orchestrate_high(OrchestrateHigh {
        /// The high data.
        data: Map,
        /// Change nothing, and report what would be changed.
        test: Value = Value::Null,
        /// Wait for the end of a run that is under way.
        queue: bool = false,
        /// A dictionary that is merged over the pillar.
        pillar: Value = Value::Null,
        ..kwargs
    });

    /// Return the high data of an orchestration.
    ///
    ///     salt-run state.orchestrate_show_sls orch.deploy
    fn orchestrate_show_sls(OrchestrateShowSls {
        /// The SLS: a list, or names separated by commas.
        mods: Value,
        #[group] options: ShowOptions,
    });

    /// Return the high data of an orchestration. This is another name for
    /// `state.orchestrate_show_sls`.
    ///
    ///     salt-run state.orch_show_sls orch.deploy
    fn orch_show_sls(OrchShowSls {
        /// The SLS: a list, or names separated by commas.
        mods: Value,
        #[group] options: ShowOptions,
    });

    /// Pause a run before one of its states, or before the next state.
    ///
    ///     salt-run state.pause 20260102030405678901 deploy
    fn pause(Pause {
        /// The job id of the run.
        jid: Value,
        /// The id of the state; by default the next state.
        state_id: Value = Value::Null,
        /// The duration of the pause in seconds; by default until `state.resume`.
        duration: Value = Value::Null,
    });

    /// Resume a paused run.
    ///
    ///     salt-run state.resume 20260102030405678901
    fn resume(Resume {
        /// The job id of the run.
        jid: Value,
        /// The id of the state that the run waits before.
        state_id: Value = Value::Null,
    });

    /// End a run before one of its states, or before the next state.
    ///
    ///     salt-run state.soft_kill 20260102030405678901
    fn soft_kill(SoftKill {
        /// The job id of the run.
        jid: Value,
        /// The id of the state; by default the next state.
        state_id: Value = Value::Null,
    });
}

::state::argument_group! {
    /// The options of an orchestration.
    pub(crate) struct RunnerOptions(Map) {
        #[group] options: Orchestration,
        /// The renderer that decrypts `pillar`: `gpg`.
        pillar_enc: Value = Value::Null,
        /// The job id for which events were fired already.
        orchestration_jid: Value = Value::Null,
    }
}

::state::argument_group! {
    /// The options that show an orchestration.
    pub(crate) struct ShowOptions {
        /// The environment of the SLS.
        saltenv: String = "base".into(),
        /// Use test mode, as for a run.
        test: Value = Value::Null,
        /// Wait for the end of a run that is under way.
        queue: bool = false,
        /// A dictionary that is merged over the pillar.
        pillar: Value = Value::Null,
        /// The environment of the pillar.
        pillarenv: Value = Value::Null,
        /// The renderer that decrypts `pillar`: `gpg`.
        pillar_enc: Value = Value::Null,
    }
}

fn orchestrate_single(cx: &Exec, args: OrchestrateSingle) -> Result<Value, Error> {
    let words = vec![args.fun.into(), args.name.into()];
    let kwargs = run_kwargs(args.kwargs, args.test, args.queue, args.pillar)?;
    as_minion(cx, "state.single", words, kwargs)
}

fn orchestrate_high(cx: &Exec, args: OrchestrateHigh) -> Result<Value, Error> {
    let kwargs = run_kwargs(args.kwargs, args.test, args.queue, args.pillar)?;
    as_minion(cx, "state.high", vec![args.data.into()], kwargs)
}

fn orchestrate_show_sls(cx: &Exec, args: OrchestrateShowSls) -> Result<Value, Error> {
    show_sls(cx, args.mods, args.options)
}

fn orch_show_sls(cx: &Exec, args: OrchShowSls) -> Result<Value, Error> {
    show_sls(cx, args.mods, args.options)
}

fn show_sls(cx: &Exec, mods: Value, options: ShowOptions) -> Result<Value, Error> {
    let kwargs = run_kwargs(Map::new(), options.test, options.queue, options.pillar)?
        .with("saltenv", options.saltenv)
        .with("pillarenv", options.pillarenv)
        .with("pillar_enc", options.pillar_enc);
    as_minion(cx, "state.show_sls", vec![mods], kwargs)
}

/// Returns the arguments of a run in the form of its execution function.
fn run_kwargs(kwargs: Map, test: Value, queue: bool, pillar: Value) -> Result<Map, Error> {
    if !matches!(pillar, Value::Null | Value::Map(_)) {
        let text = "Pillar data must be formatted as a dictionary";
        return Err(Error::refused(text.into()));
    }
    Ok(kwargs
        .with("test", test)
        .with("queue", queue)
        .with("pillar", pillar))
}

/// Calls an execution function on this machine, and returns its return under this minion's id.
fn as_minion(cx: &Exec, function: &str, args: Vec<Value>, kwargs: Map) -> Result<Value, Error> {
    let answer = cx.apart().call(function, args, kwargs)?;
    Ok(Map::new().with(cx.opts().id(), answer).into())
}

fn pause(cx: &Exec, args: Pause) -> Result<Value, Error> {
    let words = vec![args.jid, args.state_id, args.duration];
    cx.call_internal("state.pause", words, Map::new())
}

fn resume(cx: &Exec, args: Resume) -> Result<Value, Error> {
    cx.call_internal("state.resume", vec![args.jid, args.state_id], Map::new())
}

fn soft_kill(cx: &Exec, args: SoftKill) -> Result<Value, Error> {
    cx.call_internal("state.soft_kill", vec![args.jid, args.state_id], Map::new())
}

fn orchestrate(cx: &Exec, args: Orchestrate) -> Result<Value, Error> {
    run(cx, args.mods, args.options, args.kwargs)
}

fn orch(cx: &Exec, args: Orch) -> Result<Value, Error> {
    run(cx, args.mods, args.options, args.kwargs)
}

fn sls(cx: &Exec, args: Sls) -> Result<Value, Error> {
    run(cx, args.mods, args.options, args.kwargs)
}

fn run(cx: &Exec, mods: Value, options: RunnerOptions, mut kwargs: Map) -> Result<Value, Error> {
    kwargs.insert("mods", mods.clone());
    kwargs.extend(options.0);
    let mut request = Request::from_kwargs("state.orchestrate", &kwargs);
    let announced = kwargs.get("orchestration_jid");
    if let Some(jid) = announced.and_then(|jid| free_jid(cx, jid)) {
        request.jid = jid;
    }
    run_orchestration(cx, request, &mods, announced)
}

/// Returns the job id of the outermost orchestration's events, which its record has, too. A nested
/// one has no record, and one that is resumed has that of the earlier run.
fn free_jid(cx: &Exec, announced: &Value) -> Option<String> {
    let jid = announced.as_str().filter(|jid| jid::is_jid(jid))?;
    let is_outermost = cx.run.is_none() && orchestrate::orchestration_jid(cx).is_none();
    let is_free = !record::folder(cx.opts()).join(jid).exists();
    (is_outermost && is_free).then(|| jid.to_owned())
}
