//! Custom modules: `_modules`, `_states` and `_grains` of the tree, synced by [`sync`] and run by children that live as long as the run.
//!
//! A module is a Python file (or package), loaded by a `python3` with a host script that this program carries, or a *program*: a
//! file without an ending and with its run bit, in any language. Both speak the same protocol: a line of JSON on the standard
//! input is a request, and a line on the standard output is the reply. The standard error goes to the log. A program is started
//! when it is first needed, serves one request after the other, and ends when its input ends. A run that needs a second one at the
//! same time (parallel states, or a function that calls a state run that calls it again) starts a second one.
//!
//! **Requests**
//!
//! | line | reply |
//! |---|---|
//! | `{"load": PATH}` | `{"return": {"name": "mymod", "functions": {"add": {"args": [["a"], ["b", 1]], "varargs": false, "kwargs": false, "doc": "…"}}}}`; an argument with two items has a default; `name` may be left out; all of a function's keys may be left out |
//! | | `{"return": {"virtual": "why it cannot be used here"}}` |
//! | `{"run": "mymod.add", "file": PATH, "args": […], "kwargs": {…}, "test": false, "saltenv": "base"}` | `{"return": VALUE}`, with `"retcode": N` where the exit code is to be N |
//! | either | `{"error": {"type": "CommandExecutionError", "text": "what went wrong"}}`, or only the text |
//!
//! **Before its reply** a child may ask, one line each, and gets one line back:
//!
//! | line | answer |
//! |---|---|
//! | `{"call": "pkg.version", "args": […], "kwargs": {…}}` | `{"return": VALUE}` or `{"error": {"type": …, "text": …}}` |
//! | `{"has": "pkg.version"}` | `{"return": true}` |
//! | `{"names": true}` | `{"return": ["cmd.run", …]}` |
//! | `{"get": "grains"}`, `"pillar"`, `"opts"` | `{"return": {…}}` |
//!
//! and may say, without an answer, `{"log": "WARNING", "name": "mymod", "text": "…"}`.
//!
//! What JSON lacks is a dictionary with one key: `{"__tuple__": […]}`, `{"__set__": […]}`, `{"__bytes__": "latin-1"}`, and
//! `{"__pairs__": [[key, value], …]}` for a dictionary whose keys are not all text.
//!
//! A whole module as a shell program, `_modules/greet` (`greet.hello`):
//! ```sh
#![doc = include_str!("greet.sh")]
//! ```
//! and in Python, `_modules/shout.py`, as Salt has it:
//! ```python
#![doc = include_str!("shout.py")]
//! ```
//!
//! **Which function is called.** A file named as a built-in module goes before it, function by function; other files are looked
//! through only for functions that no built-in module has. Nothing is started as long as no folder of synced modules exists.
//!
//! **Grains.** Each function of a file of `_grains` returns a dictionary of grains; one that takes an argument `grains` is given those
//! so far. They stand over the built-in grains and under those of the configuration, and cost a Python whenever grains are needed.
//!
//! **States.** Functions of `_states` are called with the arguments of their chunk and return Salt's dictionary (`name`, `result`,
//! `changes`, `comment`). They look at `__opts__["test"]` themselves, as Salt's do; `__states__` is not there.
//!
//! **When it is synced.** As in Salt by `saltutil.sync_modules`, `saltutil.sync_all` and a highstate (`autoload_dynamic_modules`),
//! not by `state.apply SLS`. An orchestration on this machine syncs too: with a master its minions would have done so when they
//! started.
//!
//! Limits: [`LOAD_LIMIT`] to load a module, `custom_module_timeout` seconds (3600; 0 for none) for a call, not counting what the
//! function calls back; [`HOSTS_MAX`] children at once; 64 MiB a line.

mod folder;
mod grains;
mod host;
mod index;
mod marks;
mod states;
pub mod sync;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use state::custom::{Custom, Signature};
use state::exec::Exec;
use state::module::{Error, Function, Ret};
use state::opts::Opts;
use value::{Map, Value, log};

use folder::File;
use host::{Answer, Failed, Host, Limit, Program};
use index::Index;
use states::Declared;

/// How long a module may take to be loaded.
pub const LOAD_LIMIT: Duration = Duration::from_secs(60);

/// How many children may work at once: a function that calls itself through this program for ever ends here.
pub const HOSTS_MAX: usize = 32;

/// The custom modules below `extension_modules`.
pub struct CustomModules {
    modules: Index,
    grains: Index,
    states: Index,
    declared: Declared,
    python: OnceLock<Option<PathBuf>>,
    hosts: Mutex<Hosts>,
}

/// The children: those that wait for a request, and how many there are.
#[derive(Default)]
struct Hosts {
    idle: Vec<Host>,
    busy: usize,
    started: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CustomModules {
    /// Those of this configuration. Nothing is read until a function is looked for.
    #[must_use]
    pub fn of(opts: &Opts) -> Self {
        let folder = opts.path("extension_modules");
        Self {
            modules: Index::of(folder.join("modules")),
            grains: Index::of(folder.join("grains")),
            states: Index::of(folder.join("states")),
            declared: Declared::default(),
            python: OnceLock::new(),
            hosts: Mutex::default(),
        }
    }

    /// One request to a child of its own, which is kept for the next one.
    fn ask(
        &self,
        cx: &Exec,
        file: &File,
        what: &str,
        request: &Map,
        limit: Limit,
    ) -> Result<Answer, Error> {
        let mut host = self.host(file, what)?;
        let mut answer = |asked: &Map| self.answer(cx, asked, file.python);
        let answered = host.ask(what, request, limit, &mut answer);
        let mut hosts = lock(&self.hosts);
        hosts.busy -= 1;
        if answered.is_ok() {
            hosts.idle.push(host);
            // The first one that was started works most, so that what its modules keep (`__context__`) is there again.
            value::sorted::sort_by_key(&mut hosts.idle, |host| host.number);
        }
        answered
    }

    fn host(&self, file: &File, what: &str) -> Result<Host, Error> {
        let program = self.program(file)?;
        let mut hosts = lock(&self.hosts);
        if hosts.busy >= HOSTS_MAX {
            return Err(Error::Refused(format!(
                "{what}: {HOSTS_MAX} custom functions wait for each other already: does one call itself?"
            )));
        }
        let idle = hosts.idle.iter().position(|host| host.program == program);
        let host = match idle {
            Some(idle) => hosts.idle.remove(idle),
            None => {
                hosts.started += 1;
                Host::start(&program, hosts.started)?
            }
        };
        hosts.busy += 1;
        Ok(host)
    }

    fn program(&self, file: &File) -> Result<Program, Error> {
        if !file.python {
            return Ok(Program::Executable(file.path.clone()));
        }
        let python = self.python.get_or_init(folder::python).clone();
        let python = python.ok_or_else(|| {
            Error::Refused(format!(
                "The custom module {} is Python, and there is no python3 on this machine: install python3, or write the module as a program in another language",
                file.path.display()
            ))
        })?;
        Ok(Program::Python(python))
    }

    /// Runs one function and returns the child's reply.
    fn run(
        &self,
        cx: &Exec,
        file: &File,
        full: &str,
        args: Vec<Value>,
        kwargs: Map,
    ) -> Result<Map, Error> {
        let request = Map::new()
            .with("run", full)
            .with("file", file.path.display().to_string())
            .with("args", Value::list(args))
            .with("kwargs", kwargs)
            .with("test", cx.test)
            .with("saltenv", cx.saltenv.as_str());
        let answered = self.ask(cx, file, full, &request, call_limit(cx))?;
        answered.map_err(|failed| failure(full, failed))
    }

    /// Answers what a child asks in the middle of its work.
    fn answer(&self, cx: &Exec, asked: &Map, python: bool) -> Map {
        let name = |key: &str| asked.get(key).and_then(Value::as_str);
        if let Some(function) = name("call") {
            return self.called_back(cx, function, asked, python);
        }
        let value = if let Some(function) = name("has") {
            Ok(cx.has_function(function).into())
        } else if let Some(data) = name("get") {
            data_of(cx, data)
        } else if asked.contains("names") {
            Ok(Value::list(
                cx.function_names().into_iter().map(Value::from),
            ))
        } else {
            let line = Value::Map(asked.clone()).to_text();
            Err(Error::Refused(format!("a child may not ask this: {line}")))
        };
        reply(value)
    }

    fn called_back(&self, cx: &Exec, function: &str, asked: &Map, python: bool) -> Map {
        if python && cx.is_custom(function) {
            let found = self.modules.find(self, cx, function);
            if let Some((file, _)) = found.filter(|(file, _)| file.python) {
                return Map::new().with("yours", file.path.display().to_string());
            }
        }
        let args = asked.get("args").and_then(Value::as_list);
        let kwargs = asked.get("kwargs").and_then(Value::as_map);
        reply(cx.call(
            function,
            args.unwrap_or_default().to_vec(),
            kwargs.cloned().unwrap_or_default(),
        ))
    }
}

/// What a function of ours returned, for a child.
fn reply(returned: Result<Value, Error>) -> Map {
    match returned {
        Ok(value) => Map::new().with("return", value),
        Err(error) => {
            let kind = match error {
                Error::Refused(_) | Error::Io { .. } => "CommandExecutionError",
                Error::NotAvailable(_) => "CommandNotFoundError",
                _ => "SaltInvocationError",
            };
            let error = Map::new()
                .with("type", kind)
                .with("text", error.to_string());
            Map::new().with("error", error)
        }
    }
}

fn data_of(cx: &Exec, data: &str) -> Result<Value, Error> {
    match data {
        "grains" => Ok(cx.grains().into()),
        "pillar" => Ok(cx.pillar()?.into()),
        "opts" => {
            let opts = cx.opts().map.clone();
            Ok(opts
                .with("test", cx.test)
                .with("saltenv", cx.saltenv.as_str())
                .into())
        }
        other => Err(Error::Refused(format!(
            "there is no '{other}' to get: grains, pillar, opts"
        ))),
    }
}

fn call_limit(cx: &Exec) -> Limit {
    let seconds = cx.opts().int("custom_module_timeout").unwrap_or(3600);
    let time = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
    Limit {
        name: "custom_module_timeout",
        time: time.map(Duration::from_secs),
    }
}

/// What a failed function says to its caller; where an exception came from goes to the log.
fn failure(full: &str, failed: Failed) -> Error {
    if failed.kind == "Arguments" {
        return Error::Unexpected(failed.text);
    }
    if let Some(trace) = &failed.trace {
        log::error(format_args!("{full} failed: {}", trace.trim_end()));
    }
    Error::Refused(if failed.text.is_empty() {
        failed.kind
    } else {
        failed.text
    })
}

impl Custom for CustomModules {
    fn replaces(&self, cx: &Exec, full: &str) -> bool {
        self.modules.find_by_name(self, cx, full).is_some()
    }

    fn signature(&self, cx: &Exec, full: &str) -> Option<Signature> {
        let (_, module) = self.modules.find(self, cx, full)?;
        module.signature(full).cloned()
    }

    fn call(&self, cx: &Exec, full: &str, args: Vec<Value>, kwargs: Map) -> Result<Value, Error> {
        let Some((file, _)) = self.modules.find(self, cx, full) else {
            return Err(self.modules.missing(self, cx, full));
        };
        let reply = self.run(cx, &file, full, args, kwargs)?;
        if let Some(code) = reply.get("retcode").and_then(Value::as_int) {
            cx.set_retcode(code);
        }
        Ok(reply.get("return").cloned().unwrap_or_default())
    }

    fn names(&self, cx: &Exec) -> Vec<String> {
        self.modules.names(self, cx)
    }

    fn state_function(&self, cx: &Exec, full: &str, named: bool) -> Option<&'static Function<Ret>> {
        states::function(self, cx, full, named)
    }

    fn call_state(&self, cx: &Exec, full: &str, kwargs: Map) -> Result<Ret, Error> {
        states::called(self, cx, full, kwargs)
    }

    fn grains(&self, cx: &Exec, built_in: Map) -> Map {
        grains::added(self, cx, built_in)
    }

    fn refresh(&self) {
        self.modules.forget();
        self.grains.forget();
        self.states.forget();
        lock(&self.hosts).idle.clear();
    }
}
