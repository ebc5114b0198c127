//! [`DaemonFunction`]: the functions of `saltutil` about running jobs. The daemon answers them
//! without a process, because Salt's commands wait only a few seconds for `find_job`.

use saltlink::Publication;
use value::glob::fnmatch;
use value::{Map, Value};
use wire::{FindJob, Request, Running, SignalJob};

/// The signals of `term_job` and `kill_job`.
const TERM: u64 = 15;
const KILL: u64 = 9;
/// The highest number of a signal.
const SIGNAL_MAX: u64 = 64;

/// A function that the daemon answers.
#[derive(Debug, PartialEq)]
pub(super) enum DaemonFunction {
    FindJob { jid: String },
    Running,
    IsRunning { fun: String },
    Signal { jid: String, signal: u64 },
}

impl DaemonFunction {
    /// Returns the function of a publication; `None` for another one, and for arguments that make no
    /// sense, about which the function itself complains.
    pub(super) fn parse(publication: &Publication) -> Option<Self> {
        let [fun] = publication.fun.as_slice() else {
            return None;
        };
        if publication.is_multiple {
            return None;
        }
        let args = publication.arg.first().cloned().unwrap_or_default();
        let (places, names) = modules::loader::call::split(&args);
        let given = |at: usize, name: &str| {
            let named = names.get(name).cloned();
            let text = places.get(at).cloned().or(named)?.to_text();
            (!text.is_empty()).then_some(text)
        };
        let jid = || given(0, "jid");
        let count = places.len() + names.len();
        Some(match (fun.strip_prefix("saltutil.")?, count) {
            ("find_job", 1) => Self::FindJob { jid: jid()? },
            ("running", 0) => Self::Running,
            ("is_running", 1) => Self::IsRunning {
                fun: given(0, "fun")?,
            },
            ("term_job", 1) => Self::Signal {
                jid: jid()?,
                signal: TERM,
            },
            ("kill_job", 1) => Self::Signal {
                jid: jid()?,
                signal: KILL,
            },
            ("signal_job", 2) => Self::Signal {
                jid: jid()?,
                signal: signal(&given(1, "sig")?)?,
            },
            _ => return None,
        })
    }

    /// Returns the request to the daemon.
    pub(super) fn request(&self) -> Request {
        match self {
            Self::FindJob { jid } => FindJob { jid: jid.clone() }.into(),
            Self::Running | Self::IsRunning { .. } => Running {}.into(),
            Self::Signal { jid, signal } => SignalJob {
                jid: jid.clone(),
                signal: *signal,
            }
            .into(),
        }
    }

    /// Returns the daemon's answer as Salt's function returns it.
    pub(super) fn answer(&self, answer: Value) -> Value {
        match self {
            Self::FindJob { jid } => match answer {
                Value::Map(found) => found.into(),
                // The job has ended, and its return waits to be sent.
                found if found.is_true() => Map::new().with("jid", jid.as_str()).into(),
                _ => Map::new().into(),
            },
            Self::IsRunning { fun: pattern } => {
                let is_one = |job: &&Value| {
                    let fun = job.get("fun").map(Value::to_text).unwrap_or_default();
                    fnmatch(pattern, &fun)
                };
                let jobs = answer.as_list().unwrap_or_default();
                Value::list(jobs.iter().filter(is_one).cloned())
            }
            Self::Running | Self::Signal { .. } => answer,
        }
    }
}

fn signal(text: &str) -> Option<u64> {
    let number = text.parse().ok()?;
    (1..=SIGNAL_MAX).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publication(fun: &str, arg: Vec<Value>) -> Publication {
        Publication {
            jid: "20261127100000000001".into(),
            fun: vec![fun.to_owned()],
            arg: vec![arg],
            is_multiple: false,
            tgt: "*".into(),
            tgt_type: "glob".into(),
            ret: String::new(),
            user: "root".into(),
            load: Map::new(),
        }
    }

    fn parsed(fun: &str, arg: Vec<Value>) -> Option<DaemonFunction> {
        DaemonFunction::parse(&publication(fun, arg))
    }

    #[test]
    fn functions_about_jobs_need_no_process() {
        let jid = "20261127100000000002";
        let find = DaemonFunction::FindJob { jid: jid.into() };
        assert_eq!(parsed("saltutil.find_job", vec![jid.into()]), Some(find));
        let named = Map::new().with("__kwarg__", true).with("jid", jid);
        let kill = DaemonFunction::Signal {
            jid: jid.into(),
            signal: 9,
        };
        assert_eq!(parsed("saltutil.kill_job", vec![named.into()]), Some(kill));
        let hup = DaemonFunction::Signal {
            jid: jid.into(),
            signal: 1,
        };
        let args = vec![jid.into(), 1.into()];
        assert_eq!(parsed("saltutil.signal_job", args), Some(hup));
        assert_eq!(
            parsed("saltutil.running", vec![]),
            Some(DaemonFunction::Running)
        );
        assert_eq!(
            parsed("saltutil.signal_job", vec![jid.into(), 99.into()]),
            None
        );
        assert_eq!(parsed("saltutil.find_job", vec![]), None);
        assert_eq!(parsed("saltutil.sync_all", vec![]), None);
        let several = Publication {
            is_multiple: true,
            ..publication("saltutil.running", vec![])
        };
        assert_eq!(DaemonFunction::parse(&several), None);
    }

    #[test]
    fn a_job_whose_return_waits_counts_as_running() {
        let find = DaemonFunction::FindJob { jid: "1".into() };
        assert_eq!(find.answer(true.into()), Map::new().with("jid", "1").into());
        assert_eq!(find.answer(Value::Null), Map::new().into());
        let jobs = ["test.sleep", "state.apply"].map(|fun| Map::new().with("fun", fun).into());
        let is_running = DaemonFunction::IsRunning {
            fun: "state.*".into(),
        };
        let found = is_running.answer(Value::list(jobs));
        assert_eq!(found.as_list().map(<[_]>::len), Some(1));
    }
}
