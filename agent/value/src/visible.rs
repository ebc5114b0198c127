//! Makes text from others safe for a terminal or a log: characters that a terminal would obey
//! become visible escapes.

use crate::PushFmt;
use std::borrow::Cow;

/// The indentation of a continuation line in the log: only the first line of a message begins at
/// the left margin.
const CONTINUATION: &str = "    ";

/// Returns true for characters that a terminal obeys instead of showing them: control characters
/// except line feed and tab, and those that change the direction of writing, which let one name
/// look like another.
#[must_use]
pub fn is_obeyed(sign: char) -> bool {
    let is_control = sign.is_control() && !matches!(sign, '\n' | '\t');
    is_control || matches!(sign, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Appends the escape of a character: `\u001b`, which JSON reads back as the same character.
fn push_escape(out: &mut String, sign: char) {
    out.push_fmt(format_args!("\\u{:04x}", u32::from(sign)));
}

/// Returns the text with every character that a terminal obeys as an escape. A line may end with
/// `\r\n`.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    kept(text, |_| None)
}

/// Like [`text`], but `keep` returns how many bytes at the start of the rest stay unchanged.
#[must_use]
pub fn kept(text: &str, keep: impl Fn(&str) -> Option<usize>) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(sign) = rest.chars().next() {
        let is_line_end = rest.starts_with("\r\n");
        let whole = sign.len_utf8();
        let length = match is_obeyed(sign) {
            true if is_line_end => Some(2),
            true => keep(rest),
            false => Some(whole),
        };
        if length.is_none() {
            push_escape(&mut out, sign);
        }
        let (before, after) = rest
            .split_at_checked(length.unwrap_or(whole))
            .unwrap_or((rest, ""));
        if length.is_some() {
            out.push_str(before);
        }
        rest = after;
    }
    Cow::Owned(out)
}

/// Returns a log message whose lines after the first are indented, so that no part of it can look
/// like a separate message.
#[must_use]
pub fn log_message(message: &str) -> Cow<'_, str> {
    let message = text(message);
    if !message.contains(['\n', '\u{2028}', '\u{2029}']) {
        return message;
    }
    let lines = message.trim_end_matches(['\r', '\n']);
    let lines = lines.replace(['\u{2028}', '\u{2029}'], "\n");
    Cow::Owned(
        lines
            .replace("\r\n", "\n")
            .replace('\n', &format!("\n{CONTINUATION}")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_becomes_visible() {
        assert_eq!(text("a\tb\nc\r\nü"), "a\tb\nc\r\nü");
        assert!(matches!(text("plain"), Cow::Borrowed("plain")));
        assert_eq!(
            text("\x1b]0;x\x07 a\rb \u{9b}31m \u{202e}c\u{2069}\0\x7f"),
            "\\u001b]0;x\\u0007 a\\u000db \\u009b31m \\u202ec\\u2069\\u0000\\u007f"
        );
        let keeps = |rest: &str| rest.starts_with("\x1b[0m").then_some(4);
        assert_eq!(kept("\x1b[0ma\x1b[1m", keeps), "\x1b[0ma\\u001b[1m");
    }

    #[test]
    fn a_message_has_one_line_at_the_left() {
        assert_eq!(log_message("one"), "one");
        assert_eq!(
            log_message("bye\r\n2026-01-01 [CRITICAL] forged\u{2028}more\x1b[2J\n\n"),
            "bye\n    2026-01-01 [CRITICAL] forged\n    more\\u001b[2J"
        );
    }
}
