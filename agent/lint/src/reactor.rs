//! Checks the SLS of a reactor, whose chunks are reactions instead of states.

use state::compile::Examiner;
use state::exec::Exec;
use state::host::Tree;
use state::opts::Opts;
use value::Value;

use crate::calls::Client;
use crate::finding::Finding;
use crate::samples::{Found, not_asked, place};

/// The first words of the kinds of reactions.
const KINDS: [&str; 8] = [
    "caller", "cmd", "local", "runner", "salt", "thorium", "tgt", "wheel",
];

/// True when an SLS is a reactor's: the configuration names it, or it is in a folder for reactions.
pub(crate) fn is_reaction(opts: &Opts, name: &str) -> bool {
    let mut folders = name.split('.');
    let named = || {
        let rules = opts.get("reactor").and_then(Value::as_list);
        let rules = rules.unwrap_or_default().iter().filter_map(Value::as_map);
        let mut files = rules.flat_map(|rule| rule.values().flat_map(Value::texts));
        files.any(|file| {
            let path = file.trim_start_matches("salt://").trim_end_matches(".sls");
            let path = path.trim_start_matches('/').replace('/', ".");
            path == name || path.ends_with(&format!(".{name}"))
        })
    };
    folders.any(|folder| matches!(folder, "reactor" | "reactors" | "_reactor")) || named()
}

/// Checks the SLS of a reactor.
pub(crate) fn look(
    cx: &Exec,
    examiner: &Examiner<'_>,
    name: &str,
    saltenv: &str,
    found: &mut Found,
) {
    let chunks = match examiner.other(&Tree::State, name, saltenv) {
        Ok(Some(Value::Map(chunks))) => chunks,
        Ok(_) => return,
        Err(fault) => {
            let finding = not_asked(Finding::from_fault(fault, name));
            // `data` and `tag` exist only with an event.
            if !matches!(finding.code.code, "E202" | "W203" | "W207") {
                found.findings.push(finding);
            }
            return look_at_text(cx, name, saltenv, found);
        }
    };
    for (id, body) in &chunks {
        let kinds = body.as_map().into_iter().flatten().map(|(kind, _)| kind);
        for kind in kinds.map(Value::to_text) {
            let (first, function) = kind.split_once('.').unwrap_or((&kind, ""));
            if let Some(client) = Client::of_reaction(first) {
                let path = [id.clone(), kind.as_str().into()];
                let place = || examiner.place(name, saltenv, &path);
                let fault = client.fault(cx, function, place);
                found.findings.extend(fault);
            }
            if KINDS.contains(&first) || kind.starts_with("__") || cx.has_state_module(first) {
                continue;
            }
            let path = [id.clone(), kind.as_str().into()];
            let Some(place) = examiner.place(name, saltenv, &path) else {
                continue;
            };
            let message = format!("'{kind}' is not a reaction type");
            let finding = Finding::at(crate::codes::code("E602"), place, message);
            found.findings.push(finding);
        }
    }
}

/// Checks the lines of an SLS that cannot be rendered without its event. A line that consists only
/// of the key of a reaction is checked.
fn look_at_text(cx: &Exec, name: &str, saltenv: &str, found: &mut Found) {
    let file = state::tree::find(cx, &Tree::State, name, saltenv).ok();
    let Some(file) = file.flatten().map(|found| found.file) else {
        return;
    };
    let text = cx.shared.sources.text(&file);
    let text = text.unwrap_or_else(|_| "".into());
    for (at, line) in text.lines().enumerate() {
        let word = line.trim();
        let (first, rest) = word.split_once('.').unwrap_or((word, ""));
        let function = rest.trim_end_matches(':');
        let is_name = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '.' | '_');
        if function.len() == rest.len() || !function.chars().all(is_name) {
            continue;
        }
        let place = || {
            let column = line.len() - line.trim_start().len() + 1;
            Some(place(&file.shown, at + 1, column, line))
        };
        let fault = Client::of_reaction(first).and_then(|one| one.fault(cx, function, place));
        found.findings.extend(fault);
    }
}
