//! Why a text could not be rendered, in Salt's words and with the place in the template.

use std::fmt;
use std::sync::Arc;

/// What kind of thing went wrong: Salt's sentence begins with it.
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
    /// `found conflicting ID 'x'`: a key twice at one level.
    ConflictingId,
    /// The renderer is not there.
    Renderer,
    /// A limit was passed.
    Limit,
    /// Salt's renderer lets a bare exception through: it prints after `Rendering SLS x failed, render error: `.
    Uncaught,
}

/// A place in a file: both numbers count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file as the user knows it.
    pub file: Arc<str>,
    /// The line.
    pub line: u32,
    /// The column in characters; 1 where only the line is known.
    pub column: u32,
    /// The text of that line.
    pub source: String,
}

/// Why a text could not be rendered. Prints as Salt prints it after `Rendering SLS 'base:x' failed: `.
#[derive(Clone, Debug)]
pub struct Error {
    /// The kind of fault.
    pub kind: Kind,
    /// Salt's sentence, its `; line N` and the lines around it included.
    pub message: String,
    /// Where in the template it is; the caret of the message on stderr stands on it.
    pub place: Option<Place>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Returns Salt's sentence in one line, without what a [`Place`] says already.
#[must_use]
pub fn sentence(text: &str) -> String {
    let text = match text.split_once(" failed: ") {
        Some((before, rest)) if before.starts_with("Rendering SLS '") => rest,
        _ => text,
    };
    let said = |line: &&str| {
        let line = line.trim();
        // Where it is in the rendered text, and that what is not there is not there.
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
