//! Spaces in tags that are not ASCII's: one without a break, say, out of a document. Python takes each for a space, the engine none.

use std::borrow::Cow;

use minijinja::machinery::tokenize;
use minijinja::syntax::SyntaxConfig;

/// Bytes that are looked at for such spaces: each place is another look at the whole template. What is left then the engine refuses.
const LOOKED_AT_MAX: usize = 64 << 20;

/// The template with plain spaces in place of others in its tags, each of as many bytes: nothing moves. Texts stay as they are.
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

/// Where the spaces stand that the engine stops at.
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
