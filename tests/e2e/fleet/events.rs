//! Events: the tags and keys that Salt's own master fired, and ours.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;
use tests::scratch::corpus;

use super::{Fleet, PROGRAM, Process};

/// Events that Salt fires and this program does not, with the reason.
const DIFFERENT: &[(&str, &str)] = &[(
    "resource/refresh/m1",
    "a minion has no resources besides itself here",
)];

/// Events that are not in the record but are in Salt's source: the arguments of `salt.wheel` have
/// names.
const ALSO: &[(&str, &[&str])] = &[("salt/run/JID/args", &["_stamp", "args", "name", "type"])];

/// An event that Salt's master was seen to fire.
#[derive(Deserialize)]
struct Recorded {
    tag: String,
    keys: BTreeSet<String>,
    /// The keys of what a minion's event carries.
    data: Option<BTreeSet<String>>,
}

pub(super) type Events = Vec<(String, Value)>;

fn keys(value: &Value) -> BTreeSet<String> {
    let map = value.as_object().unwrap();
    map.keys().cloned().collect()
}

impl Fleet {
    /// Runs `salt-run state.event` from now on, with its output in a file.
    pub(super) fn listen(&self) -> Process {
        let etc = self.path("master/etc").display().to_string();
        let words = ["salt-run", "-c", &etc, "state.event"];
        let listener = Process::start(&PROGRAM, &words, &self.path("heard"));
        self.soon("the listener is connected", || {
            self.run(&["salt-run", "event.send", "probe/begin"]);
            !self.heard().is_empty()
        });
        listener
    }

    /// Returns the events so far, with the job ids removed from their tags.
    pub(super) fn heard(&self) -> Events {
        let text = std::fs::read_to_string(self.path("heard")).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let event = |line: &str| {
            let (tag, data) = line.split_once('\t')?;
            Some((without_jids(tag), serde_json::from_str(data).ok()?))
        };
        whole.lines().filter_map(event).collect()
    }

    fn has_heard(&self, tag: &str) -> bool {
        self.heard().iter().any(|(heard, _)| heard == tag)
    }

    /// Waits for an event.
    fn hears(&self, tag: &str) -> Value {
        self.soon(&format!("the event {tag}"), || self.has_heard(tag));
        let heard = self.heard().into_iter().find(|(heard, _)| heard == tag);
        heard.unwrap().1
    }
}

fn without_jids(tag: &str) -> String {
    let parts = tag.split('/');
    let part = |part: &str| match part.len() == 20 && part.bytes().all(|b| b.is_ascii_digit()) {
        true => "JID".to_owned(),
        false => part.to_owned(),
    };
    parts.map(part).collect::<Vec<_>>().join("/")
}

fn recorded() -> BTreeMap<String, Vec<Recorded>> {
    let text = std::fs::read_to_string(corpus().join("master/events.json")).unwrap();
    let all: Vec<Recorded> = serde_json::from_str(&text).unwrap();
    let mut by_tag: BTreeMap<String, Vec<Recorded>> = BTreeMap::new();
    for event in all {
        by_tag.entry(event.tag.clone()).or_default().push(event);
    }
    by_tag
}

fn is_same(recorded: &Recorded, event: &Value) -> bool {
    let data = recorded.data.as_ref();
    recorded.keys == keys(event) && data.is_none_or(|data| *data == keys(&event["data"]))
}

const STATES: &[(&str, &str)] = &[
    ("salt/bad.sls", "bad:\n  test.fail_with_changes\n"),
    (
        "salt/told.sls",
        "a:\n  test.succeed_with_changes:\n    - fire_event: True\nb:\n  test.succeed_with_changes:\n    - fire_event: custom/tag/b\n",
    ),
    (
        "salt/orch.sls",
        "states:\n  salt.state:\n    - tgt: m1\n    - sls: bad\nfunction:\n  salt.function:\n    - name: test.ping\n    - tgt: m1\nwheel:\n  salt.wheel:\n    - name: key.list_all\nnested:\n  salt.runner:\n    - name: state.orchestrate\n    - mods: inner\n",
    ),
    ("salt/inner.sls", "fine:\n  test.nop\n"),
];

/// Causes every kind of recorded event.
fn provoke(fleet: &mut Fleet) {
    for (below, text) in STATES {
        fleet.write(below, text);
    }
    fleet.accepted(&["m1"]);
    for words in [
        &["salt", "m1", "state.sls", "bad"][..],
        &["salt", "m1", "state.apply", "told"],
        &["salt-run", "event.send", "my/runner/event", "data={b: 2}"],
        &["salt-run", "test.arg", "a", "k=v"],
        &["salt-run", "state.orchestrate", "orch"],
    ] {
        fleet.run(words);
    }
    let sent = fleet.call("m1", &["event.send", "my/custom/event", "{a: 1}"]);
    assert_eq!(sent.rc, Some(0), "{}", sent.out);
    fleet.hears("my/custom/event");
    // An accepted key is rejected, and then deleted.
    fleet.run(&["salt-key", "-y", "--include-accepted", "-r", "m1"]);
    fleet.run(&["salt-key", "-y", "-d", "m1"]);
    fleet.soon("the key events arrive", || {
        let keys = fleet.heard();
        keys.iter().filter(|(tag, _)| tag == "salt/key").count() >= 3
    });
}

#[test]
fn events_have_the_tags_and_keys_of_salts_own() {
    let mut fleet = Fleet::with("");
    let _listener = fleet.listen();
    provoke(&mut fleet);
    let heard = fleet.heard();
    let mut wrong = Vec::new();
    for (tag, kinds) in &recorded() {
        if DIFFERENT.iter().any(|(different, _)| different == tag) {
            continue;
        }
        let ours: Vec<&Value> = heard
            .iter()
            .filter_map(|(name, data)| (name == tag).then_some(data))
            .collect();
        for kind in kinds {
            if !ours.iter().any(|event| is_same(kind, event)) {
                wrong.push(format!("{tag}: none with {:?} {:?}", kind.keys, kind.data));
            }
        }
        for event in ours {
            let is_known = ALSO.iter().any(|(name, also)| {
                let also = also.iter().map(|key| (*key).to_owned());
                name == tag && keys(event) == also.collect()
            });
            if !is_known && !kinds.iter().any(|kind| is_same(kind, event)) {
                wrong.push(format!("{tag}: not Salt's: {event}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{heard:#?}", wrong.join("\n"));
    for (tag, event) in &heard {
        let stamp = event["_stamp"].as_str().unwrap();
        let (length, ending) = (stamp.len(), stamp.get(26..));
        assert_eq!((length, ending), (32, Some("+00:00")), "{tag}: {event}");
        assert!(event["ts"].is_u64() || event["ts"].is_null(), "{event}");
    }
}

#[test]
fn presence_progress_and_beacons_are_told_as_salt_tells_them() {
    let config = "auto_accept: True\npresence_events: True\nloop_interval: 1\n";
    let mut fleet = Fleet::with(config);
    fleet.write("salt/one.sls", "one:\n  test.nop\n");
    let _listener = fleet.listen();
    let load = "averages:\n        1m: [0.0, 0.0]\n        5m: [0.0, 0.0]\n        15m: [0.0, 0.0]";
    let beacon =
        format!("beacons:\n  load:\n    - onchangeonly: False\n    - {load}\n    - interval: 1\n");
    fleet.start_minion("m1", &format!("state_events: True\n{beacon}"));
    fleet.hears("salt/presence/change");
    fleet.soon("the minion is present", || {
        let events = fleet.heard();
        let here = |(tag, data): &(String, Value)| {
            tag == "salt/presence/present" && data["present"] == serde_json::json!(["m1"])
        };
        events.iter().any(here)
    });
    let change = fleet.hears("salt/presence/change");
    assert_eq!(change["new"], serde_json::json!(["m1"]));
    assert_eq!(change["lost"], serde_json::json!([]));
    let beacon = fleet.hears("salt/beacon/m1/load/");
    let names = ["15m", "1m", "5m", "_stamp", "id"].map(str::to_owned);
    assert_eq!(keys(&beacon), names.into());
    let start = fleet.hears("salt/minion/m1/start");
    let said = start["data"].as_str().unwrap();
    assert!(said.starts_with("Minion m1 started at "), "{said}");
    fleet.run(&["salt", "m1", "state.apply", "one"]);
    let progress = fleet.hears("salt/job/JID/prog/m1/0");
    assert_eq!(progress["data"]["len"], 1);
    assert_eq!(progress["data"]["ret"]["result"], true);
}

#[test]
fn events_about_keys_and_caches_are_left_out_where_the_configuration_says_so() {
    let config = "auto_accept: True\nauth_events: False\nminion_data_cache_events: False\n";
    let mut fleet = Fleet::with(config);
    let _listener = fleet.listen();
    fleet.start_minion("m1", "");
    fleet.hears("salt/minion/m1/start");
    fleet.run(&["salt", "m1", "pillar.items"]);
    fleet.hears("salt/job/JID/ret/m1");
    let heard = fleet.heard();
    let unwanted = |tag: &str| tag == "salt/auth" || tag.starts_with("minion/refresh");
    assert!(!heard.iter().any(|(tag, _)| unwanted(tag)), "{heard:?}");
}

#[test]
fn a_tag_that_is_not_the_minions_own_is_refused_where_it_is_fired() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["m1"]);
    let tag = "salt/autoscale/terminate";
    let sent = fleet.call("m1", &["event.send", tag, "{id: m2}"]);
    let reason = format!("the minion m1 may not send the event tag \"{tag}\"");
    assert!(
        sent.out.contains(&reason) && sent.out.contains("False"),
        "{}",
        sent.out
    );
    let sent = fleet.call("m1", &["event.send", "autoscale/ready"]);
    assert!(sent.out.contains("True"), "{}", sent.out);
}

/// Fires an event by a minion, kills its own run the first time, and waits for the event.
const RESUMED: &str = "\
fire:
  salt.function:
    - name: event.send
    - tgt: m1
    - arg: [my/tag]
cut:
  cmd.run:
    - name: test -e @TMP@/again || { touch @TMP@/again; kill -9 $PPID; }
    - require: [{salt: fire}]
wait:
  salt.wait_for_event:
    - name: my/tag
    - id_list: [m1]
    - timeout: 3
    - require: [{cmd: cut}]
";

#[test]
fn a_resumed_orchestration_has_the_events_that_came_before_it_was_cut_short() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["m1"]);
    let here = fleet.dir.path().display().to_string();
    fleet.write("salt/orch.sls", &RESUMED.replace("@TMP@", &here));
    let cut = fleet.run(&["salt-run", "state.orchestrate", "orch"]);
    assert_ne!(cut.rc, Some(0), "{}", cut.out);
    // The orchestration runs in the master's process.
    fleet.kill_master();
    fleet.start_master();
    fleet.soon("the minion is back", || {
        fleet.run(&["salt", "m1", "test.ping"]).out.contains("True")
    });
    let done = fleet.run(&[
        "salt-run",
        "--out=json",
        "state.orchestrate",
        "orch",
        "resume=True",
    ]);
    assert_eq!(done.rc, Some(0), "{}{}", done.out, fleet.logs());
    assert!(done.out.contains("\"my/tag\""), "{}", done.out);
}
