//! Did you mean: the nearest of the names that are there.

use value::hint::nearest;

/// A hint that names the candidate nearest to what was written, when one is near enough to be meant.
#[must_use]
pub fn did_you_mean<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    nearest(written, candidates).map(|nearest| format!("did you mean '{nearest}'?"))
}
