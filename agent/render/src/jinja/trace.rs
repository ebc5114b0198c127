//! Finds the template line that produced a line of the rendered text. This runs only after an
//! error.

use std::sync::{Arc, PoisonError};

use super::Run;
use crate::{Context, Host, Place};

/// The first of the characters that represent the number of a template.
const TEMPLATES: u32 = 0xF_0000;

/// The first of the characters that represent the number of a line.
const LINES: u32 = 0x10_0000;

/// The number of characters of each kind.
const MARKS: u32 = 0xFFFE;

/// Returns the mark of a line of a template: two private characters.
pub(super) fn mark(template: u32, line: usize) -> String {
    let line = u32::try_from(line).unwrap_or(0);
    let character = |first: u32, number: u32| char::from_u32(first + number.min(MARKS - 1));
    [character(TEMPLATES, template), character(LINES, line)]
        .into_iter()
        .flatten()
        .collect()
}

fn marked(c: char) -> bool {
    u32::from(c) >= TEMPLATES
}

/// Returns the text without marks.
pub(super) fn unmarked(text: &str) -> String {
    if text.contains(marked) {
        text.chars().filter(|c| !marked(*c)).collect()
    } else {
        text.to_owned()
    }
}

/// Returns the template line that produced line `rendered_line` of the rendered text, both counted
/// from 1. Renders the template once more.
#[must_use]
pub fn trace(
    source: &str,
    context: &Context,
    host: &Arc<dyn Host>,
    rendered_line: u32,
) -> Option<Place> {
    let run = Run::new(source, context, host, true).ok()?;
    let output = run.output().ok()?;
    let wanted = usize::try_from(rendered_line).ok()?.checked_sub(1)?;
    let mut last = None;
    for (index, line) in output.split('\n').enumerate().take(wanted + 1) {
        let mut marks = line.chars().filter(|c| marked(*c));
        let first = marks.next().zip(marks.next());
        if index == wanted && first.is_some() {
            last = first;
            break;
        }
        while let Some(next) = marks.next().zip(marks.next()) {
            last = Some(next);
        }
        last = last.or(first);
    }
    let (template, line) = last?;
    let at = usize::try_from(u32::from(template) - TEMPLATES).ok()?;
    let line = u32::from(line).checked_sub(LINES)?;
    // The last mark represents all later lines as well, so the line is unknown.
    if line >= MARKS - 1 {
        return None;
    }
    let sources = run
        .shared
        .sources
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let (file, text) = sources.get(at)?;
    let source = text
        .lines()
        .nth(usize::try_from(line).ok()?.checked_sub(1)?)
        .unwrap_or_default()
        .to_owned();
    let column = source.chars().take_while(|c| c.is_whitespace()).count() + 1;
    Some(Place {
        file: file.as_str().into(),
        line,
        column: u32::try_from(column).ok()?,
        source,
    })
}
