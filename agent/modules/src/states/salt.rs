//! The `salt` state module: the steps of an orchestration.

use std::sync::Arc;
use std::time::{Duration, Instant};

use state::boot;
use state::exec::Exec;
use state::facts::{Effects, StepKind};
use state::module::{Error, Ret};
use state::record::Event;
use state::run::events::{EventLog, Seen};
use state::targets::{HostTargets, MinionReturn, Targets, description};
use value::glob::fnmatch;
use value::{Map, Value, random, watch};

use crate::state_run::orchestrate;

mod runners;

use runners::{parallel_runners, runner, wheel};

state::state_module! {
    /// Run the steps of an orchestration: states and functions on a target, runners, wheel
    /// functions, and waiting for events.
    #[facts(effects = Effects::Command)]
    mod salt;

    /// Run states on the minions of a target.
    ///
    ///     update the web servers:
    ///       salt.state:
    ///         - tgt: web*
    ///         - sls: nginx
    ///         - batch: 25%
    #[facts(effects = Effects::Runs, step = StepKind::State, also_takes = &["roster"])]
    fn state(State {
        /// A name for the step.
        name: String,
        /// The target: the minions that run the states.
        tgt: Value,
        /// True to run on hosts of the roster, over ssh.
        ssh: bool = false,
        /// The type of the target.
        tgt_type: String = "glob".into(),
        /// The returners to use. Not supported.
        ret: Value = "".into(),
        /// The configuration of the returner.
        ret_config: Value = Value::Null,
        /// The arguments of the returner.
        ret_kwargs: Value = Value::Null,
        /// True to run the highstate.
        highstate: Option<bool> = None,
        /// The SLS files to run: a list, or names separated by commas.
        sls: Option<Value> = None,
        /// The top file to run.
        top: Option<String> = None,
        /// The environment of the SLS files.
        saltenv: Option<String> = None,
        /// True to run this step in test mode.
        test: Option<bool> = None,
        /// Pillar data that overrides the pillar.
        pillar: Option<Value> = None,
        /// The environment of the pillar.
        pillarenv: Option<String> = None,
        /// True to fail if no minion returns.
        expect_minions: bool = true,
        /// The SLS files to exclude.
        exclude: Option<Value> = None,
        /// The minions that may fail.
        fail_minions: Option<Value> = None,
        /// The maximum number of minions that may fail.
        allow_fail: Value = Value::Int(0),
        /// True to run even if another run is in progress.
        concurrent: Value = Value::Bool(false),
        /// The maximum number of seconds to wait.
        timeout: Option<Value> = None,
        /// The maximum number of minions that run at the same time, or a percentage.
        batch: Option<Value> = None,
        /// True to wait for the end of a run that is in progress.
        queue: Value = Value::Bool(false),
        /// The maximum number of matching minions to use, chosen at random, or a percentage.
        subset: Option<Value> = None,
        /// The id of the job that this step belongs to.
        orchestration_jid: Option<String> = None,
        /// True to stop at the first minion that fails.
        failhard: Option<bool> = None,
        ..kwargs
    });

    /// Run an execution function on the minions of a target.
    ///
    ///     disk.usage:
    ///       salt.function:
    ///         - tgt: '*'
    #[facts(step = StepKind::Function, also_takes = &["roster"])]
    fn function(Function {
        /// The function.
        name: String,
        /// The target: the minions that run the function.
        tgt: Value,
        /// True to run on hosts of the roster, over ssh.
        ssh: bool = false,
        /// The type of the target.
        tgt_type: String = "glob".into(),
        /// The returners to use. Not supported.
        ret: Value = "".into(),
        /// The configuration of the returner.
        ret_config: Value = Value::Null,
        /// The arguments of the returner.
        ret_kwargs: Value = Value::Null,
        /// True to fail if no minion returns.
        expect_minions: bool = false,
        /// The minions that may fail.
        fail_minions: Option<Value> = None,
        /// A function that receives the return and decides whether it is a success.
        fail_function: Option<String> = None,
        /// The positional arguments of the function.
        arg: Option<Value> = None,
        /// The named arguments of the function.
        kwarg: Option<Map> = None,
        /// The maximum number of seconds to wait.
        timeout: Option<Value> = None,
        /// The maximum number of minions that run at the same time, or a percentage.
        batch: Option<Value> = None,
        /// The maximum number of matching minions to use, chosen at random, or a percentage.
        subset: Option<Value> = None,
        /// True to stop at the first minion that fails.
        failhard: Option<bool> = None,
        ..kwargs
    });

    /// Wait until an event was received from each of a list of ids. Events count from the start of
    /// the orchestration.
    ///
    ///     myapp/deployed:
    ///       salt.wait_for_event:
    ///         - id_list: [web1, web2]
    ///         - timeout: 120
    #[facts(step = StepKind::WaitForEvent)]
    fn wait_for_event(WaitForEvent {
        /// The tag, or a glob of tags.
        name: String,
        /// The ids to wait for.
        id_list: Vec<Value>,
        /// The key in the event's data that contains the id.
        event_id: String = "id".into(),
        /// The maximum number of seconds to wait.
        timeout: f64 = 300.0,
        /// The node whose events are received.
        node: String = "master".into(),
    });

    /// Run a runner.
    ///
    ///     manage.up:
    ///       salt.runner
    #[facts(effects = Effects::Runs, step = StepKind::Runner, free_arguments = true)]
    fn runner(Runner {
        /// The runner.
        name: String,
        ..kwargs
    });

    /// Run several runners in parallel.
    ///
    ///     check the fleet:
    ///       salt.parallel_runners:
    ///         - runners:
    ///             up:
    ///               - name: manage.up
    ///             down:
    ///               - name: manage.down
    #[facts(step = StepKind::ParallelRunners)]
    fn parallel_runners(ParallelRunners {
        /// A name for the step.
        name: String,
        /// A dictionary of the runners, by id.
        runners: Value,
        ..kwargs
    });

    /// Run a wheel function.
    ///
    ///     key.accept:
    ///       salt.wheel:
    ///         - match: web1
    #[facts(step = StepKind::Wheel, free_arguments = true)]
    fn wheel(Wheel {
        /// The wheel function.
        name: String,
        ..kwargs
    });
}

/// Marks a return whose comment goes before its result, as in Salt's module. The order is visible
/// when the dictionary is printed.
fn comment_first(ret: Ret) -> Ret {
    Ret {
        comment_first: true,
        ..ret
    }
}

/// The machines that a step runs on: the hosts of rosters with `ssh: True`, or else the targets of
/// the run.
struct Machines<'a> {
    targets: &'a dyn Targets,
    hosts: Option<Arc<dyn HostTargets>>,
}

impl<'a> Machines<'a> {
    fn new(cx: &'a Exec, ssh: bool, rosters: Option<&Value>) -> Result<Self, Error> {
        let targets = &*cx.shared.targets;
        let hosts = ssh.then(|| targets.hosts(cx, rosters)).transpose()?;
        Ok(Self { targets, hosts })
    }

    fn matched(
        &self,
        cx: &Exec,
        tgt: &Value,
        tgt_type: &str,
        kind: &str,
    ) -> Result<Vec<String>, Error> {
        match &self.hosts {
            Some(hosts) => hosts.matched(cx, tgt, tgt_type),
            None => orchestrate::targeted(cx, tgt, tgt_type, kind),
        }
    }

    fn run(
        &self,
        cx: &Exec,
        ids: &[String],
        fun: &str,
        args: Vec<Value>,
        kwargs: Map,
    ) -> Result<Vec<MinionReturn>, Error> {
        match &self.hosts {
            Some(hosts) => hosts.run(cx, ids, fun, args, kwargs),
            None => self.targets.run(cx, ids, fun, args, kwargs),
        }
    }
}

fn state(cx: &Exec, args: State) -> Result<Ret, Error> {
    ran_states(cx, args).map(comment_first)
}

fn ran_states(cx: &Exec, args: State) -> Result<Ret, Error> {
    let machines = Machines::new(cx, args.ssh, args.kwargs.get("roster"))?;
    let allow_fail = match &args.allow_fail {
        Value::Int(number) => Some(*number),
        other => other.to_text().trim().parse().ok(),
    };
    let Some(allow_fail) = allow_fail else {
        return Ok(Ret::failed(
            "Passed invalid value for 'allow_fail', must be an int",
        ));
    };
    let Some((fun, mut kwargs)) = state_call(&args) else {
        return Ok(Ret::failed(
            "No highstate or sls specified, no execution made",
        ));
    };
    let Value::Bool(concurrent) = args.concurrent else {
        return Ok(Ret::failed(
            "Must pass in boolean for value of 'concurrent'",
        ));
    };
    let test = args.test.or_else(|| cx.test.then_some(true));
    let given = [
        ("test", test.map(Value::from)),
        ("pillar", args.pillar.clone().filter(Value::is_true)),
        ("pillarenv", args.pillarenv.clone().map(Value::from)),
        ("saltenv", args.saltenv.clone().map(Value::from)),
        ("exclude", args.exclude.clone()),
        ("queue", Some(args.queue.clone())),
        ("concurrent", Some(Value::from(concurrent))),
    ];
    kwargs.extend(
        given
            .into_iter()
            .filter_map(|(key, value)| value.map(|value| (key, value))),
    );
    fire_state_args(cx, &args, &kwargs);
    let ids = machines.matched(cx, &args.tgt, &args.tgt_type, "state")?;
    let group = Group {
        machines: &machines,
        batch: args.batch.as_ref(),
        subset: args.subset.as_ref(),
    };
    let mut returns = group.run(cx, ids, fun, &[], &kwargs)?;
    if machines.hosts.is_none() {
        boot::wait_for_minions(cx, &mut returns)?;
    }
    if returns.is_empty() && args.expect_minions {
        return Ok(Ret::failed("No minions returned"));
    }
    let (may_fail, warning) = fail_minions(args.fail_minions.as_ref());
    let mut ret = state_ret(&returns, &may_fail, allow_fail);
    // The return has a job id as it does with a master; without a master Salt's steps have none. A
    // batch consists of several jobs, so it has no single id.
    if let Some(minion) = returns.first().filter(|_| args.batch.is_none()) {
        ret = ret.with("__jid__", minion.jid.as_str());
    }
    ret.warnings.extend(warning);
    let is_test = args.test == Some(true) || cx.test;
    if is_test && ret.result == Some(true) && ret.changes.is_true() {
        ret.result = None;
    }
    Ok(ret)
}

/// Limits on the matching minions: the number that take part, and the number that run at the same
/// time.
struct Group<'a> {
    machines: &'a Machines<'a>,
    batch: Option<&'a Value>,
    subset: Option<&'a Value>,
}

impl Group<'_> {
    /// Runs a function on the minions.
    fn run(
        &self,
        cx: &Exec,
        mut ids: Vec<String>,
        fun: &str,
        args: &[Value],
        kwargs: &Map,
    ) -> Result<Vec<MinionReturn>, Error> {
        if let Some(subset) = self.subset {
            let most = number("subset", subset, ids.len())?;
            let begun = self.machines.targets.begun(cx)?;
            // A resumed step continues with the machines that it had chosen.
            let (mut chosen, mut others) = ids
                .into_iter()
                .partition::<Vec<_>, _>(|id| begun.contains(id));
            while chosen.len() < most && !others.is_empty() {
                chosen.push(others.swap_remove(random::index(others.len())?));
            }
            chosen.sort();
            ids = chosen;
        }
        let run = |ids: &[String]| {
            let _waiting = watch::waits(|| description("minion", ids));
            self.machines
                .run(cx, ids, fun, args.to_vec(), kwargs.clone())
        };
        let returns = match self.batch {
            Some(batch) => {
                let size = number("batch", batch, ids.len())?.max(1);
                let batches = ids.chunks(size).map(run);
                batches.collect::<Result<Vec<_>, _>>()?.concat()
            }
            None => run(&ids)?,
        };
        self.machines.targets.step_ends(cx);
        Ok(returns)
    }
}

/// Converts a number or percentage of minions to a number.
fn number(name: &'static str, given: &Value, count: usize) -> Result<usize, Error> {
    let text = given.to_text();
    let parsed = match text.trim().strip_suffix('%') {
        Some(percent) => percent
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|percent| (0.0..=100.0).contains(percent))
            .map(|percent| (count as f64 * percent / 100.0) as usize),
        None => text.trim().parse().ok(),
    };
    parsed.ok_or_else(|| {
        let problem = format!("{text} is neither a number of minions nor a percentage");
        Error::argument(name, problem)
    })
}

/// Fires the event about the start of a step, with the same data as Salt.
fn fire_state_args(cx: &Exec, args: &State, kwargs: &Map) {
    let mut kwarg = kwargs.clone();
    let arg = ["mods", "topfn"].map(|key| kwarg.remove(key));
    let sent = Map::new()
        .with("arg", Value::list(arg.into_iter().flatten()))
        .with("kwarg", kwarg)
        .with("ret", args.ret.clone())
        .with("timeout", args.timeout.clone())
        .with("tgt_type", args.tgt_type.as_str())
        .with("ssh", args.ssh)
        .with("expect_minions", args.expect_minions);
    fire_step(cx, "state", &args.name, &args.tgt, sent);
}

fn fire_step(cx: &Exec, kind: &str, name: &str, tgt: &Value, sent: Map) {
    let data = Map::new()
        .with("type", kind)
        .with("tgt", tgt.clone())
        .with("name", name)
        .with("args", sent);
    orchestrate::fire_args(cx, data);
}

/// Returns the function of the `state` module that a step calls, and its arguments.
fn state_call(args: &State) -> Option<(&'static str, Map)> {
    if args.highstate == Some(true) {
        return Some(("state.highstate", Map::new()));
    }
    if let Some(top) = args.top.as_ref().filter(|top| !top.is_empty()) {
        return Some(("state.top", Map::new().with("topfn", top)));
    }
    let sls = args.sls.as_ref().filter(|sls| sls.is_true())?;
    let mods = match sls.as_list() {
        Some(items) => items
            .iter()
            .map(Value::to_text)
            .collect::<Vec<_>>()
            .join(","),
        None => sls.to_text(),
    };
    Some(("state.sls", Map::new().with("mods", mods)))
}

/// Returns the minions that may fail, and a warning if the argument is of the wrong type.
fn fail_minions(given: Option<&Value>) -> (Vec<String>, Option<String>) {
    match given {
        None => (Vec::new(), None),
        Some(Value::Str(text)) => (
            text.split(',')
                .map(|minion| minion.trim().to_owned())
                .collect(),
            None,
        ),
        Some(Value::List(items)) => (items.iter().map(Value::to_text).collect(), None),
        Some(_) => {
            let text = "'fail_minions' needs to be a list or a comma separated string. Ignored.";
            (Vec::new(), Some(text.to_owned()))
        }
    }
}

fn state_ret(returns: &[MinionReturn], may_fail: &[String], allow_fail: i64) -> Ret {
    let (mut changes, mut failed, mut details, mut unchanged) =
        (Map::new(), Vec::new(), Vec::new(), Vec::new());
    for minion in returns {
        if !orchestrate::check_result(&minion.ret) {
            if !may_fail.contains(&minion.id) {
                failed.push(minion.id.clone());
                details.extend(failure_detail(minion));
            }
            changes.insert(minion.id.as_str(), minion.ret.clone());
        } else if orchestrate::has_changes(&minion.ret) {
            changes.insert(minion.id.as_str(), minion.ret.clone());
        } else {
            unchanged.push(minion.id.clone());
        }
    }
    let failed_too_many = i64::try_from(failed.len()).unwrap_or(i64::MAX) > allow_fail;
    let mut ret = if failed_too_many {
        let lines: Vec<String> =
            std::iter::once(format!("Run failed on minions: {}", failed.join(", ")))
                .chain(details)
                .collect();
        Ret::failed(lines.join("\n"))
    } else {
        let mut comment = "States ran successfully.".to_owned();
        if !changes.is_empty() {
            comment += &format!(" Updating {}.", joined(&changes));
        }
        if !unchanged.is_empty() {
            comment += &format!(" No changes made to {}.", unchanged.join(", "));
        }
        Ret::ok(comment)
    };
    if !changes.is_empty() {
        ret = ret.changes(Map::new().with("out", "highstate").with("ret", changes));
    }
    ret
}

fn joined(map: &Map) -> String {
    map.keys()
        .map(Value::to_text)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Describes the return of a failed minion if it is not a result of states.
fn failure_detail(minion: &MinionReturn) -> Option<String> {
    let id = &minion.id;
    match &minion.ret {
        Value::Map(_) => None,
        Value::List(items) | Value::Tuple(items) => {
            let parts: Vec<String> = items
                .iter()
                .filter(|item| item.is_true())
                .map(Value::to_text)
                .collect();
            Some(if parts.is_empty() {
                format!("Minion {id} returned an empty error list.")
            } else {
                format!("Minion {id} returned errors: {}", parts.join("; "))
            })
        }
        other => Some(format!(
            "Minion {id} returned {} instead of a state result.",
            value::python::repr(other)
        )),
    }
}

fn function(cx: &Exec, args: Function) -> Result<Ret, Error> {
    ran_function(cx, args).map(comment_first)
}

fn ran_function(cx: &Exec, args: Function) -> Result<Ret, Error> {
    let machines = Machines::new(cx, args.ssh, args.kwargs.get("roster"))?;
    if cx.test {
        return Ok(Ret::would(format!(
            "Function {} would be executed on target {}",
            args.name,
            args.tgt.to_text()
        )));
    }
    let (arg, mut warnings) = match args.arg {
        Some(Value::Str(words)) => (
            words.split_whitespace().map(Value::from).collect(),
            vec!["Please specify 'arg' as a list of arguments.".to_owned()],
        ),
        Some(other) => (other.as_list().unwrap_or_default().to_vec(), Vec::new()),
        None => (Vec::new(), Vec::new()),
    };
    let kwarg = args.kwarg.unwrap_or_default();
    let sent = Map::new()
        .with("arg", arg.clone())
        .with("kwarg", kwarg.clone())
        .with("ret", args.ret.clone())
        .with("timeout", args.timeout.clone())
        .with("tgt_type", args.tgt_type.as_str())
        .with("ssh", args.ssh)
        .with("expect_minions", args.expect_minions)
        .with("_cmd_meta", true);
    fire_step(cx, "function", &args.name, &args.tgt, sent);
    let ids = machines.matched(cx, &args.tgt, &args.tgt_type, "function")?;
    if ids.is_empty() {
        return Ok(Ret::failed(
            "No minions matched the target. No command was sent, no jid was assigned.",
        ));
    }
    let group = Group {
        machines: &machines,
        batch: args.batch.as_ref(),
        subset: args.subset.as_ref(),
    };
    let returns = group.run(cx, ids, &args.name, &arg, &kwarg)?;
    let (may_fail, warning) = fail_minions(args.fail_minions.as_ref());
    warnings.extend(warning);
    let ret = function_ret(
        cx,
        &args.name,
        &returns,
        &may_fail,
        args.fail_function.as_deref(),
    )?;
    let ret = match returns.first().filter(|_| args.batch.is_none()) {
        Some(minion) => ret.with("__jid__", minion.jid.as_str()),
        None => ret,
    };
    Ok(Ret { warnings, ..ret })
}

fn function_ret(
    cx: &Exec,
    name: &str,
    returns: &[MinionReturn],
    may_fail: &[String],
    fail_function: Option<&str>,
) -> Result<Ret, Error> {
    if returns.is_empty() {
        return Ok(Ret::failed("No minions responded"));
    }
    let (mut changes, mut failed) = (Map::new(), Vec::new());
    for minion in returns {
        let judged = match fail_function {
            Some(judge) => cx
                .call(judge, vec![minion.ret.clone()], Map::new())?
                .is_true(),
            None => true,
        };
        let refused =
            (!judged || minion.ret == Value::Bool(false)) && !may_fail.contains(&minion.id);
        if (minion.retcode != 0 || refused) && !failed.contains(&minion.id) {
            failed.push(minion.id.clone());
        }
        changes.insert(minion.id.as_str(), minion.ret.clone());
    }
    let outcome = if failed.is_empty() {
        "Function ran successfully.".to_owned()
    } else {
        format!(
            "Running function {name} failed on minions: {}",
            failed.join(", ")
        )
    };
    let comment = format!("{outcome} Function {name} ran on {}.", joined(&changes));
    let ret = if failed.is_empty() {
        Ret::ok(comment)
    } else {
        Ret::failed(comment)
    };
    Ok(ret.changes(Map::new().with("ret", changes)))
}

fn wait_for_event(cx: &Exec, args: WaitForEvent) -> Result<Ret, Error> {
    waited(cx, args).map(comment_first)
}

fn waited(cx: &Exec, args: WaitForEvent) -> Result<Ret, Error> {
    let name = &args.name;
    if cx.test {
        return Ok(Ret::would(format!(
            "Orchestration would wait for event '{name}'"
        )));
    }
    let started = Instant::now();
    let timeout = Duration::try_from_secs_f64(args.timeout).map_err(|_| {
        let problem = format!("expected a number of seconds, got {}", args.timeout);
        Error::argument("timeout", problem)
    })?;
    let (mut missing, mut seen) = (args.id_list, Vec::new());
    let _waiting = watch::waits(|| format!("the event {name}"));
    let mut look = |event: &Event| {
        let before = seen.len();
        if fnmatch(name, &event.tag) {
            // The data of an event from a minion is under the key `data`, next to the minion's id.
            let inner = event.data.get("data");
            let found = [
                event.data.get(&args.event_id),
                inner.and_then(|data| data.get(&args.event_id)),
            ];
            for found in found.into_iter().flatten() {
                take_ids(&mut missing, &mut seen, found);
            }
        }
        match seen.len() > before {
            _ if missing.is_empty() => Seen::All,
            true => Seen::Part,
            false => Seen::Other,
        }
    };
    let own = cx.run.as_ref().and_then(|run| run.record.events.clone());
    let events = own.map_or_else(|| EventLog::of_step(cx, name).map(Arc::new), Ok)?;
    let step = cx.chunk.as_ref().map(|low| low.tag()).unwrap_or_default();
    let complete = events.wait(&step, started + timeout, &mut look)?;
    let ret = if complete {
        Ret::ok(format!(
            "All events seen in {} seconds.",
            value::python::float(started.elapsed().as_secs_f64())
        ))
    } else {
        Ret::failed("Timeout value reached.")
    };
    Ok(if seen.is_empty() {
        ret
    } else {
        ret.change("minions_seen", seen)
    })
}

/// Moves the ids in an event from `missing` to `seen`.
fn take_ids(missing: &mut Vec<Value>, seen: &mut Vec<Value>, found: &Value) {
    let ids = match found {
        Value::List(ids) => ids.to_vec(),
        id => vec![id.clone()],
    };
    for id in ids {
        if let Some(index) = missing.iter().position(|wanted| *wanted == id) {
            seen.push(missing.remove(index));
        }
    }
}
