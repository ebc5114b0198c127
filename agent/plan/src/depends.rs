//! Finds the chunks whose outcome is unknown because a chunk before them would change something.

use std::collections::HashMap;

use state::low::{RequisiteKind, When};
use value::Value;

use crate::document::{COMPENSATE, Chunk, Key, Outcome, Reason};
use crate::scope::Scope;

/// The arguments that name a user or group, which an earlier chunk may create.
const ACCOUNTS: [&str; 4] = ["user", "group", "owner", "runas"];

/// Sets the outcome of each chunk. The chunks are in the order in which they run, a step before its
/// own chunks.
pub(crate) fn judge(chunks: &mut [Chunk]) {
    let places: HashMap<Key, usize> = chunks
        .iter()
        .enumerate()
        .map(|(at, chunk)| (chunk.key.clone(), at))
        .collect();
    for at in 0..chunks.len() {
        let (before, rest) = chunks.split_at_mut(at);
        let Some((chunk, after)) = rest.split_first_mut() else {
            return;
        };
        chunk.outcome = Outcome::from_return(chunk.ret.as_ref());
        let found = |key: &Key| {
            let at = *places.get(key)?;
            // The target of a prereq runs later, but it has a return in test mode.
            before
                .get(at)
                .or_else(|| after.get(at.checked_sub(before.len() + 1)?))
        };
        if chunk.low.when == When::Compensating {
            // It is unknown whether a later chunk fails; without a failure this chunk does nothing.
            chunk.because = compensated(chunk, before);
            continue;
        }
        chunk.because = reasons(chunk, before, &found);
        if !chunk.because.is_empty() {
            chunk.outcome = Outcome::Depends;
        }
    }
    steps(chunks, &places);
}

/// Sets the outcome of each step from those of its states.
fn steps(chunks: &mut [Chunk], places: &HashMap<Key, usize>) {
    let within: Vec<(String, Outcome)> = chunks
        .iter()
        .filter_map(|chunk| Some((chunk.key.0.clone()?, chunk.outcome)))
        .collect();
    for at in places.values() {
        let Some(step) = chunks.get_mut(*at) else {
            continue;
        };
        let own = || {
            within
                .iter()
                .filter(|(tag, _)| *tag == step.key.1)
                .map(|(_, outcome)| *outcome)
        };
        step.is_step = own().next().is_some();
        if step.is_step && step.outcome != Outcome::Depends {
            let any = |outcome| own().any(|own| own == outcome);
            step.outcome = if any(Outcome::Fail) {
                Outcome::Fail
            } else if own().all(|own| own == Outcome::Unchanged) {
                Outcome::Unchanged
            } else {
                Outcome::Change
            };
        }
    }
}

fn moves(chunk: &Chunk) -> bool {
    let outcome = match chunk.outcome {
        // A later chunk, which has not been judged yet.
        Outcome::Unchanged => Outcome::from_return(chunk.ret.as_ref()),
        judged => judged,
    };
    matches!(outcome, Outcome::Change | Outcome::Depends)
}

fn reasons<'a>(
    chunk: &Chunk,
    before: &'a [Chunk],
    found: &dyn Fn(&Key) -> Option<&'a Chunk>,
) -> Vec<Reason> {
    let mut all = Vec::new();
    for (kind, key) in &chunk.needs {
        if let Some(target) = found(key).filter(|target| moves(target))
            && let Some(reason) = required(*kind, chunk, target)
        {
            add(&mut all, reason, target);
        }
    }
    if chunk.low.id.starts_with("listener_") && chunk.low.data.contains("sfun") {
        all.push(Reason {
            reason: "listen",
            tag: chunk.key.1.clone(),
        });
    }
    if let Some(step) = before
        .iter()
        .find(|step| step.outcome == Outcome::Depends && within(chunk, step))
    {
        add(&mut all, "step", step);
    }
    // A step counts through its states. A chunk that changes nothing on the machine affects no
    // other.
    let moving = before
        .iter()
        .filter(|earlier| moves(earlier) && !matches!(earlier.scope, Scope::Nothing | Scope::Step));
    for earlier in moving {
        if let Some(reason) = disturbed(chunk, earlier) {
            add(&mut all, reason, earlier);
        }
    }
    all
}

/// Returns the chunks that this chunk compensates.
fn compensated(chunk: &Chunk, before: &[Chunk]) -> Vec<Reason> {
    let mut all = Vec::new();
    let named = |(kind, key): &(RequisiteKind, Key)| {
        *kind == RequisiteKind::Compensate && *key == chunk.key
    };
    for owner in before.iter().filter(|other| other.needs.iter().any(named)) {
        add(&mut all, COMPENSATE, owner);
    }
    all
}

fn within(chunk: &Chunk, step: &Chunk) -> bool {
    chunk.key.0.as_ref() == Some(&step.key.1)
}

fn add(all: &mut Vec<Reason>, reason: &'static str, of: &Chunk) {
    let because = Reason {
        reason,
        tag: of.key.1.clone(),
    };
    if !all.contains(&because) {
        all.push(because);
    }
}

/// Returns the kind of a requisite if a change of its target makes the outcome of the chunk
/// unknown.
fn required(kind: RequisiteKind, chunk: &Chunk, target: &Chunk) -> Option<&'static str> {
    use RequisiteKind::{Compensate, Listen, Require, RequireAny};
    if matches!(kind, Compensate | Listen) {
        return None;
    }
    if !matches!(kind, Require | RequireAny) {
        return Some(kind.word());
    }
    let open = match (&chunk.scope, &target.scope) {
        // The command to run is in the SLS, so it is known.
        (Scope::Nothing | Scope::Command | Scope::Step, _) | (_, Scope::Nothing) => false,
        (own @ Scope::Files(_), other @ Scope::Files(_)) => own.meets(other),
        _ => true,
    };
    open.then(|| kind.word())
}

/// Returns the reason if an earlier change, required or not, makes the outcome of a chunk unknown.
fn disturbed(chunk: &Chunk, earlier: &Chunk) -> Option<&'static str> {
    let data = &chunk.low.data;
    if data.contains("unless") || data.contains("onlyif") {
        return Some("guard");
    }
    if data
        .get("creates")
        .is_some_and(|creates| made_by(creates, earlier))
    {
        return Some("creates");
    }
    if chunk.asks {
        return Some("template");
    }
    if data.values().any(has_slot) {
        return Some("slot");
    }
    if chunk.scope.meets(&earlier.scope) {
        return Some("path");
    }
    let is = |names: &[&str]| names.contains(&earlier.low.state.as_str());
    if is(&["user", "group"]) {
        let named =
            |key: &&str| data.get(key).and_then(Value::as_str) == Some(earlier.low.name.as_str());
        return ACCOUNTS.iter().any(named).then_some("account");
    }
    if is(&["pkg"]) {
        let open = match &chunk.scope {
            Scope::Files(_) => chunk.files.iter().any(|(_, now)| is_absent(now)),
            Scope::Machine => !["pkg", "pkgrepo"].contains(&chunk.low.state.as_str()),
            _ => false,
        };
        return open.then_some("package");
    }
    None
}

fn is_absent(now: &Value) -> bool {
    now.get("kind").and_then(Value::as_str) == Some("absent")
}

/// Returns whether a change may create one of these paths.
fn made_by(creates: &Value, earlier: &Chunk) -> bool {
    let places = earlier.scope.places();
    let one = |path: &Value| {
        let path = std::path::Path::new(path.as_str().unwrap_or_default());
        places
            .iter()
            .any(|place| path.starts_with(&place.path) || place.path.starts_with(path))
    };
    match (&earlier.scope, creates.as_list()) {
        (Scope::Files(_), Some(paths)) => paths.iter().any(one),
        (Scope::Files(_), None) => one(creates),
        _ => true,
    }
}

fn has_slot(value: &Value) -> bool {
    match value {
        Value::Str(text) => text.starts_with("__slot__:"),
        Value::List(items) => items.iter().any(has_slot),
        Value::Map(map) => map.values().any(has_slot),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use state::low::LowChunk;
    use value::Map;

    use super::*;

    /// Returns a chunk that would change something and whose path is absent, or one that has
    /// nothing to do and whose path exists.
    fn chunk(function: &str, id: &str, data: Map, would: bool) -> Chunk {
        let (state, fun) = function.split_once('.').unwrap();
        let data = data
            .with("state", state)
            .with("fun", fun)
            .with("__id__", id)
            .with("name", id);
        let low = LowChunk::from_map(data);
        let now = Map::new().with("kind", if would { "absent" } else { "file" });
        let result = if would { Value::Null } else { true.into() };
        Chunk {
            key: (None, low.tag()),
            scope: Scope::from_chunk(&modules::REGISTRY, &low),
            needs: Vec::new(),
            files: vec![(id.into(), now.into())],
            sources: Vec::new(),
            then: Vec::new(),
            returns: None,
            ret: Some(Map::new().with("result", result)),
            asks: false,
            more: Map::new(),
            outcome: Outcome::default(),
            because: Vec::new(),
            is_step: false,
            low: Arc::new(low),
        }
    }

    /// Returns the reason why the second chunk depends on the first, with a requisite of this kind.
    fn reason(
        first: Chunk,
        mut second: Chunk,
        kind: Option<RequisiteKind>,
    ) -> Option<&'static str> {
        second.needs = kind
            .map(|kind| (kind, first.key.clone()))
            .into_iter()
            .collect();
        let mut chunks = [first, second];
        judge(&mut chunks);
        let [_, second] = &chunks;
        assert_eq!(
            second.outcome == Outcome::Depends,
            !second.because.is_empty()
        );
        second.because.first().map(|because| because.reason)
    }

    #[test]
    fn packages_and_accounts_leave_open_what_they_may_make() {
        let pkg = |would| chunk("pkg.installed", "web", Map::new(), would);
        let user = || chunk("user.present", "joe", Map::new(), true);
        let file = |would| chunk("file.managed", "/x/conf", Map::new(), would);
        let joes = || {
            chunk(
                "file.managed",
                "/x/conf",
                Map::new().with("user", "joe"),
                true,
            )
        };
        let service = || chunk("service.running", "web", Map::new(), true);
        assert_eq!(reason(pkg(true), file(true), None), Some("package"));
        assert_eq!(reason(pkg(true), service(), None), Some("package"));
        assert_eq!(reason(pkg(true), file(false), None), None);
        assert_eq!(reason(pkg(false), file(true), None), None);
        let other = chunk("pkg.installed", "other", Map::new(), true);
        assert_eq!(reason(pkg(true), other, None), None);
        assert_eq!(reason(user(), joes(), None), Some("account"));
        assert_eq!(reason(user(), file(true), None), None);
    }

    #[test]
    fn a_requisite_counts_by_its_kind_and_by_what_both_work_on() {
        use RequisiteKind::{Listen, Onfail, Require, Watch};
        let file = |id: &str| chunk("file.managed", id, Map::new(), true);
        let command = |id: &str| chunk("cmd.run", id, Map::new(), true);
        let service = || chunk("service.running", "web", Map::new(), true);
        assert_eq!(reason(file("/x/a"), file("/x/b"), Some(Require)), None);
        assert_eq!(
            reason(command("a"), file("/x/b"), Some(Require)),
            Some("require")
        );
        assert_eq!(reason(file("/x/a"), command("b"), Some(Require)), None);
        assert_eq!(
            reason(file("/x/a"), service(), Some(Require)),
            Some("require")
        );
        assert_eq!(
            reason(file("/x/a"), command("b"), Some(Watch)),
            Some("watch")
        );
        assert_eq!(
            reason(file("/x/a"), command("b"), Some(Onfail)),
            Some("onfail")
        );
        assert_eq!(reason(file("/x/a"), command("b"), Some(Listen)), None);
        let nothing = chunk("test.succeed_with_changes", "a", Map::new(), true);
        assert_eq!(reason(nothing, file("/x/b"), Some(Require)), None);
        let guarded = || chunk("cmd.run", "b", Map::new().with("unless", "true"), true);
        assert_eq!(reason(file("/x/a"), guarded(), None), Some("guard"));
        let nothing = chunk("test.succeed_with_changes", "a", Map::new(), true);
        assert_eq!(reason(nothing, guarded(), None), None);
    }
}
