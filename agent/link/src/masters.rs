//! [`MasterList`]: the masters of a cluster, as one of them states them, and the order in which a
//! minion tries them.
//!
//! The first is the master with the highest hash of (minion, master), so that minions spread evenly
//! over the masters. When a master comes or goes, only the minions that it concerns have another
//! first one.

use ring::digest::{SHA256, digest};
use value::{Value, sorted};
use wire::Masters;

use crate::key::PublicKey;
use crate::session::{Master, PORT};
use crate::succession::has_finger;

/// The maximum number of masters of a list.
const MASTERS_MAX: usize = 16;
/// The maximum length of a name or an address in bytes.
const TEXT_MAX: usize = 255;
/// The length of a fingerprint: 32 bytes as two digits each, and the colons between them.
const FINGER: usize = 32 * 3 - 1;

/// The masters of a cluster. There is at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterList {
    index: u64,
    place: String,
    masters: Vec<Listed>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    name: String,
    address: String,
    master: Master,
    finger: String,
}

/// The reason why a list of masters is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadList {
    /// It has no master, or too many.
    #[error("it has {0} masters instead of 1 to {MASTERS_MAX}")]
    Length(usize),
    /// A master lacks an entry, or the entry is invalid.
    #[error("its master {at} has no valid `{entry}`")]
    Entry {
        /// The position of the master in the list, from 1.
        at: usize,
        /// The name of the entry.
        entry: &'static str,
    },
}

impl MasterList {
    /// Reads a list. `place` is the file that it is kept in, for errors.
    ///
    /// # Errors
    /// When anything in it is invalid.
    pub fn read(sent: &Masters, place: &str) -> Result<Self, BadList> {
        if !(1..=MASTERS_MAX).contains(&sent.masters.len()) {
            return Err(BadList::Length(sent.masters.len()));
        }
        let mut masters = Vec::new();
        for master in &sent.masters {
            let at = masters.len() + 1;
            let text = |entry, is_valid: fn(&str) -> bool| {
                let text = master.get(entry).and_then(Value::as_str);
                let text = text.filter(|text| is_valid(text));
                text.ok_or(BadList::Entry { at, entry })
            };
            let address = text("address", is_short)?;
            masters.push(Listed {
                name: text("name", is_short)?.to_owned(),
                address: address.to_owned(),
                master: Master::parse(address, PORT),
                finger: text("finger", is_finger)?.to_owned(),
            });
        }
        Ok(Self {
            index: sent.index,
            place: place.to_owned(),
            masters,
        })
    }

    /// Returns the frame that [`read`](Self::read) reads.
    #[must_use]
    pub fn frame(&self) -> Masters {
        let map = |listed: &Listed| {
            value::Map::new()
                .with("name", listed.name.as_str())
                .with("address", listed.address.as_str())
                .with("finger", listed.finger.as_str())
                .into()
        };
        Masters {
            index: self.index,
            masters: self.masters.iter().map(map).collect(),
        }
    }

    /// Returns the number that grows with each change of the list.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Returns whether the key is that of one of the masters.
    #[must_use]
    pub fn has_key(&self, key: &PublicKey) -> bool {
        has_finger(&self.fingers(), key)
    }

    /// Returns whether minions connect to one of the masters here.
    #[must_use]
    pub fn has_address(&self, master: &Master) -> bool {
        self.masters.iter().any(|listed| listed.master == *master)
    }

    /// Returns the fingerprints of all keys.
    #[must_use]
    pub fn fingers(&self) -> Vec<String> {
        let masters = self.masters.iter();
        masters.map(|listed| listed.finger.clone()).collect()
    }

    /// Returns the file that the list is kept in.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }
}

fn is_short(text: &str) -> bool {
    (1..=TEXT_MAX).contains(&text.len()) && !text.contains(|c: char| c.is_control() || c == ' ')
}

fn is_finger(text: &str) -> bool {
    let is_byte = |part: &str| part.len() == 2 && part.bytes().all(|c| c.is_ascii_hexdigit());
    text.len() == FINGER && text.split(':').all(is_byte)
}

/// A master to be tried.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) master: Master,
    /// The name and the fingerprint that the list has for this master; `None` for a master that
    /// only the configuration has.
    pub(crate) listed: Option<(String, String)>,
}

/// Returns the masters in the order in which a minion tries them: those of the list by descending
/// hash, then the others of the configuration in their order.
pub(crate) fn targets(
    list: Option<&MasterList>,
    minion: &str,
    configured: &[Master],
) -> Vec<Target> {
    let listed = |listed: &Listed| Target {
        master: listed.master.clone(),
        listed: Some((listed.name.clone(), listed.finger.clone())),
    };
    let mut targets: Vec<Target> = list
        .map(|list| list.masters.iter().map(listed).collect())
        .unwrap_or_default();
    // The complement sorts the highest hash first.
    sorted::sort_by_key(&mut targets, |target| {
        target.listed.as_ref().map(|(name, _)| !hash(minion, name))
    });
    let others = configured
        .iter()
        .filter(|master| !list.is_some_and(|list| list.has_address(master)));
    targets.extend(others.map(|master| Target {
        master: master.clone(),
        listed: None,
    }));
    targets
}

/// Returns a number that is the same on all machines and in all releases.
fn hash(minion: &str, master: &str) -> u64 {
    let digest = digest(&SHA256, format!("{minion}\0{master}").as_bytes());
    let first = digest.as_ref().first_chunk();
    first.map_or(0, |first| u64::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::Map;

    fn master(name: &str) -> Map {
        Map::new()
            .with("name", name)
            .with("address", format!("{name}.example:4507"))
            .with("finger", ["aB"; 32].join(":"))
    }

    fn sent(masters: impl IntoIterator<Item = Map>) -> Masters {
        Masters {
            index: 7,
            masters: masters.into_iter().map(Value::Map).collect(),
        }
    }

    fn list(names: &[&str]) -> MasterList {
        MasterList::read(&sent(names.iter().map(|name| master(name))), "masters").unwrap()
    }

    fn order(list: Option<&MasterList>, minion: &str, configured: &[&str]) -> Vec<String> {
        let configured: Vec<Master> = configured
            .iter()
            .map(|name| Master::parse(name, PORT))
            .collect();
        let targets = targets(list, minion, &configured);
        targets
            .iter()
            .map(|target| target.master.host.clone())
            .collect()
    }

    #[test]
    fn a_list_is_read_and_written() {
        let list = list(&["m1", "m2"]);
        assert_eq!((list.index(), list.fingers().len()), (7, 2));
        assert!(list.has_address(&Master::parse("m2.example:4507", PORT)));
        assert!(!list.has_address(&Master::parse("m2.example", PORT)));
        assert_eq!(MasterList::read(&list.frame(), "masters"), Ok(list));
    }

    #[test]
    fn a_hostile_list_is_refused_as_a_whole() {
        let read = |masters: Vec<Map>| MasterList::read(&sent(masters), "masters");
        for count in [0, MASTERS_MAX + 1] {
            let many = (0..count).map(|at| master(&format!("m{at}"))).collect();
            assert_eq!(read(many), Err(BadList::Length(count)));
        }
        let many = (0..MASTERS_MAX).map(|at| master(&format!("m{at}")));
        assert!(read(many.collect()).is_ok());
        let long = "x".repeat(TEXT_MAX + 1);
        let finger = ["ab"; 32].join(":");
        let longer = format!("{finger}:ab");
        let cases: [(&'static str, Value); 14] = [
            ("name", Value::Null),
            ("name", 1.into()),
            ("name", "".into()),
            ("name", long.as_str().into()),
            ("name", "a\nb".into()),
            ("address", Value::Null),
            ("address", "".into()),
            ("address", long.as_str().into()),
            ("address", "a b".into()),
            ("address", "\u{1b}[2J".into()),
            ("finger", Value::Null),
            ("finger", finger.replace("ab", "xy").into()),
            ("finger", finger.replace(':', "-").into()),
            ("finger", longer.into()),
        ];
        for (entry, bad) in cases {
            let second = master("m2").with(entry, bad.clone());
            let answer = read(vec![master("m1"), second]);
            assert_eq!(answer, Err(BadList::Entry { at: 2, entry }), "{bad:?}");
        }
        let mut no_maps = sent([master("m1")]);
        no_maps.masters.push("m2".into());
        let answer = MasterList::read(&no_maps, "masters");
        assert_eq!(
            answer,
            Err(BadList::Entry {
                at: 2,
                entry: "name"
            })
        );
    }

    #[test]
    fn a_thousand_minions_spread_evenly_over_three_masters() {
        let list = list(&["m1", "m2", "m3"]);
        let firsts: Vec<String> = (0..1000)
            .map(|at| order(Some(&list), &format!("web-{at}"), &[]).remove(0))
            .collect();
        for name in ["m1.example", "m2.example", "m3.example"] {
            let share = firsts.iter().filter(|first| *first == name).count();
            assert!((233..=433).contains(&share), "{name} has {share}");
        }
    }

    #[test]
    fn the_order_is_the_same_on_all_machines_and_however_the_list_is_sorted() {
        assert_eq!(hash("web-1", "10.0.0.1"), 183_976_964_075_117_473);
        let (one, other) = (list(&["m1", "m2", "m3"]), list(&["m3", "m1", "m2"]));
        for minion in ["web-1", "web-2", "web-3", "web-4"] {
            let all = order(Some(&one), minion, &[]);
            assert_eq!(all, order(Some(&other), minion, &[]));
            // When a master is removed, the others keep their order.
            let fewer = list(&["m1", "m3"]);
            let kept: Vec<String> = all
                .into_iter()
                .filter(|host| host != "m2.example")
                .collect();
            assert_eq!(order(Some(&fewer), minion, &[]), kept);
        }
    }

    #[test]
    fn configured_masters_come_in_their_order_and_after_those_of_the_list() {
        let configured = ["salt", "m2.example:4507", "backup"];
        assert_eq!(
            order(None, "web-1", &configured),
            ["salt", "m2.example", "backup"]
        );
        let list = list(&["m1", "m2"]);
        let all = order(Some(&list), "web-1", &configured);
        assert_eq!(all[2..], ["salt", "backup"]);
        assert_eq!(all.len(), 4);
    }
}
