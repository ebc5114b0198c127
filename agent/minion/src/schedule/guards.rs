//! Conditions that keep a due job from running: ranges of time, times to skip, `after` and `until`.
//! The job runs only if all of them allow it.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

use super::dates;

/// A range of time, as the configuration has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Range {
    pub start: String,
    pub end: String,
    pub invert: bool,
}

impl Range {
    fn edges(&self, day: Date, zone: &TimeZone) -> Option<(Timestamp, Timestamp)> {
        let edge = |text: &str| dates::read(text, day)?.at(zone);
        Some((edge(&self.start)?, edge(&self.end)?))
    }
}

/// The conditions of a job's entry.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Guards {
    pub range: Option<Range>,
    pub skip: Option<Range>,
    pub run_after_skip: bool,
    pub skip_explicit: Vec<DateTime>,
    pub after: Option<String>,
    pub until: Option<String>,
    pub skip_function: Option<String>,
}

/// The decision about a job that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The job runs.
    Run,
    /// Another function runs in its place.
    Instead(String),
    /// The job is left out this time.
    Skip,
    /// The job runs when its range begins.
    Wait,
}

impl Guards {
    /// Decides whether a job that was due at `due` may run now.
    pub(super) fn verdict(&self, now: &Zoned, due: Timestamp, slack: SignedDuration) -> Verdict {
        let (at, day, zone) = (now.timestamp(), now.date(), now.time_zone());
        let instead = |or: Verdict| self.skip_function.clone().map_or(or, Verdict::Instead);
        if let Some(range) = &self.range
            && let Some((start, end)) = range.edges(day, zone)
        {
            match range.invert {
                true if at > start && at < end => return Verdict::Wait,
                false if at < start || at > end => return instead(Verdict::Wait),
                _ => {}
            }
        }
        if let Some(skip) = &self.skip
            && let Some((start, end)) = skip.edges(day, zone)
            && (start..=end).contains(&at)
        {
            return instead(Verdict::Skip);
        }
        let edge = |text: &Option<String>| dates::read(text.as_deref()?, day)?.at(zone);
        if self
            .skip_explicit
            .iter()
            .any(|time| is_at(*time, zone, due, slack))
        {
            return instead(Verdict::Skip);
        }
        let early = edge(&self.after).is_some_and(|after| after >= at);
        match early || edge(&self.until).is_some_and(|until| until <= at) {
            true => Verdict::Skip,
            false => Verdict::Run,
        }
    }

    /// Returns the next time at which a job that waits for its range should be looked at.
    pub(super) fn next_edge(&self, now: &Zoned) -> Option<Timestamp> {
        let (start, end) = self.range.as_ref()?.edges(now.date(), now.time_zone())?;
        [start, end]
            .into_iter()
            .filter(|edge| *edge > now.timestamp())
            .min()
    }

    /// Returns the end of the skipped range, for a job that runs after it.
    pub(super) fn skip_end(&self, day: Date, zone: &TimeZone) -> Option<Timestamp> {
        let skip = self.skip.as_ref().filter(|_| self.run_after_skip)?;
        Some(skip.edges(day, zone)?.1)
    }
}

fn is_at(time: DateTime, zone: &TimeZone, due: Timestamp, slack: SignedDuration) -> bool {
    let Ok(time) = zone.to_zoned(time) else {
        return false;
    };
    let late = due.duration_since(time.timestamp());
    (SignedDuration::ZERO..=slack).contains(&late)
}
