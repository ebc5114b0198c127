//! The window of a batch: which minions have returned, which run, and which are next.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use value::{Map, Value};
use wire::Id;

/// The option of a job that the master runs as a batch.
pub(crate) const BATCH: &str = "batch";

/// The maximum of `batch_wait` in seconds.
const WAIT_MAX: f64 = 24.0 * 3600.0;

/// The shape of a batch, as the command line gives it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shape {
    /// A number or a percentage.
    size: String,
    /// The time for which a slot stays free after a return.
    wait: Duration,
    /// Whether the first failure ends the batch.
    failhard: bool,
}

impl Shape {
    /// Takes the shape out of the options of a job. Returns `None` if the job is no batch.
    ///
    /// # Errors
    /// When the option is not well formed.
    pub(crate) fn take(options: &mut Map) -> Result<Option<Self>, String> {
        let Some(given) = options.remove(BATCH) else {
            return Ok(None);
        };
        let size = given.get("size").and_then(Value::as_str);
        let wait = given.get("wait").and_then(Value::as_float);
        let wait = wait.filter(|wait| (0.0..=WAIT_MAX).contains(wait));
        let failhard = given.get("failhard").and_then(Value::as_bool);
        match (size, wait, failhard) {
            (Some(size), Some(wait), Some(failhard)) => Ok(Some(Self {
                size: size.to_owned(),
                wait: Duration::from_secs_f64(wait),
                failhard,
            })),
            _ => Err(format!(
                "a batch needs a size, a wait between 0 and {WAIT_MAX} seconds, and failhard"
            )),
        }
    }
}

/// Returns the number of minions at a time, at least one. The size is a number or a percentage of
/// all; an empty one means all.
pub(crate) fn slots(size: &str, all: usize) -> Option<usize> {
    let size = size.trim();
    if size.is_empty() {
        return Some(all.max(1));
    }
    let Some(percent) = size.strip_suffix('%').or_else(|| size.strip_prefix('%')) else {
        let count: i64 = size.parse().ok()?;
        return Some(usize::try_from(count).unwrap_or_default().max(1));
    };
    let percent: f64 = percent.parse().ok()?;
    Some((percent / 100.0 * all as f64).max(1.0) as usize)
}

/// Returns the error about a size that is not one.
pub(crate) fn wrong_size(size: &str) -> String {
    format!(
        "Invalid batch specification '{size}': must be an integer or percentage string like '10' or '25%'."
    )
}

/// The minions of a running batch.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) size: usize,
    pub(super) total: usize,
    pub(super) completed: usize,
    pub(super) failed: usize,
    pub(super) active: BTreeSet<Id>,
    pub(super) pending: VecDeque<Id>,
    /// Why the batch ends before all minions have run.
    pub(super) halted: Option<String>,
    wait: Duration,
    failhard: bool,
    /// The times at which slots that `batch_wait` holds become free.
    held: Vec<Instant>,
}

impl Window {
    /// Returns a window before the first minion.
    ///
    /// # Errors
    /// When the size is not one.
    pub(super) fn new(shape: &Shape, minions: &[Id]) -> Result<Self, String> {
        let size = slots(&shape.size, minions.len());
        Ok(Self {
            size: size.ok_or_else(|| wrong_size(&shape.size))?,
            total: minions.len(),
            completed: 0,
            failed: 0,
            active: BTreeSet::new(),
            pending: minions.iter().cloned().collect(),
            halted: None,
            wait: shape.wait,
            failhard: shape.failhard,
            held: Vec::new(),
        })
    }

    /// Returns whether nothing is left to do.
    pub(super) fn is_done(&self) -> bool {
        self.halted.is_some() || (self.active.is_empty() && self.pending.is_empty())
    }

    /// Takes the next minions, as many as there are free slots.
    pub(super) fn next(&mut self, now: Instant) -> Vec<Id> {
        self.held.retain(|until| *until > now);
        if self.halted.is_some() {
            return Vec::new();
        }
        let taken = self.active.len() + self.held.len();
        let free = self.size.saturating_sub(taken).min(self.pending.len());
        let next: Vec<Id> = self.pending.drain(..free).collect();
        self.active.extend(next.iter().cloned());
        next
    }

    /// Returns the time at which the next held slot becomes free, if a minion waits for it.
    pub(super) fn free_at(&self) -> Option<Instant> {
        let first = self.held.iter().min().copied();
        first.filter(|_| !self.pending.is_empty())
    }

    /// Counts a return. Returns false if the minion is not one of those that run.
    pub(super) fn returned(&mut self, id: &Id, retcode: i64, now: Instant) -> bool {
        if !self.freed(id, now) {
            return false;
        }
        self.completed += 1;
        if self.failhard && retcode > 0 {
            self.halted = Some("failhard".to_owned());
        }
        true
    }

    /// Counts a minion that does not return. As in Salt, it does not end the batch.
    pub(super) fn given_up(&mut self, id: &Id, now: Instant) -> bool {
        let was_active = self.freed(id, now);
        self.failed += usize::from(was_active);
        was_active
    }

    fn freed(&mut self, id: &Id, now: Instant) -> bool {
        let was_active = self.active.remove(id);
        if was_active && !self.wait.is_zero() {
            self.held.extend(now.checked_add(self.wait));
        }
        was_active
    }
}

/// Returns the exit code of a return: the highest one if there are several functions.
pub(super) fn retcode(data: &Map) -> i64 {
    match data.get("retcode") {
        Some(Value::Map(codes)) => codes.values().filter_map(Value::as_int).max(),
        Some(Value::List(codes)) => codes.iter().filter_map(Value::as_int).max(),
        other => other.and_then(Value::as_int),
    }
    .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(size: &str, wait: f64, failhard: bool) -> Shape {
        let given = Map::new().with("size", size).with("wait", wait);
        let mut options = Map::new().with(BATCH, given.with("failhard", failhard));
        Shape::take(&mut options).unwrap().unwrap()
    }

    fn ids(names: &[&str]) -> Vec<Id> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn a_size_is_a_number_or_a_part_and_never_nothing() {
        let cases = [
            ("3", 10, Some(3)),
            ("50%", 10, Some(5)),
            ("%25", 10, Some(2)),
            ("1%", 10, Some(1)),
            ("0", 10, Some(1)),
            ("", 7, Some(7)),
            ("x", 10, None),
        ];
        for (size, all, want) in cases {
            assert_eq!(slots(size, all), want, "{size}");
        }
    }

    #[test]
    fn a_shape_that_is_not_well_formed_is_refused() {
        let good = Map::new()
            .with("size", "1")
            .with("wait", 0.5)
            .with("failhard", true);
        for wrong in [
            Value::Null,
            true.into(),
            Map::new().into(),
            good.clone().with("size", 3).into(),
            good.clone().with("wait", -1.0).into(),
            good.clone().with("wait", f64::NAN).into(),
            good.clone().with("wait", 1e300).into(),
            good.with("failhard", "no").into(),
        ] {
            let text = wrong.to_text();
            assert!(
                Shape::take(&mut Map::new().with(BATCH, wrong)).is_err(),
                "{text}"
            );
        }
        assert_eq!(Shape::take(&mut Map::new()), Ok(None));
        assert!(Window::new(&shape("x", 0.0, false), &ids(&["a"])).is_err());
    }

    #[test]
    fn each_return_makes_room_for_the_next_minion() {
        let now = Instant::now();
        let all = ids(&["a", "b", "c", "d"]);
        let mut window = Window::new(&shape("2", 0.0, false), &all).unwrap();
        assert_eq!(window.next(now), ids(&["a", "b"]));
        assert!(window.next(now).is_empty());
        assert!(window.returned(&all[1], 1, now));
        // A second return of the same minion, and one of a minion that does not run yet.
        assert!(!window.returned(&all[1], 0, now) && !window.returned(&all[3], 0, now));
        assert_eq!(window.next(now), ids(&["c"]));
        assert!(window.given_up(&all[0], now) && window.returned(&all[2], 0, now));
        assert_eq!(window.next(now), ids(&["d"]));
        assert!(!window.is_done() && window.returned(&all[3], 0, now) && window.is_done());
        assert_eq!(
            (window.completed, window.failed, window.halted),
            (3, 1, None)
        );
    }

    #[test]
    fn a_wait_holds_the_slot_and_failhard_ends_the_batch() {
        let now = Instant::now();
        let all = ids(&["a", "b", "c"]);
        let mut window = Window::new(&shape("1", 5.0, true), &all).unwrap();
        window.next(now);
        window.returned(&all[0], 0, now);
        assert!(window.next(now).is_empty());
        let later = window.free_at().unwrap();
        assert_eq!(later, now + Duration::from_secs(5));
        assert_eq!(window.next(later), ids(&["b"]));
        window.returned(&all[1], 3, later);
        assert!(window.is_done() && window.next(later + Duration::from_secs(9)).is_empty());
        assert_eq!(window.halted.as_deref(), Some("failhard"));
    }
}
