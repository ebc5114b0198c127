//! The guards `onlyif`, `unless` and `creates`, and `check_cmd`.

use std::path::Path;
use std::sync::Arc;

use value::{Map, Value, log};

use super::slots;
use crate::exec::Exec;
use crate::low::LowChunk;
use crate::module::Error;

/// The arguments of a chunk that are passed to the commands of its guards.
const COMMAND_ARGUMENTS: [&str; 8] = [
    "cwd",
    "root",
    "runas",
    "env",
    "prepend_path",
    "umask",
    "timeout",
    "success_retcodes",
];

/// The result of a guard.
struct Verdict {
    skip: bool,
    comment: String,
    /// The entry that decided, and the exit status of its command.
    decided: Option<(Value, Option<i64>)>,
}

impl Verdict {
    fn skip(comment: impl Into<String>) -> Self {
        Self {
            skip: true,
            comment: comment.into(),
            decided: None,
        }
    }

    fn run(comment: impl Into<String>) -> Self {
        Self {
            skip: false,
            comment: comment.into(),
            decided: None,
        }
    }

    /// Adds the entry that decided.
    fn by(self, entry: &Value, status: Option<i64>) -> Self {
        let decided = Some((entry.clone(), status));
        Self { decided, ..self }
    }
}

/// Returns the return of a chunk if one of its guards prevents it from running.
pub(super) fn skipped(cx: &Exec, low: &LowChunk) -> Result<Option<Map>, Error> {
    let options = &low.options;
    let mut verdicts = Vec::new();
    if let Some(entries) = &options.onlyif {
        verdicts.push(("onlyif", onlyif(cx, low, entries)?));
    }
    if let Some(entries) = &options.unless {
        verdicts.push(("unless", unless(cx, low, entries)?));
    }
    if let Some(paths) = &options.creates {
        verdicts.push(("creates", creates(paths)));
    }
    for (guard, verdict) in &verdicts {
        let decision = if verdict.skip {
            "skipped"
        } else {
            "not skipped"
        };
        log::debug(format_args!(
            "state {} ({}): {decision}, {guard}: {}",
            low.id,
            low.function(),
            verdict.comment
        ));
    }
    if !verdicts.iter().any(|(_, verdict)| verdict.skip) {
        return Ok(None);
    }
    note(cx, low, &verdicts);
    let comments: Vec<String> = verdicts.into_iter().map(|(_, v)| v.comment).collect();
    Ok(Some(
        Map::new()
            .with("result", true)
            .with("name", low.name.as_str())
            .with("changes", Map::new())
            .with("comment", comments.join("\n"))
            .with("__sls__", low.sls.as_str())
            .with("__id__", low.id.as_str())
            .with("skip_watch", true),
    ))
}

/// Records which guard it was and the exit status of its command, because the return does not
/// contain them.
fn note(cx: &Exec, low: &LowChunk, verdicts: &[(&str, Verdict)]) {
    let own = cx.run.as_ref().map(|run| &run.record);
    let Some(record) = own
        .filter(|own| own.part.is_empty())
        .and_then(|own| own.record.as_ref())
    else {
        return;
    };
    for (guard, verdict) in verdicts {
        if let (true, Some((entry, status))) = (verdict.skip, &verdict.decided) {
            let told = Map::new()
                .with("guard", *guard)
                .with("entry", entry.clone());
            record.guarded(&low.tag(), told.with("status", *status));
        }
    }
}

fn entries(value: &Value) -> &[Value] {
    match value {
        Value::List(items) => items,
        one => std::slice::from_ref(one),
    }
}

/// Evaluates `onlyif`: skips the chunk at the first entry that is false.
fn onlyif(cx: &Exec, low: &LowChunk, given: &Value) -> Result<Verdict, Error> {
    for entry in entries(given) {
        match held(cx, low, entry, 100)? {
            Held::Yes(_) => {}
            Held::No(status) => {
                return Ok(Verdict::skip("onlyif condition is false").by(entry, status));
            }
            Held::NoFunction => return Ok(no_function("onlyif", entry)),
            Held::BadType => {
                return Ok(Verdict::run("onlyif execution failed, bad type passed"));
            }
        }
    }
    Ok(Verdict::run("onlyif condition is true"))
}

/// Evaluates `unless`: skips the chunk if every entry is true.
fn unless(cx: &Exec, low: &LowChunk, given: &Value) -> Result<Verdict, Error> {
    let mut verdict = Verdict::run("unless condition is false");
    for entry in entries(given) {
        verdict = match held(cx, low, entry, 0)? {
            Held::Yes(status) => Verdict::skip("unless condition is true").by(entry, status),
            Held::No(_) => return Ok(Verdict::run("unless condition is false")),
            Held::NoFunction => {
                let Verdict { comment, .. } = no_function("unless", entry);
                return Ok(Verdict { comment, ..verdict });
            }
            Held::BadType => Verdict::run("unless condition is false, bad type passed"),
        };
    }
    Ok(verdict)
}

fn no_function(guard: &str, entry: &Value) -> Verdict {
    // Salt prints a dictionary of an SLS as Python's `OrderedDict`.
    let pairs = entry.as_map().into_iter().flatten();
    let pairs = pairs.map(|(key, value)| Value::Tuple(Arc::new(vec![key.clone(), value.clone()])));
    let shown = Value::list(pairs).to_text();
    let comment = format!("no `fun` argument in {guard}: OrderedDict({shown})");
    log::warning(&comment);
    Verdict::run(comment)
}

/// The truth of an entry. If the entry is a command, with its exit status.
enum Held {
    Yes(Option<i64>),
    No(Option<i64>),
    NoFunction,
    BadType,
}

impl Held {
    fn new(holds: bool, status: Option<i64>) -> Self {
        match holds {
            true => Self::Yes(status),
            false => Self::No(status),
        }
    }
}

/// Evaluates an entry. A command that cannot be started counts as one that exited with
/// `cannot_run`.
fn held(cx: &Exec, low: &LowChunk, entry: &Value, cannot_run: i64) -> Result<Held, Error> {
    match entry {
        Value::Str(command) => {
            let code = match retcode(cx, command, command_arguments(cx, low)) {
                Err(error) if error.is_of_command() => cannot_run,
                other => other?,
            };
            Ok(Held::new(code == 0, Some(code)))
        }
        Value::Map(call) => function_holds(cx, call.clone()),
        _ => Ok(Held::BadType),
    }
}

/// Runs a command and returns its exit code.
fn retcode(cx: &Exec, command: &str, arguments: Map) -> Result<i64, Error> {
    let arguments = arguments
        .with("ignore_retcode", true)
        .with("python_shell", true);
    let code = cx.call("cmd.retcode", vec![command.into()], arguments)?;
    Ok(code.as_int().unwrap_or_default())
}

/// Returns the arguments that a guard's command gets from its chunk.
fn command_arguments(cx: &Exec, low: &LowChunk) -> Map {
    let excluded = low.data.get("cmd_opts_exclude").map(entries);
    let wanted = |name: &str| {
        !excluded
            .unwrap_or_default()
            .iter()
            .any(|excluded| excluded.as_str() == Some(name))
    };
    let given = |name: &'static str| {
        let value = low.data.get(name).filter(|value| !value.is_null())?;
        wanted(name).then(|| (name, value.clone()))
    };
    let mut arguments: Map = COMMAND_ARGUMENTS.into_iter().filter_map(given).collect();
    let shell = match low.data.get("shell") {
        Some(shell) if wanted("shell") => Some(shell.clone()),
        _ => shell(cx),
    };
    if let Some(shell) = shell {
        arguments.insert("shell", shell);
    }
    arguments
}

fn shell(cx: &Exec) -> Option<Value> {
    cx.grains().get("shell").cloned()
}

/// Evaluates an entry `{fun: …, args: […], …}`: it is false if the function sets an exit code, else
/// its return decides.
fn function_holds(cx: &Exec, mut call: Map) -> Result<Held, Error> {
    let Some(fun) = call.remove("fun") else {
        return Ok(Held::NoFunction);
    };
    let get_return = call.remove("get_return").filter(Value::is_true);
    let mut args = call.remove("args").unwrap_or_else(|| Value::list([]));
    slots::fill_value(cx, &mut args)?;
    slots::fill(cx, &mut call)?;
    let args = args.as_list().unwrap_or_default().to_vec();
    let before = cx.retcode();
    cx.set_retcode(0);
    let returned = cx.call(&fun.to_text(), args, call);
    let code = cx.retcode();
    cx.set_retcode(before);
    let returned = returned?;
    if code != 0 {
        return Ok(Held::No(None));
    }
    let found = match get_return {
        Some(path) => returned.traverse(&path.to_text(), ":"),
        None => Some(&returned),
    };
    Ok(Held::new(found.is_some_and(Value::is_true), None))
}

fn creates(paths: &Value) -> Verdict {
    let exists = |path: &Value| Path::new(&path.to_text()).exists();
    match paths {
        Value::Str(path) if exists(paths) => Verdict::skip(format!("{path} exists")),
        Value::List(paths) if paths.iter().all(exists) => {
            Verdict::skip("All files in creates exist")
        }
        _ => Verdict::run("Creates files not found"),
    }
}

/// Runs the commands that decide whether the chunk succeeded, and sets the result.
pub(super) fn check_cmd(
    cx: &Exec,
    low: &LowChunk,
    commands: &Value,
    mut ret: Map,
) -> Result<Map, Error> {
    let mut succeeded = false;
    for command in entries(commands) {
        let arguments = shell(cx).into_iter().map(|shell| ("shell", shell));
        succeeded = retcode(cx, &command.to_text(), arguments.collect())? == 0;
        ret.insert(
            "comment",
            if succeeded {
                "check_cmd determined the state succeeded"
            } else {
                "check_cmd determined the state failed"
            },
        );
        if !succeeded {
            break;
        }
    }
    ret.insert("result", succeeded);
    super::call::sign(&mut ret, low);
    Ok(ret)
}
