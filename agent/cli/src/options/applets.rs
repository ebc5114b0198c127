//! What `pinch` can be called as, and what it can be asked for itself.

use super::{Program, SALT_CALL, SALT_MINION};

/// The applets: their names are Salt's.
pub const APPLETS: &[Program] = &[SALT_CALL, SALT_MINION];

/// Something that `pinch` does itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its word; an option may have two.
    pub word: &'static str,
    /// What follows it.
    pub takes: &'static str,
    /// One line about it.
    pub help: &'static str,
}

const fn command(word: &'static str, takes: &'static str, help: &'static str) -> Command {
    Command { word, takes, help }
}

/// What `pinch` does itself.
pub const COMMANDS: &[Command] = &[
    command(
        "install-links",
        "DIR",
        "make a link for each applet in DIR, so that it is called by its own name",
    ),
    command(
        "install-python",
        "DIR",
        "put a package salt in DIR, so that Python programs can import salt.client, salt.config and salt.output",
    ),
    command(
        "answer",
        "",
        "answer the lines of JSON that this package writes",
    ),
    command("--version", "", "the version"),
    command("--versions-report, -V", "", "what it is made of"),
    command("--help, -h", "", "this help"),
];

/// What `pinch --help` prints.
#[must_use]
pub fn usage() -> String {
    let mut out = "Usage: pinch APPLET [ARGUMENTS…]\n".to_owned();
    for command in COMMANDS.iter().filter(|command| !command.takes.is_empty()) {
        out.push_str(&format!(
            "       pinch {} {}\n",
            command.word, command.takes
        ));
    }
    out.push_str("\nApplets:\n");
    for applet in APPLETS {
        out.push_str(&line(applet.name, &applet.brief()));
    }
    out.push_str("Commands:\n");
    for command in COMMANDS {
        let words = format!("{} {}", command.word, command.takes);
        out.push_str(&line(&words, command.help));
    }
    out.push_str("\n`pinch salt-call --help` tells the options of an applet.\n");
    out
}

fn line(words: &str, help: &str) -> String {
    format!("  {words:<20}{help}\n")
}
