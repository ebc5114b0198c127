//! Finds the name that was probably meant by a misspelt one.

/// Returns the candidate nearest to `written`, if one is near enough.
#[must_use]
pub fn nearest<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    nearest_within(LETTERS_MAX, written, candidates)
}

/// The maximum number of letters in which a name differs from the one that was meant.
const LETTERS_MAX: usize = 3;

/// Like [`nearest`], with at most `letters_max` different letters.
#[must_use]
pub fn nearest_within<'a>(
    letters_max: usize,
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let limit = (written.chars().count() / 3).clamp(1, letters_max);
    candidates
        .into_iter()
        .filter(|candidate| *candidate != written)
        .filter(|candidate| candidate.len().abs_diff(written.len()) <= limit * 4)
        .map(|candidate| (distance(written, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, nearest)| nearest)
}

/// Returns the number of letters to insert, delete, replace or swap with their neighbour to turn
/// one text into the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX / 2);
    for (i, ca) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, cb) in b.iter().enumerate() {
            let change = at(&above, j) + usize::from(ca != cb);
            let step = at(&above, j + 1).min(at(&row, j)) + 1;
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(cb) && b.get(j - 1) == Some(ca);
            let swap = if swapped {
                at(&before, j - 1) + 1
            } else {
                change
            };
            row.push(change.min(step).min(swap));
        }
        before = std::mem::replace(&mut above, row);
    }
    at(&above, b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_named_and_a_far_one_is_not() {
        let names = ["nginx", "nginx_config", "postgres"];
        assert_eq!(nearest("ngnix", names), Some("nginx"));
        assert_eq!(nearest("redis", names), None);
        assert_eq!(distance("postgres", "postgresql"), 2);
    }
}
