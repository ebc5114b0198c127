//! [`Shares`] and [`Places`]: a limit that all peers have in common, with a maximum share for each,
//! so that no peer uses up the limit alone.
//!
//! The rule is the same everywhere: no holder gets more than its share, and when all units are
//! taken, the holder that has most loses some first.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::hash::Hash;
use std::time::{Duration, Instant};

use smol::channel::{Receiver, Sender, bounded};
use value::channel;

/// The limit that a request for units exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The holder has its whole share.
    Share,
    /// All units are taken.
    All,
}

/// Counts the units of a capacity that each holder has.
#[derive(Clone, Debug)]
pub struct Shares<K> {
    capacity: usize,
    share: usize,
    taken: usize,
    held: HashMap<K, usize>,
}

impl<K: Clone + Eq + Hash + Ord> Shares<K> {
    /// Returns shares of which nothing is taken.
    #[must_use]
    pub fn new(capacity: usize, share: usize) -> Self {
        Self {
            capacity,
            share,
            taken: 0,
            held: HashMap::new(),
        }
    }

    /// Takes units for a holder.
    ///
    /// # Errors
    /// When the holder would exceed its share, or all holders the capacity. Nothing is taken then.
    pub fn take(&mut self, holder: &K, units: usize) -> Result<(), Full> {
        if self.held_by(holder).saturating_add(units) > self.share {
            return Err(Full::Share);
        }
        if self.taken.saturating_add(units) > self.capacity {
            return Err(Full::All);
        }
        self.add(holder, units);
        Ok(())
    }

    /// Adds units to a holder, whether or not there is room for them.
    pub fn add(&mut self, holder: &K, units: usize) {
        self.taken = self.taken.saturating_add(units);
        let held = self.held.entry(holder.clone()).or_default();
        *held = held.saturating_add(units);
    }

    /// Returns units of a holder to the capacity.
    pub fn give_back(&mut self, holder: &K, units: usize) {
        let Some(held) = self.held.get_mut(holder) else {
            return;
        };
        let units = units.min(*held);
        *held -= units;
        self.taken -= units;
        if *held == 0 {
            self.held.remove(holder);
        }
    }

    /// Returns the number of units that a holder has.
    #[must_use]
    pub fn held_by(&self, holder: &K) -> usize {
        self.held.get(holder).copied().unwrap_or(0)
    }

    /// Returns the number of units that all holders have together.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Returns the holder that has most, and its number of units. If several have the same number,
    /// it is the last by name, so the result is deterministic.
    #[must_use]
    pub fn fullest(&self) -> Option<(&K, usize)> {
        let most = self
            .held
            .iter()
            .max_by(|one, other| one.1.cmp(other.1).then(one.0.cmp(other.0)));
        most.map(|(holder, units)| (holder, *units))
    }
}

/// Holders of units that are taken place by place, for example one for each connection or each
/// frame that is being read. Each place can be notified that it is lost.
#[derive(Debug)]
pub struct Places<K> {
    shares: Shares<K>,
    /// The places by number, which is also their order by age.
    held: BTreeMap<u64, Held<K>>,
    next: u64,
}

#[derive(Debug)]
struct Held<K> {
    holder: K,
    units: usize,
    since: Instant,
    /// True for a place that can no longer be lost.
    is_settled: bool,
    /// Closed when the place is lost.
    _tell: Sender<Infallible>,
}

/// A place. Its number is needed to [give it back](Places::leave).
#[derive(Debug)]
pub struct Ticket {
    /// The number of the place.
    pub number: u64,
    lost: Receiver<Infallible>,
}

impl Ticket {
    /// Waits until the place is lost.
    pub async fn lost(&self) {
        // No deadline: callers race it against the work that the place is for.
        channel::or_closed(self.lost.recv().await);
    }
}

impl<K: Clone + Eq + Hash + Ord> Places<K> {
    /// Returns places of which none is taken.
    #[must_use]
    pub fn new(capacity: usize, share: usize) -> Self {
        Self {
            shares: Shares::new(capacity, share),
            held: BTreeMap::new(),
            next: 0,
        }
    }

    /// Takes a place of this many units.
    ///
    /// # Errors
    /// When the holder would exceed its share, or all holders the capacity.
    pub fn enter(&mut self, holder: &K, units: usize) -> Result<Ticket, Full> {
        self.shares.take(holder, units)?;
        let (tell, lost) = bounded(1);
        let number = self.next;
        self.next += 1;
        let held = Held {
            holder: holder.clone(),
            units,
            since: Instant::now(),
            is_settled: false,
            _tell: tell,
        };
        self.held.insert(number, held);
        Ok(Ticket { number, lost })
    }

    /// Takes more units for a place. For a lost place this succeeds without effect, because it
    /// holds no units that are counted.
    ///
    /// # Errors
    /// As [`enter`](Self::enter).
    pub fn grow(&mut self, number: u64, units: usize) -> Result<(), Full> {
        let Some(held) = self.held.get_mut(&number) else {
            return Ok(());
        };
        self.shares.take(&held.holder, units)?;
        held.units += units;
        Ok(())
    }

    /// Marks a place as one that can no longer be lost.
    pub fn settle(&mut self, number: u64) {
        if let Some(held) = self.held.get_mut(&number) {
            held.is_settled = true;
        }
    }

    /// Marks a settled place as one that can be lost again, and restarts its age.
    pub fn unsettle(&mut self, number: u64) {
        if let Some(held) = self.held.get_mut(&number) {
            held.is_settled = false;
            held.since = Instant::now();
        }
    }

    /// Gives a place back. Has no effect if the place was lost already.
    pub fn leave(&mut self, number: u64) {
        if let Some(held) = self.held.remove(&number) {
            self.shares.give_back(&held.holder, held.units);
        }
    }

    /// Takes away the oldest place of the holder that has most, if that is at least `least` units.
    /// If several have most, the one with the oldest place loses. Returns false when there is none
    /// to take.
    pub fn take_from_fullest(&mut self, least: usize) -> bool {
        let most = self.shares.fullest().map_or(0, |(_, units)| units);
        let mut oldest_first = self.held.values();
        let fullest = oldest_first
            .find(|held| self.shares.held_by(&held.holder) == most)
            .filter(|_| most >= least);
        let fullest = fullest.map(|held| held.holder.clone());
        fullest.is_some_and(|holder| self.take_from(&holder, Duration::ZERO))
    }

    /// Takes away the oldest place of a holder, if the holder has had it for at least `age`.
    /// Returns false when there is none to take.
    pub fn take_from(&mut self, holder: &K, age: Duration) -> bool {
        let mut own = self.held.iter().filter(|(_, held)| held.holder == *holder);
        let oldest = own.find(|(_, held)| !held.is_settled);
        let oldest = oldest.filter(|(_, held)| held.since.elapsed() >= age);
        let Some(number) = oldest.map(|(number, _)| *number) else {
            return false;
        };
        self.leave(number);
        true
    }

    /// Returns the number of units that a holder has.
    #[must_use]
    pub fn held_by(&self, holder: &K) -> usize {
        self.shares.held_by(holder)
    }

    /// Returns the number of units that are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.shares.taken()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_more_than_its_share_and_all_not_more_than_there_is() {
        let mut shares = Shares::new(10, 4);
        assert_eq!(shares.take(&"a", 4), Ok(()));
        assert_eq!(shares.take(&"a", 1), Err(Full::Share));
        assert_eq!(shares.take(&"b", 4), Ok(()));
        assert_eq!(shares.take(&"c", 3), Err(Full::All));
        assert_eq!(shares.take(&"c", 2), Ok(()));
        assert_eq!(shares.fullest(), Some((&"b", 4)));
        shares.give_back(&"b", 100);
        assert_eq!((shares.taken(), shares.held_by(&"b")), (6, 0));
    }

    #[test]
    fn whoever_holds_most_loses_its_oldest_place_first() {
        let mut places = Places::new(5, 4);
        let honest = places.enter(&"honest", 1).unwrap();
        let flood: Vec<_> = (0..4).map(|_| places.enter(&"flood", 1).unwrap()).collect();
        assert_eq!(places.enter(&"flood", 1).err(), Some(Full::Share));
        assert_eq!(places.enter(&"other", 1).err(), Some(Full::All));
        assert!(places.take_from_fullest(2));
        let other = places.enter(&"other", 1).unwrap();
        let is_lost = |ticket: &Ticket| ticket.lost.is_closed();
        assert!(is_lost(&flood[0]) && !flood[1..].iter().any(is_lost));
        assert!(!is_lost(&honest) && !is_lost(&other));
        // Giving a lost place back again has no effect, and a settled place cannot be lost.
        places.leave(flood[0].number);
        assert_eq!(places.taken(), 5);
        flood.iter().for_each(|place| places.settle(place.number));
        assert!(!places.take_from_fullest(2));
        assert!(!places.take_from(&"honest", Duration::from_secs(60)));
        assert!(places.take_from(&"honest", Duration::ZERO));
    }
}
