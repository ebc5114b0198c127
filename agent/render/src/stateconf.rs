//! The renderer `stateconf`: an SLS with local ids (`.id` becomes `sls::id`), settings that its
//! second part can use, a goal that other states can require, and states that require each other in
//! order.

use std::sync::Arc;

use value::pyre::{Flags, Regex};
use value::{Map, Value};

use crate::{Context, Error, Host, Kind, jinja};

const END: &str = r"#\s*-+\s*end of state config\s*-+";
const START: &str = ".start";
const GOAL: &str = ".goal";
const SET: &str = "stateconf.set";

/// The requisites whose targets may be names of this SLS.
const REQUISITES: &[&str] = &[
    "require",
    "require_in",
    "watch",
    "watch_in",
    "use",
    "use_in",
    "listen",
    "listen_in",
    "onchanges",
    "onchanges_in",
    "onfail",
    "onfail_in",
];

/// The options of the renderer line: `#!stateconf -Gos yaml . jinja`.
#[derive(Default)]
struct Options {
    no_goal: bool,
    in_order: bool,
    start: bool,
}

fn failed(message: impl Into<String>) -> Error {
    Error::new(Kind::Document, message)
}

impl Options {
    fn parse(argline: &str) -> Result<Self, Error> {
        let mut options = Self::default();
        let words = argline.split_whitespace();
        let (flags, rest): (Vec<&str>, Vec<&str>) = words.partition(|word| word.starts_with('-'));
        for letter in flags.iter().flat_map(|word| word.chars().skip(1)) {
            match letter {
                'G' => options.no_goal = true,
                'o' => options.in_order = true,
                's' => options.start = true,
                _ => return Err(failed(format!("option -{letter} not recognized"))),
            }
        }
        if matches!(rest.as_slice(), [] | ["yaml", ".", "jinja"]) {
            return Ok(options);
        }
        Err(failed(format!(
            "Renderer: stateconf only accepts `yaml . jinja`, got `{}`",
            rest.join(" ")
        )))
    }
}

/// Renders an SLS twice: first up to the end of its settings, then as a whole with the settings as
/// variables.
///
/// # Errors
/// The errors of Jinja and YAML, and invalid ids or requisites.
pub(crate) fn render(
    text: &str,
    argline: &str,
    context: &Context,
    host: &Arc<dyn Host>,
    yaml: fn(&str) -> Result<Value, Error>,
) -> Result<Value, Error> {
    let options = Options::parse(argline)?;
    let sls = context.variables.get("sls").map(Value::to_text);
    let sls = sls.unwrap_or_default();
    let pass = |text: &str, settings: &Map, whole: bool| -> Result<Map, Error> {
        let mut variables = context.variables.clone();
        let folder = sls
            .rsplit_once('.')
            .map_or(sls.as_str(), |(folder, _)| folder);
        let folder = folder.replace('.', "/");
        variables.insert("sls_dir", if folder.is_empty() { "." } else { &folder });
        variables.update(settings.clone());
        let context = Context {
            variables,
            ..context.clone()
        };
        let data = yaml(&jinja::render(text, &context, host)?)?;
        let data = data.as_map().cloned().unwrap_or_default();
        Sls { sls: &sls, data }.processed(&options, whole, &context)
    };
    let end = Regex::new(END, Flags::NONE).ok();
    let end = end.and_then(|end| {
        end.captures(text, 0)
            .ok()
            .flatten()?
            .get(0)
            .map(|m| m.start())
    });
    if let Some(settings) = end.and_then(|end| text.get(..end)) {
        pass(settings, &Map::new(), false)?;
    }
    let own = format!("{sls}::");
    let settings: Map = context
        .shared
        .settings()
        .into_iter()
        .map(|(id, value)| {
            let id = id.to_text();
            (id.strip_prefix(&own).unwrap_or(&id).to_owned(), value)
        })
        .collect();
    pass(text, &settings, true).map(Value::Map)
}

/// An SLS that is being transformed for the compiler.
struct Sls<'a> {
    sls: &'a str,
    data: Map,
}

/// Returns the module of a state such as `pkg.installed`.
fn module(state: &str) -> &str {
    state.split('.').next().unwrap_or_default()
}

fn pair(state: &str, id: &str) -> Value {
    Map::new().with(module(state), id).into()
}

/// True for ids that declare states.
fn is_id(id: &str) -> bool {
    !id.starts_with("__") && !["include", "exclude"].contains(&id)
}

impl Sls<'_> {
    fn processed(
        mut self,
        options: &Options,
        whole: bool,
        context: &Context,
    ) -> Result<Map, Error> {
        self.shorthand();
        self.relative()?;
        if whole && options.in_order {
            self.ordered()?;
        }
        if options.start {
            self.start()?;
        }
        if whole && !options.no_goal {
            self.goal()?;
        }
        if let Some(Value::Map(mut extended)) = self.data.get("extend").cloned() {
            rename(&mut extended, self.sls)?;
            self.data.insert("extend", extended);
        }
        rename(&mut self.data, self.sls)?;
        self.keep_settings(context);
        Ok(self.data)
    }

    /// Expands the short form `id: pkg.installed`.
    fn shorthand(&mut self) {
        for (_, states) in self.data.iter_mut() {
            if let Value::Str(state) = states {
                *states = Map::new().with(state, Vec::<Value>::new()).into();
            }
        }
    }

    /// Resolves includes and excludes with leading dots.
    fn relative(&mut self) -> Result<(), Error> {
        let sls = self.sls;
        if let Some(items) = self.data.get_mut("include").and_then(Value::as_list_mut) {
            for item in items {
                let (env, name) = match item.as_map().and_then(Map::first) {
                    Some((env, name)) => (Some(env.clone()), name.to_text()),
                    None => (None, item.to_text()),
                };
                if name.starts_with('.') {
                    let name = absolute(&name, sls)?;
                    *item = match env {
                        Some(env) => [(env, name)].into_iter().collect(),
                        None => name.into(),
                    };
                }
            }
        }
        if let Some(items) = self.data.get_mut("exclude").and_then(Value::as_list_mut) {
            for item in items.iter_mut().filter_map(Value::as_map_mut) {
                let name = item.get("sls").map(Value::to_text).unwrap_or_default();
                if name.starts_with('.') {
                    item.insert("sls", absolute(&name, sls)?);
                }
            }
        }
        Ok(())
    }

    /// Returns the id, the function and the arguments of every state.
    fn states(&self) -> Vec<(String, String, Vec<Value>)> {
        let ids = self.data.iter();
        let ids = ids.filter(|(id, _)| is_id(&id.to_text()) && id.as_str() != Some("extend"));
        ids.flat_map(|(id, states)| {
            let states = states.as_map().into_iter().flatten();
            states.map(|(state, args)| {
                let args = args.as_list().unwrap_or_default().to_vec();
                (id.to_text(), state.to_text(), args)
            })
        })
        .filter(|(_, state, _)| !state.starts_with("__"))
        .collect()
    }

    /// Makes each state require the one before it; it is an error if a state waits for a later one.
    fn ordered(&mut self) -> Result<(), Error> {
        let states = self.states();
        let tags: Vec<String> = states
            .iter()
            .map(|(id, state, _)| format!("{id}:{}", module(state)))
            .collect();
        for (at, (id, state, args)) in states.iter().enumerate() {
            let named = |wanted: &str| args.iter().any(|arg| arg.get(wanted).is_some());
            if named("names") {
                return Err(failed(format!(
                    "'names' declaration(found in state id: {id}) is not supported with implicitly ordered states! You should generate the states in a template for-loop instead."
                )));
            }
            let tag = format!("{id}:{}", module(state));
            for (requisite, target) in targets(args) {
                let place = tags.iter().position(|tag| *tag == target);
                let is_in = requisite.ends_with("_in");
                let wrong = place.is_some_and(|place| if is_in { place < at } else { place > at });
                if wrong && !requisite.starts_with("use") {
                    let (kinds, side) = if is_in {
                        (
                            "require_in/watch_in/listen_in/onchanges_in/onfail_in",
                            "before",
                        )
                    } else {
                        ("require/watch/listen/onchanges/onfail", "after")
                    };
                    return Err(failed(format!(
                        "State({tag}) can't {kinds} a state({target}) defined {side} it!"
                    )));
                }
            }
            let before = at.checked_sub(1).and_then(|before| states.get(before));
            if let Some((before, function, _)) = before {
                self.require(id, state, pair(function, before));
            }
        }
        Ok(())
    }

    /// Adds a requisite to a state, as its first one.
    fn require(&mut self, id: &str, state: &str, target: Value) {
        let states = self.data.get_mut(id).and_then(Value::as_map_mut);
        let Some(args) = states.and_then(|states| states.get_mut(state)?.as_list_mut()) else {
            return;
        };
        let known = args
            .iter_mut()
            .find_map(|arg| arg.as_map_mut()?.get_mut("require")?.as_list_mut());
        match known {
            Some(required) => required.insert(0, target),
            None => args.push(Map::new().with("require", vec![target]).into()),
        }
    }

    fn refuse_second(&self, kind: &str, id: &str) -> Result<(), Error> {
        if self.data.contains(id) {
            return Err(failed(format!(
                "Can't generate {kind} state({id})! The same state id already exists!"
            )));
        }
        Ok(())
    }

    /// Adds a state that runs before all others.
    fn start(&mut self) -> Result<(), Error> {
        self.refuse_second("start", START)?;
        if self.data.is_empty() {
            return Ok(());
        }
        let first = self.states().into_iter().next();
        let (id, state, _) =
            first.ok_or_else(|| failed("Can't determine the first state in the sls file!"))?;
        self.add(START, "require_in", vec![pair(&state, &id)]);
        Ok(())
    }

    /// Adds a state that runs after all others.
    fn goal(&mut self) -> Result<(), Error> {
        self.refuse_second("goal", GOAL)?;
        let states = self.states();
        let required = states.iter().map(|(id, state, _)| pair(state, id));
        let required = required.collect();
        self.add(GOAL, "require", required);
        Ok(())
    }

    fn add(&mut self, id: &str, requisite: &str, targets: Vec<Value>) {
        let args = vec![Value::from(Map::new().with(requisite, targets))];
        self.data.insert(id, Map::new().with(SET, args));
    }

    /// Stores the arguments of `stateconf.set`, for this SLS and the following ones.
    fn keep_settings(&self, context: &Context) {
        let extended = self.data.get("extend").and_then(Value::as_map);
        let extended = extended.cloned().unwrap_or_default();
        let of = |states: &Value| -> Option<Map> {
            let args = states.get("stateconf").or_else(|| states.get(SET))?;
            let args = args.as_list().unwrap_or_default().iter();
            let pairs = args.filter_map(|arg| arg.as_map()?.first());
            Some(pairs.map(|(k, v)| (k.clone(), v.clone())).collect())
        };
        for (id, states) in &self.data {
            let Some(mut settings) = of(states) else {
                continue;
            };
            settings.update(extended.get_value(id).and_then(of).unwrap_or_default());
            context.shared.set(&id.to_text(), settings);
        }
    }
}

/// Returns the requisites of a state: their kind, and their target as `id:module`.
fn targets(args: &[Value]) -> Vec<(String, String)> {
    let pairs = args.iter().filter_map(|arg| arg.as_map()?.first());
    let requisites = pairs.filter(|(name, _)| REQUISITES.contains(&name.to_text().as_str()));
    requisites
        .flat_map(|(name, targets)| {
            let targets = targets.as_list().unwrap_or_default().iter();
            let targets = targets.filter_map(|target| target.as_map()?.first());
            targets.map(|(module, id)| {
                (
                    name.to_text(),
                    format!("{}:{}", id.to_text(), module.to_text()),
                )
            })
        })
        .collect()
}

/// Replaces ids that begin with a dot, and requisites on them, by their full names.
fn rename(data: &mut Map, sls: &str) -> Result<(), Error> {
    for (_, states) in data.iter_mut() {
        for (_, args) in states.as_map_mut().into_iter().flat_map(Map::iter_mut) {
            let args = args.as_list_mut().into_iter().flatten();
            for arg in args.filter_map(Value::as_map_mut) {
                rename_targets(arg, sls)?;
            }
        }
    }
    let dotted: Vec<String> = data
        .keys()
        .map(Value::to_text)
        .filter(|id| id.starts_with('.'))
        .collect();
    for id in dotted {
        let name = full(&id, sls)?;
        if data.contains(&name) {
            return Err(failed(format!(
                "Can't rename state id({id}) into {name} because the later already exists!"
            )));
        }
        let Some(mut states) = data.remove(&id) else {
            continue;
        };
        for (state, args) in states.as_map_mut().into_iter().flat_map(Map::iter_mut) {
            let is_set = module(&state.to_text()) == "stateconf";
            if let Some(args) = args.as_list_mut().filter(|_| !is_set) {
                let first =
                    |arg: &Value| arg.as_map().and_then(Map::first).map(|(k, _)| k.to_text());
                if !args.iter().any(|arg| first(arg).as_deref() == Some("name")) {
                    let short = id.strip_prefix('.').unwrap_or(&id);
                    args.insert(0, Map::new().with("name", short).into());
                }
            }
        }
        data.insert(name, states);
    }
    Ok(())
}

fn rename_targets(arg: &mut Map, sls: &str) -> Result<(), Error> {
    for (name, targets) in arg.iter_mut() {
        if !REQUISITES.contains(&name.to_text().as_str()) {
            continue;
        }
        let targets = targets.as_list_mut().into_iter().flatten();
        for target in targets.filter_map(Value::as_map_mut) {
            for (_, id) in target.iter_mut() {
                let text = id.to_text();
                if text.starts_with('.') {
                    *id = full(&text, sls)?.into();
                }
            }
        }
    }
    Ok(())
}

/// Returns the full name of an id that begins with a dot; one with `::` belongs to another SLS.
fn full(id: &str, sls: &str) -> Result<String, Error> {
    if id.contains("::") {
        return absolute(id, sls);
    }
    let name = absolute(id, &format!("{sls}."))?;
    Ok(match name.rsplit_once('.') {
        Some((sls, id)) => format!("{sls}::{id}"),
        None => name,
    })
}

/// Resolves a name with leading dots relative to an SLS.
fn absolute(name: &str, sls: &str) -> Result<String, Error> {
    let rest = name.trim_start_matches('.');
    let levels = name.len() - rest.len();
    let parts: Vec<&str> = sls.split('.').collect();
    let kept = parts.len().checked_sub(levels);
    let kept = kept.and_then(|kept| parts.get(..kept));
    let kept =
        kept.ok_or_else(|| failed("Attempted relative include goes beyond top level package"))?;
    Ok([kept, &[rest]].concat().join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_dots_are_seen_from_their_sls() {
        assert_eq!(full(".x", "my.sls").unwrap(), "my.sls::x");
        assert_eq!(full("..x", "my.sls").unwrap(), "my::x");
        assert_eq!(full(".other::x", "my.sls").unwrap(), "my.other::x");
        assert_eq!(full(".x", "sls").unwrap(), "sls::x");
        assert!(absolute("...x", "sls").is_err());
    }
}
