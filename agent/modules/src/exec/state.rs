//! The `state` execution module: applies states and shows their results.

use ::state::compile::{self, HighData, Plan};
use ::state::exec::Exec;
use ::state::module::Error;
use ::state::top;
use value::{Map, Value, log};

use crate::loader::custom::sync::{load_dynamic, load_for_orchestration};
use crate::state_run::orchestrate as orchestration;
use crate::state_run::{self, Given, refused, retcode, split_input};

::state::exec_module! {
    /// Apply states to this machine, and show their data.
    mod state;

    /// Apply the given SLS files, or the highstate if none is given.
    fn apply(Apply {
        /// The names of the SLS files: a list, or a text with commas.
        mods: Option<Value> = None,
        ..kwargs
    });

    /// Apply the states that the top files assign to this minion.
    fn highstate(Highstate {
        /// True to change nothing and report what would change.
        test: Option<Value> = None,
        /// True to wait until a run that is in progress ends.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// Apply the given SLS files.
    fn sls(Sls {
        /// The names of the SLS files: a list, or a text with commas.
        mods: Value,
        /// True to change nothing and report what would change.
        test: Option<Value> = None,
        /// The SLS files and IDs to exclude.
        exclude: Option<Value> = None,
        /// True to wait until a run that is in progress ends.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// Apply one ID of the given SLS files.
    fn sls_id(SlsId {
        /// The ID of the state.
        id_: String,
        /// The names of the SLS files: a list, or a text with commas.
        mods: Value,
        /// True to change nothing and report what would change.
        test: Option<Value> = None,
        /// True to wait until a run that is in progress ends.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// Apply the states that another top file assigns to this minion.
    fn top(Top {
        /// The path of the top file.
        topfn: String,
        /// True to change nothing and report what would change.
        test: Option<Value> = None,
        /// True to wait until a run that is in progress ends.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// Apply one state with arguments from the command line.
    fn single(Single {
        /// The name of the state function.
        fun: String,
        /// The name of the state, which is also its ID.
        name: String,
        /// True to change nothing and report what would change.
        test: Option<Value> = None,
        /// True to wait until a run that is in progress ends.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// Apply one low chunk.
    fn low(Low {
        /// The low chunk.
        data: Map,
        /// True to wait until a run that is in progress ends.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// Apply high data.
    fn high(High {
        /// The high data to apply.
        data: Map,
        /// True to change nothing and report what would change.
        test: Option<Value> = None,
        /// True to wait until a run that is in progress ends.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// Apply an SLS file that is given by its path.
    fn template(Template {
        /// The path of the file.
        tem: String,
        /// True to wait until a run that is in progress ends.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// Apply an SLS that is given as text.
    fn template_str(TemplateStr {
        /// The text of the SLS.
        tem: String,
        /// True to wait until a run that is in progress ends.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// The same as `state.apply` with `test=True`.
    fn test(Test {
        /// The names of the SLS files: a list, or a text with commas.
        mods: Option<Value> = None,
        ..kwargs
    });

    /// Run an orchestration on this machine, without a master.
    fn orchestrate(Orchestrate {
        /// The names of the orchestration's SLS files.
        mods: Value,
        /// The environment of the SLS files.
        saltenv: String = "base".into(),
        /// True to change nothing and report what would change.
        test: Option<Value> = None,
        /// The SLS files and IDs to exclude.
        exclude: Option<Value> = None,
        /// A dictionary to merge over the pillar.
        pillar: Option<Value> = None,
        /// The environment of the pillar.
        pillarenv: Option<String> = None,
        ..kwargs
    });

    /// The same as `state.orchestrate`.
    fn orch(Orch {
        /// The names of the orchestration's SLS files.
        mods: Value,
        /// The environment of the SLS files.
        saltenv: String = "base".into(),
        /// True to change nothing and report what would change.
        test: Option<Value> = None,
        /// The SLS files and IDs to exclude.
        exclude: Option<Value> = None,
        /// A dictionary to merge over the pillar.
        pillar: Option<Value> = None,
        /// The environment of the pillar.
        pillarenv: Option<String> = None,
        ..kwargs
    });
}

/// Returns the arguments that all runs have in common, including those that the function declares
/// by name.
fn given(fun: &'static str, kwargs: &Map, named: &[(&str, &Option<Value>)]) -> Given {
    let mut all = kwargs.clone();
    for (name, value) in named {
        if let Some(value) = value {
            all.insert(*name, value.clone());
        }
    }
    Given::of(fun, &all)
}

fn apply(cx: &Exec, args: Apply) -> Result<Value, Error> {
    match args.mods.filter(Value::is_true) {
        Some(mods) => run_sls(cx, &Given::of("state.apply", &args.kwargs), &mods),
        None => run_highstate(
            cx,
            &Given::of("state.apply", &args.kwargs),
            top::Request::of(cx),
        ),
    }
}

fn test(cx: &Exec, args: Test) -> Result<Value, Error> {
    apply(
        cx,
        Apply {
            mods: args.mods,
            kwargs: args.kwargs.with("test", true),
        },
    )
}

fn highstate(cx: &Exec, args: Highstate) -> Result<Value, Error> {
    let given = given(
        "state.highstate",
        &args.kwargs,
        &[("test", &args.test), ("queue", &args.queue)],
    );
    run_highstate(cx, &given, top::Request::of(cx))
}

fn top(cx: &Exec, args: Top) -> Result<Value, Error> {
    let given = given(
        "state.top",
        &args.kwargs,
        &[("test", &args.test), ("queue", &args.queue)],
    );
    let given = given.of_mods(&args.topfn.as_str().into());
    let request = top::Request {
        top: Some(args.topfn),
        top_saltenv: given.saltenv.clone(),
        ..top::Request::of(cx)
    };
    run_highstate(cx, &given, request)
}

fn sls(cx: &Exec, args: Sls) -> Result<Value, Error> {
    let named = [
        ("test", &args.test),
        ("queue", &args.queue),
        ("exclude", &args.exclude),
    ];
    run_sls(cx, &given("state.sls", &args.kwargs, &named), &args.mods)
}

/// Returns the error messages for the functions and SLS files of a request that `state.disable` has
/// disabled.
fn disabled(cx: &Exec, mods: &[String]) -> Vec<String> {
    let grains = cx.grains();
    let disabled = grains
        .get("state_runs_disabled")
        .and_then(Value::as_list)
        .unwrap_or_default()
        .to_vec();
    let mut out = Vec::new();
    for sls in mods {
        for pattern in disabled.iter().map(Value::to_text) {
            let covers = pattern == *sls
                || value::glob::is_glob(&pattern) && value::glob::fnmatch(&pattern, sls);
            if covers {
                out.push(format!(
                    "The state file \"{sls}\" is currently disabled by \"{pattern}\", to re-enable, run state.enable {pattern}."
                ));
            }
        }
    }
    out
}

fn run_sls(cx: &Exec, given: &Given, mods: &Value) -> Result<Value, Error> {
    let given = &given.clone().of_mods(mods);
    let mods = split_input(mods);
    let disabled = disabled(cx, &mods);
    if !disabled.is_empty() {
        cx.set_retcode(retcode::COMPILE);
        return Ok(disabled.into());
    }
    state_run::exclusive(cx, given, |given| {
        let own = given.context(cx)?;
        if let Some(refusal) = state_run::pillar_refusal(&own, given)? {
            return Ok(refusal);
        }
        match compile::sls(&own, &mods, &given.saltenv_or_base(cx)) {
            Ok(high) => state_run::run_high(&own, given, excluded(high, given)),
            Err(faults) => Ok(refused(&own, &faults)),
        }
    })
}

fn excluded(high: HighData, given: &Given) -> HighData {
    match &given.exclude {
        Some(exclude) if exclude.is_true() => match exclude.as_list() {
            Some(items) => high.excluding(items.to_vec()),
            None => high.excluding(split_input(exclude).into_iter().map(Value::from)),
        },
        _ => high,
    }
}

/// Returns the result of a highstate that has no states.
fn no_states(comment: &str) -> Value {
    let ret = Map::new()
        .with("result", false)
        .with("comment", comment)
        .with("name", "No States")
        .with("changes", Map::new())
        .with("__run_num__", 0);
    Map::new().with("no_|-states_|-states_|-None", ret).into()
}

const NO_MATCH: &str =
    "No Top file or master_tops data matches found. Please see master log for details.";

fn run_highstate(cx: &Exec, given: &Given, request: top::Request) -> Result<Value, Error> {
    if !disabled(cx, &["highstate".to_owned()]).is_empty() {
        let name = "Salt highstate run is disabled. To re-enable, run state.enable highstate";
        return Ok(Map::new()
            .with("name", name)
            .with("result", "False")
            .with("comment", "Disabled")
            .into());
    }
    let request = top::Request {
        saltenv: given.saltenv.clone().or(request.saltenv),
        ..request
    };
    state_run::exclusive(cx, given, |given| {
        let own = given.context(cx)?;
        if let Some(refusal) = state_run::pillar_refusal(&own, given)? {
            return Ok(refusal);
        }
        let high = match high_of_top(&own, &request) {
            Ok(high) => high.map(|high| excluded(high, given)),
            Err(refusal) => return Ok(refusal),
        };
        let nothing = match high {
            Some(high) if !high.map().is_empty() => {
                return state_run::run_high(&own, given, high);
            }
            Some(_) => no_states("No states found for this minion"),
            None => no_states(NO_MATCH),
        };
        state_run::set_retcode(&own, &nothing);
        Ok(nothing)
    })
}

/// Returns the high data of the states that the top files assign, or `None` if they assign none.
/// The error is the value to return if the top files are not valid.
fn high_of_top(cx: &Exec, request: &top::Request) -> Result<Option<HighData>, Value> {
    let matched = top::matched(cx, request).map_err(|faults| match faults.as_slice() {
        // In Salt, a top file that fails to render is a failed state, not an error.
        [one] if one.text.starts_with("Unable to render top file") => {
            log::error(one.shown());
            let ret = no_states(&one.text);
            state_run::set_retcode(cx, &ret);
            ret
        }
        faults => refused(cx, faults),
    })?;
    if matched.iter().all(|(_, names)| names.is_empty()) {
        return Ok(None);
    }
    let envs: Vec<String> = matched.iter().map(|(env, _)| env.clone()).collect();
    load_dynamic(cx, &envs);
    compile::matched(cx, &matched)
        .map(Some)
        .map_err(|faults| refused(cx, &faults))
}

fn sls_id(cx: &Exec, args: SlsId) -> Result<Value, Error> {
    let given = given(
        "state.sls_id",
        &args.kwargs,
        &[("test", &args.test), ("queue", &args.queue)],
    );
    let what = Value::list([args.id_.as_str().into(), args.mods.clone()]);
    state_run::exclusive(cx, &given.of_mods(&what), |given| {
        let own = given.context(cx)?;
        if let Some(refusal) = state_run::pillar_refusal(&own, given)? {
            return Ok(refusal);
        }
        let saltenv = given.saltenv_or_base(cx);
        let plan = compile::shown(&own, &split_input(&args.mods), &saltenv)
            .and_then(|high| high.plan_of_id(&own));
        let plan = match plan {
            Ok(plan) => plan.of_id(&args.id_),
            Err(faults) => return Ok(refused(&own, &faults)),
        };
        if plan.chunks().is_empty() {
            return Err(Error::refused(format!(
                "No matches for ID '{}' found in SLS '{}' within saltenv '{saltenv}'",
                args.id_,
                args.mods.to_text()
            )));
        }
        state_run::run_plan(&own, given, &plan)
    })
}

fn single(cx: &Exec, args: Single) -> Result<Value, Error> {
    let given = given(
        "state.single",
        &args.kwargs,
        &[("test", &args.test), ("queue", &args.queue)],
    );
    let Some((module, fun)) = args.fun.split_once('.') else {
        cx.set_retcode(retcode::COMPILE);
        return Ok("Invalid function passed".into());
    };
    let mut data = args.kwargs.clone();
    for taken in ["pillar", "pillarenv", "concurrent"] {
        data.remove(taken);
    }
    data.update(
        Map::new()
            .with("state", module)
            .with("fun", fun)
            .with("__id__", args.name.as_str())
            .with("name", args.name.as_str()),
    );
    run_one(cx, &given, data)
}

fn low(cx: &Exec, args: Low) -> Result<Value, Error> {
    let given = given("state.low", &args.kwargs, &[("queue", &args.queue)]);
    let ret = run_one(cx, &given, args.data)?;
    // Salt returns only the result of the chunk here.
    Ok(match &ret {
        Value::Map(running) => running
            .first()
            .map_or_else(|| ret.clone(), |(_, one)| one.clone()),
        _ => ret,
    })
}

fn run_one(cx: &Exec, given: &Given, data: Map) -> Result<Value, Error> {
    state_run::exclusive(cx, given, |given| {
        let own = given.context(cx)?;
        if let Some(refusal) = state_run::pillar_refusal(&own, given)? {
            return Ok(refusal);
        }
        let plan: Plan = compile::single(data.clone());
        let errors = plan
            .chunks()
            .first()
            .map(|low| compile::verify(low, &own))
            .unwrap_or_default();
        if !errors.is_empty() {
            own.set_retcode(retcode::COMPILE);
            return Ok(errors.into());
        }
        state_run::run_plan(&own, given, &plan)
    })
}

fn high(cx: &Exec, args: High) -> Result<Value, Error> {
    let given = given(
        "state.high",
        &args.kwargs,
        &[("test", &args.test), ("queue", &args.queue)],
    );
    state_run::exclusive(cx, &given, |given| {
        state_run::run_high(&given.context(cx)?, given, HighData::of(args.data.clone()))
    })
}

fn template(cx: &Exec, args: Template) -> Result<Value, Error> {
    let given = given("state.template", &args.kwargs, &[("queue", &args.queue)]);
    let given = given.of_mods(&args.tem.as_str().into());
    let saltenv = given.saltenv.clone().unwrap_or_default();
    run_compiled(cx, &given, |own| {
        compile::template(own, &args.tem, &saltenv)
    })
}

fn template_str(cx: &Exec, args: TemplateStr) -> Result<Value, Error> {
    let given = given(
        "state.template_str",
        &args.kwargs,
        &[("queue", &args.queue)],
    );
    run_compiled(cx, &given, |own| compile::template_str(own, &args.tem))
}

fn run_compiled(
    cx: &Exec,
    given: &Given,
    compiled: impl Fn(&Exec) -> Result<HighData, Vec<compile::Fault>>,
) -> Result<Value, Error> {
    state_run::exclusive(cx, given, |given| {
        let own = given.context(cx)?;
        if let Some(refusal) = state_run::pillar_refusal(&own, given)? {
            return Ok(refusal);
        }
        match compiled(&own) {
            Ok(high) => state_run::run_high(&own, given, high),
            Err(faults) => Ok(refused(&own, &faults)),
        }
    })
}

fn orchestrate(cx: &Exec, args: Orchestrate) -> Result<Value, Error> {
    let mut kwargs = args.kwargs.with("saltenv", args.saltenv);
    let more = [
        ("test", args.test),
        ("exclude", args.exclude),
        ("pillar", args.pillar),
        ("pillarenv", args.pillarenv.map(Value::from)),
    ];
    kwargs.extend(
        more.into_iter()
            .filter_map(|(key, value)| value.map(|value| (key, value))),
    );
    let given = Given::of("state.orchestrate", &kwargs);
    run_orchestration(cx, &given, &args.mods, None)
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

/// Runs an orchestration on this machine. The result has the results of the states under this
/// minion's ID, where `salt-run` has the master's ID.
///
/// `announced` is the job ID for which a runner has already fired events.
///
/// # Errors
/// When it cannot start.
pub(crate) fn run_orchestration(
    cx: &Exec,
    given: &Given,
    mods: &Value,
    announced: Option<&Value>,
) -> Result<Value, Error> {
    if let Some(pillar) = given
        .pillar
        .as_ref()
        .filter(|pillar| !matches!(pillar, Value::Map(_)))
    {
        return Err(Error::refused(format!(
            "Pillar data must be formatted as a dictionary, got {}",
            pillar.type_name()
        )));
    }
    let args = [mods.clone()];
    orchestration::orchestration(cx, &given.jid, announced, &args, || {
        let own = cx.apart();
        if cx.run.is_none() {
            // The minions of a master sync when they start. Here the sync happens now.
            load_for_orchestration(&own, &[given.saltenv_or_base(cx)]);
        }
        let running = run_sls(&own, given, mods)?;
        let data = Map::new().with(cx.opts().id(), running);
        let code = i64::from(!orchestration::check_result(&Value::Map(data.clone())));
        cx.set_retcode(code);
        Ok(Map::new()
            .with("data", data)
            .with("outputter", "highstate")
            .with("retcode", code)
            .into())
    })
}
