//! The error of a text that could not be rendered, with Salt's message and the place in the
//! template.

use std::fmt;
use std::sync::Arc;

use crate::advice::Advice;

/// The kind of an error; it decides how Salt's message begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `Jinja variable 'x' is undefined`.
    JinjaVariable,
    /// `Jinja syntax error: …`.
    JinjaSyntax,
    /// `Jinja error: …`.
    Jinja,
    /// `Problem running salt function in Jinja template: …`.
    Call,
    /// The YAML, JSON or TOML does not parse.
    Document,
    /// `found conflicting ID 'x'`: a key occurs twice at one level.
    ConflictingId,
    /// The renderer does not exist.
    Renderer,
    /// A limit was exceeded.
    Limit,
    /// An exception that Salt's renderer does not catch. It prints after
    /// `Rendering SLS x failed, render error: `.
    Uncaught,
}

/// A place in a file; line and column count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, as the user knows it.
    pub file: Arc<str>,
    /// The line.
    pub line: u32,
    /// The column in characters; 1 if only the line is known.
    pub column: u32,
    /// The text of that line.
    pub source: String,
}

/// The error of a text that could not be rendered. It prints as Salt prints it after
/// `Rendering SLS 'base:x' failed: `.
#[derive(Clone, Debug)]
pub struct Error {
    /// The kind of fault.
    pub kind: Kind,
    /// Salt's message, including its `; line N` and the surrounding lines.
    pub message: String,
    /// The place in the template, to which the caret of the message on stderr points.
    pub place: Option<Place>,
    /// The cause in words for the author of the template, and the remedy.
    pub advice: Option<Box<Advice>>,
}

impl Error {
    /// Creates an error without a place.
    #[must_use]
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            place: None,
            advice: None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Returns Salt's message in one line, without the parts that a [`Place`] contains already.
#[must_use]
pub fn sentence(text: &str) -> String {
    let text = match text.split_once(" failed: ") {
        Some((before, rest)) if before.starts_with("Rendering SLS '") => rest,
        _ => text,
    };
    let said = |line: &&str| {
        let line = line.trim();
        // These lines give the place in the rendered text, or only repeat that something is
        // missing.
        !line.is_empty()
            && !line.starts_with("in \"<unicode string>\"")
            && !line.starts_with("Reason: '")
            && !line.ends_with("):")
    };
    let lines = text.lines().take_while(|line| *line != "---").filter(said);
    let joined = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    match joined.rsplit_once("; line ") {
        Some((before, number)) if number.bytes().all(|b| b.is_ascii_digit()) => before.to_owned(),
        _ => joined,
    }
}
