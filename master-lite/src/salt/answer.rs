//! What the master says of a job, part by part.

use crate::interrupt;
use value::{Map, Value};

/// A part of the answer.
#[derive(Clone, Debug)]
pub(super) enum Said {
    /// The job was sent.
    Sent(Sent),
    /// A minion returned, or is given up.
    Answered(Answer),
}

/// To whom a job was sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Sent {
    /// Its id.
    pub(super) jid: String,
    /// Who matches.
    pub(super) minions: Vec<String>,
    /// Those of them that are not connected.
    pub(super) missing: Vec<String>,
}

/// What a minion returned, or what is said in its place.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// The minion.
    pub(super) id: String,
    /// The return.
    pub(super) value: Value,
    /// How its function wants it printed.
    pub(super) out: Option<String>,
    /// Its exit code, the highest one of several functions.
    pub(super) retcode: i64,
    /// The exit code as it came.
    pub(super) retcode_shown: Value,
    /// The job.
    pub(super) jid: String,
    /// Set when there is no return.
    pub(super) given_up: Option<GivenUp>,
}

/// Why a minion is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GivenUp {
    /// It was not there.
    NotConnected,
    /// It said nothing in time.
    NoResponse,
}

impl Said {
    /// Reads a part; the first one says the job's id, which the others may need. What is neither of both is passed over.
    pub(super) fn of(part: &Value, jid: &mut String) -> Option<Self> {
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
    /// What is said of a minion that was sent a job and is silent.
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
            given_up: Some(GivenUp::NoResponse),
        }
    }

    /// What a batch has of a minion that was there at its start and does not return: nothing, and no failure.
    pub(super) fn silent(id: String) -> Self {
        Self {
            id,
            value: Map::new().into(),
            out: None,
            retcode: 0,
            retcode_shown: Value::Int(0),
            jid: String::new(),
            given_up: Some(GivenUp::NoResponse),
        }
    }
}

fn returned(part: &Map, jid: &str) -> Answer {
    let retcode = part.get("retcode").cloned().unwrap_or(Value::Int(0));
    let highest = match &retcode {
        Value::Map(codes) => codes.values().filter_map(Value::as_int).max(),
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
        given_up: Some(GivenUp::NotConnected),
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
