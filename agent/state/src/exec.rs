//! [`Exec`]: the context of a call, through which a function uses the configuration, the tree and
//! the machine.

use std::any::{Any, TypeId};
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use render::jinja::SharedVariables;
use value::{Map, Value, secret};

use crate::ask::Ask;
use crate::custom::{Custom, Kind, NoCustom};
use crate::facts::{Aggregate, Facts, Inverse, Need, StepKind};
use crate::low::LowChunk;
use crate::module::{Arguments, Error, Function, Module, Problem, Ret};
use crate::opts::Opts;
use crate::previewer::Previewer;
use crate::run::RunState;
use crate::sources::Sources;
use crate::targets::Targets;

/// The modules that a run can call. Each list is sorted by module name. The engine receives them as
/// an argument and depends on none.
#[derive(Debug)]
pub struct Registry {
    /// State modules.
    pub states: &'static [Module<Ret>],
    /// Execution modules.
    pub functions: &'static [Module<Value>],
    /// Runners that need no master.
    pub runners: &'static [Module<Value>],
    /// Wheel functions that need no master.
    pub wheel: &'static [Module<Value>],
    /// External pillars, in addition to those of this crate.
    pub pillars: &'static [ExternalPillar],
    /// Returns the name and the documentation of each returner.
    pub returners: fn() -> Vec<(&'static str, &'static str)>,
    /// Returns why a function is missing on this machine: the reason that the `__virtual__` of its
    /// module gives in Salt. `None` if the function is not missing.
    pub missing: fn(&Exec, Kind, &str) -> Option<String>,
    /// Returns the first program that the module of a state function needs and that this machine
    /// does not have.
    pub lacks: fn(&Exec, &str) -> Option<&'static Need>,
    /// Collects the grains.
    pub grains: fn(&Opts) -> Map,
}

/// An external pillar of the program.
#[derive(Debug)]
pub struct ExternalPillar {
    /// Its name in `ext_pillar`.
    pub name: &'static str,
    /// Returns its data. The arguments are those of the configuration, and the data so far.
    pub load: fn(&Exec, &Value, &Map) -> Result<Map, Error>,
}

impl Registry {
    /// Returns the function that combines chunks of this state module, if they can be combined.
    #[must_use]
    pub fn aggregate(&self, state: &str) -> Option<Aggregate> {
        parts(self.states, state).find_map(|part| part.aggregate)
    }

    /// Returns the inverse of the changes that are recorded under this word.
    #[must_use]
    pub fn inverse(&self, word: &str) -> Option<&'static Inverse> {
        let of_states = self.states.iter().flat_map(|module| module.inverses);
        let of_functions = self.functions.iter().flat_map(|module| module.inverses);
        let mut all = of_states.chain(of_functions);
        all.find(|inverse| inverse.word == word).copied()
    }

    /// Returns the kind of orchestration step that a chunk is, if it is one.
    #[must_use]
    pub fn step(&self, low: &LowChunk) -> Option<StepKind> {
        facts_in(self.states, &low.state, &low.fun).step
    }

    /// Returns whether a runner is an orchestration.
    #[must_use]
    pub fn orchestrates(&self, runner: &str) -> bool {
        facts(self.runners, runner).orchestrates
    }

    /// Returns whether a runner that was cut short may be called again: it is an orchestration, or
    /// continues by itself.
    #[must_use]
    pub fn continues(&self, runner: &str) -> bool {
        let facts = facts(self.runners, runner);
        facts.orchestrates || facts.continues
    }
}

/// The part of the context that all calls of one run share, including the data that calls leave for
/// each other.
pub struct Shared {
    /// The configuration.
    pub opts: Opts,
    /// The modules.
    pub registry: &'static Registry,
    /// The provider of SLS, files and pillar.
    pub sources: Box<dyn Sources>,
    /// The machines that run an orchestration's steps, and the event bus.
    pub targets: Box<dyn Targets>,
    /// The custom modules of this machine.
    pub custom: Box<dyn Custom>,
    /// The grains, collected on first use.
    grains: Mutex<Option<Map>>,
    /// Salt's `__context__`.
    context: Mutex<Map>,
    /// Changed files and folders that are not flushed to the disk yet.
    dirty: Mutex<BTreeSet<OsString>>,
    /// Data that parts of the program keep for the run, one value of each type.
    own: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

/// The context of one call. Cheap to clone. A state must make all its changes through
/// [`Exec::apply`].
#[derive(Clone)]
pub struct Exec {
    /// The part that is the same for the whole run.
    pub shared: Arc<Shared>,
    /// True when nothing may be changed.
    pub test: bool,
    /// The environment that the call works in.
    pub saltenv: String,
    /// True if each return of the run is fired as an event; `None` to use the option
    /// `state_events`.
    pub state_events: Option<bool>,
    /// The chunk that the call is for, in a state run.
    pub chunk: Option<Arc<LowChunk>>,
    /// The state run that the call belongs to.
    pub run: Option<Arc<RunState>>,
    /// The pillar of the run that the call belongs to.
    pillar: Arc<Mutex<Option<Map>>>,
    /// The variables that the SLS templates of the run share.
    pub(crate) templates: SharedVariables,
    /// The map given as `pillar=`, which overrides the pillar.
    pub pillar_override: Option<Arc<Map>>,
    /// The environment that the pillar comes from (`pillarenv`), when one is named.
    pub pillarenv: Option<String>,
    /// The observer that examines the run before it happens (`pinch plan`, `pinch apply`). `None`
    /// in an ordinary run.
    pub previewer: Option<Arc<dyn Previewer>>,
    /// The exit code that a function has set.
    retcode: Arc<Mutex<i64>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic aborts the program in a release build, so only tests can meet a poisoned lock.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Exec {
    /// Returns the initial context of a program without custom modules.
    #[must_use]
    pub fn new(
        opts: Opts,
        registry: &'static Registry,
        sources: Box<dyn Sources>,
        targets: Box<dyn Targets>,
    ) -> Self {
        Self::with_custom(opts, registry, sources, targets, Box::new(NoCustom))
    }

    /// Returns the initial context of a program.
    #[must_use]
    pub fn with_custom(
        opts: Opts,
        registry: &'static Registry,
        sources: Box<dyn Sources>,
        targets: Box<dyn Targets>,
        custom: Box<dyn Custom>,
    ) -> Self {
        let (test, saltenv) = (opts.flag("test"), opts.saltenv().to_owned());
        let pillarenv = opts.text("pillarenv").map(str::to_owned);
        if let Some(keys) = opts.get("secret_keys") {
            secret::name_keys(keys);
        }
        let shared = Shared {
            opts,
            registry,
            sources,
            targets,
            custom,
            grains: Mutex::default(),
            context: Mutex::default(),
            dirty: Mutex::default(),
            own: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
            test,
            saltenv,
            state_events: None,
            chunk: None,
            run: None,
            pillar: Arc::default(),
            templates: SharedVariables::default(),
            pillar_override: None,
            pillarenv,
            previewer: None,
            retcode: Arc::default(),
        }
    }

    /// Returns the configuration.
    #[must_use]
    pub fn opts(&self) -> &Opts {
        &self.shared.opts
    }

    /// Returns the configuration as templates see it: its `test` is that of the run.
    #[must_use]
    pub fn template_opts(&self) -> Map {
        let mut opts = self.opts().map.clone();
        if self.test != self.opts().flag("test") {
            opts.insert("test", self.test);
        }
        opts
    }

    /// Returns a grain as text; empty if there is no such grain.
    #[must_use]
    pub fn grain(&self, name: &str) -> String {
        let grains = self.grains();
        grains.get(name).map(Value::to_text).unwrap_or_default()
    }

    /// Returns the grains. The first call collects them.
    #[must_use]
    pub fn grains(&self) -> Map {
        let known = lock(&self.shared.grains).clone();
        known.unwrap_or_else(|| {
            let built_in = (self.shared.registry.grains)(&self.shared.opts);
            // Custom grains are collected without holding the lock. A grains module that reads the
            // grains gets the built-in ones.
            *lock(&self.shared.grains) = Some(built_in.clone());
            let grains = self.shared.custom.grains(self, built_in);
            *lock(&self.shared.grains) = Some(grains.clone());
            grains
        })
    }

    /// Sends a question to the daemon of this machine, or to its master. Returns `None` if there is
    /// no daemon.
    ///
    /// # Errors
    /// When the daemon does not answer, or refuses.
    pub fn ask(&self, ask: Ask) -> Result<Option<Value>, Error> {
        self.shared.targets.ask(self, ask)
    }

    /// Replaces the grains with those of another machine, whose pillar is compiled here.
    pub fn set_grains(&self, grains: Map) {
        *lock(&self.shared.grains) = Some(grains);
    }

    /// Drops the grains, so that the next call of [`Exec::grains`] collects them again.
    pub fn refresh_grains(&self) {
        *lock(&self.shared.grains) = None;
        self.templates.forget();
    }

    /// Returns the pillar. The first call compiles it.
    ///
    /// # Errors
    /// When the pillar does not render. A pillar that fails is never replaced by an empty one.
    pub fn pillar(&self) -> Result<Map, Error> {
        if let Some(pillar) = lock(&self.pillar).clone() {
            return Ok(pillar);
        }
        // Compiled without holding the lock: a template of the pillar may read the pillar, and gets
        // an empty one, as in Salt.
        let pillar = self.shared.sources.pillar(self)?;
        secret::note(&pillar);
        *lock(&self.pillar) = Some(pillar.clone());
        Ok(pillar)
    }

    /// Replaces the pillar of this call's run.
    pub fn set_pillar(&self, pillar: Map) {
        secret::note(&pillar);
        *lock(&self.pillar) = Some(pillar);
    }

    /// Drops the pillar, so that it is compiled again.
    pub fn refresh_pillar(&self) {
        *lock(&self.pillar) = None;
        self.templates.forget();
    }

    /// Returns the same context with this pillar. The original context keeps its own.
    #[must_use]
    pub fn with_pillar(&self, pillar: Map) -> Self {
        secret::note(&pillar);
        Self {
            pillar: Arc::new(Mutex::new(Some(pillar))),
            templates: SharedVariables::default(),
            ..self.clone()
        }
    }

    /// Returns the same context for a separate run with this `pillar=`, whose pillar is compiled
    /// again.
    #[must_use]
    pub fn with_override(&self, pillar: Option<Map>) -> Self {
        pillar.iter().for_each(secret::note);
        Self {
            pillar: Arc::default(),
            templates: SharedVariables::default(),
            pillar_override: pillar.map(Arc::new),
            ..self.clone()
        }
    }

    /// Like [`Exec::with_override`], but with the pillar of another environment.
    #[must_use]
    pub fn with_pillarenv(&self, pillarenv: Option<String>, pillar: Option<Map>) -> Self {
        Self {
            pillarenv,
            ..self.with_override(pillar)
        }
    }

    /// Runs `change`. In test mode it returns `would` with the result `None` instead, so that no
    /// state can change anything in test mode by mistake.
    ///
    /// # Errors
    /// Those of `change`.
    pub fn apply(
        &self,
        would: Ret,
        change: impl FnOnce() -> Result<Ret, Error>,
    ) -> Result<Ret, Error> {
        if self.test {
            Ok(Ret {
                result: None,
                ..would
            })
        } else {
            change()
        }
    }

    /// Calls `work` with Salt's `__context__`, which lives as long as the run.
    pub fn context<T>(&self, work: impl FnOnce(&mut Map) -> T) -> T {
        work(&mut lock(&self.shared.context))
    }

    /// Returns the value that a part of the program keeps for this run alone. The first call
    /// creates it.
    #[must_use]
    pub fn of_run<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut own = lock(&self.shared.own);
        let kept = own.entry(TypeId::of::<T>());
        let kept = Arc::clone(kept.or_insert_with(|| Arc::<T>::default()));
        // The entry under a type's id always has that type.
        kept.downcast().unwrap_or_default()
    }

    /// Sets the exit code (Salt's `__context__["retcode"]`).
    pub fn set_retcode(&self, code: i64) {
        *lock(&self.retcode) = code;
    }

    /// Returns the exit code that was set.
    #[must_use]
    pub fn retcode(&self) -> i64 {
        *lock(&self.retcode)
    }

    /// Returns the same context with a separate exit code.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self {
            retcode: Arc::default(),
            ..self.clone()
        }
    }

    /// Marks a file or folder as changed: the next [`Exec::barrier`] flushes it to the disk.
    pub fn changed(&self, path: &Path) {
        let mut dirty = lock(&self.shared.dirty);
        if !dirty.contains(path.as_os_str()) {
            dirty.insert(path.into());
        }
    }

    /// Returns true if the next [`Exec::barrier`] will flush this file or folder to the disk.
    #[must_use]
    pub fn is_changed(&self, path: &Path) -> bool {
        lock(&self.shared.dirty).contains(path.as_os_str())
    }

    /// Makes all changes so far durable. Called before a command, a service action or a step that
    /// must not be repeated, and at the end of the run.
    pub fn barrier(&self) {
        let dirty = std::mem::take(&mut *lock(&self.shared.dirty));
        flush(&dirty);
    }

    /// Returns a state function by its full name, built-in or custom.
    #[must_use]
    pub fn state_function(&self, full: &str) -> Option<&'static Function<Ret>> {
        if !self.permits(Kind::State, full) {
            return None;
        }
        let custom = &self.shared.custom;
        custom
            .state_function(self, full, true)
            .or_else(|| find(self.shared.registry.states, full))
            .or_else(|| custom.state_function(self, full, false))
    }

    /// Returns why a state function is not available, in Salt's words; `None` if it is available.
    pub(crate) fn unavailable_state(&self, full: &str, unknown: bool) -> Option<String> {
        let custom = &self.shared.custom;
        let is_custom = |named| custom.state_function(self, full, named).is_some();
        let missing = self.missing(Kind::State, full);
        missing
            .filter(|_| !is_custom(true) && !is_custom(false))
            .or_else(|| unknown.then(|| format!("'{full}' is not available.")))
    }

    /// Returns whether there is a built-in state module of this name.
    #[must_use]
    pub fn has_state_module(&self, name: &str) -> bool {
        let states = self.shared.registry.states;
        states.iter().any(|module| module.name == name)
    }

    /// Returns a built-in execution function by its full name, if this machine has it and users may
    /// call it by name.
    #[must_use]
    pub fn function(&self, full: &str) -> Option<&'static Function<Value>> {
        let function = self.internal_function(full)?;
        self.is_listed(Kind::Module, full).then_some(function)
    }

    fn internal_function(&self, full: &str) -> Option<&'static Function<Value>> {
        if self.is_disabled(Kind::Module, full) {
            return None;
        }
        let found = find(self.shared.registry.functions, full)?;
        self.missing(Kind::Module, full).is_none().then_some(found)
    }

    /// Returns why this machine does not have a built-in function, in Salt's words. Returns `None`
    /// if it has the function, or if there is no such function at all.
    #[must_use]
    pub fn missing(&self, kind: Kind, full: &str) -> Option<String> {
        (self.shared.registry.missing)(self, kind, full)
    }

    /// Returns true if a custom module provides this function: it replaces a built-in one, or there
    /// is no built-in one.
    #[must_use]
    pub fn is_custom(&self, full: &str) -> bool {
        let custom = &self.shared.custom;
        match self.internal_function(full) {
            Some(_) => custom.replaces(self, full),
            None => custom.signature(self, full).is_some(),
        }
    }

    /// Returns whether there is an execution function of this name, built-in or custom, that users
    /// may call by name.
    #[must_use]
    pub fn has_function(&self, full: &str) -> bool {
        let exists = self.internal_function(full).is_some() || self.is_custom(full);
        exists && self.permits(Kind::Module, full)
    }

    /// Returns the full names of all execution functions that users may call by name, sorted.
    #[must_use]
    pub fn function_names(&self) -> Vec<String> {
        let modules = self.shared.registry.functions.iter();
        let mut names: Vec<String> = modules
            .flat_map(|module| {
                let functions = module.functions.iter();
                functions.map(|function| format!("{}.{}", module.name, function.name))
            })
            .filter(|full| self.missing(Kind::Module, full).is_none())
            .chain(self.custom_names())
            .filter(|full| self.permits(Kind::Module, full))
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Returns the module that provides a virtual module on this machine, if one is configured: by
    /// the chunk's own `provider`, else by the option `providers`.
    #[must_use]
    pub fn provider(&self, module: &str) -> Option<String> {
        let named = |all: &Value| all.get(module).map(Value::to_text);
        let low = self.chunk.as_deref();
        let own = low.and_then(|low| match low.data.get("provider")? {
            Value::Str(name) if low.state == module => Some(name.to_string()),
            given => given.as_list()?.iter().find_map(named),
        });
        own.or_else(|| named(self.opts().get("providers")?))
    }

    fn custom_names(&self) -> impl Iterator<Item = String> {
        let functions = self.shared.custom.functions(self, Kind::Module);
        functions.into_iter().map(|(full, _)| full)
    }

    /// Calls an execution function by a name from an SLS, a template, a job or a command line.
    ///
    /// # Errors
    /// When there is no such function or the configuration does not permit it, its arguments are
    /// wrong, or it fails.
    pub fn call(&self, full: &str, args: Vec<Value>, kwargs: Map) -> Result<Value, Error> {
        if !self.is_listed(Kind::Module, full) {
            return Err(Error::not_available(full.to_owned()));
        }
        self.call_internal(full, args, kwargs)
    }

    /// Calls an execution function on behalf of a module (Salt's `__salt__['m.f'](…)`).
    /// `whitelist_modules` does not restrict such calls.
    ///
    /// # Errors
    /// When there is no such function or it is disabled, its arguments are wrong, or it fails.
    pub fn call_internal(&self, full: &str, args: Vec<Value>, kwargs: Map) -> Result<Value, Error> {
        if self.is_disabled(Kind::Module, full) {
            return Err(Error::not_available(full.to_owned()));
        }
        let custom = &self.shared.custom;
        match self.internal_function(full) {
            Some(function) if !custom.replaces(self, full) => {
                function.invoke(full, self, Arguments::new(args, kwargs))
            }
            _ => match custom.call(self, full, args, kwargs) {
                Err(error) if matches!(error.problem(), Problem::NotAvailable(name) if name == full) =>
                {
                    let reason = self.missing(Kind::Module, full);
                    Err(reason.map_or(error, Error::refused))
                }
                answer => answer,
            },
        }
    }
}

/// The number of changed paths from which on a flush syncs their whole file system, which is
/// cheaper then.
const MANY: usize = 64;

/// Flushes these paths to the disk. A path that no longer exists needs no sync. An error is logged
/// and does not stop the run: a file system that cannot sync offers nothing better.
fn flush(paths: &BTreeSet<OsString>) {
    let mut flushed = BTreeSet::new();
    for path in paths {
        let Ok(found) = std::fs::metadata(path) else {
            continue;
        };
        // Opening a pipe would block until its other end is opened.
        let holds_data = found.is_file() || found.is_dir();
        if !holds_data || flushed.contains(&found.dev()) {
            continue;
        }
        let Ok(file) = std::fs::File::open(path) else {
            continue;
        };
        let synced = match paths.len() < MANY {
            true => file.sync_all(),
            false => rustix::fs::syncfs(&file).map_err(Into::into),
        };
        match synced {
            Ok(()) if paths.len() >= MANY => {
                flushed.insert(found.dev());
            }
            Ok(()) => {}
            Err(error) => {
                let path = Path::new(path).display();
                value::log::error(format_args!("cannot sync {path}: {error}"));
            }
        }
    }
}

/// Returns the parts of a module from a list that is sorted by name. A large module may be split
/// into several entries of the same name.
pub fn parts<R>(
    modules: &'static [Module<R>],
    name: &str,
) -> impl Iterator<Item = &'static Module<R>> {
    debug_assert!(modules.is_sorted_by_key(|m| m.name));
    let first = modules.partition_point(|m| m.name < name);
    let parts = modules.iter().skip(first);
    parts.take_while(move |m| m.name == name)
}

/// Returns a function by its full name from a list of modules that is sorted by name.
#[must_use]
pub fn find<R>(modules: &'static [Module<R>], full: &str) -> Option<&'static Function<R>> {
    let (module, function) = full.split_once('.')?;
    parts(modules, module).find_map(|m| m.function(function))
}

/// Returns what the declarations state about a function, by its full name. A custom function of a
/// built-in module counts as one of the built-in ones.
#[must_use]
pub fn facts<R>(modules: &'static [Module<R>], full: &str) -> Facts {
    match full.split_once('.') {
        Some((module, function)) => *facts_in(modules, module, function),
        None => Facts::UNKNOWN,
    }
}

fn facts_in<R>(modules: &'static [Module<R>], module: &str, function: &str) -> &'static Facts {
    let own = parts(modules, module).find_map(|part| {
        let function = part.function(function)?;
        Some(function.facts.or(part.facts))
    });
    let known = own.unwrap_or_else(|| parts(modules, module).find_map(|part| part.facts));
    known.unwrap_or(&Facts::UNKNOWN)
}

impl std::fmt::Debug for Exec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exec")
            .field("test", &self.test)
            .field("saltenv", &self.saltenv)
            .finish_non_exhaustive()
    }
}
