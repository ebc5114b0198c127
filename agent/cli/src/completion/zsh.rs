//! Writes the completion for zsh: one file for a binary and its applets.

use crate::binary::Binary;
use crate::options::{Flag, Program, Takes};

use super::{function, function_of};

/// Returns the completion script.
pub(super) fn script(binary: &Binary) -> String {
    let (name, own) = (binary.name, function(binary.name));
    let names: Vec<&str> = binary.applets.iter().map(|applet| applet.name).collect();
    let mut out = format!(
        "#compdef {name} {}\n# generated from the option tables of {name}\n",
        names.join(" ")
    );
    for applet in binary.tables() {
        out.push_str(&options(&function_of(binary, applet), applet));
    }
    let words = super::words(binary);
    let words: String = words
        .map(|(word, help)| format!("        {}\n", quoted(&format!("{word}:{help}"))))
        .collect();
    let case = |indent: &str, applet: &Program| {
        let (name, function) = (applet.word(), function_of(binary, applet));
        format!("{indent}{name}) {function} ;;\n")
    };
    let inner: String = binary.tables().map(|one| case("        ", one)).collect();
    let called: String = binary.applets.iter().map(|one| case("", one)).collect();
    out.push_str(&format!(
        "\n{own}() {{\n    local state\n    local -a words_of_binary=(\n{words}    )\n    \
         _arguments -C '1: :->first' '*:: :->rest'\n    case $state in\n    \
         first) _describe 'applet or command' words_of_binary ;;\n    rest)\n        case $words[1] in\n        \
         install-*) _files -/ ;;\n{inner}        esac ;;\n    esac\n}}\n\ncase $service in\n{called}*) {own} \"$@\" ;;\nesac\n"
    ));
    out
}

fn options(function: &str, applet: &Program) -> String {
    let specs: String = applet.flags().map(spec).collect();
    format!("\n{function}() {{\n    _arguments -s -S \\\n{specs}        '*: :_default'\n}}\n")
}

/// Returns an option's spec: `'(-c --config-dir)'{-c+,--config-dir=}'[help]:DIR:_files -/'`.
fn spec(flag: &Flag) -> String {
    let (short_end, long_end) = match flag.takes {
        Takes::Nothing => ("", ""),
        _ => ("+", "="),
    };
    let short = flag.short.map(|short| format!("-{short}"));
    let long = || flag.long.iter().map(|long| format!("--{long}"));
    let same: Vec<String> = short.clone().into_iter().chain(long()).collect();
    let short = short.map(|short| short + short_end);
    let named: Vec<String> = short
        .into_iter()
        .chain(long().map(|long| long + long_end))
        .collect();
    let before = match flag.takes {
        Takes::Many(_) => "'*'".to_owned(),
        _ => format!("'({})'", same.join(" ")),
    };
    let named = match named.as_slice() {
        [only] => only.clone(),
        several => format!("{{{}}}", several.join(",")),
    };
    let after = format!("[{}]{}", bracketed(flag.help), argument(flag.takes));
    format!("        {before}{named}{} \\\n", quoted(&after))
}

fn argument(takes: Takes) -> String {
    match takes {
        Takes::Nothing => String::new(),
        Takes::Choice(name, words) => format!(":{name}:({})", words.join(" ")),
        Takes::Text("DIR") | Takes::Many("DIR") => ":DIR:_files -/".to_owned(),
        Takes::Text("FILE") => ":FILE:_files".to_owned(),
        Takes::Text(name) | Takes::Many(name) | Takes::Number(name) | Takes::Float(name) => {
            format!(":{name}: ")
        }
    }
}

fn bracketed(text: &str) -> String {
    text.replace('[', "\\[")
        .replace(']', "\\]")
        .replace(':', "\\:")
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
