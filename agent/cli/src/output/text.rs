//! The string functions of Python that Salt's layout depends on.

pub(crate) use value::nested::{sorted, split_keeping_ends, splitlines};

fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Returns `str.strip()`.
pub(crate) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Returns `str.rstrip()`.
pub(crate) fn rstrip(text: &str) -> &str {
    text.trim_end_matches(is_space)
}

/// Returns the number of characters in a text.
pub(crate) fn width(text: &str) -> usize {
    text.chars().count()
}

/// Disables the escape sequences in data by replacing each escape character with `?`.
pub(crate) fn without_escapes(text: &str) -> String {
    text.replace('\u{1b}', "?")
}

/// Returns `textwrap.fill` at 80 columns, with every line indented by 14.
pub(crate) fn fill(text: &str) -> String {
    const COLUMNS: usize = 80;
    const INDENT: usize = 14;
    let room = COLUMNS - INDENT;
    let mut chunks: std::collections::VecDeque<String> = chunks(text).into();
    let mut lines: Vec<String> = Vec::new();
    while !chunks.is_empty() {
        if !lines.is_empty() && chunks.front().is_some_and(|chunk| strip(chunk).is_empty()) {
            chunks.pop_front();
        }
        let line = take_line(&mut chunks, room);
        if !line.is_empty() {
            lines.push(format!("{:INDENT$}{line}", ""));
        }
    }
    lines.join("\n")
}

/// Takes the chunks of one line, without the white space at its end.
fn take_line(chunks: &mut std::collections::VecDeque<String>, room: usize) -> String {
    let mut line: Vec<String> = Vec::new();
    let mut used = 0;
    while let Some(chunk) = chunks.front() {
        let next = width(chunk);
        if used + next > room {
            break;
        }
        used += next;
        line.extend(chunks.pop_front());
    }
    if let Some(chunk) = chunks.pop_front_if(|chunk| width(chunk) > room) {
        let (head, tail) = break_word(&chunk, room - used);
        line.push(head);
        chunks.push_front(tail);
    }
    if line.last().is_some_and(|chunk| strip(chunk).is_empty()) {
        line.pop();
    }
    line.concat()
}

/// Splits a word that is longer than a line, after a hyphen if one fits on the line.
fn break_word(word: &str, room: usize) -> (String, String) {
    let head: String = word.chars().take(room).collect();
    let hyphen = head.rfind('-').filter(|at| {
        head.get(..*at)
            .is_some_and(|before| before.contains(|c| c != '-'))
    });
    let end = hyphen.map_or(head.len(), |at| at + 1);
    let (head, tail) = word.split_at(end);
    (head.to_owned(), tail.to_owned())
}

/// Splits a text where a line can break: around white space, after hyphens and around dashes.
fn chunks(text: &str) -> Vec<String> {
    let chars: Vec<char> = expand_tabs(text)
        .chars()
        .map(|c| {
            if matches!(c, '\t' | '\n' | '\u{b}' | '\u{c}' | '\r') {
                ' '
            } else {
                c
            }
        })
        .collect();
    let mut found = Vec::new();
    let mut start = 0;
    while start < chars.len() {
        let end = chunk_end(&chars, start);
        found.push(chars.iter().skip(start).take(end - start).collect());
        start = end;
    }
    found
}

fn expand_tabs(text: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for c in text.chars() {
        match c {
            '\t' => {
                let spaces = 8 - column % 8;
                out.extend(std::iter::repeat_n(' ', spaces));
                column += spaces;
            }
            c => {
                out.push(c);
                column = if matches!(c, '\n' | '\r') {
                    0
                } else {
                    column + 1
                };
            }
        }
    }
    out
}

fn chunk_end(chars: &[char], start: usize) -> usize {
    let at = |index: usize| chars.get(index).copied();
    let before = |index: usize| index.checked_sub(1).and_then(at);
    let run = |from: usize, is: fn(char) -> bool| {
        (from..chars.len())
            .find(|i| !at(*i).is_some_and(is))
            .unwrap_or(chars.len())
    };
    if at(start) == Some(' ') {
        return run(start, |c| c == ' ');
    }
    let dash = |from: usize| {
        let end = run(from, |c| c == '-');
        (end - from >= 2 && before(from).is_some_and(is_word_mark) && at(end).is_some_and(is_word))
            .then_some(end)
    };
    if let Some(end) = dash(start) {
        return end;
    }
    for end in start + 1..chars.len() {
        if at(end) == Some('-') && hyphen_breaks(chars, end) {
            return end + 1;
        }
        if at(end) == Some(' ') || dash(end).is_some() {
            return end;
        }
    }
    chars.len()
}

/// Reports whether a line can break after the hyphen at `index`, which needs letters on both sides.
fn hyphen_breaks(chars: &[char], index: usize) -> bool {
    let letter = |at: Option<usize>| {
        at.and_then(|at| chars.get(at))
            .is_some_and(|c| is_word(*c) && !c.is_numeric() && *c != '_')
    };
    let mark = |at: Option<usize>| at.and_then(|at| chars.get(at)).copied();
    let back = |by: usize| index.checked_sub(by);
    let two_letters = letter(back(1)) && letter(back(2));
    let one_between =
        mark(back(1)).is_some_and(is_word_mark) && mark(back(2)) == Some('-') && letter(back(3));
    let after = if mark(Some(index + 2)) == Some('-') {
        index + 3
    } else {
        index + 2
    };
    (two_letters || one_between) && letter(Some(index + 1)) && letter(Some(after))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_word_mark(c: char) -> bool {
    is_word(c) || matches!(c, '!' | '"' | '\'' | '&' | '.' | ',' | '?')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_split_where_python_splits_them() {
        assert_eq!(
            splitlines("a\r\nb\u{2028}c\n\nd\n"),
            ["a", "b", "c", "", "d"]
        );
        assert!(splitlines("").is_empty());
    }

    #[test]
    fn long_warnings_wrap_as_textwrap_wraps_them() {
        let text = "The 'names' argument of well-known-state is deprecated -- it goes away in 3010;use\tname instead, see https://example.org/a/very-long-path/that-does-not-fit/in-one-line/of/eighty/columns/at-all.html for more";
        let want = "              The 'names' argument of well-known-state is deprecated -- it goes\n              away in 3010;use      name instead, see\n              https://example.org/a/very-long-path/that-does-not-fit/in-one-\n              line/of/eighty/columns/at-all.html for more";
        assert_eq!(fill(text), want);
    }
}
