//! [`Publication`]: a job, as the master publishes it to all of its minions.

use std::collections::VecDeque;

use value::{Map, Value, jid};

use crate::limits::{FUNCTIONS_MAX, SERIALS_MAX};
use crate::rsa_keys::Public;
use crate::{SigAlgo, raw};

/// A job that the master has published. It is signed by the master, if it must be, and no replay.
/// The minion decides if it is one of the targets.
#[derive(Clone, Debug)]
pub struct Publication {
    /// The id of the job; [`value::jid::is_jid`] is true for it.
    pub jid: String,
    /// The functions. There is more than one only if `is_multiple`.
    pub fun: Vec<String>,
    /// The arguments of each function; as many lists as functions.
    pub arg: Vec<Vec<Value>>,
    /// True if the functions came as a list: then the values of the return are by function.
    pub is_multiple: bool,
    /// The target.
    pub tgt: Value,
    /// The type of the target (`glob`, `list`, …).
    pub tgt_type: String,
    /// The returners (`ret`).
    pub ret: String,
    /// The user whose command published the job.
    pub user: String,
    /// The whole message, with these fields and all others (`metadata`, `ret_config`, …).
    pub load: Map,
}

impl Publication {
    /// Reads an opened publication.
    pub(crate) fn parse(value: Value) -> Result<Self, String> {
        let Value::Map(load) = value else {
            return Err("it is no map".to_owned());
        };
        let text = |name: &str, default: &str| match load.get(name) {
            None | Some(Value::Null) => Ok(default.to_owned()),
            Some(Value::Str(text)) => Ok(text.to_string()),
            Some(other) => Err(format!("`{name}` is a {}", other.type_name())),
        };
        let id = text("jid", "")?;
        if !jid::is_jid(&id) {
            return Err("its `jid` is no id of a job".to_owned());
        }
        let (fun, is_multiple) = functions(&load)?;
        Ok(Self {
            arg: arguments(&load, fun.len(), is_multiple)?,
            fun,
            is_multiple,
            tgt: load.get("tgt").cloned().ok_or("it has no `tgt`")?,
            tgt_type: text("tgt_type", "glob")?,
            ret: text("ret", "")?,
            user: text("user", "")?,
            jid: id,
            load,
        })
    }
}

fn functions(load: &Map) -> Result<(Vec<String>, bool), String> {
    let named = |value: &Value| match value {
        Value::Str(name) if !name.is_empty() => Ok(name.to_string()),
        _ => Err("a function is no name".to_owned()),
    };
    match load.get("fun") {
        Some(Value::List(names)) if names.len() > FUNCTIONS_MAX => {
            Err(format!("it has more than {FUNCTIONS_MAX} functions"))
        }
        Some(Value::List(names)) if !names.is_empty() => {
            let names: Result<Vec<String>, String> = names.iter().map(named).collect();
            Ok((names?, true))
        }
        Some(one @ Value::Str(_)) => Ok((vec![named(one)?], false)),
        _ => Err("it has no `fun`".to_owned()),
    }
}

fn arguments(load: &Map, functions: usize, is_multiple: bool) -> Result<Vec<Vec<Value>>, String> {
    let all = match load.get("arg") {
        None | Some(Value::Null) => return Ok(vec![Vec::new(); functions]),
        Some(Value::List(all)) => all,
        Some(other) => return Err(format!("`arg` is a {}", other.type_name())),
    };
    if !is_multiple {
        return Ok(vec![all.to_vec()]);
    }
    if all.len() != functions {
        return Err("`fun` and `arg` have different lengths".to_owned());
    }
    let one = |value: &Value| match value.as_list() {
        Some(items) => items.to_vec(),
        None => vec![value.clone()],
    };
    Ok(all.iter().map(one).collect())
}

/// A publication that is still sealed.
pub(crate) struct Envelope<'a> {
    pub(crate) load: &'a [u8],
    signature: Option<&'a [u8]>,
    sig_algo: Option<&'a str>,
}

impl<'a> Envelope<'a> {
    pub(crate) fn parse(value: &'a Value) -> Result<Self, &'static str> {
        if value.get("enc").and_then(Value::as_str) != Some("aes") {
            return Err("it is not sealed");
        }
        Ok(Self {
            load: value.get("load").and_then(raw).ok_or("it is empty")?,
            signature: value.get("sig").and_then(raw),
            sig_algo: value.get("sig_algo").and_then(Value::as_str),
        })
    }

    /// Verifies the signature of the master, before anything is decrypted. A signature that is there
    /// must be right, even if none is needed.
    pub(crate) fn verify(&self, master: &Public, must_be_signed: bool) -> Result<(), &'static str> {
        let Some(signature) = self.signature else {
            return match must_be_signed {
                true => Err("it is not signed: set sign_pub_messages on the master"),
                false => Ok(()),
            };
        };
        let default = SigAlgo::Pkcs1v15Sha1.name();
        let algo = SigAlgo::parse(self.sig_algo.unwrap_or(default));
        let algo = algo.ok_or("its signature is of an unknown type")?;
        match master.verifies(algo, self.load, signature) {
            true => Ok(()),
            false => Err("its signature is not that of the master"),
        }
    }
}

/// The number of the last publication under each of the fleet's last keys.
#[derive(Debug, Default)]
pub(crate) struct Serials(VecDeque<([u8; 32], i64)>);

impl Serials {
    /// Counts a publication under the key of this name. Returns false if it is a replay: its number
    /// is not above the last one, or it has none although others had.
    pub(crate) fn accept(&mut self, key: [u8; 32], serial: Option<i64>) -> bool {
        let last = self.0.iter_mut().find(|(name, _)| *name == key);
        match (last, serial) {
            (None, None) => true,
            (Some(_), None) => false,
            (Some((_, last)), Some(serial)) => {
                let is_new = serial > *last;
                *last = serial.max(*last);
                is_new
            }
            (None, Some(serial)) => {
                self.0.truncate(SERIALS_MAX - 1);
                self.0.push_front((key, serial));
                true
            }
        }
    }
}
