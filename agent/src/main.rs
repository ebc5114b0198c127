//! `pinch`: one binary, called by its applet's name. This file and its neighbours only wire the crates together.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests make what they need in folders of their own"
    )
)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cli::failure::{Exit, Failure};
use cli::options::APPLETS;

mod answer;
mod call;
mod heap;
mod links;
mod minion;
mod version;

#[global_allocator]
static HEAP: heap::Heap = heap::Heap;

fn main() -> ExitCode {
    heap::claim();
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    let words: Vec<String> = words.collect();
    let called_as = Path::new(&program)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if let Some(applet) = applet(&called_as) {
        return ended(applet(words));
    }
    match words.split_first() {
        Some((word, rest)) if let Some(applet) = applet(word) => ended(applet(rest.to_vec())),
        Some((command, rest)) if command == minion::JOB => ended(minion::job(rest)),
        Some((command, rest)) if command == "install-links" => ended(links::install(rest)),
        Some((command, rest)) if command == "install-python" => ended(links::install_python(rest)),
        Some((command, [])) if command == "answer" => ended(answer::run()),
        Some((option, _)) if option == "--version" => version::print(false),
        Some((option, _)) if option == "--versions-report" || option == "-V" => {
            version::print(true)
        }
        Some((option, _)) if option == "--help" || option == "-h" => usage(),
        other => ended(Err(unknown(other.map(|(word, _)| word.as_str())))),
    }
}

/// Runs an applet with its words.
type Applet = fn(Vec<String>) -> Result<ExitCode, Failure>;

/// What runs under one of Salt's names.
fn applet(name: &str) -> Option<Applet> {
    match name {
        "salt-call" => Some(call::run),
        "salt-minion" => Some(minion::run),
        _ => None,
    }
}

fn ended(outcome: Result<ExitCode, Failure>) -> ExitCode {
    outcome.unwrap_or_else(|failure| failure.report())
}

fn usage() -> ExitCode {
    version::put(&cli::options::usage())
}

fn unknown(word: Option<&str>) -> Failure {
    let error = match word {
        Some(word) => format!("'{word}' is no applet and no command of pinch"),
        None => "say which applet to run".to_owned(),
    };
    let applets: Vec<&str> = APPLETS.iter().map(|applet| applet.name).collect();
    Failure::new(Exit::Usage, error).hints([format!(
        "the applets are: {}; see pinch --help",
        applets.join(", ")
    )])
}

/// The path of this program itself, for links.
fn own_path() -> std::io::Result<PathBuf> {
    std::env::current_exe()
}
