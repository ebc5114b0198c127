//! `corpus/differences.toml`: the cases in which we mean to differ from Salt, each with its reason.

use serde::Deserialize;

use crate::scratch::corpus;

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    difference: Vec<Difference>,
}

/// One intended difference.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The names of the cases, `*` standing for any text.
    pub case: String,
    /// Why we differ.
    pub reason: String,
}

impl Difference {
    /// Returns whether the entry covers this case.
    pub fn covers(&self, name: &str) -> bool {
        let mut parts = self.case.split('*');
        let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else {
            return false;
        };
        let parts: Vec<&str> = parts.collect();
        let Some((last, middle)) = parts.split_last() else {
            return rest.is_empty();
        };
        for part in middle {
            let Some(at) = rest.find(part) else {
                return false;
            };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }
}

/// The entries for one kind of case, such as `recorded`.
pub fn of_kind(kind: &str) -> Vec<Difference> {
    let text = std::fs::read_to_string(corpus().join("differences.toml")).unwrap();
    let list: List = toml::from_str(&text).unwrap();
    assert!(
        list.difference.iter().all(|d| !d.reason.trim().is_empty()),
        "a difference has no reason"
    );
    let kind = format!("{kind}/");
    list.difference
        .into_iter()
        .filter(|d| d.case.starts_with(&kind))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::Difference;

    #[test]
    fn a_star_stands_for_any_text() {
        let covers = |case: &str, name| {
            let (case, reason) = (case.to_owned(), String::new());
            Difference { case, reason }.covers(name)
        };
        assert!(covers("cli/a", "cli/a") && !covers("cli/a", "cli/ab"));
        assert!(
            covers("cli/*", "cli/a")
                && covers("cli/*b*d", "cli/abcd")
                && !covers("cli/*b*d", "cli/abc")
        );
    }
}
