//! Custom modules: `_modules`, `_states`, `_grains` and so on of the tree. [`sync`] copies them,
//! and children that live as long as the run execute them.
//!
//! `packaging/docs/protocol.md` describes the protocol of the modules, and when each module is
//! loaded.

mod answer;
mod carried;
pub(crate) mod engine;
mod folder;
mod grains;
mod host;
mod index;
mod jinja;
mod marks;
mod renderers;
mod states;
pub mod sync;
#[cfg(test)]
mod tests;

pub use answer::outside;
pub use carried::{carry, install};
pub use marks::{line, read};

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use state::custom::{Custom, Kind, Rendering, Signature};
use state::exec::Exec;
use state::module::{Error, Function, Ret};
use state::opts::Opts;
use value::{Map, Value};

use folder::File;
use host::{Answer, Failed, Host, Limit, Program, Role};
use index::Index;
use jinja::Mentions;
use states::Declared;

/// The maximum time to load a module.
pub const LOAD_LIMIT: Duration = Duration::from_secs(60);

/// The maximum number of children that work at once. It stops a function that calls itself
/// endlessly through this program.
pub const HOSTS_MAX: usize = 32;

/// The custom modules below `extension_modules`.
pub struct CustomModules {
    folder: PathBuf,
    indexes: [(Kind, Index); 14],
    jinja: Mentions,
    declared: Declared,
    python: OnceLock<Option<PathBuf>>,
    hosts: Mutex<Hosts>,
}

/// The children: the idle ones, and the number of all.
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
    /// Creates the set of modules for a configuration. Nothing is read until the first search for a
    /// function.
    #[must_use]
    pub fn new(opts: &Opts) -> Self {
        let folder = opts.path("extension_modules");
        let index = |kind: Kind, name: &str| (kind, Index::new(folder.join(name)));
        Self {
            indexes: [
                index(Kind::Module, "modules"),
                index(Kind::State, "states"),
                index(Kind::Grain, "grains"),
                index(Kind::Runner, "runners"),
                index(Kind::Wheel, "wheel"),
                index(Kind::Renderer, "renderers"),
                index(Kind::Returner, "returners"),
                index(Kind::Pillar, "pillar"),
                index(Kind::Sdb, "sdb"),
                index(Kind::Roster, "roster"),
                index(Kind::Engine, "engines"),
                index(Kind::Top, "tops"),
                index(Kind::Auth, "auth"),
                index(Kind::Cloud, "clouds"),
            ],
            folder,
            jinja: Mentions::default(),
            declared: Declared::default(),
            python: OnceLock::new(),
            hosts: Mutex::default(),
        }
    }

    fn index(&self, kind: Kind) -> &Index {
        let [first, ..] = &self.indexes;
        let found = self.indexes.iter().find(|(known, _)| *known == kind);
        &found.unwrap_or(first).1
    }

    /// Sends one request to a child. The child is kept for the next request.
    fn ask(
        &self,
        cx: &Exec,
        file: &File,
        what: &str,
        request: &Map,
        limit: Limit,
    ) -> Result<Answer, Error> {
        let mut host = self.host(file, what)?;
        let mut answer = |asked: &Map| Some(answer::within(self, cx, asked, file.python));
        let answered = host.ask(what, request, limit, &mut answer);
        let mut hosts = lock(&self.hosts);
        hosts.busy -= 1;
        if answered.is_ok() {
            hosts.idle.push(host);
            // Prefer the child that was started first, so that data its modules keep
            // (`__context__`) is available again.
            value::sorted::sort_by_key(&mut hosts.idle, Host::number);
        }
        answered
    }

    fn host(&self, file: &File, what: &str) -> Result<Host, Error> {
        let program = self.program(file)?;
        let mut hosts = lock(&self.hosts);
        if hosts.busy >= HOSTS_MAX {
            return Err(Error::refused(format!(
                "{what}: more than {HOSTS_MAX} nested calls of custom functions: does one call itself?"
            )));
        }
        let idle = hosts.idle.iter().position(|host| host.program == program);
        let host = match idle {
            Some(idle) => hosts.idle.remove(idle),
            None => {
                hosts.started += 1;
                Host::start(&program, &self.folder, Role::Functions(hosts.started))?
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
            Error::refused(format!(
                "The custom module {} is Python, and there is no python3 on this machine: install python3, or write the module as a program in another language",
                file.path.display()
            ))
        })?;
        Ok(Program::Python(python))
    }

    /// Runs one function and returns the child's reply, or the error of the function.
    fn run(
        &self,
        cx: &Exec,
        file: &File,
        full: &str,
        args: Vec<Value>,
        kwargs: Map,
    ) -> Result<Answer, Error> {
        let request = Map::new()
            .with("run", full)
            .with("file", file.path.display().to_string())
            .with("args", Value::list(args))
            .with("kwargs", kwargs)
            .with("test", cx.test)
            .with("saltenv", cx.saltenv.as_str());
        let what = format!("{full} of {}", file.path.display());
        self.ask(cx, file, &what, &request, call_limit(cx))
    }

    /// Calls a function that is not a state. Returns `None` if it does not exist.
    fn called(
        &self,
        cx: &Exec,
        kind: Kind,
        full: &str,
        args: Vec<Value>,
        kwargs: Map,
    ) -> Option<Result<Value, Error>> {
        let (file, _) = self.index(kind).find(self, cx, full)?;
        let answer = self.run(cx, &file, full, args, kwargs);
        Some(answer.and_then(|answer| returned(cx, answer)))
    }
}

/// Returns the return of a function, and sets the exit code that the child sent.
fn returned(cx: &Exec, answer: Answer) -> Result<Value, Error> {
    let reply = answer.map_err(Failed::into_error)?;
    if let Some(code) = reply.get("retcode").and_then(Value::as_int) {
        cx.set_retcode(code);
    }
    Ok(reply.get("return").cloned().unwrap_or_default())
}

fn load_limit() -> Limit {
    Limit {
        name: "the limit for loading a module",
        time: Some(LOAD_LIMIT),
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

impl Custom for CustomModules {
    fn replaces(&self, cx: &Exec, full: &str) -> bool {
        let modules = self.index(Kind::Module);
        modules.find_by_name(self, cx, full).is_some()
    }

    fn signature(&self, cx: &Exec, full: &str) -> Option<Signature> {
        let (_, module) = self.index(Kind::Module).find(self, cx, full)?;
        module.signature(full).cloned()
    }

    fn call(&self, cx: &Exec, full: &str, args: Vec<Value>, kwargs: Map) -> Result<Value, Error> {
        self.called(cx, Kind::Module, full, args, kwargs)
            .unwrap_or_else(|| Err(self.index(Kind::Module).missing(self, cx, full)))
    }

    fn functions(&self, cx: &Exec, kind: Kind) -> Vec<(String, Signature)> {
        self.index(kind).all_functions(self, cx)
    }

    fn has_file(&self, kind: Kind, name: &str) -> bool {
        self.index(kind).file(name).is_some()
    }

    fn call_client(
        &self,
        cx: &Exec,
        kind: Kind,
        full: &str,
        args: Vec<Value>,
        kwargs: Map,
    ) -> Option<Result<Value, Error>> {
        let index = self.index(kind);
        self.called(cx, kind, full, args, kwargs)
            .or_else(|| match index.missing(self, cx, full) {
                error if error.is_not_available() => None,
                error => Some(Err(error)),
            })
    }

    fn has_renderer(&self, _cx: &Exec, name: &str) -> bool {
        renderers::has(self, name)
    }

    fn render(&self, cx: &Exec, rendering: &Rendering<'_>) -> Result<Value, Error> {
        renderers::rendered(self, cx, rendering)
    }

    fn jinja(&self, cx: &Exec, template: &str) -> Option<Vec<(render::Extension, String)>> {
        jinja::mentioned(self, cx, template)
    }

    fn call_jinja(
        &self,
        cx: &Exec,
        kind: render::Extension,
        name: &str,
        args: Vec<Value>,
        kwargs: Map,
    ) -> Result<Value, Error> {
        jinja::called(self, cx, kind, name, args, kwargs)
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
        for (_, index) in &self.indexes {
            index.forget();
        }
        self.jinja.forget();
        lock(&self.hosts).idle.clear();
    }
}
