//! Aliases in a record for tags that contain secrets.

use value::{Map, Value, secret};

use super::Recorded;
use crate::compile::Plan;

/// Returns the tags of a plan that contain a secret, each with its alias in a record. If two tags
/// look alike without their secrets, they still get different aliases.
pub(super) fn aliases(plan: &Plan) -> Vec<(String, String)> {
    let mut aliases: Vec<(String, String)> = Vec::new();
    if !secret::is_any() {
        return aliases;
    }
    for low in plan.chunks() {
        let tag = low.tag();
        let shown = secret::text(&tag).into_owned();
        if shown != tag {
            let is_used = |text: &str| aliases.iter().any(|(_, shown)| shown == text);
            let shown = secret::unused(shown, is_used);
            aliases.push((tag, shown));
        }
    }
    aliases
}

/// Returns recorded returns with the aliases replaced by the tags of the plan.
#[must_use]
pub fn by_tags_of(plan: &Plan, returns: Map) -> Map {
    renamed(&aliases(plan), returns)
}

fn renamed(aliases: &[(String, String)], map: Map) -> Map {
    if aliases.is_empty() {
        return map;
    }
    let entries = map.into_iter().map(|(key, value)| match key.as_str() {
        Some(tag) => (Value::from(real(aliases, tag)), value),
        None => (key, value),
    });
    entries.collect()
}

fn real<'a>(aliases: &'a [(String, String)], shown: &'a str) -> &'a str {
    let mut all = aliases.iter();
    let found = all.find(|(_, known)| known == shown);
    found.map_or(shown, |(tag, _)| tag)
}

impl Recorded {
    /// Returns the record with all aliases replaced by the tags of the plan, which contain the
    /// secrets.
    #[must_use]
    pub fn of_plan(mut self, plan: &Plan) -> Self {
        let aliases = aliases(plan);
        self.returns = renamed(&aliases, self.returns);
        self.guards = renamed(&aliases, self.guards);
        for (tag, shown) in &aliases {
            let (tag, shown) = (format!("{tag}\n"), format!("{shown}\n"));
            let parts = std::mem::take(&mut self.parts).into_iter();
            let parts = parts.map(|(part, returns)| (part.replace(&shown, &tag), returns));
            self.parts = parts.collect();
            let heard = std::mem::take(&mut self.heard).into_iter();
            let heard = heard.map(|(part, heard)| (part.replace(&shown, &tag), heard));
            self.heard = heard.collect();
            for one in &mut self.begun {
                one.part = one.part.replace(&shown, &tag);
            }
            for part in &mut self.compensating {
                *part = part.replace(&shown, &tag);
            }
        }
        for heard in self.heard.values_mut() {
            heard.rename(|shown| real(&aliases, shown).to_owned());
        }
        for one in self.begun.iter_mut().filter(|one| one.part.is_empty()) {
            one.tag = real(&aliases, &one.tag).to_owned();
        }
        self
    }
}
