//! Reads the rules and limits of a configuration: its option `reactor`, and the options of the
//! engine with that name.

use state::opts::Opts;
use value::{Map, Value};

use crate::rule::Rule;

/// Returns the rules, and a sentence for each fault. In Salt a minion needs the engine `reactor` to
/// follow rules; here the engine is optional.
#[must_use]
pub fn rules(opts: &Opts) -> (Vec<Rule>, Vec<String>) {
    let option = opts.get("reactor").cloned().unwrap_or_default();
    let (rules, mut faults) = Rule::all(&option);
    let others = engines(opts).into_iter().filter(|(name, _)| name != ENGINE);
    faults.extend(others.map(|(name, _)| {
        format!("ignoring the engine {name}: of Salt's engines only `reactor` is supported")
    }));
    (rules, faults)
}

const ENGINE: &str = "reactor";

/// Returns the engines with their options.
fn engines(opts: &Opts) -> Vec<(String, Map)> {
    let option = opts.get("engines").cloned().unwrap_or_default();
    let entry = |(name, options): (&Value, &Value)| {
        let options = options.as_map().cloned().unwrap_or_default();
        (name.to_text(), options)
    };
    match &option {
        Value::Map(all) => all.iter().map(entry).collect(),
        Value::List(all) => all
            .iter()
            .filter_map(|one| match one {
                Value::Map(one) => one.first().map(entry),
                one => Some((one.to_text(), Map::new())),
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns the configuration with the options of the engine (`worker_threads` is
/// `reactor_worker_threads`).
pub(crate) fn with_engine(opts: &Opts) -> Opts {
    let mut map = opts.map.clone();
    for (_, options) in engines(opts).iter().filter(|(name, _)| name == ENGINE) {
        for name in ["refresh_interval", "worker_threads", "worker_hwm"] {
            if let Some(value) = options.get(name).filter(|value| !value.is_null()) {
                map.insert(format!("reactor_{name}"), value.clone());
            }
        }
    }
    Opts::new(map)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn opts(text: &str) -> Opts {
        let map = render::yaml::load(text).unwrap();
        Opts::new(map.as_map().unwrap().clone())
    }

    #[test]
    fn an_engines_options_are_the_reactors() {
        let opts = opts(
            "reactor_refresh_interval: 7\nreactor: [{'a/*': [/x.sls]}]\nengines:\n  - reactor:\n      worker_threads: 3\n      worker_hwm: 20\n      refresh_interval: null\n  - logstash\n",
        );
        let limits = crate::Limits::from_opts(&opts);
        assert_eq!((limits.threads, limits.waiting), (3, 20));
        assert_eq!(limits.refresh, Duration::from_secs(7));
        let (rules, faults) = rules(&opts);
        assert_eq!(rules.len(), 1);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].contains("ignoring the engine logstash"));
    }

    #[test]
    fn rules_may_stand_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.conf");
        let missing = opts(&format!("reactor: {}\n", path.display()));
        let (none, faults) = rules(&missing);
        assert!(none.is_empty() && faults.len() == 1, "{faults:?}");
        #[expect(clippy::disallowed_methods, reason = "a test's own file")]
        std::fs::write(&path, "- 'my/*':\n  - /a.sls\n- 'his/*': /b.sls\n").unwrap();
        let (found, faults) = rules(&missing);
        assert_eq!((found.len(), faults.len()), (2, 0), "{faults:?}");
        assert_eq!(found[1].refs, ["/b.sls"]);
    }
}
