//! [`Facts`]: the grains and the pillar of this minion, to decide whether a publication is meant for it.
//! A Salt master sends each job to all minions.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use link::wait::pause;
use value::target::{self, MatchOptions, matches_with};
use value::{Map, Value};

/// The longest wait of a publication for the grains or the pillar of a minion that has just started,
/// and the interval of looks.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(100);

/// The grains and the pillar, as the daemon's jobs have collected them last. They outlive a
/// connection.
#[derive(Debug, Default)]
pub(super) struct Facts {
    known: Mutex<Known>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    grains: Option<Map>,
    pillar: Option<Map>,
    /// The grains that the master has stored.
    sent: Option<Map>,
}

/// The target of a publication.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) tgt: &'a Value,
    pub(super) kind: &'a str,
    pub(super) delimiter: &'a str,
}

impl Facts {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records grains that the minion has collected.
    pub(super) fn has_grains(&self, grains: &Map) {
        self.known().grains = Some(grains.clone());
    }

    /// Records the minion's pillar.
    pub(super) fn has_pillar(&self, pillar: &Map) {
        self.known().pillar = Some(pillar.clone());
    }

    /// Records the grains that the master has stored together with a pillar.
    pub(super) fn has_sent(&self, grains: &Map) {
        let mut known = self.known();
        known.sent = Some(grains.clone());
        known.grains = Some(grains.clone());
    }

    /// Returns the grains if the master does not have them.
    pub(super) fn unsent(&self) -> Option<Map> {
        let known = self.known();
        let grains = known.grains.clone();
        grains.filter(|grains| known.sent.as_ref() != Some(grains))
    }

    /// Returns whether a target matches this minion. Waits for grains and pillar if it needs them and
    /// the minion has just started.
    ///
    /// # Errors
    /// When the kind of target is unknown, or the grains or the pillar are needed and not known.
    pub(super) async fn matches(&self, id: &str, target: Target<'_>) -> Result<bool, String> {
        if let Some(prefix) = unsupported(target) {
            return Err(format!("targets of the kind {prefix} are not supported"));
        }
        let (needs_grains, needs_pillar) = needs(target);
        let began = Instant::now();
        let is_ready = |known: &Known| {
            (!needs_grains || known.grains.is_some()) && (!needs_pillar || known.pillar.is_some())
        };
        while !is_ready(&self.known()) && began.elapsed() < PATIENCE {
            pause(LOOK).await;
        }
        let known = self.known().clone();
        decide(id, known, target)
    }
}

/// Returns whether a target matches a minion with these facts.
fn decide(id: &str, known: Known, target: Target<'_>) -> Result<bool, String> {
    let (needs_grains, _) = needs(target);
    if needs_grains && known.grains.is_none() {
        return Err("the grains of this minion are not known yet".to_owned());
    }
    let options = MatchOptions {
        delimiter: target.delimiter,
        ..MatchOptions::default()
    };
    matches_with(&OfMinion { id, known }, target.tgt, target.kind, options)
}

/// The words of a compound target, or the target itself.
fn words(target: Target<'_>) -> Vec<String> {
    let text = match target.tgt.as_list() {
        Some(items) => items
            .iter()
            .map(Value::to_text)
            .collect::<Vec<_>>()
            .join(" "),
        None => target.tgt.to_text(),
    };
    text.split_whitespace().map(str::to_owned).collect()
}

fn is_compound(target: Target<'_>) -> bool {
    target.kind.starts_with("compound")
}

/// Returns the letter of a matcher that only Salt has: `T@` matches resources.
fn unsupported(target: Target<'_>) -> Option<&'static str> {
    let has = |prefix: &str| words(target).iter().any(|word| word.contains(prefix));
    (is_compound(target) && has("T@")).then_some("T@")
}

/// Returns whether matching needs the grains, and whether it needs the pillar.
fn needs(target: Target<'_>) -> (bool, bool) {
    if !is_compound(target) {
        let of_pillar = target.kind.starts_with("pillar");
        let of_grains = matches!(target.kind, "grain" | "grain_pcre" | "ipcidr");
        return (of_grains, of_pillar);
    }
    let words = words(target);
    let has = |letters: &[&str]| {
        let begins = |word: &String| {
            let word = word.trim_start_matches('(');
            letters.iter().any(|letter| word.starts_with(letter))
        };
        words.iter().any(begins)
    };
    (has(&["G@", "P@", "S@"]), has(&["I@", "J@"]))
}

struct OfMinion<'a> {
    id: &'a str,
    known: Known,
}

impl target::Facts for OfMinion<'_> {
    fn id(&self) -> &str {
        self.id
    }

    fn grains(&self) -> Map {
        self.known.grains.clone().unwrap_or_default()
    }

    fn pillar(&self) -> Result<Map, String> {
        let pillar = self.known.pillar.clone();
        pillar.ok_or_else(|| "the pillar of this minion is not known yet".to_owned())
    }

    /// The master replaces nodegroups by their definitions before it publishes.
    fn nodegroups(&self) -> Map {
        Map::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        let facts = Facts::default();
        let list = Value::list(["10.1.2.3".into()]);
        facts.has_grains(&Map::new().with("os", "Debian").with("ipv4", list));
        facts.has_pillar(&Map::new().with("role", "db"));
        facts
    }

    fn matched(tgt: impl Into<Value>, kind: &str) -> Result<bool, String> {
        let tgt = tgt.into();
        let target = Target {
            tgt: &tgt,
            kind,
            delimiter: ":",
        };
        smol::block_on(facts().matches("m1", target))
    }

    #[test]
    fn a_publication_is_matched_here_by_every_kind_of_target() {
        let list = |ids: [&str; 2]| Value::list(ids.map(Value::from));
        let yes = [
            ("m*".into(), "glob"),
            (list(["m0", "m1"]), "list"),
            ("m\\d".into(), "pcre"),
            ("os:Deb*".into(), "grain"),
            ("os:^Deb".into(), "grain_pcre"),
            ("role:d*".into(), "pillar"),
            ("role:d.$".into(), "pillar_pcre"),
            ("role:db".into(), "pillar_exact"),
            ("10.1.0.0/16".into(), "ipcidr"),
            ("G@os:Debian and ( I@role:db or web* )".into(), "compound"),
        ];
        for (tgt, kind) in yes {
            assert_eq!(matched(tgt, kind), Ok(true), "{kind}");
        }
        let no = [
            ("web*".into(), "glob"),
            (list(["m2", "m3"]), "list"),
            ("os:Arch".into(), "grain"),
            ("role:web".into(), "pillar"),
            ("10.2.0.0/16".into(), "ipcidr"),
            ("G@os:Debian and not m1".into(), "compound"),
        ];
        for (tgt, kind) in no {
            assert_eq!(matched(tgt, kind), Ok(false), "{kind}");
        }
        assert!(matched("%range", "range").is_err());
        assert!(matched("T@vm:x", "compound").is_err());
    }

    #[test]
    fn a_minion_whose_grains_are_not_known_takes_no_job_for_others() {
        let tgt = "not G@os:Debian".into();
        let target = Target {
            tgt: &tgt,
            kind: "compound",
            delimiter: ":",
        };
        assert!(decide("m1", Known::default(), target).is_err());
        let grains = Some(Map::new().with("os", "Arch"));
        let known = Known {
            grains,
            ..Known::default()
        };
        assert_eq!(decide("m1", known, target), Ok(true));
    }

    #[test]
    fn grains_are_sent_once() {
        let facts = facts();
        let grains = facts.unsent().unwrap();
        facts.has_sent(&grains);
        assert_eq!(facts.unsent(), None);
        facts.has_grains(&Map::new().with("os", "Arch"));
        assert!(facts.unsent().is_some());
    }

    #[test]
    fn only_what_a_target_needs_is_waited_for() {
        let needed = |tgt: &str, kind: &str| {
            let tgt = tgt.into();
            let delimiter = ":";
            needs(Target {
                tgt: &tgt,
                kind,
                delimiter,
            })
        };
        assert_eq!(needed("*", "glob"), (false, false));
        assert_eq!(needed("os:x", "grain"), (true, false));
        assert_eq!(needed("a:b", "pillar_exact"), (false, true));
        assert_eq!(needed("web* or L@m1", "compound"), (false, false));
        assert_eq!(needed("not G@a:b or (I@c:d)", "compound"), (true, true));
    }
}
