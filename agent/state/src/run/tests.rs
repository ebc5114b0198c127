//! Runs handwritten plans, and compares the returns with Salt's for the same chunks.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use value::{Map, Value, json};

use super::tests_support::{self as modules, exec};
use super::{Observer, Unobserved, run, run_as};
use crate::compile::{Disabled, Plan};
use crate::low::{LowChunk, Requisite, RequisiteKind};

/// Returns the plan of these chunks. Each requisite is resolved by id, name, glob or SLS.
fn plan(chunks: &[Value]) -> Plan {
    let mut lows: Vec<LowChunk> = chunks
        .iter()
        .map(|chunk| LowChunk::from_map(chunk.as_map().unwrap().clone()))
        .collect();
    for index in 0..lows.len() {
        let requisites = RequisiteKind::ALL
            .into_iter()
            .flat_map(|kind| resolved(&lows, &lows[index], kind))
            .collect();
        lows[index].requisites = requisites;
    }
    Plan::of_chunks(lows)
}

fn resolved(lows: &[LowChunk], low: &LowChunk, kind: RequisiteKind) -> Vec<Requisite> {
    let mut items = low
        .data
        .get(kind.word())
        .and_then(Value::as_list)
        .unwrap_or_default()
        .to_vec();
    for other in lows.iter().filter(|_| kind == RequisiteKind::Listen) {
        let listen_in = other.data.get("listen_in").and_then(Value::as_list);
        let me = Value::from(Map::new().with(&low.state, low.id.as_str()));
        if listen_in.is_some_and(|items| items.contains(&me)) {
            items.push(Map::new().with(&other.state, other.id.as_str()).into());
        }
    }
    let resolve = |item: &Value| {
        let (state, name) = match item.as_map().and_then(Map::first) {
            Some((state, name)) => (state.to_text(), name.to_text()),
            None => ("id".to_owned(), item.to_text()),
        };
        let names = |low: &LowChunk| match state.as_str() {
            "sls" => value::glob::fnmatch(&name, &low.sls),
            _ => {
                (state == "id" || state == low.state)
                    && (value::glob::fnmatch(&name, &low.id)
                        || value::glob::fnmatch(&name, &low.name))
            }
        };
        let chunks = (0..lows.len()).filter(|at| names(&lows[*at])).collect();
        Requisite {
            kind,
            state: state.clone(),
            name: name.clone(),
            chunks,
        }
    };
    items.iter().map(resolve).collect()
}

/// Removes the data that differs between any two runs.
fn steady(mut running: Map) -> Map {
    for (_, ret) in running.iter_mut() {
        let ret = ret.as_map_mut().unwrap();
        ret.remove("start_time");
        ret.remove("duration");
        // Salt lists failed requisites in the order of a set.
        let comment = ret.get("comment").unwrap().to_text();
        if let Some(names) = comment.strip_prefix("One or more requisite failed: ") {
            let mut names: Vec<&str> = names.split(", ").collect();
            names.sort_unstable();
            ret.insert(
                "comment",
                format!("One or more requisite failed: {}", names.join(", ")),
            );
        }
    }
    running
}

fn sorted_text(running: &Map) -> String {
    let lines = running.iter().map(|(tag, ret)| {
        let mut ret = ret.as_map().unwrap().clone();
        ret.sort_keys();
        format!("{}: {}\n", tag.to_text(), Value::from(ret).to_text())
    });
    lines.collect()
}

#[test]
fn chunks_return_what_salt_returns() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/run");
    let mut wrong = String::new();
    let mut count = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let case = json::read(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let chunks = case.get("chunks").and_then(Value::as_list).unwrap();
        for mode in ["apply", "test"] {
            let cx = exec(Map::new().with("test", mode == "test"));
            let got = steady(run(&cx, &plan(chunks), &Unobserved));
            let want = steady(case.get(mode).and_then(Value::as_map).unwrap().clone());
            count += 1;
            let (want, got) = (sorted_text(&want), sorted_text(&got));
            let name = path.file_stem().unwrap().display();
            for (want, got) in want.lines().zip(got.lines()).filter(|(w, g)| w != g) {
                wrong.push_str(&format!("== {name} {mode}\nSalt: {want}\nhere: {got}\n"));
            }
            if want.lines().count() != got.lines().count() {
                wrong.push_str(&format!("== {name} {mode}\nSalt:\n{want}here:\n{got}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count > 200, "only {count} runs");
}

fn chunk(fun: &str, id: &str) -> Map {
    Map::new()
        .with("state", "test")
        .with("fun", fun)
        .with("name", id)
        .with("__id__", id)
        .with("__sls__", "s")
        .with("__env__", "base")
}

fn requiring(chunk: Map, kind: &str, ids: &[&str]) -> Map {
    let items = ids
        .iter()
        .map(|id| Value::from(Map::new().with("test", *id)));
    chunk.with(kind, Value::list(items))
}

fn run_chunks(opts: Map, chunks: Vec<Map>) -> Map {
    let chunks: Vec<Value> = chunks.into_iter().map(Value::from).collect();
    run(&exec(opts), &plan(&chunks), &Unobserved)
}

fn ret<'a>(running: &'a Map, id: &str) -> &'a Map {
    let of_id = |(tag, _): &(&Value, &Value)| tag.to_text().split("_|-").nth(1) == Some(id);
    running.iter().find(of_id).unwrap().1.as_map().unwrap()
}

#[test]
fn parallel_chunks_run_side_by_side() {
    let slow = |id: &str| {
        chunk("sleep", id)
            .with("parallel", true)
            .with("seconds", 0.3)
    };
    let started = Instant::now();
    let running = run_chunks(
        Map::new(),
        vec![
            slow("a"),
            slow("b"),
            slow("c"),
            chunk("nop", "free"),
            requiring(chunk("nop", "after"), "require", &["a", "b", "c"]),
        ],
    );
    let took = started.elapsed();
    assert!(took < Duration::from_millis(600), "{took:?}");
    assert_eq!(ret(&running, "a").get("__parallel__"), Some(&true.into()));
    assert_eq!(ret(&running, "c").get("result"), Some(&true.into()));
    let at = |id| ret(&running, id).get("start_time").unwrap().to_text();
    assert!(at("free") < at("after"));
    let duration = ret(&running, "b")
        .get("duration")
        .and_then(Value::as_float)
        .unwrap();
    assert!((300.0..600.0).contains(&duration), "{duration}");
}

#[test]
fn no_more_run_side_by_side_than_state_max_parallel() {
    let slow = |id: &str| {
        chunk("sleep", id)
            .with("parallel", true)
            .with("seconds", 0.1)
    };
    let started = Instant::now();
    let opts = Map::new().with("state_max_parallel", 2);
    let running = run_chunks(
        opts,
        vec![slow("a"), slow("b"), slow("c"), slow("d"), slow("e")],
    );
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(300), "{took:?}");
    assert_eq!(running.len(), 5);
    for (_, ret) in &running {
        assert_eq!(ret.get("comment"), Some(&"slept".into()));
    }
}

#[test]
fn parallel_chunks_wait_for_what_they_require() {
    let slow = |id: &str| {
        chunk("sleep", id)
            .with("parallel", true)
            .with("seconds", 0.1)
    };
    let running = run_chunks(
        Map::new(),
        vec![
            slow("a"),
            requiring(slow("b"), "require", &["a"]),
            requiring(slow("c"), "require", &["b"]),
            requiring(chunk("nop", "d"), "require", &["c"]),
            chunk("nop", "e"),
        ],
    );
    let order: Vec<String> = running
        .keys()
        .map(|tag| tag.to_text().split("_|-").nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(order, ["a", "e", "b", "c", "d"]);
    assert!(
        running
            .values()
            .all(|ret| ret.get("result") == Some(&true.into()))
    );
}

#[test]
fn a_failing_parallel_chunk_fails_what_requires_it() {
    let running = run_chunks(
        Map::new(),
        vec![
            chunk("fail_without_changes", "a").with("parallel", true),
            requiring(chunk("nop", "b"), "require", &["a"]),
        ],
    );
    let comment = ret(&running, "b").get("comment");
    assert_eq!(comment, Some(&"One or more requisite failed: s.a".into()));
}

#[test]
fn disabled_functions_are_refused() {
    let disabled = Disabled {
        data: chunk("succeed_with_changes", "b"),
        comment: "it is disabled".into(),
    };
    let plan = plan(&[chunk("nop", "a").into()]).with_disabled(vec![disabled]);
    let running = run(&exec(Map::new()), &plan, &Unobserved);
    assert_eq!(
        ret(&running, "b").get("comment"),
        Some(&"it is disabled".into())
    );
    assert_eq!(ret(&running, "b").get("result"), Some(&false.into()));
    assert_eq!(ret(&running, "b").get("__run_num__"), Some(&0.into()));
    assert_eq!(ret(&running, "a").get("__run_num__"), Some(&1.into()));
}

#[test]
fn global_state_conditions_keep_functions_from_being_called() {
    let chunks = || vec![chunk("nop", "a"), chunk("succeed_with_changes", "b")];
    let conditions = Map::new().with("test.nop", vec!["nobody"]);
    let running = run_chunks(
        Map::new().with("global_state_conditions", conditions),
        chunks(),
    );
    let text = "Failed to meet global state conditions. State not called.";
    assert_eq!(ret(&running, "a").get("comment"), Some(&text.into()));
    assert_eq!(ret(&running, "a").get("result"), Some(&Value::Null));
    assert_eq!(ret(&running, "b").get("result"), Some(&true.into()));
    let conditions = Map::new().with("*", "minion");
    let running = run_chunks(
        Map::new().with("global_state_conditions", conditions),
        chunks(),
    );
    assert_eq!(ret(&running, "a").get("result"), Some(&true.into()));
}

#[test]
fn disabled_requisites_are_not_looked_at() {
    let chunks = vec![
        chunk("fail_without_changes", "a"),
        requiring(chunk("nop", "b"), "require", &["a"]),
    ];
    let opts = Map::new().with("disabled_requisites", vec!["require"]);
    assert_eq!(
        ret(&run_chunks(opts, chunks), "b").get("result"),
        Some(&true.into())
    );
}

#[test]
fn commands_of_guards_get_the_arguments_of_the_chunk() {
    let running = run_chunks(
        Map::new(),
        vec![
            chunk("nop", "a")
                .with("unless", "exit 0")
                .with("cwd", "/srv")
                .with("umask", "022")
                .with("cmd_opts_exclude", "cwd"),
            chunk("nop", "b").with("onlyif", vec!["exit 0", "exit 3"]),
            chunk("nop", "c").with("onlyif", "cannot run"),
            chunk("nop", "d").with("unless", "cannot run"),
            chunk("fail_without_changes", "e").with("check_cmd", vec!["exit 0"]),
            chunk("nop", "f").with("check_cmd", vec!["exit 0", "exit 1"]),
        ],
    );
    let comment = |id| ret(&running, id).get("comment").unwrap().to_text();
    assert_eq!(comment("a"), "unless condition is true");
    assert_eq!(comment("b"), "onlyif condition is false");
    assert_eq!(comment("c"), "onlyif condition is false");
    assert_eq!(comment("d"), "unless condition is true");
    assert_eq!(comment("e"), "check_cmd determined the state succeeded");
    assert_eq!(comment("f"), "check_cmd determined the state failed");
    let commands = modules::commands();
    let of_a = commands
        .iter()
        .find(|call| call.contains("'umask': '022'"))
        .unwrap();
    assert!(of_a.contains("'python_shell': True") && of_a.contains("'ignore_retcode': True"));
    assert!(!of_a.contains("cwd"), "{of_a}");
}

#[test]
fn a_state_can_keep_others_from_minding_its_changes() {
    let running = run_chunks(
        Map::new(),
        vec![
            chunk("skipper", "a"),
            requiring(chunk("nop", "b"), "onchanges", &["a"]),
            requiring(chunk("nop", "c"), "watch", &["a"]),
            requiring(chunk("nop", "d"), "require", &["a"]),
        ],
    );
    let comment = |id| ret(&running, id).get("comment").unwrap().to_text();
    assert_eq!(
        comment("b"),
        "State was not run because requisites were skipped by another state"
    );
    assert_eq!(
        comment("c"),
        "Success! mod_watch was not run because requisites were skipped by another state"
    );
    assert_eq!(comment("d"), "Success!");
}

#[test]
fn the_parts_of_a_state_have_returns_of_their_own() {
    let running = run_chunks(Map::new(), vec![chunk("parts", "a"), chunk("nop", "b")]);
    let tags: Vec<String> = running.keys().map(Value::to_text).collect();
    let part = |fun: &str| format!("file_|-part_|-a_|-{fun}");
    assert_eq!(tags[1..3], [part("one"), part("two")]);
    let two = running.get(&part("two")).unwrap();
    assert_eq!(two.get("__id__"), Some(&"a".into()));
    assert_eq!(two.get("__run_num__"), Some(&3.into()));
    assert_eq!(running.get(&tags[0]).unwrap().get("sub_state_run"), None);
}

#[derive(Default)]
struct Seen(Mutex<Vec<String>>);

impl Observer for Seen {
    fn returned(&self, _cx: &crate::exec::Exec, tag: &str, ret: &Map) {
        let comment = ret.get("comment").unwrap().to_text();
        self.0.lock().unwrap().push(format!("{tag} {comment}"));
    }
}

#[test]
fn final_returns_are_told_and_events_fired() {
    let chunks = [
        chunk("nop", "a").with("fire_event", true),
        chunk("nop", "b")
            .with("fire_event", "my/tag")
            .with("parallel", true),
        chunk("nop", "c"),
    ];
    let seen = Seen::default();
    let cx = exec(Map::new().with("id", "m1"));
    let chunks: Vec<Value> = chunks.into_iter().map(Value::from).collect();
    run_as(&cx, &plan(&chunks), &seen, "42");
    let told = seen.0.into_inner().unwrap();
    assert_eq!(told.len(), 3);
    assert!(
        told.iter().all(|line| line.ends_with("Success!")),
        "{told:?}"
    );
    let mut events = modules::events(&cx);
    events.sort();
    assert_eq!(
        events,
        [
            "salt/state_result/42/m1/a",
            "salt/state_result/42/m1/my/tag"
        ]
    );
}

#[test]
fn a_thousand_chunks_take_a_few_milliseconds() {
    let chunks: Vec<Value> = (0..1000)
        .map(|n| {
            let this = chunk("nop", &format!("id{n}"));
            let before = format!("id{}", n - 1);
            Value::from(if n > 0 {
                requiring(this, "require", &[&before])
            } else {
                this
            })
        })
        .collect();
    let mut lows: Vec<LowChunk> = chunks
        .iter()
        .map(|c| LowChunk::from_map(c.as_map().unwrap().clone()))
        .collect();
    for (n, low) in lows.iter_mut().enumerate().skip(1) {
        low.requisites = vec![Requisite {
            kind: RequisiteKind::Require,
            state: "test".into(),
            name: format!("id{}", n - 1),
            chunks: vec![n - 1],
        }];
    }
    let plan = Plan::of_chunks(lows);
    let cx = exec(Map::new());
    let started = Instant::now();
    let running = run(&cx, &plan, &Unobserved);
    let took = started.elapsed();
    assert_eq!(running.len(), 1000);
    println!("{took:?}");
    // A debug build on a busy machine; a release build takes a few milliseconds.
    assert!(took < Duration::from_millis(500), "{took:?}");
}

#[test]
fn chunks_of_a_group_are_put_together_when_they_could_run() {
    let chunk = |id: &str, more: &str| {
        let text = format!(
            r#"{{"state": "test", "fun": "show_notification", "__id__": "{id}", "name": "{id}", "text": "{id}"{more}}}"#
        );
        json::read(&text).unwrap()
    };
    let chunks = [
        chunk("one", ""),
        chunk("two", ""),
        chunk("guarded", r#", "onlyif": "true""#),
        chunk("waits", r#", "require": [{"test": "late"}]"#),
        chunk("late", ""),
    ];
    let mut plan = plan(&chunks);
    plan.groups = vec![(0..4).collect()];
    let running = run(&exec(Map::new()), &plan, &Unobserved);
    let comments = running
        .values()
        .filter_map(|ret| ret.get("comment"))
        .map(Value::to_text);
    let comments: Vec<String> = comments.collect();
    assert_eq!(comments, ["one two", "two", "guarded", "late", "waits"]);
}

#[test]
fn a_test_of_a_chunk_without_its_program_depends_on_the_chunk_that_installs_it() {
    let result = |test: bool, first: &str, required: bool| {
        let program = chunk("needs_program", "job");
        let program = match required {
            true => requiring(program, "require", &["cron"]),
            false => program,
        };
        let opts = Map::new().with("test", test);
        let running = run_chunks(opts, vec![chunk(first, "cron"), program]);
        let ret = ret(&running, "job");
        let comment = ret.get("comment").unwrap().to_text();
        (ret.get("result").unwrap().as_bool(), comment)
    };
    let (changing, idle) = ("succeed_with_changes", "nop");
    assert_eq!(
        result(true, changing, true),
        (
            None,
            "Depends on test: cron, which would change first: test.needs_program needs the program crontab (Debian: cron)".into()
        )
    );
    for (test, first, required) in [
        (true, changing, false),
        (true, idle, true),
        (false, changing, true),
    ] {
        let (result, comment) = result(test, first, required);
        assert_eq!(result, Some(false));
        assert!(comment.ends_with("Reason: no crontab\n"), "{comment}");
    }
}
