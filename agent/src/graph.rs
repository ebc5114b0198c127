//! `pinch graph`: draws the plan of a run.
#![expect(
    clippy::disallowed_methods,
    reason = "a picture is no part of the machine's state"
)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use cli::binary;
use cli::failure::{Exit, Failure};
use cli::options::{GRAPH, Parsed};
use graph::{Edge, Graph, Node, Outcome};
use machine::process::{Process, which};
use state::compile::Plan;
use state::exec::Exec;
use state::low::{LowChunk, RequisiteKind};
use state::record::Recorded;
use value::{Map, Value, secret};

use crate::selection::{self, StateSelection};
use crate::{runs, setup};

/// A function that returns a graph as the text of a picture.
type Write = fn(&Graph) -> String;

/// A file format for pictures.
struct Format {
    /// The extension of the file's name.
    name: &'static str,
    write: Write,
    /// True if another program must turn the written text into pixels.
    painted: bool,
}

const fn text(name: &'static str, write: Write) -> Format {
    Format {
        name,
        write,
        painted: false,
    }
}

const FORMATS: [Format; 4] = [
    text("svg", graph::svg),
    text("dot", graph::dot),
    text("mmd", graph::mermaid),
    Format {
        name: "png",
        write: graph::svg,
        painted: true,
    },
];

/// The program that turns an SVG into pixels. It belongs to librsvg, which every distribution has.
/// Text in pixels needs fonts, and a small binary cannot contain them.
const PAINTER: &str = "rsvg-convert";
/// The maximum run time of [`PAINTER`], in seconds. A graph of ten thousand states takes a while.
const PAINTER_SECONDS: i64 = 120;

/// Runs `pinch graph` with the arguments `words`.
///
/// # Errors
/// If the command line, the configuration or the tree is wrong, the run has no record, or the file
/// cannot be written.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Failure> {
    setup::run(&GRAPH, words, drawn)
}

fn drawn(parsed: &Parsed) -> Result<ExitCode, Failure> {
    let format = format(parsed)?;
    let nothing = || {
        let error = "graph needs highstate or SLS names: pinch graph highstate";
        Failure::new(Exit::Usage, error)
    };
    if parsed.words.is_empty() && !parsed.has("run") {
        return Err(nothing());
    }
    let cx = selection::context(parsed)?;
    let run = parsed
        .text("run")
        .map(|word| runs::recorded(cx.opts(), word))
        .transpose()?;
    let (jid, run) = run.unzip();
    let asked = StateSelection::parse(&parsed.words).or_else(|| asked_of(run.as_ref()?));
    let asked = asked.ok_or_else(nothing)?;
    let plan = asked.plan(&cx)?;
    if plan.chunks().is_empty() {
        let error = format!("{} has no states to draw", asked.title());
        return Err(Failure::new(Exit::Generic, error));
    }
    let run = run.map(|run| run.of_plan(&plan));
    let title = match jid {
        Some(jid) => format!("run {jid}: {}", asked.title()),
        None => asked.title(),
    };
    let picture = (format.write)(&graph_of(&plan, title, run.as_ref()));
    match parsed.text("output_file") {
        Some(file) if format.painted => painted(&cx, picture, file),
        file => put(file, &picture),
    }
}

/// Returns the format of the picture: that of `--format`, or else that of the file's extension, or
/// else `dot`.
fn format(parsed: &Parsed) -> Result<&'static Format, Failure> {
    let end = parsed.text("output_file").map(|file| {
        let end = Path::new(file).extension().unwrap_or_default();
        end.to_string_lossy().into_owned()
    });
    let name = match (parsed.text("format"), &end) {
        (Some(name), _) => name,
        (None, Some(end)) => end,
        (None, None) => "dot",
    };
    let found = FORMATS.iter().find(|known| known.name == name);
    found.ok_or_else(|| {
        let error = format!(
            "unknown picture format '{name}': use a file name that ends in .svg, .png, .dot or .mmd"
        );
        Failure::new(Exit::Usage, error)
    })
}

fn put(file: Option<&str>, picture: &str) -> Result<ExitCode, Failure> {
    let Some(file) = file else {
        return Ok(binary::put(picture));
    };
    let written = std::fs::write(file, picture);
    written
        .map_err(|error| Failure::new(Exit::CantCreate, format!("cannot write {file}: {error}")))?;
    Ok(Exit::Ok.into())
}

/// Runs [`PAINTER`] to turn an SVG into a file of pixels.
fn painted(cx: &Exec, svg: String, file: &str) -> Result<ExitCode, Failure> {
    if which(PAINTER).is_none() {
        let error = format!("{file}: a .png needs {PAINTER}, which is not installed");
        let hint = "install librsvg (Debian: librsvg2-bin; Alpine: rsvg-convert), or use a file name that ends in .svg";
        return Err(Failure::new(Exit::Unavailable, error).hints([hint.to_owned()]));
    }
    let failed = |why: String| Failure::new(Exit::CantCreate, format!("{file}: {PAINTER}: {why}"));
    // The program's working directory is its user's home, so it needs an absolute path.
    let whole = std::path::absolute(file).map_err(|error| failed(error.to_string()))?;
    let output = format!("--output={}", whole.display());
    let painter = Process {
        stdin: Some(svg),
        timeout: Some(PAINTER_SECONDS.into()),
        ..Process::words([PAINTER, "--format=png", &output]).quiet()
    };
    let output = painter.run(cx).map_err(|error| failed(error.to_string()))?;
    if output.timed_out {
        return Err(failed(format!("timed out after {PAINTER_SECONDS} s")));
    }
    if !output.success() {
        return Err(failed(output.stderr));
    }
    Ok(Exit::Ok.into())
}

/// Returns the states that a recorded run was called with. If the record does not contain them,
/// returns the SLS names in its returns.
fn asked_of(run: &Recorded) -> Option<StateSelection> {
    let mods = run.start.get("args").and_then(|args| args.get("mods"));
    if let Some(mods) = mods {
        return StateSelection::parse(&mods.split_input());
    }
    let mut names: Vec<String> = Vec::new();
    for (_, ret) in &run.returns {
        let sls = ret.get("__sls__").and_then(Value::as_str);
        if let Some(sls) = sls.filter(|sls| !sls.is_empty())
            && !names.iter().any(|known| known == sls)
        {
            names.push(sls.to_owned());
        }
    }
    (!names.is_empty()).then_some(StateSelection::Sls(names))
}

fn graph_of(plan: &Plan, title: String, run: Option<&Recorded>) -> Graph {
    let chunks = plan.chunks();
    let nodes = chunks.iter().map(|low| node(low, run));
    let mut edges = BTreeSet::new();
    for (index, low) in chunks.iter().enumerate() {
        for requisite in &low.requisites {
            for &other in requisite.chunks.iter().filter(|other| **other != index) {
                // A state with `prereq` or `compensate` runs before the state that it names.
                let (from, to) = match requisite.kind {
                    RequisiteKind::Prereq | RequisiteKind::Compensate => (index, other),
                    _ => (other, index),
                };
                let kind = requisite.kind.word();
                edges.insert(Edge { from, to, kind });
            }
        }
    }
    Graph {
        title,
        nodes: nodes.collect(),
        edges: edges.into_iter().collect(),
    }
}

fn node(low: &LowChunk, run: Option<&Recorded>) -> Node {
    Node {
        id: secret::text(&low.id).into_owned(),
        name: secret::text(&low.name).into_owned(),
        module: low.state.clone(),
        function: low.fun.clone(),
        group: low.sls.clone(),
        outcome: run.map(|run| outcome(run.returns.get(&low.tag()).and_then(Value::as_map))),
    }
}

fn outcome(ret: Option<&Map>) -> Outcome {
    let Some(ret) = ret else {
        return Outcome::Unknown;
    };
    let changed = ret.get("changes").is_some_and(Value::is_true);
    let ran = ret.get("__state_ran__").is_none_or(Value::is_true);
    match ret.get("result") {
        Some(Value::Bool(false)) => Outcome::Failed,
        Some(Value::Null) => Outcome::Would,
        _ if changed => Outcome::Changed,
        _ if !ran => Outcome::Skipped,
        _ => Outcome::Ok,
    }
}
