//! [`Shares`] and [`Places`]: a limit that all peers have together, with a share of it for each, so that no peer takes it all.
//!
//! The rule is the same everywhere: nobody gets more than its share, and when everything is taken, whoever holds most loses first.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::hash::Hash;
use std::time::{Duration, Instant};

use smol::channel::{Receiver, Sender, bounded};

/// What is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The holder has its whole share.
    Share,
    /// All units are taken.
    All,
}

/// Counts how many units of a capacity each holder has.
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
    /// When the holder has its share, or when all units are taken. Nothing is taken then.
    pub fn take(&mut self, holder: &K, units: usize) -> Result<(), Full> {
        if self.of(holder).saturating_add(units) > self.share {
            return Err(Full::Share);
        }
        if self.taken.saturating_add(units) > self.capacity {
            return Err(Full::All);
        }
        self.add(holder, units);
        Ok(())
    }

    /// Counts units of a holder whether or not there is room for them.
    pub fn add(&mut self, holder: &K, units: usize) {
        self.taken = self.taken.saturating_add(units);
        let held = self.held.entry(holder.clone()).or_default();
        *held = held.saturating_add(units);
    }

    /// Gives units of a holder back.
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

    /// Returns how many units a holder has.
    #[must_use]
    pub fn of(&self, holder: &K) -> usize {
        self.held.get(holder).copied().unwrap_or(0)
    }

    /// Returns how many units all holders have together.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Returns the holder that has most, and how much that is. Of several it is the last by name, so that the answer is always the same.
    #[must_use]
    pub fn fullest(&self) -> Option<(&K, usize)> {
        let most = self
            .held
            .iter()
            .max_by(|one, other| one.1.cmp(other.1).then(one.0.cmp(other.0)));
        most.map(|(holder, units)| (holder, *units))
    }
}

/// What holds units of a capacity, one by one: connections, or frames that are being read. Each can be told that it has lost its place.
#[derive(Debug)]
pub struct Places<K> {
    shares: Shares<K>,
    /// By number, which is by age.
    held: BTreeMap<u64, Held<K>>,
    next: u64,
}

#[derive(Debug)]
struct Held<K> {
    holder: K,
    units: usize,
    since: Instant,
    /// Closed when the place is lost; `None` for a place that cannot be lost any more.
    tell: Option<Sender<Infallible>>,
}

/// A place, to be [left](Places::leave) by its number.
#[derive(Debug)]
pub struct Ticket {
    /// The number of the place.
    pub number: u64,
    lost: Receiver<Infallible>,
}

impl Ticket {
    /// Waits until the place is lost.
    pub async fn lost(&self) {
        // No deadline: it stands in a race with what the place is for.
        let _ = self.lost.recv().await;
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

    /// Takes a place of so many units.
    ///
    /// # Errors
    /// When the holder has its share, or when all units are taken.
    pub fn enter(&mut self, holder: &K, units: usize) -> Result<Ticket, Full> {
        self.shares.take(holder, units)?;
        let (tell, lost) = bounded(1);
        let number = self.next;
        self.next += 1;
        let held = Held {
            holder: holder.clone(),
            units,
            since: Instant::now(),
            tell: Some(tell),
        };
        self.held.insert(number, held);
        Ok(Ticket { number, lost })
    }

    /// Takes more units for a place. A place that is lost has what it asks for: it holds nothing that is counted.
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

    /// Makes a place one that cannot be lost any more.
    pub fn settle(&mut self, number: u64) {
        if let Some(held) = self.held.get_mut(&number) {
            held.tell = None;
        }
    }

    /// Gives a place back; nothing happens when it was lost already.
    pub fn leave(&mut self, number: u64) {
        if let Some(held) = self.held.remove(&number) {
            self.shares.give_back(&held.holder, held.units);
        }
    }

    /// Takes away the oldest place of those that have most, if that is at least `least` units. False when there is none to take.
    pub fn take_from_fullest(&mut self, least: usize) -> bool {
        let most = self.shares.fullest().map_or(0, |(_, units)| units);
        let mut oldest_first = self.held.values();
        let fullest = oldest_first
            .find(|held| self.shares.of(&held.holder) == most)
            .filter(|_| most >= least);
        let fullest = fullest.map(|held| held.holder.clone());
        fullest.is_some_and(|holder| self.take_from(&holder, Duration::ZERO))
    }

    /// Takes away the oldest place of a holder, if it has had it for so long. False when there is none to take.
    pub fn take_from(&mut self, holder: &K, age: Duration) -> bool {
        let mut own = self.held.iter().filter(|(_, held)| held.holder == *holder);
        let oldest = own.find(|(_, held)| held.tell.is_some());
        let oldest = oldest.filter(|(_, held)| held.since.elapsed() >= age);
        let Some(number) = oldest.map(|(number, _)| *number) else {
            return false;
        };
        self.leave(number);
        true
    }

    /// Returns how many units a holder has.
    #[must_use]
    pub fn of(&self, holder: &K) -> usize {
        self.shares.of(holder)
    }

    /// Returns how many units are taken.
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
        assert_eq!((shares.taken(), shares.of(&"b")), (6, 0));
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
        // What is lost can be left once more, and a settled place stays.
        places.leave(flood[0].number);
        assert_eq!(places.taken(), 5);
        flood.iter().for_each(|place| places.settle(place.number));
        assert!(!places.take_from_fullest(2));
        assert!(!places.take_from(&"honest", Duration::from_secs(60)));
        assert!(places.take_from(&"honest", Duration::ZERO));
    }
}
