//! Answers requests of `schedule.*` functions to the daemon: the part of Salt's `Schedule` class
//! that changes jobs, with its answers.

use jiff::civil::Date;
use value::{Map, Value};

use super::dates;

/// Answers a request, and changes the configured jobs (`own`) if the request asks for it. `salts`
/// are the daemon's internal jobs, such as the mine's.
pub(crate) fn managed(
    asked: &wire::Schedule,
    own: &mut Map,
    pillar: &Map,
    salts: &Map,
    today: Date,
) -> Map {
    let name = asked.name.as_deref().unwrap_or_default();
    let done = match asked.fun.as_str() {
        "validate" => return checked(&asked.data, today),
        "list" | "status" | "save" => Ok(()),
        "enable" | "disable" => {
            own.insert("enabled", asked.fun == "enable");
            Ok(())
        }
        _ if pillar.contains(name) && !own.contains(name) => Err(of_pillar(&asked.fun, name)),
        fun => change(fun, name, &asked.data, own),
    };
    match done {
        Ok(()) => complete(listed(&asked.data, own, pillar, salts)),
        Err(comment) => refused(&comment),
    }
}

/// Returns true if the request makes a change that is written to the file.
pub(crate) fn is_kept(asked: &wire::Schedule) -> bool {
    let persists = asked.data.get("persist").is_some_and(Value::is_true);
    asked.fun == "save" || persists
}

/// Returns the jobs for `_schedule.conf`, without the values that a running minion has added to
/// them.
pub(crate) fn saved(own: &Map) -> Map {
    let mut jobs = own.clone();
    for (name, job) in jobs.iter_mut() {
        if let Some(job) = job.as_map_mut() {
            job.retain(|item, _| !item.to_text().starts_with('_'));
            job.entry("name", || name.clone());
        }
    }
    jobs
}

fn complete(schedule: Map) -> Map {
    Map::new().with("complete", true).with("schedule", schedule)
}

pub(crate) fn refused(comment: &str) -> Map {
    Map::new().with("complete", false).with("comment", comment)
}

fn of_pillar(fun: &str, name: &str) -> String {
    let verb = match fun {
        "add" => "update",
        "delete" => "delete",
        _ => "modify",
    };
    format!("Cannot {verb} job {name}, it's in the pillar!")
}

/// Returns the jobs of the requested place, each with its name.
fn listed(data: &Map, own: &Map, pillar: &Map, salts: &Map) -> Map {
    let place = data.get("where").and_then(Value::as_str);
    let mut jobs = Map::new();
    if place != Some("opts") {
        jobs.update(pillar.clone());
    }
    if place != Some("pillar") {
        jobs.update(salts.clone());
        jobs.update(own.clone());
    }
    for (name, job) in jobs.iter_mut() {
        if let Some(job) = job.as_map_mut() {
            job.entry("name", || name.clone());
        }
    }
    jobs
}

/// Checks the times of a job. The answer has Salt's sentence if one is invalid.
fn checked(data: &Map, today: Date) -> Map {
    let when = data.get("when").cloned().unwrap_or_default();
    let one = [when.clone()];
    let mut times = when.as_list().unwrap_or(&one).iter();
    let wrong = times.find(|when| dates::read(&when.to_text(), today).is_none());
    match wrong {
        None => complete(Map::new()),
        Some(when) => refused(&format!(
            "Schedule item {} for \"when\" in invalid.",
            when.to_text()
        )),
    }
}

/// Changes one job. The error is a sentence.
fn change(fun: &str, name: &str, data: &Map, own: &mut Map) -> Result<(), String> {
    if let "add" | "modify" = fun {
        own.insert(name, data.get("schedule").cloned());
        return Ok(());
    }
    let Some(job) = own.get_mut(name).and_then(Value::as_map_mut) else {
        return Err(format!("Job {name} does not exist."));
    };
    match fun {
        "delete" => drop(own.remove(name)),
        "enable_job" | "disable_job" => drop(job.insert("enabled", fun == "enable_job")),
        "skip_job" => note(job, "skip_explicit", data, "time"),
        "postpone_job" => {
            note(job, "skip_explicit", data, "time");
            note(job, "run_explicit", data, "new_time");
        }
        other => return Err(format!("unknown schedule operation `{other}`")),
    }
    Ok(())
}

/// Adds a time to a list of a job.
fn note(job: &mut Map, list: &str, data: &Map, time: &str) {
    let said = |name: &str| data.get(name).cloned();
    let entry = Map::new()
        .with("time", said(time))
        .with("time_fmt", said("time_fmt"));
    let times = job.entry(list, || Value::list([]));
    if let Some(times) = times.as_list_mut() {
        times.push(entry.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Map {
        let value = value::json::read(text).unwrap();
        value.as_map().unwrap().clone()
    }

    fn text(map: Map) -> String {
        value::json::write(&map.into(), Default::default())
    }

    #[test]
    fn jobs_are_changed_and_those_of_the_pillar_are_not() {
        let pillar = json(r#"{"p": {"function": "test.ping"}}"#);
        let mut own = json(r#"{"a": {"function": "test.ping", "_seconds": 5}}"#);
        let mut ask = |fun: &str, name: &str, data: &str| {
            let asked = wire::Schedule {
                fun: fun.to_owned(),
                name: Some(name.to_owned()),
                data: json(data),
            };
            let today = jiff::civil::date(2026, 1, 2);
            text(managed(&asked, &mut own, &pillar, &Map::new(), today))
        };
        let cases = [
            (
                ("list", "", r#"{"where": "pillar"}"#),
                r#"{"complete": true, "schedule": {"p": {"function": "test.ping", "name": "p"}}}"#,
            ),
            (
                ("delete", "p", "{}"),
                r#"{"complete": false, "comment": "Cannot delete job p, it's in the pillar!"}"#,
            ),
            (
                ("skip_job", "a", r#"{"time": "1", "time_fmt": "%S"}"#),
                r#"{"complete": true, "schedule": {"p": {"function": "test.ping", "name": "p"}, "a": {"function": "test.ping", "_seconds": 5, "skip_explicit": [{"time": "1", "time_fmt": "%S"}], "name": "a"}}}"#,
            ),
            (
                ("validate", "", r#"{"when": ["1pm", "no time at all"]}"#),
                r#"{"complete": false, "comment": "Schedule item no time at all for \"when\" in invalid."}"#,
            ),
            (
                (
                    "modify",
                    "a",
                    r#"{"schedule": {"function": "f"}, "where": "opts"}"#,
                ),
                r#"{"complete": true, "schedule": {"a": {"function": "f", "name": "a"}}}"#,
            ),
            (
                ("disable", "", r#"{"where": "opts"}"#),
                r#"{"complete": true, "schedule": {"a": {"function": "f", "name": "a"}, "enabled": false}}"#,
            ),
            (
                ("enable_job", "b", "{}"),
                r#"{"complete": false, "comment": "Job b does not exist."}"#,
            ),
            (
                ("delete", "a", r#"{"where": "opts"}"#),
                r#"{"complete": true, "schedule": {"enabled": false}}"#,
            ),
        ];
        for ((fun, name, data), expected) in cases {
            assert_eq!(ask(fun, name, data), expected, "{fun}");
        }
        let written = saved(&json(
            r#"{"a": {"_seconds": 5, "hours": 1}, "enabled": true}"#,
        ));
        assert_eq!(
            text(written),
            r#"{"a": {"hours": 1, "name": "a"}, "enabled": true}"#
        );
    }
}
