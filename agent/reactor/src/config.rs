//! Reads the rules and limits of a configuration: its option `reactor`, and the options of the
//! engine with that name.

use modules::loader::engines::{self, REACTOR};
use state::opts::Opts;

use crate::rule::Rule;

/// Returns the rules, and a sentence for each fault. In Salt a minion needs the engine `reactor` to
/// follow rules; here the engine is optional.
#[must_use]
pub fn rules(opts: &Opts) -> (Vec<Rule>, Vec<String>) {
    let option = opts.get("reactor").cloned().unwrap_or_default();
    Rule::all(&option)
}

/// Returns the configuration with the options of the engine (`worker_threads` is
/// `reactor_worker_threads`).
pub(crate) fn with_engine(opts: &Opts) -> Opts {
    let mut map = opts.map.clone();
    let own = engines::configured(opts).into_iter();
    for engine in own.filter(|engine| engine.module == REACTOR) {
        for name in ["refresh_interval", "worker_threads", "worker_hwm"] {
            if let Some(value) = engine.options.get(name).filter(|value| !value.is_null()) {
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
            "reactor_refresh_interval: 7\nreactor: [{'a/*': [/x.sls]}]\nengines:\n  - reactor:\n      worker_threads: 3\n      worker_hwm: 20\n      refresh_interval: null\n  - other\n",
        );
        let limits = crate::Limits::from_opts(&opts);
        assert_eq!((limits.threads, limits.waiting), (3, 20));
        assert_eq!(limits.refresh, Duration::from_secs(7));
        let (rules, faults) = rules(&opts);
        assert_eq!((rules.len(), faults.len()), (1, 0), "{faults:?}");
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
