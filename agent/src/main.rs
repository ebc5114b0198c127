//! `pinch`: one binary for several applets, chosen by the name that it is called by. This file and
//! its submodules only wire the crates together.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests make what they need in folders of their own"
    )
)]

use std::path::Path;
use std::process::ExitCode;

use cli::binary::{self, PINCH};
use cli::failure::{Exit, Failure};
use cli::heap::Heap;
use machine::process;

mod answer;
mod call;
mod doctor;
mod explain;
#[cfg(feature = "tree-tools")]
mod graph;
#[cfg(feature = "tree-tools")]
mod lint;
#[cfg(feature = "tree-tools")]
mod migrate;
#[cfg(feature = "daemon")]
mod minion;
mod plan;
mod runs;
#[cfg(feature = "tree-tools")]
mod selection;
mod setup;
mod undo;
#[cfg(feature = "daemon")]
mod uplink;
#[cfg(not(feature = "daemon"))]
#[path = "no_uplink.rs"]
mod uplink;

#[global_allocator]
static HEAP: Heap = Heap;

fn main() -> ExitCode {
    let (called_as, words) = binary::called();
    if words == [process::BECOME] && applet(&called_as).is_none() {
        let error = process::become_user();
        return Failure::new(Exit::Software, error).report();
    }
    process::set_own_program(binary::own_program);
    let outcome = match (applet(&called_as), words.split_first()) {
        (Some(applet), _) => applet(words),
        (None, Some((word, rest))) if let Some(applet) = applet(word) => applet(rest.to_vec()),
        #[cfg(feature = "daemon")]
        (None, Some((word, rest))) if word == minion::JOB => minion::job(rest),
        (None, Some((word, rest))) if word == "install-python" => install_python(rest),
        (None, Some((word, rest))) if word == "explain" => explain::run(rest),
        #[cfg(feature = "tree-tools")]
        (None, Some((word, rest))) if word == "lint" => lint::run(rest),
        #[cfg(feature = "tree-tools")]
        (None, Some((word, rest))) if word == "graph" => graph::run(rest),
        (None, Some((word, rest))) if word == "doctor" => doctor::run(rest),
        #[cfg(feature = "tree-tools")]
        (None, Some((word, rest))) if word == "migrate" => migrate::run(rest),
        (None, Some((word, rest))) if word == "plan" => plan::plan(rest),
        (None, Some((word, rest))) if word == "apply" => plan::apply(rest),
        (None, Some((word, rest))) if word == "runs" => runs::run(rest),
        (None, Some((word, rest))) if word == "undo" => undo::run(rest),
        (None, Some((word, []))) if word == "answer" => answer::run(),
        _ => PINCH.itself(&words),
    };
    outcome.unwrap_or_else(|failure| failure.report())
}

/// A function that runs an applet with the given arguments.
type Applet = fn(Vec<String>) -> Result<ExitCode, Failure>;

/// Returns the applet with one of Salt's names.
fn applet(name: &str) -> Option<Applet> {
    match name {
        "salt-call" => Some(call::run),
        #[cfg(feature = "daemon")]
        "salt-minion" => Some(minion::run),
        _ => of_master(name),
    }
}

/// Returns the applet of the master with one of Salt's names.
#[cfg(feature = "master")]
fn of_master(name: &str) -> Option<Applet> {
    master::applet(name)
}

/// This build has no master.
#[cfg(not(feature = "master"))]
fn of_master(_name: &str) -> Option<Applet> {
    None
}

/// Writes the Python package `salt` into a folder of Python's path. This program answers the
/// package's function calls.
fn install_python(words: &[String]) -> Result<ExitCode, Failure> {
    let [folder] = words else {
        return Err(Failure::new(
            Exit::Usage,
            "install-python needs exactly one folder: pinch install-python DIR",
        ));
    };
    modules::loader::custom::install(Path::new(folder), &binary::own_path()?)
        .map_err(|error| Failure::new(Exit::CantCreate, error))?;
    Ok(Exit::Ok.into())
}
