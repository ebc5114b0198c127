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
#[derive(Clone, Debug, PartialEq)]
pub struct MasterList {
    sent: Masters,
    place: String,
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
    /// Checks a list. `place` is the file that it is kept in, for errors.
    ///
    /// # Errors
    /// When anything in it is invalid.
    pub fn new(sent: Masters, place: String) -> Result<Self, BadList> {
        let masters = &sent.masters;
        if !(1..=MASTERS_MAX).contains(&masters.len()) {
            return Err(BadList::Length(masters.len()));
        }
        for (at, master) in (1..).zip(masters) {
            for entry in ["name", "address", "finger"] {
                let text = text(master, entry);
                if !is_short(text) || entry == "finger" && !is_finger(text) {
                    return Err(BadList::Entry { at, entry });
                }
            }
        }
        Ok(Self { sent, place })
    }

    /// Returns the list as a master has sent it.
    #[must_use]
    pub fn sent(&self) -> &Masters {
        &self.sent
    }

    /// Returns whether the key is that of one of the masters.
    #[must_use]
    pub fn has_key(&self, key: &PublicKey) -> bool {
        has_finger(&self.fingers(), key)
    }

    /// Returns the addresses of the masters, with their ports.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        self.each(|master| address(master).to_string())
    }

    /// Returns the fingerprints of all keys.
    #[must_use]
    pub fn fingers(&self) -> Vec<String> {
        self.each(|master| text(master, "finger").to_owned())
    }

    fn each(&self, get: fn(&Value) -> String) -> Vec<String> {
        self.sent.masters.iter().map(get).collect()
    }
}

/// Returns an entry of a master; nothing if it is no text.
fn text<'a>(master: &'a Value, entry: &str) -> &'a str {
    let text = master.get(entry).and_then(Value::as_str);
    text.unwrap_or_default()
}

fn address(master: &Value) -> Master {
    Master::parse(text(master, "address"), PORT)
}

fn is_short(text: &str) -> bool {
    let is_graphic = |c: char| !c.is_control() && c != ' ';
    (1..=TEXT_MAX).contains(&text.len()) && text.chars().all(is_graphic)
}

fn is_finger(text: &str) -> bool {
    let is_byte = |part: &str| part.len() == 2 && part.bytes().all(|c| c.is_ascii_hexdigit());
    text.len() == FINGER && text.split(':').all(is_byte)
}

/// A master to be tried.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) master: Master,
    /// The fingerprints of which the master's key must have one; without any, those that the minion
    /// has remembered.
    pub(crate) fingers: Vec<String>,
    /// The file or option that has the fingerprints, if they are not the remembered ones.
    pub(crate) place: Option<String>,
    /// True for a master of the list, whose key is the only fingerprint.
    pub(crate) is_listed: bool,
}

/// Returns the masters in the order in which a minion tries them: those of the list by descending
/// hash, then the others of the configuration in their order. For the latter, the keys of the list
/// are accepted in addition to `fingers`.
pub(crate) fn targets(
    list: Option<&MasterList>,
    minion: &str,
    configured: &[Master],
    fingers: &[String],
) -> Vec<Target> {
    let mut targets = Vec::new();
    let (mut fingers, mut place) = (fingers.to_vec(), None);
    if let Some(list) = list {
        let mut masters: Vec<&Value> = list.sent.masters.iter().collect();
        // The complement sorts the highest hash first.
        sorted::sort_by_key(&mut masters, |master| !hash(minion, text(master, "name")));
        for master in masters {
            targets.push(Target {
                master: address(master),
                fingers: vec![text(master, "finger").to_owned()],
                place: Some(format!("{} in {}", text(master, "name"), list.place)),
                is_listed: true,
            });
        }
        if fingers.is_empty() {
            place = Some(list.place.clone());
        }
        fingers.extend(list.fingers());
    }
    for master in configured {
        if !targets.iter().any(|target| target.master == *master) {
            targets.push(Target {
                master: master.clone(),
                fingers: fingers.clone(),
                place: place.clone(),
                is_listed: false,
            });
        }
    }
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

    fn read(masters: impl IntoIterator<Item = Map>) -> Result<MasterList, BadList> {
        MasterList::new(sent(masters), "masters".to_owned())
    }

    fn list(names: &[&str]) -> MasterList {
        read(names.iter().map(|name| master(name))).unwrap()
    }

    fn order(list: Option<&MasterList>, minion: &str, configured: &[&str]) -> Vec<String> {
        let configured: Vec<Master> = configured
            .iter()
            .map(|name| Master::parse(name, PORT))
            .collect();
        let targets = targets(list, minion, &configured, &[]);
        targets
            .iter()
            .map(|target| target.master.host.clone())
            .collect()
    }

    #[test]
    fn addresses_have_ports_and_each_master_has_its_own_key_only() {
        let short = master("m2").with("address", "m2.example");
        let other = short.with("finger", ["cd"; 32].join(":"));
        let list = read([master("m1"), other]).unwrap();
        assert_eq!(list.addresses(), ["m1.example:4507", "m2.example:4506"]);
        let configured = [Master::parse("salt", PORT)];
        let own = ["ef".to_owned()];
        for target in targets(Some(&list), "web-1", &configured, &own) {
            let expected = match target.master.host.as_str() {
                "m1.example" => (vec![["aB"; 32].join(":")], Some("m1 in masters")),
                "m2.example" => (vec![["cd"; 32].join(":")], Some("m2 in masters")),
                _ => ([own.to_vec(), list.fingers()].concat(), None),
            };
            assert_eq!((target.fingers, target.place.as_deref()), expected);
        }
    }

    #[test]
    fn a_hostile_list_is_refused_as_a_whole() {
        let read = |masters: Vec<Map>| read(masters);
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
        let answer = MasterList::new(no_maps, "masters".to_owned());
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
