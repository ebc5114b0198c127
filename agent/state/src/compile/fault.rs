//! [`Fault`]: what is wrong with a document.

use render::Place;

/// One thing that is wrong with a tree: Salt's sentence, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Salt's sentence, as it stands in the return.
    pub text: String,
    /// Where in the template, for the caret on stderr.
    pub place: Option<Place>,
    /// What to do about it, where that can be said.
    pub hint: Option<String>,
}

impl Fault {
    /// A fault with no place.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            place: None,
            hint: None,
        }
    }

    /// The same with what to do about it.
    #[must_use]
    pub fn hint(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }

    /// The sentence with the place it stands at, its source line, a caret and what to do: for people, on stderr.
    #[must_use]
    pub fn shown(&self) -> String {
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
