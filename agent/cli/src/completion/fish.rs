//! Writes the completion for fish: one file for a binary and its applets.

use crate::binary::Binary;
use crate::options::{Flag, Takes};

/// Returns the completion script.
pub(super) fn script(binary: &Binary) -> String {
    let own = binary.name;
    let mut out =
        format!("# fish completion for {own} and its applets; generated from its option tables\n");
    for (word, help) in super::words(binary) {
        let help = quoted(&help);
        out.push_str(&format!(
            "complete -c {own} -n __fish_use_subcommand -f -a {word} -d {help}\n"
        ));
    }
    for applet in binary.tables() {
        let name = applet.word();
        let is_called = binary.applets.contains(applet);
        for flag in applet.flags() {
            let option = option(flag);
            if is_called {
                out.push_str(&format!("complete -c {name} {option}\n"));
            }
            out.push_str(&format!(
                "complete -c {own} -n '__fish_seen_subcommand_from {name}' {option}\n"
            ));
        }
    }
    out
}

fn option(flag: &Flag) -> String {
    let short = flag.short.map(|short| format!("-s {short}"));
    let long = flag.long.iter().map(|long| format!("-l {long}"));
    let mut words: Vec<String> = short.into_iter().chain(long).collect();
    match flag.takes {
        Takes::Nothing => {}
        Takes::Choice(_, choices) => words.push(format!("-x -a {}", quoted(&choices.join(" ")))),
        Takes::Text("DIR") | Takes::Many("DIR") => {
            words.push("-x -a '(__fish_complete_directories)'".to_owned());
        }
        Takes::Text("FILE") => words.push("-r -F".to_owned()),
        _ => words.push("-x".to_owned()),
    }
    words.push(format!("-d {}", quoted(flag.help)));
    words.join(" ")
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
