//! `pinch schema`: prints the JSON schemas of SLS files and of the program's JSON outputs.

use std::process::ExitCode;

use cli::binary;
use cli::failure::{Exit, Failure};
use cli::options::{Parsed, SCHEMA};
use value::hint::nearest;
use value::json::{self, Layout};

use crate::setup;

/// A schema of an output: its name, the output, and its text.
type Row = (&'static str, &'static str, &'static str);

/// The name of the schema of SLS files, which is made from the declarations.
const SLS: (&str, &str) = ("sls", "SLS files without templates");

/// The schemas of outputs.
const OUTPUTS: [Row; 9] = [
    (
        "doctor",
        "pinch doctor --out=json",
        include_str!("../../packaging/schemas/doctor.schema.json"),
    ),
    (
        "lint",
        "pinch lint --format=json",
        include_str!("../../packaging/schemas/lint.schema.json"),
    ),
    (
        "migrate-compare",
        "pinch migrate compare --format=json",
        include_str!("../../packaging/schemas/migrate-compare.schema.json"),
    ),
    (
        "migrate-report",
        "pinch migrate report --format=json",
        include_str!("../../packaging/schemas/migrate-report.schema.json"),
    ),
    (
        "ndjson",
        "one line of salt-call --out=ndjson: the progress of a run",
        include_str!("../../packaging/schemas/ndjson.schema.json"),
    ),
    (
        "plan",
        "pinch plan --out=json, and a plan file",
        include_str!("../../packaging/schemas/plan.schema.json"),
    ),
    (
        "runs-diff",
        "pinch runs diff --out=json",
        include_str!("../../packaging/schemas/runs-diff.schema.json"),
    ),
    (
        "runs-list",
        "pinch runs list --out=json",
        include_str!("../../packaging/schemas/runs-list.schema.json"),
    ),
    (
        "undo",
        "pinch undo --dry-run --out=json",
        include_str!("../../packaging/schemas/undo.schema.json"),
    ),
];

/// Runs `pinch schema` with the arguments `words`.
///
/// # Errors
/// If the command line is wrong, or there is no schema of this name.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Failure> {
    setup::run(&SCHEMA, words, printed)
}

fn printed(parsed: &Parsed) -> Result<ExitCode, Failure> {
    match parsed.words.as_slice() {
        [] => Ok(binary::put(&listed())),
        [name] if name == SLS.0 => {
            let layout = Layout {
                indent: Some(1),
                ..Layout::default()
            };
            let schema = lsp::schema(crate::uplink::registry());
            Ok(binary::put(&(json::write(&schema, layout) + "\n")))
        }
        [name] => match OUTPUTS.iter().find(|(known, ..)| known == name) {
            Some((_, _, text)) => Ok(binary::put(text)),
            None => Err(unknown(name)),
        },
        _ => Err(Failure::new(Exit::Usage, "expected at most one name")),
    }
}

/// Returns the names of all schemas, each with what it describes.
fn listed() -> String {
    let outputs = OUTPUTS.iter().map(|(name, what, _)| (*name, *what));
    let all = std::iter::once(SLS).chain(outputs);
    all.map(|(name, what)| format!("{name:<16} {what}\n"))
        .collect()
}

fn unknown(name: &str) -> Failure {
    let names = OUTPUTS.iter().map(|(name, ..)| *name).chain([SLS.0]);
    let meant = nearest(name, names).map(|meant| format!("did you mean '{meant}'?"));
    let hint = meant.unwrap_or_else(|| "pinch schema lists all names".to_owned());
    Failure::new(Exit::Usage, format!("unknown schema '{name}'")).hints([hint])
}
