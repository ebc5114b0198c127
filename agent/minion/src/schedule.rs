//! Salt's `schedule`: which jobs are due, and how long nothing will be. It waits for nothing and starts nothing: a daemon asks
//! [`Schedule::due`], starts what it is told, and sleeps for [`Schedule::next`].
//!
//! What counts seconds goes by a clock that nobody sets; what names times goes by the machine's, which may jump. Neither a sleep nor a
//! jump makes a job run more than once: what is due by then runs once where it counts or is cron's, and what named a time that was
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

/// A time that was missed by more is not made up for.
pub const LATE: Duration = Duration::from_secs(60);
/// Who goes by the machine's clock looks at it this often: it may be set.
const LOOK: Duration = Duration::from_secs(60);

/// What the clocks say.
#[derive(Clone, Debug)]
pub struct Now {
    /// The machine's time, which may jump, in its zone.
    pub wall: Zoned,
    /// The time since any moment, which does not jump.
    pub running: Duration,
}

impl Now {
    /// What the machine's clocks say.
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

/// Where jobs come from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// `schedule` of the configuration, which goes before that of pillar.
    pub config: &'a Value,
    /// The pillar: its `schedule` and `whens`.
    pub pillar: &'a Map,
    /// The grains: their `whens`.
    pub grains: &'a Map,
}

/// A job that cannot be, and why. The others run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its key; empty where it is the whole schedule.
    pub job: String,
    /// A sentence for the log.
    pub text: String,
}

/// A job that is to be started.
#[derive(Clone, Debug, PartialEq)]
pub struct Due {
    /// Its name, as its returns have it in `schedule`.
    pub name: String,
    /// The function.
    pub fun: String,
    /// Its arguments.
    pub args: Vec<Value>,
    /// Those with names.
    pub kwargs: Map,
    /// Whether it is listed among the jobs that run.
    pub jid_include: bool,
    /// Where the return goes beside the master.
    pub returners: Vec<String>,
    /// Which configuration those take.
    pub return_config: Option<Value>,
    /// Their arguments.
    pub return_kwargs: Option<Value>,
    /// Whether the master gets the return.
    pub return_job: ReturnJob,
    /// What is added to the return.
    pub metadata: Option<Map>,
}

/// What of a job's return goes to the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnJob {
    /// The return.
    Yes,
    /// The return, which it does not keep.
    NoCache,
    /// Nothing.
    No,
}

/// When a job runs next, by one of two clocks.
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
    /// Of what counts seconds or is cron's; of the others, a run that was put off.
    next: Option<At>,
    starting: bool,
    /// Due, and its range is not yet there.
    waits: bool,
    /// It was due where it may be skipped, and runs when that has ended.
    skips: bool,
}

/// Jobs, and when each was last looked at.
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

/// A number between two, both of them possible.
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

    /// What is wrong with jobs that do not run.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Reads the jobs again, after a change of configuration or pillar. What runs at the same times as before goes on where it was.
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

    /// The jobs by name, and what is said of all of them.
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

    /// The jobs that are to be started now. `running` says how many of a name run, for `maxrunning`.
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

    /// A job that is to run now, whatever its times say; none where there is none, or as many of it run as may.
    #[must_use]
    pub fn at_once(&self, key: &str, running: impl Fn(&str) -> u64) -> Option<Due> {
        let entry = &self.jobs.iter().find(|job| job.key == key)?.entry;
        let full = |max| running(&entry.name) >= max;
        let is_full = entry.maxrunning.is_some_and(full);
        (!is_full).then(|| due_of(entry, entry.fun.clone()))
    }

    /// When a job runs next, in the machine's zone.
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

    /// For how long nothing is due; none where nothing ever is.
    #[must_use]
    pub fn next(&self, now: &Now) -> Option<Duration> {
        if self.checked.is_none() {
            return (!self.jobs.is_empty()).then_some(Duration::ZERO);
        }
        self.jobs.iter().filter_map(|job| job.wait(now)).min()
    }
}

/// From when on times count that are not dealt with yet.
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
    /// The end of the look before.
    since: Timestamp,
    jumped_back: bool,
    slack: SignedDuration,
    random: fn(u64, u64) -> u64,
}

impl Look<'_> {
    /// Whether a time has come since the look before.
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
        // What was switched off did not count.
        let over = new.next.is_some_and(|next| next.wait(now).is_zero());
        if !was.entry.enabled && over && matches!(new.entry.times, Times::Every(_)) {
            new.next = None;
        }
        new
    }

    /// Looks whether it is due, and says what is to be started.
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

    /// Whether a time has come that was set for it alone, or that at which its skipping ends.
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

    /// Whether its time has come, by its own count or what it names.
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

    /// Whether a time that it names has come since the look before: as it is read for today, and for the day of that look.
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

    /// Says when it runs next.
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

    /// For how long it need not be looked at; none for ever.
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

    /// Whether it goes by times that are named.
    fn has_names(&self) -> bool {
        !matches!(self.entry.times, Times::Every(_))
            || !self.entry.run_explicit.is_empty()
            || self.skips
    }

    /// The times that it names, today and tomorrow.
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
