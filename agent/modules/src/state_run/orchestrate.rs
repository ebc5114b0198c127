//! The environment of an orchestration's steps: this machine as the only target, runners, wheel
//! functions, and the events of all these.

use machine::accounts::users;
use state::ask::Ask;
use state::custom::Kind;
use state::exec::{Exec, find};
use state::matcher;
use state::module::{Arguments, Error, Extra, Module};
use state::targets::{MinionReturn, Sink, Subscription, Targets};
use value::{Map, Value, jid, log};

use crate::event_bus::{self, Delivery, Event};
use crate::loader::call::joined;
use crate::state_run::job_events::{self, JobEvents};

/// The result of a runner or wheel function.
#[derive(Clone, Debug)]
pub struct RunnerResult {
    /// The return value, or the text of the error.
    pub ret: Value,
    /// True if it succeeded.
    pub success: bool,
    /// True if it ended with an error, whose text is then in `ret`.
    pub raised: bool,
    /// The job id.
    pub jid: String,
    /// The job in the form of its events: `fun`, `jid`, `user`, `fun_args`, `return`, `success`.
    pub data: Map,
}

impl RunnerResult {
    /// Creates the result of a function that failed.
    #[must_use]
    pub fn failed(text: impl Into<String>) -> Self {
        Self {
            ret: text.into().into(),
            success: false,
            raised: true,
            jid: jid::new(),
            data: Map::new(),
        }
    }
}

/// A client that runs functions without a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    Runner,
    Wheel,
}

impl Client {
    fn modules(self, cx: &Exec) -> &'static [Module<Value>] {
        match self {
            Self::Runner => cx.shared.registry.runners,
            Self::Wheel => cx.shared.registry.wheel,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Runner => "runner",
            Self::Wheel => "wheel",
        }
    }

    fn kind(self) -> Kind {
        match self {
            Self::Runner => Kind::Runner,
            Self::Wheel => Kind::Wheel,
        }
    }

    /// Returns the part of its events' tags that identifies the client.
    fn prefix(self) -> &'static str {
        match self {
            Self::Runner => "run",
            Self::Wheel => "wheel",
        }
    }
}

/// Runs a runner that needs no master.
#[must_use]
pub fn runner(cx: &Exec, name: &str, args: Vec<Value>, kwargs: Map) -> RunnerResult {
    runner_as(cx, jid::new(), name, args, kwargs)
}

/// Like [`runner`], with the given job id.
#[must_use]
pub fn runner_as(
    cx: &Exec,
    jid: String,
    name: &str,
    args: Vec<Value>,
    kwargs: Map,
) -> RunnerResult {
    runner_by(cx, &users::current(), jid, name, args, kwargs)
}

/// Like [`runner_as`], in the name of the given user.
#[must_use]
pub fn runner_by(
    cx: &Exec,
    user: &Value,
    jid: String,
    name: &str,
    args: Vec<Value>,
    mut kwargs: Map,
) -> RunnerResult {
    if cx.shared.registry.orchestrates(name) {
        // A nested orchestration belongs to the outermost one.
        let outermost = orchestration_jid(cx).unwrap_or_else(|| jid.clone());
        kwargs.insert("orchestration_jid", outermost);
    }
    call(cx, Client::Runner, user, jid, name, args, kwargs)
}

/// Runs a wheel function that needs no master.
#[must_use]
pub fn wheel(cx: &Exec, name: &str, args: Vec<Value>, kwargs: Map) -> RunnerResult {
    wheel_by(cx, &users::current(), jid::new(), name, args, kwargs)
}

/// Like [`wheel()`], with the given job id and in the name of the given user.
#[must_use]
pub fn wheel_by(
    cx: &Exec,
    user: &Value,
    jid: String,
    name: &str,
    args: Vec<Value>,
    kwargs: Map,
) -> RunnerResult {
    call(cx, Client::Wheel, user, jid, name, args, kwargs)
}

/// The runner whose arguments have a password, and whose return is a token.
pub const MAKES_TOKEN: &str = "auth.mk_token";
/// The text in an event for what it must not have.
const HIDDEN: &str = "***";

fn call(
    cx: &Exec,
    client: Client,
    user: &Value,
    jid: String,
    name: &str,
    args: Vec<Value>,
    kwargs: Map,
) -> RunnerResult {
    let fun = format!("{}.{name}", client.name());
    // Neither the password nor the token may be in an event.
    let is_secret = client == Client::Runner && name == MAKES_TOKEN;
    let data = match is_secret {
        false => job(&fun, user, &jid, &args, &kwargs),
        true => job(&fun, user, &jid, &[], &Map::new()),
    };
    let tag = format!("salt/{}/{jid}", client.prefix());
    announce(cx, &format!("{tag}/new"), data.clone());
    let own = cx.apart();
    let invoked = match of_master(cx, client, name, &args, &kwargs) {
        Some(answer) => answer,
        None => invoked(&own, client, name, args, kwargs),
    };
    let raised = invoked.is_err();
    let (ret, success) = match invoked {
        Ok(ret) => {
            let success = succeeded(&own, &ret);
            (ret, success)
        }
        Err(error) if error.is_not_available() => (error.to_string().into(), false),
        Err(error) => {
            let text = format!("Exception occurred in {} {name}: {error}", client.name());
            (text.into(), false)
        }
    };
    let told = match is_secret {
        false => ret.clone(),
        true => HIDDEN.into(),
    };
    let data = data.with("return", told).with("success", success);
    announce(cx, &format!("{tag}/ret"), data.clone());
    RunnerResult {
        ret,
        success,
        raised,
        jid,
        data,
    }
}

/// Returns the master's answer to a wheel function, if this program is a master; otherwise `None`.
fn of_master(
    cx: &Exec,
    client: Client,
    name: &str,
    args: &[Value],
    kwargs: &Map,
) -> Option<Result<Value, Error>> {
    if client != Client::Wheel {
        return None;
    }
    let ask = Ask::Wheel {
        fun: name.to_owned(),
        arg: joined(args.to_vec(), kwargs.clone()),
    };
    cx.ask(ask).transpose()
}

fn invoked(
    own: &Exec,
    client: Client,
    name: &str,
    args: Vec<Value>,
    kwargs: Map,
) -> Result<Value, Error> {
    if !own.permits(client.kind(), name) {
        return Err(Error::not_available(name.to_owned()));
    }
    match find(client.modules(own), name) {
        Some(function) => function.invoke(name, own, Arguments::new(args, kwargs)),
        None => {
            let custom = &own.shared.custom;
            custom
                .call_client(own, client.kind(), name, args, kwargs)
                .unwrap_or_else(|| Err(Error::not_available(name.to_owned())))
        }
    }
}

/// Returns true if a runner's return and exit code mean success. The `data` for an outputter are
/// returns of states; Salt takes every `data` for such returns.
fn succeeded(own: &Exec, ret: &Value) -> bool {
    match ret.get("data").filter(|_| ret.get("outputter").is_some()) {
        Some(data) => {
            check_result(data) && ret.get("retcode").is_none_or(|code| *code == Value::Int(0))
        }
        None => own.retcode() == 0 && !ret.get("Error").is_some_and(Value::is_true),
    }
}

/// Returns the job of a runner or wheel function in the form of its events.
fn job(fun: &str, user: &Value, jid: &str, args: &[Value], kwargs: &Map) -> Map {
    Map::new()
        .with("fun", fun)
        .with("jid", jid)
        .with("user", user.clone())
        .with("fun_args", fun_args(args, kwargs))
}

/// Returns arguments in the form of events: named ones in a dictionary at the end.
fn fun_args(args: &[Value], kwargs: &Map) -> Value {
    let named = (!kwargs.is_empty()).then(|| Value::Map(kwargs.clone()));
    Value::list(args.iter().cloned().chain(named))
}

fn fire(cx: &Exec, tag: &str, data: Map) {
    job_events::fire(cx, &*cx.shared.targets, tag, data);
}

fn announce(cx: &Exec, tag: &str, data: Map) {
    if let Err(error) = cx.shared.targets.announce(cx, tag, data) {
        log::warning(format_args!("cannot fire event {tag}: {error}"));
    }
}

/// The key of the outermost orchestration's job id in the context, while it runs.
const ORCHESTRATION: &str = "__orchestration_jid__";

/// Returns the job id of the orchestration that is under way, or the outermost one's if they are
/// nested.
#[must_use]
pub fn orchestration_jid(cx: &Exec) -> Option<String> {
    cx.context(|context| context.get(ORCHESTRATION).map(Value::to_text))
}

/// Runs an orchestration under its job id. If no runner has announced it, the outermost
/// orchestration fires its own events.
///
/// # Errors
/// Those of `work`.
pub fn orchestration(
    cx: &Exec,
    jid: &str,
    announced: Option<&Value>,
    args: &[Value],
    work: impl FnOnce() -> Result<Value, Error>,
) -> Result<Value, Error> {
    if orchestration_jid(cx).is_some() {
        return work();
    }
    let jid = announced.map_or_else(|| jid.to_owned(), Value::to_text);
    cx.context(|context| context.insert(ORCHESTRATION, jid.as_str()));
    let kwargs = Map::new().with("orchestration_jid", jid.as_str());
    let user = users::current();
    let data = job("runner.state.orchestrate", &user, &jid, args, &kwargs);
    let tag = format!("salt/run/{jid}");
    if announced.is_none() {
        fire(cx, &format!("{tag}/new"), data.clone());
    }
    let ret = work();
    cx.context(|context| context.remove(ORCHESTRATION));
    if announced.is_none() {
        let (ret, success) = match &ret {
            Ok(ret) => (ret.clone(), ret.get("data").is_some_and(check_result)),
            Err(error) => (error.to_string().into(), false),
        };
        let data = data.with("return", ret).with("success", success);
        fire(cx, &format!("{tag}/ret"), data);
    }
    ret
}

/// Fires the event `salt/run/JID/args`, which announces a step of an orchestration.
pub fn fire_args(cx: &Exec, data: Map) {
    if let Some(jid) = orchestration_jid(cx) {
        fire(cx, &format!("salt/run/{jid}/args"), data);
    }
}

/// Returns Salt's `check_result`: true for a dictionary of state returns in which no result is
/// False, at any depth.
#[must_use]
pub fn check_result(running: &Value) -> bool {
    let Value::Map(running) = running else {
        return false;
    };
    if running.is_empty() {
        return false;
    }
    !running.values().any(|ret| match ret {
        Value::Map(ret) if ret.contains("result") => ret.get("result") == Some(&Value::Bool(false)),
        // A minion's own return inside an orchestration.
        inner @ Value::Map(_) => !check_result(inner),
        _ => true,
    })
}

/// Returns true when a state of a return changed something.
#[must_use]
pub fn has_changes(running: &Value) -> bool {
    let changed = |ret: &Value| ret.get("changes").is_some_and(Value::is_true);
    running
        .as_map()
        .is_some_and(|running| running.values().any(changed))
}

/// Returns the ids on this machine that a step's target matches, for `masterless_tgt`.
///
/// # Errors
/// When the target is invalid.
pub fn targeted(cx: &Exec, tgt: &Value, tgt_type: &str, kind: &str) -> Result<Vec<String>, Error> {
    let matched = cx.shared.targets.resolve(cx, tgt, tgt_type)?;
    let here_anyway = match cx.opts().text("masterless_tgt").unwrap_or("default") {
        "all" => true,
        "match" => false,
        _ => kind == "state",
    };
    if matched.is_empty() && here_anyway && !cx.shared.targets.has_others(cx) {
        log::warning(format_args!(
            "The target {} ({tgt_type}) does not match this minion; running the salt.{kind} step here anyway (see masterless_tgt)",
            tgt.to_text()
        ));
        return Ok(vec![cx.opts().id().to_owned()]);
    }
    Ok(matched)
}

/// A set of targets that contains only this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisMachine;

impl Targets for ThisMachine {
    fn resolve(&self, cx: &Exec, tgt: &Value, tgt_type: &str) -> Result<Vec<String>, Error> {
        let matches = matcher::matches(cx, tgt, tgt_type)?;
        Ok(if matches {
            vec![cx.opts().id().to_owned()]
        } else {
            Vec::new()
        })
    }

    fn run(
        &self,
        cx: &Exec,
        ids: &[String],
        fun: &str,
        args: Vec<Value>,
        kwargs: Map,
    ) -> Result<Vec<MinionReturn>, Error> {
        let job = Job {
            cx,
            ids,
            fun,
            jid: jid::new(),
        };
        Ok(job.done(&args, &kwargs))
    }

    fn fire(&self, cx: &Exec, tag: &str, data: Map) -> Result<(), Error> {
        let data = data.with("_stamp", jid::stamp());
        event_bus::fire(
            cx.opts(),
            &Event {
                tag: tag.to_owned(),
                data,
            },
        )
    }

    fn subscribe(
        &self,
        cx: &Exec,
        _from: Option<u64>,
        sink: Sink,
    ) -> Result<Box<dyn Subscription>, Error> {
        let sink = Box::new(move |event: Event| sink(None, event.tag, event.data));
        Ok(Box::new(OnBus(Delivery::start(cx.opts(), sink)?)))
    }
}

/// A subscription to this machine's bus, which has no log of past events.
struct OnBus(Delivery);

impl Subscription for OnBus {
    fn catch_up(&self) {
        self.0.catch_up();
    }
}

/// A call of one function on this machine, as a job with its events.
struct Job<'a> {
    cx: &'a Exec,
    ids: &'a [String],
    fun: &'a str,
    jid: String,
}

impl Job<'_> {
    fn done(&self, args: &[Value], kwargs: &Map) -> Vec<MinionReturn> {
        let sent = if kwargs.is_empty() {
            Map::new()
        } else {
            kwargs.clone().with("__kwarg__", true)
        };
        let bus = &*self.cx.shared.targets;
        let events = JobEvents {
            jid: self.jid.clone(),
            fun: self.fun.to_owned(),
            arg: fun_args(args, &sent),
            user: users::current().to_text(),
        };
        events.announce(self.cx, bus, self.ids);
        let run_here = |id: &String| {
            let ret = self.run(id, args, kwargs);
            events.returned(self.cx, bus, &ret);
            ret
        };
        self.ids.iter().map(run_here).collect()
    }

    fn run(&self, id: &str, args: &[Value], kwargs: &Map) -> MinionReturn {
        let own = self.cx.apart();
        let mut kwargs = kwargs.clone();
        if let Some(function) = own.function(self.fun)
            && function.extra == Extra::Accept
        {
            // A job passes these to its function: `cmd.run` allows a shell because of them, and a
            // state run gets the job's id.
            kwargs.insert("__pub_fun", self.fun);
            kwargs.insert("__pub_jid", self.jid.as_str());
        }
        let (ret, retcode) = match own.call(self.fun, args.to_vec(), kwargs) {
            Ok(ret) => (ret, own.retcode()),
            Err(error) if error.is_not_available() => (error.to_string().into(), 1),
            Err(error) => (format!("ERROR: {error}").into(), 1),
        };
        MinionReturn {
            id: id.to_owned(),
            ret,
            retcode,
            jid: self.jid.clone(),
            is_missing: false,
        }
    }
}
