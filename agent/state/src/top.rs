//! Top files: the assignment of SLS to minions, for states and for pillar.

use value::{Map, Value, log};

use crate::compile::Fault;
use crate::exec::Exec;
use crate::host::Tree;
use crate::matcher;
use crate::module::Error;
use crate::tree;

/// The environments and their SLS that the matching sections of the top files name, in order.
pub type Matched = Vec<(String, Vec<String>)>;

/// The rendered top files of each environment. An environment has several if its top file includes
/// others.
type Tops = Vec<(String, Vec<Map>)>;

/// The maximum number of top files that the top file of an environment may include.
const INCLUDES_MAX: usize = 1000;

/// The choice of top files and environment, as arguments of `state.highstate` and `state.top`.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The top file's name; `None` to use the option `state_top`.
    pub top: Option<String>,
    /// The only environment whose SLS are wanted; `None` for all.
    pub saltenv: Option<String>,
    /// The environment in which the top file is searched; `None` for all.
    pub top_saltenv: Option<String>,
}

impl Request {
    /// Returns the choice that the configuration makes.
    #[must_use]
    pub fn from_config(cx: &Exec) -> Self {
        let text = |option: &str| {
            cx.opts()
                .get(option)
                .filter(|value| value.is_true())
                .map(Value::to_text)
        };
        Self {
            top: text("state_top"),
            saltenv: text("saltenv"),
            top_saltenv: text("state_top_saltenv"),
        }
    }
}

/// Returns the SLS that the top files and the sources of `master_tops` assign to this minion: those
/// of `state.highstate`.
///
/// # Errors
/// Faults of the top files.
pub fn matched(cx: &Exec, request: &Request) -> Result<Matched, Vec<Fault>> {
    let mut matched = matched_by_files(cx, request)?;
    let others = cx.shared.sources.master_tops(cx);
    let others = others.map_err(|error| vec![Fault::new(error.to_string())])?;
    add_others(&mut matched, &others, cx.opts().flag("master_tops_first"));
    for (env, names) in &matched {
        let names = names.join(", ");
        log::debug(format_args!(
            "the top files assign to this minion in {env}: {names}"
        ));
    }
    Ok(matched)
}

/// Returns the SLS that the top files alone assign to this minion.
///
/// # Errors
/// Faults of the top files.
pub fn matched_by_files(cx: &Exec, request: &Request) -> Result<Matched, Vec<Fault>> {
    let top = merged(cx, request)?;
    let faults = verify(&top);
    if !faults.is_empty() {
        return Err(faults);
    }
    select(cx, &top, request.saltenv.as_deref())
}

/// Returns the merged top files: `state.show_top` without the matching.
///
/// # Errors
/// When one does not render.
pub fn merged(cx: &Exec, request: &Request) -> Result<Map, Vec<Fault>> {
    let tops = gather(cx, request)?;
    let strategy = cx
        .opts()
        .text("top_file_merging_strategy")
        .unwrap_or("merge")
        .to_owned();
    match strategy.as_str() {
        "same" => merge_same(cx, &tops),
        "merge_all" => merge_all(&tops),
        other => {
            if other != "merge" {
                log::warning(format_args!(
                    "Invalid top_file_merging_strategy '{other}', falling back to 'merge'"
                ));
            }
            merge(tops)
        }
    }
}

/// Returns the environments in which top files are searched: those of `env_order` first.
fn environments(cx: &Exec, request: &Request) -> Result<Vec<String>, Vec<Fault>> {
    let opts = cx.opts();
    if let Some(one) = &request.top_saltenv {
        return Ok(vec![one.clone()]);
    }
    let known = cx.shared.sources.environments().map_err(faults)?;
    let mut environments = vec!["base".to_owned()];
    let ordered = opts.texts("env_order");
    if !ordered.is_empty() {
        environments = ordered
            .into_iter()
            .filter(|env| known.contains(env))
            .collect();
    }
    for env in known {
        if !environments.contains(&env) {
            environments.push(env);
        }
    }
    Ok(environments)
}

/// Returns an error of the tree as the faults of a top file.
fn faults(error: Error) -> Vec<Fault> {
    vec![Fault::new(error.to_string())]
}

fn gather(cx: &Exec, request: &Request) -> Result<Tops, Vec<Fault>> {
    let opts = cx.opts();
    let wanted = match (opts.text("top_file_merging_strategy"), &request.saltenv) {
        (Some("same"), Some(env)) => {
            if opts.text("default_top").unwrap_or_default().is_empty() {
                let text = "top_file_merging_strategy set to 'same', but no default_top configuration option was set";
                return Err(vec![Fault::new(text)]);
            }
            vec![env.clone()]
        }
        _ => environments(cx, request)?,
    };
    let name = request.top.as_deref().unwrap_or("top.sls");
    let name = name
        .strip_prefix("salt://")
        .unwrap_or(name)
        .trim_start_matches('/');
    wanted
        .into_iter()
        .map(|env| gather_one(cx, name, env))
        .collect()
}

/// Returns the top file of an environment with those that it includes, or an empty one if the
/// environment has none.
fn gather_one(cx: &Exec, name: &str, env: String) -> Result<(String, Vec<Map>), Vec<Fault>> {
    let fault = |error: &dyn std::fmt::Display| {
        vec![Fault::new(format!("Unable to render top file: {error}"))]
    };
    let file = cx
        .shared
        .sources
        .file(name, &env)
        .map_err(|error| fault(&error))?;
    let Some(file) = file else {
        return Ok((env, vec![Map::new()]));
    };
    let found = tree::SlsFile {
        file,
        path: name.to_owned(),
    };
    let first = tree::render(cx, &Tree::State, &found, "", &env, &Map::new())
        .map_err(|error| Fault::of_render(format!("Unable to render top file: {error}"), &error));
    let mut tops = vec![as_top(first.map_err(|fault| vec![fault])?.value)?];
    let mut included: Vec<String> = Vec::new();
    let mut next = 0;
    while let Some(top) = tops.get_mut(next) {
        next += 1;
        let Some(include) = top.remove("include") else {
            continue;
        };
        for pattern in include
            .as_list()
            .unwrap_or_default()
            .iter()
            .map(Value::to_text)
        {
            let names = tree::matching(cx, &Tree::State, &pattern, &env);
            for sls in names.map_err(|error| fault(&error))? {
                if included.contains(&sls) || included.len() > INCLUDES_MAX {
                    continue;
                }
                if let Some(found) =
                    tree::find(cx, &Tree::State, &sls, &env).map_err(|error| fault(&error))?
                {
                    let rendered = tree::render(cx, &Tree::State, &found, "", &env, &Map::new());
                    tops.push(as_top(rendered.map_err(|error| fault(&error))?.value)?);
                }
                included.push(sls);
            }
        }
    }
    Ok((env, tops))
}

fn as_top(value: Value) -> Result<Map, Vec<Fault>> {
    match value {
        Value::Map(top) => Ok(top),
        Value::Null => Ok(Map::new()),
        _ => Err(vec![Fault::new("Top data was not formed as a dict")]),
    }
}

/// Returns the sections of one top file, each with its targets.
fn sections(top: &Map) -> Result<Vec<(&Value, &Map)>, Vec<Fault>> {
    let named = top
        .iter()
        .filter(|(env, _)| env.as_str() != Some("include"));
    named
        .map(|(env, targets)| match targets {
            Value::Map(targets) => Ok((env, targets)),
            _ => Err(vec![Fault::new(
                "Unable to render top file. No targets found.",
            )]),
        })
        .collect()
}

fn add(merged: &mut Map, env: &Value, targets: &Map) {
    let section = merged.entry(env.clone(), || Map::new().into());
    if let Some(section) = section.as_map_mut() {
        section.update(targets.clone());
    }
}

/// Merges by Salt's default strategy: the top file of `base` decides. The top file of another
/// environment is only used for that environment, and only if `base` has no section for it.
fn merge(tops: Tops) -> Result<Map, Vec<Fault>> {
    let mut merged = Map::new();
    let (base, others): (Tops, Tops) = tops.into_iter().partition(|(env, _)| env == "base");
    for top in base.iter().flat_map(|(_, tops)| tops) {
        for (env, targets) in sections(top)? {
            add(&mut merged, env, targets);
        }
    }
    for (own, top) in others
        .iter()
        .flat_map(|(env, tops)| tops.iter().map(move |top| (env, top)))
    {
        for (env, targets) in sections(top)? {
            if env.as_str() == Some(own) && !merged.contains(own) {
                add(&mut merged, env, targets);
            }
        }
    }
    Ok(merged)
}

/// Merges by the strategy `same`: each environment uses its own top file, or that of `default_top`.
fn merge_same(cx: &Exec, tops: &Tops) -> Result<Map, Vec<Fault>> {
    let default_top = cx.opts().text("default_top").unwrap_or("base").to_owned();
    let of = |wanted: &str| {
        tops.iter()
            .find(|(env, _)| env == wanted)
            .map(|(_, tops)| tops.clone())
            .unwrap_or_default()
    };
    let mut merged = Map::new();
    for (own, own_tops) in tops {
        let own_tops = if own_tops.iter().all(Map::is_empty) {
            of(&default_top)
        } else {
            own_tops.clone()
        };
        for top in &own_tops {
            for (env, targets) in sections(top)? {
                if env.as_str() == Some(own) {
                    add(&mut merged, env, targets);
                }
            }
        }
    }
    Ok(merged)
}

/// Merges all sections of all top files. Entries for the same target are joined.
fn merge_all(tops: &Tops) -> Result<Map, Vec<Fault>> {
    let mut merged = Map::new();
    for top in tops.iter().flat_map(|(_, tops)| tops) {
        for (env, targets) in sections(top)? {
            let section = merged.entry(env.clone(), || Map::new().into());
            let Some(section) = section.as_map_mut() else {
                continue;
            };
            for (target, items) in targets {
                let joined = match section.get_value(target) {
                    Some(there) => join(there, items),
                    None => items.clone(),
                };
                section.insert(target.clone(), joined);
            }
        }
    }
    Ok(merged)
}

fn join(first: &Value, second: &Value) -> Value {
    let (first, second) = (
        first.as_list().unwrap_or_default(),
        second.as_list().unwrap_or_default(),
    );
    let is_match = |item: &&Value| matches!(item, Value::Map(_));
    let matcher = second
        .iter()
        .rfind(is_match)
        .or_else(|| first.iter().rfind(is_match));
    let mut joined: Vec<Value> = matcher.cloned().into_iter().collect();
    joined.extend(first.iter().filter(|item| item.as_str().is_some()).cloned());
    for item in second.iter().filter(|item| item.as_str().is_some()) {
        if !joined.contains(item) {
            joined.push(item.clone());
        }
    }
    Value::list(joined)
}

fn verify(top: &Map) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (env, matches) in top {
        if env.as_str().is_none() {
            faults.push(Fault::new(format!(
                "Environment {} in top file is not formed as a string",
                env.to_text()
            )));
        }
        if env.as_str() == Some("") {
            faults.push(Fault::new("Empty saltenv statement in top file"));
        }
        for (target, items) in matches.as_map().into_iter().flatten() {
            verify_items(&mut faults, env, target, items);
        }
    }
    faults
}

fn verify_items(faults: &mut Vec<Fault>, env: &Value, target: &Value, items: &Value) {
    let Value::List(items) = items else {
        faults.push(Fault::new(format!(
            "Malformed topfile: state declarations for matcher {} in saltenv {} are not formed as a list (got {})",
            value::python::repr(target),
            value::python::repr(env),
            items.type_name()
        )));
        return;
    };
    for item in items.iter() {
        match item {
            Value::Map(options) => {
                for option in options.values().filter(|option| !option.is_true()) {
                    faults.push(Fault::new(format!(
                        "Improperly formatted top file matcher in saltenv {}: {} file",
                        item.to_text(),
                        option.to_text()
                    )));
                }
            }
            Value::Str(sls) if sls.is_empty() => {
                faults.push(Fault::new(format!(
                    "Environment {} contains an empty sls index",
                    env.to_text()
                )));
            }
            _ => {}
        }
    }
}

/// Returns the SLS of the sections whose targets match this minion.
fn select(cx: &Exec, top: &Map, only: Option<&str>) -> Result<Matched, Vec<Fault>> {
    let mut matched = Matched::new();
    for (env, targets) in top {
        let env = env.to_text();
        if only.is_some_and(|only| only != env) {
            continue;
        }
        for (target, items) in targets.as_map().into_iter().flatten() {
            select_target(cx, &mut matched, &env, target, items)?;
        }
    }
    Ok(matched)
}

fn select_target(
    cx: &Exec,
    matched: &mut Matched,
    env: &str,
    target: &Value,
    items: &Value,
) -> Result<(), Vec<Fault>> {
    let items = items.as_list().unwrap_or_default();
    if !confirm(cx, target, items).map_err(|error| vec![Fault::new(error)])? {
        return Ok(());
    }
    if !matched.iter().any(|(known, _)| known == env) {
        matched.push((env.to_owned(), Vec::new()));
    }
    for item in items {
        match item {
            Value::Str(sls) => push(matched, env, sls),
            Value::Map(options) => {
                if let Some(Value::Map(inner)) = options.get("subfilter") {
                    for (target, items) in inner {
                        select_target(cx, matched, env, target, items)?;
                    }
                }
                // `{dev: sls}` adds an SLS from another environment.
                if let Some((Value::Str(other), sls)) = options.iter().next_back()
                    && cx
                        .shared
                        .sources
                        .environments()
                        .map_err(faults)?
                        .iter()
                        .any(|known| known.as_str() == &**other)
                {
                    push(matched, other, &sls.to_text());
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Adds the SLS of `master_tops`, each once.
fn add_others(matched: &mut Matched, others: &Map, are_first: bool) {
    for (env, names) in others {
        let (env, names) = (env.to_text(), names.texts());
        let position = matched.iter().position(|(known, _)| *known == env);
        let own = position.map_or_else(Vec::new, |at| matched.remove(at).1);
        let (mut all, second) = match are_first {
            true => (names, own),
            false => (own, names),
        };
        let new = second.into_iter().filter(|name| !all.contains(name));
        let new: Vec<String> = new.collect();
        all.extend(new);
        let place = position.unwrap_or(matched.len());
        matched.insert(place, (env, all));
    }
}

fn push(matched: &mut Matched, env: &str, sls: &str) {
    match matched.iter_mut().find(|(known, _)| known == env) {
        Some((_, names)) => names.push(sls.to_owned()),
        None => matched.push((env.to_owned(), vec![sls.to_owned()])),
    }
}

/// Returns whether this minion matches a target (Salt's `confirm_top`). The target is compound
/// unless an item `match` names another type.
///
/// # Errors
/// When the matcher is unknown, or needs a pillar that does not render.
pub fn confirm(cx: &Exec, target: &Value, items: &[Value]) -> Result<bool, String> {
    let named = items
        .iter()
        .filter_map(|item| item.get("match"))
        .next_back();
    let kind = named.map_or_else(|| "compound".to_owned(), Value::to_text);
    matcher::matches(cx, target, &kind).map_err(|error| error.to_string())
}
