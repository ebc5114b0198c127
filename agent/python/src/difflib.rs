//! Unified diffs as Python's `difflib` writes them: `changes.diff` of the states that change text.
//!
//! The matching is Ratcliff's algorithm with difflib's treatment of frequent lines. No other common
//! diff algorithm gives the same result.

use std::collections::HashMap;
use std::hash::Hash;

use value::secret;

use crate::text;

/// Returns Salt's `stringutils.get_diff` of two files' bytes, split as Python splits bytes.
#[must_use]
pub fn of_bytes(old: &[u8], new: &[u8]) -> String {
    get_diff(
        &decoded(&text::split_bytes(old)),
        &decoded(&text::split_bytes(new)),
        "",
        "",
    )
}

/// Returns Salt's `stringutils.get_diff` of lines with their ends. The header contains the names of
/// the two files.
#[must_use]
pub fn get_diff<T: AsRef<str> + Eq + Hash>(old: &[T], new: &[T], from: &str, to: &str) -> String {
    unified(old, new, from, to).concat()
}

/// Returns Salt's text that replaces the diff when one of two files is binary; `None` when both are
/// text.
#[must_use]
pub fn binary(old: &[u8], new: &[u8]) -> Option<&'static str> {
    match (text::is_text(old), text::is_text(new)) {
        (true, true) => None,
        (false, false) => Some("Replace binary file"),
        (false, true) => Some("Replace binary file with text file"),
        (true, false) => Some("Replace text file with binary file"),
    }
}

/// Returns Salt's `file.get_diff` of two files' bytes without their names: `changes['diff']` of
/// managed files.
#[must_use]
pub fn of_files(old: &[u8], new: &[u8]) -> String {
    of_named_files(old, new, "", "")
}

/// Like [`of_files`], with the files' names.
#[must_use]
pub fn of_named_files(old: &[u8], new: &[u8], from: &str, to: &str) -> String {
    let lines = |data: &[u8]| -> Vec<String> {
        data.split_inclusive(|byte| *byte == b'\n')
            .map(text::decoded)
            .collect()
    };
    match binary(old, new) {
        _ if old == new => String::new(),
        Some(sentence) => sentence.to_owned(),
        None => get_diff(&lines(old), &lines(new), from, to),
    }
}

/// Decodes lines as UTF-8. If they are not UTF-8, each byte becomes a character.
#[must_use]
pub fn decoded(lines: &[&[u8]]) -> Vec<String> {
    lines.iter().map(|line| text::decoded(line)).collect()
}

/// Returns the lines of `difflib.unified_diff` with three lines of context. Headers and ranges end
/// in a newline.
#[must_use]
pub fn unified<T: AsRef<str> + Eq + Hash>(
    old: &[T],
    new: &[T],
    from: &str,
    to: &str,
) -> Vec<String> {
    let mut lines = Vec::new();
    for group in grouped(&opcodes(old, new), 3) {
        if lines.is_empty() {
            lines.push(format!("--- {from}\n"));
            lines.push(format!("+++ {to}\n"));
        }
        if let (Some(first), Some(last)) = (group.first(), group.last()) {
            let was = range(first.old.0, last.old.1);
            let is = range(first.new.0, last.new.1);
            lines.push(format!("@@ -{was} +{is} @@\n"));
        }
        for code in &group {
            put(&mut lines, code, old, new);
        }
    }
    lines
}

fn put<T: AsRef<str>>(lines: &mut Vec<String>, code: &Opcode, old: &[T], new: &[T]) {
    let mut mark = |sign: char, from: &[T]| {
        lines.extend(from.iter().map(|line| format!("{sign}{}", line.as_ref())));
    };
    let (was, is) = (slice(old, code.old), slice(new, code.new));
    if code.equal {
        mark(' ', was);
    } else if is.iter().any(|line| secret::is_in(line.as_ref())) {
        // The text that a secret replaces was an earlier secret, which can no longer be recognized.
        // So it is masked as well.
        let covered: Vec<String> = was.iter().map(|line| covered(line.as_ref())).collect();
        lines.extend(covered);
        lines.extend(is.iter().map(|line| format!("+{}", line.as_ref())));
    } else {
        mark('-', was);
        mark('+', is);
    }
}

fn covered(line: &str) -> String {
    let end = if line.ends_with('\n') { "\n" } else { "" };
    format!("-{}{end}", secret::MASK)
}

fn slice<T>(items: &[T], (start, end): (usize, usize)) -> &[T] {
    items.get(start..end).unwrap_or_default()
}

fn range(start: usize, end: usize) -> String {
    match end - start {
        1 => format!("{}", start + 1),
        0 => format!("{start},0"),
        length => format!("{},{length}", start + 1),
    }
}

/// A stretch of both sides that is equal, or that was replaced.
#[derive(Clone, Debug)]
struct Opcode {
    equal: bool,
    old: (usize, usize),
    new: (usize, usize),
}

/// A run of equal lines: its start on both sides, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Block {
    old: usize,
    new: usize,
    size: usize,
}

fn opcodes<T: Eq + Hash>(old: &[T], new: &[T]) -> Vec<Opcode> {
    let (mut i, mut j) = (0, 0);
    let mut codes = Vec::new();
    for block in Matcher::new(old, new).blocks() {
        if i < block.old || j < block.new {
            codes.push(Opcode {
                equal: false,
                old: (i, block.old),
                new: (j, block.new),
            });
        }
        (i, j) = (block.old + block.size, block.new + block.size);
        if block.size > 0 {
            codes.push(Opcode {
                equal: true,
                old: (block.old, i),
                new: (block.new, j),
            });
        }
    }
    codes
}

/// Groups the changes, with up to `context` equal lines around them.
fn grouped(codes: &[Opcode], context: usize) -> Vec<Vec<Opcode>> {
    let mut codes = codes.to_vec();
    if let Some(first) = codes.first_mut().filter(|code| code.equal) {
        keep_last(first, context);
    }
    if let Some(last) = codes.last_mut().filter(|code| code.equal) {
        keep_first(last, context);
    }
    let (mut groups, mut group) = (Vec::new(), Vec::new());
    for mut code in codes {
        if code.equal && code.old.1 - code.old.0 > 2 * context {
            let mut end = code.clone();
            keep_first(&mut end, context);
            group.push(end);
            groups.push(std::mem::take(&mut group));
            keep_last(&mut code, context);
        }
        group.push(code);
    }
    groups.push(group);
    groups.retain(|group| group.iter().any(|code| !code.equal));
    groups
}

fn keep_last(code: &mut Opcode, count: usize) {
    code.old.0 = code.old.0.max(code.old.1.saturating_sub(count));
    code.new.0 = code.new.0.max(code.new.1.saturating_sub(count));
}

fn keep_first(code: &mut Opcode, count: usize) {
    code.old.1 = code.old.1.min(code.old.0 + count);
    code.new.1 = code.new.1.min(code.new.0 + count);
}

struct Matcher<'t, T> {
    old: &'t [T],
    new: &'t [T],
    /// The positions of each line in `new`, without lines that are too frequent to help.
    places: HashMap<&'t T, Vec<usize>>,
}

/// The part of both sides that is not matched yet.
#[derive(Clone, Copy)]
struct Window {
    old: (usize, usize),
    new: (usize, usize),
}

impl<'t, T: Eq + Hash> Matcher<'t, T> {
    fn new(old: &'t [T], new: &'t [T]) -> Self {
        let mut places: HashMap<&T, Vec<usize>> = HashMap::new();
        for (index, line) in new.iter().enumerate() {
            places.entry(line).or_default().push(index);
        }
        if new.len() >= 200 {
            let often = new.len() / 100 + 1;
            places.retain(|_, at| at.len() <= often);
        }
        Self { old, new, places }
    }

    /// Returns the runs of equal lines in order. Adjacent ones are joined, and an empty one is at
    /// the end.
    fn blocks(&self) -> Vec<Block> {
        let mut windows = vec![Window {
            old: (0, self.old.len()),
            new: (0, self.new.len()),
        }];
        let mut found = Vec::new();
        while let Some(window) = windows.pop() {
            let best = self.longest(window);
            if best.size == 0 {
                continue;
            }
            found.push(best);
            windows.push(Window {
                old: (window.old.0, best.old),
                new: (window.new.0, best.new),
            });
            windows.push(Window {
                old: (best.old + best.size, window.old.1),
                new: (best.new + best.size, window.new.1),
            });
        }
        value::sorted::sort(&mut found);
        joined(found, self.old.len(), self.new.len())
    }

    fn longest(&self, window: Window) -> Block {
        let mut best = Block {
            old: window.old.0,
            new: window.new.0,
            size: 0,
        };
        // For each line of `new`: the length of the run that ends there and at the line of `old`
        // before this one.
        let mut lengths: HashMap<usize, usize> = HashMap::new();
        for i in window.old.0..window.old.1 {
            let mut next = HashMap::new();
            let places = self.old.get(i).and_then(|line| self.places.get(line));
            for &j in places.into_iter().flatten() {
                if j < window.new.0 {
                    continue;
                }
                if j >= window.new.1 {
                    break;
                }
                let before = j.checked_sub(1).and_then(|j| lengths.get(&j));
                let size = before.copied().unwrap_or(0) + 1;
                next.insert(j, size);
                if size > best.size {
                    best = Block {
                        old: i + 1 - size,
                        new: j + 1 - size,
                        size,
                    };
                }
            }
            lengths = next;
        }
        self.widened(best, window)
    }

    /// Extends a run by frequent lines around it, which the search has left out.
    fn widened(&self, mut best: Block, window: Window) -> Block {
        while best.old > window.old.0
            && best.new > window.new.0
            && self.old.get(best.old - 1) == self.new.get(best.new - 1)
        {
            best = Block {
                old: best.old - 1,
                new: best.new - 1,
                size: best.size + 1,
            };
        }
        while best.old + best.size < window.old.1
            && best.new + best.size < window.new.1
            && self.old.get(best.old + best.size) == self.new.get(best.new + best.size)
        {
            best.size += 1;
        }
        best
    }
}

fn joined(found: Vec<Block>, old: usize, new: usize) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for block in found {
        match blocks.last_mut() {
            Some(last)
                if last.old + last.size == block.old && last.new + last.size == block.new =>
            {
                last.size += block.size;
            }
            _ => blocks.push(block),
        }
    }
    blocks.push(Block { old, new, size: 0 });
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_is_difflibs() {
        let old = b"a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\n";
        let new = b"a\nB\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl";
        let want = "--- \n+++ \n@@ -1,5 +1,5 @@\n a\n-b\n+B\n c\n d\n e\n@@ -9,4 +9,4 @@\n i\n j\n k\n-l\n+l";
        assert_eq!(of_bytes(old, new), want);
        assert_eq!(of_bytes(old, old), "");
        assert_eq!(of_bytes(b"", b"x\n"), "--- \n+++ \n@@ -0,0 +1 @@\n+x\n");
    }

    #[test]
    fn a_file_that_is_binary_is_named_and_not_shown() {
        assert_eq!(
            of_files(b"a\n", b"\0\x01"),
            "Replace text file with binary file"
        );
        assert_eq!(of_files(b"\0", b"\0\x01"), "Replace binary file");
        assert_eq!(of_files(b"", b"x"), "--- \n+++ \n@@ -0,0 +1 @@\n+x");
    }
}
