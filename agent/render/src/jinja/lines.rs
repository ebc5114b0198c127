//! Line numbers. The engine counts lines in 16 bits and stops at 65,535; a template may have more.

use minijinja::Error;

/// A counter of the lines of a text.
pub(super) struct Lines<'a> {
    source: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Lines<'a> {
    /// Starts at the first line.
    pub(super) fn new(source: &'a str) -> Self {
        Self {
            source,
            at: 0,
            line: 1,
        }
    }

    /// Returns the number of the line of an offset. With offsets in ascending order, the text is
    /// scanned only once.
    pub(super) fn at(&mut self, offset: usize) -> usize {
        if offset < self.at {
            *self = Self::new(self.source);
        }
        let passed = self.source.as_bytes().get(self.at..offset);
        let passed = passed.unwrap_or_default();
        self.line += passed.iter().filter(|byte| **byte == b'\n').count();
        self.at = offset;
        self.line
    }
}

/// Returns the line of an error, which is the same in the template and in the rewritten text.
/// Returns `None` if the engine only knows that the line is beyond its limit.
pub(super) fn of_error(error: &Error) -> Option<usize> {
    let line = error.line()?;
    if line < usize::from(u16::MAX) {
        return Some(line);
    }
    let start = error.range()?.start;
    Some(Lines::new(error.template_source()?).at(start))
}
