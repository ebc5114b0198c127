//! Text as Python's file objects and strings treat it: lines and their ends, and the detection of
//! binary files.

use value::pyre;

use crate::encoding::Encoding;

/// Python's `bytes.splitlines(True)`. Lines end in `\n`, `\r\n` or `\r`.
#[must_use]
pub fn split_bytes(data: &[u8]) -> Vec<&[u8]> {
    let (mut lines, mut rest) = (Vec::new(), data);
    while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
        let crlf = rest.get(end..end + 2) == Some(b"\r\n".as_slice());
        let (line, after) = rest.split_at(end + 1 + usize::from(crlf));
        lines.push(line);
        rest = after;
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

/// Returns the lines of a file opened for reading. They end in `\n`.
#[must_use]
pub fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Returns the lines of a file opened as text. They end in `\n`, `\r\n` or `\r`, and keep that end.
#[must_use]
pub fn file_lines(text: &str) -> Vec<&str> {
    split_after(text, |c| matches!(c, '\n' | '\r'))
}

/// Python's `str.splitlines(True)`, which recognizes more line ends than files do.
#[must_use]
pub fn split_lines(text: &str) -> Vec<&str> {
    split_after(text, ends_line)
}

fn split_after(text: &str, ends: fn(char) -> bool) -> Vec<&str> {
    let (mut lines, mut start) = (Vec::new(), 0);
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if !ends(c) {
            continue;
        }
        let mut end = at + c.len_utf8();
        if c == '\r' && chars.next_if(|(_, next)| *next == '\n').is_some() {
            end += 1;
        }
        lines.extend(text.get(start..end));
        start = end;
    }
    lines.extend(text.get(start..).filter(|rest| !rest.is_empty()));
    lines
}

/// Python's `str.splitlines()`: the lines without their ends.
#[must_use]
pub fn bare_lines(text: &str) -> Vec<&str> {
    split_lines(text)
        .into_iter()
        .map(|line| {
            line.strip_suffix("\r\n")
                .or_else(|| line.strip_suffix(ends_line))
                .unwrap_or(line)
        })
        .collect()
}

fn ends_line(c: char) -> bool {
    matches!(
        c,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// Decodes UTF-8. If the bytes are not UTF-8, each byte becomes a character.
#[must_use]
pub fn decoded(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| pyre::latin(bytes), str::to_owned)
}

/// Decodes bytes in an encoding with a Python name. The default is UTF-8.
///
/// # Errors
/// When the encoding is unknown, or the bytes are not in it.
pub fn decoded_as(bytes: &[u8], encoding: Option<&str>) -> Result<String, String> {
    let name = encoding.unwrap_or("utf-8");
    let text = Encoding::named(name)?.decode(bytes);
    text.ok_or_else(|| format!("The data is not valid text in the encoding {name}"))
}

/// Returns the result of Salt's `files.is_text` for contents, which examines their first 512 bytes.
#[must_use]
pub fn is_text(data: &[u8]) -> bool {
    let block = data.get(..512).unwrap_or(data);
    if block.contains(&0) {
        return false;
    }
    let high = match std::str::from_utf8(block) {
        Ok(_) => true,
        // Cut in the middle of a character.
        Err(error) => error.error_len().is_none(),
    };
    let plain = |byte: u8| {
        matches!(byte, 32..127 | b'\n' | b'\r' | b'\t' | 12 | 8)
            || (high && matches!(byte, 128..=254))
    };
    let odd = block.iter().filter(|byte| !plain(**byte)).count();
    odd * 10 <= block.len() * 3
}

/// Returns owned copies of lines.
#[must_use]
pub fn owned(lines: Vec<&str>) -> Vec<String> {
    lines.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_where_python_ends_them() {
        assert_eq!(
            split_lines("a\r\nb\u{c}c\n\nd"),
            ["a\r\n", "b\u{c}", "c\n", "\n", "d"]
        );
        assert_eq!(bare_lines("a\r\nb\u{85}"), ["a", "b"]);
        assert_eq!(
            split_bytes(b"a\rb\x0c\r\nc"),
            [&b"a\r"[..], b"b\x0c\r\n", b"c"]
        );
        assert!(is_text("grün\n".as_bytes()) && !is_text(b"a\0b") && is_text(b""));
    }
}
