//! Runs an engine: a custom module of `_engines` whose function `start` does not return.

use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use state::custom::{Custom as _, Kind};
use state::exec::Exec;
use state::module::Error;
use state::targets::minion_event;
use value::{Map, Value, log};

use super::folder::File;
use super::host::{Failed, Host, Limit, Program, Role};
use super::index::described;
use super::{CustomModules, answer, load_limit};
use crate::loader::engines::{Engine, REACTOR};

/// The number of events that an engine may fire each second, on average, and (`BURST`) at once. An
/// engine that fires more has to wait.
const EVENTS_PER_SECOND: u32 = 100;
const BURST: u32 = 1000;
/// The interval at which a warning about waiting engines is repeated.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The process of an engine, which leads a process group.
#[derive(Clone, Debug)]
pub(crate) struct Process(pub(super) Arc<Mutex<Child>>);

impl Process {
    /// Sends a signal to the process and its children, if it still runs.
    pub(crate) fn signal(&self, signal: Signal) {
        // The lock keeps the process from being reaped, so its id belongs to no other process.
        let mut child = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        if let (Ok(None), Some(pid)) = (child.try_wait(), pid)
            && let Err(error) = kill_process_group(pid, signal)
        {
            log::warning(format_args!(
                "cannot send a signal to the process {}: {error}",
                child.id()
            ));
        }
    }
}

/// Runs an engine until it ends. `started` receives its process.
///
/// # Errors
/// When there is no such engine, it cannot be started, or it fails.
pub(crate) fn run(engine: &Engine, cx: &Exec, started: &dyn Fn(Process)) -> Result<(), Error> {
    if cx.is_disabled(Kind::Engine, &engine.module) {
        return Err("it is disabled by disable_engines".into());
    }
    let custom = CustomModules::new(cx.opts());
    let file = file(&custom, cx, engine)?;
    let program = custom.program(&file)?;
    let host = Host::start(&program, &custom.folder, Role::Engine(engine.name.clone()))?;
    started(host.process());
    let running = Running {
        custom: &custom,
        cx,
        file,
        pace: Pace::new(Instant::now()),
    };
    running.run(engine, host)
}

/// Finds the file of an engine: the one with its name, or a Python file that has the name as its
/// `__virtualname__`. Programs are not searched, because an engine begins to work when it is started.
fn file(custom: &CustomModules, cx: &Exec, engine: &Engine) -> Result<File, Error> {
    let index = custom.index(Kind::Engine);
    let module = &engine.module;
    if let Some(file) = index.file(module) {
        return Ok(file);
    }
    let function = format!("{module}.start");
    let files = index.files();
    let has = |file: &&File| {
        let loaded = file.python.then(|| index.module(custom, cx, file));
        loaded
            .flatten()
            .is_some_and(|loaded| loaded.signature(&function).is_some())
    };
    let found = files.iter().find(has).cloned();
    // The child that has looked is not needed any more.
    custom.refresh();
    if let Some(file) = found {
        return Ok(file);
    }
    let known: Vec<&str> = files.iter().map(|file| file.stem.as_str()).collect();
    let known = match known.is_empty() {
        true => "which has no files".to_owned(),
        false => format!("which has: {}", known.join(", ")),
    };
    Err(Error::refused(format!(
        "it is neither the built-in engine ({REACTOR}) nor a file in {}, {known}. Add {module}.py or a program {module} to _engines of file_roots, and run saltutil.sync_engines",
        index.folder().display()
    )))
}

struct Running<'a> {
    custom: &'a CustomModules,
    cx: &'a Exec,
    file: File,
    pace: Pace,
}

impl Running<'_> {
    fn run(mut self, engine: &Engine, mut host: Host) -> Result<(), Error> {
        let path = self.file.path.display().to_string();
        if matches!(host.program, Program::Python(_)) {
            self.load(&mut host, &path)?;
        }
        let full = format!("{}.start", engine.module);
        let request = Map::new()
            .with("run", full)
            .with("file", path.as_str())
            .with("args", Value::list([]))
            .with("kwargs", engine.options.clone())
            .with("test", false)
            .with("saltenv", self.cx.saltenv.as_str());
        let endless = Limit {
            name: "",
            time: None,
        };
        let ended = host.ask(&path, &request, endless, &mut |said| {
            self.heard(engine, said)
        })?;
        ended.map(drop).map_err(Failed::into_error)
    }

    /// Loads the module, which may refuse to work on this machine.
    fn load(&mut self, host: &mut Host, path: &str) -> Result<(), Error> {
        let request = Map::new().with("load", path);
        let what = format!("The custom module {path} cannot be loaded");
        let (custom, cx) = (self.custom, self.cx);
        let mut answer = |said: &Map| Some(answer::within(custom, cx, said, false));
        let loaded = host.ask(&what, &request, load_limit(), &mut answer)?;
        let said = loaded.map_err(Failed::into_error)?;
        let module = described(&self.file, said.get("return").unwrap_or(&Value::Null));
        module.has("start").map_err(|problem| {
            let problem = problem.unwrap_or_else(|| "it has no function start".to_owned());
            Error::refused(format!("{path}: {problem}"))
        })
    }

    /// Handles a message of the engine. An event has no answer.
    fn heard(&mut self, engine: &Engine, said: &Map) -> Option<Map> {
        let call = said.get("call").and_then(Value::as_str);
        if said.contains("tag") || call.is_some_and(|call| call.starts_with("event.")) {
            self.pace.wait(&engine.name);
        }
        if said.contains("tag") {
            if let Err(error) = self.fire(said) {
                let name = &engine.name;
                log::error(format_args!(
                    "cannot fire an event of the engine {name}: {error}"
                ));
            }
            return None;
        }
        Some(answer::within(self.custom, self.cx, said, false))
    }

    /// Fires the event of a line `{"tag": …, "data": …}`. A master's own events have no sender.
    fn fire(&self, said: &Map) -> Result<(), Error> {
        let (tag, data) = match (said.get("tag"), said.get("data")) {
            (Some(Value::Str(tag)), Some(Value::Map(data))) => (&**tag, data.clone()),
            (Some(Value::Str(tag)), None) => (&**tag, Map::new()),
            _ => return Err("the tag must be text, and the data a dictionary".into()),
        };
        let is_masters = self.cx.opts().text("__role") == Some("master");
        let data = match is_masters {
            true => data,
            false => minion_event(self.cx.opts().id(), tag, data),
        };
        self.cx.shared.targets.fire(self.cx, tag, data)
    }
}

/// The rate at which an engine fires events.
#[derive(Debug)]
struct Pace {
    /// The time at which all events so far would have been fired at the average rate.
    due: Instant,
    warned: Option<Instant>,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self {
            due: now,
            warned: None,
        }
    }

    /// Counts an event, and returns how long it has to wait.
    fn delay(&mut self, now: Instant) -> Duration {
        let each = Duration::from_secs(1) / EVENTS_PER_SECOND;
        self.due = self.due.max(now) + each;
        let ahead = self.due.saturating_duration_since(now);
        ahead.saturating_sub(each * BURST)
    }

    /// Waits until the next event may be fired.
    fn wait(&mut self, name: &str) {
        let now = Instant::now();
        let delay = self.delay(now);
        if delay.is_zero() {
            return;
        }
        if self.warned.is_none_or(|warned| warned + WARN_EVERY <= now) {
            self.warned = Some(now);
            log::warning(format_args!(
                "the engine {name} fires more than {EVENTS_PER_SECOND} events a second, and has to wait"
            ));
        }
        std::thread::sleep(delay);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::testing::{Events, events_of};

    /// The folder of a test's engines, the context in which they work, and the events they fired.
    struct Machine {
        folder: tempfile::TempDir,
        cx: Exec,
        events: Events,
    }

    impl Machine {
        fn with(name: &str, text: &str, opts: Map) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("engines").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            let mode = if name.contains('.') { 0o644 } else { 0o755 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let extmods = folder.path().display().to_string();
            let opts = opts.with("extension_modules", extmods);
            let (cx, events) = events_of(opts, Map::new());
            Self { folder, cx, events }
        }

        /// Runs an engine to its end, and returns its error.
        fn run(&self, module: &str, options: Map) -> String {
            let engine = Engine {
                name: "mine".into(),
                module: module.into(),
                options,
            };
            let ended = run(&engine, &self.cx, &|_| ());
            ended.map_or_else(|error| error.to_string(), |()| String::new())
        }

        fn events(&self) -> Vec<String> {
            let events = self.events.lock().unwrap();
            let shown = |(tag, data): &(String, Map)| {
                format!("{tag} {}", value::python::repr(&data.clone().into()))
            };
            events.iter().map(shown).collect()
        }
    }

    fn wrapped(tag: &str, data: &str) -> String {
        format!("{tag} {{'id': 'm1', 'tag': '{tag}', 'data': {data}, 'cmd': '_minion_event'}}")
    }

    #[test]
    fn a_python_engine_fires_events_by_functions_and_by_the_event_bus() {
        let text = "import salt.utils.event\n\n__virtualname__ = 'clock'\n\ndef __virtual__():\n    return __virtualname__\n\ndef start(step, n=1):\n    __salt__['event.send']('my/send', {'step': step, 'n': n})\n    bus = salt.utils.event.get_event('minion', opts=__opts__)\n    bus.fire_event({'n': 2}, 'my/bus')\n    bus = salt.utils.event.get_master_event(__opts__, __opts__['sock_dir'])\n    bus.fire_event({'n': 3}, 'my/master')\n";
        let opts = Map::new().with("sock_dir", "/run");
        let machine = Machine::with("ticker.py", text, opts);
        let step = Map::new().with("step", 5);
        assert_eq!(machine.run("clock", step.clone()), "");
        let fired = [
            wrapped("my/send", "{'step': 5, 'n': 1}"),
            wrapped("my/bus", "{'n': 2}"),
            "my/master {'n': 3}".to_owned(),
        ];
        assert_eq!(machine.events(), fired);
        assert_eq!(machine.run("ticker", step), "");
        let error = machine.run("ticker", Map::new());
        assert!(
            error.contains("missing 1 required positional argument: 'step'"),
            "{error}"
        );
    }

    #[test]
    fn a_program_is_an_engine_that_prints_events() {
        let text = "#!/bin/sh\nread -r request\necho '{\"tag\": \"my/tag\", \"data\": {\"n\": 1}}'\necho '{\"tag\": \"my/bare\"}'\necho '{\"tag\": 7}'\necho '{\"call\": \"test.echo\", \"args\": [\"back\"]}'\nread -r reply\ncase $request-$reply in\n*'\"kwargs\": {\"url\": \"x\"}'*back*) echo '{\"return\": null}' ;;\nesac\n";
        let machine = Machine::with("printer", text, Map::new());
        assert_eq!(machine.run("printer", Map::new().with("url", "x")), "");
        assert_eq!(
            machine.events(),
            [wrapped("my/tag", "{'n': 1}"), wrapped("my/bare", "{}")]
        );
        let error = machine.run("printer", Map::new());
        assert!(
            error.contains("ended unexpectedly (exit status: 0)"),
            "{error}"
        );
    }

    #[test]
    fn events_of_a_masters_engine_have_no_sender() {
        let text = "#!/bin/sh\necho '{\"tag\": \"my/tag\", \"data\": {\"n\": 1}}'\necho '{\"return\": 1}'\n";
        let machine = Machine::with("printer", text, Map::new().with("__role", "master"));
        assert_eq!(machine.run("printer", Map::new()), "");
        assert_eq!(machine.events(), ["my/tag {'n': 1}"]);
    }

    #[test]
    fn an_engine_that_cannot_run_says_why() {
        let text =
            "def __virtual__():\n    return (False, 'no kafka here')\n\ndef start():\n    pass\n";
        let opts = Map::new().with("disable_engines", Value::list(["off".into()]));
        let machine = Machine::with("kafka.py", text, opts);
        let other = machine.folder.path().join("engines/other.py");
        fs::write(other, "def begin():\n    pass\n").unwrap();
        for (module, part) in [
            ("kafka", "no kafka here"),
            ("other", "it has no function start"),
            ("off", "it is disabled by disable_engines"),
            (
                "nosuch",
                "neither the built-in engine (reactor) nor a file in",
            ),
            ("nosuch", "which has: kafka, other. Add nosuch.py"),
        ] {
            let error = machine.run(module, Map::new());
            assert!(error.contains(part), "{module}: {error}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_or_no_message_ends_an_engine() {
        let text = "#!/bin/sh\nhead -c 1100000 /dev/zero | tr '\\0' x\necho\nsleep 60\n";
        let machine = Machine::with("long", text, Map::new());
        let began = Instant::now();
        let error = machine.run("long", Map::new());
        // It fails to write the rest, or the sleep is killed.
        assert!(error.contains("the process"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(30));
        let machine = Machine::with("text", "#!/bin/sh\necho hello\nsleep 60\n", Map::new());
        let error = machine.run("text", Map::new());
        assert!(
            error.contains("wrote a line that is not a message"),
            "{error}"
        );
        assert!(error.ends_with("hello"), "{error}");
    }

    #[test]
    fn events_wait_after_a_burst() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        for _ in 0..BURST {
            assert_eq!(pace.delay(start), Duration::ZERO);
        }
        assert_eq!(pace.delay(start), Duration::from_millis(10));
        assert_eq!(pace.delay(start), Duration::from_millis(20));
        // Once the events are paid for, a new burst is possible.
        let later = start + Duration::from_secs(60);
        for _ in 0..BURST {
            assert_eq!(pace.delay(later), Duration::ZERO);
        }
        assert!(!pace.delay(later).is_zero());
    }
}
