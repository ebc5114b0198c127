//! Python's `re` on top of fancy-regex: its syntax, flags, replacement templates and messages.
//!
//! Salt searches some files as bytes and others as text. Bytes outside of ASCII are mapped to
//! characters of the same number, so that one `.` is one byte there too.

mod flags;
mod template;
mod translate;

pub use flags::Flags;
pub use template::Template;

/// The reason why a pattern or template cannot be used, with Python's message if Python has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The pattern or template is wrong at a character.
    #[error("{problem} at position {at}")]
    Syntax {
        /// The problem.
        problem: String,
        /// The index of the character, from 0.
        at: usize,
    },
    /// Flags that do not exist or cannot be combined.
    #[error("{0}")]
    Flags(String),
    /// The engine does not support a construct of the pattern.
    #[error("the regular expression '{pattern}' cannot be used: {problem}")]
    Unsupported {
        /// The pattern as it was passed.
        pattern: String,
        /// The engine's reason.
        problem: String,
    },
    /// The search would take too long.
    #[error(
        "the regular expression '{0}' takes too many steps on this text: make it more specific"
    )]
    TooManySteps(String),
    /// The result of a replacement would fill the memory.
    #[error("the result of the replacement exceeds {0} bytes: shorten the replacement")]
    TooLong(usize),
}

/// The maximum number of bytes after a replacement, in addition to four times the original length.
const GROWTH_MAX: usize = 32 << 20;

/// The type of data that a pattern is searched in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Python's `str`.
    Text,
    /// Python's `bytes`, with each byte as a character; `true` when all are ASCII.
    Bytes(bool),
}

/// The place where a match may begin.
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
    /// The named groups, each with its number.
    names: Vec<(String, usize)>,
    groups: usize,
}

/// The maximum number of steps of a pattern that backtracks.
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

    /// Returns true when the pattern matches somewhere.
    ///
    /// # Errors
    /// When the search takes too long.
    pub fn is_match(&self, text: &str) -> Result<bool, Error> {
        self.engine.is_match(text).map_err(|_| self.too_many())
    }

    /// Returns the first match at or after an index in bytes.
    ///
    /// # Errors
    /// When the search takes too long.
    pub fn captures<'t>(
        &self,
        text: &'t str,
        from: usize,
    ) -> Result<Option<fancy_regex::Captures<'t>>, Error> {
        self.engine
            .captures_from_pos(text, from)
            .map_err(|_| self.too_many())
    }

    /// Replaces up to `count` matches (0: all), as Python's `subn`. Returns the text and the number
    /// of replacements.
    ///
    /// # Errors
    /// When the search takes too long, or the text becomes too long.
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
            // Another search from this place would find the same empty match.
            from = if whole.start() == whole.end() {
                after(text, whole.end())
            } else {
                whole.end()
            };
        }
        out.push_str(text.get(done..).unwrap_or_default());
        Ok((out, replaced))
    }

    /// Reads a replacement template for this pattern.
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

/// Escapes a text as Python's `re.escape` does.
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

/// Maps each byte to the character of the same number.
#[must_use]
pub fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// Maps the characters of a text from [`latin`] back to bytes.
#[must_use]
pub fn unlatin(text: &str) -> Vec<u8> {
    text.chars().map(|c| c as u32 as u8).collect()
}

/// A search in bytes, as in Salt's `file.search` and `file.replace` without an encoding.
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

    /// Returns true when the pattern is found.
    ///
    /// # Errors
    /// When the search takes too long.
    pub fn is_match(&self) -> Result<bool, Error> {
        self.regex.is_match(&self.text)
    }

    /// Replaces up to `count` matches, as Python's `subn`, with a template or, if `literal`, with
    /// the text itself.
    ///
    /// # Errors
    /// When the template is wrong, or the search takes too long.
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
