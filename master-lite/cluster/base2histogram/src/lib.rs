//! Histograms of numbers, for the statistics of openraft.
//!
//! It replaces the crate of the same name, which builds tables of 26 MB for sixteen scales before it
//! counts the first number. openraft uses one of them, and that one needs no table: the bucket of a
//! number follows from its highest bits. A power of two and the numbers up to the next one have four
//! buckets, and numbers below eight have one each.

mod chart;
mod scale;

use std::fmt;
use std::marker::PhantomData;

pub use chart::AsciiChart;

/// Counts of numbers by their size. `T` is the label of a period in the replaced crate; openraft
/// uses none.
pub struct Histogram<T = ()> {
    /// The counts up to the highest bucket that has one.
    counts: Vec<u64>,
    labels: PhantomData<fn() -> T>,
}

/// Some percentiles of a histogram, each of them less than the width of its bucket from the exact one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PercentileStats {
    /// The number of counted numbers. If it is zero, so are the percentiles.
    pub samples: u64,
    /// The 0.1th percentile.
    pub p0_1: u64,
    /// The 1st percentile.
    pub p1: u64,
    /// The 5th percentile.
    pub p5: u64,
    /// The 10th percentile.
    pub p10: u64,
    /// The median.
    pub p50: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The 99.9th percentile.
    pub p99_9: u64,
}

impl fmt::Display for PercentileStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            samples,
            p50,
            p90,
            p99,
            p99_9,
            ..
        } = self;
        write!(
            f,
            "samples={samples} p50={p50} p90={p90} p99={p99} p99.9={p99_9}"
        )
    }
}

impl<T> Histogram<T> {
    /// Returns an empty histogram.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            counts: Vec::new(),
            labels: PhantomData,
        }
    }

    /// Counts a number.
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts a number `times` times.
    pub fn record_n(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        let bucket = scale::bucket(value);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(bucket) {
            *count = count.saturating_add(times);
        }
    }

    /// Returns the number of counted numbers.
    #[must_use]
    pub fn total(&self) -> u64 {
        let counts = self.counts.iter();
        counts.fold(0, |total, count| total.saturating_add(*count))
    }

    /// Returns the percentiles.
    #[must_use]
    pub fn percentile_stats(&self) -> PercentileStats {
        PercentileStats {
            samples: self.total(),
            p0_1: self.permille(1),
            p1: self.permille(10),
            p5: self.permille(50),
            p10: self.permille(100),
            p50: self.permille(500),
            p90: self.permille(900),
            p99: self.permille(990),
            p99_9: self.permille(999),
        }
    }

    /// Returns the middle of the bucket in which this part of all numbers ends, in thousandths of them.
    fn permille(&self, part: u64) -> u64 {
        let rank = (u128::from(self.total()) * u128::from(part)).div_ceil(1000);
        let mut upto = 0;
        for (bucket, count) in self.buckets() {
            upto += u128::from(count);
            if upto >= rank.max(1) {
                return scale::middle(bucket);
            }
        }
        0
    }

    /// Returns the buckets that have a count, with it.
    fn buckets(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let counts = self.counts.iter().copied().enumerate();
        counts.filter(|(_, count)| *count > 0)
    }
}

// Derived implementations would need those of `T`.
impl<T> Clone for Histogram<T> {
    fn clone(&self) -> Self {
        Self {
            counts: self.counts.clone(),
            labels: PhantomData,
        }
    }
}

impl<T> Default for Histogram<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Histogram<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Histogram")
            .field(&self.percentile_stats())
            .finish()
    }
}

impl<T> PartialEq for Histogram<T> {
    fn eq(&self, other: &Self) -> bool {
        self.counts == other.counts
    }
}

impl<T> Eq for Histogram<T> {}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
