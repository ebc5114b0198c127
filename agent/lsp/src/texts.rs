//! The texts of hovers and completions: the documentation of functions, arguments and options of
//! states.

use state::exec::{Registry, find};
use state::module::{Arg, Function, Ret};
use value::Value;
use value::json::{self, Layout};

/// The options that each state takes, with their texts.
pub(crate) const OPTIONS: &[(&str, &str)] = &[
    (
        "aggregate",
        "If True, this state is combined with others of its module, such as packages of one transaction.",
    ),
    (
        "check_cmd",
        "Commands that must succeed after the state. Otherwise the state fails.",
    ),
    (
        "cmd_opts_exclude",
        "Options of the state that `onlyif` and `unless` do not use.",
    ),
    (
        "compensate",
        "If a later state of the run fails, the states that are named here are undone by this one.",
    ),
    (
        "creates",
        "Paths. If all of them exist, the state does not run.",
    ),
    ("failhard", "If True, the run ends when this state fails."),
    (
        "finally",
        "If True, the state runs at the end, also after failures.",
    ),
    (
        "fire_event",
        "If True, or the end of a tag, an event is fired after the state.",
    ),
    (
        "force_reload_modules",
        "If True, modules are loaded again before the state and after it.",
    ),
    (
        "listen",
        "At the end of the run, the state reacts if one of these has changes.",
    ),
    (
        "listen_in",
        "At the end of the run, these react if this state has changes.",
    ),
    ("name", "The name of the state. It defaults to the ID."),
    ("names", "Names. The state runs once for each of them."),
    ("no_log", "If True, the arguments of the state are secret."),
    (
        "onchanges",
        "The state runs only if one of these has changes.",
    ),
    ("onchanges_any", "An older name of `onchanges`."),
    ("onchanges_in", "These run only if this state has changes."),
    ("onfail", "The state runs only if one of these failed."),
    ("onfail_all", "The state runs only if all of these failed."),
    ("onfail_any", "An older name of `onfail`."),
    ("onfail_in", "These run only if this state failed."),
    (
        "onfail_stop",
        "If False, the failure of this state does not stop the states that have it in `onfail`.",
    ),
    (
        "onlyif",
        "Commands or functions. The state runs only if all of them succeed.",
    ),
    (
        "order",
        "A number, `first` or `last`: the position in the run.",
    ),
    (
        "parallel",
        "If True, the run does not wait for the state to end.",
    ),
    (
        "prereq",
        "The state runs before these, and only if one of them will change something.",
    ),
    (
        "prereq_in",
        "These run before this state, and only if it will change something.",
    ),
    (
        "provider",
        "The module that is used instead of the one of this machine.",
    ),
    (
        "reboot",
        "If True, the machine reboots after the state, and the run continues afterwards.",
    ),
    (
        "reload_grains",
        "If True, the grains are collected again after the state.",
    ),
    (
        "reload_modules",
        "If True, modules are loaded again after the state.",
    ),
    (
        "reload_pillar",
        "If True, the pillar is compiled again after the state.",
    ),
    ("require", "These must succeed before the state runs."),
    (
        "require_any",
        "One of these must succeed before the state runs.",
    ),
    ("require_in", "These require this state."),
    (
        "resume",
        "What a resumed run does with the state if it was interrupted.",
    ),
    (
        "retry",
        "How often, at which interval and until which result the state is tried again.",
    ),
    ("runas", "The user who runs the commands of the state."),
    ("runas_password", "The password of this user, on Windows."),
    (
        "saltenv",
        "The environment of the files that the state uses.",
    ),
    (
        "timeout",
        "The number of seconds after which commands of `onlyif`, `unless` and `check_cmd` end.",
    ),
    ("umask", "The umask of the files that the state creates."),
    (
        "unless",
        "Commands or functions. The state does not run if all of them succeed.",
    ),
    ("use", "The state takes over the arguments of these."),
    ("use_in", "These take over the arguments of this state."),
    (
        "watch",
        "Like `require`. If one of these has changes, the state reacts, such as with a restart.",
    ),
    (
        "watch_any",
        "Like `require_any`. If one of these has changes, the state reacts.",
    ),
    ("watch_in", "These watch this state."),
];

/// Returns whether an option contains requisites: a list of states.
pub(crate) fn is_requisite(word: &str) -> bool {
    let word = word.strip_suffix("_in").unwrap_or(word);
    let word = word.strip_suffix("_any").unwrap_or(word);
    let word = word.strip_suffix("_all").unwrap_or(word);
    [
        "require",
        "watch",
        "onchanges",
        "onfail",
        "prereq",
        "listen",
        "use",
        "compensate",
    ]
    .contains(&word)
}

/// Returns the text of an option of states.
pub(crate) fn option(word: &str) -> Option<&'static str> {
    let found = OPTIONS.iter().find(|(name, _)| *name == word);
    found.map(|(_, text)| *text)
}

/// Returns the names of all state functions, each with its function.
pub(crate) fn states(
    registry: &'static Registry,
) -> impl Iterator<Item = (String, &'static Function<Ret>)> {
    registry.states.iter().flat_map(|module| {
        let functions = module.functions.iter();
        functions.map(|function| (format!("{}.{}", module.name, function.name), function))
    })
}

/// Returns the documentation of a state or execution function, in Markdown.
pub(crate) fn function(registry: &'static Registry, full: &str, is_state: bool) -> Option<String> {
    match is_state {
        true => find(registry.states, full).map(|function| page(full, function)),
        false => find(registry.functions, full).map(|function| page(full, function)),
    }
}

fn page<R>(full: &str, function: &Function<R>) -> String {
    let args = function.args.iter().map(|arg| match shown_default(arg) {
        Some(default) => format!("{}={default}", arg.name),
        None => arg.name.to_owned(),
    });
    let args: Vec<String> = args.collect();
    let mut out = format!(
        "```python\n{full}({})\n```\n\n{}",
        args.join(", "),
        function.doc
    );
    for arg in function.args.iter().filter(|arg| !arg.doc.is_empty()) {
        out.push_str(&format!("\n- `{}`: {}", arg.name, arg.doc.trim_end()));
    }
    out
}

/// Returns the documentation of an argument, in Markdown.
pub(crate) fn argument(full: &str, arg: &Arg) -> String {
    let default = match shown_default(arg) {
        Some(default) => format!("default: `{default}`"),
        None => "required".to_owned(),
    };
    format!("`{}` of `{full}` ({default})\n\n{}", arg.name, arg.doc)
}

/// Returns the default of an argument; `None` if it is required.
fn shown_default(arg: &Arg) -> Option<String> {
    let default: Value = arg.default?();
    Some(match &default {
        Value::Str(_) => json::write(&default, Layout::default()),
        other => other.to_text(),
    })
}

/// Returns the first line of a documentation.
pub(crate) fn first_line(doc: &str) -> &str {
    doc.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_of_states_has_a_text() {
        let internal = ["fun", "prerequired", "state"];
        let missing: Vec<&str> = state::low::options()
            .filter(|word| !internal.contains(word) && option(word).is_none())
            .collect();
        assert!(missing.is_empty(), "without a text: {missing:?}");
        let unknown = OPTIONS
            .iter()
            .find(|(word, _)| !state::low::options().any(|one| one == *word));
        assert_eq!(unknown, None);
    }

    #[test]
    fn requisites_are_lists_of_states() {
        for word in ["require", "watch_in", "onfail_any", "onfail_all", "use_in"] {
            assert!(is_requisite(word), "{word}");
        }
        assert!(!is_requisite("onlyif"));
    }
}
