//! `docs DIR`: writes the man pages and the completions of `pinch` and of its applets into DIR, made of the tables that the
//! parser reads. An example, so that the program itself does not carry them; `packaging/build` runs it.
#![allow(
    clippy::disallowed_methods,
    reason = "pages are written into a folder of their own, not on a machine that is managed"
)]

use std::io::{Error, ErrorKind};
use std::path::Path;

use cli::options::{APPLETS, COMMANDS};

mod bash;
mod fish;
mod man;
mod zsh;

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder] = words.as_slice() else {
        return Err(Error::new(ErrorKind::InvalidInput, "say in which folder"));
    };
    let folder = Path::new(folder);
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("pinch.1"), man::pinch())?;
    for applet in APPLETS {
        let page = folder.join(format!("pinch-{}.1", applet.name));
        std::fs::write(page, man::applet(applet))?;
    }
    std::fs::write(folder.join("pinch.bash"), bash::script())?;
    std::fs::write(folder.join("pinch.fish"), fish::script())?;
    std::fs::write(folder.join("_pinch"), zsh::script())
}

/// The words that may follow `pinch`, each with a line about it.
fn words() -> impl Iterator<Item = (&'static str, &'static str)> {
    let applets = APPLETS.iter().map(|applet| (applet.name, applet.about));
    let commands = COMMANDS
        .iter()
        .flat_map(|command| command.word.split(", ").map(|word| (word, command.help)));
    applets.chain(commands)
}
