//! The parts of a job that a guest may set: a list of what is allowed, and nothing else.

use value::{Map, Value};
use wire::Publish;

use crate::jobs::batches::BATCH;
use crate::jobs::preview::PREVIEW;

/// The options of a job that a guest may set. Any other could name a file, hide the job, or set the
/// user in whose name it runs.
const OPTIONS: [&str; 4] = [BATCH, "delimiter", "metadata", PREVIEW];

/// Returns a guest's job in the form that may be published, or a sentence if it sets something that
/// only root may set. `returner` is the one of the master's configuration, which the command line
/// always sends.
pub(crate) fn taken(asked: Publish, returner: Option<&str>) -> Result<Publish, String> {
    if let Some(name) = refused_option(&asked.options) {
        return Err(format!("Only root may give a job the option {name:?}."));
    }
    if !asked.ret.is_empty() && Some(asked.ret.as_str()) != returner {
        return Err("Only root may name a returner.".to_owned());
    }
    // A guest must not choose the job id.
    Ok(Publish { jid: None, ..asked })
}

fn refused_option(options: &Map) -> Option<String> {
    let mut names = options.keys().map(Value::to_text);
    let name = names.find(|name| !OPTIONS.contains(&name.as_str()))?;
    Some(name.chars().take(NAME_MAX).collect())
}

/// The number of characters of an option's name that the refusal repeats.
const NAME_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn with(options: Map, ret: &str) -> Publish {
        Publish {
            tgt: "*".into(),
            tgt_type: "glob".into(),
            fun: "test.ping".into(),
            arg: Vec::new(),
            ret: ret.into(),
            jid: Some("20261120101035942505".into()),
            timeout_s: None,
            options,
        }
    }

    #[test]
    fn a_guest_gives_no_option_that_is_not_named_here() {
        let good = Map::new()
            .with("metadata", "x")
            .with("delimiter", "|")
            .with(BATCH, Map::new())
            .with(PREVIEW, true);
        let job = taken(with(good.clone(), ""), None).unwrap();
        assert_eq!((job.options, job.jid), (good, None));
        for name in [
            "ret_kwargs",
            "ret_config",
            "reaction",
            "schedule",
            "no_log",
            "secrets",
            "user",
            "id",
            "bound_grains",
            "module_executors",
            "executor_opts",
            "start_event",
            "anything",
        ] {
            let error = taken(with(Map::new().with(name, true), ""), None).unwrap_err();
            assert!(error.contains(name), "{error}");
        }
        let mut numbered = Map::new();
        numbered.insert(1, true);
        assert!(taken(with(numbered, ""), None).is_err());
    }

    #[test]
    fn a_guest_names_no_returner_but_the_administrators() {
        assert!(taken(with(Map::new(), "rawfile_json"), None).is_err());
        assert!(taken(with(Map::new(), "rawfile_json"), Some("syslog")).is_err());
        assert!(taken(with(Map::new(), "syslog"), Some("syslog")).is_ok());
    }
}
