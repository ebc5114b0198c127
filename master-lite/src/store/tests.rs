#![expect(clippy::disallowed_methods, reason = "a test's own files")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use link::key::PublicKey;
use value::{Map, Value};
use wire::Id;

use super::*;

mod commands;
mod digest;
mod elsewhere;
mod events;
mod faults;
mod golden;
mod keys;
mod load;
mod replica;
mod runs;

/// A store in a separate folder.
struct World {
    folder: tempfile::TempDir,
    store: Store,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder.path().join("store")).unwrap();
        Self { folder, store }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// Closes the store and opens it again.
    fn again(self) -> Self {
        let Self { folder, store } = self;
        drop(store);
        let store = open(&folder.path().join("store")).unwrap();
        Self { folder, store }
    }

    fn apply(&self, command: Command) -> Applied {
        self.store.apply_blocking(command).unwrap()
    }

    /// Accepts a minion's key.
    fn accept(&self, name: &str, number: u8) {
        let applied = self.apply(accepted(name, number));
        let is_in = matches!(
            applied,
            Applied::Key {
                state: Some(KeyState::Accepted),
                ..
            }
        );
        assert!(is_in, "{applied:?}");
    }
}

fn open(folder: &Path) -> Result<Store, Error> {
    Store::open(folder, Limits::default())
}

fn id(name: &str) -> Id {
    name.parse().unwrap()
}

fn key(number: u8) -> PublicKey {
    PublicKey::from_bytes([number; 32])
}

fn accepted(name: &str, number: u8) -> Command {
    Command::KeyAccepted {
        id: id(name),
        key: key(number),
        at_ms: 1,
        bound: Map::new(),
        replace: true,
    }
}

fn offered(name: &str, number: u8) -> Command {
    Command::KeyOffered {
        id: id(name),
        key: key(number),
        at_ms: 1,
        pending_max: 3,
        pending_per_address: u64::MAX,
        from: None,
        claim: Claim::Nothing,
    }
}

fn event(tag: &str, at_ms: u64) -> Command {
    Command::Event {
        tag: tag.to_owned(),
        data: Map::new().with("n", at_ms),
        stamp: "2026-01-01T00:00:00.000000".to_owned(),
        at_ms,
        origin: None,
    }
}

/// Returns an event of a minion that was accepted with `accept(name, number)`.
fn sent(name: &str, number: u8, epoch: u64, sequence: u64) -> Command {
    Command::Event {
        tag: format!("my/{sequence}"),
        data: Map::new().with("n", sequence),
        stamp: String::new(),
        at_ms: 1,
        origin: Some(origin(name, number, epoch, sequence)),
    }
}

fn origin(name: &str, number: u8, epoch: u64, sequence: u64) -> Origin {
    Origin {
        id: id(name),
        key: key(number),
        epoch,
        sequence,
    }
}

#[test]
fn a_second_master_is_told_which_folder() {
    let world = World::new();
    let error = open(&world.path()).err().unwrap();
    let is_locked = matches!(&error, Error::Locked { folder } if *folder == world.path());
    assert!(is_locked, "{error}");
    assert!(error.to_string().contains("only one master"), "{error}");
    world.again();
}

#[test]
fn a_newer_store_is_refused_and_not_touched() {
    let world = World::new();
    let path = world.path();
    let World {
        folder: _folder,
        store,
    } = world;
    drop(store);
    fs::write(path.join("format"), "7\n").unwrap();
    // The lock file contains the process id of its holder, so it changes.
    let listed = |path: &Path| {
        let mut files = listed(path);
        files.retain(|(file, ..)| *file != path.join("lock"));
        files
    };
    let before = listed(&path);
    let error = open(&path).err().unwrap();
    let says = matches!(
        error,
        Error::Newer {
            found: 7,
            known: 1,
            ..
        }
    );
    assert!(says, "{error}");
    assert_eq!(listed(&path), before);
}

fn listed(folder: &Path) -> Vec<(PathBuf, u64, std::time::SystemTime)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::metadata(&path).unwrap();
        if metadata.is_dir() {
            all.extend(listed(&path));
        }
        all.push((path, metadata.len(), metadata.modified().unwrap()));
    }
    all.sort();
    all
}

#[test]
fn damage_is_named_with_what_to_do() {
    let world = World::new();
    world.accept("m1", 1);
    let path = world.path();
    let World {
        folder: _folder,
        store,
    } = world;
    drop(store);
    fs::write(path.join("format"), "x").unwrap();
    let error = open(&path).err().unwrap().to_string();
    assert!(
        error.contains("damaged") && error.contains("move the folder away"),
        "{error}"
    );
    fs::write(path.join("format"), "1\n").unwrap();
    fs::write(path.join("tables/version"), "???").unwrap();
    let error = open(&path).err().unwrap();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    fs::remove_file(path.join("format")).unwrap();
    let error = open(&path).err().unwrap();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
}

/// Returns all rows of a store.
fn exported(store: &Store) -> Result<Vec<u8>, Error> {
    let mut all = Vec::new();
    store.export(&mut |piece| {
        all.extend(piece);
        true
    })?;
    Ok(all)
}

/// Copies a folder. A program that copies would keep the locks of other tests' stores while it starts.
fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

#[test]
fn one_flipped_bit_in_a_table_or_list_is_named() {
    let mut world = World::new();
    for number in 0..300_u32 {
        let data = Map::new().with("text", "x".repeat(5000));
        let name = format!("t{number}");
        let token = Command::Token {
            name,
            data: Some(data),
            expected: None,
        };
        world.apply(token);
    }
    world = world.again();
    let (path, rows) = (world.path(), exported(&world.store).unwrap());
    let World { folder, store } = world;
    drop(store);
    let copy = folder.path().join("copy");
    copy_folder(&path, &copy);
    let (mut seed, mut found) = (11_u64, 0);
    for (file, length, _) in listed(&copy.join("tables")) {
        if file.is_dir() || length == 0 || file.extension().is_some_and(|name| name == "jnl") {
            continue;
        }
        for _ in 0..4 {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let mut bytes = fs::read(&file).unwrap();
            let at = usize::try_from(seed >> 16).unwrap() % (bytes.len() * 8);
            bytes[at / 8] ^= 1 << (at % 8);
            fs::remove_dir_all(&path).unwrap();
            copy_folder(&copy, &path);
            fs::write(path.join(file.strip_prefix(&copy).unwrap()), bytes).unwrap();
            match open(&path).and_then(|store| exported(&store)) {
                Ok(read) => assert!(read == rows, "{}: bit {at}", file.display()),
                Err(error) => {
                    assert!(matches!(error, Error::Damaged { .. }), "{error}");
                    found += 1;
                }
            }
        }
    }
    assert!(found > 20, "{found}");
}

#[test]
fn nobody_else_can_read_it_whatever_the_mask_is() {
    let world = World::new();
    world.accept("m1", 1);
    for number in 0..3000 {
        let large = Map::new().with("text", "x".repeat(1000));
        let applied = smol::block_on(world.store.later(Command::Token {
            name: format!("t{number}"),
            data: Some(large),
            expected: None,
        }));
        applied.unwrap();
    }
    world.apply(event("last", 1));
    let mut files = 0;
    private(&world.path(), &mut files);
    assert!(files > 5, "{files}");
}

fn private(path: &Path, files: &mut usize) {
    let metadata = fs::metadata(path).unwrap();
    let mode = metadata.permissions().mode() & 0o7777;
    match metadata.is_dir() {
        true => {
            assert_eq!(mode, 0o700, "{path:?}");
            for entry in fs::read_dir(path).unwrap() {
                private(&entry.unwrap().path(), files);
            }
        }
        false => {
            assert_eq!(mode, 0o600, "{path:?}");
            *files += 1;
        }
    }
}

#[test]
fn tokens_and_cursors_have_names() {
    let world = World::new();
    let token = |data: Option<Map>, expected: Option<Map>| Command::Token {
        name: "t".to_owned(),
        data,
        expected,
    };
    let one = Map::new().with("left", 1);
    assert_eq!(world.apply(token(Some(one.clone()), None)), Applied::Done);
    assert_eq!(world.store.token("t").unwrap(), Some(one.clone()));
    assert_eq!(world.apply(token(None, Some(one.clone()))), Applied::Done);
    // A second use of the token at the same time comes too late.
    let late = world.apply(token(None, Some(one)));
    assert!(matches!(late, Applied::Refused(Refusal::Changed { .. })));
    assert_eq!(world.store.tokens().unwrap().count(), 0);
    let cursor = |sequence| Command::Cursor {
        name: "reactor".to_owned(),
        sequence,
    };
    world.apply(cursor(Some(u64::MAX)));
    let world = world.again();
    assert_eq!(world.store.cursor("reactor").unwrap(), Some(u64::MAX));
    assert_eq!(world.store.cursor("other").unwrap(), None);
    assert_eq!(world.store.cursors().unwrap(), ["reactor"]);
    world.apply(cursor(None));
    assert_eq!(world.store.cursor("reactor").unwrap(), None);
}

#[test]
fn many_changes_are_applied_in_batches_up_to_a_refusal() {
    let token = |number: usize, data: Option<Map>, expected| Command::Token {
        name: format!("t{number:05}"),
        data,
        expected,
    };
    let count = 2 * TOGETHER_MAX + 1;
    let one = Map::new().with("left", 1);
    let put = |number| token(number, Some(one.clone()), None);
    let sizes: Vec<usize> = batches((0..count).map(put).collect())
        .map(|batch| batch.len())
        .collect();
    assert_eq!(sizes, [TOGETHER_MAX, TOGETHER_MAX, 1]);
    let world = World::new();
    let apply = |commands| smol::block_on(world.store.apply_in_batches(commands));
    let left = || world.store.tokens().unwrap().count();
    apply((0..count).map(put).collect()).unwrap();
    assert_eq!(left(), count);
    // The data of the first token of the second batch is not the expected one.
    let changed = |number| Map::new().with("left", 1 + i64::from(number == TOGETHER_MAX));
    let removed = (0..count).map(|number| token(number, None, Some(changed(number))));
    let refused = apply(removed.collect()).unwrap_err();
    assert!(refused.contains("t01024"), "{refused}");
    assert_eq!(left(), TOGETHER_MAX + 1);
    let removed = (TOGETHER_MAX..count).map(|number| token(number, None, Some(one.clone())));
    apply(removed.collect()).unwrap();
    assert_eq!(left(), 0);
    apply(Vec::new()).unwrap();
}

#[test]
fn what_cannot_be_kept_is_refused_and_harms_nobody() {
    let world = World::new();
    let mut deep = Value::Null;
    for _ in 0..1000 {
        deep = Value::list([deep]);
    }
    let deep = Command::Token {
        name: "t".to_owned(),
        data: Some(Map::new().with("deep", deep)),
        expected: None,
    };
    let applied = world.apply(deep);
    assert!(
        matches!(applied, Applied::Refused(Refusal::Value { .. })),
        "{applied:?}"
    );
    for bad in ["", "a\0b", &"x".repeat(600)] {
        let applied = world.apply(event(bad, 1));
        assert!(
            matches!(applied, Applied::Refused(Refusal::Name { .. })),
            "{applied:?}"
        );
    }
    let one = world.apply(event("good", 1));
    assert_eq!(
        one,
        Applied::Event {
            sequence: 1,
            durable: 0
        }
    );
}
