//! Translates Python's pattern syntax to that of the engine. Every construct is written out
//! explicitly, so that none of the engine's flags is needed.

use super::{Error, Flags, Subject};

/// A pattern for the engine, with its groups.
pub(super) struct Translated {
    pub(super) source: String,
    pub(super) names: Vec<(String, usize)>,
    pub(super) groups: usize,
}

/// The maximum nesting depth of a pattern.
const MAX_DEPTH: usize = 100;

pub(super) fn translated(
    pattern: &str,
    flags: Flags,
    subject: Subject,
) -> Result<Translated, Error> {
    let bytes = matches!(subject, Subject::Bytes(_));
    if bytes && flags.has(Flags::UNICODE) {
        return Err(Error::Flags(
            "cannot use UNICODE flag with a bytes pattern".into(),
        ));
    }
    if !bytes && flags.has(Flags::LOCALE) {
        return Err(Error::Flags(
            "cannot use LOCALE flag with a str pattern".into(),
        ));
    }
    let mut parser = Parser {
        chars: pattern.chars().collect(),
        at: 0,
        out: String::new(),
        groups: 0,
        names: Vec::new(),
        ascii: bytes || flags.has(Flags::ASCII),
        plain_word_ends: subject == Subject::Bytes(true),
    };
    let flags = parser.global_flags(flags)?;
    parser.ascii |= flags.has(Flags::ASCII);
    parser.alternatives(flags, 0)?;
    if parser.at < parser.chars.len() {
        return parser.wrong("unbalanced parenthesis", parser.at);
    }
    Ok(Translated {
        source: parser.out,
        names: parser.names,
        groups: parser.groups,
    })
}

struct Parser {
    chars: Vec<char>,
    at: usize,
    out: String,
    groups: usize,
    names: Vec<(String, usize)>,
    /// `\w`, `\d`, `\s` match ASCII only.
    ascii: bool,
    /// True if the engine's own `\b` also matches ASCII only, because the subject is ASCII.
    plain_word_ends: bool,
}

impl Parser {
    fn wrong<T>(&self, problem: impl Into<String>, at: usize) -> Result<T, Error> {
        Err(Error::Syntax {
            problem: problem.into(),
            at,
        })
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek();
        self.at += 1;
        c
    }

    fn eat(&mut self, wanted: &str) -> bool {
        let there = wanted
            .chars()
            .enumerate()
            .all(|(offset, c)| self.chars.get(self.at + offset) == Some(&c));
        if there {
            self.at += wanted.chars().count();
        }
        there
    }

    /// Reads `(?i)` and similar flags at the very start.
    fn global_flags(&mut self, mut flags: Flags) -> Result<Flags, Error> {
        while let Some(more) = self.flags_group() {
            flags = flags.with(more);
        }
        if self.ascii && flags.has(Flags::UNICODE) && self.plain_word_ends {
            return Err(Error::Flags(
                "bad inline flags: cannot use 'u' flag with a bytes pattern".into(),
            ));
        }
        Ok(flags)
    }

    /// Reads `(?letters)`, if it is next.
    fn flags_group(&mut self) -> Option<Flags> {
        let start = self.at;
        if self.eat("(?") {
            let mut flags = Flags::NONE;
            while let Some(flag) = self.peek().and_then(Flags::of_letter) {
                flags = flags.with(flag);
                self.at += 1;
            }
            if flags != Flags::NONE && self.eat(")") {
                return Some(flags);
            }
        }
        self.at = start;
        None
    }

    fn alternatives(&mut self, flags: Flags, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return self.wrong("too many nested groups", self.at);
        }
        loop {
            self.sequence(flags, depth)?;
            if !self.eat("|") {
                return Ok(());
            }
            self.out.push('|');
        }
    }

    fn sequence(&mut self, flags: Flags, depth: usize) -> Result<(), Error> {
        loop {
            if flags.has(Flags::VERBOSE) {
                self.skip_blanks();
            }
            match self.peek() {
                None | Some('|' | ')') => return Ok(()),
                Some(_) => self.item(flags, depth)?,
            }
        }
    }

    fn skip_blanks(&mut self) {
        while let Some(c) = self.peek() {
            if c == '#' {
                while self.peek().is_some_and(|c| c != '\n') {
                    self.at += 1;
                }
            } else if !matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}') {
                return;
            } else {
                self.at += 1;
            }
        }
    }

    fn item(&mut self, flags: Flags, depth: usize) -> Result<(), Error> {
        let (start, written) = (self.at, self.out.len());
        if let Some(found) = self.quantifier()? {
            let _ = found;
            return self.wrong("nothing to repeat", start);
        }
        let repeatable = match self.next() {
            Some('(') => self.group(flags, depth, start)?,
            Some('[') => self.set(flags, start).map(|()| true)?,
            Some('\\') => self.escape(flags, start)?,
            Some('.') => {
                self.out.push_str(if flags.has(Flags::DOTALL) {
                    r"[\s\S]"
                } else {
                    r"[^\n]"
                });
                true
            }
            Some('^') => {
                let multi = flags.has(Flags::MULTILINE);
                self.out.push_str(if multi { "(?m:^)" } else { r"\A" });
                false
            }
            Some('$') => {
                let multi = flags.has(Flags::MULTILINE);
                self.out
                    .push_str(if multi { "(?m:$)" } else { r"(?=\n?\z)" });
                false
            }
            Some(c) => {
                self.literal(c, flags);
                true
            }
            None => return Ok(()),
        };
        self.repeated(flags, written, repeatable)
    }

    /// Reads the quantifier of an item, if there is one.
    fn repeated(&mut self, flags: Flags, written: usize, repeatable: bool) -> Result<(), Error> {
        if flags.has(Flags::VERBOSE) {
            self.skip_blanks();
        }
        let start = self.at;
        let Some(quantifier) = self.quantifier()? else {
            return Ok(());
        };
        if self.out.len() == written {
            return self.wrong("nothing to repeat", start);
        }
        let item = self.out.split_off(written);
        if repeatable {
            self.out.push_str(&item);
        } else {
            // An anchor must be wrapped before it can be repeated.
            self.out.push_str(&format!("(?:{item})"));
        }
        self.out.push_str(&quantifier);
        if let Some(c) = self.peek().filter(|c| matches!(c, '?' | '+')) {
            self.out.push(c);
            self.at += 1;
        }
        let again = self.at;
        match self.quantifier()? {
            Some(_) => self.wrong("multiple repeat", again),
            None => Ok(()),
        }
    }

    /// Reads `*`, `+`, `?`, `{m}`, `{m,}`, `{,n}` or `{m,n}`; any other brace is a literal
    /// character.
    fn quantifier(&mut self) -> Result<Option<String>, Error> {
        let start = self.at;
        match self.peek() {
            Some(c @ ('*' | '+' | '?')) => {
                self.at += 1;
                Ok(Some(c.into()))
            }
            Some('{') => {
                self.at += 1;
                let low = self.digits();
                let range = self.eat(",");
                let high = if range { self.digits() } else { String::new() };
                if !self.eat("}") || (low.is_empty() && !range) {
                    self.at = start;
                    return Ok(None);
                }
                let least = if low.is_empty() { "0" } else { &low };
                let number = |text: &str| text.parse::<u64>().unwrap_or(u64::MAX);
                if range && !high.is_empty() && number(&high) < number(least) {
                    return self.wrong("min repeat greater than max repeat", start + 1);
                }
                Ok(Some(if range {
                    format!("{{{least},{high}}}")
                } else {
                    format!("{{{least}}}")
                }))
            }
            _ => Ok(None),
        }
    }

    fn digits(&mut self) -> String {
        let mut digits = String::new();
        while let Some(digit @ '0'..='9') = self.peek() {
            digits.push(digit);
            self.at += 1;
        }
        digits
    }

    /// Reads the rest of a group after `(`. Returns false when the result must be wrapped before it
    /// can be repeated.
    fn group(&mut self, flags: Flags, depth: usize, start: usize) -> Result<bool, Error> {
        if !self.eat("?") {
            self.groups += 1;
            return self.inside("(", flags, depth, start);
        }
        for look in ["<=", "<!", "=", "!"] {
            if self.eat(look) {
                return self
                    .inside(&format!("(?{look}"), flags, depth, start)
                    .map(|_| false);
            }
        }
        match self.peek() {
            Some(':') => {
                self.at += 1;
                self.inside("(?:", flags, depth, start)
            }
            Some('>') => {
                self.at += 1;
                self.inside("(?>", flags, depth, start)
            }
            Some('#') => self.comment(start),
            Some('P') => self.named(flags, depth, start),
            Some('(') => self.conditional(flags, depth, start),
            Some('<') => {
                let next = self.chars.get(self.at + 1);
                let shown = next.map_or_else(String::new, char::to_string);
                self.wrong(format!("unknown extension ?<{shown}"), start + 1)
            }
            Some(_) => self.scoped(flags, depth, start),
            None => self.wrong("unexpected end of pattern", self.at),
        }
    }

    fn inside(
        &mut self,
        open: &str,
        flags: Flags,
        depth: usize,
        start: usize,
    ) -> Result<bool, Error> {
        self.out.push_str(open);
        self.alternatives(flags, depth + 1)?;
        if !self.eat(")") {
            return self.wrong("missing ), unterminated subpattern", start);
        }
        self.out.push(')');
        Ok(true)
    }

    fn comment(&mut self, start: usize) -> Result<bool, Error> {
        while let Some(c) = self.next() {
            if c == ')' {
                return Ok(true);
            }
        }
        self.wrong("missing ), unterminated comment", start)
    }

    /// Reads `(?P<name>…)` and `(?P=name)`.
    fn named(&mut self, flags: Flags, depth: usize, start: usize) -> Result<bool, Error> {
        self.at += 1;
        if self.eat("<") {
            let name = self.name('>')?;
            self.groups += 1;
            if let Some((_, index)) = self.names.iter().find(|(known, _)| *known == name) {
                let problem = format!(
                    "redefinition of group name '{name}' as group {}; was group {index}",
                    self.groups
                );
                return self.wrong(problem, start + 4);
            }
            self.names.push((name, self.groups));
            return self.inside("(", flags, depth, start);
        }
        if self.eat("=") {
            let at = self.at;
            let name = self.name(')')?;
            let Some((_, index)) = self.names.iter().find(|(known, _)| *known == name) else {
                return self.wrong(format!("unknown group name '{name}'"), at);
            };
            self.out.push_str(&backreference(*index, flags));
            return Ok(true);
        }
        let shown = self.peek().map_or_else(String::new, |c| c.to_string());
        self.wrong(format!("unknown extension ?P{shown}"), start + 1)
    }

    fn name(&mut self, end: char) -> Result<String, Error> {
        let start = self.at;
        let mut name = String::new();
        loop {
            match self.next() {
                Some(c) if c == end => break,
                Some(c) => name.push(c),
                None => return self.wrong(format!("missing {end}, unterminated name"), start),
            }
        }
        let fits = name.chars().all(|c| c.is_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_numeric());
        if name.is_empty() {
            return self.wrong("missing group name", start);
        }
        if !fits {
            return self.wrong(format!("bad character in group name '{name}'"), start);
        }
        Ok(name)
    }

    /// Reads `(?(1)yes|no)`.
    fn conditional(&mut self, flags: Flags, depth: usize, start: usize) -> Result<bool, Error> {
        self.at += 1;
        let at = self.at;
        let mut name = String::new();
        while let Some(c) = self.next().filter(|c| *c != ')') {
            name.push(c);
        }
        let index = match name.parse::<usize>() {
            Ok(index) if index >= 1 => index,
            Ok(_) => return self.wrong("bad group number", at),
            Err(_) => match self.names.iter().find(|(known, _)| *known == name) {
                Some((_, index)) => *index,
                None => return self.wrong(format!("unknown group name '{name}'"), at),
            },
        };
        self.inside(&format!("(?({index})"), flags, depth, start)
    }

    /// Reads `(?i:…)` or `(?-i:…)`; `(?i)` is allowed only at the start.
    fn scoped(&mut self, flags: Flags, depth: usize, start: usize) -> Result<bool, Error> {
        let (mut inner, mut off) = (flags, false);
        loop {
            match self.next() {
                Some('-') if !off => off = true,
                Some(':') => return self.inside("(?:", inner, depth, start),
                Some(')') if !off => {
                    return self.wrong("global flags not at the start of the expression", start);
                }
                Some(c) => match Flags::of_letter(c) {
                    Some(flag) if off => inner = inner.without(flag),
                    Some(flag) => inner = inner.with(flag),
                    None if self.at == start + 3 => {
                        return self.wrong(format!("unknown extension ?{c}"), start + 1);
                    }
                    None => return self.wrong("unknown flag", self.at - 1),
                },
                None => return self.wrong("missing -, : or )", self.chars.len()),
            }
        }
    }

    fn literal(&mut self, c: char, flags: Flags) {
        let cased = flags.has(Flags::IGNORECASE) && c.is_alphabetic();
        if cased {
            self.out.push_str("(?i:");
        }
        push_escaped(&mut self.out, c);
        if cased {
            self.out.push(')');
        }
    }

    /// Reads an escape outside of a set, after its backslash. Returns false when the result must be
    /// wrapped before it can be repeated.
    fn escape(&mut self, flags: Flags, start: usize) -> Result<bool, Error> {
        let Some(c) = self.next() else {
            return self.wrong("bad escape (end of pattern)", start);
        };
        match c {
            'A' => self.out.push_str(r"\A"),
            'Z' => self.out.push_str(r"\z"),
            'b' | 'B' => {
                let own = self.plain_word_ends || !self.ascii;
                let word = "[0-9A-Za-z_]";
                match (own, c) {
                    (true, c) => self.out.push_str(&format!("\\{c}")),
                    (false, 'b') => self
                        .out
                        .push_str(&format!("(?:(?<={word})(?!{word})|(?<!{word})(?={word}))")),
                    (false, _) => self
                        .out
                        .push_str(&format!("(?:(?<={word})(?={word})|(?<!{word})(?!{word}))")),
                }
            }
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => {
                self.out.push_str(&self.class(c));
                return Ok(true);
            }
            '1'..='9' => return self.back_or_octal(c, flags, start),
            c => {
                let c = self.character(c, start)?;
                self.literal(c, flags);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads a group as in `\12`, or an octal number as in `\123`.
    fn back_or_octal(&mut self, first: char, flags: Flags, start: usize) -> Result<bool, Error> {
        let mut digits = String::from(first);
        if let Some(second @ '0'..='9') = self.peek() {
            self.at += 1;
            digits.push(second);
            let third = self.peek().filter(|c| ('0'..='7').contains(c));
            if let Some(third) = third.filter(|_| digits.chars().all(|c| c < '8')) {
                self.at += 1;
                digits.push(third);
                let c = octal(&digits).map_or_else(
                    || {
                        let problem =
                            format!("octal escape value \\{digits} outside of range 0-0o377");
                        self.wrong(problem, start)
                    },
                    Ok,
                )?;
                self.literal(c, flags);
                return Ok(true);
            }
        }
        let index = digits.parse().unwrap_or(usize::MAX);
        if index > self.groups {
            return self.wrong(format!("invalid group reference {digits}"), start + 1);
        }
        self.out.push_str(&backreference(index, flags));
        Ok(true)
    }

    /// Returns the character of an escape, in a set or outside.
    fn character(&mut self, c: char, start: usize) -> Result<char, Error> {
        match c {
            'a' => Ok('\u{7}'),
            'f' => Ok('\u{c}'),
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            't' => Ok('\t'),
            'v' => Ok('\u{b}'),
            'x' => self.hexadecimal(c, 2, start),
            'u' if !self.ascii => self.hexadecimal(c, 4, start),
            'U' if !self.ascii => self.hexadecimal(c, 8, start),
            '0' => {
                let mut digits = String::from("0");
                while let Some(digit) = self.peek().filter(|c| ('0'..='7').contains(c)) {
                    if digits.len() == 3 {
                        break;
                    }
                    digits.push(digit);
                    self.at += 1;
                }
                Ok(octal(&digits).unwrap_or_default())
            }
            c if c.is_ascii_alphanumeric() => self.wrong(format!("bad escape \\{c}"), start),
            c => Ok(c),
        }
    }

    fn hexadecimal(&mut self, kind: char, length: usize, start: usize) -> Result<char, Error> {
        let mut digits = String::new();
        while let Some(digit) = self.peek().filter(char::is_ascii_hexdigit) {
            if digits.len() == length {
                break;
            }
            digits.push(digit);
            self.at += 1;
        }
        let code = u32::from_str_radix(&digits, 16).ok();
        match code
            .filter(|_| digits.len() == length)
            .and_then(char::from_u32)
        {
            Some(c) => Ok(c),
            None => self.wrong(format!("incomplete escape \\{kind}{digits}"), start),
        }
    }

    fn class(&self, letter: char) -> String {
        if !self.ascii {
            return format!("\\{letter}");
        }
        match letter {
            'd' => "[0-9]",
            'D' => "[^0-9]",
            's' => r"[\t\n\v\f\r ]",
            'S' => r"[^\t\n\v\f\r ]",
            'w' => "[0-9A-Za-z_]",
            _ => "[^0-9A-Za-z_]",
        }
        .into()
    }

    /// Reads a `[…]` set after its opening bracket.
    fn set(&mut self, flags: Flags, start: usize) -> Result<(), Error> {
        let cased = flags.has(Flags::IGNORECASE);
        let mut set = String::from(if cased { "(?i:[" } else { "[" });
        if self.eat("^") {
            set.push('^');
        }
        let first = self.at;
        loop {
            let at = self.at;
            let low = match self.next() {
                None => return self.wrong("unterminated character set", start),
                Some(']') if at > first => break,
                Some(c) => self.member(c, at)?,
            };
            let ranged = self.peek() == Some('-')
                && !matches!(self.chars.get(self.at + 1), None | Some(']'));
            match low {
                Member::Class(class) if !ranged => set.push_str(&class),
                Member::Char(c) if !ranged => push_escaped(&mut set, c),
                low => {
                    self.at += 1;
                    let high = match self.next() {
                        None => return self.wrong("unterminated character set", start),
                        Some(c) => self.member(c, self.at - 1)?,
                    };
                    match (low, high) {
                        (Member::Char(low), Member::Char(high)) if low <= high => {
                            push_escaped(&mut set, low);
                            set.push('-');
                            push_escaped(&mut set, high);
                        }
                        _ => {
                            let shown: String = self
                                .chars
                                .get(at..self.at)
                                .unwrap_or_default()
                                .iter()
                                .collect();
                            return self.wrong(format!("bad character range {shown}"), at);
                        }
                    }
                }
            }
        }
        set.push_str(if cased { "])" } else { "]" });
        self.out.push_str(&set);
        Ok(())
    }

    fn member(&mut self, c: char, at: usize) -> Result<Member, Error> {
        if c != '\\' {
            return Ok(Member::Char(c));
        }
        match self.next() {
            None => self.wrong("bad escape (end of pattern)", at),
            Some('b') => Ok(Member::Char('\u{8}')),
            Some(c @ ('d' | 'D' | 's' | 'S' | 'w' | 'W')) => Ok(Member::Class(self.class(c))),
            Some(first @ '1'..='7') => {
                let mut digits = String::from(first);
                while let Some(digit) = self.peek().filter(|c| ('0'..='7').contains(c)) {
                    if digits.len() == 3 {
                        break;
                    }
                    digits.push(digit);
                    self.at += 1;
                }
                Ok(Member::Char(octal(&digits).unwrap_or_default()))
            }
            Some(c) => self.character(c, at).map(Member::Char),
        }
    }
}

enum Member {
    Char(char),
    Class(String),
}

fn octal(digits: &str) -> Option<char> {
    let code = u32::from_str_radix(digits, 8).ok()?;
    char::from_u32(code).filter(|_| code <= 0o377)
}

fn backreference(index: usize, flags: Flags) -> String {
    // The reference is wrapped in a group, because a digit may follow.
    if flags.has(Flags::IGNORECASE) {
        format!("(?i:\\{index})")
    } else {
        format!("(?:\\{index})")
    }
}

fn push_escaped(out: &mut String, c: char) {
    if c.is_ascii_punctuation()
        && !matches!(
            c,
            '<' | '>' | '_' | '"' | '\'' | '/' | '%' | ',' | ':' | ';' | '=' | '@' | '`' | '!'
        )
    {
        out.push('\\');
    }
    out.push(c);
}
