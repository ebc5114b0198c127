//! The page of the program and its options, from the tables of the command line.

use cli::binary::{AGENT, WITH_MASTER};
use cli::options::{Flag, Program, Takes};

use super::{cell, code, escaped, head};

/// Returns the page.
pub(super) fn page() -> String {
    let binary = &WITH_MASTER;
    let about = format!(
        "{} To run an applet, call the program through a link with the applet's name (`{} install-links DIR` makes \
         links), or with that name as the first argument.",
        escaped(binary.description),
        binary.name
    );
    let mut page = head("Commands", &about);
    page += "\n| command | task |\n|---|---|\n";
    for applet in binary.applets {
        let mut about = applet.about.to_owned();
        if !AGENT.applets.contains(applet) {
            about += " Only in builds with a master.";
        }
        page += &row(applet.name, &about);
    }
    for command in binary.commands {
        page += &row(command.name, &sentence(&command.brief()));
    }
    page += "\n| file | contents |\n|---|---|\n";
    for (path, about) in binary.files {
        page += &row(path, about);
    }
    for table in binary.tables() {
        page += &options(table.name, table);
    }
    page
}

/// Returns a part of a sentence as a sentence.
fn sentence(part: &str) -> String {
    let mut letters = part.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

/// Returns the section about an applet or a command.
fn options(called: &str, table: &Program) -> String {
    let (name, about) = (code(called), escaped(table.about));
    let mut text = format!(
        "\n## {name}\n\n{about}\n\n    {}\n",
        format!("{called} {}", table.usage).trim_end()
    );
    let mut title = "";
    for group in table.groups {
        if group.title != title {
            title = group.title;
            text += &format!("\n| {} | meaning |\n|---|---|\n", cell(&escaped(title)));
        }
        for flag in group.flags {
            text += &row(&flag.names(), &help(flag));
        }
    }
    text
}

/// Returns the help of an option, with the words that it accepts.
fn help(flag: &Flag) -> String {
    match flag.takes {
        Takes::Choice(name, words) if !words.iter().all(|word| flag.help.contains(word)) => {
            format!("{} ({name}: {})", flag.help, words.join(", "))
        }
        _ => flag.help.to_owned(),
    }
}

fn row(words: &str, help: &str) -> String {
    format!("| {} | {} |\n", cell(&code(words)), cell(&escaped(help)))
}
