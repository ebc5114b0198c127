//! Compiles the pillar: its top files, its SLS files with their includes, and the overrides given
//! on the command line.

use std::collections::HashMap;

use value::merge::{Strategy, merge};
use value::{Map, Value, glob, log};

use crate::compile::{Fault, did_you_mean};
use crate::exec::Exec;
use crate::host::{ExecHost, Tree};
use crate::top;
use crate::tree::{self, SlsFile};

mod external;
mod place;

/// The maximum depth of includes in pillar SLS files.
const INCLUDE_DEPTH_MAX: usize = 100;

/// Compiles the pillar of this minion. Errors are stored under `_errors`, as in Salt; a state run
/// refuses to start if there are any.
#[must_use]
pub fn compile(cx: &Exec, tree: &Tree) -> Map {
    let given = cx.pillar_override.as_deref().cloned().unwrap_or_default();
    // Templates of the pillar only see the data that is compiled so far.
    let cx = cx.with_pillar(Map::new());
    let first = cx.opts().flag("ext_pillar_first");
    let mut before = Compiler::new(&cx, tree);
    let external = if first {
        before.external(given.clone())
    } else {
        Map::new()
    };
    let cx = &cx.with_pillar(external.clone());
    let mut compiler = Compiler {
        errors: std::mem::take(&mut before.errors),
        ..Compiler::new(cx, tree)
    };
    let own = compiler.matched_sls(given.clone());
    let mut pillar = if first {
        compiler.merge(&external, &own)
    } else {
        compiler.external(own)
    };
    if cx.opts().flag("pillar_opts") {
        pillar.insert("master", cx.opts().map.clone());
    }
    if !compiler.errors.is_empty() {
        pillar.insert("_errors", Value::from(compiler.errors.clone()));
    }
    if !given.is_empty() {
        pillar = compiler.merge(&pillar, &given);
    }
    let problems = decrypt(cx, &mut pillar);
    if !problems.is_empty() {
        let errors = pillar.entry("_errors", || Vec::<String>::new().into());
        if let Some(errors) = errors.as_list_mut() {
            errors.extend(problems.into_iter().map(Value::from));
        }
    }
    pillar
}

/// Returns the pillar of this minion in a tree with one environment: what its top files assign,
/// without external sources. Errors are stored under `_errors`, as by [`compile`].
#[must_use]
pub fn of_tree(cx: &Exec, tree: &Tree, env: &str) -> Map {
    let cx = cx.with_pillar(Map::new());
    let mut compiler = Compiler {
        only: Some(env.to_owned()),
        ..Compiler::new(&cx, tree)
    };
    let mut pillar = compiler.matched_sls(Map::new());
    if !compiler.errors.is_empty() {
        pillar.insert("_errors", compiler.errors);
    }
    pillar
}

/// Decrypts the values that the option `decrypt_pillar` names. Returns an error for each value that
/// cannot be decrypted.
fn decrypt(cx: &Exec, pillar: &mut Map) -> Vec<String> {
    let wanted = cx.opts().get("decrypt_pillar").cloned().unwrap_or_default();
    let delimiter = cx.opts().text("decrypt_pillar_delimiter").unwrap_or(":");
    let default = cx.opts().text("decrypt_pillar_default").unwrap_or("gpg");
    let mut problems = Vec::new();
    for (path, renderer) in paths(&wanted) {
        let renderer = renderer.unwrap_or_else(|| default.to_owned());
        let path: Vec<&str> = path.split(delimiter).collect();
        let Some(place) = place_of(pillar, &path) else {
            continue;
        };
        let done = if renderer == "gpg" {
            render::gpg::decrypted(&path, place.clone(), &ExecHost::in_state_tree(cx))
                .map_err(|error| error.message)
        } else {
            Err(format!("'{renderer}' is not a valid decryption renderer"))
        };
        match done {
            Ok(value) => *place = value,
            Err(error) => {
                let path = path.join(delimiter);
                let text = format!("Failed to decrypt pillar key '{path}': {error}");
                log::error(&text);
                problems.push(text);
            }
        }
    }
    problems
}

/// Returns the paths that `decrypt_pillar` names, each with its renderer if it has one. The option
/// is a list of strings and single-key dictionaries, or a dictionary.
fn paths(wanted: &Value) -> Vec<(String, Option<String>)> {
    match wanted {
        Value::Map(map) => map
            .iter()
            .map(|(path, renderer)| {
                let renderer = Some(renderer).filter(|renderer| renderer.is_true());
                (path.to_text(), renderer.map(Value::to_text))
            })
            .collect(),
        Value::List(items) => items.iter().flat_map(paths).collect(),
        Value::Null => Vec::new(),
        path => vec![(path.to_text(), None)],
    }
}

fn place_of<'a>(pillar: &'a mut Map, path: &[&str]) -> Option<&'a mut Value> {
    let (first, rest) = path.split_first()?;
    let mut place = pillar.get_mut(first)?;
    for part in rest {
        place = match place {
            Value::Map(map) => map.get_mut(part)?,
            Value::List(_) => place.as_list_mut()?.get_mut(part.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(place)
}

/// Returns the merged top files of the pillar: the SLS that each target gets.
///
/// # Errors
/// Faults of the top files.
pub fn top(cx: &Exec, tree: &Tree) -> Result<Map, Vec<String>> {
    let cx = cx.with_pillar(Map::new());
    let mut compiler = Compiler::new(&cx, tree);
    let tops = compiler.tops();
    let sections = compiler.sections(&tops);
    if !compiler.errors.is_empty() {
        return Err(compiler.errors);
    }
    let targets = |section: Section| -> Value {
        section
            .into_iter()
            .map(|(target, items, _)| (target, Value::list(items)))
            .collect()
    };
    Ok(sections
        .into_iter()
        .map(|(env, section)| (env, targets(section)))
        .collect())
}

struct Compiler<'a> {
    cx: &'a Exec,
    tree: &'a Tree,
    /// The only environment of the tree, if the tree is not that of `pillar_roots`.
    only: Option<String>,
    strategy: Strategy,
    merge_lists: bool,
    /// The SLS that a top file allows to be missing, with their environments.
    ignored: Vec<(String, String)>,
    /// The names of all pillar SLS of each environment, filled on demand.
    names: HashMap<String, Vec<String>>,
    /// The files that were rendered so far, to find the line that names a missing SLS.
    files: Vec<SlsFile>,
    errors: Vec<String>,
}

/// The targets of one environment, each with its items and its `order`.
type Section = Vec<(Value, Vec<Value>, i64)>;

impl<'a> Compiler<'a> {
    fn new(cx: &'a Exec, tree: &'a Tree) -> Self {
        let opts = cx.opts();
        let renderer = opts.text("renderer").unwrap_or("yaml");
        let word = opts
            .text("pillar_source_merging_strategy")
            .unwrap_or("smart");
        let strategy = Strategy::from_name(word, renderer).unwrap_or_else(|| {
            log::warning(format_args!(
                "Unknown merging strategy '{word}', fallback to recurse"
            ));
            Strategy::Recurse
        });
        let merge_lists = opts.flag("pillar_merge_lists");
        Self {
            cx,
            tree,
            only: None,
            strategy,
            merge_lists,
            ignored: Vec::new(),
            names: HashMap::new(),
            files: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Logs a fault with its place, and stores its sentence.
    fn fault(&mut self, fault: Fault) {
        log::error(fault.to_text());
        self.errors.push(fault.text);
    }

    fn merge(&self, lower: &Map, upper: &Map) -> Map {
        merge(lower, upper, self.strategy, self.merge_lists)
    }

    /// Returns the pillar with the data of the external sources, each merged over the data before
    /// it.
    fn external(&mut self, mut pillar: Map) -> Map {
        let Some(sources) = self.cx.opts().get("ext_pillar").cloned() else {
            return pillar;
        };
        let left_out = self.cx.opts().texts("exclude_ext_pillar");
        let malformed = "The \"ext_pillar\" option is malformed";
        if sources.as_list().is_none() && !sources.is_null() {
            self.fault(Fault::new(malformed));
        }
        for source in sources.as_list().unwrap_or_default() {
            let Some(source) = source.as_map() else {
                self.fault(Fault::new(malformed));
                return Map::new();
            };
            for (key, val) in source {
                let key = key.to_text();
                if left_out.contains(&key) {
                    break;
                }
                match external::load(self.cx, &key, val, &pillar) {
                    Ok(mut data) => {
                        let errors = data.remove("_errors");
                        self.errors.extend(errors.iter().flat_map(Value::texts));
                        pillar = self.merge(&pillar, &data);
                    }
                    Err(error) => {
                        let failed = format!("Failed to load ext_pillar {key}");
                        log::error(format_args!("{failed}: {error}"));
                        // As in Salt, the traceback of a Python module is only in the log.
                        let sentence = error.sentence();
                        self.errors.push(format!("{failed}: {sentence}"));
                    }
                }
            }
        }
        pillar
    }

    fn matched_sls(&mut self, given: Map) -> Map {
        let tops = self.tops();
        let sections = self.sections(&tops);
        let mut pillar = given;
        for (env, names) in self.ordered(self.matches(&sections)) {
            let mut done = HashMap::new();
            for sls in self.expanded(&env, &names) {
                if let Some(data) = self.sls(&sls, &env, &mut done, &Map::new(), 0) {
                    pillar = self.merge(&pillar, &data);
                }
            }
        }
        pillar
    }

    /// Returns the environments whose top files are used.
    fn environments(&mut self) -> Vec<String> {
        let known = match self.tree.sources(self.cx).environments() {
            Ok(known) => known,
            Err(error) => {
                self.fault(Fault::new(error.to_string()));
                return Vec::new();
            }
        };
        if let Some(env) = &self.cx.pillarenv {
            return if known.contains(env) || known.iter().any(|known| known == "__env__") {
                vec![env.clone()]
            } else {
                log::debug(format_args!(
                    "pillarenv '{env}' not found in the configured pillar environments"
                ));
                Vec::new()
            };
        }
        let mut environments = vec!["base".to_owned()];
        environments.extend(
            known
                .into_iter()
                .filter(|env| env != "base" && env != "__env__"),
        );
        if self.strategy == Strategy::None {
            let only = self.cx.saltenv.clone();
            environments.retain(|env| *env == only);
        }
        environments
    }

    fn tops(&mut self) -> Vec<(String, Map)> {
        let mut tops = Vec::new();
        for env in self.environments() {
            let name = self
                .cx
                .opts()
                .text("state_top")
                .unwrap_or("top.sls")
                .to_owned();
            let path = name
                .strip_prefix("salt://")
                .unwrap_or(&name)
                .trim_start_matches('/')
                .to_owned();
            match self.tree.sources(self.cx).file(&path, &env) {
                Ok(Some(file)) => self.top(&mut tops, &env, &SlsFile { file, path }, None),
                Ok(None) => {}
                Err(error) => self.fault(Fault::new(format!(
                    "Rendering Primary Top file failed, render error:\n{error}"
                ))),
            }
        }
        tops
    }

    /// Renders a top file and the top files that it includes.
    fn top(
        &mut self,
        tops: &mut Vec<(String, Map)>,
        env: &str,
        found: &SlsFile,
        sls: Option<&str>,
    ) {
        let what = sls.map_or_else(
            || "Primary Top file".to_owned(),
            |sls| format!("Top file {sls}"),
        );
        let rendered = tree::render(self.cx, self.tree, found, "", env, &Map::new());
        self.files.push(found.clone());
        match rendered {
            Ok(rendered) => match rendered.value {
                Value::Map(top) => self.top_includes(tops, env, &what, top),
                Value::Null => {}
                _ => self.fault(bad_top(place::beginning(found))),
            },
            Err(error) => {
                let text = format!("Rendering {what} failed, render error:\n{error}");
                self.fault(Fault::of_render(text, &error));
            }
        }
    }

    /// Adds a top file, and renders the top files that it includes.
    fn top_includes(&mut self, tops: &mut Vec<(String, Map)>, env: &str, what: &str, mut top: Map) {
        let include = top.remove("include");
        tops.push((env.to_owned(), top));
        if tops.len() > INCLUDE_DEPTH_MAX {
            return self.fault(Fault::new(format!(
                "Rendering {what} failed, render error:\nmore than {INCLUDE_DEPTH_MAX} top files"
            )));
        }
        let include = include.as_ref().and_then(Value::as_list);
        for sls in include.unwrap_or_default() {
            let sls = sls.to_text();
            let failed = format!("Rendering Top file {sls} failed, render error:\n");
            match tree::find(self.cx, self.tree, &sls, env) {
                Ok(Some(found)) => self.top(tops, env, &found, Some(&sls)),
                Ok(None) => {
                    let fault = Fault::new(format!("{failed}the file does not exist"));
                    let place = place::naming(&self.files, &sls);
                    self.fault(Fault { place, ..fault });
                }
                Err(error) => self.fault(Fault::new(format!("{failed}{error}"))),
            }
        }
    }

    /// Merges the top files. A target that occurs again replaces the earlier one; `order` sorts the
    /// targets.
    fn sections(&mut self, tops: &[(String, Map)]) -> Vec<(String, Section)> {
        let mut sections: Vec<(String, Section)> = Vec::new();
        for (env, targets) in tops.iter().flat_map(|(_, top)| top.iter()) {
            let env = env.to_text();
            let Some(targets) = targets.as_map() else {
                self.fault(bad_top(place::key(&self.files, &env)));
                continue;
            };
            if !sections.iter().any(|(known, _)| *known == env) {
                sections.push((env.clone(), Vec::new()));
            }
            for (target, items) in targets {
                let items = items.as_list().unwrap_or_default().to_vec();
                self.note_ignored(&env, &items);
                let order = items
                    .iter()
                    .filter_map(|item| item.get("order"))
                    .next_back();
                let order = order
                    .and_then(|order| order.as_int().or_else(|| order.to_text().parse().ok()))
                    .unwrap_or(0);
                let Some((_, section)) = sections.iter_mut().find(|(known, _)| *known == env)
                else {
                    continue;
                };
                match section.iter_mut().find(|(known, ..)| known == target) {
                    Some(entry) => *entry = (target.clone(), items, order),
                    None => section.push((target.clone(), items, order)),
                }
            }
        }
        sections
            .iter_mut()
            .for_each(|(_, section)| value::sorted::sort_by_key(section, |(_, _, order)| *order));
        sections
    }

    fn note_ignored(&mut self, env: &str, items: &[Value]) {
        if items
            .iter()
            .any(|item| item.get("ignore_missing").is_some_and(Value::is_true))
        {
            let names = items.iter().filter_map(Value::as_str);
            self.ignored
                .extend(names.map(|sls| (env.to_owned(), sls.to_owned())));
        }
    }

    fn matches(&self, sections: &[(String, Section)]) -> top::Matched {
        let mut matched = top::Matched::new();
        for (env, section) in sections {
            if self.cx.pillarenv.as_ref().is_some_and(|only| only != env) {
                continue;
            }
            for (target, items, _) in section {
                match top::confirm(self.cx, target, items) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(error) => {
                        log::error(error);
                        continue;
                    }
                }
                if !matched.iter().any(|(known, _)| known == env) {
                    matched.push((env.clone(), Vec::new()));
                }
                let Some((_, names)) = matched.iter_mut().find(|(known, _)| known == env) else {
                    continue;
                };
                for sls in items.iter().filter_map(Value::as_str) {
                    if !names.iter().any(|known| known == sls) {
                        names.push(sls.to_owned());
                    }
                }
            }
        }
        matched
    }

    /// Sorts the environments: those in `env_order` first, the others after them.
    fn ordered(&self, mut matched: top::Matched) -> top::Matched {
        let order = self.cx.opts().texts("env_order");
        let place = |env: &String| {
            order
                .iter()
                .position(|known| known == env)
                .unwrap_or(order.len())
        };
        value::sorted::sort_by_key(&mut matched, |(env, _)| place(env));
        matched
    }

    fn names(&mut self, env: &str) -> Vec<String> {
        if let Some(names) = self.names.get(env) {
            return names.clone();
        }
        let names = tree::names(self.cx, self.tree, env).unwrap_or_else(|error| {
            self.errors.push(error.to_string());
            Vec::new()
        });
        self.names.insert(env.to_owned(), names.clone());
        names
    }

    /// Replaces each glob by the names that it matches. A pattern that matches nothing remains, and
    /// is later reported as missing.
    fn expanded(&mut self, env: &str, patterns: &[String]) -> Vec<String> {
        let mut out = Vec::new();
        for pattern in patterns {
            let matching: Vec<String> = if glob::is_glob(pattern) {
                self.names(env)
                    .into_iter()
                    .filter(|sls| glob::fnmatch(pattern, sls))
                    .collect()
            } else {
                Vec::new()
            };
            if matching.is_empty() {
                out.push(pattern.clone());
            } else {
                out.extend(matching);
            }
        }
        out
    }

    /// Returns the data of an SLS with its includes. `done` contains the SLS that are already
    /// rendered.
    fn sls(
        &mut self,
        sls: &str,
        env: &str,
        done: &mut HashMap<String, Option<Map>>,
        defaults: &Map,
        depth: usize,
    ) -> Option<Map> {
        let found = match tree::find(self.cx, self.tree, sls, env) {
            Ok(Some(found)) => found,
            Ok(None) => {
                self.missing(sls, env);
                return None;
            }
            Err(error) => {
                self.fault(Fault::new(error.to_string()));
                return None;
            }
        };
        self.files.push(found.clone());
        if depth > INCLUDE_DEPTH_MAX {
            let fault = Fault::new(format!(
                "SLS '{sls}' is included more than {INCLUDE_DEPTH_MAX} levels deep"
            ));
            let place = place::beginning(&found);
            self.fault(Fault { place, ..fault });
            return None;
        }
        let state = match tree::render(self.cx, self.tree, &found, sls, env, defaults) {
            Ok(rendered) => rendered.value,
            Err(error) => {
                self.render_error(sls, &error);
                Value::Null
            }
        };
        let state = match state {
            Value::Map(state) => state,
            other => {
                if other.is_true() {
                    let fault = Fault::new(format!("SLS '{sls}' does not render to a dictionary"));
                    let hint = "write each value of the pillar as KEY: VALUE, with a space after the colon";
                    self.fault(Fault {
                        place: place::beginning(&found),
                        ..fault.hint(Some(hint.to_owned()))
                    });
                }
                done.insert(sls.to_owned(), None);
                return None;
            }
        };
        done.insert(sls.to_owned(), Some(state.clone()));
        let merged = self.with_includes(sls, env, &found, state, done, depth);
        done.insert(sls.to_owned(), Some(merged.clone()));
        Some(merged)
    }

    fn with_includes(
        &mut self,
        sls: &str,
        env: &str,
        found: &SlsFile,
        mut state: Map,
        done: &mut HashMap<String, Option<Map>>,
        depth: usize,
    ) -> Map {
        let Some(include) = state.remove("include") else {
            return state;
        };
        let Value::List(include) = include else {
            let fault = Fault::new(format!(
                "Include Declaration in SLS '{sls}' is not formed as a list"
            ));
            let fault = fault.explained(
                "the value of 'include' is not a list: it has no dash",
                "write each SLS on a line with a dash, and indent it below include: - NAME",
            );
            self.fault(Fault {
                place: place::key(std::slice::from_ref(found), "include"),
                ..fault
            });
            return state;
        };
        let override_sls = self.cx.opts().flag("pillar_includes_override_sls");
        let mut included = Map::new();
        for item in include.iter() {
            let (name, defaults, key) = include_item(item);
            for sub in self.include_names(sls, env, found, &name) {
                let data = match done.get(&sub) {
                    Some(data) => data.clone(),
                    None => self.sls(&sub, env, done, &defaults, depth + 1),
                };
                let Some(data) = data.filter(|data| !data.is_empty()) else {
                    continue;
                };
                let data = key
                    .as_deref()
                    .map_or_else(|| data.clone(), |key| under(key, &data));
                if override_sls {
                    state = self.merge(&state, &data);
                } else {
                    included = self.merge(&included, &data);
                }
            }
        }
        if override_sls {
            state
        } else {
            self.merge(&included, &state)
        }
    }

    /// Returns the SLS that an include names. A name with leading dots is relative to the including
    /// SLS; globs are expanded.
    fn include_names(&mut self, sls: &str, env: &str, found: &SlsFile, name: &str) -> Vec<String> {
        let plain = name.trim_start_matches('.').replace('/', ".");
        let mut wanted = vec![plain.clone()];
        let mut last = name.to_owned();
        if let Some(rest) = name.strip_prefix('.') {
            let mut parts: Vec<&str> = sls.split('.').collect();
            if !found.path.ends_with("/init.sls") {
                parts.pop();
            }
            parts.push(rest);
            last = parts.join(".");
        }
        if last != plain {
            wanted.push(last.clone());
        }
        let names = self.names(env);
        let mut matching: Vec<String> = Vec::new();
        for pattern in wanted {
            matching.extend(
                names
                    .iter()
                    .filter(|sls| glob::fnmatch(&pattern, sls))
                    .cloned(),
            );
        }
        if matching.is_empty() {
            vec![last]
        } else {
            matching
        }
    }

    fn missing(&mut self, sls: &str, env: &str) {
        let allowed = self
            .ignored
            .iter()
            .any(|(known, name)| known == env && name == sls);
        if allowed {
            return;
        }
        let is_known = match &self.only {
            Some(only) => only == env,
            None => !self.cx.opts().roots("pillar_roots", env).is_empty(),
        };
        if !is_known {
            log::debug(format_args!(
                "Specified SLS '{sls}' in environment '{env}' was not found."
            ));
            return;
        }
        let text = format!(
            "Specified SLS '{sls}' in environment '{env}' is not available on the salt master"
        );
        let near = self.names(env);
        let near = did_you_mean(sls, near.iter().map(String::as_str));
        let hint = near.unwrap_or_else(|| {
            "an SLS a.b is the file a/b.sls or a/b/init.sls below pillar_roots".to_owned()
        });
        let place = place::naming(&self.files, sls);
        let fault = Fault::new(text).hint(Some(hint));
        self.fault(Fault { place, ..fault });
    }

    fn render_error(&mut self, sls: &str, error: &render::Error) {
        let text = format!("Rendering SLS '{sls}' failed, render error:\n{error}");
        let fault = Fault::of_render(text, error);
        log::write(log::Level::Critical, fault.to_text());
        let opts = self.cx.opts();
        let is_safe = opts
            .get("pillar_safe_render_error")
            .is_none_or(Value::is_true);
        self.errors.push(match (is_safe, opts.is_of_minion()) {
            (false, _) => fault.text,
            (true, true) => located(sls, error),
            // The error message of a template on the master may contain a secret.
            (true, false) => {
                format!("Rendering SLS '{sls}' failed. Please see master log for details.")
            }
        });
    }
}

/// Returns the fault of a pillar top file that does not have the form of one.
fn bad_top(place: Option<render::Place>) -> Fault {
    let fault = Fault::new("Error encountered while rendering pillar top file.");
    let fault = fault.explained(
        "the pillar top file does not have the form of a top file",
        "write environments, below each its targets, and below each target a list of SLS names",
    );
    Fault { place, ..fault }
}

/// Returns an error sentence that says why and where an SLS of this machine's own pillar failed.
fn located(sls: &str, error: &render::Error) -> String {
    let why = render::sentence(&error.message);
    match &error.place {
        Some(place) => format!(
            "Rendering SLS '{sls}' failed: {}:{}:{}: {why}",
            place.file, place.line, place.column
        ),
        None => format!("Rendering SLS '{sls}' failed: {why}"),
    }
}

/// Parses an item of `include`: `sls`, or `{sls: {defaults: {…}, key: a:b}}`.
fn include_item(item: &Value) -> (String, Map, Option<String>) {
    match item.as_map().and_then(Map::first) {
        Some((name, options)) => {
            let defaults = options
                .get("defaults")
                .and_then(Value::as_map)
                .cloned()
                .unwrap_or_default();
            let key = options
                .get("key")
                .filter(|key| key.is_true())
                .map(Value::to_text);
            (name.to_text(), defaults, key)
        }
        None => (item.to_text(), Map::new(), None),
    }
}

/// Wraps data under a key: `a:b` and data become `{a: {b: data}}`.
fn under(key: &str, data: &Map) -> Map {
    key.rsplit(':')
        .fold(data.clone(), |inner, key| Map::new().with(key, inner))
}
