//! The `state` execution module: applies states and shows their results.

use ::state::compile::{self, Fault, HighData, Plan};
use ::state::exec::Exec;
use ::state::module::Error;
use ::state::top;
use value::{Map, Value, log};

use crate::loader::custom::sync::{load_dynamic, load_for_orchestration};
use crate::state_run::orchestrate as orchestration;
use crate::state_run::{Request, Stop, retcode};

::state::exec_module! {
    /// Apply states to this machine, and show their data.
    mod state;

    /// Apply the given SLS files, or the highstate if none is given.
    ///
    ///     salt-call state.apply nginx test=True
    #[facts(outputter = "highstate")]
    fn apply(Apply {
        /// The names of the SLS files: a list, or a text with commas.
        mods: Option<Value> = None,
        ..kwargs
    });

    /// Apply the states that the top files assign to this minion.
    ///
    ///     salt-call state.highstate
    #[facts(outputter = "highstate")]
    fn highstate(Highstate {
        /// True to change nothing and report what would change.
        test: Option<Value> = None,
        /// True to wait until a run that is in progress ends.
        queue: Option<Value> = None,
        /// True to fire an event for each return. The default is the option `state_events`.
        state_events: Option<Value> = None,
        ..kwargs
    });

    /// Apply the given SLS files.
    ///
    ///     salt-call state.sls nginx,app
    #[facts(outputter = "highstate")]
    fn sls(Sls {
        /// The names of the SLS files: a list, or a text with commas.
        mods: Value,
        /// True to change nothing and report what would change.
        test: Option<Value> = None,
        /// The SLS files and IDs to exclude.
        exclude: Option<Value> = None,
        /// True to wait until a run that is in progress ends.
        queue: Option<Value> = None,
        /// The kinds of custom modules to sync before the run, such as `states`: a list, or a text with
        /// commas. `all` is all of them.
        sync_mods: Option<Value> = None,
        /// True to fire an event for each return. The default is the option `state_events`.
        state_events: Option<Value> = None,
        ..kwargs
    });

    /// Apply one ID of the given SLS files.
    ///
    ///     salt-call state.sls_id nginx app
    #[facts(outputter = "highstate")]
    fn sls_id(SlsId {
        /// The ID of the state.
        id_: String,
        /// The names of the SLS files: a list, or a text with commas.
        mods: Value,
        /// True to change nothing and report what would change.
        test: Option<Value> = None,
        /// True to wait until a run that is in progress ends.
        queue: Option<Value> = None,
        /// True to fire an event for each return. The default is the option `state_events`.
        state_events: Option<Value> = None,
        ..kwargs
    });

    /// Apply the states that another top file assigns to this minion.
    ///
    ///     salt-call state.top nightly.sls
    #[facts(outputter = "highstate")]
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
    ///
    ///     salt-call state.single pkg.installed nginx
    #[facts(outputter = "highstate")]
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
    ///
    ///     salt-call state.low '{state: pkg, fun: installed, name: nginx}'
    fn low(Low {
        /// The low chunk.
        data: Map,
        /// True to wait until a run that is in progress ends.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// Apply high data.
    ///
    ///     salt-call state.high '{nginx: {pkg: [installed]}}'
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
    ///
    ///     salt-call state.template /srv/nginx.sls
    #[facts(outputter = "highstate")]
    fn template(Template {
        /// The path of the file.
        tem: String,
        /// True to wait until a run that is in progress ends.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// Apply an SLS that is given as text.
    ///
    ///     salt-call state.template_str 'nginx: pkg.installed'
    #[facts(outputter = "highstate")]
    fn template_str(TemplateStr {
        /// The text of the SLS.
        tem: String,
        /// True to wait until a run that is in progress ends.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// The same as `state.apply` with `test=True`. All arguments are passed on.
    ///
    ///     salt-call state.test nginx
    #[facts(outputter = "highstate")]
    fn test(Test {
        *args,
        ..kwargs
    });

    /// Run an orchestration on this machine, without a master.
    ///
    ///     salt-call state.orchestrate orch.deploy
    fn orchestrate(Orchestrate {
        /// The names of the orchestration's SLS files.
        mods: Value,
        #[group] options: Orchestration,
        ..kwargs
    });

    /// The same as `state.orchestrate`.
    ///
    ///     salt-call state.orch orch.deploy
    fn orch(Orch {
        /// The names of the orchestration's SLS files.
        mods: Value,
        #[group] options: Orchestration,
        ..kwargs
    });
}

::state::argument_group! {
    /// The options of an orchestration.
    pub(crate) struct Orchestration(Map) {
        /// The environment of the SLS files.
        saltenv: Value = "base".into(),
        /// True to change nothing and report what would change.
        test: Value = Value::Null,
        /// The SLS files and IDs to exclude.
        exclude: Value = Value::Null,
        /// A dictionary to merge over the pillar.
        pillar: Value = Value::Null,
        /// The environment of the pillar.
        pillarenv: Value = Value::Null,
    }
}

/// Returns the arguments that all runs have in common, including those that the function declares
/// by name.
fn request(fun: &'static str, kwargs: &Map, named: &[(&str, &Option<Value>)]) -> Request {
    let mut all = kwargs.clone();
    for (name, value) in named {
        if let Some(value) = value {
            all.insert(*name, value.clone());
        }
    }
    Request::from_kwargs(fun, &all)
}

/// Returns the stop of a run whose SLS do not compile.
fn rejection(cx: &Exec) -> impl Fn(Vec<Fault>) -> Stop {
    |faults| Stop::faults(cx, &faults)
}

fn apply(cx: &Exec, args: Apply) -> Result<Value, Error> {
    let request = Request::from_kwargs("state.apply", &args.kwargs);
    match args.mods.filter(Value::is_true) {
        Some(mods) => run_sls(cx, request, &mods),
        None => run_highstate(cx, request, top::Request::from_config(cx)),
    }
}

fn test(cx: &Exec, args: Test) -> Result<Value, Error> {
    let given = ::state::module::Arguments::new(args.args, args.kwargs.with("test", true));
    let apply = MODULE.function("apply");
    let apply = apply.ok_or_else(|| Error::not_available("state.apply".into()))?;
    apply.invoke("state.apply", cx, given)
}

fn highstate(cx: &Exec, args: Highstate) -> Result<Value, Error> {
    let named = [
        ("test", &args.test),
        ("queue", &args.queue),
        ("state_events", &args.state_events),
    ];
    let request = request("state.highstate", &args.kwargs, &named);
    run_highstate(cx, request, top::Request::from_config(cx))
}

fn top(cx: &Exec, args: Top) -> Result<Value, Error> {
    let named = [("test", &args.test), ("queue", &args.queue)];
    let request = request("state.top", &args.kwargs, &named);
    let request = request.with_mods(&args.topfn.as_str().into());
    let top = top::Request {
        top: Some(args.topfn),
        top_saltenv: request.saltenv.clone(),
        ..top::Request::from_config(cx)
    };
    run_highstate(cx, request, top)
}

fn sls(cx: &Exec, args: Sls) -> Result<Value, Error> {
    let named = [
        ("test", &args.test),
        ("queue", &args.queue),
        ("exclude", &args.exclude),
        ("sync_mods", &args.sync_mods),
        ("state_events", &args.state_events),
    ];
    let request = request("state.sls", &args.kwargs, &named);
    run_sls(cx, request, &args.mods)
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

fn run_sls(cx: &Exec, request: Request, mods: &Value) -> Result<Value, Error> {
    let request = request.with_mods(mods);
    let mods = mods.split_input();
    let disabled = disabled(cx, &mods);
    if !disabled.is_empty() {
        cx.set_retcode(retcode::COMPILE);
        return Ok(disabled.into());
    }
    request.run(cx, |own, request| {
        sync_modules(own, request)?;
        compile::sls(own, &mods, &own.saltenv)
            .and_then(|high| request.without_excluded(high).plan(own))
            .map_err(rejection(own))
    })
}

/// Syncs the kinds of custom modules that `sync_mods` names.
fn sync_modules(cx: &Exec, request: &Request) -> Result<(), Error> {
    let kinds = match &request.sync_mods {
        None => return Ok(()),
        Some(Value::Bool(true)) => vec!["all".to_owned()],
        Some(kinds) => kinds.split_input(),
    };
    let all = kinds.iter().any(|kind| kind == "all");
    let kinds = if all { vec!["all".to_owned()] } else { kinds };
    for kind in kinds {
        let function = format!("saltutil.sync_{kind}");
        if cx.function(&function).is_none() {
            log::warning(format_args!(
                "Invalid custom module type '{kind}', ignoring"
            ));
            continue;
        }
        let saltenv = Map::new().with("saltenv", cx.saltenv.as_str());
        cx.call_internal(&function, Vec::new(), saltenv)?;
    }
    Ok(())
}

/// Returns the result of a highstate that has no states, and sets the exit code.
fn no_states(cx: &Exec, comment: &str) -> Stop {
    cx.set_retcode(retcode::FAILED);
    let ret = Map::new()
        .with("result", false)
        .with("comment", comment)
        .with("name", "No States")
        .with("changes", Map::new())
        .with("__run_num__", 0);
    Stop::Refused(Map::new().with("no_|-states_|-states_|-None", ret).into())
}

const NO_MATCH: &str =
    "No Top file or master_tops data matches found. Please see master log for details.";

fn run_highstate(cx: &Exec, request: Request, top: top::Request) -> Result<Value, Error> {
    if !disabled(cx, &["highstate".to_owned()]).is_empty() {
        let name = "Salt highstate run is disabled. To re-enable, run state.enable highstate";
        return Ok(Map::new()
            .with("name", name)
            .with("result", "False")
            .with("comment", "Disabled")
            .into());
    }
    let top = top::Request {
        saltenv: request.saltenv.clone().or(top.saltenv),
        ..top
    };
    request.run(cx, |own, request| {
        let high = request.without_excluded(high_of_top(own, &top)?);
        if high.map().is_empty() {
            return Err(no_states(own, "No states found for this minion"));
        }
        high.plan(own).map_err(rejection(own))
    })
}

/// Returns the high data of the states that the top files assign. It is an error if they assign
/// none.
fn high_of_top(cx: &Exec, request: &top::Request) -> Result<HighData, Stop> {
    let matched = top::matched(cx, request).map_err(|faults| match faults.as_slice() {
        // In Salt, a top file that fails to render is a failed state, not an error.
        [one] if one.text.starts_with("Unable to render top file") => {
            log::error(one.to_text());
            no_states(cx, &one.text)
        }
        faults => Stop::faults(cx, faults),
    })?;
    if matched.iter().all(|(_, names)| names.is_empty()) {
        return Err(no_states(cx, NO_MATCH));
    }
    let envs: Vec<String> = matched.iter().map(|(env, _)| env.clone()).collect();
    load_dynamic(cx, &envs);
    compile::matched(cx, &matched).map_err(rejection(cx))
}

fn sls_id(cx: &Exec, args: SlsId) -> Result<Value, Error> {
    let named = [
        ("test", &args.test),
        ("queue", &args.queue),
        ("state_events", &args.state_events),
    ];
    let request = request("state.sls_id", &args.kwargs, &named);
    let what = Value::list([args.id_.as_str().into(), args.mods.clone()]);
    request.with_mods(&what).run(cx, |own, _| {
        let plan = compile::high_data(own, &args.mods.split_input(), &own.saltenv)
            .and_then(|high| high.plan_of_id(own))
            .map_err(rejection(own))?
            .of_id(&args.id_);
        if plan.chunks().is_empty() {
            return Err(Stop::Failed(Error::refused(format!(
                "No matches for ID '{}' found in SLS '{}' within saltenv '{}'",
                args.id_,
                args.mods.to_text(),
                own.saltenv
            ))));
        }
        Ok(plan)
    })
}

fn single(cx: &Exec, args: Single) -> Result<Value, Error> {
    let named = [("test", &args.test), ("queue", &args.queue)];
    let request = request("state.single", &args.kwargs, &named);
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
    run_one(cx, request, data)
}

fn low(cx: &Exec, args: Low) -> Result<Value, Error> {
    let request = request("state.low", &args.kwargs, &[("queue", &args.queue)]);
    let ret = run_one(cx, request, args.data)?;
    // Salt returns only the result of the chunk here.
    Ok(match &ret {
        Value::Map(running) => running
            .first()
            .map_or_else(|| ret.clone(), |(_, one)| one.clone()),
        _ => ret,
    })
}

fn run_one(cx: &Exec, request: Request, data: Map) -> Result<Value, Error> {
    let running = request.run(cx, |own, _| {
        let plan: Plan = compile::single(data);
        let errors = plan
            .chunks()
            .first()
            .map(|low| compile::verify(low, own))
            .unwrap_or_default();
        match errors.is_empty() {
            true => Ok(plan),
            false => Err(Stop::messages(own, errors)),
        }
    })?;
    Ok(match running {
        Value::Map(running) => with_parts(running),
        other => other,
    })
}

/// Moves the returns of the parts of a state into its return (`sub_state_run`), where Salt has them
/// if it applies a single state.
fn with_parts(running: Map) -> Value {
    let (mut single, mut parts) = (Map::new(), Vec::new());
    for (tag, ret) in running {
        match ret {
            Value::Map(ret) if !single.is_empty() => parts.push(part(&tag.to_text(), ret)),
            ret => drop(single.insert(tag, ret)),
        }
    }
    let whole = single.iter_mut().map(|(_, ret)| ret).next();
    if let (Some(Value::Map(ret)), false) = (whole, parts.is_empty()) {
        ret.insert("sub_state_run", Value::list(parts));
    }
    single.into()
}

/// Returns a part of a state with its low data, which its tag contains.
fn part(tag: &str, mut ret: Map) -> Value {
    ret.remove("__state_ran__");
    let names = ["state", "__id__", "name", "fun"];
    let low: Map = names.into_iter().zip(tag.split("_|-")).collect();
    ret.with("__run_num__", 0).with("low", low).into()
}

fn high(cx: &Exec, args: High) -> Result<Value, Error> {
    let named = [("test", &args.test), ("queue", &args.queue)];
    let request = request("state.high", &args.kwargs, &named);
    run_high(cx, request, |_| Ok(HighData::from_map(args.data)))
}

fn template(cx: &Exec, args: Template) -> Result<Value, Error> {
    let request = request("state.template", &args.kwargs, &[("queue", &args.queue)]);
    let request = request.with_mods(&args.tem.as_str().into());
    let saltenv = request.saltenv.clone().unwrap_or_default();
    run_high(cx, request, |own| {
        compile::template(own, &args.tem, &saltenv)
    })
}

fn template_str(cx: &Exec, args: TemplateStr) -> Result<Value, Error> {
    let named = [("queue", &args.queue)];
    let request = request("state.template_str", &args.kwargs, &named);
    run_high(cx, request, |own| compile::template_str(own, &args.tem))
}

fn run_high(
    cx: &Exec,
    request: Request,
    high: impl FnOnce(&Exec) -> Result<HighData, Vec<Fault>>,
) -> Result<Value, Error> {
    request.run(cx, |own, _| {
        high(own)
            .and_then(|high| high.plan(own))
            .map_err(rejection(own))
    })
}

fn orchestrate(cx: &Exec, args: Orchestrate) -> Result<Value, Error> {
    let mut kwargs = args.kwargs;
    kwargs.extend(args.options.0);
    let request = Request::from_kwargs("state.orchestrate", &kwargs);
    run_orchestration(cx, request, &args.mods, None)
}

fn orch(cx: &Exec, args: Orch) -> Result<Value, Error> {
    let Orch {
        mods,
        options,
        kwargs,
    } = args;
    orchestrate(
        cx,
        Orchestrate {
            mods,
            options,
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
    request: Request,
    mods: &Value,
    announced: Option<&Value>,
) -> Result<Value, Error> {
    if let Some(pillar) = request
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
    let jid = request.jid.clone();
    orchestration::orchestration(cx, &jid, announced, &args, || {
        let own = cx.apart();
        if cx.run.is_none() {
            // The minions of a master sync when they start. Here the sync happens now.
            load_for_orchestration(&own, &[request.saltenv_or_base(cx)]);
        }
        let running = run_sls(&own, request, mods)?;
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
