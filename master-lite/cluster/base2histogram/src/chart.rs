//! [`AsciiChart`]: histograms as text.

use std::fmt;

use crate::{Histogram, scale};

/// The length of the bar of the highest count.
const WIDTH: u128 = 50;

/// Some histograms with their names, as lines of text.
#[derive(Clone, Debug, Default)]
pub struct AsciiChart {
    series: Vec<(String, Histogram)>,
}

impl AsciiChart {
    /// Returns a chart without histograms.
    #[must_use]
    pub const fn new() -> Self {
        Self { series: Vec::new() }
    }

    /// Adds a histogram with its name.
    #[must_use]
    pub fn add(mut self, name: impl Into<String>, histogram: Histogram) -> Self {
        self.series.push((name.into(), histogram));
        self
    }

    /// Returns the form with one line for each bucket that has a count, which is the only one.
    #[must_use]
    pub const fn detailed(&self) -> &Self {
        self
    }
}

impl fmt::Display for AsciiChart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, histogram) in &self.series {
            writeln!(f, "{name}: {}", histogram.total())?;
            let counts = histogram.buckets().map(|(_, count)| u128::from(count));
            let highest = counts.max().unwrap_or(1);
            for (bucket, count) in histogram.buckets() {
                let (low, high) = scale::bounds(bucket);
                let length = (u128::from(count) * WIDTH).div_ceil(highest);
                let bar: String = (0..length).map(|_| '#').collect();
                writeln!(f, "{low:>20} to {high:<20} {count:>10} {bar}")?;
            }
        }
        Ok(())
    }
}
