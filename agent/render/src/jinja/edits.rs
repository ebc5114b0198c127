//! Collects edits of a text and applies them all at once.

use std::collections::BTreeMap;

/// The edits of a text, by offsets in the original.
#[derive(Clone, Default)]
pub(super) struct Edits {
    /// Texts to insert after a construct, by the offset of its end.
    after: BTreeMap<usize, String>,
    /// Texts to insert before a construct, by the offset of its start.
    before: BTreeMap<usize, String>,
    /// Ranges to replace: start, end and the new text.
    pub(super) instead: BTreeMap<usize, (usize, String)>,
}

impl Edits {
    /// Inserts text after the construct that ends here, and after earlier insertions.
    pub(super) fn after(&mut self, offset: usize, text: &str) {
        self.after.entry(offset).or_default().push_str(text);
    }

    /// Inserts text before the construct that begins here, and before earlier insertions.
    pub(super) fn before(&mut self, offset: usize, text: &str) {
        self.before.entry(offset).or_default().insert_str(0, text);
    }

    /// Returns the text with all edits applied.
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
