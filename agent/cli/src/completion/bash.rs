//! Writes the completion for bash: one file for a binary and its applets.

use crate::binary::Binary;
use crate::options::{Flag, Program, Takes};

use super::{function, function_of};

/// Returns the completion script.
pub(super) fn script(binary: &Binary) -> String {
    let (name, own) = (binary.name, function(binary.name));
    let mut out =
        format!("# bash completion for {name} and its applets; generated from its option tables\n");
    let words: Vec<String> = super::words(binary).map(|(word, _)| word).collect();
    for applet in binary.tables() {
        out.push_str(&options(&function_of(binary, applet), applet));
    }
    out.push_str(&format!(
        "\n{own}() {{\n    case ${{COMP_WORDS[1]}} in\n    install-*) ((COMP_CWORD < 2)) || {{ compopt -o dirnames; COMPREPLY=(); return; }} ;;\n{}    esac\n    \
         COMPREPLY=(); ((COMP_CWORD > 1)) || COMPREPLY=($(compgen -W \"{}\" -- \"${{COMP_WORDS[COMP_CWORD]}}\"))\n}}\ncomplete -F {own} {name}\n",
        applets(binary),
        words.join(" ")
    ));
    for applet in binary.applets {
        let (function, name) = (function_of(binary, applet), applet.name);
        out.push_str(&format!("complete -o default -F {function} {name}\n"));
    }
    out
}

/// Returns the cases that complete the arguments after an applet's or a command's name by that
/// applet's own function.
fn applets(binary: &Binary) -> String {
    let lines = binary.tables().map(|applet| {
        let (function, name) = (function_of(binary, applet), applet.word());
        format!(
            "    {name}) ((COMP_CWORD < 2)) || {{ compopt -o default; {function}; return; }} ;;\n"
        )
    });
    lines.collect()
}

/// Returns a shell function that completes the value after an option, and otherwise the options.
/// bash splits `--x=y` into three words.
fn options(function: &str, applet: &Program) -> String {
    let mut cases = String::new();
    for flag in applet.flags() {
        let reply = match flag.takes {
            Takes::Nothing => continue,
            Takes::Choice(_, words) => {
                format!(
                    "COMPREPLY=($(compgen -W \"{}\" -- \"$cur\"))",
                    words.join(" ")
                )
            }
            Takes::Text("DIR") | Takes::Many("DIR") => {
                "COMPREPLY=($(compgen -d -- \"$cur\"))".to_owned()
            }
            Takes::Text("FILE") => "COMPREPLY=($(compgen -f -- \"$cur\"))".to_owned(),
            _ => "COMPREPLY=()".to_owned(),
        };
        cases.push_str(&format!(
            "    {}) {reply}; return ;;\n",
            flag.words().join("|")
        ));
    }
    let all: Vec<String> = applet.flags().flat_map(Flag::words).collect();
    format!(
        "\n{function}() {{\n    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}}\n    \
         if [ \"$cur\" = = ]; then cur=; elif [ \"$prev\" = = ]; then prev=${{COMP_WORDS[COMP_CWORD-2]}}; fi\n    \
         case $prev in\n{cases}    esac\n    COMPREPLY=()\n    case $cur in -*) COMPREPLY=($(compgen -W \"{}\" -- \"$cur\")) ;; esac\n}}\n",
        all.join(" ")
    )
}
