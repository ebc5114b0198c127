//! The completion for zsh: one file for `pinch` and its applets.

use cli::options::{APPLETS, Flag, Program, Takes};

/// The script.
pub(super) fn script() -> String {
    let names: Vec<&str> = APPLETS.iter().map(|applet| applet.name).collect();
    let mut out = format!(
        "#compdef pinch {}\n# made of the tables that pinch reads its options by\n",
        names.join(" ")
    );
    for applet in APPLETS {
        out.push_str(&options(applet));
    }
    let words = super::words();
    let words: String = words
        .map(|(word, help)| format!("        {}\n", quoted(&format!("{word}:{help}"))))
        .collect();
    let cases = |indent: &str| -> String {
        let applets = APPLETS.iter();
        applets
            .map(|applet| format!("{indent}{}) {} ;;\n", applet.name, function(applet)))
            .collect()
    };
    out.push_str(&format!(
        "\n_pinch() {{\n    local state\n    local -a words_of_pinch=(\n{words}    )\n    \
         _arguments -C '1: :->first' '*:: :->rest'\n    case $state in\n    \
         first) _describe 'applet or command' words_of_pinch ;;\n    rest)\n        case $words[1] in\n{}        \
         install-*) _files -/ ;;\n        esac ;;\n    esac\n}}\n\ncase $service in\n{}*) _pinch \"$@\" ;;\nesac\n",
        cases("        "),
        cases("")
    ));
    out
}

fn function(applet: &Program) -> String {
    format!("_pinch_{}", applet.name.replace('-', "_"))
}

fn options(applet: &Program) -> String {
    let specs: String = applet.flags().map(spec).collect();
    format!(
        "\n{}() {{\n    _arguments -s -S \\\n{specs}        '*: :_default'\n}}\n",
        function(applet)
    )
}

/// `'(-c --config-dir)'{-c+,--config-dir=}'[help]:DIR:_files -/'`.
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
