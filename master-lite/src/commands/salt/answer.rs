//! The parts of the master's answer to a job.

use crate::commands::interrupt;
use value::{Map, Value};

/// A part of the answer.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// The job was sent.
    Sent(Sent),
    /// A minion returned, or was given up.
    Answered(Answer),
}

/// The recipients of a job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent {
    /// The job id.
    pub(super) jid: String,
    /// The minions that match.
    pub(crate) minions: Vec<String>,
    /// The unknown names of a list. In a preview, also the matching minions that are not connected.
    pub(super) missing: Vec<String>,
}

/// A minion's return, or the text that replaces it.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The minion.
    pub(crate) id: String,
    /// The return.
    pub(crate) value: Value,
    /// The outputter that the function wants.
    pub(super) out: Option<String>,
    /// The exit code: the highest one if there are several functions.
    pub(super) retcode: i64,
    /// The exit code as the minion sent it.
    pub(super) retcode_shown: Value,
    /// The job id.
    pub(super) jid: String,
    /// The reason why there is no return.
    pub(super) given_up: Option<NoReturn>,
}

/// The reason why a minion is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoReturn {
    /// The minion was not connected.
    NotConnected,
    /// The minion did not answer in time.
    NoResponse,
}

impl Reply {
    /// Reads a part. The first part contains the job id, which `jid` keeps for the others. Returns
    /// `None` for other parts.
    pub(super) fn read(part: &Value, jid: &mut String) -> Option<Self> {
        let part = part.as_map()?;
        if part.get("minions").is_some() {
            *jid = text(part, "jid");
            interrupt::waits_for(jid);
            return Some(Self::Sent(Sent {
                jid: jid.clone(),
                minions: ids(part, "minions"),
                missing: ids(part, "missing"),
            }));
        }
        part.get("id")?;
        Some(Self::Answered(match part.get("failed") {
            Some(failed) if failed.is_true() => given_up(part, failed, jid),
            _ => returned(part, jid),
        }))
    }
}

impl Answer {
    /// Returns the answer that replaces the return of a silent minion.
    pub(super) fn no_response(id: String, jid: &str) -> Self {
        let sentence = format!(
            "Minion did not return. [No response]\nThe minions may not have all finished running and any remaining minions will return upon completion. To look up the return data for this job later, run the following command:\n\nsalt-run jobs.lookup_jid {jid}"
        );
        Self {
            id,
            value: sentence.into(),
            out: Some("no_return".into()),
            retcode: 1,
            retcode_shown: Value::Int(1),
            jid: jid.to_owned(),
            given_up: Some(NoReturn::NoResponse),
        }
    }

    /// Returns the answer of a batch for a minion that was connected at the start and does not
    /// return: it is empty, and no failure.
    pub(super) fn silent(id: String) -> Self {
        Self {
            id,
            value: Map::new().into(),
            out: None,
            retcode: 0,
            retcode_shown: Value::Int(0),
            jid: String::new(),
            given_up: Some(NoReturn::NoResponse),
        }
    }
}

fn returned(part: &Map, jid: &str) -> Answer {
    let retcode = part.get("retcode").cloned().unwrap_or(Value::Int(0));
    let highest = match &retcode {
        Value::Map(codes) => codes.values().filter_map(Value::as_int).max(),
        Value::List(codes) => codes.iter().filter_map(Value::as_int).max(),
        other => other.as_int(),
    };
    Answer {
        id: text(part, "id"),
        value: part.get("return").cloned().unwrap_or_default(),
        out: part.get("out").and_then(Value::as_str).map(str::to_owned),
        retcode: highest.unwrap_or_default(),
        retcode_shown: retcode,
        jid: jid.to_owned(),
        given_up: None,
    }
}

fn given_up(part: &Map, failed: &Value, jid: &str) -> Answer {
    let id = text(part, "id");
    if failed.as_str() != Some("not_connected") {
        return Answer::no_response(id, jid);
    }
    Answer {
        value: "Minion did not return. [Not connected]".into(),
        given_up: Some(NoReturn::NotConnected),
        ..Answer::no_response(id, jid)
    }
}

fn text(part: &Map, key: &str) -> String {
    part.get(key).map(Value::to_text).unwrap_or_default()
}

fn ids(part: &Map, key: &str) -> Vec<String> {
    let ids = part.get(key).and_then(Value::as_list).unwrap_or_default();
    ids.iter().map(Value::to_text).collect()
}
