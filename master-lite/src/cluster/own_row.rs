//! Keeps the row of this master among the members up to date: a restart may bring other addresses or
//! a newer release.

use std::time::Duration;

use cluster::core::Member;
use cluster::raft::Status;
use link::PublicKey;
use link::wait::pause;
use value::{Map, Value, log};

use super::Cluster;
use super::requests::{Ask, number};

/// The interval between two attempts.
const AGAIN: Duration = Duration::from_secs(1);
/// The maximum time for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The answer of a master that does not lead.
const NOT_LEADING: &str = "this master does not lead the cluster";
/// The maximum length of a name or an address.
const TEXT_MAX: usize = 256;

/// Returns a row as a request has it. The key is that of the connection.
pub(super) fn to_map(row: &Member) -> Map {
    Map::new()
        .with("name", row.name.as_str())
        .with("address", row.address.as_str())
        .with("minions", row.minions.as_str())
        .with("level", row.level)
}

/// Reads a row without its key.
pub(super) fn from_value(value: &Value) -> Option<Member> {
    let map = value.as_map()?;
    let text = |name: &str| {
        let text = map.get(name)?.as_str()?;
        let is_plain = text.len() <= TEXT_MAX && !text.chars().any(char::is_control);
        is_plain.then(|| text.to_owned())
    };
    let address = |name: &str| {
        let text = text(name)?;
        text.parse::<std::net::SocketAddr>().is_ok().then_some(text)
    };
    Some(Member {
        name: text("name").filter(|name| !name.is_empty())?,
        address: address("address")?,
        minions: address("minions")?,
        key: Vec::new(),
        level: number(map, "level")?,
    })
}

impl Cluster {
    /// Makes the row of this master the given one. Tries until it is.
    pub(super) async fn keep_own_row(self, row: Member) {
        let mut said = String::new();
        loop {
            let status = self.status();
            let done = match status.members.get(&status.node) {
                Some(known) if *known == row => return,
                Some(_) => self.change_own_row(&status, &row).await,
                // It does not know the members yet.
                None => Ok(()),
            };
            if let Err(failure) = done
                && failure != said
            {
                log::warning(format_args!(
                    "cannot tell the cluster the present addresses or release of this master: {failure}"
                ));
                said = failure;
            }
            pause(AGAIN).await;
        }
    }

    /// Asks each master, since one with another address does not learn which one leads.
    async fn change_own_row(&self, status: &Status, row: &Member) -> Result<(), String> {
        let mut failure = "no other master answers".to_owned();
        for of in status.members.keys() {
            let done = match *of == status.node {
                true => self.change_row(status.node, row.clone()).await.map(drop),
                false => {
                    let ask = Ask::Row(row.clone());
                    self.ask(*of, &ask, ANSWER_MAX).await.map(drop)
                }
            };
            match done {
                Ok(()) => {
                    log::info(format_args!(
                        "The cluster knows the present addresses and release of this master"
                    ));
                    return Ok(());
                }
                // The reason of the leader.
                Err(error) if error != NOT_LEADING => failure = error,
                Err(_) => {}
            }
        }
        Err(failure)
    }

    /// Changes the row of the master that asks for it.
    pub(super) async fn change_row_of(
        &self,
        key: &PublicKey,
        row: Member,
    ) -> Result<Value, String> {
        let of = self.number_of(key)?;
        self.change_row(of, row).await
    }

    /// Changes a row, if this master leads. The key stays.
    async fn change_row(&self, of: u64, row: Member) -> Result<Value, String> {
        let _changing = self.0.changing.lock().await;
        let status = self.status();
        if !status.leads() {
            return Err(NOT_LEADING.to_owned());
        }
        let known = status.members.get(&of).ok_or("it is no member any more")?;
        let has_its = |(number, other): (&u64, &Member)| *number != of && other.name == row.name;
        if status.members.iter().any(has_its) {
            return Err(format!("{} is the name of another master", row.name));
        }
        if known.name != row.name
            && let Some(ring) = self.ring_of(&known.name)?
        {
            return Err(format!(
                "the ring {ring} has its name {}: give it this address again (`interface`), or destroy the ring before",
                known.name
            ));
        }
        let key = known.key.clone();
        let changed = self.0.group.update(of, Member { key, ..row }).await;
        changed.map_err(|error| error.to_string())?;
        Ok(true.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_back_and_forged_ones_are_not() {
        let row = Member {
            name: "m1".to_owned(),
            address: "10.0.0.1:4520".to_owned(),
            minions: "10.0.0.1:4506".to_owned(),
            key: Vec::new(),
            level: 2,
        };
        assert_eq!(from_value(&to_map(&row).into()), Some(row.clone()));
        for (field, forged) in [
            ("name", "".into()),
            ("name", "a\nb".into()),
            ("name", "n".repeat(TEXT_MAX + 1).into()),
            ("address", "m1".into()),
            ("minions", Value::Null),
            ("level", (-1).into()),
        ] {
            let forged: Value = to_map(&row).with(field, forged).into();
            assert_eq!(from_value(&forged), None, "{field}");
        }
    }
}
