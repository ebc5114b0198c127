//! `salt-run`: calls runners on the master, and prints their returns.

use std::ops::ControlFlow;

use cli::options::{SaltRun, SaltRunOptions, parse_input};
use cli::output::Return;
use cli::progress;
use render::yaml::SaltYaml;
use state::module::Module;
use value::{Map, Value, jid, log, watch};
use wire::Runner;

use crate::commands::command::{exit_code, flag, near_function, refused};
use crate::commands::local_client::{AskError, Master};
use crate::runs::progress::relay;
use cli::output::Screen;
use modules::loader::call::joined;

mod events;

/// Runs the command, and returns its exit code.
pub(crate) fn run(
    line: &SaltRun,
    opts: &Map,
    runners: &[Module<Value>],
    master: &dyn Master,
    screen: &mut Screen<'_>,
) -> u8 {
    let done = match &line.request {
        SaltRunOptions::About(_) => Ok(0),
        SaltRunOptions::Doc(prefix) => {
            documentation(runners, prefix, screen);
            Ok(0)
        }
        SaltRunOptions::Call { fun, words } if fun == "state.event" => {
            let input = parse_input(words, &line.no_parse, &SaltYaml);
            events::run(input, master, screen)
        }
        SaltRunOptions::Call { fun, words } => {
            let input = parse_input(words, &line.no_parse, &SaltYaml);
            if let Some(code) = refused(runners, fun, &input.kwargs, screen) {
                return code;
            }
            let request = Runner {
                fun: fun.clone(),
                arg: joined(input.args, input.kwargs),
                // An error names it even if the master ends before it has answered.
                jid: line.jid.clone().or_else(|| Some(jid::new())),
                asynchronous: flag(opts, "async"),
                watched: watch::is_on(),
            };
            called(request, opts, runners, master, screen)
        }
    };
    done.unwrap_or_else(|error| failed(&error, opts, screen))
}

/// Prints an error and returns the exit code: 0 if the master reports `missing` or `invalid`, which
/// to Salt is an answer of the runner, and 1 for all else.
fn failed(error: &AskError, opts: &Map, screen: &mut Screen<'_>) -> u8 {
    if !flag(opts, "quiet") {
        let text = match error {
            AskError::NotLoggedIn { of_runner, .. } => of_runner.clone(),
            other => other.to_string(),
        };
        screen.show(&Value::from(text), Some("nested"), 0);
    }
    u8::from(
        !matches!(error, AskError::Failed { reason, .. } if reason == "missing" || reason == "invalid"),
    )
}

fn called(
    request: Runner,
    opts: &Map,
    runners: &[Module<Value>],
    master: &dyn Master,
    screen: &mut Screen<'_>,
) -> Result<u8, AskError> {
    let later = request.asynchronous;
    let not_there = format!("'{}' is not available.", request.fun);
    let quiet = flag(opts, "quiet") || progress::is_asked(opts);
    let mut told = |part: Value| {
        if !relay(&part) && !quiet {
            told_of(&part, screen);
        }
        ControlFlow::Continue(())
    };
    let orchestrated = orchestration(&request);
    let answer = master.ask(request.into(), &mut told);
    let ended = answer.as_ref().ok().map(|answer| Return {
        value: answer.get("return").cloned().unwrap_or_default(),
        retcode: retcode(answer),
        ..Return::default()
    });
    progress::end(ended.as_ref());
    let answer = answer.map_err(|error| match (error, orchestrated) {
        (AskError::Link(error), Some(jid)) => AskError::OrchestrationContinues {
            jid,
            error: Box::new(error),
        },
        (error, _) => error,
    })?;
    let text = |key: &str| answer.get(key).map(Value::to_text).unwrap_or_default();
    if later {
        log::warning(format_args!(
            "Running in asynchronous mode. Results of this execution may be collected by attaching to the master event bus or by examining the master job cache, if configured. This execution is running under tag salt/run/{}",
            text("jid")
        ));
        return Ok(0);
    }
    if flag(opts, "show_jid") {
        screen.say(&format!("jid: {}", text("jid")));
    }
    let returned = answer.get("return").cloned().unwrap_or_default();
    if !quiet {
        show(&answer, &returned, screen);
    }
    let hint = returned.as_str();
    if let Some(hint) = hint.and_then(|text| near_function(runners, text)) {
        screen.complain(&format!("Hint: {hint}\n"));
    }
    // To Salt, a missing function is a message and no failure.
    if returned.as_str() == Some(&not_there) {
        return Ok(0);
    }
    Ok(exit_code(retcode(&answer)))
}

/// Returns the job id of a request that runs an orchestration.
fn orchestration(request: &Runner) -> Option<String> {
    let runs = matches!(
        request.fun.as_str(),
        "state.orchestrate" | "state.orch" | "state.sls"
    );
    request.jid.clone().filter(|_| runs)
}

/// Prints a runner's progress: a text, or one of the runner's events.
fn told_of(part: &Value, screen: &mut Screen<'_>) {
    if let Some(text) = part.get("print") {
        screen.say(&text.to_text());
        return;
    }
    let (Some(tag), Some(data)) = (part.get("tag").and_then(Value::as_str), part.get("data"))
    else {
        return;
    };
    // The tag is `salt/run/JID/SUFFIX`.
    let suffix = tag.splitn(4, '/').nth(3).unwrap_or(tag);
    if matches!(suffix, "new" | "ret") {
        return;
    }
    let outputter = data.get("outputter").and_then(Value::as_str);
    let event = Map::new()
        .with("suffix", suffix)
        .with("event", data.clone());
    screen.show(&event.into(), outputter, 0);
}

/// Prints a return. One with only `data` and `outputter` is printed as its data; any other is
/// printed whole, and may name its outputter.
fn show(answer: &Value, returned: &Value, screen: &mut Screen<'_>) {
    let named =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let outputter = named(returned, "outputter");
    match (returned.get("data"), returned.as_map()) {
        (Some(data), Some(map)) if map.len() == 2 && outputter.is_some() => {
            screen.show(data, outputter.as_deref(), 0);
        }
        _ => {
            let wanted = named(answer, "out").or(outputter);
            screen.show(returned, wanted.as_deref(), 0);
        }
    }
}

/// Returns the exit code of a run, or the one in its return.
fn retcode(answer: &Value) -> i64 {
    let returned = answer.get("return");
    let code = |value: Option<&Value>| value.and_then(|value| value.get("retcode")?.as_int());
    code(Some(answer))
        .filter(|code| *code != 0)
        .or_else(|| code(returned))
        .or_else(|| code(returned?.get("data")))
        .unwrap_or_default()
}

/// Implements `-d`: prints the documentation of a runner, a function, or all.
fn documentation(runners: &[Module<Value>], prefix: &str, screen: &mut Screen<'_>) {
    let mut docs: Vec<(String, &str)> = runners
        .iter()
        .flat_map(|module| {
            let named = |name: &str| format!("{}.{name}", module.name);
            let functions = module.functions.iter();
            functions.map(move |function| (named(function.name), function.doc))
        })
        .filter(|(name, _)| is_meant(name, prefix))
        .collect();
    value::sorted::sort_by_key(&mut docs, |(name, _)| name.clone());
    docs.dedup_by(|one, other| one.0 == other.0);
    for (name, doc) in docs {
        screen.show(&Value::from(format!("{name}:")), Some("txt"), 0);
        let lines: Vec<String> = doc
            .lines()
            .map(|line| format!("    {}", line.trim()))
            .collect();
        screen.say(&format!("\n{}\n", lines.join("\n")));
    }
}

fn is_meant(name: &str, prefix: &str) -> bool {
    let below = || prefix.trim_end_matches('.').len();
    prefix.is_empty()
        || name == prefix
        || (prefix.contains('*') && value::glob::fnmatch(prefix, name))
        || (name.starts_with(prefix.trim_end_matches('.'))
            && name.as_bytes().get(below()) == Some(&b'.'))
}
