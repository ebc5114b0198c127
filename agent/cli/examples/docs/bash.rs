//! The completion for bash: one file for `pinch` and its applets.

use cli::options::{APPLETS, Flag, Program, Takes};

/// The script.
pub(super) fn script() -> String {
    let mut out =
        "# bash completion for pinch and its applets; made of the tables that it reads its options by\n".to_owned();
    let words: Vec<&str> = super::words().map(|(word, _)| word).collect();
    for applet in APPLETS {
        out.push_str(&options(applet));
    }
    out.push_str(&format!(
        "\n_pinch() {{\n    case ${{COMP_WORDS[1]}} in\n{}    install-*) compopt -o dirnames; COMPREPLY=(); return ;;\n    esac\n    \
         COMPREPLY=(); ((COMP_CWORD > 1)) || COMPREPLY=($(compgen -W \"{}\" -- \"${{COMP_WORDS[COMP_CWORD]}}\"))\n}}\ncomplete -F _pinch pinch\n",
        applets(),
        words.join(" ")
    ));
    for applet in APPLETS {
        let (function, name) = (function(applet), applet.name);
        out.push_str(&format!("complete -o default -F {function} {name}\n"));
    }
    out
}

fn function(applet: &Program) -> String {
    format!("_pinch_{}", applet.name.replace('-', "_"))
}

/// The words after `pinch APPLET` are the applet's.
fn applets() -> String {
    let lines = APPLETS.iter().map(|applet| {
        let (function, name) = (function(applet), applet.name);
        format!(
            "    {name}) ((COMP_CWORD < 2)) || {{ compopt -o default; {function}; return; }} ;;\n"
        )
    });
    lines.collect()
}

/// Completes what follows an option by what it takes, and else the options. `--x=y` reaches bash as three words.
fn options(applet: &Program) -> String {
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
            names(flag).join("|")
        ));
    }
    let all: Vec<String> = applet.flags().flat_map(names).collect();
    format!(
        "\n{}() {{\n    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}}\n    \
         if [ \"$cur\" = = ]; then cur=; elif [ \"$prev\" = = ]; then prev=${{COMP_WORDS[COMP_CWORD-2]}}; fi\n    \
         case $prev in\n{cases}    esac\n    COMPREPLY=()\n    case $cur in -*) COMPREPLY=($(compgen -W \"{}\" -- \"$cur\")) ;; esac\n}}\n",
        function(applet),
        all.join(" ")
    )
}

fn names(flag: &Flag) -> Vec<String> {
    let short = flag.short.map(|short| format!("-{short}"));
    let long = flag.long.iter().map(|long| format!("--{long}"));
    short.into_iter().chain(long).collect()
}
