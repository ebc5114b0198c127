//! The part of the `state` execution module that shows states without applying them, and that
//! disables states.

use std::io::Write;
use std::time::{Duration, Instant};

use ::state::compile::{self, Fault, HighData, Plan};
use ::state::exec::Exec;
use ::state::lock;
use ::state::low::RequisiteKind;
use ::state::module::Error;
use ::state::top;
use value::glob::fnmatch;
use value::json::{self, Layout};
use value::{Map, Value};

use crate::event_bus::Listener;
use crate::state_run::{Request, refused, retcode};

::state::exec_module! {
    /// Apply states to this machine, and show their data.
    mod state;

    /// Return the high data of the given SLS files.
    ///
    ///     salt-call state.show_sls nginx
    fn show_sls(ShowSls {
        /// The names of the SLS files: a list, or a text with commas.
        mods: Value,
        /// The test mode in which the states are shown, as in a run.
        test: Option<Value> = None,
        /// Accepted and ignored, because nothing is applied.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// Return the low data of the given SLS files, without `extend`, `exclude` and `_in` requisites
    /// applied.
    ///
    ///     salt-call state.show_low_sls nginx
    fn show_low_sls(ShowLowSls {
        /// The names of the SLS files: a list, or a text with commas.
        mods: Value,
        /// The test mode in which the states are shown, as in a run.
        test: Option<Value> = None,
        /// Accepted and ignored, because nothing is applied.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// Return the high data of the states that the top files assign to this minion.
    ///
    ///     salt-call state.show_highstate
    fn show_highstate(ShowHighstate {
        /// Accepted and ignored, because nothing is applied.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// Return the low data of the states that the top files assign to this minion, in the order in
    /// which they would run.
    ///
    ///     salt-call state.show_lowstate
    fn show_lowstate(ShowLowstate {
        /// Accepted and ignored, because nothing is applied.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// Return the names of the SLS files that a highstate would apply.
    ///
    ///     salt-call state.show_states
    fn show_states(ShowStates {
        /// Accepted and ignored, because nothing is applied.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// Return the SLS files that the top files assign to this minion, for each environment.
    ///
    ///     salt-call state.show_top
    fn show_top(ShowTop {
        /// Accepted and ignored, because nothing is applied.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// Return the SLS files of each environment that the top files assign to this minion, and those
    /// that they do not.
    ///
    ///     salt-call state.show_state_usage
    fn show_state_usage(ShowStateUsage {
        /// Accepted and ignored, because nothing is applied.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// Return True when the given SLS files can be rendered.
    ///
    ///     salt-call state.sls_exists nginx
    fn sls_exists(SlsExists {
        /// The names of the SLS files: a list, or a text with commas.
        mods: Value,
        /// The test mode in which the states are shown, as in a run.
        test: Option<Value> = None,
        /// Accepted and ignored, because nothing is applied.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// Return True when the given SLS files contain all of these IDs.
    ///
    ///     salt-call state.id_exists nginx app
    fn id_exists(IdExists {
        /// The IDs: a list, or a text with commas.
        ids: Value,
        /// The names of the SLS files: a list, or a text with commas.
        mods: Value,
        /// The test mode in which the states are shown, as in a run.
        test: Option<Value> = None,
        /// Accepted and ignored, because nothing is applied.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// Return the requisite graph of the given SLS files in the DOT language.
    ///
    ///     salt-call state.graph nginx
    fn graph(Graph {
        /// The names of the SLS files: a list, or a text with commas.
        mods: Value,
        /// The test mode in which the states are shown, as in a run.
        test: Option<Value> = None,
        /// Accepted and ignored, because nothing is applied.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// Return a sentence about the state run that is in progress on this machine.
    ///
    ///     salt-call state.running
    fn running(Running {
        /// True to return nothing, because another run does not matter.
        concurrent: bool = false,
    });

    /// Disable SLS files or functions on this machine.
    ///
    ///     salt-call state.disable nginx
    fn disable(Disable {
        /// The SLS files or functions: a list, or a text with commas.
        states: Value,
    });

    /// Enable disabled SLS files or functions.
    ///
    ///     salt-call state.enable nginx
    fn enable(Enable {
        /// The SLS files or functions: a list, or a text with commas.
        states: Value,
    });

    /// Return the disabled SLS files and functions.
    ///
    ///     salt-call state.list_disabled
    fn list_disabled(ListDisabled {});

    /// Print the events of this machine as they arrive, up to a number of events or until Ctrl-C.
    ///
    ///     salt-call state.event 'salt/job/*' count=1
    fn event(Event {
        /// A glob that matches the tags of the events.
        tagmatch: String = "*".into(),
        /// The number of events to print; unlimited if negative.
        count: i64 = -1,
        /// True to print nothing.
        quiet: bool = false,
        /// Not supported: the socket directory comes from the configuration.
        sock_dir: Option<String> = None,
        /// True to print the data on several lines.
        pretty: bool = false,
        /// Accepted and ignored: the events are those of this machine.
        node: String = "minion".into(),
    });
}

/// Returns the context in which states are shown. A pillar that fails to render is an error.
fn shown_in(cx: &Exec, request: &Request) -> Result<Exec, Error> {
    let own = request.context(cx)?;
    let faults = request.pillar_faults(&own)?;
    if faults.is_empty() {
        return Ok(own);
    }
    own.set_retcode(retcode::PILLAR);
    let errors = faults.iter().skip(1).map(|fault| fault.text.as_str());
    Err(Error::refused(format!(
        "Pillar failed to render\n{}",
        errors.collect::<Vec<_>>().join("\n")
    )))
}

fn request(kwargs: &Map, test: Option<&Value>) -> Request {
    Request {
        test: test.cloned(),
        ..Request::from_kwargs("state.show", kwargs)
    }
}

/// Returns the value to show or, if there were faults, the answer that reports them.
fn or_refused(cx: &Exec, shown: Result<Value, Vec<Fault>>) -> Value {
    shown.unwrap_or_else(|faults| refused(cx, &faults))
}

fn high_of(cx: &Exec, mods: &Value) -> Result<HighData, Vec<Fault>> {
    compile::high_data(cx, &mods.split_input(), &cx.saltenv)
}

fn show_sls(cx: &Exec, args: ShowSls) -> Result<Value, Error> {
    let request = request(&args.kwargs, args.test.as_ref());
    let own = shown_in(cx, &request)?;
    Ok(or_refused(
        &own,
        high_of(&own, &args.mods).map(|high| high.map().clone().into()),
    ))
}

fn low_of(cx: &Exec, mods: &Value) -> Result<Plan, Vec<Fault>> {
    high_of(cx, mods)?.plan_as_written(cx)
}

fn lows(plan: &Plan) -> Value {
    Value::from(plan.lowstate())
}

fn show_low_sls(cx: &Exec, args: ShowLowSls) -> Result<Value, Error> {
    let request = request(&args.kwargs, args.test.as_ref());
    let own = shown_in(cx, &request)?;
    Ok(or_refused(
        &own,
        low_of(&own, &args.mods).map(|plan| lows(&plan)),
    ))
}

/// Returns the SLS files that the top files assign to this minion.
fn top_of(cx: &Exec, request: &Request) -> Result<top::Matched, Vec<Fault>> {
    let top = top::Request::from_config(cx);
    top::matched(
        cx,
        &top::Request {
            saltenv: request.saltenv.clone().or(top.saltenv),
            ..top
        },
    )
}

fn show_highstate(cx: &Exec, args: ShowHighstate) -> Result<Value, Error> {
    let request = request(&args.kwargs, None);
    let own = shown_in(cx, &request)?;
    let high = top_of(&own, &request).and_then(|matched| compile::matched(&own, &matched));
    Ok(or_refused(&own, high.map(|high| high.map().clone().into())))
}

fn plan_of_top(cx: &Exec, request: &Request) -> Result<Plan, Vec<Fault>> {
    compile::matched(cx, &top_of(cx, request)?)?.plan(cx)
}

fn show_lowstate(cx: &Exec, args: ShowLowstate) -> Result<Value, Error> {
    let request = request(&args.kwargs, None);
    let own = shown_in(cx, &request)?;
    Ok(or_refused(
        &own,
        plan_of_top(&own, &request).map(|plan| lows(&plan)),
    ))
}

fn show_states(cx: &Exec, args: ShowStates) -> Result<Value, Error> {
    let request = request(&args.kwargs, None);
    let own = shown_in(cx, &request)?;
    Ok(or_refused(
        &own,
        plan_of_top(&own, &request).map(|plan| Value::list(plan.states())),
    ))
}

fn show_top(cx: &Exec, args: ShowTop) -> Result<Value, Error> {
    let request = request(&args.kwargs, None);
    let own = shown_in(cx, &request)?;
    Ok(or_refused(
        &own,
        top_of(&own, &request).map(|matched| matched.into_iter().collect()),
    ))
}

fn show_state_usage(cx: &Exec, args: ShowStateUsage) -> Result<Value, Error> {
    let request = request(&args.kwargs, None);
    let own = shown_in(cx, &request)?;
    let matched = match top_of(&own, &request) {
        Ok(matched) => matched,
        Err(faults) => return Ok(refused(&own, &faults)),
    };
    let mut usage = Map::new();
    for saltenv in own.shared.sources.environments()? {
        let all = ::state::tree::names(&own, &::state::host::Tree::State, &saltenv)?;
        let named = matched
            .iter()
            .find(|(env, _)| *env == saltenv)
            .map(|(_, names)| names.clone())
            .unwrap_or_default();
        let count = all.len();
        let (used, unused): (Vec<String>, Vec<String>) =
            all.into_iter().partition(|sls| named.contains(sls));
        let counts = Map::new()
            .with("count_all", count)
            .with("count_used", used.len())
            .with("count_unused", unused.len());
        let mut entry = Map::new().with("used", used).with("unused", unused);
        entry.update(counts);
        usage.insert(saltenv, entry);
    }
    Ok(usage.into())
}

fn sls_exists(cx: &Exec, args: SlsExists) -> Result<Value, Error> {
    let request = request(&args.kwargs, args.test.as_ref());
    let own = shown_in(cx, &request)?.apart();
    let exists = high_of(&own, &args.mods).is_ok();
    if !exists {
        cx.set_retcode(retcode::COMPILE);
    }
    Ok(exists.into())
}

fn id_exists(cx: &Exec, args: IdExists) -> Result<Value, Error> {
    let request = request(&args.kwargs, args.test.as_ref());
    let own = shown_in(cx, &request)?;
    let plan = match low_of(&own, &args.mods) {
        Ok(plan) => plan,
        Err(faults) => return Ok(refused(&own, &faults)),
    };
    let has = |id: &String| plan.chunks().iter().any(|low| low.id == *id);
    Ok(args.ids.split_input().iter().all(has).into())
}

fn graph(cx: &Exec, args: Graph) -> Result<Value, Error> {
    let request = request(&args.kwargs, args.test.as_ref());
    let own = shown_in(cx, &request)?;
    Ok(or_refused(
        &own,
        low_of(&own, &args.mods).map(|plan| dot(&plan).into()),
    ))
}

/// Returns the graph of a plan, with an arrow from each chunk to the chunks that wait for it.
fn dot(plan: &Plan) -> String {
    let mut out = String::from("digraph states {\n");
    for low in plan.chunks() {
        out += &format!(
            "    {:?} [label={:?}];\n",
            low.tag(),
            format!("{}\n{}", low.id, low.function())
        );
    }
    for low in plan.chunks() {
        for requisite in &low.requisites {
            for needed in requisite
                .chunks
                .iter()
                .filter_map(|&at| plan.chunks().get(at))
            {
                // A compensating chunk runs after the chunk that it compensates.
                let (from, to) = match requisite.kind {
                    RequisiteKind::Compensate => (low.tag(), needed.tag()),
                    _ => (needed.tag(), low.tag()),
                };
                let kind = requisite.kind.word();
                out += &format!("    {from:?} -> {to:?} [label={kind:?}];\n");
            }
        }
    }
    out + "}\n"
}

fn running(cx: &Exec, args: Running) -> Result<Value, Error> {
    if args.concurrent {
        return Ok(Value::list([]));
    }
    let holder = lock::holder(cx.opts())?;
    Ok(Value::list(holder.map(|holder| holder.sentence().into())))
}

fn switched_off(cx: &Exec) -> Vec<Value> {
    cx.grains()
        .get("state_runs_disabled")
        .and_then(Value::as_list)
        .unwrap_or_default()
        .to_vec()
}

fn keep(cx: &Exec, off: Vec<Value>) -> Result<(), Error> {
    cx.call_internal(
        "grains.setval",
        vec!["state_runs_disabled".into(), off.into()],
        Map::new(),
    )?;
    cx.refresh_grains();
    Ok(())
}

fn success_message(messages: &[String]) -> Value {
    Map::new()
        .with("res", true)
        .with("msg", messages.join("\n"))
        .into()
}

fn disable(cx: &Exec, args: Disable) -> Result<Value, Error> {
    let (mut off, mut messages) = (switched_off(cx), Vec::new());
    let before = off.len();
    for name in args.states.split_input() {
        if off.contains(&name.as_str().into()) {
            messages.push(format!("Info: {name} state already disabled."));
        } else {
            messages.push(format!("Info: {name} state disabled."));
            off.push(name.into());
        }
    }
    if off.len() != before {
        keep(cx, off)?;
    }
    Ok(success_message(&messages))
}

fn enable(cx: &Exec, args: Enable) -> Result<Value, Error> {
    let (mut off, mut messages) = (switched_off(cx), Vec::new());
    let before = off.len();
    for name in args.states.split_input() {
        match off.iter().position(|known| known.as_str() == Some(&name)) {
            Some(at) => {
                off.remove(at);
                messages.push(format!("Info: {name} state enabled."));
            }
            None => messages.push(format!("Info: {name} state already enabled.")),
        }
    }
    if off.len() != before {
        keep(cx, off)?;
    }
    Ok(success_message(&messages))
}

fn list_disabled(cx: &Exec, _args: ListDisabled) -> Result<Value, Error> {
    Ok(cx
        .grains()
        .get("state_runs_disabled")
        .cloned()
        .unwrap_or_else(|| "".into()))
}

/// The maximum time of one wait for events. The wait is repeated until enough events have arrived.
const LISTEN_TURN: Duration = Duration::from_secs(3600);

fn event(cx: &Exec, args: Event) -> Result<Value, Error> {
    if args.sock_dir.is_some() {
        return Err(Error::argument(
            "sock_dir",
            "not supported as an argument; set sock_dir in the configuration".into(),
        ));
    }
    let listener = Listener::bind(cx.opts())?;
    let layout = Layout {
        indent: args.pretty.then_some(4),
        sort_keys: args.pretty,
        ascii: true,
    };
    let mut left = args.count;
    while left != 0 {
        let Some(event) = listener.next(Instant::now() + LISTEN_TURN, |event| {
            fnmatch(&args.tagmatch, &event.tag)
        }) else {
            continue;
        };
        if !args.quiet {
            let line = format!(
                "{}\t{}\n",
                event.tag,
                json::write(&event.data.into(), layout)
            );
            if std::io::stdout()
                .lock()
                .write_all(line.as_bytes())
                .and_then(|()| std::io::stdout().flush())
                .is_err()
            {
                // The reader of standard output is gone.
                break;
            }
        }
        left -= i64::from(left > 0);
    }
    Ok(Value::Null)
}
