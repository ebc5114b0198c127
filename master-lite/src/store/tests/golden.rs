//! Tests that the rows on the disk have the same bytes as those stored for each format of the store
//! in `tests/corpus/store`. A row that a release has written never changes; a new kind of row, or
//! another form of one, is another format or a further row.

use reactor::Place;

use super::super::disk::{Disk, FORMAT};
use super::super::rows::{Returned, Table, holder};
use super::*;

pub(super) const STAMP: &str = "2026-11-20T10:10:35.942822";
pub(super) const JID: &str = "20261120101035942505";
/// The job that a minion gave itself. Its record comes with its return.
pub(super) const OWN_JID: &str = "20261120101104987150";
/// An id that is longer than the shortest form of a text.
pub(super) const LONG: &str = "web-01.a-long-name-of-a-region.example.org";
pub(super) const PLACE: Place = Place {
    rule: 0x0102_0304_0506_0708,
    sequence: 2,
};

pub(super) fn folder() -> PathBuf {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus/store");
    corpus.join(format!("format{FORMAT}"))
}

pub(super) fn map(key: &str, value: impl Into<Value>) -> Map {
    Map::new().with(key, value)
}

/// A map with a value of each kind.
pub(super) fn values() -> Map {
    map("none", Value::Null)
        .with("yes", true)
        .with("number", -7)
        .with("large", u64::MAX)
        .with("half", 0.5)
        .with("text", "ä")
        .with("bytes", Value::Bytes(b"\x00\xff".as_slice().into()))
        .with("list", Value::list([1.into(), Map::new().into()]))
}

pub(super) fn origin(name: &str, number: u8, sequence: u64) -> Option<Origin> {
    Some(Origin {
        id: id(name),
        key: key(number),
        epoch: 0x0a0b,
        sequence,
    })
}

fn web() -> Key {
    Key {
        id: id("web"),
        key: key(1),
        state: KeyState::Accepted,
        at_ms: 1_795_169_435_942,
        bound: map("role", "web"),
        from: None,
    }
}

fn pending() -> Key {
    Key {
        id: id("db"),
        key: key(2),
        state: KeyState::Pending,
        at_ms: 3,
        bound: Map::new(),
        from: Some("192.0.2.7".to_owned()),
    }
}

fn denied() -> Key {
    Key {
        id: id("web"),
        key: key(9),
        state: KeyState::Denied,
        at_ms: 4,
        bound: Map::new(),
        from: None,
    }
}

fn key_files() -> Vec<(KeyState, PublicKey)> {
    vec![(KeyState::Accepted, key(1)), (KeyState::Denied, key(9))]
}

/// The events of the log, each with its holder.
fn events() -> [(Event, &'static str); 3] {
    let event = |sequence, tag: &str, data| Event {
        sequence,
        tag: tag.to_owned(),
        stamp: STAMP.to_owned(),
        at_ms: 5,
        data,
    };
    [
        (event(1, "salt/key", values()), ""),
        (event(2, "own/tag", map("id", "web")), "web"),
        (event(3, "own/tag", map("id", LONG)), LONG),
    ]
}

fn job() -> Job {
    Job {
        jid: JID.to_owned(),
        load: map("fun", "test.ping").with("user", "root"),
        minions: vec![id("db"), id("web")],
        at_ms: 6,
    }
}

/// The record of a job of which only the return is known.
fn own_job() -> Job {
    Job {
        jid: OWN_JID.to_owned(),
        load: Map::new(),
        minions: Vec::new(),
        at_ms: 7,
    }
}

fn returned() -> Returned {
    Returned {
        id: id("web"),
        at_ms: 7,
        data: map("return", true).with("retcode", 0),
    }
}

fn caches() -> [(Cache, Map); 3] {
    [
        (Cache::Grains, map("os", "Debian")),
        (Cache::Pillar, values()),
        (Cache::Mine, map("network.ip_addrs", Value::list([]))),
    ]
}

fn key_accepted(key: Key) -> Command {
    Command::KeyAccepted {
        id: key.id,
        key: key.key,
        at_ms: key.at_ms,
        bound: key.bound,
        replace: true,
    }
}

fn key_commands() -> Vec<Command> {
    let web = web();
    let gone = Key {
        id: id("gone"),
        key: key(3),
        ..web.clone()
    };
    let long = Key {
        id: id(LONG),
        key: key(4),
        ..web.clone()
    };
    let offered = |key: Key| Command::KeyOffered {
        id: key.id,
        key: key.key,
        at_ms: key.at_ms,
        from: key.from,
        pending_max: 9,
        pending_per_address: 9,
        claim: Claim::Nothing,
    };
    vec![
        key_accepted(web),
        key_accepted(long),
        offered(pending()),
        offered(denied()),
        key_accepted(gone.clone()),
        Command::KeyDeleted {
            id: gone.id,
            key: gone.key,
            at_ms: 8,
        },
        Command::KeyShown {
            id: id("web"),
            files: key_files(),
        },
        Command::Token {
            name: "enroll/a".to_owned(),
            data: Some(map("uses", 2)),
            expected: None,
        },
        Command::Cursor {
            name: "reactor/a".to_owned(),
            sequence: Some(2),
        },
        Command::Cursor {
            name: "far".to_owned(),
            sequence: Some(u64::MAX),
        },
    ]
}

fn job_commands() -> Vec<Command> {
    let (job, returned) = (job(), returned());
    let return_of = |jid: &str, origin| Command::Return {
        jid: jid.to_owned(),
        id: returned.id.clone(),
        data: returned.data.clone(),
        at_ms: returned.at_ms,
        origin,
    };
    vec![
        Command::Job {
            jid: job.jid,
            load: job.load,
            minions: job.minions,
            at_ms: job.at_ms,
        },
        return_of(JID, origin("web", 1, 2)),
        return_of(OWN_JID, None),
        Command::Reaction {
            place: PLACE,
            row: Some(map("state", "done")),
        },
    ]
}

/// Returns commands that write a row of each kind.
fn commands() -> Vec<Command> {
    let events = events().map(|(event, holder)| Command::Event {
        origin: match holder {
            "web" => origin("web", 1, 1),
            LONG => origin(LONG, 4, 1),
            _ => None,
        },
        tag: event.tag,
        data: event.data,
        stamp: event.stamp,
        at_ms: event.at_ms,
    });
    let caches = caches().map(|(what, data)| Command::Cached {
        id: id("web"),
        key: key(1),
        what,
        change: Change::Set(data),
    });
    let keys = key_commands().into_iter();
    keys.chain(events)
        .chain(job_commands())
        .chain(caches)
        .collect()
}

/// Returns a part of a row as ASCII without spaces.
pub(super) fn escaped(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string().replace(' ', "\\x20")
}

pub(super) fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let (byte, taken) = match (first, after) {
            (b'\\', [b'x', high, low, ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).unwrap();
                (u8::from_str_radix(digits, 16).unwrap(), 4)
            }
            (b'\\', [b'n', ..]) => (b'\n', 2),
            (b'\\', [b'r', ..]) => (b'\r', 2),
            (b'\\', [b't', ..]) => (b'\t', 2),
            (b'\\', [other, ..]) => (*other, 2),
            (byte, _) => (*byte, 1),
        };
        bytes.push(byte);
        rest = &rest[taken..];
    }
    bytes
}

/// Returns the rows that the commands write into a table, as the corpus has them: a line each, with
/// the key and the value.
pub(super) fn written(world: &World, table: Table) -> String {
    let disk = world.store.disk().unwrap();
    let rows = disk.table(table).iter().map(|row| {
        let (key, value) = row.into_inner().unwrap();
        format!("{} {}\n", escaped(&key), escaped(&value))
    });
    rows.collect()
}

fn file(table: Table) -> PathBuf {
    folder().join(format!("{}.rows", table.name()))
}

fn applied() -> World {
    let world = World::new();
    for command in commands() {
        let shown = format!("{command:?}");
        assert!(!world.apply(command).is_void(), "{shown}");
    }
    world
}

/// Writes the corpus of a new format; run it with `--ignored`.
#[test]
#[ignore = "writes to the corpus"]
fn record() {
    let world = applied();
    fs::create_dir_all(folder()).unwrap();
    for table in Table::ALL {
        if !file(table).exists() {
            fs::write(file(table), written(&world, table)).unwrap();
        }
    }
}

#[test]
fn commands_write_the_bytes_that_they_always_wrote() {
    let world = applied();
    for table in Table::ALL {
        let kept = fs::read_to_string(file(table)).unwrap();
        assert_eq!(written(&world, table), kept, "{}", table.name());
    }
}

/// Returns a store with the rows of the corpus.
fn of_corpus() -> World {
    let World { folder, store } = World::new();
    let path = folder.path().join("store");
    drop(store);
    let disk = Disk::open(&path, &Limits::default()).unwrap();
    for table in Table::ALL {
        for line in fs::read_to_string(file(table)).unwrap().lines() {
            let (key, value) = line.split_once(' ').unwrap();
            let rows = disk.table(table);
            rows.insert(unescaped(key), unescaped(value)).unwrap();
        }
    }
    disk.database()
        .persist(fjall::PersistMode::SyncAll)
        .unwrap();
    drop(disk);
    let store = open(&path).unwrap();
    World { folder, store }
}

#[test]
fn committed_keys_and_caches_read_as_ever() {
    let World { store, .. } = &of_corpus();
    let web = web();
    assert_eq!(store.key(&web.id).unwrap(), Some(web.clone()));
    assert_eq!(store.key(&id("db")).unwrap(), Some(pending()));
    assert_eq!(store.key(&id("gone")).unwrap(), None);
    assert_eq!(store.denied(&web.id).unwrap(), [denied()]);
    assert_eq!(store.key_files(&web.id).unwrap(), key_files());
    assert_eq!(store.durable(&web.id, &web.key, 0x0a0b).unwrap(), 2);
    assert_eq!(store.token("enroll/a").unwrap(), Some(map("uses", 2)));
    let deleted = store.token(&deleted_key(&key(3))).unwrap();
    assert_eq!(deleted, Some(map("at_ms", 8)));
    assert_eq!(store.cursor("reactor/a").unwrap(), Some(2));
    assert_eq!(store.cursor("far").unwrap(), Some(u64::MAX));
    for (what, data) in caches() {
        assert_eq!(store.cached(what, &web.id).unwrap(), Some(data), "{what:?}");
    }
}

#[test]
fn committed_events_and_jobs_read_as_ever() {
    let World { store, .. } = &of_corpus();
    assert_eq!(store.log().unwrap(), (1, 4));
    let read: Vec<Event> = store.events(1).unwrap().map(Result::unwrap).collect();
    assert_eq!(read, events().map(|(event, _)| event));
    for (event, of) in events() {
        let row = store.row(Table::Events, &rows::at::event(event.sequence));
        assert_eq!(holder(&row.unwrap().unwrap()), of);
    }
    assert_eq!(store.job(JID).unwrap(), Some(job()));
    assert_eq!(store.job(OWN_JID).unwrap(), Some(own_job()));
    for jid in [JID, OWN_JID] {
        let read = store.returned(jid, &id("web")).unwrap();
        assert_eq!(read, Some(returned()), "{jid}");
    }
    assert_eq!(store.reaction(PLACE).unwrap(), Some(map("state", "done")));
}
