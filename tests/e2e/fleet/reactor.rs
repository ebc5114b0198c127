//! The reactor: rules, effects, crashes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use super::Fleet;

/// Runs a runner and returns its result.
pub(super) fn runner(fleet: &Fleet, words: &[&str]) -> Value {
    let words: Vec<&str> = ["salt-run", "--out=json"]
        .into_iter()
        .chain(words.iter().copied())
        .collect();
    let answer = fleet.run(&words);
    serde_json::from_str(&answer.out).unwrap_or_else(|error| panic!("{error}: {}", answer.out))
}

pub(super) fn fire(fleet: &Fleet, tag: &str, data: &str) {
    let answer = fleet.run(&["salt-run", "event.send", tag, data]);
    assert_eq!(answer.rc, Some(0), "{}", answer.out);
}

/// Returns the reactions of a rule, the newest first.
fn history(fleet: &Fleet, rule: &str) -> Vec<Value> {
    let rule = format!("rule={rule}");
    let found = runner(fleet, &["reactor.history", "count=1000", &rule]);
    found.as_array().unwrap().clone()
}

pub(super) fn states(fleet: &Fleet, rule: &str) -> Vec<String> {
    let state = |one: &Value| one["state"].as_str().unwrap().to_owned();
    history(fleet, rule).iter().map(state).collect()
}

/// Returns the events of the log up to the first one with this tag.
pub(super) fn events(fleet: &Fleet, last: &str) -> Vec<(String, Value)> {
    fire(fleet, last, "{}");
    let answer = fleet.run(&["salt-run", "reactor.explain", last, "--out=json"]);
    let explained: Value = serde_json::from_str(&answer.out).unwrap();
    let count = format!("count={}", explained["sequence"]);
    let answer = fleet.run(&["salt-run", "state.event", "from=1", &count]);
    let event = |line: &str| {
        let (tag, data) = line.split_once('\t').unwrap();
        (tag.to_owned(), serde_json::from_str(data).unwrap())
    };
    answer.out.lines().map(event).collect()
}

/// Returns the keys of the events of each kind: a tag without ids, and `act` if there is one.
fn keys(events: &[(String, Value)]) -> BTreeMap<String, BTreeSet<String>> {
    let is_id = |part: &str| part.len() == 20 && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut kinds = BTreeMap::<String, BTreeSet<String>>::new();
    for (tag, data) in events {
        let parts = tag.split('/').map(|part| match is_id(part) {
            true => "JID",
            false => part,
        });
        let mut kind = parts.collect::<Vec<_>>().join("/");
        if let Some(act) = data["act"].as_str() {
            kind += &format!(" {act}");
        }
        let of_kind = kinds.entry(kind).or_default();
        of_kind.extend(data.as_object().unwrap().keys().cloned());
    }
    kinds
}

/// Kinds of events that only one of the two runs has, or that have different keys, with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    ("_listening", "the recorder's own ear"),
    ("resource/refresh/m1", "there are no resources here"),
    ("salt/run/JID/new", "this test's own runners"),
    ("salt/run/JID/ret", "this test's own runners"),
    ("the/end", "this test's own event"),
];

const ACCEPT: &str = "
{% if data['act'] == 'pend' %}
accept_minion:
  wheel.key.accept:
    - args:
      - match: {{ data['id'] }}
configure:
  local.state.highstate:
    - tgt: {{ data['id'] }}
    - require:
      - wheel: accept_minion
{% endif %}
";

#[test]
fn an_unknown_key_is_accepted_and_its_minion_configured_without_a_hand() {
    let mut fleet = Fleet::with("reactor:\n  - salt/auth: ['salt://react/auth.sls']\n");
    let made = fleet.path("made").display().to_string();
    fleet.write("salt/react/auth.sls", ACCEPT);
    fleet.write("salt/top.sls", "base:\n  '*': [site]\n");
    let site = format!("{made}:\n  file.managed:\n    - contents: {{{{ grains.id }}}}\n");
    fleet.write("salt/site.sls", &site);
    fleet.start_minion("m1", "");
    fleet.soon("the minion is configured", || {
        fs::read_to_string(&made).is_ok_and(|text| text == "m1\n")
    });
    fleet.soon("the reaction is done", || {
        states(&fleet, "salt/auth")
            .iter()
            .any(|state| state == "done")
            && keys(&events(&fleet, "the/end")).contains_key("salt/job/JID/ret/m1")
    });
    let own = keys(&events(&fleet, "the/end"));
    let recorded = include_str!("../../corpus/reactor/autoaccept.jsonl");
    let recorded: Vec<(String, Value)> = recorded
        .lines()
        .map(|line| {
            let event: Value = serde_json::from_str(line).unwrap();
            (
                event["tag"].as_str().unwrap().to_owned(),
                event["data"].clone(),
            )
        })
        .collect();
    let recorded = keys(&recorded);
    let salts = own.keys().filter(|kind| !kind.starts_with("pinch/"));
    let kinds: BTreeSet<&String> = salts.chain(recorded.keys()).collect();
    let wrong = kinds.into_iter().filter_map(|kind| {
        let (ours, salts) = (own.get(kind), recorded.get(kind));
        let is_known = DIFFERENT.iter().any(|(known, _)| known == kind);
        (is_known == (ours == salts)).then(|| format!("{kind}: {salts:?}, ours {ours:?}"))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let wheel = events(&fleet, "the/end");
    let wheel = wheel.iter().find(|(tag, _)| tag.starts_with("salt/wheel/"));
    let (_, wheel) = wheel.unwrap();
    assert_eq!(wheel["user"], "Reactor");
    assert_eq!(wheel["fun_args"][0]["match"], "m1");
}

/// Runs once for each seed that `PINCH_REACTOR_SEEDS` names as `FROM..TO`; the master is killed at a
/// different moment each time.
#[test]
fn what_was_fired_is_done_once_although_the_master_is_killed() {
    let config =
        "reactor_worker_threads: 4\nreactor:\n  - my/deploy: ['salt://react/deploy.sls']\n";
    let mut fleet = Fleet::alone(config);
    let done = fleet.path("done").display().to_string();
    let deploy = format!(
        "deploy:\n  local.cmd.run:\n    - tgt: m1\n    - args:\n      - cmd: echo {{{{ data.data.run }}}}-{{{{ data.data.n }}}} >> {done}\n      - python_shell: true\n"
    );
    fleet.write("salt/react/deploy.sls", &deploy);
    let all = "{% for n in range(60) %}\nn{{ n }}:\n  event.send:\n    - name: my/deploy\n    - data: {n: {{ n }}, run: {{ pillar.run }}}\n{% endfor %}\n";
    fleet.write("salt/all.sls", all);
    fleet.accepted(&["m1"]);
    let lines = |fleet: &Fleet| fs::read_to_string(fleet.path("done")).unwrap_or_default();
    for seed in tests::chance::seeds("PINCH_REACTOR_SEEDS", 2) {
        // A minion that is not back yet would not get the job.
        fleet.soon("the minion is back", || {
            fleet.run(&["salt", "m1", "test.ping"]).rc == Some(0)
        });
        let pillar = format!("pillar={{run: {seed}}}");
        let sent = fleet.run(&["salt", "--async", "m1", "state.apply", "all", &pillar]);
        assert_eq!(sent.rc, Some(0), "{}", sent.out);
        let first = format!("{seed}-");
        fleet.soon("the reactions have begun", || {
            lines(&fleet).contains(&first)
        });
        sleep(Duration::from_millis(seed * 2_654_435_761 % 1999));
        fleet.kill_master();
        fleet.start_master();
        let wanted: BTreeSet<String> = (0..60).map(|n| format!("{seed}-{n}")).collect();
        fleet.soon("all reactions have run", || {
            let text = lines(&fleet);
            let found: BTreeSet<String> = text.lines().map(str::to_owned).collect();
            wanted.is_subset(&found)
        });
        fleet.soon("the master records that they are done", || {
            let states = states(&fleet, "my/deploy");
            !states.is_empty() && states.iter().all(|state| state == "done")
        });
        let text = lines(&fleet);
        let unique: BTreeSet<&str> = text.lines().collect();
        assert_eq!(unique.len(), text.lines().count(), "twice: {text}");
    }
}

#[test]
fn a_slow_rule_and_one_that_never_renders_hold_up_nobody() {
    let config = "reactor_worker_threads: 1\nreactor_render_timeout: 1\nreactor_loop_max: 4\nreactor:\n  - 'my/*': ['salt://react/slow.sls']\n  - 'my/work*': ['salt://react/stuck.sls']\n  - 'my/w*': ['salt://react/quick.sls']\n  - salt/reactor/error: ['salt://react/error.sls']\n  - round/*: ['salt://react/round.sls']\n";
    let fleet = Fleet::with(config);
    let told = fleet.path("told").display().to_string();
    fs::write(&told, "").unwrap();
    fleet.write(
        "salt/react/slow.sls",
        "wait:\n  runner.test.sleep:\n    - args:\n      - s_time: 300\n",
    );
    fleet.write(
        "salt/react/stuck.sls",
        "{{ salt['cmd.run']('sleep 20') }}\n",
    );
    fleet.write(
        "salt/react/quick.sls",
        "note:\n  runner.event.send:\n    - args:\n      - tag: noted\n",
    );
    let error = format!(
        "tell:\n  runner.salt.cmd:\n    - arg:\n      - file.append\n      - {told}\n      - {{{{ data.rule }}}} {{{{ data.state }}}}\n"
    );
    fleet.write("salt/react/error.sls", &error);
    fleet.write(
        "salt/react/round.sls",
        "again:\n  runner.event.send:\n    - args:\n      - tag: {{ tag }}\n",
    );
    for number in 0..5 {
        fire(&fleet, &format!("my/work/{number}"), "{}");
    }
    fleet.soon("the quick rule has answered everything", || {
        states(&fleet, "my/w*") == ["done"; 5]
    });
    fleet.soon("the slow rule is still at its first event", || {
        states(&fleet, "my/*") == ["begun"]
    });
    let told = || fs::read_to_string(&told).unwrap_or_default();
    fleet.soon(
        "the failure of the rule that never renders is reported",
        || told().contains("my/work* failed"),
    );
    fire(&fleet, "round/and/round", "{}");
    fleet.soon("the loop is stopped and reported", || {
        told().contains("round/* stopped")
    });
    fleet.soon("all reactions of the loop have ended", || {
        states(&fleet, "round/*") == ["stopped", "done", "done", "done", "done", "done"]
    });
    let failed = runner(&fleet, &["reactor.failed"]).to_string();
    assert!(failed.contains("reactor_render_timeout"), "{failed}");
    assert!(failed.contains("reactor_loop_max is 4"), "{failed}");
}

#[test]
fn rules_are_shown_tried_observed_and_done_again() {
    let fleet = Fleet::with(
        "reactor:\n  - my/tag: ['salt://react/good.sls']\n  - bad/tag: ['salt://react/bad.sls']\n",
    );
    let out = fleet.path("out").display().to_string();
    fs::write(&out, "").unwrap();
    let good = format!(
        "note:\n  runner.salt.cmd:\n    - arg:\n      - file.append\n      - {out}\n      - x{{{{ data.n }}}}\n"
    );
    fleet.write("salt/react/good.sls", &good);
    fleet.write(
        "salt/react/bad.sls",
        "note:\n  runner:\n    - tgt: {{ data.n }}\n",
    );
    let rules = runner(&fleet, &["reactor.list"]);
    assert_eq!(rules[0]["my/tag"][0], "salt://react/good.sls");
    assert_eq!(runner(&fleet, &["reactor.is_leader"]), true);
    // `reactor.test` does nothing.
    let event = r#"event={"tag": "my/tag", "data": {"n": 7}}"#;
    let tried = runner(&fleet, &["reactor.test", "my/tag", event]);
    assert_eq!(tried["calls"][0]["fun"], "salt.cmd");
    assert_eq!(tried["calls"][0]["arg"][2], "x7");
    let written = || fs::read_to_string(&out).unwrap_or_default();
    assert_eq!(written(), "");
    // Nor while reactions are only observed.
    assert_eq!(runner(&fleet, &["reactor.enforce", "False"]), false);
    fire(&fleet, "my/tag", "{n: 1}");
    fleet.soon("the event is observed", || {
        states(&fleet, "my/tag") == ["observed"]
    });
    assert_eq!(runner(&fleet, &["reactor.enforce", "True"]), true);
    assert_eq!(written(), "");
    let explained = runner(&fleet, &["reactor.explain", "my/tag"]);
    assert_eq!(explained["rules"]["my/tag"]["state"], "observed");
    let why = explained["rules"]["bad/tag"].as_str().unwrap();
    assert!(why.contains("does not match"), "{why}");
    let sequence = explained["sequence"].to_string();
    let again = runner(&fleet, &["reactor.replay", &sequence]);
    assert_eq!(again[0]["state"], "done", "{again}");
    assert_eq!(written(), "x1\n");
    // A failed reaction is kept until an administrator clears it.
    fire(&fleet, "bad/tag", "{n: 1}");
    fleet.soon("the reaction failed", || {
        states(&fleet, "bad/tag") == ["failed"]
    });
    let failed = runner(&fleet, &["reactor.failed"]);
    let error = failed[0]["errors"][0].as_str().unwrap();
    assert!(
        error.contains("No function declared in state 'note'"),
        "{error}"
    );
    assert!(failed[0]["rendered"].as_str().unwrap().contains("tgt: 1"));
    assert_eq!(
        runner(&fleet, &["reactor.failed", "clear=True"]).to_string(),
        "[]"
    );
    // Rules come and go.
    let added = runner(
        &fleet,
        &["reactor.add", "new/*", "reactors=salt://react/good.sls"],
    );
    assert_eq!(added["comment"], "Reactor added.");
    let added = runner(&fleet, &["reactor.add", "new/*", "reactors=/x.sls"]);
    assert_eq!(added["comment"], "Reactor already exists.");
    fire(&fleet, "new/one", "{n: 2}");
    fleet.soon("the new rule applies", || written() == "x1\nx2\n");
    let deleted = runner(&fleet, &["reactor.delete", "new/*"]);
    assert_eq!(deleted["comment"], "Reactor deleted.");
    let deleted = runner(&fleet, &["reactor.delete", "new/*"]);
    assert_eq!(deleted["comment"], "Reactor does not exists.");
    assert_eq!(
        runner(&fleet, &["reactor.list"]).as_array().unwrap().len(),
        2
    );
}

#[test]
fn a_runner_that_a_crash_cut_off_is_told_of_and_not_done_again() {
    let mut fleet = Fleet::with("reactor:\n  - my/tag: ['salt://react/long.sls']\n");
    let began = fleet.path("began").display().to_string();
    let long = format!(
        "long:\n  runner.salt.cmd:\n    - arg:\n      - cmd.run\n      - echo x >> {began}; sleep 20\n    - kwarg:\n        python_shell: true\n"
    );
    fleet.write("salt/react/long.sls", &long);
    fire(&fleet, "my/tag", "{}");
    let written = || fs::read_to_string(&began).unwrap_or_default();
    fleet.soon("the reaction runs", || written() == "x\n");
    fleet.kill_master();
    fleet.start_master();
    fleet.soon("the interrupted reaction is reported", || {
        states(&fleet, "my/tag") == ["unknown"]
    });
    let failed = runner(&fleet, &["reactor.failed"]).to_string();
    assert!(failed.contains("it is not repeated"), "{failed}");
    let told = events(&fleet, "the/end");
    let told = told.iter().find(|(tag, _)| tag == "salt/reactor/error");
    let (_, told) = told.unwrap();
    assert_eq!(
        (&told["rule"], &told["state"]),
        (&"my/tag".into(), &"unknown".into())
    );
    assert_eq!(written(), "x\n");
}
