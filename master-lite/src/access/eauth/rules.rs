//! The rules of a user of `external_auth`.

use state::opts::Opts;
use value::{Map, Value};

use crate::access::rules::several;

/// The key for every user whom no other key names.
const EVERY: &str = "*";

/// Returns the rules of a user that a source knows.
pub(crate) fn of_user(opts: &Opts, eauth: &str, name: &str, groups: &[String]) -> Vec<Value> {
    let table = opts.get("external_auth").and_then(|all| all.get(eauth));
    let Some(table) = table.and_then(Value::as_map) else {
        return Vec::new();
    };
    chosen(table, name, groups, opts.flag("permissive_acl"))
}

/// Returns the rules of the key that is the user's name, and of those of the user's groups. A key is no
/// pattern. `*` is for the users whom no key names, and for no user if `is_permissive`, as in Salt.
fn chosen(table: &Map, name: &str, groups: &[String], is_permissive: bool) -> Vec<Value> {
    let mut rules = Vec::new();
    let mut is_named = false;
    for (key, given) in table {
        let key = key.to_text();
        // A key with a circumflex is a setting of the source.
        if key.starts_with('^') || key == EVERY {
            continue;
        }
        let is_chosen = match key.ends_with('%') {
            true => groups
                .iter()
                .any(|group| group == key.trim_end_matches('%')),
            false => key == name,
        };
        is_named |= is_chosen && !key.ends_with('%');
        if is_chosen {
            rules.extend(several(given));
        }
    }
    if let Some(given) = table.get(EVERY).filter(|_| !is_permissive && !is_named) {
        rules.extend(several(given));
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(table: &str, name: &str, groups: &[&str], is_permissive: bool) -> String {
        let table = value::json::read(table).unwrap();
        let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        let rules = chosen(table.as_map().unwrap(), name, &groups, is_permissive);
        rules
            .iter()
            .map(Value::to_text)
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn a_user_has_the_rules_of_name_and_groups_and_others_those_of_the_star() {
        let table = r#"{"^filename": "f", "joe": ["a"], "j.*": ["b"], "ops%": ["c"], "*": ["d"]}"#;
        assert_eq!(texts(table, "joe", &[], false), "a");
        assert_eq!(texts(table, "joe", &["ops"], false), "a c");
        assert_eq!(texts(table, "ann", &["ops"], false), "c d");
        assert_eq!(texts(table, "ann", &["op"], false), "d");
        assert_eq!(texts(table, "ann", &[], true), "");
        assert_eq!(texts(table, "j.*", &[], false), "b");
        assert_eq!(texts(table, "^filename", &[], false), "d");
        assert_eq!(texts(table, "ops%", &[], false), "d");
    }
}
