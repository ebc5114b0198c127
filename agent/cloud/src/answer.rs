//! Answers the requests of the functions about clouds.

use std::collections::BTreeSet;

use modules::exec::cloud::{Offer, Request, Work};
use modules::state_run::orchestrate;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, jid, log};
use wire::Id;

use crate::config::{self, Config, Provider};
use crate::driver::{Driver, Machine};
use crate::drivers;
use crate::fault::Fault;
use crate::intent::{self, Intents};
use crate::make::{self, Maker};
use crate::map;
use crate::plan::{Listed, Listing, ordered};
use crate::spec::{self, Spec};

/// The maximum number of machines that are made, or providers that are asked, side by side.
const AT_ONCE: usize = 32;

/// Answers a request.
///
/// # Errors
/// When the configuration or the request is wrong. The error of one machine is in the answer.
pub fn answer(cx: &Exec, request: Request) -> Result<Value, Error> {
    let config = Config::load(&config::folder(cx), &request.settings, &request.pillar)?;
    let clouds = Clouds { cx, config };
    Ok(clouds.done(request.work)?)
}

/// The clouds of a configuration.
struct Clouds<'a> {
    cx: &'a Exec,
    config: Config,
}

impl Clouds<'_> {
    fn done(&self, work: Work) -> Result<Value, Fault> {
        match work {
            Work::Offers(offer, provider) => self.offers(offer, &provider),
            Work::Query(kind) => self.query(&kind),
            Work::Profile {
                profile,
                names,
                overrides,
            } => self.profile(&profile, &names, &overrides),
            Work::Map => self.map(),
            Work::Destroy(names) => self.destroy(&names),
            Work::Action { fun, names, kwargs } => self.action(&fun, &names, &kwargs),
            Work::Function {
                fun,
                provider,
                kwargs,
            } => self.function(&fun, &provider, &kwargs),
            Work::Create {
                provider,
                names,
                settings,
            } => self.create(&provider, &names, &settings),
            Work::Orphans => self.orphans(),
        }
    }

    /// Lists the machines of all providers, side by side.
    fn listing(&self) -> Listing {
        let list = |provider: &Provider| {
            let machines = drivers::open(self.cx, provider).and_then(|driver| driver.list(self.cx));
            if let Err(fault) = &machines {
                log::error(format_args!("{}: {fault}", provider.full()));
            }
            Listed {
                alias: provider.alias.clone(),
                driver: provider.driver.clone(),
                machines: machines.map_err(|fault| fault.to_string()),
            }
        };
        let providers: Vec<&Provider> = self.config.providers.iter().collect();
        Listing(side_by_side(&providers, AT_ONCE, |provider| list(provider)))
    }

    fn query(&self, kind: &str) -> Result<Value, Fault> {
        let selected = self.config.main.get("query.selection");
        let selected = selected.map(Value::split_input).unwrap_or_default();
        let select = |machine: &Machine| {
            let all = machine.details();
            let wanted = all
                .iter()
                .filter(|(key, _)| selected.iter().any(|name| *name == key.as_text()));
            wanted
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        let state = |machine: &Machine| Map::new().with("state", machine.state.as_str());
        let listing = self.listing();
        Ok(match kind {
            "list_nodes" => listing.shown(Machine::summary),
            "list_nodes_full" => listing.shown(Machine::details),
            "list_nodes_min" => listing.shown(state),
            "list_nodes_select" => listing.shown(select),
            other => {
                return Err(Fault::wrong(format!(
                    "unknown query {other:?}: expected list_nodes, list_nodes_full, list_nodes_min or list_nodes_select"
                )));
            }
        }
        .into())
    }

    fn offers(&self, offer: Offer, word: &str) -> Result<Value, Fault> {
        let mut all = Map::new();
        for provider in self.config.matching(word)? {
            let offered =
                drivers::open(self.cx, provider).and_then(|driver| driver.offers(self.cx, offer));
            let offered =
                offered.unwrap_or_else(|fault| Map::new().with("Error", fault.to_string()));
            put(&mut all, provider, offered.into());
        }
        Ok(all.into())
    }

    fn maker(&self) -> Maker<'_> {
        let step = intent::step(self.cx);
        let run = step
            .clone()
            .or_else(|| orchestrate::orchestration_jid(self.cx));
        let of_this_call = jid::new();
        Maker {
            cx: self.cx,
            run: run.unwrap_or(of_this_call),
            is_step: step.is_some(),
            intents: Intents::of(self.cx),
        }
    }

    fn profile(&self, profile: &str, names: &[String], overrides: &Map) -> Result<Value, Fault> {
        are_apart(names)?;
        let profile = match self.config.profile(profile) {
            Ok(profile) => profile,
            Err(fault) => return Ok(Map::new().with("Error", fault.to_string()).into()),
        };
        let (alias, driver) = &profile.provider;
        let words = format!("{alias}:{driver}");
        let provider = *self
            .config
            .matching(&words)?
            .first()
            .ok_or_else(|| Fault::wrong(words.clone()))?;
        let none = Map::new();
        let specs = names.iter().map(|name| {
            let own = overrides.get(name).and_then(Value::as_map).unwrap_or(&none);
            (
                name.clone(),
                Spec::new(&self.config, provider, Some(profile), (name, own)),
            )
        });
        Ok(self.all_made(specs.collect(), &self.listing()).into())
    }

    fn create(&self, word: &str, names: &[String], settings: &Map) -> Result<Value, Fault> {
        are_apart(names)?;
        let providers = self.config.matching(word)?;
        let provider = *providers.first().ok_or_else(|| Fault::wrong(word))?;
        let specs = names.iter().map(|name| {
            (
                name.clone(),
                Spec::new(&self.config, provider, None, (name, settings)),
            )
        });
        Ok(self.all_made(specs.collect(), &self.listing()).into())
    }

    /// Makes machines, side by side with `parallel`. Returns what is known of each, or its error.
    fn all_made(&self, specs: Vec<(String, Result<Spec, Fault>)>, listing: &Listing) -> Map {
        let maker = self.maker();
        let settings = &self.config.main;
        let at_once = match settings.get("parallel").is_some_and(Value::is_true) {
            true => settings
                .get("pool_size")
                .and_then(Value::as_int)
                .unwrap_or(i64::MAX),
            false => 1,
        };
        let at_once = usize::try_from(at_once).unwrap_or(1).clamp(1, AT_ONCE);
        let made = side_by_side(&specs, at_once, |(name, spec)| {
            let made = spec.as_ref().map_err(Clone::clone).and_then(|spec| {
                let driver = drivers::open(self.cx, &spec.provider)?;
                maker.make(spec, &*driver, listing)
            });
            if let Err(fault) = &made {
                // Many faults begin with the name.
                let text = fault.to_string();
                match text.starts_with(name.as_str()) {
                    true => log::error(text),
                    false => log::error(format_args!("{name}: {text}")),
                }
            }
            made.unwrap_or_else(|fault| Map::new().with("Error", fault.to_string()))
        });
        let names = specs.iter().map(|(name, _)| name.as_str());
        names.zip(made).collect()
    }

    /// Makes the machines of a map. With `plan`, returns what would be done.
    fn map(&self) -> Result<Value, Fault> {
        let mut read = map::read(self.cx, &self.config)?;
        if let Some(only) = self.config.main.get("only").map(Value::texts) {
            read.specs
                .retain(|spec| only.iter().any(|name| name == spec.name.as_str()));
        }
        let flag = |key: &str| self.config.main.get(key).is_some_and(Value::is_true);
        if flag("hard") && !flag("enable_hard_maps") {
            return Err(Fault::wrong(
                "The --hard map can be extremely dangerous to use, and therefore must explicitly be enabled in the main configuration file, by setting 'enable_hard_maps' to True",
            ));
        }
        let listing = self.listing();
        let intents = Intents::of(self.cx);
        let (mut create, mut existing) = (Vec::new(), Vec::new());
        for spec in read.specs {
            let is_there = listing.find(spec.name.as_str()).is_some();
            let intent = intents.get(&spec.name)?;
            match is_there && intent.is_none_or(|intent| intent.done.is_some()) {
                true => existing.push(spec),
                false => create.push(spec),
            }
        }
        let is_wanted = |name: &str| {
            let mut all = create.iter().chain(&existing);
            all.any(|spec| spec.name.as_str() == name)
        };
        let rest = listing.machines().map(|(_, machine)| machine.name.clone());
        let destroy: Vec<String> = match flag("hard") {
            true => rest.filter(|name| !is_wanted(name)).collect(),
            false => Vec::new(),
        };
        if flag("plan") {
            return Ok(planned(&create, &existing, &destroy, read.errors).into());
        }
        let names: Vec<String> = existing.iter().map(|spec| spec.name.to_string()).collect();
        let mut done = Map::new();
        for group in ordered(create, &names)? {
            let specs = group
                .into_iter()
                .map(|spec| (spec.name.to_string(), Ok(spec)));
            done.update(self.all_made(specs.collect(), &listing));
        }
        for name in destroy {
            let gone = self.destroy(std::slice::from_ref(&name));
            let gone =
                gone.unwrap_or_else(|fault| Map::new().with("Error", fault.to_string()).into());
            done.insert(name, gone);
        }
        if !read.errors.is_empty() {
            done.insert("Errors", read.errors);
        }
        Ok(done.into())
    }

    fn destroy(&self, names: &[String]) -> Result<Value, Fault> {
        let listing = self.listing();
        let intents = Intents::of(self.cx);
        let (mut processed, mut missing) = (Map::new(), Vec::new());
        for name in names {
            let found: Vec<_> = listing
                .machines()
                .filter(|(_, machine)| machine.name == *name)
                .collect();
            for (listed, machine) in &found {
                let Some(provider) = self.config.provider(&listed.alias, &listed.driver) else {
                    continue;
                };
                let gone = self.destroyed(provider, machine, &intents);
                let gone = gone.unwrap_or_else(|fault| {
                    log::error(format_args!("{name}: {fault}"));
                    Map::new().with("Error", fault.to_string()).into()
                });
                put_machine(&mut processed, provider, name, gone);
            }
            if found.is_empty() {
                match self.forget(name, &intents, &listing)? {
                    Some(provider) => {
                        let gone = Map::new().with("Destroyed", "by an earlier call");
                        put_machine(&mut processed, provider, name, gone.into());
                    }
                    None => missing.push(name.as_str()),
                }
            }
        }
        if processed.is_empty() {
            return Err(Fault::wrong(match missing.is_empty() {
                true => "No machines were destroyed!".to_owned(),
                false => format!("The following VM's were not found: {}", missing.join(", ")),
            }));
        }
        if !missing.is_empty() {
            processed.insert(
                "Not Found",
                Value::list(missing.into_iter().map(Value::from)),
            );
        }
        Ok(processed.into())
    }

    /// Removes the intent of a machine that its provider does not have. Returns the provider if an
    /// earlier call has removed the machine and was cut short; its key is then deleted.
    fn forget(
        &self,
        name: &str,
        intents: &Intents,
        listing: &Listing,
    ) -> Result<Option<&Provider>, Fault> {
        let name = spec::id(name)?;
        let Some(intent) = intents.get(&name)? else {
            return Ok(None);
        };
        let _held = intents.hold(&name)?;
        let (alias, driver) = intent.provider.split_once(':').unwrap_or_default();
        if let Some(error) = listing.error_of(alias, driver) {
            return Err(Fault::wrong(format!(
                "the machines of {alias}:{driver} are not known: {error}"
            )));
        }
        let is_own = intent.done.is_none() || intent.run == self.maker().run;
        if !intent.is_leaving || !is_own {
            intents.end(self.cx, &name)?;
            return Ok(None);
        }
        if intent.done.is_none() {
            make::left(self.cx, intents, &intent)?;
        }
        Ok(self.config.provider(alias, driver))
    }

    fn destroyed(
        &self,
        provider: &Provider,
        machine: &Machine,
        intents: &Intents,
    ) -> Result<Value, Fault> {
        let name = machine.name.as_str();
        let id = spec::id(name);
        let _held = id.as_ref().ok().map(|id| intents.hold(id)).transpose()?;
        let about = Map::new()
            .with("name", name)
            .with("instance_id", machine.id.as_str());
        make::fire(
            self.cx,
            name,
            "destroying",
            "destroying instance",
            about.clone(),
        );
        let driver = drivers::open(self.cx, provider)?;
        let maker = self.maker();
        let leave = |id: &Id| intents.leave(id, (provider, machine), &maker.run);
        let leaving = id.as_ref().ok().map(leave).transpose()?;
        let gone = driver.destroy(self.cx, machine)?;
        if let Some(mut leaving) = leaving {
            make::delete_key(self.cx, name)?;
            match maker.is_step {
                true => {
                    leaving.done = Some(Map::new());
                    intents.put(&leaving)?;
                }
                false => intents.end(self.cx, &leaving.name)?,
            }
        }
        make::fire(self.cx, name, "destroyed", "destroyed instance", about);
        Ok(gone)
    }

    fn action(&self, fun: &str, names: &[String], kwargs: &Map) -> Result<Value, Fault> {
        let listing = self.listing();
        let (mut done, mut invalid, mut left) = (Map::new(), Map::new(), Vec::new());
        for name in names {
            let fits = |machine: &Machine| machine.name == *name || machine.id == *name;
            let Some((listed, machine)) = listing.machines().find(|(_, machine)| fits(machine))
            else {
                left.push(name.as_str());
                continue;
            };
            let Some(provider) = self.config.provider(&listed.alias, &listed.driver) else {
                continue;
            };
            let driver = drivers::open(self.cx, provider)?;
            match self.acted(&*driver, fun, machine, kwargs)? {
                Some(ret) => put_machine(&mut done, provider, &machine.name, ret),
                None => {
                    left.push(name.as_str());
                    let full = format!("{}.{fun}", provider.driver);
                    let names = invalid.entry(full, || Value::list([]));
                    if let Some(names) = names.as_list_mut() {
                        names.push(name.as_str().into());
                    }
                }
            }
        }
        if !invalid.is_empty() {
            done.insert("Invalid Actions", invalid);
        }
        if !left.is_empty() {
            let names = Value::list(left.into_iter().map(Value::from));
            done.insert("Not Actioned/Not Running", names.clone());
            done.insert("Not Found", names);
        }
        Ok(done.into())
    }

    fn acted(
        &self,
        driver: &dyn Driver,
        fun: &str,
        machine: &Machine,
        kwargs: &Map,
    ) -> Result<Option<Value>, Fault> {
        let ret = driver.action(self.cx, fun, machine, kwargs)?;
        Ok(match (ret, fun) {
            (None, "show_instance") => Some(machine.details().into()),
            (ret, _) => ret,
        })
    }

    fn function(&self, fun: &str, word: &str, kwargs: &Map) -> Result<Value, Fault> {
        let matches = self.config.matching(word)?;
        let [provider] = matches.as_slice() else {
            let all: Vec<String> = matches.iter().map(|provider| provider.full()).collect();
            return Err(Fault::wrong(format!(
                "More than one results matched '{word}'. Please specify one of: {}",
                all.join(", ")
            )));
        };
        let driver = drivers::open(self.cx, provider)?;
        let ret = driver.function(self.cx, fun, kwargs)?.ok_or_else(|| {
            Fault::wrong(format!(
                "The '{}' cloud provider alias, for the '{}' driver, does not define the function '{fun}'",
                provider.alias, provider.driver
            ))
        })?;
        let mut all = Map::new();
        put(&mut all, provider, ret);
        Ok(all.into())
    }

    fn orphans(&self) -> Result<Value, Fault> {
        let all = Intents::of(self.cx).all()?;
        let begun = all.iter().filter(|intent| intent.done.is_none());
        let shown = begun.map(|intent| (intent.name.as_str(), intent.shown()));
        Ok(shown.collect::<Map>().into())
    }
}

/// Checks that no name is given twice.
fn are_apart(names: &[String]) -> Result<(), Fault> {
    let mut seen = BTreeSet::new();
    match names.iter().find(|name| !seen.insert(name.as_str())) {
        Some(twice) => Err(Fault::wrong(format!("the call names {twice} twice"))),
        None => Ok(()),
    }
}

/// Sets the data of a provider, below its alias.
fn put(all: &mut Map, provider: &Provider, data: Value) {
    let entry = all.entry(provider.alias.as_str(), || Map::new().into());
    if let Some(drivers) = entry.as_map_mut() {
        drivers.insert(provider.driver.as_str(), data);
    }
}

/// Sets the data of a machine, below its provider.
fn put_machine(all: &mut Map, provider: &Provider, name: &str, data: Value) {
    let entry = all.entry(provider.alias.as_str(), || Map::new().into());
    let Some(drivers) = entry.as_map_mut() else {
        return;
    };
    let machines = drivers.entry(provider.driver.as_str(), || Map::new().into());
    if let Some(machines) = machines.as_map_mut() {
        machines.insert(name, data);
    }
}

/// Returns what a map would do.
fn planned(create: &[Spec], existing: &[Spec], destroy: &[String], errors: Map) -> Map {
    let shown = |specs: &[Spec]| -> Map {
        let about = |spec: &Spec| {
            let about = Map::new()
                .with("profile", spec.profile.clone())
                .with("provider", spec.provider.full());
            (spec.name.to_string(), about)
        };
        specs.iter().map(about).collect()
    };
    let mut plan = Map::new().with("create", shown(create));
    if !existing.is_empty() {
        plan.insert("existing", shown(existing));
    }
    if !destroy.is_empty() {
        plan.insert(
            "destroy",
            Value::list(destroy.iter().map(|name| name.as_str().into())),
        );
    }
    if !errors.is_empty() {
        plan.insert("errors", errors);
    }
    plan
}

/// Calls a function for each item, for some at the same time. Returns the results in the order of the
/// items.
fn side_by_side<T: Sync, R: Send>(
    items: &[T],
    at_once: usize,
    call: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let mut results = Vec::new();
    for group in items.chunks(at_once.max(1)) {
        if let [one] = group {
            results.push(call(one));
            continue;
        }
        std::thread::scope(|scope| {
            let started: Vec<_> = group
                .iter()
                .map(|item| scope.spawn(|| call(item)))
                .collect();
            for thread in started {
                match thread.join() {
                    Ok(result) => results.push(result),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
    }
    results
}
