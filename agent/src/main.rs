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
use cli::options::{
    ANSWER, COMPLETION, HELP_COMMAND, INSTALL_LINKS, INSTALL_PYTHON, Parsed, VERSION,
};
use machine::process;

mod answer;
mod call;
#[cfg(feature = "cloud")]
mod clouds;
mod confirm;
mod doctor;
mod explain;
#[cfg(feature = "tree-tools")]
mod graph;
mod init;
#[cfg(feature = "daemon")]
mod interrupt;
#[cfg(feature = "tree-tools")]
mod lint;
#[cfg(feature = "lsp")]
mod lsp;
#[cfg(feature = "tree-tools")]
mod migrate;
#[cfg(feature = "daemon")]
mod minion;
mod plan;
mod runs;
#[cfg(feature = "lsp")]
mod schema;
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
    #[cfg(feature = "daemon")]
    if let Some(socket) = std::env::var_os(ssh::askpass::SOCKET) {
        let answered = ssh::askpass::run(socket, &words);
        return answered.unwrap_or_else(|failure| failure.report());
    }
    if let Ok(passphrase) = std::env::var(modules::git::passphrase::VARIABLE) {
        return modules::git::passphrase::answer(&passphrase, &words);
    }
    if words == [process::BECOME] && applet(&called_as).is_none() {
        let error = process::become_user();
        return Failure::new(Exit::Software, error).report();
    }
    process::set_own_program(binary::own_program);
    #[cfg(feature = "cloud")]
    modules::exec::cloud::serve(cloud::answer);
    #[cfg(feature = "master")]
    modules::loader::custom::carry(master::PYTHON_PACKAGE);
    let outcome = match (applet(&called_as), words.split_first()) {
        (Some(applet), _) => applet(words),
        (None, Some((word, rest))) if let Some(applet) = applet(word) => applet(rest.to_vec()),
        #[cfg(feature = "daemon")]
        (None, Some((word, rest))) if word == minion::JOB => minion::job(rest),
        #[cfg(feature = "daemon")]
        (None, Some((word, rest))) if word == ssh::session::APPLET => {
            ssh::applet::job(rest, minion::JOB)
        }
        (None, Some((word, rest))) if let Some(command) = command(word) => command(rest),
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
        #[cfg(feature = "daemon")]
        "salt-ssh" => Some(ssh::applet::run),
        #[cfg(feature = "cloud")]
        "salt-cloud" => Some(clouds::run),
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

/// A function that runs a command of the program itself with the given arguments.
type Command = fn(&[String]) -> Result<ExitCode, Failure>;

/// The commands of [`PINCH`], by their words.
const COMMANDS: &[(&str, Command)] = &[
    ("answer", |words| {
        setup::run(&ANSWER, words, |_| answer::run())
    }),
    ("apply", plan::apply),
    #[cfg(feature = "master")]
    ("backup", master::backup),
    ("completion", |words| {
        setup::run(&COMPLETION, words, |parsed| PINCH.completion(&parsed.words))
    }),
    ("doctor", doctor::run),
    ("explain", explain::run),
    #[cfg(feature = "tree-tools")]
    ("graph", graph::run),
    ("help", |words| {
        setup::run(&HELP_COMMAND, words, |parsed| PINCH.help(&parsed.words))
    }),
    ("init", init::run),
    ("install-links", |words| {
        setup::run(&INSTALL_LINKS, words, |parsed| {
            PINCH.install_links(&parsed.words)
        })
    }),
    ("install-python", |words| {
        setup::run(&INSTALL_PYTHON, words, install_python)
    }),
    #[cfg(feature = "tree-tools")]
    ("lint", lint::run),
    #[cfg(feature = "lsp")]
    ("lsp", lsp::run),
    #[cfg(feature = "tree-tools")]
    ("migrate", migrate::run),
    ("plan", plan::plan),
    #[cfg(feature = "master")]
    ("restore", master::restore),
    ("runs", runs::run),
    #[cfg(feature = "lsp")]
    ("schema", schema::run),
    ("undo", undo::run),
    ("version", |words| {
        setup::run(&VERSION, words, |_| Ok(PINCH.print_version()))
    }),
];

/// Returns the command with this word.
fn command(word: &str) -> Option<Command> {
    let found = COMMANDS.iter().find(|(known, _)| *known == word);
    found.map(|(_, command)| *command)
}

/// Writes the Python package `salt` into a folder of Python's path. This program answers the
/// package's function calls.
fn install_python(parsed: &Parsed) -> Result<ExitCode, Failure> {
    let [folder] = parsed.words.as_slice() else {
        return Err(Failure::new(
            Exit::Usage,
            "install-python needs exactly one folder: pinch install-python DIR",
        ));
    };
    modules::loader::custom::install(Path::new(folder), &binary::own_path()?)
        .map_err(|error| Failure::new(Exit::CantCreate, error))?;
    Ok(Exit::Ok.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_of_the_help_runs_and_has_a_help() {
        let mut listed: Vec<&str> = PINCH.commands.iter().map(|table| table.word()).collect();
        listed.sort_unstable();
        let known: Vec<&str> = COMMANDS.iter().map(|(word, _)| *word).collect();
        assert_eq!(listed, known);
        for table in PINCH.commands {
            assert!(
                table.flags().any(|flag| flag.dest == "help"),
                "{}",
                table.name
            );
            let usage = format!("Usage: pinch {}", table.word());
            assert!(table.help().starts_with(&usage), "{}", table.help());
        }
    }
}
