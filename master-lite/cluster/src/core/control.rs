//! [`Control`]: what a state remembers of the log that it follows from.

use std::collections::BTreeMap;

use value::{Map, Value};
use wire::msgpack;

use super::{Numbers, Proposal};

/// The limits of the encoded form: the members, and numbers of all masters that ever were one.
const LIMITS: wire::Limits = wire::Limits {
    bytes: 1 << 20,
    depth: 8,
    items: 1 << 16,
};

/// The position in the log up to which a state is applied, and the proposals that it has seen. It is
/// stored together with the state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// The term and the index of the last applied entry.
    pub applied: Option<(u64, u64)>,
    /// The entry that has the members, and the members in the form of the log.
    pub members: Option<(Option<(u64, u64)>, Value)>,
    numbers: BTreeMap<u64, Numbers>,
}

/// A stored form that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the position in the log: {0}")]
pub struct Damaged(pub(crate) String);

/// The decision about a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is applied.
    Apply,
    /// It was applied before.
    Duplicate,
    /// It is void: it came into the log in a later term than it may.
    Fenced,
    /// A later release proposed it, and only that one can apply it.
    Newer,
}

impl Control {
    /// Decides what is to be done with a proposal that got into the log in this term. `newest` is the
    /// newest level of commands that can be applied here.
    pub fn judge(&mut self, term: u64, newest: u64, proposal: &Proposal) -> Verdict {
        if proposal.level > newest {
            return Verdict::Newer;
        }
        let numbers = self.numbers.entry(proposal.node).or_default();
        if !numbers.take(proposal.boot, proposal.number) {
            return Verdict::Duplicate;
        }
        match proposal.fence {
            Some(fence) if fence != term => Verdict::Fenced,
            _ => Verdict::Apply,
        }
    }

    /// Returns the last applied proposal of a master.
    #[must_use]
    pub fn numbers(&self, node: u64) -> Numbers {
        self.numbers.get(&node).copied().unwrap_or_default()
    }

    /// Returns the stored form.
    ///
    /// # Errors
    /// When it exceeds its limits.
    pub fn encode(&self) -> Result<Vec<u8>, wire::Error> {
        let mut map = Map::new();
        if let Some(applied) = self.applied {
            map.insert("applied", pair(applied));
        }
        if let Some((at, members)) = &self.members {
            let at = at.map_or(Value::Null, pair);
            map.insert("members", Value::list([at, members.clone()]));
        }
        let numbers = self.numbers.iter().map(|(node, numbers)| {
            Value::list([(*node).into(), numbers.boot.into(), numbers.last.into()])
        });
        map.insert("numbers", Value::list(numbers));
        let mut bytes = Vec::new();
        msgpack::encode(&Value::Map(map), LIMITS, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// When the bytes have another form.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damaged> {
        let value = msgpack::decode(bytes, LIMITS).map_err(|error| Damaged(error.to_string()))?;
        Self::from_value(&value).ok_or_else(|| Damaged("it has an unknown form".to_owned()))
    }

    fn from_value(value: &Value) -> Option<Self> {
        let map = value.as_map()?;
        let applied = match map.get("applied") {
            Some(applied) => Some(of_pair(applied)?),
            None => None,
        };
        let members = match map.get("members").map(|pair| pair.as_list()) {
            Some(Some([Value::Null, members])) => Some((None, members.clone())),
            Some(Some([at, members])) => Some((Some(of_pair(at)?), members.clone())),
            Some(_) => return None,
            None => None,
        };
        let mut numbers = BTreeMap::new();
        for row in map.get("numbers")?.as_list()? {
            let [node, boot, last] = row.as_list()? else {
                return None;
            };
            let known = Numbers {
                boot: number(boot)?,
                last: number(last)?,
            };
            numbers.insert(number(node)?, known);
        }
        Some(Self {
            applied,
            members,
            numbers,
        })
    }
}

fn pair((term, index): (u64, u64)) -> Value {
    Value::list([term.into(), index.into()])
}

fn of_pair(value: &Value) -> Option<(u64, u64)> {
    match value.as_list()? {
        [term, index] => Some((number(term)?, number(index)?)),
        _ => None,
    }
}

fn number(value: &Value) -> Option<u64> {
    value.as_int().and_then(|number| u64::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::LEVEL;

    fn proposal(number: u64, fence: Option<u64>) -> Proposal {
        Proposal {
            node: 1,
            boot: 1,
            number,
            level: LEVEL,
            fence,
            command: Vec::new().into(),
        }
    }

    #[test]
    fn a_fenced_proposal_of_a_former_leader_is_void_and_stays_so() {
        let mut control = Control::default();
        assert_eq!(
            control.judge(3, LEVEL, &proposal(1, Some(2))),
            Verdict::Fenced
        );
        assert_eq!(
            control.judge(2, LEVEL, &proposal(1, Some(2))),
            Verdict::Duplicate
        );
        assert_eq!(
            control.judge(3, LEVEL, &proposal(2, Some(3))),
            Verdict::Apply
        );
    }

    #[test]
    fn a_proposal_of_a_later_release_is_not_applied_and_not_counted() {
        let mut control = Control::default();
        let newer = Proposal {
            level: LEVEL + 1,
            ..proposal(1, None)
        };
        assert_eq!(control.judge(1, LEVEL, &newer), Verdict::Newer);
        assert_eq!(control.judge(1, LEVEL, &proposal(1, None)), Verdict::Apply);
    }

    #[test]
    fn the_stored_form_is_read_back() {
        let mut control = Control {
            applied: Some((2, 40)),
            members: Some((Some((1, 1)), Value::list(["x".into()]))),
            ..Control::default()
        };
        for number in [1, 2, 9] {
            control.judge(1, LEVEL, &proposal(number, None));
        }
        let bytes = control.encode().unwrap();
        assert_eq!(Control::decode(&bytes), Ok(control));
        assert!(Control::decode(b"\x80").is_err());
        assert!(Control::decode(b"").is_err());
    }
}
