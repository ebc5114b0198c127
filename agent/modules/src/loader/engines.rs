//! Engines: custom modules of `_engines` that run for the life of a daemon and fire events.
//!
//! Each engine has a thread, which runs its process and starts it again when it ends.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use state::exec::Exec;
use state::module::Error;
use state::opts::Opts;
use value::{Map, Value, log};

use crate::loader::custom::engine::{self, Process};

/// The engine that is part of every daemon: it answers events by the option `reactor`.
pub const REACTOR: &str = "reactor";

/// The pause before an engine that has ended is started again. It doubles with each end.
const RESTART_FIRST: Duration = Duration::from_secs(1);
/// The longest pause.
const RESTART_MAX: Duration = Duration::from_secs(300);
/// The run time after which an engine counts as healthy: its next pause is the first one again.
const HEALTHY: Duration = Duration::from_secs(60);

/// The time that an engine has to end after SIGTERM. After it the engine gets SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// The time that the end after SIGKILL is waited for.
const KILLED: Duration = Duration::from_secs(1);

/// An engine of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Engine {
    /// Its name in the configuration.
    pub name: String,
    /// The name of its module, which is another one if `engine_module` names it.
    pub module: String,
    /// The arguments of its function `start`.
    pub options: Map,
}

/// Returns the engines of the option `engines`: a list of names and of dictionaries with one name,
/// or one dictionary.
#[must_use]
pub fn configured(opts: &Opts) -> Vec<Engine> {
    match opts.get("engines") {
        Some(Value::Map(all)) => all.iter().map(entry).collect(),
        Some(Value::List(all)) => all
            .iter()
            .filter_map(|one| match one {
                Value::Map(one) => one.first().map(entry),
                one => Some(entry((one, &Value::Null))),
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn entry((name, options): (&Value, &Value)) -> Engine {
    let mut options = options.as_map().cloned().unwrap_or_default();
    let name = name.to_text();
    let module = options.remove("engine_module");
    Engine {
        module: module.map_or_else(|| name.clone(), |module| module.to_text()),
        name,
        options,
    }
}

/// A function that creates the context in which an engine's calls are answered. Each start of an
/// engine has a new context, so that it finds files that were copied meanwhile.
pub type Context = Arc<dyn Fn() -> Exec + Send + Sync>;

/// The engines that run.
#[derive(Debug, Default)]
pub struct Engines(Vec<(Arc<Control>, JoinHandle<()>)>);

impl Engines {
    /// Starts the engines of the configuration that are custom modules. An engine that cannot be
    /// started is an error in the log, and is tried again.
    #[must_use]
    pub fn start(opts: &Opts, context: &Context) -> Self {
        let all = configured(opts).into_iter();
        let custom = all.filter(|engine| engine.module != REACTOR);
        let start = |engine: Engine| {
            let control = Arc::new(Control::default());
            let (controlled, context) = (control.clone(), context.clone());
            let thread = std::thread::spawn(move || keep_running(&engine, &context, &controlled));
            (control, thread)
        };
        Self(custom.map(start).collect())
    }

    /// Ends all engines. Returns when their processes are gone, or could not be killed.
    pub fn stop(self) {
        for (signal, time) in [(Signal::TERM, GRACE), (Signal::KILL, KILLED)] {
            for (control, _) in &self.0 {
                control.end(signal);
            }
            let until = Instant::now() + time;
            while self.0.iter().any(|(_, thread)| !thread.is_finished()) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

/// The state that a daemon and the thread of an engine share.
#[derive(Debug, Default)]
struct Control {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_over: bool,
    process: Option<Process>,
}

impl Control {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.state().is_over
    }

    /// Notes the process of the engine. A process that is started after the end is killed.
    fn has(&self, process: Process) {
        let mut state = self.state();
        if state.is_over {
            process.signal(Signal::KILL);
        }
        state.process = Some(process);
    }

    /// Prevents further starts, and sends the process a signal.
    fn end(&self, signal: Signal) {
        let mut state = self.state();
        state.is_over = true;
        if let Some(process) = &state.process {
            process.signal(signal);
        }
        self.changed.notify_all();
    }

    /// Waits for a time, or until the end.
    fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut state = self.state();
        while !state.is_over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Runs an engine, again and again until the daemon ends.
fn keep_running(engine: &Engine, context: &Context, control: &Control) {
    let mut pauses = Pauses::default();
    while !control.is_over() {
        let begun = Instant::now();
        let ended = engine::run(engine, &context(), &|process| control.has(process));
        if control.is_over() {
            return;
        }
        let pause = pauses.next(begun.elapsed());
        tell(&engine.name, ended, pause);
        control.pause(pause);
    }
}

fn tell(name: &str, ended: Result<(), Error>, pause: Duration) {
    let again = format_args!("starting it again in {} s", pause.as_secs()).to_string();
    match ended {
        Ok(()) => log::warning(format_args!("The engine {name} has ended, {again}")),
        Err(error) => log::error(format_args!(
            "The engine {name} has failed, {again}: {error}"
        )),
    }
}

/// The pauses before the next starts of an engine.
#[derive(Debug, Default)]
struct Pauses(Option<Duration>);

impl Pauses {
    /// Returns the next pause, after a run of this length.
    fn next(&mut self, ran: Duration) -> Duration {
        let last = self.0.filter(|_| ran < HEALTHY);
        let next = last.map_or(RESTART_FIRST, |last| (last * 2).min(RESTART_MAX));
        self.0 = Some(next);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::json;

    #[test]
    fn engines_are_names_dictionaries_or_one_dictionary() {
        let of = |opts: &str| {
            let all = configured(&Opts::new(json(opts))).into_iter();
            let shown = |one: Engine| (one.name, one.module, Value::Map(one.options).to_text());
            all.map(shown).collect::<Vec<_>>()
        };
        let shown = |name: &str, module: &str, options: &str| {
            (name.to_owned(), module.to_owned(), options.to_owned())
        };
        assert_eq!(
            of(
                r#"{"engines": ["a", {"b": {"x": 1}}, {"c": {"engine_module": "b", "y": 2}}, {"d": null}]}"#
            ),
            [
                shown("a", "a", "{}"),
                shown("b", "b", "{'x': 1}"),
                shown("c", "b", "{'y': 2}"),
                shown("d", "d", "{}"),
            ]
        );
        let both = [shown("a", "a", "{}"), shown("b", "b", "{'x': 1}")];
        assert_eq!(of(r#"{"engines": {"a": null, "b": {"x": 1}}}"#), both);
        assert_eq!(of("{}"), []);
    }

    #[test]
    fn pauses_double_until_an_engine_was_healthy() {
        let mut pauses = Pauses::default();
        let short = Duration::from_secs(2);
        let first: Vec<u64> = (0..11).map(|_| pauses.next(short).as_secs()).collect();
        assert_eq!(first, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(pauses.next(HEALTHY), RESTART_FIRST);
        assert_eq!(pauses.next(short), RESTART_FIRST * 2);
    }

    #[test]
    fn an_end_interrupts_a_pause() {
        let control = Arc::new(Control::default());
        let paused = control.clone();
        let thread = std::thread::spawn(move || paused.pause(RESTART_MAX));
        control.end(Signal::TERM);
        thread.join().unwrap();
        assert!(control.is_over());
    }
}
