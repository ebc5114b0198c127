//! `salt-cloud`: the requests of a command line, which a master that runs on this machine answers, or
//! else this program.

use std::io::{self, BufRead, Read};
use std::path::Path;
use std::process::ExitCode;

use cli::binary::PINCH;
use cli::config as configuration;
use cli::failure::{Exit, Failure};
use cli::log::Logger;
use cli::options::{
    CloudAction, CloudOptions, SALT_CLOUD, SaltCloud, read_saltfile, saltfile_path,
};
use cli::output::{Screen, heed_no_color};
use modules::exec::cloud::{Offer, Request, Work};
use modules::fileserver::roots::Roots;
use modules::loader::custom::CustomModules;
use modules::state_run::orchestrate::ThisMachine;
use render::yaml::SaltYaml;
use state::exec::Exec;
use state::opts::Opts;
use value::{Map, Value, log};

use crate::answer;
use crate::config::{self, Config};
use crate::map;

/// A function that calls a runner on the master of this machine. It returns `None` if none runs.
pub type OnMaster<'a> = &'a dyn Fn(&Map, &str, Map) -> Result<Option<Value>, String>;

/// The maximum length of an answer in bytes.
const ANSWER_MAX: u64 = 64;
/// The beginning of the error of a runner.
const RAISED: &str = "Exception occurred in runner ";

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn failed(error: impl ToString) -> Failure {
    Failure::new(Exit::Generic, error.to_string())
}

/// Runs `salt-cloud` with the arguments `words`.
///
/// # Errors
/// When the command line or the configuration is wrong, or the request fails as a whole.
pub fn run(words: Vec<String>, on_master: OnMaster<'_>) -> Result<ExitCode, Failure> {
    let usage = |error| Failure::usage(&SALT_CLOUD, error);
    let mut line = SaltCloud::parse(words, env).map_err(usage)?;
    let action = match line.request {
        CloudOptions::About(about) => return Ok(PINCH.tell(&SALT_CLOUD, about)),
        CloudOptions::Action(action) => action,
    };
    if let Some(path) = saltfile_path(&line.settings.overrides, env) {
        let saltfile = read_saltfile(&path, &SaltYaml);
        line.settings.merge_saltfile(&saltfile.map_err(usage)?);
    }
    let path = line
        .clouds
        .get("map")
        .and_then(Value::as_str)
        .map(Path::new);
    if let Some(Ok(path)) = path.filter(|path| path.exists()).map(std::path::absolute) {
        // A master has another working directory.
        line.clouds
            .insert("map", path.to_string_lossy().into_owned());
    }
    let settings = &line.settings;
    let overrides = settings.overrides.clone();
    let loaded =
        configuration::load_master(&settings.config_dir, settings.program, overrides, &SaltYaml)
            .map_err(|error| Failure::new(Exit::Generic, error))?;
    configuration::obeyed(&loaded, &settings.config_dir)?;
    let _first = Logger::from_opts(&loaded.opts).install();
    loaded.warnings.iter().for_each(log::warning);
    let mut how = loaded.opts.clone();
    heed_no_color(&mut how, env);
    let opts = Opts::new(loaded.opts);
    let cx = Exec::with_custom(
        opts.clone(),
        &modules::REGISTRY,
        Box::new(Roots::states(&opts)),
        Box::new(ThisMachine),
        Box::new(CustomModules::new(&opts)),
    );
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let mut screen = Screen::new(
        &mut out,
        &mut err,
        &how,
        settings.output_file.as_ref(),
        &SaltYaml,
    )
    .map_err(|error| Failure::new(Exit::CantCreate, error))?;
    let command = Command {
        cx: &cx,
        clouds: line.clouds,
        assumes_yes: line.assumes_yes,
        on_master,
    };
    let Some((shown, code)) = command.done(action, &mut screen)? else {
        return Ok(Exit::Ok.into());
    };
    screen.show(&shown, None, code.into());
    cx.barrier();
    Ok(ExitCode::from(code))
}

/// A command line, and the machine that answers it.
struct Command<'a> {
    cx: &'a Exec,
    /// The settings of clouds.
    clouds: Map,
    assumes_yes: bool,
    on_master: OnMaster<'a>,
}

/// The data to print and the exit code.
type Shown = (Value, u8);

impl Command<'_> {
    /// Does what the command line says. Returns `None` if nothing is printed.
    fn done(&self, action: CloudAction, screen: &mut Screen<'_>) -> Result<Option<Shown>, Failure> {
        let shown = match action {
            CloudAction::Nothing => return Ok(None),
            CloudAction::Orphans => self.asked(Work::Orphans),
            CloudAction::Query(kind) => self.query(kind),
            CloudAction::Providers => Ok((self.providers()?, 0)),
            CloudAction::Profiles(word) => Ok((self.profiles(&word)?, 0)),
            CloudAction::Offers(kind, provider) => {
                let offer = match kind {
                    "locations" => Offer::Locations,
                    "images" => Offer::Images,
                    _ => Offer::Sizes,
                };
                self.asked(Work::Offers(offer, provider))
            }
            CloudAction::Destroy(names) => return self.destroy(names, screen),
            CloudAction::Act(fun, names, kwargs) => return self.act(fun, names, kwargs, screen),
            CloudAction::Function(fun, provider, kwargs) => self.asked(Work::Function {
                fun,
                provider,
                kwargs,
            }),
            CloudAction::Profile(profile, names) => {
                let overrides = Map::new();
                self.asked(Work::Profile {
                    profile,
                    names,
                    overrides,
                })
            }
            CloudAction::Map(names) => return self.map(&names, screen),
        };
        shown.map(Some)
    }

    /// Answers a request: by the master of this machine if one runs, or else here.
    fn asked(&self, work: Work) -> Result<Shown, Failure> {
        self.asked_with(work, self.clouds.clone())
    }

    fn asked_with(&self, work: Work, settings: Map) -> Result<Shown, Failure> {
        let (fun, kwargs) = runner(&work, &settings);
        let answered = (self.on_master)(&self.cx.opts().map, fun, kwargs).map_err(failed)?;
        let Some(answer) = answered else {
            let request = Request {
                settings,
                ..work.into()
            };
            let shown = answer(self.cx, request).map_err(failed)?;
            let code = u8::from(has_error(&shown, DEPTH_OF_MACHINE));
            return Ok((shown, code));
        };
        let shown = answer.get("return").cloned().unwrap_or_default();
        let text = shown.as_str().unwrap_or_default();
        if let Some(error) = text.strip_prefix(RAISED) {
            let error = error.split_once(": ").map_or(error, |(_, error)| error);
            return Err(failed(error));
        }
        let success = answer.get("success").is_some_and(Value::is_true);
        Ok((shown, u8::from(!success)))
    }

    fn config(&self) -> Result<Config, Failure> {
        Config::load(&config::folder(self.cx), &self.clouds, &Map::new()).map_err(failed)
    }

    fn providers(&self) -> Result<Value, Failure> {
        let config = self.config()?;
        let mut all = Map::new();
        for provider in config.matching("all").map_err(failed)? {
            let drivers = all.entry(provider.alias.as_str(), || Map::new().into());
            if let Some(drivers) = drivers.as_map_mut() {
                drivers.insert(provider.driver.as_str(), Map::new());
            }
        }
        Ok(all.into())
    }

    fn profiles(&self, word: &str) -> Result<Value, Failure> {
        let config = self.config()?;
        if config.profiles.is_empty() {
            return Err(failed("There are no cloud profiles configured."));
        }
        let mut all = Map::new();
        for profile in &config.profiles {
            let (alias, driver) = &profile.provider;
            let shown = match word {
                "all" => alias,
                word if word == alias => alias,
                word if word == driver => driver,
                _ => continue,
            };
            all.insert(profile.name.as_str(), Map::new().with(shown, Map::new()));
        }
        Ok(all.into())
    }

    /// Lists the machines, or those of the map with the word `Absent` for those that are missing.
    fn query(&self, kind: &str) -> Result<Shown, Failure> {
        let (all, code) = self.asked_with(Work::Query(kind.to_owned()), Map::new())?;
        if !self.clouds.contains("map") {
            return Ok((all, code));
        }
        let config = self.config()?;
        let read = map::read(self.cx, &config).map_err(failed)?;
        let mut shown = Map::new();
        for spec in &read.specs {
            let provider = &spec.provider;
            let found = found(&all, spec.name.as_str());
            let (alias, driver, data) = match found {
                Some(found) => found,
                None => (
                    provider.alias.clone(),
                    provider.driver.clone(),
                    "Absent".into(),
                ),
            };
            let drivers = shown.entry(alias, || Map::new().into());
            let machines = drivers
                .as_map_mut()
                .map(|drivers| drivers.entry(driver, || Map::new().into()));
            if let Some(machines) = machines.and_then(Value::as_map_mut) {
                machines.insert(spec.name.as_str(), data);
            }
        }
        if !read.errors.is_empty() {
            shown.insert("Errors", read.errors);
        }
        Ok((shown.into(), code))
    }

    fn destroy(
        &self,
        names: Vec<String>,
        screen: &mut Screen<'_>,
    ) -> Result<Option<Shown>, Failure> {
        let names = match self.clouds.contains("map") {
            true => {
                let config = self.config()?;
                let read = map::read(self.cx, &config).map_err(failed)?;
                read.specs
                    .iter()
                    .map(|spec| spec.name.to_string())
                    .collect()
            }
            false => names,
        };
        let (all, _) = self.asked_with(Work::Query("list_nodes".to_owned()), Map::new())?;
        let matching = matching(&all, &names);
        if matching.is_empty() {
            screen.say("No machines were found to be destroyed");
            return Ok(None);
        }
        let mut text = "The following virtual machines are set to be destroyed:\n".to_owned();
        let mut last = (String::new(), String::new());
        for (alias, driver, name) in &matching {
            if last.0 != *alias {
                text += &format!("  {alias}:\n");
                last = (alias.clone(), String::new());
            }
            if last.1 != *driver {
                text += &format!("    {driver}:\n");
                last.1.clone_from(driver);
            }
            text += &format!("      {name}\n");
        }
        if !self.confirmed(&text, screen)? {
            return Ok(Some((Map::new().into(), 0)));
        }
        let names = matching.into_iter().map(|(_, _, name)| name).collect();
        self.asked_with(Work::Destroy(names), Map::new()).map(Some)
    }

    fn act(
        &self,
        fun: String,
        names: Vec<String>,
        kwargs: Map,
        screen: &mut Screen<'_>,
    ) -> Result<Option<Shown>, Failure> {
        let mut text =
            format!("The following virtual machines are set to be actioned with \"{fun}\":\n");
        for name in &names {
            text += &format!("  {name}\n");
        }
        if !self.confirmed(&text, screen)? {
            return Ok(Some((Map::new().into(), 0)));
        }
        self.asked_with(Work::Action { fun, names, kwargs }, Map::new())
            .map(Some)
    }

    fn map(&self, only: &[String], screen: &mut Screen<'_>) -> Result<Option<Shown>, Failure> {
        let mut settings = self.clouds.clone();
        if !only.is_empty() {
            settings.insert(
                "only",
                Value::list(only.iter().map(|name| name.as_str().into())),
            );
        }
        let asked = settings.clone().with("plan", true);
        let (plan, _) = self.asked_with(Work::Map, asked)?;
        let part = |key: &str| plan.get(key).filter(|part| part.is_true());
        let lines = |names: Vec<String>| -> String {
            names.iter().map(|name| format!("  {name}\n")).collect()
        };
        let keys = |part: &Value| match part {
            Value::Map(map) => map.keys().map(Value::to_text).collect(),
            list => list.texts(),
        };
        if let Some(Value::Map(errors)) = part("errors") {
            let lines = errors
                .iter()
                .map(|(profile, error)| format!("  {}: {}\n", profile.as_text(), error.as_text()));
            screen.complain(&format!(
                "Found the following errors:\n{}",
                lines.collect::<String>()
            ));
        }
        let mut text = String::new();
        for (key, title) in [
            (
                "existing",
                "The following virtual machines already exist:\n",
            ),
            (
                "create",
                "The following virtual machines are set to be created:\n",
            ),
            (
                "destroy",
                "The following virtual machines are set to be destroyed:\n",
            ),
        ] {
            if let Some(part) = part(key) {
                text += title;
                text += &lines(keys(part));
            }
        }
        let does = part("create").is_some() || part("destroy").is_some();
        if !does && part("existing").is_none() {
            screen.say(&text);
            return Err(Failure::new(Exit::Generic, "nothing to create or destroy"));
        }
        let (mut shown, mut code) = (Value::from(Map::new()), 0);
        if does && self.confirmed(&text, screen)? {
            (shown, code) = self.asked_with(Work::Map, settings)?;
        }
        if let (Some(Value::Map(existing)), Some(shown)) = (part("existing"), shown.as_map_mut()) {
            for (name, about) in existing {
                let is_ec2 = about
                    .get("provider")
                    .is_some_and(|full| full.as_text().contains("ec2"));
                let text = match is_ec2 {
                    true => "Instance already exists, or is terminated and has the same name.",
                    false => "Already running.",
                };
                shown.insert(name.clone(), Map::new().with("Message", text));
            }
        }
        Ok(Some((shown, code)))
    }

    /// Shows what will be done, and asks whether to proceed.
    fn confirmed(&self, text: &str, screen: &mut Screen<'_>) -> Result<bool, Failure> {
        if self.assumes_yes {
            return Ok(true);
        }
        screen.say(text);
        screen.complain("Proceed? [N/y] ");
        let mut answer = String::new();
        let mut line = Read::take(io::stdin().lock(), ANSWER_MAX);
        line.read_line(&mut answer).map_err(failed)?;
        if answer.is_empty() {
            return Err(failed("no answer: the input has ended; -y answers yes"));
        }
        let is_yes = answer.to_lowercase().starts_with('y');
        if is_yes {
            screen.say("... proceeding");
        }
        Ok(is_yes)
    }
}

/// The depth of a machine's data in an answer.
const DEPTH_OF_MACHINE: usize = 3;

fn has_error(value: &Value, depth: usize) -> bool {
    if value.get("Error").is_some_and(Value::is_true) {
        return true;
    }
    let mut parts = value.as_map().into_iter().flat_map(Map::values);
    depth > 0 && parts.any(|part| has_error(part, depth - 1))
}

/// Returns the alias, the driver and the data of a machine in the answer of a query.
fn found(all: &Value, name: &str) -> Option<(String, String, Value)> {
    for (alias, drivers) in all.as_map()? {
        for (driver, machines) in drivers.as_map()? {
            if let Some(data) = machines.get(name) {
                return Some((alias.to_text(), driver.to_text(), data.clone()));
            }
        }
    }
    None
}

/// Returns the alias, the driver and the name of each of these machines in the answer of a query.
fn matching(all: &Value, names: &[String]) -> Vec<(String, String, String)> {
    let mut matching = Vec::new();
    for (alias, drivers) in all.as_map().into_iter().flatten() {
        for (driver, machines) in drivers.as_map().into_iter().flatten() {
            for name in machines.as_map().into_iter().flat_map(Map::keys) {
                if names.iter().any(|wanted| *wanted == name.as_text()) {
                    matching.push((alias.to_text(), driver.to_text(), name.to_text()));
                }
            }
        }
    }
    matching
}

/// Returns the runner's function that does this work, and its arguments.
fn runner(work: &Work, settings: &Map) -> (&'static str, Map) {
    let list = |names: &[String]| Value::list(names.iter().map(|name| name.as_str().into()));
    let kwargs = Map::new();
    match work {
        Work::Offers(offer, provider) => (
            match offer {
                Offer::Images => "cloud.list_images",
                Offer::Sizes => "cloud.list_sizes",
                Offer::Locations => "cloud.list_locations",
            },
            kwargs.with("provider", provider.as_str()),
        ),
        Work::Query(kind) => ("cloud.query", kwargs.with("query_type", kind.as_str())),
        Work::Profile {
            profile,
            names,
            overrides,
        } => (
            "cloud.profile",
            kwargs
                .with("prof", profile.as_str())
                .with("instances", list(names))
                .with("vm_overrides", overrides.clone())
                .with("opts", settings.clone()),
        ),
        Work::Map => ("cloud.map_run", settings.clone()),
        Work::Destroy(names) => ("cloud.destroy", kwargs.with("instances", list(names))),
        Work::Action {
            fun,
            names,
            kwargs: own,
        } => {
            let mut kwargs = own.clone();
            kwargs.insert("func", fun.as_str());
            kwargs.insert("instances", list(names));
            ("cloud.action", kwargs)
        }
        Work::Function {
            fun,
            provider,
            kwargs: own,
        } => {
            let mut kwargs = own.clone();
            kwargs.insert("func", fun.as_str());
            kwargs.insert("provider", provider.as_str());
            ("cloud.action", kwargs)
        }
        Work::Create {
            provider,
            names,
            settings: own,
        } => {
            let mut kwargs = own.clone();
            kwargs.insert("provider", provider.as_str());
            kwargs.insert("instances", list(names));
            kwargs.insert("opts", settings.clone());
            ("cloud.create", kwargs)
        }
        Work::Orphans => ("cloud.orphans", kwargs),
    }
}
