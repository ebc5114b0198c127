//! The page of the programs and their options, from the tables of the command line.

use cli::binary::{Binary, WITH_MASTER};
use cli::options::{Flag, Program, Takes};

use super::{cell, code, escaped, head};

/// Returns the page.
pub(super) fn page() -> String {
    let about = "The program, its applets and commands, and all options. An applet runs if the program is called through a \
                 link with its name (`pinch install-links DIR` makes links) or with that name as the first argument. Builds \
                 without a master have only the applets salt-call and salt-minion.";
    head("Commands", about) + &described(&WITH_MASTER)
}

fn described(binary: &Binary) -> String {
    let (name, about) = (code(binary.name), escaped(binary.description));
    let mut text = format!("\n## {name}\n\n{about}\n\n| command | task |\n|---|---|\n");
    for applet in binary.applets {
        text += &row(applet.name, applet.about);
    }
    for command in binary.commands() {
        let words = format!("{} {}", command.word, command.takes);
        text += &row(words.trim_end(), command.help);
    }
    text += "\n| file | task |\n|---|---|\n";
    for (path, about) in binary.files {
        text += &row(path, about);
    }
    for table in super::super::tables(binary) {
        let called = match binary.applets.contains(table) {
            true => table.name.to_owned(),
            false => format!("{} {}", binary.name, table.name),
        };
        text += &options(&called, table);
    }
    text
}

/// Returns the section about an applet, or a command that has options.
fn options(called: &str, table: &Program) -> String {
    let (name, about) = (code(called), escaped(table.about));
    let mut text = format!("\n### {name}\n\n{about}\n\n    {called} {}\n", table.usage);
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
