//! Completion scripts for shells, made from the option tables.

mod bash;
mod fish;
mod zsh;

use crate::binary::Binary;
use crate::options::Program;

/// The shells that have a script.
pub const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// Returns the script for a shell of [`SHELLS`]; it completes a binary, its commands and its
/// applets.
#[must_use]
pub fn script(shell: &str, binary: &Binary) -> Option<String> {
    Some(match shell {
        "bash" => bash::script(binary),
        "zsh" => zsh::script(binary),
        "fish" => fish::script(binary),
        _ => return None,
    })
}

/// Returns the words that can follow the binary's name, each with a one-line description.
fn words(binary: &Binary) -> impl Iterator<Item = (String, String)> {
    let tables = binary
        .tables()
        .map(|table| (table.word().to_owned(), table.brief()));
    let options = binary.options();
    let options = options.flat_map(|flag| {
        let names = flag.words().into_iter();
        names.map(|name| (name, flag.help.to_owned()))
    });
    tables.chain(options)
}

/// Returns the name of the shell function for a word.
fn function(name: &str) -> String {
    format!("_{}", name.replace('-', "_"))
}

/// Returns the name of the shell function for an applet or a command. It contains the binary's
/// name, so that it does not clash with another program's completion.
fn function_of(binary: &Binary, table: &Program) -> String {
    function(&format!("{} {}", binary.name, table.word())).replace(' ', "_")
}
