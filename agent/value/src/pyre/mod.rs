//! Python's `re` on top of fancy-regex: its syntax, flags, replacement templates and messages.
//!
//! Salt searches files as bytes in places and as text in others. Bytes that are not ASCII are mapped to characters of the same number,
//! so that one `.` is one byte there too.

mod flags;
mod template;
mod translate;

pub use flags::Flags;
pub use template::Template;

/// Why a pattern or template cannot be used: Python's sentence where it has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The pattern or template is wrong at a character.
    #[error("{problem} at position {at}")]
    Syntax {
        /// What is wrong.
        problem: String,
        /// Where, counted from 0.
        at: usize,
    },
    /// Flags that do not exist or do not go together.
    #[error("{0}")]
    Flags(String),
    /// The engine does not have what the pattern needs.
    #[error("the regular expression '{pattern}' cannot be used: {problem}")]
    Unsupported {
        /// The pattern as it was given.
        pattern: String,
        /// The engine's reason.
        problem: String,
    },
    /// Searching would take too long.
    #[error(
        "the regular expression '{0}' takes too many steps on this text: make it more definite"
    )]
    TooManySteps(String),
    /// Replacing would fill the memory.
    #[error("replacing makes a text of more than {0} bytes: shorten the replacement")]
    TooLong(usize),
}

/// How many bytes the text may have after replacing beyond four times what it had.
const GROWTH_MAX: usize = 32 << 20;

/// What a pattern is searched in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Python's `str`.
    Text,
    /// Python's `bytes`, with every byte a character; `true` when all are ASCII.
    Bytes(bool),
}

/// Where a match may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Anywhere: `re.search`, `re.sub`.
    Anywhere,
    /// At the start: `re.match`.
    Start,
}

/// A compiled pattern.
#[derive(Debug)]
pub struct Regex {
    engine: fancy_regex::Regex,
    pattern: String,
    /// The groups that have a name.
    names: Vec<(String, usize)>,
    groups: usize,
}

/// Patterns that backtrack are given up after so many steps.
const MAX_STEPS: usize = 20_000_000;

impl Regex {
    /// Compiles a pattern that is searched anywhere in a text.
    ///
    /// # Errors
    /// When the pattern is wrong.
    pub fn new(pattern: &str, flags: Flags) -> Result<Self, Error> {
        Self::compiled(pattern, flags, Subject::Text, Anchor::Anywhere)
    }

    /// Compiles a pattern.
    ///
    /// # Errors
    /// When the pattern is wrong.
    pub fn compiled(
        pattern: &str,
        flags: Flags,
        subject: Subject,
        anchor: Anchor,
    ) -> Result<Self, Error> {
        let translated = translate::translated(pattern, flags, subject)?;
        let source = match anchor {
            Anchor::Anywhere => translated.source,
            Anchor::Start => format!(r"\A(?:{})", translated.source),
        };
        let engine = fancy_regex::RegexBuilder::new(&source)
            .backtrack_limit(MAX_STEPS)
            .build()
            .map_err(|error| Error::Unsupported {
                pattern: pattern.to_owned(),
                problem: error.to_string(),
            })?;
        Ok(Self {
            engine,
            pattern: pattern.to_owned(),
            names: translated.names,
            groups: translated.groups,
        })
    }

    /// True when it matches somewhere.
    ///
    /// # Errors
    /// When that takes too long.
    pub fn is_match(&self, text: &str) -> Result<bool, Error> {
        self.engine.is_match(text).map_err(|_| self.too_many())
    }

    /// The first match at or after a place.
    ///
    /// # Errors
    /// When that takes too long.
    pub fn captures<'t>(
        &self,
        text: &'t str,
        from: usize,
    ) -> Result<Option<fancy_regex::Captures<'t>>, Error> {
        self.engine
            .captures_from_pos(text, from)
            .map_err(|_| self.too_many())
    }

    /// Python's `subn`: the text with up to `count` matches replaced (0: all), and how many were.
    ///
    /// # Errors
    /// When searching takes too long, or the text grows too long.
    pub fn subn(
        &self,
        template: &Template,
        text: &str,
        count: usize,
    ) -> Result<(String, usize), Error> {
        let (mut out, mut done, mut from, mut replaced) = (String::new(), 0, 0, 0);
        let most = text.len().saturating_mul(4).saturating_add(GROWTH_MAX);
        while (count == 0 || replaced < count) && from <= text.len() {
            let Some(found) = self.captures(text, from)? else {
                break;
            };
            let Some(whole) = found.get(0) else { break };
            out.push_str(text.get(done..whole.start()).unwrap_or_default());
            template.expand(&found, &mut out);
            if out.len() > most {
                return Err(Error::TooLong(most));
            }
            (done, replaced) = (whole.end(), replaced + 1);
            // Another empty match at this place would be the same one.
            from = if whole.start() == whole.end() {
                after(text, whole.end())
            } else {
                whole.end()
            };
        }
        out.push_str(text.get(done..).unwrap_or_default());
        Ok((out, replaced))
    }

    /// A replacement template for this pattern.
    ///
    /// # Errors
    /// When it names a group that the pattern does not have.
    pub fn template(&self, template: &str) -> Result<Template, Error> {
        template::parsed(template, &self.names, self.groups)
    }

    fn too_many(&self) -> Error {
        Error::TooManySteps(self.pattern.clone())
    }
}

fn after(text: &str, place: usize) -> usize {
    let next = text.get(place..).and_then(|rest| rest.chars().next());
    place + next.map_or(1, char::len_utf8)
}

/// Python's `re.escape`.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "()[]{}?*+-|^$\\.&~# \t\n\r\u{b}\u{c}".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Every byte a character of the same number.
#[must_use]
pub fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// The bytes of such a text.
#[must_use]
pub fn unlatin(text: &str) -> Vec<u8> {
    text.chars().map(|c| c as u32 as u8).collect()
}

/// A search in bytes: Salt's `file.search` and `file.replace` without an encoding.
#[derive(Debug)]
pub struct BytesSearch {
    regex: Regex,
    text: String,
}

impl BytesSearch {
    /// Compiles a pattern for these bytes.
    ///
    /// # Errors
    /// When the pattern is wrong.
    pub fn new(pattern: &str, flags: Flags, data: &[u8]) -> Result<Self, Error> {
        let subject = Subject::Bytes(data.is_ascii());
        let pattern = latin(pattern.as_bytes());
        Ok(Self {
            regex: Regex::compiled(&pattern, flags, subject, Anchor::Anywhere)?,
            text: latin(data),
        })
    }

    /// True when it is found.
    ///
    /// # Errors
    /// When that takes too long.
    pub fn is_match(&self) -> Result<bool, Error> {
        self.regex.is_match(&self.text)
    }

    /// Python's `subn` with a template, or a text that is put in as it is.
    ///
    /// # Errors
    /// When the template is wrong, or searching takes too long.
    pub fn subn(
        &self,
        replacement: &str,
        literal: bool,
        count: usize,
    ) -> Result<(Vec<u8>, usize), Error> {
        let replacement = latin(replacement.as_bytes());
        let template = if literal {
            Template::literal(replacement)
        } else {
            self.regex.template(&replacement)?
        };
        let (text, replaced) = self.regex.subn(&template, &self.text, count)?;
        Ok((unlatin(&text), replaced))
    }
}

#[cfg(test)]
mod tests;
