use std::path::Path;

use jiff::ToSpan;
use jiff::tz::TimeZone;

use super::*;

fn corpus(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/schedule");
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    value::json::read(&text).unwrap()
}

fn texts(value: &Value, name: &str) -> Vec<String> {
    value.get(name).map(Value::texts).unwrap_or_default()
}

fn map(value: &Value, name: &str) -> Map {
    value
        .get(name)
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default()
}

fn local(text: &str) -> DateTime {
    text.parse().unwrap()
}

#[test]
fn dates_are_read_as_dateutil_reads_them() {
    let corpus = corpus("dates.json");
    let now = local(corpus.get("now").and_then(Value::as_str).unwrap());
    let mut wrong = Vec::new();
    for (text, expected) in corpus.get("dates").and_then(Value::as_map).unwrap().iter() {
        let found = dates::read(&text.to_text(), now.date());
        let expected = expected.as_str().map(|text| {
            let (local, offset) =
                match text.len() > 19 && text.contains(['+', 'Z']) || text.rfind('-') > Some(10) {
                    true => text.split_at(text.len() - 6),
                    false => (text, ""),
                };
            let offset = (!offset.is_empty()).then(|| {
                let zoned: jiff::fmt::temporal::DateTimeParser =
                    jiff::fmt::temporal::DateTimeParser::new();
                zoned
                    .parse_zoned(format!("{text}[{offset}]"))
                    .unwrap()
                    .offset()
            });
            dates::Moment {
                local: local.parse().unwrap(),
                offset,
            }
        });
        if found != expected {
            wrong.push(format!("{:?}: {found:?}, not {expected:?}", text.to_text()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn cron_is_read_as_croniter_reads_it() {
    let corpus = corpus("cron.json");
    let mut wrong = Vec::new();
    for (text, case) in corpus.as_map().unwrap().iter() {
        let mut now = local(case.get("from").and_then(Value::as_str).unwrap());
        let mut found = Vec::new();
        if let Some(cron) = cron::Cron::read(&text.to_text()) {
            for _ in 0..5 {
                let Some(next) = cron.after(now) else { break };
                now = next;
                found.push(next.to_string());
            }
        }
        let expected = texts(
            case,
            if case.get("ours").is_some() {
                "ours"
            } else {
                "next"
            },
        );
        if found != expected {
            wrong.push(format!("{:?}: {found:?}, not {expected:?}", text.to_text()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn now(wall: DateTime, running: u64) -> Now {
    Now {
        wall: TimeZone::UTC.to_zoned(wall).unwrap(),
        running: Duration::from_secs(running),
    }
}

/// Runs a case as the recorder does. Returns the jobs that ran, and the faults.
fn run(case: &Value) -> (Vec<String>, Map) {
    let number =
        |name: &str, default: i64| case.get(name).and_then(Value::as_int).unwrap_or(default);
    let step = number("step", 1);
    let config = case.get("schedule").unwrap();
    let (pillar, grains) = (map(case, "pillar"), map(case, "grains"));
    let source = Source {
        config,
        pillar: &pillar,
        grains: &grains,
    };
    let mut wall = local(case.get("start").and_then(Value::as_str).unwrap());
    let mut schedule = Schedule::new(source, &now(wall, 0));
    schedule.slack = SignedDuration::from_secs(step);
    schedule.random = |_, high| high;
    let mut runs = Vec::new();
    for tick in 0..number("ticks", 0) {
        let at = |name: &str| case.get(name).and_then(|all| all.get(&tick.to_string()));
        wall += at("jumps").and_then(Value::as_int).unwrap_or(0).seconds();
        let running = |name: &str| {
            let count = at("running")
                .and_then(|all| all.get(name))
                .and_then(Value::as_int);
            count.unwrap_or(0) as u64
        };
        for due in schedule.due(&now(wall, (tick * step) as u64), running) {
            runs.push(format!("{wall} {} {}", due.name, due.fun));
        }
        wall += step.seconds();
    }
    let faults = schedule.faults().iter();
    let faults = faults.map(|fault| (fault.job.clone(), fault.text.clone()));
    let mut errors = Map::new();
    faults.for_each(|(job, text)| drop(errors.insert(job, text)));
    (runs, errors)
}

#[test]
fn jobs_run_when_salt_runs_them() {
    let mut wrong = Vec::new();
    for (name, case) in corpus("jobs.json").as_map().unwrap().iter() {
        let (runs, errors) = run(case);
        let ours = |name: &str, ours: &str| {
            let is_ours = case.get(ours).is_some();
            case.get(if is_ours { ours } else { name })
                .cloned()
                .unwrap_or(Value::Null)
        };
        let expected = ours("runs", "ours").texts();
        if runs != expected {
            wrong.push(format!(
                "{}:\n  {runs:?}\n  not {expected:?}",
                name.to_text()
            ));
        }
        let expected = ours("errors", "our_errors")
            .as_map()
            .cloned()
            .unwrap_or_default();
        if errors != expected {
            wrong.push(format!(
                "{}:\n  {errors:?}\n  not {expected:?}",
                name.to_text()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Checks that the same jobs run if the schedule is looked at only when [`Schedule::next`] says so,
/// and not every second.
#[test]
fn who_sleeps_until_told_misses_nothing() {
    for (name, case) in corpus("jobs.json").as_map().unwrap().iter() {
        let step = case.get("step").and_then(Value::as_int).unwrap_or(1);
        if step != 1 || case.get("running").is_some() {
            continue;
        }
        let config = case.get("schedule").unwrap();
        let (pillar, grains) = (map(case, "pillar"), map(case, "grains"));
        let source = Source {
            config,
            pillar: &pillar,
            grains: &grains,
        };
        let start = local(case.get("start").and_then(Value::as_str).unwrap());
        let mut schedule = Schedule::new(source, &now(start, 0));
        schedule.random = |_, high| high;
        let end = case.get("ticks").and_then(Value::as_int).unwrap() as u64;
        let (mut at, mut looks, mut runs) = (Duration::ZERO, 0, Vec::new());
        while at < Duration::from_secs(end) {
            let wall = start + SignedDuration::try_from(at).unwrap();
            let now = Now {
                running: at,
                ..now(wall, 0)
            };
            for due in schedule.due(&now, |_| 0) {
                let second = wall.round(jiff::Unit::Second).unwrap();
                runs.push(format!("{second} {} {}", due.name, due.fun));
            }
            looks += 1;
            let Some(wait) = schedule.next(&now) else {
                break;
            };
            assert!(!wait.is_zero(), "{}: {now:?}", name.to_text());
            at += wait;
        }
        assert_eq!(runs, run(case).0, "{}", name.to_text());
        assert!(
            looks <= runs.len() as u64 + end / 60 + 6,
            "{}: {looks}",
            name.to_text()
        );
    }
}

fn config(text: &str) -> Value {
    value::json::read(text).unwrap()
}

/// Returns the names of the jobs that are due.
fn due(schedule: &mut Schedule, now: &Now) -> Vec<String> {
    schedule
        .due(now, |_| 0)
        .into_iter()
        .map(|due| due.name)
        .collect()
}

fn source<'a>(config: &'a Value, empty: &'a Map) -> Source<'a> {
    Source {
        config,
        pillar: empty,
        grains: empty,
    }
}

#[test]
fn a_change_of_one_job_leaves_the_others_where_they_were() {
    let empty = Map::new();
    let start = local("2026-11-20T12:00:00");
    let old = config(
        r#"{"a": {"function": "test.ping", "seconds": 60}, "b": {"function": "test.ping", "seconds": 60}}"#,
    );
    let mut schedule = Schedule::new(source(&old, &empty), &now(start, 0));
    assert_eq!(due(&mut schedule, &now(start, 0)), ["a", "b"]);
    let new = config(
        r#"{"a": {"function": "test.ping", "seconds": 60, "enabled": false}, "b": {"function": "test.ping", "seconds": 60, "returner": "syslog"}, "c": {"function": "test.ping", "seconds": 60}}"#,
    );
    schedule.update(source(&new, &empty), &now(start, 20));
    assert_eq!(due(&mut schedule, &now(start, 20)), ["c"]);
    assert_eq!(
        schedule.next(&now(start, 20)),
        Some(Duration::from_secs(40))
    );
    assert_eq!(due(&mut schedule, &now(start, 60)), ["b"]);
    // A job that is enabled again counts from then, and does not catch up.
    schedule.update(source(&old, &empty), &now(start, 200));
    assert_eq!(due(&mut schedule, &now(start, 200)), ["b"]);
    assert_eq!(due(&mut schedule, &now(start, 260)), ["a", "b"]);
    schedule.update(source(&Value::Null, &empty), &now(start, 300));
    assert_eq!(schedule.next(&now(start, 300)), None);
}

#[test]
fn after_a_long_sleep_each_job_runs_once_at_most() {
    let empty = Map::new();
    let jobs = config(
        r#"{"every": {"function": "test.ping", "seconds": 1}, "cron": {"function": "test.ping", "cron": "* * * * *"},
            "once": {"function": "test.ping", "once": "2026-11-20T13:00:00"}, "when": {"function": "test.ping", "when": "13:00"}}"#,
    );
    let start = local("2026-11-20T12:00:00");
    let mut schedule = Schedule::new(source(&jobs, &empty), &now(start, 0));
    assert_eq!(due(&mut schedule, &now(start, 0)), ["every"]);
    let later = local("2026-11-24T12:00:30");
    assert_eq!(due(&mut schedule, &now(later, 345_630)), ["every", "cron"]);
    assert_eq!(due(&mut schedule, &now(later, 345_630)), [""; 0]);
    let a_little_late = local("2026-11-24T13:00:20");
    assert_eq!(
        due(&mut schedule, &now(a_little_late, 349_220)),
        ["every", "cron", "when"]
    );
}

#[test]
fn a_clock_that_is_put_forward_or_back_by_an_hour_is_no_reason_to_run_twice_or_not_at_all() {
    let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
    let empty = Map::new();
    let jobs = config(
        r#"{"when": {"function": "test.ping", "when": "02:30"}, "cron": {"function": "test.ping", "cron": "30 2 * * *"}}"#,
    );
    for (day, expected) in [
        ("2026-03-29", "2026-03-29T03:30"),
        ("2026-10-25", "2026-10-25T02:30"),
    ] {
        let start = zone.to_zoned(local(&format!("{day}T00:00:00"))).unwrap();
        let at = |minutes: i64| Now {
            wall: start.checked_add(minutes.minutes()).unwrap(),
            running: Duration::from_secs(minutes as u64 * 60),
        };
        let mut schedule = Schedule::new(source(&jobs, &empty), &at(0));
        let mut runs = Vec::new();
        for minutes in 0..360 {
            let now = at(minutes);
            let names = due(&mut schedule, &now);
            runs.extend(
                names
                    .into_iter()
                    .map(|name| format!("{} {name}", now.wall.strftime("%FT%H:%M"))),
            );
        }
        assert_eq!(
            runs,
            [format!("{expected} when"), format!("{expected} cron")],
            "{day}"
        );
    }
}

#[test]
fn all_that_is_said_of_a_job_comes_with_it() {
    let empty = Map::new();
    let jobs = config(
        r#"{"job": {"function": "state.sls", "seconds": 5, "args": ["x"], "kwargs": {"test": true}, "returner": ["syslog", "local"],
            "return_config": "other", "return_kwargs": {"a": 1}, "return_job": "nocache", "metadata": {"foo": "bar"}, "jid_include": false}}"#,
    );
    let start = local("2026-11-20T12:00:00");
    let mut schedule = Schedule::new(source(&jobs, &empty), &now(start, 0));
    let expected = Due {
        name: "job".to_owned(),
        fun: "state.sls".to_owned(),
        args: vec!["x".into()],
        kwargs: Map::new().with("test", true),
        jid_include: false,
        returners: vec!["syslog".to_owned(), "local".to_owned()],
        return_config: Some("other".into()),
        return_kwargs: Some(Map::new().with("a", 1).into()),
        return_job: ReturnJob::NoCache,
        metadata: Some(Map::new().with("foo", "bar")),
    };
    assert_eq!(schedule.due(&now(start, 0), |_| 0), [expected]);
}
