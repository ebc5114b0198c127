//! What keeps a job that is due from running: ranges of time, times to skip, `after` and `until`. All of them must let it.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

use super::dates;

/// A range of time, as it is written.
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

/// What a job's entry says of when it may not run.
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

/// What the guards say to a job that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It runs.
    Run,
    /// Another function runs in its place.
    Instead(String),
    /// It is left out this time.
    Skip,
    /// It runs when its range comes.
    Wait,
}

impl Guards {
    /// Whether a job may run now that was due at a time.
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

    /// When a job that waits for its range may look again.
    pub(super) fn next_edge(&self, now: &Zoned) -> Option<Timestamp> {
        let (start, end) = self.range.as_ref()?.edges(now.date(), now.time_zone())?;
        [start, end]
            .into_iter()
            .filter(|edge| *edge > now.timestamp())
            .min()
    }

    /// When the time ends that is skipped, for a job that is to run then.
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
