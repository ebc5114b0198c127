//! [`Placement`]: the masters that keep a row, by consistent hashing. The positions are those of
//! Salt's `salt.cluster.ring`.

use xxhash_rust::xxh3::xxh3_64;

/// The number of positions of each master.
pub const POSITIONS: usize = 150;

/// The positions of masters on a ring of 64-bit numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Each position with the name of its master, in order.
    positions: Vec<(u64, String)>,
    /// The number of masters that keep each row.
    replicas: usize,
}

impl Placement {
    /// Places masters on a ring.
    #[must_use]
    pub fn new<'a>(masters: impl IntoIterator<Item = &'a str>, replicas: usize) -> Self {
        let of_master = |master: &'a str| {
            (0..POSITIONS).map(move |number| {
                let position = xxh3_64(format!("{master}#vnode{number}").as_bytes());
                (position, master.to_owned())
            })
        };
        let mut positions: Vec<_> = masters.into_iter().flat_map(of_master).collect();
        positions.sort_unstable();
        positions.dedup();
        Self {
            positions,
            replicas,
        }
    }

    /// Returns the masters that keep the row with a key: those of the first positions above its hash.
    /// There are fewer than `replicas` if the ring has fewer.
    #[must_use]
    pub fn owners(&self, key: &str) -> Vec<&str> {
        let hash = xxh3_64(key.as_bytes());
        let next = self.positions.partition_point(|(at, _)| *at <= hash);
        let (before, after) = self.positions.split_at(next);
        let mut owners: Vec<&str> = Vec::new();
        for (_, master) in after.iter().chain(before) {
            if owners.len() >= self.replicas {
                break;
            }
            if !owners.contains(&master.as_str()) {
                owners.push(master);
            }
        }
        owners
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `salt.cluster.ring.HashRing(["m1", "m2", "m3"]).get_replicas(key, 2)` of Salt 3009.
    const OF_SALT: [(&str, [&str; 2]); 6] = [
        ("20261126203503123456", ["m2", "m3"]),
        ("20261126203503123457", ["m1", "m2"]),
        ("20250101000000000000", ["m1", "m2"]),
        ("jid-0001", ["m3", "m2"]),
        ("x", ["m3", "m2"]),
        ("", ["m1", "m2"]),
    ];

    #[test]
    fn rows_are_kept_where_salt_keeps_them() {
        let placement = Placement::new(["m1", "m2", "m3"], 2);
        for (key, owners) in OF_SALT {
            assert_eq!(placement.owners(key), owners, "{key}");
        }
    }

    #[test]
    fn each_master_keeps_about_as_much_as_another() {
        let placement = Placement::new(["a", "b", "c"], 1);
        for master in ["a", "b", "c"] {
            let jids = (0..3000).map(|number| format!("2026112020353{number:07}"));
            let kept = jids.filter(|jid| placement.owners(jid) == [master]).count();
            assert!((700..1300).contains(&kept), "{master} keeps {kept} of 3000");
        }
    }

    #[test]
    fn a_master_that_leaves_moves_only_its_own_rows() {
        let before = Placement::new(["a", "b", "c"], 1);
        let after = Placement::new(["a", "b"], 1);
        for number in 0..1000 {
            let key = number.to_string();
            match before.owners(&key).as_slice() {
                ["c"] => {}
                owners => assert_eq!(after.owners(&key), owners),
            }
        }
    }

    #[test]
    fn a_ring_has_no_more_owners_than_masters() {
        assert_eq!(Placement::new(["a"], 3).owners("x"), ["a"]);
        assert!(Placement::new([], 3).owners("x").is_empty());
    }
}
