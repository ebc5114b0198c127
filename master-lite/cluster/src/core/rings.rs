//! [`Rings`]: named groups of masters that share the rows of a kind of data, as Salt 3009 has them.

use std::collections::{BTreeMap, BTreeSet};

use value::{Map, Value};

use super::Placement;

/// The maximum number of rings that are in use.
const RINGS_MAX: usize = 8;
/// The maximum number of names of rings, with those of rings that were destroyed.
const NAMES_MAX: usize = 64;
/// The maximum length of the name of a ring.
const NAME_MAX: usize = 64;
/// The maximum number of masters of a ring.
const VOTERS_MAX: usize = 9;

/// The kinds of data that can be routed to a ring. Everything else is small, or all masters need it.
const DATA_TYPES: [&str; 1] = ["jobs"];

/// The masters of a ring that keep a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Each of them keeps all rows.
    #[default]
    Everywhere,
    /// Each row is kept by as many of them as there are replicas.
    Shared,
}

impl Keep {
    /// Returns the word of Salt's parameter `members`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Everywhere => "self",
            Self::Shared => "voters",
        }
    }

    /// Returns the value with this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        let all = [Self::Everywhere, Self::Shared];
        all.into_iter().find(|keep| keep.word() == word)
    }
}

/// A ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ring {
    /// The names of its masters.
    pub voters: BTreeSet<String>,
    /// False if it was destroyed.
    pub is_active: bool,
    /// The masters that keep a row.
    pub keep: Keep,
    /// The number of masters that keep each row, if it was set.
    pub replicas: Option<u64>,
}

impl Ring {
    /// Returns the number of masters that keep each row: if it was not set, as many as survive the
    /// loss of any minority.
    #[must_use]
    pub fn replicas(&self) -> u64 {
        let all = self.voters.len() as u64;
        match self.keep {
            Keep::Everywhere => all,
            Keep::Shared => self.replicas.unwrap_or(all / 2 + 1).min(all),
        }
    }

    /// Returns the placement of the ring's rows on those of its masters that are members.
    #[must_use]
    pub fn placement(&self, is_member: impl Fn(&str) -> bool) -> Placement {
        let voters = self.voters.iter().map(String::as_str);
        let replicas = usize::try_from(self.replicas()).unwrap_or(usize::MAX);
        Placement::new(voters.filter(|voter| is_member(voter)), replicas)
    }
}

/// The ring of a kind of data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// The name of the ring. `None` if the route was cleared: all masters keep the rows.
    pub ring: Option<String>,
    /// The time of the change, in milliseconds since 1970.
    pub since_ms: u64,
}

/// All rings, and the kinds of data that are routed to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rings {
    /// The rings by name.
    pub rings: BTreeMap<String, Ring>,
    /// The routes by kind of data.
    pub routes: BTreeMap<String, Route>,
    /// The number of changes of rings.
    pub ring_changes: u64,
    /// The number of changes of routes.
    pub route_changes: u64,
}

impl Rings {
    /// Adds a ring. One that was destroyed gets these masters.
    ///
    /// # Errors
    /// When the name is unusable or in use, or there are too many rings or masters.
    pub fn create(&mut self, name: &str, voters: BTreeSet<String>) -> Result<(), String> {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let begins_well = name.starts_with(|letter: char| letter.is_ascii_alphanumeric());
        if !begins_well || name.len() > NAME_MAX || !name.chars().all(is_plain) {
            return Err(format!(
                "The name of a ring is 1 to {NAME_MAX} letters, digits, `-`, `_` or `.`, and begins with a letter or digit: {name:?} does not fit"
            ));
        }
        if voters.is_empty() || voters.len() > VOTERS_MAX {
            return Err(format!(
                "The ring {name} must have 1 to {VOTERS_MAX} masters, not {}",
                voters.len()
            ));
        }
        if self.active(name).is_ok() {
            return Err(format!("The ring {name} exists already"));
        }
        let active = self.rings.values().filter(|ring| ring.is_active).count();
        if active >= RINGS_MAX {
            return Err(format!("There are {RINGS_MAX} rings already"));
        }
        if self.rings.len() >= NAMES_MAX && !self.rings.contains_key(name) {
            return Err(format!(
                "There were {NAMES_MAX} rings already: take the name of one that was destroyed"
            ));
        }
        let ring = Ring {
            voters,
            is_active: true,
            ..Ring::default()
        };
        self.rings.insert(name.to_owned(), ring);
        self.ring_changes += 1;
        Ok(())
    }

    /// Destroys a ring.
    ///
    /// # Errors
    /// When there is none of this name, or a kind of data is routed to it.
    pub fn destroy(&mut self, name: &str) -> Result<(), String> {
        self.active(name)?;
        let of_ring = |route: &Route| route.ring.as_deref() == Some(name);
        if let Some((data_type, _)) = self.routes.iter().find(|(_, route)| of_ring(route)) {
            return Err(format!(
                "`{data_type}` is routed to the ring {name}: clear that route first (`salt-run cluster.route_clear {data_type}`)"
            ));
        }
        if let Some(ring) = self.rings.get_mut(name) {
            ring.is_active = false;
        }
        self.ring_changes += 1;
        Ok(())
    }

    /// Changes the given properties of a ring.
    ///
    /// # Errors
    /// When there is none of this name, or it has fewer masters than replicas.
    pub fn set(
        &mut self,
        name: &str,
        keep: Option<Keep>,
        replicas: Option<u64>,
    ) -> Result<(), String> {
        let voters = self.active(name)?.voters.len() as u64;
        if let Some(replicas) = replicas.filter(|replicas| *replicas == 0 || *replicas > voters) {
            return Err(format!(
                "The ring {name} has {voters} masters, and cannot have {replicas} replicas"
            ));
        }
        if let Some(ring) = self.rings.get_mut(name) {
            ring.keep = keep.unwrap_or(ring.keep);
            ring.replicas = replicas.or(ring.replicas);
        }
        self.ring_changes += 1;
        Ok(())
    }

    /// Routes a kind of data to a ring, or back to all masters.
    ///
    /// # Errors
    /// When this kind cannot be routed, or there is no ring of this name.
    pub fn route(
        &mut self,
        data_type: &str,
        ring: Option<String>,
        at_ms: u64,
    ) -> Result<(), String> {
        if !DATA_TYPES.contains(&data_type) {
            return Err(format!(
                "{data_type:?} cannot be routed to a ring, only: {}",
                DATA_TYPES.join(", ")
            ));
        }
        if let Some(name) = &ring {
            self.active(name)?;
        }
        let route = Route {
            ring,
            since_ms: at_ms,
        };
        self.routes.insert(data_type.to_owned(), route);
        self.route_changes += 1;
        Ok(())
    }

    /// Returns a ring that was not destroyed.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn active(&self, name: &str) -> Result<&Ring, String> {
        let ring = self.rings.get(name).filter(|ring| ring.is_active);
        ring.ok_or_else(|| {
            let names: Vec<&str> = self.active_names().collect();
            let name = name.escape_debug();
            match names.is_empty() {
                true => format!("There is no ring {name}"),
                false => format!("There is no ring {name}, only: {}", names.join(", ")),
            }
        })
    }

    /// Returns the names of the rings that were not destroyed, sorted.
    pub fn active_names(&self) -> impl Iterator<Item = &str> {
        let active = self.rings.iter().filter(|(_, ring)| ring.is_active);
        active.map(|(name, _)| name.as_str())
    }

    /// Returns the ring to which a kind of data is routed, with its name and the time since when.
    #[must_use]
    pub fn routed(&self, data_type: &str) -> Option<(&str, &Ring, u64)> {
        let route = self.routes.get(data_type)?;
        let (name, ring) = self.rings.get_key_value(route.ring.as_ref()?)?;
        Some((name, ring, route.since_ms))
    }

    /// Returns the stored form.
    #[must_use]
    pub fn to_map(&self) -> Map {
        let rings = self.rings.iter().map(|(name, ring)| {
            let voters = ring.voters.iter().map(|voter| Value::from(voter.as_str()));
            let mut map = Map::new()
                .with("voters", Value::list(voters))
                .with("active", ring.is_active)
                .with("members", ring.keep.word());
            if let Some(replicas) = ring.replicas {
                map.insert("replicas", replicas);
            }
            (Value::from(name.as_str()), Value::Map(map))
        });
        let routes = self.routes.iter().map(|(data_type, route)| {
            let ring = route.ring.as_deref().map_or(Value::Null, Value::from);
            let map = Map::new()
                .with("ring", ring)
                .with("since_ms", route.since_ms);
            (Value::from(data_type.as_str()), Value::Map(map))
        });
        Map::new()
            .with("rings", rings.collect::<Map>())
            .with("routes", routes.collect::<Map>())
            .with("ring_changes", self.ring_changes)
            .with("route_changes", self.route_changes)
    }

    /// Reads the stored form.
    #[must_use]
    pub fn from_map(map: &Map) -> Option<Self> {
        let rings = map.get("rings")?.as_map()?.iter();
        let routes = map.get("routes")?.as_map()?.iter();
        Some(Self {
            rings: rings
                .map(|(name, ring)| Some((name.as_str()?.to_owned(), ring_of(ring.as_map()?)?)))
                .collect::<Option<_>>()?,
            routes: routes
                .map(|(kind, route)| Some((kind.as_str()?.to_owned(), route_of(route.as_map()?)?)))
                .collect::<Option<_>>()?,
            ring_changes: number(map, "ring_changes")?,
            route_changes: number(map, "route_changes")?,
        })
    }
}

fn ring_of(map: &Map) -> Option<Ring> {
    let voters = map.get("voters")?.as_list()?.iter();
    Some(Ring {
        voters: voters
            .map(|voter| Some(voter.as_str()?.to_owned()))
            .collect::<Option<_>>()?,
        is_active: map.get("active")?.as_bool()?,
        keep: Keep::from_word(map.get("members")?.as_str()?)?,
        replicas: match map.get("replicas") {
            Some(_) => Some(number(map, "replicas")?),
            None => None,
        },
    })
}

fn route_of(map: &Map) -> Option<Route> {
    let ring = match map.get("ring")? {
        Value::Null => None,
        name => Some(name.as_str()?.to_owned()),
    };
    Some(Route {
        ring,
        since_ms: number(map, "since_ms")?,
    })
}

fn number(map: &Map, name: &str) -> Option<u64> {
    u64::try_from(map.get(name)?.as_int()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masters(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn with_ring() -> Rings {
        let mut rings = Rings::default();
        rings.create("jobs", masters(&["a", "b", "c"])).unwrap();
        rings
    }

    #[test]
    fn rings_and_routes_are_read_back() {
        let mut rings = with_ring();
        rings.set("jobs", Some(Keep::Shared), None).unwrap();
        rings.route("jobs", Some("jobs".to_owned()), 7).unwrap();
        rings.create("old", masters(&["a"])).unwrap();
        rings.set("old", None, Some(1)).unwrap();
        rings.destroy("old").unwrap();
        assert_eq!(Rings::from_map(&rings.to_map()), Some(rings.clone()));
        assert_eq!(rings.active_names().collect::<Vec<_>>(), ["jobs"]);
        assert_eq!((rings.ring_changes, rings.route_changes), (5, 1));
        let (name, ring, since_ms) = rings.routed("jobs").unwrap();
        assert_eq!((name, ring.replicas(), since_ms), ("jobs", 2, 7));
        rings.route("jobs", None, 8).unwrap();
        assert_eq!(rings.routed("jobs"), None);
        assert_eq!(Rings::from_map(&rings.to_map()), Some(rings));
    }

    #[test]
    fn a_ring_that_is_used_is_not_destroyed() {
        let mut rings = with_ring();
        rings.route("jobs", Some("jobs".to_owned()), 7).unwrap();
        let why = rings.destroy("jobs").unwrap_err();
        assert!(why.contains("route_clear jobs"), "{why}");
        rings.route("jobs", None, 8).unwrap();
        rings.destroy("jobs").unwrap();
        assert!(rings.destroy("jobs").is_err());
        assert!(rings.route("jobs", Some("jobs".to_owned()), 9).is_err());
        rings.create("jobs", masters(&["b"])).unwrap();
        assert_eq!(rings.active("jobs").unwrap().voters, masters(&["b"]));
    }

    #[test]
    fn unusable_names_and_numbers_are_refused() {
        let mut rings = with_ring();
        let before = rings.clone();
        let long = "x".repeat(65);
        let names = [
            "",
            "a/b",
            "/",
            "../x",
            ".",
            "..",
            "-x",
            "_",
            "a b",
            "a\n",
            "a\u{7}",
            "a\0",
            "ä",
            "\u{202e}a",
            "日本",
            &long,
        ];
        for name in names {
            let why = rings.create(name, masters(&["a"])).unwrap_err();
            assert!(why.starts_with("The name of a ring is"), "{why}");
            assert!(why.contains(&format!("{name:?}")), "{why}");
            assert!(!why.chars().any(char::is_control), "{why}");
            assert!(rings.active(name).is_err(), "{name:?}");
            assert!(rings.destroy(name).is_err() && rings.set(name, None, None).is_err());
        }
        assert_eq!(rings, before);
        rings.create(&"x".repeat(64), masters(&["a"])).unwrap();
        rings.destroy(&"x".repeat(64)).unwrap();
        assert!(rings.create("jobs", masters(&["a"])).is_err());
        assert!(rings.create("empty", masters(&[])).is_err());
        let many: BTreeSet<String> = (0..10).map(|number| number.to_string()).collect();
        assert!(rings.create("many", many).is_err());
        assert!(rings.set("jobs", None, Some(0)).is_err());
        assert!(rings.set("jobs", None, Some(4)).is_err());
        assert!(rings.set("other", None, Some(1)).is_err());
        assert!(rings.route("keys", Some("jobs".to_owned()), 1).is_err());
        for number in 1..RINGS_MAX {
            rings.create(&number.to_string(), masters(&["a"])).unwrap();
        }
        assert!(rings.create("9", masters(&["a"])).is_err());
    }

    #[test]
    fn a_master_that_left_the_cluster_keeps_nothing() {
        let mut rings = with_ring();
        let ring = rings.active("jobs").unwrap();
        assert_eq!(ring.placement(|name| name != "b").owners("x").len(), 2);
        rings.set("jobs", Some(Keep::Shared), Some(1)).unwrap();
        let ring = rings.active("jobs").unwrap();
        let placement = ring.placement(|name| name == "b");
        assert_eq!(placement.owners("x"), ["b"]);
    }
}
