//! [`Fault`]: an error in an SLS tree.

use render::Place;

/// One error in a tree: Salt's sentence, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Salt's sentence, as in the return.
    pub text: String,
    /// The place in the template, for the caret on stderr.
    pub place: Option<Place>,
    /// A hint about what to do, if there is one.
    pub hint: Option<String>,
}

impl Fault {
    /// Returns a fault without a place.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            place: None,
            hint: None,
        }
    }

    /// Adds a hint about what to do.
    #[must_use]
    pub fn hint(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }

    /// Returns the sentence with the place, its source line, a caret and the hint, for people on
    /// stderr.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = self.text.clone();
        if let Some(place) = &self.place {
            let number = place.line.to_string();
            let gutter = " ".repeat(number.len());
            let indent = " ".repeat(place.column.saturating_sub(1) as usize);
            let (file, column, source) = (&place.file, place.column, &place.source);
            out += &format!(
                "\n{gutter}--> {file}:{number}:{column}\n{gutter} |\n{number} | {source}\n{gutter} | {indent}^"
            );
        }
        if let Some(hint) = &self.hint {
            out += &format!("\nHint: {hint}");
        }
        out
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}
