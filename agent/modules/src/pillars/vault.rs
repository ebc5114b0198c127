//! The external pillar `vault`: secrets, `path=PATH`. A path may have `{minion}` and keys of the pillar,
//! `{pillar[roles]}`; a list there makes one path for each item.

use state::exec::Exec;
use state::module::Error;
use value::merge::{Strategy, merge};
use value::{Map, Value, log, secret};

use super::arguments::{named, text};
use crate::exec::vault::secret_at;

/// The maximum number of paths of a source.
const PATHS_MAX: usize = 1000;

/// Returns the values of the secrets. A secret that does not exist has none.
///
/// # Errors
/// When the arguments are wrong, or the Vault does not answer or refuses.
pub(super) fn load(cx: &Exec, val: &Value, pillar: &Map) -> Result<Map, Error> {
    let names = ["conf", "nesting_key", "merge_strategy", "merge_lists"];
    let given = named(val, &names)?;
    let conf = text(&given, "conf")?.unwrap_or_default();
    let path = conf
        .split_whitespace()
        .find_map(|word| word.strip_prefix("path="));
    let path = path.ok_or_else(|| Error::refused(format!("{conf:?} has no path=PATH")))?;
    let (strategy, merges_lists) = merging(cx, &given)?;
    let mut data = Map::new();
    for path in paths(path, cx.opts().id(), pillar)? {
        let Some(values) = secret_at(cx, &path)? else {
            log::info(format_args!("Vault secret not found for: {path}"));
            continue;
        };
        secret::keep(&[], &values.clone().into());
        data = merge(&data, &values, strategy, merges_lists);
    }
    Ok(
        match text(&given, "nesting_key")?.filter(|key| !key.is_empty()) {
            Some(key) => Map::new().with(&key, data),
            None => data,
        },
    )
}

/// Returns how values of several secrets are merged.
fn merging(cx: &Exec, given: &Map) -> Result<(Strategy, bool), Error> {
    let opts = cx.opts();
    let own = text(given, "merge_strategy")?;
    let word = own
        .as_deref()
        .or_else(|| opts.text("pillar_source_merging_strategy"));
    let word = word.unwrap_or("smart");
    let renderer = opts.text("renderer").unwrap_or("yaml");
    let strategy = Strategy::from_name(word, renderer);
    let strategy =
        strategy.ok_or_else(|| Error::refused(format!("unknown merge_strategy {word}")))?;
    let merges_lists = given.get("merge_lists").filter(|given| given.is_true());
    let merges_lists = merges_lists.is_some() || opts.flag("pillar_merge_lists");
    Ok((strategy, merges_lists))
}

/// Returns the paths of a pattern. Without a key of the pillar that the pattern names there are none.
///
/// # Errors
/// When the pattern is not well formed, or makes too many paths.
fn paths(pattern: &str, id: &str, pillar: &Map) -> Result<Vec<String>, Error> {
    let mut all = vec![String::new()];
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('{') {
        let broken = || Error::refused(format!("{pattern} has a {{ without a }}"));
        let (field, behind) = after.split_once('}').ok_or_else(broken)?;
        let Some(values) = values(field, id, pillar)? else {
            log::warning(format_args!(
                "Could not resolve pillar path pattern {pattern}"
            ));
            return Ok(Vec::new());
        };
        let joined = all.iter().flat_map(|path| {
            let values = values.iter();
            values.map(move |value| format!("{path}{before}{value}"))
        });
        all = joined.take(PATHS_MAX + 1).collect();
        if all.len() > PATHS_MAX {
            return Err(Error::refused(format!(
                "{pattern} has more than {PATHS_MAX} paths"
            )));
        }
        rest = behind;
    }
    Ok(all.into_iter().map(|path| path + rest).collect())
}

/// Returns the values of a field of a pattern.
fn values(field: &str, id: &str, pillar: &Map) -> Result<Option<Vec<String>>, Error> {
    if field == "minion" {
        return Ok(Some(vec![id.to_owned()]));
    }
    let keys = field
        .strip_prefix("pillar[")
        .and_then(|keys| keys.strip_suffix(']'));
    let keys = keys.ok_or_else(|| {
        Error::refused(format!(
            "the path has {{{field}}}; expected {{minion}} or {{pillar[KEY]}}"
        ))
    })?;
    let mut found = Some(Value::from(pillar.clone()));
    for key in keys.split("][") {
        found = found.and_then(|found| found.get(key).cloned());
    }
    let values = found.map(|found| match &found {
        Value::List(items) => items.iter().map(Value::to_text).collect(),
        only => vec![only.to_text()],
    });
    let is_part = |value: &String| !value.split('/').any(|part| matches!(part, "" | "." | ".."));
    match values {
        Some(values) if !values.iter().all(is_part) => Err(Error::refused(format!(
            "{field} of the pillar is no part of a path"
        ))),
        values => Ok(values),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_the_pillar_makes_a_path_for_each_item() {
        let pillar = "{roles: [web, db], site: {name: x}, bad: '../up', none: []}";
        let pillar = render::yaml::load(pillar)
            .unwrap()
            .as_map()
            .unwrap()
            .clone();
        let find = |pattern| paths(pattern, "m1", &pillar);
        assert_eq!(find("secret/a").unwrap(), ["secret/a"]);
        assert_eq!(find("s/{minion}/pass").unwrap(), ["s/m1/pass"]);
        let both = ["x/web/m1", "x/db/m1"];
        assert_eq!(
            find("{pillar[site][name]}/{pillar[roles]}/{minion}").unwrap(),
            both
        );
        assert!(find("s/{pillar[nosuch]}").unwrap().is_empty());
        assert!(find("s/{pillar[none]}").unwrap().is_empty());
        for wrong in ["s/{pillar[bad]}", "s/{grains[x]}", "s/{minion"] {
            assert!(find(wrong).is_err(), "{wrong}");
        }
    }
}
