//! A minimal set of modules to test the engine, with Salt's texts.

use std::sync::Mutex;

use value::{Map, Value};

use crate::exec::{Exec, Registry};
use crate::facts::Need;
use crate::module::{Error, Module, Ret};
use crate::opts::Opts;
use crate::sources::{SourceFile, Sources};
use crate::targets::{MinionReturn, Targets};

const WOULD: &str = "If we weren't testing, this would be successful with changes";

mod states {
    use super::*;

    crate::state_module! {
        /// Pretends.
        #[module(aggregate = joined)]
        mod test;

        /// Does nothing.
        fn nop(Nop { name: String, ..kwargs });
        /// Succeeds.
        fn succeed_without_changes(Succeed { name: String, ..kwargs });
        /// Succeeds with changes.
        fn succeed_with_changes(SucceedChanging { name: String, ..kwargs });
        /// Fails.
        fn fail_without_changes(Fail { name: String, ..kwargs });
        /// Fails with changes.
        fn fail_with_changes(FailChanging { name: String, ..kwargs });
        /// Does as told.
        fn configurable_test_state(Configurable {
            name: String,
            changes: Value = true.into(),
            result: Value = true.into(),
            comment: String = String::new(),
            warnings: Option<String> = None,
        });
        /// Shows a text.
        fn show_notification(Notification { name: String, text: String = String::new(), ..kwargs });
        /// Takes its time.
        fn sleep(Sleep { name: String, seconds: f64, });
        /// Changes something, and tells others not to mind.
        fn skipper(Skipper { name: String, });
        /// Needs a program that no machine has.
        fn needs_program(NeedsProgram { name: String, });
        /// Is made of two parts.
        fn parts(Parts { name: String, });
        /// What watched.
        fn mod_watch(Watch { name: String, sfun: Value = Value::Null, ..kwargs });
    }

    fn pretended() -> Map {
        let change = Map::new()
            .with("old", "Unchanged")
            .with("new", "Something pretended to change");
        Map::new().with("testing", change)
    }

    fn comment(kwargs: &Map, default: &str) -> String {
        kwargs
            .get("comment")
            .map_or_else(|| default.into(), Value::to_text)
    }

    fn nop(cx: &Exec, args: Nop) -> Result<Ret, Error> {
        succeed_without_changes(
            cx,
            Succeed {
                name: args.name,
                kwargs: args.kwargs,
            },
        )
    }

    fn succeed_without_changes(_: &Exec, args: Succeed) -> Result<Ret, Error> {
        Ok(Ret::ok(comment(&args.kwargs, "Success!")))
    }

    fn succeed_with_changes(cx: &Exec, args: SucceedChanging) -> Result<Ret, Error> {
        let comment = comment(&args.kwargs, "Success!");
        cx.apply(Ret::would(WOULD).changes(pretended()), || {
            Ok(Ret::ok(comment).changes(pretended()))
        })
    }

    fn fail_without_changes(cx: &Exec, args: Fail) -> Result<Ret, Error> {
        if cx.test {
            return Ok(Ret::failed(
                "If we weren't testing, this would be a failure!",
            ));
        }
        Ok(Ret::failed(comment(&args.kwargs, "Failure!")))
    }

    fn fail_with_changes(cx: &Exec, args: FailChanging) -> Result<Ret, Error> {
        if cx.test {
            let ret = Ret::would("If we weren't testing, this would be failed with changes");
            return Ok(ret.changes(pretended()));
        }
        Ok(Ret::failed(comment(&args.kwargs, "Failure!")).changes(pretended()))
    }

    fn configurable_test_state(cx: &Exec, args: Configurable) -> Result<Ret, Error> {
        let mut ret = Ret::ok(args.comment);
        if args.changes.is_true() {
            ret = ret.changes(pretended());
        }
        ret.result = Some(args.result.is_true());
        ret.warnings.extend(args.warnings);
        if cx.test {
            ret.result = if ret.changes.is_true() {
                None
            } else {
                Some(true)
            };
            ret.comment = if ret.comment.is_empty() {
                "This is a test".into()
            } else {
                ret.comment
            };
        }
        Ok(ret)
    }

    fn show_notification(_: &Exec, args: Notification) -> Result<Ret, Error> {
        Ok(Ret::ok(args.text))
    }

    fn sleep(_: &Exec, args: Sleep) -> Result<Ret, Error> {
        std::thread::sleep(std::time::Duration::from_secs_f64(args.seconds));
        Ok(Ret::ok("slept"))
    }

    fn skipper(_: &Exec, args: Skipper) -> Result<Ret, Error> {
        Ok(Ret::ok("")
            .changes(Map::new().with("did", args.name))
            .with("skip_req", true))
    }

    fn needs_program(_: &Exec, args: NeedsProgram) -> Result<Ret, Error> {
        Err(format!("{} was called without its program", args.name).into())
    }

    fn parts(_: &Exec, args: Parts) -> Result<Ret, Error> {
        let part = |fun: &str| {
            let low = Map::new()
                .with("state", "file")
                .with("fun", fun)
                .with("name", args.name.as_str())
                .with("__id__", "part");
            Map::new()
                .with("low", low)
                .with("changes", Map::new())
                .with("result", true)
        };
        Ok(Ret::ok("").with("sub_state_run", vec![part("one"), part("two")]))
    }

    fn mod_watch(cx: &Exec, args: Watch) -> Result<Ret, Error> {
        let (low, run) = (cx.chunk.as_ref().unwrap(), cx.run.as_ref().unwrap());
        let watched = low.data.get("__reqs__").and_then(|reqs| reqs.get("watch"));
        let running = run.running.lock().unwrap();
        let changed = |chunk: &&Value| {
            let tag = crate::low::LowChunk::from_map(chunk.as_map().unwrap().clone()).tag();
            running.get(&tag).unwrap().get("changes").unwrap().is_true()
        };
        let shown = |chunk: &Value| {
            let text = |key| chunk.get(key).unwrap().to_text();
            Value::from(format!("{}: {}", text("state"), text("__id__")))
        };
        let watched = watched.and_then(Value::as_list).unwrap_or_default();
        let changed = Value::list(watched.iter().filter(changed).map(shown));
        Ok(Ret::ok(comment(&args.kwargs, "Watch statement fired."))
            .change("Requisites with changes", changed))
    }
}

mod functions {
    use super::*;

    crate::exec_module! {
        /// Answers.
        mod test;

        /// Is there.
        fn ping(Ping {});
        /// Says it again.
        fn echo(Echo { text: Value, });
        /// Says what it got.
        fn arg(Arguments { *rest, ..kwargs });
    }

    fn ping(_: &Exec, _: Ping) -> Result<Value, Error> {
        Ok(true.into())
    }

    fn echo(_: &Exec, args: Echo) -> Result<Value, Error> {
        Ok(args.text)
    }

    fn arg(_: &Exec, args: Arguments) -> Result<Value, Error> {
        Ok(Map::new()
            .with("args", args.rest)
            .with("kwargs", args.kwargs)
            .into())
    }
}

mod file {
    use super::*;

    crate::exec_module! {
        /// Looks.
        mod file;

        /// Whether it is there.
        fn file_exists(Exists { path: String, });
    }

    fn file_exists(_: &Exec, args: Exists) -> Result<Value, Error> {
        Ok(std::path::Path::new(&args.path).exists().into())
    }
}

static COMMANDS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Returns the calls of `cmd.retcode` so far.
pub(crate) fn commands() -> Vec<String> {
    COMMANDS.lock().unwrap().clone()
}

mod cmd {
    use super::*;

    crate::exec_module! {
        /// Pretends to run commands.
        mod cmd;

        /// The number in `exit N`.
        fn retcode(Retcode { cmd: String, ..kwargs });
    }

    fn retcode(_: &Exec, args: Retcode) -> Result<Value, Error> {
        let call = format!("{} {}", args.cmd, Value::from(args.kwargs).to_text());
        COMMANDS.lock().unwrap().push(call);
        match args.cmd.as_str() {
            "true" => Ok(0.into()),
            "false" => Ok(1.into()),
            command => match command.strip_prefix("exit ") {
                Some(code) => Ok(code.parse::<i64>().unwrap().into()),
                None => Err("it cannot be run".into()),
            },
        }
    }
}

const STATES: &[Module<Ret>] = &[states::MODULE];
const FUNCTIONS: &[Module<Value>] = &[cmd::MODULE, file::MODULE, functions::MODULE];

/// Combines notifications: the first one shows the texts of all.
fn joined(low: &Map, others: &[Map]) -> (Map, Vec<bool>) {
    let all = std::iter::once(low).chain(others);
    let texts = all.filter_map(|low| low.get("text")).map(Value::to_text);
    let text = texts.collect::<Vec<_>>().join(" ");
    (low.clone().with("text", text), vec![true; others.len()])
}

static CRONTAB: Need = Need {
    program: "crontab",
    sentence: "no crontab",
    package: Some("cron"),
};

static REGISTRY: Registry = Registry {
    returners: Vec::new,
    states: STATES,
    functions: FUNCTIONS,
    runners: &[],
    wheel: &[],
    pillars: &[],
    missing: |_, _, full| (full == "test.needs_program").then(|| "no crontab".into()),
    lacks: |_, full| (full == "test.needs_program").then_some(&CRONTAB),
    grains: |opts: &Opts| {
        opts.get("grains")
            .and_then(Value::as_map)
            .cloned()
            .unwrap_or_default()
    },
};

struct Nothing;

impl Sources for Nothing {
    fn file(&self, _: &str, _: &str) -> Result<Option<SourceFile>, Error> {
        Ok(None)
    }
    fn list(&self, _: &str) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }
    fn environments(&self) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }
    fn pillar(&self, _: &Exec) -> Result<Map, Error> {
        Ok(Map::new())
    }
}

/// A target provider that stores events in the context of the run.
struct NoTargets;

impl Targets for NoTargets {
    fn resolve(&self, _: &Exec, _: &Value, _: &str) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }
    fn run(
        &self,
        _: &Exec,
        _: &[String],
        _: &str,
        _: Vec<Value>,
        _: Map,
    ) -> Result<Vec<MinionReturn>, Error> {
        Ok(Vec::new())
    }
    fn fire(&self, cx: &Exec, tag: &str, data: Map) -> Result<(), Error> {
        let told = data.get("data").unwrap().get("ret").unwrap();
        assert!(told.get("comment").is_some());
        cx.context(|context| {
            let events = context.entry("events", || Value::list([]));
            events.as_list_mut().unwrap().push(tag.into());
        });
        Ok(())
    }
}

/// Returns the tags of the events that were fired.
pub(crate) fn events(cx: &Exec) -> Vec<String> {
    let events = cx.context(|context| context.get("events").cloned().unwrap());
    events
        .as_list()
        .unwrap()
        .iter()
        .map(Value::to_text)
        .collect()
}

/// Returns a context for a run.
pub(crate) fn exec(opts: Map) -> Exec {
    let mut map = Map::new()
        .with("id", "minion")
        .with("cachedir", "/nonexistent");
    map.update(opts);
    Exec::new(
        Opts::new(map),
        &REGISTRY,
        Box::new(Nothing),
        Box::new(NoTargets),
    )
}
