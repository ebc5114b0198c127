//! "Did you mean" hints: the most similar of the existing names.

use value::hint::nearest;

/// Returns a hint with the candidate that is most similar to the written name, if one is similar
/// enough.
#[must_use]
pub fn did_you_mean<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    nearest(written, candidates).map(|nearest| format!("did you mean '{nearest}'?"))
}
