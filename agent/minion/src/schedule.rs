//! Salt's `schedule`: decides which jobs are due, and for how long none will be. It neither waits
//! nor starts jobs: a daemon calls [`Schedule::due`], starts the returned jobs, and sleeps for
//! [`Schedule::next`].
//!
//! Jobs that count seconds use a clock that cannot be set. Jobs that name times use the machine's
//! clock, which may jump. Neither a suspended machine nor a jump makes a job run more than once. A
//! job that counts seconds or uses cron, and became due meanwhile, runs once. A named time that was
//! missed by more than [`LATE`] is left out.

mod cron;
mod dates;
mod entry;
mod guards;
pub(crate) mod manage;

#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp, Zoned};
use value::{Map, Value};

use entry::{Common, Entry, Times};
use guards::Verdict;

/// The longest delay after which a named time that was missed is still made up for.
pub const LATE: Duration = Duration::from_secs(60);
/// The interval at which jobs that use the machine's clock are looked at, because the clock may be
/// set.
const LOOK: Duration = Duration::from_secs(60);

/// The time by both clocks.
#[derive(Clone, Debug)]
pub struct Now {
    /// The machine's time, which may jump, in its zone.
    pub wall: Zoned,
    /// The time since any moment, which does not jump.
    pub running: Duration,
}

impl Now {
    /// Reads the machine's clocks.
    #[must_use]
    pub fn read() -> Self {
        let running = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(running.tv_sec).unwrap_or(0);
        Self {
            wall: Zoned::now(),
            running: Duration::new(seconds, u32::try_from(running.tv_nsec).unwrap_or(0)),
        }
    }
}

/// The data that the jobs are read from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The `schedule` of the configuration, which overrides that of pillar.
    pub config: &'a Value,
    /// The pillar: its `schedule` and `whens`.
    pub pillar: &'a Map,
    /// The grains: their `whens`.
    pub grains: &'a Map,
}

/// An invalid job, and the reason. The other jobs run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The job's key; empty if the fault concerns the whole schedule.
    pub job: String,
    /// A sentence for the log.
    pub text: String,
}

/// A job to start.
#[derive(Clone, Debug, PartialEq)]
pub struct Due {
    /// The job's name, as its returns have it in `schedule`.
    pub name: String,
    /// The function.
    pub fun: String,
    /// The positional arguments.
    pub args: Vec<Value>,
    /// The named arguments.
    pub kwargs: Map,
    /// True if the job is listed among the running jobs.
    pub jid_include: bool,
    /// The returners that receive the return in addition to the master.
    pub returners: Vec<String>,
    /// The configuration that the returners use.
    pub return_config: Option<Value>,
    /// The arguments of the returners.
    pub return_kwargs: Option<Value>,
    /// The part of the return that the master gets.
    pub return_job: ReturnJob,
    /// The metadata that is added to the return.
    pub metadata: Option<Map>,
}

/// The part of a job's return that goes to the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnJob {
    /// The return.
    Yes,
    /// The return, which the master does not store.
    NoCache,
    /// Nothing.
    No,
}

/// The time of a job's next run, by one of the two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Running(Duration),
    Wall(Timestamp),
}

impl At {
    fn wait(self, now: &Now) -> Duration {
        match self {
            Self::Running(at) => at.saturating_sub(now.running),
            Self::Wall(at) => {
                let wait = at.duration_since(now.wall.timestamp());
                wait.try_into().unwrap_or(Duration::ZERO)
            }
        }
    }
}

struct Job {
    key: String,
    entry: Entry,
    /// The next run of a job that counts seconds or uses cron. For other jobs, a run that `splay`
    /// has put off.
    next: Option<At>,
    starting: bool,
    /// True while the job is due and its range has not begun.
    waits: bool,
    /// True after the job was due with a range that may skip it. It runs when that range has ended.
    skips: bool,
}

/// The jobs, and the time of the last look at them.
pub struct Schedule {
    jobs: Vec<Job>,
    faults: Vec<Fault>,
    checked: Option<Now>,
    slack: SignedDuration,
    random: fn(u64, u64) -> u64,
}

impl std::fmt::Debug for Schedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys = self.jobs.iter().map(|job| &job.key);
        f.debug_list().entries(keys).finish()
    }
}

/// Returns a number between two others, both included.
fn between(low: u64, high: u64) -> u64 {
    low + value::random::jitter(high.saturating_sub(low))
}

impl Schedule {
    /// Reads the jobs.
    #[must_use]
    pub fn new(source: Source<'_>, now: &Now) -> Self {
        let mut new = Self {
            jobs: Vec::new(),
            faults: Vec::new(),
            checked: None,
            slack: SignedDuration::from_secs(1),
            random: between,
        };
        new.update(source, now);
        new
    }

    /// Returns the faults of jobs that do not run.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Reads the jobs again, after a change of configuration or pillar. A job whose times have not
    /// changed continues where it was.
    pub fn update(&mut self, source: Source<'_>, now: &Now) {
        self.faults.clear();
        let mut old = std::mem::take(&mut self.jobs);
        let (jobs, common) = self.read(source);
        for (key, said) in jobs.iter() {
            let key = key.to_text();
            match Entry::read(&key, said, &common, now.wall.date()) {
                Ok(entry) => {
                    let was = old
                        .iter()
                        .position(|job| job.key == key && job.entry.goes_on(&entry));
                    let was = was.map(|at| old.swap_remove(at));
                    self.jobs.push(Job::new(key, entry, was, now));
                }
                Err(text) => self.faults.push(Fault { job: key, text }),
            }
        }
    }

    /// Returns the jobs by name, and the settings that apply to all of them.
    fn read(&mut self, source: Source<'_>) -> (Map, Common) {
        let null = Value::Null;
        let pillar = source.pillar.get("schedule").unwrap_or(&null);
        let mut jobs = Map::new();
        for (jobs_of, place) in [(pillar, "pillar"), (source.config, "the configuration")] {
            match jobs_of {
                Value::Null => {}
                Value::Map(map) => jobs.update(map.clone()),
                _ => self.faults.push(Fault {
                    job: String::new(),
                    text: format!("Schedule must be of type dict, in {place}."),
                }),
            }
        }
        let whens = [source.pillar, source.grains]
            .map(|map| map.get("whens").cloned().unwrap_or(Value::Null));
        let splay = jobs.remove("splay").filter(Value::is_true);
        let common = Common {
            splay: splay.as_ref().and_then(entry::splay),
            skip_function: jobs
                .remove("skip_function")
                .and_then(|fun| fun.as_str().map(str::to_owned)),
            skip_during_range: jobs.remove("skip_during_range").filter(Value::is_true),
            enabled: jobs
                .remove("enabled")
                .is_none_or(|enabled| enabled.is_true()),
            whens,
        };
        if splay.is_some() && common.splay.is_none() {
            self.faults.push(Fault {
                job: "splay".to_owned(),
                text: "Invalid splay of all jobs. Ignoring splay.".to_owned(),
            });
        }
        (jobs, common)
    }

    /// Returns the jobs to start now. `running` returns how many jobs of a name are running, for
    /// `maxrunning`.
    pub fn due(&mut self, now: &Now, running: impl Fn(&str) -> u64) -> Vec<Due> {
        let checked = self.checked.replace(now.clone());
        let look = Look {
            since: since(checked.as_ref(), now, self.slack),
            jumped_back: checked
                .is_some_and(|checked| checked.wall.timestamp() > now.wall.timestamp()),
            now,
            slack: self.slack,
            random: self.random,
        };
        let jobs = self.jobs.iter_mut();
        jobs.filter_map(|job| job.looked_at(&look, &running))
            .collect()
    }

    /// Returns a job to start now, whatever its times are. Returns `None` if there is no such job,
    /// or if `maxrunning` of it are running.
    #[must_use]
    pub fn at_once(&self, key: &str, running: impl Fn(&str) -> u64) -> Option<Due> {
        let entry = &self.jobs.iter().find(|job| job.key == key)?.entry;
        let full = |max| running(&entry.name) >= max;
        let is_full = entry.maxrunning.is_some_and(full);
        (!is_full).then(|| due_of(entry, entry.fun.clone()))
    }

    /// Returns the time of a job's next run, in the machine's zone.
    #[must_use]
    pub fn next_fire_time(&self, key: &str, now: &Now) -> Option<DateTime> {
        let job = self.jobs.iter().find(|job| job.key == key)?;
        let planned = job.next.map(|next| match next {
            At::Wall(at) => at,
            At::Running(_) => now
                .wall
                .timestamp()
                .saturating_add(next.wait(now))
                .unwrap_or(Timestamp::MAX),
        });
        let named = job.names(now).filter(|at| *at > now.wall.timestamp());
        let next = named.chain(planned).min()?;
        Some(next.to_zoned(now.wall.time_zone().clone()).datetime())
    }

    /// Returns how long no job is due, or `None` if none ever will be.
    #[must_use]
    pub fn next(&self, now: &Now) -> Option<Duration> {
        if self.checked.is_none() {
            return (!self.jobs.is_empty()).then_some(Duration::ZERO);
        }
        self.jobs.iter().filter_map(|job| job.wait(now)).min()
    }
}

/// Returns the time after which named times are new: that of the previous look, but at most
/// [`LATE`] ago.
fn since(checked: Option<&Now>, now: &Now, slack: SignedDuration) -> Timestamp {
    let at = now.wall.timestamp();
    let before = |span: SignedDuration| at.checked_sub(span).unwrap_or(Timestamp::MIN);
    let Some(checked) = checked else {
        return before(slack + SignedDuration::from_nanos(1));
    };
    let late = SignedDuration::try_from(LATE).unwrap_or(slack).max(slack);
    checked.wall.timestamp().clamp(before(late), at)
}

/// One look at the clocks.
struct Look<'a> {
    now: &'a Now,
    /// The time of the previous look.
    since: Timestamp,
    jumped_back: bool,
    slack: SignedDuration,
    random: fn(u64, u64) -> u64,
}

impl Look<'_> {
    /// Returns true if a time has come since the previous look.
    fn is_new(&self, at: Timestamp) -> bool {
        at > self.since && at <= self.now.wall.timestamp()
    }

    fn at(&self, time: DateTime) -> Option<Timestamp> {
        Some(self.now.wall.time_zone().to_zoned(time).ok()?.timestamp())
    }
}

impl Job {
    fn new(key: String, entry: Entry, was: Option<Self>, now: &Now) -> Self {
        let mut new = Self {
            starting: entry.run_on_start,
            key,
            entry,
            next: None,
            waits: false,
            skips: false,
        };
        let Some(was) = was else { return new };
        (new.next, new.starting) = (was.next, was.starting);
        (new.waits, new.skips) = (was.waits, was.skips);
        // A disabled job does not make up for the time that it was disabled.
        let over = new.next.is_some_and(|next| next.wait(now).is_zero());
        if !was.entry.enabled && over && matches!(new.entry.times, Times::Every(_)) {
            new.next = None;
        }
        new
    }

    /// Returns the job if it is to be started now, and plans its next run.
    fn looked_at(&mut self, look: &Look<'_>, running: &impl Fn(&str) -> u64) -> Option<Due> {
        let explicit = self.is_explicit(look);
        let due = self.came(look);
        let starting = std::mem::take(&mut self.starting);
        if !(starting || explicit || due) {
            return None;
        }
        let verdict = match starting {
            true => Verdict::Run,
            false => self.verdict(look),
        };
        self.waits = verdict == Verdict::Wait && self.entry.enabled;
        if self.waits && matches!(self.entry.times, Times::Every(_)) {
            return None;
        }
        if due || explicit || starting {
            self.plan(look);
        }
        let fun = match verdict {
            Verdict::Run => self.entry.fun.clone(),
            Verdict::Instead(fun) => fun,
            Verdict::Skip | Verdict::Wait => return None,
        };
        let full = |max| running(&self.entry.name) >= max;
        if !self.entry.enabled || self.entry.dry_run || self.entry.maxrunning.is_some_and(full) {
            return None;
        }
        Some(due_of(&self.entry, fun))
    }

    fn verdict(&mut self, look: &Look<'_>) -> Verdict {
        let guards = &self.entry.guards;
        self.skips |= guards.run_after_skip && guards.skip.is_some();
        guards.verdict(&look.now.wall, look.now.wall.timestamp(), look.slack)
    }

    /// Returns true if a time has come that was set for this job alone, or the end of the range
    /// that it skips.
    fn is_explicit(&mut self, look: &Look<'_>) -> bool {
        let mut times = self.entry.run_explicit.iter();
        let set = times.any(|time| look.at(*time).is_some_and(|at| look.is_new(at)));
        let wall = &look.now.wall;
        let end = self.entry.guards.skip_end(wall.date(), wall.time_zone());
        let after = end.and_then(|end| end.checked_add(look.slack).ok());
        let ended = self.skips && after.is_some_and(|after| look.is_new(after));
        self.skips &= !ended;
        set || ended
    }

    /// Returns true if the job's time has come, by its interval or by the times that it names.
    fn came(&mut self, look: &Look<'_>) -> bool {
        if let Times::Every(_) | Times::Cron(_) = self.entry.times {
            let cron = matches!(self.entry.times, Times::Cron(_));
            if self.next.is_none() || cron && look.jumped_back {
                self.plan(look);
            }
            return self.next.is_some_and(|next| next.wait(look.now).is_zero());
        }
        if self.named(look) {
            let Some((low, high)) = self.entry.splay else {
                return true;
            };
            let splay = SignedDuration::from_secs((look.random)(low, high) as i64);
            let at = look.now.wall.timestamp().checked_add(splay);
            self.next = at.ok().map(At::Wall);
        }
        self.next.is_some_and(|next| next.wait(look.now).is_zero())
    }

    /// Returns true if a time that the job names has come since the previous look. Each time is
    /// read for today, and for the day of that look.
    fn named(&self, look: &Look<'_>) -> bool {
        let zone = look.now.wall.time_zone();
        let days = [
            look.now.wall.date(),
            look.since.to_zoned(zone.clone()).date(),
        ];
        let is_new = |at: Option<Timestamp>| at.is_some_and(|at| look.is_new(at));
        match &self.entry.times {
            Times::Once(time) => is_new(look.at(*time)),
            Times::When(texts) => texts.iter().any(|text| {
                days.iter()
                    .any(|day| is_new(dates::read(text, *day).and_then(|moment| moment.at(zone))))
            }),
            Times::Every(_) | Times::Cron(_) => false,
        }
    }

    /// Plans the job's next run.
    fn plan(&mut self, look: &Look<'_>) {
        let splay = self
            .entry
            .splay
            .map_or(0, |(low, high)| (look.random)(low, high));
        self.next = match &self.entry.times {
            Times::Every(seconds) => {
                let wait = Duration::from_secs(seconds.saturating_add(splay));
                Some(At::Running(look.now.running.saturating_add(wait)))
            }
            Times::Cron(cron) => {
                let next = cron
                    .after(look.now.wall.datetime())
                    .and_then(|next| look.at(next));
                let splay = SignedDuration::from_secs(splay as i64);
                next.and_then(|next| next.checked_add(splay).ok())
                    .map(At::Wall)
            }
            Times::Once(_) | Times::When(_) => None,
        };
    }

    /// Returns how long the job need not be looked at, or `None` if never again.
    fn wait(&self, now: &Now) -> Option<Duration> {
        if !self.entry.enabled {
            return None;
        }
        if self.starting {
            return Some(Duration::ZERO);
        }
        let wall = |at: Timestamp| At::Wall(at).wait(now).min(LOOK);
        if self.waits {
            let edge = self.entry.guards.next_edge(&now.wall);
            return Some(edge.map_or(LOOK, wall));
        }
        let own = match (self.next, &self.entry.times) {
            (Some(next @ At::Running(_)), _) => Some(next.wait(now)),
            (Some(At::Wall(at)), _) => Some(wall(at)),
            (None, Times::Every(_) | Times::Cron(_)) => Some(Duration::ZERO),
            (None, _) => None,
        };
        let named = self
            .names(now)
            .filter(|at| *at > now.wall.timestamp())
            .min();
        own.into_iter()
            .chain(named.map(wall))
            .chain(self.has_names().then_some(LOOK))
            .min()
    }

    /// Returns true if the job depends on the machine's clock.
    fn has_names(&self) -> bool {
        !matches!(self.entry.times, Times::Every(_))
            || !self.entry.run_explicit.is_empty()
            || self.skips
    }

    /// Returns the times that the job names, for today and tomorrow.
    fn names(&self, now: &Now) -> impl Iterator<Item = Timestamp> {
        let zone = now.wall.time_zone();
        let today = now.wall.date();
        let at = |time: DateTime| Some(zone.to_zoned(time).ok()?.timestamp());
        let mut times: Vec<Option<Timestamp>> = self
            .entry
            .run_explicit
            .iter()
            .map(|time| at(*time))
            .collect();
        let end = self.entry.guards.skip_end(today, zone);
        times.push(end.and_then(|end| end.checked_add(SignedDuration::from_secs(1)).ok()));
        match &self.entry.times {
            Times::Once(time) => times.push(at(*time)),
            Times::When(texts) => {
                let days = [Some(today), today.tomorrow().ok()];
                for (text, day) in texts.iter().flat_map(|text| days.map(|day| (text, day))) {
                    times.push(day.and_then(|day| dates::read(text, day)?.at(zone)));
                }
            }
            Times::Every(_) | Times::Cron(_) => {}
        }
        times.into_iter().flatten()
    }
}

fn due_of(entry: &Entry, fun: String) -> Due {
    let said = |name: &str| entry.said.get(name);
    let one_or_more = |value: &Value| match value.as_list() {
        Some(list) => list.iter().map(Value::to_text).collect(),
        None => vec![value.to_text()],
    };
    let returners = said("returner").filter(|value| value.is_true());
    Due {
        name: entry.name.clone(),
        fun,
        args: said("args")
            .and_then(Value::as_list)
            .map(<[Value]>::to_vec)
            .unwrap_or_default(),
        kwargs: said("kwargs")
            .and_then(Value::as_map)
            .cloned()
            .unwrap_or_default(),
        jid_include: entry.maxrunning.is_some(),
        returners: returners.map(one_or_more).unwrap_or_default(),
        return_config: said("return_config").cloned(),
        return_kwargs: said("return_kwargs").cloned(),
        return_job: match said("return_job") {
            Some(value) if value.as_str() == Some("nocache") => ReturnJob::NoCache,
            Some(value) if !value.is_true() => ReturnJob::No,
            _ => ReturnJob::Yes,
        },
        metadata: said("metadata").and_then(Value::as_map).cloned(),
    }
}
