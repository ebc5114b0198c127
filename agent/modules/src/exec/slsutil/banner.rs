//! Builds the text of `slsutil.banner`.

use state::module::Error;

const TITLE: &str = "THIS FILE IS MANAGED BY SALT - DO NOT EDIT";
const TEXT: &str = "The contents of this file are managed by Salt. Any changes to this file may be overwritten automatically and without warning.";

/// Returns the lines of the block as one text.
pub(super) fn text(args: &super::Banner) -> Result<String, Error> {
    let (left, right) = (args.commentchar.trim_end(), args.commentchar.trim());
    let length = |text: &str| text.chars().count();
    let width = usize::try_from(args.width).unwrap_or_default();
    let inner = width.checked_sub(length(left) + length(right) + 2);
    let inner = inner
        .filter(|inner| *inner > 0)
        .ok_or("Width is too small to render banner")?;
    let border: String = args.borderchar.chars().take(1).collect();
    let border = border.repeat(width.saturating_sub(length(left) + length(right)));
    let border = format!("{}{border}{right}", args.commentchar);
    let blank = " ".repeat(width.saturating_sub(2 * length(&args.commentchar)));
    let spacer = format!("{0}{blank}{0}", args.commentchar);
    let mut lines: Vec<String> = args.blockstart.clone().into_iter().collect();
    lines.extend([border.clone(), spacer.clone()]);
    for line in wrapped(args.title.as_deref().unwrap_or(TITLE), inner) {
        lines.push(format!("{left} {} {right}", centred(&line, inner)));
    }
    lines.push(spacer);
    for line in wrapped(args.text.as_deref().unwrap_or(TEXT), inner) {
        lines.push(format!("{left} {line:inner$} {right}"));
    }
    lines.push(border);
    lines.extend(args.blockend.clone());
    let text = lines.join("\n");
    Ok(if args.newline { text + "\n" } else { text })
}

/// Centers a text like Python's `str.center`.
fn centred(text: &str, width: usize) -> String {
    let margin = width.saturating_sub(text.chars().count());
    let left = margin / 2 + (margin & width & 1);
    format!("{}{text}{}", " ".repeat(left), " ".repeat(margin - left))
}

/// Wraps a text like Python's `textwrap`: into lines of whole words. A word that is too long is
/// cut.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let (mut lines, mut line, mut used) = (Vec::new(), String::new(), 0);
    for (gap, chunk) in chunks(text) {
        let mut chunk: Vec<char> = chunk.chars().collect();
        let gap = if line.is_empty() { 0 } else { gap };
        if used + gap + chunk.len() > width && !line.is_empty() && chunk.len() <= width {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        let gap = if line.is_empty() { 0 } else { gap };
        line.push_str(&" ".repeat(gap));
        used += gap;
        while used + chunk.len() > width {
            let rest = chunk.split_off(width.saturating_sub(used).min(chunk.len()));
            line.extend(chunk);
            lines.push(line.trim_end().to_owned());
            (line, used, chunk) = (String::new(), 0, rest);
        }
        used += chunk.len();
        line.extend(chunk);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// Splits a text into words, and words at hyphens between letters. Each part comes with the number
/// of spaces before it.
fn chunks(text: &str) -> Vec<(usize, String)> {
    let mut chunks = Vec::new();
    let mut gap = 0;
    for word in text.split([' ', '\t', '\n', '\r']) {
        if word.is_empty() {
            gap += 1;
            continue;
        }
        let chars: Vec<char> = word.chars().collect();
        let letter = |index: Option<usize>| {
            index
                .and_then(|index| chars.get(index))
                .is_some_and(|c| c.is_alphabetic())
        };
        let mut part = String::new();
        for (index, c) in chars.iter().enumerate() {
            part.push(*c);
            if *c == '-' && letter(index.checked_sub(1)) && letter(Some(index + 1)) {
                chunks.push((gap, std::mem::take(&mut part)));
                gap = 0;
            }
        }
        chunks.push((gap, part));
        gap = 1;
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_wrapped_as_textwrap_does() {
        assert_eq!(wrapped("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(
            wrapped("well-known abcdefgh", 6),
            ["well-", "known", "abcdef", "gh"]
        );
        assert_eq!(centred("ab", 5), "  ab ");
    }
}
