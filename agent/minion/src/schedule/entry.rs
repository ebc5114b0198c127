//! Reads one job of the configuration. Its errors are in Salt's words.

use jiff::civil::{Date, DateTime};
use value::{Map, Value};

use super::cron::Cron;
use super::dates;
use super::guards::{Guards, Range};

/// The times at which a job runs.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Times {
    /// The number of seconds after its last run.
    Every(u64),
    /// A single time.
    Once(DateTime),
    /// Times as people write them, which are read again for each day.
    When(Vec<String>),
    /// Times in cron's notation.
    Cron(Box<Cron>),
}

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub times: Times,
    /// The range of seconds by which a run is put off at random.
    pub splay: Option<(u64, u64)>,
    pub run_explicit: Vec<DateTime>,
    pub run_on_start: bool,
    pub guards: Guards,
    pub enabled: bool,
    pub dry_run: bool,
    /// The maximum number of running jobs of this entry; `None` for no limit.
    pub maxrunning: Option<u64>,
    /// The name of the job in its returns.
    pub name: String,
    pub fun: String,
    /// The job's whole configuration.
    pub said: Map,
}

/// The settings of all jobs, and the names of times.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Common {
    pub splay: Option<(u64, u64)>,
    pub skip_function: Option<String>,
    pub skip_during_range: Option<Value>,
    pub enabled: bool,
    /// The `whens` of pillar and of grains.
    pub whens: [Value; 2],
}

const FMT: &str = "%Y-%m-%dT%H:%M:%S";
const INTERVALS: [(&str, u64); 4] = [
    ("seconds", 1),
    ("minutes", 60),
    ("hours", 3600),
    ("days", 86400),
];

impl Entry {
    /// Reads a job.
    pub(super) fn read(
        key: &str,
        said: &Value,
        common: &Common,
        today: Date,
    ) -> Result<Self, String> {
        let Some(said) = said.as_map() else {
            return Err(format!(
                "Scheduled job \"{key}\" should have a dict value, not {}",
                said.type_name()
            ));
        };
        let name = said
            .get("name")
            .map_or_else(|| key.to_owned(), Value::to_text);
        let ignoring = |what: String| format!("{what} Ignoring job {name}.");
        let reader = Reader {
            said,
            common,
            today,
        };
        let every = reader.interval().map_err(ignoring)?;
        let times = reader.times(every, &name)?;
        let fun = ["function", "func", "fun"]
            .iter()
            .find_map(|key| said.get(key));
        let fun = fun.and_then(Value::as_str);
        let fun = fun.ok_or_else(|| ignoring("Missing parameter function.".to_owned()))?;
        let flag = |name: &str, default: bool| said.get(name).map_or(default, Value::is_true);
        let maxrunning = said.get("maxrunning").map_or(Some(1), python_int);
        let maxrunning = maxrunning.ok_or_else(|| ignoring("Invalid maxrunning.".to_owned()))?;
        Ok(Self {
            splay: reader.splay(&name)?,
            run_explicit: reader.explicit("run_explicit").map_err(ignoring)?,
            run_on_start: flag("run_on_start", every.is_some()),
            guards: reader.guards(&name)?,
            enabled: common.enabled && flag("enabled", true),
            dry_run: flag("dry_run", false),
            maxrunning: flag("jid_include", true).then_some(maxrunning),
            fun: fun.to_owned(),
            said: said.clone(),
            times,
            name,
        })
    }

    /// Returns true if another definition of the job runs the same function at the same times, so
    /// that the job continues where it was.
    pub(super) fn goes_on(&self, other: &Self) -> bool {
        (&self.times, self.splay, &self.fun) == (&other.times, other.splay, &other.fun)
    }
}

/// Returns a whole number, as Python's `int` reads it.
fn python_int(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::Float(number) if *number >= 0.0 => Some(*number as u64),
        Value::Str(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Returns the range of seconds by which a run may be put off.
pub(super) fn splay(value: &Value) -> Option<(u64, u64)> {
    match value.as_map() {
        Some(range) => {
            let (start, end) = (
                python_int(range.get("start")?)?,
                python_int(range.get("end")?)?,
            );
            (start <= end).then_some((start, end))
        }
        None => python_int(value).map(|end| (end.min(1), end)),
    }
}

struct Reader<'a> {
    said: &'a Map,
    common: &'a Common,
    today: Date,
}

impl Reader<'_> {
    fn interval(&self) -> Result<Option<u64>, String> {
        let mut every = None;
        for (name, seconds) in INTERVALS {
            if let Some(value) = self.said.get(name) {
                let wrong = || format!("Invalid number of {name}: {}.", value.to_text());
                let count = python_int(value).ok_or_else(wrong)?;
                every = Some(every.unwrap_or(0) + count.saturating_mul(seconds));
            }
        }
        Ok(every)
    }

    fn times(&self, every: Option<u64>, name: &str) -> Result<Times, String> {
        let [when, cron, once] = ["when", "cron", "once"].map(|name| self.said.get(name));
        if [when, cron, once].iter().flatten().count() > 1 {
            return Err(format!(
                "Unable to use \"when\", \"cron\", \"once\" options together. Ignoring job {name}."
            ));
        }
        match (every, when, cron, once) {
            // As in Salt, an interval takes precedence over other times.
            (Some(seconds), ..) => Ok(Times::Every(seconds.max(1))),
            (_, Some(when), ..) => self.whens(when, name).map(Times::When),
            (_, _, Some(cron), _) => Cron::read(&cron.to_text())
                .filter(|cron| cron.after(self.today.at(0, 0, 0, 0)).is_some())
                .map(|cron| Times::Cron(Box::new(cron)))
                .ok_or_else(|| format!("Invalid cron string. Ignoring job {name}.")),
            (.., Some(once)) => self.once(once, name).map(Times::Once),
            _ => Err(format!(
                "A job needs one of seconds, minutes, hours, days, when, cron and once. Ignoring job {name}."
            )),
        }
    }

    fn once(&self, once: &Value, name: &str) -> Result<DateTime, String> {
        let fmt = self
            .said
            .get("once_fmt")
            .and_then(Value::as_str)
            .unwrap_or(FMT);
        let text = once.to_text();
        parsed(fmt, &text).ok_or_else(|| {
            format!("Date string could not be parsed: {text}, {fmt}. Ignoring job {name}.")
        })
    }

    fn whens(&self, when: &Value, name: &str) -> Result<Vec<String>, String> {
        let one = [when.clone()];
        let all = when.as_list().unwrap_or(&one).iter();
        all.map(|when| self.when(when, name)).collect()
    }

    /// Returns a time, or the time that pillar or grains give that name.
    fn when(&self, when: &Value, name: &str) -> Result<String, String> {
        let text = when.to_text();
        for (whens, source) in self.common.whens.iter().zip(["Pillar item", "Grain"]) {
            match whens {
                Value::Null => continue,
                Value::Map(whens) => {
                    if let Some(named) = whens.get(&text) {
                        return self.date(named, &text, name);
                    }
                }
                _ => {
                    return Err(format!(
                        "{source} \"whens\" must be a dict. Ignoring job {name}."
                    ));
                }
            }
        }
        self.date(when, &text, name)
    }

    fn date(&self, date: &Value, said: &str, name: &str) -> Result<String, String> {
        // Numbers are refused: `17:00` without quotes is 61200 in YAML.
        let text = date
            .as_str()
            .filter(|text| dates::read(text, self.today).is_some());
        let text =
            text.ok_or_else(|| format!("Invalid date string {said}. Ignoring job {name}."))?;
        Ok(text.to_owned())
    }

    fn splay(&self, name: &str) -> Result<Option<(u64, u64)>, String> {
        match self.said.get("splay") {
            None => Ok(self.common.splay),
            Some(value) if !value.is_true() => Ok(None),
            Some(value) => splay(value).map(Some).ok_or_else(|| {
                format!("Invalid splay: a number of seconds, or start and end with end not before start. Ignoring job {name}.")
            }),
        }
    }

    /// Returns the times that `schedule.skip_job` and `schedule.postpone_job` write.
    fn explicit(&self, key: &str) -> Result<Vec<DateTime>, String> {
        let list = self
            .said
            .get(key)
            .and_then(Value::as_list)
            .unwrap_or_default();
        let one = |item: &Value| {
            let time = item.get("time").unwrap_or(item).to_text();
            let fmt = item.get("time_fmt").and_then(Value::as_str).unwrap_or(FMT);
            parsed(fmt, &time).ok_or_else(|| format!("Invalid date string {time} in {key}."))
        };
        list.iter().map(one).collect()
    }

    fn guards(&self, name: &str) -> Result<Guards, String> {
        let ignoring = |what: String| format!("{what} Ignoring job {name}.");
        let edge = |key: &str| match self.said.get(key) {
            None => Ok(None),
            Some(value) => self.date(value, &format!("for {key}"), name).map(Some),
        };
        let global = self.common.skip_during_range.as_ref();
        let skip = self.said.get("skip_during_range").or(global);
        Ok(Guards {
            range: self.range(self.said.get("range"), "").map_err(ignoring)?,
            skip: self
                .range(skip.filter(|skip| skip.is_true()), " in skip_during_range")
                .map_err(ignoring)?,
            run_after_skip: self
                .said
                .get("run_after_skip_range")
                .is_some_and(Value::is_true),
            skip_explicit: self.explicit("skip_explicit").map_err(ignoring)?,
            after: edge("after")?,
            until: edge("until")?,
            skip_function: self.common.skip_function.clone(),
        })
    }

    fn range(&self, range: Option<&Value>, place: &str) -> Result<Option<Range>, String> {
        let Some(range) = range else { return Ok(None) };
        let Some(range) = range.as_map() else {
            return Err(
                "schedule.handle_func: Invalid, range must be specified as a dictionary."
                    .to_owned(),
            );
        };
        let edge = |key: &str| {
            let text = range.get(key).and_then(Value::as_str);
            let text = text.filter(|text| dates::read(text, self.today).is_some());
            text.map(str::to_owned)
                .ok_or_else(|| format!("Invalid date string for {key}{place}."))
        };
        let read = Range {
            start: edge("start")?,
            end: edge("end")?,
            invert: range.get("invert").is_some_and(Value::is_true),
        };
        let local = |text: &str| dates::read(text, self.today).map(|moment| moment.local);
        match local(&read.end) > local(&read.start) {
            true => Ok(Some(read)),
            false => Err(
                "schedule.handle_func: Invalid range, end must be larger than start.".to_owned(),
            ),
        }
    }
}

fn parsed(fmt: &str, text: &str) -> Option<DateTime> {
    let time = jiff::fmt::strtime::parse(fmt, text).ok()?;
    let midnight = jiff::civil::Time::midnight();
    time.to_datetime()
        .or_else(|_| time.to_date().map(|date| date.to_datetime(midnight)))
        .ok()
}
