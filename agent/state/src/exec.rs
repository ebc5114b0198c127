//! [`Exec`]: what a function may use of the world.

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
use crate::foresight::Foresight;
use crate::low::Low;
use crate::module::{Error, Function, Given, Module, Problem, Ret};
use crate::opts::Opts;
use crate::run::RunState;
use crate::sources::Sources;
use crate::targets::Targets;

/// The modules that a run can call, each list in the order of their names. The engine takes them as an argument and knows none.
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
    /// Why a function is not there on this machine, where it is not (what the `__virtual__` of its module says in Salt).
    pub missing: fn(&Exec, Kind, &str) -> Option<String>,
    /// State modules whose chunks can be put together, each with how.
    pub aggregates: &'static [(&'static str, Aggregate)],
    /// Collects the grains.
    pub grains: fn(&Opts) -> Map,
}

/// Puts chunks of one module together: from the low data of the one that runs and of others that could run now, its new low data
/// and which of the others are in it (Salt's `mod_aggregate`).
pub type Aggregate = fn(&Map, &[Map]) -> (Map, Vec<bool>);

impl Registry {
    /// How chunks of this state module are put together, if they can be.
    #[must_use]
    pub fn aggregate(&self, state: &str) -> Option<Aggregate> {
        let mut all = self.aggregates.iter();
        all.find(|(name, _)| *name == state).map(|(_, join)| *join)
    }
}

/// What is the same for every call of one run, and what the calls leave for each other.
pub struct Shared {
    /// The configuration.
    pub opts: Opts,
    /// The modules.
    pub registry: &'static Registry,
    /// Where SLS, files and pillar come from.
    pub sources: Box<dyn Sources>,
    /// Who answers an orchestration's steps, and the event bus.
    pub targets: Box<dyn Targets>,
    /// The custom modules of this machine.
    pub custom: Box<dyn Custom>,
    /// The grains, read when they are first asked for.
    grains: Mutex<Option<Map>>,
    /// Salt's `__context__`.
    context: Mutex<Map>,
    /// Files and folders that are changed and not yet on the disk.
    dirty: Mutex<BTreeSet<OsString>>,
    /// What parts of the program keep for the run, one value of each type.
    own: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

/// The context of one call. Cheap to clone. Everything that a state changes goes through [`Exec::apply`].
#[derive(Clone)]
pub struct Exec {
    /// What is the same for the whole run.
    pub shared: Arc<Shared>,
    /// True when nothing may be changed.
    pub test: bool,
    /// The environment that the call works in.
    pub saltenv: String,
    /// Whether each return of the run is told by an event; `None` for what the option `state_events` says.
    pub state_events: Option<bool>,
    /// The chunk that the call is for, in a state run.
    pub low: Option<Arc<Low>>,
    /// The state run that the call belongs to.
    pub run: Option<Arc<RunState>>,
    /// The pillar of this call's run.
    pillar: Arc<Mutex<Option<Map>>>,
    /// What the SLS templates of this call's run share.
    pub(crate) templates: SharedVariables,
    /// What was given as `pillar=`, laid over the pillar.
    pub pillar_override: Option<Arc<Map>>,
    /// The environment that the pillar comes from (`pillarenv`), when one is named.
    pub pillarenv: Option<String>,
    /// Who looks at the run before it happens; nobody does in an ordinary one.
    pub foresight: Option<Arc<dyn Foresight>>,
    /// The exit code that a function has asked for.
    retcode: Arc<Mutex<i64>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic aborts the program in a release build: a poisoned lock is only met in tests.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Exec {
    /// The context that a program without custom modules starts with.
    #[must_use]
    pub fn new(
        opts: Opts,
        registry: &'static Registry,
        sources: Box<dyn Sources>,
        targets: Box<dyn Targets>,
    ) -> Self {
        Self::with_custom(opts, registry, sources, targets, Box::new(NoCustom))
    }

    /// The context that a program starts with.
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
            low: None,
            run: None,
            pillar: Arc::default(),
            templates: SharedVariables::default(),
            pillar_override: None,
            pillarenv,
            foresight: None,
            retcode: Arc::default(),
        }
    }

    /// The configuration.
    #[must_use]
    pub fn opts(&self) -> &Opts {
        &self.shared.opts
    }

    /// The configuration as templates see it: `test` is that of the run.
    #[must_use]
    pub fn template_opts(&self) -> Map {
        let mut opts = self.opts().map.clone();
        if self.test != self.opts().flag("test") {
            opts.insert("test", self.test);
        }
        opts
    }

    /// A grain as text; empty where there is none.
    #[must_use]
    pub fn grain(&self, name: &str) -> String {
        let grains = self.grains();
        grains.get(name).map(Value::to_text).unwrap_or_default()
    }

    /// The grains.
    #[must_use]
    pub fn grains(&self) -> Map {
        let known = lock(&self.shared.grains).clone();
        known.unwrap_or_else(|| {
            let built_in = (self.shared.registry.grains)(&self.shared.opts);
            // Custom grains run without the lock: a module that asks for the grains sees the built-in ones.
            *lock(&self.shared.grains) = Some(built_in.clone());
            let grains = self.shared.custom.grains(self, built_in);
            *lock(&self.shared.grains) = Some(grains.clone());
            grains
        })
    }

    /// Asks the daemon of this machine, or its master; nothing where there is none.
    ///
    /// # Errors
    /// When it does not answer, or says no.
    pub fn ask(&self, ask: Ask) -> Result<Option<Value>, Error> {
        self.shared.targets.ask(self, ask)
    }

    /// Takes these for the grains: those of another machine, whose pillar is compiled here.
    pub fn set_grains(&self, grains: Map) {
        *lock(&self.shared.grains) = Some(grains);
    }

    /// Forgets the grains, so that they are read again.
    pub fn refresh_grains(&self) {
        *lock(&self.shared.grains) = None;
        self.templates.forget();
    }

    /// The pillar, compiled when it is first asked for.
    ///
    /// # Errors
    /// When the pillar does not render: missing data is never empty.
    pub fn pillar(&self) -> Result<Map, Error> {
        if let Some(pillar) = lock(&self.pillar).clone() {
            return Ok(pillar);
        }
        // Compiled without the lock: a pillar's own template may ask for the pillar, and sees it empty as in Salt.
        let pillar = self.shared.sources.pillar(self)?;
        secret::note(&pillar);
        *lock(&self.pillar) = Some(pillar.clone());
        Ok(pillar)
    }

    /// Puts a changed pillar in place of this call's.
    pub fn set_pillar(&self, pillar: Map) {
        secret::note(&pillar);
        *lock(&self.pillar) = Some(pillar);
    }

    /// Forgets the pillar, so that it is compiled again.
    pub fn refresh_pillar(&self) {
        *lock(&self.pillar) = None;
        self.templates.forget();
    }

    /// The same context with this pillar and no other.
    #[must_use]
    pub fn with_pillar(&self, pillar: Map) -> Self {
        secret::note(&pillar);
        Self {
            pillar: Arc::new(Mutex::new(Some(pillar))),
            templates: SharedVariables::default(),
            ..self.clone()
        }
    }

    /// The same context for a run of its own with this `pillar=`, whose pillar is compiled anew.
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

    /// The same with the pillar of another environment.
    #[must_use]
    pub fn with_pillarenv(&self, pillarenv: Option<String>, pillar: Option<Map>) -> Self {
        Self {
            pillarenv,
            ..self.with_override(pillar)
        }
    }

    /// Runs `change`, or in test mode only says what it would do: no state can forget test mode.
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

    /// Works on Salt's `__context__`, which lives as long as the run.
    pub fn context<T>(&self, work: impl FnOnce(&mut Map) -> T) -> T {
        work(&mut lock(&self.shared.context))
    }

    /// Returns what a part of the program keeps for this run and no other, made when it is first asked for.
    #[must_use]
    pub fn of_run<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut own = lock(&self.shared.own);
        let kept = own.entry(TypeId::of::<T>());
        let kept = Arc::clone(kept.or_insert_with(|| Arc::<T>::default()));
        // A value under a type's own number is of that type.
        kept.downcast().unwrap_or_default()
    }

    /// Asks for an exit code (Salt's `__context__["retcode"]`).
    pub fn set_retcode(&self, code: i64) {
        *lock(&self.retcode) = code;
    }

    /// The exit code that was asked for.
    #[must_use]
    pub fn retcode(&self) -> i64 {
        *lock(&self.retcode)
    }

    /// The same context for a call whose exit code is its own.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self {
            retcode: Arc::default(),
            ..self.clone()
        }
    }

    /// Notes a file or folder that was changed, to be on the disk at the next [`Exec::barrier`].
    pub fn changed(&self, path: &Path) {
        let mut dirty = lock(&self.shared.dirty);
        if !dirty.contains(path.as_os_str()) {
            dirty.insert(path.into());
        }
    }

    /// True for a file or folder that the next [`Exec::barrier`] will put on the disk.
    #[must_use]
    pub fn is_changed(&self, path: &Path) -> bool {
        lock(&self.shared.dirty).contains(path.as_os_str())
    }

    /// Makes every change so far durable: before a command, a service action or a step that must not be repeated, and at the end.
    pub fn barrier(&self) {
        let dirty = std::mem::take(&mut *lock(&self.shared.dirty));
        flush(&dirty);
    }

    /// A state function by its full name, built-in or custom.
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

    /// Whether there is a state module of this name.
    #[must_use]
    pub fn has_state_module(&self, name: &str) -> bool {
        let states = self.shared.registry.states;
        states.iter().any(|module| module.name == name)
    }

    /// Returns a built-in execution function by its full name, where this machine has it and users may name it.
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

    /// Why this machine does not have a built-in function, in Salt's words; nothing where it has it, or nobody does.
    #[must_use]
    pub fn missing(&self, kind: Kind, full: &str) -> Option<String> {
        (self.shared.registry.missing)(self, kind, full)
    }

    /// True when a custom module answers this function: it replaces a built-in one, or there is none.
    #[must_use]
    pub fn is_custom(&self, full: &str) -> bool {
        let custom = &self.shared.custom;
        match self.internal_function(full) {
            Some(_) => custom.replaces(self, full),
            None => custom.signature(self, full).is_some(),
        }
    }

    /// Returns whether there is an execution function of this name, built-in or custom, that users may name.
    #[must_use]
    pub fn has_function(&self, full: &str) -> bool {
        let exists = self.internal_function(full).is_some() || self.is_custom(full);
        exists && self.permits(Kind::Module, full)
    }

    /// The full names of all execution functions, sorted.
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

    /// What a virtual module shall be answered by on this machine: a state's own `provider`, else the option `providers`.
    #[must_use]
    pub fn provider(&self, module: &str) -> Option<String> {
        let named = |all: &Value| all.get(module).map(Value::to_text);
        let low = self.low.as_deref();
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

    /// Calls an execution function that an SLS, a template, a job or a command line names.
    ///
    /// # Errors
    /// When there is no such function or the configuration does not permit it, its arguments are wrong, or it fails.
    pub fn call(&self, full: &str, args: Vec<Value>, kwargs: Map) -> Result<Value, Error> {
        if !self.is_listed(Kind::Module, full) {
            return Err(Error::not_available(full.to_owned()));
        }
        self.call_internal(full, args, kwargs)
    }

    /// Calls an execution function for a module, which `whitelist_modules` does not restrict: Salt's `__salt__['m.f'](…)`.
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
                function.invoke(full, self, Given::new(args, kwargs))
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

/// How many changed paths make it cheaper to flush their whole file system.
const MANY: usize = 64;

/// Puts these on the disk. What is gone again needs no sync; a file system that cannot sync has nothing better to offer.
fn flush(paths: &BTreeSet<OsString>) {
    let mut flushed = BTreeSet::new();
    for path in paths {
        let Ok(found) = std::fs::metadata(path) else {
            continue;
        };
        // Opening a pipe would wait for its other end.
        let holds_data = found.is_file() || found.is_dir();
        if !holds_data || flushed.contains(&found.dev()) {
            continue;
        }
        let Ok(file) = std::fs::File::open(path) else {
            continue;
        };
        if paths.len() < MANY {
            let _ = file.sync_all();
        } else if rustix::fs::syncfs(&file).is_ok() {
            flushed.insert(found.dev());
        }
    }
}

/// A function by its full name in a list of modules, which stand there by their names. A large module may have several parts.
#[must_use]
pub fn find<R>(modules: &'static [Module<R>], full: &str) -> Option<&'static Function<R>> {
    let (module, function) = full.split_once('.')?;
    debug_assert!(modules.is_sorted_by_key(|m| m.name));
    let first = modules.partition_point(|m| m.name < module);
    let mut parts = modules.iter().skip(first).take_while(|m| m.name == module);
    parts.find_map(|m| m.function(function))
}

impl std::fmt::Debug for Exec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exec")
            .field("test", &self.test)
            .field("saltenv", &self.saltenv)
            .finish_non_exhaustive()
    }
}
