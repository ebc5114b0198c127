//! [`Template`]: a replacement for a match, in Python's notation.

use super::Error;
use crate::PushFmt;

/// A replacement that may refer to groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Group(usize),
}

impl Template {
    /// Creates a template from a text that is inserted unchanged.
    #[must_use]
    pub fn literal(text: String) -> Self {
        Self(vec![Piece::Text(text)])
    }

    /// Appends the replacement of a match.
    pub fn expand(&self, found: &fancy_regex::Captures<'_>, out: &mut String) {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Group(index) => {
                    out.push_str(found.get(*index).map_or("", |group| group.as_str()));
                }
            }
        }
    }

    fn push(&mut self, c: char) {
        if let Some(Piece::Text(text)) = self.0.last_mut() {
            text.push(c);
        } else {
            self.0.push(Piece::Text(c.into()));
        }
    }
}

fn wrong<T>(problem: impl Into<String>, at: usize) -> Result<T, Error> {
    Err(Error::Syntax {
        problem: problem.into(),
        at,
    })
}

/// Parses Python's replacement notation: `\1`, `\g<name>`, `\g<0>`, `\n`, octal numbers.
pub(super) fn parsed(
    text: &str,
    names: &[(String, usize)],
    groups: usize,
) -> Result<Template, Error> {
    let mut reader = Reader {
        chars: text.chars().collect(),
        at: 0,
        names,
        groups,
        template: Template(Vec::new()),
    };
    while let Some(c) = reader.next() {
        match c {
            '\\' => reader.escape()?,
            c => reader.template.push(c),
        }
    }
    Ok(reader.template)
}

struct Reader<'n> {
    chars: Vec<char>,
    at: usize,
    names: &'n [(String, usize)],
    groups: usize,
    template: Template,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek();
        self.at += 1;
        c
    }

    fn escape(&mut self) -> Result<(), Error> {
        let start = self.at - 1;
        match self.next() {
            None => return wrong("bad escape (end of pattern)", start),
            Some('g') => return self.named(start),
            Some(digit @ '0'..='9') => return self.number(digit, start),
            Some('\\') => self.template.push('\\'),
            Some(c) if c.is_ascii_alphabetic() => match control(c) {
                Some(control) => self.template.push(control),
                None => return wrong(format!("bad escape \\{c}"), start),
            },
            Some(c) => {
                self.template.push('\\');
                self.template.push(c);
            }
        }
        Ok(())
    }

    fn named(&mut self, start: usize) -> Result<(), Error> {
        if self.next() != Some('<') {
            return wrong("missing <", start + 2);
        }
        let mut name = String::new();
        loop {
            match self.next() {
                Some('>') => break,
                Some(c) => name.push(c),
                None => return wrong("missing >, unterminated name", start + 3),
            }
        }
        if name.is_empty() {
            return wrong("missing group name", start + 3);
        }
        if name.bytes().all(|byte| byte.is_ascii_digit()) {
            return self.group(name.parse().unwrap_or(usize::MAX), &name, start + 3);
        }
        match self.names.iter().find(|(known, _)| *known == name) {
            Some((_, index)) => {
                self.template.0.push(Piece::Group(*index));
                Ok(())
            }
            None => Err(Error::Flags(format!("unknown group name '{name}'"))),
        }
    }

    fn number(&mut self, first: char, start: usize) -> Result<(), Error> {
        let mut digits = String::from(first);
        while let Some(digit @ '0'..='9') = self.peek() {
            if digits.len() == 3 || (first != '0' && digits.len() == 2 && !self.octal(&digits)) {
                break;
            }
            if first == '0' && !matches!(digit, '0'..='7') {
                break;
            }
            digits.push(digit);
            self.at += 1;
        }
        if first == '0' || digits.len() == 3 {
            let code = u32::from_str_radix(&digits, 8).unwrap_or_default();
            if code > 0o377 {
                let mut problem = String::from("octal escape value \\");
                problem.push_fmt(format_args!("{digits} outside of range 0-0o377"));
                return wrong(problem, start);
            }
            self.template.push(char::from_u32(code).unwrap_or_default());
            return Ok(());
        }
        self.group(
            digits.parse().unwrap_or(usize::MAX),
            &digits.clone(),
            start + 1,
        )
    }

    /// Three octal digits are a character; two digits are a group.
    fn octal(&self, digits: &str) -> bool {
        matches!(self.peek(), Some('0'..='7'))
            && digits.chars().all(|digit| ('0'..='7').contains(&digit))
            && digits.starts_with(['0', '1', '2', '3'])
    }

    fn group(&mut self, index: usize, shown: &str, at: usize) -> Result<(), Error> {
        if index > self.groups {
            return wrong(format!("invalid group reference {shown}"), at);
        }
        self.template.0.push(Piece::Group(index));
        Ok(())
    }
}

fn control(c: char) -> Option<char> {
    Some(match c {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        _ => return None,
    })
}
