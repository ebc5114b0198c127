//! Converts SLS names to high data: rendering, includes, merging (Salt's `render_highstate` and
//! `render_state`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use value::glob::{fnmatch, is_glob};
use value::{Map, Value};

use super::declarations::{Declarations, number};
use super::documents::{Document, Documents};
use super::high::{is_dunder, shown_text};
use super::hint::did_you_mean;
use super::{Fault, HighData};

/// The maximum depth of includes. Each level is a recursive call.
const DEEPEST: usize = 400;

/// The first number that Salt assigns to states.
const FIRST_ORDER: i64 = 10000;

/// A provider of SLS files.
pub(crate) trait Library {
    /// Returns the environments.
    fn environments(&self) -> Result<Vec<String>, Fault>;

    /// Returns the names of all SLS files of an environment. This lists every file of its roots.
    fn names(&self, saltenv: &str) -> Result<Vec<String>, Fault>;

    /// Returns true if an environment has an SLS file of this name, which is not a glob.
    fn has(&self, sls: &str, saltenv: &str) -> Result<bool, Fault>;

    /// Returns a rendered SLS file; `None` if it does not exist.
    fn render(&self, sls: &str, saltenv: &str) -> Result<Option<Document>, Fault>;
}

/// The merged SLS files of a run, and their faults.
pub(crate) struct Rendered {
    pub(crate) high: HighData,
    pub(crate) faults: Vec<Fault>,
}

impl Rendered {
    fn failed(fault: Fault) -> Self {
        Self {
            high: HighData {
                map: Map::new(),
                documents: Documents::default(),
            },
            faults: vec![fault],
        }
    }
}

/// Renders SLS files of several environments with their includes.
pub(crate) fn rendered(
    library: &dyn Library,
    matches: &[(String, Vec<String>)],
    auto_order: bool,
) -> Rendered {
    let mut merge = match Merge::new(library, matches, auto_order) {
        Ok(merge) => merge,
        Err(fault) => return Rendered::failed(fault),
    };
    let mut high = Map::new();
    let mut faults = Vec::new();
    for (saltenv, states) in matches {
        for wanted in states {
            merge.top(&mut high, saltenv, wanted, &mut faults);
        }
    }
    clean_duplicate_extends(&mut high);
    let documents = merge.documents;
    Rendered {
        high: HighData {
            map: high,
            documents,
        },
        faults,
    }
}

/// Renders one file that is not part of a tree (`state.template`).
pub(crate) fn alone(library: &dyn Library, sls: &str, saltenv: &str, auto_order: bool) -> Rendered {
    let mut merge = match Merge::new(library, &[], auto_order) {
        Ok(merge) => merge,
        Err(fault) => return Rendered::failed(fault),
    };
    let (state, faults) = merge.state(sls, saltenv, 0);
    let map = state.as_map().cloned().unwrap_or_default();
    let documents = merge.documents;
    Rendered {
        high: HighData { map, documents },
        faults,
    }
}

struct Merge<'a> {
    library: &'a dyn Library,
    /// The environments of the run.
    wanted: Vec<String>,
    environments: Vec<String>,
    /// The names of all SLS files, by environment. An environment is only listed for a glob or a
    /// hint.
    names: HashMap<String, Arc<Vec<String>>>,
    done: HashSet<(String, String)>,
    /// The number of the next state without an order; `None` if states are not numbered.
    next: Option<i64>,
    documents: Documents,
}

/// The SLS that contains an `include`.
struct Including<'a> {
    sls: &'a str,
    saltenv: &'a str,
    init: bool,
    depth: usize,
}

impl<'a> Merge<'a> {
    fn new(
        library: &'a dyn Library,
        matches: &[(String, Vec<String>)],
        auto_order: bool,
    ) -> Result<Self, Fault> {
        Ok(Self {
            library,
            wanted: matches.iter().map(|(saltenv, _)| saltenv.clone()).collect(),
            environments: library.environments()?,
            names: HashMap::new(),
            done: HashSet::new(),
            next: auto_order.then_some(FIRST_ORDER),
            documents: Documents::default(),
        })
    }

    fn has_environment(&self, saltenv: &str) -> bool {
        saltenv == "base" || self.environments.iter().any(|env| env == saltenv)
    }

    fn names(&mut self, saltenv: &str) -> Result<Arc<Vec<String>>, Fault> {
        if let Some(names) = self.names.get(saltenv) {
            return Ok(names.clone());
        }
        let names = Arc::new(self.library.names(saltenv)?);
        self.names.insert(saltenv.to_owned(), names.clone());
        Ok(names)
    }

    /// Returns the SLS files of an environment that match a pattern. If none matches, returns the
    /// pattern itself, which is later reported as missing.
    fn targets(&mut self, saltenv: &str, pattern: &str) -> Result<Vec<String>, Fault> {
        let mut found = Vec::new();
        if is_glob(pattern) {
            let names = self.names(saltenv)?;
            found.extend(names.iter().filter(|name| fnmatch(pattern, name)).cloned());
        }
        if found.is_empty() {
            found.push(pattern.to_owned());
        }
        Ok(found)
    }

    fn top(&mut self, high: &mut Map, saltenv: &str, wanted: &str, faults: &mut Vec<Fault>) {
        let of = match (
            self.has_environment(saltenv),
            self.has_environment("__env__"),
        ) {
            (false, true) => "__env__",
            _ => saltenv,
        };
        if !self.has_environment(of) {
            let text = format!("No matching salt environment for environment '{saltenv}' found");
            faults.push(Fault::new(text));
        }
        let targets = match self.targets(of, wanted) {
            Ok(targets) => targets,
            Err(fault) => return faults.push(fault),
        };
        for sls in targets {
            if self.done.contains(&(saltenv.to_owned(), sls.clone())) {
                continue;
            }
            let (state, mut own) = self.state(&sls, saltenv, 0);
            match state {
                Value::Map(state) => self.merge(high, state, &mut own),
                other => own.extend(not_merged(&other)),
            }
            let missing = format!("SLS {wanted} in saltenv");
            for fault in &mut own {
                if fault.text.contains("is not available") && fault.text.contains(&missing) {
                    fault.text = format!("No matching sls found for '{wanted}' in env '{saltenv}'");
                }
            }
            faults.extend(own);
        }
    }

    /// Renders one SLS with its includes. Returns its data and all faults.
    fn state(&mut self, sls: &str, saltenv: &str, depth: usize) -> (Value, Vec<Fault>) {
        let mut faults = Vec::new();
        let found = self.library.render(sls, saltenv);
        self.done.insert((saltenv.to_owned(), sls.to_owned()));
        let mut document = match found {
            Ok(Some(document)) => document,
            Ok(None) => {
                faults.push(self.missing(sls, saltenv));
                return (Map::new().into(), faults);
            }
            Err(fault) => {
                faults.push(fault);
                return (Map::new().into(), faults);
            }
        };
        // Taken instead of cloned: data that is not shared is changed in place.
        let (value, init) = (std::mem::take(&mut document.value), document.init);
        self.documents.keep(saltenv, sls, document);
        let mut state = match value {
            Value::Map(state) => state,
            value if !value.is_true() => Map::new(),
            value => {
                let text = format!("SLS {sls} does not render to a dictionary");
                faults.push(self.documents.fault(text, saltenv, sls, &[]));
                return (value, faults);
            }
        };
        if state.is_empty() {
            return (state.into(), faults);
        }
        let includes = self.declare(&mut state, sls, saltenv, &mut faults);
        let including = Including {
            sls,
            saltenv,
            init,
            depth,
        };
        for (place, include) in includes.into_iter().enumerate() {
            self.include(&including, include, place, &mut state, &mut faults);
        }
        if let Some(next) = &mut self.next {
            number(&mut state, next);
        }
        (state.into(), faults)
    }

    fn declare(
        &self,
        state: &mut Map,
        sls: &str,
        saltenv: &str,
        faults: &mut Vec<Fault>,
    ) -> Vec<Value> {
        let mut declarations = Declarations {
            sls,
            saltenv,
            documents: &self.documents,
            faults,
        };
        let includes = declarations.include(state);
        declarations.extend(state);
        declarations.exclude(state);
        declarations.states(state);
        includes
    }

    fn missing(&mut self, sls: &str, saltenv: &str) -> Fault {
        let text = format!(
            "Specified SLS {sls} in saltenv {saltenv} is not available on the salt master or through a configured fileserver"
        );
        let names = self.names(saltenv).unwrap_or_default();
        let near = || did_you_mean(sls, names.iter().map(String::as_str));
        Fault::new(text).hint(of_path(sls, &names).or_else(near))
    }

    fn include(
        &mut self,
        including: &Including<'_>,
        include: Value,
        place: usize,
        state: &mut Map,
        faults: &mut Vec<Fault>,
    ) {
        let path = [Value::from("include"), Value::from(place)];
        let resolved = self.resolve(including, &include);
        let (env, targets) = match resolved {
            Ok(resolved) => resolved,
            Err(text) => {
                let (saltenv, sls) = (including.saltenv, including.sls);
                return faults.push(self.documents.fault(text, saltenv, sls, &path));
            }
        };
        for sls in targets {
            if self.done.contains(&(env.clone(), sls.clone())) {
                continue;
            }
            let (included, mut own) = self.state(&sls, &env, including.depth + 1);
            for fault in own.iter_mut().filter(|fault| fault.place.is_none()) {
                // A missing file has no place in a document, so the fault gets the place of the
                // include.
                let (saltenv, sls) = (including.saltenv, including.sls);
                fault.place = self.documents.fault("", saltenv, sls, &path).place;
            }
            if let Value::Map(mut included) = included {
                included_from(&mut included, including.sls);
                self.merge(state, included, &mut own);
            }
            faults.extend(own);
        }
    }

    /// Returns the environment and the SLS files that an item of `include` names.
    ///
    /// # Errors
    /// Salt's sentence about an invalid item.
    fn resolve(
        &mut self,
        including: &Including<'_>,
        include: &Value,
    ) -> Result<(String, Vec<String>), String> {
        let (sls, saltenv) = (including.sls, including.saltenv);
        let last = include
            .as_map()
            .and_then(|map| map.at(map.len().checked_sub(1)?));
        let (env, wanted) = match last {
            Some((env, wanted)) => (env.to_text(), wanted.clone()),
            None => (saltenv.to_owned(), include.clone()),
        };
        let Some(wanted) = wanted.as_str().filter(|wanted| !wanted.is_empty()) else {
            let include = shown_text(include);
            return Err(format!(
                "Badly formatted include {include} found in include in SLS '{saltenv}:{sls}'"
            ));
        };
        if including.depth >= DEEPEST {
            return Err(format!(
                "The include of '{wanted}' within SLS '{saltenv}:{sls}' is nested more than {DEEPEST} levels deep"
            ));
        }
        if env != "_xenv" && !self.has_environment(&env) && !self.has_environment("__env__") {
            return Err(format!(
                "Nonexistent saltenv '{env}' found in include of '{wanted}' within SLS '{saltenv}:{sls}'"
            ));
        }
        let wanted = relative(including, wanted)?;
        let environments = self.environments_of(&env, &wanted)?;
        let chosen = match environments.as_slice() {
            [only] => only.clone(),
            many if many.iter().any(|env| env == saltenv) => saltenv.to_owned(),
            [] => {
                let looked = match env.as_str() {
                    "_xenv" => self.wanted.join(", "),
                    env => env.to_owned(),
                };
                return Err(format!(
                    "Unknown include: Specified SLS {env}: {wanted} is not available on the salt master in saltenv(s): {looked} "
                ));
            }
            many => {
                let many = many.join(", ");
                return Err(format!(
                    "Ambiguous include: Specified SLS {env}: {wanted} is available on the salt master in multiple available saltenvs: {many}"
                ));
            }
        };
        let targets = self.targets(saltenv, &wanted).map_err(|fault| fault.text)?;
        Ok((chosen, targets))
    }

    fn environments_of(&mut self, env: &str, wanted: &str) -> Result<Vec<String>, String> {
        let asked = match env {
            "_xenv" => self.wanted.clone(),
            env if self.wanted.iter().any(|wanted| wanted == env) => {
                return Ok(vec![env.to_owned()]);
            }
            env => vec![env.to_owned()],
        };
        let mut found = Vec::new();
        for env in asked {
            if self.matches_any(&env, wanted).map_err(|fault| fault.text)? {
                found.push(env);
            }
        }
        Ok(found)
    }

    /// Returns true if an environment has an SLS file of this name, or, if the name is a glob, one
    /// that matches it.
    fn matches_any(&mut self, saltenv: &str, wanted: &str) -> Result<bool, Fault> {
        if !is_glob(wanted) {
            return self.library.has(wanted, saltenv);
        }
        let names = self.names(saltenv)?;
        Ok(names.iter().any(|name| fnmatch(wanted, name)))
    }

    /// Merges one SLS into the others. An ID must not occur in two of them with different contents.
    fn merge(&self, high: &mut Map, mut state: Map, faults: &mut Vec<Fault>) {
        for key in ["__extend__", "__exclude__"] {
            let Some(list) = state.remove(key) else {
                continue;
            };
            let all = high.entry(key, || Value::list([]));
            if let (Some(all), Some(list)) = (all.as_list_mut(), list.as_list()) {
                all.extend(list.iter().cloned());
            }
        }
        for (id, body) in &state {
            if let Some(other) = high.get_value(id).filter(|other| *other != body) {
                faults.push(self.conflict(id, other, body));
            }
        }
        high.update(state);
    }

    fn conflict(&self, id: &Value, one: &Value, other: &Value) -> Fault {
        let word = |body: &Value, key| body.get(key).map(Value::to_text).unwrap_or_default();
        let name = id.to_text();
        let (env, sls) = (word(one, "__env__"), word(one, "__sls__"));
        let (env2, sls2) = (word(other, "__env__"), word(other, "__sls__"));
        let text = format!(
            "Detected conflicting IDs, SLS IDs need to be globally unique.\n    The conflicting ID is '{name}' and is found in SLS '{env}:{sls}' and SLS '{env2}:{sls2}'"
        );
        self.documents
            .fault(text, &env2, &sls2, std::slice::from_ref(id))
    }
}

/// Returns a hint if a name is the path of an SLS file, such as `web.sls` or `/srv/salt/web/init.sls`.
fn of_path(written: &str, names: &[String]) -> Option<String> {
    let is_path = written.ends_with(".sls") || written.contains('/');
    let name = written.strip_suffix(".sls").unwrap_or(written);
    let name = name.trim_start_matches("./").replace('/', ".");
    let name = name.strip_suffix(".init").unwrap_or(&name);
    let mut found = names.iter().filter(|known| {
        let before = name.strip_suffix(known.as_str());
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    });
    let found = found.by_ref().max_by_key(|known| known.len())?;
    is_path.then(|| format!("write '{found}': dots instead of slashes, and no .sls"))
}

/// Returns the absolute name of an include. Leading dots are relative to the including SLS: one for
/// its folder, one more for each level above.
fn relative(including: &Including<'_>, wanted: &str) -> Result<String, String> {
    let rest = wanted.trim_start_matches('.');
    let levels = wanted.len() - rest.len();
    if levels == 0 {
        return Ok(wanted.to_owned());
    }
    let mut parts: Vec<&str> = including.sls.split('.').collect();
    if including.init {
        parts.push("init");
    }
    let Some(kept) = parts.len().checked_sub(levels) else {
        let (sls, saltenv) = (including.sls, including.saltenv);
        return Err(format!(
            "Attempted relative include of '{wanted}' within SLS '{saltenv}:{sls}' goes beyond top level package "
        ));
    };
    parts.truncate(kept);
    parts.push(rest);
    Ok(parts.join("."))
}

/// Returns the SLS that an item of `include` in `sls` names; `None` if it leads above the tree.
#[must_use]
pub fn resolved(sls: &str, init: bool, wanted: &str) -> Option<String> {
    let including = Including {
        sls,
        saltenv: "",
        init,
        depth: 0,
    };
    relative(&including, wanted).ok()
}

fn included_from(included: &mut Map, sls: &str) {
    let bodies = included.iter_mut().filter(|(id, _)| !is_dunder(id));
    for (_, body) in bodies {
        if let Some(body) = body.as_map_mut() {
            let from = body.entry("__sls_included_from__", || Value::list([]));
            if let Some(from) = from.as_list_mut() {
                from.push(sls.into());
            }
        }
    }
}

/// Returns Salt's additional fault about an SLS that is a string or a list instead of a dictionary
/// of IDs.
fn not_merged(state: &Value) -> Option<Fault> {
    let state = match state {
        Value::Str(_) | Value::List(_) => shown_text(state),
        _ => return None,
    };
    Some(Fault::new(format!(
        "Error when rendering state with contents: {state}"
    )))
}

/// Splits each `extend` into one extension for each ID, and removes duplicates.
fn clean_duplicate_extends(high: &mut Map) {
    let Some(Value::List(extends)) = high.get("__extend__").cloned() else {
        return;
    };
    let mut seen: HashMap<&Value, Vec<&Value>> = HashMap::new();
    let mut unique = Vec::new();
    for (id, body) in extends.iter().filter_map(Value::as_map).flatten() {
        let bodies = seen.entry(id).or_default();
        if !bodies.contains(&body) {
            bodies.push(body);
            unique.push([(id.clone(), body.clone())].into_iter().collect());
        }
    }
    high.insert("__extend__", Value::list(unique));
}
