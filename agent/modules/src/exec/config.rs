//! The `config` execution module: reads the configuration from options, grains and pillar.

use state::exec::Exec;
use state::module::Error;
use value::glob::fnmatch;
use value::merge::Strategy;
use value::{Map, Value, log, merge};

state::exec_module! {
    /// Read the configuration from options, grains and pillar.
    mod config;

    /// Return a value from the options, else from the grains, the pillar or the key `master` of the
    /// pillar. Colons separate the levels of a key.
    ///
    ///     salt-call config.get master
    #[facts(pure = true)]
    fn get(Get {
        /// The key of the value, such as `master:id`.
        key: String,
        /// The value to return if the key is not found.
        default: Value = "".into(),
        /// The separator of the levels of a key.
        delimiter: String = ":".into(),
        /// The strategy that merges the values of all places: `recurse` or `overwrite`. By default
        /// the first value is returned.
        merge: Option<String> = None,
        /// True to skip the options.
        omit_opts: bool = false,
        /// True to skip the pillar.
        omit_pillar: bool = false,
        /// True to skip the key `master` of the pillar.
        omit_master: bool = false,
        /// True to skip the grains.
        omit_grains: bool = false,
    });

    /// Return a value by its full name, without levels, from the same places as `config.get`.
    ///
    ///     salt-call config.option cachedir
    #[facts(pure = true)]
    fn option(Opt {
        /// The name of the value. With `wildcard` it is a glob.
        value: String,
        /// The value to return if the key is not found.
        default: Value = Value::Null,
        /// True to skip the options.
        omit_opts: bool = false,
        /// True to skip the grains.
        omit_grains: bool = false,
        /// True to skip the pillar.
        omit_pillar: bool = false,
        /// True to skip the key `master` of the pillar.
        omit_master: bool = false,
        /// True to look only at the defaults.
        omit_all: bool = false,
        /// True to return all values whose names match.
        wildcard: bool = false,
    });

    /// Return a value merged from the options, the key `master` of the pillar, and the pillar.
    ///
    ///     salt-call config.merge schedule
    #[facts(pure = true)]
    fn merge(Merge {
        /// The name of the value.
        value: String,
        /// The value to return if the key is not found.
        default: Value = "".into(),
        /// True to skip the options.
        omit_opts: bool = false,
        /// True to skip the key `master` of the pillar.
        omit_master: bool = false,
        /// True to skip the pillar.
        omit_pillar: bool = false,
    });

    /// Return all values whose names start with the given prefix and a dot.
    ///
    ///     salt-call config.dot_vals mysql
    fn dot_vals(DotVals {
        /// The prefix.
        value: String,
    });

    /// Return all options.
    ///
    ///     salt-call config.items
    fn items(Items {});

    /// Return the backup mode: the given one, or that of the option `backup_mode`.
    ///
    ///     salt-call config.backup_mode
    fn backup_mode(BackupMode {
        /// The backup mode.
        backup: String = String::new(),
    });

    /// Return a file mode in four digits.
    ///
    ///     salt-call config.manage_mode 644
    fn manage_mode(ManageMode {
        /// The file mode.
        mode: Value,
    });

    /// Return True if a file can be fetched from this kind of URL.
    ///
    ///     salt-call config.valid_fileproto salt://motd
    #[facts(pure = true)]
    fn valid_fileproto(ValidFileproto {
        /// The URL.
        uri: String,
    });
}

/// Returns the default values. It contains the parts of Salt's table for modules that exist here,
/// and the values that Salt's own tests use.
fn defaults() -> Map {
    Map::new()
        .with("test.foo", "unconfigured")
        .with("ca.cert_base_path", "/etc/pki")
        .with("hosts.file", "/etc/hosts")
        .with("aliases.file", "/etc/aliases")
}

fn master(pillar: &Map) -> Map {
    let master = pillar.get("master").and_then(Value::as_map);
    master.cloned().unwrap_or_default()
}

fn get(cx: &Exec, args: Get) -> Result<Value, Error> {
    let found = match &args.merge {
        Some(strategy) => merged(cx, strategy)?
            .traverse(&args.key, &args.delimiter)
            .cloned(),
        None => first(cx, &args)?,
    };
    match found {
        Some(Value::Str(text)) if text.starts_with("sdb://") => {
            cx.call_internal("sdb.get", vec![text.as_ref().into()], Map::new())
        }
        Some(value) => Ok(value),
        None => Ok(args.default),
    }
}

fn first(cx: &Exec, args: &Get) -> Result<Option<Value>, Error> {
    let find = |map: Map| {
        Value::from(map)
            .traverse(&args.key, &args.delimiter)
            .cloned()
    };
    if let Some(found) = (!args.omit_opts)
        .then(|| find(cx.opts().map.clone()))
        .flatten()
    {
        return Ok(Some(found));
    }
    if let Some(found) = (!args.omit_grains).then(|| find(cx.grains())).flatten() {
        return Ok(Some(found));
    }
    if !(args.omit_pillar && args.omit_master) {
        let pillar = cx.pillar()?;
        let above = (!args.omit_master).then(|| master(&pillar));
        let own = (!args.omit_pillar).then_some(pillar);
        if let Some(found) = own.and_then(find).or_else(|| above.and_then(find)) {
            return Ok(Some(found));
        }
    }
    Ok(find(defaults()))
}

fn merged(cx: &Exec, strategy: &str) -> Result<Value, Error> {
    let strategy = match strategy {
        "overwrite" => Strategy::Overwrite,
        "recurse" => Strategy::Recurse,
        other => {
            log::warning(format_args!(
                "Unsupported merge strategy '{other}'. Falling back to 'recurse'."
            ));
            Strategy::Recurse
        }
    };
    let lists = cx.opts().flag("pillar_merge_lists");
    let pillar = cx.pillar()?;
    let layers = [master(&pillar), pillar, cx.grains(), cx.opts().map.clone()];
    let all = layers.iter().fold(defaults(), |lower, upper| {
        merge::merge(&lower, upper, strategy, lists)
    });
    Ok(all.into())
}

/// Returns an option as `config.option` finds it: from the configuration, the grains, the pillar or
/// the defaults. It is empty if the option is not set.
///
/// # Errors
/// When the pillar is not available.
pub(crate) fn found(cx: &Exec, name: &str) -> Result<Value, Error> {
    cx.call_internal("config.option", vec![name.into()], Map::new())
}

fn option(cx: &Exec, args: Opt) -> Result<Value, Error> {
    let kept = |omit: bool| !omit && !args.omit_all;
    let needs_pillar = kept(args.omit_pillar) || kept(args.omit_master);
    let pillar = if needs_pillar {
        cx.pillar()?
    } else {
        Map::new()
    };
    let mut places = Vec::new();
    if kept(args.omit_opts) {
        places.push(cx.opts().map.clone());
    }
    if kept(args.omit_grains) {
        places.push(cx.grains());
    }
    let above = master(&pillar);
    if kept(args.omit_pillar) {
        places.push(pillar);
    }
    if kept(args.omit_master) {
        places.push(above);
    }
    places.push(defaults());
    if !args.wildcard {
        let found = places
            .iter()
            .find_map(|place| place.get(&args.value))
            .cloned();
        let default = || {
            if args.default.is_null() {
                "".into()
            } else {
                args.default
            }
        };
        return Ok(found.unwrap_or_else(default));
    }
    let mut all = Map::new();
    for place in places.into_iter().rev() {
        let matching = place
            .into_iter()
            .filter(|(key, _)| fnmatch(&args.value, &key.to_text()));
        all.extend(matching);
    }
    Ok(if all.is_empty() && !args.default.is_null() {
        args.default
    } else {
        all.into()
    })
}

fn merge(cx: &Exec, args: Merge) -> Result<Value, Error> {
    let pillar = cx.pillar()?;
    let places = [
        (!args.omit_opts).then(|| cx.opts().map.clone()),
        (!args.omit_master).then(|| master(&pillar)),
        (!args.omit_pillar).then_some(pillar),
    ];
    let mut found: Option<Value> = None;
    for value in places
        .iter()
        .flatten()
        .filter_map(|place| place.get(&args.value))
    {
        found = Some(match (found, value) {
            (None, value) => value.clone(),
            (Some(Value::Map(above)), Value::Map(below)) => {
                let mut below = below.clone();
                below.update(above);
                below.into()
            }
            (Some(Value::List(above)), Value::List(below)) => {
                Value::list(above.iter().chain(below.iter()).cloned())
            }
            (Some(kept), _) => kept,
        });
        if matches!(found, Some(Value::Str(_))) {
            break;
        }
    }
    let default = || defaults().get(&args.value).cloned().unwrap_or(args.default);
    Ok(found
        .filter(|value| !value.is_null())
        .unwrap_or_else(default))
}

fn dot_vals(cx: &Exec, args: DotVals) -> Result<Value, Error> {
    let start = format!("{}.", args.value);
    let wanted = |key: &Value| key.as_str().is_some_and(|key| key.starts_with(&start));
    let all = master(&cx.pillar()?)
        .into_iter()
        .chain(cx.opts().map.clone());
    Ok(all.filter(|(key, _)| wanted(key)).collect())
}

fn items(cx: &Exec, _args: Items) -> Result<Value, Error> {
    Ok(cx.opts().map.clone().into())
}

fn backup_mode(cx: &Exec, args: BackupMode) -> Result<Value, Error> {
    if args.backup.is_empty() {
        cx.call_internal("config.option", vec!["backup_mode".into()], Map::new())
    } else {
        Ok(args.backup.into())
    }
}

fn manage_mode(_cx: &Exec, args: ManageMode) -> Result<Value, Error> {
    if args.mode.is_null() {
        return Ok(Value::Null);
    }
    let text = args.mode.to_text().replace("0o", "0");
    let digits = text
        .trim_matches('"')
        .trim_matches('\'')
        .trim_start_matches('0');
    Ok(format!("{digits:0>4}").into())
}

fn valid_fileproto(_cx: &Exec, args: ValidFileproto) -> Result<Value, Error> {
    let scheme = args
        .uri
        .split_once(':')
        .map_or("", |(scheme, _)| scheme)
        .to_ascii_lowercase();
    let known = ["salt", "file", "http", "https", "ftp", "swift", "s3"];
    Ok(known.contains(&scheme.as_str()).into())
}

#[cfg(test)]
mod tests {
    use crate::testing::{exec_with, json};

    #[test]
    fn options_come_before_grains_pillar_and_master() {
        let opts = json(r#"{"a": {"x": 1}, "o": "opts", "d.x": 1}"#);
        let pillar = json(
            r#"{"a": {"x": 2, "y": 3}, "p": "pillar", "id": "no", "master": {"m": "master", "d.y": 2, "p": "m"}}"#,
        );
        let cx = exec_with(opts, pillar);
        let call = |function: &str, kwargs: &str| {
            let answer = cx
                .call(&format!("config.{function}"), Vec::new(), json(kwargs))
                .unwrap();
            value::python::repr(&answer)
        };
        for (function, kwargs, wanted) in [
            ("get", r#"{"key": "a:x"}"#, "1"),
            ("get", r#"{"key": "a:x", "omit_opts": true}"#, "2"),
            ("get", r#"{"key": "id"}"#, "'m1'"),
            ("get", r#"{"key": "m"}"#, "'master'"),
            ("get", r#"{"key": "test.foo"}"#, "'unconfigured'"),
            ("get", r#"{"key": "nosuch", "default": 5}"#, "5"),
            (
                "get",
                r#"{"key": "a", "merge": "recurse"}"#,
                "{'x': 1, 'y': 3}",
            ),
            ("option", r#"{"value": "p"}"#, "'pillar'"),
            ("option", r#"{"value": "nosuch"}"#, "''"),
            (
                "option",
                r#"{"value": "test.*", "wildcard": true}"#,
                "{'test.foo': 'unconfigured'}",
            ),
            ("merge", r#"{"value": "a"}"#, "{'x': 1, 'y': 3}"),
            ("dot_vals", r#"{"value": "d"}"#, "{'d.y': 2, 'd.x': 1}"),
            ("manage_mode", r#"{"mode": 644}"#, "'0644'"),
            ("manage_mode", r#"{"mode": "00644"}"#, "'0644'"),
            ("valid_fileproto", r#"{"uri": "salt://x"}"#, "True"),
            ("valid_fileproto", r#"{"uri": "/x"}"#, "False"),
        ] {
            assert_eq!(call(function, kwargs), wanted, "{function} {kwargs}");
        }
    }
}
