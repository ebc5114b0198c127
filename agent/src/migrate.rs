//! `pinch migrate`: reports which parts of a tree for Salt run in Pinch, and where the results of
//! Salt and Pinch differ on this machine, and replaces Salt's minion by Pinch's.

#[cfg(feature = "daemon")]
mod minion;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cli::binary;
use cli::failure::{Exit, Failure};
use cli::options::{MIGRATE, Parsed};
use machine::process::Process;
use modules::fileserver::roots::Roots;
use modules::state_run::orchestrate::ThisMachine;
use state::exec::Exec;
use state::opts::Opts;
use value::json::{self, Layout};
use value::{Map, Value};

use crate::selection::StateSelection;
use crate::setup;

/// The maximum run time of each of the two programs, in seconds, if `--timeout` sets none.
const SECONDS: i64 = 600;

/// The fields of a return that are compared.
const COMPARED: [&str; 3] = ["result", "comment", "changes"];

/// Runs `pinch migrate` with the arguments `words`.
///
/// # Errors
/// If the command line, the configuration or the tree is wrong, or one of the two programs fails.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Failure> {
    setup::run(&MIGRATE, words, answered)
}

fn answered(parsed: &Parsed) -> Result<ExitCode, Failure> {
    match parsed.words.split_first() {
        Some((word, rest)) if word == "report" => report(parsed, rest),
        Some((word, rest)) if word == "compare" => compare(parsed, rest),
        #[cfg(feature = "daemon")]
        Some((word, rest)) if word == "minion" => minion::run(parsed, rest),
        _ => {
            let error = "migrate needs a command: migrate report [TREE], migrate compare SLS or migrate minion";
            Err(Failure::new(Exit::Usage, error))
        }
    }
}

fn report(parsed: &Parsed, words: &[String]) -> Result<ExitCode, Failure> {
    let settings = crate::lint::settings(parsed, words)?;
    let report = ::lint::lint(&settings).map_err(|error| Failure::new(Exit::Generic, error))?;
    let format = parsed.text("format").unwrap_or_default();
    Ok(binary::put(&::lint::migration(&report, format)))
}

fn compare(parsed: &Parsed, words: &[String]) -> Result<ExitCode, Failure> {
    let Some(asked) = StateSelection::parse(words) else {
        let error = "migrate compare needs highstate or SLS names: migrate compare highstate";
        return Err(Failure::new(Exit::Usage, error));
    };
    let (ours, salts) = (binary::own_path()?, salt(parsed)?);
    let cx = context(Opts::new(setup::loaded(parsed, true)?.opts));
    let call = arguments(parsed, &asked);
    let of_salt = returns(&cx, parsed, &[salts.display().to_string()], &call)?;
    let ours = [ours.display().to_string(), "salt-call".to_owned()];
    let of_pinch = returns(&cx, parsed, &ours, &call)?;
    let differences = differences(&of_salt, &of_pinch);
    let states = of_salt.len().max(of_pinch.len());
    binary::put(&match parsed.text("format") {
        Some("json") => as_json(states, &differences),
        _ => as_markdown(states, &differences),
    });
    Ok(if differences.is_empty() {
        Exit::Ok
    } else {
        Exit::Generic
    }
    .into())
}

/// Returns a context of this machine that needs no master.
fn context(opts: Opts) -> Exec {
    let sources = Box::new(Roots::states(&opts));
    Exec::new(
        opts,
        crate::uplink::registry(),
        sources,
        Box::new(ThisMachine),
    )
}

/// Returns the path of Salt's own `salt-call`: that of `--salt`, or the first one in `PATH` that is
/// not this program.
fn salt(parsed: &Parsed) -> Result<PathBuf, Failure> {
    let own = binary::own_path()?.canonicalize().ok();
    let is_other = |path: &Path| path.is_file() && path.canonicalize().ok() != own;
    let hint =
        "set its path with --salt=PROGRAM, for example bin/salt-call of a virtual environment";
    if let Some(given) = parsed.text("salt") {
        let path = PathBuf::from(given);
        let error = format!("{given} is not a file, or is Pinch itself");
        return match is_other(&path) {
            true => Ok(path),
            false => Err(Failure::new(Exit::Usage, error).hints([hint.to_owned()])),
        };
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|folder| folder.join("salt-call"));
    found
        .into_iter()
        .find(|path| is_other(path))
        .ok_or_else(|| {
            let error = "no salt-call of Salt found in PATH";
            Failure::new(Exit::Unavailable, error).hints([hint.to_owned()])
        })
}

/// Returns the arguments that both programs are called with.
fn arguments(parsed: &Parsed, asked: &StateSelection) -> Vec<String> {
    let mut all = vec![
        "--local".to_owned(),
        "--out=json".to_owned(),
        "--log-level=quiet".to_owned(),
        format!("--config-dir={}", setup::config_dir(parsed).display()),
    ];
    for (word, option) in [
        ("file_root", "--file-root"),
        ("pillar_root", "--pillar-root"),
    ] {
        all.extend(
            parsed
                .all(word)
                .map(|folder| format!("{option}={}", setup::absolute(folder))),
        );
    }
    match asked {
        StateSelection::Highstate => all.push("state.highstate".to_owned()),
        StateSelection::Sls(names) => all.extend(["state.sls".to_owned(), names.join(",")]),
    }
    all.push("test=True".to_owned());
    all
}

/// Runs a program and returns the returns that it prints, by tag.
fn returns(
    cx: &Exec,
    parsed: &Parsed,
    program: &[String],
    call: &[String],
) -> Result<Map, Failure> {
    let seconds = parsed.get("timeout").and_then(Value::as_int);
    let seconds = seconds.unwrap_or(SECONDS);
    let words = program.iter().chain(call).cloned();
    let process = Process {
        timeout: Some(seconds.into()),
        reset_system_locale: false,
        ..Process::words(words).quiet()
    };
    let shown = program.join(" ");
    let failed = |what: String| Failure::new(Exit::Generic, format!("{shown} {what}"));
    let output = process
        .run(cx)
        .map_err(|error| failed(format!("cannot be run: {error}")))?;
    if output.timed_out {
        return Err(failed(format!("timed out after {seconds} s"))
            .hints(["use a longer --timeout=SECONDS".to_owned()]));
    }
    let local = json::read(output.stdout_regardless()).ok();
    let local = local.as_ref().and_then(|data| data.get("local"));
    match local {
        Some(Value::Map(returns)) => Ok(returns.clone()),
        Some(refused) => Err(failed(format!("returned an error: {}", refused.to_text()))),
        None => Err(failed(format!(
            "printed no JSON result: {} {}",
            output.stdout_regardless(),
            output.stderr
        ))),
    }
}

/// A difference between the results of Salt and Pinch for one state.
#[derive(Clone, Debug, PartialEq)]
struct Difference {
    tag: String,
    field: &'static str,
    salt: Value,
    pinch: Value,
}

fn differences(salt: &Map, pinch: &Map) -> Vec<Difference> {
    let tags: BTreeSet<String> = salt
        .keys()
        .chain(pinch.keys())
        .map(Value::to_text)
        .collect();
    let mut all = Vec::new();
    for tag in tags {
        let (one, other) = (salt.get(&tag), pinch.get(&tag));
        if one.is_none() || other.is_none() {
            let there = |ret: Option<&Value>| ret.is_some().into();
            let (salt, pinch, field) = (there(one), there(other), "in the run");
            all.push(Difference {
                tag,
                field,
                salt,
                pinch,
            });
            continue;
        }
        for field in COMPARED {
            let of = |ret: Option<&Value>| {
                ret.and_then(|ret| ret.get(field))
                    .cloned()
                    .unwrap_or_default()
            };
            let (salt, pinch) = (of(one), of(other));
            if salt != pinch {
                let tag = tag.clone();
                all.push(Difference {
                    tag,
                    field,
                    salt,
                    pinch,
                });
            }
        }
    }
    all
}

fn as_markdown(states: usize, differences: &[Difference]) -> String {
    let tags: BTreeSet<&str> = differences.iter().map(|one| one.tag.as_str()).collect();
    let mut out = format!(
        "{states} states compared with test=True, {} differ\n",
        tags.len()
    );
    let mut last = "";
    for one in differences {
        if one.tag != last {
            let parts: Vec<&str> = one.tag.split("_|-").collect();
            let shown = match parts.as_slice() {
                [state, id, _, fun] => format!("{state}.{fun} `{id}`"),
                _ => one.tag.clone(),
            };
            out.push_str(&format!("\n## {shown}\n"));
            last = &one.tag;
        }
        out.push_str(&format!("\n{}:\n", one.field));
        for (who, value) in [("Salt ", &one.salt), ("Pinch", &one.pinch)] {
            let text = value.to_text().replace('\n', "\n           ");
            out.push_str(&format!("    {who}  {text}\n"));
        }
    }
    out
}

fn as_json(states: usize, differences: &[Difference]) -> String {
    let one = |one: &Difference| -> Value {
        Map::new()
            .with("tag", one.tag.as_str())
            .with("field", one.field)
            .with("salt", one.salt.clone())
            .with("pinch", one.pinch.clone())
            .into()
    };
    let all = Map::new()
        .with("version", 1)
        .with("states", states)
        .with("differences", Value::list(differences.iter().map(one)));
    let layout = Layout {
        indent: Some(4),
        ..Layout::default()
    };
    format!("{}\n", json::write(&all.into(), layout))
}
