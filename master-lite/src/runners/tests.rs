use std::io::Write;

use cli::config;
use link::KeyPair;
use link::pki::Pki;
use render::yaml::SaltYaml;
use state::opts::Opts;
use value::{Map, Value, json};
use wire::{Id, Runner};

use crate::daemon::Master;
use crate::store::{Cache, Change, Command};

const PING: &str = "20261120100843468059";
const STATES: &str = "20261120101055879502";

/// A master in a temporary folder, with two minions that are not connected, and two jobs.
pub(super) struct World {
    pub(super) master: Master,
    pub(super) folder: tempfile::TempDir,
}

fn map(text: &str) -> Map {
    json::read(text).unwrap().as_map().unwrap().clone()
}

impl World {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Map::new()
            .with("root_dir", folder.path().to_string_lossy().into_owned())
            .with("id", "mm");
        let text: String = root
            .iter()
            .map(|(key, value)| format!("{}: {}\n", key.to_text(), value.to_text()))
            .collect();
        let mut file = std::fs::File::create(folder.path().join("master")).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let loaded = config::load_master(folder.path(), "salt-master", Map::new(), &SaltYaml);
        let opts = Opts::new(loaded.unwrap().opts);
        let own = Pki::open(&opts.path("pki_dir")).unwrap();
        let world = Self {
            master: Master::alone(opts, own, std::time::Duration::ZERO).unwrap(),
            folder,
        };
        world.minion("m1", r#"{"os": "Debian"}"#);
        world.minion("m2", "{}");
        world.job(
            PING,
            r#"{"fun": "test.ping", "arg": [], "tgt": "*", "tgt_type": "glob", "user": "root"}"#,
        );
        world.returned(
            PING,
            "m1",
            r#"{"return": true, "retcode": 0, "success": true, "fun": "test.ping"}"#,
        );
        world.job(STATES, r#"{"fun": "state.highstate", "arg": [{"__kwarg__": true, "test": true, "metadata": {"a": 1}}], "tgt": ["m1"], "tgt_type": "list", "user": "root"}"#);
        world.returned(
            STATES,
            "m1",
            r#"{"return": {}, "retcode": 0, "success": true, "out": "highstate"}"#,
        );
        world
    }

    fn apply(&self, command: Command) {
        self.master.store.apply_blocking(command).unwrap();
    }

    fn minion(&self, id: &str, grains: &str) {
        let id: Id = id.parse().unwrap();
        let key = KeyPair::generate().unwrap().public();
        self.apply(Command::KeyAccepted {
            id: id.clone(),
            key,
            at_ms: 1,
            bound: Map::new(),
            replace: true,
        });
        let caches = [
            (Cache::Grains, grains),
            (Cache::Mine, r#"{"test.ping": true, "own": {"a": 1}}"#),
        ];
        for (what, data) in caches {
            let change = Change::Set(map(data));
            let id = id.clone();
            self.apply(Command::Cached {
                id,
                key,
                what,
                change,
            });
        }
    }

    fn job(&self, jid: &str, load: &str) {
        self.apply(Command::Job {
            jid: jid.to_owned(),
            load: map(load),
            minions: vec!["m1".parse().unwrap(), "m2".parse().unwrap()],
            at_ms: 2,
        });
    }

    fn returned(&self, jid: &str, id: &str, data: &str) {
        self.apply(Command::Return {
            jid: jid.to_owned(),
            id: id.parse().unwrap(),
            data: map(data),
            at_ms: 3,
            origin: None,
        });
    }

    /// Returns the result of a runner as JSON.
    pub(super) fn run(&self, fun: &str, args: &str) -> String {
        let arg = json::read(args).unwrap();
        let asked = Runner {
            fun: fun.to_owned(),
            arg: arg.as_list().unwrap().to_vec(),
            jid: None,
            asynchronous: false,
            watched: false,
        };
        let answer = smol::block_on(self.master.runners.run(asked, None));
        let returned = answer.get("return").cloned().unwrap_or(Value::Null);
        json::write(&returned, json::Layout::default())
    }
}

#[test]
fn jobs_are_listed_as_salt_lists_them() {
    let world = World::new();
    let ping = r#"{"Function": "test.ping", "Arguments": [], "Target": "*", "Target-type": "glob", "User": "root", "StartTime": "2026, Nov 20 10:08:43.468059"}"#;
    assert_eq!(
        world.run(
            "jobs.list_jobs",
            r#"[{"__kwarg__": true, "search_function": "test.*"}]"#
        ),
        format!(r#"{{"{PING}": {ping}}}"#)
    );
    let all = world.run("jobs.list_jobs", "[]");
    assert!(all.find(PING).unwrap() < all.find(STATES).unwrap(), "{all}");
    let filters = [
        r#"{"__kwarg__": true, "search_target": "m*"}"#,
        r#"{"__kwarg__": true, "search_metadata": {"a": 1}}"#,
        r#"{"__kwarg__": true, "start_time": "2026-11-20 10:10"}"#,
    ];
    for filter in filters {
        let found = world.run("jobs.list_jobs", &format!("[{filter}]"));
        assert!(
            !found.contains(PING) && found.contains(STATES),
            "{filter}: {found}"
        );
    }
    let wrong = world.run(
        "jobs.list_jobs",
        r#"[{"__kwarg__": true, "start_time": "Mar 16"}]"#,
    );
    assert!(wrong.contains("in digits"), "{wrong}");
    assert!(!world.run("jobs.list_jobs_filter", "[1]").contains(PING));
}

#[test]
fn a_job_is_shown_with_its_returns() {
    let world = World::new();
    assert_eq!(
        world.run("jobs.print_job", &format!(r#"["{PING}"]"#)),
        format!(
            r#"{{"{PING}": {{"Function": "test.ping", "Arguments": [], "Target": "*", "Target-type": "glob", "User": "root", "Minions": ["m1", "m2"], "StartTime": "2026, Nov 20 10:08:43.468059", "Result": {{"m1": {{"return": true, "retcode": 0, "success": true}}}}}}}}"#
        )
    );
    let cases = [
        ("jobs.lookup_jid", PING, r#"{"m1": true}"#),
        ("jobs.exit_success", PING, r#"{"m1": true, "m2": false}"#),
        (
            "jobs.lookup_jid",
            STATES,
            r#"{"outputter": "highstate", "data": {"m1": {}}}"#,
        ),
    ];
    for (fun, jid, want) in cases {
        assert_eq!(
            world.run(fun, &format!(r#"["{jid}"]"#)),
            want,
            "{fun} {jid}"
        );
    }
    let missing =
        format!(r#"["{PING}", {{"__kwarg__": true, "missing": true, "returned": false}}]"#);
    assert_eq!(
        world.run("jobs.lookup_jid", &missing),
        r#"{"m2": "Minion did not return"}"#
    );
    let unknown = world.run("jobs.list_job", r#"["20200101010101010101"]"#);
    assert!(
        unknown.contains("Cannot contact returner or no job with this jid"),
        "{unknown}"
    );
    assert!(
        world
            .run("jobs.last_run", "[]")
            .starts_with(&format!(r#"{{"{STATES}""#))
    );
    let none = r#"[{"__kwarg__": true, "function": "nosuch.*"}]"#;
    assert_eq!(world.run("jobs.last_run", none), "false");
}

#[test]
fn what_is_remembered_is_found_and_forgotten_by_target() {
    let world = World::new();
    let cases = [
        ("cache.grains", r#"["m1"]"#, r#"{"m1": {"os": "Debian"}}"#),
        ("cache.list", r#"["mine"]"#, r#"["m1", "m2"]"#),
        ("cache.fetch", r#"["grains", "m1"]"#, r#"{"os": "Debian"}"#),
        ("cache.fetch", r#"["grains", "nobody"]"#, "{}"),
        (
            "mine.get",
            r#"["*", "test.ping"]"#,
            r#"{"m1": true, "m2": true}"#,
        ),
        (
            "mine.get",
            r#"["m1", "test.ping,own"]"#,
            r#"{"test.ping": {"m1": true}, "own": {"m1": {"a": 1}}}"#,
        ),
        ("mine.get", r#"["os:Deb*", "none", "grain"]"#, "{}"),
        ("cache.clear_grains", "[]", "false"),
        ("cache.clear_grains", r#"["m1"]"#, "true"),
        ("cache.grains", r#"["m1"]"#, r#"{"m1": {}}"#),
        ("cache.clear_mine_func", r#"["m1", "glob", "own"]"#, "true"),
        ("cache.mine", r#"["m1"]"#, r#"{"m1": {"test.ping": true}}"#),
    ];
    for (fun, args, want) in cases {
        assert_eq!(world.run(fun, args), want, "{fun} {args}");
    }
    assert!(
        world
            .run("cache.list", r#"["cloud"]"#)
            .contains("unknown bank")
    );
}

#[test]
fn roots_are_sent_only_in_a_cluster_and_a_wrong_word_has_salts_error() {
    let world = World::new();
    let cases = [
        ("[]", r#""status": "skipped", "reason": "no cluster_id"#),
        (
            r#"["pillar"]"#,
            r#""status": "skipped", "reason": "no cluster_id"#,
        ),
        (
            r#"["x"]"#,
            "roots must be 'file', 'pillar', or 'both', got 'x'",
        ),
        ("[5]", "roots must be 'file', 'pillar', or 'both', got 5"),
    ];
    for (args, want) in cases {
        let answer = world.run("cluster.sync_roots", args);
        assert!(answer.contains(want), "{args}: {answer}");
    }
}

#[test]
fn minions_that_are_away_are_down() {
    let world = World::new();
    let cases = [
        ("manage.status", r#"{"up": [], "down": ["m1", "m2"]}"#),
        ("manage.present", "[]"),
        ("manage.not_present", r#"["m1", "m2"]"#),
        (
            "manage.versions",
            r#"{"Minion offline": {"m1": false, "m2": false}, "Master": "3008.5"}"#,
        ),
        ("jobs.active", "{}"),
        ("pillar.show_pillar", "{}"),
    ];
    for (fun, want) in cases {
        assert_eq!(world.run(fun, "[]"), want, "{fun}");
    }
    assert_eq!(world.run("manage.not_alived", r#"[["m2"]]"#), r#"["m2"]"#);
    // Runners that need no master are available too.
    assert_eq!(
        world.run("test.arg", "[1]"),
        r#"{"args": [1], "kwargs": {}}"#
    );
}

#[test]
fn a_runner_has_the_id_that_it_was_given_and_need_not_be_waited_for() {
    let world = World::new();
    let asked = |asynchronous| Runner {
        fun: "test.arg".to_owned(),
        arg: Vec::new(),
        jid: Some(PING.to_owned()),
        asynchronous,
        watched: false,
    };
    let now = smol::block_on(world.master.runners.run(asked(false), None));
    assert_eq!(now.get("jid").map(Value::to_text).as_deref(), Some(PING));
    assert!(now.get("return").is_some());
    let later = smol::block_on(world.master.runners.run(asked(true), None));
    assert_eq!(Value::Map(later).to_text(), format!("{{'jid': '{PING}'}}"));
}

mod eauth;
