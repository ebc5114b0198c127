//! [`Needles`]: the texts to search for, by their first bytes, so that one pass over a text finds
//! any number of them.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use super::{LENGTH_MIN, MASK, forms};
use crate::Value;

/// The number of leading bytes by which a needle is found.
const FIRST: usize = 4;

#[derive(Default)]
pub(super) struct Needles {
    /// The registered secrets, in order.
    whole: Vec<Arc<str>>,
    known: HashSet<Arc<str>>,
    /// The texts to search for, by their first bytes.
    by_first: HashMap<[u8; FIRST], Vec<Box<str>>>,
    /// Lines of secrets that are too short to search for; they are masked where they follow another
    /// masked line.
    short_lines: HashSet<Box<str>>,
}

impl Needles {
    pub(super) fn len(&self) -> usize {
        self.whole.len()
    }

    pub(super) fn has(&self, text: &str) -> bool {
        self.known.contains(text)
    }

    pub(super) fn add(&mut self, text: &str) {
        let whole: Arc<str> = text.into();
        if !self.known.insert(Arc::clone(&whole)) {
            return;
        }
        self.whole.push(whole);
        self.look_for(text);
        forms::base64(text)
            .into_iter()
            .for_each(|form| self.look_for_form(form));
        if !text.contains('\n') {
            return;
        }
        // A diff contains the lines separately, each with a sign before it.
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match line.chars().nth(LENGTH_MIN - 1) {
                Some(_) => self.look_for(line),
                None => drop(self.short_lines.insert(line.into())),
            }
        }
    }

    fn look_for(&mut self, text: &str) {
        forms::all_forms(text)
            .into_iter()
            .for_each(|form| self.look_for_form(form));
    }

    fn look_for_form(&mut self, form: String) {
        let Some(first) = form.as_bytes().first_chunk() else {
            return;
        };
        let alike = self.by_first.entry(*first).or_default();
        if !alike.iter().any(|other| **other == *form) {
            alike.push(form.into());
        }
    }

    /// Returns the text with its secrets masked; `None` if it contains none.
    pub(super) fn masked(&self, text: &str) -> Option<String> {
        let found = self.found(text);
        if found.is_empty() {
            return None;
        }
        let (mut out, mut after) = (String::with_capacity(text.len()), 0);
        for range in found {
            out.push_str(text.get(after..range.start).unwrap_or_default());
            out.push_str(MASK);
            after = range.end;
        }
        out.push_str(text.get(after..).unwrap_or_default());
        Some(match self.short_lines.is_empty() {
            true => out,
            false => self.without_short_lines(&out),
        })
    }

    /// Returns the ranges of the secrets in a text. Overlapping ones are merged: a remainder of one
    /// would reveal a part of it.
    fn found(&self, text: &str) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        for (start, first) in text.as_bytes().windows(FIRST).enumerate() {
            let Some(alike) = <&[u8; FIRST]>::try_from(first)
                .ok()
                .and_then(|first| self.by_first.get(first))
            else {
                continue;
            };
            let rest = text.get(start..).unwrap_or_default();
            let fitting = alike.iter().filter(|form| rest.starts_with(&***form));
            let Some(length) = fitting.map(|form| form.len()).max() else {
                continue;
            };
            let end = start + length;
            match found.last_mut().filter(|last| last.end >= start) {
                Some(last) => last.end = last.end.max(end),
                None => found.push(start..end),
            }
        }
        found
    }

    /// Masks short lines that follow a masked line, such as the last line of a private key.
    fn without_short_lines(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut is_after = false;
        for line in text.split_inclusive('\n') {
            let body = line.trim().trim_start_matches(['+', '-']).trim();
            let is_short = is_after && self.short_lines.contains(body);
            match is_short {
                true => out.push_str(&line.replacen(body, MASK, 1)),
                false => out.push_str(line),
            }
            is_after = is_short || line.contains(MASK);
        }
        out
    }

    /// Appends the registered secrets that a value contains.
    pub(super) fn found_in(&self, value: &Value, texts: &mut Vec<Arc<str>>) {
        match value {
            Value::Map(map) | Value::Set(map) => {
                for (key, value) in map {
                    self.found_in(key, texts);
                    self.found_in(value, texts);
                }
            }
            Value::List(items) | Value::Tuple(items) => {
                items.iter().for_each(|item| self.found_in(item, texts));
            }
            Value::Null | Value::Bool(_) | Value::Float(_) => {}
            leaf => {
                let text = super::text_of(leaf);
                if !self.found(&text).is_empty() {
                    let inside = |known: &&Arc<str>| {
                        let in_base64 = || {
                            forms::base64(known)
                                .iter()
                                .any(|form| text.contains(&**form))
                        };
                        text.contains(&***known) || in_base64()
                    };
                    let new = self.whole.iter().filter(inside);
                    let new: Vec<_> = new
                        .filter(|known| !texts.contains(known))
                        .cloned()
                        .collect();
                    texts.extend(new);
                }
            }
        }
    }
}
