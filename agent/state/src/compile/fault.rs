//! [`Fault`]: an error in an SLS tree.

use render::Place;

/// One error in a tree: Salt's sentence, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Salt's sentence, as in the return.
    pub text: String,
    /// The cause in words for the author of the tree: stderr has it instead of Salt's sentence.
    pub cause: Option<Box<str>>,
    /// The place in the template, for the caret on stderr.
    pub place: Option<Place>,
    /// A hint about what to do, if there is one.
    pub hint: Option<String>,
    /// True if the fault only follows from the fault before it. Stderr does not have it.
    pub follows: bool,
}

impl Fault {
    /// Returns a fault without a place.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            cause: None,
            place: None,
            hint: None,
            follows: false,
        }
    }

    /// Returns the fault of a template that cannot be rendered. `text` is Salt's sentence.
    pub fn of_render(text: impl Into<String>, error: &render::Error) -> Self {
        let advice = error.advice.as_deref().cloned();
        let (cause, hint) = advice
            .map(|advice| (advice.cause.into(), advice.remedy))
            .unzip();
        Self {
            text: text.into(),
            cause,
            place: error.place.clone(),
            hint,
            follows: false,
        }
    }

    /// Adds the cause in words for the author of the tree, and a hint about what to do.
    #[must_use]
    pub fn explained(self, cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            cause: Some(cause.into().into()),
            hint: Some(hint.into()),
            ..self
        }
    }

    /// Adds a hint about what to do.
    #[must_use]
    pub fn hint(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }

    /// Returns the cause, or Salt's sentence without the lines of the template that the place
    /// contains already.
    fn summary(&self) -> String {
        match (&self.cause, &self.place) {
            (Some(cause), _) => {
                // The part of Salt's sentence that names the SLS.
                let about = self.text.split_once(" failed").map(|(about, _)| about);
                match about.filter(|about| about.starts_with("Rendering ")) {
                    Some(about) => format!("{about} failed: {cause}"),
                    None => cause.to_string(),
                }
            }
            (None, Some(_)) => {
                let text = self.text.split("\n\n---\n").next().unwrap_or(&self.text);
                match text.rsplit_once("; line ") {
                    Some((before, line)) if line.parse::<u32>().is_ok() => before.to_owned(),
                    _ => text.to_owned(),
                }
            }
            (None, None) => self.text.clone(),
        }
    }

    /// Returns the sentence with the place, its source line, a caret and the hint, for people on
    /// stderr.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = self.summary();
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
