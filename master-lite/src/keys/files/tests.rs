#![expect(clippy::disallowed_methods, reason = "a test's own files")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use link::key::KeyPair;

use super::*;
use crate::keys::changes::Changes;
use crate::store::Limits;

const SALTS: &str = "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA\n-----END PUBLIC KEY-----\n";

struct World {
    folder: tempfile::TempDir,
    store: Store,
    files: KeyFiles,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store"), Limits::default()).unwrap();
        let files = KeyFiles::open(&folder.path().join("pki"), Use::Both).unwrap();
        files.repair(&store, 1).unwrap();
        Self {
            folder,
            store,
            files,
        }
    }

    /// Restarts the master.
    fn again(self) -> (Self, Vec<Changed>) {
        let Self { folder, store, .. } = self;
        drop(store);
        let store = Store::open(&folder.path().join("store"), Limits::default()).unwrap();
        let files = KeyFiles::open(&folder.path().join("pki"), Use::Both).unwrap();
        let changed = files.repair(&store, 2).unwrap();
        let world = Self {
            folder,
            store,
            files,
        };
        (world, changed)
    }

    fn place(&self, place: &str) -> PathBuf {
        self.folder.path().join("pki").join(place)
    }

    fn apply(&self, command: Command) -> Outcome {
        self.files.apply(&self.store, vec![command], 3).unwrap()
    }

    fn offer(&self, name: &str, key: PublicKey) {
        self.apply(offered(name, key));
    }

    fn accept(&self, name: &str, key: PublicKey) {
        self.apply(accepted(name, key));
    }

    fn state(&self, name: &str) -> Option<(KeyState, PublicKey)> {
        let key = self.store.key(&id(name)).unwrap();
        key.map(|key| (key.state, key.key))
    }

    /// Returns all files below the folder of keys.
    fn listed(&self) -> Vec<String> {
        let mut all = Vec::new();
        for state in KeyState::ALL {
            for entry in fs::read_dir(self.place(state.folder())).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                all.push(format!("{}/{name}", state.folder()));
            }
        }
        all.sort();
        all
    }
}

fn id(name: &str) -> Id {
    name.parse().unwrap()
}

fn key() -> PublicKey {
    KeyPair::generate().unwrap().public()
}

fn offered(name: &str, key: PublicKey) -> Command {
    Command::KeyOffered {
        id: id(name),
        key,
        at_ms: 1,
        pending_max: 10,
        pending_per_address: u64::MAX,
        from: None,
        claim: Claim::Nothing,
    }
}

fn accepted(name: &str, key: PublicKey) -> Command {
    Command::KeyAccepted {
        id: id(name),
        key,
        at_ms: 1,
        bound: Map::new().with("role", "web"),
        replace: true,
    }
}

fn rejected(name: &str, key: PublicKey) -> Command {
    Command::KeyRejected {
        id: id(name),
        key,
        at_ms: 1,
    }
}

#[test]
fn files_follow_the_store() {
    let world = World::new();
    let (one, two) = (key(), key());
    world.offer("m1", one);
    assert_eq!(world.listed(), ["minions_pre/m1"]);
    world.accept("m1", one);
    assert_eq!(world.listed(), ["minions/m1"]);
    world.offer("m1", two);
    assert_eq!(world.listed(), ["minions/m1", "minions_denied/m1"]);
    let text = fs::read(world.place("minions/m1")).unwrap();
    assert_eq!(PublicKey::from_pem(&text), Ok(one));
    let mode = fs::metadata(world.place("minions/m1"))
        .unwrap()
        .permissions();
    assert_eq!(mode.mode() & 0o7777, 0o600);
    let outcome = world.apply(rejected("m1", one));
    let (id, state) = (id("m1"), Some(KeyState::Rejected));
    let changed = Changed {
        id: id.clone(),
        key: one,
        state,
    };
    assert_eq!(outcome.changed, [changed]);
    assert_eq!(world.listed(), ["minions_denied/m1", "minions_rejected/m1"]);
    let outcome = world.apply(accepted("m1", two));
    let replaced = [
        Changed {
            id: id.clone(),
            key: one,
            state: None,
        },
        Changed {
            id: id.clone(),
            key: two,
            state: Some(KeyState::Accepted),
        },
    ];
    assert_eq!(outcome.changed, replaced);
    assert_eq!(world.listed(), ["minions/m1"]);
    world.apply(deleted(&id, two, 1));
    assert!(world.listed().is_empty());
    let (world, changed) = world.again();
    assert_eq!((changed, world.state("m1")), (Vec::new(), None));
}

#[test]
fn what_an_administrator_did_while_the_master_was_down_counts() {
    let world = World::new();
    let keys: Vec<PublicKey> = (0..6).map(|_| key()).collect();
    let [moved, removed, copied, back, put, replaced] = keys[..] else {
        panic!()
    };
    world.offer("moved", moved);
    world.accept("removed", removed);
    world.offer("copied", copied);
    world.accept("back", back);
    world.accept("replaced", replaced);
    world.accept("stays", put);
    fs::rename(
        world.place("minions_pre/moved"),
        world.place("minions/moved"),
    )
    .unwrap();
    fs::remove_file(world.place("minions/removed")).unwrap();
    fs::copy(
        world.place("minions_pre/copied"),
        world.place("minions_rejected/copied"),
    )
    .unwrap();
    fs::rename(world.place("minions/back"), world.place("minions_pre/back")).unwrap();
    fs::write(world.place("minions/put"), put.pem()).unwrap();
    let new = key();
    fs::write(world.place("minions/replaced"), new.pem()).unwrap();
    let (world, changed) = world.again();
    assert_eq!(changed.len(), 7, "{changed:?}");
    assert_eq!(world.state("moved"), Some((KeyState::Accepted, moved)));
    assert_eq!(world.state("removed"), None);
    assert_eq!(world.state("copied"), Some((KeyState::Rejected, copied)));
    assert_eq!(world.state("back"), Some((KeyState::Pending, back)));
    assert_eq!(world.state("put"), Some((KeyState::Accepted, put)));
    assert_eq!(world.state("replaced"), Some((KeyState::Accepted, new)));
    assert_eq!(world.state("stays"), Some((KeyState::Accepted, put)));
    let expected = [
        "minions/moved",
        "minions/put",
        "minions/replaced",
        "minions/stays",
        "minions_pre/back",
        "minions_rejected/copied",
    ];
    assert_eq!(world.listed(), expected);
    let (_world, changed) = world.again();
    assert_eq!(changed, []);
}

#[test]
fn what_an_administrator_does_meanwhile_counts_when_somebody_looks() {
    let world = World::new();
    let (one, two) = (key(), key());
    world.offer("m1", one);
    assert_eq!(world.files.refresh(&world.store, 1).unwrap(), []);
    // An administrator acts before the minion connects, and while it waits.
    fs::write(world.place("minions/m2"), two.pem()).unwrap();
    let outcome = world.apply(offered("m2", two));
    let accepted = Some(KeyState::Accepted);
    assert_eq!(
        outcome.applied,
        [Applied::Key {
            state: accepted,
            before: accepted
        }]
    );
    fs::rename(world.place("minions_pre/m1"), world.place("minions/m1")).unwrap();
    let changed = world.files.refresh(&world.store, 1).unwrap();
    let expected = Changed {
        id: id("m1"),
        key: one,
        state: accepted,
    };
    assert_eq!(changed, [expected]);
    fs::remove_file(world.place("minions/m2")).unwrap();
    // A change by the master in between must not hide the administrator's.
    world.offer("m3", key());
    let changed = world.files.refresh(&world.store, 1).unwrap();
    let expected = Changed {
        id: id("m2"),
        key: two,
        state: None,
    };
    assert_eq!(changed, [expected]);
}

#[test]
fn what_a_crash_left_between_store_and_files_is_mended_towards_the_store() {
    let world = World::new();
    let (one, two) = (key(), key());
    world.accept("m1", one);
    // The store's command is applied, and the files are unchanged.
    world.store.apply_blocking(rejected("m1", one)).unwrap();
    world.store.apply_blocking(offered("m2", two)).unwrap();
    let (world, changed) = world.again();
    assert_eq!(changed, []);
    assert_eq!(world.listed(), ["minions_pre/m2", "minions_rejected/m1"]);
    // The new file is written, the old file still exists, and the mark is not updated.
    world.store.apply_blocking(accepted("m2", two)).unwrap();
    fs::write(world.place("minions/m2"), two.pem()).unwrap();
    fs::write(world.place("minions/.m3.new"), "-----BEGIN").unwrap();
    let (world, changed) = world.again();
    assert_eq!(changed, []);
    assert_eq!(world.listed(), ["minions/m2", "minions_rejected/m1"]);
    assert_eq!(world.state("m2"), Some((KeyState::Accepted, two)));
}

#[test]
fn files_that_were_lost_or_torn_take_no_key_away() {
    let world = World::new();
    let (one, two) = (key(), key());
    world.accept("m1", one);
    world.offer("m2", two);
    fs::remove_dir_all(world.place("minions")).unwrap();
    fs::write(world.place("minions_pre/m2"), "-----BEGIN PUB").unwrap();
    let (world, changed) = world.again();
    assert_eq!(changed, []);
    assert_eq!(world.listed(), ["minions/m1", "minions_pre/m2"]);
    let text = fs::read(world.place("minions_pre/m2")).unwrap();
    assert_eq!(PublicKey::from_pem(&text), Ok(two));
    fs::remove_dir_all(world.place("")).unwrap();
    let (world, changed) = world.again();
    assert_eq!(changed, []);
    assert_eq!(world.listed(), ["minions/m1", "minions_pre/m2"]);
}

#[test]
fn keys_of_salt_and_what_is_no_key_are_left_alone() {
    let world = World::new();
    fs::write(world.place("minions/m1"), SALTS).unwrap();
    fs::write(world.place("minions/m2"), "notes").unwrap();
    fs::create_dir(world.place("minions/m4")).unwrap();
    std::os::unix::fs::symlink("m1", world.place("minions/m5")).unwrap();
    let (world, changed) = world.again();
    assert_eq!(changed, []);
    let one = key();
    world.offer("m1", one);
    world.accept("m1", one);
    world.accept("m2", key());
    assert_eq!(world.state("m1"), Some((KeyState::Accepted, one)));
    assert_eq!(
        fs::read_to_string(world.place("minions/m1")).unwrap(),
        SALTS
    );
    assert_eq!(
        fs::read_to_string(world.place("minions/m2")).unwrap(),
        "notes"
    );
    let (world, changed) = world.again();
    assert_eq!(changed, []);
    assert_eq!(world.state("m1"), Some((KeyState::Accepted, one)));
    world.apply(rejected("m1", one));
    assert!(world.listed().contains(&"minions/m1".to_owned()));
    assert!(world.listed().contains(&"minions_rejected/m1".to_owned()));
}

#[test]
fn a_folder_that_others_may_write_to_is_refused() {
    let world = World::new();
    fs::set_permissions(world.place("minions"), fs::Permissions::from_mode(0o777)).unwrap();
    let error = KeyFiles::open(&world.place(""), Use::Both)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("other users can write to") && error.contains("minions"),
        "{error}"
    );
}

#[test]
fn changes_that_wait_are_written_together_and_one_that_cannot_be_costs_the_others_nothing() {
    let world = World::new();
    let changes = Changes::default();
    fs::create_dir(world.place("minions/m3")).unwrap();
    let answers: Vec<_> = (0..8)
        .map(|number| {
            let name = format!("m{number}");
            let (answer, is_first) = changes.put(Some(accepted(&name, key())));
            assert_eq!(is_first, number == 0);
            answer
        })
        .collect();
    let told = Mutex::new(BTreeSet::new());
    changes.write(&world.files, &world.store, |changed| {
        let ids = changed.iter().map(|change| change.id.to_string());
        told.lock().unwrap().extend(ids);
    });
    for (number, answer) in answers.into_iter().enumerate() {
        let answer = answer.try_recv().unwrap();
        assert_eq!(answer.is_ok(), number != 3, "{answer:?}");
        let name = format!("m{number}");
        let text = fs::read(world.place("minions").join(&name));
        assert_eq!(text.is_ok(), number != 3);
        assert!(number == 3 || told.lock().unwrap().contains(&name));
    }
    let (answer, is_first) = changes.put(None);
    assert!(is_first, "somebody writes still");
    changes.write(&world.files, &world.store, |_| {});
    assert!(answer.try_recv().is_ok());
}

#[test]
fn files_that_are_a_view_show_the_keys_and_change_nothing() {
    let world = World::new();
    let [own, other] = [key(), key()];
    world.offer("m1", own);
    world.accept("m1", own);
    let pki = world.folder.path().join("pki");
    assert!(!KeyFiles::are_view(&pki));
    let view = KeyFiles::open(&pki, Use::View).unwrap();
    assert!(KeyFiles::are_view(&pki));
    // A file that was added is not a key, and one that was removed is written again.
    write(&world.place("minions/m2"), other.pem().as_bytes()).unwrap();
    unlink(&world.place("minions/m1")).unwrap();
    assert_eq!(view.repair(&world.store, 5).unwrap(), []);
    assert!(!world.place("minions/m2").exists() && world.place("minions/m1").exists());
    assert!(world.store.key(&"m2".parse().unwrap()).unwrap().is_none());
    // Another master of the cluster has deleted the key.
    let deleted = deleted(&"m1".parse().unwrap(), own, 6);
    world.store.apply_blocking(deleted).unwrap();
    let ids = BTreeSet::from(["m1".parse().unwrap()]);
    view.show_all(&world.store, &ids).unwrap();
    assert!(!world.place("minions/m1").exists());
    KeyFiles::open(&pki, Use::Both).unwrap();
    assert!(!KeyFiles::are_view(&pki));
}
