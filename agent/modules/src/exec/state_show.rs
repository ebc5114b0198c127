//! The `state` execution module: what shows states without applying them, and what switches them off.

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

use crate::bus::Listener;
use crate::state_run::{Given, pillar_refusal, refused, set_retcode, split_input};

::state::exec_module! {
    /// Apply states to this machine, and show what they come to.
    mod state;

    /// The high data of the SLS that are named.
    fn show_sls(ShowSls {
        /// The SLS: a list, or separated by commas.
        mods: Value,
        /// As in a run.
        test: Option<Value> = None,
        /// As in a run.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// The low data of the SLS that are named, without `extend`, `exclude` and requisites from the other side.
    fn show_low_sls(ShowLowSls {
        /// The SLS: a list, or separated by commas.
        mods: Value,
        /// As in a run.
        test: Option<Value> = None,
        /// As in a run.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// The high data of what the top files name.
    fn show_highstate(ShowHighstate {
        /// As in a run.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// The low data of what the top files name, in the order in which it would run.
    fn show_lowstate(ShowLowstate {
        /// As in a run.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// The SLS that a highstate would apply.
    fn show_states(ShowStates {
        /// As in a run.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// Which SLS the top files name for this minion, by environment.
    fn show_top(ShowTop {
        /// As in a run.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// Which SLS of each environment the top files name for this minion, and which not.
    fn show_state_usage(ShowStateUsage {
        /// As in a run.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// True when the SLS that are named can be rendered.
    fn sls_exists(SlsExists {
        /// The SLS: a list, or separated by commas.
        mods: Value,
        /// As in a run.
        test: Option<Value> = None,
        /// As in a run.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// True when the SLS that are named have all of these ids.
    fn id_exists(IdExists {
        /// The ids: a list, or separated by commas.
        ids: Value,
        /// The SLS: a list, or separated by commas.
        mods: Value,
        /// As in a run.
        test: Option<Value> = None,
        /// As in a run.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// The requisite graph of the SLS that are named, in the dot language.
    fn graph(Graph {
        /// The SLS: a list, or separated by commas.
        mods: Value,
        /// As in a run.
        test: Option<Value> = None,
        /// As in a run.
        queue: Option<Value> = None,
        ..kwargs
    });

    /// The state run that is under way on this machine, in a sentence.
    fn running(Running {
        /// Say nothing: another run does not matter.
        concurrent: bool = false,
    });

    /// Switch SLS or functions off on this machine.
    fn disable(Disable {
        /// The SLS or functions: a list, or separated by commas.
        states: Value,
    });

    /// Switch SLS or functions on again.
    fn enable(Enable {
        /// The SLS or functions: a list, or separated by commas.
        states: Value,
    });

    /// What is switched off.
    fn list_disabled(ListDisabled {});

    /// Print the events of this machine as they come, until so many came or Ctrl-C.
    fn event(Event {
        /// A glob of tags.
        tagmatch: String = "*".into(),
        /// How many; below 0 without end.
        count: i64 = -1,
        /// Print nothing.
        quiet: bool = false,
        /// Where the bus is: that of the configuration.
        sock_dir: Option<String> = None,
        /// Data on several lines.
        pretty: bool = false,
        /// Whose events.
        node: String = "minion".into(),
    });
}

/// The context to show states in; a pillar that does not render is an error.
fn shown_in(cx: &Exec, given: &Given) -> Result<Exec, Error> {
    let own = given.context(cx)?;
    match pillar_refusal(&own, given)? {
        None => Ok(own),
        Some(refusal) => {
            let errors: Vec<String> = refusal
                .as_list()
                .unwrap_or_default()
                .iter()
                .skip(1)
                .map(Value::to_text)
                .collect();
            Err(Error::refused(format!(
                "Pillar failed to render\n{}",
                errors.join("\n")
            )))
        }
    }
}

fn given(kwargs: &Map, test: Option<&Value>) -> Given {
    Given {
        test: test.cloned(),
        ..Given::of("state.show", kwargs)
    }
}

/// What `show` makes of it, or the refusal.
fn or_refused(cx: &Exec, shown: Result<Value, Vec<Fault>>) -> Value {
    shown.unwrap_or_else(|faults| refused(cx, &faults))
}

fn high_of(cx: &Exec, given: &Given, mods: &Value) -> Result<HighData, Vec<Fault>> {
    compile::shown(cx, &split_input(mods), &given.saltenv_or_base(cx))
}

fn show_sls(cx: &Exec, args: ShowSls) -> Result<Value, Error> {
    let given = given(&args.kwargs, args.test.as_ref());
    let own = shown_in(cx, &given)?;
    Ok(or_refused(
        &own,
        high_of(&own, &given, &args.mods).map(|high| high.map().clone().into()),
    ))
}

fn low_of(cx: &Exec, given: &Given, mods: &Value) -> Result<Plan, Vec<Fault>> {
    high_of(cx, given, mods)?.plan_as_written(cx)
}

fn lows(plan: &Plan) -> Value {
    Value::from(plan.lowstate())
}

fn show_low_sls(cx: &Exec, args: ShowLowSls) -> Result<Value, Error> {
    let given = given(&args.kwargs, args.test.as_ref());
    let own = shown_in(cx, &given)?;
    Ok(or_refused(
        &own,
        low_of(&own, &given, &args.mods).map(|plan| lows(&plan)),
    ))
}

/// What the top files name for this minion.
fn top_of(cx: &Exec, given: &Given) -> Result<top::Matched, Vec<Fault>> {
    let request = top::Request::of(cx);
    top::matched(
        cx,
        &top::Request {
            saltenv: given.saltenv.clone().or(request.saltenv),
            ..request
        },
    )
}

fn show_highstate(cx: &Exec, args: ShowHighstate) -> Result<Value, Error> {
    let given = given(&args.kwargs, None);
    let own = shown_in(cx, &given)?;
    let high = top_of(&own, &given).and_then(|matched| compile::matched(&own, &matched));
    let ret = or_refused(&own, high.map(|high| high.map().clone().into()));
    if matches!(ret, Value::List(_)) {
        set_retcode(&own, &ret);
    }
    Ok(ret)
}

fn plan_of_top(cx: &Exec, given: &Given) -> Result<Plan, Vec<Fault>> {
    compile::matched(cx, &top_of(cx, given)?)?.plan(cx)
}

fn show_lowstate(cx: &Exec, args: ShowLowstate) -> Result<Value, Error> {
    let given = given(&args.kwargs, None);
    let own = shown_in(cx, &given)?;
    Ok(or_refused(
        &own,
        plan_of_top(&own, &given).map(|plan| lows(&plan)),
    ))
}

fn show_states(cx: &Exec, args: ShowStates) -> Result<Value, Error> {
    let given = given(&args.kwargs, None);
    let own = shown_in(cx, &given)?;
    Ok(or_refused(
        &own,
        plan_of_top(&own, &given).map(|plan| Value::list(plan.states())),
    ))
}

fn show_top(cx: &Exec, args: ShowTop) -> Result<Value, Error> {
    let given = given(&args.kwargs, None);
    let own = shown_in(cx, &given)?;
    Ok(or_refused(
        &own,
        top_of(&own, &given).map(|matched| matched.into_iter().collect()),
    ))
}

fn show_state_usage(cx: &Exec, args: ShowStateUsage) -> Result<Value, Error> {
    let given = given(&args.kwargs, None);
    let own = shown_in(cx, &given)?;
    let matched = match top_of(&own, &given) {
        Ok(matched) => matched,
        Err(faults) => return Ok(refused(&own, &faults)),
    };
    let mut usage = Map::new();
    for saltenv in own.shared.sources.environments() {
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
    let given = given(&args.kwargs, args.test.as_ref());
    let own = shown_in(cx, &given)?.apart();
    Ok(high_of(&own, &given, &args.mods).is_ok().into())
}

fn id_exists(cx: &Exec, args: IdExists) -> Result<Value, Error> {
    let given = given(&args.kwargs, args.test.as_ref());
    let own = shown_in(cx, &given)?;
    let plan = match low_of(&own, &given, &args.mods) {
        Ok(plan) => plan,
        Err(faults) => return Ok(refused(&own, &faults)),
    };
    let has = |id: &String| plan.chunks().iter().any(|low| low.id == *id);
    Ok(split_input(&args.ids).iter().all(has).into())
}

fn graph(cx: &Exec, args: Graph) -> Result<Value, Error> {
    let given = given(&args.kwargs, args.test.as_ref());
    let own = shown_in(cx, &given)?;
    Ok(or_refused(
        &own,
        low_of(&own, &given, &args.mods).map(|plan| dot(&plan).into()),
    ))
}

/// A picture of the plan: an arrow from each chunk to those that wait for it.
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
                // What compensates a chunk comes after it.
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

fn told(messages: &[String]) -> Value {
    Map::new()
        .with("res", true)
        .with("msg", messages.join("\n"))
        .into()
}

fn disable(cx: &Exec, args: Disable) -> Result<Value, Error> {
    let (mut off, mut messages) = (switched_off(cx), Vec::new());
    let before = off.len();
    for name in split_input(&args.states) {
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
    Ok(told(&messages))
}

fn enable(cx: &Exec, args: Enable) -> Result<Value, Error> {
    let (mut off, mut messages) = (switched_off(cx), Vec::new());
    let before = off.len();
    for name in split_input(&args.states) {
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
    Ok(told(&messages))
}

fn list_disabled(cx: &Exec, _args: ListDisabled) -> Result<Value, Error> {
    Ok(cx
        .grains()
        .get("state_runs_disabled")
        .cloned()
        .unwrap_or_else(|| "".into()))
}

/// Every wait has an end; this one begins anew until enough events came.
const LISTEN_TURN: Duration = Duration::from_secs(3600);

fn event(cx: &Exec, args: Event) -> Result<Value, Error> {
    if args.sock_dir.is_some() {
        return Err(Error::argument(
            "sock_dir",
            "the bus is in the sock_dir of the configuration; set it there".into(),
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
                // Nobody reads any more.
                break;
            }
        }
        left -= i64::from(left > 0);
    }
    Ok(Value::Null)
}
