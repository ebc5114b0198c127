//! `docs DIR`: writes the man pages and the completions of the program and of its applets into
//! DIR/pinch and, for builds with a master, DIR/pinch-master, from the tables that the parser reads.
//! It is an example, so that the program itself does not contain it; `packaging/build` runs it.
#![allow(
    clippy::disallowed_methods,
    reason = "pages are written into a folder of their own, not on a machine that is managed"
)]

use std::io::{Error, ErrorKind};
use std::path::Path;

use cli::binary::{AGENT, Binary, WITH_MASTER};
use cli::options::Program;

mod bash;
mod fish;
mod man;
mod zsh;

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder] = words.as_slice() else {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            "expected one argument: the output folder",
        ));
    };
    let folder = Path::new(folder);
    write(&AGENT, &folder.join("pinch"))?;
    write(&WITH_MASTER, &folder.join("pinch-master"))
}

fn write(binary: &Binary, folder: &Path) -> std::io::Result<()> {
    let name = binary.name;
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join(format!("{name}.1")), man::binary(binary))?;
    for applet in binary.applets {
        let page = folder.join(format!("{name}-{}.1", applet.name));
        std::fs::write(page, man::applet(binary, applet))?;
    }
    std::fs::write(folder.join(format!("{name}.bash")), bash::script(binary))?;
    std::fs::write(folder.join(format!("{name}.fish")), fish::script(binary))?;
    std::fs::write(folder.join(format!("_{name}")), zsh::script(binary))
}

/// Returns the option tables of the binary's applets and commands.
fn tables(binary: &Binary) -> impl Iterator<Item = &'static Program> {
    binary.applets.iter().chain(binary.tables)
}

/// Returns the words that can follow the binary's name, each with a one-line description.
fn words(binary: &Binary) -> impl Iterator<Item = (&'static str, &'static str)> {
    let applets = binary
        .applets
        .iter()
        .map(|applet| (applet.name, applet.about));
    let commands = binary
        .commands()
        .flat_map(|command| command.word.split(", ").map(|word| (word, command.help)));
    applets.chain(commands)
}

/// Returns the name of the shell function for a word.
fn function(name: &str) -> String {
    format!("_{}", name.replace('-', "_"))
}

/// Returns the name of the shell function for an applet. It contains the binary's name, so that it
/// does not clash with another program's completion.
fn function_of(binary: &Binary, applet: &Program) -> String {
    function(&format!("{} {}", binary.name, applet.name)).replace(' ', "_")
}
