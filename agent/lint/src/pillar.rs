//! Checks the pillar of a tree: each of its SLS alone, and then the pillar as a whole.

use state::compile::{Examiner, Fault};
use state::exec::Exec;
use state::host::Tree;
use value::{Map, Value};

use crate::finding::Finding;
use crate::samples::not_asked;
use crate::text_checks;

/// Checks the pillar.
pub(crate) fn look(cx: &Exec, examiner: &Examiner<'_>, tree: &Tree, findings: &mut Vec<Finding>) {
    let sources = tree.sources(cx);
    let bare = cx.with_pillar(Map::new());
    let alone = Examiner::new(&bare, examiner.reached());
    let mut broken = Vec::new();
    for saltenv in sources.environments().unwrap_or_default() {
        for name in state::tree::names(cx, tree, &saltenv).unwrap_or_default() {
            if let Err(fault) = alone.other(tree, &name, &saltenv) {
                let finding = not_asked(Finding::from_fault(fault, &name));
                // An SLS that is compiled alone lacks the values that other SLS set or pass to it
                // as defaults.
                if !matches!(finding.code.code, "E202" | "W203") {
                    findings.push(finding);
                }
                broken.push(name);
            }
        }
    }
    let Ok(pillar) = cx.pillar() else { return };
    let errors = pillar.get("_errors").and_then(Value::as_list);
    let top = sources.file("top.sls", "base").ok().flatten();
    let top = top.and_then(|file| Some((sources.text(&file).ok()?, file.shown)));
    for error in errors.unwrap_or_default().iter().map(Value::to_text) {
        let said = broken.iter().any(|name| error.contains(name.as_str()));
        let Some((text, shown)) = top.as_ref().filter(|_| !said) else {
            continue;
        };
        let fault = Fault {
            place: text_checks::naming(text, shown, &error),
            ..Fault::new(error)
        };
        findings.push(not_asked(Finding::from_fault(fault, shown)));
    }
}
