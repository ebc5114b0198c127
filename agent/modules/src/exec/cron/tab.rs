//! A crontab in Salt's layout: lines that Salt does not manage, a mark, then Salt's variables, jobs
//! with times, and jobs with a nickname.

use state::module::Error;
use value::{Map, Value, random};

const MARK: &str = "# Lines below here are managed by Salt, do not edit";
const IDENTIFIER: &str = "SALT_CRON_IDENTIFIER";
const DISABLED: &str = "#DISABLED#";
/// The placeholder for the identifier of a job that has none.
const NO_IDENTIFIER: &str = "NO ID SET";

/// The names of the five times of a job.
pub(crate) const TIMES: [&str; 5] = ["minute", "hour", "daymonth", "month", "dayweek"];

/// The times at which a job runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Five times, each as written in the crontab.
    Times([String; 5]),
    /// A nickname such as `@daily`.
    Special(String),
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// The times at which the job runs.
    pub(crate) when: When,
    /// The command.
    pub(crate) cmd: String,
    /// The identifier, which finds the job again after its command has changed.
    pub(crate) identifier: Option<String>,
    /// The comment lines above the job.
    pub(crate) comment: Option<String>,
    /// True if the job is commented out and does not run.
    pub(crate) commented: bool,
}

/// A whole crontab.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tab {
    pre: Vec<String>,
    /// The variables and their values.
    pub(crate) env: Vec<(String, String)>,
    /// The jobs. Those with a nickname come last.
    pub(crate) jobs: Vec<Job>,
}

/// The result for a job or a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It existed.
    Present,
    /// It was added.
    New,
    /// It existed and was changed.
    Updated,
    /// It did not exist.
    Absent,
    /// It was removed.
    Removed,
}

impl Outcome {
    /// Returns the name that Salt's functions return.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::New => "new",
            Self::Updated => "updated",
            Self::Absent => "absent",
            Self::Removed => "removed",
        }
    }
}

/// Reports whether a wanted value differs from the existing one. An existing random time is kept.
pub(crate) fn differs(old: Option<&str>, new: Option<&str>) -> bool {
    match (old, new) {
        (_, None) => false,
        (old, Some("random")) => old.is_none_or(|old| old == "*"),
        (old, Some(new)) => old != Some(new),
    }
}

/// Like [`differs`], but for a time. A range such as `5:20` matches any number in it.
fn time_differs(old: Option<&str>, new: Option<&str>) -> bool {
    let within = || {
        let (start, end) = range(new?)?;
        let now: u64 = old?.parse().ok()?;
        Some((start..=end).contains(&now))
    };
    differs(old, new) && within() != Some(true)
}

fn range(text: &str) -> Option<(u64, u64)> {
    let (a, b) = text.split_once(':')?;
    let (a, b) = (a.trim().parse().ok()?, b.trim().parse().ok()?);
    Some(if a <= b { (a, b) } else { (b, a) })
}

impl When {
    fn time(&self, at: usize) -> Option<&str> {
        match self {
            Self::Times(times) => times.get(at).map(String::as_str),
            Self::Special(_) => None,
        }
    }

    pub(crate) fn special(&self) -> Option<&str> {
        match self {
            Self::Special(name) => Some(name),
            Self::Times(_) => None,
        }
    }

    fn differs(&self, wanted: &Self) -> bool {
        let times = (0..5).any(|at| time_differs(self.time(at), wanted.time(at)));
        times || differs(self.special(), wanted.special())
    }

    /// Replaces random times with random numbers.
    fn settled(self) -> Result<Self, Error> {
        let Self::Times(times) = self else {
            return Ok(self);
        };
        let [minute, hour, daymonth, month, dayweek] = times;
        let month = chosen(month, 1, 12)?;
        let days = match month.as_str() {
            "1" | "3" | "5" | "7" | "8" | "10" | "12" => 31,
            "4" | "6" | "9" | "11" => 30,
            _ => 28,
        };
        Ok(Self::Times([
            chosen(minute, 0, 59)?,
            chosen(hour, 0, 23)?,
            chosen(daymonth, 1, days)?,
            month,
            chosen(dayweek, 0, 6)?,
        ]))
    }
}

/// Returns the time itself, or a random number if the time is `random` or a range.
fn chosen(time: String, first: u64, last: u64) -> Result<String, Error> {
    let asked = if time == "random" {
        Some((first, last))
    } else {
        range(&time)
    };
    Ok(match asked {
        Some((first, last)) => first
            .saturating_add(random::below((last - first).saturating_add(1))?)
            .to_string(),
        None => time,
    })
}

impl Job {
    fn identity(&self) -> &str {
        self.identifier
            .as_deref()
            .filter(|identifier| !identifier.is_empty())
            .unwrap_or(NO_IDENTIFIER)
    }

    /// Reports whether this is the wanted job: both identifiers are the same, or this job has no
    /// identifier and both commands are the same.
    pub(crate) fn is(&self, cmd: &str, identifier: Option<&str>) -> bool {
        let wanted = identifier
            .filter(|identifier| !identifier.is_empty())
            .unwrap_or(NO_IDENTIFIER);
        let nameless = self.identity() == NO_IDENTIFIER;
        if nameless && self.cmd != cmd && wanted == NO_IDENTIFIER {
            return false;
        }
        nameless && self.cmd == cmd || self.identity() == wanted
    }

    /// Reports whether the wanted job differs from this one. Identifiers are not compared.
    pub(crate) fn differs(&self, wanted: &Self) -> bool {
        self.when.differs(&wanted.when)
            || self.cmd != wanted.cmd
            || differs(self.comment.as_deref(), wanted.comment.as_deref())
            || self.commented != wanted.commented
    }

    /// Returns the wanted job. Parts that it leaves open are taken from this job.
    fn filled(&self, wanted: Self) -> Self {
        let when = match (&self.when, wanted.when) {
            (When::Times(old), When::Times(new)) => {
                let keep = |(old, new): (&String, String)| {
                    if time_differs(Some(old), Some(&new)) {
                        new
                    } else {
                        old.clone()
                    }
                };
                let mut pairs = old.iter().zip(new).map(keep);
                When::Times(std::array::from_fn(|_| pairs.next().unwrap_or_default()))
            }
            (_, when) => when,
        };
        let comment = match differs(self.comment.as_deref(), wanted.comment.as_deref()) {
            true => wanted.comment,
            false => self.comment.clone(),
        };
        let identifier = wanted.identifier.or_else(|| self.identifier.clone());
        Self {
            when,
            comment,
            identifier,
            ..wanted
        }
    }

    fn lines(&self, out: &mut String) {
        let special = self.when.special();
        if self.comment.is_some() || self.identifier.is_some() {
            out.push('#');
            let comment = self.comment.as_deref().unwrap_or_default();
            let comment = if special.is_some() {
                comment.trim_end()
            } else {
                comment
            };
            if !comment.is_empty() {
                out.push(' ');
                out.push_str(&comment.replace('\n', "\n# "));
            }
            if let Some(identifier) = self.identifier.as_ref().filter(|id| !id.is_empty()) {
                out.push_str(&format!(" {IDENTIFIER}:{identifier}"));
            }
            out.push('\n');
        }
        if self.commented {
            out.push_str(DISABLED);
        }
        let when = match &self.when {
            When::Times(times) => times.join(" "),
            When::Special(name) => name.clone(),
        };
        out.push_str(&format!("{when} {}\n", self.cmd));
    }

    /// Returns the job as `cron.list_tab` shows it.
    pub(crate) fn to_map(&self) -> Map {
        let mut map = Map::new();
        match &self.when {
            When::Times(times) => {
                for (name, time) in TIMES.into_iter().zip(times) {
                    map.insert(name, time.as_str());
                }
            }
            When::Special(name) => drop(map.insert("spec", name.as_str())),
        }
        map.with("identifier", self.identifier.clone())
            .with("cmd", self.cmd.as_str())
            .with("comment", self.comment.clone())
            .with("commented", self.commented)
    }
}

impl Tab {
    /// Parses a crontab.
    pub(crate) fn read(text: &str) -> Self {
        let mut tab = Self::default();
        let mut lines = text.lines();
        let before = lines.by_ref().take_while(|line| *line != MARK);
        tab.pre = before.map(str::to_owned).collect();
        let (mut comment, mut identifier) = (None, None);
        for line in lines.filter(|line| *line != MARK) {
            let (line, commented) = match line.strip_prefix(DISABLED) {
                Some(line) => (line, true),
                None => (line, false),
            };
            if line.starts_with('#') {
                note(line, &mut comment, &mut identifier);
            } else if let Some(variable) = variable(line) {
                tab.env.push(variable);
            } else if let Some((when, cmd)) = job(line) {
                tab.jobs.push(Job {
                    when,
                    cmd,
                    identifier: identifier.take(),
                    comment: comment.take(),
                    commented,
                });
            }
        }
        let special = |job: &Job| job.when.special().is_some();
        let (behind, jobs) = tab.jobs.into_iter().partition(special);
        tab.jobs = jobs;
        let mut behind: Vec<Job> = behind;
        tab.jobs.append(&mut behind);
        tab
    }

    /// Returns the text of the crontab.
    pub(crate) fn write(&self) -> String {
        let mut out = String::new();
        for line in self.pre.iter().map(String::as_str).chain([MARK]) {
            out.push_str(line);
            out.push('\n');
        }
        for (name, value) in &self.env {
            let value = if value.is_empty() { "\"\"" } else { value };
            out.push_str(&format!("{name}={value}\n"));
        }
        self.jobs.iter().for_each(|job| job.lines(&mut out));
        out
    }

    /// Returns the crontab as `cron.list_tab` returns it.
    pub(crate) fn to_map(&self) -> Map {
        let jobs = |special: bool| {
            let jobs = self
                .jobs
                .iter()
                .filter(|job| job.when.special().is_some() == special);
            Value::list(jobs.map(|job| job.to_map().into()))
        };
        let env = self.env.iter().map(|(name, value)| {
            let variable = Map::new().with("name", name.as_str());
            variable.with("value", value.as_str()).into()
        });
        Map::new()
            .with("pre", self.pre.clone())
            .with("crons", jobs(false))
            .with("special", jobs(true))
            .with("env", Value::list(env))
    }

    /// Adds a job, or changes the existing job with the same identity.
    ///
    /// # Errors
    /// When a random time is requested and no random number is available.
    pub(crate) fn set(&mut self, wanted: Job) -> Result<Outcome, Error> {
        let identifier = wanted.identifier.as_deref();
        let found = self
            .jobs
            .iter()
            .position(|job| job.is(&wanted.cmd, identifier));
        let Some(old) = found.and_then(|at| self.jobs.get(at)) else {
            self.add(wanted)?;
            return Ok(Outcome::New);
        };
        let other_id = identifier.unwrap_or(NO_IDENTIFIER) != old.identity();
        if !other_id && !old.differs(&wanted) {
            return Ok(Outcome::Present);
        }
        let wanted = old.filled(wanted);
        if let Some(at) = found {
            self.jobs.remove(at);
        }
        self.add(wanted)?;
        Ok(Outcome::Updated)
    }

    /// Inserts a job after the other jobs of its kind.
    fn add(&mut self, job: Job) -> Result<(), Error> {
        let job = Job {
            when: job.when.settled()?,
            ..job
        };
        let special = job.when.special().is_some();
        let mut jobs = self.jobs.iter();
        let at = jobs.position(|other| !special && other.when.special().is_some());
        self.jobs.insert(at.unwrap_or(self.jobs.len()), job);
        Ok(())
    }

    /// Removes the first job that has this command or identifier and for which `also` returns true.
    pub(crate) fn remove(
        &mut self,
        cmd: &str,
        identifier: Option<&str>,
        also: &dyn Fn(&When) -> bool,
    ) -> Outcome {
        let meant = |job: &Job| job.is(cmd, identifier) && also(&job.when);
        match self.jobs.iter().position(meant) {
            Some(at) => {
                self.jobs.remove(at);
                Outcome::Removed
            }
            None => Outcome::Absent,
        }
    }

    /// Returns the outcome of setting a variable, without setting it. The crontab stores an empty
    /// value as two quotation marks.
    pub(crate) fn variable(&self, name: &str, value: &str) -> Outcome {
        let empty = |value: &str| value.is_empty() || value == "\"\"";
        match self.env.iter().find(|known| known.0 == name) {
            None => Outcome::New,
            Some((_, now)) if now == value || empty(now) && empty(value) => Outcome::Present,
            Some(_) => Outcome::Updated,
        }
    }
}

fn note(line: &str, comment: &mut Option<String>, identifier: &mut Option<String>) {
    let text = line.trim_start_matches(['#', ' ']);
    let text = match text.split_once(IDENTIFIER) {
        Some((before, after)) => {
            let after = after.split(IDENTIFIER).next().unwrap_or_default();
            let mut after = after.chars();
            if after.next().is_some() && !after.as_str().is_empty() {
                *identifier = Some(after.as_str().to_owned());
            }
            before.trim_end()
        }
        None => text,
    };
    match comment {
        Some(comment) => {
            comment.push('\n');
            comment.push_str(text);
        }
        None => *comment = Some(text.to_owned()),
    }
}

fn variable(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once('=')?;
    let is_one = !line.starts_with('@') && !name.is_empty() && !name.contains(' ');
    is_one.then(|| (name.to_owned(), value.to_owned()))
}

fn job(line: &str) -> Option<(When, String)> {
    if line.starts_with('@') {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        let rest: Vec<&str> = words.collect();
        return (!rest.is_empty()).then(|| (When::Special(name), rest.join(" ")));
    }
    let mut parts = line.splitn(6, ' ').map(str::to_owned);
    let mut times: [String; 5] = Default::default();
    for time in &mut times {
        *time = parts.next()?;
    }
    Some((When::Times(times), parts.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "MAILTO=root\n5 4 * * * mine\n# Lines below here are managed by Salt, do not edit\nPATH=/bin\n# say\n# it SALT_CRON_IDENTIFIER:one\n*/5 * * * 1 echo  a=b\n#DISABLED#1 2 3 4 5 off\n# SALT_CRON_IDENTIFIER:two\n@daily clean up\n";

    fn wanted(cmd: &str, identifier: Option<&str>) -> Job {
        Job {
            when: When::Times(["*"; 5].map(str::to_owned)),
            cmd: cmd.to_owned(),
            identifier: identifier.map(str::to_owned),
            comment: None,
            commented: false,
        }
    }

    #[test]
    fn a_table_is_written_as_it_was_read() {
        let tab = Tab::read(TEXT);
        assert_eq!(tab.write(), TEXT);
        assert_eq!((tab.pre.len(), tab.env.len(), tab.jobs.len()), (2, 1, 3));
        assert_eq!(tab.jobs[0].comment.as_deref(), Some("say\nit"));
        assert_eq!(tab.jobs[0].cmd, "echo  a=b");
        assert!(tab.jobs[1].commented);
        assert_eq!(tab.jobs[2].when.special(), Some("@daily"));
    }

    #[test]
    fn a_job_is_known_by_its_identifier_or_its_command() {
        let mut tab = Tab::read(TEXT);
        assert_eq!(
            tab.set(wanted("new", Some("one"))).unwrap(),
            Outcome::Updated
        );
        assert_eq!(
            tab.set(wanted("new", Some("one"))).unwrap(),
            Outcome::Present
        );
        assert_eq!(tab.jobs[1].comment.as_deref(), Some("say\nit"));
        assert_eq!(tab.set(wanted("other", None)).unwrap(), Outcome::New);
        assert_eq!(tab.jobs.last().unwrap().when.special(), Some("@daily"));
        assert_eq!(tab.remove("other", None, &|_| true), Outcome::Removed);
        assert_eq!(tab.remove("other", None, &|_| true), Outcome::Absent);
    }

    #[test]
    fn a_random_time_is_chosen_once() {
        let mut tab = Tab::default();
        let mut job = wanted("x", None);
        job.when = When::Times(["random", "3:5", "random", "2", "*"].map(str::to_owned));
        assert_eq!(tab.set(job.clone()).unwrap(), Outcome::New);
        assert_eq!(tab.set(job).unwrap(), Outcome::Present);
        let hour: u64 = tab.jobs[0].when.time(1).unwrap().parse().unwrap();
        assert!((3..=5).contains(&hour));
    }
}
