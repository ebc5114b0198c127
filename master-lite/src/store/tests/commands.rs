//! Tests that commands have the bytes that `tests/corpus/store` has for them. A command that a
//! release has written to a journal never changes; an existing kind only gets optional fields.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use cluster::core::Keep;
use reactor::Place;
use wire::msgpack;

use super::super::command::JobRows;
use super::super::command_bytes::{decode, encode};
use super::super::rows::Table;
use super::golden::{
    JID, LONG, OWN_JID, PLACE, STAMP, escaped, folder, map, origin, unescaped, values, written,
};
use super::*;

/// Declares a function that names the variant of a value, and the list of all these names. A new
/// variant does not compile until it is added here, and then needs an example.
macro_rules! variants {
    ($name:ident $all:ident of $type:ident: $($variant:ident)*) => {
        pub(super) const $all: &[&str] = &[$(concat!(stringify!($type), "::", stringify!($variant))),*];

        pub(super) fn $name(value: &$type) -> &'static str {
            match value {
                $($type::$variant { .. } => {
                    concat!(stringify!($type), "::", stringify!($variant))
                })*
            }
        }
    };
}

variants! {
    command COMMANDS of Command:
    KeyOffered KeyWithdrawn KeyAccepted KeyRejected KeyDenied KeyDeleted KeyShown Event Job Return
    Cached Cursor Reaction Token EventsDropped JobsDropped EventsRemoved JobsRemoved
    RingCreated RingDestroyed RingSet RouteSet RunBegun RunCopied RunStep RunClaimed RunEnded All
}
variants! { claim CLAIMS of Claim: Nothing New Proved }
variants! { cache CACHES of Cache: Grains Pillar Mine Status }
variants! { change CHANGES of Change: Set Update Without Clear }
variants! { key_state STATES of KeyState: Pending Accepted Rejected Denied }

/// The optional fields, each with the kind of its command.
const OPTIONAL: [(&str, &str); 10] = [
    ("key_offered", "from"),
    ("event", "origin"),
    ("return", "origin"),
    ("cursor", "sequence"),
    ("reaction", "row"),
    ("token", "data"),
    ("token", "expected"),
    ("ring_set", "keep"),
    ("ring_set", "replicas"),
    ("route_set", "ring"),
];

fn offered_with(name: &str, number: u8, from: Option<&str>, claim: Claim) -> Command {
    Command::KeyOffered {
        id: id(name),
        key: key(number),
        at_ms: 2,
        from: from.map(str::to_owned),
        pending_max: 1000,
        pending_per_address: u64::MAX,
        claim,
    }
}

fn of_keys() -> Vec<(&'static str, Command)> {
    let accepted = |name: &str, number, bound, replace| Command::KeyAccepted {
        id: id(name),
        key: key(number),
        at_ms: 1_795_169_435_942,
        bound,
        replace,
    };
    let grains = map("role", "web").with("grains", values());
    let address = Some("192.0.2.7");
    vec![
        ("key_accepted/replace", accepted("web", 1, grains, true)),
        (
            "key_offered/nothing",
            offered_with(LONG, 2, address, Claim::Nothing),
        ),
        ("key_accepted", accepted(LONG, 2, Map::new(), false)),
        ("key_offered/new", offered_with("db", 3, None, Claim::New)),
        (
            "key_offered/proved",
            offered_with("db", 4, address, Claim::Proved),
        ),
        (
            "key_rejected",
            Command::KeyRejected {
                id: id("db"),
                key: key(4),
                at_ms: 0,
            },
        ),
    ]
}

fn of_other_keys() -> Vec<(&'static str, Command)> {
    vec![
        (
            "key_denied",
            Command::KeyDenied {
                id: id("web"),
                key: key(9),
                at_ms: 128,
            },
        ),
        (
            "key_deleted",
            Command::KeyDeleted {
                id: id(LONG),
                key: key(2),
                at_ms: 1 << 32,
            },
        ),
        (
            "key_offered/again",
            offered_with("mail", 5, None, Claim::New),
        ),
        (
            "key_withdrawn",
            Command::KeyWithdrawn {
                id: id("mail"),
                key: key(5),
            },
        ),
        (
            "key_shown",
            Command::KeyShown {
                id: id("web"),
                files: vec![
                    (KeyState::Accepted, key(1)),
                    (KeyState::Pending, key(6)),
                    (KeyState::Rejected, key(7)),
                    (KeyState::Denied, key(9)),
                ],
            },
        ),
        (
            "key_shown/none",
            Command::KeyShown {
                id: id("db"),
                files: Vec::new(),
            },
        ),
    ]
}

fn of_events_and_jobs() -> Vec<(&'static str, Command)> {
    let event = |tag: &str, data, origin| Command::Event {
        tag: tag.to_owned(),
        data,
        stamp: STAMP.to_owned(),
        at_ms: 5,
        origin,
    };
    let return_of = |jid: &str, origin| Command::Return {
        jid: jid.to_owned(),
        id: id("web"),
        data: map("return", true).with("retcode", 0),
        at_ms: 7,
        origin,
    };
    vec![
        ("event", event("salt/key", values(), None)),
        (
            "event/origin",
            event("own/tag", Map::new(), origin("web", 1, 1)),
        ),
        (
            "job",
            Command::Job {
                jid: JID.to_owned(),
                load: map("fun", "test.ping").with("user", "root"),
                minions: vec![id("db"), id("web")],
                at_ms: 6,
            },
        ),
        ("return", return_of(OWN_JID, None)),
        ("return/origin", return_of(JID, origin("web", 1, u64::MAX))),
    ]
}

fn of_caches() -> Vec<(&'static str, Command)> {
    let cached = |what, change| Command::Cached {
        id: id("web"),
        key: key(1),
        what,
        change,
    };
    let without = Change::Without("large".to_owned());
    vec![
        (
            "cached/set",
            cached(Cache::Grains, Change::Set(map("os", "Debian"))),
        ),
        (
            "cached/update",
            cached(Cache::Mine, Change::Update(values())),
        ),
        ("cached/without", cached(Cache::Mine, without)),
        ("cached/clear", cached(Cache::Pillar, Change::Clear)),
        (
            "cached/status",
            cached(Cache::Status, Change::Set(map("up", true))),
        ),
    ]
}

fn of_names() -> Vec<(&'static str, Command)> {
    let cursor = |name: &str, sequence| Command::Cursor {
        name: name.to_owned(),
        sequence,
    };
    let reaction = |rule, row| Command::Reaction {
        place: Place { rule, ..PLACE },
        row,
    };
    let token = |data, expected| Command::Token {
        name: "enroll/a".to_owned(),
        data,
        expected,
    };
    let one = map("uses", 1);
    vec![
        ("cursor", cursor("reactor/a", Some(0x0102_0304))),
        ("cursor/removed", cursor("reactor/ä", None)),
        ("reaction", reaction(u64::MAX, Some(map("state", "done")))),
        ("reaction/removed", reaction(PLACE.rule, None)),
        ("token", token(Some(one.clone()), None)),
        ("token/expected", token(Some(Map::new()), Some(one.clone()))),
        ("token/removed", token(None, Some(Map::new()))),
        (
            "all",
            Command::All(vec![
                token(Some(one), None),
                Command::All(vec![event("a", 1), cursor("far", Some(u64::MAX))]),
                Command::All(Vec::new()),
            ]),
        ),
    ]
}

fn job_rows(jid: &str, returns: &[&str], at_ms: Option<u64>) -> JobRows {
    JobRows {
        jid: jid.to_owned(),
        returns: returns.iter().map(|name| id(name)).collect(),
        at_ms,
    }
}

fn of_removals() -> Vec<(&'static str, Command)> {
    vec![
        (
            "events_dropped",
            Command::EventsDropped {
                before: 2,
                limit: 1024,
            },
        ),
        (
            "jobs_dropped",
            Command::JobsDropped {
                before_ms: 7,
                limit: 1024,
            },
        ),
        (
            "events_removed",
            Command::EventsRemoved {
                sequences: vec![2, 0x0102_0304, u64::MAX],
            },
        ),
        (
            "jobs_removed",
            Command::JobsRemoved {
                jobs: vec![
                    job_rows(OWN_JID, &["web", LONG], Some(7)),
                    job_rows(JID, &["db"], None),
                ],
            },
        ),
    ]
}

fn of_rings() -> Vec<(&'static str, Command)> {
    let name = || "jobs".to_owned();
    let set = |keep, replicas| Command::RingSet {
        name: name(),
        keep,
        replicas,
    };
    let route = |ring, at_ms| Command::RouteSet {
        data_type: name(),
        ring,
        at_ms,
    };
    vec![
        (
            "ring_created",
            Command::RingCreated {
                name: name(),
                voters: vec!["10.0.0.1".to_owned(), "10.0.0.2".to_owned()],
            },
        ),
        ("ring_set", set(Some(Keep::Shared), Some(2))),
        ("ring_set/members", set(Some(Keep::Everywhere), None)),
        ("route_set", route(Some(name()), 1_795_169_435_942)),
        ("route_set/cleared", route(None, 7)),
        ("ring_destroyed", Command::RingDestroyed { name: name() }),
    ]
}

fn of_runs() -> Vec<(&'static str, Command)> {
    let jid = || JID.to_owned();
    let owner = RunOwner {
        node: 2,
        boot: 300,
        claim: 0,
    };
    let other = RunOwner {
        node: u64::MAX,
        boot: 1,
        claim: 1,
    };
    let copied = |offset, lines: &str| Command::RunCopied {
        jid: jid(),
        owner,
        offset,
        lines: lines.to_owned(),
    };
    vec![
        (
            "run_begun",
            Command::RunBegun {
                jid: jid(),
                owner,
                lines: "begun\n".to_owned(),
            },
        ),
        ("run_copied", copied(0, "first\n")),
        ("run_copied/next", copied(6, "\u{e4}\n")),
        (
            "run_step",
            Command::RunStep {
                jid: jid(),
                owner,
                step: "step".to_owned(),
                job: OWN_JID.to_owned(),
            },
        ),
        (
            "run_claimed",
            Command::RunClaimed {
                jid: jid(),
                owner: other,
                expected: owner,
            },
        ),
        (
            "run_ended",
            Command::RunEnded {
                jid: jid(),
                owner: other,
            },
        ),
    ]
}

/// Returns examples of all commands, each with its name in the corpus. A store that applies them in
/// this order refuses none.
fn examples() -> Vec<(&'static str, Command)> {
    let groups = [
        of_keys(),
        of_other_keys(),
        of_events_and_jobs(),
        of_caches(),
        of_names(),
        of_removals(),
        of_rings(),
        of_runs(),
    ];
    groups.into_iter().flatten().collect()
}

fn file() -> PathBuf {
    folder().join("commands.rows")
}

/// Returns the bytes that the corpus has, by the names of the examples.
fn goldens() -> BTreeMap<String, Vec<u8>> {
    let text = fs::read_to_string(file()).unwrap();
    let goldens: BTreeMap<_, _> = text
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, bytes)| (name.to_owned(), unescaped(bytes)))
        .collect();
    assert_eq!(goldens.len(), text.lines().count());
    goldens
}

/// Appends the bytes of new examples to the corpus; run it with `--ignored`.
#[test]
#[ignore = "writes to the corpus"]
fn record() {
    let mut text = match fs::read_to_string(file()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read.unwrap(),
    };
    for (name, command) in examples() {
        let begin = format!("{name} ");
        if !text.lines().any(|line| line.starts_with(&begin)) {
            let bytes = encode(&command).unwrap();
            text.push_str(&format!("{begin}{}\n", escaped(&bytes)));
        }
    }
    fs::write(file(), text).unwrap();
}

/// Collects the variants of a command and of its parts.
fn collect(of: &Command, found: &mut BTreeSet<&'static str>) {
    found.insert(command(of));
    match of {
        Command::KeyOffered { claim: one, .. } => {
            found.insert(claim(one));
        }
        Command::KeyShown { files, .. } => {
            found.extend(files.iter().map(|(state, _)| key_state(state)));
        }
        Command::Cached {
            what, change: one, ..
        } => {
            found.extend([cache(what), change(one)]);
        }
        Command::All(all) => all.iter().for_each(|one| collect(one, found)),
        _ => {}
    }
}

#[test]
fn every_variant_has_an_example_and_every_example_a_golden() {
    let mut found = BTreeSet::new();
    let examples = examples();
    for (_, command) in &examples {
        collect(command, &mut found);
    }
    let all = [COMMANDS, CLAIMS, CACHES, CHANGES, STATES].concat();
    assert_eq!(found, all.into_iter().collect());
    let names: BTreeSet<_> = examples.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), examples.len());
    let goldens = goldens();
    let recorded: BTreeSet<_> = goldens.keys().map(String::as_str).collect();
    assert_eq!(names, recorded);
}

/// Compares by text, because values that are equal in Python can differ, as `1` and `1.0` do.
#[test]
fn a_golden_is_decoded_to_its_example_and_the_example_encoded_to_its_golden() {
    let goldens = goldens();
    for (name, command) in examples() {
        let golden = &goldens[name];
        let decoded = decode(golden).unwrap();
        assert_eq!(format!("{decoded:?}"), format!("{command:?}"), "{name}");
        let bytes = encode(&command).unwrap();
        assert_eq!(escaped(&bytes), escaped(golden), "{name}");
    }
}

#[test]
fn a_golden_changes_a_store_as_its_example_does() {
    let goldens = goldens();
    let (of_examples, of_goldens) = (World::new(), World::new());
    let rows = |world: &World| Table::ALL.map(|table| written(world, table));
    let mut before = rows(&of_examples);
    let mut unchanged = Vec::new();
    for (name, command) in examples() {
        let applied = of_examples.apply(command);
        assert!(!applied.is_void(), "{name}: {applied:?}");
        let golden = decode(&goldens[name]).unwrap();
        assert_eq!(of_goldens.apply(golden), applied, "{name}");
        let after = rows(&of_examples);
        assert_eq!(rows(&of_goldens), after, "{name}");
        if after == before {
            unchanged.push(name);
        }
        before = after;
    }
    // These remove rows of which the store has none.
    let removals = [
        "key_shown/none",
        "cached/clear",
        "cursor/removed",
        "reaction/removed",
    ];
    assert_eq!(unchanged, removals);
}

fn encoded(map: Map) -> Vec<u8> {
    let mut bytes = Vec::new();
    msgpack::encode(&Value::Map(map), wire::Limits::STREAM, &mut bytes).unwrap();
    bytes
}

fn fields(golden: &[u8]) -> Map {
    match msgpack::decode(golden, wire::Limits::STREAM) {
        Ok(Value::Map(map)) => map,
        other => panic!("{other:?}"),
    }
}

fn problem(map: Map) -> String {
    decode(&encoded(map)).unwrap_err().to_string()
}

#[test]
fn truncated_and_damaged_bytes_are_errors() {
    for (name, golden) in goldens() {
        for length in 0..golden.len() {
            assert!(decode(&golden[..length]).is_err(), "{name}: {length}");
        }
        let longer = [golden.as_slice(), b"\xc0"].concat();
        let error = decode(&longer).unwrap_err().to_string();
        assert!(error.contains("1 bytes follow"), "{name}: {error}");
        // Another byte is an error or another command, and never a panic.
        for at in 0..golden.len() {
            for byte in [0x00, 0x7f, 0x80, 0xa0, 0xc0, 0xc9, 0xdf, 0xff] {
                let mut damaged = golden.clone();
                damaged[at] = byte;
                if let Ok(command) = decode(&damaged) {
                    encode(&command).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_field_that_is_missing_wrong_or_unknown_is_an_error() {
    for (name, golden) in goldens() {
        let whole = fields(&golden);
        let kind = whole.get("kind").unwrap().to_text();
        let path = |field: &str| match field {
            "kind" => "`command.kind`".to_owned(),
            field => format!("`command.{kind}.{field}`"),
        };
        for field in whole.keys().map(Value::to_text) {
            for wrong in [Value::Null, Value::Float(0.5), Value::Int(-1)] {
                let error = problem(whole.clone().with(&field, wrong));
                let said = format!("{} must be ", path(&field));
                assert!(error.starts_with(&said), "{name}: {error}");
            }
            let mut less = whole.clone();
            less.remove(&field);
            if OPTIONAL.contains(&(&kind, &field)) {
                decode(&encoded(less)).unwrap();
            } else {
                let error = problem(less);
                assert!(error.starts_with(&path(&field)), "{name}: {error}");
            }
        }
        let error = problem(whole.with("colour", "blue"));
        let said = format!("{} is unknown: use the release that wrote", path("colour"));
        assert!(error.starts_with(&said), "{name}: {error}");
    }
}

#[test]
fn an_unknown_kind_is_an_error_with_the_kind() {
    let cached = fields(&goldens()["cached/clear"]);
    let change = |change: Map| cached.clone().with("change", change);
    let all = |command: Map| {
        let nested = map("kind", "all").with("commands", Value::list([command.into()]));
        map("kind", "all").with("commands", Value::list([nested.into()]))
    };
    let long = "x".repeat(1000);
    let cases = [
        (map("kind", "eve").with("tag", "x"), "kind", "eve"),
        (map("kind", long.as_str()), "kind", &long[..64]),
        (change(map("kind", "halve")), "cached.change.kind", "halve"),
        (
            all(map("kind", "later")),
            "all.commands.0.all.commands.0.kind",
            "later",
        ),
    ];
    let what_to_do = "use the release that wrote it, or a later one";
    for (map, field, kind) in cases {
        let wanted = format!("`command.{field}` is {kind:?}, which is unknown: {what_to_do}");
        assert_eq!(problem(map), wanted);
    }
    for kindless in [Map::new(), map("kind", 1)] {
        assert_eq!(problem(kindless), "`command.kind` must be text");
    }
    let mut list = Vec::new();
    msgpack::encode(&Value::list([]), wire::Limits::STREAM, &mut list).unwrap();
    let error = decode(&list).unwrap_err().to_string();
    assert_eq!(error, "`command` must be a map with a `kind`");
}

#[test]
fn errors_name_the_field_and_what_it_must_be() {
    let goldens = goldens();
    let golden = |name: &str| fields(&goldens[name]);
    let event = golden("event/origin");
    let origin = event.get("origin").and_then(Value::as_map).unwrap();
    let event = |name: &str, value: Value| {
        let origin = origin.clone().with(name, value);
        event.clone().with("origin", origin)
    };
    let cases = [
        (
            event("epoch", (-1).into()),
            "event.origin.epoch` must be a whole number from 0 to 18446744073709551615",
        ),
        (
            event("key", Value::Bytes([1; 31].into())),
            "event.origin.key` must be the 32 bytes of a key",
        ),
        (
            event("colour", "blue".into()),
            "event.origin.colour` is unknown: use the release that wrote it, or a later one",
        ),
        (
            golden("key_offered/new").with("id", "../x"),
            "key_offered.id` must be a minion id",
        ),
        (
            golden("key_offered/new").with("claim", "old"),
            "key_offered.claim` must be nothing, new or proved",
        ),
        (
            golden("cached/clear").with("what", "pillars"),
            "cached.what` must be grains, pillar, mine or status",
        ),
        (
            golden("cached/clear").with("change", map("kind", "set")),
            "cached.change.set.data` must be a map",
        ),
        (
            golden("key_shown").with("files", map("lost", Value::Bytes([1; 32].into()))),
            "key_shown.files` must be a map from states to the 32 bytes of a key",
        ),
        (
            golden("job").with("minions", Value::list(["web".into(), "".into()])),
            "job.minions.1` must be a minion id",
        ),
    ];
    for (map, wanted) in cases {
        assert_eq!(problem(map), format!("`command.{wanted}"));
    }
}

#[test]
fn a_command_with_rows_of_the_maximum_size_is_encoded_and_a_larger_one_refused() {
    let limit = rows::ROW.bytes;
    let token = |bytes: usize| Command::Token {
        name: "t".to_owned(),
        data: Some(map("x", Value::Bytes(vec![0; bytes].into()))),
        expected: None,
    };
    let three = Command::All(vec![token(limit), token(limit), token(limit)]);
    let bytes = encode(&three).unwrap();
    assert_eq!(
        format!("{:?}", decode(&bytes).unwrap()),
        format!("{three:?}")
    );
    let error = encode(&token(4 * limit)).unwrap_err().to_string();
    assert!(error.contains("exceed the limit"), "{error}");
    let mut deep = Value::Null;
    for _ in 0..rows::ROW.depth - 1 {
        deep = Value::list([deep]);
    }
    let deep = Command::Cached {
        id: id("web"),
        key: key(1),
        what: Cache::Grains,
        change: Change::Set(map("deep", deep)),
    };
    let deepest = Command::All(vec![Command::All(vec![deep])]);
    assert!(decode(&encode(&deepest).unwrap()).is_ok());
    let deeper = Command::All(vec![Command::All(vec![Command::All(vec![deepest])])]);
    let error = encode(&deeper).unwrap_err().to_string();
    assert!(error.contains("nested deeper"), "{error}");
}
