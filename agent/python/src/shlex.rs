//! Python's `shlex`: splitting a line into words as a shell does, and quoting.

/// Splits a line into words. Quotes and backslashes group, and nothing is expanded.
///
/// # Errors
/// When a quotation or an escape is not finished, in Python's words.
pub fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\r' | '\n' => words.extend(word.take()),
            '\'' => until_quote(&mut chars, word.get_or_insert_default())?,
            '"' => until_double(&mut chars, word.get_or_insert_default())?,
            '\\' => word
                .get_or_insert_default()
                .push(chars.next().ok_or("No escaped character")?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

fn until_quote(chars: &mut impl Iterator<Item = char>, word: &mut String) -> Result<(), String> {
    for c in chars {
        if c == '\'' {
            return Ok(());
        }
        word.push(c);
    }
    Err("No closing quotation".into())
}

fn until_double(chars: &mut impl Iterator<Item = char>, word: &mut String) -> Result<(), String> {
    while let Some(c) = chars.next() {
        match c {
            '"' => return Ok(()),
            '\\' => match chars.next().ok_or("No escaped character")? {
                c @ ('"' | '\\') => word.push(c),
                c => word.extend(['\\', c]),
            },
            c => word.push(c),
        }
    }
    Err("No closing quotation".into())
}

/// Quotes a text as one word for a POSIX shell.
#[must_use]
pub fn quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\"'\"'"))
    }
}

/// Splits a line at white space as Salt's `build_whitespace_split_regex` does. Quoted parts stay
/// whole and keep their quotes.
///
/// # Errors
/// When a quotation is not closed.
pub fn parts(line: &str) -> Result<Vec<String>, String> {
    let quotes = if line.contains("'\\\"") {
        ""
    } else if line.contains('\'') {
        "\""
    } else if line.contains('"') {
        "'"
    } else {
        "'\""
    };
    let (mut parts, mut part, mut open) = (Vec::new(), String::new(), None);
    for c in line.chars() {
        match open {
            Some(quote) => {
                part.push(c);
                if c == quote {
                    open = None;
                    parts.push(std::mem::take(&mut part));
                }
            }
            None if matches!(c, ' ' | '\t' | '\r' | '\n') => {
                if !part.is_empty() {
                    parts.push(std::mem::take(&mut part));
                }
            }
            None => {
                if part.is_empty() && quotes.contains(c) {
                    open = Some(c);
                }
                part.push(c);
            }
        }
    }
    if open.is_some() {
        return Err("No closing quotation".into());
    }
    if !part.is_empty() {
        parts.push(part);
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_parts_stay_whole() {
        assert_eq!(parts(r#"a "b c" d'e"#).unwrap(), ["a", "\"b c\"", "d'e"]);
    }

    #[test]
    fn lines_split_as_python_splits_them() {
        for (line, want) in [
            ("a b  c", vec!["a", "b", "c"]),
            (r#"a 'b c' "d e""#, vec!["a", "b c", "d e"]),
            (r#"a\ b "x\"y\n" '\'"#, vec!["a b", "x\"y\\n", "\\"]),
            ("'' \"\"", vec!["", ""]),
            ("x'y'z #c", vec!["xyz", "#c"]),
            ("", vec![]),
        ] {
            assert_eq!(split(line).unwrap(), want, "{line}");
        }
        assert_eq!(split("a 'b").unwrap_err(), "No closing quotation");
        assert_eq!(split("a\\").unwrap_err(), "No escaped character");
    }

    #[test]
    fn a_quoted_word_splits_back_into_itself() {
        for text in ["", "a", "a b", "it's", "$x \"y\"", "ä"] {
            assert_eq!(split(&quote(text)).unwrap(), [text]);
        }
        assert_eq!(quote("a/b-1"), "a/b-1");
    }
}
