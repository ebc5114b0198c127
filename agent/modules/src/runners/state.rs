//! The `state` runner: orchestrations, on this machine.

use ::state::exec::Exec;
use ::state::module::Error;
use value::{Map, Value};

use crate::exec::state::run_orchestration;
use crate::state_run::Given;

::state::exec_module! {
    /// Orchestrations.
    mod state;

    /// Run an orchestration.
    fn orchestrate(Orchestrate {
        /// The SLS of the orchestration.
        mods: Value,
        /// Its environment.
        saltenv: String = "base".into(),
        /// Change nothing, and say what would be changed.
        test: Option<Value> = None,
        /// SLS and ids to leave out.
        exclude: Option<Value> = None,
        /// Laid over the pillar.
        pillar: Option<Value> = None,
        /// The environment of the pillar.
        pillarenv: Option<String> = None,
        ..kwargs
    });

    /// As `state.orchestrate`.
    fn orch(Orch {
        /// The SLS of the orchestration.
        mods: Value,
        /// Its environment.
        saltenv: String = "base".into(),
        /// Change nothing, and say what would be changed.
        test: Option<Value> = None,
        /// SLS and ids to leave out.
        exclude: Option<Value> = None,
        /// Laid over the pillar.
        pillar: Option<Value> = None,
        /// The environment of the pillar.
        pillarenv: Option<String> = None,
        ..kwargs
    });

    /// As `state.orchestrate`.
    fn sls(Sls {
        /// The SLS of the orchestration.
        mods: Value,
        /// Its environment.
        saltenv: String = "base".into(),
        /// Change nothing, and say what would be changed.
        test: Option<Value> = None,
        /// SLS and ids to leave out.
        exclude: Option<Value> = None,
        /// Laid over the pillar.
        pillar: Option<Value> = None,
        /// The environment of the pillar.
        pillarenv: Option<String> = None,
        ..kwargs
    });
}

fn orchestrate(cx: &Exec, args: Orchestrate) -> Result<Value, Error> {
    let more = [
        ("mods", Some(args.mods.clone())),
        ("saltenv", Some(args.saltenv.into())),
        ("test", args.test),
        ("exclude", args.exclude),
        ("pillar", args.pillar),
        ("pillarenv", args.pillarenv.map(Value::from)),
    ];
    let mut kwargs: Map = args.kwargs;
    kwargs.extend(
        more.into_iter()
            .filter_map(|(key, value)| value.map(|value| (key, value))),
    );
    let given = Given::of("state.orchestrate", &kwargs);
    run_orchestration(cx, &given, &args.mods, kwargs.get("orchestration_jid"))
}

fn orch(cx: &Exec, args: Orch) -> Result<Value, Error> {
    let Orch {
        mods,
        saltenv,
        test,
        exclude,
        pillar,
        pillarenv,
        kwargs,
    } = args;
    orchestrate(
        cx,
        Orchestrate {
            mods,
            saltenv,
            test,
            exclude,
            pillar,
            pillarenv,
            kwargs,
        },
    )
}

fn sls(cx: &Exec, args: Sls) -> Result<Value, Error> {
    let Sls {
        mods,
        saltenv,
        test,
        exclude,
        pillar,
        pillarenv,
        kwargs,
    } = args;
    orchestrate(
        cx,
        Orchestrate {
            mods,
            saltenv,
            test,
            exclude,
            pillar,
            pillarenv,
            kwargs,
        },
    )
}
