//! Calls the function of a chunk, and builds its return.

use std::sync::Arc;

use value::{Map, Value, log, secret};

use super::clock::Stamp;
use super::engine::{Chunk, Run};
use super::{guard, parallel, retry, slots};
use crate::boot;
use crate::exec::Exec;
use crate::facts::Need;
use crate::keys;
use crate::low::LowChunk;
use crate::matcher;
use crate::module::{Arguments, Error, Extra, Ret, StateFunction};
use crate::resume::Policy;
use crate::umask::Umask;

impl Run<'_> {
    /// Calls a chunk as often as its `retry` requests.
    pub(super) fn called(&mut self, index: usize, low: &Arc<LowChunk>) -> Map {
        let low = &self.aggregated(index, low);
        match self.called_once(index, low) {
            Ok(ret) if low.data.contains("retry") && !low.data.contains("parallel") => {
                retry::repeated(ret, low, self.cx.test, || {
                    self.called_once(index, low)
                        .unwrap_or_else(|refused| refused)
                })
            }
            Ok(ret) | Err(ret) => ret,
        }
    }

    /// Calls a chunk once. The error is the return of a chunk that cannot be called.
    fn called_once(&mut self, index: usize, low: &Arc<LowChunk>) -> Result<Map, Map> {
        let stamp = Stamp::now();
        let _hush = secret::mask_logs(low.options.no_log);
        let mut ret = match verified(&self.cx, low) {
            Ok(function) => {
                let cx = context(&self.cx, low, self.cx.test);
                if low.options.parallel {
                    self.called_beside(index, &cx, low, function)
                } else {
                    called_here(&cx, low, function)
                }
            }
            Err(errors) => {
                let ret = match self.cx.test.then(|| self.awaited(low)).flatten() {
                    Some(comment) => pending(low, &comment),
                    None => self.refused(low, errors),
                };
                let ret = ret.with("__run_num__", self.number());
                refresh(&self.cx, low);
                return Err(ret);
            }
        };
        ret.insert(&keys::SLS, low.data.get("__sls__").cloned());
        ret.insert(&keys::RUN_NUM, self.number());
        if low.options.no_log {
            mask(&mut ret);
        }
        tell_log(&ret);
        refresh(&self.cx, low);
        ret.insert(&keys::START_TIME, stamp.start_time());
        ret.insert(&keys::DURATION, stamp.duration());
        ret.insert(&keys::ID, low.id.as_str());
        Ok(ret)
    }

    /// Starts a parallel chunk, unless a guard or a condition prevents it.
    fn called_beside(
        &mut self,
        index: usize,
        cx: &Exec,
        low: &Arc<LowChunk>,
        function: StateFunction,
    ) -> Map {
        match stopped(cx, low) {
            Ok(Some(ret)) => checked(cx, low, function, Ok(ret)),
            Ok(None) => {
                let job = parallel::job(cx.clone(), Arc::clone(low), function);
                let comment = self.parallel.start(index, job);
                Map::new()
                    .with("name", low.name.as_str())
                    .with("result", Value::Null)
                    .with("changes", Map::new())
                    .with("comment", comment)
            }
            Err(error) => failed(low, &error),
        }
    }

    /// Calls a chunk in test mode, for the chunks that name it in `prereq`.
    pub(super) fn called_to_try(&self, low: &Arc<LowChunk>) -> Map {
        super::tell_started(&self.cx, low, true);
        let _hush = secret::mask_logs(low.options.no_log);
        match verified(&self.cx, low) {
            Ok(function) => called_here(&context(&self.cx, low, true), low, function),
            Err(errors) => self.refused(low, errors),
        }
    }

    /// Returns why the test of a chunk that this machine lacks a program for is no failure: an
    /// earlier chunk would install the program.
    fn awaited(&self, low: &LowChunk) -> Option<String> {
        let need = (self.cx.shared.registry.lacks)(&self.cx, &low.function())?;
        let required: Vec<usize> = low
            .requisites
            .iter()
            .flat_map(|of| of.chunks.clone())
            .collect();
        let would = |chunk: &Chunk| chunk.outcome.is_some_and(|done| done.result.is_none());
        let mut all = self.chunks.iter().enumerate();
        let (_, installs) = all.find(|(index, chunk)| {
            would(chunk) && (installs(&chunk.low, need) || required.contains(index))
        })?;
        let (state, id) = (&installs.low.state, &installs.low.id);
        let (full, program) = (low.function(), need.describe());
        Some(format!(
            "Depends on {state}: {id}, which would change first: {full} needs {program}"
        ))
    }

    /// Returns the return of a chunk that cannot be called.
    fn refused(&self, low: &LowChunk, errors: Vec<String>) -> Map {
        let comment: String = errors.iter().map(|error| format!("{error}\n")).collect();
        // The check before the run has logged that a function or an argument does not exist, with
        // the place.
        if unavailable(&self.cx, low).is_some() {
            log_failure(&comment);
        }
        Map::new()
            .with("result", false)
            .with("name", low.name.as_str())
            .with("changes", Map::new())
            .with("comment", comment)
    }
}

/// Returns true if a chunk installs the package of a program.
fn installs(low: &LowChunk, need: &Need) -> bool {
    let is_wanted = |name: &str| {
        need.package() == Some(name) || need.program.split('|').any(|program| program == name)
    };
    let is_wanted_item = |item: &Value| match item.as_map().and_then(Map::first) {
        Some((name, _)) => name.as_str().is_some_and(is_wanted),
        None => item.as_str().is_some_and(is_wanted),
    };
    let packages = low.data.get("pkgs").and_then(Value::as_list);
    let mut packages = packages.into_iter().flatten();
    low.state == "pkg" && (is_wanted(&low.name) || packages.any(is_wanted_item))
}

/// Returns the return of a chunk whose test depends on an earlier change.
fn pending(low: &LowChunk, comment: &str) -> Map {
    Map::new()
        .with("result", Value::Null)
        .with("name", low.name.as_str())
        .with("changes", Map::new())
        .with("comment", comment)
}

/// Returns the reason why the machine lacks the function of a chunk, if the function exists.
fn unavailable(cx: &Exec, low: &LowChunk) -> Option<String> {
    let full = low.function();
    let function = cx.state_function(&full);
    function.and_then(|_| cx.unavailable_state(&full, false))
}

/// Returns the context of a chunk's call.
fn context(cx: &Exec, low: &Arc<LowChunk>, test: bool) -> Exec {
    let asked = low.data.get("saltenv").filter(|value| !value.is_null());
    let saltenv = match asked {
        Some(saltenv) if !cx.opts().flag("lock_saltenv") => saltenv.to_text(),
        _ if low.saltenv.is_empty() => "base".to_owned(),
        _ => low.saltenv.clone(),
    };
    let mut cx = cx.clone();
    (cx.test, cx.saltenv, cx.chunk) = (test, saltenv, Some(Arc::clone(low)));
    cx
}

/// Returns the function of a chunk if it can be called, else the errors in Salt's words.
fn verified(cx: &Exec, low: &LowChunk) -> Result<StateFunction, Vec<String>> {
    low.options.umask().map_err(|text| vec![text])?;
    let full = low.function();
    let function = cx.state_function(&full);
    let why = cx.unavailable_state(&full, function.is_none());
    let (Some(function), None) = (function, &why) else {
        return Err(vec![
            format!("State '{full}' was not found in SLS '{}'", low.sls),
            format!("Reason: {}", why.unwrap_or_default()),
        ]);
    };
    let missing: Vec<String> = function
        .args
        .iter()
        .filter(|arg| arg.default.is_none() && !low.data.contains(arg.name))
        .map(|arg| format!("Missing parameter {} for state {full}", arg.name))
        .collect();
    if missing.is_empty() {
        Ok(function)
    } else {
        Err(missing)
    }
}

/// Calls the function if its guards permit it, and then its `check_cmd`.
pub(super) fn called_here(cx: &Exec, low: &LowChunk, function: StateFunction) -> Map {
    let ret =
        stopped(cx, low).and_then(|stopped| stopped.map_or_else(|| acted(cx, low, function), Ok));
    checked(cx, low, function, ret)
}

/// Returns the return of a chunk that a guard or a global condition prevents from running; `None`
/// if it may run.
fn stopped(cx: &Exec, low: &LowChunk) -> Result<Option<Map>, Error> {
    match guard::skipped(cx, low)? {
        Some(ret) => Ok(Some(ret)),
        None => unwanted(cx, low),
    }
}

/// Checks the option `global_state_conditions`: targets that this minion must match for a function
/// to be called. Returns the return of the chunk if it matches none of them.
fn unwanted(cx: &Exec, low: &LowChunk) -> Result<Option<Map>, Error> {
    let Some(conditions) = cx
        .opts()
        .get("global_state_conditions")
        .and_then(Value::as_map)
    else {
        return Ok(None);
    };
    let mut met = None;
    for key in ["*", &low.function(), &low.state] {
        let one = conditions.get(key).map(std::slice::from_ref);
        let listed = conditions.get(key).and_then(Value::as_list);
        for condition in listed.or(one).unwrap_or_default() {
            *met.get_or_insert(false) |= matcher::matches(cx, condition, "compound")?;
        }
    }
    Ok((met == Some(false)).then(|| {
        Map::new()
            .with("name", low.name.as_str())
            .with(
                "comment",
                "Failed to meet global state conditions. State not called.",
            )
            .with("changes", Map::new())
            .with("result", Value::Null)
    }))
}

/// Calls the function itself, through the run's [`Previewer`](crate::previewer::Previewer) if it
/// has one.
pub(super) fn acted(cx: &Exec, low: &LowChunk, function: StateFunction) -> Result<Map, Error> {
    match &cx.previewer {
        None => invoked(cx, low, function),
        Some(previewer) => previewer.called(cx, low, &|cx| invoked(cx, low, function)),
    }
}

fn invoked(cx: &Exec, low: &LowChunk, function: StateFunction) -> Result<Map, Error> {
    let full = low.function();
    log::info(format_args!(
        "Executing state {full} for [{}]",
        low.name.trim()
    ));
    // As in Salt, a function that accepts any keywords gets its name among them.
    let takes_name = function.extra == Extra::Accept;
    let mut kwargs = low.arguments(|key| function.declares(key) || (takes_name && key == "name"));
    slots::fill(cx, &mut kwargs)?;
    let reboot = boot::awaited(cx, low).filter(|_| !function.declares("reboot"));
    match reboot {
        Some(_) => boot::begins(cx, low, &own_tag(low))?,
        None => note_begin(cx, low)?,
    }
    let ret = {
        let _umask = umask_of(low)?;
        function.invoke(&full, cx, Arguments::new(Vec::new(), kwargs))
    };
    let ret = match reboot {
        Some(patience) => boot::comes(ret, patience)?,
        None => ret?,
    };
    Ok(laid_out(ret, low))
}

/// Sets the umask that a chunk requests, until the returned guard is dropped.
fn umask_of(low: &LowChunk) -> Result<Option<Umask>, Error> {
    let Some(mask) = low.options.umask()? else {
        return Ok(None);
    };
    let set = Umask::set(mask).map_err(|error| format!("Cannot set the umask {mask:03o}: {error}"));
    Ok(Some(set?))
}

/// Records durably that a chunk begins that must not be repeated without the user's order. If the
/// disk is full, the chunk begins anyway, unless its SLS has the option `resume`.
///
/// # Errors
/// When the chunk must not begin.
fn note_begin(cx: &Exec, low: &LowChunk) -> Result<(), Error> {
    let own = cx.run.as_ref().map(|run| &run.record);
    if let Some(own) = own.filter(|_| !cx.test)
        && let Some(record) = &own.record
        && let policy = Policy::for_chunk(cx.shared.registry, low)
        && policy != Policy::Redo
        && !record.begins(cx, &own.part, &own_tag(low), policy)
        && low.data.contains("resume")
    {
        return Err("not started: it must not run twice, and its start cannot be recorded".into());
    }
    Ok(())
}

/// Returns the chunk's own tag, even if its `mod_watch` is called.
fn own_tag(low: &LowChunk) -> String {
    match low.data.get("sfun").and_then(Value::as_str) {
        Some(fun) if low.data.contains("__reqs__") => {
            [&*low.state, &*low.id, &*low.name, fun].join("_|-")
        }
        _ => low.tag(),
    }
}

/// Returns the map of a return, with the keys in the order of Salt's functions.
fn laid_out(ret: Ret, low: &LowChunk) -> Map {
    let name = ret
        .name
        .map_or_else(|| low.name.as_str().into(), Value::from);
    let changes = match ret.changes {
        Value::Null => Map::new().into(),
        changes => changes,
    };
    let mut map = Map::with_room(10);
    map.insert(&keys::NAME, name);
    map.insert(&keys::CHANGES, changes);
    if ret.comment_first {
        map.insert(&keys::COMMENT, ret.comment.as_str());
    }
    map.insert(&keys::RESULT, ret.result);
    map.insert(&keys::COMMENT, ret.comment);
    if !ret.warnings.is_empty() {
        map.insert("warnings", ret.warnings);
    }
    map.update(ret.extra);
    map
}

/// Applies `check_cmd`, unless the function has an argument of that name. Converts an error to a
/// return.
pub(super) fn checked(
    cx: &Exec,
    low: &LowChunk,
    function: StateFunction,
    ret: Result<Map, Error>,
) -> Map {
    let checked = ret.and_then(|ret| match &low.options.check_cmd {
        Some(commands) if !function.declares("check_cmd") => {
            guard::check_cmd(cx, low, commands, ret)
        }
        _ => Ok(ret),
    });
    checked.unwrap_or_else(|error| failed(low, &error))
}

/// Returns the return of a function that failed with an error.
pub(super) fn failed(low: &LowChunk, error: &Error) -> Map {
    Map::new()
        .with("result", false)
        .with("name", low.name.as_str())
        .with("changes", Map::new())
        .with("comment", error.to_string())
}

/// Adds the SLS, the id and the name of its chunk to a return that the call did not fill in.
pub(super) fn sign(ret: &mut Map, low: &LowChunk) {
    ret.insert("__sls__", low.data.get("__sls__").cloned());
    ret.insert("__id__", low.id.as_str());
    ret.insert("name", low.name.as_str());
}

/// Drops the cached grains and pillar if the chunk requests it.
pub(super) fn refresh(cx: &Exec, low: &LowChunk) {
    if low.options.reload_grains {
        cx.refresh_grains();
    }
    if low.options.reload_pillar {
        cx.refresh_pillar();
    }
}

/// Masks the parts of a return that a chunk with `no_log` must hide.
pub(super) fn mask(ret: &mut Map) {
    for key in ["name", "comment", "changes"] {
        if let Some(value) = ret.get_mut(key) {
            hide(value);
        }
    }
}

fn hide(value: &mut Value) {
    match value {
        Value::Map(map) => map.iter_mut().for_each(|(_, value)| hide(value)),
        Value::List(_) => value.as_list_mut().into_iter().flatten().for_each(hide),
        Value::Tuple(_) | Value::Set(_) => {}
        value if value.is_true() => *value = "**********".into(),
        _ => {}
    }
}

/// Writes one log line for a return; a failure is logged as an error.
fn tell_log(ret: &Map) {
    match ret.get("result") {
        Some(Value::Bool(false)) => log_failure(LoggedReturn(ret)),
        _ => log::info(LoggedReturn(ret)),
    }
}

/// Logs that a state failed.
fn log_failure(message: impl std::fmt::Display) {
    log::log(log::Level::Error, log::RETURNS, format_args!("{message}"));
}

/// A return in the format of the log.
struct LoggedReturn<'a>(&'a Map);

impl std::fmt::Display for LoggedReturn<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |key| self.0.get(key).map(Value::to_text).unwrap_or_default();
        let Some(changes) = self.0.get("changes").filter(|changes| changes.is_true()) else {
            return match text("comment") {
                comment if comment.is_empty() => {
                    write!(f, "No changes made for {}", text("name"))
                }
                comment => f.write_str(&comment),
            };
        };
        if let Some(diff) = changes.get("diff").and_then(Value::as_str) {
            return write!(f, "File changed:\n{diff}");
        }
        match changes.as_map().map(old_and_new) {
            Some(Some(lines)) => write!(f, "Made the following changes:\n{lines}"),
            _ => f.write_str(&changes.to_text()),
        }
    }
}

/// Returns lines for changes that all have `old` and `new`; `None` if one of them does not.
fn old_and_new(changes: &Map) -> Option<String> {
    let shown = |value: &Value| match value {
        Value::Bool(false) | Value::Null => value.to_text(),
        value if value.is_true() => value.to_text(),
        _ => "absent".to_owned(),
    };
    let line = |(name, change): (&Value, &Value)| {
        let (old, new) = (shown(change.get("old")?), shown(change.get("new")?));
        Some(format!(
            "'{}' changed from '{old}' to '{new}'\n",
            name.to_text()
        ))
    };
    changes.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_installs_a_program_by_the_name_of_its_package() {
        let need = Need {
            program: "apache2ctl|apachectl",
            sentence: "",
            package: Some("apache2"),
        };
        let low = |state: &str, name: &str, pkgs: &[&str]| {
            let pkgs = pkgs.iter().map(|name| Value::from(*name));
            LowChunk::from_map(
                Map::new()
                    .with("state", state)
                    .with("fun", "installed")
                    .with("name", name)
                    .with("pkgs", Value::list(pkgs)),
            )
        };
        assert!(installs(&low("pkg", "apache2", &[]), &need));
        assert!(installs(&low("pkg", "apachectl", &[]), &need));
        assert!(installs(&low("pkg", "web", &["nginx", "apache2"]), &need));
        assert!(!installs(&low("pkg", "nginx", &[]), &need));
        assert!(!installs(&low("file", "apache2", &[]), &need));
    }
}
