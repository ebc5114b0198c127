//! The `match` execution module.

use state::exec::Exec;
use state::module::Error;
use value::target::{self, Facts};
use value::{Map, Value, log};

use crate::exec::filter_by;

state::exec_module! {
    /// Check whether targets match this minion.
    #[facts(pure = true)]
    mod r#match;

    /// Return True if a compound target matches.
    ///
    ///     salt-call match.compound 'G@os:Debian and web*'
    fn compound(Compound {
        /// The target.
        tgt: Value,
        /// The id of the minion. The default is this minion.
        minion_id: Option<String> = None,
    });

    /// Return True if a glob matches the id of the minion.
    ///
    ///     salt-call match.glob 'web*'
    fn glob(Glob {
        /// The glob.
        tgt: Value,
        /// The id of the minion. The default is this minion.
        minion_id: Option<String> = None,
    });

    /// Return True if a regular expression matches the id of the minion.
    ///
    ///     salt-call match.pcre 'web\d+'
    fn pcre(Pcre {
        /// The expression.
        tgt: Value,
        /// The id of the minion. The default is this minion.
        minion_id: Option<String> = None,
    });

    /// Return True if the id of the minion is in a list.
    ///
    ///     salt-call match.list web1,web2
    fn list(List {
        /// The list, or a text with commas between the ids.
        tgt: Value,
        /// The id of the minion. The default is this minion.
        minion_id: Option<String> = None,
    });

    /// Return True if a grain matches a glob.
    ///
    ///     salt-call match.grain os:Debian
    fn grain(Grain {
        /// The name of the grain and the glob, such as `os:Debian`.
        tgt: Value,
        /// The text that separates the levels of the name.
        delimiter: String = ":".into(),
    });

    /// Return True if a grain matches a regular expression.
    ///
    ///     salt-call match.grain_pcre os:Deb.*
    fn grain_pcre(GrainPcre {
        /// The name of the grain and the expression.
        tgt: Value,
        /// The text that separates the levels of the name.
        delimiter: String = ":".into(),
    });

    /// Return True if a value of the pillar matches a glob.
    ///
    ///     salt-call match.pillar role:web
    fn pillar(Pillar {
        /// The key in the pillar and the glob.
        tgt: Value,
        /// The text that separates the levels of the key.
        delimiter: String = ":".into(),
    });

    /// Return True if a value of the pillar matches a regular expression.
    ///
    ///     salt-call match.pillar_pcre role:w.*
    fn pillar_pcre(PillarPcre {
        /// The key in the pillar and the expression.
        tgt: Value,
        /// The text that separates the levels of the key.
        delimiter: String = ":".into(),
    });

    /// Return True if an address of this machine is in a network.
    ///
    ///     salt-call match.ipcidr 10.0.0.0/8
    fn ipcidr(Ipcidr {
        /// The network, or a single address.
        tgt: Value,
    });

    /// Return the first entry of a dictionary whose key is a matching target.
    ///
    ///     salt-call match.filter_by '{web*: {port: 80}, db*: {port: 5432}}'
    fn filter_by(FilterBy {
        /// The dictionary. Its keys are targets.
        lookup: Map,
        /// The type of the targets.
        tgt_type: String = "compound".into(),
        /// The id of the minion. The default is this minion.
        minion_id: Option<String> = None,
        /// A dictionary that is merged over the selected entry.
        merge: Value = Value::Null,
        /// Whether to concatenate lists when merging.
        merge_lists: bool = false,
        /// The key of the entry to use if no target matches.
        default: Value = "default".into(),
    });

    /// Return the keys of a dictionary whose lists of targets contain a matching one.
    ///
    ///     salt-call match.search_by '{web: [web*], db: [db*]}'
    fn search_by(SearchBy {
        /// The dictionary. Its values are lists of targets.
        lookup: Map,
        /// The type of the targets.
        tgt_type: String = "compound".into(),
        /// The id of the minion. The default is this minion.
        minion_id: Option<String> = None,
    });

    /// Return the value of the first matching condition. The arguments are condition, value,
    /// condition, value and so on, and a default at the end.
    ///
    ///     salt-call match.ifelse 'web*' 80 'db*' 5432 0
    fn ifelse(Ifelse {
        *rest,
        ..kwargs
    });
}

/// The facts of this minion under another id.
struct Named<'a> {
    cx: &'a Exec,
    id: &'a str,
}

impl Facts for Named<'_> {
    fn id(&self) -> &str {
        self.id
    }

    fn grains(&self) -> Map {
        self.cx.grains()
    }

    fn pillar(&self) -> Result<Map, String> {
        Facts::pillar(self.cx)
    }

    fn nodegroups(&self) -> Map {
        self.cx.nodegroups()
    }
}

/// Returns whether a target matches. An invalid target is logged and does not match.
fn matches(cx: &Exec, tgt: &Value, kind: &str, id: Option<&str>, delimiter: &str) -> bool {
    let id = id.unwrap_or_else(|| cx.opts().id());
    let how = target::MatchOptions {
        delimiter,
        ..target::MatchOptions::default()
    };
    let matched = target::matches_with(&Named { cx, id }, tgt, kind, how);
    matched.unwrap_or_else(|error| {
        log::error(error);
        false
    })
}

fn compound(cx: &Exec, args: Compound) -> Result<Value, Error> {
    Ok(matches(cx, &args.tgt, "compound", args.minion_id.as_deref(), ":").into())
}

fn glob(cx: &Exec, args: Glob) -> Result<Value, Error> {
    Ok(matches(cx, &args.tgt, "glob", args.minion_id.as_deref(), ":").into())
}

fn pcre(cx: &Exec, args: Pcre) -> Result<Value, Error> {
    Ok(matches(cx, &args.tgt, "pcre", args.minion_id.as_deref(), ":").into())
}

fn list(cx: &Exec, args: List) -> Result<Value, Error> {
    Ok(matches(cx, &args.tgt, "list", args.minion_id.as_deref(), ":").into())
}

fn grain(cx: &Exec, args: Grain) -> Result<Value, Error> {
    Ok(matches(cx, &args.tgt, "grain", None, &args.delimiter).into())
}

fn grain_pcre(cx: &Exec, args: GrainPcre) -> Result<Value, Error> {
    Ok(matches(cx, &args.tgt, "grain_pcre", None, &args.delimiter).into())
}

fn pillar(cx: &Exec, args: Pillar) -> Result<Value, Error> {
    Ok(matches(cx, &args.tgt, "pillar", None, &args.delimiter).into())
}

fn pillar_pcre(cx: &Exec, args: PillarPcre) -> Result<Value, Error> {
    Ok(matches(cx, &args.tgt, "pillar_pcre", None, &args.delimiter).into())
}

fn ipcidr(cx: &Exec, args: Ipcidr) -> Result<Value, Error> {
    Ok(matches(cx, &args.tgt, "ipcidr", None, ":").into())
}

fn filter_by(cx: &Exec, args: FilterBy) -> Result<Value, Error> {
    let id = args.minion_id.as_deref();
    let mut entries = args.lookup.iter();
    let Some((_, chosen)) = entries.find(|(key, _)| matches(cx, key, &args.tgt_type, id, ":"))
    else {
        return Ok(args
            .lookup
            .get_value(&args.default)
            .cloned()
            .unwrap_or_default());
    };
    match (&args.merge, chosen) {
        (merge, _) if !merge.is_true() => Ok(chosen.clone()),
        (Value::Map(over), Value::Map(chosen)) => {
            Ok(value::merge::recurse(chosen, over, args.merge_lists).into())
        }
        (Value::Map(over), chosen) => filter_by::over_all(chosen.clone(), over),
        _ => Err("filter_by merge argument must be a dictionary.".into()),
    }
}

fn search_by(cx: &Exec, args: SearchBy) -> Result<Value, Error> {
    let id = args.minion_id.as_deref();
    let matching = |targets: &Value| {
        let targets = targets.as_list().unwrap_or_default();
        targets
            .iter()
            .any(|tgt| matches(cx, tgt, &args.tgt_type, id, ":"))
    };
    let keys = args.lookup.iter().filter(|(_, targets)| matching(targets));
    let keys: Vec<Value> = keys.map(|(key, _)| key.clone()).collect();
    Ok(if keys.is_empty() {
        Value::Null
    } else {
        keys.into()
    })
}

fn ifelse(cx: &Exec, args: Ifelse) -> Result<Value, Error> {
    let given = |name: &str| args.kwargs.get(name).filter(|value| !value.is_null());
    let kind = given("tgt_type").map_or_else(|| "compound".into(), Value::to_text);
    let id = given("minion_id").map(Value::to_text);
    let Some((other, pairs)) = args
        .rest
        .split_last()
        .filter(|(_, pairs)| pairs.len() % 2 == 0)
    else {
        return Err("The ifelse function must have an odd number of arguments!".into());
    };
    for pair in pairs.chunks(2) {
        let [condition, chosen] = pair else { continue };
        let holds = match condition {
            Value::Bool(truth) => *truth,
            tgt => matches(cx, tgt, &kind, id.as_deref(), ":"),
        };
        if holds {
            return match given("merge") {
                Some(Value::Map(over)) => filter_by::over_all(chosen.clone(), over),
                _ => Ok(chosen.clone()),
            };
        }
    }
    Ok(other.clone())
}

#[cfg(test)]
mod tests {
    use value::Map;

    use crate::testing::{exec_with, json};

    #[test]
    fn targets_choose_and_search() {
        let cx = exec_with(Map::new(), json(r#"{"role": "web"}"#));
        for (function, kwargs, wanted) in [
            ("glob", r#"{"tgt": "m*"}"#, "True"),
            ("glob", r#"{"tgt": "m*", "minion_id": "x1"}"#, "False"),
            ("list", r#"{"tgt": "a,m1"}"#, "True"),
            ("pcre", r#"{"tgt": "m[0-9]"}"#, "True"),
            ("pillar", r#"{"tgt": "role:web"}"#, "True"),
            ("grain", r#"{"tgt": "id|m*", "delimiter": "|"}"#, "True"),
            ("compound", r#"{"tgt": "I@role:web and not x*"}"#, "True"),
            (
                "filter_by",
                r#"{"lookup": {"x*": 1, "m*": {"a": 1}}, "merge": {"b": 2}}"#,
                "{'a': 1, 'b': 2}",
            ),
            ("filter_by", r#"{"lookup": {"x*": 1, "default": 3}}"#, "3"),
            (
                "search_by",
                r#"{"lookup": {"a": ["m*"], "b": ["x"]}}"#,
                "['a']",
            ),
        ] {
            let answer = cx
                .call(&format!("match.{function}"), Vec::new(), json(kwargs))
                .unwrap();
            assert_eq!(value::python::repr(&answer), wanted, "{function} {kwargs}");
        }
        let args = vec!["x*".into(), 1.into(), "m*".into(), 2.into(), 3.into()];
        assert_eq!(cx.call("match.ifelse", args, Map::new()).unwrap(), 2.into());
    }
}
