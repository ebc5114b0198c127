//! The external pillar `consul`: all keys below a path,
//! `PROFILE [root=PATH] [pillar_root=PATH] [expand_keys=False] [target="COMPOUND"]`.

use machine::net::http::quoted;
use state::exec::Exec;
use state::matcher;
use state::module::Error;
use value::merge::recurse;
use value::{Map, Value};

use crate::exec::consul::below;
use crate::exec::json_api;

/// The grains that a root may have.
const GRAINS: [&str; 2] = ["role", "environment"];

/// Returns the keys below the root. A root that does not exist has none.
///
/// # Errors
/// When the arguments are wrong, Consul does not answer, or a value is not YAML.
pub(super) fn load(cx: &Exec, val: &Value, _pillar: &Map) -> Result<Map, Error> {
    let words = val.as_str().ok_or("it must be a text: PROFILE root=PATH")?;
    let given = Arguments::new(words)?;
    if let Some(target) = &given.target
        && !matcher::matches(cx, &target.as_str().into(), "compound")?
    {
        return Ok(Map::new());
    }
    let profile = settings(cx, given.profile.as_deref())?;
    let root = root(cx, &given.root)?;
    let options = request_options(&profile)?;
    let mut tree = Map::new();
    let items = below(cx, &profile, (&root, &options))?;
    for (key, value) in items.into_iter().rev() {
        // A key that ends in a slash is a folder.
        if let Some(value) = value.filter(|_| !key.ends_with('/')) {
            let value = data(&key, value, given.expands)?;
            tree = recurse(&tree, &nested(&key, value), false);
        }
    }
    Ok(match given.pillar_root.as_str() {
        "" => tree,
        path => nested(path, tree.into()),
    })
}

/// The words of a source.
#[derive(Debug, Default, PartialEq)]
struct Arguments {
    profile: Option<String>,
    root: String,
    pillar_root: String,
    target: Option<String>,
    expands: bool,
}

impl Arguments {
    fn new(words: &str) -> Result<Self, Error> {
        let mut given = Self {
            expands: true,
            ..Self::default()
        };
        let mut rest = words.to_owned();
        if let Some((before, after)) = words.split_once("target=\"") {
            let (target, behind) = after.split_once('"').ok_or("target has no closing quote")?;
            given.target = Some(target.to_owned());
            rest = format!("{before} {behind}");
        }
        for word in rest.split_whitespace() {
            match word.split_once('=') {
                Some(("root", path)) => given.root = path.trim_end_matches('/').to_owned(),
                Some(("pillar_root", path)) => {
                    given.pillar_root = path.trim_end_matches('/').to_owned();
                }
                Some(("expand_keys", word)) => {
                    given.expands = !word.eq_ignore_ascii_case("false");
                }
                Some(("profile", name)) => given.profile = Some(name.to_owned()),
                None if given.profile.is_none() => given.profile = Some(word.to_owned()),
                _ => {
                    return Err(Error::refused(format!(
                        "it has the word {word}; expected PROFILE, root=, pillar_root=, expand_keys= or target="
                    )));
                }
            }
        }
        Ok(given)
    }
}

/// Returns the settings of a profile, or of the whole configuration, without `consul.`.
fn settings(cx: &Exec, profile: Option<&str>) -> Result<Map, Error> {
    let config = match profile {
        Some(name) => json_api::profile(cx, name)?.ok_or_else(|| {
            Error::refused(format!("The consul profile {name} is not configured"))
        })?,
        None => cx.opts().map.clone(),
    };
    let own = config.iter().filter_map(|(key, value)| {
        let key = key.to_text();
        Some((key.strip_prefix("consul.")?.to_owned(), value.clone()))
    });
    Ok(own.map(|(key, value)| (Value::from(key), value)).collect())
}

/// Returns the parts of the request for the data center and the consistency.
fn request_options(profile: &Map) -> Result<String, Error> {
    let mut options = String::new();
    match profile.get("dc") {
        None | Some(Value::Null) => {}
        Some(Value::Map(_)) => {
            return Err(
                "consul.dc must be the name of a data center; patterns are not supported".into(),
            );
        }
        Some(name) => options.push_str(&format!("&dc={}", quoted(&name.to_text()))),
    }
    match profile.get("consistency").map(Value::to_text).as_deref() {
        None | Some("default") => {}
        Some(mode @ ("consistent" | "stale")) => options.push_str(&format!("&{mode}")),
        Some(other) => {
            return Err(Error::refused(format!(
                "consul.consistency is {other}; expected default, consistent or stale"
            )));
        }
    }
    Ok(options)
}

/// Puts the id and grains in the place of their names. The values of grains come from the minion, so
/// they must be one part of the path.
fn root(cx: &Exec, root: &str) -> Result<String, Error> {
    let mut root = root.replace("%(minion_id)s", cx.opts().id());
    for name in GRAINS {
        let place = format!("%({name})s");
        if !root.contains(&place) {
            continue;
        }
        let value = cx.grain(name);
        if value.is_empty() || value.contains('/') {
            return Err(Error::refused(format!(
                "the grain {name} is no part of a path"
            )));
        }
        root = root.replace(&place, &value);
    }
    match root.contains("%(") {
        true => Err(Error::refused(format!(
            "root={root}: only %(minion_id)s, %(role)s and %(environment)s can be used"
        ))),
        false => Ok(root),
    }
}

/// Returns the data of a value.
fn data(key: &str, value: Vec<u8>, expands: bool) -> Result<Value, Error> {
    let text = String::from_utf8(value);
    let text = text.map_err(|_| Error::refused(format!("{key} is not UTF-8 text")))?;
    match expands {
        true => render::yaml::load(&text)
            .map_err(|error| Error::refused(format!("{key} is not YAML: {error}"))),
        false => Ok(text.into()),
    }
}

/// Returns the dictionary of a path.
fn nested(path: &str, value: Value) -> Map {
    let mut parts = path.split('/').rev();
    let last = parts.next().unwrap_or_default();
    parts.fold(Map::new().with(last, value), |inner, part| {
        Map::new().with(part, inner)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_profile_and_its_options() {
        let given = Arguments::new(
            "my root=salt/%(minion_id)s/ target=\"G@os:x and m*\" pillar_root=a/b/ expand_keys=false",
        );
        let given = given.unwrap();
        assert_eq!(given.profile.as_deref(), Some("my"));
        assert_eq!(
            (given.root.as_str(), given.pillar_root.as_str()),
            ("salt/%(minion_id)s", "a/b")
        );
        assert_eq!(
            (given.target.as_deref(), given.expands),
            (Some("G@os:x and m*"), false)
        );
        assert_eq!(
            Arguments::new("profile=x").unwrap().profile.as_deref(),
            Some("x")
        );
        assert!(Arguments::new("a b").is_err() && Arguments::new("a target=\"x").is_err());
    }

    #[test]
    fn requests_name_the_data_center() {
        let of = |yaml: &str| request_options(render::yaml::load(yaml).unwrap().as_map().unwrap());
        assert_eq!(
            of("{dc: a b, consistency: stale}").unwrap(),
            "&dc=a%20b&stale"
        );
        assert!(of("{dc: {x: y}}").is_err() && of("{consistency: x}").is_err());
    }

    #[test]
    fn parts_of_a_key_are_nested() {
        let tree = Value::from(nested("a/b/c", 1.into())).to_text();
        assert_eq!(tree, "{'a': {'b': {'c': 1}}}");
    }
}
