//! Replaces spaces outside of ASCII in tags, such as no-break spaces copied from a document. Python
//! treats them as spaces; the engine does not.

use std::borrow::Cow;

use minijinja::machinery::tokenize;
use minijinja::syntax::SyntaxConfig;

/// The maximum number of bytes to scan for such spaces: each of them costs another scan of the
/// whole template. The engine refuses any that remain.
const LOOKED_AT_MAX: usize = 64 << 20;

/// Returns the template with ASCII spaces in place of other spaces in its tags. The number of bytes
/// stays the same, so nothing moves. String literals do not change.
pub(super) fn plain<'a>(source: &'a str, syntax: &SyntaxConfig) -> Cow<'a, str> {
    let mut text = Cow::Borrowed(source);
    if !source.chars().any(is_odd) {
        return text;
    }
    for _ in 0..LOOKED_AT_MAX / source.len() {
        let Some((start, end)) = refused(&text, syntax) else {
            break;
        };
        text.to_mut()
            .replace_range(start..end, &" ".repeat(end - start));
    }
    text
}

fn is_odd(c: char) -> bool {
    !c.is_ascii() && c.is_whitespace()
}

/// Returns the range of the spaces at which the engine stops.
fn refused(source: &str, syntax: &SyntaxConfig) -> Option<(usize, usize)> {
    let mut done = 0;
    for token in tokenize(source, false, syntax.clone()) {
        match token {
            Ok((_, span)) => done = span.end_offset as usize,
            Err(_) => {
                let rest = source.get(done..)?.trim_ascii_start();
                let start = source.len() - rest.len();
                let after = rest.trim_start_matches(is_odd);
                let end = source.len() - after.len();
                return (end > start).then_some((start, end));
            }
        }
    }
    None
}
