//! Edits of a text that are collected first and made at once.

use std::collections::BTreeMap;

/// What is to be changed in a text, by the places of what was there.
#[derive(Clone, Default)]
pub(super) struct Edits {
    /// Texts that go where something ends.
    after: BTreeMap<usize, String>,
    /// Texts that go where something begins.
    before: BTreeMap<usize, String>,
    /// Stretches that are replaced: start to end and text.
    pub(super) instead: BTreeMap<usize, (usize, String)>,
}

impl Edits {
    /// Puts text behind what ends here and what was put there already.
    pub(super) fn after(&mut self, offset: usize, text: &str) {
        self.after.entry(offset).or_default().push_str(text);
    }

    /// Puts text before what begins here and what was put there already.
    pub(super) fn before(&mut self, offset: usize, text: &str) {
        self.before.entry(offset).or_default().insert_str(0, text);
    }

    /// The text with all of them made.
    pub(super) fn apply(self, source: &str) -> String {
        let mut places: Vec<usize> = self
            .after
            .keys()
            .chain(self.before.keys())
            .chain(self.instead.keys())
            .copied()
            .collect();
        places.sort_unstable();
        places.dedup();
        let mut out = String::with_capacity(source.len() + 16 * places.len());
        let mut done = 0;
        for place in places {
            out.push_str(source.get(done..place).unwrap_or_default());
            done = done.max(place);
            out.push_str(self.after.get(&place).map_or("", String::as_str));
            out.push_str(self.before.get(&place).map_or("", String::as_str));
            if let Some((end, text)) = self.instead.get(&place) {
                out.push_str(text);
                done = *end;
            }
        }
        out.push_str(source.get(done..).unwrap_or_default());
        out
    }
}
