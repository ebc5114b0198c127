//! The schedule of a minion that runs: what Salt's own answered step by step (`tests/corpus/schedule/manage.py`), and jobs that run.

use std::fs;

use serde::Deserialize;
use serde_json::{Map, Value};
use tests::scratch::corpus;

use super::Fleet;

#[derive(Deserialize)]
struct Recorded {
    config: String,
    pillar: String,
    sls: std::collections::BTreeMap<String, String>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    words: Vec<String>,
    #[serde(rename = "return")]
    answer: Value,
    saved: Option<String>,
}

/// The intended differences from Salt: the command, our answer, and the reason.
const DIFFERENT: &[(&str, &str, &str)] = &[
    (
        "schedule.modify of_pillar function=test.ping hours=4",
        r#"{"comment": "Failed to modify job of_pillar in schedule.", "result": false, "changes": {}}"#,
        "Salt says that it modified a job of the pillar, and does not",
    ),
    (
        "schedule.disable_job of_pillar",
        r#"{"comment": "Failed to disable job of_pillar in schedule.", "result": false, "changes": {}}"#,
        "Salt cannot either, and says that a module is missing and that all is well",
    ),
    (
        "schedule.enable_job of_pillar",
        r#"{"comment": "Failed to enable job of_pillar in schedule.", "result": false, "changes": {}}"#,
        "the same",
    ),
    (
        "schedule.postpone_job of_pillar 2099-01-02T03:04:05 2099-01-02T04:04:05",
        r#"{"comment": "Failed to postpone job of_pillar in schedule.", "result": false}"#,
        "the same",
    ),
    (
        "schedule.skip_job job3 2099-01-02T04:04:05",
        r#"{"comment": "Added Skip Job job3 in schedule.", "result": true}"#,
        "Salt adds it too, and says that it did not where the job is switched off",
    ),
    (
        "state.sls disabled",
        r#"{"schedule_|-job7_|-job7_|-disabled": {"result": true, "comment": "Disabled job job7 from schedule", "changes": {"job7": "disabled"}}}"#,
        "Salt's state tells of no change where it made one",
    ),
    (
        "state.sls enabled",
        r#"{"schedule_|-job7_|-job7_|-enabled": {"result": true, "comment": "Enabled job job7 from schedule", "changes": {"job7": "enabled"}}}"#,
        "the same",
    ),
];

/// Returns the comparable part of a return: without values that depend on a run's clock, and
/// without Salt's internal notes in a job.
fn settled(answer: &Value) -> Value {
    let Some(map) = answer.as_object() else {
        return answer.clone();
    };
    let kept = ["result", "comment", "changes"];
    let of_state = |ret: &Value| {
        match ret.as_object() {
            Some(ret) => ret.iter().filter(|(key, _)| kept.contains(&key.as_str())),
            None => panic!("{ret} is no return"),
        }
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect::<Map<_, _>>()
    };
    if map.keys().any(|key| key.contains("_|-")) {
        let states = map
            .iter()
            .map(|(key, ret)| (key.clone(), of_state(ret).into()));
        return Value::Object(states.collect());
    }
    let noted = |key: &str| {
        key == "run" || key == "splay" || key.starts_with('_') && key != "_next_fire_time"
    };
    let mut map = map.clone();
    if map.contains_key("_next_fire_time") {
        map.retain(|key, _| !noted(key));
    }
    map.into()
}

/// Returns the difference between an answer and the recorded one.
fn wrong(step: &Step, got: &Value) -> Option<String> {
    let line = step.words.join(" ");
    let meant = DIFFERENT.iter().find(|(words, ..)| *words == line);
    let want = match meant {
        Some((_, ours, _)) => serde_json::from_str(ours).unwrap(),
        None => settled(&step.answer),
    };
    let mut got = settled(got);
    // When a job that counts hours runs next is different each time.
    if line == "schedule.job_status job1" {
        assert!(got["_next_fire_time"].is_string(), "{got}");
        got["_next_fire_time"] = want["_next_fire_time"].clone();
    }
    if meant.is_some() && want == settled(&step.answer) {
        return Some(format!("{line}: it does not differ any more"));
    }
    (got != want).then(|| format!("{line}:\n  {want}\n  {got}"))
}

fn call(fleet: &Fleet, words: &[&str]) -> Value {
    let words: Vec<&str> = ["salt", "--out=json", "--static", "-t", "60", "m1"]
        .iter()
        .chain(words)
        .copied()
        .collect();
    let out = fleet.run(&words).out;
    let read: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{words:?}: {out}"));
    read["m1"].clone()
}

/// A fleet of one minion with this configuration, which has the pillar.
fn started(config: &str, pillar: &str) -> Fleet {
    let mut fleet = Fleet::with("auto_accept: True\n");
    fleet.write("pillar/top.sls", "base: {'*': [jobs]}");
    fleet.write("pillar/jobs.sls", pillar);
    fleet.start_minion("m1", config);
    fleet.soon("the minion has the jobs of its pillar", || {
        let words = ["salt", "-t", "60", "m1", "schedule.list", "where=pillar"];
        fleet.run(&words).out.contains("of_pillar")
    });
    fleet
}

#[test]
fn the_schedule_of_a_running_minion_answers_what_salts_does() {
    let text = fs::read_to_string(corpus().join("schedule/manage.json")).unwrap();
    let recorded: Recorded = serde_json::from_str(&text).unwrap();
    let config = format!("mine_enabled: False\n{}", recorded.config);
    let fleet = started(&config, &recorded.pillar);
    for (name, text) in &recorded.sls {
        fleet.write(&format!("salt/{name}.sls"), text);
    }
    let file = fleet.path("m1/etc/minion.d/_schedule.conf");
    let (mut faults, mut files) = (Vec::new(), 0);
    for step in &recorded.steps {
        let words: Vec<&str> = step.words.iter().map(String::as_str).collect();
        faults.extend(wrong(step, &call(&fleet, &words)));
        // Salt's file exists from the start.
        let Ok(saved) = fs::read_to_string(&file) else {
            continue;
        };
        files += 1;
        if Some(&saved) != step.saved.as_ref() {
            let want = step.saved.as_deref().unwrap_or_default();
            faults.push(format!("{words:?} saves\n{want}and not\n{saved}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let without = recorded
        .steps
        .iter()
        .position(|step| step.words[0] == "schedule.add");
    assert_eq!(files, recorded.steps.len() - without.unwrap());
}

#[test]
fn jobs_that_are_added_run_and_those_that_are_saved_stay() {
    let mut fleet = started("", "schedule: {of_pillar: {function: test.ping, days: 9}}");
    let mark = fleet.path("mark");
    let args = format!("job_args=[{}]", mark.display());
    let job = ["function=file.touch", &args, "run_on_start=False"];
    let add = |name: &str, more: &[&str]| {
        let words = [&["schedule.add", name], &job[..], more].concat();
        assert_eq!(call(&fleet, &words)["result"], true);
    };
    let runs = |what: &str| {
        fleet.soon(what, || mark.exists());
        fs::remove_file(&mark).unwrap();
    };
    add("soon", &["seconds=1", "persist=False"]);
    runs("the job that was added runs");
    runs("it runs again");
    assert_eq!(
        call(&fleet, &["schedule.delete", "soon", "persist=False"])["result"],
        true
    );
    add("late", &["days=9"]);
    add("unsaved", &["days=9", "persist=False"]);
    let next = call(&fleet, &["schedule.show_next_fire_time", "late"]);
    assert!(next["next_fire_time"].is_string(), "{next}");
    // A run of the first one may have been under way when it was deleted.
    fleet.soon("no scheduled job runs", || {
        let running = call(&fleet, &["saltutil.running"]);
        let is_own = |job: &Value| job["schedule"].is_string();
        !running.as_array().unwrap().iter().any(is_own)
    });
    let _ = fs::remove_file(&mark);
    let run = call(&fleet, &["schedule.run_job", "late"]);
    assert_eq!(run["comment"], "Scheduling Job late on minion.");
    runs("the job runs after schedule.run_job");
    fleet.kill_minion("m1");
    fleet.start_minion_again("m1");
    let jobs = ["salt", "-t", "60", "m1", "schedule.list"];
    fleet.soon("the saved job is there again", || {
        fleet.run(&jobs).out.contains("late:")
    });
    assert!(!fleet.run(&jobs).out.contains("unsaved"));
}
